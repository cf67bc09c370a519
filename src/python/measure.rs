//! What every measure does: matrices, rows, diagonals, neighbours and lists of pairs.

use numpy::{IntoPyArray, PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::forest::Index;
use super::objects::integers;
use super::{Matrix, Request, array_for, detached, interruptible, run, written, zeros};
use crate::Context;
use crate::gram::{self, Items, Measure, Options, Report};
use crate::memory;
use crate::neighbours::{self, JoinOptions};

/// A call of a measure. Where values are given up the error has what is there.
pub(super) struct Call<'a, X: Items> {
    measure: &'a dyn Measure<X>,
    options: Options,
    request: Request,
}

impl<'a, X: Items> Call<'a, X> {
    pub(super) fn new(
        measure: &'a dyn Measure<X>,
        normalize: bool,
        n_jobs: Option<usize>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> Self {
        let options = Options::default().with_normalize(normalize);
        Self { measure, options, request: Request::new(n_jobs, progress) }
    }

    /// Fills `out`, or a new array of that type, and returns it, with the items of X and of Y
    /// whose value with themselves is zero.
    pub(super) fn gram<'py>(
        &self,
        x: &X,
        y: Option<&X>,
        out: &Bound<'py, PyAny>,
    ) -> PyResult<(Bound<'py, PyAny>, Zeros)> {
        let Self { measure, options, request } = self;
        let out = array_for(out, (x.n_items(), y.unwrap_or(x).n_items()))?;
        let report = match Matrix::of(&out)? {
            Matrix::Single(out) => written(out, request, |out, context| {
                gram::fill_with(*measure, x, y, *options, out, context)
            }),
            Matrix::Double(out) => written(out, request, |out, context| {
                gram::fill_with(*measure, x, y, *options, out, context)
            }),
        }?;
        let zeros = zero_trees(self.complete(report, &out)?);
        Ok((out, zeros))
    }

    /// The value of every item with itself, and the items where it is zero.
    pub(super) fn diagonal<'py>(
        &self,
        py: Python<'py>,
        x: &X,
    ) -> PyResult<(Values<'py>, Vec<usize>)> {
        let (values, report) = run(py, &self.request, |context| {
            gram::diagonal_with(self.measure, x, self.options, context)
        })?;
        let values = values.into_pyarray(py);
        let report = self.complete(report, values.as_any())?;
        Ok((values, report.zero_rows))
    }

    /// The values of all pairs i < j, one after another.
    pub(super) fn condensed<'py>(
        &self,
        py: Python<'py>,
        x: &X,
    ) -> PyResult<Values<'py>> {
        let (values, report) = run(py, &self.request, |context| {
            gram::condensed_with(self.measure, x, self.options, context)
        })?;
        let values = values.into_pyarray(py);
        self.complete(report, values.as_any())?;
        Ok(values)
    }

    /// Rows on demand, and the items whose value with themselves is zero.
    pub(super) fn rows(
        &self,
        py: Python<'_>,
        x: &X,
    ) -> PyResult<(KernelRows, Vec<usize>)> {
        let rows = run(py, &self.request, |context| {
            gram::KernelRows::new_with(self.measure, x, self.options, context)
        })?;
        let zeros = rows.report().zero_rows.clone();
        Ok((KernelRows { rows, n_jobs: self.request.n_jobs }, zeros))
    }

    /// The values of some pairs, and the items whose value with themselves is zero.
    pub(super) fn pairs<'py>(
        &self,
        x: &X,
        y: Option<&X>,
        (i, j): (&Bound<'py, PyAny>, &Bound<'py, PyAny>),
    ) -> PyResult<(Values<'py>, Zeros)> {
        let py = i.py();
        let i = items("i", i, x.n_items())?;
        let j = items("j", j, y.unwrap_or(x).n_items())?;
        let (values, report) = run(py, &self.request, |context| {
            neighbours::pairs_with(self.measure, x, y, (&i, &j), self.options, context)
        })?;
        let values = values.into_pyarray(py);
        let report = self.complete(report, values.as_any())?;
        Ok((values, zero_trees(report)))
    }

    /// All pairs of at least so much: rows, columns and values of groups of equal items, and
    /// the group of each item of X and of Y; and the items whose value with themselves is
    /// zero. With `out` pairs of items are handed on some at a time, and not returned.
    pub(super) fn join<'py>(
        &self,
        py: Python<'py>,
        x: &X,
        y: Option<&X>,
        (least, rows): (f64, Option<(usize, usize)>),
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Found<'py>, Zeros)> {
        let (measure, options) = (self.measure, self.options);
        let mut wanted = JoinOptions::from(least);
        if let Some((start, stop)) = rows {
            wanted = wanted.with_rows(start..stop);
        }
        if out.is_some() {
            return joined(py, out, |sink| {
                run(py, &self.request, |context| {
                    neighbours::join_with(measure, x, y, wanted, options, sink, context)
                })
            });
        }
        let (groups, report) = run(py, &self.request, |context| {
            neighbours::join_groups_with(measure, x, y, wanted, options, context)
        })?;
        let pairs = triples(py, groups.pairs);
        let columns = groups.columns.map(|groups| places(py, groups));
        let found = (pairs, Some(places(py, groups.rows)), columns);
        Ok((found, zero_trees(report)))
    }

    /// The nearest items: indices and values, and the items whose value with themselves is
    /// zero.
    pub(super) fn top_k<'py>(
        &self,
        py: Python<'py>,
        x: &X,
        y: Option<&X>,
        k: usize,
    ) -> PyResult<(Nearest<'py>, Zeros)> {
        let (found, report) = run(py, &self.request, |context| {
            neighbours::top_k_with(self.measure, x, y, k, self.options, context)
        })?;
        Ok((nearest(py, x.n_items(), found)?, zero_trees(report)))
    }

    /// The nearest items by a distance that is at most so much: -1 and infinity behind them.
    pub(super) fn top_k_within<'py>(
        &self,
        py: Python<'py>,
        x: &X,
        y: Option<&X>,
        k: usize,
        max_distance: f64,
    ) -> PyResult<(Nearest<'py>, Zeros)> {
        let (found, report) = run(py, &self.request, |context| {
            neighbours::top_k_within_with(
                self.measure,
                x,
                y,
                k,
                max_distance,
                self.options,
                context,
            )
        })?;
        Ok((nearest(py, x.n_items(), found)?, zero_trees(report)))
    }

    /// Raises where something is missing, with what is there.
    fn complete(&self, report: Report, result: &Bound<'_, PyAny>) -> PyResult<Report> {
        report.complete(self.measure).map_err(|error| {
            // The error carries what was computed, so that nothing is lost.
            let error = PyErr::from(error);
            match error.value(result.py()).setattr("result", result) {
                Ok(()) => error,
                Err(other) => other,
            }
        })
    }
}

/// The rows of a kernel matrix, each computed on demand.
///
/// For solvers and searches that cannot hold the matrix in memory. A kernel's `rows` makes
/// one, and indexes the trees once; a row then takes one pass over its tree, not a pair per
/// tree. Rows are not stored. Several threads may read rows at the same time.
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
#[pyclass(frozen, module = "treekernel_rs.index", name = "KernelRows", sequence)]
pub(super) struct KernelRows {
    pub(super) rows: gram::KernelRows,
    pub(super) n_jobs: Option<usize>,
}

#[pymethods]
impl KernelRows {
    fn __len__(&self) -> usize {
        self.rows.len()
    }

    fn __getitem__<'py>(
        &self,
        index: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, n) = (index.py(), self.rows.len());
        let which = match Index::of(index, n)? {
            Index::One(i) => {
                let mut row = memory::filled(0.0, n)?;
                interruptible(py, |context| self.rows.row_with(i, &mut row, context))?;
                return Ok(row.into_pyarray(py).into_any());
            }
            Index::Several(which) => which,
        };
        let out = zeros(py, (which.len(), n))?;
        written(&out, &Request::new(self.n_jobs, None), |out, context| {
            self.rows.fill_with(&which, out, context)
        })?;
        Ok(out.into_any())
    }

    fn __repr__(&self) -> String {
        let n = self.rows.len();
        format!("<KernelRows: {n} tree{}>", if n == 1 { "" } else { "s" })
    }
}

/// The pairs of trees that pairs of groups stand for, written out for some rows at a time.
#[pyclass(frozen, module = "treekernel_rs._core", name = "PairExpander")]
pub(super) struct PairExpander(neighbours::Expander);

#[pymethods]
impl PairExpander {
    /// Of pairs of groups, and the group of each tree of X and of Y.
    #[new]
    #[pyo3(signature = (rows, columns, values, row_groups, column_groups))]
    fn new(
        rows: &Bound<'_, PyAny>,
        columns: &Bound<'_, PyAny>,
        values: PyReadonlyArray1<'_, f64>,
        row_groups: &Bound<'_, PyAny>,
        column_groups: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let n = row_groups.len()?;
        let n_columns = column_groups.map_or(Ok(n), PyAnyMethods::len)?;
        let mut groups = neighbours::Groups::default();
        groups.pairs.rows = items("rows", rows, n)?;
        groups.pairs.columns = items("columns", columns, n_columns)?;
        groups.pairs.values = memory::collect(values.as_slice()?.iter().copied())?;
        groups.rows = items("row_groups", row_groups, n)?;
        groups.columns = column_groups
            .map(|groups| items("column_groups", groups, n_columns))
            .transpose()?;
        let build = |context: &Context| groups.expander_with(context);
        interruptible(rows.py(), build).map(Self)
    }

    /// Where the pairs of each tree of X start among all pairs, and how many there are.
    fn starts<'py>(&self, py: Python<'py>) -> PyResult<Places<'py>> {
        let starts = self.0.starts().iter().map(|&start| start as i64);
        Ok(memory::collect(starts)?.into_pyarray(py))
    }

    /// The pairs of the trees of X from `start` to before `stop`.
    fn expand<'py>(
        &self,
        py: Python<'py>,
        start: usize,
        stop: usize,
    ) -> PyResult<Triples<'py>> {
        let rows = start..stop;
        let pairs = interruptible(py, |context| self.0.expand_with(rows, context))?;
        Ok(triples(py, pairs))
    }
}

pub(super) type Zeros = (Vec<usize>, Vec<usize>);
pub(super) type Values<'py> = Bound<'py, PyArray1<f64>>;
type Places<'py> = Bound<'py, PyArray1<i64>>;
pub(super) type Triples<'py> = (Places<'py>, Places<'py>, Values<'py>);
/// Pairs, and the group of each item of X and of Y, where these are pairs of groups.
pub(super) type Found<'py> = (Triples<'py>, Option<Places<'py>>, Option<Places<'py>>);
pub(super) type Nearest<'py> = (Bound<'py, PyArray2<i64>>, Bound<'py, PyArray2<f64>>);

fn places(py: Python<'_>, trees: Vec<usize>) -> Places<'_> {
    trees.into_iter().map(|tree| tree as i64).collect::<Vec<_>>().into_pyarray(py)
}

fn triples(py: Python<'_>, pairs: neighbours::FoundPairs) -> Triples<'_> {
    let values = pairs.values.into_pyarray(py);
    (places(py, pairs.rows), places(py, pairs.columns), values)
}

pub(super) fn nearest(
    py: Python<'_>,
    n: usize,
    found: neighbours::Nearest,
) -> PyResult<Nearest<'_>> {
    let shape = (n, found.k);
    let indices = places(py, found.indices).reshape(shape)?;
    Ok((indices, found.values.into_pyarray(py).reshape(shape)?))
}

pub(super) fn zero_trees(report: gram::Report) -> Zeros {
    (report.zero_rows, report.zero_columns)
}

/// The pairs that `run` gives its sink, in order; none where `out` takes them.
pub(super) fn joined<'py>(
    py: Python<'py>,
    out: Option<&Bound<'py, PyAny>>,
    run: impl FnOnce(&mut PairSink<'_>) -> PyResult<gram::Report>,
) -> PyResult<(Found<'py>, Zeros)> {
    let out = out.map(|out| out.clone().unbind());
    let (mut pairs_found, mut failed) = (neighbours::FoundPairs::default(), None);
    let done = run(&mut |pairs: neighbours::FoundPairs| {
        let Some(out) = &out else { return pairs_found.append(pairs) };
        // The computation has let go of the interpreter: attached to hand over, and no
        // longer.
        let told = Python::attach(|py| out.call1(py, triples(py, pairs)).map(drop));
        told.map_err(|error| {
            failed = Some(error);
            crate::Error::Interrupted
        })
    });
    if let Some(error) = failed {
        return Err(error);
    }
    let report = done?;
    // Nothing is left to sort where `out` has taken them.
    detached(py, || pairs_found.sort())?;
    Ok(((triples(py, pairs_found), None, None), zero_trees(report)))
}

pub(super) type PairSink<'a> =
    dyn FnMut(neighbours::FoundPairs) -> crate::Result<()> + Send + 'a;

/// Numbers of items.
fn items(name: &str, given: &Bound<'_, PyAny>, n: usize) -> PyResult<Vec<usize>> {
    let wrong = |(index, tree): (usize, i64)| {
        let message =
            format!("{name}[{index}]: expected from 0 to below {n}, got {tree}");
        PyValueError::new_err(message)
    };
    let trees = integers(name, given)?.into_iter().enumerate();
    trees.map(|(at, t)| usize::try_from(t).map_err(|_| wrong((at, t)))).collect()
}
