//! `Forest` and `Tree`.

use std::sync::Arc;

use numpy::{IntoPyArray, PyArray1};
use pyo3::PyClass;
use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pyclass::boolean_struct::True;
use pyo3::types::{PyBool, PyDict, PyList, PySlice, PyString, PyTuple};

use super::brackets::read_brackets;
use super::objects::{Access, integers, split_names, unsigned};
use super::text::{Text, repr, type_name};
use super::tree::{Tree, TreeIterator};
use super::{Signals, detached, interruptible};
use crate::error::quoted;
use crate::forest as core;
use crate::{Branching, Context, Label, memory};

/// A list of trees over a shared store of distinct subtrees.
///
/// Equal subtrees of all trees are stored once. So the memory of a forest depends on its
/// distinct subtrees, and two subtrees are compared as two integers. Forests are
/// immutable; a part of a forest shares its store.
///
/// `Forest(trees)` reads everything that `from_brackets` and `from_trees` read. These two
/// and `from_arrays` have options.
///
/// Parameters
/// ----------
/// trees : Forest, str, bytes or iterable, optional
///     Bracketed text, a list or column of bracketed strings, an iterable of trees that
///     are objects, or one of forests, which are joined. By default none.
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

#[pymethods]
impl Forest {
    #[new]
    #[pyo3(signature = (trees=None))]
    fn new(trees: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        trees.map_or(Ok(crate::Forest::default()), super::objects::forest_of).map(Self)
    }

    /// Read trees from bracketed text.
    ///
    /// Parameters
    /// ----------
    /// lines : str, bytes or iterable of str or bytes
    ///     One text holding one or more trees, or an iterable whose items hold exactly
    ///     one tree each (a list, an open file, a generator, a column of pandas, Polars
    ///     or Arrow). Bytes are UTF-8.
    /// errors : {"raise", "skip"}, default "raise"
    ///     "skip" leaves out invalid items and returns their errors.
    ///
    /// Both notations, ``(NN dog)`` and ``(NN (dog))``, may be mixed. Blanks between brackets
    /// are optional. An empty bracket around one tree of more than one node, as in files of
    /// the Penn Treebank, is dropped. In a label, ``\(``, ``\)``, ``\\`` and a backslash
    /// before a blank stand for that character, and ``\e`` is the empty label. Any other
    /// backslash is an ordinary character.
    ///
    /// Returns
    /// -------
    /// Forest, or tuple of Forest and list of ParseError
    ///     With ``errors="skip"``, the list has an error for each item left out; its
    ///     `tree` is the item's number.
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
    /// >>> forest, skipped = tk.Forest.from_brackets(["(S a)", "()"], errors="skip")
    /// >>> len(forest), [(e.tree, e.expected) for e in skipped]
    /// (1, [(1, 'a label')])
    #[staticmethod]
    #[pyo3(
        signature = (lines, *, errors="raise".into()),
        text_signature = "(lines, *, errors='raise')"
    )]
    fn from_brackets<'py>(
        lines: &Bound<'py, PyAny>,
        errors: Text,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = lines.py();
        let mut skipped = Vec::new();
        match &*errors {
            "raise" => {
                Ok(Bound::new(py, Self(read_brackets(lines, None)?))?.into_any())
            }
            "skip" => {
                let forest = Self(read_brackets(lines, Some(&mut skipped))?);
                let skipped: Vec<_> = skipped.iter().map(|e| e.value(py)).collect();
                Ok((forest, skipped).into_pyobject(py)?.into_any())
            }
            other => Err(PyValueError::new_err(format!(
                "errors must be 'raise' or 'skip', got {}",
                quoted(other)
            ))),
        }
    }

    /// Convert trees that are Python objects.
    ///
    /// Parameters
    /// ----------
    /// objects : iterable
    ///     Trees: ``(label, [children])`` tuples; ``nltk.Tree``; anything with
    ///     ``label`` and ``children``, attributes or methods, such as `Tree` itself; a
    ///     ``str`` is a leaf. Also the trees of these packages, none of which is
    ///     imported: ast, tree-sitter, libcst; xml.etree, lxml; lists and dicts (JSON);
    ///     conllu, spaCy, stanza; DendroPy, Biopython, scikit-bio, ete; networkx;
    ///     anytree, bigtree; scikit-learn's decision trees.
    /// label, children : callable or str, optional
    ///     Functions that return the label (a ``str``) and the children of an object, or
    ///     names of attributes or methods. If only one is given, the other is the
    ///     attribute ``label`` or ``children``.
    /// order : {"as_is", "sorted"}, default "as_is"
    ///     "sorted": as `Forest.sorted`, for trees whose children have no order.
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
    /// >>> below = {"app": ["core", "face"], "core": [], "face": ["core"]}
    /// >>> forest = tk.Forest.from_trees(
    /// ...     [["app"]], label=lambda path: path[-1],
    /// ...     children=lambda path: [[*path, name] for name in below[path[-1]]],
    /// ... )
    /// >>> str(forest[0])
    /// '(app core (face core))'
    #[staticmethod]
    #[pyo3(
        signature = (objects, *, label=None, children=None, order="as_is".into()),
        text_signature = "(objects, *, label=None, children=None, order='as_is')"
    )]
    fn from_trees<'py>(
        objects: &Bound<'py, PyAny>,
        label: Option<Bound<'py, PyAny>>,
        children: Option<Bound<'py, PyAny>>,
        order: Text,
    ) -> PyResult<Self> {
        let py = objects.py();
        if !matches!(&*order, "as_is" | "sorted") {
            return Err(PyValueError::new_err(format!(
                "order must be 'as_is' or 'sorted', got {}",
                quoted(&order)
            )));
        }
        let access = match (label, children) {
            (None, None) => None,
            (label, children) => Some([
                Access::new("label", label, py)?,
                Access::new("children", children, py)?,
            ]),
        };
        let forest = Self(super::objects::from_trees(objects, access)?);
        if &*order == "sorted" { forest.sorted(py) } else { Ok(forest) }
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
    ///     Where each tree starts, and the end, which may be left out: as `name_offsets`,
    ///     and as ``indptr`` of `subtree_ids`.
    /// names : sequence of str or array of uint8, optional
    ///     The alphabet; as bytes: all names' UTF-8, one after another.
    /// name_offsets : array of int, optional
    ///     With `names` as bytes: where each starts, and the end.
    ///
    /// Notes
    /// -----
    /// ``(S (A x) x) (A x)`` as arrays::
    ///
    ///     node          0  1  2  3   4  5
    ///     labels        0  1  2  2   1  2     index into the names S, A, x
    ///     parents      -1  0  1  0  -1  4     index of a node, -1 above a root
    ///     offsets       0            4     6  first node of each tree, and the end
    ///
    ///     names         S  A  x               bytes
    ///     name_offsets  0  1  2  3            first byte of each name, and the end
    ///
    /// Returns
    /// -------
    /// Forest
    ///
    /// Raises
    /// ------
    /// ValueError
    ///     If the arrays do not describe trees. Equal names are one label.
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
    ///     node, -1 for a root), ``offsets`` (where each tree starts, and the end),
    ///     ``names`` (UTF-8 bytes) and ``name_offsets``. `from_arrays` has a picture.
    ///
    /// Raises
    /// ------
    /// ValueError
    ///     If the trees have more than 2^28 nodes together. `pickle` stores shared subtrees
    ///     once and has no such limit.
    ///
    /// Examples
    /// --------
    /// >>> import treekernel_rs as tk
    /// >>> arrays = tk.Forest.from_brackets("(S (A a) (B b))").to_arrays()
    /// >>> arrays["parents"].tolist()
    /// [-1, 0, 1, 0, 3]
    fn to_arrays<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let mut arrays = interruptible(py, |context| self.0.to_arrays_with(context))?;
        // With the end of the last tree, as in an `indptr`.
        memory::push(&mut arrays.offsets, arrays.labels.len() as i64)?;
        let dict = PyDict::new(py);
        dict.set_item("labels", arrays.labels.into_pyarray(py))?;
        dict.set_item("parents", arrays.parents.into_pyarray(py))?;
        dict.set_item("offsets", arrays.offsets.into_pyarray(py))?;
        let (names, ends) = joined(py, &arrays.names)?;
        dict.set_item("names", names)?;
        dict.set_item("name_offsets", ends)?;
        Ok(dict)
    }

    /// Every tree in Penn notation.
    ///
    /// Returns
    /// -------
    /// list of str
    ///     Text that `from_brackets` reads back as the same forest, for any labels.
    ///
    /// Raises
    /// ------
    /// ValueError
    ///     If the text would have more than 2^31 bytes. This can happen if trees share
    ///     subtrees.
    ///
    /// Examples
    /// --------
    /// >>> import treekernel_rs as tk
    /// >>> tk.Forest.from_trees([("NN", ["a b"]), ("NN", ["(c)"])]).to_brackets()
    /// ['(NN a\\ b)', '(NN \\(c\\))']
    fn to_brackets<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let texts = interruptible(py, |context| self.0.to_brackets_with(context))?;
        let (list, signals) = (PyList::empty(py), Signals::new(py));
        for text in texts {
            list.append(text)?;
            signals.check()?;
        }
        Ok(list)
    }

    /// The distinct labels of the trees.
    ///
    /// Examples
    /// --------
    /// >>> import treekernel_rs as tk
    /// >>> tk.Forest.from_brackets("(S (A a) (B a))").labels
    /// ['S', 'A', 'a', 'B']
    #[getter]
    fn labels(&self) -> PyResult<Vec<&str>> {
        let labels = self.0.nodes().labels();
        let used = self.0.try_used_labels()?.into_iter();
        Ok(memory::collect(used.map(|label| labels.name(label)))?)
    }

    /// The number of nodes of each tree, as an int64 array. Larger numbers, which trees with
    /// shared subtrees can have, are given as 2^63 - 1.
    ///
    /// Examples
    /// --------
    /// >>> import treekernel_rs as tk
    /// >>> tk.Forest.from_brackets("(S (A a) (B b)) (x)").n_nodes.tolist()
    /// [5, 1]
    #[getter]
    fn n_nodes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let sizes = self.0.try_n_nodes()?.into_iter();
        let sizes = sizes.map(|n| i64::try_from(n).unwrap_or(i64::MAX));
        Ok(memory::collect(sizes)?.into_pyarray(py))
    }

    /// The number of distinct subtrees of all trees together, leaves included.
    ///
    /// Examples
    /// --------
    /// >>> import treekernel_rs as tk
    /// >>> tk.Forest.from_brackets("(S (A a) (A a)) (S (A a))").n_distinct
    /// 4
    #[getter]
    fn n_distinct(&self) -> PyResult<usize> {
        Ok(self.0.try_n_distinct()?)
    }

    /// The memory of the store of distinct subtrees and labels, in bytes. A part of a forest
    /// shares its store.
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

    /// The memory of the store and of the list of trees, for ``sys.getsizeof``.
    fn __sizeof__(&self) -> usize {
        self.0.nodes().nbytes() + size_of_val(self.0.roots())
    }

    /// The trees of several forests in one, one forest after another.
    ///
    /// Parameters
    /// ----------
    /// forests : iterable of Forest
    ///     The shards; other than with ``+``, each is copied once.
    ///
    /// Returns
    /// -------
    /// Forest
    ///
    /// Examples
    /// --------
    /// >>> import treekernel_rs as tk
    /// >>> tk.Forest.concat([tk.Forest("(a b)"), tk.Forest("(a c) (a b)")])
    /// <Forest: 3 trees, 6 nodes, 4 distinct subtrees>
    #[staticmethod]
    fn concat(py: Python<'_>, forests: &Bound<'_, PyAny>) -> PyResult<Self> {
        let forests: Vec<Py<Self>> = forests
            .try_iter()?
            .map(|forest| Ok(forest?.cast_into::<Self>()?.unbind()))
            .collect::<PyResult<_>>()?;
        let forests = forests.iter().map(|forest| &forest.get().0);
        interruptible(py, |context| crate::Forest::try_concat_all(forests, context))
            .map(Self)
    }

    /// Write the trees to a file that `load` reads.
    ///
    /// Parameters
    /// ----------
    /// path : str or path
    ///     The file. An existing file is replaced only after everything is written; it
    ///     keeps its permissions, and a link to it stays a link.
    ///
    /// Raises
    /// ------
    /// OSError
    ///     If the file cannot be written or is read-only, or is a pipe, a device or a
    ///     socket. What stood there stays.
    ///
    /// Examples
    /// --------
    /// >>> import pathlib, tempfile, treekernel_rs as tk
    /// >>> path = pathlib.Path(tempfile.mkdtemp(), "trees.forest")
    /// >>> forest = tk.Forest("(S (A a) (B b))")
    /// >>> forest.save(path)
    /// >>> tk.Forest.load(path) == forest
    /// True
    fn save(slf: &Bound<'_, Self>, path: &Bound<'_, PyAny>) -> PyResult<()> {
        let files = slf.py().import("treekernel_rs.storing")?;
        files.call_method1("save", (slf, path)).map(drop)
    }

    /// Read what `save` wrote.
    ///
    /// Parameters
    /// ----------
    /// path : str or path
    ///     The file.
    ///
    /// Returns
    /// -------
    /// Forest
    ///
    /// Raises
    /// ------
    /// ValueError
    ///     If the file has another format or a later version, or was truncated or changed.
    ///
    /// Examples
    /// --------
    /// >>> import pathlib, tempfile, treekernel_rs as tk
    /// >>> path = pathlib.Path(tempfile.mkdtemp(), "trees.forest")
    /// >>> tk.Forest("(S (A a)) (x)").save(path)
    /// >>> tk.Forest.load(path).to_brackets()
    /// ['(S (A a))', '(x)']
    #[staticmethod]
    fn load<'py>(path: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        path.py().import("treekernel_rs.storing")?.call_method1("load_forest", (path,))
    }

    /// The trees with their children sorted by content.
    ///
    /// Trees that differ only in the order of children become equal, in this forest and in
    /// others. So kernels compare unordered trees; ST does so exactly.
    ///
    /// Returns
    /// -------
    /// Forest
    ///
    /// Examples
    /// --------
    /// >>> import treekernel_rs as tk
    /// >>> forest = tk.Forest("(S (B b) (A a)) (S (A a) (B b))").sorted()
    /// >>> forest[0] == forest[1], str(forest[0])
    /// (True, '(S (A a) (B b))')
    fn sorted(&self, py: Python<'_>) -> PyResult<Self> {
        interruptible(py, |context| self.0.sorted_with(context)).map(Self)
    }

    /// The trees with one of each run of equal siblings.
    ///
    /// Parameters
    /// ----------
    /// count : bool, default False
    ///     Put a node ``*3`` above the sibling that stands for a run of three.
    ///
    /// Returns
    /// -------
    /// Forest
    ///
    /// Examples
    /// --------
    /// >>> import treekernel_rs as tk
    /// >>> forest = tk.Forest("(ul (li a) (li a) (li b) (li a))")
    /// >>> str(forest.collapse_repeats()[0])
    /// '(ul (li a) (li b) (li a))'
    /// >>> str(forest.collapse_repeats(count=True)[0])
    /// '(ul (*2 (li a)) (li b) (li a))'
    #[pyo3(signature = (*, count=false))]
    fn collapse_repeats(&self, py: Python<'_>, count: bool) -> PyResult<Self> {
        interruptible(py, |context| self.0.collapse_repeats_with(count, context))
            .map(Self)
    }

    /// The trees with other labels.
    ///
    /// Parameters
    /// ----------
    /// labels : mapping of str to str, or callable
    ///     The new label of each label. A callable is called once for each distinct label.
    ///     Labels that a mapping does not contain are kept.
    ///
    /// Returns
    /// -------
    /// Forest
    ///
    /// Examples
    /// --------
    /// >>> import treekernel_rs as tk
    /// >>> forest = tk.Forest("(S (NP-SBJ dogs) (VP bark))")
    /// >>> str(forest.relabel({"dogs": "cats"})[0])
    /// '(S (NP-SBJ cats) (VP bark))'
    /// >>> str(forest.relabel(lambda label: label.split("-")[0])[0])
    /// '(S (NP dogs) (VP bark))'
    fn relabel(&self, labels: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut names = Vec::new();
        // Each distinct label once, so that a slow callable is called as seldom as can
        // be.
        for old in self.labels()? {
            let new = if labels.is_callable() {
                labels.call1((old,))?
            } else {
                labels.call_method1("get", (old, old))?
            };
            let text = new.cast::<PyString>().map_err(|_| {
                let got = type_name(&new);
                PyTypeError::new_err(format!(
                    "label {}: expected a str for it, got {got}",
                    quoted(old)
                ))
            })?;
            let name = Text::of(text, || format!("label {}: ", quoted(old)))?;
            memory::push(&mut names, memory::text(&name)?)?;
        }
        interruptible(labels.py(), |context| self.0.relabel_with(&names, context))
            .map(Self)
    }

    /// The trees without some nodes.
    ///
    /// Parameters
    /// ----------
    /// labels : container of str, or callable
    ///     Which nodes go, by their label; a callable is called once for each label.
    /// keep_children : bool, default False
    ///     Put the children in the place of a node that goes. By default all that is
    ///     below goes with it.
    ///
    /// Returns
    /// -------
    /// Forest
    ///     With as many trees. Of a tree whose root goes, the null tree stays, a leaf
    ///     with an empty label; with `keep_children` the one child, or the root above
    ///     several.
    ///
    /// Examples
    /// --------
    /// >>> import treekernel_rs as tk
    /// >>> forest = tk.Forest("(S (NP dogs) (VP (V bark) (. !)))")
    /// >>> str(forest.prune({"."})[0])
    /// '(S (NP dogs) (VP (V bark)))'
    /// >>> str(forest.prune(str.isupper, keep_children=True)[0])
    /// '(S dogs bark (. !))'
    #[pyo3(signature = (labels, *, keep_children=false))]
    fn prune(&self, labels: &Bound<'_, PyAny>, keep_children: bool) -> PyResult<Self> {
        let goes = self.accepted(labels)?;
        interruptible(labels.py(), |context| {
            self.0.prune_with(|label| goes[label.index()], keep_children, context)
        })
        .map(Self)
    }

    /// The trees with chains in place of long lists of children.
    ///
    /// A node with the children a, b and c becomes three nodes with its label, each with
    /// one child and the next of them. Kernels that compare a node with all its children,
    /// such as `SubsetTreeKernel`, find nothing in common at two lists of which one has a
    /// child more; of two chains they find the parts before and behind it.
    ///
    /// Parameters
    /// ----------
    /// labels : container of str, or callable, optional
    ///     Which nodes become chains, by their label; a callable is called once for each
    ///     label. By default all.
    /// min_children : int, default 2
    ///     Nodes with fewer children stay as they are.
    /// branching : {"right", "left"}, default "right"
    ///     ``(S a (S b (S c)))``, whose parts are lists without their first children, or
    ///     ``(S (S (S a) b) c)``, whose parts are lists without their last ones.
    ///
    /// Returns
    /// -------
    /// Forest
    ///     With as many trees, in which no node that became a chain has more than two
    ///     children.
    ///
    /// Examples
    /// --------
    /// >>> import treekernel_rs as tk
    /// >>> forest = tk.Forest("(def (args x y) (body init loop return))")
    /// >>> str(forest.binarize({"body"})[0])
    /// '(def (args x y) (body init (body loop (body return))))'
    /// >>> str(forest.binarize(min_children=3, branching="left")[0])
    /// '(def (args x y) (body (body (body init) loop) return))'
    #[pyo3(
        signature = (labels=None, *, min_children=2, branching="right".into()),
        text_signature = "($self, labels=None, *, min_children=2, branching='right')"
    )]
    fn binarize(
        &self,
        py: Python<'_>,
        labels: Option<&Bound<'_, PyAny>>,
        min_children: usize,
        branching: Text,
    ) -> PyResult<Self> {
        let branching = match &*branching {
            "right" => Branching::Right,
            "left" => Branching::Left,
            other => {
                return Err(PyValueError::new_err(format!(
                    "branching must be 'right' or 'left', got {}",
                    quoted(other)
                )));
            }
        };
        let is_list = labels.map(|labels| self.accepted(labels)).transpose()?;
        let is_list =
            |label: Label| is_list.as_ref().is_none_or(|named| named[label.index()]);
        interruptible(py, |context| {
            self.0.binarize_with(is_list, min_children, branching, context)
        })
        .map(Self)
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
    /// Raises
    /// ------
    /// ValueError
    ///     If the trees have more than 2^28 nodes, all together and written out.
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
    ) -> PyResult<(Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<u32>>)> {
        let (starts, order) =
            interruptible(py, |context| self.0.preorder_with(context))?;
        let starts = memory::collect(starts.into_iter().map(|start| start as i64))?;
        let ids = memory::collect(order.into_iter().map(|node| node.0))?;
        Ok((starts.into_pyarray(py), ids.into_pyarray(py)))
    }

    /// The different trees, and which of them each tree is: `numpy.unique` for trees.
    ///
    /// Trees may have any number of nodes together. They are not sorted.
    ///
    /// Returns
    /// -------
    /// UniqueTrees
    ///     `trees`, a forest of the different trees in the order of their first
    ///     occurrence; `indices`, where each occurs first; `inverse`, the number of each
    ///     tree of this forest among them; `counts`, how often each occurs.
    ///
    /// Examples
    /// --------
    /// >>> import treekernel_rs as tk
    /// >>> forest = tk.Forest(["(S (A a))", "(B b)", "(S (A a))"])
    /// >>> unique = forest.unique()
    /// >>> unique.trees.to_brackets()
    /// ['(S (A a))', '(B b)']
    /// >>> unique.indices.tolist(), unique.inverse.tolist(), unique.counts.tolist()
    /// ([0, 1], [0, 1, 0], [2, 1])
    fn unique<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let unique = detached(py, || self.0.unique())?;
        let numbers = |numbers: Vec<usize>| -> PyResult<_> {
            let numbers = memory::collect(numbers.into_iter().map(|n| n as i64))?;
            Ok(numbers.into_pyarray(py))
        };
        py.import("treekernel_rs.neighbors")?.getattr("UniqueTrees")?.call1((
            Self(unique.trees),
            numbers(unique.indices)?,
            numbers(unique.inverse)?,
            numbers(unique.counts)?,
        ))
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
                let tree = Tree::new(nodes, self.0.roots()[index]);
                Ok(Bound::new(py, tree)?.into_any())
            }
            Index::Several(indices) => {
                Ok(Bound::new(py, Self(self.0.try_select(&indices)?))?.into_any())
            }
        }
    }

    fn __iter__(slf: Bound<'_, Self>) -> TreeIterator {
        TreeIterator::new(slf)
    }

    fn __add__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let Ok(other) = other.cast::<Self>() else { return Ok(py.NotImplemented()) };
        let other = other.get();
        let joined = interruptible(py, |context| {
            crate::Forest::try_concat_all([&self.0, &other.0], context)
        })?;
        Ok(Bound::new(py, Self(joined))?.into_any().unbind())
    }

    fn __eq__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        equal(other, |other: &Self| self.0.try_eq(&other.0))
    }

    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf // immutable
    }

    fn __deepcopy__(slf: Py<Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        slf
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let py = slf.py();
        let values = PyTuple::new(py, shared_arrays(py, &slf.get().0)?)?;
        let make = slf.get_type().getattr("_from_shared")?;
        PyTuple::new(py, [make, values.into_any()])
    }

    /// What a pickle calls: arrays in which each distinct subtree stands once.
    #[staticmethod]
    fn _from_shared(
        labels: &Bound<'_, PyAny>,
        ends: &Bound<'_, PyAny>,
        children: &Bound<'_, PyAny>,
        roots: &Bound<'_, PyAny>,
        names: &Bound<'_, PyAny>,
        name_offsets: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        from_shared([labels, ends, children, roots, names, name_offsets]).map(Self)
    }

    fn __repr__(&self) -> PyResult<String> {
        let plural = |n: u64, one: &str| {
            let digits = n.to_string();
            let groups: Vec<&str> = digits
                .as_bytes()
                // Groups of three digits from the end; digits are ASCII.
                .rchunks(3)
                .rev()
                .map(|c| std::str::from_utf8(c).unwrap_or_default())
                .collect();
            format!("{} {one}{}", groups.join(","), if n == 1 { "" } else { "s" })
        };
        let nodes = self.0.try_n_nodes()?.into_iter().fold(0, u64::saturating_add);
        Ok(format!(
            "<Forest: {}, {}{}, {}>",
            plural(self.0.len() as u64, "tree"),
            if nodes == u64::MAX { "at least " } else { "" },
            plural(nodes, "node"),
            plural(self.0.try_n_distinct()? as u64, "distinct subtree"),
        ))
    }
}

impl Forest {
    /// By label: whether a container of labels, or a callable, accepts it.
    fn accepted(&self, labels: &Bound<'_, PyAny>) -> PyResult<Vec<bool>> {
        let mut accepted = memory::filled(false, self.0.nodes().labels().len())?;
        for label in self.0.try_used_labels()? {
            let name = self.0.nodes().labels().name(label);
            accepted[label.index()] = if labels.is_callable() {
                labels.call1((name,))?.is_truthy()?
            } else {
                labels.contains(name)?
            };
        }
        Ok(accepted)
    }
}

/// The arrays of a forest in which each distinct subtree stands once.
pub(super) fn shared_arrays<'py>(
    py: Python<'py>,
    forest: &crate::Forest,
) -> PyResult<[Bound<'py, PyAny>; 6]> {
    let arrays = detached(py, || forest.to_shared())?;
    let (names, ends) = joined(py, &arrays.names)?;
    Ok([
        arrays.labels.into_pyarray(py).into_any(),
        arrays.ends.into_pyarray(py).into_any(),
        arrays.children.into_pyarray(py).into_any(),
        arrays.roots.into_pyarray(py).into_any(),
        names.into_any(),
        ends.into_any(),
    ])
}

/// A forest of such arrays, which are not trusted.
pub(super) fn from_shared(
    [labels, ends, children, roots, names, name_offsets]: [&Bound<'_, PyAny>; 6],
) -> PyResult<crate::Forest> {
    let arrays = core::SharedArrays {
        names: split_names(names, &integers("name_offsets", name_offsets)?)?,
        labels: unsigned("labels", labels)?,
        ends: unsigned("ends", ends)?,
        children: unsigned("children", children)?,
        roots: unsigned("roots", roots)?,
    };
    let build = |context: &Context| crate::Forest::from_shared_with(&arrays, context);
    interruptible(labels.py(), build)
}

/// Names end to end, and where each of them ends.
type Names<'py> = (Bound<'py, PyArray1<u8>>, Bound<'py, PyArray1<i64>>);

/// An alphabet as arrays: the text of all names, and where each starts, and the end.
pub(super) fn joined<'py>(
    py: Python<'py>,
    names: &[String],
) -> crate::Result<Names<'py>> {
    let (mut text, mut ends) = (String::new(), memory::collect([0])?);
    for name in names {
        memory::write(&mut text, name)?;
        memory::push(&mut ends, text.len() as i64)?;
    }
    Ok((text.into_bytes().into_pyarray(py), ends.into_pyarray(py)))
}

/// Whether the objects of a class are equal; another object may know better than they.
pub(super) fn equal<'py, T: PyClass<Frozen = True> + Sync>(
    other: &Bound<'py, PyAny>,
    equals: impl Fn(&T) -> crate::Result<bool> + Send + Sync,
) -> PyResult<Bound<'py, PyAny>> {
    let py = other.py();
    let Ok(other) = other.cast::<T>() else {
        return Ok(py.NotImplemented().into_bound(py));
    };
    let other = other.get();
    let equal = detached(py, || equals(other))?;
    Ok(PyBool::new(py, equal).to_owned().into_any())
}

/// How a pickle makes the first item of a list.
pub(super) fn first_of<'py>(list: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTuple>> {
    let getitem = list.py().import("operator")?.getattr("getitem")?;
    (getitem, (list, 0)).into_pyobject(list.py())
}

/// What stands between the brackets of `forest[...]`, as numbers of trees.
pub(super) enum Index {
    One(usize),
    Several(Vec<usize>),
}

impl Index {
    pub(super) fn of(index: &Bound<'_, PyAny>, len: usize) -> PyResult<Self> {
        // `forest[rows, ...]`, as code for arrays of any dimension writes it. Any other tuple
        // is an index for several dimensions, as in numpy: `rows[0, 1]` is not two rows.
        let unpacked = match index.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>() {
            Ok((rows, rest)) if rest.is(index.py().Ellipsis()) => Some(rows),
            _ if index.is_instance_of::<PyTuple>() => {
                return Err(PyIndexError::new_err(format!(
                    "expected one index, or a list of indices, got the tuple {}",
                    repr(index)
                )));
            }
            _ => None,
        };
        let index = unpacked.as_ref().unwrap_or(index);
        if let Ok(slice) = index.cast::<PySlice>() {
            let range = slice.indices(len.cast_signed())?;
            // Steps may be negative, but all that a slice names is in range.
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
