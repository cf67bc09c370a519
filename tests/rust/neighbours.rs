//! What is alike: joins, nearest trees and lists of pairs are those of all pairs.

use crate::corpus::{self, Random, read};
use crate::own_kernel::told_apart_by_a_text;
use crate::registry::{jobs, settings, stop};
use treekernel_rs::gram::{self, Options};
use treekernel_rs::kernel::SubsetTree;
use treekernel_rs::neighbours::{self, JoinOptions, Nearest};
use treekernel_rs::{Context, Error, Forest, Kernel, Result};

fn options(normalize: bool) -> Options {
    Options::default().with_normalize(normalize)
}

/// All answers of a join, in order.
fn joined(
    kernel: &dyn Kernel,
    x: &Forest,
    y: Option<&Forest>,
    least: f64,
    options: Options,
    context: &Context,
) -> Result<Vec<(usize, usize, f64)>> {
    let mut all = Vec::new();
    let sink = &mut |pairs: neighbours::FoundPairs| {
        let places = pairs.rows.into_iter().zip(pairs.columns);
        let found: Vec<_> = places.zip(pairs.values).collect();
        assert!(found.is_sorted_by_key(|item| item.0));
        all.extend(found.into_iter().map(|((i, j), value)| (i, j, value)));
        Ok(())
    };
    neighbours::join_with(kernel, x, y, least, options, sink, context)?;
    all.sort_unstable_by_key(|item| (item.0, item.1));
    Ok(all)
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-12 * b.abs().max(1.0)
}

/// Corpora with equal trees, trees of one node, and trees without kernel.
fn forests(random: &mut Random, round: usize) -> (Forest, Forest) {
    let mut texts = corpus::trees(random, 10, 4 + 6 * (round % 5));
    for _ in 0..5 {
        texts.push(texts[random.below(texts.len())].clone());
    }
    texts.push(["(a)", "(A a)", "(A (A a))"][round % 3].to_owned());
    let order = random.order(texts.len());
    let x: Vec<&String> = order.iter().map(|&at| &texts[at]).collect();
    let mut others = corpus::trees(random, 5, 10);
    others.push(texts[0].clone());
    (read(&x), read(&others))
}

#[test]
fn answers_are_those_of_all_pairs() {
    let (mut random, mut n_answers, mut n_near) = (Random(13), 0, 0);
    let kernels = [told_apart_by_a_text(), settings()].concat();
    for (round, kernel) in kernels.iter().cycle().take(300).enumerate() {
        let (x, y) = forests(&mut random, round);
        let normalize = round % 4 != 3;
        for y in [None, Some(&y)] {
            let (options, context) = (options(normalize), &jobs(1 + round % 3));
            let matrix = gram::gram_with(&**kernel, &x, y, options, context).unwrap();
            let mut values: Vec<f64> = matrix.iter().copied().collect();
            values.sort_by(f64::total_cmp);
            // Thresholds, and one that some pair has exactly.
            let exact = values[random.below(values.len())];
            for least in [0.3, 0.7, 0.95, exact, 0.0, -1.0] {
                let found = joined(&**kernel, &x, y, least, options, context).unwrap();
                let what = format!("{kernel:?} {normalize} {least}: {round}");
                let mut expected = 0;
                for ((i, j), &value) in matrix.indexed_iter() {
                    if y.is_none() && i >= j {
                        continue;
                    }
                    let at = found.binary_search_by_key(&(i, j), |f| (f.0, f.1));
                    match at {
                        Ok(at) => {
                            assert!(close(found[at].2, value), "{what}");
                            assert!(found[at].2 >= least, "{what}");
                            expected += 1;
                        }
                        Err(_) => assert!(
                            value < least || close(value, least),
                            "{what}: {i} {j} {value}"
                        ),
                    }
                }
                assert_eq!(found.len(), expected, "{what}");
                n_answers += found.len();
                // Pair by pair they have the same values, bit for bit.
                let i: Vec<usize> = found.iter().map(|f| f.0).collect();
                let j: Vec<usize> = found.iter().map(|f| f.1).collect();
                let (values, _) = neighbours::pairs_with(
                    &**kernel,
                    &x,
                    y,
                    (&i, &j),
                    options,
                    context,
                )
                .unwrap();
                assert!(
                    values.iter().zip(&found).all(|(value, f)| *value == f.2),
                    "{what}"
                );
            }
            let k = [1, 3, 100][round % 3];
            let (nearest, _) =
                neighbours::top_k_with(&**kernel, &x, y, k, options, context).unwrap();
            let Nearest { k, indices, values, .. } = nearest;
            for (i, row) in matrix.outer_iter().enumerate() {
                let others = (0..row.len()).filter(|&j| y.is_some() || i != j);
                let mut best: Vec<f64> = others.clone().map(|j| row[j]).collect();
                best.sort_by(|a, b| b.total_cmp(a));
                assert_eq!(k, best.len().min([1, 3, 100][round % 3]));
                let (own, values) = (&indices[i * k..][..k], &values[i * k..][..k]);
                for at in 0..k {
                    assert!(
                        close(values[at], best[at]) && close(values[at], row[own[at]])
                    );
                    assert!(others.clone().any(|j| j == own[at]));
                    let is_after = at == 0
                        || values[at - 1] > values[at]
                        || values[at - 1] == values[at] && own[at - 1] < own[at];
                    assert!(is_after, "{kernel:?} {round}: {own:?} {values:?}");
                    n_near += 1;
                }
                // Ties at the end: nobody with a lower index was left out.
                if let (Some(&last), Some(&value)) = (own.last(), values.last()) {
                    let is_missing = |&j: &usize| {
                        j < last
                            && row[j] == row[last]
                            && row[j] == value
                            && !own.contains(&j)
                    };
                    assert!(
                        !others.clone().any(|j| is_missing(&j)),
                        "{kernel:?} {round}"
                    );
                }
            }
        }
    }
    assert!(n_answers > 50_000 && n_near > 20_000, "{n_answers} {n_near}");
}

/// What two trees share is one node with many children, whose fragments weigh far more
/// than its productions; each has a long chain of its own, with many productions that
/// weigh little. A bound by single productions would be .21 where the kernel is .87.
#[test]
fn fragments_of_several_productions_count_in_the_bound() {
    let wide: Vec<String> = (0..80).map(|k| format!("(E{k} e)")).collect();
    let wide = wide.join(" ");
    let tree = |name: usize| {
        let chain: Vec<String> = (0..300).map(|k| format!("(C{name}.{k}")).collect();
        let (chain, ends) = (chain.join(" "), ")".repeat(300));
        format!("(S (D {wide}) (X {chain} c{ends}))")
    };
    let mut texts: Vec<String> = (0..4).map(tree).collect();
    texts.extend(corpus::trees(&mut Random(3), 10, 20));
    let x = read(&texts);
    let (kernel, options) = (SubsetTree::new(0.1), options(true));
    let matrix = gram::gram(&kernel, &x, None, options).unwrap();
    assert!((0.86..0.88).contains(&matrix[[0, 1]]), "{}", matrix[[0, 1]]);
    for least in [0.25, 0.5, 0.85] {
        let found = joined(&kernel, &x, None, least, options, &jobs(1)).unwrap();
        let found: Vec<_> = found.into_iter().map(|(i, j, _)| (i, j)).collect();
        let all = matrix.indexed_iter().filter(|&((i, j), _)| i < j);
        let expected = all.filter(|&(_, &value)| value >= least);
        assert_eq!(found, expected.map(|(at, _)| at).collect::<Vec<_>>(), "{least}");
    }
}

#[test]
fn threads_and_stores_change_no_bit() {
    let mut random = Random(5);
    for (round, kernel) in settings().iter().enumerate() {
        let (x, y) = forests(&mut random, round);
        let both = y.concat(&x).unwrap();
        let apart = both.select(y.len()..both.len());
        for normalize in [true, false] {
            let one =
                joined(&**kernel, &x, None, 0.4, options(normalize), &jobs(1)).unwrap();
            for n_jobs in [2, 4] {
                let options = options(normalize);
                let found = joined(&**kernel, &x, None, 0.4, options, &jobs(n_jobs));
                assert_eq!(found.unwrap(), one);
                let nearest = |n_jobs| {
                    let context = &jobs(n_jobs);
                    neighbours::top_k_with(&**kernel, &x, None, 3, options, context)
                        .unwrap()
                };
                assert_eq!(nearest(n_jobs), nearest(1));
            }
            let there =
                joined(&**kernel, &apart, None, 0.4, options(normalize), &jobs(1))
                    .unwrap();
            let places = |all: &[(usize, usize, f64)]| -> Vec<(usize, usize)> {
                all.iter().map(|f| (f.0, f.1)).collect()
            };
            assert_eq!(places(&there), places(&one));
            assert!(there.iter().zip(&one).all(|(a, b)| close(a.2, b.2)));
        }
    }
}

#[test]
fn trees_too_large_for_floats_are_found_as_well() {
    // Self-kernels beyond 1e308, one subtree apart.
    let tree = |last: &str| format!("(S {} {last})", "(A (B b) (C c)) ".repeat(900));
    let x =
        read(&[tree("(D d)"), tree("(D e)"), tree("(E e)"), "(A (B b) (C c))".into()]);
    let kernel = treekernel_rs::kernel::SubsetTree::new(1.0);
    let (options, context) = (options(true), &jobs(1));
    let matrix = gram::gram(&kernel, &x, None, options).unwrap();
    let found = joined(&kernel, &x, None, 0.3, options, context).unwrap();
    let right = |i: usize, j: usize| i < j && matrix[[i, j]] >= 0.3;
    let n = matrix.indexed_iter().filter(|((i, j), _)| right(*i, *j)).count();
    assert!(n > 0);
    assert_eq!(found.len(), n);
    assert!(
        found.iter().all(|&(i, j, value)| right(i, j) && close(value, matrix[[i, j]]))
    );
    let error = joined(&kernel, &x, None, 0.3, options.with_normalize(false), context);
    assert!(matches!(error, Err(Error::Overflow { .. })), "{error:?}");
}

/// The nearest by a whole matrix: values first, then indices.
fn brute_force(
    kernel: &dyn Kernel,
    x: &Forest,
    y: Option<&Forest>,
    k: usize,
    options: Options,
) -> Vec<(usize, f64)> {
    let matrix = gram::gram(kernel, x, y, options).unwrap();
    let mut all = Vec::new();
    for (i, row) in matrix.outer_iter().enumerate() {
        let others = row.iter().copied().enumerate();
        let mut others: Vec<_> = others.filter(|o| y.is_some() || o.0 != i).collect();
        others.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        all.extend(others.into_iter().take(k));
    }
    all
}

fn check_nearest(kernel: &dyn Kernel, x: &Forest, y: Option<&Forest>, k: usize) {
    for n_jobs in [1, 3] {
        let (options, context) = (options(true), &jobs(n_jobs));
        let expected = brute_force(kernel, x, y, k, options);
        let (found, _) =
            neighbours::top_k_with(kernel, x, y, k, options, context).unwrap();
        assert_eq!(found.indices, expected.iter().map(|e| e.0).collect::<Vec<_>>());
        let mut values = found.values.iter().zip(&expected);
        assert!(values.all(|(&value, expected)| close(value, expected.1)));
    }
}

#[test]
fn the_nearest_of_trees_too_large_for_floats_are_those_of_the_matrix() {
    // Self-kernels beyond 1e308, more of them than are wanted, and ordinary trees.
    let mut texts: Vec<String> = (0..7)
        .map(|i| format!("(S {} {})", "(A (B b) (C c)) ".repeat(900 - i), "(D d)"))
        .collect();
    texts.extend((0..20).map(|i| format!("(S (A (B b) (C c{})) (D d{i}))", i % 3)));
    texts.extend((0..5).map(|i| format!("(Z z{i})")));
    let x = read(&texts);
    let kernel = treekernel_rs::kernel::SubsetTree::new(1.0);
    for k in [1, 3, 8, 40] {
        check_nearest(&kernel, &x, None, k);
        check_nearest(&kernel, &x, Some(&x), k);
    }
}

#[test]
fn among_equally_near_trees_the_first_are_found() {
    // All have the same kernel with all of their half; the halves have none.
    let label = |i: usize| ["A", "B"][i % 2];
    let texts: Vec<_> =
        (0..800).map(|i| format!("(S{} ({} x{i}) (C c))", i % 2, label(i))).collect();
    let x = read(&texts);
    let kernel = treekernel_rs::kernel::SubsetTree::new(0.5);
    for k in [1, 3, 500] {
        check_nearest(&kernel, &x, None, k);
    }
}

#[test]
fn bad_input_is_refused_and_a_watch_ends_the_call() {
    let x = read(&["(A a)", "(A b)"]);
    let kernel = treekernel_rs::kernel::SubsetTree::new(0.4);
    let (options, context) = (options(true), &jobs(1));
    let is_parameter = |r: Result<_>| matches!(r, Err(Error::Parameter { .. }));
    assert!(is_parameter(joined(&kernel, &x, None, f64::NAN, options, context)));
    let wrong = treekernel_rs::kernel::SubsetTree::new(2.0);
    assert!(is_parameter(joined(&wrong, &x, None, 0.5, options, context)));
    let pairs = |i: &[usize], j: &[usize]| {
        neighbours::pairs(&kernel, &x, None, (i, j), options).map(|found| found.0)
    };
    assert!(matches!(pairs(&[0], &[]), Err(Error::Length { array: "j", .. })));
    assert!(matches!(
        pairs(&[0, 2], &[0, 0]),
        Err(Error::Array { array: "i", index: 1, .. })
    ));
    assert_eq!(pairs(&[0, 0], &[0, 1]).unwrap(), [1.0, 0.0]);
    let stop = &stop();
    let top = neighbours::top_k_with(&kernel, &x, None, 1, options, stop);
    assert_eq!(top.err(), Some(Error::Interrupted));
    let sink = &mut |_| Err(Error::Interrupted);
    let ended = neighbours::join(&kernel, &x, None, -1.0, options, sink);
    assert_eq!(ended.err(), Some(Error::Interrupted));
}

#[test]
fn a_sink_gets_no_more_pairs_at_once_than_it_says() {
    let x = read(&vec!["(S (A a) (B b))"; 1_600]);
    let kernel = treekernel_rs::kernel::SubsetTree::new(0.4);
    let (mut n_calls, mut n_pairs) = (0, 0);
    let sink = &mut |pairs: neighbours::FoundPairs| {
        assert!(pairs.rows.len() <= neighbours::MAX_PAIRS_AT_ONCE);
        (n_calls, n_pairs) = (n_calls + 1, n_pairs + pairs.rows.len());
        Ok(())
    };
    neighbours::join_with(&kernel, &x, None, 0.8, options(true), sink, &jobs(2))
        .unwrap();
    assert_eq!((n_calls, n_pairs), (2, 1_600 * 1_599 / 2));
}

/// An index answers as calls without one, bit for bit, also after it has grown.
#[test]
fn a_kept_index_changes_no_bit() {
    let mut random = Random(17);
    for (round, kernel) in settings().iter().cycle().take(60).enumerate() {
        let (x, y) = forests(&mut random, round);
        let (normalize, context) = (round % 4 != 3, &jobs(1 + round % 3));
        let options = options(normalize);
        let first = y.select(0..y.len() / 2);
        let mut index =
            neighbours::Index::new(kernel.clone(), first.clone(), normalize).unwrap();
        let mut others = first;
        for _ in 0..2 {
            let mut out = vec![0.0; x.len() * others.len()];
            index.fill_with(&x, &mut out, context).unwrap();
            let expected =
                gram::gram_with(&**kernel, &x, Some(&others), options, context)
                    .unwrap();
            assert_eq!(out, expected.into_raw_vec_and_offset().0, "{kernel:?} {round}");
            for x in [Some(&x), None] {
                let (found, report) = index.top_k_with(x, 3, context).unwrap();
                let (asked, among) = match x {
                    Some(x) => (x, Some(&others)),
                    None => (&others, None),
                };
                let expected = neighbours::top_k_with(
                    &**kernel, asked, among, 3, options, context,
                );
                assert_eq!((found, report), expected.unwrap(), "{kernel:?} {round}");
                let mut found = neighbours::FoundPairs::default();
                let sink = &mut |pairs| found.append(pairs);
                index.join_with(x, 0.4, sink, context).unwrap();
                found.sort().unwrap();
                let expected =
                    joined(&**kernel, asked, among, 0.4, options, context).unwrap();
                let places = found.rows.into_iter().zip(found.columns);
                let found = places.zip(found.values).map(|((i, j), v)| (i, j, v));
                assert!(found.eq(expected), "{kernel:?} {round}");
            }
            index.add_with(&x, context).unwrap();
            assert_eq!(index.len(), others.len() + x.len());
            index.compact_with(context).unwrap();
            others = others.concat(&x).unwrap();
        }
        assert_eq!(index.items().unwrap(), others);
    }
}

/// Groups by texts, and pairs of trees by all pairs of groups, written out by hand.
#[test]
fn groups_stand_for_the_pairs_of_a_join() {
    let (mut random, mut n_pairs, mut n_found) = (Random(29), 0, 0);
    for (round, kernel) in settings().iter().cycle().take(60).enumerate() {
        let (x, other) = forests(&mut random, round);
        let order: Vec<usize> = (0..30).map(|_| random.below(x.len())).collect();
        let x = x.select(order);
        for y in [None, Some(&other)] {
            let (options, context) = (options(round % 3 != 0), &jobs(1 + round % 2));
            let least = [0.4, 0.8, 1.0][round % 3];
            let whole = joined(&**kernel, &x, y, least, options, context).unwrap();
            let found =
                neighbours::join_groups_with(&**kernel, &x, y, least, options, context);
            let groups = found.unwrap().0;
            let texts = (x.to_brackets(), y.unwrap_or(&x).to_brackets());
            let columns = groups.columns.as_ref().unwrap_or(&groups.rows);
            for (texts, groups) in [(&texts.0, &groups.rows), (&texts.1, columns)] {
                let first = |text| texts.iter().position(|other| other == text);
                for (text, group) in texts.iter().zip(groups) {
                    assert_eq!(groups[first(text).unwrap()], *group);
                }
                let mut starts: Vec<_> = texts.iter().map(first).collect();
                starts.sort_unstable();
                starts.dedup();
                assert_eq!(starts.len(), groups.iter().max().unwrap() + 1);
            }
            let pairs = &groups.pairs;
            let places: Vec<_> = pairs.rows.iter().zip(&pairs.columns).collect();
            assert!(
                places.is_sorted() && places.windows(2).all(|two| two[0] != two[1])
            );
            let mut expected = Vec::new();
            for i in 0..x.len() {
                let first = if y.is_some() { 0 } else { i + 1 };
                for (j, &column) in columns.iter().enumerate().skip(first) {
                    let (mut a, mut b) = (groups.rows[i], column);
                    if y.is_none() {
                        (a, b) = (a.min(b), a.max(b));
                    }
                    if let Ok(at) = places.binary_search(&(&a, &b)) {
                        expected.push((i, j, pairs.values[at]));
                    }
                }
            }
            assert_eq!(whole, expected);
            // Written out, whole and in parts.
            let expander = groups.expander().unwrap();
            let cut = random.below(x.len());
            let mut out = expander.expand(0..cut).unwrap();
            out.append(expander.expand(cut..x.len()).unwrap()).unwrap();
            assert_eq!(out, expander.expand(0..x.len()).unwrap());
            let out = out.rows.into_iter().zip(out.columns).zip(out.values);
            let out: Vec<_> = out.map(|((i, j), value)| (i, j, value)).collect();
            assert_eq!(out, expected);
            assert_eq!(expander.starts().last(), Some(&expected.len()));
            // Some rows after others are all rows.
            let part = |rows| {
                let wanted = JoinOptions::from(least).with_rows(rows);
                neighbours::join_groups(&**kernel, &x, y, wanted, options).unwrap().0
            };
            let (mut first, rest) = (part(0..cut), part(cut..x.len()));
            assert_eq!((&first.rows, &first.columns), (&rest.rows, &groups.columns));
            first.pairs.append(rest.pairs).unwrap();
            first.pairs.sort().unwrap();
            assert_eq!(first, groups);
            (n_pairs, n_found) = (n_pairs + expected.len(), n_found + places.len());
        }
    }
    assert!(n_found > 500 && n_pairs > 3 * n_found, "{n_found} {n_pairs}");
}

#[test]
fn groups_and_rows_that_are_not_there_are_refused() {
    let x = read(&["(A a)", "(A a)", "(B b)"]);
    let (kernel, options) = (SubsetTree::new(0.4), options(true));
    let (groups, _) = neighbours::join_groups(&kernel, &x, None, 0.5, options).unwrap();
    let expander = groups.expander().unwrap();
    #[allow(clippy::reversed_empty_ranges)]
    for rows in [0..4, 4..4, 2..1] {
        let is_parameter =
            |error| matches!(error, Error::Parameter { name: "rows", .. });
        assert!(is_parameter(expander.expand(rows.clone()).unwrap_err()));
        let wanted = JoinOptions::from(0.5).with_rows(rows);
        let found = neighbours::join_groups(&kernel, &x, None, wanted, options);
        assert!(is_parameter(found.unwrap_err()));
    }
    let mut wrong = groups.clone();
    wrong.pairs.columns[0] = 2;
    let error = wrong.expander().unwrap_err();
    assert!(
        matches!(error, Error::Array { array: "columns", index: 0, .. }),
        "{error}"
    );
    let mut wrong = groups.clone();
    wrong.pairs.values.clear();
    let error = wrong.expander().unwrap_err();
    assert!(matches!(error, Error::Length { array: "rows", got: 1, .. }), "{error}");
    let mut wrong = groups;
    wrong.rows[1] = usize::MAX;
    let error = wrong.expander().unwrap_err();
    assert!(matches!(error, Error::Array { array: "groups", index: 1, .. }), "{error}");
}
