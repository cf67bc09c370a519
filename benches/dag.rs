//! DAG models.

#[path = "corpus/mod.rs"]
mod corpus;

use std::time::Instant;
use treekernel_rs::dag::{Options, Perceptron, Vote};
use treekernel_rs::{Forest, Kernel};

fn main() {
    let lines = corpus::real("srl/masc_boundary.tsv.gz", 5).unwrap();
    let y: Vec<f64> = corpus::real("srl/masc_boundary.tsv.gz", 0)
        .unwrap()
        .iter()
        .map(|l| l.parse().unwrap())
        .collect();
    let kernel = Kernel::SubsetTree { decay: 0.4, leaf_weight: 0.0 };
    for normalize in [false, true] {
        for _ in 0..3 {
            let start = Instant::now();
            let forest =
                Forest::from_bracket_items(lines.iter().map(String::as_str)).unwrap();
            let parsed = start.elapsed().as_secs_f64();
            let options = Options { normalize, n_outputs: 1 };
            let mut p =
                Perceptron::new(kernel, options, Vote::Last, None, 1.0).unwrap();
            let n = p.learn(&forest, &y, None, &mut |_, _| Ok(())).unwrap();
            let total = start.elapsed().as_secs_f64();
            println!(
                "{normalize} parse {parsed:.3} learn {:.3} total {total:.3}: {n} mistakes, {} nodes, {} tree nodes, inner {} bytes {}",
                total - parsed,
                p.last().n_nodes(),
                p.last().n_tree_nodes(),
                (0..p.last().n_nodes())
                    .filter(|&i| !p
                        .last()
                        .nodes()
                        .is_leaf(treekernel_rs::NodeId(i as u32)))
                    .count(),
                p.last().nbytes()
            );
        }
    }
}
