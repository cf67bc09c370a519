//! Robinson-Foulds distance.

use pyo3::prelude::*;

use super::measure::{Call, Zeros};
use super::objects::forest_of;
use crate::clades::RobinsonFoulds;

/// See [`Call::gram`].
#[pyfunction]
#[pyo3(signature = (x, y, out, options, n_jobs, progress))]
pub(super) fn robinson_foulds<'py>(
    x: &Bound<'_, PyAny>,
    y: Option<&Bound<'_, PyAny>>,
    out: &Bound<'py, PyAny>,
    options: (bool, bool, bool),
    n_jobs: Option<usize>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(Bound<'py, PyAny>, Zeros)> {
    let (is_rooted, is_weighted, is_normalized) = options;
    let measure = RobinsonFoulds { is_rooted, is_weighted, is_normalized };
    let call = Call::new(&measure, false, n_jobs, progress);
    call.gram(&forest_of(x)?, y.map(forest_of).transpose()?.as_ref(), out)
}
