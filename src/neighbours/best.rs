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
    wanted: usize,
    /// The least that is offered.
    first: f64,
    offers: Vec<Mutex<Offers>>,
    /// By tree: the least value that it still takes, as bits; NaN where it gave up.
    least: Vec<AtomicU64>,
}

#[derive(Default, Clone)]
struct Offers {
    list: Vec<Answer>,
    /// How many there are when it is cut the next time.
    cut_at: usize,
    has_given_up: bool,
}

impl Best {
    /// Of `n` trees `wanted` others each, 1 at least.
    pub(super) fn new(n: usize, wanted: usize, is_distance: bool) -> Result<Self> {
        let first = if is_distance { f64::NEG_INFINITY } else { FIRST };
        let cut_at = Self::cut_at(wanted);
        let offers = || Mutex::new(Offers { cut_at, ..Offers::default() });
        Ok(Self {
            wanted,
            first,
            offers: filled_with(n, offers)?,
            least: filled_with(n, || bits(first))?,
        })
    }

    fn cut_at(len: usize) -> usize {
        2 * len + 16
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
        push(&mut offers.list, Answer { tree: tree as u32, value })?;
        if offers.list.len() < offers.cut_at {
            return Ok(());
        }
        let mut least = offers.cut(self.wanted, self.first);
        // Too many nearly equal ones: the margin keeps them all, and the list would
        // grow on.
        if offers.list.len() > 8 * Self::cut_at(self.wanted) {
            *offers = Offers { has_given_up: true, ..Offers::default() };
            least = f64::NAN;
        } else {
            // Cut again at twice the length, so cutting takes constant time per offer.
            offers.cut_at = Self::cut_at(offers.list.len());
        }
        self.least[to].store(least.to_bits(), Ordering::Relaxed);
        Ok(())
    }

    /// The trees that may be among the nearest of one, and how many other ones are to be
    /// found whose value is 0 or less; None where it gave up.
    pub(super) fn take(&self, tree: usize) -> Result<Option<(Vec<u32>, usize)>> {
        let Ok(mut offers) = self.offers[tree].lock() else { return Ok(None) };
        let mut offers = std::mem::take(&mut *offers);
        if offers.has_given_up {
            return Ok(None);
        }
        offers.cut(self.wanted, self.first);
        let missing = self.wanted.saturating_sub(offers.n_known());
        let trees = collect(offers.list.into_iter().map(|answer| answer.tree))?;
        Ok(Some((trees, missing)))
    }
}

impl Offers {
    /// Forgets what is not among the best, and returns the least value that may be.
    fn cut(&mut self, wanted: usize, first: f64) -> f64 {
        // Those that nobody knows come first, and do not count.
        let n_unknown = self.list.iter().filter(|a| a.value.is_infinite()).count();
        let place = n_unknown + wanted;
        if self.list.len() <= place {
            return first;
        }
        let by_value = |a: &Answer, b: &Answer| b.value.total_cmp(&a.value);
        // The last one wanted, and a margin below it for rounding.
        let (_, last, _) = self.list.select_nth_unstable_by(place - 1, by_value);
        let least = margin(last.value).max(first);
        self.list.retain(|answer| answer.value >= least);
        least
    }

    /// How many values are known.
    fn n_known(&self) -> usize {
        self.list.iter().filter(|answer| answer.value.is_finite()).count()
    }
}

fn bits(value: f64) -> AtomicU64 {
    AtomicU64::new(value.to_bits())
}
