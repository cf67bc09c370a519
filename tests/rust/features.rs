//! Vocabularies as arrays: what no vocabulary has is refused, and said where.

use crate::corpus::read;
use treekernel_rs::features::{Kind, Vocabulary, VocabularyArrays};
use treekernel_rs::kernel::Counts;
use treekernel_rs::{Error, Result};

fn kind() -> Kind {
    Kind::PqGrams { p: 2, q: 2 }
}

fn fitted() -> Vocabulary {
    let forest = read(&["(S (A a) (B b))", "(A a)"]);
    let fitted = Vocabulary::fit(&kind(), &forest, 1, Counts::Linear);
    fitted.unwrap().0
}

/// The vocabulary of arrays that were changed.
fn changed(change: impl FnOnce(&mut VocabularyArrays)) -> Result<Vocabulary> {
    let mut arrays = fitted().to_arrays();
    change(&mut arrays);
    Vocabulary::from_arrays(&kind(), arrays)
}

#[test]
fn a_vocabulary_is_its_arrays() {
    let (old, again) = (fitted(), changed(|_| {}).unwrap());
    let names = |of: &Vocabulary| -> Vec<String> {
        (0..of.len()).map(|column| of.name(column).unwrap()).collect()
    };
    assert!(!old.is_empty());
    assert_eq!(names(&old), names(&again));
    let forest = read(&["(S (A a) (C c))", "(S (A a) (B b))"]);
    let rows = |of: &Vocabulary| {
        let rows = of.rows(&forest, Counts::Linear).unwrap();
        (rows.starts, rows.columns, rows.values)
    };
    assert_eq!(rows(&old), rows(&again));
}

#[test]
fn arrays_of_no_vocabulary_are_refused() {
    let fine = fitted().to_arrays();
    let (n_labels, last) = (fine.labels.len() as i64, fine.heads.len() - 1);
    let at = fine.parts.len() - 1;
    let feature = fine.ends.iter().position(|&end| end as usize > at).unwrap();
    // A part: an earlier feature, a label's number, or a place without a node.
    for (part, is_right) in [
        (0, true),
        (feature as i64 - 1, true),
        (feature as i64, false),
        (i64::MAX, false),
        (-1, true),
        (-2, true),
        (-1 - n_labels, true),
        (-2 - n_labels, false),
        (i64::MIN, false),
    ] {
        match changed(|arrays| arrays.parts[at] = part) {
            Ok(_) => assert!(is_right, "{part}"),
            Err(Error::Array { array: "parts", index, expected, got }) => {
                assert!(!is_right && index == at, "{part}: {index}");
                let range = format!("{} to {}", -1 - n_labels, feature as i64 - 1);
                assert_eq!((expected, got), (range, part.to_string()));
            }
            Err(other) => panic!("{part}: {other:?}"),
        }
    }
    let array = |change: &dyn Fn(&mut VocabularyArrays), name| match changed(change) {
        Err(Error::Array { array, .. } | Error::Length { array, .. }) => {
            assert_eq!(array, name);
        }
        other => panic!("{name}: {other:?}"),
    };
    array(&|arrays| arrays.heads[0] = n_labels as u32, "heads");
    array(&|arrays| arrays.ends[last] += 1, "parts");
    array(&|arrays| arrays.ends[0] = u32::MAX, "ends");
    array(&|arrays| arrays.ends.truncate(last), "ends");
    array(&|arrays| arrays.hashes.truncate(3), "hashes");
    array(&|arrays| arrays.hashes.copy_within(0..2, 2), "hashes");
    array(&|arrays| arrays.features[0] = last as u32 + 1, "columns");
    // A head without a node is one; the last label is one.
    assert!(changed(|arrays| arrays.heads[0] = u32::MAX).is_ok());
    assert!(changed(|arrays| arrays.heads[0] = n_labels as u32 - 1).is_ok());
    assert!(changed(|arrays| arrays.features[0] = last as u32).is_ok());
}
