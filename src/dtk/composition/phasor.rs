//! Phasors: unit complex numbers.
//!
//! A vector is d/2 complex numbers, a label's on the unit circle, and a ◇ b = √(d/2)
//! p1(a) · p2(b). This is circular convolution with unitary spectra whose shuffles are
//! done in the spectrum, so that no FFT is needed. A block of four numbers is two
//! phasors: both real parts, then both imaginary ones.

use super::Real;
use super::block::BlockAlgebra;
use crate::dtk::random::{Stream, circle};
use crate::vector::{Loop, vectorized};

pub(super) struct Phasors;

impl BlockAlgebra for Phasors {
    #[inline]
    fn product<T: Real>(a: [T; 4], b: [T; 4]) -> [T; 4] {
        [
            a[0] * b[0] - a[2] * b[2],
            a[1] * b[1] - a[3] * b[3],
            a[0] * b[2] + a[2] * b[0],
            a[1] * b[3] + a[3] * b[1],
        ]
    }
}

pub(super) fn label<T: Real>(stream: Stream, out: &mut [T]) {
    vectorized(Draw { stream, out });
}

/// In passes over blocks, compiled for AVX2: the numbers are the same.
struct Draw<'a, T> {
    stream: Stream,
    out: &'a mut [T],
}

impl<T: Real> Loop for Draw<'_, T> {
    #[inline(always)]
    #[allow(clippy::inline_always)] // into the function that is compiled for AVX2
    fn run(self) {
        const BLOCK: usize = 32;
        let mut words = [0u64; BLOCK];
        let [mut a, mut b, mut c, mut d] = [[0.0; BLOCK]; 4];
        let blocks = self.out.as_chunks_mut::<4>().0.chunks_mut(BLOCK);
        for (block, out) in blocks.enumerate() {
            for (i, word) in words.iter_mut().enumerate() {
                *word = self.stream.at(block * BLOCK + i);
            }
            // A loop for each step, so that each is arithmetic on several numbers at
            // once.
            for i in 0..BLOCK {
                (a[i], b[i]) = circle(words[i] as u32);
            }
            for i in 0..BLOCK {
                (c[i], d[i]) = circle((words[i] >> 32) as u32);
            }
            for (i, out) in out.iter_mut().enumerate() {
                *out = [T::of(a[i]), T::of(c[i]), T::of(b[i]), T::of(d[i])];
            }
        }
    }
}
