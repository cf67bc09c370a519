//! The kernel perceptron over a model that grows: last, averaged and voted.
//!
//! Trees x_t come with labels y_t of -1 or +1. Where y_t S(x_t) <= 0 the tree becomes a
//! support tree with weight y_t; nothing else is ever changed. So the perceptron goes
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

use super::lens::Lens;
use super::naive::sign;
use super::tree::Reader;
use super::vectors::{Features, PolynomialKernel, Vectors};
use super::weights::{Averaged, Occurrences, Row, Several, Weights};
use super::{
    Arrays, At, Model, Options, Pace, Seen, Tree, Worker, check_finite, check_length,
    compact, one_scale, usable_scale,
};
use crate::gram::{self, Watch};
use crate::team::Pause;
use crate::{Error, Forest, Kernel, NodeId, Nodes, Result};

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

/// A version whose score is so small beside the terms that it sums does not vote: where
/// support trees cancel, the rest is rounding, and its sign no vote.
const NOISE: f64 = 1e-12;

/// A support tree.
#[derive(Debug, Clone, Copy)]
struct Support {
    /// In the model's store; a tree whose kernel with itself is 0 is not there.
    root: Option<NodeId>,
    /// 1 / sqrt(K(x,x)), or 1; 0 for such a tree.
    scale: f64,
    /// How many examples came before.
    before: u64,
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
    n_examples: u64,
    n_mistakes: u64,
}

/// What a stored perceptron has besides its model's [`Arrays`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stored {
    /// The model, whose weights follow from the rest and are not read.
    pub model: Arrays,
    /// By support tree: its number among the subtrees; -1 for one that is not there.
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
        kernel: Kernel,
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
            n_examples: 0,
            n_mistakes: 0,
        })
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
            model.weights = model.weights.combined(self.n_examples as f64, late);
            model.frozen.take();
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

    /// Goes through trees once, in their order; `labels` are -1 or +1, `n_outputs` for
    /// each tree. Returns the number of mistakes, over all outputs. What was seen before
    /// stays: the pass continues.
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::Array`] for a wrong label or vector: with nothing
    /// changed. [`Error::ScoreOverflow`], [`Error::SelfOverflow`], [`Error::Capacity`] and
    /// what `watch` returns end the pass; the perceptron then has learned from the trees
    /// before, as [`n_examples`](Self::n_examples) tells.
    pub fn learn(
        &mut self,
        forest: &Forest,
        labels: &[f64],
        features: Option<Features<'_>>,
        watch: &mut Watch<'_>,
    ) -> Result<usize> {
        let (n, width) = (forest.len(), self.model.options.n_outputs);
        check_length("y", labels, n * width, "trees times n_outputs")?;
        if let Some(index) = labels.iter().position(|y| y.abs() != 1.0) {
            let (expected, got) = ("-1 or 1".to_owned(), labels[index].to_string());
            return Err(Error::Array { array: "y", index, expected, got });
        }
        self.check_features(features, n)?;
        if let (Some(vectors), Some(features)) = (&mut self.vectors, features) {
            vectors.set_columns(features.n_columns())?;
        }
        if n == 0 {
            return Ok(0);
        }
        let forest = compact(forest)?;
        let store = &**forest.nodes();
        let mut lens = self.model.lens(store)?;
        let mut worker = Worker::default();
        let mut whole = Reader::default();
        // Without vectors the sign is all that counts, and no scale changes it.
        let singles = if self.model.options.normalize && self.vectors.is_some() {
            let roots = forest.roots().to_vec();
            Some(gram::singles(&self.model.kernel, forest.nodes(), roots)?)
        } else {
            None
        };
        let mut own = singles.as_ref().map(|of| of.worker());
        let mut scores = vec![0.0; width];
        let mut alphas = vec![0.0; width];
        let mut pace = Pace::default();
        let before = self.n_mistakes;
        for (tree, &root) in forest.roots().iter().enumerate() {
            let overflow = Error::SelfOverflow { tree };
            let scale = match &mut own {
                Some(of) => usable_scale(of(tree, tree)?).ok_or(overflow)?,
                None => 1.0,
            };
            self.model.read(&Seen { store, lens: &lens }, &mut worker.reader, root);
            if let Some(features) = &features {
                features.row(tree, &mut worker.features);
            }
            let seen = Seen { store, lens: &lens };
            self.decide(&seen, &mut worker, scale, &mut scores)?;
            if !scores.iter().all(|score| score.is_finite()) {
                return Err(Error::ScoreOverflow { tree });
            }
            let mut n_mistakes = 0;
            let all = alphas.iter_mut().zip(&scores).zip(&labels[tree * width..]);
            for ((alpha, score), y) in all {
                let is_mistake = y * score <= 0.0;
                *alpha = if is_mistake { *y } else { 0.0 };
                n_mistakes += u64::from(is_mistake);
            }
            if n_mistakes > 0 {
                let mut scale = Some(scale);
                if self.model.options.normalize && own.is_none() {
                    scale = one_scale(&self.model.kernel, store, root)?;
                }
                let error = Error::SelfOverflow { tree };
                let scale = scale.ok_or(error)?;
                whole.read(store, root, true);
                self.support(store, &mut lens, &whole, scale, &alphas)?;
                if let Some(vectors) = &mut self.vectors {
                    vectors.push(&worker.features);
                }
            }
            self.n_examples += 1;
            self.n_mistakes += n_mistakes;
            pace.tell(watch, tree + 1, n)?;
        }
        watch(n, n)?;
        Ok((self.n_mistakes - before) as usize)
    }

    fn check_features(&self, features: Option<Features<'_>>, n: usize) -> Result<()> {
        let (expected, got) = match (&self.vectors, &features) {
            (None, None) => return Ok(()),
            (Some(_), Some(features)) => return features.check(n),
            (None, Some(_)) => ("None, as there is no kernel for vectors", "vectors"),
            (Some(_), None) => ("given, as there is a kernel for vectors", "None"),
        };
        Err(Error::Parameter { name: "X_vec", expected, got: got.into() })
    }

    /// The last version's scores of the tree that was read last, on which mistakes are
    /// decided.
    fn decide(
        &self,
        seen: &Seen<'_>,
        worker: &mut Worker,
        scale: f64,
        scores: &mut [f64],
    ) -> Result<()> {
        let model = &self.model;
        scores.fill(0.0);
        if self.mix > 0.0 {
            let mut go_on = || Ok(());
            model.raw_score(&model.weights, seen, worker, scores, &mut go_on)?;
        }
        if let Some(vectors) = &self.vectors {
            let Worker { features, dots, .. } = worker;
            vectors.kernels(features, dots);
            let share = 1.0 - self.mix;
            scale_by(scores, self.mix * scale);
            for (alphas, kernel) in self.alphas.chunks(scores.len()).zip(dots) {
                for (score, alpha) in scores.iter_mut().zip(alphas) {
                    *score += share * alpha * *kernel;
                }
            }
        }
        Ok(())
    }

    /// Makes a support tree of the one that was read last.
    fn support(
        &mut self,
        store: &Nodes,
        lens: &mut Lens,
        reader: &Reader,
        scale: f64,
        alphas: &[f64],
    ) -> Result<()> {
        let mut root = None;
        if scale != 0.0 {
            self.model.enter(store, lens, reader)?;
            root = self.model.ids.last().map(|&id| NodeId(id));
        }
        self.model.count_tree(reader);
        self.weigh(reader, Support { root, scale, before: self.n_examples }, alphas);
        Ok(())
    }

    /// Adds a support tree, whose subtrees the model has, to all that is kept of them.
    fn weigh(&mut self, reader: &Reader, support: Support, alphas: &[f64]) {
        let Self { model, late, occurrences, supports, .. } = self;
        let tree = supports.len() as u32;
        if support.root.is_some() {
            let scaled: Vec<f64> = alphas.iter().map(|a| a * support.scale).collect();
            model.weigh(reader, &scaled);
            if let Some(late) = late {
                let before = support.before as f64;
                let scaled: Vec<f64> = scaled.iter().map(|a| a * before).collect();
                for (slot, count) in model.entered(reader) {
                    late.enter(slot);
                    late.add(slot, count, &scaled);
                }
            }
            if let Some(occurrences) = occurrences {
                for (slot, count) in model.entered(reader) {
                    occurrences.add(slot, tree, count);
                }
            }
        }
        supports.push(support);
        self.alphas.extend_from_slice(alphas);
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
        n_jobs: Option<usize>,
        watch: &mut Watch<'_>,
    ) -> Result<(Vec<f64>, Vec<usize>)> {
        let width = self.model.options.n_outputs;
        self.check_features(features, forest.len())?;
        if let (Some(vectors), Some(features)) = (&self.vectors, &features)
            && vectors.n_columns() > 0
            && vectors.n_columns() != features.n_columns()
        {
            let expected = format!("{}, as in learn", vectors.n_columns());
            let got = features.n_columns();
            return Err(Error::Length { array: "a row of X_vec", expected, got });
        }
        let mut out = vec![0.0; forest.len() * width];
        let forest = compact(forest)?;
        let zeros = self.model.for_trees(
            &forest,
            n_jobs,
            width,
            &mut out,
            watch,
            |tree, at| {
                let Tree { worker, seen, scale, number } = tree;
                if let Some(features) = &features {
                    features.row(number, &mut worker.features);
                }
                let At { out, pause } = at;
                match self.vote {
                    Vote::Last => self.decide(seen, worker, scale, out),
                    Vote::Average => self.average(seen, worker, scale, out, pause),
                    Vote::Vote => self.voted(seen, worker, scale, out, pause),
                }?;
                // `decide` leaves the scale out where nothing is to be added.
                if self.vote == Vote::Last && self.vectors.is_none() {
                    scale_by(out, scale);
                }
                Ok(())
            },
        )?;
        Ok((out, zeros))
    }

    fn average(
        &self,
        seen: &Seen<'_>,
        worker: &mut Worker,
        scale: f64,
        out: &mut [f64],
        pause: &mut Pause<'_>,
    ) -> Result<()> {
        let Some(late) = &self.late else { return Ok(()) };
        let all = self.n_examples as f64;
        out.fill(0.0);
        if self.mix > 0.0 {
            let last = &self.model.weights;
            let numbers = Averaged { last, late, scale: all };
            self.model.pass(seen, worker, &mut Several::new(&numbers, out), pause)?;
        }
        scale_by(out, self.mix * scale);
        if let Some(vectors) = &self.vectors {
            let Worker { features, dots, .. } = worker;
            vectors.kernels(features, dots);
            let share = 1.0 - self.mix;
            let supports = self.supports.iter().zip(self.alphas.chunks(out.len()));
            for ((support, alphas), kernel) in supports.zip(dots) {
                let times = (self.n_examples - support.before) as f64;
                for (score, alpha) in out.iter_mut().zip(alphas) {
                    *score += share * (times * alpha) * *kernel;
                }
            }
        }
        Ok(())
    }

    /// All versions' scores from one row of kernels.
    fn voted(
        &self,
        seen: &Seen<'_>,
        worker: &mut Worker,
        scale: f64,
        out: &mut [f64],
        pause: &mut Pause<'_>,
    ) -> Result<()> {
        let Some(occurrences) = &self.occurrences else { return Ok(()) };
        let mut row = std::mem::take(&mut worker.row);
        row.clear();
        row.resize(self.supports.len(), 0.0);
        if self.mix > 0.0 {
            self.model.pass(
                seen,
                worker,
                &mut Row::new(occurrences, &mut row),
                pause,
            )?;
        }
        let Worker { features, dots, .. } = worker;
        for (kernel, support) in row.iter_mut().zip(&self.supports) {
            *kernel *= self.mix * scale * support.scale;
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

    /// The perceptron as flat arrays.
    pub fn to_arrays(&self) -> Stored {
        let mut stored = Stored {
            model: self.model.to_arrays(),
            roots: Vec::with_capacity(self.supports.len()),
            scales: self.supports.iter().map(|support| support.scale).collect(),
            before: self.supports.iter().map(|support| support.before).collect(),
            alphas: self.alphas.clone(),
            indptr: vec![0],
            n_features: self.n_features(),
            n_examples: self.n_examples,
            n_mistakes: self.n_mistakes,
            ..Stored::default()
        };
        for support in &self.supports {
            stored.roots.push(support.root.map_or(-1, |root| i64::from(root.0)));
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
        kernel: Kernel,
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
        check_finite("scales", &stored.scales)?;
        check_finite("alphas", &stored.alphas)?;
        if let Some(index) = (0..n).find(|&at| {
            let next = stored.before.get(at + 1).copied().unwrap_or(stored.n_examples);
            stored.before[at] > next
        }) {
            let expected = "not more than the next one, and than n_examples".to_owned();
            let got = stored.before[index].to_string();
            return Err(Error::Array { array: "before", index, expected, got });
        }
        let mut arrays = stored.model.clone();
        arrays.weights.fill(0.0);
        arrays.sums.fill(0.0);
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
        let mut reader = Reader::default();
        for tree in 0..n {
            let number = stored.roots[tree];
            let n_nodes = own.model.nodes.len();
            let root = match u32::try_from(number) {
                Ok(root) if (root as usize) < n_nodes => Some(NodeId(root)),
                _ if number == -1 => None,
                _ => {
                    let expected = format!("-1 to {}", n_nodes as i64 - 1);
                    let (array, got) = ("roots", number.to_string());
                    return Err(Error::Array { array, index: tree, expected, got });
                }
            };
            if let Some(root) = root {
                reader.read(&own.model.nodes, root, true);
                own.model.ids.clear();
                own.model.ids.extend(reader.items().iter().map(|item| item.node.0));
            }
            let (scale, before) = (stored.scales[tree], stored.before[tree]);
            let alphas =
                &stored.alphas[tree * options.n_outputs..][..options.n_outputs];
            own.weigh(&reader, Support { root, scale, before }, alphas);
        }
        (own.n_examples, own.n_mistakes) = (stored.n_examples, stored.n_mistakes);
        Ok(own)
    }
}

fn scale_by(scores: &mut [f64], factor: f64) {
    for score in scores {
        *score *= factor;
    }
}
