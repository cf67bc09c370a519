//! Newton's steps for the examples of all batches together.
//!
//! With a large c the dual is nearly flat in directions that only many β together follow.
//! Within a batch Newton's steps find these; across batches passes go back and forth. So after
//! some passes one takes Newton's steps for all β that are at no bound. Conjugate gradients
//! need products with the kernels' matrix alone, and those need no matrix: the model of a
//! direction scores all trees.
//!
//! Rankings by raw kernels at c = 1,000, in batches of 32, were not solved in 300 passes
//! without these; with them they take some 50.

use super::dual::Dual;
use super::{Intercept, Limits, Solver, State, score};
use crate::{Context, Result, memory};

/// One of so many passes, unless all examples are one batch.
const PASSES_PER_JOINT: u64 = 10;
/// Products in the first of them, and twice as many in each that follows: conjugate gradients
/// that end early help little, but many of a large problem take long.
const FIRST_PRODUCTS: usize = 200;
/// Doublings at most.
const MAX_DOUBLINGS: u64 = 12;
/// Products for each β: in exact arithmetic one would be enough.
const PRODUCTS_PER_BETA: usize = 10;
/// Kernels of examples with themselves are computed for so many at once.
const CHUNK: usize = 32;

impl Solver {
    /// Whether the next pass is one of Newton's steps.
    pub(super) fn is_joint(&self, limits: &Limits) -> bool {
        let State { n_iter, active, .. } = &self.state;
        n_iter % PASSES_PER_JOINT == PASSES_PER_JOINT - 1
            && active.len() > self.max_block_examples(limits)
    }

    /// Newton's steps for all β at no bound, up to the first that meets none on its way.
    pub(super) fn joint_pass(
        &self,
        limits: &Limits,
        context: &Context,
    ) -> Result<State> {
        let mut next = self.state.copied()?;
        next.n_iter += 1;
        next.since = next.since.saturating_add(1);
        // Only the β of active examples move, so their trees are all that is scored.
        let trees = self.trees_of(&next.active)?;
        // The intercept stays: directions keep Σβ where it is free, and the next
        // scoring finds it.
        let model = self.model(&next.betas, context)?;
        let scores = self.scores(&model, &next.betas, &trees, context)?;
        for output in 0..self.options.n_outputs {
            self.step_jointly(
                &mut next.betas,
                output,
                &trees,
                &scores,
                limits,
                context,
            )?;
        }
        Ok(next)
    }

    /// The same for one output, whose β it changes. `scores` are those of some trees.
    fn step_jointly(
        &self,
        betas: &mut [f64],
        output: usize,
        scored: &[u32],
        scores: &[f64],
        limits: &Limits,
        context: &Context,
    ) -> Result<()> {
        let width = self.options.n_outputs;
        // A β at a bound or an edge has no derivative: it stays where it is in this
        // pass.
        let at = |example: u32| example as usize * width + output;
        let examples = self.state.active.iter().copied();
        let examples = memory::collect(
            examples.filter(|&e| self.term(at(e)).is_smooth(betas[at(e)])),
        )?;
        let scores_of = |trees: &[u32], scores: &[f64]| {
            let pairs = examples.iter().map(|&e| self.places(trees, e));
            memory::collect(pairs.map(|pair| score(&scores[output..], pair, width)))
        };
        let mut dual = Dual::new(
            self.problem.loss,
            self.problem.intercept == Intercept::Free,
            memory::collect(examples.iter().map(|&e| self.term(at(e))))?,
            memory::collect(examples.iter().map(|&e| betas[at(e)]))?,
            scores_of(scored, scores)?,
            self.self_kernels(&examples, context)?,
        )?;
        // Fewer than the trees that were scored: products are scores of these only.
        let trees = self.trees_of(&examples)?;
        // Longer each time: the first are cheap, and a problem that needs more gets
        // there.
        let doublings = (self.state.n_iter / PASSES_PER_JOINT).min(MAX_DOUBLINGS);
        let mut left = FIRST_PRODUCTS << doublings;
        let mut slope = f64::INFINITY;
        loop {
            let most = left;
            let meets_a_bound = dual.newton(
                0.1 * limits.tol,
                |n_smooth| most.min(PRODUCTS_PER_BETA * n_smooth),
                // A product with the matrix is the score of all trees by the model of
                // the direction.
                |smooth, direction| {
                    left -= 1;
                    let mut steps = memory::filled(0.0, betas.len())?;
                    for (&e, &step) in smooth.iter().zip(direction) {
                        steps[at(examples[e])] = step;
                    }
                    let model = self.model(&steps, context)?;
                    let rise = self.scores(&model, &steps, &trees, context)?;
                    scores_of(&trees, &rise)
                },
            )?;
            // The way to another bound, or to a better minimum if the dual is not quadratic.
            let before = std::mem::replace(&mut slope, dual.largest_slope());
            let gains = meets_a_bound || slope < 0.5 * before;
            if slope <= 0.1 * limits.tol || !gains || left == 0 {
                break;
            }
        }
        // Only now: an error leaves the state as it was before the pass.
        for (&example, beta) in examples.iter().zip(dual.betas) {
            betas[at(example)] = beta;
        }
        Ok(())
    }

    /// The kernels of examples with themselves.
    fn self_kernels(&self, examples: &[u32], context: &Context) -> Result<Vec<f64>> {
        // In small matrices: of a whole one all but the diagonal would be thrown away.
        let mut values = Vec::new();
        for examples in examples.chunks(CHUNK) {
            let block = self.block(memory::copied(examples)?, context)?;
            memory::extend(
                &mut values,
                (0..examples.len()).map(|e| block.self_kernel(e)),
            )?;
        }
        Ok(values)
    }
}
