//! Objects that several threads use, and a fork does not spoil.
//!
//! Calls that read an object share it. A call that changes it takes it out and has it
//! alone, or works on a copy and puts that in its place. Who cannot go on waits:
//!
//! - Calls that wait stand in a queue, in the order in which they came: neither those that
//!   read nor those that change keep the others out, however often they come.
//! - A change that calls which read do not let in for [`PATIENCE`] goes on with a copy. One
//!   that keeps them out for so long stops between two trees, and goes on with a copy:
//!   they read what was there at that moment. Where copies share nearly everything
//!   ([`Object::COPIES_SHARE`]) changes are always made to one, and nobody who reads waits.
//! - Nobody waits for longer than [`MAX_WAIT`], so two threads whose callables wait for each
//!   other go on after that. A call from within another one on the same object (from a
//!   progress callable, or a handler of signals) never waits: it would wait for itself.
//!
//! A child process has one thread, and what the others were about to do never happens.
//! So nothing here is held by them for ever:
//!
//! - Who uses an object is written down by a thread that is attached to the interpreter,
//!   without a call of Python in between. A fork from Python holds the interpreter's lock,
//!   or, where there is none, first stops all attached threads between two instructions of
//!   Python: either way the child finds it complete.
//! - The calls that a child inherits do not come back: they leave the queue, and a change
//!   that finds readers among them goes on with a copy.
//! - A fork asks calls that have taken objects out to stop between two trees and put them
//!   back, and waits for it, but not longer than a second. They go on afterwards. Only
//!   where a single tree takes longer is the child left without the object, and told so.
//! - No thread is being started at the moment of a fork (`threads::FORK_GATE`).

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::{Request, caught, detached, run};
use crate::threads::FORK_GATE;
use crate::{Context, Error, memory};

/// After so long a change no longer waits for calls that read, nor they for it, if a copy
/// helps; nor does a fork wait for changes.
const PATIENCE: Duration = Duration::from_secs(1);
/// The longest that a call waits for others.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// Between two looks, unless something happens.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// What can be shared.
pub(super) trait Object: Clone + Send + Sync {
    /// Whether a copy shares with the original nearly all that is large.
    const COPIES_SHARE: bool = false;

    /// About how many bytes a copy takes.
    fn copy_nbytes(&self) -> usize;
}

/// An object behind such a door.
pub(super) struct Shared<M> {
    state: Mutex<State<M>>,
    /// A call that reads has waited for long: a change is to stop between two trees.
    is_wanted: AtomicBool,
}

struct State<M> {
    place: Place<M>,
    /// Calls that wait, in order of arrival; first among them the change at work.
    queue: VecDeque<Waiting>,
    /// The first change works on a copy: calls that read do not wait for it.
    is_open: bool,
    n_calls: u64,
    /// In which process, counted by forks, these calls are.
    generation: usize,
    /// The object may have readers that a fork left behind.
    has_strays: bool,
}

enum Place<M> {
    There(Arc<M>),
    /// A call changes it.
    Out,
    /// A call that changed it met a defect half-way.
    Broken,
    /// The call that changed it is one of another process.
    Lost,
}

struct Waiting {
    number: u64,
    kind: Kind,
    thread: Thread,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    Change,
}

thread_local! {
    /// The calls of this thread, from their beginning to their end: the address of the
    /// object, which of its calls it is, and its kind.
    static CALLS: RefCell<Vec<(usize, u64, Kind)>> = const { RefCell::new(Vec::new()) };
}

/// An object that a call reads.
pub(super) struct Held<'s, 'py, M: Object> {
    // Dropped in this order: who is woken finds the object free.
    object: Arc<M>,
    _call: Call<'s, 'py, M>,
}

impl<M: Object> Deref for Held<'_, '_, M> {
    type Target = M;

    fn deref(&self) -> &M {
        &self.object
    }
}

/// A call of this thread, until it is dropped.
struct Call<'s, 'py, M: Object> {
    shared: &'s Shared<M>,
    py: Python<'py>,
    number: u64,
}

impl<M: Object> Shared<M> {
    pub(super) fn new(object: M) -> Self {
        let state = State {
            place: Place::There(Arc::new(object)),
            queue: VecDeque::new(),
            is_open: false,
            n_calls: 0,
            generation: GENERATION.load(SeqCst),
            has_strays: false,
        };
        Self { state: Mutex::new(state), is_wanted: AtomicBool::new(false) }
    }

    /// Held for an instant by a thread that is attached to the interpreter and does not let
    /// go of it meanwhile: no fork comes in between.
    fn state(&self, _: Python<'_>) -> MutexGuard<'_, State<M>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.generation != GENERATION.load(SeqCst) {
            state.inherit(&self.own_calls());
        }
        state
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// The calls on this object that this thread is in.
    fn own_calls(&self) -> Vec<(u64, Kind)> {
        CALLS.with_borrow(|calls| {
            let calls = calls.iter().filter(|(address, ..)| *address == self.address());
            calls.map(|&(_, number, kind)| (number, kind)).collect()
        })
    }

    /// Begins a call, at the end of the queue.
    fn join_queue<'s, 'py>(&'s self, py: Python<'py>, kind: Kind) -> Call<'s, 'py, M> {
        let mut state = self.state(py);
        let number = state.n_calls;
        state.n_calls += 1;
        state.queue.push_back(Waiting { number, kind, thread: std::thread::current() });
        CALLS.with_borrow_mut(|calls| calls.push((self.address(), number, kind)));
        Call { shared: self, py, number }
    }

    /// Runs what only reads the object.
    pub(super) fn read<T: Send>(
        &self,
        py: Python<'_>,
        request: &Request,
        work: impl Send + FnOnce(&M, &Context) -> crate::Result<T>,
    ) -> PyResult<T> {
        let held = self.held(py)?;
        let object: &M = &held;
        run(py, request, |context| work(object, context))
    }

    /// The object, for a call that changes another by it.
    pub(super) fn held<'s, 'py>(
        &'s self,
        py: Python<'py>,
    ) -> PyResult<Held<'s, 'py, M>> {
        // A call within another one on this object cannot wait: it would wait for
        // itself.
        let is_nested = !self.own_calls().is_empty();
        let call = self.join_queue(py, Kind::Read);
        let object = call.wait(|waited| {
            let mut state = self.state(py);
            let is_late = waited >= MAX_WAIT;
            match &state.place {
                Place::Broken => Err(broken()),
                Place::Lost => Err(lost_in_fork()),
                // It is read from now on: those behind it in the queue may go on.
                Place::There(object) if is_nested || state.lets_read(call.number) => {
                    let object = Arc::clone(object);
                    state.leave(call.number);
                    Ok(Some(object))
                }
                Place::There(_) | Place::Out if !is_nested && !is_late => {
                    if waited >= PATIENCE {
                        self.is_wanted.store(true, SeqCst);
                    }
                    Ok(None)
                }
                _ if is_nested => Err(nested("cannot wait for a change of it")),
                _ => Err(late()),
            }
        })?;
        Ok(Held { object, _call: call })
    }

    /// Runs what changes the object. Where its watch stops it, for a fork or for calls that
    /// read, it is called again, and goes on where it was.
    pub(super) fn change<T: Send>(
        &self,
        py: Python<'_>,
        request: &Request,
        mut work: impl Send + FnMut(&mut M, &Context) -> crate::Result<T>,
    ) -> PyResult<T> {
        if !self.own_calls().is_empty() {
            return Err(nested("cannot change it"));
        }
        let call = self.join_queue(py, Kind::Change);
        let (mut wants_copy, mut stops) = (M::COPIES_SHARE, true);
        loop {
            let mut taken = self.take(&call, wants_copy)?;
            // A copy leaves the original to those who read, and is not stopped for them.
            let is_copy = taken.change.is_none();
            // Where there is no memory for a copy, it does not stop for one again.
            stops &= is_copy || !wants_copy;
            let (mut stopped, mut is_raised) = (false, false);
            let object = &mut taken.object;
            let done = caught(py, request, |context| {
                let watch = |done, total| {
                    context.report(done, total).inspect_err(|_| is_raised = true)?;
                    let is_wanted = stops && self.is_wanted.load(SeqCst);
                    // It is asked again until all helpers have ended: stopped, it stays so.
                    stopped |= !is_copy && (is_wanted || FORKS.load(SeqCst) > 0);
                    wants_copy |= stopped && is_wanted;
                    if stopped { Err(Error::Interrupted) } else { Ok(()) }
                };
                let n_jobs = context.n_jobs();
                work(object, &Context::watched(watch).with_n_jobs(n_jobs))
            });
            let is_broken = done.is_err();
            self.put(py, taken, is_broken);
            let done = done.and_then(|done| done);
            if done.is_ok() || is_broken || is_raised || !stopped {
                return done;
            }
        }
    }

    /// Waits for a change's turn, and gives it the object, or a copy.
    fn take(&self, call: &Call<'_, '_, M>, wants_copy: bool) -> PyResult<Taken<M>> {
        let py = call.py;
        let mut wants_copy = wants_copy;
        call.wait(|waited| {
            // It is counted before it looks, as forks are before they wait for it: one of
            // two that meet sees the other.
            let change = Change::begin();
            let is_forking = FORKS.load(SeqCst) > 0 && waited < PATIENCE;
            let mut state = self.state(py);
            if is_forking || !state.is_first(call.number) {
                return if waited < MAX_WAIT { Ok(None) } else { Err(late()) };
            }
            let original = match std::mem::replace(&mut state.place, Place::Out) {
                Place::There(object) if wants_copy => object,
                Place::There(object) => match Arc::try_unwrap(object) {
                    Ok(object) => {
                        self.is_wanted.store(false, SeqCst);
                        return Ok(Some(Taken { object, change: Some(change) }));
                    }
                    Err(object) => object,
                },
                Place::Out => return Ok(None),
                missing => {
                    let is_broken = matches!(missing, Place::Broken);
                    state.place = missing;
                    return Err(if is_broken { broken() } else { lost_in_fork() });
                }
            };
            // Calls that read go on with the original, whatever becomes of the change.
            state.place = Place::There(Arc::clone(&original));
            if !(wants_copy || state.has_strays || waited >= PATIENCE) {
                return Ok(None);
            }
            if let Err(error) = memory::room(1, original.copy_nbytes()) {
                // Without a copy it waits for those who read. Those that a fork left behind
                // never come to an end.
                wants_copy = false;
                let is_in_vain = state.has_strays || waited >= MAX_WAIT;
                return if is_in_vain { Err(error.into()) } else { Ok(None) };
            }
            state.is_open = true;
            state.wake();
            drop((state, change));
            let copy = detached(py, || Ok(M::clone(&original)));
            if copy.is_err() {
                self.state(py).is_open = false;
            }
            Ok(Some(Taken { object: copy?, change: None }))
        })
    }

    /// Puts back what was taken.
    fn put(&self, py: Python<'_>, taken: Taken<M>, is_broken: bool) {
        let Taken { object, change } = taken;
        let object = match (is_broken, &change) {
            (false, _) => Some(Place::There(Arc::new(object))),
            (true, Some(_)) => Some(Place::Broken),
            // The original is as it was.
            (true, None) => None,
        };
        let mut state = self.state(py);
        let old = object.map(|object| std::mem::replace(&mut state.place, object));
        state.has_strays &= old.is_none();
        state.is_open = false;
        self.is_wanted.store(false, SeqCst);
        drop((state, change));
        // Nobody has to wait until a large object is let go.
        py.detach(|| drop(old));
    }
}

/// What a change works on.
struct Taken<M> {
    object: M,
    /// None for a copy, for which no fork waits.
    change: Option<Change>,
}

impl<M: Object> Call<'_, '_, M> {
    /// Looks whenever something has happened, until there is an answer; `look` is told how
    /// long this has taken.
    fn wait<T>(
        &self,
        mut look: impl FnMut(Duration) -> PyResult<Option<T>>,
    ) -> PyResult<T> {
        let start = Instant::now();
        // What has happened may have nothing to do with this call: it looks again.
        loop {
            if let Some(found) = look(start.elapsed())? {
                return Ok(found);
            }
            self.py.detach(|| std::thread::park_timeout(POLL_INTERVAL));
            self.py.check_signals()?;
        }
    }
}

impl<M: Object> Drop for Call<'_, '_, M> {
    fn drop(&mut self) {
        let this = (self.shared.address(), self.number);
        CALLS.with_borrow_mut(|calls| calls.retain(|&(at, n, _)| (at, n) != this));
        let mut state = self.shared.state(self.py);
        state.leave(self.number);
        state.wake();
    }
}

impl<M> State<M> {
    /// In a child process, which has none of the calls but those of the thread that forked.
    fn inherit(&mut self, calls: &[(u64, Kind)]) {
        let is_own = |number| calls.iter().any(|&(call, _)| call == number);
        let first = self.queue.front().map(|call| call.number);
        if !first.is_some_and(is_own) {
            self.is_open = false;
            if matches!(self.place, Place::Out) {
                self.place = Place::Lost;
            }
        }
        self.queue.retain(|call| is_own(call.number));
        self.generation = GENERATION.load(SeqCst);
        self.has_strays = true;
    }

    /// Whether a call that reads need not wait for changes that came before it.
    fn lets_read(&self, number: u64) -> bool {
        let mut earlier = self.queue.iter().take_while(|call| call.number != number);
        self.is_open || earlier.all(|call| call.kind == Kind::Read)
    }

    fn is_first(&self, number: u64) -> bool {
        self.queue.front().is_some_and(|call| call.number == number)
    }

    fn leave(&mut self, number: u64) {
        self.queue.retain(|call| call.number != number);
    }

    /// Wakes those who may go on.
    fn wake(&self) {
        for call in &self.queue {
            call.thread.unpark();
            if call.kind == Kind::Change && !self.is_open {
                return;
            }
        }
    }
}

/// Why a call from within another one on the same object fails.
fn nested(cannot: &str) -> PyErr {
    PyRuntimeError::new_err(format!(
        "the model is in use: a call from within another call on it, such as one of a \
         progress callable, {cannot}"
    ))
}

/// Why a call waits no longer.
fn late() -> PyErr {
    PyRuntimeError::new_err(format!(
        "the model is in use: this call has waited for {} s for other calls to change it",
        MAX_WAIT.as_secs()
    ))
}

fn broken() -> PyErr {
    PyRuntimeError::new_err(
        "an internal error stopped a call half-way that changed the model: make it again",
    )
}

fn lost_in_fork() -> PyErr {
    PyRuntimeError::new_err(
        "this process was forked while another thread changed the model, so there is no \
         copy of it here: fork before or after, or send it pickled",
    )
}

// --- forks ----------------------------------------------------------------------------

/// Forks on their way, and calls that have taken an object out.
static FORKS: AtomicUsize = AtomicUsize::new(0);
static CHANGES: AtomicUsize = AtomicUsize::new(0);
/// How many forks lie between this process and the one that loaded the module.
static GENERATION: AtomicUsize = AtomicUsize::new(0);
thread_local! {
    /// Of these calls, those of this thread: its progress callable may fork.
    static CHANGES_HERE: Cell<usize> = const { Cell::new(0) };
}

struct Change;

impl Change {
    fn begin() -> Self {
        CHANGES.fetch_add(1, SeqCst);
        CHANGES_HERE.set(CHANGES_HERE.get() + 1);
        Self
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        CHANGES.fetch_sub(1, SeqCst);
        CHANGES_HERE.set(CHANGES_HERE.get() - 1);
    }
}

/// Waits without the interpreter, which changes need to come to an end.
#[pyfunction]
fn before_fork(py: Python<'_>) {
    FORKS.fetch_add(1, SeqCst);
    let start = Instant::now();
    while CHANGES.load(SeqCst) > CHANGES_HERE.get() && start.elapsed() < PATIENCE {
        py.detach(|| std::thread::sleep(POLL_INTERVAL));
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
    GENERATION.fetch_add(1, SeqCst);
    FORKS.store(0, SeqCst);
    CHANGES.store(CHANGES_HERE.get(), SeqCst);
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
