//! Trees are scored: one pass of each tree over the kernel's lists.
//!
//! The trees' store is mapped to the model's ids once, then each tree is read and walked
//! through the lists, by several threads. What is not in the graph comes in beside: kernels
//! with trees that are kept whole, and the kernel of a tree with itself where scores are
//! normalised.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::support::offset_tree;
use super::{Index, Model, check_length, compact};
use crate::forest::reader::Reader;
use crate::gram::Norm;
use crate::ids::{GroupId, IdVec, MemberId, Place};
use crate::index::id_map::IdMap;
use crate::index::prefixes::AllTrees;
use crate::index::score_tables::{ScoreTables, TableWeights};
use crate::index::subset::Walk;
use crate::index::weights::{Numbers, One, Several, Sink, add_scaled};
use crate::index::{elastic, partial, subset};
use crate::kernel::{Scaled, Worker as PairWorker};
use crate::memory;
use crate::threads::{ForkSafeCache, Tasks, Threads};
use crate::{Context, Error, Forest, Kernel, NodeId, Nodes, Result};

/// What a worker keeps from tree to tree.
#[derive(Debug, Default)]
pub(super) struct Worker {
    pub(super) reader: Reader,
    values: IdVec<Place, f64>,
    pub(super) subset: subset::Scratch,
    partial: partial::Scratch,
    elastic: elastic::Scratch,
    /// The tree's normalised kernels with the trees that the model keeps whole.
    pub(super) cosines: Vec<f64>,
    /// For perceptrons: kernels with all support trees.
    pub(super) row: Vec<f64>,
    /// For perceptrons: dot products with the vectors of all support trees.
    pub(super) dots: Vec<f64>,
    /// For perceptrons: the tree's feature vector.
    pub(super) features: Vec<(u32, f64)>,
    /// Trees whose kernel with themselves is 0, where scores are normalised.
    zeros: Vec<usize>,
}

/// A store with its ids in the model.
#[derive(Clone, Copy)]
pub(super) struct MappedStore<'a> {
    pub(super) store: &'a Nodes,
    pub(super) id_map: &'a IdMap,
}

/// The tree that a worker has read.
pub(super) struct ReadTree<'a> {
    pub(super) worker: &'a mut Worker,
    pub(super) mapped: MappedStore<'a>,
    /// Tables of the model as it is, where it has them.
    pub(super) tables: Option<&'a ScoreTables>,
    pub(super) norm: Norm,
    /// Its place in the forest.
    pub(super) number: usize,
    pub(super) context: &'a Context<'a>,
}

/// Tables for scores (SST), until the weights change.
#[derive(Debug, Default)]
pub(super) struct ScoreTableCache {
    tables: ForkSafeCache<ScoreTables>,
    /// How many entries of lists scores have visited without tables.
    visits: AtomicU64,
}

impl Clone for ScoreTableCache {
    fn clone(&self) -> Self {
        let visits = AtomicU64::new(self.visits.load(Ordering::Relaxed));
        Self { tables: self.tables.clone(), visits }
    }
}

impl ScoreTableCache {
    /// Bytes held.
    pub(super) fn nbytes(&self) -> usize {
        self.tables.get().map_or(0, |tables| tables.nbytes())
    }
}

impl Model {
    /// The scores of trees, `n_outputs` for each, and the trees that a normalised kernel
    /// knows nothing of, as their kernel with themselves is 0. The same bits for every
    /// number of threads.
    ///
    /// # Errors
    /// [`Error::ScoreOverflow`], [`Error::Memory`], [`Error::Capacity`].
    pub fn score(&self, forest: &Forest) -> Result<(Vec<f64>, Vec<usize>)> {
        self.score_with(forest, &Context::default())
    }

    /// As [`score`](Self::score), in a context.
    ///
    /// # Errors
    /// As [`score`](Self::score), and what `context` returns.
    pub fn score_with(
        &self,
        forest: &Forest,
        context: &Context,
    ) -> Result<(Vec<f64>, Vec<usize>)> {
        let n = forest.len().saturating_mul(self.options.n_outputs);
        let mut out = memory::filled(0.0, n)?;
        let zeros = self.score_into_with(forest, &mut out, context)?;
        Ok((out, zeros))
    }

    /// As [`score`](Self::score), into `out`, tree after tree.
    ///
    /// # Errors
    /// [`Error::Length`] for an `out` of the wrong size, and as [`score`](Self::score).
    pub fn score_into(&self, forest: &Forest, out: &mut [f64]) -> Result<Vec<usize>> {
        self.score_into_with(forest, out, &Context::default())
    }

    /// As [`score_into`](Self::score_into), in a context.
    ///
    /// # Errors
    /// As [`score_into`](Self::score_into), and what `context` returns.
    pub fn score_into_with(
        &self,
        forest: &Forest,
        out: &mut [f64],
        context: &Context,
    ) -> Result<Vec<usize>> {
        let width = self.options.n_outputs;
        check_length("out", out, forest.len() * width, "trees times n_outputs")?;
        context.advance(0, forest.len())?;
        let forest = compact(forest, context)?;
        self.for_trees(&forest, true, out, context, |mut tree, out| {
            // Normalised first: the intercept is part of no kernel.
            self.raw_score(&mut tree, out)?;
            for (score, intercept) in out.iter_mut().zip(&self.intercept) {
                *score = tree.norm.divide(*score) + intercept;
                // What is not in the graph: trees that are kept whole, in the order of
                // their weights.
            }
            let alphas = self.whole.alphas().chunks(width);
            for (kernel, alphas) in tree.worker.cosines.iter().zip(alphas) {
                add_scaled(*kernel, alphas, out);
            }
            Ok(())
        })
    }

    /// Reads one tree after the other and lets `score` fill its part of `out`. Returns the
    /// trees whose kernel with themselves is 0, where scores are normalised.
    pub(super) fn for_trees(
        &self,
        forest: &Forest,
        wants_tables: bool,
        out: &mut [f64],
        context: &Context,
        score: impl Fn(ReadTree<'_>, &mut [f64]) -> Result<()> + Sync,
    ) -> Result<Vec<usize>> {
        let (n, width) = (forest.len(), self.options.n_outputs);
        if n == 0 {
            context.check_now()?;
            return Ok(Vec::new());
        }
        // 1. Map the store to the model, and get the tables if they are worth it.
        let store = &**forest.nodes();
        let id_map = self.id_map(store)?;
        let mapped = MappedStore { store, id_map: &id_map };
        let visits = |index: &_| visits(index, forest, &id_map);
        let tables = if wants_tables { self.tables(visits) } else { None };
        // 2. Prepare the kernels that do not come from the graph: rows with all support
        // trees, or of each tree with itself and with the large ones.
        let (mut trees, mut pairs) = (Cow::Borrowed(forest), None);
        if !self.is_graph() {
            self.whole.build(self.model_kernel(), context)?;
        } else if self.options.normalize {
            trees = self.with_large(forest, context)?;
            let kernel = self.kernel();
            pairs = Some(kernel.pairs(trees.nodes(), trees.roots(), context)?);
        }
        let larges = match &pairs {
            Some(pairs) => with_selfs(&mut pairs.worker(), n..trees.len(), context)?,
            None => Vec::new(),
        };
        // 3. Score the trees, some at a time.
        // A row with all support trees is cheapest where many are made at once.
        let per_task = if self.is_graph() { 32 } else { self.whole.rows_at_a_time() };
        let parts = memory::collect(out.chunks_mut(per_task * width).map(Mutex::new))?;
        let threads = Threads::new(context, parts.len());
        let worker = || (Worker::default(), pairs.as_ref().map(|pairs| pairs.worker()));
        let mut workers = memory::filled_with(threads.size(), worker)?;
        threads.run(
            &Tasks::of_rows(n, per_task),
            &mut workers,
            |part, (worker, kernel), context| {
                // Every part is locked once, by the task with its number: the lock only
                // hands out the slice.
                let Ok(mut out) = parts[part].lock() else { return Ok(()) };
                let start = part * per_task;
                let numbers = start..start + out.len() / width;
                let rows = self.whole_rows(
                    forest,
                    numbers.clone(),
                    &mut worker.zeros,
                    context,
                )?;
                // In a graph there are no rows, and every tree gets an empty one below.
                let mut rows = rows.chunks(self.whole.len().max(1));
                for (number, out) in numbers.zip(out.chunks_mut(width)) {
                    let mut norm = Norm::default();
                    worker.cosines.clear();
                    let row = rows.next().unwrap_or_default().iter();
                    memory::extend(&mut worker.cosines, row.copied())?;
                    // In a graph: the kernels with large trees take the place of the
                    // row.
                    if let Some(kernel) = kernel {
                        let cosines = &mut worker.cosines;
                        norm = normalize_against_large(
                            kernel, number, &larges, cosines, context,
                        )?;
                        if norm.own.is_zero() {
                            memory::push(&mut worker.zeros, number)?;
                        }
                    }
                    self.read(mapped, &mut worker.reader, forest.roots()[number])?;
                    let tables = tables.as_deref();
                    let tree =
                        ReadTree { worker, mapped, tables, norm, number, context };
                    score(tree, out)?;
                    // The kernels or the weights may be so large that their sum is no
                    // number: found here, for every kind of score.
                    if !out.iter().all(|score| score.is_finite()) {
                        return Err(Error::ScoreOverflow { tree: number });
                    }
                }
                context.check_now()
            },
        )?;
        context.report(n, n)?;
        let zeros = workers.iter().flat_map(|(worker, _)| &worker.zeros);
        let mut zeros = memory::collect(zeros.copied())?;
        // Workers have taken tasks in any order.
        zeros.sort_unstable();
        Ok(zeros)
    }

    /// The kernels of some trees of a forest with all support trees, where the model is no
    /// graph.
    fn whole_rows(
        &self,
        forest: &Forest,
        trees: Range<usize>,
        zeros: &mut Vec<usize>,
        context: &Context,
    ) -> Result<Vec<f64>> {
        if self.is_graph() {
            return Ok(Vec::new());
        }
        let start = trees.start;
        let rows =
            self.whole.rows(self.model_kernel(), &forest.picked(trees)?, context);
        let (rows, without_norm) = rows.map_err(|error| offset_tree(error, start))?;
        memory::extend(zeros, without_norm.iter().map(|tree| start + tree))?;
        Ok(rows)
    }

    /// The trees of a forest, and after them the model's large ones.
    pub(super) fn with_large<'f>(
        &self,
        forest: &'f Forest,
        context: &Context,
    ) -> Result<Cow<'f, Forest>> {
        if self.whole.is_empty() {
            return Ok(Cow::Borrowed(forest));
        }
        Forest::try_concat_all([forest, self.whole.forest()], context).map(Cow::Owned)
    }

    /// Reads a tree for a score; without its leaves where these have no part in it.
    ///
    /// # Errors
    /// [`Error::Memory`].
    #[inline]
    pub(super) fn read(
        &self,
        mapped: MappedStore<'_>,
        reader: &mut Reader,
        root: NodeId,
    ) -> Result<()> {
        match &self.index {
            Index::Subtree(index) => {
                reader.read(mapped.store, root, index.leaf_weight > 0.0)
            }
            // The id map lists the inner children of each node, which are all that is
            // read.
            Index::Subset(index) if index.leaf_weight == 0.0 => {
                reader.walk(mapped.store.len(), root, mapped.id_map)
            }
            _ => reader.read(mapped.store, root, true),
        }
    }

    /// Tells a sink all values of C of a tree.
    pub(super) fn pass<S: Sink<Id = MemberId>>(
        &self,
        tree: &mut ReadTree<'_>,
        tables: Option<&ScoreTables>,
        sink: &mut S,
    ) -> Result<()> {
        let Worker { reader, values, subset, partial, elastic, .. } = &mut *tree.worker;
        let (MappedStore { store, id_map }, context) = (tree.mapped, tree.context);
        match &self.index {
            Index::Subtree(index) => index.score(store, id_map, reader, values, sink),
            Index::Subset(index) => {
                // Leaves have no production, so the walk below does not meet them.
                if index.leaf_weight > 0.0 {
                    for (place, item) in reader.items().enumerated() {
                        let label = id_map.labels[store.label(item.node)].get();
                        if let Some(label) = label.filter(|_| store.is_leaf(item.node))
                        {
                            sink.node(place, item.count);
                            sink.leaf(label, index.leaf_weight);
                        }
                    }
                }
                let mut walk = Walk {
                    index,
                    id_map,
                    tree: reader,
                    extent: &AllTrees,
                    patterns: tables.map(|tables| &tables.patterns),
                    folds: tables.map(|tables| &tables.fold_of),
                    scratch: subset,
                };
                // The group of a production that the model does not have is none:
                // nothing is told of it.
                let group = |place: Place| {
                    let production = store.production(reader.items()[place].node)?;
                    Some(GroupId(id_map.productions[production].get()?.0))
                };
                walk.plan(|place| group(place).into(), sink)?;
                walk.walk(sink, context)
            }
            Index::Partial(index) => {
                let matching = partial::Equal(id_map);
                let query = partial::Query { store, tree: reader, matching };
                index.walk(query, &AllTrees, partial, sink, context)
            }
            Index::Elastic(index) => {
                let query =
                    elastic::Query { store, labels: &id_map.labels, tree: reader };
                index.tell_labels(query, sink);
                index.walk(&self.nodes, query, 1, elastic, sink, context)
            }
            Index::Support => Ok(()),
        }
    }

    /// Scores of a tree, neither normalised nor with the intercept.
    pub(super) fn raw_score(
        &self,
        tree: &mut ReadTree<'_>,
        out: &mut [f64],
    ) -> Result<()> {
        let weights = &self.weights;
        match tree.tables {
            Some(tables) => self.score_by(
                &TableWeights { weights, tables },
                Some(tables),
                tree,
                out,
            ),
            None => self.score_by(weights, None, tree, out),
        }
    }

    /// The same by other numbers than the weights, and the tables that these know.
    pub(super) fn score_by<N: Numbers>(
        &self,
        numbers: &N,
        tables: Option<&ScoreTables>,
        tree: &mut ReadTree<'_>,
        out: &mut [f64],
    ) -> Result<()> {
        // The usual model has one output: a single sum in place of a slice of them.
        if let [out] = out {
            let mut sink = One::new(numbers);
            self.pass(tree, tables, &mut sink)?;
            *out = sink.sum;
            return Ok(());
        }
        out.fill(0.0);
        self.pass(tree, tables, &mut Several::new(numbers, out))
    }

    /// Tables that hold until the model changes, where its kernel has them and scores
    /// since the last change, `visits` and those before, have taken as long as making them.
    pub(super) fn tables(
        &self,
        visits: impl FnOnce(&subset::Index) -> u64,
    ) -> Option<Arc<ScoreTables>> {
        let Index::Subset(index) = &self.index else { return None };
        self.score_tables.tables.get().or_else(|| {
            if !self.tables_pay_off(visits) {
                return None;
            }
            // Without memory for them scores take longer, that is all.
            let tables = ScoreTables::new(&self.nodes, index, &self.weights).ok()?;
            Some(self.score_tables.tables.put(tables))
        })
    }

    /// Whether scores since the last change have taken as long as making tables.
    pub(super) fn tables_pay_off(
        &self,
        visits: impl FnOnce(&subset::Index) -> u64,
    ) -> bool {
        let Index::Subset(index) = &self.index else { return false };
        let visits = visits(index);
        // Threads may add at the same time in any order: at worst tables are made one
        // call later.
        let before = self.score_tables.visits.fetch_add(visits, Ordering::Relaxed);
        before.saturating_add(visits) >= index.cost_of_tables()
    }
}

/// About how many entries of lists the trees visit, from a sample of them.
pub(super) fn visits(index: &subset::Index, forest: &Forest, id_map: &IdMap) -> u64 {
    const SAMPLE: usize = 16;
    // A forest without trees never comes here, so a step is at least one tree.
    let step = forest.len().div_ceil(SAMPLE);
    let mut reader = Reader::default();
    let visits = |&root: &NodeId| {
        // Without memory for it, no tables are made.
        let read = reader.walk(forest.nodes().len(), root, id_map);
        read.map_or(0, |()| index.visits(id_map, &reader))
    };
    // Each tree of the sample stands for as many as the step is long.
    forest.roots().iter().step_by(step).map(visits).sum::<u64>() * step as u64
}

/// Trees of a list, each with its kernel with itself.
pub(super) fn with_selfs(
    kernel: &mut PairWorker<'_>,
    trees: Range<usize>,
    context: &Context,
) -> Result<Vec<(usize, Scaled)>> {
    memory::try_collect(trees.map(|tree| Ok((tree, kernel(tree, tree, context)?))))
}

/// What a tree is divided by, and its normalised kernels with large trees.
pub(super) fn normalize_against_large(
    kernel: &mut PairWorker<'_>,
    tree: usize,
    larges: &[(usize, Scaled)],
    cosines: &mut Vec<f64>,
    context: &Context,
) -> Result<Norm> {
    let with_itself = kernel(tree, tree, context)?;
    cosines.clear();
    // On scaled numbers: neither of the two may fit into a float.
    for &(large, other) in larges {
        let cosine = kernel(tree, large, context)?.normalized(with_itself, other);
        memory::push(cosines, cosine)?;
    }
    Ok(Norm::of(with_itself))
}

/// What one tree of a store that may be large is divided by.
pub(super) fn one_norm(
    kernel: &dyn Kernel,
    store: &Nodes,
    root: NodeId,
    context: &Context,
) -> Result<Norm> {
    // A copy of this tree alone, as preparing a kernel takes time by the whole store.
    let mut nodes = Nodes::default();
    let root = nodes.absorb_one(store, root, context)?;
    let pairs = kernel.pairs(&Arc::new(nodes), &[root], context)?;
    Ok(Norm::of(pairs.worker()(0, 0, context)?))
}
