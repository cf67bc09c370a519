//! Tree kernels: parameters, definitions and single pairs.
//!
//! A tree kernel counts the fragments that two trees share, each weighted by its size.
//! Which parts of a tree are its fragments tells the kernels apart:
//!
//! | kernel | a fragment is | weight of a pair |
//! |---|---|---|
//! | [`Kernel::Subtree`] | a node with all below it | λ per inner node |
//! | [`Kernel::SubsetTree`] | a connected part; each node with all its children or none | λ per production |
//! | [`Kernel::PartialTree`] | any connected part; children may be left out | μ per node, λ per gap |
//! | [`Kernel::ElasticTree`] | nodes in the tree's order; nodes may be left out | λ per node |
//!
//! [`naive`] transcribes the definitions; [`crate::gram`] computes whole matrices.

mod bags;
pub(crate) mod elastic;
pub mod naive;
mod number;
pub(crate) mod partial;
#[cfg(test)]
pub(crate) mod sample;
pub(crate) mod subset;
pub(crate) mod subtree;

pub(crate) use bags::Bags;
pub(crate) use number::{Number, Scaled};

use crate::{Error, Result};

/// Trees made ready for single pairs: each evaluation is one call, allocates nothing
/// once its scratch has grown, and may be done in any [`Number`].
pub(crate) trait Pairs: Sync {
    /// What is kept from call to call, of one and the same value of this type.
    type Scratch<N: Number>: Default + Send;

    /// Whether [`pair`](Self::pair) would look at more than so many pairs of nodes,
    /// where a row engine could do with fewer.
    fn exceeds(&self, _a: usize, _b: usize, _limit: f64) -> bool {
        false
    }

    /// K of the trees with these numbers.
    fn pair<N: Number>(&self, a: usize, b: usize, scratch: &mut Self::Scratch<N>) -> N;
}

/// A tree kernel with its parameters. Normalisation is the caller's: see
/// [`crate::gram::Options`].
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Kernel {
    /// Fragments are complete subtrees (Vishwanathan & Smola 2002).
    Subtree {
        /// λ: weight of a fragment per inner node.
        decay: f64,
        /// What each pair of leaves with equal labels adds.
        leaf_weight: f64,
    },
    /// Fragments expand a node completely or not at all (Collins & Duffy 2002).
    SubsetTree {
        /// λ: weight of a fragment per production.
        decay: f64,
        /// What each pair of leaves with equal labels adds.
        leaf_weight: f64,
    },
    /// Fragments are any connected parts (Moschitti, ECML 2006).
    PartialTree {
        /// λ: per child left out between two of a fragment's.
        decay: f64,
        /// μ: per node of a fragment.
        mu: f64,
        /// How much more a leaf's single-node fragment weighs.
        leaf_factor: f64,
        /// The longest child subsequence that counts.
        max_children: Option<usize>,
    },
    /// Fragments keep order and ancestry but may skip nodes (Kashima & Koyanagi 2002).
    ElasticTree {
        /// λ: per node of a fragment.
        decay: f64,
    },
}

impl Kernel {
    /// The same kernel, its parameters found to be in range.
    ///
    /// # Errors
    /// [`Error::Parameter`] that names parameter, range and value.
    pub fn validated(self) -> Result<Self> {
        match self {
            Self::Subtree { decay, leaf_weight }
            | Self::SubsetTree { decay, leaf_weight } => {
                unit("decay", decay)?;
                not_negative("leaf_weight", leaf_weight)?;
            }
            Self::PartialTree { decay, mu, leaf_factor, max_children } => {
                unit("decay", decay)?;
                unit("mu", mu)?;
                not_negative("leaf_factor", leaf_factor)?;
                if max_children == Some(0) {
                    let expected = "at least 1, or None for no limit";
                    return Err(parameter("max_children", expected, &0));
                }
            }
            Self::ElasticTree { decay } => unit("decay", decay)?,
        }
        Ok(self)
    }
}

fn parameter(name: &'static str, expected: &'static str, got: &impl ToString) -> Error {
    Error::Parameter { name, expected, got: got.to_string() }
}

pub(crate) fn unit(name: &'static str, value: f64) -> Result<()> {
    if value > 0.0 && value <= 1.0 {
        return Ok(());
    }
    Err(parameter(name, "above 0 and at most 1", &value))
}

fn not_negative(name: &'static str, value: f64) -> Result<()> {
    if value >= 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(parameter(name, "finite and not negative", &value))
}
