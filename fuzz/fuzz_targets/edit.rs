//! Edit distances: joins, nearest trees and single pairs within a bound are those of the
//! whole matrix, and mappings cost what they say.

#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use source::{LABELS, Source, close};
use treekernel_rs::edit::{EditDistance, Normalization};
use treekernel_rs::gram::{self, Measure, Options};
use treekernel_rs::neighbours::{self, Filter, FoundPairs, Index};

fuzz_target!(|bytes: &[u8]| {
    let mut source = Source::new(bytes);
    let mut cost = || source.pick(&[1.0, 0.5, 2.0, 0.0, 0.3, 7.0]);
    let [rename, insert, delete] = [cost(), cost(), cost()];
    let delete = if source.flag() { insert } else { delete };
    let normalization = source.pick(&[
        None,
        Some(Normalization::Max),
        Some(Normalization::Sum),
        Some(Normalization::Metric),
    ]);
    let measure = EditDistance::new(rename, insert, delete);
    let measure = measure.with_normalization(normalization);
    if measure.check().is_err() {
        return; // costs that are no metric
    }
    let (_, context) = source.options();
    let max_nodes = source.pick(&[8, 24, 64]);
    let x = source.forest(LABELS, 4, max_nodes);
    let y = source.forest(LABELS, 4, max_nodes);
    let k = source.pick(&[1, 2, 3, 20, 0]);
    let options = Options::default();
    let indexes = [&x, &y].map(|trees| {
        let measure = Arc::new(measure.clone());
        Index::new(measure, trees.clone(), false).expect("costs are in range")
    });
    for y in [None, Some(&y)] {
        let mut joined = Vec::new();
        let matrix =
            gram::gram_with(&measure, &x, y, options, &context).expect("small trees");
        let at = (source.byte() as usize) % matrix.len();
        let most = matrix.as_slice().expect("rows")[at] * source.pick(&[1.0, 0.7, 3.0]);
        if y.is_some() || measure.is_symmetric() {
            let mut found = FoundPairs::default();
            let sink = &mut |pairs: FoundPairs| found.append(pairs);
            neighbours::join_with(&measure, &x, y, most, options, sink, &context)
                .expect("small trees");
            found.sort().expect("few pairs");
            let right: Vec<(usize, usize, f64)> = matrix
                .indexed_iter()
                .filter(|&((i, j), &value)| value <= most && (y.is_some() || i < j))
                .map(|((i, j), &value)| (i, j, value))
                .collect();
            let pairs = found.rows.iter().zip(&found.columns).zip(&found.values);
            let got: Vec<_> = pairs.map(|((&i, &j), &value)| (i, j, value)).collect();
            assert_eq!(got, right, "pairs up to {most}");
            joined = found.values;
        }
        let (nearest, _) =
            neighbours::top_k_with(&measure, &x, y, k, options, &context)
                .expect("small trees");
        for (i, row) in matrix.outer_iter().enumerate() {
            let mut right: Vec<usize> =
                (0..row.len()).filter(|&j| y.is_some() || i != j).collect();
            right.sort_by(|&a, &b| row[a].total_cmp(&row[b]));
            right.truncate(nearest.k);
            assert_eq!(nearest.indices[i * nearest.k..][..nearest.k], right, "of {i}");
        }
        let (within, _) =
            neighbours::top_k_within_with(&measure, &x, y, k, most, options, &context)
                .expect("small trees");
        let mut right = nearest;
        for (index, value) in right.indices.iter_mut().zip(&mut right.values) {
            if *value > most {
                (*index, *value) = (neighbours::NOBODY, f64::INFINITY);
            }
        }
        assert_eq!(within, right, "up to {most}");
        // An index says the same, whatever was asked before.
        let index = &indexes[usize::from(y.is_some())];
        let x = y.map(|_| &x);
        let filter = Filter::default().with_at_least(most);
        let (found, _) =
            index.top_k_filtered_with(x, k, &filter, &context).expect("small trees");
        assert_eq!(found, right, "of an index, up to {most}");
        if x.is_some() || measure.is_symmetric() {
            let mut found = FoundPairs::default();
            let sink = &mut |pairs: FoundPairs| found.append(pairs);
            index.join_with(x, most, sink, &context).expect("small trees");
            found.sort().expect("few pairs");
            assert_eq!(found.values, joined, "of an index, up to {most}");
        }
    }
    let (a, b) = (x.select([0]), y.select([0]));
    let distance = measure.pair_with(&a, &b, &context).expect("small trees");
    let most = distance * source.pick(&[1.0, 0.5, 2.0]);
    let within = measure.pair_within_with(&a, &b, most, &context).expect("small trees");
    assert_eq!(within, Some(distance).filter(|&d| d <= most));
    let mapping = measure.mapping_with(&a, &b, &context).expect("small trees");
    let cost = rename * mapping.renamed.len() as f64
        + insert * mapping.inserted.len() as f64
        + delete * mapping.deleted.len() as f64;
    assert!(close(mapping.cost, cost, 1.0), "{} of {cost}", mapping.cost);
});
