//! Models of kernels without an index, which keep their support trees.

use std::sync::Arc;

use crate::corpus::{self, Random, read};
use crate::registry::{asked, jobs, of, stop, without_graphs};
use treekernel_rs::dag::solve::{Intercept, Limits, Loss, Problem, Solver};
use treekernel_rs::dag::{Model, ModelOptions, Perceptron, Vote};
use treekernel_rs::kernel::{ElasticTree, Operation, SubsetTree};
use treekernel_rs::{Error, Forest, Kernel, gram};

fn options(normalize: bool, n_outputs: usize) -> ModelOptions {
    ModelOptions::default().with_normalize(normalize).with_n_outputs(n_outputs)
}

/// A kernel with a graph, and the same without.
fn twins() -> [Arc<dyn Kernel>; 2] {
    let sst: Arc<dyn Kernel> = Arc::new(SubsetTree::new(0.5).with_leaf_weight(0.25));
    let power = of(Operation::Power(Some(1)), [Arc::clone(&sst)]);
    [sst, power]
}

fn labels(n: usize) -> Vec<f64> {
    (0..n).map(|at| if (at * 7919) % 11 < 5 { 1.0 } else { -1.0 }).collect()
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn scores_depend_neither_on_threads_nor_on_the_trees_beside() {
    let trees = [corpus::generated(260, 4), corpus::trees(&mut Random(2), 40, 30)];
    let trees = trees.concat();
    let all = read(&trees);
    for kernel in without_graphs() {
        for normalize in [false, true] {
            let mut model = Model::new(&kernel, options(normalize, 2)).unwrap();
            let supports = all.select((0..300).step_by(3));
            let alphas: Vec<f64> =
                (0..200).map(|at| f64::from(at % 7) / 4.0 - 0.5).collect();
            model.add(&supports, &alphas).unwrap();
            let expected = model.score_with(&all, &jobs(1)).unwrap();
            assert_eq!(model.score_with(&all, &jobs(3)).unwrap(), expected);
            for part in [0..1, 7..150, 150..300] {
                // Of a store of their own.
                let some = read(&trees[part.clone()]);
                let scores = model.score_with(&some, &jobs(2)).unwrap().0;
                let own = &expected.0[2 * part.start..2 * part.end];
                assert_eq!(bits(&scores), bits(own), "{kernel:?} {part:?}");
            }
        }
    }
}

#[test]
fn equal_support_trees_are_one_and_without_a_weight_none() {
    let all = read(&["(S (A a) (B b))", "(S (A a) (B c))", "(S (A a) (B b))", "(A a)"]);
    let [_, kernel] = twins();
    let mut model = Model::new(&kernel, options(false, 2)).unwrap();
    let kept = |model: &Model| {
        let arrays = model.to_arrays();
        (arrays.large_trees.to_brackets(), arrays.large_alphas)
    };
    let alphas = [1.0, 0.5, 2.0, 0.0, 3.0, 0.0, 0.0, 0.0];
    model.add(&all, &alphas).unwrap();
    let [first, second] = [0, 1].map(|tree| all.select([tree]).to_brackets().remove(0));
    let both = vec![first.clone(), second];
    assert_eq!(kept(&model), (both, vec![4.0, 0.5, 2.0, 0.0]));
    assert_eq!((model.n_trees(), model.n_nodes(), model.n_tree_nodes()), (3, 8, 15));
    // One weight of a tree may be 0, not all.
    model.add_with(&all.select([0, 1]), &[-4.0, 0.0, -2.0, 0.0], &jobs(1)).unwrap();
    assert_eq!(kept(&model), (vec![first], vec![0.0, 0.5]));
    assert_eq!(model.n_nodes(), 5);
    model.add(&all.select([2]), &[0.0, -0.5]).unwrap();
    assert_eq!((kept(&model), model.n_nodes()), ((vec![], vec![]), 0));
    assert_eq!(model.score(&all).unwrap().0, [0.0; 8]);
}

#[test]
fn what_perceptrons_and_machines_learn_by_graphs_they_learn_by_support_trees() {
    let all = read(&corpus::generated(500, 1));
    let y = labels(500);
    for normalize in [false, true] {
        for vote in [Vote::Last, Vote::Average, Vote::Vote] {
            let [graph, support] = twins().map(|kernel| {
                let options = options(normalize, 1);
                let mut own =
                    Perceptron::new(&kernel, options, vote, None, 1.0).unwrap();
                // More than two stretches, and twice the same trees.
                for _ in 0..2 {
                    own.learn_with(&all, &y, None, &jobs(2)).unwrap();
                }
                let scores = own.score_with(&all, None, &jobs(2)).unwrap().0;
                (own.to_arrays().before, own.n_mistakes(), scores)
            });
            assert_eq!((&graph.0, graph.1), (&support.0, support.1));
            assert!(graph.1 > 200, "{}", graph.1);
            for (a, b) in graph.2.iter().zip(&support.2) {
                let gap = (a - b).abs();
                assert!(gap <= 1e-9 * a.abs().max(1.0), "{vote:?}: {a} {b}");
            }
        }
    }
    let few = all.select(0..120);
    for (loss, intercept) in [
        (Loss::Hinge, Intercept::Free),
        (Loss::Logistic, Intercept::Feature(1.0)),
        (Loss::SquaredEpsilon(0.1), Intercept::None),
    ] {
        let [graph, support] = twins().map(|kernel| {
            let problem = Problem {
                loss,
                intercept,
                n_outputs: 1,
                targets: labels(120),
                costs: vec![2.0; 120],
                preferences: None,
            };
            let mut solver = Solver::new(&kernel, true, &few, problem, 1).unwrap();
            // Blocks of 64 trees, so that there are models between.
            let limits = Limits { tol: 1e-8, max_iter: 1000, cache: 0 };
            assert!(solver.run_with(limits, &jobs(2)).unwrap());
            solver.score_with(&all, None, &jobs(2)).unwrap()
        });
        for (a, b) in graph.iter().zip(&support) {
            assert!((a - b).abs() < 1e-6, "{loss:?}: {a} {b}");
        }
    }
}

#[test]
fn a_call_that_is_stopped_leaves_what_it_did_and_goes_on() {
    let all = read(&corpus::generated(300, 3));
    let y = labels(300);
    for kernel in without_graphs() {
        let new =
            || Perceptron::new(&kernel, options(true, 1), Vote::Average, None, 1.0);
        let mut whole = new().unwrap();
        whole.learn_with(&all, &y, None, &jobs(2)).unwrap();
        let mut own = new().unwrap();
        for stops in [1, 9, 100] {
            let mut left = stops;
            let watch = asked(|done, _| {
                left -= usize::from(done > 0);
                if left == 0 { Err(Error::Interrupted) } else { Ok(()) }
            });
            let seen = own.n_examples() as usize;
            let rest = all.select(seen..300);
            let done = own.learn_with(&rest, &y[seen..], None, &watch);
            assert_eq!(done, Err(Error::Interrupted), "{kernel:?}");
        }
        let seen = own.n_examples() as usize;
        assert!((3..300).contains(&seen), "{seen}");
        own.learn_with(&all.select(seen..300), &y[seen..], None, &jobs(2)).unwrap();
        assert_eq!(own.to_arrays(), whole.to_arrays());
        let mut model = whole.model();
        let before = model.to_arrays();
        assert_eq!(model.score_with(&all, &stop()).err(), Some(Error::Interrupted));
        assert_eq!(model.add_with(&all, &y, &stop()), Err(Error::Interrupted));
        assert_eq!(model.to_arrays(), before);
    }
}

/// A full tree of one label, whose kernel with itself is beyond floats, and a small one.
fn huge_and_small() -> Forest {
    let huge = (0..12).fold("(a b)".to_owned(), |tree, _| format!("(a {tree} {tree})"));
    let other = huge.replacen("(a b)", "(a c)", 1);
    read(&["(a b)".to_owned(), huge, other])
}

#[test]
fn scores_beyond_floats_name_their_tree_and_normalised_ones_are_right() {
    let all = huge_and_small();
    let sst: Arc<dyn Kernel> = Arc::new(SubsetTree::new(1.0));
    let et: Arc<dyn Kernel> = Arc::new(ElasticTree::new(0.1));
    for kernel in [
        of(Operation::Product, [Arc::clone(&sst), et]),
        of(Operation::Power(Some(2)), [sst]),
    ] {
        let mut model = Model::new(&kernel, options(false, 1)).unwrap();
        model.add_with(&all.select([1]), &[1.0], &jobs(1)).unwrap();
        for n_jobs in [1, 2] {
            let error = model.score_with(&all, &jobs(n_jobs)).unwrap_err();
            assert_eq!(error, Error::ScoreOverflow { tree: 1 });
        }
        let mut own =
            Perceptron::new(&kernel, options(false, 1), Vote::Last, None, 1.0).unwrap();
        let error = own.learn_with(&all.select([0, 1, 1]), &[1.0; 3], None, &jobs(1));
        let Err(Error::ScoreOverflow { tree }) = error else { panic!("{error:?}") };
        assert!((1..=2).contains(&tree));
        let mut model = Model::new(&kernel, options(true, 1)).unwrap();
        model.add_with(&all.select([1, 0]), &[2.0, -1.0], &jobs(1)).unwrap();
        let scores = model.score_with(&all, &jobs(2)).unwrap().0;
        let pair = |a: usize, b: usize| {
            let [a, b] = [a, b].map(|tree| all.select([tree]));
            gram::pair(&*kernel, &a, &b, true).unwrap()
        };
        for (x, score) in scores.iter().enumerate() {
            let expected = 2.0 * pair(1, x) - pair(0, x);
            assert!((score - expected).abs() < 1e-9, "{kernel:?} {x}: {score}");
        }
    }
}

#[test]
fn weights_beyond_floats_are_refused_and_change_nothing() {
    let all = read(&["(S (A a))", "(S (B b))"]);
    let [_, kernel] = twins();
    let mut model = Model::new(&kernel, options(false, 1)).unwrap();
    model.add_with(&all, &[1e308, 1.0], &jobs(1)).unwrap();
    let before = model.to_arrays();
    let error =
        model.add_with(&all.select([1, 0]), &[1.0, 1e308], &jobs(1)).unwrap_err();
    assert!(matches!(error, Error::Array { array: "alphas", index: 1, .. }), "{error}");
    assert_eq!(model.to_arrays(), before);
    let other = model.clone();
    let error = model.merge_with(&other, 1.0, &jobs(1)).unwrap_err();
    assert!(matches!(error, Error::Array { array: "large_alphas", .. }), "{error}");
    assert_eq!(model.to_arrays(), before);
    model.merge_with(&other, -1.0, &jobs(1)).unwrap();
    assert_eq!(model.n_nodes(), 0);
}

#[test]
fn arrays_of_another_kind_of_model_are_refused() {
    let all = read(&["(S (A a))", "(S (B b))"]);
    let [graph, support] = twins();
    let arrays = |kernel| {
        let mut model = Model::new(kernel, options(false, 1)).unwrap();
        model.add_with(&all, &[1.0, 2.0], &jobs(1)).unwrap();
        model.to_arrays()
    };
    let refused = |kernel, arrays: &_| match Model::from_arrays(
        kernel,
        options(false, 1),
        arrays,
    )
    .unwrap_err()
    {
        Error::Length { array, .. } | Error::Array { array, .. } => array,
        error => panic!("{error}"),
    };
    assert_eq!(refused(&support, &arrays(&graph)), "labels");
    assert_eq!(refused(&graph, &arrays(&support)), "large_trees");
    let mut changed = arrays(&support);
    changed.large_alphas.push(1.0);
    assert_eq!(refused(&support, &changed), "large_alphas");
    // Equal trees become one again.
    changed.large_trees = all.select([0, 0, 1]);
    let again = Model::from_arrays(&support, options(false, 1), &changed).unwrap();
    assert_eq!(again.to_arrays().large_alphas, [3.0, 1.0]);
}
