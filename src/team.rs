//! Threads that share out rows.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::{Error, Result};

/// How often the caller's thread asks whether to go on.
const BETWEEN_CHECKS: Duration = Duration::from_millis(50);

/// Less is not worth a part of its own: that takes as long as some 100 trees.
const LEAST: usize = 512;

/// Looking at the clock takes as long as some subtrees: this is done once in so many
/// calls.
const PER_CHECK: u32 = 32;

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

/// A team at work on something that has no rows yet, and who may stop it.
pub(crate) struct Crew<'a> {
    team: Team,
    watch: &'a mut dyn FnMut() -> Result<()>,
    checked: Instant,
    calls: u32,
}

impl<'a> Crew<'a> {
    /// Of `n_jobs` workers (see [`Team::new`]), as far as `n` things are worth it.
    pub(crate) fn new(
        n_jobs: Option<usize>,
        n: usize,
        watch: &'a mut dyn FnMut() -> Result<()>,
    ) -> Self {
        Self {
            team: Team::new(n_jobs, n.div_ceil(LEAST)),
            watch,
            checked: Instant::now(),
            calls: 0,
        }
    }

    /// Of the caller alone.
    pub(crate) fn alone(watch: &'a mut dyn FnMut() -> Result<()>) -> Self {
        Self::new(Some(1), 1, watch)
    }

    /// Asks whether to go on. To be called now and then: it is cheap.
    pub(crate) fn pause(&mut self) -> Result<()> {
        self.calls = self.calls.wrapping_add(1);
        if !self.calls.is_multiple_of(PER_CHECK)
            || self.checked.elapsed() < BETWEEN_CHECKS
        {
            return Ok(());
        }
        self.checked = Instant::now();
        (self.watch)()
    }

    /// Cuts `0..n` into one part for each worker, and returns what `task` makes of them,
    /// in order. The task calls its last argument now and then.
    pub(crate) fn parts<R: Send>(
        &mut self,
        n: usize,
        task: impl Fn(Range<usize>, &mut Pause<'_>) -> Result<R> + Sync,
    ) -> Result<Vec<R>> {
        let n_parts = self.team.size();
        let parts: Vec<Mutex<Option<R>>> =
            (0..n_parts).map(|_| Mutex::new(None)).collect();
        self.team.run(
            n_parts,
            &mut vec![(); self.team.size()],
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
        let Some(pool) = self.team.helpers.take() else {
            return Ok((own(self)?, other()?));
        };
        let mut done = None;
        let own = pool.in_place_scope(|scope| {
            scope.spawn(|_| done = Some(other()));
            own(self)
        });
        self.team.helpers = Some(pool);
        match (own, done) {
            (Ok(own), Some(other)) => Ok((own, other?)),
            (Ok(_), None) => Err(Error::Interrupted),
            (Err(error), _) => Err(error),
        }
    }
}
