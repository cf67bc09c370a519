"""Feature vectors that come with trees, and their kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from treekernel_rs._arguments import check_floats, check_integer, check_number
from treekernel_rs._parameters import Parameters
from treekernel_rs._public import listing

__all__ = ["VectorPolynomial"]
__dir__ = listing(__all__)


class VectorPolynomial(Parameters):
    """The kernel (gamma <a,b> + coef0)^degree of feature vectors that come with trees.

    Parameters
    ----------
    degree : int, default 3
        At least 1.
    coef0 : float, default 1
        Not negative.
    gamma : float, default 1
        Above 0.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> tk.kernels.VectorPolynomial(2, coef0=0.5)
    VectorPolynomial(2, coef0=0.5)
    """

    degree: int
    coef0: float
    gamma: float

    def __init__(
        self, degree: int = 3, *, coef0: float = 1.0, gamma: float = 1.0
    ) -> None:
        self._remember(degree=degree, coef0=coef0, gamma=gamma)
        self._make()

    def _make(self) -> tuple[int, float, float]:
        degree = check_integer("degree", self.degree)
        coef0, gamma = (
            check_number("coef0", self.coef0),
            check_number("gamma", self.gamma),
        )
        for name, value, right, expected in (
            ("degree", degree, 1 <= degree <= 1000, "from 1 to 1000"),
            ("coef0", coef0, 0 <= coef0 < np.inf, "finite and not negative"),
            ("gamma", gamma, 0 < gamma < np.inf, "finite and above 0"),
        ):
            if not right:
                msg = f"{name} must be {expected}, got {value}"
                raise ValueError(msg)
        return degree, coef0, gamma


def vector_parts(vectors: Any, n_trees: int) -> tuple[Any, ...] | None:
    """Dense values, or what any CSR matrix has; scipy itself is not needed."""
    if vectors is None:
        return None
    if hasattr(vectors, "tocsr"):
        vectors = vectors.tocsr()
    shape = tuple(np.shape(vectors))
    is_sparse = all(hasattr(vectors, part) for part in ("indptr", "indices", "data"))
    if is_sparse:
        shape = tuple(vectors.shape)
    else:
        values = check_floats("X_vec", vectors)
    if len(shape) != 2 or shape[0] != n_trees:
        msg = f"X_vec must be of shape (n_trees, n_features) with {n_trees} trees, "
        raise ValueError(msg + f"got {shape}")
    if not is_sparse:
        return shape[1], values.ravel()
    parts = (np.asarray(part, np.int64) for part in (vectors.indptr, vectors.indices))
    return shape[1], *parts, check_floats("X_vec.data", vectors.data)
