"""Arrays that models are given, and that they are stored as."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from treekernel_rs._arguments import check_floats
from treekernel_rs._parameters import read_json
from treekernel_rs._versions import warn_if_other
from treekernel_rs.tree_kernels import COMPOSED_KERNELS, TREE_KERNELS, TreeKernel

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "flattened",
    "kernel_of",
    "model_of",
    "one_vs_one",
    "per_output",
    "shaped",
    "taken",
]


def per_output(
    name: str, values: ArrayLike, n_trees: int, n_outputs: int
) -> NDArray[np.float64]:
    array = check_floats(name, values)
    expected = (n_trees,) if n_outputs == 1 else (n_trees, n_outputs)
    # A column of weights is what `from_dual` has; of labels it would be a slip.
    is_column = name == "alphas" and array.shape == (n_trees, n_outputs)
    if array.shape != expected and not is_column:
        msg = f"{name} must be of shape {expected}, got {array.shape}"
        raise ValueError(msg)
    return array


def shaped(values: NDArray[np.float64], n_outputs: int) -> NDArray[np.float64]:
    return values if n_outputs == 1 else values.reshape(-1, n_outputs)


def one_vs_one(
    dual_coef: NDArray[np.float64], n_support: ArrayLike
) -> NDArray[np.float64]:
    """Separate the pairwise machines of scikit-learn's `SVC`: a column for each pair.

    An `SVC` with k classes is k (k - 1) / 2 machines, one for each pair of classes, in the
    order (0, 1), (0, 2), .. (k - 2, k - 1). Its `dual_coef_` has only k - 1 rows: a support
    tree of class i has its weights against the other classes in these rows, in their order.
    """
    counts = np.asarray(n_support)
    k = len(counts)
    if k == 2:
        return dual_coef.T
    ends = np.cumsum(counts)
    of_class = [slice(end - n, end) for end, n in zip(ends, counts, strict=True)]
    rows = np.zeros((k * (k - 1) // 2, dual_coef.shape[1]))
    pairs = [(i, j) for i in range(k) for j in range(i + 1, k)]
    for row, (i, j) in zip(rows, pairs, strict=True):
        row[of_class[i]] = dual_coef[j - 1, of_class[i]]
        row[of_class[j]] = dual_coef[i, of_class[j]]
    return rows.T


def model_of(
    model: Any,
    arrays: dict[str, Any],
    kernel: TreeKernel,
    version: str | None = None,
) -> Any:
    warn_if_other(version)
    # Arrays that came by the wire may begin at any byte.
    here = {
        name: np.require(value, None, ["ALIGNED"]) for name, value in arrays.items()
    }
    return model._of_arrays(kernel, here)


def kernel_of(arrays: dict[str, Any]) -> TreeKernel:
    return read_json(str(taken(arrays, "kernel")), TREE_KERNELS | COMPOSED_KERNELS)


def taken(arrays: dict[str, Any], name: str) -> Any:
    if name in arrays:
        return arrays.pop(name)
    msg = f"{name}: expected an array, got none"
    raise ValueError(msg)


def flattened(arrays: dict[str, Any], name: str) -> int:
    values = np.asarray(arrays.get(name))
    if values.ndim != 2:
        msg = f"{name} must be of shape (n, n_outputs), got {values.shape}"
        raise ValueError(msg)
    arrays[name] = values.ravel()
    return int(values.shape[1])
