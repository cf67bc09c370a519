//! Single pairs against the definition, KeLP's scores, and each other.

use super::*;
use crate::corpus::{self, Random};
use crate::kernel::{Pairs, Scaled, naive};
use crate::{Error, Forest};
use std::time::Duration;

/// Parameters that the tests run through.
#[derive(Debug, Clone, Copy)]
struct Parameters {
    decay: f64,
    mu: f64,
    leaf_factor: f64,
    max_children: Option<usize>,
}

fn all_parameters() -> Vec<Parameters> {
    let mut all = Vec::new();
    for decay in [0.05, 0.4, 1.0] {
        for mu in [0.05, 0.4, 1.0] {
            for leaf_factor in [0.0, 0.5, 1.0, 5.0] {
                for max_children in [None, Some(1), Some(2), Some(3)] {
                    all.push(Parameters { decay, mu, leaf_factor, max_children });
                }
            }
        }
    }
    all
}

impl Parameters {
    fn naive(&self, forest: &Forest, a: usize, b: usize) -> f64 {
        let Self { decay, mu, leaf_factor, max_children } = *self;
        let kernel = PartialTree { decay, mu, leaf_factor, max_children };
        let roots = forest.roots();
        naive::kernel(&kernel, forest.nodes(), roots[a], roots[b])
    }

    fn trees(&self, forest: &Forest) -> PreparedTrees {
        let Self { decay, mu, leaf_factor, max_children } = *self;
        let kernel = PartialTree { decay, mu, leaf_factor, max_children };
        let (nodes, roots) = (forest.nodes(), forest.roots());
        PreparedTrees::new(&kernel, mu, nodes, roots, &Context::default()).unwrap()
    }
}

fn random_trees(n: usize, size: usize, seed: u64) -> Vec<String> {
    corpus::trees(&mut Random(seed), n, size)
}

#[track_caller]
fn assert_close(value: f64, expected: f64, what: &dyn Fn() -> String) {
    let close = (value - expected).abs() <= 1e-10 * expected.abs();
    assert!(close, "{value}, not {expected}: {}", what());
}

#[test]
fn single_pairs_agree_with_the_definition() {
    let mut n_pairs = 0;
    for (seed, parameters) in all_parameters().into_iter().enumerate() {
        let texts = random_trees(18, 14, seed as u64);
        let forest =
            Forest::from_bracket_items(texts.iter().map(String::as_str)).unwrap();
        let trees = parameters.trees(&forest);
        let (mut floats, mut scaled) = (Scratch::default(), Scratch::default());
        for a in 0..texts.len() {
            for b in 0..texts.len() {
                let expected = parameters.naive(&forest, a, b);
                let what = || format!("{parameters:?}\n{}\n{}", texts[a], texts[b]);
                assert_close(
                    trees.pair(a, b, &mut floats, &Context::default()).unwrap(),
                    expected,
                    &what,
                );
                let value: Scaled =
                    trees.pair(a, b, &mut scaled, &Context::default()).unwrap();
                assert_close(value.value(), expected, &what);
                n_pairs += 1;
            }
        }
    }
    assert!(n_pairs >= 10_000, "{n_pairs}");
}

#[test]
fn pairs_overflow_to_infinity_and_not_in_scaled_numbers() {
    let wide = format!("(S {})", "a ".repeat(1200));
    let forest = Forest::from_bracket_items([wide.as_str()]).unwrap();
    let all = Parameters { decay: 1.0, mu: 1.0, leaf_factor: 1.0, max_children: None };
    let trees = all.trees(&forest);
    assert_eq!(
        trees.pair(0, 0, &mut Scratch::<f64>::default(), &Context::default()).unwrap(),
        f64::INFINITY
    );
    let value: Scaled =
        trees.pair(0, 0, &mut Scratch::default(), &Context::default()).unwrap();
    assert!((value.normalized(value, value) - 1.0).abs() < 1e-12);
}

#[test]
fn deep_and_very_wide_trees_are_no_problem() {
    let n = 100_000;
    let deep = format!("{}x{}", "(A ".repeat(n), ")".repeat(n));
    let words = |from: usize| {
        let words: Vec<_> = (from..from + 70_000).map(|w| format!("w{w}")).collect();
        format!("(S {})", words.join(" "))
    };
    let texts = [deep, "(A (A x))".into(), words(0), words(30_000)];
    let forest = Forest::from_bracket_items(texts.iter().map(String::as_str)).unwrap();
    let parameters =
        Parameters { decay: 0.4, mu: 0.4, leaf_factor: 1.0, max_children: None };
    let trees = parameters.trees(&forest);
    let mut scratch = Scratch::<f64>::default();
    assert!(trees.pair(0, 1, &mut scratch, &Context::default()).unwrap() > 0.0);
    // 40,000 words in the same order: chains of single steps, T -> d (1 + T).
    let d = 0.4 * 0.16;
    let value = trees.pair(2, 3, &mut scratch, &Context::default()).unwrap();
    let chain = d / (1.0 - d);
    let expected = 40_000.0 * d + d + 0.4 * 40_000.0 * chain;
    // Longer gaps add to it (λ^2 per word left out), the ends take a little away.
    assert!(value > expected && value < 1.1 * expected, "{value} {expected}");
}

/// Parameters, trees, and what KeLP has for each two that follow each other,
/// normalised.
fn kelp() -> Option<(Parameters, Forest, Vec<f64>)> {
    let texts = corpus::real("qc/dep_test.tsv.gz", 2)?;
    let scores = corpus::plain("qc/kelp_ptk_scores.txt")?;
    let forest = Forest::from_bracket_items(texts.iter().map(String::as_str)).unwrap();
    let kelp = Parameters { decay: 0.4, mu: 0.4, leaf_factor: 5.0, max_children: None };
    let scores: Vec<f64> = scores.lines().map(|s| s.parse().unwrap()).collect();
    assert_eq!((forest.len(), scores.len()), (500, 499));
    Some((kelp, forest, scores))
}

#[test]
fn kelp_scores_are_reproduced() {
    let Some((kelp, forest, scores)) = kelp() else { return };
    let trees = kelp.trees(&forest);
    let mut scratch = Scratch::<f64>::default();
    let mut kernel =
        |a, b| trees.pair(a, b, &mut scratch, &Context::default()).unwrap();
    for (i, score) in scores.into_iter().enumerate() {
        let norm: f64 = kernel(i, i) * kernel(i + 1, i + 1);
        let value = kernel(i, i + 1) / norm.sqrt();
        assert!((value - score).abs() < 2e-7, "line {}: {value} {score}", i + 1);
    }
}

/// Places of values are used again where a pair needs many.
#[test]
fn recycled_values_change_no_bit_and_pairs_in_both_orders_are_one() {
    let texts = random_trees(60, 60, 7);
    let forest = Forest::from_bracket_items(texts.iter().map(String::as_str)).unwrap();
    let parameters =
        Parameters { decay: 0.4, mu: 0.4, leaf_factor: 2.0, max_children: None };
    let trees = parameters.trees(&forest);
    let mut usual = Scratch::<f64>::default();
    let mut thrifty = Scratch::<f64>::default();
    thrifty.pair.max_appended = 0;
    let go_on = &Context::default();
    for a in 0..texts.len() {
        for b in 0..texts.len() {
            let value = trees.pair(a, b, &mut usual, go_on).unwrap();
            let other = trees.pair(b, a, &mut thrifty, go_on).unwrap();
            assert_eq!(value.to_bits(), other.to_bits(), "{a} {b}");
        }
    }
    let chain = format!("{}x{}", "(A ".repeat(3000), ")".repeat(3000));
    let forest = Forest::from_bracket_items([chain.as_str()]).unwrap();
    let trees = parameters.trees(&forest);
    assert!(trees.pair(0, 0, &mut thrifty, go_on).unwrap() > 0.0);
    // Of nine million values, those of some nodes at a time.
    assert!(thrifty.pair.values.len() < 5 * 3001, "{}", thrifty.pair.values.len());
}

/// Other trees before them give the nodes other ids, and labels other numbers.
#[test]
fn what_else_is_in_the_store_changes_no_bit() {
    let texts = random_trees(40, 60, 8);
    let before = ["(l9 (l2 l1) l0)", "(l7 (l1 l3 l2) (l0 l1) l5)", "(l3 (l0 l1))"];
    let all = before.into_iter().chain(texts.iter().map(String::as_str));
    let forests = [
        Forest::from_bracket_items(texts.iter().map(String::as_str)).unwrap(),
        Forest::from_bracket_items(all).unwrap().select(3..43),
    ];
    let parameters =
        Parameters { decay: 0.3, mu: 0.4, leaf_factor: 2.0, max_children: None };
    let [own, other] = forests.map(|forest| {
        let trees = parameters.trees(&forest);
        let mut scratch = Scratch::<f64>::default();
        let pairs = (0..1600).map(|at| (at / 40, at % 40));
        pairs
            .map(|(a, b)| trees.pair(a, b, &mut scratch, &Context::default()).unwrap())
            .map(f64::to_bits)
            .collect::<Vec<_>>()
    });
    assert_eq!(own, other);
}

#[test]
#[ignore = "slow: `make test-slow` runs it"]
fn long_pairs_ask_whether_to_go_on_and_leave_their_scratch_good() {
    let bush = |n: usize| format!("(S {})", "a ".repeat(n));
    let chain = |n: usize| format!("{}x{}", "(A ".repeat(n), ")".repeat(n));
    let texts = [bush(3000), bush(2999), chain(2000), chain(1999), bush(5)];
    let forest = Forest::from_bracket_items(texts.iter().map(String::as_str)).unwrap();
    for max_children in [None, Some(30)] {
        let parameters =
            Parameters { decay: 0.4, mu: 0.4, leaf_factor: 1.0, max_children };
        let trees = parameters.trees(&forest);
        let mut scratch = Scratch::<f64>::default();
        for (a, b) in [(0, 1), (2, 3)] {
            let mut n_calls = 0;
            let count = Context::watched(|_, _| {
                n_calls += 1;
                Ok(())
            })
            .with_interval(Duration::ZERO);
            trees.pair(a, b, &mut scratch, &count).unwrap();
            drop(count);
            assert!(n_calls >= 3, "{max_children:?} {a} {b}: {n_calls}");
            let mut left = n_calls / 2;
            let stop = &Context::watched(|_, _| {
                left -= 1;
                if left > 0 { Ok(()) } else { Err(Error::Interrupted) }
            })
            .with_interval(Duration::ZERO);
            let stopped = trees.pair(a, b, &mut scratch, stop);
            assert_eq!(stopped, Err(Error::Interrupted));
            let after = trees.pair(0, 4, &mut scratch, &Context::default()).unwrap();
            let fresh = trees.pair(0, 4, &mut Scratch::default(), &Context::default());
            assert_eq!(Ok(after), fresh);
        }
    }
}

#[test]
fn a_pair_may_need_so_many_values_and_no_more() {
    // Zeros that nobody touches take no memory.
    let mut scratch = Scratch::<f64>::default();
    scratch.pair.values = vec![0.0; trees::MAX_VALUES];
    assert_eq!(scratch.pair.check(), Ok(()));
    scratch.pair.values = vec![0.0; trees::MAX_VALUES + 1];
    assert!(matches!(scratch.pair.check(), Err(Error::Capacity { .. })));
}
