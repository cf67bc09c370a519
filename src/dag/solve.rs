//! Kernel machines trained exactly, without the matrix.
//!
//! All problems here minimise ½ |w|² + Σ_c loss_c(S_c) with S = <w, φ> + b. Their duals
//! have one number β_c for each example (or preference) c, and w = Σ_c β_c φ_c:
//!
//! ```text
//! minimise  ½ Σ β_c β_e K_ce + Σ_c (d_c/2 β_c² + ε|β_c| - t_c β_c),   lo_c <= β_c <= hi_c
//! ```
//!
//! | [`Loss`] | loss of S | t | ε | d | β |
//! |---|---|---|---|---|---|
//! | `Hinge` | c max(0, 1 - yS) | y | 0 | 0 | from 0 to cy |
//! | `SquaredHinge` | c max(0, 1 - yS)² | y | 0 | 1/2c | of y's sign |
//! | `Logistic` | c log(1 + exp(-yS)) | | | | from 0 to cy, Σ α log α + (c-α) log(c-α), α = yβ |
//! | `Epsilon` | c max(0, \|S-t\| - ε) | t | ε | 0 | from -c to c |
//! | `SquaredEpsilon` | c max(0, \|S-t\| - ε)²; ridge with ε = 0 | t | ε | 1/2c | any |
//! | `OneClass` | c max(0, -S), and b Σβ | 0 | 0 | 0 | from 0 to c, Σβ given |
//!
//! The intercept b is none, a feature ι of all trees (K + ι², as in LIBLINEAR), or free:
//! then Σβ never changes (as in LIBSVM). K may be a mixture of the trees' kernel and one of
//! feature vectors ([`Solver::with_vectors`]); these go by sums over the support trees.
//!
//! # Method
//! A [`Model`](super::Model) holds w. A pass takes examples in a seeded order, batch by batch: it scores a
//! batch by all threads, leaves out those that stand at a bound and are right to (most of
//! them, soon), solves the problem of the others to the end with the matrix of these few, and
//! adds what changed to the model. Passes over the examples that were not left out follow
//! one another until these are solved; then all are scored, which gives the violation, the
//! duality gap, and the next examples to be solved. So late passes see few trees, and a
//! problem small enough is one batch: the matrix, computed once.
//!
//! The steps within a batch are those of greatest gain, of single numbers or, where b is
//! free, of pairs (Fan, Chen & Lin 2005). Nothing depends on the number of threads. A pass
//! starts from β alone, so a solver that was stopped, or stored, goes on as if nothing had
//! been.
//!
//! # Complexity
//! A pass takes a score for each of its examples, and a row of a batch's matrix and some
//! steps along it for those that are not left out. Memory: a few numbers for each example,
//! the model of the support trees, and the matrix of a batch, as large as the caller allows.

use std::sync::{Mutex, PoisonError};

use super::sum::Terms;
use super::vectors::Beside;
use super::{
    Features, Options, PolynomialKernel, SumModel, add_scaled, check_finite,
    check_length, compact,
};
use crate::dtk::random::Stream;
use crate::gram::{self, Watch};
use crate::index::reader::NONE;
use crate::memory;
use crate::threads::{Pause, Threads, Throttle};
use crate::{Error, Forest, Kernel, Result};

/// What a machine pays for a score: see the [module](self).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Loss {
    /// Support vector classification; of preferences, ranking.
    Hinge,
    /// The same with squares.
    SquaredHinge,
    /// Logistic regression.
    Logistic,
    /// Support vector regression, with the half width of its tube.
    Epsilon(f64),
    /// The same with squares; ridge regression for 0.
    SquaredEpsilon(f64),
    /// Novelty detection, with the sum of all β.
    OneClass(f64),
}

/// What is added to all scores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Intercept {
    /// Nothing.
    None,
    /// The weight of a feature that all trees have with this value.
    Feature(f64),
    /// Any number, which costs nothing.
    Free,
}

/// What is to be learned.
#[derive(Debug, Clone)]
pub struct Problem {
    /// The loss.
    pub loss: Loss,
    /// The intercept.
    pub intercept: Intercept,
    /// How many machines are trained on the same trees.
    pub n_outputs: usize,
    /// Labels -1 and 1, or values: by example, by output. For `OneClass` and preferences
    /// they are not looked at.
    pub targets: Vec<f64>,
    /// c: by example, by output.
    pub costs: Vec<f64>,
    /// Examples that are preferences: the first tree is to score higher than the second.
    /// None: every tree is an example.
    pub preferences: Option<Vec<[u32; 2]>>,
}

/// How a solver goes about it.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The largest violation of a solution, in units of scores: how far a derivative is on
    /// the wrong side of 0 (for a free intercept, of another).
    pub tol: f64,
    /// Passes at most, with those before.
    pub max_iter: u64,
    /// Bytes of a matrix, about.
    pub cache: usize,
    /// Threads; None: one for each core.
    pub n_jobs: Option<usize>,
}

/// What a solver knows between two passes.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// β: by example, by output.
    pub betas: Vec<f64>,
    /// By output.
    pub intercept: Vec<f64>,
    /// The examples of the next pass.
    pub active: Vec<u32>,
    /// Passes since all examples were scored.
    pub since: u64,
    /// Whether these passes have done what they can, and all are to be scored.
    pub is_settled: bool,
    /// Passes so far.
    pub n_iter: u64,
    /// The largest violation when all examples were scored last.
    pub violation: f64,
    /// By output: the primal objective then.
    pub primal: Vec<f64>,
    /// By output: primal less dual objective.
    pub gap: Vec<f64>,
}

/// A machine in training. See the [module](self).
#[derive(Debug, Clone)]
pub struct Solver {
    kernel: Terms,
    options: Options,
    forest: Forest,
    /// Feature vectors of the trees.
    beside: Option<Beside>,
    problem: Problem,
    seed: u64,
    state: State,
    /// After passes that ended early: how far they came.
    reached: Option<State>,
}

/// One example's part of the dual: see the module's table.
#[derive(Debug, Clone, Copy)]
struct Term {
    target: f64,
    epsilon: f64,
    ridge: f64,
    low: f64,
    high: f64,
}

/// How fast the dual falls when β grows, and when it shrinks how fast it rises: infinite
/// where it cannot.
#[derive(Debug, Clone, Copy)]
struct Slopes {
    up: f64,
    down: f64,
}

impl Slopes {
    /// How much is to be gained by changing β, per unit; below 0: it is right where it is.
    fn violation(self, score: f64) -> f64 {
        (self.up - score).max(score - self.down)
    }
}

/// No curvature counts as less.
const LEAST_CURVATURE: f64 = 1e-12;
/// Logistic regression starts from this share of c.
const LEAST_SHARE: f64 = 1e-300;
/// Trees that a batch tries to leave over: fewer waste scores, more are a large matrix.
const BATCH: usize = 1024;
/// So many times what fits into a matrix are few.
const FEW: usize = 8;
/// Until all examples were scored, none has this violation.
const FIRST: f64 = 2.0;
/// Passes over the active examples between two over all.
const PASSES: u64 = 10;
/// Steps within a batch, per example.
const STEPS: usize = 100;

impl Loss {
    fn is_of_labels(self) -> bool {
        matches!(self, Self::Hinge | Self::SquaredHinge | Self::Logistic)
    }

    fn term(self, target: f64, cost: f64) -> Term {
        let all = Term { target, epsilon: 0.0, ridge: 0.0, low: -cost, high: cost };
        let one_sided = |high: f64| {
            let (low, high) = if target > 0.0 { (0.0, high) } else { (-high, 0.0) };
            Term { low, high, ..all }
        };
        let squared = |term: Term| Term { ridge: 0.5 / cost, ..term };
        match self {
            // What costs nothing is not looked at.
            _ if cost == 0.0 => all,
            Self::Hinge | Self::Logistic => one_sided(cost),
            Self::SquaredHinge => squared(one_sided(f64::INFINITY)),
            Self::Epsilon(epsilon) => Term { epsilon, ..all },
            Self::SquaredEpsilon(epsilon) => {
                let (low, high) = (f64::NEG_INFINITY, f64::INFINITY);
                squared(Term { epsilon, low, high, ..all })
            }
            Self::OneClass(_) => Term { target: 0.0, low: 0.0, ..all },
        }
    }

    /// The loss of a score, and what the dual has of β besides its square.
    fn values(self, term: Term, cost: f64, score: f64, beta: f64) -> [f64; 2] {
        let Term { target, epsilon, ridge, .. } = term;
        let over = match self {
            Self::OneClass(_) => -score,
            Self::Epsilon(_) | Self::SquaredEpsilon(_) => {
                (score - target).abs() - epsilon
            }
            _ => 1.0 - target * score,
        };
        let over = over.max(0.0);
        let linear = epsilon * beta.abs() - target * beta;
        match self {
            Self::Logistic => {
                let margin = target * score;
                let loss = (-margin.abs()).exp().ln_1p() + (-margin).max(0.0);
                let entropy = |share: f64| {
                    if share > 0.0 { share * share.ln() } else { 0.0 }
                };
                let share = if cost > 0.0 { beta.abs() / cost } else { 0.0 };
                [cost * loss, cost * (entropy(share) + entropy(1.0 - share))]
            }
            Self::SquaredHinge | Self::SquaredEpsilon(_) => {
                [cost * over * over, linear + 0.5 * ridge * beta * beta]
            }
            _ => [cost * over, linear],
        }
    }

    /// The slopes at a score of 0: any other is subtracted from both.
    fn slopes(self, term: &Term, beta: f64) -> Slopes {
        let [mut up, mut down] = [beta >= 0.0, beta > 0.0].map(|is_above| {
            let edge = if is_above { -term.epsilon } else { term.epsilon };
            term.target - term.ridge * beta + edge
        });
        let Term { mut low, mut high, .. } = *term;
        if self == Self::Logistic {
            let (cost, alpha) = (high - low, beta.abs());
            let share = (alpha / cost).max(LEAST_SHARE);
            // c itself is never reached, but in floats it is, and that is as good.
            let rest = (1.0 - share).max(f64::EPSILON);
            up = -term.target * (share / rest).ln();
            down = up;
            low -= f64::from(alpha < cost);
            high += f64::from(alpha < cost);
        }
        Slopes {
            up: if beta < high { up } else { f64::NEG_INFINITY },
            down: if beta > low { down } else { f64::INFINITY },
        }
    }

    /// The second derivative, where K's is `own`.
    fn curvature(self, term: &Term, own: f64) -> f64 {
        let extra = match self {
            // The least there is.
            Self::Logistic => 4.0 / (term.high - term.low),
            _ => term.ridge,
        };
        (own + extra).max(LEAST_CURVATURE)
    }

    /// The change of one β alone that is best, though not across 0 where the dual has an
    /// edge there.
    fn step(self, term: &Term, score: f64, beta: f64, own: f64) -> f64 {
        if self == Self::Logistic {
            return logistic_step(term, score, beta, own);
        }
        let slopes = self.slopes(term, beta);
        let (up, down) = (slopes.up - score, slopes.down - score);
        let curvature = self.curvature(term, own);
        if up > 0.0 {
            (up / curvature).min(term.room(beta))
        } else if down < 0.0 {
            -(-down / curvature).min(term.room_below(beta))
        } else {
            0.0
        }
    }
}

impl Term {
    /// How far β can grow without meeting a bound, or an edge at 0.
    fn room(&self, beta: f64) -> f64 {
        if self.epsilon > 0.0 && beta < 0.0 { -beta } else { self.high - beta }
    }

    fn room_below(&self, beta: f64) -> f64 {
        if self.epsilon > 0.0 && beta > 0.0 { beta } else { beta - self.low }
    }
}

/// With α = c σ(z) the derivative is q (c σ(z) - α_0) + y S + z: it rises with z at least as
/// fast as z does, and Newton's method within bounds finds where it is 0.
fn logistic_step(term: &Term, score: f64, beta: f64, own: f64) -> f64 {
    let (y, cost, before) = (term.target, term.high - term.low, beta.abs());
    let fixed = y * score - own * before;
    let (mut low, mut high) = (-fixed - own * cost, -fixed);
    let mut z = f64::midpoint(low, high);
    let mut alpha = before;
    for _ in 0..100 {
        let sigma =
            if z >= 0.0 { 1.0 / (1.0 + (-z).exp()) } else { z.exp() / (1.0 + z.exp()) };
        alpha = cost * sigma;
        let slope = own * alpha + fixed + z;
        if slope > 0.0 {
            high = z;
        } else {
            low = z;
        }
        let next = z - slope / (1.0 + own * alpha * (1.0 - sigma));
        let next =
            if next > low && next < high { next } else { f64::midpoint(low, high) };
        if slope == 0.0 || (next - z).abs() <= 1e-15 * z.abs().max(1.0) {
            break;
        }
        z = next;
    }
    y * alpha - beta
}

/// The examples of a batch that are not left out, and the matrix of their trees.
struct Block {
    examples: Vec<u32>,
    places: Vec<[u32; 2]>,
    n_trees: usize,
    kernel: Vec<f64>,
}

/// The score of an example by those of its trees.
fn score(scores: &[f64], [a, b]: [u32; 2], width: usize) -> f64 {
    let of = |tree: u32| scores[tree as usize * width];
    of(a) - if b == NONE { 0.0 } else { of(b) }
}

/// Adds the weights of an example to those of its trees.
fn weigh(sums: &mut [f64], [a, b]: [u32; 2], betas: &[f64]) {
    for (tree, sign) in [(a, 1.0), (b, -1.0)] {
        if tree != NONE {
            let own = &mut sums[tree as usize * betas.len()..][..betas.len()];
            add_scaled(sign, betas, own);
        }
    }
}

/// Where a tree is among some, which ascend.
fn place(trees: &[u32], tree: u32) -> u32 {
    if tree == NONE { NONE } else { trees.partition_point(|&t| t < tree) as u32 }
}

impl Block {
    /// K of one example with itself.
    fn own(&self, example: usize) -> f64 {
        let [a, b] = self.places[example];
        let of = |x: u32, y: u32| self.kernel[x as usize * self.n_trees + y as usize];
        if b == NONE { of(a, a) } else { of(a, a) + of(b, b) - 2.0 * of(a, b) }
    }

    /// K of one example with all, made in `scratch` where it is not a row of the matrix.
    fn row<'a>(&'a self, example: usize, scratch: &'a mut Vec<f64>) -> &'a [f64] {
        let row =
            |tree: u32| &self.kernel[tree as usize * self.n_trees..][..self.n_trees];
        let [a, b] = self.places[example];
        if b == NONE {
            return row(a);
        }
        let (a, b) = (row(a), row(b));
        scratch.clear();
        scratch.extend(
            self.places.iter().map(|&pair| score(a, pair, 1) - score(b, pair, 1)),
        );
        scratch
    }
}

impl Solver {
    /// A machine that has learned nothing. `seed` is where the orders of passes come from.
    ///
    /// # Errors
    /// As [`SumModel::new`]; [`Error::Length`] and [`Error::Array`] for what does not fit the
    /// problem, [`Error::Parameter`] for a loss or an intercept out of range.
    pub fn new(
        kernel: &dyn Kernel,
        normalize: bool,
        forest: &Forest,
        problem: Problem,
        seed: u64,
    ) -> Result<Self> {
        let width = problem.n_outputs;
        let options = Options { normalize, n_outputs: width };
        let kernel = Terms::new(kernel, normalize)?;
        SumModel::of(kernel.clone(), width)?;
        problem.check(forest.len())?;
        let n = problem.preferences.as_ref().map_or(forest.len(), Vec::len);
        let mut state = State {
            betas: memory::filled(0.0, n * width)?,
            intercept: vec![0.0; width],
            active: (0..n as u32).collect(),
            since: 0,
            is_settled: matches!(problem.loss, Loss::OneClass(_)),
            n_iter: 0,
            violation: f64::INFINITY,
            primal: vec![f64::INFINITY; width],
            gap: vec![f64::INFINITY; width],
        };
        if let Loss::OneClass(sum) = problem.loss {
            // The first examples have all, as LIBSVM has it.
            for output in 0..width {
                let mut left = sum;
                for example in (0..n).map(|example| example * width + output) {
                    state.betas[example] = problem.costs[example].min(left);
                    left -= state.betas[example];
                }
            }
        }
        let forest = compact(forest, &mut || Ok(()))?.into_owned();
        let (beside, reached) = (None, None);
        Ok(Self { kernel, options, forest, beside, problem, seed, state, reached })
    }

    /// The same machine with feature vectors beside the trees: its kernel is `mix` times
    /// that of trees, and 1 - `mix` times that of vectors.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a kernel or a `mix` out of range, [`Error::Length`] and
    /// [`Error::Array`] for vectors that do not go with the trees.
    pub fn with_vectors(
        self,
        kernel: PolynomialKernel,
        mix: f64,
        features: Features<'_>,
    ) -> Result<Self> {
        let beside = Beside::new(kernel, mix, features, self.forest.len())?;
        Ok(Self { beside: Some(beside), ..self })
    }

    /// The scores of trees, `n_outputs` for each, with `features` where the machine has
    /// vectors.
    ///
    /// # Errors
    /// As [`SumModel::score`]; [`Error::Length`] and [`Error::Array`] for vectors that do not
    /// go with the trees, [`Error::Parameter`] for vectors where there are none, or none
    /// where there are.
    pub fn score(
        &self,
        forest: &Forest,
        features: Option<Features<'_>>,
        n_jobs: Option<usize>,
        watch: &mut Watch<'_>,
    ) -> Result<Vec<f64>> {
        let (expected, got) = match (&self.beside, features) {
            (None, Some(_)) => ("None, as there is no kernel for vectors", "vectors"),
            (Some(_), None) => ("given, as there is a kernel for vectors", "None"),
            _ => ("", ""),
        };
        if !got.is_empty() {
            let got = got.into();
            return Err(Error::Parameter { name: "features", expected, got });
        }
        let (betas, width) = (&self.state.betas, self.options.n_outputs);
        let others = match (&self.beside, features) {
            (Some(beside), Some(features)) => beside.others(features, forest.len())?,
            _ => Vec::new(),
        };
        let mut scores = self.model(betas, watch)?.score(forest, n_jobs, watch)?.0;
        if let Some(beside) = &self.beside {
            let (alphas, asked) = (
                self.tree_weights(betas),
                others.iter().map(|row| &**row).collect::<Vec<_>>(),
            );
            beside.add_to_scores(&alphas, width, &asked, &mut scores, n_jobs, watch)?;
        }
        for (tree, scores) in scores.chunks_mut(width).enumerate() {
            add_scaled(1.0, &self.reached().intercept, scores);
            if !scores.iter().all(|score| score.is_finite()) {
                return Err(Error::ScoreOverflow { tree });
            }
        }
        Ok(scores)
    }

    /// What is known by now.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The same, as seen when all examples were scored after the last pass.
    pub fn reached(&self) -> &State {
        self.reached.as_ref().unwrap_or(&self.state)
    }

    /// Goes on from there.
    ///
    /// # Errors
    /// [`Error::Length`] and [`Error::Array`] for a state of another problem.
    pub fn set_state(&mut self, mut state: State) -> Result<()> {
        let (n, width) = (self.n_examples(), self.options.n_outputs);
        check_length("betas", &state.betas, n * width, "examples times n_outputs")?;
        check_finite("betas", &state.betas)?;
        for (array, values) in [
            ("intercept", &state.intercept),
            ("primal", &state.primal),
            ("gap", &state.gap),
        ] {
            check_length(array, values, width, "n_outputs")?;
        }
        check_finite("intercept", &state.intercept)?;
        for (at, beta) in state.betas.iter_mut().enumerate() {
            let Term { low, high, .. } = self.term(at);
            let within = beta.clamp(low, high);
            if (within - *beta).abs() > 1e-9 * within.abs() {
                let (array, got) = ("betas", beta.to_string());
                let expected = format!("from {low} to {high}");
                return Err(Error::Array { array, index: at, expected, got });
            }
            *beta = within;
        }
        let sum = match (self.problem.loss, self.problem.intercept) {
            (Loss::OneClass(sum), _) => Some(sum),
            (_, Intercept::Free) => Some(0.0),
            _ => None,
        };
        for output in 0..width {
            let own = state.betas.iter().skip(output).step_by(width);
            let (got, size) =
                own.fold((0.0, 0.0), |(sum, size), b| (sum + b, size + b.abs()));
            if let Some(sum) = sum
                && (got - sum).abs() > 1e-6 * (sum + size)
            {
                let (array, index) = ("betas", output);
                let expected = format!("a sum of {sum}");
                return Err(Error::Array {
                    array,
                    index,
                    expected,
                    got: got.to_string(),
                });
            }
        }
        let mut is_free = memory::filled(true, n)?;
        let mut is_new = |&example: &u32| {
            is_free.get_mut(example as usize).is_some_and(std::mem::take)
        };
        if let Some(index) = state.active.iter().position(|e| !is_new(e)) {
            let (array, got) = ("active", state.active[index].to_string());
            let expected = format!("an index below {n}, each once");
            return Err(Error::Array { array, index, expected, got });
        }
        (self.state, self.reached) = (state, None);
        Ok(())
    }

    /// How many examples there are: trees, or preferences.
    pub fn n_examples(&self) -> usize {
        self.problem.preferences.as_ref().map_or(self.forest.len(), Vec::len)
    }

    /// The weight of every tree, by output: β, or what preferences sum up to.
    pub fn dual_coef(&self) -> Vec<f64> {
        self.tree_weights(&self.state.betas)
    }

    fn tree_weights(&self, betas: &[f64]) -> Vec<f64> {
        let Some(preferences) = &self.problem.preferences else {
            return betas.to_vec();
        };
        let width = self.options.n_outputs;
        let mut sums = vec![0.0; self.forest.len() * width];
        for (betas, &pair) in betas.chunks(width).zip(preferences) {
            weigh(&mut sums, pair, betas);
        }
        sums
    }

    fn term(&self, at: usize) -> Term {
        let Problem { loss, targets, costs, preferences, .. } = &self.problem;
        let target = if preferences.is_some() { 1.0 } else { targets[at] };
        loss.term(target, costs[at])
    }

    fn trees(&self, example: u32) -> [u32; 2] {
        let preferences = self.problem.preferences.as_ref();
        preferences.map_or([example, NONE], |known| known[example as usize])
    }

    /// Makes passes until the violation is at most `tol`, and says whether it is. What
    /// `watch` is told is passes.
    ///
    /// # Errors
    /// [`Error::ScoreOverflow`], [`Error::Overflow`], [`Error::Memory`], and what `watch`
    /// returns: the state is then that after the last pass.
    pub fn run(&mut self, limits: Limits, watch: &mut Watch<'_>) -> Result<bool> {
        if self.n_examples() == 0 {
            return Ok(true);
        }
        self.reached = None;
        loop {
            let done = self.state.n_iter;
            let mut told =
                |_, _| watch(done as usize, limits.max_iter.min(1 << 40) as usize);
            told(0, 0)?;
            if self.state.violation <= limits.tol {
                return Ok(true);
            }
            if done >= limits.max_iter {
                // Without a trace in the state: more passes go on as if they had not ended.
                let reached = self.score_all(&limits, &mut told)?;
                let is_solved = reached.violation <= limits.tol;
                self.reached = Some(reached);
                return Ok(is_solved);
            }
            self.state = if self.state.is_settled {
                self.score_all(&limits, &mut told)?
            } else {
                self.pass(&limits, &mut told)?
            };
        }
    }

    /// Goes through the active examples batch by batch, and solves each batch.
    fn pass(&self, limits: &Limits, watch: &mut Watch<'_>) -> Result<State> {
        let width = self.options.n_outputs;
        let mut next = self.state.clone();
        next.n_iter += 1;
        next.since = next.since.saturating_add(1);
        let order = Stream::numbered(self.seed, self.state.n_iter)
            .permutation(next.active.len(), &mut || watch(0, 0))?;
        let order: Vec<u32> =
            order.into_iter().map(|at| self.state.active[at as usize]).collect();
        next.active.clear();
        let mut model = self.model(&next.betas, watch)?;
        let most = self.most_examples(limits);
        let is_whole = order.len() <= most;
        // Many are scored in small batches, as most of them will be left out.
        let wanted = if order.len() <= FEW * most { most } else { BATCH.min(most) };
        let mut take = wanted;
        let (mut worst, mut start) = (0.0f64, 0);
        while start < order.len() {
            let batch = &order[start..order.len().min(start + take)];
            // 1. Score, and leave out what is right.
            let trees = self.trees_of(batch);
            let scores = self.scores(&model, &next.betas, &trees, limits, watch)?;
            let mut left = Vec::new();
            for &example in batch {
                let place = self.places(&trees, example);
                let violation = self.violation(&next, &scores, example, place);
                worst = worst.max(violation);
                if violation >= 0.0 {
                    if left.len() == most {
                        break;
                    }
                    left.push(example);
                }
                start += 1;
            }
            if left.len() < wanted / 2 {
                take *= 2;
            } else if left.len() > wanted {
                take = (take / 2).max(wanted);
            }
            if left.is_empty() {
                continue;
            }
            // 2. Solve the others, in the matrix's order.
            left.sort_unstable();
            let known = self.trees_of(&left);
            let places = left.iter().map(|&e| self.places(&known, e)).collect();
            let kernel = self.matrix(&known, limits, watch)?;
            let block = Block { examples: left, places, n_trees: known.len(), kernel };
            let solved: Vec<_> = (0..width).map(|_| Mutex::new(None)).collect();
            let threads = Threads::new(limits.n_jobs, width);
            threads.run(
                width,
                &mut vec![(); threads.size()],
                |output, (), pause| {
                    let own: Vec<f64> = (block.examples.iter())
                        .map(|&e| self.places(&trees, e))
                        .map(|pair| score(&scores[output..], pair, width))
                        .collect();
                    let done = self.solve(&block, output, &next, own, limits, pause)?;
                    *solved[output].lock().unwrap_or_else(PoisonError::into_inner) =
                        Some(done);
                    Ok(())
                },
                &mut |_| watch(0, 0),
            )?;
            for (output, solved) in solved.into_iter().enumerate() {
                let solved =
                    solved.into_inner().unwrap_or_else(PoisonError::into_inner);
                let Some((betas, intercept)) = solved else { continue };
                for (&example, beta) in block.examples.iter().zip(betas) {
                    next.betas[example as usize * width + output] = beta;
                }
                next.intercept[output] = intercept.unwrap_or(next.intercept[output]);
            }
            // 3. Add what changed.
            let mut changes = vec![0.0; known.len() * width];
            for (&example, &pair) in block.examples.iter().zip(&block.places) {
                let own = example as usize * width..(example as usize + 1) * width;
                let (new, old) = (&next.betas[own.clone()], &self.state.betas[own]);
                let change: Vec<f64> =
                    new.iter().zip(old).map(|(n, o)| n - o).collect();
                weigh(&mut changes, pair, &change);
            }
            if !is_whole {
                model.add(&self.select(&known), &changes, watch)?;
            }
            next.active.extend_from_slice(&block.examples);
        }
        next.is_settled = is_whole
            || next.active.is_empty()
            || next.since >= PASSES
            || worst <= (0.1 * next.violation.min(FIRST)).max(0.5 * limits.tol);
        Ok(next)
    }

    /// Solves the problem of a block for one output, whose scores are given: β, and a free
    /// intercept.
    fn solve(
        &self,
        block: &Block,
        output: usize,
        state: &State,
        mut scores: Vec<f64>,
        limits: &Limits,
        pause: &mut Pause<'_>,
    ) -> Result<(Vec<f64>, Option<f64>)> {
        let (loss, width, n) =
            (self.problem.loss, self.options.n_outputs, block.examples.len());
        let is_free = self.problem.intercept == Intercept::Free;
        // 1. The block's examples: bounds, β, the slopes of the objective in both directions,
        // and its curvature.
        let at = |e: &u32| *e as usize * width + output;
        let terms: Vec<Term> =
            block.examples.iter().map(|e| self.term(at(e))).collect();
        let mut betas: Vec<f64> =
            block.examples.iter().map(|e| state.betas[at(e)]).collect();
        let mut slopes: Vec<Slopes> = terms
            .iter()
            .zip(&betas)
            .map(|(term, &beta)| loss.slopes(term, beta))
            .collect();
        let mut scratch = Vec::new();
        let own: Vec<f64> = (0..n).map(|e| block.own(e)).collect();
        let curvatures: Vec<f64> = terms
            .iter()
            .zip(&own)
            .map(|(term, &own)| loss.curvature(term, own))
            .collect();
        let tol = 0.25 * limits.tol;
        let mut throttle = Throttle::default();
        for _ in 0..STEPS * n + STEPS {
            throttle.ask(&mut *pause)?;
            let mut steps = [(0, 0.0); 2];
            if is_free {
                // 2. Two examples, so that Σ β stays: the one that gains most by growing, and what gains most by shrinking as
                // much.
                let (mut grows, mut highest, mut lowest) =
                    (0, f64::NEG_INFINITY, f64::INFINITY);
                for (e, (slopes, &score)) in slopes.iter().zip(&scores).enumerate() {
                    lowest = lowest.min(slopes.down - score);
                    if slopes.up - score > highest {
                        (grows, highest) = (e, slopes.up - score);
                    }
                }
                if highest - lowest <= tol || (highest - lowest).is_infinite() {
                    break;
                }
                let row = block.row(grows, &mut scratch);
                let base = curvatures[grows];
                let (mut shrinks, mut most, mut step) = (grows, 0.0, 0.0);
                for e in 0..n {
                    let slope = highest - (slopes[e].down - scores[e]);
                    if slope > 0.0 {
                        let curvature =
                            (base + curvatures[e] - 2.0 * row[e]).max(LEAST_CURVATURE);
                        let gain = slope * slope / curvature;
                        if gain > most {
                            (shrinks, most, step) = (e, gain, slope / curvature);
                        }
                    }
                }
                let step = step
                    .min(terms[grows].room(betas[grows]))
                    .min(terms[shrinks].room_below(betas[shrinks]));
                steps = [(grows, step), (shrinks, -step)];
            } else {
                // 2. The example that gains most.
                let (mut best, mut most) = (0, 0.0);
                for (e, (slopes, &score)) in slopes.iter().zip(&scores).enumerate() {
                    let violation = slopes.violation(score);
                    let gain = violation * violation / curvatures[e];
                    if violation > tol && gain > most {
                        (best, most) = (e, gain);
                    }
                }
                if most == 0.0 {
                    break;
                }
                let step =
                    loss.step(&terms[best], scores[best], betas[best], own[best]);
                steps[0] = (best, step);
            }
            // 3. Move, and bring slopes and scores up to date.
            for (e, step) in steps {
                if step == 0.0 {
                    continue;
                }
                betas[e] = (betas[e] + step).clamp(terms[e].low, terms[e].high);
                slopes[e] = loss.slopes(&terms[e], betas[e]);
                add_scaled(step, block.row(e, &mut scratch), &mut scores);
            }
        }
        let balance = Balance::of(slopes.iter().zip(&scores));
        Ok((betas, if is_free { balance.intercept() } else { None }))
    }

    /// Scores all examples: how far they are from a solution, and which are not solved.
    fn score_all(&self, limits: &Limits, watch: &mut Watch<'_>) -> Result<State> {
        let (loss, width) = (self.problem.loss, self.options.n_outputs);
        let mut next = self.state.clone();
        next.since = 0;
        next.is_settled = false;
        let model = self.model(&next.betas, watch)?;
        let all: Vec<u32> = (0..self.forest.len() as u32).collect();
        let scores = self.scores(&model, &next.betas, &all, limits, watch)?;
        let n = self.n_examples();
        let mut is_active = vec![false; n];
        next.violation = 0.0;
        for output in 0..width {
            let (slopes, own): (Vec<_>, Vec<_>) = (0..n)
                .map(|example| {
                    let at = example * width + output;
                    let trees = self.trees(example as u32);
                    let slopes = loss.slopes(&self.term(at), next.betas[at]);
                    (slopes, score(&scores[output..], trees, width))
                })
                .unzip();
            let mut violation = 0.0f64;
            if self.problem.intercept == Intercept::Free {
                let balance = Balance::of(slopes.iter().zip(&own));
                violation = balance.violation();
                if let Some(found) = balance.intercept() {
                    next.intercept[output] = found;
                }
            }
            let free = next.free_intercept(self.problem.intercept, output);
            let (mut norm, mut losses, mut dual) = (0.0, 0.0, 0.0);
            for (example, is_active) in is_active.iter_mut().enumerate() {
                let at = example * width + output;
                let (score, beta) = (own[example], next.betas[at]);
                let own = slopes[example].violation(score + free);
                *is_active |= own >= 0.0;
                if self.problem.intercept != Intercept::Free {
                    violation = violation.max(own);
                }
                let cost = self.problem.costs[at];
                let [paid, linear] =
                    loss.values(self.term(at), cost, score + free, beta);
                norm += beta * score;
                losses += paid;
                dual += linear;
                if let Loss::OneClass(_) = loss {
                    losses += free * beta;
                }
            }
            next.primal[output] = 0.5 * norm + losses;
            next.gap[output] = norm + losses + dual;
            next.violation = next.violation.max(violation);
        }
        next.active.clear();
        next.active.extend((0..n as u32).filter(|&e| is_active[e as usize]));
        if self.problem.intercept != Intercept::Free {
            next.intercept = self.sums(&next.betas);
        }
        Ok(next)
    }

    /// How much an example violates the conditions of a solution, for any output.
    fn violation(
        &self,
        state: &State,
        scores: &[f64],
        example: u32,
        trees: [u32; 2],
    ) -> f64 {
        let width = self.options.n_outputs;
        (0..width).fold(f64::NEG_INFINITY, |most, output| {
            let at = example as usize * width + output;
            let slopes = self.problem.loss.slopes(&self.term(at), state.betas[at]);
            let free = state.free_intercept(self.problem.intercept, output);
            most.max(slopes.violation(score(&scores[output..], trees, width) + free))
        })
    }

    /// The model of some β.
    fn model(&self, betas: &[f64], watch: &mut Watch<'_>) -> Result<SumModel> {
        let width = self.options.n_outputs;
        let mut model = SumModel::of(self.kernel.clone(), width)?;
        model.add(&self.forest, &self.tree_weights(betas), watch)?;
        Ok(model)
    }

    /// The intercept that is a feature, by output: ι² Σβ.
    fn sums(&self, betas: &[f64]) -> Vec<f64> {
        let mut sums = vec![0.0; self.options.n_outputs];
        if let Intercept::Feature(value) = self.problem.intercept {
            for betas in betas.chunks(sums.len()) {
                add_scaled(value * value, betas, &mut sums);
            }
        }
        sums
    }

    /// The scores of some trees, without a free intercept.
    fn scores(
        &self,
        model: &SumModel,
        betas: &[f64],
        trees: &[u32],
        limits: &Limits,
        watch: &mut Watch<'_>,
    ) -> Result<Vec<f64>> {
        let mut scores = model.score(&self.select(trees), limits.n_jobs, watch)?.0;
        if let Some(beside) = &self.beside {
            let (alphas, width) = (self.tree_weights(betas), self.options.n_outputs);
            let asked: Vec<_> = beside.some(trees).collect();
            let n_jobs = limits.n_jobs;
            beside.add_to_scores(&alphas, width, &asked, &mut scores, n_jobs, watch)?;
        }
        let sums = self.sums(betas);
        for scores in scores.chunks_mut(sums.len()) {
            add_scaled(1.0, &sums, scores);
        }
        Ok(scores)
    }

    /// The matrix of some trees, with the feature.
    fn matrix(
        &self,
        trees: &[u32],
        limits: &Limits,
        watch: &mut Watch<'_>,
    ) -> Result<Vec<f64>> {
        let mut out = memory::filled(0.0, trees.len() * trees.len())?;
        let forest = self.select(trees);
        let forest = compact(&forest, &mut || watch(0, 0))?;
        let options =
            gram::Options { normalize: self.options.normalize, n_jobs: limits.n_jobs };
        gram::fill(self.kernel.kernel(), &forest, None, options, &mut out, watch)?;
        if let Some(beside) = &self.beside {
            beside.add_to_matrix(trees, &mut out, watch)?;
        }
        if let Intercept::Feature(value) = self.problem.intercept {
            for k in &mut out {
                *k += value * value;
            }
        }
        Ok(out)
    }

    fn select(&self, trees: &[u32]) -> Forest {
        self.forest.select(trees.iter().map(|&tree| tree as usize))
    }

    /// How many examples a block may have.
    fn most_examples(&self, limits: &Limits) -> usize {
        let most_trees = (limits.cache / size_of::<f64>()).isqrt().max(64);
        most_trees / if self.problem.preferences.is_some() { 2 } else { 1 }
    }

    /// The trees of some examples, each once, ascending.
    fn trees_of(&self, examples: &[u32]) -> Vec<u32> {
        let all = examples.iter().flat_map(|&example| self.trees(example));
        let mut trees: Vec<u32> = all.filter(|&tree| tree != NONE).collect();
        trees.sort_unstable();
        trees.dedup();
        trees
    }

    fn places(&self, trees: &[u32], example: u32) -> [u32; 2] {
        self.trees(example).map(|tree| place(trees, tree))
    }
}

impl State {
    fn free_intercept(&self, intercept: Intercept, output: usize) -> f64 {
        if intercept == Intercept::Free { self.intercept[output] } else { 0.0 }
    }
}

/// Where a free intercept may lie: above all that could grow, below all that could shrink.
#[derive(Debug, Default)]
struct Balance {
    highest: f64,
    lowest: f64,
    /// Of those that can do both.
    sum: f64,
    n: usize,
}

impl Balance {
    fn of<'a>(all: impl Iterator<Item = (&'a Slopes, &'a f64)>) -> Self {
        let (highest, lowest) = (f64::NEG_INFINITY, f64::INFINITY);
        all.fold(Self { highest, lowest, ..Self::default() }, |mut own, (at, score)| {
            own.highest = own.highest.max(at.up - score);
            own.lowest = own.lowest.min(at.down - score);
            if at.up == at.down {
                own.sum += at.up - score;
                own.n += 1;
            }
            own
        })
    }

    fn violation(&self) -> f64 {
        if self.highest.is_finite() && self.lowest.is_finite() {
            (self.highest - self.lowest).max(0.0)
        } else {
            0.0
        }
    }

    fn intercept(&self) -> Option<f64> {
        match (self.highest.is_finite(), self.lowest.is_finite()) {
            _ if self.n > 0 => Some(self.sum / self.n as f64),
            (true, true) => Some(f64::midpoint(self.highest, self.lowest)),
            (true, false) => Some(self.highest),
            (false, true) => Some(self.lowest),
            (false, false) => None,
        }
    }
}

impl Problem {
    fn check(&self, n_trees: usize) -> Result<()> {
        let Self { loss, intercept, n_outputs: width, targets, costs, preferences } =
            self;
        let n = preferences.as_ref().map_or(n_trees, Vec::len);
        let what = "examples times n_outputs";
        check_length("costs", costs, n * width, what)?;
        let wrong = |array, index, expected: &str, got: f64| {
            Err(Error::Array {
                array,
                index,
                expected: expected.to_owned(),
                got: got.to_string(),
            })
        };
        if let Some(at) = costs.iter().position(|&c| !(0.0..=1e300).contains(&c)) {
            return wrong("costs", at, "from 0 to 1e300", costs[at]);
        }
        let parameter =
            |name, expected, got: String| Err(Error::Parameter { name, expected, got });
        match *loss {
            Loss::Epsilon(epsilon) | Loss::SquaredEpsilon(epsilon)
                if !(0.0..=1e300).contains(&epsilon) =>
            {
                return parameter("epsilon", "from 0 to 1e300", epsilon.to_string());
            }
            Loss::Logistic if *intercept == Intercept::Free => {
                let expected = "none or a feature, for logistic regression";
                return parameter("intercept", expected, "free".into());
            }
            Loss::OneClass(sum) => {
                if *intercept != Intercept::Free {
                    let got = format!("{intercept:?}");
                    return parameter("intercept", "free, for one class", got);
                }
                for output in 0..*width {
                    let all: f64 = costs.iter().skip(output).step_by(*width).sum();
                    if !(sum > 0.0 && sum <= all) {
                        let expected = "above 0, and at most the sum of costs";
                        return parameter(
                            "the sum of weights",
                            expected,
                            sum.to_string(),
                        );
                    }
                }
            }
            _ => {}
        }
        if let Intercept::Feature(value) = intercept
            && !(0.0..=1e100).contains(&value.abs())
        {
            let expected = "from -1e100 to 1e100";
            return parameter("intercept_scaling", expected, value.to_string());
        }
        if let Some(preferences) = preferences {
            let is_known = |tree: &u32| (*tree as usize) < n_trees;
            let at = preferences.iter().position(|pair| !pair.iter().all(is_known));
            if let Some(index) = at {
                let expected = format!("indices below {n_trees}");
                let got = format!("{:?}", preferences[index]);
                return Err(Error::Array {
                    array: "preferences",
                    index,
                    expected,
                    got,
                });
            }
            if *intercept != Intercept::None {
                let got = format!("{intercept:?}");
                return parameter("intercept", "none, for preferences", got);
            }
            return Ok(());
        }
        if let Loss::OneClass(_) = loss {
            return Ok(());
        }
        check_length("targets", targets, n * width, what)?;
        check_finite("targets", targets)?;
        match targets.iter().position(|y| loss.is_of_labels() && y.abs() != 1.0) {
            Some(at) => wrong("targets", at, "-1 or 1", targets[at]),
            None => Ok(()),
        }
    }
}
