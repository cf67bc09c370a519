//! Loops compiled for wider vectors, where the machine has them.
//!
//! Wheels are built for the oldest x86-64, whose vectors hold two floats. The loops over
//! dense columns of counts are nothing but vector arithmetic: compiled for AVX2 they
//! take half the time (measured on question trees: 0.75 to 0.41 ns per pair of trees,
//! one in twelve of a whole Gram matrix). No other loop of the rows gains more than a
//! tenth; drawing labels of distributed trees takes half. Sums and products are the same
//! to the last bit; nothing is fused.
#![allow(unsafe_code)]

/// A loop to be compiled for wider vectors, its `run` marked `#[inline(always)]`. (A
/// closure would do, were it always inlined: one was not, and ran at half the speed.)
pub(crate) trait Loop {
    /// Runs it.
    fn run(self);
}

/// Runs a loop, compiled for AVX2 if the processor has it.
#[inline]
pub(crate) fn vectorized(work: impl Loop) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2")]
        fn for_avx2(work: impl Loop) {
            work.run();
        }
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has what the function is compiled for.
            return unsafe { for_avx2(work) };
        }
    }
    work.run();
}
