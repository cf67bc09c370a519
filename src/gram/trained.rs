//! Items that are indexed once, and asked by others.
//!
//! A matrix, rows on demand, neighbours and joins of some items with others are all
//! questions to one index. Items that ask have a store of their own. What the columns'
//! store calls their labels, productions and subtrees is looked up, so a question takes
//! time by its items and the row, not by the index. Sums are in the order of walks, not of
//! ids: a row has the same bits whichever items it is asked with.

use std::sync::{Arc, OnceLock};

use super::matrix::{Distinct, Element, Finish, Matrix};
use super::measure::Numbers;
use super::normalize::{Normalizer, Norms};
use super::{
    Items, Measure, Options, QueryEngine, Report, RowSource, RowsOf, by_pairs, gathered,
};
use crate::kernel::{Prepared, Worker};
use crate::memory;
use crate::{Context, Result};

/// Different items, and where they stand in a list.
pub(crate) struct Different<X> {
    pub(crate) items: X,
    pub(crate) places: Distinct,
}

impl<X: Items> Different<X> {
    pub(crate) fn new(items: &X) -> Result<Self> {
        let places = Distinct::of(items)?;
        let first: Vec<usize> =
            memory::collect(places.first.iter().map(|&p| p as usize))?;
        Ok(Self { items: items.pick(&first)?, places })
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// What their values are divided by; `set` is what the list is called.
    pub(crate) fn norms(
        &self,
        singles: &dyn Prepared,
        set: &'static str,
        context: &Context,
    ) -> Result<Norms> {
        let place = |item: usize| (self.places.first[item] as usize, set);
        Norms::new(singles, self.len(), place, context)
    }
}

/// An engine of some different items, and their values ready for single pairs where
/// these are made anyway, or are wanted.
pub(crate) type Built<X> = (Box<dyn QueryEngine<X>>, Option<Arc<dyn Prepared>>);

/// Makes an engine of different items.
pub(crate) fn engine<X: Items>(
    measure: &dyn Measure<X>,
    items: &X,
    rows_of: RowsOf,
    wants_singles: bool,
    context: &Context,
) -> Result<Built<X>> {
    let singles = || -> Result<Arc<dyn Prepared>> {
        Ok(Arc::from(measure.prepare(items, context)?))
    };
    // By an index, if the kernel has one.
    let fast = measure.fast().map(|fast| fast.engine(items, rows_of, context));
    if let Some(engine) = fast.transpose()?.flatten() {
        return Ok((engine, wants_singles.then(singles).transpose()?));
    }
    // Others ask with all items made ready once more.
    let is_needed = wants_singles || rows_of != RowsOf::Others;
    let pairs = if is_needed {
        singles()?
    } else {
        Arc::from(measure.prepare(&items.pick(&[])?, context)?)
    };
    let engine = by_pairs::Engine { pairs: Arc::clone(&pairs), first_row: 0 };
    Ok((Box::new(engine), is_needed.then_some(pairs)))
}

/// The index of some items, the columns.
pub(crate) struct TrainedEngine<X: Items> {
    pub(crate) columns: Arc<Different<X>>,
    numbers: Arc<Numbers<X>>,
    pub(crate) engine: Box<dyn QueryEngine<X>>,
    /// Where values are normalised.
    pub(crate) norms: Option<Norms>,
}

/// Items that ask, whichever index: the different ones, in a store that is not much larger
/// than they are, as what follows is linear in it.
pub(crate) struct Asking<X> {
    pub(crate) rows: Arc<Different<X>>,
    /// Where values are normalised: when they are needed first.
    norms: OnceLock<Arc<Norms>>,
}

impl<X: Items> Asking<X> {
    pub(crate) fn new(x: &X, context: &Context) -> Result<Self> {
        let rows = Arc::new(Different::new(&*x.compact(context)?)?);
        Ok(Self { rows, norms: OnceLock::new() })
    }

    /// The same, of an index that is made for this question: where they share its store, of
    /// which all is read anyway, they stay there.
    pub(crate) fn once(x: &X, columns: &X, context: &Context) -> Result<Self> {
        if !x.trees().shares_store(columns.trees()) {
            return Self::new(x, context);
        }
        Ok(Self { rows: Arc::new(Different::new(x)?), norms: OnceLock::new() })
    }

    fn norms(&self, measure: &dyn Measure<X>, context: &Context) -> Result<Arc<Norms>> {
        if let Some(norms) = self.norms.get() {
            return Ok(Arc::clone(norms));
        }
        // What rows are divided by needs single pairs of their items.
        let singles = measure.prepare(&self.rows.items, context)?;
        let norms = Arc::new(self.rows.norms(&*singles, "X", context)?);
        Ok(Arc::clone(self.norms.get_or_init(|| norms)))
    }
}

/// Items that ask one index.
pub(crate) struct QueryRows<X> {
    pub(crate) rows: Arc<Different<X>>,
    /// Where values are normalised, and this is known.
    pub(crate) norms: Option<Arc<Norms>>,
    /// Per row the column that is the same item, or a number of none.
    pub(crate) same: Vec<u32>,
}

impl<X: Items> TrainedEngine<X> {
    /// Indexes items; `set` is what they are called. Returns them ready for single pairs
    /// as well, where that is needed to index them.
    pub(crate) fn new(
        measure: &dyn Measure<X>,
        items: &X,
        options: Options,
        (rows_of, set): (RowsOf, &'static str),
        context: &Context,
    ) -> Result<(Self, Option<Arc<dyn Prepared>>)> {
        let columns = Different::new(items)?;
        let numbers = Arc::new(Numbers::new(&columns.items)?);
        let columns = (Arc::new(columns), numbers);
        Self::of(measure, columns, options, (rows_of, set), context)
    }

    /// As [`new`](Self::new), of items that are different, with their numbers.
    pub(crate) fn of(
        measure: &dyn Measure<X>,
        (columns, numbers): (Arc<Different<X>>, Arc<Numbers<X>>),
        options: Options,
        (rows_of, set): (RowsOf, &'static str),
        context: &Context,
    ) -> Result<(Self, Option<Arc<dyn Prepared>>)> {
        let wants_singles = options.normalize;
        let (engine, singles) =
            engine(measure, &columns.items, rows_of, wants_singles, context)?;
        let norms = match &singles {
            Some(singles) if options.normalize => {
                Some(columns.norms(&**singles, set, context)?)
            }
            _ => None,
        };
        Ok((Self { columns, numbers, engine, norms }, singles))
    }

    pub(crate) fn nbytes(&self) -> usize {
        self.engine.nbytes() + self.columns.len() * 64
    }

    /// Looks up other items.
    pub(crate) fn query(
        &self,
        measure: &dyn Measure<X>,
        asking: &Asking<X>,
        context: &Context,
    ) -> Result<(QueryRows<X>, Box<dyn RowSource + '_>)> {
        let (columns, rows) = (&self.columns.items, Arc::clone(&asking.rows));
        let source = self.engine.query(measure, columns, &rows.items, context)?;
        let is_normalized = self.norms.is_some();
        let norms =
            is_normalized.then(|| asking.norms(measure, context)).transpose()?;
        let same = self.numbers.find(columns, &rows.items)?;
        Ok((QueryRows { rows, norms, same }, source))
    }

    /// The matrix of some items with the columns, as columns of a wider one: `out`, its
    /// width, and where they begin.
    pub(crate) fn fill<T: Element>(
        &self,
        measure: &dyn Measure<X>,
        asking: &Asking<X>,
        (out, width, first_column): (&mut [T], usize, usize),
        context: &Context,
    ) -> Result<Report> {
        let (query, source) = self.query(measure, asking, context)?;
        let on_demand =
            PairsOnDemand { measure, columns: &self.columns.items, query: &query };
        let norms = self.norms.as_ref().zip(query.norms.as_deref());
        let finish = Finish {
            normalizer: norms.map(|(columns, rows)| Normalizer {
                rows,
                columns,
                same: Some(&query.same),
            }),
            singles: Some(&on_demand),
            largest: T::LARGEST,
        };
        let (columns, rows) = (&self.columns.places, Some(&query.rows.places));
        let matrix = Matrix { out, width, first_column, columns, rows };
        matrix.fill(&*source, &finish, context)
    }
}

/// Single pairs of a row and a column, each made ready when it is asked for: few are too
/// large for floats.
struct PairsOnDemand<'a, X> {
    measure: &'a dyn Measure<X>,
    columns: &'a X,
    query: &'a QueryRows<X>,
}

impl<X: Items> Prepared for PairsOnDemand<'_, X> {
    fn worker(&self) -> Worker<'_> {
        Box::new(move |x, t, context| {
            let parts = [(&self.query.rows.items, &[x][..]), (self.columns, &[t])];
            let singles = self.measure.prepare(&gathered(parts, context)?, context)?;
            singles.worker()(0, 1, context)
        })
    }
}
