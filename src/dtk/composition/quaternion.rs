//! Quaternions: the default, with the least noise for its cost.
//!
//! A vector is d/4 quaternions, a label's are unit quaternions, drawn uniformly, and
//! a ◇ b = √(d/4) p1(a) · p2(b), Hamilton's product one by one. Norms multiply, so a
//! fragment of any size has norm 1; and a product averages over four numbers where
//! `sign` has each by itself, so that sums have lighter tails (spec, section 5).

use super::Real;
use super::block::Blocks;
use crate::dtk::random::{Stream, unit_quaternion};

pub(super) struct Quaternions;

impl Blocks for Quaternions {
    /// Each quaternion is four numbers side by side, one load and one store; planes of
    /// equal components would need a load for each component where SSE2 has no gather
    /// (1.7 times as long, see `benches/dtk.rs`).
    #[inline]
    fn product<T: Real>(a: [T; 4], b: [T; 4]) -> [T; 4] {
        let [w, x, y, z] = a;
        // Row by row, a multiple of b shuffled each: that is how it vectorises.
        let rows = [
            [w * b[0], w * b[1], w * b[2], w * b[3]],
            [-x * b[1], x * b[0], -x * b[3], x * b[2]],
            [-y * b[2], y * b[3], y * b[0], -y * b[1]],
            [-z * b[3], -z * b[2], z * b[1], z * b[0]],
        ];
        std::array::from_fn(|k| (rows[0][k] + rows[1][k]) + (rows[2][k] + rows[3][k]))
    }
}

pub(super) fn label<T: Real>(stream: Stream, out: &mut [T]) {
    for (i, out) in out.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        *out = unit_quaternion(stream.at(i)).map(T::of);
    }
}
