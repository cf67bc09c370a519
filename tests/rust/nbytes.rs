//! What `nbytes` says is what was allocated: a program of its own, whose allocator counts.

#[path = "../../benches/corpus/mod.rs"]
mod corpus;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, Ordering::Relaxed};

use corpus::Random;
use treekernel_rs::dag::{
    Features, Model, ModelOptions, Perceptron, PolynomialKernel, Vote,
};
use treekernel_rs::features::{Kind, Vocabulary};
use treekernel_rs::kernel::{self, Counts, Weighted, Weights};
use treekernel_rs::{Context, Forest, Kernel, neighbours};

struct Counting;

static LIVE: AtomicIsize = AtomicIsize::new(0);

#[allow(unsafe_code)] // it hands on what it is asked for
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size() as isize, Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as isize, Relaxed);
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// What was found wrong.
type Wrong = Vec<String>;

/// Compares the bytes that something says it holds with those that making it took.
fn check<T>(
    what: &str,
    make: impl Fn() -> T,
    nbytes: impl Fn(&T) -> usize,
    wrong: &mut Wrong,
) {
    drop(make()); // tables that are made once and kept
    let before = LIVE.load(Relaxed);
    let made = make();
    let counted = (LIVE.load(Relaxed) - before) as f64;
    let ratio = nbytes(&made) as f64 / counted;
    if !(0.85..1.1).contains(&ratio) {
        wrong.push(format!("{what}: {ratio:.3} of {counted} bytes"));
    }
}

/// One test: what others allocate at the same time would be counted.
#[test]
fn nbytes_are_the_bytes_that_were_allocated() {
    let mut wrong = Wrong::new();
    forests(&mut wrong);
    models_and_score_tables(&mut wrong);
    perceptrons_with_vectors(&mut wrong);
    indexes(&mut wrong);
    vocabularies(&mut wrong);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn texts(n: usize) -> Vec<String> {
    corpus::trees(&mut Random(1), n, 60)
}

fn forest(n: usize) -> Forest {
    let texts = texts(n);
    Forest::from_bracket_items(texts.iter().map(String::as_str)).unwrap()
}

fn single() -> Context<'static> {
    Context::default().with_n_jobs(Some(1))
}

/// All, and those that can have weights with some, of labels and of productions.
fn kernels() -> Vec<Arc<dyn Kernel>> {
    let mut weights = Weights::new().with_others(0.75).unwrap();
    weights.set_label("a", 0.5).unwrap();
    weights.set_production("A", ["a"], 0.25).unwrap();
    let weights = Arc::new(weights);
    let mut kernels = kernel::builtin_kernels();
    let weighted = kernels.iter().filter_map(|kernel| {
        Weighted::new(Arc::clone(kernel), Arc::clone(&weights), Counts::Linear).ok()
    });
    let weighted: Vec<_> = weighted.map(|kernel| Arc::new(kernel) as _).collect();
    assert!(weighted.len() > 1);
    kernels.extend(weighted);
    kernels
}

fn forests(wrong: &mut Wrong) {
    let texts = texts(500);
    let make = || {
        let mut made = Forest::from_bracket_items(texts.iter().map(String::as_str));
        made.as_mut().unwrap().shrink_to_fit();
        made.unwrap()
    };
    check("forest", make, |forest| forest.nodes().nbytes() + forest.len() * 4, wrong);
}

fn models_and_score_tables(wrong: &mut Wrong) {
    let trees = forest(400);
    for kernel in kernels() {
        for is_scored in [false, true] {
            let make = || {
                let mut model = Model::new(&kernel, ModelOptions::default()).unwrap();
                model.add_with(&trees, &[0.5; 400], &single()).unwrap();
                if is_scored {
                    model.score_with(&trees, &single()).unwrap();
                }
                model
            };
            let what = format!("{} model, {is_scored}", kernel.name());
            check(&what, make, Model::nbytes, wrong);
        }
    }
}

fn perceptrons_with_vectors(wrong: &mut Wrong) {
    let trees = forest(300);
    let mut random = Random(2);
    let y: Vec<f64> = (0..300).map(|_| [-1.0, 1.0][random.below(2)]).collect();
    let dense: Vec<f64> = (0..300 * 400).map(|_| random.unit()).collect();
    let sparse: Vec<f64> =
        dense.iter().map(|&x| if x < 0.02 { x } else { 0.0 }).collect();
    for kernel in kernels() {
        for vote in [Vote::Last, Vote::Average, Vote::Vote] {
            for (n_columns, values) in
                [(0, &dense), (4, &dense), (400, &dense), (400, &sparse)]
            {
                let poly = (n_columns > 0).then(|| PolynomialKernel::new(1, 1.0, 1.0));
                let mix = if poly.is_some() { 0.5 } else { 1.0 };
                let make = || {
                    let mut made = Perceptron::new(
                        &kernel,
                        ModelOptions::default(),
                        vote,
                        poly,
                        mix,
                    )
                    .unwrap();
                    let values = &values[..300 * n_columns];
                    let features = poly.map(|_| Features::Dense { n_columns, values });
                    made.learn_with(&trees, &y, features, &single()).unwrap();
                    made
                };
                let what = format!("{} {vote:?}, {n_columns}", kernel.name());
                check(&what, make, Perceptron::nbytes, wrong);
            }
        }
    }
}

fn indexes(wrong: &mut Wrong) {
    let trees = forest(400);
    // What is made ready for single pairs is not counted: no index of these kernels is.
    let is_indexed = |kernel: &Arc<dyn Kernel>| {
        let is_weighted = kernel.name().starts_with("weighted");
        !is_weighted
            || kernel.name().ends_with("SubsetTree")
            || kernel.name().ends_with("Subtree")
    };
    for kernel in kernels().into_iter().filter(is_indexed) {
        let make = || {
            let texts = trees.to_brackets();
            let mut trees = Forest::from_bracket_items(texts.iter().map(|t| &**t));
            trees.as_mut().unwrap().shrink_to_fit();
            let index = neighbours::Index::new(kernel.clone(), trees.unwrap(), true);
            let index = index.unwrap();
            index.build_with(&single()).unwrap();
            index
        };
        check(
            &format!("{} index", kernel.name()),
            make,
            neighbours::Index::nbytes,
            wrong,
        );
    }
}

fn vocabularies(wrong: &mut Wrong) {
    let trees = forest(400);
    for kind in [Kind::PqGrams { p: 2, q: 2 }, Kind::PqGrams { p: 1, q: 1 }] {
        let make = || {
            let made =
                Vocabulary::fit_with(&kind, &trees, 1, Counts::Linear, &single());
            made.unwrap().0
        };
        check(&format!("{kind:?}"), make, Vocabulary::nbytes, wrong);
    }
}
