//! Vectors whose numbers stay near 1, with an exponent of two beside them.
//!
//! A node with thousands of children composes thousands of vectors, each some 20 % longer
//! than 1 or shorter: the product leaves the range of a float, up or down, although what
//! it is divided by at the end leaves it as far. So a vector is its numbers times
//! 2^exponent.
//!
//! Looking for the largest number of each product would take a tenth of the time of the
//! product. A [`Scale`] instead counts the bits by which numbers may have moved since
//! somebody looked (the drift), and looks again after some twenty compositions. Only
//! numbers that really are far from 1 are moved, by a power of two: no mantissa changes,
//! and a tree whose numbers stay near 1 never has an exponent other than 0.

use rustfft::num_traits::Signed;

use super::composition::Real;
use crate::kernel::Scaled;
use crate::vector::{Loop, vectorized};

/// Bits that numbers may have moved before they are looked at.
const MAX_DRIFT: i64 = 48;
/// Bits that they may be away from 1 after that.
const MAX_SETTLED_BITS: i64 = 24;
/// Bits that a weight may be away from 1 and still be a number of the smallest type.
const MAX_WEIGHT_BITS: i64 = 32;
/// The exponent of what is zero.
const ZERO_EXPONENT: i64 = -1 << 40;

/// The exponent of a vector, and how far from 1 its largest number may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scale {
    /// Numbers are to be multiplied by two to this power.
    pub(super) exponent: i64,
    /// Bits by which the numbers may be away from 1.
    drift: i64,
}

/// The numbers that two vectors of an operand are multiplied by, and the operand's scale.
pub(super) struct Weighted {
    pub(super) label: f64,
    pub(super) value: f64,
    pub(super) scale: Scale,
}

impl Scale {
    /// Of a vector that was not moved, with a number of at most 2^`drift`.
    pub(super) const fn of_label(drift: i64) -> Self {
        Self { exponent: 0, drift }
    }

    /// Of labels whose products are to be looked at always.
    pub(super) const ALWAYS_CHECKED: Self = Self::of_label(MAX_DRIFT + 1);

    /// Of a sum, which no product is made of.
    pub(super) fn of_sum(exponent: i64) -> Self {
        Self { exponent, drift: 1 }
    }

    /// Of label · its weight + value · its weight, where either may be missing.
    #[inline]
    pub(super) fn operand(
        label: Option<(f64, Self)>,
        value: Option<(f64, Self)>,
    ) -> Weighted {
        let missing = (0.0, Self::of_label(0));
        let (label, value) = (label.unwrap_or(missing), value.unwrap_or(missing));
        // The larger part decides. What the other loses, a sum would lose as well.
        let most = size(label).max(size(value));
        let exponent = exponent_for(most);
        let drift = label.1.drift.max(value.1.drift) + 1;
        Weighted {
            label: times(label.0, label.1.exponent - exponent),
            value: times(value.0, value.1.exponent - exponent),
            scale: Self { exponent, drift: drift + (most - exponent).abs() },
        }
    }

    /// Of a product of two vectors.
    #[inline]
    pub(super) fn product(self, other: Self) -> Self {
        Self {
            // Two vectors of zeros: their exponent goes no lower, so it never wraps.
            exponent: (self.exponent + other.exponent).max(ZERO_EXPONENT),
            drift: self.drift + other.drift,
        }
    }

    /// The larger of two, for vectors that are added.
    #[inline]
    pub(super) fn larger(self, other: Self) -> Self {
        let exponent = self.exponent.max(other.exponent);
        Self { exponent, drift: self.drift.max(other.drift) + 1 }
    }

    /// The number that brings a vector of this scale to another one.
    #[inline]
    pub(super) fn to<T: Real>(self, other: Self) -> T {
        T::of(times(1.0, self.exponent - other.exponent))
    }

    /// Looks at numbers that may have moved far, and brings them near 2^`natural`, which
    /// is the size of labels, if they have.
    #[inline]
    pub(super) fn rescale_if_drifted<T: Real>(
        &mut self,
        natural: i64,
        numbers: &mut [T],
    ) {
        if self.drift > MAX_DRIFT {
            self.measure(natural, numbers);
        }
    }

    #[cold]
    fn measure<T: Real>(&mut self, natural: i64, numbers: &mut [T]) {
        let mut most = T::zero();
        vectorized(Largest { numbers, most: &mut most });
        // No power of two brings zeros near 1.
        if most == T::zero() {
            *self = Self { exponent: ZERO_EXPONENT, drift: 1 };
            return;
        }
        let moved = log2_floor(most.get()) - natural;
        self.drift = moved.abs().max(1);
        if moved.abs() > MAX_SETTLED_BITS {
            // In two steps, each of which is a number of the smallest type.
            let half = moved / 2;
            let factors = [half, moved - half].map(|b| T::of(times(1.0, -b)));
            for x in numbers {
                *x = *x * factors[0] * factors[1];
            }
            *self = Self { exponent: self.exponent + moved, drift: 1 };
        }
    }
}

/// A sum of vectors, with its exponent.
pub(super) struct Sum<T> {
    pub(super) numbers: Vec<T>,
    pub(super) exponent: i64,
}

impl<T: Real> Sum<T> {
    /// The exponent of a first term, and the number it is multiplied by.
    pub(super) fn first(weight: f64, scale: Scale) -> (T, i64) {
        let exponent = exponent_for(size((weight, scale)));
        (T::of(times(weight, scale.exponent - exponent)), exponent)
    }

    /// The number that another term is multiplied by. The sum so far is made smaller if
    /// the term is far larger.
    pub(super) fn admit(&mut self, weight: f64, scale: Scale) -> T {
        let exponent = exponent_for(size((weight, scale)));
        // The sum is far smaller: what it loses here would be lost in the addition.
        if exponent > self.exponent {
            let factor = T::of(times(1.0, self.exponent - exponent));
            for x in &mut self.numbers {
                *x = *x * factor;
            }
            self.exponent = exponent;
        }
        T::of(times(weight, scale.exponent - self.exponent))
    }
}

/// The power of two at or below a weight times a vector.
#[inline]
fn size((weight, scale): (f64, Scale)) -> i64 {
    (log2_floor(weight) + scale.exponent).max(ZERO_EXPONENT)
}

/// The exponent of a vector of some size: none, where its numbers hold it.
#[inline]
fn exponent_for(size: i64) -> i64 {
    if size.abs() <= MAX_WEIGHT_BITS { 0 } else { size }
}

/// The power of two at or below a number, of normal ones exactly.
#[inline]
fn log2_floor(x: f64) -> i64 {
    if x == 0.0 {
        return ZERO_EXPONENT;
    }
    (x.to_bits() >> 52 & 0x7ff) as i64 - 1023
}

/// A number times a power of two.
#[inline]
fn times(x: f64, bits: i64) -> f64 {
    // The usual case, and exactly the number itself.
    if bits == 0 || x == 0.0 {
        x
    } else {
        Scaled::from_f64(x).times_two_to(bits).value()
    }
}

/// The largest absolute value.
struct Largest<'a, T> {
    numbers: &'a [T],
    most: &'a mut T,
}

impl<T: Real> Loop for Largest<'_, T> {
    #[inline(always)]
    #[allow(clippy::inline_always)] // into the function that is compiled for AVX2
    fn run(self) {
        let larger = |a: T, b: T| if a > b { a } else { b };
        let mut lanes = [T::zero(); 16];
        let (chunks, rest) = self.numbers.as_chunks::<16>();
        for chunk in chunks {
            // The largest is the same in any order, so sixteen are kept side by side.
            for (most, x) in lanes.iter_mut().zip(chunk) {
                *most = larger(x.abs(), *most);
            }
        }
        let lanes = lanes.into_iter().chain(rest.iter().map(Signed::abs));
        *self.most = lanes.fold(T::zero(), |most, x| larger(x, most));
    }
}

/// Each number times a weight.
pub(super) fn scale<T: Real>(out: &mut [T], weight: T, x: &[T]) {
    vectorized(Scaling { out, weight, x });
}

/// Adds each number times a weight.
pub(super) fn add<T: Real>(out: &mut [T], weight: T, x: &[T]) {
    vectorized(Adding { out, weight, x });
}

struct Scaling<'a, T> {
    out: &'a mut [T],
    weight: T,
    x: &'a [T],
}

impl<T: Real> Loop for Scaling<'_, T> {
    #[inline(always)]
    #[allow(clippy::inline_always)] // into the function that is compiled for AVX2
    fn run(self) {
        for (out, &x) in self.out.iter_mut().zip(self.x) {
            *out = self.weight * x;
        }
    }
}

struct Adding<'a, T> {
    out: &'a mut [T],
    weight: T,
    x: &'a [T],
}

impl<T: Real> Loop for Adding<'_, T> {
    #[inline(always)]
    #[allow(clippy::inline_always)] // into the function that is compiled for AVX2
    fn run(self) {
        for (out, &x) in self.out.iter_mut().zip(self.x) {
            *out += self.weight * x;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_near_one_are_left_as_they_are() {
        let own = Scale::of_label(1);
        for (label, value) in [(1.0, 0.63), (0.0, 1.0), (1e-9, 1e9)] {
            let operand = Scale::operand(Some((label, own)), Some((value, own)));
            assert_eq!((operand.label, operand.value), (label, value));
            assert_eq!(operand.scale.exponent, 0);
        }
        let operand = Scale::operand(None, Some((0.5, own)));
        assert_eq!((operand.value, operand.scale.exponent), (0.5, 0));
    }

    #[test]
    fn a_term_that_is_far_larger_makes_the_sum_smaller() {
        let large = Scale { exponent: 500, drift: 1 };
        let operand =
            Scale::operand(Some((1.0, Scale::of_label(1))), Some((1.0, large)));
        assert_eq!((operand.value, operand.scale.exponent), (1.0, 500));
        assert!(operand.label < 1e-150);
        let mut sum = Sum { numbers: vec![1.0f32, -3.0], exponent: 0 };
        assert_eq!(sum.admit(0.25, large), 1.0);
        assert_eq!((sum.exponent, &sum.numbers[..]), (498, &[0.0, 0.0][..]));
        assert_eq!(sum.admit(1.0, Scale { exponent: 490, drift: 1 }), 2f32.powi(-8));
        assert_eq!(sum.admit(1.0, Scale { exponent: ZERO_EXPONENT, drift: 1 }), 0.0);
        assert_eq!(sum.exponent, 498);
    }

    #[test]
    fn numbers_are_moved_only_when_they_are_far_from_one() {
        for (size, exponent) in [(1.5f32, 0), (2f32.powi(23), 0), (2f32.powi(60), 60)] {
            for sign in [1, -1] {
                let x = if sign > 0 { size } else { 1.0 / size };
                let mut numbers = vec![0.0, -x, x / 8.0];
                let mut scale = Scale { exponent: 0, drift: MAX_DRIFT + 1 };
                scale.rescale_if_drifted(0, &mut numbers);
                let back = Scaled::from_f64(f64::from(numbers[1]))
                    .times_two_to(scale.exponent);
                assert_eq!(back.value(), f64::from(-x));
                assert_eq!(numbers[2], -numbers[1] / 8.0);
                assert!((scale.exponent - sign * exponent).abs() <= 1, "{scale:?}");
                let again = (scale, numbers.clone());
                scale.rescale_if_drifted(0, &mut numbers);
                assert_eq!((scale, numbers), again);
            }
        }
        let mut scale = Scale { exponent: 3, drift: MAX_DRIFT + 1 };
        scale.rescale_if_drifted(0, &mut [0.0f64; 4]);
        assert_eq!(scale.exponent, ZERO_EXPONENT);
    }
}
