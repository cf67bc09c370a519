//! Every kernel of the registry, with parameters to test it at.

#![allow(dead_code)] // every test takes what it needs

use std::sync::Arc;
use std::time::Duration;

use crate::own_kernel::LabelCount;
use treekernel_rs::dag::{Model, ModelOptions};
use treekernel_rs::kernel::{
    self, Composed, Counts, ElasticTree, Kernel, LabelPairs, Operation, Parameter,
    PartialTree, Range, SmoothedPartialTree, Subpath, SubsetTree, Subtree, Value,
    Weighted, Weights,
};
use treekernel_rs::{Context, Error, Result};

/// With so many threads.
pub(crate) fn jobs(n: usize) -> Context<'static> {
    Context::default().with_n_jobs(Some(n))
}

/// Ends each call with the first question.
pub(crate) fn stop() -> Context<'static> {
    asked(|_, _| Err(Error::Interrupted))
}

/// Asks as often as there are questions.
pub(crate) fn asked<'a>(
    watch: impl FnMut(usize, usize) -> Result<()> + 'a,
) -> Context<'a> {
    Context::watched(watch).with_interval(Duration::ZERO)
}

/// The values that a parameter is tested at.
fn values(parameter: &Parameter) -> [Value; 3] {
    match parameter.range {
        Range::Share => [0.4, 1.0, 0.05].map(Value::Number),
        Range::NotNegative => [0.0, 0.4, 5.0].map(Value::Number),
        Range::Limit => [None, Some(2), Some(1)].map(Value::Limit),
        Range::Positive => [1.0, 0.1, 5.0].map(Value::Number),
        Range::Degree => [1, 3, 2].map(|degree| Value::Limit(Some(degree))),
        other => panic!("{other:?}: which values?"),
    }
}

/// An operation on kernels.
pub(crate) fn of<const N: usize>(
    operation: Operation,
    parts: [Arc<dyn Kernel>; N],
) -> Arc<dyn Kernel> {
    Arc::new(Composed::new(operation, Vec::from(parts)).unwrap())
}

/// Every operation, nested ones too.
pub(crate) fn composed() -> Vec<Arc<dyn Kernel>> {
    let st: Arc<dyn Kernel> = Arc::new(Subtree::new(0.5));
    let sst: Arc<dyn Kernel> = Arc::new(SubsetTree::new(0.4).with_leaf_weight(0.3));
    let pt: Arc<dyn Kernel> = Arc::new(PartialTree::default());
    let et: Arc<dyn Kernel> = Arc::new(ElasticTree::new(0.3));
    let paths: Arc<dyn Kernel> = Arc::new(Subpath::new(0.4));
    let [a, b, c] = [&sst, &pt, &st].map(Arc::clone);
    let unit = |kernel| of(Operation::Normalized, [kernel]);
    let gaussian = of(Operation::Gaussian(0.5), [unit(Arc::clone(&a))]);
    let square = of(Operation::Product, [Arc::clone(&a), Arc::clone(&a)]);
    let half = of(Operation::Scaled(0.5), [of(Operation::Gaussian(0.1), [c])]);
    vec![
        of(Operation::Sum, [Arc::clone(&a), paths]),
        of(Operation::Product, [Arc::clone(&a), et]),
        of(Operation::Scaled(2.0), [Arc::clone(&b)]),
        of(Operation::Power(Some(3)), [Arc::clone(&a)]),
        unit(Arc::clone(&b)),
        of(Operation::Polynomial { degree: Some(2), coef0: 1.0 }, [a]),
        gaussian,
        of(Operation::Sum, [unit(square), half]),
        of(
            Operation::Product,
            [unit(Arc::clone(&b)), of(Operation::Gaussian(1.0), [b])],
        ),
    ]
}

/// All kernels, and some that are made of them.
fn with_composed() -> Vec<Arc<dyn Kernel>> {
    [kernel::builtin_kernels(), composed()].concat()
}

/// A kernel with all parameters replaced.
fn with(
    kernel: &Arc<dyn Kernel>,
    value: impl Fn(usize, &Parameter) -> Value,
) -> Arc<dyn Kernel> {
    let parameters = kernel.parameters();
    parameters.iter().enumerate().fold(Arc::clone(kernel), |kernel, (i, parameter)| {
        kernel.with(parameter.name, value(i, parameter)).expect(parameter.name)
    })
}

/// All kernels at so many settings that each two values of two parameters meet: an
/// orthogonal array of nine runs, three levels and up to four parameters.
pub(crate) fn settings() -> Vec<Arc<dyn Kernel>> {
    let mut all: Vec<Arc<dyn Kernel>> = Vec::new();
    for kernel in with_composed() {
        assert!(kernel.parameters().len() <= 4, "{kernel:?} needs a larger array");
        for run in 0..9 {
            let (a, b) = (run / 3, run % 3);
            let level = [a, b, (a + b) % 3, (a + 2 * b) % 3];
            let new = with(&kernel, |i, parameter| values(parameter)[level[i]]);
            if !all.contains(&new) {
                all.push(new);
            }
        }
    }
    all
}

/// One of each kind, whose amounts are not at 0.
pub(crate) fn one_of_each() -> Vec<Arc<dyn Kernel>> {
    let value = |_: usize, parameter: &Parameter| match parameter.range {
        Range::NotNegative => Value::Number(0.3),
        _ => parameter.value,
    };
    with_composed().iter().map(|kernel| with(kernel, value)).collect()
}

/// One of each kind, at the largest values.
pub(crate) fn largest() -> Vec<Arc<dyn Kernel>> {
    let value = |_: usize, parameter: &Parameter| match parameter.range {
        Range::Limit => Value::Limit(None),
        _ => Value::Number(1.0),
    };
    let mut all: Vec<_> =
        kernel::builtin_kernels().iter().map(|kernel| with(kernel, value)).collect();
    let [a, b] = [&all[1], &all[3]].map(Arc::clone);
    all.push(of(Operation::Sum, [Arc::clone(&a), Arc::clone(&b)]));
    all.push(of(Operation::Product, [Arc::clone(&a), b]));
    all.push(of(Operation::Normalized, [a]));
    all
}

/// Whether models of a kernel are graphs.
pub(crate) fn has_graphs(kernel: &Arc<dyn Kernel>) -> bool {
    Model::new(kernel, ModelOptions::default()).unwrap().is_graph()
}

/// Kernels whose models are not: one of each kind.
pub(crate) fn without_graphs() -> Vec<Arc<dyn Kernel>> {
    let weights = || {
        let mut weights = Weights::new().with_others(0.75).unwrap();
        weights.set_label("A", 0.5).unwrap();
        Arc::new(weights)
    };
    let weighted = |kernel: Arc<dyn Kernel>, counts| -> Arc<dyn Kernel> {
        Arc::new(Weighted::new(kernel, weights(), counts).unwrap())
    };
    let st = || Arc::new(Subtree::new(0.5).with_leaf_weight(0.25));
    let similar = LabelPairs::new([("a", "b", 0.5), ("A", "B", 0.25)]);
    let mut all = one_of_each();
    all.retain(|kernel| !has_graphs(kernel));
    all.extend([
        weighted(Arc::new(SubsetTree::new(0.5)), Counts::Linear),
        weighted(st(), Counts::Log),
        weighted(st(), Counts::Set),
        Arc::new(SmoothedPartialTree::new(PartialTree::default(), similar)),
        LabelCount::arc("a"),
    ]);
    all
}

#[track_caller]
pub(crate) fn assert_close(got: f64, expected: f64, what: &dyn Fn() -> String) {
    let close = (got - expected).abs() <= 1e-10 * expected.abs().max(1e-300);
    assert!(close, "{}: {got} for {expected}", what());
}
