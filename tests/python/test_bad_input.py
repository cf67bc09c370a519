"""Bad text, bad objects, tampered arrays and pickles: an error, and nothing else.

Every error is a ValueError, or a TypeError for what has the wrong type; no input may
panic, hang, or leave a trace in a forest that was there before.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

import treekernel_rs as tk

# --- Text ---------------------------------------------------------------------------

MB10 = 10_000_000

# (text or items, (tree, line, column, offset)) or (text or items, printed trees)
TEXTS: dict[str, tuple[Any, Any]] = {
    "never closed": ("(S (NP a)", (0, 1, 10, 9)),
    "closed twice": ("(S (NP a)))", (1, 1, 11, 10)),
    "empty": ("", (0, 1, 1, 0)),
    "blank": (" \r\n\t", (0, 2, 2, 4)),
    "empty item": (["(a)", "", "(b)"], (1, 1, 1, 0)),
    "blank line of a file": (["(a)\n", "\n", "(b)\n"], (1, 2, 1, 1)),
    "several roots in an item": (["(a)", "(b) (c)"], (1, 1, 5, 4)),
    "several roots in a bracket": ("((a) (b))", (0, 1, 6, 5)),
    "several roots in a text": ("(a) (b)", ["(a)", "(b)"]),
    "lone label": ("dog", (0, 1, 1, 0)),
    "lone label as an item": (["(a)", "dog"], (1, 1, 1, 0)),
    "empty bracket": ("(S (A a) ())", (0, 1, 11, 10)),
    "NUL in a label": ("(a\0 \0)", ["(a\0 \0)"]),
    "NUL after a tree": ("(a)\0", (1, 1, 4, 3)),
    "NUL before a tree": ("\0(a)", (0, 1, 1, 0)),
    "NUL as bytes": (b"(a)\n\0", (1, 2, 1, 4)),
    "invalid UTF-8": (b"(S \xff)", (0, 1, 4, 3)),
    "invalid UTF-8 in an item": (["(é)", b"(S\n \xc3(a))"], (1, 2, 2, 4)),
    "Latin-1": ("(S café)".encode("latin-1"), (0, 1, 7, 6)),
    "UTF-16": ("(S a)".encode("utf-16"), (0, 1, 1, 0)),
    "lone surrogate": ("(S é\udcff)", (0, 1, 5, 5)),
    "lone surrogate in an item": (["(a)", "(b\n\ud800)"], (1, 2, 1, 3)),
    "surrogate pair in a str": ("(S \ud83d\ude00)", (0, 1, 4, 3)),
    "tabs": ("(S\t(A\t\ta)\tb)\t", ["(S (A a) b)"]),
    "CRLF": ("(S a)\r\n(S b)\r\n", ["(S a)", "(S b)"]),
    "error after tabs": ("(S\t\ta)\t)", (1, 1, 8, 7)),
    "error after CRLF": ("(S a)\r\n(S b\r\n", (1, 3, 1, 13)),
    "error after a lone CR": ("(S a)\r)", (1, 1, 7, 6)),
    "BOM": ("\ufeff(S a)", ["(S a)"]),
    "BOM in every item": (["\ufeff(a)", b"\xef\xbb\xbf(b)"], ["(a)", "(b)"]),
    "BOM alone": ("\ufeff", (0, 1, 2, 3)),
    "BOM in the middle": ("(a)\n\ufeff(b)", (1, 2, 1, 4)),
    "error after a BOM": ("\ufeff(a))", (1, 1, 5, 6)),
    "10 MB label": ("(S " + "x" * MB10 + ")", ["(S " + "x" * MB10 + ")"]),
    "10 MB label, not closed": ("(S " + "x" * MB10, (0, 1, MB10 + 4, MB10 + 3)),
    "10 MB label, not opened": ("x" * MB10, (0, 1, 1, 0)),
    "10 MB label of backslashes": ("(" + "\\" * MB10 + ")", ["(" + "\\" * MB10 + ")"]),
    "10 MB of blanks": (" " * MB10, (0, 1, MB10 + 1, MB10)),
    "a million lines": (
        "(a)\n" * 1_000_000 + "x",
        (1_000_000, 1_000_001, 1, 4_000_000),
    ),
    "a million opened": ("(a" * 1_000_000, (0, 1, 2_000_001, 2_000_000)),
    "a million empty brackets": ("(" * 1_000_000, (0, 1, 1_000_001, 1_000_000)),
    "a million closed": ("(a)" + ")" * 1_000_000, (1, 1, 4, 3)),
}


@pytest.mark.parametrize(("source", "outcome"), TEXTS.values(), ids=TEXTS)
def test_text_is_read_or_stopped_at_the_right_place(source, outcome):
    if isinstance(outcome, list):
        assert tk.Forest.from_brackets(source).to_brackets() == outcome
    else:
        with pytest.raises(tk.ParseError) as caught:
            tk.Forest.from_brackets(source)
        error = caught.value
        assert (error.tree, error.line, error.column, error.offset) == outcome
        assert len(str(error)) < 500


# --- Objects ------------------------------------------------------------------------


class Node:
    def __init__(self, label, children=()):
        self.label = label
        self.children = children


class Failing:
    """Raises what no reader should swallow."""

    children = ()

    @property
    def label(self):
        message = "disk on fire"
        raise OSError(message)


OBJECTS = {
    "int": 3,
    "None": None,
    "bare object": object(),
    "dict in place of a list": ("a", {1: 2}),
    "empty tuple": (),
    "tuple of three": ("a", [], []),
    "int label": (3, []),
    "None label": (None, []),
    "bytes label": (b"a", []),
    "list label": (["a"], []),
    "int children": ("a", 3),
    "int child": ("a", [3]),
    "None child": ("a", ["b", None]),
    "deep None child": ("a", [("b", [("c", ["d", None])])]),
    "int label below": ("a", [(3, [])]),
    "attributes, int label": Node(3),
    "attributes, None label": Node(None),
    "attributes, int children": Node("a", 3),
    "attributes, None child": Node("a", [None]),
    "label without children": type("Half", (), {"label": "a"})(),
    "children without label": type("Half", (), {"children": ()})(),
    "surrogate label": ("\ud800", []),
    "surrogate child": ("a", ["\udcff"]),
    "surrogate leaf": "\udcff",
    "the class itself": Node,
}


@pytest.mark.parametrize("bad", OBJECTS.values(), ids=OBJECTS)
def test_bad_object_is_an_error(bad):
    with pytest.raises((TypeError, ValueError)):
        tk.Forest.from_trees([("good", []), bad])


def test_exception_of_an_object_passes_through():
    with pytest.raises(OSError, match="disk on fire"):
        tk.Forest.from_trees([("a", [Failing()])])


@pytest.mark.parametrize("source", [3, None, ...], ids=repr)
def test_from_trees_needs_an_iterable(source):
    with pytest.raises(TypeError):
        tk.Forest.from_trees(source)


CYCLES = {
    "list in tuple": "t = ('a', []); t[1].append(t)",
    "attribute": "t = Node('a', []); t.children.append(t)",
    "two objects": "u = Node('u', []); t = ('a', ['x', u]); u.children.append(t)",
    "long": (
        "t = end = Node('a', [])\n"
        "for _ in range(10_000): t = Node('b', ['x', t])\n"
        "end.children.append(t)"
    ),
    "children are the node": "t = Node('a'); t.children = [t, t]",
}
RUN_CYCLE = """
import resource
import treekernel_rs as tk
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
class Node:
    def __init__(self, label, children=()):
        self.label, self.children = label, children
{cycle}
try:
    tk.Forest.from_trees([t])
except (TypeError, ValueError) as error:
    print("refused:", error)
"""


@pytest.mark.linux
@pytest.mark.parametrize("cycle", CYCLES.values(), ids=CYCLES)
def test_cycle_is_an_error_and_ends(cycle):
    """Run it apart, with little memory and time: a reader that misses it never ends."""
    done = subprocess.run(
        [sys.executable, "-c", RUN_CYCLE.format(cycle=cycle)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.stdout.startswith("refused:"), done.stderr[-500:]


# --- Arrays -------------------------------------------------------------------------

# (S (A a) b) (c):
GOOD: dict[str, Any] = {
    "labels": np.array([0, 1, 2, 3, 4]),
    "parents": np.array([-1, 0, 1, 0, -1]),
    "offsets": np.array([0, 4]),
    "names": np.frombuffer("SAäbc".encode(), dtype=np.uint8),
    "name_offsets": np.array([0, 1, 2, 4, 5, 6]),
}
BIG = 2**40
STRINGS = {"names": ["S", "A", "a", "b", "c"], "name_offsets": None}

TAMPERED: dict[str, dict[str, Any]] = {
    # parents
    "parent of itself": {"parents": [-1, 1, 1, 0, -1]},
    "root that is its own parent": {"parents": [0, 0, 1, 0, -1]},
    "cycle of two": {"parents": [-1, 2, 1, 0, -1]},
    "forward parent": {"parents": [-1, 3, 1, 0, -1]},
    "parent outside the arrays": {"parents": [-1, 0, 5, 0, -1]},
    "parent far outside": {"parents": [-1, 0, BIG, 0, -1]},
    "parent -2": {"parents": [-1, 0, -2, 0, -1]},
    "parent of 32 bits too many": {"parents": [-1, 0, 2**32 + 1, 0, -1]},
    "parent in another tree": {"parents": [-1, 0, 1, 0, 0]},
    "second root in a tree": {"parents": [-1, 0, -1, 0, -1]},
    "tree without root": {"parents": [-1, 0, 1, 0, 3]},
    "not in preorder": {"parents": [-1, 0, 0, 1, -1]},
    "parents too short": {"parents": [-1, 0, 1, 0]},
    "parents too long": {"parents": [-1, 0, 1, 0, -1, 4]},
    "no parents": {"parents": []},
    "parents of float": {"parents": np.array([-1.0, 0.0, 1.0, 0.0, -1.0])},
    "parents of NaN": {"parents": np.full(5, np.nan)},
    "parents of str": {"parents": np.array(["-1", "0", "1", "0", "-1"])},
    "parents of bool": {"parents": np.array([True, False, True, False, True])},
    "parents as a table": {"parents": np.array([[-1, 0, 1, 0, -1]])},
    "parents as a scalar": {"parents": np.array(-1)},
    "parents None": {"parents": None},
    # labels
    "negative label": {"labels": [0, 1, -1, 3, 4]},
    "label out of range": {"labels": [0, 1, 5, 3, 4]},
    "label far out of range": {"labels": [0, 1, BIG, 3, 4]},
    "label of 32 bits too many": {"labels": [0, 1, 2**32, 3, 4]},
    "labels too short": {"labels": [0, 1, 2, 3]},
    "labels too long": {"labels": [0, 1, 2, 3, 4, 0]},
    "labels of float": {"labels": np.array([0.0, 1, 2, 3, 4])},
    "labels as a table": {"labels": np.array([[0, 1, 2, 3, 4]])},
    "labels mixed": {"labels": [0, "A", 2, 3, 4]},
    "labels of None": {"labels": [None] * 5},
    "labels None": {"labels": None},
    "str labels beside names": {"labels": ["S", "A", "a", "b", "c"]},
    # offsets
    "offsets not sorted": {"offsets": [4, 0]},
    "offsets twice the same": {"offsets": [0, 4, 4]},
    "offsets not from 0": {"offsets": [1, 4]},
    "first tree missing": {"offsets": [4]},
    "second tree missing": {"offsets": [0]},
    "two ends": {"offsets": [0, 4, 5, 5]},
    "offset outside": {"offsets": [0, 4, 6]},
    "offset far outside": {"offsets": [0, BIG]},
    "negative offset": {"offsets": [-1, 4]},
    "offset inside a tree": {"offsets": [0, 1, 4]},
    "no offsets": {"offsets": []},
    "offsets of float": {"offsets": np.array([0.0, 4.0])},
    "offsets as a table": {"offsets": np.array([[0, 4]])},
    "offsets None": {"offsets": None},
    # names
    "names no UTF-8": {"names": np.frombuffer(b"SA\xff\xffbc", dtype=np.uint8)},
    "names cut inside a character": {"name_offsets": [0, 1, 3, 4, 5, 6]},
    "name_offsets not sorted": {"name_offsets": [0, 2, 1, 4, 5, 6]},
    "name_offsets not from 0": {"name_offsets": [1, 1, 2, 4, 5, 6]},
    "name_offsets negative": {"name_offsets": [-1, 1, 2, 4, 5, 6]},
    "name_offsets too short": {"name_offsets": [0, 1, 2, 4, 5]},
    "name_offsets short of the end": {"name_offsets": [0, 1, 2, 4, 5, 5]},
    "name_offsets past the end": {"name_offsets": [0, 1, 2, 4, 5, 7]},
    "name_offsets far past the end": {"name_offsets": [0, 1, 2, 4, 5, BIG]},
    "name_offsets empty": {"name_offsets": []},
    "name_offsets of float": {"name_offsets": np.array([0.0, 1, 2, 4, 5, 6])},
    "name_offsets as a table": {"name_offsets": np.array([[0, 1, 2, 4, 5, 6]])},
    "name_offsets missing": {"name_offsets": None},
    "name_offsets without names": {"names": None},
    "names too few": {**STRINGS, "names": ["S", "A", "a", "b"]},
    "names of int": {**STRINGS, "names": [0, 1, 2, 3, 4]},
    "names of None": {**STRINGS, "names": [None] * 5},
    "names with a surrogate": {**STRINGS, "names": ["S", "A", "\ud800", "b", "c"]},
    "names as a table of bytes": {"names": GOOD["names"].reshape(1, -1)},
    # labels as text
    "surrogate label": {
        "labels": ["S", "A", "\ud800", "b", "c"],
        "names": None,
        "name_offsets": None,
    },
    "float labels without names": {
        "labels": [0.0, 1.0, 2.0, 3.0, 4.5],
        "names": None,
        "name_offsets": None,
    },
}


def test_the_arrays_that_are_tampered_with_are_good():
    expected = tk.Forest.from_brackets("(S (A ä) b) (c)")
    assert tk.Forest.from_arrays(**GOOD) == expected
    assert tk.Forest.from_arrays(**{**GOOD, "offsets": [0, 4, 5]}) == expected
    good = {**GOOD, **STRINGS, "names": ["S", "A", "ä", "b", "c"]}
    assert tk.Forest.from_arrays(**good) == expected


@pytest.mark.parametrize("kind", [list, np.array])
@pytest.mark.parametrize("change", TAMPERED.values(), ids=TAMPERED)
def test_tampered_arrays_are_an_error(change, kind):
    change = {
        name: kind(value) if isinstance(value, list) and value else value
        for name, value in change.items()
    }
    with pytest.raises((ValueError, TypeError)):
        tk.Forest.from_arrays(**{**GOOD, **change})


INDEX_ARRAYS = ["labels", "parents", "offsets", "name_offsets"]


def preorder_parents(parents: list[int], offsets: list[int]) -> bool:
    """Say slowly whether parents and offsets are what from_arrays asks for."""
    if offsets[-1:] == [len(parents)]:
        offsets = offsets[:-1]
    starts = set(offsets)
    if sorted(starts) != offsets or starts - set(range(len(parents))):
        return False
    if bool(parents) != bool(offsets) or (offsets and offsets[0] != 0):
        return False
    path: list[int] = []  # the nodes that may still get children
    for node, parent in enumerate(parents):
        if node in starts:
            path = []
            if parent != -1:
                return False
        elif parent not in path:
            return False
        else:
            path = path[: path.index(parent) + 1]
        path.append(node)
    return True


@given(
    st.lists(st.integers(-2, 5), max_size=6),
    st.lists(st.integers(0, 5), max_size=3),
)
def test_small_parents_and_offsets_are_accepted_exactly_when_legal(parents, offsets):
    arrays = ([7] * len(parents), parents, offsets)
    if preorder_parents(parents, offsets):
        forest = tk.Forest.from_arrays(*arrays)
        assert forest.to_arrays()["parents"].tolist() == parents
        ends = offsets if offsets[-1:] == [len(parents)] else [*offsets, len(parents)]
        assert forest.to_arrays()["offsets"].tolist() == ends
    else:
        with pytest.raises(ValueError):  # noqa: PT011
            tk.Forest.from_arrays(*arrays)


def well_formed(forest: tk.Forest) -> bool:
    """Use a forest in every way, and see that it is one."""
    again = tk.Forest.from_brackets(forest.to_brackets())
    assert len(forest.n_nodes) == len(forest)
    assert len(forest.labels) >= len(again.labels)
    assert [oracle.show(oracle.from_library(tree)) for tree in forest] == (
        again.to_brackets()
    )
    return tk.Forest.from_arrays(**forest.to_arrays()) == forest == again


@given(
    oracle.nonempty_forests,
    st.sampled_from(INDEX_ARRAYS),
    st.data(),
)
def test_one_wrong_number_is_an_error_or_another_good_forest(forest, name, data):
    arrays = tk.Forest.from_trees(forest).to_arrays()
    values = arrays[name].astype(np.int64)
    place = data.draw(st.integers(0, len(values) - 1))
    values[place] = data.draw(
        st.one_of(st.integers(-3, len(values) + 3), st.sampled_from([BIG, -BIG, 2**32]))
    )
    try:
        tampered = tk.Forest.from_arrays(**{**arrays, name: values})
    except ValueError:
        return
    assert well_formed(tampered)


# --- Pickles ------------------------------------------------------------------------


def replacements(value: object):
    """Yield small changes to one value out of a pickle's state."""
    yield from (None, object(), "x", -1, 2**70, [], b"")
    if isinstance(value, np.ndarray):
        yield value[:-1]
        yield value[::-1]
        yield np.append(value, value[-1:])
        yield value.astype(float)
        yield value[np.newaxis]
        for place in {0, len(value) // 2, len(value) - 1} if len(value) else ():
            for number in (0, 1, 255, len(value), -1, BIG):
                changed = value.astype(np.int64)
                changed[place] = number
                yield changed
                with np.errstate(over="ignore"):
                    yield changed.astype(value.dtype)
    elif isinstance(value, bytes):
        yield value[:-1]
        yield value[1:]
        yield value + b"\xff"
        for place in range(len(value)):
            for byte in (0, 1, 0x7F, 0xFF):
                yield value[:place] + bytes([byte]) + value[place + 1 :]
    elif isinstance(value, str):
        yield from ("", "\ud800", value + ")", "(" + value, value[1:])
    elif isinstance(value, int):
        yield from (value + 1, value - 1, BIG, float(value))


def tampered_values(value: object):
    """Yield copies of nested tuples, lists and dicts with one value changed."""
    for other in replacements(value):
        if type(other) is not type(value) or other is not value:
            yield other
    if isinstance(value, tuple | list):
        for place, item in enumerate(value):
            for other in tampered_values(item):
                copy = list(value)
                copy[place] = other
                yield type(value)(copy)
        yield type(value)(list(value)[:-1])
    elif isinstance(value, dict):
        for key, item in value.items():
            yield {k: v for k, v in value.items() if k != key}
            for other in tampered_values(item):
                yield {**value, key: other}


def revive(make, args, state=None):
    """Do what pickle does with what __reduce__ gave."""
    made = make(*args)
    if state is not None:
        made.__setstate__(state)
    return made


@pytest.mark.parametrize("text", ["(S (A ä) b) (c) (S (A ä) b)", "(a)"])
@pytest.mark.parametrize("part", ["forest", "tree"])
def test_tampered_pickle_is_an_error_or_another_good_value(text, part):
    forest = tk.Forest.from_brackets(text)
    value = forest if part == "forest" else forest[0]
    make, *rest = (part for part in value.__reduce_ex__(4) if part is not None)
    assert revive(make, *rest) == value
    tried = refused = 0
    for changed in tampered_values(rest):
        if type(changed) is not list or len(changed) < len(rest):
            continue
        if type(changed[0]) is not tuple:
            continue  # pickle itself refuses
        tried += 1
        try:
            revived = revive(make, *changed)
        except (ValueError, TypeError, IndexError):  # a tree's index, out of range
            refused += 1
            continue
        if isinstance(revived, tk.Tree):
            revived = tk.Forest.from_trees([revived])
        if isinstance(revived, tk.Forest):  # else "x"[0], say: nothing of ours
            assert well_formed(revived)
    assert tried > 10
    assert refused > tried / 4


@pytest.mark.parametrize("part", ["forest", "tree"])
def test_truncated_pickle_is_an_error(part):
    forest = tk.Forest.from_brackets("(S (A ä) b) (c)")
    data = pickle.dumps(forest if part == "forest" else forest[0])
    for end in range(len(data)):
        with pytest.raises((pickle.UnpicklingError, EOFError, ValueError, TypeError)):
            pickle.loads(data[:end])


# --- Nothing half-read is kept ------------------------------------------------------

FAILING_CALLS = {
    "from_brackets": lambda forest: forest.from_brackets("(new (S a)) (S (A"),
    "from_brackets items": lambda forest: forest.from_brackets(["(new a)", 3]),
    "from_trees": lambda forest: forest.from_trees([("new", ["a"]), ("S", [None])]),
    "from_trees with its trees": lambda forest: forest.from_trees([*forest, 3]),
    "from_arrays": lambda forest: forest.from_arrays(["new", "b"], [-1, 1], [0]),
    "index": lambda forest: forest[9],
    "index array": lambda forest: forest[np.array([0, 9])],
    "sum": lambda forest: forest + "(new a)",
    "attribute": lambda forest: setattr(forest, "labels", []),
    "new attribute": lambda forest: setattr(forest, "new", []),
    "assignment": lambda forest: forest.__setitem__(0, forest[1]),
    "deletion": lambda forest: forest.__delitem__(0),
}


@pytest.mark.parametrize("call", FAILING_CALLS.values(), ids=FAILING_CALLS)
def test_failed_call_leaves_the_forest_as_it_was(call):
    forest = tk.Forest.from_brackets("(S (A a) b) (c) (A a)")

    def snapshot():
        arrays = {name: a.tolist() for name, a in forest.to_arrays().items()}
        counts = (len(forest), forest.n_distinct, forest.nbytes, forest.labels)
        return counts, forest.to_brackets(), arrays, pickle.dumps(forest)

    before = snapshot()
    with pytest.raises((ValueError, TypeError, IndexError, AttributeError)):
        call(forest)
    assert snapshot() == before


def test_surrogates_do_not_reach_a_label():
    for bad in ("(\ud800)", ["(a)", "(\udc80)"]):
        with pytest.raises(tk.ParseError):
            tk.Forest.from_brackets(bad)
    assert tk.Forest.from_brackets("(😀)").labels == ["😀"]


def test_the_first_of_two_broken_items_is_named() -> None:
    with pytest.raises(tk.ParseError) as caught:
        tk.Forest.from_brackets(["(a)", "(a", b"\xff"])
    assert caught.value.tree == 1
