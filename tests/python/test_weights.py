"""Weights of labels and productions, and functions of counts, from the definition.

The oracle enumerates fragments as `kernel_oracle` does, with all factors at 1, and weighs
each by what it consists of.
"""

from __future__ import annotations

import copy
import gzip
import json
import math
import pickle
import warnings

import kernel_oracle as ko
import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treekernel_rs as tk
from treekernel_rs.tree_kernels import TREE_KERNELS

X = ["(S (A a) (B b))", "(S (A a) (B c))", "(T (A a) (B b))", "(T (A a) (B c))"]
PRODUCTIONS = ("SubtreeKernel", "SubsetTreeKernel")
#: The kernels that can have weights.
WEIGHTED = [
    name for name, kernel in TREE_KERNELS.items() if "weights" in kernel._defaults
]
weighted_kernels = ko.kernels.filter(lambda kernel: kernel[0] in WEIGHTED)
F = {
    "linear": lambda count: count,
    "log": lambda count: 1 + math.log(count),
    "set": lambda count: 1,
}


# --- The oracle ---------------------------------------------------------------------


def weight_of(weights: dict, key: tuple | str) -> float:
    """Return the weight of a label, or of (label, labels of children)."""
    if key in weights:
        return weights[key]
    if isinstance(key, tuple):
        return weight_of(weights, key[0])
    return weights.get(None, 1.0)


def production(node) -> tuple:
    return node[0], tuple(child[0] for child in node[1])


def vector(name: str, tree, weights: dict, counts: str, parameters: dict) -> dict:
    p = dict(parameters)
    decay, leaf_weight = p.pop("decay", 0.4), p.pop("leaf_weight", 0.0)
    mu = p.pop("mu", 0.4)
    # PT's decay is not per node.
    plain = {"decay": decay, "mu": 1.0, **p} if "Partial" in name else {"decay": 1.0}
    if name in PRODUCTIONS:
        plain["leaf_weight"] = 1.0
    found = {}
    for fragment, count in ko.VECTORS[name](tree, **plain).items():
        if name == "SubpathKernel":
            factors = [decay * weight_of(weights, label) for label in fragment]
        elif fragment[0] == "leaf" and isinstance(fragment[1], str):
            factors = [leaf_weight * weight_of(weights, fragment[1])]
        elif name in PRODUCTIONS:
            inner = [node for node in ko.nodes(fragment) if node[1]]
            factors = [decay * weight_of(weights, production(n)) for n in inner]
        else:
            factor = mu if "Partial" in name else decay
            factors = [factor * weight_of(weights, n[0]) for n in ko.nodes(fragment)]
        found[fragment] = F[counts](count) * math.sqrt(math.prod(factors))
    return found


def dot(a: dict, b: dict) -> float:
    return sum(value * b.get(fragment, 0.0) for fragment, value in a.items())


def matrix(vectors: list[dict], *, normalize: bool) -> np.ndarray:
    K = np.array([[dot(a, b) for b in vectors] for a in vectors])
    if normalize:
        norms = np.sqrt(np.diag(K))
        norms = np.outer(norms, norms)
        K = np.divide(K, norms, out=np.zeros_like(K), where=norms > 0)
    return K


_weight = st.one_of(st.sampled_from([0.0, 1.0, 0.5, 3.0]), st.floats(0.01, 5.0))
_label = st.sampled_from(["S", "NP", "a", "b", ""])
_of_labels = st.dictionaries(st.one_of(_label, st.none()), _weight, max_size=5)
_key = st.one_of(
    _label,
    st.none(),
    st.tuples(_label, st.lists(_label, min_size=1, max_size=2).map(tuple)),
)
_of_productions = st.dictionaries(_key, _weight, max_size=8)


@st.composite
def cases(draw: st.DrawFn):
    name, parameters = draw(weighted_kernels)
    weights = draw(_of_productions if name in PRODUCTIONS else _of_labels)
    has_counts = name in ("SubtreeKernel", "SubpathKernel")
    counts = draw(st.sampled_from(list(F))) if has_counts else "linear"
    return name, parameters, weights, counts, draw(ko.small_forests)


def make(name: str, parameters: dict, weights, counts: str = "linear", **more):
    if counts != "linear":
        more["counts"] = counts
    return getattr(tk, name)(**parameters, weights=weights, **more)


def quietly(function, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return function(*args, **kwargs)


@settings(deadline=None)
@given(cases(), st.booleans())
def test_every_use_is_the_definition_and_positive_semidefinite(case, normalize):
    name, parameters, weights, counts, trees = case
    forest = tk.Forest.from_brackets([oracle.show(tree) for tree in trees])
    vectors = [vector(name, t, weights, counts, parameters) for t in trees]
    expected = matrix(vectors, normalize=normalize)
    kernel = make(name, parameters, weights, counts, normalize=normalize)
    close = {"rtol": 1e-9, "atol": 1e-300}
    K = quietly(kernel, forest)
    np.testing.assert_allclose(K, expected, **close)
    np.testing.assert_array_equal(K, K.T)
    np.testing.assert_allclose(quietly(kernel, forest, forest), expected, **close)
    rows = quietly(kernel.rows, forest)
    np.testing.assert_allclose(rows[:], expected, **close)
    np.testing.assert_allclose(
        quietly(kernel.diag, forest), expected.diagonal(), **close
    )
    for i in range(len(trees)):
        for j in range(len(trees)):
            value = kernel.pair(forest[i], forest[j])
            np.testing.assert_allclose(value, expected[i, j], **close)
    eigenvalues = np.linalg.eigvalsh(K)
    assert eigenvalues.min() >= -1e-9 * max(1.0, eigenvalues.max())


@settings(deadline=None, max_examples=50)
@given(
    weighted_kernels,
    ko.small_forests,
    st.sampled_from([{}, {None: 1.0}, {"a": 1, "S": 1}]),
)
def test_weights_of_one_change_nothing(case, trees, weights):
    name, parameters = case
    forest = tk.Forest.from_brackets([oracle.show(tree) for tree in trees])
    plain = getattr(tk, name)(**parameters)
    weighted = plain.replace(weights=weights)
    np.testing.assert_allclose(weighted(forest), plain(forest), rtol=1e-12)
    for a in forest:
        for b in forest:
            assert weighted.pair(a, b) == pytest.approx(plain.pair(a, b), rel=1e-12)


# --- By hand ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "a", "b", "value"),
    [
        (tk.SubsetTreeKernel(0.4, weights={"A": 0.5}), X[0], X[1], 0.2 + 0.4 * 1.2),
        # A production's own weight counts, not its label's.
        (
            tk.SubsetTreeKernel(0.4, weights={"A": 3, ("A", ("a",)): 0.5}),
            X[0],
            X[1],
            0.2 + 0.4 * 1.2,
        ),
        (
            tk.SubsetTreeKernel(0.4, weights={"S -> A B": 2, None: 0.5}),
            X[0],
            X[1],
            0.2 + 0.8 * 1.2,
        ),
        (tk.SubtreeKernel(0.5, weights={"A": 2}), X[0], X[0], 1 + 0.5 + 0.25),
        (
            tk.SubtreeKernel(0.5, leaf_weight=1, weights={"a": 3, "A": 0}),
            X[0],
            X[0],
            0.5 + 3 + 1,
        ),
        # A three times, b once in both.
        (
            tk.SubtreeKernel(1.0, counts="set"),
            "(S (A a) (A a) (A a))",
            "(T (A a) (A a))",
            1,
        ),
        (
            tk.SubtreeKernel(1.0, counts="log"),
            "(S (A a) (A a) (A a))",
            "(T (A a) (A a))",
            (1 + math.log(3)) * (1 + math.log(2)),
        ),
        (
            tk.PartialTreeKernel(weights={"A": 0.5}),
            "(A b)",
            "(A b)",
            0.064 + 0.2 * 0.224,
        ),
        (tk.ElasticTreeKernel(1.0, weights={"A": 0.5}), "(A b)", "(A (X b))", 2.0),
        # A twice, b, AA, Ab, AAb.
        (
            tk.SubpathKernel(1.0, weights={"A": 0.5}),
            "(A (A b))",
            "(A (A b))",
            4 * 0.5 + 1 + 0.25 + 0.5 + 0.25,
        ),
        (tk.SubpathKernel(1.0, counts="set"), "(A (A b))", "(A (A b))", 5),
    ],
    ids=repr,
)
def test_hand_values(kernel, a, b, value):
    assert kernel.pair(a, b) == pytest.approx(value, rel=1e-12)
    assert kernel([a], [b])[0, 0] == pytest.approx(value, rel=1e-12)


# --- Larger trees -------------------------------------------------------------------


@pytest.fixture(scope="module")
def functions():
    return tk.datasets.python_functions(classes=["json", "asyncio"]).forest[:40]


WEIGHTS = {"Name": 0.3, "Load": 0.1, "Call": 1.5, "Constant": 0.0, None: 0.9}


@pytest.mark.parametrize("name", WEIGHTED)
@pytest.mark.parametrize("normalize", [False, True])
def test_pairs_rows_and_matrices_agree_on_functions(functions, name, normalize):
    kernel = make(name, {"decay": 0.3}, WEIGHTS, normalize=normalize)
    K = quietly(kernel, functions)
    np.testing.assert_allclose(quietly(kernel.rows, functions)[:], K, rtol=1e-10)
    np.testing.assert_array_equal(kernel.gram(functions, n_jobs=1), K)
    i, j = np.divmod(np.arange(0, K.size, 7), len(K))
    values = quietly(kernel.pairs, functions, i, j)
    np.testing.assert_allclose(values, K[i, j], rtol=1e-10)
    again = quietly(kernel.index(functions).gram, functions[:5])
    np.testing.assert_allclose(again, K[:5], rtol=1e-10)
    assert np.linalg.eigvalsh(K).min() > -1e-9 * K.max()


@pytest.mark.parametrize("counts", list(F))
def test_neighbours_and_joins_of_subtrees_have_weights(functions, counts):
    kernel = tk.SubtreeKernel(0.5, weights=WEIGHTS, counts=counts, normalize=True)
    K = kernel(functions)
    found = kernel.join(functions, min_similarity=0.1)
    i, j = np.nonzero(np.triu(K >= 0.1, 1))
    assert (found.rows.tolist(), found.columns.tolist()) == (i.tolist(), j.tolist())
    np.testing.assert_allclose(found.values, K[i, j], rtol=1e-10)
    nearest = kernel.top_k(functions, k=3)
    np.fill_diagonal(K, -1)
    np.testing.assert_allclose(nearest.values, -np.sort(-K)[:, :3], rtol=1e-10)


@pytest.mark.parametrize("normalize", [False, True])
def test_models_of_subtrees_have_weights(functions, normalize):
    kernel = tk.SubtreeKernel(
        0.5, leaf_weight=0.2, weights=WEIGHTS, normalize=normalize
    )
    alphas = np.random.default_rng(0).normal(size=len(functions))
    model = tk.DagModel(kernel)
    model.add(functions[:20], alphas[:20])
    model.add(functions[20:], alphas[20:])
    expected = kernel(functions) @ alphas
    np.testing.assert_allclose(
        model.decision_function(functions), expected, rtol=1e-9, atol=1e-12
    )
    again = tk.DagModel.from_arrays(**model.to_arrays())
    assert again.kernel == kernel
    np.testing.assert_array_equal(
        again.decision_function(functions), model.decision_function(functions)
    )


@pytest.mark.parametrize(
    "kernel",
    [
        tk.SubtreeKernel(counts="log"),
        *(make(name, {}, {"A": 2.0}) for name in WEIGHTED[1:]),
    ],
    ids=repr,
)
def test_models_of_others_keep_support_trees_and_refuse_fragments(functions, kernel):
    alphas = np.random.default_rng(0).normal(size=len(functions))
    model = tk.DagModel.from_dual(kernel, functions, alphas)
    assert not model.is_graph
    assert tk.DagModel(tk.SubtreeKernel(weights=WEIGHTS)).is_graph
    K = kernel(functions)
    size = np.abs(K) @ np.abs(alphas)
    assert (
        np.abs(model.decision_function(functions) - K @ alphas) <= 1e-10 * size
    ).all()
    again = tk.DagModel.from_arrays(**model.to_arrays())
    assert again.kernel == kernel
    np.testing.assert_array_equal(
        again.decision_function(functions), model.decision_function(functions)
    )
    message = r"weighted \w+Kernel does not support"
    for explain in (model.top_fragments, lambda: model.contributions(functions[0])):
        with pytest.raises(ValueError, match=message):
            explain()


def test_deep_and_wide_trees_take_no_quadratic_time():
    n = 50_000
    chain = "(A " * n + "x" + ")" * n
    wide = f"(A {' '.join(f'(p w{i})' for i in range(n))})"
    kernel = tk.SubpathKernel(0.5, weights={"A": 0.5})
    # At 1/4, 1/16, .. for A, AA, ..
    expected = sum((n - k + 1) ** 2 * 0.25**k for k in range(1, 60))
    below = sum(0.5 * 0.25**k for k in range(60))  # x, Ax, AAx ..
    assert kernel.pair(chain, chain) == pytest.approx(expected + below, rel=1e-9)
    own = 0.25 + n * n * (0.5 + 0.125) + n * (0.5 + 0.25 + 0.0625)
    assert kernel.pair(wide, wide) == pytest.approx(own, rel=1e-9)
    for name in PRODUCTIONS:
        kernel = make(name, {}, {"A": 0.5, "p": 1e-6})
        assert kernel.pair(wide, wide) > 0


@pytest.mark.slow
def test_large_weights_overflow_by_name_and_normalised_values_survive():
    deep = "(A " * 3000 + "x" + ")" * 3000
    trees = [deep, deep.replace("x", "y")]
    for name in ("SubsetTreeKernel", "PartialTreeKernel", "ElasticTreeKernel"):
        kernel = make(name, {"decay": 1.0}, {"A": 9.0})
        with pytest.raises(OverflowError, match="too large for a float"):
            kernel(trees)
        K = kernel.replace(normalize=True)(trees)
        assert K[0, 0] == 1.0
        assert 0 < K[0, 1] <= 1
    for name in ("SubtreeKernel", "SubpathKernel"):
        kernel = make(name, {"decay": 1.0}, {"A": 9.0})
        with pytest.raises(ValueError, match="weights must be so small that"):
            kernel(trees)


# --- Weights as parameters ----------------------------------------------------------


@pytest.mark.parametrize(
    "weights",
    [
        {"A": 0.5, None: 2.0},
        {("S", ("A", "B")): 0.5, "A -> a": 0.0},
        tk.kernels.Idf(smooth=False),
        tk.kernels.Idf("productions").fit(X),
        tk.kernels.LearnedWeights(least=0.1).fit(X, [0, 0, 1, 1]),
    ],
    ids=repr,
)
def test_kernels_with_weights_are_values(weights):
    k = tk.SubsetTreeKernel(0.3, weights=weights, normalize=True)
    assert k.weights is weights
    assert k.get_params()["weights"] is weights
    same = tk.SubsetTreeKernel(0.3, weights=copy.deepcopy(weights), normalize=True)
    assert same == k
    assert k != k.replace(weights=None)
    again = tk.kernels.kernel_from_json(k.to_json())
    assert again == k
    assert pickle.loads(pickle.dumps(k)) == k
    if not (isinstance(weights, tk.kernels.Idf) and not weights.smooth):
        np.testing.assert_array_equal(again(X), k(X))
    if isinstance(weights, dict):
        assert eval(repr(k), vars(tk.kernels)) == k


def test_kernels_without_weights_are_written_as_before():
    text = tk.SubtreeKernel(0.3).to_json()
    assert json.loads(text).keys() == {
        "version",
        "kernel",
        "decay",
        "leaf_weight",
        "normalize",
    }


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"A": -1}, r"weights\['A'\] must be finite and not negative, got -1"),
        ({"A": math.nan}, "must be finite and not negative, got nan"),
        ({None: math.inf}, r"weights\[None\] must be finite"),
        ({"A": "x"}, r"weights\['A'\] must be a number"),
        ({1: 1.0}, "keys of weights are a label"),
        ({("A",): 1.0}, "keys of weights are a label"),
        ([("A", 1.0)], "weights must be a mapping, Idf or LearnedWeights"),
        (tk.kernels.Idf(), "has no weights yet: fit it"),
        (tk.kernels.LearnedWeights(), "has no weights yet: fit it"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("name", WEIGHTED)
def test_bad_weights_are_refused_when_used(name, weights, message):
    kernel = make(name, {}, weights)
    with pytest.raises((ValueError, TypeError), match=message):
        kernel(X)


def test_weights_of_productions_are_refused_where_labels_are_counted():
    for name in set(WEIGHTED) - set(PRODUCTIONS):
        with pytest.raises(ValueError, match="weights of productions are for Subtree"):
            make(name, {}, {("A", ("a",)): 1.0})(X)


def test_bad_counts_are_refused():
    for counts in ("squared", "", "LOG"):
        with pytest.raises(ValueError, match="counts must be 'linear', 'log' or 'set'"):
            tk.SubtreeKernel(counts=counts)(X)
    with pytest.raises(TypeError, match="counts must be 'linear'"):
        tk.SubpathKernel(counts=None)(X)


def test_weights_that_change_are_seen():
    weights = {"A": 1.0}
    k = tk.SubsetTreeKernel(0.4, weights=weights)
    first = k(X)
    weights["A"] = 0.0
    assert not np.array_equal(k(X), first)


# --- Idf and LearnedWeights ---------------------------------------------------------


@settings(deadline=None, max_examples=50)
@given(ko.small_forests, st.sampled_from(["labels", "productions"]), st.booleans())
def test_idf_is_that_of_document_frequencies(trees, of, smooth):
    forest = tk.Forest.from_brackets([oracle.show(tree) for tree in trees])
    fitted = tk.kernels.Idf(of, smooth=smooth).fit(forest).weights_
    symbols = [
        {
            n[0] if of == "labels" else production(n)
            for n in ko.nodes(t)
            if n[1] or of == "labels"
        }
        for t in trees
    ]
    n, more = len(trees), int(smooth)
    expected = {
        symbol: math.log((n + more) / (sum(symbol in s for s in symbols) + more)) + 1
        for symbol in set().union(*symbols)
    }
    expected[None] = math.log(n + more) + 1
    assert fitted == pytest.approx(expected)


def test_learned_weights_are_those_of_the_definition():
    trees = [ko.oracle.parse([text])[0] for text in X * 3]
    forest = tk.Forest.from_brackets(X * 3)
    y = np.array([0, 0, 1, 2, 0, 1, 1, 2, 0, 0, 1, 2])
    learned = tk.kernels.LearnedWeights().fit(forest, y).weights_
    for label in {n[0] for t in trees for n in ko.nodes(t)}:
        there = np.array([any(n[0] == label for n in ko.nodes(t)) for t in trees])
        part = np.array([there[y == k].mean() for k in range(3)])
        cases = [*np.eye(3), *(1 - np.eye(3))]
        x = max(0, 1 - min(np.linalg.norm(part - case) for case in cases))
        assert learned[label] == pytest.approx(3 * x**2 - 2 * x**3)
    aligned = tk.kernels.LearnedWeights(method="alignment").fit(forest, y).weights_
    Y = np.eye(3)[y]
    center = np.eye(12) - 1 / 12
    target = center @ Y @ Y.T @ center
    raw = {}
    for label in {n[0] for t in trees for n in ko.nodes(t)}:
        x = np.array([sum(n[0] == label for n in ko.nodes(t)) for t in trees], float)
        own = center @ np.outer(x, x) @ center
        norm = np.linalg.norm(own)
        raw[label] = (own * target).sum() / norm if norm > 1e-9 else 0.0
    largest = max(raw.values())
    expected = {label: value / largest for label, value in raw.items()} | {None: 0.0}
    assert aligned == pytest.approx(expected)
    least = tk.kernels.LearnedWeights(least=0.25).fit(forest, y).weights_
    assert least == pytest.approx({k: 0.25 + 0.75 * v for k, v in learned.items()})


@pytest.mark.parametrize(
    ("weights", "y", "message"),
    [
        (
            tk.kernels.Idf("words"),
            None,
            "of must be 'labels' or 'productions', got 'words'",
        ),
        (tk.kernels.LearnedWeights("edges"), [0, 1], "of must be"),
        (tk.kernels.LearnedWeights(method="x"), [0, 1], "method must be"),
        (tk.kernels.LearnedWeights(least=2), [0, 1], "least must be from 0 to 1"),
        (tk.kernels.LearnedWeights(), [0], "y: expected one value for each of 2 trees"),
        (
            tk.kernels.LearnedWeights(),
            [1, 1],
            "y: expected at least two classes, got 1",
        ),
        (
            tk.kernels.LearnedWeights(method="alignment"),
            [0.0, math.inf],
            "finite numbers",
        ),
    ],
    ids=repr,
)
def test_what_cannot_be_fitted_is_refused(weights, y, message):
    with pytest.raises(ValueError, match=message):
        weights.fit(X[:2], y)


def test_weights_of_no_trees_are_refused():
    for weights in (tk.kernels.Idf(), tk.kernels.LearnedWeights()):
        with pytest.raises(ValueError, match="at least one tree"):
            weights.fit([], [])


def test_labels_that_brackets_escape_are_found():
    forest = tk.Forest.from_trees([("a b", [("(", []), ("", [])]), ("a b", [])])
    fitted = tk.kernels.Idf().fit(forest).weights_
    assert set(fitted) == {"a b", "(", "", None}
    fitted = tk.kernels.Idf("productions").fit(forest).weights_
    assert set(fitted) == {("a b", ("(", "")), None}


def test_rows_of_subset_trees_have_weights_on_questions(shared_data):
    path = shared_data / "qc" / "const_train.tsv.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        X = tk.Forest.from_brackets([next(file).split("\t")[3] for _ in range(400)])
    weights = {**tk.kernels.Idf("productions").fit(X).weights_, "NP": 0.0, "IN": 0.5}
    for leaf_weight in (0.0, 0.2):
        kernel = tk.SubsetTreeKernel(0.2, leaf_weight=leaf_weight, weights=weights)
        K = kernel(X)
        i, j = np.divmod(np.arange(0, K.size, 11), len(K))
        np.testing.assert_allclose(K[i, j], kernel.pairs(X, i, j), rtol=1e-10)
        index = kernel.index(X[:200])
        np.testing.assert_allclose(index.gram(X[200:]), K[200:, :200], rtol=1e-10)
        index.add(X[200:])
        np.testing.assert_allclose(index.gram(X), K, rtol=1e-10)
