"""Learning to rank trees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from sklearn.utils import check_consistent_length, column_or_1d

from treekernel_rs.estimators._inputs import (
    check_positive,
    checked_weights,
    trees_to_fit,
)
from treekernel_rs.estimators._machine import MachineEstimator
from treekernel_rs.tree_kernels import TreeKernel

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from treekernel_rs.estimators._inputs import TreesX


class TreeRanker(MachineEstimator):
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
        random_state: int | np.random.RandomState | None = None,
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
        check_positive("C", self.C)
        if self.loss not in ("hinge", "squared_hinge", "logistic"):
            msg = (
                "loss must be 'hinge', 'squared_hinge' or 'logistic', "
                f"got {self.loss!r}"
            )
            raise ValueError(msg)
        forest, ranks = trees_to_fit(X), column_or_1d(y, warn=True)
        of = np.zeros(len(forest)) if groups is None else column_or_1d(groups)
        check_consistent_length(forest, ranks, of)
        weights = checked_weights(forest, sample_weight)
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


def _preferences(ranks: NDArray[Any], groups: NDArray[Any]) -> NDArray[np.int64]:
    """Return all pairs of one group with the first ranked higher."""
    found = [np.empty((0, 2), np.int64)]
    order = np.argsort(groups, kind="stable")
    ends = np.flatnonzero(groups[order][1:] != groups[order][:-1]) + 1
    for own in np.split(order, ends):
        better, worse = np.nonzero(ranks[own][:, None] > ranks[own][None, :])
        found.append(np.column_stack([own[better], own[worse]]))
    return np.concatenate(found)
