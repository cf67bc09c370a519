//! Compositions: how two vectors become one.
//!
//! All of them are bilinear, and shuffle their operands by two independent permutations
//! p1 and p2, so that a ◇ b is neither b ◇ a nor, nested, associative:
//!
//! | composition | a ◇ b | norm |
//! |---|---|---|
//! | [`quaternion`] | p1(a) · p2(b), d/4 quaternions | kept exactly |
//! | [`sign`] | p1(a) · p2(b), d real numbers, labels ±1 | kept exactly |
//! | [`phasor`] | p1(a) · p2(b), d/2 complex numbers | kept exactly |
//! | [`convolution`] | p1(a) ⊛ p2(b), the paper's, by FFT | about kept |
//! | [`gamma`] | γ p1(a) ⊗ p2(b), the paper's | lost in large trees |
//!
//! The first three permute blocks of four numbers (a quaternion, two phasors, four
//! signs), so that one loop serves them all and a block is one load on every machine.
//! Shuffling all d numbers singly, as `gamma` does, is no better for signs and takes
//! three times as long.
//!
//! Inside the encoder vectors are larger by [`Composer::unit`], so that no composition
//! needs a factor: with U = √d the product of ±1/√d vectors is plain multiplication of
//! ±1, with U = γ the γ-product is ⊗, and with U = 1/d the inverse FFT is not scaled.

mod avx2;
mod block;
pub(super) mod convolution;
pub(super) mod gamma;
pub(super) mod phasor;
pub(super) mod quaternion;
pub(super) mod sign;

use std::sync::Arc;

use super::random::{Normal, PART, Stream};
use super::scale::Scale;
use crate::gram::Element;
use crate::threads::ForkSafeCache;
use crate::vector::vectorized;
use crate::{Context, Result, memory};
pub(super) use convolution::Fft;

/// The ways to compose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Composition {
    /// d/4 unit quaternions, multiplied one by one.
    Quaternion,
    /// ±1/√d, multiplied one by one.
    Sign,
    /// d/2 unit complex numbers, multiplied one by one.
    Phasor,
    /// Shuffled circular convolution, the paper's.
    Convolution,
    /// Shuffled γ-product, the paper's.
    Gamma,
}

/// The numbers that vectors are made of: `f32` and `f64`.
pub trait Real: rustfft::FftNum + Element + PartialOrd + std::ops::AddAssign {
    /// As a double.
    fn get(self) -> f64;
    #[doc(hidden)]
    fn fft(plans: &Plans) -> &ForkSafeCache<Fft<Self>>;
    /// Products of quaternions by vector instructions; how many numbers of `out` are done.
    #[doc(hidden)]
    fn quaternions(
        _permutations: (&[u32], &[u32]),
        _left: &[Self],
        _right: &Form<'_, Self>,
        _out: &mut [Self],
    ) -> usize {
        0
    }
}

/// FFTs for each kind of number, planned when first used.
#[derive(Default)]
pub struct Plans {
    single: ForkSafeCache<Fft<f32>>,
    double: ForkSafeCache<Fft<f64>>,
}

impl Real for f32 {
    #[inline]
    fn get(self) -> f64 {
        f64::from(self)
    }

    fn fft(plans: &Plans) -> &ForkSafeCache<Fft<Self>> {
        &plans.single
    }

    fn quaternions(
        permutations: (&[u32], &[u32]),
        left: &[Self],
        right: &Form<'_, Self>,
        out: &mut [Self],
    ) -> usize {
        avx2::quaternions(permutations, left, right, out)
    }
}

impl Real for f64 {
    #[inline]
    fn get(self) -> f64 {
        self
    }

    fn fft(plans: &Plans) -> &ForkSafeCache<Fft<Self>> {
        &plans.double
    }
}

/// A label's vector and a value, each with its weight, where either may be missing: an
/// operand, or its spectrum.
#[derive(Debug, Clone, Copy)]
pub struct Form<'a, T, E = T> {
    pub(super) label: Option<(&'a [E], T)>,
    pub(super) value: Option<(&'a [E], T)>,
}

impl<'a, T: Real, E> Form<'a, T, E> {
    pub(super) fn of(value: &'a [E]) -> Self {
        Self { label: None, value: Some((value, T::one())) }
    }
}

impl<'a, T: Real> Form<'a, T> {
    /// The vector itself, written into `scratch` unless it stands somewhere.
    pub(super) fn vector<'b>(&self, scratch: &'b mut [T]) -> &'b [T]
    where
        'a: 'b,
    {
        match (self.label, self.value) {
            (Some((x, w)), None) | (None, Some((x, w))) if w == T::one() => return x,
            (Some((x, w)), None) | (None, Some((x, w))) => {
                for (s, &x) in scratch.iter_mut().zip(x) {
                    *s = w * x;
                }
            }
            (Some((x, w)), Some((y, v))) => {
                for ((s, &x), &y) in scratch.iter_mut().zip(x).zip(y) {
                    *s = w * x + v * y;
                }
            }
            (None, None) => scratch.fill(T::zero()),
        }
        scratch
    }
}

/// A composition with its permutations, ready to run.
pub(super) struct Composer {
    pub(super) composition: Composition,
    pub(super) d: usize,
    seed: u64,
    zero_mean: bool,
    is_reproducible: bool,
    /// How much larger vectors are inside than outside.
    pub(super) unit: f64,
    /// p1, of blocks of four or of single numbers.
    first: Vec<u32>,
    /// p2.
    second: Vec<u32>,
    plans: Plans,
}

impl Composer {
    /// For a `d` that is a multiple of 4.
    pub(super) fn new(
        composition: Composition,
        d: usize,
        seed: u64,
        zero_mean: bool,
        is_reproducible: bool,
        context: &Context,
    ) -> Result<Self> {
        // The compositions by blocks shuffle blocks of four; the paper's, single
        // numbers.
        let n = match composition {
            Composition::Convolution | Composition::Gamma => d,
            _ => d / 4,
        };
        let unit = match composition {
            Composition::Quaternion => (d as f64 / 4.0).sqrt(),
            Composition::Phasor => (d as f64 / 2.0).sqrt(),
            Composition::Sign => (d as f64).sqrt(),
            Composition::Convolution => 1.0 / d as f64,
            Composition::Gamma => gamma::factor(d, seed, context)?,
        };
        Ok(Self {
            composition,
            d,
            seed,
            zero_mean: zero_mean && composition == Composition::Convolution,
            is_reproducible,
            unit,
            first: Stream::numbered(seed, 1).permutation(n, context)?,
            second: Stream::numbered(seed, 2).permutation(n, context)?,
            plans: Plans::default(),
        })
    }

    /// How far from 1 (convolutions: from [`natural`](Self::natural)) the numbers of a
    /// label are. Those of a convolution may grow with its length, so it is looked at.
    pub(super) fn label_scale(&self) -> Scale {
        match self.composition {
            Composition::Convolution => Scale::ALWAYS_CHECKED,
            Composition::Gamma => Scale::of_label(3),
            _ => Scale::of_label(1),
        }
    }

    /// The power of two that is the size of a label's numbers.
    pub(super) fn natural(&self) -> i64 {
        match self.composition {
            // A vector of this norm has d numbers of about this size.
            Composition::Convolution => {
                (self.unit.log2() - 0.5 * (self.d as f64).log2()).round() as i64
            }
            _ => 0,
        }
    }

    pub(super) fn fft<T: Real>(&self) -> Result<Arc<Fft<T>>> {
        let plan = T::fft(&self.plans);
        match plan.get() {
            Some(fft) => Ok(fft),
            None => Ok(plan.put(Fft::new(self.d, self.is_reproducible)?)),
        }
    }

    /// A label's vector, times the unit.
    pub(super) fn label<T: Real>(
        &self,
        name: &str,
        out: &mut [T],
        context: &Context,
    ) -> Result<()> {
        let stream = Stream::of_label(self.seed, name.as_bytes());
        let (draw, per_word): (fn(Stream, &mut [T]), usize) = match self.composition {
            Composition::Quaternion => (quaternion::label, 4),
            Composition::Sign => (sign::label, 64),
            Composition::Phasor => (phasor::label, 4),
            Composition::Convolution | Composition::Gamma => {
                return gaussian(stream, self.zero_mean, self.unit, out, context);
            }
        };
        // Words are counted from the start of the vector, so parts do not change a
        // label.
        for (part, out) in out.chunks_mut(PART).enumerate() {
            draw(stream.skip(part * PART / per_word), out);
            context.check_now()?;
        }
        Ok(())
    }

    /// a ◇ b of two vectors as they are inside. Not for convolutions.
    pub(super) fn product<T: Real>(
        &self,
        left: &[T],
        right: &Form<'_, T>,
        out: &mut [T],
    ) {
        self.part(0, left, right, out);
    }

    /// The numbers of a ◇ b from `start` on, a multiple of 4, as many as `out` has.
    fn part<T: Real>(
        &self,
        start: usize,
        left: &[T],
        right: &Form<'_, T>,
        out: &mut [T],
    ) {
        // From numbers to entries of the permutations: blocks, or numbers.
        let start = start / (self.d / self.first.len());
        let permutations = (&self.first[start..], &self.second[start..]);
        match self.composition {
            Composition::Quaternion => {
                // What vector instructions leave over, or all, by the loop that has the
                // same bits.
                let done = T::quaternions(permutations, left, right, out);
                block::product::<quaternion::Quaternions, T>(
                    (&permutations.0[done / 4..], &permutations.1[done / 4..]),
                    left,
                    right,
                    &mut out[done..],
                );
            }
            Composition::Sign => {
                block::product::<sign::Signs, T>(permutations, left, right, out);
            }
            Composition::Phasor => {
                block::product::<phasor::Phasors, T>(permutations, left, right, out);
            }
            Composition::Convolution | Composition::Gamma => {
                gamma::product(permutations, left, right, out);
            }
        }
    }

    /// The spectrum of p1(x) or of p2(x). For convolutions only, by their [`fft`](Self::fft).
    pub(super) fn spectrum<T: Real>(
        &self,
        fft: &Fft<T>,
        side: Side,
        x: &[T],
        out: &mut [rustfft::num_complex::Complex<T>],
        scratch: &mut convolution::Scratch<T>,
    ) {
        let permutation = match side {
            Side::Left => &self.first,
            Side::Right => &self.second,
        };
        fft.forward(permutation, x, out, scratch);
    }

    /// a ◇ b of any two vectors, allocating what it needs.
    pub(super) fn compose<T: Real>(
        &self,
        a: &[T],
        b: &[T],
        out: &mut [T],
        context: &Context,
    ) -> Result<()> {
        if self.composition == Composition::Convolution {
            // An FFT cannot be stopped: asked before and after each.
            let fft = self.fft::<T>()?;
            let mut scratch = fft.scratch()?;
            context.check_now()?;
            let mut spectra = [fft.spectrum()?, fft.spectrum()?];
            self.spectrum(&fft, Side::Left, a, &mut spectra[0], &mut scratch);
            context.check_now()?;
            self.spectrum(&fft, Side::Right, b, &mut spectra[1], &mut scratch);
            context.check_now()?;
            let [left, right] = &spectra;
            fft.product(&Form::of(left), &Form::of(right), out, &mut scratch);
        } else {
            for (part, out) in out.chunks_mut(PART).enumerate() {
                self.part(part * PART, a, &Form::of(b), out);
                context.check_now()?;
            }
        }
        scaled(out, T::of(self.unit), context)
    }

    /// The permutations, of blocks or of single numbers: for slow twins.
    pub(super) fn permutations(&self) -> (&[u32], &[u32]) {
        (&self.first, &self.second)
    }
}

/// Which operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    Right,
}

/// Multiplies a vector that may be long by a number.
pub(super) fn scaled<T: Real>(
    out: &mut [T],
    factor: T,
    context: &Context,
) -> Result<()> {
    for out in out.chunks_mut(PART) {
        for x in out.iter_mut() {
            *x = *x * factor;
        }
        context.check_now()?;
    }
    Ok(())
}

/// A vector of normal numbers, brought to the norm `unit`; to the mean 0 first, if asked.
fn gaussian<T: Real>(
    stream: Stream,
    zero_mean: bool,
    unit: f64,
    out: &mut [T],
    context: &Context,
) -> Result<()> {
    // In doubles, so that vectors of both types agree but for the last rounding.
    let mut values = memory::filled(0.0, out.len())?;
    for (part, values) in values.chunks_mut(PART).enumerate() {
        vectorized(Normal { stream: stream.skip(part * PART / 2), out: values });
        context.check_now()?;
    }
    if zero_mean {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        for x in &mut values {
            *x -= mean;
        }
        context.check_now()?;
    }
    let norm = values.iter().map(|x| x * x).sum::<f64>().sqrt();
    context.check_now()?;
    let factor = if norm > 0.0 { unit / norm } else { 0.0 };
    for (out, value) in out.iter_mut().zip(values) {
        *out = T::of(value * factor);
    }
    Ok(())
}
