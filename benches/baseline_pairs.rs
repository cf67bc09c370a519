//! The 1x of every ratio: the published algorithms, nanoseconds per pair of trees.
//!
//! `cargo bench --bench baseline_pairs`: per data set 1,000 random trees (300 for the
//! quadratic algorithms), all pairs i >= j; the minimum of several runs. λ = μ = 0.4.
//! Then the worst cases.

#[path = "baseline/mod.rs"]
mod baseline;
#[path = "corpus/mod.rs"]
mod corpus;
#[path = "worst/mod.rs"]
mod worst;

use baseline::{EtClassic, Fragments, Ftk, PtClassic, PtParams, Qtk};
use std::hint::black_box;
use std::time::Instant;
use treekernel_rs::Forest;
use worst::Leaves;

const SETS: [(&str, &str, usize); 4] = [
    ("QC", "qc/const_train.tsv.gz", 3),
    ("WSJ", "wsj/wsj.txt.gz", 2),
    ("WSJs", "wsj/wsj_clean.txt.gz", 2),
    ("GRCT", "qc/dep_train.tsv.gz", 2),
];
const RUNS: usize = 5;

/// Seconds of the best run, per pair, in nanoseconds.
fn per_pair(n: usize, mut pair: impl FnMut(usize, usize) -> f64) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..RUNS {
        let start = Instant::now();
        let mut sum = 0.0;
        for i in 0..n {
            for j in 0..=i {
                sum += pair(i, j);
            }
        }
        black_box(sum);
        best = best.min(start.elapsed().as_secs_f64());
    }
    best * 1e9 / (n * (n + 1) / 2) as f64
}

/// Different trees of a data set, at random.
fn sample(trees: &[String], n: usize) -> Forest {
    let mut random = corpus::Random(1);
    let mut order: Vec<usize> = (0..trees.len()).collect();
    for at in 0..n.min(order.len()) {
        let other = at + random.below(order.len() - at);
        order.swap(at, other);
    }
    let picked: Vec<String> =
        order.iter().take(n).map(|&index| trees[index].clone()).collect();
    read(&picked)
}

fn read(trees: &[String]) -> Forest {
    Forest::from_bracket_items(trees.iter().map(String::as_str)).expect("legal trees")
}

fn real_corpora() {
    println!("| ns per pair | QTK SST | FTK SST | FTK ST | PT | ET |");
    println!("|---|---|---|---|---|---|");
    for (name, file, column) in SETS {
        let trees = corpus::real(file, column);
        let Some(trees) = trees else { continue };
        let forest = sample(&trees, 1_000);
        let (n, few) = (forest.len(), forest.len().min(300));
        let mut qtk = Qtk::new(&forest, 0.4);
        let mut sst = Ftk::new(&forest, (Fragments::SubsetTrees, 0.4));
        let mut st = Ftk::new(&forest, (Fragments::Subtrees, 0.4));
        let mut pt = PtClassic::new(&forest, PtParams::plain(0.4, 0.4));
        let mut et = EtClassic::new(&forest, 0.4);
        println!(
            "| {name} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} |",
            per_pair(few, |i, j| qtk.pair(i, j)),
            per_pair(n, |i, j| sst.pair(i, j)),
            per_pair(n, |i, j| st.pair(i, j)),
            per_pair(n, |i, j| pt.pair(i, j)),
            per_pair(few, |i, j| et.pair(i, j)),
        );
    }
}

fn worst_cases() {
    println!("\n| worst cases, ns per pair | FTK SST |");
    println!("|---|---|");
    let copies = worst::copies(&corpus::generated(30, 1), 30, 10);
    let cases = [
        ("one production, 31 inner nodes", worst::one_production(1, 50, 31)),
        ("one production, 127 inner nodes", worst::one_production(1, 20, 127)),
        ("chains of 50-400, one leaf", worst::chains(1, 20, 50..=400, Leaves::Same)),
        ("the same, all leaves different", {
            worst::chains(1, 20, 50..=400, Leaves::Different)
        }),
        ("300 preterminals below one node", worst::wide(1, 20, 300)),
        ("copies of 30 trees", copies),
    ];
    for (name, trees) in cases {
        let mut sst = Ftk::new(&read(&trees), (Fragments::SubsetTrees, 0.4));
        println!("| {name} | {:.0} |", per_pair(trees.len(), |i, j| sst.pair(i, j)));
    }
    println!("\n| worst cases, ns per pair | PT |");
    println!("|---|---|");
    let cases = [
        ("25-50 children, one label", worst::bushes(1, 30, 25..=50, 1)),
        ("25-50 children, 20 labels", worst::bushes(1, 30, 25..=50, 20)),
        ("100-200 children, one label", worst::bushes(1, 10, 100..=200, 1)),
    ];
    for (name, trees) in cases {
        let mut pt = PtClassic::new(&read(&trees), PtParams::plain(0.4, 0.4));
        println!("| {name} | {:.0} |", per_pair(trees.len(), |i, j| pt.pair(i, j)));
    }
}

fn main() {
    real_corpora();
    worst_cases();
}
