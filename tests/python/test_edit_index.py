"""An index of edit distances answers as the matrix of all distances says, to the bit."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_neighbors import corpora

import treekernel_rs as tk

DISTANCES = [
    tk.EditDistance(),
    tk.EditDistance(normalize="max"),
    tk.EditDistance(normalize="metric"),
    tk.EditDistance(0.3, 0.7, 1.1, normalize="sum"),
    tk.EditDistance(5, 1, 0.5),
    tk.EditDistance(1, 1e-9, 3),
    # Costs that depend on labels have no bounds that are kept.
    tk.EditDistance({("A", "B"): 0.25}, {"C": 2, None: 1}, normalize="max"),
]


def nearest_of(matrix, allowed, most, k):
    """Indices and values by brute force: the nearest first, equal ones by index."""
    indices = np.full((len(matrix), k), -1)
    values = np.full((len(matrix), k), np.inf)
    for row, (distances, may) in enumerate(zip(matrix, allowed, strict=True)):
        some = sorted((d, j) for j, d in enumerate(distances) if may[j] and d <= most)
        for at, (d, j) in enumerate(some[:k]):
            indices[row, at], values[row, at] = j, d
    return indices, values


def pairs_of(matrix, allowed, most, *, is_self):
    near = (matrix <= most) & allowed
    return np.nonzero(np.triu(near, 1) if is_self else near)


def check(distance, parts, X, data):
    index = distance.index(parts[0])
    for part in parts[1:]:
        # Asked before it grows: what was kept must not be taken for the whole.
        index.top_k(part, k=1)
        index.add(part)
    if data.draw(st.booleans()):
        index = pickle.loads(pickle.dumps(index))
    trees = [tree for part in parts for tree in part]
    n, asked = len(trees), trees if X is None else X
    matrix = distance(asked, trees)
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    where = data.draw(st.sampled_from([None, mask, np.flatnonzero(mask)]))
    exclude = data.draw(st.booleans())
    most = data.draw(st.sampled_from([None, 0.0, 0.3, 0.7, 2.0, 5.0]))
    n_jobs = data.draw(st.sampled_from([1, 2]))
    among = np.full(n, True) if where is None else mask
    allowed = np.tile(among, (len(asked), 1))
    within = allowed & among[: len(asked), None] if X is None else allowed
    if exclude:
        allowed = allowed & (np.array(asked)[:, None] != np.array(trees))
    if X is None:
        allowed = allowed & ~np.eye(n, dtype=bool)

    if X is not None:
        np.testing.assert_array_equal(index(X, n_jobs=n_jobs), matrix)
    k = data.draw(st.integers(1, 4))
    limits = {"max_distance": most, "where": where, "exclude_equal": exclude}
    found = index.top_k(X, k=k, n_jobs=n_jobs, **limits)
    k = min(k, n - (X is None))
    high = np.inf if most is None else most
    for part, expected in zip(found, nearest_of(matrix, allowed, high, k), strict=True):
        np.testing.assert_array_equal(part, expected)

    if X is None and not np.array_equal(matrix, matrix.T):
        with pytest.raises(ValueError, match="symmetric"):
            index.join(max_distance=0.5, n_jobs=n_jobs)
        return
    most = 0.5 if most is None else most
    try:
        joined = index.join(X, max_distance=most, where=where, n_jobs=n_jobs)
    except ValueError:
        # Other costs for the way back are refused, whatever these trees cost.
        assert X is None
        assert distance.insert != distance.delete
        return
    rows, columns = pairs_of(matrix, within, most, is_self=X is None)
    np.testing.assert_array_equal(joined.rows, rows)
    np.testing.assert_array_equal(joined.columns, columns)
    np.testing.assert_array_equal(joined.values, matrix[rows, columns])


GIVEN = (
    st.sampled_from(DISTANCES),
    st.lists(corpora, min_size=1, max_size=3),
    st.none() | corpora,
    st.data(),
)


@settings(max_examples=150, deadline=None)
@given(*GIVEN)
def test_answers_are_those_of_brute_force(distance, parts, X, data):
    check(distance, parts, X, data)


@pytest.mark.slow
@settings(max_examples=1500, deadline=None)
@given(*GIVEN)
def test_many_answers_are_those_of_brute_force(distance, parts, X, data):
    check(distance, parts, X, data)


def random_trees(n, seed, size=40):
    rng = np.random.default_rng(seed)

    def tree(nodes):
        label = "abcdefgh"[rng.integers(8)]
        below = []
        nodes -= 1
        while nodes > 0:
            part = int(rng.integers(1, nodes + 1))
            below.append(tree(part))
            nodes -= part
        return f"({label} {' '.join(below)})"

    return [tree(int(rng.integers(1, size))) for _ in range(n)]


@pytest.mark.parametrize("normalize", [None, "max"])
def test_larger_trees_and_labels_that_are_new(normalize):
    distance = tk.EditDistance(normalize=normalize)
    trees, others = random_trees(150, 1), random_trees(40, 2, size=70)
    others += [tree.replace("(a", "(new").replace("(b", "(newer") for tree in others]
    others += [*trees[:5], "(new)"]
    index, matrix = distance.index(trees), distance(others, trees)
    every = np.ones(matrix.shape, bool)
    for most in (None, float(np.quantile(matrix, 0.02)), 0.0):
        found = index.top_k(others, k=6, max_distance=most)
        expected = nearest_of(matrix, every, np.inf if most is None else most, 6)
        for part, right in zip(found, expected, strict=True):
            np.testing.assert_array_equal(part, right)
    most = float(np.quantile(matrix, 0.05))
    joined = index.join(others, max_distance=most)
    rows, columns = np.nonzero(matrix <= most)
    np.testing.assert_array_equal((joined.rows, joined.columns), (rows, columns))
    np.testing.assert_array_equal(joined.values, matrix[rows, columns])


def test_no_trees():
    index = tk.EditDistance().index([])
    assert index.top_k(["(a)"], k=3).indices.shape == (1, 0)
    assert len(index.join(["(a)"]).values) == 0
    index.add(["(a b)"])
    assert index.top_k([], k=3).indices.shape == (0, 1)
    assert index.top_k(["(a)"], k=3).values.tolist() == [[1.0]]
    assert index.compact().forest == tk.Forest(["(a b)"])


def test_an_index_is_saved_and_shown(tmp_path):
    index = tk.EditDistance(2, normalize="sum").index(["(a b)", "(c)"])
    assert repr(index) == "<EditIndex: 2 trees, EditDistance(2, normalize='sum')>"
    tk.save(index, tmp_path / "index")
    loaded = tk.load(tmp_path / "index")
    assert repr(loaded) == repr(index)
    before = index.nbytes
    assert loaded.top_k(["(a)"], k=2).values.tolist() == (
        index.top_k(["(a)"], k=2).values.tolist()
    )
    # What was built is kept.
    assert index.nbytes > before


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda i: i.top_k(["(a)"], k=0), ValueError, "k must be"),
        (
            lambda i: i.top_k(["(a)"], max_distance="x"),
            TypeError,
            "max_distance must be a number",
        ),
        (lambda i: i.join(["(a)"], max_distance=float("nan")), ValueError, "number"),
        (lambda i: i.join(["(a)"], where=[7]), ValueError, r"where\[0\]"),
        (lambda i: i.top_k(["(a)"], where=[True]), ValueError, "one value per tree"),
    ],
)
def test_what_is_wrong_is_named(call, error, message):
    index = tk.EditDistance().index(["(a b)", "(c)"])
    with pytest.raises(error, match=message):
        call(index)


def test_what_the_index_holds_does_not_change_with_the_distance():
    distance = tk.EditDistance()
    index = distance.index(["(a b)"])
    distance.set_params(rename=9)
    assert index.distance == tk.EditDistance()
    assert index(["(a c)"]).tolist() == [[1.0]]
