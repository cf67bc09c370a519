//! Floats that do not overflow, for the few trees that need them.
//!
//! At decay 1 a kernel counts fragments, and their number is exponential in the tree:
//! some thousand nodes exceed 1.8e308. A normalised value is nevertheless small. So
//! pairs are evaluated over [`Number`]: `f64` as a rule, [`Scaled`] where that overflows,
//! [`Dual`] where derivatives by the kernel's parameters are wanted.

use std::ops::{Add, Mul};

/// What a kernel is computed in: added and multiplied, never subtracted. Negative only where
/// labels have negative similarities.
///
/// Sealed: it is `f64`, [`Scaled`], and one with derivatives. Implement
/// [`Pairs`](super::Pairs) for any of them.
pub trait Number:
    Sealed + Copy + PartialEq + Send + Sync + Add<Output = Self> + Mul<Output = Self>
{
    /// The number of this value.
    fn from_f64(value: f64) -> Self;

    /// The number of a value that depends on the kernel's real parameters: `slopes` has its
    /// derivatives by them, in their order. They are made only where they are wanted.
    #[inline]
    fn depending(value: f64, _slopes: impl FnOnce() -> Slopes) -> Self {
        Self::from_f64(value)
    }

    /// A real parameter itself, of this value, by its place among them.
    #[inline]
    fn parameter(value: f64, place: usize) -> Self {
        Self::depending(value, || {
            let mut slopes = [0.0; MAX_SLOPES];
            slopes[place] = 1.0;
            slopes
        })
    }
    /// The value as a float; infinite where it is too large.
    fn float(self) -> f64;

    /// Whether this one, not negative as the other, is less.
    fn is_below(self, other: Self) -> bool;
}

impl Number for f64 {
    #[inline]
    fn from_f64(value: f64) -> Self {
        value
    }

    #[inline]
    fn float(self) -> f64 {
        self
    }

    #[inline]
    fn is_below(self, other: Self) -> bool {
        self < other
    }
}

/// What keeps [`Number`] to the types of this file.
pub trait Sealed {}

impl Sealed for f64 {}
impl Sealed for Scaled {}
impl<N> Sealed for Dual<N> {}

/// A float with an exponent of 64 bits: `mantissa * 2^exponent`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scaled {
    /// Zero, or of absolute value in [1, 2^256).
    mantissa: f64,
    /// A multiple of 256, so that most additions need no shift.
    exponent: i64,
}

const STEP: i64 = 256;
const UP: f64 = 1.157_920_892_373_162e77; // 2^256
const DOWN: f64 = 1.0 / UP;

impl Scaled {
    /// The number of a float.
    pub fn from_f64(value: f64) -> Self {
        Self::normal(value, 0)
    }

    fn normal(mut mantissa: f64, mut exponent: i64) -> Self {
        if mantissa == 0.0 {
            // Zero has one form, so that equal numbers are equal field by field.
            return Self { mantissa, exponent: 0 };
        }
        while mantissa.abs() >= UP {
            mantissa *= DOWN;
            exponent += STEP;
        }
        while mantissa.abs() < 1.0 {
            mantissa *= UP;
            exponent -= STEP;
        }
        Self { mantissa, exponent }
    }

    /// The value as a float; infinite where it is too large.
    pub fn value(self) -> f64 {
        // Beyond eight steps a float is infinite or 0 in any case.
        let step = self.exponent.clamp(-8 * STEP, 8 * STEP) / STEP;
        let factor = if step < 0 { DOWN } else { UP };
        (0..step.abs()).fold(self.mantissa, |value, _| value * factor)
    }

    /// Whether the value is zero.
    pub(crate) fn is_zero(self) -> bool {
        self.mantissa == 0.0
    }

    /// This number times a power of two.
    #[must_use]
    pub(crate) fn times_two_to(self, bits: i64) -> Self {
        // Whole steps go to the exponent, what is left to the mantissa.
        let rest = bits.rem_euclid(STEP);
        let exponent = self.exponent.saturating_add(bits - rest);
        Self::normal(self.mantissa * 2f64.powi(rest as i32), exponent)
    }

    /// `1 / sqrt(self)` of a number above zero.
    #[must_use]
    pub(crate) fn inverse_root(self) -> Self {
        Self::from_f64(1.0 / self.mantissa.sqrt()).times_two_to(-self.exponent / 2)
    }

    /// The logarithm of its absolute value; that of zero is minus infinity.
    pub(crate) fn log2(self) -> f64 {
        self.mantissa.abs().log2() + self.exponent as f64
    }

    /// `self / sqrt(a * b)`, at most 1: a normalised kernel value; 0 where a or b is.
    pub(crate) fn normalized(self, a: Self, b: Self) -> f64 {
        self.cosine(a, b).min(1.0)
    }

    /// The same without the limit, for values that are no dot products.
    pub(crate) fn cosine(self, a: Self, b: Self) -> f64 {
        if a.is_zero() || b.is_zero() {
            return 0.0;
        }
        // Roots of mantissas are below 2^128, so their product does not overflow.
        let ratio = self.mantissa / (a.mantissa.sqrt() * b.mantissa.sqrt());
        // The exponents of a and b are even, so their roots are powers of two as well.
        let exponent = self.exponent - a.exponent / 2 - b.exponent / 2;
        if exponent % STEP == 0 {
            return Self::normal(ratio, exponent).value();
        }
        // 2^128 into the mantissa, so that the exponent is a multiple of the step.
        let ratio = ratio * (1u128 << 127) as f64 * 2.0;
        Self::normal(ratio, exponent - STEP / 2).value()
    }
}

impl Number for Scaled {
    fn from_f64(value: f64) -> Self {
        Self::from_f64(value)
    }

    fn float(self) -> f64 {
        self.value()
    }

    fn is_below(self, other: Self) -> bool {
        // Zero has no exponent of its own, and equal exponents leave it to the
        // mantissas.
        if self.is_zero() || other.is_zero() || self.exponent == other.exponent {
            return self.mantissa < other.mantissa;
        }
        self.exponent < other.exponent
    }
}

impl Add for Scaled {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        if self.mantissa == 0.0 {
            return other;
        }
        if other.mantissa == 0.0 {
            return self;
        }
        let (large, small) =
            if self.exponent >= other.exponent { (self, other) } else { (other, self) };
        let shifted = match large.exponent - small.exponent {
            0 => small.mantissa,
            STEP => small.mantissa * DOWN,
            _ => return large, // at least 2^256 times smaller: below the last bit
        };
        Self::normal(large.mantissa + shifted, large.exponent)
    }
}

impl Mul for Scaled {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        // Two mantissas are below 2^256 each: a float holds their product.
        Self::normal(self.mantissa * other.mantissa, self.exponent + other.exponent)
    }
}

/// How many real parameters the kernel with most of them has.
pub const MAX_SLOPES: usize = 3;

/// Derivatives by the real parameters of a kernel, in their order; 0 where there are fewer.
pub type Slopes = [f64; MAX_SLOPES];

/// A number with its derivatives: a dual number. Sums and products follow the rules of
/// derivatives, so whatever is computed in these has exact ones, up to rounding.
///
/// As kernels are sums of products that are not negative, and grow with every parameter,
/// derivatives are not negative either: [`Dual<Scaled>`] is what [`Dual<f64>`] is not enough
/// for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Dual<N> {
    /// The number.
    pub(crate) value: N,
    /// Its derivatives by the real parameters.
    pub(crate) slopes: [N; MAX_SLOPES],
}

impl<N: Number> Number for Dual<N> {
    fn float(self) -> f64 {
        self.value.float()
    }

    fn from_f64(value: f64) -> Self {
        Self { value: N::from_f64(value), slopes: [N::from_f64(0.0); MAX_SLOPES] }
    }

    #[inline]
    fn depending(value: f64, slopes: impl FnOnce() -> Slopes) -> Self {
        Self { value: N::from_f64(value), slopes: slopes().map(N::from_f64) }
    }

    fn is_below(self, other: Self) -> bool {
        self.value.is_below(other.value)
    }
}

impl<N: Number> Add for Dual<N> {
    type Output = Self;

    #[inline]
    fn add(mut self, other: Self) -> Self {
        self.value = self.value + other.value;
        for (own, other) in self.slopes.iter_mut().zip(other.slopes) {
            *own = *own + other;
        }
        self
    }
}

impl<N: Number> Mul for Dual<N> {
    type Output = Self;

    #[inline]
    fn mul(mut self, other: Self) -> Self {
        for (own, slope) in self.slopes.iter_mut().zip(other.slopes) {
            *own = *own * other.value + self.value * slope;
        }
        self.value = self.value * other.value;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaled_numbers_agree_with_floats_where_floats_suffice() {
        let values =
            [0.0, 1e-300, 1e-30, 0.4, 1.0, 3.5, 1e10, 1e76, 1e78, 1e150, 1e300];
        for value in values {
            assert_eq!(Number::float(Scaled::from_f64(value)), value);
        }
        for a in values {
            assert_eq!(Scaled::from_f64(a).value(), a);
            for b in values {
                assert_eq!(
                    Scaled::from_f64(a).is_below(Scaled::from_f64(b)),
                    a < b,
                    "{a} < {b}"
                );
                assert_eq!(
                    (Scaled::from_f64(a) + Scaled::from_f64(b)).value(),
                    a + b,
                    "{a} + {b}"
                );
                let product = (Scaled::from_f64(a) * Scaled::from_f64(b)).value();
                let close = (product - a * b).abs() <= 1e-15 * (a * b);
                assert!(close || product == a * b, "{a} * {b}");
            }
        }
    }

    #[test]
    fn normalised_values_survive_overflow() {
        for power in [1, 2, 3, 5, 100, 1001] {
            let huge = (0..power)
                .fold(Scaled::from_f64(3.0), |x, _| x * Scaled::from_f64(1e200));
            assert!((huge.normalized(huge, huge) - 1.0).abs() < 1e-15, "{power}");
            let half = huge * Scaled::from_f64(0.5);
            assert!((half.normalized(huge, huge) - 0.5).abs() < 1e-15);
            let small = Scaled::from_f64(2.0).normalized(huge, Scaled::from_f64(4.0));
            assert!(small < 1e-99, "{small}");
        }
        assert_eq!(
            Scaled::from_f64(6.0)
                .normalized(Scaled::from_f64(4.0), Scaled::from_f64(9.0)),
            1.0
        );
    }

    #[test]
    fn powers_of_two_and_inverse_roots_keep_every_bit() {
        for value in [0.0, 0.3, 1.0, 6.25, 1e-300, 1e300] {
            let scaled = Scaled::from_f64(value);
            for bits in [0, 1, -1, 127, -255, 256, 1000, -5001, 1 << 40] {
                let moved = scaled.times_two_to(bits);
                assert_eq!(moved.times_two_to(-bits), scaled, "{value} {bits}");
                if value > 0.0 {
                    let gap = moved.log2() - scaled.log2() - bits as f64;
                    assert!(gap.abs() <= 1e-15 * bits.abs() as f64 + 1e-12, "{gap}");
                    let one = moved * moved.inverse_root() * moved.inverse_root();
                    assert!((one.value() - 1.0).abs() < 1e-14, "{value} {bits}");
                }
            }
        }
    }

    #[test]
    fn dual_numbers_have_the_derivatives_of_sums_and_products() {
        // x² y + 3 y at x = 2, y = 5: 2xy by x, x² + 3 by y.
        fn polynomial<N: Number>() -> N {
            let (x, y) = (N::parameter(2.0, 0), N::parameter(5.0, 1));
            x * x * y + N::from_f64(3.0) * y
        }
        let expected = Dual { value: 35.0, slopes: [20.0, 7.0, 0.0] };
        assert_eq!(polynomial::<Dual<f64>>(), expected);
        assert_eq!(
            polynomial::<Dual<Scaled>>().slopes.map(Scaled::value),
            [20.0, 7.0, 0.0]
        );
        assert_eq!(polynomial::<f64>(), 35.0);
        // A power: its own value and derivative.
        let power = Dual::<f64>::depending(8.0, || [12.0, 0.0, 0.0]);
        let x = Dual::parameter(2.0, 0);
        assert_eq!(power, x * x * x);
        assert!(x.is_below(power) && !power.is_below(x));
    }
}
