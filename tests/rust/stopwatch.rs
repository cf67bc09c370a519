//! How long a thread works, however busy the machine is.

use std::fs;
use std::time::{Duration, Instant};

pub(crate) struct Stopwatch {
    start: Instant,
    used: Option<Duration>,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self { start: Instant::now(), used: used() }
    }

    /// Time by the clock or, where the system tells, this thread's time of a processor,
    /// whichever is less.
    pub(crate) fn took(&self) -> Duration {
        let clock = self.start.elapsed();
        match (self.used, used()) {
            (Some(before), Some(now)) => clock.min(now.saturating_sub(before)),
            _ => clock,
        }
    }
}

/// The processor's time that this thread has had.
fn used() -> Option<Duration> {
    let all = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(all.split(' ').next()?.parse().ok()?))
}
