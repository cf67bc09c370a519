//! The problem of a batch for one output: the dual in the β of the batch, all others fixed.
//!
//! # Method
//! 1. **Steps of greatest gain** settle which β are at a bound: of single numbers or, where
//!    the intercept is free, of pairs (Fan, Chen & Lin 2005). Each is the best of its kind,
//!    so that the dual falls with each.
//! 2. **Newton's steps** ([`Batch::newton`]) finish what such steps take long for. With a
//!    large c the dual is nearly flat in some directions, which only many β together
//!    follow: ridge regression of 60 trees at c = 1,000 takes 31 passes of single steps.
//!
//! Steps are taken by turns until no violation is above the limit, or a step is less than
//! the last bit of what it changes. A Newton step reads about as many rows as there were
//! steps of greatest gain before it.
//!
//! # Complexity
//! A step reads a row of the matrix, or two. A Newton step reads the rows of the β that are at
//! no bound, some times over; all of them together read less than twice as many as the others,
//! as the steps between two of them double.

use super::dual::Dual;
use super::loss::{Loss, MIN_CURVATURE, Slopes, Term};
use super::{Sides, score};
use crate::dag::add_scaled;
use crate::{Context, Result, memory};

/// Single steps, or steps of pairs, per example.
const STEPS_PER_EXAMPLE: usize = 100;
/// After so many of them per example, a Newton step; another after twice as many, and so on.
const FIRST_NEWTON: usize = 10;

/// The examples of a batch that are not left out, and the matrix of their trees.
pub(super) struct Block {
    pub(super) examples: Vec<u32>,
    pub(super) trees: Vec<u32>,
    /// By example: the places of its trees among all.
    pub(super) places: Vec<Sides>,
    pub(super) kernel: Vec<f64>,
}

impl Block {
    /// K of one example with itself.
    pub(super) fn self_kernel(&self, example: usize) -> f64 {
        let (a, b) = self.places[example];
        let between =
            |x: u32, y: u32| self.kernel[x as usize * self.trees.len() + y as usize];
        // Of a preference: the norm of the difference of its trees.
        match b {
            None => between(a, a),
            Some(b) => between(a, a) + between(b, b) - 2.0 * between(a, b),
        }
    }

    /// K of one example with all, made in `scratch` where it is not a row of the matrix.
    fn row<'a>(&'a self, example: usize, scratch: &'a mut Vec<f64>) -> &'a [f64] {
        let n = self.trees.len();
        let row = |tree: u32| &self.kernel[tree as usize * n..][..n];
        let (a, b) = self.places[example];
        let Some(b) = b else { return row(a) };
        let (a, b) = (row(a), row(b));
        scratch.clear();
        // The kernel with a difference is the difference of kernels: a score by rows.
        let values =
            self.places.iter().map(|&pair| score(a, pair, 1) - score(b, pair, 1));
        scratch.extend(values); // has room
        scratch
    }
}

/// The problem of a [`Block`] for one output.
pub(super) struct Batch<'a> {
    block: &'a Block,
    dual: Dual,
    /// The dual's; infinite for a β that rounding does not let move.
    curvatures: Vec<f64>,
    scratch: Vec<f64>,
}

impl<'a> Batch<'a> {
    pub(super) fn new(
        block: &'a Block,
        loss: Loss,
        is_free: bool,
        terms: Vec<Term>,
        betas: Vec<f64>,
        scores: Vec<f64>,
    ) -> Result<Self> {
        let self_kernels =
            memory::collect((0..terms.len()).map(|e| block.self_kernel(e)))?;
        let curvatures =
            terms.iter().zip(&self_kernels).map(|(term, &k)| loss.curvature(term, k));
        let curvatures = memory::collect(curvatures)?;
        let mut scratch = Vec::new();
        memory::reserve(&mut scratch, block.places.len())?;
        let dual = Dual::new(loss, is_free, terms, betas, scores, self_kernels)?;
        Ok(Self { block, dual, curvatures, scratch })
    }

    /// Takes steps until no violation is above `tol`; returns β, and a free intercept.
    pub(super) fn solve(
        mut self,
        tol: f64,
        context: &Context,
    ) -> Result<(Vec<f64>, Option<f64>)> {
        let n = self.dual.betas.len();
        let mut turn = FIRST_NEWTON * n;
        // Far more than are needed; a batch that is not solved by then is left as it
        // is, and better than it was.
        for done in 1..=STEPS_PER_EXAMPLE * n + STEPS_PER_EXAMPLE {
            context.check()?;
            let steps =
                if self.dual.is_free { self.pair(tol) } else { self.single(tol) };
            let Some(steps) = steps else { break };
            // Rounding may leave a step without effect: what then?
            let has_moved = steps.map(|(e, step)| self.change(e, step));
            if has_moved == [false; 2] {
                // The best pair does not move, and no other gains as much.
                if self.dual.is_free {
                    break;
                }
                // Another may still have room for its step.
                self.curvatures[steps[0].0] = f64::INFINITY;
            }
            if done == turn {
                turn *= 2;
                // Not much longer than what was done so far.
                self.newton(done, context)?;
            }
        }
        // The intercept lies between what the β allow, whatever ended the steps.
        let balance = Balance::of(self.dual.slopes.iter().zip(&self.dual.scores));
        let intercept = if self.dual.is_free { balance.intercept() } else { None };
        Ok((self.dual.betas, intercept))
    }

    /// The step of the β that gains most; none if all are right.
    fn single(&self, tol: f64) -> Option<[(usize, f64); 2]> {
        let (mut best, mut most) = (0, 0.0);
        for (e, (slopes, &score)) in
            self.dual.slopes.iter().zip(&self.dual.scores).enumerate()
        {
            let violation = slopes.violation(score);
            // Twice what a step gains on a parabola; which is largest is all that
            // counts.
            let gain = violation * violation / self.curvatures[e];
            if violation > tol && gain > most {
                (best, most) = (e, gain);
            }
        }
        // Without a violation this is the step of the first, which is not returned.
        let (beta, self_kernel) = (self.dual.betas[best], self.dual.self_kernels[best]);
        let step = self.dual.loss.step(
            &self.dual.terms[best],
            self.dual.scores[best],
            beta,
            self_kernel,
        );
        (most > 0.0).then_some([(best, step), (best, 0.0)])
    }

    /// The steps of two β that leave their sum: of the one that gains most by growing, and of
    /// that which gains most by shrinking as much. None if all are right.
    fn pair(&mut self, tol: f64) -> Option<[(usize, f64); 2]> {
        let Dual { slopes, scores, .. } = &self.dual;
        let (mut grows, mut highest, mut lowest) =
            (0, f64::NEG_INFINITY, f64::INFINITY);
        // 1. The one that gains most by growing.
        for (e, (slopes, &score)) in slopes.iter().zip(scores).enumerate() {
            lowest = lowest.min(slopes.down - score);
            if slopes.up - score > highest {
                (grows, highest) = (e, slopes.up - score);
            }
        }
        // No pair violates the conditions by more; or all can move in one direction
        // only, and Σβ would not stay.
        if highest - lowest <= tol || (highest - lowest).is_infinite() {
            return None;
        }
        // 2. Its partner: with a row of the matrix the gain of each pair is known
        // exactly.
        let row = self.block.row(grows, &mut self.scratch);
        let base = self.curvatures[grows];
        let (mut shrinks, mut most, mut step) = (grows, 0.0, 0.0);
        for (e, &k) in row.iter().enumerate() {
            let slope = highest - (slopes[e].down - scores[e]);
            if slope > 0.0 {
                let curvature =
                    (base + self.curvatures[e] - 2.0 * k).max(MIN_CURVATURE);
                let gain = slope * slope / curvature;
                if gain > most {
                    (shrinks, most, step) = (e, gain, slope / curvature);
                }
            }
        }
        // 3. Not beyond a bound of either.
        let step = step
            .min(self.dual.terms[grows].room(self.dual.betas[grows]))
            .min(self.dual.terms[shrinks].room_below(self.dual.betas[shrinks]));
        Some([(grows, step), (shrinks, -step)])
    }

    /// Changes a β, and says whether it is another float now.
    fn change(&mut self, e: usize, step: f64) -> bool {
        let Term { low, high, .. } = self.dual.terms[e];
        // Rounding must not take it past a bound, where slopes are infinite.
        let beta = (self.dual.betas[e] + step).clamp(low, high);
        let change = beta - self.dual.betas[e];
        if change != 0.0 {
            self.dual.set(e, beta);
            add_scaled(
                change,
                self.block.row(e, &mut self.scratch),
                &mut self.dual.scores,
            );
        }
        change != 0.0
    }

    /// A Newton step that reads about `rows` rows of the matrix.
    fn newton(&mut self, rows: usize, context: &Context) -> Result<()> {
        let Self { block, dual, scratch, .. } = self;
        let n = dual.betas.len();
        dual.newton(
            0.0,
            // Each product reads a row for every β: so many rounds read about as many
            // rows as the steps did that came before.
            |n_smooth| n_smooth.min(rows / n_smooth.max(1)),
            |smooth, direction| {
                let mut product = memory::filled(0.0, n)?;
                for (&e, &step) in smooth.iter().zip(direction) {
                    context.check()?;
                    add_scaled(step, block.row(e, scratch), &mut product);
                }
                Ok(product)
            },
        )?;
        Ok(())
    }
}

/// Where a free intercept may lie: above all that could grow, below all that could shrink.
#[derive(Debug, Default)]
pub(super) struct Balance {
    highest: f64,
    lowest: f64,
    /// Of those that can do both.
    sum: f64,
    n: usize,
}

impl Balance {
    pub(super) fn of<'a>(
        examples: impl Iterator<Item = (&'a Slopes, &'a f64)>,
    ) -> Self {
        let (highest, lowest) = (f64::NEG_INFINITY, f64::INFINITY);
        examples.fold(
            Self { highest, lowest, ..Self::default() },
            |mut balance, (at, score)| {
                balance.highest = balance.highest.max(at.up - score);
                balance.lowest = balance.lowest.min(at.down - score);
                // Inside its bounds a β has one slope, and the intercept is minus what is
                // missing to it.
                if at.up == at.down {
                    balance.sum += at.up - score;
                    balance.n += 1;
                }
                balance
            },
        )
    }

    pub(super) fn violation(&self) -> f64 {
        // If nothing can grow, or nothing can shrink, some intercept is right for all.
        if self.highest.is_finite() && self.lowest.is_finite() {
            (self.highest - self.lowest).max(0.0)
        } else {
            0.0
        }
    }

    pub(super) fn intercept(&self) -> Option<f64> {
        match (self.highest.is_finite(), self.lowest.is_finite()) {
            // The mean, as rounding leaves them apart. Without any, the middle of what
            // is allowed.
            _ if self.n > 0 => Some(self.sum / self.n as f64),
            (true, true) => Some(f64::midpoint(self.highest, self.lowest)),
            (true, false) => Some(self.highest),
            (false, true) => Some(self.lowest),
            (false, false) => None,
        }
    }
}
