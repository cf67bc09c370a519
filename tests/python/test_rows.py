"""Rows on demand: the same values as matrices, whoever asks for them and how."""

from __future__ import annotations

import os
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from interrupts import seconds_until_interrupted
from test_kernels import (
    NAMES,
    holds_in_forked_child,
    make,
    quietly,
    random_forest,
)

import treekernel_rs as tk

every_kernel = pytest.mark.parametrize("name", NAMES)


@every_kernel
@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("n_jobs", [None, 1, 3])
def test_rows_are_those_of_the_rectangle_bit_for_bit(name, normalize, n_jobs):
    k, forest = make(name, normalize=normalize), random_forest(80)
    expected = quietly(k, forest, forest)
    rows = quietly(k.rows, forest, n_jobs=n_jobs)
    assert len(rows) == 80
    for i in np.random.default_rng(1).permutation(80):
        assert rows[i].dtype == np.float64
        np.testing.assert_array_equal(rows[i], expected[i])
    mask = np.arange(80) % 7 == 3
    for several in [[3, 5], slice(None, None, -1), slice(70, 200), mask, [-1, -1, 0]]:
        np.testing.assert_array_equal(rows[several], expected[several])
    assert rows[[]].shape == (0, 80)
    np.testing.assert_allclose(rows[:], quietly(k, forest), rtol=1e-12)
    np.testing.assert_array_equal(list(rows), expected)


def test_rows_own_what_they_give():
    rows = tk.SubsetTreeKernel().rows(["(S (A a))", "(A a)"])
    first = rows[0]
    first[:] = -1
    assert (rows[0] > 0).all()
    rows[:][0] = -1
    assert (rows[[0]] > 0).all()
    assert first.flags.c_contiguous
    assert first.flags.writeable


@pytest.mark.parametrize(
    "index", [2, -3, 10**30, [0, 2], [True], "0", 1.0, None, [0.5], (0, 1), (0,), ()]
)
def test_wrong_indices_are_refused(index):
    rows = tk.SubsetTreeKernel().rows(["(S (A a))", "(A a)"])
    with pytest.raises(IndexError):
        rows[index]


def test_rows_of_nothing_are_none():
    rows = tk.SubsetTreeKernel(normalize=True).rows([])
    assert len(rows) == 0
    assert rows[:].shape == (0, 0)
    assert repr(rows) == "<KernelRows: 0 trees>"
    with pytest.raises(IndexError):
        rows[0]


@pytest.mark.parametrize("n_jobs", [0, 1.5])
def test_wrong_threads_are_refused(n_jobs):
    with pytest.raises(ValueError, match="n_jobs"):
        tk.SubsetTreeKernel().rows(["(A a)"], n_jobs=n_jobs)


def test_negative_threads_count_from_all_cores_as_in_joblib():
    rows = tk.SubsetTreeKernel().rows(["(A a)", "(A b)"], n_jobs=-2)
    one = tk.SubsetTreeKernel().rows(["(A a)", "(A b)"], n_jobs=1)
    assert rows[:].tolist() == one[:].tolist()


def test_wrong_trees_are_refused():
    with pytest.raises(tk.ParseError):
        tk.SubsetTreeKernel().rows(["(A a)", "(A"])
    with pytest.raises(TypeError):
        tk.SubsetTreeKernel().rows(3)


def test_zero_self_kernels_are_warned_of_once_where_rows_are_made():
    k, trees = tk.SubsetTreeKernel(normalize=True), ["(S (A a))", "(x)", "(S (A a))"]
    with pytest.warns(RuntimeWarning, match=r"1 of the trees of X .*: 1$") as caught:
        rows = k.rows(trees)
    assert [warning.filename for warning in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(rows[:], [[1, 0, 1], [0, 0, 0], [1, 0, 1]])
        tk.SubsetTreeKernel().rows(trees)


def test_overflow_names_the_row_asked_for_and_normalised_rows_survive_it():
    big = "a"
    for _ in range(12):
        big = f"(A {big} {big})"
    trees = ["(A a a)", big, big.replace("a", "b", 1), "(B b)"]
    rows = tk.SubsetTreeKernel(1.0).rows(trees)
    for index in (2, [0, 2], slice(2, 4)):
        with pytest.raises(OverflowError, match="tree 2 and tree 1"):
            rows[index]
    np.testing.assert_array_equal(rows[0], [1, 2048, 2047, 0])
    k = tk.SubsetTreeKernel(1.0, normalize=True)
    np.testing.assert_array_equal(k.rows(trees)[:], k(trees, trees))


@every_kernel
def test_threads_may_ask_at_once(name):
    k, forest = make(name), random_forest(100)
    expected, rows = k(forest, forest), k.rows(forest, n_jobs=2)
    with ThreadPoolExecutor(4) as pool:
        order = np.random.default_rng(0).integers(0, 100, 600).tolist()
        for i, row in zip(order, pool.map(rows.__getitem__, order), strict=True):
            np.testing.assert_array_equal(row, expected[i])


def test_rows_outlive_what_they_were_made_of():
    forest = random_forest(30)
    expected = tk.SubsetTreeKernel()(forest, forest)
    rows = tk.SubsetTreeKernel().rows(forest)
    del forest
    np.testing.assert_array_equal(rows[:], expected)


def test_rows_are_not_pickled():
    """They are an index: what makes them, kernel and forest, is what to send."""
    with pytest.raises(TypeError):
        pickle.dumps(tk.SubsetTreeKernel().rows(["(A a)"]))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_asks_for_rows():
    forest = random_forest(60)
    rows = tk.SubsetTreeKernel().rows(forest, n_jobs=2)
    expected = rows[:]
    assert holds_in_forked_child(lambda: np.array_equal(rows[:], expected))


INTERRUPTED = """
import signal, sys, time
import treekernel_rs as tk

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored below "pytest &"

what, n_jobs = sys.argv[1], int(sys.argv[2])
lines = ["(A" * 400 + f"(x{i})" + ")" * 400 for i in range(4000)]
forest = tk.Forest.from_brackets(lines)
# Elastic self-kernels take all pairs of the chains' nodes; so do rows.
k = tk.ElasticTreeKernel(normalize=what == "construction")
if what == "rows":
    rows = k.rows(forest[:1000], n_jobs=n_jobs)
print("ready", flush=True)
try:
    rows[:] if what == "rows" else k.rows(forest, n_jobs=n_jobs)
except KeyboardInterrupt:
    print("interrupted", time.time(), time.process_time(), flush=True)
else:
    print("finished", flush=True)
"""


@pytest.mark.slow
@pytest.mark.posix
@pytest.mark.parametrize("what", ["construction", "rows"])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_control_c_ends_it_within_a_second(what, n_jobs):
    assert seconds_until_interrupted(INTERRUPTED, what, n_jobs, after=0.5) < 1.2
