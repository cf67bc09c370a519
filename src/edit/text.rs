//! String edit distances: of labels, and of the sequences of labels of two trees.
//!
//! Where texts are compared, a renaming costs the least number of tokens that are inserted, deleted and replaced to
//! make one text the other (Levenshtein 1966), divided by the length of the longer one. The
//! text of a label is its characters; or, of a table's cell, what stands behind its start
//! tag, where a tag and an entity are a token each:
//!
//! ```text
//! <td colspan=2>a <b>x</b>     head <td colspan=2>     tokens a, blank, <b>, x, </b>
//! ```
//!
//! In the table of Wagner & Fischer (1974), neighbouring cells differ by -1, 0 or 1, so two
//! bits say how, and 64 cells of a column are computed by some 15 operations on whole words
//! (Myers, "A fast bit-vector algorithm for approximate string matching based on dynamic
//! programming", JACM 1999; for longer texts as in Hyyrö 2003).
//!
//! # Complexity
//! n ⌈m / 64⌉ such steps for texts of n and m tokens.

use crate::memory::{Map, extend, filled, reach};
use crate::ragged::Ragged;
use crate::{Context, Result};

/// What the text of a label is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextKind {
    /// Its characters.
    Characters,
    /// Of a label that begins with `<`: what stands behind that tag. It is compared with
    /// labels that begin with the same tag; all others are as different as can be.
    Cells,
}

/// The labels of some trees as texts.
pub(super) struct Texts {
    /// By code: the numbers of tokens.
    tokens: Ragged<u32>,
    /// By code: texts with different heads are as different as can be, and so is a label
    /// without a head from all others.
    heads: Vec<Option<u32>>,
    n_tokens: usize,
}

impl Texts {
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory), and [`Error::Capacity`](crate::Error::Capacity)
    /// for 2^32 characters and more.
    pub(super) fn new(names: &[&str], kind: TextKind) -> Result<Self> {
        let mut numbers: Map<&str, u32> = Map::default();
        let mut tokens = Ragged::default();
        let mut heads = filled(Some(0), names.len())?;
        let mut number = |token| -> Result<u32> {
            let new = numbers.len() as u32;
            Ok(*numbers.get_or(token, new)?)
        };
        for (&name, head) in names.iter().zip(&mut heads) {
            let mut rest = name;
            if kind == TextKind::Cells {
                (*head, rest) = (None, "");
                if name.starts_with('<') {
                    let (tag, text) = name.split_at(token_end(name, kind));
                    (*head, rest) = (Some(number(tag)?), text);
                }
            }
            while !rest.is_empty() {
                let (token, behind) = rest.split_at(token_end(rest, kind));
                tokens.push(number(token)?)?;
                rest = behind;
            }
            tokens.close("characters of labels")?;
        }
        Ok(Self { tokens, heads, n_tokens: numbers.len() })
    }

    /// What it costs to rename a label, by code, to each of some others.
    ///
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory), and what `context` returns.
    pub(super) fn rename(
        &self,
        from: u32,
        to: impl IntoIterator<Item = u32>,
        matcher: &mut Matcher,
        context: &Context,
        mut tell: impl FnMut(f64),
    ) -> Result<()> {
        let (text, head) = (self.tokens.get(from as usize), self.heads[from as usize]);
        matcher.read(text, self.n_tokens)?;
        for to in to {
            let other = self.tokens.get(to as usize);
            let longer = text.len().max(other.len()) as f64;
            tell(if from == to {
                0.0
            } else if head.is_none() || head != self.heads[to as usize] {
                1.0
            } else {
                f64::from(matcher.distance(other, u32::MAX, context)?) / longer
            });
            context.check()?;
        }
        Ok(())
    }
}

/// Where the first token of a text ends.
fn token_end(text: &str, kind: TextKind) -> usize {
    let end = match (kind, text.as_bytes().first()) {
        (TextKind::Cells, Some(b'<')) => text.find('>'),
        (TextKind::Cells, Some(b'&')) => text.find(';'),
        _ => None,
    };
    end.map_or_else(|| text.chars().next().map_or(0, char::len_utf8), |end| end + 1)
}

/// A text that others are compared with.
#[derive(Default)]
pub(super) struct Matcher {
    text: Vec<u32>,
    /// By token: the row of `places` that it has; the first one is that of all others.
    rows: Vec<u32>,
    /// Rows of a word for each 64 places of the text: where a token stands.
    places: Vec<u64>,
    /// A word for each 64 places: where a column's cell is one more, and one less, than that
    /// before it.
    column: Vec<[u64; 2]>,
}

impl Matcher {
    /// Takes a text of tokens below `n_tokens`.
    ///
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory).
    pub(super) fn read(&mut self, text: &[u32], n_tokens: usize) -> Result<()> {
        let n_words = text.len().div_ceil(64);
        // The rows of the last text are taken back, for there may be many tokens.
        for &token in &self.text {
            self.rows[token as usize] = 0;
        }
        self.text.clear();
        self.column.clear();
        self.places.clear();
        reach(&mut self.rows, n_tokens, 0)?;
        extend(&mut self.text, text.iter().copied())?;
        reach(&mut self.column, n_words, [0; 2])?;
        reach(&mut self.places, n_words, 0)?;
        let mut n_rows = 1;
        for (place, &token) in text.iter().enumerate() {
            let row = &mut self.rows[token as usize];
            if *row == 0 {
                *row = n_rows;
                n_rows += 1;
                reach(&mut self.places, n_rows as usize * n_words, 0)?;
            }
            self.places[*row as usize * n_words + place / 64] |= 1 << (place % 64);
        }
        Ok(())
    }

    /// The edit distance from the text to another if it is at most `most`, else more than
    /// that.
    ///
    /// # Errors
    /// What `context` returns.
    pub(super) fn distance(
        &mut self,
        other: &[u32],
        most: u32,
        context: &Context,
    ) -> Result<u32> {
        let Self { text, rows, places, column } = self;
        let Some(last) = text.len().checked_sub(1) else {
            return Ok(other.len() as u32);
        };
        let (n_words, last) = (column.len(), 1 << (last % 64));
        // In the first column each cell is one more than that before it.
        column.fill([u64::MAX, 0]);
        let mut only = [u64::MAX, 0];
        let mut distance = text.len() as u32;
        for (&token, n_left) in other.iter().zip((0..other.len() as u32).rev()) {
            let row = rows[token as usize] as usize;
            let ends = if n_words == 1 {
                step(&mut only, places[row], [1, 0])
            } else {
                let (mut before, mut ends) = ([1, 0], [0; 2]);
                let places = &places[row * n_words..][..n_words];
                for (column, &places) in column.iter_mut().zip(places) {
                    ends = step(column, places, before);
                    before = ends.map(|word| word >> 63);
                }
                context.check()?;
                ends
            };
            distance += u32::from(ends[0] & last != 0);
            distance -= u32::from(ends[1] & last != 0);
            // Each token that is left takes away one at most.
            if distance > n_left.saturating_add(most) {
                return Ok(most.saturating_add(1));
            }
        }
        Ok(distance)
    }
}

/// Makes 64 cells of a column those of the next one. `before` says whether the cell before
/// them is one more, and one less, than in the last column: in the first row it is one more.
/// Returns the same of all 64.
#[inline]
fn step([up, down]: &mut [u64; 2], places: u64, before: [u64; 2]) -> [u64; 2] {
    let either = places | before[1];
    let diagonal = ((either & *up).wrapping_add(*up) ^ *up) | either | *down;
    let ends = [*down | !(diagonal | *up), diagonal & *up];
    let [more, less] = [0, 1].map(|side| ends[side] << 1 | before[side]);
    *up = less | !(diagonal | more);
    *down = more & diagonal;
    ends
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::Random;

    /// The definition, a row at a time (Wagner & Fischer 1974).
    fn by_rows(a: &[u32], b: &[u32]) -> u32 {
        let mut row: Vec<u32> = (0..=b.len() as u32).collect();
        for (i, x) in (0..).zip(a) {
            let mut diagonal = i;
            row[0] = i + 1;
            for (j, y) in b.iter().enumerate() {
                let replaced = diagonal + u32::from(x != y);
                diagonal = row[j + 1];
                row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
            }
        }
        row[b.len()]
    }

    #[test]
    fn words_of_bits_are_the_definition() {
        let mut random = Random(6);
        let lengths = [0, 1, 2, 5, 30, 63, 64, 65, 127, 128, 129, 200, 300];
        let mut matcher = Matcher::default();
        for n_tokens in [1, 2, 4, 30] {
            for n in lengths {
                let mut text = |n| -> Vec<u32> {
                    (0..n).map(|_| random.below(n_tokens) as u32).collect()
                };
                let (a, mut others) = (text(n), lengths.map(&mut text).to_vec());
                // One that is nearly the same, and the text itself.
                others.push(a.iter().rev().skip(1).rev().copied().collect());
                others.push(a.clone());
                matcher.read(&a, n_tokens).unwrap();
                for b in others {
                    let expected = by_rows(&a, &b);
                    for most in [u32::MAX, expected + 3, expected, expected / 2] {
                        let found = matcher.distance(&b, most, &Context::default());
                        let found = found.unwrap();
                        if expected <= most {
                            assert_eq!(found, expected, "{a:?} {b:?}");
                        } else {
                            assert!(found > most, "{a:?} {b:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_tag_and_an_entity_of_a_cell_are_a_token_each() {
        let names = ["<td>a<b>é</b>", "<td>&lt;<b>a", "<td colspan=2>a", "tr", "th"];
        let of = |kind| {
            let texts = Texts::new(&names, kind).unwrap();
            let mut rows = Vec::new();
            for from in 0..5 {
                let (mut row, mut matcher) = (Vec::new(), Matcher::default());
                let context = Context::default();
                texts
                    .rename(from, 0..5, &mut matcher, &context, |cost| row.push(cost))
                    .unwrap();
                rows.push(row);
            }
            rows
        };
        let cells = of(TextKind::Cells);
        // a <b> é </b> and < <b> a: replaced, kept, replaced, deleted.
        assert_eq!(cells[0], [0.0, 0.75, 1.0, 1.0, 1.0]);
        assert_eq!(cells[1], [0.75, 0.0, 1.0, 1.0, 1.0]);
        assert_eq!(cells[3], [1.0, 1.0, 1.0, 0.0, 1.0]);
        let characters = of(TextKind::Characters);
        assert_eq!(characters[3], [12.0 / 13.0, 11.0 / 12.0, 14.0 / 15.0, 0.0, 0.5]);
    }
}
