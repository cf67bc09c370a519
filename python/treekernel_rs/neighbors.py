"""What is alike: the answers of `top_k`, `join` and `unique`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from treekernel_rs._extras import needs
from treekernel_rs._public import listing

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from treekernel_rs._core import Forest

__all__ = ["JoinResult", "Neighbors", "UniqueTrees"]
__dir__ = listing(__all__)


class Neighbors(NamedTuple):
    """The nearest trees of each tree, by a kernel's `top_k`.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> X = ["(S (A a) (B b))", "(S (A a) (B c))", "(A a)"]
    >>> indices, values = tk.SubsetTreeKernel(0.4).top_k(X, k=1)
    >>> indices.ravel()
    array([1, 0, 0])
    """

    #: Trees, the nearest first, one row for each tree of X.
    indices: NDArray[np.int64]
    #: Their kernels.
    values: NDArray[np.float64]


class UniqueTrees(NamedTuple):
    """The different trees of a forest, by `Forest.unique`.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> unique = tk.Forest(["(S (A a))", "(B b)", "(S (A a))"]).unique()
    >>> unique.trees, unique.counts
    (<Forest: 2 trees, 5 nodes, 5 distinct subtrees>, array([2, 1]))
    """

    #: The different trees, in the order of their first occurrence.
    trees: Forest
    #: Where each of them occurs first.
    indices: NDArray[np.int64]
    #: The number of each tree of the forest among them.
    inverse: NDArray[np.int64]
    #: How often each of them occurs.
    counts: NDArray[np.int64]


class JoinResult(NamedTuple):
    """Pairs of trees with their kernels, by a kernel's `join`, row by row.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> X = ["(S (A a) (B b))", "(S (A a) (B c))", "(A a)"]
    >>> found = tk.SubsetTreeKernel(0.4, normalize=True).join(X, min_similarity=0.5)
    >>> found.rows, found.columns, found.values.round(3)
    (array([0, 0, 1]), array([1, 2, 2]), array([0.606, 0.503, 0.503]))
    >>> found.tocsr().shape
    (3, 3)
    """

    #: Trees of X.
    rows: NDArray[np.int64]
    #: Trees of Y, of X where there is no Y.
    columns: NDArray[np.int64]
    #: Their kernels.
    values: NDArray[np.float64]
    #: The numbers of trees of X and of Y.
    shape: tuple[int, int]

    def tocsr(self) -> Any:
        """Make a sparse matrix. Needs SciPy.

        Returns
        -------
        scipy.sparse.csr_matrix of shape `shape`
            Without Y its upper triangle: ``m + m.T`` is symmetric.
        """
        with needs("tocsr", "SciPy", "sklearn"):
            from scipy.sparse import csr_matrix
        starts = np.searchsorted(self.rows, np.arange(self.shape[0] + 1))
        return csr_matrix((self.values, self.columns, starts), shape=self.shape)
