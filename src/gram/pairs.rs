//! Single pairs of trees that are made ready once.

use std::cmp::Ordering;
use std::sync::Arc;

use super::matrix::Distinct;
use super::subset;
use crate::kernel::composed::{Plan, Singles};
use crate::kernel::{
    IndexOf, Prepared, SubsetTree, TreeCounts, Worker, subset as subset_trees,
};
use crate::memory;
use crate::threads::Threads;
use crate::{Context, Error, Forest, Kernel, NodeId, Nodes, Result};

/// Trees made ready for the kernels of single pairs.
///
/// Where a whole row or matrix is wanted, [`Rows`](super::Rows) and
/// [`gram`](super::gram()) are ten times faster per pair and more. They add in another
/// order, so their values may differ in the last bits.
///
/// ```
/// use treekernel_rs::{Forest, gram, kernel::SubsetTree};
///
/// let forest = Forest::from_brackets("(S (A a) (B b)) (S (A a) (B c))")?;
/// let kernel = SubsetTree::new(0.4);
/// let pairs = gram::Pairs::new(&kernel, &forest)?;
/// let mut of = pairs.worker();
/// assert!((of(0, 1)? - 0.96).abs() < 1e-12);
/// # Ok::<(), treekernel_rs::Error>(())
/// ```
///
/// # Complexity
/// Time and memory to make ready: linear in the distinct subtrees of each tree. A pair:
/// see the kernels.
pub struct Pairs {
    singles: Box<dyn Prepared>,
    /// Each tree's number among the different ones.
    tree: Vec<u32>,
}

impl Pairs {
    /// Makes the trees of a forest ready.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a kernel out of range, [`Error::Capacity`].
    pub fn new(kernel: &dyn Kernel, forest: &Forest) -> Result<Self> {
        let trees = Distinct::new(forest.roots());
        kernel.check()?;
        let context = &Context::default();
        let singles = prepare(kernel, forest.nodes(), &trees.roots, context)?;
        Ok(Self { singles, tree: trees.of })
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
    /// pairs. A value too large for a float is [`Error::Overflow`] with these numbers.
    ///
    /// # Panics
    /// The function panics on a number that is not below [`len`](Self::len).
    pub fn worker(&self) -> impl FnMut(usize, usize) -> Result<f64> + Send + '_ {
        let mut of = self.singles.worker();
        move |a, b| {
            let [x, y] = [a, b].map(|tree| self.tree[tree] as usize);
            let value = of(x, y, &Context::default())?.value();
            if value.is_finite() {
                Ok(value)
            } else {
                Err(Error::Overflow { row: a, column: b })
            }
        }
    }
}

/// The kernel of the first trees of two forests: K(a,b) is K(b,a) bit for bit, and depends
/// on nothing else in their stores.
///
/// # Errors
/// [`Error::Parameter`], [`Error::Length`] for a forest without trees, [`Error::Overflow`]
/// (which calls the trees 0 and 1), and what `context` returns.
pub fn pair(
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
        roots.push(nodes.absorb_one(forest.nodes(), root, context)?);
    }
    // Different trees come in one order, whichever is called a.
    let is_reversed =
        content_order(&nodes, &TreeCounts::read(&nodes, &roots, context)?).is_gt();
    if is_reversed {
        roots.reverse();
    }
    roots.dedup();
    let last = roots.len() - 1;
    let singles = prepare(kernel, &Arc::new(nodes), &roots, context)?;
    let mut of = singles.worker();
    if !normalize {
        let value = of(0, last, context)?.value();
        let overflow = Error::Overflow { row: 0, column: 1 };
        return if value.is_finite() { Ok(value) } else { Err(overflow) };
    }
    let mut norm = |t: usize| {
        let own = of(t, t, context)?;
        let set = if (t == 0) == is_reversed { "b" } else { "a" };
        let error = Error::Indefinite { tree: 0, set, value: own.value() };
        if singles.is_indefinite(own) { Err(error) } else { Ok(own) }
    };
    let own = norm(0)?;
    if last == 0 {
        return Ok(if own.is_zero() { 0.0 } else { 1.0 });
    }
    let other = norm(last)?;
    Ok(of(0, last, context)?.cosine(own, other).min(singles.most()))
}

/// The order of two trees by their labels and shapes.
fn content_order(nodes: &Nodes, trees: &TreeCounts) -> Ordering {
    let mut place = [vec![0; nodes.len()], vec![0; nodes.len()]];
    for (tree, place) in place.iter_mut().enumerate() {
        (0..).zip(trees.nodes(tree)).for_each(|(at, node)| place[node.index()] = at);
    }
    let content = |tree: usize| {
        let place = &place[tree];
        trees.nodes(tree).iter().flat_map(move |&node| {
            let below = nodes.children(node);
            let below_it = below.iter().map(move |child| ("", place[child.index()]));
            std::iter::once((nodes.name(node), below.len())).chain(below_it)
        })
    };
    content(0).cmp(content(1))
}

/// Makes trees ready for single pairs. Parameters are in their ranges.
pub(crate) fn prepare(
    kernel: &dyn Kernel,
    nodes: &Arc<Nodes>,
    roots: &[NodeId],
    context: &Context,
) -> Result<Box<dyn Prepared>> {
    if let Some(composed) = kernel.composed() {
        let plan = Plan::new(composed);
        let prepared =
            plan.leaves.iter().map(|leaf| prepare(&**leaf, nodes, roots, context));
        let leaves = prepared.collect::<Result<_>>()?;
        return Ok(Box::new(Singles { plan, leaves, roots: roots.to_vec() }));
    }
    let Some(IndexOf::SubsetTree(kernel)) = kernel.indexed().map(|of| of.index) else {
        return kernel.pairs(nodes, roots, context);
    };
    let SubsetTree { decay, leaf_weight } = kernel;
    let trees =
        subset_trees::Trees::new(nodes, decay, leaf_weight, false, roots, context)?;
    let (nodes, roots) = (Arc::clone(nodes), roots.to_vec());
    Ok(Box::new(SubsetTrees { trees, kernel, nodes, roots }))
}

/// Matching pairs of nodes from which on the index of a row engine, which avoids most
/// of them, is worth building for two trees.
const TOO_MANY: f64 = 1e6;

/// Pairs of the subset tree kernel, with an index for two trees that have too many
/// matching pairs of nodes.
struct SubsetTrees {
    trees: subset_trees::Trees,
    kernel: SubsetTree,
    nodes: Arc<Nodes>,
    roots: Vec<NodeId>,
}

impl Prepared for SubsetTrees {
    fn worker(&self) -> Worker<'_> {
        let mut small = self.trees.worker();
        Box::new(move |a, b, context| {
            if !self.trees.exceeds(a, b, TOO_MANY) {
                return small(a, b, context);
            }
            let SubsetTree { decay, leaf_weight } = self.kernel;
            // A store of their own: what is made here is linear in it.
            let mut nodes = Nodes::default();
            let mut own = |tree: usize| {
                let root = nodes.absorb_one(&self.nodes, self.roots[tree], context)?;
                TreeCounts::read(&nodes, &[root], context)
            };
            let (rows, columns) = (own(a)?, own(b)?);
            memory::room(1, rows.made(&nodes) + columns.made(&nodes))?;
            let threads = &Threads::alone(context);
            let (nodes, rows) = (&nodes, Some(&rows));
            let engine = subset::Engine::new(
                nodes,
                decay,
                leaf_weight,
                Vec::new(),
                &columns,
                rows,
                threads,
            )?;
            engine.single(context)
        })
    }
}
