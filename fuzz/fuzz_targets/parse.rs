//! Text ends in the trees, or at the place, that the slow reader of the tests gives; and
//! what was read is the same after every way out of a forest and back.

#![no_main]

#[path = "../../tests/rust/plain.rs"]
mod plain;

use libfuzzer_sys::fuzz_target;
use plain::Plain;
use source::Source;
use treekernel_rs::{Error, Forest, Result, parse};

/// What texts are put together from, where the first byte says so.
const TOKENS: &[&str] = &[
    "(",
    ")",
    " ",
    "(",
    ")",
    "a",
    "b",
    "(a ",
    "(b ",
    "\\e",
    "\\(",
    "\\)",
    "\\\\",
    "\\ ",
    "\\",
    "\t",
    "\n",
    "\r\n",
    "\u{b}",
    "\u{c}",
    "\u{feff}",
    "\u{a0}",
    "é",
    "漢",
    "😀",
    "\0",
    "1234567",
    "12345678",
    "123456789",
    "(a b)",
    "(a (b c))",
    "((",
    "))",
    "()",
    " (x)",
    "(\\e)",
    "(a\\ b \\e)",
    "\u{3000}",
    "[",
    "\x1f",
];

fuzz_target!(|bytes: &[u8]| {
    let Some((&mode, rest)) = bytes.split_first() else { return };
    let written: Vec<u8>;
    let text = if mode == b'T' {
        let pieces = rest.iter().map(|&byte| TOKENS[usize::from(byte) % TOKENS.len()]);
        written = pieces.collect::<String>().into_bytes();
        &written
    } else {
        bytes
    };
    match std::str::from_utf8(text) {
        Ok(text) => {
            if let Some(forest) = agrees(text, Forest::from_brackets(text), false) {
                goes_round(&forest);
            }
            agrees(text, Forest::from_bracket_items([text]), true);
        }
        Err(error) => {
            let before = error.valid_up_to();
            for item in [None, Some(3)] {
                let Err(Error::Parse(error)) = parse::utf8(text, item) else {
                    panic!("{text:?} is not UTF-8");
                };
                assert!(error.offset <= before, "{error}: {text:?}");
            }
        }
    }
    in_parts(bytes);
});

/// Holds one result to the slow reader's, and hands on the forest if there is one.
fn agrees(text: &str, got: Result<Forest>, exactly_one: bool) -> Option<Forest> {
    match (got, plain::read(text, exactly_one)) {
        (Ok(forest), Ok(right)) => {
            assert_eq!(trees(&forest), right, "{text:?}");
            Some(forest)
        }
        (Err(Error::Parse(error)), Err((tree, offset))) => {
            assert_eq!((error.tree, error.offset), (tree, offset), "{error}: {text:?}");
            assert!(!error.to_string().is_empty());
            None
        }
        (got, right) => panic!("{text:?}: {got:?}, not {right:?}"),
    }
}

fn trees(forest: &Forest) -> Vec<Plain> {
    forest.roots().iter().map(|&root| Plain::of(forest.nodes(), root)).collect()
}

/// Text, arrays, selections, unions: the trees stay what they are.
fn goes_round(forest: &Forest) {
    let printed = forest.to_brackets();
    let again = Forest::from_bracket_items(printed.iter().map(String::as_str))
        .expect("a printed tree is legal bracketed text");
    assert_eq!(again.to_brackets(), printed);
    assert!(again == *forest);
    let arrays = forest.to_arrays();
    let back = Forest::from_arrays(
        &arrays.names,
        &arrays.labels,
        &arrays.parents,
        &arrays.offsets,
    )
    .expect("a forest's own arrays");
    assert!(back == *forest);
    let (starts, order) = forest.preorder();
    assert_eq!(starts.len(), forest.len() + 1);
    assert_eq!(order.len() as u64, forest.n_nodes().iter().sum::<u64>());
    let reversed = back.select((0..back.len()).rev());
    let both = reversed.concat(forest).expect("a small forest");
    assert_eq!(both.n_distinct(), forest.n_distinct());
    assert_eq!(both.used_labels().len(), forest.used_labels().len());
    for (tree, &root) in forest.roots().iter().enumerate() {
        let mirrored = both.len() / 2 - 1 - tree;
        assert!(both.tree_eq(mirrored, forest, tree));
        let (nodes, there) = (forest.nodes(), both.nodes());
        let other = both.roots()[mirrored];
        assert_eq!(nodes.find_in(root, there), Some(other));
        assert_eq!(nodes.content_hash(root), there.content_hash(other));
        assert_eq!(nodes.size(root), (starts[tree + 1] - starts[tree]) as u64);
        assert_eq!(nodes.depth(root), Plain::of(nodes, root).depth());
        assert_eq!(nodes.subtrees(root).len(), there.subtrees(other).len());
    }
}

/// A forest that grows item by item: a wrong item changes nothing of it.
fn in_parts(bytes: &[u8]) {
    let mut source = Source::new(bytes);
    let mut forest = Forest::default();
    let mut right = Vec::new();
    while !source.is_empty() {
        let tokens = (0..source.below(12)).map(|_| source.pick(TOKENS));
        let text: String = tokens.collect();
        let read = plain::read(&text, false);
        let pushed = forest.push_brackets(&text);
        assert_eq!(pushed.is_ok(), read.is_ok(), "{text:?}");
        right.extend(read.into_iter().flatten());
        assert_eq!(forest.len(), right.len());
    }
    assert_eq!(trees(&forest), right);
}
