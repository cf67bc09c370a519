//! Sums over the ways to match two child lists, by the cheapest of four methods.

use crate::kernel::Number;
use crate::{Context, Result, memory};

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
    pub(crate) fn times(&self, mu: f64) -> Self {
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
    if powers.len() > 1 { power(powers, 1) } else { N::from_f64(1.0) }
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
    /// Σ over all chains of at most `longest` matches between the children of two nodes:
    /// `rows` are, child by child of the one, the labels that it matches ([`NONE`]: none),
    /// each with a note; `table` holds the other's, and `d(row, column, note)` is D of two of
    /// them. `context` is asked on the way.
    pub(crate) fn sum<T: Copy, L: Iterator<Item = (u32, T)>>(
        &mut self,
        rows: impl Iterator<Item = L> + Clone,
        table: &Table,
        powers: &[f64],
        longest: usize,
        mut d: impl FnMut(u32, u32, T) -> N,
        context: &Context,
    ) -> Result<N> {
        let zero = N::from_f64(0.0);
        // 1. How many rows match at all, and how often: the method depends on it.
        let (mut n_rows, mut n_matches) = (0, 0);
        for labels in rows.clone() {
            let count: usize =
                labels.map(|(label, _)| table.count(label) as usize).sum();
            n_rows += usize::from(count > 0);
            n_matches += count;
        }
        if n_matches == 0 {
            return Ok(zero);
        }
        self.start(n_rows, table.next.len(), n_matches, longest)?;
        let mut total = zero;
        // 2. Row by row. The list is taken out meanwhile, as rows are entered into
        // `self`.
        let mut matches = std::mem::take(&mut self.matches);
        for (row, labels) in (0..).zip(rows) {
            matches.clear();
            let mut n_labels = 0;
            for (label, note) in labels {
                let columns = table.positions(label);
                let new = columns.map(|column| (column, d(row, column, note)));
                memory::extend(&mut matches, new)?;
                n_labels += 1;
            }
            // They come label by label, and columns have to ascend.
            if n_labels > 1 {
                matches.sort_unstable_by_key(|entry| entry.0);
            }
            let mut steps = n_labels;
            if !matches.is_empty() {
                total = total + self.row(row, &matches, powers);
                steps += self.per_row(matches.len());
            }
            self.step(steps, context)?;
        }
        self.matches = matches;
        Ok(total)
    }

    /// About how many steps a row of so many matches takes.
    fn per_row(&self, n_matches: usize) -> usize {
        match self.method {
            Method::List => self.found.len() * n_matches,
            Method::Grid => self.columns,
            Method::Tree => 64 * n_matches,
            Method::Lengths(longest) => longest * self.columns,
        }
    }

    /// The same for a list of few matches (row, column, D) in ascending order.
    #[inline]
    pub(crate) fn sum_list(
        &mut self,
        matches: &mut [(u32, u32, N)],
        shape: (usize, usize),
        powers: &[f64],
        longest: usize,
    ) -> Result<N> {
        let mut total = N::from_f64(0.0);
        let shortest = shape.0.min(shape.1);
        // With one row or column no chain is longer than one match.
        if shortest == 1 {
            return Ok(matches.iter().fold(total, |total, &(_, _, d)| total + d));
        }
        let steps = matches.len() * matches.len() / 2;
        // Here if that takes no more than a grid would: no sums have to be set up then.
        if longest >= shortest && steps <= 2 * shape.0 * shape.1 {
            for at in 0..matches.len() {
                let (i, j, d) = matches[at];
                let mut t = d;
                // Matches come row by row, so what may stand before one comes before
                // it.
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
    fn start(
        &mut self,
        rows: usize,
        columns: usize,
        matches: usize,
        longest: usize,
    ) -> Result<()> {
        let zero = N::from_f64(0.0);
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
                // Chains of the full length are not continued and need no sums.
                let n = (longest - 1).saturating_mul(columns);
                memory::reach(&mut self.sums, n, zero)
            }
        }
    }

    /// Enters the next row's matches (column, D), both ascending; returns Σ T over them.
    #[inline]
    fn row(&mut self, row: u32, matches: &[(u32, N)], powers: &[f64]) -> N {
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
        // Matches of one row do not follow one another.
        let before = self.found.len();
        let mut total = N::from_f64(0.0);
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
        let (decay, zero): (N, N) = (decay_of(powers), N::from_f64(0.0));
        // S(i-1, j-1), R(i, j-1).
        let (mut above, mut run, mut total) = (zero, zero, zero);
        // Matches ascend with the columns, so one is at hand at a time.
        let mut matches = matches.iter().copied();
        let mut next = matches.next();
        for (column, sum) in self.sums.iter_mut().enumerate() {
            run = run * decay;
            // T takes S of the row and the column before; only then does `above` move
            // on.
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
        let mut total = N::from_f64(0.0);
        self.found.clear();
        for &(column, d) in matches {
            let mut t = d;
            // The columns before this one are node `column`, and those that are left as
            // its lowest bits go.
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
            // The nodes that sum this column, up to the root.
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
        let (decay, zero): (N, N) = (decay_of(powers), N::from_f64(0.0));
        let mut total = zero;
        // The longest first, as each length continues the shorter one's rows before.
        for length in (1..=longest).rev() {
            // By length: what the chains of one match less have, and this length's own.
            let (shorter, current) =
                self.sums.split_at_mut((length - 1) * self.columns);
            let shorter = &shorter[shorter.len().saturating_sub(self.columns)..];
            let extended = |column: u32, d: N| match (length, column.checked_sub(1)) {
                (1, _) => d,
                (_, Some(before)) => d * (shorter[before as usize] * skipped),
                (_, None) => N::from_f64(0.0),
            };
            if length == longest {
                let chains = matches.iter().map(|&(column, d)| extended(column, d));
                total = chains.fold(total, |total, t| total + t);
                continue;
            }
            let mut run = zero;
            let mut matches = matches.iter().copied();
            let mut next = matches.next();
            for (column, sum) in current[..self.columns].iter_mut().enumerate() {
                run = run * decay;
                if let Some((_, d)) = next.filter(|m| m.0 as usize == column) {
                    let t = extended(column as u32, d);
                    total = total + t;
                    run = run + t;
                    next = matches.next();
                }
                // S decays over the rows that were skipped, and by this row.
                *sum = *sum * skipped * decay + run;
            }
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::Random;

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
                let close = (sum(method) - expected).abs() <= 1e-10 * expected.abs();
                assert!(close, "{method:?} {round}");
            }
        }
    }
}
