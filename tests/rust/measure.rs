//! A measure that is no kernel: all that others have, against brute force.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::corpus::{Random, read, trees};
use crate::registry::{jobs, stop};
use treekernel_rs::gram::{self, Measure, Options};
use treekernel_rs::kernel::{Prepared, Scaled, Worker};
use treekernel_rs::neighbours::{self, Index};
use treekernel_rs::{Context, Error, Forest, Result};

/// How many labels two trees share. Gives up where they have more than `most` in all.
#[derive(Clone)]
struct SharedLabels {
    most: usize,
}

impl SharedLabels {
    const UNLIMITED: Self = Self { most: usize::MAX };
}

struct Labels(Vec<BTreeSet<String>>, usize);

fn labels(forest: &Forest) -> Vec<BTreeSet<String>> {
    let texts = forest.to_brackets().into_iter();
    let of = |text: String| {
        let words = text.split([' ', '(', ')']).map(str::to_owned);
        words.filter(|word| !word.is_empty()).collect()
    };
    texts.map(of).collect()
}

impl Measure<Forest> for SharedLabels {
    fn check(&self) -> Result<()> {
        let (name, expected, got) = ("most", "above 0", self.most.to_string());
        if self.most > 0 {
            Ok(())
        } else {
            Err(Error::Parameter { name, expected, got })
        }
    }

    fn prepare(&self, trees: &Forest, _: &Context) -> Result<Box<dyn Prepared>> {
        Ok(Box::new(Labels(labels(trees), self.most)))
    }

    fn limit(&self) -> u64 {
        self.most as u64
    }
}

impl Prepared for Labels {
    fn worker(&self) -> Worker<'_> {
        Box::new(|a, b, _| {
            let (x, y) = (&self.0[a], &self.0[b]);
            if x.union(y).count() > self.1 {
                let (pairs, limit) = (vec![(a, b)], self.1 as u64);
                return Err(Error::ConstraintLimit { pairs, limit });
            }
            Ok(Scaled::from_f64(x.intersection(y).count() as f64))
        })
    }
}

/// What a cell should be; None where it is given up.
fn right(
    x: &BTreeSet<String>,
    y: &BTreeSet<String>,
    normalize: bool,
    most: usize,
) -> Option<f64> {
    if normalize && x == y {
        return Some(1.0);
    }
    let is_lost = x.union(y).count() > most;
    let are_lost = normalize && (x.len() > most || y.len() > most);
    let norm = if normalize { ((x.len() * y.len()) as f64).sqrt() } else { 1.0 };
    (!is_lost && !are_lost).then(|| x.intersection(y).count() as f64 / norm)
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-12
}

/// Trees, some of them equal.
fn forests() -> (Forest, Forest) {
    let mut random = Random(4);
    let mut texts = trees(&mut random, 30, 12);
    texts.extend_from_within(3..9);
    let mut others = trees(&mut random, 10, 12);
    others.extend_from_slice(&texts[..4]);
    (read(&texts), read(&others))
}

#[test]
fn matrices_rows_and_lists_have_its_values() {
    let (x, y) = forests();
    let measure = SharedLabels::UNLIMITED;
    let most = measure.most;
    for normalize in [false, true] {
        let options = Options::default().with_normalize(normalize);
        for (y, columns) in [(None, &x), (Some(&y), &y)] {
            let (a, b) = (labels(&x), labels(columns));
            let cell = |i: usize, j: usize| right(&a[i], &b[j], normalize, most);
            for n in [1, 3] {
                let matrix =
                    gram::gram_with(&measure, &x, y, options, &jobs(n)).unwrap();
                let mut cells = matrix.indexed_iter();
                assert!(cells.all(|((i, j), &value)| {
                    cell(i, j).is_some_and(|cell| close(cell, value))
                }));
            }
            let (i, j): (Vec<_>, Vec<_>) = (0..60).map(|n| (n % 36, n % 14)).unzip();
            let context = &jobs(2);
            let (values, _) =
                neighbours::pairs_with(&measure, &x, y, (&i, &j), options, context)
                    .unwrap();
            for (at, value) in values.into_iter().enumerate() {
                assert!(cell(i[at], j[at]).is_some_and(|cell| close(cell, value)));
            }
        }
        let rows = gram::KernelRows::new(&measure, &x, options).unwrap();
        let mut row = vec![0.0; x.len()];
        let own = labels(&x);
        for i in [5, 2, 33] {
            rows.row(i, &mut row).unwrap();
            for (j, &value) in row.iter().enumerate() {
                let right = right(&own[i], &own[j], normalize, most);
                assert!(right.is_some_and(|right| close(right, value)));
            }
        }
        let (diagonal, _) = gram::diagonal(&measure, &x, options).unwrap();
        for (set, value) in own.iter().zip(diagonal) {
            assert_eq!(right(set, set, normalize, most), Some(value));
        }
    }
}

#[test]
fn neighbours_and_joins_are_those_of_all_pairs() {
    let (x, y) = forests();
    let measure = SharedLabels::UNLIMITED;
    for normalize in [false, true] {
        let options = Options::default().with_normalize(normalize);
        let index =
            Index::new(Arc::new(measure.clone()), y.clone(), normalize).unwrap();
        for (y, columns) in [(None, &x), (Some(&y), &y)] {
            let (a, b) = (labels(&x), labels(columns));
            let value = |i: usize, j: usize| {
                right(&a[i], &b[j], normalize, usize::MAX).unwrap()
            };
            let context = &jobs(2);
            let (found, _) =
                neighbours::top_k_with(&measure, &x, y, 4, options, context).unwrap();
            for i in 0..x.len() {
                let others = (0..b.len()).filter(|&j| y.is_some() || i != j);
                let mut others: Vec<usize> = others.collect();
                others.sort_by(|&j, &k| value(i, k).total_cmp(&value(i, j)));
                let found = &found.indices[i * 4..][..4];
                for (at, &j) in found.iter().enumerate() {
                    assert!(close(value(i, j), value(i, others[at])), "{i}: {found:?}");
                }
            }
            let mut pairs = neighbours::FoundPairs::default();
            let least = if normalize { 0.45 } else { 2.5 };
            let sink = &mut |some| pairs.append(some);
            neighbours::join_with(&measure, &x, y, least, options, sink, context)
                .unwrap();
            pairs.sort().unwrap();
            let all = (0..x.len()).flat_map(|i| (0..b.len()).map(move |j| (i, j)));
            let is_right = |&(i, j): &(usize, usize)| {
                (y.is_some() || i < j) && value(i, j) >= least
            };
            let expected: Vec<_> = all.filter(is_right).collect();
            assert!(expected.len() > 5, "{}", expected.len());
            assert!(
                pairs
                    .rows
                    .iter()
                    .copied()
                    .zip(pairs.columns.iter().copied())
                    .eq(expected)
            );
            if y.is_some() {
                let asked = index.top_k_with(Some(&x), 4, context).unwrap().0;
                assert_eq!(asked, found);
            }
        }
    }
}

#[test]
fn what_it_gives_up_is_told_and_all_else_is_computed() {
    let (x, y) = forests();
    let measure = SharedLabels { most: 7 };
    for normalize in [false, true] {
        let options = Options::default().with_normalize(normalize);
        for (y, columns) in [(None, &x), (Some(&y), &y)] {
            let (a, b) = (labels(&x), labels(columns));
            let mut out = vec![0.0; a.len() * b.len()];
            let report =
                gram::fill_with(&measure, &x, y, options, &mut out, &jobs(2)).unwrap();
            let mut missing = Vec::new();
            for (i, row) in out.chunks(b.len()).enumerate() {
                for (j, &value) in row.iter().enumerate() {
                    let cell = right(&a[i], &b[j], normalize, measure.most);
                    let is_right = |cell| close(cell, value);
                    assert!(cell.map_or(value.is_nan(), is_right), "{i} {j}");
                    missing.extend(cell.is_none().then_some((i, j)));
                }
            }
            missing.retain(|&(i, j)| y.is_some() || j <= i);
            assert!(missing.len() > 10 && missing.len() < out.len() / 2);
            assert_eq!(report.given_up, missing);
            let limit = 7;
            let error = Error::ConstraintLimit { pairs: missing.clone(), limit };
            assert_eq!(gram::gram(&measure, &x, y, options), Err(error));
            // One by one.
            let (i, j): (Vec<_>, Vec<_>) = missing[..5].iter().copied().unzip();
            let lists = (&*i, &*j);
            let (values, report) =
                neighbours::pairs_with(&measure, &x, y, lists, options, &jobs(1))
                    .unwrap();
            assert!(values.iter().all(|value| value.is_nan()));
            assert_eq!(report.given_up, missing[..5]);
            // Nothing is known of the order of what is missing.
            let found = neighbours::top_k_with(&measure, &x, y, 3, options, &jobs(2));
            let Err(Error::ConstraintLimit { pairs, limit: 7 }) = found else {
                panic!("{found:?}");
            };
            let (i, j) = pairs[0];
            assert_eq!(right(&a[i], &b[j], normalize, measure.most), None);
        }
        // Rows and the diagonal.
        let own = labels(&x);
        let rows = gram::KernelRows::new(&measure, &x, options).unwrap();
        let mut row = vec![0.0; x.len()];
        for i in 0..x.len() {
            let lost = |j: &usize| right(&own[i], &own[*j], normalize, 7).is_none();
            let pairs: Vec<_> = (0..x.len()).filter(lost).map(|j| (i, j)).collect();
            let done = rows.row(i, &mut row);
            if pairs.is_empty() {
                assert_eq!(done, Ok(()));
            } else {
                assert_eq!(done, Err(Error::ConstraintLimit { pairs, limit: 7 }));
            }
        }
        let seen = std::sync::Mutex::new(0);
        let sink = |_: usize, row: &[f64]| {
            *seen.lock().unwrap() += row.iter().filter(|value| value.is_nan()).count();
        };
        let report =
            gram::for_each_row_with(&measure, &x, options, sink, &jobs(2)).unwrap();
        assert_eq!(seen.into_inner().unwrap(), report.given_up.len());
    }
    let lost = |set: &BTreeSet<String>| set.len() > 7;
    let own = labels(&x);
    let (diagonal, report) = gram::diagonal(&measure, &x, Options::default()).unwrap();
    let expected: Vec<_> = (0..x.len()).filter(|&i| lost(&own[i])).collect();
    assert!(!expected.is_empty() && expected.iter().all(|&i| diagonal[i].is_nan()));
    assert_eq!(report.given_up, expected.iter().map(|&i| (i, i)).collect::<Vec<_>>());
}

#[test]
fn its_parameters_are_checked_and_its_calls_are_stopped() {
    let (x, y) = forests();
    let (options, wrong) = (Options::default(), SharedLabels { most: 0 });
    let is_named = |error| {
        assert!(
            matches!(error, Some(Error::Parameter { name: "most", .. })),
            "{error:?}"
        );
    };
    is_named(gram::gram(&wrong, &x, None, options).err());
    is_named(gram::KernelRows::new(&wrong, &x, options).err());
    is_named(gram::diagonal_with(&wrong, &x, options, &jobs(1)).err());
    is_named(gram::SinglePairs::new(&wrong, &x).err());
    is_named(Index::new(Arc::new(wrong.clone()), y.clone(), true).err());
    is_named(neighbours::top_k_with(&wrong, &x, None, 1, options, &jobs(1)).err());
    let sink = &mut |_| Ok(());
    is_named(
        neighbours::join_with(&wrong, &x, None, 0.5, options, sink, &jobs(1)).err(),
    );
    is_named(
        neighbours::pairs_with(&wrong, &x, None, (&[], &[]), options, &jobs(1)).err(),
    );
    let measure = SharedLabels::UNLIMITED;
    let stopped = gram::gram_with(&measure, &x, Some(&y), options, &stop());
    assert_eq!(stopped.err(), Some(Error::Interrupted));
    let stopped = neighbours::top_k_with(&measure, &x, None, 2, options, &stop());
    assert_eq!(stopped.err(), Some(Error::Interrupted));
}
