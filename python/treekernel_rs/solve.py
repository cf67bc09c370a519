"""Kernel machines over trees, trained exactly and without the matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from treekernel_rs import _core
from treekernel_rs._arguments import (
    check_floats,
    check_integer,
    check_jobs,
    check_number,
    progress_callback,
)
from treekernel_rs._core import __version__, as_forest
from treekernel_rs._held import HeldKernel
from treekernel_rs._model_arrays import shaped
from treekernel_rs._public import listing
from treekernel_rs._versions import warn_if_other
from treekernel_rs._wording import plural
from treekernel_rs.dag import DagModel
from treekernel_rs.tree_kernels import TreeKernel, copied_kernel
from treekernel_rs.vectors import VectorPolynomial, vector_parts

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from treekernel_rs._arguments import Progress, Trees
    from treekernel_rs._core import Solver

__all__ = ["KernelMachine"]
__dir__ = listing(__all__)

Loss = Literal[
    "hinge",
    "squared_hinge",
    "logistic",
    "epsilon_insensitive",
    "squared_epsilon_insensitive",
    "one_class",
]


class KernelMachine:
    """The solver behind the estimators, with control over its training.

    It minimises ``|w|^2 / 2 + sum_i c_i loss(y_i, S(x_i))`` with ``S(x) = <w, phi(x)> + b``
    by its dual. ``w`` is a `DagModel`, so only the kernel matrix of a batch is needed.
    Results do not depend on the number of threads. A machine that was interrupted or pickled
    continues with the same results as without the interruption.

    Parameters
    ----------
    kernel : TreeKernel
        The kernel. If its `DagModel` is no graph, a pass takes a kernel for each of its
        examples and each support tree.
    X : Forest or sequence of str
        The trees.
    y : array-like, shape (n_trees,) or (n_trees, n_outputs), optional
        Labels -1 and 1, or values. Several columns are several machines that are trained
        together. Not used for "one_class" and preferences.
    loss : str, default "hinge"
        "hinge", "squared_hinge", "logistic", "epsilon_insensitive",
        "squared_epsilon_insensitive" (with ``epsilon=0`` ridge regression) or "one_class".
    C : float or array-like of the shape of y, default 1
        Weight of each example's loss.
    epsilon : float, default 0.1
        The half width of the tube of the "epsilon" losses.
    nu : float, default 0.5
        For "one_class": a bound on the share of outliers, above 0 and up to 1.
    intercept : {"free", "feature", "none"}, default "free"
        The constant of scores. "free": not regularised, as in `SVC` and `SVR`. "feature":
        the weight of a feature, which is a part of w, as in `LinearSVC`. "none": no
        constant.
    intercept_scaling : float, default 1
        The value of that feature.
    preferences : array-like of int, shape (n, 2), optional
        Examples that are pairs of trees. The first tree should score higher, with "hinge" by
        at least 1. Requires ``intercept="none"``.
    X_vec : array-like or CSR matrix, shape (n_trees, n_features), optional
        Feature vectors of the trees, if `vectors` is set.
    vectors : VectorPolynomial, optional
        The kernel of feature vectors that come with the trees, as in `Perceptron`.
    mix : float, default 1
        The kernel is ``mix * K_tree + (1 - mix) * K_vectors``. Scores take a dot product
        with the vector of each support tree.
    random_state : int, default 0
        Seed of the order of examples.

    Attributes
    ----------
    n_iter : int
        Passes so far.
    violation : float
        How far the last solution is from an exact one, in units of scores.
    objective, dual_gap : ndarray, shape (n_outputs,)
        The objective of that solution, and a bound on how far it is from the minimum.
    dual_coef : ndarray, shape (n_trees,) or (n_trees, n_outputs)
        The weights of the trees.
    intercept : ndarray, shape (n_outputs,)
        Intercept of each output.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> X = ["(S (A a) (B b))", "(S (A a) (C c))", "(S (B b) (B b))", "(S (C c) (B b))"]
    >>> machine = tk.solve.KernelMachine(tk.SubsetTreeKernel(0.4), X, [-1, -1, 1, 1], C=10)
    >>> machine.run()
    True
    >>> machine.dual_coef.round(2)
    array([-0.84, -0.5 ,  0.5 ,  0.84])
    >>> machine.model().decision_function(X).round(2)
    array([-1., -1.,  1.,  1.])
    """

    kernel = HeldKernel[TreeKernel]()

    def __init__(
        self,
        kernel: TreeKernel,
        X: Trees,
        y: ArrayLike | None = None,
        *,
        loss: Loss = "hinge",
        C: ArrayLike = 1.0,
        epsilon: float = 0.1,
        nu: float = 0.5,
        intercept: Literal["free", "feature", "none"] = "free",
        intercept_scaling: float = 1.0,
        preferences: ArrayLike | None = None,
        X_vec: Any = None,
        vectors: VectorPolynomial | None = None,
        mix: float = 1.0,
        random_state: int = 0,
    ) -> None:
        self.kernel = copied_kernel(kernel)
        self.forest = as_forest(X)
        kinds = {"free": None, "feature": intercept_scaling, "none": 0.0}
        if intercept not in kinds:
            msg = f"intercept must be 'free', 'feature' or 'none', got {intercept!r}"
            raise ValueError(msg)
        constant = kinds[intercept]
        pairs = None if preferences is None else np.asarray(preferences)
        if pairs is not None and (pairs.ndim != 2 or pairs.shape[1] != 2):
            msg = f"preferences must be of shape (n, 2), got {pairs.shape}"
            raise ValueError(msg)
        n = len(self.forest) if pairs is None else len(pairs)
        targets = np.ones(n) if y is None else check_floats("y", y)
        if y is None and pairs is None and loss != "one_class":
            msg = f"y must be given for loss={loss!r}"
            raise ValueError(msg)
        if targets.ndim not in (1, 2) or len(targets) != n:
            msg = f"y must be of shape ({n},) or ({n}, n_outputs), got {targets.shape}"
            raise ValueError(msg)
        self.n_outputs = 1 if targets.ndim == 1 else targets.shape[1]
        costs = check_floats("C", C)
        if costs.shape not in ((1,), targets.shape):
            msg = f"C must be a number or of shape {targets.shape}, got {costs.shape}"
            raise ValueError(msg)
        costs = np.ascontiguousarray(np.broadcast_to(costs, targets.shape))
        number = check_number("epsilon", epsilon)
        if loss == "one_class":
            if not 0 < (nu := check_number("nu", nu)) <= 1:
                msg = f"nu must be above 0 and at most 1, got {nu}"
                raise ValueError(msg)
            number = nu * float(costs.sum()) / self.n_outputs
        beside = self._beside(X_vec, vectors, check_number("mix", mix))
        self._core: Solver = _core.Solver(
            self.kernel._core,
            self.kernel.normalize,
            self.forest,
            loss,
            number,
            None if constant is None else check_number("intercept_scaling", constant),
            targets.ravel(),
            costs.ravel(),
            self.n_outputs,
            None if pairs is None else pairs.ravel(),
            beside,
            check_integer("random_state", random_state) & (2**64 - 1),
        )
        self._made: dict[str, Any] = {
            "y": targets,
            "loss": loss,
            "C": costs,
            "epsilon": epsilon,
            "nu": nu,
            "intercept": intercept,
            "intercept_scaling": intercept_scaling,
            "preferences": pairs,
            "X_vec": X_vec,
            "vectors": None if vectors is None else vectors.replace(),
            "mix": mix,
            "random_state": random_state,
        }

    def _beside(
        self, X_vec: Any, vectors: VectorPolynomial | None, mix: float
    ) -> tuple[tuple[int, float, float], float, tuple[Any, ...]] | None:
        if vectors is not None and not isinstance(vectors, VectorPolynomial):
            msg = f"vectors must be a VectorPolynomial or None, got {vectors!r}"
            raise ValueError(msg)
        if (X_vec is None) != (vectors is None):
            msg = "X_vec and vectors must be given together"
            raise ValueError(msg)
        given = vector_parts(X_vec, len(self.forest))
        if vectors is None or given is None:
            if mix != 1:
                msg = f"mix must be 1 without vectors, got {mix}"
                raise ValueError(msg)
            return None
        return vectors.replace()._make(), mix, given

    def run(
        self,
        *,
        tol: float = 1e-3,
        max_iter: int = 1000,
        cache_size: float = 200,
        n_jobs: int | None = None,
        progress: Progress | bool | None = None,
    ) -> bool:
        """Train, or continue to train, until the violation is at most `tol`.

        Ctrl-C, or an exception of `progress`, ends the call; the results of the finished
        passes are kept.

        Parameters
        ----------
        tol : float, default 1e-3
            Training stops when the violation is at most this.
        max_iter : int, default 1000
            The largest number of passes, including those of earlier calls.
        cache_size : float, default 200
            Megabytes of the kernel matrix of a batch. Larger batches need fewer passes.
        n_jobs : int, optional
            Threads; by default and for -1 all cores the process may use.
        progress : callable or True, optional
            Called with the number of passes done and their limit; True shows a bar.

        Returns
        -------
        bool
            Whether the violation is at most `tol`. If not, training ended at `max_iter`, or
            earlier: where kernels times C are so large that rounding allows no such `tol`,
            it ends when passes no longer lower the violation or improve the dual objective.
        """
        tol, cache_size = (
            check_number("tol", tol),
            check_number("cache_size", cache_size),
        )
        max_iter = check_integer("max_iter", max_iter)
        for name, value in (("tol", tol), ("max_iter", max_iter)):
            if not 0 <= value < 2**63:
                msg = f"{name} must be at least 0 and below 2**63, got {value}"
                raise ValueError(msg)
        if not 0 < cache_size < 2**40:
            msg = f"cache_size must be above 0 and below 2**40, got {cache_size}"
            raise ValueError(msg)
        cache, told = (
            int(cache_size * 2**20),
            progress_callback(progress, type(self).__name__, "tree"),
        )
        return self._core.run(tol, max_iter, cache, check_jobs(n_jobs), told)

    def start_from(self, other: KernelMachine, factor: float = 1.0) -> Self:
        """Start from the solution of another machine over the same examples.

        Parameters
        ----------
        other : KernelMachine
            The other machine, for example with another `C`.
        factor : float, default 1
            The factor of its weights: the new C divided by the old one.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> X, y = ["(S (A a))", "(S (B b))"], [1, -1]
        >>> first = tk.solve.KernelMachine(tk.SubsetTreeKernel(0.4), X, y, C=1)
        >>> first.run()
        True
        >>> second = tk.solve.KernelMachine(tk.SubsetTreeKernel(0.4), X, y, C=2)
        >>> second.start_from(first, 2).run()
        True
        """
        state, own = other._core.state(True), self._core.state(False)
        own["betas"] = state["betas"] * factor
        own["intercept"], own["is_settled"] = state["intercept"], True
        self._core.set_state(own)
        return self

    def is_like(self, other: KernelMachine) -> bool:
        """Whether another machine has the same problem, except for C.

        The same are kernel, trees, targets or preferences, loss, intercept, and vectors.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> machine = tk.solve.KernelMachine(tk.SubsetTreeKernel(0.4), ["(A a)"], [1.0])
        >>> machine.is_like(machine)
        True
        """
        plain = ("loss", "epsilon", "nu", "intercept", "intercept_scaling", "mix")
        arrays = ("y", "preferences")
        own, theirs = self._made, other._made
        return (
            self.kernel == other.kernel
            and all(own[name] == theirs[name] for name in (*plain, "vectors"))
            and all(np.array_equal(own[name], theirs[name]) for name in arrays)
            and _same(self._vectors_of(), other._vectors_of())
            and self.forest == other.forest
        )

    def _vectors_of(self) -> tuple[Any, ...] | None:
        return vector_parts(self._made["X_vec"], len(self.forest))

    def decision_function(
        self, X: Trees, X_vec: Any = None, *, n_jobs: int | None = None
    ) -> NDArray[np.float64]:
        """Score trees, with feature vectors if the machine has them.

        Makes a model for the call; to score often without vectors, keep `model()`.

        Parameters
        ----------
        X : Forest or sequence of str
            The trees.
        X_vec : array-like or CSR matrix, shape (len(X), n_features), optional
            Their feature vectors.
        n_jobs : int, optional
            Threads; by default and for -1 all cores the process may use.

        Returns
        -------
        ndarray of float64, shape (len(X),) or (len(X), n_outputs)

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> kernel, X, y = tk.SubsetTreeKernel(0.4), ["(S a)", "(S b)"], [1, -1]
        >>> numbers, cubic = [[1.0, 0.0], [0.0, 1.0]], tk.kernels.VectorPolynomial(3)
        >>> machine = tk.solve.KernelMachine(kernel, X, y, X_vec=numbers, vectors=cubic, mix=0.5)
        >>> machine.run(), machine.decision_function(X, numbers).round(2)
        (True, array([ 1., -1.]))
        """
        x = as_forest(X)
        vectors = vector_parts(X_vec, len(x))
        scores = self._core.score(x, vectors, check_jobs(n_jobs), None)
        return shaped(scores, self.n_outputs)

    def model(self) -> DagModel:
        """Make a model with these scores; of a machine with vectors, of their trees' part.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> machine = tk.solve.KernelMachine(tk.SubsetTreeKernel(0.4), ["(A a)"], [1.0])
        >>> machine.run(), machine.model().decision_function(["(A a)"])
        (True, array([1.]))
        """
        return DagModel.from_dual(
            self.kernel,
            self.forest,
            self._made["mix"] * self.dual_coef.reshape(-1, self.n_outputs),
            self.intercept,
        )

    @property
    def dual_coef(self) -> NDArray[np.float64]:
        """The weights of the trees."""
        return shaped(self._core.dual_coef(), self.n_outputs)

    @property
    def intercept(self) -> NDArray[np.float64]:
        """Intercept of each output."""
        constants: NDArray[np.float64] = self._core.state(True)["intercept"]
        return constants

    @property
    def n_iter(self) -> int:
        """Passes so far."""
        return int(self._core.state(True)["n_iter"])

    @property
    def violation(self) -> float:
        """How far the last solution is from an exact one, in units of scores."""
        return float(self._core.state(True)["violation"])

    @property
    def objective(self) -> NDArray[np.float64]:
        """The objective of the last solution."""
        objective: NDArray[np.float64] = self._core.state(True)["primal"]
        return objective

    @property
    def dual_gap(self) -> NDArray[np.float64]:
        """A bound on how far the objective is from its minimum."""
        gap: NDArray[np.float64] = self._core.state(True)["gap"]
        return gap

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the examples, and what was learned."""
        state = self._core.state(False)
        made = (self._made, state, __version__)
        return _restored, (type(self), self.kernel, self.forest, *made)

    def __repr__(self) -> str:
        """Name the kernel, the loss and the passes so far."""
        return (
            f"<{type(self).__name__}: {self.kernel!r}, {self._made['loss']}, "
            f"{plural(len(self._made['y']), 'example')}, "
            f"{self.n_iter} passes>"
        )


def _same(one: tuple[Any, ...] | None, other: tuple[Any, ...] | None) -> bool:
    """Whether two are the same vectors, in the same form."""
    if one is None or other is None:
        return one is other
    return len(one) == len(other) and all(map(np.array_equal, one, other))


def _restored(
    of: type[KernelMachine],
    kernel: TreeKernel,
    forest: Trees,
    made: dict[str, Any],
    state: dict[str, Any],
    version: str | None = None,
) -> KernelMachine:
    warn_if_other(version)
    machine = of(kernel, forest, **made)
    machine._core.set_state(state)
    return machine
