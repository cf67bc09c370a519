//! Core errors as Python exceptions: each named once, here.

use crate::Error;
use crate::error::listed;
use pyo3::create_exception;
use pyo3::exceptions::{
    PyKeyboardInterrupt, PyMemoryError, PyOverflowError, PyRuntimeError, PyValueError,
};
use pyo3::prelude::*;

create_exception!(
    treekernel_rs,
    ParseError,
    PyValueError,
    "Text that is not a tree.

The message says where, what was expected and what was found; so do the attributes.

Attributes
----------
tree : int
    Number of the tree, from 0; in a list of items the item's index.
line, column : int
    Place within the text (or item), from 1; columns count characters.
offset : int
    The same place in bytes of UTF-8, from 0.
expected, got : str
    What was expected there, and what was found.
open : tuple of int or None
    Line and column of the innermost bracket that is still open.
file : str or None
    The file, if one was read; line, column and offset then count within it.
side : str or None
    Of a list of pairs, \"left\" or \"right\".

Examples
--------
>>> import treekernel_rs as tk
>>> try:
...     tk.Forest.from_brackets([\"(S (A a))\", \"(S (A a)\"])
... except tk.ParseError as error:
...     print(error.tree, error.column, error.expected)
1 9 ')'
"
);

create_exception!(
    treekernel_rs.pairs,
    ConstraintLimitError,
    PyValueError,
    "A kernel of pairs that needs more than `max_constraints`.

The exact kernel of two pairs is #P-hard in the worst case: it counts the matchings of a
bipartite graph. So each value has a limit. All other values of a matrix are computed.

Attributes
----------
pairs : list of tuple of int
    Row and column of each missing value; of a symmetric matrix the lower triangle's.
max_constraints : int
    The limit.
result : ndarray or None
    The matrix (or diagonal) with NaN where a value is missing; None for a single value.

Examples
--------
>>> import treekernel_rs as tk
>>> n = 30
>>> tree = lambda i: \"(R\" + \"\".join(f\"(L{k} (x:{i(k)}))\" for k in range(n * n)) + \")\"
>>> left = [tree(lambda k: k // n), tree(lambda k: k % n), \"(NP:1 cow)\"]
>>> pairs = tk.PairForest.from_brackets(left, [\"(Z z)\"] * 3)
>>> try:
...     tk.PairKernel(0.4)(pairs)
... except tk.pairs.ConstraintLimitError as error:
...     print((1, 0) in error.pairs, error.result[2].round(2))
True [0.   0.   0.16]
"
);

impl From<Error> for PyErr {
    fn from(error: Error) -> Self {
        match error {
            Error::Parse(ref parse) | Error::PairParse { error: ref parse, .. } => {
                let side = match &error {
                    Error::PairParse { side, .. } => Some(*side),
                    _ => None,
                };
                let raised = ParseError::new_err(error.to_string());
                let set = Python::attach(|py| {
                    let value = raised.value(py);
                    value.setattr("side", side)?;
                    value.setattr("tree", parse.tree)?;
                    value.setattr("line", parse.line)?;
                    value.setattr("column", parse.column)?;
                    value.setattr("offset", parse.offset)?;
                    value.setattr("expected", parse.expected)?;
                    value.setattr("got", &parse.got)?;
                    value.setattr("open", parse.open)?;
                    value.setattr("file", py.None())
                });
                // If an attribute cannot be set, that error is raised.
                set.err().unwrap_or(raised)
            }
            Error::ConstraintLimit { ref pairs, limit } => {
                let raised = ConstraintLimitError::new_err(error.to_string());
                let set = Python::attach(|py| {
                    let value = raised.value(py);
                    value.setattr("pairs", pairs)?;
                    value.setattr("max_constraints", limit)?;
                    value.setattr("result", py.None())
                });
                set.err().unwrap_or(raised)
            }
            Error::Array { .. }
            | Error::Length { .. }
            | Error::Expansion { .. }
            | Error::Indefinite { .. }
            | Error::TooManyFeatures { .. }
            | Error::Parameter { .. } => PyValueError::new_err(in_python(&error)),
            Error::Unsupported { kernel, what, ref can } => {
                let can: Vec<_> = can.iter().map(|name| class(name)).collect();
                PyValueError::new_err(format!(
                    "{} does not support {what}; use {}",
                    class(kernel),
                    listed(&can)
                ))
            }
            Error::Overflow { .. }
            | Error::VectorOverflow { .. }
            | Error::ScoreOverflow { .. } => {
                PyOverflowError::new_err(in_python(&error))
            }
            Error::Capacity { .. } | Error::Memory { .. } => {
                PyMemoryError::new_err(error.to_string())
            }
            Error::Search { .. } => PyRuntimeError::new_err(error.to_string()),
            Error::Interrupted => PyKeyboardInterrupt::new_err(()),
        }
    }
}

/// What a kernel is called in Python.
fn class(kernel: &str) -> String {
    match kernel {
        "Normalized" => "a kernel made by normalized()".to_owned(),
        "Polynomial" | "Gaussian" => kernel.to_owned(),
        "SmoothedPartialTree" => "PartialTreeKernel with a similarity".to_owned(),
        _ => format!("{kernel}Kernel"),
    }
}

/// The message with the names that things have in Python.
fn in_python(error: &Error) -> String {
    let text = error.to_string();
    match error {
        Error::Array { array: name, .. }
        | Error::Length { array: name, .. }
        | Error::Parameter { name, .. } => {
            let is_other = *name == "n_features";
            // It contains the other name, but is called so in Python, too.
            let other = if is_other {
                name.to_string()
            } else {
                name.replace("features", "X_vec")
            };
            text.replacen(name, &other, 1)
        }
        Error::Overflow { .. } | Error::ScoreOverflow { .. } => {
            text.replace("or normalise", "or use normalize=True")
        }
        Error::VectorOverflow { .. } => text.replace("a wider type", "float64"),
        _ => text,
    }
}
