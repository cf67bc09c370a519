//! Kernels of sentence pairs: worked numbers, definitions, and what must not matter.

use crate::corpus::{self, Random};
use crate::registry::jobs;
use crate::stopwatch::Stopwatch;
use treekernel_rs::gram::Options;
use treekernel_rs::pair::naive::{self, Occurrences};
use treekernel_rs::pair::{self, Method, PairForest, PairKernel, Side};
use treekernel_rs::{Error, Forest, gram, kernel::SubsetTree, neighbours};

const METHODS: [Method; 4] =
    [Method::Exact, Method::Paper, Method::Max, Method::MaxEnumerated];

/// Pairs written as `left | right`.
fn pairs(texts: &[impl AsRef<str>]) -> PairForest {
    let sides = |text: &'static str| text.split_once(" | ").unwrap();
    let texts: Vec<_> = texts
        .iter()
        .map(|text| sides(Box::leak(text.as_ref().to_owned().into_boxed_str())))
        .collect();
    let (left, right): (Vec<_>, Vec<_>) = texts.into_iter().unzip();
    PairForest::from_brackets(left, right, ":").unwrap()
}

fn kernel(method: Method, decay: f64) -> PairKernel {
    PairKernel::new(decay).with_method(method)
}

fn value(method: Method, decay: f64, pairs: &PairForest, i: usize, j: usize) -> f64 {
    let kernel = kernel(method, decay);
    pair::pair(&kernel, (pairs, i), (pairs, j), false).unwrap()
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-12 * a.abs().max(b.abs())
}

const P_A: &str = "(A:1 (B:1 (B:1) (B:2)) (C:1 (C:1) (C:2))) | \
                   (I:1 (M:1 (M:2) (M:1)) (N:1 (N:2) (N:1)))";
const P_B: &str = "(A:1 (B:1 (B:1) (B:2)) (C:1 (C:1) (C:3))) | \
                   (I:1 (M:1 (M:3) (M:1)) (N:1 (N:2) (N:1)))";
const P1: &str = "(S (NP (NNS Farmers)) (VP (VB feed) (NP:1 (NNS:1 cows)) \
                  (NP:3 (NN:2 animal) (NNS:3 extracts)))) | \
                  (S (NP:1 (NNS:1 Cows)) (VP (VB eat) (NP:3 (NN:2 animal) (NNS:3 extracts))))";

fn p2(x: &str) -> String {
    format!(
        "(S:2 (NP:1 (NNS:1 Pediatricians)) (VP:2 (VB:2 suggest) (S (NP (NNS women)) \
         (VP (TO to) (VP (VB feed) (NP:3 (NNS:3 newborns)) (NP:4 (NN:5 breast) \
         ({x}:4 milk))))))) | \
         (S:2 (NP:1 (NNS:1 Pediatricians)) (VP:2 (VB:2 suggest) (SBAR (IN that) \
         (S (NP:3 (NNS:3 newborns)) (VP (VB eat) (NP:4 (NN:5 breast) ({x}:4 milk)))))))"
    )
}

#[test]
fn the_simple_pairs_have_the_values_worked_by_hand() {
    let pairs = pairs(&[P_A, P_B]);
    for (decay, expected) in [(1.0, 17.0), (0.5, 2.875), (0.4, 1.6832)] {
        for method in [Method::Exact, Method::Paper] {
            assert!(close(value(method, decay, &pairs, 0, 1), expected), "{method:?}");
        }
    }
    for method in [Method::Max, Method::MaxEnumerated] {
        assert_eq!(value(method, 1.0, &pairs, 0, 1), 9.0);
    }
    for pair in [0, 1] {
        assert_eq!(value(Method::Exact, 1.0, &pairs, pair, pair), 36.0);
        assert_eq!(value(Method::Paper, 1.0, &pairs, pair, pair), 36.0);
    }
    let all = constraints(Method::Paper, &pairs);
    assert_eq!(all, [vec![(1, 1), (2, 2)], vec![(1, 1), (2, 3)]]);
    assert_eq!(constraints(Method::Exact, &pairs), all);
}

#[test]
fn from_the_roots_alone_figure_4_counts_seven() {
    let pairs = pairs(&[P_A, P_B]);
    let [a, b] = [0, 1].map(|pair| Occurrences::new(&pairs, pair, true));
    assert_eq!(a.fragments[0].len() * a.fragments[1].len(), 16);
    assert_eq!(naive::kernel(&a, &b, 1.0), 7.0);
    assert_eq!(naive::paper(&a, &b, 1.0), 7.0);
    let all = naive::constraints(&a, &b);
    assert_eq!(naive::inclusion_exclusion(&a, &b, &all, 1.0), 7.0);
    let [a, b] = [0, 1].map(|pair| Occurrences::new(&pairs, pair, false));
    assert_eq!(naive::max(&a, &b, 1.0, |x, y| x * y), 9.0);
    assert_eq!(naive::max(&a, &b, 1.0, |x, y| x + y), 6.0);
}

fn constraints(method: Method, pairs: &PairForest) -> Vec<Vec<(u32, u32)>> {
    let kernel = kernel(method, 1.0);
    pair::constraints(&kernel, (pairs, 0), (pairs, 1)).unwrap()
}

#[test]
fn the_papers_example_has_the_values_worked_by_hand() {
    // X; exact, paper, K_max as product and as sum; C of both.
    let both = [(1, 1)];
    let rows = [
        ("NN", 98.0, 96.0, 90.0, 19.0, vec![(1, 3), (3, 4)], vec![(1, 1), (3, 4)]),
        (
            "NNS",
            250.0,
            244.0,
            238.0,
            31.0,
            vec![(1, 3), (2, 5), (3, 4)],
            vec![(1, 1), (2, 5), (3, 4)],
        ),
    ];
    for (x, exact, paper, product, sum, larger, other) in rows {
        let pairs = pairs(&[P1.to_owned(), p2(x)]);
        let expected = [exact, paper, product, product];
        for (method, expected) in METHODS.into_iter().zip(expected) {
            for (i, j) in [(0, 1), (1, 0)] {
                assert_eq!(
                    value(method, 1.0, &pairs, i, j),
                    expected,
                    "{x} {method:?}"
                );
            }
        }
        let [p, q] = [0, 1].map(|pair| Occurrences::new(&pairs, pair, false));
        assert_eq!(naive::max(&p, &q, 1.0, |a, b| a + b), sum);
        let all = constraints(Method::Paper, &pairs);
        assert_eq!(all, [larger.clone(), both.to_vec()]);
        // Where two are equally large, the lesser comes first.
        assert_eq!(constraints(Method::Exact, &pairs), [other, larger]);
    }
    let nn = pairs(&[P1.to_owned(), p2("NN")]);
    let nns = pairs(&[P1.to_owned(), p2("NNS")]);
    let at = |method, pairs| value(method, 0.4, pairs, 0, 1);
    assert!(close(at(Method::Exact, &nn), 6.770_278_4));
    assert!(close(at(Method::Exact, &nns), 11.215_151_104));
    assert!(close(at(Method::Paper, &nn), 6.546_278_4));
    assert!(close(at(Method::Paper, &nns), 10.581_551_104));
    assert_eq!(value(Method::Exact, 1.0, &nn, 0, 0), 7208.0);
    assert_eq!(value(Method::Paper, 1.0, &nn, 0, 0), 7208.0);
    let itself = [1_240_926.0, 1_240_824.0, 1_240_782.0];
    for (method, expected) in METHODS.into_iter().zip(itself) {
        assert_eq!(value(method, 1.0, &nn, 1, 1), expected, "{method:?}");
    }
}

#[test]
fn matched_fragments_by_constraint_are_those_of_the_table() {
    type Row = (&'static [(u32, u32)], [usize; 2]);
    let nn: [Row; 5] = [
        (&[], [4, 1]),
        (&[(1, 1)], [1, 1]),
        (&[(1, 3)], [1, 3]),
        (&[(3, 4)], [0, 2]),
        (&[(1, 3), (3, 4)], [4, 4]),
    ];
    let nns: [Row; 7] = [
        (&[], [4, 1]),
        (&[(1, 1)], [1, 1]),
        (&[(1, 3)], [1, 3]),
        (&[(3, 4)], [0, 2]),
        (&[(1, 3), (3, 4)], [4, 4]),
        (&[(2, 5), (3, 4)], [1, 3]),
        (&[(1, 3), (2, 5), (3, 4)], [4, 4]),
    ];
    for (x, rows) in [("NN", &nn[..]), ("NNS", &nns[..])] {
        let pairs = pairs(&[P1.to_owned(), p2(x)]);
        let [p, q] = [0, 1].map(|pair| Occurrences::new(&pairs, pair, false));
        for (side, index) in Side::BOTH.into_iter().zip([0, 1]) {
            let matched = naive::matched(&p, &q, side).into_iter();
            let consistent = matched.filter(|(pairs, _)| naive::is_bijection(pairs));
            let found: Vec<naive::Constraint> =
                consistent.map(|(pairs, _)| pairs.into_iter().collect()).collect();
            for (constraint, counts) in rows {
                let wanted = constraint.iter().copied().collect();
                let count = found.iter().filter(|&other| *other == wanted).count();
                assert_eq!(count, counts[index], "{x} {side:?} {constraint:?}");
            }
            let total: usize = rows.iter().map(|row| row.1[index]).sum();
            assert_eq!(found.len(), total);
        }
    }
}

#[test]
fn the_papers_construction_misses_what_fits_into_no_single_constraint() {
    let pairs = pairs(&[
        "(S1 (T (P:1)) (Q:2)) | (S2 (U (Q:2)) (P:1))",
        "(S3 (T (P:1)) (Q:2)) | (S4 (U (Q:2)) (P:1))",
    ]);
    for (method, expected) in METHODS.into_iter().zip([1.0, 0.0, 1.0, 1.0]) {
        assert_eq!(value(method, 1.0, &pairs, 0, 1), expected, "{method:?}");
    }
    assert_eq!(constraints(Method::Paper, &pairs), [[(1, 1)], [(2, 2)]]);
    assert_eq!(constraints(Method::Exact, &pairs), [[(1, 1), (2, 2)]]);
}

#[test]
fn constraints_that_are_not_maximal_at_a_node_are_not_lost() {
    let pairs = pairs(&[
        "(R (P (x:1) (Q (y:2))) (S (z:3))) | (Z z)",
        "(R (P (x:1) (Q (y:2))) (S (z:2))) | (Z z)",
    ]);
    for method in [Method::Exact, Method::Paper] {
        assert_eq!(value(method, 1.0, &pairs, 0, 1), 9.0);
    }
    let all = constraints(Method::Paper, &pairs);
    assert_eq!(all, [vec![(1, 1), (2, 2)], vec![(1, 1), (3, 2)]]);
}

fn symmetric(kernel: &PairKernel, pairs: &PairForest) -> Vec<Vec<f64>> {
    let matrix = gram::gram(kernel, pairs, None, Options::default()).unwrap();
    matrix.rows().into_iter().map(|row| row.to_vec()).collect()
}

/// w'Kw.
fn form(matrix: &[Vec<f64>], w: &[f64]) -> f64 {
    let rows = matrix.iter().zip(w);
    rows.map(|(row, a)| a * row.iter().zip(w).map(|(k, b)| k * b).sum::<f64>()).sum()
}

/// The least eigenvalue, by Jacobi's rotations.
fn least_eigenvalue(mut a: Vec<Vec<f64>>) -> f64 {
    let n = a.len();
    for _ in 0..60 {
        for p in 0..n {
            for q in p + 1..n {
                if a[p][q] == 0.0 {
                    continue;
                }
                let angle = 0.5 * (2.0 * a[p][q]).atan2(a[q][q] - a[p][p]);
                let (sin, cos) = angle.sin_cos();
                for row in &mut a {
                    let (x, y) = (row[p], row[q]);
                    (row[p], row[q]) = (cos * x - sin * y, sin * x + cos * y);
                }
                let (above, below) = a.split_at_mut(q);
                for (x, y) in above[p].iter_mut().zip(&mut below[0]) {
                    (*x, *y) = (cos * *x - sin * *y, sin * *x + cos * *y);
                }
            }
        }
    }
    (0..n).map(|i| a[i][i]).fold(f64::INFINITY, f64::min)
}

/// Three graphs with chains of `t` and `u` productions.
fn three_graphs(t: &str, u: &str) -> PairForest {
    let (r, s) = ("(R (P:1) (Q:2))", "(S (P:1) (Q:2))");
    pairs(&[
        format!("(Z1 {t} {r}) | (Y1 {u} (P:1))"),
        format!("(Z2 {t} {r} {s}) | (Y2 {u} (P:1))"),
        format!("(Z3 {t} {s}) | (Y3 {u} (P:1))"),
    ])
}

#[test]
fn the_papers_construction_is_not_positive_semidefinite_and_the_exact_kernel_is() {
    let [t, u] = ["(T (P:1))", "(U (Q:2))"].map(|child| format!("{child} ").repeat(3));
    let pairs = three_graphs(t.trim(), u.trim());
    let paper = symmetric(&kernel(Method::Paper, 0.1), &pairs);
    for (row, column, expected) in
        [(0, 0, 1.184_356_171), (2, 2, 1.184_356_171), (1, 1, 1.302_791_788)]
    {
        let got: f64 = paper[row][column];
        assert!((got - expected).abs() < 5e-9, "{row} {column} {got}");
    }
    assert!(close(paper[0][1], 0.9) && close(paper[1][2], 0.9) && paper[0][2] == 0.0);
    let least = least_eigenvalue(paper);
    assert!((least + 0.0306).abs() < 5e-5, "{least}");
    let exact = symmetric(&kernel(Method::Exact, 0.1), &pairs);
    assert!(close(exact[0][2], 0.81));
    let least = least_eigenvalue(exact);
    assert!((least - 0.330).abs() < 5e-4, "{least}");
}

#[test]
fn kmax_is_not_positive_semidefinite() {
    let tree = |number: usize, children: &[(usize, &str, u32)]| {
        let of = |&(times, label, id): &(usize, &str, u32)| {
            format!("({label}:{id} x)").repeat(times)
        };
        let children: String = children.iter().map(of).collect();
        format!("(R{number} {children}) | (Z z)")
    };
    let pairs = pairs(&[
        tree(0, &[(4, "A", 1), (2, "B", 1), (2, "B", 2)]),
        tree(1, &[(4, "A", 1), (4, "B", 1)]),
        tree(2, &[(2, "A", 1), (4, "B", 1), (2, "A", 2)]),
        tree(3, &[(4, "A", 1), (4, "B", 2)]),
    ]);
    let lambda = 0.1;
    for method in [Method::Max, Method::MaxEnumerated] {
        let matrix = symmetric(&kernel(method, lambda), &pairs);
        let form = form(&matrix, &[1.0, -1.0, 1.0, -1.0]) / (lambda * lambda);
        assert!((form + 7.43).abs() < 5e-3, "{form}");
        let least = least_eigenvalue(matrix.clone());
        assert!((least + 0.0202).abs() < 5e-5, "{least}");
        assert!(close(matrix[0][1] / (lambda * lambda), 24.0));
        assert!(close(matrix[0][2] / (lambda * lambda), 16.0));
    }
    let exact = symmetric(&kernel(Method::Exact, lambda), &pairs);
    assert!(least_eigenvalue(exact) > -1e-12);
}

/// A random small pair: few labels, so that much is shared; few placeholders, so that
/// much is in conflict.
fn random_pair(random: &mut Random) -> String {
    let side = |random: &mut Random| {
        let mut budget = 2 + random.below(7);
        grow(random, &mut budget, 3)
    };
    let left = side(random);
    format!("{left} | {}", side(random))
}

fn grow(random: &mut Random, budget: &mut usize, depth: usize) -> String {
    let label = ["a", "b", "c", "d"][random.below(4)];
    let mut text = format!("({label}");
    // Mostly, the label decides whether there is one: equal productions are frequent.
    if (label < "c") != (random.below(8) == 0) {
        text.push_str([":1", ":2", ":3", ":4"][random.below(4)]);
    }
    if depth > 0 {
        for _ in 0..=random.below(3) {
            if *budget == 0 {
                break;
            }
            *budget -= 1;
            text.push(' ');
            text += &grow(random, budget, depth - 1);
        }
    }
    text + ")"
}

/// A pair like another one: some other labels, and mostly other placeholders.
fn varied(text: &str, random: &mut Random) -> String {
    let change = |c: char| match c {
        'a'..='d' if random.below(12) == 0 => ['a', 'b', 'c', 'd'][random.below(4)],
        '1'..='4' if random.below(2) == 0 => ['1', '2', '3', '4'][random.below(4)],
        _ => c,
    };
    text.chars().map(change).collect()
}

fn two_random_pairs(random: &mut Random) -> [String; 2] {
    let first = random_pair(random);
    let second =
        if random.below(4) == 0 { random_pair(random) } else { varied(&first, random) };
    [first, second]
}

/// Whether all of these hold of 5,000 random pairs of pairs: `claim` has both pairs, and
/// their fragments.
fn for_random_pairs(seed: u64, claim: impl Fn(&PairForest, [&Occurrences; 2]) -> bool) {
    let mut random = Random(seed);
    let mut holds = 0;
    while holds < 5000 {
        let texts = two_random_pairs(&mut random);
        let both = pairs(&texts);
        let [p, q] = [0, 1].map(|pair| Occurrences::new(&both, pair, false));
        assert!(claim(&both, [&p, &q]), "{texts:?}");
        // The definition costs the product of all four.
        holds += 1;
    }
}

#[test]
fn the_exact_kernel_is_the_definition_in_exact_integers() {
    let interesting = std::sync::atomic::AtomicUsize::new(0);
    for_random_pairs(1, |pairs, [p, q]| {
        let expected = naive::kernel(p, q, 1.0);
        let free: f64 = Side::BOTH
            .iter()
            .map(|&side| naive::matched(p, q, side).len() as f64)
            .product();
        if expected > 0.0 && expected < free {
            interesting.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
        value(Method::Exact, 1.0, pairs, 0, 1) == expected
            && value(Method::Exact, 1.0, pairs, 1, 0) == expected
    });
    let interesting = interesting.into_inner();
    assert!(interesting > 1000, "constraints matter in {interesting} only");
}

#[test]
fn the_exact_kernel_is_the_definition_at_other_decays() {
    for_random_pairs(2, |pairs, [p, q]| {
        let expected = naive::kernel(p, q, 0.3);
        close(value(Method::Exact, 0.3, pairs, 0, 1), expected)
    });
}

#[test]
fn the_papers_value_counts_joint_constraints_inside_one_member_of_c() {
    let missed = std::sync::atomic::AtomicUsize::new(0);
    for_random_pairs(3, |pairs, [p, q]| {
        let got = value(Method::Paper, 1.0, pairs, 0, 1);
        let exact = value(Method::Exact, 1.0, pairs, 0, 1);
        if got < exact {
            missed.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
        got == naive::paper(p, q, 1.0) && got <= exact
    });
    assert!(missed.into_inner() > 100);
}

#[test]
fn shown_constraints_are_the_definitions_and_inclusion_exclusion_over_them_is_the_value()
 {
    for_random_pairs(4, |pairs, [p, q]| {
        let kernels = [
            (Method::Paper, naive::constraints(p, q)),
            (Method::Exact, naive::exact_constraints(p, q)),
        ];
        kernels.into_iter().all(|(method, expected)| {
            let mut shown: Vec<naive::Constraint> = constraints(method, pairs)
                .into_iter()
                .map(|c| c.into_iter().collect())
                .collect();
            shown.sort();
            // An exact kernel that is zero for want of anything on one side shows nothing.
            let value = value(method, 1.0, pairs, 0, 1);
            let one_sided = Side::BOTH.iter().any(|&side| {
                let matched = naive::matched(p, q, side);
                !matched.iter().any(|(pairs, _)| naive::is_bijection(pairs))
            });
            if expected.len() > 12 {
                return true;
            }
            let sum = naive::inclusion_exclusion(p, q, &expected, 1.0);
            let unseen = one_sided && method == Method::Exact;
            sum == value && if unseen { shown.is_empty() } else { shown == expected }
        })
    });
}

#[test]
fn kmax_by_branch_and_bound_is_kmax_by_definition_and_at_most_the_exact_kernel() {
    for_random_pairs(5, |pairs, [p, q]| {
        let expected = naive::max(p, q, 1.0, |a, b| a * b);
        let exact = value(Method::Exact, 1.0, pairs, 0, 1);
        value(Method::Max, 1.0, pairs, 0, 1) == expected
            && value(Method::MaxEnumerated, 1.0, pairs, 0, 1) == expected
            && expected <= exact
    });
}

#[test]
fn names_of_placeholders_and_the_order_of_arguments_do_not_matter() {
    let mut random = Random(6);
    for _ in 0..500 {
        let texts = two_random_pairs(&mut random);
        let renamed =
            texts[0].replace(":1", ":90").replace(":2", ":1").replace(":3", ":2");
        let all = pairs(&[&texts[0], &texts[1], &renamed]);
        for method in METHODS {
            let expected = value(method, 1.0, &all, 0, 1);
            assert_eq!(value(method, 1.0, &all, 2, 1), expected, "{texts:?}");
            assert_eq!(value(method, 1.0, &all, 1, 0), expected, "{texts:?}");
        }
    }
}

#[test]
fn without_placeholders_the_kernel_is_the_product_of_two_subset_tree_kernels() {
    let left = corpus::generated(40, 1);
    let right = corpus::generated(40, 2);
    let [a, b] = [&left, &right].map(|side| side.iter().map(String::as_str));
    let forests =
        [a.clone(), b.clone()].map(|side| Forest::from_bracket_items(side).unwrap());
    let pairs = PairForest::from_brackets(a, b, ":").unwrap();
    for decay in [0.4, 1.0] {
        let subset = SubsetTree::new(decay);
        let [x, y] = forests.each_ref().map(|forest| {
            gram::gram(&subset, forest, None, Options::default()).unwrap()
        });
        for method in METHODS {
            let kernel = kernel(method, decay);
            let got = gram::gram(&kernel, &pairs, None, Options::default()).unwrap();
            for (index, got) in got.indexed_iter() {
                assert!(close(*got, x[index] * y[index]), "{method:?} {index:?}");
            }
        }
    }
}

fn random_pairs(n: usize, seed: u64) -> PairForest {
    let mut random = Random(seed);
    let two = (0..n).flat_map(|_| two_random_pairs(&mut random));
    pairs(&two.take(n).collect::<Vec<_>>())
}

#[test]
fn matrices_hold_what_single_pairs_have_whatever_the_threads() {
    let (x, y) = (random_pairs(60, 7), random_pairs(45, 8));
    for method in METHODS {
        for normalize in [false, true] {
            let kernel = kernel(method, 0.4);
            let matrix = |x, y, n_jobs| {
                let options = Options::default().with_normalize(normalize);
                gram::gram_with(&kernel, x, y, options, &jobs(n_jobs)).unwrap()
            };
            let single = |x: &PairForest, i, y: &PairForest, j| {
                pair::pair(&kernel, (x, i), (y, j), normalize).unwrap()
            };
            let one = matrix(&x, None, 1);
            let other = matrix(&x, Some(&y), 1);
            for n_jobs in [2, 3] {
                assert_eq!(matrix(&x, None, n_jobs), one);
                assert_eq!(matrix(&x, Some(&y), n_jobs), other);
            }
            for ((i, j), &got) in one.indexed_iter() {
                assert!((got - single(&x, i, &x, j)).abs() <= 1e-12 * got.max(1.0));
                assert_eq!(got, one[[j, i]]);
            }
            for ((i, j), &got) in other.indexed_iter() {
                assert!((got - single(&x, i, &y, j)).abs() <= 1e-12 * got.max(1.0));
            }
            let options = Options::default().with_normalize(normalize);
            let context = &jobs(2);
            let (diagonal, report) =
                gram::diagonal_with(&kernel, &x, options, context).unwrap();
            assert!(diagonal.iter().enumerate().all(|(i, &d)| d == one[[i, i]]));
            let zeros = (0..x.len()).filter(|&i| single(&x, i, &x, i) == 0.0);
            let zeros: Vec<usize> = if normalize { zeros.collect() } else { vec![] };
            assert_eq!(report.zero_rows, zeros);
        }
    }
}

#[test]
fn rows_and_single_values_are_those_of_the_matrix() {
    let (x, y) = (random_pairs(24, 8), random_pairs(11, 9));
    for method in METHODS {
        for normalize in [false, true] {
            let kernel = kernel(method, 0.4);
            let options = Options::default().with_normalize(normalize);
            let context = &jobs(2);
            let matrix =
                gram::gram_with(&kernel, &x, Some(&x), options, context).unwrap();
            let rows =
                gram::KernelRows::new_with(&kernel, &x, options, context).unwrap();
            let mut row = vec![f64::NAN; x.len()];
            for i in Random(1).order(x.len()) {
                rows.row(i, &mut row).unwrap();
                assert_eq!(row, matrix.row(i).to_vec(), "{method:?} {i}");
            }
            let block =
                gram::gram_with(&kernel, &x, Some(&y), options, context).unwrap();
            let places: Vec<_> =
                (0..x.len()).flat_map(|i| (0..y.len()).map(move |j| (i, j))).collect();
            let (i, j): (Vec<_>, Vec<_>) = places.into_iter().unzip();
            let (values, _) = neighbours::pairs_with(
                &kernel,
                &x,
                Some(&y),
                (&i, &j),
                options,
                context,
            )
            .unwrap();
            assert!(
                values.iter().zip(&block).all(|(&a, &b)| close(a, b)),
                "{method:?}"
            );
        }
    }
    let refused = neighbours::pairs(
        &kernel(Method::Exact, 0.4),
        &x,
        None,
        (&[0], &[x.len()]),
        Options::default(),
    );
    assert!(matches!(refused, Err(Error::Array { array: "j", index: 0, .. })));
}

#[test]
fn exact_matrices_are_positive_semidefinite() {
    for seed in 10..16 {
        let pairs = random_pairs(40, seed);
        for (decay, normalize) in [(0.1, false), (0.4, true), (1.0, false)] {
            let options = Options::default().with_normalize(normalize);
            let context = &jobs(1);
            let kernel = kernel(Method::Exact, decay);
            let matrix =
                gram::gram_with(&kernel, &pairs, None, options, context).unwrap();
            let rows: Vec<Vec<f64>> =
                matrix.rows().into_iter().map(|row| row.to_vec()).collect();
            let trace: f64 = (0..pairs.len()).map(|i| rows[i][i]).sum();
            let least = least_eigenvalue(rows);
            assert!(least > -1e-10 * trace, "{seed} {decay}: {least}");
        }
    }
}

/// The family in which the kernel counts the matchings of a complete bipartite graph.
fn matchings(n: usize) -> PairForest {
    let tree = |id: &dyn Fn(usize) -> usize| {
        let child = |k: usize| format!("(L{k} (x:{}))", id(k));
        let children: Vec<String> = (0..n * n).map(child).collect();
        format!("(R {}) | (Z z)", children.join(" "))
    };
    pairs(&[tree(&|k| k / n + 1), tree(&|k| k % n + 1)])
}

#[test]
fn the_kernel_counts_matchings() {
    // Σ over k of (n choose k)^2 k!, and the n² fragments below the root.
    for (n, expected) in [(1, 2.0), (2, 7.0), (3, 34.0), (4, 209.0), (5, 1546.0)] {
        let pairs = matchings(n);
        for method in [Method::Exact, Method::Paper] {
            let got = value(method, 1.0, &pairs, 0, 1);
            assert_eq!(got, expected + (n * n) as f64, "{n} {method:?}");
        }
    }
    assert_eq!(value(Method::Exact, 1.0, &matchings(7), 0, 1), 130_922.0 + 49.0);
}

#[test]
fn the_worst_case_ends_in_the_named_error_and_spares_the_others() {
    let worst = matchings(30);
    let watch = Stopwatch::start();
    let kernel = PairKernel::new(1.0);
    let error = pair::pair(&kernel, (&worst, 0), (&worst, 1), false).unwrap_err();
    assert_eq!(error, Error::ConstraintLimit { pairs: vec![(0, 1)], limit: 100_000 });
    assert!(error.to_string().contains("max_constraints=100000"), "{error}");
    // A second in a release build.
    let took = watch.took();
    assert!(took.as_secs() < 5, "{took:?}");
    let all = worst.concat(&pairs(&[P1])).unwrap();
    let mut out = vec![0.0f64; 9];
    let options = Options::default().with_normalize(true);
    let report = gram::fill_with(&kernel, &all, None, options, &mut out, &jobs(2));
    let given_up = report.unwrap().given_up;
    assert!(given_up.contains(&(1, 0)), "{given_up:?}");
    for (index, value) in out.iter().enumerate() {
        let (row, column) = (index / 3, index % 3);
        let is_missing = given_up.contains(&(row.max(column), row.min(column)));
        assert_eq!(value.is_nan(), is_missing, "{row} {column}");
    }
    assert_eq!(out[8], 1.0);
    assert!(matches!(
        gram::gram(&kernel, &all, None, Options::default()),
        Err(Error::ConstraintLimit { .. })
    ));
}

#[test]
fn what_has_no_kernel_with_itself_shares_nothing_even_with_what_is_given_up() {
    // Leaves alone have no production; every B matches every B, under other placeholders.
    let parts: Vec<String> =
        (0..6).map(|k| format!("(B (x:{}) (x:{}))", k, k + 1)).collect();
    let side = format!("(R {})", parts.join(" "));
    let all = pairs(&["(a) | (a)".to_owned(), format!("{side} | {side}")]);
    let kernel = PairKernel::new(1.0).with_max_constraints(1);
    let (_, report) = gram::diagonal(&kernel, &all, Options::default()).unwrap();
    assert_eq!(report.given_up, [(1, 1)]);
    let options = Options::default().with_normalize(true);
    let matrix = gram::gram(&kernel, &all, None, options).unwrap();
    assert_eq!(matrix.into_raw_vec_and_offset().0, [0.0, 0.0, 0.0, 1.0]);
    for (i, j) in [(0, 1), (1, 0)] {
        let single = pair::pair(&kernel, (&all, i), (&all, j), true);
        assert_eq!(single, Ok(0.0));
    }
}

#[test]
fn a_higher_limit_gives_the_value_that_a_lower_one_gave_up() {
    let pairs = matchings(6);
    let low = PairKernel::new(1.0).with_max_constraints(50);
    let of = |kernel: &PairKernel| pair::pair(kernel, (&pairs, 0), (&pairs, 1), false);
    assert!(matches!(of(&low), Err(Error::ConstraintLimit { limit: 50, .. })));
    assert_eq!(of(&PairKernel::new(1.0)).unwrap(), 13_327.0 + 36.0);
}

#[test]
fn more_pairs_of_placeholders_than_a_word_has_bits_count_all_the_same() {
    // Chains that share nothing but what they carry: 200 conflicts, all apart.
    let tree = |shift: usize| {
        let part = |k: usize| format!("(L{k} (x:{}) (x:{}))", k, 300 + (k + shift) % 2);
        let children: Vec<String> = (0..200).map(part).collect();
        format!("(R {}) | (Z z)", children.join(" "))
    };
    let pairs = pairs(&[tree(0), tree(1)]);
    // Each L can be alone; 300 and 301 fall onto one another one way or the other, and
    // every L agrees: so all of them fit together.
    let expected = 200.0 + 2f64.powi(200);
    assert!(close(value(Method::Exact, 1.0, &pairs, 0, 1), expected));
    assert!(close(value(Method::Paper, 1.0, &pairs, 0, 1), expected));
    // And with the other half's roles exchanged, none fits one of the other half.
    let tree = |shift: usize| {
        let part = |k: usize| {
            let own = 1000 + (k % 2 + shift * k / 100) % 2;
            format!("(L{k} (x:{k}) (x:{own}))")
        };
        let children: Vec<String> = (0..200).map(part).collect();
        format!("(R {}) | (Z z)", children.join(" "))
    };
    let halves = pairs_of(&[tree(0), tree(1)]);
    let expected = 200.0 + 2.0 * 2f64.powi(100) - 1.0;
    assert!(close(value(Method::Exact, 1.0, &halves, 0, 1), expected));
}

fn pairs_of(texts: &[String; 2]) -> PairForest {
    pairs(texts)
}

#[test]
fn printed_pairs_read_back_as_the_same_pairs() {
    let labels =
        ["NP", "10:30", "a:-", ":", "x:", "(", " ", "\u{1}", "b\u{2}", "a\\", "é:7"];
    for separator in [":", "::", "=", "@#"] {
        for label in labels {
            let escaped: String = label
                .chars()
                .flat_map(|c| {
                    let escape = matches!(c, '(' | ')' | ' ' | '\\').then_some('\\');
                    escape.into_iter().chain([c])
                })
                .collect();
            let left = format!("(S ({escaped}{separator}4 ({escaped}{separator}-)) x)");
            let right = format!("({escaped}{separator}12)");
            let pairs =
                PairForest::from_brackets([&*left], [&*right], separator).unwrap();
            assert_eq!(pairs.placeholders(0), [4, 12], "{left}");
            let plain = pairs.plain(Side::Right).unwrap();
            assert_eq!(plain.nodes().name(plain.roots()[0]), label);
            for other in [":", "/", separator] {
                let [left, right] = pairs.to_brackets(0, other);
                let again =
                    PairForest::from_brackets([&*left], [&*right], other).unwrap();
                assert!(again == pairs, "{label:?} {other:?}: {left} {right}");
            }
        }
    }
}

#[test]
fn errors_name_side_tree_and_place() {
    let read = |left: &[&'static str], right: &[&'static str]| {
        PairForest::from_brackets(left.iter().copied(), right.iter().copied(), ":")
            .unwrap_err()
            .to_string()
    };
    assert!(read(&["(A a)"], &["(A"]).starts_with("right: tree 0, line 1, column 3"));
    let error =
        read(&["(A a)", "(A\n (B:1 b) (C:99999999999999999999999 c))"], &["(A a)"; 2]);
    assert_eq!(
        error,
        "left: tree 1, line 2, column 13 (byte 15): expected a placeholder of at most \
         4294967294, got 99999999999999999999..."
    );
    let error = read(&["(A a)"; 2], &["(A a)"]);
    assert_eq!(error, "right has 1 entries, expected 2, one for each of left");
    for separator in ["", "1", " ", "(", "-", "\\"] {
        let error = PairForest::from_brackets(["(A a)"], ["(A a)"], separator);
        assert!(matches!(error, Err(Error::Parameter { name: "separator", .. })));
    }
}

#[test]
fn parameters_out_of_range_are_rejected() {
    let pairs = pairs(&[P1]);
    for (decay, max_constraints) in [(0.0, 1), (1.5, 1), (f64::NAN, 1), (0.4, 0)] {
        let kernel = PairKernel::new(decay).with_max_constraints(max_constraints);
        let error = gram::gram(&kernel, &pairs, None, Options::default());
        assert!(matches!(error, Err(Error::Parameter { .. })), "{error:?}");
    }
}

#[test]
fn depth_costs_memory_only() {
    let depth = 20_000;
    let text = format!("{}x{}", "(A:1 ".repeat(depth), ")".repeat(depth));
    let pairs = PairForest::from_brackets([&*text], ["(Z z)"], ":").unwrap();
    assert_eq!(pairs.to_brackets(0, ":")[0], text);
    assert_eq!(pairs.placeholders(0).len(), depth);
    let shallow = "(B (A:7 (A:7 x) x) (A:1 x))";
    let all = pairs
        .concat(&PairForest::from_brackets([shallow], ["(Z z)"], ":").unwrap())
        .unwrap();
    assert_eq!(value(Method::Exact, 1.0, &all, 0, 1), 2.0);
}

#[test]
fn normalised_values_survive_overflow() {
    let wide = |label: &str| format!("(S {})", format!("({label}:1 a) ").repeat(1200));
    let all = pairs(&[
        format!("{} | (Z z)", wide("A")),
        format!("(Q {}) | (Z z)", wide("A")),
        "(A:1 a) | (Z z)".to_owned(),
    ]);
    let kernel = PairKernel::new(1.0);
    let error = gram::gram(&kernel, &all, None, Options::default()).unwrap_err();
    assert!(matches!(error, Error::Overflow { row: 0, column: 0 }), "{error}");
    let options = Options::default().with_normalize(true);
    let matrix = gram::gram(&kernel, &all, None, options).unwrap();
    assert!((matrix[[0, 1]] - 0.5f64.sqrt()).abs() < 1e-9, "{}", matrix[[0, 1]]);
    assert!(matrix[[0, 2]] < 1e-100 && matrix[[0, 0]] == 1.0);
}

#[test]
fn anchoring_reproduces_the_papers_figure_3() {
    use treekernel_rs::pair::linking::{self, HeadRules};
    let left = "(S (NP (NNS Farmers)) (VP (VB feed) (NP (NNS cows)) (NP (NN animal) \
                (NNS extracts))))
                (ROOT (S (NP (NNS Pediatricians)) (VP (VB suggest) (S (NP (NNS women)) \
                (VP (TO to) (VP (VB feed) (NP (NNS newborns)) (NP (NN breast) (NN milk))))))))";
    let right = "(S (NP (NNS Cows)) (VP (VB eat) (NP (NN animal) (NNS extracts))))
                 (S (NP (NNS Pediatricians)) (VP (VB suggest) (SBAR (IN that) \
                 (S (NP (NNS newborns)) (VP (VB eat) (NP (NN breast) (NN milk)))))))";
    let forests = [left, right].map(|text| Forest::from_brackets(text).unwrap());
    let rules = HeadRules::default();
    let anchored = linking::anchored(
        [&forests[0], &forests[1]],
        &mut |label, children| Ok(rules.head(label, children)),
        &mut |word, tag| Ok(linking::key(word, tag)),
    )
    .unwrap();
    let swapped = p2("NN").replace(":4", ":?").replace(":5", ":4").replace(":?", ":5");
    assert!(anchored == pairs(&[P1.to_owned(), swapped]));
    for (method, expected) in METHODS.into_iter().zip([98.0, 96.0, 90.0, 90.0]) {
        assert_eq!(value(method, 1.0, &anchored, 0, 1), expected);
    }
}
