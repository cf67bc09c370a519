//! What the kernels of this crate have besides what every [`Kernel`] has.
//!
//! Each of them says so in one value, a [`Builtin`], which it fills in where it implements
//! [`Kernel`]. The rest of the crate reads that value and never asks which kernel it is. A
//! kernel of another crate has none: it is computed by its definition of single pairs.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use super::weights::Weightable;
use super::{Composed, Kernel};
use crate::features;
use crate::index::family::Family;

/// What a kernel of this crate has. Other crates can neither name nor make one.
#[derive(Debug)]
pub struct Builtin<'a> {
    /// The kernel itself.
    pub(super) kernel: &'a dyn Comparable,
    /// What makes rows fast: an index, which may make models graphs too, or those of parts.
    pub(crate) index: Option<Box<dyn Family>>,
    /// The recursion of its distributed trees.
    pub(crate) sketch: Option<Sketch>,
    /// The same kernel with weights of labels or productions.
    pub(crate) weightable: Option<&'a dyn Weightable>,
    /// Its fragments as features, at most 1 large.
    pub(crate) features: Option<features::Kind>,
    /// The operation and the kernels that it is made of.
    pub(crate) composed: Option<&'a Composed>,
}

impl<'a> Builtin<'a> {
    /// A kernel that is computed pair by pair, and has nothing else.
    pub(crate) fn new<K: Kernel + Clone + PartialEq>(kernel: &'a K) -> Self {
        Self {
            kernel,
            index: None,
            sketch: None,
            weightable: None,
            features: None,
            composed: None,
        }
    }

    /// Whether another kernel is of the same type and equal.
    pub(crate) fn equals(&self, other: &dyn Kernel) -> bool {
        self.kernel.equals(other)
    }

    /// The kernel, to be kept.
    pub(crate) fn shared(&self) -> Arc<dyn Kernel> {
        self.kernel.shared()
    }
}

/// A kernel by its derived equality, and as a copy.
pub(super) trait Comparable: Debug {
    fn equals(&self, other: &dyn Any) -> bool;

    fn shared(&self) -> Arc<dyn Kernel>;
}

impl<K: Kernel + Clone + PartialEq> Comparable for K {
    fn equals(&self, other: &dyn Any) -> bool {
        other.downcast_ref() == Some(self)
    }

    fn shared(&self) -> Arc<dyn Kernel> {
        Arc::new(self.clone())
    }
}

/// Whose recursion distributed trees follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    Subset,
    Subtree,
    Partial,
}

/// The recursion of distributed trees: factors of their vectors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sketch {
    pub(crate) rule: Rule,
    /// Of a fragment's value in its parent's operand and in the sum.
    pub(crate) value: f64,
    /// Of a leaf's label as an operand.
    pub(crate) leaf: f64,
    /// Of an inner node's label as an operand, where it is not expanded.
    pub(crate) cut: f64,
    /// Of a leaf in the sum.
    pub(crate) leaf_sum: f64,
    /// Of a child left out, and of a single node's label (partial trees).
    pub(crate) decay: f64,
    /// The longest child subsequence, where it counts (partial trees).
    pub(crate) longest: Option<usize>,
    /// What the smallest fragments weigh in the kernel.
    pub(crate) smallest: f64,
}
