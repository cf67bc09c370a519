//! Numbers drawn from a seed, the same on every machine.
//!
//! The generator is SplitMix64 (Steele, Lea & Flood, OOPSLA 2014) read by position:
//! number i of a stream is a function of (stream, i), so streams need no state. A
//! label's stream is `mix(mix(seed) ^ FNV-1a(bytes of the label))`; a permutation's has
//! a number in place of the label.
//!
//! All that follows is IEEE arithmetic (+ - · / and square roots), which has one right
//! result. Sine, cosine and logarithm come from polynomials below, not from the
//! platform's library, whose last bit differs from one to the next. For the same reason
//! nothing here uses fused multiply-add.
// What is inlined into functions that are compiled for AVX2.
#![allow(clippy::inline_always)]

use crate::vector::Loop;
use crate::{Context, Result, memory};

/// Numbers of a long vector that are made between two questions whether to go on. A
/// multiple of what any loop here takes at a time.
pub(crate) const PART: usize = 1 << 16;

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// The finaliser of SplitMix64: a bijection that scatters.
#[inline(always)]
pub(crate) fn mix(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// FNV-1a, 64 bits.
pub(crate) fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}

/// A stream of 64-bit numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stream(u64);

impl Stream {
    /// The stream of a label.
    pub(super) fn of_label(seed: u64, label: &[u8]) -> Self {
        Self(mix(mix(seed.wrapping_add(GOLDEN)) ^ fnv(label)))
    }

    /// A stream for something that is not a label. (FNV of a label could be such a
    /// number, once in 2^64.)
    pub(crate) fn numbered(seed: u64, number: u64) -> Self {
        Self(mix(mix(seed.wrapping_add(GOLDEN)) ^ mix(number ^ 0x5EED_0FA7_ABE1)))
    }

    /// Number `i`.
    #[inline(always)]
    pub(super) fn at(self, i: usize) -> u64 {
        mix(self.0.wrapping_add((i as u64 + 1).wrapping_mul(GOLDEN)))
    }

    /// The stream without its first `n` numbers.
    pub(super) fn skip(self, n: usize) -> Self {
        Self(self.0.wrapping_add((n as u64).wrapping_mul(GOLDEN)))
    }

    /// A permutation of 0..n, by Fisher and Yates. (The product picks each index with a
    /// probability right to one part in 2^32 and more.)
    pub(crate) fn permutation(self, n: usize, context: &Context) -> Result<Vec<u32>> {
        let mut items = memory::filled(0, n)?;
        for (i, item) in (0..).zip(&mut items) {
            *item = i;
        }
        for last in (1..n).rev() {
            if last.is_multiple_of(PART) {
                context.check_now()?;
            }
            let pick = (u128::from(self.at(last)) * (last as u128 + 1)) >> 64;
            items.swap(last, pick as usize);
        }
        Ok(items)
    }
}

/// A point on the unit circle by `turn`, one in 2^32. (What angle 0 stands for does not
/// matter to a uniform draw: the octants' middle here, which spares a step.)
#[inline(always)]
pub(crate) fn circle(turn: u32) -> (f64, f64) {
    // The angle within its quadrant, from its middle: at most π/4 either way.
    let within = f64::from(((turn << 2) >> 2) as i32) - f64::from(1 << 29) + 0.5;
    let x = within * (std::f64::consts::FRAC_PI_2 / f64::from(1 << 30));
    let y = x * x;
    // Taylor: the first term left out is below 4e-17.
    let sine = x
        * (1.0
            + y * (-1.0 / 6.0
                + y * (1.0 / 120.0
                    + y * (-1.0 / 5_040.0
                        + y * (1.0 / 362_880.0
                            + y * (-1.0 / 39_916_800.0
                                + y * (1.0 / 6_227_020_800.0
                                    + y * (-1.0 / 1_307_674_368_000.0))))))));
    let cosine = 1.0
        + y * (-0.5
            + y * (1.0 / 24.0
                + y * (-1.0 / 720.0
                    + y * (1.0 / 40_320.0
                        + y * (-1.0 / 3_628_800.0
                            + y * (1.0 / 479_001_600.0
                                + y * (-1.0 / 87_178_291_200.0
                                    + y / 20_922_789_888_000.0)))))));
    // Quarter turns, without branches.
    let (swapped, negative) = (turn & 1 << 30 != 0, turn & 1 << 31 != 0);
    let sign = if negative { -1.0 } else { 1.0 };
    let (c, s) = if swapped { (-sine, cosine) } else { (cosine, sine) };
    (sign * c, sign * s)
}

/// The natural logarithm of a normal, positive number, to two units in the last place.
#[inline(always)]
fn ln(x: f64) -> f64 {
    // x = 2^e · m with m in [√½, √2): ln x = e ln 2 + 2 artanh((m-1)/(m+1)).
    let bits = x.to_bits();
    let shifted = bits.wrapping_sub(std::f64::consts::FRAC_1_SQRT_2.to_bits());
    // By way of 32 bits: AVX2 neither shifts 64 arithmetically nor makes floats of them.
    let e = (shifted >> 32) as i32 >> 20;
    let m = f64::from_bits(bits.wrapping_sub((e as u64) << 52));
    let t = (m - 1.0) / (m + 1.0);
    let y = t * t;
    let mut sum = 0.0;
    // t <= 0.1716, so t^23/23 < 2e-19.
    for k in (0..11).rev() {
        sum = sum * y + 1.0 / f64::from(2 * k + 1);
    }
    f64::from(e) * std::f64::consts::LN_2 + 2.0 * t * sum
}

/// Two independent standard normal numbers (Box & Muller).
#[inline(always)]
pub(crate) fn normal_pair(word: u64) -> (f64, f64) {
    let unit = (f64::from((word >> 32) as u32) + 0.5) * (1.0 / 4_294_967_296.0);
    let radius = (-2.0 * ln(unit)).sqrt();
    let (c, s) = circle(word as u32);
    (radius * c, radius * s)
}

/// Fills a list with standard normal numbers.
pub(super) struct Normal<'a> {
    pub(super) stream: Stream,
    pub(super) out: &'a mut [f64],
}

impl Loop for Normal<'_> {
    /// In passes over blocks, each of which is vector arithmetic.
    #[inline(always)]
    fn run(self) {
        const BLOCK: usize = 32;
        let mut words = [0u64; BLOCK];
        let [mut first, mut second] = [[0.0; BLOCK]; 2];
        // Lists are even: d is a multiple of 4, and so are the parts of long ones.
        for (block, out) in
            self.out.as_chunks_mut::<2>().0.chunks_mut(BLOCK).enumerate()
        {
            for (i, word) in words.iter_mut().enumerate() {
                *word = self.stream.at(block * BLOCK + i);
            }
            for i in 0..BLOCK {
                (first[i], second[i]) = normal_pair(words[i]);
            }
            for (i, out) in out.iter_mut().enumerate() {
                *out = [first[i], second[i]];
            }
        }
    }
}

/// How a unit quaternion, uniform on its sphere, is split into two complex numbers:
/// their absolute values. With a point on the [`circle`] for each, these are Hopf's
/// coordinates; no draw is rejected, and the loop has no branch. 22 bits.
#[inline(always)]
pub(crate) fn quaternion_radii(word: u64) -> (f64, f64) {
    let share = (f64::from((word >> 42) as i32) + 0.5) * (1.0 / 4_194_304.0);
    ((1.0 - share).sqrt(), share.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sine_cosine_and_logarithm_are_right_to_the_last_digits() {
        let stream = Stream::numbered(1, 2);
        for i in 0..20_000 {
            let word = stream.at(i);
            let turn = word as u32;
            let (c, s) = circle(turn);
            let angle = (f64::from(turn) + 0.5) / f64::from(1 << 30)
                * std::f64::consts::FRAC_PI_2
                - std::f64::consts::FRAC_PI_4;
            assert!((c - angle.cos()).abs() < 2e-15 && (s - angle.sin()).abs() < 2e-15);
            assert!((c * c + s * s - 1.0).abs() < 1e-15);
            let x = ((word >> 32) as f64 + 0.5) / 4_294_967_296.0;
            assert!((ln(x) - x.ln()).abs() <= 1e-15 * x.ln().abs().max(1e-9), "{x}");
            let (a, b) = quaternion_radii(word);
            assert!((a * a + b * b - 1.0).abs() < 1e-15);
        }
    }

    #[test]
    fn normal_numbers_have_the_moments_of_the_normal_law() {
        let stream = Stream::numbered(3, 4);
        let n = 200_000;
        let mut moments = [0.0; 4];
        for i in 0..n {
            let (a, b) = normal_pair(stream.at(i));
            for x in [a, b] {
                for (k, moment) in moments.iter_mut().enumerate() {
                    *moment += x.powi(k as i32 + 1) / (2 * n) as f64;
                }
            }
        }
        for (moment, expected) in moments.iter().zip([0.0, 1.0, 0.0, 3.0]) {
            assert!((moment - expected).abs() < 0.04, "{moments:?}");
        }
    }

    #[test]
    fn permutations_are_permutations_and_differ_by_stream() {
        let drawn = |stream: u64, n| {
            Stream::numbered(7, stream).permutation(n, &Context::default()).unwrap()
        };
        let [a, b] = [0, 1].map(|stream| drawn(stream, 1000));
        let mut sorted = a.clone();
        sorted.sort_unstable();
        assert!(sorted.iter().enumerate().all(|(i, &x)| i as u32 == x));
        assert!(a.iter().zip(&b).filter(|(x, y)| x == y).count() < 10);
        assert_eq!(drawn(0, 1), [0]);
    }

    #[test]
    fn the_generator_is_splitmix64() {
        // The published first outputs for the state 1234567.
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
        ];
        assert_eq!([0, 1, 2].map(|i| Stream(1_234_567).at(i)), expected);
        assert_eq!(fnv(b"foobar"), 0x8594_4171_F739_67E8);
    }
}
