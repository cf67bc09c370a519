//! A perceptron after any stream is the plain one, mistake by mistake and version by
//! version.

#![no_main]

use libfuzzer_sys::fuzz_target;
use source::{LABELS, Source, close};
use treekernel_rs::dag::{Features, ModelOptions, Perceptron, PolynomialKernel, Vote};
use treekernel_rs::gram;

const N_COLUMNS: usize = 3;
const POLYNOMIAL: PolynomialKernel = PolynomialKernel::new(2, 1.0, 0.5);

/// One output as everybody would write it down.
struct Plain {
    /// Support trees with their labels.
    mistakes: Vec<(usize, f64)>,
    /// By version, the empty one first: how many examples it lasted.
    survived: Vec<f64>,
}

/// A sum, and how large its terms were.
type Sized = (f64, f64);

impl Plain {
    fn versions(&self, kernels: &[f64], n: usize, tree: usize) -> Vec<Sized> {
        let (mut sum, mut size) = (0.0f64, 0.0f64);
        let mut versions = vec![(sum, size)];
        for &(support, y) in &self.mistakes {
            let term = y * kernels[support * n + tree];
            sum += term;
            size += term.abs();
            versions.push((sum, size));
        }
        versions
    }

    /// The score of a tree; None where it depends on how sums were rounded.
    fn score(&self, versions: &[Sized], vote: Vote, is_exact: bool) -> Option<Sized> {
        let all = versions.iter().zip(&self.survived);
        match vote {
            Vote::Last => versions.last().copied(),
            Vote::Average => Some(all.fold((0.0, 0.0), |(s, z), (v, times)| {
                (s + v.0 * times, z + v.1 * times)
            })),
            Vote::Vote => {
                let mut votes = 0.0;
                for (&version, times) in all {
                    votes += sign(version, is_exact)? * times;
                }
                Some((votes, 1.0))
            }
        }
    }
}

/// The sign of a sum; None where rounding decides it.
fn sign((sum, size): Sized, is_exact: bool) -> Option<f64> {
    let is_clear = sum.abs() > 1e-9 * size || size == 0.0 || (is_exact && sum == 0.0);
    is_clear.then(|| if sum == 0.0 { 0.0 } else { sum.signum() })
}

fuzz_target!(|bytes: &[u8]| {
    let mut source = Source::new(bytes);
    let kernel = &source.exact_kernel();
    let (run, context) = source.options();
    let vote = source.pick(&[Vote::Last, Vote::Average, Vote::Vote]);
    let width = 1 + source.below(2);
    let is_mixed = source.below(4) == 3;
    let mix = if is_mixed { source.pick(&[0.5, 0.0, 1.0]) } else { 1.0 };
    let vectors = is_mixed.then_some(POLYNOMIAL);
    let pool = source.forest(LABELS, 6, 8);
    let n = pool.len();
    let rows: Vec<f64> =
        (0..n * N_COLUMNS).map(|_| source.pick(&[0.0, 1.0, 0.0, -1.0, 2.0])).collect();

    let mut kernels = gram::gram(&**kernel, &pool, None, run)
        .expect("small values")
        .into_raw_vec_and_offset()
        .0;
    for (at, value) in kernels.iter_mut().enumerate().filter(|_| is_mixed) {
        let [a, b] =
            [at / n, at % n].map(|tree| &rows[tree * N_COLUMNS..][..N_COLUMNS]);
        let dot: f64 = a.iter().zip(b).map(|(a, b)| a * b).sum();
        *value = mix * *value
            + (1.0 - mix) * (POLYNOMIAL.gamma * dot + POLYNOMIAL.coef0).powi(2);
    }
    let options =
        ModelOptions::default().with_normalize(run.normalize).with_n_outputs(width);
    let new = || Perceptron::new(kernel, options, vote, vectors, mix);
    let mut perceptron = new().expect("parameters in range");
    let plain = |_| Plain { mistakes: Vec::new(), survived: vec![0.0] };
    let mut plain: Vec<Plain> = (0..width).map(plain).collect();
    let is_exact = !run.normalize;
    let mut n_examples = 0;

    for _ in 0..40 {
        if source.is_empty() {
            break;
        }
        let op = source.byte();
        if op >= 240 {
            // Through arrays: the same bits, and the stream goes on.
            let stored = perceptron.to_arrays();
            perceptron =
                Perceptron::from_arrays(kernel, options, vote, vectors, mix, &stored)
                    .expect("a perceptron's own arrays");
            assert_eq!(perceptron.to_arrays(), stored);
            continue;
        }
        // A few trees at a time, each with a label for each output.
        let trees: Vec<usize> = (0..=op & 3).map(|_| source.below(n)).collect();
        let (mut labels, mut dense) = (Vec::new(), Vec::new());
        let mut n_mistakes = 0;
        for &tree in &trees {
            dense.extend_from_slice(&rows[tree * N_COLUMNS..][..N_COLUMNS]);
            for plain in &mut plain {
                let y = if source.flag() { 1.0 } else { -1.0 };
                labels.push(y);
                let versions = plain.versions(&kernels, n, tree);
                let Some(sign) = sign(versions[plain.mistakes.len()], is_exact) else {
                    return;
                };
                if y * sign <= 0.0 {
                    n_mistakes += 1;
                    plain.mistakes.push((tree, y));
                    plain.survived.push(0.0);
                }
                plain.survived[plain.mistakes.len()] += 1.0;
            }
            n_examples += 1;
        }
        let features = Features::Dense { n_columns: N_COLUMNS, values: &dense };
        let features = is_mixed.then_some(features);
        let got = perceptron
            .learn(&pool.select(trees.iter().copied()), &labels, features)
            .expect("small trees");
        assert_eq!(got, n_mistakes, "mistakes on {trees:?}");
        assert_eq!(perceptron.n_examples(), n_examples);
    }

    let features = Features::Dense { n_columns: N_COLUMNS, values: &rows };
    let features = is_mixed.then_some(features);
    let got = perceptron.score_with(&pool, features, &context);
    let got = got.expect("small scores").0;
    let model = perceptron.model();
    let scored = model.score_with(&pool, &context).expect("small scores").0;
    for at in 0..n * width {
        let (tree, plain) = (at / width, &plain[at % width]);
        let versions = plain.versions(&kernels, n, tree);
        let Some((right, size)) = plain.score(&versions, vote, is_exact) else {
            return;
        };
        assert!(close(got[at], right, size), "{at}: {}, not {right}", got[at]);
        // The trees' part alone, which votes do not have.
        if !is_mixed && vote != Vote::Vote {
            assert!(
                close(scored[at], right, size),
                "{at}: {}, not {right}",
                scored[at]
            );
        }
    }
});
