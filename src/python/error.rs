//! Core errors as Python exceptions: each named once, here.

use crate::Error;
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
    What would have been right there, and what stands there.
open : tuple of int or None
    Line and column of the innermost bracket that is still open.
file : str or None
    The file, where one was read: then line, column and offset count within it.

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

impl From<Error> for PyErr {
    fn from(error: Error) -> Self {
        match error {
            Error::Parse(ref parse) => {
                let raised = ParseError::new_err(error.to_string());
                let set = Python::attach(|py| {
                    let value = raised.value(py);
                    value.setattr("tree", parse.tree)?;
                    value.setattr("line", parse.line)?;
                    value.setattr("column", parse.column)?;
                    value.setattr("offset", parse.offset)?;
                    value.setattr("expected", parse.expected)?;
                    value.setattr("got", &parse.got)?;
                    value.setattr("open", parse.open)?;
                    value.setattr("file", py.None())
                });
                set.err().unwrap_or(raised)
            }
            Error::Array { .. } | Error::Length { .. } | Error::Parameter { .. } => {
                PyValueError::new_err(error.to_string())
            }
            Error::Overflow { .. }
            | Error::VectorOverflow { .. }
            | Error::ScoreOverflow { .. }
            | Error::SelfOverflow { .. } => PyOverflowError::new_err(error.to_string()),
            Error::Capacity { .. } => PyMemoryError::new_err(error.to_string()),
            Error::Search { .. } => PyRuntimeError::new_err(error.to_string()),
            Error::Interrupted => PyKeyboardInterrupt::new_err(()),
        }
    }
}
