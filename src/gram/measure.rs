//! What is compared, and by what.
//!
//! Matrices, rows, diagonals, neighbours and lists of pairs are computed for any list of
//! [`Items`] by any [`Measure`] of two of them. That is where items are told apart, shared
//! out to threads, normalised and stored; a measure says what two of them have in common.
//! Every [`Kernel`] is a measure of trees.
//!
//! A measure that has no more than values of single pairs is used as it is:
//!
//! ```
//! use treekernel_rs::gram::{self, Measure};
//! use treekernel_rs::kernel::{Prepared, Scaled, Worker};
//! use treekernel_rs::{Context, Forest, Result, neighbours};
//!
//! /// How much smaller the smaller of two trees is.
//! struct SizeRatio;
//!
//! impl Measure<Forest> for SizeRatio {
//!     fn check(&self) -> Result<()> {
//!         Ok(())
//!     }
//!
//!     fn prepare(&self, trees: &Forest, _: &Context) -> Result<Box<dyn Prepared>> {
//!         Ok(Box::new(Sizes(trees.n_nodes())))
//!     }
//! }
//!
//! struct Sizes(Vec<u64>);
//!
//! impl Prepared for Sizes {
//!     fn worker(&self) -> Worker<'_> {
//!         Box::new(|a, b, _| {
//!             let [a, b] = [a, b].map(|tree| self.0[tree] as f64);
//!             Ok(Scaled::from_f64(a.min(b) / a.max(b)))
//!         })
//!     }
//! }
//!
//! let forest = Forest::from_brackets("(S (A a) (B b)) (S a) (A a)")?;
//! let options = gram::Options::default();
//! let matrix = gram::gram(&SizeRatio, &forest, None, options)?;
//! assert_eq!(matrix.row(0).to_vec(), [1.0, 0.4, 0.4]);
//! let (nearest, _) = neighbours::top_k(&SizeRatio, &forest, None, 1, options)?;
//! assert_eq!(nearest.indices, [1, 2, 1]);
//! # Ok::<(), treekernel_rs::Error>(())
//! ```

use std::borrow::Cow;
use std::hash::Hash;
use std::sync::Arc;

use super::{QueryEngine, RowsOf};
use crate::dag::compact;
use crate::index::family::Family;
use crate::index::id_map::{IdMap, Wanted};
use crate::kernel::{Prepared, check};
use crate::memory::{Map, try_collect};
use crate::neighbours::{Bound, bound};
use crate::threads::Threads;
use crate::{Context, Forest, Kernel, NodeId, Result};

/// "Not among these".
const NONE: u32 = u32::MAX;

/// A list of items that a measure compares: trees, or pairs of trees.
///
/// Implemented by this crate's lists.
pub trait Items: Clone + Send + Sync + 'static {
    /// What equal items over one store of subtrees have in common, and no others.
    #[doc(hidden)]
    type Key: Eq + Hash + Ord + Send + Sync;

    /// How many there are.
    #[doc(hidden)]
    fn n_items(&self) -> usize;

    /// The trees that they are made of.
    #[doc(hidden)]
    fn trees(&self) -> &Forest;

    /// The key of an item among those of a store in which its trees are called what
    /// `twin` says.
    ///
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory).
    #[doc(hidden)]
    fn key(&self, item: usize, twin: &dyn Fn(NodeId) -> NodeId) -> Result<Self::Key>;

    /// The items with some numbers.
    ///
    /// # Errors
    /// [`Error::Capacity`](crate::Error::Capacity),
    /// [`Error::Memory`](crate::Error::Memory).
    #[doc(hidden)]
    fn pick(&self, items: &[usize]) -> Result<Self>;

    /// These items and then others, over one store.
    ///
    /// # Errors
    /// As [`pick`](Self::pick), and what `context` returns.
    #[doc(hidden)]
    fn chain(&self, others: &Self, context: &Context) -> Result<Self>;

    /// The same items, in a store of their own where theirs is much larger.
    ///
    /// # Errors
    /// As [`chain`](Self::chain).
    #[doc(hidden)]
    fn compact(&self, context: &Context) -> Result<Cow<'_, Self>>;
}

impl Items for Forest {
    type Key = NodeId;

    fn n_items(&self) -> usize {
        self.len()
    }

    fn trees(&self) -> &Forest {
        self
    }

    fn key(&self, item: usize, twin: &dyn Fn(NodeId) -> NodeId) -> Result<NodeId> {
        Ok(twin(self.roots()[item]))
    }

    fn pick(&self, items: &[usize]) -> Result<Self> {
        self.try_select(items)
    }

    fn chain(&self, others: &Self, context: &Context) -> Result<Self> {
        Self::try_concat_all([self, others], context)
    }

    fn compact(&self, context: &Context) -> Result<Cow<'_, Self>> {
        compact(self, context)
    }
}

/// A measure of two items: a kernel, or another one.
pub trait Measure<X: Items>: Send + Sync {
    /// Checks that every parameter is in range.
    ///
    /// # Errors
    /// [`Error::Parameter`](crate::Error::Parameter) that names parameter, range and value.
    fn check(&self) -> Result<()>;

    /// Makes items ready for the values of single pairs. Parameters are in their ranges. A
    /// value may be [given up](crate::Error::ConstraintLimit): others are computed then.
    ///
    /// # Errors
    /// [`Error::Capacity`](crate::Error::Capacity),
    /// [`Error::Memory`](crate::Error::Memory), and what `context` returns.
    fn prepare(&self, items: &X, context: &Context) -> Result<Box<dyn Prepared>>;

    /// How much a value may take, in the measure's own unit, before it is given up.
    fn limit(&self) -> u64 {
        u64::MAX
    }

    /// Whether the value of two items does not depend on which comes first. Where it does,
    /// a matrix of items among each other has both values.
    fn is_symmetric(&self) -> bool {
        true
    }

    /// Whether the smaller of two values is the nearer one.
    fn is_distance(&self) -> bool {
        false
    }

    /// For a distance that is wanted up to `most` only: one that says, where it is more,
    /// any value that is more than `most`. None: that would take as long.
    fn within(&self, _most: f64) -> Option<Box<dyn Measure<X>>> {
        None
    }

    /// For a distance: what says which of the first `n_columns` items are near another.
    /// None: the distances of all do.
    ///
    /// # Errors
    /// As [`prepare`](Self::prepare).
    #[doc(hidden)]
    fn near(
        &self,
        _items: &X,
        _n_columns: usize,
        _context: &Context,
    ) -> Result<Option<Arc<dyn Near<X>>>> {
        Ok(None)
    }

    /// What is faster than pair by pair.
    #[doc(hidden)]
    fn fast(&self) -> Option<&dyn Fast<X>> {
        None
    }
}

/// Items made ready whose near ones are found without all distances.
pub trait Near<X: Items>: Prepared {
    /// Columns before `end` that may be as near to an item as is [wanted](Measure::within),
    /// those that are among them.
    ///
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory), and what `context` returns.
    fn within(&self, item: usize, end: usize, context: &Context) -> Result<Vec<u32>>;

    /// As many columns as are wanted with the smallest distances from an item, the first ones
    /// by their places where these are equal, in any order; fewer if others are farther than
    /// is [wanted](Measure::within). A column without a place is none of them; without `place`
    /// a column's number is its place.
    ///
    /// # Errors
    /// As [`within`](Self::within).
    fn nearest(
        &self,
        item: usize,
        wanted: usize,
        place: Option<&dyn Fn(u32) -> Option<u32>>,
        context: &Context,
    ) -> Result<Vec<u32>>;

    /// These items, all of them columns, asked by others, which are numbered behind them, or
    /// by each other; distances above `most` need not be known. None: the others have to be
    /// made ready together with these.
    ///
    /// # Errors
    /// As [`within`](Self::within).
    fn asked_by(
        &self,
        items: Option<&X>,
        most: Option<f64>,
        context: &Context,
    ) -> Result<Option<Arc<dyn Near<X>>>>;

    /// About how many bytes the columns take.
    fn nbytes(&self) -> usize;
}

/// What this crate knows of its own measures.
pub trait Fast<X: Items> {
    /// An engine of some different items. None: rows are computed pair by pair.
    ///
    /// # Errors
    /// As [`Measure::prepare`].
    fn engine(
        &self,
        items: &X,
        rows_of: RowsOf,
        context: &Context,
    ) -> Result<Option<Box<dyn QueryEngine<X>>>>;

    /// Unit vectors whose dot products are no less than normalised values, if there are such.
    ///
    /// # Errors
    /// As [`Measure::prepare`].
    fn bound(&self, items: &X, context: &Context) -> Result<Option<Bound>>;

    /// Whether no value is below 0.
    fn is_never_negative(&self) -> bool;
}

impl<K: Kernel> Measure<Forest> for K {
    fn check(&self) -> Result<()> {
        check(self)
    }

    fn prepare(&self, trees: &Forest, context: &Context) -> Result<Box<dyn Prepared>> {
        self.pairs(trees.nodes(), trees.roots(), context)
    }

    fn fast(&self) -> Option<&dyn Fast<Forest>> {
        Some(self)
    }
}

impl<K: Kernel> Fast<Forest> for K {
    fn engine(
        &self,
        trees: &Forest,
        rows_of: RowsOf,
        context: &Context,
    ) -> Result<Option<Box<dyn QueryEngine<Forest>>>> {
        let kernel: &dyn Kernel = self;
        let engine = |index: Box<dyn Family>| index.engine(trees, rows_of, context);
        kernel.index().map(engine).transpose()
    }

    fn bound(&self, trees: &Forest, context: &Context) -> Result<Option<Bound>> {
        let threads = Threads::for_trees(context, trees.len());
        bound(self, trees.nodes(), trees.roots(), &threads)
    }

    fn is_never_negative(&self) -> bool {
        let kernel: &dyn Kernel = self;
        kernel.index().is_some_and(|index| index.is_never_negative())
    }
}

/// The numbers of some different items, by their keys.
pub(crate) struct Numbers<X: Items>(Map<X::Key, u32>);

impl<X: Items> Numbers<X> {
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory).
    pub(crate) fn new(items: &X) -> Result<Self> {
        let mut numbers = Map::default();
        numbers.reserve(items.n_items())?;
        for item in 0..items.n_items() {
            numbers.insert(items.key(item, &|root| root)?, item as u32)?;
        }
        Ok(Self(numbers))
    }

    /// By other items: the number of the equal one of these, or [`NONE`].
    pub(crate) fn find(&self, items: &X, others: &X) -> Result<Vec<u32>> {
        let (here, there) = (items.trees(), others.trees());
        // `twin` is what a node of the others is called here.
        let numbers_of = |twin: &dyn Fn(NodeId) -> NodeId| {
            try_collect((0..others.n_items()).map(|item| {
                let key = others.key(item, twin)?;
                Ok(self.0.get(&key).copied().unwrap_or(NONE))
            }))
        };
        // One store: ids are compared as they are.
        if here.shares_store(there) {
            return numbers_of(&|root| root);
        }
        // Else subtrees are looked up once, and items by these.
        let map = IdMap::new(there.nodes(), here.nodes(), Wanted::Nodes, |_| None)?;
        // No key has the node of what is not here.
        numbers_of(&|root| map.nodes[root].get().unwrap_or(NodeId(NONE)))
    }
}
