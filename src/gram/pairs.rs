//! Single pairs of trees that are made ready once.

use std::sync::Arc;

use super::store::{Distinct, LARGEST};
use super::subset;
use crate::kernel::{self, Bags, Number, Pairs as Prepared, Scaled};
use crate::team::{Crew, Pause};
use crate::{Error, Forest, Kernel, NodeId, Nodes, Result};

/// Trees made ready for the kernels of single pairs.
///
/// Where a whole row or matrix is wanted, [`Rows`](super::Rows) and
/// [`gram`](super::gram()) are ten times faster per pair and more. They add in another
/// order, so their values may differ in the last bits.
///
/// ```
/// use treekernel_rs::{Forest, Kernel, gram};
///
/// let forest = Forest::from_brackets("(S (A a) (B b)) (S (A a) (B c))")?;
/// let kernel = Kernel::SubsetTree { decay: 0.4, leaf_weight: 0.0 };
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
    singles: Box<dyn Single>,
    /// Each tree's number among the different ones.
    tree: Vec<u32>,
}

impl Pairs {
    /// Makes the trees of a forest ready.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a kernel out of range, [`Error::Capacity`].
    pub fn new(kernel: &Kernel, forest: &Forest) -> Result<Self> {
        let trees = Distinct::new(forest.roots());
        let singles = singles(&kernel.validated()?, forest.nodes(), trees.roots)?;
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
            let value = of(self.tree[a] as usize, self.tree[b] as usize)?.value();
            if value.is_finite() {
                Ok(value)
            } else {
                Err(Error::Overflow { row: a, column: b })
            }
        }
    }
}

/// The kernel of the first trees of two forests.
///
/// # Errors
/// [`Error::Parameter`], and [`Error::Overflow`] (which calls the trees 0 and 1).
pub fn pair(kernel: &Kernel, a: &Forest, b: &Forest, normalize: bool) -> Result<f64> {
    // A store of their own: theirs may be large, and what follows is linear in it.
    let mut nodes = Nodes::default();
    let a = nodes.absorb_one(a.nodes(), a.roots()[0])?;
    let b = nodes.absorb_one(b.nodes(), b.roots()[0])?;
    let pairs = Pairs::new(kernel, &Forest::new(Arc::new(nodes), vec![a, b]))?;
    if !normalize {
        return pairs.worker()(0, 1);
    }
    let mut of = pairs.singles.worker();
    let [a, b] = [pairs.tree[0], pairs.tree[1]].map(|tree| tree as usize);
    let (x, y) = (of(a, a)?, of(b, b)?);
    if a == b {
        return Ok(if x.is_zero() { 0.0 } else { 1.0 });
    }
    Ok(of(a, b)?.normalized(x, y))
}

/// Evaluates single pairs for one worker.
pub(crate) type Worker<'a> = Box<dyn FnMut(usize, usize) -> Result<Scaled> + Send + 'a>;

/// The same where a value may take long: asks now and then whether to go on.
pub(crate) type LongWorker<'a> =
    Box<dyn FnMut(usize, usize, &mut Pause<'_>) -> Result<Scaled> + Send + 'a>;

/// Kernels of single pairs of some trees, whatever the trees are like.
pub(crate) trait Single: Send + Sync {
    /// What a worker calls, with the numbers of two trees.
    fn worker(&self) -> Worker<'_>;

    /// What it calls where values may take long.
    fn long_worker(&self) -> LongWorker<'_> {
        let mut of = self.worker();
        Box::new(move |a, b, _| of(a, b))
    }
}

struct Singles<P, L> {
    pairs: P,
    /// How to evaluate a pair of trees in which too many pairs of nodes match; None:
    /// like all others.
    large: L,
}

/// Matching pairs of nodes from which on the index of a row engine, which avoids most
/// of them, is worth building for two trees.
const TOO_MANY: f64 = 1e6;

impl<P, L> Single for Singles<P, L>
where
    P: Prepared + Send,
    L: Fn(usize, usize) -> Result<Option<Scaled>> + Send + Sync,
{
    fn worker(&self) -> Worker<'_> {
        let mut floats = P::Scratch::<f64>::default();
        let mut scaled = P::Scratch::<Scaled>::default();
        Box::new(move |a, b| {
            if self.pairs.exceeds(a, b, TOO_MANY)
                && let Some(value) = (self.large)(a, b)?
            {
                return Ok(value);
            }
            let float = self.pairs.pair(a, b, &mut floats);
            if float < LARGEST {
                return Ok(Scaled::of(float));
            }
            Ok(self.pairs.pair(a, b, &mut scaled))
        })
    }
}

/// Makes trees ready for single pairs.
pub(crate) fn singles(
    kernel: &Kernel,
    nodes: &Arc<Nodes>,
    roots: Vec<NodeId>,
) -> Result<Box<dyn Single>> {
    match *kernel {
        Kernel::SubsetTree { decay, leaf_weight } => {
            let pairs = kernel::subset::Trees::new(nodes, decay, leaf_weight, &roots)?;
            let nodes = Arc::clone(nodes);
            let large = move |a: usize, b: usize| {
                let [a, b] = [a, b].map(|tree| Bags::new(&nodes, &[roots[tree]]));
                let mut watch = || Ok(());
                let crew = &mut Crew::alone(&mut watch);
                let engine = subset::Engine::new(
                    &nodes,
                    decay,
                    leaf_weight,
                    &b?,
                    Some(&a?),
                    crew,
                )?;
                Ok(Some(engine.single()))
            };
            Ok(Box::new(Singles { pairs, large }))
        }
        Kernel::Subtree { decay, leaf_weight } => {
            let pairs = kernel::subtree::Trees::new(nodes, decay, leaf_weight, &roots)?;
            Ok(Box::new(Singles { pairs, large: |_, _| Ok(None) }))
        }
        Kernel::ElasticTree { decay } => {
            let pairs = kernel::elastic::Trees::new(nodes, decay, &roots)?;
            Ok(Box::new(Singles { pairs, large: |_, _| Ok(None) }))
        }
        Kernel::PartialTree { decay, mu, leaf_factor, max_children } => {
            let pairs = kernel::partial::Trees::new(
                nodes,
                decay,
                mu,
                leaf_factor,
                max_children,
                &roots,
            )?;
            Ok(Box::new(Singles { pairs, large: |_, _| Ok(None) }))
        }
    }
}
