//! `PairForest`, `Pair` and the kernels of pairs.

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use numpy::{IntoPyArray, PyArray1};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use super::forest::{Forest, Index, equal, first_of};
use super::measure::{Call, Found, KernelRows, Nearest, Values, Zeros};
use super::objects::forest_of;
use super::text::{Text, TextSource, repr, type_name};
use super::{Signals, detached, interruptible};
use crate::Error;
use crate::error::quoted;
use crate::intern::Seed;
use crate::memory;
use crate::pair::linking::{self, HeadRules, Search};
use crate::pair::{self as core, Method, Side};

/// A list of pairs of trees with common placeholders.
///
/// Nodes of both trees of a pair that carry the same placeholder, a number, are related:
/// the words or phrases mean the same. Pair forests are immutable.
///
/// Build one with `from_brackets`, or from plain trees with `anchored`.
///
/// Examples
/// --------
/// >>> import treekernel_rs as tk
/// >>> pairs = tk.PairForest.from_brackets(["(NP:1 (NNS:1 cows))"], ["(S (NP:1 Cows) eat)"])
/// >>> pairs
/// <PairForest: 1 pair, 1 placeholder>
/// >>> print(pairs[0])
/// (NP:1 (NNS:1 cows)) | (S (NP:1 Cows) eat)
#[pyclass(frozen, module = "treekernel_rs", name = "PairForest", sequence)]
pub(super) struct PairForest(core::PairForest);

/// One pair of a pair forest.
///
/// Examples
/// --------
/// >>> import treekernel_rs as tk
/// >>> pair = tk.PairForest.from_brackets(["(A:7 a)"], ["(B (C:7 a) (C:2 c))"])[0]
/// >>> pair.left, pair.right, pair.placeholders
/// ('(A:7 a)', '(B (C:7 a) (C:2 c))', [2, 7])
#[pyclass(frozen, module = "treekernel_rs.pairs", name = "Pair")]
pub(super) struct Pair(core::PairForest);

/// Threads that share one get each pair once.
#[pyclass(frozen, module = "treekernel_rs._core", name = "PairIterator")]
pub(super) struct PairIterator {
    pairs: Py<PairForest>,
    next: AtomicUsize,
}

#[pymethods]
impl PairForest {
    /// Read pairs from bracketed text.
    ///
    /// Parameters
    /// ----------
    /// left, right : iterable of str or bytes
    ///     The left trees and the right trees, one tree per item.
    /// separator : str, default ":"
    ///     What stands between a label and a placeholder, a decimal number:
    ///     ``(NP:1 (NNS:1 cows))``. The last one of a label counts, and only where
    ///     something precedes it and nothing but digits follows: ``:`` and ``http://x``
    ///     are labels. Where digits are part of the label, write ``-`` for "none":
    ///     ``10:30:-``; or take a separator that your labels do not have.
    ///
    /// Returns
    /// -------
    /// PairForest
    ///
    /// Raises
    /// ------
    /// ParseError
    ///     With the side ("left" or "right") besides tree number, line, column, offset,
    ///     what was expected and what was got.
    ///
    /// Examples
    /// --------
    /// >>> import treekernel_rs as tk
    /// >>> pairs = tk.PairForest.from_brackets(["(NP@1 10:30)"], ["(S (NP@1 x))"], separator="@")
    /// >>> print(pairs[0])
    /// (NP:1 10:30:-) | (S (NP:1 x))
    /// >>> tk.PairForest.from_brackets(["(A a)"], ["(A a"])
    /// Traceback (most recent call last):
    ///     ...
    /// treekernel_rs.ParseError: right: tree 0, line 1, column 5 (byte 4): expected ')', got the end of the text; the bracket opened at line 1, column 1 is open
    #[staticmethod]
    #[pyo3(
        signature = (left, right, *, separator=SEPARATOR.into()),
        text_signature = "(left, right, *, separator=':')"
    )]
    fn from_brackets(
        left: &Bound<'_, PyAny>,
        right: &Bound<'_, PyAny>,
        separator: Text,
    ) -> PyResult<Self> {
        let texts = [texts("left", left)?, texts("right", right)?];
        interruptible(left.py(), |context| {
            let mut items = [Vec::new(), Vec::new()];
            // Kept as text and read without the interpreter, each with its place for
            // errors.
            for (side, (texts, items)) in
                Side::BOTH.into_iter().zip(texts.iter().zip(&mut items))
            {
                for (tree, text) in texts.iter().enumerate() {
                    items.push(text.as_str(Some(tree), context).map_err(|error| {
                        match error {
                            Error::Parse(error) => {
                                Error::PairParse { side: side.name(), error }
                            }
                            other => other,
                        }
                    })?);
                }
            }
            core::PairForest::from_items(&items, &separator, context)
        })
        .map(Self)
    }

    /// Link the words and phrases of plain trees.
    ///
    /// Trees are cleaned first: a ``ROOT`` around the sentence, empty elements
    /// (``-NONE-``) and function tags (``NP-SBJ`` is ``NP``) are dropped. Words of both
    /// trees that match become one placeholder, numbered by their first occurrence in the
    /// right tree, and every phrase has the placeholder of its head child.
    ///
    /// Parameters
    /// ----------
    /// left, right : Forest or sequence of str
    ///     The trees, the first with the first, and so on: Penn Treebank labels, if the
    ///     defaults below are to find anything.
    /// head_rules : mapping or callable, optional
    ///     Replaces the rules by which a phrase's head is found. A mapping from labels to
    ///     lists of ``(search, labels)`` replaces the rules of these labels: the first
    ///     that finds a child decides, else the last child is the head. ``search`` is
    ///     "left" (the leftmost child with one of the labels), "right", or "auxiliary"
    ///     (the leftmost, if no verb before it is more than a form of be, have or do); a
    ///     label ``"NN*"`` is all that begin with NN. A callable is given a label and a
    ///     list with label and head word of each child, and returns the head's index.
    /// match : callable, optional
    ///     Given a word and its tag, returns what words must have in common to be linked,
    ///     a str, or None for words that are not linked. By default the stem, of nouns,
    ///     verbs, adjectives, adverbs and numbers that are no stop words.
    ///
    ///     Callables are called once for each distinct question.
    ///
    /// Returns
    /// -------
    /// PairForest
    ///
    /// Examples
    /// --------
    /// >>> import treekernel_rs as tk
    /// >>> left = ["(S (NP (DT A) (NN cow)) (VP (VBZ is) (VP (VBG eating) (NP (NN grass)))))"]
    /// >>> right = ["(S (NP (NNS Cows)) (VP (VBP eat)))"]
    /// >>> print(tk.PairForest.anchored(left, right)[0].right)
    /// (S:2 (NP:1 (NNS:1 Cows)) (VP:2 (VBP:2 eat)))
    /// >>> pairs = tk.PairForest.anchored(
    /// ...     left, right,
    /// ...     head_rules={"S": [("left", ["NP"])]},
    /// ...     match=lambda word, tag: "cow" if word.lower().startswith("cow") else None,
    /// ... )
    /// >>> print(pairs[0].right)
    /// (S:1 (NP:1 (NNS:1 Cows)) (VP (VBP eat)))
    #[staticmethod]
    #[pyo3(signature = (left, right, *, head_rules=None, r#match=None))]
    fn anchored(
        left: &Bound<'_, PyAny>,
        right: &Bound<'_, PyAny>,
        head_rules: Option<&Bound<'_, PyAny>>,
        r#match: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let py = left.py();
        let forests = [forest_of(left)?, forest_of(right)?];
        let forests = forests.each_ref();
        let mut rules = HeadRules::default();
        let mut head_of = None;
        match head_rules {
            Some(given) if given.is_callable() => head_of = Some(given),
            Some(given) => read_rules(given, &mut rules)?,
            None => {}
        }
        if let Some(key_of) = r#match.filter(|key_of| !key_of.is_callable()) {
            return Err(PyTypeError::new_err(format!(
                "match must be callable, got {}",
                type_name(key_of)
            )));
        }
        // Nothing of Python's is called, so all of it runs without the interpreter.
        if head_of.is_none() && r#match.is_none() {
            return interruptible(py, |context| {
                linking::anchored_with(
                    forests,
                    &mut |label, children| Ok(rules.head(label, children)),
                    &mut |word, tag| Ok(linking::key(word, tag)),
                    context,
                )
            })
            .map(Self);
        }
        let signals = Signals::new(py);
        // The core's error is a stand-in for the callable's, which is raised.
        let raised = RefCell::new(None);
        let stop = |error| {
            *raised.borrow_mut() = Some(error);
            Error::Interrupted
        };
        let pairs = linking::anchored_with(
            forests,
            &mut |label, children| match head_of {
                None => Ok(rules.head(label, children)),
                Some(callable) => ask_head(callable, label, children).map_err(stop),
            },
            &mut |word, tag| match r#match {
                None => Ok(linking::key(word, tag)),
                Some(callable) => ask_key(callable, word, tag).map_err(stop),
            },
            &signals.context,
        );
        match raised.into_inner() {
            Some(error) => Err(error),
            None => signals.of(pairs).map(Self),
        }
    }

    /// All pairs as text that `from_brackets` reads back.
    ///
    /// Parameters
    /// ----------
    /// separator : str, default ":"
    ///     What to write between label and placeholder.
    ///
    /// Returns
    /// -------
    /// left, right : list of str
    ///
    /// Examples
    /// --------
    /// >>> import treekernel_rs as tk
    /// >>> pairs = tk.PairForest.from_brackets(["(A:1 a)"], ["(B:1 b)"])
    /// >>> pairs.to_brackets(separator="@")
    /// (['(A@1 a)'], ['(B@1 b)'])
    #[pyo3(
        signature = (*, separator=SEPARATOR.into()),
        text_signature = "($self, *, separator=':')"
    )]
    fn to_brackets(
        &self,
        py: Python<'_>,
        separator: Text,
    ) -> PyResult<(Vec<String>, Vec<String>)> {
        interruptible(py, |context| {
            core::check_separator(&separator)?;
            let (mut left, mut right) = (Vec::new(), Vec::new());
            for pair in 0..self.0.len() {
                if pair % PAIRS_BETWEEN_CHECKS == 0 {
                    context.check_now()?;
                }
                let [a, b] = self.0.try_to_brackets(pair, &separator)?;
                memory::push(&mut left, a)?;
                memory::push(&mut right, b)?;
            }
            Ok((left, right))
        })
    }

    /// The left trees without placeholders.
    ///
    /// Examples
    /// --------
    /// >>> import treekernel_rs as tk
    /// >>> tk.PairForest.from_brackets(["(A:1 a)"], ["(B:1 b)"]).left.to_brackets()
    /// ['(A a)']
    #[getter]
    fn left(&self, py: Python<'_>) -> PyResult<Forest> {
        self.side(py, Side::Left)
    }

    /// The right trees without placeholders.
    ///
    /// Examples
    /// --------
    /// >>> import treekernel_rs as tk
    /// >>> tk.PairForest.from_brackets(["(A:1 a)"], ["(B:1 b)"]).right.to_brackets()
    /// ['(B b)']
    #[getter]
    fn right(&self, py: Python<'_>) -> PyResult<Forest> {
        self.side(py, Side::Right)
    }

    /// The number of different placeholders of each pair, as an int64 array.
    ///
    /// Examples
    /// --------
    /// >>> import treekernel_rs as tk
    /// >>> tk.PairForest.from_brackets(["(A:1 (A:2 a))"], ["(B:1 b)"]).n_placeholders
    /// array([2])
    #[getter]
    fn n_placeholders<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let counts = self.0.n_placeholders()?.into_iter().map(|n| n as i64);
        Ok(memory::collect(counts)?.into_pyarray(py))
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
                Ok(Bound::new(py, Pair(self.0.select(&[index])?))?.into_any())
            }
            Index::Several(indices) => {
                Ok(Bound::new(py, Self(self.0.select(&indices)?))?.into_any())
            }
        }
    }

    fn __iter__(slf: Bound<'_, Self>) -> PairIterator {
        PairIterator { pairs: slf.unbind(), next: AtomicUsize::new(0) }
    }

    fn __add__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let Ok(other) = other.cast::<Self>() else {
            return Ok(py.NotImplemented());
        };
        let other = other.get();
        let joined = detached(py, || self.0.concat(&other.0))?;
        Ok(Bound::new(py, Self(joined))?.into_any().unbind())
    }

    fn __eq__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        equal(other, |other: &Self| Ok(self.0 == other.0))
    }

    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf // immutable
    }

    fn __deepcopy__(slf: Py<Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        slf
    }

    /// As text, which is the same for every version.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let py = slf.py();
        let texts = slf.get().to_brackets(py, SEPARATOR.into())?.into_pyobject(py)?;
        let make = slf.get_type().getattr("from_brackets")?;
        PyTuple::new(py, [make, texts.into_any()])
    }

    fn __repr__(&self) -> PyResult<String> {
        let plural =
            |n: usize, one: &str| format!("{n} {one}{}", if n == 1 { "" } else { "s" });
        let placeholders = self.0.n_placeholders()?.into_iter().sum();
        Ok(format!(
            "<PairForest: {}, {}>",
            plural(self.0.len(), "pair"),
            plural(placeholders, "placeholder"),
        ))
    }
}

impl PairForest {
    fn side(&self, py: Python<'_>, side: Side) -> PyResult<Forest> {
        interruptible(py, |context| self.0.plain_with(side, context)).map(Forest)
    }
}

const SEPARATOR: &str = ":";
/// Pairs, or items that are read, between two questions whether to go on.
const PAIRS_BETWEEN_CHECKS: usize = 64;

#[pymethods]
impl Pair {
    /// The left tree with placeholders, as text.
    #[getter]
    fn left(&self) -> PyResult<String> {
        let [left, _] = self.0.try_to_brackets(0, SEPARATOR)?;
        Ok(left)
    }

    /// The right tree with placeholders, as text.
    #[getter]
    fn right(&self) -> PyResult<String> {
        let [_, right] = self.0.try_to_brackets(0, SEPARATOR)?;
        Ok(right)
    }

    /// The placeholders of both trees, ascending.
    #[getter]
    fn placeholders(&self) -> Vec<u32> {
        let mut ids = self.0.placeholders(0).to_vec();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    fn __str__(&self) -> PyResult<String> {
        let [mut text, right] = self.0.try_to_brackets(0, SEPARATOR)?;
        memory::write(&mut text, " | ")?;
        memory::write(&mut text, &right)?;
        Ok(text)
    }

    fn __repr__(&self) -> PyResult<String> {
        let text = self.__str__()?;
        Ok(match text.char_indices().nth(200) {
            None => format!("<Pair {text}>"),
            Some((end, _)) => format!("<Pair {}...>", &text[..end]),
        })
    }

    fn __eq__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        equal(other, |other: &Self| Ok(self.0 == other.0))
    }

    fn __hash__(&self) -> PyResult<u64> {
        let ids = self.0.placeholders(0).iter().copied();
        Ok(u64::from(Seed::FIXED.hash_ids(0, ids))
            ^ Seed::FIXED.hash_bytes(self.__str__()?.as_bytes()))
    }

    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf // immutable
    }

    fn __deepcopy__(slf: Py<Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        slf
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        first_of(Bound::new(py, PairForest(self.0.clone()))?.as_any())
    }
}

#[pymethods]
impl PairIterator {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self) -> PyResult<Option<Pair>> {
        let pairs = &self.pairs.get().0;
        let next = self.next.fetch_add(1, Relaxed);
        if next >= pairs.len() {
            return Ok(None);
        }
        Ok(Some(Pair(pairs.select(&[next])?)))
    }
}

/// The texts of one side. A text alone is an item, not a list of characters.
fn texts(side: &str, lines: &Bound<'_, PyAny>) -> PyResult<Vec<TextSource>> {
    if let Some(text) = TextSource::of(lines)? {
        return Ok(vec![text]);
    }
    let items = lines.try_iter()?.enumerate().map(|(tree, item)| {
        if tree % PAIRS_BETWEEN_CHECKS == 0 {
            lines.py().check_signals()?;
        }
        let item = item?;
        TextSource::of(&item)?.ok_or_else(|| {
            let got = type_name(&item);
            PyTypeError::new_err(format!(
                "{side}: tree {tree}: expected str or bytes, got {got}"
            ))
        })
    });
    items.collect()
}

/// What is taken for pairs: a `PairForest`, or a list of pairs.
fn pairs_of(object: &Bound<'_, PyAny>) -> PyResult<core::PairForest> {
    if let Ok(known) = object.cast::<PairForest>() {
        return Ok(known.get().0.clone());
    }
    let wrong = |got: &Bound<'_, PyAny>| {
        PyTypeError::new_err(format!(
            "expected a PairForest or a list of pairs (left, right), got {}",
            type_name(got)
        ))
    };
    if TextSource::of(object)?.is_some() || object.cast::<Pair>().is_ok() {
        return Err(wrong(object));
    }
    // As text, so that a store is built once, whatever the items are.
    let [mut left, mut right] = [Vec::new(), Vec::new()];
    for (place, item) in object.try_iter().map_err(|_| wrong(object))?.enumerate() {
        if place % PAIRS_BETWEEN_CHECKS == 0 {
            object.py().check_signals()?;
        }
        let [a, b] = pair_of(&item?)?.try_to_brackets(0, SEPARATOR)?;
        memory::push(&mut left, a)?;
        memory::push(&mut right, b)?;
    }
    let texts = [&left, &right].map(|side| side.iter().map(String::as_str).collect());
    interruptible(object.py(), |context| {
        core::PairForest::from_items(&texts, SEPARATOR, context)
    })
}

/// What is taken for a pair: a `Pair`, or the texts of both trees.
fn pair_of(object: &Bound<'_, PyAny>) -> PyResult<core::PairForest> {
    if let Ok(known) = object.cast::<Pair>() {
        return Ok(known.get().0.clone());
    }
    let Ok((left, right)) = object.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()
    else {
        return Err(PyTypeError::new_err(format!(
            "expected a Pair or (left, right), got {}",
            type_name(object)
        )));
    };
    for (side, text) in [("left", &left), ("right", &right)] {
        if TextSource::of(text)?.is_none() {
            return Err(PyTypeError::new_err(format!(
                "{side}: expected str or bytes, got {}",
                type_name(text)
            )));
        }
    }
    Ok(PairForest::from_brackets(&left, &right, SEPARATOR.into())?.0)
}

fn read_rules(given: &Bound<'_, PyAny>, rules: &mut HeadRules) -> PyResult<()> {
    let wrong = |got: &Bound<'_, PyAny>| {
        PyTypeError::new_err(format!(
            "head_rules must be a callable, or map labels to lists of (search, labels), \
             got {}",
            repr(got)
        ))
    };
    // Copied, so that any mapping will do.
    let dict = PyDict::new(given.py());
    dict.update(given.cast().map_err(|_| wrong(given))?)?;
    for (label, value) in dict {
        let mut list = Vec::new();
        for rule in value.try_iter().map_err(|_| wrong(&value))? {
            let rule = rule?;
            let (search, labels): (Text, Vec<Text>) =
                rule.extract().map_err(|_| wrong(&rule))?;
            let search = match &*search {
                "left" => Search::Left,
                "right" => Search::Right,
                "auxiliary" => Search::Auxiliary,
                got => {
                    return Err(PyValueError::new_err(format!(
                        "head_rules: a search must be 'left', 'right' or 'auxiliary', \
                         got {}",
                        quoted(got)
                    )));
                }
            };
            list.push((search, labels.iter().map(|label| label.to_string()).collect()));
        }
        let label: Text = label.extract().map_err(|_| wrong(&label))?;
        rules.0.insert(label.to_string(), list);
    }
    Ok(())
}

fn ask_head(
    callable: &Bound<'_, PyAny>,
    label: &str,
    children: &[linking::Child<'_>],
) -> PyResult<usize> {
    let head: isize = callable.call1((label, children.to_vec()))?.extract()?;
    let n = children.len();
    // As an index of Python's, from the end if it is negative.
    let from_start = if head < 0 { head.saturating_add_unsigned(n) } else { head };
    usize::try_from(from_start).ok().filter(|&head| head < n).ok_or_else(|| {
        PyValueError::new_err(format!(
            "head_rules must return the index of a child, got {head} for {label} with {n} \
             children"
        ))
    })
}

fn ask_key(
    callable: &Bound<'_, PyAny>,
    word: &str,
    tag: &str,
) -> PyResult<Option<String>> {
    let key = callable.call1((word, tag))?;
    if key.is_none() {
        return Ok(None);
    }
    let Ok(text) = key.cast::<PyString>() else {
        return Err(PyTypeError::new_err(format!(
            "match must return a str or None, got {} for {word} with {tag}",
            type_name(&key)
        )));
    };
    let text = Text::of(text, || format!("match for {word} with {tag}: "))?;
    Ok(Some(text.to_string()))
}

/// A kernel of pairs with its parameters, in range.
#[pyclass(frozen, module = "treekernel_rs._core", name = "PairCore")]
pub(super) struct PairCore(core::PairKernel);

#[pymethods]
impl PairCore {
    #[new]
    fn new(decay: f64, method: Text, max_constraints: i128) -> PyResult<Self> {
        let method = match &*method {
            "exact" => Method::Exact,
            "paper" => Method::Paper,
            "max" => Method::Max,
            "max_enumerated" => Method::MaxEnumerated,
            got => {
                return Err(PyValueError::new_err(format!(
                    "method must be 'exact', 'paper', 'max' or 'max_enumerated', got \
                     {}",
                    quoted(got)
                )));
            }
        };
        if max_constraints < 1 {
            return Err(PyValueError::new_err(format!(
                "max_constraints must be at least 1, got {max_constraints}"
            )));
        }
        let max_constraints = u64::try_from(max_constraints).unwrap_or(u64::MAX);
        Ok(Self(core::PairKernel { decay, method, max_constraints }.validated()?))
    }

    /// See [`Call::gram`].
    #[pyo3(signature = (x, y, out, normalize, n_jobs, progress))]
    fn gram<'py>(
        &self,
        x: &Bound<'_, PyAny>,
        y: Option<&Bound<'_, PyAny>>,
        out: &Bound<'py, PyAny>,
        normalize: bool,
        n_jobs: Option<usize>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<(Bound<'py, PyAny>, Zeros)> {
        let call = Call::new(&self.0, normalize, n_jobs, progress);
        call.gram(&pairs_of(x)?, y.map(pairs_of).transpose()?.as_ref(), out)
    }

    /// See [`Call::diagonal`].
    fn diagonal<'py>(
        &self,
        x: &Bound<'py, PyAny>,
        normalize: bool,
        n_jobs: Option<usize>,
    ) -> PyResult<(Values<'py>, Vec<usize>)> {
        let call = Call::new(&self.0, normalize, n_jobs, None);
        call.diagonal(x.py(), &pairs_of(x)?)
    }

    /// See [`Call::rows`].
    fn rows(
        &self,
        x: &Bound<'_, PyAny>,
        normalize: bool,
        n_jobs: Option<usize>,
    ) -> PyResult<(KernelRows, Vec<usize>)> {
        let call = Call::new(&self.0, normalize, n_jobs, None);
        call.rows(x.py(), &pairs_of(x)?)
    }

    /// See [`Call::join`].
    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (x, y, min_similarity, rows, normalize, n_jobs, progress, out))]
    fn join<'py>(
        &self,
        x: &Bound<'py, PyAny>,
        y: Option<&Bound<'py, PyAny>>,
        min_similarity: f64,
        rows: Option<(usize, usize)>,
        normalize: bool,
        n_jobs: Option<usize>,
        progress: Option<&Bound<'py, PyAny>>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Found<'py>, Zeros)> {
        let call = Call::new(&self.0, normalize, n_jobs, progress);
        let y = y.map(pairs_of).transpose()?;
        call.join(x.py(), &pairs_of(x)?, y.as_ref(), (min_similarity, rows), out)
    }

    /// See [`Call::top_k`].
    fn top_k<'py>(
        &self,
        x: &Bound<'py, PyAny>,
        y: Option<&Bound<'py, PyAny>>,
        k: usize,
        normalize: bool,
        n_jobs: Option<usize>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Nearest<'py>, Zeros)> {
        let call = Call::new(&self.0, normalize, n_jobs, progress);
        let y = y.map(pairs_of).transpose()?;
        call.top_k(x.py(), &pairs_of(x)?, y.as_ref(), k)
    }

    /// See [`Call::pairs`].
    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (x, y, i, j, normalize, n_jobs, progress))]
    fn pairs<'py>(
        &self,
        x: &Bound<'py, PyAny>,
        y: Option<&Bound<'py, PyAny>>,
        i: &Bound<'py, PyAny>,
        j: &Bound<'py, PyAny>,
        normalize: bool,
        n_jobs: Option<usize>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Values<'py>, Zeros)> {
        let call = Call::new(&self.0, normalize, n_jobs, progress);
        call.pairs(&pairs_of(x)?, y.map(pairs_of).transpose()?.as_ref(), (i, j))
    }

    /// One value.
    fn pair(
        &self,
        a: &Bound<'_, PyAny>,
        b: &Bound<'_, PyAny>,
        normalize: bool,
    ) -> PyResult<f64> {
        let py = a.py();
        let (a, b) = (pair_of(a)?, pair_of(b)?);
        interruptible(py, |context| {
            core::pair_with(&self.0, (&a, 0), (&b, 0), normalize, context)
        })
    }

    /// C of two pairs.
    fn constraints(
        &self,
        a: &Bound<'_, PyAny>,
        b: &Bound<'_, PyAny>,
    ) -> PyResult<Vec<Vec<(u32, u32)>>> {
        let py = a.py();
        let (a, b) = (pair_of(a)?, pair_of(b)?);
        interruptible(py, |context| {
            core::constraints_with(&self.0, (&a, 0), (&b, 0), context)
        })
    }
}

/// How many pairs `k(x)` would have rows for; what reads them is shared with `gram`.
#[pyfunction]
pub(super) fn as_pairs(pairs: &Bound<'_, PyAny>) -> PyResult<PairForest> {
    pairs_of(pairs).map(PairForest)
}
