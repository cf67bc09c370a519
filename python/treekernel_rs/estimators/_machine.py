"""Estimators that are trained by a `KernelMachine`, without a kernel matrix.

They follow scikit-learn's names and rules. Training needs memory for a number per tree, a
model of the support trees, and the kernel matrix of a batch; see docs/LEARNING.md.
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from treekernel_rs._core import Forest, as_tree
from treekernel_rs._strangers import scores_of
from treekernel_rs.dag import DagModel
from treekernel_rs.estimators._base import Predictor, TreeEstimator
from treekernel_rs.estimators._inputs import as_trees, drawn_seed
from treekernel_rs.solve import KernelMachine

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from treekernel_rs._core import Tree
    from treekernel_rs.dag import Fragment
    from treekernel_rs.estimators._inputs import TreesX


class MachineEstimator(TreeEstimator):
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
        self.kernel_, seed = self._kernel(), drawn_seed(self.random_state)
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
            run_machine(machine, self)
        finally:
            self.n_iter_ = machine.n_iter
        dual = machine.dual_coef.reshape(len(forest), -1)
        self.support_ = np.flatnonzero((dual != 0).any(axis=1))
        self.dual_coef_ = np.ascontiguousarray(dual[self.support_].T)
        self.intercept_ = machine.intercept
        self.dual_gap_ = relative_gap(machine)
        self.model_ = machine.model()

    def _scores(self, X: TreesX) -> NDArray[np.float64]:
        check_is_fitted(self, "model_")
        return scores_of(self.model_, as_trees(X), self.n_jobs)

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


class MachineRegressor(RegressorMixin, MachineEstimator, Predictor):
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


def run_machine(machine: KernelMachine, own: Any) -> KernelMachine:
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
            f"the objective is up to {relative_gap(machine).max():.2g} times its size above "
            f"the minimum; {remedy}",
            ConvergenceWarning,
            stacklevel=3,
        )
    return machine


def relative_gap(machine: KernelMachine) -> NDArray[np.float64]:
    """Return the duality gap as a share of the objective."""
    size = np.maximum(np.abs(machine.objective), np.finfo(float).tiny)
    gap: NDArray[np.float64] = machine.dual_gap / size
    return gap
