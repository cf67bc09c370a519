//! What is alike: nearest trees, and all pairs of trees above a threshold.
//!
//! Answers are those of looking at every pair, without looking at every pair where the
//! kernel is normalised: see `blocks.rs` for the bound, `prune.rs` for what makes use of it.
//! Kernels that are not, and kernels without an index, are computed row by row.
//!
//! **One value.** Whichever way a pair was found, its value is computed as that of a single
//! pair, as [`pairs`] has it; that value decides whether it is in a join, and where it
//! stands among the nearest. So answers do not depend on threads, nor on which trees were
//! there first.
//!
//! # Complexity
//! Memory: the index, [`MAX_PAIRS_AT_ONCE`] pairs of a join, the answer of a batch of rows
//! (each different tree once, however often it stands), and for each thread some numbers
//! per tree.

mod best;
mod blocks;
mod candidates;
mod corpus;
mod filter;
mod groups;
mod index;
mod prune;

use std::ops::Range;
use std::sync::{Arc, Mutex};

use crate::gram::{
    Asking, Different, Distinct, Items, Measure, Numbers, Options, QueryRows, Report,
};
use crate::memory::{collect, filled, filled_with, push, reserve};
use crate::threads::{Tasks, Threads};
use crate::{Context, Error, Result};
pub(crate) use blocks::Blocks;
pub(crate) use blocks::{Bound, bound};
use candidates::Pruned;
use corpus::{Columns, Corpus, Finder, Scratch, Values, ascending, by_halves};
use filter::Choice;
pub use filter::Filter;
pub use groups::{Expander, Groups};
use groups::{GroupPairs, check_rows};
use index::Built;
pub use index::Index;

/// How many pairs a [`Sink`] is given at most in one call: 2^20, 24 MB.
pub const MAX_PAIRS_AT_ONCE: usize = 1 << 20;
/// Pairs of trees with their values.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct FoundPairs {
    /// Trees of X.
    pub rows: Vec<usize>,
    /// Trees of Y (of X, where there is no Y).
    pub columns: Vec<usize>,
    /// Their kernels.
    pub values: Vec<f64>,
}

impl FoundPairs {
    /// Adds others.
    ///
    /// # Errors
    /// [`Error::Memory`], with nothing changed.
    pub fn append(&mut self, other: Self) -> Result<()> {
        let more = other.rows.len();
        reserve(&mut self.rows, more)?;
        reserve(&mut self.columns, more)?;
        reserve(&mut self.values, more)?;
        self.rows.extend(other.rows); // has room
        self.columns.extend(other.columns); // has room
        self.values.extend(other.values); // has room
        Ok(())
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
        let mut order = collect(0..self.rows.len())?;
        order.sort_unstable_by_key(|&at| (self.rows[at], self.columns[at]));
        *self = Self {
            rows: collect(order.iter().map(|&at| self.rows[at]))?,
            columns: collect(order.iter().map(|&at| self.columns[at]))?,
            values: collect(order.iter().map(|&at| self.values[at]))?,
        };
        Ok(())
    }
}

/// Where answers go.
pub type Sink<'a> = dyn FnMut(FoundPairs) -> Result<()> + 'a;

/// What a join finds: pairs of at least so much, of all trees of X or of some.
///
/// With `rows`, a range of places, only the pairs that are found by a tree that stands
/// there and is equal to none before it. Without Y, each of two different trees finds those
/// before it; so a pair (i, j) is found by the later of the first tree that is equal to i
/// and the first that is equal to j. The answers of ranges that make up X are all answers,
/// bit for bit.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct JoinOptions {
    /// The least kernel, or the largest distance.
    pub least: f64,
    /// Which trees of X find pairs; None: all.
    pub rows: Option<Range<usize>>,
}

impl From<f64> for JoinOptions {
    fn from(least: f64) -> Self {
        Self { least, rows: None }
    }
}

impl JoinOptions {
    /// The same for some trees of X.
    #[must_use]
    pub fn with_rows(self, rows: Range<usize>) -> Self {
        Self { rows: Some(rows), ..self }
    }
}

/// Calls `sink` with all pairs of a tree of X and one of Y whose kernel is at least
/// `least`, or whose distance is at most that, some at a time; without Y with those of two
/// trees i < j of X, each once.
///
/// Each call has at most [`MAX_PAIRS_AT_ONCE`] pairs, whatever the trees, in ascending order. No
/// two calls have the same pair; they may have the same tree of X. Calls do not depend on
/// the number of threads.
///
/// # Errors
/// [`Error::Parameter`] for a kernel or a threshold out of range, and without Y for a
/// measure that is not symmetric, [`Error::Overflow`] for a value too large for a float,
/// [`Error::Capacity`], and what `sink` returns.
pub fn join<X: Items>(
    measure: &dyn Measure<X>,
    x: &X,
    y: Option<&X>,
    wanted: impl Into<JoinOptions>,
    options: Options,
    sink: &mut Sink<'_>,
) -> Result<Report> {
    join_with(measure, x, y, wanted, options, sink, &Context::default())
}

/// As [`join`], in a context.
///
/// # Errors
/// As [`join`], and what `context` returns.
pub fn join_with<X: Items>(
    measure: &dyn Measure<X>,
    x: &X,
    y: Option<&X>,
    wanted: impl Into<JoinOptions>,
    options: Options,
    sink: &mut Sink<'_>,
    context: &Context,
) -> Result<Report> {
    let JoinOptions { least, rows } = wanted.into();
    let out = &mut OfRows { rows, out: sink };
    find(measure, (x, y), least, options, out, context)
}

/// As [`join`], but pairs of different trees are told once, with the trees that are equal.
///
/// # Errors
/// As [`join`].
pub fn join_groups<X: Items>(
    measure: &dyn Measure<X>,
    x: &X,
    y: Option<&X>,
    wanted: impl Into<JoinOptions>,
    options: Options,
) -> Result<(Groups, Report)> {
    join_groups_with(measure, x, y, wanted, options, &Context::default())
}

/// As [`join_groups`], in a context.
///
/// # Errors
/// As [`join_groups`], and what `context` returns.
pub fn join_groups_with<X: Items>(
    measure: &dyn Measure<X>,
    x: &X,
    y: Option<&X>,
    wanted: impl Into<JoinOptions>,
    options: Options,
    context: &Context,
) -> Result<(Groups, Report)> {
    let JoinOptions { least, rows } = wanted.into();
    let mut found = GroupPairs::default();
    let out = &mut OfRows { rows, out: &mut found };
    let report = find(measure, (x, y), least, options, out, context)?;
    // Numbered as those that were compared.
    let numbers = |items: &X| -> Result<Vec<usize>> {
        collect(Distinct::of(items)?.of.iter().map(|&number| number as usize))
    };
    let (rows, columns) = (numbers(x)?, y.map(numbers).transpose()?);
    let n_groups = rows.iter().max().map_or(0, |last| last + 1);
    let pairs = found.done(n_groups, y.is_none())?;
    Ok((Groups { pairs, rows, columns }, report))
}

fn find<X: Items>(
    measure: &dyn Measure<X>,
    (x, y): (&X, Option<&X>),
    least: f64,
    options: Options,
    out: &mut impl Collect<X>,
    context: &Context,
) -> Result<Report> {
    check_least(least)?;
    measure.check()?;
    check_symmetric(measure, y.is_some())?;
    if let Some(rows) = out.rows() {
        check_rows(rows, x.n_items())?;
    }
    context.advance(0, out.rows().map_or(x.n_items(), ExactSizeIterator::len))?;
    let within = measure.within(least);
    let measure = within.as_deref().unwrap_or(measure);
    let has_bound = options.normalize && least > 0.0 && measure.fast().is_some();
    if has_bound || measure.is_distance() {
        let joined = by_corpus(measure, x, y, options, &mut |corpus| {
            let finder = match Pruned::for_call(corpus, least, context)? {
                Some(some) if some.are_few(corpus, context)? => {
                    Some(Finder::Pruned(some))
                }
                Some(_) => None,
                None => corpus.bounds_finder(context)?,
            };
            let Some(finder) = finder else { return Ok(None) };
            let least = nearness(measure, least);
            join_by(corpus, &finder, least, out, context).map(Some)
        })?;
        if let Some(report) = joined {
            return Ok(report);
        }
    }
    let (asking, built) = built_for(measure, x, y, options, context)?;
    // A distance is compared with its sign turned.
    let above = (Choice::default(), nearness(measure, least));
    built.join(measure, options, asking.as_ref(), above, out, context)
}

/// An index for one call, and those that ask it, where these are others.
fn built_for<X: Items>(
    measure: &dyn Measure<X>,
    x: &X,
    y: Option<&X>,
    options: Options,
    context: &Context,
) -> Result<(Option<Asking<X>>, Built<X>)> {
    let columns = y.unwrap_or(x);
    let built = Built::for_call(measure, columns, options, y.is_none(), context)?;
    let asking = y.map(|y| Asking::once(x, y, context));
    Ok((asking.transpose()?, built))
}

/// Calls `run` with items that are different, before any is made ready.
fn by_corpus<X: Items, T>(
    measure: &dyn Measure<X>,
    x: &X,
    y: Option<&X>,
    options: Options,
    run: &mut dyn FnMut(&Corpus<'_, X>) -> Result<Option<T>>,
) -> Result<Option<T>> {
    let columns = Arc::new(Different::new(y.unwrap_or(x))?);
    let query = y.map(|_| -> Result<_> {
        let rows = Different::new(x)?;
        let same = Numbers::new(&columns.items)?.find(&columns.items, &rows.items)?;
        Ok(QueryRows { rows: Arc::new(rows), norms: None, same })
    });
    let (query, columns) = (query.transpose()?, Columns::new(columns)?);
    run(&Corpus::new(measure, options, &columns, None, query.as_ref())?)
}

/// Refuses to give one value to two trees that have two.
fn check_symmetric<X: Items>(measure: &dyn Measure<X>, has_y: bool) -> Result<()> {
    if has_y || measure.is_symmetric() {
        return Ok(());
    }
    let expected = "symmetric, or to have Y: two trees have one value";
    let (name, got) = ("the measure", "another".to_owned());
    Err(Error::Parameter { name, expected, got })
}

fn check_least(least: f64) -> Result<()> {
    if !least.is_nan() {
        return Ok(());
    }
    let (name, expected) = ("min_similarity", "a number");
    Err(Error::Parameter { name, expected, got: least.to_string() })
}

fn join_by<X: Items>(
    corpus: &Corpus<'_, X>,
    finder: &Finder<'_, X>,
    least: f64,
    out: &mut (impl Collect<X> + ?Sized),
    context: &Context,
) -> Result<Report> {
    let mut rows = collect(0..corpus.rows().len() as u32)?;
    if let Some(wanted) = out.rows() {
        // Different trees are numbered in the order in which they first stand.
        rows.retain(|&row| {
            wanted.contains(&(corpus.rows().first[row as usize] as usize))
        });
    }
    let find = |x: usize, scratch: &mut Scratch, context: &Context| {
        finder.find(corpus, x, scratch, context)
    };
    let keep = |_: usize, answers: &mut Vec<Answer>| {
        answers.retain(|answer| answer.value >= least);
    };
    let each = &mut |rows: &[u32], answers| out.take(corpus, rows, answers, context);
    corpus.answer(finder, &rows, 0, (find, keep), each, context)?;
    finder.report(corpus)
}

/// What takes the answers of a join.
trait Collect<X: Items> {
    /// Where the trees of X stand that it wants the answers of; None: anywhere.
    fn rows(&self) -> Option<&Range<usize>> {
        None
    }

    /// Takes the answers of some different trees of X.
    fn take(
        &mut self,
        corpus: &Corpus<'_, X>,
        rows: &[u32],
        answers: Vec<Vec<Answer>>,
        context: &Context,
    ) -> Result<()>;
}

/// Pairs of trees, some at a time.
impl<X: Items> Collect<X> for Sink<'_> {
    fn take(
        &mut self,
        corpus: &Corpus<'_, X>,
        rows: &[u32],
        answers: Vec<Vec<Answer>>,
        context: &Context,
    ) -> Result<()> {
        let mut chunk = Chunk { pairs: Vec::new(), sink: self, context };
        for (&tree, answers) in rows.iter().zip(&answers) {
            corpus.spread(tree as usize, answers, &mut |pair| chunk.push(pair))?;
        }
        chunk.hand_on()
    }
}

/// What takes only the answers of some trees of X.
struct OfRows<'a, C: ?Sized> {
    rows: Option<Range<usize>>,
    out: &'a mut C,
}

impl<X: Items, C: Collect<X> + ?Sized> Collect<X> for OfRows<'_, C> {
    fn rows(&self) -> Option<&Range<usize>> {
        self.rows.as_ref()
    }

    fn take(
        &mut self,
        corpus: &Corpus<'_, X>,
        rows: &[u32],
        answers: Vec<Vec<Answer>>,
        context: &Context,
    ) -> Result<()> {
        self.out.take(corpus, rows, answers, context)
    }
}

/// Pairs on their way to a sink: many equal trees have more of them than memory holds.
struct Chunk<'a, 'b> {
    pairs: Vec<(u32, u32, f64)>,
    sink: &'a mut Sink<'b>,
    context: &'a Context<'a>,
}

impl Chunk<'_, '_> {
    fn push(&mut self, pair: (u32, u32, f64)) -> Result<()> {
        if self.pairs.len() == MAX_PAIRS_AT_ONCE {
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
        let out = FoundPairs {
            rows: collect(self.pairs.iter().map(|pair| pair.0 as usize))?,
            columns: collect(self.pairs.iter().map(|pair| pair.1 as usize))?,
            values: collect(self.pairs.iter().map(|pair| pair.2))?,
        };
        self.pairs.clear();
        (self.sink)(out)
    }
}

/// The nearest trees of each tree of X.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Nearest {
    /// How many each tree has.
    pub k: usize,
    /// Trees of Y (of X, where there is no Y), `k` after `k`, the nearest first. Behind those
    /// that [`top_k_within`] finds, or that a [`Filter`] lets through, [`NOBODY`].
    pub indices: Vec<usize>,
    /// Their kernels or distances; of nobody minus infinity for a kernel, infinity for a
    /// distance.
    pub values: Vec<f64>,
}

impl Nearest {
    /// Nobody for each of some rows.
    fn of_nobody<X: Items>(
        measure: &dyn Measure<X>,
        n_rows: usize,
        k: usize,
    ) -> Result<Self> {
        let len = n_rows.saturating_mul(k);
        let farthest = nearness(measure, f64::NEG_INFINITY);
        Ok(Self { k, indices: filled(NOBODY, len)?, values: filled(farthest, len)? })
    }
}

/// In place of a tree where none is near enough.
pub const NOBODY: usize = usize::MAX;

/// The `k` trees of Y that have the largest kernels with each tree of X, or the smallest
/// distances to it, the lower index first where these are equal; without Y those of X,
/// without the tree itself. Fewer, where there are not so many.
///
/// # Errors
/// As [`join`].
pub fn top_k<X: Items>(
    measure: &dyn Measure<X>,
    x: &X,
    y: Option<&X>,
    k: usize,
    options: Options,
) -> Result<(Nearest, Report)> {
    top_k_with(measure, x, y, k, options, &Context::default())
}

/// As [`top_k`], in a context.
///
/// # Errors
/// As [`top_k`], and what `context` returns.
pub fn top_k_with<X: Items>(
    measure: &dyn Measure<X>,
    x: &X,
    y: Option<&X>,
    k: usize,
    options: Options,
    context: &Context,
) -> Result<(Nearest, Report)> {
    measure.check()?;
    context.advance(0, x.n_items())?;
    if measure.is_distance() {
        let found = by_corpus(measure, x, y, options, &mut |corpus| {
            let Some(finder) = corpus.bounds_finder(context)? else { return Ok(None) };
            top_k_by(corpus, &finder, k, f64::NEG_INFINITY, context).map(Some)
        })?;
        if let Some(found) = found {
            return Ok(found);
        }
    }
    let (asking, built) = built_for(measure, x, y, options, context)?;
    let (asking, all) = (asking.as_ref(), (Choice::default(), f64::NEG_INFINITY));
    built.top_k(measure, options, asking, k, all, context)
}

/// The nearest trees by a distance, as [`top_k`], among those whose distance is at most
/// `max_distance`: the others are [`NOBODY`].
///
/// # Errors
/// As [`join`].
pub fn top_k_within<X: Items>(
    measure: &dyn Measure<X>,
    x: &X,
    y: Option<&X>,
    k: usize,
    max_distance: f64,
    options: Options,
) -> Result<(Nearest, Report)> {
    top_k_within_with(measure, x, y, k, max_distance, options, &Context::default())
}

/// As [`top_k_within`], in a context.
///
/// # Errors
/// As [`top_k_within`], and what `context` returns.
pub fn top_k_within_with<X: Items>(
    measure: &dyn Measure<X>,
    x: &X,
    y: Option<&X>,
    k: usize,
    max_distance: f64,
    options: Options,
    context: &Context,
) -> Result<(Nearest, Report)> {
    if max_distance.is_nan() || !measure.is_distance() {
        let (name, expected) = ("max_distance", "a number, for a distance");
        return Err(Error::Parameter { name, expected, got: max_distance.to_string() });
    }
    measure.check()?;
    let within = measure.within(max_distance);
    let measure = within.as_deref().unwrap_or(measure);
    let (mut found, report) = top_k_with(measure, x, y, k, options, context)?;
    for (index, value) in found.indices.iter_mut().zip(&mut found.values) {
        if *value > max_distance {
            (*index, *value) = (NOBODY, f64::INFINITY);
        }
    }
    Ok((found, report))
}

fn top_k_by<X: Items>(
    corpus: &Corpus<'_, X>,
    finder: &Finder<'_, X>,
    k: usize,
    least: f64,
    context: &Context,
) -> Result<(Nearest, Report)> {
    let (n_rows, n) = (corpus.rows().of.len(), corpus.columns().of.len());
    let k = k.min(if corpus.is_self() { n.saturating_sub(1) } else { n });
    let mut nearest = Nearest::of_nobody(corpus.measure, n_rows, k)?;
    let rows = collect(0..corpus.rows().len() as u32)?;
    let is_mirrored = corpus.is_self() && corpus.measure.is_symmetric();
    let best = match finder {
        Finder::Rows(rows) if is_mirrored && corpus.choice.is_all() => {
            Some(corpus.best(rows, k, context)?)
        }
        _ => None,
    };
    let find = |x: usize, scratch: &mut Scratch, context: &Context| {
        if let Some(best) = &best
            && let Some(found) = corpus.take(best, x)?
        {
            return Ok(found);
        }
        // A tree that is left out of its own neighbours is found as well.
        let wanted = if corpus.is_self() { k + 1 } else { k };
        finder.find_nearest(corpus, x, wanted, scratch, context)
    };
    let each = &mut |rows: &[u32], answers: Vec<Vec<Answer>>| {
        for (&row, answers) in rows.iter().zip(answers) {
            corpus.write(row as usize, answers, &mut nearest)?;
        }
        Ok(())
    };
    let keep = |_: usize, answers: &mut Vec<Answer>| {
        answers.retain(|answer| answer.value >= least);
    };
    let done_before = best.as_ref().map_or(0, |_| by_halves(rows.len()));
    corpus.answer(finder, &rows, done_before, (find, keep), each, context)?;
    Ok((nearest, finder.report(corpus)?))
}

/// A value of which more is nearer; or the value of such a one.
fn nearness<X: Items>(measure: &dyn Measure<X>, value: f64) -> f64 {
    if measure.is_distance() { -value } else { value }
}

/// A column with its kernel, or less its distance.
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
/// [`Error::Capacity`].
pub fn pairs<X: Items>(
    measure: &dyn Measure<X>,
    x: &X,
    y: Option<&X>,
    (i, j): (&[usize], &[usize]),
    options: Options,
) -> Result<(Vec<f64>, Report)> {
    pairs_with(measure, x, y, (i, j), options, &Context::default())
}

/// As [`pairs`], in a context.
///
/// # Errors
/// As [`pairs`], and what `context` returns.
pub fn pairs_with<X: Items>(
    measure: &dyn Measure<X>,
    x: &X,
    y: Option<&X>,
    (i, j): (&[usize], &[usize]),
    options: Options,
    context: &Context,
) -> Result<(Vec<f64>, Report)> {
    const PER_TASK: usize = 256;
    measure.check()?;
    if i.len() != j.len() {
        let expected = format!("{}, as i", i.len());
        return Err(Error::Length { array: "j", expected, got: j.len() });
    }
    let n_columns = y.unwrap_or(x).n_items();
    for (array, list, len) in [("i", i, x.n_items()), ("j", j, n_columns)] {
        if let Some(index) = list.iter().position(|&item| item >= len) {
            let (expected, got) = (format!("below {len}"), list[index].to_string());
            return Err(Error::Array { array, index, expected, got });
        }
    }
    context.advance(0, i.len())?;
    // 1. Make items ready, but for those that nobody asks for.
    let (rows, columns) = match y {
        Some(_) => (ascending(i)?, ascending(j)?),
        None => (Vec::new(), ascending(i.iter().chain(j))?),
    };
    let chosen = Arc::new(Different::new(&y.unwrap_or(x).pick(&columns)?)?);
    let query = y.map(|_| -> Result<_> {
        let rows = Different::new(&x.pick(&rows)?)?;
        let same = Numbers::new(&chosen.items)?.find(&chosen.items, &rows.items)?;
        Ok(QueryRows { rows: Arc::new(rows), norms: None, same })
    });
    let (query, all) = (query.transpose()?, Columns::new(Arc::clone(&chosen))?);
    let corpus = Corpus::new(measure, options, &all, None, query.as_ref())?;
    let rows = if y.is_some() { &rows } else { &columns };
    let number = |of: &Distinct, chosen: &[usize], item: usize| {
        chosen.binary_search(&item).map_or(0, |at| of.of[at] as usize)
    };
    let numbers = |at: usize| {
        let row = number(corpus.rows(), rows, i[at]);
        (row, number(corpus.columns(), &columns, j[at]))
    };
    let values = Values::new(&corpus, None, context)?;
    // 2. Their values.
    let mut out = filled(0.0, i.len())?;
    let given_up = Mutex::new(Vec::new());
    let parts = collect(out.chunks_mut(PER_TASK).map(Mutex::new))?;
    let threads = Threads::new(context, parts.len());
    let mut workers = filled_with(threads.size(), || values.singles.worker())?;
    threads.run(
        &Tasks::of_rows(i.len(), PER_TASK),
        &mut workers,
        |part, of, context| {
            let Ok(mut out) = parts[part].lock() else { return Ok(()) };
            for (at, value) in (part * PER_TASK..).zip(out.iter_mut()) {
                let (a, b) = numbers(at);
                *value = match values.get(&corpus, a, b, of, context) {
                    Err(Error::ConstraintLimit { .. }) => {
                        if let Ok(mut given_up) = given_up.lock() {
                            push(&mut given_up, at)?;
                        }
                        f64::NAN
                    }
                    Err(Error::Overflow { .. }) => {
                        return Err(Error::Overflow { row: i[at], column: j[at] });
                    }
                    value => value?,
                };
                context.check_now()?;
            }
            Ok(())
        },
    )?;
    drop(parts);
    // 3. What the caller may want to know of them.
    let mut report = Report::default();
    let mut given_up = given_up.into_inner().unwrap_or_default();
    given_up.sort_unstable();
    report.given_up = collect(given_up.into_iter().map(|at| (i[at], j[at])))?;
    if let Some(norms) = &values.norms {
        for at in 0..i.len() {
            let (a, b) = numbers(at);
            if norms.is_zero(corpus.first_row() + a) {
                push(&mut report.zero_rows, i[at])?;
            }
            if norms.is_zero(b) {
                push(&mut report.zero_columns, j[at])?;
            }
        }
    }
    report.zero_rows = ascending(&report.zero_rows)?;
    report.zero_columns = ascending(&report.zero_columns)?;
    context.report(i.len(), i.len())?;
    Ok((out, report))
}
