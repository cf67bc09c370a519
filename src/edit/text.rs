//! The string edit distance of two labels.
//!
//! Wagner & Fischer (1974), a row at a time, without what both have in common at their ends.

use crate::Result;
use crate::memory::extend;

/// What is kept from call to call.
#[derive(Default)]
pub(super) struct Levenshtein {
    /// The characters of both texts.
    chars: [Vec<char>; 2],
    row: Vec<u32>,
}

/// The least number of characters inserted, deleted and replaced that make one text the
/// other, divided by the length of the longer one; 0 for two empty texts.
///
/// # Errors
/// [`Error::Memory`](crate::Error::Memory).
pub(super) fn rename_text(a: &str, b: &str, scratch: &mut Levenshtein) -> Result<f64> {
    let Levenshtein { chars, row } = scratch;
    for (chars, text) in chars.iter_mut().zip([a, b]) {
        chars.clear();
        extend(chars, text.chars())?;
    }
    let [a, b] = chars.each_ref().map(|chars| &chars[..]);
    let longer = a.len().max(b.len());
    if longer == 0 {
        return Ok(0.0);
    }
    // 1. What both begin and end with costs nothing.
    let n_before = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let (a, b) = (&a[n_before..], &b[n_before..]);
    let n_after =
        a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| x == y).count();
    let (a, b) = (&a[..a.len() - n_after], &b[..b.len() - n_after]);
    // 2. By rows: what it costs to make the first characters of `a` those of `b`.
    row.clear();
    extend(row, 0..=b.len() as u32)?;
    for (i, x) in (0..).zip(a) {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + u32::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    Ok(f64::from(row[b.len()]) / longer as f64)
}
