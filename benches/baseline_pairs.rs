//! The 1x of every ratio: the published algorithms, nanoseconds per pair of trees.
//!
//! `cargo bench --bench baseline_pairs`: per data set 1,000 random trees (300 for the
//! quadratic algorithms), all pairs i >= j; the minimum of several runs. λ = μ = 0.4.

#[path = "baseline/mod.rs"]
mod baseline;
#[path = "corpus/mod.rs"]
mod corpus;

use baseline::{EtClassic, Fragments, Ftk, PtClassic, PtParams, Qtk};
use std::hint::black_box;
use std::time::Instant;
use treekernel_rs::Forest;

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
    let picked = order.iter().take(n).map(|&index| trees[index].as_str());
    Forest::from_bracket_items(picked).expect("legal trees")
}

fn main() {
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
