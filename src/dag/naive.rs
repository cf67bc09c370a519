//! The sums over support trees, as they stand: what models and perceptrons are held to.
//!
//! ```text
//! S(x) = Σ_i α_i K(x_i, x)
//! ```
//!
//! Kernels come from [`crate::kernel::naive`], so trees must be small. For tests and for
//! reading.

use super::{PolynomialKernel, Vote};
use crate::kernel::naive::kernel as k;
use crate::{Forest, Kernel};
use std::sync::Arc;

/// K(a,b), normalised or not.
pub fn value(
    kernel: &dyn Kernel,
    normalize: bool,
    forest: &Forest,
    a: usize,
    b: usize,
) -> f64 {
    let raw = |a: usize, b: usize| {
        k(kernel, forest.nodes(), forest.roots()[a], forest.roots()[b])
    };
    if !normalize {
        return raw(a, b);
    }
    // Without a kernel with itself a tree has none with any other.
    let (with_a, with_b) = (raw(a, a), raw(b, b));
    if with_a == 0.0 || with_b == 0.0 {
        0.0
    } else {
        raw(a, b) / (with_a.sqrt() * with_b.sqrt())
    }
}

/// The score of tree `x` of a forest whose first trees are support trees with weights.
pub fn score(
    kernel: &dyn Kernel,
    normalize: bool,
    forest: &Forest,
    alphas: &[f64],
    x: usize,
) -> f64 {
    let terms = alphas.iter().enumerate();
    terms.map(|(i, alpha)| alpha * value(kernel, normalize, forest, i, x)).sum()
}

/// Features, their kernel, and how much the trees' kernel counts beside it.
#[derive(Debug, Clone)]
pub struct Mixed {
    /// A row for each tree.
    pub rows: Vec<Vec<f64>>,
    /// Their kernel.
    pub kernel: PolynomialKernel,
    /// The share of the trees' kernel.
    pub mix: f64,
}

/// The kernel perceptron of a stream: mistakes with their labels, and how long each
/// version lasted.
#[derive(Debug, Clone)]
pub struct Perceptron {
    kernel: Arc<dyn Kernel>,
    normalize: bool,
    mixed: Option<Mixed>,
    /// Support trees' numbers, and labels.
    pub mistakes: Vec<(usize, f64)>,
    /// By version: after how many examples it was the perceptron's. The first is empty.
    pub survived: Vec<f64>,
}

impl Perceptron {
    /// Knows nothing yet.
    pub fn new(kernel: Arc<dyn Kernel>, normalize: bool, mixed: Option<Mixed>) -> Self {
        Self { kernel, normalize, mixed, mistakes: Vec::new(), survived: vec![0.0] }
    }

    fn kernel(&self, forest: &Forest, a: usize, b: usize) -> f64 {
        let tree = value(&*self.kernel, self.normalize, forest, a, b);
        let Some(Mixed { rows, kernel, mix }) = &self.mixed else { return tree };
        let dot = rows[a].iter().zip(&rows[b]).map(|(a, b)| a * b).sum::<f64>();
        let power = kernel.degree.cast_signed();
        mix * tree + (1.0 - mix) * (kernel.gamma * dot + kernel.coef0).powi(power)
    }

    /// S of each version.
    // Version k is the sum over the first k mistakes, so each adds one term.
    pub fn versions(&self, forest: &Forest, x: usize) -> Vec<f64> {
        let mut scores = vec![0.0];
        for &(i, y) in &self.mistakes {
            let last = scores[scores.len() - 1];
            scores.push(last + y * self.kernel(forest, i, x));
        }
        scores
    }

    /// Learns one tree of the forest; whether it was mistaken.
    pub fn learn(&mut self, forest: &Forest, x: usize, y: f64) -> bool {
        // A tie counts as a mistake, as in the perceptron that this is compared with.
        let is_mistake = y * self.versions(forest, x)[self.mistakes.len()] <= 0.0;
        if is_mistake {
            self.mistakes.push((x, y));
            self.survived.push(0.0);
        }
        // Also the version that the mistake has just made: it is the perceptron's from
        // this example on.
        self.survived[self.mistakes.len()] += 1.0;
        is_mistake
    }

    /// The score of a tree.
    pub fn score(&self, forest: &Forest, x: usize, vote: Vote) -> f64 {
        let versions = self.versions(forest, x);
        let pairs = versions.iter().zip(&self.survived);
        match vote {
            Vote::Last => versions[self.mistakes.len()],
            Vote::Average => pairs.map(|(score, times)| score * times).sum(),
            Vote::Vote => pairs.map(|(score, times)| sign(*score) * times).sum(),
        }
    }
}

/// -1, 0 or 1.
pub(super) fn sign(score: f64) -> f64 {
    if score == 0.0 { 0.0 } else { score.signum() }
}
