//! The elastic kernel of deep and large trees: bits, interrupts, limits.

use crate::registry::{jobs, stop};
use std::fmt::Write;

use crate::corpus::Random;
use treekernel_rs::dag::{Model, ModelOptions};
use treekernel_rs::kernel::ElasticTree;
use treekernel_rs::{Error, Forest, gram};

const ET: ElasticTree = ElasticTree::new(0.4);

/// A tree of so many inner nodes: a chain with leaves beside it, or a random binary tree.
fn tree(random: &mut Random, inner: usize, labels: &[&str], is_chain: bool) -> String {
    let mut text = String::new();
    let mut todo = vec![Some(inner)];
    while let Some(next) = todo.pop() {
        let label = labels[random.below(labels.len())];
        match next {
            None => text.push(')'),
            Some(0) => write!(text, "({label})").unwrap(),
            Some(inner) => {
                let most = if is_chain { 2.min(inner) } else { inner };
                let left = random.below(most);
                write!(text, "({label}").unwrap();
                todo.extend([None, Some(inner - 1 - left), Some(left)]);
            }
        }
    }
    text
}

fn read(trees: &[String]) -> Forest {
    Forest::from_bracket_items(trees.iter().map(String::as_str)).unwrap()
}

/// Deep trees, which no list holds, beside flat ones, with and without common labels.
fn mixed(n: usize, seed: u64) -> Vec<String> {
    let mut random = Random(seed);
    let alphabets: [&[&str]; 3] = [&["a", "b"], &["b", "c", "d", "e"], &["a"]];
    let mut next = |number: usize| {
        let inner = [3, 12, 40, 300, 500][number % 5];
        tree(&mut random, inner, alphabets[number % 3], number % 5 >= 3)
    };
    (0..n).map(&mut next).collect()
}

#[test]
fn matrices_and_models_of_deep_trees_beside_flat_ones_are_their_pairs() {
    // Small λ: sums over chains of one label stay far from the largest float.
    let kernel = ElasticTree::new(0.01);
    let forest = read(&mixed(30, 1));
    let pairs = gram::SinglePairs::new(&kernel, &forest).unwrap();
    let mut of = pairs.worker();
    let matrix = gram::gram(&kernel, &forest, None, gram::Options::default()).unwrap();
    let mut model = Model::new(&kernel, ModelOptions::default()).unwrap();
    let half = forest.select(0..15);
    model.add(&half, &[1.0; 15]).unwrap();
    let scores = model.score_with(&forest, &jobs(1)).unwrap().0;
    for i in 0..30 {
        let row: Vec<f64> = (0..30).map(|j| of(i, j).unwrap()).collect();
        for (j, &value) in row.iter().enumerate() {
            let gap = (matrix[[i, j]] - value).abs();
            assert!(gap <= 1e-10 * value, "{i} {j}: {gap} of {value}");
        }
        let sum: f64 = row[..15].iter().sum();
        assert!((scores[i] - sum).abs() <= 1e-10 * sum, "{i}");
    }
}

#[test]
fn bits_depend_on_neither_order_nor_ids() {
    let texts = mixed(20, 2);
    let backwards: Vec<String> = texts.iter().rev().cloned().collect();
    let (one, other) = (read(&texts), read(&backwards));
    let [one, other] = [&one, &other].map(|f| gram::SinglePairs::new(&ET, f).unwrap());
    let (mut of, mut of_other) = (one.worker(), other.worker());
    for i in 0..20 {
        for j in 0..20 {
            let values = [of(i, j), of(j, i), of_other(19 - i, 19 - j)];
            let bits = values.map(|value| value.unwrap().to_bits());
            assert!(bits.iter().all(|&b| b == bits[0]), "{i} {j}: {bits:?}");
        }
    }
}

#[test]
#[ignore = "slow: `make test-slow` runs it"]
fn large_pairs_rows_and_scores_ask_whether_to_go_on() {
    let mut random = Random(3);
    let texts: Vec<String> =
        (0..2).map(|_| tree(&mut random, 12_000, &["a", "b"], true)).collect();
    let forest = read(&texts);
    let [a, b] = [0, 1].map(|t| forest.select([t]));
    let mut model = Model::new(&ET, ModelOptions::default()).unwrap();
    model.add(&a, &[1.0]).unwrap();
    let rows = gram::KernelRows::new(&ET, &forest, gram::Options::default()).unwrap();
    let mut out = [0.0; 2];
    let stop = &stop();
    let stopped = [
        gram::pair_with(&ET, &a, &b, false, stop).err(),
        rows.row_with(0, &mut out, stop).err(),
        model.score_with(&b, stop).err(),
    ];
    assert_eq!(stopped, [const { Some(Error::Interrupted) }; 3]);
    // What was stopped leaves nothing behind.
    rows.row(0, &mut out).unwrap_or_default();
    let again = model.score_with(&b, &jobs(1));
    assert_eq!(again, model.score_with(&b, &jobs(1)));
}

#[test]
fn scores_on_two_labels_take_little_memory() {
    // 20,000 x 20,000 nodes: two numbers for each pair of nodes would be 6.4 GB.
    let mut random = Random(4);
    let texts: Vec<String> =
        (0..2).map(|_| tree(&mut random, 10_000, &["a", "b"], false)).collect();
    let kernel = ElasticTree::new(1e-9);
    let forest = read(&texts);
    let [a, b] = [0, 1].map(|t| forest.select([t]));
    let mut model = Model::new(&kernel, ModelOptions::default()).unwrap();
    model.add(&a, &[1.0]).unwrap();
    let score = model.score_with(&b, &jobs(1)).unwrap().0[0];
    let value = gram::pair(&kernel, &a, &b, false).unwrap();
    assert!((score - value).abs() <= 1e-10 * value, "{score} {value}");
}
