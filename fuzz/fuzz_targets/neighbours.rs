//! Nearest trees, joins and lists of pairs, of a call and of a kept index that grows: those
//! of the whole matrix; of an index that is compact, those of the call to the bit.

#![no_main]

use libfuzzer_sys::fuzz_target;
use source::{LABELS, Source, close};
use treekernel_rs::gram;
use treekernel_rs::neighbours::{self, FoundPairs, Index, MAX_PAIRS_AT_ONCE, Nearest};

fuzz_target!(|bytes: &[u8]| {
    let mut source = Source::new(bytes);
    let is_made = source.below(4) == 3;
    let kernel = if is_made { source.made_kernel() } else { source.kernel() };
    let (options, context) = source.options();
    let max_nodes = source.pick(&[8, 16, 24]);
    let first = source.forest(LABELS, 5, max_nodes);
    let more = source.forest(LABELS, 3, max_nodes);
    let x = source.forest(LABELS, 3, max_nodes);
    let least = source.pick(&[0.8, 0.5, 1.0, 1e-3, 0.0, -1.0, 3.0, f64::INFINITY]);
    let k = source.pick(&[1, 2, 3, 20, 0]);
    // Now and then a tree stands there many times.
    let n_equal = source.pick(&[0, 0, 0, 0, 0, 3, 40, 300]);
    let first = first.concat(&first.select(vec![0; n_equal])).expect("a small forest");
    let y = first.concat(&more).expect("a small forest");

    // The index is asked, grows, and is asked again.
    let mut index = Index::new(kernel.clone(), first, options.normalize).expect("fits");
    if source.flag() {
        index.top_k_with(None, 1, &context).expect("small values");
    }
    index.add_with(&more, &context).expect("a small forest");
    let mut compact = index.clone();
    compact.compact_with(&context).expect("a small forest");
    for x in [None, Some(&x)] {
        let (rows, y_of) = (x.unwrap_or(&y), x.map(|_| &y));
        let matrix = gram::gram_with(&*kernel, rows, Some(&y), options, &context)
            .expect("small values");
        let at = |i: usize, j: usize| matrix[[i, j]];

        let (nearest, _) =
            neighbours::top_k_with(&*kernel, rows, y_of, k, options, &context)
                .expect("small values");
        let (kept, _) = compact.top_k_with(x, k, &context).expect("small values");
        assert_eq!(kept, nearest, "top_k of the index");
        let (grown, _) = index.top_k_with(x, k, &context).expect("small values");
        for nearest in [&nearest, &grown] {
            are_nearest(nearest, rows.len(), y.len(), x.is_none(), k, &at);
        }

        let mut found = FoundPairs::default();
        let sink = &mut |pairs: FoundPairs| {
            assert!(
                pairs.rows.len() <= MAX_PAIRS_AT_ONCE,
                "{} pairs",
                pairs.rows.len()
            );
            found.append(pairs)
        };
        neighbours::join_with(&*kernel, rows, y_of, least, options, sink, &context)
            .expect("small values");
        found.sort().expect("few pairs");
        let join = |index: &Index| {
            let mut kept = FoundPairs::default();
            let sink = &mut |pairs: FoundPairs| kept.append(pairs);
            index.join_with(x, least, sink, &context).expect("small values");
            kept.sort().expect("few pairs");
            kept
        };
        assert_eq!(join(&compact), found, "join of the index");
        for found in [&found, &join(&index)] {
            are_all(found, rows.len(), y.len(), x.is_none(), least, &at);
        }

        let i: Vec<usize> =
            (0..source.below(6)).map(|_| source.below(rows.len())).collect();
        let j: Vec<usize> = i.iter().map(|_| source.below(y.len())).collect();
        let (values, _) =
            neighbours::pairs_with(&*kernel, rows, y_of, (&i, &j), options, &context)
                .expect("small values");
        for (at_list, value) in values.iter().enumerate() {
            let right = at(i[at_list], j[at_list]);
            assert!(close(*value, right, 0.0), "pairs: {value}, not {right}");
        }
    }
    let (mut fresh, mut kept) =
        (vec![0.0; x.len() * y.len()], vec![0.0; x.len() * y.len()]);
    gram::fill_with(&*kernel, &x, Some(&y), options, &mut fresh, &context)
        .expect("small");
    index.fill_with(&x, &mut kept, &context).expect("small values");
    for (&value, &right) in kept.iter().zip(&fresh) {
        assert!(close(value, right, 0.0), "rows of the index: {value}, not {right}");
    }
    compact.fill_with(&x, &mut kept, &context).expect("small values");
    let bits = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&kept), bits(&fresh), "rows of the index");
});

/// Whether no tree that is left out is nearer than those that were found.
fn are_nearest(
    nearest: &Nearest,
    n_rows: usize,
    n: usize,
    is_self: bool,
    k: usize,
    at: &dyn Fn(usize, usize) -> f64,
) {
    let k = k.min(if is_self { n - 1 } else { n });
    assert_eq!((nearest.k, nearest.indices.len()), (k, n_rows * k));
    for i in 0..n_rows {
        let found = &nearest.indices[i * k..][..k];
        let values = &nearest.values[i * k..][..k];
        for (n, (&j, &value)) in found.iter().zip(values).enumerate() {
            assert!(
                close(value, at(i, j), 0.0),
                "({i}, {j}) {value}, not {}",
                at(i, j)
            );
            assert!(!(is_self && i == j), "tree {i} is its own neighbour");
            assert!(!found[..n].contains(&j), "tree {j} twice");
            let is_after = n == 0
                || values[n - 1] > value
                || (values[n - 1] == value && found[n - 1] < j);
            assert!(is_after, "the order of {found:?}, {values:?}");
        }
        let Some(&last) = values.last() else { continue };
        for j in (0..n).filter(|j| !found.contains(j) && !(is_self && i == *j)) {
            let value = at(i, j);
            assert!(value <= last || close(value, last, 0.0), "({i}, {j}) is left out");
        }
    }
}

/// Whether all pairs that are similar enough were found, and no others.
fn are_all(
    found: &FoundPairs,
    n_rows: usize,
    n: usize,
    is_self: bool,
    least: f64,
    at: &dyn Fn(usize, usize) -> f64,
) {
    let mut next = 0;
    for i in 0..n_rows {
        for j in if is_self { i + 1 } else { 0 }..n {
            let value = at(i, j);
            let is_here =
                (found.rows.get(next), found.columns.get(next)) == (Some(&i), Some(&j));
            if is_here {
                let got = found.values[next];
                assert!(close(got, value, 0.0), "({i}, {j}) {got}, not {value}");
                assert!(got >= least, "({i}, {j}) {got} is too little");
                next += 1;
            } else {
                assert!(
                    value < least || close(value, least, 0.0),
                    "({i}, {j}) {value}"
                );
            }
        }
    }
    assert_eq!(next, found.rows.len(), "pairs that are none");
}
