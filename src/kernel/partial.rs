//! The partial tree kernel: how child lists are matched, and single pairs.
//!
//! A fragment takes any children of a node, in order, so for two nodes with equal labels
//!
//! ```text
//! D(u,v) = μ (λ² leafness + Σ over subsequences I of u's children, J of v's, |I| = |J| >= 1
//!                           of λ^(gaps(I) + gaps(J)) Π_k D(u_{I_k}, v_{J_k}))
//! K(a,b) = Σ_{u in a, v in b} D(u,v)
//! ```
//!
//! (Moschitti, ECML 2006; λ per child left out, as SVM-Light-TK and KeLP compute it, not
//! λ per position as printed there.) Pairs of subsequences are chains of matches (i,j),
//! both growing. With T(i,j) the weight of all chains that end in (i,j), one pass over
//! the ρ × ρ grid does what the papers do in one pass per length:
//!
//! ```text
//! T(i,j) = D(i,j) (1 + S(i-1,j-1))     R(i,j) = λ R(i,j-1) + T(i,j)     S(i,j) = λ S(i-1,j) + R(i,j)
//! ```
//!
//! Nothing is subtracted, so no digits are lost. (Texts have λ² - λ · λ forms of the same
//! sum.) Only children with equal labels match, and where few do, a list of the matches
//! is shorter than the grid: [`Chains`] takes what is cheapest.
//!
//! For example, `(A b)` against itself at λ = μ = 0.4: D(b,b) = 0.4 · 0.16 = 0.064, and
//! D(A,A) = 0.4 (0.16 + 0.064) = 0.0896, so K = 0.1536.
//!
//! # Complexity
//! A pair takes time by its pairs of distinct nodes with equal labels, each by its
//! matches M of r and c children: the least of M², r c and M log c. Memory: the values of
//! nodes that a parent will still ask for, so a chain takes no more than two nodes' at a
//! time; beyond 2^28 of them a pair is refused.
//!
//! Sums follow the order in which a walk leaves the nodes, and the two trees change places
//! by a hash of what they hold. So K(a,b) is K(b,a) bit for bit, and neither depends on
//! what else is in the store.

use std::sync::Arc;

use super::weights::{Factors, ResolvedWeights, Weightable};
use super::{
    Builtin, Kernel, Number, Pairs, Prepared, Rule, SMALLEST, Sketch, Sloped,
    TreeCounts, described, kernel_struct, naive, parameter,
};
use crate::features::Kind;
use crate::intern::{Seed, new_id};
use crate::{Context, Error, NodeId, Nodes, Result, memory};

kernel_struct! {
    /// Fragments are any connected parts (Moschitti, ECML 2006).
    PartialTree new(decay, mu) {
        /// λ: per child left out between two of a fragment's.
        decay: f64 = 0.4, Share, with_decay;
        /// μ: per node of a fragment.
        mu: f64 = 0.4, Share, with_mu;
        /// How much more a leaf's single-node fragment weighs.
        leaf_factor: f64 = 1.0, NotNegative, with_leaf_factor;
        /// The longest child subsequence that counts.
        max_children: Option<usize> = None, Limit, with_max_children;
    }
}

impl Kernel for PartialTree {
    described!();

    fn definition(&self, nodes: &Nodes, a: NodeId, b: NodeId) -> f64 {
        naive::sum(nodes, a, b, |u, v| {
            let equal = |u, v| f64::from(u8::from(nodes.label(u) == nodes.label(v)));
            naive::partial_tree(nodes, self, &equal, u, v)
        })
    }

    fn pairs(
        &self,
        nodes: &Arc<Nodes>,
        roots: &[NodeId],
        context: &Context,
    ) -> Result<Box<dyn Prepared>> {
        let Self { decay, mu, leaf_factor, max_children } = *self;
        let trees =
            Trees::new(nodes, decay, mu, leaf_factor, max_children, roots, context)?;
        Ok(Box::new(trees))
    }

    fn sloped(
        &self,
        nodes: &Arc<Nodes>,
        roots: &[NodeId],
        context: &Context,
    ) -> Result<Option<Box<dyn Sloped>>> {
        let Self { decay, mu, leaf_factor, max_children } = *self;
        self.check_slopes()?;
        let trees =
            Trees::new(nodes, decay, mu, leaf_factor, max_children, roots, context)?;
        Ok(Some(Box::new(trees)))
    }

    fn builtin(&self) -> Option<Builtin<'_>> {
        let single = self.mu.sqrt() * self.decay;
        Some(Builtin {
            index: Some(Box::new(self.clone())),
            sketch: Some(Sketch {
                rule: Rule::Partial,
                value: self.mu.sqrt(),
                leaf: single * self.leaf_factor.sqrt(),
                cut: single,
                leaf_sum: single * self.leaf_factor.sqrt(),
                decay: self.decay,
                longest: self.max_children,
                smallest: self.mu * self.decay * self.decay,
            }),
            weightable: Some(self),
            features: Some(Kind::Partial { kernel: self.clone(), max_size: 1 }),
            ..Builtin::new(self)
        })
    }
}

impl PartialTree {
    /// Makes sure that there are derivatives.
    pub(super) fn check_slopes(&self) -> Result<()> {
        if self.leaf_factor > 0.0 {
            return Ok(());
        }
        // A leaf and an inner node weigh its root, whose derivative is infinite.
        let expected = "above 0 where derivatives are wanted";
        Err(parameter("leaf_factor", expected, &self.leaf_factor))
    }
}

impl Weightable for PartialTree {
    fn weighted_name(&self) -> &'static str {
        "weighted PartialTree"
    }

    fn weighted_definition(
        &self,
        table: &ResolvedWeights,
        nodes: &Nodes,
        a: NodeId,
        b: NodeId,
    ) -> f64 {
        naive::sum(nodes, a, b, |u, v| {
            let equal = |u, v| {
                let is_equal = nodes.label(u) == nodes.label(v);
                if is_equal { table.label(nodes, u) } else { 0.0 }
            };
            naive::partial_tree(nodes, self, &equal, u, v)
        })
    }

    fn weighted_pairs(
        &self,
        table: &ResolvedWeights,
        nodes: &Arc<Nodes>,
        roots: &[NodeId],
        context: &Context,
    ) -> Result<Box<dyn Prepared>> {
        let Self { decay, leaf_factor, max_children, .. } = *self;
        let mu = table.labels_times(self.mu)?;
        let trees =
            Trees::new(nodes, decay, mu, leaf_factor, max_children, roots, context)?;
        Ok(Box::new(trees))
    }
}

/// "No number": a label without nodes, the end of a chain of positions.
pub(crate) const NONE: u32 = u32::MAX;

/// What single-node fragments weigh, by the two nodes: μ λ² leafness.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weights {
    /// Two inner nodes.
    pub(crate) inner: f64,
    /// A leaf against an inner node.
    pub(crate) mixed: f64,
    /// Two leaves.
    pub(crate) leaf: f64,
}

impl Weights {
    pub(crate) fn new(decay: f64, mu: f64, leaf_factor: f64) -> Self {
        let inner = mu * (decay * decay);
        Self { inner, mixed: inner * leaf_factor.sqrt(), leaf: inner * leaf_factor }
    }

    /// The same for another μ, that of these being 1.
    #[inline]
    fn times(&self, mu: f64) -> Self {
        let Self { inner, mixed, leaf } = *self;
        Self { inner: mu * inner, mixed: mu * mixed, leaf: mu * leaf }
    }

    /// For two nodes with equal labels, by whether they are leaves.
    #[inline]
    pub(crate) fn of(&self, leaf_u: bool, leaf_v: bool) -> f64 {
        match (leaf_u, leaf_v) {
            (false, false) => self.inner,
            (true, true) => self.leaf,
            _ => self.mixed,
        }
    }
}

/// Makes λ^0 .. λ^n of what there is, for gaps between up to n children.
///
/// # Errors
/// [`Error::Memory`].
pub(crate) fn grow_powers(powers: &mut Vec<f64>, decay: f64, n: usize) -> Result<()> {
    while powers.len() <= n {
        memory::push(powers, powers.last().map_or(1.0, |last| last * decay))?;
    }
    Ok(())
}

/// λ^n of the table of powers, as it depends on λ.
#[inline]
fn power<N: Number>(powers: &[f64], n: usize) -> N {
    N::depending(powers[n], || [power_slope(powers, n), 0.0, 0.0])
}

/// λ^m λ^n, of the children that are left out on both sides.
#[inline]
fn gaps<N: Number>(powers: &[f64], m: usize, n: usize) -> N {
    N::depending(powers[m] * powers[n], || {
        let slope = |m, n| power_slope(powers, m) * powers[n];
        [slope(m, n) + slope(n, m), 0.0, 0.0]
    })
}

fn power_slope(powers: &[f64], n: usize) -> f64 {
    n.checked_sub(1).map_or(0.0, |less| n as f64 * powers[less])
}

/// λ as a number; 1 where there is room for no gap.
#[inline]
fn decay_of<N: Number>(powers: &[f64]) -> N {
    if powers.len() > 1 { power(powers, 1) } else { N::of(1.0) }
}

/// The positions of one node's children by label: what other nodes' children are
/// looked up in. Filled and emptied in time by the children.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// Per label: its first position and how many there are.
    heads: Vec<(u32, u32)>,
    /// Per position: the next with the same label.
    next: Vec<u32>,
}

impl Table {
    /// Enters a node's children, by label; the table must be empty.
    ///
    /// # Errors
    /// [`Error::Memory`]; the table is empty.
    pub(crate) fn fill(
        &mut self,
        n_labels: usize,
        labels: impl ExactSizeIterator<Item = u32> + DoubleEndedIterator,
    ) -> Result<()> {
        memory::reach(&mut self.heads, n_labels, (NONE, 0))?;
        memory::reach(&mut self.next, labels.len(), NONE)?;
        // From the end, so that each label's positions are chained in ascending order.
        for (position, label) in labels.enumerate().rev() {
            let head = &mut self.heads[label as usize];
            self.next[position] = head.0;
            *head = (position as u32, head.1 + 1);
        }
        Ok(())
    }

    /// Takes them out again.
    pub(crate) fn clear(&mut self, labels: impl Iterator<Item = u32>) {
        for label in labels {
            self.heads[label as usize] = (NONE, 0);
        }
        self.next.clear();
    }

    /// How many children have this label (NONE: no child has it).
    #[inline]
    pub(crate) fn count(&self, label: u32) -> u32 {
        self.heads.get(label as usize).map_or(0, |head| head.1)
    }

    #[inline]
    pub(crate) fn positions(&self, label: u32) -> impl Iterator<Item = u32> {
        let mut at = self.heads.get(label as usize).map_or(NONE, |head| head.0);
        std::iter::from_fn(move || {
            let position = at;
            at = *self.next.get(position as usize)?;
            Some(position)
        })
    }
}

/// How the chains of one pair of nodes are summed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    /// Every match against every earlier one.
    List,
    /// The S of the row before, column by column.
    Grid,
    /// The same sums in a Fenwick tree over the columns: for many children of many
    /// labels, such as two nodes with 100,000 different words each.
    Tree,
    /// A grid per length, as chains may not be longer than this.
    Lengths(usize),
}

/// Sums over the chains of matches between two child lists: rows are fed in one by one.
#[derive(Debug)]
pub(crate) struct Chains<N> {
    method: Method,
    columns: usize,
    /// The last row with matches.
    last: u32,
    /// List: row, column, T. The others: the T of the row at hand.
    found: Vec<(u32, u32, N)>,
    sums: Vec<N>,
    /// Tree: the row up to which each sum is decayed.
    stamps: Vec<u32>,
    matches: Vec<(u32, N)>,
    /// Since the last question whether to go on.
    steps: usize,
}

/// Steps between two questions whether to go on: some milliseconds.
const BETWEEN_CHECKS: usize = 1 << 20;

// By hand, as a derived Default asks for one of N.
impl<N> Default for Chains<N> {
    fn default() -> Self {
        Self {
            method: Method::List,
            columns: 0,
            last: 0,
            found: Vec::new(),
            sums: Vec::new(),
            stamps: Vec::new(),
            matches: Vec::new(),
            steps: 0,
        }
    }
}

impl<N> Chains<N> {
    /// Takes note of so much work, and asks now and then whether to go on.
    #[inline]
    pub(crate) fn step(&mut self, steps: usize, context: &Context) -> Result<()> {
        self.steps = self.steps.saturating_add(steps);
        if self.steps < BETWEEN_CHECKS {
            return Ok(());
        }
        self.steps = 0;
        context.check_now()
    }
}

impl<N: Number> Chains<N> {
    /// Σ over all chains of at most `longest` matches between children with equal labels:
    /// `rows` are the labels of one node's (NONE: matches nothing), `table` holds the
    /// other's, and `d(row, column)` is D of two of them. `context` is asked on the way.
    pub(crate) fn sum(
        &mut self,
        rows: impl Iterator<Item = u32> + Clone,
        table: &Table,
        powers: &[f64],
        longest: usize,
        mut d: impl FnMut(u32, u32) -> N,
        context: &Context,
    ) -> Result<N> {
        let zero = N::of(0.0);
        let (mut n_rows, mut n_matches) = (0, 0);
        for label in rows.clone() {
            let count = table.count(label) as usize;
            n_rows += usize::from(count > 0);
            n_matches += count;
        }
        if n_matches == 0 {
            return Ok(zero);
        }
        self.start(n_rows, table.next.len(), n_matches, longest)?;
        let mut total = zero;
        let mut matches = std::mem::take(&mut self.matches);
        for (row, label) in rows.enumerate() {
            matches.clear();
            let row = row as u32;
            let new = table.positions(label).map(|column| (column, d(row, column)));
            memory::extend(&mut matches, new)?;
            if !matches.is_empty() {
                total = total + self.row(row, &matches, powers);
                let per_row = self.per_row(matches.len());
                self.step(per_row, context)?;
            }
        }
        self.matches = matches;
        Ok(total)
    }

    /// About how many steps a row of so many matches takes.
    pub(crate) fn per_row(&self, n_matches: usize) -> usize {
        match self.method {
            Method::List => self.found.len() * n_matches,
            Method::Grid => self.columns,
            Method::Tree => 64 * n_matches,
            Method::Lengths(longest) => longest * self.columns,
        }
    }

    /// The same for a list of few matches (row, column, D) in ascending order.
    #[inline]
    pub(super) fn sum_list(
        &mut self,
        matches: &mut [(u32, u32, N)],
        shape: (usize, usize),
        powers: &[f64],
        longest: usize,
    ) -> Result<N> {
        let mut total = N::of(0.0);
        let shortest = shape.0.min(shape.1);
        if shortest == 1 {
            return Ok(matches.iter().fold(total, |total, &(_, _, d)| total + d));
        }
        let steps = matches.len() * matches.len() / 2;
        if longest >= shortest && steps <= 2 * shape.0 * shape.1 {
            for at in 0..matches.len() {
                let (i, j, d) = matches[at];
                let mut t = d;
                for &(row, column, chain) in &matches[..at] {
                    if row < i && column < j {
                        let gaps: N = gaps(
                            powers,
                            (i - row - 1) as usize,
                            (j - column - 1) as usize,
                        );
                        t = t + d * (gaps * chain);
                    }
                }
                matches[at].2 = t;
                total = total + t;
            }
            return Ok(total);
        }
        self.start(shape.0, shape.1, matches.len(), longest)?;
        let mut row = std::mem::take(&mut self.matches);
        for same in matches.chunk_by(|a, b| a.0 == b.0) {
            row.clear();
            memory::extend(&mut row, same.iter().map(|&(_, column, d)| (column, d)))?;
            total = total + self.row(same[0].0, &row, powers);
        }
        self.matches = row;
        Ok(total)
    }

    /// Begins a pair of nodes: so many rows with matches, so many columns, and matches
    /// in all. What rows take is asked for here.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub(crate) fn start(
        &mut self,
        rows: usize,
        columns: usize,
        matches: usize,
        longest: usize,
    ) -> Result<()> {
        let zero = N::of(0.0);
        self.columns = columns;
        self.found.clear();
        // Steps, weighed by what they take: a step on the list or the grid about 2 ns,
        // one in the tree thrice that, and each match takes two walks there.
        let list = matches.saturating_mul(matches) / 2;
        let grid = rows.saturating_mul(columns);
        let tree = matches.saturating_mul(6 * columns.ilog2() as usize + 6);
        self.method = if longest < rows.min(columns) {
            Method::Lengths(longest)
        } else if list <= grid.min(tree) {
            Method::List
        } else if grid <= tree {
            Method::Grid
        } else {
            Method::Tree
        };
        self.sums.clear();
        self.last = 0;
        match self.method {
            Method::List => memory::reserve(&mut self.found, matches),
            Method::Grid => memory::reach(&mut self.sums, columns, zero),
            Method::Tree => {
                memory::reserve(&mut self.found, columns.min(matches))?;
                memory::reach(&mut self.sums, columns + 1, zero)?;
                self.stamps.clear();
                memory::reach(&mut self.stamps, columns + 1, 0)
            }
            Method::Lengths(longest) => {
                let n = (longest - 1).saturating_mul(columns);
                memory::reach(&mut self.sums, n, zero)
            }
        }
    }

    /// Enters the next row's matches (column, D), both ascending; returns Σ T over them.
    #[inline]
    pub(crate) fn row(&mut self, row: u32, matches: &[(u32, N)], powers: &[f64]) -> N {
        // S has to decay over the rows between, which had no matches. Before the first
        // row it is zero, whatever its factor.
        let skipped = power(powers, row.saturating_sub(self.last + 1) as usize);
        let total = match self.method {
            Method::List => self.list_row(row, matches, powers),
            Method::Grid => self.grid_row(skipped, matches, powers),
            Method::Tree => self.tree_row(row, matches, powers),
            Method::Lengths(longest) => {
                self.lengths_row(longest, skipped, matches, powers)
            }
        };
        self.last = row;
        total
    }

    #[inline]
    fn list_row(&mut self, row: u32, matches: &[(u32, N)], powers: &[f64]) -> N {
        let before = self.found.len();
        let mut total = N::of(0.0);
        for &(column, d) in matches {
            let mut t = d;
            for &(i, j, chain) in &self.found[..before] {
                if j < column {
                    let gaps: N =
                        gaps(powers, (row - i - 1) as usize, (column - j - 1) as usize);
                    t = t + d * (gaps * chain);
                }
            }
            self.found.push((row, column, t)); // has room: see `start`
            total = total + t;
        }
        total
    }

    fn grid_row(&mut self, skipped: N, matches: &[(u32, N)], powers: &[f64]) -> N {
        let (decay, zero): (N, N) = (decay_of(powers), N::of(0.0));
        // S(i-1, j-1), R(i, j-1).
        let (mut above, mut run, mut total) = (zero, zero, zero);
        let mut matches = matches.iter().copied();
        let mut next = matches.next();
        for (column, sum) in self.sums.iter_mut().enumerate() {
            run = run * decay;
            if let Some((_, d)) = next.filter(|m| m.0 as usize == column) {
                let t = d + d * above;
                total = total + t;
                run = run + t;
                next = matches.next();
            }
            above = *sum * skipped;
            *sum = above * decay + run;
        }
        total
    }

    fn tree_row(&mut self, row: u32, matches: &[(u32, N)], powers: &[f64]) -> N {
        // Node p of the tree sums the T of columns up to p (from 1) back to where its
        // lowest bit says, as seen from column p and from the row of its stamp.
        let power = |gap: u32| power::<N>(powers, gap as usize);
        let mut total = N::of(0.0);
        self.found.clear();
        for &(column, d) in matches {
            let mut t = d;
            let mut p = column;
            while p > 0 {
                // A stamp is a row before this one, except where nothing is stamped yet.
                let rows = (row - self.stamps[p as usize]).saturating_sub(1);
                let sum = self.sums[p as usize] * power(rows);
                t = t + d * (sum * power(column - p));
                p &= p - 1;
            }
            total = total + t;
            self.found.push((row, column, t)); // has room: see `start`
        }
        // Only now: chains must not go on within their row.
        for &(_, column, t) in &self.found {
            let mut p = column + 1;
            while let Some(sum) = self.sums.get_mut(p as usize) {
                let stamp = std::mem::replace(&mut self.stamps[p as usize], row);
                *sum = *sum * power(row - stamp) + t * power(p - column - 1);
                p += p & p.wrapping_neg();
            }
        }
        total
    }

    /// One pass per length: `sums[p]` is S for chains of p + 1 matches.
    fn lengths_row(
        &mut self,
        longest: usize,
        skipped: N,
        matches: &[(u32, N)],
        powers: &[f64],
    ) -> N {
        let (decay, zero): (N, N) = (decay_of(powers), N::of(0.0));
        let mut total = zero;
        // The longest first, as each length continues the shorter one's rows before.
        for length in (1..=longest).rev() {
            let (shorter, own) = self.sums.split_at_mut((length - 1) * self.columns);
            let shorter = &shorter[shorter.len().saturating_sub(self.columns)..];
            let extended = |column: u32, d: N| match (length, column.checked_sub(1)) {
                (1, _) => d,
                (_, Some(before)) => d * (shorter[before as usize] * skipped),
                (_, None) => N::of(0.0),
            };
            if length == longest {
                let all = matches.iter().map(|&(column, d)| extended(column, d));
                total = all.fold(total, |total, t| total + t);
                continue;
            }
            let mut run = zero;
            let mut matches = matches.iter().copied();
            let mut next = matches.next();
            for (column, sum) in own[..self.columns].iter_mut().enumerate() {
                run = run * decay;
                if let Some((_, d)) = next.filter(|m| m.0 as usize == column) {
                    let t = extended(column as u32, d);
                    total = total + t;
                    run = run + t;
                    next = matches.next();
                }
                *sum = *sum * skipped * decay + run;
            }
        }
        total
    }
}

/// A distinct node of a prepared tree.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    /// Its label's number in the tree.
    pub(super) label: u32,
    /// Its number among the tree's nodes with this label.
    pub(super) rank: u32,
    /// How often it stands in the tree.
    pub(super) count: u32,
    /// Where its children end, all trees' in one array.
    pub(super) end: u32,
}

/// Trees made ready for single pairs.
#[derive(Debug)]
pub(crate) struct Trees<F = f64> {
    /// μ, by label.
    pub(super) mu: F,
    /// For that μ where it is one, else for 1.
    pub(super) weights: Weights,
    /// λ and leaf factor, for derivatives.
    decay: f64,
    leaf_factor: f64,
    pub(super) longest: usize,
    pub(super) n_labels: usize,
    /// λ^k, as far as there are gaps.
    pub(super) powers: Vec<f64>,
    /// Per tree: where its nodes end, and where its labels end.
    pub(super) ends: Vec<(u32, u32)>,
    /// Per tree: how many distinct subtrees it has, and a hash of its labels and shape,
    /// whatever the store calls them. The smaller tree comes first: its nodes are visited
    /// one by one, and by hash alone a pair took 4 % longer.
    pub(super) content: Vec<(u32, u64)>,
    /// Tree by tree, in the order in which a walk leaves them: children first.
    pub(super) nodes: Vec<Node>,
    /// By node: its last parent. (In [`Node`], pairs took longer by some per cent.)
    last_uses: Vec<u32>,
    /// Children by their numbers in the tree.
    children: Vec<u32>,
    /// Tree by tree: label, and where its nodes end in `by_label`.
    pub(super) labels: Vec<(u32, u32)>,
    /// Tree by tree: numbers of the nodes, by label.
    by_label: Vec<u32>,
}

/// What is kept from pair to pair.
#[derive(Debug)]
pub(crate) struct Scratch<N> {
    /// Per label of a: its number in b; and of any label, while that is found.
    pub(super) labels: Vec<u32>,
    in_b: Vec<u32>,
    /// Per node of a: where its D with the nodes of b of the same label start.
    pub(super) starts: Vec<u32>,
    pub(super) values: Vec<N>,
    /// Per label of b: starts of values that nobody asks for any more.
    pub(super) free: Vec<Vec<u32>>,
    pub(super) matches: Vec<(u32, u32, N)>,
    pub(super) table: Table,
    pub(super) chains: Chains<N>,
    /// Values beyond which places are used again: set low by tests.
    pub(super) few_values: usize,
}

/// One prepared tree.
pub(super) struct Tree<'a, F = f64> {
    all: &'a Trees<F>,
    first: usize,
    first_label: usize,
    pub(super) nodes: &'a [Node],
    pub(super) labels: &'a [(u32, u32)],
}

// By hand, as a derived Clone asks for one of F.
impl<F> Clone for Tree<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for Tree<'_, F> {}

impl<'a, F> Tree<'a, F> {
    #[inline]
    pub(super) fn children(&self, node: usize) -> &'a [u32] {
        let at = self.first + node;
        let start = at.checked_sub(1).map_or(0, |before| self.all.nodes[before].end);
        &self.all.children[start as usize..self.nodes[node].end as usize]
    }

    /// A node's last parent in the tree; [`NONE`] for the root.
    #[inline]
    pub(super) fn last_use(&self, node: u32) -> u32 {
        self.all.last_uses[self.first + node as usize]
    }

    /// The nodes with a label, ascending.
    #[inline]
    pub(super) fn group(&self, label: u32) -> &'a [u32] {
        let at = self.first_label + label as usize;
        let start = at.checked_sub(1).map_or(0, |before| self.all.labels[before].1);
        &self.all.by_label[start as usize..self.all.labels[at].1 as usize]
    }
}

/// Up to so many pairs of children are compared one by one: about where a table of
/// labels begins to pay.
const MAX_COMPARED: usize = 64;
/// Values of a pair beyond which the places of those that nobody asks for any more are
/// used again (64 kB); below, appending is cheaper.
const MAX_APPENDED: usize = 1 << 13;
/// Values that a pair may need at a time (2 GB of floats); of larger numbers fewer.
const MAX_VALUES: usize = 1 << 28;

impl<F: Factors> Trees<F> {
    /// Reads trees in time by their distinct nodes, n log n for the labels.
    ///
    /// # Errors
    /// [`crate::Error::Capacity`] beyond 2^32 nodes or edges.
    pub(crate) fn new(
        nodes: &Nodes,
        decay: f64,
        mu: F,
        leaf_factor: f64,
        max_children: Option<usize>,
        roots: &[NodeId],
        context: &Context,
    ) -> Result<Self> {
        let counts = TreeCounts::read(nodes, roots, context)?;
        let mut trees = Self {
            weights: Weights::new(decay, mu.same().unwrap_or(1.0), leaf_factor),
            mu,
            decay,
            leaf_factor,
            longest: max_children.unwrap_or(usize::MAX),
            n_labels: nodes.labels().len(),
            powers: Vec::new(),
            ends: Vec::new(),
            content: Vec::new(),
            nodes: Vec::new(),
            last_uses: Vec::new(),
            children: Vec::new(),
            labels: Vec::new(),
            by_label: Vec::new(),
        };
        let hash = |name: &str| Seed::FIXED.hash_bytes(name.as_bytes());
        let hashes = memory::collect(nodes.labels().names().map(hash))?;
        let mut widest = 0;
        let known = roots.iter().map(|r| r.index() + 1).max().unwrap_or(0);
        let (mut number, mut order) = (memory::filled(NONE, known)?, Vec::new());
        for tree in 0..counts.len() {
            context.check()?;
            let (first, mut content) = (trees.nodes.len(), 0);
            order.clear();
            // 1. Nodes in the order in which a walk leaves them.
            for (node, count) in counts.iter(tree) {
                let below = nodes.children(node);
                let (label, local) = (nodes.label(node), order.len() as u32);
                for child in below {
                    let child = number[child.index()];
                    memory::push(&mut trees.children, child)?;
                    trees.last_uses[first + child as usize] = local;
                    content = Seed::FIXED.mix(content, u64::from(child));
                }
                content = Seed::FIXED
                    .mix(content, hashes[label.index()] ^ below.len() as u64);
                widest = widest.max(below.len());
                number[node.index()] = local;
                let end = new_id(trees.children.len(), "edges, tree by tree")?;
                let node = Node { label: 0, rank: 0, count, end };
                memory::push(&mut trees.nodes, node)?;
                memory::push(&mut trees.last_uses, NONE)?;
                memory::push(&mut order, (label.0, local))?;
            }
            // 2. Nodes by label.
            order.sort_unstable();
            let first_label = trees.labels.len();
            for same in order.chunk_by(|a, b| a.0 == b.0) {
                let label = (trees.labels.len() - first_label) as u32;
                for (rank, &(_, local)) in same.iter().enumerate() {
                    let node = &mut trees.nodes[first + local as usize];
                    (node.label, node.rank) = (label, rank as u32);
                    memory::push(&mut trees.by_label, local)?;
                }
                let end = trees.by_label.len() as u32;
                memory::push(&mut trees.labels, (same[0].0, end))?;
            }
            let end = new_id(trees.nodes.len(), "distinct subtrees, tree by tree")?;
            memory::push(&mut trees.ends, (end, trees.labels.len() as u32))?;
            memory::push(&mut trees.content, (order.len() as u32, content))?;
        }
        grow_powers(&mut trees.powers, decay, widest)?;
        Ok(trees)
    }

    pub(super) fn tree(&self, number: usize) -> Tree<'_, F> {
        let start = number.checked_sub(1).map_or((0, 0), |before| self.ends[before]);
        let end = self.ends[number];
        Tree {
            all: self,
            first: start.0 as usize,
            first_label: start.1 as usize,
            nodes: &self.nodes[start.0 as usize..end.0 as usize],
            labels: &self.labels[start.1 as usize..end.1 as usize],
        }
    }
}

impl<F: Factors> Pairs for Trees<F> {
    type Scratch<N: Number> = Scratch<N>;

    fn pair<N: Number>(
        &self,
        a: usize,
        b: usize,
        scratch: &mut Scratch<N>,
        context: &Context,
    ) -> Result<N> {
        let is_ordered = self.content[a] <= self.content[b];
        let (a, b) = if is_ordered { (a, b) } else { (b, a) };
        let (a, b) = (self.tree(a), self.tree(b));
        scratch.match_labels(self.n_labels, a.labels, b.labels)?;
        scratch.values.clear();
        scratch.free.clear();
        memory::reach(&mut scratch.starts, a.nodes.len(), 0)?;
        let zero = N::of(0.0);
        let mut total = zero;
        for (v, node) in a.nodes.iter().enumerate() {
            let label = scratch.labels[node.label as usize];
            if label == NONE {
                continue;
            }
            // (Not copied where they are one for all labels: 2 % of the time.)
            let own_weights;
            let (label_mu, weights) = if let Some(mu) = self.mu.same() {
                (mu, &self.weights)
            } else {
                let mu = self.mu.of(a.labels[node.label as usize].0);
                own_weights = self.weights.times(mu);
                (mu, &own_weights)
            };
            let mu = N::parameter(label_mu, 1);
            let start = scratch.values.len();
            scratch.starts[v] = start as u32;
            let (below, group) = (a.children(v), b.group(label));
            let mut own = zero;
            for &u in group {
                let other = b.children(u as usize);
                let leaves = (below.is_empty(), other.is_empty());
                let mut value: N = self.single(weights, label_mu, leaves);
                if !below.is_empty() && !other.is_empty() {
                    let sum =
                        self.children_sum((a, below), (b, other), scratch, context)?;
                    value = value + mu * sum;
                }
                memory::push(&mut scratch.values, value)?;
                own = own + value * N::of(f64::from(b.nodes[u as usize].count));
            }
            total = total + own * N::of(f64::from(node.count));
            if scratch.values.len() > scratch.few_values {
                scratch.chains.step(group.len(), context)?;
                scratch.recycle(a, v, (label, start))?;
                scratch.check_values()?;
            }
        }
        Ok(total)
    }

    fn is_tiny(&self) -> bool {
        self.is_tiny()
    }
}

impl<F: Factors> Trees<F> {
    /// See [`Pairs::is_tiny`]. (A μ of 0 is none.)
    pub(super) fn is_tiny(&self) -> bool {
        let mut used = self.labels.iter().map(|&(label, _)| self.mu.of(label));
        let single = |mu: f64| mu * (self.decay * self.decay);
        used.any(|mu| mu > 0.0 && single(mu) < SMALLEST)
    }

    /// What the fragment of one node weighs: μ λ² f^(leaves / 2) with the leaf factor f.
    #[inline]
    pub(super) fn single<N: Number>(
        &self,
        weights: &Weights,
        mu: f64,
        (leaf_u, leaf_v): (bool, bool),
    ) -> N {
        let weight = weights.of(leaf_u, leaf_v);
        if weight < SMALLEST {
            // Floats may have lost it.
            let (mu, decay) = (N::parameter(mu, 1), N::parameter(self.decay, 0));
            let single = mu * (decay * decay);
            let factor = self.leaf_factor;
            return match (leaf_u, leaf_v) {
                (false, false) => single,
                (true, true) => single * N::parameter(factor, 2),
                _ => {
                    let root = factor.sqrt();
                    single * N::depending(root, || [0.0, 0.0, 0.5 / root])
                }
            };
        }
        N::depending(weight, || {
            let leaves = f64::from(u8::from(leaf_u) + u8::from(leaf_v));
            let by_factor = leaves / 2.0 * weight / self.leaf_factor;
            [2.0 * weight / self.decay, weight / mu, by_factor]
        })
    }

    /// The sum over subsequences of two nodes' children, all of whose D are known.
    #[inline]
    fn children_sum<N: Number>(
        &self,
        (a, below): (Tree<'_, F>, &[u32]),
        (b, other): (Tree<'_, F>, &[u32]),
        scratch: &mut Scratch<N>,
        context: &Context,
    ) -> Result<N> {
        let Scratch { labels, starts, values, matches, table, chains, .. } = scratch;
        // The label of a child of a by its number in b.
        let label = |&child: &u32| labels[a.nodes[child as usize].label as usize];
        let d = |x: u32, y: u32| {
            values[(starts[x as usize] + b.nodes[y as usize].rank) as usize]
        };
        if below.len() == 1 || other.len() == 1 {
            // No subsequence is longer.
            let mut sum = N::of(0.0);
            for x in below {
                let label = label(x);
                let same = |y: &&u32| b.nodes[**y as usize].label == label;
                for &y in other.iter().filter(same) {
                    sum = sum + d(*x, y);
                }
            }
            return Ok(sum);
        }
        if below.len() * other.len() <= MAX_COMPARED {
            matches.clear();
            for (i, x) in below.iter().enumerate() {
                let label = label(x);
                if label == NONE {
                    continue;
                }
                for (j, &y) in other.iter().enumerate() {
                    if b.nodes[y as usize].label == label {
                        // bounded: MAX_COMPARED
                        matches.push((i as u32, j as u32, d(*x, y)));
                    }
                }
            }
            let shape = (below.len(), other.len());
            return chains.sum_list(matches, shape, &self.powers, self.longest);
        }
        let labels = other.iter().map(|&y| b.nodes[y as usize].label);
        table.fill(b.labels.len(), labels.clone())?;
        let sum = chains.sum(
            below.iter().map(label),
            table,
            &self.powers,
            self.longest,
            |i, j| d(below[i as usize], other[j as usize]),
            context,
        );
        table.clear(labels);
        chains.step(below.len() + other.len(), context)?;
        sum
    }
}

impl<N> Default for Scratch<N> {
    fn default() -> Self {
        Self {
            labels: Vec::new(),
            in_b: Vec::new(),
            starts: Vec::new(),
            values: Vec::new(),
            free: Vec::new(),
            matches: Vec::new(),
            table: Table::default(),
            chains: Chains::default(),
            few_values: MAX_APPENDED,
        }
    }
}

impl<N> Scratch<N> {
    /// Finds the labels of a among those of b through a table of all labels. (In a merge
    /// of the two lists, what comes next cannot be predicted: together with short lists
    /// of matches summed on the spot this took GRCT from 319 to 238 ns per pair of
    /// trees, QC from 543 to 435, WSJ from 1,970 to 1,780.)
    #[inline]
    pub(super) fn match_labels(
        &mut self,
        n_labels: usize,
        a: &[(u32, u32)],
        b: &[(u32, u32)],
    ) -> Result<()> {
        self.labels.clear();
        memory::reserve(&mut self.labels, a.len())?;
        memory::reach(&mut self.in_b, n_labels, NONE)?;
        for (number, &(label, _)) in b.iter().enumerate() {
            self.in_b[label as usize] = number as u32;
        }
        let labels = a.iter().map(|&(label, _)| self.in_b[label as usize]);
        self.labels.extend(labels); // has room
        for &(label, _) in b {
            self.in_b[label as usize] = NONE;
        }
        Ok(())
    }

    pub(super) fn check_values(&self) -> Result<()> {
        if self.values.len() <= MAX_VALUES / size_of::<N>().div_ceil(16) {
            return Ok(());
        }
        let what = "values of D that one pair of trees needs at a time";
        Err(Error::Capacity { what, limit: MAX_VALUES as u64 })
    }

    /// Gives places of values that node `v` was the last to ask for back, and moves its
    /// own (of a label, the last ones) to such a place.
    fn recycle<F>(
        &mut self,
        a: Tree<'_, F>,
        v: usize,
        (label, start): (u32, usize),
    ) -> Result<()>
    where
        N: Copy,
    {
        let Self { labels, starts, values, free, .. } = self;
        let len = values.len() - start;
        let place = free.get_mut(label as usize).and_then(Vec::pop);
        if let Some(place) = place {
            values.copy_within(start.., place as usize);
            values.truncate(values.len() - len);
            starts[v] = place;
        }
        for &child in a.children(v) {
            let label = labels[a.nodes[child as usize].label as usize];
            // Once only, should a child stand here twice.
            if a.last_use(child) == v as u32 && label != NONE {
                let start = std::mem::replace(&mut starts[child as usize], NONE);
                if start != NONE {
                    memory::reach(free, label as usize + 1, Vec::new())?;
                    memory::push(&mut free[label as usize], start)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Scaled, naive};
    use super::*;
    use crate::Forest;
    use crate::corpus::{self, Random};
    use std::time::Duration;

    /// Parameters that the tests run through.
    #[derive(Debug, Clone, Copy)]
    struct Parameters {
        decay: f64,
        mu: f64,
        leaf_factor: f64,
        max_children: Option<usize>,
    }

    fn all_parameters() -> Vec<Parameters> {
        let mut all = Vec::new();
        for decay in [0.05, 0.4, 1.0] {
            for mu in [0.05, 0.4, 1.0] {
                for leaf_factor in [0.0, 0.5, 1.0, 5.0] {
                    for max_children in [None, Some(1), Some(2), Some(3)] {
                        all.push(Parameters { decay, mu, leaf_factor, max_children });
                    }
                }
            }
        }
        all
    }

    impl Parameters {
        fn naive(&self, forest: &Forest, a: usize, b: usize) -> f64 {
            let Self { decay, mu, leaf_factor, max_children } = *self;
            let kernel = PartialTree { decay, mu, leaf_factor, max_children };
            let roots = forest.roots();
            naive::kernel(&kernel, forest.nodes(), roots[a], roots[b])
        }

        fn trees(&self, forest: &Forest) -> Trees {
            let Self { decay, mu, leaf_factor, max_children } = *self;
            let roots = forest.roots();
            Trees::new(
                forest.nodes(),
                decay,
                mu,
                leaf_factor,
                max_children,
                roots,
                &Context::default(),
            )
            .unwrap()
        }
    }

    fn random_trees(n: usize, size: usize, seed: u64) -> Vec<String> {
        corpus::trees(&mut Random(seed), n, size)
    }

    #[track_caller]
    fn assert_close(value: f64, expected: f64, what: &dyn Fn() -> String) {
        let close = (value - expected).abs() <= 1e-10 * expected.abs();
        assert!(close, "{value}, not {expected}: {}", what());
    }

    #[test]
    fn single_pairs_agree_with_the_definition() {
        let mut n_pairs = 0;
        for (seed, parameters) in all_parameters().into_iter().enumerate() {
            let texts = random_trees(18, 14, seed as u64);
            let forest =
                Forest::from_bracket_items(texts.iter().map(String::as_str)).unwrap();
            let trees = parameters.trees(&forest);
            let (mut floats, mut scaled) = (Scratch::default(), Scratch::default());
            for a in 0..texts.len() {
                for b in 0..texts.len() {
                    let expected = parameters.naive(&forest, a, b);
                    let what = || format!("{parameters:?}\n{}\n{}", texts[a], texts[b]);
                    assert_close(
                        trees.pair(a, b, &mut floats, &Context::default()).unwrap(),
                        expected,
                        &what,
                    );
                    let value: Scaled =
                        trees.pair(a, b, &mut scaled, &Context::default()).unwrap();
                    assert_close(value.value(), expected, &what);
                    n_pairs += 1;
                }
            }
        }
        assert!(n_pairs >= 10_000, "{n_pairs}");
    }

    #[test]
    fn all_methods_give_the_same_sum() {
        let mut random = Random(1);
        for round in 0..300 {
            let (rows, columns) = (1 + random.below(40), 1 + random.below(40));
            let decay = [0.05, 0.4, 1.0][round % 3];
            let mut powers = Vec::new();
            grow_powers(&mut powers, decay, rows.max(columns)).unwrap();
            let density = [0.02, 0.3, 1.0][round % 5 % 3];
            let matches: Vec<(u32, u32, f64)> = (0..rows * columns)
                .filter_map(|at| {
                    let d = random.unit();
                    let (i, j) = ((at / columns) as u32, (at % columns) as u32);
                    (random.unit() < density).then_some((i, j, d))
                })
                .collect();
            let sum = |method: Method| {
                let mut chains = Chains::<f64>::default();
                chains.start(rows, columns, matches.len(), usize::MAX).unwrap();
                chains.method = method;
                chains.sums = vec![0.0; columns * 64 + 1];
                if method == Method::Grid {
                    chains.sums.truncate(columns);
                } else if method == Method::Tree {
                    chains.sums.truncate(columns + 1);
                }
                chains.stamps = vec![0; columns + 1];
                let mut total = 0.0;
                for same in matches.chunk_by(|a, b| a.0 == b.0) {
                    let row: Vec<_> = same.iter().map(|m| (m.1, m.2)).collect();
                    total += chains.row(same[0].0, &row, &powers);
                }
                total
            };
            let expected = sum(Method::List);
            for method in [Method::Grid, Method::Tree, Method::Lengths(41)] {
                assert_close(sum(method), expected, &|| format!("{method:?} {round}"));
            }
        }
    }

    #[test]
    fn pairs_overflow_to_infinity_and_not_in_scaled_numbers() {
        let wide = format!("(S {})", "a ".repeat(1200));
        let forest = Forest::from_bracket_items([wide.as_str()]).unwrap();
        let all =
            Parameters { decay: 1.0, mu: 1.0, leaf_factor: 1.0, max_children: None };
        let trees = all.trees(&forest);
        assert_eq!(
            trees
                .pair(0, 0, &mut Scratch::<f64>::default(), &Context::default())
                .unwrap(),
            f64::INFINITY
        );
        let value: Scaled =
            trees.pair(0, 0, &mut Scratch::default(), &Context::default()).unwrap();
        assert!((value.normalized(value, value) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn deep_and_very_wide_trees_are_no_problem() {
        let n = 100_000;
        let deep = format!("{}x{}", "(A ".repeat(n), ")".repeat(n));
        let words = |from: usize| {
            let words: Vec<_> =
                (from..from + 70_000).map(|w| format!("w{w}")).collect();
            format!("(S {})", words.join(" "))
        };
        let texts = [deep, "(A (A x))".into(), words(0), words(30_000)];
        let forest =
            Forest::from_bracket_items(texts.iter().map(String::as_str)).unwrap();
        let parameters =
            Parameters { decay: 0.4, mu: 0.4, leaf_factor: 1.0, max_children: None };
        let trees = parameters.trees(&forest);
        let mut scratch = Scratch::<f64>::default();
        assert!(trees.pair(0, 1, &mut scratch, &Context::default()).unwrap() > 0.0);
        // 40,000 words in the same order: chains of single steps, T -> d (1 + T).
        let d = 0.4 * 0.16;
        let value = trees.pair(2, 3, &mut scratch, &Context::default()).unwrap();
        let chain = d / (1.0 - d);
        let expected = 40_000.0 * d + d + 0.4 * 40_000.0 * chain;
        // Longer gaps add to it (λ^2 per word left out), the ends take a little away.
        assert!(value > expected && value < 1.1 * expected, "{value} {expected}");
    }

    /// Parameters, trees, and what KeLP has for each two that follow each other,
    /// normalised.
    fn kelp() -> Option<(Parameters, Forest, Vec<f64>)> {
        let texts = corpus::real("qc/dep_test.tsv.gz", 2)?;
        let scores = corpus::plain("qc/kelp_ptk_scores.txt")?;
        let forest =
            Forest::from_bracket_items(texts.iter().map(String::as_str)).unwrap();
        let kelp =
            Parameters { decay: 0.4, mu: 0.4, leaf_factor: 5.0, max_children: None };
        let scores: Vec<f64> = scores.lines().map(|s| s.parse().unwrap()).collect();
        assert_eq!((forest.len(), scores.len()), (500, 499));
        Some((kelp, forest, scores))
    }

    #[test]
    fn kelp_scores_are_reproduced() {
        let Some((kelp, forest, scores)) = kelp() else { return };
        let trees = kelp.trees(&forest);
        let mut scratch = Scratch::<f64>::default();
        let mut kernel =
            |a, b| trees.pair(a, b, &mut scratch, &Context::default()).unwrap();
        for (i, score) in scores.into_iter().enumerate() {
            let norm: f64 = kernel(i, i) * kernel(i + 1, i + 1);
            let value = kernel(i, i + 1) / norm.sqrt();
            assert!((value - score).abs() < 2e-7, "line {}: {value} {score}", i + 1);
        }
    }

    /// Places of values are used again where a pair needs many.
    #[test]
    fn recycled_values_change_no_bit_and_pairs_in_both_orders_are_one() {
        let texts = random_trees(60, 60, 7);
        let forest =
            Forest::from_bracket_items(texts.iter().map(String::as_str)).unwrap();
        let parameters =
            Parameters { decay: 0.4, mu: 0.4, leaf_factor: 2.0, max_children: None };
        let trees = parameters.trees(&forest);
        let mut usual = Scratch::<f64>::default();
        let mut thrifty = Scratch::<f64> { few_values: 0, ..Scratch::default() };
        let go_on = &Context::default();
        for a in 0..texts.len() {
            for b in 0..texts.len() {
                let value = trees.pair(a, b, &mut usual, go_on).unwrap();
                let other = trees.pair(b, a, &mut thrifty, go_on).unwrap();
                assert_eq!(value.to_bits(), other.to_bits(), "{a} {b}");
            }
        }
        let chain = format!("{}x{}", "(A ".repeat(3000), ")".repeat(3000));
        let forest = Forest::from_bracket_items([chain.as_str()]).unwrap();
        let trees = parameters.trees(&forest);
        assert!(trees.pair(0, 0, &mut thrifty, go_on).unwrap() > 0.0);
        // Of nine million values, those of some nodes at a time.
        assert!(thrifty.values.len() < 5 * 3001, "{}", thrifty.values.len());
    }

    /// Other trees before them give the nodes other ids, and labels other numbers.
    #[test]
    fn what_else_is_in_the_store_changes_no_bit() {
        let texts = random_trees(40, 60, 8);
        let before = ["(l9 (l2 l1) l0)", "(l7 (l1 l3 l2) (l0 l1) l5)", "(l3 (l0 l1))"];
        let all = before.into_iter().chain(texts.iter().map(String::as_str));
        let forests = [
            Forest::from_bracket_items(texts.iter().map(String::as_str)).unwrap(),
            Forest::from_bracket_items(all).unwrap().select(3..43),
        ];
        let parameters =
            Parameters { decay: 0.3, mu: 0.4, leaf_factor: 2.0, max_children: None };
        let [own, other] = forests.map(|forest| {
            let trees = parameters.trees(&forest);
            let mut scratch = Scratch::<f64>::default();
            let pairs = (0..1600).map(|at| (at / 40, at % 40));
            pairs
                .map(|(a, b)| {
                    trees.pair(a, b, &mut scratch, &Context::default()).unwrap()
                })
                .map(f64::to_bits)
                .collect::<Vec<_>>()
        });
        assert_eq!(own, other);
    }

    #[test]
    #[ignore = "slow: `make test-slow` runs it"]
    fn long_pairs_ask_whether_to_go_on_and_leave_their_scratch_good() {
        let bush = |n: usize| format!("(S {})", "a ".repeat(n));
        let chain = |n: usize| format!("{}x{}", "(A ".repeat(n), ")".repeat(n));
        let texts = [bush(3000), bush(2999), chain(2000), chain(1999), bush(5)];
        let forest =
            Forest::from_bracket_items(texts.iter().map(String::as_str)).unwrap();
        for max_children in [None, Some(30)] {
            let parameters =
                Parameters { decay: 0.4, mu: 0.4, leaf_factor: 1.0, max_children };
            let trees = parameters.trees(&forest);
            let mut scratch = Scratch::<f64>::default();
            for (a, b) in [(0, 1), (2, 3)] {
                let mut n_calls = 0;
                let count = Context::watched(|_, _| {
                    n_calls += 1;
                    Ok(())
                })
                .with_interval(Duration::ZERO);
                trees.pair(a, b, &mut scratch, &count).unwrap();
                drop(count);
                assert!(n_calls >= 3, "{max_children:?} {a} {b}: {n_calls}");
                let mut left = n_calls / 2;
                let stop = &Context::watched(|_, _| {
                    left -= 1;
                    if left > 0 { Ok(()) } else { Err(Error::Interrupted) }
                })
                .with_interval(Duration::ZERO);
                let stopped = trees.pair(a, b, &mut scratch, stop);
                assert_eq!(stopped, Err(Error::Interrupted));
                let after =
                    trees.pair(0, 4, &mut scratch, &Context::default()).unwrap();
                let fresh =
                    trees.pair(0, 4, &mut Scratch::default(), &Context::default());
                assert_eq!(Ok(after), fresh);
            }
        }
    }
}
