//! Robinson-Foulds distance, against sets of taxa.

use std::collections::{BTreeMap, BTreeSet};

use crate::corpus::{Random, read};
use crate::registry::jobs;
use treekernel_rs::clades::RobinsonFoulds;
use treekernel_rs::gram::{self, Options};
use treekernel_rs::{Error, Forest};

type Group = BTreeSet<String>;

/// A random tree of all taxa with lengths in quarters, nodes of one child among them, and
/// what each branch has below it.
fn phylogeny(random: &mut Random, n_taxa: usize) -> (String, Vec<(Group, f64)>) {
    let mut branches = Vec::new();
    let mut nodes: Vec<(String, Group)> = Vec::new();
    let mut close = |random: &mut Random, text: &str, group: &Group| {
        let length = random.below(9) as f64 / 4.0;
        branches.push((group.clone(), length));
        text.replace('#', &length.to_string())
    };
    for taxon in 0..n_taxa {
        let (text, group) = (format!("(t{taxon}:#)"), [format!("t{taxon}")].into());
        nodes.push((close(random, &text, &group), group));
    }
    while nodes.len() > 1 {
        let n = (1 + random.below(3)).min(nodes.len());
        let (mut texts, mut group) = (Vec::new(), Group::new());
        for _ in 0..n {
            let (text, part) = nodes.swap_remove(random.below(nodes.len()));
            texts.push(text);
            group.extend(part);
        }
        let text = format!("(n:# {})", texts.join(" "));
        nodes.push((close(random, &text, &group), group));
    }
    (nodes.remove(0).0, branches)
}

/// The weights of all groups, by the definition.
fn weights(branches: &[(Group, f64)], measure: RobinsonFoulds) -> BTreeMap<Group, f64> {
    let all: Group = branches.iter().flat_map(|(group, _)| group.clone()).collect();
    let mut weights = BTreeMap::new();
    for (group, length) in branches {
        let others: Group = all.difference(group).cloned().collect();
        let least = if measure.is_rooted { 1 } else { 2 };
        let is_trivial = group.len() < 2 || others.len() < least;
        let name = if measure.is_rooted || group < &others { group } else { &others };
        if measure.is_weighted {
            *weights.entry(name.clone()).or_default() += length;
        } else if !is_trivial {
            weights.insert(name.clone(), 1.0);
        }
    }
    weights
}

#[test]
fn distances_are_differences_of_sets_of_taxa() {
    let mut random = Random(33);
    for n_taxa in [1, 2, 3, 4, 7, 12] {
        let trees: Vec<_> = (0..25).map(|_| phylogeny(&mut random, n_taxa)).collect();
        let with_lengths: Vec<&str> = trees.iter().map(|(text, _)| &text[..]).collect();
        let without: Vec<String> = with_lengths
            .iter()
            .map(|text| {
                let parts = text.split(':').map(|part| {
                    part.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.')
                });
                parts.collect()
            })
            .collect();
        for options in 0..8 {
            let [is_rooted, is_weighted, is_normalized] =
                [1, 2, 4].map(|bit| options & bit != 0);
            let measure = RobinsonFoulds { is_rooted, is_weighted, is_normalized };
            let forest = if is_weighted { read(&with_lengths) } else { read(&without) };
            let run = |n| {
                gram::gram_with(&measure, &forest, None, Options::default(), &jobs(n))
            };
            let matrix = run(1).unwrap();
            assert_eq!(matrix, run(2).unwrap());
            for (i, (_, x)) in trees.iter().enumerate() {
                for (j, (_, y)) in trees.iter().enumerate() {
                    let [x, y] = [x, y].map(|branches| weights(branches, measure));
                    let groups: BTreeSet<_> = x.keys().chain(y.keys()).collect();
                    let of = |weights: &BTreeMap<Group, f64>, group| {
                        weights.get(group).copied().unwrap_or(0.0)
                    };
                    let d: f64 =
                        groups.iter().map(|g| (of(&x, g) - of(&y, g)).abs()).sum();
                    let whole: f64 = x.values().chain(y.values()).sum();
                    let expected = match is_normalized {
                        true if whole == 0.0 => 0.0,
                        true => d / whole,
                        false => d,
                    };
                    // Quarters add up exactly.
                    assert_eq!(matrix[[i, j]], expected, "{measure:?} {i} {j}");
                }
            }
        }
    }
}

#[test]
fn labels_without_lengths_are_refused_where_lengths_count() {
    let measure = RobinsonFoulds { is_weighted: true, ..RobinsonFoulds::default() };
    let of = |text: &str| {
        gram::gram(&measure, &read(&[text]), None, Options::default()).map(|_| ())
    };
    assert_eq!(of("(n:? (a:1) (b:-0.5) (c:1e3))"), Ok(()));
    for label in ["b", "b:", "b:x", "b:inf", "b:NaN"] {
        let refused = of(&format!("(n:? (a:1) ({label}))"));
        assert!(matches!(refused, Err(Error::Parameter { name: "trees", .. })));
    }
    assert!(gram::gram(&measure, &Forest::default(), None, Options::default()).is_ok());
}
