#[path = "corpus/mod.rs"]
mod corpus;
use std::time::Instant;
use treekernel_rs::{Forest, Kernel, gram};

fn main() {
    let sets = [
        ("qc", corpus::real("qc/const_train.tsv.gz", 3)),
        ("wsj", corpus::real("wsj/wsj.txt.gz", 2)),
        ("wsjs", corpus::real("wsj/wsj_clean.txt.gz", 2)),
    ];
    for (name, trees) in sets.into_iter().filter_map(|(n, t)| Some((n, t?))) {
        let forest =
            Forest::from_bracket_items(trees.iter().map(String::as_str)).unwrap();
        let kernel = Kernel::SubsetTree { decay: 0.4, leaf_weight: 0.0 };
        let n = forest.len();
        let mut out = vec![0.0f64; n * n];
        for jobs in [1, 2] {
            for normalize in [false, true] {
                let mut best = f64::MAX;
                let options = gram::Options { normalize, n_jobs: Some(jobs) };
                for _ in 0..5 {
                    let start = Instant::now();
                    gram::fill(
                        &kernel,
                        &forest,
                        None,
                        options,
                        &mut out,
                        &mut |_, _| Ok(()),
                    )
                    .unwrap();
                    best = best.min(start.elapsed().as_secs_f64());
                }
                println!(
                    "{name} n={n} jobs={jobs} norm={normalize} {:.2} ms {:.2} ns/pair",
                    best * 1e3,
                    best * 1e9 / (n as f64 * n as f64 / 2.0)
                );
            }
        }
    }
}
