//! What is alike: nearest trees, and all pairs of trees above a threshold.
//!
//! Answers are those of looking at every pair, without looking at every pair where the
//! kernel is normalised: see [`blocks`] for the bound, [`prune`] for what makes use of it.
//! Kernels that are not, and kernels without an index, are computed row by row.
//!
//! **One value.** Whichever way a pair was found, its value is computed as that of a single
//! pair, as [`pairs`] has it; that value decides whether it is in a join, and where it
//! stands among the nearest. So answers do not depend on threads, nor on which trees were
//! there first.
//!
//! # Complexity
//! Memory: the index, [`MOST_AT_ONCE`] pairs of a join, the answer of a batch of rows
//! (each different tree once, however often it stands), and for each thread some numbers
//! per tree.

mod best;
mod blocks;
mod index;
mod prune;

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use crate::gram::{Distinct, Options, Report, Source, norms, prepare, scale, source};
use crate::kernel::{Prepared, Scaled, Worker};
use crate::memory::{filled, push, reserve, room};
use crate::ragged::{Filler, Ragged};
use crate::threads::{Tasks, Threads};
use crate::{Context, Error, Forest, Kernel, NodeId, Nodes, Result};
use best::Best;
pub use index::Index;

/// Rows and single pairs of one pair of trees differ by rounding: by less than this, in
/// parts of the value.
const SLACK: f64 = 1e-9;
/// Cells of rows that are computed before it is asked whether there is enough to hand on,
/// and how many pairs are enough.
const BATCH: usize = 1 << 23;
const ENOUGH: usize = 1 << 21;
/// How many pairs a [`Sink`] is given at most in one call: 2^20, 24 MB.
pub const MOST_AT_ONCE: usize = 1 << 20;
/// Rows whose trees are made ready together, at most some more than these.
const ROWS: usize = 1 << 16;
/// Rows that the bound is tried on, and one of how many pairs it may let through.
const SAMPLE: usize = 64;
const MANY: usize = 20;

/// Pairs of trees with their values.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Pairs {
    /// Trees of X.
    pub rows: Vec<usize>,
    /// Trees of Y (of X, where there is no Y).
    pub columns: Vec<usize>,
    /// Their kernels.
    pub values: Vec<f64>,
}

impl Pairs {
    /// Adds others.
    ///
    /// # Errors
    /// [`Error::Memory`], with nothing changed.
    pub fn append(&mut self, other: Self) -> Result<()> {
        self.reserve(other.rows.len())?;
        self.rows.extend(other.rows);
        self.columns.extend(other.columns);
        self.values.extend(other.values);
        Ok(())
    }

    fn reserve(&mut self, more: usize) -> Result<()> {
        reserve(&mut self.rows, more)?;
        reserve(&mut self.columns, more)?;
        reserve(&mut self.values, more)
    }

    /// Puts the pairs in the order of their rows and columns.
    ///
    /// # Errors
    /// [`Error::Memory`], with nothing changed.
    pub fn sort(&mut self) -> Result<()> {
        let places = self.rows.iter().zip(&self.columns);
        if places.is_sorted() {
            return Ok(());
        }
        room(self.rows.len(), 32)?;
        let mut order: Vec<usize> = (0..self.rows.len()).collect();
        order.sort_unstable_by_key(|&at| (self.rows[at], self.columns[at]));
        self.rows = order.iter().map(|&at| self.rows[at]).collect();
        self.columns = order.iter().map(|&at| self.columns[at]).collect();
        self.values = order.iter().map(|&at| self.values[at]).collect();
        Ok(())
    }
}

/// Where answers go.
pub type Sink<'a> = dyn FnMut(Pairs) -> Result<()> + 'a;

/// Calls `sink` with all pairs of a tree of X and one of Y whose kernel is at least
/// `least`, some at a time; without Y with those of two trees i < j of X, each once.
///
/// Each call has at most [`MOST_AT_ONCE`] pairs, whatever the trees, in ascending order. No
/// two calls have the same pair; they may have the same tree of X. Calls do not depend on
/// the number of threads.
///
/// # Errors
/// [`Error::Parameter`] for a kernel or a threshold out of range, [`Error::Overflow`] for
/// a value too large for a float, [`Error::Capacity`], and what `sink` and `context` return.
pub fn join(
    kernel: &dyn Kernel,
    x: &Forest,
    y: Option<&Forest>,
    least: f64,
    options: Options,
    sink: &mut Sink<'_>,
    context: &Context,
) -> Result<Report> {
    check_least(least)?;
    let corpus = Corpus::new(kernel, x, y, options, context)?;
    let finder = corpus.finder(least, context)?;
    join_by(&corpus, &finder, least, sink, context)
}

fn check_least(least: f64) -> Result<()> {
    if !least.is_nan() {
        return Ok(());
    }
    let (name, expected) = ("min_similarity", "a number");
    Err(Error::Parameter { name, expected, got: least.to_string() })
}

fn join_by(
    corpus: &Corpus<'_>,
    finder: &Finder<'_>,
    least: f64,
    sink: &mut Sink<'_>,
    context: &Context,
) -> Result<Report> {
    let rows: Vec<u32> = (0..corpus.rows().len() as u32).collect();
    let find = |x: usize, scratch: &mut Scratch, context: &Context| {
        finder.find(corpus, x, scratch, context)
    };
    let keep = |_: usize, answers: &mut Vec<Answer>| {
        answers.retain(|answer| answer.value >= least);
    };
    let each = &mut |rows: &[u32], answers: Vec<Vec<Answer>>| {
        let mut chunk = Chunk { pairs: Vec::new(), sink, context };
        for (&tree, answers) in rows.iter().zip(&answers) {
            corpus.spread(tree as usize, answers, &mut |pair| chunk.push(pair))?;
        }
        chunk.hand_on()
    };
    corpus.answer(finder, &rows, 0, (find, keep), each, context)?;
    Ok(finder.report(corpus))
}

/// Pairs on their way to a sink: many equal trees have more of them than memory holds.
struct Chunk<'a, 'b> {
    pairs: Vec<(u32, u32, f64)>,
    sink: &'a mut Sink<'b>,
    context: &'a Context<'a>,
}

impl Chunk<'_, '_> {
    fn push(&mut self, pair: (u32, u32, f64)) -> Result<()> {
        if self.pairs.len() == MOST_AT_ONCE {
            self.hand_on()?;
        }
        push(&mut self.pairs, pair)
    }

    fn hand_on(&mut self) -> Result<()> {
        self.context.check_now()?;
        if self.pairs.is_empty() {
            return Ok(());
        }
        self.pairs.sort_unstable_by_key(|&(row, column, _)| (row, column));
        let mut out = Pairs::default();
        out.reserve(self.pairs.len())?;
        for (row, column, value) in self.pairs.drain(..) {
            out.rows.push(row as usize);
            out.columns.push(column as usize);
            out.values.push(value);
        }
        (self.sink)(out)
    }
}

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
    context: &Context,
) -> Result<(Nearest, Report)> {
    let corpus = Corpus::new(kernel, x, y, options, context)?;
    let finder = corpus.by_rows(f64::NEG_INFINITY, true, context)?;
    top_k_by(&corpus, &finder, k, context)
}

fn top_k_by(
    corpus: &Corpus<'_>,
    finder: &Finder<'_>,
    k: usize,
    context: &Context,
) -> Result<(Nearest, Report)> {
    let (n_rows, n) = (corpus.rows().of.len(), corpus.columns.of.len());
    let k = k.min(if corpus.is_self() { n.saturating_sub(1) } else { n });
    let len = n_rows.saturating_mul(k);
    let (indices, values) = (filled(0, len)?, filled(0.0, len)?);
    let mut nearest = Nearest { k, indices, values };
    let rows: Vec<u32> = (0..corpus.rows().len() as u32).collect();
    let best = match finder {
        Finder::Rows(rows) if corpus.is_self() => Some(corpus.best(rows, k, context)?),
        _ => None,
    };
    let find = |x: usize, scratch: &mut Scratch, context: &Context| {
        if let Some(found) = best.as_ref().and_then(|best| corpus.take(best, x)) {
            return Ok(found);
        }
        // A tree that is left out of its own neighbours is found as well.
        let wanted = if corpus.is_self() { k + 1 } else { k };
        finder.find_nearest(corpus, x, wanted, scratch, context)
    };
    let each = &mut |rows: &[u32], answers: Vec<Vec<Answer>>| {
        for (&row, answers) in rows.iter().zip(answers) {
            corpus.write(row as usize, answers, &mut nearest);
        }
        Ok(())
    };
    let done_before = best.as_ref().map_or(0, |_| Corpus::by_halves(rows.len()));
    corpus.answer(finder, &rows, done_before, (find, |_, _| ()), each, context)?;
    Ok((nearest, finder.report(corpus)))
}

/// A column with its kernel.
#[derive(Debug, Clone, Copy)]
struct Answer {
    tree: u32,
    value: f64,
}

/// The kernels of some pairs: of `i[n]` of X and `j[n]` of Y (of X, where there is no Y).
///
/// Fast where pairs with the same tree of X stand together.
///
/// # Errors
/// [`Error::Parameter`] for a kernel out of range, [`Error::Length`] for lists of different
/// lengths, [`Error::Array`] for a tree that is not there, [`Error::Overflow`],
/// [`Error::Capacity`], and what `context` returns.
pub fn pairs(
    kernel: &dyn Kernel,
    x: &Forest,
    y: Option<&Forest>,
    (i, j): (&[usize], &[usize]),
    options: Options,
    context: &Context,
) -> Result<(Vec<f64>, Report)> {
    const PER_TASK: usize = 256;
    if i.len() != j.len() {
        let expected = format!("{}, as i", i.len());
        return Err(Error::Length { array: "j", expected, got: j.len() });
    }
    for (array, list, len) in [("i", i, x.len()), ("j", j, y.unwrap_or(x).len())] {
        if let Some(index) = list.iter().position(|&tree| tree >= len) {
            let (expected, got) = (format!("below {len}"), list[index].to_string());
            return Err(Error::Array { array, index, expected, got });
        }
    }
    // Trees that nobody asks for are not made ready.
    let (rows, columns) = match y {
        Some(_) => (ascending(i), ascending(j)),
        None => (Vec::new(), ascending(&[i, j].concat())),
    };
    let chosen = |of: &Forest, which: &[usize]| of.select(which.iter().copied());
    let corpus = match y {
        Some(y) => Corpus::new(
            kernel,
            &chosen(x, &rows),
            Some(&chosen(y, &columns)),
            options,
            context,
        )?,
        None => Corpus::new(kernel, &chosen(x, &columns), None, options, context)?,
    };
    let rows = if y.is_some() { &rows } else { &columns };
    let number = |of: &Distinct, chosen: &[usize], tree: usize| {
        chosen.binary_search(&tree).map_or(0, |at| of.of[at] as usize)
    };
    let values = Values::new(&corpus, None, context)?;
    let mut out = vec![0.0; i.len()];
    let parts: Vec<_> = out.chunks_mut(PER_TASK).map(Mutex::new).collect();
    let threads = Threads::new(context, parts.len());
    let mut workers: Vec<_> =
        (0..threads.size()).map(|_| values.singles.worker()).collect();
    threads.run(
        &Tasks::of_rows(i.len(), PER_TASK),
        &mut workers,
        |part, of, context| {
            let Ok(mut out) = parts[part].lock() else { return Ok(()) };
            for (at, value) in (part * PER_TASK..).zip(out.iter_mut()) {
                let a = number(corpus.rows(), rows, i[at]);
                let b = number(&corpus.columns, &columns, j[at]);
                *value =
                    values.get(&corpus, a, b, of, context).map_err(
                        |error| match error {
                            Error::Overflow { .. } => {
                                Error::Overflow { row: i[at], column: j[at] }
                            }
                            other => other,
                        },
                    )?;
                context.check_now()?;
            }
            Ok(())
        },
    )?;
    drop(parts);
    let mut report = Report::default();
    let is_zero = |tree: usize| values.selfs.get(tree).is_some_and(|k| k.is_zero());
    for at in 0..i.len() {
        let a = number(corpus.rows(), rows, i[at]);
        let b = number(&corpus.columns, &columns, j[at]);
        if is_zero(corpus.first_row + a) {
            report.zero_rows.push(i[at]);
        }
        if is_zero(b) {
            report.zero_columns.push(j[at]);
        }
    }
    report.zero_rows = ascending(&report.zero_rows);
    report.zero_columns = ascending(&report.zero_columns);
    context.report(i.len(), i.len())?;
    Ok((out, report))
}

/// Takes the answers of some rows, and asks on the way whether to go on.
type Each<'a> = dyn FnMut(&[u32], Vec<Vec<Answer>>) -> Result<()> + 'a;

/// How candidates are found.
enum Finder<'a> {
    /// By the bound.
    Pruned(Arc<Pruned>),
    /// Row by row.
    Rows(Rows<'a>),
}

/// Vectors for one threshold, and which trees have no kernel with themselves.
struct Pruned(prune::Index, Vec<bool>);

struct Rows<'a> {
    source: Box<dyn Source + 'a>,
    /// Where values are normalised, by column and by row: 1 / sqrt(K(t,t)).
    scales: [Cow<'a, [f64]>; 2],
    /// All trees made ready for single pairs; None: those that are needed will be.
    values: Option<Values>,
    /// What a join asks for.
    least: f64,
}

impl Rows<'_> {
    /// A row of the first columns; NaN where floats do not do.
    fn row(&self, x: usize, row: &mut [f64], context: &Context) -> Result<()> {
        self.source.row(x, row, context)?;
        let [columns, rows] = &self.scales;
        let Some(own) = rows.get(x) else { return Ok(()) };
        for (value, other) in row.iter_mut().zip(&**columns) {
            let factor = own * other;
            *value = if factor == 0.0 { 0.0 } else { *value * factor };
        }
        Ok(())
    }
}

/// What one worker keeps from row to row.
#[derive(Default)]
struct Scratch {
    pruned: prune::Scratch,
    row: Vec<f64>,
    order: Vec<u32>,
}

impl Finder<'_> {
    /// Finds the columns that may be answers of a join; where rows are columns, those up
    /// to the row.
    fn find(
        &self,
        corpus: &Corpus<'_>,
        x: usize,
        scratch: &mut Scratch,
        context: &Context,
    ) -> Result<Vec<u32>> {
        let n = corpus.columns.len();
        let end = if corpus.is_self() { x } else { n };
        let mut found = match self {
            Self::Pruned(pruned) => {
                let Pruned(index, _) = &**pruned;
                index.find(corpus.first_row + x, end, &mut scratch.pruned, context)?
            }
            Self::Rows(rows) => {
                // The lower triangle has the tree itself.
                let row = &mut scratch.row;
                room(n, 16)?;
                row.resize(n.min(end + 1), 0.0);
                rows.row(x, row, context)?;
                let low = margin(rows.least);
                // What is no number is for the single pair to say.
                let may_do = |&tree: &u32| {
                    let value = row[tree as usize];
                    value >= low || value.is_nan()
                };
                (0..end as u32).filter(may_do).collect()
            }
        };
        if corpus.is_self() && corpus.column_places.get(x).len() > 1 {
            found.push(x as u32);
        }
        Ok(found)
    }

    /// The columns that may be among so many nearest; those without kernel as far as they
    /// are needed.
    fn find_nearest(
        &self,
        corpus: &Corpus<'_>,
        x: usize,
        wanted: usize,
        scratch: &mut Scratch,
        context: &Context,
    ) -> Result<Vec<u32>> {
        let n = corpus.columns.len();
        let Self::Rows(rows) = self else { return Ok(Vec::new()) };
        let Scratch { row, order, .. } = scratch;
        room(n, 24)?;
        row.resize(n, 0.0);
        rows.row(x, row, context)?;
        let of = |tree: &u32| row[*tree as usize];
        let is_known = |tree: &u32| of(tree).is_finite();
        order.clear();
        order.extend((0..n as u32).filter(is_known));
        if wanted >= order.len() {
            return Ok((0..n as u32).collect());
        }
        order.select_nth_unstable_by(wanted, |a, b| {
            of(b).total_cmp(&of(a)).then(a.cmp(b))
        });
        order.truncate(wanted);
        let last = order.iter().map(of).fold(f64::INFINITY, f64::min);
        // What is no number is for the single pair to say.
        let unknown =
            |trees: std::ops::Range<u32>| trees.filter(|tree| !is_known(tree));
        if last == 0.0 {
            // Those that have no kernel at all are chosen already: trees are numbered in
            // the order in which they first stand.
            return Ok(order.iter().copied().chain(unknown(0..n as u32)).collect());
        }
        let low = margin(last);
        let may_do = |tree: &u32| of(tree) >= low || !is_known(tree);
        Ok((0..n as u32).filter(may_do).collect())
    }

    fn report(&self, corpus: &Corpus<'_>) -> Report {
        let Self::Rows(Rows { scales: [columns, rows], .. }) = self else {
            let of = |trees: &Distinct, first: usize| {
                let Self::Pruned(pruned) = self else { return Vec::new() };
                let is_zero =
                    |place: &usize| pruned.1[first + trees.of[*place] as usize];
                (0..trees.of.len()).filter(is_zero).collect()
            };
            return Report {
                zero_rows: of(corpus.rows(), corpus.first_row),
                zero_columns: of(&corpus.columns, 0),
            };
        };
        Report {
            zero_rows: corpus.rows().zeros(rows),
            zero_columns: corpus.columns.zeros(columns),
        }
    }
}

/// Trees made ready for single pairs.
struct Values {
    singles: Box<dyn Prepared>,
    /// Where not all are ready those that are, ascending.
    number: Option<Vec<u32>>,
    /// Where values are normalised: self-kernels.
    selfs: Vec<Scaled>,
}

impl Values {
    /// Makes some trees ready, or all of them.
    fn new(
        corpus: &Corpus<'_>,
        wanted: Option<&[u32]>,
        context: &Context,
    ) -> Result<Self> {
        let root = |&tree: &u32| corpus.root(tree as usize);
        let (mut roots, number) = match wanted {
            None => ((0..corpus.len() as u32).map(|tree| root(&tree)).collect(), None),
            Some(wanted) => (
                wanted.iter().map(root).collect::<Vec<NodeId>>(),
                Some(wanted.to_vec()),
            ),
        };
        let mut nodes = Cow::Borrowed(&corpus.nodes);
        if let (Some(others), Some(wanted)) = (&corpus.row_nodes, wanted) {
            // Stores are apart: these trees go to one of their own.
            let mut own = Nodes::default();
            for (root, &tree) in roots.iter_mut().zip(wanted) {
                context.check_now()?;
                let is_row = tree as usize >= corpus.first_row;
                let store = if is_row { others } else { &corpus.nodes };
                *root = own.absorb_one(store, *root, context)?;
            }
            nodes = Cow::Owned(Arc::new(own));
        }
        let singles = prepare(corpus.kernel, &nodes, &roots, context)?;
        let mut selfs = Vec::new();
        if corpus.options.normalize {
            let place = |t: usize| {
                let tree = number.as_ref().map_or(t, |n: &Vec<u32>| n[t] as usize);
                match (tree.checked_sub(corpus.columns.len()), &corpus.rows) {
                    (Some(row), Some(rows)) => (rows.first[row] as usize, "X"),
                    (_, Some(_)) => (corpus.columns.first[tree] as usize, "Y"),
                    (_, None) => (corpus.columns.first[tree] as usize, "X"),
                }
            };
            selfs = norms(&*singles, roots.len(), place, context)?;
        }
        Ok(Self { singles, number, selfs })
    }

    /// The kernel of a row's tree and a column's. Where these are the same trees it does not
    /// matter which comes first.
    fn get(
        &self,
        corpus: &Corpus<'_>,
        x: usize,
        y: usize,
        of: &mut Worker<'_>,
        context: &Context,
    ) -> Result<f64> {
        let (a, b) = match corpus.rows {
            None if corpus.root(x) < corpus.root(y) => (y, x),
            _ => (corpus.first_row + x, y),
        };
        let place = |n: &Vec<u32>, tree| n.binary_search(&(tree as u32)).unwrap_or(0);
        let number =
            |tree: usize| self.number.as_ref().map_or(tree, |n| place(n, tree));
        let (a, b) = (number(a), number(b));
        let Some((&own, &other)) = self.selfs.get(a).zip(self.selfs.get(b)) else {
            let value = of(a, b, context)?.value();
            return if value.is_finite() {
                Ok(value)
            } else {
                Err(corpus.overflow(x, y))
            };
        };
        if own.is_zero() || other.is_zero() {
            return Ok(0.0);
        }
        if corpus.same[x] as usize == y {
            return Ok(1.0);
        }
        Ok(of(a, b, context)?.cosine(own, other).min(self.singles.most()))
    }
}

/// Trees of X and Y, each different one once, in one store. They are numbered, the columns
/// before the rows.
struct Corpus<'a> {
    kernel: &'a dyn Kernel,
    options: Options,
    nodes: Arc<Nodes>,
    /// That of the rows, where it is another.
    row_nodes: Option<Arc<Nodes>>,
    columns: Arc<Distinct>,
    /// None: the columns.
    rows: Option<Distinct>,
    first_row: usize,
    /// Per row the column that is the same tree, or [`u32::MAX`].
    same: Vec<u32>,
    /// By column, by row: where it stands.
    column_places: Arc<Ragged<u32>>,
    row_places: Ragged<u32>,
}

impl<'a> Corpus<'a> {
    fn new(
        kernel: &'a dyn Kernel,
        x: &Forest,
        y: Option<&Forest>,
        options: Options,
        context: &Context,
    ) -> Result<Self> {
        kernel.check()?;
        context.advance(0, x.len())?;
        let both = y.map(|y| y.try_union_store(x, context)).transpose()?;
        let (columns, rows) = match &both {
            Some((y, x)) => (y, Some(x)),
            None => (x, None),
        };
        let nodes = Arc::clone(columns.nodes());
        let columns = Distinct::new(columns.roots());
        let rows = rows.map(|rows| Distinct::new(rows.roots()));
        let same = match &rows {
            Some(rows) => rows.among(&columns),
            None => (0..columns.len() as u32).collect(),
        };
        Ok(Self {
            kernel,
            options,
            nodes,
            row_nodes: None,
            first_row: if rows.is_some() { columns.len() } else { 0 },
            same,
            column_places: Arc::new(places(&columns)?),
            row_places: rows.as_ref().map(places).transpose()?.unwrap_or_default(),
            columns: Arc::new(columns),
            rows,
        })
    }

    fn is_self(&self) -> bool {
        self.rows.is_none()
    }

    fn rows(&self) -> &Distinct {
        self.rows.as_ref().unwrap_or(&self.columns)
    }

    fn len(&self) -> usize {
        self.columns.len() + self.rows.as_ref().map_or(0, Distinct::len)
    }

    fn root(&self, tree: usize) -> NodeId {
        let n = self.columns.len();
        if tree < n { self.columns.roots[tree] } else { self.rows().roots[tree - n] }
    }

    fn overflow(&self, x: usize, y: usize) -> Error {
        let (rows, columns) = (self.rows(), &self.columns);
        Error::Overflow {
            row: rows.first[x] as usize,
            column: columns.first[y] as usize,
        }
    }

    /// What finds pairs of at least so much.
    fn finder(&self, least: f64, context: &Context) -> Result<Finder<'static>> {
        match self.pruned(least, context)? {
            Some(pruned) => Ok(Finder::Pruned(pruned)),
            None => self.by_rows(least, !self.is_self(), context),
        }
    }

    /// The bound, where it helps.
    fn pruned(&self, least: f64, context: &Context) -> Result<Option<Arc<Pruned>>> {
        let is_wanted = self.options.normalize && least > 0.0;
        let kernel = self.kernel.indexed().filter(|_| is_wanted);
        let Some(kernel) = kernel.filter(blocks::has_blocks) else { return Ok(None) };
        let rows = self.rows.as_ref().map(|rows| &*rows.roots);
        let all = [&*self.columns.roots, rows.unwrap_or_default()].concat();
        let n = self.columns.len();
        let threads = Threads::for_trees(context, all.len());
        let (vectors, n_blocks) =
            blocks::vectors(&kernel, &self.nodes, &all, &threads)?;
        let zeros = vectors.iter().map(<[_]>::is_empty).collect();
        let index = prune::Index::new(vectors, n_blocks, n, least, &threads)?;
        let pruned = Arc::new(Pruned(index, zeros));
        let finder = Finder::Pruned(Arc::clone(&pruned));
        // A bound that lets many pairs through is no help: rows take less for each.
        let (mut scratch, mut n_found, mut n_pairs) = (Scratch::default(), 0, 0);
        let n_rows = self.rows().len();
        for x in (0..n_rows).step_by(n_rows.div_ceil(SAMPLE).max(1)) {
            context.check_now()?;
            n_found += finder.find(self, x, &mut scratch, context)?.len();
            n_pairs += if self.is_self() { x } else { n };
        }
        if n_found * MANY > n_pairs && n_pairs > MANY * SAMPLE {
            return Ok(None);
        }
        Ok(Some(pruned))
    }

    /// Rows, whole or the lower triangle.
    fn by_rows(
        &self,
        least: f64,
        whole: bool,
        context: &Context,
    ) -> Result<Finder<'static>> {
        let n_rows = self.rows().len();
        let columns = &*self.columns.roots;
        let values = Values::new(self, None, context)?;
        let rows = whole.then_some(&*self.rows().roots);
        let source = source(self.kernel, &self.nodes, columns, rows, context)?;
        let scales: Vec<f64> = values.selfs.iter().map(|&value| scale(value)).collect();
        let cut = |range: std::ops::Range<usize>| {
            Cow::Owned(scales.get(range).unwrap_or_default().to_vec())
        };
        let scales =
            [cut(0..columns.len()), cut(self.first_row..self.first_row + n_rows)];
        Ok(Finder::Rows(Rows { source, scales, values: Some(values), least }))
    }

    /// Computes the values of what `find` finds for some rows, has `keep` take its choice,
    /// and hands the answers to `each`, in order and some rows at a time. As much as
    /// `done_before` rows take has been done.
    fn answer(
        &self,
        finder: &Finder<'_>,
        rows: &[u32],
        done_before: usize,
        (find, keep): (
            impl Fn(usize, &mut Scratch, &Context) -> Result<Vec<u32>> + Sync,
            impl Fn(usize, &mut Vec<Answer>) + Sync,
        ),
        each: &mut Each<'_>,
        context: &Context,
    ) -> Result<()> {
        let n = rows.len();
        let threads = Threads::new(context, n);
        let mut scratch: Vec<_> =
            (0..threads.size()).map(|_| Scratch::default()).collect();
        let batch = (BATCH / self.columns.len().max(1)).clamp(64, 1 << 13);
        let (mut first, mut found, mut n_found) = (0, Vec::new(), 0);
        for (number, part) in rows.chunks(batch).enumerate() {
            // 1. What may be an answer, until there is enough of it.
            let start = number * batch;
            let slots: Vec<_> = part.iter().map(|_| Mutex::default()).collect();
            let so_far = |rows: usize| done_before + rows * (n - done_before) / n;
            let tasks = Tasks::of_rows(part.len(), 1);
            threads.run(
                &tasks.among(so_far(start)..so_far(start + part.len()), n),
                &mut scratch,
                |at, scratch, context| {
                    let mut found = find(part[at] as usize, scratch, context)?;
                    found.sort_unstable();
                    if let Ok(mut slot) = slots[at].lock() {
                        *slot = found;
                    }
                    Ok(())
                },
            )?;
            let end = start + part.len();
            found.extend(slots.into_iter().map(out_of::<Vec<u32>>));
            n_found += found[start - first..].iter().map(Vec::len).sum::<usize>();
            if n_found < ENOUGH && end - first < ROWS && end < n {
                continue;
            }
            // 2. Its values, and the answers that are made of them.
            room(n_found, 2 * size_of::<Answer>() + size_of::<(u32, u32, f64)>())?;
            let part = &rows[first..end];
            let some;
            let values = if let Finder::Rows(Rows { values: Some(values), .. }) = finder
            {
                values
            } else {
                let wanted = self.involved(part, &found);
                some = Values::new(self, Some(&wanted), context)?;
                &some
            };
            let slots: Vec<_> = part.iter().map(|_| Mutex::default()).collect();
            let mut workers: Vec<_> =
                (0..threads.size()).map(|_| values.singles.worker()).collect();
            threads.run(
                &Tasks::untold(part.len()),
                &mut workers,
                |at, of, context| {
                    let x = part[at] as usize;
                    let mut answers = Vec::with_capacity(found[at].len());
                    for &tree in &found[at] {
                        context.check_now()?;
                        let value = values.get(self, x, tree as usize, of, context)?;
                        answers.push(Answer { tree, value });
                    }
                    keep(x, &mut answers);
                    if let Ok(mut slot) = slots[at].lock() {
                        *slot = answers;
                    }
                    Ok(())
                },
            )?;
            let answers = slots.into_iter().map(out_of).collect();
            each(part, answers)?;
            (first, n_found) = (end, 0);
            found.clear();
        }
        context.report(n, n)
    }

    /// What each tree is offered by the lower half of the rows, each pair computed once.
    fn best(&self, rows: &Rows<'_>, k: usize, context: &Context) -> Result<Best> {
        let n = self.columns.len();
        let best = Best::new(n, k.min(n.saturating_sub(1)).max(1))?;
        let team = Threads::new(context, n);
        let mut scratch: Vec<Vec<f64>> = vec![Vec::new(); team.size()];
        team.run(
            &Tasks::of_rows(n, 1).among(0..Self::by_halves(n), n),
            &mut scratch,
            |x, row, context| {
                reserve(row, n.saturating_sub(row.len()))?;
                row.resize(n, 0.0);
                // The lower triangle has the tree itself.
                rows.row(x, &mut row[..=x], context)?;
                best.row(x, &row[..x])
            },
        )?;
        Ok(best)
    }

    /// How much of the work that is done with so many rows by halves.
    fn by_halves(done: usize) -> usize {
        done - done / 8
    }

    /// The columns that may be among the nearest of a tree, and the tree; None where its row
    /// has to say.
    fn take(&self, best: &Best, x: usize) -> Option<Vec<u32>> {
        let (mut found, missing) = best.take(x)?;
        if missing > 0 {
            // The others have a kernel of 0, or a negative one if the kernel can be so.
            self.kernel.indexed()?;
            let is_known: HashSet<u32> = found.iter().copied().collect();
            let is_other = |t: &u32| *t as usize != x && !is_known.contains(t);
            let all = 0..self.columns.len() as u32;
            found.extend(all.filter(is_other).take(missing));
        }
        found.push(x as u32);
        Some(found)
    }

    /// The trees of some rows and of what was found for them, ascending.
    fn involved(&self, rows: &[u32], found: &[Vec<u32>]) -> Vec<u32> {
        let mut trees: Vec<u32> = found.iter().flatten().copied().collect();
        let asks = rows.iter().zip(found).filter(|(_, found)| !found.is_empty());
        trees.extend(asks.map(|(&row, _)| self.first_row as u32 + row));
        trees.sort_unstable();
        trees.dedup();
        trees
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

    /// Hands on for all places of a row's tree what was found.
    fn spread(
        &self,
        x: usize,
        answers: &[Answer],
        out: &mut dyn FnMut((u32, u32, f64)) -> Result<()>,
    ) -> Result<()> {
        let rows = if self.is_self() { &self.column_places } else { &self.row_places };
        for &row in rows.get(x) {
            for &Answer { tree, value } in answers {
                let mut columns = self.column_places.get(tree as usize);
                if self.is_self() && tree as usize == x {
                    // Equal trees meet twice.
                    columns =
                        &columns[columns.partition_point(|&other| other <= row)..];
                }
                for &column in columns {
                    let is_turned = self.is_self() && column < row;
                    let (i, j) = if is_turned { (column, row) } else { (row, column) };
                    out((i, j, value))?;
                }
            }
        }
        Ok(())
    }
}

/// The least that a value of a row may be where that of the single pair is this.
fn margin(value: f64) -> f64 {
    value - SLACK * value.abs()
}

fn out_of<T: Default>(slot: Mutex<T>) -> T {
    slot.into_inner().unwrap_or_default()
}

fn ascending(trees: &[usize]) -> Vec<usize> {
    let mut trees = trees.to_vec();
    trees.sort_unstable();
    trees.dedup();
    trees
}

/// Per different tree where it stands.
fn places(trees: &Distinct) -> Result<Ragged<u32>> {
    let times = crate::ragged::times(&trees.of, trees.roots.len())?;
    let mut places = Filler::new(times, 0)?;
    for (place, &tree) in trees.of.iter().enumerate() {
        places.put(tree, place as u32);
    }
    Ok(places.done())
}
