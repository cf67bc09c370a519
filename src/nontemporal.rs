//! Stores past the caches.
//!
//! An ordinary store first reads its line of the cache from memory. Whoever fills a
//! matrix of hundreds of megabytes, a line here and a line there, reads all of it once
//! for nothing, and drives what is needed again out of the caches. Stores that say so
//! go to memory directly, a whole line at a time: the mirrored half of a matrix of all
//! questions of TREC is stored in half the time (0.98 to 0.49 ns per pair of trees, in a loop of
//! its own; the whole matrix, see `gram/mirror.rs`, gains a tenth).
#![allow(unsafe_code)]

/// Bytes in a line of the cache.
pub(crate) const LINE_BYTES: usize = 64;

/// A float type that can be stored so. (Public in a private module: nobody else can
/// implement it.)
pub trait NonTemporal: Copy {
    /// Sets the cells of one line to `value(0)`, `value(1)`, ...: ordinarily if they
    /// are not exactly a line of the cache, or on other machines than x86-64. Nobody else
    /// may count on the values before [`fence`].
    fn stream(cells: &mut [Self], value: impl Fn(usize) -> Self);
}

/// Whether the cells are a line of the cache from its first byte to the last.
#[cfg(target_arch = "x86_64")]
fn are_a_line<T>(cells: &[T]) -> bool {
    size_of_val(cells) == LINE_BYTES
        && (cells.as_ptr() as usize).is_multiple_of(LINE_BYTES)
}

fn store<T>(cells: &mut [T], value: impl Fn(usize) -> T) {
    for (k, cell) in cells.iter_mut().enumerate() {
        *cell = value(k);
    }
}

impl NonTemporal for f64 {
    #[inline]
    fn stream(cells: &mut [Self], value: impl Fn(usize) -> Self) {
        #[cfg(target_arch = "x86_64")]
        if are_a_line(cells) {
            use std::arch::x86_64::{_mm_set_pd, _mm_stream_pd};
            for (k, two) in cells.chunks_exact_mut(2).enumerate() {
                // SAFETY: two cells of an aligned line; every x86-64 has SSE2.
                unsafe {
                    let values = _mm_set_pd(value(2 * k + 1), value(2 * k));
                    _mm_stream_pd(two.as_mut_ptr(), values);
                }
            }
            return;
        }
        store(cells, value);
    }
}

impl NonTemporal for f32 {
    #[inline]
    fn stream(cells: &mut [Self], value: impl Fn(usize) -> Self) {
        #[cfg(target_arch = "x86_64")]
        if are_a_line(cells) {
            use std::arch::x86_64::{_mm_set_ps, _mm_stream_ps};
            for (k, four) in cells.chunks_exact_mut(4).enumerate() {
                let [a, b, c, d] = std::array::from_fn(|i| value(4 * k + i));
                // SAFETY: four cells of an aligned line; every x86-64 has SSE.
                unsafe { _mm_stream_ps(four.as_mut_ptr(), _mm_set_ps(d, c, b, a)) };
            }
            return;
        }
        store(cells, value);
    }
}

/// Waits until what was streamed is where others see it.
pub(crate) fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has it.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    };
}
