//! Every kernel through every use: what the definition says is what single pairs, matrices,
//! rows, packed rows, diagonals, models and perceptrons have.

use std::sync::Mutex;

use crate::corpus::{self, Random, read};
use crate::own_kernel::told_apart_by_a_text;
use crate::registry::{
    self, assert_close, composed, has_graphs, jobs, largest, one_of_each, settings,
    without_graphs,
};
use ndarray::Array2;
use treekernel_rs::gram::{self, Element, Options};
use treekernel_rs::kernel::{self, Kernel, Operation};
use treekernel_rs::{Context, Error, Forest, dag};

fn options(normalize: bool) -> Options {
    Options::default().with_normalize(normalize)
}

fn bits<'a>(values: impl IntoIterator<Item = &'a f64>) -> Vec<u64> {
    values.into_iter().map(|value| value.to_bits()).collect()
}

/// All values by the definition.
fn definition(kernel: &dyn Kernel, all: &Forest) -> Array2<f64> {
    let (nodes, roots) = (all.nodes(), all.roots());
    let n = roots.len();
    Array2::from_shape_fn((n, n), |(i, j)| kernel.definition(nodes, roots[i], roots[j]))
}

/// K(a,b) / sqrt(K(a,a) K(b,b)), 0 where either is.
fn normalised(raw: &Array2<f64>) -> Array2<f64> {
    Array2::from_shape_fn(raw.dim(), |(i, j)| {
        let norm = raw[[i, i]].sqrt() * raw[[j, j]].sqrt();
        if norm > 0.0 { raw[[i, j]] / norm } else { 0.0 }
    })
}

fn filled<T: Element>(
    kernel: &dyn Kernel,
    x: &Forest,
    y: Option<&Forest>,
    options: Options,
    context: &Context,
) -> (Vec<T>, gram::Report) {
    let mut out = vec![T::default(); x.len() * y.unwrap_or(x).len()];
    let report = gram::fill_with(kernel, x, y, options, &mut out, context).unwrap();
    (out, report)
}

/// Holds all uses of a kernel over some trees to the values that are right.
fn check_uses(
    kernel: &dyn Kernel,
    trees: &[String],
    right: &Array2<f64>,
    normalize: bool,
) {
    let all = read(trees);
    let (n, options) = (all.len(), options(normalize));
    let what = |i: usize, j: usize| {
        let text =
            format!("{kernel:?} normalize {normalize}: {} {}", trees[i], trees[j]);
        move || text.clone()
    };
    // The matrix, symmetric bit for bit, with ones where they belong.
    let (matrix, report) = filled::<f64>(kernel, &all, None, options, &jobs(1));
    for i in 0..n {
        for j in 0..n {
            let value = matrix[n * i + j];
            assert_close(value, right[[i, j]], &what(i, j));
            assert_eq!(value.to_bits(), matrix[n * j + i].to_bits());
            assert!(!normalize || value <= 1.0);
        }
        assert!(!normalize || [0.0, 1.0].contains(&matrix[(n + 1) * i]));
    }
    let zeros: Vec<usize> =
        (0..n).filter(|&i| normalize && right[[i, i]] == 0.0).collect();
    assert_eq!((&report.zero_rows, &report.zero_columns), (&zeros, &zeros));
    // Its rows, half a row each.
    let seen = Mutex::new(vec![Vec::new(); n]);
    let sink = |i: usize, row: &[f64]| seen.lock().unwrap()[i] = row.to_vec();
    gram::for_each_row(kernel, &all, options, sink).unwrap();
    for (i, row) in seen.into_inner().unwrap().iter().enumerate() {
        assert_eq!(row.len(), i + 1);
        for (j, &value) in row.iter().enumerate() {
            assert_close(value, right[[i, j]], &what(i, j));
        }
    }
    // Its diagonal.
    let (diagonal, report) = gram::diagonal(kernel, &all, options).unwrap();
    assert_eq!(report.zero_rows, zeros);
    for (i, &value) in diagonal.iter().enumerate() {
        assert_close(value, right[[i, i]], &what(i, i));
    }
    // Other columns, from a forest of its own, which shares labels only and some trees.
    let (from, to) = (n / 3, 2 * n / 3);
    let (x, y) = (read(&trees[from..]), read(&trees[..to]));
    let (block, _) = filled::<f64>(kernel, &x, Some(&y), options, &jobs(1));
    for i in from..n {
        for j in 0..to {
            assert_close(block[(i - from) * to + j], right[[i, j]], &what(i, j));
        }
    }
    // Rows on demand, with the bits of the rectangle.
    let (square, _) = filled::<f64>(kernel, &all, Some(&all), options, &jobs(1));
    let rows = gram::KernelRows::new(kernel, &all, options).unwrap();
    assert_eq!((rows.len(), &rows.report().zero_rows), (n, &zeros));
    let mut row = vec![f64::NAN; n];
    for i in Random(n as u64).order(n) {
        rows.row(i, &mut row).unwrap();
        assert_eq!(bits(&row), bits(&square[n * i..][..n]), "{kernel:?} {i}");
    }
    // Single pairs.
    for i in 0..n {
        let j = (7 * i + 3) % n;
        let (a, b) = (all.select([i]), all.select([j]));
        let value = gram::pair(kernel, &a, &b, normalize).unwrap();
        assert_close(value, right[[i, j]], &what(i, j));
    }
}

#[test]
fn every_use_has_the_values_of_the_definition() {
    let kernels = [settings(), told_apart_by_a_text()].concat();
    for (number, kernel) in kernels.into_iter().enumerate() {
        for seed in 0..3 {
            // The naive kernels are exponential: small trees only.
            let random = &mut Random(1000 * number as u64 + seed);
            let trees = corpus::trees(random, 48, 9);
            let all = read(&trees);
            let right = definition(&*kernel, &all);
            check_uses(&*kernel, &trees, &right, false);
            check_uses(&*kernel, &trees, &normalised(&right), true);
            let pairs = gram::SinglePairs::new(&*kernel, &all).unwrap();
            let mut of = pairs.worker();
            for i in 0..all.len() {
                for j in 0..all.len() {
                    let what = || format!("{kernel:?} {} {}", trees[i], trees[j]);
                    assert_close(of(i, j).unwrap(), right[[i, j]], &what);
                }
            }
        }
    }
}

/// Corpora of every kind, with equal trees.
fn corpora() -> [Vec<String>; 3] {
    let mut mixed = corpus::poor_in_grammar(100, 3);
    mixed.extend(corpus::generated(80, 4));
    mixed.extend(corpus::trees(&mut Random(5), 60, 40));
    let mut all = [corpus::generated(280, 1), corpus::poor_in_grammar(280, 2), mixed];
    for trees in &mut all {
        trees.extend_from_within(20..40);
    }
    all
}

#[test]
#[ignore = "slow: `make test-slow` runs it"]
fn every_use_has_the_values_of_single_pairs_on_larger_corpora() {
    for trees in corpora() {
        let all = read(&trees);
        for kernel in one_of_each() {
            let pairs = gram::SinglePairs::new(&*kernel, &all).unwrap();
            let mut of = pairs.worker();
            let n = all.len();
            let right = Array2::from_shape_fn((n, n), |(i, j)| of(i, j).unwrap());
            check_uses(&*kernel, &trees, &right, false);
            check_uses(&*kernel, &trees, &normalised(&right), true);
        }
    }
}

#[test]
#[ignore = "slow: `make test-slow` runs it"]
fn threads_and_blocks_change_no_bit_and_single_floats_are_rounded_doubles() {
    let mut trees = corpus::generated(700, 3);
    trees.extend_from_within(100..200);
    trees.extend(corpus::trees(&mut Random(9), 60, 20));
    let all = read(&trees);
    let columns = all.select(0..300);
    for kernel in one_of_each() {
        for normalize in [false, true] {
            for y in [None, Some(&columns)] {
                let one =
                    filled::<f64>(&*kernel, &all, y, options(normalize), &jobs(1));
                for n_jobs in [2, 3, 7] {
                    let more = filled::<f64>(
                        &*kernel,
                        &all,
                        y,
                        options(normalize),
                        &jobs(n_jobs),
                    );
                    assert!(one == more, "{kernel:?} {n_jobs}");
                }
                let (single, _) =
                    filled::<f32>(&*kernel, &all, y, options(normalize), &jobs(2));
                let same = |(&a, b): (&f64, &f32)| (a as f32).to_bits() == b.to_bits();
                assert!(one.0.iter().zip(&single).all(same), "{kernel:?}");
            }
        }
    }
}

#[test]
fn rows_are_the_same_for_threads_that_ask_at_once() {
    let all = read(&corpora()[2]);
    let n = all.len();
    for kernel in one_of_each() {
        for normalize in [false, true] {
            let (matrix, _) =
                filled::<f64>(&*kernel, &all, Some(&all), options(normalize), &jobs(1));
            let expected = |i: usize| bits(&matrix[n * i..][..n]);
            let rows = gram::KernelRows::new_with(
                &*kernel,
                &all,
                options(normalize),
                &jobs(3),
            )
            .unwrap();
            // In no order, into dirty rows.
            std::thread::scope(|scope| {
                for seed in 0..3 {
                    let (rows, expected) = (&rows, &expected);
                    scope.spawn(move || {
                        let mut row = vec![f64::NAN; n];
                        for i in Random(seed).order(n) {
                            rows.row(i, &mut row).unwrap();
                            assert_eq!(bits(&row), expected(i), "{i}");
                        }
                    });
                }
            });
            let which = [n - 1, 0, 7, 7];
            let mut some = vec![f64::NAN; 4 * n];
            rows.fill(&which, &mut some).unwrap();
            for (row, &i) in some.chunks(n).zip(&which) {
                assert_eq!(bits(row), expected(i));
            }
        }
    }
}

/// A full tree of one label, and one that differs in a leaf.
fn huge_trees() -> Forest {
    let huge = (0..12).fold("(a b)".to_owned(), |tree, _| format!("(a {tree} {tree})"));
    let other = huge.replacen("(a b)", "(a c)", 1);
    read(&["(a b)".to_owned(), huge.clone(), other, "(x)".to_owned(), huge])
}

#[test]
fn values_beyond_floats_are_named_and_their_normalised_ones_are_right() {
    let all = huge_trees();
    let mut n_overflows = 0;
    for kernel in largest() {
        let pairs = gram::SinglePairs::new(&*kernel, &all).unwrap();
        let mut of = pairs.worker();
        let rows = gram::KernelRows::new_with(&*kernel, &all, options(false), &jobs(1))
            .unwrap();
        let matrix = gram::gram_with(&*kernel, &all, None, options(false), &jobs(2));
        let mut row = vec![0.0; 5];
        if of(1, 1).is_ok() {
            let matrix = matrix.unwrap();
            assert_close(matrix[[2, 1]], of(2, 1).unwrap(), &|| format!("{kernel:?}"));
        } else {
            n_overflows += 1;
            let error = |row, column| Error::Overflow { row, column };
            assert_eq!(matrix, Err(error(1, 1)), "{kernel:?}");
            assert_eq!(of(4, 2), Err(error(4, 2)));
            assert_eq!(rows.row(4, &mut row), Err(error(4, 1)));
            let (x, y) = (all.select([0, 1]), all.select([0, 3, 2]));
            let error =
                gram::gram_with(&*kernel, &x, Some(&y), options(false), &jobs(2));
            assert_eq!(error, Err(Error::Overflow { row: 1, column: 2 }));
            // A failed row leaves nothing behind.
            rows.row(0, &mut row).unwrap();
            assert_eq!(row[1].to_bits(), of(0, 1).unwrap().to_bits(), "{kernel:?}");
        }
        for n_jobs in [1, 2] {
            let matrix =
                gram::gram_with(&*kernel, &all, None, options(true), &jobs(n_jobs))
                    .unwrap();
            assert!(matrix.iter().all(|v| v.is_finite()));
            let (a, b) = (all.select([1]), all.select([2]));
            let pair = gram::pair(&*kernel, &a, &b, true).unwrap();
            assert!(pair > 0.1 && pair < 1.0, "{kernel:?} {pair}");
            for place in [[1, 2], [2, 1], [4, 2]] {
                assert_close(matrix[place], pair, &|| format!("{kernel:?}"));
            }
            assert_eq!((matrix[[1, 1]], matrix[[1, 4]]), (1.0, 1.0));
        }
    }
    assert!(n_overflows >= 3, "{n_overflows}");
}

#[test]
fn models_score_as_rows_do() {
    let trees =
        [corpus::generated(60, 1), corpus::trees(&mut Random(2), 60, 30)].concat();
    let all = read(&trees);
    for kernel in [one_of_each(), without_graphs()].concat() {
        let mut model = dag::Model::new(&kernel, dag::ModelOptions::default()).unwrap();
        let mut random = Random(3);
        let alphas: Vec<f64> = trees.iter().map(|_| random.unit() - 0.5).collect();
        model.add(&all, &alphas).unwrap();
        let scores = model.score_with(&all, &jobs(2)).unwrap().0;
        let rows =
            gram::gram_with(&*kernel, &all, None, options(false), &jobs(2)).unwrap();
        for (x, row) in rows.outer_iter().enumerate() {
            let terms = row.iter().zip(&alphas).map(|(k, alpha)| k * alpha);
            let (sum, size) =
                terms.fold((0.0, 0.0), |(sum, size), t| (sum + t, size + t.abs()));
            assert!((scores[x] - sum).abs() <= 1e-10 * size, "{kernel:?} {}", trees[x]);
        }
        assert!(*model.kernel() == *kernel);
    }
}

#[test]
fn models_of_sums_have_a_part_for_each_term_and_score_as_rows_do() {
    let all = read(&corpus::generated(40, 1));
    let mut random = Random(3);
    let alphas: Vec<f64> = (0..all.len()).map(|_| random.unit() - 0.5).collect();
    let join = |a, b| {
        let half = registry::of(Operation::Scaled(0.5), [b]);
        registry::of(Operation::Sum, [registry::of(Operation::Normalized, [half]), a])
    };
    let graphs: Vec<_> =
        kernel::builtin_kernels().into_iter().filter(has_graphs).collect();
    let sums = [graphs.clone(), [graphs, without_graphs()].concat()];
    let sums = sums.map(|terms| (terms.len(), terms.into_iter().reduce(join).unwrap()));
    let single = one_of_each().into_iter().map(|kernel| (0, kernel));
    for (n_terms, kernel) in single.chain(sums) {
        for normalize in [false, true] {
            let own = dag::ModelOptions::default().with_normalize(normalize);
            let mut model = dag::SumModel::new(&kernel, own).unwrap();
            // (Some of the terms are sums themselves, and each kernel is in one of them.)
            assert!(model.parts().len() >= n_terms.max(1), "{kernel:?}");
            let n_graphs = model.parts().iter().filter(|part| part.is_graph()).count();
            assert_eq!(model.is_graph(), n_graphs == model.parts().len());
            assert!(n_graphs >= n_terms.min(5), "{kernel:?}");
            model.add(&all, &alphas).unwrap();
            let scores = model.score_with(&all, &jobs(2)).unwrap().0;
            let rows =
                gram::gram_with(&*kernel, &all, None, options(normalize), &jobs(2))
                    .unwrap();
            for (x, row) in rows.outer_iter().enumerate() {
                let terms = row.iter().zip(&alphas).map(|(k, alpha)| k * alpha);
                let (sum, size) =
                    terms.fold((0.0, 1.0), |(sum, size), t| (sum + t, size + t.abs()));
                assert!((scores[x] - sum).abs() <= 1e-10 * size, "{kernel:?} {x}");
            }
        }
    }
}

#[test]
fn parameters_out_of_range_are_named_by_every_use() {
    let all = read(&["(a b)"]);
    for kernel in [kernel::builtin_kernels(), composed()].concat() {
        for parameter in kernel.parameters() {
            let wrong: Vec<kernel::Value> = match parameter.range {
                kernel::Range::Share => vec![0.0.into(), 1.1.into(), f64::NAN.into()],
                kernel::Range::Limit => vec![Some(0).into()],
                kernel::Range::Degree => vec![Some(0).into(), Some(1001).into()],
                kernel::Range::Positive => vec![0.0.into(), f64::NAN.into()],
                _ => vec![(-1.0).into(), f64::INFINITY.into(), f64::NAN.into()],
            };
            for value in wrong {
                let kernel = kernel.with(parameter.name, value).unwrap();
                let named = |error: Option<Error>| {
                    let is_named = matches!(error, Some(Error::Parameter { name, .. })
                        if name == parameter.name);
                    assert!(is_named, "{kernel:?}: {error:?}");
                };
                let options = options(false);
                named(gram::gram(&*kernel, &all, None, options).err());
                named(gram::KernelRows::new(&*kernel, &all, options).err());
                named(gram::diagonal(&*kernel, &all, options).err());
                named(gram::SinglePairs::new(&*kernel, &all).err());
                named(gram::for_each_row(&*kernel, &all, options, |_, _| {}).err());
                named(dag::SumModel::new(&kernel, dag::ModelOptions::default()).err());
            }
        }
        assert!(kernel.with("no such", 1.0.into()).is_none());
    }
    for kernel in kernel::builtin_kernels() {
        assert!(*kernel::by_name(kernel.name()).unwrap() == *kernel);
    }
    assert!(matches!(
        kernel::by_name("Tree"),
        Err(Error::Parameter { name: "kernel", .. })
    ));
}

#[test]
fn nothing_has_no_kernels() {
    let none = Forest::default();
    for kernel in one_of_each() {
        let matrix =
            gram::gram_with(&*kernel, &none, None, options(true), &jobs(2)).unwrap();
        assert_eq!(matrix.dim(), (0, 0));
        let rows = gram::KernelRows::new_with(&*kernel, &none, options(true), &jobs(1))
            .unwrap();
        assert!(rows.is_empty() && rows.fill(&[], &mut []).is_ok());
    }
}
