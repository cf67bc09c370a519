//! Kernels of sentence pairs: every method against its definition, single pairs against
//! matrices, and text against text.

#![no_main]

use libfuzzer_sys::fuzz_target;
use source::{Source, close};
use treekernel_rs::pair::naive::{self, Occurrences};
use treekernel_rs::pair::{self, Method, PairForest, PairKernel, Side};
use treekernel_rs::{Error, gram};

/// Labels, with placeholders and without.
const MARKED: &[&str] = &["a", "b", "a:1", "b:1", "a:2", "b:2", "c", "a:3"];

fuzz_target!(|bytes: &[u8]| {
    let mut source = Source::new(bytes);
    let decay = source.pick(&[0.4, 1.0, 0.5, 0.03]);
    let method = source.pick(&[
        Method::Exact,
        Method::Paper,
        Method::Max,
        Method::MaxEnumerated,
    ]);
    let max_constraints = source.pick(&[100_000, 1000, 20, 3]);
    let kernel = PairKernel::new(decay).with_method(method);
    let kernel = kernel.with_max_constraints(max_constraints);
    let (options, context) = source.options();
    let max_nodes = source.pick(&[6, 9, 16]);
    let forest = source.forest(MARKED, 6, max_nodes);
    let texts = forest.to_brackets();
    let n = texts.len() / 2;
    if n == 0 {
        return;
    }
    let items = |side: usize| texts[side * n..][..n].iter().map(String::as_str);
    let pairs = PairForest::from_brackets(items(0), items(1), ":").expect("legal text");
    round_trip(&pairs);

    let mut values = vec![0.0; n * n];
    let report = gram::fill_with(&kernel, &pairs, None, options, &mut values, &context);
    let report = report.expect("small values");
    for i in 0..n {
        for j in 0..=i {
            let single = pair::pair_with(
                &kernel,
                (&pairs, i),
                (&pairs, j),
                options.normalize,
                &context,
            );
            match single {
                Ok(value) => {
                    let got = values[i * n + j];
                    // One of the three values of a normalised pair may be given up in
                    // the matrix, and here too.
                    assert!(close(got, value, 0.0), "K({i},{j}) {got}, {value}");
                    assert!(close(values[j * n + i], value, 0.0), "K({j},{i})");
                }
                Err(Error::ConstraintLimit { .. }) => {
                    let is_known = report.given_up.contains(&(i, j));
                    assert!(is_known, "K({i},{j}) given up alone");
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
    if let Ok(wide) = gram::gram_with(&kernel, &pairs, Some(&pairs), options, &context)
    {
        for ((i, j), &got) in wide.indexed_iter() {
            assert!(close(got, values[i * n + j], 0.0), "gram(X, X): K({i},{j})");
        }
    }
    let (i, j) = (source.below(n), source.below(n));
    by_definition(&kernel, &pairs, i, j);
});

fn round_trip(pairs: &PairForest) {
    let texts: Vec<[String; 2]> =
        (0..pairs.len()).map(|pair| pairs.to_brackets(pair, "::")).collect();
    let side = |side: usize| texts.iter().map(move |pair| &*pair[side]);
    let again =
        PairForest::from_brackets(side(0), side(1), "::").expect("printed pairs");
    assert!(again == *pairs);
    let picked: Vec<usize> = (0..pairs.len()).rev().collect();
    let turned = pairs.select(&picked).expect("few pairs");
    let twice = turned.select(&picked).expect("few pairs");
    assert!(twice == *pairs);
    let both = pairs.concat(&turned).expect("few pairs");
    assert_eq!(both.len(), 2 * pairs.len());
    for side in Side::BOTH {
        assert_eq!(both.plain(side).expect("few trees").len(), both.len());
    }
}

/// The value of one pair against the sum over all pairs of fragments, where these are few.
fn by_definition(kernel: &PairKernel, pairs: &PairForest, i: usize, j: usize) {
    let is_small = |pair: usize| {
        let forest = pairs.select(&[pair]).expect("one pair");
        let sides = Side::BOTH.map(|side| forest.plain(side).expect("one tree"));
        sides.iter().all(|tree| tree.n_nodes()[0] <= 9)
    };
    if !is_small(i) || !is_small(j) {
        return;
    }
    let [p, q] = [i, j].map(|pair| Occurrences::new(pairs, pair, false));
    let matched = Side::BOTH.map(|side| naive::matched(&p, &q, side).len());
    if matched.iter().any(|&n| n > 150)
        || p.placeholders.len().max(q.placeholders.len()) > 3
    {
        return;
    }
    let right = match kernel.method {
        Method::Exact => naive::kernel(&p, &q, kernel.decay),
        Method::Paper => naive::paper(&p, &q, kernel.decay),
        Method::Max | Method::MaxEnumerated => {
            naive::max(&p, &q, kernel.decay, |a, b| a * b)
        }
    };
    match pair::pair(kernel, (pairs, i), (pairs, j), false) {
        Ok(got) => assert!(close(got, right, 0.0), "K({i},{j}) {got}, not {right}"),
        Err(Error::ConstraintLimit { .. }) => {}
        Err(error) => panic!("{error}"),
    }
    let all = pair::constraints(kernel, (pairs, i), (pairs, j));
    let expected = match kernel.method {
        Method::Exact => naive::exact_constraints(&p, &q),
        Method::Paper => naive::constraints(&p, &q),
        _ => return,
    };
    if let Ok(all) = all {
        let mut expected: Vec<Vec<(u32, u32)>> =
            expected.into_iter().map(|set| set.into_iter().collect()).collect();
        expected.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        assert_eq!(all, expected, "constraints of {i} and {j}");
    }
}
