//! Kernel machines against coordinate descent on the whole matrix, and ties of perceptrons.

use std::sync::Arc;

use crate::registry::{asked, jobs};
use treekernel_rs::dag::solve::{Intercept, Limits, Loss, Problem, Solver};
use treekernel_rs::dag::{ModelOptions, Perceptron, Vote};
use treekernel_rs::kernel::{ElasticTree, Kernel, PartialTree, SubsetTree, Subtree};
use treekernel_rs::{Error, Forest, gram};

const N: usize = 90;

fn trees() -> Forest {
    // Some hundred trees of two levels, by the digits of a number.
    let tree = |n: usize| {
        let part =
            |n: usize| ["(A x)", "(A y)", "(B x)", "(C (A x) (B y))", "(C z)"][n % 5];
        format!("(S {} {} {})", part(n), part(n / 5), part(n / 7))
    };
    let text: Vec<String> = (0..N).map(|n| tree(n * n + n / 3)).collect();
    Forest::from_brackets(&text.join(" ")).unwrap()
}

fn kernels() -> Vec<Arc<dyn Kernel>> {
    vec![
        Arc::new(Subtree::new(0.5)),
        Arc::new(SubsetTree::new(0.4)),
        Arc::new(PartialTree::new(0.4, 0.4)),
        Arc::new(ElasticTree::new(0.3)),
    ]
}

fn problem(loss: Loss, intercept: Intercept, n_outputs: usize) -> Problem {
    let label = |at: usize| if (at * 7919) % 11 < 5 { 1.0 } else { -1.0 };
    Problem {
        loss,
        intercept,
        n_outputs,
        targets: (0..N * n_outputs).map(label).collect(),
        costs: (0..N * n_outputs).map(|at| 0.1 + (at % 4) as f64).collect(),
        preferences: None,
    }
}

fn limits(cache: usize) -> Limits {
    Limits { tol: 1e-6, max_iter: 10_000, cache }
}

/// β of a hinge by the definition of dual coordinate descent, on the matrix.
fn slow(matrix: &[f64], problem: &Problem) -> Vec<f64> {
    let mut betas = vec![0.0; N];
    for _ in 0..20_000 {
        for i in 0..N {
            let row = &matrix[i * N..][..N];
            let score: f64 = row.iter().zip(&betas).map(|(k, beta)| k * beta).sum();
            let y = problem.targets[i];
            let alpha = y * betas[i] - (y * score - 1.0) / row[i];
            betas[i] = y * alpha.clamp(0.0, problem.costs[i]);
        }
    }
    betas
}

#[test]
#[ignore = "slow: `make test-slow` runs it"]
fn machines_are_those_of_coordinate_descent_on_the_matrix() {
    let trees = trees();
    for kernel in kernels() {
        let problem = problem(Loss::Hinge, Intercept::Feature(1.0), 1);
        let options = gram::Options::default().with_normalize(true);
        let matrix = gram::gram(&*kernel, &trees, None, options).unwrap();
        let matrix: Vec<f64> = matrix.iter().map(|k| k + 1.0).collect();
        let scores = |betas: &[f64]| -> Vec<f64> {
            let score = |row: &[f64]| row.iter().zip(betas).map(|(k, b)| k * b).sum();
            matrix.chunks(N).map(score).collect()
        };
        let expected = scores(&slow(&matrix, &problem));
        // All trees at once, and 64 at a time.
        for cache in [1 << 20, 0] {
            let mut solver =
                Solver::new(&kernel, true, &trees, problem.clone(), 0).unwrap();
            assert!(solver.run_with(limits(cache), &jobs(2)).unwrap());
            let own = scores(&solver.dual_coef().unwrap());
            for (own, expected) in own.iter().zip(&expected) {
                assert!((own - expected).abs() < 1e-4, "{own} {expected}");
            }
            let state = solver.reached();
            assert!(state.gap[0] >= 0.0 && state.gap[0] <= 1e-4 * state.primal[0]);
        }
    }
}

#[test]
fn states_do_not_depend_on_threads_or_interruptions() {
    let trees = trees();
    let of_pairs = Problem {
        preferences: Some((1..N as u32).map(|b| [b - 1, b]).collect()),
        costs: vec![1.0; N - 1],
        ..problem(Loss::Hinge, Intercept::None, 1)
    };
    for problem in [
        problem(Loss::Hinge, Intercept::Free, 3),
        problem(Loss::Logistic, Intercept::Feature(2.0), 2),
        problem(Loss::SquaredEpsilon(0.1), Intercept::Free, 1),
        problem(Loss::OneClass(20.0), Intercept::Free, 1),
        of_pairs,
    ] {
        let kernel = SubsetTree::new(0.4);
        let new = || Solver::new(&kernel, true, &trees, problem.clone(), 1).unwrap();
        let mut whole = new();
        assert!(whole.run_with(limits(0), &jobs(1)).unwrap());
        let mut parts = new();
        let mut n_asked = 0;
        // Every second question is answered by a stop, wherever it comes.
        while parts.state().violation > 1e-6 {
            let before = parts.state().n_iter;
            let context = asked(|done, _| {
                n_asked += 1;
                let is_late = done as u64 > before + n_asked % 3;
                if is_late { Err(Error::Interrupted) } else { Ok(()) }
            });
            let done = parts.run_with(limits(0), &context.with_n_jobs(Some(3)));
            assert!(matches!(done, Ok(true) | Err(Error::Interrupted)));
            let mut next = new();
            next.set_state(parts.state().clone()).unwrap();
            parts = next;
        }
        assert_eq!(whole.state(), parts.state());
    }
}

#[test]
fn a_score_of_rounding_is_a_mistake() {
    let text = "(B (A A (B (B B)))) (A A) (B (B (A (A (A A)))))";
    let trees = Forest::from_brackets(text).unwrap();
    let learn = |n_outputs: usize, labels: &[f64], normalize: bool| {
        let options =
            ModelOptions::default().with_n_outputs(n_outputs).with_normalize(normalize);
        let kernel = SubsetTree::new(0.4);
        let mut own = Perceptron::new(&kernel, options, Vote::Last, None, 1.0).unwrap();
        own.learn(&trees, labels, None).unwrap()
    };
    // Normalised, the two kernels that cancel are different.
    for (normalize, expected) in [(false, 3), (true, 2)] {
        let one = learn(1, &[1.0, -1.0, -1.0], normalize);
        assert_eq!(one, expected);
        let two = learn(2, &[1.0, -1.0, -1.0, 1.0, -1.0, 1.0], normalize);
        assert_eq!(two, 2 * one);
    }
}

#[test]
fn a_score_of_rounding_is_a_mistake_where_trees_share_leaves_only() {
    // How often each tree has the leaves x and y, its label, and the mistakes that exact
    // numbers make: without a bound on rounding there are fewer. (No y in the first, so that
    // the two labels have numbers apart.)
    let streams = [
        ("10+ 10- 21+ 11- 11-", 5),
        ("10- 11+ 12- 10+ 22+ 12- 11-", 7),
        ("20- 02+ 01+ 12- 20+ 12+ 10-", 6),
    ];
    for (stream, expected) in streams {
        let (mut text, mut signs) = (String::new(), Vec::new());
        for (number, tree) in stream.split(' ').enumerate() {
            // No two trees have the same production.
            let leaves = tree.bytes().zip([" x", " y"]);
            let leaves = leaves.map(|(n, leaf)| leaf.repeat((n - b'0').into()));
            let leaves: String = leaves.collect();
            text = format!("{text} (P{number}{leaves})");
            signs.push(if tree.ends_with('+') { 1.0 } else { -1.0 });
        }
        let trees = Forest::from_brackets(&text).unwrap();
        for n_outputs in [1, 2] {
            let labels: Vec<_> = signs
                .iter()
                .flat_map(|&sign| [sign, -sign].into_iter().take(n_outputs))
                .collect();
            let options =
                ModelOptions::default().with_n_outputs(n_outputs).with_normalize(true);
            let kernel = SubsetTree::new(0.4).with_leaf_weight(1.0);
            let mut perceptron =
                Perceptron::new(&kernel, options, Vote::Last, None, 1.0).unwrap();
            let n_mistakes = perceptron.learn(&trees, &labels, None).unwrap();
            assert_eq!(n_mistakes, expected * n_outputs);
        }
    }
}

#[test]
fn every_machine_is_solved_within_a_few_passes_at_large_costs() {
    let trees = trees();
    let losses = [
        Loss::Hinge,
        Loss::SquaredHinge,
        Loss::Logistic,
        Loss::Epsilon(0.1),
        Loss::SquaredEpsilon(0.0),
    ];
    for (normalize, cost) in [(true, 10.0), (true, 1e3), (false, 10.0), (false, 1e3)] {
        for loss in losses {
            let of_values = problem(loss, Intercept::Feature(1.0), 3);
            let costs = of_values.costs.iter().map(|c| c * cost).collect();
            let problem = Problem { costs, ..of_values };
            let kernel = SubsetTree::new(0.4);
            let mut solver =
                Solver::new(&kernel, normalize, &trees, problem, 0).unwrap();
            let few = Limits { tol: 1e-3, max_iter: 8, ..limits(1 << 20) };
            let is_solved = solver.run_with(few, &jobs(1)).unwrap();
            let state = solver.reached();
            assert!(is_solved, "{loss:?}, {cost}: {}", state.violation);
        }
    }
}

#[test]
fn rankings_in_small_batches_are_solved_at_every_cost() {
    let trees = trees();
    let preferences: Vec<_> = (1..N as u32)
        .map(|b| if (b * 7919) % 11 < 5 { [b - 1, b] } else { [b, b - 1] })
        .collect();
    let passes = 100;
    for (normalize, cost) in [(true, 0.01), (true, 1e3), (false, 1.0), (false, 1e3)] {
        for loss in [Loss::Hinge, Loss::SquaredHinge, Loss::Logistic] {
            let problem = Problem {
                preferences: Some(preferences.clone()),
                costs: (0..N - 1).map(|at| cost * (0.1 + (at % 4) as f64)).collect(),
                ..problem(loss, Intercept::None, 1)
            };
            let new = || {
                let kernel = SubsetTree::new(0.4);
                Solver::new(&kernel, normalize, &trees, problem.clone(), 0).unwrap()
            };
            // One batch has the least objective.
            let mut whole = new();
            let tight = Limits { tol: 1e-9, max_iter: passes, cache: 1 << 20 };
            assert!(whole.run_with(tight, &jobs(1)).unwrap());
            let expected = whole.reached().primal[0];
            // Batches of 32: the dual grows with every pass.
            let mut solver = new();
            let (mut dual, mut is_solved) = (f64::NEG_INFINITY, false);
            for max_iter in 1..=passes {
                let limits = Limits { max_iter, cache: 0, ..tight };
                is_solved = solver.run_with(limits, &jobs(1)).unwrap();
                let state = solver.reached();
                let next = state.primal[0] - state.gap[0];
                assert!(next >= dual - 1e-10 * expected, "{loss:?}: {dual} to {next}");
                dual = next;
                if is_solved {
                    break;
                }
            }
            let state = solver.reached();
            assert!(is_solved, "{loss:?} {normalize} {cost}: {state:?}");
            assert!((state.primal[0] - expected).abs() < 1e-7 * expected);
            assert!((dual - expected).abs() < 1e-7 * expected);
        }
    }
}
