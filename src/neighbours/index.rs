//! Items that are indexed once and asked often.

use std::sync::Arc;

use super::corpus::{Corpus, Finder, Pruned, Rows, Values, places};
use super::{Nearest, Sink, check_least, check_symmetric, join_by, nearness, top_k_by};
use crate::gram::{
    Element, Items, Measure, Options, QueryRows, Report, RowSource, RowsOf,
    TrainedEngine, check_size,
};
use crate::kernel::Prepared;
use crate::ragged::Ragged;
use crate::threads::ForkSafeCache;
use crate::{Context, Forest, Result};

/// What matrices, joins and nearest trees need of some trees, or of other items, built
/// once.
///
/// Its answers are those of [`gram::fill`](crate::gram::fill()), [`join`](super::join())
/// and [`top_k`](super::top_k()) with these trees as Y (as X, where there are no others),
/// bit for bit: so what is built is built anew by the first question after
/// [`add`](Self::add).
///
/// # Complexity
/// A question takes time by its trees and their rows, not by what was built. But the trees
/// are indexed again, together with those that ask, for measures without an index, where
/// labels match by similarity, and where a partial tree kernel meets a label with other
/// kinds of children than before.
#[derive(Clone)]
pub struct Index<X: Items = Forest> {
    measure: Arc<dyn Measure<X>>,
    options: Options,
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
        Ok(Self { measure, options, items, built: ForkSafeCache::default() })
    }

    /// The items.
    pub fn items(&self) -> &X {
        &self.items
    }

    /// Adds items behind the others.
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
        self.items = self.items.chain(items, context)?;
        // The index of fewer items is of no use any more; clones keep theirs.
        self.built = ForkSafeCache::default();
        Ok(())
    }

    /// About how many bytes are held: the items, and what has been built.
    pub fn nbytes(&self) -> usize {
        let built = self.built.get().map_or(0, |built| {
            let pruned = built.pruned.get();
            let pruned = pruned.and_then(|known| Some(known.1.as_ref()?.0.nbytes()));
            built.trained.nbytes() + built.places.nbytes() + pruned.unwrap_or(0)
        });
        let trees = self.items.trees();
        trees.nodes().nbytes() + trees.len() * 4 + built
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
        self.built(context).map(drop)
    }

    fn built(&self, context: &Context) -> Result<Arc<Built<X>>> {
        // Two calls may build at the same time: both get the same answers.
        if let Some(built) = self.built.get() {
            return Ok(built);
        }
        let (measure, options) = (&*self.measure, self.options);
        let rows = (RowsOf::Columns, "Y");
        let built = Built::new(measure, &self.items, options, rows, context)?;
        Ok(self.built.put(Built { singles: None, ..built }))
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
        // Checked before anything is built.
        check_size(out, (x.n_items(), self.items.n_items()))?;
        if out.is_empty() {
            return Ok(Report::default());
        }
        context.advance(0, x.n_items())?;
        self.built(context)?.trained.fill(&*self.measure, x, out, context)
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
        context.advance(0, x.unwrap_or(&self.items).n_items())?;
        let (built, measure) = (self.built(context)?, &*self.measure);
        built.top_k(measure, self.options, x, k, context)
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
        check_symmetric(&*self.measure, x.is_some())?;
        context.advance(0, x.unwrap_or(&self.items).n_items())?;
        let (built, measure) = (self.built(context)?, &*self.measure);
        if x.is_none() {
            let corpus = built.corpus(measure, self.options, None)?;
            // Of the same threshold it serves again.
            let pruned = match built.pruned.get().filter(|pruned| pruned.0 == least) {
                Some(pruned) => pruned,
                None => built.pruned.put((least, corpus.pruned(least, context)?)),
            };
            if let Some(pruned) = &pruned.1 {
                let finder = Finder::Pruned(Arc::clone(pruned));
                return join_by(&corpus, &finder, least, sink, context);
            }
        }
        // Without bounds, or where they are of no use, row by row.
        built.join(measure, self.options, x, least, sink, context)
    }
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

    /// See [`top_k`](super::top_k()); without `x` the items among each other.
    pub(super) fn top_k(
        &self,
        measure: &dyn Measure<X>,
        options: Options,
        x: Option<&X>,
        k: usize,
        context: &Context,
    ) -> Result<(Nearest, Report)> {
        let query = x.map(|x| self.trained.query(measure, x, context)).transpose()?;
        let (query, source) = query.unzip(); // bounded: one of each
        let corpus = self.corpus(measure, options, query.as_ref())?;
        // Any value may be among the nearest.
        let finder = self.rows(source.as_deref(), f64::NEG_INFINITY);
        top_k_by(&corpus, &finder, k, context)
    }

    /// See [`join`](super::join()), row by row.
    pub(super) fn join(
        &self,
        measure: &dyn Measure<X>,
        options: Options,
        x: Option<&X>,
        least: f64,
        sink: &mut Sink<'_>,
        context: &Context,
    ) -> Result<Report> {
        let query = x.map(|x| self.trained.query(measure, x, context)).transpose()?;
        let (query, source) = query.unzip(); // bounded: one of each
        let corpus = self.corpus(measure, options, query.as_ref())?;
        // A distance is compared with its sign turned.
        let least = nearness(measure, least);
        let finder = self.rows(source.as_deref(), least);
        join_by(&corpus, &finder, least, sink, context)
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
