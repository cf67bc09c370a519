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

mod arrays;
mod learn;
mod score;

pub use arrays::PerceptronArrays;

use super::score::ScoreTableCache;
use super::vectors::{Features, PolynomialKernel, Vectors};
use super::{Model, ModelOptions};
use crate::index::weights::{Occurrences, Weights};
use crate::kernel::IntoKernel;
use crate::memory::{self, or_panic};
use crate::threads::ForkSafeCache;
use crate::{Error, NodeId, Result};

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

/// Where a support tree is in the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// A subtree of the graph.
    Graph(NodeId),
    /// With this number among the trees that are kept whole.
    Whole(u32),
    /// Not there, as its kernel with itself is 0.
    Nowhere,
}

/// A support tree.
#[derive(Debug, Clone, Copy)]
struct Support {
    place: Place,
    /// In the graph 1 / sqrt(K(x,x)), or 1; NaN for a tree that is kept whole, and 0 for one
    /// that is not there.
    scale: f64,
    /// How many examples came before.
    before: u64,
}

/// A perceptron over trees. See the [module](crate::dag) and this file.
#[derive(Debug, Clone)]
pub struct Perceptron {
    /// The last version, as the model of its support trees.
    model: Model,
    vote: Vote,
    /// The share of the trees' kernel; the rest is that of vectors.
    mix: f64,
    /// The vectors of the support trees, where there is a kernel for them.
    vectors: Option<Vectors>,
    /// One for each mistaken example, in their order; equal trees each have theirs.
    supports: Vec<Support>,
    /// By support tree, by output: the label where it was a mistake, else 0.
    alphas: Vec<f64>,
    /// For `Average`: g.
    age_weighted: Option<Weights>,
    /// For `Vote`: which support trees have each subtree.
    occurrences: Option<Occurrences>,
    /// By the logarithm of its size, by output: the largest score of a tree as it was learned
    /// from.
    largest: Vec<f64>,
    /// For `Average`: the model that scores alike, once scores have paid for it.
    averaged: ForkSafeCache<Model>,
    /// Scratch: the weights of the tree that comes in.
    scaled: Vec<f64>,
    /// How many examples were seen: the end of the last version.
    n_examples: u64,
    /// How many mistakes were made, over all outputs.
    n_mistakes: u64,
}

impl Perceptron {
    /// A perceptron that has seen nothing. `vectors` is the kernel of feature vectors,
    /// `mix` the share of the trees' kernel beside it.
    ///
    /// # Errors
    /// [`Error::Parameter`] for what is out of range, and for a `mix` other than 1
    /// without vectors.
    pub fn new(
        kernel: impl IntoKernel,
        options: ModelOptions,
        vote: Vote,
        vectors: Option<PolynomialKernel>,
        mix: f64,
    ) -> Result<Self> {
        let vectors = vectors.map(PolynomialKernel::validated).transpose()?;
        let expected = match vectors {
            // NaN is not in the range either.
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
        let age_weighted = Weights::new(options.n_outputs);
        Ok(Self {
            model,
            vote,
            mix,
            vectors: vectors.map(Vectors::new),
            supports: Vec::new(),
            alphas: Vec::new(),
            // Only what the vote needs: each takes memory by the subtrees of mistakes.
            age_weighted: (vote == Vote::Average).then_some(age_weighted),
            occurrences: (vote == Vote::Vote).then(Occurrences::default),
            // A tree has at most 2^32 distinct subtrees, so the logarithm is at most
            // 32.
            largest: memory::filled(0.0, 33 * options.n_outputs)?,
            averaged: ForkSafeCache::default(),
            scaled: Vec::new(),
            n_examples: 0,
            n_mistakes: 0,
        })
    }

    /// A perceptron of averages whose first version is a model, without its intercept. The
    /// trees that it keeps whole are support trees that all versions have.
    pub(super) fn from_version(mut model: Model) -> Result<Self> {
        let options = model.options;
        let mut perceptron =
            Self::new(&model.kernel, options, Vote::Average, None, 1.0)?;
        // Mistakes are decided by the sum of kernels alone.
        model.intercept.fill(0.0);
        if let Some(age_weighted) = &mut perceptron.age_weighted {
            // g has the same slots as f, all 0: this version was there before any
            // example.
            model.slots.iter().try_for_each(|&slot| age_weighted.enter(slot))?;
        }
        let numbers = 0..model.whole.len() as u32;
        let places = numbers.map(Place::Whole);
        let supports =
            places.map(|place| Support { place, scale: f64::NAN, before: 0 });
        perceptron.supports = memory::collect(supports)?;
        perceptron.alphas = memory::copied(model.whole.alphas())?;
        perceptron.model = model;
        Ok(perceptron)
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
    ///
    /// # Panics
    /// Without memory for it.
    pub fn model(&self) -> Model {
        or_panic(self.try_model())
    }

    /// As [`model`](Self::model), or an error.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn try_model(&self) -> Result<Model> {
        memory::room(1, self.model.nbytes())?;
        let mut model = self.model.clone();
        if let Some(age_weighted) = &self.age_weighted {
            // 1. Trees that are kept whole: each mistake on one counts from its example
            // on.
            model.whole.clear_weights();
            let alphas = self.alphas.chunks(model.options.n_outputs);
            for (support, alphas) in self.supports.iter().zip(alphas) {
                if let Place::Whole(number) = support.place {
                    let times = (self.n_examples - support.before) as f64;
                    model.whole.weigh(number, times, alphas);
                }
            }
            // 2. Subtrees: T f - g, as the module has it.
            model.weights =
                model.weights.combined(self.n_examples as f64, age_weighted)?;
            // A sum over as many versions as examples, none of which has a larger
            // weight.
            model.magnitude *= self.n_examples as f64;
            model.score_tables = ScoreTableCache::default();
        }
        model.whole.drop_zeros(model.options.n_outputs);
        Ok(model)
    }

    /// Bytes held.
    pub fn nbytes(&self) -> usize {
        self.model.nbytes()
            + self.age_weighted.as_ref().map_or(0, Weights::nbytes)
            + self.occurrences.as_ref().map_or(0, Occurrences::nbytes)
            + self.vectors.as_ref().map_or(0, Vectors::nbytes)
            + self.supports.capacity() * size_of::<Support>()
            + self.alphas.capacity() * 8
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
}
