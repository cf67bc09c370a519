//! The nearest trees of each tree of a corpus, from the lower half of all rows.
//!
//! Each value is offered to both of its trees. A tree keeps what it was offered until it has
//! some more than are wanted, and then only what is no less than the last one wanted, but
//! for a margin: values of rows round otherwise than those of single pairs, which decide in
//! the end. What is below that is not offered any more.
//!
//! Values of 0 are not offered: of these the first trees are wanted, which is known without
//! looking. Whoever has too many values that are nearly equal gives up, and is to be looked
//! up in its own row.
//!
//! # Complexity
//! Memory: a multiple of the answers.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Answer;
use super::corpus::margin;
use crate::Result;
use crate::memory::{collect, filled_with, push};

/// The least kernel that is offered. Of distances, which are compared with their signs
/// turned, all are.
const FIRST: f64 = f64::from_bits(1);

/// What each tree has been offered.
pub(super) struct Best {
    offers: Vec<Mutex<Offers>>,
    /// By tree: the least value that it still takes, as bits; NaN where it gave up.
    least: Vec<AtomicU64>,
}

/// The best of what is offered, and what is nearly as good.
#[derive(Default, Clone)]
pub(super) struct Offers {
    wanted: usize,
    /// The least that is wanted, whatever else is offered.
    first: f64,
    /// The least that is taken.
    least: f64,
    list: Vec<Answer>,
    /// How many there are when it is cut the next time.
    cut_at: usize,
    has_given_up: bool,
}

impl Best {
    /// Of `n` trees `wanted` others each, 1 at least.
    pub(super) fn new(n: usize, wanted: usize, is_distance: bool) -> Result<Self> {
        let offers = Offers::new(wanted, !is_distance);
        let least = offers.least;
        Ok(Self {
            offers: filled_with(n, || Mutex::new(offers.clone()))?,
            least: filled_with(n, || bits(least))?,
        })
    }

    /// Takes the values of a tree with those before it. What is no number may be any: it is
    /// kept as an infinite one.
    pub(super) fn row(&self, x: usize, row: &[f64]) -> Result<()> {
        let mut least = self.least(x);
        for (tree, &value) in row.iter().enumerate() {
            // No number: its true value decides later, so it must not be lost.
            let value = if value.is_nan() { f64::INFINITY } else { value };
            if value >= least {
                self.offer(x, tree, value)?;
                least = self.least(x);
            }
            // Each value serves both of its trees.
            if value >= self.least(tree) {
                self.offer(tree, x, value)?;
            }
        }
        Ok(())
    }

    #[inline]
    fn least(&self, tree: usize) -> f64 {
        f64::from_bits(self.least[tree].load(Ordering::Relaxed))
    }

    #[cold]
    fn offer(&self, to: usize, tree: usize, value: f64) -> Result<()> {
        // The least value was read without the lock: the tree may have given up
        // meanwhile.
        let Ok(mut offers) = self.offers[to].lock() else { return Ok(()) };
        if offers.has_given_up {
            return Ok(());
        }
        if !offers.push(Answer { tree: tree as u32, value })? {
            return Ok(());
        }
        // Too many nearly equal ones: the margin keeps them all, and the list would
        // grow on.
        if offers.list.len() > 8 * Offers::cut_at(offers.wanted) {
            *offers = Offers { has_given_up: true, ..Offers::default() };
            offers.least = f64::NAN;
        }
        self.least[to].store(offers.least.to_bits(), Ordering::Relaxed);
        Ok(())
    }

    /// The trees that may be among the nearest of one, and how many other ones are to be
    /// found whose value is 0 or less; None where it gave up.
    pub(super) fn take(&self, tree: usize) -> Result<Option<(Vec<u32>, usize)>> {
        let Ok(mut offers) = self.offers[tree].lock() else { return Ok(None) };
        let offers = std::mem::take(&mut *offers);
        if offers.has_given_up {
            return Ok(None);
        }
        offers.done().map(Some)
    }
}

impl Offers {
    /// Of none, for so many. Where values are kernels that are never negative, those of 0
    /// are not taken.
    pub(super) fn new(wanted: usize, is_positive: bool) -> Self {
        let first = if is_positive { FIRST } else { f64::NEG_INFINITY };
        let cut_at = Self::cut_at(wanted);
        Self { wanted, first, least: first, cut_at, ..Self::default() }
    }

    fn cut_at(len: usize) -> usize {
        2 * len + 16
    }

    /// The least value that is taken.
    pub(super) fn least(&self) -> f64 {
        self.least
    }

    /// Takes an answer that is no less than that; whether others were forgotten for it.
    pub(super) fn push(&mut self, answer: Answer) -> Result<bool> {
        push(&mut self.list, answer)?;
        if self.list.len() < self.cut_at {
            return Ok(false);
        }
        self.cut();
        // Cut again at twice the length, so cutting takes constant time per offer.
        self.cut_at = Self::cut_at(self.list.len());
        Ok(true)
    }

    /// The trees that may be among the nearest, ascending, and how many other ones are to be
    /// found whose value is 0 or less.
    pub(super) fn done(mut self) -> Result<(Vec<u32>, usize)> {
        self.cut();
        let missing = self.wanted.saturating_sub(self.n_known());
        let mut trees = collect(self.list.into_iter().map(|answer| answer.tree))?;
        trees.sort_unstable();
        Ok((trees, missing))
    }

    /// Forgets what is not among the best.
    pub(super) fn cut(&mut self) {
        // Those that nobody knows come first, and do not count.
        let n_unknown = self.list.iter().filter(|a| a.value.is_infinite()).count();
        let place = n_unknown + self.wanted;
        // Nobody is wanted where all others are excluded.
        if self.list.len() <= place || place == 0 {
            return;
        }
        let by_value = |a: &Answer, b: &Answer| b.value.total_cmp(&a.value);
        // The last one wanted, and a margin below it for rounding.
        let (_, last, _) = self.list.select_nth_unstable_by(place - 1, by_value);
        self.least = margin(last.value).max(self.first);
        let least = self.least;
        self.list.retain(|answer| answer.value >= least);
    }

    /// How many values are known.
    fn n_known(&self) -> usize {
        self.list.iter().filter(|answer| answer.value.is_finite()).count()
    }
}

fn bits(value: f64) -> AtomicU64 {
    AtomicU64::new(value.to_bits())
}
