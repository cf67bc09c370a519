//! Models and perceptrons against the sums over support trees.

use std::sync::Arc;

use crate::baseline::{Fragments, Ftk};
use crate::corpus::{self, Random, read as forest};
use crate::registry::{self, has_graphs, jobs, stop, without_graphs};
use treekernel_rs::dag::{
    Features, Model, ModelOptions, Perceptron, PolynomialKernel, Vote, naive,
};
use treekernel_rs::kernel::{
    Counts, ElasticTree, Operation, PartialTree, SubsetTree, Subtree, Weighted, Weights,
};
use treekernel_rs::{Context, Error, Forest, Kernel, gram};

const SST: SubsetTree = SubsetTree::new(0.4);

/// Small trees of every kind.
fn random_trees(n: usize, seed: u64) -> Vec<String> {
    corpus::trees(&mut Random(seed), n, 10)
}

/// All kernels whose models are graphs, at many settings.
fn graphs() -> Vec<Arc<dyn Kernel>> {
    registry::settings().into_iter().filter(has_graphs).collect()
}

/// These, and others.
fn kernels() -> Vec<Arc<dyn Kernel>> {
    [graphs(), without_graphs()].concat()
}

/// One of each kind.
fn one_of_each() -> Vec<Arc<dyn Kernel>> {
    let graphs = registry::one_of_each().into_iter().filter(has_graphs);
    graphs.chain(without_graphs()).collect()
}

fn options(normalize: bool, n_outputs: usize) -> ModelOptions {
    ModelOptions::default().with_normalize(normalize).with_n_outputs(n_outputs)
}

/// The kernel matrix of the definitions, normalised or not.
fn matrix(kernel: &dyn Kernel, normalize: bool, all: &Forest) -> Vec<Vec<f64>> {
    let row = |x| {
        (0..all.len()).map(|i| naive::value(kernel, normalize, all, i, x)).collect()
    };
    (0..all.len()).map(row).collect()
}

/// `got` to 1e-10 of Σ |α| K.
fn assert_score(got: f64, alphas: &[f64], row: &[f64], what: &dyn Fn() -> String) {
    let terms = alphas.iter().zip(row).map(|(alpha, k)| alpha * k);
    let (sum, size) =
        terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()));
    assert_near(got, sum, size, what);
}

#[track_caller]
fn assert_near(got: f64, sum: f64, size: f64, what: &dyn Fn() -> String) {
    assert!((got - sum).abs() <= 1e-10 * size, "{}: {got} for {sum}", what());
}

fn random_alphas(random: &mut Random, n: usize) -> Vec<f64> {
    let kind = random.below(3);
    let mut alphas: Vec<f64> = (0..n)
        .map(|_| match kind {
            0 => random.unit() - 0.5,
            1 => [-1.0, 0.0, 1.0][random.below(3)],
            _ => (random.unit() * 40.0 - 20.0).exp() * [-1.0, 1.0][random.below(2)],
        })
        .collect();
    // Some that cancel.
    let half = alphas.len() / 2;
    for at in 0..half / 2 {
        alphas[half + at] = -alphas[at];
    }
    alphas
}

#[test]
fn scores_are_sums_over_support_trees() {
    let mut random = Random(5);
    for (number, kernel) in kernels().into_iter().enumerate() {
        for normalize in [false, true] {
            let mut trees = random_trees(40, 100 + number as u64);
            // Trees of the second half of the model may be those of the first.
            for at in 0..4 {
                trees[20 + at] = trees[at].clone();
            }
            let all = forest(&trees);
            let alphas = random_alphas(&mut random, 24);
            let sizes: Vec<f64> = alphas.iter().map(|alpha| alpha.abs()).collect();
            let right =
                |alphas: &[f64], x| naive::score(&*kernel, normalize, &all, alphas, x);
            let mut model = Model::new(&kernel, options(normalize, 1)).unwrap();
            // In two parts, of two stores.
            model.add(&all.select(0..11), &alphas[..11]).unwrap();
            model.add(&forest(&trees[11..24]), &alphas[11..]).unwrap();
            let (scores, _) = model.score_with(&all, &jobs(1)).unwrap();
            for (x, &score) in scores.iter().enumerate() {
                assert_near(score, right(&alphas, x), right(&sizes, x), &|| {
                    format!("{kernel:?} normalize {normalize}: {}", trees[x])
                });
            }
            // Each tree in a store of its own; the same bits.
            for (text, score) in trees.iter().zip(&scores) {
                let alone = forest(std::slice::from_ref(text));
                let (again, _) = model.score(&alone).unwrap();
                // (Self-kernels are summed in the order of ids.)
                let same = again[0].to_bits() == score.to_bits();
                assert!(same || normalize, "{kernel:?}: {} {score}", again[0]);
            }
        }
    }
}

#[test]
fn larger_trees_score_as_prepared_pairs_do() {
    let sets = [corpus::generated(60, 1), worst_trees()];
    for trees in sets {
        let all = forest(&trees);
        for kernel in one_of_each() {
            let pairs = gram::SinglePairs::new(&*kernel, &all).unwrap();
            let mut of = pairs.worker();
            let n = all.len() / 2;
            let alphas = random_alphas(&mut Random(3), n);
            let mut model = Model::new(&kernel, options(false, 1)).unwrap();
            model.add(&all.select(0..n), &alphas).unwrap();
            let (scores, _) = model.score_with(&all, &jobs(2)).unwrap();
            for (x, &score) in scores.iter().enumerate() {
                let row: Vec<f64> = (0..n).map(|i| of(i, x).unwrap()).collect();
                assert_score(score, &alphas, &row, &|| format!("{kernel:?} {x}"));
            }
        }
    }
}

/// Wide nodes of few and many labels, at the limits of lists; chains; repeats.
fn worst_trees() -> Vec<String> {
    let mut trees = Vec::new();
    for n_labels in [1, 3, 1000] {
        for size in [1, 2, 7, 8, 9, 31, 32, 33, 64] {
            let child = |i: usize| format!("(p{} w{})", i % n_labels, i % 2);
            let children: String = (0..size).map(child).collect();
            trees.push(format!("(S {children})"));
            let leaves: String = (0..size)
                .map(|i| [" w", &(i % n_labels).to_string()].concat())
                .collect();
            trees.push(format!("(S (S {leaves}) p0 (S {children}) p1)"));
        }
    }
    let chain = |n: usize, leaf: &str| "(A ".repeat(n) + leaf + &")".repeat(n);
    trees.extend([chain(50, "x"), chain(40, "x"), chain(30, "y")]);
    // Once more in another order, so that both halves have of everything.
    let mut all: Vec<String> = trees.iter().step_by(2).cloned().collect();
    all.extend(trees.iter().skip(1).step_by(2).cloned());
    all
}

#[test]
fn models_with_long_lists_score_as_the_definition_says() {
    let trees = corpus::poor_in_grammar(260, 1);
    let all = forest(&trees);
    let (support, scored) = (all.select(0..230), all.select(200..260));
    let mut random = Random(2);
    for leaf_weight in [0.0, 0.4] {
        let kernel = &SubsetTree::new(0.4).with_leaf_weight(leaf_weight);
        for n_outputs in [1, 3] {
            let rows =
                gram::gram(kernel, &scored, Some(&support), gram::Options::default());
            let rows = rows.unwrap();
            let mut model = Model::new(kernel, options(false, n_outputs)).unwrap();
            let mut alphas = vec![0.0; 230 * n_outputs];
            for round in 0..2 {
                // Tables are made anew after a change.
                let more: Vec<f64> = (0..230 * n_outputs)
                    .map(|_| random.below(7) as f64 - 3.0)
                    .collect();
                model.add(&support, &more).unwrap();
                alphas.iter_mut().zip(&more).for_each(|(alpha, more)| *alpha += more);
                let before = model.nbytes();
                let scores = model.score_with(&scored, &jobs(2)).unwrap().0;
                assert!(model.nbytes() > before, "no tables were made");
                for (x, row) in rows.outer_iter().enumerate() {
                    for output in 0..n_outputs {
                        let own: Vec<f64> = alphas
                            .iter()
                            .skip(output)
                            .step_by(n_outputs)
                            .copied()
                            .collect();
                        let what = || format!("{kernel:?} {round} {x} {output}");
                        let score = scores[x * n_outputs + output];
                        assert_score(score, &own, &row.to_vec(), &what);
                    }
                }
            }
        }
    }
}

#[test]
fn several_outputs_are_models_of_one() {
    for kernel in one_of_each() {
        let all = forest(&random_trees(40, 7));
        let mut random = Random(8);
        let columns: Vec<Vec<f64>> =
            (0..3).map(|_| random_alphas(&mut random, 40)).collect();
        let rows: Vec<f64> = (0..40)
            .flat_map(|i| [columns[0][i], columns[1][i], columns[2][i]])
            .collect();
        let mut model = Model::new(&kernel, options(true, 3)).unwrap();
        model.add(&all, &rows).unwrap();
        model.set_intercept(&[1.0, 0.0, -2.0]).unwrap();
        let (scores, _) = model.score_with(&all, &jobs(1)).unwrap();
        let right = matrix(&*kernel, true, &all);
        for (x, scores) in scores.chunks(3).enumerate() {
            for output in 0..3 {
                let raw = scores[output] - [1.0, 0.0, -2.0][output];
                let size: f64 = columns[output]
                    .iter()
                    .zip(&right[x])
                    .map(|(a, k)| (a * k).abs())
                    .sum();
                let sum: f64 =
                    columns[output].iter().zip(&right[x]).map(|(a, k)| a * k).sum();
                assert!((raw - sum).abs() <= 1e-10 * (size + 2.0), "{kernel:?}");
            }
        }
    }
}

#[test]
fn scores_do_not_depend_on_the_number_of_threads() {
    let all = forest(&corpus::generated(300, 4));
    for kernel in one_of_each() {
        for n_outputs in [1, 2] {
            let mut model = Model::new(&kernel, options(true, n_outputs)).unwrap();
            let alphas = random_alphas(&mut Random(1), 300 * n_outputs);
            model.add(&all, &alphas).unwrap();
            let one = model.score_with(&all, &jobs(1)).unwrap().0;
            let three = model.score_with(&all, &jobs(3)).unwrap().0;
            assert!(one.iter().zip(&three).all(|(a, b)| a.to_bits() == b.to_bits()));
        }
    }
}

#[test]
fn the_order_of_trees_does_not_matter() {
    let trees = corpus::generated(80, 2);
    let alphas = random_alphas(&mut Random(2), 80);
    let all = forest(&trees);
    for kernel in one_of_each() {
        let mut forward = Model::new(&kernel, options(false, 1)).unwrap();
        let mut backward = forward.clone();
        forward.add(&all, &alphas).unwrap();
        let turned: Vec<f64> = alphas.iter().rev().copied().collect();
        backward.add(&all.select((0..80).rev()), &turned).unwrap();
        let sizes: Vec<f64> = alphas.iter().map(|alpha| alpha.abs()).collect();
        let mut size = Model::new(&kernel, options(false, 1)).unwrap();
        size.add(&all, &sizes).unwrap();
        let of = |model: &Model| model.score(&all).unwrap().0;
        for ((a, b), size) in of(&forward).iter().zip(of(&backward)).zip(of(&size)) {
            assert!((a - b).abs() <= 1e-12 * size, "{kernel:?}: {a} {b}");
        }
    }
}

#[test]
fn trees_that_are_taken_out_again_leave_nothing() {
    let mut random = Random(11);
    for kernel in one_of_each() {
        for normalize in [false, true] {
            let all = forest(&corpus::generated(60, 3));
            let alphas: Vec<f64> = (0..60).map(|_| random.unit() - 0.3).collect();
            let minus: Vec<f64> = alphas.iter().map(|alpha| -alpha).collect();
            let mut model = Model::new(&kernel, options(normalize, 1)).unwrap();
            model.add(&all, &alphas).unwrap();
            let sizes: Vec<f64> = alphas.iter().map(|alpha| alpha.abs()).collect();
            let mut size = Model::new(&kernel, options(normalize, 1)).unwrap();
            size.add(&all, &sizes).unwrap();
            let size = size.score(&all).unwrap().0;
            model
                .add(
                    &all.select((0..60).rev()),
                    &minus.iter().rev().copied().collect::<Vec<_>>(),
                )
                .unwrap();
            for (score, size) in model.score(&all).unwrap().0.iter().zip(size) {
                assert!(score.abs() <= 1e-13 * size, "{kernel:?}: {score}");
            }
        }
        // Whole numbers cancel without a trace, and so does one tree.
        let all = forest(&random_trees(40, 9));
        let mut model = Model::new(&kernel, options(false, 1)).unwrap();
        model.add(&all, &[2.0; 40]).unwrap();
        model.add(&all, &[-2.0; 40]).unwrap();
        let scores = model.score(&all).unwrap().0;
        assert_eq!(scores, [0.0; 40]);
    }
}

#[test]
fn merged_models_score_as_sums_over_the_support_trees_of_both() {
    for (number, kernel) in kernels().iter().enumerate() {
        let random = &mut Random(number as u64 + 77);
        let (first, second) =
            (forest(&random_trees(6, 1)), forest(&random_trees(5, 2)));
        for (normalize, n_outputs) in [(false, 1), (true, 2)] {
            let options = options(normalize, n_outputs);
            let all = first.concat(&second).unwrap();
            let rows = matrix(&**kernel, normalize, &all);
            let alphas = random_alphas(random, all.len() * n_outputs);
            let split = first.len() * n_outputs;
            let mut models = [&first, &second].map(|trees| {
                let mut model = Model::new(kernel, options).unwrap();
                let own = if trees.len() == first.len() {
                    &alphas[..split]
                } else {
                    &alphas[split..]
                };
                model.add(trees, own).unwrap();
                model
            });
            let [model, other] = &mut models;
            // Trees with a weight of 0, or a normalised kernel of 0, are no part of a model.
            let n_trees = model.n_trees() + other.n_trees();
            model.merge(other, -0.5).unwrap();
            assert_eq!(model.n_trees(), n_trees);
            let scores = model.score_with(&all, &jobs(1)).unwrap().0;
            for (tree, row) in rows.iter().enumerate() {
                for output in 0..n_outputs {
                    let of = |(at, alpha): (usize, &f64)| {
                        if at * n_outputs < split { *alpha } else { -0.5 * alpha }
                    };
                    let own = alphas.iter().skip(output).step_by(n_outputs);
                    let own: Vec<f64> = own.enumerate().map(of).collect();
                    let got = scores[tree * n_outputs + output];
                    assert_score(got, &own, row, &|| format!("{kernel:?} {tree}"));
                }
            }
        }
    }
}

#[test]
fn a_merge_that_is_stopped_changes_no_score() {
    let trees = forest(&random_trees(40, 3));
    let mut model = Model::new(&SST, ModelOptions::default()).unwrap();
    let mut other = model.clone();
    model.add(&trees.select(0..20), &[1.0; 20]).unwrap();
    other.add(&trees.select(20..40), &[1.0; 20]).unwrap();
    let score = |model: &Model| model.score_with(&trees, &jobs(1)).unwrap();
    let before = score(&model);
    let stopped = model.merge_with(&other, 1.0, &stop());
    assert_eq!(stopped, Err(Error::Interrupted));
    assert_eq!(score(&model), before);
    model.merge(&other, 1.0).unwrap();
    let mut whole = Model::new(&SST, ModelOptions::default()).unwrap();
    whole.add(&trees, &[1.0; 40]).unwrap();
    for (merged, at_once) in score(&model).0.iter().zip(score(&whole).0) {
        assert!((merged - at_once).abs() <= 1e-12 * at_once.abs());
    }
}

#[test]
fn a_merge_whose_weights_no_float_holds_changes_nothing() {
    let trees = forest(&["(A a)", "(S (A a) (B b))"]);
    let mut model = Model::new(&SST, ModelOptions::default()).unwrap();
    let mut other = model.clone();
    model.add(&trees, &[1.0, -2.0]).unwrap();
    other.add(&trees, &[3.0, 1e200]).unwrap();
    let before = model.score(&trees).unwrap();
    for factor in [1e200, -1e200] {
        let merged = model.merge(&other, factor);
        assert!(matches!(merged, Err(Error::Array { .. })), "{merged:?}");
        assert_eq!(model.score(&trees).unwrap(), before);
    }
}

#[test]
fn contributions_add_up_to_the_score() {
    for kernel in graphs() {
        for (normalize, n_outputs) in [(false, 1), (true, 2)] {
            let trees = random_trees(32, 12);
            let all = forest(&trees);
            let alphas = random_alphas(&mut Random(4), 32 * n_outputs);
            let mut model = Model::new(&kernel, options(normalize, n_outputs)).unwrap();
            model.add(&all, &alphas).unwrap();
            model.set_intercept(&vec![3.0; n_outputs]).unwrap();
            let scores = model.score(&all).unwrap().0;
            let sizes: Vec<f64> = alphas.iter().map(|alpha| alpha.abs()).collect();
            let mut size = Model::new(&kernel, options(normalize, n_outputs)).unwrap();
            size.add(&all, &sizes).unwrap();
            let sizes = size.score(&all).unwrap().0;
            for (x, text) in trees.iter().enumerate() {
                let shares = model.contributions(&all.select([x])).unwrap();
                let n_nodes = all.n_nodes()[x] as usize;
                assert_eq!(shares.len(), n_nodes * n_outputs);
                for output in 0..n_outputs {
                    let at = x * n_outputs + output;
                    let sum: f64 = shares.iter().skip(output).step_by(n_outputs).sum();
                    let gap = (sum + 3.0 - scores[at]).abs();
                    assert!(gap <= 1e-10 * (sizes[at] + 3.0), "{kernel:?} {text}");
                }
            }
        }
    }
}

/// By hand: SST, λ = 1. Model: (S (A a) (B b)) once.
#[test]
fn contributions_stand_at_the_roots_of_fragments() {
    let kernel = &SubsetTree::new(1.0).with_leaf_weight(0.5);
    let all = forest(&["(S (A a) (B b))".to_owned(), "(S (A a) (B c))".to_owned()]);
    let mut model = Model::new(kernel, ModelOptions::default()).unwrap();
    model.add(&all.select([0]), &[1.0]).unwrap();
    // S: S→A B, with A→a; A: A→a; the leaf a.
    let shares = model.contributions(&all.select([1])).unwrap();
    assert_eq!(shares, [2.0, 1.0, 0.5, 0.0, 0.0]);
}

#[test]
fn arrays_give_back_the_same_bits() {
    let all = forest(&corpus::generated(80, 6));
    for kernel in one_of_each() {
        let options = options(true, 2);
        let mut model = Model::new(&kernel, options).unwrap();
        model.add(&all, &random_alphas(&mut Random(6), 160)).unwrap();
        model.set_intercept(&[0.5, -0.5]).unwrap();
        let arrays = model.to_arrays();
        let mut again = Model::from_arrays(&kernel, options, &arrays).unwrap();
        assert_eq!(again.to_arrays(), arrays);
        // And they go on alike.
        for model in [&mut model, &mut again] {
            model.add(&all.select(3..9), &[0.3; 12]).unwrap();
        }
        let of = |model: &Model| model.score(&all).unwrap().0;
        assert_eq!(of(&model), of(&again));
    }
}

#[test]
fn wrong_arrays_are_named() {
    let mut model = Model::new(&SST, ModelOptions::default()).unwrap();
    model.add(&forest(&["(S (A a) (A b))".to_owned()]), &[1.0]).unwrap();
    let right = model.to_arrays();
    let read = |change: &dyn Fn(&mut treekernel_rs::dag::ModelArrays)| {
        let mut arrays = right.clone();
        change(&mut arrays);
        Model::from_arrays(&SST, ModelOptions::default(), &arrays)
            .unwrap_err()
            .to_string()
    };
    assert!(
        read(&|a| a.labels[1] = 9).starts_with("labels[1]: expected an index below")
    );
    assert!(
        read(&|a| a.children[0] = 1).starts_with("children[0]: expected a subtree")
    );
    assert!(read(&|a| a.ends[1] = 7).starts_with("ends[1]: expected 0 to"));
    assert!(read(&|a| a.weights.truncate(1)).starts_with("weights has 1 entries"));
    assert!(
        read(&|a| a.weights[0] = f64::NAN).starts_with("weights[0]: expected a fin")
    );
    assert!(read(&|a| a.sums.push(0.0)).starts_with("sums has"));
    assert!(
        read(&|a| {
            a.labels[2] = a.labels[0];
        })
        .contains("expected a subtree of its own")
    );
}

// --- perceptrons ------------------------------------------------------------------

/// A stream with a rule behind it, and some noise.
fn stream(n: usize, seed: u64) -> (Forest, Vec<f64>) {
    let mut random = Random(seed);
    let trees = random_trees(n, seed);
    let label = |text: &String| {
        let is_noise = random.below(8) == 0;
        if text.contains("b(") == is_noise { -1.0 } else { 1.0 }
    };
    let y = trees.iter().map(label).collect();
    (forest(&trees), y)
}

fn features(n: usize, n_columns: usize, seed: u64) -> Vec<Vec<f64>> {
    let mut random = Random(seed);
    let mut value = |column: usize| {
        // Columns of every density.
        if random.below(column + 1) == 0 { random.unit() - 0.5 } else { 0.0 }
    };
    (0..n).map(|_| (0..n_columns).map(&mut value).collect()).collect()
}

/// Tables serve thousands of trees on the right side; a mistake ends them, and new ones
/// follow at once. Nothing that was kept for the old ones may be read by these.
#[test]
fn learning_in_one_call_is_learning_tree_by_tree_however_often_tables_change() {
    let comb = |word: String| {
        (0..6).fold(format!("(C {word})"), |t, _| format!("(S (A a) {t})"))
    };
    let texts: Vec<String> = (0..60).map(|i| comb(format!("w{i}"))).collect();
    let known = forest(&texts);
    let random = &mut Random(5);
    let y: Vec<f64> = (0..60).map(|_| [-1.0, 1.0][random.below(2)]).collect();
    let new = || Perceptron::new(&SST, ModelOptions::default(), Vote::Last, None, 1.0);
    let mut at_once = new().unwrap();
    at_once.learn(&known, &y, None).unwrap();
    let mut by_tree = new().unwrap();
    by_tree.learn(&known, &y, None).unwrap();
    for block in 0..3 {
        // 1. Trees on their right side, again and again; 2. one on the wrong side, whose
        // subtrees make lists longer; 3. the trees again.
        let signs: Vec<f64> = by_tree.score(&known, None).unwrap().0;
        let signs: Vec<f64> = signs.iter().map(|score| score.signum()).collect();
        let other = forest(&[comb(format!("v{block}"))]);
        let score = by_tree.score(&other, None).unwrap().0[0];
        let parts = [vec![&known; 40], vec![&other], vec![&known; 2]].concat();
        let trees = Forest::concat_all(parts).unwrap();
        let y = [signs.repeat(40), vec![-score.signum()], signs.repeat(2)].concat();
        at_once.learn(&trees, &y, None).unwrap();
        for (tree, y) in y.iter().enumerate() {
            by_tree.learn(&trees.select([tree]), &[*y], None).unwrap();
        }
        assert_eq!(at_once.n_mistakes(), by_tree.n_mistakes(), "{block}");
    }
    let scores = [&at_once, &by_tree].map(|p| p.score(&known, None).unwrap().0);
    assert_eq!(scores[0], scores[1]);
}

#[test]
fn learning_is_the_plain_perceptron_mistake_by_mistake() {
    let poly = PolynomialKernel::new(3, 1.0, 0.7);
    // Their values, and so all scores of the first case, are exact.
    let [st, sst]: [Arc<dyn Kernel>; 2] =
        [Arc::new(Subtree::new(0.5)), Arc::new(SubsetTree::new(0.5))];
    let weights = Arc::new(Weights::new().with_others(0.5).unwrap());
    let weighted = |kernel: &Arc<dyn Kernel>, counts| {
        Weighted::new(Arc::clone(kernel), Arc::clone(&weights), counts).unwrap()
    };
    let kernels: [Arc<dyn Kernel>; 7] = [
        Arc::new(Subtree::new(0.5).with_leaf_weight(0.25)),
        Arc::new(SubsetTree::new(0.5).with_leaf_weight(0.25)),
        Arc::new(PartialTree::new(0.5, 0.5).with_leaf_factor(4.0)),
        Arc::new(ElasticTree::new(0.5)),
        registry::of(Operation::Product, [&st, &sst].map(Arc::clone)),
        Arc::new(weighted(&sst, Counts::Linear)),
        Arc::new(weighted(&st, Counts::Set)),
    ];
    // With weights too: powers of 2, so that what is exact stays so.
    for (number, kernel) in kernels.into_iter().enumerate() {
        for (normalize, mix, weights) in [
            (false, None, [1.0; 3]),
            (false, None, [1.0, 0.5, 4.0]),
            (true, None, [1.0; 3]),
            (true, None, [1.0, 0.5, 4.0]),
            (false, Some(0.6), [1.0; 3]),
            (true, Some(0.3), [1.0, 0.5, 4.0]),
        ] {
            let (all, mut y) = stream(80, number as u64);
            y.iter_mut().enumerate().for_each(|(x, y)| *y *= weights[x % 3]);
            let rows = features(80, 9, 5);
            let dense: Vec<f64> = rows.iter().flatten().copied().collect();
            let vectors = mix.map(|_| poly);
            let part = |from: usize, to: usize| {
                mix.map(|_| Features::Dense {
                    n_columns: 9,
                    values: &dense[from * 9..to * 9],
                })
            };
            let mixed =
                mix.map(|mix| naive::Mixed { rows: rows.clone(), kernel: poly, mix });
            let mut plain =
                naive::Perceptron::new(Arc::clone(&kernel), normalize, mixed);
            let votes = [Vote::Last, Vote::Average, Vote::Vote];
            let mut all_of_them = votes.map(|vote| {
                Perceptron::new(
                    &kernel,
                    options(normalize, 1),
                    vote,
                    vectors,
                    mix.unwrap_or(1.0),
                )
                .unwrap()
            });
            for x in 0..80 {
                // Numbers are exact in the first case; in the others a score that is 0
                // but for rounding could go either way.
                let score = plain.versions(&all, x)[plain.mistakes.len()];
                let is_exact = !normalize && mix.is_none();
                if !is_exact && !plain.mistakes.is_empty() && score.abs() < 1e-12 {
                    continue;
                }
                let is_mistake = plain.learn(&all, x, y[x]);
                for own in &mut all_of_them {
                    let n =
                        own.learn(&all.select([x]), &y[x..=x], part(x, x + 1)).unwrap();
                    assert_eq!(n, usize::from(is_mistake), "{kernel:?} {x}");
                }
            }
            for (own, vote) in all_of_them.iter().zip(votes) {
                let (scores, _) = own.score_with(&all, part(0, 80), &jobs(2)).unwrap();
                for (x, score) in scores.iter().enumerate() {
                    let expected = plain.score(&all, x, vote);
                    let size = match vote {
                        Vote::Last => 1e-9,
                        Vote::Average => 1e-7,
                        // The sign of what is 0 but for rounding may be any.
                        Vote::Vote => {
                            let versions = plain.versions(&all, x).into_iter();
                            let all = versions.zip(&plain.survived);
                            all.filter(|v| v.0.abs() < 1e-12).map(|v| 2.0 * v.1).sum()
                        }
                    };
                    let gap = (score - expected).abs();
                    assert!(gap <= size, "{kernel:?} {vote:?} {x}: {score} {expected}");
                }
            }
        }
    }
}

#[test]
fn any_split_of_a_stream_gives_the_same_perceptron() {
    let (all, y) = stream(150, 3);
    let rows = features(150, 5, 2);
    let dense: Vec<f64> = rows.iter().flatten().copied().collect();
    let poly = PolynomialKernel::new(2, 1.0, 1.0);
    for kernel in one_of_each() {
        for vote in [Vote::Last, Vote::Average, Vote::Vote] {
            let learned = |cuts: &[usize]| {
                let mut own =
                    Perceptron::new(&kernel, options(true, 1), vote, Some(poly), 0.5)
                        .unwrap();
                let mut n = 0;
                for cut in cuts.windows(2) {
                    let values = &dense[cut[0] * 5..cut[1] * 5];
                    let part = Some(Features::Dense { n_columns: 5, values });
                    // A store of its own for each part.
                    let texts = all.select(cut[0]..cut[1]).to_brackets();
                    n += own.learn(&forest(&texts), &y[cut[0]..cut[1]], part).unwrap();
                }
                assert_eq!((own.n_examples(), own.n_mistakes()), (150, n as u64));
                own
            };
            let whole = learned(&[0, 150]);
            for cuts in [&[0, 1, 2, 70, 150][..], &[0, 149, 150]] {
                assert_eq!(learned(cuts).to_arrays(), whole.to_arrays());
            }
            // Stored and read back, it goes on as if nothing had been.
            let mut first = learned(&[0, 90, 150]);
            let mut again = Perceptron::from_arrays(
                &kernel,
                options(true, 1),
                vote,
                Some(poly),
                0.5,
                &first.to_arrays(),
            )
            .unwrap();
            assert_eq!(again.to_arrays(), first.to_arrays());
            let part = Some(Features::Dense { n_columns: 5, values: &dense });
            for own in [&mut first, &mut again] {
                own.learn(&all, &y, part).unwrap();
            }
            let of = |own: &Perceptron| own.score(&all, part).unwrap().0;
            assert_eq!(of(&again), of(&first));
        }
    }
}

#[test]
fn one_against_the_rest_is_several_perceptrons() {
    let (all, y) = stream(120, 4);
    let (_, other) = stream(120, 5);
    let both: Vec<f64> = y.iter().zip(&other).flat_map(|(a, b)| [*a, *b]).collect();
    for kernel in one_of_each() {
        for vote in [Vote::Last, Vote::Average, Vote::Vote] {
            let new = |n| {
                Perceptron::new(&kernel, options(false, n), vote, None, 1.0).unwrap()
            };
            let mut together = new(2);
            let n = together.learn(&all, &both, None).unwrap();
            let scores = together.score(&all, None).unwrap().0;
            let mut n_alone = 0;
            for (output, y) in [&y, &other].into_iter().enumerate() {
                let mut alone = new(1);
                n_alone += alone.learn(&all, y, None).unwrap();
                let own = alone.score(&all, None).unwrap().0;
                for (x, own) in own.iter().enumerate() {
                    let gap = (scores[2 * x + output] - own).abs();
                    assert!(gap <= 1e-9 * own.abs().max(1.0), "{kernel:?} {vote:?}");
                }
            }
            assert_eq!(n, n_alone);
        }
    }
}

#[test]
fn the_model_of_an_averaged_perceptron_scores_as_it_does() {
    let (all, y) = stream(120, 6);
    for kernel in one_of_each() {
        let mut own =
            Perceptron::new(&kernel, options(true, 1), Vote::Average, None, 1.0)
                .unwrap();
        own.learn(&all, &y, None).unwrap();
        let scores = own.score(&all, None).unwrap().0;
        let model = own.model().score(&all).unwrap().0;
        for (a, b) in scores.iter().zip(&model) {
            assert!((a - b).abs() <= 1e-9 * a.abs().max(1.0), "{a} {b}");
        }
    }
}

#[test]
fn sparse_vectors_are_dense_ones() {
    let (all, y) = stream(200, 8);
    let rows = features(200, 12, 3);
    let values: Vec<f64> = rows.iter().flatten().copied().collect();
    let (mut indptr, mut indices, mut data) = (vec![0], vec![], vec![]);
    for row in &rows {
        for (column, &value) in row.iter().enumerate() {
            if value != 0.0 {
                indices.push(column as i64);
                data.push(value);
            }
        }
        indptr.push(data.len() as i64);
    }
    let dense = Features::Dense { n_columns: 12, values: &values };
    let sparse = Features::Sparse {
        n_columns: 12,
        indptr: &indptr,
        indices: &indices,
        data: &data,
    };
    let poly = PolynomialKernel::new(3, 1.0, 1.0);
    let run = |features| {
        let mut own =
            Perceptron::new(&SST, options(true, 1), Vote::Average, Some(poly), 0.2)
                .unwrap();
        own.learn(&all, &y, Some(features)).unwrap();
        own.score(&all, Some(features)).unwrap().0
    };
    assert_eq!(run(dense), run(sparse));
}

#[test]
fn an_interrupted_pass_leaves_what_it_learned() {
    // Long enough that the watch is asked before the end.
    let n = 600_000;
    let (few, labels) = stream(2_000, 1);
    let all = few.select((0..n).map(|tree| tree % 2_000));
    let y = labels.repeat(n / 2_000);
    let mut own =
        Perceptron::new(&SST, ModelOptions::default(), Vote::Average, None, 1.0)
            .unwrap();
    let stop =
        Context::watched(
            |done, _| {
                if done >= 16 { Err(Error::Interrupted) } else { Ok(()) }
            },
        );
    assert_eq!(own.learn_with(&all, &y, None, &stop), Err(Error::Interrupted));
    let seen = own.n_examples() as usize;
    assert!((16..n).contains(&seen), "{seen}");
    own.learn(&all.select(seen..n), &y[seen..], None).unwrap();
    let mut whole =
        Perceptron::new(&SST, ModelOptions::default(), Vote::Average, None, 1.0)
            .unwrap();
    whole.learn(&all, &y, None).unwrap();
    assert_eq!(own.to_arrays(), whole.to_arrays());
}

// --- wrong input, extremes ----------------------------------------------------------

#[test]
fn wrong_input_is_named_and_changes_nothing() {
    let (all, mut y) = stream(10, 1);
    let mut model = Model::new(&SST, ModelOptions::default()).unwrap();
    let mut say = |alphas: &[f64]| model.add(&all, alphas).unwrap_err().to_string();
    assert_eq!(
        say(&[1.0; 9]),
        "alphas has 9 entries, expected 10, trees times n_outputs"
    );
    assert!(
        say(&[f64::INFINITY; 10]).starts_with("alphas[0]: expected a finite number")
    );
    assert_eq!((model.n_trees(), model.n_nodes()), (0, 0));
    assert!(Model::new(&SST, options(false, 0)).is_err());

    let new = |vectors, mix| {
        Perceptron::new(&SST, ModelOptions::default(), Vote::Last, vectors, mix)
    };
    let poly = PolynomialKernel::new(3, 1.0, 1.0);
    assert!(new(None, 0.5).is_err());
    assert!(new(Some(poly), 1.5).is_err());
    assert!(new(Some(PolynomialKernel::new(0, 1.0, 1.0)), 0.5).is_err());
    let mut own = new(None, 1.0).unwrap();
    y[3] = 0.0;
    let error = own.learn(&all, &y, None).unwrap_err().to_string();
    assert_eq!(error, "y[3]: expected -1 or 1, times a weight, got 0");
    assert_eq!(own.n_examples(), 0);
    let mut own = new(Some(poly), 0.5).unwrap();
    assert!(own.learn(&all, &[1.0; 10], None).is_err());
    let values = [1.0; 20];
    let dense = Features::Dense { n_columns: 2, values: &values };
    own.learn(&all, &[1.0; 10], Some(dense)).unwrap();
    let other = Features::Dense { n_columns: 4, values: &values };
    assert!(own.score(&all.select(0..5), Some(other)).is_err());
    let sparse = |indptr, indices| Features::Sparse {
        n_columns: 2,
        indptr,
        indices,
        data: &[1.0],
    };
    for (indptr, indices) in
        [(&[0, 2][..], &[0][..]), (&[1, 1], &[0]), (&[0, 1], &[2]), (&[0, 1], &[-1])]
    {
        let features = Some(sparse(indptr, indices));
        assert!(own.score(&all.select([0]), features).is_err());
    }
}

#[test]
fn scores_beyond_floats_name_their_tree() {
    let chain = "(A ".repeat(1_200) + "A" + &")".repeat(1_200);
    let all = forest(&["(A A)".to_owned(), "(b)".to_owned(), chain]);
    let kernel = &SubsetTree::new(1.0);
    let wide = &ElasticTree::new(1.0);
    let mut model = Model::new(wide, ModelOptions::default()).unwrap();
    model.add(&all.select([2]), &[1.0]).unwrap();
    let error = model.score_with(&all, &jobs(2)).unwrap_err();
    assert_eq!(error, Error::ScoreOverflow { tree: 2 });
    let bush = |n: usize| format!("(R{})", "(A a)".repeat(n));
    let all = forest(&[bush(3), bush(1_200)]);
    let mut model = Model::new(kernel, ModelOptions::default()).unwrap();
    model.add(&all, &[1.0, 1.0]).unwrap();
    assert_eq!(
        model.score_with(&all, &jobs(2)).unwrap_err(),
        Error::ScoreOverflow { tree: 1 }
    );
    let mut normal = Model::new(kernel, options(true, 1)).unwrap();
    normal.add(&all, &[1.0, 1.0]).unwrap();
    let large = all.select([1]);
    let shares = normal.contributions(&large).unwrap().iter().sum::<f64>();
    let score = normal.score(&large).unwrap().0[0];
    assert!((shares - score).abs() < 1e-12 && score >= 1.0, "{shares} {score}");
    let mut own =
        Perceptron::new(kernel, ModelOptions::default(), Vote::Last, None, 1.0)
            .unwrap();
    let both = all.select([0, 1, 1]);
    let error = own.learn(&both, &[1.0, -1.0, -1.0], None).unwrap_err();
    assert_eq!((error, own.n_examples()), (Error::ScoreOverflow { tree: 2 }, 2));
}

#[test]
fn trees_without_a_kernel_are_reported_and_score_nothing() {
    let all = forest(&["(S a)".to_owned(), "(x)".to_owned(), "(S b)".to_owned()]);
    let mut model = Model::new(&SST, options(true, 1)).unwrap();
    assert_eq!(model.add(&all, &[1.0, 5.0, 0.0]).unwrap(), [1]);
    let (scores, zeros) = model.score(&all).unwrap();
    assert_eq!((scores, zeros), (vec![1.0, 0.0, 0.0], vec![1]));
    // A perceptron is mistaken about such a tree each time.
    let mut own =
        Perceptron::new(&SST, options(true, 1), Vote::Vote, None, 1.0).unwrap();
    assert_eq!(own.learn(&all.select([1, 1]), &[1.0, -1.0], None), Ok(2));
    assert_eq!(own.score(&all, None).unwrap().0, [0.0; 3]);
    let again = own.to_arrays();
    let again =
        Perceptron::from_arrays(&SST, options(true, 1), Vote::Vote, None, 1.0, &again)
            .unwrap();
    assert_eq!(again.to_arrays(), own.to_arrays());
}

#[test]
fn nothing_is_scored_and_learned_from_nothing() {
    let none = Forest::default();
    for kernel in one_of_each() {
        let mut model = Model::new(&kernel, ModelOptions::default()).unwrap();
        model.add(&none, &[]).unwrap();
        assert!(model.score(&none).unwrap().0.is_empty());
        let one = forest(&["(S (A a))".to_owned()]);
        assert_eq!(model.score(&one).unwrap().0, [0.0]);
        let shares = model.contributions(&one);
        assert_eq!(shares.ok(), model.is_graph().then(|| vec![0.0; 3]));
        let mut own =
            Perceptron::new(&kernel, ModelOptions::default(), Vote::Vote, None, 1.0)
                .unwrap();
        assert_eq!(own.learn(&none, &[], None), Ok(0));
        assert_eq!(own.score(&one, None).unwrap().0, [0.0]);
    }
}

#[test]
fn the_memory_of_a_model_grows_with_its_trees() {
    for kernel in registry::one_of_each().into_iter().filter(has_graphs) {
        let nbytes = |n: usize| {
            let texts = (0..n).map(|i| format!("(S (A a{i}) (B (C c{i}) b{}))", i % 7));
            let forest = forest(&texts.collect::<Vec<_>>());
            let mut model = Model::new(&kernel, ModelOptions::default()).unwrap();
            model.add(&forest, &vec![1.0; n]).unwrap();
            model.nbytes() as f64
        };
        // Lists have up to twice the room that they need.
        let growth = nbytes(800) / nbytes(100);
        assert!((3.0..20.0).contains(&growth), "{kernel:?}: {growth}");
    }
}

#[test]
fn models_hold_subtrees_once() {
    let all = forest(&["(S (A a) (A a))".to_owned(), "(S (A a) (B b))".to_owned()]);
    let mut model = Model::new(&SST, ModelOptions::default()).unwrap();
    model.add(&all, &[1.0, -1.0]).unwrap();
    assert_eq!((model.n_trees(), model.n_nodes(), model.n_tree_nodes()), (2, 6, 10));
    assert!(model.nbytes() > 0);
    let a = model.nodes().ids().find(|&n| model.nodes().name(n) == "A").unwrap();
    assert_eq!(model.weights(a), [1.0]); // twice there, once less here
}

#[test]
fn deep_and_wide_trees_take_no_quadratic_time() {
    let labels = |n: usize| (0..n).fold(String::new(), |s, i| s + &format!("(A{i} "));
    let deep = format!("{}x{}", labels(100_000), ")".repeat(100_000));
    let words: String =
        (0..100_000).map(|i| ["(p w", &i.to_string(), ")"].concat()).collect();
    let both = forest(&[deep, format!("(S {words})")]);
    for kernel in registry::one_of_each().into_iter().filter(has_graphs) {
        let all = match kernel.name() {
            "ElasticTree" => continue, // by its definition
            "Subtree" => both.clone(),
            // The wide tree's kernel with itself is beyond 1e300.
            _ => both.select([0]),
        };
        let mut model = Model::new(&kernel, options(true, 1)).unwrap();
        model.add(&all, &vec![1.0; all.len()]).unwrap();
        let (scores, _) = model.score(&all).unwrap();
        for score in scores {
            assert!((score - 1.0).abs() < 1e-9, "{kernel:?}: {score}");
        }
    }
}

// --- real data -----------------------------------------------------------------------

#[test]
fn a_real_stream_makes_the_mistakes_of_the_sum_over_support_trees() {
    let Some(texts) = corpus::real("srl/masc_boundary.tsv.gz", 5) else { return };
    let labels = corpus::real("srl/masc_boundary.tsv.gz", 0).unwrap();
    let n = 6_000;
    let y: Vec<f64> = labels[..n].iter().map(|y| y.parse().unwrap()).collect();
    let all = forest(&texts[..n]);
    let mut ftk = Ftk::new(&all, (Fragments::SubsetTrees, 0.4));
    let mut own =
        Perceptron::new(&SST, ModelOptions::default(), Vote::Last, None, 1.0).unwrap();
    let mut mistakes: Vec<usize> = Vec::new();
    for x in 0..n {
        let terms = mistakes.iter().map(|&i| (y[i], ftk.pair(i, x)));
        let (mut sum, mut size) = (0.0, 0.0);
        for (y, k) in terms {
            sum += y * k;
            size += k;
        }
        let is_mistake = own.learn(&all.select([x]), &y[x..=x], None).unwrap() == 1;
        // A score that is 0 but for rounding may go either way.
        if sum.abs() > 1e-12 * size {
            assert_eq!(is_mistake, y[x] * sum <= 0.0, "{x}: {sum}");
        }
        if is_mistake {
            mistakes.push(x);
        }
    }
    assert!(mistakes.len() > 100);
}

/// Weights times the scale of a small kernel, times the number of examples, summed over
/// trees: whatever would not be finite is refused, and what is there can be stored.
#[test]
fn weights_of_perceptrons_and_large_trees_stay_finite() {
    let kernel = ElasticTree::new(0.001);
    let all = forest(&["(d)", "(e)"]);
    let new =
        |vote| Perceptron::new(&kernel, options(true, 1), vote, None, 1.0).unwrap();
    for vote in [Vote::Average, Vote::Vote, Vote::Last] {
        let mut perceptron = new(vote);
        let error = perceptron.learn(&all, &[1.0, 1e308], None).unwrap_err();
        assert!(matches!(error, Error::Array { array: "y", index: 1, .. }), "{error}");
        assert_eq!((perceptron.n_examples(), perceptron.n_mistakes()), (1, 1));
        let mut stored = perceptron.to_arrays();
        let read = |stored: &_| {
            Perceptron::from_arrays(&kernel, options(true, 1), vote, None, 1.0, stored)
        };
        assert_eq!(read(&stored).unwrap().to_arrays(), stored);
        stored.alphas[0] = -1e308;
        let error = read(&stored).map(|_| ()).unwrap_err();
        let is_named = matches!(error, Error::Array { array: "alphas", index: 0, .. });
        assert!(is_named, "{error}");
        // Adding to its model is as safe as adding to any other.
        stored.alphas[0] = -1e270;
        stored.n_examples = 1 << 62;
        let mut model = read(&stored).unwrap().model();
        let added = model.add(&all, &[-1e308, -1e308]);
        assert!(
            matches!(added, Err(Error::Array { array: "alphas", .. })),
            "{added:?}"
        );
        let arrays = model.to_arrays();
        Model::from_arrays(&kernel, options(true, 1), &arrays).unwrap();
    }
    // Of a tree whose self-kernel no float holds.
    let subsets = SubsetTree::new(1.0);
    let huge = (0..12).fold("(a b)".to_owned(), |tree, _| format!("(a {tree} {tree})"));
    let mut model = Model::new(&subsets, options(true, 1)).unwrap();
    model.add(&forest(&[&huge]), &[1e308]).unwrap();
    assert_eq!(model.to_arrays().large_alphas, [1e308]);
    let error = model.add(&forest(&[&huge]), &[1e308]).unwrap_err();
    assert!(matches!(error, Error::Array { array: "alphas", index: 0, .. }), "{error}");
    assert_eq!(model.to_arrays().large_alphas, [1e308]);
}
