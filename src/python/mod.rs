//! The Python face: every function converts, lets go of the interpreter, calls the core
//! and converts back.
//!
//! Doc comments below are Python's docstrings: numpydoc, not Markdown.
#![allow(clippy::doc_link_with_quotes)]

mod dag;
mod dtk;
mod error;
mod forest;
mod kernel;
mod objects;
mod pair;

use pyo3::prelude::*;

/// The compiled part of `treekernel_rs`; import from there, not from here.
#[pymodule]
mod _core {
    #[pymodule_export]
    use super::dag::{Dag, Learner};
    #[pymodule_export]
    use super::dtk::Encoder;
    #[pymodule_export]
    use super::error::{ConstraintLimitError, ParseError};
    #[pymodule_export]
    use super::forest::{Forest, ForestBuilder, Tree, TreeIterator};
    #[pymodule_export]
    use super::kernel::{Kernel, KernelRows, as_forest};
    #[pymodule_export]
    use super::pair::{Pair, PairCore, PairForest, PairIterator, as_pairs};

    #[allow(non_upper_case_globals)] // Python's name for it
    #[pymodule_export]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}

/// A Python callable that is told how far a computation is, if there is one.
struct Progress(Option<Py<PyAny>>);

impl Progress {
    fn new(callable: Option<&Bound<'_, PyAny>>) -> Self {
        Self(callable.map(|callable| callable.clone().unbind()))
    }

    fn none() -> Self {
        Self(None)
    }
}

/// Runs a long computation without the interpreter. The computation calls the function
/// it is given now and then, with what is done of how much; a pending Ctrl-C, or an
/// exception of the callable, becomes its error, and the caller's.
fn interruptible<T: Send>(
    py: Python<'_>,
    progress: &Progress,
    work: impl Send
    + FnOnce(&mut dyn FnMut(usize, usize) -> crate::Result<()>) -> crate::Result<T>,
) -> PyResult<T> {
    let (result, raised) = py.detach(|| {
        let mut raised = None;
        let mut watch = |done, total| {
            let told = Python::attach(|py| {
                py.check_signals()?;
                match &progress.0 {
                    Some(callable) => callable.call1(py, (done, total)).map(drop),
                    None => Ok(()),
                }
            });
            told.map_err(|error| {
                raised = Some(error);
                crate::Error::Interrupted
            })
        };
        (work(&mut watch), raised)
    });
    match raised {
        Some(error) => Err(error),
        None => Ok(result?),
    }
}
