"""Distances that kernels induce: how far the vectors of fragments are apart."""

from __future__ import annotations

import math

import kernel_oracle as ko
import numpy as np
import oracle
import pytest
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import squareform

import treekernel_rs as tk

TREES = [
    "(S (A a) (B b))",
    "(S (A a) (B c))",
    "(S (A a) (B b) (B b))",
    "(A a)",
    "(T (S (A a) (B c)) (B b))",
    "(S (A a) (B b))",
    "(x y)",
]


def of_subtrees(tree: oracle.Tree) -> ko.Vector:
    return ko.subtree(tree, decay=0.7, leaf_weight=0.2)


def of_partial_trees(tree: oracle.Tree) -> ko.Vector:
    return ko.partial_tree(tree, decay=0.4, mu=0.3)


#: Kernels, and the vectors of fragments whose dot products they are.
KERNELS = [
    (tk.SubtreeKernel(0.7, leaf_weight=0.2), of_subtrees),
    (tk.SubsetTreeKernel(0.4, leaf_weight=0), ko.subset_tree),
    (tk.PartialTreeKernel(0.4, mu=0.3), of_partial_trees),
    (tk.ElasticTreeKernel(0.4), ko.elastic_tree),
]


def apart(a: ko.Vector, b: ko.Vector) -> float:
    """The length of the difference of two vectors."""
    return math.sqrt(sum((a[key] - b[key]) ** 2 for key in {*a, *b}))


def unit(vector: ko.Vector) -> ko.Vector:
    length = math.sqrt(ko.dot(vector, vector))
    return ko.Counter({key: value / length for key, value in vector.items()})


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize(("kernel", "vector_of"), KERNELS)
def test_distances_are_those_of_the_vectors_of_fragments(kernel, vector_of, normalize):
    vectors = [vector_of(tree) for tree in oracle.parse(TREES)]
    if normalize:
        vectors = [unit(vector) for vector in vectors]
    expected = np.array([[apart(a, b) for b in vectors] for a in vectors])
    distance = kernel.replace(normalize=normalize).distance
    matrix = distance(TREES, n_jobs=2)
    np.testing.assert_allclose(matrix, expected, rtol=1e-12, atol=1e-15)
    assert np.array_equal(matrix, matrix.T)
    np.testing.assert_allclose(distance(TREES[:3], TREES), expected[:3], rtol=1e-12)
    rows = distance.rows(TREES)
    for index in (slice(None), list(range(7)), np.ones(7, bool)):
        np.testing.assert_allclose(rows[index], expected, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(rows[-3], expected[4], rtol=1e-12)
    condensed = distance.condensed(TREES, n_jobs=2)
    np.testing.assert_allclose(squareform(condensed), expected, rtol=1e-12, atol=1e-15)
    assert distance.pair(TREES[1], TREES[4]) == pytest.approx(expected[1, 4])


def test_equal_trees_have_the_distance_zero_exactly_wherever_they_stand():
    kernel = tk.PartialTreeKernel(0.37, mu=0.29) + 0.1 * tk.SubsetTreeKernel(0.7)
    large = "(S" + "(A (B b)(C c (D d)))" * 5 + ")"
    X, Y = [*TREES, large], [large, *reversed(TREES)]
    are_equal = np.array([[x == y for y in Y] for x in X])
    for measure in (kernel, kernel.normalized()):
        distance = measure.distance
        # Kernels of equal trees are not the same to the bit, in whatever order.
        assert np.array_equal(distance(X, Y) == 0, are_equal)
        assert np.array_equal(distance(X) == 0, are_equal[:, ::-1])
        assert np.array_equal(distance.rows(X)[:] == 0, are_equal[:, ::-1])
        assert np.array_equal(
            squareform(distance.condensed(X)) == 0, are_equal[:, ::-1]
        )
        assert distance.pair(tk.Forest(X)[-1], large) == 0


def test_a_kernel_that_is_no_dot_product_has_no_imaginary_distances():
    # a and c are like b, but not like each other: a + c - 2 b has a negative square.
    table = tk.kernels.TableSimilarity({("a", "b"): 1.0, ("b", "c"): 1.0})
    kernel, X = tk.PartialTreeKernel(1.0, similarity=table), ["(x a c)", "(x b b)"]
    with pytest.warns(RuntimeWarning, match="not positive semidefinite"):
        (one, both), (_, two) = kernel(X)
    assert one + two < 2 * both
    assert kernel.distance(X).tolist() == [[0, 0], [0, 0]]


def test_few_trees_and_trees_without_kernel():
    distance = tk.SubsetTreeKernel(0.5).distance
    assert distance([]).shape == (0, 0)
    assert distance(TREES[:2], []).shape == (2, 0)
    assert distance.condensed([]).shape == distance.condensed(TREES[:1]).shape == (0,)
    assert linkage(distance.condensed(TREES)).shape == (6, 4)
    normalized = tk.SubsetTreeKernel(0.5, leaf_weight=0, normalize=True).distance
    # A leaf has no fragment: its vector is 0, and that of any other tree has length 1.
    for call in (normalized, normalized.condensed, normalized.rows):
        with pytest.warns(RuntimeWarning, match="X with themselves is 0.*: 1$") as told:
            call(["(A a)", "(a)"])
        assert [warning.filename for warning in told] == [__file__]
    with pytest.warns(RuntimeWarning, match="is 0"):
        assert normalized(["(A a)", "(a)"]).tolist() == [[0, 1], [1, 0]]


def test_distances_tell_their_progress_and_refuse_what_kernels_refuse():
    told = []
    distance = tk.SubsetTreeKernel(0.5).distance
    distance(TREES, progress=lambda *rows: told.append(rows))
    assert told[-1] == (6, 6)  # two trees are equal
    distance.condensed(TREES, progress=lambda *rows: told.append(rows))
    assert told[-1] == (7, 7)
    with pytest.raises(ValueError, match="n_jobs"):
        distance(TREES, n_jobs=0)
    with pytest.raises(ValueError, match="decay"):
        tk.SubsetTreeKernel(-1).distance.condensed(TREES)
    with pytest.raises(OverflowError, match="too large"):
        tk.SubsetTreeKernel(1.0).distance(["(S" + "(A a)" * 1100 + ")"])


def test_a_comparison_has_the_distance_of_its_kernel():
    for kernel, _ in KERNELS:
        found = tk.compare(TREES[0], TREES[4], kernel)
        assert found.distance == pytest.approx(kernel.distance.pair(TREES[0], TREES[4]))
