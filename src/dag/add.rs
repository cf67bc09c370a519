//! Trees come in: their distinct subtrees are entered, with weights times counts.
//!
//! A new subtree gets its slot among the weights and its place in the kernel's lists; one
//! that is there only gets weight. Trees whose kernel with themselves no float can divide by
//! are kept whole, as are all trees where the kernel has no index.

use super::score::ScoreTableCache;
use super::{Index, Model, SAFE_MAGNITUDE, check_finite, check_length, compact};
use crate::forest::reader::Reader;
use crate::gram;
use crate::ids::{GroupId, Id, TreeId};
use crate::index::id_map::IdMap;
use crate::index::weights::Slot;
use crate::memory;
use crate::{Context, Error, Forest, Label, NodeId, Nodes, Result};

impl Model {
    /// Adds trees with weights, `n_outputs` for each; of trees all of whose weights are
    /// 0 nothing is kept. Returns the trees that a normalised kernel cannot add, as their
    /// kernel with themselves is 0.
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::Array`] for a weight that is not finite or makes a sum
    /// of weights infinite: with nothing changed. [`Error::Capacity`] and [`Error::Memory`]
    /// leave the trees before.
    pub fn add(&mut self, forest: &Forest, alphas: &[f64]) -> Result<Vec<usize>> {
        self.add_with(forest, alphas, &Context::default())
    }

    /// As [`add`](Self::add), in a context.
    ///
    /// # Errors
    /// As [`add`](Self::add), and what `context` returns, which leaves the trees before.
    pub fn add_with(
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
        // 1. Pick the trees that have a weight, and what each is divided by.
        // A tree without a weight adds 0 to every score, and would only make the graph
        // larger.
        let is_wanted = |tree: &usize| {
            alphas[tree * width..][..width].iter().any(|&alpha| alpha != 0.0)
        };
        let wanted = memory::collect((0..n).filter(is_wanted))?;
        let picked = forest.try_select(&wanted)?;
        context.advance(*done, n)?;
        let picked = compact(&picked, context)?;
        let store = &**picked.nodes();
        let scales = self.scales(&picked, &wanted, context)?;
        let trees = wanted.iter().zip(picked.roots()).enumerate();
        let trees = memory::collect(trees.map(|(at, (&tree, &root))| {
            // No scales at all: every tree counts as it is.
            let scale = scales.get(at).copied().unwrap_or(1.0);
            WeightedTree { tree, root, scale, alphas: &alphas[tree * width..][..width] }
        }))?;
        // 2. Add them; to a copy where a sum may become infinite, as nobody could take the
        // tree out again.
        let sizes = store.try_sizes()?;
        // A tree has as many subtrees as nodes, counted with repetition. So no weight,
        // and no sum of the weights of a group, can grow by more than |α| times scale
        // times size.
        let magnitude = trees[*done..].iter().fold(self.magnitude, |sum, tree| {
            sum + growth(tree.scale, sizes[tree.root.index()] as f64, tree.alphas)
        });
        if magnitude <= SAFE_MAGNITUDE {
            // It stays this large if the context stops what follows: the bound may be
            // too large, but never too small.
            self.magnitude = magnitude;
            self.add_all(done, store, &trees, context)?;
        } else {
            // Asked for at once: a clone that finds no memory would end the process.
            memory::room(1, self.nbytes())?;
            let (mut trial, mut at) = (self.clone(), *done);
            trial.magnitude = magnitude;
            trial.add_all(&mut at, store, &trees, context)?;
            // An error above has left the model, and what is done of it, as they were.
            (*self, *done) = (trial, at);
        }
        // Weights of a tree that is kept whole may have cancelled.
        self.whole.drop_zeros(width);
        context.report(n, n)?;
        let unknown = trees.iter().filter(|tree| tree.scale == 0.0);
        memory::collect(unknown.map(|tree| tree.tree))
    }

    fn add_all(
        &mut self,
        done: &mut usize,
        store: &Nodes,
        trees: &[WeightedTree<'_>],
        context: &Context,
    ) -> Result<()> {
        // It learns the subtrees that come in, so the store is looked through once for
        // all trees.
        let mut id_map = self.id_map(store)?;
        let mut reader = Reader::default();
        let may_overflow = self.magnitude > SAFE_MAGNITUDE;
        let mut scaled = memory::filled(0.0, self.options.n_outputs)?;
        for &WeightedTree { tree, root, scale, alphas } in &trees[*done..] {
            reader.read(store, root, true)?;
            let mut is_finite = true;
            // A scale that is no number says that the tree is kept whole. One of 0 says
            // that it has no kernel with any tree, so it is counted, and nothing else.
            if scale.is_nan() {
                let number = self.whole.add(store, root, alphas)?;
                // Only the weights of this tree have changed.
                let sums = &self.whole.alphas()[number as usize * alphas.len()..];
                is_finite = sums[..alphas.len()].iter().all(|alpha| alpha.is_finite());
            } else if scale != 0.0 {
                self.enter(store, &mut id_map, &reader)?;
                for (scaled, alpha) in scaled.iter_mut().zip(alphas) {
                    *scaled = scale * alpha;
                }
                self.weigh(&reader, &scaled);
                // Below the safe magnitude nothing becomes infinite: reading all
                // weights again would tell nothing.
                is_finite = !may_overflow || self.is_finite(&reader);
            }
            if !is_finite {
                // Only on a trial, which the caller drops as a whole.
                return Err(too_large("alphas", tree * scaled.len(), alphas));
            }
            self.count_tree(&reader);
            *done += 1;
            context.advance(*done, trees.len())?;
        }
        Ok(())
    }

    /// Whether what the tree that came in last has changed is finite.
    fn is_finite(&self, reader: &Reader) -> bool {
        let width = self.options.n_outputs;
        let sums = self.weights.sums();
        self.entered(reader).all(|(slot, _)| {
            // Leaves that are apart are in no group, so there is no sum of theirs.
            let sums = slot
                .group()
                .map_or(&[][..], |group| &sums[group.index() * width..][..width]);
            self.weights.get(slot).iter().chain(sums).all(|value| value.is_finite())
        })
    }

    /// What weights of each tree are multiplied by in the graph: 1 / sqrt(K(x,x)), 0 where
    /// that is 0, NaN for a tree that is kept whole. Nothing where all are 1. `numbers` are
    /// what the caller knows the trees by.
    fn scales(
        &self,
        forest: &Forest,
        numbers: &[usize],
        context: &Context,
    ) -> Result<Vec<f64>> {
        let n = forest.len();
        if !self.options.normalize {
            return memory::filled(f64::NAN, if self.is_graph() { 0 } else { n });
        }
        // The kernel of each tree with itself, on numbers with a wider exponent than
        // floats: whether a float can divide by it is what has to be found out.
        let singles = self.kernel().pairs(forest.nodes(), forest.roots(), context)?;
        let place = |tree: usize| (numbers[tree], "X");
        let norms = gram::Norms::new(&*singles, n, place, context)?;
        // A row of kernels with whole support trees comes normalised, so these have no
        // scale; but one without a kernel with itself is not kept at all.
        let scale = |scale: f64| {
            if self.is_graph() || scale == 0.0 { scale } else { f64::NAN }
        };
        memory::collect(norms.scales.iter().map(|&divided| scale(divided)))
    }

    pub(super) fn count_tree(&mut self, reader: &Reader) {
        let size = reader.items().iter().map(|item| item.count).sum::<f64>();
        self.n_trees = self.n_trees.saturating_add(1);
        self.n_tree_nodes = self.n_tree_nodes.saturating_add(size as u64);
    }

    /// Enters the subtrees of the tree that was read last, as `self.ids`.
    pub(super) fn enter(
        &mut self,
        store: &Nodes,
        id_map: &mut IdMap,
        reader: &Reader,
    ) -> Result<()> {
        self.ids.clear();
        for item in reader.items() {
            let there = store.label(item.node);
            let label = if let Some(label) = id_map.labels[there].get() {
                label
            } else {
                // A label that the model has not met: told to the map, so it is looked up
                // by its name once.
                let label =
                    self.nodes.labels_mut().intern(store.labels().name(there))?;
                id_map.labels[there] = label.into();
                label
            };
            self.below.clear();
            // Items come children first, so the ids of the children are there.
            let below = store.children(item.node).iter();
            let ids = &self.ids;
            let below = below.map(|&c| ids[reader.place(c)]);
            memory::extend(&mut self.below, below)?;
            let n_before = self.slots.len();
            let id = self.enter_below(label)?;
            // Nothing had this number: the subtree is new, and its production, label
            // and lists are now to be found under its parents.
            if id.index() == n_before {
                let find = |key| self.find(key);
                id_map.learn((store, item.node), (&self.nodes, id), find);
            }
            memory::push(&mut self.ids, id)?;
        }
        Ok(())
    }

    /// The subtree with this label above `self.below`; a new one gets its place.
    pub(super) fn enter_below(&mut self, label: Label) -> Result<NodeId> {
        let mark = self.nodes.mark();
        let id = self.nodes.intern(label, &self.below)?;
        if id.index() == self.slots.len()
            && let Err(error) = self.enter_node(id)
        {
            // The next subtree has its number.
            self.nodes.roll_back(mark);
            return Err(error);
        }
        Ok(id)
    }

    /// Gives a new subtree its place, and enters it in the lists.
    pub(super) fn enter_node(&mut self, node: NodeId) -> Result<()> {
        let label = self.nodes.label(node);
        let leaf = Slot::of_leaf(label);
        let is_leaf = self.nodes.is_leaf(node);
        // 1. Make room for its weight: nobody minds if it stays empty.
        let by_node = Slot::of_node(node);
        let production = self.nodes.production(node).map_or(0, |p| p.0);
        // ET has leaves in its groups. For all other kernels they are apart, by label.
        let slot = match &self.index {
            Index::Elastic(index) => index.next_slot(&self.nodes, node),
            _ if is_leaf => leaf,
            Index::Subtree(_) | Index::Support => by_node,
            Index::Subset(index) => index.next_slot(GroupId(production)),
            Index::Partial(index) => index.next_slot(GroupId(label.0)),
        };
        self.weights.enter(slot)?;
        memory::reserve(&mut self.slots, 1)?;
        // 2. Enter it in the lists. Where labels or productions have weights, the index
        // of ST keeps a product for every subtree, leaves too.
        if let Index::Subtree(index) = &mut self.index {
            index.enter(&self.nodes, node)?;
        }
        let slot = match &mut self.index {
            Index::Elastic(index) => index.enter(&self.nodes, node, TreeId(0))?,
            _ if is_leaf => leaf,
            Index::Subtree(_) | Index::Support => by_node,
            Index::Subset(index) => index.enter(&self.nodes, node, &self.slots)?,
            Index::Partial(index) => {
                index.enter_node(&self.nodes, node, &self.slots)?
            }
        };
        memory::push(&mut self.slots, slot)
    }

    /// The slots of the tree that came in last, with the numbers of its subtrees.
    pub(super) fn entered<'a>(
        &'a self,
        reader: &'a Reader,
    ) -> impl Iterator<Item = (Slot, f64)> + use<'a> {
        let items = self.ids.iter().zip(reader.items());
        items.map(|(&id, item)| (self.slots[id], item.count))
    }

    /// Adds weights to the subtrees of the tree that came in last.
    pub(super) fn weigh(&mut self, reader: &Reader, alphas: &[f64]) {
        self.score_tables = ScoreTableCache::default();
        let Self { ids, slots, weights, .. } = self;
        for (&id, item) in ids.iter().zip(reader.items()) {
            weights.add(slots[id], item.count, alphas);
        }
    }
}

/// A tree to be added: its number, 1 / sqrt(K(x,x)) or 1, and its weights.
#[derive(Clone, Copy)]
struct WeightedTree<'a> {
    tree: usize,
    root: NodeId,
    scale: f64,
    alphas: &'a [f64],
}

/// What a tree of a size adds to all weights and sums of weights at most.
pub(super) fn growth(scale: f64, size: f64, alphas: &[f64]) -> f64 {
    // The sum of weights of one tree is at most the largest times its nodes.
    let largest = alphas.iter().fold(0.0, |most, a| a.abs().max(most));
    // A large tree is kept as a whole.
    if scale.is_nan() { largest } else { largest * scale * size }
}

/// The error of a tree whose weights would make others infinite.
pub(super) fn too_large(array: &'static str, index: usize, alphas: &[f64]) -> Error {
    let expected = "a weight that keeps all sums of weights finite".to_owned();
    Error::Array { array, index, expected, got: format!("{:e}", alphas[0]) }
}
