"""One list of properties for every estimator, then what each of them promises.

scikit-learn's own checks want a numeric table for X, so the list is written here, after
theirs where a tree can stand for a row.
"""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import (
    GridSearchCV,
    cross_val_predict,
    cross_val_score,
    train_test_split,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.svm import SVC
from sklearn.utils import get_tags, indexable, resample
from sklearn.utils._indexing import _safe_indexing
from sklearn.utils.estimator_checks import check_no_attributes_set_in_init
from sklearn.utils.validation import check_is_fitted

import treekernel_rs as tk
from treekernel_rs import estimators as est
from treekernel_rs.tree_kernels import TreeKernel

SST = tk.SubsetTreeKernel(0.4)


def corpus(n: int, seed: int = 0) -> tuple[list[str], np.ndarray]:
    """Return trees of three classes that differ in a word, with noise around it."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    lines = [
        f"(S (W {['who', 'what', 'where'][c]}) (X (N {rng.choice(list('abcd'))})"
        f" (V {rng.choice(list('efgh'))})) {'(Y (N a))' * rng.integers(0, 3)})"
        for c in y
    ]
    return lines, y


LINES, Y = corpus(60)
FOREST = tk.Forest.from_brackets(LINES)
NEW, Y_NEW = corpus(30, seed=1)
NAMES = np.array(["HUM", "ENTY", "LOC"])
LABELS = {
    "str": NAMES[Y],
    "object": NAMES[Y].astype(object),
    "list": NAMES[Y].tolist(),
    "int": Y * 10 - 7,
    "bool": Y == 1,
    "float": np.where(Y == 1, 1.0, -1.0),
}

ESTIMATORS = {
    "gram": est.TreeGram(SST),
    "gram, partial trees": est.TreeGram(tk.PartialTreeKernel(normalize=True)),
    "gram, subtrees": est.TreeGram(tk.SubtreeKernel(leaf_weight=1.0)),
    "gram, elastic": est.TreeGram(tk.ElasticTreeKernel(0.3), n_jobs=2),
    "encoder": est.DistributedTreeEncoder(SST, n_components=256, random_state=0),
    "encoder, fitted": est.DistributedTreeEncoder(
        SST,
        256,
        prune=True,
        sketch_decay="auto",
        composition="sign",
        random_state=0,
    ),
}
ESTIMATORS |= {
    "svc": est.TreeSVC(SST),
    "svc, one against the rest": est.TreeSVC(SST, 10, multi_class="ovr"),
    "svc, pairs": est.TreeSVC(
        tk.PartialTreeKernel(),
        decision_function_shape="ovo",
        class_weight="balanced",
    ),
    "perceptron": est.TreePerceptron(SST, random_state=0),
    "perceptron, last": est.TreePerceptron(SST, "last", shuffle=False, n_iter=2),
    "perceptron, vote": est.TreePerceptron(SST, "vote", random_state=3),
}
TRANSFORMERS = {n: e for n, e in ESTIMATORS.items() if hasattr(e, "transform")}
CLASSIFIERS = {n: e for n, e in ESTIMATORS.items() if is_classifier(e)}


def over(table: dict) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "estimator", [pytest.param(e, id=name) for name, e in table.items()]
    )


every_estimator = over(ESTIMATORS)
every_transformer = over(TRANSFORMERS)
every_classifier = over(CLASSIFIERS)


def outcome(fitted: object, X: object) -> np.ndarray:
    """Return what an estimator says of trees, in floats."""
    if is_classifier(fitted):
        return fitted.decision_function(X)
    return fitted.transform(X)


def same_parameters(a: object, b: object) -> bool:
    return repr(a.get_params()) == repr(b.get_params()) and repr(a) == repr(b)


# Properties of every estimator


@every_estimator
def test_init_only_remembers(estimator):
    check_no_attributes_set_in_init(type(estimator).__name__, clone(estimator))
    for name, value in estimator.get_params(deep=False).items():
        assert getattr(estimator, name) is value


@every_estimator
def test_a_clone_has_equal_parameters_and_nothing_learnt(estimator):
    fitted = clone(estimator).fit(FOREST, Y)
    twin = clone(fitted)
    assert same_parameters(twin, estimator)
    assert twin.kernel is not estimator.kernel  # the clone's own, to be set
    with pytest.raises(NotFittedError):
        outcome(twin, FOREST)


@every_estimator
def test_repr_evaluates_to_an_equal_estimator(estimator):
    names = {**vars(tk), **vars(est)}
    assert same_parameters(eval(repr(estimator), names), estimator)


@every_estimator
def test_parameters_set_as_they_were_got(estimator):
    twin = clone(estimator).set_params(**estimator.get_params())
    assert same_parameters(twin, estimator)
    decay = twin.set_params(kernel__decay=0.123).get_params()["kernel__decay"]
    assert decay == twin.kernel.decay == 0.123
    assert estimator.kernel.decay != 0.123
    assert type(twin.kernel) is type(estimator.kernel)


@every_estimator
def test_a_new_kernel_comes_before_its_parameters(estimator):
    twin = clone(estimator)
    twin.set_params(kernel__decay=0.9, kernel=tk.SubtreeKernel(leaf_weight=2.0))
    assert twin.kernel == tk.SubtreeKernel(0.9, leaf_weight=2.0)


@every_estimator
@pytest.mark.parametrize("name", ["decy", "kernel__decy", "kernel__decay__x"])
def test_unknown_parameters_are_named(estimator, name):
    with pytest.raises(ValueError, match=name.split("__")[-1]):
        clone(estimator).set_params(**{name: 1})


@every_estimator
def test_fit_returns_self_and_leaves_parameters_and_input_alone(estimator):
    model = clone(estimator)
    lines, y = list(LINES), Y.copy()
    before = dict(vars(model))
    assert model.fit(lines, y) is model
    assert lines == LINES
    assert np.array_equal(y, Y)
    for name, value in before.items():
        assert getattr(model, name) is value
    learnt = set(vars(model)) - set(before)
    assert all(name.endswith("_") or name.startswith("_") for name in learnt)
    check_is_fitted(model)


@every_estimator
def test_an_unfitted_estimator_says_so(estimator):
    with pytest.raises(NotFittedError):
        outcome(clone(estimator), FOREST)


@every_estimator
def test_fitting_again_forgets(estimator):
    once = clone(estimator).fit(FOREST[:30], Y[:30])
    twice = clone(estimator).fit(NEW, Y_NEW).fit(FOREST[:30], Y[:30])
    assert np.array_equal(outcome(once, NEW), outcome(twice, NEW))


@every_estimator
def test_parameters_changed_after_fit_wait_for_the_next(estimator):
    model = clone(estimator).fit(FOREST, Y)
    before = outcome(model, NEW)
    model.set_params(kernel__decay=0.05)
    assert np.array_equal(outcome(model, NEW), before)
    assert not np.array_equal(outcome(model.fit(FOREST, Y), NEW), before)


def as_tuples(lines: list[str]) -> list:
    return list(tk.Forest.from_brackets(lines))


@every_estimator
@pytest.mark.parametrize(
    "form", [tuple, np.array, pd.Series, tk.Forest.from_brackets, as_tuples]
)
def test_all_forms_of_trees_are_the_same(estimator, form):
    expected = outcome(clone(estimator).fit(LINES, Y), NEW)
    found = outcome(clone(estimator).fit(form(LINES), Y), form(NEW))
    # The order of a forest's nodes is the order of sums.
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@every_estimator
def test_results_do_not_depend_on_threads(estimator):
    one, two = (
        outcome(clone(estimator).set_params(n_jobs=n).fit(FOREST, Y), NEW)
        for n in (1, 2)
    )
    assert np.array_equal(one, two)


@every_estimator
def test_trees_are_judged_one_by_one(estimator):
    model = clone(estimator).fit(FOREST, Y)
    one_by_one = np.concatenate([outcome(model, [line]) for line in NEW[:5]])
    together = outcome(model, NEW)[:5]
    np.testing.assert_allclose(one_by_one, together, rtol=1e-12, atol=1e-12)


@every_estimator
@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        ("(S (A a))", TypeError, "Forest or a list of bracketed strings, got one str"),
        (3, TypeError, "Forest or a list of bracketed strings, got one int"),
        (np.eye(60), ValueError, r"one-dimensional.* shape \(60, 60\)"),
        (pd.DataFrame({"x": LINES, "y": LINES}), ValueError, "one-dimensional"),
        (list(range(60)), TypeError, "tree 0"),
        (["(S (A a))"] * 59 + ["(S"], tk.ParseError, "tree 59"),
        ([], ValueError, "at least one tree"),
    ],
    ids=["str", "int", "matrix", "frame", "numbers", "unclosed", "empty"],
)
def test_wrong_trees_are_named(estimator, X, error, message):
    with pytest.raises(error, match=message):
        clone(estimator).fit(X, Y)


@every_estimator
@pytest.mark.parametrize("kernel", ["sst", tk.SubsetTreeKernel, 0.4, ...])
def test_what_is_no_kernel_is_named(estimator, kernel):
    with pytest.raises(TypeError, match="kernel must be a tree kernel"):
        clone(estimator).set_params(kernel=kernel).fit(FOREST, Y)


@every_estimator
@pytest.mark.parametrize("n_jobs", [0, "2", 1.5])
def test_a_wrong_number_of_threads_is_named(estimator, n_jobs):
    with pytest.raises(ValueError, match="n_jobs must be"):
        outcome(clone(estimator).set_params(n_jobs=n_jobs).fit(FOREST, Y), FOREST)


@every_estimator
def test_tags_say_that_x_is_a_list_of_strings(estimator):
    tags = get_tags(estimator)
    assert tags.input_tags.one_d_array
    assert tags.input_tags.string
    assert not tags.input_tags.two_d_array
    assert not tags.input_tags.pairwise  # a fold takes rows of X, not columns
    assert tags.target_tags.required == is_classifier(estimator)
    assert (tags.transformer_tags is None) == is_classifier(estimator)


def test_fitted_estimators_work_in_another_process():
    """One process for all of them: it is its start that takes time."""
    fitted = {n: clone(e).fit(FOREST, Y) for n, e in ESTIMATORS.items()}
    code = (
        "import pickle, sys\n"
        "fitted, trees = pickle.load(sys.stdin.buffer)\n"
        "said = {n: e.decision_function(trees) if hasattr(e, 'predict')\n"
        "        else e.transform(trees) for n, e in fitted.items()}\n"
        "sys.stdout.buffer.write(pickle.dumps(said))\n"
    )
    blob = pickle.dumps((fitted, FOREST[::3]))
    run = subprocess.run([sys.executable, "-c", code], input=blob, capture_output=True)
    assert run.returncode == 0, run.stderr.decode()
    said = pickle.loads(run.stdout)
    for name, model in fitted.items():
        expected = outcome(model, FOREST[::3])
        np.testing.assert_allclose(said[name], expected, rtol=1e-12, atol=1e-12)


@every_estimator
def test_a_notebook_shows_a_diagram(estimator):
    html = clone(estimator)._repr_html_()
    assert type(estimator).__name__ in html


# Transformers


@every_transformer
def test_fitting_and_transforming_at_once_is_the_same(estimator):
    at_once = clone(estimator).fit_transform(FOREST)
    np.testing.assert_allclose(
        at_once, clone(estimator).fit(FOREST).transform(FOREST), rtol=1e-12, atol=1e-12
    )


@every_transformer
def test_features_have_names(estimator):
    model = clone(estimator).fit(FOREST)
    names = model.get_feature_names_out()
    prefix = type(estimator).__name__.lower()
    assert names.tolist() == [f"{prefix}{i}" for i in range(len(names))]
    assert len(names) == model.transform(NEW).shape[1]
    with pytest.raises(NotFittedError):
        clone(estimator).get_feature_names_out()


@every_transformer
@pytest.mark.parametrize("form", [list, pd.Series, tk.Forest.from_brackets])
def test_output_comes_as_a_data_frame_when_asked_for(estimator, form):
    model = clone(estimator).set_output(transform="pandas")
    frames = [model.fit_transform(form(LINES)), model.transform(form(LINES))]
    for frame in frames:
        assert isinstance(frame, pd.DataFrame)
        assert frame.columns.tolist() == model.get_feature_names_out().tolist()
    plain = model.set_output(transform="default").transform(form(LINES))
    assert np.array_equal(frames[1].to_numpy(), plain)


@every_transformer
def test_no_trees_give_no_rows(estimator):
    model = clone(estimator).fit(FOREST)
    assert model.transform([]).shape == (0, model.transform(NEW).shape[1])


# Classifiers


@every_classifier
@pytest.mark.parametrize("kind", LABELS)
def test_labels_come_back_as_they_were(estimator, kind):
    y = LABELS[kind]
    model = clone(estimator).fit(FOREST, y)
    classes = np.unique(y)
    assert model.classes_.tolist() == classes.tolist()
    said = model.predict(FOREST)
    assert said.dtype == np.asarray(y).dtype
    assert (said == np.asarray(y)).mean() == model.score(FOREST, y) > 0.9
    scores = model.decision_function(NEW)
    assert scores.shape == ((len(NEW),) if len(classes) == 2 else (len(NEW), 3))


@every_classifier
@pytest.mark.parametrize(
    ("y", "message"),
    [
        (["a"] * 60, "at least two classes, got 1"),
        (Y[:-1], "inconsistent numbers of samples"),
        (np.linspace(0, 1, 60), "[Uu]nknown label type"),
        (np.eye(60), "1d array"),
        (None, "y|1d array"),
    ],
    ids=["one class", "short", "continuous", "matrix", "none"],
)
def test_wrong_labels_are_named(estimator, y, message):
    with pytest.raises(ValueError, match=message):
        clone(estimator).fit(FOREST, y)


@every_classifier
def test_what_is_learnt_carries_over(estimator):
    assert clone(estimator).fit(FOREST, Y).score(NEW, Y_NEW) > 0.9


# scikit-learn's machinery


def models() -> dict[str, object]:
    made = {
        "gram": make_pipeline(est.TreeGram(SST), SVC(kernel="precomputed")),
        "encoder": make_pipeline(
            est.DistributedTreeEncoder(n_components=256), RidgeClassifier()
        ),
    }
    return made | {name: CLASSIFIERS[name] for name in ("svc", "perceptron")}


every_model = pytest.mark.parametrize("name", list(models()))
PREFIX = {"gram": "treegram__", "encoder": "distributedtreeencoder__"}


@every_model
@pytest.mark.parametrize("X", [LINES, FOREST, np.array(LINES), pd.Series(LINES)])
def test_cross_validation_takes_trees(name, X):
    model = models()[name]
    scores = cross_val_score(model, X, NAMES[Y], cv=3)
    assert scores.min() > 0.8
    assert cross_val_predict(model, X, NAMES[Y], cv=3).shape == (60,)


@every_model
@pytest.mark.parametrize("X", [LINES, FOREST], ids=["strings", "forest"])
@pytest.mark.parametrize("backend", ["threading", "loky", "sequential"])
def test_grids_run_over_decays_and_kernels(name, X, backend):
    prefix = PREFIX.get(name, "")
    kernels = [tk.SubsetTreeKernel(normalize=True), tk.SubtreeKernel(leaf_weight=1.0)]
    grid = [
        {f"{prefix}kernel__decay": [0.2, 0.6]},
        {f"{prefix}kernel": kernels, f"{prefix}kernel__decay": [0.3]},
    ]
    model = models()[name].set_params(**{f"{prefix}n_jobs": 1})
    search = GridSearchCV(model, grid, cv=2)
    with parallel_config(backend, n_jobs=1 if backend == "sequential" else 2):
        search.fit(X, Y)
    tried = [p.get(f"{prefix}kernel") for p in search.cv_results_["params"]]
    assert tried == [None, None, *kernels]
    assert search.best_score_ > 0.8
    assert search.predict(NEW).shape == (30,)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    best = search.best_estimator_.get_params()[f"{prefix}kernel"]
    assert best.decay == search.best_params_[f"{prefix}kernel__decay"]


def test_lists_that_are_thrown_away_are_not_kept():
    """A cache of 32 parsed lists held up to 128 MB of strings, and their forests."""

    def fit(number):
        lines = [f"(S (A {number}) (B {tree}))" + " " * 5000 for tree in range(100)]
        est.TreeGram(SST).fit(lines)

    fit(0)
    tracemalloc.start()
    try:
        for number in range(1, 9):
            fit(number)
        gc.collect()
        kept, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most > 400_000
    assert kept < 100_000


def test_a_forest_is_indexed_as_an_array_is():
    rows = np.array([5, 3, 3])
    parts = {
        "ints": (_safe_indexing(FOREST, rows), rows),
        "list": (_safe_indexing(FOREST, [1, 2]), [1, 2]),
        "mask": (_safe_indexing(FOREST, Y == 1), Y == 1),
        "slice": (_safe_indexing(FOREST, slice(2, 9)), slice(2, 9)),
    }
    for part, index in parts.values():
        assert isinstance(part, tk.Forest)
        assert part.to_brackets() == np.array(FOREST.to_brackets())[index].tolist()
    assert indexable(FOREST, Y)[0] is FOREST
    train, test, *_ = train_test_split(FOREST, Y, random_state=0)
    assert isinstance(train, tk.Forest)
    assert len(train) + len(test) == len(FOREST)
    assert isinstance(resample(FOREST, random_state=0), tk.Forest)
    assert FOREST.shape == (60,)


def test_a_forest_of_another_length_than_y_is_refused():
    with pytest.raises(ValueError, match="inconsistent numbers"):
        cross_val_score(models()["gram"], FOREST, Y[:-1])


def test_pipelines_join_transformers_and_name_features():
    union = FeatureUnion(
        [
            ("sst", est.TreeGram(SST)),
            ("dtk", est.DistributedTreeEncoder(n_components=64)),
        ]
    ).set_output(transform="pandas")
    frame = union.fit_transform(FOREST)
    assert frame.shape == (60, 60 + 64)
    assert frame.columns[0] == "sst__treegram0"
    assert frame.columns[-1] == "dtk__distributedtreeencoder63"
    model = Pipeline([("features", union), ("ridge", RidgeClassifier())])
    assert cross_val_score(model, FOREST, Y, cv=2).min() > 0.8


# What each of them promises


@pytest.mark.parametrize(
    "kernel", [SST, tk.PartialTreeKernel(normalize=True)], ids=repr
)
def test_tree_gram_is_the_kernel(kernel):
    gram = est.TreeGram(kernel)
    assert np.array_equal(gram.fit_transform(LINES), kernel(FOREST))
    np.testing.assert_allclose(gram.transform(NEW), kernel(NEW, FOREST), rtol=1e-12)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {
            "composition": "sign",
            "fold": "right",
            "random_state": 3,
            "dtype": np.float64,
        },
        {"composition": "convolution", "zero_mean": False, "max_height": 2},
        {"kernel": tk.PartialTreeKernel(normalize=True), "norm": "own"},
        {"sketch_decay": 0.1},
    ],
)
def test_the_encoder_is_distributed_trees(parameters):
    fixed = {"sketch_decay": None, "norm": "exact", "random_state": 0}
    parameters = fixed | parameters
    plain = tk.DistributedTrees(n_components=64, **parameters).encode(LINES)
    encoder = est.DistributedTreeEncoder(n_components=64, **parameters)
    assert np.array_equal(encoder.fit_transform(LINES), plain)


@pytest.mark.filterwarnings("ignore:.*mostly noise")
def test_the_encoder_chooses_norm_and_decay_that_fit_each_other_and_stores_them():
    wide = [
        f"(S{''.join(f' (A{j % 5} a{i * j % 7})' for j in range(60))})"
        for i in range(9)
    ]
    kernel = tk.SubsetTreeKernel(0.8, normalize=True)
    encoder = est.DistributedTreeEncoder(kernel, 256, random_state=0).fit(wide)
    chosen = encoder.encoder_
    assert chosen.norm == "own"
    assert chosen == tk.DistributedTrees(kernel, 256, norm="own").tune(wide)
    assert chosen.sketch_decay < 0.4
    vectors = encoder.transform(wide)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, rtol=1e-5)
    alone = np.concatenate([encoder.transform([tree]) for tree in wide])
    np.testing.assert_array_equal(alone, vectors)
    pruned = est.DistributedTreeEncoder(kernel, 256, prune=True).fit(wide).encoder_
    assert pruned.norm == "exact"
    small = est.DistributedTreeEncoder(kernel, 256).fit(LINES).encoder_
    assert small.sketch_decay is None


def test_the_encoder_learns_paths_and_decay_from_the_training_set():
    encoder = est.DistributedTreeEncoder(
        tk.SubsetTreeKernel(1.0), 64, prune=True, sketch_decay="auto", random_state=0
    ).fit(FOREST)
    by_hand = tk.DistributedTrees(
        tk.SubsetTreeKernel(1.0), 64, sketch_decay="auto"
    ).prune(FOREST)
    assert encoder.encoder_ == by_hand.tune(FOREST)
    twice = encoder.set_params(paths=encoder.encoder_.paths)
    with pytest.raises(ValueError, match="prune must be False"):
        twice.fit(FOREST)


def test_the_encoder_has_the_parameters_of_distributed_trees():
    ours = est.DistributedTreeEncoder().get_params(deep=False)
    theirs = tk.DistributedTrees()._parameters
    assert set(ours) - set(theirs) == {"prune", "n_jobs", "verbose", "errors"}
    assert (ours["kernel"], ours["sketch_decay"], ours["norm"]) == (
        None,
        "auto",
        "auto",
    )
    # An estimator draws a seed for each fit; vectors of two encoders are comparable.
    assert (ours["random_state"], theirs["random_state"]) == (None, 0)
    for name in set(theirs) - {"kernel", "sketch_decay", "norm", "random_state"}:
        own = np.dtype(ours[name]) if name == "dtype" else ours[name]
        assert own == theirs[name]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [({"n_components": 6}, "n_components"), ({"composition": "x"}, "composition")],
)
def test_wrong_encoder_parameters_are_named_at_fit(parameters, message):
    with pytest.raises(ValueError, match=message):
        est.DistributedTreeEncoder(**parameters).fit(FOREST)


# Support vectors


def reference(K: np.ndarray, svc: est.TreeSVC, y: np.ndarray) -> object:
    """Train what TreeSVC stands for, on the matrix."""
    binary = SVC(
        kernel="precomputed",
        C=svc.C,
        tol=svc.tol,
        decision_function_shape=svc.decision_function_shape,
        class_weight=svc.class_weight,
    )
    if svc.multi_class == "ovr" and len(np.unique(y)) > 2:
        return OneVsRestClassifier(binary)
    return binary


@pytest.mark.parametrize(
    "kernel",
    [
        SST,
        tk.SubsetTreeKernel(0.4, leaf_weight=0.4, normalize=True),
        tk.SubtreeKernel(normalize=True),
        tk.PartialTreeKernel(normalize=True),
        tk.ElasticTreeKernel(0.3),
    ],
    ids=repr,
)
@pytest.mark.parametrize("y", [Y, NAMES[Y], Y == 1], ids=["int", "str", "bool"])
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"C": 0.05},
        {"C": 100, "decision_function_shape": "ovo"},
        {"multi_class": "ovr", "C": 3},
        {"class_weight": "balanced", "C": 0.5},
        {"class_weight": "balanced", "multi_class": "ovr"},
    ],
    ids=repr,
)
def test_decisions_are_those_of_svc_on_the_matrix(kernel, y, parameters):
    svc = est.TreeSVC(kernel, **parameters).fit(FOREST[:50], y[:50])
    K = kernel(FOREST[:50])
    expected = reference(K, svc, y).fit(K, y[:50])
    rows = kernel(NEW, FOREST[:50])
    decisions = expected.decision_function(rows)
    np.testing.assert_allclose(svc.decision_function(NEW), decisions, rtol=0, atol=1e-9)
    # Where a decision is a tie but for rounding, either label is right.
    clear = np.abs(decisions.reshape(len(NEW), -1)).min(axis=1) > 1e-9
    assert np.array_equal(svc.predict(NEW)[clear], expected.predict(rows)[clear])
    if isinstance(expected, SVC):
        assert svc.support_.tolist() == sorted(expected.support_.tolist())
        assert svc.n_support_.tolist() == expected.n_support_.tolist()
        assert np.array_equal(svc.intercept_, expected.intercept_)


def test_weights_of_classes_and_trees_multiply():
    rng = np.random.default_rng(0)
    weights = rng.uniform(0.1, 2, 60)
    of_class = {"ENTY": 3.0, "HUM": 0.5, "LOC": 1.0}
    K, rows = SST(FOREST), SST(NEW, FOREST)
    y = NAMES[Y]
    for multi_class in ("ovo", "ovr"):
        svc = est.TreeSVC(SST, 0.1, multi_class=multi_class, class_weight=of_class).fit(
            FOREST, y, sample_weight=weights
        )
        each = weights * np.array([of_class[label] for label in y])
        if multi_class == "ovo":
            expected = SVC(C=0.1, kernel="precomputed").fit(K, y, each)
            decisions = expected.decision_function(rows)
        else:
            decisions = np.column_stack(
                [
                    SVC(C=0.1, kernel="precomputed")
                    .fit(K, y == c, each)
                    .decision_function(rows)
                    for c in svc.classes_
                ]
            )
        np.testing.assert_allclose(svc.decision_function(NEW), decisions, atol=1e-9)


def test_only_support_vectors_are_kept():
    svc = est.TreeSVC(SST, C=10).fit(FOREST[:50], Y[:50])
    assert 0 < len(svc.support_) < 50
    assert svc.dual_coef_.shape == (3, len(svc.support_))
    assert svc.dual_coef_.any(axis=0).all()
    by_hand = SST(NEW, FOREST[svc.support_]) @ svc.dual_coef_.T + svc.intercept_
    pairs = svc.set_params(decision_function_shape="ovo").decision_function(NEW)
    np.testing.assert_allclose(pairs, by_hand, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"C": 0}, "C must be a number above 0"),
        ({"C": "1"}, "C must be a number above 0"),
        ({"C": float("nan")}, "C must be a number above 0"),
        ({"multi_class": "all"}, "multi_class must be 'ovo' or 'ovr', got 'all'"),
        ({"decision_function_shape": 1}, "decision_function_shape must be"),
        ({"tol": -1}, "tol"),
    ],
)
def test_wrong_parameters_of_tree_svc_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        est.TreeSVC(SST, **parameters).fit(FOREST, Y)


# Perceptrons


@pytest.mark.parametrize("y", [Y, Y == 1], ids=["three classes", "two classes"])
@pytest.mark.parametrize("vote", ["average", "last", "vote"])
def test_fit_is_passes_of_partial_fit_in_the_order_of_the_seed(y, vote):
    fitted = est.TreePerceptron(SST, vote, n_iter=3, random_state=7).fit(FOREST, y)
    online = est.TreePerceptron(SST, vote)
    rng = np.random.RandomState(7)
    for _ in range(3):
        order = rng.permutation(60)
        for part in np.array_split(order, 4):
            online.partial_fit(FOREST[part], y[part], classes=np.unique(y))
    assert online.n_mistakes_ == fitted.n_mistakes_ > 0
    np.testing.assert_allclose(
        online.decision_function(NEW), fitted.decision_function(NEW), rtol=1e-9
    )
    other = clone(fitted).set_params(random_state=8).fit(FOREST, y)
    assert not np.array_equal(
        other.decision_function(NEW), fitted.decision_function(NEW)
    )


@pytest.mark.parametrize("y", [Y, Y == 1], ids=["three classes", "two classes"])
def test_the_last_hypothesis_is_the_textbook_perceptron(y):
    K, rows = SST(FOREST), SST(NEW, FOREST)
    wanted = [True] if y.dtype == bool else range(3)
    signs = np.column_stack([np.where(y == c, 1.0, -1.0) for c in wanted])
    alphas = np.zeros_like(signs)
    for i in [*range(60)] * 2:
        alphas[i] += signs[i] * (K[i] @ alphas * signs[i] <= 0)
    model = est.TreePerceptron(SST, "last", shuffle=False, n_iter=2).fit(FOREST, y)
    expected = np.squeeze(rows @ alphas)
    np.testing.assert_allclose(model.decision_function(NEW), expected, rtol=1e-9)


def test_partial_fit_wants_all_classes_once():
    model = est.TreePerceptron(SST)
    with pytest.raises(ValueError, match="classes must be given in the first call"):
        model.partial_fit(FOREST, Y)
    with pytest.raises(ValueError, match="at least two classes"):
        model.partial_fit(FOREST, Y, classes=[1])
    with pytest.raises(ValueError, match=r"labels of classes.*got .*2"):
        model.partial_fit(FOREST, Y, classes=[0, 1])
    model.partial_fit(FOREST[:1], Y[:1], classes=[2, 0, 1]).partial_fit(FOREST, Y)
    assert model.classes_.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="classes must be those of the first call"):
        model.partial_fit(FOREST, Y, classes=[0, 1, 2, 3])
    assert model.fit(FOREST, Y == 1).classes_.tolist() == [False, True]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_iter": 0}, "n_iter must be an int"),
        ({"predict_with": "mean"}, "predict_with must be"),
    ],
)
def test_wrong_parameters_of_tree_perceptron_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        est.TreePerceptron(SST, **parameters).fit(FOREST, Y)


# Kernels as parameters


@pytest.mark.parametrize(
    "kernel",
    [
        SST,
        tk.SubtreeKernel(),
        tk.PartialTreeKernel(max_children=3),
        tk.ElasticTreeKernel(),
    ],
    ids=repr,
)
def test_kernels_are_parameters_and_stay_as_they_are(kernel):
    assert type(kernel)(**kernel.get_params()) == kernel
    twin = clone(kernel)
    assert twin == kernel
    assert twin.set_params(decay=0.7) is twin
    assert (twin.decay, kernel.decay) == (0.7, 0.4)
    other = kernel.replace(decay=0.7, normalize=True)
    assert (other.decay, other.normalize, kernel.decay) == (0.7, True, 0.4)
    assert kernel.replace() == kernel.set_params() == kernel
    with pytest.raises(ValueError, match="no parameter 'decy'; it has decay"):
        kernel.replace(decy=0.7)
    with pytest.raises(ValueError, match="decay must be above 0 and at most 1, got 7"):
        kernel.replace(decay=7).diag(["(a)"])


# Without scikit-learn

NO_SKLEARN = """
import sys
sys.modules["sklearn"] = None  # as if it were not installed
sys.modules["scipy"] = None
import treekernel_rs as tk
from treekernel_rs import *
from treekernel_rs import TreeSVC
import inspect, pydoc
assert SubsetTreeKernel(0.4).replace(decay=0.2).get_params()["decay"] == 0.2
assert "TreeGram" in dir(tk)
for name in ("TreeGram", "DistributedTreeEncoder", "TreeSVC", "TreePerceptron"):
    assert hasattr(tk, name)
    for use in (lambda: getattr(tk, name)(None), lambda: type("Own", (getattr(tk, name),), {})):
        try:
            use()
        except ImportError as error:
            assert f"{name} needs scikit-learn" in str(error), error
            assert "pip install '.[sklearn]' in the clone" in str(error), error
        else:
            raise SystemExit("used")
assert not hasattr(tk, "gaussian_process")
assert {"TreeGram", "SubsetTreeKernel"} <= {name for name, _ in inspect.getmembers(tk)}
assert "SubsetTreeKernel" in pydoc.render_doc(tk)
k, X = tk.SubsetTreeKernel(0.4), ["(A a)", "(B b)"]
for what, use in {
    "operator": lambda: k.operator(X),
    "tocsr": lambda: k.join(X).tocsr(),
    "tune_kernel": lambda: tk.tune_kernel(k, X, [1.0, 2.0]),
    "report": lambda: tk.report(None, X, X, "no.html"),
    "treekernel_rs.gaussian_process": lambda: exec("from treekernel_rs import gaussian_process"),
    "treekernel_rs.estimators": lambda: __import__("treekernel_rs.estimators"),
}.items():
    try:
        use()
    except ImportError as error:
        assert f"{what} needs s" in str(error).lower(), error
        assert "pip install '.[sklearn]' in the clone" in str(error), error
    else:
        raise SystemExit(what)
for name in ("matplotlib", "typst", "dask", "pyarrow"):
    sys.modules[name] = None
for what, extra, use in (
    ("draw_gram needs matplotlib", "viz", lambda: tk.drawing.draw_gram(k(X))),
    (".png needs the package typst", "viz", lambda: tk.draw(X[0]).save("no.png")),
    ("__arrow_c_stream__ needs pyarrow", "arrow", k.join(X).__arrow_c_stream__),
    ("treekernel_rs.dask needs Dask", "dask", lambda: __import__("treekernel_rs.dask")),
):
    try:
        use()
    except ImportError as error:
        assert f"{what}: pip install '.[{extra}]'" in str(error), error
    else:
        raise SystemExit(what)
assert not hasattr(tk, "dask")
try:
    tk.no_such_name
except AttributeError as error:
    assert "no_such_name" in str(error)
assert not [m for m in sys.modules if m.startswith(("sklearn.", "scipy."))]
"""


def test_the_library_works_without_scikit_learn_and_names_the_extra():
    run = subprocess.run([sys.executable, "-c", NO_SKLEARN], capture_output=True)
    assert run.returncode == 0, run.stderr.decode()
    assert run.stdout == b""


def test_importing_the_library_does_not_import_scikit_learn():
    code = "import treekernel_rs, sys; sys.exit('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


SIMILAR = tk.PartialTreeKernel(similarity=tk.kernels.TableSimilarity({("a", "b"): 0.5}))


@pytest.mark.parametrize(
    "estimator",
    [
        est.TreeGram(SST),
        est.TreeKNeighborsTransformer(SST, n_neighbors=2),
        tk.TreeNystroem(SST, n_components=20, random_state=0),
        est.TreeSVC(SIMILAR),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_an_index_is_built_once_and_neither_pickled_nor_cloned(estimator, monkeypatch):
    fitted = clone(estimator).fit(FOREST, Y)
    trees = tk.Forest.from_brackets(NEW)
    use = fitted.predict if isinstance(fitted, est.TreeSVC) else fitted.transform
    holder = fitted.model_ if isinstance(fitted, est.TreeSVC) else fitted.index_
    before, unbuilt = len(pickle.dumps(fitted)), holder.nbytes
    first = use(trees)
    # The index is built, and no kernel indexes the training trees again.
    monkeypatch.setattr(TreeKernel, "gram", None)
    monkeypatch.setattr(TreeKernel, "top_k", None)
    built = holder.nbytes
    assert built > unbuilt
    assert (use(trees) != first).sum() == 0
    assert holder.nbytes == built
    assert len(pickle.dumps(fitted)) == before
    copied = pickle.loads(pickle.dumps(fitted))
    again = copied.predict if isinstance(fitted, est.TreeSVC) else copied.transform
    assert (again(trees) != first).sum() == 0
    assert not hasattr(clone(fitted), "index_")
