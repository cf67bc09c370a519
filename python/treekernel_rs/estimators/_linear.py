"""Linear models in the feature space of a kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from sklearn.utils import check_consistent_length

from treekernel_rs.estimators._classifier import (
    ExplainedClassifier,
    best_labels,
    one_vs_rest_costs,
    one_vs_rest_signs,
)
from treekernel_rs.estimators._inputs import (
    check_positive,
    checked_weights,
    trees_to_fit,
    trees_with_classes,
)
from treekernel_rs.estimators._machine import MachineEstimator, MachineRegressor
from treekernel_rs.tree_kernels import TreeKernel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

    from treekernel_rs.estimators._inputs import TreesX


class TreeLogisticRegression(MachineEstimator, ExplainedClassifier):
    """Logistic regression over trees: class probabilities from an exact kernel machine.

    It solves the problem of scikit-learn's `LogisticRegression` with ``solver="liblinear"``
    in the feature space of the kernel, where the intercept is the weight of a feature. With
    more than two classes, each class is trained against the rest, and probabilities are
    scaled to sum to 1.

    Parameters
    ----------
    kernel : TreeKernel, optional
        By default ``SubsetTreeKernel(0.4)``. Its parameters are set and searched as
        ``kernel__decay`` and so on.
    C : float, default 1
        Weight of the loss; a larger C means less regularisation.
    fit_intercept : bool, default True
        Whether there is an intercept.
    intercept_scaling : float, default 1
        The value of the intercept's feature.
    class_weight : dict or "balanced", optional
        Factors of `C` per class.
    tol : float, default 1e-3
        Training stops when the violation is at most this.
    max_iter : int, default 1000
        The largest number of passes; -1 for no limit.
    cache_size : float, default 200
        Megabytes of the kernel matrix of a batch.
    warm_start : bool, default False
        Whether `fit` starts from the solution of the last `fit`, also if that was
        interrupted. It does so if nothing but C and the weights of classes and trees has
        changed: the kernel, the trees and their labels are the same.
    random_state : int or RandomState, optional
        Seed of the order of examples; by default each `fit` has another order, and results
        differ within `tol`.
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
    model_ : DagModel
        The decision functions.
    support_, dual_coef_, intercept_ : ndarray
        Indices and weights of the support trees, and the intercept of each output.
    n_iter_ : int
        The number of passes.
    dual_gap_ : ndarray
        A bound on how far the objective is from its minimum, as a share of the objective.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> X = ["(S (A a) (B b))", "(S (A a) (C c))", "(S (B b) (B b))", "(S (C c) (B b))"]
    >>> model = tk.TreeLogisticRegression(tk.SubsetTreeKernel(0.4), C=10).fit(X, [0, 0, 1, 1])
    >>> model.predict_proba(["(S (A a) (D d))"]).round(2)
    array([[0.78, 0.22]])
    >>> model.predict(X), model.decision_function(X).round(1)
    (array([0, 0, 1, 1]), array([-1.7, -2.1,  2.2,  1.8]))
    >>> model.predict_log_proba(X[:1]).round(2)
    array([[-0.17, -1.87]])
    """

    classes_: NDArray[Any]

    def __init__(
        self,
        kernel: TreeKernel | None = None,
        C: float = 1.0,
        *,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        tol: float = 1e-3,
        max_iter: int = 1000,
        cache_size: float = 200,
        warm_start: bool = False,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.kernel = kernel
        self.C = C
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.cache_size = cache_size
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(
        self, X: TreesX, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Train.

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
        check_positive("C", self.C)
        forest, classes, codes = trees_with_classes(X, y)
        weights = checked_weights(forest, sample_weight)
        costs = one_vs_rest_costs(self.class_weight, classes, codes, weights)
        self._train(
            forest,
            one_vs_rest_signs(codes, len(classes)),
            self.C * costs,
            loss="logistic",
            intercept="feature" if self.fit_intercept else "none",
            intercept_scaling=self.intercept_scaling,
        )
        self.classes_ = classes
        return self

    def decision_function(self, X: TreesX) -> NDArray[np.float64]:
        """Compute the log-odds of classes.

        Parameters
        ----------
        X : Forest or sequence of str
            The trees.

        Returns
        -------
        ndarray of float64
            For two classes of shape (len(X),), else with a column per class.
        """
        return self._scores(X)

    def predict_proba(self, X: TreesX) -> NDArray[np.float64]:
        """Compute the probabilities of classes.

        Parameters
        ----------
        X : Forest or sequence of str
            The trees.

        Returns
        -------
        ndarray of float64, shape (len(X), number of classes)
        """
        odds = 0.5 * (1.0 + np.tanh(0.5 * self._scores(X)))
        if odds.ndim == 1:
            return np.column_stack([1.0 - odds, odds])
        shares: NDArray[np.float64] = odds / odds.sum(axis=1, keepdims=True)
        return shares

    def predict_log_proba(self, X: TreesX) -> NDArray[np.float64]:
        """Compute the logarithms of `predict_proba`.

        Parameters
        ----------
        X : Forest or sequence of str
            The trees.

        Returns
        -------
        ndarray of float64, shape (len(X), number of classes)
        """
        return np.log(self.predict_proba(X))

    def predict(self, X: TreesX) -> NDArray[Any]:
        """Classify trees.

        Parameters
        ----------
        X : Forest or sequence of str
            The trees.

        Returns
        -------
        ndarray of shape (len(X),)
        """
        return best_labels(self._scores(X), self.classes_)

    # Both bases have them; these know classes.
    top_fragments = ExplainedClassifier.top_fragments  # type: ignore[assignment]
    contributions = ExplainedClassifier.contributions


class TreeRidge(MachineRegressor):
    """Ridge regression over trees, for one target or several.

    It solves the problem of scikit-learn's `Ridge` in the feature space of the kernel.
    Without an intercept it is `KernelRidge` with a precomputed kernel.

    Parameters
    ----------
    kernel : TreeKernel, optional
        By default ``SubsetTreeKernel(0.4)``. Its parameters are set and searched as
        ``kernel__decay`` and so on.
    alpha : float, default 1
        Strength of regularisation, as in `Ridge`.
    fit_intercept : bool, default True
        Whether there is an intercept; it is not regularised.
    tol, max_iter, cache_size, warm_start, random_state, n_jobs, verbose
        As in `TreeLogisticRegression`.

    Attributes
    ----------
    kernel_, model_, support_, dual_coef_, intercept_, n_iter_, dual_gap_
        As in `TreeLogisticRegression`.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> X = ["(S (A a) (B b))", "(S (A a) (C c))", "(S (B b) (B b))", "(S (C c) (B b))"]
    >>> model = tk.TreeRidge(tk.SubsetTreeKernel(0.4), 0.1).fit(X, [1, 2, 4, 3])
    >>> model.predict(X).round(1)
    array([1.1, 2. , 3.9, 3. ])
    """

    def __init__(
        self,
        kernel: TreeKernel | None = None,
        alpha: float = 1.0,
        *,
        fit_intercept: bool = True,
        tol: float = 1e-3,
        max_iter: int = 1000,
        cache_size: float = 200,
        warm_start: bool = False,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.kernel = kernel
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.cache_size = cache_size
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(
        self, X: TreesX, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Train.

        Parameters
        ----------
        X : Forest or sequence of str
            The training set.
        y : array of shape (len(X),) or (len(X), n_targets)
            Values.
        sample_weight : array of shape (len(X),), optional
            Factors of the errors per tree.

        Returns
        -------
        self
        """
        check_positive("alpha", self.alpha)
        forest, values = trees_to_fit(X), np.asarray(y)
        check_consistent_length(forest, values)
        costs = 0.5 / self.alpha * checked_weights(forest, sample_weight)
        if values.ndim == 2:
            costs = np.repeat(costs[:, None], values.shape[1], axis=1)
        self._train(
            forest,
            values,
            costs,
            loss="squared_epsilon_insensitive",
            epsilon=0.0,
            intercept="free" if self.fit_intercept else "none",
        )
        return self
