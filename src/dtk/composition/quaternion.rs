//! Quaternions: the default, with the least noise for its cost.
//!
//! A vector is d/4 quaternions, a label's are unit quaternions, drawn uniformly, and
//! a ◇ b = √(d/4) p1(a) · p2(b), Hamilton's product one by one. Norms multiply, so a
//! fragment of any size has norm 1; and a product averages over four numbers where
//! `sign` has each by itself, so that sums have lighter tails.

use super::Real;
use super::block::BlockAlgebra;
use crate::dtk::random::{Stream, circle, quaternion_radii};
use crate::vector::{Loop, vectorized};

pub(super) struct Quaternions;

impl BlockAlgebra for Quaternions {
    /// Each quaternion is four numbers side by side, one load and one store: planes of
    /// equal components would need a load for each component, as SSE2 has no gather.
    #[inline]
    fn product<T: Real>(a: [T; 4], b: [T; 4]) -> [T; 4] {
        let [w, x, y, z] = a;
        // Row by row, a multiple of b shuffled each: 5.1 us for d = 8192 in f32 (1.7 by
        // `avx2.rs`, which takes over where it can), against 5.8 component by component, 5.4 four quaternions at a time, transposed, 5.6
        // with the sum of label and value in a pass of its own. (`array::from_fn` is a
        // call in builds without LTO, and halved trees per second.)
        let p = [w * b[0], w * b[1], w * b[2], w * b[3]];
        let q = [x * -b[1], x * b[0], x * -b[3], x * b[2]];
        let r = [y * -b[2], y * b[3], y * b[0], y * -b[1]];
        let s = [z * -b[3], z * -b[2], z * b[1], z * b[0]];
        [
            (p[0] + q[0]) + (r[0] + s[0]),
            (p[1] + q[1]) + (r[1] + s[1]),
            (p[2] + q[2]) + (r[2] + s[2]),
            (p[3] + q[3]) + (r[3] + s[3]),
        ]
    }
}

/// Draws the quaternions of a label.
pub(super) fn label<T: Real>(stream: Stream, out: &mut [T]) {
    vectorized(Draw { stream, out });
}

/// In passes over blocks: 21 us for d = 8192, against 27 one by one; compiled for AVX2
/// 11. (Nothing is fused: the numbers are the same.)
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
        let [mut first, mut second] = [[0.0; BLOCK]; 2];
        let [mut a, mut b, mut c, mut d] = [[0.0; BLOCK]; 4];
        let blocks = self.out.as_chunks_mut::<4>().0.chunks_mut(BLOCK);
        for (block, out) in blocks.enumerate() {
            for (i, word) in words.iter_mut().enumerate() {
                *word = self.stream.at(block * BLOCK + i);
            }
            // The upper 22 bits of the word; the angles have 21 each.
            for i in 0..BLOCK {
                (first[i], second[i]) = quaternion_radii(words[i]);
            }
            for i in 0..BLOCK {
                (a[i], b[i]) = circle(((words[i] >> 21) as u32) << 11);
            }
            for i in 0..BLOCK {
                (c[i], d[i]) = circle((words[i] as u32) << 11);
            }
            for (i, out) in out.iter_mut().enumerate() {
                let (r, s) = (first[i], second[i]);
                *out = [
                    T::of(r * a[i]),
                    T::of(r * b[i]),
                    T::of(s * c[i]),
                    T::of(s * d[i]),
                ];
            }
        }
    }
}
