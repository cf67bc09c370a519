//! Single pairs of trees that are made ready once.

use std::cmp::Ordering;
use std::sync::Arc;

use super::subset;
use super::trained::Different;
use super::{Items, Measure, RowsOf};
use crate::kernel::{
    Prepared, Scaled, SubsetTree, TreeCounts, Worker, subset as subset_trees,
};
use crate::memory::{copied, filled};
use crate::threads::Threads;
use crate::{Context, Error, Forest, Kernel, NodeId, Nodes, Result};

/// Trees made ready for the kernels of single pairs.
///
/// Where a whole row or matrix is wanted, [`KernelRows`](super::KernelRows) and
/// [`gram`](super::gram()) are ten times faster per pair and more. They add in another
/// order, so their values may differ in the last bits.
///
/// ```
/// use treekernel_rs::{Forest, gram, kernel::SubsetTree};
///
/// let forest = Forest::from_brackets("(S (A a) (B b)) (S (A a) (B c))")?;
/// let kernel = SubsetTree::new(0.4);
/// let pairs = gram::SinglePairs::new(&kernel, &forest)?;
/// let mut of = pairs.worker();
/// assert!((of(0, 1)? - 0.96).abs() < 1e-12);
/// # Ok::<(), treekernel_rs::Error>(())
/// ```
///
/// # Complexity
/// Time and memory to make ready: linear in the distinct subtrees of each tree. A pair:
/// see the kernels.
pub struct SinglePairs {
    singles: Box<dyn Prepared>,
    /// Each tree's number among the different ones.
    tree: Vec<u32>,
    /// How much a value may take before it is given up.
    limit: u64,
}

impl SinglePairs {
    /// Makes the trees of a forest ready, or the pairs of a list.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a kernel out of range, [`Error::Capacity`].
    pub fn new<X: Items>(measure: &dyn Measure<X>, items: &X) -> Result<Self> {
        Self::new_with(measure, items, &Context::default())
    }

    /// As [`new`](Self::new), in a context.
    ///
    /// # Errors
    /// As [`new`](Self::new), and what `context` returns.
    pub fn new_with<X: Items>(
        measure: &dyn Measure<X>,
        items: &X,
        context: &Context,
    ) -> Result<Self> {
        measure.check()?;
        let Different { items, places } = Different::new(items)?;
        let singles = measure.prepare(&items, context)?;
        Ok(Self { singles, tree: places.of, limit: measure.limit() })
    }

    /// How many trees there are.
    pub fn len(&self) -> usize {
        self.tree.len()
    }

    /// Whether there is no tree.
    pub fn is_empty(&self) -> bool {
        self.tree.is_empty()
    }

    /// A function from the numbers of two trees to their kernel, not normalised. It
    /// keeps what it needs from call to call: one worker for each thread, and for many
    /// pairs. A value too large for a float is [`Error::Overflow`] with these numbers, one
    /// that is given up [`Error::ConstraintLimit`].
    ///
    /// # Panics
    /// The function panics on a number that is not below [`len`](Self::len).
    pub fn worker(&self) -> impl FnMut(usize, usize) -> Result<f64> + Send + '_ {
        let mut kernel_of = self.singles.worker();
        move |a, b| {
            let [x, y] = [a, b].map(|tree| self.tree[tree] as usize);
            match kernel_of(x, y, &Context::default()).map(Scaled::value) {
                Ok(value) if value.is_finite() => Ok(value),
                Ok(_) => Err(Error::Overflow { row: a, column: b }),
                Err(Error::ConstraintLimit { .. }) => {
                    let (pairs, limit) = (vec![(a, b)], self.limit); // bounded: one
                    Err(Error::ConstraintLimit { pairs, limit })
                }
                Err(error) => Err(error),
            }
        }
    }
}

/// The kernel of the first trees of two forests: K(a,b) is K(b,a) bit for bit, and depends
/// on nothing else in their stores.
///
/// # Errors
/// [`Error::Parameter`], [`Error::Length`] for a forest without trees, [`Error::Overflow`]
/// (which calls the trees 0 and 1).
pub fn pair(
    kernel: &dyn Kernel,
    a: &Forest,
    b: &Forest,
    normalize: bool,
) -> Result<f64> {
    pair_with(kernel, a, b, normalize, &Context::default())
}

/// As [`pair`], in a context.
///
/// # Errors
/// As [`pair`], and what `context` returns.
pub fn pair_with(
    kernel: &dyn Kernel,
    a: &Forest,
    b: &Forest,
    normalize: bool,
    context: &Context,
) -> Result<f64> {
    kernel.check()?;
    context.advance(0, 1)?;
    // A store of their own: theirs may be large, and what follows is linear in it.
    let mut nodes = Nodes::default();
    let mut roots = Vec::new();
    for (array, forest) in [("a", a), ("b", b)] {
        let Some(&root) = forest.roots().first() else {
            let expected = "1 or more: the first tree is compared".to_owned();
            return Err(Error::Length { array, expected, got: 0 });
        };
        let root = nodes.absorb_one(forest.nodes(), root, context)?;
        roots.push(root); // bounded: two
    }
    // Different trees come in one order, whichever is called a.
    let trees = TreeCounts::read(&nodes, &roots, context)?;
    let is_reversed = content_order(&nodes, &trees)?.is_gt();
    if is_reversed {
        roots.reverse();
    }
    // Equal trees have one root in this store, and are one tree.
    roots.dedup();
    let last = roots.len() - 1;
    let singles = kernel.pairs(&Arc::new(nodes), &roots, context)?;
    let mut kernel_of = singles.worker();
    if !normalize {
        let value = kernel_of(0, last, context)?.value();
        let overflow = Error::Overflow { row: 0, column: 1 };
        return if value.is_finite() { Ok(value) } else { Err(overflow) };
    }
    // Which of the two was called a, for the error.
    let mut norm = |t: usize| {
        let self_kernel = kernel_of(t, t, context)?;
        let set = if (t == 0) == is_reversed { "b" } else { "a" };
        let error = Error::Indefinite { tree: 0, set, value: self_kernel.value() };
        if singles.is_indefinite(self_kernel) { Err(error) } else { Ok(self_kernel) }
    };
    let self_kernel = norm(0)?;
    // Both are one tree: 1, unless it has no kernel.
    if last == 0 {
        return Ok(if self_kernel.is_zero() { 0.0 } else { 1.0 });
    }
    let other = norm(last)?;
    Ok(kernel_of(0, last, context)?.cosine(self_kernel, other).min(singles.most()))
}

/// The order of two trees by their labels and shapes.
fn content_order(nodes: &Nodes, trees: &TreeCounts) -> Result<Ordering> {
    // Each node's place in either tree's walk: contents are compared by these, not by
    // ids.
    let mut place = [filled(0, nodes.len())?, filled(0, nodes.len())?];
    for (tree, place) in place.iter_mut().enumerate() {
        (0..).zip(trees.nodes(tree)).for_each(|(at, node)| place[node.index()] = at);
    }
    let content = |tree: usize| {
        let place = &place[tree];
        // Labels and numbers of children, and where these children stand: two trees
        // with all of this in common are equal.
        trees.nodes(tree).iter().flat_map(move |&node| {
            let below = nodes.children(node);
            let below_it = below.iter().map(move |child| ("", place[child.index()]));
            std::iter::once((nodes.name(node), below.len())).chain(below_it)
        })
    };
    Ok(content(0).cmp(content(1)))
}

/// Pairs of the subset tree kernel: large ones by an index.
pub(crate) fn subset_tree_pairs(
    kernel: &SubsetTree,
    nodes: &Arc<Nodes>,
    roots: &[NodeId],
    context: &Context,
) -> Result<Box<dyn Prepared>> {
    let SubsetTree { decay, leaf_weight } = *kernel;
    let trees = subset_trees::PreparedTrees::new(
        nodes,
        decay,
        leaf_weight,
        false,
        roots,
        context,
    )?;
    let (nodes, roots) = (Arc::clone(nodes), copied(roots)?);
    Ok(Box::new(SubsetTrees { trees, kernel: kernel.clone(), nodes, roots }))
}

/// Matching pairs of nodes from which on the index of a row engine, which avoids most
/// of them, is worth building for two trees.
const MIN_INDEXED_PAIRS: f64 = 1e6;

/// Pairs of the subset tree kernel, with an index for two trees that have too many
/// matching pairs of nodes.
struct SubsetTrees {
    trees: subset_trees::PreparedTrees,
    kernel: SubsetTree,
    nodes: Arc<Nodes>,
    roots: Vec<NodeId>,
}

impl Prepared for SubsetTrees {
    fn worker(&self) -> Worker<'_> {
        let mut small = self.trees.worker();
        Box::new(move |a, b, context| {
            if !self.trees.exceeds(a, b, MIN_INDEXED_PAIRS) {
                return small(a, b, context);
            }
            let SubsetTree { decay, leaf_weight } = self.kernel;
            // A store of their own: what is made here is linear in it.
            let mut nodes = Nodes::default();
            let mut counts_of = |tree: usize| {
                let root = nodes.absorb_one(&self.nodes, self.roots[tree], context)?;
                TreeCounts::read(&nodes, &[root], context)
            };
            let (rows, columns) = (counts_of(a)?, counts_of(b)?);
            let threads = &Threads::alone(context);
            let (nodes, none) = (&nodes, Vec::new());
            let engine = subset::Engine::new(
                nodes,
                decay,
                leaf_weight,
                none,
                &columns,
                RowsOf::Others,
                threads,
            )?;
            engine.single(&engine.look_up(nodes, nodes, &rows)?, context)
        })
    }
}
