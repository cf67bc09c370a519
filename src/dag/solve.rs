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
//! Passes are in `solve/pass.rs`. The steps within a batch are those of greatest gain, and
//! Newton's (`solve/batch.rs`). Some passes over several batches are Newton's steps for all of
//! them (`solve/joint.rs`). Every step lowers the dual. Nothing depends on the number of
//! threads. A pass starts from β alone, so a solver that was stopped, or stored, goes on as if
//! nothing had been.
//!
//! # Complexity
//! A pass takes a score for each of its examples, and a row of a batch's matrix and some
//! steps along it for those that are not left out. Memory: a few numbers for each example,
//! the model of the support trees, and the matrix of a batch, as large as the caller allows.

mod batch;
mod dual;
mod joint;
mod loss;
mod pass;

use batch::{Balance, Block};
pub use loss::Loss;
use loss::Term;

use super::sum::Terms;
use super::vectors::TrainingVectors;
use super::{
    Features, ModelOptions, PolynomialKernel, SumModel, add_scaled, check_finite,
    check_length, compact,
};
use crate::gram;
use crate::kernel::IntoKernel;
use crate::memory;
use crate::{Context, Error, Forest, Result};

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
    /// The least violation so far, and the largest sum of dual objectives.
    pub best: [f64; 2],
    /// How many times in a row all examples were scored since one of these was reached.
    pub idle: u64,
}

/// A machine in training. See the [module](self).
#[derive(Debug, Clone)]
pub struct Solver {
    kernel: Terms,
    options: ModelOptions,
    forest: Forest,
    /// Feature vectors of the trees.
    /// None: scores are those of the trees' kernel alone.
    vectors: Option<TrainingVectors>,
    problem: Problem,
    /// Where the orders of passes come from.
    seed: u64,
    state: State,
    /// After passes that ended early: how far they came.
    reached: Option<State>,
}

/// Training ends after so many scorings in a row without a better violation or dual: rounding
/// allows nothing better.
const MAX_IDLE: u64 = 10;

/// What an example is of: a tree, and where it is a preference the one that is to score lower.
type Sides = (u32, Option<u32>);

/// The score of an example by those of its trees.
fn score(scores: &[f64], (a, b): Sides, width: usize) -> f64 {
    let score_of = |tree: u32| scores[tree as usize * width];
    score_of(a) - b.map_or(0.0, score_of)
}

/// Adds the weights of an example to those of its trees.
fn weigh(sums: &mut [f64], (a, b): Sides, betas: &[f64]) {
    let mut add = |tree: u32, sign| {
        let tree_betas = &mut sums[tree as usize * betas.len()..][..betas.len()];
        add_scaled(sign, betas, tree_betas);
    };
    add(a, 1.0);
    if let Some(b) = b {
        add(b, -1.0);
    }
}

impl Solver {
    /// A machine that has learned nothing. `seed` is where the orders of passes come from.
    ///
    /// # Errors
    /// As [`SumModel::new`]; [`Error::Length`] and [`Error::Array`] for what does not fit the
    /// problem, [`Error::Parameter`] for a loss or an intercept out of range.
    pub fn new(
        kernel: impl IntoKernel,
        normalize: bool,
        forest: &Forest,
        problem: Problem,
        seed: u64,
    ) -> Result<Self> {
        let width = problem.n_outputs;
        let options = ModelOptions { normalize, n_outputs: width };
        let kernel = Terms::new(kernel.into_kernel(), normalize)?;
        // A kernel that cannot be summed, or too many outputs, is refused before the
        // first pass.
        SumModel::of(kernel.clone(), width)?;
        problem.check(forest.len())?;
        let n = problem.preferences.as_ref().map_or(forest.len(), Vec::len);
        let mut state = State {
            betas: memory::filled(0.0, n * width)?,
            intercept: memory::filled(0.0, width)?,
            active: memory::collect(0..n as u32)?,
            since: 0,
            // In one-class problems β starts away from 0: only scores tell who violates
            // what.
            is_settled: matches!(problem.loss, Loss::OneClass(_)),
            n_iter: 0,
            violation: f64::INFINITY,
            primal: memory::filled(f64::INFINITY, width)?,
            gap: memory::filled(f64::INFINITY, width)?,
            best: [f64::INFINITY, f64::NEG_INFINITY],
            idle: 0,
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
        // Of its own, as every pass goes through its store.
        let forest = compact(forest, &Context::default())?.into_owned();
        let (vectors, reached) = (None, None);
        Ok(Self { kernel, options, forest, vectors, problem, seed, state, reached })
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
        let vectors = TrainingVectors::new(kernel, mix, features, self.forest.len())?;
        Ok(Self { vectors: Some(vectors), ..self })
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
    ) -> Result<Vec<f64>> {
        self.score_with(forest, features, &Context::default())
    }

    /// As [`score`](Self::score), in a context.
    ///
    /// # Errors
    /// As [`score`](Self::score), and what `context` returns.
    pub fn score_with(
        &self,
        forest: &Forest,
        features: Option<Features<'_>>,
        context: &Context,
    ) -> Result<Vec<f64>> {
        let (expected, got) = match (&self.vectors, features) {
            (None, Some(_)) => ("None, as there is no kernel for vectors", "vectors"),
            (Some(_), None) => ("given, as there is a kernel for vectors", "None"),
            _ => ("", ""),
        };
        if !got.is_empty() {
            let got = got.into();
            return Err(Error::Parameter { name: "features", expected, got });
        }
        let (betas, width) = (&self.state.betas, self.options.n_outputs);
        let others = match (&self.vectors, features) {
            (Some(vectors), Some(features)) => {
                vectors.others(features, forest.len())?
            }
            _ => Vec::new(),
        };
        // By trees; features come in beside, as they are no part of the model.
        let mut scores = self.model(betas, context)?.score_with(forest, context)?.0;
        if let Some(vectors) = &self.vectors {
            let alphas = self.tree_weights(betas)?;
            let asked = memory::collect(others.iter().map(|row| &**row))?;
            vectors.add_to_scores(&alphas, width, &asked, &mut scores, context)?;
        }
        for (tree, scores) in scores.chunks_mut(width).enumerate() {
            // Where passes ended early, all were scored after them: that intercept is
            // the better one.
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
        // 1. β has one number for each example, within its bounds but for rounding,
        // which is taken off: a step would never do it.
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
        // 2. Σβ is what the intercept leaves unchanged: no pass could make a wrong sum
        // right.
        let sum = match (self.problem.loss, self.problem.intercept) {
            (Loss::OneClass(sum), _) => Some(sum),
            (_, Intercept::Free) => Some(0.0),
            _ => None,
        };
        for output in 0..width {
            let betas = state.betas.iter().skip(output).step_by(width);
            let (got, size) =
                betas.fold((0.0, 0.0), |(sum, size), b| (sum + b, size + b.abs()));
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
        // 3. Active examples: two of the same would be moved twice in one batch.
        let mut is_free = memory::filled(true, n)?;
        let mut is_new = |&example: &u32| {
            is_free.get_mut(example as usize).is_some_and(std::mem::take)
        };
        if let Some(index) = state.active.iter().position(|e| !is_new(e)) {
            let (array, got) = ("active", state.active[index].to_string());
            let expected = format!("an index below {n}, each once");
            return Err(Error::Array { array, index, expected, got });
        }
        // What was reached before belongs to another state.
        (self.state, self.reached) = (state, None);
        Ok(())
    }

    /// How many examples there are: trees, or preferences.
    pub fn n_examples(&self) -> usize {
        self.problem.preferences.as_ref().map_or(self.forest.len(), Vec::len)
    }

    /// The weight of every tree, by output: β, or what preferences sum up to.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn dual_coef(&self) -> Result<Vec<f64>> {
        self.tree_weights(&self.state.betas)
    }

    fn tree_weights(&self, betas: &[f64]) -> Result<Vec<f64>> {
        let Some(preferences) = &self.problem.preferences else {
            return memory::copied(betas);
        };
        let width = self.options.n_outputs;
        let mut sums = memory::filled(0.0, self.forest.len() * width)?;
        for (betas, &[better, worse]) in betas.chunks(width).zip(preferences) {
            // An example of two trees adds to both, and a tree has the sum of its
            // examples.
            weigh(&mut sums, (better, Some(worse)), betas);
        }
        Ok(sums)
    }

    fn term(&self, at: usize) -> Term {
        let Problem { loss, targets, costs, preferences, .. } = &self.problem;
        let target = if preferences.is_some() { 1.0 } else { targets[at] };
        loss.term(target, costs[at])
    }

    fn trees(&self, example: u32) -> Sides {
        let Some(preferences) = &self.problem.preferences else {
            return (example, None);
        };
        let [better, worse] = preferences[example as usize];
        (better, Some(worse))
    }

    /// Makes passes until the violation is at most `tol`, and says whether it is. They end
    /// earlier at `max_iter`, and where they no longer make the violation smaller or the
    /// dual better: the kernels times c are then too large for such a `tol` in floats.
    ///
    /// # Errors
    /// [`Error::ScoreOverflow`], [`Error::Overflow`], [`Error::Memory`]: the state is
    /// then that after the last pass.
    pub fn run(&mut self, limits: Limits) -> Result<bool> {
        self.run_with(limits, &Context::default())
    }

    /// As [`run`](Self::run), in a context, whose watch is told the number of passes.
    ///
    /// # Errors
    /// As [`run`](Self::run), and what `context` returns.
    pub fn run_with(&mut self, limits: Limits, context: &Context) -> Result<bool> {
        if self.n_examples() == 0 {
            return Ok(true);
        }
        self.reached = None;
        loop {
            let done = self.state.n_iter;
            // Only told to the caller, so a number that fits everywhere is enough.
            let total = limits.max_iter.min(1 << 40) as usize;
            context.report(done as usize, total)?;
            let context = &context.step();
            // Before the limits, as a solver that is asked to go on may be done
            // already.
            if self.state.violation <= limits.tol {
                return Ok(true);
            }
            if self.state.idle >= MAX_IDLE {
                return Ok(false);
            }
            if done >= limits.max_iter {
                // Without a trace in the state: more passes go on as if they had not ended.
                let reached = self.score_all(context)?;
                let is_solved = reached.violation <= limits.tol;
                self.reached = Some(reached);
                return Ok(is_solved);
            }
            self.state = if self.state.is_settled {
                self.score_all(context)?
            } else if self.is_joint(&limits) {
                self.joint_pass(&limits, context)?
            } else {
                self.pass(&limits, context)?
            };
        }
    }

    /// Scores all examples: how far they are from a solution, and which are not solved.
    fn score_all(&self, context: &Context) -> Result<State> {
        let (loss, width) = (self.problem.loss, self.options.n_outputs);
        let mut next = self.state.copied()?;
        next.since = 0;
        next.is_settled = false;
        // 1. All scores, by a model of β that is made anew: rounding of passes does not
        // add up.
        let model = self.model(&next.betas, context)?;
        let every_tree = memory::collect(0..self.forest.len() as u32)?;
        let scores = self.scores(&model, &next.betas, &every_tree, context)?;
        let n = self.n_examples();
        let mut is_active = memory::filled(false, n)?;
        next.violation = 0.0;
        // 2. By output: an intercept that fits the scores, and how far they are from a
        // solution.
        for output in 0..width {
            let slopes = memory::collect((0..n).map(|example| {
                let at = example * width + output;
                loss.slopes(&self.term(at), next.betas[at])
            }))?;
            let example_scores =
                memory::collect((0..n as u32).map(|example| {
                    score(&scores[output..], self.trees(example), width)
                }))?;
            let mut violation = 0.0f64;
            // A free intercept has no slope of its own: what counts is whether one
            // number fits all.
            if self.problem.intercept == Intercept::Free {
                let balance = Balance::of(slopes.iter().zip(&example_scores));
                violation = balance.violation();
                if let Some(found) = balance.intercept() {
                    next.intercept[output] = found;
                }
            }
            let free = next.free_intercept(self.problem.intercept, output);
            let (mut norm, mut losses, mut dual) = (0.0, 0.0, 0.0);
            for (example, is_active) in is_active.iter_mut().enumerate() {
                let at = example * width + output;
                let (score, beta) = (example_scores[example], next.betas[at]);
                let excess = slopes[example].violation(score + free);
                // Also one that is right for this output and not for others: all are
                // solved together.
                *is_active |= excess >= 0.0;
                if self.problem.intercept != Intercept::Free {
                    violation = violation.max(excess);
                }
                let cost = self.problem.costs[at];
                let [paid, linear] =
                    loss.values(self.term(at), cost, score + free, beta);
                // Σ β S is βKβ, as scores are sums of kernels times β.
                norm += beta * score;
                losses += paid;
                dual += linear;
                // One class pays b Σβ, too: see the module's table.
                if let Loss::OneClass(_) = loss {
                    losses += free * beta;
                }
            }
            // ½ w² is half of that, in the primal and in the dual. Less the dual, which
            // is minus ½ βKβ minus the rest, both halves add up.
            next.primal[output] = 0.5 * norm + losses;
            next.gap[output] = norm + losses + dual;
            next.violation = next.violation.max(violation);
        }
        // 3. Whether this was of any use: a solver that gets no better has met
        // rounding.
        let dual: f64 = next.primal.iter().zip(&next.gap).map(|(p, gap)| p - gap).sum();
        let [least, highest] = next.best;
        let is_better = next.violation < least || dual > highest;
        next.idle = if is_better { 0 } else { next.idle.saturating_add(1) };
        next.best = [least.min(next.violation), highest.max(dual)];
        next.active.clear();
        let active = (0..n as u32).filter(|&e| is_active[e as usize]);
        memory::extend(&mut next.active, active)?;
        if self.problem.intercept != Intercept::Free {
            next.intercept = self.sums(&next.betas)?;
        }
        Ok(next)
    }

    /// How much an example violates the conditions of a solution, for any output.
    fn violation(
        &self,
        state: &State,
        scores: &[f64],
        example: u32,
        trees: Sides,
    ) -> f64 {
        let width = self.options.n_outputs;
        // An example stays for all outputs if it is wrong for one of them.
        (0..width).fold(f64::NEG_INFINITY, |most, output| {
            let at = example as usize * width + output;
            let slopes = self.problem.loss.slopes(&self.term(at), state.betas[at]);
            let free = state.free_intercept(self.problem.intercept, output);
            most.max(slopes.violation(score(&scores[output..], trees, width) + free))
        })
    }

    /// The model of some β.
    fn model(&self, betas: &[f64], context: &Context) -> Result<SumModel> {
        let width = self.options.n_outputs;
        let mut model = SumModel::of(self.kernel.clone(), width)?;
        model.add_with(&self.forest, &self.tree_weights(betas)?, context)?;
        Ok(model)
    }

    /// The intercept that is a feature, by output: ι² Σβ.
    fn sums(&self, betas: &[f64]) -> Result<Vec<f64>> {
        let mut sums = memory::filled(0.0, self.options.n_outputs)?;
        if let Intercept::Feature(value) = self.problem.intercept {
            for betas in betas.chunks(sums.len()) {
                add_scaled(value * value, betas, &mut sums);
            }
        }
        Ok(sums)
    }

    /// The scores of some trees, without a free intercept.
    fn scores(
        &self,
        model: &SumModel,
        betas: &[f64],
        trees: &[u32],
        context: &Context,
    ) -> Result<Vec<f64>> {
        let mut scores = model.score_with(&self.select(trees)?, context)?.0;
        if let Some(vectors) = &self.vectors {
            let (alphas, width) = (self.tree_weights(betas)?, self.options.n_outputs);
            let asked = memory::collect(vectors.some(trees))?;
            vectors.add_to_scores(&alphas, width, &asked, &mut scores, context)?;
        }
        let sums = self.sums(betas)?;
        for scores in scores.chunks_mut(sums.len()) {
            add_scaled(1.0, &sums, scores);
        }
        Ok(scores)
    }

    /// The matrix of some trees, with the feature.
    fn matrix(&self, trees: &[u32], context: &Context) -> Result<Vec<f64>> {
        let mut out = memory::filled(0.0, trees.len() * trees.len())?;
        let forest = self.select(trees)?;
        let forest = compact(&forest, context)?;
        let options = gram::Options { normalize: self.options.normalize };
        gram::fill_with(
            self.kernel.kernel(),
            &forest,
            None,
            options,
            &mut out,
            context,
        )?;
        if let Some(vectors) = &self.vectors {
            vectors.add_to_matrix(trees, &mut out, context)?;
        }
        if let Intercept::Feature(value) = self.problem.intercept {
            for k in &mut out {
                *k += value * value;
            }
        }
        Ok(out)
    }

    /// Examples with the matrix of their trees.
    fn block(&self, examples: Vec<u32>, context: &Context) -> Result<Block> {
        let trees = self.trees_of(&examples)?;
        let places = examples.iter().map(|&e| self.places(&trees, e));
        let places = memory::collect(places)?;
        let kernel = self.matrix(&trees, context)?;
        Ok(Block { examples, trees, places, kernel })
    }

    fn select(&self, trees: &[u32]) -> Result<Forest> {
        self.forest.picked(trees.iter().map(|&tree| tree as usize))
    }

    /// How many examples a block may have.
    fn max_block_examples(&self, limits: &Limits) -> usize {
        // The square root of what fits: a matrix has a row and a column for each tree.
        // At least 64 even so, or a batch would hardly move anything.
        let most_trees = (limits.cache / size_of::<f64>()).isqrt().max(64);
        // A preference brings two trees.
        most_trees / if self.problem.preferences.is_some() { 2 } else { 1 }
    }

    /// The trees of some examples, each once, ascending.
    fn trees_of(&self, examples: &[u32]) -> Result<Vec<u32>> {
        // A plain example has no second tree.
        let trees = examples.iter().flat_map(|&example| {
            let (tree, other) = self.trees(example);
            [Some(tree), other]
        });
        let mut trees = memory::collect(trees.flatten())?;
        trees.sort_unstable();
        trees.dedup();
        Ok(trees)
    }

    /// Where the trees of an example are among some, which ascend.
    fn places(&self, trees: &[u32], example: u32) -> Sides {
        let place = |tree| trees.partition_point(|&t| t < tree) as u32;
        let (tree, other) = self.trees(example);
        (place(tree), other.map(place))
    }
}

impl State {
    /// The same state.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub(crate) fn copied(&self) -> Result<Self> {
        Ok(Self {
            betas: memory::copied(&self.betas)?,
            intercept: memory::copied(&self.intercept)?,
            active: memory::copied(&self.active)?,
            primal: memory::copied(&self.primal)?,
            gap: memory::copied(&self.gap)?,
            ..*self
        })
    }

    fn free_intercept(&self, intercept: Intercept, output: usize) -> f64 {
        if intercept == Intercept::Free { self.intercept[output] } else { 0.0 }
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
            // Far below the largest float, so that products with scores stay finite.
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
            // Steps of pairs, which keep Σβ, take the dual for a parabola.
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
                    // β is between 0 and its cost, so a larger sum cannot be reached.
                    let total: f64 = costs.iter().skip(output).step_by(*width).sum();
                    if !(sum > 0.0 && sum <= total) {
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
            // It would fall out of the difference of two scores.
            if *intercept != Intercept::None {
                let got = format!("{intercept:?}");
                return parameter("intercept", "none, for preferences", got);
            }
            return Ok(());
        }
        // Neither labels nor values are looked at.
        if let Loss::OneClass(_) = loss {
            return Ok(());
        }
        check_length("targets", targets, n * width, what)?;
        check_finite("targets", targets)?;
        // Only labels are signs: values may be any number.
        match targets.iter().position(|y| loss.is_of_labels() && y.abs() != 1.0) {
            Some(at) => wrong("targets", at, "-1 or 1", targets[at]),
            None => Ok(()),
        }
    }
}
