"""Kernels made of kernels: numpy on the parts' matrices, at every entry point."""

from __future__ import annotations

import copy
import io
import json
import pickle
import warnings

import kernel_oracle as ko
import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import treekernel_rs as tk
from treekernel_rs.tree_kernels import COMPOSED_KERNELS

X = ["(S (A a) (B b))", "(S (A a) (B c))", "(T (A a) (B b))", "(T (A a) (B c))"] * 5
Y = [0, 0, 1, 1] * 5
ST, SST = tk.SubtreeKernel(0.5, leaf_weight=0.3), tk.SubsetTreeKernel(0.4)
PT, ET = tk.PartialTreeKernel(), tk.ElasticTreeKernel(0.3)
PATHS = tk.SubpathKernel(0.4, normalize=True)

NAMES = ["SumKernel", "ProductKernel", "ScaledKernel", "PowerKernel", "Polynomial"]


def gram_of(kernel, forest, parts=None):
    """Compute a matrix by numpy on the matrices of the parts that are no compositions."""
    if type(kernel).__name__ not in COMPOSED_KERNELS:
        return kernel(forest)
    of = {
        name: gram_of(part, forest)
        for name, part in kernel.get_params(deep=False).items()
        if name in ("left", "right", "base")
    }
    match kernel:
        case tk.kernels.SumKernel():
            K = of["left"] + of["right"]
        case tk.kernels.ProductKernel():
            K = of["left"] * of["right"]
        case tk.kernels.ScaledKernel():
            K = kernel.factor * of["base"]
        case tk.kernels.PowerKernel():
            K = of["base"] ** kernel.degree
        case tk.kernels.Polynomial():
            K = (of["base"] + kernel.coef0) ** kernel.degree
        case tk.kernels.Gaussian():
            own = np.diag(of["base"])
            squares = np.maximum(own[:, None] + own[None, :] - 2 * of["base"], 0)
            K = np.exp(-kernel.gamma * squares)
    if not kernel.normalize:
        return K
    root = np.sqrt(np.diag(K))
    norms = np.outer(root, root)
    return np.divide(K, norms, out=np.zeros_like(K), where=norms > 0)


@st.composite
def simple(draw):
    name, parameters = draw(ko.kernels)
    return getattr(tk.kernels, name)(**parameters, normalize=draw(st.booleans()))


def operations(parts):
    small, number = st.integers(1, 3), st.sampled_from([0.0, 0.5, 2.0])
    flag = st.booleans()
    return st.one_of(
        st.builds(lambda a, b: a + b, parts, parts),
        st.builds(lambda a, b: a * b, parts, parts),
        st.builds(lambda c, k: c * k, number, parts),
        st.builds(lambda k, d: k**d, parts, small),
        parts.map(lambda kernel: kernel.normalized()),
        st.builds(tk.kernels.Polynomial, parts, small, number, normalize=flag),
        st.builds(
            tk.kernels.Gaussian, parts, st.sampled_from([0.01, 0.5]), normalize=flag
        ),
    )


kernels = st.recursive(simple(), operations, max_leaves=4)


def quietly(function, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return function(*args, **kwargs)


@settings(deadline=None)
@given(kernels, ko.small_forests)
def test_every_composition_is_that_of_numpy_at_every_entry_point(kernel, trees):
    forest = [oracle.show(tree) for tree in trees]
    n = len(forest)
    expected = quietly(gram_of, kernel, forest)
    # A difference of large numbers, in the exponent of a Gaussian.
    close = {"rtol": 1e-8, "atol": 1e-9 * max(1.0, np.abs(expected).max())}
    K = quietly(kernel, forest)
    np.testing.assert_allclose(K, expected, **close)
    np.testing.assert_array_equal(K, K.T)
    smallest = np.linalg.eigvalsh(K)[0]
    assert smallest >= -1e-9 * max(1.0, np.trace(K))
    if kernel.normalize:
        assert set(np.diag(K)) <= {0.0, 1.0}
        assert K.max() <= 1.0
    np.testing.assert_allclose(quietly(kernel, forest, forest), K, **close)
    np.testing.assert_allclose(quietly(kernel.rows, forest)[:], K, **close)
    np.testing.assert_allclose(quietly(kernel.diag, forest), np.diag(K), **close)
    np.testing.assert_allclose(quietly(kernel.index(forest).gram, forest), K, **close)
    i = np.arange(n)
    found = quietly(kernel.pairs, forest, i, (i + 1) % n)
    np.testing.assert_allclose(found, K[i, (i + 1) % n], **close)
    one = quietly(kernel.pair, forest[0], forest[-1])
    np.testing.assert_allclose(one, K[0, -1], **close)
    least = float(np.median(K))
    pairs = quietly(kernel.join, forest, min_similarity=least - close["atol"])
    upper = np.triu(K, 1) >= least + 2e-8 * abs(least)
    missing = set(zip(*np.nonzero(np.triu(upper, 1)), strict=True))
    assert missing <= set(zip(pairs.rows.tolist(), pairs.columns.tolist(), strict=True))
    nearest = quietly(kernel.top_k, forest, k=1)
    if n > 1:
        others = np.where(np.eye(n, dtype=bool), -np.inf, K).max(axis=1)
        np.testing.assert_allclose(nearest.values[:, 0], others, **close)


@given(kernels)
def test_every_composition_is_written_and_read_back(kernel):
    assert eval(repr(kernel), vars(tk.kernels)) == kernel
    assert tk.kernels.kernel_from_json(kernel.to_json()) == kernel
    again = pickle.loads(pickle.dumps(kernel))
    assert again == kernel
    assert clone(kernel) == kernel
    assert kernel.replace() is not kernel
    json.loads(kernel.to_json())


def test_text_keeps_what_belongs_together():
    k = tk.SubsetTreeKernel(0.4)
    for text in (
        "SubsetTreeKernel(0.4) + (SubsetTreeKernel(0.4) + SubsetTreeKernel(0.4))",
        "SubsetTreeKernel(0.4) * (SubsetTreeKernel(0.4) * SubsetTreeKernel(0.4))",
        "(SubsetTreeKernel(0.4) + SubsetTreeKernel(0.4)) * SubsetTreeKernel(0.4)",
        "2.0 * (SubsetTreeKernel(0.4) * SubsetTreeKernel(0.4))",
        "2.0 * SubsetTreeKernel(0.4) * SubsetTreeKernel(0.4)",
        "(SubsetTreeKernel(0.4) ** 2) ** 3",
        "(2 * SubsetTreeKernel(0.4) + SubsetTreeKernel(0.2)).normalized() ** 2",
        "Polynomial(SubsetTreeKernel(0.4), degree=2)",
        "Gaussian(SubsetTreeKernel(0.4, normalize=True), gamma=0.5)",
        "Polynomial(SubsetTreeKernel(0.4)).normalized()",
    ):
        assert repr(eval(text, vars(tk.kernels))) == text
    assert sum([k, k, k]) == (k + k) + k
    assert k * 2.0 == 2.0 * k == np.float64(2.0) * k
    assert k + PT != PT + k


@pytest.mark.parametrize("what", [1, "k", None, [SST]], ids=repr)
def test_what_is_no_kernel_is_not_added(what):
    with pytest.raises(TypeError):
        SST + what
    with pytest.raises(TypeError):
        what + SST
    if what != 1:
        with pytest.raises(TypeError):
            SST * what
        with pytest.raises(TypeError):
            SST**what


@pytest.mark.parametrize(
    ("kernel", "error", "message"),
    [
        (SST**2.5, TypeError, "degree must be an int, got 2.5"),
        (SST**0, ValueError, "degree must be an int from 1 to 1000, got 0"),
        (SST ** (-1), ValueError, "degree must be"),
        (SST**1001, ValueError, "degree must be"),
        (-1 * SST, ValueError, "factor must be finite and not negative, got -1"),
        (np.inf * SST, ValueError, "factor must be finite"),
        (
            tk.kernels.Gaussian(SST, 0),
            ValueError,
            "gamma must be finite and above 0, got 0",
        ),
        (
            tk.kernels.Gaussian(SST, np.nan),
            ValueError,
            "gamma must be finite and above 0",
        ),
        (
            tk.kernels.Polynomial(SST, 2, -1),
            ValueError,
            "coef0 must be finite and not negative",
        ),
        (tk.kernels.Polynomial(SST, "2"), TypeError, "degree must be an int"),
        (
            tk.kernels.SumKernel(SST, "k"),
            TypeError,
            "right must be a tree kernel, got 'k'",
        ),
        (SST.replace(decay=2) + SST, ValueError, "decay must be"),
        (
            (SST + SST).replace(normalize=1),
            ValueError,
            "normalize must be True or False",
        ),
        (SST + SST.replace(normalize=2), ValueError, "normalize must be True or False"),
    ],
    ids=str,
)
def test_parameters_out_of_range_are_remembered_and_refused_in_use(
    kernel, error, message
):
    uses = (
        lambda: kernel(X),
        lambda: kernel.diag(X),
        lambda: kernel.rows(X),
        lambda: kernel.pair(X[0], X[1]),
        lambda: kernel.top_k(X),
        lambda: tk.DagModel(kernel),
    )
    for use in uses:
        with pytest.raises(error, match=message):
            use()


def test_compositions_are_of_a_size_that_can_be_computed():
    k = SST
    for _ in range(7):
        k = k * k
    assert k.pair(X[0], X[0]) == pytest.approx(SST.pair(X[0], X[0]) ** 128)
    with pytest.raises(ValueError, match="at most 256 kernels and operations"):
        (k * k)(X)


def test_nested_parameters_are_set_searched_and_copied():
    k = SST + 2.0 * PT.normalized()
    assert k.get_params()["right__base__mu"] == 0.4
    other = k.replace(left__decay=0.2, right__factor=3.0, right__base__mu=0.1)
    assert other == tk.SubsetTreeKernel(0.2) + 3.0 * tk.PartialTreeKernel(
        mu=0.1, normalize=True
    )
    assert (k.left.decay, k.right.factor) == (0.4, 2.0)
    copy = k.replace()
    assert copy.left is not k.left
    before = k.pair(X[0], X[1])
    k.set_params(left__decay=0.1)
    assert k.left.decay == 0.1
    assert SST.decay == 0.4
    assert k.pair(X[0], X[1]) < before
    own = tk.SubsetTreeKernel(0.4)
    k, model = own + PT, tk.DagModel(own + PT)
    own.set_params(decay=0.1)
    assert k.pair(X[0], X[1]) == own.pair(X[0], X[1]) + PT.pair(X[0], X[1])
    assert model.kernel.left.decay == 0.4
    for wrong in ("no", "left__no", "middle__decay", "normalize__decay"):
        with pytest.raises(ValueError, match="has no parameter"):
            k.replace(**{wrong: 1})


@pytest.mark.parametrize(
    "estimator",
    [
        make_pipeline(tk.TreeGram(SST + PT), SVC(kernel="precomputed")),
        SVC(kernel=SST + PT),
        tk.TreeSVC(SST + PT),
        tk.TreeKNeighborsClassifier(SST * PT + SST * PT, n_neighbors=3),
    ],
    ids=["TreeGram", "SVC", "TreeSVC", "neighbours"],
)
def test_searches_set_parts_of_sums(estimator):
    names = clone(estimator).get_params()
    name = next(n for n in names if "kernel__left__" in n and n.endswith("decay"))
    search = GridSearchCV(estimator, {name: [0.1, 0.4]}, cv=2).fit(X, Y)
    assert search.best_score_ == 1.0
    assert set(search.cv_results_[f"param_{name}"]) == {0.1, 0.4}


def huge(leaf: str) -> str:
    tree = f"(a {leaf})"
    for _ in range(12):
        tree = f"(a {tree} {tree})"
    return tree


def test_values_beyond_floats_are_right_where_the_result_is_not():
    big = tk.SubsetTreeKernel(1.0)
    forest = [huge("b"), huge("c"), X[0]]
    inner = big.normalized()
    expected = inner(forest)
    for k, right in (
        (inner + inner, 2 * expected),
        (0.5 * inner, 0.5 * expected),
        (inner**2, expected**2),
        ((big**2).normalized(), expected**2),
        ((big * big).normalized(), expected**2),
        (tk.kernels.Gaussian(inner, 0.5), np.exp(expected - 1)),
        (tk.kernels.Gaussian(big), np.eye(3)),
        ((1e-300 * big).normalized(), expected),
    ):
        np.testing.assert_allclose(k(forest), right, rtol=1e-9)
        np.testing.assert_allclose(k(forest, forest), right, rtol=1e-9)
        np.testing.assert_allclose(k.rows(forest)[0], right[0], rtol=1e-9)
        assert k.pair(forest[0], forest[1]) == pytest.approx(right[0, 1], rel=1e-9)
    with pytest.raises(OverflowError, match="tree 0 and tree 0"):
        (big + big)(forest)
    with pytest.raises(OverflowError):
        (SST**1000).pair(huge("b"), huge("b"))


def test_threads_files_and_progress_come_with_the_parts(tmp_path):
    k = tk.kernels.Gaussian((SST + PT).normalized(), 0.5) * PATHS
    forest = [f"(S (A a{i % 7}) (B{i % 3} (C c)) (D{i % 5} d))" for i in range(600)]
    K = k(forest)
    for n_jobs in (1, 2, 4):
        np.testing.assert_array_equal(k.gram(forest, n_jobs=n_jobs), K)
    out = np.memmap(tmp_path / "K", np.float32, "w+", shape=K.shape)
    told: list[tuple[int, int]] = []
    k.gram(forest, out=out, dtype=np.float32, progress=lambda *at: told.append(at))
    np.testing.assert_array_equal(out, K.astype(np.float32))
    assert told

    def stop(done, total):
        raise RuntimeError

    with pytest.raises(RuntimeError):
        k.gram(forest, progress=stop)


SUMS = [
    SST + PT,
    0.5 * SST,
    2.0 * ET.normalized(),
    (3.0 * SST).normalized(),
    SST.normalized() + 0.5 * PT.normalized() + ST,
    (SST + 2.0 * PT).normalized(),
    (0.0 * SST + ET).normalized(),
    SST + SST,
    PATHS + 2.0 * SST,
]


@pytest.mark.parametrize("kernel", SUMS, ids=repr)
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_models_of_sums_score_as_matrices_do(kernel, n_outputs):
    rng = np.random.default_rng(0)
    trees, others = X[:4], [*X, "(S (A a) (B b) (C c))", "(Z z)"]
    alphas = rng.normal(size=(4, n_outputs))
    model = tk.DagModel(kernel, n_outputs)
    model.add(trees, alphas)
    model.intercept = 0.25
    quiet = {"invalid": "ignore"}
    with np.errstate(**quiet):
        K = quietly(kernel, others, trees)
    expected = K @ alphas + 0.25
    found = quietly(model.decision_function, others).reshape(expected.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
    shares = model.contributions(others[0]).reshape(-1, n_outputs).sum(axis=0)
    np.testing.assert_allclose(shares, expected[0] - 0.25, rtol=1e-10)
    file = io.BytesIO()
    np.savez(file, **model.to_arrays())
    file.seek(0)
    for again in (
        tk.DagModel.from_arrays(**np.load(file)),
        pickle.loads(pickle.dumps(model)),
    ):
        assert again.kernel == kernel
        np.testing.assert_array_equal(
            quietly(again.decision_function, others),
            quietly(model.decision_function, others),
        )
    assert repr(kernel) in repr(model)
    model.add(trees, -alphas)
    np.testing.assert_allclose(
        quietly(model.decision_function, others), 0.25, atol=1e-12
    )


@pytest.mark.parametrize("kernel", SUMS, ids=repr)
def test_solvers_of_sums_agree_with_the_matrix(kernel):
    forest = [f"(S (A a{i % 3}) (B{i % 5} b) (C c{i % 7}))" for i in range(60)]
    labels = np.array([i % 3 == 0 or i % 7 == 1 for i in range(60)])
    scores = [
        tk.TreeSVC(kernel, C=2, solver=solver, tol=1e-6)
        .fit(forest, labels)
        .decision_function(forest)
        for solver in ("matrix", "model")
    ]
    np.testing.assert_allclose(*scores, atol=1e-3)


@pytest.mark.parametrize("kernel", [SST * PT, tk.kernels.Gaussian(SST), SST**2])
@pytest.mark.parametrize("labels", [Y, np.arange(len(X)) % 3], ids=["two", "three"])
@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_machines_without_graphs_are_those_of_the_matrix(kernel, labels, multi_class):
    svc = tk.TreeSVC(kernel, multi_class=multi_class).fit(X, labels)
    if multi_class == "ovo":
        plain = SVC(kernel="precomputed").fit(kernel(X), labels)
        expected = plain.decision_function(kernel(X[:4], X))
        np.testing.assert_allclose(svc.decision_function(X[:4]), expected, atol=1e-8)
    again = pickle.loads(pickle.dumps(svc))
    np.testing.assert_array_equal(again.predict(X), svc.predict(X))
    name = type(kernel).__name__
    for explain in (svc.top_fragments, lambda: svc.contributions(X[0])):
        with pytest.raises(ValueError, match=f"{name} does not support"):
            explain()
    model = tk.TreeSVC(kernel, solver="model", multi_class=multi_class, tol=1e-8)
    expected = tk.TreeSVC(kernel, solver="matrix", multi_class=multi_class, tol=1e-8)
    np.testing.assert_allclose(
        model.fit(X, labels)._scores(X), expected.fit(X, labels)._scores(X), atol=1e-5
    )


def test_an_operator_of_a_sum_is_its_matrix():
    k = (SST + PT).normalized()
    vector = np.arange(len(X)) - 5.0
    np.testing.assert_allclose(k.operator(X) @ vector, k(X) @ vector, atol=1e-10)


@pytest.mark.parametrize(
    "kernel",
    [SST * PT, SST**2, tk.kernels.Gaussian(SST), SST**2 + SST, (SST * PT).normalized()],
)
def test_models_of_other_compositions_keep_support_trees(kernel):
    K = kernel(X)
    alphas = np.random.default_rng(1).normal(size=(len(X), 2))
    model = tk.DagModel.from_dual(kernel, X, alphas, [0.5, -1.0])
    assert not model.is_graph
    np.testing.assert_allclose(
        model.decision_function(X), K @ alphas + [0.5, -1.0], rtol=1e-9
    )
    file = io.BytesIO()
    np.savez(file, **model.to_arrays())
    file.seek(0)
    for again in (
        tk.DagModel.from_arrays(**np.load(file)),
        pickle.loads(pickle.dumps(model)),
        copy.deepcopy(model),
    ):
        assert again.kernel == kernel
        np.testing.assert_array_equal(
            again.decision_function(X), model.decision_function(X)
        )
        # The same trees once more: no tree more.
        again.merge(model, -2.0)
        assert again.n_nodes == model.n_nodes
        np.testing.assert_allclose(
            again.decision_function(X), -model.decision_function(X), rtol=1e-9
        )
    targets = np.arange(len(X)) / 4
    ridge = tk.TreeRidge(kernel, 0.5, fit_intercept=False, tol=1e-10).fit(X, targets)
    dual = np.linalg.solve(K + 0.5 * np.eye(len(X)), targets)
    np.testing.assert_allclose(ridge.predict(X), K @ dual, rtol=1e-6)
    np.testing.assert_allclose(kernel.operator(X) @ targets, K @ targets, rtol=1e-9)
    with pytest.raises(
        ValueError, match=f"{type(kernel).__name__} does not support distributed trees"
    ):
        tk.DistributedTrees(kernel)


def test_a_model_of_a_sum_that_is_interrupted_is_as_before():
    model = tk.DagModel(SST + PT)
    model.add(X[:2], [1.0, -1.0])
    before = model.decision_function(X)

    def stop(done, total):
        raise RuntimeError

    with pytest.raises(RuntimeError):
        model.add(X * 100, np.ones(100 * len(X)), progress=stop)
    np.testing.assert_array_equal(model.decision_function(X), before)
    with pytest.raises(ValueError, match="does not support fragments with weights"):
        model.top_fragments()
    assert (0.5 * SST + SST).get_params()
    one = tk.DagModel(0.5 * SST)
    one.add(X[:1], [1.0])
    assert one.top_fragments(1)[0].weight == pytest.approx(0.5 * 0.4)
