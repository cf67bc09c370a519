"""Estimators over trees that are trained by a `KernelMachine`, without a kernel matrix.

They follow scikit-learn's names and rules. Training needs memory for a number per tree, a
model of the support trees, and the kernel matrix of a batch; see docs/LEARNING.md.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from treekernel_rs._core import as_tree
from treekernel_rs._extras import SKLEARN, needs
from treekernel_rs._strangers import scores_of
from treekernel_rs.dag import DagModel, Fragment
from treekernel_rs.solve import KernelMachine
from treekernel_rs.tree_kernels import TreeKernel

with needs(__name__, SKLEARN, "sklearn"):
    from sklearn.base import OutlierMixin, RegressorMixin
    from sklearn.utils import check_consistent_length, column_or_1d
    from sklearn.utils.validation import check_is_fitted

    from treekernel_rs.estimators import (
        _Explained,
        _labelled,
        _labels,
        _one_vs_rest_costs,
        _positive,
        _relative,
        _run,
        _sample_weights,
        _Scored,
        _seed,
        _signs,
        _TreeEstimator,
        _trees,
        _trees_to_fit,
    )


if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

    from treekernel_rs._core import Forest, Tree
    from treekernel_rs.estimators import TreesX

__all__ = [
    "TreeLogisticRegression",
    "TreeOneClassSVM",
    "TreeRanker",
    "TreeRidge",
    "TreeSVR",
]


class _Machine(_TreeEstimator):
    """The shared part of estimators that train a `KernelMachine`."""

    C: float
    tol: float
    max_iter: int
    cache_size: float
    warm_start: bool
    random_state: int | np.random.RandomState | None
    n_jobs: int | None
    verbose: bool
    machine_: KernelMachine
    model_: DagModel
    _price: float

    def _train(self, forest: Forest, y: Any, C: Any, **parameters: Any) -> None:
        """Train a machine and store its results."""
        self.kernel_, seed = self._kernel(), _seed(self.random_state)
        machine = KernelMachine(
            self.kernel_, forest, y, C=C, random_state=seed, **parameters
        )
        before: KernelMachine | None = getattr(self, "machine_", None)
        price = float(np.max(C))
        if self.warm_start and before is not None and machine.is_like(before):
            # Bounds of other weights may leave no room for what was found.
            with suppress(ValueError):
                machine.start_from(before, price / self._price)
        # An interrupted fit with warm_start goes on from here.
        self.machine_, self._price = machine, price
        try:
            _run(machine, self)
        finally:
            self.n_iter_ = machine.n_iter
        dual = machine.dual_coef.reshape(len(forest), -1)
        self.support_ = np.flatnonzero((dual != 0).any(axis=1))
        self.dual_coef_ = np.ascontiguousarray(dual[self.support_].T)
        self.intercept_ = machine.intercept
        self.dual_gap_ = _relative(machine)
        self.model_ = machine.model()

    def _scores(self, X: TreesX) -> NDArray[np.float64]:
        check_is_fitted(self, "model_")
        return scores_of(self.model_, _trees(X), self.n_jobs)

    def _model(self) -> DagModel:
        check_is_fitted(self, "model_")
        return self.model_

    def top_fragments(self, k: int = 10, **options: Any) -> list[Fragment]:
        """Find the fragments with the largest weights in the scores.

        Parameters
        ----------
        k : int, default 10
            How many.
        **options
            As in `DagModel.top_fragments`.

        Returns
        -------
        list of Fragment

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> svr = tk.TreeSVR(tk.SubsetTreeKernel(0.4)).fit(["(A a)", "(A b)"], [0, 1])
        >>> svr.top_fragments(1)
        [<Fragment +0.4: (A b)>]
        """
        return self._model().top_fragments(k, **options)

    def contributions(self, tree: Tree | str | object) -> NDArray[np.float64]:
        """Compute how much each node of a tree adds to its score.

        Parameters
        ----------
        tree : Tree, str or object as in Forest.from_trees
            The tree.

        Returns
        -------
        ndarray of float64, shape (n_nodes,)
            By node, in preorder.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> svr = tk.TreeSVR(tk.SubsetTreeKernel(0.4)).fit(["(A a)", "(A b)"], [0, 1])
        >>> svr.contributions("(S (A b))").round(2)
        array([0. , 0.4, 0. ])
        """
        return self._model().contributions(as_tree(tree))


class TreeLogisticRegression(_Machine, _Explained):
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
    random_state : int, RandomState or None, default 0
        Seed of the order of examples.
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
        random_state: int | np.random.RandomState | None = 0,
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
        _positive("C", self.C)
        forest, classes, codes = _labelled(X, y)
        weights = _sample_weights(forest, sample_weight)
        costs = _one_vs_rest_costs(self.class_weight, classes, codes, weights)
        self._train(
            forest,
            _signs(codes, len(classes)),
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
        return _labels(self._scores(X), self.classes_)

    # Both bases have them; these know classes.
    top_fragments = _Explained.top_fragments  # type: ignore[assignment]
    contributions = _Explained.contributions


class _Regressor(RegressorMixin, _Machine, _Scored):  # type: ignore[misc]
    """Machines whose scores are predictions."""

    def predict(self, X: TreesX) -> NDArray[np.float64]:
        """Predict values.

        Parameters
        ----------
        X : Forest or sequence of str
            The trees.

        Returns
        -------
        ndarray of float64, of the shape of y
        """
        return self._scores(X)


class TreeSVR(_Regressor):
    """Support vector regression over trees.

    It solves the problem of scikit-learn's `SVR` with a precomputed kernel.

    Parameters
    ----------
    kernel : TreeKernel, optional
        By default ``SubsetTreeKernel(0.4)``. Its parameters are set and searched as
        ``kernel__decay`` and so on.
    C : float, default 1
        Penalty for errors, as in `SVR`.
    epsilon : float, default 0.1
        Errors up to epsilon cost nothing.
    loss : {"epsilon_insensitive", "squared_epsilon_insensitive"}
        Whether larger errors cost the excess or its square.
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
    >>> model = tk.TreeSVR(tk.SubsetTreeKernel(0.4), C=10).fit(X, [1, 2, 4, 3])
    >>> model.predict(X).round(1)
    array([1.1, 1.9, 3.9, 2.9])
    """

    def __init__(
        self,
        kernel: TreeKernel | None = None,
        C: float = 1.0,
        epsilon: float = 0.1,
        *,
        loss: Literal[
            "epsilon_insensitive", "squared_epsilon_insensitive"
        ] = "epsilon_insensitive",
        tol: float = 1e-3,
        max_iter: int = 1000,
        cache_size: float = 200,
        warm_start: bool = False,
        random_state: int | np.random.RandomState | None = 0,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.kernel = kernel
        self.C = C
        self.epsilon = epsilon
        self.loss = loss
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
            Values.
        sample_weight : array of shape (len(X),), optional
            Factors of `C` per tree.

        Returns
        -------
        self
        """
        _positive("C", self.C)
        if self.loss not in ("epsilon_insensitive", "squared_epsilon_insensitive"):
            msg = (
                "loss must be 'epsilon_insensitive' or 'squared_epsilon_insensitive', "
                f"got {self.loss!r}"
            )
            raise ValueError(msg)
        forest = _trees_to_fit(X)
        values = column_or_1d(y, warn=True)
        check_consistent_length(forest, values)
        costs = self.C * _sample_weights(forest, sample_weight)
        self._train(forest, values, costs, loss=self.loss, epsilon=self.epsilon)
        return self


class TreeRidge(_Regressor):
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
        random_state: int | np.random.RandomState | None = 0,
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
        _positive("alpha", self.alpha)
        forest, values = _trees_to_fit(X), np.asarray(y)
        check_consistent_length(forest, values)
        costs = 0.5 / self.alpha * _sample_weights(forest, sample_weight)
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


class TreeRanker(_Machine):
    """Learn to rank trees from preferences: a ranking support vector machine.

    For every two trees of a group, the tree with the larger y should have a score that is
    higher by at least 1.

    Parameters
    ----------
    kernel : TreeKernel, optional
        By default ``SubsetTreeKernel(0.4)``. Its parameters are set and searched as
        ``kernel__decay`` and so on.
    C : float, default 1
        Penalty for violated preferences.
    loss : {"hinge", "squared_hinge", "logistic"}
        The loss of a preference.
    tol, max_iter, cache_size, warm_start, random_state, n_jobs, verbose
        As in `TreeLogisticRegression`.

    Attributes
    ----------
    kernel_, model_, support_, dual_coef_, intercept_, n_iter_, dual_gap_
        As in `TreeLogisticRegression`; the intercept is 0.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> X = ["(S (A a) (B b))", "(S (A a) (C c))", "(S (B b) (B b))", "(S (C c) (B b))"]
    >>> ranker = tk.TreeRanker(tk.SubsetTreeKernel(0.4), C=10).fit(X, [1, 2, 4, 3])
    >>> ranker.predict(X).argsort()
    array([0, 1, 3, 2])
    >>> ranker.score(X, [1, 2, 4, 3])
    1.0
    """

    def __init__(
        self,
        kernel: TreeKernel | None = None,
        C: float = 1.0,
        *,
        loss: Literal["hinge", "squared_hinge", "logistic"] = "hinge",
        tol: float = 1e-3,
        max_iter: int = 1000,
        cache_size: float = 200,
        warm_start: bool = False,
        random_state: int | np.random.RandomState | None = 0,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.kernel = kernel
        self.C = C
        self.loss = loss
        self.tol = tol
        self.max_iter = max_iter
        self.cache_size = cache_size
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(
        self,
        X: TreesX,
        y: ArrayLike,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Train.

        Parameters
        ----------
        X : Forest or sequence of str
            The training set.
        y : array of shape (len(X),)
            Ranks: larger is better.
        groups : array of shape (len(X),), optional
            Trees of different groups, such as answers to different questions, are not
            compared.
        sample_weight : array of shape (len(X),), optional
            Factors per tree. The weight of a preference is the product of its two factors.

        Returns
        -------
        self
        """
        _positive("C", self.C)
        if self.loss not in ("hinge", "squared_hinge", "logistic"):
            msg = (
                "loss must be 'hinge', 'squared_hinge' or 'logistic', "
                f"got {self.loss!r}"
            )
            raise ValueError(msg)
        forest, ranks = _trees_to_fit(X), column_or_1d(y, warn=True)
        of = np.zeros(len(forest)) if groups is None else column_or_1d(groups)
        check_consistent_length(forest, ranks, of)
        weights = _sample_weights(forest, sample_weight)
        pairs = _preferences(ranks, of)
        if not len(pairs):
            msg = (
                "y must rank some tree above another of its group, got no such pair "
                f"(n_samples={len(forest)})"
            )
            raise ValueError(msg)
        costs = self.C * weights[pairs[:, 0]] * weights[pairs[:, 1]]
        self._train(
            forest, None, costs, loss=self.loss, intercept="none", preferences=pairs
        )
        return self

    def predict(self, X: TreesX) -> NDArray[np.float64]:
        """Score trees: the larger, the better.

        Parameters
        ----------
        X : Forest or sequence of str
            The trees.

        Returns
        -------
        ndarray of float64, shape (len(X),)
        """
        return self._scores(X)

    def score(self, X: TreesX, y: ArrayLike, groups: ArrayLike | None = None) -> float:
        """Compute the share of preferences that the scores satisfy; equal scores count half.

        Parameters
        ----------
        X : Forest or sequence of str
            The trees.
        y : array of shape (len(X),)
            Ranks.
        groups : array of shape (len(X),), optional
            As in `fit`.

        Returns
        -------
        float
        """
        scores, ranks = self.predict(X), column_or_1d(y)
        of = np.zeros(len(scores)) if groups is None else column_or_1d(groups)
        pairs = _preferences(ranks, of)
        ahead = np.sign(scores[pairs[:, 0]] - scores[pairs[:, 1]])
        return float((0.5 + 0.5 * ahead).mean())


class TreeOneClassSVM(OutlierMixin, _Machine):  # type: ignore[misc]
    """Detect trees that are unlike the training set.

    It solves the problem of scikit-learn's `OneClassSVM` with a precomputed kernel.

    Parameters
    ----------
    kernel : TreeKernel, optional
        By default ``SubsetTreeKernel(0.4)``. Its parameters are set and searched as
        ``kernel__decay`` and so on.
    nu : float, default 0.5
        At most this share of the training set are outliers, and at least this share are
        support trees.
    tol, max_iter, cache_size, warm_start, random_state, n_jobs, verbose
        As in `TreeLogisticRegression`.

    Attributes
    ----------
    kernel_, model_, support_, dual_coef_, intercept_, n_iter_, dual_gap_
        As in `TreeLogisticRegression`.
    offset_ : float
        `decision_function` is `score_samples` minus this.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> X = ["(S (A a) (B b))", "(S (A a) (B b))", "(S (A a) (B c))", "(X (Y y))"]
    >>> model = tk.TreeOneClassSVM(tk.SubsetTreeKernel(0.4, normalize=True), nu=0.5).fit(X)
    >>> model.predict(["(V (A a) (W w))"])
    array([-1])
    >>> model.decision_function(["(V (A a) (W w))"]).round(2)
    array([-0.61])
    >>> model.score_samples(["(V (A a) (W w))"]).round(2)
    array([0.28])
    """

    if TYPE_CHECKING:

        def fit_predict(self, X: TreesX, y: object = ...) -> NDArray[np.int64]:
            """Train, and predict the training set."""

    def __init__(
        self,
        kernel: TreeKernel | None = None,
        nu: float = 0.5,
        *,
        tol: float = 1e-3,
        max_iter: int = 1000,
        cache_size: float = 200,
        warm_start: bool = False,
        random_state: int | np.random.RandomState | None = 0,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.kernel = kernel
        self.nu = nu
        self.tol = tol
        self.max_iter = max_iter
        self.cache_size = cache_size
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(
        self, X: TreesX, y: object = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Train.

        Parameters
        ----------
        X : Forest or sequence of str
            The training set.
        y : ignored
        sample_weight : array of shape (len(X),), optional
            How often each tree counts.

        Returns
        -------
        self
        """
        forest = _trees_to_fit(X)
        weights = _sample_weights(forest, sample_weight)
        self._train(forest, None, weights, loss="one_class", nu=self.nu)
        self.offset_ = -float(self.intercept_[0])
        return self

    def decision_function(self, X: TreesX) -> NDArray[np.float64]:
        """Compute how similar trees are to the training set; below 0 for outliers.

        Parameters
        ----------
        X : Forest or sequence of str
            The trees.

        Returns
        -------
        ndarray of float64, shape (len(X),)
        """
        return self._scores(X)

    def score_samples(self, X: TreesX) -> NDArray[np.float64]:
        """Compute `decision_function` plus `offset_`.

        Parameters
        ----------
        X : Forest or sequence of str
            The trees.

        Returns
        -------
        ndarray of float64, shape (len(X),)
        """
        return self._scores(X) + self.offset_

    def predict(self, X: TreesX) -> NDArray[np.int64]:
        """Predict -1 for outliers and 1 for the other trees.

        Parameters
        ----------
        X : Forest or sequence of str
            The trees.

        Returns
        -------
        ndarray of int, shape (len(X),)
        """
        return np.where(self._scores(X) >= 0, 1, -1)


def _preferences(ranks: NDArray[Any], groups: NDArray[Any]) -> NDArray[np.int64]:
    """Return all pairs of one group with the first ranked higher."""
    found = [np.empty((0, 2), np.int64)]
    order = np.argsort(groups, kind="stable")
    ends = np.flatnonzero(groups[order][1:] != groups[order][:-1]) + 1
    for own in np.split(order, ends):
        better, worse = np.nonzero(ranks[own][:, None] > ranks[own][None, :])
        found.append(np.column_stack([own[better], own[worse]]))
    return np.concatenate(found)
