//! Which indexed trees may be answers.

use super::{check_least, nearness};
use crate::gram::{Items, Measure};
use crate::{Error, Result};

/// Which indexed trees may be answers. The default: all.
///
/// ```
/// use std::sync::Arc;
/// use treekernel_rs::kernel::SubsetTree;
/// use treekernel_rs::neighbours::{Filter, Index, NOBODY};
/// use treekernel_rs::Forest;
///
/// let trees = Forest::from_brackets("(S (A a) (B b)) (S (A a) (B c)) (A a)")?;
/// let index = Index::new(Arc::new(SubsetTree::new(0.4)), trees.clone(), true)?;
/// let filter = Filter::default().with_at_least(0.55).with_exclude_equal(true);
/// let (found, _) = index.top_k_filtered(Some(&trees), 2, &filter)?;
/// assert_eq!(found.indices, [1, NOBODY, 0, NOBODY, NOBODY, NOBODY]);
/// # Ok::<(), treekernel_rs::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct Filter<'a> {
    /// The smallest kernel, or the largest distance.
    pub at_least: Option<f64>,
    /// By indexed tree whether it may be an answer.
    pub among: Option<&'a [bool]>,
    /// Trees that are equal to the one that asks are none.
    pub exclude_equal: bool,
}

impl<'a> Filter<'a> {
    /// This filter with a smallest kernel, or a largest distance.
    #[must_use]
    pub fn with_at_least(self, least: f64) -> Self {
        Self { at_least: Some(least), ..self }
    }

    /// This filter with some trees only.
    #[must_use]
    pub fn with_among(self, among: &'a [bool]) -> Self {
        Self { among: Some(among), ..self }
    }

    /// This filter with trees that are equal to the one that asks, or without.
    #[must_use]
    pub fn with_exclude_equal(self, exclude_equal: bool) -> Self {
        Self { exclude_equal, ..self }
    }

    /// For an index of so many trees.
    pub(super) fn check(&self, n: usize) -> Result<()> {
        if let Some(least) = self.at_least {
            check_least(least)?;
        }
        match self.among {
            Some(among) if among.len() != n => {
                let expected = format!("{n}, one per indexed tree");
                Err(Error::Length { array: "among", expected, got: among.len() })
            }
            _ => Ok(()),
        }
    }

    /// The least value that is an answer: of a distance with its sign turned.
    pub(super) fn least<X: Items>(&self, measure: &dyn Measure<X>) -> f64 {
        self.at_least.map_or(f64::NEG_INFINITY, |least| nearness(measure, least))
    }

    /// Of the items of a part.
    pub(super) fn of_part(&self, start: usize, n: usize) -> Choice<'a> {
        let among = self.among.map(|among| &among[start..start + n]);
        Choice { among, excludes_equal: self.exclude_equal }
    }
}

/// Which columns may be answers.
#[derive(Clone, Copy, Default)]
pub(super) struct Choice<'a> {
    /// By place; None: all.
    pub(super) among: Option<&'a [bool]>,
    /// Columns that are the row's item are left out.
    pub(super) excludes_equal: bool,
}

impl Choice<'_> {
    pub(super) fn is_all(&self) -> bool {
        self.among.is_none() && !self.excludes_equal
    }

    pub(super) fn has(&self, place: u32) -> bool {
        self.among.is_none_or(|among| among[place as usize])
    }
}
