//! Text that attacks: labels and subtrees chosen to collide, one tree without end.

use crate::registry::{asked, stop};
use std::fmt::Write as _;
use std::time::Duration;

use crate::stopwatch::Stopwatch;
use treekernel_rs::{Error, Forest};

/// The hash that tables had before it depended on random numbers.
mod unseeded {
    fn mix(hash: u64, word: u64) -> u64 {
        let product = u128::from(hash ^ word) * 0x9E37_79B9_7F4A_7C15;
        (product as u64) ^ ((product >> 64) as u64)
    }

    pub(super) fn label(name: [u8; 8]) -> u32 {
        (mix(u64::from_le_bytes(name), 0) >> 16) as u32
    }

    pub(super) fn node(label: u64, children: [u64; 2]) -> u32 {
        let hash = mix(0x517C_C1B7_2722_0A95, label ^ 2 << 32);
        let hash = mix(hash, children[0] << 32 | children[1]);
        (hash ^ hash >> 32) as u32
    }
}

/// Just fewer than make a table of 2^18 slots grow.
const N: usize = 190_000;

/// Whether a hash falls into the first 64th of a table of 2^18 slots, and so, more or
/// less, of smaller ones: `N` of them are one run of full slots.
fn is_chosen(hash: u32) -> bool {
    hash & 0x3_FFFF < 0x1000
}

fn names(is_wanted: impl Fn([u8; 8]) -> bool) -> Vec<String> {
    let name = |number: u64| {
        std::array::from_fn(|place| {
            b'a' + (number / 26u64.pow(place as u32) % 26) as u8
        })
    };
    let wanted = (0..).map(name).filter(|&name| is_wanted(name)).take(N);
    wanted.map(|name| String::from_utf8(name.to_vec()).unwrap()).collect()
}

fn pairs(is_wanted: impl Fn([u64; 2]) -> bool) -> Vec<[u64; 2]> {
    let all = (0..N_LEAVES).flat_map(|i| (0..N_LEAVES).map(move |j| [i, j]));
    all.filter(|&pair| is_wanted(pair)).take(N).collect()
}

/// Leaves of the first tree: their nodes are numbered from 0, and the label of what
/// comes after them is the next but one.
const N_LEAVES: u64 = 4_000;

fn nodes(pairs: &[[u64; 2]]) -> String {
    let mut text = String::from("(R");
    (0..N_LEAVES).for_each(|leaf| write!(text, " {leaf}").unwrap());
    text.push(')');
    for [i, j] in pairs {
        write!(text, "(A {i} {j})").unwrap();
    }
    text
}

fn seconds(text: &str, n_distinct: usize) -> Duration {
    let watch = Stopwatch::start();
    let forest = Forest::from_brackets(text).unwrap();
    let took = watch.took();
    assert_eq!(forest.n_distinct(), n_distinct);
    took
}

#[test]
fn chosen_labels_take_no_longer_than_others() {
    let labels = |names: &[String]| format!("(S {})", names.join(" "));
    let attack = labels(&names(|name| is_chosen(unseeded::label(name))));
    let harmless = labels(&names(|_| true));
    let (slow, fast) = (seconds(&attack, N + 1), seconds(&harmless, N + 1));
    assert!(slow < 10 * fast + Duration::from_secs(1), "{slow:?}, {fast:?}");
}

#[test]
fn chosen_subtrees_take_no_longer_than_others() {
    let label = N_LEAVES + 1;
    let attack = nodes(&pairs(|pair| is_chosen(unseeded::node(label, pair))));
    let harmless = nodes(&pairs(|_| true));
    let n_distinct = N + N_LEAVES as usize + 1;
    let (slow, fast) = (seconds(&attack, n_distinct), seconds(&harmless, n_distinct));
    assert!(slow < 10 * fast + Duration::from_secs(1), "{slow:?}, {fast:?}");
}

#[test]
fn ids_do_not_depend_on_the_tables_random_numbers() {
    let text = format!("(S {})", names(|_| true)[..5_000].join(" "));
    let forests: Vec<_> =
        (0..3).map(|_| Forest::from_brackets(&text).unwrap()).collect();
    for forest in &forests[1..] {
        assert_eq!(forest.preorder(), forests[0].preorder());
        assert_eq!(forest.to_arrays(), forests[0].to_arrays());
    }
}

#[test]
fn one_large_tree_is_interrupted_and_leaves_no_trace() {
    let star = format!("(S{})", " a".repeat(4 << 20));
    let comb = format!("{}x{}", "(A b ".repeat(1 << 20), ")".repeat(1 << 20));
    for text in [star, comb] {
        let mut forest = Forest::from_brackets("(S a)").unwrap();
        let mut calls = 0;
        let third = asked(|_, _| {
            calls += 1;
            if calls == 3 { Err(Error::Interrupted) } else { Ok(()) }
        });
        let stopped = forest.push_brackets_with(&text, &third);
        drop(third);
        assert_eq!((stopped, calls), (Err(Error::Interrupted), 3));
        let stopped = forest.push_bracket_items_with([&*text], &stop());
        assert_eq!(stopped, Err(Error::Interrupted));
        assert_eq!(forest.to_brackets(), ["(S a)"]);
        assert_eq!((forest.nodes().len(), forest.nodes().labels().len()), (2, 2));
        forest.push_brackets("(S a) (A b)").unwrap();
        assert_eq!(forest.to_brackets(), ["(S a)", "(S a)", "(A b)"]);
    }
}
