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
    for kernel in [
        Kernel::Subtree { decay: 0.4, leaf_weight: 0.3 },
        Kernel::SubsetTree { decay: 0.4, leaf_weight: 0.3 },
        Kernel::PartialTree {
            decay: 0.4,
            mu: 0.4,
            leaf_factor: 2.0,
            max_children: None,
        },
        Kernel::ElasticTree { decay: 0.4 },
    ] {
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
