"""Partitions of a corpus, and graphs of tasks over them."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, NamedTuple

import dask
import dask.array as da
import numpy as np
from dask.delayed import Delayed, delayed
from dask.highlevelgraph import HighLevelGraph

from treekernel_rs._core import Forest, as_forest
from treekernel_rs.index import TreeIndex

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treekernel_rs._arguments import Trees
    from treekernel_rs.tree_kernels import TreeKernel

    Chunks = int | Sequence[int] | None
    Partitions = Trees | Sequence[Delayed] | Any


class Parts(NamedTuple):
    """Partitions, each a Forest on its worker, and their numbers of trees."""

    of: list[Delayed]
    sizes: tuple[int, ...]

    @property
    def starts(self) -> list[int]:
        return [0, *np.cumsum(self.sizes).tolist()]


def _intern(trees: Any, number: int, size: int | None) -> Forest:
    """Make a Forest of a partition: once, on the worker that has it."""
    forest = as_forest(trees)
    if size is not None and len(forest) != size:
        msg = f"chunks: partition {number} has {len(forest)} trees, expected {size}"
        raise ValueError(msg)
    return forest


def as_parts(X: Any, chunks: Chunks) -> Parts:
    if hasattr(X, "to_delayed"):
        X = np.ravel(X.to_delayed()).tolist()
    is_list = isinstance(X, list | tuple)
    if is_list and X and all(isinstance(part, Delayed) for part in X):
        sizes: Any = [None] * len(X) if chunks is None else chunks
        if isinstance(sizes, int) or len(sizes) != len(X):
            msg = f"chunks must be the numbers of trees of {len(X)} partitions, got {chunks!r}"
            raise ValueError(msg)
        intern = delayed(_intern)
        of = [
            intern(part, number, size)
            for number, (part, size) in enumerate(zip(X, sizes, strict=True))
        ]
        if chunks is None:
            sizes = dask.compute(*map(delayed(len), of))
        return Parts(of, tuple(int(size) for size in sizes))
    forest = as_forest(X)
    whole: Any = -1 if chunks is None else chunks
    whole = whole if isinstance(whole, int | np.integer) else (tuple(whole),)
    (sizes,) = da.core.normalize_chunks(whole, (len(forest),), dtype=np.int8)
    parts = Parts([], sizes)
    for start, size in zip(parts.starts, sizes, strict=False):
        # Wrapped, so that Dask does not look for tasks in it.
        name = f"forest-{uuid.uuid4().hex}"
        part = forest[start : start + size]
        parts.of.append(delayed(part, name=name, traverse=False))
    return parts


def chunks_of_both(chunks: Any) -> tuple[Chunks, Chunks]:
    """Chunks of rows and of columns, as of Dask's arrays."""
    if chunks is None or isinstance(chunks, int | np.integer):
        rows: Chunks = chunks  # type: ignore[assignment]
        return rows, rows
    if len(chunks) == 2:
        return chunks[0], chunks[1]
    msg = f"chunks must be an int or a pair, for X and for Y, got {chunks!r}"
    raise ValueError(msg)


def both_parts(X: Partitions, Y: Partitions | None, chunks: Any) -> tuple[Parts, Parts]:
    rows, columns = chunks_of_both(chunks)
    x = as_parts(X, rows)
    return x, x if Y is None else as_parts(Y, columns)


def graph_over(graph: dict[Any, Any], name: str, *parts: Parts) -> HighLevelGraph:
    needed = [part for parts_of in parts for part in parts_of.of]
    return HighLevelGraph.from_collections(name, graph, dependencies=needed)


def new_name(what: str) -> str:
    return f"{what}-{uuid.uuid4().hex}"


def index_part(kernel: TreeKernel, forest: Forest | TreeIndex) -> TreeIndex:
    """Index a partition, unless it is an index."""
    return forest if isinstance(forest, TreeIndex) else kernel.index(forest)
