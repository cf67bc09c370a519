//! The encoder of distributed trees.

use std::sync::Arc;

use numpy::{Element, IntoPyArray, PyArray1, PyArray2, PyArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use super::kernel::Kernel;
use super::objects::{forest_of, tree_of};
use super::{Progress, interruptible};
use crate::dtk::{
    Composition, DistributedTrees, Fold, Norm, Options, Paths, Real, Settings,
};
use crate::gram;

/// An encoder with its parameters, in range.
#[pyclass(frozen, module = "treekernel_rs._core", name = "Encoder")]
pub(super) struct Encoder(DistributedTrees);

#[pymethods]
impl Encoder {
    #[new]
    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (
        kernel, n_components, composition, fold, seed, max_height, sketch_decay, zero_mean,
        normalize, paths
    ))]
    fn new(
        kernel: &Kernel,
        n_components: i128,
        composition: &str,
        fold: &str,
        seed: u64,
        max_height: Option<i128>,
        sketch_decay: Option<f64>,
        zero_mean: bool,
        normalize: Option<&str>,
        paths: Option<&Bound<'_, PyArray1<u64>>>,
    ) -> PyResult<Self> {
        let composition = match composition {
            "quaternion" => Composition::Quaternion,
            "sign" => Composition::Sign,
            "phasor" => Composition::Phasor,
            "convolution" => Composition::Convolution,
            "gamma" => Composition::Gamma,
            got => {
                let expected =
                    "'quaternion', 'sign', 'phasor', 'convolution' or 'gamma'";
                return Err(wrong("composition", expected, got));
            }
        };
        let fold = match fold {
            "left" => Fold::Left,
            "right" => Fold::Right,
            got => return Err(wrong("fold", "'left' or 'right'", got)),
        };
        let normalize = match normalize {
            None => None,
            Some("exact") => Some(Norm::Exact),
            Some("own") => Some(Norm::Own),
            Some(got) => return Err(wrong("norm", "'exact' or 'own'", got)),
        };
        if n_components < 4 || n_components % 4 != 0 || n_components > 1 << 30 {
            return Err(PyValueError::new_err(format!(
                "n_components must be a multiple of 4 from 4 to 2^30, got {n_components}"
            )));
        }
        let max_height = match max_height {
            Some(height) if height < 1 => {
                return Err(PyValueError::new_err(format!(
                    "max_height must be at least 1, or None for no limit, got {height}"
                )));
            }
            height => height.map(|h| usize::try_from(h).unwrap_or(usize::MAX)),
        };
        let paths = match paths {
            Some(hashes) => Some(Arc::new(Paths::from_hashes(hashes.to_vec()?))),
            None => None,
        };
        Ok(Self(DistributedTrees::new(Settings {
            kernel: kernel.core(),
            n_components: n_components as usize,
            composition,
            fold,
            seed,
            max_height,
            sketch_decay,
            zero_mean,
            normalize,
            paths,
        })?))
    }

    /// Fills `out` and returns the trees whose norm is zero.
    #[pyo3(signature = (x, out, n_jobs, progress))]
    fn encode(
        &self,
        x: &Bound<'_, PyAny>,
        out: &Bound<'_, PyAny>,
        n_jobs: Option<usize>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<usize>> {
        let x = forest_of(x)?;
        if let Ok(out) = out.cast::<PyArray2<f32>>() {
            return self.fill(&x, n_jobs, out, progress);
        }
        if let Ok(out) = out.cast::<PyArray2<f64>>() {
            return self.fill(&x, n_jobs, out, progress);
        }
        Err(PyTypeError::new_err("out must be a matrix of float32 or float64"))
    }

    /// Fills `out` with the vector of one fragment.
    fn fragment(
        &self,
        tree: &Bound<'_, PyAny>,
        out: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let tree = tree_of(tree)?;
        into(out, |out| self.0.fragment(&tree, out), |out| self.0.fragment(&tree, out))
    }

    /// Fills `out` with the vector of a label.
    fn label_vector(&self, label: &str, out: &Bound<'_, PyAny>) -> PyResult<()> {
        let encoder = &self.0;
        into(
            out,
            |out| encoder.label_vector(label, out),
            |out| encoder.label_vector(label, out),
        )
    }

    /// Fills `out` with the composition of two vectors of its type.
    fn compose(
        &self,
        a: &Bound<'_, PyAny>,
        b: &Bound<'_, PyAny>,
        out: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let encoder = &self.0;
        if let (Ok(a), Ok(b)) = (a.extract(), b.extract()) {
            let (a, b) = (values::<f32>(&a)?, values::<f32>(&b)?);
            return into(out, |out| encoder.compose(&a, &b, out), |_| Ok(()));
        }
        let (a, b) = (values::<f64>(&a.extract()?)?, values::<f64>(&b.extract()?)?);
        into(out, |_| Ok(()), |out| encoder.compose(&a, &b, out))
    }

    /// The hashes of the paths that two trees share.
    fn shared_paths<'py>(
        &self,
        x: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray1<u64>>> {
        let (py, x) = (x.py(), forest_of(x)?);
        let pruned =
            interruptible(py, &Progress::none(), |watch| self.0.prune(&x, watch))?;
        let hashes = pruned.settings().paths.as_ref().map(|p| p.hashes());
        Ok(hashes.unwrap_or_default().into_pyarray(py))
    }

    /// The decay that the rule for ranking finds; None: the kernel's.
    fn tuned_decay(&self, x: &Bound<'_, PyAny>) -> PyResult<Option<f64>> {
        let (py, x) = (x.py(), forest_of(x)?);
        let tuned =
            interruptible(py, &Progress::none(), |watch| self.0.tune(&x, watch))?;
        Ok(tuned.settings().sketch_decay)
    }
}

impl Encoder {
    fn fill<T: Real + gram::Element + Element>(
        &self,
        x: &crate::Forest,
        n_jobs: Option<usize>,
        out: &Bound<'_, PyArray2<T>>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<usize>> {
        let py = out.py();
        let mut out = out.try_readwrite().map_err(|error| {
            PyValueError::new_err(format!("out cannot be written: {error}"))
        })?;
        let values = out.as_slice_mut()?;
        let options = Options { n_jobs, ..Options::default() };
        let report = interruptible(py, &Progress::new(progress), |watch| {
            self.0.encode(x, options, values, watch)
        })?;
        Ok(report.zero_rows)
    }
}

fn wrong(name: &str, expected: &str, got: &str) -> PyErr {
    PyValueError::new_err(format!("{name} must be {expected}, got {got:?}"))
}

fn values<T: Element + Copy>(array: &Bound<'_, PyArray1<T>>) -> PyResult<Vec<T>> {
    Ok(array.to_vec()?)
}

/// Runs what fits the type of a vector to be filled.
fn into(
    out: &Bound<'_, PyAny>,
    single: impl FnOnce(&mut [f32]) -> crate::Result<()>,
    double: impl FnOnce(&mut [f64]) -> crate::Result<()>,
) -> PyResult<()> {
    if let Ok(out) = out.cast::<PyArray1<f32>>() {
        return Ok(single(out.try_readwrite()?.as_slice_mut()?)?);
    }
    if let Ok(out) = out.cast::<PyArray1<f64>>() {
        return Ok(double(out.try_readwrite()?.as_slice_mut()?)?);
    }
    Err(PyTypeError::new_err("out must be a vector of float32 or float64"))
}
