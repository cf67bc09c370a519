//! Kernels with weights, through every use: what the definition says is what single pairs,
//! matrices, rows and models have.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::corpus::{self, Random, read};
use crate::registry::{assert_close, jobs, settings};
use treekernel_rs::gram::{self, Options};
use treekernel_rs::kernel::{Counts, Kernel, Subtree, Weighted, Weights};
use treekernel_rs::{Error, Forest, dag};

/// A weight for most labels and for some productions; one in six is 0.
fn weights(random: &mut Random, all: &Forest) -> Weights {
    let mut weights = Weights::new().with_others(0.8).unwrap();
    let nodes = all.nodes();
    let mut next = || [0.0, 0.5, 1.0, 2.0, 0.3, 1.7][(random.unit() * 6.0) as usize];
    for name in nodes.labels().names() {
        let weight = next();
        if weight != 2.0 {
            weights.set_label(name, weight).unwrap();
        }
    }
    for root in all.roots() {
        let below = nodes.children(*root).iter().map(|&child| nodes.name(child));
        weights.set_production(nodes.name(*root), below, next()).unwrap();
    }
    weights
}

fn with(
    kernel: &Arc<dyn Kernel>,
    weights: &Weights,
    counts: Counts,
) -> Option<Weighted> {
    Weighted::new(Arc::clone(kernel), Arc::new(weights.clone()), counts).ok()
}

#[test]
fn every_use_is_the_definition() {
    let mut random = Random(7);
    let (mut n_kernels, mut names) = (0, BTreeSet::new());
    for kernel in settings() {
        let trees = corpus::trees(&mut random, 12, 10);
        let all = read(&trees);
        let weights = weights(&mut random, &all);
        for counts in [Counts::Linear, Counts::Log, Counts::Set] {
            // Kernels made of kernels have no nodes of their own, and others no weights.
            let Some(kernel) = with(&kernel, &weights, counts) else { continue };
            names.insert(kernel.name());
            n_kernels += 1;
            let (nodes, roots, n) = (all.nodes(), all.roots(), all.len());
            let (options, context) = (Options::default(), &jobs(1));
            let matrix =
                gram::gram_with(&kernel, &all, None, options, context).unwrap();
            let full =
                gram::gram_with(&kernel, &all, Some(&all), options, context).unwrap();
            let rows =
                gram::KernelRows::new_with(&kernel, &all, options, context).unwrap();
            let pairs = gram::SinglePairs::new(&kernel, &all).unwrap();
            let mut of = pairs.worker();
            for i in 0..n {
                let mut row = vec![0.0; n];
                rows.row(i, &mut row).unwrap();
                for j in 0..n {
                    let what = || format!("{kernel:?} {} {}", trees[i], trees[j]);
                    let right = kernel.definition(nodes, roots[i], roots[j]);
                    let values = [matrix[[i, j]], full[[i, j]], row[j]];
                    for value in [values[0], values[1], values[2], of(i, j).unwrap()] {
                        assert_close(value, right, &what);
                    }
                    assert_eq!(matrix[[i, j]].to_bits(), matrix[[j, i]].to_bits());
                }
            }
        }
    }
    assert!(n_kernels >= 45, "{n_kernels}");
    for name in ["Subtree", "SubsetTree", "PartialTree", "ElasticTree", "Subpath"] {
        assert!(names.contains(&*format!("weighted {name}")), "{names:?}");
    }
}

#[test]
fn models_of_subtrees_score_as_rows_do() {
    let mut random = Random(8);
    let trees = [corpus::generated(40, 1), corpus::trees(&mut random, 40, 20)].concat();
    let all = read(&trees);
    let weights = Arc::new(weights(&mut random, &all));
    let kernel = Arc::new(Subtree::new(0.7).with_leaf_weight(0.2));
    let kernel = Weighted::new(kernel, weights, Counts::Linear).unwrap();
    let alphas: Vec<f64> = trees.iter().map(|_| random.unit() - 0.5).collect();
    for normalize in [false, true] {
        let options = dag::ModelOptions::default().with_normalize(normalize);
        let mut model = dag::Model::new(&kernel, options).unwrap();
        // In two parts: labels and productions of the second are new.
        let n = all.len() / 2;
        model.add(&all.select(0..n), &alphas[..n]).unwrap();
        model.add(&all.select(n..all.len()), &alphas[n..]).unwrap();
        let scores = model.score_with(&all, &jobs(2)).unwrap().0;
        let options = Options::default().with_normalize(normalize);
        let matrix = gram::gram(&kernel, &all, None, options).unwrap();
        for (x, row) in matrix.outer_iter().enumerate() {
            let right: f64 = row.iter().zip(&alphas).map(|(k, alpha)| k * alpha).sum();
            let close = (scores[x] - right).abs() <= 1e-9 * right.abs().max(1.0);
            assert!(close, "{} {right} {}", scores[x], trees[x]);
        }
        let again =
            dag::Model::from_arrays(&kernel, model.options(), &model.to_arrays());
        let again = again.unwrap().score_with(&all, &jobs(1)).unwrap().0;
        assert_eq!(again, scores);
    }
}

#[test]
fn kernels_differ_by_weights_and_counts() {
    let plain: Arc<dyn Kernel> = Arc::new(Subtree::default());
    let mut weights = Weights::new();
    let one = with(&plain, &weights, Counts::Linear).unwrap();
    let log = with(&plain, &weights, Counts::Log).unwrap();
    weights.set_label("A", 2.0).unwrap();
    let two = with(&plain, &weights, Counts::Linear).unwrap();
    let all: [&dyn Kernel; 4] = [&*plain, &one, &log, &two];
    for (i, a) in all.into_iter().enumerate() {
        for (j, b) in all.into_iter().enumerate() {
            assert_eq!(a == b, i == j, "{a:?} {b:?}");
        }
    }
}

#[test]
fn bad_weights_are_refused() {
    for weight in [-1.0, f64::NAN, f64::INFINITY] {
        let mut weights = Weights::new();
        let refused = [
            weights.set_label("A", weight).err(),
            weights.set_production("A", ["a"], weight).err(),
            Weights::new().with_others(weight).err(),
        ];
        for error in refused {
            assert!(matches!(error, Some(Error::Parameter { name: "weights", .. })));
        }
    }
    let kernel: Arc<dyn Kernel> =
        Arc::new(treekernel_rs::kernel::SubsetTree::default());
    let refused = Weighted::new(kernel, Arc::default(), Counts::Set).err();
    let can = vec!["Subtree", "Subpath"];
    let (kernel, what) = ("SubsetTree", "counts");
    assert_eq!(refused, Some(Error::Unsupported { kernel, what, can }));
}
