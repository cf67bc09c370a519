"""An index to which trees are added answers as the kernel's matrices say."""

from __future__ import annotations

import pickle
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_index import kernels
from test_neighbors import corpora

import treekernel_rs as tk

pytestmark = pytest.mark.filterwarnings("ignore:the kernel of:RuntimeWarning")

SST = tk.SubsetTreeKernel(0.4, normalize=True)
COMPOSED = [
    tk.SubsetTreeKernel(0.4, normalize=True) + tk.PartialTreeKernel(normalize=True),
    tk.SubsetTreeKernel(0.4) * tk.SubtreeKernel(0.5),
]
STEPS = st.one_of(
    st.tuples(st.just("add"), corpora),
    st.tuples(st.just("add"), corpora.map(lambda trees: trees[:1])),
    st.tuples(st.sampled_from(["pickle", "save", "compact", "copy"]), st.none()),
    st.tuples(st.just("gram"), corpora),
    st.tuples(st.just("top_k"), st.none() | corpora),
    st.tuples(st.just("join"), st.none() | corpora),
)


def check_nearest(found, matrix, equal, k, *, is_self):
    """Values, their order, and of equal trees the first ones."""
    matrix = matrix.copy()
    if is_self:
        np.fill_diagonal(matrix, -np.inf)
    k = min(k, matrix.shape[1] - is_self)
    assert found.indices.shape == found.values.shape == (len(matrix), k)
    best = -np.sort(-matrix, axis=1)[:, :k]
    np.testing.assert_allclose(found.values, best, rtol=1e-12, atol=1e-12)
    for row, (indices, values) in enumerate(zip(*found, strict=True)):
        assert len(set(indices)) == k
        np.testing.assert_allclose(values, matrix[row, indices], rtol=1e-12, atol=1e-12)
        ascends = (np.diff(values) < 0) | (np.diff(indices) > 0)
        assert ascends.all(), (indices, values)
        for at, index in enumerate(indices):
            before = np.flatnonzero(equal[index][:index])
            before = before[before != row] if is_self else before
            assert set(before) <= set(indices[:at])


def check_joined(found, matrix, least, *, is_self):
    assert found.shape == matrix.shape
    places = list(zip(found.rows.tolist(), found.columns.tolist(), strict=True))
    assert places == sorted(set(places))
    own = matrix[found.rows, found.columns]
    np.testing.assert_allclose(found.values, own, rtol=1e-12, atol=1e-12)
    assert (found.values >= least).all()
    wanted = np.triu(matrix, 1) if is_self else matrix
    # What is as near to the threshold as rounding may be on either side of it.
    missing = set(zip(*np.nonzero(wanted > least + 1e-12), strict=True)) - set(places)
    assert not missing
    assert not is_self or (found.rows < found.columns).all()


def check_history(kernel, trees, steps, least, k):
    index = kernel.index(trees)
    for step, given_trees in steps:
        if step == "add":
            trees = trees + given_trees
            index.add(given_trees)
            assert len(index) == len(trees)
            continue
        if step == "pickle":
            index = pickle.loads(pickle.dumps(index))
        elif step == "save":
            with tempfile.TemporaryDirectory() as folder:
                tk.save(index, Path(folder, "index"))
                index = tk.load(Path(folder, "index"))
        elif step == "copy":
            # What is added to the one is not in the other.
            earlier, index = index, pickle.loads(pickle.dumps(index))
            earlier.add(["(a)"])
        elif step == "compact":
            np.testing.assert_array_equal(
                index.compact().gram(trees[:3]), kernel(trees[:3], trees)
            )
        assert index.forest == tk.Forest(trees)
        if step == "gram":
            np.testing.assert_allclose(
                index.gram(given_trees),
                kernel(given_trees, trees),
                rtol=1e-12,
                atol=1e-12,
            )
        if step not in ("top_k", "join"):
            continue
        is_self = given_trees is None
        matrix = kernel(trees if is_self else given_trees, trees)
        if step == "top_k":
            equal = np.array(trees)[:, None] == np.array(trees)
            found = index.top_k(given_trees, k=k)
            check_nearest(found, matrix, equal, k, is_self=is_self)
        else:
            found = index.join(given_trees, min_similarity=least)
            check_joined(found, matrix, least, is_self=is_self)


HISTORY = (
    kernels() | st.sampled_from(COMPOSED),
    corpora,
    st.lists(STEPS, min_size=2, max_size=12),
    st.sampled_from([0.2, 0.5, 0.8]),
    st.integers(1, 5),
)


@settings(max_examples=40, deadline=None)
@given(*HISTORY)
def test_histories_answer_as_matrices_say(kernel, trees, steps, least, k):
    check_history(kernel, trees, steps, least, k)


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(*HISTORY)
def test_many_histories_answer_as_matrices_say(kernel, trees, steps, least, k):
    check_history(kernel, trees, steps, least, k)


def test_trees_one_by_one_are_those_added_at_once():
    rng = np.random.default_rng(3)
    trees = [
        f"(S (A w{rng.integers(9)}) (B (C w{rng.integers(5)}) (A w{i % 7})))"
        for i in range(300)
    ]
    index, asked = SST.index([]), trees[:5]
    for n, tree in enumerate(trees, 1):
        index.add([tree])
        if n % 50 == 0:
            matrix, equal = SST(asked, trees[:n]), np.array(trees[:n])
            equal = equal[:, None] == equal
            np.testing.assert_allclose(index.gram(asked), matrix, rtol=1e-12)
            check_nearest(index.top_k(asked, k=7), matrix, equal, 7, is_self=False)
            whole = SST(trees[:n])
            check_nearest(index.top_k(k=7), whole, equal, 7, is_self=True)
            check_joined(index.join(min_similarity=0.7), whole, 0.7, is_self=True)
    np.testing.assert_array_equal(index.compact().gram(asked), SST(asked, trees))


def test_a_column_that_is_no_number_is_named_where_it_stands():
    large = "(S" + " (A (B b) (C c))" * 900 + ")"
    index = tk.SubsetTreeKernel(1.0).index(["(a)"] * 5)
    index.add(["(b)", large])
    with pytest.raises(OverflowError, match=r"tree 1.*tree 6"):
        index.gram(["(a)", large])


@pytest.mark.parametrize("step", ["gram", "top_k", "join"])
def test_trees_without_kernel_are_named_where_they_stand(step):
    index = SST.index(["(A a)", "(a)", "(B b)"])
    index.add(["(A a)", "(b)"])
    with pytest.warns(RuntimeWarning, match="Y with themselves") as caught:
        getattr(index, step)(["(A a)"])
    assert str(caught[0].message).endswith(": 1, 4")
    if step != "gram":
        with pytest.warns(RuntimeWarning, match="Y with themselves") as caught:
            getattr(index, step)()
        assert str(caught[0].message).endswith(": 1, 4")


def test_an_added_tree_takes_a_small_part_of_building():
    lines = [f"(S (A w{i % 97}) (B (A w{i % 89}) (C w{i})))" for i in range(60_000)]
    forest, index = tk.Forest.from_brackets(lines), None
    start = time.process_time()
    index = SST.index(forest).build(n_jobs=1)
    build = time.process_time() - start
    asked, took = ["(Q q)"], []
    for i in range(7):
        start = time.process_time()
        index.add([f"(S (A w{i}) (B b))"])
        index.build(n_jobs=1)
        took.append(time.process_time() - start)
        assert index.top_k(asked, k=1, n_jobs=1).values.item() == 0.0
    # A hundredth by measurements; a tenth is enough to tell that not all is built again.
    assert min(took) < build / 10, (took, build)


def nearest_of(matrix, allowed, least, k):
    """Lists of (value, index) by brute force: the nearest first, equal ones by index."""
    rows = []
    for values, may in zip(matrix, allowed, strict=True):
        some = [(-v, j) for j, v in enumerate(values) if may[j] and v >= least]
        rows.append([(-v, j) for v, j in sorted(some)[:k]])
    return rows


@settings(max_examples=120, deadline=None)
@given(
    kernels() | st.sampled_from(COMPOSED),
    st.lists(corpora, min_size=1, max_size=3),
    st.none() | corpora,
    st.data(),
)
def test_filters_are_those_of_brute_force(kernel, parts, X, data):
    index = kernel.index(parts[0])
    for part in parts[1:]:
        index.add(part)
    trees = [tree for part in parts for tree in part]
    n, asked = len(trees), trees if X is None else X
    # Values of the index itself, as rounding decides at the threshold.
    every = index.top_k(asked, k=n)
    matrix = np.full((len(asked), n), np.nan)
    np.put_along_axis(matrix, every.indices, every.values, axis=1)
    np.testing.assert_allclose(matrix, kernel(asked, trees), rtol=1e-12, atol=1e-12)
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    where = data.draw(st.sampled_from([None, mask, np.flatnonzero(mask)]))
    exclude = data.draw(st.booleans())
    least = data.draw(st.sampled_from([None, 0.3, 0.8, 1.0]))
    k = data.draw(st.integers(1, 4))
    equal = np.array(asked)[:, None] == np.array(trees)
    allowed = np.tile(
        True if where is None else mask, (len(asked), n if where is None else 1)
    )
    if exclude:
        allowed = allowed & ~equal
    if X is None:
        allowed = allowed & ~np.eye(n, dtype=bool)
    found = index.top_k(
        X, k=k, where=where, exclude_equal=exclude, min_similarity=least, n_jobs=1
    )
    width = min(k, n - (X is None))
    assert found.indices.shape == (len(asked), width)
    low = -np.inf if least is None else least
    for row, expected in enumerate(nearest_of(matrix, allowed, low - 1e-12, width)):
        indices, values = found.indices[row], found.values[row]
        n_found = int((indices >= 0).sum())
        assert (indices[n_found:] == -1).all()
        assert np.isneginf(values[n_found:]).all()
        # What is as near to the threshold as rounding may be on either side of it.
        surely = [v for v, _ in expected if v >= low + 1e-12]
        assert len(surely) <= n_found <= len(expected)
        best = [value for value, _ in expected[:n_found]]
        np.testing.assert_allclose(values[:n_found], best, rtol=1e-12, atol=1e-12)
        assert allowed[row, indices[:n_found]].all()
        assert (
            (np.diff(values[:n_found]) < 0) | (np.diff(indices[:n_found]) > 0)
        ).all()
    joined = index.join(X, min_similarity=0.5, where=where, n_jobs=1)
    whole = index.join(X, min_similarity=0.5)
    wanted = np.ones(n, bool) if where is None else mask
    kept = wanted[whole.columns] & (wanted[whole.rows] if X is None else True)
    for part, expected in zip(joined[:3], whole[:3], strict=True):
        np.testing.assert_array_equal(part, expected[kept])


@pytest.mark.parametrize("measure", [SST, tk.EditDistance()])
def test_of_equal_values_the_first_one_that_may_answer_comes_first(measure):
    """Copies that are left out do not count as places of their trees."""
    index = measure.index(["(A a)", "(B b)", "(C c)", "(A a)", "(B b)", "(D d)"])
    for where, expected in [([1, 3], [1, 3]), ([2, 3, 4], [2, 3]), ([3, 4, 5], [3, 4])]:
        found = index.top_k(["(Q q)"], k=2, where=where)
        assert found.indices.tolist() == [expected]


def test_a_kept_bound_serves_all_thresholds():
    trees = [f"(S (A w{i % 9}) (B (C w{i % 5}) (A w{i % 7})))" for i in range(200)]
    index, matrix = SST.index(trees), SST(trees[:20], trees)
    # Up and down, so that bounds are kept, used for more, and made again for less.
    for least in (0.9, 0.95, 0.5, 0.7, 0.01, 0.9, 0.02, 1.0):
        check_joined(
            index.join(trees[:20], min_similarity=least), matrix, least, is_self=False
        )
        found = index.top_k(trees[:20], k=200, min_similarity=least)
        counts = (found.indices >= 0).sum(axis=1)
        assert (counts >= (matrix >= least + 1e-12).sum(axis=1)).all()
        assert (counts <= (matrix >= least - 1e-12).sum(axis=1)).all()
    size = index.nbytes
    index.join(trees[:3], min_similarity=0.95)
    assert index.nbytes == size


@pytest.mark.parametrize(
    ("given_where", "error", "message"),
    [
        (
            [True],
            ValueError,
            r"where must be of shape \(3,\), one value per tree, got \(1,\)",
        ),
        ([3], ValueError, r"where\[0\].*from 0 to below 3.*3"),
        ([-1], ValueError, r"where\[0\].*from 0 to below 3.*-1"),
        ([0.5], ValueError, "where: expected a one-dimensional array of integers"),
        ([[0]], ValueError, "where: expected a one-dimensional array of integers"),
    ],
)
def test_a_wrong_where_is_named(given_where, error, message):
    index = SST.index(["(A a)", "(B b)", "(C c)"])
    for call in (index.top_k, index.join):
        with pytest.raises(error, match=message):
            call(["(A a)"], where=given_where)


def test_wrong_filters_are_named():
    index = SST.index(["(A a)"])
    with pytest.raises(TypeError, match="min_similarity must be a number"):
        index.top_k(min_similarity="high")
    with pytest.raises(ValueError, match="min_similarity must be a number, got NaN"):
        index.top_k(["(A a)"], min_similarity=np.nan)
    with pytest.raises(ValueError, match="exclude_equal must be True or False, got 1"):
        index.top_k(exclude_equal=1)


def test_few_matches_and_none_answer_as_rows_do():
    # Rare productions, frequent ones, none: with lists, rows, and neither.
    trees = [
        f"(S (A w{i % 400}) (R{i % 300} x) (B (C w{i % 5})))" for i in range(3_000)
    ]
    asked = ["(Q q)", "(R7 x)", "(A w3)", "(S (A w3) (R1 x) (B (C w2)))", "(B (C w2))"]
    for kernel in (
        SST,
        tk.SubsetTreeKernel(0.4, leaf_weight=0.1),
        tk.SubtreeKernel(0.4, normalize=True),
        tk.SubtreeKernel(0.4, leaf_weight=0.2, counts="log"),
        tk.PartialTreeKernel(normalize=True),
        tk.PartialTreeKernel(leaf_factor=0.0),
        tk.ElasticTreeKernel(0.5, normalize=True),
        tk.SubpathKernel(0.5),
    ):
        matrix, index = kernel(asked, trees), kernel.index(trees)
        equal = np.zeros((3_000, 3_000), dtype=bool)
        for k in (1, 12):
            found = index.top_k(asked, k=k)
            check_nearest(found, matrix, equal, k, is_self=False)
        # Of nothing in common the first trees are the nearest.
        assert found.indices[0].tolist() == list(range(12))
