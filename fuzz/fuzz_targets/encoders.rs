//! Vectors of trees: the recursion against the sum over all fragments, and the same bits
//! whatever cache, threads, order and neighbours a tree has.

#![no_main]

use libfuzzer_sys::fuzz_target;
use source::{LABELS, Source, jobs};
use treekernel_rs::dtk::{
    Composition, DistributedTrees, EncodeOptions, Fold, Norm, Settings, naive,
};
use treekernel_rs::{Context, Forest, gram};

const COMPOSITIONS: &[Composition] = &[
    Composition::Quaternion,
    Composition::Sign,
    Composition::Phasor,
    Composition::Convolution,
    Composition::Gamma,
];

fuzz_target!(|bytes: &[u8]| {
    let mut source = Source::new(bytes);
    let mut settings = Settings::new(source.kernel(), source.pick(&[8, 16, 4, 60]));
    settings.composition = source.pick(COMPOSITIONS);
    settings.fold = source.pick(&[Fold::Left, Fold::Right]);
    settings.seed = u64::from(source.byte());
    settings.max_height = source.pick(&[None, Some(1), Some(2), Some(3)]);
    settings.sketch_decay = source.pick(&[None, None, Some(0.3)]);
    settings.zero_mean = source.flag();
    settings.normalize = source.pick(&[None, Some(Norm::Exact), Some(Norm::Own), None]);
    // Some kernels have no vectors, some no right fold.
    let Ok(mut trees) = DistributedTrees::new(settings) else { return };
    let max_nodes = source.pick(&[8, 16, 40]);
    let forest = source.forest(LABELS, 4, max_nodes);
    match source.byte() {
        250.. => trees = trees.tune(&forest).expect("small trees"),
        200..250 => {
            if let Ok(pruned) = trees.prune(&forest) {
                trees = pruned;
            }
        }
        _ => {}
    }

    let encode = |forest: &Forest, bytes, n| encode(&trees, forest, bytes, &jobs(n));
    let vectors = encode(&forest, 256 << 20, 1);
    let d = trees.settings().n_components;
    for (bytes, n) in [(0, 1), (3 * d * 8, 1), (1 << 20, 2)] {
        if n == 2 && source.byte() < 250 {
            continue;
        }
        assert_eq!(encode(&forest, bytes, n), vectors, "{bytes} bytes, {n} threads");
    }
    // Self-kernels may differ in the last bit with a tree's neighbours.
    let slack =
        if trees.settings().normalize == Some(Norm::Exact) { 1e-12 } else { 0.0 };
    for (tree, right) in vectors.chunks(d).enumerate() {
        let one = encode(&forest.select([tree]), 1 << 20, 1);
        for (got, right) in one.iter().zip(right) {
            let gap = (got - right).abs();
            assert!(gap <= slack * right.abs(), "tree {tree}: {got}, not {right}");
        }
    }
    if source.flag() && trees.settings().normalize.is_none() {
        by_definition(&trees, &forest, &vectors);
    }
    fragment(&trees, &forest);
    if source.byte() >= 128 {
        wide(&mut source, trees.settings().clone());
    }
});

/// A node with up to thousands of children, whose fragments no float can count: vectors of
/// numbers all the same, of length 1 where they are divided by it, and the same bits
/// whatever the cache.
fn wide(source: &mut Source<'_>, mut settings: Settings) {
    let kinds = ["(A a)", "(A b)", "(B (A a) b)", "b", "(A (A (A a)))"];
    let n_kinds = 1 + source.below(4);
    let kinds: Vec<&str> = (0..n_kinds).map(|_| source.pick(&kinds)).collect();
    // Exact kernels of partial trees take time with the square of the children, times the
    // longest subsequence.
    let is_partial = settings.kernel.name() == "PartialTree";
    let n = 1usize << source.below(if is_partial { 10 } else { 13 });
    let children: Vec<&str> = kinds.iter().copied().cycle().take(n).collect();
    let text = format!("(A a) (A {}) (A b)", children.join(" "));
    let forest = Forest::from_brackets(&text).expect("three trees");
    settings.normalize = source.pick(&[Some(Norm::Own), Some(Norm::Exact), None]);
    settings.paths = None;
    let Ok(trees) = DistributedTrees::new(settings) else { return };
    let one = &jobs(1);
    let d = trees.settings().n_components;
    let options = EncodeOptions::default().with_zero_too_large(true);
    let mut rows = vec![0.0f32; 3 * d];
    let report = trees.encode_with(&forest, options, &mut rows, one);
    let report = report.expect("vectors of all trees");
    let is_raw = trees.settings().normalize.is_none();
    assert!(is_raw || report.too_large.is_empty(), "{report:?}");
    assert!(rows.iter().all(|x| x.is_finite()), "{rows:?}");
    let own = trees.settings().normalize == Some(Norm::Own);
    for (tree, row) in rows.chunks(d).enumerate() {
        let norm = row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
        let is_one = (norm - 1.0).abs() < 1e-4;
        assert!(!own || is_one || report.zero_rows.contains(&tree), "{tree}: {norm}");
    }
    let mut again = vec![0.0f32; 3 * d];
    let options = options.with_cache_bytes(0);
    trees.encode_with(&forest, options, &mut again, one).expect("the same");
    assert_eq!(again, rows);
}

fn encode(
    trees: &DistributedTrees,
    forest: &Forest,
    cache_bytes: usize,
    context: &Context,
) -> Vec<f64> {
    let options = EncodeOptions::default().with_cache_bytes(cache_bytes);
    let mut out = vec![0.0; forest.len() * trees.settings().n_components];
    trees.encode_with(forest, options, &mut out, context).expect("small vectors");
    out
}

/// Without a dictionary of paths, which the definition does not know.
fn by_definition(trees: &DistributedTrees, forest: &Forest, vectors: &[f64]) {
    let settings = trees.settings();
    let nodes = forest.nodes();
    if settings.paths.is_some() {
        return;
    }
    let own = gram::diagonal_with(
        &*settings.kernel,
        forest,
        gram::Options::default(),
        &jobs(1),
    );
    let own = own.expect("small values").0;
    let all = forest.roots().iter().zip(vectors.chunks(settings.n_components));
    for ((&root, got), own) in all.zip(own) {
        let is_narrow = |&n: &_| nodes.children(n).len() <= 4;
        if nodes.size(root) > 8 || !nodes.subtrees(root).iter().all(is_narrow) {
            continue;
        }
        let right = naive::tree(trees, nodes, root);
        let norm = |x: &[f64]| x.iter().map(|x| x * x).sum::<f64>().sqrt();
        let gap: Vec<f64> = got.iter().zip(&right).map(|(a, b)| a - b).collect();
        // Fourier transforms and shuffled products round more than they sum to.
        let slack = match settings.composition {
            Composition::Convolution | Composition::Gamma => 1e-7,
            _ => 1e-9,
        };
        let size = norm(&right).max(own.sqrt());
        assert!(norm(&gap) <= slack * size, "{:?}: {got:?}, not {right:?}", norm(&gap));
    }
}

/// Vectors of one fragment, of a label, of two composed.
fn fragment(trees: &DistributedTrees, forest: &Forest) {
    let d = trees.settings().n_components;
    let [mut a, mut b, mut ab] = [0; 3].map(|_| vec![0.0; d]);
    trees.label_vector("a", &mut a).expect("d numbers");
    trees.fragment(&forest.select([0]), &mut b).expect("a small fragment");
    trees.compose(&a, &b, &mut ab).expect("d numbers");
    let right = naive::compose(trees, &a, &b);
    for (got, right) in ab.iter().zip(&right) {
        let size = a.iter().chain(&b).fold(0.0f64, |most, x| most.max(x.abs()));
        assert!((got - right).abs() <= 1e-9 * size.max(1.0).powi(2), "{got}, {right}");
    }
}
