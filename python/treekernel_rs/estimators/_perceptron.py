"""The perceptron as a classifier for scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from treekernel_rs._core import Forest
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
    check_two_classes,
    checked_weights,
    trees_with_classes,
    trees_with_labels,
)
from treekernel_rs.perceptron import Perceptron
from treekernel_rs.tree_kernels import TreeKernel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

    from treekernel_rs.estimators._inputs import TreesX


class TreePerceptron(ExplainedClassifier):
    """A kernel perceptron over trees, trained tree by tree.

    With more than two classes there is one perceptron for each class against the rest. All of
    them share one model, so one pass over a tree computes all scores.

    Parameters
    ----------
    kernel : TreeKernel, optional
        By default ``SubsetTreeKernel(0.4)``. Its parameters are set and searched as
        ``kernel__decay`` and so on.
    predict_with : {"average", "last", "vote"}
        Predict with the averaged weights, with the last weights, or by a vote of all
        versions, each weighted by the examples seen while it was current.
    n_iter : int, default 5
        Passes of `fit` through the training set.
    shuffle : bool, default True
        Whether each pass of `fit` uses a new random order.
    class_weight : dict or "balanced", optional
        Factors of the weights of trees by class. "balanced" is for `fit` only.
    random_state : int or RandomState, optional
        Seed of the random order; by default each `fit` has another one.
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
        forest, classes, codes = trees_with_classes(X, y)
        weights = checked_weights(forest, sample_weight)
        costs = one_vs_rest_costs(self.class_weight, classes, codes, weights)
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
        given = known if classes is None else check_two_classes(np.unique(classes))
        if known is not None and not np.array_equal(known, given):
            msg = f"classes must be those of the first call, {known!r}, got {given!r}"
            raise ValueError(msg)
        forest, labels = trees_with_labels(X, y)
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
        weights = checked_weights(forest, sample_weight)
        codes = np.searchsorted(given, labels)
        costs = one_vs_rest_costs(self.class_weight, given, codes, weights)
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
        return scores_of(self.perceptron_, as_trees(X), self.n_jobs)

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
        return best_labels(self.decision_function(X), self.classes_)

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
        signs = one_vs_rest_signs(codes, len(self.classes_))
        self.perceptron_.partial_fit(
            forest, signs, sample_weight=costs, progress=bool(self.verbose)
        )
