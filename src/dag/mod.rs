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
//! use treekernel_rs::{Forest, Kernel};
//!
//! let trees = Forest::from_brackets("(S (A a) (B b)) (S (A a) (B c)) (A a)")?;
//! let kernel = Kernel::SubsetTree { decay: 0.4, leaf_weight: 0.0 };
//! let mut model = Model::new(kernel, Options::default())?;
//! model.add(&trees.select([0, 1]), &[1.0, -0.5], &mut |_, _| Ok(()))?;
//! let scores = model.score(&trees, Some(1), &mut |_, _| Ok(()))?.0;
//! assert!((scores[0] - (1.584 - 0.5 * 0.96)).abs() < 1e-12);
//! # Ok::<(), treekernel_rs::Error>(())
//! ```
//!
//! # Complexity
//! Memory: by the distinct subtrees of the support trees. Adding a tree: by its nodes,
//! whatever the model. A score: by what its tree and the model have in common.

mod elastic;
mod fragments;
mod frozen;
mod lens;
pub mod naive;
mod partial;
mod perceptron;
mod subset;
mod subtree;
mod tree;
mod vectors;
mod weights;

use std::borrow::Cow;
use std::sync::{Arc, Mutex, OnceLock};

use crate::gram::{self, Watch};
use crate::kernel::Scaled;
use crate::team::{Pause, Team};
use crate::{Error, Forest, Kernel, Label, NodeId, Nodes, Result};
pub use fragments::{Fragments, Query, Rank};
use frozen::{Frozen, Scene};
use lens::{Key, Lens, Wanted};
pub use perceptron::{Perceptron, Stored, Vote};
use tree::{NONE, Reader};
pub use vectors::{Features, PolynomialKernel};
use weights::{LEAF, One, Several, Shares, Sink, Slot, Weights};

/// What a model is like, besides its kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// Inverted lists, or what a kernel needs instead.
#[derive(Debug, Clone)]
enum Index {
    Subtree(subtree::Index),
    Subset(subset::Index),
    Partial(partial::Index),
    Elastic(elastic::Index),
}

/// A kernel machine without its support trees. See the [module](self).
#[derive(Debug, Clone)]
pub struct Model {
    kernel: Kernel,
    options: Options,
    nodes: Nodes,
    /// By node: where its weight is.
    slots: Vec<Slot>,
    index: Index,
    weights: Weights,
    /// Tables for scores (SST), until the weights change.
    frozen: OnceLock<Arc<Frozen>>,
    intercept: Vec<f64>,
    n_trees: u64,
    n_tree_nodes: u64,
    /// The subtrees of the tree that came in last.
    ids: Vec<u32>,
    below: Vec<NodeId>,
}

/// What a worker keeps from tree to tree.
#[derive(Debug, Default)]
struct Worker {
    reader: Reader,
    values: Vec<f64>,
    subset: subset::Scratch,
    frozen: frozen::Scratch,
    partial: partial::Scratch,
    elastic: elastic::Scratch,
    /// For perceptrons: kernels with all support trees; dot products; a row of features.
    row: Vec<f64>,
    dots: Vec<f64>,
    features: Vec<(u32, f64)>,
}

/// Trees to be scored, as the model sees them.
struct Seen<'a> {
    store: &'a Nodes,
    lens: &'a Lens,
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
}

impl Model {
    /// An empty model.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a kernel out of range or no outputs.
    pub fn new(kernel: Kernel, options: Options) -> Result<Self> {
        let kernel = kernel.validated()?;
        if options.n_outputs == 0 {
            let (name, expected) = ("n_outputs", "at least 1");
            return Err(Error::Parameter { name, expected, got: "0".into() });
        }
        let index = match kernel {
            Kernel::Subtree { decay, leaf_weight } => {
                Index::Subtree(subtree::Index { decay, leaf_weight })
            }
            Kernel::SubsetTree { decay, leaf_weight } => {
                Index::Subset(subset::Index::new(decay, leaf_weight))
            }
            Kernel::PartialTree { decay, mu, leaf_factor, max_children } => {
                Index::Partial(partial::Index::new(
                    decay,
                    mu,
                    leaf_factor,
                    max_children,
                ))
            }
            Kernel::ElasticTree { decay } => Index::Elastic(elastic::Index::new(decay)),
        };
        Ok(Self {
            kernel,
            options,
            nodes: Nodes::default(),
            slots: Vec::new(),
            index,
            weights: Weights::new(options.n_outputs),
            frozen: OnceLock::new(),
            intercept: vec![0.0; options.n_outputs],
            n_trees: 0,
            n_tree_nodes: 0,
            ids: Vec::new(),
            below: Vec::new(),
        })
    }

    /// The kernel.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
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
            Index::Subtree(_) => 0,
            Index::Subset(index) => index.nbytes(),
            Index::Partial(index) => index.nbytes(),
            Index::Elastic(index) => index.nbytes(),
        };
        let slots = self.slots.capacity() * size_of::<Slot>();
        let frozen = self.frozen.get().map_or(0, |frozen| frozen.nbytes());
        self.nodes.nbytes() + slots + lists + self.weights.nbytes() + frozen
    }

    /// Adds trees with weights, `n_outputs` for each; of trees all of whose weights are
    /// 0 nothing is kept. Returns the trees that a normalised kernel cannot add, as their
    /// kernel with themselves is 0.
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::Array`] for a weight that is not finite and
    /// [`Error::SelfOverflow`] for a tree whose kernel with itself is too large to normalise
    /// with: with nothing changed. [`Error::Capacity`] and what `watch` returns leave the
    /// trees before.
    pub fn add(
        &mut self,
        forest: &Forest,
        alphas: &[f64],
        watch: &mut Watch<'_>,
    ) -> Result<Vec<usize>> {
        let (n, width) = (forest.len(), self.options.n_outputs);
        check_length("alphas", alphas, n * width, "trees times n_outputs")?;
        check_finite("alphas", alphas)?;
        let is_wanted = |tree: &usize| {
            alphas[tree * width..][..width].iter().any(|&alpha| alpha != 0.0)
        };
        let wanted: Vec<usize> = (0..n).filter(is_wanted).collect();
        let picked = forest.select(wanted.iter().copied());
        let picked = compact(&picked)?;
        let store = &**picked.nodes();
        let scales = self.scales(&picked, &wanted, watch)?;
        let mut lens = self.lens(store)?;
        let mut reader = Reader::default();
        let mut zeros = Vec::new();
        let mut scaled = vec![0.0; width];
        let mut pace = Pace::default();
        for (at, (&root, &tree)) in picked.roots().iter().zip(&wanted).enumerate() {
            reader.read(store, root, true);
            self.count_tree(&reader);
            if scales.get(at) == Some(&0.0) {
                zeros.push(tree);
                continue;
            }
            let scale = scales.get(at).copied().unwrap_or(1.0);
            self.enter(store, &mut lens, &reader)?;
            for (scaled, alpha) in scaled.iter_mut().zip(&alphas[tree * width..]) {
                *scaled = scale * alpha;
            }
            self.weigh(&reader, &scaled);
            pace.tell(watch, at + 1, picked.len())?;
        }
        watch(n, n)?;
        Ok(zeros)
    }

    /// The scores of trees, `n_outputs` for each, and the trees that a normalised kernel
    /// knows nothing of, as their kernel with themselves is 0. The same bits for every
    /// `n_jobs` (None: one worker for each core).
    ///
    /// # Errors
    /// [`Error::ScoreOverflow`], [`Error::SelfOverflow`] for a tree whose kernel with itself
    /// is too large to normalise with, [`Error::Capacity`], and what `watch` returns.
    pub fn score(
        &self,
        forest: &Forest,
        n_jobs: Option<usize>,
        watch: &mut Watch<'_>,
    ) -> Result<(Vec<f64>, Vec<usize>)> {
        let mut out = vec![0.0; forest.len() * self.options.n_outputs];
        let zeros = self.score_into(forest, n_jobs, &mut out, watch)?;
        Ok((out, zeros))
    }

    /// As [`score`](Self::score), into `out`, tree after tree.
    ///
    /// # Errors
    /// [`Error::Length`] for an `out` of the wrong size, and as [`score`](Self::score).
    pub fn score_into(
        &self,
        forest: &Forest,
        n_jobs: Option<usize>,
        out: &mut [f64],
        watch: &mut Watch<'_>,
    ) -> Result<Vec<usize>> {
        let width = self.options.n_outputs;
        check_length("out", out, forest.len() * width, "trees times n_outputs")?;
        let forest = compact(forest)?;
        self.for_trees(&forest, n_jobs, width, out, watch, |tree, at| {
            let Tree { worker, seen, scale, .. } = tree;
            if !self.score_at_rest(seen, worker, at.out) {
                self.raw_score(&self.weights, seen, worker, at.out, at.pause)?;
            }
            for (score, intercept) in at.out.iter_mut().zip(&self.intercept) {
                *score = *score * scale + intercept;
            }
            Ok(())
        })
    }

    /// How much each node of a tree, in preorder, adds to its scores: the sum over all
    /// fragments rooted there, `n_outputs` numbers for each node. Together they are the
    /// score without the intercept.
    ///
    /// # Errors
    /// As [`score`](Self::score), and [`Error::Capacity`] for a tree of 2^32 nodes.
    pub fn contributions(&self, tree: &Forest) -> Result<Vec<f64>> {
        self.shares(&self.weights, tree)
    }

    fn shares<N: weights::Numbers>(
        &self,
        numbers: &N,
        tree: &Forest,
    ) -> Result<Vec<f64>> {
        let width = self.options.n_outputs;
        let tree = compact(tree)?;
        let store = &**tree.nodes();
        let Some(&root) = tree.roots().first() else { return Ok(Vec::new()) };
        let n_nodes = crate::intern::new_id(
            usize::try_from(store.size(root)).unwrap_or(usize::MAX),
            "nodes of one tree",
        )?;
        let scales = self.scales(&tree, &[0], &mut |_, _| Ok(()))?;
        let scale = scales.first().copied().unwrap_or(1.0);
        let lens = self.lens(store)?;
        let mut worker = Worker::default();
        let seen = Seen { store, lens: &lens };
        self.read(&seen, &mut worker.reader, root);
        let mut shares = vec![0.0; worker.reader.items().len() * width];
        let mut sink = Shares::new(numbers, &mut shares);
        self.pass(&seen, &mut worker, &mut sink, &mut || Ok(()))?;
        let mut out = Vec::with_capacity(n_nodes as usize * width);
        let mut todo = vec![root];
        while let Some(node) = todo.pop() {
            let place = worker.reader.place(node);
            match shares.get(place.saturating_mul(width)..) {
                Some(own) => out.extend(own[..width].iter().map(|share| share * scale)),
                None => out.extend(std::iter::repeat_n(0.0, width)),
            }
            todo.extend(store.children(node).iter().rev());
        }
        if out.iter().all(|share| share.is_finite()) {
            return Ok(out);
        }
        Err(Error::ScoreOverflow { tree: 0 })
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
        kernel: Kernel,
        options: Options,
        arrays: &Arrays,
    ) -> Result<Self> {
        let mut model = Self::new(kernel, options)?;
        let (n, width) = (arrays.labels.len(), options.n_outputs);
        check_length("ends", &arrays.ends, n, "one for each label")?;
        check_length(
            "weights",
            &arrays.weights,
            n * width,
            "subtrees times n_outputs",
        )?;
        check_finite("weights", &arrays.weights)?;
        check_finite("sums", &arrays.sums)?;
        for name in &arrays.names {
            model.nodes.labels_mut().intern(name)?;
        }
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
        for node in 0..n {
            let values = &arrays.weights[node * width..][..width];
            model.weights.set(model.slots[node], values);
        }
        let n_sums = model.weights.sums().len();
        check_length("sums", &arrays.sums, n_sums, "groups times n_outputs")?;
        model.weights.set_sums(&arrays.sums);
        model.set_intercept(&arrays.intercept)?;
        (model.n_trees, model.n_tree_nodes) = (arrays.n_trees, arrays.n_tree_nodes);
        Ok(model)
    }

    // --- trees come in ------------------------------------------------------------

    fn count_tree(&mut self, reader: &Reader) {
        let size = reader.items().iter().map(|item| item.count).sum::<f64>();
        self.n_trees += 1;
        self.n_tree_nodes = self.n_tree_nodes.saturating_add(size as u64);
    }

    /// Enters the subtrees of the tree that was read last, as `self.ids`.
    fn enter(&mut self, store: &Nodes, lens: &mut Lens, reader: &Reader) -> Result<()> {
        self.ids.clear();
        for item in reader.items() {
            let there = store.label(item.node);
            let label = match lens.labels[there.index()] {
                NONE => {
                    let label =
                        self.nodes.labels_mut().intern(store.labels().name(there))?;
                    lens.labels[there.index()] = label.0;
                    label
                }
                known => Label(known),
            };
            self.below.clear();
            let below = store.children(item.node).iter();
            let ids = &self.ids;
            self.below.extend(below.map(|&c| NodeId(ids[reader.place(c)])));
            let id = self.nodes.intern(label, &self.below)?;
            if id.index() == self.slots.len() {
                self.enter_node(id)?;
                let find = |key| self.find(key);
                lens.learn((store, item.node), (&self.nodes, id), find);
            }
            self.ids.push(id.0);
        }
        Ok(())
    }

    /// Gives a new subtree its place, and enters it in the lists.
    fn enter_node(&mut self, node: NodeId) -> Result<()> {
        let leaf = Slot { group: LEAF, number: self.nodes.label(node).0 };
        let is_leaf = self.nodes.is_leaf(node);
        let slot = match &mut self.index {
            Index::Elastic(index) => index.enter(&self.nodes, node),
            _ if is_leaf => leaf,
            Index::Subtree(_) => Slot { group: 0, number: node.0 },
            Index::Subset(index) => index.enter(&self.nodes, node, &self.slots)?,
            Index::Partial(index) => index.enter(&self.nodes, node, &self.slots)?,
        };
        self.weights.enter(slot);
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
        self.frozen.take();
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

    fn lens(&self, store: &Nodes) -> Result<Lens> {
        let wanted = match &self.index {
            Index::Subtree(_) => Wanted::Nodes,
            Index::Subset(_) => Wanted::Productions,
            Index::Partial(_) => Wanted::LabelPairs,
            Index::Elastic(_) => Wanted::Labels,
        };
        Lens::new(store, &self.nodes, wanted, |key| self.find(key))
    }

    /// Reads a tree for a score; without its leaves where these have no part in it.
    #[inline]
    fn read(&self, seen: &Seen<'_>, reader: &mut Reader, root: NodeId) {
        match &self.index {
            Index::Subtree(index) => {
                reader.read(seen.store, root, index.leaf_weight > 0.0);
            }
            Index::Subset(index) if index.leaf_weight == 0.0 => {
                reader.read_listed(seen.store, root, seen.lens);
            }
            _ => reader.read(seen.store, root, true),
        }
    }

    /// Tells a sink all values of C of the tree that was read last.
    fn pass<S: Sink>(
        &self,
        seen: &Seen<'_>,
        worker: &mut Worker,
        sink: &mut S,
        pause: &mut Pause<'_>,
    ) -> Result<()> {
        let Worker { reader, values, subset, partial, elastic, .. } = worker;
        let Seen { store, lens } = *seen;
        match &self.index {
            Index::Subtree(index) => {
                index.score(store, lens, reader, values, sink);
                Ok(())
            }
            Index::Subset(index) => {
                index.score(store, lens, reader, subset, sink, pause)
            }
            Index::Partial(index) => {
                let model = (&self.nodes, &self.slots[..]);
                index.score(store, lens, model, reader, partial, sink, pause)
            }
            Index::Elastic(index) => {
                index.score(store, lens, &self.nodes, reader, elastic, sink, pause)
            }
        }
    }

    /// As [`raw_score`](Self::raw_score), by tables that hold until the model changes; false,
    /// and nothing done, where there are none.
    fn score_at_rest(
        &self,
        seen: &Seen<'_>,
        worker: &mut Worker,
        out: &mut [f64],
    ) -> bool {
        let Index::Subset(index) = &self.index else { return false };
        let new = || Arc::new(Frozen::new(&self.nodes, index, &self.weights));
        let frozen = self.frozen.get_or_init(new);
        let Seen { store, lens } = *seen;
        let scene = Scene { index, weights: &self.weights, store, lens };
        out.fill(0.0);
        frozen.score(scene, &worker.reader, &mut worker.frozen, out)
    }

    /// Scores of the tree that was read last, neither normalised nor with the intercept.
    fn raw_score(
        &self,
        weights: &Weights,
        seen: &Seen<'_>,
        worker: &mut Worker,
        out: &mut [f64],
        pause: &mut Pause<'_>,
    ) -> Result<()> {
        if let [out] = out {
            let mut sink = One::new(weights);
            self.pass(seen, worker, &mut sink, pause)?;
            *out = sink.sum;
            return Ok(());
        }
        out.fill(0.0);
        self.pass(seen, worker, &mut Several::new(weights, out), pause)
    }

    /// 1 / sqrt(K(x,x)) of each tree, 0 where that is 0; nothing where the kernel is not
    /// normalised. `names` are the trees' numbers for errors.
    fn scales(
        &self,
        forest: &Forest,
        names: &[usize],
        watch: &mut Watch<'_>,
    ) -> Result<Vec<f64>> {
        if !self.options.normalize {
            return Ok(Vec::new());
        }
        let singles =
            gram::singles(&self.kernel, forest.nodes(), forest.roots().to_vec())?;
        let mut of = singles.worker();
        let mut pace = Pace::default();
        let n = forest.len();
        (0..n)
            .map(|tree| {
                pace.tell(watch, 0, n)?;
                let name = names[tree];
                usable_scale(of(tree, tree)?).ok_or(Error::SelfOverflow { tree: name })
            })
            .collect()
    }

    /// Reads one tree after the other and lets `score` fill its part of `out`.
    fn for_trees(
        &self,
        forest: &Forest,
        n_jobs: Option<usize>,
        width: usize,
        out: &mut [f64],
        watch: &mut Watch<'_>,
        score: impl Fn(Tree<'_>, At<'_, '_>) -> Result<()> + Sync,
    ) -> Result<Vec<usize>> {
        const PER_TASK: usize = 32;
        if forest.is_empty() {
            watch(0, 0)?;
            return Ok(Vec::new());
        }
        let store = &**forest.nodes();
        let lens = self.lens(store)?;
        let seen = Seen { store, lens: &lens };
        let n = forest.len();
        let singles = if self.options.normalize {
            let roots = forest.roots().to_vec();
            Some(gram::singles(&self.kernel, forest.nodes(), roots)?)
        } else {
            None
        };
        let zeros = Mutex::new(Vec::new());
        let parts: Vec<_> = out.chunks_mut(PER_TASK * width).map(Mutex::new).collect();
        let team = Team::new(n_jobs, parts.len());
        let new = || (Worker::default(), singles.as_ref().map(|of| of.worker()));
        let mut workers: Vec<_> = (0..team.size()).map(|_| new()).collect();
        team.run(
            parts.len(),
            &mut workers,
            |part, (worker, selfs), pause| {
                let Ok(mut out) = parts[part].lock() else { return Ok(()) };
                for (offset, out) in out.chunks_mut(width).enumerate() {
                    let number = part * PER_TASK + offset;
                    let mut scale = 1.0;
                    if let Some(of) = selfs {
                        let error = Error::SelfOverflow { tree: number };
                        scale = usable_scale(of(number, number)?).ok_or(error)?;
                        if scale == 0.0
                            && let Ok(mut zeros) = zeros.lock()
                        {
                            zeros.push(number);
                        }
                    }
                    self.read(&seen, &mut worker.reader, forest.roots()[number]);
                    let tree = Tree { worker, seen: &seen, scale, number };
                    score(tree, At { out, pause })?;
                    if !out.iter().all(|score| score.is_finite()) {
                        return Err(Error::ScoreOverflow { tree: number });
                    }
                }
                pause()
            },
            &mut |done| watch((done * PER_TASK).min(n), n),
        )?;
        drop(parts);
        watch(n, n)?;
        let mut zeros = zeros.into_inner().unwrap_or_default();
        zeros.sort_unstable();
        Ok(zeros)
    }
}

/// A tree at hand.
struct Tree<'a> {
    worker: &'a mut Worker,
    seen: &'a Seen<'a>,
    /// 1 / sqrt(K(x,x)), or 1.
    scale: f64,
    number: usize,
}

/// Where its scores go.
struct At<'a, 'p> {
    out: &'a mut [f64],
    pause: &'a mut Pause<'p>,
}

/// 1 / sqrt(K(x,x)); None where floats do not do.
fn usable_scale(own: Scaled) -> Option<f64> {
    Some(gram::scale(own)).filter(|scale| !scale.is_nan())
}

/// 1 / sqrt(K(x,x)) of one tree of a store that may be large.
fn one_scale(kernel: &Kernel, store: &Nodes, root: NodeId) -> Result<Option<f64>> {
    let mut nodes = Nodes::default();
    let root = nodes.absorb_one(store, root)?;
    let singles = gram::singles(kernel, &Arc::new(nodes), vec![root])?;
    let own = singles.worker()(0, 0)?;
    Ok(usable_scale(own))
}

/// The same trees, in a store of their own if theirs is much larger: what follows is
/// linear in it.
fn compact(forest: &Forest) -> Result<Cow<'_, Forest>> {
    const SHARE: usize = 64;
    const SMALL: usize = 4096;
    let n_nodes = forest.nodes().len();
    if n_nodes <= SMALL || forest.len() >= n_nodes / SHARE {
        return Ok(Cow::Borrowed(forest));
    }
    let mut nodes = Nodes::default();
    let copied = forest.roots().iter().map(|&r| nodes.absorb_one(forest.nodes(), r));
    let roots = copied.collect::<Result<_>>()?;
    Ok(Cow::Owned(Forest::new(Arc::new(nodes), roots)))
}

/// Asks a watch from time to time.
#[derive(Default)]
struct Pace {
    calls: u32,
    last: Option<std::time::Instant>,
}

impl Pace {
    fn tell(&mut self, watch: &mut Watch<'_>, done: usize, total: usize) -> Result<()> {
        self.calls += 1;
        if !self.calls.is_multiple_of(16) {
            return Ok(());
        }
        let now = std::time::Instant::now();
        match self.last {
            Some(last) if now - last < std::time::Duration::from_millis(50) => Ok(()),
            _ => {
                self.last = Some(now);
                watch(done, total)
            }
        }
    }
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
