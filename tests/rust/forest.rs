//! The store of distinct subtrees against trees that own their children and compare by
//! derived equality.

use crate::registry::asked;
use std::collections::{BTreeMap, BTreeSet};

use crate::plain::{self, Plain};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use treekernel_rs::forest::ForestArrays;
use treekernel_rs::{Error, Forest, Label, NodeId, Result};

// --- trees --------------------------------------------------------------------------

/// Labels around the borders of scanner and alphabet: escapes, blanks, seven, eight and
/// nine bytes, NUL (which pads short keys), what looks blank but is not.
#[rustfmt::skip]
const LABELS: &[&str] = &[
    "", "\\e", "\\", "\\\\", "\\\\e", "\\ex", "e", "(", ")", "()", "\\(", "a\\", " ", "a b",
    "\t\n\u{b}\u{c}\r ", "\0", "a", "a\0", "a\0\0", "\0a", "\u{feff}", "\u{feff}a",
    "\u{a0}", "\u{3000}", "\u{1f}", "!", "'", "*", "\u{7f}", "é", "😀", "😀😀",
    "1234567", "12345678", "123456789", "123456780", "1234567\0", "12345678\0",
    "1234567\\", "12345678\\", "1234567(", "123456 8", "éééé", "NP", "-LRB-", "1\\/2",
    "a long label of more than two words",
];

fn label() -> impl Strategy<Value = String> + Clone {
    let char = select(
        "()\\e \t\n\r\0ab1\u{b}\u{c}\u{1f}\u{85}\u{a0}\u{feff}😀"
            .chars()
            .collect::<Vec<_>>(),
    );
    prop_oneof![
        4 => select(LABELS).prop_map(str::to_owned),
        2 => prop::collection::vec(char, 0..12).prop_map(String::from_iter),
        1 => any::<String>(),
    ]
}

fn tree(
    label: impl Strategy<Value = String> + Clone + 'static,
) -> BoxedStrategy<Plain> {
    let leaf = label.clone().prop_map(|label| Plain::new(label, vec![]));
    leaf.prop_recursive(6, 40, 5, move |child| {
        let children = prop::collection::vec(child, 0..6);
        (label.clone(), children)
            .prop_map(|(label, children)| Plain::new(label, children))
    })
    .boxed()
}

fn any_tree() -> BoxedStrategy<Plain> {
    let few = || select(&["a", "b"][..]).prop_map(str::to_owned);
    let leaves = prop::collection::vec(few(), 0..200);
    prop_oneof![
        4 => tree(label()),
        2 => tree(few()), // most subtrees occur again
        1 => label().prop_flat_map(|label| tree(Just(label))), // shape is all
        1 => label().prop_map(|label| Plain::new(label, vec![])),
        1 => (label(), leaves).prop_map(|(label, leaves)| {
            let leaf = |label| Plain::new(label, vec![]);
            Plain::new(label, leaves.into_iter().map(leaf).collect())
        }),
        1 => (label(), tree(label())).prop_map(|(label, t)| {
            let below = Plain::new(label.clone(), vec![t.clone()]);
            Plain::new(label, vec![t.clone(), below, t])
        }),
        1 => (label(), 1..60_usize).prop_map(|(label, depth)| {
            let leaf = Plain::new(label.clone(), vec![]);
            (0..depth).fold(leaf, |below, _| Plain::new(label.clone(), vec![below]))
        }),
    ]
    .boxed()
}

fn any_trees() -> impl Strategy<Value = Vec<Plain>> {
    prop::collection::vec(any_tree(), 1..6)
}

// --- the slow way -------------------------------------------------------------------

/// All nodes of all trees in preorder: what `Forest::preorder` has ids for.
fn subtrees(trees: &[Plain]) -> Vec<&Plain> {
    trees.iter().flat_map(|t| t.preorder()).map(|(node, _)| node).collect()
}

fn distinct(trees: &[Plain]) -> BTreeSet<&Plain> {
    subtrees(trees).into_iter().collect()
}

/// A production, written out.
fn production(node: &Plain) -> Vec<&String> {
    let below = node.children.iter().map(|child| &child.label);
    std::iter::once(&node.label).chain(below).collect()
}

/// Flat arrays with one name per node: the same name comes again and again.
fn arrays(trees: &[Plain]) -> ForestArrays {
    let mut arrays = ForestArrays::default();
    for tree in trees {
        let start = arrays.labels.len() as i64;
        arrays.offsets.push(start);
        for (node, parent) in tree.preorder() {
            arrays.labels.push(arrays.labels.len() as i64);
            arrays.names.push(node.label.clone());
            arrays.parents.push(parent.map_or(-1, |parent| start + parent as i64));
        }
    }
    arrays
}

fn from_arrays(arrays: &ForestArrays) -> Result<Forest> {
    let ForestArrays { names, labels, parents, offsets } = arrays;
    Forest::from_arrays(names, labels, parents, offsets)
}

fn write(trees: &[Plain], style: u64) -> String {
    let (mut text, mut style) = (String::new(), style);
    for tree in trees {
        tree.write(&mut style, &mut text);
    }
    text
}

/// The label of every node.
fn names(arrays: &ForestArrays) -> Vec<&String> {
    arrays.labels.iter().map(|&label| &arrays.names[label as usize]).collect()
}

/// The trees, read from text or from arrays: claims hold for either way in.
fn build(trees: &[Plain], style: u64) -> Forest {
    if style.count_ones().is_multiple_of(2) {
        from_arrays(&arrays(trees)).unwrap()
    } else {
        Forest::from_brackets(&write(trees, style)).unwrap()
    }
}

fn plain(forest: &Forest) -> Vec<Plain> {
    forest.roots().iter().map(|&root| Plain::of(forest.nodes(), root)).collect()
}

/// Whether all pairs agree on equality: left sides are equal iff right sides are.
fn agree_on_equality<A: Ord + Copy, B: Ord + Copy>(
    pairs: impl IntoIterator<Item = (A, B)>,
) -> bool {
    let (mut there, mut back) = (BTreeMap::new(), BTreeMap::new());
    pairs.into_iter().all(|(a, b)| {
        *there.entry(a).or_insert(b) == b && *back.entry(b).or_insert(a) == a
    })
}

fn ids_agree_with(forest: &Forest, trees: &[Plain]) -> bool {
    let ids = forest.preorder().1;
    let nodes = subtrees(trees);
    ids.len() == nodes.len() && agree_on_equality(nodes.into_iter().zip(ids))
}

/// All that a forest shows of itself, ids included.
fn everything(forest: &Forest) -> impl PartialEq + std::fmt::Debug + use<> {
    let nodes = forest.nodes();
    let ids = || nodes.ids();
    let names: Vec<String> = nodes.labels().names().map(str::to_owned).collect();
    let found: Vec<Option<Label>> =
        names.iter().map(|n| nodes.labels().get(n)).collect();
    let heads: Vec<_> =
        ids().map(|n| (nodes.label(n), nodes.children(n).to_vec())).collect();
    let productions: Vec<_> = ids()
        .map(|n| nodes.production(n).map(|p| (p, nodes.production_labels(p).to_vec())))
        .collect();
    (forest.roots().to_vec(), names, found, heads, productions, nodes.n_productions())
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

// --- claims -------------------------------------------------------------------------

proptest! {
    #![proptest_config(config())]

    #[test]
    fn printing_is_the_inverse_of_parsing(trees in any_trees(), style: u64) {
        let text = write(&trees, style);
        prop_assert_eq!(&plain::read(&text, false), &Ok(trees.clone()), "slow reader");
        let forest = Forest::from_brackets(&text).unwrap();
        prop_assert_eq!(&plain(&forest), &trees);
        let printed = forest.to_brackets();
        for glue in ["", "\n"] {
            let again = Forest::from_brackets(&printed.join(glue)).unwrap();
            prop_assert_eq!(&plain(&again), &trees);
            prop_assert_eq!(&again.to_brackets(), &printed);
        }
        let items = printed.iter().map(String::as_str);
        prop_assert_eq!(plain(&Forest::from_bracket_items(items).unwrap()), trees);
    }

    #[test]
    fn node_ids_are_equal_iff_subtrees_are(trees in any_trees(), style: u64) {
        let forest = build(&trees, style);
        prop_assert_eq!(&plain(&forest), &trees);
        prop_assert!(ids_agree_with(&forest, &trees));
        prop_assert_eq!(forest.nodes().len(), distinct(&trees).len());
        // Said once more in the plainest way, on as many pairs as time permits.
        let (ids, nodes) = (forest.preorder().1, subtrees(&trees));
        for (i, j) in (0..ids.len().min(60)).flat_map(|i| (0..i).map(move |j| (i, j))) {
            prop_assert_eq!(ids[i] == ids[j], nodes[i] == nodes[j]);
        }
    }

    #[test]
    fn preorder_starts_each_tree_where_its_root_is(trees in any_trees(), style: u64) {
        let forest = build(&trees, style);
        let (starts, order) = forest.preorder();
        prop_assert_eq!(starts.len(), trees.len() + 1);
        prop_assert_eq!(starts[trees.len()], order.len());
        for (tree, root) in forest.roots().iter().enumerate() {
            prop_assert_eq!(order[starts[tree]], *root);
            let size = trees[tree].preorder().len();
            prop_assert_eq!(starts[tree + 1] - starts[tree], size);
        }
    }

    #[test]
    fn order_of_insertion_changes_no_equality(
        (trees, order) in any_trees().prop_flat_map(|trees| {
            let order = Just((0..trees.len()).collect::<Vec<_>>()).prop_shuffle();
            (Just(trees), order)
        }),
        style: u64,
    ) {
        let forest = build(&trees, style);
        let reversed = (0..trees.len()).rev().collect();
        for order in [order, reversed] {
            let moved: Vec<Plain> = order.iter().map(|&t| trees[t].clone()).collect();
            let other = build(&moved, style.rotate_left(7) ^ 1);
            prop_assert!(ids_agree_with(&other, &moved));
            prop_assert_eq!(other.n_distinct(), forest.n_distinct());
            let (a, b) = (other.nodes(), forest.nodes());
            prop_assert_eq!(a.n_productions(), b.n_productions());
            prop_assert_eq!(&forest.select(order.iter().copied()), &other);
            prop_assert_eq!(forest == other, trees == moved);
        }
    }

    #[test]
    fn forests_with_other_stores_compare_like_their_trees(
        (mut left, mut right) in (any_trees(), any_trees()),
        shared in prop::option::of(any_tree()),
        style: u64,
    ) {
        left.extend(shared.clone());
        right.splice(0..0, shared);
        let (a, b) = (build(&left, style), build(&right, style.reverse_bits() ^ 1));

        let (one, two) = a.union_store(&b).unwrap();
        prop_assert!(one.shares_store(&two) && !a.shares_store(&b));
        prop_assert_eq!(one.roots(), a.roots(), "ids of the first stay");
        prop_assert_eq!((&plain(&one), &plain(&two)), (&left, &right));
        let both = [&left[..], &right].concat();
        let ids = [one.preorder().1, two.preorder().1].concat();
        prop_assert!(agree_on_equality(subtrees(&both).into_iter().zip(ids)));
        prop_assert_eq!(one.nodes().len(), distinct(&both).len());

        let all = a.concat(&b).unwrap();
        let mut grown = a.clone();
        grown.append(&b).unwrap();
        prop_assert!(grown == all);
        prop_assert!([a.clone(), b.clone()].into_iter().collect::<Forest>() == all);
        // Of one store: nothing is copied.
        grown.append(&grown.clone()).unwrap();
        prop_assert_eq!(grown.len(), 2 * all.len());
        prop_assert_eq!(grown.n_distinct(), all.n_distinct());
        prop_assert_eq!(&plain(&all), &both);
        prop_assert_eq!(&all, &build(&both, style >> 1));
        prop_assert_eq!(all.n_distinct(), distinct(&both).len());
        let inner = subtrees(&both).into_iter().filter(|node| !node.children.is_empty());
        let productions: BTreeSet<Vec<&String>> = inner.map(production).collect();
        prop_assert_eq!(all.nodes().n_productions(), productions.len());
        prop_assert_eq!(
            (plain(&a), plain(&b)), (left.clone(), right.clone()), "inputs stay",
        );

        for (i, x) in left.iter().enumerate() {
            for (j, y) in right.iter().enumerate() {
                prop_assert_eq!(a.tree_eq(i, &b, j), x == y);
                prop_assert_eq!(b.tree_eq(j, &a, i), x == y);
                prop_assert_eq!(one.tree_eq(i, &two, j), x == y);
            }
        }
        prop_assert_eq!(a == b, left == right);
        prop_assert_eq!(one == two, left == right);
    }

    #[test]
    fn a_tree_is_found_in_another_store_iff_it_is_there(
        (left, right) in (any_trees(), any_trees()), style: u64,
    ) {
        let right = [&right[..], &left[left.len() / 2..]].concat();
        let (a, b) = (build(&left, style), build(&right, style >> 1));
        let there: BTreeMap<&Plain, NodeId> =
            subtrees(&right).into_iter().zip(b.preorder().1).collect();
        for (node, id) in subtrees(&left).into_iter().zip(a.preorder().1).take(100) {
            prop_assert_eq!(a.nodes().find_in(id, b.nodes()), there.get(node).copied());
        }
    }

    #[test]
    fn content_hashes_are_equal_iff_trees_are(
        (left, right) in (any_trees(), any_trees()), style: u64,
    ) {
        // "Only if" is a matter of luck in 2^64: a failure is a weak hash.
        let hashes = |forest: &Forest| {
            let ids = forest.preorder().1.into_iter().take(100);
            ids.map(|id| forest.nodes().content_hash(id)).collect::<Vec<_>>()
        };
        let (a, b) = (build(&left, style), build(&right, style >> 1));
        let pairs = subtrees(&left).into_iter().zip(hashes(&a));
        let pairs = pairs.chain(subtrees(&right).into_iter().zip(hashes(&b)));
        prop_assert!(agree_on_equality(pairs));
    }

    #[test]
    fn arrays_go_out_as_they_came_in(trees in any_trees(), style: u64) {
        let (forest, right) = (build(&trees, style), arrays(&trees));
        let out = forest.to_arrays();
        prop_assert_eq!((&out.parents, &out.offsets), (&right.parents, &right.offsets));
        prop_assert_eq!(names(&out), names(&right));
        let distinct: BTreeSet<&String> = right.names.iter().collect();
        prop_assert_eq!(out.names.len(), distinct.len(), "each name once, none unused");
        let back = from_arrays(&out).unwrap();
        prop_assert_eq!(&plain(&back), &trees);
        prop_assert_eq!(back, forest);
    }

    #[test]
    fn arrays_of_a_part_name_only_its_labels(
        trees in any_trees(), at: Index, style: u64,
    ) {
        let tree = at.index(trees.len());
        let part = build(&trees, style).select([tree, tree]);
        let twice = [trees[tree].clone(), trees[tree].clone()];
        prop_assert_eq!(part.n_distinct(), distinct(&twice).len());
        let names = subtrees(&twice).into_iter().map(|node| &node.label);
        let out = part.to_arrays();
        let named: BTreeSet<&String> = out.names.iter().collect();
        prop_assert_eq!(named, names.collect::<BTreeSet<_>>());
        prop_assert_eq!(out.names.len(), part.used_labels().len());
        prop_assert_eq!(plain(&from_arrays(&out).unwrap()), twice);
    }

    #[test]
    fn changed_arrays_are_read_iff_they_are_a_preorder(
        trees in any_trees(), at: Index, value in -3_i64..60, which in 0..3_usize,
    ) {
        let mut changed = arrays(&trees);
        let array = match which {
            0 => &mut changed.labels,
            1 => &mut changed.parents,
            _ => &mut changed.offsets,
        };
        let at = at.index(array.len());
        array[at] = value;
        match from_arrays(&changed) {
            Ok(forest) => {
                prop_assert!(is_valid(&changed), "accepted");
                let out = forest.to_arrays();
                prop_assert_eq!(&out.parents, &changed.parents);
                prop_assert_eq!(&out.offsets, &changed.offsets);
                prop_assert_eq!(names(&out), names(&changed));
            }
            Err(Error::Array { array, index, .. }) => {
                prop_assert!(!is_valid(&changed), "refused: {array}[{index}]");
            }
            Err(other) => prop_assert!(false, "{other}"),
        }
    }

    #[test]
    fn sizes_are_those_counted_by_hand(trees in any_trees(), style: u64) {
        let forest = build(&trees, style);
        let nodes = forest.nodes();
        let size = |tree: &Plain| tree.preorder().len() as u64;
        prop_assert_eq!(forest.len(), trees.len());
        prop_assert_eq!(forest.n_nodes(), trees.iter().map(size).collect::<Vec<_>>());
        prop_assert_eq!(forest.select([0]).n_nodes(), [size(&trees[0])]);
        prop_assert_eq!(forest.n_distinct(), distinct(&trees).len());
        let sizes = nodes.sizes();
        let ids = forest.preorder().1;
        for (tree, id) in subtrees(&trees).into_iter().zip(ids).take(100) {
            let leaf = |t: &Plain| t.children.is_empty();
            prop_assert_eq!(nodes.size(id), size(tree));
            prop_assert_eq!(sizes[id.index()], size(tree));
            prop_assert_eq!(nodes.depth(id), tree.depth());
            let below = nodes.subtrees(id);
            prop_assert!(below.is_sorted());
            prop_assert_eq!(below.len(), distinct(std::slice::from_ref(tree)).len());
            prop_assert_eq!(nodes.name(id), &tree.label);
            prop_assert_eq!(nodes.is_leaf(id), leaf(tree));
            let preterminal = !leaf(tree) && tree.children.iter().all(leaf);
            prop_assert_eq!(nodes.is_preterminal(id), preterminal);
        }
    }

    #[test]
    fn productions_are_equal_iff_label_and_child_labels_are(
        trees in any_trees(), style: u64,
    ) {
        let forest = build(&trees, style);
        let nodes = forest.nodes();
        let mut pairs = Vec::new();
        for (tree, id) in subtrees(&trees).into_iter().zip(forest.preorder().1) {
            let id_of_production = nodes.production(id);
            prop_assert_eq!(id_of_production.is_none(), tree.children.is_empty());
            let Some(id) = id_of_production else { continue };
            let right = production(tree);
            let written = nodes.production_labels(id).iter();
            let written = written.map(|&label| nodes.labels().name(label));
            prop_assert!(written.eq(right.iter().copied()));
            pairs.push((right, id));
        }
        let n_distinct = pairs.iter().map(|p| p.1).collect::<BTreeSet<_>>().len();
        prop_assert_eq!(n_distinct, nodes.n_productions());
        prop_assert!(agree_on_equality(pairs.iter().map(|(names, p)| (names, *p))));
    }

    #[test]
    fn children_have_smaller_ids_than_parents(
        (left, right) in (any_trees(), any_trees()), style: u64,
    ) {
        let (a, b) = (build(&left, style), build(&right, style >> 1));
        for forest in [&a, &b, &a.concat(&b).unwrap()] {
            let nodes = forest.nodes();
            for id in nodes.ids() {
                prop_assert!(nodes.children(id).iter().all(|&child| child < id));
            }
        }
    }

    #[test]
    fn a_failed_push_leaves_no_trace(
        (before, lost, after) in (any_trees(), any_trees(), any_trees()),
        tail in select(BROKEN),
        empty: bool,
        style: u64,
    ) {
        let start = || if empty { Forest::default() } else { build(&before, style) };
        let (mut forest, mut pristine) = (start(), start());
        let right = everything(&forest);
        // Other trees, then known ones in new places, then the error.
        let text = write(&lost, style) + &write(&before[..1], style) + tail;
        let error = forest.push_brackets(&text).unwrap_err();
        let Error::Parse(place) = error else { panic!("{error}") };
        prop_assert!(place.offset >= text.len() - tail.len());
        prop_assert_eq!(&everything(&forest), &right);

        // (A blank first: a byte-order mark may start an item.)
        let items = [write(&lost[..1], style), format!(" {tail}")];
        let items = items.iter().map(String::as_str);
        prop_assert!(forest.push_bracket_items(items).is_err());
        prop_assert_eq!(&everything(&forest), &right);
        for tree in subtrees(&lost) {
            let known = pristine.nodes().labels().get(&tree.label);
            prop_assert_eq!(forest.nodes().labels().get(&tree.label), known);
        }

        // What comes later, the lost trees too, gets the ids it would have got.
        for trees in [&after, &lost, &before] {
            let text = write(trees, style);
            forest.push_brackets(&text).unwrap();
            pristine.push_brackets(&text).unwrap();
            prop_assert_eq!(&everything(&forest), &everything(&pristine));
        }
        let kept = if empty { vec![] } else { before.clone() };
        let all = [kept, after, lost, before].concat();
        prop_assert_eq!(&plain(&forest), &all);
        prop_assert!(ids_agree_with(&forest, &all));
    }

    #[test]
    fn pushing_to_a_copy_leaves_the_original_alone(
        (before, more) in (any_trees(), any_trees()), style: u64,
    ) {
        let forest = build(&before, style);
        let right = everything(&forest);
        let mut copy = forest.clone();
        prop_assert!(copy.shares_store(&forest));
        copy.push_brackets(&write(&more, style)).unwrap();
        prop_assert_eq!(everything(&forest), right);
        prop_assert_eq!(&copy.roots()[..before.len()], forest.roots());
        prop_assert_eq!(plain(&copy), [before, more].concat());
    }
}

/// Tails no tree can end with, whatever trees stand before them.
const BROKEN: &[&str] = &[
    "(",
    ")",
    "()",
    "x",
    "\0",
    "(new",
    "(new newer",
    "(a (NP new",
    "(S ((A a)))",
    "((A a) b)",
    "((A a) (B b))",
    "(a\\)",
    "(S (A a) new (",
    "\u{feff}(a)",
    "\\(a)",
];

/// Whether arrays hold trees in preorder, by the definition: a node's parent is on the
/// path to the node before.
fn is_valid(arrays: &ForestArrays) -> bool {
    let n = arrays.labels.len() as i64;
    let offsets = &arrays.offsets;
    let ordered = offsets[0] == 0 && offsets.is_sorted_by(|a, b| a < b);
    if !ordered || offsets.iter().any(|&o| o >= n) {
        return false;
    }
    let mut path: Vec<i64> = Vec::new();
    let is_preorder = (0..n).all(|at| {
        let parent = arrays.parents[at as usize];
        if offsets.contains(&at) {
            path = vec![at];
            return parent == -1;
        }
        while path.last().is_some_and(|&last| last != parent) {
            path.pop();
        }
        path.push(at);
        path.len() > 1
    });
    is_preorder && arrays.labels.iter().all(|&l| (0..n).contains(&l))
}

#[test]
fn an_empty_forest_has_nothing_and_joins_with_all() {
    let none = Forest::default();
    assert!(none.is_empty() && none.nodes().is_empty());
    assert_eq!((none.n_nodes(), none.n_distinct()), (vec![], 0));
    assert_eq!(none.to_brackets(), Vec::<String>::new());
    assert_eq!(none.preorder(), (vec![0], vec![]));
    assert_eq!(from_arrays(&none.to_arrays()), Ok(Forest::default()));
    assert_eq!(Forest::from_bracket_items([]), Ok(Forest::default()));
    let some = Forest::from_brackets("(S (A a)) (x)").unwrap();
    assert_eq!(some.concat(&none), Ok(some.clone()));
    assert_eq!(none.concat(&some), Ok(some.clone()));
    assert_ne!(some, none);
    assert_eq!(std::iter::empty::<Forest>().collect::<Forest>(), none);
}

#[test]
fn texts_are_collected_into_one_forest_or_the_first_error() {
    let read = |texts: &[&str]| {
        texts.iter().copied().map(Forest::from_brackets).collect::<Result<Forest>>()
    };
    let whole = Forest::from_brackets("(S (A a)) (x) (x) (B (A a))").unwrap();
    assert_eq!(read(&["(S (A a)) (x)", "(x) (B (A a))"]), Ok(whole.clone()));
    let errors = ["(a", "(a))"].map(|text| Forest::from_brackets(text).unwrap_err());
    assert_eq!(read(&["(x)", "(a", "(a))"]), Err(errors[0].clone()));
    assert_ne!(errors[0], errors[1]);
    // Parts of one store stay in it.
    let parts = [2, 0].map(|tree| whole.select([tree]));
    let joined: Forest = parts.into_iter().collect();
    assert!(joined.shares_store(&whole));
    assert_eq!(joined.to_brackets(), ["(x)", "(S (A a))"]);
}

#[test]
fn children_of_one_label_are_told_apart_by_their_number() {
    let chain = |n| Plain::new("a", vec![Plain::new("a", vec![]); n]);
    let trees: Vec<Plain> = (0..200).map(chain).collect();
    let forest = Forest::from_brackets(&write(&trees, 0)).unwrap();
    assert!(ids_agree_with(&forest, &trees));
    assert_eq!(forest.n_distinct(), 200);
}

#[test]
fn thousands_of_labels_that_differ_in_one_byte_are_told_apart() {
    let names: Vec<String> = (0..20_000).map(|n| format!("{n}")).collect();
    let long = names.iter().map(|n| format!("a label longer than a word {n}"));
    let padded = names.iter().map(|n| format!("{n}\0"));
    let names: Vec<String> = names.iter().cloned().chain(long).chain(padded).collect();
    let leaves = names.iter().map(|name| Plain::new(name.clone(), vec![])).collect();
    let trees = [Plain::new("root", leaves)];
    let forest = Forest::from_brackets(&write(&trees, 3)).unwrap();
    assert!(ids_agree_with(&forest, &trees));
    for name in &names {
        let label = forest.nodes().labels().get(name).unwrap();
        assert_eq!(forest.nodes().labels().name(label), name);
    }
}

#[test]
fn arrays_of_different_lengths_are_refused() {
    let error = Forest::from_arrays(&["a"], &[0, 0], &[-1], &[0]).unwrap_err();
    assert!(matches!(error, Error::Length { array: "parents", got: 1, .. }), "{error}");
    let refused =
        |labels: &[i64], parents: &[i64], offsets: &[i64]| match Forest::from_arrays(
            &["a"],
            labels,
            parents,
            offsets,
        ) {
            Err(Error::Array { array, index, .. }) => (array, index),
            other => panic!("{other:?}"),
        };
    assert_eq!(refused(&[0], &[-1], &[]), ("offsets", 0));
    assert_eq!(refused(&[], &[], &[0]), ("offsets", 0));
    assert_eq!(refused(&[0, i64::MIN], &[-1, 0], &[0]), ("labels", 1));
    assert_eq!(refused(&[0, 0], &[-1, i64::MAX], &[0]), ("parents", 1));
    assert_eq!(refused(&[0, 0], &[-1, i64::MIN], &[0]), ("parents", 1));
    assert_eq!(refused(&[0, 0], &[-1, -1], &[0, i64::MAX]), ("offsets", 1));
}

#[test]
fn a_check_that_says_stop_changes_nothing() {
    let tree = |n: usize| format!("(S (A a{n}) (B b))\n");
    let items: Vec<String> = (0..200_000).map(tree).collect();
    let text = items.concat();
    let mut forest = Forest::from_brackets("(S (A a1) (B b)) (x)").unwrap();
    let right = everything(&forest);
    for patience in 0..2 {
        let mut calls = 0;
        let check = asked(|_, _| {
            calls += 1;
            if calls > patience { Err(Error::Interrupted) } else { Ok(()) }
        });
        assert_eq!(forest.push_brackets_with(&text, &check), Err(Error::Interrupted));
        drop(check);
        assert_eq!(calls, patience + 1);
        assert_eq!(everything(&forest), right);
        calls = 0;
        let check = asked(|_, _| {
            calls += 1;
            if calls > patience { Err(Error::Interrupted) } else { Ok(()) }
        });
        let pushed =
            forest.push_bracket_items_with(items.iter().map(String::as_str), &check);
        assert_eq!(pushed, Err(Error::Interrupted));
        drop(check);
        assert_eq!(calls, patience + 1);
        assert_eq!(everything(&forest), right);
    }
    forest.push_brackets(&text).unwrap();
    assert_eq!(forest.len(), 200_002);
    assert_eq!(forest.roots()[0], forest.roots()[3], "(S (A a1) (B b)) is known");
}
