//! `Forest` and `Tree`.

use std::sync::Arc;

use numpy::{IntoPyArray, PyArray1};
use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{PyBool, PyBytes, PyDict, PyList, PySlice, PyString, PyTuple};

use super::{Progress, interruptible};
use crate::forest as core;
use crate::{NodeId, parse};

/// A list of trees over a shared store of distinct subtrees.
///
/// Equal subtrees are stored once, whichever trees they stand in, so a forest takes
/// memory by what is different, and comparing two subtrees is comparing two integers.
/// Forests are immutable; what is cut out of one shares its store.
///
/// Build one with `from_brackets`, `from_trees` or `from_arrays`.
///
/// Examples
/// --------
/// >>> import treekernel_rs as tk
/// >>> forest = tk.Forest.from_brackets(["(S (NP dogs) (VP bark))", "(NP dogs)"])
/// >>> forest
/// <Forest: 2 trees, 7 nodes, 5 distinct subtrees>
/// >>> forest[0].children[0] == forest[1]
/// True
#[pyclass(frozen, module = "treekernel_rs", name = "Forest", sequence)]
pub(super) struct Forest(pub(super) crate::Forest);

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

#[pyclass(module = "treekernel_rs._core", name = "TreeIterator")]
pub(super) struct TreeIterator {
    forest: Py<Forest>,
    next: usize,
}

#[pymethods]
impl Forest {
    /// Read trees from bracketed text.
    ///
    /// Parameters
    /// ----------
    /// lines : str, bytes or iterable of str or bytes
    ///     One text holding one or more trees, or an iterable whose items hold exactly
    ///     one tree each (a list, an open file, a generator). Bytes are UTF-8.
    ///
    /// Both notations are read, mixed at will: ``(NN dog)`` and ``(NN (dog))``. Blanks
    /// between brackets are optional and an empty bracket around a tree, as in the
    /// Penn Treebank's files, is dropped. In a label, ``\(``, ``\)``, ``\\`` and a
    /// backslash before a blank stand for that character; ``\e`` is the empty label;
    /// any other backslash is an ordinary character.
    ///
    /// Returns
    /// -------
    /// Forest
    ///
    /// Raises
    /// ------
    /// ParseError
    ///     With tree number, line, column, offset, what was expected and what was got.
    ///
    /// Examples
    /// --------
    /// >>> import treekernel_rs as tk
    /// >>> forest = tk.Forest.from_brackets("(S (A a)) (S(A(a))(B(b)))")
    /// >>> forest.to_brackets()
    /// ['(S (A a))', '(S (A a) (B b))']
    /// >>> tk.Forest.from_brackets(["(S (A a))", "(S (A a)"])
    /// Traceback (most recent call last):
    ///     ...
    /// treekernel_rs.ParseError: tree 1, line 1, column 9 (byte 8): expected ')', got the end of the text; the bracket opened at line 1, column 1 is open
    #[staticmethod]
    pub(super) fn from_brackets(lines: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut forest = crate::Forest::default();
        if let Some(text) = Text::of(lines, None)? {
            let text = text.as_str(None)?;
            interruptible(lines.py(), &Progress::none(), |watch| {
                forest.push_brackets(text, || watch(0, 0))?;
                forest.shrink_to_fit();
                Ok(())
            })?;
            return Ok(Self(forest));
        }
        push_items(&mut forest, lines)?;
        forest.shrink_to_fit();
        Ok(Self(forest))
    }

    /// Convert trees that are Python objects.
    ///
    /// Parameters
    /// ----------
    /// objects : iterable
    ///     Trees: ``(label, [children])`` tuples; ``nltk.Tree``; anything with
    ///     ``label`` and ``children``, attributes or methods, such as `Tree` itself; a
    ///     ``str`` is a leaf. Labels are ``str``.
    ///
    /// Returns
    /// -------
    /// Forest
    ///
    /// Examples
    /// --------
    /// >>> import treekernel_rs as tk
    /// >>> forest = tk.Forest.from_trees([("NP", [("DT", ["the"]), ("NN", ["dog"])])])
    /// >>> str(forest[0])
    /// '(NP (DT the) (NN dog))'
    #[staticmethod]
    fn from_trees(objects: &Bound<'_, PyAny>) -> PyResult<Self> {
        super::objects::from_trees(objects).map(Self)
    }

    /// Build trees from flat arrays.
    ///
    /// Parameters
    /// ----------
    /// labels : array of int, or sequence of str
    ///     Per node, trees one after another and each in preorder: index into `names`;
    ///     or the labels themselves. Integers without `names` are their own labels.
    /// parents : array of int
    ///     Per node: the index of its parent in these arrays, -1 for a root.
    /// offsets : array of int
    ///     Per tree: the index of its root.
    /// names : sequence of str or array of uint8, optional
    ///     The alphabet; as bytes: all names' UTF-8, one after another.
    /// name_offsets : array of int, optional
    ///     With `names` as bytes: where each starts, and the end.
    ///
    /// Returns
    /// -------
    /// Forest
    ///
    /// Examples
    /// --------
    /// >>> import treekernel_rs as tk
    /// >>> forest = tk.Forest.from_arrays([0, 1, 1], [-1, 0, 0], [0], names=["S", "x"])
    /// >>> str(forest[0])
    /// '(S x x)'
    /// >>> tk.Forest.from_arrays(**forest.to_arrays()) == forest
    /// True
    #[staticmethod]
    #[pyo3(signature = (labels, parents, offsets, names=None, name_offsets=None))]
    fn from_arrays(
        labels: &Bound<'_, PyAny>,
        parents: &Bound<'_, PyAny>,
        offsets: &Bound<'_, PyAny>,
        names: Option<&Bound<'_, PyAny>>,
        name_offsets: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        super::objects::from_arrays(labels, parents, offsets, names, name_offsets)
            .map(Self)
    }

    /// The trees as flat arrays that ``np.savez`` can store and `from_arrays` reads.
    ///
    /// Returns
    /// -------
    /// dict
    ///     ``labels`` (per node, preorder: index into the names), ``parents`` (per
    ///     node, -1 for a root), ``offsets`` (per tree), ``names`` (UTF-8 bytes) and
    ///     ``name_offsets``.
    ///
    /// Examples
    /// --------
    /// >>> import treekernel_rs as tk
    /// >>> arrays = tk.Forest.from_brackets("(S (A a) (B b))").to_arrays()
    /// >>> arrays["parents"].tolist()
    /// [-1, 0, 1, 0, 3]
    fn to_arrays<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let arrays = py.detach(|| self.0.to_arrays());
        let mut ends = vec![0i64];
        ends.extend(arrays.names.iter().scan(0, |end, name| {
            *end += name.len() as i64;
            Some(*end)
        }));
        let dict = PyDict::new(py);
        dict.set_item("labels", arrays.labels.into_pyarray(py))?;
        dict.set_item("parents", arrays.parents.into_pyarray(py))?;
        dict.set_item("offsets", arrays.offsets.into_pyarray(py))?;
        dict.set_item("names", arrays.names.concat().into_bytes().into_pyarray(py))?;
        dict.set_item("name_offsets", ends.into_pyarray(py))?;
        Ok(dict)
    }

    /// Every tree in Penn notation.
    ///
    /// Returns
    /// -------
    /// list of str
    ///     What `from_brackets` reads back as the same forest, whatever the labels.
    ///
    /// Examples
    /// --------
    /// >>> import treekernel_rs as tk
    /// >>> tk.Forest.from_trees([("NN", ["a b"]), ("NN", ["(c)"])]).to_brackets()
    /// ['(NN a\\ b)', '(NN \\(c\\))']
    fn to_brackets(&self, py: Python<'_>) -> Vec<String> {
        py.detach(|| self.0.to_brackets())
    }

    /// The distinct labels of the trees.
    ///
    /// Examples
    /// --------
    /// >>> import treekernel_rs as tk
    /// >>> tk.Forest.from_brackets("(S (A a) (B a))").labels
    /// ['S', 'A', 'a', 'B']
    #[getter]
    fn labels(&self) -> Vec<&str> {
        let labels = self.0.nodes().labels();
        self.0.used_labels().into_iter().map(|l| labels.name(l)).collect()
    }

    /// The number of nodes of each tree, as an int64 array.
    ///
    /// Examples
    /// --------
    /// >>> import treekernel_rs as tk
    /// >>> tk.Forest.from_brackets("(S (A a) (B b)) (x)").n_nodes.tolist()
    /// [5, 1]
    #[getter]
    fn n_nodes<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        let sizes: Vec<i64> = self.0.n_nodes().into_iter().map(|n| n as i64).collect();
        sizes.into_pyarray(py)
    }

    /// The number of distinct subtrees of all trees together, leaves included.
    ///
    /// Examples
    /// --------
    /// >>> import treekernel_rs as tk
    /// >>> tk.Forest.from_brackets("(S (A a) (A a)) (S (A a))").n_distinct
    /// 4
    #[getter]
    fn n_distinct(&self) -> usize {
        self.0.n_distinct()
    }

    /// Bytes that the store of distinct subtrees holds, labels included. Forests that
    /// were cut out of one another share it.
    ///
    /// Examples
    /// --------
    /// >>> import treekernel_rs as tk
    /// >>> forest = tk.Forest.from_brackets("(S (A a) (B b)) (x)")
    /// >>> forest[:1].nbytes == forest.nbytes
    /// True
    #[getter]
    fn nbytes(&self) -> usize {
        self.0.nodes().nbytes()
    }

    /// The subtrees of every tree as integers: equal subtrees, equal integers.
    ///
    /// Returns
    /// -------
    /// indptr : ndarray of int64
    ///     Tree ``i`` has the entries from ``indptr[i]`` to ``indptr[i + 1]``.
    /// ids : ndarray of uint32
    ///     One id per node, in preorder. Ids compare within a forest and what was cut
    ///     out of it.
    ///
    /// Examples
    /// --------
    /// >>> import treekernel_rs as tk
    /// >>> forest = tk.Forest.from_brackets("(S (A a) (A a)) (A a)")
    /// >>> indptr, ids = forest.subtree_ids()
    /// >>> indptr.tolist(), bool(ids[1] == ids[3] == ids[5])
    /// ([0, 5, 7], True)
    #[allow(clippy::type_complexity)]
    fn subtree_ids<'py>(
        &self,
        py: Python<'py>,
    ) -> (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<u32>>) {
        let (starts, ids) = py.detach(|| {
            let (starts, order) = self.0.preorder();
            let starts: Vec<i64> = starts.into_iter().map(|s| s as i64).collect();
            let ids: Vec<u32> = order.into_iter().map(|node| node.0).collect();
            (starts, ids)
        });
        (starts.into_pyarray(py), ids.into_pyarray(py))
    }

    /// The number of trees, as a tuple of one, as arrays have it: whoever asks an object
    /// for its shape before it indexes it by an array (scikit-learn) gets a forest back.
    ///
    /// Examples
    /// --------
    /// >>> import treekernel_rs as tk
    /// >>> tk.Forest.from_brackets("(S (A a) (B b)) (x)").shape
    /// (2,)
    #[getter]
    fn shape(&self) -> (usize,) {
        (self.0.len(),)
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn __getitem__<'py>(
        &self,
        index: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = index.py();
        match Index::of(index, self.0.len())? {
            Index::One(index) => {
                let nodes = Arc::clone(self.0.nodes());
                let tree = Tree { nodes, root: self.0.roots()[index] };
                Ok(Bound::new(py, tree)?.into_any())
            }
            Index::Several(indices) => {
                Ok(Bound::new(py, Self(self.0.select(indices)))?.into_any())
            }
        }
    }

    fn __iter__(slf: Bound<'_, Self>) -> TreeIterator {
        TreeIterator { forest: slf.unbind(), next: 0 }
    }

    fn __add__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let Ok(other) = other.cast::<Self>() else {
            return Ok(py.NotImplemented());
        };
        let other = other.get();
        let all = py.detach(|| self.0.concat(&other.0))?;
        Ok(Bound::new(py, Self(all))?.into_any().unbind())
    }

    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> Py<PyAny> {
        match other.cast::<Self>() {
            Ok(other) => {
                let other = other.get();
                let equal = py.detach(|| self.0 == other.0);
                PyBool::new(py, equal).to_owned().into_any().unbind()
            }
            Err(_) => py.NotImplemented(),
        }
    }

    fn __copy__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf // immutable
    }

    fn __deepcopy__<'py>(
        slf: Bound<'py, Self>,
        _memo: &Bound<'py, PyAny>,
    ) -> Bound<'py, Self> {
        slf
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let py = slf.py();
        let arrays = slf.get().to_arrays(py)?;
        let keys = ["labels", "parents", "offsets", "names", "name_offsets"];
        let mut values = Vec::new();
        for key in keys {
            values.push(arrays.get_item(key)?);
        }
        let make = slf.get_type().getattr("from_arrays")?;
        PyTuple::new(py, [make, PyTuple::new(py, values)?.into_any()])
    }

    fn __repr__(&self) -> String {
        let plural = |n: u64, one: &str| {
            let digits = n.to_string();
            let groups: Vec<&str> = digits
                .as_bytes()
                .rchunks(3)
                .rev()
                .map(|c| std::str::from_utf8(c).unwrap_or_default())
                .collect();
            format!("{} {one}{}", groups.join(","), if n == 1 { "" } else { "s" })
        };
        let nodes = self.0.n_nodes().into_iter().fold(0, u64::saturating_add);
        format!(
            "<Forest: {}, {}, {}>",
            plural(self.0.len() as u64, "tree"),
            plural(nodes, "node"),
            plural(self.0.n_distinct() as u64, "distinct subtree"),
        )
    }
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

    /// The number of nodes, leaves included.
    #[getter]
    fn n_nodes(&self, py: Python<'_>) -> u64 {
        py.detach(|| self.nodes.size(self.root))
    }

    /// The number of nodes on the longest path from the root to a leaf.
    #[getter]
    fn depth(&self, py: Python<'_>) -> u64 {
        py.detach(|| self.nodes.depth(self.root))
    }

    fn __str__(&self, py: Python<'_>) -> String {
        py.detach(|| self.text(usize::MAX).0)
    }

    fn __repr__(&self) -> String {
        let (mut text, complete) = self.text(200);
        if !complete {
            text.truncate(
                text.char_indices().nth(200).map_or(text.len(), |(at, _)| at),
            );
            text.push_str("...");
        }
        format!("<Tree {text}>")
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

    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> Py<PyAny> {
        match other.cast::<Self>() {
            Ok(other) => {
                let other = other.get();
                let equal = py.detach(|| self.equals(other));
                PyBool::new(py, equal).to_owned().into_any().unbind()
            }
            Err(_) => py.NotImplemented(),
        }
    }

    fn __hash__(&self, py: Python<'_>) -> u64 {
        py.detach(|| self.nodes.content_hash(self.root))
    }

    fn __copy__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf // immutable
    }

    fn __deepcopy__<'py>(
        slf: Bound<'py, Self>,
        _memo: &Bound<'py, PyAny>,
    ) -> Bound<'py, Self> {
        slf
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let forest = Bound::new(py, Forest(self.forest()))?;
        let getitem = py.import("operator")?.getattr("getitem")?;
        let arguments =
            PyTuple::new(py, [forest.into_any(), 0i32.into_pyobject(py)?.into_any()])?;
        PyTuple::new(py, [getitem, arguments.into_any()])
    }
}

impl Tree {
    /// The store, and the root in it.
    pub(super) fn parts(&self) -> (&core::Nodes, NodeId) {
        (&self.nodes, self.root)
    }

    pub(super) fn forest(&self) -> crate::Forest {
        crate::Forest::new(Arc::clone(&self.nodes), vec![self.root])
    }

    fn equals(&self, other: &Self) -> bool {
        if Arc::ptr_eq(&self.nodes, &other.nodes) {
            return self.root == other.root;
        }
        self.nodes.find_in(self.root, &other.nodes) == Some(other.root)
    }

    fn text(&self, limit: usize) -> (String, bool) {
        let mut text = String::new();
        let complete = self.nodes.print(self.root, limit, &mut text);
        (text, complete)
    }
}

#[pymethods]
impl TreeIterator {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&mut self) -> Option<Tree> {
        let forest = &self.forest.get().0;
        let root = *forest.roots().get(self.next)?;
        self.next += 1;
        Some(Tree { nodes: Arc::clone(forest.nodes()), root })
    }
}

/// Appends one tree per item; a failed call leaves the forest as it was.
fn push_items(forest: &mut crate::Forest, items: &Bound<'_, PyAny>) -> PyResult<()> {
    let mut texts = Vec::with_capacity(items.len().unwrap_or(0));
    for (tree, item) in items.try_iter()?.enumerate() {
        let item = item?;
        texts.push(Text::of(&item, Some(tree))?.ok_or_else(|| {
            let got = type_name(&item);
            PyTypeError::new_err(format!(
                "tree {tree}: expected str or bytes, got {got}; for trees that are \
                 objects use Forest.from_trees"
            ))
        })?);
    }
    interruptible(items.py(), &Progress::none(), |watch| {
        let mut items = Vec::with_capacity(texts.len());
        for (tree, text) in texts.iter().enumerate() {
            match text.as_str(Some(tree)) {
                Ok(text) => items.push(text),
                Err(error) => {
                    // An item before it may be wrong as well, and comes first. What is
                    // right of them must not stay.
                    forest.clone().push_bracket_items(items, || watch(0, 0))?;
                    return Err(error);
                }
            }
        }
        forest.push_bracket_items(items, || watch(0, 0))
    })
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
        push_items(&mut self.0, items)
    }

    /// Hand over the forest; the builder is empty again.
    fn finish(&mut self) -> Forest {
        let mut forest = std::mem::take(&mut self.0);
        forest.shrink_to_fit();
        Forest(forest)
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }
}

/// A Python text, kept alive and out of reach of change while the core reads it.
pub(super) enum Text {
    Str(PyBackedStr),
    Bytes(PyBackedBytes),
}

impl Text {
    /// The text, or None if the object is not one.
    pub(super) fn of(
        object: &Bound<'_, PyAny>,
        item: Option<usize>,
    ) -> PyResult<Option<Self>> {
        if let Ok(text) = object.cast::<PyString>() {
            if let Ok(text) = PyBackedStr::try_from(text.clone()) {
                return Ok(Some(Self::Str(text)));
            }
            // A lone surrogate has no UTF-8. Its place is found like that of any other
            // byte that is not UTF-8.
            let bytes = text.call_method1("encode", ("utf-8", "surrogatepass"))?;
            parse::utf8(bytes.cast::<PyBytes>()?.as_bytes(), item)?;
        }
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Some(Self::Bytes(PyBackedBytes::from(bytes.clone()))));
        }
        Ok(None)
    }

    pub(super) fn as_str(&self, item: Option<usize>) -> crate::Result<&str> {
        match self {
            Self::Str(text) => Ok(text),
            Self::Bytes(bytes) => parse::utf8(bytes, item),
        }
    }
}

/// The qualified name of an object's class, for messages.
pub(super) fn type_name(object: &Bound<'_, PyAny>) -> String {
    object.get_type().qualname().map_or_else(|_| "?".to_owned(), |n| n.to_string())
}

/// What stands between the brackets of `forest[...]`, as numbers of trees.
pub(super) enum Index {
    One(usize),
    Several(Vec<usize>),
}

impl Index {
    pub(super) fn of(index: &Bound<'_, PyAny>, len: usize) -> PyResult<Self> {
        // `forest[rows, ...]`, as code for arrays of any dimension writes it.
        let unpacked = match index.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>() {
            Ok((rows, rest)) if rest.is(index.py().Ellipsis()) => Some(rows),
            _ => None,
        };
        let index = unpacked.as_ref().unwrap_or(index);
        if let Ok(slice) = index.cast::<PySlice>() {
            let range = slice.indices(len.cast_signed())?;
            let at =
                |k: usize| (range.start + k.cast_signed() * range.step).cast_unsigned();
            return Ok(Self::Several((0..range.slicelength).map(at).collect()));
        }
        // A bool is an int to Python, but forest[True] is a slip, as in numpy.
        let is_integer = index.hasattr("__index__")?
            && !index.is_instance_of::<PyBool>()
            && index.getattr("ndim").and_then(|n| n.extract()).unwrap_or(0usize) == 0;
        if is_integer {
            let index: isize = index.extract().map_err(|_| {
                PyIndexError::new_err(format!("index out of range for {len} trees"))
            })?;
            return Ok(Self::One(in_range(index, len)?));
        }
        Ok(Self::Several(super::objects::indices(index, len)?))
    }
}

/// A Python index, which may count from the end, as one of 0..len.
pub(super) fn in_range(index: isize, len: usize) -> PyResult<usize> {
    let from_start = if index < 0 { index.saturating_add_unsigned(len) } else { index };
    usize::try_from(from_start).ok().filter(|&i| i < len).ok_or_else(|| {
        PyIndexError::new_err(format!("index {index} is out of range for {len} trees"))
    })
}
