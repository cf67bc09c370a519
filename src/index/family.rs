//! Index families: what each stage of the crate makes of a kernel's index.
//!
//! A built-in kernel names the family whose index it has ([`Builtin::index`]), and rows,
//! models and bounds ask the family for their part. So none of them asks which kernel it is,
//! and a new family is one more `impl` here. A kernel that is another one with certain
//! parameters names that one's family.
//!
//! [`Builtin::index`]: crate::kernel::Builtin

use std::fmt::Debug;

use super::{elastic, partial, subset, subtree};
use crate::dag;
use crate::gram::engines::{self, Pool};
use crate::gram::{QueryEngine, RowsOf};
use crate::kernel::weights::finite;
use crate::kernel::{
    Composed, Counts, ElasticTree, PartialTree, SMALLEST, SmoothedPartialTree,
    SubsetTree, Subtree, TreeCounts, Weighted, subtree as subtrees,
};
use crate::neighbours::Blocks;
use crate::threads::Threads;
use crate::{Context, Forest, Nodes, Result};

/// An engine of trees.
type Engine = Box<dyn QueryEngine<Forest>>;

/// A family, with the parameters of a kernel.
pub(crate) trait Family: Debug {
    /// An engine of different trees.
    ///
    /// # Errors
    /// As [`Measure::prepare`](crate::gram::Measure::prepare).
    fn engine(
        &self,
        trees: &Forest,
        rows_of: RowsOf,
        context: &Context,
    ) -> Result<Engine>;

    /// Whether no value of the kernel is below 0.
    fn is_never_negative(&self) -> bool {
        true
    }

    /// Whether a pair of equal leaves adds to the kernel by itself. Where it does not, leaves
    /// need not be read.
    fn has_leaves(&self) -> bool {
        true
    }

    /// The empty index of a model; None where the kernel is not linear in the counts of a
    /// tree, as models add these up.
    fn model(&self) -> Option<dag::Index> {
        None
    }

    /// The parts of the kernel by which pairs of trees with small values are passed over;
    /// None where there is no bound by parts.
    ///
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory), and weights whose products are not finite.
    fn blocks(&self, _nodes: &Nodes) -> Result<Option<Blocks>> {
        Ok(None)
    }
}

/// Whether rows are longer than up to their own column.
fn is_whole(rows_of: RowsOf) -> bool {
    rows_of != RowsOf::LowerTriangle
}

/// An engine of different trees, which are read as the family needs them and indexed by `index`.
fn make_engine<E: engines::Engine>(
    family: &dyn Family,
    trees: &Forest,
    context: &Context,
    index: impl FnOnce(&TreeCounts, &Threads<'_>) -> Result<E>,
) -> Result<Engine> {
    let threads = Threads::for_trees(context, trees.len());
    let (nodes, roots) = (trees.nodes(), trees.roots());
    let counts = TreeCounts::by(family.has_leaves(), nodes, roots, &threads)?;
    Ok(Box::new(Pool::new(index(&counts, &threads)?)))
}

/// A kernel with weights of labels or productions.
#[derive(Debug)]
pub(crate) struct WithWeights<K> {
    pub(crate) kernel: K,
    pub(crate) weighted: Weighted,
}

impl Family for Subtree {
    fn engine(
        &self,
        trees: &Forest,
        rows_of: RowsOf,
        context: &Context,
    ) -> Result<Engine> {
        let nodes = trees.nodes();
        let Self { decay, leaf_weight } = *self;
        make_engine(self, trees, context, |counts, _| {
            let weights = subtrees::weights(nodes, decay, leaf_weight)?;
            let levels = Some([decay, leaf_weight]);
            engines::Subtree::<u32>::new(
                nodes,
                weights,
                levels,
                |n| n,
                counts,
                is_whole(rows_of),
            )
        })
    }

    fn has_leaves(&self) -> bool {
        self.leaf_weight > 0.0
    }

    fn model(&self) -> Option<dag::Index> {
        let Self { decay, leaf_weight } = *self;
        let weighted = None;
        Some(dag::Index::Subtree(subtree::Index { decay, leaf_weight, weighted }))
    }

    fn blocks(&self, nodes: &Nodes) -> Result<Option<Blocks>> {
        let weights = subtrees::weights(nodes, self.decay, self.leaf_weight)?;
        Ok(Some(Blocks::Subtrees { weights, counts: Counts::Linear }))
    }
}

impl Family for WithWeights<Subtree> {
    fn engine(
        &self,
        trees: &Forest,
        rows_of: RowsOf,
        context: &Context,
    ) -> Result<Engine> {
        let nodes = trees.nodes();
        make_engine(self, trees, context, |counts, _| {
            let table = self.weighted.table(nodes)?;
            let weights = subtrees::weighted(nodes, &self.kernel, &table)?;
            finite(&weights)?;
            // A plain function, so that the engine is one type for all three.
            let of_count: fn(u32) -> f64 = match table.counts {
                Counts::Linear => f64::from,
                Counts::Log => |count| Counts::Log.of(f64::from(count)),
                Counts::Set => |count| Counts::Set.of(f64::from(count)),
            };
            engines::Subtree::new(
                nodes,
                weights,
                None,
                of_count,
                counts,
                is_whole(rows_of),
            )
        })
    }

    fn has_leaves(&self) -> bool {
        self.kernel.has_leaves()
    }

    fn model(&self) -> Option<dag::Index> {
        // A model adds counts up over trees, and f of a sum is not the sum of f.
        if self.weighted.counts() != Counts::Linear {
            return None;
        }
        let Subtree { decay, leaf_weight } = self.kernel;
        let weighted = Some(subtree::Weighted::new(self.weighted.shared()));
        Some(dag::Index::Subtree(subtree::Index { decay, leaf_weight, weighted }))
    }

    fn blocks(&self, nodes: &Nodes) -> Result<Option<Blocks>> {
        let table = self.weighted.table(nodes)?;
        let weights = subtrees::weighted(nodes, &self.kernel, &table)?;
        finite(&weights)?;
        Ok(Some(Blocks::Subtrees { weights, counts: table.counts }))
    }
}

impl Family for SubsetTree {
    fn engine(
        &self,
        trees: &Forest,
        rows_of: RowsOf,
        context: &Context,
    ) -> Result<Engine> {
        // No weights by label: all leaves have the one.
        let (nodes, no_weights) = (trees.nodes(), Vec::new());
        let Self { decay, leaf_weight } = *self;
        make_engine(self, trees, context, |counts, threads| {
            engines::Subset::new(
                nodes,
                decay,
                leaf_weight,
                no_weights,
                counts,
                rows_of,
                threads,
            )
        })
    }

    fn has_leaves(&self) -> bool {
        self.leaf_weight > 0.0
    }

    fn model(&self) -> Option<dag::Index> {
        let index = subset::Index::new(self.decay, self.leaf_weight);
        Some(dag::Index::Subset(Box::new(index)))
    }

    fn blocks(&self, _: &Nodes) -> Result<Option<Blocks>> {
        Ok(Some(Blocks::Productions(self.clone())))
    }
}

impl Family for WithWeights<SubsetTree> {
    fn engine(
        &self,
        trees: &Forest,
        rows_of: RowsOf,
        context: &Context,
    ) -> Result<Engine> {
        let nodes = trees.nodes();
        let SubsetTree { decay, leaf_weight } = self.kernel;
        make_engine(self, trees, context, |counts, threads| {
            let table = self.weighted.table(nodes)?;
            engines::Subset::new(
                nodes,
                table.productions_times(decay)?,
                leaf_weight,
                table.labels_times(leaf_weight)?,
                counts,
                rows_of,
                threads,
            )
        })
    }

    fn has_leaves(&self) -> bool {
        self.kernel.has_leaves()
    }
}

impl Family for PartialTree {
    fn engine(&self, trees: &Forest, _: RowsOf, context: &Context) -> Result<Engine> {
        let Self { decay, mu, leaf_factor, max_children } = *self;
        let params = engines::Params { decay, mu, leaf_factor, max_children };
        make_engine(self, trees, context, |counts, threads| {
            engines::Partial::new(trees.nodes(), params, counts, &[], threads)
        })
    }

    fn model(&self) -> Option<dag::Index> {
        let Self { decay, mu, leaf_factor, max_children } = *self;
        let index = partial::Index::new(decay, mu, leaf_factor, max_children);
        Some(dag::Index::Partial(Box::new(index)))
    }

    fn blocks(&self, _: &Nodes) -> Result<Option<Blocks>> {
        // Where floats do not hold the smallest fragments, a block may seem to be empty.
        let is_held = self.mu * (self.decay * self.decay) >= SMALLEST;
        Ok(is_held.then_some(Blocks::Roots))
    }
}

impl Family for ElasticTree {
    fn engine(&self, trees: &Forest, _: RowsOf, context: &Context) -> Result<Engine> {
        make_engine(self, trees, context, |counts, threads| {
            engines::Elastic::new(trees.nodes(), self.decay, counts, threads)
        })
    }

    fn model(&self) -> Option<dag::Index> {
        Some(dag::Index::Elastic(Box::new(elastic::Index::new(self.decay))))
    }

    fn blocks(&self, _: &Nodes) -> Result<Option<Blocks>> {
        Ok(Some(Blocks::Roots))
    }
}

/// Its labels match by similarity, which may be negative.
impl Family for SmoothedPartialTree {
    fn engine(
        &self,
        trees: &Forest,
        rows_of: RowsOf,
        context: &Context,
    ) -> Result<Engine> {
        make_engine(self, trees, context, |counts, threads| {
            engines::Smoothed::new(self, trees.nodes(), counts, rows_of, threads)
        })
    }

    fn is_never_negative(&self) -> bool {
        false
    }
}

/// Rows are made of those of its parts.
impl Family for Composed {
    fn engine(
        &self,
        trees: &Forest,
        rows_of: RowsOf,
        context: &Context,
    ) -> Result<Engine> {
        Ok(Box::new(engines::Composed::new(self, trees, rows_of, context)?))
    }

    fn is_never_negative(&self) -> bool {
        false
    }
}
