//! Similarities of labels: objects of Python's that are asked for tables.

use std::cell::RefCell;
use std::sync::Arc;

use numpy::{
    IntoPyArray, PyArray1, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;

use super::interruptible;
use crate::Context;
use crate::Error;
use crate::kernel::similarity::Block;
use crate::kernel::{Cosines, Similarity, SimilarityRow, SimilarityTable};
use crate::memory;

/// The similarities of some labels, by their numbers.
#[pyclass(frozen, module = "treekernel_rs._core", name = "LabelTable")]
pub(super) struct LabelTable(Arc<SimilarityTable>);

type Places<'py> = Bound<'py, PyArray1<i64>>;
type Blocks<'py> = Vec<(usize, Bound<'py, PyAny>)>;
type RowsOfLabels<'py> =
    (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<f64>>);

/// A class below 0 is none.
fn class(class: i64) -> u32 {
    u32::try_from(class).unwrap_or(u32::MAX)
}

#[pymethods]
impl LabelTable {
    /// Of `n` labels: pairs i != j, each once, with their similarities.
    #[staticmethod]
    fn of_pairs(
        n: usize,
        i: PyReadonlyArray1<'_, i64>,
        j: PyReadonlyArray1<'_, i64>,
        values: PyReadonlyArray1<'_, f64>,
    ) -> PyResult<Self> {
        let (i, j, values) = (i.as_slice()?, j.as_slice()?, values.as_slice()?);
        if i.len() != values.len() || j.len() != values.len() {
            return Err(PyValueError::new_err("i, j and values differ in length"));
        }
        // A number out of range becomes one that is, and is refused.
        let id = |&i: &i64| u32::try_from(i).unwrap_or(u32::MAX);
        let ids = i.iter().map(id).zip(j.iter().map(id));
        let pairs = ids.zip(values).map(|((i, j), &value)| (i, j, value));
        let pairs = memory::collect(pairs)?;
        Ok(Self(Arc::new(SimilarityTable::from_pairs(n, pairs)?)))
    }

    /// By cosines of rows of the same class; a class below 0 is none.
    #[staticmethod]
    fn of_vectors(
        py: Python<'_>,
        vectors: PyReadonlyArray2<'_, f64>,
        classes: PyReadonlyArray1<'_, i64>,
        power: u32,
        threshold: Option<f64>,
        clip: bool,
    ) -> PyResult<Self> {
        let (vectors, classes) = (vectors.as_slice()?, classes.as_slice()?);
        let classes: Vec<u32> = memory::collect(classes.iter().copied().map(class))?;
        // As rows are equally long, there are so many values for each label.
        if vectors.len().checked_rem(classes.len()).unwrap_or(vectors.len()) != 0 {
            return Err(PyValueError::new_err("vectors and classes differ in length"));
        }
        let how = Cosines::new(power, threshold, clip);
        let table = interruptible(py, |context| {
            SimilarityTable::from_vectors_with(vectors, &classes, how, context)
        })?;
        Ok(Self(Arc::new(table)))
    }

    /// Of other labels, by their vectors and classes: how many labels of the table each is
    /// similar to, which, and the similarities.
    fn rows_by_vectors<'py>(
        &self,
        py: Python<'py>,
        vectors: PyReadonlyArray2<'_, f64>,
        classes: PyReadonlyArray1<'_, i64>,
    ) -> PyResult<RowsOfLabels<'py>> {
        let classes: Vec<u32> =
            memory::collect(classes.as_slice()?.iter().copied().map(class))?;
        let rows = self.0.rows_by_vectors(vectors.as_slice()?, &classes)?;
        let lens = memory::collect(rows.iter().map(|row| row.len() as i64))?;
        let labels = rows.iter().flatten().map(|item| i64::from(item.0));
        let values = rows.iter().flatten().map(|item| item.1);
        let (labels, values) = (memory::collect(labels)?, memory::collect(values)?);
        Ok((lens.into_pyarray(py), labels.into_pyarray(py), values.into_pyarray(py)))
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// The blocks: how many labels each has, and its matrix, or rows, columns and values of
    /// what is not 0 beside the diagonal, or None if there are more labels than `most`; and
    /// each label's block and place, -1 for none.
    fn blocks<'py>(
        &self,
        py: Python<'py>,
        most: usize,
    ) -> PyResult<(Blocks<'py>, Places<'py>, Places<'py>)> {
        let mut blocks = Vec::new();
        for block in self.0.blocks() {
            let told = match block {
                // The caller says what is too large to be copied: such a block is only
                // counted.
                _ if block.len() > most => py.None().into_bound(py),
                Block::Matrix { n, values } => memory::copied(values)?
                    .into_pyarray(py)
                    .reshape((*n, *n))?
                    .into_any(),
                Block::Rows { ends, items } => {
                    // As triples: the ends of rows become a row for each value.
                    let mut rows = Vec::new();
                    for (row, &end) in ends.iter().enumerate() {
                        memory::reach(&mut rows, end, row as i64)?;
                    }
                    let columns = items.iter().map(|&(y, _)| i64::from(y));
                    let columns = memory::collect(columns)?;
                    let values = memory::collect(items.iter().map(|item| item.1))?;
                    let rows = rows.into_pyarray(py);
                    let (columns, values) =
                        (columns.into_pyarray(py), values.into_pyarray(py));
                    (rows, columns, values).into_pyobject(py)?.into_any()
                }
            };
            blocks.push((block.len(), told));
        }
        let blocks_of = (0..self.0.len()).map(|label| self.0.place(label));
        let (blocks_of, places): (Vec<_>, Vec<_>) = blocks_of
            .map(|(block, place)| {
                // A label without a block is like itself alone.
                let block = if block == u32::MAX { -1 } else { i64::from(block) };
                (block, i64::from(place))
            })
            .unzip();
        Ok((blocks, blocks_of.into_pyarray(py), places.into_pyarray(py)))
    }
}

/// An object of Python's that is asked for the table of some labels.
#[derive(Debug)]
pub(super) struct PySimilarity(pub(super) Py<PyAny>);

impl Similarity for PySimilarity {
    fn table(
        &self,
        labels: &[&str],
        _: &Context,
    ) -> crate::Result<Arc<SimilarityTable>> {
        let ask = |py: Python<'_>| -> PyResult<Arc<SimilarityTable>> {
            let labels = PyList::new(py, labels)?;
            let table = self.0.bind(py).call_method1("_table", (labels,))?;
            let table = table.cast_into::<LabelTable>()?;
            Ok(Arc::clone(&table.get().0))
        };
        Python::attach(ask).map_err(raise)
    }

    fn rows(
        &self,
        (known, table): (&[String], &Arc<SimilarityTable>),
        others: &[&str],
        _: &Context,
    ) -> crate::Result<Vec<SimilarityRow>> {
        type Answer<'py> = (
            PyReadonlyArray1<'py, i64>,
            PyReadonlyArray1<'py, i64>,
            PyReadonlyArray1<'py, f64>,
        );
        let ask = |py: Python<'_>| -> PyResult<Vec<SimilarityRow>> {
            let table = LabelTable(Arc::clone(table));
            let labels = (PyList::new(py, known)?, PyList::new(py, others)?);
            let rows =
                self.0.bind(py).call_method1("_rows", (table, labels.0, labels.1))?;
            let (lens, labels, values): Answer<'_> = rows.extract()?;
            let labels = labels.as_slice()?.iter();
            // A number out of range becomes one that is, and is refused.
            let labels = labels.map(|&label| u32::try_from(label).unwrap_or(u32::MAX));
            let mut items = labels.zip(values.as_slice()?.iter().copied());
            let row = |&len: &i64| memory::collect(items.by_ref().take(len as usize));
            Ok(memory::try_collect(lens.as_slice()?.iter().map(row))?)
        };
        Python::attach(ask).map_err(raise)
    }
}

thread_local! {
    /// The exception that ended the last call of a callable.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// The error that ends a computation on this thread by an exception.
pub(super) fn raise(error: PyErr) -> Error {
    RAISED.with(|raised| raised.replace(Some(error)));
    Error::Interrupted
}

/// The exception that ended a computation on this thread.
pub(super) fn raised<T>(done: &crate::Result<T>) -> Option<PyErr> {
    // Taken in any case: a later call must not raise what this one has left.
    let raised = RAISED.with(RefCell::take);
    raised.filter(|_| matches!(done, Err(Error::Interrupted)))
}
