//! Trees as sparse vectors of named features.
//!
//! A feature is a piece of a tree: a subtree, a fragment, a path, a window. Where the
//! pieces are a kernel's, dot products of the vectors are the kernel, restricted to pieces up to a
//! given size:
//!
//! | kind | a feature is | value |
//! |---|---|---|
//! | [`Kind::Subtrees`] | a node with all below it | √λ per inner node |
//! | [`Kind::Fragments`] | a fragment of the subset tree kernel | √λ per production |
//! | [`Kind::Partial`] | a fragment of the partial tree kernel | √μ per node, λ per leaf of it and per gap |
//! | [`Kind::Paths`] | the labels from a node down to one below it | √λ per node |
//! | [`Kind::Productions`] | a node's label and its children's | 1 |
//! | [`Kind::Labels`], [`Kind::Edges`] | a label; a label and a child's | 1 |
//! | [`Kind::PqGrams`] | p labels downwards, and q children of the last (Augsten et al. 2005) | 1 |
//!
//! **Each distinct subtree is expanded once.** A feature belongs to the node where it
//! begins, so equal subtrees have equal lists of features; a tree adds up the lists of its
//! distinct subtrees, each as often as the subtree stands there.
//!
//! **A feature is a hash of its content** (`SipHash` 1-3, 128 bits, keys fixed), made of its
//! children's hashes. So there is nothing to look up while features are made, no state is
//! shared by threads or machines, and equal features have equal hashes everywhere. A
//! [`Vocabulary`] knows the columns of those seen when it was made, and how they are made
//! of each other, which gives their names. Without one, the column is the hash modulo the
//! number of columns ([`hashed`]).
//!
//! ```
//! use treekernel_rs::Forest;
//! use treekernel_rs::features::{Kind, Vocabulary};
//! use treekernel_rs::kernel::Counts;
//!
//! let forest = Forest::from_brackets("(S (A a) (B b)) (S (A a) (B c))")?;
//! let kind = Kind::Fragments { decay: 0.25, leaf_weight: 0.0, max_size: 2 };
//! let (vocabulary, rows) = Vocabulary::fit(&kind, &forest, 1, Counts::Linear)?;
//! assert_eq!(vocabulary.name(0)?, "(A a)");
//! let dot: f64 = rows.row(0).filter_map(|(c, x)| rows.row(1).find(|y| y.0 == c).map(|y| x * y.1)).sum();
//! // S -> A B, A -> a, and both: λ, λ, λ².
//! assert_eq!(dot, 0.25 + 0.25 + 0.0625);
//! # Ok::<(), treekernel_rs::Error>(())
//! ```
//!
//! # Complexity
//! Features are counted before any is made. Time and memory by the features of the
//! distinct subtrees; a row by those of its tree.

mod maker;
mod vocabulary;

use maker::{Item, Maker, Names};
pub use vocabulary::{Vocabulary, VocabularyArrays};

use crate::kernel::{Counts, PartialTree, TreeCounts};
use crate::memory::{self, Map};
use crate::ragged::Ragged;
use crate::threads::Threads;
use crate::{Context, Error, Forest, Kernel, NodeId, Result};

/// So many features of distinct subtrees are made at most.
pub const MAX_FEATURES: u64 = 1 << 28;

/// Which pieces of a tree are its features.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Kind {
    /// Those of [`crate::kernel::Subtree`].
    Subtrees {
        /// λ.
        decay: f64,
        /// Of a leaf.
        leaf_weight: f64,
    },
    /// Those of [`crate::kernel::SubsetTree`] of at most so many productions.
    Fragments {
        /// λ.
        decay: f64,
        /// Of a leaf.
        leaf_weight: f64,
        /// 1 is productions only.
        max_size: u32,
    },
    /// Those of [`PartialTree`] of at most so many nodes.
    Partial {
        /// With its parameters.
        kernel: PartialTree,
        /// 1 is labels only.
        max_size: u32,
    },
    /// Those of [`crate::kernel::Subpath`] of at most so many nodes.
    Paths {
        /// λ.
        decay: f64,
        /// 1 is labels only.
        max_size: u32,
    },
    /// Labels of inner nodes with those of their children.
    Productions,
    /// Labels of nodes.
    Labels,
    /// Labels of nodes with that of one child.
    Edges,
    /// Windows of `q` children below `p` labels.
    PqGrams {
        /// Labels downwards, the last one the children's parent.
        p: u32,
        /// Children side by side.
        q: u32,
    },
}

impl Kind {
    /// The fragments of a kernel, of at most `max_size` productions or nodes where these are
    /// limited; None for a kernel that has no such features.
    pub fn of_kernel(kernel: &dyn Kernel, max_size: u32) -> Option<Self> {
        let mut kind = kernel.builtin()?.features?;
        if let Self::Fragments { max_size: limit, .. }
        | Self::Partial { max_size: limit, .. }
        | Self::Paths { max_size: limit, .. } = &mut kind
        {
            *limit = max_size;
        }
        Some(kind)
    }

    /// What limits the size of a feature: the parameter's name and its value.
    fn limit(&self) -> (&'static str, u32) {
        match *self {
            Self::Fragments { max_size, .. } => ("max_size", max_size),
            Self::Partial { max_size, .. } | Self::Paths { max_size, .. } => {
                ("max_size", max_size)
            }
            Self::PqGrams { p, .. } => ("p", p),
            _ => ("min_df", 1),
        }
    }

    fn check(&self) -> Result<()> {
        let (name, limit) = self.limit();
        // Sizes are small: counts of features grow exponentially with them.
        let one = |name, value: u32| match value {
            1..=64 => Ok(()),
            _ => Err(parameter(name, "a whole number of 1 to 64", value)),
        };
        one(name, limit)?;
        match *self {
            Self::PqGrams { q, .. } => one("q", q),
            _ => Ok(()),
        }
    }
}

fn parameter(name: &'static str, expected: &'static str, got: u32) -> Error {
    Error::Parameter { name, expected, got: got.to_string() }
}

/// No feature, column or number.
const NONE: u32 = u32::MAX;

/// A sparse matrix, row by row.
#[derive(Debug, Clone, Default)]
pub struct SparseRows {
    /// Where each row starts, and the end of the last.
    pub starts: Vec<usize>,
    /// Ascending in each row.
    pub columns: Vec<u32>,
    /// Their values.
    pub values: Vec<f64>,
}

impl SparseRows {
    /// No rows.
    fn empty() -> Result<Self> {
        Ok(Self { starts: memory::collect([0])?, ..Self::default() })
    }

    /// The entries of a row.
    pub fn row(&self, row: usize) -> impl Iterator<Item = (u32, f64)> {
        let range = self.starts[row]..self.starts[row + 1];
        let (columns, values) = (&self.columns[range.clone()], &self.values[range]);
        columns.iter().copied().zip(values.iter().copied())
    }
}

/// Rows without a vocabulary: the column of a feature is its hash modulo `n_features`, its
/// sign a bit of the hash, so that collisions cancel on average.
///
/// # Errors
/// As [`Vocabulary::fit`].
pub fn hashed(
    kind: &Kind,
    forest: &Forest,
    n_features: u32,
    signed: bool,
    counts: Counts,
) -> Result<SparseRows> {
    hashed_with(kind, forest, n_features, signed, counts, &Context::default())
}

/// As [`hashed`], in a context.
///
/// # Errors
/// As [`hashed`], and what `context` returns.
pub fn hashed_with(
    kind: &Kind,
    forest: &Forest,
    n_features: u32,
    signed: bool,
    counts: Counts,
    context: &Context,
) -> Result<SparseRows> {
    if n_features == 0 {
        return Err(parameter("n_features", "a whole number above 0", n_features));
    }
    let counted = Counted::new(kind, forest, false, context)?;
    let column = |item: &Item| {
        let sign = if signed && item.hash >> 127 == 1 { -1.0 } else { 1.0 };
        Some(((item.hash as u64 % u64::from(n_features)) as u32, sign))
    };
    counted.rows(n_features as usize, column, counts, context)
}

/// Trees as counts of distinct subtrees, and the features of these.
struct Counted {
    kind: Kind,
    trees: TreeCounts,
    items: Ragged<Item>,
    /// By tree: the list of what begins above its root.
    above: Vec<u32>,
    names: Names,
    /// Only items of this size count; 0: all do.
    size: u32,
}

impl Counted {
    fn new(
        kind: &Kind,
        forest: &Forest,
        named: bool,
        context: &Context,
    ) -> Result<Self> {
        kind.check()?;
        let nodes = forest.nodes();
        let threads = Threads::for_trees(context, forest.len());
        let trees = TreeCounts::by(true, nodes, forest.roots(), &threads)?;
        // Nodes that no tree has may be many: the store may be shared.
        let mut used = memory::filled(false, nodes.len())?;
        for tree in 0..trees.len() {
            trees.nodes(tree).iter().for_each(|node| used[node.index()] = true);
        }
        let mut maker = Maker::new(kind, nodes, named)?;
        maker.make(&used, context)?;
        // Of pq-grams, the windows whose stem reaches above the root: once for equal
        // roots.
        let (mut above, mut list_of) = (Vec::new(), Map::<NodeId, u32>::default());
        let mut size = 0;
        if let Kind::PqGrams { p, .. } = *kind {
            size = p;
            for &root in forest.roots() {
                context.check()?;
                let next = maker.items.len() as u32;
                let list = *list_of.get_or(root, next)?;
                if list == next {
                    maker.above(root)?;
                }
                memory::push(&mut above, list)?;
            }
            // These stems are filled up to p labels.
            let first = maker.items.start(nodes.len());
            for item in &mut maker.items.items[first..] {
                item.size = p;
            }
        }
        let names = maker.names.unwrap_or_default();
        Ok(Self { kind: kind.clone(), trees, items: maker.items, above, names, size })
    }

    /// How often its subtree has an item: equal ones are added up.
    fn count(&self, item: &Item) -> u32 {
        let unit = match self.kind {
            Kind::Paths { decay, .. } => decay.sqrt().powi(item.size.cast_signed()),
            Kind::Subtrees { .. } | Kind::Fragments { .. } => return 1,
            _ => 1.0,
        };
        (item.value / unit).round() as u32
    }

    /// Adds up the features of each tree, in `n` columns. A feature that a tree has c times has
    /// its mean value times the function of c.
    fn rows(
        &self,
        n: usize,
        column: impl Fn(&Item) -> Option<(u32, f64)> + Sync,
        of_count: Counts,
        context: &Context,
    ) -> Result<SparseRows> {
        if of_count != Counts::Linear && matches!(self.kind, Kind::Partial { .. }) {
            // Gaps: fragments that are equal have different weights.
            let can = vec!["Subtree", "SubsetTree", "Subpath"];
            let (kernel, what) = ("PartialTree", "functions of counts");
            return Err(Error::Unsupported { kernel, what, can });
        }
        let trees = &self.trees;
        let threads = Threads::for_trees(context, trees.len());
        // 1. The column of each feature.
        // Once for each feature of a distinct subtree, not for each occurrence.
        let mut columns: Ragged<(u32, u32, f64)> = self.items.map(|item| {
            let counts = (self.size == 0 || item.size == self.size) && item.value > 0.0;
            let column = if counts { column(item) } else { None };
            column.map_or((NONE, 0, 0.0), |(column, sign)| {
                (column, self.count(item), sign * item.value)
            })
        })?;
        // Where most columns are empty, only the others get a place.
        let mut of_place: Vec<u32> = Vec::new();
        if n > columns.items.len() {
            memory::extend(&mut of_place, columns.items.iter().map(|item| item.0))?;
            of_place.sort_unstable();
            of_place.dedup();
            of_place.pop_if(|last| *last == NONE);
            for item in &mut columns.items {
                item.0 = of_place.binary_search(&item.0).map_or(NONE, |at| at as u32);
            }
        }
        // Places are the columns, or fewer of them.
        let n = if n > columns.items.len() { of_place.len() } else { n };
        let column_of = |place: u32| *of_place.get(place as usize).unwrap_or(&place);
        // 2. Rows, a part for each thread, with a table of sums that is zero between
        // trees.
        let parts = threads.parts(trees.len(), |range, context| {
            let mut sums = memory::filled(0.0f64, n)?;
            let mut is_met = memory::filled(false, n)?;
            let is_linear = of_count == Counts::Linear;
            let mut counts = memory::filled(0.0f64, if is_linear { 0 } else { n })?;
            let mut met: Vec<u32> = Vec::new();
            let mut rows = SparseRows::default();
            for tree in range {
                let mut add = |list: usize, times: f64| -> Result<()> {
                    for &(column, occurrences, value) in columns.get(list) {
                        if column == NONE {
                            continue;
                        }
                        let at = column as usize;
                        if !is_met[at] {
                            is_met[at] = true;
                            memory::push(&mut met, column)?;
                        }
                        sums[at] += times * value;
                        if let Some(count) = counts.get_mut(at) {
                            *count += times * f64::from(occurrences);
                        }
                    }
                    Ok(())
                };
                for (node, count) in trees.iter(tree) {
                    context.check()?;
                    add(node.index(), f64::from(count))?;
                }
                if let Some(&list) = self.above.get(tree) {
                    add(list as usize, 1.0)?;
                }
                // Columns ascend within a row; they are met in any order.
                met.sort_unstable();
                for &column in &met {
                    let at = column as usize;
                    is_met[at] = false;
                    let mut value = std::mem::replace(&mut sums[at], 0.0);
                    if let Some(count) = counts.get_mut(at) {
                        let count = std::mem::replace(count, 0.0);
                        // The sum has the mean value times the count: f(count) takes
                        // the place of the count.
                        value *= of_count.of(count) / count;
                    }
                    // Hashed features of opposite signs may cancel in a column.
                    if value != 0.0 {
                        memory::push(&mut rows.columns, column_of(column))?;
                        memory::push(&mut rows.values, value)?;
                    }
                }
                met.clear();
                memory::push(&mut rows.starts, rows.columns.len())?;
            }
            Ok(rows)
        })?;
        // 3. The parts in order.
        let mut rows = SparseRows::empty()?;
        for part in parts {
            let start = rows.columns.len();
            memory::extend(&mut rows.columns, part.columns)?;
            memory::extend(&mut rows.values, part.values)?;
            memory::extend(&mut rows.starts, part.starts.iter().map(|at| start + at))?;
        }
        Ok(rows)
    }
}
