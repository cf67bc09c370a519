"""Nodes and their addresses, against a walk in plain Python."""

from __future__ import annotations

import ast
import inspect
import json.decoder
import pickle
import textwrap
import time
from collections import Counter

import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

import treekernel_rs as tk

LABELS = ["", "a", "NP", "<&\"/'>", "\x00", "日本語"]
trees = st.recursive(
    st.sampled_from(LABELS).map(lambda label: (label, ())),
    lambda below: st.tuples(
        st.sampled_from(LABELS), st.lists(below, max_size=4).map(tuple)
    ),
    max_leaves=20,
)


def listed(tree, above=(), number=0):
    """List path, number and subtree of each node in preorder."""
    path = (*above, tree[0])
    found = [(path, number, tree)]
    for child in tree[1]:
        found += listed(child, path, number + len(found))
    return found


@given(trees)
def test_nodes_have_their_numbers_labels_paths_and_subtrees(tree):
    whole = tk.Forest.from_trees([tree])[0]
    expected, nodes = listed(tree), list(whole.walk())
    assert [node.number for node in nodes] == [number for _, number, _ in expected]
    for node, (path, number, below) in zip(nodes, expected, strict=True):
        assert node.path == list(path)
        assert node.label == path[-1]
        assert node.depth == len(path)
        assert node.n_nodes == len(listed(below))
        assert str(node.tree) == oracle.show(below)
        assert [child.label for child in node.children] == [c[0] for c in below[1]]
        assert all(child.parent == node for child in node.children)
        assert node == nodes[number]
        assert hash(node) == hash(next(n for n in whole.walk() if n.number == number))
        assert repr(node).startswith(f"<Node {number}: ")
    assert nodes[0].parent is None
    assert sum(len(node.children) for node in nodes) == len(nodes) - 1
    assert max(node.depth for node in nodes) == whole.depth


def test_equal_nodes_have_equal_numbers_and_trees():
    text = "(S (NP dogs) (VP bark))"
    one, two = (list(tk.Forest([text])[0].walk()) for _ in range(2))
    assert one == two
    assert len({*one, *two}) == 5
    other = list(tk.Forest(["(S (NP dogs) (VP run))"])[0].walk())
    assert one[1] != other[1]
    assert one[1] != one[2]
    assert one[1] != "NP"
    assert pickle.loads(pickle.dumps(one[2])) == one[2]


def test_numbers_are_those_of_arrays_mappings_and_contributions():
    text = "(S (NP dogs) (VP (V bark)))"
    tree = tk.Forest([text])[0]
    nodes = list(tree.walk())
    mapping = tk.EditDistance().mapping(text, "(S (NP cats) (VP bark))")
    assert [nodes[i].label for i, _ in mapping.renamed] == ["dogs"]
    assert [nodes[i].label for i in mapping.deleted] == ["V"]
    model = tk.DagModel(tk.SubtreeKernel(1.0))
    model.add(["(NP dogs)"], [1.0])
    (found,) = np.flatnonzero(model.contributions(tree))
    assert str(nodes[found].tree) == "(NP dogs)"


def test_spans_are_those_given():
    tree = tk.Forest(["(S (NP dogs) (VP bark))"])[0]
    lines = [[1, 3], [1, 2], [2, 2], [3, 3], [0, 0]]
    spans = [node.span for node in tree.walk(lines)]
    assert spans == [(1, 3), (1, 2), (2, 2), (3, 3), None]
    assert {node.span for node in tree.walk()} == {None}
    for wrong in (lines[:4], [1, 2], np.array(lines) / 2, "lines"):
        with pytest.raises(
            ValueError, match=r"spans must be integers of shape \(5, 2\)"
        ):
            tree.walk(wrong)


def test_a_long_path_is_shown_by_its_ends():
    *_, last = tk.Forest(["(a (b (c (d (e (f (g (h))))))))"])[0].walk()
    assert repr(last) == "<Node 7: a/…/c/d/e/f/g/h>"
    *_, last = tk.Forest(["(a (b (c (d (e (f (g)))))))"])[0].walk()
    assert repr(last) == "<Node 6: a/b/c/d/e/f/g>"
    *_, last = tk.Forest([r"(a (\e))"])[0].walk()
    assert repr(last) == "<Node 1: a/∅>"


@pytest.mark.parametrize("shape", ["chain", "star"])
def test_large_trees_are_walked_in_linear_time_and_without_recursion(shape):
    n = 100_000
    parents = np.arange(n) - 1 if shape == "chain" else np.r_[-1, np.zeros(n - 1, int)]
    tree = tk.Forest.from_arrays(np.zeros(n, int), parents, [0], names=["a"])[0]
    start = time.process_time()
    nodes = list(tree.walk())
    assert sum(node.depth for node in nodes) == sum(
        range(n + 1) if shape == "chain" else [1, 2 * (n - 1)]
    )
    assert sum(len(node.children) for node in nodes) == n - 1
    assert sum(node.n_nodes == 1 for node in nodes) == (
        1 if shape == "chain" else n - 1
    )
    assert len(nodes[-1].path) == tree.depth
    assert "a/a" in repr(nodes[-1])
    assert nodes[1].tree.n_nodes == (n - 1 if shape == "chain" else 1)
    assert time.process_time() - start < 20  # takes 1; quadratic it would take hours


def test_a_tree_beyond_all_measure_is_refused():
    tree = tk.Forest.from_brackets("(A a)")[0]
    for _ in range(60):
        tree = tk.Forest.from_trees([("A", [tree, tree])])[0]
    with pytest.raises(ValueError, match="nodes, above the limit"):
        tree.walk()


# --- Lines of nodes, by readers ---------------------------------------------------------

elements = st.recursive(
    st.tuples(st.sampled_from("abp"), st.integers(0, 2), st.just(())),
    lambda below: st.tuples(
        st.sampled_from("abp"),
        st.integers(0, 2),
        st.lists(below, max_size=3).map(tuple),
    ),
    max_leaves=12,
)


def written(element, line, *, ends):
    """Write an element; return the text, its last line, and the lines of all nodes.

    Where ends of elements are not known, the last line is that of a beginning.
    """
    tag, n_breaks, children = element
    text, last, below = f"<{tag} id='x'>" + "\n" * n_breaks, line, []
    at = line + n_breaks
    for child in children:
        inner, at, spans = written(child, at, ends=ends)
        text += inner + "word\n"
        below += [*spans, None]
        last = max(last, spans[0][1])
        at += 1
    last = at if ends else last
    span = (line, last)
    found = [span, span, span, *(span if place is None else place for place in below)]
    return f"{text}</{tag}>", at, found


@given(st.lists(elements, min_size=1, max_size=3))
def test_lines_of_xml_are_those_where_elements_begin_and_end(trees):
    texts, spans = [], []
    for tree in trees:
        text, _, found = written(tree, 2, ends=True)
        texts.append("\n" + text)
        spans.append(found)
    texts.insert(1, "<a>\n<b>")  # left out
    reading = tk.readers.xml(
        text=texts, attributes="keep", text_nodes="keep", node_spans=True, errors="skip"
    )
    assert len(reading.skipped) == 1
    for number, found in enumerate(spans):
        assert [node.span for node in reading.walk(number)] == found
        assert np.array_equal(reading.spans_of(number), found)
    assert np.array_equal(reading.spans_of(-1), spans[-1])
    assert [found[0] for found in spans] == [
        (first, last) for first, last in reading.spans
    ]
    plain = tk.readers.xml(text=texts, errors="skip")
    assert plain.node_spans is plain.spans_of(0) is None
    assert {node.span for node in plain.walk()} == {None}


@given(elements)
def test_lines_of_html_are_those_where_elements_begin(tree):
    pytest.importorskip("lxml", reason="the extra web is not installed")

    def plain(element):  # such that nothing is repaired
        _, n_breaks, children = element
        return "div" if children else "i", n_breaks, tuple(plain(c) for c in children)

    text, _, found = written(plain(tree), 1, ends=False)
    reading = tk.readers.html(
        text=f"<html><body>{text}</body></html>",
        attributes="keep",
        text_nodes="keep",
        node_spans=True,
    )
    assert [node.span for node in reading.walk()][2:] == found


@pytest.mark.parametrize("module", [json.decoder, textwrap, inspect])
@pytest.mark.parametrize("level", ["module", "function"])
def test_lines_of_python_are_those_of_ast(module, level):
    source = inspect.getsource(module)
    reading = tk.readers.python_ast(
        text=[source, "def f(:", source],
        level=level,
        identifiers="blank",
        docstrings=True,
        node_spans=True,
        errors="skip",
    )
    assert len(reading.node_spans) == reading.forest.n_nodes.sum()
    nodes = [node for tree in range(len(reading)) for node in reading.walk(tree)]
    placed = {
        name
        for name, kind in vars(ast).items()
        if "end_lineno" in getattr(kind, "_attributes", ())
    }
    found = Counter((n.label, n.span) for n in nodes if n.label in placed)
    roots = [ast.parse(source)]
    if level == "function":
        roots = functions(roots[0])
    expected = Counter(
        (type(node).__name__, (node.lineno, node.end_lineno))
        for root in roots
        for node in ast.walk(root)
        if hasattr(node, "lineno")
    )
    assert len(found) > 100
    assert found == Counter({place: 2 * n for place, n in expected.items()})
    for node in nodes:
        if node.label not in placed:
            span = (1, source.count("\n") + 1) if not node.parent else node.parent.span
            below = node.children
            if not hasattr(ast, node.label) and below:  # a field, such as body
                span = below[0].span[0], below[-1].span[1]
            assert node.span == span
    plain = tk.readers.python_ast(text=source, level=level)
    assert plain.node_spans is None


def functions(node):
    """List functions that are in no other."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return [node]
    return [f for child in ast.iter_child_nodes(node) for f in functions(child)]
