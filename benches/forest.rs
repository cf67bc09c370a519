//! Parsing and interning, cold (into an empty forest) and warm (all trees known).
//!
//! `cargo bench --bench forest`

#[path = "corpus/mod.rs"]
mod corpus;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use treekernel_rs::Forest;

fn parse(c: &mut Criterion) {
    let sets = [
        ("generated", Some(corpus::generated(5_000, 1))),
        ("qc", corpus::real("qc/const_train.tsv.gz", 3)),
        ("wsj", corpus::real("wsj/wsj.txt.gz", 2)),
        ("grct", corpus::real("qc/dep_train.tsv.gz", 2)),
    ];
    let mut group = c.benchmark_group("parse");
    for (name, trees) in sets.into_iter().filter_map(|(n, t)| Some((n, t?))) {
        let bytes = trees.iter().map(String::len).sum::<usize>();
        let items = || trees.iter().map(String::as_str);
        let forest = Forest::from_bracket_items(items()).expect("legal trees");
        let nodes = forest.nodes();
        let total: u64 = forest.n_nodes().iter().sum();
        eprintln!(
            "{name}: {} trees, {bytes} bytes, {total} nodes, {} distinct, {:.1} bytes per \
             distinct node and {} bytes of labels",
            forest.len(),
            nodes.len(),
            nodes.node_nbytes() as f64 / nodes.len() as f64,
            nodes.labels().nbytes(),
        );
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(format!("{name}/cold"), |b| {
            b.iter(|| Forest::from_bracket_items(black_box(items())));
        });
        group.bench_function(format!("{name}/warm"), |b| {
            b.iter_batched_ref(
                || {
                    let mut known = forest.select([]);
                    known.push_bracket_items(items().take(1)).unwrap();
                    known
                },
                |known| {
                    known.push_bracket_items(black_box(items())).unwrap();
                },
                BatchSize::LargeInput,
            );
        });
        group.bench_function(format!("{name}/print"), |b| {
            b.iter(|| forest.to_brackets());
        });
    }
    group.finish();
}

criterion_group!(benches, parse);
criterion_main!(benches);
