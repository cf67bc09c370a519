//! Learning: trees come one after another, and those on the wrong side become support trees.

use std::cell::OnceCell;
use std::sync::Arc;

use super::{NOISE, Perceptron, Place, Support};
use crate::dag::add::{growth, too_large};
use crate::dag::score::{
    MappedStore, ReadTree, Worker, normalize_against_large, one_norm, with_selfs,
};
use crate::dag::support::ExampleKernels;
use crate::dag::vectors::{Features, Vectors};
use crate::dag::{SAFE_MAGNITUDE, check_length, compact};
use crate::forest::reader::Reader;
use crate::gram::Norm;
use crate::ids::{Id, TreeId};
use crate::index::id_map::IdMap;
use crate::memory;
use crate::threads::ForkSafeCache;
use crate::{Context, Error, Forest, NodeId, Nodes, Result};

/// A score that is so small beside the largest may be noise.
const NOISE_SUSPECT: f64 = 1e-9;

impl Perceptron {
    /// Goes through trees once, in their order; `labels` are -1 or +1 (times a weight of the
    /// tree: a mistake then adds the tree with that weight), `n_outputs` for
    /// each tree. Returns the number of mistakes, over all outputs. What was seen before
    /// stays: the pass continues.
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::Array`] for a wrong label or vector: with nothing
    /// changed. [`Error::Array`] for a weight that is too large for sums of weights to stay
    /// finite, [`Error::ScoreOverflow`], [`Error::Capacity`] end the
    /// pass; the perceptron then has learned from the trees before, as
    /// [`n_examples`](Self::n_examples) tells.
    pub fn learn(
        &mut self,
        forest: &Forest,
        labels: &[f64],
        features: Option<Features<'_>>,
    ) -> Result<usize> {
        self.learn_with(forest, labels, features, &Context::default())
    }

    /// As [`learn`](Self::learn), in a context.
    ///
    /// # Errors
    /// As [`learn`](Self::learn), and what `context` returns.
    pub fn learn_with(
        &mut self,
        forest: &Forest,
        labels: &[f64],
        features: Option<Features<'_>>,
        context: &Context,
    ) -> Result<usize> {
        let before = self.n_mistakes;
        self.learn_from(&mut 0, forest, labels, features, context)?;
        Ok((self.n_mistakes - before) as usize)
    }

    /// As [`learn`](Self::learn), but without the first `done` trees; counts those that were
    /// learned from, so that a pass can go on where the context has stopped it.
    pub(crate) fn learn_from(
        &mut self,
        done: &mut usize,
        forest: &Forest,
        labels: &[f64],
        features: Option<Features<'_>>,
        context: &Context,
    ) -> Result<()> {
        // 1. Check all there is to check, and ask for the memory, before anything changes.
        let (n, width) = (forest.len(), self.model.options.n_outputs);
        self.check_labels(labels, n)?;
        self.check_features(features, n)?;
        if let (Some(vectors), Some(features)) = (&mut self.vectors, features) {
            vectors.set_columns(features.n_columns())?;
        }
        if n == 0 {
            return Ok(());
        }
        // The averaged model changes with every example.
        self.averaged = ForkSafeCache::default();
        context.advance(*done, n)?;
        let forest = compact(forest, context)?;
        let store = &**forest.nodes();
        let mut id_map = self.model.id_map(store)?;
        let (mut worker, mut whole) = (Worker::default(), Reader::default());
        let (mut scores, mut alphas) =
            (memory::filled(0.0, width)?, memory::filled(0.0, width)?);
        let (is_graph, is_normalized) =
            (self.model.is_graph(), self.model.options.normalize);
        // Where there is no graph: kernels of the next examples with all support trees.
        let mut stretch: Option<ExampleKernels> = None;
        // The trees, and after them the large ones that are support trees. They are made
        // ready when first needed: without vectors and large trees the sign is all that
        // counts, and no scale changes it.
        // (A store that is shared would be copied when a tree is added.)
        let large_supports = is_graph.then(|| self.model.whole.forest().copied());
        let large_supports = large_supports.transpose()?.unwrap_or_default();
        let (pairs, mut larges, mut kernel) = (OnceCell::new(), Vec::new(), None);
        let mut tables = None;
        for (tree, &root) in forest.roots().iter().enumerate().skip(*done) {
            // 2. Make the tree's norm ready, where scores depend on it.
            let mut norm = Norm::default();
            let is_needed = self.vectors.is_some() || !self.model.whole.is_empty();
            if is_graph && is_normalized && is_needed && kernel.is_none() {
                let trees = [&*forest, &large_supports];
                let trees = Forest::try_concat_all(trees, context)?;
                let made =
                    self.model.kernel().pairs(trees.nodes(), trees.roots(), context)?;
                let mut worker = pairs.get_or_init(|| made).worker();
                // Those that became large meanwhile are trees of this forest.
                let selfs = with_selfs(&mut worker, n..trees.len(), context)?;
                memory::extend(&mut larges, selfs)?;
                kernel = Some(worker);
            }
            if let Some(kernel) = &mut kernel {
                let cosines = &mut worker.cosines;
                norm =
                    normalize_against_large(kernel, tree, &larges, cosines, context)?;
            }
            if !is_graph {
                let rows = match stretch.take().filter(|rows| rows.has(tree)) {
                    Some(rows) => rows,
                    None => self.model.stretch(&forest, tree, context)?,
                };
                rows.row(tree, &mut worker.cosines)?;
                stretch = Some(rows);
            }
            // 3. Score it, by tables if the visits since the last mistake have paid for
            // them.
            let mapped = MappedStore { store, id_map: &id_map };
            self.model.read(mapped, &mut worker.reader, root)?;
            if let Some(features) = &features {
                features.row(tree, &mut worker.features)?;
            }
            let found = self.model.tables(|_| worker.subset.take_visits());
            // What the walk remembers of patterns belongs to the tables that it had. New
            // ones may follow at once on those that a mistake has ended.
            let is_new = |found: &Arc<_>| {
                tables.as_ref().is_none_or(|tables| !Arc::ptr_eq(tables, found))
            };
            if found.as_ref().is_some_and(is_new) {
                worker.subset.forget_patterns();
            }
            tables = found;
            let (tables, number) = (tables.as_deref(), tree);
            let worker = &mut worker;
            let mut read = ReadTree { worker, mapped, tables, norm, number, context };
            self.sums(&mut read, &mut scores)?;
            if !scores.iter().all(|score| score.is_finite()) {
                return Err(Error::ScoreOverflow { tree });
            }
            self.clear_noise(&mut read, &mut scores)?;
            // 4. Where it is on the wrong side it becomes a support tree.
            let n_mistakes = mistakes(&scores, &labels[tree * width..], &mut alphas);
            if n_mistakes > 0 {
                if is_graph && is_normalized && kernel.is_none() {
                    // The sign needed no norm, but the weights that are added do.
                    norm = one_norm(self.model.kernel(), store, root, context)?;
                }
                whole.read(store, root, true)?;
                let scale =
                    stretch.as_ref().map_or(norm.scale, |rows| rows.scale(tree));
                // Before anything is entered: a weight that overflows could not be
                // taken out again.
                if !self.stays_finite(&whole, scale, &alphas) {
                    return Err(too_large("y", tree * width, &alphas));
                }
                memory::reserve(&mut larges, 1)?;
                let support = (root, scale, &*worker.features);
                let place =
                    self.support(store, &mut id_map, &whole, support, &alphas)?;
                if let Place::Whole(number) = place {
                    if let Some(rows) = &mut stretch {
                        rows.join(tree, number);
                    // An equal tree has a number, and so a place in this list, already.
                    } else if number as usize == larges.len() {
                        larges.push((tree, norm.own)); // has room
                    }
                }
            }
            self.n_examples = self.n_examples.saturating_add(1);
            self.n_mistakes = self.n_mistakes.saturating_add(n_mistakes);
            *done = tree + 1;
            context.advance(tree + 1, n)?;
        }
        context.report(n, n)
    }

    fn check_labels(&self, labels: &[f64], n: usize) -> Result<()> {
        let width = self.model.options.n_outputs;
        check_length("y", labels, n * width, "trees times n_outputs")?;
        let Some(index) = labels.iter().position(|y| !y.is_normal()) else {
            return Ok(());
        };
        let expected = "-1 or 1, times a weight".to_owned();
        let got = labels[index].to_string();
        Err(Error::Array { array: "y", index, expected, got })
    }

    /// Makes 0 of scores that are so but for rounding. Those are doubtful that are small
    /// beside others of trees of that size, or the first of it.
    fn clear_noise(&mut self, tree: &mut ReadTree<'_>, out: &mut [f64]) -> Result<()> {
        let size = tree.worker.reader.items().len().ilog2() as usize;
        let width = out.len();
        let is_doubtful = |(score, largest): (&f64, &f64)| {
            score.abs() <= NOISE_SUSPECT * largest || *largest == 0.0
        };
        let largest = &self.largest[size * width..][..width];
        if out.iter().zip(largest).any(is_doubtful) {
            let mut sizes = memory::filled(0.0, width)?;
            self.sizes(tree, &mut sizes)?;
            for (score, size) in out.iter_mut().zip(&sizes) {
                if score.abs() <= NOISE * size {
                    *score = 0.0;
                }
            }
        }
        // Grows only: the next tree of this size is held against the largest so far.
        for (largest, score) in self.largest[size * width..].iter_mut().zip(out) {
            *largest = largest.max(score.abs());
        }
        Ok(())
    }

    /// Makes a support tree of the one that was read last, which has a root in `store`, a
    /// scale and features; returns where it is. An error changes no score.
    fn support(
        &mut self,
        store: &Nodes,
        id_map: &mut IdMap,
        reader: &Reader,
        (root, scale, features): (NodeId, f64, &[(u32, f64)]),
        alphas: &[f64],
    ) -> Result<Place> {
        // 1. Its subtrees, with weights of 0.
        let mut place = Place::Nowhere;
        if scale != 0.0 && !scale.is_nan() {
            self.model.enter(store, id_map, reader)?;
            let root = self.model.ids.last().copied();
            place = root.map_or(place, Place::Graph);
        }
        self.reserve(reader, place, alphas.len())?;
        // 2. What can still fail, each as a whole.
        if let Some(vectors) = &mut self.vectors {
            vectors.push(features)?;
        }
        if scale.is_nan() {
            match self.model.whole.add(store, root, alphas) {
                Ok(number) => place = Place::Whole(number),
                Err(error) => {
                    self.vectors.iter_mut().for_each(Vectors::pop);
                    return Err(error);
                }
            }
        }
        // 3. The weights.
        self.model.count_tree(reader);
        self.weigh(reader, Support { place, scale, before: self.n_examples }, alphas);
        Ok(place)
    }

    /// Makes room for a support tree whose subtrees the model has.
    pub(super) fn reserve(
        &mut self,
        reader: &Reader,
        place: Place,
        n_outputs: usize,
    ) -> Result<()> {
        let Self { model, age_weighted, occurrences, supports, alphas, scaled, .. } =
            self;
        memory::reserve(supports, 1)?;
        memory::reserve(alphas, n_outputs)?;
        memory::reach(scaled, n_outputs, 0.0)?;
        let is_in_graph = matches!(place, Place::Graph(_));
        for (slot, _) in model.entered(reader).filter(|_| is_in_graph) {
            age_weighted
                .iter_mut()
                .try_for_each(|age_weighted| age_weighted.enter(slot))?;
            occurrences.iter_mut().try_for_each(|map| map.reserve(slot))?;
        }
        Ok(())
    }

    /// Whether all weights stay finite when the tree that was read last gets these, also
    /// when they are multiplied by the number of examples.
    pub(super) fn stays_finite(
        &self,
        reader: &Reader,
        scale: f64,
        alphas: &[f64],
    ) -> bool {
        let magnitude = self.model.magnitude + growth(scale, size(reader), alphas);
        magnitude * u64::MAX as f64 <= SAFE_MAGNITUDE
    }

    /// Adds a support tree to all that is kept of them, after [`reserve`](Self::reserve).
    pub(super) fn weigh(&mut self, reader: &Reader, support: Support, alphas: &[f64]) {
        let Self { model, age_weighted, occurrences, supports, scaled, .. } = self;
        let tree = TreeId::at(supports.len());
        model.magnitude += growth(support.scale, size(reader), alphas);
        if matches!(support.place, Place::Graph(_)) {
            for (scaled, alpha) in scaled.iter_mut().zip(alphas) {
                *scaled = alpha * support.scale;
            }
            model.weigh(reader, scaled);
            if let Some(age_weighted) = age_weighted {
                let n_before = support.before as f64;
                for alpha in scaled.iter_mut() {
                    *alpha *= n_before;
                }
                for (slot, count) in model.entered(reader) {
                    age_weighted.add(slot, count, scaled);
                }
            }
            if let Some(occurrences) = occurrences {
                for (slot, count) in model.entered(reader) {
                    occurrences.add(slot, tree, count);
                }
            }
        }
        supports.push(support); // has room: see `reserve`
        self.alphas.extend_from_slice(alphas); // has room: see `reserve`
    }
}

/// The weights of an example: its labels where scores are on the wrong side, else 0. Returns
/// how many are.
fn mistakes(scores: &[f64], labels: &[f64], alphas: &mut [f64]) -> u64 {
    let mut n_mistakes = 0;
    for ((alpha, score), y) in alphas.iter_mut().zip(scores).zip(labels) {
        let is_mistake = y * score <= 0.0;
        *alpha = if is_mistake { *y } else { 0.0 };
        n_mistakes += u64::from(is_mistake);
    }
    n_mistakes
}

/// How many nodes the tree has that was read last.
fn size(reader: &Reader) -> f64 {
    reader.items().iter().map(|item| item.count).sum()
}
