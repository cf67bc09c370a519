"""Kernels made of kernels: numpy on the parts' matrices, at every entry point."""

from __future__ import annotations

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
from treekernel_rs.kernels import _COMPOSED

X = ["(S (A a) (B b))", "(S (A a) (B c))", "(T (A a) (B b))", "(T (A a) (B c))"] * 5
Y = [0, 0, 1, 1] * 5
ST, SST = tk.SubtreeKernel(0.5, leaf_weight=0.3), tk.SubsetTreeKernel(0.4)
PT, ET = tk.PartialTreeKernel(), tk.ElasticTreeKernel(0.3)
PATHS = tk.SubpathKernel(0.4, normalize=True)

NAMES = ["SumKernel", "ProductKernel", "ScaledKernel", "PowerKernel", "Polynomial"]


def gram_of(kernel, forest, parts=None):
    """Compute a matrix by numpy on the matrices of the parts that are no compositions."""
    if type(kernel).__name__ not in _COMPOSED:
        return kernel(forest)
    of = {
        name: gram_of(part, forest)
        for name, part in kernel.get_params(deep=False).items()
        if name in ("left", "right", "base")
    }
    match kernel:
        case tk.SumKernel():
            K = of["left"] + of["right"]
        case tk.ProductKernel():
            K = of["left"] * of["right"]
        case tk.ScaledKernel():
            K = kernel.factor * of["base"]
        case tk.PowerKernel():
            K = of["base"] ** kernel.degree
        case tk.Polynomial():
            K = (of["base"] + kernel.coef0) ** kernel.degree
        case tk.Gaussian():
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
    return getattr(tk, name)(**parameters, normalize=draw(st.booleans()))


def operations(parts):
    small, number = st.integers(1, 3), st.sampled_from([0.0, 0.5, 2.0])
    flag = st.booleans()
    return st.one_of(
        st.builds(lambda a, b: a + b, parts, parts),
        st.builds(lambda a, b: a * b, parts, parts),
        st.builds(lambda c, k: c * k, number, parts),
        st.builds(lambda k, d: k**d, parts, small),
        st.builds(tk.Normalized, parts),
        st.builds(tk.Polynomial, parts, small, number, normalize=flag),
        st.builds(tk.Gaussian, parts, st.sampled_from([0.01, 0.5]), normalize=flag),
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
    assert eval(repr(kernel), vars(tk)) == kernel
    assert tk.kernel_from_json(kernel.to_json()) == kernel
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
        "Normalized(2 * SubsetTreeKernel(0.4) + SubsetTreeKernel(0.2)) ** 2",
        "Polynomial(SubsetTreeKernel(0.4), degree=2)",
        "Gaussian(SubsetTreeKernel(0.4, normalize=True), gamma=0.5)",
        "Normalized(Polynomial(SubsetTreeKernel(0.4)))",
    ):
        assert repr(eval(text, vars(tk))) == text
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
        (tk.Gaussian(SST, 0), ValueError, "gamma must be finite and above 0, got 0"),
        (tk.Gaussian(SST, np.nan), ValueError, "gamma must be finite and above 0"),
        (
            tk.Polynomial(SST, 2, -1),
            ValueError,
            "coef0 must be finite and not negative",
        ),
        (tk.Polynomial(SST, "2"), TypeError, "degree must be an int"),
        (tk.SumKernel(SST, "k"), TypeError, "right must be a tree kernel, got 'k'"),
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
    k = SST + 2.0 * tk.Normalized(PT)
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
    inner = tk.Normalized(big)
    expected = inner(forest)
    for k, right in (
        (inner + inner, 2 * expected),
        (0.5 * inner, 0.5 * expected),
        (inner**2, expected**2),
        (tk.Normalized(big**2), expected**2),
        (tk.Normalized(big * big), expected**2),
        (tk.Gaussian(inner, 0.5), np.exp(expected - 1)),
        (tk.Gaussian(big), np.eye(3)),
        (tk.Normalized(1e-300 * big), expected),
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
    k = tk.Gaussian(tk.Normalized(SST + PT), 0.5) * PATHS
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
    2.0 * tk.Normalized(ET),
    tk.Normalized(3.0 * SST),
    tk.Normalized(SST) + 0.5 * tk.Normalized(PT) + ST,
    tk.Normalized(SST + 2.0 * PT),
    tk.Normalized(0.0 * SST + ET),
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
    found = quietly(model.score, others).reshape(expected.shape)
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
            quietly(again.score, others), quietly(model.score, others)
        )
    assert repr(kernel) in repr(model)
    model.add(trees, -alphas)
    np.testing.assert_allclose(quietly(model.score, others), 0.25, atol=1e-12)


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


@pytest.mark.parametrize("kernel", [SST * PT, tk.Gaussian(SST), SST**2])
@pytest.mark.parametrize("labels", [Y, np.arange(len(X)) % 3], ids=["two", "three"])
@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_kernels_without_models_are_trained_by_matrix(kernel, labels, multi_class):
    svc = tk.TreeSVC(kernel, multi_class=multi_class).fit(X, labels)
    if multi_class == "ovo":
        plain = SVC(kernel="precomputed").fit(kernel(X), labels)
        expected = plain.decision_function(kernel(X[:4], X))
        np.testing.assert_allclose(svc.decision_function(X[:4]), expected, atol=1e-8)
    again = pickle.loads(pickle.dumps(svc))
    np.testing.assert_array_equal(again.predict(X), svc.predict(X))
    for explain in (svc.top_fragments, lambda: svc.contributions(X[0])):
        with pytest.raises(ValueError, match="which have models"):
            explain()
    with pytest.raises(ValueError, match="which have models"):
        tk.TreeSVC(kernel, solver="model").fit(X, labels)


def test_an_operator_of_a_sum_is_its_matrix():
    k = tk.Normalized(SST + PT)
    vector = np.arange(len(X)) - 5.0
    np.testing.assert_allclose(k.operator(X) @ vector, k(X) @ vector, atol=1e-10)


@pytest.mark.parametrize(
    "kernel",
    [SST * PT, SST**2, tk.Gaussian(SST), SST**2 + SST, tk.Normalized(SST * PT)],
)
def test_models_of_other_compositions_are_refused_by_name(kernel):
    name = type(kernel).__name__
    message = f"kernel must be a SubtreeKernel or .* or SumKernel, which have models, got {name}"
    for make in (
        tk.DagModel,
        lambda k: tk.KernelMachine(k, X, Y),
        lambda k: tk.TreeRidge(k).fit(X, Y),
    ):
        with pytest.raises(ValueError, match=message):
            make(kernel)
    with pytest.raises(ValueError, match=f"which have models, got {name}"):
        tk.Perceptron(kernel)
    with pytest.raises(ValueError, match=f"distributed trees, got {name}"):
        tk.DistributedTrees(kernel)


def test_a_model_of_a_sum_that_is_interrupted_is_as_before():
    model = tk.DagModel(SST + PT)
    model.add(X[:2], [1.0, -1.0])
    before = model.score(X)

    def stop(done, total):
        raise RuntimeError

    with pytest.raises(RuntimeError):
        model.add(X * 100, np.ones(100 * len(X)), progress=stop)
    np.testing.assert_array_equal(model.score(X), before)
    with pytest.raises(ValueError, match="which have fragments with weights"):
        model.top_fragments()
    assert (0.5 * SST + SST).get_params()
    one = tk.DagModel(0.5 * SST)
    one.add(X[:1], [1.0])
    assert one.top_fragments(1)[0].weight == pytest.approx(0.5 * 0.4)
