//! The baselines of the benches against the definitions, and the trees they run on.

use crate::baseline::{EtClassic, Fragments, Ftk, PtClassic, PtParams, Qtk};
use crate::corpus::{self, Random, read};
use crate::worst;
use crate::worst::Leaves;
use std::collections::HashSet;
use treekernel_rs::kernel::{ElasticTree, PartialTree, SubsetTree, Subtree};
use treekernel_rs::{Forest, Kernel, NodeId, Nodes};

// --- baselines ----------------------------------------------------------------------

/// Makes the kernel of pairs of a forest's trees.
type Make<'a> = &'a dyn Fn(&Forest) -> Box<dyn FnMut(usize, usize) -> f64>;

/// Holds a baseline to the definition on 15,000 pairs; returns how many were not 0.
fn hold(seed: u64, kernel: &dyn Kernel, make: Make) -> usize {
    let trees = corpus::trees(&mut Random(seed), 200, 10);
    let forest = read(&trees);
    let mut pair = make(&forest);
    let mut random = Random(seed + 1);
    let mut positive = 0;
    for _ in 0..15_000 {
        let (i, j) = (random.below(forest.len()), random.below(forest.len()));
        let (a, b) = (forest.roots()[i], forest.roots()[j]);
        let expected = kernel.definition(forest.nodes(), a, b);
        let got = pair(i, j);
        assert!(
            (got - expected).abs() <= 1e-10 * expected.abs(),
            "{kernel:?} {} {}: {got}, by definition {expected}",
            trees[i],
            trees[j],
        );
        positive += usize::from(expected > 0.0);
    }
    positive
}

#[test]
fn quadratic_and_fast_tree_kernels_meet_the_definitions() {
    for (seed, decay) in [(1, 0.4), (2, 1.0), (3, 0.73)] {
        let sst = SubsetTree::new(decay);
        let positive = hold(seed, &sst, &|forest| {
            let mut qtk = Qtk::new(forest, decay);
            Box::new(move |i, j| qtk.pair(i, j))
        });
        assert!(positive > 500, "{positive}");
        hold(seed, &sst, &|forest| {
            let mut ftk = Ftk::new(forest, (Fragments::SubsetTrees, decay));
            Box::new(move |i, j| ftk.pair(i, j))
        });
        let st = Subtree::new(decay);
        let positive = hold(seed, &st, &|forest| {
            let mut ftk = Ftk::new(forest, (Fragments::Subtrees, decay));
            Box::new(move |i, j| ftk.pair(i, j))
        });
        assert!(positive > 500, "{positive}");
    }
}

#[test]
fn classic_partial_tree_kernel_meets_the_definition() {
    let plain = PtParams::plain(0.4, 0.4);
    let cases = [
        plain,
        PtParams { decay: 1.0, mu: 1.0, ..plain },
        PtParams { decay: 0.9, mu: 0.3, leaf_factor: 5.0, ..plain },
        PtParams { leaf_factor: 0.0, max_children: Some(1), ..plain },
        PtParams { decay: 0.8, leaf_factor: 2.0, max_children: Some(2), ..plain },
    ];
    for (seed, params) in (10..).zip(cases) {
        let PtParams { decay, mu, leaf_factor, max_children } = params;
        let kernel = PartialTree::new(decay, mu)
            .with_leaf_factor(leaf_factor)
            .with_max_children(max_children);
        let positive = hold(seed, &kernel, &|forest| {
            let mut pt = PtClassic::new(forest, params);
            Box::new(move |i, j| pt.pair(i, j))
        });
        assert!(positive > 500, "{positive}");
    }
}

#[test]
fn classic_elastic_tree_kernel_meets_the_definition() {
    for (seed, decay) in [(20, 0.4), (21, 1.0)] {
        let positive = hold(seed, &ElasticTree::new(decay), &|forest| {
            let mut et = EtClassic::new(forest, decay);
            Box::new(move |i, j| et.pair(i, j))
        });
        assert!(positive > 500, "{positive}");
    }
}

#[test]
fn baselines_agree_on_sentences_and_worst_cases() {
    let mut trees = corpus::generated(20, 5);
    trees.extend(worst::one_production(6, 3, 31));
    trees.extend(worst::chains(7, 4, 50..=400, Leaves::Different));
    trees.extend(worst::wide(8, 3, 300));
    let forest = Forest::from_bracket_items(trees.iter().map(String::as_str)).unwrap();
    let mut qtk = Qtk::new(&forest, 0.4);
    let mut ftk = Ftk::new(&forest, (Fragments::SubsetTrees, 0.4));
    for i in 0..forest.len() {
        for j in 0..forest.len() {
            let (slow, fast) = (qtk.pair(i, j), ftk.pair(i, j));
            assert!((slow - fast).abs() <= 1e-10 * slow, "{i} {j}: {slow} {fast}");
        }
    }
}

#[test]
fn chain_of_400_levels_does_not_exhaust_the_stack() {
    let trees = worst::chains(1, 2, 400..=400, Leaves::Same);
    let forest = Forest::from_bracket_items(trees.iter().map(String::as_str)).unwrap();
    let sst = Ftk::new(&forest, (Fragments::SubsetTrees, 0.4)).pair(0, 1);
    assert!(sst.is_finite() && sst > 0.0);
    assert!(PtClassic::new(&forest, PtParams::plain(0.4, 0.4)).pair(0, 1) > 0.0);
    assert!(EtClassic::new(&forest, 0.4).pair(0, 1) > 0.0);
}

// --- generators ---------------------------------------------------------------------

/// All inner nodes of a tree, as often as they occur.
fn inner(nodes: &Nodes, root: NodeId) -> Vec<NodeId> {
    let mut found = Vec::new();
    let mut todo = vec![root];
    while let Some(node) = todo.pop() {
        todo.extend(nodes.children(node));
        if !nodes.is_leaf(node) {
            found.push(node);
        }
    }
    found
}

/// Has the shape, follows the seed, and gives as many as asked for.
fn check(
    make: impl Fn(u64) -> Vec<String>,
    n: usize,
    legal: impl Fn(&Nodes, NodeId) -> bool,
) -> Forest {
    let trees = make(1);
    assert_eq!(trees, make(1));
    assert_ne!(trees, make(2));
    assert_eq!(trees.len(), n);
    let forest = read(&trees);
    for &root in forest.roots() {
        assert!(legal(forest.nodes(), root));
    }
    forest
}

#[test]
fn one_production_trees_have_one_production() {
    for size in [31, 127] {
        let make = |seed| worst::one_production(seed, 20, size);
        let forest = check(make, 20, |nodes, root| {
            let inner = inner(nodes, root);
            inner.len() == size && inner.iter().all(|&v| nodes.children(v).len() == 2)
        });
        assert_eq!(forest.nodes().n_productions(), 1);
        assert_eq!(forest.roots().iter().collect::<HashSet<_>>().len(), 20);
    }
}

#[test]
fn chains_share_all_or_nothing() {
    let legal = |nodes: &Nodes, root| {
        let inner = inner(nodes, root);
        (50..=400).contains(&inner.len())
            && inner.iter().all(|&v| nodes.children(v).len() == 1)
    };
    let same = check(|s| worst::chains(s, 9, 50..=400, Leaves::Same), 9, legal);
    assert!(same.n_distinct() <= 401);
    let chains = |s| worst::chains(s, 9, 50..=400, Leaves::Different);
    let different = check(chains, 9, legal);
    assert_eq!(different.n_distinct() as u64, different.n_nodes().iter().sum::<u64>());
}

#[test]
fn wide_trees_share_the_root_production_and_some_preterminals() {
    let forest = check(
        |seed| worst::wide(seed, 5, 300),
        5,
        |nodes, root| {
            let children = nodes.children(root);
            children.len() == 300 && children.iter().all(|&c| nodes.is_preterminal(c))
        },
    );
    assert_eq!(forest.nodes().n_productions(), 101);
}

#[test]
fn bushes_have_the_width_and_the_labels() {
    for (width, labels) in [(25..=50, 1), (25..=50, 20), (100..=200, 1)] {
        let legal = |nodes: &Nodes, root| {
            width.contains(&nodes.children(root).len()) && nodes.is_preterminal(root)
        };
        let forest =
            check(|seed| worst::bushes(seed, 10, width.clone(), labels), 10, legal);
        let leaves = forest.used_labels().len() - 1;
        assert_eq!(leaves, labels);
    }
}

#[test]
fn copies_come_round_by_round() {
    let corpus = corpus::generated(40, 1);
    let copies = worst::copies(&corpus, 30, 100);
    assert_eq!(copies.len(), 3_000);
    assert!(copies.chunks(30).all(|round| round == &corpus[..30]));
}

/// The labels that are hardest to read, printed as the library prints them.
fn escaped_corpus() -> Vec<String> {
    let raw = [
        r"(S (\( 1\/2) (NP (\e a\ b) (NN \))) x)",
        r"(S (\( y) (NP (\e \\) (NN (NP p\\\) q))) (\e))",
        "(lonely)",
    ];
    read(&raw.map(String::from)).to_brackets()
}

fn print(nodes: &Nodes, v: NodeId) -> String {
    let below = nodes.children(v).iter().map(|&c| print(nodes, c));
    format!("({:?} {})", nodes.name(v), below.collect::<String>())
}

/// Where subtrees were swapped in: nodes that are no subtree of the corpus although all
/// their children are.
fn seams(nodes: &Nodes, corpus: &HashSet<NodeId>, root: NodeId) -> usize {
    let old = |v: &NodeId| corpus.contains(v);
    let all = inner(nodes, root);
    all.iter().filter(|&v| !old(v) && nodes.children(*v).iter().all(old)).count()
}

#[test]
fn perturbed_trees_differ_in_some_subtrees_of_equal_label() {
    for corpus in [corpus::generated(60, 3), escaped_corpus()] {
        let n = 4 * corpus.len();
        let corpus = read(&corpus).to_brackets();
        let trees = worst::perturbed(&corpus, 7, n);
        assert_eq!(trees, worst::perturbed(&corpus, 7, n));
        assert_ne!(trees, worst::perturbed(&corpus, 8, n));
        assert_eq!(trees.len(), n);
        // One store for both, so that ids compare.
        let both = [&corpus[..], &trees[..]].concat();
        let forest = read(&both);
        assert_eq!(forest.to_brackets(), both);
        let nodes = forest.nodes();
        let (old, new) = forest.roots().split_at(corpus.len());
        let subtrees = old.iter().flat_map(|&root| nodes.subtrees(root)).collect();
        let (mut changed, mut grown) = (0, 0);
        for (&new, &old) in new.iter().zip(old.iter().cycle()) {
            assert_eq!(nodes.label(old), nodes.label(new));
            assert_eq!(nodes.production(old), nodes.production(new));
            assert!(seams(nodes, &subtrees, new) <= 3);
            changed += usize::from(old != new);
            grown += usize::from(nodes.size(new) > nodes.size(old));
        }
        assert!(changed > n / 3 && grown > n / 10, "{changed} and {grown} of {n}");
        // No new labels and productions, only new arrangements.
        let productions = |trees: &[String]| read(trees).nodes().n_productions();
        assert_eq!(productions(&both), productions(&corpus));
        let labels = |trees: &[String]| read(trees).used_labels().len();
        assert_eq!(labels(&both), labels(&corpus));
    }
}

#[test]
fn phrases_are_the_tops_of_all_inner_nodes_that_are_no_preterminals() {
    fn top(nodes: &Nodes, v: NodeId, depth: usize) -> String {
        let below = if depth == 0 { &[] } else { nodes.children(v) };
        let below = below.iter().map(|&c| top(nodes, c, depth - 1));
        format!("({:?} {})", nodes.name(v), below.collect::<String>())
    }
    for corpus in [corpus::generated(60, 3), escaped_corpus()] {
        let forest = read(&corpus);
        let nodes = forest.nodes();
        let corpus = forest.to_brackets();
        for depth in [1, 2, 4, 50] {
            let trees = read(&worst::phrases(&corpus, depth));
            let mut expected = Vec::new();
            for &root in forest.roots() {
                let mut all = inner(nodes, root);
                all.retain(|&v| !nodes.is_preterminal(v));
                expected.extend(all.iter().map(|&v| top(nodes, v, depth)));
            }
            let printed = |&root: &NodeId| print(trees.nodes(), root);
            let mut found: Vec<String> = trees.roots().iter().map(printed).collect();
            assert_eq!(found.len(), expected.len());
            found.sort();
            expected.sort();
            assert_eq!(found, expected);
        }
    }
}

#[test]
fn real_corpora_grow_as_documented() {
    let Some(qc) = corpus::real("qc/const_train.tsv.gz", 3) else { return };
    let qc = read(&qc).to_brackets();
    let mean = |forest: &Forest| {
        forest.n_nodes().iter().sum::<u64>() as f64 / forest.len() as f64
    };
    let grown = read(&worst::perturbed(&qc, 1, 50_000));
    assert!((25.0..40.0).contains(&mean(&grown)), "{}", mean(&grown));
    let Some(wsj) = corpus::real("wsj/wsj_clean.txt.gz", 2) else { return };
    let wsj = read(&wsj).to_brackets();
    let phrases = read(&worst::phrases(&wsj, 4));
    assert_eq!(phrases.len(), 73_461);
    assert!((10.0..16.0).contains(&mean(&phrases)), "{}", mean(&phrases));
}
