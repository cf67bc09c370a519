"""The four exact kernels: values, matrices, parameters, errors, threads, signals."""

from __future__ import annotations

import copy
import gzip
import math
import multiprocessing
import os
import pickle
import random
import re
import signal
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import kernel_oracle as ko
import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interrupts import seconds_until_interrupted

import treekernel_rs as tk

NAMES = list(ko.VECTORS)
every_kernel = pytest.mark.parametrize("name", NAMES)
WRONG = (ValueError, TypeError)


def make(name: str, parameters: dict | None = None, **more: object):
    return getattr(tk, name)(**{**(parameters or {}), **more})


def read(trees: list[oracle.Tree]) -> tk.Forest:
    return tk.Forest.from_brackets([oracle.show(tree) for tree in trees])


def quietly(function, *args, **kwargs):
    """Call without the warning about zero self-kernels."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args, **kwargs)


def random_tree(rng: random.Random, n: int, labels: str = "abc") -> oracle.Tree:
    """Return a tree of n nodes, each below a random one before it."""
    children: list[list[int]] = [[] for _ in range(n)]
    for node in range(1, n):
        children[rng.randrange(max(0, node - 4), node)].append(node)
    made: list = [None] * n
    for node in reversed(range(n)):
        made[node] = (rng.choice(labels), tuple(made[c] for c in children[node]))
    return made[0]


def random_forest(n: int, size: int = 20, seed: int = 0) -> tk.Forest:
    """Return n trees, the last fifth of them copies of others."""
    rng = random.Random(seed)
    trees = [random_tree(rng, rng.randint(1, size)) for _ in range(n - n // 5)]
    return read(trees + rng.choices(trees, k=n // 5))


# --- Values -------------------------------------------------------------------------


@given(ko.kernels, ko.small_forests, ko.small_forests, st.booleans())
def test_matrices_are_those_of_the_oracle(kernel, left, right, normalize):
    name, parameters = kernel
    k = make(name, parameters, normalize=normalize)
    x, y = read(left), read(right)
    close = {"rtol": 1e-10, "atol": 1e-12 if normalize else 0}
    parameters = {**parameters, "normalize": normalize}
    expected = ko.gram(name, left, left, **parameters)
    square = quietly(k, x)
    assert (square.shape, square.dtype) == ((len(left), len(left)), np.float64)
    np.testing.assert_allclose(square, expected, **close)
    np.testing.assert_array_equal(square, square.T)  # bit for bit
    np.testing.assert_allclose(quietly(k.diag, x), np.diag(expected), **close)

    expected = ko.gram(name, left, right, **parameters)
    rectangle = quietly(k, x, y)
    assert (rectangle.shape, rectangle.dtype) == ((len(left), len(right)), np.float64)
    np.testing.assert_allclose(rectangle, expected, **close)
    np.testing.assert_allclose(quietly(k, y, x), rectangle.T, **close)
    pairs = [[quietly(k.pair, a, b) for b in y] for a in x]
    np.testing.assert_allclose(pairs, expected, **close)
    assert all(isinstance(value, float) for row in pairs for value in row)


@given(ko.kernels, ko.small_forests)
def test_square_matrices_are_positive_semidefinite(kernel, trees):
    name, parameters = kernel
    matrix = make(name, parameters)(read(trees))
    assert np.linalg.eigvalsh(matrix).min() >= -1e-10 * max(1.0, matrix.max())


@given(ko.kernels, ko.small_forests)
def test_normalized_matrices_are_one_or_zero_on_the_diagonal(kernel, trees):
    name, parameters = kernel
    own = make(name, parameters).diag(read(trees))
    k = make(name, parameters, normalize=True)
    matrix = quietly(k, read(trees))
    assert np.isfinite(matrix).all()
    np.testing.assert_allclose(np.diag(matrix), (own > 0).astype(float), atol=1e-12)
    assert matrix.min() >= 0
    assert matrix.max() <= 1 + 1e-12


@every_kernel
@pytest.mark.parametrize("normalize", [False, True])
def test_blocks_rows_and_pairs_of_one_matrix_agree(name, normalize):
    k = make(name, normalize=normalize)
    forest = random_forest(120)
    whole = quietly(k, forest)
    close = {"rtol": 1e-12, "atol": 1e-14}
    block = quietly(k, forest[:50], forest[50:])
    np.testing.assert_allclose(block, whole[:50, 50:], **close)
    np.testing.assert_allclose(quietly(k, forest, forest), whole, **close)
    np.testing.assert_allclose(quietly(k.diag, forest), np.diag(whole), **close)
    order = np.random.default_rng(0).permutation(len(forest))
    shuffled = quietly(k, forest[order])
    np.testing.assert_allclose(shuffled, whole[np.ix_(order, order)], **close)
    some = [(3, 70), (70, 3), (119, 119), (0, 119)]
    pairs = [quietly(k.pair, forest[i], forest[j]) for i, j in some]
    np.testing.assert_allclose(pairs, [whole[i, j] for i, j in some], **close)


@every_kernel
def test_forests_need_not_be_the_same(name):
    k = make(name)
    both = random_forest(40)
    lines = both.to_brackets()
    # Read by itself, the second half has other ids for the same labels and subtrees.
    left = tk.Forest.from_brackets(lines[:20])
    right = tk.Forest.from_brackets(["(other (c b) a)", *lines[20:]])[1:]
    expected = k(both)[:20, 20:]
    np.testing.assert_allclose(k(left, right), expected, rtol=1e-12)
    np.testing.assert_allclose(k.gram(left, right), expected, rtol=1e-12)
    assert k.pair(left[3], right[4]) == pytest.approx(expected[3, 4], rel=1e-12)
    np.testing.assert_allclose(k(left, left.to_brackets()), k(left), rtol=1e-12)


@every_kernel
def test_lists_of_strings_are_accepted(name):
    k = make(name)
    lines = ["(S (A a) (B b))", "(S(A(a))(B(c)))", "(a)"]
    forest = tk.Forest.from_brackets(lines)
    np.testing.assert_array_equal(k(lines), k(forest))
    np.testing.assert_array_equal(k(lines, forest), k(forest, lines))
    np.testing.assert_array_equal(k.gram(lines, lines[:2]), k(forest, forest[:2]))
    np.testing.assert_array_equal(k.diag(lines), k.diag(forest))
    with pytest.raises(tk.ParseError):
        k(["(S (A a)"])
    with pytest.raises(WRONG):
        k(5)


@every_kernel
def test_no_trees_give_an_empty_matrix(name):
    k = make(name)
    some = ["(S a)", "(S b)"]
    assert k([]).shape == (0, 0)
    assert k([], some).shape == (0, 2)
    assert k(some, []).shape == (2, 0)
    assert k.diag([]).shape == (0,)


@pytest.mark.parametrize(
    ("file", "name", "parameters"),
    [
        ("kelp_sst_scores.txt", "SubsetTreeKernel", {"leaf_weight": 0.4}),
        ("kelp_ptk_scores.txt", "PartialTreeKernel", {"mu": 0.4, "leaf_factor": 5}),
    ],
)
def test_the_scores_of_kelp_are_reproduced(shared_data, file, name, parameters):
    scores = np.array((shared_data / "qc" / file).read_text().split(), float)
    with gzip.open(shared_data / "qc" / "dep_test.tsv.gz", "rt", encoding="utf-8") as f:
        forest = tk.Forest.from_brackets([line.split("\t")[2] for line in f])
    k = make(name, parameters, decay=0.4, normalize=True)
    assert len(scores) == len(forest) - 1 == 499
    np.testing.assert_allclose(np.diag(k(forest), 1), scores, rtol=0, atol=2e-7)
    pairs = [k.pair(forest[i], forest[i + 1]) for i in range(len(scores))]
    np.testing.assert_allclose(pairs, scores, rtol=0, atol=2e-7)


@pytest.mark.parametrize("name", NAMES[:3])
def test_depth_is_no_trouble(name):
    """No recursion, and no quadratic time where all labels differ."""
    n = 100_000
    deep = "".join(f"(a{i}" for i in range(n)) + ")" * n
    matrix = make(name)([deep, f"(a{n - 2} a{n - 1})"])
    assert np.isfinite(matrix).all()
    assert matrix[0, 0] >= matrix[0, 1] > 0


@every_kernel
def test_a_chain_of_equal_labels_is_no_trouble(name):
    n = 5_000
    deep = "(a" * n + ")" * n
    # Of ET, about (1 + sqrt(decay))**(2 * n): decay 0.4 would overflow, and rightly so.
    matrix = make(name, {"decay": 1e-4})([deep, "(a a)"])
    assert np.isfinite(matrix).all()
    assert matrix[0, 0] > matrix[0, 1] > 0


@pytest.mark.parametrize("name", ["SubtreeKernel", "SubsetTreeKernel"])
def test_width_is_no_trouble(name):
    """No quadratic time in the number of children."""
    n = 100_000
    leaves, trees = "(a" + " b" * n + ")", "(a" + "(b c)" * n + ")"
    # At the root of the second, SST is decay * (1 + decay)**n: 0.4 would overflow.
    matrix = make(name, {"decay": 1e-6})([leaves, trees, "(b c)"])
    assert matrix[0, 0] == pytest.approx(1e-6)
    assert matrix[1, 2] == pytest.approx(1e-6 * n)
    assert matrix[0, 2] == 0


# --- Matrices: out, dtype, n_jobs, progress -----------------------------------------


@every_kernel
@pytest.mark.parametrize("dtype", [np.float32, np.float64, "float32", "f8"])
def test_gram_is_filled_in_place_or_made(name, dtype):
    k = make(name)
    x, y = random_forest(30), random_forest(20, seed=1)
    for columns, shape in ((None, (30, 30)), (y, (30, 20))):
        expected = k.gram(x, columns).astype(dtype)
        made = k.gram(x, columns, dtype=dtype)
        assert (made.dtype, made.shape) == (np.dtype(dtype), shape)
        assert made.flags.c_contiguous
        np.testing.assert_array_equal(made, expected)
        out = np.full(shape, np.nan, dtype)
        assert k.gram(x, columns, dtype=dtype, out=out) is out
        np.testing.assert_array_equal(out, expected)


@every_kernel
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gram_fills_a_file(name, dtype, tmp_path):
    k, forest = make(name), random_forest(30)
    path = tmp_path / "gram.npy"
    out = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=(30, 30))
    k.gram(forest, dtype=dtype, out=out)
    out.flush()
    del out
    np.testing.assert_array_equal(np.load(path), k.gram(forest, dtype=dtype))


def read_only(n: int) -> np.ndarray:
    array = np.zeros((n, n))
    array.flags.writeable = False
    return array


BAD_OUT = {
    "too few rows": lambda n: np.zeros((n - 1, n)),
    "too many columns": lambda n: np.zeros((n, n + 1)),
    "one dimension": lambda n: np.zeros(n * n),
    "three dimensions": lambda n: np.zeros((n, n, 1)),
    "int64": lambda n: np.zeros((n, n), np.int64),
    "complex": lambda n: np.zeros((n, n), np.complex128),
    "float16": lambda n: np.zeros((n, n), np.float16),
    "other byte order": lambda n: np.zeros(
        (n, n), np.dtype(np.float64).newbyteorder("S")
    ),
    "order F": lambda n: np.zeros((n, n), order="F"),
    "every other column": lambda n: np.zeros((n, 2 * n))[:, ::2],
    "backwards": lambda n: np.zeros((n, n))[::-1],
    "read-only": read_only,
    "a list": lambda n: [[0.0] * n for _ in range(n)],
}


@every_kernel
@pytest.mark.parametrize("bad", BAD_OUT.values(), ids=BAD_OUT)
def test_a_wrong_out_is_refused_before_any_work(name, bad):
    k, forest = make(name), random_forest(30)
    out, calls = bad(len(forest)), []
    with pytest.raises(WRONG, match="out"):
        k.gram(forest, out=out, progress=lambda *step: calls.append(step))
    assert not calls
    assert not np.asarray(out).any()


@every_kernel
def test_an_out_of_another_dtype_than_asked_for_is_refused(name):
    out = np.zeros((2, 2), np.float64)
    with pytest.raises(WRONG, match=r"out|dtype"):
        make(name).gram(["(a b)", "(a c)"], dtype=np.float32, out=out)
    assert not out.any()


def test_a_read_only_file_is_refused(tmp_path):
    path = tmp_path / "gram.npy"
    np.save(path, np.zeros((2, 2)))
    out = np.load(path, mmap_mode="r")
    with pytest.raises(WRONG, match="out"):
        tk.SubsetTreeKernel().gram(["(a b)", "(a c)"], out=out)


@every_kernel
@pytest.mark.parametrize("dtype", [np.int64, np.float16, np.complex128, "no dtype"])
def test_a_wrong_dtype_is_refused(name, dtype):
    with pytest.raises(WRONG):
        make(name).gram(["(a b)"], dtype=dtype)


@every_kernel
@pytest.mark.parametrize("n_jobs", [0, 1.5, "2"])
def test_a_wrong_n_jobs_is_refused(name, n_jobs):
    with pytest.raises(WRONG, match="n_jobs"):
        make(name).gram(["(a b)"], n_jobs=n_jobs)


@every_kernel
@pytest.mark.parametrize("normalize", [False, True])
def test_n_jobs_changes_no_bit(name, normalize):
    k = make(name, normalize=normalize)
    x, y = random_forest(150), random_forest(70, seed=1)
    for columns in (None, y):
        alone = quietly(k.gram, x, columns, n_jobs=1)
        for n_jobs in (2, 3, 8, None):
            shared = quietly(k.gram, x, columns, n_jobs=n_jobs)
            np.testing.assert_array_equal(shared, alone)


@settings(max_examples=30)
@given(ko.kernels, ko.small_forests)
def test_n_jobs_and_out_change_no_bit_of_small_matrices(kernel, trees):
    name, parameters = kernel
    k, forest = make(name, parameters), read(trees)
    alone = k.gram(forest, n_jobs=1)
    np.testing.assert_array_equal(k.gram(forest, n_jobs=3), alone)
    out = np.full(alone.shape, np.nan)
    np.testing.assert_array_equal(k.gram(forest, out=out), alone)


@every_kernel
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_progress_goes_up_and_reaches_the_total(name, n_jobs):
    k, x, y = make(name), random_forest(60), random_forest(30, seed=1)
    for columns in (None, y):
        done: list[int] = []
        totals: list[int] = []

        def note(n: int, total: int, done=done, totals=totals) -> None:
            done.append(n)
            totals.append(total)

        k.gram(x, columns, n_jobs=n_jobs, progress=note)
        assert done
        assert len(set(totals)) == 1
        assert done == sorted(done)
        assert min(done) >= 0
        assert done[-1] == totals[-1] > 0


@every_kernel
def test_an_error_in_progress_ends_the_computation(name):
    class StopHereError(Exception):
        pass

    def progress(done: int, total: int) -> None:
        raise StopHereError

    with pytest.raises(StopHereError):
        make(name).gram(random_forest(60), progress=progress)


@every_kernel
def test_a_progress_that_cannot_be_called_is_refused(name):
    with pytest.raises(WRONG, match=r"progress|callable"):
        make(name).gram(["(a b)"], progress="yes")


@every_kernel
def test_a_progress_bar_changes_nothing(name, capfd):
    k, forest = make(name), random_forest(30)
    matrix = k.gram(forest, progress=True)
    assert capfd.readouterr().out == ""  # a bar belongs on standard error
    np.testing.assert_array_equal(matrix, k.gram(forest))


# --- Parameters ---------------------------------------------------------------------

SHARE = [0.0, -0.4, 1.5, math.nan, math.inf, -math.inf]  # not in (0, 1]
AMOUNT = [-1.0, math.nan, math.inf, -math.inf]  # not in [0, inf)
PARAMETERS = {
    ("SubtreeKernel", "decay"): SHARE,
    ("SubtreeKernel", "leaf_weight"): AMOUNT,
    ("SubsetTreeKernel", "decay"): SHARE,
    ("SubsetTreeKernel", "leaf_weight"): AMOUNT,
    ("PartialTreeKernel", "decay"): SHARE,
    ("PartialTreeKernel", "mu"): SHARE,
    ("PartialTreeKernel", "leaf_factor"): AMOUNT,
    ("PartialTreeKernel", "max_children"): [0, -1],
    ("ElasticTreeKernel", "decay"): SHARE,
    ("SubpathKernel", "decay"): SHARE,
}


@pytest.mark.parametrize(
    ("name", "parameter", "value"),
    [(*where, value) for where, values in PARAMETERS.items() for value in values],
)
def test_a_value_out_of_range_is_refused_by_name_value_and_range(
    name, parameter, value
):
    with pytest.raises(ValueError, match=parameter) as caught:
        make(name, {parameter: value}).diag(["(a)"])
    message = str(caught.value).lower()
    written = {repr(value).lower(), f"{value:g}"} | (
        {"0", "-0"} if value == 0 else set()
    )
    assert any(text in message for text in written), message
    bounds = {"decay": "01", "mu": "01", "max_children": "1"}.get(parameter, "")
    rest = message.replace(parameter, "")
    assert all(bound in rest for bound in bounds), message
    if not bounds:
        assert "0" in rest or "negative" in rest, message


@pytest.mark.parametrize(("name", "parameter"), PARAMETERS)
@pytest.mark.parametrize("value", ["0.4", [0.4], 1j, object()], ids=type)
def test_what_is_no_number_is_refused_by_name(name, parameter, value):
    with pytest.raises(WRONG, match=parameter):
        make(name, {parameter: value}).diag(["(a)"])


@pytest.mark.parametrize(("name", "parameter"), [p for p in PARAMETERS if p[1] == "mu"])
def test_none_is_no_number(name, parameter):
    with pytest.raises(WRONG, match=parameter):
        make(name, {parameter: None}).diag(["(a)"])


def test_half_a_child_is_refused():
    with pytest.raises(WRONG, match="max_children"):
        tk.PartialTreeKernel(max_children=1.5).diag(["(a)"])


@every_kernel
def test_unknown_and_positional_parameters_are_refused(name):
    with pytest.raises(TypeError):
        make(name, {"lambda_": 0.4})
    n_positional = 2 if name == "PartialTreeKernel" else 1
    getattr(tk, name)(*[0.5] * n_positional)
    with pytest.raises(TypeError):
        getattr(tk, name)(*[0.5] * (n_positional + 1))


DEFAULTS = {
    "SubtreeKernel": {"decay": 0.4, "leaf_weight": 0.0},
    "SubsetTreeKernel": {"decay": 0.4, "leaf_weight": 0.0},
    "PartialTreeKernel": {
        "decay": 0.4,
        "mu": 0.4,
        "leaf_factor": 1.0,
        "max_children": None,
    },
    "ElasticTreeKernel": {"decay": 0.4},
    "SubpathKernel": {"decay": 0.4},
}


@every_kernel
def test_defaults_are_those_of_the_contract(name):
    k = make(name)
    for parameter, value in {**DEFAULTS[name], "normalize": False}.items():
        assert getattr(k, parameter) == value
    assert k == make(name, DEFAULTS[name], normalize=False)


@given(ko.kernels, st.booleans())
def test_parameters_are_kept_printed_and_pickled(kernel, normalize):
    name, parameters = kernel
    k = make(name, parameters, normalize=normalize)
    for parameter, value in {**parameters, "normalize": normalize}.items():
        assert getattr(k, parameter) == value
    names = {**vars(tk), "tk": tk, "treekernel_rs": tk}
    assert repr(k).split("(")[0].endswith(name)
    twins = [eval(repr(k), names), copy.copy(k), copy.deepcopy(k)]
    twins += [
        pickle.loads(pickle.dumps(k, protocol))
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1)
    ]
    for twin in twins:
        assert type(twin) is type(k)
        assert twin == k
        assert repr(twin) == repr(k)


@pytest.mark.parametrize(("name", "parameter"), PARAMETERS)
def test_kernels_differ_when_a_parameter_does(name, parameter):
    other = make(name, {parameter: 3 if parameter == "max_children" else 0.7})
    assert other != make(name)
    assert not other == make(name)  # noqa: SIM201
    assert repr(other) != repr(make(name))


@every_kernel
def test_kernels_equal_nothing_else(name):
    k = make(name)
    assert k != make(name, normalize=True)
    assert k not in [make(other) for other in NAMES if other != name]
    assert k not in [None, 0.4, repr(k), (0.4,)]


@every_kernel
def test_parameters_cannot_be_changed(name):
    """A slip of the pen would change what other objects hold."""
    k = make(name)
    for parameter in [*DEFAULTS[name], "normalize"]:
        with pytest.raises(AttributeError):
            setattr(k, parameter, getattr(k, parameter))


@every_kernel
def test_numbers_of_numpy_and_integers_are_numbers(name):
    assert make(name, {"decay": np.float64(0.25)}) == make(name, {"decay": 0.25})
    assert make(name, {"decay": np.float32(0.25)}) == make(name, {"decay": 0.25})
    assert make(name, {"decay": 1}) == make(name, {"decay": 1.0})


# --- Zero and overflow --------------------------------------------------------------


def warned_numbers(function, *args) -> tuple[np.ndarray, set[str]]:
    """Return a result, and the numbers in the warnings that came with it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = function(*args)
    return result, set(re.findall(r"\d+", " ".join(str(w.message) for w in caught)))


@pytest.mark.parametrize("name", ["SubtreeKernel", "SubsetTreeKernel"])
def test_zero_self_kernels_give_zero_and_a_warning_that_names_the_trees(name):
    k = make(name, normalize=True)
    forest = tk.Forest.from_brackets(["(S a)"] * 7 + ["(a)"] + ["(S b)"] * 4 + ["(b)"])
    zero = np.zeros(13, bool)
    zero[[7, 12]] = True
    one = np.where(zero, 0.0, 1.0)
    for call, own in (
        (lambda: k(forest), np.diag),
        (lambda: k(forest, forest), np.diag),
        (lambda: k.diag(forest), lambda diagonal: diagonal),
        (lambda: k(["(T (S a) (S b))"], forest), lambda row: row[0] > 0),
        (lambda: k.gram(forest, ["(T (S a) (S b))"]), lambda column: column[:, 0] > 0),
    ):
        values, numbers = warned_numbers(call)
        np.testing.assert_allclose(own(values), one)
        assert {"7", "12"} <= numbers
    matrix = quietly(k, forest)
    assert not matrix[zero].any()
    assert not matrix[:, zero].any()
    assert quietly(k.pair, forest[7], forest[0]) == 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        k(forest[:7], forest[8:12])  # the other trees of the store do not matter


def test_without_normalisation_zero_is_no_reason_to_warn():
    assert tk.SubsetTreeKernel()(["(a)", "(b)"]).tolist() == [[0, 0], [0, 0]]
    weighted = tk.SubsetTreeKernel(leaf_weight=1, normalize=True)
    assert weighted(["(a)", "(b)"]).tolist() == [[1, 0], [0, 1]]


def broad(n: int, other: int = 0) -> str:
    """Return n preterminals below one node, some of them with another word.

    SST with decay 1: two such trees share 2**k fragments at the root, where k is the
    number of children that are equal, and as many as there are pairs of equal ones.
    """
    return "(S" + " (A a)" * (n - other) + " (A b)" * other + ")"


SMALL = ["(S (A a))", "(S b)", "(A a)"] * 5


def test_overflow_is_an_error_that_names_the_two_trees():
    k = tk.SubsetTreeKernel(decay=1)
    x, y = [*SMALL[:13], broad(1200), *SMALL], [*SMALL[:11], broad(1200, 2), *SMALL]
    assert np.isfinite(k(x[:13], y)).all()
    assert np.isfinite(k(x, y[:11])).all()
    for call in (lambda: k(x, y), lambda: k.gram(x, y, n_jobs=2)):
        with pytest.raises((OverflowError, ValueError)) as caught:
            call()
        message = str(caught.value)
        assert {"13", "11"} <= set(re.findall(r"\d+", message)), message
        assert "decay" in message
        assert "normalize" in message
    for call in (lambda: k(x), lambda: k.diag(x)):
        with pytest.raises((OverflowError, ValueError)) as caught:
            call()
        assert "13" in re.findall(r"\d+", str(caught.value))
    with pytest.raises((OverflowError, ValueError)):
        k.pair(*tk.Forest.from_brackets([broad(1200), broad(1200, 2)]))


def test_a_value_too_large_for_float32_is_an_error_there():
    k = tk.SubsetTreeKernel(decay=1)
    x = [*SMALL[:13], broad(200)]
    assert k(x)[13, 13] == pytest.approx(2.0**200)
    with pytest.raises((OverflowError, ValueError), match="13"):
        k.gram(x, dtype=np.float32)


@pytest.mark.parametrize("leaf_weight", [0.0, 0.4])
def test_normalized_values_stay_finite_where_plain_ones_do_not(leaf_weight):
    k = tk.SubsetTreeKernel(decay=1, leaf_weight=leaf_weight, normalize=True)
    forest = tk.Forest.from_brackets(
        [broad(1200), broad(1200, 2), broad(1200, 1000), "(S (A a))", broad(1100)]
    )
    matrix = k(forest)
    # K = 2**equal + terms that are nothing beside it.
    expected = np.eye(5)
    expected[0, 1] = 2.0**-2
    expected[0, 2] = 2.0**-1000
    expected[1, 2] = 2.0**-998
    expected += np.triu(expected, 1).T
    np.testing.assert_allclose(matrix[:3, :3], expected[:3, :3], rtol=1e-9)
    np.testing.assert_allclose(np.diag(matrix), 1, rtol=1e-9)
    np.testing.assert_allclose(k(forest, forest), matrix, rtol=1e-9)
    np.testing.assert_allclose(k.diag(forest), 1, rtol=1e-9)
    pair = k.pair(forest[0], forest[1])
    assert pair == pytest.approx(matrix[0, 1], rel=1e-9)
    assert matrix[0, 3] < 1e-150
    assert np.isfinite(matrix).all()
    np.testing.assert_array_equal(matrix, matrix.T)
    small = k(forest[3:4], forest[3:4])
    np.testing.assert_allclose(small, [[1.0]], rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("PartialTreeKernel", {"decay": 1, "mu": 1}),
        ("ElasticTreeKernel", {"decay": 1}),
    ],
)
def test_overflow_of_the_other_kernels(name, parameters):
    # All pairs of subsequences of n equal children: binomial(2n, n) is about 4**n.
    bush = "(S" + " a" * 600 + ")"
    trees = [*SMALL[:13], bush, bush.replace("S", "T")]
    with pytest.raises((OverflowError, ValueError)) as caught:
        make(name, parameters)(trees)
    assert "13" in re.findall(r"\d+", str(caught.value)), str(caught.value)
    matrix = make(name, parameters, normalize=True)(trees)
    assert np.isfinite(matrix).all()
    np.testing.assert_allclose(np.diag(matrix), 1, rtol=1e-9)
    assert matrix[13, 14] < 1e-300  # they share no more than the leaves


# --- Threads, processes, signals ----------------------------------------------------


@every_kernel
def test_python_threads_may_compute_at_once(name):
    k, forest = make(name), random_forest(100)
    expected = k.gram(forest)
    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(k.gram, forest, n_jobs=1 + i % 2) for i in range(12)]
        jobs += [pool.submit(k, forest.to_brackets()) for _ in range(4)]
        for job in jobs:
            np.testing.assert_array_equal(job.result(), expected)


def chains(n: int, depth: int) -> list[str]:
    """Return chains of which no two share a subtree, but all match everywhere."""
    return ["(A" * depth + f"(x{i})" + ")" * depth for i in range(n)]


# ST is left out: it is a sparse product, and no small forest keeps it busy for long.
busy_kernels = pytest.mark.parametrize("name", NAMES[1:])


@pytest.mark.slow
@busy_kernels
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_other_threads_go_on_meanwhile(name, n_jobs):
    k, forest = make(name), tk.Forest.from_brackets(chains(120, 200))
    worker = threading.Thread(target=k.gram, args=(forest,), kwargs={"n_jobs": n_jobs})
    start = time.perf_counter()
    worker.start()
    longest, before = 0.0, start
    while worker.is_alive():
        time.sleep(0.001)
        now = time.perf_counter()
        longest, before = max(longest, now - before), now
    worker.join()
    if before - start < 0.1:
        pytest.skip(f"done in {before - start} s: too fast to tell")
    assert longest < 0.5 * (before - start)


def holds_in_forked_child(claim: Callable[[], bool]) -> bool:
    """Ask a forked child, which has half a minute."""
    with warnings.catch_warnings():  # Python 3.12 warns of threads, numpy's for example
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            os._exit(0 if claim() else 1)
        finally:
            os._exit(2)
    deadline = time.monotonic() + 30
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            pytest.fail("the child hangs")
        time.sleep(0.01)
    return os.waitstatus_to_exitcode(status) == 0


@every_kernel
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_computes(name):
    """A pool of threads that outlives a call would hang the child."""
    k, forest = make(name), random_forest(100)
    expected = k.gram(forest, n_jobs=2)
    assert holds_in_forked_child(
        lambda: all(
            np.array_equal(k.gram(forest, n_jobs=n_jobs), expected)
            for n_jobs in (2, 1, None)
        )
    )


def gram_in_child(k, lines: list[str]) -> np.ndarray:
    return k.gram(lines, n_jobs=2)


@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="needs fork"
)
def test_a_pool_of_forked_processes_computes():
    k, forest = tk.SubsetTreeKernel(), random_forest(50)
    expected = k.gram(forest, n_jobs=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        with multiprocessing.get_context("fork").Pool(2) as pool:
            jobs = [(k, forest.to_brackets())] * 4
            for matrix in pool.starmap_async(gram_in_child, jobs).get(timeout=60):
                np.testing.assert_array_equal(matrix, expected)


INTERRUPTED = """
import signal, sys, time
import treekernel_rs as tk

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored below "pytest &"

name, n_jobs, rectangular = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "True"
lines = ["(A" * 400 + f"(x{i})" + ")" * 400 for i in range(1000)]
forest = tk.Forest.from_brackets(lines)
columns = forest[::-1] if rectangular else None
print("ready", flush=True)
try:
    getattr(tk, name)().gram(forest, columns, n_jobs=n_jobs)
except KeyboardInterrupt:
    print("interrupted", time.time(), time.process_time(), flush=True)
else:
    print("finished", flush=True)
"""


@pytest.mark.slow
@pytest.mark.posix
@busy_kernels
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("rectangular", [False, True])
def test_control_c_ends_a_long_computation_within_a_second(name, n_jobs, rectangular):
    assert (
        seconds_until_interrupted(INTERRUPTED, name, n_jobs, rectangular, after=0.5)
        < 1.2
    )


# Decays (λ, and μ of partial trees) whose kernels floats hold badly or not at all.
TINY = [(1e-140, 0.4), (1e-160, 0.4), (1e-160, 1.0), (1e-200, 1e-200), (1e-100, 1e-120)]


def cosine(a, b):
    """Return the normalised dot product of vectors, whatever their lengths."""
    a, b = (
        {key: value / max(of.values()) for key, value in of.items()} for of in (a, b)
    )
    dot = lambda x, y: math.fsum(value * y.get(key, 0) for key, value in x.items())  # noqa: E731
    return dot(a, b) / math.sqrt(dot(a, a) * dot(b, b))


@pytest.mark.parametrize(("decay", "mu"), TINY)
@pytest.mark.parametrize("name", sorted(ko.VECTORS))
def test_normalised_values_below_floats_are_computed(name, decay, mu):
    texts = ["(S (A a) (B b c) (A a))", "(S (A a) (B b d))", "(S (C c) (A a) (A a))"]
    plain = {"decay": decay}
    if name == "PartialTreeKernel":
        plain |= {"mu": mu, "leaf_factor": 1.7}
    vectors = [ko.VECTORS[name](tree, **plain) for tree in oracle.parse(texts)]
    expected = np.array([[cosine(a, b) for b in vectors] for a in vectors])
    kernel = getattr(tk, name)(**plain, normalize=True)
    matrix = kernel(texts)
    np.testing.assert_allclose(matrix, expected, rtol=1e-12)
    i, j = np.triu_indices(3, 1)
    for value in (
        kernel(texts, texts),
        kernel.index(texts).gram(texts),
        kernel.rows(texts)[:],
        [[kernel.pair(a, b) for b in texts] for a in texts],
    ):
        np.testing.assert_allclose(value, expected, rtol=1e-12)
    found = kernel.join(texts, min_similarity=0.1)
    np.testing.assert_array_equal([found.rows, found.columns], [i, j])
    np.testing.assert_allclose(found.values, expected[i, j], rtol=1e-12)
    nearest = kernel.top_k(texts, k=2)
    np.testing.assert_allclose(
        nearest.values, np.sort(expected - 2 * np.eye(3))[:, :0:-1], rtol=1e-12
    )
    model = tk.DagModel(kernel)
    model.add(texts, [1.0, -0.5, 2.0])
    scores = expected @ [1.0, -0.5, 2.0]
    np.testing.assert_allclose(model.decision_function(texts), scores, rtol=1e-12)
