//! Labels that match by similarity: rows, single pairs and the definition meet.

use crate::registry::jobs;
use std::sync::Arc;

use crate::corpus::{self, Random};
use treekernel_rs::gram::{self, Options};
use treekernel_rs::kernel::{
    Cosines, Kernel, LabelPairs, PartialTree, Similarity, SimilarityRow,
    SimilarityTable, SmoothedPartialTree,
};
use treekernel_rs::{Context, Error, Forest, Result};

/// Similarities of the labels l0 .. l39: none, a few (by rows), all (a matrix), some of each.
fn similarities() -> Vec<LabelPairs> {
    let mut random = Random(1);
    let name: Vec<String> = (0..40).map(|i| format!("l{i}")).collect();
    let mut make = |pick: &dyn Fn(usize, usize, f64) -> bool| {
        let mut pairs = Vec::new();
        for i in 0..40 {
            for j in 0..i {
                let sigma = 2.0 * random.unit() - 0.8;
                if pick(j, i, random.unit()) {
                    pairs.push((&*name[i], &*name[j], sigma.clamp(-1.0, 1.0)));
                }
            }
        }
        LabelPairs::new(pairs)
    };
    vec![
        make(&|_, _, _| false),
        make(&|j, i, _| i == j + 1),
        make(&|_, _, _| true),
        make(&|j, i, x| {
            (i < 3) || (j >= 3 && i < 12 && x < 0.2) || (j >= 20 && x < 0.1)
        }),
    ]
}

fn parameters() -> Vec<PartialTree> {
    let mut all = Vec::new();
    for (decay, mu) in [(0.4, 0.4), (1.0, 0.05), (0.05, 1.0)] {
        for leaf_factor in [0.0, 1.0, 5.0] {
            for longest in [None, Some(2)] {
                let kernel = PartialTree::new(decay, mu).with_leaf_factor(leaf_factor);
                all.push(kernel.with_max_children(longest));
            }
        }
    }
    all
}

fn close(value: f64, expected: f64, scale: f64) -> bool {
    (value - expected).abs() <= 1e-10 * scale.max(expected.abs())
}

#[test]
fn rows_and_pairs_agree_with_the_definition() {
    for (s, similarity) in similarities().into_iter().enumerate() {
        for (seed, tree) in parameters().into_iter().enumerate() {
            let forest = corpus::forest(&mut Random(seed as u64), 10, 12);
            let kernel = SmoothedPartialTree::new(tree, similarity.clone());
            let matrix =
                gram::gram(&kernel, &forest, None, Options::default()).unwrap();
            let pairs = gram::SinglePairs::new(&kernel, &forest).unwrap();
            let mut of = pairs.worker();
            let (nodes, roots) = (forest.nodes(), forest.roots());
            let own = |&root: &_| kernel.definition(nodes, root, root).abs();
            let own: Vec<_> = roots.iter().map(own).collect();
            for a in 0..forest.len() {
                for b in 0..forest.len() {
                    let expected = kernel.definition(nodes, roots[a], roots[b]);
                    // With σ below 0 terms cancel.
                    let scale = own[a].max(own[b]);
                    let found = [of(a, b).unwrap(), matrix[[a, b]]];
                    assert!(
                        found.iter().all(|&value| close(value, expected, scale)),
                        "{s} {kernel:?} {a} {b}: {found:?} {expected}"
                    );
                }
            }
        }
    }
}

/// Wide nodes and nodes of one label are in no list; deep ones need many values.
#[test]
fn rows_agree_with_pairs_on_trees_of_all_shapes() {
    let wide = |n: usize, of: usize| {
        let below: Vec<_> =
            (0..n).map(|i| format!("(l{} (l{}))", i % of, i % 7)).collect();
        format!("(l0 {})", below.join(" "))
    };
    let mut texts = corpus::random_trees(60, 80, 3);
    texts.extend([wide(50, 1), wide(40, 4), wide(20, 2), wide(30, 30), wide(9, 3)]);
    let forest = corpus::read(&texts);
    for similarity in similarities() {
        for longest in [None, Some(3)] {
            let tree = PartialTree::default().with_leaf_factor(2.0);
            let tree = tree.with_max_children(longest);
            let kernel = SmoothedPartialTree::new(tree, similarity.clone());
            let matrix =
                gram::gram(&kernel, &forest, None, Options::default()).unwrap();
            let whole = gram::gram(&kernel, &forest, Some(&forest), Options::default());
            let whole = whole.unwrap();
            let pairs = gram::SinglePairs::new(&kernel, &forest).unwrap();
            let mut of = pairs.worker();
            for a in 0..forest.len() {
                for b in 0..forest.len() {
                    let scale = matrix[[a, a]].abs().max(matrix[[b, b]].abs());
                    let value = of(a, b).unwrap();
                    let found = [matrix[[a, b]], whole[[a, b]]];
                    assert!(
                        found.iter().all(|&found| close(found, value, scale)),
                        "{a} {b}: {found:?} {value}"
                    );
                }
            }
        }
    }
}

#[test]
fn equality_is_the_partial_tree_kernel() {
    let forest = corpus::forest(&mut Random(9), 60, 60);
    for tree in parameters() {
        let smoothed = SmoothedPartialTree::new(tree.clone(), LabelPairs::default());
        let [plain, smoothed] = [&tree as &dyn Kernel, &smoothed].map(|kernel| {
            gram::gram(kernel, &forest, None, Options::default()).unwrap()
        });
        for (&value, &expected) in smoothed.iter().zip(&plain) {
            assert!(close(value, expected, 0.0), "{tree:?}: {value} {expected}");
        }
    }
}

/// Rows do not depend on threads or on what else is in the store, to the last bit.
#[test]
fn bits_are_those_of_the_trees() {
    let texts = corpus::random_trees(40, 60, 8);
    let before = ["(l9 (l2 l1) l0)", "(l7 (l31 l3 l2) (l0 l1) l5)", "(l3 (l0 l1))"];
    let all = before.into_iter().chain(texts.iter().map(String::as_str));
    let all = Forest::from_bracket_items(all).unwrap();
    let forests = [corpus::read(&texts), all.select(3..43)];
    for similarity in similarities() {
        let kernel = SmoothedPartialTree::new(PartialTree::default(), similarity);
        let contexts = [1, 2].map(jobs);
        let [one, two] = [0, 1].map(|at| {
            gram::gram_with(
                &kernel,
                &forests[at],
                None,
                Options::default(),
                &contexts[at],
            )
            .unwrap()
        });
        assert!(one.iter().zip(&two).all(|(x, y)| x.to_bits() == y.to_bits()));
    }
}

#[derive(Debug)]
struct Failing;

impl Similarity for Failing {
    fn table(&self, _: &[&str], _: &Context) -> Result<Arc<SimilarityTable>> {
        Err(Error::Interrupted)
    }
}

/// Cosines of two numbers for each label.
#[derive(Debug)]
struct Angles;

impl Similarity for Angles {
    fn table(
        &self,
        labels: &[&str],
        context: &Context,
    ) -> Result<Arc<SimilarityTable>> {
        let how = Cosines::new(1, Some(0.5), false);
        let (vectors, classes) = Self::vectors(labels);
        Ok(Arc::new(SimilarityTable::from_vectors_with(
            &vectors, &classes, how, context,
        )?))
    }

    fn rows(
        &self,
        known: (&[String], &Arc<SimilarityTable>),
        others: &[&str],
        _: &Context,
    ) -> Result<Vec<SimilarityRow>> {
        let (vectors, classes) = Self::vectors(others);
        known.1.rows_by_vectors(&vectors, &classes)
    }
}

impl Angles {
    /// Two classes, and some labels of none.
    fn vectors(labels: &[&str]) -> (Vec<f64>, Vec<u32>) {
        let number = |label: &&str| label[1..].parse::<u32>().unwrap_or(0);
        let vector = |angle: f64| [angle.cos(), angle.sin()];
        let class = |number: u32| if number % 7 == 3 { u32::MAX } else { number % 2 };
        let vectors = labels.iter().flat_map(|label| vector(f64::from(number(label))));
        (vectors.collect(), labels.iter().map(|label| class(number(label))).collect())
    }
}

#[test]
fn trees_with_labels_that_no_column_has_get_the_rows_of_an_index_of_both() {
    let wide = |n: usize, from: usize| {
        let below: Vec<_> =
            (0..n).map(|i| format!("(l{} (l{} l9))", from + i % 8, i % 12)).collect();
        format!("(l{from} {} (l1 {}))", below.join(" "), below.join(" "))
    };
    // Columns have the labels l0 to l19, rows those to l39.
    let mut columns = corpus::trees(&mut Random(3), 30, 25);
    for text in &mut columns {
        for label in 20..40 {
            *text = text.replace(&format!("l{label}"), &format!("l{}", label - 20));
        }
    }
    columns.extend([wide(9, 2), wide(40, 0)]);
    let mut rows = corpus::trees(&mut Random(4), 30, 25);
    rows.extend([wide(12, 25), wide(50, 7)]);
    let (x, y) = (corpus::read(&rows), corpus::read(&columns));
    let both = Forest::concat(&y, &x).unwrap();
    let check = |kernel: &SmoothedPartialTree| {
        let of_both = gram::gram(kernel, &both, None, Options::default()).unwrap();
        let found = gram::gram(kernel, &x, Some(&y), Options::default()).unwrap();
        let scale = of_both.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
        assert!(found.iter().any(|&value| value != 0.0));
        for ((row, column), &value) in found.indexed_iter() {
            let expected = of_both[[y.len() + row, column]];
            assert!(
                close(value, expected, scale),
                "{row} {column}: {value} {expected}"
            );
        }
    };
    for similarity in similarities() {
        check(&SmoothedPartialTree::new(PartialTree::default(), similarity));
    }
    check(&SmoothedPartialTree::new(PartialTree::default(), Angles));
}

#[test]
fn similarities_of_ones_own_are_asked_and_their_errors_told() {
    let forest = corpus::forest(&mut Random(2), 20, 20);
    let kernel = SmoothedPartialTree::new(PartialTree::default(), Angles);
    assert!(gram::gram(&kernel, &forest, None, Options::default()).is_ok());
    let kernel = SmoothedPartialTree::new(PartialTree::default(), Failing);
    let failed = gram::gram(&kernel, &forest, None, Options::default());
    assert_eq!(failed, Err(Error::Interrupted));
}

#[test]
fn a_self_kernel_that_is_not_above_zero_is_an_error_where_it_normalises() {
    let pairs = [("a", "b", -1.0), ("b", "c", -1.0), ("a", "c", -1.0)];
    let kernel =
        SmoothedPartialTree::new(PartialTree::default(), LabelPairs::new(pairs));
    let forest = corpus::read(&["(b)", "(a (b) (c))"]);
    let normalize = Options::default().with_normalize(true);
    let found =
        |x: &Forest, y: Option<&Forest>| match gram::gram(&kernel, x, y, normalize) {
            Err(Error::Indefinite { tree, set, value }) => (tree, set, value),
            other => panic!("no error: {other:?}"),
        };
    let (tree, set, value) = found(&forest, None);
    assert_eq!((tree, set), (1, "X"));
    assert!((value + 0.190_362).abs() < 1e-6, "{value}");
    // Rows and columns of their own have numbers of their own.
    let others = corpus::read(&["(a (b))", "(c)", "(b (c))"]);
    assert_eq!(found(&forest, Some(&others)), (1, "X", value));
    assert_eq!(found(&others, Some(&forest)), (1, "Y", value));
    let (own, _) = gram::diagonal(&kernel, &forest, Options::default()).unwrap();
    assert_eq!(own[1], value);
}
