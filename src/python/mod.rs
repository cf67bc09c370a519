//! The Python face: every function converts, lets go of the interpreter, calls the core
//! and converts back.
//!
//! Doc comments below are Python's docstrings: numpydoc, not Markdown.
#![allow(clippy::doc_link_with_quotes)]

mod error;
mod forest;
mod objects;

use pyo3::prelude::*;

/// The compiled part of `treekernel_rs`; import from there, not from here.
#[pymodule]
mod _core {
    #[pymodule_export]
    use super::error::ParseError;
    #[pymodule_export]
    use super::forest::{Forest, Tree, TreeIterator};

    #[allow(non_upper_case_globals)] // Python's name for it
    #[pymodule_export]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}

/// Runs a long computation without the interpreter. The computation calls the function
/// it is given now and then; a pending Ctrl-C becomes its error, and the caller's.
fn interruptible<T: Send>(
    py: Python<'_>,
    work: impl Send + FnOnce(&mut dyn FnMut() -> crate::Result<()>) -> crate::Result<T>,
) -> PyResult<T> {
    let (result, raised) = py.detach(|| {
        let mut raised = None;
        // The method alone is not general enough over lifetimes, whatever clippy says.
        #[allow(clippy::redundant_closure_for_method_calls)]
        let mut check = || match Python::attach(|py| py.check_signals()) {
            Ok(()) => Ok(()),
            Err(error) => {
                raised = Some(error);
                Err(crate::Error::Interrupted)
            }
        };
        (work(&mut check), raised)
    });
    match raised {
        Some(error) => Err(error),
        None => Ok(result?),
    }
}
