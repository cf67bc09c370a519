//! Items that are indexed once and asked often.

use std::sync::Arc;

use super::candidates::Pruned;
use super::corpus::{Columns, Corpus, Finder, Rows, Values};
use super::filter::{Choice, Filter};
use super::{
    Collect, FoundPairs, NOBODY, Nearest, Sink, check_symmetric, join_by, nearness,
    top_k_by,
};
use crate::gram::{
    Asking, Different, Element, Items, Measure, Near, Numbers, Options, QueryRows,
    Report, RowSource, RowsOf, TrainedEngine, check_size,
};
use crate::intern::new_id;
use crate::kernel::Prepared;
use crate::memory::{collect, extend, push};
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

/// Some items that stand together, and what is built of them when it is needed first.
struct Part<X: Items> {
    items: X,
    numbered: ForkSafeCache<Numbered<X>>,
    built: ForkSafeCache<Built<X>>,
    pruned: ForkSafeCache<KeptBound>,
    near: ForkSafeCache<KeptNear<X>>,
}

/// What finds the near ones of a distance; None: it has no bounds.
struct KeptNear<X: Items>(Option<Arc<dyn Near<X>>>);

/// What finds answers without rows.
enum Kept<X: Items> {
    Bound(Arc<Pruned>),
    Near(Arc<dyn Near<X>>),
}

/// The bound for the lowest threshold that was asked for and where it is of use: it serves
/// those above it as well.
#[derive(Clone, Default)]
struct KeptBound {
    least: f64,
    pruned: Option<Arc<Pruned>>,
    /// Up to this threshold too many pairs pass.
    useless: f64,
}

/// The different items, and their numbers.
struct Numbered<X: Items> {
    columns: Arc<Columns<X>>,
    numbers: Arc<Numbers<X>>,
}

/// An engine, and what neighbours need besides.
pub(super) struct Built<X: Items> {
    trained: TrainedEngine<X>,
    columns: Arc<Columns<X>>,
    /// The items made ready for single pairs, where they are wanted of all.
    singles: Option<Arc<dyn Prepared>>,
    /// Places of items that have no kernel with themselves, where values are normalised.
    zeros: Vec<usize>,
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
        self.each_part(context, |part, _, context| match self.near(part, context)? {
            Some(_) => Ok(()),
            None => self.built(part, context).map(drop),
        })
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
        let built = Built::new(measure, &*part.numbered()?, options, rows, context)?;
        Ok(part.built.put(Built { singles: None, ..built }))
    }

    /// The bound of a part, where it is of use for this threshold.
    fn pruned(
        &self,
        part: &Part<X>,
        least: f64,
        context: &Context,
    ) -> Result<Option<Arc<Pruned>>> {
        let kept = part.pruned.get();
        let kept = kept.map_or_else(KeptBound::default, |kept| KeptBound::clone(&kept));
        if !self.options.normalize || least <= kept.useless {
            return Ok(None);
        }
        if kept.pruned.is_some() && kept.least <= least {
            return Ok(kept.pruned);
        }
        let numbered = part.numbered()?;
        let (measure, columns) = (&*self.measure, &numbered.columns);
        let corpus = Corpus::new(measure, self.options, columns, None, None)?;
        let Some(pruned) = Pruned::for_any(&corpus, least, context)? else {
            return Ok(None);
        };
        let candidates = Arc::clone(&pruned).candidates(&corpus, least, context)?;
        if !candidates.are_few(&corpus, context)? {
            part.pruned.put(KeptBound { useless: least, ..kept });
            return Ok(None);
        }
        let pruned = Some(pruned);
        Ok(part.pruned.put(KeptBound { least, pruned, ..kept }).pruned.clone())
    }

    /// What finds the near ones of a part's items, where these are found by bounds.
    fn near(
        &self,
        part: &Part<X>,
        context: &Context,
    ) -> Result<Option<Arc<dyn Near<X>>>> {
        if !self.measure.is_distance() || self.options.normalize {
            return Ok(None);
        }
        if let Some(kept) = part.near.get() {
            return Ok(kept.0.clone());
        }
        let columns = Arc::clone(&part.numbered()?.columns.different);
        let near = self.measure.near(&columns.items, columns.len(), context)?;
        Ok(part.near.put(KeptNear(near)).0.clone())
    }

    /// What finds answers of a part without rows, where that is less.
    fn kept(
        &self,
        part: &Part<X>,
        least: f64,
        context: &Context,
    ) -> Result<Option<Kept<X>>> {
        if let Some(near) = self.near(part, context)? {
            return Ok(Some(Kept::Near(near)));
        }
        Ok(self.pruned(part, least, context)?.map(Kept::Bound))
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
        let (asking, mut report) = (Asking::new(x, context)?, Report::default());
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
        self.top_k_filtered_with(x, k, &Filter::default(), context)
    }

    /// The nearest of the indexed trees that a filter lets through; where these are fewer
    /// than `k`, [`NOBODY`](super::NOBODY) behind them. With a smallest kernel a bound is
    /// kept, as for [`join`](Self::join), and few kernels are computed.
    ///
    /// # Errors
    /// As [`top_k`](Self::top_k), [`Error::Parameter`] for a smallest kernel that is no
    /// number, and [`Error::Length`] for a list that has not a value for each tree.
    pub fn top_k_filtered(
        &self,
        x: Option<&X>,
        k: usize,
        filter: &Filter<'_>,
    ) -> Result<(Nearest, Report)> {
        self.top_k_filtered_with(x, k, filter, &Context::default())
    }

    /// As [`top_k_filtered`](Self::top_k_filtered), in a context.
    ///
    /// # Errors
    /// As [`top_k_filtered`](Self::top_k_filtered), and what `context` returns.
    pub fn top_k_filtered_with(
        &self,
        x: Option<&X>,
        k: usize,
        filter: &Filter<'_>,
        context: &Context,
    ) -> Result<(Nearest, Report)> {
        let n = self.len();
        filter.check(n)?;
        context.advance(0, x.map_or(n, X::n_items))?;
        let k = k.min(if x.is_some() { n } else { n.saturating_sub(1) });
        if let Some(x) = x {
            return self.nearest(x, None, k, filter, context);
        }
        if let [part] = &self.parts[..] {
            let choice = filter.of_part(0, n);
            return self.nearest_of_part(part, None, k, filter, choice, context);
        }
        // Of several parts all ask as others do, so that equal trees have one value in
        // whichever part they are.
        let (mut nearest, mut report) =
            (Nearest { k, ..Nearest::default() }, Report::default());
        let mut start = 0;
        for part in &self.parts {
            let own = Some(start);
            let (found, of_part) =
                self.nearest(&part.items, own, k, filter, context)?;
            extend(&mut nearest.indices, found.indices)?;
            extend(&mut nearest.values, found.values)?;
            start += part.items.n_items();
            // Each part is told of all columns.
            report.zero_rows = of_part.zero_columns;
        }
        report.zero_columns = collect(report.zero_rows.iter().copied())?;
        Ok((nearest, report))
    }

    /// The nearest trees of others, or of indexed ones from `own` on, which are not their
    /// own neighbours.
    fn nearest(
        &self,
        x: &X,
        own: Option<usize>,
        k: usize,
        filter: &Filter<'_>,
        context: &Context,
    ) -> Result<(Nearest, Report)> {
        let asking = Asking::new(x, context)?;
        let (mut lists, mut report) = (Vec::new(), Report::default());
        let wanted = k + usize::from(own.is_some());
        self.each_part(context, |part, start, context| {
            let choice = filter.of_part(start, part.items.n_items());
            let (found, of_part) = self.nearest_of_part(
                part,
                Some(&asking),
                wanted,
                filter,
                choice,
                context,
            )?;
            push(&mut lists, (start, found))?;
            add_report(&mut report, of_part, (0, start))
        })?;
        sort_report(&mut report);
        if own.is_none()
            && let [(_, found)] = &mut lists[..]
        {
            return Ok((std::mem::take(found), report));
        }
        let mut nearest = Nearest::of_nobody(&*self.measure, x.n_items(), k)?;
        let mut merged = Vec::new();
        for row in 0..x.n_items() {
            // The nearest of all parts, the lower index first where values are equal.
            merged.clear();
            for (start, found) in &lists {
                let cells = row * found.k..(row + 1) * found.k;
                let indices = found.indices[cells.clone()].iter();
                let items = indices.zip(&found.values[cells]);
                let items = items.filter(|(index, _)| **index != NOBODY);
                let items = items.map(|(index, value)| (start + index, *value));
                let is_own = |index| own.is_some_and(|own| own + row == index);
                extend(&mut merged, items.filter(|item| !is_own(item.0)))?;
            }
            merged.sort_unstable_by(|a, b| {
                let [a_near, b_near] =
                    [a, b].map(|item| nearness(&*self.measure, item.1));
                b_near.total_cmp(&a_near).then(a.0.cmp(&b.0))
            });
            for (at, &(index, value)) in merged.iter().take(k).enumerate() {
                nearest.indices[row * k + at] = index;
                nearest.values[row * k + at] = value;
            }
        }
        Ok((nearest, report))
    }

    /// The nearest items of a part; without others those of its items.
    fn nearest_of_part(
        &self,
        part: &Part<X>,
        asking: Option<&Asking<X>>,
        k: usize,
        filter: &Filter<'_>,
        choice: Choice<'_>,
        context: &Context,
    ) -> Result<(Nearest, Report)> {
        let (measure, options) = (&*self.measure, self.options);
        let least = filter.least(measure);
        if let Some(kept) = self.kept(part, least, context)? {
            let above = (choice, least);
            let found =
                self.by_bound(part, asking, above, kept, context, |corpus, finder| {
                    top_k_by(corpus, finder, k, least, context)
                })?;
            if let Some(found) = found {
                return Ok(found);
            }
        }
        let built = self.built(part, context)?;
        built.top_k(measure, options, asking, k, (choice, least), context)
    }

    /// All pairs with indexed trees of at least so much: as [`join`](super::join()).
    ///
    /// The bound of the lowest threshold that was asked for is kept.
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
        let filter = Filter::default().with_at_least(least);
        self.join_filtered_with(x, &filter, sink, context)
    }

    /// All pairs with indexed trees that a filter lets through. Without `x` both trees of a
    /// pair are to be among those of the filter.
    ///
    /// # Errors
    /// As [`join`](Self::join) and [`top_k_filtered`](Self::top_k_filtered).
    pub fn join_filtered(
        &self,
        x: Option<&X>,
        filter: &Filter<'_>,
        sink: &mut Sink<'_>,
    ) -> Result<Report> {
        self.join_filtered_with(x, filter, sink, &Context::default())
    }

    /// As [`join_filtered`](Self::join_filtered), in a context.
    ///
    /// # Errors
    /// As [`join_filtered`](Self::join_filtered), and what `context` returns.
    pub fn join_filtered_with(
        &self,
        x: Option<&X>,
        filter: &Filter<'_>,
        sink: &mut Sink<'_>,
        context: &Context,
    ) -> Result<Report> {
        filter.check(self.len())?;
        check_symmetric(&*self.measure, x.is_some())?;
        context.advance(0, x.map_or_else(|| self.len(), X::n_items))?;
        let mut report = Report::default();
        if let Some(x) = x {
            let asking = Asking::new(x, context)?;
            self.each_part(context, |part, start, context| {
                let sink: &mut Sink<'_> = &mut |mut pairs: FoundPairs| {
                    shift(&mut pairs.columns, start);
                    hand_on(pairs, filter, false, sink)
                };
                let found =
                    self.join_part(part, start, Some(&asking), filter, sink, context)?;
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
                hand_on(pairs, filter, true, sink)
            };
            let found = self.join_part(part, start, None, filter, sink_within, context);
            let found = found.map_err(|error| moved(error, (start, 0)))?;
            add_report(&mut report, found, (start, start))?;
            if start == 0 {
                return Ok(());
            }
            let (asking, mut before) = (Asking::new(&part.items, context)?, 0);
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
                    hand_on(pairs, filter, true, sink)
                };
                self.join_part(earlier, before, Some(&asking), filter, sink, context)
                    .map_err(|error| moved(error, (start, before)))?;
                before += earlier.items.n_items();
            }
            Ok(())
        })?;
        sort_report(&mut report);
        Ok(report)
    }

    /// The pairs of a part; without others those among its items.
    fn join_part(
        &self,
        part: &Part<X>,
        start: usize,
        asking: Option<&Asking<X>>,
        filter: &Filter<'_>,
        sink: &mut Sink<'_>,
        context: &Context,
    ) -> Result<Report> {
        let (measure, options) = (&*self.measure, self.options);
        let choice = filter.of_part(start, part.items.n_items());
        let least = filter.least(measure);
        if let Some(kept) = self.kept(part, least, context)? {
            let above = (choice, least);
            let found =
                self.by_bound(part, asking, above, kept, context, |corpus, finder| {
                    join_by(corpus, finder, least, sink, context)
                })?;
            if let Some(report) = found {
                return Ok(report);
            }
        }
        // Without bounds, or where they are of no use, row by row.
        let built = self.built(part, context)?;
        built.join(measure, options, asking, (choice, least), sink, context)
    }

    /// Runs something by what is kept of a part, without its rows. None: that is of no use
    /// for those that ask.
    fn by_bound<T>(
        &self,
        part: &Part<X>,
        asking: Option<&Asking<X>>,
        (choice, least): (Choice<'_>, f64),
        kept: Kept<X>,
        context: &Context,
        run: impl FnOnce(&Corpus<'_, X>, &Finder<'_, X>) -> Result<T>,
    ) -> Result<Option<T>> {
        let numbered = part.numbered()?;
        let Numbered { columns, numbers } = &*numbered;
        let query = asking.map(|asking| -> Result<_> {
            let rows = Arc::clone(&asking.rows);
            let same = numbers.find(&columns.different.items, &rows.items)?;
            Ok(QueryRows { rows, norms: None, same })
        });
        let (query, measure) = (query.transpose()?, &*self.measure);
        let mut corpus =
            Corpus::new(measure, self.options, columns, None, query.as_ref())?;
        corpus.choice = choice;
        let finder = match kept {
            Kept::Bound(pruned) => {
                Finder::Pruned(pruned.candidates(&corpus, least, context)?)
            }
            Kept::Near(near) => {
                let rows = query.as_ref().map(|query| &query.rows.items);
                let most = nearness(measure, least);
                let most = Some(most).filter(|&most| most < f64::INFINITY);
                let Some(near) = near.asked_by(rows, most, context)? else {
                    return Ok(None);
                };
                Finder::of_near(near)
            }
        };
        run(&corpus, &finder).map(Some)
    }
}

impl<X: Items> Part<X> {
    fn new(items: X) -> Arc<Self> {
        Arc::new(Self {
            items,
            numbered: ForkSafeCache::default(),
            built: ForkSafeCache::default(),
            pruned: ForkSafeCache::default(),
            near: ForkSafeCache::default(),
        })
    }

    fn numbered(&self) -> Result<Arc<Numbered<X>>> {
        match self.numbered.get() {
            Some(numbered) => Ok(numbered),
            None => Ok(self.numbered.put(Numbered::new(&self.items)?)),
        }
    }

    fn nbytes(&self) -> usize {
        let built = self
            .built
            .get()
            .map_or(0, |built| built.trained.nbytes() + built.columns.places.nbytes());
        let pruned = self.pruned.get();
        let pruned = pruned.and_then(|kept| Some(kept.pruned.as_ref()?.nbytes()));
        let near = self.near.get();
        let near = near.and_then(|kept| Some(kept.0.as_ref()?.nbytes()));
        let kept = pruned.unwrap_or(0) + near.unwrap_or(0);
        let trees = self.items.trees();
        trees.nodes().nbytes() + trees.len() * 4 + built + kept
    }
}

impl<X: Items> Numbered<X> {
    fn new(items: &X) -> Result<Self> {
        let different = Different::new(items)?;
        let numbers = Arc::new(Numbers::new(&different.items)?);
        Ok(Self { columns: Arc::new(Columns::new(Arc::new(different))?), numbers })
    }
}

/// Hands on the pairs of a join that a filter lets through.
fn hand_on(
    mut pairs: FoundPairs,
    filter: &Filter<'_>,
    is_self: bool,
    sink: &mut Sink<'_>,
) -> Result<()> {
    let Some(among) = filter.among else { return sink(pairs) };
    let mut kept = 0;
    for at in 0..pairs.rows.len() {
        let (row, column) = (pairs.rows[at], pairs.columns[at]);
        if among[column] && (!is_self || among[row]) {
            pairs.rows[kept] = row;
            pairs.columns[kept] = column;
            pairs.values[kept] = pairs.values[at];
            kept += 1;
        }
    }
    pairs.rows.truncate(kept);
    pairs.columns.truncate(kept);
    pairs.values.truncate(kept);
    if kept > 0 { sink(pairs) } else { Ok(()) }
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
        let numbered = Numbered::new(items)?;
        let mut built = Self::new(measure, &numbered, options, rows, context)?;
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
        numbered: &Numbered<X>,
        options: Options,
        rows: (RowsOf, &'static str),
        context: &Context,
    ) -> Result<Self> {
        let columns = Arc::clone(&numbered.columns);
        let items = (Arc::clone(&columns.different), Arc::clone(&numbered.numbers));
        let (trained, singles) =
            TrainedEngine::of(measure, items, options, rows, context)?;
        let zeros = match &trained.norms {
            Some(norms) => columns.different.places.zeros(norms)?,
            None => Vec::new(),
        };
        Ok(Self { trained, columns, singles, zeros })
    }

    /// See [`top_k`](super::top_k()); without others the items among each other.
    pub(super) fn top_k(
        &self,
        measure: &dyn Measure<X>,
        options: Options,
        asking: Option<&Asking<X>>,
        k: usize,
        (choice, least): (Choice<'_>, f64),
        context: &Context,
    ) -> Result<(Nearest, Report)> {
        self.by_rows(
            measure,
            options,
            asking,
            (choice, least),
            context,
            |corpus, finder| top_k_by(corpus, finder, k, least, context),
        )
    }

    /// See [`join`](super::join()), row by row.
    pub(super) fn join(
        &self,
        measure: &dyn Measure<X>,
        options: Options,
        asking: Option<&Asking<X>>,
        (choice, least): (Choice<'_>, f64),
        out: &mut (impl Collect<X> + ?Sized),
        context: &Context,
    ) -> Result<Report> {
        self.by_rows(
            measure,
            options,
            asking,
            (choice, least),
            context,
            |corpus, finder| join_by(corpus, finder, least, out, context),
        )
    }

    /// Runs something by the rows of others, or by those of the items.
    fn by_rows<T>(
        &self,
        measure: &dyn Measure<X>,
        options: Options,
        asking: Option<&Asking<X>>,
        (choice, least): (Choice<'_>, f64),
        context: &Context,
        run: impl FnOnce(&Corpus<'_, X>, &Finder<'_, X>) -> Result<T>,
    ) -> Result<T> {
        let query = asking.map(|asking| self.trained.query(measure, asking, context));
        let (query, source) = query.transpose()?.unzip(); // bounded: one of each
        let (columns, norms) = (&*self.columns, self.trained.norms.as_ref());
        let mut corpus = Corpus::new(measure, options, columns, norms, query.as_ref())?;
        corpus.choice = choice;
        // Single pairs made ready are those of the items, not of others.
        let values = self.singles.as_ref().filter(|_| source.is_none());
        let values = values.map(|singles| Values {
            singles: Arc::clone(singles),
            number: None,
            norms: None,
        });
        let source: &dyn RowSource = match &source {
            Some(source) => &**source,
            None => &*self.trained.engine,
        };
        let zero_columns = &self.zeros;
        run(&corpus, &Finder::Rows(Rows { source, values, zero_columns, least }))
    }
}
