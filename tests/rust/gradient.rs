//! Derivatives against central differences of the definition, and by hand.

use std::sync::Arc;

use crate::corpus::{self, Random, read};
use crate::own_kernel::told_apart_by_a_text;
use crate::registry::{self, jobs, settings, stop};
use treekernel_rs::gram::{self, Options};
use treekernel_rs::kernel::{
    self, Composed, Counts, ElasticTree, Kernel, LabelPairs, Operation, PartialTree,
    SmoothedPartialTree, Subpath, SubsetTree, Subtree, Value, Weighted,
};
use treekernel_rs::{Context, Error, Forest};

fn options(normalize: bool) -> Options {
    Options::default().with_normalize(normalize)
}

fn gradient(
    kernel: &dyn Kernel,
    x: &Forest,
    y: Option<&Forest>,
    options: Options,
    context: &Context,
) -> Vec<f64> {
    let n = x.len() * y.unwrap_or(x).len() * gram::parameter_names(kernel).len();
    let mut out = vec![f64::NAN; n];
    gram::gradient_with(kernel, x, y, options, &mut out, context).unwrap();
    out
}

/// K by the definition, normalised or not.
fn definition(
    kernel: &dyn Kernel,
    all: &Forest,
    (a, b): (usize, usize),
    normalize: bool,
) -> f64 {
    let of = |a: usize, b: usize| {
        kernel.definition(all.nodes(), all.roots()[a], all.roots()[b])
    };
    if !normalize {
        return of(a, b);
    }
    let norm = (of(a, a) * of(b, b)).sqrt();
    if norm > 0.0 { of(a, b) / norm } else { 0.0 }
}

/// Whether a kernel has derivatives where it is: see `PartialTree::sloped`.
fn is_smooth(kernel: &dyn Kernel) -> bool {
    let flat = |p: &kernel::Parameter| {
        p.name == "leaf_factor" && p.value == Value::Number(0.0)
    };
    !kernel.parameters().iter().any(flat)
}

/// Kernels whose labels match by similarity.
fn smoothed() -> Vec<Arc<dyn Kernel>> {
    let pairs = [("l0", "l1", 0.5), ("l1", "l2", 0.5), ("l0", "l2", 0.3)];
    let all = [(0.4, 0.4, 1.0), (1.0, 0.05, 0.4), (0.05, 1.0, 5.0)];
    all.into_iter()
        .flat_map(|(decay, mu, leaf_factor)| {
            let tree = PartialTree::new(decay, mu).with_leaf_factor(leaf_factor);
            let one = Arc::new(SmoothedPartialTree::new(tree, LabelPairs::new(pairs)));
            let gaussian = Operation::Gaussian(0.5);
            let made = Composed::new(gaussian, vec![Arc::clone(&one) as _]).unwrap();
            [one as Arc<dyn Kernel>, Arc::new(made)]
        })
        .collect()
}

/// A real parameter, of a composition or of a part of it.
fn number(kernel: &dyn Kernel, name: &str) -> f64 {
    let own = kernel.parameters().into_iter().find(|own| own.name == name);
    if let Some(Value::Number(at)) = own.map(|own| own.value) {
        return at;
    }
    let parts = kernel.composed().unwrap().parts();
    match name.split_once("__") {
        _ if kernel.name() == "Normalized" => number(&*parts[0], name),
        Some(("right", name)) => number(&*parts[1], name),
        Some(("left" | "base", name)) => number(&*parts[0], name),
        _ => panic!("{name}"),
    }
}

#[test]
fn derivatives_are_central_differences_of_the_definition() {
    let mut n_checked = 0;
    let kernels = [settings(), smoothed(), told_apart_by_a_text()].concat();
    for (seed, kernel) in kernels.into_iter().enumerate() {
        let kernel = &*kernel;
        if !is_smooth(kernel) {
            continue;
        }
        let mut trees = corpus::trees(&mut Random(seed as u64), 8, 11);
        trees.push("(b)".into());
        trees.push(trees[2].clone());
        let all = read(&trees);
        let n = all.len();
        for normalize in [false, true] {
            let found =
                gradient(kernel, &all, None, options(normalize), &Context::default());
            for (p, name) in gram::parameter_names(kernel).into_iter().enumerate() {
                let at = number(kernel, &name);
                let zero = at == 0.0;
                if zero && normalize {
                    // What is normalised may jump where leaves begin to count.
                    continue;
                }
                let step = if zero { 1e-3 } else { 1e-5 * at };
                let [above, below] = [at + step, at - step]
                    .map(|at| kernel.with(&name, Value::Number(at)).unwrap());
                for (i, j) in (0..n * n).map(|at| (at / n, at % n)) {
                    let value =
                        |of: &dyn Kernel| definition(of, &all, (i, j), normalize);
                    let expected = (value(&*above) - value(&*below)) / (2.0 * step);
                    let size = expected.abs() + value(kernel) / at.max(step);
                    let got = found[(p * n + i) * n + j];
                    // At 0 a step is not small beside the parameter: its square counts.
                    let slack = if zero { 2.0 * step * step } else { 0.0 };
                    let close = (got - expected).abs() <= 1e-6 * size + slack;
                    assert!(
                        close,
                        "{kernel:?} {name} {normalize}: {} {}: {got} for {expected}",
                        trees[i], trees[j]
                    );
                    n_checked += 1;
                }
            }
        }
    }
    assert!(n_checked > 8_000, "{n_checked}");
}

#[test]
fn derivatives_by_hand() {
    let slopes = |kernel: &dyn Kernel, a: &str, b: &str| {
        let (a, b) = (read(&[a]), read(&[b]));
        gradient(kernel, &a, Some(&b), options(false), &Context::default())
    };
    let close = |got: Vec<f64>, expected: &[f64]| {
        assert_eq!(got.len(), expected.len());
        for (got, expected) in got.iter().zip(expected) {
            assert!((got - expected).abs() < 1e-12, "{got} for {expected}");
        }
    };
    let (a, b) = ("(S (A a) (B b))", "(S (A a) (B c))");
    // 2 λ + λ³, and two leaves.
    close(slopes(&Subtree::new(0.5), a, a), &[2.75, 2.0]);
    // 2 λ + λ (1 + λ)².
    close(slopes(&SubsetTree::new(0.4), a, a), &[5.08, 2.0]);
    close(slopes(&SubsetTree::new(0.4), a, b), &[2.8, 1.0]);
    // b: μ λ² f; A: μ (λ² + μ λ² f). At λ = 0.5, μ = 0.4, f = 2:
    let partial = PartialTree::new(0.5, 0.4).with_leaf_factor(2.0);
    let (by_decay, by_mu, by_factor) = (
        2.0 * 0.5 * (0.8 + 0.4 + 0.32),
        0.25 * (2.0 + 1.0 + 2.0 * 0.4 * 2.0),
        0.25 * (0.4 + 0.16),
    );
    close(slopes(&partial, "(A b)", "(A b)"), &[by_decay, by_mu, by_factor]);
    // A leaf and an inner node: μ λ² √f.
    let half = 0.4 * 0.25 * 0.5 / 2f64.sqrt();
    close(slopes(&partial, "(x)", "(x y)")[2..].to_vec(), &[half]);
    // λ for b, and A: λ (1 + λ).
    close(slopes(&ElasticTree::new(0.5), "(A b)", "(A (X b))"), &[3.0]);
    // 5 λ + 2 λ² + λ³.
    close(slopes(&Subpath::new(0.5), "(A (A b))", "(A (A b))"), &[5.0 + 2.0 + 0.75]);
    // (2 k + 1)² of k = 2 λ + λ²: by coef0, by the factor, by λ.
    let twice =
        Composed::new(Operation::Scaled(2.0), vec![Arc::new(SubsetTree::new(0.4))]);
    let square = Operation::Polynomial { degree: Some(2), coef0: 1.0 };
    let square = Composed::new(square, vec![Arc::new(twice.unwrap())]).unwrap();
    assert_eq!(
        gram::parameter_names(&square),
        ["coef0", "base__factor", "base__base__decay", "base__base__leaf_weight"]
    );
    let outer = 2.0 * (2.0 * 0.96 + 1.0);
    let by_hand = [outer, outer * 0.96, outer * 2.0 * 2.8, outer * 2.0];
    close(slopes(&square, a, b), &by_hand);
    // Normalised: sqrt of K(a,b)² / (K(a,a) K(b,b)) by its logarithm.
    let kernel = SubsetTree::new(0.4);
    let (x, y) = (read(&[a]), read(&[b]));
    let own = 5.08 / 1.584; // dK/K of both trees
    let expected = 0.96 / 1.584 * (2.8 / 0.96 - own);
    close(
        gradient(&kernel, &x, Some(&y), options(true), &Context::default())[..1]
            .to_vec(),
        &[expected],
    );
    close(gradient(&kernel, &x, None, options(true), &Context::default()), &[0.0, 0.0]);
}

#[test]
fn a_gradient_is_symmetric_and_the_same_for_all_threads_and_stores() {
    let mut random = Random(3);
    let mut trees = corpus::trees(&mut random, 40, 30);
    trees.extend_from_within(5..15);
    let all = read(&trees);
    let n = all.len();
    for kernel in registry::one_of_each().into_iter().filter(|k| is_smooth(&**k)) {
        for normalize in [false, true] {
            let options = options(normalize);
            let found = gradient(&*kernel, &all, None, options, &jobs(1));
            let several = gradient(&*kernel, &all, None, options, &jobs(3));
            assert_eq!(found, several);
            for (p, matrix) in found.chunks(n * n).enumerate() {
                let square =
                    gradient(&*kernel, &all, Some(&all), options, &Context::default());
                for (i, j) in (0..n * n).map(|at| (at / n, at % n)) {
                    assert_eq!(
                        matrix[i * n + j].to_bits(),
                        matrix[j * n + i].to_bits()
                    );
                    let (got, other) = (matrix[i * n + j], square[(p * n + i) * n + j]);
                    assert!((got - other).abs() <= 1e-12 * got.abs().max(1.0));
                }
            }
            // Rows and columns from other stores.
            let (x, y) = (read(&trees[..7]), read(&trees[3..20]));
            let part = gradient(&*kernel, &x, Some(&y), options, &Context::default());
            for (at, got) in part.iter().enumerate() {
                let (p, i, j) = (at / (7 * 17), at / 17 % 7, at % 17 + 3);
                let other = found[(p * n + i) * n + j];
                assert!(
                    (got - other).abs() <= 1e-12 * got.abs().max(1.0),
                    "{got} {other}"
                );
            }
        }
    }
}

#[test]
fn values_beyond_floats_have_normalised_derivatives_or_an_error() {
    let wide = format!("(S {}", "(A a)".repeat(1499));
    let trees = ["(A a))", "(A b))", "(A a))"].map(|last| format!("{wide}{last}"));
    let all = read(&trees);
    let kernel = SubsetTree::new(1.0);
    let error = gram::gradient(&kernel, &all, None, options(false), &mut [0.0; 18]);
    assert_eq!(error, Err(Error::Overflow { row: 0, column: 0 }));
    let found = gradient(&kernel, &all, None, options(true), &Context::default());
    assert!(found.iter().all(|slope| slope.is_finite()), "{found:?}");
    // One of 1500 factors (1 + λ) is missing: k = 1 / (1 + λ), but for the small rest.
    assert!((found[1] + 0.25).abs() < 1e-9, "{}", found[1]);
    assert_eq!(found[2], 0.0);
}

#[test]
fn what_has_no_derivative_is_refused() {
    let x = read(&["(A a)", "(A b)"]);
    let kernel = PartialTree::new(0.4, 0.4).with_leaf_factor(0.0);
    let error = gram::gradient(&kernel, &x, None, options(false), &mut [0.0; 12]);
    assert!(matches!(error, Err(Error::Parameter { name: "leaf_factor", .. })));
    let error =
        gram::gradient(&Subpath::new(0.4), &x, None, options(false), &mut [0.0; 3]);
    assert!(matches!(error, Err(Error::Length { array: "out", .. })));
    let error =
        gram::gradient(&Subpath::new(2.0), &x, None, options(false), &mut [0.0; 4]);
    assert!(matches!(error, Err(Error::Parameter { name: "decay", .. })));
    let stop = &stop();
    let many = corpus::forest(&mut Random(2), 400, 60);
    let mut out = vec![0.0; 400 * 400];
    let error = gram::gradient_with(
        &ElasticTree::new(0.4),
        &many,
        None,
        options(false),
        &mut out,
        stop,
    );
    assert_eq!(error, Err(Error::Interrupted));
    let plain = Arc::new(SubsetTree::default());
    let weighted = Weighted::new(plain, Arc::default(), Counts::Linear).unwrap();
    let parts = vec![Arc::new(Subpath::default()) as _, Arc::new(weighted) as _];
    let sum = Composed::new(Operation::Sum, parts).unwrap();
    let twice = Composed::new(Operation::Scaled(2.0), vec![Arc::new(sum)]).unwrap();
    let names = gram::parameter_names(&twice);
    assert_eq!(names[..2], ["factor", "base__left__decay"]);
    let mut out = vec![0.0; 4 * names.len()];
    let error = gram::gradient(&twice, &x, None, options(false), &mut out);
    let Err(Error::Unsupported { kernel: part, can, .. }) = error else {
        panic!("{error:?}")
    };
    assert_eq!(
        (part, can.len()),
        ("weighted SubsetTree", kernel::builtin_kernels().len())
    );
    // None at all.
    let none = read::<&str>(&[]);
    assert!(
        gradient(
            &kernel.with_leaf_factor(1.0),
            &none,
            None,
            options(true),
            &Context::default()
        )
        .is_empty()
    );
}
