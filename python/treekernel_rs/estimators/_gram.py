"""The kernel matrix as a transformer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from treekernel_rs._strangers import warn_of_strangers
from treekernel_rs.estimators._base import TreeTransformer
from treekernel_rs.estimators._inputs import as_trees, trees_to_fit
from treekernel_rs.index import TreeIndex
from treekernel_rs.tree_kernels import TreeKernel
from treekernel_rs.view_kernels import KernelOfViews, ViewIndex

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from treekernel_rs.estimators._base import AnyKernel


class TreeGram(TreeTransformer):
    """Kernels of trees with the trees of the training set.

    A transformer for estimators that take a precomputed kernel matrix, such as
    ``SVC(kernel="precomputed")``.

    Parameters
    ----------
    kernel : kernel of trees, pairs or views, optional
        By default ``SubsetTreeKernel(0.4)``. Its parameters are set and searched as
        ``kernel__decay`` and so on, those of a sum's parts as ``kernel__left__decay``. With
        a `PairKernel` X holds pairs, with a `ViewKernel` or `PreferenceKernel` it is
        `Views` or a DataFrame.
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
    index_ : TreeIndex or ViewIndex
        The index that `transform` uses; built by its first call. None for pairs.

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
        self.index_: TreeIndex | ViewIndex | None = None
        if isinstance(kernel, TreeKernel):
            self.index_ = kernel.index(trees_to_fit(X))
            self.forest_: Any = self.index_.forest
            return self
        self.forest_ = kernel._examples(X)
        if len(self.forest_) == 0:
            msg = "X must hold at least one example to fit, got none"
            raise ValueError(msg)
        if isinstance(kernel, KernelOfViews):
            self.index_ = kernel.index(self.forest_)
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
            examples = as_trees(X) if isinstance(self.index_, TreeIndex) else X
            kernels = self.index_.gram(examples, n_jobs=self.n_jobs, progress=shown)
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
