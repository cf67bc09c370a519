//! The Python face: every function converts, lets go of the interpreter, calls the core
//! and converts back.
//!
//! Doc comments below are Python's docstrings: numpydoc, not Markdown.
#![allow(clippy::doc_link_with_quotes)]
// What Python hands over, such as texts and arrays, comes by value.
#![allow(clippy::needless_pass_by_value)]

mod brackets;
mod clades;
mod code;
mod dag;
mod dtk;
mod edit;
mod error;
mod features;
mod forest;
mod kernel;
mod measure;
mod objects;
mod pair;
mod shared;
mod similarity;
mod solve;
mod text;
mod tree;

use std::cell::Cell;
use std::rc::Rc;

use numpy::ndarray::Dimension;
use numpy::{Element, PyArray, PyArray2, PyArrayDescr, PyArrayMethods};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::Context;

/// The compiled part of `treekernel_rs`; import from there, not from here.
///
/// Safe without the interpreter's lock: classes are frozen, or not shared (the builders,
/// which refuse a second user); what changes is in a `Shared`.
#[pymodule(gil_used = false)]
mod _core {
    use numpy::{PyArray1, PyArrayMethods};
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::brackets::ForestBuilder;
    #[pymodule_export]
    use super::clades::robinson_foulds;
    #[pymodule_export]
    use super::code::CodeBuilder;
    #[pymodule_export]
    use super::dag::{Dag, Learner};
    #[pymodule_export]
    use super::dtk::Encoder;
    #[pymodule_export]
    use super::edit::EditCore;
    #[pymodule_export]
    use super::error::{ConstraintLimitError, ParseError};
    #[pymodule_export]
    use super::features::{Vocabulary, hashed_features};
    #[pymodule_export]
    use super::forest::Forest;
    #[pymodule_export]
    use super::kernel::{Kernel, TreeIndex, as_forest, as_tree};
    #[pymodule_export]
    use super::measure::{KernelRows, PairExpander};
    #[pymodule_export]
    use super::pair::{Pair, PairCore, PairForest, PairIterator, as_pairs};
    #[pymodule_export]
    use super::similarity::LabelTable;
    #[pymodule_export]
    use super::solve::Solver;
    #[pymodule_export]
    use super::tree::{Tree, TreeIterator};

    /// Loads what is otherwise loaded by the first call that needs it: where a Ctrl-C
    /// comes just then, that call panics.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        PyArray1::<f64>::zeros(module.py(), 1, false).try_readwrite()?;
        super::shared::register(module)
    }

    #[allow(non_upper_case_globals)] // Python's name for it
    #[pymodule_export]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}

/// What a Python call asks for.
#[derive(Default)]
struct Request {
    n_jobs: Option<usize>,
    /// A callable that is told how far the computation is.
    progress: Option<Py<PyAny>>,
}

impl Request {
    fn new(n_jobs: Option<usize>, progress: Option<&Bound<'_, PyAny>>) -> Self {
        let progress = progress.map(|callable| callable.clone().unbind());
        Self { n_jobs, progress }
    }
}

/// Signals, for loops that hold the interpreter.
struct Signals<'py> {
    context: Context<'py>,
    raised: Rc<Cell<Option<PyErr>>>,
}

impl<'py> Signals<'py> {
    fn new(py: Python<'py>) -> Self {
        let raised = Rc::new(Cell::new(None));
        let slot = Rc::clone(&raised);
        // The core's error is a stand-in: the exception is kept aside for the caller.
        let context = Context::watched(move |_, _| {
            py.check_signals().map_err(|error| {
                slot.set(Some(error));
                crate::Error::Interrupted
            })
        });
        Self { context, raised }
    }

    /// Raises what a signal's handler has raised. To be called now and then: it is cheap.
    fn check(&self) -> PyResult<()> {
        self.of(self.context.check())
    }

    /// The exception that ended something of this context.
    fn of<T>(&self, done: crate::Result<T>) -> PyResult<T> {
        done.map_err(|error| match error {
            crate::Error::Interrupted => self.raised.take().unwrap_or(error.into()),
            other => other.into(),
        })
    }
}

/// Runs a long computation without the interpreter, in a context by which it asks now and
/// then whether to go on, and tells what is done of how much; a pending Ctrl-C, or an
/// exception of the callable, becomes its error, and the caller's.
fn run<T: Send>(
    py: Python<'_>,
    request: &Request,
    work: impl Send + FnOnce(&Context) -> crate::Result<T>,
) -> PyResult<T> {
    caught(py, request, work)?
}

/// As [`run`], of a call that asks for nothing.
fn interruptible<T: Send>(
    py: Python<'_>,
    work: impl Send + FnOnce(&Context) -> crate::Result<T>,
) -> PyResult<T> {
    run(py, &Request::default(), work)
}

/// As [`run`]; the outer error is a defect in the computation.
fn caught<T: Send>(
    py: Python<'_>,
    request: &Request,
    work: impl Send + FnOnce(&Context) -> crate::Result<T>,
) -> PyResult<PyResult<T>> {
    let mut raised = None;
    let watch = |done, total| {
        let ask = || {
            // The computation runs without the interpreter, and is attached to ask
            // only.
            Python::attach(|py| {
                py.check_signals()?;
                match &request.progress {
                    Some(callable) => callable.call1(py, (done, total)).map(drop),
                    None => Ok(()),
                }
            })
        };
        without_panic(ask).and_then(|told| told).map_err(|error| {
            raised = Some(error);
            crate::Error::Interrupted
        })
    };
    let done = py.detach(|| {
        without_panic(|| work(&Context::watched(watch).with_n_jobs(request.n_jobs)))
    })?;
    // A similarity that raised has told the core the same way.
    let raised = raised.or_else(|| similarity::raised(&done));
    Ok(raised.map_or_else(|| done.map_err(PyErr::from), Err))
}

/// Runs a computation that is too short to be interrupted without the interpreter.
fn detached<T: Send>(
    py: Python<'_>,
    work: impl Send + FnOnce() -> crate::Result<T>,
) -> PyResult<T> {
    interruptible(py, |_| work())
}

/// Runs what may panic, which only a defect does. PyO3 makes of a panic a `BaseException`,
/// which `except Exception` lets pass; this makes a `RuntimeError`.
fn without_panic<T>(work: impl FnOnce() -> T) -> PyResult<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).map_err(|payload| {
        let text = payload
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        PyRuntimeError::new_err(format!(
            "internal error, please report it: {}",
            text.unwrap_or("a panic")
        ))
    })
}

/// A matrix to be filled.
enum Matrix<'a, 'py> {
    Single(&'a Bound<'py, PyArray2<f32>>),
    Double(&'a Bound<'py, PyArray2<f64>>),
}

impl<'a, 'py> Matrix<'a, 'py> {
    fn of(out: &'a Bound<'py, PyAny>) -> PyResult<Self> {
        // One of the two casts fits the type of the elements, or none.
        match (out.cast(), out.cast()) {
            (Ok(single), _) => Ok(Self::Single(single)),
            (_, Ok(double)) => Ok(Self::Double(double)),
            _ => {
                let expected = "out must be a matrix of float32 or float64";
                Err(PyTypeError::new_err(expected))
            }
        }
    }
}

/// As [`run`], for what writes into an array.
fn written<T: Send, N: Element, D: Dimension>(
    out: &Bound<'_, PyArray<N, D>>,
    request: &Request,
    work: impl Send + FnOnce(&mut [N], &Context) -> crate::Result<T>,
) -> PyResult<T> {
    let py = out.py();
    let mut out = out.try_readwrite().map_err(|error| {
        PyValueError::new_err(format!("out cannot be written: {error}"))
    })?;
    let values = out.as_slice_mut()?;
    run(py, request, |context| work(values, context))
}

/// The array to fill, which is `out`, or a new one if `out` is a type of elements.
fn array_for<'py>(
    out: &Bound<'py, PyAny>,
    shape: (usize, usize),
) -> PyResult<Bound<'py, PyAny>> {
    if out.is_instance_of::<PyArrayDescr>() {
        return out.py().import("numpy")?.call_method1("empty", (shape, out));
    }
    Ok(out.clone())
}

/// A matrix of zeros; numpy's error where there is no memory for it.
fn zeros(py: Python<'_>, shape: (usize, usize)) -> PyResult<Bound<'_, PyArray2<f64>>> {
    Ok(py.import("numpy")?.call_method1("zeros", (shape,))?.cast_into()?)
}
