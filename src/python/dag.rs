//! DAG models and perceptrons.

use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::forest::{Forest, from_shared, joined, shared_arrays};
use super::kernel::Kernel;
use super::objects::{copied, forest_of, integers, split_names, tree_of, unsigned};
use super::shared::{self, Shared};
use super::text::{Text, shown};
use super::{Request, detached};
use crate::dag::{
    Features, Model, ModelArrays, ModelOptions, Pass, Perceptron, PerceptronArrays,
    PolynomialKernel, Query, Rank, SumModel, Vote,
};
use crate::error::quoted;
use crate::memory;

/// A model.
#[pyclass(frozen, module = "treekernel_rs._core", name = "Dag")]
pub(super) struct Dag(Shared<SumModel>);

/// A perceptron.
#[pyclass(frozen, module = "treekernel_rs._core", name = "Learner")]
pub(super) struct Learner(Shared<Perceptron>);

impl shared::Object for SumModel {
    fn copy_nbytes(&self) -> usize {
        self.nbytes()
    }
}

impl shared::Object for Perceptron {
    fn copy_nbytes(&self) -> usize {
        self.nbytes()
    }
}

type Floats<'py> = PyReadonlyArray1<'py, f64>;
type Scores<'py> = (Bound<'py, PyArray1<f64>>, Vec<usize>);

#[pymethods]
impl Dag {
    #[new]
    fn new(kernel: &Kernel, normalize: bool, n_outputs: i128) -> PyResult<Self> {
        let options = options(normalize, n_outputs)?;
        Ok(Self(Shared::new(SumModel::new(kernel.shared(), options)?)))
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
        // A change may be stopped for other calls, and is called again: it goes on
        // there.
        let mut done = 0;
        self.0.change(py, &Request::new(None, progress), |model, context| {
            model.add_from(&mut done, &x, alphas, context)
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
            self.0.read(py, &Request::new(n_jobs, progress), |model, context| {
                model.score_with(&x, context)
            })?;
        Ok((scores.into_pyarray(py), zeros))
    }

    /// Adds another model, its weights times a factor.
    fn merge(
        slf: &Bound<'_, Self>,
        other: &Bound<'_, Self>,
        factor: f64,
    ) -> PyResult<()> {
        let (py, into) = (slf.py(), &slf.get().0);
        let held = other.get().0.held(py)?;
        let merge = |other: &SumModel| {
            into.change(py, &Request::default(), |model, context| {
                model.merge_with(other, factor, context)
            })
        };
        if !slf.is(other) {
            return merge(&held);
        }
        // With itself: a change waits for those who read, so it would wait for what is
        // held here. It gets a copy.
        let model: &SumModel = &held;
        let copy = detached(py, || {
            memory::room(1, model.nbytes())?;
            Ok(model.clone())
        })?;
        drop(held);
        merge(&copy)
    }

    /// A perceptron's pass from this model on: its last version, the sum of all versions,
    /// and the number of mistakes.
    fn pass_over(
        &self,
        x: &Bound<'_, PyAny>,
        y: Floats<'_>,
    ) -> PyResult<(Self, Self, u64)> {
        let (py, x, y) = (x.py(), forest_of(x)?, y.as_slice()?);
        let Pass { last, sum, n_mistakes, .. } =
            self.0.read(py, &Request::default(), |model, context| {
                model.pass_over_with(&x, y, context)
            })?;
        Ok((Self(Shared::new(last.into())), Self(Shared::new(sum.into())), n_mistakes))
    }

    /// What each node of a tree adds.
    fn contributions<'py>(
        &self,
        tree: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let (py, tree) = (tree.py(), tree_of(tree)?);
        let shares = self.0.read(py, &Request::default(), |m, context| {
            m.contributions_with(&tree, context)
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
        by: Text,
        output: usize,
        min_size: u64,
        max_size: Option<u64>,
        max_states: usize,
    ) -> PyResult<(Forest, Bound<'py, PyArray1<f64>>, Vec<u64>)> {
        let (rank, max_size) = (rank_of(&by)?, max_size.unwrap_or(u64::MAX));
        let query = Query { k, rank, output, min_size, max_size, max_states };
        let found = self.0.read(py, &Request::default(), |model, context| {
            model.top_fragments_with(&query, context)
        })?;
        Ok((Forest(found.forest), found.weights.into_pyarray(py), found.sizes))
    }

    /// Whether subtrees are kept, and no support trees.
    #[getter]
    fn is_graph(&self, py: Python<'_>) -> PyResult<bool> {
        self.0.read(py, &Request::default(), |model, _| Ok(model.is_graph()))
    }

    #[getter]
    fn intercept<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let intercept = |model: &SumModel| memory::copied(model.intercept());
        Ok(self.0.read(py, &Request::default(), |m, _| intercept(m))?.into_pyarray(py))
    }

    fn set_intercept(&self, py: Python<'_>, intercept: Floats<'_>) -> PyResult<()> {
        let intercept = intercept.as_slice()?;
        let set = |model: &mut SumModel| model.set_intercept(intercept);
        self.0.change(py, &Request::default(), |model, _| set(model))
    }

    /// Trees, distinct subtrees, nodes of the trees, bytes.
    fn figures(&self, py: Python<'_>) -> PyResult<(u64, usize, u64, usize)> {
        self.0.read(py, &Request::default(), |m, _| {
            // Every term has all trees of the sum, so the first can tell how many.
            let (first, nodes) = (&m.parts()[0], m.parts().iter().map(Model::n_nodes));
            Ok((first.n_trees(), nodes.sum(), first.n_tree_nodes(), m.nbytes()))
        })
    }

    /// A dict for each term of a sum, and what is added to its scores.
    fn to_arrays<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let (arrays, intercept) =
            self.0.read(py, &Request::default(), |model, _| {
                let arrays = model.parts().iter().map(Model::try_to_arrays);
                Ok((memory::try_collect(arrays)?, memory::copied(model.intercept())?))
            })?;
        let dict = |mut arrays: ModelArrays| {
            let dict = PyDict::new(py);
            // The sum's in place of the parts', which have none.
            arrays.intercept.clone_from(&intercept);
            put_model(&dict, arrays)?;
            Ok(dict)
        };
        arrays.into_iter().map(dict).collect()
    }

    #[staticmethod]
    fn from_arrays(
        kernel: &Kernel,
        normalize: bool,
        n_outputs: i128,
        arrays: Vec<Bound<'_, PyDict>>,
        py: Python<'_>,
    ) -> PyResult<Self> {
        let (kernel, options) = (kernel.shared(), options(normalize, n_outputs)?);
        let arrays = arrays.iter().map(model_arrays).collect::<PyResult<Vec<_>>>()?;
        let model = detached(py, || {
            let mut model = SumModel::from_parts(kernel, options, |terms| {
                let parts = terms.iter().zip(&arrays);
                let part = |(&(kernel, options), arrays): (&(_, _), &ModelArrays)| {
                    Model::from_arrays(kernel, options, arrays)
                };
                parts.map(part).collect()
            })?;
            if let Some(first) = arrays.first() {
                model.set_intercept(&first.intercept)?;
            }
            Ok(model)
        })?;
        Ok(Self(Shared::new(model)))
    }
}

/// `(degree, coef0, gamma)` of a polynomial kernel.
pub(super) type Poly = (u32, f64, f64);

#[pymethods]
impl Learner {
    #[new]
    #[pyo3(signature = (kernel, normalize, n_outputs, vote, vectors, mix))]
    fn new(
        kernel: &Kernel,
        normalize: bool,
        n_outputs: i128,
        vote: Text,
        vectors: Option<Poly>,
        mix: f64,
    ) -> PyResult<Self> {
        let options = options(normalize, n_outputs)?;
        let vectors = vectors.map(polynomial);
        let learner =
            Perceptron::new(kernel.shared(), options, vote_of(&vote)?, vectors, mix)?;
        Ok(Self(Shared::new(learner)))
    }

    /// Goes through trees once; returns the number of mistakes.
    #[pyo3(signature = (x, y, features, progress))]
    fn learn(
        &self,
        x: &Bound<'_, PyAny>,
        y: Floats<'_>,
        features: Option<PyFeatures<'_>>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<usize> {
        let (py, x, y) = (x.py(), forest_of(x)?, y.as_slice()?);
        let features = features.as_ref().map(PyFeatures::features).transpose()?;
        // Both outlive a call that is stopped for others and called again.
        let (mut done, mut before) = (0, None);
        self.0.change(py, &Request::new(None, progress), |learner, context| {
            let before = *before.get_or_insert(learner.n_mistakes());
            learner.learn_from(&mut done, &x, y, features, context)?;
            Ok((learner.n_mistakes() - before) as usize)
        })
    }

    /// Scores, tree after tree, and the trees whose self-kernel is zero.
    #[pyo3(signature = (x, features, n_jobs, progress))]
    fn score<'py>(
        &self,
        x: &Bound<'py, PyAny>,
        features: Option<PyFeatures<'py>>,
        n_jobs: Option<usize>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Scores<'py>> {
        let (py, x) = (x.py(), forest_of(x)?);
        let features = features.as_ref().map(PyFeatures::features).transpose()?;
        let (scores, zeros) =
            self.0.read(py, &Request::new(n_jobs, progress), |learner, context| {
                learner.score_with(&x, features, context)
            })?;
        Ok((scores.into_pyarray(py), zeros))
    }

    /// Examples seen, mistakes, bytes.
    fn figures(&self, py: Python<'_>) -> PyResult<(u64, u64, usize)> {
        self.0.read(py, &Request::default(), |p, _| {
            Ok((p.n_examples(), p.n_mistakes(), p.nbytes()))
        })
    }

    /// The model that scores like it.
    fn model(&self, py: Python<'_>) -> PyResult<Dag> {
        let model = self.0.read(py, &Request::default(), |p, _| p.try_model())?;
        Ok(Dag(Shared::new(model.into())))
    }

    fn to_arrays<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stored = self
            .0
            .read(py, &Request::default(), |learner, _| learner.try_to_arrays())?;
        let dict = PyDict::new(py);
        put_model(&dict, stored.model)?;
        dict.set_item("roots", stored.roots.into_pyarray(py))?;
        dict.set_item("scales", stored.scales.into_pyarray(py))?;
        dict.set_item("before", signed(&stored.before)?.into_pyarray(py))?;
        dict.set_item("alphas", stored.alphas.into_pyarray(py))?;
        dict.set_item("indptr", stored.indptr.into_pyarray(py))?;
        dict.set_item("indices", stored.indices.into_pyarray(py))?;
        dict.set_item("data", stored.data.into_pyarray(py))?;
        let seen = [stored.n_features as u64, stored.n_examples, stored.n_mistakes];
        dict.set_item("seen", signed(&seen)?.into_pyarray(py))?;
        Ok(dict)
    }

    #[staticmethod]
    #[pyo3(signature = (kernel, normalize, n_outputs, vote, vectors, mix, arrays))]
    fn from_arrays(
        kernel: &Kernel,
        normalize: bool,
        n_outputs: i128,
        vote: Text,
        vectors: Option<Poly>,
        mix: f64,
        arrays: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let (py, kernel, vote) = (arrays.py(), kernel.shared(), vote_of(&vote)?);
        let options = options(normalize, n_outputs)?;
        let seen = numbers::<3>(arrays, "seen")?;
        let stored = PerceptronArrays {
            model: model_arrays(arrays)?,
            roots: integers("roots", &item(arrays, "roots")?)?,
            scales: floats(arrays, "scales")?,
            before: unsigned("before", &item(arrays, "before")?)?,
            alphas: floats(arrays, "alphas")?,
            indptr: integers("indptr", &item(arrays, "indptr")?)?,
            indices: integers("indices", &item(arrays, "indices")?)?,
            data: floats(arrays, "data")?,
            n_features: seen[0] as usize,
            n_examples: seen[1],
            n_mistakes: seen[2],
        };
        let vectors = vectors.map(polynomial);
        let learner = detached(py, || {
            Perceptron::from_arrays(kernel, options, vote, vectors, mix, &stored)
        })?;
        Ok(Self(Shared::new(learner)))
    }
}

/// Feature vectors as the package hands them over: the number of features, then all
/// values, or the three arrays of compressed sparse rows.
#[derive(FromPyObject)]
pub(super) enum PyFeatures<'py> {
    Dense((usize, Floats<'py>)),
    #[allow(clippy::type_complexity)]
    Sparse(
        (usize, PyReadonlyArray1<'py, i64>, PyReadonlyArray1<'py, i64>, Floats<'py>),
    ),
}

impl PyFeatures<'_> {
    pub(super) fn features(&self) -> PyResult<Features<'_>> {
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

pub(super) fn options(normalize: bool, n_outputs: i128) -> PyResult<ModelOptions> {
    // A number out of range, whatever its sign or size, is the core's to refuse.
    let Ok(n_outputs) = usize::try_from(n_outputs) else {
        return Err(PyValueError::new_err(format!(
            "n_outputs must be from 1 to 1048576, got {n_outputs}"
        )));
    };
    Ok(ModelOptions { normalize, n_outputs })
}

fn vote_of(vote: &str) -> PyResult<Vote> {
    match vote {
        "last" => Ok(Vote::Last),
        "average" => Ok(Vote::Average),
        "vote" => Ok(Vote::Vote),
        got => Err(PyValueError::new_err(format!(
            "predict_with must be 'last', 'average' or 'vote', got {}",
            quoted(got)
        ))),
    }
}

fn rank_of(by: &str) -> PyResult<Rank> {
    match by {
        "largest" => Ok(Rank::Largest),
        "smallest" => Ok(Rank::Smallest),
        "absolute" => Ok(Rank::Absolute),
        got => Err(PyValueError::new_err(format!(
            "by must be 'largest', 'smallest' or 'absolute', got {}",
            quoted(got)
        ))),
    }
}

pub(super) fn polynomial((degree, coef0, gamma): Poly) -> PolynomialKernel {
    PolynomialKernel { degree, coef0, gamma }
}

// --- arrays ---------------------------------------------------------------------------

fn signed(values: &[u64]) -> crate::Result<Vec<i64>> {
    let signed = |&value: &u64| i64::try_from(value).unwrap_or(i64::MAX);
    memory::collect(values.iter().map(signed))
}

/// Large trees as a pickle of a forest has them: labels, ends, children, roots, names, and
/// where these end.
const LARGE_TREE_ARRAYS: [&str; 6] = [
    "large_labels",
    "large_ends",
    "large_children",
    "large_trees",
    "large_names",
    "large_name_offsets",
];

fn put_model(dict: &Bound<'_, PyDict>, arrays: ModelArrays) -> PyResult<()> {
    let py = dict.py();
    let (names, ends) = joined(py, &arrays.names)?;
    // Signed and of 64 bits, like all integers in stored arrays.
    let wide = |values: Vec<u32>| memory::collect(values.into_iter().map(i64::from));
    dict.set_item("names", names)?;
    dict.set_item("name_offsets", ends)?;
    dict.set_item("labels", wide(arrays.labels)?.into_pyarray(py))?;
    dict.set_item("ends", wide(arrays.ends)?.into_pyarray(py))?;
    dict.set_item("children", wide(arrays.children)?.into_pyarray(py))?;
    dict.set_item("weights", arrays.weights.into_pyarray(py))?;
    dict.set_item("sums", arrays.sums.into_pyarray(py))?;
    dict.set_item("intercept", arrays.intercept.into_pyarray(py))?;
    if !arrays.large_trees.is_empty() {
        for (name, array) in
            LARGE_TREE_ARRAYS.iter().zip(shared_arrays(py, &arrays.large_trees)?)
        {
            dict.set_item(name, array)?;
        }
        dict.set_item("large_alphas", arrays.large_alphas.into_pyarray(py))?;
    }
    let counts = signed(&[arrays.n_trees, arrays.n_tree_nodes])?;
    dict.set_item("counts", counts.into_pyarray(py))
}

fn model_arrays(arrays: &Bound<'_, PyDict>) -> PyResult<ModelArrays> {
    let ends = integers("name_offsets", &item(arrays, "name_offsets")?)?;
    let counts = numbers::<2>(arrays, "counts")?;
    let (mut large_trees, mut large_alphas) = (crate::Forest::default(), Vec::new());
    // Left out where there are none: most models have no large trees.
    if arrays.contains("large_trees")? {
        let [labels, ends, children, roots, names, offsets] = LARGE_TREE_ARRAYS;
        let [labels, ends, children] =
            [item(arrays, labels)?, item(arrays, ends)?, item(arrays, children)?];
        let [roots, names, offsets] =
            [item(arrays, roots)?, item(arrays, names)?, item(arrays, offsets)?];
        let values = [&labels, &ends, &children, &roots, &names, &offsets];
        large_trees = from_shared(values).map_err(|error| {
            let is_wrong = error.is_instance_of::<PyValueError>(arrays.py());
            let text = format!("large_trees: {}", shown(error.value(arrays.py())));
            if is_wrong { PyValueError::new_err(text) } else { error }
        })?;
        large_alphas = floats(arrays, "large_alphas")?;
    }
    Ok(ModelArrays {
        large_trees,
        large_alphas,
        names: split_names(&item(arrays, "names")?, &ends)?,
        labels: unsigned("labels", &item(arrays, "labels")?)?,
        ends: unsigned("ends", &item(arrays, "ends")?)?,
        children: unsigned("children", &item(arrays, "children")?)?,
        weights: floats(arrays, "weights")?,
        sums: floats(arrays, "sums")?,
        intercept: floats(arrays, "intercept")?,
        n_trees: counts[0],
        n_tree_nodes: counts[1],
    })
}

pub(super) fn item<'py>(
    arrays: &Bound<'py, PyDict>,
    name: &str,
) -> PyResult<Bound<'py, PyAny>> {
    arrays.get_item(name)?.ok_or_else(|| {
        PyValueError::new_err(format!("{name}: expected an array, got none"))
    })
}

pub(super) fn floats(arrays: &Bound<'_, PyDict>, name: &str) -> PyResult<Vec<f64>> {
    let item = item(arrays, name)?;
    match item.cast::<PyArray1<f64>>() {
        Ok(array) => copied(array),
        Err(_) => Err(PyValueError::new_err(format!(
            "{name}: expected a one-dimensional array of float64"
        ))),
    }
}

fn numbers<const N: usize>(
    arrays: &Bound<'_, PyDict>,
    name: &str,
) -> PyResult<[u64; N]> {
    let values = unsigned(name, &item(arrays, name)?)?;
    let n = values.len();
    values.try_into().map_err(|_| {
        PyValueError::new_err(format!("{name} has {n} entries, expected {N}"))
    })
}
