//! The kernel perceptron over a model that grows: last, averaged and voted.
//!
//! Trees x_t come with labels y_t of -1 or +1, times a weight above 0 if some trees are to
//! count more than others. Where y_t S(x_t) <= 0 the tree becomes a support tree with weight
//! y_t; nothing else is ever changed. So the perceptron goes
//! through versions, one for each mistake, and version k is the perceptron's after c_k
//! examples: the one that made it, and those that it survived (Freund & Schapire 1999).
//!
//! | [`Vote`] | a score is | kept for it |
//! |---|---|---|
//! | `Last` | S(x) of the last version | f |
//! | `Average` | Σ_k c_k S_k(x) | f, and g = Σ f times the examples before |
//! | `Vote` | Σ_k c_k sign S_k(x) | for each subtree, which support trees have it |
//!
//! **Average.** A support tree of example t is part of all versions after examples t, t+1,
//! .. T. So Σ_k c_k S_k weighs it T - (t-1) times, and the weight of a subtree is
//! T f - g with g = Σ (t-1) α count: two numbers, whole unless the kernel is normalised.
//!
//! **Vote.** One pass over the model adds C(v,ξ) · count to a row indexed by support tree
//! for every support tree that has ξ. The row is K(x_i, x); its running sums with the
//! labels are all S_k(x). Where one is 0 but for rounding the version does not vote.
//!
//! **Ties.** A score that is 0 but for rounding counts as 0, so as a mistake: one that is
//! small beside what trees scored before is held against the sum of the sizes of its terms.
//!
//! With several outputs (one against the rest) a tree is kept once, with a weight for each
//! output that was mistaken, and every list is walked once for all of them.
//!
//! **Vectors.** With feature vectors beside the trees the kernel is
//! mix K_tree + (1 - mix) K_poly, and mistakes' vectors are kept.
//!
//! # Complexity
//! An example takes a score, a mistake also the adding of one tree; memory grows with the
//! distinct subtrees of mistakes, for `Vote` with all of their subtrees. A voted score
//! takes a step for each (subtree, support tree) met, and one per support tree.

use std::cell::OnceCell;
use std::sync::Arc;

use super::naive::sign;
use super::vectors::{Features, PolynomialKernel, Vectors};
use super::{
    Arrays, BYTES_PER_NODE, Model, Norm, Options, SAFE, Seen, Tree, Worker,
    check_length, compact, growth, one_norm, stand, too_large, with_selfs,
};
use crate::gram;
use crate::index::at_rest::AtRest;
use crate::index::id_map::IdMap;
use crate::index::reader::Reader;
use crate::index::weights::{Averaged, Occurrences, Row, Sizes, Weights, add_scaled};
use crate::memory;
use crate::threads::Kept;
use crate::{Context, Error, Forest, Kernel, NodeId, Nodes, Result};

/// How the versions of a perceptron make a score.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vote {
    /// The last version's.
    Last,
    /// All versions' scores, weighted by the examples that each survived.
    Average,
    /// All versions' signs, weighted so.
    Vote,
}

/// A score that is so small beside the terms that it sums is 0: where support trees cancel,
/// the rest is rounding, and its sign means nothing.
const NOISE: f64 = 1e-12;

/// A score that is so small beside the largest may be noise.
const DOUBTFUL: f64 = 1e-9;

/// In arrays: support trees that are no subtrees of the model.
const NOWHERE: i64 = -1;
const LARGE: i64 = -2;

/// Bytes that a subtree of a support tree takes for `Vote`, in lists that double.
const BYTES_PER_OCCURRENCE: usize = 48;

/// A support tree.
#[derive(Debug, Clone, Copy)]
struct Support {
    /// In the model's store; a tree whose kernel with itself is 0 is not there.
    root: Option<NodeId>,
    /// 1 / sqrt(K(x,x)), or 1; 0 for such a tree. NaN for one of the model's large trees,
    /// which stand there in the same order.
    scale: f64,
    /// How many examples came before.
    before: u64,
}

impl Support {
    fn is_large(&self) -> bool {
        self.scale.is_nan()
    }
}

/// A perceptron over trees. See the [module](crate::dag) and this file.
#[derive(Debug, Clone)]
pub struct Perceptron {
    model: Model,
    vote: Vote,
    mix: f64,
    vectors: Option<Vectors>,
    supports: Vec<Support>,
    /// By support tree, by output: the label where it was a mistake, else 0.
    alphas: Vec<f64>,
    /// g.
    late: Option<Weights>,
    occurrences: Option<Occurrences>,
    /// By the logarithm of its size, by output: the largest score of a tree as it was learned
    /// from.
    largest: Vec<f64>,
    /// For `Average`: the model that scores alike, once scores have paid for it.
    averaged: Kept<Model>,
    n_examples: u64,
    n_mistakes: u64,
}

/// What a support tree adds to a score.
#[derive(Debug, Clone, Copy)]
enum Terms {
    Last,
    /// Summed over all versions.
    Average,
    /// Whatever its sign.
    Sizes,
}

/// What a stored perceptron has besides its model's [`Arrays`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stored {
    /// The model, whose weights follow from the rest and are not read.
    pub model: Arrays,
    /// By support tree: its number among the subtrees; -1 for one that is not there, -2 for
    /// the next of the model's large trees.
    pub roots: Vec<i64>,
    /// By support tree: what its kernel is multiplied with.
    pub scales: Vec<f64>,
    /// By support tree: how many examples came before.
    pub before: Vec<u64>,
    /// By support tree, by output.
    pub alphas: Vec<f64>,
    /// Feature vectors of the support trees as compressed sparse rows.
    pub indptr: Vec<i64>,
    /// Their columns.
    pub indices: Vec<i64>,
    /// Their values.
    pub data: Vec<f64>,
    /// How many features there are.
    pub n_features: usize,
    /// How many examples were seen.
    pub n_examples: u64,
    /// How many mistakes were made, over all outputs.
    pub n_mistakes: u64,
}

impl Perceptron {
    /// A perceptron that has seen nothing. `vectors` is the kernel of feature vectors,
    /// `mix` the share of the trees' kernel beside it.
    ///
    /// # Errors
    /// [`Error::Parameter`] for what is out of range, and for a `mix` other than 1
    /// without vectors.
    pub fn new(
        kernel: &dyn Kernel,
        options: Options,
        vote: Vote,
        vectors: Option<PolynomialKernel>,
        mix: f64,
    ) -> Result<Self> {
        let vectors = vectors.map(PolynomialKernel::validated).transpose()?;
        let expected = match vectors {
            _ if !(0.0..=1.0).contains(&mix) => Some("from 0 to 1"),
            None if mix != 1.0 => Some("1 where there are no vectors"),
            _ => None,
        };
        if let Some(expected) = expected {
            return Err(Error::Parameter {
                name: "mix",
                expected,
                got: mix.to_string(),
            });
        }
        let model = Model::new(kernel, options)?;
        let late = Weights::new(options.n_outputs);
        Ok(Self {
            model,
            vote,
            mix,
            vectors: vectors.map(Vectors::new),
            supports: Vec::new(),
            alphas: Vec::new(),
            late: (vote == Vote::Average).then_some(late),
            occurrences: (vote == Vote::Vote).then(Occurrences::default),
            largest: memory::filled(0.0, 33 * options.n_outputs)?,
            averaged: Kept::default(),
            n_examples: 0,
            n_mistakes: 0,
        })
    }

    /// A perceptron of averages whose first version is a model, without its intercept. Its
    /// large trees are support trees that all versions have.
    pub(super) fn from_version(mut model: Model) -> Result<Self> {
        let mut own =
            Self::new(model.kernel(), model.options, Vote::Average, None, 1.0)?;
        model.intercept.fill(0.0);
        if let Some(late) = &mut own.late {
            model.slots.iter().try_for_each(|&slot| late.enter(slot))?;
        }
        let large = Support { root: None, scale: f64::NAN, before: 0 };
        own.supports = vec![large; model.large.0.len()];
        own.alphas.clone_from(&model.large.1);
        own.model = model;
        Ok(own)
    }

    /// The last version.
    pub(super) fn into_last(self) -> Model {
        self.model
    }

    /// How many examples were seen.
    pub fn n_examples(&self) -> u64 {
        self.n_examples
    }

    /// How many mistakes were made, over all outputs.
    pub fn n_mistakes(&self) -> u64 {
        self.n_mistakes
    }

    /// How a score is made.
    pub fn vote(&self) -> Vote {
        self.vote
    }

    /// How many features the vectors have; 0 before the first.
    pub fn n_features(&self) -> usize {
        self.vectors.as_ref().map_or(0, Vectors::n_columns)
    }

    /// The model of the last version: the trees' part of its score.
    pub fn last(&self) -> &Model {
        &self.model
    }

    /// The model that scores like the perceptron: the trees' part, without `mix`. For
    /// `Vote`, which no model can, it is that of the last version.
    pub fn model(&self) -> Model {
        let mut model = self.model.clone();
        if let Some(late) = &self.late {
            let supports = self.supports.iter().filter(|support| support.is_large());
            let width = model.options.n_outputs;
            for (support, weights) in supports.zip(model.large.1.chunks_mut(width)) {
                scale_by(weights, (self.n_examples - support.before) as f64);
            }
            model.weights = model.weights.combined(self.n_examples as f64, late);
            model.magnitude *= self.n_examples as f64;
            model.rest.tables = Kept::default();
        }
        model
    }

    /// Bytes held.
    pub fn nbytes(&self) -> usize {
        self.model.nbytes()
            + self.late.as_ref().map_or(0, Weights::nbytes)
            + self.occurrences.as_ref().map_or(0, Occurrences::nbytes)
            + self.vectors.as_ref().map_or(0, Vectors::nbytes)
            + self.supports.capacity() * size_of::<Support>()
            + self.alphas.capacity() * 8
    }

    /// Goes through trees once, in their order; `labels` are -1 or +1 (times a weight of the
    /// tree: a mistake then adds the tree with that weight), `n_outputs` for
    /// each tree. Returns the number of mistakes, over all outputs. What was seen before
    /// stays: the pass continues.
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::Array`] for a wrong label or vector: with nothing
    /// changed. [`Error::Array`] for a weight that is too large for sums of weights to stay
    /// finite, [`Error::ScoreOverflow`], [`Error::Capacity`] and what `context` returns end the
    /// pass; the perceptron then has learned from the trees before, as
    /// [`n_examples`](Self::n_examples) tells.
    pub fn learn(
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
        check_length("y", labels, n * width, "trees times n_outputs")?;
        if let Some(index) = labels.iter().position(|y| !y.is_normal()) {
            let expected = "-1 or 1, times a weight".to_owned();
            let got = labels[index].to_string();
            return Err(Error::Array { array: "y", index, expected, got });
        }
        self.check_features(features, n)?;
        if let (Some(vectors), Some(features)) = (&mut self.vectors, features) {
            vectors.set_columns(features.n_columns())?;
        }
        if n == 0 {
            return Ok(());
        }
        self.averaged = Kept::default();
        context.advance(*done, n)?;
        let forest = compact(forest, context)?;
        let store = &**forest.nodes();
        memory::room(store.len(), width.saturating_mul(32) + BYTES_PER_NODE)?;
        if self.occurrences.is_some() {
            let (sizes, n_nodes) = (store.sizes(), store.len() as u64);
            let of = |root: &NodeId| sizes[root.index()].min(n_nodes) as usize;
            memory::room(forest.roots().iter().map(of).sum(), BYTES_PER_OCCURRENCE)?;
        }
        let mut id_map = self.model.id_map(store)?;
        let (mut worker, mut whole) = (Worker::default(), Reader::default());
        let (mut scores, mut alphas) = (vec![0.0; width], vec![0.0; width]);
        // The trees, and after them the large ones that are support trees. They are made
        // ready when first needed: without vectors and large trees the sign is all that
        // counts, and no scale changes it.
        let is_normalized = self.model.options.normalize;
        let known = self.model.large.0.clone();
        let (singles, mut larges) = (OnceCell::new(), Vec::new());
        let mut own = None;
        let mut at_rest = None;
        for (tree, &root) in forest.roots().iter().enumerate().skip(*done) {
            let mut norm = Norm::default();
            // 2. Make the tree's norm ready, where scores depend on it.
            let is_needed = self.vectors.is_some() || !self.model.large.0.is_empty();
            if is_normalized && is_needed && own.is_none() {
                let all = Forest::try_concat_all([&*forest, &known], context)?;
                let kernel = self.model.kernel();
                let made = gram::prepare(kernel, all.nodes(), all.roots(), context)?;
                let mut of = singles.get_or_init(|| made).worker();
                // Those that became large meanwhile are trees of this forest.
                larges.extend(with_selfs(&mut of, n..all.len(), context)?);
                own = Some(of);
            }
            if let Some(of) = &mut own {
                norm = stand(of, tree, &larges, &mut worker.cosines, context)?;
            }
            // 3. Score it, by tables at rest if the visits since the last mistake have paid
            // for them.
            let seen = Seen { store, id_map: &id_map };
            self.model.read(&seen, &mut worker.reader, root)?;
            if let Some(features) = &features {
                features.row(tree, &mut worker.features);
            }
            let now = self.model.tables(|_| worker.subset.take_visits());
            if now.is_some() && at_rest.is_none() {
                worker.subset.forget_patterns();
            }
            at_rest = now;
            self.sums(
                &seen,
                &mut worker,
                at_rest.as_deref(),
                norm,
                &mut scores,
                context,
            )?;
            if !scores.iter().all(|score| score.is_finite()) {
                return Err(Error::ScoreOverflow { tree });
            }
            self.settle(&seen, &mut worker, norm, &mut scores, context)?;
            // 4. Where it is on the wrong side it becomes a support tree.
            let mut n_mistakes = 0;
            let all = alphas.iter_mut().zip(&scores).zip(&labels[tree * width..]);
            for ((alpha, score), y) in all {
                let is_mistake = y * score <= 0.0;
                *alpha = if is_mistake { *y } else { 0.0 };
                n_mistakes += u64::from(is_mistake);
            }
            if n_mistakes > 0 {
                if is_normalized && own.is_none() {
                    norm = one_norm(self.model.kernel(), store, root, context)?;
                }
                whole.read(store, root, true)?;
                let scale = norm.scale;
                if !self.stays_finite(&whole, scale, &alphas) {
                    return Err(too_large("y", tree * width, &alphas));
                }
                if scale.is_nan() {
                    self.model.keep(store, root, &alphas)?;
                    larges.push((tree, norm.own));
                }
                self.support(store, &mut id_map, &whole, scale, &alphas)?;
                if let Some(vectors) = &mut self.vectors {
                    vectors.push(&worker.features);
                }
            }
            self.n_examples = self.n_examples.saturating_add(1);
            self.n_mistakes = self.n_mistakes.saturating_add(n_mistakes);
            *done = tree + 1;
            context.advance(tree + 1, n)?;
        }
        context.report(n, n)
    }

    fn check_features(&self, features: Option<Features<'_>>, n: usize) -> Result<()> {
        let (expected, got) = match (&self.vectors, &features) {
            (None, None) => return Ok(()),
            (Some(_), Some(features)) => return features.check(n),
            (None, Some(_)) => ("None, as there is no kernel for vectors", "vectors"),
            (Some(_), None) => ("given, as there is a kernel for vectors", "None"),
        };
        Err(Error::Parameter { name: "features", expected, got: got.into() })
    }

    /// The scores of the tree that was read last by the last version, on which mistakes
    /// are decided.
    fn sums(
        &self,
        seen: &Seen<'_>,
        worker: &mut Worker,
        at_rest: Option<&AtRest>,
        norm: Norm,
        out: &mut [f64],
        context: &Context,
    ) -> Result<()> {
        out.fill(0.0);
        if self.mix > 0.0 {
            self.model.raw_score(seen, worker, at_rest, out, context)?;
        }
        self.add_supports(worker, norm, Terms::Last, out);
        Ok(())
    }

    /// Makes 0 of scores that are so but for rounding. Those are doubtful that are small
    /// beside others of trees of that size, or the first of it.
    fn settle(
        &mut self,
        seen: &Seen<'_>,
        worker: &mut Worker,
        norm: Norm,
        out: &mut [f64],
        context: &Context,
    ) -> Result<()> {
        let size = worker.reader.items().len().ilog2() as usize;
        let width = out.len();
        let is_doubtful = |(score, largest): (&f64, &f64)| {
            score.abs() <= DOUBTFUL * largest || *largest == 0.0
        };
        let largest = &self.largest[size * width..][..width];
        if out.iter().zip(largest).any(is_doubtful) {
            let mut sizes = vec![0.0; width];
            self.sizes(seen, worker, norm, &mut sizes, context)?;
            for (score, size) in out.iter_mut().zip(&sizes) {
                if score.abs() <= NOISE * size {
                    *score = 0.0;
                }
            }
        }
        for (largest, score) in self.largest[size * width..].iter_mut().zip(out) {
            *largest = largest.max(score.abs());
        }
        Ok(())
    }

    /// The sizes of the terms of those scores, summed.
    fn sizes(
        &self,
        seen: &Seen<'_>,
        worker: &mut Worker,
        norm: Norm,
        out: &mut [f64],
        context: &Context,
    ) -> Result<()> {
        out.fill(0.0);
        if self.mix > 0.0 {
            let numbers = Sizes(&self.model.weights);
            self.model.score_by(&numbers, seen, worker, None, out, context)?;
        }
        self.add_supports(worker, norm, Terms::Sizes, out);
        Ok(())
    }

    /// The scores of the tree that was read last, summed over all versions.
    fn average(
        &self,
        seen: &Seen<'_>,
        worker: &mut Worker,
        norm: Norm,
        out: &mut [f64],
        context: &Context,
    ) -> Result<()> {
        out.fill(0.0);
        if let (Some(late), true) = (&self.late, self.mix > 0.0) {
            let (last, scale) = (&self.model.weights, self.n_examples as f64);
            let numbers = Averaged { last, late, scale };
            self.model.score_by(&numbers, seen, worker, None, out, context)?;
        }
        self.add_supports(worker, norm, Terms::Average, out);
        Ok(())
    }

    /// Makes a score by subtrees into one of trees and vectors: adds what support trees
    /// have that are large, and their vectors.
    fn add_supports(
        &self,
        worker: &mut Worker,
        norm: Norm,
        terms: Terms,
        out: &mut [f64],
    ) {
        let mix = self.mix;
        for score in out.iter_mut() {
            *score = mix * norm.divide(*score);
        }
        let Worker { features, dots, cosines, .. } = worker;
        dots.clear();
        match &self.vectors {
            Some(vectors) => vectors.kernels(features, dots),
            None if cosines.is_empty() => return,
            None => dots.resize(self.supports.len(), 0.0),
        }
        let mut cosines = cosines.iter();
        let supports = self.supports.iter().zip(self.alphas.chunks(out.len()));
        for ((support, alphas), dot) in supports.zip(dots) {
            let mut kernel = (1.0 - mix) * *dot;
            if support.is_large() {
                kernel += mix * cosines.next().unwrap_or(&0.0);
            }
            match terms {
                Terms::Last => add_scaled(kernel, alphas, out),
                Terms::Average => {
                    let times = (self.n_examples - support.before) as f64;
                    add_scaled(times * kernel, alphas, out);
                }
                Terms::Sizes => {
                    let sizes = alphas.iter().map(|alpha| (kernel * alpha).abs());
                    out.iter_mut().zip(sizes).for_each(|(sum, size)| *sum += size);
                }
            }
        }
    }

    /// Makes a support tree of the one that was read last.
    fn support(
        &mut self,
        store: &Nodes,
        id_map: &mut IdMap,
        reader: &Reader,
        scale: f64,
        alphas: &[f64],
    ) -> Result<()> {
        let mut root = None;
        if scale != 0.0 && !scale.is_nan() {
            self.model.enter(store, id_map, reader)?;
            root = self.model.ids.last().map(|&id| NodeId(id));
        }
        self.model.count_tree(reader);
        self.weigh(reader, Support { root, scale, before: self.n_examples }, alphas)
    }

    /// Whether all weights stay finite when the tree that was read last gets these, also
    /// when they are multiplied by the number of examples.
    fn stays_finite(&self, reader: &Reader, scale: f64, alphas: &[f64]) -> bool {
        let most = self.model.magnitude + growth(scale, size(reader), alphas);
        most * u64::MAX as f64 <= SAFE
    }

    /// Adds a support tree, whose subtrees the model has, to all that is kept of them.
    fn weigh(
        &mut self,
        reader: &Reader,
        support: Support,
        alphas: &[f64],
    ) -> Result<()> {
        let Self { model, late, occurrences, supports, .. } = self;
        memory::reserve(supports, 1)?;
        memory::reserve(&mut self.alphas, alphas.len())?;
        if let Some(late) = late.as_mut().filter(|_| support.root.is_some()) {
            model.entered(reader).try_for_each(|(slot, _)| late.enter(slot))?;
        }
        let tree = supports.len() as u32;
        model.magnitude += growth(support.scale, size(reader), alphas);
        if support.root.is_some() {
            let scaled: Vec<f64> = alphas.iter().map(|a| a * support.scale).collect();
            model.weigh(reader, &scaled);
            if let Some(late) = late {
                let before = support.before as f64;
                let scaled: Vec<f64> = scaled.iter().map(|a| a * before).collect();
                for (slot, count) in model.entered(reader) {
                    late.add(slot, count, &scaled);
                }
            }
            if let Some(occurrences) = occurrences {
                for (slot, count) in model.entered(reader) {
                    occurrences.add(slot, tree, count)?;
                }
            }
        }
        supports.push(support);
        self.alphas.extend_from_slice(alphas);
        Ok(())
    }

    /// The scores of trees, `n_outputs` for each: sums over versions for `Average` and
    /// `Vote`. And the trees whose kernel with themselves is 0, where it is normalised.
    ///
    /// # Errors
    /// As [`Model::score`], and as [`learn`](Self::learn) for vectors.
    pub fn score(
        &self,
        forest: &Forest,
        features: Option<Features<'_>>,
        context: &Context,
    ) -> Result<(Vec<f64>, Vec<usize>)> {
        let width = self.model.options.n_outputs;
        self.check_features(features, forest.len())?;
        if let (Some(vectors), Some(features)) = (&self.vectors, &features)
            && vectors.n_columns() > 0
            && vectors.n_columns() != features.n_columns()
        {
            let expected = format!("{}, as in learn", vectors.n_columns());
            let got = features.n_columns();
            return Err(Error::Length { array: "a row of features", expected, got });
        }
        let mut out = memory::filled(0.0, forest.len().saturating_mul(width))?;
        context.advance(0, forest.len())?;
        let forest = compact(forest, context)?;
        if let Some(averaged) = self.averaged(&forest)? {
            let zeros = averaged.score_into(&forest, &mut out, context)?;
            return Ok((out, zeros));
        }
        let zeros = self.model.for_trees(
            &forest,
            self.vote == Vote::Last,
            &mut out,
            context,
            |tree, out, context| {
                let Tree { worker, seen, at_rest, norm, number } = tree;
                if let Some(features) = &features {
                    features.row(number, &mut worker.features);
                }
                match self.vote {
                    Vote::Vote => self.voted(seen, worker, norm, out, context),
                    Vote::Average => self.average(seen, worker, norm, out, context),
                    Vote::Last => self.sums(seen, worker, at_rest, norm, out, context),
                }
            },
        )?;
        Ok((out, zeros))
    }

    /// The model of averaged weights, if scores since the last change and those of these
    /// trees take longer than making it.
    fn averaged(&self, forest: &Forest) -> Result<Option<Arc<Model>>> {
        if self.vote != Vote::Average || self.vectors.is_some() || forest.is_empty() {
            return Ok(None);
        }
        if let known @ Some(_) = self.averaged.get() {
            return Ok(known);
        }
        let id_map = self.model.id_map(forest.nodes())?;
        let visits = |index: &_| super::visits(index, forest, &id_map);
        if !self.model.has_paid(visits) {
            return Ok(None);
        }
        memory::room(1, 2 * self.model.nbytes())?;
        Ok(Some(self.averaged.get_or_make(|| self.model())))
    }

    /// All versions' scores from one row of kernels.
    fn voted(
        &self,
        seen: &Seen<'_>,
        worker: &mut Worker,
        norm: Norm,
        out: &mut [f64],
        context: &Context,
    ) -> Result<()> {
        let Some(occurrences) = &self.occurrences else { return Ok(()) };
        let mut row = std::mem::take(&mut worker.row);
        row.clear();
        row.resize(self.supports.len(), 0.0);
        if self.mix > 0.0 {
            self.model.pass(
                seen,
                worker,
                None,
                &mut Row::new(occurrences, &mut row),
                context,
            )?;
        }
        let Worker { features, dots, cosines, .. } = worker;
        let mut cosines = cosines.iter();
        for (kernel, support) in row.iter_mut().zip(&self.supports) {
            let of_trees = if support.is_large() {
                *cosines.next().unwrap_or(&0.0)
            } else {
                norm.divide(*kernel) * support.scale
            };
            *kernel = self.mix * of_trees;
        }
        if let Some(vectors) = &self.vectors {
            vectors.kernels(features, dots);
            for (kernel, other) in row.iter_mut().zip(dots) {
                *kernel += (1.0 - self.mix) * *other;
            }
        }
        let width = out.len();
        for (output, out) in out.iter_mut().enumerate() {
            // The empty version, which scores 0, votes for neither.
            let (mut score, mut size, mut votes) = (0.0f64, 0.0f64, 0.0);
            let mut versions = self.supports.iter().enumerate().peekable();
            while let Some((version, support)) = versions.next() {
                let term = self.alphas[version * width + output] * row[version];
                score += term;
                size += term.abs();
                let end = versions.peek().map_or(self.n_examples, |next| next.1.before);
                if score.abs() > NOISE * size {
                    votes += sign(score) * (end - support.before) as f64;
                }
            }
            // A score that is no number has no sign: for the caller to find.
            *out = if score.is_finite() { votes } else { score };
        }
        worker.row = row;
        Ok(())
    }

    /// Bytes of the perceptron as flat arrays, in lists that double, and once more.
    #[cfg_attr(not(feature = "python"), allow(dead_code))]
    pub(crate) fn arrays_nbytes(&self) -> usize {
        let own = self.vectors.as_ref().map_or(0, Vectors::nbytes)
            + self.supports.len() * size_of::<Support>()
            + self.alphas.len() * 8;
        self.model.arrays_nbytes() + 4 * own
    }

    /// The perceptron as flat arrays.
    pub fn to_arrays(&self) -> Stored {
        let mut stored = Stored {
            model: self.model.to_arrays(),
            roots: Vec::with_capacity(self.supports.len()),
            scales: Vec::with_capacity(self.supports.len()),
            before: self.supports.iter().map(|support| support.before).collect(),
            alphas: self.alphas.clone(),
            indptr: vec![0],
            n_features: self.n_features(),
            n_examples: self.n_examples,
            n_mistakes: self.n_mistakes,
            ..Stored::default()
        };
        for support in &self.supports {
            let none = if support.is_large() { LARGE } else { NOWHERE };
            stored.roots.push(support.root.map_or(none, |root| i64::from(root.0)));
            stored.scales.push(support.root.map_or(0.0, |_| support.scale));
        }
        for row in self.vectors.iter().flat_map(Vectors::rows) {
            stored.indices.extend(row.iter().map(|entry| i64::from(entry.0)));
            stored.data.extend(row.iter().map(|entry| entry.1));
            stored.indptr.push(stored.data.len() as i64);
        }
        stored
    }

    /// The perceptron of flat arrays. Its support trees are added again, in their order:
    /// what it scores and learns has the same bits.
    ///
    /// # Errors
    /// [`Error::Parameter`] as [`new`](Self::new), [`Error::Array`] and
    /// [`Error::Length`] for arrays that do not describe a perceptron.
    pub fn from_arrays(
        kernel: &dyn Kernel,
        options: Options,
        vote: Vote,
        vectors: Option<PolynomialKernel>,
        mix: f64,
        stored: &Stored,
    ) -> Result<Self> {
        let mut own = Self::new(kernel, options, vote, vectors, mix)?;
        let n = stored.roots.len();
        check_length("scales", &stored.scales, n, "support trees")?;
        check_length("before", &stored.before, n, "support trees")?;
        let n_alphas = n * options.n_outputs;
        check_length("alphas", &stored.alphas, n_alphas, "trees times n_outputs")?;
        let wrong = |array, index, expected: &str, got: String| {
            Err(Error::Array { array, index, expected: expected.to_owned(), got })
        };
        if let Some(index) =
            stored.alphas.iter().position(|alpha| *alpha != 0.0 && !alpha.is_normal())
        {
            let got = stored.alphas[index].to_string();
            return wrong("alphas", index, "a finite number", got);
        }
        for (index, (&scale, &root)) in
            stored.scales.iter().zip(&stored.roots).enumerate()
        {
            let expected = match options.normalize {
                _ if root < 0 => "0, as root is below 0",
                false => "1, as the kernel is not normalised",
                true => "above 0, and at most 1e151",
            };
            let is_right = match options.normalize {
                _ if root < 0 => scale == 0.0 && options.normalize,
                false => scale == 1.0,
                true => scale > 0.0 && scale <= 1e151,
            };
            if !is_right {
                return wrong("scales", index, expected, scale.to_string());
            }
        }
        if let Some(index) = (0..n).find(|&at| {
            let next = stored.before.get(at + 1).copied().unwrap_or(stored.n_examples);
            stored.before[at] > next
        }) {
            let expected = "not more than the next one, and than n_examples";
            return wrong("before", index, expected, stored.before[index].to_string());
        }
        let mut arrays = stored.model.clone();
        arrays.weights.fill(0.0);
        arrays.sums.fill(0.0);
        let supports = stored.roots.iter().zip(stored.alphas.chunks(options.n_outputs));
        let larges = supports.filter(|(root, _)| **root == LARGE);
        arrays.large_alphas = larges.flat_map(|(_, alphas)| alphas).copied().collect();
        own.model = Model::from_arrays(kernel, options, &arrays)?;
        if let Some(vectors) = &mut own.vectors {
            let features = Features::Sparse {
                n_columns: stored.n_features,
                indptr: &stored.indptr,
                indices: &stored.indices,
                data: &stored.data,
            };
            features.check(n)?;
            vectors.set_columns(stored.n_features)?;
            let mut row = Vec::new();
            for tree in 0..n {
                features.row(tree, &mut row);
                vectors.push(&row);
            }
        }
        // Also where no tree that is there has a subtree, as these arrays may say.
        if let Some(late) = &mut own.late {
            own.model.slots.iter().try_for_each(|&slot| late.enter(slot))?;
        }
        let mut reader = Reader::default();
        for tree in 0..n {
            let number = stored.roots[tree];
            let n_nodes = own.model.nodes.len();
            let root = match u32::try_from(number) {
                Ok(root) if (root as usize) < n_nodes => Some(NodeId(root)),
                _ if number == NOWHERE || number == LARGE => None,
                _ => {
                    let expected = format!("-2 to {}", n_nodes as i64 - 1);
                    return wrong("roots", tree, &expected, number.to_string());
                }
            };
            if let Some(root) = root {
                reader.read(&own.model.nodes, root, true)?;
                own.model.ids.clear();
                own.model.ids.extend(reader.items().iter().map(|item| item.node.0));
                if own.occurrences.is_some() {
                    memory::room(reader.items().len(), BYTES_PER_OCCURRENCE)?;
                }
            }
            let before = stored.before[tree];
            let scale = if number == LARGE { f64::NAN } else { stored.scales[tree] };
            let alphas =
                &stored.alphas[tree * options.n_outputs..][..options.n_outputs];
            if !own.stays_finite(&reader, scale, alphas) {
                return Err(too_large("alphas", tree * options.n_outputs, alphas));
            }
            own.weigh(&reader, Support { root, scale, before }, alphas)?;
        }
        (own.n_examples, own.n_mistakes) = (stored.n_examples, stored.n_mistakes);
        Ok(own)
    }
}

/// How many nodes the tree has that was read last.
fn size(reader: &Reader) -> f64 {
    reader.items().iter().map(|item| item.count).sum()
}

fn scale_by(scores: &mut [f64], factor: f64) {
    for score in scores {
        *score *= factor;
    }
}
