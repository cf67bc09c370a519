"""Vectors and columns of trees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dask.array as da

from treekernel_rs._core import Forest
from treekernel_rs.dask._partitions import as_parts, graph_over, new_name

if TYPE_CHECKING:
    from treekernel_rs.dask._partitions import Chunks, Partitions
    from treekernel_rs.distributed import DistributedTrees


def encode(
    encoder: DistributedTrees,
    X: Partitions,
    *,
    chunks: Chunks = None,
    n_jobs: int = 1,
) -> da.Array:
    """Make distributed trees: a vector for each tree.

    Parameters
    ----------
    encoder : DistributedTrees
        What makes them; ``sketch_decay="auto"`` must have been resolved by `tune`.
    X : Forest, sequence of str, or partitions
        The trees.
    chunks : int or sequence of int, optional
        Trees of a block.
    n_jobs : int, default 1
        Threads of each task.

    Returns
    -------
    dask.array.Array, shape (len(X), encoder.n_components)

    Examples
    --------
    >>> import treekernel_rs as tk, treekernel_rs.dask
    >>> encoder = tk.DistributedTrees(tk.SubsetTreeKernel(0.4), 64)
    >>> tk.dask.encode(encoder, ["(A a)", "(B b)", "(C c)"], chunks=2).chunks
    ((2, 1), (64,))
    """
    return _rows(_Call(encoder.encode, n_jobs=n_jobs), X, chunks, "encode")


def vectorize(vectorizer: Any, X: Partitions, *, chunks: Chunks = None) -> da.Array:
    """Make the columns of a `TreeVectorizer`, or of another transformer of trees.

    Parameters
    ----------
    vectorizer : TreeVectorizer, TreeNystroem or DistributedTreeEncoder
        Fitted, or hashing; its `n_jobs` are the threads of each task.
    X : Forest, sequence of str, or partitions
        The trees.
    chunks : int or sequence of int, optional
        Trees of a block.

    Returns
    -------
    dask.array.Array, shape (len(X), columns)
        Of sparse matrices (`csr_matrix`) if the transformer's are: for ``partial_fit`` block
        after block, dask-ml or XGBoost.

    Examples
    --------
    >>> import treekernel_rs as tk, treekernel_rs.dask
    >>> hashing = tk.TreeVectorizer("edges", n_features=16, n_jobs=1)
    >>> blocks = tk.dask.vectorize(hashing, ["(A a)", "(B b)", "(C c)"], chunks=2)
    >>> blocks.compute(scheduler="sync").shape
    (3, 16)
    """
    return _rows(_Call(vectorizer.transform), X, chunks, "vectorize")


def _rows(call: Any, X: Partitions, chunks: Chunks, what: str) -> da.Array:
    parts, name = as_parts(X, chunks), new_name(what)
    empty = call(Forest())  # how wide, and of which kind
    graph = {(name, i, 0): (call, part.key) for i, part in enumerate(parts.of)}
    shape = (parts.sizes, (empty.shape[1],))
    return da.Array(graph_over(graph, name, parts), name, shape, meta=empty)


class _Call:
    """A method with its arguments, as a task that says what it is."""

    def __init__(self, method: Any, **arguments: Any) -> None:
        self.method, self.arguments = method, arguments

    def __call__(self, forest: Forest) -> Any:
        return self.method(forest, **self.arguments)
