//! Threads that share out rows.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::{Error, Result};

/// How often the caller's thread asks whether to go on.
const BETWEEN_CHECKS: Duration = Duration::from_millis(50);

/// What a task asks whether to go on.
pub(crate) type Pause<'a> = dyn FnMut() -> Result<()> + 'a;

/// The caller's thread and helpers. They live as long as one call: a pool that outlived
/// it would be missing in a forked child, which would wait for it forever.
pub(crate) struct Team {
    /// None: the caller works alone.
    helpers: Option<rayon::ThreadPool>,
    size: usize,
}

impl Team {
    /// `n_jobs` workers; None: one for each core that the process may use.
    pub(crate) fn new(n_jobs: Option<usize>, n_tasks: usize) -> Self {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let size = n_jobs.unwrap_or_else(cores).min(n_tasks).max(1);
        if size == 1 {
            return Self::of(None, size);
        }
        let pool = rayon::ThreadPoolBuilder::new().num_threads(size - 1).build();
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
        let mut checked = Instant::now();
        let mut watch = |done| {
            if checked.elapsed() < BETWEEN_CHECKS {
                return Ok(());
            }
            checked = Instant::now();
            watch(done)
        };
        let Some((own, others)) = scratch.split_first_mut() else {
            return Ok(());
        };
        match &self.helpers {
            None => work(own, &mut watch),
            Some(pool) => {
                pool.in_place_scope(|scope| {
                    for scratch in others {
                        scope.spawn(|_| work(scratch, &mut |_| Ok(())));
                    }
                    work(own, &mut watch);
                });
            }
        }
        match failure.into_inner() {
            Ok(Some((_, error))) => Err(error),
            _ => Ok(()),
        }
    }
}
