//! Kernel machines as graphs of weighted subtrees: exact scores without the support
//! trees, and online learning.
//!
//! A kernel machine scores S(x) = Σ_i α_i K(x_i, x) over its support trees. K sums a C
//! of two subtrees over all pairs of nodes, and C depends on nothing else; so equal
//! subtrees of the support trees can be put together (Aiolli et al. 2007; Da San Martino
//! et al., AAAI 2019):
//!
//! ```text
//! f(ξ) = Σ_i α_i · (how often ξ stands in x_i)       ξ over the distinct subtrees
//! S(x) = Σ_{v in x} Σ_ξ C(v, ξ) f(ξ)                 exact
//! ```
//!
//! A [`Model`] is these subtrees, stored as a forest stores them, each once and with its
//! children as references, and their weights f. The paper visits each ξ that has v's
//! production. Here inverted lists lead to those whose C is more than what all of the
//! production have, and sums of f are enough for the rest; see `subset.rs` for SST,
//! those of the other kernels beside it. A node is [normalised](Model::new) as the
//! kernels are: α_i is divided by sqrt(K(x_i,x_i)) when it comes in, S(x) by sqrt(K(x,x)).
//!
//! A kernel without an index is no such sum: its models keep the support trees themselves,
//! and a score is a row of kernels with them (`dag/support.rs`).
//!
//! A [`Perceptron`] learns such a model from a stream of trees. `naive` is the sum over
//! support trees that everything here is held to.
//!
//! ```
//! use treekernel_rs::dag::{Model, ModelOptions};
//! use treekernel_rs::{Forest, kernel::SubsetTree};
//!
//! let trees = Forest::from_brackets("(S (A a) (B b)) (S (A a) (B c)) (A a)")?;
//! let mut model = Model::new(&SubsetTree::new(0.4), ModelOptions::default())?;
//! model.add(&trees.select([0, 1]), &[1.0, -0.5])?;
//! let scores = model.score(&trees)?.0;
//! assert!((scores[0] - (1.584 - 0.5 * 0.96)).abs() < 1e-12);
//! # Ok::<(), treekernel_rs::Error>(())
//! ```
//!
//! # Complexity
//! Memory: by the distinct subtrees of the support trees. Adding a tree: by its nodes,
//! whatever the model. A score: by what its tree and the model have in common.

mod add;
mod arrays;
mod contributions;
mod fragments;
mod merge;
#[doc(hidden)]
pub mod naive;
mod perceptron;
mod score;
pub mod solve;
mod sum;
mod support;
mod vectors;

use std::borrow::Cow;
use std::sync::Arc;

pub use arrays::ModelArrays;
pub use fragments::{Fragments, Query, Rank};
pub use merge::Pass;
pub use perceptron::{Perceptron, PerceptronArrays, Vote};
use score::ScoreTableCache;
pub use sum::SumModel;
use support::{ExampleKernels, ModelKernel, SupportTrees};
pub use vectors::{Features, PolynomialKernel};

use crate::ids::{IdVec, ListId, Place};
use crate::index::id_map::{IdMap, Key, Wanted};
use crate::index::weights::{Slot, Weights, add_scaled};
use crate::index::{elastic, partial, subset, subtree};
use crate::kernel::IntoKernel;
use crate::memory::{self, Map};
use crate::{Context, Error, Forest, Kernel, NodeId, Nodes, Result};

/// What a model is like, besides its kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelOptions {
    /// K(a,b) / sqrt(K(a,a) K(b,b)) in place of K.
    pub normalize: bool,
    /// How many weights every tree has, and scores every tree gets.
    pub n_outputs: usize,
}

impl Default for ModelOptions {
    fn default() -> Self {
        Self { normalize: false, n_outputs: 1 }
    }
}

impl ModelOptions {
    /// These options with a normalised kernel or not.
    #[must_use]
    pub fn with_normalize(self, normalize: bool) -> Self {
        Self { normalize, ..self }
    }

    /// These options with a number of outputs.
    #[must_use]
    pub fn with_n_outputs(self, n_outputs: usize) -> Self {
        Self { n_outputs, ..self }
    }
}

/// A subtree takes 8 bytes for each.
const MAX_OUTPUTS: usize = 1 << 20;

/// The empty index of models that are graphs: of a kernel that has one, and is linear in the
/// counts of its trees, as models add these up.
fn graph_index(kernel: &dyn Kernel) -> Option<Index> {
    kernel.index()?.model()
}

/// Weights and their sums up to here cannot overflow on their way.
const SAFE_MAGNITUDE: f64 = 1e300;

/// Inverted lists, or what a kernel needs instead.
#[derive(Debug, Clone)]
pub(crate) enum Index {
    Subtree(subtree::Index),
    Subset(Box<subset::Index>),
    Partial(Box<partial::Index<()>>),
    Elastic(Box<elastic::Index>),
    /// None: all trees are kept whole.
    Support,
}

/// A kernel machine without its support trees; with them where the kernel has no index. See
/// the [module](self).
#[derive(Debug, Clone)]
pub struct Model {
    /// Shared with every copy of the model.
    kernel: Arc<dyn Kernel>,
    options: ModelOptions,
    /// The distinct subtrees of all trees that were added, children before parents.
    nodes: Nodes,
    /// Where the weight of a subtree is.
    slots: IdVec<NodeId, Slot>,
    /// The lists that lead from a node to the subtrees it has something in common with.
    index: Index,
    /// f: the weights of the subtrees, by slot.
    weights: Weights,
    /// Trees that are no part of the graph, but scored by their kernels: all trees where
    /// the kernel has no index, else those whose kernel with themselves no float can divide
    /// by.
    whole: SupportTrees,
    score_tables: ScoreTableCache,
    /// No weight and no sum of weights is larger.
    magnitude: f64,
    /// By output.
    intercept: Vec<f64>,
    /// How many trees were added, however many were equal.
    n_trees: u64,
    /// How many nodes those trees had, written out.
    n_tree_nodes: u64,
    /// The subtrees of the tree that came in last, in the order in which it was read.
    ids: IdVec<Place, NodeId>,
    /// Scratch: the children of the subtree that comes in.
    below: Vec<NodeId>,
}

impl Model {
    /// An empty model.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a kernel out of range, no outputs or more than 2^20.
    pub fn new(kernel: impl IntoKernel, options: ModelOptions) -> Result<Self> {
        let kernel = kernel.into_kernel();
        kernel.check()?;
        let index = graph_index(&*kernel).unwrap_or(Index::Support);
        if !(1..=MAX_OUTPUTS).contains(&options.n_outputs) {
            let (name, expected) = ("n_outputs", "from 1 to 1048576");
            let got = options.n_outputs.to_string();
            return Err(Error::Parameter { name, expected, got });
        }
        Ok(Self {
            kernel,
            options,
            nodes: Nodes::default(),
            slots: IdVec::default(),
            index,
            weights: Weights::new(options.n_outputs),
            whole: SupportTrees::default(),
            score_tables: ScoreTableCache::default(),
            magnitude: 0.0,
            intercept: memory::filled(0.0, options.n_outputs)?,
            n_trees: 0,
            n_tree_nodes: 0,
            ids: IdVec::default(),
            below: Vec::new(),
        })
    }

    /// The kernel.
    pub fn kernel(&self) -> &dyn Kernel {
        &*self.kernel
    }

    /// Normalisation and outputs.
    pub fn options(&self) -> ModelOptions {
        self.options
    }

    /// The distinct subtrees; ids ascend from children to parents.
    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// The weights f of a subtree, one for each output.
    ///
    /// # Panics
    /// For a node that the model does not have, as slices do.
    pub fn weights(&self, node: NodeId) -> &[f64] {
        self.weights.get(self.slots[node])
    }

    /// What is added to the scores of each output.
    pub fn intercept(&self) -> &[f64] {
        &self.intercept
    }

    /// Sets what is added to scores.
    ///
    /// # Errors
    /// [`Error::Length`] if there is not one number for each output, [`Error::Array`] for
    /// one that is not finite.
    pub fn set_intercept(&mut self, intercept: &[f64]) -> Result<()> {
        check_length("intercept", intercept, self.options.n_outputs, "n_outputs")?;
        check_finite("intercept", intercept)?;
        self.intercept.copy_from_slice(intercept);
        Ok(())
    }

    /// How many trees were added.
    pub fn n_trees(&self) -> u64 {
        self.n_trees
    }

    /// How many distinct subtrees there are.
    pub fn n_nodes(&self) -> usize {
        // Without a graph all there is are the support trees, which have a store of
        // their own.
        let nodes = if self.is_graph() { &self.nodes } else { self.whole.nodes() };
        nodes.len()
    }

    /// How many nodes the trees had that were added: what a model of whole support trees
    /// would hold.
    pub fn n_tree_nodes(&self) -> u64 {
        self.n_tree_nodes
    }

    /// Bytes held, with the tables for fast scores if there are any.
    pub fn nbytes(&self) -> usize {
        let lists = match &self.index {
            Index::Subtree(index) => index.nbytes(),
            Index::Subset(index) => index.nbytes(),
            Index::Partial(index) => index.nbytes(),
            Index::Elastic(index) => index.nbytes(),
            Index::Support => 0,
        };
        let slots = self.slots.capacity() * size_of::<Slot>();
        let graph = self.nodes.nbytes() + slots + lists + self.weights.nbytes();
        graph + self.score_tables.nbytes() + self.whole.nbytes()
    }

    /// Whether subtrees are what is kept. If not, the kernel has no index: support trees
    /// are kept whole, and a score takes the time of a kernel for each of them.
    pub fn is_graph(&self) -> bool {
        !matches!(self.index, Index::Support)
    }

    /// The error of what only graphs have.
    fn unsupported(&self, what: &'static str) -> Error {
        self.kernel.unsupported(what, |kernel| graph_index(kernel).is_some())
    }

    /// The number of a list of the index.
    fn find(&self, key: Key) -> Option<ListId> {
        match &self.index {
            Index::Subset(index) => index.find(key.into()),
            Index::Partial(index) => index.find(key.into()),
            // The other kernels find subtrees by node or by label: their id maps ask
            // for no lists.
            _ => None,
        }
    }

    /// The ids of a store's nodes, labels or productions here, as the index needs.
    fn id_map(&self, store: &Nodes) -> Result<IdMap> {
        let wanted = match &self.index {
            Index::Subtree(_) => Wanted::Nodes,
            Index::Subset(_) => Wanted::Productions,
            Index::Partial(_) => Wanted::LabelPairs,
            Index::Elastic(_) | Index::Support => Wanted::Labels,
        };
        IdMap::new(store, &self.nodes, wanted, |key| self.find(key))
    }

    /// Kernels of some examples from `start` on, for a perceptron that is no graph.
    fn stretch(
        &self,
        forest: &Forest,
        start: usize,
        context: &Context,
    ) -> Result<ExampleKernels> {
        ExampleKernels::new(&self.whole, self.model_kernel(), forest, start, context)
    }

    fn model_kernel(&self) -> ModelKernel<'_> {
        ModelKernel { kernel: &self.kernel, normalize: self.options.normalize }
    }
}

/// The same trees, in a store of their own if theirs is much larger: what follows is
/// linear in it.
pub(crate) fn compact<'f>(
    forest: &'f Forest,
    context: &Context,
) -> Result<Cow<'f, Forest>> {
    const MAX_NODES_PER_TREE: usize = 64;
    const SMALL_STORE: usize = 4096;
    // With so few nodes for each tree, or so few at all, a copy would save less than it
    // takes.
    let n_nodes = forest.nodes().len();
    if n_nodes <= SMALL_STORE || forest.len() >= n_nodes / MAX_NODES_PER_TREE {
        return Ok(Cow::Borrowed(forest));
    }
    let (mut nodes, mut here) = (Nodes::default(), Map::default());
    // All are interned in one store, so that shared subtrees stay shared, and are read once.
    let copy =
        |&root: &NodeId| nodes.absorb_next(forest.nodes(), root, &mut here, context);
    let roots = memory::try_collect(forest.roots().iter().map(copy))?;
    Ok(Cow::Owned(Forest::new(Arc::new(nodes), roots)))
}

fn check_length<T>(
    array: &'static str,
    values: &[T],
    expected: usize,
    what: &str,
) -> Result<()> {
    if values.len() == expected {
        return Ok(());
    }
    let expected = format!("{expected}, {what}");
    Err(Error::Length { array, expected, got: values.len() })
}

fn check_finite(array: &'static str, values: &[f64]) -> Result<()> {
    let Some(index) = values.iter().position(|value| !value.is_finite()) else {
        return Ok(());
    };
    let (expected, got) = ("a finite number".to_owned(), values[index].to_string());
    Err(Error::Array { array, index, expected, got })
}
