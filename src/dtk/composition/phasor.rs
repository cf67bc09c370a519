//! Phasors: unit complex numbers.
//!
//! A vector is d/2 complex numbers, a label's on the unit circle, and a ◇ b = √(d/2)
//! p1(a) · p2(b). This is circular convolution with unitary spectra whose shuffles are
//! done in the spectrum, so that no FFT is needed. A block of four numbers is two
//! phasors: both real parts, then both imaginary ones.

use super::Real;
use super::block::Blocks;
use crate::dtk::random::{NonTemporal, circle};

pub(super) struct Phasors;

impl Blocks for Phasors {
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

pub(super) fn label<T: Real>(stream: NonTemporal, out: &mut [T]) {
    for (i, out) in out.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        let word = stream.at(i);
        let (c, s) = circle(word as u32);
        let (e, f) = circle((word >> 32) as u32);
        *out = [T::of(c), T::of(e), T::of(s), T::of(f)];
    }
}
