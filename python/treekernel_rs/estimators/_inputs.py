"""What estimators are given: trees, labels, weights and seeds."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from treekernel_rs._arguments import check_values
from treekernel_rs._core import Forest, as_forest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike, NDArray

    from treekernel_rs._core import Tree

    TreesX = Forest | Iterable[str | bytes] | Iterable[Tree] | Iterable[Forest]


def as_trees(X: Any) -> Forest:
    """Return X as a Forest, one tree per entry."""
    if isinstance(X, Forest):
        return X
    if isinstance(X, str | bytes) or not hasattr(X, "__iter__"):
        msg = (
            "X must be a Forest or a list of bracketed strings, "
            f"got one {type(X).__name__}"
            + (": give its .forest" if hasattr(X, "forest") else "")
        )
        raise TypeError(msg)
    shape: tuple[int, ...] = getattr(X, "shape", (0,))
    if len(shape) == 2 and shape[1] == 1:
        X = np.asarray(X)[:, 0]  # a column, as ColumnTransformer(["tree"]) cuts it out
    elif len(shape) != 1:
        # A table would be read by its column names, an array by its rows.
        msg = (
            "X must be one-dimensional or one column, a bracketed string per tree, "
            f"got an array of shape {shape}"
        )
        raise ValueError(msg)
    # Of a generator of shards, one is held at a time. Nothing is kept for the next call: a
    # cache of parsed lists held hundreds of megabytes, and saved the hundredth part of a fit.
    return as_forest(list(X) if hasattr(X, "__len__") else X)


def trees_to_fit(X: TreesX) -> Forest:
    forest = as_trees(X)
    if len(forest) == 0:
        msg = "X must hold at least one tree to fit, got none"
        raise ValueError(msg)
    return forest


def trees_with_labels(X: TreesX, y: ArrayLike) -> tuple[Forest, NDArray[Any]]:
    forest = trees_to_fit(X)
    labels = column_or_1d(y, warn=True)
    check_consistent_length(forest, labels)
    check_classification_targets(labels)
    return forest, labels


def trees_with_classes(
    X: TreesX, y: ArrayLike
) -> tuple[Forest, NDArray[Any], NDArray[np.int64]]:
    """Return trees, classes, and the class of each tree as an index."""
    forest, labels = trees_with_labels(X, y)
    classes, codes = np.unique(labels, return_inverse=True)
    return forest, check_two_classes(classes), codes


def check_two_classes(classes: NDArray[Any]) -> NDArray[Any]:
    if len(classes) < 2:
        msg = f"y must hold at least two classes, got {len(classes)} class: {classes!r}"
        raise ValueError(msg)
    return classes


def checked_weights(forest: Forest, weights: ArrayLike | None) -> NDArray[np.float64]:
    """Return a weight for each tree, not negative."""
    if weights is None:
        return np.ones(len(forest))
    own: NDArray[np.float64] = np.asarray(column_or_1d(weights), np.float64)
    check_consistent_length(forest, own)
    check_values("sample_weight", own, "finite and not negative", own >= 0)
    if not own.any():
        msg = "sample_weight must be above 0 for some tree, got all zeros"
        raise ValueError(msg)
    return own


def check_positive(name: str, value: Any) -> None:
    if not isinstance(value, Real) or not float(value) > 0:
        msg = f"{name} must be a number above 0, got {value!r}"
        raise ValueError(msg)


def drawn_seed(random_state: int | np.random.RandomState | None) -> int:
    return int(check_random_state(random_state).randint(2**31 - 1))
