//! Objects that several threads use, and a fork does not spoil.
//!
//! Calls that read an object share it; a call that changes it takes it out and has it
//! alone. Nobody waits for a lock: a progress callable would wait for itself.
//!
//! A child process has one thread, and what the others were about to do never happens.
//! So nothing here is held by them for ever:
//!
//! - Who uses an object is written down by a thread that is attached to the interpreter,
//!   without a call of Python in between. A fork from Python holds the interpreter's lock,
//!   or, where there is none, first stops all attached threads between two instructions of
//!   Python: either way the child finds it complete.
//! - The readers that a child inherits do not come back. A change there that finds any
//!   goes on with a copy of the object.
//! - A fork asks calls that change objects to stop between two trees and put them back,
//!   and waits for it, but not longer than a second. They go on afterwards. Only where
//!   a single tree takes longer is the child left without the object, and told so.
//! - No thread is being started at the moment of a fork (`threads::FORK_GATE`).

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::{Progress, caught, interruptible};
use crate::Error;
use crate::gram::Watch;
use crate::threads::FORK_GATE;

/// An object behind such a door.
pub(super) struct Shared<M>(Mutex<State<M>>);

struct State<M> {
    object: Object<M>,
    /// Whose readers the object may have, or who changes it.
    process: u32,
}

enum Object<M> {
    There(Arc<M>),
    /// A call changes it.
    Out,
    /// A call that changed it met a defect half-way.
    Broken,
}

impl<M: Clone + Send + Sync> Shared<M> {
    pub(super) fn new(object: M) -> Self {
        let object = Object::There(Arc::new(object));
        Self(Mutex::new(State { object, process: std::process::id() }))
    }

    /// Held for an instant by a thread that is attached to the interpreter and does not let
    /// go of it meanwhile: no fork comes in between.
    fn state(&self, _: Python<'_>) -> MutexGuard<'_, State<M>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs what only reads the object.
    pub(super) fn read<T: Send>(
        &self,
        py: Python<'_>,
        progress: &Progress,
        work: impl Send + FnOnce(&M, &mut Watch<'_>) -> crate::Result<T>,
    ) -> PyResult<T> {
        let object = self.held(py)?;
        interruptible(py, progress, |watch| work(&object, watch))
    }

    /// The object as it stands, for a call that changes another by it.
    pub(super) fn held(&self, py: Python<'_>) -> PyResult<Arc<M>> {
        let state = self.state(py);
        let Object::There(object) = &state.object else { return Err(state.missing()) };
        Ok(Arc::clone(object))
    }

    /// Runs what changes the object. Where its watch stops it for a fork it is called
    /// again, and goes on where it was.
    pub(super) fn change<T: Send>(
        &self,
        py: Python<'_>,
        progress: &Progress,
        mut work: impl Send + FnMut(&mut M, &mut Watch<'_>) -> crate::Result<T>,
    ) -> PyResult<T> {
        loop {
            let change = Change::begin(py);
            let mut object = self.state(py).take()?;
            let mut stopped = false;
            let done = caught(py, progress, |watch| {
                work(&mut object, &mut |done, total| {
                    watch(done, total)?;
                    stopped = FORKS.load(SeqCst) > 0;
                    if stopped { Err(Error::Interrupted) } else { Ok(()) }
                })
            });
            let (object, done) = match done {
                Err(defect) => (Object::Broken, Err(defect)),
                Ok(done) => (Object::There(Arc::new(object)), done),
            };
            let is_broken = matches!(object, Object::Broken);
            self.state(py).object = object;
            drop(change);
            if done.is_ok() || is_broken || !stopped {
                return done;
            }
        }
    }
}

impl<M: Clone> State<M> {
    /// Takes the object out.
    fn take(&mut self) -> PyResult<M> {
        let here = std::process::id();
        let is_inherited = self.process != here;
        match std::mem::replace(&mut self.object, Object::Out) {
            Object::There(object) => match Arc::try_unwrap(object) {
                Ok(object) => {
                    self.process = here;
                    Ok(object)
                }
                Err(object) if is_inherited => {
                    self.process = here;
                    Ok(M::clone(&object))
                }
                Err(object) => {
                    self.object = Object::There(object);
                    Err(busy())
                }
            },
            missing => {
                self.object = missing;
                Err(self.missing())
            }
        }
    }

    /// Why there is no object.
    fn missing(&self) -> PyErr {
        match self.object {
            Object::Broken => PyRuntimeError::new_err(
                "an internal error stopped a call half-way that changed the model: make \
                 it again",
            ),
            // A progress callable that forks leaves its own call at work in the child, too.
            _ if self.process != std::process::id() && OWN.get() == 0 => {
                PyRuntimeError::new_err(
                    "this process was forked while another thread changed the model, so there \
                 is no copy of it here: fork before or after, or send it pickled",
                )
            }
            _ => busy(),
        }
    }
}

fn busy() -> PyErr {
    PyRuntimeError::new_err("the model is in use by another call that changes it")
}

// --- forks ----------------------------------------------------------------------------

/// How long a fork waits for calls that change objects.
const PATIENCE: Duration = Duration::from_secs(1);
/// Between two looks.
const NAP: Duration = Duration::from_millis(1);

/// Forks on their way, and calls that have taken an object out.
static FORKS: AtomicUsize = AtomicUsize::new(0);
static CHANGES: AtomicUsize = AtomicUsize::new(0);
thread_local! {
    /// Of these calls, those of this thread: its progress callable may fork.
    static OWN: Cell<usize> = const { Cell::new(0) };
}

struct Change;

impl Change {
    /// Waits for forks on their way. It is counted before it looks, as they are before they
    /// wait for it: one of two that meet sees the other.
    fn begin(py: Python<'_>) -> Self {
        let start = Instant::now();
        loop {
            CHANGES.fetch_add(1, SeqCst);
            OWN.set(OWN.get() + 1);
            let change = Self;
            if FORKS.load(SeqCst) == 0 || start.elapsed() >= PATIENCE {
                return change;
            }
            drop(change);
            py.detach(|| std::thread::sleep(NAP));
        }
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        CHANGES.fetch_sub(1, SeqCst);
        OWN.set(OWN.get() - 1);
    }
}

/// Waits without the interpreter, which changes need to come to an end.
#[pyfunction]
fn before_fork(py: Python<'_>) {
    FORKS.fetch_add(1, SeqCst);
    let start = Instant::now();
    while CHANGES.load(SeqCst) > OWN.get() && start.elapsed() < PATIENCE {
        py.detach(|| std::thread::sleep(NAP));
    }
    py.detach(|| FORK_GATE.shut());
}

#[pyfunction]
fn after_fork() {
    FORKS.fetch_sub(1, SeqCst);
    FORK_GATE.open();
}

#[pyfunction]
fn after_fork_in_child() {
    FORKS.store(0, SeqCst);
    CHANGES.store(OWN.get(), SeqCst);
    FORK_GATE.reset();
}

/// Has Python call these; where there is no fork there is nothing to call.
pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let Some(register) = py.import("os")?.getattr_opt("register_at_fork")? else {
        return Ok(());
    };
    let hooks = PyDict::new(py);
    hooks.set_item("before", wrap_pyfunction!(before_fork, module)?)?;
    hooks.set_item("after_in_parent", wrap_pyfunction!(after_fork, module)?)?;
    hooks.set_item("after_in_child", wrap_pyfunction!(after_fork_in_child, module)?)?;
    register.call((), Some(&hooks)).map(drop)
}
