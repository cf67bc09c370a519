//! `Tree`, and the iterator over a forest's trees.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use super::forest::{Forest, equal, first_of};
use super::{detached, interruptible};
use crate::NodeId;
use crate::forest as core;

/// One tree of a forest, or a subtree of one.
///
/// Examples
/// --------
/// >>> import treekernel_rs as tk
/// >>> tree = tk.Forest.from_brackets("(S (NP dogs) (VP bark))")[0]
/// >>> tree.label, tree.n_nodes, tree.depth
/// ('S', 5, 3)
/// >>> [str(child) for child in tree.children]
/// ['(NP dogs)', '(VP bark)']
#[pyclass(frozen, module = "treekernel_rs", name = "Tree")]
pub(super) struct Tree {
    nodes: Arc<core::Nodes>,
    root: NodeId,
}

/// Threads that share one get each tree once.
#[pyclass(frozen, module = "treekernel_rs._core", name = "TreeIterator")]
pub(super) struct TreeIterator {
    forest: Py<Forest>,
    next: AtomicUsize,
}

#[pymethods]
impl Tree {
    /// The root's label.
    #[getter]
    fn label(&self) -> &str {
        self.nodes.name(self.root)
    }

    /// The subtrees below the root, in order; an empty list for a leaf.
    #[getter]
    fn children<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let children = self.nodes.children(self.root).iter();
        PyList::new(
            py,
            children.map(|&root| Self { nodes: Arc::clone(&self.nodes), root }),
        )
    }

    /// The number of nodes, leaves included; 2^64 - 1 stands for all larger numbers.
    #[getter]
    fn n_nodes(&self, py: Python<'_>) -> PyResult<u64> {
        detached(py, || self.nodes.try_size(self.root))
    }

    /// The number of nodes on the longest path from the root to a leaf.
    #[getter]
    fn depth(&self, py: Python<'_>) -> PyResult<u64> {
        detached(py, || self.nodes.try_depth(self.root))
    }

    /// Go through the nodes in preorder, each with its number, parent and path.
    ///
    /// Parameters
    /// ----------
    /// spans : array_like of int, shape (n_nodes, 2), optional
    ///     The first and last line of each node in its source, 0 where they are not known.
    ///
    /// Returns
    /// -------
    /// iterator of Node
    ///     In the order of `to_arrays`, `EditDistance.mapping` and `contributions`.
    ///
    /// Examples
    /// --------
    /// >>> import treekernel_rs as tk
    /// >>> tree = tk.Forest.from_brackets("(S (NP dogs) (VP bark))")[0]
    /// >>> [(node.number, node.label) for node in tree.walk()]
    /// [(0, 'S'), (1, 'NP'), (2, 'dogs'), (3, 'VP'), (4, 'bark')]
    /// >>> list(tree.walk())[4].path
    /// ['S', 'VP', 'bark']
    #[pyo3(signature = (spans=None))]
    fn walk<'py>(
        slf: &Bound<'py, Self>,
        spans: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let nodes = slf.py().import("treekernel_rs.nodes")?;
        nodes.getattr("walk")?.call1((slf, spans))
    }

    fn __str__(&self, py: Python<'_>) -> PyResult<String> {
        let forest = self.forest();
        let texts = interruptible(py, |context| forest.to_brackets_with(context))?;
        Ok(texts.into_iter().next().unwrap_or_default())
    }

    fn __repr__(&self) -> PyResult<String> {
        let mut text = String::new();
        // By characters, as a cut within one would panic.
        if !self.nodes.print(self.root, 200, &mut text)? {
            text.truncate(
                text.char_indices().nth(200).map_or(text.len(), |(at, _)| at),
            );
            text.push_str("...");
        }
        Ok(format!("<Tree {text}>"))
    }

    /// The picture that a notebook shows: `draw(tree)`. None where a tree is too large
    /// for one, for a display must not fail.
    fn _repr_svg_<'py>(slf: &Bound<'py, Self>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = slf.py();
        let draw = py.import("treekernel_rs.drawing")?.getattr("draw")?;
        match draw.call1((slf,)) {
            Ok(picture) => Ok(Some(picture.getattr("svg")?)),
            Err(error) if error.is_instance_of::<PyValueError>(py) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn __eq__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        equal(other, |other: &Self| self.equals(other))
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<u64> {
        detached(py, || self.nodes.try_content_hash(self.root))
    }

    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf // immutable
    }

    fn __deepcopy__(slf: Py<Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        slf
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        first_of(Bound::new(py, Forest(self.forest()))?.as_any())
    }
}

impl Tree {
    pub(super) fn new(nodes: Arc<core::Nodes>, root: NodeId) -> Self {
        Self { nodes, root }
    }

    /// The store, and the root in it.
    pub(super) fn parts(&self) -> (&core::Nodes, NodeId) {
        (&self.nodes, self.root)
    }

    pub(super) fn forest(&self) -> crate::Forest {
        crate::Forest::new(Arc::clone(&self.nodes), vec![self.root])
    }

    fn equals(&self, other: &Self) -> crate::Result<bool> {
        if Arc::ptr_eq(&self.nodes, &other.nodes) {
            return Ok(self.root == other.root);
        }
        // Another store: the tree is looked up there by its content.
        let there = self.nodes.try_find_in(self.root, &other.nodes)?;
        Ok(there == Some(other.root))
    }
}

impl TreeIterator {
    pub(super) fn new(forest: Bound<'_, Forest>) -> Self {
        Self { forest: forest.unbind(), next: AtomicUsize::new(0) }
    }
}

#[pymethods]
impl TreeIterator {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self) -> Option<Tree> {
        let forest = &self.forest.get().0;
        let root = *forest.roots().get(self.next.fetch_add(1, Relaxed))?;
        Some(Tree::new(Arc::clone(forest.nodes()), root))
    }
}
