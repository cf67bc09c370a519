//! DAG models and perceptrons.

// Arrays that are borrowed from numpy come by value.
#![allow(clippy::needless_pass_by_value)]

use std::sync::RwLock;

use numpy::{IntoPyArray, PyArray1, PyArrayMethods, PyReadonlyArray1};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::forest::Forest;
use super::kernel::Kernel;
use super::objects::{forest_of, integers, split_names, tree_of};
use super::{Progress, interruptible};
use crate::dag::{
    Arrays, Features, Model, Options, Perceptron, PolynomialKernel, Query, Rank,
    Stored, Vote,
};

/// A model behind a lock: scoring may go on in several threads at once, and what changes
/// it wants it alone. Nobody waits, as a progress callback would wait for itself.
#[pyclass(frozen, module = "treekernel_rs._core", name = "Dag")]
pub(super) struct Dag(RwLock<Model>);

/// A perceptron, likewise.
#[pyclass(frozen, module = "treekernel_rs._core", name = "Learner")]
pub(super) struct Learner(RwLock<Perceptron>);

fn busy() -> PyErr {
    PyRuntimeError::new_err("the model is in use by another call that changes it")
}

/// Runs what changes a model.
fn change<T: Send, M: Send + Sync>(
    py: Python<'_>,
    lock: &RwLock<M>,
    progress: &Progress,
    work: impl Send
    + FnOnce(
        &mut M,
        &mut dyn FnMut(usize, usize) -> crate::Result<()>,
    ) -> crate::Result<T>,
) -> PyResult<T> {
    let done = interruptible(py, progress, |watch| match lock.try_write() {
        Ok(mut model) => work(&mut model, watch).map(Some),
        Err(_) => Ok(None),
    })?;
    done.ok_or_else(busy)
}

/// Runs what only reads it.
fn read<T: Send, M: Send + Sync>(
    py: Python<'_>,
    lock: &RwLock<M>,
    progress: &Progress,
    work: impl Send
    + FnOnce(
        &M,
        &mut dyn FnMut(usize, usize) -> crate::Result<()>,
    ) -> crate::Result<T>,
) -> PyResult<T> {
    let done = interruptible(py, progress, |watch| match lock.try_read() {
        Ok(model) => work(&model, watch).map(Some),
        Err(_) => Ok(None),
    })?;
    done.ok_or_else(busy)
}

type Floats<'py> = PyReadonlyArray1<'py, f64>;
type Scores<'py> = (Bound<'py, PyArray1<f64>>, Vec<usize>);

#[pymethods]
impl Dag {
    #[new]
    fn new(kernel: &Kernel, normalize: bool, n_outputs: i128) -> PyResult<Self> {
        let options = options(normalize, n_outputs)?;
        Ok(Self(RwLock::new(Model::new(kernel.core(), options)?)))
    }

    /// Adds trees; returns those whose self-kernel is zero.
    #[pyo3(signature = (x, alphas, progress))]
    fn add(
        &self,
        x: &Bound<'_, PyAny>,
        alphas: Floats<'_>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<usize>> {
        let (py, x, alphas) = (x.py(), forest_of(x)?, alphas.as_slice()?);
        change(py, &self.0, &Progress::new(progress), |model, watch| {
            model.add(&x, alphas, watch)
        })
    }

    /// Scores, tree after tree, and the trees whose self-kernel is zero.
    #[pyo3(signature = (x, n_jobs, progress))]
    fn score<'py>(
        &self,
        x: &Bound<'py, PyAny>,
        n_jobs: Option<usize>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Scores<'py>> {
        let (py, x) = (x.py(), forest_of(x)?);
        let (scores, zeros) =
            read(py, &self.0, &Progress::new(progress), |model, watch| {
                model.score(&x, n_jobs, watch)
            })?;
        Ok((scores.into_pyarray(py), zeros))
    }

    /// What each node of a tree adds.
    fn contributions<'py>(
        &self,
        tree: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let (py, tree) = (tree.py(), tree_of(tree)?);
        let shares = read(py, &self.0, &Progress::none(), |model, _| {
            model.contributions(&tree)
        })?;
        Ok(shares.into_pyarray(py))
    }

    /// The fragments that count most: as trees, with weights and sizes.
    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (k, by, output, min_size, max_size, max_states))]
    fn top_fragments<'py>(
        &self,
        py: Python<'py>,
        k: usize,
        by: &str,
        output: usize,
        min_size: u64,
        max_size: Option<u64>,
        max_states: usize,
    ) -> PyResult<(Forest, Bound<'py, PyArray1<f64>>, Vec<u64>)> {
        let (rank, max_size) = (rank_of(by)?, max_size.unwrap_or(u64::MAX));
        let query = Query { k, rank, output, min_size, max_size, max_states };
        let found = read(py, &self.0, &Progress::none(), |model, watch| {
            model.top_fragments(&query, watch)
        })?;
        Ok((Forest(found.forest), found.weights.into_pyarray(py), found.sizes))
    }

    #[getter]
    fn intercept<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let of = |model: &Model| model.intercept().to_vec();
        Ok(read(py, &self.0, &Progress::none(), |m, _| Ok(of(m)))?.into_pyarray(py))
    }

    fn set_intercept(&self, py: Python<'_>, intercept: Floats<'_>) -> PyResult<()> {
        let intercept = intercept.as_slice()?;
        let set = |model: &mut Model| model.set_intercept(intercept);
        change(py, &self.0, &Progress::none(), |model, _| set(model))
    }

    /// Trees, distinct subtrees, nodes of the trees, bytes.
    fn figures(&self, py: Python<'_>) -> PyResult<(u64, usize, u64, usize)> {
        read(py, &self.0, &Progress::none(), |m, _| {
            Ok((m.n_trees(), m.n_nodes(), m.n_tree_nodes(), m.nbytes()))
        })
    }

    fn to_arrays<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let arrays = read(py, &self.0, &Progress::none(), |m, _| Ok(m.to_arrays()))?;
        let dict = PyDict::new(py);
        put_model(&dict, arrays)?;
        Ok(dict)
    }

    #[staticmethod]
    fn from_arrays(
        kernel: &Kernel,
        normalize: bool,
        n_outputs: i128,
        arrays: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let (py, kernel) = (arrays.py(), kernel.core());
        let (options, arrays) = (options(normalize, n_outputs)?, model_arrays(arrays)?);
        let model = py.detach(|| Model::from_arrays(kernel, options, &arrays))?;
        Ok(Self(RwLock::new(model)))
    }
}

/// `(degree, coef0, gamma)` of a polynomial kernel.
type Poly = (u32, f64, f64);

#[pymethods]
impl Learner {
    #[new]
    #[pyo3(signature = (kernel, normalize, n_outputs, vote, vectors, mix))]
    fn new(
        kernel: &Kernel,
        normalize: bool,
        n_outputs: i128,
        vote: &str,
        vectors: Option<Poly>,
        mix: f64,
    ) -> PyResult<Self> {
        let options = options(normalize, n_outputs)?;
        let vectors = vectors.map(polynomial);
        let learner =
            Perceptron::new(kernel.core(), options, vote_of(vote)?, vectors, mix)?;
        Ok(Self(RwLock::new(learner)))
    }

    /// Goes through trees once; returns the number of mistakes.
    #[pyo3(signature = (x, y, features, progress))]
    fn learn(
        &self,
        x: &Bound<'_, PyAny>,
        y: Floats<'_>,
        features: Option<Given<'_>>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<usize> {
        let (py, x, y) = (x.py(), forest_of(x)?, y.as_slice()?);
        let features = features.as_ref().map(Given::features).transpose()?;
        change(py, &self.0, &Progress::new(progress), |learner, watch| {
            learner.learn(&x, y, features, watch)
        })
    }

    /// Scores, tree after tree, and the trees whose self-kernel is zero.
    #[pyo3(signature = (x, features, n_jobs, progress))]
    fn score<'py>(
        &self,
        x: &Bound<'py, PyAny>,
        features: Option<Given<'py>>,
        n_jobs: Option<usize>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Scores<'py>> {
        let (py, x) = (x.py(), forest_of(x)?);
        let features = features.as_ref().map(Given::features).transpose()?;
        let (scores, zeros) =
            read(py, &self.0, &Progress::new(progress), |learner, watch| {
                learner.score(&x, features, n_jobs, watch)
            })?;
        Ok((scores.into_pyarray(py), zeros))
    }

    /// Examples seen, mistakes, bytes.
    fn figures(&self, py: Python<'_>) -> PyResult<(u64, u64, usize)> {
        read(py, &self.0, &Progress::none(), |p, _| {
            Ok((p.n_examples(), p.n_mistakes(), p.nbytes()))
        })
    }

    /// The model that scores like it.
    fn model(&self, py: Python<'_>) -> PyResult<Dag> {
        let model = read(py, &self.0, &Progress::none(), |p, _| Ok(p.model()))?;
        Ok(Dag(RwLock::new(model)))
    }

    fn to_arrays<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stored = read(py, &self.0, &Progress::none(), |p, _| Ok(p.to_arrays()))?;
        let dict = PyDict::new(py);
        put_model(&dict, stored.model)?;
        dict.set_item("roots", stored.roots.into_pyarray(py))?;
        dict.set_item("scales", stored.scales.into_pyarray(py))?;
        dict.set_item("before", signed(&stored.before).into_pyarray(py))?;
        dict.set_item("alphas", stored.alphas.into_pyarray(py))?;
        dict.set_item("indptr", stored.indptr.into_pyarray(py))?;
        dict.set_item("indices", stored.indices.into_pyarray(py))?;
        dict.set_item("data", stored.data.into_pyarray(py))?;
        let seen = [stored.n_features as u64, stored.n_examples, stored.n_mistakes];
        dict.set_item("seen", signed(&seen).into_pyarray(py))?;
        Ok(dict)
    }

    #[staticmethod]
    #[pyo3(signature = (kernel, normalize, n_outputs, vote, vectors, mix, arrays))]
    fn from_arrays(
        kernel: &Kernel,
        normalize: bool,
        n_outputs: i128,
        vote: &str,
        vectors: Option<Poly>,
        mix: f64,
        arrays: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let (py, kernel, vote) = (arrays.py(), kernel.core(), vote_of(vote)?);
        let options = options(normalize, n_outputs)?;
        let seen = numbers::<u64, 3>(arrays, "seen")?;
        let stored = Stored {
            model: model_arrays(arrays)?,
            roots: integers("roots", &item(arrays, "roots")?)?,
            scales: floats(arrays, "scales")?,
            before: unsigned(arrays, "before")?,
            alphas: floats(arrays, "alphas")?,
            indptr: integers("indptr", &item(arrays, "indptr")?)?,
            indices: integers("indices", &item(arrays, "indices")?)?,
            data: floats(arrays, "data")?,
            n_features: seen[0] as usize,
            n_examples: seen[1],
            n_mistakes: seen[2],
        };
        let vectors = vectors.map(polynomial);
        let learner = py.detach(|| {
            Perceptron::from_arrays(kernel, options, vote, vectors, mix, &stored)
        })?;
        Ok(Self(RwLock::new(learner)))
    }
}

/// Feature vectors as the package hands them over: the number of features, then all
/// values, or the three arrays of compressed sparse rows.
#[derive(FromPyObject)]
enum Given<'py> {
    Dense((usize, Floats<'py>)),
    #[allow(clippy::type_complexity)]
    Sparse(
        (usize, PyReadonlyArray1<'py, i64>, PyReadonlyArray1<'py, i64>, Floats<'py>),
    ),
}

impl Given<'_> {
    fn features(&self) -> PyResult<Features<'_>> {
        Ok(match self {
            Self::Dense((n_columns, values)) => {
                Features::Dense { n_columns: *n_columns, values: values.as_slice()? }
            }
            Self::Sparse((n_columns, indptr, indices, data)) => Features::Sparse {
                n_columns: *n_columns,
                indptr: indptr.as_slice()?,
                indices: indices.as_slice()?,
                data: data.as_slice()?,
            },
        })
    }
}

fn options(normalize: bool, n_outputs: i128) -> PyResult<Options> {
    match usize::try_from(n_outputs) {
        Ok(n_outputs) if n_outputs >= 1 => Ok(Options { normalize, n_outputs }),
        _ => Err(PyValueError::new_err(format!(
            "n_outputs must be at least 1, got {n_outputs}"
        ))),
    }
}

fn vote_of(vote: &str) -> PyResult<Vote> {
    match vote {
        "last" => Ok(Vote::Last),
        "average" => Ok(Vote::Average),
        "vote" => Ok(Vote::Vote),
        got => Err(PyValueError::new_err(format!(
            "vote must be 'last', 'average' or 'vote', got {got:?}"
        ))),
    }
}

fn rank_of(by: &str) -> PyResult<Rank> {
    match by {
        "largest" => Ok(Rank::Largest),
        "smallest" => Ok(Rank::Smallest),
        "absolute" => Ok(Rank::Absolute),
        got => Err(PyValueError::new_err(format!(
            "by must be 'largest', 'smallest' or 'absolute', got {got:?}"
        ))),
    }
}

fn polynomial((degree, coef0, gamma): Poly) -> PolynomialKernel {
    PolynomialKernel { degree, coef0, gamma }
}

// --- arrays ---------------------------------------------------------------------------

fn signed(values: &[u64]) -> Vec<i64> {
    values.iter().map(|&value| i64::try_from(value).unwrap_or(i64::MAX)).collect()
}

fn put_model(dict: &Bound<'_, PyDict>, arrays: Arrays) -> PyResult<()> {
    let py = dict.py();
    let mut ends = vec![0i64];
    ends.extend(arrays.names.iter().scan(0, |end, name| {
        *end += name.len() as i64;
        Some(*end)
    }));
    let wide =
        |values: Vec<u32>| -> Vec<i64> { values.into_iter().map(i64::from).collect() };
    dict.set_item("names", arrays.names.concat().into_bytes().into_pyarray(py))?;
    dict.set_item("name_offsets", ends.into_pyarray(py))?;
    dict.set_item("labels", wide(arrays.labels).into_pyarray(py))?;
    dict.set_item("ends", wide(arrays.ends).into_pyarray(py))?;
    dict.set_item("children", wide(arrays.children).into_pyarray(py))?;
    dict.set_item("weights", arrays.weights.into_pyarray(py))?;
    dict.set_item("sums", arrays.sums.into_pyarray(py))?;
    dict.set_item("intercept", arrays.intercept.into_pyarray(py))?;
    let counts = signed(&[arrays.n_trees, arrays.n_tree_nodes]);
    dict.set_item("counts", counts.into_pyarray(py))
}

fn model_arrays(arrays: &Bound<'_, PyDict>) -> PyResult<Arrays> {
    let ends = integers("name_offsets", &item(arrays, "name_offsets")?)?;
    let counts = numbers::<u64, 2>(arrays, "counts")?;
    Ok(Arrays {
        names: split_names(&item(arrays, "names")?, &ends)?,
        labels: unsigned(arrays, "labels")?,
        ends: unsigned(arrays, "ends")?,
        children: unsigned(arrays, "children")?,
        weights: floats(arrays, "weights")?,
        sums: floats(arrays, "sums")?,
        intercept: floats(arrays, "intercept")?,
        n_trees: counts[0],
        n_tree_nodes: counts[1],
    })
}

fn item<'py>(arrays: &Bound<'py, PyDict>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    arrays.get_item(name)?.ok_or_else(|| {
        PyValueError::new_err(format!("{name}: expected an array, got none"))
    })
}

fn floats(arrays: &Bound<'_, PyDict>, name: &str) -> PyResult<Vec<f64>> {
    let item = item(arrays, name)?;
    match item.cast::<PyArray1<f64>>() {
        Ok(array) => Ok(array.to_vec()?),
        Err(_) => Err(PyValueError::new_err(format!(
            "{name}: expected a one-dimensional array of float64"
        ))),
    }
}

fn unsigned<T: TryFrom<i64>>(
    arrays: &Bound<'_, PyDict>,
    name: &str,
) -> PyResult<Vec<T>> {
    let values = integers(name, &item(arrays, name)?)?;
    let narrow = |(index, value): (usize, i64)| {
        T::try_from(value).map_err(|_| {
            PyValueError::new_err(format!(
                "{name}[{index}]: expected a number that is not negative, got {value}"
            ))
        })
    };
    values.into_iter().enumerate().map(narrow).collect()
}

fn numbers<T: TryFrom<i64>, const N: usize>(
    arrays: &Bound<'_, PyDict>,
    name: &str,
) -> PyResult<[T; N]> {
    let values: Vec<T> = unsigned(arrays, name)?;
    let n = values.len();
    values.try_into().map_err(|_| {
        PyValueError::new_err(format!("{name} has {n} entries, expected {N}"))
    })
}
