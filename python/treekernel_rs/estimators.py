"""Estimators for scikit-learn: trees as X, wherever scikit-learn takes an X.

X is a `Forest`, or a list, array, series or column with one bracketed string per tree. None,
NaN and empty strings raise an error that names the first of them: drop these rows, or fill
them with a tree such as ``(none)``. A Forest is better for searches and cross-validation,
because it is parsed only once and is passed to other processes as arrays. Strings are parsed
at every call, which takes a small part of the time of a fit.

Estimators never change the kernel that they are given: ``kernel__decay=0.2`` replaces it by
another one. Later changes to the kernel, such as those of scikit-learn's
``SVC(kernel=k).set_params(kernel__decay=0.2)``, have no effect on them.

Needs the extra ``sklearn``.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import combinations
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from treekernel_rs._arguments import check_flag
from treekernel_rs._core import Forest, as_forest, as_tree
from treekernel_rs._extras import SKLEARN, needs
from treekernel_rs._held import HeldKernel
from treekernel_rs._strangers import scores_of, warn_of_strangers
from treekernel_rs.dag import (
    DagModel,
    Fragment,
    Perceptron,
    _check_all,
    _one_vs_one,
    _shown,
)
from treekernel_rs.distributed import DistributedTrees, _check_errors
from treekernel_rs.pairs import PairKernel
from treekernel_rs.solve import KernelMachine
from treekernel_rs.tree_kernels import SubsetTreeKernel, TreeKernel
from treekernel_rs.views import _OfViews

with needs(__name__, SKLEARN, "sklearn"):
    from scipy.sparse import csr_matrix
    from sklearn.base import (
        BaseEstimator,
        ClassifierMixin,
        ClassNamePrefixFeaturesOutMixin,
        RegressorMixin,
        TransformerMixin,
    )
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
    from sklearn.svm import SVC
    from sklearn.utils import check_consistent_length, check_random_state, column_or_1d
    from sklearn.utils.class_weight import compute_sample_weight
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import ArrayLike, DTypeLike, NDArray

    from treekernel_rs._core import Tree

    class _NoSuchAttribute:
        """What an estimator has, to a type checker, in place of an unknown attribute."""

    AnyKernel = TreeKernel | PairKernel | _OfViews
    TreesX = Forest | Iterable[str | bytes] | Iterable[Tree] | Iterable[Forest]

__all__ = [
    "DistributedTreeEncoder",
    "TreeGram",
    "TreeKNeighborsClassifier",
    "TreeKNeighborsRegressor",
    "TreeKNeighborsTransformer",
    "TreePerceptron",
    "TreeSVC",
]

#: Up to so many trees an `SVC` on the matrix is faster.
_FEW = 6000


class _SetsKernel:
    """The parameter `kernel`, which no other object changes, and which is not changed."""

    kernel = HeldKernel[Any]()

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``kernel__decay=0.2`` replaces the kernel by such a one.

        Parameters
        ----------
        **params : dict
            Parameters of the estimator, and of its kernel after ``kernel__``.

        Returns
        -------
        self

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> tk.TreeSVC(tk.SubsetTreeKernel(0.4)).set_params(kernel__decay=0.2).kernel
        SubsetTreeKernel(0.2)
        """
        of_kernel = {
            name.removeprefix("kernel__"): value
            for name, value in params.items()
            if name.startswith("kernel__")
        }
        # A new kernel comes before changes to it, whatever their order in a grid.
        above: Any = super()
        above.set_params(
            **{n: v for n, v in params.items() if not n.startswith("kernel__")}
        )
        if of_kernel:
            self.kernel = self._any_kernel().replace(**of_kernel)
        return self

    def _any_kernel(self) -> Any:
        """Return a copy of the kernel, of trees, pairs or views, or the default for None."""
        kernel = self.kernel
        return _default() if kernel is None else _any_kernel(kernel).replace()


class _TreeEstimator(_SetsKernel, BaseEstimator):
    """What estimators over trees have in common."""

    kernel_ = HeldKernel[Any]()

    if TYPE_CHECKING:
        # scikit-learn has no types: what inherits from it has every attribute to a type
        # checker, unless it has this method. So what scikit-learn adds is declared.
        def __getattr__(self, name: str) -> _NoSuchAttribute: ...
        def get_params(self, deep: bool = ...) -> dict[str, Any]: ...
        def get_metadata_routing(self) -> Any: ...
        def set_fit_request(self, **requests: bool | str | None) -> Self: ...
        def set_partial_fit_request(self, **requests: bool | str | None) -> Self: ...
        def set_score_request(self, **requests: bool | str | None) -> Self: ...

    def _kernel(self) -> TreeKernel:
        """Return the kernel to fit with, a copy, or the default for None."""
        kernel = self.kernel
        return _default() if kernel is None else _checked_kernel(kernel).replace()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags


class _Scored(_TreeEstimator):
    """What classifiers and regressors of scikit-learn have."""

    if TYPE_CHECKING:

        def predict(self, X: TreesX) -> NDArray[Any]: ...
        def score(
            self, X: TreesX, y: ArrayLike, sample_weight: ArrayLike | None = ...
        ) -> float: ...


class _TreeTransformer(
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    _TreeEstimator,
):
    if TYPE_CHECKING:

        def fit_transform(self, X: Any, y: object = ...) -> Any: ...
        def get_feature_names_out(
            self, input_features: object = ...
        ) -> NDArray[Any]: ...
        def set_output(self, *, transform: str | None = ...) -> Self: ...

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags


class TreeGram(_TreeTransformer):
    """Kernels of trees with the trees of the training set.

    A transformer for estimators that take a precomputed kernel matrix, such as
    ``SVC(kernel="precomputed")``.

    Parameters
    ----------
    kernel : kernel of trees, pairs or views, optional
        By default ``SubsetTreeKernel(0.4)``. Its parameters are set and searched as ``kernel__decay`` and so on, those
        of a sum's parts as ``kernel__left__decay``. With a `PairKernel` X holds pairs, with a
        `ViewKernel` or `PreferenceKernel` it is `Views` or a DataFrame.
    n_jobs : int, optional
        Threads; by default and for -1 all cores the process may use. In a worker of joblib
        the default is what joblib assigns, usually 1.
    verbose : bool, default False
        Whether to show a progress bar.

    Attributes
    ----------
    forest_ : Forest, PairForest or Views
        The training set.
    kernel_ : kernel
        The kernel at the time of `fit`.
    index_ : TreeIndex
        The index that `transform` uses; built by its first call. None for pairs and views.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.svm import SVC
    >>> X = ["(S (A a) (B b))", "(S (A a) (C c))", "(S (B b) (B b))", "(S (C c) (B b))"]
    >>> gram = tk.TreeGram(tk.SubsetTreeKernel(0.4))
    >>> gram.fit_transform(X).shape
    (4, 4)
    >>> gram.transform(["(S (A a) (D d))"]).round(2)
    array([[0.4, 0.4, 0. , 0. ]])
    >>> model = make_pipeline(gram, SVC(kernel="precomputed"))
    >>> model.set_params(treegram__kernel__decay=0.2).fit(X, [0, 0, 1, 1]).predict(X)
    array([0, 0, 1, 1])
    """

    def __init__(
        self,
        kernel: AnyKernel | None = None,
        *,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.kernel = kernel
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: object = None) -> Self:
        """Keep the trees.

        Parameters
        ----------
        X : Forest or sequence of str
            The training set.
        y : ignored

        Returns
        -------
        self
        """
        kernel = self._any_kernel()
        self.kernel_ = kernel
        self.index_ = None
        if isinstance(kernel, TreeKernel):
            self.index_ = kernel.index(_trees_to_fit(X))
            self.forest_: Any = self.index_.forest
            return self
        self.forest_ = kernel._examples(X)
        if len(self.forest_) == 0:
            msg = "X must hold at least one example to fit, got none"
            raise ValueError(msg)
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Compute the kernels of all trees of X with all of the training set.

        Parameters
        ----------
        X : Forest or sequence of str
            The trees.

        Returns
        -------
        ndarray of float64, shape (len(X), len(forest_))
        """
        check_is_fitted(self)
        shown = bool(self.verbose)
        if self.index_ is None:
            kernels: NDArray[np.float64] = self.kernel_.gram(
                X, self.forest_, n_jobs=self.n_jobs, progress=shown
            )
        else:
            trees = _trees(X)
            kernels = self.index_.gram(trees, n_jobs=self.n_jobs, progress=shown)
        warn_of_strangers(kernels)
        return kernels

    def fit_transform(self, X: Any, y: object = None) -> NDArray[np.float64]:
        """Keep the trees and compute their kernels with each other, once per pair.

        Parameters
        ----------
        X : Forest or sequence of str
            The training set.
        y : ignored

        Returns
        -------
        ndarray of float64, shape (len(X), len(X))
        """
        self.fit(X)
        kernels: NDArray[np.float64] = self.kernel_.gram(
            self.forest_, n_jobs=self.n_jobs, progress=bool(self.verbose)
        )
        return kernels

    @property
    def _n_features_out(self) -> int:
        return len(self.forest_)


class TreeKNeighborsTransformer(_TreeTransformer):
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
        self.index_ = kernel.index(_trees_to_fit(X))
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
        found = self.index_.top_k(_trees(X), self.n_neighbors + 1, n_jobs=self.n_jobs)
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


class _TreeKNeighbors(_Scored):
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
        forest = _trees_to_fit(X)
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


class DistributedTreeEncoder(_TreeTransformer):
    """Trees as vectors whose dot products approximate a tree kernel.

    A transformer for linear models, whose training time is linear in the number of trees.
    It has the parameters of `DistributedTrees`, which explains them.

    Parameters
    ----------
    kernel : SubsetTreeKernel, SubtreeKernel or PartialTreeKernel, optional
        The kernel to approximate; by default ``SubsetTreeKernel(0.4)``.
    n_components : int, default 8192
        Length of the vectors; a multiple of 4.
    composition : {"quaternion", "sign", "phasor", "convolution", "gamma"}
        How two vectors become one.
    fold : {"left", "right"}
        The order in which children are composed.
    random_state : int, RandomState or None, default 0
        Seed of the label vectors and permutations.
    max_height : int, optional
        Use only fragments of at most so many levels.
    sketch_decay : float, "auto" or None, default "auto"
        Decay to use in place of the kernel's. With "auto" `fit` finds the one that suits the
        training set (`DistributedTrees.tune`), None is the kernel's own.
    dtype : float32 or float64, default float32
        Type of the vectors.
    zero_mean : bool, default True
        Whether label vectors of "convolution" sum to zero.
    reproducible : bool, default True
        Whether vectors of "convolution" have the same bits on every processor; False
        takes a third of the time for each composition.
    norm : {"auto", "exact", "full", "own"}, default "auto"
        The norm that vectors are divided by if the kernel is normalised. "auto" is "own",
        so that all vectors have length 1 whatever their noise, or "exact" with `prune` or
        `paths`.
    errors : {"raise", "zero"}, default "raise"
        What to do with a vector that is too large for `dtype`.
    paths : ndarray of uint64, optional
        A dictionary of paths, from `DistributedTrees.prune`.
    prune : bool, default False
        Whether `fit` keeps only the paths that trees of the training set share. This
        reduces noise. For `SubsetTreeKernel`, and not together with `paths`.
    n_jobs : int, optional
        Threads; by default and for -1 all cores the process may use.
    verbose : bool, default False
        Whether to show a progress bar.

    Attributes
    ----------
    kernel_ : TreeKernel
        The kernel at the time of `fit`.
    encoder_ : DistributedTrees
        The encoder with its fitted `paths`, `sketch_decay` and `norm`. A vector does not
        depend on the trees that are encoded with it.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> from sklearn.linear_model import RidgeClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> X = ["(S (A a) (B b))", "(S (A a) (C c))", "(S (B b) (B b))", "(S (C c) (B b))"]
    >>> encoder = tk.DistributedTreeEncoder(n_components=1024)
    >>> encoder.fit_transform(X).shape
    (4, 1024)
    >>> encoder.transform(["(S (A a) (D d))"]).shape
    (1, 1024)
    >>> encoder.get_feature_names_out()[:2]
    array(['distributedtreeencoder0', 'distributedtreeencoder1'], dtype=object)
    >>> make_pipeline(encoder, RidgeClassifier()).fit(X, [0, 0, 1, 1]).predict(X)
    array([0, 0, 1, 1])
    """

    def __init__(
        self,
        kernel: TreeKernel | None = None,
        n_components: int = 8192,
        *,
        composition: str = "quaternion",
        fold: str = "left",
        random_state: int | np.random.RandomState | None = 0,
        max_height: int | None = None,
        sketch_decay: float | Literal["auto"] | None = "auto",
        dtype: DTypeLike = np.float32,
        zero_mean: bool = True,
        reproducible: bool = True,
        norm: str = "auto",
        errors: Literal["raise", "zero"] = "raise",
        paths: ArrayLike | None = None,
        prune: bool = False,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.composition = composition
        self.fold = fold
        self.random_state = random_state
        self.max_height = max_height
        self.sketch_decay = sketch_decay
        self.dtype = dtype
        self.zero_mean = zero_mean
        self.reproducible = reproducible
        self.norm = norm
        self.errors = errors
        self.paths = paths
        self.prune = prune
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: TreesX, y: object = None) -> Self:
        """Make the encoder, with what `prune` and ``"auto"`` find in the trees.

        Parameters
        ----------
        X : Forest or sequence of str
            The training set.
        y : ignored

        Returns
        -------
        self
        """
        if self.prune and self.paths is not None:
            msg = "prune must be False if paths are given, because it computes paths"
            raise ValueError(msg)
        self.kernel_ = self._kernel()
        parameters = self.get_params(deep=False) | {"kernel": self.kernel_}
        for name in ("prune", "n_jobs", "verbose", "errors"):
            del parameters[name]
        _check_errors(self.errors)
        if self.norm == "auto":
            is_pruned = self.prune or self.paths is not None
            parameters["norm"] = "exact" if is_pruned else "own"
        if not isinstance(self.random_state, int | np.integer):
            parameters["random_state"] = _seed(self.random_state)
        encoder = DistributedTrees(**parameters)
        forest = _trees_to_fit(X)
        if self.prune:
            encoder = encoder.prune(forest)
        if encoder.sketch_decay == "auto":
            encoder = encoder.tune(forest)
        self.encoder_ = encoder
        return self

    def transform(self, X: TreesX) -> NDArray[Any]:
        """Compute the vectors of trees.

        Parameters
        ----------
        X : Forest or sequence of str
            The trees.

        Returns
        -------
        ndarray of `dtype`, shape (len(X), n_components)
        """
        check_is_fitted(self)
        return self.encoder_.encode(
            _trees(X),
            n_jobs=self.n_jobs,
            progress=bool(self.verbose),
            errors=self.errors,
        )

    @property
    def _n_features_out(self) -> int:
        return self.encoder_.n_components


class _Explained(ClassifierMixin, _Scored):
    """A classifier whose decision functions are the outputs of a `DagModel`.

    With two classes that is one output for the second; else one for each class, or for
    each pair of classes.
    """

    classes_: NDArray[Any]

    def _model(self) -> DagModel:
        raise NotImplementedError

    def _outputs(self) -> list[Any]:
        """Return the class, or pair of classes, that each output speaks for."""
        if len(self.classes_) == 2:
            return [self.classes_[1]]
        return list(self.classes_)

    def top_fragments(
        self,
        k: int = 10,
        *,
        by: Literal["largest", "smallest", "absolute"] = "largest",
        label: Any = None,
        min_size: int = 0,
        max_size: int | None = None,
        max_states: int = 1_000_000,
    ) -> list[Fragment]:
        """Find the fragments with the largest weights in the decision functions.

        Parameters
        ----------
        k : int, default 10
            How many for each decision function.
        by : {"largest", "smallest", "absolute"}
            "largest" finds fragments that speak for a class (weights above 0), "smallest"
            fragments that speak against it (below 0), "absolute" both. With two classes
            there is one decision function, for ``classes_[1]``.
        label : class, or pair of classes, optional
            Only for this decision function; by default for all of them. For a class of a
            classifier by pairs, the fragments of the sum over the pairs of this class.
        min_size, max_size : int, optional
            Limits, both included, to the size: see `DagModel.top_fragments`.
        max_states : int, default 1,000,000
            How many partial fragments the search may look at.

        Returns
        -------
        list of Fragment
            `output` is the class. For a classifier by pairs of classes it is the pair:
            weights above 0 speak for the first class, weights below 0 for the second.

        Raises
        ------
        ValueError
            For an unknown label, or a perceptron that votes.
        RuntimeError
            If the search exceeds `max_states`; see `DagModel.top_fragments`.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> X = ["(S (A a) (B b))", "(S (A a) (C c))", "(S (B b) (D d))", "(S (B b))"]
        >>> svc = tk.TreeSVC(tk.SubsetTreeKernel(0.4), C=10).fit(X, ["x", "x", "y", "y"])
        >>> for fragment in svc.top_fragments(2):
        ...     print(fragment)
        y  +0.4163   (S B)
        y  +0.203    (B b)
        >>> svc.top_fragments(1, by="smallest")
        [<Fragment y -0.6131: (A a)>]
        """
        model, outputs = self._model(), self._outputs()
        if (
            label is not None
            and isinstance(outputs[0], tuple)
            and not isinstance(label, tuple)
        ):
            outputs = [self.classes_[_place(self.classes_, label)]]
            model, label = self._by_class(outputs), outputs[0]
        found = model.top_fragments(
            k,
            by=by,
            output=None if label is None else _place(outputs, label),
            min_size=min_size,
            max_size=max_size,
            max_states=max_states,
        )
        return [replace(f, output=outputs[f.output or 0]) for f in found]

    def contributions(
        self, tree: Tree | str | object, label: Any = None
    ) -> NDArray[np.float64]:
        """Compute how much each node of a tree adds to a decision function.

        Parameters
        ----------
        tree : Tree, str or object as in Forest.from_trees
            The tree.
        label : class, or pair of classes, optional
            Numbers above 0 speak for this class; for a pair, they speak for its first
            class. The default is the predicted class, but with two classes it is
            ``classes_[1]``, as in `decision_function`.

        Returns
        -------
        ndarray of float64, shape (n_nodes,)
            For each node, in preorder, the sum over all fragments that start there. The
            sum of all is the decision function without its constant. For a class of a
            classifier by pairs, it is the sum over the pairs of this class.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> X = ["(S (A a) (B b))", "(S (A a) (C c))", "(S (B b) (D d))", "(S (B b))"]
        >>> svc = tk.TreeSVC(tk.SubsetTreeKernel(0.4), C=10).fit(X, ["x", "x", "y", "y"])
        >>> svc.contributions(X[0]).round(2)
        array([-0.8 , -0.61,  0.  ,  0.2 ,  0.  ])
        >>> tk.draw(X[0], svc.contributions(X[0]))
        <Drawing: 200 x 186 pixels>
        """
        model, outputs = self._model(), self._outputs()
        one = as_tree(tree)
        shares = model.contributions(one)
        if len(outputs) == 1:
            if label is None:
                label = outputs[0]
            # For the one class is against the other.
            return shares if _place(self.classes_, label) == 1 else -shares
        if label is None:
            label = self.predict(Forest.from_trees([one]))[0]
        if isinstance(label, tuple) or not isinstance(outputs[0], tuple):
            return np.ascontiguousarray(shares[:, _place(outputs, label)])
        which = self.classes_[_place(self.classes_, label)]
        per_class: NDArray[np.float64] = shares @ self._signs_of([which])[:, 0]
        return per_class

    def _signs_of(self, classes: Sequence[Any]) -> NDArray[np.float64]:
        """Return by pair (rows) and class what the pair says of the class: 1, -1 or 0."""
        first, second = np.triu_indices(len(self.classes_), 1)
        places = np.array([_place(self.classes_, name) for name in classes], np.intp)
        signs: NDArray[np.float64] = np.zeros((len(first), len(places)))
        signs += first[:, None] == places
        signs -= second[:, None] == places
        return signs

    def _by_class(self, classes: Sequence[Any]) -> DagModel:
        """Return the sums over the pairs of each class, of a classifier by pairs."""
        return self._model()._combined(self._signs_of(classes))


class TreeSVC(_Explained):
    """A support vector classifier over trees that predicts without kernel rows.

    Its decision functions are those of scikit-learn's `SVC`: weighted sums over the support
    vectors, ``sum_i alpha_i k(x_i, x) + b``. They are stored in one `DagModel`: subtrees that
    support vectors share are stored once, with one weight per decision function. So a
    prediction takes one pass over the new tree for all classes.

    Training uses `SVC` on the kernel matrix, or a `KernelMachine`, which solves the same
    problem without a matrix: half a million trees take seconds.

    Parameters
    ----------
    kernel : TreeKernel, optional
        By default ``SubsetTreeKernel(0.4)``. Its parameters are set and searched as ``kernel__decay`` and so on. If
        its `DagModel` is not a graph (a product, a power, `Gaussian`, similar labels), a
        prediction takes a kernel for each support vector.
    C : float, default 1
        Penalty for training errors, as in `SVC`. Use a small C with unnormalised kernels.
    multi_class : {"ovo", "ovr"}
        One decision function per pair of classes, as `SVC` does it, or one per class
        against the rest.
    decision_function_shape : {"ovr", "ovo"}
        With "ovr", `decision_function` has a column for each class, which counts the votes
        of the pairs, as in `SVC`; with "ovo", a column for each pair. Only used with
        ``multi_class="ovo"``.
    class_weight : dict or "balanced", optional
        Factors of `C` per class.
    solver : {"auto", "matrix", "model"}
        "matrix" computes the kernel matrix, "model" does not need it. "auto" uses the
        matrix where it is faster: for up to 6,000 trees, and for a kernel whose model is no
        graph.
    tol : float, default 1e-3
        The solver stops when no gradient of the dual violates its condition by more.
    max_iter : int, default -1
        Limit of the solver's iterations; -1 for none. With "model", an iteration is a pass
        over the examples.
    cache_size : float, default 200
        Megabytes of the solver's cache; with "model", of the kernel matrix of a batch.
    random_state : int, RandomState or None, default 0
        Seed of the order of examples in "model".
    n_jobs : int, optional
        Threads; by default and for -1 all cores the process may use.
    verbose : bool, default False
        Whether to show a progress bar.

    Attributes
    ----------
    classes_ : ndarray
        The labels, sorted.
    kernel_ : TreeKernel
        The kernel at the time of `fit`.
    n_iter_ : ndarray of int, shape (n_decisions,)
        The solver's iterations.
    dual_gap_ : ndarray, shape (n_decisions,)
        With "model", a bound on how far each objective is from its minimum, as a share of
        the objective; with "matrix", NaN.
    support_ : ndarray of int
        Indices of the support vectors in the training set.
    n_support_ : ndarray of int, shape (n_classes,)
        The number of support vectors of each class.
    dual_coef_ : ndarray, shape (n_decisions, n_support_trees)
        Coefficients of the support vectors in every decision function: one for two
        classes, else one per pair or per class.
    intercept_ : ndarray, shape (n_decisions,)
        Intercept of each decision function.
    model_ : DagModel
        The decision functions.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> X = ["(S (A a) (B b))", "(S (A a) (C c))", "(S (B b) (B b))", "(S (C c) (B b))"]
    >>> svc = tk.TreeSVC(tk.SubsetTreeKernel(0.4), C=10).fit(X, ["x", "x", "y", "y"])
    >>> svc.predict(["(S (A a) (D d))", "(S (D d) (B b))"])
    array(['x', 'y'], dtype='<U1')
    >>> svc.decision_function(X[:2]).round(2)
    array([-1., -1.])
    """

    classes_: NDArray[Any]
    intercept_: NDArray[np.float64]
    model_: DagModel
    _pairs: bool

    def __init__(
        self,
        kernel: TreeKernel | None = None,
        C: float = 1.0,
        *,
        multi_class: Literal["ovo", "ovr"] = "ovo",
        decision_function_shape: Literal["ovr", "ovo"] = "ovr",
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        solver: Literal["auto", "matrix", "model"] = "auto",
        tol: float = 1e-3,
        max_iter: int = -1,
        cache_size: float = 200,
        random_state: int | np.random.RandomState | None = 0,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.kernel = kernel
        self.C = C
        self.multi_class = multi_class
        self.decision_function_shape = decision_function_shape
        self.class_weight = class_weight
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.cache_size = cache_size
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(
        self, X: TreesX, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Train the decision functions and build their model.

        Parameters
        ----------
        X : Forest or sequence of str
            The training set.
        y : array of shape (len(X),)
            Labels: str, int or bool.
        sample_weight : array of shape (len(X),), optional
            Factors of `C` per tree.

        Returns
        -------
        self
        """
        kernel = self._kernel()
        for name in ("multi_class", "decision_function_shape"):
            if (value := getattr(self, name)) not in ("ovo", "ovr"):
                msg = f"{name} must be 'ovo' or 'ovr', got {value!r}"
                raise ValueError(msg)
        if self.solver not in ("auto", "matrix", "model"):
            msg = f"solver must be 'auto', 'matrix' or 'model', got {self.solver!r}"
            raise ValueError(msg)
        forest, classes, codes = _labelled(X, y)
        _positive("C", self.C)
        self.kernel_ = kernel
        is_paired = len(classes) > 2 and self.multi_class == "ovo"
        weights = _sample_weights(forest, sample_weight)
        if is_paired:
            costs = weights * compute_sample_weight(self.class_weight, classes[codes])
        else:
            costs = _one_vs_rest_costs(self.class_weight, classes, codes, weights)
        by_matrix = len(forest) <= _FEW or not _has_graph(kernel)
        if self.solver == "model" or (self.solver == "auto" and not by_matrix):
            fit = self._pairs_of_model if is_paired else self._each_of_model
            dual, intercept = fit(forest, codes, self.C * costs)
        else:
            # With a matrix, SVC goes wrong where a weight is 0.
            kept = np.flatnonzero(weights)
            K = kernel.gram(
                forest[kept.tolist()], n_jobs=self.n_jobs, progress=bool(self.verbose)
            )
            fit_matrix = self._pairs_of_matrix if is_paired else self._each_of_matrix
            found, intercept = fit_matrix(K, codes[kept], costs[kept])
            dual = np.zeros((len(found), len(forest)))
            dual[:, kept] = found
            self.dual_gap_ = np.full(len(dual), np.nan)
        support = np.flatnonzero(dual.any(axis=0))
        self.classes_ = classes
        self.support_ = support
        self.n_support_ = np.bincount(codes[support], minlength=len(classes))
        self.dual_coef_ = np.ascontiguousarray(dual[:, support])
        self.intercept_ = intercept
        self.model_ = DagModel.from_dual(
            kernel, forest[support.tolist()], self.dual_coef_.T, intercept
        )
        self._pairs = is_paired
        return self

    def decision_function(self, X: TreesX) -> NDArray[np.float64]:
        """Compute the decision functions of trees.

        Parameters
        ----------
        X : Forest or sequence of str
            The trees.

        Returns
        -------
        ndarray of float64
            For two classes of shape (len(X),), positive for ``classes_[1]``; else with a
            column per class, or per pair of classes where `decision_function_shape` is
            "ovo".
        """
        scores = self._scores(X)
        if self._pairs and self.decision_function_shape == "ovr":
            return _per_class(scores, len(self.classes_))
        return scores

    def predict(self, X: TreesX) -> NDArray[Any]:
        """Classify trees.

        Parameters
        ----------
        X : Forest or sequence of str
            The trees.

        Returns
        -------
        ndarray of shape (len(X),)
            Labels, as in `classes_`.
        """
        scores = self._scores(X)
        if self._pairs:
            n = len(self.classes_)
            votes = np.zeros((len(scores), n), np.int64)
            for score, (i, j) in zip(scores.T, combinations(range(n), 2), strict=True):
                votes[:, i] += score > 0
                votes[:, j] += score <= 0  # a tie goes to the later class, as in libsvm
            return _labels(votes, self.classes_)
        return _labels(scores, self.classes_)

    def _model(self) -> DagModel:
        check_is_fitted(self)
        return self.model_

    def _outputs(self) -> list[Any]:
        if self._pairs:
            return list(combinations(self.classes_, 2))
        return super()._outputs()

    def _scores(self, X: TreesX) -> NDArray[np.float64]:
        check_is_fitted(self)
        scores = scores_of(self.model_, _trees(X), self.n_jobs)
        return scores.reshape(-1) if len(self.intercept_) == 1 else scores

    def _svc(self) -> Any:
        return SVC(
            kernel="precomputed",
            C=self.C,
            tol=self.tol,
            max_iter=self.max_iter,
            cache_size=self.cache_size,
        )

    def _each_of_matrix(
        self,
        K: NDArray[np.float64],
        codes: NDArray[np.int64],
        weights: NDArray[np.float64],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Train each class against the rest; of two classes, the second."""
        weights = weights.reshape(len(codes), -1)
        signs = _signs(codes, max(2, weights.shape[1])).reshape(weights.shape)
        svcs = [
            self._svc().fit(K, sign, np.ascontiguousarray(own))
            for sign, own in zip(signs.T, weights.T, strict=True)
        ]
        dual = np.zeros(weights.shape).T
        for row, svc in zip(dual, svcs, strict=True):
            row[svc.support_] = svc.dual_coef_[0]
        self.n_iter_ = np.array([svc.n_iter_[0] for svc in svcs])
        return dual, np.array([svc.intercept_[0] for svc in svcs])

    def _pairs_of_matrix(
        self,
        K: NDArray[np.float64],
        codes: NDArray[np.int64],
        weights: NDArray[np.float64],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Train every class against every other."""
        svc = self._svc().fit(K, codes, weights)
        self.n_iter_ = svc.n_iter_
        pairs = _one_vs_one(svc.dual_coef_, svc.n_support_)
        dual = np.zeros((len(codes), pairs.shape[1]))
        dual[svc.support_] = pairs
        return dual.T, svc.intercept_

    def _each_of_model(
        self, forest: Forest, codes: NDArray[np.int64], costs: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """As `_each_of_matrix`, all in one."""
        signs = _signs(codes, costs.shape[1] if costs.ndim == 2 else 2)
        machine = self._machine(forest, signs, costs)
        self.n_iter_ = np.full(machine.n_outputs, machine.n_iter)
        self.dual_gap_ = _relative(machine)
        return machine.dual_coef.reshape(len(codes), -1).T, machine.intercept

    def _pairs_of_model(
        self, forest: Forest, codes: NDArray[np.int64], costs: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """As `_pairs_of_matrix`."""
        pairs = list(combinations(range(codes.max() + 1), 2))
        dual, intercept = np.zeros((len(pairs), len(codes))), np.empty(len(pairs))
        self.n_iter_ = np.empty(len(pairs), np.int64)
        self.dual_gap_ = np.empty(len(pairs))
        for row, (i, j) in enumerate(pairs):
            own = np.flatnonzero((codes == i) | (codes == j))
            signs = np.where(codes[own] == i, 1.0, -1.0)
            machine = self._machine(forest[own.tolist()], signs, costs[own])
            dual[row, own] = machine.dual_coef
            intercept[row] = machine.intercept[0]
            self.n_iter_[row] = machine.n_iter
            self.dual_gap_[row] = _relative(machine)[0]
        return dual, intercept

    def _machine(
        self, forest: Forest, signs: NDArray[Any], costs: NDArray[Any]
    ) -> KernelMachine:
        seed = _seed(self.random_state)
        machine = KernelMachine(self.kernel_, forest, signs, C=costs, random_state=seed)
        return _run(machine, self)


def _has_graph(kernel: TreeKernel) -> bool:
    """Whether a model of a kernel scores in a time that does not grow with support trees."""
    return DagModel(kernel).is_graph


class TreePerceptron(_Explained):
    """A kernel perceptron over trees, trained tree by tree.

    With more than two classes there is one perceptron for each class against the rest. All of
    them share one model, so one pass over a tree computes all scores.

    Parameters
    ----------
    kernel : TreeKernel, optional
        By default ``SubsetTreeKernel(0.4)``. Its parameters are set and searched as ``kernel__decay`` and so on.
    predict_with : {"average", "last", "vote"}
        Predict with the averaged weights, with the last weights, or by a vote of all
        versions, each weighted by the examples seen while it was current.
    n_iter : int, default 5
        Passes of `fit` through the training set.
    shuffle : bool, default True
        Whether each pass of `fit` uses a new random order.
    class_weight : dict or "balanced", optional
        Factors of the weights of trees by class. "balanced" is for `fit` only.
    random_state : int, RandomState or None
        Seed of the random order.
    n_jobs : int, optional
        Threads for predictions; by default and for -1 all cores the process may use.
    verbose : bool, default False
        Whether to show a progress bar.

    Attributes
    ----------
    classes_ : ndarray
        The labels, sorted.
    kernel_ : TreeKernel
        The kernel at the time of `fit`.
    perceptron_ : Perceptron
        The trained perceptron.
    n_mistakes_ : int
        Mistakes so far, summed over all classes.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> X = ["(S (A a) (B b))", "(S (A a) (C c))", "(S (B b) (B b))", "(S (C c) (B b))"]
    >>> y = ["x", "x", "y", "y"]
    >>> clf = tk.TreePerceptron(tk.SubsetTreeKernel(0.4), random_state=0).fit(X, y)
    >>> clf.predict(X)
    array(['x', 'x', 'y', 'y'], dtype='<U1')
    >>> clf.partial_fit(["(S (D d) (B b))"], ["y"]).decision_function(X) > 0
    array([False, False,  True,  True])
    """

    classes_: NDArray[Any]
    perceptron_: Perceptron

    def __init__(
        self,
        kernel: TreeKernel | None = None,
        predict_with: Literal["average", "last", "vote"] = "average",
        *,
        n_iter: int = 5,
        shuffle: bool = True,
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.kernel = kernel
        self.predict_with = predict_with
        self.n_iter = n_iter
        self.shuffle = shuffle
        self.class_weight = class_weight
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(
        self, X: TreesX, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Start anew and learn in `n_iter` passes.

        Parameters
        ----------
        X : Forest or sequence of str
            The training set.
        y : array of shape (len(X),)
            Labels: str, int or bool.
        sample_weight : array of shape (len(X),), optional
            A mistake adds its tree to the model with this weight, in place of 1. Trees of
            weight 0 are left out.

        Returns
        -------
        self
        """
        if not isinstance(self.n_iter, int | np.integer) or self.n_iter < 1:
            msg = f"n_iter must be an int of at least 1, got {self.n_iter!r}"
            raise ValueError(msg)
        forest, classes, codes = _labelled(X, y)
        weights = _sample_weights(forest, sample_weight)
        costs = _one_vs_rest_costs(self.class_weight, classes, codes, weights)
        rng = check_random_state(self.random_state)
        self._start(classes)
        order = np.arange(len(forest))
        for _ in range(self.n_iter):
            if self.shuffle:
                order = rng.permutation(len(forest))
            self._learn(forest[order.tolist()], codes[order], costs[order])
        return self

    def partial_fit(
        self,
        X: TreesX,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Continue to learn: one pass over some trees, in their order.

        Parameters
        ----------
        X : Forest or sequence of str
            The trees.
        y : array of shape (len(X),)
            Their labels.
        classes : array, optional
            All labels of all calls; required in the first call.
        sample_weight : array of shape (len(X),), optional
            As in `fit`.

        Returns
        -------
        self
        """
        if self.class_weight == "balanced":
            msg = (
                "class_weight must be None or a dict for partial_fit, which does not know "
                "the sizes of classes, got 'balanced'"
            )
            raise ValueError(msg)
        known: Any = getattr(self, "classes_", None)
        if classes is None and known is None:
            msg = "classes must be given in the first call of partial_fit"
            raise ValueError(msg)
        given = known if classes is None else _two_or_more(np.unique(classes))
        if known is not None and not np.array_equal(known, given):
            msg = f"classes must be those of the first call, {known!r}, got {given!r}"
            raise ValueError(msg)
        forest, labels = _with_labels(X, y)
        strangers = np.setdiff1d(labels, given)
        if strangers.size:
            msg = f"y must hold labels of classes, {given!r}, got {strangers[0]!r}"
            raise ValueError(msg)
        if known is None:
            self._start(given)
        given_now = {"kernel": self._kernel(), "predict_with": self.predict_with}
        for name, now in given_now.items():
            was = getattr(self.perceptron_, name)
            if was != now:
                msg = f"{name} must stay {was!r} for partial_fit, got {now!r}; fit anew"
                raise ValueError(msg)
        weights = _sample_weights(forest, sample_weight)
        codes = np.searchsorted(given, labels)
        costs = _one_vs_rest_costs(self.class_weight, given, codes, weights)
        self._learn(forest, codes, costs)
        return self

    def decision_function(self, X: TreesX) -> NDArray[np.float64]:
        """Compute the scores of trees.

        Parameters
        ----------
        X : Forest or sequence of str
            The trees.

        Returns
        -------
        ndarray of float64
            For two classes of shape (len(X),), positive for ``classes_[1]``; else with a
            column per class.
        """
        check_is_fitted(self)
        return scores_of(self.perceptron_, _trees(X), self.n_jobs)

    def predict(self, X: TreesX) -> NDArray[Any]:
        """Classify trees.

        Parameters
        ----------
        X : Forest or sequence of str
            The trees.

        Returns
        -------
        ndarray of shape (len(X),)
            Labels, as in `classes_`.
        """
        return _labels(self.decision_function(X), self.classes_)

    def _model(self) -> DagModel:
        check_is_fitted(self)
        if self.perceptron_.predict_with == "vote":
            msg = (
                "predict_with must be 'average' or 'last' to explain a perceptron: a vote is "
                "not a sum over fragments"
            )
            raise ValueError(msg)
        return self.perceptron_.model

    @property
    def n_mistakes_(self) -> int:
        """Mistakes so far, summed over all classes."""
        return int(np.sum(self.perceptron_.n_mistakes))

    def _start(self, classes: NDArray[Any]) -> None:
        n_outputs = 1 if len(classes) == 2 else len(classes)
        self.kernel_ = self._kernel()
        self.perceptron_ = Perceptron(
            self.kernel_, self.predict_with, n_outputs=n_outputs
        )
        self.classes_ = classes

    def _learn(
        self, forest: Forest, codes: NDArray[np.int64], costs: NDArray[np.float64]
    ) -> None:
        counts = costs if costs.ndim == 1 else costs[:, 0]
        if not counts.all():
            kept = np.flatnonzero(counts)
            forest, codes, costs = forest[kept.tolist()], codes[kept], costs[kept]
        signs = _signs(codes, len(self.classes_))
        self.perceptron_.partial_fit(
            forest, signs, sample_weight=costs, progress=bool(self.verbose)
        )


def _signs(codes: NDArray[np.int64], n: int) -> NDArray[np.float64]:
    """Return 1 for each tree's own class and -1 for the rest; of two, for the second."""
    is_own = codes == 1 if n == 2 else codes[:, None] == np.arange(n)
    return np.where(is_own, 1.0, -1.0)


def _one_vs_rest_costs(
    class_weight: Any,
    classes: NDArray[Any],
    codes: NDArray[np.int64],
    weights: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return each tree's factor of C in each of the machines of `_signs`."""
    signs = _signs(codes, len(classes))
    if class_weight == "balanced":
        # By the sizes of a class and its rest.
        n_own = (signs > 0).sum(axis=0)
        n_other = len(signs) - n_own
        share = np.where(signs > 0, n_own, n_other)
        factors = len(signs) / (2.0 * share)
    else:
        factors = compute_sample_weight(class_weight, classes[codes])
        factors = factors.reshape(-1, *[1] * (signs.ndim - 1))
    found: NDArray[np.float64] = (weights * (signs * 0 + factors).T).T
    return found


def _sample_weights(forest: Forest, weights: ArrayLike | None) -> NDArray[np.float64]:
    """Return a weight for each tree, not negative."""
    if weights is None:
        return np.ones(len(forest))
    own: NDArray[np.float64] = np.asarray(column_or_1d(weights), np.float64)
    check_consistent_length(forest, own)
    _check_all("sample_weight", own, "finite and not negative", own >= 0)
    if not own.any():
        msg = "sample_weight must be above 0 for some tree, got all zeros"
        raise ValueError(msg)
    return own


def _seed(random_state: int | np.random.RandomState | None) -> int:
    return int(check_random_state(random_state).randint(2**31 - 1))


def _positive(name: str, value: Any) -> None:
    if not isinstance(value, Real) or not float(value) > 0:
        msg = f"{name} must be a number above 0, got {value!r}"
        raise ValueError(msg)


def _run(machine: KernelMachine, own: Any) -> KernelMachine:
    """Train a machine as an estimator's parameters say, and warn if it is not solved."""
    limit = 2**40 if own.max_iter == -1 else own.max_iter
    is_solved = machine.run(
        tol=own.tol,
        max_iter=limit,
        cache_size=own.cache_size,
        n_jobs=own.n_jobs,
        progress=bool(own.verbose),
    )
    if not is_solved:
        if machine.n_iter >= limit:
            why = f"max_iter={own.max_iter} passes were not enough"
            remedy = "increase max_iter, or tol"
        else:
            why = (
                f"after {machine.n_iter} passes, rounding allows neither a lower "
                "violation nor a better objective"
            )
            remedy = (
                "normalize the kernel, decrease C (or increase alpha), or increase tol"
            )
        warnings.warn(
            f"{why}: the violation is {machine.violation:.3g}, above tol={own.tol}, and "
            f"the objective is up to {_relative(machine).max():.2g} times its size above "
            f"the minimum; {remedy}",
            ConvergenceWarning,
            stacklevel=3,
        )
    return machine


def _relative(machine: KernelMachine) -> NDArray[np.float64]:
    """Return the duality gap as a share of the objective."""
    size = np.maximum(np.abs(machine.objective), np.finfo(float).tiny)
    gap: NDArray[np.float64] = machine.dual_gap / size
    return gap


def _place(names: Iterable[Any], name: Any) -> int:
    """Return where a class, or a pair of them, stands."""
    known = list(names)
    for place, other in enumerate(known):
        if type(name) is tuple or type(other) is tuple:
            if type(name) is type(other) and tuple(name) == tuple(other):
                return place
        elif name == other:
            return place
    some = ", ".join(map(_shown, known[:10]))
    some += f", ... ({len(known):,} in all)" if len(known) > 10 else ""
    msg = f"label must be one of {some}, got {name!r}"
    raise ValueError(msg)


def _default() -> TreeKernel:
    """Make the kernel of estimators that are given none: a new one for each."""
    return SubsetTreeKernel(0.4)


def _checked_kernel(kernel: object) -> TreeKernel:
    if isinstance(kernel, TreeKernel):
        return kernel
    msg = f"kernel must be a tree kernel, such as SubsetTreeKernel(0.4), got {kernel!r}"
    raise TypeError(msg)


def _any_kernel(kernel: object) -> AnyKernel:
    if isinstance(kernel, TreeKernel | PairKernel | _OfViews):
        return kernel
    msg = (
        "kernel must be a tree kernel, or one of pairs or views, such as "
        f"SubsetTreeKernel(0.4), got {kernel!r}"
    )
    raise TypeError(msg)


def _trees_to_fit(X: TreesX) -> Forest:
    forest = _trees(X)
    if len(forest) == 0:
        msg = "X must hold at least one tree to fit, got none"
        raise ValueError(msg)
    return forest


def _trees(X: Any) -> Forest:
    """Return X as a Forest, one tree per entry."""
    if isinstance(X, Forest):
        return X
    if isinstance(X, str | bytes) or not hasattr(X, "__iter__"):
        msg = (
            "X must be a Forest or a list of bracketed strings, "
            f"got one {type(X).__name__}"
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


def _with_labels(X: TreesX, y: ArrayLike) -> tuple[Forest, NDArray[Any]]:
    forest = _trees_to_fit(X)
    labels = column_or_1d(y, warn=True)
    check_consistent_length(forest, labels)
    check_classification_targets(labels)
    return forest, labels


def _labelled(
    X: TreesX, y: ArrayLike
) -> tuple[Forest, NDArray[Any], NDArray[np.int64]]:
    """Return trees, classes, and the class of each tree as an index."""
    forest, labels = _with_labels(X, y)
    classes, codes = np.unique(labels, return_inverse=True)
    return forest, _two_or_more(classes), codes


def _two_or_more(classes: NDArray[Any]) -> NDArray[Any]:
    if len(classes) < 2:
        msg = f"y must hold at least two classes, got {len(classes)} class: {classes!r}"
        raise ValueError(msg)
    return classes


def _labels(scores: NDArray[Any], classes: NDArray[Any]) -> NDArray[Any]:
    best = scores >= 0 if scores.ndim == 1 else scores.argmax(axis=1)
    labels: NDArray[Any] = classes[best.astype(np.intp)]
    return labels


def _per_class(scores: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """Turn scores of pairs of classes into one per class, as `SVC` does.

    A column counts the pairs that the class wins. What it won them by is squeezed into
    less than a half vote, so that it orders classes of equal votes and changes nothing
    else.
    """
    votes = np.zeros((len(scores), n))
    margins = np.zeros((len(scores), n))
    for score, (i, j) in zip(scores.T, combinations(range(n), 2), strict=True):
        votes[:, i] += score >= 0
        votes[:, j] += score < 0
        margins[:, i] += score
        margins[:, j] -= score
    per_class: NDArray[np.float64] = votes + margins / (3 * (np.abs(margins) + 1))
    return per_class
