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
//! has, and last bits differ between machines. The passes before and after it are
//! compiled for AVX2, too: they fuse nothing, so they change no bit.
//!
//! **Real numbers.** d real numbers x are d/2 complex ones, z_k = x_2k + i x_2k+1, and need an
//! FFT of half the length. With w = exp(-2πi/d), E_k = (Z_k + conj Z_{d/2-k}) / 2 the spectrum of
//! the even numbers and O_k = (Z_k - conj Z_{d/2-k}) / 2i of the odd ones, X_k = E_k + w^k O_k.

use std::sync::Arc;

use rustfft::num_complex::Complex;
use rustfft::{FftPlanner, FftPlannerScalar};

use super::{Form, Real};
use crate::vector::{Loop, vectorized};
use crate::{Result, memory};

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
    ///
    /// # Errors
    /// [`crate::Error::Memory`].
    pub(super) fn new(d: usize, is_reproducible: bool) -> Result<Self> {
        // rustfft cannot fail. Tables for both directions take no more, whatever the factors
        // of d are.
        memory::room(d, 16 * size_of::<T>())?;
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
        Ok(Self { forward, inverse, turns: memory::collect((0..=d / 4).map(turn))? })
    }

    fn half(&self) -> usize {
        self.forward.len()
    }

    pub(in crate::dtk) fn scratch(&self) -> Result<Scratch<T>> {
        let [there, back] = [&self.forward, &self.inverse];
        let inner = there.get_inplace_scratch_len().max(back.get_inplace_scratch_len());
        Ok(Scratch {
            half: memory::filled(Complex::default(), self.half())?,
            product: self.spectrum()?,
            inner: memory::filled(Complex::default(), inner)?,
        })
    }

    pub(in crate::dtk) fn spectrum(&self) -> Result<Vec<Complex<T>>> {
        memory::filled(Complex::default(), self.half() + 1)
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
        // Z_0 gives both ends: E_0 + O_0 and E_0 - O_0, which are real.
        out[0] = Complex::new(z[0].re + z[0].im, T::zero());
        out[n] = Complex::new(z[0].re - z[0].im, T::zero());
        vectorized(RealFftPass::<T, false> { x: z, out, turns: &self.turns, n });
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
        vectorized(RealFftPass::<T, true> { x, out: z, turns: &self.turns, n });
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
        let Scratch { half, product, inner } = scratch;
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
        // The right operand is summed up in the same pass, and nothing is written in
        // between.
        match (right.label, right.value) {
            (Some((x, w)), None) | (None, Some((x, w))) if w == one => {
                vectorized(Multiply { product, left, right: x.iter().copied() });
            }
            (Some((x, w)), None) | (None, Some((x, w))) => {
                let right = x.iter().map(|&x| x * w);
                vectorized(Multiply { product, left, right });
            }
            (Some((x, w)), Some((y, v))) => {
                let right = x.iter().zip(y).map(|(&x, &y)| x * w + y * v);
                vectorized(Multiply { product, left, right });
            }
            (None, None) => product.fill(Complex::default()),
        }
        self.inverse(product, out, half, inner);
    }
}

/// left · right into `product`, which is the left side itself where that is None.
struct Multiply<'a, T, R> {
    product: &'a mut [Complex<T>],
    left: Option<&'a [Complex<T>]>,
    right: R,
}

impl<T: Real, R: Iterator<Item = Complex<T>>> Loop for Multiply<'_, T, R> {
    #[inline(always)]
    #[allow(clippy::inline_always)] // into the function that is compiled for AVX2
    fn run(self) {
        match self.left {
            Some(left) => {
                for ((p, &x), y) in self.product.iter_mut().zip(left).zip(self.right) {
                    *p = x * y;
                }
            }
            None => {
                for (p, y) in self.product.iter_mut().zip(self.right) {
                    *p = *p * y;
                }
            }
        }
    }
}

/// The spectrum of d/2 complex numbers to that of d real ones, or back: numbers k and n - k
/// of one, k from 1 to n/2, are made of those of the other.
struct RealFftPass<'a, T, const IS_INVERSE: bool> {
    x: &'a [Complex<T>],
    out: &'a mut [Complex<T>],
    /// w^k.
    turns: &'a [Complex<T>],
    n: usize,
}

/// Numbers of either end that are taken at once.
const LANES: usize = 8;

impl<T: Real, const IS_INVERSE: bool> RealFftPass<'_, T, IS_INVERSE> {
    /// Both numbers, real part and imaginary part of each, from those of the other side and w^k.
    #[inline(always)]
    #[allow(clippy::inline_always)] // into the function that is compiled for AVX2
    fn step(re: [T; 3], im: [T; 3]) -> [T; 4] {
        let (even_re, even_im) = (re[0] + re[1], im[0] - im[1]);
        let (odd_re, odd_im) = (re[0] - re[1], im[0] + im[1]);
        let (w_re, w_im) = (re[2], im[2]);
        if IS_INVERSE {
            let (a, b) = (odd_re * w_re + odd_im * w_im, odd_im * w_re - odd_re * w_im);
            [even_re - b, even_im + a, even_re + b, a - even_im]
        } else {
            let half = T::of(0.5);
            let (even_re, even_im) = (even_re * half, even_im * half);
            let (odd_re, odd_im) = (odd_re * half, odd_im * half);
            let (a, b) = (odd_im * w_re + odd_re * w_im, odd_im * w_im - odd_re * w_re);
            [even_re + a, even_im + b, even_re - a, b - even_im]
        }
    }
}

impl<T: Real, const IS_INVERSE: bool> Loop for RealFftPass<'_, T, IS_INVERSE> {
    #[inline(always)]
    #[allow(clippy::inline_always)]
    fn run(self) {
        let Self { x, out, turns, n } = self;
        let len = (n / 2).saturating_sub(1) / LANES * LANES;
        let (front, back) = out[1..n].split_at_mut(n / 2);
        let first = back.len() - len;
        let front = front.as_chunks_mut::<LANES>().0.iter_mut();
        let back = back[first..].as_chunks_mut::<LANES>().0.iter_mut().rev();
        let a = x[1..].as_chunks::<LANES>().0;
        let b = x[n - len..n].as_chunks::<LANES>().0.iter().rev();
        let w = turns[1..].as_chunks::<LANES>().0;
        // Real and imaginary parts are laid out one after the other, so that all of it
        // becomes vector arithmetic: 1.1 and 0.9 us for d = 8192 in f32, number by number
        // 3.3 and 2.7. (With `Complex` in `step` only half of it does.)
        for ((((front, back), a), b), w) in front.zip(back).zip(a).zip(b).zip(w) {
            let mut re = [[T::default(); LANES]; 3];
            let mut im = re;
            for i in 0..LANES {
                (re[0][i], im[0][i]) = (a[i].re, a[i].im);
            }
            for i in 0..LANES {
                let b = b[LANES - 1 - i];
                (re[1][i], im[1][i]) = (b.re, b.im);
            }
            for i in 0..LANES {
                (re[2][i], im[2][i]) = (w[i].re, w[i].im);
            }
            let mut made = [[T::default(); LANES]; 4];
            for i in 0..LANES {
                let (re, im) =
                    ([re[0][i], re[1][i], re[2][i]], [im[0][i], im[1][i], im[2][i]]);
                for (made, value) in made.iter_mut().zip(Self::step(re, im)) {
                    made[i] = value;
                }
            }
            for i in 0..LANES {
                front[i] = Complex::new(made[0][i], made[1][i]);
            }
            for i in 0..LANES {
                back[LANES - 1 - i] = Complex::new(made[2][i], made[3][i]);
            }
        }
        for k in len + 1..=n / 2 {
            let (a, b, w) = (x[k], x[n - k], turns[k]);
            let made = Self::step([a.re, b.re, w.re], [a.im, b.im, w.im]);
            out[k] = Complex::new(made[0], made[1]);
            out[n - k] = Complex::new(made[2], made[3]);
        }
    }
}
