//! Rows and columns of one call: how candidates are found, computed and handed on.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::{Arc, Mutex};

use super::best::Best;
use super::blocks::Bound;
use super::{Answer, Nearest, nearness, prune};
use crate::gram::{
    Different, Distinct, Items, Measure, Near, Normalizer, Norms, Options, QueryRows,
    Report, RowSource, gathered, quotient,
};
use crate::kernel::{Prepared, Worker};
use crate::memory::{Map, collect, extend, filled_with, push, reach, reserve, room};
use crate::ragged::{Filler, Ragged};
use crate::threads::{Tasks, Threads};
use crate::{Context, Error, Result};

/// Rows and single pairs of one pair of trees differ by rounding: by less than this, in
/// parts of the value.
const SLACK: f64 = 1e-9;
/// Cells of rows that are computed before it is asked whether there is enough to hand on,
/// and how many pairs are enough.
const BATCH: usize = 1 << 23;
const ENOUGH: usize = 1 << 21;
/// Rows whose trees are made ready together, at most some more than these.
const ROWS: usize = 1 << 16;
/// Rows that the bound is tried on, and one of how many pairs it may let through.
const SAMPLE: usize = 64;
const ONE_IN: usize = 20;

/// Takes the answers of some rows, and asks on the way whether to go on.
pub(super) type Each<'a> = dyn FnMut(&[u32], Vec<Vec<Answer>>) -> Result<()> + 'a;

/// How candidates are found.
pub(super) enum Finder<'a> {
    /// By the bound.
    Pruned(Arc<Pruned>),
    /// Row by row.
    Rows(Rows<'a>),
    /// By bounds of distances, which all items made ready have.
    Near(Arc<dyn Near>, Values),
}

/// Vectors for one threshold, and which trees have no kernel with themselves.
pub(super) struct Pruned(pub(super) prune::Index, pub(super) Vec<bool>);

pub(super) struct Rows<'a> {
    pub(super) source: &'a dyn RowSource,
    /// All items made ready for single pairs; None: those that are needed will be.
    pub(super) values: Option<Values>,
    /// What a join asks for.
    pub(super) least: f64,
}

impl Rows<'_> {
    /// A row of the first columns, the larger the nearer; NaN where floats do not do, and
    /// where values were given up.
    fn row<X: Items>(
        &self,
        corpus: &Corpus<'_, X>,
        x: usize,
        row: &mut [f64],
        context: &Context,
    ) -> Result<()> {
        let given_up = self.source.worker()?(x, row, context)?;
        if let Some(normalizer) = corpus.normalizer() {
            normalizer.scale(x, row);
        }
        if corpus.measure.is_distance() {
            for value in &mut *row {
                *value = -*value;
            }
        }
        for column in given_up {
            row[column as usize] = f64::NAN;
        }
        Ok(())
    }
}

/// What one worker keeps from row to row.
#[derive(Default)]
pub(super) struct Scratch {
    pruned: prune::Scratch,
    row: Vec<f64>,
    order: Vec<u32>,
}

impl Finder<'_> {
    /// Finds the columns that may be answers of a join; where rows are columns, those up
    /// to the row.
    pub(super) fn find<X: Items>(
        &self,
        corpus: &Corpus<'_, X>,
        x: usize,
        scratch: &mut Scratch,
        context: &Context,
    ) -> Result<Vec<u32>> {
        let n = corpus.columns.len();
        let end = if corpus.is_self() { x } else { n };
        let mut found = match self {
            Self::Pruned(pruned) => {
                let Pruned(index, _) = &**pruned;
                index.find(corpus.first_row() + x, end, &mut scratch.pruned, context)?
            }
            Self::Rows(rows) => {
                // The lower triangle has the tree itself.
                reach(&mut scratch.row, n, 0.0)?;
                let row = &mut scratch.row[..n.min(end + 1)];
                rows.row(corpus, x, row, context)?;
                let low = margin(rows.least);
                // What is no number is for the single pair to say.
                let may_do = |&tree: &u32| {
                    let value = row[tree as usize];
                    value >= low || value.is_nan()
                };
                collect((0..end as u32).filter(may_do))?
            }
            Self::Near(near, _) => near.within(corpus.first_row() + x, end, context)?,
        };
        if corpus.is_self() && corpus.places.get(x).len() > 1 {
            push(&mut found, x as u32)?;
        }
        Ok(found)
    }

    /// The columns that may be among so many nearest; those without kernel as far as they
    /// are needed.
    pub(super) fn find_nearest<X: Items>(
        &self,
        corpus: &Corpus<'_, X>,
        x: usize,
        wanted: usize,
        scratch: &mut Scratch,
        context: &Context,
    ) -> Result<Vec<u32>> {
        let n = corpus.columns.len();
        let rows = match self {
            Self::Rows(rows) => rows,
            Self::Near(near, _) => {
                return near.nearest(corpus.first_row() + x, wanted, context);
            }
            Self::Pruned(_) => return Ok(Vec::new()),
        };
        let Scratch { row, order, .. } = scratch;
        reach(row, n, 0.0)?;
        rows.row(corpus, x, row, context)?;
        let of = |tree: &u32| row[*tree as usize];
        let is_known = |tree: &u32| of(tree).is_finite();
        order.clear();
        reserve(order, n)?;
        order.extend((0..n as u32).filter(is_known)); // has room
        if wanted >= order.len() {
            return collect(0..n as u32);
        }
        order.select_nth_unstable_by(wanted, |a, b| {
            // Not by `total_cmp`, to which 0 and -0 are different.
            let by_value = of(b).partial_cmp(&of(a)).unwrap_or(Ordering::Equal);
            by_value.then(a.cmp(b))
        });
        order.truncate(wanted);
        let last = order.iter().map(of).fold(f64::INFINITY, f64::min);
        // What is no number is for the single pair to say.
        let unknown =
            |trees: std::ops::Range<u32>| trees.filter(|tree| !is_known(tree));
        if last == 0.0 {
            // Those that have no kernel at all are chosen already: trees are numbered in
            // the order in which they first stand.
            return collect(order.iter().copied().chain(unknown(0..n as u32)));
        }
        let low = margin(last);
        let may_do = |tree: &u32| of(tree) >= low || !is_known(tree);
        collect((0..n as u32).filter(may_do))
    }

    pub(super) fn report<X: Items>(&self, corpus: &Corpus<'_, X>) -> Result<Report> {
        let mut report = Report::default();
        if let Self::Pruned(pruned) = self {
            let zeros = |items: &Distinct, first: usize| {
                let is_zero =
                    |place: &usize| pruned.1[first + items.of[*place] as usize];
                collect((0..items.of.len()).filter(is_zero))
            };
            report.zero_rows = zeros(corpus.rows(), corpus.first_row())?;
            report.zero_columns = zeros(corpus.columns(), 0)?;
        } else if let Some(normalizer) = corpus.normalizer() {
            report.zero_rows = corpus.rows().zeros(normalizer.rows)?;
            report.zero_columns = corpus.columns().zeros(normalizer.columns)?;
        }
        Ok(report)
    }
}

/// Items made ready for single pairs.
pub(super) struct Values {
    pub(super) singles: Arc<dyn Prepared>,
    /// Where not all are ready those that are, ascending.
    pub(super) number: Option<Vec<u32>>,
    /// Where values are normalised, and this is not known before: of those that are ready.
    pub(super) norms: Option<Norms>,
}

impl Values {
    /// Makes some items ready, or all of them.
    pub(super) fn new<X: Items>(
        corpus: &Corpus<'_, X>,
        wanted: Option<&[u32]>,
        context: &Context,
    ) -> Result<Self> {
        let n_columns = corpus.columns().len();
        let all = || corpus.query.map_or(n_columns, |of| n_columns + of.rows.len());
        let wanted: Vec<usize> = match wanted {
            Some(wanted) => collect(wanted.iter().map(|&item| item as usize))?,
            None => collect(0..all())?,
        };
        // The columns come first.
        let (columns, rows) =
            wanted.split_at(wanted.partition_point(|&i| i < n_columns));
        let rows: Vec<usize> = collect(rows.iter().map(|row| row - n_columns))?;
        let others = corpus.query.map_or(corpus.columns, |query| &*query.rows);
        let parts = [(&corpus.columns.items, columns), (&others.items, &rows[..])];
        let items = gathered(parts, context)?;
        let singles = Arc::from(corpus.measure.prepare(&items, context)?);
        let mut values = Self { singles, number: None, norms: None };
        if corpus.options.normalize && corpus.normalizer().is_none() {
            let set = if corpus.is_self() { "X" } else { "Y" };
            let place = |at: usize| {
                let row = wanted[at].checked_sub(n_columns);
                row.map_or_else(
                    || (corpus.columns().first[wanted[at]] as usize, set),
                    |row| (others.places.first[row] as usize, "X"),
                )
            };
            let norms = Norms::new(&*values.singles, wanted.len(), place, context)?;
            values.norms = Some(norms);
        }
        if wanted.len() < all() {
            values.number = Some(collect(wanted.iter().map(|&item| item as u32))?);
        }
        Ok(values)
    }

    /// The value of a row's item and a column's. Where these are the same items it does not
    /// matter which comes first.
    pub(super) fn get<X: Items>(
        &self,
        corpus: &Corpus<'_, X>,
        x: usize,
        y: usize,
        of: &mut Worker<'_>,
        context: &Context,
    ) -> Result<f64> {
        let (a, b) = match corpus.query {
            None if corpus.measure.is_symmetric() && corpus.comes_before(x, y)? => {
                (y, x)
            }
            _ => (corpus.first_row() + x, y),
        };
        let place = |n: &Vec<u32>, item| n.binary_search(&(item as u32)).unwrap_or(0);
        let number =
            |item: usize| self.number.as_ref().map_or(item, |n| place(n, item));
        let (a, b) = (number(a), number(b));
        let mut single = || of(a, b, context);
        let value = match (&self.norms, corpus.normalizer()) {
            (Some(norms), _) => {
                quotient((norms, a), (norms, b), corpus.are_equal(x, y), single)
            }
            (None, Some(normalizer)) => normalizer.pair(x, y, single),
            (None, None) => match single()?.value() {
                value if value.is_finite() => Ok(value),
                _ => Err(corpus.overflow(x, y)),
            },
        };
        value.map_err(|error| match error {
            Error::ConstraintLimit { .. } => corpus.given_up(x, y),
            other => other,
        })
    }
}

/// Items of X and Y, each different one once. They are numbered, the columns before the
/// rows.
pub(super) struct Corpus<'a, X: Items> {
    pub(super) measure: &'a dyn Measure<X>,
    pub(super) options: Options,
    pub(super) columns: &'a Different<X>,
    /// Where values are normalised, and this is known.
    pub(super) norms: Option<&'a Norms>,
    /// None: the rows are the columns.
    pub(super) query: Option<&'a QueryRows<X>>,
    /// By column, by row: where it stands.
    pub(super) places: &'a Ragged<u32>,
    pub(super) row_places: Ragged<u32>,
}

impl<'a, X: Items> Corpus<'a, X> {
    pub(super) fn new(
        measure: &'a dyn Measure<X>,
        options: Options,
        (columns, column_places): (&'a Different<X>, &'a Ragged<u32>),
        norms: Option<&'a Norms>,
        query: Option<&'a QueryRows<X>>,
    ) -> Result<Self> {
        let row_places = query.map(|query| places(&query.rows.places)).transpose()?;
        Ok(Self {
            measure,
            options,
            columns,
            norms,
            query,
            places: column_places,
            row_places: row_places.unwrap_or_default(),
        })
    }

    pub(super) fn is_self(&self) -> bool {
        self.query.is_none()
    }

    pub(super) fn columns(&self) -> &Distinct {
        &self.columns.places
    }

    pub(super) fn rows(&self) -> &Distinct {
        self.query.map_or(&self.columns.places, |query| &query.rows.places)
    }

    /// Where the rows are numbered from.
    pub(super) fn first_row(&self) -> usize {
        self.query.map_or(0, |_| self.columns.len())
    }

    /// Where values are normalised, and it is known by what.
    fn normalizer(&self) -> Option<Normalizer<'_>> {
        let columns = self.norms?;
        Some(match self.query {
            None => Normalizer { rows: columns, columns, same: None },
            Some(QueryRows { norms, same, .. }) => {
                Normalizer { rows: norms.as_deref()?, columns, same: Some(same) }
            }
        })
    }

    fn are_equal(&self, x: usize, y: usize) -> bool {
        self.query.map_or(x, |query| query.same[x] as usize) == y
    }

    /// The order of two columns, whatever the order in which they came.
    fn comes_before(&self, x: usize, y: usize) -> Result<bool> {
        let key = |item: usize| self.columns.items.key(item, &|root| root);
        Ok(key(x)? < key(y)?)
    }

    fn cell(&self, x: usize, y: usize) -> (usize, usize) {
        (self.rows().first[x] as usize, self.columns().first[y] as usize)
    }

    fn overflow(&self, x: usize, y: usize) -> Error {
        let (row, column) = self.cell(x, y);
        Error::Overflow { row, column }
    }

    fn given_up(&self, x: usize, y: usize) -> Error {
        let pairs = vec![self.cell(x, y)]; // bounded: one
        Error::ConstraintLimit { pairs, limit: self.measure.limit() }
    }

    /// The columns, and then the rows, where these are others.
    fn all(&self, context: &Context) -> Result<Cow<'_, X>> {
        let Some(query) = self.query else {
            return Ok(Cow::Borrowed(&self.columns.items));
        };
        self.columns.items.chain(&query.rows.items, context).map(Cow::Owned)
    }

    /// The bounds of a distance, where it has such.
    pub(super) fn bounds_finder(
        &self,
        context: &Context,
    ) -> Result<Option<Finder<'_>>> {
        if self.options.normalize {
            return Ok(None);
        }
        let (n, items) = (self.columns.len(), self.all(context)?);
        let Some(near) = self.measure.near(&items, n, context)? else {
            return Ok(None);
        };
        let singles: Arc<dyn Prepared> = Arc::clone(&near) as _;
        let values = Values { singles, number: None, norms: None };
        Ok(Some(Finder::Near(near, values)))
    }

    /// The bound, where it helps.
    pub(super) fn pruned(
        &self,
        least: f64,
        context: &Context,
    ) -> Result<Option<Arc<Pruned>>> {
        let is_wanted = self.options.normalize && least > 0.0;
        let Some(fast) = self.measure.fast().filter(|_| is_wanted) else {
            return Ok(None);
        };
        let (n, items) = (self.columns.len(), self.all(context)?);
        let Some(Bound { vectors, n_blocks }) = fast.bound(&items, context)? else {
            return Ok(None);
        };
        let threads = Threads::for_trees(context, items.n_items());
        let zeros = collect(vectors.iter().map(<[_]>::is_empty))?;
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
        if n_found * ONE_IN > n_pairs && n_pairs > ONE_IN * SAMPLE {
            return Ok(None);
        }
        Ok(Some(pruned))
    }

    /// Computes the values of what `find` finds for some rows, has `keep` take its choice,
    /// and hands the answers to `each`, in order and some rows at a time. As much as
    /// `done_before` rows take has been done.
    pub(super) fn answer(
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
        let mut scratch = filled_with(threads.size(), Scratch::default)?;
        let batch = (BATCH / self.columns.len().max(1)).clamp(64, 1 << 13);
        let (mut first, mut found, mut n_found) = (0, Vec::new(), 0);
        for (number, part) in rows.chunks(batch).enumerate() {
            // 1. What may be an answer, until there is enough of it.
            let start = number * batch;
            let slots = filled_with(part.len(), Mutex::default)?;
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
            extend(&mut found, slots.into_iter().map(out_of::<Vec<u32>>))?;
            n_found += found[start - first..].iter().map(Vec::len).sum::<usize>();
            if n_found < ENOUGH && end - first < ROWS && end < n {
                continue;
            }
            // 2. Its values, and the answers that are made of them: how many is known, so
            // they are asked for together.
            room(n_found, size_of::<Answer>())?;
            let part = &rows[first..end];
            let some;
            let values = match finder {
                Finder::Rows(Rows { values: Some(values), .. })
                | Finder::Near(_, values) => values,
                _ => {
                    let wanted = self.involved(part, &found)?;
                    some = Values::new(self, Some(&wanted), context)?;
                    &some
                }
            };
            let slots = filled_with(part.len(), Mutex::default)?;
            let mut workers = filled_with(threads.size(), || values.singles.worker())?;
            threads.run(
                &Tasks::untold(part.len()),
                &mut workers,
                |at, of, context| {
                    let x = part[at] as usize;
                    let mut answers = Vec::new();
                    reserve(&mut answers, found[at].len())?;
                    for &tree in &found[at] {
                        context.check_now()?;
                        let value = values.get(self, x, tree as usize, of, context)?;
                        let value = nearness(self.measure, value);
                        answers.push(Answer { tree, value }); // has room
                    }
                    keep(x, &mut answers);
                    if let Ok(mut slot) = slots[at].lock() {
                        *slot = answers;
                    }
                    Ok(())
                },
            )?;
            each(part, collect(slots.into_iter().map(out_of))?)?;
            (first, n_found) = (end, 0);
            found.clear();
        }
        context.report(n, n)
    }

    /// What each tree is offered by the lower half of the rows, each pair computed once.
    pub(super) fn best(
        &self,
        rows: &Rows<'_>,
        k: usize,
        context: &Context,
    ) -> Result<Best> {
        let n = self.columns.len();
        let wanted = k.min(n.saturating_sub(1)).max(1);
        let best = Best::new(n, wanted, self.measure.is_distance())?;
        let team = Threads::new(context, n);
        let mut scratch = filled_with(team.size(), Vec::new)?;
        team.run(
            &Tasks::of_rows(n, 1).among(0..by_halves(n), n),
            &mut scratch,
            |x, row, context| {
                reach(row, n, 0.0)?;
                // The lower triangle has the tree itself.
                rows.row(self, x, &mut row[..=x], context)?;
                best.row(x, &row[..x])
            },
        )?;
        Ok(best)
    }

    /// The columns that may be among the nearest of a tree, and the tree; None where its row
    /// has to say.
    pub(super) fn take(&self, best: &Best, x: usize) -> Result<Option<Vec<u32>>> {
        let Some((mut found, missing)) = best.take(x)? else { return Ok(None) };
        if missing > 0 {
            // The others have a kernel of 0, or a negative one if the kernel can be so.
            if self.measure.fast().is_none_or(|fast| !fast.is_never_negative()) {
                return Ok(None);
            }
            let known: Map<u32, ()> = Map::of(found.iter().map(|&tree| (tree, ())))?;
            let is_other = |t: &u32| *t as usize != x && !known.contains_key(t);
            let all = 0..self.columns.len() as u32;
            extend(&mut found, all.filter(is_other).take(missing))?;
        }
        push(&mut found, x as u32)?;
        Ok(Some(found))
    }

    /// The trees of some rows and of what was found for them, ascending.
    fn involved(&self, rows: &[u32], found: &[Vec<u32>]) -> Result<Vec<u32>> {
        let mut trees = Vec::new();
        reserve(&mut trees, rows.len() + found.iter().map(Vec::len).sum::<usize>())?;
        for (&row, found) in rows.iter().zip(found).filter(|(_, f)| !f.is_empty()) {
            push(&mut trees, self.first_row() as u32 + row)?;
            extend(&mut trees, found.iter().copied())?;
        }
        trees.sort_unstable();
        trees.dedup();
        Ok(trees)
    }

    /// Writes the nearest of what was found for a row's tree to all its places.
    pub(super) fn write(
        &self,
        x: usize,
        mut answers: Vec<Answer>,
        out: &mut Nearest,
    ) -> Result<()> {
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
                let places = self.places.get(answer.tree as usize);
                extend(&mut all, places.iter().map(|&place| (place, answer.value)))?;
            }
            all[start..].sort_unstable_by_key(|item| item.0);
        }
        let rows = if self.is_self() { self.places } else { &self.row_places };
        for &row in rows.get(x) {
            let others = all.iter().filter(|item| !self.is_self() || item.0 != row);
            for (at, &(column, value)) in others.take(k).enumerate() {
                out.indices[row as usize * k + at] = column as usize;
                out.values[row as usize * k + at] = nearness(self.measure, value);
            }
        }
        Ok(())
    }

    /// Hands on for all places of a row's tree what was found.
    pub(super) fn spread(
        &self,
        x: usize,
        answers: &[Answer],
        out: &mut dyn FnMut((u32, u32, f64)) -> Result<()>,
    ) -> Result<()> {
        let rows = if self.is_self() { self.places } else { &self.row_places };
        for &row in rows.get(x) {
            for &Answer { tree, value } in answers {
                let mut columns = self.places.get(tree as usize);
                if self.is_self() && tree as usize == x {
                    // Equal trees meet twice.
                    columns =
                        &columns[columns.partition_point(|&other| other <= row)..];
                }
                for &column in columns {
                    let is_turned = self.is_self() && column < row;
                    let (i, j) = if is_turned { (column, row) } else { (row, column) };
                    out((i, j, nearness(self.measure, value)))?;
                }
            }
        }
        Ok(())
    }
}

/// How much of the work that is done with so many rows by halves.
pub(super) fn by_halves(done: usize) -> usize {
    done - done / 8
}

/// The least that a value of a row may be where that of the single pair is this.
pub(super) fn margin(value: f64) -> f64 {
    value - SLACK * value.abs()
}

pub(super) fn out_of<T: Default>(slot: Mutex<T>) -> T {
    slot.into_inner().unwrap_or_default()
}

/// Numbers in order, each once.
pub(super) fn ascending<'a>(
    numbers: impl IntoIterator<Item = &'a usize>,
) -> Result<Vec<usize>> {
    let mut numbers = collect(numbers.into_iter().copied())?;
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers)
}

/// Per different tree where it stands.
pub(super) fn places(trees: &Distinct) -> Result<Ragged<u32>> {
    let times = crate::ragged::times(&trees.of, trees.len())?;
    let mut places = Filler::new(times, 0)?;
    for (place, &tree) in trees.of.iter().enumerate() {
        places.put(tree, place as u32);
    }
    Ok(places.done())
}
