"""Kernels as parameters: remembered, checked when used, saved as JSON, searched."""

import json
import math
import pickle

import kernel_oracle as ko
import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import treekernel_rs as tk
from treekernel_rs.tree_kernels import TREE_KERNELS

X = ["(S (A a) (B b))", "(S (A a) (B c))", "(T (A a) (B b))", "(T (A a) (B c))"] * 5
Y = [0, 0, 1, 1] * 5
ALL = [
    kernel(normalize=normalize)
    for kernel in TREE_KERNELS.values()
    for normalize in (False, True)
]


@pytest.mark.parametrize("kernel", ALL, ids=repr)
def test_every_kernel_is_saved_as_json_and_read_back(kernel):
    other = kernel.replace(decay=0.1 + 0.2)
    for k in (kernel, other):
        again = tk.kernels.kernel_from_json(k.to_json())
        assert again == k
        assert type(again) is type(k)
        assert eval(repr(again), vars(tk.kernels)) == k
    assert json.loads(kernel.to_json())["version"] == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "SubsetTreeKernel(0.4)",
        "[]",
        "{}",
        "null",
        '{"version": 1, "kernel": "TreeKernel"}',
        '{"version": 1, "kernel": ["SubsetTreeKernel"]}',
        '{"version": 2, "kernel": "SubsetTreeKernel"}',
        '{"kernel": "SubsetTreeKernel"}',
        '{"version": 1, "kernel": "SubsetTreeKernel", "decy": 0.4}',
    ],
)
def test_other_text_is_refused(text):
    with pytest.raises(ValueError, match="kernel: expected"):
        tk.kernels.kernel_from_json(text)
    arrays = tk.DagModel(tk.SubsetTreeKernel()).to_arrays()
    arrays["kernel"] = np.array(text)
    with pytest.raises(ValueError, match="kernel: expected"):
        tk.DagModel.from_arrays(**arrays)


def test_kernels_of_pairs_and_vectors_are_saved_but_no_kernels_of_models():
    for k in (
        tk.PairKernel(0.3, method="max"),
        tk.kernels.VectorPolynomial(2, gamma=0.5),
    ):
        text = k.to_json()
        assert tk.kernels.kernel_from_json(text) == k
        arrays = tk.DagModel(tk.SubsetTreeKernel()).to_arrays()
        arrays["kernel"] = np.array(text)
        with pytest.raises(ValueError, match="kernel: expected one of"):
            tk.DagModel.from_arrays(**arrays)


def test_every_kernel_is_one_of_scikit_learn(recwarn):
    for kernel in ALL:
        for model in (
            make_pipeline(tk.TreeGram(kernel), SVC(kernel="precomputed")),
            SVC(kernel=kernel),
        ):
            assert model.fit(X, Y).predict(X).tolist() == Y, kernel


def test_what_a_kernel_cannot_do_is_refused_with_those_that_can():
    for kernel in (tk.SubpathKernel(), tk.ElasticTreeKernel()):
        name = type(kernel).__name__
        with pytest.raises(ValueError, match=rf"^{name} does not.*SubsetTreeKernel"):
            tk.DistributedTrees(kernel)


@pytest.mark.parametrize("value", [-1, math.nan, "x", [1], None], ids=repr)
def test_any_value_is_remembered_and_refused_in_use(value):
    k = tk.SubsetTreeKernel(value)
    again = pickle.loads(pickle.dumps(k.replace(normalize=True)))
    assert repr(again) == f"SubsetTreeKernel({value!r}, normalize=True)"
    uses = (
        lambda: k(X),
        lambda: k.diag(X),
        lambda: k.rows(X),
        lambda: k.pair(X[0], X[1]),
        lambda: tk.DagModel(k),
        lambda: tk.Perceptron(k),
        lambda: tk.DistributedTrees(k),
    )
    for use in uses:
        with pytest.raises((ValueError, TypeError), match="decay must be"):
            use()
    right = k.set_params(decay=0.4)
    assert right is k
    assert right.pair("(a b)", "(a b)") == 0.4


def test_a_tampered_parameter_is_refused_when_the_model_is_read():
    arrays = tk.DagModel(tk.SubsetTreeKernel(0.25)).to_arrays()
    arrays["kernel"] = np.array(str(arrays["kernel"]).replace("0.25", "-7"))
    with pytest.raises(ValueError, match="decay must be above 0 and at most 1, got -7"):
        tk.DagModel.from_arrays(**arrays)


def test_what_was_made_of_a_kernel_does_not_change_with_it():
    k = tk.SubsetTreeKernel(0.4)
    made = tk.DagModel(k), tk.Perceptron(k), tk.DistributedTrees(k)
    k.set_params(decay=0.9)
    assert [of.kernel.decay for of in made] == [0.4] * 3


@pytest.mark.parametrize(
    "estimator",
    [
        tk.TreeSVC(tk.SubsetTreeKernel()),
        make_pipeline(tk.TreeGram(tk.SubsetTreeKernel()), SVC(kernel="precomputed")),
        SVC(kernel=tk.SubsetTreeKernel()),
    ],
    ids=["TreeSVC", "TreeGram", "SVC"],
)
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning")
@pytest.mark.filterwarnings("ignore:One or more of the test scores are non-finite")
def test_a_bad_value_in_a_grid_fails_that_candidate_only(estimator, whole):
    decays = [0.4, -1.0, 0.2]
    name = next(n for n in estimator.get_params() if n.endswith("kernel__decay"))
    grid = {name: decays}
    if whole:
        kernels = [tk.SubsetTreeKernel(decay) for decay in decays]
        grid = {name.removesuffix("__decay"): kernels}
    search = GridSearchCV(estimator, grid, cv=2).fit(X, Y)
    scores = search.cv_results_["mean_test_score"]
    assert np.isnan(scores).tolist() == [False, True, False]
    assert search.best_score_ == 1.0


def test_every_kernel_is_in_the_tables_of_tests():
    assert set(ko.VECTORS) == set(TREE_KERNELS) <= set(tk.__all__)


def test_minus_one_is_all_threads():
    k = tk.SubsetTreeKernel()
    np.testing.assert_array_equal(k.gram(X, n_jobs=-1), k.gram(X))
    np.testing.assert_array_equal(k.rows(X, n_jobs=-1)[:], k.rows(X)[:])


def test_numbers_of_numpy_are_written_as_those_of_python():
    k = tk.SubsetTreeKernel(np.float64(0.3), normalize=np.True_)
    assert repr(k) == "SubsetTreeKernel(0.3, normalize=True)"
    assert tk.kernels.kernel_from_json(k.to_json()) == k
