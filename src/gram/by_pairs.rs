//! Rows pair by pair, for kernels that have no index.

use std::sync::Arc;

use crate::kernel::{Prepared, TreeCounts};
use crate::{Context, Nodes, Result};

/// Trees made ready, the columns before those of the rows.
pub(crate) struct Engine {
    pub(crate) pairs: Arc<dyn Prepared>,
    /// Where the rows' trees start: at 0 where these are the columns.
    pub(crate) first_row: usize,
}

impl super::Engine for Engine {
    /// A worker borrows from the engine, so each row has one of its own: one for many
    /// pairs all the same.
    type Scratch = ();
    const HEIGHT: usize = 16;

    fn most(&self) -> f64 {
        self.pairs.most()
    }

    fn scratch(&self) -> Result<()> {
        Ok(())
    }

    fn row(
        &self,
        x: usize,
        (): &mut (),
        row: &mut [f64],
        context: &Context,
    ) -> Result<()> {
        let mut of = self.pairs.worker();
        for (tree, value) in row.iter_mut().enumerate() {
            *value = of(self.first_row + x, tree, context)?.value();
            if value.is_infinite() {
                *value = f64::INFINITY; // of either sign an overflow
            }
            context.check_now()?;
        }
        Ok(())
    }
}

impl super::Askable for Engine {
    type Rows = ();

    fn read(&self, _: &Nodes, _: &Arc<Nodes>, _: &TreeCounts) -> Result<Option<()>> {
        Ok(None)
    }

    fn row_of(
        &self,
        (): &(),
        x: usize,
        scratch: &mut (),
        row: &mut [f64],
        context: &Context,
    ) -> Result<()> {
        super::Engine::row(self, x, scratch, row, context)
    }

    fn nbytes(&self) -> usize {
        0
    }
}
