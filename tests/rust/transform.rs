//! Forests made of others.

use treekernel_rs::Branching;

use crate::corpus::read;

#[test]
fn runs_of_equal_siblings_become_one_with_its_number_or_without() {
    // A tree, with numbers, without.
    let cases = [
        ("(S a b a)", "(S a b a)", "(S a b a)"),
        ("(S a)", "(S a)", "(S a)"),
        ("(S a a b)", "(S (*2 a) b)", "(S a b)"),
        ("(S b a a a)", "(S b (*3 a))", "(S b a)"),
        ("(S a a b a a)", "(S (*2 a) b (*2 a))", "(S a b a)"),
        // Children first: then these two are equal.
        ("(S (A a a) (A a a))", "(S (*2 (A (*2 a))))", "(S (A a))"),
        ("(S (A a a) (A a))", "(S (A (*2 a)) (A a))", "(S (A a))"),
    ];
    for (tree, numbered, plain) in cases {
        let forest = read(&[tree]);
        for (count, expected) in [(true, numbered), (false, plain)] {
            let got = forest.collapse_repeats(count).unwrap();
            assert_eq!(got.to_brackets(), [expected], "{tree} {count}");
        }
    }
}

#[test]
fn nodes_go_with_what_is_below_them_or_without() {
    // A tree, without X and all below, without X.
    let cases = [
        ("(S (X a b) c)", "(S c)", "(S a b c)"),
        ("(S (A (X a) (X (X b))))", "(S A)", "(S (A a b))"),
        ("(X a)", "(\\e)", "(a)"),
        ("(X a b)", "(\\e)", "(X a b)"),
        ("(S a)", "(S a)", "(S a)"),
    ];
    for (tree, pruned, spliced) in cases {
        let forest = read(&[tree]);
        for (keep, expected) in [(false, pruned), (true, spliced)] {
            let is_x = |label| forest.nodes().labels().name(label) == "X";
            let got = forest.prune(is_x, keep).unwrap();
            assert_eq!(got.to_brackets(), [expected], "{tree} {keep}");
        }
    }
}

#[test]
fn children_are_sorted_by_what_they_are() {
    let texts = ["(S (B b) (A c) (A a))", "(S (A a) (B b) (A c))", "(S (A a) (A c))"];
    let sorted = read(&texts).sorted().unwrap();
    let roots = sorted.roots();
    assert!(roots[0] == roots[1] && roots[0] != roots[2]);
}

#[test]
fn labels_are_replaced_by_names_in_their_order() {
    let forest = read(&["(S (B b) (A a))", "(A b)"]);
    let labels = forest.used_labels().into_iter();
    let name = |label| format!("{}1", forest.nodes().labels().name(label));
    let got = forest.relabel(&labels.map(name).collect::<Vec<_>>()).unwrap();
    assert_eq!(got.to_brackets(), ["(S1 (B1 b1) (A1 a1))", "(A1 b1)"]);
}

#[test]
fn lists_of_children_become_chains() {
    // A tree, its lists named L as chains from either end, all long lists as chains.
    let cases = [
        ("(L a)", "(L a)", "(L a)", "(L a)"),
        ("(L a b)", "(L a (L b))", "(L (L a) b)", "(L a b)"),
        ("(L a b c)", "(L a (L b (L c)))", "(L (L (L a) b) c)", "(L a (L b (L c)))"),
        ("(S a b c)", "(S a b c)", "(S a b c)", "(S a (S b (S c)))"),
        (
            "(S (L (L a b) c) (L a b))",
            "(S (L (L a (L b)) (L c)) (L a (L b)))",
            "(S (L (L (L (L a) b)) c) (L (L a) b))",
            "(S (L (L a b) c) (L a b))",
        ),
    ];
    for (tree, right, left, long) in cases {
        let forest = read(&[tree]);
        let is_list = |label| forest.nodes().labels().name(label) == "L";
        let got = forest.binarize(is_list, 2, Branching::Right).unwrap();
        assert_eq!(got.to_brackets(), [right], "{tree}");
        let got = forest.binarize(is_list, 0, Branching::Left).unwrap();
        assert_eq!(got.to_brackets(), [left], "{tree}");
        let got = forest.binarize(|_| true, 3, Branching::Right).unwrap();
        assert_eq!(got.to_brackets(), [long], "{tree}");
    }
}
