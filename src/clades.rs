//! Robinson-Foulds distance: by what groups of taxa two phylogenies differ.
//!
//! The taxa below a node are a group. In a rooted tree it is a *clade*; in an unrooted one,
//! the branch above the node *splits* all taxa in two, and either part names the split. With
//! weights w of the groups of both trees, 0 for a group that a tree does not have,
//!
//! ```text
//! d(a, b) = Σ over groups |w_a - w_b|
//! ```
//!
//! (Robinson & Foulds, "Comparison of phylogenetic trees", Mathematical Biosciences 1981;
//! with the lengths of branches as weights, Robinson & Foulds 1979.) Without lengths, a group
//! has weight 1, and those that every tree has are left out: single taxa and all of them, and
//! in unrooted trees all but one. Normalised, d is divided by Σ |w_a| + |w_b|.
//!
//! A group is known by the sum of 128-bit hashes of its taxa, so two different ones are taken
//! for one in 1 of 2¹²⁸ cases.
//!
//! ```
//! use treekernel_rs::clades::RobinsonFoulds;
//! use treekernel_rs::{Forest, gram};
//!
//! let forest = Forest::from_brackets("(n (n a b) (n c d) e) (n (n a c) (n b d) e)")?;
//! let measure = RobinsonFoulds::default();
//! assert_eq!(gram::gram(&measure, &forest, None, Default::default())?[[0, 1]], 4.0);
//! # Ok::<(), treekernel_rs::Error>(())
//! ```
//!
//! # Complexity
//! A pair takes a step for each group of one tree that is in other trees, too. The groups of
//! the other one stand in an array by number: merging two sorted lists took 1.8 µs for 100
//! taxa in place of 0.1. Memory: 12 bytes for each group.

use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher13};

use crate::error::quoted;
use crate::gram::Measure;
use crate::kernel::{Prepared, Scaled, Worker};
use crate::memory::{collect, filled, push, reach, reserve};
use crate::ragged::Ragged;
use crate::{Context, Error, Forest, Result};

/// The Robinson-Foulds distance. Taxa are the labels of leaves; other labels do not matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RobinsonFoulds {
    /// Whether groups are clades, and not splits.
    pub is_rooted: bool,
    /// Whether groups weigh what the branch above them is long: labels end with `:` and that
    /// length, or with `:?`, which is 0.
    pub is_weighted: bool,
    /// Whether it is divided.
    pub is_normalized: bool,
}

impl RobinsonFoulds {
    /// By label: the hash of the taxon and the length of the branch.
    fn labels(self, trees: &Forest) -> Result<Vec<(u128, f64)>> {
        let labels = trees.nodes().labels();
        let mut read = Vec::new();
        reserve(&mut read, labels.len())?;
        for label in labels.names() {
            let (taxon, length) = if self.is_weighted {
                split(label).ok_or_else(|| Error::Parameter {
                    name: "trees",
                    expected: "of labels that end with ':' and a finite length or '?'",
                    got: quoted(label),
                })?
            } else {
                (label, 1.0)
            };
            let mut hasher = SipHasher13::new();
            hasher.write(taxon.as_bytes());
            push(&mut read, (hasher.finish128().as_u128(), length))?;
        }
        Ok(read)
    }
}

/// A label's taxon and length.
fn split(label: &str) -> Option<(&str, f64)> {
    let (taxon, length) = label.rsplit_once(':')?;
    let length: f64 = if length == "?" { 0.0 } else { length.parse().ok()? };
    Some((taxon, length)).filter(|_| length.is_finite())
}

impl Measure<Forest> for RobinsonFoulds {
    fn check(&self) -> Result<()> {
        Ok(())
    }

    fn prepare(&self, trees: &Forest, context: &Context) -> Result<Box<dyn Prepared>> {
        let (store, labels) = (trees.nodes(), self.labels(trees)?);
        // 1. Of each subtree: the sum of its taxa, and how many there are.
        let mut below: Vec<(u128, u64)> = filled((0, 0), store.len())?;
        for node in store.ids() {
            let mut group = (0_u128, 0_u64);
            for child in store.children(node) {
                let (taxa, n) = below[child.index()];
                group = (group.0.wrapping_add(taxa), group.1.saturating_add(n));
            }
            if store.children(node).is_empty() {
                group = (labels[store.label(node).index()].0, 1);
            }
            below[node.index()] = group;
            context.check()?;
        }
        // 2. Of each tree: its groups, each once.
        trees.expanded("the trees of a Robinson-Foulds distance")?;
        let (starts, order) = trees.preorder_with(context)?;
        let mut groups: Ragged<(u128, f64)> = Ragged::default();
        let mut found: Vec<(u128, f64)> = Vec::new();
        for (tree, &root) in trees.roots().iter().enumerate() {
            let (all, n_all) = below[root.index()];
            found.clear();
            for &node in &order[starts[tree]..starts[tree + 1]] {
                let (taxa, n) = below[node.index()];
                let n_others = n_all - n;
                let is_trivial =
                    n < 2 || n_others == 0 || !self.is_rooted && n_others < 2;
                if self.is_weighted || !is_trivial {
                    let others = all.wrapping_sub(taxa);
                    let group = if self.is_rooted { taxa } else { taxa.min(others) };
                    push(&mut found, (group, labels[store.label(node).index()].1))?;
                }
            }
            // Two branches below an unrooted root are one, and so are nodes with one child.
            found.sort_unstable_by(|x, y| x.0.cmp(&y.0).then(x.1.total_cmp(&y.1)));
            found.dedup_by(|x, first| {
                let is_same = x.0 == first.0;
                if is_same && self.is_weighted {
                    first.1 += x.1;
                }
                is_same
            });
            groups.extend(found.iter().copied())?;
            groups.close("groups of taxa")?;
            context.check()?;
        }
        // 3. Numbers, in the order of sums, for groups of more than one tree: so what is added
        // up, and in which order, does not depend on other trees.
        let mut sums = collect(groups.items.iter().map(|group| group.0))?;
        sums.sort_unstable();
        let mut numbered: Vec<u128> = Vec::new();
        for equal in sums.chunk_by(|x, y| x == y).filter(|equal| equal.len() > 1) {
            push(&mut numbered, equal[0])?;
        }
        let (mut shared, mut weights) = (Ragged::default(), Vec::new());
        for groups in groups.iter() {
            for &(sum, weight) in groups {
                if let Ok(number) = numbered.binary_search(&sum) {
                    shared.push(number as u32)?;
                    push(&mut weights, weight)?;
                }
            }
            shared.close("groups of taxa")?;
            context.check()?;
        }
        let total =
            |groups: &[(u128, f64)]| groups.iter().map(|x| x.1.abs()).sum::<f64>();
        let totals = collect(groups.iter().map(total))?;
        let (n_shared, is_normalized) = (numbered.len(), self.is_normalized);
        Ok(Box::new(Groups { shared, weights, n_shared, totals, is_normalized }))
    }

    fn is_distance(&self) -> bool {
        true
    }
}

/// Trees as groups of taxa.
struct Groups {
    /// By tree: numbers of groups that are in other trees, too; ascending.
    shared: Ragged<u32>,
    /// As `shared`.
    weights: Vec<f64>,
    n_shared: usize,
    /// By tree: what all of its groups weigh.
    totals: Vec<f64>,
    is_normalized: bool,
}

/// The tree of a row.
struct Row {
    tree: Option<usize>,
    /// By group: its weight, NaN if the tree does not have it.
    weights: Vec<f64>,
}

impl Groups {
    fn of(&self, tree: usize) -> impl Iterator<Item = (usize, f64)> {
        let numbers = self.shared.get(tree);
        let weights = &self.weights[self.shared.start(tree)..][..numbers.len()];
        numbers.iter().zip(weights).map(|(&number, &weight)| (number as usize, weight))
    }

    fn distance(&self, [a, b]: [usize; 2], row: &mut Row) -> Result<f64> {
        if a == b {
            return Ok(0.0); // groups of this tree alone are not in `shared`
        }
        if row.tree != Some(a) {
            reach(&mut row.weights, self.n_shared, f64::NAN)?;
            for (group, _) in row.tree.into_iter().flat_map(|tree| self.of(tree)) {
                row.weights[group] = f64::NAN;
            }
            for (group, weight) in self.of(a) {
                row.weights[group] = weight;
            }
            row.tree = Some(a);
        }
        let (mut apart, mut both) = (0.0, [0.0; 2]);
        for (group, weight) in self.of(b) {
            let other = row.weights[group];
            if !other.is_nan() {
                apart += (other - weight).abs();
                both[0] += other.abs();
                both[1] += weight.abs();
            }
        }
        let [x, y] = [self.totals[a], self.totals[b]];
        let distance = apart + ((x - both[0]) + (y - both[1]));
        if !self.is_normalized {
            return Ok(distance);
        }
        Ok(if x + y == 0.0 { 0.0 } else { distance / (x + y) })
    }
}

impl Prepared for Groups {
    fn worker(&self) -> Worker<'_> {
        let mut row = Row { tree: None, weights: Vec::new() };
        Box::new(move |a, b, context| {
            context.check()?;
            self.distance([a, b], &mut row).map(Scaled::from_f64)
        })
    }
}
