//! Trees, forests and arrays that come as Python objects.

use std::collections::HashSet;

use numpy::{PyArray1, PyArrayMethods};
use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyIterator, PyList, PyString, PyTuple};

use super::forest::{self, Tree, in_range, type_name};
use crate::{Error, Forest, Label, NodeId, Nodes};

/// What is taken for a forest wherever one is expected: a `Forest`, bracketed text, or a
/// list of either bracketed strings or objects.
pub(super) fn forest_of(object: &Bound<'_, PyAny>) -> PyResult<Forest> {
    if let Ok(known) = object.cast::<forest::Forest>() {
        return Ok(known.get().0.clone());
    }
    if is_text(object) {
        return Ok(forest::Forest::from_brackets(object)?.0);
    }
    if object.hasattr("label")? || object.try_iter().is_err() {
        return Err(PyTypeError::new_err(format!(
            "expected a Forest or a list of bracketed strings, got {}",
            type_name(object)
        )));
    }
    let items: Vec<Bound<'_, PyAny>> = object.try_iter()?.collect::<PyResult<_>>()?;
    let all_text = items.iter().all(is_text);
    let items = PyList::new(object.py(), items)?.into_any();
    if all_text {
        Ok(forest::Forest::from_brackets(&items)?.0)
    } else {
        from_trees(&items)
    }
}

/// What is taken for a tree: a `Tree`, bracketed text, or an object as in `from_trees`.
pub(super) fn tree_of(object: &Bound<'_, PyAny>) -> PyResult<Forest> {
    if let Ok(known) = object.cast::<Tree>() {
        return Ok(known.get().forest());
    }
    let one = PyList::new(object.py(), [object])?.into_any();
    if is_text(object) {
        Ok(forest::Forest::from_brackets(&one)?.0)
    } else {
        from_trees(&one)
    }
}

fn is_text(object: &Bound<'_, PyAny>) -> bool {
    object.is_instance_of::<PyString>() || object.is_instance_of::<PyBytes>()
}

/// An object whose children are being read.
struct Open<'py> {
    label: Label,
    first_child: usize,
    children: Bound<'py, PyIterator>,
    address: usize,
}

/// What a Python object says of itself.
enum Node<'py> {
    Leaf(Bound<'py, PyString>),
    Inner(Bound<'py, PyAny>, Bound<'py, PyIterator>),
}

/// See `Forest.from_trees`.
pub(super) fn from_trees(objects: &Bound<'_, PyAny>) -> PyResult<Forest> {
    if objects.is_instance_of::<PyString>() || objects.hasattr("label")? {
        return Err(PyTypeError::new_err(format!(
            "expected an iterable of trees, got one {}; put it in a list",
            type_name(objects)
        )));
    }
    let mut forest = Forest::default();
    let mut failure = None;
    // The core's error is a stand-in: what matters is that it rolls back.
    let built = forest.extend_with(|nodes, roots| {
        let mut reader = Reader::default();
        let mut read = || -> PyResult<()> {
            for (tree, object) in objects.try_iter()?.enumerate() {
                roots.push(reader.tree(&object?, nodes, tree)?);
                objects.py().check_signals()?;
            }
            Ok(())
        };
        read().map_err(|error| {
            failure = Some(error);
            Error::Interrupted
        })
    });
    if let Some(error) = failure {
        return Err(error);
    }
    built?;
    forest.shrink_to_fit();
    Ok(forest)
}

#[derive(Default)]
struct Reader<'py> {
    open: Vec<Open<'py>>,
    children: Vec<NodeId>,
    /// Objects that are being read: one met again below itself would never end.
    path: HashSet<usize>,
}

impl<'py> Reader<'py> {
    fn tree(
        &mut self,
        object: &Bound<'py, PyAny>,
        nodes: &mut Nodes,
        tree: usize,
    ) -> PyResult<NodeId> {
        self.open.clear();
        self.children.clear();
        self.path.clear();
        self.enter(object, nodes, tree)?;
        while let Some(top) = self.open.last_mut() {
            match top.children.next() {
                Some(child) => self.enter(&child?, nodes, tree)?,
                None => {
                    if let Some(done) = self.open.pop() {
                        self.path.remove(&done.address);
                        let below = &self.children[done.first_child..];
                        let node = nodes.intern(done.label, below)?;
                        self.children.truncate(done.first_child);
                        self.children.push(node);
                    }
                }
            }
        }
        Ok(self.children[0])
    }

    fn enter(
        &mut self,
        object: &Bound<'py, PyAny>,
        nodes: &mut Nodes,
        tree: usize,
    ) -> PyResult<()> {
        if let Ok(known) = object.cast::<Tree>() {
            let (there, root) = known.get().parts();
            self.children.push(nodes.absorb_one(there, root)?);
            return Ok(());
        }
        match read(object, tree)? {
            Node::Leaf(label) => {
                let label = intern(nodes, label.as_any(), tree)?;
                self.children.push(nodes.intern_leaf(label)?);
            }
            Node::Inner(label, children) => {
                let address = object.as_ptr() as usize;
                if !self.path.insert(address) {
                    return Err(PyValueError::new_err(format!(
                        "tree {tree}: expected a tree, got a {} that contains itself",
                        type_name(object)
                    )));
                }
                let label = intern(nodes, &label, tree)?;
                let first_child = self.children.len();
                self.open.push(Open { label, first_child, children, address });
            }
        }
        Ok(())
    }
}

fn intern(nodes: &mut Nodes, label: &Bound<'_, PyAny>, tree: usize) -> PyResult<Label> {
    let Ok(label) = label.cast::<PyString>() else {
        return Err(PyTypeError::new_err(format!(
            "tree {tree}: expected a label that is a str, got {}",
            type_name(label)
        )));
    };
    let label = label.to_str().map_err(|_| {
        PyValueError::new_err(format!(
            "tree {tree}: expected a label that is Unicode text, got a lone surrogate in \
             {}",
            label.repr().map_or_else(|_| "it".to_owned(), |r| r.to_string())
        ))
    })?;
    Ok(nodes.labels_mut().intern(label)?)
}

/// Tells what kind of tree an object is. A tuple comes first, as it has neither
/// attribute; `label` decides between an `nltk.Tree`, which is the list of its children,
/// and objects that have `children`.
fn read<'py>(object: &Bound<'py, PyAny>, tree: usize) -> PyResult<Node<'py>> {
    if let Ok(leaf) = object.cast::<PyString>() {
        return Ok(Node::Leaf(leaf.clone()));
    }
    if let Ok(tuple) = object.cast::<PyTuple>() {
        let expected = "(label, children)";
        return match tuple.len() {
            1 => Ok(Node::Inner(
                tuple.get_item(0)?,
                PyList::empty(object.py()).try_iter()?,
            )),
            2 => Ok(Node::Inner(
                tuple.get_item(0)?,
                children(&tuple.get_item(1)?, tree)?,
            )),
            n => Err(PyValueError::new_err(format!(
                "tree {tree}: expected {expected}, got a tuple of {n}"
            ))),
        };
    }
    let value = |name: &str| -> PyResult<Option<Bound<'py, PyAny>>> {
        match object.getattr_opt(name)? {
            Some(method) if method.is_callable() => method.call0().map(Some),
            other => Ok(other),
        }
    };
    match (value("label")?, value("children")?) {
        (Some(label), Some(below)) => Ok(Node::Inner(label, children(&below, tree)?)),
        (Some(label), None) => Ok(Node::Inner(label, children(object, tree)?)),
        (None, _) => Err(PyTypeError::new_err(format!(
            "tree {tree}: expected a tuple, a str or an object with label and children, \
             got {}",
            type_name(object)
        ))),
    }
}

fn children<'py>(
    object: &Bound<'py, PyAny>,
    tree: usize,
) -> PyResult<Bound<'py, PyIterator>> {
    // A str is iterable, but ("NN", "dog") means one leaf, or is a slip: say so.
    if !object.is_instance_of::<PyString>()
        && let Ok(children) = object.try_iter()
    {
        return Ok(children);
    }
    Err(PyTypeError::new_err(format!(
        "tree {tree}: expected a list of children, got {}",
        type_name(object)
    )))
}

/// See `Forest.from_arrays`.
pub(super) fn from_arrays(
    labels: &Bound<'_, PyAny>,
    parents: &Bound<'_, PyAny>,
    offsets: &Bound<'_, PyAny>,
    names: Option<&Bound<'_, PyAny>>,
    name_offsets: Option<&Bound<'_, PyAny>>,
) -> PyResult<Forest> {
    let py = labels.py();
    let parents = integers("parents", parents)?;
    let offsets = integers("offsets", offsets)?;
    let (names, labels) = match (names, name_offsets) {
        (Some(names), Some(ends)) => (
            split_names(names, &integers("name_offsets", ends)?)?,
            integers("labels", labels)?,
        ),
        (Some(names), None) => (strings("names", names)?, integers("labels", labels)?),
        (None, Some(_)) => {
            return Err(PyValueError::new_err("name_offsets needs names, got None"));
        }
        (None, None) => {
            if let Ok(labels) = integers("labels", labels) {
                // Sorted, not indexed by value: a label of 10^15 is no reason to fail.
                let mut values = labels.clone();
                values.sort_unstable();
                values.dedup();
                let number = |l| values.binary_search(l).unwrap_or(0) as i64;
                let numbers = labels.iter().map(number).collect();
                (values.iter().map(i64::to_string).collect(), numbers)
            } else {
                let names = strings("labels", labels)?;
                let numbers = (0..names.len() as i64).collect();
                (names, numbers)
            }
        }
    };
    let build = || Forest::from_arrays(&names, &labels, &parents, &offsets);
    Ok(py.detach(build)?)
}

/// A one-dimensional array of integers, copied: nobody can change it under our feet.
pub(super) fn integers(name: &str, object: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
    let array = object.py().import("numpy")?.call_method1("asarray", (object,))?;
    let wrong = |got: String| {
        let expected = "a one-dimensional array of integers";
        PyValueError::new_err(format!("{name}: expected {expected}, got {got}"))
    };
    let dimensions: usize = array.getattr("ndim")?.extract()?;
    if dimensions != 1 {
        return Err(wrong(format!("{dimensions} dimensions")));
    }
    let dtype = array.getattr("dtype")?;
    let kind: String = dtype.getattr("kind")?.extract()?;
    if array.len()? == 0 {
        return Ok(Vec::new());
    }
    if !matches!(kind.as_str(), "i" | "u") {
        return Err(wrong(format!("dtype {dtype}")));
    }
    let array = array.call_method1("astype", ("int64",))?;
    Ok(array.cast::<PyArray1<i64>>()?.to_vec()?)
}

fn strings(name: &str, object: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    let wrong = |got: String| {
        PyTypeError::new_err(format!("{name}: expected a sequence of str, got {got}"))
    };
    if object.is_instance_of::<PyString>() {
        return Err(wrong("one str".to_owned()));
    }
    let items = object.try_iter().map_err(|_| wrong(type_name(object)))?;
    let mut names = Vec::new();
    for (index, item) in items.enumerate() {
        let item = item?;
        let Ok(item) = item.cast::<PyString>() else {
            return Err(wrong(format!("{} at {index}", type_name(&item))));
        };
        names.push(item.to_str().map(str::to_owned).map_err(|_| {
            PyValueError::new_err(format!(
                "{name}[{index}]: expected Unicode text, got a lone surrogate"
            ))
        })?);
    }
    Ok(names)
}

pub(super) fn split_names(
    names: &Bound<'_, PyAny>,
    ends: &[i64],
) -> PyResult<Vec<String>> {
    let Ok(bytes) = names.cast::<PyArray1<u8>>() else {
        return Err(PyTypeError::new_err(format!(
            "names: expected an array of uint8 to go with name_offsets, got {}",
            type_name(names)
        )));
    };
    let bytes = bytes.to_vec()?;
    let wrong = |index: usize, expected: &str, got: String| {
        PyValueError::new_err(format!(
            "name_offsets[{index}]: expected {expected}, got {got}"
        ))
    };
    if ends.first() != Some(&0) {
        let got = ends.first().map_or("nothing".to_owned(), i64::to_string);
        return Err(wrong(0, "0", got));
    }
    let mut split = Vec::with_capacity(ends.len() - 1);
    for (index, pair) in ends.windows(2).enumerate() {
        let range = usize::try_from(pair[0]).ok().zip(usize::try_from(pair[1]).ok());
        let name =
            range.and_then(|(start, end)| bytes.get(start..end)).ok_or_else(|| {
                let expected = format!("{} to {}", pair[0], bytes.len());
                wrong(index + 1, &expected, pair[1].to_string())
            })?;
        split.push(String::from_utf8(name.to_vec()).map_err(|error| {
            PyValueError::new_err(format!(
                "names: expected UTF-8 in name {index}, got {error}"
            ))
        })?);
    }
    if ends.last() != Some(&(bytes.len() as i64)) {
        let last = ends.len() - 1;
        let expected = format!("{}, the length of names", bytes.len());
        return Err(wrong(last, &expected, ends[last].to_string()));
    }
    Ok(split)
}

/// A boolean mask or an array of indices, as indices.
pub(super) fn indices(index: &Bound<'_, PyAny>, len: usize) -> PyResult<Vec<usize>> {
    let wrong = |got: String| {
        PyIndexError::new_err(format!(
            "expected an int, a slice, a boolean mask or an array of ints, got {got}"
        ))
    };
    if index.is_instance_of::<PyString>() {
        return Err(wrong("a str".to_owned()));
    }
    let array = index.py().import("numpy")?.call_method1("asarray", (index,))?;
    if array.getattr("ndim")?.extract::<usize>()? != 1 {
        return Err(wrong(type_name(index)));
    }
    if let Ok(mask) = array.cast::<PyArray1<bool>>() {
        let mask = mask.to_vec()?;
        if mask.len() != len {
            return Err(PyIndexError::new_err(format!(
                "a mask of {} entries does not fit {len} trees",
                mask.len()
            )));
        }
        return Ok((0..len).filter(|&i| mask[i]).collect());
    }
    let indices = integers("index", &array).map_err(|_| wrong(type_name(index)))?;
    indices.into_iter().map(|i| in_range(i as isize, len)).collect()
}
