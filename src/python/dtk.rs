//! The encoder of distributed trees.

use std::sync::Arc;

use numpy::{IntoPyArray, PyArray1, PyArrayMethods, PyReadonlyArray1};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use super::kernel::Kernel;
use super::objects::{forest_of, tree_of};
use super::text::Text;
use super::{Matrix, Request, interruptible, written};
use crate::Context;
use crate::dtk::{
    Composition, DistributedTrees, EncodeOptions, Fold, Norm, Paths, Settings,
};
use crate::error::quoted;

type Values<'py, T> = PyReadonlyArray1<'py, T>;

/// An encoder with its parameters, in range.
#[pyclass(frozen, module = "treekernel_rs._core", name = "Encoder")]
pub(super) struct Encoder(DistributedTrees);

#[pymethods]
impl Encoder {
    #[new]
    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (
        kernel, n_components, composition, fold, seed, max_height, sketch_decay, zero_mean,
        reproducible, normalize, paths
    ))]
    fn new(
        kernel: &Bound<'_, Kernel>,
        n_components: i128,
        composition: Text,
        fold: Text,
        seed: u64,
        max_height: Option<i128>,
        sketch_decay: Option<f64>,
        zero_mean: bool,
        reproducible: bool,
        normalize: Option<Text>,
        paths: Option<&Bound<'_, PyArray1<u64>>>,
    ) -> PyResult<Self> {
        let composition = match &*composition {
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
        let fold = match &*fold {
            "left" => Fold::Left,
            "right" => Fold::Right,
            got => return Err(wrong("fold", "'left' or 'right'", got)),
        };
        let normalize = match normalize.as_deref() {
            None => None,
            Some("exact") => Some(Norm::Exact),
            Some("full") => Some(Norm::Full),
            Some("own") => Some(Norm::Own),
            Some(got) => return Err(wrong("norm", "'exact', 'full' or 'own'", got)),
        };
        // Checked before it becomes a size, as Python's numbers may be negative or
        // larger than any.
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
            // Trees have fewer levels than this: it is no limit.
            height => height.map(|h| usize::try_from(h).unwrap_or(usize::MAX)),
        };
        let paths = match paths {
            // Hashes of paths, as an encoder that was stored has them: nothing is
            // learned again.
            Some(hashes) => Some(Arc::new(Paths::from_hashes(hashes.to_vec()?)?)),
            None => None,
        };
        let settings = Settings {
            kernel: kernel.get().shared(),
            n_components: n_components as usize,
            composition,
            fold,
            seed,
            max_height,
            sketch_decay,
            zero_mean,
            reproducible,
            normalize,
            paths,
        };
        interruptible(kernel.py(), |context| {
            DistributedTrees::new_with(settings, context)
        })
        .map(Self)
    }

    /// Fills `out`. Returns the trees whose norm is zero, those in whose vectors noise has
    /// won, and those that are too large, whose vectors are zero with `zero_too_large`.
    #[pyo3(signature = (x, out, n_jobs, progress, zero_too_large))]
    fn encode(
        &self,
        x: &Bound<'_, PyAny>,
        out: &Bound<'_, PyAny>,
        n_jobs: Option<usize>,
        progress: Option<&Bound<'_, PyAny>>,
        zero_too_large: bool,
    ) -> PyResult<(Vec<usize>, Vec<usize>, Vec<usize>)> {
        let (x, told) = (forest_of(x)?, Request::new(n_jobs, progress));
        let options = EncodeOptions::default().with_zero_too_large(zero_too_large);
        let encoder = &self.0;
        let report = match Matrix::of(out)? {
            Matrix::Single(out) => written(out, &told, |out, context| {
                encoder.encode_with(&x, options, out, context)
            }),
            Matrix::Double(out) => written(out, &told, |out, context| {
                encoder.encode_with(&x, options, out, context)
            }),
        }?;
        Ok((report.zero_rows, report.noisy, report.too_large))
    }

    /// Fills `out` with the vector of one fragment.
    fn fragment(
        &self,
        tree: &Bound<'_, PyAny>,
        out: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let tree = tree_of(tree)?;
        let encoder = &self.0;
        fill_vector(
            out,
            |out, context| encoder.fragment_with(&tree, out, context),
            |out, context| encoder.fragment_with(&tree, out, context),
        )
    }

    /// Fills `out` with the vector of a label.
    fn label_vector(&self, label: Text, out: &Bound<'_, PyAny>) -> PyResult<()> {
        let encoder = &self.0;
        fill_vector(
            out,
            |out, context| encoder.label_vector_with(&label, out, context),
            |out, context| encoder.label_vector_with(&label, out, context),
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
        if let (Ok(a), Ok(b)) = (a.extract::<Values<'_, f32>>(), b.extract()) {
            let b: Values<'_, f32> = b;
            let (a, b) = (a.as_slice()?, b.as_slice()?);
            let composed = |out: &mut [f32], context: &Context| {
                encoder.compose_with(a, b, out, context)
            };
            // The package makes `out` of the type of `a`, so the other function is not
            // called.
            return fill_vector(out, composed, |_, _| Ok(()));
        }
        let (a, b): (Values<'_, f64>, Values<'_, f64>) = (a.extract()?, b.extract()?);
        let (a, b) = (a.as_slice()?, b.as_slice()?);
        let composed = |out: &mut [f64], context: &Context| {
            encoder.compose_with(a, b, out, context)
        };
        fill_vector(out, |_, _| Ok(()), composed)
    }

    /// The hashes of the paths that two trees share.
    fn shared_paths<'py>(
        &self,
        x: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray1<u64>>> {
        let (py, x) = (x.py(), forest_of(x)?);
        let pruned = interruptible(py, |context| self.0.prune_with(&x, context))?;
        let paths = pruned.settings().paths.as_ref();
        let hashes = paths.map(|paths| paths.hashes()).transpose()?;
        Ok(hashes.unwrap_or_default().into_pyarray(py))
    }

    /// The decay that the rule for ranking finds; None: the kernel's.
    fn tuned_decay(&self, x: &Bound<'_, PyAny>) -> PyResult<Option<f64>> {
        let (py, x) = (x.py(), forest_of(x)?);
        let tuned = interruptible(py, |context| self.0.tune_with(&x, context))?;
        Ok(tuned.settings().sketch_decay)
    }
}

fn wrong(name: &str, expected: &str, got: &str) -> PyErr {
    PyValueError::new_err(format!("{name} must be {expected}, got {}", quoted(got)))
}

/// Runs what fits the type of a vector to be filled.
fn fill_vector(
    out: &Bound<'_, PyAny>,
    single: impl FnOnce(&mut [f32], &Context) -> crate::Result<()> + Send,
    double: impl FnOnce(&mut [f64], &Context) -> crate::Result<()> + Send,
) -> PyResult<()> {
    let request = Request::default();
    if let Ok(out) = out.cast::<PyArray1<f32>>() {
        return written(out, &request, single);
    }
    let Ok(out) = out.cast::<PyArray1<f64>>() else {
        return Err(PyTypeError::new_err("out must be a vector of float32 or float64"));
    };
    written(out, &request, double)
}
