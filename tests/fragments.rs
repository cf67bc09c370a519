//! Top fragments against all fragments, written out.

#[path = "../benches/corpus/mod.rs"]
mod corpus;

use std::collections::BTreeMap;

use corpus::Random;
use treekernel_rs::dag::{Model, Options, Query, Rank};
use treekernel_rs::kernel::SubsetTree;
use treekernel_rs::{Error, Forest, NodeId, Nodes};

/// Goes on.
#[allow(clippy::unnecessary_wraps)]
fn on(_done: usize, _total: usize) -> treekernel_rs::Result<()> {
    Ok(())
}

/// The fragments rooted at a node, as text, with their productions.
fn rooted(nodes: &Nodes, node: NodeId) -> Vec<(String, u64)> {
    let mut all = vec![(format!("({}", nodes.name(node)), 1)];
    for &child in nodes.children(node) {
        let mut below = vec![(format!("({})", nodes.name(child)), 0)];
        if !nodes.is_leaf(child) {
            below.extend(rooted(nodes, child));
        }
        let with = |(text, size): &(String, u64)| {
            let join = |(more, n): &(String, u64)| (format!("{text}{more}"), size + n);
            below.iter().map(join).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(with).collect();
    }
    all.into_iter().map(|(text, size)| (text + ")", size)).collect()
}

fn text(nodes: &Nodes, node: NodeId) -> String {
    let below = nodes.children(node).iter().map(|&child| text(nodes, child));
    format!("({}{})", nodes.name(node), below.collect::<String>())
}

#[test]
fn the_k_best_are_those_of_the_list_of_all() {
    let mut random = Random(7);
    for round in 0..300 {
        let forest = corpus::forest(&mut random, 12, 9);
        // Close to each other, so that a bound that is a little low misses some.
        let mut alpha = || (random.below(64) as f64 - 31.0) / 32.0;
        let alphas: Vec<f64> = (0..12).map(|_| alpha()).collect();
        let decay = [0.25, 0.5, 1.0][round / 3 % 3];
        let mut model =
            Model::new(&SubsetTree::new(decay), Options::default()).unwrap();
        model.add(&forest, &alphas, &mut on).unwrap();

        let nodes = forest.nodes();
        let mut all: BTreeMap<String, (f64, u64)> = BTreeMap::new();
        for (&root, alpha) in forest.roots().iter().zip(&alphas) {
            let mut todo = vec![root];
            while let Some(node) = todo.pop() {
                todo.extend(nodes.children(node));
                if nodes.is_leaf(node) {
                    continue;
                }
                for (fragment, size) in rooted(nodes, node) {
                    let power = decay.powi(size as i32);
                    all.entry(fragment).or_insert((0.0, size)).0 += power * alpha;
                }
            }
        }
        // With these numbers no sum is rounded.
        for (rank, value) in [
            (Rank::Largest, (|w| w) as fn(f64) -> f64),
            (Rank::Smallest, |w| -w),
            (Rank::Absolute, f64::abs),
        ] {
            let (min_size, max_size) = [(0, u64::MAX), (2, 3), (3, 9)][round % 3];
            let fits = |size: u64| (min_size..=max_size).contains(&size);
            let fitting = all.values().filter(|(_, size)| fits(*size));
            let mut wanted: Vec<f64> = fitting.map(|(w, _)| value(*w)).collect();
            wanted.retain(|value| *value > 0.0);
            wanted.sort_by(|a, b| b.total_cmp(a));
            for k in [1, 4, 25, 100_000] {
                let mut query = Query::default();
                (query.k, query.rank) = (k, rank);
                (query.min_size, query.max_size) = (min_size, max_size);
                let found = model.top_fragments(&query, &mut on).unwrap();
                let values: Vec<f64> =
                    found.weights.iter().map(|&w| value(w)).collect();
                assert_eq!(values, wanted[..k.min(wanted.len())]);
                for (number, &root) in found.forest.roots().iter().enumerate() {
                    let own = all[&text(found.forest.nodes(), root)];
                    assert_eq!(own, (found.weights[number], found.sizes[number]));
                }
            }
        }
    }
}

#[test]
fn a_search_ends_at_its_limit_and_when_it_is_told_to() {
    let mut model = Model::new(&SubsetTree::new(1.0), Options::default()).unwrap();
    let lines: Vec<String> = (0..64)
        .map(|i| {
            let child = |j| format!("(x{j} {})", i >> (j % 6) & 1);
            (0..12).map(child).collect::<Vec<_>>().concat()
        })
        .map(|below: String| format!("(s{below})"))
        .collect();
    let forest = Forest::from_brackets(&lines.join(" ")).unwrap();
    let alphas: Vec<f64> = (0..64).map(|i| [1.0, -1.0][i % 7 % 2]).collect();
    model.add(&forest, &alphas, &mut on).unwrap();
    let mut query = Query::default();
    (query.k, query.min_size, query.max_states) = (50, 6, 3);
    let error = model.top_fragments(&query, &mut on).unwrap_err();
    assert_eq!(error, Error::Search { k: 50, max_states: 3 });
    query.max_states = usize::MAX;
    let stop = &mut |_, _| Err(Error::Interrupted);
    assert_eq!(model.top_fragments(&query, stop).unwrap_err(), Error::Interrupted);
    query.output = 1;
    let error = model.top_fragments(&query, &mut on).unwrap_err();
    assert!(matches!(error, Error::Parameter { name: "output", .. }));
}
