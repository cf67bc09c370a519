"""Sentence pairs as the other kernels: rows, single kernels, neighbours, limits."""

from __future__ import annotations

import warnings

import numpy as np
import pair_oracle as po
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treekernel_rs as tk

METHODS = list(po.METHODS)
EXAMPLES = [
    (f"(S (A:1 {a}) (B:2 {b}) (C {a}))", f"(T (A:{p} {a}) (B:{q} {b}))")
    for a in "xy"
    for b in "xyz"
    for p, q in ((1, 2), (2, 1), (1, 1))
]


def quietly(function, *args, **kwargs):
    """Call without the warning about zero self-kernels."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args, **kwargs)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.sampled_from([*EXAMPLES, ("(x)", "(y)")]), min_size=1, max_size=12),
    st.sampled_from(METHODS),
    st.booleans(),
    st.sampled_from([1, 2]),
)
def test_rows_and_single_kernels_are_those_of_the_matrix(
    pairs, method, normalize, n_jobs
):
    k = tk.PairKernel(0.4, method=method, normalize=normalize)
    n = len(pairs)
    K = quietly(k, pairs, pairs)
    rows = quietly(k.rows, pairs, n_jobs=n_jobs)
    assert len(rows) == n
    np.testing.assert_array_equal(rows[:], K)
    np.testing.assert_array_equal(rows[n - 1], K[n - 1])
    i, j = np.divmod(np.arange(n * n), n)
    values = quietly(k.pairs, pairs, i, j, n_jobs=n_jobs)
    np.testing.assert_allclose(values.reshape(n, n), K, rtol=1e-12)
    found = quietly(k.pairs, pairs, pairs[::-1])
    np.testing.assert_allclose(found, np.diagonal(K[:, ::-1]), rtol=1e-12)
    assert quietly(k.pair, pairs[0], pairs[-1]) == pytest.approx(K[0, -1], rel=1e-12)


@pytest.mark.parametrize("normalize", [False, True])
def test_neighbours_are_those_of_the_matrix(normalize):
    k = tk.PairKernel(0.4, normalize=normalize)
    all_of, n = k(EXAMPLES), len(EXAMPLES)
    others = EXAMPLES[5:11]
    hidden = np.where(np.eye(n, dtype=bool), -np.inf, all_of)
    for y, matrix in ((None, hidden), (others, k(EXAMPLES, others))):
        indices, values = k.top_k(EXAMPLES, y, k=4)
        expected = np.argsort(-matrix, axis=1, kind="stable")[:, :4]
        np.testing.assert_array_equal(indices, expected)
        # Values are those of single pairs, whose last bits may differ.
        nearest = np.take_along_axis(matrix, expected, 1)
        np.testing.assert_allclose(values, nearest, rtol=1e-14)
    least = float(np.median(all_of)) * (1 - 1e-12)
    found = k.join(EXAMPLES, min_similarity=least)
    rows, columns = np.nonzero(np.triu(all_of >= least, 1))
    np.testing.assert_array_equal(found.rows, rows)
    np.testing.assert_array_equal(found.columns, columns)
    np.testing.assert_allclose(found.values, all_of[rows, columns], rtol=1e-14)
    np.testing.assert_array_equal(found.values, k.pairs(EXAMPLES, rows, columns))
    found = k.join(EXAMPLES, others, min_similarity=least)
    assert (found.tocsr().toarray() > 0).sum() == (k(EXAMPLES, others) >= least).sum()
    assert found.shape == (n, 6)
    assert len(k.top_k([], k=3).indices) == 0
    assert k.top_k(EXAMPLES[:2], k=5).indices.tolist() == [[1], [0]]
    assert len(k.join([]).rows) == 0
    with pytest.raises(ValueError, match="k must be an int of at least 1"):
        k.top_k(EXAMPLES, k=0)
    with pytest.raises(ValueError, match="min_similarity must be a number"):
        k.join(EXAMPLES, min_similarity=float("nan"))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("normalize", [False, True])
def test_neighbours_and_joins_are_those_of_the_definition(method, normalize):
    X, Y = EXAMPLES, [*EXAMPLES[3:9], EXAMPLES[0], EXAMPLES[4]]
    read = [tuple(map(po.read, pair)) for pair in X]
    own = [float(po.METHODS[method](p, p, 0.4)) for p in read]
    right = np.array(
        [[float(po.METHODS[method](p, q, 0.4)) for q in read] for p in read]
    )
    if normalize:
        right /= np.sqrt(np.outer(own, own))
    k = tk.PairKernel(0.4, method=method, normalize=normalize)
    of_y = [X.index(pair) for pair in Y]
    for y, matrix in ((None, right), (Y, right[:, of_y])):
        for n_jobs in (1, 3):
            found = k.top_k(X, y, k=5, n_jobs=n_jobs)
            for i, row in enumerate(matrix):
                others = row if y is not None else np.delete(row, i)
                best = np.sort(others)[::-1][:5]
                np.testing.assert_allclose(found.values[i], best, rtol=1e-12)
                np.testing.assert_allclose(row[found.indices[i]], best, rtol=1e-12)
                assert len(set(found.indices[i])) == 5
                assert y is not None or i not in found.indices[i]
            least = float(np.median(matrix)) * (1 + 1e-9)
            found = k.join(X, y, min_similarity=least, n_jobs=n_jobs)
            expected = matrix if y is not None else np.triu(matrix, 1)
            rows, columns = np.nonzero(expected >= least)
            assert len(rows) > 5
            np.testing.assert_array_equal(found.rows, rows)
            np.testing.assert_array_equal(found.columns, columns)
            np.testing.assert_allclose(found.values, matrix[rows, columns], rtol=1e-12)
    parts = []
    assert (
        len(k.join(X, min_similarity=0.0, out=lambda *part: parts.append(part)).rows)
        == 0
    )
    n_positive = (np.triu(right + 1, 1) >= 1).sum()
    assert sum(len(part[0]) for part in parts) == n_positive


def test_single_kernels_that_are_not_there_are_refused():
    k = tk.PairKernel()
    with pytest.raises(ValueError, match=r"j\[1\]: expected below 2, got 2"):
        k.pairs(EXAMPLES[:2], [0, 0], [0, 2])
    with pytest.raises(ValueError, match="Y has 1 pairs, expected 2"):
        k.pairs(EXAMPLES[:2], EXAMPLES[:1])
    with pytest.raises(ValueError, match="j has 1 entries, expected 2"):
        k.pairs(EXAMPLES[:2], [0, 0], [1])


def test_rows_give_up_as_matrices_do():
    n = 30

    def tree(placeholder):
        leaves = (f"(L{i} (x:{placeholder(i)}))" for i in range(n * n))
        return f"(R {' '.join(leaves)})"

    hard = [(tree(lambda i: i // n), "(Z z)"), (tree(lambda i: i % n), "(Z z)")]
    pairs = [*hard, EXAMPLES[0]]
    for normalize in (False, True):
        k = tk.PairKernel(0.1, normalize=normalize, max_constraints=1000)
        rows = k.rows(pairs)
        assert rows[2][2] > 0
        with pytest.raises(tk.pairs.ConstraintLimitError) as raised:
            rows[1]
        assert raised.value.pairs == [(1, 0)]
        with pytest.raises(tk.pairs.ConstraintLimitError) as raised:
            k.pairs(pairs, [2, 1], [2, 0])
        assert raised.value.pairs == [(1, 0)]
        assert np.isnan(raised.value.result).tolist() == [False, True]
        with pytest.raises(tk.pairs.ConstraintLimitError):
            k.top_k(pairs, k=1)


def test_two_huge_equal_trees_are_refused_before_they_take_memory():
    # 10,000 nodes of one production: 10^8 pairs of nodes, 0.8 GB.
    chain = "(A " * 10_000 + "a" + ")" * 10_000
    pairs = [(chain, "(B b)"), EXAMPLES[0]]
    k = tk.PairKernel(0.4)
    message = r"two trees would have \d{8} pairs of nodes, above the limit of 33554432"
    for use in (
        lambda: k(pairs),
        lambda: k.diag(pairs),
        lambda: k.pair(*pairs[:1], *pairs[:1]),
        lambda: k.rows(pairs)[0],
        lambda: k.pairs(pairs, [0], [0]),
        lambda: k.top_k(pairs),
    ):
        with pytest.raises(ValueError, match=message):
            use()
    assert k.rows(pairs)[1][1] > 0


@pytest.mark.slow
def test_values_beyond_floats_are_named_or_normalised():
    tree = "(a b)"
    for _ in range(11):
        tree = f"(a {tree} {tree})"
    pairs = [(tree, "(B b)"), (tree.replace("b", "c", 1), "(B b)"), ("(a b)", "(B b)")]
    one = tk.PairKernel(1.0)
    with pytest.raises(OverflowError, match="tree 1 and tree 0"):
        one.pairs(pairs, [2, 1], [2, 0])
    with pytest.raises(OverflowError):
        one.rows(pairs)[1]
    k = one.replace(normalize=True)
    assert k.pairs(pairs, [0, 0], [0, 1])[0] == 1.0
    np.testing.assert_allclose(k.rows(pairs)[0], k.pairs(pairs, [0] * 3, range(3)))


def test_a_zero_self_kernel_is_warned_of_where_it_stands():
    pairs = [EXAMPLES[0], ("(x)", "(y)")]
    k = tk.PairKernel(normalize=True)
    for use in (
        lambda: k.rows(pairs),
        lambda: k.pairs(pairs, [0, 1], [1, 0]),
        lambda: k.top_k(pairs, k=1),
        lambda: k.join(pairs),
    ):
        with pytest.warns(RuntimeWarning, match="of the pairs of X .*: 1"):
            use()
