"""Models that are trained on partitions."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import dask
import numpy as np
from dask.delayed import Delayed, delayed

from treekernel_rs._arguments import check_at_least_one, check_floats, check_number
from treekernel_rs._core import Forest
from treekernel_rs.dag import DagModel
from treekernel_rs.dask._partitions import Parts, as_parts
from treekernel_rs.solve import KernelMachine
from treekernel_rs.tree_kernels import copied_kernel

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from treekernel_rs.dask._partitions import Chunks, Partitions
    from treekernel_rs.tree_kernels import TreeKernel


class Mixture(NamedTuple):
    """A model that `fit_perceptron` has learned.

    Examples
    --------
    >>> import treekernel_rs as tk, treekernel_rs.dask
    >>> X, y = ["(S (A a))", "(S (B b))"], [1, -1]
    >>> model, n_mistakes = tk.dask.fit_perceptron(tk.SubsetTreeKernel(0.4), X, y)
    >>> bool((model.decision_function(X) > 0)[0]), n_mistakes[-1]
    (True, 0)
    """

    #: The mean of all versions, or the last mixture.
    model: DagModel
    #: Mistakes of each pass.
    n_mistakes: list[int]


class Solution(NamedTuple):
    """A machine that `fit_svm` has trained.

    Examples
    --------
    >>> import treekernel_rs as tk, treekernel_rs.dask
    >>> X, y = ["(S (A a))", "(S (B b))"], [1, -1]
    >>> solution = tk.dask.fit_svm(tk.SubsetTreeKernel(0.4), X, y, chunks=1)
    >>> solution.n_support.tolist(), bool(solution.dual_gap < 1e-3)
    ([1, 1], True)
    """

    #: The machine.
    model: DagModel
    #: The objective over all trees, and by how much it can be smaller at most: of each output.
    objective: NDArray[np.float64]
    dual_gap: NDArray[np.float64]
    #: By partition: how many trees were kept for the merged problem.
    n_support: NDArray[np.int64]
    #: Of each round, that of the partitions alone not counted: the largest gap, in parts of
    #: the objective.
    gaps: list[float]


def fit_perceptron(
    kernel: TreeKernel,
    X: Partitions,
    y: ArrayLike,
    *,
    n_iter: int = 5,
    average: bool = True,
    chunks: Chunks = None,
) -> Mixture:
    """Learn a perceptron on all partitions at once, by iterative parameter mixing.

    In each pass every partition goes on from the same model, and the models are mixed: their
    mean, each by its number of trees, begins the next pass (McDonald, Hall & Mann, NAACL 2010:
    where the classes can be separated, the number of mistakes is bounded as a perceptron's is).
    With a single partition it is the perceptron of one machine.

    Parameters
    ----------
    kernel : TreeKernel
        The kernel; no sum of kernels.
    X : Forest, sequence of str, or partitions
        The trees.
    y : array-like, shape (n_trees,) or (n_trees, n_outputs)
        Labels, -1 or 1.
    n_iter : int, default 5
        Passes.
    average : bool, default True
        Whether the model is the mean over all versions, or the last mixture.
    chunks : int or sequence of int, optional
        Trees of a partition. The model depends on it, not on the workers.

    Returns
    -------
    Mixture

    Examples
    --------
    >>> import treekernel_rs as tk, treekernel_rs.dask
    >>> X = ["(S (A a) (B b))", "(S (A a) (C c))", "(S (B b) (B b))", "(S (C c))"]
    >>> found = tk.dask.fit_perceptron(tk.SubsetTreeKernel(0.4), X, [1, -1, 1, -1], chunks=2)
    >>> found.model.decision_function(X) > 0
    array([ True, False,  True, False])
    """
    n_iter = check_at_least_one("n_iter", n_iter)
    parts = as_parts(X, chunks)
    labels, n_outputs = _labels(y, parts)
    model: Any = delayed(DagModel(kernel, n_outputs), traverse=False)
    kept = dask.persist(*parts.of)
    n_trees = max(sum(parts.sizes), 1)
    shares = [size / n_trees for size in parts.sizes]
    go, total = delayed(_pass, nout=3), None
    n_mistakes: list[int] = []
    for _ in range(n_iter):
        passes = [go(model, part, own) for part, own in zip(kept, labels, strict=True)]
        mixed = _merged([last for last, _, _ in passes], shares)
        sums = _merged([versions for _, versions, _ in passes], [1.0] * len(passes))
        sums = sums if total is None else _merged([total, sums], [1.0, 1.0])
        mistakes = delayed(sum)([n for _, _, n in passes])
        # What begins the next pass stays where it is. The schedule may read the graph after
        # this call: until it has been computed nothing that it needs is given up.
        new = dask.persist(mixed, sums, mistakes)
        n_mistakes.append(new[2].compute())
        model, total, _ = new
    scale = 1.0 / (n_iter * n_trees)
    wanted = delayed(_sum_of)([total], [scale]) if average else model
    return Mixture(wanted.compute(), n_mistakes)


def fit_svm(
    kernel: TreeKernel,
    X: Partitions,
    y: ArrayLike,
    *,
    C: float = 1.0,
    loss: Literal["hinge", "squared_hinge"] = "hinge",
    intercept: Literal["free", "none"] = "free",
    tol: float = 1e-3,
    max_rounds: int = 20,
    chunks: Chunks = None,
    n_jobs: int = 1,
) -> Solution:
    """Train a support vector machine on partitions, with a bound on its distance to the optimum.

    Each partition trains a machine of its own and sends its support trees; one machine is
    trained on all of these, and scores every partition (the cascade of Graf et al., NIPS 2004).
    Trees that cost anything and were not sent are sent in the next round. The duality gap is
    that of the whole problem, computed exactly: the objective is at most `dual_gap` above the
    smallest that any machine over these trees has. Rounds end where the gap is at most
    `tol` of the objective, for every output; each but the last adds trees, so they do end.

    Parameters
    ----------
    kernel : TreeKernel
        The kernel.
    X : Forest, sequence of str, or partitions
        The trees.
    y : array-like, shape (n_trees,) or (n_trees, n_outputs)
        Labels, -1 or 1.
    C, loss, intercept
        As in `KernelMachine`; one C for all.
    tol : float, default 1e-3
        The largest duality gap, as a share of the objective.
    max_rounds : int, default 20
        Limit of merged machines.
    chunks : int or sequence of int, optional
        Trees of a partition.
    n_jobs : int, default 1
        Threads of each task.

    Returns
    -------
    Solution

    Warns
    -----
    RuntimeWarning
        If `max_rounds` were not enough: `dual_gap` says how far it is.

    Examples
    --------
    >>> import treekernel_rs as tk, treekernel_rs.dask
    >>> X = ["(S (A a) (B b))", "(S (A a) (C c))", "(S (B b) (B b))", "(S (C c) (B b))"]
    >>> found = tk.dask.fit_svm(
    ...     tk.SubsetTreeKernel(0.4), X, [-1, -1, 1, 1], C=10, chunks=2, tol=1e-6
    ... )
    >>> found.model.decision_function(X).round(2)
    array([-1., -1.,  1.,  1.])
    """
    kernel, tol, C = (
        copied_kernel(kernel),
        check_number("tol", tol),
        check_number("C", C),
    )
    if loss not in ("hinge", "squared_hinge"):
        msg = f"loss must be 'hinge' or 'squared_hinge', got {loss!r}"
        raise ValueError(msg)
    if intercept not in ("free", "none"):
        msg = f"intercept must be 'free' or 'none', got {intercept!r}"
        raise ValueError(msg)
    if not tol > 0:
        msg = f"tol must be above 0, got {tol}"
        raise ValueError(msg)
    max_rounds = check_at_least_one("max_rounds", max_rounds)
    parts = as_parts(X, chunks)
    labels, _ = _labels(y, parts)
    options = {"loss": loss, "C": C, "intercept": intercept}
    # A machine's own violation is in units of scores: its gap is well below.
    run = {"tol": tol / 10, "n_jobs": n_jobs}
    kept = dask.persist(*parts.of)
    both = list(zip(kept, labels, strict=True))
    first = delayed(_support)
    sent = list(dask.compute(*(first(kernel, *of, options, run) for of in both)))
    for number, size in enumerate(parts.sizes):
        if len(sent[number]) == 0 and size > 0:
            sent[number] = np.zeros(1, np.int64)  # a class that it alone may have
    gaps: list[float] = []
    while True:
        send, judge = delayed(_sent), delayed(_judge)
        trees = [send(*of, which) for of, which in zip(both, sent, strict=True)]
        (merged,) = dask.persist(delayed(_solve)(kernel, trees, options, run))
        judged = dask.compute(*(judge(merged, *of, options, run) for of in both))
        model, square, linear = merged.compute()
        costs = np.sum([cost for cost, _ in judged], axis=0)
        objective = square / 2 + costs
        gap = objective - (linear - square / 2)
        gaps.append(float((gap / np.maximum(objective, np.finfo(float).tiny)).max()))
        more = [
            np.union1d(known, costly)
            for known, (_, costly) in zip(sent, judged, strict=True)
        ]
        n_more = sum(map(len, more)) - sum(map(len, sent))
        if gaps[-1] <= tol or n_more == 0 or len(gaps) == max_rounds:
            break
        sent = more
    if gaps[-1] > tol:
        warnings.warn(
            f"fit_svm: the duality gap is {gaps[-1]:.3g} of the objective after "
            f"{len(gaps)} rounds, above tol={tol:g}: raise max_rounds",
            RuntimeWarning,
            stacklevel=2,
        )
    n_support = np.array([len(which) for which in sent], dtype=np.int64)
    return Solution(model, objective, gap, n_support, gaps)


#: Models that one task merges.
_ARITY = 8


def _sum_of(models: list[DagModel], factors: list[float]) -> DagModel:
    first = models[0]
    total = DagModel(first.kernel, first.n_outputs)
    for model, factor in zip(models, factors, strict=True):
        total.merge(model, factor)
    return total


def _merged(models: list[Delayed], factors: list[float]) -> Delayed:
    """Sum models in the order of the list, some at a time."""
    merge = delayed(_sum_of)
    while True:
        models = [
            merge(models[at : at + _ARITY], factors[at : at + _ARITY])
            for at in range(0, len(models), _ARITY)
        ]
        if len(models) == 1:
            return models[0]
        factors = [1.0] * len(models)


def _labels(y: ArrayLike, parts: Parts) -> tuple[list[NDArray[np.float64]], int]:
    """Labels -1 and 1, by partition, and how many outputs they are of."""
    labels = check_floats("y", y)
    n_outputs = labels.shape[1] if labels.ndim == 2 else 1
    n_trees = sum(parts.sizes)
    if labels.shape not in ((n_trees,), (n_trees, n_outputs)):
        msg = f"y must be of shape ({n_trees},) or ({n_trees}, n_outputs), got {labels.shape}"
        raise ValueError(msg)
    if not (np.abs(labels) == 1).all():
        msg = f"y must be -1 or 1, got {labels[np.abs(labels) != 1][0]}"
        raise ValueError(msg)
    return np.split(labels, parts.starts[1:-1]), n_outputs


def _pass(
    model: DagModel, forest: Forest, y: NDArray[np.float64]
) -> tuple[DagModel, DagModel, int]:
    return model._pass(forest, y)


def _trained(
    kernel: TreeKernel,
    forest: Forest,
    y: Any,
    options: dict[str, Any],
    run: dict[str, Any],
) -> KernelMachine:
    machine = KernelMachine(kernel, forest, y, **options)
    machine.run(**run)
    return machine


def _support(
    kernel: TreeKernel,
    forest: Forest,
    y: Any,
    options: dict[str, Any],
    run: dict[str, Any],
) -> NDArray[np.int64]:
    """Return the support trees of a partition's own machine."""
    if len(forest) == 0:
        return np.zeros(0, np.int64)
    betas = _trained(kernel, forest, y, options, run).dual_coef.reshape(len(y), -1)
    return np.flatnonzero((betas != 0).any(axis=1))


class _Merged(NamedTuple):
    """A machine of the trees that partitions have sent, and what it says of its weights."""

    model: DagModel
    #: |w|², and what the dual has besides -|w|²/2: by output.
    square: NDArray[np.float64]
    linear: NDArray[np.float64]


def _solve(
    kernel: TreeKernel,
    sent: list[tuple[Forest, NDArray[np.float64]]],
    options: dict[str, Any],
    run: dict[str, Any],
) -> _Merged:
    forest = Forest.concat([part for part, _ in sent])
    y = np.concatenate([own for _, own in sent])
    machine = _trained(kernel, forest, y, options, run)
    model = machine.model()
    n = len(forest)
    betas, targets = machine.dual_coef.reshape(n, -1), y.reshape(n, -1)
    scores = model.decision_function(forest, n_jobs=run["n_jobs"]).reshape(n, -1)
    square = (betas * (scores - model.intercept)).sum(axis=0)
    linear = (betas * targets).sum(axis=0)
    if options["loss"] == "squared_hinge":
        linear -= (betas**2).sum(axis=0) / (4 * options["C"])
    return _Merged(model, square, linear)


def _judge(
    merged: _Merged,
    forest: Forest,
    y: Any,
    options: dict[str, Any],
    run: dict[str, Any],
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return what a partition's trees cost, and which of them cost anything."""
    shape = len(forest), merged.model.n_outputs
    scores = merged.model.decision_function(forest, n_jobs=run["n_jobs"]).reshape(shape)
    losses = np.maximum(0, 1 - y.reshape(shape) * scores)
    costly = np.flatnonzero((losses > run["tol"]).any(axis=1))
    if options["loss"] == "squared_hinge":
        losses = losses**2
    return options["C"] * losses.sum(axis=0), costly


def _sent(
    forest: Forest, y: NDArray[np.float64], which: NDArray[np.int64]
) -> tuple[Forest, NDArray[np.float64]]:
    part: Forest = forest[which.tolist()]
    return part, y[which]
