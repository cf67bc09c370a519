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
//! production have, and sums of f are enough for the rest; see [`subset`]'s file for SST,
//! those of the other kernels beside it. A node is [normalised](Model::new) as the
//! kernels are: α_i is divided by sqrt(K(x_i,x_i)) when it comes in, S(x) by sqrt(K(x,x)).
//!
//! A [`Perceptron`] learns such a model from a stream of trees. [`naive`] is the sum over
//! support trees that everything here is held to.
//!
//! ```
//! use treekernel_rs::dag::{Model, Options};
//! use treekernel_rs::{Context, Forest, kernel::SubsetTree};
//!
//! let trees = Forest::from_brackets("(S (A a) (B b)) (S (A a) (B c)) (A a)")?;
//! let mut model = Model::new(&SubsetTree::new(0.4), Options::default())?;
//! model.add(&trees.select([0, 1]), &[1.0, -0.5], &Context::default())?;
//! let scores = model.score(&trees, &Context::default())?.0;
//! assert!((scores[0] - (1.584 - 0.5 * 0.96)).abs() < 1e-12);
//! # Ok::<(), treekernel_rs::Error>(())
//! ```
//!
//! # Complexity
//! Memory: by the distinct subtrees of the support trees. Adding a tree: by its nodes,
//! whatever the model. A score: by what its tree and the model have in common.

mod fragments;
mod merge;
pub mod naive;
mod parts;
mod perceptron;
pub mod solve;
mod sum;
mod vectors;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::gram;
use crate::index::at_rest::{AtRest, Rested};
use crate::index::id_map::{IdMap, Key, Wanted};
use crate::index::prefixes::Whole;
use crate::index::reader::{NONE, Reader};
use crate::index::subset::Walk;
use crate::index::weights::{
    LEAF, Numbers, One, Several, Sink, Slot, Weights, add_scaled,
};
use crate::index::{elastic, partial, subset, subtree};
use crate::kernel::Worker as Single;
use crate::kernel::{
    Counts, ElasticTree, IndexOf, Indexed, PartialTree, Scaled, SubsetTree, Subtree,
};
use crate::memory;
use crate::threads::{Kept, Tasks, Threads};
use crate::{
    Context, Error, Forest, Kernel, Label, NodeId, Nodes, ProductionId, Result,
};
pub use fragments::{Fragments, Query, Rank};
pub use merge::Pass;
pub use perceptron::{Perceptron, Stored, Vote};
pub use sum::SumModel;
pub use vectors::{Features, PolynomialKernel};

/// What a model is like, besides its kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// K(a,b) / sqrt(K(a,a) K(b,b)) in place of K.
    pub normalize: bool,
    /// How many weights every tree has, and scores every tree gets.
    pub n_outputs: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { normalize: false, n_outputs: 1 }
    }
}

impl Options {
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

/// The most outputs: a subtree takes 8 bytes for each.
const MOST_OUTPUTS: usize = 1 << 20;

/// A kernel that models can take, with an empty index: one that is linear in the counts of
/// its trees, as models add these up.
fn for_models(kernel: &dyn Kernel) -> Option<(Indexed, Index)> {
    let counts = kernel.weights().map_or(Counts::Linear, |(_, counts)| counts);
    let kernel = kernel.indexed().filter(|_| counts == Counts::Linear)?;
    let index = match kernel.index.clone() {
        IndexOf::Subtree(Subtree { decay, leaf_weight }) => {
            Index::Subtree(subtree::Index { decay, leaf_weight, weighted: None })
        }
        IndexOf::WeightedSubtree(Subtree { decay, leaf_weight }, own) => {
            let weighted = Some(subtree::Weighted::new(own.shared()));
            Index::Subtree(subtree::Index { decay, leaf_weight, weighted })
        }
        IndexOf::SubsetTree(SubsetTree { decay, leaf_weight }) => {
            Index::Subset(Box::new(subset::Index::new(decay, leaf_weight)))
        }
        IndexOf::WeightedSubsetTree(..) => return None,
        IndexOf::PartialTree(PartialTree { decay, mu, leaf_factor, max_children }) => {
            let index = partial::Index::new(decay, mu, leaf_factor, max_children);
            Index::Partial(Box::new(index))
        }
        IndexOf::ElasticTree(ElasticTree { decay }) => {
            Index::Elastic(Box::new(elastic::Index::new(decay)))
        }
    };
    Some((kernel, index))
}

/// Weights and their sums up to here cannot overflow on their way.
const SAFE: f64 = 1e300;

/// Bytes that a new subtree takes besides its weights: at most, in stores, lists and
/// tables that grow by doubling.
const BYTES_PER_NODE: usize = 320;

/// Inverted lists, or what a kernel needs instead.
#[derive(Debug, Clone)]
enum Index {
    Subtree(subtree::Index),
    Subset(Box<subset::Index>),
    Partial(Box<partial::Index<()>>),
    Elastic(Box<elastic::Index>),
}

/// A kernel machine without its support trees. See the [module](self).
#[derive(Debug, Clone)]
pub struct Model {
    kernel: Indexed,
    options: Options,
    nodes: Nodes,
    /// By node: where its weight is.
    slots: Vec<Slot>,
    index: Index,
    weights: Weights,
    /// Trees whose kernel with themselves no float can divide by, and their weights: they
    /// are no part of the graph, but scored pair by pair.
    large: (Forest, Vec<f64>),
    rest: Rest,
    /// No weight and no sum of weights is larger.
    magnitude: f64,
    intercept: Vec<f64>,
    n_trees: u64,
    n_tree_nodes: u64,
    /// The subtrees of the tree that came in last.
    ids: Vec<u32>,
    below: Vec<NodeId>,
}

/// Tables for scores (SST), until the weights change, and how many entries of lists scores
/// have visited without them.
#[derive(Debug, Default)]
struct Rest {
    tables: Kept<AtRest>,
    visits: AtomicU64,
}

impl Clone for Rest {
    fn clone(&self) -> Self {
        let visits = AtomicU64::new(self.visits.load(Ordering::Relaxed));
        Self { tables: self.tables.clone(), visits }
    }
}

/// What a worker keeps from tree to tree.
#[derive(Debug, Default)]
struct Worker {
    reader: Reader,
    values: Vec<f64>,
    subset: subset::Scratch,
    partial: partial::Scratch,
    elastic: elastic::Scratch,
    /// A tree's normalised kernels with the large trees of the model.
    cosines: Vec<f64>,
    /// For perceptrons: kernels with all support trees; dot products; a row of features.
    row: Vec<f64>,
    dots: Vec<f64>,
    features: Vec<(u32, f64)>,
}

/// Trees to be scored, as the model sees them.
struct Seen<'a> {
    store: &'a Nodes,
    id_map: &'a IdMap,
}

/// A model as flat arrays.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Arrays {
    /// The alphabet.
    pub names: Vec<String>,
    /// By subtree, children before parents: its label, an index into `names`.
    pub labels: Vec<u32>,
    /// By subtree: where its children end in `children`.
    pub ends: Vec<u32>,
    /// Children, as numbers of subtrees.
    pub children: Vec<u32>,
    /// By subtree: its weight for each output.
    pub weights: Vec<f64>,
    /// Sums of the weights of each production (for PT of each label), as they stand:
    /// scores of a model that is read back have the same bits.
    pub sums: Vec<f64>,
    /// What is added to the scores of each output.
    pub intercept: Vec<f64>,
    /// How many trees were added.
    pub n_trees: u64,
    /// How many nodes they had.
    pub n_tree_nodes: u64,
    /// Trees too large to be normalised by a float.
    pub large_trees: Forest,
    /// Their weights for each output.
    pub large_alphas: Vec<f64>,
}

impl Model {
    /// An empty model.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a kernel that goes pair by pair, [`Error::Parameter`]
    /// for one out of range, no outputs or more than 2^20.
    pub fn new(kernel: &dyn Kernel, options: Options) -> Result<Self> {
        let (kernel, index) = kernel.require("models", for_models)?;
        if !(1..=MOST_OUTPUTS).contains(&options.n_outputs) {
            let (name, expected) = ("n_outputs", "from 1 to 1048576");
            let got = options.n_outputs.to_string();
            return Err(Error::Parameter { name, expected, got });
        }
        Ok(Self {
            kernel,
            options,
            nodes: Nodes::default(),
            slots: Vec::new(),
            index,
            weights: Weights::new(options.n_outputs),
            large: Default::default(),
            rest: Rest::default(),
            magnitude: 0.0,
            intercept: memory::filled(0.0, options.n_outputs)?,
            n_trees: 0,
            n_tree_nodes: 0,
            ids: Vec::new(),
            below: Vec::new(),
        })
    }

    /// The kernel.
    pub fn kernel(&self) -> &dyn Kernel {
        self.kernel.kernel()
    }

    /// Normalisation and outputs.
    pub fn options(&self) -> Options {
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
        self.weights.get(self.slots[node.index()])
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
        self.nodes.len()
    }

    /// How many nodes the trees had that were added: what a model of whole support trees
    /// would hold.
    pub fn n_tree_nodes(&self) -> u64 {
        self.n_tree_nodes
    }

    /// Bytes held, once scores were asked for with the tables that they are made by.
    pub fn nbytes(&self) -> usize {
        let lists = match &self.index {
            Index::Subtree(index) => index.nbytes(),
            Index::Subset(index) => index.nbytes(),
            Index::Partial(index) => index.nbytes(),
            Index::Elastic(index) => index.nbytes(),
        };
        let slots = self.slots.capacity() * size_of::<Slot>();
        let large = self.large.0.nodes().nbytes() + self.large.1.capacity() * 8;
        let at_rest = self.rest.tables.get().map_or(0, |at_rest| at_rest.nbytes());
        self.nodes.nbytes() + slots + lists + self.weights.nbytes() + at_rest + large
    }

    /// Adds trees with weights, `n_outputs` for each; of trees all of whose weights are
    /// 0 nothing is kept. Returns the trees that a normalised kernel cannot add, as their
    /// kernel with themselves is 0.
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::Array`] for a weight that is not finite or makes a sum
    /// of weights infinite, and [`Error::Memory`]: with nothing changed. [`Error::Capacity`]
    /// and what `context` returns leave the trees before.
    pub fn add(
        &mut self,
        forest: &Forest,
        alphas: &[f64],
        context: &Context,
    ) -> Result<Vec<usize>> {
        self.add_from(&mut 0, forest, alphas, context)
    }

    /// As [`add`](Self::add), but without the first `done` trees that are not left out,
    /// which it counts: what the context has stopped can be continued.
    pub(crate) fn add_from(
        &mut self,
        done: &mut usize,
        forest: &Forest,
        alphas: &[f64],
        context: &Context,
    ) -> Result<Vec<usize>> {
        let (n, width) = (forest.len(), self.options.n_outputs);
        check_length("alphas", alphas, n * width, "trees times n_outputs")?;
        check_finite("alphas", alphas)?;
        let is_wanted = |tree: &usize| {
            alphas[tree * width..][..width].iter().any(|&alpha| alpha != 0.0)
        };
        let wanted: Vec<usize> = (0..n).filter(is_wanted).collect();
        let picked = forest.select(wanted.iter().copied());
        context.advance(*done, n)?;
        let picked = compact(&picked, context)?;
        let store = &**picked.nodes();
        memory::room(store.len(), width.saturating_mul(16) + BYTES_PER_NODE)?;
        let scales = self.scales(&picked, context)?;
        let trees: Vec<Added<'_>> = (wanted.iter().zip(picked.roots()).enumerate())
            .map(|(at, (&tree, &root))| {
                let scale = scales.get(at).copied().unwrap_or(1.0);
                Added { tree, root, scale, alphas: &alphas[tree * width..][..width] }
            })
            .collect();
        let sizes = store.sizes();
        let magnitude = trees[*done..].iter().fold(self.magnitude, |sum, tree| {
            sum + growth(tree.scale, sizes[tree.root.index()] as f64, tree.alphas)
        });
        if magnitude <= SAFE {
            self.magnitude = magnitude;
            self.add_all(done, store, &trees, context)?;
        } else {
            // Something may become infinite, and nobody could take it out again.
            memory::room(1, self.nbytes())?;
            let (mut trial, mut at) = (self.clone(), *done);
            trial.magnitude = magnitude;
            trial.add_all(&mut at, store, &trees, context)?;
            (*self, *done) = (trial, at);
        }
        context.report(n, n)?;
        Ok(trees
            .iter()
            .filter(|tree| tree.scale == 0.0)
            .map(|tree| tree.tree)
            .collect())
    }

    fn add_all(
        &mut self,
        done: &mut usize,
        store: &Nodes,
        trees: &[Added<'_>],
        context: &Context,
    ) -> Result<()> {
        let mut id_map = self.id_map(store)?;
        let mut reader = Reader::default();
        let may_overflow = self.magnitude > SAFE;
        let mut scaled = vec![0.0; self.options.n_outputs];
        for &Added { tree, root, scale, alphas } in &trees[*done..] {
            reader.read(store, root, true)?;
            let mut is_finite = true;
            if scale.is_nan() {
                self.add_large(store, root, alphas)?;
                is_finite = self.large.1.iter().all(|alpha| alpha.is_finite());
            } else if scale != 0.0 {
                self.enter(store, &mut id_map, &reader)?;
                for (scaled, alpha) in scaled.iter_mut().zip(alphas) {
                    *scaled = scale * alpha;
                }
                self.weigh(&reader, &scaled);
                is_finite = !may_overflow || self.is_finite(&reader);
            }
            if !is_finite {
                return Err(too_large("alphas", tree * scaled.len(), alphas));
            }
            self.count_tree(&reader);
            *done += 1;
            context.advance(*done, trees.len())?;
        }
        Ok(())
    }

    /// Keeps a tree with weights as a whole.
    fn keep(&mut self, store: &Nodes, root: NodeId, alphas: &[f64]) -> Result<()> {
        let (forest, sums) = &mut self.large;
        forest.extend_with(|nodes, roots| {
            roots.push(nodes.absorb_one(store, root, &Context::default())?);
            Ok(())
        })?;
        sums.extend_from_slice(alphas);
        Ok(())
    }

    /// As [`keep`](Self::keep), with the weights of equal trees summed.
    fn add_large(&mut self, store: &Nodes, root: NodeId, alphas: &[f64]) -> Result<()> {
        self.keep(store, root, alphas)?;
        let (forest, sums) = &mut self.large;
        let last = forest.len() - 1;
        let same = |&tree: &usize| forest.roots()[tree] == forest.roots()[last];
        let Some(known) = (0..last).find(same) else { return Ok(()) };
        sums.truncate(last * alphas.len());
        let known = known * alphas.len()..(known + 1) * alphas.len();
        sums[known].iter_mut().zip(alphas).for_each(|(sum, alpha)| *sum += alpha);
        let is_left = |tree: &usize| {
            let own = &sums[tree * alphas.len()..][..alphas.len()];
            own.iter().any(|&alpha| alpha != 0.0)
        };
        let left: Vec<usize> = (0..last).filter(is_left).collect();
        let own = left.iter().map(|tree| &sums[tree * alphas.len()..][..alphas.len()]);
        let sums = own.flatten().copied().collect();
        self.large =
            (compact(&forest.select(left), &Context::default())?.into_owned(), sums);
        Ok(())
    }

    /// Whether what the tree that came in last has changed is finite.
    fn is_finite(&self, reader: &Reader) -> bool {
        let width = self.options.n_outputs;
        let sums = self.weights.sums();
        self.entered(reader).all(|(slot, _)| {
            let sums = match slot.group {
                LEAF => &[],
                group => &sums[group as usize * width..][..width],
            };
            self.weights.get(slot).iter().chain(sums).all(|value| value.is_finite())
        })
    }

    /// The scores of trees, `n_outputs` for each, and the trees that a normalised kernel
    /// knows nothing of, as their kernel with themselves is 0. The same bits for every
    /// number of threads.
    ///
    /// # Errors
    /// [`Error::ScoreOverflow`], [`Error::Memory`], [`Error::Capacity`], and what `context`
    /// returns.
    pub fn score(
        &self,
        forest: &Forest,
        context: &Context,
    ) -> Result<(Vec<f64>, Vec<usize>)> {
        let n = forest.len().saturating_mul(self.options.n_outputs);
        let mut out = memory::filled(0.0, n)?;
        let zeros = self.score_into(forest, &mut out, context)?;
        Ok((out, zeros))
    }

    /// As [`score`](Self::score), into `out`, tree after tree.
    ///
    /// # Errors
    /// [`Error::Length`] for an `out` of the wrong size, and as [`score`](Self::score).
    pub fn score_into(
        &self,
        forest: &Forest,
        out: &mut [f64],
        context: &Context,
    ) -> Result<Vec<usize>> {
        let width = self.options.n_outputs;
        check_length("out", out, forest.len() * width, "trees times n_outputs")?;
        context.advance(0, forest.len())?;
        let forest = compact(forest, context)?;
        self.for_trees(&forest, true, out, context, |tree, out, context| {
            let Tree { worker, seen, at_rest, norm, .. } = tree;
            self.raw_score(seen, worker, at_rest, out, context)?;
            for (score, intercept) in out.iter_mut().zip(&self.intercept) {
                *score = norm.divide(*score) + intercept;
            }
            for (cosine, alphas) in
                worker.cosines.iter().zip(self.large.1.chunks(width))
            {
                add_scaled(*cosine, alphas, out);
            }
            Ok(())
        })
    }

    /// How much each node of a tree, in preorder, adds to its scores: the sum over all
    /// fragments rooted there, `n_outputs` numbers for each node. Together they are the
    /// score without the intercept.
    ///
    /// # Errors
    /// As [`score`](Self::score), and [`Error::Expansion`] for a tree that would be too
    /// large written out.
    pub fn contributions(&self, tree: &Forest, context: &Context) -> Result<Vec<f64>> {
        let width = self.options.n_outputs;
        let tree = compact(tree, context)?;
        let store = &**tree.nodes();
        let Some(&root) = tree.roots().first() else { return Ok(Vec::new()) };
        let n_nodes = tree.expanded("contributions")?;
        let mut out = Vec::new();
        memory::reserve(&mut out, n_nodes.saturating_mul(width))?;
        memory::room(store.len(), width.saturating_mul(16) + BYTES_PER_NODE)?;
        let id_map = self.id_map(store)?;
        let mut worker = Worker::default();
        let seen = Seen { store, id_map: &id_map };
        if self.large.0.is_empty() {
            self.read(&seen, &mut worker.reader, root)?;
        } else {
            // Large trees know nodes that the graph does not.
            worker.reader.read(store, root, true)?;
        }
        let mut shares = vec![0.0; worker.reader.items().len() * width];
        let mut sink = Several::by_place(&self.weights, &mut shares);
        self.pass(&seen, &mut worker, None, &mut sink, context)?;
        if self.options.normalize {
            self.normalize_shares(&tree, &worker.reader, &mut shares, context)?;
        }
        let mut todo = vec![root];
        while let Some(node) = todo.pop() {
            let place = worker.reader.place(node);
            match shares.get(place.saturating_mul(width)..) {
                Some(own) => out.extend_from_slice(&own[..width]),
                None => out.extend(std::iter::repeat_n(0.0, width)),
            }
            todo.extend(store.children(node).iter().rev());
        }
        if out.iter().all(|share| share.is_finite()) {
            return Ok(out);
        }
        Err(Error::ScoreOverflow { tree: 0 })
    }

    /// Divides the shares of a tree's nodes, and adds those that large trees have in them.
    /// Of these a node's is K(subtree at it, large tree) without those of its children.
    fn normalize_shares(
        &self,
        tree: &Forest,
        reader: &Reader,
        shares: &mut [f64],
        context: &Context,
    ) -> Result<()> {
        let (width, items) = (self.options.n_outputs, reader.items());
        // Before the subtrees, as the tree itself would else be one of them.
        let mut all = vec![tree.roots()[0]];
        if !self.large.0.is_empty() {
            all.extend(items.iter().map(|item| item.node));
        }
        let n = all.len();
        let all = self
            .with_large(&Forest::new(Arc::clone(tree.nodes()), all), context)?
            .into_owned();
        let singles = gram::prepare(self.kernel(), all.nodes(), all.roots(), context)?;
        let mut of = singles.worker();
        let norm = Norm::of(of(0, 0, context)?);
        for share in shares.iter_mut() {
            *share = norm.divide(*share);
        }
        let mut parts = vec![0.0; items.len()];
        for (large, alphas) in (n..all.len()).zip(self.large.1.chunks(width)) {
            let other = of(large, large, context)?;
            for (place, item) in items.iter().enumerate() {
                context.check_now()?;
                parts[place] = of(place + 1, large, context)?.cosine(norm.own, other);
                let below = tree.nodes().children(item.node).iter();
                let below: f64 = below.map(|&child| parts[reader.place(child)]).sum();
                // Only rounding makes it negative.
                let own = (parts[place] - below).max(0.0);
                add_scaled(own, alphas, &mut shares[place * width..][..width]);
            }
        }
        Ok(())
    }

    /// Bytes of the model as flat arrays, in lists that double, and once more.
    #[cfg_attr(not(feature = "python"), allow(dead_code))]
    pub(crate) fn arrays_nbytes(&self) -> usize {
        let nodes = self.nodes.nbytes() + self.large.0.nodes().nbytes();
        3 * nodes + 5 * self.weights.nbytes()
    }

    /// The model as flat arrays.
    pub fn to_arrays(&self) -> Arrays {
        let all = (0..self.nodes.len()).map(|node| NodeId(node as u32));
        let mut arrays = Arrays {
            names: self.nodes.labels().names().map(str::to_owned).collect(),
            sums: self.weights.sums().to_vec(),
            intercept: self.intercept.clone(),
            n_trees: self.n_trees,
            n_tree_nodes: self.n_tree_nodes,
            large_trees: self.large.0.clone(),
            large_alphas: self.large.1.clone(),
            ..Arrays::default()
        };
        for node in all {
            arrays.labels.push(self.nodes.label(node).0);
            arrays.children.extend(self.nodes.children(node).iter().map(|c| c.0));
            arrays.ends.push(arrays.children.len() as u32);
            arrays.weights.extend_from_slice(self.weights(node));
        }
        arrays
    }

    /// The model of flat arrays: its scores have the same bits.
    ///
    /// # Errors
    /// [`Error::Array`] and [`Error::Length`] for arrays that do not describe a model.
    pub fn from_arrays(
        kernel: &dyn Kernel,
        options: Options,
        arrays: &Arrays,
    ) -> Result<Self> {
        let mut model = Self::new(kernel, options)?;
        let (n, width) = (arrays.labels.len(), options.n_outputs);
        check_length("ends", &arrays.ends, n, "one for each label")?;
        check_length(
            "weights",
            &arrays.weights,
            n.saturating_mul(width),
            "subtrees times n_outputs",
        )?;
        check_finite("weights", &arrays.weights)?;
        check_finite("sums", &arrays.sums)?;
        for (index, name) in arrays.names.iter().enumerate() {
            if model.nodes.labels_mut().intern(name)?.index() != index {
                let (array, expected) = ("names", "a name of its own".to_owned());
                return Err(Error::Array { array, index, expected, got: name.clone() });
            }
        }
        memory::room(n, width.saturating_mul(16) + BYTES_PER_NODE)?;
        let n_labels = model.nodes.labels().len() as u32;
        let mut start = 0;
        for node in 0..n {
            let wrong = |array, index, expected: String, got: String| {
                Err(Error::Array { array, index, expected, got })
            };
            let (label, end) = (arrays.labels[node], arrays.ends[node]);
            if label >= n_labels {
                let expected =
                    format!("an index below {n_labels}, the number of names");
                return wrong("labels", node, expected, label.to_string());
            }
            let Some(below) = arrays.children.get(start..end as usize) else {
                let expected = format!("{start} to {}", arrays.children.len());
                return wrong("ends", node, expected, end.to_string());
            };
            if let Some(at) = below.iter().position(|&child| child as usize >= node) {
                let expected = format!("a subtree before number {node}");
                return wrong("children", start + at, expected, below[at].to_string());
            }
            start = end as usize;
            model.below.clear();
            model.below.extend(below.iter().map(|&child| NodeId(child)));
            let id = model.nodes.intern(Label(label), &model.below)?;
            if id.index() != node {
                let expected = "a subtree of its own".to_owned();
                return wrong("labels", node, expected, format!("that of {}", id.0));
            }
            model.enter_node(id)?;
        }
        check_length("children", &arrays.children, start, "the last of ends")?;
        for node in 0..n {
            let values = &arrays.weights[node * width..][..width];
            model.weights.set(model.slots[node], values);
        }
        let n_sums = model.weights.sums().len();
        check_length("sums", &arrays.sums, n_sums, "groups times n_outputs")?;
        model.weights.set_sums(&arrays.sums);
        let large = arrays.large_trees.clone();
        if !options.normalize {
            check_length("large_trees", large.roots(), 0, "without normalize")?;
        }
        let n_large = large.len() * width;
        check_length(
            "large_alphas",
            &arrays.large_alphas,
            n_large,
            "trees times n_outputs",
        )?;
        check_finite("large_alphas", &arrays.large_alphas)?;
        model.large = (large, arrays.large_alphas.clone());
        let all = arrays.weights.iter().chain(&arrays.sums).chain(&arrays.large_alphas);
        model.magnitude = all.fold(0.0, |sum, value| sum + value.abs());
        model.set_intercept(&arrays.intercept)?;
        (model.n_trees, model.n_tree_nodes) = (arrays.n_trees, arrays.n_tree_nodes);
        Ok(model)
    }

    // --- trees come in ------------------------------------------------------------

    fn count_tree(&mut self, reader: &Reader) {
        let size = reader.items().iter().map(|item| item.count).sum::<f64>();
        self.n_trees = self.n_trees.saturating_add(1);
        self.n_tree_nodes = self.n_tree_nodes.saturating_add(size as u64);
    }

    /// Enters the subtrees of the tree that was read last, as `self.ids`.
    fn enter(
        &mut self,
        store: &Nodes,
        id_map: &mut IdMap,
        reader: &Reader,
    ) -> Result<()> {
        self.ids.clear();
        for item in reader.items() {
            let there = store.label(item.node);
            let label = match id_map.labels[there.index()] {
                NONE => {
                    let label =
                        self.nodes.labels_mut().intern(store.labels().name(there))?;
                    id_map.labels[there.index()] = label.0;
                    label
                }
                known => Label(known),
            };
            self.below.clear();
            let below = store.children(item.node).iter();
            let ids = &self.ids;
            self.below.extend(below.map(|&c| NodeId(ids[reader.place(c)])));
            let mark = self.nodes.mark();
            let id = self.nodes.intern(label, &self.below)?;
            if id.index() == self.slots.len() {
                if let Err(error) = self.enter_node(id) {
                    // The next subtree has its number.
                    self.nodes.roll_back(mark);
                    return Err(error);
                }
                let find = |key| self.find(key);
                id_map.learn((store, item.node), (&self.nodes, id), find);
            }
            self.ids.push(id.0);
        }
        Ok(())
    }

    /// Gives a new subtree its place, and enters it in the lists.
    fn enter_node(&mut self, node: NodeId) -> Result<()> {
        let label = self.nodes.label(node).0;
        let leaf = Slot { group: LEAF, number: label };
        let is_leaf = self.nodes.is_leaf(node);
        // 1. Room for its weight: nobody minds if it stays empty.
        let own = Slot { group: 0, number: node.0 };
        let production = self.nodes.production(node).map_or(0, |p| p.0);
        let slot = match &self.index {
            Index::Elastic(index) => index.next_slot(&self.nodes, node),
            _ if is_leaf => leaf,
            Index::Subtree(_) => own,
            Index::Subset(index) => index.next_slot(production),
            Index::Partial(index) => index.next_slot(label),
        };
        self.weights.enter(slot)?;
        memory::reserve(&mut self.slots, 1)?;
        // 2. The lists.
        if let Index::Subtree(index) = &mut self.index {
            index.enter(&self.nodes, node)?;
        }
        let slot = match &mut self.index {
            Index::Elastic(index) => index.enter(&self.nodes, node, 0)?,
            _ if is_leaf => leaf,
            Index::Subtree(_) => own,
            Index::Subset(index) => index.enter(&self.nodes, node, &self.slots)?,
            Index::Partial(index) => {
                index.enter_node(&self.nodes, node, &self.slots)?
            }
        };
        self.slots.push(slot);
        Ok(())
    }

    /// The slots of the tree that came in last, with the numbers of its subtrees.
    fn entered<'a>(
        &'a self,
        reader: &'a Reader,
    ) -> impl Iterator<Item = (Slot, f64)> + use<'a> {
        let items = self.ids.iter().zip(reader.items());
        items.map(|(&id, item)| (self.slots[id as usize], item.count))
    }

    /// Adds weights to the subtrees of the tree that came in last.
    fn weigh(&mut self, reader: &Reader, alphas: &[f64]) {
        self.rest = Rest::default();
        let Self { ids, slots, weights, .. } = self;
        for (&id, item) in ids.iter().zip(reader.items()) {
            weights.add(slots[id as usize], item.count, alphas);
        }
    }

    // --- trees are scored ------------------------------------------------------------

    fn find(&self, key: Key) -> Option<u32> {
        match &self.index {
            Index::Subset(index) => index.find(key),
            Index::Partial(index) => index.find(key),
            _ => None,
        }
    }

    fn id_map(&self, store: &Nodes) -> Result<IdMap> {
        let wanted = match &self.index {
            Index::Subtree(_) => Wanted::Nodes,
            Index::Subset(_) => Wanted::Productions,
            Index::Partial(_) => Wanted::LabelPairs,
            Index::Elastic(_) => Wanted::Labels,
        };
        IdMap::new(store, &self.nodes, wanted, |key| self.find(key))
    }

    /// Reads a tree for a score; without its leaves where these have no part in it.
    ///
    /// # Errors
    /// [`Error::Memory`].
    #[inline]
    fn read(&self, seen: &Seen<'_>, reader: &mut Reader, root: NodeId) -> Result<()> {
        match &self.index {
            Index::Subtree(index) => {
                reader.read(seen.store, root, index.leaf_weight > 0.0)
            }
            Index::Subset(index) if index.leaf_weight == 0.0 => {
                reader.read_listed(seen.store.len(), root, seen.id_map)
            }
            _ => reader.read(seen.store, root, true),
        }
    }

    /// Tells a sink all values of C of the tree that was read last.
    fn pass<S: Sink>(
        &self,
        seen: &Seen<'_>,
        worker: &mut Worker,
        at_rest: Option<&AtRest>,
        sink: &mut S,
        context: &Context,
    ) -> Result<()> {
        let Worker { reader, values, subset, partial, elastic, .. } = worker;
        let Seen { store, id_map } = *seen;
        match &self.index {
            Index::Subtree(index) => {
                index.score(store, id_map, reader, values, sink);
                Ok(())
            }
            Index::Subset(index) => {
                if index.leaf_weight > 0.0 {
                    for (place, item) in reader.items().iter().enumerate() {
                        let label = id_map.labels[store.label(item.node).index()];
                        if store.is_leaf(item.node) && label != NONE {
                            sink.node(place, item.count);
                            sink.leaf(label, index.leaf_weight);
                        }
                    }
                }
                let mut walk = Walk {
                    index,
                    id_map,
                    tree: reader,
                    extent: &Whole,
                    patterns: at_rest.map(|tables| &tables.patterns),
                    folds: at_rest.map_or(&[], |tables| &tables.fold_of),
                    scratch: subset,
                };
                let group = |p: ProductionId| id_map.productions[p.index()];
                let production =
                    |place: usize| store.production(reader.items()[place].node);
                walk.plan(|place| production(place).map_or(NONE, group), sink)?;
                walk.walk(sink, context)
            }
            Index::Partial(index) => {
                let query = partial::Query { store, id_map, tree: reader };
                index.walk(query, &Whole, partial, sink, context)
            }
            Index::Elastic(index) => {
                let query =
                    elastic::Query { store, labels: &id_map.labels, tree: reader };
                index.tell_labels(query, sink);
                index.walk(&self.nodes, query, 1, elastic, sink, context)
            }
        }
    }

    /// Tables that hold until the model changes, where its kernel has them and scores
    /// since the last change, `visits` and those before, have taken as long as making them.
    fn tables(
        &self,
        visits: impl FnOnce(&subset::Index) -> u64,
    ) -> Option<Arc<AtRest>> {
        let Index::Subset(index) = &self.index else { return None };
        self.rest.tables.get().or_else(|| {
            if !self.has_paid(visits) {
                return None;
            }
            // Without them scores take longer, that is all.
            memory::room(1, self.weights.nbytes() + index.nbytes()).ok()?;
            let make = || AtRest::new(&self.nodes, index, &self.weights);
            Some(self.rest.tables.get_or_make(make))
        })
    }

    /// Whether scores since the last change have taken as long as making tables.
    fn has_paid(&self, visits: impl FnOnce(&subset::Index) -> u64) -> bool {
        let Index::Subset(index) = &self.index else { return false };
        let visits = visits(index);
        let before = self.rest.visits.fetch_add(visits, Ordering::Relaxed);
        before.saturating_add(visits) >= index.cost_of_tables()
    }

    /// Scores of the tree that was read last, neither normalised nor with the intercept.
    fn raw_score(
        &self,
        seen: &Seen<'_>,
        worker: &mut Worker,
        at_rest: Option<&AtRest>,
        out: &mut [f64],
        context: &Context,
    ) -> Result<()> {
        let weights = &self.weights;
        match at_rest {
            Some(at_rest) => {
                let numbers = Rested { weights, at_rest };
                self.score_by(&numbers, seen, worker, Some(at_rest), out, context)
            }
            None => self.score_by(weights, seen, worker, None, out, context),
        }
    }

    fn score_by<N: Numbers>(
        &self,
        numbers: &N,
        seen: &Seen<'_>,
        worker: &mut Worker,
        at_rest: Option<&AtRest>,
        out: &mut [f64],
        context: &Context,
    ) -> Result<()> {
        if let [out] = out {
            let mut sink = One::new(numbers);
            self.pass(seen, worker, at_rest, &mut sink, context)?;
            *out = sink.sum;
            return Ok(());
        }
        out.fill(0.0);
        self.pass(seen, worker, at_rest, &mut Several::new(numbers, out), context)
    }

    /// 1 / sqrt(K(x,x)) of each tree, 0 where that is 0, NaN where floats do not do; nothing
    /// where the kernel is not normalised.
    fn scales(&self, forest: &Forest, context: &Context) -> Result<Vec<f64>> {
        if !self.options.normalize {
            return Ok(Vec::new());
        }
        let n = forest.len();
        let singles =
            gram::prepare(self.kernel(), forest.nodes(), forest.roots(), context)?;
        let mut of = singles.worker();
        let scale = |tree| {
            context.check_now()?;
            Ok(gram::scale(of(tree, tree, context)?))
        };
        (0..n).map(scale).collect()
    }

    /// The trees of a forest, and after them the model's large ones.
    fn with_large<'f>(
        &self,
        forest: &'f Forest,
        context: &Context,
    ) -> Result<Cow<'f, Forest>> {
        if self.large.0.is_empty() {
            return Ok(Cow::Borrowed(forest));
        }
        Forest::try_concat_all([forest, &self.large.0], context).map(Cow::Owned)
    }

    /// Reads one tree after the other and lets `score` fill its part of `out`.
    fn for_trees(
        &self,
        forest: &Forest,
        wants_tables: bool,
        out: &mut [f64],
        context: &Context,
        score: impl Fn(Tree<'_>, &mut [f64], &Context) -> Result<()> + Sync,
    ) -> Result<Vec<usize>> {
        const PER_TASK: usize = 32;
        let width = self.options.n_outputs;
        if forest.is_empty() {
            context.check_now()?;
            return Ok(Vec::new());
        }
        let store = &**forest.nodes();
        let id_map = self.id_map(store)?;
        let seen = Seen { store, id_map: &id_map };
        let at_rest = if wants_tables {
            self.tables(|index| visits(index, forest, &id_map))
        } else {
            None
        };
        let at_rest = at_rest.as_deref();
        let n = forest.len();
        // The trees, and after them the large ones of the model.
        let all = self.with_large(forest, context)?;
        let singles = if self.options.normalize {
            let kernel = self.kernel();
            Some(gram::prepare(kernel, all.nodes(), all.roots(), context)?)
        } else {
            None
        };
        let mut larges = Vec::new();
        if let Some(singles) = &singles {
            larges = with_selfs(&mut singles.worker(), n..all.len(), context)?;
        }
        let zeros = Mutex::new(Vec::new());
        let parts: Vec<_> = out.chunks_mut(PER_TASK * width).map(Mutex::new).collect();
        let threads = Threads::new(context, parts.len());
        let new = || (Worker::default(), singles.as_ref().map(|of| of.worker()));
        let mut workers: Vec<_> = (0..threads.size()).map(|_| new()).collect();
        threads.run(
            &Tasks::of_rows(n, PER_TASK),
            &mut workers,
            |part, (worker, selfs), context| {
                let Ok(mut out) = parts[part].lock() else { return Ok(()) };
                for (offset, out) in out.chunks_mut(width).enumerate() {
                    let number = part * PER_TASK + offset;
                    let mut norm = Norm::default();
                    worker.cosines.clear();
                    if let Some(of) = selfs {
                        norm =
                            stand(of, number, &larges, &mut worker.cosines, context)?;
                        if norm.own.is_zero()
                            && let Ok(mut zeros) = zeros.lock()
                        {
                            zeros.push(number);
                        }
                    }
                    self.read(&seen, &mut worker.reader, forest.roots()[number])?;
                    let tree = Tree { worker, seen: &seen, at_rest, norm, number };
                    score(tree, out, context)?;
                    if !out.iter().all(|score| score.is_finite()) {
                        return Err(Error::ScoreOverflow { tree: number });
                    }
                }
                context.check_now()
            },
        )?;
        drop(parts);
        context.report(n, n)?;
        let mut zeros = zeros.into_inner().unwrap_or_default();
        zeros.sort_unstable();
        Ok(zeros)
    }
}

/// About how many entries of lists some trees visit: those of some of them.
fn visits(index: &subset::Index, forest: &Forest, id_map: &IdMap) -> u64 {
    const SOME: usize = 16;
    let step = forest.len().div_ceil(SOME);
    let mut reader = Reader::default();
    let of = |&root: &NodeId| {
        // Without memory for it, no tables are made.
        let read = reader.read_listed(forest.nodes().len(), root, id_map);
        read.map_or(0, |()| index.visits(id_map, &reader))
    };
    forest.roots().iter().step_by(step).map(of).sum::<u64>() * step as u64
}

/// A tree to be added: its number, 1 / sqrt(K(x,x)) or 1, and its weights.
#[derive(Clone, Copy)]
struct Added<'a> {
    tree: usize,
    root: NodeId,
    scale: f64,
    alphas: &'a [f64],
}

/// A tree at hand.
struct Tree<'a> {
    worker: &'a mut Worker,
    seen: &'a Seen<'a>,
    at_rest: Option<&'a AtRest>,
    norm: Norm,
    number: usize,
}

/// What a tree's scores are divided by: the root of its kernel with itself, or 1.
#[derive(Clone, Copy)]
struct Norm {
    /// 1 / sqrt(K(x,x)); NaN where floats do not do.
    scale: f64,
    own: Scaled,
}

impl Default for Norm {
    fn default() -> Self {
        Self { scale: 1.0, own: Scaled::of(1.0) }
    }
}

impl Norm {
    fn of(own: Scaled) -> Self {
        Self { scale: gram::scale(own), own }
    }

    fn divide(self, raw: f64) -> f64 {
        if self.scale.is_nan() && raw.is_finite() {
            return Scaled::of(raw).cosine(self.own, Scaled::of(1.0));
        }
        raw * self.scale
    }
}

/// What one tree of a store that may be large is divided by.
fn one_norm(
    kernel: &dyn Kernel,
    store: &Nodes,
    root: NodeId,
    context: &Context,
) -> Result<Norm> {
    let mut nodes = Nodes::default();
    let root = nodes.absorb_one(store, root, context)?;
    let singles = gram::prepare(kernel, &Arc::new(nodes), &[root], context)?;
    Ok(Norm::of(singles.worker()(0, 0, context)?))
}

/// Trees of a list, each with its kernel with itself.
fn with_selfs(
    of: &mut Single<'_>,
    trees: Range<usize>,
    context: &Context,
) -> Result<Vec<(usize, Scaled)>> {
    trees.map(|tree| Ok((tree, of(tree, tree, context)?))).collect()
}

/// What a tree is divided by, and its normalised kernels with large trees.
fn stand(
    of: &mut Single<'_>,
    tree: usize,
    larges: &[(usize, Scaled)],
    cosines: &mut Vec<f64>,
    context: &Context,
) -> Result<Norm> {
    let own = of(tree, tree, context)?;
    cosines.clear();
    for &(large, other) in larges {
        cosines.push(of(tree, large, context)?.normalized(own, other));
    }
    Ok(Norm::of(own))
}

/// The same trees, in a store of their own if theirs is much larger: what follows is
/// linear in it.
pub(crate) fn compact<'f>(
    forest: &'f Forest,
    context: &Context,
) -> Result<Cow<'f, Forest>> {
    const SHARE: usize = 64;
    const SMALL: usize = 4096;
    let n_nodes = forest.nodes().len();
    if n_nodes <= SMALL || forest.len() >= n_nodes / SHARE {
        return Ok(Cow::Borrowed(forest));
    }
    memory::room(n_nodes, 32)?;
    let sizes = forest.roots().iter().map(|&root| forest.nodes().size(root));
    let n_copied = sizes.fold(0, u64::saturating_add).min(n_nodes as u64);
    memory::room(n_copied as usize, BYTES_PER_NODE)?;
    let mut nodes = Nodes::default();
    let mut copy = |&root: &NodeId| nodes.absorb_one(forest.nodes(), root, context);
    let roots = forest.roots().iter().map(&mut copy).collect::<Result<_>>()?;
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

/// What a tree of a size adds to all weights and sums of weights at most.
fn growth(scale: f64, size: f64, alphas: &[f64]) -> f64 {
    let largest = alphas.iter().fold(0.0, |most, a| a.abs().max(most));
    // A large tree is kept as a whole.
    if scale.is_nan() { largest } else { largest * scale * size }
}

/// The error of a tree whose weights would make others infinite.
fn too_large(array: &'static str, index: usize, alphas: &[f64]) -> Error {
    let expected = "a weight that keeps all sums of weights finite".to_owned();
    Error::Array { array, index, expected, got: format!("{:e}", alphas[0]) }
}

fn check_finite(array: &'static str, values: &[f64]) -> Result<()> {
    let Some(index) = values.iter().position(|value| !value.is_finite()) else {
        return Ok(());
    };
    let (expected, got) = ("a finite number".to_owned(), values[index].to_string());
    Err(Error::Array { array, index, expected, got })
}
