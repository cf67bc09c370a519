"""Manners of scikit-learn: what its users expect of any estimator, on trees."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import treekernel_rs as tk
from treekernel_rs import _arguments
from treekernel_rs._arguments import check_jobs

pytest.importorskip("sklearn", reason="estimators need scikit-learn")

from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import BaggingClassifier, VotingClassifier
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

X = [
    "(S (A a) (B b))",
    "(S (A a) (C c))",
    "(S (A a) (D d))",
    "(S (B b) (B b))",
    "(S (C c) (B b))",
    "(S (D d) (B b))",
]
Y = np.array(["x", "x", "x", "y", "y", "y"])
SST = tk.SubsetTreeKernel(0.4)

ESTIMATORS: dict[str, Any] = {
    "gram": lambda **p: tk.TreeGram(SST, **p),
    "encoder": lambda **p: tk.DistributedTreeEncoder(SST, 64, random_state=0, **p),
    "graph": lambda **p: tk.TreeKNeighborsTransformer(SST, 2, **p),
    "svc": lambda **p: tk.TreeSVC(SST, **p),
    "perceptron": lambda **p: tk.TreePerceptron(SST, random_state=0, **p),
    "neighbours": lambda **p: tk.TreeKNeighborsClassifier(SST, 2, **p),
}


def answer(estimator: Any, trees: Any) -> np.ndarray:
    if hasattr(estimator, "predict"):
        return estimator.predict(trees)
    out = estimator.transform(trees)
    return out.toarray() if hasattr(out, "toarray") else out


# --- Threads -----------------------------------------------------------------------


def threads_of_none() -> int | None:
    return check_jobs(None)


def test_none_is_all_cores_outside_joblib() -> None:
    assert threads_of_none() is None
    assert check_jobs(-1) is None


def test_less_than_minus_one_leaves_cores_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_arguments, "count_cores", lambda: 4)
    assert [check_jobs(n) for n in (-2, -4, -100)] == [3, 1, 1]
    with pytest.raises(ValueError, match="n_jobs must be None or an int other than 0"):
        check_jobs(0)


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_none_is_what_joblib_gives_its_workers(backend: str) -> None:
    import joblib

    inside = joblib.Parallel(2, backend=backend)(
        joblib.delayed(threads_of_none)() for _ in range(2)
    )
    assert inside == [1, 1]


def test_none_is_what_parallel_config_says() -> None:
    import joblib

    with joblib.parallel_config(n_jobs=3, backend="threading"):
        assert threads_of_none() == 3
        assert check_jobs(2) == 2


@pytest.mark.parametrize("name", ESTIMATORS)
def test_minus_one_is_taken(name: str) -> None:
    one, all_cores = (ESTIMATORS[name](n_jobs=n).fit(X, Y) for n in (1, -1))
    np.testing.assert_array_equal(answer(one, X), answer(all_cores, X))


# --- Columns -----------------------------------------------------------------------


def columns() -> dict[str, Any]:
    array = np.array(X)
    found: dict[str, Any] = {"array": array[:, None], "objects": array.astype(object)}
    found["column of objects"] = array.astype(object)[:, None]
    try:
        import pandas as pd
    except ImportError:
        pass
    else:
        found["pandas series"] = pd.Series(X, index=range(5, 5 + len(X)))
        found["pandas frame"] = pd.DataFrame({"tree": X})
    try:
        import polars as pl
    except ImportError:
        pass
    else:
        found["polars series"] = pl.Series("tree", X)
        found["polars frame"] = pl.DataFrame({"tree": X})
    return found


COLUMNS = columns()


@pytest.mark.parametrize("form", COLUMNS)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_one_column_is_a_list_of_trees(name: str, form: str) -> None:
    expected = answer(ESTIMATORS[name]().fit(X, Y), X)
    found = answer(ESTIMATORS[name]().fit(COLUMNS[form], Y), COLUMNS[form])
    np.testing.assert_array_equal(found, expected)


def test_two_columns_are_refused() -> None:
    with pytest.raises(ValueError, match=r"one column.*got an array of shape \(6, 2\)"):
        tk.TreeSVC(SST).fit(np.array([X, X]).T, Y)


@pytest.mark.parametrize("columns", ["tree", ["tree"]], ids=["one", "list"])
def test_column_transformers_join_trees_and_numbers(columns: Any) -> None:
    pd = pytest.importorskip("pandas", reason="column transformers want frames")
    frame = pd.DataFrame({"tree": X, "size": [1.0, 2, 3, 4, 5, 6]})
    encoder = tk.DistributedTreeEncoder(SST, n_components=64)
    both = ColumnTransformer(
        [("trees", encoder, columns), ("numbers", StandardScaler(), ["size"])]
    )
    assert both.fit_transform(frame).shape == (6, 65)
    model = make_pipeline(both, SVC(kernel="linear")).fit(frame, Y)
    assert model.score(frame, Y) == 1.0


#: One policy: what is no tree is refused, by an error that names the first.
MISSING = {
    "None": (None, TypeError, "tree 1: .* got NoneType"),
    "NaN": (float("nan"), TypeError, "tree 1: .* got float"),
    "empty": ("", tk.ParseError, "tree 1, .* got the end of the text"),
    "blanks": ("  ", tk.ParseError, "tree 1, .* got the end of the text"),
}


@pytest.mark.parametrize("kind", MISSING)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_missing_trees_are_refused_by_number(name: str, kind: str) -> None:
    value, error, message = MISSING[kind]
    trees = [X[0], value, *X[2:]]
    for column in (trees, np.array(trees, dtype=object)[:, None]):
        with pytest.raises(error, match=message):
            ESTIMATORS[name]().fit(column, Y)
    fitted = ESTIMATORS[name]().fit(X, Y)
    with pytest.raises(error, match=message):
        answer(fitted, trees)


# --- Meta-estimators ---------------------------------------------------------------


@pytest.mark.parametrize("name", ["svc", "perceptron"])
def test_meta_estimators_take_trees(name: str) -> None:
    estimator = ESTIMATORS[name]()
    y = np.array([0, 0, 1, 1, 2, 2])
    column = np.array(X)[:, None]
    for meta, trees in (
        (OneVsRestClassifier(estimator), X),
        (VotingClassifier([("a", estimator), ("b", ESTIMATORS["neighbours"]())]), X),
        (BaggingClassifier(estimator, 3, max_samples=6, random_state=3), column),
    ):
        labels = y if not isinstance(meta, BaggingClassifier) else (y > 0).astype(int)
        assert meta.fit(trees, labels).predict(trees).shape == (6,)
    assert cross_val_predict(estimator, X, Y, cv=3).shape == (6,)


def test_one_vs_one_goes_over_the_matrix() -> None:
    """`OneVsOneClassifier` wants numbers; it cuts a precomputed matrix as it should."""
    y = np.array([0, 0, 1, 1, 2, 2])
    pairs = OneVsOneClassifier(SVC(kernel="precomputed", C=10))
    model = make_pipeline(tk.TreeGram(SST), pairs).fit(X, y)
    own = tk.TreeSVC(SST, C=10).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), own.predict(X))


def test_trees_beside_numbers_have_vectors_of_their_own() -> None:
    """`TreeGram` gives kernels; beside numbers the trees are vectors with these."""
    pd = pytest.importorskip("pandas", reason="column transformers want frames")
    frame = pd.DataFrame({"tree": X, "size": [1.0, 2, 3, 4, 5, 6]})
    for vectors in (tk.TreeNystroem(SST, 6), tk.TreeVectorizer(SST)):
        both = ColumnTransformer(
            [("trees", vectors, "tree"), ("numbers", StandardScaler(), ["size"])]
        )
        assert (
            make_pipeline(both, SVC(kernel="linear")).fit(frame, Y).score(frame, Y) == 1
        )


VERBOSE = {
    **{name: ESTIMATORS[name] for name in ("gram", "encoder", "svc", "perceptron")},
    "logistic": lambda **p: tk.TreeLogisticRegression(SST, **p),
}


@pytest.mark.parametrize("name", VERBOSE)
def test_verbose_shows_a_bar(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """On standard error, and only where it is asked for."""
    quiet = VERBOSE[name]().fit(X, Y)
    answer(quiet, X)
    assert capsys.readouterr().err == ""
    loud = VERBOSE[name](verbose=True).fit(X, Y)
    answer(loud, X)
    assert capsys.readouterr().err != ""


GRIDS = {
    "TreeSVC": (tk.TreeSVC(SST), "kernel__decay"),
    "SVC(kernel=k)": (SVC(kernel=SST), "kernel__decay"),
    "pipeline": (
        make_pipeline(tk.TreeGram(SST), SVC(kernel="precomputed")),
        "treegram__kernel__decay",
    ),
    "perceptron": (tk.TreePerceptron(SST, random_state=0), "kernel__decay"),
}


@pytest.mark.parametrize("name", GRIDS)
def test_a_bad_value_in_a_grid_fails_its_candidate_only(name: str) -> None:
    from sklearn.exceptions import FitFailedWarning

    estimator, decay = GRIDS[name]
    search = GridSearchCV(estimator, {decay: [0.4, -1.0]}, cv=3, error_score=np.nan)
    trees = tk.Forest.from_brackets(X)
    with (
        pytest.warns(UserWarning, match="scores are non-finite"),
        pytest.warns(FitFailedWarning, match="decay must be above 0"),
    ):
        search.fit(trees, Y)
    assert np.isnan(search.cv_results_["mean_test_score"]).tolist() == [False, True]
    assert search.best_params_ == {decay: 0.4}


def test_a_cached_pipeline_computes_a_matrix_once_for_all_C(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits = []
    fit = tk.TreeGram.fit
    monkeypatch.setattr(
        tk.TreeGram, "fit", lambda self, X, y=None: fits.append(1) or fit(self, X, y)
    )
    gram = tk.TreeGram(SST)
    model = make_pipeline(gram, SVC(kernel="precomputed"), memory=str(tmp_path))
    GridSearchCV(model, {"svc__C": [0.1, 1, 10]}, cv=3, refit=False).fit(X, Y)
    assert len(fits) == 3


# --- Learning on -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "name"),
    [({"kernel__decay": 0.2}, "kernel"), ({"predict_with": "last"}, "predict_with")],
)
def test_partial_fit_refuses_changed_parameters(changes: Any, name: str) -> None:
    clf = tk.TreePerceptron(SST).partial_fit(X, Y, classes=["x", "y"])
    before = pickle.dumps(clf.perceptron_.to_arrays())
    clf.set_params(**changes)
    with pytest.raises(ValueError, match=f"{name} must stay .* fit anew"):
        clf.partial_fit(X, Y)
    assert pickle.dumps(clf.perceptron_.to_arrays()) == before
    assert clf.fit(X, Y).partial_fit(X, Y).predict(X).tolist() == Y.tolist()


def test_one_random_state_is_one_model() -> None:
    y = np.array(["x", "y"] * 3)
    for seed in (0, np.random.RandomState):
        scores = [
            tk.TreePerceptron(
                SST, n_iter=3, random_state=seed if seed == 0 else seed(5)
            )
            .fit(X, y)
            .decision_function(X)
            for _ in range(2)
        ]
        np.testing.assert_array_equal(*scores)


def test_encoders_take_any_random_state() -> None:
    first, again, other, fixed = (
        tk.DistributedTreeEncoder(SST, 64, random_state=state).fit_transform(X)
        for state in (np.random.RandomState(1), np.random.RandomState(1), None, 2**63)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert not np.array_equal(first, fixed)


def test_weights_of_trees_are_repetitions() -> None:
    y, weights = np.array([0, 1, 0, 1, 0, 1]), np.array([1, 2, 1, 3, 1, 1])
    weighted = tk.TreeSVC(SST, C=0.5, tol=1e-8).fit(X, y, sample_weight=weights)
    repeated = tk.TreeSVC(SST, C=0.5, tol=1e-8).fit(
        np.repeat(X, weights), np.repeat(y, weights)
    )
    np.testing.assert_allclose(
        weighted.decision_function(X), repeated.decision_function(X), atol=1e-5
    )


@pytest.mark.parametrize("y", [[0, 1, 0, 1, 0, 1], [0, 1, 2, 0, 1, 2]], ids=str)
@pytest.mark.parametrize("class_weight", [None, {1: 3.0}, "balanced"])
def test_weights_of_a_perceptron_are_those_of_its_mistakes(
    y: list[int], class_weight: Any
) -> None:
    """The plain algorithm over the matrix, one class against the rest."""
    from sklearn.utils.class_weight import compute_sample_weight

    codes, weights = np.array(y), np.array([1, 2, 0.5, 3, 1, 1])
    outputs = [1] if max(y) == 1 else [0, 1, 2]
    K, alphas = SST(X), np.zeros((len(X), len(outputs)))
    for column, own in enumerate(outputs):
        signs = np.where(codes == own, 1.0, -1.0)
        of = signs if class_weight == "balanced" else codes
        costs = weights * compute_sample_weight(class_weight, of)
        for tree in [*range(len(X))] * 3:
            if signs[tree] * (K[tree] @ alphas[:, column]) <= 1e-12:
                alphas[tree, column] += signs[tree] * costs[tree]
    clf = tk.TreePerceptron(
        SST, "last", n_iter=3, shuffle=False, class_weight=class_weight
    ).fit(X, codes, sample_weight=weights)
    expected = (K @ alphas).squeeze()
    np.testing.assert_allclose(clf.decision_function(X), expected, rtol=1e-12)
    if class_weight != "balanced":
        stream = clone(clf).partial_fit(X, codes, np.unique(codes), weights)
        for _ in range(2):
            stream.partial_fit(X, codes, sample_weight=weights)
        np.testing.assert_array_equal(
            stream.decision_function(X), clf.decision_function(X)
        )


def test_trees_of_weight_0_teach_a_perceptron_nothing() -> None:
    clf = tk.TreePerceptron(SST, shuffle=False)
    weights = np.array([1, 1, 0, 1, 0, 1])
    weighted = clone(clf).fit(X, Y, sample_weight=weights).decision_function(X)
    some = weights > 0
    without = clone(clf).fit(np.array(X)[some], Y[some]).decision_function(X)
    np.testing.assert_array_equal(weighted, without)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, 2], r"must be of shape \(6,\), got \(2,\)"),
        ([1, 1, 1, 0, 1, 1], "must be above 0 and finite, got 0"),
        ([1, 1, 1, np.nan, 1, 1], "must be above 0 and finite, got nan"),
    ],
)
def test_wrong_weights_of_a_stream_are_refused(weights: Any, message: str) -> None:
    perceptron = tk.Perceptron(SST)
    with pytest.raises(ValueError, match=message):
        perceptron.partial_fit(X, [1, -1] * 3, sample_weight=weights)
    assert perceptron.n_examples == 0


def test_balanced_weights_need_all_trees_at_once() -> None:
    clf = tk.TreePerceptron(SST, class_weight="balanced")
    with pytest.raises(ValueError, match="class_weight must be None or a dict"):
        clf.partial_fit(X, Y, classes=["x", "y"])


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_add_and_from_dual_take_weights_in_the_same_order(n_outputs: int) -> None:
    weights = np.random.default_rng(0).normal(size=(len(X), n_outputs))
    if n_outputs == 1:
        weights = weights[:, 0]
    added = tk.DagModel(SST, n_outputs)
    added.add(X, weights)
    dual = tk.DagModel.from_dual(SST, X, weights)
    np.testing.assert_array_equal(added.decision_function(X), dual.decision_function(X))


@pytest.mark.parametrize("name", ["svc", "perceptron", "neighbours"])
def test_score_is_accuracy(name: str) -> None:
    estimator = ESTIMATORS[name]().fit(X, Y)
    labels = np.array(["x", "y"] * 3)
    assert estimator.score(X, labels) == np.mean(estimator.predict(X) == labels)
