//! Forests made of others are those of the plain definition, and stored forests are the
//! same when they come back; arrays that were changed load whole, or are refused.

#![no_main]

#[path = "../../tests/rust/plain.rs"]
mod plain;

use libfuzzer_sys::fuzz_target;
use plain::Plain;
use source::{LABELS, Source, jobs};
use treekernel_rs::gram::{self, Options};
use treekernel_rs::kernel::SubsetTree;
use treekernel_rs::{Branching, Forest};

fuzz_target!(|bytes: &[u8]| {
    let mut source = Source::new(bytes);
    let mut forest = source.forest(LABELS, 4, 24);
    for _ in 0..4 {
        let was = trees(&forest);
        let plain = |change: &dyn Fn(&Plain) -> Plain| -> Vec<Plain> {
            was.iter().map(change).collect()
        };
        match source.below(6) {
            0 => {
                let sorted = forest.sorted().expect("a small forest");
                let own = trees(&sorted);
                let in_order = |trees: &[Plain]| -> Vec<Plain> {
                    trees.iter().map(in_order).collect()
                };
                assert_eq!(in_order(&own), in_order(&was), "sorted");
                assert!(sorted.sorted().expect("a small forest") == sorted, "twice");
                let mirrored = text(&plain(&mirrored)).sorted().expect("small");
                assert_eq!(trees(&mirrored), own, "the order of children");
                forest = sorted;
            }
            1 => {
                let count = source.flag();
                forest = forest.collapse_repeats(count).expect("a small forest");
                assert_eq!(trees(&forest), plain(&|tree| collapsed(tree, count)));
            }
            2 => {
                let used = forest.used_labels();
                let names: Vec<String> = used
                    .iter()
                    .map(|_| source.pick(&["a", "z", "", "( "]).into())
                    .collect();
                let of: Vec<(String, String)> = used
                    .iter()
                    .map(|&label| forest.nodes().labels().name(label).to_owned())
                    .zip(names.clone())
                    .collect();
                forest = forest.relabel(&names).expect("a small forest");
                assert_eq!(trees(&forest), plain(&|tree| relabelled(tree, &of)));
            }
            3 => {
                let (out, keeps) = (source.pick(LABELS), source.flag());
                let nodes = forest.nodes().clone();
                let goes = |label| nodes.labels().name(label) == out;
                forest = forest.prune(goes, keeps).expect("a small forest");
                assert_eq!(trees(&forest), plain(&|tree| pruned(tree, out, keeps)));
            }
            4 => {
                let (list, least) = (source.pick(LABELS), source.below(4));
                let branching = source.pick(&[Branching::Left, Branching::Right]);
                let nodes = forest.nodes().clone();
                let is_list = |label| nodes.labels().name(label) == list;
                forest = forest.binarize(is_list, least, branching).expect("small");
                let chains = |tree: &Plain| chained(tree, list, least, branching);
                assert_eq!(trees(&forest), plain(&chains));
            }
            _ => {
                let shared = forest.to_shared().expect("a small forest");
                let again = Forest::from_shared(&shared).expect("its own arrays");
                assert_eq!(again.to_shared().expect("small"), shared);
                assert_eq!(trees(&again), was);
                tampered(&mut source, &forest);
                forest = again;
            }
        }
    }
});

fn trees(forest: &Forest) -> Vec<Plain> {
    forest.roots().iter().map(|&root| Plain::of(forest.nodes(), root)).collect()
}

fn text(trees: &[Plain]) -> Forest {
    let texts: Vec<String> = trees
        .iter()
        .map(|tree| {
            let mut text = String::new();
            tree.write(&mut 0, &mut text);
            text
        })
        .collect();
    Forest::from_bracket_items(texts.iter().map(String::as_str)).expect("legal text")
}

fn in_order(tree: &Plain) -> Plain {
    let mut children: Vec<Plain> = tree.children.iter().map(in_order).collect();
    children.sort();
    Plain::new(&*tree.label, children)
}

fn mirrored(tree: &Plain) -> Plain {
    Plain::new(&*tree.label, tree.children.iter().rev().map(mirrored).collect())
}

fn collapsed(tree: &Plain, count: bool) -> Plain {
    let below: Vec<Plain> = tree.children.iter().map(|c| collapsed(c, count)).collect();
    let runs = below.chunk_by(|a, b| a == b).map(|run| match run.len() {
        n if n > 1 && count => Plain::new(format!("*{n}"), vec![run[0].clone()]),
        _ => run[0].clone(),
    });
    Plain::new(&*tree.label, runs.collect())
}

fn relabelled(tree: &Plain, of: &[(String, String)]) -> Plain {
    let name = of.iter().find(|(old, _)| *old == tree.label).expect("a used label");
    Plain::new(&*name.1, tree.children.iter().map(|c| relabelled(c, of)).collect())
}

/// A root that goes is the null tree, or its only child, or stays above several.
fn pruned(tree: &Plain, out: &str, keeps: bool) -> Plain {
    let mut left = in_place(tree, out, keeps);
    match left.len() {
        0 => Plain::new("", Vec::new()),
        1 => left.remove(0),
        _ => Plain::new(&*tree.label, left),
    }
}

fn in_place(tree: &Plain, out: &str, keeps: bool) -> Vec<Plain> {
    let below = || tree.children.iter().flat_map(|c| in_place(c, out, keeps)).collect();
    match (tree.label == out, keeps) {
        (false, _) => vec![Plain::new(&*tree.label, below())],
        (true, true) => below(),
        (true, false) => Vec::new(),
    }
}

fn chained(tree: &Plain, list: &str, least: usize, branching: Branching) -> Plain {
    let below: Vec<Plain> =
        tree.children.iter().map(|c| chained(c, list, least, branching)).collect();
    if tree.label == list && below.len() >= least.max(2) {
        chain(list, &below, branching)
    } else {
        Plain::new(&*tree.label, below)
    }
}

fn chain(list: &str, children: &[Plain], branching: Branching) -> Plain {
    let below = match (children, branching) {
        ([first, rest @ ..], Branching::Right) if !rest.is_empty() => {
            vec![first.clone(), chain(list, rest, branching)]
        }
        ([rest @ .., last], Branching::Left) if !rest.is_empty() => {
            vec![chain(list, rest, branching), last.clone()]
        }
        (one_or_none, _) => one_or_none.to_vec(),
    };
    Plain::new(list, below)
}

/// What files and pickles hold, changed: it loads whole, or is refused.
fn tampered(source: &mut Source<'_>, forest: &Forest) {
    let mut shared = forest.to_shared().expect("a small forest");
    for _ in 0..=source.below(3) {
        let (at, number) =
            (source.below(256), source.pick(&[0, 1, 2, 7, 1 << 31, u32::MAX]));
        let list = match source.below(5) {
            0 => &mut shared.labels,
            1 => &mut shared.ends,
            2 => &mut shared.children,
            3 => &mut shared.roots,
            _ => {
                shared.names.truncate(at % 4);
                continue;
            }
        };
        match (list.len(), source.below(4)) {
            (0, _) | (_, 0) => list.push(number),
            (n, 1) => list.truncate(at % n),
            (n, _) => list[at % n] = number,
        }
    }
    let Ok(loaded) = Forest::from_shared(&shared) else { return };
    assert_eq!(loaded.len(), shared.roots.len());
    let again = Forest::from_shared(&loaded.to_shared().expect("small"));
    assert!(again.expect("a forest's own arrays") == loaded);
    // Trees that were made to share may have very many nodes.
    if loaded.n_nodes().iter().all(|&n| n < 10_000) {
        let texts = loaded.to_brackets();
        assert_eq!(texts.len(), loaded.len());
        let kernel = SubsetTree::new(1e-3);
        let options = Options::default();
        let matrix = gram::gram_with(&kernel, &loaded, None, options, &jobs(1));
        assert!(matrix.is_ok_and(|matrix| matrix.iter().all(|k| k.is_finite())));
    }
}
