//! How a long call is interrupted, reports its progress, and how many threads it uses.
//!
//! ```
//! use treekernel_rs::kernel::SubsetTree;
//! use treekernel_rs::{Context, Error, Forest, gram};
//!
//! let forest = Forest::from_brackets("(S (NP I) (VP run)) (S (NP you) (VP run))")?;
//! let kernel = SubsetTree::new(0.4);
//! let mut matrix = [0.0; 4];
//! let context = Context::watched(|done, total| {
//!     println!("{done} of {total} rows");
//!     Ok(()) // an error would end the call
//! });
//! gram::fill_with(&kernel, &forest, None, gram::Options::default(), &mut matrix, &context)?;
//!
//! let stopped = Context::watched(|_, _| Err(Error::Interrupted)).with_n_jobs(Some(2));
//! let options = gram::Options::default();
//! let done = gram::fill_with(&kernel, &forest, None, options, &mut matrix, &stopped);
//! assert_eq!(done, Err(Error::Interrupted));
//! # Ok::<(), Error>(())
//! ```

use std::cell::{Cell, RefCell};
use std::fmt;
use std::time::{Duration, Instant};

use crate::{Error, Result};

/// How often the caller is asked whether to go on.
pub(crate) const BETWEEN_QUESTIONS: Duration = Duration::from_millis(50);

/// Looking at the clock takes as long as some subtrees: [`Context::check`] does so once in
/// so many calls.
const PER_LOOK: u32 = 32;

/// How a long call is interrupted, reports its progress, and how many threads it uses.
///
/// The default is never interrupted, reports nothing, and uses all cores. A context belongs
/// to one thread; each helper thread gets its own.
pub struct Context<'a> {
    watch: Watch<'a>,
    /// Whether what is computed is not wanted any more: asked without a look at the clock.
    is_unwanted: Option<&'a dyn Fn() -> bool>,
    n_jobs: Option<usize>,
    /// The least time between two questions.
    interval: Duration,
    /// Calls of [`check`](Self::check) until the next look at the clock.
    calls_left: Cell<u32>,
    /// What is done of how much.
    progress: Cell<(usize, usize)>,
}

/// Who is asked whether to go on.
enum Watch<'a> {
    Nobody,
    /// A function, and when it was asked.
    Caller(Box<dyn Fn(usize, usize) -> Result<()> + 'a>, Cell<Instant>),
    /// Another context of the same thread, which knows when it was asked.
    Above(&'a Context<'a>),
}

impl Default for Context<'_> {
    fn default() -> Self {
        Self::of(Watch::Nobody, None)
    }
}

impl<'a> Context<'a> {
    /// A context whose `watch` is asked from time to time, by the thread that makes the
    /// call, and told what is done of how much. Its error ends the call, and is the call's.
    pub fn watched(watch: impl FnMut(usize, usize) -> Result<()> + 'a) -> Self {
        let watch = RefCell::new(watch);
        let ask = move |done, total| match watch.try_borrow_mut() {
            Ok(mut watch) => watch(done, total),
            // A call of the watch's own.
            Err(_) => Ok(()),
        };
        Self::of(Watch::Caller(Box::new(ask), Cell::new(Instant::now())), None)
    }

    /// This context with a number of threads; None: one for each core that the process may
    /// use.
    #[must_use]
    pub fn with_n_jobs(self, n_jobs: Option<usize>) -> Self {
        Self { n_jobs, ..self }
    }

    /// This context with the least time between two questions to its watch, which is
    /// otherwise 50 ms. Zero: each check asks.
    #[must_use]
    pub fn with_interval(self, interval: Duration) -> Self {
        // Without an interval each call looks.
        let calls_left = Cell::new(if interval.is_zero() { 0 } else { PER_LOOK - 1 });
        Self { interval, calls_left, ..self }
    }

    /// Threads; None: one for each core that the process may use.
    pub fn n_jobs(&self) -> Option<usize> {
        self.n_jobs
    }

    /// Asks whether to go on, if it is time. To be called now and then in a loop whose
    /// rounds are short: it looks at the clock once in 32 calls.
    ///
    /// # Errors
    /// The watch's, usually [`Error::Interrupted`]: what is computed is not wanted any more.
    #[inline]
    pub fn check(&self) -> Result<()> {
        match self.calls_left.get() {
            0 => self.check_counted(),
            left => {
                self.calls_left.set(left - 1);
                Ok(())
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn check_counted(&self) -> Result<()> {
        self.calls_left.set(if self.interval.is_zero() { 0 } else { PER_LOOK - 1 });
        self.check_now()
    }

    /// As [`check`](Self::check), for a loop whose rounds take long: looks at the clock each
    /// time.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn check_now(&self) -> Result<()> {
        // A helper's question, which costs nothing: what is not wanted needs no other one.
        if self.is_unwanted.is_some_and(|is_unwanted| is_unwanted()) {
            return Err(Error::Interrupted);
        }
        match &self.watch {
            Watch::Nobody => Ok(()),
            Watch::Above(context) => context.check_now(),
            // However often work is checked, the caller is asked at intervals.
            Watch::Caller(_, asked) if asked.get().elapsed() < self.interval => Ok(()),
            Watch::Caller(..) => self.ask(),
        }
    }

    /// Notes what is done of how much, and asks whether to go on, if it is time.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn advance(&self, done: usize, total: usize) -> Result<()> {
        // Kept for the next question, whichever check asks it.
        self.progress.set((done, total));
        self.check_now()
    }

    /// As [`advance`](Self::advance), in any case: for the end of a call.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn report(&self, done: usize, total: usize) -> Result<()> {
        self.progress.set((done, total));
        self.ask()
    }

    /// Asks the watch, whenever it was asked last.
    fn ask(&self) -> Result<()> {
        match &self.watch {
            Watch::Nobody => Ok(()),
            Watch::Above(context) => context.check_now(),
            Watch::Caller(watch, asked) => {
                // Before the call, so that a slow watch is not asked without end.
                asked.set(Instant::now());
                let (done, total) = self.progress.get();
                watch(done, total)
            }
        }
    }

    /// A context for a step of the call: it is stopped where the call is, and its progress
    /// is told to nobody.
    pub(crate) fn step(&self) -> Context<'_> {
        self.below(None).with_n_jobs(self.n_jobs)
    }

    /// A context for tasks that the thread which makes the call takes on: as
    /// [`step`](Self::step), and stopped where they are not wanted any more.
    pub(crate) fn task<'t>(&'t self, is_unwanted: &'t dyn Fn() -> bool) -> Context<'t> {
        self.below(Some(is_unwanted)).with_n_jobs(Some(1))
    }

    /// A context for tasks that a helper takes on.
    pub(crate) fn helper(is_unwanted: &'a dyn Fn() -> bool) -> Self {
        Self::of(Watch::Nobody, Some(is_unwanted)).with_n_jobs(Some(1))
    }

    fn below<'t>(&'t self, is_unwanted: Option<&'t dyn Fn() -> bool>) -> Context<'t> {
        Context::of(Watch::Above(self), is_unwanted).with_interval(self.interval)
    }

    fn of(watch: Watch<'a>, is_unwanted: Option<&'a dyn Fn() -> bool>) -> Self {
        Self {
            watch,
            is_unwanted,
            n_jobs: None,
            interval: BETWEEN_QUESTIONS,
            calls_left: Cell::new(PER_LOOK - 1),
            progress: Cell::new((0, 0)),
        }
    }
}

impl fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("n_jobs", &self.n_jobs)
            .field("progress", &self.progress)
            .finish_non_exhaustive()
    }
}
