//! Tree edit distance.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyString;

use super::kernel::TreeIndex;
use super::measure::{Call, Found, KernelRows, Nearest, Values, Zeros};
use super::objects::{forest_of, tree_of};
use super::similarity::raise;
use super::text::Text;
use super::{forest, interruptible};
use crate::edit::{EditDistance, Mapping, NodeCosts, Normalization, RenameCosts};
use crate::error::quoted;

type Mapped = (Vec<(usize, usize)>, Vec<(usize, usize)>, Vec<usize>, Vec<usize>, f64);

/// Costs of labels, and of all others.
type Named = (Vec<(Text, f64)>, f64);

/// An edit distance with its costs, in range.
#[pyclass(frozen, module = "treekernel_rs._core", name = "EditCore")]
pub(super) struct EditCore(EditDistance);

#[pymethods]
impl EditCore {
    #[new]
    fn new(rename: &Bound<'_, PyAny>, insert: Named, delete: Named) -> PyResult<Self> {
        let rename = rename_costs(rename)?;
        let distance = EditDistance::new(rename, costs(&insert)?, costs(&delete)?);
        crate::gram::Measure::check(&distance)?;
        Ok(Self(distance))
    }

    /// See [`Call::gram`].
    #[pyo3(signature = (x, y, out, normalize, n_jobs, progress))]
    fn gram<'py>(
        &self,
        x: &Bound<'_, PyAny>,
        y: Option<&Bound<'_, PyAny>>,
        out: &Bound<'py, PyAny>,
        normalize: Option<Text>,
        n_jobs: Option<usize>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<(Bound<'py, PyAny>, Zeros)> {
        let measure = self.divided(normalize)?;
        let call = Call::new(&measure, false, n_jobs, progress);
        call.gram(&forest_of(x)?, y.map(forest_of).transpose()?.as_ref(), out)
    }

    /// See [`Call::condensed`].
    #[pyo3(signature = (x, normalize, n_jobs, progress))]
    fn condensed<'py>(
        &self,
        x: &Bound<'py, PyAny>,
        normalize: Option<Text>,
        n_jobs: Option<usize>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Values<'py>> {
        let measure = self.divided(normalize)?;
        let call = Call::new(&measure, false, n_jobs, progress);
        call.condensed(x.py(), &forest_of(x)?)
    }

    /// See [`Call::rows`].
    #[pyo3(signature = (x, normalize, n_jobs))]
    fn rows(
        &self,
        x: &Bound<'_, PyAny>,
        normalize: Option<Text>,
        n_jobs: Option<usize>,
    ) -> PyResult<(KernelRows, Vec<usize>)> {
        let measure = self.divided(normalize)?;
        Call::new(&measure, false, n_jobs, None).rows(x.py(), &forest_of(x)?)
    }

    /// See [`Call::pairs`].
    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (x, y, i, j, normalize, n_jobs, progress))]
    fn pairs<'py>(
        &self,
        x: &Bound<'py, PyAny>,
        y: Option<&Bound<'py, PyAny>>,
        i: &Bound<'py, PyAny>,
        j: &Bound<'py, PyAny>,
        normalize: Option<Text>,
        n_jobs: Option<usize>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Values<'py>, Zeros)> {
        let measure = self.divided(normalize)?;
        let call = Call::new(&measure, false, n_jobs, progress);
        call.pairs(&forest_of(x)?, y.map(forest_of).transpose()?.as_ref(), (i, j))
    }

    /// A cheapest mapping: pairs of nodes, those that are renamed, nodes deleted and
    /// inserted, and the cost.
    fn mapping(&self, a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>) -> PyResult<Mapped> {
        let trees = (tree_of(a)?, tree_of(b)?);
        let found = interruptible(a.py(), |context| {
            self.0.mapping_with(&trees.0, &trees.1, context)
        })?;
        let Mapping { pairs, renamed, deleted, inserted, cost, .. } = found;
        Ok((pairs, renamed, deleted, inserted, cost))
    }

    /// See [`Call::join`].
    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (x, y, max_distance, rows, normalize, n_jobs, progress, out))]
    fn join<'py>(
        &self,
        x: &Bound<'py, PyAny>,
        y: Option<&Bound<'py, PyAny>>,
        max_distance: f64,
        rows: Option<(usize, usize)>,
        normalize: Option<Text>,
        n_jobs: Option<usize>,
        progress: Option<&Bound<'py, PyAny>>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Found<'py>, Zeros)> {
        let measure = self.divided(normalize)?;
        let call = Call::new(&measure, false, n_jobs, progress);
        let y = y.map(forest_of).transpose()?;
        call.join(x.py(), &forest_of(x)?, y.as_ref(), (max_distance, rows), out)
    }

    /// See [`Call::top_k`] and [`Call::top_k_within`].
    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (x, y, k, max_distance, normalize, n_jobs, progress))]
    fn top_k<'py>(
        &self,
        x: &Bound<'py, PyAny>,
        y: Option<&Bound<'py, PyAny>>,
        k: usize,
        max_distance: Option<f64>,
        normalize: Option<Text>,
        n_jobs: Option<usize>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Nearest<'py>, Zeros)> {
        let measure = self.divided(normalize)?;
        let call = Call::new(&measure, false, n_jobs, progress);
        let py = x.py();
        let (x, y) = (forest_of(x)?, y.map(forest_of).transpose()?);
        match max_distance {
            None => call.top_k(py, &x, y.as_ref(), k),
            Some(most) => call.top_k_within(py, &x, y.as_ref(), k, most),
        }
    }

    /// An index of trees.
    fn index(
        &self,
        forest: Bound<'_, forest::Forest>,
        normalize: Option<Text>,
    ) -> PyResult<TreeIndex> {
        TreeIndex::of(Arc::new(self.divided(normalize)?), forest, false)
    }

    /// One distance; infinity where it is more than `max_distance`.
    #[pyo3(signature = (a, b, normalize, max_distance))]
    fn pair(
        &self,
        a: &Bound<'_, PyAny>,
        b: &Bound<'_, PyAny>,
        normalize: Option<Text>,
        max_distance: Option<f64>,
    ) -> PyResult<f64> {
        let (measure, trees) = (self.divided(normalize)?, (tree_of(a)?, tree_of(b)?));
        interruptible(a.py(), |context| match max_distance {
            None => measure.pair_with(&trees.0, &trees.1, context),
            Some(most) => {
                let found =
                    measure.pair_within_with(&trees.0, &trees.1, most, context)?;
                Ok(found.unwrap_or(f64::INFINITY))
            }
        })
    }
}

impl EditCore {
    fn divided(&self, normalize: Option<Text>) -> PyResult<EditDistance> {
        let normalization = match normalize.as_deref() {
            None => None,
            Some("max") => Some(Normalization::Max),
            Some("sum") => Some(Normalization::Sum),
            Some("metric") => Some(Normalization::Metric),
            Some(got) => {
                let (expected, got) = ("None, 'max', 'sum' or 'metric'", quoted(got));
                let message = format!("normalize must be {expected}, got {got}");
                return Err(PyValueError::new_err(message));
            }
        };
        Ok(self.0.clone().with_normalization(normalization))
    }
}

/// A callable, a name, or costs of some pairs of labels and of all others.
fn rename_costs(given: &Bound<'_, PyAny>) -> PyResult<RenameCosts> {
    if given.is_callable() {
        let function = given.clone().unbind();
        return Ok(RenameCosts::function(move |a, b| {
            let ask = |py: Python<'_>| function.bind(py).call1((a, b))?.extract();
            Python::attach(ask).map_err(raise)
        }));
    }
    if given.is_instance_of::<PyString>() {
        let name: Text = given.extract()?;
        if &*name == "levenshtein" {
            return Ok(RenameCosts::levenshtein());
        }
        if &*name == "cells" {
            return Ok(RenameCosts::cells());
        }
        let expected = "a number, a mapping, a callable, 'levenshtein' or 'cells'";
        let message = format!("rename must be {expected}, got {}", quoted(&name));
        return Err(PyValueError::new_err(message));
    }
    let (pairs, other): (Vec<(Text, Text, f64)>, f64) = given.extract()?;
    let named = pairs.iter().map(|(a, b, cost)| (a.to_string(), b.to_string(), *cost));
    Ok(RenameCosts::by_labels(named, other)?)
}

fn costs((named, other): &Named) -> crate::Result<NodeCosts> {
    let named = named.iter().map(|(label, cost)| (label.to_string(), *cost));
    NodeCosts::by_label(named, *other)
}
