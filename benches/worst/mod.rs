//! Trees that are hard on some algorithm, and larger corpora made from real ones.
//!
//! Every generator is a function of a seed or of a corpus and gives bracketed trees.
//! Corpora are expected as [`Forest::to_brackets`](treekernel_rs::Forest::to_brackets)
//! prints them: brackets around inner nodes only. The includer also includes `corpus`.

// Every bench and test takes what it needs.
#![allow(dead_code, unreachable_pub)]

use crate::corpus::Random;
use std::collections::HashMap;
use std::ops::{Range, RangeInclusive};

/// Whether the leaves of [`chains`] can be told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaves {
    /// All chains are the beginnings of one: few distinct subtrees.
    Same,
    /// No two chains share a subtree.
    Different,
}

/// Random binary trees with `inner` inner nodes and one label, hence one production:
/// every node matches every other. 31 and 127 are the measured sizes.
pub fn one_production(seed: u64, n: usize, inner: usize) -> Vec<String> {
    let mut random = Random(seed);
    (0..n).map(|_| binary(&mut random, inner)).collect()
}

fn binary(random: &mut Random, inner: usize) -> String {
    let mut text = String::new();
    // Inner nodes of the subtrees to come; None closes a bracket.
    let mut todo = vec![Some(inner)];
    while let Some(next) = todo.pop() {
        match next {
            None => text.push(')'),
            Some(0) => text.push_str("(S)"),
            Some(inner) => {
                let left = random.below(inner);
                text.push_str("(S");
                todo.extend([None, Some(inner - 1 - left), Some(left)]);
            }
        }
    }
    text
}

/// Chains of `depth` equal labels above one leaf: all pairs of nodes match, and by
/// productions no algorithm can tell them apart. 50 to 400 are the measured depths.
pub fn chains(
    seed: u64,
    n: usize,
    depth: RangeInclusive<usize>,
    leaves: Leaves,
) -> Vec<String> {
    let mut random = Random(seed);
    let chain = |index: usize| {
        let depth = within(&mut random, &depth);
        let leaf = if leaves == Leaves::Same { 0 } else { index };
        format!("{}(x{leaf}){}", "(A ".repeat(depth), ")".repeat(depth))
    };
    (0..n).map(chain).collect()
}

/// One node above `width` preterminals, ten tags in turn with ten words each: all trees
/// share the root's production, and each pair of trees `width`² / 100 preterminals.
/// 300 is the measured width.
pub fn wide(seed: u64, n: usize, width: usize) -> Vec<String> {
    let mut random = Random(seed);
    let mut preterminal = |place: usize| {
        let tag = place % 10;
        format!(" (T{tag} w{tag}{})", random.below(10))
    };
    let mut tree = || (0..width).map(&mut preterminal).collect::<String>();
    (0..n).map(|_| format!("(S{})", tree())).collect()
}

/// `times` copies of the first `distinct` trees of a corpus, one round after another.
/// 100 copies of 30 trees are measured.
pub fn copies(corpus: &[String], distinct: usize, times: usize) -> Vec<String> {
    let once = &corpus[..distinct.min(corpus.len())];
    once.iter().cycle().take(once.len() * times).cloned().collect()
}

/// One node above as many leaves as `width` says, with `labels` different labels at
/// random: the long child lists that hurt PT. 25 to 50 with 1 and with 20 labels, and
/// 100 to 200 with one, are measured.
pub fn bushes(
    seed: u64,
    n: usize,
    width: RangeInclusive<usize>,
    labels: usize,
) -> Vec<String> {
    let mut random = Random(seed);
    let mut bush = || {
        let width = within(&mut random, &width);
        let mut leaf = || format!("l{}", random.below(labels));
        (0..width).map(|_| leaf()).collect::<Vec<_>>().join(" ")
    };
    (0..n).map(|_| format!("(R {})", bush())).collect()
}

fn within(random: &mut Random, range: &RangeInclusive<usize>) -> usize {
    range.start() + random.below(range.end() - range.start() + 1)
}

/// `n` trees of a corpus, in turn, each with one to three inner subtrees replaced by
/// subtrees of the corpus with the same label: a larger corpus that shares about as
/// much as the real one. (`qc_pert` is this of QC.)
pub fn perturbed(corpus: &[String], seed: u64, n: usize) -> Vec<String> {
    let mut random = Random(seed);
    // By label: every inner node of the corpus that is no root, as text.
    let mut donors: HashMap<&str, Vec<&str>> = HashMap::new();
    for text in corpus {
        for node in inner_nodes(text).into_iter().skip(1) {
            let donor = &text[node.span.clone()];
            donors.entry(&text[node.label]).or_default().push(donor);
        }
    }
    let mut perturb = |text: &String| {
        let mut text = text.clone();
        for _ in 0..=random.below(3) {
            let nodes = inner_nodes(&text);
            if nodes.len() > 1 {
                let node = &nodes[1 + random.below(nodes.len() - 1)];
                let pool = &donors[&text[node.label.clone()]];
                let donor = pool[random.below(pool.len())];
                text.replace_range(node.span.clone(), donor);
            }
        }
        text
    };
    corpus.iter().cycle().take(n).map(&mut perturb).collect()
}

/// Every phrase of a corpus (an inner node with an inner child) as a tree of its own,
/// of which `depth` edges from the root down are kept: many small trees, and nodes that
/// are leaves here and inner nodes there. (`wsj_nodes4` is this of WSJ, 4 deep.)
pub fn phrases(corpus: &[String], depth: usize) -> Vec<String> {
    let mut trees = Vec::new();
    for text in corpus {
        let nodes = inner_nodes(text);
        for (at, node) in nodes.iter().enumerate() {
            let has_inner_child =
                nodes.get(at + 1).is_some_and(|next| next.span.end <= node.span.end);
            if has_inner_child {
                trees.push(cut(text, &nodes[at..], depth));
            }
        }
    }
    trees
}

/// The first of some nodes in preorder, without what is deeper below it than `depth`.
fn cut(text: &str, nodes: &[InnerNode], depth: usize) -> String {
    let root = &nodes[0];
    let mut kept = String::new();
    let mut copied = root.span.start;
    for node in nodes.iter().take_while(|node| node.span.end <= root.span.end) {
        if node.depth == root.depth + depth {
            kept.push_str(&text[copied..node.span.start]);
            kept.push_str(&text[node.label.clone()]);
            copied = node.span.end;
        }
    }
    kept.push_str(&text[copied..root.span.end]);
    kept
}

/// An inner node: where it stands in the text, and its label, as written.
struct InnerNode {
    span: Range<usize>,
    label: Range<usize>,
    /// The number of its ancestors.
    depth: usize,
}

/// The inner nodes of a printed tree, in preorder.
fn inner_nodes(text: &str) -> Vec<InnerNode> {
    let bytes = text.as_bytes();
    let special = |byte: u8| matches!(byte, b'(' | b')' | b'\\' | b' ' | 9..=13);
    let mut nodes: Vec<InnerNode> = Vec::new();
    let mut open = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if bytes.get(at + 1).is_some_and(|&next| special(next)) => at += 1,
            b'(' => {
                let (span, label) = (at..at, at + 1..at + 1);
                nodes.push(InnerNode { span, label, depth: open.len() });
                open.push(nodes.len() - 1);
            }
            b')' => {
                let node = open.pop().expect("printed by the library");
                nodes[node].span.end = at + 1;
                end_label(&mut nodes, at);
            }
            b' ' => end_label(&mut nodes, at),
            _ => {}
        }
        at += 1;
    }
    nodes
}

/// Ends the label of the node last opened, if it has not ended yet.
fn end_label(nodes: &mut [InnerNode], at: usize) {
    let label = &mut nodes.last_mut().expect("inside a bracket").label;
    if label.start == label.end {
        label.end = at;
    }
}
