"""Trees that have nothing in common with those that an estimator was trained on.

Their kernels are all 0, so that every prediction is the same constant. Nearly always
they were read with other options, or by another reader, than the training trees.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from treekernel_rs.dag import DagModel
from treekernel_rs.perceptron import Perceptron

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from treekernel_rs._core import Forest


def scores_of(
    model: DagModel | Perceptron, forest: Forest, n_jobs: int | None
) -> NDArray[np.float64]:
    """Return the scores of a model; warn if it knows no part of any tree."""
    scores: NDArray[np.float64] = model.decision_function(forest, n_jobs=n_jobs)
    # A score other than the constant says that there is a common part, and costs nothing.
    if len(forest) and (scores == getattr(model, "intercept", 0.0)).all():
        kernels = _with_equal_weights(model, forest, n_jobs)
        warn_of_strangers(kernels, stacklevel=4)
    return scores


def warn_of_strangers(kernels: NDArray[Any], *, stacklevel: int = 3) -> None:
    """Warn if there are kernels of trees with training trees, and all are 0."""
    if kernels.size and not kernels.any():
        msg = (
            "no tree of X shares a label or production that the kernel compares with the "
            "training trees: all kernels are 0, and all predictions the same. Were both "
            "read by the same reader, with the same options?"
        )
        warnings.warn(msg, UserWarning, stacklevel=stacklevel + 1)


def _with_equal_weights(
    model: DagModel | Perceptron, forest: Forest, n_jobs: int | None
) -> NDArray[Any]:
    """Return sums of kernels, which cannot cancel; an empty array for an empty model."""
    tree_part = model.model if isinstance(model, Perceptron) else model
    if not tree_part.n_nodes:
        return np.empty(0)
    arrays = tree_part._arrays()
    for name, values in arrays.items():
        if name.startswith(("weights", "sums", "large_alphas")):
            arrays[name] = np.ones_like(values)
    equal = DagModel._of_arrays(tree_part.kernel, arrays)
    equal.intercept = 0.0
    return equal.decision_function(forest, n_jobs=n_jobs)
