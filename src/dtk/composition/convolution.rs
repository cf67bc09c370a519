//! The shuffled circular convolution of the paper: p1(a) ⊛ p2(b), by FFT.
//!
//! (a ⊛ b)_k = Σ_i a_i b_{(k-i) mod d}; its spectrum is the product of the spectra, so a
//! composition is two forward FFTs and an inverse one. Spectra of labels, and of
//! subtrees that several parents share, are kept by the encoder, which leaves two on
//! average.
//!
//! Labels have mean 0 by default. No permutation changes a sum, and Σ(a ⊛ b) = Σa · Σb,
//! so with the paper's labels one coordinate of the spectrum is a plain product of
//! numbers, commutative and associative; once in a few seeds a label sums to more than
//! 1, and chains of it explode (norms to 3e15, cosines of 1). `zero_mean=False` is the
//! paper's.
//!
//! **Which FFT.** Bits must not depend on the processor, so rustfft's scalar code is used.
//! With `reproducible = false` it is its AVX, SSE or NEON code, whatever the processor
//! has. An encoder is then twice as fast (questions, d = 8192 in f32), and last bits
//! differ between machines.
//!
//! **Real numbers.** d real numbers x are d/2 complex ones, z_k = x_2k + i x_2k+1, and need an
//! FFT of half the length. With w = exp(-2πi/d), E_k = (Z_k + conj Z_{d/2-k}) / 2 the spectrum of
//! the even numbers and O_k = (Z_k - conj Z_{d/2-k}) / 2i of the odd ones, X_k = E_k + w^k O_k.

use std::sync::Arc;

use rustfft::num_complex::Complex;
use rustfft::{FftPlanner, FftPlannerScalar};

use super::{Form, Real};

/// FFTs of one length, planned.
pub struct Fft<T> {
    forward: Arc<dyn rustfft::Fft<T>>,
    inverse: Arc<dyn rustfft::Fft<T>>,
    /// w^k for k from 0 to d/4.
    turns: Vec<Complex<T>>,
}

/// What a worker keeps from call to call.
pub(in crate::dtk) struct Scratch<T> {
    /// A real vector as complex numbers of half the length, or their spectrum.
    half: Vec<Complex<T>>,
    product: Vec<Complex<T>>,
    inner: Vec<Complex<T>>,
}

impl<T: Real> Fft<T> {
    /// For vectors of `d` numbers, an even number.
    pub(super) fn new(d: usize, is_reproducible: bool) -> Self {
        let (forward, inverse) = if is_reproducible {
            let mut planner = FftPlannerScalar::new();
            (planner.plan_fft_forward(d / 2), planner.plan_fft_inverse(d / 2))
        } else {
            let mut planner = FftPlanner::new();
            (planner.plan_fft_forward(d / 2), planner.plan_fft_inverse(d / 2))
        };
        let turn = |k: usize| {
            let (sine, cosine) =
                (-std::f64::consts::TAU * k as f64 / d as f64).sin_cos();
            Complex::new(T::of(cosine), T::of(sine))
        };
        Self { forward, inverse, turns: (0..=d / 4).map(turn).collect() }
    }

    fn half(&self) -> usize {
        self.forward.len()
    }

    pub(in crate::dtk) fn scratch(&self) -> Scratch<T> {
        let [there, back] = [&self.forward, &self.inverse];
        let inner = there.get_inplace_scratch_len().max(back.get_inplace_scratch_len());
        Scratch {
            half: vec![Complex::default(); self.half()],
            product: self.spectrum(),
            inner: vec![Complex::default(); inner],
        }
    }

    pub(in crate::dtk) fn spectrum(&self) -> Vec<Complex<T>> {
        vec![Complex::default(); self.half() + 1]
    }

    /// The spectrum of a shuffled vector.
    pub(super) fn forward(
        &self,
        permutation: &[u32],
        x: &[T],
        out: &mut [Complex<T>],
        scratch: &mut Scratch<T>,
    ) {
        let Scratch { half: z, inner, .. } = scratch;
        for (z, &[i, j]) in z.iter_mut().zip(permutation.as_chunks::<2>().0) {
            *z = Complex::new(x[i as usize], x[j as usize]);
        }
        self.forward.process_with_scratch(z, inner);
        let n = self.half();
        out[0] = Complex::new(z[0].re + z[0].im, T::zero());
        out[n] = Complex::new(z[0].re - z[0].im, T::zero());
        let one_half = T::of(0.5);
        for k in 1..=n / 2 {
            let (a, b) = (z[k], z[n - k].conj());
            let even = (a + b) * one_half;
            let odd = (a - b) * one_half;
            // (a - b) / 2i
            let odd = Complex::new(odd.im, -odd.re) * self.turns[k];
            out[k] = even + odd;
            out[n - k] = (even - odd).conj();
        }
    }

    /// The vector of a spectrum, times d.
    fn inverse(
        &self,
        x: &[Complex<T>],
        out: &mut [T],
        z: &mut [Complex<T>],
        inner: &mut [Complex<T>],
    ) {
        let n = self.half();
        // Both ends of a real signal's spectrum are real.
        z[0] = Complex::new(x[0].re + x[n].re, x[0].re - x[n].re);
        for k in 1..=n / 2 {
            let (a, b) = (x[k], x[n - k].conj());
            let even = a + b;
            let odd = (a - b) * self.turns[k].conj();
            z[k] = Complex::new(even.re - odd.im, even.im + odd.re);
            z[n - k] = Complex::new(even.re + odd.im, odd.re - even.im);
        }
        self.inverse.process_with_scratch(z, inner);
        for (out, z) in out.as_chunks_mut::<2>().0.iter_mut().zip(z) {
            *out = [z.re, z.im];
        }
    }

    /// The vector whose spectrum is the product of two, times d.
    pub(in crate::dtk) fn product(
        &self,
        left: &Form<'_, T, Complex<T>>,
        right: &Form<'_, T, Complex<T>>,
        out: &mut [T],
        scratch: &mut Scratch<T>,
    ) {
        let product = &mut scratch.product;
        let one = T::one();
        // One pass where the left operand stands as it is: in all but the paper's fold.
        let left = match (left.label, left.value) {
            (Some((x, w)), None) | (None, Some((x, w))) if w == one => Some(x),
            (Some((x, w)), None) | (None, Some((x, w))) => {
                for (p, &x) in product.iter_mut().zip(x) {
                    *p = x * w;
                }
                None
            }
            (Some((x, w)), Some((y, v))) => {
                for ((p, &x), &y) in product.iter_mut().zip(x).zip(y) {
                    *p = x * w + y * v;
                }
                None
            }
            (None, None) => Some(&[][..]),
        };
        match (right.label, right.value) {
            (Some((x, w)), None) | (None, Some((x, w))) if w == one => {
                times(product, left, x.iter().copied());
            }
            (Some((x, w)), None) | (None, Some((x, w))) => {
                times(product, left, x.iter().map(|&x| x * w));
            }
            (Some((x, w)), Some((y, v))) => {
                times(product, left, x.iter().zip(y).map(|(&x, &y)| x * w + y * v));
            }
            (None, None) => product.fill(Complex::default()),
        }
        let Scratch { half, product, inner } = scratch;
        self.inverse(product, out, half, inner);
    }
}

/// left · right into `product`, which is the left side itself where that is None.
#[inline]
fn times<T: Real>(
    product: &mut [Complex<T>],
    left: Option<&[Complex<T>]>,
    right: impl Iterator<Item = Complex<T>>,
) {
    match left {
        Some(left) => {
            for ((p, &x), y) in product.iter_mut().zip(left).zip(right) {
                *p = x * y;
            }
        }
        None => {
            for (p, y) in product.iter_mut().zip(right) {
                *p = *p * y;
            }
        }
    }
}
