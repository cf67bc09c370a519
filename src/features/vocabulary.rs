//! The columns of the features that some trees have, and their names.

use super::maker::{ByHash, Item, Names, Part, STAR};
use super::{Counted, Kind, NONE, SparseRows};
use crate::kernel::Counts;
use crate::memory::{self, or_panic};
use crate::parse::write_label;
use crate::ragged::Ragged;
use crate::{Context, Error, Forest, Result};

/// A [`Vocabulary`] as flat arrays.
#[derive(Debug, Clone, Default)]
pub struct VocabularyArrays {
    /// The labels' names.
    pub labels: Vec<String>,
    /// By feature: its label; 2^32 - 1 for a place without a node.
    pub heads: Vec<u32>,
    /// By feature: where its parts end.
    pub ends: Vec<u32>,
    /// A feature, or -2 - a label, or -1 for a place without a node.
    pub parts: Vec<i64>,
    /// By column: its feature.
    pub features: Vec<u32>,
    /// By column: the two halves of its hash, the lower first.
    pub hashes: Vec<u64>,
}

/// The columns of features.
#[derive(Debug, Clone)]
pub struct Vocabulary {
    kind: Kind,
    names: Names,
    /// By column: the feature.
    features: Vec<u32>,
    /// By hash: the column.
    columns: ByHash<u32>,
}

impl Vocabulary {
    /// The features that at least `min_df` trees have, in the order in which they come, and
    /// the trees' values.
    ///
    /// # Errors
    /// [`Error::Parameter`], [`Error::TooManyFeatures`], [`Error::Capacity`],
    /// [`Error::Memory`].
    pub fn fit(
        kind: &Kind,
        forest: &Forest,
        min_df: u32,
        counts: Counts,
    ) -> Result<(Self, SparseRows)> {
        Self::fit_with(kind, forest, min_df, counts, &Context::default())
    }

    /// As [`fit`](Self::fit), in a context.
    ///
    /// # Errors
    /// As [`fit`](Self::fit), and what `context` returns.
    pub fn fit_with(
        kind: &Kind,
        forest: &Forest,
        min_df: u32,
        counts: Counts,
        context: &Context,
    ) -> Result<(Self, SparseRows)> {
        let mut counted = Counted::new(kind, forest, true, context)?;
        let mut names = std::mem::take(&mut counted.names);
        let n = names.heads.len();
        let column = |item: &Item| Some((item.number, 1.0));
        let rows = counted.rows(n, column, counts, context)?;
        // 1. Which features enough trees have. A row has each of them once.
        let mut trees = memory::filled(0u32, n)?;
        let mut order = Vec::new();
        for &feature in &rows.columns {
            let seen = &mut trees[feature as usize];
            *seen += 1;
            if *seen == min_df.max(1) {
                memory::push(&mut order, feature)?;
            }
        }
        // Numbers were given in the order in which features came.
        order.sort_unstable();
        // 2. Their columns.
        let mut column = memory::filled(NONE, n)?;
        let mut hashes = memory::filled(0u128, n)?;
        names.number.iter().for_each(|(&hash, &at)| hashes[at as usize] = hash);
        let mut columns = ByHash::default();
        for (at, &feature) in order.iter().enumerate() {
            column[feature as usize] = at as u32;
            columns.insert(hashes[feature as usize], at as u32)?;
        }
        // 3. The rows, without the others.
        let mut kept = SparseRows::empty()?;
        for row in 0..forest.len() {
            for (feature, value) in rows.row(row) {
                if column[feature as usize] != NONE {
                    memory::push(&mut kept.columns, column[feature as usize])?;
                    memory::push(&mut kept.values, value)?;
                }
            }
            memory::push(&mut kept.starts, kept.columns.len())?;
        }
        // Numbers are looked up by hash while features are made, and columns from now
        // on.
        names.number = ByHash::default();
        Ok((Self { kind: kind.clone(), names, features: order, columns }, kept))
    }

    /// The vocabulary as flat arrays, from which [`from_arrays`](Self::from_arrays) makes
    /// it again.
    ///
    /// # Panics
    /// Without memory for them.
    pub fn to_arrays(&self) -> VocabularyArrays {
        or_panic(self.try_to_arrays())
    }

    /// As [`to_arrays`](Self::to_arrays), or an error.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn try_to_arrays(&self) -> Result<VocabularyArrays> {
        let names = &self.names;
        // Whole parts are numbers from 0 on, bare ones below, so one list holds both.
        let part = |part: &Part| match *part {
            Part::Whole(at) => i64::from(at),
            Part::Bare(STAR) => -1,
            Part::Bare(label) => -2 - i64::from(label),
        };
        let mut hashes = memory::filled(0u128, self.len())?;
        self.columns.iter().for_each(|(&hash, &at)| hashes[at as usize] = hash);
        let labels = names.labels.iter().map(|label| memory::text(label));
        let ends = (1..=names.parts.len()).map(|n| names.parts.start(n) as u32);
        let halves = hashes.iter().flat_map(|h| [*h as u64, (h >> 64) as u64]);
        Ok(VocabularyArrays {
            labels: memory::try_collect(labels)?,
            heads: memory::copied(&names.heads)?,
            ends: memory::collect(ends)?,
            parts: memory::collect(names.parts.items.iter().map(part))?,
            features: memory::copied(&self.features)?,
            hashes: memory::collect(halves)?,
        })
    }

    /// A vocabulary of such arrays.
    ///
    /// # Errors
    /// [`Error::Array`] or [`Error::Length`] where no vocabulary has such arrays, and as
    /// [`fit`](Self::fit).
    pub fn from_arrays(kind: &Kind, arrays: VocabularyArrays) -> Result<Self> {
        kind.check()?;
        let VocabularyArrays { labels, heads, ends, parts, features, hashes } = arrays;
        // Arrays come from files: everything is checked before it is used as an index.
        let length = |array, got, n, what| {
            let expected = format!("{n}, {what}");
            if got == n { Ok(()) } else { Err(Error::Length { array, expected, got }) }
        };
        let wrong = |array, index, expected: String, got: String| {
            Err(Error::Array { array, index, expected, got })
        };
        length("ends", ends.len(), heads.len(), "one for each feature")?;
        length("hashes", hashes.len(), 2 * features.len(), "two for each column")?;
        let last = ends.last().map_or(0, |&end| end as usize);
        length("parts", parts.len(), last, "as ends says")?;
        let is_label = |label: u32| label == STAR || (label as usize) < labels.len();
        if let Some(at) = heads.iter().position(|&head| !is_label(head)) {
            let expected = format!("a number below {}", labels.len());
            return wrong("heads", at, expected, heads[at].to_string());
        }
        let mut lists = Ragged::default();
        let mut start = 0;
        for (feature, &end) in ends.iter().enumerate() {
            if !(start..=parts.len()).contains(&(end as usize)) {
                let expected = format!("{start} to {}", parts.len());
                return wrong("ends", feature, expected, end.to_string());
            }
            let places = start..end as usize;
            for (at, &part) in places.clone().zip(&parts[places]) {
                // Parts come first: so no feature is part of itself.
                let part = match part {
                    whole if (0..feature as i64).contains(&whole) => {
                        Part::Whole(whole as u32)
                    }
                    -1 => Part::Bare(STAR),
                    bare if bare < -1 && (-2 - bare) < labels.len() as i64 => {
                        Part::Bare((-2 - bare) as u32)
                    }
                    other => {
                        let least = -1 - labels.len() as i64;
                        let expected = format!("{least} to {}", feature as i64 - 1);
                        return wrong("parts", at, expected, other.to_string());
                    }
                };
                lists.push(part)?;
            }
            start = end as usize;
            lists.close("parts of features")?;
        }
        let mut columns = ByHash::default();
        for (at, hash) in hashes.chunks(2).enumerate() {
            if features[at] as usize >= heads.len() {
                let expected = format!("a number below {}", heads.len());
                return wrong("columns", at, expected, features[at].to_string());
            }
            let hash = u128::from(hash[1]) << 64 | u128::from(hash[0]);
            columns.insert(hash, at as u32)?;
        }
        // Equal hashes are one entry of the map.
        if columns.len() < features.len() {
            let (expected, got) = ("another hash each".into(), "one twice".into());
            return wrong("hashes", features.len(), expected, got);
        }
        let names = Names { labels, number: ByHash::default(), heads, parts: lists };
        Ok(Self { kind: kind.clone(), names, features, columns })
    }

    /// About how many bytes it holds.
    pub fn nbytes(&self) -> usize {
        let labels = self.names.labels.iter().map(|label| label.len() + 24);
        let names = self.names.parts.nbytes() + 4 * self.names.heads.len();
        labels.sum::<usize>() + names + self.columns.capacity() * 32 + 4 * self.len()
    }

    /// How many columns there are.
    pub fn len(&self) -> usize {
        self.features.len()
    }

    /// Whether there is no column.
    pub fn is_empty(&self) -> bool {
        self.features.is_empty()
    }

    /// The rows of other trees; what has no column is left out.
    ///
    /// # Errors
    /// As [`fit`](Self::fit).
    pub fn rows(&self, forest: &Forest, counts: Counts) -> Result<SparseRows> {
        self.rows_with(forest, counts, &Context::default())
    }

    /// As [`rows`](Self::rows), in a context.
    ///
    /// # Errors
    /// As [`rows`](Self::rows), and what `context` returns.
    pub fn rows_with(
        &self,
        forest: &Forest,
        counts: Counts,
        context: &Context,
    ) -> Result<SparseRows> {
        let counted = Counted::new(&self.kind, forest, false, context)?;
        let column =
            |item: &Item| self.columns.get(&item.hash).map(|&column| (column, 1.0));
        counted.rows(self.len(), column, counts, context)
    }

    /// What a column counts, in brackets; a node without children stands for any node of
    /// its label, `*` for a place without a node.
    ///
    /// # Errors
    /// [`Error::Expansion`] where that has more than a million nodes.
    pub fn name(&self, column: usize) -> Result<String> {
        const LIMIT: u64 = 1_000_000;
        enum Step {
            Part(Part),
            Text(&'static str),
        }
        let names = &self.names;
        let mut text = String::new();
        let mut needed = 0;
        // A stack in place of recursion: names may be deep.
        let mut open = Vec::new();
        memory::push(&mut open, Step::Part(Part::Whole(self.features[column])))?;
        while let Some(step) = open.pop() {
            let part = match step {
                Step::Text(fixed) => {
                    memory::write(&mut text, fixed)?;
                    continue;
                }
                Step::Part(part) => part,
            };
            // Equal parts are written out each time, so a short list may stand for a
            // long name.
            needed += 1;
            if needed > LIMIT {
                let what = "the name of a column";
                return Err(Error::Expansion {
                    what,
                    unit: "nodes",
                    needed: u64::MAX,
                    limit: LIMIT,
                });
            }
            let (label, parts) = match part {
                Part::Bare(label) => (label, &[][..]),
                Part::Whole(at) => {
                    (names.heads[at as usize], names.parts.get(at as usize))
                }
            };
            let is_bare = parts.is_empty();
            if !is_bare {
                memory::write(&mut text, "(")?;
                memory::push(&mut open, Step::Text(")"))?;
                // The last one first, as the stack turns them round.
                for &part in parts.iter().rev() {
                    memory::push(&mut open, Step::Part(part))?;
                    memory::push(&mut open, Step::Text(" "))?;
                }
            }
            match label {
                STAR => memory::write(&mut text, "*")?,
                label => write_label(&mut text, &names.labels[label as usize])?,
            }
        }
        Ok(text)
    }
}
