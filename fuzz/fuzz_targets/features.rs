//! Trees as sparse vectors: of one call and of two, by columns and hashed_with, through arrays
//! that nobody can trust; and the kernel whose fragments the features are.

#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use source::{LABELS, Source, close, jobs};
use treekernel_rs::features::{
    Kind, SparseRows, Vocabulary, VocabularyArrays, hashed_with,
};
use treekernel_rs::gram;
use treekernel_rs::kernel::{Counts, PartialTree, Subpath, SubsetTree, Subtree};
use treekernel_rs::{Error, Forest, Kernel};

/// Nodes of the larger trees, none of which a limit on the size of features cuts.
const MOST: usize = 12;

fuzz_target!(|bytes: &[u8]| {
    let mut source = Source::new(bytes);
    let (kind, kernel) = kind(&mut source);
    let forest = source.forest(LABELS, 4, MOST);
    let others = source.forest(LABELS, 3, MOST);
    let min_df = 1 + source.below(3) as u32;
    let context = &jobs(1);
    let fitted = Vocabulary::fit_with(&kind, &forest, min_df, Counts::Linear, context);
    let (vocabulary, rows) = match fitted {
        Ok(fitted) => fitted,
        Err(Error::Parameter { .. }) => return,
        Err(error) => panic!("{error}"),
    };
    whole(&rows, forest.len(), vocabulary.len());
    let again =
        vocabulary.rows_with(&forest, Counts::Linear, context).expect("few features");
    same(&rows, &again);
    let others_rows =
        vocabulary.rows_with(&others, Counts::Linear, context).expect("few features");
    whole(&others_rows, others.len(), vocabulary.len());
    let mut names: Vec<String> =
        (0..vocabulary.len()).map(|at| vocabulary.name(at).expect("small")).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), vocabulary.len(), "two columns of one name");

    // So many columns that none collide.
    let plain = hashed_with(&kind, &forest, u32::MAX, false, Counts::Linear, context);
    let plain = plain.expect("few features");
    let signed = hashed_with(&kind, &forest, u32::MAX, true, Counts::Linear, context);
    let signed = signed.expect("few features");
    for tree in 0..forest.len() {
        let sizes = [&plain, &signed].map(|rows| {
            let mut sizes: Vec<f64> = rows.row(tree).map(|(_, x)| x.abs()).collect();
            sizes.sort_unstable_by(f64::total_cmp);
            sizes
        });
        assert_eq!(sizes[0], sizes[1], "signs change no size");
    }
    if let Some(kernel) = kernel {
        let matrix = gram::gram(&*kernel, &forest, None, gram::Options::default())
            .expect("small values");
        for ((i, j), &right) in matrix.indexed_iter() {
            for rows in [Some(&rows).filter(|_| min_df == 1), Some(&plain)] {
                let Some(rows) = rows else { continue };
                let got = dot(rows, i, j);
                assert!(close(got, right, 0.0), "<{i},{j}> {got}, not {right}");
            }
        }
    }

    let arrays = vocabulary.to_arrays();
    let loaded =
        Vocabulary::from_arrays(&kind, arrays.clone()).expect("its own arrays");
    same(
        &loaded.rows_with(&forest, Counts::Linear, context).expect("few features"),
        &rows,
    );
    tampered(&mut source, &kind, arrays, &forest);
});

/// What features are, and the kernel that their products are, if any.
fn kind(source: &mut Source<'_>) -> (Kind, Option<Arc<dyn Kernel>>) {
    let decay = source.pick(&[0.5, 1.0, 0.25, 0.07]);
    let leaf_weight = source.pick(&[0.0, 1.0, 0.25]);
    let is_whole = source.flag();
    let max_size = if is_whole { MOST as u32 } else { 1 + source.below(4) as u32 };
    let (kind, kernel): (Kind, Arc<dyn Kernel>) = match source.below(8) {
        0 => {
            let kernel = Subtree::new(decay).with_leaf_weight(leaf_weight);
            (Kind::Subtrees { decay, leaf_weight }, Arc::new(kernel))
        }
        1 | 2 => {
            let kernel = SubsetTree::new(decay).with_leaf_weight(leaf_weight);
            (Kind::Fragments { decay, leaf_weight, max_size }, Arc::new(kernel))
        }
        3 => {
            // Of what nodes have many of, features are many.
            let longest = Some(1 + source.below(2));
            let kernel = PartialTree::new(decay, 0.5).with_max_children(longest);
            let max_size = max_size.min(4);
            return (Kind::Partial { kernel, max_size }, None);
        }
        4 => (Kind::Paths { decay, max_size }, Arc::new(Subpath::new(decay))),
        5 => return (Kind::Productions, None),
        6 => return (if is_whole { Kind::Labels } else { Kind::Edges }, None),
        _ => {
            let (p, q) = (1 + source.below(3) as u32, 1 + source.below(3) as u32);
            return (Kind::PqGrams { p, q }, None);
        }
    };
    let has_all = is_whole || matches!(kind, Kind::Subtrees { .. });
    (kind, has_all.then_some(kernel))
}

fn whole(rows: &SparseRows, n_trees: usize, n_columns: usize) {
    assert_eq!(rows.starts.len(), n_trees + 1);
    assert_eq!((rows.starts[0], rows.starts[n_trees]), (0, rows.columns.len()));
    for tree in 0..n_trees {
        let columns: Vec<u32> = rows.row(tree).map(|(column, _)| column).collect();
        assert!(columns.is_sorted_by(|a, b| a < b), "{columns:?}");
        assert!(columns.iter().all(|&column| (column as usize) < n_columns));
    }
    assert!(rows.values.iter().all(|x| x.is_finite()));
}

fn same(a: &SparseRows, b: &SparseRows) {
    assert_eq!((&a.starts, &a.columns), (&b.starts, &b.columns));
    assert_eq!(a.values, b.values);
}

fn dot(rows: &SparseRows, i: usize, j: usize) -> f64 {
    let mut right = rows.row(j).peekable();
    let mut sum = 0.0;
    for (column, x) in rows.row(i) {
        while right.next_if(|&(other, _)| other < column).is_some() {}
        if let Some((_, y)) = right.next_if(|&(other, _)| other == column) {
            sum += x * y;
        }
    }
    sum
}

/// Arrays that were changed load whole, or are refused.
fn tampered(
    source: &mut Source<'_>,
    kind: &Kind,
    mut arrays: VocabularyArrays,
    forest: &Forest,
) {
    for _ in 0..=source.below(3) {
        let at = source.below(256);
        let number = source.pick(&[0, 1, 2, 5, 1 << 31, u32::MAX]);
        let set = |list: &mut Vec<u32>| {
            if !list.is_empty() {
                let n = list.len();
                list[at % n] = number;
            }
        };
        match source.below(8) {
            0 => set(&mut arrays.heads),
            1 => set(&mut arrays.ends),
            2 => set(&mut arrays.features),
            3 if !arrays.parts.is_empty() => {
                let n = arrays.parts.len();
                let wrong = [-1, -2, -9, 0, 1, 7, i64::MIN, i64::MAX];
                arrays.parts[at % n] = source.pick(&wrong);
            }
            4 if !arrays.hashes.is_empty() => {
                let n = arrays.hashes.len();
                arrays.hashes[at % n] = arrays.hashes[0];
            }
            5 => drop(arrays.labels.pop()),
            6 => arrays.features.truncate(at % 8),
            _ => arrays.ends.truncate(at % 8),
        }
    }
    let Ok(loaded) = Vocabulary::from_arrays(kind, arrays) else { return };
    let rows =
        loaded.rows_with(forest, Counts::Linear, &jobs(1)).expect("few features");
    whole(&rows, forest.len(), loaded.len());
    for column in 0..loaded.len() {
        assert!(!loaded.name(column).is_ok_and(|name| name.len() > 100_000_000));
    }
}
