//! Trees that share: counted, kept shared, refused where they would be written out.

use crate::registry::asked;
use treekernel_rs::forest::{MAX_BYTES, MAX_NODES, SharedArrays};
use treekernel_rs::{Context, Error, Forest};

/// A tree of `times` doublings: 2^(times + 1) - 1 nodes in `times + 1` subtrees.
fn doubled(times: u32) -> SharedArrays {
    SharedArrays {
        names: vec!["x".to_owned(), "S".to_owned()],
        labels: std::iter::once(0).chain((0..times).map(|_| 1)).collect(),
        ends: (0..=times).map(|node| 2 * node).collect(),
        children: (0..times).flat_map(|node| [node, node]).collect(),
        roots: vec![times],
    }
}

fn forest(arrays: &SharedArrays) -> Result<Forest, Error> {
    Forest::from_shared(arrays)
}

#[test]
fn nodes_are_counted_and_saturate() {
    for (times, expected) in [(0, 1), (3, 15), (62, (1 << 63) - 1), (63, u64::MAX)] {
        assert_eq!(forest(&doubled(times)).unwrap().n_nodes(), [expected]);
    }
    assert_eq!(forest(&doubled(70)).unwrap().n_nodes(), [u64::MAX]);
}

#[test]
fn sharing_is_kept_and_the_written_out_form_says_the_same() {
    let texts = "(S (A a) (A a) (B (A a))) (A a) (C) (S (A a) (A a) (B (A a)))";
    let whole = Forest::from_brackets(texts).unwrap();
    for part in [whole.clone(), whole.select([1, 2]), whole.select([])] {
        let shared = part.to_shared().unwrap();
        let again = forest(&shared).unwrap();
        assert_eq!(again, part);
        assert_eq!(again.to_shared().unwrap(), shared);
        assert_eq!(again.to_arrays_with(&Context::default()), Ok(part.to_arrays()));
        assert_eq!(again.to_brackets_with(&Context::default()), Ok(part.to_brackets()));
        assert_eq!(shared.labels.len(), part.n_distinct());
        let order = part.preorder_with(&Context::default());
        assert_eq!(order, Ok(part.preorder()));
    }
    let tower = doubled(70);
    assert_eq!(forest(&tower).unwrap().to_shared(), Ok(tower));
    let small = forest(&doubled(10)).unwrap();
    let written = Forest::from_brackets(&small.to_brackets()[0]).unwrap();
    assert_eq!(written, small);
}

#[test]
fn what_writes_out_every_node_refuses_with_both_numbers() {
    let refused = |error: Error, most: u64| match error {
        Error::Expansion { needed, limit, .. } => {
            assert!(needed > limit && limit == most, "{needed} {limit}");
            let text = error.to_string();
            assert!(
                text.contains(&needed.to_string()) && text.contains(&limit.to_string())
            );
        }
        other => panic!("{other}"),
    };
    for times in [28, 40, 70] {
        let forest = forest(&doubled(times)).unwrap();
        refused(forest.to_arrays_with(&Context::default()).unwrap_err(), MAX_NODES);
        refused(forest.preorder_with(&Context::default()).unwrap_err(), MAX_NODES);
        if times > 30 {
            refused(
                forest.to_brackets_with(&Context::default()).unwrap_err(),
                MAX_BYTES,
            );
        }
    }
}

#[test]
fn what_is_written_out_can_be_stopped() {
    let forest = forest(&doubled(20)).unwrap();
    let mut calls = 0;
    let stop = asked(|_, _| {
        calls += 1;
        if calls % 1000 == 0 { Err(Error::Interrupted) } else { Ok(()) }
    });
    assert_eq!(forest.to_arrays_with(&stop).unwrap_err(), Error::Interrupted);
    assert_eq!(forest.preorder_with(&stop).unwrap_err(), Error::Interrupted);
    assert_eq!(forest.to_brackets_with(&stop).unwrap_err(), Error::Interrupted);
    drop(stop);
    assert_eq!(calls, 3000);
}

/// A change of the arrays, and the error that it leads to.
type Case = (fn(&mut SharedArrays), &'static str);

#[test]
fn tampered_arrays_are_errors() {
    let good = doubled(3);
    let change = |how: fn(&mut SharedArrays)| {
        let mut bad = good.clone();
        how(&mut bad);
        forest(&bad).unwrap_err().to_string()
    };
    let cases: [Case; 9] = [
        (|a| a.labels[2] = 2, "labels[2]: expected an index into the 2 names, got 2"),
        (|a| a.ends[1] = 7, "ends[1]: expected 0 to 6, got 7"),
        (|a| a.ends[2] = 1, "ends[2]: expected 2 to 6, got 1"),
        (
            |a| a.children[2] = 2,
            "children[2]: expected a subtree before number 2, got 2",
        ),
        (
            |a| a.children[2..4].fill(0),
            "labels[2]: expected a subtree that differs from number 1, got 1",
        ),
        (
            |a| a.roots[0] = 4,
            "roots[0]: expected the number of one of 4 subtrees, got 4",
        ),
        (
            |a| a.names[1] = "x".into(),
            "names[1]: expected another name than names[0], got 'x'",
        ),
        (
            |a| a.ends.truncate(3),
            "ends has 3 entries, expected 4, one per entry of labels",
        ),
        (
            |a| a.children.push(0),
            "children has 7 entries, expected 6, the last of ends",
        ),
    ];
    for (how, message) in cases {
        assert_eq!(change(how), message);
    }
}
