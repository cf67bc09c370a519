//! What two trees save at most, without their distance.
//!
//! Matches of a mapping are in order both in preorder and in postorder, so an alignment of
//! the two sequences of labels has no fewer of them: it saves no less. Matches need two
//! labels, and nodes, so counting them bounds savings from above as well. From the
//! cheapest to the dearest:
//!
//! | bound | time |
//! |---|---|
//! | nodes of the smaller tree, each with the largest gain | 1 |
//! | labels that both have, as often as both; all others differ | n + m |
//! | alignment in postorder, then in preorder | n m cells each |

use super::costs::{Gain, Gains};
use super::distance::larger;
use super::order::Orders;
use crate::memory::{collect, reach};
use crate::ragged::Ragged;
use crate::{Context, Result};

/// By tree: the codes of labels, ascending.
pub(super) fn sorted_labels(orders: &Orders, n_trees: usize) -> Result<Ragged<u32>> {
    let mut sorted = Ragged::default();
    for tree in 0..n_trees {
        let mut labels = collect(orders.get(tree).labels.iter().copied())?;
        labels.sort_unstable();
        sorted.extend(labels)?;
        sorted.close("nodes of trees")?;
    }
    Ok(sorted)
}

/// What labels save at most, each list ascending; not known where costs differ by label.
pub(super) fn by_labels(a: &[u32], b: &[u32], gains: &Gains) -> f64 {
    let shorter = a.len().min(b.len()) as f64;
    let Gains::Constant(gains) = gains else { return f64::INFINITY };
    let (mut n_common, mut rest) = (0, b);
    for label in a {
        let n_less = rest.iter().take_while(|other| *other < label).count();
        rest = &rest[n_less..];
        if rest.first() == Some(label) {
            n_common += 1;
            rest = &rest[1..];
        }
    }
    let (equal, different) = (gains.gain(0, 0), gains.gain(0, 1));
    let n_common = f64::from(n_common);
    n_common * equal + (shorter - n_common) * different
}

/// What an alignment of two sequences of labels saves at most.
///
/// # Errors
/// [`Error::Memory`](crate::Error::Memory), and what `context` returns.
pub(super) fn by_alignment(
    a: &[u32],
    b: &[u32],
    gains: &Gains,
    row: &mut Vec<f64>,
    context: &Context,
) -> Result<f64> {
    match gains {
        Gains::Constant(gains) => aligned(a, b, gains, row, context),
        Gains::ByLabel(gains) => aligned(a, b, gains, row, context),
        Gains::Table(gains) => aligned(a, b, gains, row, context),
    }
}

fn aligned(
    a: &[u32],
    b: &[u32],
    gains: &impl Gain,
    row: &mut Vec<f64>,
    context: &Context,
) -> Result<f64> {
    row.clear();
    reach(row, b.len(), 0.0)?;
    let mut best = 0.0;
    for &x in a {
        let mut diagonal = 0.0;
        best = 0.0;
        for (cell, &y) in row.iter_mut().zip(b) {
            best = larger(larger(*cell, best), diagonal + gains.gain(x, y));
            diagonal = std::mem::replace(cell, best);
        }
        context.check()?;
    }
    Ok(best)
}
