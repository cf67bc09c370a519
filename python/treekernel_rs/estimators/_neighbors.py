"""Nearest trees: their graph, and votes and means of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted

from treekernel_rs._arguments import check_flag
from treekernel_rs._strangers import warn_of_strangers
from treekernel_rs.estimators._base import Predictor, TreeTransformer
from treekernel_rs.estimators._inputs import as_trees, trees_to_fit
from treekernel_rs.tree_kernels import TreeKernel

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from treekernel_rs.estimators._inputs import TreesX


class TreeKNeighborsTransformer(TreeTransformer):
    """The graph of nearest trees, for estimators that take precomputed distances.

    Like scikit-learn's `KNeighborsTransformer`, with the distance sqrt(2 - 2 k(a, b)), where
    k is the normalised kernel. Use the graph with estimators that accept
    ``metric="precomputed"``: k-nearest neighbours, TSNE, DBSCAN; with ``symmetric=True``
    also HDBSCAN and UMAP, which refuse a graph with links in one direction.

    Parameters
    ----------
    kernel : TreeKernel, optional
        By default ``SubsetTreeKernel(0.4)``. It is always normalised, whatever its
        `normalize`.
    n_neighbors : int, default 10
        How many other trees of the training set each tree is linked to.
    symmetric : bool, default False
        Whether `fit_transform` links two trees in both directions if one of them is among
        the nearest of the other. A row then has `n_neighbors` links or more.
    n_jobs : int, optional
        Threads; by default and for -1 all cores the process may use.

    Attributes
    ----------
    forest_ : Forest
        The trees of the training set.
    kernel_ : TreeKernel
        The kernel at the time of `fit`, normalised.
    index_ : TreeIndex
        The index that finds neighbours; built by its first query.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> X = ["(S (A a) (B b))", "(S (A a) (C c))", "(S (B b) (B b))"]
    >>> graph = tk.TreeKNeighborsTransformer(n_neighbors=1).fit_transform(X)
    >>> graph.toarray().round(2)
    array([[0.  , 0.  , 1.08],
           [1.22, 0.  , 0.  ],
           [1.08, 0.  , 0.  ]])
    >>> graph = tk.TreeKNeighborsTransformer(n_neighbors=1, symmetric=True)
    >>> graph.fit_transform(X).toarray().round(2)
    array([[0.  , 1.22, 1.08],
           [1.22, 0.  , 0.  ],
           [1.08, 0.  , 0.  ]])
    """

    def __init__(
        self,
        kernel: TreeKernel | None = None,
        n_neighbors: int = 10,
        *,
        symmetric: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.n_neighbors = n_neighbors
        self.symmetric = symmetric
        self.n_jobs = n_jobs

    def fit(self, X: TreesX, y: object = None) -> Self:
        """Keep the trees.

        Parameters
        ----------
        X : Forest or sequence of str
            The training set.
        y : ignored

        Returns
        -------
        self

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> len(tk.TreeKNeighborsTransformer().fit(["(A a)", "(B b)"]).forest_)
        2
        """
        kernel = self._kernel().replace(normalize=True)
        self.index_ = kernel.index(trees_to_fit(X))
        self.forest_ = self.index_.forest
        self.kernel_ = kernel
        return self

    def transform(self, X: TreesX) -> Any:
        """Link trees to the nearest of the training set, one more than `n_neighbors`.

        The additional neighbour is for trees of the training set, whose nearest tree is
        the tree itself.

        Parameters
        ----------
        X : Forest or sequence of str
            The trees.

        Returns
        -------
        csr_matrix of float64, shape (len(X), len(forest_))
            Distances, in each row ascending.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> graph = tk.TreeKNeighborsTransformer(n_neighbors=1).fit(["(A a)", "(B b)"])
        >>> graph.transform(["(A a)"]).toarray().round(2)
        array([[0.  , 1.41]])
        """
        check_is_fitted(self)
        found = self.index_.top_k(
            as_trees(X), k=self.n_neighbors + 1, n_jobs=self.n_jobs
        )
        warn_of_strangers(found.values)
        return self._graph(*found)

    def fit_transform(self, X: TreesX, y: object = None) -> Any:
        """Keep the trees and link each to itself and the nearest others.

        Parameters
        ----------
        X : Forest or sequence of str
            The training set.
        y : ignored

        Returns
        -------
        csr_matrix of float64, shape (len(X), len(X))
            Distances, in each row ascending; first that to itself, 0.
        """
        symmetric = check_flag(self.symmetric, "symmetric")
        self.fit(X)
        found = self.index_.top_k(k=self.n_neighbors, n_jobs=self.n_jobs)
        own = np.arange(len(self.forest_))[:, None]
        indices = np.hstack([own, found.indices])
        graph = self._graph(indices, np.hstack([np.ones_like(own), found.values]))
        return _both_ways(graph) if symmetric else graph

    def _graph(self, indices: NDArray[Any], values: NDArray[Any]) -> Any:
        n, k = indices.shape
        distances = np.sqrt(np.maximum(2.0 - 2.0 * values, 0.0))
        starts = np.arange(0, n * k + 1, k)
        shape = (n, len(self.forest_))
        return csr_matrix((distances.ravel(), indices.ravel(), starts), shape=shape)

    @property
    def _n_features_out(self) -> int:
        return len(self.forest_)


#: The distance of equal trees in a symmetric graph: below that of any others, which is 1e-8
#: or more in floats. SciPy's spanning trees, and so HDBSCAN, lose links of distance 0.
_EQUAL = 1e-9


def _both_ways(graph: Any) -> Any:
    """Link in both directions what is linked in one, and nothing but itself at distance 0."""
    n = graph.shape[0]
    rows = np.repeat(np.arange(n), np.diff(graph.indptr))
    low, high = np.minimum(rows, graph.indices), np.maximum(rows, graph.indices)
    # A pair that is found twice may differ in the last bits: take the smaller distance.
    order = np.lexsort((graph.data, high, low))
    _, first = np.unique(low[order] * n + high[order], return_index=True)
    low, high, distances = (a[order][first] for a in (low, high, graph.data))
    is_link = low != high
    distances[is_link] = np.maximum(distances[is_link], _EQUAL)
    rows = np.concatenate([low, high[is_link]])
    columns = np.concatenate([high, low[is_link]])
    distances = np.concatenate([distances, distances[is_link]])
    order = np.lexsort((columns, distances, rows))
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))])
    return csr_matrix((distances[order], columns[order], starts), shape=(n, n))


class _TreeKNeighbors(Predictor):
    """Votes or means of the nearest trees, by a scikit-learn estimator over their graph."""

    _over_graph: type[Any]

    def __init__(
        self,
        kernel: TreeKernel | None = None,
        n_neighbors: int = 5,
        *,
        weights: str = "uniform",
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.n_neighbors = n_neighbors
        self.weights = weights
        self.n_jobs = n_jobs

    def fit(self, X: TreesX, y: ArrayLike) -> Self:
        """Keep the trees with their labels or values.

        Parameters
        ----------
        X : Forest or sequence of str
            The training set.
        y : array of shape (len(X),)
            Labels, or values.

        Returns
        -------
        self
        """
        forest = trees_to_fit(X)
        check_consistent_length(forest, y)
        graph = TreeKNeighborsTransformer(
            self.kernel, self.n_neighbors - 1, n_jobs=self.n_jobs
        ).fit(forest)
        # Distances within the training set are never used.
        own = np.arange(len(forest) + 1)
        none = csr_matrix((np.zeros(len(forest)), own[:-1], own))
        self.estimator_ = self._over_graph(
            n_neighbors=self.n_neighbors, weights=self.weights, metric="precomputed"
        ).fit(none, y)
        self.neighbors_, self.kernel_ = graph, graph.kernel_
        return self

    def predict(self, X: TreesX) -> NDArray[Any]:
        """Predict from the nearest trees of the training set.

        Parameters
        ----------
        X : Forest or sequence of str
            The trees.

        Returns
        -------
        ndarray of shape (len(X),)
        """
        check_is_fitted(self)
        found: NDArray[Any] = self.estimator_.predict(self.neighbors_.transform(X))
        return found


class TreeKNeighborsClassifier(ClassifierMixin, _TreeKNeighbors):
    """Classify trees by a vote of the nearest trees of the training set.

    Parameters
    ----------
    kernel : TreeKernel, optional
        By default ``SubsetTreeKernel(0.4)``. It is always normalised, whatever its
        `normalize`.
    n_neighbors : int, default 5
        How many trees vote.
    weights : {"uniform", "distance"}
        "distance" gives nearer trees more weight. The distance is sqrt(2 - 2 k(a, b)).
    n_jobs : int, optional
        Threads; by default and for -1 all cores the process may use.

    Attributes
    ----------
    neighbors_ : TreeKNeighborsTransformer
        Finds the neighbours.
    kernel_ : TreeKernel
        The kernel at the time of `fit`, normalised.
    estimator_ : KNeighborsClassifier
        Counts the votes, over their graph.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> X = ["(S (A a) (B b))", "(S (A a) (C c))", "(S (B b) (B b))", "(S (C c) (B b))"]
    >>> model = tk.TreeKNeighborsClassifier(n_neighbors=1).fit(X, [0, 0, 1, 1])
    >>> model.predict(["(S (A a) (D d))", "(S (D d) (B b))"])
    array([0, 1])
    """

    _over_graph = KNeighborsClassifier

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels."""
        check_is_fitted(self, "estimator_")
        classes: NDArray[Any] = self.estimator_.classes_
        return classes

    def predict_proba(self, X: TreesX) -> NDArray[np.float64]:
        """Count the votes.

        Parameters
        ----------
        X : Forest or sequence of str
            The trees.

        Returns
        -------
        ndarray of float64, shape (len(X), number of classes)
            The shares of all votes.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> X, y = ["(A a)", "(B b)", "(A (A a))"], ["a", "b", "a"]
        >>> tk.TreeKNeighborsClassifier(n_neighbors=2).fit(X, y).predict_proba(["(A a)"])
        array([[1., 0.]])
        """
        check_is_fitted(self)
        shares: NDArray[np.float64] = self.estimator_.predict_proba(
            self.neighbors_.transform(X)
        )
        return shares


class TreeKNeighborsRegressor(RegressorMixin, _TreeKNeighbors):
    """Predict the mean of the nearest trees of the training set.

    Parameters
    ----------
    kernel : TreeKernel, optional
        By default ``SubsetTreeKernel(0.4)``. It is always normalised, whatever its
        `normalize`.
    n_neighbors : int, default 5
        How many trees the mean is taken over.
    weights : {"uniform", "distance"}
        "distance" gives nearer trees more weight. The distance is sqrt(2 - 2 k(a, b)).
    n_jobs : int, optional
        Threads; by default and for -1 all cores the process may use.

    Attributes
    ----------
    neighbors_ : TreeKNeighborsTransformer
        Finds the neighbours.
    kernel_ : TreeKernel
        The kernel at the time of `fit`, normalised.
    estimator_ : KNeighborsRegressor
        Takes the mean, over their graph.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> X = ["(S (A a) (B b))", "(S (A a) (C c))", "(S (B b) (B b))"]
    >>> tk.TreeKNeighborsRegressor(n_neighbors=2).fit(X, [1.0, 2.0, 5.0]).predict(X[:1])
    array([3.])
    """

    _over_graph = KNeighborsRegressor
