//! Rows and columns of one call: how candidates are found, computed and handed on.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};

use super::best::{Best, Offers};
use super::blocks::Bound;
use super::candidates::Candidates;
use super::filter::Choice;
use super::{Answer, Nearest, nearness, prune};
use crate::gram::{
    Different, Distinct, Items, Measure, Near, Normalizer, Norms, Options, QueryRows,
    Report, RowSource, gathered, quotient,
};
use crate::kernel::{Prepared, Worker};
use crate::memory::{
    Map, collect, extend, filled_with, push, reach, reach_with, reserve, room,
    set_aside,
};
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
/// Columns that a tree may meet in all for its row not to be computed: single pairs take
/// less.
const FEW: usize = 256;
/// Values of a row that are looked at together.
const CHUNK: usize = 64;

/// Takes the answers of some rows, and asks on the way whether to go on.
pub(super) type Each<'a> = dyn FnMut(&[u32], Vec<Vec<Answer>>) -> Result<()> + 'a;

/// How candidates are found.
pub(super) enum Finder<'a, X: Items> {
    /// By the bound.
    Pruned(Candidates),
    /// Row by row.
    Rows(Rows<'a>),
    /// By bounds of distances, which all items made ready have.
    Near(Arc<dyn Near<X>>, Values),
}

/// The different columns, and what is kept of them between two calls.
pub(super) struct Columns<X> {
    pub(super) different: Arc<Different<X>>,
    /// By column: where it stands.
    pub(super) places: Ragged<u32>,
    /// What no worker is using.
    spare: Mutex<Vec<Scratch>>,
}

impl<X: Items> Columns<X> {
    pub(super) fn new(different: Arc<Different<X>>) -> Result<Self> {
        let places = places(&different.places)?;
        Ok(Self { different, places, spare: Mutex::default() })
    }

    /// A scratch for each of some workers, those that are there first.
    fn scratches(&self, n: usize) -> Result<Vec<Scratch>> {
        // Without waiting: in a forked child, who holds the lock may be missing.
        let mut spare = match self.spare.try_lock() {
            Ok(mut spare) => std::mem::take(&mut *spare),
            Err(_) => Vec::new(),
        };
        spare.truncate(n);
        reach_with(&mut spare, n, Scratch::default)?;
        Ok(spare)
    }
}

pub(super) struct Rows<'a> {
    pub(super) source: &'a dyn RowSource,
    /// All items made ready for single pairs; None: those that are needed will be.
    pub(super) values: Option<Values>,
    /// Places of columns that have no kernel with themselves, where it matters.
    pub(super) zero_columns: &'a [usize],
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
    pub(super) pruned: prune::Scratch,
    row: Vec<f64>,
}

impl<X: Items> Finder<'_, X> {
    /// By bounds of distances, and what computes these.
    pub(super) fn of_near(near: Arc<dyn Near<X>>) -> Self {
        let singles: Arc<dyn Prepared> = Arc::clone(&near) as _;
        Self::Near(near, Values { singles, number: None, norms: None })
    }

    /// Finds the columns that may be answers of a join; where rows are columns, those up
    /// to the row.
    pub(super) fn find(
        &self,
        corpus: &Corpus<'_, X>,
        x: usize,
        scratch: &mut Scratch,
        context: &Context,
    ) -> Result<Vec<u32>> {
        let n = corpus.columns().len();
        let end = if corpus.is_self() { x } else { n };
        let mut found = match self {
            Self::Pruned(candidates) => {
                let found = candidates.find(x, end, &mut scratch.pruned, context)?;
                collect(found.into_iter().map(|(tree, _)| tree))?
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
        if corpus.is_self() && corpus.columns.places.get(x).len() > 1 {
            push(&mut found, x as u32)?;
        }
        if !corpus.choice.is_all() {
            found.retain(|&tree| corpus.may_answer(x, tree));
        }
        Ok(found)
    }

    /// The columns that may be among so many nearest; those without kernel as far as they
    /// are needed.
    pub(super) fn find_nearest(
        &self,
        corpus: &Corpus<'_, X>,
        x: usize,
        wanted: usize,
        scratch: &mut Scratch,
        context: &Context,
    ) -> Result<Vec<u32>> {
        let rows = match self {
            Self::Rows(rows) => rows,
            Self::Near(near, _) => {
                let place = |tree| corpus.first_answer(x, tree);
                let item = corpus.first_row() + x;
                // Columns are numbered by their first places.
                let place =
                    (!corpus.choice.is_all()).then_some(&place as &dyn Fn(_) -> _);
                return near.nearest(item, wanted, place, context);
            }
            Self::Pruned(candidates) => {
                return candidates.nearest(corpus, x, wanted, scratch, context);
            }
        };
        // 1. Where few columns have anything in common with the item, these, and as many
        // others as are wanted: their values are 0.
        if let Some(mut met) = rows.source.meets(x, FEW)? {
            met.sort_unstable();
            met.dedup();
            met.retain(|&tree| corpus.may_answer(x, tree));
            return corpus.with_others(x, met, wanted);
        }
        // 2. Else its row. What is no number is for the single pair to say: it is taken
        // for infinite.
        let n = corpus.columns().len();
        let row = &mut scratch.row;
        reach(row, n, 0.0)?;
        rows.row(corpus, x, &mut row[..n], context)?;
        let fast = corpus.measure.fast();
        let may_be_negative = fast.is_none_or(|fast| !fast.is_never_negative());
        let mut best = Offers::new(wanted, !may_be_negative);
        for (number, part) in row[..n].chunks(CHUNK).enumerate() {
            // Most parts have nothing that is large enough.
            let least = best.least();
            let n_less = part.iter().filter(|&&value| value < least).count();
            if n_less == part.len() {
                continue;
            }
            for (tree, &value) in (number * CHUNK..).zip(part) {
                let value = if value.is_nan() { f64::INFINITY } else { value };
                if value >= best.least() && corpus.may_answer(x, tree as u32) {
                    best.push(Answer { tree: tree as u32, value })?;
                }
            }
        }
        let (found, missing) = best.done()?;
        corpus.with_others(x, found, missing)
    }

    pub(super) fn report(&self, corpus: &Corpus<'_, X>) -> Result<Report> {
        let mut report = Report::default();
        if let Self::Pruned(candidates) = self {
            let (rows, columns) = candidates.zeros();
            report.zero_rows = collect(rows.iter().copied())?;
            report.zero_columns = collect(columns.iter().copied())?;
        } else if let (Self::Rows(rows), Some(normalizer)) = (self, corpus.normalizer())
        {
            report.zero_columns = collect(rows.zero_columns.iter().copied())?;
            report.zero_rows = match corpus.query {
                Some(query) => query.rows.places.zeros(normalizer.rows)?,
                None => collect(rows.zero_columns.iter().copied())?,
            };
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
        let (all_columns, rows) = (&corpus.columns.different, &rows[..]);
        let others = corpus.query.map_or(all_columns, |query| &query.rows);
        let parts = [(&all_columns.items, columns), (&others.items, rows)];
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
    pub(super) columns: &'a Columns<X>,
    /// Where values are normalised, and this is known.
    pub(super) norms: Option<&'a Norms>,
    /// None: the rows are the columns.
    pub(super) query: Option<&'a QueryRows<X>>,
    /// By row: where it stands.
    pub(super) row_places: Ragged<u32>,
    /// Which columns may be answers.
    pub(super) choice: Choice<'a>,
}

impl<'a, X: Items> Corpus<'a, X> {
    pub(super) fn new(
        measure: &'a dyn Measure<X>,
        options: Options,
        columns: &'a Columns<X>,
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
            row_places: row_places.unwrap_or_default(),
            choice: Choice::default(),
        })
    }

    /// The vectors of some different items, where there is a bound of such values.
    pub(super) fn bound(
        &self,
        items: &Different<X>,
        least: f64,
        context: &Context,
    ) -> Result<Option<Bound>> {
        let is_wanted = self.options.normalize && least > 0.0;
        match self.measure.fast().filter(|_| is_wanted) {
            Some(fast) => fast.bound(&items.items, context),
            None => Ok(None),
        }
    }

    /// Whether a column may be among the answers of a row.
    pub(super) fn may_answer(&self, x: usize, tree: u32) -> bool {
        self.first_answer(x, tree).is_some()
    }

    /// The first place where a column is that may be among the answers of a row.
    fn first_answer(&self, x: usize, tree: u32) -> Option<u32> {
        if self.choice.excludes_equal && self.are_equal(x, tree as usize) {
            return None;
        }
        let mut places = self.columns.places.get(tree as usize).iter().copied();
        places.find(|&place| self.choice.has(place))
    }

    /// Some columns, ascending, and the first others that may be answers.
    fn with_others(
        &self,
        x: usize,
        mut found: Vec<u32>,
        n_others: usize,
    ) -> Result<Vec<u32>> {
        // By the places of answers, as that is their order where values are equal.
        let is_other = |&(place, &tree): &(u32, &u32)| {
            found.binary_search(&tree).is_err()
                && self.first_answer(x, tree) == Some(place)
        };
        let others = (0..).zip(&self.columns().of).filter(is_other);
        let others = collect(others.map(|(_, &tree)| tree).take(n_others))?;
        extend(&mut found, others)?;
        Ok(found)
    }

    pub(super) fn is_self(&self) -> bool {
        self.query.is_none()
    }

    pub(super) fn columns(&self) -> &Distinct {
        &self.columns.different.places
    }

    pub(super) fn rows(&self) -> &Distinct {
        self.query.map_or(self.columns(), |query| &query.rows.places)
    }

    /// Where the rows are numbered from.
    pub(super) fn first_row(&self) -> usize {
        self.query.map_or(0, |_| self.columns().len())
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
        let columns = &self.columns.different.items;
        let key = |item: usize| columns.key(item, &|root| root);
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
            return Ok(Cow::Borrowed(&self.columns.different.items));
        };
        let columns = &self.columns.different.items;
        columns.chain(&query.rows.items, context).map(Cow::Owned)
    }

    /// The bounds of a distance, where it has such.
    pub(super) fn bounds_finder(
        &self,
        context: &Context,
    ) -> Result<Option<Finder<'_, X>>> {
        if self.options.normalize {
            return Ok(None);
        }
        let (n, items) = (self.columns().len(), self.all(context)?);
        let Some(near) = self.measure.near(&items, n, context)? else {
            return Ok(None);
        };
        Ok(Some(Finder::of_near(near)))
    }

    /// Computes the values of what `find` finds for some rows, has `keep` take its choice,
    /// and hands the answers to `each`, in order and some rows at a time. As much as
    /// `done_before` rows take has been done.
    pub(super) fn answer(
        &self,
        finder: &Finder<'_, X>,
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
        let mut scratch = self.columns.scratches(threads.size())?;
        let batch = (BATCH / self.columns().len().max(1)).clamp(64, 1 << 13);
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
            if n_found == 0 {
                // Nothing is to be made ready, which takes time by the store of all.
                each(part, filled_with(part.len(), Vec::new)?)?;
                first = end;
                found.clear();
                continue;
            }
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
        if let Ok(mut spare) = self.columns.spare.try_lock() {
            for scratch in scratch {
                set_aside(&mut spare, scratch);
            }
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
        let n = self.columns().len();
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
            let all = 0..self.columns().len() as u32;
            extend(&mut found, all.filter(is_other).take(missing))?;
        }
        push(&mut found, x as u32)?;
        Ok(Some(found))
    }

    /// The trees of some rows and of what was found for them, ascending.
    pub(super) fn involved(
        &self,
        rows: &[u32],
        found: &[Vec<u32>],
    ) -> Result<Vec<u32>> {
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

    /// Where a row stands.
    fn places_of_row(&self, x: usize) -> &[u32] {
        let rows = self.query.map_or(&self.columns.places, |_| &self.row_places);
        rows.get(x)
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
                let places = self.columns.places.get(answer.tree as usize).iter();
                let places = places.filter(|&&place| self.choice.has(place));
                extend(&mut all, places.map(|&place| (place, answer.value)))?;
            }
            all[start..].sort_unstable_by_key(|item| item.0);
        }
        for &row in self.places_of_row(x) {
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
        for &row in self.places_of_row(x) {
            for &Answer { tree, value } in answers {
                let mut columns = self.columns.places.get(tree as usize);
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
