//! Trees to measure on: generated ones always, real ones where they are at hand.

// Every bench and test takes what it needs.
#![allow(dead_code, unreachable_pub)]

use std::fmt::Write;
use std::io::Read;
use std::path::PathBuf;

use treekernel_rs::Forest;

/// SplitMix64: a named generator, so that the corpus is the same everywhere.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// In [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A permutation of `0..n`.
    pub fn order(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            order.swap(i, self.below(i + 1));
        }
        order
    }
}

/// The forest of some legal trees.
pub fn read<T: AsRef<str>>(trees: &[T]) -> Forest {
    Forest::from_bracket_items(trees.iter().map(AsRef::as_ref)).expect("legal trees")
}

// --- random trees: every shape that a kernel may trip over -----------------------------

/// Trees of up to about `size` nodes: leaf and inner children mixed, one label everywhere,
/// many labels, wide, deep, repeated subtrees, single nodes, sentences, trees met before.
pub fn trees(random: &mut Random, n: usize, size: usize) -> Vec<String> {
    let mut trees: Vec<String> = Vec::with_capacity(n);
    for _ in 0..n {
        let size = 1 + random.below(size);
        let n_labels = [3, 1, 2, 6, 40][random.below(5)];
        let tree = match random.below(10) {
            0..3 => mixed(random, size, n_labels),
            3 => wide(random, size, n_labels),
            4 => deep(random, size, n_labels),
            5 => {
                let part = mixed(random, 1 + size / 4, 2);
                let other = mixed(random, 1 + size / 8, 2);
                format!("(l0 (l1 {part} {other}) {part} (l0 {part}))")
            }
            6 | 7 => phrase(random, size),
            8 if !trees.is_empty() => trees[random.below(trees.len())].clone(),
            _ => format!("({})", label(random, n_labels)),
        };
        trees.push(tree);
    }
    trees
}

/// The forest of [`trees`].
pub fn forest(random: &mut Random, n: usize, size: usize) -> Forest {
    read(&trees(random, n, size))
}

fn label(random: &mut Random, n_labels: usize) -> String {
    format!("l{}", random.below(n_labels))
}

/// Nodes anywhere below the ones before.
fn mixed(random: &mut Random, size: usize, n_labels: usize) -> String {
    let parents: Vec<usize> = (0..size).map(|i| random.below(i.max(1))).collect();
    let mut texts = vec![String::new(); size];
    for node in (1..size).rev() {
        let text = format!(" ({}{})", label(random, n_labels), texts[node]);
        texts[parents[node]].insert_str(0, &text);
    }
    format!("({}{})", label(random, n_labels), texts[0])
}

/// Leaves, with a few inner nodes among them.
fn wide(random: &mut Random, size: usize, n_labels: usize) -> String {
    let mut text = format!("({}", label(random, n_labels));
    for _ in 1..size {
        let (a, b) = (label(random, n_labels), label(random, n_labels));
        match random.below(3) {
            0 => write!(text, " ({a} {b})"),
            _ => write!(text, " {a}"),
        }
        .expect("memory");
    }
    text + ")"
}

/// A chain with leaves beside it.
fn deep(random: &mut Random, size: usize, n_labels: usize) -> String {
    (1..size).fold(format!("({})", label(random, 2)), |below, _| {
        let (a, b) = (label(random, n_labels), label(random, n_labels));
        let side = if random.below(4) == 0 { format!(" {b}") } else { String::new() };
        format!("({a} {below}{side})")
    })
}

/// A path of so many nodes, each with a random tree of up to `size` nodes on one side: in
/// turn on either, or on a random one.
pub fn turning(
    random: &mut Random,
    len: usize,
    size: usize,
    in_turn: bool,
    n_labels: usize,
) -> String {
    (0..len).fold(format!("({})", label(random, n_labels)), |below, turn| {
        let size = 1 + random.below(size);
        let side = mixed(random, size, n_labels);
        let is_left = if in_turn { turn % 2 == 0 } else { random.below(2) == 0 };
        let (a, b) = if is_left { (side, below) } else { (below, side) };
        format!("({} {a} {b})", label(random, n_labels))
    })
}

/// A tree whose nodes have two children or none: two random subtrees become one until one is
/// left.
pub fn binary(random: &mut Random, n_leaves: usize, n_labels: usize) -> String {
    let leaf = |random: &mut Random| format!("({})", label(random, n_labels));
    let mut open: Vec<String> = (0..n_leaves).map(|_| leaf(random)).collect();
    while open.len() > 1 {
        let left = open.swap_remove(random.below(open.len()));
        let right = open.swap_remove(random.below(open.len()));
        open.push(format!("({} {left} {right})", label(random, n_labels)));
    }
    open.swap_remove(0)
}

/// Phrases over parts of speech over words: labels that do not mix.
fn phrase(random: &mut Random, size: usize) -> String {
    if size < 3 {
        return format!("(t{} w{})", random.below(3), random.below(4));
    }
    let n = 1 + random.below(3);
    let below: Vec<_> = (0..n).map(|_| phrase(random, (size - 1) / n)).collect();
    format!("(p{} {})", random.below(3), below.join(" "))
}

/// Sentences over so few words and rules that productions, children and whole subtrees
/// come again and again: the longest lists and the most patterns.
pub fn poor_in_grammar(n: usize, seed: u64) -> Vec<String> {
    let mut random = Random(seed);
    let word = |random: &mut Random, tag: &str| format!("({tag} w{})", random.below(3));
    let mut tree = || {
        let mut phrase = word(&mut random, "N");
        for _ in 0..=random.below(12) {
            let tag = ["D", "N"][random.below(2)];
            let side = word(&mut random, tag);
            phrase = match random.below(4) {
                0 => format!("(P {phrase})"),
                1 => format!("(P {phrase} {side})"),
                _ => format!("(P {side} {phrase})"),
            };
        }
        format!("(R {phrase})")
    };
    (0..n).map(|_| tree()).collect()
}

// --- measurements ------------------------------------------------------------------------

type Rules = &'static [(usize, &'static [&'static str])];

/// A small probabilistic grammar: phrase -> (weight, right sides). Lower-case symbols
/// are parts of speech and get a word.
const GRAMMAR: &[(&str, Rules)] = &[
    ("ROOT", &[(6, &["S"]), (4, &["SBARQ"])]),
    (
        "S",
        &[(5, &["NP", "VP", "."]), (2, &["NP", "VP"]), (1, &["PP", "NP", "VP", "."])],
    ),
    ("SBARQ", &[(4, &["WHNP", "SQ", "."]), (2, &["WHADVP", "SQ", "."])]),
    ("WHNP", &[(3, &["wp"]), (2, &["wdt", "nn"]), (1, &["wdt", "nns"])]),
    ("WHADVP", &[(1, &["wrb"])]),
    ("SQ", &[(3, &["vbz", "NP"]), (2, &["vbd", "NP", "VP"]), (1, &["VP"])]),
    (
        "NP",
        &[
            (5, &["dt", "nn"]),
            (4, &["nnp"]),
            (3, &["nnp", "nnp"]),
            (3, &["dt", "jj", "nn"]),
            (3, &["NP", "PP"]),
            (2, &["nns"]),
            (1, &["NP", "SBAR"]),
            (1, &["prp"]),
        ],
    ),
    (
        "VP",
        &[
            (4, &["vbd", "NP"]),
            (3, &["vbz", "NP", "PP"]),
            (2, &["md", "VP"]),
            (2, &["vbz", "ADVP"]),
            (1, &["vbd", "SBAR"]),
            (1, &["vbd"]),
        ],
    ),
    ("PP", &[(1, &["in", "NP"])]),
    ("SBAR", &[(1, &["in", "S"])]),
    ("ADVP", &[(1, &["rb"])]),
];

/// `n` sentences from the grammar, words drawn by Zipf's law from 8,000.
pub fn generated(n: usize, seed: u64) -> Vec<String> {
    let mut random = Random(seed);
    (0..n).map(|_| sentence(&mut random)).collect()
}

fn sentence(random: &mut Random) -> String {
    let mut text = String::new();
    // (symbol, depth); None closes a bracket.
    let mut todo = vec![Some(("ROOT", 0))];
    while let Some(next) = todo.pop() {
        let Some((symbol, depth)) = next else {
            text.push(')');
            continue;
        };
        if !text.is_empty() {
            text.push(' ');
        }
        text.push('(');
        let Some((_, rules)) = GRAMMAR.iter().find(|(left, _)| *left == symbol) else {
            let rank = (8000f64.powf(random.unit())) as usize;
            let word = if symbol == "." { ".".into() } else { format!("w{rank}") };
            text.push_str(&symbol.to_uppercase());
            text.push(' ');
            text.push_str(&word);
            text.push(')');
            continue;
        };
        text.push_str(symbol);
        todo.push(None);
        // Deep down only the first rules, which end soon, so that sentences end.
        let rules = if depth > 8 { &rules[..1] } else { rules };
        let mut pick = random.below(rules.iter().map(|r| r.0).sum());
        for (weight, right) in rules {
            if pick < *weight {
                todo.extend(right.iter().rev().map(|&s| Some((s, depth + 1))));
                break;
            }
            pick -= weight;
        }
    }
    text
}

/// One column of a real data set, or None (said on standard error) where it is absent.
pub fn real(file: &str, column: usize) -> Option<Vec<String>> {
    let mut text = String::new();
    let file = std::fs::File::open(find(file)?).expect("readable");
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).expect("gzip");
    let field = |line: &str| line.split('\t').nth(column).expect("column").to_owned();
    Some(text.lines().map(field).collect())
}

/// A real data set's text file as it stands, or None where it is absent.
pub fn plain(file: &str) -> Option<String> {
    Some(std::fs::read_to_string(find(file)?).expect("readable"))
}

fn find(file: &str) -> Option<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let path = root.ancestors().map(|dir| dir.join("shared/data").join(file));
    let path = path.into_iter().find(|p| p.is_file());
    if path.is_none() {
        eprintln!("skipped: no shared/data/{file} beside the project");
    }
    path
}

/// Random trees of up to about `size` nodes: shapes and alphabets take turns (mixed,
/// one label everywhere, wide, deep, repeated subtrees, single nodes, sentences).
pub fn random_trees(n: usize, size: usize, seed: u64) -> Vec<String> {
    let mut random = Random(seed);
    (0..n)
        .map(|number| {
            let n_labels = [3, 1, 2, 6, 40][random.below(5)];
            let n_nodes = 1 + random.below(size);
            let label = |random: &mut Random| format!("l{}", random.below(n_labels));
            match number % 6 {
                // A root with leaves, or with a few inner nodes among them.
                0 => {
                    let mut tree = format!("({}", label(&mut random));
                    for _ in 1..n_nodes {
                        let (a, b) = (label(&mut random), label(&mut random));
                        match random.below(4) {
                            0 => tree.extend([" (", &a, " ", &b, ")"]),
                            _ => tree.extend([" ", &a]),
                        }
                    }
                    tree + ")"
                }
                // A chain with leaves beside it.
                1 => (1..n_nodes).fold("(l0)".into(), |below, _| {
                    let (a, b) = (label(&mut random), label(&mut random));
                    match random.below(3) {
                        0 => format!("({a} {below} {b})"),
                        _ => format!("({a} {below})"),
                    }
                }),
                // The same subtree again and again.
                2 => (1..=n_nodes.ilog2()).fold("(l0 l1)".into(), |below, _| {
                    let a = label(&mut random);
                    match random.below(3) {
                        0 => format!("({a} {below})"),
                        _ => format!("({a} {below} {below})"),
                    }
                }),
                3 if number % 12 == 3 => format!("({})", label(&mut random)),
                // Phrases over preterminals with a word each.
                3 => {
                    let mut tree = format!("(P{}", random.below(2));
                    for _ in 0..=n_nodes / 3 {
                        let word = random.below(4);
                        let label = format!("t{}", random.below(3));
                        let (open, close) = match random.below(3) {
                            0 => (" (P0 (", "))"),
                            _ => (" (", ")"),
                        };
                        let word = ["w0", "w1", "w2", "w3"][word];
                        tree.extend([open, &label, " ", word, close]);
                    }
                    tree + ")"
                }
                // Each next node below a random earlier one.
                _ => {
                    let mut below: Vec<Vec<usize>> = vec![Vec::new()];
                    for node in 1..n_nodes {
                        let parent = random.below(node);
                        below[parent].push(node);
                        below.push(Vec::new());
                    }
                    let mut text = vec![String::new(); n_nodes];
                    for node in (0..n_nodes).rev() {
                        let parts: Vec<_> =
                            below[node].iter().map(|&c| text[c].as_str()).collect();
                        let label = label(&mut random);
                        text[node] = format!("({label} {})", parts.join(" "));
                    }
                    text.swap_remove(0)
                }
            }
        })
        .collect()
}
