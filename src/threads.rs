//! Threads that share out rows, and what they keep.

use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError::Timeout};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use memmap2::MmapMut;

use crate::context::BETWEEN_QUESTIONS;
use crate::{Context, Error, Result};

/// Less is not worth a part of its own: that takes as long as some 100 trees.
const MIN_PART: usize = 512;

/// So many workers may be had on smaller machines, too: for tests with several.
const WORKERS_ANYWHERE: usize = 4;

/// What a helper maps as it starts: 64 MB that glibc sets aside for its allocations, and a
/// stack of 8 MB at most. A stack cannot stand where a list was freed.
const MAPPED_BY_THREAD: usize = 72 << 20;

/// Kept shut while the process forks.
pub(crate) static FORK_GATE: Gate = Gate::new();

/// What threads must pass where a fork would be harmful. Who forks shuts it, and waits until
/// nobody is inside.
///
/// Starting a thread is such a place. glibc takes the stack of a thread that has ended, frees
/// that thread's variables, and only then forgets them; a child that was forked in between frees
/// them again when it takes the stack (once in 1,000 to 4,000 forks of a process that
/// starts 5,000 threads a second).
pub(crate) struct Gate {
    shut: AtomicUsize,
    inside: AtomicUsize,
}

/// Inside a [`Gate`], until it is dropped.
pub(crate) struct Inside<'g>(&'g Gate);

impl Gate {
    /// Nobody is kept out, and no fork waits, for longer.
    const PATIENCE: Duration = Duration::from_secs(1);

    const fn new() -> Self {
        Self { shut: AtomicUsize::new(0), inside: AtomicUsize::new(0) }
    }

    /// Waits while the gate is shut.
    pub(crate) fn enter(&self) -> Inside<'_> {
        // Say that it is inside, and look only then: who shuts the gate looks in the
        // other order, so one of the two sees the other.
        let start = Instant::now();
        loop {
            self.inside.fetch_add(1, Ordering::SeqCst);
            let is_open = self.shut.load(Ordering::SeqCst) == 0;
            if is_open || start.elapsed() > Self::PATIENCE {
                return Inside(self);
            }
            self.inside.fetch_sub(1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    /// Shuts the gate, and waits until nobody is inside.
    #[cfg_attr(not(feature = "python"), allow(dead_code))]
    pub(crate) fn shut(&self) {
        self.shut.fetch_add(1, Ordering::SeqCst);
        let start = Instant::now();
        let is_early = || start.elapsed() < Self::PATIENCE;
        // Not for longer than its patience: a thread that hangs must not keep the
        // process from forking.
        while self.inside.load(Ordering::SeqCst) > 0 && is_early() {
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    #[cfg_attr(not(feature = "python"), allow(dead_code))]
    pub(crate) fn open(&self) {
        self.shut.fetch_sub(1, Ordering::SeqCst);
    }

    /// In a child process, which has none of the other threads.
    #[cfg_attr(not(feature = "python"), allow(dead_code))]
    pub(crate) fn reset(&self) {
        self.shut.store(0, Ordering::SeqCst);
        self.inside.store(0, Ordering::SeqCst);
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The caller's thread and helpers. They live as long as one call: a pool that outlived
/// it would be missing in a forked child, which would wait for it forever.
pub(crate) struct Threads<'a> {
    /// The call's.
    pub(crate) context: &'a Context<'a>,
    /// None: the caller works alone.
    helpers: Option<rayon::ThreadPool>,
    size: usize,
}

/// How many tasks there are, and what is told of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tasks {
    n: usize,
    /// What is told; None: nothing.
    told: Option<Told>,
}

/// How many rows of all a call's rows are done with so many tasks.
#[derive(Debug, Clone, Copy)]
struct Told {
    /// Rows of a task, and of all tasks.
    n_rows: usize,
    len: usize,
    /// How many the call has done when these tasks begin, and when they end.
    start: usize,
    end: usize,
    total: usize,
}

impl<'a> Threads<'a> {
    /// As many workers as the context says (see [`Context::n_jobs`]). More than there are
    /// cores or tasks have nothing to do, and are not started.
    pub(crate) fn new(context: &'a Context<'a>, n_tasks: usize) -> Self {
        let n_jobs = context.n_jobs();
        // The cores are not counted in vain: files are read for it, which takes longer than
        // small calls.
        if n_tasks <= 1 || n_jobs.is_some_and(|n| n <= 1) {
            return Self::alone(context);
        }
        let size = match n_jobs {
            Some(few) if few <= WORKERS_ANYWHERE => few,
            _ => {
                let cores = std::thread::available_parallelism().map_or(1, usize::from);
                n_jobs.map_or(cores, |n| n.min(cores.max(WORKERS_ANYWHERE)))
            }
        };
        let size = size.min(n_tasks);
        // A thread that finds no memory as it starts would end the process.
        let bytes = (size - 1) * MAPPED_BY_THREAD;
        if size == 1 || MmapMut::map_anon(bytes).is_err() {
            return Self::alone(context);
        }
        let pool = {
            let _inside = FORK_GATE.enter();
            rayon::ThreadPoolBuilder::new().num_threads(size - 1).build()
        };
        // No threads to be had is no reason to fail: the caller's is enough.
        match pool {
            Ok(pool) => Self { context, helpers: Some(pool), size },
            Err(_) => Self::alone(context),
        }
    }

    /// As [`new`](Self::new), as far as `n` trees are worth it.
    pub(crate) fn for_trees(context: &'a Context<'a>, n: usize) -> Self {
        Self::new(context, n.div_ceil(MIN_PART))
    }

    /// The caller's alone.
    pub(crate) fn alone(context: &'a Context<'a>) -> Self {
        Self { context, helpers: None, size: 1 }
    }

    /// How many workers there are.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Runs tasks by number, each worker taking the next one, with a scratch and a context
    /// of its own. A task that takes long asks its context now and then, and passes on the
    /// error. The caller's watch stops all.
    pub(crate) fn run<S: Send>(
        &self,
        tasks: &Tasks,
        scratch: &mut [S],
        task: impl Fn(usize, &mut S, &Context) -> Result<()> + Sync,
    ) -> Result<()> {
        // Tasks are numbers: whoever is free takes the next one.
        let next = AtomicUsize::new(0);
        // Tasks from here on are not wanted any more. Those before a failed one are
        // finished, so that the error is that of the first task, as with one thread.
        let limit = AtomicUsize::new(tasks.n);
        let failure: Mutex<Option<(usize, Error)>> = Mutex::new(None);
        let fail = |number: usize, error: Error| {
            limit.fetch_min(number, Ordering::Relaxed);
            if let Ok(mut first) = failure.lock()
                && first.as_ref().is_none_or(|(known, _)| number < *known)
            {
                *first = Some((number, error));
            }
        };
        // `caller` is the call's context, on its own thread.
        let work = |scratch: &mut S, caller: Option<&Context>| {
            let current = Cell::new(0);
            let is_unwanted = || current.get() >= limit.load(Ordering::Relaxed);
            let context = match caller {
                Some(caller) => caller.task(&is_unwanted),
                None => Context::helper(&is_unwanted),
            };
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                current.set(number);
                if is_unwanted() {
                    return;
                }
                let done = task(number, scratch, &context);
                let told = |()| caller.map_or(Ok(()), |c| tasks.tell(number + 1, c));
                match done.and_then(told) {
                    Ok(()) => {}
                    Err(Error::Interrupted) if is_unwanted() => return,
                    // The watch's: no task is wanted any more.
                    Err(Error::Interrupted) => return fail(0, Error::Interrupted),
                    Err(error) => return fail(number, error),
                }
            }
        };
        let Some((caller_scratch, others)) = scratch.split_first_mut() else {
            return Ok(());
        };
        match &self.helpers {
            None => work(caller_scratch, Some(self.context)),
            Some(pool) => {
                pool.in_place_scope(|scope| {
                    let (working, done) = mpsc::channel::<()>();
                    for scratch in others {
                        let (work, working) = (&work, working.clone());
                        scope.spawn(move |_| {
                            work(scratch, None);
                            drop(working);
                        });
                    }
                    drop(working);
                    // Helpers start before the caller does its share.
                    work(caller_scratch, Some(self.context));
                    // Helpers may be at work for long: the watch is asked meanwhile.
                    while done.recv_timeout(BETWEEN_QUESTIONS) == Err(Timeout) {
                        let n_done = next.load(Ordering::Relaxed).min(tasks.n);
                        if let Err(error) = tasks.tell(n_done, self.context) {
                            fail(0, error);
                        }
                    }
                });
            }
        }
        match failure.into_inner() {
            Ok(Some((_, error))) => Err(error),
            _ => Ok(()),
        }
    }

    /// Cuts `0..n` into one part for each worker, and returns what `task` makes of them,
    /// in order. The task asks its context now and then.
    pub(crate) fn parts<R: Send>(
        &self,
        n: usize,
        task: impl Fn(Range<usize>, &Context) -> Result<R> + Sync,
    ) -> Result<Vec<R>> {
        let n_parts = self.size;
        let parts: Vec<Mutex<Option<R>>> =
            (0..n_parts).map(|_| Mutex::new(None)).collect();
        self.run(
            &Tasks::untold(n_parts),
            &mut vec![(); n_parts],
            |part, (), context| {
                let range = n * part / n_parts..n * (part + 1) / n_parts;
                let done = task(range, context)?;
                if let Ok(mut slot) = parts[part].lock() {
                    *slot = Some(done);
                }
                Ok(())
            },
        )?;
        Ok(parts.into_iter().filter_map(|part| part.into_inner().ok()?).collect())
    }

    /// Does two things at a time, where there are two workers.
    pub(crate) fn both<A, B: Send>(
        &self,
        here: impl FnOnce(&Threads<'_>) -> Result<A>,
        other: impl FnOnce(&Context) -> Result<B> + Send,
    ) -> Result<(A, B)> {
        let Some(pool) = &self.helpers else {
            return Ok((here(self)?, other(self.context)?));
        };
        let is_stopped = AtomicBool::new(false);
        let mut done = None;
        let here = pool.in_place_scope(|scope| {
            let (working, ended) = mpsc::channel::<()>();
            let (done, is_stopped) = (&mut done, &is_stopped);
            scope.spawn(move |_| {
                let is_unwanted = || is_stopped.load(Ordering::Relaxed);
                *done = Some(other(&Context::helper(&is_unwanted)));
                drop(working);
            });
            let mut here = here(&Threads::alone(self.context));
            loop {
                is_stopped.fetch_or(here.is_err(), Ordering::Relaxed);
                if ended.recv_timeout(BETWEEN_QUESTIONS) != Err(Timeout) {
                    return here;
                }
                here = here.and_then(|here| self.context.check_now().map(|()| here));
            }
        });
        match (here, done) {
            (Ok(here), Some(other)) => Ok((here, other?)),
            (Ok(_), None) => Err(Error::Interrupted),
            (Err(error), _) => Err(error),
        }
    }
}

impl Tasks {
    /// So many tasks, of which nothing is told.
    pub(crate) fn untold(n: usize) -> Self {
        Self { n, told: None }
    }

    /// A task for each `n_rows` of so many rows.
    pub(crate) fn of_rows(len: usize, n_rows: usize) -> Self {
        let told = Told { n_rows, len, start: 0, end: len, total: len };
        Self { n: len.div_ceil(n_rows), told: Some(told) }
    }

    /// These tasks as a part of more: what the call has done when they begin and when they
    /// end, of how much.
    pub(crate) fn among(self, part: Range<usize>, total: usize) -> Self {
        let Range { start, end } = part;
        let told = self.told.map(|told| Told { start, end, total, ..told });
        Self { told, ..self }
    }

    /// How many tasks there are.
    pub(crate) fn len(&self) -> usize {
        self.n
    }

    /// Tells that so many tasks are done, if it is time.
    fn tell(&self, done: usize, context: &Context) -> Result<()> {
        let Some(Told { n_rows, len, start, end, total }) = self.told else {
            return context.check_now();
        };
        let rows = (done * n_rows).min(len);
        context.advance(start + rows * (end - start) / len.max(1), total)
    }
}

/// What takes long to make and is kept. Nobody waits for anybody who makes it, as in a
/// child process nobody would come back: who finds none makes one.
#[derive(Debug)]
pub struct ForkSafeCache<T>(Mutex<Option<Arc<T>>>);

impl<T> ForkSafeCache<T> {
    pub(crate) fn get(&self) -> Option<Arc<T>> {
        self.0.try_lock().ok()?.clone()
    }

    pub(crate) fn put(&self, made: T) -> Arc<T> {
        let made = Arc::new(made);
        if let Ok(mut place) = self.0.try_lock() {
            *place = Some(Arc::clone(&made));
        }
        made
    }
}

impl<T> Default for ForkSafeCache<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> Clone for ForkSafeCache<T> {
    fn clone(&self) -> Self {
        Self(Mutex::new(self.get()))
    }
}
