//! Threads that share out rows, and what they keep.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError::Timeout};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use memmap2::MmapMut;

use crate::{Error, Result};

/// How often the caller's thread asks whether to go on.
const BETWEEN_CHECKS: Duration = Duration::from_millis(50);

/// Less is not worth a part of its own: that takes as long as some 100 trees.
const LEAST: usize = 512;

/// So many workers may be had on smaller machines, too: for tests with several.
const FEW: usize = 4;

/// Looking at the clock takes as long as some subtrees: this is done once in so many
/// calls.
const PER_CHECK: u32 = 32;

/// Asks whether to go on, not more often than makes sense.
#[derive(Debug)]
pub(crate) struct Throttle {
    checked: Instant,
    calls: u32,
}

impl Default for Throttle {
    fn default() -> Self {
        Self { checked: Instant::now(), calls: 0 }
    }
}

impl Throttle {
    /// To be called now and then: it is cheap.
    #[inline]
    pub(crate) fn ask<E>(
        &mut self,
        watch: impl FnOnce() -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        self.calls = self.calls.wrapping_add(1);
        if self.calls.is_multiple_of(PER_CHECK) { self.ask_now(watch) } else { Ok(()) }
    }

    /// For work that takes long between two calls: looks at the clock each time.
    pub(crate) fn ask_now<E>(
        &mut self,
        watch: impl FnOnce() -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        if self.checked.elapsed() < BETWEEN_CHECKS {
            return Ok(());
        }
        self.checked = Instant::now();
        watch()
    }
}

/// What must be free for a helper to start: its stack, and what its allocator sets aside.
/// It is mapped, not allocated: a stack cannot stand where a list was freed.
const BYTES_PER_THREAD: usize = 72 << 20;

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

/// What a long computation asks now and then whether to go on; its error ends it.
pub type Pause<'a> = dyn FnMut() -> Result<()> + 'a;

/// The caller's thread and helpers. They live as long as one call: a pool that outlived
/// it would be missing in a forked child, which would wait for it forever.
pub(crate) struct Threads {
    /// None: the caller works alone.
    helpers: Option<rayon::ThreadPool>,
    size: usize,
}

impl Threads {
    /// `n_jobs` workers; None: one for each core that the process may use. More than there
    /// are cores or tasks have nothing to do, and are not started.
    pub(crate) fn new(n_jobs: Option<usize>, n_tasks: usize) -> Self {
        // The cores are not counted in vain: files are read for it, which takes longer than
        // small calls.
        if n_tasks <= 1 || n_jobs.is_some_and(|n| n <= 1) {
            return Self::of(None, 1);
        }
        let size = match n_jobs {
            Some(few) if few <= FEW => few,
            _ => {
                let cores = std::thread::available_parallelism().map_or(1, usize::from);
                n_jobs.map_or(cores, |n| n.min(cores.max(FEW)))
            }
        };
        let size = size.min(n_tasks);
        // A thread that finds no memory as it starts would end the process.
        let bytes = (size - 1) * BYTES_PER_THREAD;
        if size == 1 || MmapMut::map_anon(bytes).is_err() {
            return Self::of(None, 1);
        }
        let pool = {
            let _inside = FORK_GATE.enter();
            rayon::ThreadPoolBuilder::new().num_threads(size - 1).build()
        };
        // No threads to be had is no reason to fail: the caller's is enough.
        match pool {
            Ok(pool) => Self::of(Some(pool), size),
            Err(_) => Self::of(None, 1),
        }
    }

    fn of(helpers: Option<rayon::ThreadPool>, size: usize) -> Self {
        Self { helpers, size }
    }

    /// How many workers there are.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Runs tasks `0..n_tasks`, each worker taking the next one, with a scratch of its
    /// own. `watch` is called by the caller's thread with the number of tasks done; its
    /// error stops all. A task that takes long calls its last argument now and then, and
    /// passes on the error.
    pub(crate) fn run<S: Send>(
        &self,
        n_tasks: usize,
        scratch: &mut [S],
        task: impl Fn(usize, &mut S, &mut Pause<'_>) -> Result<()> + Sync,
        watch: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<()> {
        let next = AtomicUsize::new(0);
        // Tasks from here on are not wanted any more. Those before a failed one are
        // finished, so that the error is that of the first task, as with one thread.
        let limit = AtomicUsize::new(n_tasks);
        let failure: Mutex<Option<(usize, Error)>> = Mutex::new(None);
        let fail = |number: usize, error: Error| {
            limit.fetch_min(number, Ordering::Relaxed);
            if let Ok(mut first) = failure.lock()
                && first.as_ref().is_none_or(|(known, _)| number < *known)
            {
                *first = Some((number, error));
            }
        };
        let work = |scratch: &mut S, watch: &mut dyn FnMut(usize) -> Result<()>| {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let is_unwanted = || number >= limit.load(Ordering::Relaxed);
                if is_unwanted() {
                    return;
                }
                let mut pause = || match watch(number) {
                    Ok(()) if is_unwanted() => Err(Error::Interrupted),
                    other => other,
                };
                let done = task(number, scratch, &mut pause);
                match done.and_then(|()| watch(number + 1)) {
                    Ok(()) => {}
                    Err(Error::Interrupted) if is_unwanted() => return,
                    // The watch's: no task is wanted any more.
                    Err(Error::Interrupted) => return fail(0, Error::Interrupted),
                    Err(error) => return fail(number, error),
                }
            }
        };
        let mut throttle = Throttle::default();
        let mut watch = |done| throttle.ask_now(|| watch(done));
        let Some((own, others)) = scratch.split_first_mut() else {
            return Ok(());
        };
        match &self.helpers {
            None => work(own, &mut watch),
            Some(pool) => {
                pool.in_place_scope(|scope| {
                    let (working, done) = mpsc::channel::<()>();
                    for scratch in others {
                        let (work, working) = (&work, working.clone());
                        scope.spawn(move |_| {
                            work(scratch, &mut |_| Ok(()));
                            drop(working);
                        });
                    }
                    drop(working);
                    work(own, &mut watch);
                    // Helpers may be at work for long: the watch is asked meanwhile.
                    while done.recv_timeout(BETWEEN_CHECKS) == Err(Timeout) {
                        if let Err(error) =
                            watch(next.load(Ordering::Relaxed).min(n_tasks))
                        {
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
}

/// What takes long to make and is kept. Nobody waits for anybody who makes it, as in a
/// child process nobody would come back: who finds none makes one.
#[derive(Debug)]
pub struct Kept<T>(Mutex<Option<Arc<T>>>);

impl<T> Kept<T> {
    pub(crate) fn get(&self) -> Option<Arc<T>> {
        self.0.try_lock().ok()?.clone()
    }

    pub(crate) fn get_or_make(&self, make: impl FnOnce() -> T) -> Arc<T> {
        self.get().unwrap_or_else(|| self.put(make()))
    }

    pub(crate) fn put(&self, made: T) -> Arc<T> {
        let made = Arc::new(made);
        if let Ok(mut place) = self.0.try_lock() {
            *place = Some(Arc::clone(&made));
        }
        made
    }
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> Clone for Kept<T> {
    fn clone(&self) -> Self {
        Self(Mutex::new(self.get()))
    }
}

/// Threads at work on something that has no rows yet, and who may stop them.
pub(crate) struct WatchedThreads<'a> {
    threads: Threads,
    watch: &'a mut dyn FnMut() -> Result<()>,
    throttle: Throttle,
}

impl<'a> WatchedThreads<'a> {
    /// Of `n_jobs` workers (see [`Threads::new`]), as far as `n` things are worth it.
    pub(crate) fn new(
        n_jobs: Option<usize>,
        n: usize,
        watch: &'a mut dyn FnMut() -> Result<()>,
    ) -> Self {
        Self {
            threads: Threads::new(n_jobs, n.div_ceil(LEAST)),
            watch,
            throttle: Throttle::default(),
        }
    }

    /// Of the caller alone.
    pub(crate) fn alone(watch: &'a mut dyn FnMut() -> Result<()>) -> Self {
        Self::new(Some(1), 1, watch)
    }

    /// Asks whether to go on. To be called now and then: it is cheap.
    pub(crate) fn pause(&mut self) -> Result<()> {
        self.throttle.ask(&mut *self.watch)
    }

    /// Cuts `0..n` into one part for each worker, and returns what `task` makes of them,
    /// in order. The task calls its last argument now and then.
    pub(crate) fn parts<R: Send>(
        &mut self,
        n: usize,
        task: impl Fn(Range<usize>, &mut Pause<'_>) -> Result<R> + Sync,
    ) -> Result<Vec<R>> {
        let n_parts = self.threads.size();
        let parts: Vec<Mutex<Option<R>>> =
            (0..n_parts).map(|_| Mutex::new(None)).collect();
        self.threads.run(
            n_parts,
            &mut vec![(); self.threads.size()],
            |part, (), pause| {
                let range = n * part / n_parts..n * (part + 1) / n_parts;
                let mut calls = 0u32;
                let done = task(range, &mut || {
                    calls = calls.wrapping_add(1);
                    if calls.is_multiple_of(PER_CHECK) { pause() } else { Ok(()) }
                })?;
                if let Ok(mut slot) = parts[part].lock() {
                    *slot = Some(done);
                }
                Ok(())
            },
            &mut |_| (self.watch)(),
        )?;
        Ok(parts.into_iter().filter_map(|part| part.into_inner().ok()?).collect())
    }

    /// Does two things at a time, where there are two workers.
    pub(crate) fn both<A, B: Send>(
        &mut self,
        own: impl FnOnce(&mut Self) -> Result<A>,
        other: impl FnOnce() -> Result<B> + Send,
    ) -> Result<(A, B)> {
        let Some(pool) = self.threads.helpers.take() else {
            return Ok((own(self)?, other()?));
        };
        let mut done = None;
        let own = pool.in_place_scope(|scope| {
            scope.spawn(|_| done = Some(other()));
            own(self)
        });
        self.threads.helpers = Some(pool);
        match (own, done) {
            (Ok(own), Some(other)) => Ok((own, other?)),
            (Ok(_), None) => Err(Error::Interrupted),
            (Err(error), _) => Err(error),
        }
    }
}
