//! The parser under fire: seeds, 200,000 mutations of them, and texts of a size and
//! shape that break recursion and quadratic loops. A reader that goes through the
//! grammar word by word says what is right, offsets of errors included.

use std::time::Duration;

use crate::corpus::Random;
use crate::plain::{self, Plain};
use crate::stopwatch::Stopwatch;
use treekernel_rs::{Error, Forest, ParseError, parse};

const ALPHABET: &[u8] =
    b"(((()))))  \t\n\r\x0b\x0c\\\\\\eeab\0\x1f\x21\x27\x2a\x5b\x5d\x7f";
const PIECES: &[&str] = &[
    "\u{feff}",
    "\u{a0}",
    "é",
    "😀",
    "\\e",
    "\\\\",
    "\\(",
    "\\)",
    "((",
    "))",
    "()",
    "(a b)",
    "1234567",
    "12345678",
    "123456789",
    "((a b))",
    " (x)",
    "\u{3000}",
    "\\ ",
    "( ",
];

fn seeds() -> Vec<(String, Vec<u8>)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../data/fuzz_seeds");
    let mut seeds: Vec<(String, Vec<u8>)> = std::fs::read_dir(folder)
        .expect(folder)
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read(path).unwrap())
        })
        .collect();
    seeds.sort();
    seeds
}

fn parse_error(error: Error) -> ParseError {
    match error {
        Error::Parse(error) => *error,
        other => panic!("not a parse error: {other}"),
    }
}

/// Line and column of an offset, counted the slow way.
fn place(text: &str, offset: usize) -> (usize, usize) {
    let (mut line, mut column) = (1, 1);
    for (_, char) in text.char_indices().take_while(|&(at, _)| at < offset) {
        (line, column) = if char == '\n' { (line + 1, 1) } else { (line, column + 1) };
    }
    (line, column)
}

fn trees(forest: &Forest) -> Vec<Plain> {
    forest.roots().iter().map(|&root| Plain::of(forest.nodes(), root)).collect()
}

/// Holds one result to the slow reader's. Returns whether the text is legal.
fn agrees(text: &str, got: Result<Forest, Error>, exactly_one: bool) -> bool {
    match (got, plain::read(text, exactly_one)) {
        (Ok(forest), Ok(right)) => {
            assert_eq!(trees(&forest), right, "{text:?}");
            let printed = forest.to_brackets();
            let again = Forest::from_brackets(&printed.join(" ")).expect(text);
            assert_eq!(trees(&again), right, "{text:?} printed as {printed:?}");
            assert_eq!(again.to_brackets(), printed, "{text:?}");
            true
        }
        (Err(error), Err((tree, offset))) => {
            let error = parse_error(error);
            assert!(text.is_char_boundary(error.offset), "{error} in {text:?}");
            assert_eq!(
                (error.tree, error.offset),
                (tree, offset),
                "{error} in {text:?}"
            );
            assert_eq!((error.line, error.column), place(text, offset), "{text:?}");
            if let Some(open) = error.open {
                assert!(open < (error.line, error.column), "{error} in {text:?}");
            }
            false
        }
        (got, right) => {
            panic!("{text:?} (one tree: {exactly_one}): {got:?}, not {right:?}")
        }
    }
}

/// All checks on one input; returns whether it is legal.
fn survives(bytes: &[u8]) -> bool {
    if let Ok(text) = std::str::from_utf8(bytes) {
        assert_eq!(parse::utf8(bytes, None), Ok(text));
        agrees(text, Forest::from_bracket_items([text]), true);
        return agrees(text, Forest::from_brackets(text), false);
    }
    // What comes first counts: the byte, unless the text before it is wrong already.
    let before = bytes.utf8_chunks().next().unwrap().valid();
    for item in [None, Some(3)] {
        let error = parse_error(parse::utf8(bytes, item).unwrap_err());
        let (tree, offset) = match plain::read(before, item.is_some()) {
            Ok(trees) => (trees.len(), before.len()),
            Err(place) => place,
        };
        let right = (item.unwrap_or(tree), offset);
        assert_eq!((error.tree, error.offset), right, "{error} in {bytes:?}");
        assert_eq!((error.line, error.column), place(before, offset), "{bytes:?}");
        assert_eq!(error.expected == "UTF-8", offset == before.len(), "{bytes:?}");
    }
    false
}

fn mutate(text: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let at = random.below(text.len() + 1);
    let end = (at + 1 + random.below(4)).min(text.len());
    match random.below(8) {
        0 if at < text.len() => text[at] = ALPHABET[random.below(ALPHABET.len())],
        1 if at < text.len() => text[at] ^= 1 << random.below(8),
        2 => drop(text.drain(at..end)),
        3 => {
            let piece = PIECES[random.below(PIECES.len())].bytes();
            drop(text.splice(at..at, piece));
        }
        4 => {
            let start = random.below(other.len() + 1);
            let stop = (start + random.below(40)).min(other.len());
            drop(text.splice(at..end, other[start..stop].iter().copied()));
        }
        5 => text.extend_from_within(at..end),
        _ => text.insert(at, ALPHABET[random.below(ALPHABET.len())]),
    }
}

#[test]
fn seeds_end_as_their_names_say() {
    let seeds = seeds();
    assert!(seeds.len() >= 20, "only {} seeds", seeds.len());
    for (name, bytes) in seeds {
        assert!(name.starts_with("legal-") || name.starts_with("broken-"), "{name}");
        assert_eq!(survives(&bytes), name.starts_with("legal-"), "{name}");
    }
}

#[test]
fn seeds_cut_off_anywhere_end_in_trees_or_a_place() {
    for (_, bytes) in seeds() {
        for end in 0..bytes.len() {
            survives(&bytes[..end]);
            survives(&bytes[end..]);
        }
    }
}

#[test]
fn mutations_end_in_trees_or_a_place() {
    // The long seed is all depth; twenty levels of it do as well, in less time.
    let mut seeds: Vec<Vec<u8>> =
        seeds().into_iter().map(|(_, bytes)| bytes).filter(|b| b.len() < 200).collect();
    seeds.push(format!("{}x{}", "(a".repeat(20), ")".repeat(20)).into_bytes());
    let mut random = Random(20_251);
    let (mut legal, mut pool) = (0, seeds.clone());
    for _ in 0..100_000 {
        let mut text = pool[random.below(pool.len())].clone();
        let other = random.below(seeds.len());
        for _ in 0..=random.below(3) {
            mutate(&mut text, &seeds[other], &mut random);
        }
        // Legal mutants live on, so that errors are also found far from the seeds.
        if survives(&text) {
            legal += 1;
            if text.len() < 120 {
                if pool.len() == 500 {
                    pool.swap_remove(random.below(500));
                }
                pool.push(text);
            }
        }
    }
    assert!(
        (10_000..90_000).contains(&legal),
        "{legal} of 100,000 are legal: one-sided"
    );
}

// --- size -------------------------------------------------------------------------

const MILLION: usize = 1_000_000;

/// The result of a stage, which must be there in less than two seconds: what is
/// quadratic in a million takes minutes.
fn timed<T>(stage: &str, run: impl FnOnce() -> T) -> T {
    let watch = Stopwatch::start();
    let result = run();
    let took = watch.took();
    eprintln!("{stage}: {took:.1?}");
    assert!(took < Duration::from_secs(2), "{stage} took {took:?}");
    result
}

/// Everything that walks a tree, once. Returns the number of distinct subtrees.
fn goes_through_all_stages(text: &str, n_nodes: usize, depth: usize) -> usize {
    let forest = timed("parse", || Forest::from_brackets(text)).unwrap();
    let printed = timed("print", || forest.to_brackets());
    let again = Forest::from_brackets(&printed[0]).unwrap();
    timed("compare trees", || assert!(forest.tree_eq(0, &again, 0)));
    timed("compare forests", || assert!(forest == again));
    timed("measure", || {
        assert_eq!(forest.n_nodes(), [n_nodes as u64]);
        assert_eq!(forest.nodes().depth(forest.roots()[0]), depth as u64);
    });
    let arrays = timed("to arrays", || forest.to_arrays());
    let (names, labels) = (&arrays.names, &arrays.labels);
    let (parents, offsets) = (&arrays.parents, &arrays.offsets);
    let back =
        timed("from arrays", || Forest::from_arrays(names, labels, parents, offsets));
    let back = back.unwrap();
    assert!(back == forest);
    let n_distinct = forest.n_distinct();
    timed("drop", || drop((forest, again, back)));
    n_distinct
}

#[test]
fn a_million_levels_are_a_tree_like_others() {
    let text = format!("{}{}", "(a".repeat(MILLION), ")".repeat(MILLION));
    assert_eq!(goes_through_all_stages(&text, MILLION, MILLION), MILLION);
}

#[test]
fn a_million_equal_children_are_a_tree_like_others() {
    let text = format!("(a{})", " a".repeat(MILLION));
    assert_eq!(goes_through_all_stages(&text, MILLION + 1, 2), 2);
}

#[test]
fn a_million_different_children_are_a_tree_like_others() {
    let children: Vec<String> = (0..MILLION).map(|child| child.to_string()).collect();
    let text = format!("(a {})", children.join(" "));
    assert_eq!(goes_through_all_stages(&text, MILLION + 1, 2), MILLION + 1);
}

/// Among a million hashes of 32 bits about a hundred pairs are equal by chance, so that
/// here, and in no smaller test, the store has to look at content to tell nodes apart.
#[test]
fn a_million_nodes_stay_apart_though_hashes_collide() {
    let parents: Vec<String> = (0..MILLION).map(|n| format!("({n} x)")).collect();
    let pairs: Vec<String> =
        (0..MILLION).map(|n| format!("(a{} {})", n / 1000, n % 1000)).collect();
    for (trees, n_leaves) in [(parents, 1), (pairs, 1000)] {
        let text = trees.concat();
        let forest = timed("parse", || Forest::from_brackets(&text)).unwrap();
        assert_eq!(forest.n_distinct(), MILLION + n_leaves);
        assert_eq!(forest.nodes().n_productions(), MILLION);
        assert!(timed("print", || forest.to_brackets()) == trees);
    }
}

#[test]
fn a_label_of_ten_megabytes_is_a_label_like_others() {
    for piece in ["0123456789", "\u{0}123456789", "é漢😀!", "\\("] {
        let label = piece.repeat(10 * MILLION / piece.len());
        let text = format!("(a {label})");
        assert_eq!(goes_through_all_stages(&text, 2, 2), 2);
        let name = label.replace("\\(", "(");
        let forest = Forest::from_brackets(&text).unwrap();
        assert!(forest.nodes().labels().get(&name).is_some());
    }
}

#[test]
fn a_million_brackets_without_labels_end_in_a_place() {
    let watch = Stopwatch::start();
    let error = |text: &str| {
        let error = parse_error(Forest::from_brackets(text).unwrap_err());
        (error.tree, error.line, error.column, error.offset)
    };
    assert_eq!(error(&"(".repeat(MILLION)), (0, 1, MILLION + 1, MILLION));
    assert_eq!(error(&")".repeat(MILLION)), (0, 1, 1, 0));
    assert_eq!(error(&"(\n".repeat(MILLION)), (0, MILLION + 1, 1, 2 * MILLION));
    let text = format!("{}a b{}", "(".repeat(MILLION), ")".repeat(MILLION));
    assert_eq!(Forest::from_brackets(&text).unwrap().to_brackets(), ["(a b)"]);
    assert_eq!(
        error(&text[..text.len() - 1]),
        (0, 1, 2 * MILLION + 3, 2 * MILLION + 2)
    );
    assert_eq!(error(&format!("{text})")), (1, 1, 2 * MILLION + 4, 2 * MILLION + 3));
    let took = watch.took();
    assert!(took < Duration::from_secs(2), "took {took:?}");
}
