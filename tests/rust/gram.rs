//! Matrices in extreme circumstances; what all kernels have in common is in uses.rs.

use crate::corpus;
use crate::corpus::read as forest;
use crate::registry::{assert_close, jobs, stop};
use crate::stopwatch::Stopwatch;
use treekernel_rs::gram::{self, Options};
use treekernel_rs::kernel::{self, ElasticTree, PartialTree, SubsetTree, Subtree};
use treekernel_rs::{Error, Forest, Kernel};

fn options(normalize: bool) -> Options {
    Options::default().with_normalize(normalize)
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// One overflow at the end of a block of rows, one at the start of the next, which a
/// second thread meets at once: the first is named all the same.
#[test]
fn the_overflow_that_is_named_does_not_depend_on_threads() {
    let huge = |leaf: &str| {
        let start = format!("(a {leaf})");
        (0..12).fold(start, |tree, _| format!("(a {tree} {tree})"))
    };
    let mut trees = corpus::generated(400, 6);
    (trees[127], trees[128], trees[300]) = (huge("x"), huge("y"), huge("z"));
    let all = forest(&trees);
    let kernel = SubsetTree::new(1.0);
    for n in [1, 2, 3, 7] {
        let error =
            gram::gram_with(&kernel, &all, None, options(false), &jobs(n)).unwrap_err();
        assert_eq!(error, Error::Overflow { row: 127, column: 127 }, "{n} threads");
    }
}

#[test]
fn interruption_ends_the_call_with_its_error() {
    let trees = corpus::generated(3000, 2);
    let all = forest(&trees);
    let kernel = SubsetTree::new(0.4);
    let mut out = vec![0f32; all.len() * all.len()];
    for n in [1, 2] {
        let context = stop().with_n_jobs(Some(n));
        let stopped =
            gram::fill_with(&kernel, &all, None, options(false), &mut out, &context);
        assert_eq!(stopped, Err(Error::Interrupted));
    }
}

#[test]
fn wrong_sizes_and_parameters_are_refused() {
    let all = forest(&["(a b)"; 5]);
    let kernel = SubsetTree::new(0.4);
    let mut out = vec![0.0f64; 24];
    let error = gram::fill(&kernel, &all, None, options(false), &mut out);
    assert!(matches!(error, Err(Error::Length { array: "out", got: 24, .. })));
}

/// 100,000 children of one node, all equal or all different, and a long chain: linear.
#[test]
fn wide_and_deep_trees_take_linear_time() {
    let wide = format!("(s {})", "(a b)".repeat(100_000));
    let numbers: Vec<String> = (0..100_000).map(|i| i.to_string()).collect();
    let different = format!("(s (a (b {})))", numbers.join(")) (a (b "));
    let chain = format!("({} (x){}", numbers.join(" ("), ")".repeat(100_000));
    let all = forest(&[wide, different, chain]);
    let subset = SubsetTree::new(0.4).with_leaf_weight(0.5);
    let subtree = Subtree::new(0.4).with_leaf_weight(0.5);
    for kernel in [&subset as &dyn Kernel, &subtree] {
        // Not normalised, the wide ones are 1.4^100,000.
        let watch = Stopwatch::start();
        let matrix = gram::gram(kernel, &all, None, options(true)).unwrap();
        assert!(matrix.iter().all(|v| v.is_finite()));
        let chain = all.select([2]);
        let chain =
            gram::gram(kernel, &chain, Some(&all.select([2, 2])), options(false));
        assert!(chain.unwrap().iter().all(|v| v.is_finite()));
        let took = watch.took();
        assert!(took.as_secs() < 2, "{kernel:?}: {took:?}");
    }
}

#[test]
fn rows_on_demand_name_overflows_and_zeros() {
    let huge = (0..12).fold("(a b)".to_owned(), |tree, _| format!("(a {tree} {tree})"));
    let other = huge.replacen("(a b)", "(a c)", 1);
    let trees = ["(a b)".to_owned(), huge.clone(), other, "(x)".to_owned(), huge];
    let all = forest(&trees);
    let kernel = SubsetTree::new(1.0);
    let rows = gram::KernelRows::new(&kernel, &all, options(false)).unwrap();
    assert_eq!(rows.report(), &gram::Report::default());
    let mut row = vec![0.0; 5];
    for (i, column) in [(1, 1), (4, 1), (2, 1)] {
        let error = rows.row(i, &mut row);
        assert_eq!(error, Err(Error::Overflow { row: i, column }));
    }
    // A failed row leaves nothing behind.
    rows.row(0, &mut row).unwrap();
    assert_eq!(row, [1.0, 4096.0, 4095.0, 0.0, 4096.0]);
    assert!(matches!(rows.row(0, &mut row[1..]), Err(Error::Length { got: 4, .. })));

    let rows = gram::KernelRows::new(&kernel, &all, options(true)).unwrap();
    assert_eq!(
        (&*rows.report().zero_rows, &*rows.report().zero_columns),
        (&[3][..], &[3][..])
    );
    let matrix = gram::gram(&kernel, &all, Some(&all), options(true)).unwrap();
    for i in 0..5 {
        rows.row(i, &mut row).unwrap();
        assert_eq!(bits(&row), bits(&matrix.row(i).to_vec()));
    }
    assert_eq!((row[1], row[3], row[4]), (1.0, 0.0, 1.0));

    let stopped = gram::KernelRows::new_with(&kernel, &all, options(true), &stop());
    assert_eq!(stopped.err(), Some(Error::Interrupted));
    let none =
        gram::KernelRows::new(&kernel, &Forest::default(), options(true)).unwrap();
    assert!(none.is_empty() && none.fill(&[], &mut []).is_ok());
    let wrong = ElasticTree::new(0.0);
    let error = gram::KernelRows::new(&wrong, &all, Options::default()).err();
    assert!(matches!(error, Some(Error::Parameter { name: "decay", .. })));
}

#[test]
fn pairs_name_overflows_by_the_numbers_they_were_asked_for() {
    let huge = (0..12).fold("(a b)".to_owned(), |tree, _| format!("(a {tree} {tree})"));
    let all = forest(&["(a b)".to_owned(), "(a b)".to_owned(), huge]);
    let kernel = SubsetTree::new(1.0);
    let pairs = gram::SinglePairs::new(&kernel, &all).unwrap();
    assert_eq!((pairs.len(), pairs.is_empty()), (3, false));
    let mut of = pairs.worker();
    assert_eq!((of(0, 1), of(1, 2)), (Ok(1.0), Ok(4096.0)));
    assert_eq!(of(2, 2), Err(Error::Overflow { row: 2, column: 2 }));
    assert_eq!(of(2, 0), Ok(4096.0));
}

/// Both orders of a rectangle, against single pairs.
fn assert_rectangles_are_right(kernel: &dyn Kernel, left: &[String], right: &[String]) {
    let (x, y) = (forest(left), forest(right));
    let all = x.concat(&y).unwrap();
    let pairs = gram::SinglePairs::new(kernel, &all).unwrap();
    let mut of = pairs.worker();
    let block = gram::gram(kernel, &x, Some(&y), options(false)).unwrap();
    let other = gram::gram(kernel, &y, Some(&x), options(false)).unwrap();
    for i in 0..x.len() {
        for j in 0..y.len() {
            let value = of(i, x.len() + j).unwrap();
            let what = || format!("{kernel:?} {i} {j}");
            assert_close(block[[i, j]], value, &what);
            assert_close(other[[j, i]], value, &what);
        }
    }
}

#[test]
fn counts_beyond_16_bits_are_right_whichever_side_has_them() {
    const MANY: usize = 70_000;
    let wide = [
        format!("(s {})", "(a b)".repeat(MANY)),
        format!("(s {})", "(x (a b) (c d0))".repeat(MANY)),
        format!("(s {})", "b ".repeat(MANY)),
        "(s (a b))".to_owned(),
    ];
    // So many that lists of preterminal children become patterns.
    let mut small: Vec<String> =
        (0..80).map(|i| format!("(r (x (a b) (c d{i})))")).collect();
    small.extend((0..80).map(|i| format!("(t (a b) (a b{i}) b)")));
    // Compositions may need kernels of wide trees with themselves.
    for kernel in kernel::builtin_kernels() {
        assert_rectangles_are_right(&*kernel, &wide, &small);
    }
    // By hand: λ for (a b), and for x, c as far as they are equal.
    let (n, l) = (MANY as f64, 0.4);
    let sst = SubsetTree::new(l);
    let block = gram::gram(&sst, &forest(&wide), Some(&forest(&small)), options(false))
        .unwrap();
    for i in 0..80 {
        let equal = if i == 0 { 1.0 } else { 0.0 };
        let what = || format!("column {i}");
        assert_close(block[[0, i]], n * l, &what);
        let right = n * (l + l * equal + l * (1.0 + l) * (1.0 + l * equal));
        assert_close(block[[1, i]], right, &what);
        let right =
            n * l * (1.0 + if small[80 + i].contains("(a b))") { 1.0 } else { 0.0 });
        assert_close(block[[0, 80 + i]], right, &what);
        assert_eq!(block[[2, i]], 0.0);
    }
}

#[test]
fn nodes_with_as_many_children_as_8_or_16_bits_count_are_right() {
    let bush = |n: usize| format!("(s {})", "(a b)".repeat(n));
    let different = |n: usize| {
        let words: Vec<String> = (0..n).map(|i| i.to_string()).collect();
        format!("(s (a {}))", words.join(") (a "))
    };
    let small = ["(s (a b))", "(a b)", "(s (a b) (a 3))", "(b (s a) (a 65534))"];
    let small = small.map(str::to_owned);
    for sizes in [[255, 256, 257], [65_535, 65_536, 65_537]] {
        let wide: Vec<String> =
            sizes.into_iter().flat_map(|n| [bush(n), different(n)]).collect();
        for kernel in kernel::builtin_kernels() {
            assert_rectangles_are_right(&*kernel, &wide, &small);
        }
        // With each other: (1 + λ)^n stays small.
        let decay = 1e-4;
        let subset = SubsetTree::new(decay).with_leaf_weight(0.5);
        let subtree = Subtree::new(decay).with_leaf_weight(0.5);
        let mut kernels: Vec<Box<dyn Kernel>> =
            vec![Box::new(subset.clone()), Box::new(subtree)];
        if sizes[0] == 255 {
            kernels.push(Box::new(ElasticTree::new(0.01)));
            kernels.push(Box::new(PartialTree::new(0.4, 0.05)));
        }
        for kernel in kernels {
            assert_rectangles_are_right(&*kernel, &wide, &wide);
            let all = forest(&wide);
            let matrix = gram::gram(&*kernel, &all, None, options(false)).unwrap();
            let pairs = gram::SinglePairs::new(&*kernel, &all).unwrap();
            let mut of = pairs.worker();
            for i in 0..wide.len() {
                for j in 0..wide.len() {
                    let what = || format!("{kernel:?} {i} {j}");
                    assert_close(matrix[[i, j]], of(i, j).unwrap(), &what);
                }
            }
            if kernel.name() == "SubsetTree" {
                let n = sizes[1] as f64;
                let right = decay * (1.0 + decay).powf(n) + (decay + 0.5) * n * n;
                assert_close(matrix[[2, 2]], right, &|| format!("{n} children"));
            }
        }
    }
}
