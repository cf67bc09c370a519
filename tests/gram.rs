//! Matrices against the definitions, and against themselves in other circumstances.

#[path = "../benches/corpus/mod.rs"]
mod corpus;

use corpus::Random;
use treekernel_rs::gram::{self, Options};
use treekernel_rs::kernel::naive;
use treekernel_rs::{Error, Forest, Kernel};

/// Random trees of every kind that has tripped a kernel up.
fn random_trees(n: usize, seed: u64) -> Vec<String> {
    let mut random = Random(seed);
    let mut trees: Vec<String> = Vec::new();
    for number in 0..n {
        let tree = match number % 8 {
            0 => "(x)".to_owned(),
            // One label everywhere.
            1 => tree(&mut random, &["a"], 3, 3),
            // Mixed leaf and inner children, few labels.
            2 | 3 => tree(&mut random, &["a", "b"], 4, 3),
            4 => tree(&mut random, &["a", "b", "c", "d"], 3, 4),
            // Wide and deep.
            5 => tree(&mut random, &["a", "b"], 2, 7),
            6 => tree(&mut random, &["a", "b"], 9, 1),
            // A tree met before, and one that repeats it.
            _ => {
                let known = &trees[random.below(trees.len())];
                match random.below(3) {
                    0 => known.clone(),
                    1 => format!("(a {known} {known})"),
                    _ => format!("(b {known} a)"),
                }
            }
        };
        // The naive kernels are exponential: small trees only.
        let size = tree.matches(char::is_alphabetic).count();
        trees.push(if size > 24 { "(a (b c) c)".to_owned() } else { tree });
    }
    trees
}

fn tree(random: &mut Random, labels: &[&str], depth: usize, width: usize) -> String {
    let label = labels[random.below(labels.len())];
    if depth == 0 {
        return format!("({label})");
    }
    let children = (0..random.below(width + 1))
        .map(|_| {
            let depth = random.below(depth);
            tree(random, labels, depth, width)
        })
        .collect::<String>();
    format!("({label}{children})")
}

fn kernels() -> Vec<Kernel> {
    let mut kernels = Vec::new();
    for decay in [0.05, 0.4, 1.0] {
        for leaf_weight in [0.0, 0.4, 1.0] {
            kernels.push(Kernel::Subtree { decay, leaf_weight });
            kernels.push(Kernel::SubsetTree { decay, leaf_weight });
        }
        kernels.push(Kernel::ElasticTree { decay });
        for (mu, leaf_factor, max_children) in
            [(0.4, 1.0, None), (1.0, 0.0, None), (0.05, 5.0, None), (0.4, 0.5, Some(2))]
        {
            kernels.push(Kernel::PartialTree { decay, mu, leaf_factor, max_children });
        }
    }
    kernels
}

/// One of each kind; `leaf_weight` of the subset tree kernel.
fn one_of_each(leaf_weight: f64) -> [Kernel; 4] {
    let (decay, mu, leaf_factor) = (0.4, 0.4, 2.0);
    [
        Kernel::Subtree { decay, leaf_weight: 0.3 },
        Kernel::SubsetTree { decay, leaf_weight },
        Kernel::PartialTree { decay, mu, leaf_factor, max_children: None },
        Kernel::ElasticTree { decay },
    ]
}

fn forest(trees: &[String]) -> Forest {
    Forest::from_bracket_items(trees.iter().map(String::as_str)).unwrap()
}

fn options(normalize: bool, n_jobs: usize) -> Options {
    Options { normalize, n_jobs: Some(n_jobs) }
}

fn assert_close(got: f64, expected: f64, what: &dyn Fn() -> String) {
    let close = (got - expected).abs() <= 1e-10 * expected.abs().max(1e-300);
    assert!(close, "{}: {got} for {expected}", what());
}

#[test]
fn matrices_and_pairs_are_those_of_the_definitions() {
    for (number, kernel) in kernels().into_iter().enumerate() {
        // 3 x 64 x 64 / 2 pairs and 3 x 40 x 64 for each: above 10,000 in all per kernel.
        for seed in 0..3 {
            let trees = random_trees(64, 1000 * number as u64 + seed);
            let all = forest(&trees);
            let right = |i: usize, j: usize| {
                naive::kernel(&kernel, all.nodes(), all.roots()[i], all.roots()[j])
            };
            let matrix = gram::gram(&kernel, &all, None, options(false, 1)).unwrap();
            for i in 0..trees.len() {
                for j in 0..=i {
                    let what = || format!("{kernel:?} {} {}", trees[i], trees[j]);
                    assert_close(matrix[[i, j]], right(i, j), &what);
                    assert_eq!(matrix[[i, j]].to_bits(), matrix[[j, i]].to_bits());
                }
            }
            // Rows and columns from forests of their own, which share labels only.
            let (x, y) = (forest(&trees[24..]), forest(&trees[..40]));
            let block = gram::gram(&kernel, &x, Some(&y), options(false, 1)).unwrap();
            for i in 0..x.len() {
                for j in 0..y.len() {
                    let what = || format!("{kernel:?} {} {}", trees[24 + i], trees[j]);
                    assert_close(block[[i, j]], right(24 + i, j), &what);
                }
            }
            let (diagonal, _) =
                gram::diagonal(&kernel, &all, options(false, 1), &mut |_, _| Ok(()))
                    .unwrap();
            for i in 0..trees.len() {
                let what = || format!("{kernel:?} {} itself", trees[i]);
                assert_close(diagonal[i], right(i, i), &what);
                let other = (7 * i) % trees.len();
                let (a, b) = (all.select([i]), all.select([other]));
                let value = gram::pair(&kernel, &a, &b, false).unwrap();
                assert_close(value, right(i, other), &what);
            }
        }
    }
}

#[test]
fn normalised_matrices_have_ones_and_zeros_where_they_should() {
    for kernel in kernels() {
        let trees = random_trees(40, 5);
        let all = forest(&trees);
        let raw = gram::gram(&kernel, &all, None, options(false, 1)).unwrap();
        let mut matrix = vec![0.0; 40 * 40];
        let report = gram::fill(
            &kernel,
            &all,
            None,
            options(true, 1),
            &mut matrix,
            &mut |_, _| Ok(()),
        );
        let zeros: Vec<usize> = (0..40).filter(|&i| raw[[i, i]] == 0.0).collect();
        assert_eq!(report.unwrap().zero_rows, zeros, "{kernel:?}");
        for i in 0..40 {
            let one = if raw[[i, i]] > 0.0 { 1.0 } else { 0.0 };
            assert_eq!(matrix[41 * i], one);
            for j in 0..40 {
                let norm = (raw[[i, i]] * raw[[j, j]]).sqrt();
                let right = if norm > 0.0 { raw[[i, j]] / norm } else { 0.0 };
                assert_close(matrix[40 * i + j], right, &|| format!("{kernel:?}"));
                assert!(matrix[40 * i + j] <= 1.0);
                assert_eq!(matrix[40 * i + j].to_bits(), matrix[40 * j + i].to_bits());
            }
        }
    }
}

#[test]
fn threads_and_blocks_change_no_bit() {
    let mut trees = corpus::generated(700, 3);
    trees.extend_from_within(100..200); // equal trees
    trees.extend(random_trees(60, 9));
    let all = forest(&trees);
    for kernel in one_of_each(0.3) {
        for normalize in [false, true] {
            let one = gram::gram(&kernel, &all, None, options(normalize, 1)).unwrap();
            for jobs in [2, 3, 7] {
                let more = gram::gram(&kernel, &all, None, options(normalize, jobs));
                assert!(one == more.unwrap(), "{kernel:?} {jobs}");
            }
            let mut single = vec![0f32; all.len() * all.len()];
            let told = gram::fill(
                &kernel,
                &all,
                None,
                options(normalize, 2),
                &mut single,
                &mut |_, _| Ok(()),
            );
            told.unwrap();
            assert!(
                one.iter()
                    .zip(&single)
                    .all(|(&a, &b)| (a as f32).to_bits() == b.to_bits())
            );
        }
        // Equal trees have equal rows.
        let matrix = gram::gram(&kernel, &all, None, options(false, 2)).unwrap();
        assert!((0..100).all(|i| matrix.row(100 + i) == matrix.row(700 + i)));
    }
}

#[test]
fn rows_handed_out_one_by_one_are_the_lower_triangle() {
    let mut trees = corpus::generated(150, 8);
    trees.extend_from_within(20..60); // equal trees
    trees.extend(random_trees(30, 4));
    let all = forest(&trees);
    for kernel in one_of_each(0.0) {
        for (normalize, jobs) in [(false, 1), (false, 3), (true, 2)] {
            let matrix =
                gram::gram(&kernel, &all, None, options(normalize, 1)).unwrap();
            let seen = std::sync::Mutex::new(vec![Vec::new(); all.len()]);
            let sink = |i: usize, row: &[f64]| seen.lock().unwrap()[i] = row.to_vec();
            let options = options(normalize, jobs);
            gram::for_each_row(&kernel, &all, options, sink, &mut |_, _| Ok(()))
                .unwrap();
            for (i, row) in seen.into_inner().unwrap().iter().enumerate() {
                assert_eq!(row.len(), i + 1);
                for (j, &value) in row.iter().enumerate() {
                    assert_close(value, matrix[[i, j]], &|| {
                        format!("{kernel:?} {i} {j}")
                    });
                }
            }
        }
    }
}

#[test]
fn overflow_is_an_error_that_names_the_trees_and_normalisation_survives_it() {
    let leaf = "(a b)";
    let huge = (0..12).fold(leaf.to_owned(), |tree, _| format!("(a {tree} {tree})"));
    let other = huge.replacen("(a b)", "(a c)", 1);
    let trees = [leaf.to_owned(), huge, other, "(x)".to_owned()];
    let all = forest(&trees);
    let kernel = Kernel::SubsetTree { decay: 1.0, leaf_weight: 0.0 };
    let error = gram::gram(&kernel, &all, None, options(false, 1)).unwrap_err();
    assert_eq!(error, Error::Overflow { row: 1, column: 1 });
    let error =
        gram::gram(&kernel, &all, Some(&all.select([0, 3, 2])), options(false, 2));
    assert_eq!(error.unwrap_err(), Error::Overflow { row: 1, column: 2 });
    for jobs in [1, 2] {
        let matrix = gram::gram(&kernel, &all, None, options(true, jobs)).unwrap();
        assert!(matrix.iter().all(|v| v.is_finite()));
        assert_eq!((matrix[[1, 1]], matrix[[2, 2]], matrix[[3, 3]]), (1.0, 1.0, 0.0));
        assert!(matrix[[1, 2]] > 0.1 && matrix[[1, 2]] < 1.0, "{}", matrix[[1, 2]]);
        assert_eq!(matrix[[1, 2]], matrix[[2, 1]]);
        let value =
            gram::pair(&kernel, &all.select([1]), &all.select([2]), true).unwrap();
        assert_eq!(value, matrix[[1, 2]]);
    }
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
    let kernel = Kernel::SubsetTree { decay: 1.0, leaf_weight: 0.0 };
    for jobs in [1, 2, 3, 7] {
        let error = gram::gram(&kernel, &all, None, options(false, jobs)).unwrap_err();
        assert_eq!(error, Error::Overflow { row: 127, column: 127 }, "{jobs} threads");
    }
}

#[test]
fn interruption_ends_the_call_with_its_error() {
    let trees = corpus::generated(3000, 2);
    let all = forest(&trees);
    let kernel = Kernel::SubsetTree { decay: 0.4, leaf_weight: 0.0 };
    let mut out = vec![0f32; all.len() * all.len()];
    for jobs in [1, 2] {
        let stop = gram::fill(
            &kernel,
            &all,
            None,
            options(false, jobs),
            &mut out,
            &mut |_, _| Err(Error::Interrupted),
        );
        assert_eq!(stop, Err(Error::Interrupted));
    }
}

#[test]
fn wrong_sizes_and_parameters_are_refused() {
    let all = forest(&random_trees(5, 1));
    let kernel = Kernel::SubsetTree { decay: 0.4, leaf_weight: 0.0 };
    let mut out = vec![0.0f64; 24];
    let error = gram::fill(
        &kernel,
        &all,
        None,
        options(false, 1),
        &mut out,
        &mut |_, _| Ok(()),
    );
    assert!(matches!(error, Err(Error::Length { array: "out", got: 24, .. })));
    let wrong = [
        Kernel::SubsetTree { decay: 0.0, leaf_weight: 0.0 },
        Kernel::SubsetTree { decay: 1.1, leaf_weight: 0.0 },
        Kernel::Subtree { decay: f64::NAN, leaf_weight: 0.0 },
        Kernel::Subtree { decay: 1.0, leaf_weight: -1.0 },
        Kernel::ElasticTree { decay: f64::INFINITY },
        Kernel::PartialTree {
            decay: 1.0,
            mu: 0.0,
            leaf_factor: 1.0,
            max_children: None,
        },
        Kernel::PartialTree {
            decay: 1.0,
            mu: 1.0,
            leaf_factor: f64::NAN,
            max_children: None,
        },
        Kernel::PartialTree {
            decay: 1.0,
            mu: 1.0,
            leaf_factor: 1.0,
            max_children: Some(0),
        },
    ];
    for kernel in wrong {
        let error = gram::gram(&kernel, &all, None, Options::default());
        assert!(matches!(error, Err(Error::Parameter { .. })), "{kernel:?}");
    }
}

/// 100,000 children of one node, all equal or all different, and a long chain: linear.
#[test]
fn wide_and_deep_trees_take_linear_time() {
    let wide = format!("(s {})", "(a b)".repeat(100_000));
    let numbers: Vec<String> = (0..100_000).map(|i| i.to_string()).collect();
    let different = format!("(s (a (b {})))", numbers.join(")) (a (b "));
    let chain = format!("({} (x){}", numbers.join(" ("), ")".repeat(100_000));
    let all = forest(&[wide, different, chain]);
    for kernel in [
        Kernel::SubsetTree { decay: 0.4, leaf_weight: 0.5 },
        Kernel::Subtree { decay: 0.4, leaf_weight: 0.5 },
    ] {
        // Not normalised, the wide ones are 1.4^100,000.
        let start = std::time::Instant::now();
        let matrix = gram::gram(&kernel, &all, None, options(true, 1)).unwrap();
        assert!(matrix.iter().all(|v| v.is_finite()));
        let chain = all.select([2]);
        let chain =
            gram::gram(&kernel, &chain, Some(&all.select([2, 2])), options(false, 1));
        assert!(chain.unwrap().iter().all(|v| v.is_finite()));
        let seconds = start.elapsed().as_secs_f64();
        assert!(seconds < 2.0, "{kernel:?}: {seconds} s");
    }
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn rows_on_demand_are_those_of_the_rectangle_bit_for_bit() {
    let mut trees = corpus::generated(150, 8);
    trees.extend(random_trees(60, 4));
    let different = forest(&trees);
    trees.extend_from_within(20..40); // equal trees
    let repeated = forest(&trees);
    for kernel in one_of_each(0.3) {
        for (all, normalize) in [
            (&different, false),
            (&different, true),
            (&repeated, false),
            (&repeated, true),
        ] {
            let n = all.len();
            let matrix =
                gram::gram(&kernel, all, Some(all), options(normalize, 1)).unwrap();
            let expected = |i: usize| bits(&matrix.row(i).to_vec());
            let rows = gram::Rows::new(&kernel, all, options(normalize, 3)).unwrap();
            assert_eq!((rows.len(), rows.is_empty()), (n, false));
            // In no order, from several threads at once, into dirty rows.
            std::thread::scope(|scope| {
                for seed in 0..3 {
                    let (rows, expected) = (&rows, &expected);
                    scope.spawn(move || {
                        let mut random = Random(seed);
                        let mut row = vec![f64::NAN; n];
                        for _ in 0..n {
                            let i = random.below(n);
                            rows.row(i, &mut row).unwrap();
                            assert_eq!(bits(&row), expected(i), "{kernel:?} {i}");
                        }
                    });
                }
            });
            let which = [n - 1, 0, 7, 7];
            let mut some = vec![f64::NAN; 4 * n];
            rows.fill(&which, &mut some, &mut |_, _| Ok(())).unwrap();
            for (row, &i) in some.chunks(n).zip(&which) {
                assert_eq!(bits(row), expected(i));
            }
            // The symmetric matrix, up to rounding.
            let symmetric =
                gram::gram(&kernel, all, None, options(normalize, 1)).unwrap();
            for (&a, &b) in symmetric.iter().zip(&matrix) {
                assert_close(a, b, &|| format!("{kernel:?}"));
            }
        }
    }
}

#[test]
fn rows_on_demand_name_overflows_and_zeros() {
    let huge = (0..12).fold("(a b)".to_owned(), |tree, _| format!("(a {tree} {tree})"));
    let other = huge.replacen("(a b)", "(a c)", 1);
    let trees = ["(a b)".to_owned(), huge.clone(), other, "(x)".to_owned(), huge];
    let all = forest(&trees);
    let kernel = Kernel::SubsetTree { decay: 1.0, leaf_weight: 0.0 };
    let rows = gram::Rows::new(&kernel, &all, options(false, 1)).unwrap();
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

    let rows = gram::Rows::new(&kernel, &all, options(true, 1)).unwrap();
    assert_eq!(
        (&*rows.report().zero_rows, &*rows.report().zero_columns),
        (&[3][..], &[3][..])
    );
    let matrix = gram::gram(&kernel, &all, Some(&all), options(true, 1)).unwrap();
    for i in 0..5 {
        rows.row(i, &mut row).unwrap();
        assert_eq!(bits(&row), bits(&matrix.row(i).to_vec()));
    }
    assert_eq!((row[1], row[3], row[4]), (1.0, 0.0, 1.0));

    let stop = gram::Rows::watched(&kernel, &all, options(true, 1), &mut |_, _| {
        Err(Error::Interrupted)
    });
    assert_eq!(stop.err(), Some(Error::Interrupted));
    let none = gram::Rows::new(&kernel, &Forest::default(), options(true, 1)).unwrap();
    assert!(none.is_empty() && none.fill(&[], &mut [], &mut |_, _| Ok(())).is_ok());
    let wrong = Kernel::ElasticTree { decay: 0.0 };
    let error = gram::Rows::new(&wrong, &all, Options::default()).err();
    assert!(matches!(error, Some(Error::Parameter { name: "decay", .. })));
}

#[test]
fn equal_trees_have_one_in_normalised_rectangles() {
    for kernel in kernels() {
        let (left, right) = (random_trees(64, 21), random_trees(64, 22));
        let shared = &left[10..50];
        let y = forest(&[&right[..], shared].concat());
        let x = forest(&left);
        let matrix = gram::gram(&kernel, &x, Some(&y), options(true, 2)).unwrap();
        let (_, zeros) =
            gram::diagonal(&kernel, &x, options(true, 1), &mut |_, _| Ok(())).unwrap();
        for i in 10..50 {
            let one = if zeros.zero_rows.contains(&i) { 0.0 } else { 1.0 };
            assert_eq!(matrix[[i, 64 + i - 10]], one, "{kernel:?} {}", left[i]);
        }
    }
}

#[test]
fn pairs_name_overflows_by_the_numbers_they_were_asked_for() {
    let huge = (0..12).fold("(a b)".to_owned(), |tree, _| format!("(a {tree} {tree})"));
    let all = forest(&["(a b)".to_owned(), "(a b)".to_owned(), huge]);
    let kernel = Kernel::SubsetTree { decay: 1.0, leaf_weight: 0.0 };
    let pairs = gram::Pairs::new(&kernel, &all).unwrap();
    assert_eq!((pairs.len(), pairs.is_empty()), (3, false));
    let mut of = pairs.worker();
    assert_eq!((of(0, 1), of(1, 2)), (Ok(1.0), Ok(4096.0)));
    assert_eq!(of(2, 2), Err(Error::Overflow { row: 2, column: 2 }));
    assert_eq!(of(2, 0), Ok(4096.0));
}

/// Sentences over so few words and rules that the same productions, children and whole
/// subtrees come again and again: the longest lists and the most patterns.
fn poor_in_grammar(n: usize, seed: u64) -> Vec<String> {
    let mut random = Random(seed);
    let word = |random: &mut Random, tag: &str| format!("({tag} w{})", random.below(3));
    (0..n)
        .map(|_| {
            let mut phrase = word(&mut random, "N");
            for _ in 0..=random.below(12) {
                let tag = ["D", "N"][random.below(2)];
                let side = word(&mut random, tag);
                phrase = match random.below(4) {
                    0 => format!("(P {phrase})"),
                    1 => format!("(P {phrase} {side})"),
                    _ => format!("(P {side} {phrase})"),
                };
            }
            format!("(R {phrase})")
        })
        .collect()
}

#[test]
fn matrices_of_larger_corpora_agree_with_pairs_and_with_rectangles() {
    let mut mixed = poor_in_grammar(150, 3);
    mixed.extend(corpus::generated(100, 4));
    mixed.extend(random_trees(50, 5));
    for trees in [corpus::generated(400, 1), poor_in_grammar(400, 2), mixed] {
        let all = forest(&trees);
        for kernel in one_of_each(0.3) {
            let matrix = gram::gram(&kernel, &all, None, options(false, 1)).unwrap();
            let pairs = gram::Pairs::new(&kernel, &all).unwrap();
            let mut of = pairs.worker();
            let mut random = Random(6);
            for number in 0..5_000 {
                let (i, j) = (random.below(all.len()), random.below(all.len()));
                let what = || format!("{kernel:?} {} {}", trees[i], trees[j]);
                let value = of(i, j).unwrap();
                assert_close(matrix[[i, j]], value, &what);
                if number % 50 == 0 {
                    let (a, b) = (all.select([i]), all.select([j]));
                    let single = gram::pair(&kernel, &a, &b, false).unwrap();
                    assert_close(single, value, &what);
                }
            }
            // Rows in an order of their own, so that they have another store.
            let reversed: Vec<String> = trees.iter().rev().cloned().collect();
            let (x, last) = (forest(&reversed), all.len() - 1);
            let block = gram::gram(&kernel, &x, Some(&all), options(false, 2)).unwrap();
            for i in 0..all.len() {
                for j in 0..all.len() {
                    let what = || format!("{kernel:?} {} {}", trees[i], trees[j]);
                    assert_close(block[[last - i, j]], matrix[[i, j]], &what);
                }
            }
        }
    }
}

/// Both orders of a rectangle, against single pairs.
fn assert_rectangles_are_right(kernel: &Kernel, left: &[String], right: &[String]) {
    let (x, y) = (forest(left), forest(right));
    let all = x.concat(&y).unwrap();
    let pairs = gram::Pairs::new(kernel, &all).unwrap();
    let mut of = pairs.worker();
    let block = gram::gram(kernel, &x, Some(&y), options(false, 1)).unwrap();
    let other = gram::gram(kernel, &y, Some(&x), options(false, 1)).unwrap();
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
    for kernel in one_of_each(0.3) {
        assert_rectangles_are_right(&kernel, &wide, &small);
    }
    // By hand: λ for (a b), and for x, c as far as they are equal.
    let (n, l) = (MANY as f64, 0.4);
    let sst = Kernel::SubsetTree { decay: l, leaf_weight: 0.0 };
    let block =
        gram::gram(&sst, &forest(&wide), Some(&forest(&small)), options(false, 1))
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
        for kernel in one_of_each(0.3) {
            assert_rectangles_are_right(&kernel, &wide, &small);
        }
        // With each other: (1 + λ)^n stays small.
        let decay = 1e-4;
        let mut kernels = vec![
            Kernel::SubsetTree { decay, leaf_weight: 0.5 },
            Kernel::Subtree { decay, leaf_weight: 0.5 },
        ];
        if sizes[0] == 255 {
            let (mu, leaf_factor) = (0.05, 1.0);
            kernels.push(Kernel::ElasticTree { decay: 0.01 });
            kernels.push(Kernel::PartialTree {
                decay: 0.4,
                mu,
                leaf_factor,
                max_children: None,
            });
        }
        for kernel in kernels {
            assert_rectangles_are_right(&kernel, &wide, &wide);
            let all = forest(&wide);
            let matrix = gram::gram(&kernel, &all, None, options(false, 1)).unwrap();
            let pairs = gram::Pairs::new(&kernel, &all).unwrap();
            let mut of = pairs.worker();
            for i in 0..wide.len() {
                for j in 0..wide.len() {
                    let what = || format!("{kernel:?} {i} {j}");
                    assert_close(matrix[[i, j]], of(i, j).unwrap(), &what);
                }
            }
            if let Kernel::SubsetTree { decay, leaf_weight } = kernel {
                let n = sizes[1] as f64;
                let right =
                    decay * (1.0 + decay).powf(n) + (decay + leaf_weight) * n * n;
                assert_close(matrix[[2, 2]], right, &|| format!("{n} children"));
            }
        }
    }
}
