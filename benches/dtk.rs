//! Distributed trees: the cost of a composition, trees per second, and both against the
//! paper's recursion written straightforwardly.
//!
//! `cargo bench --bench dtk` (all), or `cargo bench --bench dtk -- compositions` (or
//! `trees`, `labels`, `pairs`; with `--simd` convolutions by the processor's FFTs). A harness
//! of its own: best of several runs, as the machine is shared.

#[path = "corpus/mod.rs"]
mod corpus;

use std::hint::black_box;
use std::time::Instant;

use treekernel_rs::dtk::{
    Composition, DistributedTrees, EncodeOptions, Real, Settings, naive,
};
use treekernel_rs::{Context, Forest, gram, kernel::SubsetTree};

const COMPOSITIONS: [Composition; 5] = [
    Composition::Quaternion,
    Composition::Sign,
    Composition::Phasor,
    Composition::Convolution,
    Composition::Gamma,
];
const KERNEL: SubsetTree = SubsetTree::new(0.4);

/// With `--simd` convolutions by the processor's FFTs, whose last bits differ between machines.
fn one() -> Context<'static> {
    Context::default().with_n_jobs(Some(1))
}

fn encoder(composition: Composition, d: usize) -> DistributedTrees {
    let mut settings = Settings::new(&KERNEL, d);
    settings.composition = composition;
    settings.reproducible = !std::env::args().any(|argument| argument == "--simd");
    DistributedTrees::new(settings).expect("legal settings")
}

/// The least seconds of some runs.
fn best(runs: usize, mut work: impl FnMut()) -> f64 {
    let mut least = f64::MAX;
    for _ in 0..runs {
        let start = Instant::now();
        work();
        least = least.min(start.elapsed().as_secs_f64());
    }
    least
}

/// Time per composition where nothing can be shared: one deep tree, labels of two kinds,
/// so that it is compositions and sums and nothing else; and by itself through `compose`.
fn compositions<T: Real>(kind: &str) {
    for d in [1024, 2048, 4096, 8192, 16384] {
        for composition in COMPOSITIONS {
            let trees = encoder(composition, d);
            // Trees of 40 compositions, from two labels by the bits of a number, so that
            // little is shared: wide ones, whose folds are compositions in a row, and
            // chains, where each operand is a label plus what is below.
            let n_trees = (1 << 17) / d;
            let label = |tree: usize, place: usize| {
                if (tree + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> place & 1 == 1 {
                    "B"
                } else {
                    "C"
                }
            };
            let wide = |tree| {
                let leaves: Vec<&str> =
                    (0..40).map(|place| label(tree, place)).collect();
                format!("(A {})", leaves.join(" "))
            };
            let chain = |tree| {
                let nodes: Vec<&str> =
                    (0..40).map(|place| label(tree, place)).collect();
                format!("({} B{}", nodes.join(" ("), ")".repeat(40))
            };
            let mut out = vec![T::default(); d * n_trees];
            let mut measure = |text: &dyn Fn(usize) -> String| {
                let texts: Vec<String> = (0..n_trees).map(text).collect();
                let items = texts.iter().map(String::as_str);
                let forest = Forest::from_bracket_items(items).expect("trees");
                let options = EncodeOptions::default();
                let mut done = 0;
                let seconds = best(9, || {
                    let out = black_box(&mut out);
                    let report = trees.encode_with(&forest, options, out, &one());
                    done = report.expect("finite").n_compositions;
                });
                seconds * 1e6 / done as f64
            };
            let (fold, chain) = (measure(&wide), measure(&chain));
            let mut out = vec![T::default(); d];
            let [mut a, mut b] = [0, 1].map(|_| vec![T::default(); d]);
            trees.label_vector("a", &mut a).expect("d long");
            trees.label_vector("b", &mut b).expect("d long");
            let single = best(50, || {
                trees.compose(black_box(&a), &b, &mut out).expect("d long");
            });
            println!(
                "{kind} d={d} {composition:?}: {:.2} us in a fold, {:.2} us in a chain \
                 (with its sum), {:.2} us by itself",
                fold,
                chain,
                single * 1e6,
            );
        }
    }
}

fn labels() {
    for composition in COMPOSITIONS {
        let trees = encoder(composition, 8192);
        let mut out = vec![0.0f32; 8192];
        let seconds = best(100, || {
            trees.label_vector("NP", &mut out).expect("d long");
        });
        println!("label d=8192 {composition:?}: {:.1} us", seconds * 1e6);
    }
}

fn sets() -> Vec<(&'static str, Forest)> {
    let sets = [
        ("generated", Some(corpus::generated(4_000, 1))),
        ("qc", corpus::real("qc/const_train.tsv.gz", 3)),
        ("wsj", corpus::real("wsj/wsj.txt.gz", 2)),
    ];
    let forest = |trees: Vec<String>| {
        Forest::from_bracket_items(trees.iter().map(String::as_str)).expect("trees")
    };
    sets.into_iter().filter_map(|(name, trees)| Some((name, forest(trees?)))).collect()
}

/// Trees per second on one thread, and the straightforward recursion on some of them.
fn trees() {
    for (name, forest) in sets() {
        let forest = forest.select(0..forest.len().min(4_280));
        let n = forest.len();
        let nodes = forest.n_nodes().iter().sum::<u64>();
        println!("{name}: {n} trees, {:.1} nodes each", nodes as f64 / n as f64);
        for composition in COMPOSITIONS {
            let d = 8192;
            let trees = encoder(composition, d);
            let mut out = vec![0.0f32; n * d];
            let options = EncodeOptions::default();
            let mut n_compositions = 0;
            let runs = if composition == Composition::Convolution { 2 } else { 4 };
            let seconds = best(runs, || {
                let report = trees
                    .encode_with(&forest, options, &mut out, &one())
                    .expect("finite");
                n_compositions = report.n_compositions;
            });
            // Without what equal subtrees spare: trees one by one.
            let some: Vec<Forest> =
                (0..n).step_by(n / 40).map(|t| forest.select([t])).collect();
            let few = some.len() as f64;
            let alone = best(2, || {
                for tree in &some {
                    let row = &mut out[..d];
                    trees.encode_with(tree, options, row, &one()).expect("finite");
                }
            });
            let straight = best(2, || {
                for tree in &some {
                    let (nodes, root) = (tree.nodes(), tree.roots()[0]);
                    naive::straightforward(&trees, nodes, root, 0.4, &mut out[..d])
                        .expect("d long");
                }
            });
            println!(
                "{name} d={d} {composition:?}: {:.0} trees/s ({:.1} compositions each, \
                 {:.2} us), one by one {:.0}, straightforward {:.0}: {:.1} times as fast",
                n as f64 / seconds,
                n_compositions as f64 / n as f64,
                seconds * 1e6 / n_compositions as f64,
                few / alone,
                few / straight,
                n as f64 / seconds * straight / few,
            );
        }
    }
}

/// The paper's figure 5: a kernel value as trees grow, by dot product and exactly.
fn pairs() {
    let Some((name, forest)) = sets().pop() else { return };
    let d = 8192;
    let trees = encoder(Composition::Quaternion, d);
    let sizes = forest.n_nodes();
    for limit in [10, 20, 40, 80, 160, 320] {
        let near = |&t: &usize| sizes[t] > limit * 3 / 4 && sizes[t] <= limit * 5 / 4;
        let some: Vec<usize> = (0..forest.len()).filter(near).take(60).collect();
        if some.len() < 2 {
            continue;
        }
        let some = forest.select(some);
        let n = some.len();
        let mut out = vec![0.0f32; n * d];
        let options = EncodeOptions::default();
        trees.encode_with(&some, options, &mut out, &one()).expect("finite");
        let rows: Vec<&[f32]> = out.chunks(d).collect();
        let dots = best(3, || {
            for a in &rows {
                for b in &rows {
                    // Eight sums, as any BLAS would have.
                    let mut sums = [0.0f32; 8];
                    for (x, y) in a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0)
                    {
                        for ((s, x), y) in sums.iter_mut().zip(x).zip(y) {
                            *s += x * y;
                        }
                    }
                    black_box(sums);
                }
            }
        });
        let singles: Vec<Forest> = (0..n).map(|t| some.select([t])).collect();
        let exact = best(3, || {
            for (a, b) in singles.iter().zip(singles.iter().skip(1)) {
                black_box(gram::pair(&KERNEL, a, b, false).expect("finite"));
            }
        });
        let mut matrix = vec![0.0f64; n * n];
        let gram_options = gram::Options::default();
        let whole = best(3, || {
            gram::fill_with(&KERNEL, &some, None, gram_options, &mut matrix, &one())
                .map(drop)
                .expect("finite");
        });
        let pairs = (n * n) as f64;
        println!(
            "{name} trees of about {limit} nodes: dot product {:.2} us, exact pair {:.2} us, \
             exact within a matrix of {n} {:.3} us",
            dots * 1e6 / pairs,
            exact * 1e6 / (n - 1) as f64,
            whole * 1e6 / (pairs / 2.0),
        );
    }
}

fn main() {
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let wants = |part: &str| wanted.is_empty() || wanted.iter().any(|w| w == part);
    if wants("compositions") {
        compositions::<f32>("f32");
        compositions::<f64>("f64");
    }
    if wants("labels") {
        labels();
    }
    if wants("trees") {
        trees();
    }
    if wants("pairs") {
        pairs();
    }
}
