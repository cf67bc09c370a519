"""DAG models and perceptrons as Python objects: what they are told, stored and asked."""

from __future__ import annotations

import copy
import io
import os
import pickle
import signal
import threading

import numpy as np
import pytest
from dag_oracle import mistakes

import treekernel_rs as tk

TREES = ["(S (A a) (B b))", "(S (A a) (B c))", "(S (A z) (C c))", "(A a)", "(S (B b))"]
KERNELS = [
    tk.SubtreeKernel(0.4, leaf_weight=0.3),
    tk.SubsetTreeKernel(0.4, normalize=True),
    tk.PartialTreeKernel(0.3, 0.5, leaf_factor=2.0, max_children=3),
    tk.ElasticTreeKernel(0.4, normalize=True),
]
every_kernel = pytest.mark.parametrize("k", KERNELS, ids=repr)


def learned(k, vote, **options):
    p = tk.Perceptron(k, vote, **options)
    X = np.arange(10.0).reshape(5, 2) / 7 if "vectors" in options else None
    p.partial_fit(TREES, [1, -1, -1, 1, 1], X)
    return p, X


@every_kernel
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_models_come_back_from_arrays_and_pickles(k, n_outputs):
    model = tk.DagModel(k, n_outputs)
    alphas = np.linspace(-1, 2, 5 * n_outputs).reshape(5, n_outputs)
    model.add(TREES, alphas)
    model.intercept = 0.5
    file = io.BytesIO()
    np.savez(file, **model.to_arrays())
    file.seek(0)
    with np.load(file) as arrays:
        stored = tk.DagModel.from_arrays(**arrays)
    for again in (stored, pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert repr(again) == repr(model)
        assert again.kernel == k
        np.testing.assert_array_equal(again.intercept, model.intercept)
        np.testing.assert_array_equal(
            again.decision_function(TREES), model.decision_function(TREES)
        )
        again.add(TREES[:1], alphas[:1])
        assert again.n_trees == model.n_trees + 1


@every_kernel
@pytest.mark.parametrize("vote", ["last", "average", "vote"])
@pytest.mark.parametrize("vectors", [None, tk.kernels.VectorPolynomial(2, coef0=0.5)])
def test_perceptrons_come_back_from_arrays_and_pickles(k, vote, vectors):
    options = {} if vectors is None else {"vectors": vectors, "mix": 0.25}
    p, X = learned(k, vote, **options)
    file = io.BytesIO()
    np.savez(file, **p.to_arrays())
    file.seek(0)
    with np.load(file) as arrays:
        stored = tk.Perceptron.from_arrays(**arrays)
    for again in (stored, pickle.loads(pickle.dumps(p))):
        assert (repr(again), again.mix, again.vectors) == (repr(p), p.mix, vectors)
        np.testing.assert_array_equal(
            again.decision_function(TREES, X), p.decision_function(TREES, X)
        )
        assert mistakes(again, TREES, [1] * 5, X) == mistakes(
            copy.deepcopy(p), TREES, [1] * 5, X
        )


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@every_kernel
def test_models_of_svms_have_their_decision_function(k, n_classes):
    svm = pytest.importorskip("sklearn.svm")
    rng = np.random.default_rng(1)
    labels = "abcd"

    def tree(depth):
        below = "".join(
            tree(depth - 1) for _ in range(rng.integers(0, 4) * (depth > 0))
        )
        return f"({labels[rng.integers(4)]}{below})"

    trees = [f"(S {tree(2)} {tree(1)})" for _ in range(120)]
    y = np.array([(t.count("a") + t.count("(b(")) % n_classes for t in trees])
    gram, rest = k(trees[:80]), k(trees[80:], trees[:80])
    svc = svm.SVC(kernel="precomputed", decision_function_shape="ovo", C=2.0)
    svc.fit(gram, y[:80])
    model = tk.DagModel.from_svc(k, trees[:80], svc)
    wanted = svc.decision_function(rest)
    np.testing.assert_allclose(
        model.decision_function(trees[80:]), wanted, rtol=0, atol=1e-9
    )

    svr = svm.SVR(kernel="precomputed").fit(gram, y[:80])
    dual = np.zeros(80)
    dual[svr.support_] = svr.dual_coef_[0]
    model = tk.DagModel.from_dual(k, trees[:80], dual, svr.intercept_[0])
    np.testing.assert_allclose(
        model.decision_function(trees[80:]), svr.predict(rest), atol=1e-9
    )
    assert model.n_trees == len(svr.support_)
    of_svr = tk.DagModel.from_svc(k, trees[:80], svr)
    np.testing.assert_array_equal(
        of_svr.decision_function(trees), model.decision_function(trees)
    )
    one = svm.OneClassSVM(kernel="precomputed", nu=0.3).fit(gram)
    model = tk.DagModel.from_svc(k, trees[:80], one)
    np.testing.assert_allclose(
        model.decision_function(trees[80:]), one.decision_function(rest), atol=1e-9
    )
    with pytest.raises(
        ValueError, match="the 80 trees that the machine was trained on"
    ):
        tk.DagModel.from_svc(k, trees[:79], svc)


def test_progress_hears_of_all_trees_and_may_end_the_pass():
    trees, y = TREES * 2_000, [1, -1, -1, 1, 1] * 2_000
    p = tk.Perceptron(tk.SubsetTreeKernel(0.4))
    calls = []
    p.partial_fit(trees, y, progress=lambda *call: calls.append(call))
    assert calls[-1] == (10_000, 10_000)
    assert p.n_examples == 10_000

    def stop(done, total):
        raise LookupError(done)

    with pytest.raises(LookupError) as raised:
        p.partial_fit(trees, y, progress=stop)
    assert p.n_examples == 10_000 + raised.value.args[0]
    p.decision_function(TREES)


def test_a_model_that_learns_does_not_answer_its_own_progress_callable():
    p = tk.Perceptron(tk.SubsetTreeKernel(0.4))

    def ask(done, total):
        p.decision_function(TREES)

    with pytest.raises(RuntimeError, match="a call from within another call on it"):
        p.partial_fit(TREES * 100, [1, -1, -1, 1, 1] * 100, progress=ask)
    assert p.n_examples >= 1


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_ctrl_c_ends_a_pass_and_leaves_what_was_learned():
    trees = [f"(S (A w{i % 977}) (B w{i % 1009}) (C w{i % 7}))" for i in range(400_000)]
    forest = tk.Forest.from_brackets(trees)
    y = np.where(np.random.default_rng(0).random(len(trees)) < 0.5, 1, -1)
    p = tk.Perceptron(tk.SubsetTreeKernel(0.4), "vote")
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()

    def keep_learning():
        while True:
            p.partial_fit(forest, y)

    with pytest.raises(KeyboardInterrupt):
        keep_learning()
    assert p.n_examples > 0
    assert p.decision_function(TREES).shape == (5,)


def test_wrong_arguments_are_named():
    k = tk.SubsetTreeKernel()
    cases = [
        (lambda: tk.Perceptron(k, "votes"), "predict_with must be"),
        (lambda: tk.Perceptron(k, mix=0.5), "mix must be 1 where"),
        (
            lambda: tk.Perceptron(k, vectors=tk.kernels.VectorPolynomial(), mix=2),
            "mix must be",
        ),
        (lambda: tk.Perceptron(k, vectors=3), "vectors must be"),
        (lambda: tk.DagModel(k, 0), "n_outputs must be"),
        (lambda: tk.DagModel(k).add(TREES, [1.0]), "alphas must be of shape"),
        (lambda: tk.DagModel(k).add(["(S a)"], ["a"]), "alphas must be numbers"),
        (lambda: tk.kernels.VectorPolynomial(0), "degree must be"),
        (lambda: tk.kernels.VectorPolynomial(coef0=-1), "coef0 must be"),
        (lambda: tk.kernels.VectorPolynomial(gamma=0), "gamma must be"),
        (
            lambda: tk.Perceptron(k).partial_fit(TREES, [1] * 5, np.ones((5, 2))),
            "X_vec must",
        ),
        (
            lambda: tk.Perceptron(k, vectors=tk.kernels.VectorPolynomial()).partial_fit(
                TREES, [1] * 5
            ),
            "X_vec must",
        ),
        (
            lambda: learned(k, "last", vectors=tk.kernels.VectorPolynomial(), mix=0.5)[
                0
            ].decision_function(TREES, np.ones((4, 2))),
            "X_vec must be of shape",
        ),
        (lambda: tk.DagModel.from_arrays(), "kernel: expected an array"),
    ]
    for call, message in cases:
        with pytest.raises(ValueError, match=message):
            call()
    arrays = tk.DagModel(k).to_arrays()
    for name in ("labels", "sums", "counts"):
        with pytest.raises(ValueError, match=name):
            tk.DagModel.from_arrays(**{n: a for n, a in arrays.items() if n != name})
    arrays["kernel"] = np.array("__import__('os').getcwd()")
    with pytest.raises(ValueError, match="kernel: expected one of"):
        tk.DagModel.from_arrays(**arrays)


def test_trees_without_a_kernel_are_warned_of():
    model = tk.DagModel(tk.SubsetTreeKernel(0.4, normalize=True))
    with pytest.warns(RuntimeWarning, match="of 1 of the trees of X"):
        model.add(["(x)", "(S a)"], [1.0, 1.0])
    with pytest.warns(RuntimeWarning, match="of 1 of the trees of X"):
        np.testing.assert_allclose(model.decision_function(["(x)", "(S a)"]), [0, 1])
