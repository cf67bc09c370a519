//! The partial tree kernel: every use of its index against single pairs, which the
//! definition holds to (`src/kernel/partial.rs`).

use crate::corpus::{self, Random};
use crate::registry::jobs;
use treekernel_rs::dag::{self, Model};
use treekernel_rs::gram::{self, Options};
use treekernel_rs::kernel::PartialTree;
use treekernel_rs::{Error, Forest};

const PT: PartialTree = PartialTree::new(0.4, 0.4);

const fn partial(leaf_factor: f64, max_children: Option<usize>) -> PartialTree {
    PT.with_leaf_factor(leaf_factor).with_max_children(max_children)
}

fn random_trees(n: usize, size: usize, seed: u64) -> Vec<String> {
    corpus::trees(&mut Random(seed), n, size)
}

fn forest(texts: &[String]) -> Forest {
    Forest::from_bracket_items(texts.iter().map(String::as_str)).unwrap()
}

#[track_caller]
fn assert_close(value: f64, expected: f64, size: f64, what: &dyn Fn() -> String) {
    let close = (value - expected).abs() <= 1e-10 * size;
    assert!(close, "{value}, not {expected}: {}", what());
}

/// Triangle, rectangle, rows, scores and contributions against pairs.
fn assert_uses_agree(texts: &[String], kernel: &PartialTree) {
    let (all, n) = (forest(texts), texts.len());
    let pairs = gram::SinglePairs::new(kernel, &all).unwrap();
    let mut of = pairs.worker();
    let expected: Vec<Vec<f64>> =
        (0..n).map(|x| (0..n).map(|t| of(x, t).unwrap()).collect()).collect();
    // 1. Matrices: prefixes of lists, and whole ones.
    let triangle =
        gram::gram_with(kernel, &all, None, Options::default(), &jobs(1)).unwrap();
    let half = n / 2;
    let (x, y) = (forest(&texts[half..]), forest(&texts[..half]));
    let block =
        gram::gram_with(kernel, &x, Some(&y), Options::default(), &jobs(1)).unwrap();
    let rows =
        gram::KernelRows::new_with(kernel, &all, Options::default(), &jobs(1)).unwrap();
    let mut row = vec![0.0; n];
    for (i, expected) in expected.iter().enumerate().rev() {
        rows.row(i, &mut row).unwrap();
        for (j, &k) in expected.iter().enumerate() {
            let what = || format!("{kernel:?} {i} {j}");
            assert_close(triangle[[i, j]], k, k, &what);
            assert_close(row[j], k, k, &what);
            if i >= half && j < half {
                assert_close(block[[i - half, j]], k, k, &what);
            }
        }
    }
    // 2. Models: one output, as many as a loop of known length has, and more.
    let mut random = Random(n as u64);
    for width in [1, 6, 11] {
        let alphas: Vec<f64> = (0..n * width).map(|_| random.unit() - 0.5).collect();
        let options = dag::ModelOptions::default().with_n_outputs(width);
        let mut model = Model::new(kernel, options).unwrap();
        // Scored while it grows, too.
        for part in [0..half, half..n] {
            let own = &alphas[part.start * width..part.end * width];
            let end = part.end;
            model.add(&all.select(part), own).unwrap();
            let (scores, _) = model.score_with(&all, &jobs(1)).unwrap();
            for (at, &score) in scores.iter().enumerate() {
                let (x, output) = (at / width, at % width);
                let terms =
                    (0..end).map(|t| alphas[t * width + output] * expected[x][t]);
                let (sum, size) =
                    terms.fold((0.0, 0.0), |(a, b), t| (a + t, b + f64::abs(t)));
                let what = || format!("{kernel:?} {x}, output {output} of {width}");
                assert_close(score, sum, size, &what);
            }
        }
        let (scores, _) = model.score_with(&all, &jobs(1)).unwrap();
        let most = expected.iter().flatten().fold(0.0, |a: f64, &b| a.max(b));
        for x in (0..n).step_by(7).filter(|&x| all.select([x]).n_nodes()[0] < 10_000) {
            let shares = model.contributions(&all.select([x])).unwrap();
            for output in 0..width {
                let sum: f64 = shares.iter().skip(output).step_by(width).sum();
                assert_close(sum, scores[x * width + output], n as f64 * most, &|| {
                    format!("{kernel:?} {x}")
                });
            }
        }
    }
}

#[test]
fn every_use_agrees_with_single_pairs() {
    for (seed, n, size) in [(1, 40, 30), (2, 40, 100), (3, 40, 300), (4, 15, 1000)] {
        for leaf_factor in [0.0, 1.0, 5.0] {
            for max_children in [None, Some(5)] {
                let texts = random_trees(n, size, seed);
                assert_uses_agree(&texts, &partial(leaf_factor, max_children));
            }
        }
    }
}

/// Nodes just below, at and above where lists are given up (8 children of a label on
/// average, 32 children), and where counts outgrow a byte.
#[test]
fn guards_hold_at_their_boundaries() {
    for n_labels in [1, 3, 1000] {
        let mut texts = Vec::new();
        for size in [7, 8, 9, 31, 32, 33, 255, 256, 257] {
            for is_inner in [false, true] {
                let child = |i: usize| {
                    let label = i % n_labels;
                    if is_inner {
                        format!("(p{label} w{})", i % 2)
                    } else {
                        format!("w{label}")
                    }
                };
                let children: Vec<_> = (0..size).map(child).collect();
                texts.push(format!("(S {})", children.join(" ")));
                texts.push(format!("(S (S {}) p0 p1)", children.join(" ")));
            }
        }
        assert_uses_agree(&texts, &PT);
        assert_uses_agree(&texts, &partial(1.0, Some(8)));
    }
}

/// A query's node that must go by grids though all indexed ones are in lists.
#[test]
fn nodes_with_longer_pair_lists_than_grids_are_right() {
    let few = (1..=8).map(|n| format!("(S {})", "a ".repeat(n)));
    let many = (0..8).map(|n| format!("(S {})", "a ".repeat(32 - n)));
    assert_uses_agree(&few.chain(many).collect::<Vec<_>>(), &PT);
}

/// Preterminals of a label are compared by number until one of them is something else.
#[test]
fn a_label_that_opens_late_is_right() {
    let simple = (0..12).map(|n| format!("(S (N w{}) (N w{}) (V v))", n % 5, n % 3));
    let open = ["(S (N w1 w2) (V v))", "(S (N (V v)) (N w1))", "(N w1)", "(N w9 w1)"];
    let texts: Vec<String> = simple.chain(open.map(str::to_owned)).collect();
    assert_uses_agree(&texts, &PT);
    let back: Vec<String> = texts.iter().rev().cloned().collect();
    assert_uses_agree(&back, &partial(0.0, None));
}

#[test]
fn nodes_of_65_536_children_take_no_quadratic_time() {
    let texts = [65_535, 65_536, 65_537].map(|n| {
        let words: Vec<_> = (n % 100..n).map(|word| format!("w{word}")).collect();
        format!("(S {})", words.join(" "))
    });
    assert_uses_agree(&texts, &PT);
}

#[test]
fn counts_of_65_536_are_right() {
    // Roots differ in their labels, so only the preterminals meet.
    let sizes = [255, 256, 257, 65_535, 65_536, 65_537];
    let texts = sizes.map(|n| format!("(S{n} {})", "(P a)".repeat(n)));
    let d = 0.4 * (0.16 + 0.064) + 0.064; // P with a, and a
    let x = forest(&texts[5..]);
    // The first three columns alone would fit 16 bits.
    for n_columns in [3, 5] {
        let y = forest(&texts[..n_columns]);
        let block =
            gram::gram_with(&PT, &x, Some(&y), Options::default(), &jobs(1)).unwrap();
        for (&value, &n) in block.row(0).iter().zip(&sizes) {
            let expected = d * n as f64 * 65_537.0;
            assert_close(value, expected, expected, &|| format!("{n}"));
        }
    }
}

#[test]
fn deep_trees_need_no_quadratic_memory() {
    let chain = |n: usize| format!("{}x{}", "(A ".repeat(n), ")".repeat(n));
    let labels = |n: usize| (0..n).fold(String::new(), |s, i| s + &format!("(A{i} "));
    let deep = format!("{}x{}", labels(100_000), ")".repeat(100_000));
    assert_uses_agree(&[chain(2_000), deep, chain(300)], &PT);
    // One label: 49 million values of D, of which two nodes' are kept at a time.
    let all = forest(&[chain(7_000)]);
    let value =
        gram::gram_with(&PT, &all, None, Options::default(), &jobs(1)).unwrap()[[0, 0]];
    let pair = gram::SinglePairs::new(&PT, &all).unwrap().worker()(0, 0).unwrap();
    // So many terms in two orders: more of them is rounding.
    assert_close(value, pair, 100.0 * pair, &|| "7,000".into());
}

#[test]
fn lists_grow_beyond_65_536_entries() {
    let texts: Vec<_> = (0..66_000).map(|n| format!("(X (A y z) w{n} y)")).collect();
    let all = forest(&texts);
    let rows =
        gram::KernelRows::new_with(&PT, &all, Options::default(), &jobs(1)).unwrap();
    let pairs = gram::SinglePairs::new(&PT, &all).unwrap();
    let mut of = pairs.worker();
    let mut row = vec![0.0; 66_000];
    rows.row(65_999, &mut row).unwrap();
    for (t, &value) in row.iter().enumerate() {
        let expected = of(65_999, t).unwrap();
        assert_close(value, expected, expected, &|| format!("{t}"));
    }
}

#[test]
fn overflow_stays_in_its_column() {
    let kernel = PartialTree::new(1.0, 1.0);
    let wide = [1200, 3, 1200, 5].map(|n| format!("(S {} b{n})", "a ".repeat(n)));
    let texts = [&wide[..], &["(T (S a a) a)".into()]].concat();
    let rows = gram::KernelRows::new_with(
        &kernel,
        &forest(&texts),
        Options::default(),
        &jobs(1),
    )
    .unwrap();
    let mut row = [0.0; 5];
    for x in [1, 3, 4] {
        rows.row(x, &mut row).unwrap();
        assert!(row.iter().all(|value| value.is_finite()), "{x}");
    }
    for x in [0, 2] {
        let expected = Err(Error::Overflow { row: x, column: 0 });
        assert_eq!(rows.row(x, &mut row), expected);
    }
}

/// Other trees before them give the nodes other ids and labels other numbers; a pickled
/// forest has others again.
#[test]
fn what_else_is_in_the_store_changes_no_bit() {
    let texts = random_trees(50, 60, 5);
    let before = ["(l9 (l2 l1) l0)", "(l7 (l1 l3 l2) (l0 l1) l5)", "(l3 (l0 l1))"];
    let both: Vec<String> =
        before.iter().map(|&text| text.to_owned()).chain(texts.clone()).collect();
    let [own, other] = [forest(&texts), forest(&both).select(3..53)];
    let bits = |forest: &Forest| -> Vec<u64> {
        let matrix =
            gram::gram_with(&PT, forest, None, Options::default(), &jobs(1)).unwrap();
        matrix.iter().map(|value| value.to_bits()).collect()
    };
    assert_eq!(bits(&own), bits(&other));
}
