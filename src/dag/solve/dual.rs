//! The dual of one output in some β, all others fixed, and Newton's step for it.

use super::loss::{Loss, MIN_CURVATURE, Slopes, Term};
use crate::dag::add_scaled;
use crate::{Result, memory};

/// Bisections of the length of a Newton step that goes too far.
const BISECTIONS: usize = 30;

/// The dual of one output at some β.
pub(super) struct Dual {
    pub(super) loss: Loss,
    /// Whether Σβ stays.
    pub(super) is_free: bool,
    pub(super) terms: Vec<Term>,
    pub(super) betas: Vec<f64>,
    pub(super) scores: Vec<f64>,
    /// The dual's, at a score of 0.
    pub(super) slopes: Vec<Slopes>,
    /// K of each example with itself.
    pub(super) self_kernels: Vec<f64>,
}

impl Dual {
    pub(super) fn new(
        loss: Loss,
        is_free: bool,
        terms: Vec<Term>,
        betas: Vec<f64>,
        scores: Vec<f64>,
        self_kernels: Vec<f64>,
    ) -> Result<Self> {
        let slopes =
            terms.iter().zip(&betas).map(|(term, &beta)| loss.slopes(term, beta));
        let slopes = memory::collect(slopes)?;
        Ok(Self { loss, is_free, terms, betas, scores, slopes, self_kernels })
    }

    /// Gives a β another value.
    pub(super) fn set(&mut self, e: usize, beta: f64) {
        self.betas[e] = beta;
        self.slopes[e] = self.loss.slopes(&self.terms[e], beta);
    }

    /// The largest derivative in a β where the dual has one.
    pub(super) fn largest_slope(&self) -> f64 {
        (0..self.betas.len())
            .filter(|&e| self.terms[e].is_smooth(self.betas[e]))
            .map(|e| (self.slopes[e].middle() - self.scores[e]).abs())
            .fold(0.0, f64::max)
    }

    /// Moves all β where the dual has a derivative towards their common minimum, found by
    /// conjugate gradients, up to the first bound or edge on the way. Where Σβ stays, the
    /// preconditioner projects (Gould, Hribar & Nocedal 2001).
    ///
    /// Conjugate gradients that end early stop at the minimum of some directions, so the dual
    /// falls all the way there if it is quadratic. That of logistic regression is not, and the
    /// products are rounded: the way ends where the dual begins to rise.
    ///
    /// `rounds` says how many products these may take for so many β, and `product` what a
    /// step of some β adds to all scores. They end where no derivative is above `tol`. Says
    /// whether a bound or an edge was met.
    pub(super) fn newton(
        &mut self,
        tol: f64,
        rounds: impl FnOnce(usize) -> usize,
        mut product: impl FnMut(&[usize], &[f64]) -> Result<Vec<f64>>,
    ) -> Result<bool> {
        let Self { loss, terms, betas, slopes, scores, .. } = &*self;
        // 1. Those at no bound, their derivatives and second derivatives.
        let (mut smooth, mut bends) = (Vec::new(), Vec::new());
        for e in (0..betas.len()).filter(|&e| terms[e].is_smooth(betas[e])) {
            let bend = loss.bend(&terms[e], betas[e]);
            if bend.is_finite() {
                memory::push(&mut smooth, e)?;
                memory::push(&mut bends, bend)?;
            }
        }
        let diagonal = (smooth.iter().zip(&bends))
            .map(|(&e, bend)| (self.self_kernels[e] + bend).max(MIN_CURVATURE));
        let diagonal = memory::collect(diagonal)?;
        let whole: f64 = diagonal.iter().map(|d| 1.0 / d).sum();
        let precondition = |residual: &mut [f64]| -> Result<Vec<f64>> {
            if self.is_free {
                // Leaves the sum of the way at 0. Taken off the residual itself: close to
                // the end little else is left of it, and products with it would be noise.
                let sum: f64 = residual.iter().zip(&diagonal).map(|(r, d)| r / d).sum();
                for r in residual.iter_mut() {
                    *r -= sum / whole;
                }
            }
            memory::collect(residual.iter().zip(&diagonal).map(|(r, d)| r / d))
        };
        // 2. Conjugate gradients for the way, and for what it does to all scores.
        let residual = smooth.iter().map(|&e| slopes[e].middle() - scores[e]);
        let mut residual = memory::collect(residual)?;
        let mut direction = precondition(&mut residual)?;
        let mut size = dot(&residual, &direction);
        let enough = 1e-20 * size;
        let mut way = memory::filled(0.0, smooth.len())?;
        let mut rise = memory::filled(0.0, betas.len())?;
        for _ in 0..rounds(smooth.len()) {
            let product = product(&smooth, &direction)?;
            let bent = (smooth.iter().zip(&direction).zip(&bends))
                .map(|((&e, step), bend)| product[e] + bend * step);
            let bent = memory::collect(bent)?;
            let length = size / dot(&direction, &bent);
            if !(length > 0.0 && length.is_finite()) {
                break;
            }
            add_scaled(length, &direction, &mut way);
            add_scaled(length, &product, &mut rise);
            add_scaled(-length, &bent, &mut residual);
            let mut next = precondition(&mut residual)?;
            let before = std::mem::replace(&mut size, dot(&residual, &next));
            let is_enough = size <= enough || residual.iter().all(|r| r.abs() <= tol);
            if size.is_nan() || is_enough {
                break;
            }
            add_scaled(size / before, &direction, &mut next);
            direction = next;
        }
        // 3. How far: to the first bound, or to where the dual begins to rise.
        let (mut length, mut first) = (1.0f64, None);
        for (&e, &step) in smooth.iter().zip(&way) {
            let (term, beta) = (&terms[e], betas[e]);
            let room = if step > 0.0 { term.room(beta) } else { term.room_below(beta) };
            if step.abs() * length > room {
                (length, first) = (room / step.abs(), Some(e));
            }
        }
        let rises = |length: f64| {
            // Just before, where no β is at its bound yet.
            let length = (1.0 - 1e-9) * length;
            let slope = |(&e, &step): (&usize, &f64)| {
                let falls = loss.slopes(&terms[e], betas[e] + length * step).middle();
                step * (scores[e] + length * rise[e] - falls)
            };
            let slope: f64 = smooth.iter().zip(&way).map(slope).sum();
            // No number: beyond a bound of logistic regression.
            slope > 0.0 || slope.is_nan()
        };
        if rises(length) {
            let mut low = 0.0;
            first = None;
            for _ in 0..BISECTIONS {
                let middle = f64::midpoint(low, length);
                if rises(middle) {
                    length = middle;
                } else {
                    low = middle;
                }
            }
            length = low;
        }
        // 4. Move.
        for (&e, &step) in smooth.iter().zip(&way) {
            let Term { low, high, .. } = self.terms[e];
            let beta = self.betas[e];
            let mut next = (beta + length * step).clamp(low, high);
            if first == Some(e) {
                // Exactly there, or the next way would end here as well.
                next = if step > 0.0 {
                    beta + self.terms[e].room(beta)
                } else {
                    beta - self.terms[e].room_below(beta)
                };
            }
            self.set(e, next);
        }
        add_scaled(length, &rise, &mut self.scores);
        Ok(first.is_some())
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
