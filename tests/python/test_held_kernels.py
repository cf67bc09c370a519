"""Kernels that objects hold: nothing that others do changes them."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import treekernel_rs as tk

pytest.importorskip("sklearn", reason="estimators need scikit-learn")

from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

X = ["(S (A a) (B b))", "(S (A a) (C c))", "(S (B b) (B b))", "(S (C c) (B b))"]
Y = [0, 0, 1, 1]
DEFAULTED = [
    "DistributedTreeEncoder",
    "TreeKNeighborsClassifier",
    "TreeKNeighborsRegressor",
    "TreeLogisticRegression",
    "TreeKNeighborsTransformer",
    "TreeNystroem",
    "TreeOneClassSVM",
    "TreeRanker",
    "TreeRidge",
    "TreeSVR",
    "TreeVectorizer",
]
#: What makes them small enough for four trees.
SIZES = {"n_neighbors": 2, "n_components": 4}


def made(name: str) -> Any:
    estimator = getattr(tk, name)()
    known = estimator.get_params()
    return estimator.set_params(**{n: v for n, v in SIZES.items() if n in known})


def change(kernel: Any, **parameters: Any) -> None:
    """Change a kernel as an estimator of scikit-learn changes what it holds."""
    SVC(kernel=kernel).set_params(
        **{f"kernel__{name}": value for name, value in parameters.items()}
    )


@pytest.mark.parametrize("name", DEFAULTED)
def test_every_estimator_makes_its_default_kernel_in_fit(name: str) -> None:
    first, second = made(name), made(name)
    assert first.kernel is None
    first.fit(X, Y)
    second.fit(X, Y)
    assert first.kernel is None
    assert first.kernel_ is not second.kernel_
    assert first.kernel_.replace(normalize=False) == tk.SubsetTreeKernel(0.4)
    first.kernel_.set_params(decay=0.9)
    assert second.kernel_.decay == made(name).fit(X, Y).kernel_.decay == 0.4
    assert made(name).set_params(kernel__decay=0.2).fit(X, Y).kernel_.decay == 0.2
    assert clone(first).fit(X, Y).kernel_.decay == 0.4


def holders(kernel: Any) -> dict[str, Any]:
    return {
        "TreeSVC": tk.TreeSVC(kernel),
        "TreeRidge": tk.TreeRidge(kernel),
        "TreeVectorizer": tk.TreeVectorizer(kernel),
        "sum": tk.TreeGram(kernel + kernel),
        "views": tk.TreeGram(tk.kernels.ViewKernel({"a": kernel})),
        "process": tk.gaussian_process.GPTreeKernel(kernel),
        "pipeline": make_pipeline(tk.TreeGram(kernel)),
    }


def decay_of(holder: Any) -> float:
    values = holder.get_params()
    values |= values["kernel"].get_params() if "kernel" in values else {}
    return next(value for name, value in values.items() if name.endswith("decay"))


@pytest.mark.parametrize("name", holders(tk.SubsetTreeKernel()))
def test_what_others_do_to_a_kernel_leaves_its_holders_alone(name: str) -> None:
    kernel = tk.SubsetTreeKernel(0.4)
    holder = holders(kernel)[name]
    shown = repr(holder)
    change(kernel, decay=0.9)
    assert kernel.decay == 0.9
    assert decay_of(holder) == 0.4
    assert repr(holder) == shown
    change(kernel, decay=0.8)
    assert decay_of(holder) == 0.4
    assert decay_of(clone(holder)) == 0.4


@pytest.mark.parametrize("name", holders(tk.SubsetTreeKernel()))
def test_what_a_holder_does_leaves_the_kernel_alone(name: str) -> None:
    kernel = tk.SubsetTreeKernel(0.4)
    holder = holders(kernel)[name]
    path = next(n for n in [*holder.get_params(), "kernel__decay"] if "decay" in n)
    holder.set_params(**{path: 0.7})
    assert kernel == tk.SubsetTreeKernel(0.4)
    assert decay_of(holder) == 0.7


def test_a_holder_returns_the_very_object_as_long_as_nobody_changes_it() -> None:
    """`clone` of scikit-learn demands it."""
    kernel = tk.SubsetTreeKernel(0.4)
    svc = tk.TreeSVC(kernel)
    assert svc.kernel is kernel
    assert vars(svc)["kernel"] is kernel
    assert svc.get_params()["kernel"] is kernel
    other = tk.TreeSVC(tk.SubtreeKernel()).set_params(kernel=kernel)
    assert other.kernel is kernel
    change(kernel, decay=0.9)
    assert svc.kernel is svc.kernel is not other.kernel
    assert svc.kernel == other.kernel == tk.SubsetTreeKernel(0.4)


@pytest.mark.parametrize("twin_of", [copy.copy, copy.deepcopy])
def test_copies_and_pickles_hold_as_well(twin_of: Any) -> None:
    svc = tk.TreeSVC(tk.SubsetTreeKernel(0.4))
    for twin in (twin_of(svc), pickle.loads(pickle.dumps(svc))):
        change(twin.kernel, decay=0.9)
        assert twin.kernel.decay == svc.kernel.decay == 0.4


def test_models_keep_the_kernel_they_were_made_with() -> None:
    """Written with another one, they would answer otherwise when they are read."""
    kernel, forest = tk.SubsetTreeKernel(0.4), tk.Forest.from_brackets(X)
    model = tk.DagModel.from_dual(kernel, forest, np.ones(4))
    perceptron = tk.Perceptron(kernel)
    machine = tk.solve.KernelMachine(kernel, forest, [1.0, 1.0, -1.0, -1.0])
    index, encoder = kernel.index(forest), tk.DistributedTrees(kernel, 64)
    scores = model.decision_function(forest)
    for own in (model, perceptron, machine, index, encoder):
        change(own.kernel, decay=0.9)
        assert own.kernel == kernel, own
        assert "0.4" in repr(own)
    again = tk.DagModel.from_arrays(**model.to_arrays())
    np.testing.assert_array_equal(again.decision_function(forest), scores)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(index)).gram(X), kernel(X))


def test_parameters_set_after_fit_do_not_reach_the_columns() -> None:
    vectorizer = tk.TreeVectorizer().fit(X)
    before = vectorizer.transform(X).toarray()
    vectorizer.set_params(kernel__normalize=True, max_size=1)
    for each in (vectorizer, pickle.loads(pickle.dumps(vectorizer))):
        np.testing.assert_array_equal(each.transform(X).toarray(), before)


@pytest.mark.parametrize(
    "each",
    [
        tk.SubsetTreeKernel(),
        tk.SubsetTreeKernel() + tk.SubpathKernel(),
        tk.kernels.ViewKernel({"a": tk.SubsetTreeKernel()}),
        tk.PairKernel(),
        tk.kernels.VectorPolynomial(),
        tk.kernels.Idf(),
        tk.kernels.VectorSimilarity({"a": [1.0]}),
    ],
    ids=lambda each: type(each).__name__,
)
def test_what_set_params_can_change_is_no_key(each: Any) -> None:
    assert hasattr(each, "set_params")
    with pytest.raises(TypeError, match="unhashable"):
        hash(each)
    with pytest.raises(
        AttributeError, match=r"cannot be set.*replace\(new="
    ) as refusal:
        each.new = 1
    assert "immutable" not in str(refusal.value)


def test_an_encoder_is_immutable_and_a_key() -> None:
    encoder = tk.DistributedTrees(tk.SubsetTreeKernel(0.4), 64)
    assert len({encoder, tk.DistributedTrees(tk.SubsetTreeKernel(0.4), 64)}) == 1
    with pytest.raises(AttributeError, match="attributes cannot be set"):
        encoder.kernel = tk.SubsetTreeKernel(0.9)


def test_searches_over_a_default_kernel_try_its_parameters() -> None:
    search = GridSearchCV(tk.TreeRidge(), {"kernel__decay": [0.2, 0.6]}, cv=2)
    best = search.fit(X, [0.0, 1.0, 2.0, 3.0]).best_estimator_
    assert (
        best.kernel.decay == best.kernel_.decay == search.best_params_["kernel__decay"]
    )


def test_processes_do_not_change_the_kernel_that_they_begin_with() -> None:
    kernel = tk.SubsetTreeKernel(0.9, normalize=True)
    process = GaussianProcessRegressor(
        tk.gaussian_process.GPTreeKernel(kernel), optimizer=None
    )
    process.set_params(kernel__kernel__decay=0.5).fit(X, [2.0, 1.0, -1.0, -1.0])
    assert kernel == tk.SubsetTreeKernel(0.9, normalize=True)


def test_a_part_that_changed_knows_who_holds_the_whole_again():
    part = tk.SubsetTreeKernel(0.4)
    whole = tk.kernels.SumKernel(part, tk.SubtreeKernel(0.4))
    model = tk.TreeRidge(whole)
    part.set_params(decay=0.9)
    assert "0.9" not in repr(model.kernel)
    model.set_params(kernel=whole)
    held = repr(model.kernel)
    part.set_params(decay=0.1)
    assert repr(model.kernel) == held
