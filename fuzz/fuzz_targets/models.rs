//! A model after any sequence of calls scores what the sum over its support trees is.

#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use source::{LABELS, Source, close};
use treekernel_rs::dag::{Model, ModelArrays, ModelOptions, Query, Rank};
use treekernel_rs::{Context, Error, Forest, Kernel, gram};

const WEIGHTS: &[f64] = &[1.0, -1.0, 0.5, 0.0, -0.25, 3.0, 1e-3, 100.0];

/// What a model is held to: all trees with all weights, never put together.
struct Sum {
    /// K of all trees of the pool, normalised if that is asked for.
    kernels: Vec<f64>,
    n: usize,
    width: usize,
    support: Vec<(usize, Vec<f64>)>,
    intercept: Vec<f64>,
}

impl Sum {
    /// The score of a tree, and how large the terms were that it is the sum of.
    fn score(&self, tree: usize, output: usize) -> (f64, f64) {
        let (mut sum, mut size) = (0.0, 0.0);
        for (support, weights) in &self.support {
            let term = weights[output] * self.kernels[support * self.n + tree];
            sum += term;
            size += term.abs();
        }
        (sum + self.intercept[output], size + self.intercept[output].abs())
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut source = Source::new(bytes);
    let kernel = &if source.flag() { source.kernel() } else { source.made_kernel() };
    let (run, context) = source.options();
    let width = 1 + source.below(3);
    let max_nodes = source.pick(&[8, 16, 40]);
    let pool = source.forest(LABELS, 6, max_nodes);
    let n = pool.len();
    let options =
        ModelOptions::default().with_normalize(run.normalize).with_n_outputs(width);
    let mut model = Model::new(kernel, options).expect("kernel in range");
    let mut sum = Sum {
        kernels: gram::gram(&**kernel, &pool, None, run)
            .expect("small values")
            .into_raw_vec_and_offset()
            .0,
        n,
        width,
        support: Vec::new(),
        intercept: vec![0.0; width],
    };
    for _ in 0..12 {
        if source.is_empty() {
            break;
        }
        match source.below(8) {
            0..=2 => add(&mut source, &mut model, &mut sum, &pool),
            3 => {
                sum.intercept.fill_with(|| source.pick(WEIGHTS));
                model.set_intercept(&sum.intercept).expect("finite");
            }
            4 => model = through_arrays(&model, kernel),
            5 => top_fragments(&mut source, &model, width),
            6 => {
                let tree = source.below(n);
                contributions(&model, &sum, &pool, tree);
            }
            _ => scores(&model, &sum, &pool, &context),
        }
    }
    scores(&model, &sum, &pool, &context);
});

/// Adds some trees of the pool, from its store or from one of their own.
fn add(source: &mut Source, model: &mut Model, sum: &mut Sum, pool: &Forest) {
    let trees: Vec<usize> =
        (0..=source.below(3)).map(|_| source.below(sum.n)).collect();
    let mut alphas = Vec::new();
    for &tree in &trees {
        let own: Vec<f64> = (0..sum.width).map(|_| source.pick(WEIGHTS)).collect();
        alphas.extend_from_slice(&own);
        sum.support.push((tree, own));
    }
    let mut forest = pool.select(trees);
    if source.flag() {
        let texts = forest.to_brackets();
        let texts = texts.iter().map(String::as_str);
        forest = Forest::from_bracket_items(texts).expect("printed trees");
    }
    model.add(&forest, &alphas).expect("small trees");
}

fn scores(model: &Model, sum: &Sum, pool: &Forest, context: &Context) {
    let got = model.score_with(pool, context).expect("small scores").0;
    for (at, &got) in got.iter().enumerate() {
        let (right, size) = sum.score(at / sum.width, at % sum.width);
        assert!(close(got, right, size), "score {at}: {got}, not {right}");
    }
}

fn contributions(model: &Model, sum: &Sum, pool: &Forest, tree: usize) {
    let shares = model.contributions(&pool.select([tree]));
    if !model.is_graph() {
        assert!(matches!(shares, Err(Error::Unsupported { .. })), "{shares:?}");
        return;
    }
    let shares = shares.expect("a small tree");
    assert_eq!(shares.len() as u64, sum.width as u64 * pool.n_nodes()[tree]);
    for output in 0..sum.width {
        let got: f64 = shares.iter().skip(output).step_by(sum.width).sum();
        let (right, size) = sum.score(tree, output);
        let right = right - sum.intercept[output];
        assert!(close(got, right, size), "contributions {got}, not {right}");
    }
}

/// A model that went through arrays is the same, bit for bit.
fn through_arrays(model: &Model, kernel: &Arc<dyn Kernel>) -> Model {
    let arrays: ModelArrays = model.to_arrays();
    let again = Model::from_arrays(kernel, model.options(), &arrays);
    let again = again.expect("a model's own arrays");
    assert_eq!(again.to_arrays(), arrays);
    again
}

fn top_fragments(source: &mut Source, model: &Model, width: usize) {
    let rank = source.pick(&[Rank::Largest, Rank::Smallest, Rank::Absolute]);
    let mut query = Query::default();
    query.k = source.below(8);
    query.rank = rank;
    query.output = source.below(width);
    query.min_size = source.below(3) as u64;
    query.max_size = source.pick(&[1, 2, 3, u64::MAX]);
    query.max_states = source.pick(&[10, 300]);
    let found = match model.top_fragments(&query) {
        Ok(found) => found,
        // Kernels without such fragments, and searches cut short.
        Err(Error::Unsupported { .. } | Error::Search { .. }) => return,
        Err(error) => panic!("{error}"),
    };
    assert_eq!(found.forest.len(), found.weights.len());
    let value = |weight: f64| match rank {
        Rank::Largest => weight,
        Rank::Smallest => -weight,
        Rank::Absolute => weight.abs(),
    };
    let falls = |pair: &[f64]| value(pair[0]) >= value(pair[1]) * (1.0 - 1e-9);
    assert!(found.weights.windows(2).all(falls), "{:?}", found.weights);
    assert!(found.weights.iter().all(|&weight| value(weight) > 0.0));
}
