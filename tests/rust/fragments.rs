//! Top fragments against all fragments, written out.

use crate::registry::{jobs, stop};
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::corpus::{self, Random};
use treekernel_rs::dag::{Model, ModelOptions, Query, Rank};
use treekernel_rs::kernel::{
    ElasticTree, Kernel, PartialTree, Subpath, SubsetTree, Subtree,
};
use treekernel_rs::{Error, Forest, NodeId, Nodes};

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
            Model::new(&SubsetTree::new(decay), ModelOptions::default()).unwrap();
        model.add(&forest, &alphas).unwrap();

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
                let found = model.top_fragments(&query).unwrap();
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

/// The fragments of partial or elastic trees rooted at a node, with nodes, leaves, and what
/// all their ways make: 1 each, for a gap `gap` and for a leaf of the tree `on_leaf`.
fn parts(
    nodes: &Nodes,
    node: NodeId,
    (gap, on_leaf, longest, skips): (f64, f64, usize, bool),
) -> Vec<(String, u64, u64, f64)> {
    let rules = (gap, on_leaf, longest, skips);
    let children = nodes.children(node);
    let mut all = Vec::new();
    let name = nodes.name(node);
    let single = if children.is_empty() { on_leaf } else { 1.0 };
    all.push((format!("({name})"), 1, 1, single));
    // What each child may stand for.
    let below: Vec<Vec<_>> = children
        .iter()
        .map(|&child| {
            let mut found = Vec::new();
            let mut todo = vec![child];
            while let Some(at) = todo.pop() {
                found.extend(parts(nodes, at, rules));
                if skips {
                    todo.extend(nodes.children(at));
                }
            }
            found
        })
        .collect();
    for set in 1u32..1 << children.len() {
        let taken: Vec<usize> =
            (0..children.len()).filter(|i| set >> i & 1 == 1).collect();
        if taken.len() > longest {
            continue;
        }
        let gaps = taken[taken.len() - 1] - taken[0] + 1 - taken.len();
        let mut made = vec![(format!("({name}"), 1, 0, gap.powi(gaps as i32))];
        for i in taken {
            let with = |(text, n, l, f): &(String, u64, u64, f64)| {
                let join = |more: &(String, u64, u64, f64)| {
                    (format!("{text}{}", more.0), n + more.1, l + more.2, f * more.3)
                };
                below[i].iter().map(join).collect::<Vec<_>>()
            };
            made = made.iter().flat_map(with).collect();
        }
        all.extend(made.into_iter().map(|(text, n, l, f)| (text + ")", n, l, f)));
    }
    all
}

#[test]
fn the_k_best_parts_are_those_of_the_list_of_all() {
    let mut random = Random(11);
    for round in 0..240 {
        let forest = corpus::forest(&mut random, 8, 7);
        let mut alpha = || (random.below(64) as f64 - 31.0) / 32.0;
        let alphas: Vec<f64> = (0..8).map(|_| alpha()).collect();
        // Powers of two, so that no sum is rounded.
        let decay = [0.25, 0.5, 1.0][round / 3 % 3];
        let mu = [0.5, 1.0, 0.25][round / 9 % 3];
        let factor = [1.0, 4.0, 0.0][round / 27 % 3];
        let longest = [None, Some(1), Some(2)][round / 2 % 3];
        let partial = PartialTree::new(decay, mu)
            .with_leaf_factor(factor)
            .with_max_children(longest);
        let all_longest = longest.unwrap_or(usize::MAX);
        let kinds: [(Arc<dyn Kernel>, _, f64, f64); 3] = [
            (
                Arc::new(partial),
                (decay, factor.sqrt(), all_longest, false),
                mu,
                decay * decay,
            ),
            (
                Arc::new(ElasticTree::new(decay)),
                (1.0, 1.0, usize::MAX, true),
                decay,
                1.0,
            ),
            (Arc::new(Subpath::new(decay)), (1.0, 1.0, 1, false), decay, 1.0),
        ];
        let (kernel, rules, of_node, of_leaf) = kinds[round % 3].clone();
        let mut model = Model::new(&kernel, ModelOptions::default()).unwrap();
        model.add(&forest, &alphas).unwrap();

        let nodes = forest.nodes();
        let mut all: BTreeMap<String, (f64, u64)> = BTreeMap::new();
        for (&root, alpha) in forest.roots().iter().zip(&alphas) {
            let mut todo = vec![root];
            while let Some(node) = todo.pop() {
                todo.extend(nodes.children(node));
                for (fragment, size, leaves, f) in parts(nodes, node, rules) {
                    let power = of_node.powi(size as i32) * of_leaf.powi(leaves as i32);
                    all.entry(fragment).or_insert((0.0, size)).0 += power * alpha * f;
                }
            }
        }
        // Together they are the scores.
        let (scores, _) = model.score_with(&forest, &jobs(1)).unwrap();
        for (&root, score) in forest.roots().iter().zip(scores) {
            let (mut sum, mut todo) = (0.0, vec![root]);
            while let Some(node) = todo.pop() {
                todo.extend(nodes.children(node));
                let own = parts(nodes, node, rules).into_iter();
                sum += own.map(|(fragment, _, _, f)| all[&fragment].0 * f).sum::<f64>();
            }
            assert!((sum - score).abs() <= 1e-9 * (1.0 + score.abs()), "{sum} {score}");
        }
        for (rank, value) in [
            (Rank::Largest, (|w| w) as fn(f64) -> f64),
            (Rank::Smallest, |w| -w),
            (Rank::Absolute, f64::abs),
        ] {
            let (min_size, max_size) = [(0, u64::MAX), (2, 3), (3, 9)][round / 4 % 3];
            let fits = |size: u64| (min_size..=max_size).contains(&size);
            let fitting = all.values().filter(|(_, size)| fits(*size));
            let mut wanted: Vec<f64> = fitting.map(|(w, _)| value(*w)).collect();
            wanted.retain(|value| *value > 0.0);
            wanted.sort_by(|a, b| b.total_cmp(a));
            for k in [1, 4, 25, 100_000] {
                let mut query = Query::default();
                (query.k, query.rank) = (k, rank);
                (query.min_size, query.max_size) = (min_size, max_size);
                let found = model.top_fragments(&query).unwrap();
                let values: Vec<f64> =
                    found.weights.iter().map(|&w| value(w)).collect();
                assert_eq!(values, wanted[..k.min(wanted.len())], "{kernel:?} {round}");
                for (number, &root) in found.forest.roots().iter().enumerate() {
                    let own = all[&text(found.forest.nodes(), root)];
                    assert_eq!(own, (found.weights[number], found.sizes[number]));
                }
            }
        }
    }
}

#[test]
fn fragments_of_subtrees_weigh_a_power_of_their_inner_nodes_and_leaves_their_own() {
    let kernel = Subtree::new(0.5).with_leaf_weight(0.125);
    let mut model = Model::new(&kernel, ModelOptions::default()).unwrap();
    let forest = Forest::from_brackets("(S (A a) (A a) b)").unwrap();
    model.add(&forest, &[4.0]).unwrap();
    let found = model.top_fragments(&Query::default()).unwrap();
    let nodes = found.forest.nodes();
    let texts = found.forest.roots().iter().map(|&root| text(nodes, root));
    let weights = found.weights.iter().copied();
    // 4 times how often it is there times .5 for each inner node, or .125.
    let expected =
        [("(A(a))", 4.0), ("(a)", 1.0), ("(S(A(a))(A(a))(b))", 0.5), ("(b)", 0.5)];
    let expected: BTreeMap<_, _> =
        expected.map(|(text, weight)| (text.to_owned(), weight)).into();
    assert_eq!(texts.zip(weights).collect::<BTreeMap<_, _>>(), expected);
}

#[test]
fn a_search_ends_at_its_limit_and_when_it_is_told_to() {
    let mut model = Model::new(&SubsetTree::new(1.0), ModelOptions::default()).unwrap();
    let lines: Vec<String> = (0..64)
        .map(|i| {
            let child = |j| format!("(x{j} {})", i >> (j % 6) & 1);
            (0..12).map(child).collect::<Vec<_>>().concat()
        })
        .map(|below: String| format!("(s{below})"))
        .collect();
    let forest = Forest::from_brackets(&lines.join(" ")).unwrap();
    let alphas: Vec<f64> = (0..64).map(|i| [1.0, -1.0][i % 7 % 2]).collect();
    model.add(&forest, &alphas).unwrap();
    let mut query = Query::default();
    (query.k, query.min_size, query.max_states) = (50, 6, 3);
    let error = model.top_fragments(&query).unwrap_err();
    assert_eq!(error, Error::Search { k: 50, max_states: 3 });
    query.max_states = usize::MAX;
    let stop = &stop();
    assert_eq!(model.top_fragments_with(&query, stop).unwrap_err(), Error::Interrupted);
    query.output = 1;
    let error = model.top_fragments(&query).unwrap_err();
    assert!(matches!(error, Error::Parameter { name: "output", .. }));
}
