//! Whole kernel matrices, rows by rows.

mod counts;
mod partial;
mod subset;
mod team;

/// An index of some trees, the columns, from which kernels of one row's tree with all
/// of them are computed at once.
pub(crate) trait Engine: Sync {
    /// What a worker keeps from row to row.
    type Scratch: Send;

    /// A new worker's scratch.
    fn scratch(&self) -> Self::Scratch;

    /// The kernels of row `x` with the first `row.len()` columns. Faster when a worker
    /// takes its rows in ascending order; right in any.
    fn row(&self, x: usize, scratch: &mut Self::Scratch, row: &mut [f64]);
}
