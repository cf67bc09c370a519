//! The encoder against explicit sums over fragments, and its statistics against kernels.

use crate::registry::jobs;
use std::sync::Arc;

use crate::registry;
use ndarray::Array2;
use treekernel_rs::dtk::{
    Composition, DistributedTrees, EncodeOptions, Fold, Norm, Paths, Real, Settings,
    naive,
};
use treekernel_rs::kernel::{ElasticTree, PartialTree, SubsetTree, Subtree};
use treekernel_rs::{Context, Error, Forest, Kernel, gram};

const COMPOSITIONS: [Composition; 5] = [
    Composition::Quaternion,
    Composition::Sign,
    Composition::Phasor,
    Composition::Convolution,
    Composition::Gamma,
];
const FOLDS: [Fold; 2] = [Fold::Left, Fold::Right];
const SUBSET: SubsetTree = SubsetTree::new(0.4);

fn forest(texts: &[&str]) -> Forest {
    Forest::from_bracket_items(texts.iter().copied()).unwrap()
}

fn small() -> Forest {
    forest(&[
        "(a)",
        "(A a)",
        "(S (A a) (B b))",
        "(S (A a) (A a) (A a))",
        "(S (NP (D the) (N dog)) (VP (V barks)))",
        "(A (A (A A) A) A (A A))",
        "(S x (Y y z) (S x (Y y z) w))",
        "(W a b c d (W a b c d))",
    ])
}

fn trees(settings: Settings) -> DistributedTrees {
    DistributedTrees::new(settings).unwrap()
}

fn encode_with<T: Real>(
    trees: &DistributedTrees,
    forest: &Forest,
    options: EncodeOptions,
    context: &Context,
) -> Vec<Vec<T>> {
    let d = trees.settings().n_components;
    let mut out = vec![T::default(); d * forest.len()];
    trees.encode_with(forest, options, &mut out, context).unwrap();
    out.chunks(d).map(<[T]>::to_vec).collect()
}

fn encode<T: Real>(trees: &DistributedTrees, forest: &Forest) -> Vec<Vec<T>> {
    encode_with(trees, forest, EncodeOptions::default(), &jobs(1))
}

fn dot<T: Real>(a: &[T], b: &[T]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x.get() * y.get()).sum()
}

fn norm<T: Real>(a: &[T]) -> f64 {
    dot(a, a).sqrt()
}

fn gap<T: Real>(a: &[T], b: &[f64]) -> f64 {
    let squares = a.iter().zip(b).map(|(x, y)| (x.get() - y) * (x.get() - y));
    squares.sum::<f64>().sqrt()
}

/// Every third setting of the kernels that have distributed trees.
fn kernels() -> Vec<Arc<dyn Kernel>> {
    let encoder = |kernel| DistributedTrees::new(Settings::new(kernel, 4));
    let has_trees = |kernel: &Arc<dyn Kernel>| encoder(Arc::clone(kernel)).is_ok();
    registry::settings().into_iter().filter(has_trees).step_by(3).collect()
}

#[test]
fn the_recursion_is_the_sum_over_all_fragments() {
    let forest = small();
    let mut checked = 0;
    for composition in COMPOSITIONS {
        for fold in FOLDS {
            for kernel in kernels() {
                for max_height in [None, Some(1), Some(2)] {
                    let mut settings = Settings::new(Arc::clone(&kernel), 64);
                    (settings.composition, settings.fold) = (composition, fold);
                    settings.max_height = max_height;
                    settings.seed = checked;
                    let Ok(trees) = DistributedTrees::new(settings) else {
                        assert_eq!(kernel.name(), "PartialTree");
                        continue;
                    };
                    let double = encode::<f64>(&trees, &forest);
                    let single = encode::<f32>(&trees, &forest);
                    for (tree, &root) in forest.roots().iter().enumerate() {
                        let sum = naive::tree(&trees, forest.nodes(), root);
                        let size = norm(&sum).max(1e-300);
                        let gaps = [gap(&double[tree], &sum), gap(&single[tree], &sum)];
                        let place = (composition, fold, &kernel, max_height, tree);
                        assert!(gaps[0] <= 1e-12 * size, "{place:?} {gaps:?} {size}");
                        assert!(gaps[1] <= 1e-6 * size, "{place:?} {gaps:?} {size}");
                        checked += 1;
                    }
                }
            }
        }
    }
    assert!(checked > 1500, "{checked}");
}

#[test]
fn compositions_are_their_formulas() {
    // 12 is no power of two; the FFT's lengths differ in kind.
    for d in [4, 12, 64, 100, 1024] {
        for composition in COMPOSITIONS {
            let mut settings = Settings::new(&SUBSET, d);
            settings.composition = composition;
            let trees = trees(settings);
            let [a, b] = ["a", "b"].map(|label| {
                let mut out = vec![0.0; d];
                trees.label_vector::<f64>(label, &mut out).unwrap();
                out
            });
            let expected = naive::compose(&trees, &a, &b);
            let mut out = vec![f64::NAN; d];
            trees.compose(&a, &b, &mut out).unwrap();
            assert!(
                gap(&out, &expected) <= 1e-14 * norm(&expected),
                "{d} {composition:?}"
            );
            let [a, b] =
                [&a, &b].map(|x| x.iter().map(|&x| x as f32).collect::<Vec<_>>());
            let mut out = vec![f32::NAN; d];
            trees.compose(&a, &b, &mut out).unwrap();
            assert!(
                gap(&out, &expected) <= 1e-6 * norm(&expected),
                "{d} {composition:?}"
            );
        }
    }
}

#[test]
fn the_straightforward_recursion_gives_the_same_vectors() {
    let forest = small();
    for composition in COMPOSITIONS {
        for fold in FOLDS {
            let mut settings = Settings::new(&SUBSET, 128);
            (settings.composition, settings.fold) = (composition, fold);
            let trees = trees(settings);
            let vectors = encode::<f64>(&trees, &forest);
            for (vector, &root) in vectors.iter().zip(forest.roots()) {
                let mut out = vec![f64::NAN; 128];
                naive::straightforward(&trees, forest.nodes(), root, 0.4, &mut out)
                    .unwrap();
                assert!(gap(vector, &out) <= 1e-12 * norm(&out), "{composition:?}");
            }
        }
    }
}

#[test]
fn compositions_are_bilinear_but_neither_commute_nor_associate() {
    let d = 512;
    for composition in COMPOSITIONS {
        let mut settings = Settings::new(&SUBSET, d);
        settings.composition = composition;
        let trees = trees(settings);
        let [a, b, c] = ["a", "b", "c"].map(|label| {
            let mut out = vec![0.0; d];
            trees.label_vector::<f64>(label, &mut out).unwrap();
            out
        });
        let of = |x: &[f64], y: &[f64]| {
            let mut out = vec![0.0; d];
            trees.compose(x, y, &mut out).unwrap();
            out
        };
        let sum = |x: &[f64], y: &[f64]| -> Vec<f64> {
            x.iter().zip(y).map(|(x, y)| 2.0 * x - 0.5 * y).collect()
        };
        let left = gap(&of(&sum(&a, &b), &c), &sum(&of(&a, &c), &of(&b, &c)));
        let right = gap(&of(&c, &sum(&a, &b)), &sum(&of(&c, &a), &of(&c, &b)));
        assert!(left < 1e-13 && right < 1e-13, "{composition:?} {left} {right}");
        let other = [
            gap(&of(&a, &b), &of(&b, &a)),
            gap(&of(&a, &a), &a),
            gap(&of(&of(&a, &b), &c), &of(&a, &of(&b, &c))),
            gap(&of(&of(&a, &a), &a), &of(&a, &of(&a, &a))),
        ];
        assert!(other.iter().all(|&gap| gap > 0.5), "{composition:?} {other:?}");
    }
}

#[test]
fn fragments_have_unit_norm_where_it_is_promised() {
    let forest =
        forest(&["(S (NP (D the) (N dog)) (VP (V barks) (NP (D the) (N cat))))"]);
    for composition in COMPOSITIONS {
        let exact =
            !matches!(composition, Composition::Convolution | Composition::Gamma);
        for fold in FOLDS {
            let mut settings = Settings::new(&SUBSET, 4096);
            (settings.composition, settings.fold) = (composition, fold);
            let trees = trees(settings);
            let mut double = vec![0.0f64; 4096];
            trees.fragment(&forest, &mut double).unwrap();
            let mut single = vec![0.0f32; 4096];
            trees.fragment(&forest, &mut single).unwrap();
            let norms = [norm(&double), norm(&single)];
            if exact {
                assert!((norms[0] - 1.0).abs() < 1e-13, "{composition:?} {norms:?}");
                assert!((norms[1] - 1.0).abs() < 1e-6, "{composition:?} {norms:?}");
            } else {
                assert!((norms[0] - 1.0).abs() < 0.8, "{composition:?} {norms:?}");
            }
        }
    }
}

/// All trees of 2 to `n` nodes over some labels, as text.
fn all_trees(labels: &[&str], n: usize) -> Vec<String> {
    // of[k]: trees of k nodes; lists[k]: sequences of trees with k nodes in all.
    let (mut of, mut lists) = (vec![Vec::new()], vec![vec![String::new()]]);
    for size in 1..=n {
        let here: Vec<String> = labels
            .iter()
            .flat_map(|l| lists[size - 1].iter().map(move |c| format!("({l}{c})")))
            .collect();
        of.push(here);
        let mut sequences = Vec::new();
        for first in 1..=size {
            for tree in &of[first] {
                let rest: &Vec<String> = &lists[size - first];
                sequences.extend(rest.iter().map(|rest| format!(" {tree}{rest}")));
            }
        }
        lists.push(sequences);
    }
    of[2..].concat()
}

#[test]
#[ignore = "slow: `make test-slow` runs it"]
fn different_small_trees_have_different_vectors_with_the_left_fold() {
    let d = 1024;
    for (labels, n, count, right_collisions) in
        [(&["a", "b"][..], 5, 548, 1096), (&["a"][..], 8, 625, 4976)]
    {
        let texts = all_trees(labels, n);
        assert_eq!(texts.len(), count);
        let forest =
            Forest::from_bracket_items(texts.iter().map(String::as_str)).unwrap();
        for composition in COMPOSITIONS {
            for fold in FOLDS {
                let mut settings = Settings::new(&SUBSET, d);
                (settings.composition, settings.fold) = (composition, fold);
                let trees = trees(settings);
                let mut vectors = Array2::<f32>::zeros((count, d));
                for (tree, mut vector) in vectors.outer_iter_mut().enumerate() {
                    let out = vector.as_slice_mut().unwrap();
                    trees.fragment(&forest.select([tree]), out).unwrap();
                    let size = norm(out) as f32;
                    vector /= size;
                }
                let cosines = vectors.dot(&vectors.t());
                let pairs = cosines.indexed_iter().filter(|((i, j), _)| j < i);
                let identical = pairs.filter(|(_, cosine)| **cosine > 0.999).count();
                let expected = if fold == Fold::Left { 0 } else { right_collisions };
                assert_eq!(identical, expected, "{composition:?} {fold:?} {n}");
            }
        }
    }
}

#[test]
#[ignore = "slow: `make test-slow` runs it"]
fn dot_products_are_unbiased_and_as_noisy_as_stated() {
    let forest = forest(&[
        "(S (NP (D the) (N dog)) (VP (V chases) (NP (D a) (N cat))))",
        "(S (NP (D the) (N cat)) (VP (V chases) (NP (D a) (N dog)) (ADV now)))",
        "(S (NP (N dogs)) (VP (V bark)))",
    ]);
    let (d, n_seeds) = (256usize, 3000u64);
    let partial = PartialTree::new(0.4, 0.5).with_leaf_factor(2.0);
    let leafy = SubsetTree::new(0.4).with_leaf_weight(0.5);
    let subtree = Subtree::new(0.6).with_leaf_weight(0.2);
    let kernels: [Arc<dyn Kernel>; 4] =
        [Arc::new(SUBSET), Arc::new(leafy), Arc::new(subtree), Arc::new(partial)];
    for kernel in kernels {
        let exact =
            gram::gram(&*kernel, &forest, None, gram::Options::default()).unwrap();
        for composition in COMPOSITIONS {
            let mut sums = [[0.0; 2]; 9];
            for seed in 0..n_seeds {
                let mut settings = Settings::new(Arc::clone(&kernel), d);
                (settings.composition, settings.seed) = (composition, seed);
                let vectors = encode::<f32>(&trees(settings), &forest).concat();
                let vectors = Array2::from_shape_vec((3, d), vectors).unwrap();
                let vectors = vectors.mapv(f64::from);
                let errors = vectors.dot(&vectors.t()) - &exact;
                for (&value, sum) in errors.iter().zip(&mut sums) {
                    sum[0] += value;
                    sum[1] += value * value;
                }
            }
            let mut ratios = Vec::new();
            for (pair, sum) in sums.iter().enumerate() {
                let (i, j) = (pair / 3, pair % 3);
                if i >= j {
                    continue;
                }
                let mean = sum[0] / n_seeds as f64;
                let variance = sum[1] / n_seeds as f64;
                let error = (variance / n_seeds as f64).sqrt();
                // Circular convolution of random signals is unbiased up to O(1/d).
                let slack =
                    if composition == Composition::Convolution { 2.0 } else { 0.0 };
                let limit = 4.0 * error + slack * exact[[i, j]] / d as f64;
                assert!(
                    mean.abs() < limit,
                    "{composition:?} {kernel:?} {mean} {limit}"
                );
                let (kii, kjj, kij) = (exact[[i, i]], exact[[j, j]], exact[[i, j]]);
                ratios.push(variance * d as f64 / (kii * kjj + kij * kij));
            }
            let ratio = ratios.iter().sum::<f64>() / ratios.len() as f64;
            // The limit is 1. (Convolutions of d = 256 and the γ-product have heavier tails.)
            let stated = match composition {
                Composition::Convolution => 1.2,
                Composition::Gamma => continue,
                _ if kernel.name() == "PartialTree" => 1.12,
                _ => 1.03,
            };
            assert!(
                (ratio / stated - 1.0).abs() < 0.1,
                "{composition:?} {kernel:?} {ratio}"
            );
        }
    }
}

#[test]
fn structures_of_one_label_stay_at_chance() {
    let n = 30;
    let mut texts = Vec::new();
    for k in 2..n {
        texts.push("(A ".repeat(k) + "A" + &")".repeat(k)); // chains
        texts.push(format!("(A{})", " A".repeat(k))); // wide nodes
        texts.push("(A A ".repeat(k) + "A" + &")".repeat(k)); // combs
        texts.push("(A ".repeat(k) + "A" + &" A)".repeat(k));
    }
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let forest = forest(&texts);
    let d = 4096;
    for composition in [Composition::Quaternion, Composition::Sign, Composition::Phasor]
    {
        let mut settings = Settings::new(&SUBSET, d);
        settings.composition = composition;
        let trees = trees(settings);
        let vectors: Vec<Vec<f32>> = (0..forest.len())
            .map(|tree| {
                let mut out = vec![0.0f32; d];
                trees.fragment(&forest.select([tree]), &mut out).unwrap();
                out
            })
            .collect();
        let (mut squares, mut pairs, mut most) = (0.0, 0, 0.0f64);
        for (i, a) in vectors.iter().enumerate() {
            assert!((norm(a) - 1.0).abs() < 1e-5);
            for b in &vectors[..i] {
                let cosine = dot(a, b);
                squares += cosine * cosine;
                most = most.max(cosine.abs());
                pairs += 1;
            }
        }
        let rms = (squares / f64::from(pairs)).sqrt() * (d as f64).sqrt();
        assert!((0.8..1.2).contains(&rms), "{composition:?} {rms}");
        assert!(most < 6.0 / (d as f64).sqrt(), "{composition:?} {most}");
    }
}

#[test]
fn bits_do_not_depend_on_threads_batches_order_or_the_cache() {
    let texts: Vec<String> = (0..150)
        .map(|i| {
            let [a, b] = [i % 7, i * i % 5];
            format!("(S (NP (D d{a}) (N n{b})) (VP (V v{i}) (NP (D d{b}) (N n{a}))) w)")
        })
        .collect();
    let forest = Forest::from_bracket_items(texts.iter().map(String::as_str)).unwrap();
    for composition in COMPOSITIONS {
        let kernels: [Arc<dyn Kernel>; 2] = [
            Arc::new(SubsetTree::new(0.4).with_leaf_weight(0.5)),
            Arc::new(PartialTree::new(0.4, 0.4).with_max_children(Some(2))),
        ];
        for kernel in kernels {
            let mut settings = Settings::new(kernel, 128);
            settings.composition = composition;
            let trees = trees(settings.clone());
            let all = encode::<f32>(&trees, &forest);
            for (n_jobs, cache_bytes) in [(2, 256 << 20), (3, 0), (1, 0), (1, 20_000)] {
                let options = EncodeOptions::default().with_cache_bytes(cache_bytes);
                let found = encode_with::<f32>(&trees, &forest, options, &jobs(n_jobs));
                assert_eq!(found, all);
            }
            let again = DistributedTrees::new(settings).unwrap();
            for (i, text) in texts.iter().enumerate().rev().step_by(11) {
                let alone = Forest::from_bracket_items([text.as_str()]).unwrap();
                assert_eq!(encode::<f32>(&again, &alone)[0], all[i]);
            }
        }
    }
}

#[test]
#[ignore = "slow: `make test-slow` runs it"]
fn deep_and_wide_trees_are_finite_and_take_little_memory() {
    let n = 100_000;
    let texts = [
        "(A ".repeat(n) + "A" + &")".repeat(n),
        "(A B ".repeat(n) + "A" + &")".repeat(n),
        "(A ".repeat(n) + "A" + &" B)".repeat(n),
        format!("(A{})", " A".repeat(n)),
        format!("(A{})", " A B C".repeat(n / 3)),
    ];
    let forest = Forest::from_bracket_items(texts.iter().map(String::as_str)).unwrap();
    for composition in [Composition::Quaternion, Composition::Sign, Composition::Phasor]
    {
        let mut settings = Settings::new(&SUBSET, 64);
        settings.composition = composition;
        let small_cache = EncodeOptions::default().with_cache_bytes(4096);
        let trees = trees(settings);
        let vectors = encode_with::<f32>(&trees, &forest, small_cache, &jobs(1));
        for vector in vectors {
            let size = norm(&vector);
            assert!(size.is_finite() && size > 0.1, "{composition:?} {size}");
        }
    }
}

#[test]
fn what_is_too_large_for_the_type_is_an_error_that_names_the_tree() {
    let wide = format!("(W{})", " (A A)".repeat(2000));
    let forest = forest(&["(A a)", &wide]);
    let trees = trees(Settings::new(&SUBSET, 64));
    let mut out = vec![0.0f32; 128];
    let result = trees.encode(&forest, EncodeOptions::default(), &mut out);
    assert_eq!(result, Err(Error::VectorOverflow { tree: 1, wider: true }));
    let options = EncodeOptions::default().with_zero_too_large(true);
    let report = trees.encode_with(&forest, options, &mut out, &jobs(1)).unwrap();
    assert_eq!(report.too_large, [1]);
    assert!(report.noisy.is_empty(), "{report:?}");
    assert!(norm(&out[..64]) > 0.5 && norm(&out[64..]) == 0.0);
}

fn wide(child: &str, n: usize) -> String {
    format!("(W{})", format!(" {child}").repeat(n))
}

/// Rows of a normalised kernel, and the trees that are said to be noise.
fn normalized<T: Real>(
    settings: Settings,
    forest: &Forest,
) -> (Vec<Vec<T>>, Vec<usize>) {
    let d = settings.n_components;
    let mut out = vec![T::default(); d * forest.len()];
    let report = trees(settings)
        .encode_with(forest, EncodeOptions::default(), &mut out, &jobs(1))
        .unwrap();
    assert!(report.too_large.is_empty(), "{report:?}");
    (out.chunks(d).map(<[T]>::to_vec).collect(), report.noisy)
}

#[test]
fn wide_nodes_have_vectors_whatever_the_range_of_their_numbers() {
    // Up to 3^1400, with roots that no float holds. Exact kernels of partial trees take
    // time with the square of the children, and leave the range with fewer.
    let forests = [(1000, 1400), (200, 300)]
        .map(|(n, m)| forest(&[&wide("(A a)", n), "(A a)", &wide("(A (B b c))", m)]));
    let kernels: [Arc<dyn Kernel>; 4] = [
        Arc::new(SUBSET),
        Arc::new(SubsetTree::new(1.0)),
        Arc::new(PartialTree::new(1.0, 1.0)),
        Arc::new(PartialTree::new(0.9, 0.9).with_max_children(Some(3))),
    ];
    for (kernel, composition) in
        kernels.iter().flat_map(|kernel| COMPOSITIONS.map(|c| (kernel, c)))
    {
        for norm_by in [Norm::Exact, Norm::Own] {
            let mut settings = Settings::new(Arc::clone(kernel), 72); // no multiple of 16, by which sums go
            settings.composition = composition;
            settings.normalize = Some(norm_by);
            let is_subset = kernel.name() == "SubsetTree";
            let forest = &forests[usize::from(!is_subset)];
            let (single, noisy) = normalized::<f32>(settings.clone(), forest);
            let (double, _) = normalized::<f64>(settings, forest);
            let place = (kernel, composition, norm_by);
            for (a, b) in single.iter().zip(&double) {
                assert!(a.iter().all(|x| x.is_finite()), "{place:?}");
                assert!(gap(a, b) <= 0.02 * norm(b), "{place:?} {}", gap(a, b));
                let length = norm(b);
                assert!(norm_by == Norm::Exact || (length - 1.0).abs() < 1e-9);
                assert!(
                    !is_subset || (0.7..1.5).contains(&length),
                    "{place:?} {length}"
                );
            }
            assert!(!is_subset || noisy == [0, 2], "{place:?}");
        }
    }
}

#[test]
fn no_divided_vector_is_longer_than_the_whole_kernel_allows_but_by_a_factor_of_root_2()
{
    // What is left out leaves no less noise: ‖T‖² is 2^370 times K(T,T) in the first.
    let mixed = ["(A b)", "(A a)", "(A (A (A a)))", "(A a)"].repeat(1024).join(" ");
    let forest =
        forest(&["(A a)", &format!("(A {mixed})"), &wide("(A (B b c))", 1400)]);
    for composition in COMPOSITIONS {
        for (kernel, norm_by) in
            [(SubsetTree::new(0.07), Norm::Exact), (SUBSET, Norm::Full)]
        {
            let mut settings = Settings::new(&kernel, 60);
            settings.composition = composition;
            settings.fold = Fold::Right;
            settings.normalize = Some(norm_by);
            settings.zero_mean = true;
            settings.seed = 255;
            settings.max_height = Some(3);
            for row in normalized::<f32>(settings, &forest).0 {
                assert!(norm(&row) < 1.5, "{composition:?} {norm_by:?} {}", norm(&row));
            }
        }
    }
}

#[test]
fn weights_that_a_float_cannot_hold_are_no_end_of_vectors() {
    let forest = forest(&["(S (A a) (B (C c) (D d)))", "(S (A a) (B b))", "(S a)"]);
    for decay in [1e-90, 1e-300] {
        let partial = PartialTree::new(0.5, decay);
        let kernels: [Arc<dyn Kernel>; 2] =
            [Arc::new(SubsetTree::new(decay)), Arc::new(partial)];
        for kernel in kernels {
            for norm_by in [Norm::Exact, Norm::Own] {
                let mut settings = Settings::new(Arc::clone(&kernel), 4096);
                settings.normalize = Some(norm_by);
                for row in normalized::<f32>(settings, &forest).0 {
                    assert!(
                        (norm(&row) - 1.0).abs() < 0.2,
                        "{kernel:?} {}",
                        norm(&row)
                    );
                }
            }
        }
    }
}

#[test]
fn bits_of_wide_trees_do_not_depend_on_the_cache() {
    let texts: Vec<String> =
        (0..40).map(|i| wide(&format!("(A a{}) (B b)", i % 3), 20 * i + 1)).collect();
    let forest = Forest::from_bracket_items(texts.iter().map(String::as_str)).unwrap();
    for composition in COMPOSITIONS {
        let mut settings = Settings::new(&SubsetTree::new(0.9), 64);
        settings.composition = composition;
        settings.normalize = Some(Norm::Own);
        let trees = trees(settings);
        let all = encode::<f32>(&trees, &forest);
        for (n_jobs, cache_bytes) in [(1, 0), (1, 20_000), (2, 256 << 20)] {
            let options = EncodeOptions::default().with_cache_bytes(cache_bytes);
            let found = encode_with::<f32>(&trees, &forest, options, &jobs(n_jobs));
            assert_eq!(found, all);
        }
        for (tree, expected) in all.iter().enumerate().step_by(13) {
            assert_eq!(&encode::<f32>(&trees, &forest.select([tree]))[0], expected);
        }
    }
}

#[test]
fn vectors_are_divided_by_norms_that_floats_cannot_square() {
    // A norm of some 2^550.
    let wide = format!("(W{})", " (A A)".repeat(1100));
    let mut settings = Settings::new(&SubsetTree::new(1.0), 64);
    settings.normalize = Some(Norm::Own);
    let vectors = encode::<f64>(&trees(settings), &forest(&[&wide]));
    let norm = vectors[0].iter().map(|x| x * x).sum::<f64>().sqrt();
    assert!((norm - 1.0).abs() < 1e-9, "{norm}");
}

#[test]
fn normalised_vectors_have_kernels_near_one_or_norms_of_one() {
    let forest = small();
    for (norm_by, zero) in [(Norm::Exact, vec![0]), (Norm::Own, vec![0])] {
        let mut settings = Settings::new(&SUBSET, 8192);
        settings.normalize = Some(norm_by);
        let trees = trees(settings);
        let mut out = vec![0.0f64; forest.len() * 8192];
        let report = trees.encode(&forest, EncodeOptions::default(), &mut out).unwrap();
        assert_eq!(report.zero_rows, zero);
        for (tree, vector) in out.chunks(8192).enumerate().skip(1) {
            let tolerance = if norm_by == Norm::Own { 1e-12 } else { 0.15 };
            assert!((norm(vector) - 1.0).abs() < tolerance, "{tree} {}", norm(vector));
        }
    }
}

#[test]
fn each_distinct_subtree_and_left_prefix_is_composed_once() {
    let forest = forest(&[
        "(S (NP (D the) (N dog)) (VP (V barks)))",
        "(S (NP (D the) (N dog)) (VP (V barks)) (ADV now))",
        "(S (NP (D the) (N dog)) (VP (V barks)))",
    ]);
    for composition in COMPOSITIONS {
        let mut settings = Settings::new(&SUBSET, 64);
        settings.composition = composition;
        let trees = trees(settings);
        let mut out = vec![0.0f32; forest.len() * 64];
        let options = EncodeOptions::default();
        let report = trees.encode_with(&forest, options, &mut out, &jobs(1)).unwrap();
        // D, N, V, ADV: 1 each; NP 2, VP 1; S 2, and 1 more for the longer one.
        assert_eq!(report.n_compositions, 4 + 2 + 1 + 2 + 1);
    }
}

#[test]
fn pruning_leaves_out_what_only_one_tree_has_and_nothing_else() {
    let forest = forest(&[
        "(S (NP (D the) (N dog)) (VP (V barks)))",
        "(S (NP (D the) (N cat)) (VP (V barks)))",
        "(X (Y (Z z)))",
        "(S (NP (D the) (N dog)) (VP (V sleeps) (X (Y (Z y)))))",
    ]);
    // At d = 2^14 and a decay of .5 noise is far below a fragment's weight.
    let d = 1 << 14;
    let kernel = SubsetTree::new(0.5);
    let full = trees(Settings::new(&kernel, d));
    let pruned = full.prune(&forest).unwrap();
    let exact = gram::gram(&kernel, &forest, None, gram::Options::default()).unwrap();
    let vectors = encode::<f64>(&pruned, &forest);
    for i in 0..4 {
        for j in 0..4 {
            let value = dot(&vectors[i], &vectors[j]);
            if i == j {
                assert!(value < exact[[i, j]] + 0.1);
            } else {
                assert!((value - exact[[i, j]]).abs() < 0.1, "{i} {j} {value}");
            }
        }
    }
    // X -> Y and Y -> Z are shared, as is the path of both; no word is.
    assert!((dot(&vectors[2], &vectors[2]) - (0.5 + 0.5 + 0.25)).abs() < 0.1);
    let known = pruned.settings().paths.clone().unwrap();
    assert_eq!(Paths::from_hashes(known.hashes().unwrap()).unwrap(), *known);
    let [copy, mut settings] = [pruned.settings().clone(), full.settings().clone()];
    settings.paths = copy.paths;
    assert_eq!(encode::<f64>(&trees(settings), &forest), vectors);
    // A dictionary of all paths changes nothing.
    let twice = forest.concat(&forest).unwrap();
    let all = full.prune(&twice).unwrap();
    assert_eq!(encode::<f64>(&all, &forest), encode::<f64>(&full, &forest));
}

#[test]
fn tuning_finds_the_decay_of_the_rule() {
    let words =
        |n: usize| (0..n).map(|i| format!("(A a{i}) ")).collect::<Vec<_>>().concat();
    let texts: Vec<String> =
        (0..40).map(|n| format!("(S {}(B b))", words(n / 4))).collect();
    let forest = Forest::from_bracket_items(texts.iter().map(String::as_str)).unwrap();
    let kernel = SubsetTree::new(1.0);
    let (d, limit) = (1024, 24.0); // .75 sqrt(1024)
    let tuned = trees(Settings::new(&kernel, d)).tune(&forest).unwrap();
    let decay = tuned.settings().sketch_decay.unwrap();
    let median = |decay: f64| {
        let kernel = SubsetTree::new(decay);
        let options = gram::Options::default();
        let mut values = gram::diagonal(&kernel, &forest, options).unwrap().0;
        values.sort_unstable_by(f64::total_cmp);
        f64::midpoint(values[19], values[20])
    };
    let fits = |decay: f64| median(decay) <= limit * decay;
    assert!(fits(decay) && !fits(decay + 0.001), "{decay}");
    let low = Settings::new(&SubsetTree::new(0.001), d);
    let tuned = trees(low).tune(&forest).unwrap();
    assert_eq!(tuned.settings().sketch_decay, None);
}

#[test]
fn bad_settings_are_errors_that_name_parameter_range_and_value() {
    let settings = || Settings::new(&SUBSET, 64);
    let changed = |change: &dyn Fn(&mut Settings)| {
        let mut settings = settings();
        change(&mut settings);
        settings
    };
    let partial = || Arc::new(PartialTree::default());
    let paths = Some(std::sync::Arc::new(Paths::default()));
    let cases = [
        (changed(&|s| s.n_components = 6), "n_components"),
        (changed(&|s| s.n_components = 0), "n_components"),
        (changed(&|s| s.max_height = Some(0)), "max_height"),
        (changed(&|s| s.sketch_decay = Some(f64::NAN)), "sketch_decay"),
        (changed(&|s| s.sketch_decay = Some(0.0)), "sketch_decay"),
        (changed(&|s| (s.kernel, s.fold) = (partial(), Fold::Right)), "fold"),
        (Settings::new(&Subtree::new(2.0), 64), "decay"),
        (Settings::new(&ElasticTree::new(0.0), 64), "decay"),
    ];
    for (settings, at_fault) in cases {
        match DistributedTrees::new(settings) {
            Err(Error::Parameter { name, .. }) => assert_eq!(name, at_fault),
            other => panic!("{at_fault}: {:?}", other.err()),
        }
    }
    let elastic = Settings::new(&ElasticTree::default(), 64);
    let pruned = changed(&|s| (s.kernel, s.paths) = (partial(), paths.clone()));
    for (settings, name) in [(elastic, "ElasticTree"), (pruned, "PartialTree")] {
        match DistributedTrees::new(settings) {
            Err(Error::Unsupported { kernel, can, .. }) => {
                assert_eq!(kernel, name);
                assert!(can.contains(&"SubsetTree") && !can.contains(&name), "{can:?}");
            }
            other => panic!("{name}: {:?}", other.err()),
        }
    }
    let trees = trees(settings());
    let mut out = vec![0.0f32; 63];
    assert!(matches!(trees.label_vector("a", &mut out), Err(Error::Length { .. })));
    let encoded = trees.encode(&small(), EncodeOptions::default(), &mut out);
    assert!(matches!(encoded, Err(Error::Length { array: "out", .. })));
}

#[test]
fn numbers_of_a_long_label_do_not_repeat() {
    // They are drawn in parts of 2^16, each going on where the one before ended.
    let d = 1 << 17;
    for composition in [Composition::Quaternion, Composition::Sign, Composition::Phasor]
    {
        let mut settings = Settings::new(&SUBSET, d);
        settings.composition = composition;
        let mut out = vec![0.0f64; d];
        trees(settings).label_vector("a", &mut out).unwrap();
        let (first, second) = out.split_at(d / 2);
        let dot: f64 = first.iter().zip(second).map(|(a, b)| a * b).sum();
        // Of two halves of length √½, 1/2 if they are equal.
        assert!(dot.abs() < 0.02, "{composition:?} {dot}");
    }
}

#[test]
#[allow(clippy::unreadable_literal)]
fn label_vectors_are_the_same_for_ever() {
    let pinned: [(Composition, [f64; 4]); 5] = [
        (
            Composition::Quaternion,
            [
                -0.05559434622223788,
                0.1563051084799985,
                0.6438040605697899,
                0.122109635117712,
            ],
        ),
        (
            Composition::Sign,
            [
                0.35355339059327373,
                -0.35355339059327373,
                0.35355339059327373,
                0.35355339059327373,
            ],
        ),
        (
            Composition::Phasor,
            [
                0.33541819080631813,
                -0.1033684908895508,
                0.2571337823669569,
                0.009776492946291404,
            ],
        ),
        (
            Composition::Convolution,
            [
                0.41157543508629246,
                -0.12755822270713466,
                0.016521097713192434,
                -0.3686358644416263,
            ],
        ),
        (
            Composition::Gamma,
            [
                0.39768568849336483,
                -0.14104978380465558,
                -0.22924587236712468,
                0.42583135464371646,
            ],
        ),
    ];
    for (composition, expected) in pinned {
        let mut settings = Settings::new(&SUBSET, 8);
        (settings.composition, settings.seed) = (composition, 42);
        let trees = trees(settings);
        let [mut np, mut composed] = [vec![0.0f64; 8], vec![0.0; 8]];
        trees.label_vector("NP", &mut np).unwrap();
        trees.compose(&np, &np, &mut composed).unwrap();
        assert_eq!(
            [np[0], np[7], composed[0], composed[7]],
            expected,
            "{composition:?}"
        );
    }
}

#[test]
fn a_noisy_product_is_no_reason_for_a_warning_where_frequent_fragments_outweigh_it() {
    // The product of 349 children weighs 20, and is noise. Four nodes above it weigh next to
    // nothing, so no product of those above has it as a factor.
    let product: Vec<String> = (0..349).map(|i| format!("(C{i} c)")).collect();
    let product = product.join(" ");
    let chain = |start: &str, n: usize, part: &str| {
        format!("{}{start}{}", format!("(S {part} ").repeat(n), ")".repeat(n))
    };
    let noisy = chain("(S s)", 8, &format!("(V (X (Y (Z (W {product})))))"));
    // 1,500² fragments of weight λ outweigh the 8² that share the product.
    let clean = chain(&noisy, 1500, "(A a)");
    let forest = forest(&[&noisy, &clean]);
    for seed in 0..8 {
        let mut settings = Settings::new(&SubsetTree::new(0.02), 512);
        settings.composition = Composition::Quaternion;
        settings.normalize = Some(Norm::Exact);
        settings.seed = seed;
        let (rows, noisy) = normalized::<f64>(settings, &forest);
        assert_eq!(noisy, [0], "{seed}");
        assert!((0.25..2.0).contains(&norm(&rows[1]).powi(2)), "{}", norm(&rows[1]));
    }
}

/// Found by fuzzing: a product of 2,048 equal vectors is longer than floats hold, where the
/// estimate of noise, which sees fragments that share a product, says nothing.
#[test]
fn a_product_that_is_far_too_long_is_noise_whatever_the_estimate_says() {
    let kernel = Arc::new(Subtree::new(0.07).with_leaf_weight(4.0));
    let forest = forest(&["(A a)", &wide("b", 2048), "(A b)"]);
    for seed in 120..140 {
        let mut settings = Settings::new(Arc::clone(&kernel) as Arc<dyn Kernel>, 8);
        settings.composition = Composition::Convolution;
        settings.sketch_decay = Some(0.3);
        settings.seed = seed;
        settings.normalize = Some(Norm::Exact);
        let (rows, noisy) = normalized::<f32>(settings, &forest);
        let is_long = norm(&rows[1]) > 1024.0;
        assert!(!is_long && rows[1].iter().all(|x| x.is_finite()), "{seed}");
        assert!(seed != 128 || noisy == [1], "{noisy:?}");
    }
}
