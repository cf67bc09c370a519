//! Trees in brackets that come from Python, and `ForestBuilder`.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use super::forest::Forest;
use super::text::{TextSource, type_name};
use super::{Signals, interruptible};
use crate::memory::reserve;

/// See `Forest.from_brackets`; with a list for the errors, wrong items are left out.
pub(super) fn read_brackets(
    lines: &Bound<'_, PyAny>,
    skipped: Option<&mut Vec<PyErr>>,
) -> PyResult<crate::Forest> {
    let mut forest = crate::Forest::default();
    if let Some(text) = TextSource::of(lines)? {
        if skipped.is_some() {
            return Err(PyValueError::new_err(
                "errors='skip' needs an iterable of one text per tree: where one text \
                 goes on after an error is not known",
            ));
        }
        interruptible(lines.py(), |context| {
            let text = text.as_str(None, context)?;
            forest.push_brackets_with(text, context)
        })?;
    } else if is_column(lines)? {
        let adapters = lines.py().import("treekernel_rs._adapters")?;
        push_items(&mut forest, &adapters.call_method1("column", (lines,))?, skipped)?;
    } else {
        push_items(&mut forest, lines, skipped)?;
    }
    forest.shrink_to_fit();
    Ok(forest)
}

/// Whether an object gives its strings by Arrow's interface.
pub(super) fn is_column(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(object.hasattr("__arrow_c_stream__")? || object.hasattr("__arrow_c_array__")?)
}

/// Appends one tree per item. A failed call leaves the forest as it was; with a list for
/// the errors, wrong items are left out.
fn push_items(
    forest: &mut crate::Forest,
    items: &Bound<'_, PyAny>,
    skipped: Option<&mut Vec<PyErr>>,
) -> PyResult<()> {
    // What the iterable says of its length is not believed.
    let (mut texts, signals) = (Vec::new(), Signals::new(items.py()));
    for (tree, item) in items.try_iter()?.enumerate() {
        let item = item?;
        signals.check()?;
        reserve(&mut texts, 1)?;
        texts.push(match TextSource::of(&item)? {
            Some(text) => Ok(text),
            // An item of another type is wrong like one that is no tree: it is left
            // out.
            None if skipped.is_some() => {
                Err(not_text(tree, "str or bytes", type_name(&item)))
            }
            None => {
                return Err(PyTypeError::new_err(format!(
                    "tree {tree}: expected str or bytes, got {}; for trees that are \
                     objects use Forest.from_trees",
                    type_name(&item)
                )));
            }
        });
    }
    let mut errors = Vec::new();
    // `texts` keeps them alive, so they can be read without the interpreter.
    interruptible(items.py(), |context| {
        let items = texts.iter().enumerate().map(|(tree, text)| match text {
            Ok(text) => text.as_str(Some(tree), context),
            Err(error) => Err(error.clone()),
        });
        forest.push_some_items(items, context, |error| {
            if skipped.is_none() {
                return Err(error);
            }
            errors.push(error);
            Ok(())
        })
    })?;
    if let Some(skipped) = skipped
        && !errors.is_empty()
    {
        skipped.extend(errors.into_iter().map(PyErr::from));
        // What was read of them must not stay.
        *forest = crate::Forest::default().concat(forest)?;
    }
    Ok(())
}

fn not_text(tree: usize, expected: &'static str, got: String) -> crate::Error {
    let (line, column, offset, open) = (1, 1, 0, None);
    Box::new(crate::ParseError { tree, line, column, offset, expected, got, open })
        .into()
}

/// A forest that grows by pieces, for readers that do not hold a file's whole text.
#[pyclass(module = "treekernel_rs._core", name = "ForestBuilder")]
pub(super) struct ForestBuilder(crate::Forest);

#[pymethods]
impl ForestBuilder {
    #[new]
    fn new() -> Self {
        Self(crate::Forest::default())
    }

    /// Append one tree per item. A failed call leaves the forest as it was.
    fn extend(&mut self, items: &Bound<'_, PyAny>) -> PyResult<()> {
        push_items(&mut self.0, items, None)
    }

    /// Hand over the forest; the builder is empty again.
    fn finish(&mut self) -> Forest {
        let mut forest = std::mem::take(&mut self.0);
        forest.shrink_to_fit();
        Forest(forest)
    }
}
