"""A kept index answers as its kernel does, bit for bit."""

from __future__ import annotations

import inspect
import pickle
import warnings

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_neighbors import KERNELS, corpora
from test_weights import PRODUCTIONS

import treekernel_rs as tk
from treekernel_rs.tree_kernels import TREE_KERNELS

pytestmark = pytest.mark.filterwarnings("ignore:the kernel of:RuntimeWarning")

SST = tk.SubsetTreeKernel(0.4, normalize=True)
Y = ["(S (A a) (B b))", "(S (A a) (B c))", "(A a)", "(S (A a) (B b))", "(a)"]


def same(found, expected):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    corpora,
    corpora,
    corpora,
    st.sampled_from(KERNELS),
    st.booleans(),
    st.sampled_from([0.2, 0.5, 0.8]),
    st.integers(1, 4),
)
def test_answers_are_those_of_the_kernel(X, Y, more, kernel, normalize, least, k):
    kernel = kernel.replace(normalize=normalize)
    index = kernel.index(Y)
    # What is added is in a part of its own, until the index is compact.
    for trees in (Y, Y + more):
        for asked in (index.compact(), pickle.loads(pickle.dumps(index))):
            for n_jobs in (1, 3):
                gram = asked.gram(X, n_jobs=n_jobs)
                np.testing.assert_array_equal(gram, kernel(X, trees))
                for x in (X, tk.Forest.from_brackets(X + trees)[: len(X)]):
                    found = asked.top_k(x, k=k, n_jobs=n_jobs)
                    same(found, kernel.top_k(X, trees, k=k))
                    found = asked.join(x, min_similarity=least, n_jobs=n_jobs)
                    same(found, kernel.join(X, trees, min_similarity=least))
                same(asked.top_k(k=k, n_jobs=n_jobs), kernel.top_k(trees, k=k))
                for _ in range(2):
                    found = asked.join(min_similarity=least, n_jobs=n_jobs)
                    same(found, kernel.join(trees, min_similarity=least))
        index.add(more)
        with_more = kernel(X, trees + more)
        np.testing.assert_allclose(index.gram(X), with_more, rtol=1e-12)


WEIGHTS = [
    None,
    {"S": 0.3, "A": 0.7, "a": 1.1},
    {("S", ("A", "a")): 0.9, ("A", ("a",)): 0.35, "b": 0.7, "S": 1.3},
]
SIMILAR = tk.kernels.TableSimilarity({("a", "b"): 0.7, ("A", "S"): 0.3})


@st.composite
def kernels(draw):
    """Every kernel, with all that it may have."""
    name = draw(st.sampled_from(sorted(TREE_KERNELS)))
    plain = {"decay": draw(st.sampled_from([0.1, 1 / 3, 0.7, 1.0]))}
    if "leaf_weight" in inspect.signature(getattr(tk, name)).parameters:
        plain["leaf_weight"] = draw(st.sampled_from([0.0, 0.3]))
    if name == "PartialTreeKernel":
        plain["leaf_factor"] = draw(st.sampled_from([0.0, 1.0, 1.7]))
    kernel = getattr(tk, name)(**plain, normalize=draw(st.booleans()))
    if name in ("SubtreeKernel", "SubpathKernel"):
        kernel = kernel.replace(counts=draw(st.sampled_from(["linear", "log", "set"])))
    if name == "PartialTreeKernel" and draw(st.booleans()):
        return kernel.replace(similarity=SIMILAR)
    if "weights" not in kernel._defaults:
        return kernel
    return kernel.replace(
        weights=draw(st.sampled_from(WEIGHTS if name in PRODUCTIONS else WEIGHTS[:2]))
    )


@settings(max_examples=400, deadline=None)
@given(kernels(), corpora, corpora)
@example(
    tk.SubsetTreeKernel(1.0, weights={"b": 0.7, "a": 0.3}, normalize=True),
    ["(a (a (b (a b b))))"],
    ["(a b)"],
)
def test_an_index_built_at_once_has_the_bits_of_the_kernel(kernel, X, Y):
    expected = kernel(X, Y)
    np.testing.assert_array_equal(kernel.index(Y).gram(X), expected)
    # Whatever store the trees are in.
    larger = tk.Forest.from_brackets([*Y[::-1], "(b (S b) (A S))", *X])
    np.testing.assert_array_equal(kernel(larger[-len(X) :], Y), expected)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_rows_and_slices_of_larger_forests_ask_as_well(kernel):
    lines = [f"(S (A w{i % 7}) (B (A w{i % 5}) (C w{i})))" for i in range(6000)]
    everything = tk.Forest.from_brackets(lines)
    index = kernel.replace(normalize=True).index(everything[:500])
    expected = index.kernel(lines[5000:5004], lines[:500])
    rows = index.rows(everything[5000:5004])
    np.testing.assert_array_equal(rows[:], expected)
    np.testing.assert_array_equal(rows[2], expected[2])
    np.testing.assert_array_equal(rows[[3, -4]], expected[[3, 0]])
    assert [row.shape for row in rows] == [(500,)] * 4
    single = index.gram(everything[5000:5001], dtype=np.float32)
    np.testing.assert_array_equal(single, expected[:1].astype(np.float32))


def test_labels_with_new_kinds_of_children_are_seen_by_partial_trees():
    # All A of Y have a single leaf.
    X = ["(S (A a b) (B b))", "(A (A a) a)", "(S (A a) (B b))"]
    kernel = tk.PartialTreeKernel(normalize=True)
    index = kernel.index(Y)
    for asked in (X, X[2:], X[:1]):
        np.testing.assert_array_equal(index.gram(asked), kernel(asked, Y))
        same(index.top_k(asked, k=2), kernel.top_k(asked, Y, k=2))


def test_trees_too_large_for_floats_ask_as_well():
    large = [f"(S {'(A (B b) (C c)) ' * 900} {last})" for last in ("(D d)", "(D e)")]
    kernel = tk.SubsetTreeKernel(1.0, normalize=True)
    index = kernel.index([*Y, large[0]])
    expected = kernel(large, [*Y, large[0]])
    assert 0.1 < expected[1, 5] < 1
    np.testing.assert_array_equal(index.gram(large), expected)
    same(index.top_k(large, k=2), kernel.top_k(large, [*Y, large[0]], k=2))
    raw = kernel.replace(normalize=False).index(large)
    with pytest.raises(OverflowError, match=r"row 1|tree 1|1"):
        raw.gram(["(A a)", large[0]])


def test_what_is_built_is_kept_until_trees_come():
    index = SST.index(Y)
    empty = index.nbytes
    index.gram(Y[:1])
    built = index.nbytes
    assert built > empty
    index.top_k(Y[:2], k=1)
    assert index.nbytes == built
    index.add(Y)
    assert len(index) == len(index.forest) == 10
    assert index.nbytes < built
    assert index.build(n_jobs=1).nbytes > empty


def test_a_stopped_question_leaves_the_index_good():
    index = SST.index(Y * 100)

    def stop(done, total):
        raise LookupError

    for call in (index.gram, index.top_k, index.join):
        with pytest.raises(LookupError):
            call(Y, progress=stop)
    np.testing.assert_array_equal(index.gram(Y), SST(Y, Y * 100))


def test_empty_indices_answer():
    index = SST.index([])
    assert index.gram(Y).shape == (5, 0)
    assert index.top_k(Y).indices.shape == (5, 0)
    assert index.top_k().indices.shape == (0, 0)
    assert index.join(Y).shape == (5, 0)
    assert SST.index(Y).gram([]).shape == (0, 5)
    assert SST.index(Y).join([]).shape == (0, 5)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda i: i.top_k(Y, k=0), ValueError, "k must be an int of at least 1"),
        (lambda i: i.join(min_similarity=np.nan), ValueError, "min_similarity must"),
        (lambda i: i.join(Y, min_similarity=np.nan), ValueError, "min_similarity must"),
        (lambda i: i.join(out=3), TypeError, "out must be a callable"),
        (lambda i: i.gram(["(A"]), tk.ParseError, "tree 0"),
        (lambda i: i.add(["(A"]), tk.ParseError, "tree 0"),
        (lambda i: i.gram(Y, out=np.empty((2, 2))), ValueError, "out must be of shape"),
        (lambda i: i.rows(Y)[5], IndexError, "5"),
        (lambda i: tk.TreeIndex(3, Y), TypeError, "kernel must be a tree kernel"),
        (
            lambda i: tk.SubsetTreeKernel(2.0).index(Y),
            ValueError,
            "decay",
        ),
    ],
)
def test_bad_input_is_named(call, error, message):
    index = SST.index(Y)
    with pytest.raises(error, match=message):
        call(index)
    assert len(index) == 5


def test_trees_without_kernel_are_told_of():
    index = SST.index(Y)
    for call in (index.gram, index.top_k, index.join):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call(Y[3:])
        assert [str(w.message).split(" with ")[0][-1] for w in caught] == ["X", "Y"]
        assert all(w.filename == __file__ for w in caught), call


def test_estimators_keep_their_index():
    gram = tk.TreeGram(SST).fit(Y)
    index = gram.index_
    np.testing.assert_array_equal(gram.transform(Y[:2]), SST(Y[:2], Y))
    assert gram.index_ is index
    again = pickle.loads(pickle.dumps(gram))
    np.testing.assert_array_equal(again.transform(Y[:2]), SST(Y[:2], Y))
    assert again.forest_ is again.index_.forest
    graph = tk.TreeKNeighborsTransformer(SST, 2).fit(Y)
    assert graph.transform(Y[:1]).shape == (1, 5)
