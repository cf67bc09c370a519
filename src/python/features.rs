//! Trees as sparse vectors of features.

use numpy::{IntoPyArray, PyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::forest::joined;
use super::kernel::{Kernel, counts_of};
use super::objects::{forest_of, integers, split_names, unsigned};
use super::text::Text;
use super::{Request, run};
use crate::error::quoted;
use crate::features::{self, Kind, SparseRows, VocabularyArrays};
use crate::memory;

/// Where rows start, columns, values.
type Csr<'py> =
    (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i32>>, Bound<'py, PyArray1<f64>>);

fn csr(py: Python<'_>, rows: SparseRows) -> PyResult<Csr<'_>> {
    let starts = memory::collect(rows.starts.into_iter().map(|at| at as i64))?;
    let columns = memory::collect(rows.columns.into_iter().map(|at| at as i32))?;
    Ok((
        starts.into_pyarray(py),
        columns.into_pyarray(py),
        rows.values.into_pyarray(py),
    ))
}

/// `kind` is a kernel or a name; `size` is the largest, and of pq-grams (p, q).
fn kind_of(kind: &Bound<'_, PyAny>, size: (u32, u32)) -> PyResult<Kind> {
    if let Ok(kernel) = kind.cast::<Kernel>() {
        let kernel = kernel.get().core();
        return Kind::of_kernel(kernel, size.0).ok_or_else(|| {
            PyValueError::new_err(format!(
                "kernel must be a SubtreeKernel, SubsetTreeKernel, \
                 PartialTreeKernel or SubpathKernel, got {}Kernel",
                kernel.name()
            ))
        });
    }
    match &*kind.extract::<Text>()? {
        "labels" => Ok(Kind::Labels),
        "edges" => Ok(Kind::Edges),
        "productions" => Ok(Kind::Productions),
        "pq-grams" => Ok(Kind::PqGrams { p: size.0, q: size.1 }),
        other => Err(PyValueError::new_err(format!(
            "kernel must be a kernel, 'labels', 'edges', 'productions' or 'pq-grams', \
             got {}",
            quoted(other)
        ))),
    }
}

/// The columns of features.
#[pyclass(frozen, module = "treekernel_rs._core")]
pub(super) struct Vocabulary(features::Vocabulary);

#[pymethods]
impl Vocabulary {
    /// The features that at least `min_df` trees have, and the trees' values.
    #[staticmethod]
    fn fit<'py>(
        kind: &Bound<'py, PyAny>,
        size: (u32, u32),
        x: &Bound<'py, PyAny>,
        min_df: u32,
        counts: Text,
        n_jobs: Option<usize>,
    ) -> PyResult<(Self, Csr<'py>)> {
        let (py, kind, x) = (x.py(), kind_of(kind, size)?, forest_of(x)?);
        let counts = counts_of(&counts)?;
        let (vocabulary, rows) = run(py, &Request::new(n_jobs, None), |context| {
            features::Vocabulary::fit_with(&kind, &x, min_df, counts, context)
        })?;
        Ok((Self(vocabulary), csr(py, rows)?))
    }

    fn transform<'py>(
        &self,
        x: &Bound<'py, PyAny>,
        counts: Text,
        n_jobs: Option<usize>,
    ) -> PyResult<Csr<'py>> {
        let (py, x, counts) = (x.py(), forest_of(x)?, counts_of(&counts)?);
        let rows = run(py, &Request::new(n_jobs, None), |context| {
            self.0.rows_with(&x, counts, context)
        })?;
        csr(py, rows)
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn __sizeof__(&self) -> usize {
        self.0.nbytes()
    }

    /// Names of columns; all of them where none are given.
    fn names(&self, columns: Option<Vec<usize>>) -> PyResult<Vec<String>> {
        let columns = match columns {
            Some(columns) => columns,
            None => memory::collect(0..self.0.len())?,
        };
        let mut names = Vec::new();
        for column in columns {
            if column >= self.0.len() {
                let n = self.0.len();
                return Err(PyValueError::new_err(format!(
                    "columns are 0 to {}, got {column}",
                    n as i64 - 1
                )));
            }
            memory::push(&mut names, self.0.name(column)?)?;
        }
        Ok(names)
    }

    fn to_arrays<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let VocabularyArrays { labels, heads, ends, parts, features, hashes } =
            self.0.try_to_arrays()?;
        let (names, ends_of_names) = joined(py, &labels)?;
        let dict = PyDict::new(py);
        dict.set_item("names", names)?;
        dict.set_item("name_offsets", ends_of_names)?;
        let wide = |ids: Vec<u32>| memory::collect(ids.into_iter().map(i64::from));
        dict.set_item("heads", wide(heads)?.into_pyarray(py))?;
        dict.set_item("ends", wide(ends)?.into_pyarray(py))?;
        dict.set_item("parts", parts.into_pyarray(py))?;
        dict.set_item("columns", wide(features)?.into_pyarray(py))?;
        let hashes = memory::collect(hashes.into_iter().map(u64::cast_signed))?;
        dict.set_item("hashes", hashes.into_pyarray(py))?;
        Ok(dict)
    }

    #[staticmethod]
    fn from_arrays(
        kind: &Bound<'_, PyAny>,
        size: (u32, u32),
        arrays: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let kind = kind_of(kind, size)?;
        let item = |name: &str| {
            arrays.get_item(name)?.ok_or_else(|| {
                PyValueError::new_err(format!("{name}: expected an array, got none"))
            })
        };
        let offsets = integers("name_offsets", &item("name_offsets")?)?;
        let arrays = VocabularyArrays {
            labels: split_names(&item("names")?, &offsets)?,
            heads: unsigned("heads", &item("heads")?)?,
            ends: unsigned("ends", &item("ends")?)?,
            parts: integers("parts", &item("parts")?)?,
            features: unsigned("columns", &item("columns")?)?,
            hashes: integers("hashes", &item("hashes")?)?
                .into_iter()
                .map(i64::cast_unsigned)
                .collect(),
        };
        Ok(Self(features::Vocabulary::from_arrays(&kind, arrays)?))
    }
}

/// Rows without a vocabulary.
#[pyfunction]
pub(super) fn hashed_features<'py>(
    kind: &Bound<'py, PyAny>,
    size: (u32, u32),
    x: &Bound<'py, PyAny>,
    n_features: u32,
    signed: bool,
    counts: Text,
    n_jobs: Option<usize>,
) -> PyResult<Csr<'py>> {
    let (py, kind, x) = (x.py(), kind_of(kind, size)?, forest_of(x)?);
    let counts = counts_of(&counts)?;
    let rows = run(py, &Request::new(n_jobs, None), |context| {
        features::hashed_with(&kind, &x, n_features, signed, counts, context)
    })?;
    csr(py, rows)
}
