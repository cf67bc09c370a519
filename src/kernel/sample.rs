//! Random trees for tests: every shape that a kernel may trip over.

use std::fmt::Write;

use crate::Forest;

/// SplitMix64: a named generator, so that a failure comes back.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// A permutation of `0..n`.
    pub(crate) fn order(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            order.swap(i, self.below(i + 1));
        }
        order
    }
}

/// Trees of up to about `size` nodes: mixed leaf and inner children, one label
/// everywhere, wide, deep, repeated subtrees, single nodes, sentences.
pub(crate) fn forest(random: &mut Random, n: usize, size: usize) -> Forest {
    let trees: Vec<String> = (0..n).map(|_| tree(random, size)).collect();
    Forest::from_bracket_items(trees.iter().map(String::as_str)).unwrap()
}

fn tree(random: &mut Random, size: usize) -> String {
    let size = 1 + random.below(size);
    match random.below(8) {
        0 | 1 => mixed(random, size, 4),
        2 => mixed(random, size, 1),
        3 => wide(random, size),
        4 => deep(random, size),
        5 => {
            let part = mixed(random, 1 + size / 4, 2);
            let other = mixed(random, 1 + size / 8, 2);
            format!("(a (b {part} {other}) {part} (a {part}))")
        }
        6 => sentence(random, size),
        _ => format!("({})", label(random, 3)),
    }
}

fn label(random: &mut Random, n: usize) -> char {
    (b'a' + random.below(n) as u8) as char
}

/// Nodes anywhere below the ones before.
fn mixed(random: &mut Random, size: usize, n_labels: usize) -> String {
    let parents: Vec<usize> = (0..size).map(|i| random.below(i.max(1))).collect();
    let mut texts = vec![String::new(); size];
    for node in (0..size).rev() {
        let text = format!("({}{})", label(random, n_labels), texts[node]);
        if node == 0 {
            return text;
        }
        let parent = &mut texts[parents[node]];
        parent.insert_str(0, &format!(" {text}"));
    }
    unreachable!("a tree has a root")
}

fn wide(random: &mut Random, size: usize) -> String {
    let mut text = String::from("(a");
    for _ in 1..size {
        let (x, y) = (label(random, 3), label(random, 3));
        if random.below(3) == 0 {
            write!(text, " ({x} {y})").unwrap();
        } else {
            write!(text, " {x}").unwrap();
        }
    }
    text + ")"
}

fn deep(random: &mut Random, size: usize) -> String {
    let mut text = format!("({})", label(random, 2));
    for _ in 1..size {
        let side = if random.below(4) == 0 { " c" } else { "" };
        text = format!("({} {text}{side})", label(random, 3));
    }
    text
}

/// Phrases over parts of speech over words: labels that are not mixed.
fn sentence(random: &mut Random, size: usize) -> String {
    if size < 3 {
        let (tag, word) = (label(random, 3), label(random, 4));
        return format!("(t{tag} w{word})");
    }
    let mut text = format!("(p{}", label(random, 3));
    let n = 1 + random.below(3);
    for _ in 0..n {
        write!(text, " {}", sentence(random, (size - 1) / n)).unwrap();
    }
    text + ")"
}
