//! The nearest trees of each tree.
//!
//! Row by row: each row is computed, and those that may be among its k largest values are
//! evaluated. Among the trees of one corpus, normalised, most pairs are ruled out instead
//! by the bound of [`blocks`]:
//!
//! 1. *Seeds.* Each tree looks into its cheapest lists, and the best of what it finds are
//!    evaluated, and then, twice, those which these know: the nearest of near trees are
//!    near. So it knows k others, and the least of their values, its *threshold*, is one that
//!    its k nearest reach.
//! 2. *Order.* Trees are ordered by threshold, the highest first. A pair matters if it
//!    reaches the lower of its two thresholds, which is that of the later tree. So each
//!    tree asks those before it, with its own threshold, and each pair is met once.
//! 3. *Search.* What [`lists`](super::lists) lets through is evaluated, for both trees.
//!    Where that is too much, rows of the lower triangle say what is to be evaluated.
//! 4. *Rest.* Trees without a vector, or with a threshold that rules nothing out, compute
//!    their rows, for themselves and for all others.
//!
//! Thresholds are fixed before the search, and of what is found the k best are taken by
//! value and number: answers do not depend on threads.
//!
//! # Complexity
//! At worst that of all rows. Memory: the vectors, all trees made ready for single pairs,
//! and some k answers for each.

use std::borrow::Cow;
use std::sync::Mutex;

use super::lists::{self, Lists};
use super::{
    Answer, Corpus, Finder, MANY, Rows, SAMPLE, SLACK, Scratch, Values, blocks, out_of,
};
use crate::gram::{Options, Report, Watch, scale, source};
use crate::kernel::{IndexOf, Indexed, Worker};
use crate::memory::{filled, room};
use crate::threads::{Pause, Threads, WatchedThreads};
use crate::{Forest, Kernel, NodeId, Result};

/// Trees from which on the bound is tried: rows of 8,000 functions take less time than it.
pub(super) const LARGE: usize = 30_000;
/// Thresholds below this rule nothing out.
const LOW: f64 = 0.01;
/// How often the nearest that are known tell of their nearest.
const ROUNDS: usize = 2;
/// Trees without threshold: with more than one in so many all compute rows; so few are
/// evaluated with all others.
const WEAK: usize = 4;
const FEW: usize = 64;
/// Trees whose answers are held at a time.
const BATCH: usize = 1 << 12;

/// The nearest trees of each tree of X.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Nearest {
    /// How many each tree has.
    pub k: usize,
    /// Trees of Y (of X, where there is no Y), `k` after `k`, the nearest first.
    pub indices: Vec<usize>,
    /// Their kernels.
    pub values: Vec<f64>,
}

/// The `k` trees of Y that have the largest kernels with each tree of X, the lower index
/// first where kernels are equal; without Y those of X, without the tree itself. Fewer,
/// where there are not so many.
///
/// # Errors
/// As [`join`].
pub fn top_k(
    kernel: &dyn Kernel,
    x: &Forest,
    y: Option<&Forest>,
    k: usize,
    options: Options,
    watch: &mut Watch<'_>,
) -> Result<(Nearest, Report)> {
    let corpus = Corpus::new(kernel, x, y, options)?;
    if corpus.columns.len() >= LARGE
        && let Some(found) = corpus.nearest(k, watch)?
    {
        return Ok(found);
    }
    let finder = corpus.by_rows(f64::NEG_INFINITY, true, watch)?;
    top_k_by(&corpus, &finder, k, watch)
}

/// The same by rows.
pub(super) fn top_k_by(
    corpus: &Corpus<'_>,
    finder: &Finder<'_>,
    k: usize,
    watch: &mut Watch<'_>,
) -> Result<(Nearest, Report)> {
    let mut nearest = corpus.blank(k)?;
    // A tree that is left out of its own neighbours is found as well.
    let wanted = nearest.k + usize::from(corpus.is_self());
    let rows: Vec<u32> = (0..corpus.rows().len() as u32).collect();
    let find = |x: usize, scratch: &mut Scratch, pause: &mut Pause<'_>| {
        finder.find_nearest(corpus, x, wanted, scratch, pause)
    };
    let each = &mut |rows: &[u32], answers: Vec<Vec<Answer>>| {
        for (&row, answers) in rows.iter().zip(answers) {
            corpus.write(row as usize, answers, &mut nearest);
        }
        Ok(())
    };
    corpus.answer(finder, &rows, find, |_, _| (), each, watch)?;
    Ok((nearest, finder.report(corpus)))
}

impl Corpus<'_> {
    /// Where the answers will go.
    fn blank(&self, k: usize) -> Result<Nearest> {
        let (n_rows, n) = (self.rows().of.len(), self.columns.of.len());
        let k = k.min(n.saturating_sub(usize::from(self.is_self())));
        let len = n_rows.saturating_mul(k);
        Ok(Nearest { k, indices: filled(0, len)?, values: filled(0.0, len)? })
    }

    /// The nearest trees by the bound; None where it does not help.
    pub(super) fn nearest(
        &self,
        k: usize,
        watch: &mut Watch<'_>,
    ) -> Result<Option<(Nearest, Report)>> {
        // Blocks of other kernels let too many pairs through; rows of the subtree kernel take
        // less time than the search.
        let is_for = |kernel: &Indexed| matches!(kernel.index, IndexOf::SubsetTree(_));
        let kernel = self.kernel.indexed().filter(is_for);
        let Some(kernel) = kernel.filter(|_| self.options.normalize && self.is_self())
        else {
            return Ok(None);
        };
        let mut nearest = self.blank(k)?;
        let (n, k, n_jobs) = (self.columns.len(), nearest.k, self.options.n_jobs);
        if k == 0 {
            return Ok(None);
        }
        // 1. Seeds.
        let (vectors, n_blocks) = {
            let mut going = || watch(0, n);
            let mut threads = WatchedThreads::new(n_jobs, n, &mut going);
            blocks::vectors(&kernel, &self.nodes, &self.columns.roots, &mut threads)?
        };
        let has_vector = |vector: &[_]| !vector.is_empty() && !blocks::is_open(vector);
        let known: Vec<u32> =
            (0..n as u32).filter(|&x| has_vector(vectors.get(x as usize))).collect();
        let mut lists = Lists::new(vectors, n_blocks)?;
        lists.arrange(known.clone())?;
        let values = Values::new(self, None, &mut || watch(0, n))?;
        let mut best = Best::new(n, k)?;
        let seeds = |x: usize, scratch: &mut Asking<'_>, pause: &mut Pause<'_>| {
            lists.seeds(x, k + 2, &mut scratch.lists, pause)
        };
        self.each_found(&known, &values, seeds, &mut best, &mut |_| watch(0, n))?;
        for _ in 0..ROUNDS {
            let thresholds = best.thresholds();
            let near = best.trees();
            let closer = |x: usize, scratch: &mut Asking<'_>, pause: &mut Pause<'_>| {
                let scratch = &mut scratch.lists;
                lists.closer(x, thresholds[x], k, &near, scratch, pause)
            };
            self.each_found(&known, &values, closer, &mut best, &mut |_| watch(0, n))?;
        }
        // 2. Order.
        let thresholds = best.thresholds();
        let (strong, weak): (Vec<u32>, Vec<u32>) = (0..n as u32).partition(|&x| {
            thresholds[x as usize] > LOW && known.binary_search(&x).is_ok()
        });
        // Those without kernel are no one's.
        let (zero, weak): (Vec<u32>, Vec<u32>) =
            weak.into_iter().partition(|&x| values.selfs[x as usize].is_zero());
        if weak.len() > FEW && weak.len() * WEAK > n {
            return Ok(None);
        }
        let near = best.trees();
        let is_new = |x: usize, t: u32| {
            !near[x].contains(&t) && !near[t as usize].contains(&(x as u32))
        };
        let mut is_strong = filled(false, n)?;
        strong.iter().for_each(|&x| is_strong[x as usize] = true);
        let threshold = |x: &u32| thresholds[*x as usize];
        let mut order = strong;
        order.sort_unstable_by(|a, b| {
            threshold(b).total_cmp(&threshold(a)).then(a.cmp(b))
        });
        lists.arrange(order.clone())?;
        // 3. Search.
        let search = |x: usize, scratch: &mut Asking<'_>, pause: &mut Pause<'_>| {
            let mut found = lists.find(x, thresholds[x], &mut scratch.lists, pause)?;
            found.retain(|&t| is_new(x, t));
            // Single pairs hang up the tree with the higher root: the same one, where it is x.
            found.sort_unstable_by_key(|&t| self.root(t as usize));
            Ok(found)
        };
        let going = &mut |done| watch(done, n);
        if self.is_worth_it(&order, &values, search)? {
            self.each_found(&order, &values, search, &mut best, going)?;
        } else {
            let rows = self.some_rows(&order, &values, false, going)?;
            let search = |x: usize, scratch: &mut Asking<'_>, pause: &mut Pause<'_>| {
                let (at, row) = (lists.place(x), &mut scratch.row.row);
                row.resize(at + 1, 0.0);
                rows.row(at, row, pause)?;
                let low = thresholds[x] - SLACK * thresholds[x];
                // What is no number is for the single pair to say.
                let may_do = |t: &usize| row[*t] >= low || row[*t].is_nan();
                let found = (0..at).filter(may_do).map(|t| order[t]);
                Ok(found.filter(|&t| is_new(x, t)).collect())
            };
            self.each_found(&order, &values, search, &mut best, going)?;
        }
        // 4. Rest.
        let done = order.len();
        let going = &mut |more| watch(done + more, n);
        if weak.len() <= FEW {
            let all = |x: usize, _: &mut Asking<'_>, _: &mut Pause<'_>| {
                Ok((0..n as u32).filter(|&y| y as usize != x).collect())
            };
            self.each_found(&weak, &values, all, &mut best, going)?;
        } else {
            let all: Vec<u32> = (0..n as u32).collect();
            let rows = Finder::Rows(self.some_rows(&all, &values, true, going)?);
            let of_row = |x: usize, scratch: &mut Asking<'_>, pause: &mut Pause<'_>| {
                let row = &mut scratch.row;
                let mut found = rows.find_nearest(self, x, k + 1, row, pause)?;
                // Those whose nearest it may be; weak ones ask themselves.
                let may_be = |&y: &u32| {
                    let (value, least) = (row.row[y as usize], thresholds[y as usize]);
                    is_strong[y as usize]
                        && (value >= least - SLACK * least || value.is_nan())
                };
                found.extend((0..n as u32).filter(may_be));
                found.retain(|&y| y as usize != x);
                found.sort_unstable();
                found.dedup();
                Ok(found)
            };
            self.each_found(&weak, &values, of_row, &mut best, going)?;
        }
        for x in zero {
            let others = (0..n as u32).filter(|&y| y != x).take(k);
            others.for_each(|tree| best.offer(x, Answer { tree, value: 0.0 }));
        }
        let mut of = values.singles.worker();
        for x in 0..n {
            let mut answers = best.take(x);
            let value = values.get(self, x, x, &mut of, &mut || watch(n, n))?;
            answers.push(Answer { tree: x as u32, value });
            self.write(x, answers, &mut nearest);
        }
        let is_zero =
            |place: &usize| values.selfs[self.columns.of[*place] as usize].is_zero();
        let zeros: Vec<usize> = (0..self.columns.of.len()).filter(is_zero).collect();
        watch(n, n)?;
        Ok(Some((nearest, Report { zero_rows: zeros.clone(), zero_columns: zeros })))
    }

    /// Rows of some trees with each other, whole or the lower triangle.
    fn some_rows(
        &self,
        trees: &[u32],
        values: &Values,
        whole: bool,
        watch: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<Rows<'static>> {
        let root = |&tree: &u32| self.columns.roots[tree as usize];
        let roots: Vec<NodeId> = trees.iter().map(root).collect();
        let rows = whole.then_some(&*roots);
        let (n_jobs, watch) = (self.options.n_jobs, &mut |_, _| watch(0));
        let source = source(self.kernel, &self.nodes, &roots, rows, n_jobs, watch)?;
        let of = trees.iter().map(|&tree| scale(values.selfs[tree as usize]));
        let of: Vec<f64> = of.collect();
        let (scales, least) =
            ([Cow::Owned(of.clone()), Cow::Owned(of)], f64::NEG_INFINITY);
        Ok(Rows { source, scales, values: None, least })
    }

    /// Whether the search rules out enough, as some trees have it.
    fn is_worth_it(
        &self,
        order: &[u32],
        values: &Values,
        search: impl Fn(usize, &mut Asking<'_>, &mut Pause<'_>) -> Result<Vec<u32>>,
    ) -> Result<bool> {
        let mut scratch = Asking::new(values);
        let (mut n_found, mut n_pairs) = (0, 0);
        for at in (0..order.len()).step_by(order.len().div_ceil(SAMPLE).max(1)) {
            let x = order[at] as usize;
            n_found += search(x, &mut scratch, &mut || Ok(()))?.len();
            n_pairs += at;
        }
        Ok(2 * n_found * MANY <= n_pairs || n_pairs <= MANY * SAMPLE)
    }

    /// Evaluates what `find` finds for some trees, and tells both.
    fn each_found<'v>(
        &self,
        trees: &[u32],
        values: &'v Values,
        find: impl Fn(usize, &mut Asking<'v>, &mut Pause<'_>) -> Result<Vec<u32>> + Sync,
        best: &mut Best,
        watch: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<()> {
        let team = Threads::new(self.options.n_jobs, trees.len());
        let mut scratch: Vec<_> =
            (0..team.size()).map(|_| Asking::new(values)).collect();
        for (number, part) in trees.chunks(BATCH).enumerate() {
            let slots: Vec<_> = part.iter().map(|_| Mutex::default()).collect();
            team.run(
                part.len(),
                &mut scratch,
                |at, scratch, pause| {
                    let x = part[at] as usize;
                    let found = find(x, scratch, pause)?;
                    let mut answers = Vec::with_capacity(found.len());
                    for tree in found {
                        pause()?;
                        let of = &mut scratch.of;
                        let value = values.get(self, x, tree as usize, of, pause)?;
                        answers.push(Answer { tree, value });
                    }
                    if let Ok(mut slot) = slots[at].lock() {
                        *slot = answers;
                    }
                    Ok(())
                },
                &mut |done| watch(number * BATCH + done),
            )?;
            for (&x, slot) in part.iter().zip(slots) {
                for answer in out_of::<Vec<Answer>>(slot) {
                    best.offer(x, answer);
                    best.offer(answer.tree, Answer { tree: x, ..answer });
                }
            }
        }
        Ok(())
    }

    /// Writes the nearest of what was found for a row's tree to all its places.
    fn write(&self, x: usize, mut answers: Vec<Answer>, out: &mut Nearest) {
        answers.sort_unstable_by(|a, b| b.value.total_cmp(&a.value));
        let k = out.k;
        // Those of equal value by where they stand, whichever tree they are.
        let mut all: Vec<(u32, f64)> = Vec::new();
        for equal in answers.chunk_by(|a, b| a.value == b.value) {
            if all.len() > k {
                break;
            }
            let start = all.len();
            for answer in equal {
                let places = self.column_places.get(answer.tree as usize);
                all.extend(places.iter().map(|&place| (place, answer.value)));
            }
            all[start..].sort_unstable_by_key(|item| item.0);
        }
        let rows = if self.is_self() { &self.column_places } else { &self.row_places };
        for &row in rows.get(x) {
            let others = all.iter().filter(|item| !self.is_self() || item.0 != row);
            for (at, &(column, value)) in others.take(k).enumerate() {
                out.indices[row as usize * k + at] = column as usize;
                out.values[row as usize * k + at] = value;
            }
        }
    }
}

/// What one worker keeps from tree to tree.
struct Asking<'v> {
    lists: lists::Scratch,
    row: Scratch,
    of: Worker<'v>,
}

impl<'v> Asking<'v> {
    fn new(values: &'v Values) -> Self {
        let (lists, row) = (lists::Scratch::default(), Scratch::default());
        Self { lists, row, of: values.singles.worker() }
    }
}

impl Finder<'_> {
    /// The columns that may be among so many nearest; those without kernel as far as they
    /// are needed.
    fn find_nearest(
        &self,
        corpus: &Corpus<'_>,
        x: usize,
        wanted: usize,
        scratch: &mut Scratch,
        pause: &mut Pause<'_>,
    ) -> Result<Vec<u32>> {
        let n = corpus.columns.len();
        let Self::Rows(rows) = self else {
            return Ok(Vec::new());
        };
        let Scratch { row, order, .. } = scratch;
        room(n, 24)?;
        row.resize(n, 0.0);
        rows.row(x, row, pause)?;
        // What is no number is for the single pair to say.
        let of = |tree: &u32| {
            let value = row[*tree as usize];
            if value.is_nan() { f64::INFINITY } else { value }
        };
        order.clear();
        order.extend(0..n as u32);
        if wanted >= n {
            return Ok(order.clone());
        }
        order.select_nth_unstable_by(wanted, |a, b| {
            of(b).total_cmp(&of(a)).then(a.cmp(b))
        });
        let last = order[..wanted].iter().map(of).fold(f64::INFINITY, f64::min);
        if last == 0.0 {
            // Those that have no kernel at all are chosen already: trees are numbered in
            // the order in which they first stand.
            return Ok(order[..wanted].to_vec());
        }
        let low = last - SLACK * last.abs();
        Ok((0..n as u32).filter(|tree| of(tree) >= low).collect())
    }
}

/// The best that are known of each tree.
#[derive(Debug)]
struct Best {
    k: usize,
    of: Vec<Vec<Answer>>,
}

impl Best {
    fn new(n: usize, k: usize) -> Result<Self> {
        room(n, size_of::<Vec<Answer>>() + 2 * k.min(n) * size_of::<Answer>())?;
        Ok(Self { k, of: vec![Vec::new(); n] })
    }

    /// Tells a tree of another.
    fn offer(&mut self, tree: u32, answer: Answer) {
        let known = &mut self.of[tree as usize];
        known.push(answer);
        if known.len() >= 2 * self.k + 32 {
            Self::cut(known, self.k);
        }
    }

    fn cut(known: &mut Vec<Answer>, k: usize) {
        known.sort_unstable_by(|a, b| {
            b.value.total_cmp(&a.value).then(a.tree.cmp(&b.tree))
        });
        known.dedup_by_key(|answer| answer.tree);
        known.truncate(k);
    }

    /// By tree the value of its k-th best; less than any where fewer are known.
    fn thresholds(&mut self) -> Vec<f64> {
        let k = self.k;
        let of = |known: &mut Vec<Answer>| {
            Self::cut(known, k);
            known.get(k - 1).map_or(f64::NEG_INFINITY, |last| last.value)
        };
        self.of.iter_mut().map(of).collect()
    }

    /// By tree those that are known.
    fn trees(&self) -> Vec<Vec<u32>> {
        let of = |known: &Vec<Answer>| known.iter().map(|answer| answer.tree).collect();
        self.of.iter().map(of).collect()
    }

    fn take(&mut self, tree: usize) -> Vec<Answer> {
        let mut known = std::mem::take(&mut self.of[tree]);
        Self::cut(&mut known, self.k);
        known
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::SubsetTree;

    /// Trees that share parts, some equal, some of one node, some with nothing in common.
    fn texts(
        n: usize,
        n_labels: usize,
        n_alone: usize,
        state: &mut u64,
    ) -> Vec<String> {
        let mut below = |n: usize| {
            *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (*state >> 33) as usize % n
        };
        let mut all: Vec<String> = Vec::new();
        for at in 0..n {
            let mut words = |tag: &str| format!("({tag} w{})", below(n_labels));
            let (a, b, c) = (words("A"), words("B"), words("A"));
            all.push(match below(8) {
                0 => format!("(S {a} {b})"),
                1 => format!("(S {a} (T {b} {c}))"),
                2 => format!("(S (T {a} {b}) (T {b} {c}))"),
                3 => format!("(T {a} (S {b} {c}) {a})"),
                4 => a,
                5 => "(w)".to_owned(),
                6 if at > 0 => all[below(at)].clone(),
                _ => format!("(S {c} (T {a} {b}) {b})"),
            });
        }
        all.extend((0..n_alone).map(|at| format!("(X{at} (Y{at} z{at}))")));
        all
    }

    #[test]
    fn the_bound_misses_none_of_the_nearest() {
        let (mut state, on) = (13, &mut |_: usize, _: usize| Ok(()));
        for (round, (n, n_labels, n_alone)) in [
            (14, 3, 0),
            (40, 9, 2),
            (150, 2, 5),
            (150, 40, 3),
            (400, 30, 80),
            (90, 5, 70),
        ]
        .into_iter()
        .cycle()
        .take(24)
        .enumerate()
        {
            let texts = texts(n, n_labels, n_alone, &mut state);
            let x =
                Forest::from_bracket_items(texts.iter().map(String::as_str)).unwrap();
            let decay = [0.2, 0.4, 1.0][round % 3];
            let kernel = SubsetTree::new(decay).with_leaf_weight([0.0, 0.3][round % 2]);
            for n_jobs in [1, 3] {
                let options =
                    Options::default().with_normalize(true).with_n_jobs(Some(n_jobs));
                let corpus = Corpus::new(&kernel, &x, None, options).unwrap();
                for k in [1, 4] {
                    let finder = corpus.by_rows(f64::NEG_INFINITY, true, on).unwrap();
                    let expected = top_k_by(&corpus, &finder, k, on).unwrap();
                    let found = corpus.nearest(k, on).unwrap();
                    // Where most are alone, rows are computed.
                    if let Some((nearest, report)) = found {
                        assert_eq!(nearest, expected.0, "{round} {k}");
                        assert_eq!(report.zero_rows, expected.1.zero_rows);
                    } else {
                        assert_eq!(n, 90);
                    }
                }
            }
        }
    }
}
