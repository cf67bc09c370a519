//! Rows pair by pair, for measures that have no index.

use std::sync::Arc;

use super::{Items, Measure, QueryEngine, RowSource, RowWorker};
use crate::kernel::{Prepared, Scaled};
use crate::{Context, Error, Result, memory};

/// Cells between two looks at the clock, which takes longer than a small cell. A measure that
/// takes longer than a tenth of a second for one asks the context itself.
const PER_LOOK: usize = 8;

/// Items made ready, the columns before those of the rows.
pub(crate) struct Engine {
    pub(crate) pairs: Arc<dyn Prepared>,
    /// Where the rows' items start: at 0 where these are the columns.
    pub(crate) first_row: usize,
}

impl RowSource for Engine {
    fn worker(&self) -> Result<RowWorker<'_>> {
        let mut value_of = self.pairs.worker();
        Ok(Box::new(move |x, row, context| {
            let mut given_up = Vec::new();
            for (column, value) in row.iter_mut().enumerate() {
                let single = value_of(self.first_row + x, column, context);
                *value = match single.map(Scaled::value) {
                    // Of either sign an overflow.
                    Ok(value) if value.is_infinite() => f64::INFINITY,
                    Ok(value) => value,
                    Err(Error::ConstraintLimit { .. }) => {
                        memory::push(&mut given_up, column as u32)?;
                        f64::NAN
                    }
                    Err(error) => return Err(error),
                };
                if column.is_multiple_of(PER_LOOK) {
                    context.check_now()?;
                }
            }
            Ok(given_up)
        }))
    }

    fn block_height(&self) -> usize {
        16
    }
}

impl<X: Items> QueryEngine<X> for Engine {
    /// A measure makes all items of its pairs ready at once, so the columns once more.
    fn query<'a>(
        &'a self,
        measure: &dyn Measure<X>,
        columns: &X,
        rows: &X,
        context: &Context,
    ) -> Result<Box<dyn RowSource + 'a>> {
        let both = columns.chain(rows, context)?;
        let pairs = Arc::from(measure.prepare(&both, context)?);
        Ok(Box::new(Self { pairs, first_row: columns.n_items() }))
    }

    fn nbytes(&self) -> usize {
        0
    }
}
