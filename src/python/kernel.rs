//! Kernels and their matrices.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use numpy::PyArray2;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::forest;
use super::measure::{
    Call, Found, KernelRows, Nearest, Values, Zeros, joined, nearest, zero_trees,
};
use super::objects::{forest_of, integers, tree_of};
use super::shared::{self, Shared};
use super::similarity::PySimilarity;
use super::text::{Text, repr};
use super::{Matrix, Request, array_for, interruptible, written};
use crate::error::quoted;
use crate::gram::{self, Options};
use crate::kernel::{
    self, Counts, PartialTree, Range, SmoothedPartialTree, Value, Weighted, Weights,
};
use crate::neighbours::{self, Filter};
use crate::{Forest, memory};

/// A kernel with its parameters, in range.
#[pyclass(frozen, module = "treekernel_rs._core", name = "Kernel")]
pub(super) struct Kernel(Arc<dyn crate::Kernel>);

/// The function of counts of a name.
pub(super) fn counts_of(name: &str) -> PyResult<Counts> {
    Counts::by_name(name).ok_or_else(|| {
        let got = quoted(name);
        let message = format!("counts must be 'linear', 'log' or 'set', got {got}");
        PyValueError::new_err(message)
    })
}

#[pymethods]
impl Kernel {
    /// The kernel of a name, with some parameters in place of their defaults.
    #[new]
    #[pyo3(signature = (name, parameters, similarity=None))]
    fn new(
        name: Text,
        parameters: &Bound<'_, PyDict>,
        similarity: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let kernel = match similarity {
            None => kernel::by_name(&name)?,
            Some(similarity) => Arc::new(SmoothedPartialTree::new(
                PartialTree::default(),
                PySimilarity(similarity),
            )),
        };
        Self::with(kernel, parameters)
    }

    /// An operation on kernels, by its name.
    #[staticmethod]
    fn composed(
        name: Text,
        parts: Vec<PyRef<'_, Self>>,
        parameters: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let parts = parts.iter().map(|part| part.shared()).collect();
        Self::with(Arc::new(kernel::Composed::by_name(&name, parts)?), parameters)
    }

    /// The same kernel with weights, and a function of counts.
    fn weighted(
        &self,
        labels: Vec<(Text, f64)>,
        productions: Vec<(Text, Vec<Text>, f64)>,
        others: f64,
        counts: Text,
    ) -> PyResult<Self> {
        let mut weights = Weights::new().with_others(others)?;
        for (label, weight) in &labels {
            weights.set_label(label, *weight)?;
        }
        for (parent, children, weight) in &productions {
            let children = children.iter().map(|child| &**child);
            weights.set_production(parent, children, *weight)?;
        }
        let counts = counts_of(&counts)?;
        Ok(Self(Arc::new(Weighted::new(self.shared(), Arc::new(weights), counts)?)))
    }

    /// See [`Call::gram`].
    #[pyo3(signature = (x, y, out, normalize, n_jobs, progress))]
    fn gram<'py>(
        &self,
        x: &Bound<'_, PyAny>,
        y: Option<&Bound<'_, PyAny>>,
        out: &Bound<'py, PyAny>,
        normalize: bool,
        n_jobs: Option<usize>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<(Bound<'py, PyAny>, Zeros)> {
        let call = Call::new(&*self.0, normalize, n_jobs, progress);
        call.gram(&forest_of(x)?, y.map(forest_of).transpose()?.as_ref(), out)
    }

    /// The real parameters, by which there are derivatives.
    #[getter]
    fn parameter_names(&self) -> Vec<String> {
        gram::parameter_names(&*self.0)
    }

    /// Fills `out`, one matrix of derivatives below another, and returns the trees of X and of
    /// Y whose self-kernel is zero.
    #[pyo3(signature = (x, y, out, normalize, n_jobs, progress))]
    fn gradient(
        &self,
        x: &Bound<'_, PyAny>,
        y: Option<&Bound<'_, PyAny>>,
        out: &Bound<'_, PyArray2<f64>>,
        normalize: bool,
        n_jobs: Option<usize>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Zeros> {
        let (x, y) = (forest_of(x)?, y.map(forest_of).transpose()?);
        let (y, options) = (y.as_ref(), Options::default().with_normalize(normalize));
        let report = written(out, &Request::new(n_jobs, progress), |out, context| {
            gram::gradient_with(&*self.0, &x, y, options, out, context)
        })?;
        Ok(zero_trees(report))
    }

    /// See [`Call::diagonal`].
    fn diagonal<'py>(
        &self,
        x: &Bound<'py, PyAny>,
        normalize: bool,
        n_jobs: Option<usize>,
    ) -> PyResult<(Values<'py>, Vec<usize>)> {
        let call = Call::new(&*self.0, normalize, n_jobs, None);
        call.diagonal(x.py(), &forest_of(x)?)
    }

    /// See [`Call::condensed`].
    fn condensed<'py>(
        &self,
        x: &Bound<'py, PyAny>,
        normalize: bool,
        n_jobs: Option<usize>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Values<'py>> {
        let call = Call::new(&*self.0, normalize, n_jobs, progress);
        call.condensed(x.py(), &forest_of(x)?)
    }

    /// See [`Call::rows`].
    fn rows(
        &self,
        x: &Bound<'_, PyAny>,
        normalize: bool,
        n_jobs: Option<usize>,
    ) -> PyResult<(KernelRows, Vec<usize>)> {
        let call = Call::new(&*self.0, normalize, n_jobs, None);
        call.rows(x.py(), &forest_of(x)?)
    }

    /// See [`Call::join`].
    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (x, y, min_similarity, rows, normalize, n_jobs, progress, out))]
    fn join<'py>(
        &self,
        x: &Bound<'py, PyAny>,
        y: Option<&Bound<'py, PyAny>>,
        min_similarity: f64,
        rows: Option<(usize, usize)>,
        normalize: bool,
        n_jobs: Option<usize>,
        progress: Option<&Bound<'py, PyAny>>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Found<'py>, Zeros)> {
        let call = Call::new(&*self.0, normalize, n_jobs, progress);
        let y = y.map(forest_of).transpose()?;
        call.join(x.py(), &forest_of(x)?, y.as_ref(), (min_similarity, rows), out)
    }

    /// See [`Call::top_k`].
    fn top_k<'py>(
        &self,
        x: &Bound<'py, PyAny>,
        y: Option<&Bound<'py, PyAny>>,
        k: usize,
        normalize: bool,
        n_jobs: Option<usize>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Nearest<'py>, Zeros)> {
        let call = Call::new(&*self.0, normalize, n_jobs, progress);
        let y = y.map(forest_of).transpose()?;
        call.top_k(x.py(), &forest_of(x)?, y.as_ref(), k)
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
        normalize: bool,
        n_jobs: Option<usize>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Values<'py>, Zeros)> {
        let call = Call::new(&*self.0, normalize, n_jobs, progress);
        call.pairs(&forest_of(x)?, y.map(forest_of).transpose()?.as_ref(), (i, j))
    }

    /// One value.
    fn pair(
        &self,
        a: &Bound<'_, PyAny>,
        b: &Bound<'_, PyAny>,
        normalize: bool,
    ) -> PyResult<f64> {
        let py = a.py();
        let (a, b) = (tree_of(a)?, tree_of(b)?);
        interruptible(py, |context| {
            gram::pair_with(&*self.0, &a, &b, normalize, context)
        })
    }
}

/// What a kernel's `index` keeps; and its trees in one forest, which is made when it is asked
/// for.
#[pyclass(frozen, module = "treekernel_rs._core", name = "Index")]
pub(super) struct TreeIndex(Shared<neighbours::Index>, Mutex<Py<forest::Forest>>);

impl shared::Object for neighbours::Index {
    const COPIES_SHARE: bool = true;

    fn copy_nbytes(&self) -> usize {
        size_of::<Self>()
    }
}

#[pymethods]
impl TreeIndex {
    #[new]
    fn new(
        kernel: &Kernel,
        forest: Bound<'_, forest::Forest>,
        normalize: bool,
    ) -> PyResult<Self> {
        Self::of(kernel.shared(), forest, normalize)
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.0.held(py)?.len())
    }

    #[getter]
    fn forest(&self, py: Python<'_>) -> PyResult<Py<forest::Forest>> {
        let n = self.__len__(py)?;
        let trees = self.trees().clone_ref(py);
        // Trees are only ever added.
        if trees.get().0.len() >= n {
            return Ok(trees);
        }
        let trees =
            self.0.read(py, &Request::default(), neighbours::Index::items_with)?;
        let newer = Py::new(py, forest::Forest(trees))?;
        let mut trees = self.trees();
        // Of two calls the later one may get here first.
        if newer.get().0.len() > trees.get().0.len() {
            let older = std::mem::replace(&mut *trees, newer.clone_ref(py));
            drop((trees, older));
        }
        Ok(newer)
    }

    /// Adds trees.
    fn add(&self, forest: &Bound<'_, PyAny>) -> PyResult<()> {
        let (py, forest) = (forest.py(), forest_of(forest)?);
        self.0.change(py, &Request::default(), |index, context| {
            index.add_with(&forest, context)
        })
    }

    /// Makes one part of all trees.
    fn compact(&self, py: Python<'_>) -> PyResult<()> {
        let request = Request::default();
        self.0.change(py, &request, neighbours::Index::compact_with)
    }

    /// Builds what is not there yet.
    fn build(&self, py: Python<'_>, n_jobs: Option<usize>) -> PyResult<()> {
        let request = Request::new(n_jobs, None);
        self.0.read(py, &request, neighbours::Index::build_with)
    }

    fn nbytes(&self, py: Python<'_>) -> PyResult<usize> {
        self.0.read(py, &Request::default(), |index, _| Ok(index.nbytes()))
    }

    /// Fills `out`, or a new array of that type, and returns it, with the trees of X and of Y
    /// whose self-kernel is zero.
    #[pyo3(signature = (x, out, n_jobs, progress))]
    fn gram<'py>(
        &self,
        x: &Bound<'_, PyAny>,
        out: &Bound<'py, PyAny>,
        n_jobs: Option<usize>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<(Bound<'py, PyAny>, Zeros)> {
        let (py, x, request) = (x.py(), forest_of(x)?, Request::new(n_jobs, progress));
        // Trees may be added at any time: a new array has columns for those of this moment.
        let held = self.0.held(py)?;
        let index: &neighbours::Index = &held;
        let out = array_for(out, (x.len(), index.len()))?;
        let report = match Matrix::of(&out)? {
            Matrix::Single(out) => {
                written(out, &request, |out, context| index.fill_with(&x, out, context))
            }
            Matrix::Double(out) => {
                written(out, &request, |out, context| index.fill_with(&x, out, context))
            }
        }?;
        Ok((out, zero_trees(report)))
    }

    /// As the kernel's, of the trees that a filter lets through.
    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (x, k, at_least, among, exclude_equal, n_jobs, progress))]
    fn top_k<'py>(
        &self,
        py: Python<'py>,
        x: Option<&Bound<'py, PyAny>>,
        k: usize,
        at_least: Option<f64>,
        among: Option<&Bound<'py, PyAny>>,
        exclude_equal: bool,
        n_jobs: Option<usize>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Nearest<'py>, Zeros)> {
        let x = x.map(forest_of).transpose()?;
        let among = among.map(|among| integers("where", among)).transpose()?;
        let (n, found, report) =
            self.0.read(py, &Request::new(n_jobs, progress), |index, context| {
                let among = mask(among.as_deref(), index.len())?;
                let mut filter = Filter::default().with_exclude_equal(exclude_equal);
                (filter.at_least, filter.among) = (at_least, among.as_deref());
                let (x, filter) = (x.as_ref(), &filter);
                let (found, report) =
                    index.top_k_filtered_with(x, k, filter, context)?;
                Ok((x.map_or_else(|| index.len(), Forest::len), found, report))
            })?;
        Ok((nearest(py, n, found)?, zero_trees(report)))
    }

    /// As the kernel's, of the trees that a filter lets through.
    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (x, at_least, among, n_jobs, progress, out))]
    fn join<'py>(
        &self,
        py: Python<'py>,
        x: Option<&Bound<'py, PyAny>>,
        at_least: f64,
        among: Option<&Bound<'py, PyAny>>,
        n_jobs: Option<usize>,
        progress: Option<&Bound<'py, PyAny>>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Found<'py>, Zeros)> {
        let x = x.map(forest_of).transpose()?;
        let among = among.map(|among| integers("where", among)).transpose()?;
        joined(py, out, |sink| {
            self.0.read(py, &Request::new(n_jobs, progress), |index, context| {
                let among = mask(among.as_deref(), index.len())?;
                let mut filter = Filter::default().with_at_least(at_least);
                filter.among = among.as_deref();
                index.join_filtered_with(x.as_ref(), &filter, sink, context)
            })
        })
    }
}

/// By indexed tree whether it is among some.
fn mask(trees: Option<&[i64]>, n: usize) -> crate::Result<Option<Vec<bool>>> {
    let Some(trees) = trees else { return Ok(None) };
    let mut mask = memory::filled(false, n)?;
    for (index, &tree) in trees.iter().enumerate() {
        let place = usize::try_from(tree).ok().and_then(|tree| mask.get_mut(tree));
        let Some(place) = place else {
            let (array, expected) = ("where", format!("from 0 to below {n}"));
            let got = tree.to_string();
            return Err(crate::Error::Array { array, index, expected, got });
        };
        *place = true;
    }
    Ok(Some(mask))
}

impl TreeIndex {
    pub(super) fn of(
        measure: Arc<dyn crate::gram::Measure<Forest>>,
        forest: Bound<'_, forest::Forest>,
        normalize: bool,
    ) -> PyResult<Self> {
        let trees = forest.get().0.clone();
        let index = neighbours::Index::new(measure, trees, normalize)?;
        Ok(Self(Shared::new(index), Mutex::new(forest.unbind())))
    }

    /// Held as the state of a [`Shared`] is. What is let go is let go after it.
    fn trees(&self) -> MutexGuard<'_, Py<forest::Forest>> {
        self.1.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kernel {
    /// A kernel with some parameters in place of its own.
    fn with(
        mut kernel: Arc<dyn crate::Kernel>,
        parameters: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        for (name, given) in parameters {
            let name: Text = name.extract()?;
            // What the parameter is decides how the value is read.
            let found = kernel.parameters().into_iter().find(|p| *p.name == *name);
            let (value, expected) = match found.map(|found| found.value) {
                Some(Value::Number(_)) => {
                    (given.extract().ok().map(Value::Number), "a number")
                }
                Some(Value::Limit(_)) => (limit(&name, &given)?, "an int or None"),
                _ => (None, "left out, as the kernel has no such parameter"),
            };
            let changed = value.and_then(|value| kernel.with(&name, value));
            kernel = changed.ok_or_else(|| {
                let (name, got) = (&*name, repr(&given));
                PyTypeError::new_err(format!("{name} must be {expected}, got {got}"))
            })?;
        }
        kernel.check()?;
        Ok(Self(kernel))
    }

    pub(super) fn core(&self) -> &dyn crate::Kernel {
        &*self.0
    }

    pub(super) fn shared(&self) -> Arc<dyn crate::Kernel> {
        Arc::clone(&self.0)
    }
}

/// An int or Python's None as a limit.
fn limit(name: &str, given: &Bound<'_, PyAny>) -> PyResult<Option<Value>> {
    if given.is_none() {
        return Ok(Some(Value::Limit(None)));
    }
    let Ok(limit) = given.extract::<i128>() else { return Ok(None) };
    if limit < 0 {
        let expected = Range::Limit.words();
        let message = format!("{name} must be {expected}, got {limit}");
        return Err(PyValueError::new_err(message));
    }
    // What is too large for a size is no limit at all, and nothing to refuse.
    Ok(Some(Value::Limit(Some(usize::try_from(limit).unwrap_or(usize::MAX)))))
}

/// How many trees `k(x)` would have rows for; what reads them is shared with `gram`.
#[pyfunction]
pub(super) fn as_forest(trees: &Bound<'_, PyAny>) -> PyResult<super::forest::Forest> {
    forest_of(trees).map(super::forest::Forest)
}

/// What is taken for one tree wherever one is expected, as a `Tree`.
#[pyfunction]
pub(super) fn as_tree<'py>(tree: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if tree.is_instance_of::<super::tree::Tree>() {
        return Ok(tree.clone());
    }
    let forest = super::forest::Forest(tree_of(tree)?);
    Bound::new(tree.py(), forest)?.get_item(0)
}
