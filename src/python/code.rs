//! Syntax trees, read at native speed: those of Python's `ast`, whose classes say what is
//! a child, and those of tree-sitter, by a cursor (a list of children per node takes
//! several times as long).

use std::borrow::Cow;
use std::collections::HashMap;
use std::slice;
use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyType};

use super::Signals;
use super::forest::Forest;
use super::objects::{extended, intern as interned};
use super::text::Text;
use crate::forest::{MAX_NODES, check_size};
use crate::memory::{push, reserve};
use crate::{Label, NodeId};

/// A forest that grows by the trees of source code.
#[pyclass(module = "treekernel_rs._core", name = "CodeBuilder")]
pub(super) struct CodeBuilder {
    /// The trees so far.
    forest: crate::Forest,
    /// What to make of a class of `ast`, or of a symbol of a grammar; see `readers._code`.
    describe: Py<PyAny>,
    /// By the address of a class, which is kept alive: no other one can have it.
    classes: HashMap<usize, (Py<PyType>, Arc<Class>)>,
    /// By the number of a symbol in its grammar.
    symbols: HashMap<u16, Arc<Symbol>>,
}

/// A class of `ast`: its label; its fields, each with the label of the node that wraps
/// what is in it, if any, and a callable that says whether its first item is left out;
/// whether its strings are leaves; a callable for leaves that stand in no field.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Class {
    label: Text,
    fields: Vec<Field>,
    keep_text: bool,
    leaves: Option<Py<PyAny>>,
}

type Field = (Py<PyString>, Option<Text>, Option<Py<PyAny>>);

/// A symbol of a grammar: its label, None where it is left out, and what becomes of the
/// text of a leaf.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Symbol {
    label: Option<Text>,
    keep_text: bool,
    is_root: bool,
}

/// First and last line of a node.
type Lines = (i64, i64);

/// What is left to do, last things first; with the lines of the node above.
enum Todo<'py> {
    Object(Bound<'py, PyAny>, Lines),
    Wrap(Label, Vec<Bound<'py, PyAny>>, Lines),
    Close(Label, usize),
}

#[pymethods]
impl CodeBuilder {
    #[new]
    fn new(describe: Py<PyAny>) -> Self {
        Self {
            forest: crate::Forest::default(),
            describe,
            classes: HashMap::new(),
            symbols: HashMap::new(),
        }
    }

    /// Append the tree of a node of `ast`. One that contains itself exceeds the limit.
    ///
    /// With `lines`, those of the whole, return the lines of all nodes in preorder. Nodes
    /// without lines of their own have those of the node above, wrappers those of what is
    /// in them.
    #[pyo3(signature = (node, lines=None))]
    fn push_ast<'py>(
        &mut self,
        node: Bound<'py, PyAny>,
        lines: Option<Lines>,
    ) -> PyResult<Vec<Lines>> {
        let py = node.py();
        let Self { forest, describe, classes, .. } = self;
        let mut class_of = |object: &Bound<'py, PyAny>| -> PyResult<Arc<Class>> {
            let class = object.get_type();
            if let Some((_, class)) = classes.get(&(class.as_ptr() as usize)) {
                return Ok(Arc::clone(class));
            }
            let new: Arc<Class> =
                Arc::new(describe.bind(py).call1((&class,))?.extract()?);
            let entry = (class.clone().unbind(), Arc::clone(&new));
            classes.insert(class.as_ptr() as usize, entry);
            Ok(new)
        };
        let mut found = Vec::new();
        let mut wanted_lines =
            |items: &[Bound<'py, PyAny>], above| -> PyResult<Lines> {
                if lines.is_none() {
                    return Ok(above);
                }
                let at = lines_of(items, above)?;
                push(&mut found, at)?;
                Ok(at)
            };
        let signals = Signals::new(py);
        extended(forest, |nodes, roots| {
            let mut todo = vec![Todo::Object(node, lines.unwrap_or_default())];
            let (mut children, mut n_steps): (Vec<NodeId>, u64) = (Vec::new(), 0);
            while let Some(next) = todo.pop() {
                n_steps += 1;
                // A node takes at most two steps: one that opens it and one that closes
                // it.
                check_size("the tree", "nodes", n_steps, 2 * MAX_NODES)?;
                signals.check()?;
                reserve(&mut children, 1)?;
                let (object, above) = match next {
                    Todo::Close(label, first) => {
                        let node = nodes.intern(label, &children[first..])?;
                        children.truncate(first);
                        children.push(node);
                        continue;
                    }
                    Todo::Wrap(label, items, above) => {
                        let at = wanted_lines(&items, above)?;
                        todo.push(Todo::Close(label, children.len()));
                        let items = items.into_iter().rev();
                        todo.extend(items.map(|item| Todo::Object(item, at)));
                        continue;
                    }
                    Todo::Object(object, above) => (object, above),
                };
                let at = wanted_lines(slice::from_ref(&object), above)?;
                if object.is_instance_of::<PyString>() {
                    let label = interned(nodes, &object, roots.len())?;
                    children.push(nodes.intern_leaf(label)?);
                    continue;
                }
                let class = class_of(&object)?;
                let label = nodes.labels_mut().intern(&class.label)?;
                todo.push(Todo::Close(label, children.len()));
                // Pushed in the order of leaves and fields; reversed below, as the last
                // is done first.
                let first = todo.len();
                if let Some(leaves) = &class.leaves {
                    for leaf in leaves.bind(py).call1((&object,))?.try_iter()? {
                        let (label, below): (Bound<'_, PyAny>, Vec<_>) =
                            leaf?.extract()?;
                        let label = interned(nodes, &label, roots.len())?;
                        todo.push(Todo::Wrap(label, below, at));
                    }
                }
                for (field, wrapper, skips) in &class.fields {
                    let Some(value) = object.getattr_opt(field.bind(py))? else {
                        continue;
                    };
                    let mut items = items_in(value, class.keep_text)?;
                    if let (Some(skips), Some(first)) = (skips, items.first())
                        && skips.bind(py).call1((first,))?.is_truthy()?
                    {
                        items.remove(0);
                    }
                    match wrapper {
                        // A field without items has no node.
                        Some(_) if items.is_empty() => {}
                        Some(name) => {
                            let label = nodes.labels_mut().intern(name)?;
                            todo.push(Todo::Wrap(label, items, at));
                        }
                        None => todo.extend(
                            items.into_iter().map(|item| Todo::Object(item, at)),
                        ),
                    }
                }
                todo[first..].reverse();
            }
            roots.extend(children);
            Ok(())
        })?;
        Ok(found)
    }

    /// Append the trees below a cursor of tree-sitter, and return their root nodes: the
    /// outermost nodes that the description calls roots.
    ///
    /// `texts` has, by their first bytes, leaves with another text than their own, or
    /// without (None).
    #[pyo3(signature = (cursor, source, texts=None))]
    fn push_cursor<'py>(
        &mut self,
        cursor: &Bound<'py, PyAny>,
        source: &Bound<'py, PyBytes>,
        texts: Option<HashMap<usize, Option<Text>>>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let (py, source) = (cursor.py(), source.as_bytes());
        let texts = texts.unwrap_or_default();
        let Self { forest, describe, symbols, .. } = self;
        let mut symbol_of = |node: &Bound<'py, PyAny>| -> PyResult<Arc<Symbol>> {
            let id: u16 = node.getattr(intern!(py, "kind_id"))?.extract()?;
            if let Some(symbol) = symbols.get(&id) {
                return Ok(Arc::clone(symbol));
            }
            let new: Arc<Symbol> =
                Arc::new(describe.bind(py).call1((node,))?.extract()?);
            symbols.insert(id, Arc::clone(&new));
            Ok(new)
        };
        let go = |to: &Bound<'py, PyString>| -> PyResult<bool> {
            cursor.call_method0(to)?.is_truthy()
        };
        let (first, next, up) = (
            intern!(py, "goto_first_child"),
            intern!(py, "goto_next_sibling"),
            intern!(py, "goto_parent"),
        );
        let signals = Signals::new(py);
        extended(forest, |nodes, roots| {
            let mut found = Vec::new();
            // Nodes that are open; None for those around the trees.
            let mut open: Vec<Option<(Label, usize)>> = Vec::new();
            let mut children: Vec<NodeId> = Vec::new();
            loop {
                signals.check()?;
                reserve(&mut children, 1)?;
                reserve(&mut open, 1)?;
                let node = cursor.getattr(intern!(py, "node"))?;
                let symbol = symbol_of(&node)?;
                // Nodes around the outermost roots only lead to them.
                let inside = open.last().is_some_and(Option::is_some);
                let is_root = symbol.is_root && !inside;
                if let Some(name) = &symbol.label {
                    let mut label = None;
                    if inside || is_root {
                        label = Some(nodes.labels_mut().intern(name)?);
                    }
                    // The cursor stands on the child now: this node is closed when it
                    // comes up again.
                    if go(first)? {
                        open.push(label.map(|label| (label, children.len())));
                        if is_root {
                            found.push(node);
                        }
                        continue;
                    }
                    if let Some(label) = label {
                        let mut leaf = nodes.intern(label, &[])?;
                        // The text is a leaf of its own below the symbol.
                        if symbol.keep_text {
                            let at = |name| node.getattr(name)?.extract::<usize>();
                            let start = at(intern!(py, "start_byte"))?;
                            let text = if let Some(text) = texts.get(&start) {
                                text.as_deref().map(Cow::Borrowed)
                            } else {
                                let end = at(intern!(py, "end_byte"))?;
                                let text = source.get(start..end).unwrap_or_default();
                                Some(String::from_utf8_lossy(text))
                            };
                            if let Some(text) = text {
                                let text = nodes.labels_mut().intern(&text)?;
                                let text = nodes.intern_leaf(text)?;
                                leaf = nodes.intern(label, &[text])?;
                            }
                        }
                        if is_root {
                            found.push(node);
                            roots.push(leaf);
                        } else {
                            children.push(leaf);
                        }
                    }
                }
                // Without a sibling the cursor goes up, and closes what it leaves.
                while !go(next)? {
                    if !go(up)? {
                        return Ok(found);
                    }
                    if let Some(Some((label, start))) = open.pop() {
                        let node = nodes.intern(label, &children[start..])?;
                        children.truncate(start);
                        if open.last().is_some_and(Option::is_some) {
                            children.push(node);
                        } else {
                            roots.push(node);
                        }
                    }
                }
            }
        })
    }

    /// Hand over the forest; the builder is empty again.
    fn finish(&mut self) -> Forest {
        let mut forest = std::mem::take(&mut self.forest);
        forest.shrink_to_fit();
        Forest(forest)
    }
}

/// From the first line of the first node of `ast` to the last line of the last one; of
/// those without lines, the lines of the node above.
fn lines_of(items: &[Bound<'_, PyAny>], above: Lines) -> PyResult<Lines> {
    let (Some(first), Some(last)) = (items.first(), items.last()) else {
        return Ok(above);
    };
    let line = |object: &Bound<'_, PyAny>, name| -> PyResult<Option<i64>> {
        let found = object.getattr_opt(name)?;
        found.map_or(Ok(None), |line| line.extract())
    };
    Ok((
        line(first, intern!(first.py(), "lineno"))?.unwrap_or(above.0),
        line(last, intern!(last.py(), "end_lineno"))?.unwrap_or(above.1),
    ))
}

/// The nodes and strings that a field holds, one or a list of them.
fn items_in<'py>(
    value: Bound<'py, PyAny>,
    keep_text: bool,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let py = value.py();
    let mut items = Vec::new();
    let mut keep = |item: Bound<'py, PyAny>, in_list| -> PyResult<()> {
        if item.is_none() {
            // None in a list holds a place, as in the keys of `{**a}`.
            if in_list {
                items.push(intern!(py, "None").clone().into_any());
            }
        } else if item.is_instance_of::<PyString>() {
            if keep_text {
                items.push(item);
            }
        } else if item.hasattr(intern!(py, "_fields"))? {
            items.push(item);
        }
        Ok(())
    };
    if let Ok(list) = value.cast::<PyList>() {
        for item in list {
            keep(item, true)?;
        }
    } else {
        keep(value, false)?;
    }
    Ok(items)
}
