//! Tree edit distance, against all mappings of small trees.

use crate::corpus::{Random, binary, forest, read, trees, turning};
use crate::edit_baseline::{Apted, Plain, Shape, zhang_shasha};
use crate::registry::jobs;
use treekernel_rs::edit::{
    EditDistance, Mapping, NodeCosts, Normalization, RenameCosts,
};
use treekernel_rs::gram::{self, Measure, Options};
use treekernel_rs::{Context, Error, Forest, neighbours};

/// Costs of labels that are single letters, as functions.
struct Costs {
    rename: fn(&str, &str) -> f64,
    delete: fn(&str) -> f64,
    insert: fn(&str) -> f64,
}

/// The number of a label's letter.
fn kind(label: &str) -> f64 {
    f64::from(label.as_bytes()[0] % 4)
}

const UNIT: Costs = Costs {
    rename: |a, b| if a == b { 0.0 } else { 1.0 },
    delete: |_| 1.0,
    insert: |_| 1.0,
};
const WEIGHTED: Costs = Costs {
    rename: |a, b| if a == b { 0.0 } else { 2.5 },
    delete: |_| 2.0,
    insert: |_| 1.0,
};
const FREE_RENAMING: Costs = Costs { rename: |_, _| 0.0, ..UNIT };
const NO_RENAMING: Costs =
    Costs { rename: |a, b| if a == b { 0.0 } else { 5.0 }, ..UNIT };
const BY_KIND: Costs = Costs {
    rename: |a, b| {
        if a == b { 0.0 } else { 0.5 + (kind(a) - kind(b)).abs() / 4.0 }
    },
    delete: |label| 0.5 + kind(label) / 4.0,
    insert: |_| 1.0,
};

/// The pairs of the specification, with what all published implementations say of them.
const WORKED: [(&str, &str, [f64; 5]); 10] = [
    ("(f (d (a) (c (b))) (e))", "(f (c (d (a) (b))) (e))", [2.0, 3.0, 2.0, 2.0, 2.25]),
    ("(a)", "(b)", [1.0, 2.5, 0.0, 2.0, 0.75]),
    ("(a (b) (c))", "(a (c) (b))", [2.0, 3.0, 0.0, 2.0, 1.5]),
    ("(a (b (c (d))))", "(a (b) (c) (d))", [4.0, 6.0, 4.0, 4.0, 3.5]),
    (
        "(S (NP (D the) (N dog)) (VP (V barks)))",
        "(S (NP (D the) (N cat)) (VP (V barks)))",
        [1.0, 2.5, 0.0, 2.0, 1.25],
    ),
    ("(a (b) (c) (d) (e))", "(a (x (b) (c)) (d) (e))", [1.0; 5]),
    ("(a (a (a)))", "(b (b (b)))", [3.0, 7.5, 0.0, 6.0, 2.25]),
    (
        "(r (x (a) (b)) (y (c) (d)))",
        "(r (x (a)) (z (b) (c)) (d))",
        [4.0, 6.0, 2.0, 4.0, 3.25],
    ),
    ("(a (b (c) (d)) (e (f) (g (h))))", "(h)", [7.0, 14.0, 7.0, 7.0, 6.5]),
    ("(p (q (a)) (q (a)) (q (a)))", "(p (q (a)))", [4.0, 8.0, 4.0, 4.0, 3.0]),
];

fn labels(forest: &Forest) -> Vec<String> {
    forest.nodes().labels().names().map(str::to_owned).collect()
}

impl Costs {
    /// The measure, with a cost for each label and pair of labels.
    fn by_label(&self, labels: &[String]) -> EditDistance {
        let of = |cost: fn(&str) -> f64| {
            let named = labels.iter().map(|label| (label.clone(), cost(label)));
            NodeCosts::by_label(named, 0.25).unwrap()
        };
        let pairs = labels.iter().flat_map(|a| {
            labels.iter().map(|b| (a.clone(), b.clone(), (self.rename)(a, b)))
        });
        let rename = RenameCosts::by_labels(pairs, 0.25).unwrap();
        EditDistance::new(rename, of(self.insert), of(self.delete))
    }

    /// The measure, with a function for renaming: which is not asked of equal labels.
    fn by_function(&self, labels: &[String]) -> EditDistance {
        let of = |cost: fn(&str) -> f64| {
            let named = labels.iter().map(|label| (label.clone(), cost(label)));
            NodeCosts::by_label(named, 7.0).unwrap()
        };
        let rename = self.rename;
        let rename = RenameCosts::function(move |a, b| {
            assert_ne!(a, b);
            Ok(rename(a, b))
        });
        EditDistance::new(rename, of(self.insert), of(self.delete))
    }
}

fn pair(measure: &EditDistance, a: &str, b: &str) -> f64 {
    let [a, b] = [a, b].map(|text| read(&[text]));
    measure.pair(&a, &b).unwrap()
}

#[test]
fn worked_pairs_have_the_published_distances() {
    let constant = [
        EditDistance::default(),
        EditDistance::new(2.5, 1.0, 2.0),
        EditDistance::new(0.0, 1.0, 1.0),
        EditDistance::new(5.0, 1.0, 1.0),
    ];
    let costs = [UNIT, WEIGHTED, FREE_RENAMING, NO_RENAMING, BY_KIND];
    for (a, b, distances) in WORKED {
        let labels = labels(&read(&[a, b]));
        for ((at, distance), costs) in distances.into_iter().enumerate().zip(&costs) {
            if let Some(measure) = constant.get(at) {
                assert_eq!(pair(measure, a, b), distance, "{a} {b}");
            }
            assert_eq!(pair(&costs.by_label(&labels), a, b), distance, "{a} {b}");
            assert_eq!(pair(&costs.by_function(&labels), a, b), distance, "{a} {b}");
        }
    }
}

/// A tree, node by node in preorder: its label, and the end of its subtree.
type Nodes = Vec<(char, usize)>;

/// A random tree of up to so many nodes, and its text.
fn small_tree(random: &mut Random, most: usize) -> (Nodes, String) {
    let n = 1 + random.below(most);
    let mut nodes: Nodes = Vec::new();
    let mut text = String::new();
    // The ends of subtrees are drawn as the depth to which each next node goes back.
    let mut open: Vec<usize> = Vec::new();
    for node in 0..n {
        let depth = if node == 0 { 0 } else { 1 + random.below(open.len()) };
        while open.len() > depth {
            nodes[open.pop().unwrap()].1 = node;
            text.push(')');
        }
        let label = ['a', 'b', 'c'][random.below(3)];
        text.extend(['(', label]);
        nodes.push((label, 0));
        open.push(node);
    }
    for node in open {
        nodes[node].1 = n;
        text.push(')');
    }
    (nodes, text)
}

/// What renaming, deleting and inserting cost, by the letters.
type LetterCosts<'a> =
    (&'a dyn Fn(char, char) -> f64, &'a dyn Fn(char) -> f64, &'a dyn Fn(char) -> f64);

/// What the cheapest of all Tai mappings costs, by trying them all.
fn cheapest(a: &Nodes, b: &Nodes, costs: LetterCosts<'_>) -> f64 {
    fn extend(
        i: usize,
        (a, b): (&Nodes, &Nodes),
        mapping: &mut Vec<(usize, usize)>,
        costs: LetterCosts<'_>,
    ) -> f64 {
        let (rename, delete, insert) = costs;
        let Some(&(label, _)) = a.get(i) else {
            let is_new = |j: &usize| mapping.iter().all(|pair| pair.1 != *j);
            return (0..b.len()).filter(is_new).map(|j| insert(b[j].0)).sum();
        };
        let mut least = delete(label) + extend(i + 1, (a, b), mapping, costs);
        let is_below = |nodes: &Nodes, x: usize, y: usize| y < x && x < nodes[y].1;
        for j in 0..b.len() {
            // Nodes of `a` come in preorder, so those of `b` do, and stand below the same.
            let fits = mapping
                .iter()
                .all(|&(x, y)| y < j && is_below(a, i, x) == is_below(b, j, y));
            if fits {
                mapping.push((i, j));
                let rest = extend(i + 1, (a, b), mapping, costs);
                least = least.min(rename(label, b[j].0) + rest);
                mapping.pop();
            }
        }
        least
    }
    extend(0, (a, b), &mut Vec::new(), costs)
}

#[test]
fn distances_are_those_of_the_cheapest_of_all_mappings() {
    let mut random = Random(28);
    let place = |label: char| label as usize - 'a' as usize;
    for round in 0..5_000 {
        let ((a, first), (b, second)) =
            (small_tree(&mut random, 6), small_tree(&mut random, 6));
        // Quarters: asymmetric, no metric, zeros, and staying may cost something.
        let mut quarters = |most: usize| random.below(most + 1) as f64 / 4.0;
        let delete: Vec<f64> = (0..3).map(|_| quarters(8)).collect();
        let insert: Vec<f64> = (0..3).map(|_| quarters(8)).collect();
        let (one, has_one) = (quarters(8), round % 2 == 0);
        let rename: Vec<f64> = (0..9)
            .map(|at| if has_one { f64::from(at % 4 != 0) * one } else { quarters(16) })
            .collect();
        let named = |costs: &[f64]| {
            let named = ["a", "b", "c"].map(str::to_owned).into_iter();
            NodeCosts::by_label(named.zip(costs.to_vec()), 9.0).unwrap()
        };
        let constant = round % 4 == 0;
        let (delete, insert) = if constant {
            (vec![delete[0]; 3], vec![insert[0]; 3])
        } else {
            (delete, insert)
        };
        let renaming = if has_one {
            one.into()
        } else {
            let name = |at: usize| char::from(b'a' + at as u8).to_string();
            let pairs = rename.iter().enumerate();
            let pairs = pairs.map(|(at, &cost)| (name(at / 3), name(at % 3), cost));
            RenameCosts::by_labels(pairs, 9.0).unwrap()
        };
        let measure = if constant {
            EditDistance::new(renaming, insert[0], delete[0])
        } else {
            EditDistance::new(renaming, named(&insert), named(&delete))
        };
        let best = cheapest(
            &a,
            &b,
            (&|x, y| rename[place(x) * 3 + place(y)], &|x| delete[place(x)], &|x| {
                insert[place(x)]
            }),
        );
        assert_eq!(
            pair(&measure, &first, &second),
            best,
            "{first} {second} {measure:?}"
        );
    }
}

#[test]
fn all_ways_to_a_value_have_its_bits() {
    let mut random = Random(5);
    let mut texts = trees(&mut random, 40, 30);
    texts.extend_from_within(3..9);
    let x = read(&texts);
    let y = forest(&mut random, 15, 30);
    let symmetric = EditDistance::default();
    let asymmetric =
        EditDistance::new(0.3, 0.7, 1.1).with_normalization(Some(Normalization::Sum));
    for measure in [symmetric, asymmetric] {
        for y in [None, Some(&y)] {
            let columns = y.unwrap_or(&x);
            let matrix = gram::gram(&measure, &x, y, Options::default()).unwrap();
            for n in [2, 3] {
                let again =
                    gram::gram_with(&measure, &x, y, Options::default(), &jobs(n));
                assert_eq!(again.unwrap(), matrix);
            }
            let (i, j): (Vec<_>, Vec<_>) = (0..x.len() * columns.len())
                .map(|n| (n / columns.len(), n % columns.len()))
                .unzip();
            let (values, _) = neighbours::pairs_with(
                &measure,
                &x,
                y,
                (&i, &j),
                Options::default(),
                &jobs(2),
            )
            .unwrap();
            for ((i, j), value) in i.into_iter().zip(j).zip(values) {
                assert_eq!(value, matrix[[i, j]]);
                if (i + j) % 7 == 0 {
                    let (a, b) = (x.select([i]), columns.select([j]));
                    let single = measure.pair(&a, &b).unwrap();
                    assert_eq!(single, matrix[[i, j]]);
                }
            }
        }
        let matrix = gram::gram(&measure, &x, None, Options::default()).unwrap();
        let rows = gram::KernelRows::new(&measure, &x, Options::default()).unwrap();
        let mut row = vec![0.0; x.len()];
        for i in [0, 7, 45] {
            rows.row(i, &mut row).unwrap();
            assert_eq!(row, matrix.row(i).to_vec());
        }
        let (diagonal, _) =
            gram::diagonal_with(&measure, &x, Options::default(), &jobs(2)).unwrap();
        assert_eq!(diagonal, vec![0.0; x.len()]);
    }
}

#[test]
fn distances_are_divided_as_they_are_defined() {
    // d = 2 of 5 nodes and 3: one is deleted twice.
    let (a, b) = ("(a (b) (c) (d) (e))", "(a (b) (c))");
    let of = |normalization, costs: [f64; 3]| {
        let measure = EditDistance::new(costs[0], costs[1], costs[2]);
        pair(&measure.with_normalization(Some(normalization)), a, b)
    };
    let (unit, weighted) = ([1.0; 3], [1.0, 4.0, 2.0]);
    assert_eq!(of(Normalization::Max, unit), 2.0 / 5.0);
    assert_eq!(of(Normalization::Sum, unit), 2.0 / 8.0);
    assert_eq!(of(Normalization::Metric, unit), 4.0 / 10.0);
    assert_eq!(of(Normalization::Max, weighted), 4.0 / 12.0);
    assert_eq!(of(Normalization::Sum, weighted), 4.0 / 22.0);
    assert_eq!(of(Normalization::Sum, [0.0; 3]), 0.0);
}

#[test]
fn texts_are_renamed_by_their_own_edit_distance() {
    let words = [
        ("kitten", "sitting", 3.0 / 7.0),
        ("abc", "abc", 0.0),
        ("ab", "ba", 1.0),
        ("x", "wxyz", 0.75),
        ("é", "e", 1.0),
        ("flaw", "lawn", 0.5),
    ];
    let measure = EditDistance::new(RenameCosts::levenshtein(), 1.0, 1.0);
    for (a, b, cost) in words {
        let value = pair(&measure, &format!("({a})"), &format!("({b})"));
        assert!((value - cost).abs() < 1e-12, "{a} {b} {value}");
    }
    // Of cells, tags and entities are one character; others are equal or not.
    let cells = [
        ("<td>kitten", "<td>sitting", 3.0 / 7.0),
        ("<td>a<b>x</b>", "<td>a<i>x</b>", 0.25),
        ("<td>&lt;", "<td>ab", 1.0),
        ("<td>a&amp;", "<td>a", 0.5),
        ("<td>a", "<td colspan=2>a", 1.0),
        ("<td>", "<td>a", 1.0),
        ("<td>", "<td>", 0.0),
        ("tr", "th", 1.0),
        ("td", "<td>", 1.0),
    ];
    let measure = EditDistance::new(RenameCosts::cells(), 1.0, 1.0);
    for (a, b, cost) in cells {
        let [a, b] = [a, b].map(|label| label.replace(' ', "\\ "));
        let value = pair(&measure, &format!("({a})"), &format!("({b})"));
        assert!((value - cost).abs() < 1e-12, "{a} {b} {value}");
    }
}

#[test]
fn texts_have_the_same_bits_whichever_others_are_there() {
    let mut random = Random(31);
    let mut word = |n: usize| -> String {
        (0..n).map(|_| char::from(b'a' + random.below(4) as u8)).collect()
    };
    let texts: Vec<String> = (0..60)
        .map(|n| {
            let leaf = |i| format!(" (<td>{})", word(1 + (n + i) % 9));
            let leaves = (0..10).map(leaf).collect::<Vec<_>>().concat();
            format!("(table (tr{leaves}) (tr (<td>{})))", word(70 + n))
        })
        .collect();
    let forest = read(&texts);
    assert!(labels(&forest).len() > 400);
    for rename in [RenameCosts::levenshtein(), RenameCosts::cells()] {
        let measure = EditDistance::new(rename, 0.9, 0.9);
        let all = gram::gram(&measure, &forest, None, Options::default()).unwrap();
        for n in 0..200 {
            let [i, j] = [n % 60, n * 7 % 59];
            let (a, b) = (forest.select([i]), forest.select([j]));
            // Of two trees there are so few labels that a table of all of them is made.
            let context = Context::default();
            assert_eq!(measure.pair_with(&a, &b, &context).unwrap(), all[[i, j]]);
            let found = measure.mapping_with(&a, &b, &context).unwrap();
            assert_eq!(found.cost, all[[i, j]]);
            is_valid(&found, &[&a, &b].map(subtree_ends));
        }
        let k = (0..60).map(|n| (n, 59 - n));
        let (i, j): (Vec<_>, Vec<_>) = k.unzip();
        let options = Options::default();
        let (values, _) = neighbours::pairs_with(
            &measure,
            &forest,
            None,
            (&i, &j),
            options,
            &jobs(2),
        )
        .unwrap();
        for ((i, j), value) in i.into_iter().zip(j).zip(values) {
            assert_eq!(value, all[[i, j]]);
        }
    }
}

#[test]
fn large_trees_have_their_unit_and_small_ones_keep_theirs() {
    // Costs that no unit holds: rounding says which was taken.
    let star =
        |label: &str, n: usize| format!("(r{})", format!(" ({label})").repeat(n));
    let sizes = [3, 3_000, 5, 1_999, 2_000, 4_000];
    let texts: Vec<String> = (0..sizes.len())
        .map(|n| star(if n % 2 == 0 { "a" } else { "b" }, sizes[n]))
        .collect();
    let forest = read(&texts);
    let measure = EditDistance::new(1.15, 1.7, 1.9);
    let all = gram::gram(&measure, &forest, None, Options::default()).unwrap();
    for (i, &n) in sizes.iter().enumerate() {
        for (j, &m) in sizes.iter().enumerate() {
            let (a, b) = (forest.select([i]), forest.select([j]));
            let value = measure.pair(&a, &b).unwrap();
            assert_eq!(value, all[[i, j]], "{n} {m}");
            let renamed = n.min(m) as f64 * if i % 2 == j % 2 { 0.0 } else { 1.15 };
            let (deleted, inserted) = (n.saturating_sub(m), m.saturating_sub(n));
            let exact = renamed + deleted as f64 * 1.9 + inserted as f64 * 1.7;
            // Unit costs of up to 2 (the power of two is 1), so 2^53 of the small units are
            // more than 4,096 nodes; these two sums are well on each side.
            let total = n as f64 * 1.9 + m as f64 * 1.7;
            let unit = if total > 8_192.0 { 30 } else { 40 };
            let error = (value - exact).abs() * 2f64.powi(unit);
            assert!(error <= (n + m) as f64, "{n} {m} {error}");
            if unit == 30 && i != j {
                assert!(error > 0.1, "{n} {m} {error}");
            }
        }
    }
}

#[test]
fn wrong_costs_are_refused() {
    let by_label =
        |cost: f64| NodeCosts::by_label([("x".to_owned(), cost)], 1.0).unwrap();
    let by_labels = |cost: f64| {
        let pair = ("x".to_owned(), "y".to_owned(), cost);
        RenameCosts::by_labels([pair], 1.0).unwrap()
    };
    let check = |measure: EditDistance| match measure.check() {
        Err(Error::Parameter { name, .. }) => Some(name),
        other => other.map(|()| None).unwrap(),
    };
    for wrong in [f64::NAN, -1.0, f64::INFINITY, 1e101, 1e-101] {
        assert_eq!(check(EditDistance::new(1.0, wrong, 1.0)), Some("insert"));
        assert_eq!(check(EditDistance::new(1.0, 1.0, by_label(wrong))), Some("delete"));
    }
    for wrong in [f64::NAN, -1.0] {
        assert_eq!(check(EditDistance::new(wrong, 1.0, 1.0)), Some("rename"));
        assert_eq!(
            check(EditDistance::new(by_labels(wrong), 1.0, 1.0)),
            Some("rename")
        );
        let asked = RenameCosts::function(move |_, _| Ok(wrong));
        let [a, b] = ["(a)", "(b)"].map(|text| read(&[text]));
        let value = EditDistance::new(asked, 1.0, 1.0).pair(&a, &b);
        assert!(matches!(value, Err(Error::Parameter { name: "rename", .. })));
    }
    // What is never renamed is deleted and inserted.
    let never = EditDistance::new(f64::INFINITY, 1.0, 1.0);
    assert_eq!(pair(&never, "(a (b))", "(c (b))"), 2.0);
    let stopped = RenameCosts::function(|_, _| Err(Error::Interrupted));
    let forest = read(&["(a)", "(b)"]);
    let options = Options::default();
    let done =
        gram::gram(&EditDistance::new(stopped, 1.0, 1.0), &forest, None, options);
    assert_eq!(done, Err(Error::Interrupted));
}

#[test]
fn only_costs_that_are_a_metric_make_one() {
    let metric = |measure: EditDistance| {
        measure.with_normalization(Some(Normalization::Metric)).check().is_ok()
    };
    let by_label =
        |cost: f64| NodeCosts::by_label([("x".to_owned(), cost)], 1.0).unwrap();
    let by_labels = |costs: [f64; 3]| {
        let pairs = [("x", "y", costs[0]), ("y", "x", costs[1]), ("y", "z", costs[2])];
        let both = pairs.into_iter().chain([("z", "y", costs[2])]);
        let named = both.map(|(a, b, cost)| (a.to_owned(), b.to_owned(), cost));
        EditDistance::new(RenameCosts::by_labels(named, 1.0).unwrap(), 1.0, 1.0)
    };
    assert!(metric(EditDistance::default()));
    assert!(metric(EditDistance::new(5.0, 2.0, 2.0)));
    assert!(metric(EditDistance::new(0.5, by_label(1.5), by_label(1.5))));
    assert!(metric(by_labels([0.5, 0.5, 0.5])));
    assert!(!metric(EditDistance::new(1.0, 1.0, 2.0)));
    assert!(!metric(EditDistance::new(0.0, 1.0, 1.0)));
    assert!(!metric(EditDistance::new(1.0, 0.0, 0.0)));
    assert!(!metric(EditDistance::new(0.4, by_label(1.5), by_label(1.5))));
    assert!(!metric(EditDistance::new(1.0, by_label(1.5), 1.0)));
    assert!(!metric(by_labels([0.5, 0.6, 0.5]))); // the way back
    assert!(!metric(by_labels([0.4, 0.4, 0.4]))); // from x to z over y
    assert!(!metric(EditDistance::new(RenameCosts::levenshtein(), 1.0, 1.0)));
    assert!(!metric(EditDistance::new(
        RenameCosts::function(|_, _| Ok(1.0)),
        1.0,
        1.0
    )));
}

#[test]
fn a_long_call_is_stopped_and_a_pair_that_is_too_large_is_refused() {
    let star = |label: &str| format!("(r{})", format!(" ({label})").repeat(8_000));
    let forest = read(&[star("a"), star("b")]);
    let options = Options::default();
    let stopped = Context::watched(|_, _| Err(Error::Interrupted));
    let measure = EditDistance::default();
    let done = gram::gram_with(&measure, &forest, None, options, &stopped);
    assert_eq!(done, Err(Error::Interrupted));
    let long =
        read(&["a", "b"].map(|letter| format!("({})", letter.repeat(3_000_000))));
    let texts = EditDistance::new(RenameCosts::levenshtein(), 1.0, 1.0);
    let done = gram::gram_with(&texts, &long, None, options, &stopped);
    assert_eq!(done, Err(Error::Interrupted));
    let chain = |label: &str| {
        let n = 400_000;
        format!("{}{}", format!("({label} ").repeat(n), ")".repeat(n))
    };
    let (a, b) = (read(&[chain("a")]), read(&[chain("b")]));
    let done = measure.pair(&a, &b);
    assert!(matches!(done, Err(Error::Memory { bytes }) if bytes > 3_000_000_000_000));
}

#[test]
fn mappings_cost_the_distance_in_any_shape() {
    let mut random = Random(7);
    let forest = forest(&mut random, 30, 60);
    let measures = [EditDistance::default(), EditDistance::new(1.5, 0.5, 2.0)];
    let context = Context::default();
    for a in 0..forest.len() {
        for b in 0..forest.len() {
            let trees = [a, b].map(|tree| forest.select([tree]));
            for (measure, [rename, insert, delete]) in
                measures.iter().zip([[1.0; 3], [1.5, 0.5, 2.0]])
            {
                let found =
                    measure.mapping_with(&trees[0], &trees[1], &context).unwrap();
                let cost = rename * found.renamed.len() as f64
                    + insert * found.inserted.len() as f64
                    + delete * found.deleted.len() as f64;
                assert_eq!(cost, found.cost);
                let distance =
                    measure.pair_with(&trees[0], &trees[1], &context).unwrap();
                assert_eq!(distance, found.cost);
                is_valid(&found, &trees.each_ref().map(subtree_ends));
            }
        }
    }
}

#[test]
fn trees_that_turn_have_the_published_distances_and_mappings() {
    let mut random = Random(17);
    let mut texts = trees(&mut random, 4, 60);
    for _ in 0..2 {
        // The first and the last are compared along paths of their own.
        texts.push(turning(&mut random, 40, 1, true, 4));
        texts.push(turning(&mut random, 14, 8, false, 3));
        texts.push(binary(&mut random, 50, 3));
        texts.push(turning(&mut random, 50, 2, false, 4));
    }
    let forest = read(&texts);
    let sides = [false, true].map(|is_mirrored| -> Vec<Plain> {
        (0..forest.len()).map(|tree| Plain::new(&forest, tree, is_mirrored)).collect()
    });
    let shapes: Vec<_> = (0..forest.len()).map(|t| Shape::new(&forest, t)).collect();
    let (mut tables, mut apted) = ([const { Vec::new() }; 2], Apted::default());
    let measure = EditDistance::default();
    let matrix = gram::gram(&measure, &forest, None, Options::default()).unwrap();
    for a in 0..forest.len() {
        for b in 0..=a {
            let distance = matrix[[a, b]];
            for plain in &sides {
                let found = zhang_shasha(&plain[a], &plain[b], &mut tables);
                assert_eq!(f64::from(found), distance, "{a} {b}");
            }
            let found = apted.distance(&shapes[a], &shapes[b]);
            assert_eq!(f64::from(found), distance, "{a} {b}");
            let trees = [b, a].map(|tree| forest.select([tree]));
            let found = measure.mapping(&trees[0], &trees[1]);
            let found = found.unwrap();
            let n_edits =
                found.renamed.len() + found.inserted.len() + found.deleted.len();
            assert_eq!([found.cost, n_edits as f64], [distance; 2]);
            is_valid(&found, &trees.each_ref().map(subtree_ends));
        }
    }
}

/// By preorder number: where the subtree ends.
fn subtree_ends(tree: &Forest) -> Vec<usize> {
    let (nodes, (_, order)) = (tree.nodes(), tree.preorder());
    order.iter().enumerate().map(|(i, &node)| i + nodes.size(node) as usize).collect()
}

/// One to one, by ancestors and by order; all nodes are told of.
fn is_valid(mapping: &Mapping, ends: &[Vec<usize>; 2]) {
    for &(i, j) in &mapping.pairs {
        for &(u, v) in &mapping.pairs {
            assert_eq!(i < u, j < v);
            assert_eq!(i < u && u < ends[0][i], j < v && v < ends[1][j]);
        }
    }
    let of = |pairs: Vec<usize>, others: &[usize], n: usize| {
        let mut all = [pairs, others.to_vec()].concat();
        all.sort_unstable();
        assert_eq!(all, (0..n).collect::<Vec<_>>());
    };
    let (i, j) = mapping.pairs.iter().copied().unzip();
    of(i, &mapping.deleted, ends[0].len());
    of(j, &mapping.inserted, ends[1].len());
}

#[test]
fn bounded_distances_are_distances_or_more_than_the_bound() {
    let mut random = Random(11);
    let context = Context::default();
    for round in 0..10_000 {
        let texts = [0; 2].map(|_| small_tree(&mut random, 12).1);
        let [a, b] = texts.each_ref().map(|text| read(&[text]));
        let by_label = NodeCosts::by_label([("a".to_owned(), 2.0)], 1.25).unwrap();
        let measure = match round % 4 {
            0 => EditDistance::default(),
            1 => EditDistance::new(1.5, 0.75, 1.25),
            2 => EditDistance::new(0.0, by_label.clone(), by_label),
            _ => EditDistance::new(RenameCosts::function(|_, _| Ok(0.5)), 1.0, 1.0),
        };
        let normalization =
            [None, Some(Normalization::Max), Some(Normalization::Sum)][round % 3];
        let measure = measure.with_normalization(normalization);
        let distance = measure.pair_with(&a, &b, &context).unwrap();
        for most in [distance, distance * 0.99, random.unit() * 2.0 * distance] {
            let expected = Some(distance).filter(|&d| d <= most);
            let found = measure.pair_within_with(&a, &b, most, &context).unwrap();
            assert_eq!(found, expected, "{texts:?} {measure:?} {most}");
        }
    }
}

/// What is near says what all distances say: all pairs up to `most`, and the k nearest.
fn near_as_by_all_distances(
    measure: &EditDistance,
    x: &Forest,
    y: Option<&Forest>,
    most: impl Fn(&[f64]) -> f64,
    k: usize,
    context: &Context,
) {
    let options = Options::default();
    let matrix = gram::gram(measure, x, y, options).unwrap();
    let most = most(matrix.as_slice().unwrap());
    let mut found = neighbours::FoundPairs::default();
    let sink = &mut |pairs| found.append(pairs);
    let done = neighbours::join_with(measure, x, y, most, options, sink, context);
    if y.is_none() && !measure.is_symmetric() {
        assert!(matches!(done, Err(Error::Parameter { .. })));
    } else {
        done.unwrap();
        found.sort().unwrap();
        let close = matrix
            .indexed_iter()
            .filter(|&((i, j), &value)| value <= most && (y.is_some() || i < j));
        let (places, values): (Vec<_>, Vec<f64>) = close.unzip();
        let (rows, columns): (Vec<_>, Vec<_>) = places.into_iter().unzip();
        assert_eq!((found.rows, found.columns), (rows, columns), "{measure:?} {most}");
        assert_eq!(found.values, values);
    }
    let (near, _) = neighbours::top_k_with(measure, x, y, k, options, context).unwrap();
    for (i, row) in matrix.outer_iter().enumerate() {
        let others = (0..row.len()).filter(|&j| y.is_some() || i != j);
        let mut others: Vec<usize> = others.collect();
        others.sort_by(|&a, &b| row[a].total_cmp(&row[b]));
        others.truncate(k);
        assert_eq!(near.indices[i * near.k..][..near.k], others, "{measure:?} {i}");
        let values: Vec<f64> = others.iter().map(|&j| row[j]).collect();
        assert_eq!(near.values[i * near.k..][..near.k], values);
    }
    let found = neighbours::top_k_within_with(measure, x, y, k, most, options, context);
    let mut expected = near;
    for (index, value) in expected.indices.iter_mut().zip(&mut expected.values) {
        if *value > most {
            (*index, *value) = (neighbours::NOBODY, f64::INFINITY);
        }
    }
    assert_eq!(found.unwrap().0, expected, "{measure:?} {most}");
}

const NORMALIZATIONS: [Option<Normalization>; 4] = [
    None,
    Some(Normalization::Max),
    Some(Normalization::Sum),
    Some(Normalization::Metric),
];

#[test]
fn neighbours_and_joins_are_those_of_all_distances() {
    let mut random = Random(12);
    for round in 0..240 {
        let mut texts = trees(&mut random, 25, 10);
        texts.extend_from_within(3..6);
        let (x, y) = (read(&texts), forest(&mut random, 12, 10));
        let by_label = NodeCosts::by_label([("a".to_owned(), 2.0)], 1.25).unwrap();
        let measure = match round % 5 {
            0 => EditDistance::default(),
            1 => EditDistance::new(0.5, 1.0, 1.0),
            2 => EditDistance::new(0.75, 0.5, 1.0),
            3 => EditDistance::new(1.0, 0.0, 0.0),
            _ => EditDistance::new(1.0, by_label.clone(), by_label),
        };
        // The last one asks for costs that are a metric.
        let n = if round % 5 == 0 { 4 } else { 3 };
        let measure = measure.with_normalization(NORMALIZATIONS[round / 5 % n]);
        let context = jobs(1 + round % 3);
        for y in [None, Some(&y)] {
            let most = |distances: &[f64]| distances[random.0 as usize % 25] * 0.8;
            near_as_by_all_distances(&measure, &x, y, most, 1 + round % 7, &context);
        }
        random.below(2);
    }
}

/// The same tree with a few other labels and without a few leaves.
fn edited(random: &mut Random, text: &str, n_edits: usize) -> String {
    let mut text = text.to_owned();
    for _ in 0..n_edits {
        let places: Vec<usize> = text
            .char_indices()
            .filter(|(_, c)| c.is_alphabetic())
            .map(|c| c.0)
            .collect();
        let place = places[random.below(places.len())];
        let is_leaf = place > 1 && text[place + 1..].starts_with(')');
        if is_leaf && random.below(2) == 0 {
            text.replace_range(place - 1..place + 2, "");
        } else {
            text.replace_range(place..=place, ["a", "b", "c", "d"][random.below(4)]);
        }
    }
    text
}

#[test]
fn large_trees_that_are_close_are_found_by_bounds() {
    let mut random = Random(13);
    for round in 0..32 {
        let mut texts = Vec::new();
        for most in [300, 120, 60, 60] {
            let (_, text) = small_tree(&mut random, most);
            texts.extend((0..6).map(|n_edits| edited(&mut random, &text, 3 * n_edits)));
            texts.push(text);
        }
        let x = read(&texts);
        let measure = match round % 4 {
            0 | 1 => EditDistance::default(),
            2 => EditDistance::new(1.5, 1.0, 1.0),
            _ => EditDistance::new(0.75, 1.0, 1.25),
        };
        let n = if round % 4 == 3 { 3 } else { 4 };
        let measure = measure.with_normalization(NORMALIZATIONS[round / 4 % n]);
        let context = jobs(1 + round % 2);
        for y in [None, Some(&x)] {
            let most = |distances: &[f64]| distances[1 + round % 6];
            near_as_by_all_distances(&measure, &x, y, most, 4 + round % 6, &context);
        }
        // The same of single pairs.
        let [a, b] = [0, 1 + round % 5].map(|tree| read(&[&texts[tree]]));
        let context = Context::default();
        let distance = measure.pair_with(&a, &b, &context).unwrap();
        for most in [0.5, 1.0, 1.0, 2.0].map(|factor| factor * distance) {
            let found = measure.pair_within_with(&a, &b, most, &context).unwrap();
            assert_eq!(found, Some(distance).filter(|&d| d <= most));
        }
    }
}

#[test]
fn a_pair_too_large_for_tables_is_compared_within_a_bound() {
    let chain = |n: usize| format!("{}{}", "(a ".repeat(n), ")".repeat(n));
    let [a, b] = [100_000, 100_003].map(|n| read(&[chain(n)]));
    let measure = EditDistance::default();
    let context = Context::default();
    assert_eq!(measure.pair_within_with(&a, &b, 10.0, &context).unwrap(), Some(3.0));
    assert_eq!(measure.pair_within_with(&a, &b, 2.0, &context).unwrap(), None);
}
