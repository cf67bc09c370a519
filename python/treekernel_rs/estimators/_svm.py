"""Support vector machines over trees."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from sklearn.base import OutlierMixin
from sklearn.svm import SVC
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import check_is_fitted

from treekernel_rs._core import Forest
from treekernel_rs._model_arrays import one_vs_one
from treekernel_rs._strangers import scores_of
from treekernel_rs.dag import DagModel
from treekernel_rs.estimators._classifier import (
    ExplainedClassifier,
    best_labels,
    one_vs_rest_costs,
    one_vs_rest_signs,
)
from treekernel_rs.estimators._inputs import (
    as_trees,
    check_positive,
    checked_weights,
    drawn_seed,
    trees_to_fit,
    trees_with_classes,
)
from treekernel_rs.estimators._machine import (
    MachineEstimator,
    MachineRegressor,
    relative_gap,
    run_machine,
)
from treekernel_rs.solve import KernelMachine
from treekernel_rs.tree_kernels import TreeKernel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

    from treekernel_rs.estimators._inputs import TreesX


#: Up to so many trees an `SVC` on the matrix is faster.
_FEW = 6000


class TreeSVC(ExplainedClassifier):
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
        By default ``SubsetTreeKernel(0.4)``. Its parameters are set and searched as
        ``kernel__decay`` and so on. If its `DagModel` is not a graph (a product, a power,
        `Gaussian`, similar labels), a prediction takes a kernel for each support vector.
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
    random_state : int or RandomState, optional
        Seed of the order of examples in "model"; by default each `fit` has another order,
        and results differ within `tol`.
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
        random_state: int | np.random.RandomState | None = None,
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
        forest, classes, codes = trees_with_classes(X, y)
        check_positive("C", self.C)
        self.kernel_ = kernel
        is_paired = len(classes) > 2 and self.multi_class == "ovo"
        weights = checked_weights(forest, sample_weight)
        if is_paired:
            costs = weights * compute_sample_weight(self.class_weight, classes[codes])
        else:
            costs = one_vs_rest_costs(self.class_weight, classes, codes, weights)
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
            return best_labels(votes, self.classes_)
        return best_labels(scores, self.classes_)

    def _model(self) -> DagModel:
        check_is_fitted(self)
        return self.model_

    def _outputs(self) -> list[Any]:
        if self._pairs:
            return list(combinations(self.classes_, 2))
        return super()._outputs()

    def _scores(self, X: TreesX) -> NDArray[np.float64]:
        check_is_fitted(self)
        scores = scores_of(self.model_, as_trees(X), self.n_jobs)
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
        signs = one_vs_rest_signs(codes, max(2, weights.shape[1])).reshape(
            weights.shape
        )
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
        pairs = one_vs_one(svc.dual_coef_, svc.n_support_)
        dual = np.zeros((len(codes), pairs.shape[1]))
        dual[svc.support_] = pairs
        return dual.T, svc.intercept_

    def _each_of_model(
        self, forest: Forest, codes: NDArray[np.int64], costs: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """As `_each_of_matrix`, all in one."""
        signs = one_vs_rest_signs(codes, costs.shape[1] if costs.ndim == 2 else 2)
        machine = self._machine(forest, signs, costs)
        self.n_iter_ = np.full(machine.n_outputs, machine.n_iter)
        self.dual_gap_ = relative_gap(machine)
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
            self.dual_gap_[row] = relative_gap(machine)[0]
        return dual, intercept

    def _machine(
        self, forest: Forest, signs: NDArray[Any], costs: NDArray[Any]
    ) -> KernelMachine:
        seed = drawn_seed(self.random_state)
        machine = KernelMachine(self.kernel_, forest, signs, C=costs, random_state=seed)
        return run_machine(machine, self)


def _has_graph(kernel: TreeKernel) -> bool:
    """Whether a model of a kernel scores in a time that does not grow with support trees."""
    return DagModel(kernel).is_graph


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


class TreeSVR(MachineRegressor):
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
        *,
        epsilon: float = 0.1,
        loss: Literal[
            "epsilon_insensitive", "squared_epsilon_insensitive"
        ] = "epsilon_insensitive",
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
        check_positive("C", self.C)
        if self.loss not in ("epsilon_insensitive", "squared_epsilon_insensitive"):
            msg = (
                "loss must be 'epsilon_insensitive' or 'squared_epsilon_insensitive', "
                f"got {self.loss!r}"
            )
            raise ValueError(msg)
        forest = trees_to_fit(X)
        values = column_or_1d(y, warn=True)
        check_consistent_length(forest, values)
        costs = self.C * checked_weights(forest, sample_weight)
        self._train(forest, values, costs, loss=self.loss, epsilon=self.epsilon)
        return self


class TreeOneClassSVM(OutlierMixin, MachineEstimator):
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
        random_state: int | np.random.RandomState | None = None,
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
        forest = trees_to_fit(X)
        weights = checked_weights(forest, sample_weight)
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
