//! Quaternions: the default, with the least noise for its cost.
//!
//! A vector is d/4 quaternions, a label's are unit quaternions, drawn uniformly, and
//! a ◇ b = √(d/4) p1(a) · p2(b), Hamilton's product one by one. Norms multiply, so a
//! fragment of any size has norm 1; and a product averages over four numbers where
//! `sign` has each by itself, so that sums have lighter tails (spec, section 5).

use super::Real;
use super::block::Blocks;
use crate::dtk::random::{Stream, circle, split};

pub(super) struct Quaternions;

impl Blocks for Quaternions {
    /// Each quaternion is four numbers side by side, one load and one store; planes of
    /// equal components would need a load for each component where SSE2 has no gather
    /// (1.7 times as long, see `benches/dtk.rs`).
    #[inline]
    fn product<T: Real>(a: [T; 4], b: [T; 4]) -> [T; 4] {
        let [w, x, y, z] = a;
        // Written out: `array::from_fn` is a call in builds without LTO (7 times as long).
        [
            (w * b[0] - x * b[1]) - (y * b[2] + z * b[3]),
            (w * b[1] + x * b[0]) + (y * b[3] - z * b[2]),
            (w * b[2] - x * b[3]) + (y * b[0] + z * b[1]),
            (w * b[3] + x * b[2]) - (y * b[1] - z * b[0]),
        ]
    }
}

/// In passes over blocks, each of which vectorises; one by one took twice as long.
pub(super) fn label<T: Real>(stream: Stream, out: &mut [T]) {
    const BLOCK: usize = 32;
    let mut words = [0u64; BLOCK];
    let (mut a, mut b) = ([(0.0, 0.0); BLOCK], [(0.0, 0.0); BLOCK]);
    let mut radii = [(0.0, 0.0); BLOCK];
    for (block, out) in out.as_chunks_mut::<4>().0.chunks_mut(BLOCK).enumerate() {
        for (i, word) in words.iter_mut().enumerate() {
            *word = stream.at(block * BLOCK + i);
        }
        for i in 0..BLOCK {
            radii[i] = split(words[i]);
        }
        for i in 0..BLOCK {
            a[i] = circle(((words[i] >> 21) as u32) << 11);
        }
        for i in 0..BLOCK {
            b[i] = circle((words[i] as u32) << 11);
        }
        for (i, out) in out.iter_mut().enumerate() {
            let (r, s) = radii[i];
            let (a, b) = (a[i], b[i]);
            *out = [T::of(r * a.0), T::of(r * a.1), T::of(s * b.0), T::of(s * b.1)];
        }
    }
}
