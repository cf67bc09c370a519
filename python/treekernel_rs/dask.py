"""Beyond one machine: matrices, neighbours, vectors and models by Dask.

Each function here makes a graph of ordinary calls of this package, over *partitions*: parts
of a corpus, each of them a `Forest` on some worker. A cluster, or the cores of this machine,
computes it when Dask is asked to. Needs the extra ``dask``.

Trees are given in one of two ways, everywhere:

* as a `Forest` or a list of bracketed str, which is cut into parts of `chunks` trees and sent
  to the workers as arrays in which equal subtrees stand once;
* as partitions: a list of `dask.delayed.Delayed`, or what has ``to_delayed`` (a bag or a
  column of a data frame), each of trees. They never pass through this process. Without
  `chunks` they are counted first, which computes them.

What is promised: `encode` and `vectorize` give the bits that one machine gives, whatever the
partitions, the workers, and workers that are lost. Kernels are those of one machine to 1e-12 of
the value, as their last bits depend on the list that a tree stands in: in float32 they have the
same bits, but for a value that stands within 1e-12 of the middle between two floats. So of
neighbours whose values agree to 1e-12 the lower index is first, and a pair whose value is that near
to `min_similarity` may be in or out. Models depend on the partitions, whose order they are merged
in. The same partitions give the same bits on every number of workers.

See docs/SCALING.md.
"""

from __future__ import annotations

import uuid
import warnings
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from treekernel_rs._arguments import (
    check_at_least_one,
    check_float_type,
    check_number,
    check_sink,
)
from treekernel_rs._core import Forest, as_forest
from treekernel_rs._extras import needs
from treekernel_rs.dag import DagModel, _floats
from treekernel_rs.index import TreeIndex
from treekernel_rs.neighbors import JoinResult, Neighbors
from treekernel_rs.solve import KernelMachine
from treekernel_rs.tree_kernels import copied_kernel

with needs(__name__, "Dask", "dask"):
    import dask
    import dask.array as da
    from dask.delayed import Delayed, delayed
    from dask.highlevelgraph import HighLevelGraph

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike, DTypeLike, NDArray

    from treekernel_rs._arguments import Trees
    from treekernel_rs.distributed import DistributedTrees
    from treekernel_rs.tree_kernels import TreeKernel

    Chunks = int | Sequence[int] | None
    Partitions = Trees | Sequence[Delayed] | Any

__all__ = [
    "Mixture",
    "NpyFile",
    "Solution",
    "encode",
    "fit_perceptron",
    "fit_svm",
    "gram",
    "join",
    "top_k",
    "vectorize",
]


# --- Partitions -----------------------------------------------------------------------


class _Parts(NamedTuple):
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


def _parts(X: Any, chunks: Chunks) -> _Parts:
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
        return _Parts(of, tuple(int(size) for size in sizes))
    forest = as_forest(X)
    whole: Any = -1 if chunks is None else chunks
    whole = whole if isinstance(whole, int | np.integer) else (tuple(whole),)
    (sizes,) = da.core.normalize_chunks(whole, (len(forest),), dtype=np.int8)
    parts = _Parts([], sizes)
    for start, size in zip(parts.starts, sizes, strict=False):
        # Wrapped, so that Dask does not look for tasks in it.
        name = f"forest-{uuid.uuid4().hex}"
        part = forest[start : start + size]
        parts.of.append(delayed(part, name=name, traverse=False))
    return parts


def _both(chunks: Any) -> tuple[Chunks, Chunks]:
    """Chunks of rows and of columns, as of Dask's arrays."""
    if chunks is None or isinstance(chunks, int | np.integer):
        rows: Chunks = chunks  # type: ignore[assignment]
        return rows, rows
    if len(chunks) == 2:
        return chunks[0], chunks[1]
    msg = f"chunks must be an int or a pair, for X and for Y, got {chunks!r}"
    raise ValueError(msg)


def _pair(X: Partitions, Y: Partitions | None, chunks: Any) -> tuple[_Parts, _Parts]:
    rows, columns = _both(chunks)
    x = _parts(X, rows)
    return x, x if Y is None else _parts(Y, columns)


def _graph(graph: dict[Any, Any], name: str, *parts: _Parts) -> HighLevelGraph:
    needed = [part for parts_of in parts for part in parts_of.of]
    return HighLevelGraph.from_collections(name, graph, dependencies=needed)


def _name(what: str) -> str:
    return f"{what}-{uuid.uuid4().hex}"


# --- Matrices -------------------------------------------------------------------------


def _index(kernel: TreeKernel, forest: Forest | TreeIndex) -> TreeIndex:
    """Index a partition, unless it is an index."""
    return forest if isinstance(forest, TreeIndex) else kernel.index(forest)


def _block(x: Forest, y: TreeIndex, dtype: Any, n_jobs: int) -> NDArray[Any]:
    return y.gram(x, dtype=dtype, n_jobs=n_jobs)


def _square(kernel: TreeKernel, x: Forest, dtype: Any, n_jobs: int) -> NDArray[Any]:
    return kernel.gram(x, dtype=dtype, n_jobs=n_jobs)


def gram(
    kernel: TreeKernel,
    X: Partitions,
    Y: Partitions | None = None,
    *,
    chunks: Any = None,
    dtype: DTypeLike = np.float64,
    n_jobs: int = 1,
) -> da.Array:
    """Make a kernel matrix as an array of blocks that are computed when they are needed.

    No machine ever has the whole: ``da.to_zarr(matrix, path)``, or ``da.store`` into an
    `NpyFile`, writes block after block. Without Y half of the blocks are computed, and
    mirrored.

    Parameters
    ----------
    kernel : TreeKernel
        The kernel.
    X, Y : Forest, sequence of str, or partitions
        The trees; without Y those of X with each other.
    chunks : int or pair, optional
        Trees of a block: of rows and columns, or a pair for each, as of Dask's arrays; an
        int, or the numbers of all blocks.
    dtype : float64 or float32
        Type of the values.
    n_jobs : int, default 1
        Threads of each task; a cluster has threads of its own.

    Returns
    -------
    dask.array.Array, shape (len(X), len(Y))

    Examples
    --------
    >>> import treekernel_rs as tk, treekernel_rs.dask
    >>> X = ["(S (A a) (B b))", "(S (A a) (B c))", "(A a)"]
    >>> matrix = tk.dask.gram(tk.SubsetTreeKernel(0.4), X, chunks=2)
    >>> matrix.chunks
    ((2, 1), (2, 1))
    >>> matrix.compute(scheduler="sync").round(3)
    array([[1.584, 0.96 , 0.4  ],
           [0.96 , 1.584, 0.4  ],
           [0.4  , 0.4  , 0.4  ]])
    """
    kernel, wanted = copied_kernel(kernel), check_float_type(dtype)
    x, y = _pair(X, Y, chunks)
    name, index = _name("gram"), _name("index")
    graph: dict[Any, Any] = {
        (index, j): (_index, kernel, part.key) for j, part in enumerate(y.of)
    }
    for i, row in enumerate(x.of):
        for j in range(len(y.of)):
            if Y is not None or i < j:
                task: tuple[Any, ...] = (
                    _block,
                    row.key,
                    (index, j),
                    wanted,
                    n_jobs,
                )
            elif i == j:
                task = (_square, kernel, row.key, wanted, n_jobs)
            else:
                task = (np.transpose, (name, j, i))
            graph[name, i, j] = task
    layers = _graph(graph, name, x, y)
    return da.Array(layers, name, (x.sizes, y.sizes), dtype=wanted)


class NpyFile:
    """A matrix in a file of numpy's, which all workers write: a target of ``da.store``.

    A `numpy.memmap` would be sent to the workers as a copy. This is sent as a path, which must
    be the same for all of them, and makes the file where it is made.

    Parameters
    ----------
    path : str
        The file, ``.npy``; one that is there is replaced.
    shape : tuple of int
        The matrix's.
    dtype : dtype
        Of its values.

    Examples
    --------
    >>> import tempfile, numpy as np, dask.array as da
    >>> import treekernel_rs as tk, treekernel_rs.dask
    >>> matrix = tk.dask.gram(tk.SubsetTreeKernel(0.5), ["(A a)", "(B b)"], chunks=1)
    >>> path = tempfile.mkdtemp() + "/k.npy"
    >>> file = tk.dask.NpyFile(path, matrix.shape, matrix.dtype)
    >>> _ = da.store(matrix, file, lock=False, scheduler="sync")
    >>> np.load(path, mmap_mode="r").tolist()
    [[0.5, 0.0], [0.0, 0.5]]
    """

    def __init__(self, path: str, shape: tuple[int, ...], dtype: DTypeLike) -> None:
        self.path, self.shape, self.dtype = str(path), shape, np.dtype(dtype)
        np.lib.format.open_memmap(self.path, "w+", self.dtype, shape)

    def __setitem__(self, where: Any, values: NDArray[Any]) -> None:
        """Write a block."""
        file = np.load(self.path, mmap_mode="r+")
        file[where] = values
        file.flush()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without making the file again."""
        return object.__new__, (type(self),), vars(self)


# --- Neighbours -----------------------------------------------------------------------


def _nearest(
    x: Forest | None, y: TreeIndex, k: int, start: int, n_jobs: int
) -> Neighbors:
    found = y.top_k(x, k, n_jobs=n_jobs)
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


def _asked(
    kernel: TreeKernel, X: Partitions, Y: Any, chunks: Any
) -> tuple[_Parts, _Parts]:
    """As `_pair`; an index is a single partition, sent to all workers."""
    if not isinstance(Y, TreeIndex):
        return _pair(X, Y, chunks)
    if Y.kernel != kernel:
        msg = f"Y must be an index of {kernel!r}, got {Y!r}"
        raise ValueError(msg)
    rows, _ = _both(chunks)
    whole = delayed(Y, name=_name("index"), traverse=False)
    return _parts(X, rows), _Parts([whole], (len(Y),))


def top_k(
    kernel: TreeKernel,
    X: Partitions,
    Y: Partitions | TreeIndex | None = None,
    k: int = 10,
    *,
    chunks: Any = None,
    n_jobs: int = 1,
) -> Any:
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
    Neighbors
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
    name, index, best = _name("nearest"), _name("index"), _name("best")
    graph: dict[Any, Any] = {
        (index, j): (_index, kernel, part.key) for j, part in enumerate(y.of)
    }
    for i, row in enumerate(x.of):
        for j, start in enumerate(y.starts[:-1]):
            asks = None if Y is None and i == j else row.key
            graph[name, i, j] = (_nearest, asks, (index, j), k, start, n_jobs)
        graph[best, i] = (_best, [(name, i, j) for j in range(len(y.of))], k)
    halves = []
    for part, dtype in enumerate((np.int64, np.float64)):
        half = _name("top-k")
        for i in range(len(x.of)):
            graph[half, i, 0] = (_half, (best, i), part)
        halves.append((half, dtype))
    arrays = [
        da.Array(_graph(graph, half, x, y), half, (x.sizes, (max(k, 0),)), dtype=dtype)
        for half, dtype in halves
    ]
    return Neighbors(*arrays)


def _half(found: Neighbors, which: int) -> NDArray[Any]:
    return found[which]


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
    name, index, rows = _name("similar"), _name("index"), _name("pairs")
    graph: dict[Any, Any] = {
        (index, j): (_index, kernel, part.key) for j, part in enumerate(y.of)
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
    whole = _name("join")
    shape = (sum(x.sizes), sum(y.sizes))
    graph[whole] = (_all_pairs, [(rows, i) for i in range(len(x.of))], shape)
    return Delayed(whole, _graph(graph, whole, x, y))


# --- Vectors --------------------------------------------------------------------------


def _rows(call: Any, X: Partitions, chunks: Chunks, what: str) -> da.Array:
    parts, name = _parts(X, chunks), _name(what)
    empty = call(Forest())  # how wide, and of which kind
    graph = {(name, i, 0): (call, part.key) for i, part in enumerate(parts.of)}
    shape = (parts.sizes, (empty.shape[1],))
    return da.Array(_graph(graph, name, parts), name, shape, meta=empty)


class _Call:
    """A method with its arguments, as a task that says what it is."""

    def __init__(self, method: Any, **arguments: Any) -> None:
        self.method, self.arguments = method, arguments

    def __call__(self, forest: Forest) -> Any:
        return self.method(forest, **self.arguments)


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


# --- Models ---------------------------------------------------------------------------


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


def _labels(y: ArrayLike, parts: _Parts) -> tuple[list[NDArray[np.float64]], int]:
    """Labels -1 and 1, by partition, and how many outputs they are of."""
    labels = _floats("y", y)
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
    parts = _parts(X, chunks)
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
    """Train a support vector machine on partitions, with a proof of how good it is.

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
    parts = _parts(X, chunks)
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
