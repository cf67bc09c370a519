//! Kernel machines: solved within some passes at c up to 1,000; objectives by their formulas
//! over the matrix, gaps that are never negative, and the same bits whatever stopped them and
//! whatever threads they had; states that were changed are taken up whole, or refused.

#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use source::{LABELS, Source, close};
use treekernel_rs::dag::solve::{Intercept, Limits, Loss, Problem, Solver, State};
use treekernel_rs::{Context, Error, gram};

/// So many passes are enough for a few trees at any c, and for several batches of preferences.
const PASSES: u64 = 100;

fuzz_target!(|bytes: &[u8]| {
    let mut source = Source::new(bytes);
    let kernel = &source.exact_kernel();
    let (options, context) = source.options();
    let forest = source.forest(LABELS, 12, 6);
    let problem = problem(&mut source, forest.len());
    let seed = u64::from(source.byte());
    let new = || Solver::new(kernel, options.normalize, &forest, problem.clone(), seed);
    let mut solver = match new() {
        Ok(solver) => solver,
        Err(Error::Parameter { .. } | Error::Array { .. }) => return,
        Err(error) => panic!("{error}"),
    };
    let limits = Limits {
        tol: source.pick(&[1e-3, 1e-6, 0.1]),
        max_iter: source.pick(&[PASSES, 3, 0]),
        cache: source.pick(&[1 << 20, 0]),
    };
    let is_done = solver.run_with(limits, &context).expect("small scores");
    assert_eq!(is_done, solver.reached().violation <= limits.tol);
    let matrix = gram::gram_with(&**kernel, &forest, None, options, &context)
        .expect("small values");
    let mut rounding = 0.0f64;
    for output in 0..problem.n_outputs {
        let size =
            objectives(&problem, solver.reached(), output, &|i, j| matrix[[i, j]]);
        rounding = rounding.max(1e-13 * size);
    }
    // Scores are not more exact than that.
    let is_solvable = limits.tol > rounding;
    assert!(
        is_done || limits.max_iter < PASSES || !is_solvable,
        "{:?}",
        solver.state()
    );

    // Stopped anywhere, stored, and gone on with.
    let mut parts = new().expect("the same problem");
    let first = 1 + source.below(7);
    for round in 0..30 {
        // A pass that is stopped begins again: later ones are left more questions.
        let mut left = first << round;
        let stop = Context::watched(|_, _| {
            left = left.saturating_sub(1);
            if left == 0 { Err(Error::Interrupted) } else { Ok(()) }
        });
        let done = parts.run_with(limits, &stop.with_interval(Duration::ZERO));
        let state = parts.state().clone();
        match done {
            Ok(done) => {
                assert_eq!(done, is_done);
                assert_eq!(state, *solver.state(), "after interruptions");
                break;
            }
            Err(Error::Interrupted) => {}
            Err(error) => panic!("{error}"),
        }
        parts = new().expect("the same problem");
        parts.set_state(state).expect("its own state");
    }
    tampered(&mut source, solver, limits);
});

fn problem(source: &mut Source<'_>, n: usize) -> Problem {
    let loss = match source.below(6) {
        0 => Loss::Hinge,
        1 => Loss::SquaredHinge,
        2 => Loss::Logistic,
        3 => Loss::Epsilon(source.pick(&[0.1, 0.0, 1.0])),
        4 => Loss::SquaredEpsilon(source.pick(&[0.0, 0.1])),
        _ => Loss::OneClass(source.pick(&[1.0, 0.5, 3.0])),
    };
    let intercept = match loss {
        Loss::OneClass(_) => Intercept::Free,
        _ => source.pick(&[Intercept::Free, Intercept::Feature(1.0), Intercept::None]),
    };
    let is_of_preferences = !matches!(loss, Loss::OneClass(_)) && source.below(5) == 4;
    let preferences = is_of_preferences.then(|| {
        let pair = |source: &mut Source<'_>| [source.below(n), source.below(n)];
        // More than 32 are several batches.
        let n_pairs = source.pick(&[1, 8, 70]);
        let pairs = (0..n_pairs).map(|_| pair(source).map(|t| t as u32));
        pairs.collect::<Vec<_>>()
    });
    let n_outputs = 1 + source.below(2);
    let n_examples = preferences.as_ref().map_or(n, Vec::len);
    let is_of_values = matches!(loss, Loss::Epsilon(_) | Loss::SquaredEpsilon(_));
    let values: &[f64] =
        if is_of_values { &[1.0, -1.0, 0.0, 2.5, 7.0] } else { &[1.0, -1.0] };
    let targets = (0..n * n_outputs).map(|_| source.pick(values)).collect();
    let costs =
        (0..n_examples * n_outputs).map(|_| source.pick(&[1.0, 0.5, 10.0, 0.0, 1e3]));
    let costs = costs.collect();
    Problem { loss, intercept, n_outputs, targets, costs, preferences }
}

/// The objective of one machine as the module writes it down; returns the largest sum of
/// absolute values that a score is made of.
fn objectives(
    problem: &Problem,
    state: &State,
    output: usize,
    kernel: &dyn Fn(usize, usize) -> f64,
) -> f64 {
    let width = problem.n_outputs;
    let n = state.betas.len() / width;
    let beta = |e: usize| state.betas[e * width + output];
    // Examples as sums of trees.
    let trees = |e: usize| match &problem.preferences {
        None => vec![(e, 1.0)],
        Some(pairs) => vec![(pairs[e][0] as usize, 1.0), (pairs[e][1] as usize, -1.0)],
    };
    let feature = match (problem.intercept, &problem.preferences) {
        (Intercept::Feature(value), None) => value,
        _ => 0.0,
    };
    let product = |a: usize, b: usize| {
        let mut sum = feature * feature;
        for (i, x) in trees(a) {
            for (j, y) in trees(b) {
                sum += x * y * kernel(i, j);
            }
        }
        sum
    };
    let free = match problem.intercept {
        Intercept::Free => state.intercept[output],
        _ => 0.0,
    };
    let (mut norm, mut losses, mut size) = (0.0, 0.0, 1.0f64);
    let mut largest = 1.0f64;
    for e in 0..n {
        let score: f64 = (0..n).map(|o| beta(o) * product(e, o)).sum();
        let terms = (0..n).map(|o| (beta(o) * product(e, o)).abs());
        largest = largest.max(terms.sum());
        norm += beta(e) * score;
        size = size.max((beta(e) * score).abs());
        let at = e * width + output;
        let cost = problem.costs[at];
        let target = match problem.preferences {
            None => problem.targets[at],
            Some(_) => 1.0,
        };
        let score = score + free;
        losses += match problem.loss {
            Loss::Hinge => cost * (1.0 - target * score).max(0.0),
            Loss::SquaredHinge => cost * (1.0 - target * score).max(0.0).powi(2),
            // exp of a large number is infinite, and times a cost of 0 that is no number.
            Loss::Logistic => {
                let margin = target * score;
                cost * ((-margin).max(0.0) + (-margin.abs()).exp().ln_1p())
            }
            Loss::Epsilon(e) => cost * ((score - target).abs() - e).max(0.0),
            Loss::SquaredEpsilon(e) => {
                cost * ((score - target).abs() - e).max(0.0).powi(2)
            }
            Loss::OneClass(_) => cost * (-score).max(0.0) + free * beta(e),
        };
    }
    let (got, right) = (state.primal[output], 0.5 * norm + losses);
    if got.is_finite() {
        assert!(close(got, right, 1e3 * size.max(losses.abs())), "{got}, not {right}");
        let gap = state.gap[output];
        assert!(gap >= -1e-9 * size.max(losses.abs()), "a gap of {gap}");
    }
    largest
}

/// A state that was changed: taken up whole, or refused.
fn tampered(source: &mut Source<'_>, mut solver: Solver, limits: Limits) {
    let mut state = solver.state().clone();
    let number = source.pick(&[0.0, -1.0, 1e300, f64::NAN, f64::INFINITY, 0.5]);
    let at = source.below(256);
    match source.below(9) {
        0 if !state.betas.is_empty() => {
            let n = state.betas.len();
            state.betas[at % n] = number;
        }
        1 => state.intercept.push(number),
        2 => state.intercept[0] = number,
        3 => state.active.push(source.pick(&[0, 0, 1, u32::MAX])),
        4 => state.since = u64::MAX,
        5 => state.n_iter = source.pick(&[u64::MAX, u64::MAX - 1, 1 << 40]),
        6 => state.violation = number,
        7 => state.primal[0] = number,
        _ => state.is_settled = !state.is_settled,
    }
    if solver.set_state(state).is_ok() {
        let limits = Limits { max_iter: source.pick(&[u64::MAX, 40]), ..limits };
        let mut asked = 0;
        let stop = Context::watched(|_, _| {
            asked += 1;
            if asked > 5_000 { Err(Error::Interrupted) } else { Ok(()) }
        });
        let ended = solver.run_with(limits, &stop.with_interval(Duration::ZERO));
        let is_known = matches!(
            ended,
            Ok(_)
                | Err(Error::Interrupted
                    | Error::ScoreOverflow { .. }
                    | Error::Overflow { .. })
        );
        assert!(is_known, "{ended:?}");
    }
}
