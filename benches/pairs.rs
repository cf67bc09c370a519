//! Single pairs of trees made ready beforehand, one thread, nanoseconds per pair.
//!
//! `cargo bench --bench pairs`: 1,000 random trees of each data set, all pairs i >= j,
//! row by row (the first tree stays, as in a Gram matrix made pair by pair) and in
//! random order (nothing stays); the minimum of several runs. λ = μ = 0.4.

#[path = "corpus/mod.rs"]
mod corpus;

use std::hint::black_box;
use std::time::Instant;
use treekernel_rs::gram::Pairs;
use treekernel_rs::{Forest, Kernel};

const SETS: [(&str, &str, usize); 4] = [
    ("QC", "qc/const_train.tsv.gz", 3),
    ("WSJ", "wsj/wsj.txt.gz", 2),
    ("WSJs", "wsj/wsj_clean.txt.gz", 2),
    ("GRCT", "qc/dep_train.tsv.gz", 2),
];
const RUNS: usize = 7;

fn per_pair(pairs: &Pairs, order: &[(usize, usize)]) -> f64 {
    let mut of = pairs.worker();
    let mut best = f64::INFINITY;
    for _ in 0..RUNS {
        let start = Instant::now();
        let mut sum = 0.0;
        for &(i, j) in order {
            sum += of(i, j).expect("small enough for floats");
        }
        black_box(sum);
        best = best.min(start.elapsed().as_secs_f64());
    }
    best * 1e9 / order.len() as f64
}

/// Different trees of a data set, at random.
fn sample(trees: &[String], n: usize) -> Forest {
    let mut order: Vec<usize> = (0..trees.len()).collect();
    shuffle(&mut order);
    let picked = order.iter().take(n).map(|&index| trees[index].as_str());
    Forest::from_bracket_items(picked).expect("legal trees")
}

fn shuffle<T>(items: &mut [T]) {
    let mut random = corpus::Random(1);
    for at in 0..items.len() {
        let other = at + random.below(items.len() - at);
        items.swap(at, other);
    }
}

fn main() {
    let mu = 0.4;
    let kernels = [
        ("SST", Kernel::SubsetTree { decay: 0.4, leaf_weight: 0.0 }),
        ("ST", Kernel::Subtree { decay: 0.4, leaf_weight: 0.0 }),
        ("ET", Kernel::ElasticTree { decay: 0.4 }),
        ("PT", {
            Kernel::PartialTree { decay: 0.4, mu, leaf_factor: 1.0, max_children: None }
        }),
    ];
    println!("| ns per pair | kernel | row by row | random order |");
    println!("|---|---|---|---|");
    for (name, file, column) in SETS {
        let Some(trees) = corpus::real(file, column) else { continue };
        for (what, kernel) in kernels {
            let forest = sample(&trees, if what == "SST" { 1_000 } else { 300 });
            let pairs = Pairs::new(&kernel, &forest).expect("legal kernel");
            let mut order: Vec<_> =
                (0..pairs.len()).flat_map(|i| (0..=i).map(move |j| (i, j))).collect();
            let in_rows = per_pair(&pairs, &order);
            shuffle(&mut order);
            let anyhow = per_pair(&pairs, &order);
            println!("| {name} | {what} | {in_rows:.0} | {anyhow:.0} |");
        }
    }
}
