//! Every kernel of the registry, with parameters to test it at.

#![allow(dead_code)] // every test takes what it needs

use std::sync::Arc;

use treekernel_rs::dag::{Model, Options};
use treekernel_rs::kernel::{self, Kernel, Parameter, Range, Value};

/// Goes on.
#[allow(clippy::unnecessary_wraps)]
pub(crate) fn on(_done: usize, _total: usize) -> treekernel_rs::Result<()> {
    Ok(())
}

/// The values that a parameter is tested at.
fn values(parameter: &Parameter) -> [Value; 3] {
    match parameter.range {
        Range::Share => [0.4, 1.0, 0.05].map(Value::Number),
        Range::NotNegative => [0.0, 0.4, 5.0].map(Value::Number),
        Range::Limit => [None, Some(2), Some(1)].map(Value::Limit),
        other => panic!("{other:?}: which values?"),
    }
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
    for kernel in kernel::all() {
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
    kernel::all().iter().map(|kernel| with(kernel, value)).collect()
}

/// One of each kind, at the largest values.
pub(crate) fn largest() -> Vec<Arc<dyn Kernel>> {
    let value = |_: usize, parameter: &Parameter| match parameter.range {
        Range::Limit => Value::Limit(None),
        _ => Value::Number(1.0),
    };
    kernel::all().iter().map(|kernel| with(kernel, value)).collect()
}

/// Whether there are models of a kernel.
pub(crate) fn has_models(kernel: &Arc<dyn Kernel>) -> bool {
    Model::new(&**kernel, Options::default()).is_ok()
}

#[track_caller]
pub(crate) fn assert_close(got: f64, expected: f64, what: &dyn Fn() -> String) {
    let close = (got - expected).abs() <= 1e-10 * expected.abs().max(1e-300);
    assert!(close, "{}: {got} for {expected}", what());
}
