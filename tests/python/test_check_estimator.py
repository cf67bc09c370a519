"""scikit-learn's own checks of estimators, run on trees.

The checks hand over tables of numbers. A table is checked as any estimator does it, and its
rows are turned into trees: a node for each column, with the number below it and its signs and
sizes around. All that comes after is the estimator's own.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import treekernel_rs as tk

pytest.importorskip("sklearn", reason="estimators need scikit-learn")

from sklearn.utils.estimator_checks import estimator_checks_generator
from sklearn.utils.validation import check_is_fitted, validate_data


def tree_of(row: np.ndarray) -> str:
    """A row as a tree: equal numbers are equal subtrees, near ones share beginnings."""
    parts = []
    for column, value in enumerate(row.tolist()):
        steps = [f"s{value > 0:d}", *(f"b{k}_{round(value * 2**k)}" for k in range(3))]
        text = f"(v {value!r})".replace("(v ", "(v v")
        for step in reversed(steps):
            text = f"({step} {text} end)"
        parts.append(f"(c{column} {text})")
    return f"(row {' '.join(parts)})"


METHODS = (
    "predict",
    "predict_proba",
    "predict_log_proba",
    "decision_function",
    "score_samples",
    "transform",
)


def on_tables(cls: type[Any]) -> type[Any]:
    """The estimator for tables of numbers."""

    class OnTables(cls):
        def fit(self, X: Any, y: Any = None, **options: Any) -> Any:
            if y is None and hasattr(cls, "predict"):
                validate_data(self, X, y)  # says that y is wanted
            checked = validate_data(self, X, **({} if y is None else {"y": y}))
            table, *labels = checked if isinstance(checked, tuple) else (checked,)
            return super().fit(list(map(tree_of, table)), *labels, **options)

        def __sklearn_tags__(self) -> Any:
            tags = super().__sklearn_tags__()
            tags.input_tags.one_d_array = tags.input_tags.string = False
            tags.input_tags.two_d_array = True
            return tags

    # Whether there is a sample_weight is read from there.
    OnTables.fit.__signature__ = inspect.signature(cls.fit)

    def later(name: str) -> Any:
        inner = getattr(cls, name)

        def method(self: Any, X: Any) -> Any:
            if isinstance(X, list) and X and isinstance(X[0], str):
                return inner(self, X)  # from another of these methods
            check_is_fitted(self)
            table = validate_data(self, X, reset=False)
            return inner(self, list(map(tree_of, table)))

        return method

    for name in METHODS:
        if hasattr(cls, name):
            setattr(OnTables, name, later(name))
    if hasattr(cls, "fit_transform"):

        def fit_transform(self: Any, X: Any, y: Any = None) -> Any:
            return self.fit(X, y).transform(X)

        OnTables.fit_transform = fit_transform
    if hasattr(cls, "partial_fit"):

        def partial_fit(
            self: Any, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
        ) -> Any:
            known = hasattr(self, "n_features_in_")
            table, labels = validate_data(self, X, y, reset=not known)
            trees = list(map(tree_of, table))
            return cls.partial_fit(self, trees, labels, classes, sample_weight)

        OnTables.partial_fit = partial_fit
    OnTables.__name__ = OnTables.__qualname__ = cls.__name__
    globals()[cls.__name__] = OnTables  # where pickle looks for it
    return OnTables


SST = tk.SubsetTreeKernel(0.4, normalize=True)
MADE = {
    # By pairs of classes, `predict` and `decision_function` break ties differently, as SVC does.
    "TreeSVC": on_tables(tk.TreeSVC)(SST, multi_class="ovr", tol=1e-10),
    "TreePerceptron": on_tables(tk.TreePerceptron)(SST, random_state=0),
    "TreeLogisticRegression": on_tables(tk.TreeLogisticRegression)(SST, tol=1e-10),
    "TreeSVR": on_tables(tk.TreeSVR)(SST, tol=1e-10),
    "TreeRidge": on_tables(tk.TreeRidge)(SST, tol=1e-10),
    "TreeOneClassSVM": on_tables(tk.TreeOneClassSVM)(SST, tol=1e-10),
    "TreeKNeighborsClassifier": on_tables(tk.TreeKNeighborsClassifier)(SST, 3),
    "TreeKNeighborsRegressor": on_tables(tk.TreeKNeighborsRegressor)(SST, 3),
    "TreeGram": on_tables(tk.TreeGram)(SST),
    "DistributedTreeEncoder": on_tables(tk.DistributedTreeEncoder)(SST, 64),
    "TreeNystroem": on_tables(tk.TreeNystroem)(SST, 3, random_state=0),
    "TreeVectorizer": on_tables(tk.TreeVectorizer)(SST),
    "TreeRanker": on_tables(tk.TreeRanker)(SST, tol=1e-10),
    "TreeKNeighborsTransformer": on_tables(tk.TreeKNeighborsTransformer)(SST, 3),
}


#: Checks that do not apply, and why. (scikit-learn's own linear models are excused from the
#: weights of a perceptron in the same way.)
NOT = {
    ("TreeSVR", "check_dtype_object"): "numbers as objects are refused, by name",
    ("TreeRidge", "check_dtype_object"): "numbers as objects are refused, by name",
    (
        "TreeOneClassSVM",
        "check_sample_weight_equivalence_on_dense_data",
    ): "the sign of a support vector's score, which is 0, is rounding",
    (
        "TreePerceptron",
        "check_sample_weight_equivalence_on_dense_data",
    ): "a repeated tree is learned from again only if it is still on the wrong side",
    **{
        ("DistributedTreeEncoder", f"check_{what}"): "sets n_components to 1"
        for what in (
            "dont_overwrite_parameters",
            "methods_sample_order_invariance",
            "methods_subset_invariance",
            "fit2d_1sample",
            "fit2d_1feature",
            "fit2d_predict1d",
        )
    },
}


def cases() -> Any:
    for name, estimator in MADE.items():
        seen: dict[str, int] = {}
        for made, check in estimator_checks_generator(estimator, legacy=True):
            what = check.func.__name__
            seen[what] = seen.get(what, 0) + 1
            marks = []
            if (name, what) in NOT:
                marks = [pytest.mark.skip(reason=NOT[name, what])]
            case = f"{name}-{what}-{seen[what]}"
            yield pytest.param(made, check, id=case, marks=marks)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("estimator", "check"), list(cases()))
def test_check(estimator: Any, check: Any) -> None:
    check(estimator)
