//! A pass over the active examples, batch by batch: see the [module](super).

use std::sync::{Mutex, PoisonError};

use super::batch::{Batch, Block};
use super::{Intercept, Limits, Solver, State, score, weigh};
use crate::dtk::random::Stream;
use crate::threads::{Tasks, Threads};
use crate::{Context, Result, memory};

/// Trees that a batch tries to leave over: fewer waste scores, more are a large matrix.
const BATCH: usize = 1024;
/// Where at most so many times what fits into a matrix is left, a batch takes all that fits.
const SMALL_MULTIPLE: usize = 8;
/// Until all examples were scored, none has this violation.
const FIRST_VIOLATION: f64 = 2.0;
/// Passes over the active examples between two over all.
const MAX_ACTIVE_PASSES: u64 = 10;

impl Solver {
    /// Goes through the active examples batch by batch, and solves each batch.
    pub(super) fn pass(&self, limits: &Limits, context: &Context) -> Result<State> {
        let mut next = self.state.copied()?;
        next.n_iter += 1;
        next.since = next.since.saturating_add(1);
        // By the seed and the number of the pass alone, so that a solver that was stored
        // goes on with the same order.
        let mut order = Stream::numbered(self.seed, self.state.n_iter)
            .permutation(next.active.len(), context)?;
        for example in &mut order {
            *example = self.state.active[*example as usize];
        }
        next.active.clear();
        // Of β alone, in one go: sums do not depend on how the solver came here.
        let mut model = self.model(&next.betas, context)?;
        let most = self.max_block_examples(limits);
        // All fit into one matrix: solved to the end, and nothing is to be scored
        // again.
        let is_whole = order.len() <= most;
        // Many are scored in small batches, as most of them will be left out.
        let wanted =
            if order.len() <= SMALL_MULTIPLE * most { most } else { BATCH.min(most) };
        let mut take = wanted;
        let (mut worst, mut start) = (0.0f64, 0);
        while start < order.len() {
            let batch = &order[start..order.len().min(start + take)];
            // 1. Score, and leave out what is right.
            let trees = self.trees_of(batch)?;
            let scores = self.scores(&model, &next.betas, &trees, context)?;
            let mut left = Vec::new();
            // The first `most` that are not right; those behind them begin the next
            // batch.
            for &example in batch {
                let place = self.places(&trees, example);
                let violation = self.violation(&next, &scores, example, place);
                worst = worst.max(violation);
                if violation >= 0.0 {
                    if left.len() == most {
                        break;
                    }
                    memory::push(&mut left, example)?;
                }
                start += 1;
            }
            // Most are right: score more at a time. Few are: what is scored beyond the
            // matrix has to be scored again.
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
            let block = self.block(left, context)?;
            self.solve_block(&block, &trees, &scores, &mut next, limits, context)?;
            // 3. Add what changed.
            let changes = self.changes(&block, &next)?;
            // A single batch is the last, so nobody asks the model again.
            if !is_whole {
                model.add_with(&self.select(&block.trees)?, &changes, context)?;
            }
            // Those left out wait until all are scored: most of them stay right.
            memory::extend(&mut next.active, block.examples)?;
        }
        // Enough of the active examples: they are solved, or nearly so beside what all
        // of them had when they were scored last.
        next.is_settled = is_whole
            || next.active.is_empty()
            || next.since >= MAX_ACTIVE_PASSES
            || worst
                <= (0.1 * next.violation.min(FIRST_VIOLATION)).max(0.5 * limits.tol);
        Ok(next)
    }

    /// Solves the problem of a block for every output, and sets the β and free intercepts of
    /// a state. `scores` are those of some trees, the block's among them.
    fn solve_block(
        &self,
        block: &Block,
        trees: &[u32],
        scores: &[f64],
        next: &mut State,
        limits: &Limits,
        context: &Context,
    ) -> Result<()> {
        let (loss, width) = (self.problem.loss, self.options.n_outputs);
        let is_free = self.problem.intercept == Intercept::Free;
        // 1. Outputs share the matrix and nothing else, so each is solved by itself.
        let solved = memory::filled_with(width, || Mutex::new(None))?;
        let threads = Threads::new(context, width);
        threads.run(
            &Tasks::untold(width),
            &mut memory::filled((), threads.size())?,
            |output, (), context| {
                let examples = block.examples.iter();
                let pairs = examples.clone().map(|&e| self.places(trees, e));
                let scores = pairs.map(|pair| score(&scores[output..], pair, width));
                let scores = memory::collect(scores)?;
                let at = |e: &u32| *e as usize * width + output;
                let terms =
                    memory::collect(examples.clone().map(|e| self.term(at(e))))?;
                let betas = memory::collect(examples.map(|e| next.betas[at(e)]))?;
                // Sharper than the whole is to be: the batches that follow move these
                // scores again.
                let done = Batch::new(block, loss, is_free, terms, betas, scores)?
                    .solve(0.25 * limits.tol, context)?;
                *solved[output].lock().unwrap_or_else(PoisonError::into_inner) =
                    Some(done);
                Ok(())
            },
        )?;
        // 2. Only now, as an error of one output leaves the others as they were.
        for (output, solved) in solved.into_iter().enumerate() {
            let solved = solved.into_inner().unwrap_or_else(PoisonError::into_inner);
            let Some((betas, intercept)) = solved else { continue };
            for (&example, beta) in block.examples.iter().zip(betas) {
                next.betas[example as usize * width + output] = beta;
            }
            next.intercept[output] = intercept.unwrap_or(next.intercept[output]);
        }
        Ok(())
    }

    /// By tree of a block, by output: what a pass has added to its weight. Every example is
    /// in one batch, so its old β is that before the pass.
    fn changes(&self, block: &Block, next: &State) -> Result<Vec<f64>> {
        let width = self.options.n_outputs;
        let mut changes = memory::filled(0.0, block.trees.len() * width)?;
        let mut change = memory::filled(0.0, width)?;
        for (&example, &pair) in block.examples.iter().zip(&block.places) {
            let range = example as usize * width..(example as usize + 1) * width;
            let (new, old) = (&next.betas[range.clone()], &self.state.betas[range]);
            for (change, (new, old)) in change.iter_mut().zip(new.iter().zip(old)) {
                *change = new - old;
            }
            weigh(&mut changes, pair, &change);
        }
        Ok(changes)
    }
}
