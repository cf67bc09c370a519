//! Kernels and their matrices.

use numpy::{Element, IntoPyArray, PyArray1, PyArray2, PyArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use super::forest::Index;
use super::objects::{forest_of, tree_of};
use super::{Progress, interruptible};
use crate::gram::{self, Options};

/// A kernel with its parameters, in range.
#[pyclass(frozen, module = "treekernel_rs._core", name = "Kernel")]
pub(super) struct Kernel(crate::Kernel);

#[pymethods]
impl Kernel {
    #[staticmethod]
    fn subtree(decay: f64, leaf_weight: f64) -> PyResult<Self> {
        Ok(Self(crate::Kernel::Subtree { decay, leaf_weight }.validated()?))
    }

    #[staticmethod]
    fn subset_tree(decay: f64, leaf_weight: f64) -> PyResult<Self> {
        Ok(Self(crate::Kernel::SubsetTree { decay, leaf_weight }.validated()?))
    }

    #[staticmethod]
    fn partial_tree(
        decay: f64,
        mu: f64,
        leaf_factor: f64,
        max_children: Option<i128>,
    ) -> PyResult<Self> {
        // Less than one is one error, whether it is zero or negative.
        let max_children = match max_children {
            Some(n) if n < 0 => {
                return Err(PyValueError::new_err(format!(
                    "max_children must be at least 1, or None for no limit, got {n}"
                )));
            }
            limit => limit.map(|n| usize::try_from(n).unwrap_or(usize::MAX)),
        };
        let kernel =
            crate::Kernel::PartialTree { decay, mu, leaf_factor, max_children };
        Ok(Self(kernel.validated()?))
    }

    #[staticmethod]
    fn elastic_tree(decay: f64) -> PyResult<Self> {
        Ok(Self(crate::Kernel::ElasticTree { decay }.validated()?))
    }

    /// Fills `out` and returns the trees of X and of Y whose self-kernel is zero.
    #[pyo3(signature = (x, y, out, normalize, n_jobs, progress))]
    fn gram(
        &self,
        x: &Bound<'_, PyAny>,
        y: Option<&Bound<'_, PyAny>>,
        out: &Bound<'_, PyAny>,
        normalize: bool,
        n_jobs: Option<usize>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<(Vec<usize>, Vec<usize>)> {
        let options = Options { normalize, n_jobs };
        let x = forest_of(x)?;
        let y = y.map(forest_of).transpose()?;
        let y = y.as_ref();
        if let Ok(out) = out.cast::<PyArray2<f64>>() {
            return self.fill(&x, y, options, out, progress);
        }
        if let Ok(out) = out.cast::<PyArray2<f32>>() {
            return self.fill(&x, y, options, out, progress);
        }
        Err(PyTypeError::new_err("out must be a matrix of float32 or float64"))
    }

    /// K(t,t) of every tree, and the trees where it is zero.
    #[allow(clippy::type_complexity)]
    fn diagonal<'py>(
        &self,
        x: &Bound<'py, PyAny>,
        normalize: bool,
        n_jobs: Option<usize>,
    ) -> PyResult<(Bound<'py, PyArray1<f64>>, Vec<usize>)> {
        let py = x.py();
        let options = Options { normalize, n_jobs };
        let x = forest_of(x)?;
        let (values, report) = interruptible(py, &Progress::none(), |watch| {
            gram::diagonal(&self.0, &x, options, watch)
        })?;
        Ok((values.into_pyarray(py), report.zero_rows))
    }

    /// Rows on demand, and the trees whose self-kernel is zero.
    fn rows(
        &self,
        x: &Bound<'_, PyAny>,
        normalize: bool,
        n_jobs: Option<usize>,
    ) -> PyResult<(KernelRows, Vec<usize>)> {
        let options = Options { normalize, n_jobs };
        let py = x.py();
        let x = forest_of(x)?;
        let rows = interruptible(py, &Progress::none(), |watch| {
            gram::Rows::watched(&self.0, &x, options, watch)
        })?;
        let zeros = rows.report().zero_rows.clone();
        Ok((KernelRows(rows), zeros))
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
        Ok(py.detach(|| gram::pair(&self.0, &a, &b, normalize))?)
    }
}

/// The rows of a kernel matrix, each computed when it is asked for.
///
/// What a solver or a nearest-neighbour search needs that does not hold the matrix. The
/// trees are indexed once, by a kernel's `rows`; a row is then one pass over its tree,
/// not a pair per tree. Rows are not remembered. Several threads may ask at once.
///
/// ``rows[i]`` is row ``i``, of float64; ``rows[[3, 5]]``, a slice or a boolean mask is a
/// matrix of several rows, which are shared out to `n_jobs` threads. The values are those
/// of the same row of ``k(X, X)``, bit for bit; ``k(X)`` may differ in the last digits.
///
/// Examples
/// --------
/// >>> import treekernel_rs as tk
/// >>> rows = tk.SubsetTreeKernel(0.4).rows(["(S (A a) (B b))", "(S (A a) (B c))", "(A a)"])
/// >>> rows
/// <KernelRows: 3 trees>
/// >>> rows[1].round(3)
/// array([0.96 , 1.584, 0.4  ])
/// >>> rows[1:].shape, rows[[0, 2, 2]].shape
/// ((2, 3), (3, 3))
#[pyclass(frozen, module = "treekernel_rs", name = "KernelRows", sequence)]
pub(super) struct KernelRows(gram::Rows);

#[pymethods]
impl KernelRows {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn __getitem__<'py>(
        &self,
        index: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, n) = (index.py(), self.0.len());
        let which = match Index::of(index, n)? {
            Index::One(i) => {
                let mut row = vec![0.0; n];
                py.detach(|| self.0.row(i, &mut row))?;
                return Ok(row.into_pyarray(py).into_any());
            }
            Index::Several(which) => which,
        };
        let out = PyArray2::<f64>::zeros(py, [which.len(), n], false);
        {
            let mut out = out.try_readwrite()?;
            let values = out.as_slice_mut()?;
            interruptible(py, &Progress::none(), |watch| {
                self.0.fill(&which, values, watch)
            })?;
        }
        Ok(out.into_any())
    }

    fn __repr__(&self) -> String {
        let n = self.0.len();
        format!("<KernelRows: {n} tree{}>", if n == 1 { "" } else { "s" })
    }
}

impl Kernel {
    pub(super) fn core(&self) -> crate::Kernel {
        self.0
    }

    fn fill<T: gram::Element + Element>(
        &self,
        x: &crate::Forest,
        y: Option<&crate::Forest>,
        options: Options,
        out: &Bound<'_, PyArray2<T>>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<(Vec<usize>, Vec<usize>)> {
        let py = out.py();
        let mut out = out.try_readwrite().map_err(|error| {
            PyValueError::new_err(format!("out cannot be written: {error}"))
        })?;
        let values = out.as_slice_mut()?;
        let report = interruptible(py, &Progress::new(progress), |watch| {
            gram::fill(&self.0, x, y, options, values, watch)
        })?;
        Ok((report.zero_rows, report.zero_columns))
    }
}

/// How many trees `k(x)` would have rows for; what reads them is shared with `gram`.
#[pyfunction]
pub(super) fn as_forest(trees: &Bound<'_, PyAny>) -> PyResult<super::forest::Forest> {
    forest_of(trees).map(super::forest::Forest)
}
