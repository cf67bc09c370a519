//! Items that are indexed once and asked often.

use std::sync::Arc;

use super::corpus::{Corpus, Finder, Pruned, Rows, Values, places};
use super::{
    Collect, FoundPairs, NOBODY, Nearest, Sink, check_least, check_symmetric, join_by,
    nearness, top_k_by,
};
use crate::gram::{
    Asking, Element, Items, Measure, Options, QueryRows, Report, RowSource, RowsOf,
    TrainedEngine, check_size,
};
use crate::intern::new_id;
use crate::kernel::Prepared;
use crate::memory::{collect, extend, filled, push};
use crate::ragged::Ragged;
use crate::threads::ForkSafeCache;
use crate::{Context, Error, Forest, Result};

/// What matrices, joins and nearest trees need of some trees, or of other items, built
/// once.
///
/// The items stand in parts, each with an index of its own: what is [added](Self::add) is
/// a new small part, which takes in the parts before it that are no larger. So each item
/// is indexed a logarithmic number of times, and there are logarithmically many parts. A
/// question goes to all of them.
///
/// The answers of one part, as of an index that nothing was added to, or a
/// [compact](Self::compact) one, are those of [`gram::fill`](crate::gram::fill()),
/// [`join`](super::join()) and [`top_k`](super::top_k()) with these trees as Y (as X, where
/// there are no others), bit for bit. Those of several parts are the same but for rounding.
///
/// # Complexity
/// A question takes time by its trees and their rows, not by what was built. But the trees
/// are indexed again, together with those that ask, for measures without an index, and where
/// a partial tree kernel meets a label with other kinds of children than before.
#[derive(Clone)]
pub struct Index<X: Items = Forest> {
    measure: Arc<dyn Measure<X>>,
    options: Options,
    /// One after another, at least one; copies of the index share them.
    parts: Vec<Arc<Part<X>>>,
}

/// Some items that stand together, and what is built of them.
struct Part<X: Items> {
    items: X,
    built: ForkSafeCache<Built<X>>,
}

/// An engine, and what neighbours need besides.
pub(super) struct Built<X: Items> {
    trained: TrainedEngine<X>,
    places: Ragged<u32>,
    /// The items made ready for single pairs, where they are wanted of all.
    singles: Option<Arc<dyn Prepared>>,
    /// What the last join of the items among each other had, and its threshold.
    pruned: ForkSafeCache<(f64, Option<Arc<Pruned>>)>,
}

impl<X: Items> Index<X> {
    /// An index of the trees of a forest, or of other items; it is built when it is asked
    /// first.
    ///
    /// # Errors
    /// [`Error::Parameter`](crate::Error::Parameter) for a kernel out of range.
    pub fn new(
        measure: Arc<dyn Measure<X>>,
        items: X,
        normalize: bool,
    ) -> Result<Self> {
        measure.check()?;
        let options = Options { normalize };
        Ok(Self { measure, options, parts: collect([Part::new(items)])? })
    }

    /// How many items there are.
    pub fn len(&self) -> usize {
        self.parts.iter().map(|part| part.items.n_items()).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The items: where some were added, a list that is made of all parts.
    ///
    /// # Errors
    /// As [`Forest::concat`].
    pub fn items(&self) -> Result<X> {
        self.items_with(&Context::default())
    }

    /// As [`items`](Self::items), in a context.
    ///
    /// # Errors
    /// As [`items`](Self::items), and what `context` returns.
    pub fn items_with(&self, context: &Context) -> Result<X> {
        let last = self.parts.len() - 1;
        joined_items(&self.parts[..last], self.parts[last].items.clone(), context)
    }

    /// Adds items behind the others: this takes time by the items, and not by those that
    /// are there.
    ///
    /// # Errors
    /// As [`Forest::concat`]: with nothing changed.
    pub fn add(&mut self, items: &X) -> Result<()> {
        self.add_with(items, &Context::default())
    }

    /// As [`add`](Self::add), in a context.
    ///
    /// # Errors
    /// As [`add`](Self::add), and what `context` returns.
    pub fn add_with(&mut self, items: &X, context: &Context) -> Result<()> {
        let mut n = items.n_items();
        if n == 0 {
            return Ok(());
        }
        new_id(self.len() + n, "trees")?;
        // Parts that are no larger than what comes behind them become one with it: so each
        // time that an item is indexed again, its part has become twice as large.
        let mut kept = self.parts.len();
        while kept > 0 && self.parts[kept - 1].items.n_items() <= n {
            kept -= 1;
            n += self.parts[kept].items.n_items();
        }
        // In a store of their own: a part takes time and memory by its store.
        let items = items.compact(context)?.into_owned();
        let items = joined_items(&self.parts[kept..], items, context)?;
        // Clones keep theirs, and whoever asks goes on with them.
        self.parts.truncate(kept);
        push(&mut self.parts, Part::new(items))
    }

    /// Makes all parts one. Answers have the bits of an index that is made at once.
    ///
    /// # Errors
    /// As [`Forest::concat`]: with nothing changed.
    pub fn compact(&mut self) -> Result<()> {
        self.compact_with(&Context::default())
    }

    /// As [`compact`](Self::compact), in a context.
    ///
    /// # Errors
    /// As [`compact`](Self::compact), and what `context` returns.
    pub fn compact_with(&mut self, context: &Context) -> Result<()> {
        if self.parts.len() > 1 {
            self.parts = collect([Part::new(self.items_with(context)?)])?;
        }
        Ok(())
    }

    /// About how many bytes are held: the items, and what has been built.
    pub fn nbytes(&self) -> usize {
        self.parts.iter().map(|part| part.nbytes()).sum()
    }

    /// Builds what is not there yet.
    ///
    /// # Errors
    /// [`Error::Capacity`](crate::Error::Capacity),
    /// [`Error::Memory`](crate::Error::Memory).
    pub fn build(&self) -> Result<()> {
        self.build_with(&Context::default())
    }

    /// As [`build`](Self::build), in a context.
    ///
    /// # Errors
    /// As [`build`](Self::build), and what `context` returns.
    pub fn build_with(&self, context: &Context) -> Result<()> {
        self.each_part(context, |part, _, context| self.built(part, context).map(drop))
    }

    /// Runs something for all parts with the number of items before them. Errors name items
    /// of X and of the index. What is done is told of the first part, which comes last: it
    /// is the largest.
    fn each_part(
        &self,
        context: &Context,
        mut run: impl FnMut(&Part<X>, usize, &Context) -> Result<()>,
    ) -> Result<()> {
        let mut end = self.len();
        for (number, part) in self.parts.iter().enumerate().rev() {
            end -= part.items.n_items();
            let done = if number > 0 {
                run(part, end, &context.step())
            } else {
                run(part, end, context)
            };
            done.map_err(|error| moved(error, (0, end)))?;
        }
        Ok(())
    }

    fn built(&self, part: &Part<X>, context: &Context) -> Result<Arc<Built<X>>> {
        // Two calls may build at the same time: both get the same answers.
        if let Some(built) = part.built.get() {
            return Ok(built);
        }
        let (measure, options) = (&*self.measure, self.options);
        let rows = (RowsOf::Columns, "Y");
        let built = Built::new(measure, &part.items, options, rows, context)?;
        Ok(part.built.put(Built { singles: None, ..built }))
    }

    fn asking(&self, x: &X, context: &Context) -> Result<Asking<X>> {
        Asking::new(&*self.measure, x, self.options, context)
    }

    /// The kernels of trees with all indexed ones: as [`gram::fill`](crate::gram::fill()).
    ///
    /// # Errors
    /// As there.
    pub fn fill<T: Element>(&self, x: &X, out: &mut [T]) -> Result<Report> {
        self.fill_with(x, out, &Context::default())
    }

    /// As [`fill`](Self::fill), in a context.
    ///
    /// # Errors
    /// As [`fill`](Self::fill), and what `context` returns.
    pub fn fill_with<T: Element>(
        &self,
        x: &X,
        out: &mut [T],
        context: &Context,
    ) -> Result<Report> {
        let width = self.len();
        // Checked before anything is built.
        check_size(out, (x.n_items(), width))?;
        if out.is_empty() {
            return Ok(Report::default());
        }
        context.advance(0, x.n_items())?;
        let (asking, mut report) = (self.asking(x, context)?, Report::default());
        self.each_part(context, |part, start, context| {
            let (out, built) = ((&mut *out, width, start), self.built(part, context)?);
            let found = built.trained.fill(&*self.measure, &asking, out, context)?;
            add_report(&mut report, found, (0, start))
        })?;
        sort_report(&mut report);
        Ok(report)
    }

    /// The nearest of the indexed trees: as [`top_k`](super::top_k()).
    ///
    /// # Errors
    /// As [`top_k`](super::top_k()).
    pub fn top_k(&self, x: Option<&X>, k: usize) -> Result<(Nearest, Report)> {
        self.top_k_with(x, k, &Context::default())
    }

    /// As [`top_k`](Self::top_k), in a context.
    ///
    /// # Errors
    /// As [`top_k`](Self::top_k), and what `context` returns.
    pub fn top_k_with(
        &self,
        x: Option<&X>,
        k: usize,
        context: &Context,
    ) -> Result<(Nearest, Report)> {
        let (n, measure) = (self.len(), &*self.measure);
        context.advance(0, x.map_or(n, X::n_items))?;
        let k = k.min(if x.is_some() { n } else { n.saturating_sub(1) });
        if let Some(x) = x {
            return self.nearest(x, None, k, context);
        }
        if let [part] = &self.parts[..] {
            let built = self.built(part, context)?;
            return built.top_k(measure, self.options, None, k, context);
        }
        // Of several parts all ask as others do, so that equal trees have one value in
        // whichever part they are.
        let (mut all, mut report) = (Nearest { k, ..Nearest::default() }, None);
        let mut start = 0;
        for part in &self.parts {
            let own = Some(start);
            let (found, of_part) = self.nearest(&part.items, own, k, context)?;
            extend(&mut all.indices, found.indices)?;
            extend(&mut all.values, found.values)?;
            start += part.items.n_items();
            // All columns are told of by each part.
            let zeros = of_part.zero_columns;
            report = Some(Report { zero_rows: zeros, ..Report::default() });
        }
        let mut report = report.unwrap_or_default();
        report.zero_columns = collect(report.zero_rows.iter().copied())?;
        Ok((all, report))
    }

    /// The nearest trees of others, or of indexed ones from `own` on, which are not their
    /// own neighbours.
    fn nearest(
        &self,
        x: &X,
        own: Option<usize>,
        k: usize,
        context: &Context,
    ) -> Result<(Nearest, Report)> {
        let asking = self.asking(x, context)?;
        let (mut lists, mut report) = (Vec::new(), Report::default());
        let wanted = k + usize::from(own.is_some());
        self.each_part(context, |part, start, context| {
            let (measure, built) = (&*self.measure, self.built(part, context)?);
            let (found, of_part) =
                built.top_k(measure, self.options, Some(&asking), wanted, context)?;
            push(&mut lists, (start, found))?;
            add_report(&mut report, of_part, (0, start))
        })?;
        sort_report(&mut report);
        if own.is_none()
            && let [(_, found)] = &mut lists[..]
        {
            return Ok((std::mem::take(found), report));
        }
        let len = x.n_items().saturating_mul(k);
        let indices = filled(NOBODY, len)?;
        let farthest = nearness(&*self.measure, f64::NEG_INFINITY);
        let mut nearest = Nearest { k, indices, values: filled(farthest, len)? };
        let mut all = Vec::new();
        for row in 0..x.n_items() {
            // The nearest of all parts, the lower index first where values are equal.
            all.clear();
            for (start, found) in &lists {
                let cells = row * found.k..(row + 1) * found.k;
                let indices = found.indices[cells.clone()].iter();
                let items = indices.zip(&found.values[cells]);
                let items = items.map(|(&index, &value)| (start + index, value));
                let is_own = |index| own.is_some_and(|own| own + row == index);
                extend(&mut all, items.filter(|item| !is_own(item.0)))?;
            }
            all.sort_unstable_by(|a, b| {
                let [a_near, b_near] =
                    [a, b].map(|item| nearness(&*self.measure, item.1));
                b_near.total_cmp(&a_near).then(a.0.cmp(&b.0))
            });
            for (at, &(index, value)) in all.iter().take(k).enumerate() {
                nearest.indices[row * k + at] = index;
                nearest.values[row * k + at] = value;
            }
        }
        Ok((nearest, report))
    }

    /// All pairs with indexed trees of at least so much: as [`join`](super::join()).
    ///
    /// # Errors
    /// As [`join`](super::join()).
    pub fn join(
        &self,
        x: Option<&X>,
        least: f64,
        sink: &mut Sink<'_>,
    ) -> Result<Report> {
        self.join_with(x, least, sink, &Context::default())
    }

    /// As [`join`](Self::join), in a context.
    ///
    /// # Errors
    /// As [`join`](Self::join), and what `context` returns.
    pub fn join_with(
        &self,
        x: Option<&X>,
        least: f64,
        sink: &mut Sink<'_>,
        context: &Context,
    ) -> Result<Report> {
        check_least(least)?;
        let (measure, options) = (&*self.measure, self.options);
        check_symmetric(measure, x.is_some())?;
        context.advance(0, x.map_or_else(|| self.len(), X::n_items))?;
        let mut report = Report::default();
        if let Some(x) = x {
            let asking = self.asking(x, context)?;
            self.each_part(context, |part, start, context| {
                let sink: &mut Sink<'_> = &mut |mut pairs: FoundPairs| {
                    shift(&mut pairs.columns, start);
                    sink(pairs)
                };
                let (built, asking) = (self.built(part, context)?, Some(&asking));
                let found =
                    built.join(measure, options, asking, least, sink, context)?;
                add_report(&mut report, found, (0, start))
            })?;
            sort_report(&mut report);
            return Ok(report);
        }
        // Each part with itself, and with those before it.
        self.each_part(context, |part, start, context| {
            let sink_within = &mut |mut pairs: FoundPairs| {
                shift(&mut pairs.rows, start);
                shift(&mut pairs.columns, start);
                sink(pairs)
            };
            let built = self.built(part, context)?;
            let found =
                built.join_within(measure, options, least, sink_within, context);
            let found = found.map_err(|error| moved(error, (start, 0)))?;
            add_report(&mut report, found, (start, start))?;
            if start == 0 {
                return Ok(());
            }
            let (asking, mut before) = (self.asking(&part.items, context)?, 0);
            for earlier in &self.parts {
                if before == start {
                    break;
                }
                // The earlier item is the row.
                let sink: &mut Sink<'_> = &mut |pairs: FoundPairs| {
                    let FoundPairs { rows: mut columns, columns: mut rows, values } =
                        pairs;
                    shift(&mut rows, before);
                    shift(&mut columns, start);
                    let mut pairs = FoundPairs { rows, columns, values };
                    pairs.sort()?;
                    sink(pairs)
                };
                let built = self.built(earlier, context)?;
                built
                    .join(measure, options, Some(&asking), least, sink, context)
                    .map_err(|error| moved(error, (start, before)))?;
                before += earlier.items.n_items();
            }
            Ok(())
        })?;
        sort_report(&mut report);
        Ok(report)
    }
}

impl<X: Items> Part<X> {
    fn new(items: X) -> Arc<Self> {
        Arc::new(Self { items, built: ForkSafeCache::default() })
    }

    fn nbytes(&self) -> usize {
        let built = self.built.get().map_or(0, |built| {
            let pruned = built.pruned.get();
            let pruned = pruned.and_then(|known| Some(known.1.as_ref()?.0.nbytes()));
            built.trained.nbytes() + built.places.nbytes() + pruned.unwrap_or(0)
        });
        let trees = self.items.trees();
        trees.nodes().nbytes() + trees.len() * 4 + built
    }
}

/// The items of some parts, and then others.
fn joined_items<X: Items>(
    parts: &[Arc<Part<X>>],
    last: X,
    context: &Context,
) -> Result<X> {
    // From the end, where the smallest are: so no store is copied often.
    let mut parts = parts.iter().rev();
    parts.try_fold(last, |items, part| part.items.chain(&items, context))
}

fn shift(items: &mut [usize], by: usize) {
    for item in items {
        *item += by;
    }
}

/// The same error of items further on.
fn moved(error: Error, (rows, columns): (usize, usize)) -> Error {
    match error {
        Error::Overflow { row, column } => {
            Error::Overflow { row: rows + row, column: columns + column }
        }
        Error::ConstraintLimit { mut pairs, limit } => {
            for (row, column) in &mut pairs {
                (*row, *column) = (*row + rows, *column + columns);
            }
            Error::ConstraintLimit { pairs, limit }
        }
        Error::Indefinite { tree, set: set @ "Y", value } => {
            Error::Indefinite { tree: tree + columns, set, value }
        }
        other => other,
    }
}

/// Adds what is to be told of one part: all parts tell of the same rows.
fn add_report(
    report: &mut Report,
    part: Report,
    (rows, columns): (usize, usize),
) -> Result<()> {
    extend(&mut report.zero_rows, part.zero_rows.into_iter().map(|row| row + rows))?;
    let zeros = part.zero_columns.into_iter();
    extend(&mut report.zero_columns, zeros.map(|column| column + columns))?;
    let given_up = part.given_up.into_iter();
    let given_up = given_up.map(|(row, column)| (row + rows, column + columns));
    extend(&mut report.given_up, given_up)
}

/// Puts what was told by parts in order.
fn sort_report(report: &mut Report) {
    report.zero_rows.sort_unstable();
    report.zero_rows.dedup();
    report.zero_columns.sort_unstable();
    report.given_up.sort_unstable();
}

impl<X: Items> Built<X> {
    /// Indexes items for one call: `among_themselves`, or for others that ask.
    pub(super) fn for_call(
        measure: &dyn Measure<X>,
        items: &X,
        options: Options,
        among_themselves: bool,
        context: &Context,
    ) -> Result<Self> {
        let rows = if among_themselves {
            (RowsOf::Columns, "X")
        } else {
            (RowsOf::Others, "Y")
        };
        let mut built = Self::new(measure, items, options, rows, context)?;
        // Among each other all items are needed in pairs, so they are made ready at
        // once.
        if among_themselves && built.singles.is_none() {
            let singles = measure.prepare(&built.trained.columns.items, context)?;
            built.singles = Some(Arc::from(singles));
        }
        Ok(built)
    }

    /// Indexes items.
    fn new(
        measure: &dyn Measure<X>,
        items: &X,
        options: Options,
        rows: (RowsOf, &'static str),
        context: &Context,
    ) -> Result<Self> {
        let (trained, singles) =
            TrainedEngine::new(measure, items, options, rows, context)?;
        let places = places(&trained.columns.places)?;
        Ok(Self { trained, places, singles, pruned: ForkSafeCache::default() })
    }

    /// See [`top_k`](super::top_k()); without others the items among each other.
    pub(super) fn top_k(
        &self,
        measure: &dyn Measure<X>,
        options: Options,
        asking: Option<&Asking<X>>,
        k: usize,
        context: &Context,
    ) -> Result<(Nearest, Report)> {
        let query = asking.map(|asking| self.trained.query(measure, asking, context));
        let (query, source) = query.transpose()?.unzip(); // bounded: one of each
        let corpus = self.corpus(measure, options, query.as_ref())?;
        // Any value may be among the nearest.
        let finder = self.rows(source.as_deref(), f64::NEG_INFINITY);
        top_k_by(&corpus, &finder, k, context)
    }

    /// See [`join`](super::join()), of the items among each other.
    fn join_within(
        &self,
        measure: &dyn Measure<X>,
        options: Options,
        least: f64,
        sink: &mut Sink<'_>,
        context: &Context,
    ) -> Result<Report> {
        let corpus = self.corpus(measure, options, None)?;
        // Of the same threshold it serves again.
        let pruned = match self.pruned.get().filter(|pruned| pruned.0 == least) {
            Some(pruned) => pruned,
            None => self.pruned.put((least, corpus.pruned(least, context)?)),
        };
        if let Some(pruned) = &pruned.1 {
            let finder = Finder::Pruned(Arc::clone(pruned));
            return join_by(&corpus, &finder, least, sink, context);
        }
        // Without bounds, or where they are of no use, row by row.
        self.join(measure, options, None, least, sink, context)
    }

    /// See [`join`](super::join()), row by row.
    pub(super) fn join(
        &self,
        measure: &dyn Measure<X>,
        options: Options,
        asking: Option<&Asking<X>>,
        least: f64,
        out: &mut (impl Collect<X> + ?Sized),
        context: &Context,
    ) -> Result<Report> {
        let query = asking.map(|asking| self.trained.query(measure, asking, context));
        let (query, source) = query.transpose()?.unzip(); // bounded: one of each
        let corpus = self.corpus(measure, options, query.as_ref())?;
        // A distance is compared with its sign turned.
        let least = nearness(measure, least);
        let finder = self.rows(source.as_deref(), least);
        join_by(&corpus, &finder, least, out, context)
    }

    /// The items, and others that ask.
    fn corpus<'a>(
        &'a self,
        measure: &'a dyn Measure<X>,
        options: Options,
        query: Option<&'a QueryRows<X>>,
    ) -> Result<Corpus<'a, X>> {
        let TrainedEngine { columns, norms, .. } = &self.trained;
        Corpus::new(measure, options, (columns, &self.places), norms.as_ref(), query)
    }

    /// Candidates by the rows of others, or by those of the items.
    fn rows<'a>(
        &'a self,
        source: Option<&'a (dyn RowSource + 'a)>,
        least: f64,
    ) -> Finder<'a> {
        // Single pairs made ready are those of the items, not of others.
        let values = self.singles.as_ref().filter(|_| source.is_none());
        let values = values.map(|singles| Values {
            singles: Arc::clone(singles),
            number: None,
            norms: None,
        });
        let source: &dyn RowSource = match source {
            Some(source) => source,
            None => &*self.trained.engine,
        };
        Finder::Rows(Rows { source, values, least })
    }
}
