//! Tables for scores by a subset tree model that does not change meanwhile.
//!
//! Of what a score visits, most says the same again and again. Two tables take its place
//! (8,600 visits a question tree with a model of 4,000 of them; 2,600 are left):
//!
//! - *Patterns* (40 % of the visits): the long lists of the [index](super::subset), whose
//!   subtrees' values are known before; the model adds the sum of f over each.
//! - *Folds* (30 %). `(ROOT (S ...))` has one child, so C(v,ξ) = λ (1 + C(v',ξ')) for the
//!   child v' and the one child ξ' of ξ. Nobody asks for a root's values; what it adds is
//!   that of v' with other weights:
//!
//!   ```text
//!   Σ_ξ C(v,ξ) f(ξ) + Σ_ξ' C(v',ξ') f(ξ')  =  λ Σ_ξ f(ξ) + Σ_ξ' C(v',ξ') (f(ξ') + λ f(ξ))
//!   ```
//!
//!   A score by 5,000 question trees takes 1.4 times the instructions without folds (125 and
//!   175 thousand), with six outputs 1.7 times (327 and 566). Where roots have several
//!   children, as in WSJ, there are no folds and nothing is lost.
//!
//! # Complexity
//! They are made in time by the model's edges and the sizes of what they hold.

use super::GroupKey;
use super::subset::{Entry, Index, Patterns};
use super::weights::{Numbers, Weights, add_scaled};
use crate::ids::{FoldId, GroupId, Id, IdVec, ListId, PackedOption, PatternId};
use crate::memory::{self, Map};
use crate::{Label, Nodes, ProductionId, Result};

/// The tables.
#[derive(Debug)]
pub(crate) struct ScoreTables {
    pub(crate) patterns: Patterns,
    /// By pattern: Σ f over its list.
    sums: Vec<f64>,
    pub(crate) fold_of: IdVec<ListId, PackedOption<FoldId>>,
    folds: IdVec<FoldId, Fold>,
}

/// A list of roots with one child.
#[derive(Debug)]
pub(crate) struct Fold {
    /// λ Σ f of the roots.
    sum: Vec<f64>,
    /// By number of the child within its production: its f, and λ f of its root.
    pub(crate) weights: Vec<f64>,
    /// By pattern of the children: these, over the pattern's list.
    patterns: Map<PatternId, Vec<f64>>,
}

/// The weights of all subtrees of a list together.
fn sum_of(entries: &[Entry], weights: &[f64], width: usize) -> Result<Vec<f64>> {
    let mut sum = memory::filled(0.0, width)?;
    for entry in entries {
        add_scaled(1.0, &weights[entry.u.index() * width..], &mut sum);
    }
    Ok(sum)
}

impl ScoreTables {
    /// # Errors
    /// [`crate::Error::Memory`].
    pub(crate) fn new(nodes: &Nodes, index: &Index, weights: &Weights) -> Result<Self> {
        // 1. The sum of each pattern's list, and the patterns of each production.
        let width = weights.width();
        let patterns = Patterns::new(index, |_| true)?;
        let mut patterns_of: Map<GroupId, Vec<PatternId>> = Map::default();
        let mut sums = Vec::new();
        memory::reserve(&mut sums, patterns.lists.len() * width)?;
        for (pattern, &list) in patterns.lists.enumerated() {
            // A pattern's list is of subtrees of one production.
            let group = index.key(list).parent;
            let entries = index.lists.get(list);
            let sum = sum_of(entries, weights.group(group), width)?;
            memory::extend(&mut sums, sum)?;
            memory::push(patterns_of.get_or_default(group)?, pattern)?;
        }
        let mut tables = Self {
            fold_of: memory::filled(PackedOption::NONE, index.lists.len())?.into(),
            patterns,
            sums,
            folds: IdVec::default(),
        };
        // 2. Folds: lists of roots with one child, that is productions of two labels,
        // long enough to pay.
        for (list, &key) in index.keys.keys.enumerated() {
            let GroupKey { parent: root, child, .. } = key.into();
            let entries = index.lists.get(list);
            let is_unary = nodes.production_labels(ProductionId(root.0)).len() == 2;
            if !is_unary || !Patterns::is_long(entries.len(), index.group_size(child)) {
                continue;
            }
            let mut fold = Fold {
                sum: memory::filled(0.0, width)?,
                weights: memory::copied(weights.group(child))?,
                patterns: Map::default(),
            };
            // A root adds λ f to what its child counts, and the same to the sum.
            for entry in entries {
                let f = &weights.group(root)[entry.u.index() * width..];
                let of_child = &mut fold.weights[entry.child.index() * width..];
                add_scaled(index.decay, f, &mut of_child[..width]);
                add_scaled(index.decay, f, &mut fold.sum);
            }
            // A pattern of the children has its own sum under these weights.
            for &pattern in patterns_of.get(&child).into_iter().flatten() {
                let entries = index.lists.get(tables.patterns.lists[pattern]);
                let sum = sum_of(entries, &fold.weights, width)?;
                fold.patterns.insert(pattern, sum)?;
            }
            tables.fold_of[list] = FoldId::at(tables.folds.len()).into();
            memory::push(&mut tables.folds, fold)?;
        }
        Ok(tables)
    }

    /// Bytes held.
    pub(crate) fn nbytes(&self) -> usize {
        let bytes = |numbers: &Vec<f64>| numbers.capacity() * size_of::<f64>();
        let folds = self.folds.iter().map(|fold| {
            let patterns = fold.patterns.values().map(bytes).sum::<usize>();
            bytes(&fold.sum) + bytes(&fold.weights) + patterns
        });
        self.patterns.nbytes()
            + bytes(&self.sums)
            + folds.sum::<usize>()
            + self.fold_of.capacity() * 4
    }
}

/// Weights with tables made of them.
pub(crate) struct TableWeights<'m> {
    pub(crate) weights: &'m Weights,
    pub(crate) tables: &'m ScoreTables,
}

impl Numbers for TableWeights<'_> {
    fn width(&self) -> usize {
        self.weights.width()
    }

    #[inline]
    fn group(&self, group: GroupId, fold: Option<FoldId>) -> [&[f64]; 2] {
        // Under a fold weights of the child's group count; the group is the child's
        // then.
        let folded = fold.map(|fold| &self.tables.folds[fold].weights[..]);
        [folded.unwrap_or_else(|| self.weights.group(group)); 2]
    }

    fn add_group(&self, group: GroupId, value: f64, sums: &mut [f64]) {
        self.weights.add_group(group, value, sums);
    }

    fn add_leaf(&self, label: Label, value: f64, sums: &mut [f64]) {
        self.weights.add_leaf(label, value, sums);
    }

    fn add_pattern(
        &self,
        pattern: PatternId,
        fold: Option<FoldId>,
        value: f64,
        sums: &mut [f64],
    ) {
        let weights = match fold {
            Some(fold) => &self.tables.folds[fold].patterns[&pattern],
            None => &self.tables.sums[pattern.index() * sums.len()..],
        };
        add_scaled(value, weights, sums);
    }

    fn add_folded(&self, fold: FoldId, value: f64, sums: &mut [f64]) {
        add_scaled(value, &self.tables.folds[fold].sum, sums);
    }
}
