//! Arrays that nobody can trust: those of a forest, a model or a perceptron, tampered
//! with. What loads must be whole: it gives back the same arrays, and every call on it
//! ends in a result or an error.

#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use source::{LABELS, Source, jobs};
use treekernel_rs::dag::{
    Features, Model, ModelOptions, Perceptron, PolynomialKernel, Query, Vote,
};
use treekernel_rs::{Error, Forest, Kernel};

const FLOATS: &[f64] =
    &[0.0, -0.0, 1.0, -1.0, f64::NAN, f64::INFINITY, 1e308, -1e308, 5e-324, 0.5];
const I64S: &[i64] = &[-1, 0, 1, 2, 3, 7, -2, 1 << 32, i64::MAX, i64::MIN];
const U32S: &[u32] = &[0, 1, 2, 3, 5, 9, 1 << 31, u32::MAX];
const U64S: &[u64] = &[0, 1, 2, 3, 1 << 40, u64::MAX];

fuzz_target!(|bytes: &[u8]| {
    let mut source = Source::new(bytes);
    let kernel = &if source.flag() { source.kernel() } else { source.made_kernel() };
    let options = ModelOptions::default().with_normalize(source.flag());
    let options = options.with_n_outputs(1 + source.below(2));
    let forest = source.forest(LABELS, 4, 10);
    match source.below(3) {
        0 => tampered_forest(&mut source, &forest),
        1 => tampered_model(&mut source, kernel, options, &forest),
        _ => tampered_perceptron(&mut source, kernel, options, &forest),
    }
});

/// Changes one entry, or which entries there are.
fn tamper<T: Copy>(source: &mut Source<'_>, list: &mut Vec<T>, values: &[T]) {
    let (n, value) = (list.len(), source.pick(values));
    let at = source.below(n.clamp(1, 256));
    match source.below(6) {
        0 => list.insert(at, value),
        _ if n == 0 => {}
        1 => drop(list.remove(at)),
        2 => list.truncate(at),
        3 => list.swap(at, n - 1),
        _ => list[at] = value,
    }
}

fn tamper_names(source: &mut Source<'_>, names: &mut Vec<String>) {
    match source.below(4) {
        0 => names.push(String::new()),
        1 => drop(names.pop()),
        2 if !names.is_empty() => {
            let (from, to) = (source.below(names.len()), source.below(names.len()));
            names[to] = names[from].clone();
        }
        _ => names.push("\0".to_owned()),
    }
}

fn tampered_forest(source: &mut Source<'_>, forest: &Forest) {
    let mut arrays = forest.to_arrays();
    for _ in 0..=source.below(3) {
        match source.below(8) {
            0 => tamper_names(source, &mut arrays.names),
            1 | 2 => tamper(source, &mut arrays.labels, I64S),
            3 | 4 => tamper(source, &mut arrays.offsets, I64S),
            _ => tamper(source, &mut arrays.parents, I64S),
        }
    }
    let read = |names: &[String], labels: &[i64], parents: &[i64], offsets: &[i64]| {
        Forest::from_arrays(names, labels, parents, offsets)
    };
    let loaded = read(&arrays.names, &arrays.labels, &arrays.parents, &arrays.offsets);
    let forest = match loaded {
        Ok(forest) => forest,
        Err(error) => return named(&error),
    };
    let own = forest.to_arrays();
    assert_eq!((&own.parents, &own.offsets), (&arrays.parents, &arrays.offsets));
    let name = |names: &[String], label: &i64| names[*label as usize].clone();
    let names: Vec<String> = own.labels.iter().map(|l| name(&own.names, l)).collect();
    let right = arrays.labels.iter().map(|l| name(&arrays.names, l));
    assert!(right.eq(names), "labels");
    let again = read(&own.names, &own.labels, &own.parents, &own.offsets);
    assert!(again.expect("a forest's own arrays") == forest);
    assert_eq!(forest.n_nodes().iter().sum::<u64>(), arrays.labels.len() as u64);
}

fn tampered_model(
    source: &mut Source<'_>,
    kernel: &Arc<dyn Kernel>,
    options: ModelOptions,
    forest: &Forest,
) {
    let mut model = Model::new(kernel, options).expect("kernel in range");
    let alphas = vec![0.5; forest.len() * options.n_outputs];
    model.add(forest, &alphas).expect("small trees");
    let mut arrays = model.to_arrays();
    for _ in 0..=source.below(3) {
        match source.below(11) {
            0 => tamper_names(source, &mut arrays.names),
            8 => {
                let text = source.pick(&["(a b)", "(a b) (c d)"]);
                arrays.large_trees = Forest::from_brackets(text).expect("trees");
            }
            9 => tamper(source, &mut arrays.large_alphas, FLOATS),
            1 => tamper(source, &mut arrays.labels, U32S),
            2 => tamper(source, &mut arrays.ends, U32S),
            3 => tamper(source, &mut arrays.children, U32S),
            4 => tamper(source, &mut arrays.weights, FLOATS),
            5 => tamper(source, &mut arrays.sums, FLOATS),
            6 => tamper(source, &mut arrays.intercept, FLOATS),
            7 => arrays.n_trees = source.pick(U64S),
            _ => arrays.n_tree_nodes = source.pick(U64S),
        }
    }
    match Model::from_arrays(kernel, options, &arrays) {
        Ok(mut model) => {
            assert_eq!(model.to_arrays(), arrays, "what was loaded");
            use_model(source, kernel, &mut model, forest);
        }
        Err(error) => named(&error),
    }
}

/// Every call on a model; whatever it finds, it comes back.
fn use_model(
    source: &mut Source<'_>,
    kernel: &Arc<dyn Kernel>,
    model: &mut Model,
    forest: &Forest,
) {
    ended(model.score_with(forest, &jobs(1)));
    ended(model.contributions(&forest.select([0])));
    let mut query = Query::default();
    query.max_states = 100;
    ended(model.top_fragments(&query));
    for _ in 0..2 {
        let alpha = source.pick(&[-0.5, 1e308, -1e308, 0.0, 1.0]);
        let alphas = vec![alpha; forest.len() * model.options().n_outputs];
        ended(model.add(forest, &alphas));
        ended(model.score_with(forest, &jobs(1)));
    }
    // What it holds now can be stored, and read again.
    let arrays = model.to_arrays();
    let again = Model::from_arrays(kernel, model.options(), &arrays);
    assert!(again.is_ok(), "{:?}", again.err());
}

fn tampered_perceptron(
    source: &mut Source<'_>,
    kernel: &Arc<dyn Kernel>,
    options: ModelOptions,
    forest: &Forest,
) {
    let vote = source.pick(&[Vote::Average, Vote::Vote, Vote::Last]);
    let vectors = source.flag().then_some(PolynomialKernel::new(2, 1.0, 0.5));
    let mix = if vectors.is_some() { 0.5 } else { 1.0 };
    let n = forest.len();
    let rows: Vec<f64> = (0..2 * n).map(|_| source.pick(&[0.0, 1.0, -2.0])).collect();
    let features = Features::Dense { n_columns: 2, values: &rows };
    let features = vectors.is_some().then_some(features);
    let labels: Vec<f64> =
        (0..n * options.n_outputs).map(|_| source.pick(&[1.0, -1.0])).collect();
    let new = Perceptron::new(kernel, options, vote, vectors, mix);
    let mut perceptron = new.expect("parameters in range");
    perceptron.learn(forest, &labels, features).expect("small trees");

    let mut stored = perceptron.to_arrays();
    for _ in 0..=source.below(3) {
        match source.below(12) {
            0 | 1 => tamper(source, &mut stored.roots, I64S),
            2 => tamper(source, &mut stored.scales, FLOATS),
            3 => tamper(source, &mut stored.before, U64S),
            4 => tamper(source, &mut stored.alphas, FLOATS),
            5 => tamper(source, &mut stored.indptr, I64S),
            6 => tamper(source, &mut stored.indices, I64S),
            7 => tamper(source, &mut stored.data, FLOATS),
            8 => stored.n_features = source.pick(&[0, 1, 2, 3, 1 << 40, usize::MAX]),
            9 => stored.n_examples = source.pick(U64S),
            10 => tamper(source, &mut stored.model.labels, U32S),
            _ => tamper_names(source, &mut stored.model.names),
        }
    }
    let loaded = Perceptron::from_arrays(kernel, options, vote, vectors, mix, &stored);
    let mut perceptron = match loaded {
        Ok(perceptron) => perceptron,
        Err(error) => return named(&error),
    };
    let own = perceptron.to_arrays();
    assert_eq!((own.roots, own.scales), (stored.roots, stored.scales));
    assert_eq!((own.before, own.alphas), (stored.before, stored.alphas));
    assert_eq!(own.n_examples, stored.n_examples);
    ended(perceptron.score_with(forest, features, &jobs(1)));
    use_model(source, kernel, &mut perceptron.model(), forest);
    ended(perceptron.learn(forest, &labels, features));
    ended(perceptron.score_with(forest, features, &jobs(1)));
    let stored = perceptron.to_arrays();
    let again = Perceptron::from_arrays(kernel, options, vote, vectors, mix, &stored);
    assert!(again.is_ok(), "{:?}", again.err());
}

fn ended<T>(result: Result<T, Error>) {
    if let Err(error) = result {
        named(&error);
    }
}

/// An error says something.
fn named(error: &Error) {
    assert!(error.to_string().len() > 10, "{error:?}");
}
