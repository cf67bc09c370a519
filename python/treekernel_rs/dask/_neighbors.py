"""Nearest trees, and pairs of trees that are alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import dask.array as da
import numpy as np
from dask.delayed import Delayed, delayed

from treekernel_rs._arguments import check_at_least_one, check_number, check_sink
from treekernel_rs._core import Forest
from treekernel_rs.dask._partitions import (
    Parts,
    as_parts,
    both_parts,
    chunks_of_both,
    graph_over,
    index_part,
    new_name,
)
from treekernel_rs.index import TreeIndex
from treekernel_rs.neighbors import JoinResult, Neighbors
from treekernel_rs.tree_kernels import copied_kernel

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from treekernel_rs.dask._partitions import Partitions
    from treekernel_rs.tree_kernels import TreeKernel


class LazyNeighbors(NamedTuple):
    """The nearest trees of each tree, as `Neighbors` has them; by `top_k`.

    Its parts are Dask arrays, and what ``dask.compute`` returns for it has NumPy's.

    Examples
    --------
    >>> import dask, treekernel_rs as tk, treekernel_rs.dask
    >>> found = tk.dask.top_k(tk.SubsetTreeKernel(0.4), ["(A a)", "(A a b)"], k=1, chunks=1)
    >>> (done,) = dask.compute(found, scheduler="sync")
    >>> done.indices.tolist(), done.values.tolist()
    ([[1], [0]], [[0.0], [0.0]])
    """

    #: Trees, the nearest first, one row for each tree of X.
    indices: Any
    #: Their kernels.
    values: Any


def top_k(
    kernel: TreeKernel,
    X: Partitions,
    Y: Partitions | TreeIndex | None = None,
    *,
    k: int = 10,
    chunks: Any = None,
    n_jobs: int = 1,
) -> LazyNeighbors:
    """Find the trees of Y that have the largest kernels with each tree of X.

    Each partition of X asks each of Y, and the best of the answers are kept. A `TreeIndex` as
    Y is sent to all workers, each of which builds it once.

    Parameters
    ----------
    kernel : TreeKernel
        The kernel.
    X, Y : Forest, sequence of str, or partitions; Y also TreeIndex
        The trees; without Y, those of X, each without itself.
    k : int, default 10
        How many; fewer if there are fewer trees.
    chunks, n_jobs
        As in `gram`.

    Returns
    -------
    LazyNeighbors
        As the kernel's `top_k`, with `indices` and `values` as Dask arrays.

    Examples
    --------
    >>> import dask, treekernel_rs as tk, treekernel_rs.dask
    >>> X = ["(S (A a) (B b))", "(S (A a) (B c))", "(A a)"]
    >>> found = tk.dask.top_k(tk.SubsetTreeKernel(0.4), X, k=1, chunks=2)
    >>> found.indices.compute(scheduler="sync").tolist()
    [[1], [0], [0]]
    """
    kernel, k = copied_kernel(kernel), check_at_least_one("k", k)
    x, y = _asked(kernel, X, Y, chunks)
    k = min(k, sum(y.sizes) - (Y is None))
    name, index, best = new_name("nearest"), new_name("index"), new_name("best")
    graph: dict[Any, Any] = {
        (index, j): (index_part, kernel, part.key) for j, part in enumerate(y.of)
    }
    for i, row in enumerate(x.of):
        for j, start in enumerate(y.starts[:-1]):
            asks = None if Y is None and i == j else row.key
            graph[name, i, j] = (_nearest, asks, (index, j), k, start, n_jobs)
        graph[best, i] = (_best, [(name, i, j) for j in range(len(y.of))], k)
    halves = []
    for part, dtype in enumerate((np.int64, np.float64)):
        half = new_name("top-k")
        for i in range(len(x.of)):
            graph[half, i, 0] = (_half, (best, i), part)
        halves.append((half, dtype))
    arrays = [
        da.Array(
            graph_over(graph, half, x, y), half, (x.sizes, (max(k, 0),)), dtype=dtype
        )
        for half, dtype in halves
    ]
    return LazyNeighbors(*arrays)


def join(
    kernel: TreeKernel,
    X: Partitions,
    Y: Partitions | TreeIndex | None = None,
    *,
    min_similarity: float = 0.8,
    chunks: Any = None,
    out: Callable[..., object] | None = None,
    n_jobs: int = 1,
) -> Delayed:
    """Find all pairs of trees whose kernel is at least `min_similarity`.

    Each partition of X asks each of Y; without Y, itself and those behind it.

    Parameters
    ----------
    kernel : TreeKernel
        The kernel.
    X, Y : Forest, sequence of str, or partitions; Y also TreeIndex
        The trees; without Y, pairs i < j of X, each once.
    min_similarity : float, default 0.8
        The smallest kernel value of a pair.
    chunks, n_jobs
        As in `gram`.
    out : callable, optional
        Called on the workers with arrays ``rows, columns, values`` of each partition of X,
        which are not kept: for answers larger than memory. A worker that is lost may have
        called it: let it write to a place that is named after its rows.

    Returns
    -------
    Delayed
        Of `JoinResult`, as the kernel's `join`; empty if `out` is given.

    Examples
    --------
    >>> import treekernel_rs as tk, treekernel_rs.dask
    >>> X = ["(S (A a) (B b))", "(S (A a) (B c))", "(S (A a) (B b))"]
    >>> found = tk.dask.join(tk.SubsetTreeKernel(0.4, normalize=True), X, chunks=2)
    >>> found.compute(scheduler="sync").columns
    array([2])
    """
    kernel, least = (
        copied_kernel(kernel),
        check_number("min_similarity", min_similarity),
    )
    x, y = _asked(kernel, X, Y, chunks)
    out = check_sink(out)
    name, index, rows = new_name("similar"), new_name("index"), new_name("pairs")
    graph: dict[Any, Any] = {
        (index, j): (index_part, kernel, part.key) for j, part in enumerate(y.of)
    }
    for i, row in enumerate(x.of):
        columns = range(i if Y is None else 0, len(y.of))
        for j in columns:
            asks = None if Y is None and i == j else row.key
            starts = (x.starts[i], y.starts[j])
            graph[name, i, j] = (
                _similar, asks, (index, j), least, starts, n_jobs,
            )  # fmt: skip
        graph[rows, i] = (_sorted_pairs, [(name, i, j) for j in columns], out)
    whole = new_name("join")
    shape = (sum(x.sizes), sum(y.sizes))
    graph[whole] = (_all_pairs, [(rows, i) for i in range(len(x.of))], shape)
    return Delayed(whole, graph_over(graph, whole, x, y))


def _asked(
    kernel: TreeKernel, X: Partitions, Y: Any, chunks: Any
) -> tuple[Parts, Parts]:
    """As `both_parts`; an index is a single partition, sent to all workers."""
    if not isinstance(Y, TreeIndex):
        return both_parts(X, Y, chunks)
    if Y.kernel != kernel:
        msg = f"Y must be an index of {kernel!r}, got {Y!r}"
        raise ValueError(msg)
    rows, _ = chunks_of_both(chunks)
    whole = delayed(Y, name=new_name("index"), traverse=False)
    return as_parts(X, rows), Parts([whole], (len(Y),))


def _nearest(
    x: Forest | None, y: TreeIndex, k: int, start: int, n_jobs: int
) -> Neighbors:
    found = y.top_k(x, k=k, n_jobs=n_jobs)
    return Neighbors(found.indices + start, found.values)


def _best(found: list[Neighbors], k: int) -> Neighbors:
    """Of the best of each partition the best: the lower index first among equals."""
    indices = np.concatenate([part.indices for part in found], axis=1)
    values = np.concatenate([part.values for part in found], axis=1)
    # Equal trees of two partitions have values that differ in their last bits: see above.
    parts, exponents = np.frexp(values)
    alike = np.ldexp(np.round(np.ldexp(parts, 40)), exponents)
    order = np.lexsort((indices, -alike), axis=1)[:, :k]
    return Neighbors(
        np.take_along_axis(indices, order, axis=1),
        np.take_along_axis(values, order, axis=1),
    )


def _half(found: Neighbors, which: int) -> NDArray[Any]:
    half: NDArray[Any] = found[which]
    return half


def _similar(
    x: Forest | None, y: TreeIndex, least: float, starts: tuple[int, int], n_jobs: int
) -> tuple[NDArray[Any], ...]:
    found = y.join(x, min_similarity=least, n_jobs=n_jobs)
    return found.rows + starts[0], found.columns + starts[1], found.values


def _sorted_pairs(
    found: list[tuple[NDArray[Any], ...]], out: Callable[..., object] | None
) -> tuple[NDArray[Any], ...]:
    rows, columns, values = map(np.concatenate, zip(*found, strict=True))
    order = np.lexsort((columns, rows))
    pairs = rows[order], columns[order], values[order]
    if out is None:
        return pairs
    out(*pairs)
    return tuple(array[:0] for array in pairs)


def _all_pairs(
    found: list[tuple[NDArray[Any], ...]], shape: tuple[int, int]
) -> JoinResult:
    rows, columns, values = map(np.concatenate, zip(*found, strict=True))
    return JoinResult(rows, columns, values, shape)
