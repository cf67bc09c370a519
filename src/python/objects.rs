//! Trees, forests and arrays that come as Python objects.

use std::collections::HashMap;
use std::rc::Rc;

use numpy::{Element, PyArray1, PyArrayMethods};
use pyo3::exceptions::{PyAttributeError, PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyIterator, PyList, PyString, PyTuple, PyType};

use super::brackets;
use super::forest::{self, in_range};
use super::text::{Text, shown, type_name};
use super::tree::Tree;
use super::{Signals, detached, interruptible};
use crate::forest::MAX_NODES;
use crate::intern::IdTable;
use crate::memory::{self, reserve};
use crate::{Context, Error, Forest, Label, NodeId, Nodes};

/// What is taken for a forest wherever one is expected: a `Forest`, bracketed text, a
/// list or column of either bracketed strings or objects, or forests one after another.
pub(super) fn forest_of(object: &Bound<'_, PyAny>) -> PyResult<Forest> {
    if let Ok(forest) = object.cast::<forest::Forest>() {
        return Ok(forest.get().0.clone());
    }
    if is_text(object) || brackets::is_column(object)? {
        return brackets::read_brackets(object, None);
    }
    let given = several(object)?.and_then(|given| given.try_iter().ok());
    let Some(mut given) = given else {
        // What a reader returns.
        let hint = if object.hasattr("forest")? { ": give its .forest" } else { "" };
        return Err(PyTypeError::new_err(format!(
            "expected a Forest or a list of bracketed strings, got {}{hint}",
            type_name(object)
        )));
    };
    let (mut items, signals) = (Vec::new(), Signals::new(object.py()));
    // The items are looked at before they are kept: forests may come from a generator,
    // one at a time.
    while let Some(item) = given.next() {
        let item = item?;
        if items.is_empty() && item.is_instance_of::<forest::Forest>() {
            return joined(item, given);
        }
        signals.check()?;
        reserve(&mut items, 1)?;
        items.push(item);
    }
    let all_text = items.iter().all(is_text);
    let items = PyList::new(object.py(), items)?.into_any();
    if all_text {
        brackets::read_brackets(&items, None)
    } else {
        from_trees(&items, None)
    }
}

/// Shards in one forest. Each is let go when it has been read, so that of a generator of
/// files one is held at a time.
fn joined<'py>(
    first: Bound<'py, PyAny>,
    others: Bound<'py, PyIterator>,
) -> PyResult<Forest> {
    let py = first.py();
    let mut joined = first.cast_into::<forest::Forest>()?.get().0.clone();
    for (shard, other) in (1..).zip(others) {
        py.check_signals()?;
        let other = other?;
        let Ok(other) = other.cast::<forest::Forest>() else {
            return Err(PyTypeError::new_err(format!(
                "shard {shard}: expected a Forest as the first item is, got {}",
                type_name(&other)
            )));
        };
        let other = &other.get().0;
        detached(py, || joined.append(other))?;
    }
    Ok(joined)
}

/// What is taken for a tree: a `Tree`, bracketed text, or an object as in `from_trees`.
pub(super) fn tree_of(object: &Bound<'_, PyAny>) -> PyResult<Forest> {
    if let Ok(tree) = object.cast::<Tree>() {
        return Ok(tree.get().forest());
    }
    refuse_several(object)?;
    let one = PyList::new(object.py(), [object])?.into_any();
    if is_text(object) {
        brackets::read_brackets(&one, None)
    } else {
        from_trees(&one, None)
    }
}

/// Refuses a forest, and a list of trees, which would be read as one array of JSON.
fn refuse_several(object: &Bound<'_, PyAny>) -> PyResult<()> {
    let is_tree = |item: &Bound<'_, PyAny>| {
        let is_text = |text: Text| text.trim_start().starts_with('(');
        let is_bytes = |bytes: &[u8]| bytes.trim_ascii_start().starts_with(b"(");
        item.extract().is_ok_and(is_text)
            || item.cast::<PyBytes>().is_ok_and(|bytes| is_bytes(bytes.as_bytes()))
            || item.is_instance_of::<Tree>()
            || item.is_instance_of::<forest::Forest>()
    };
    let n = if let Ok(forest) = object.cast::<forest::Forest>() {
        forest.get().0.len()
    } else if object.is_instance_of::<PyTuple>()
        || object.is_exact_instance_of::<PyList>()
    {
        // A list whose items are all trees, and at least one: anything else may be a
        // tree.
        let mut n = 0;
        for item in object.try_iter()? {
            if !is_tree(&item?) {
                return Ok(());
            }
            n += 1;
        }
        if n == 0 {
            return Ok(());
        }
        n
    } else {
        return Ok(());
    };
    Err(PyTypeError::new_err(format!(
        "expected one tree, got a {} of {n} tree{}; give one of them, such as trees[0]",
        type_name(object),
        if n == 1 { "" } else { "s" }
    )))
}

fn is_text(object: &Bound<'_, PyAny>) -> bool {
    object.is_instance_of::<PyString>() || object.is_instance_of::<PyBytes>()
}

/// An object whose children are being read.
struct Open<'py> {
    label: Label,
    first_child: usize,
    children: Bound<'py, PyIterator>,
    /// Its number among those met.
    object: usize,
}

/// What a Python object says of itself.
enum Node<'py> {
    Leaf(Bound<'py, PyString>),
    Inner(Bound<'py, PyAny>, Bound<'py, PyIterator>),
}

/// How to ask an object for something: a callable, or the name of what it has.
pub(super) struct Access<'py>(Bound<'py, PyAny>);

impl<'py> Access<'py> {
    /// What `label=` or `children=` says, or else the attribute of that name.
    pub(super) fn new(
        name: &str,
        given: Option<Bound<'py, PyAny>>,
        py: Python<'py>,
    ) -> PyResult<Self> {
        let access = given.unwrap_or_else(|| PyString::intern(py, name).into_any());
        if access.is_callable() || access.is_instance_of::<PyString>() {
            return Ok(Self(access));
        }
        Err(PyTypeError::new_err(format!(
            "{name} must be a callable or the name of an attribute, got {}",
            type_name(&access)
        )))
    }

    fn of(&self, object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let Ok(name) = self.0.cast::<PyString>() else {
            return self.0.call1((object,));
        };
        let value = object.getattr(name)?;
        if value.is_callable() { value.call0() } else { Ok(value) }
    }
}

/// How the objects of a class are read.
enum Kind<'py> {
    /// By the attributes `label` and `children`, or as a list of children.
    Plain,
    /// By what the caller says gives label and children.
    Given([Access<'py>; 2]),
    /// By what `_adapters` says of the class.
    Known([Access<'py>; 2]),
    /// By way of another object.
    Converted(Bound<'py, PyAny>),
}

/// What `_adapters` knows of a class: nothing, two accesses, or a conversion.
fn adapter_of<'py>(class: &Bound<'py, PyType>) -> PyResult<Bound<'py, PyAny>> {
    class.py().import("treekernel_rs._adapters")?.call_method1("known", (class,))
}

/// What is iterated for the trees of a collection; None for an object that is one tree.
fn several<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let adapters = object.py().import("treekernel_rs._adapters")?;
    let several = adapters.call_method1("several", (object,))?;
    Ok(if several.is_none() { None } else { Some(several) })
}

/// See `Forest.from_trees`. `access` says how to read every object, if given.
pub(super) fn from_trees<'py>(
    objects: &Bound<'py, PyAny>,
    access: Option<[Access<'py>; 2]>,
) -> PyResult<Forest> {
    let several = if objects.is_instance_of::<PyString>() {
        None
    } else if access.is_some() {
        Some(objects.clone())
    } else {
        several(objects)?
    };
    let Some(objects) = several else {
        return Err(PyTypeError::new_err(format!(
            "expected an iterable of trees, got one {}; put it in a list",
            type_name(objects)
        )));
    };
    let mut forest = Forest::default();
    extended(&mut forest, |nodes, roots| {
        let every = access.map(|access| Rc::new(Kind::Given(access)));
        let mut reader = Reader::new(objects.py(), every);
        for (tree, object) in objects.try_iter()?.enumerate() {
            let root = reader.tree(&object?, nodes, tree)?;
            reserve(roots, 1)?;
            roots.push(root);
        }
        Ok(())
    })?;
    forest.shrink_to_fit();
    Ok(forest)
}

/// Appends trees that Python objects make; a failed call leaves the forest as it was.
pub(super) fn extended<T>(
    forest: &mut Forest,
    build: impl FnOnce(&mut Nodes, &mut Vec<NodeId>) -> PyResult<T>,
) -> PyResult<T> {
    let mut result = None;
    // The core's error is a stand-in: what matters is that it rolls back.
    let built = forest.extend_with(|nodes, roots| {
        let built = result.insert(build(nodes, roots));
        if built.is_ok() { Ok(()) } else { Err(Error::Interrupted) }
    });
    match result {
        Some(Err(error)) => Err(error),
        Some(Ok(result)) => Ok(built.map(|()| result)?),
        None => Err(Error::Interrupted.into()),
    }
}

struct Reader<'py> {
    /// How all objects are read, or else those of each class by its address; the class
    /// is kept alive.
    every: Option<Rc<Kind<'py>>>,
    kinds: HashMap<usize, (Bound<'py, PyType>, Rc<Kind<'py>>)>,
    open: Vec<Open<'py>>,
    children: Vec<NodeId>,
    /// The objects of this tree, kept alive, and what has become of each. One met again
    /// is not read again; one met again below itself would never end.
    met: Vec<(Bound<'py, PyAny>, Option<NodeId>)>,
    /// Their numbers by their addresses.
    places: IdTable,
    n_nodes: u64,
    signals: Signals<'py>,
}

impl<'py> Reader<'py> {
    fn new(py: Python<'py>, every: Option<Rc<Kind<'py>>>) -> Self {
        Self {
            every,
            kinds: HashMap::new(),
            open: Vec::new(),
            children: Vec::new(),
            met: Vec::new(),
            places: IdTable::default(),
            n_nodes: 0,
            signals: Signals::new(py),
        }
    }

    fn tree(
        &mut self,
        object: &Bound<'py, PyAny>,
        nodes: &mut Nodes,
        tree: usize,
    ) -> PyResult<NodeId> {
        self.open.clear();
        self.children.clear();
        self.met.clear();
        self.places = IdTable::default();
        self.n_nodes = 0;
        // Entering pushes either what is done to the children, or an object to be read.
        self.enter(object, nodes, tree)?;
        while let Some(top) = self.open.last_mut() {
            match top.children.next() {
                Some(child) => self.enter(&child?, nodes, tree)?,
                None => {
                    if let Some(done) = self.open.pop() {
                        let below = &self.children[done.first_child..];
                        let node = nodes.intern(done.label, below)?;
                        self.children.truncate(done.first_child);
                        self.children.push(node);
                        // Met again in another place, it is this node.
                        self.met[done.object].1 = Some(node);
                    }
                }
            }
        }
        let root = self.children[0];
        let has_brackets = object.is_instance_of::<PyList>();
        Ok(if has_brackets { without_empty_brackets(nodes, root) } else { root })
    }

    fn enter(
        &mut self,
        object: &Bound<'py, PyAny>,
        nodes: &mut Nodes,
        tree: usize,
    ) -> PyResult<()> {
        self.signals.check()?;
        self.n_nodes += 1;
        if self.n_nodes > MAX_NODES {
            return Err(PyValueError::new_err(format!(
                "tree {tree}: expected at most {MAX_NODES} nodes, got more"
            )));
        }
        reserve(&mut self.children, 1)?;
        // By address: what was met is kept alive, so no other object can have it.
        let hash = self.places.seed.hash_word(object.as_ptr() as u64);
        let place = self.places.find(hash, |id| self.met[id as usize].0.is(object));
        match place.map(|id| self.met[id as usize].1) {
            Some(Some(node)) => {
                self.children.push(node);
                return Ok(());
            }
            Some(None) => {
                return Err(PyValueError::new_err(format!(
                    "tree {tree}: expected a tree, got a {} that contains itself",
                    type_name(object)
                )));
            }
            None => {}
        }
        // A tree of this package is copied by its subtrees, without an object for each.
        if let Ok(source) = object.cast::<Tree>() {
            let (there, root) = source.get().parts();
            let copied = nodes.absorb_one(there, root, &self.signals.context);
            self.children.push(self.signals.of(copied)?);
            return Ok(());
        }
        let kind = self.kind(object)?;
        if let Kind::Converted(convert) = &*kind {
            let converted =
                with_tree_number(convert.call1((object,)), object.py(), tree)?;
            return self.enter(&converted, nodes, tree);
        }
        match read(object, &kind, tree)? {
            Node::Leaf(label) => {
                let label = intern(nodes, label.as_any(), tree)?;
                self.children.push(nodes.intern_leaf(label)?);
            }
            Node::Inner(label, children) => {
                // Room first: an object that is met has to be open as well.
                reserve(&mut self.open, 1)?;
                reserve(&mut self.met, 1)?;
                let place = self.met.len();
                self.places.insert(hash, place as u32)?;
                self.met.push((object.clone(), None));
                let label = intern(nodes, &label, tree)?;
                let first_child = self.children.len();
                self.open.push(Open { label, first_child, children, object: place });
            }
        }
        Ok(())
    }

    fn kind(&mut self, object: &Bound<'py, PyAny>) -> PyResult<Rc<Kind<'py>>> {
        let is_plain =
            object.is_instance_of::<PyString>() || object.is_instance_of::<PyTuple>();
        match &self.every {
            Some(kind) => return Ok(Rc::clone(kind)),
            None if is_plain => return Ok(Rc::new(Kind::Plain)),
            None => {}
        }
        let class = object.get_type();
        let address = class.as_ptr() as usize;
        if let Some((_, kind)) = self.kinds.get(&address) {
            return Ok(Rc::clone(kind));
        }
        let found = adapter_of(&class)?;
        let kind = Rc::new(if found.is_none() {
            Kind::Plain
        } else if let Ok((label, children)) = found.extract() {
            let access = |name, given| Access::new(name, Some(given), class.py());
            Kind::Known([access("label", label)?, access("children", children)?])
        } else {
            Kind::Converted(found)
        });
        self.kinds.insert(address, (class, Rc::clone(&kind)));
        Ok(kind)
    }
}

/// Drops the empty bracket around a tree, as parsing does: `nltk.Tree.fromstring` makes a
/// node of it.
fn without_empty_brackets(nodes: &Nodes, mut root: NodeId) -> NodeId {
    while nodes.name(root).is_empty()
        && let &[below] = nodes.children(root)
        && !nodes.is_leaf(below)
    {
        root = below;
    }
    root
}

/// Says of which tree it is that `_adapters` refuses a part.
fn with_tree_number<T>(
    result: PyResult<T>,
    py: Python<'_>,
    tree: usize,
) -> PyResult<T> {
    result.map_err(|error| {
        let message = format!("tree {tree}: {}", error.value(py));
        if error.is_instance_of::<PyValueError>(py) {
            PyValueError::new_err(message)
        } else if error.is_instance_of::<PyTypeError>(py) {
            PyTypeError::new_err(message)
        } else {
            error
        }
    })
}

pub(super) fn intern(
    nodes: &mut Nodes,
    label: &Bound<'_, PyAny>,
    tree: usize,
) -> PyResult<Label> {
    let Ok(label) = label.cast::<PyString>() else {
        return Err(PyTypeError::new_err(format!(
            "tree {tree}: expected a label that is a str, got {}",
            type_name(label)
        )));
    };
    let label = Text::of(label, || format!("tree {tree}: "))?;
    Ok(nodes.labels_mut().intern(&label)?)
}

/// Tells what kind of tree an object is. A tuple comes first, as it has neither
/// attribute; `label` decides between an `nltk.Tree`, which is the list of its children,
/// and objects that have `children`.
fn read<'py>(
    object: &Bound<'py, PyAny>,
    kind: &Kind<'py>,
    tree: usize,
) -> PyResult<Node<'py>> {
    if let Ok(leaf) = object.cast::<PyString>() {
        return Ok(Node::Leaf(leaf.clone()));
    }
    match kind {
        Kind::Given([label, below]) => {
            let label = label.of(object)?;
            return Ok(Node::Inner(label, children(&below.of(object)?, tree)?));
        }
        Kind::Known([label, below]) => {
            let label = with_tree_number(label.of(object), object.py(), tree)?;
            let below = with_tree_number(below.of(object), object.py(), tree)?;
            return Ok(Node::Inner(label, children(&below, tree)?));
        }
        Kind::Plain | Kind::Converted(_) => {}
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
    // An attribute, or a method without parameters, as `label` of an `nltk.Tree` is.
    let value = |name: &str| -> PyResult<Option<Bound<'py, PyAny>>> {
        match object.getattr(name) {
            Ok(method) if method.is_callable() => method.call0().map(Some),
            Ok(value) => Ok(Some(value)),
            // Where the class has the attribute, the error is that of the user's code.
            Err(error)
                if error.is_instance_of::<PyAttributeError>(object.py())
                    && !object.get_type().hasattr(name)? =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    };
    match (value("label")?, value("children")?) {
        (Some(label), Some(below)) => Ok(Node::Inner(label, children(&below, tree)?)),
        // An `nltk.Tree` is itself the list of its children.
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
    let mut offsets = integers("offsets", offsets)?;
    if offsets.last() == Some(&(parents.len() as i64)) {
        offsets.pop(); // the end of the last tree, which the core does not ask for
    }
    let (names, labels) = match (names, name_offsets) {
        (Some(names), Some(ends)) => (
            split_names(names, &integers("name_offsets", ends)?)?,
            integers("labels", labels)?,
        ),
        (Some(names), None) => (strings("names", names)?, integers("labels", labels)?),
        (None, Some(_)) => {
            return Err(PyValueError::new_err("name_offsets needs names, got None"));
        }
        // Without names, integers are their own names, and anything else is text. Where
        // the first one is an integer, the error is that of integers.
        (None, None) => match (integers("labels", labels), labels.get_item(0)) {
            (Ok(labels), _) => interruptible(py, |context| numbered(labels, context))?,
            (Err(error), Ok(first)) if first.extract::<u64>().is_ok() => {
                return Err(error);
            }
            _ => {
                let names = strings("labels", labels)?;
                let numbers = (0..names.len() as i64).collect();
                (names, numbers)
            }
        },
    };
    let mut forest = Forest::default();
    interruptible(py, |context| {
        forest.push_arrays_with(&names, &labels, &parents, &offsets, context)?;
        forest.shrink_to_fit();
        Ok(())
    })?;
    Ok(forest)
}

/// Integers as names; and for each which of them it is. Not indexed by value: a label of
/// 10^15 is no reason to fail.
fn numbered(
    mut labels: Vec<i64>,
    context: &Context,
) -> crate::Result<(Vec<String>, Vec<i64>)> {
    let (mut names, mut numbers) = (Vec::new(), HashMap::new());
    for label in &mut labels {
        context.check()?;
        let number = *numbers.entry(*label).or_insert_with(|| {
            names.push(label.to_string());
            names.len() as i64 - 1
        });
        *label = number;
    }
    Ok((names, labels))
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
    let kind: Text = dtype.getattr("kind")?.extract()?;
    if array.len()? == 0 {
        return Ok(Vec::new());
    }
    if !matches!(&*kind, "i" | "u") {
        return Err(wrong(format!("dtype {}", shown(&dtype))));
    }
    let array = array.call_method1("astype", ("int64",))?;
    let values = copied(array.cast::<PyArray1<i64>>()?)?;
    // Those above the signed range have wrapped around.
    let wrapped = values.iter().position(|&value| &*kind == "u" && value < 0);
    if let Some(index) = wrapped {
        return Err(PyValueError::new_err(format!(
            "{name}[{index}]: expected at most {}, got {}",
            i64::MAX,
            values[index].cast_unsigned()
        )));
    }
    Ok(values)
}

/// As [`integers`], as numbers of a type that has none below 0. Those of this very type,
/// as files and pickles have them, do not go by way of a wider one.
pub(super) fn unsigned<T: TryFrom<i64> + Element + Copy>(
    name: &str,
    object: &Bound<'_, PyAny>,
) -> PyResult<Vec<T>> {
    if let Ok(array) = object.cast::<PyArray1<T>>() {
        return copied(array);
    }
    let values = integers(name, object)?;
    let mut narrow = Vec::new();
    reserve(&mut narrow, values.len())?;
    for (index, value) in values.into_iter().enumerate() {
        narrow.push(T::try_from(value).map_err(|_| {
            let most = if size_of::<T>() == 4 { u32::MAX.into() } else { i64::MAX };
            PyValueError::new_err(format!(
                "{name}[{index}]: expected a number from 0 to {most}, got {value}"
            ))
        })?);
    }
    Ok(narrow)
}

pub(super) fn copied<T: Element + Copy>(
    array: &Bound<'_, PyArray1<T>>,
) -> PyResult<Vec<T>> {
    let array = array.try_readonly()?;
    let mut values = Vec::new();
    reserve(&mut values, array.len()?)?;
    values.extend(array.as_array());
    Ok(values)
}

fn strings(name: &str, object: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    let wrong = |got: String| {
        PyTypeError::new_err(format!("{name}: expected a sequence of str, got {got}"))
    };
    if object.is_instance_of::<PyString>() {
        return Err(wrong("one str".to_owned()));
    }
    let items = object.try_iter().map_err(|_| wrong(type_name(object)))?;
    let (mut names, signals) = (Vec::new(), Signals::new(object.py()));
    for (index, item) in items.enumerate() {
        let item = item?;
        signals.check()?;
        reserve(&mut names, 1)?;
        let Ok(item) = item.cast::<PyString>() else {
            return Err(wrong(format!("{} at {index}", type_name(&item))));
        };
        let text = Text::of(item, || format!("{name}[{index}]: "))?;
        names.push(text.to_owned());
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
    let bytes = copied(bytes)?;
    let wrong = |index: usize, expected: &str, got: String| {
        PyValueError::new_err(format!(
            "name_offsets[{index}]: expected {expected}, got {got}"
        ))
    };
    // So there is at least one end, and no name begins before the text.
    if ends.first() != Some(&0) {
        let got = ends.first().map_or("nothing".to_owned(), i64::to_string);
        return Err(wrong(0, "0", got));
    }
    let mut split = Vec::new();
    reserve(&mut split, ends.len() - 1)?;
    // Ends come from a file: a range that is none is refused, and not cut.
    for (index, pair) in ends.windows(2).enumerate() {
        let range = usize::try_from(pair[0]).ok().zip(usize::try_from(pair[1]).ok());
        let name =
            range.and_then(|(start, end)| bytes.get(start..end)).ok_or_else(|| {
                let expected = format!("{} to {}", pair[0], bytes.len());
                wrong(index + 1, &expected, pair[1].to_string())
            })?;
        let name = memory::copied(name)?;
        split.push(String::from_utf8(name).map_err(|error| {
            PyValueError::new_err(format!(
                "names: expected UTF-8 in name {index}, got {error}"
            ))
        })?);
    }
    // Text behind the last name would belong to none.
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
    // numpy would make an array of a text, too.
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
        return Ok(memory::collect((0..len).filter(|&i| mask[i]))?);
    }
    // A list of anything else is no index, whatever is wrong with it.
    let indices = integers("index", &array).map_err(|error| {
        let is_wrong = error.is_instance_of::<PyValueError>(index.py());
        if is_wrong { wrong(type_name(index)) } else { error }
    })?;
    let mut chosen = Vec::new();
    reserve(&mut chosen, indices.len())?;
    for index in indices {
        chosen.push(in_range(index as isize, len)?);
    }
    Ok(chosen)
}
