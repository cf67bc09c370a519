//! Products of quaternions by AVX2, two at a time: 1.7 us for d = 8192 in f32, where the loop of
//! [`block`](super::block) takes 5.0, and 5.2 compiled for AVX2 (3.6 with two quaternions written
//! side by side). Nothing is fused and no sum is reordered, so the numbers are the same.
#![allow(unsafe_code)]

use super::Form;

/// out_i = left_{p1(i)} · right_{p2(i)}, for pairs of quaternions; how many numbers of `out` are
/// done: all but the last quaternion of an odd number, or none where AVX2 is missing.
#[cfg(target_arch = "x86_64")]
pub(super) fn quaternions(
    permutations: (&[u32], &[u32]),
    left: &[f32],
    right: &Form<'_, f32>,
    out: &mut [f32],
) -> usize {
    if !std::arch::is_x86_feature_detected!("avx2") {
        return 0;
    }
    let (x, y) = match (right.label, right.value) {
        (Some(x), y) => (x, y),
        (None, Some(y)) => (y, None),
        (None, None) => return 0,
    };
    // SAFETY: the processor has what the function is compiled for.
    unsafe { products(permutations, left, x, y, out) }
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn quaternions(
    _: (&[u32], &[u32]),
    _: &[f32],
    _: &Form<'_, f32>,
    _: &mut [f32],
) -> usize {
    0
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn products(
    (first, second): (&[u32], &[u32]),
    left: &[f32],
    (x, w): (&[f32], f32),
    y: Option<(&[f32], f32)>,
    out: &mut [f32],
) -> usize {
    use std::arch::x86_64::{
        __m256, _mm_loadu_ps, _mm256_add_ps, _mm256_addsub_ps, _mm256_castps128_ps256,
        _mm256_insertf128_ps, _mm256_mul_ps, _mm256_permute_ps, _mm256_set1_ps,
        _mm256_setr_ps, _mm256_storeu_ps, _mm256_xor_ps,
    };
    let pair = |x: &[[f32; 4]], i: u32, j: u32| -> __m256 {
        let (a, b) = (&x[i as usize], &x[j as usize]);
        // SAFETY: both arrays have the four numbers that are read.
        let (a, b) = unsafe { (_mm_loadu_ps(a.as_ptr()), _mm_loadu_ps(b.as_ptr())) };
        _mm256_insertf128_ps::<1>(_mm256_castps128_ps256(a), b)
    };
    // Signs to be flipped: those of each second number, and of the first and the last.
    let second_signs = _mm256_setr_ps(0.0, -0.0, 0.0, -0.0, 0.0, -0.0, 0.0, -0.0);
    let outer_signs = _mm256_setr_ps(-0.0, 0.0, 0.0, -0.0, -0.0, 0.0, 0.0, -0.0);
    let product = |a: __m256, b: __m256| -> __m256 {
        // w b, and x, y, z times b in another order; a 2-bit index for each number, the last
        // one first.
        let p = _mm256_mul_ps(_mm256_permute_ps::<0b00_00_00_00>(a), b);
        let q = _mm256_mul_ps(
            _mm256_permute_ps::<0b01_01_01_01>(a),
            _mm256_permute_ps::<0b10_11_00_01>(b),
        );
        let r = _mm256_mul_ps(
            _mm256_permute_ps::<0b10_10_10_10>(a),
            _mm256_permute_ps::<0b01_00_11_10>(b),
        );
        let s = _mm256_mul_ps(
            _mm256_permute_ps::<0b11_11_11_11>(a),
            _mm256_permute_ps::<0b00_01_10_11>(b),
        );
        // (p0 - q0) - (r0 + s0), (p1 + q1) + (r1 - s1), (p2 - q2) + (r2 + s2), ...
        let rest = _mm256_add_ps(r, _mm256_xor_ps(s, second_signs));
        _mm256_add_ps(_mm256_addsub_ps(p, q), _mm256_xor_ps(rest, outer_signs))
    };
    let (left, x) = (left.as_chunks::<4>().0, x.as_chunks::<4>().0);
    let w = _mm256_set1_ps(w);
    let out = out.as_chunks_mut::<8>().0;
    let n = out.len();
    let indices = first.as_chunks::<2>().0.iter().zip(second.as_chunks::<2>().0);
    let each = out.iter_mut().zip(indices);
    match y {
        None => {
            for (out, (&[i, j], &[k, l])) in each {
                let right = _mm256_mul_ps(w, pair(x, k, l));
                let values = product(pair(left, i, j), right);
                // SAFETY: the array has eight numbers.
                unsafe { _mm256_storeu_ps(out.as_mut_ptr(), values) };
            }
        }
        Some((y, v)) => {
            let (y, v) = (y.as_chunks::<4>().0, _mm256_set1_ps(v));
            for (out, (&[i, j], &[k, l])) in each {
                let label = _mm256_mul_ps(w, pair(x, k, l));
                let right = _mm256_add_ps(label, _mm256_mul_ps(v, pair(y, k, l)));
                let values = product(pair(left, i, j), right);
                // SAFETY: the array has eight numbers.
                unsafe { _mm256_storeu_ps(out.as_mut_ptr(), values) };
            }
        }
    }
    8 * n
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Context;
    use crate::dtk::composition::block;
    use crate::dtk::composition::quaternion::Quaternions;
    use crate::dtk::random::{Stream, normal_pair};

    #[test]
    fn products_are_those_of_the_plain_loop_to_the_bit() {
        let go_on = &Context::default();
        for n in [1, 2, 3, 8, 65] {
            let numbered = |number| Stream::numbered(5, number);
            let [first, second] =
                [0, 1].map(|number| numbered(number).permutation(n, go_on).unwrap());
            let [left, x, y] = [2, 3, 4].map(|number| -> Vec<f32> {
                let pair = |i| <[f64; 2]>::from(normal_pair(numbered(number).at(i)));
                (0..2 * n).flat_map(pair).map(|x| x as f32).collect()
            });
            let permutations = (&*first, &*second);
            for label in [None, Some((&*x, 1.0)), Some((&*x, 0.3))] {
                for value in [None, Some((&*y, 1.0)), Some((&*y, -1.7))] {
                    let right = Form { label, value };
                    let mut plain = vec![0.0; 4 * n];
                    let mut wide = plain.clone();
                    block::product::<Quaternions, f32>(
                        permutations,
                        &left,
                        &right,
                        &mut plain,
                    );
                    let done = quaternions(permutations, &left, &right, &mut wide);
                    let bits =
                        |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                    assert!(done == 0 || done == 4 * n / 8 * 8);
                    assert_eq!(bits(&wide[..done]), bits(&plain[..done]), "{n}");
                }
            }
        }
    }
}
