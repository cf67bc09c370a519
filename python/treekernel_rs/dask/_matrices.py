"""Kernel matrices, block by block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np

from treekernel_rs._arguments import check_float_type
from treekernel_rs._core import Forest
from treekernel_rs.dask._partitions import both_parts, graph_over, index_part, new_name
from treekernel_rs.index import TreeIndex
from treekernel_rs.tree_kernels import copied_kernel

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from treekernel_rs.dask._partitions import Partitions
    from treekernel_rs.tree_kernels import TreeKernel


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
    x, y = both_parts(X, Y, chunks)
    name, index = new_name("gram"), new_name("index")
    graph: dict[Any, Any] = {
        (index, j): (index_part, kernel, part.key) for j, part in enumerate(y.of)
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
    layers = graph_over(graph, name, x, y)
    return da.Array(layers, name, (x.sizes, y.sizes), dtype=wanted)


def _block(x: Forest, y: TreeIndex, dtype: Any, n_jobs: int) -> NDArray[Any]:
    return y.gram(x, dtype=dtype, n_jobs=n_jobs)


def _square(kernel: TreeKernel, x: Forest, dtype: Any, n_jobs: int) -> NDArray[Any]:
    return kernel.gram(x, dtype=dtype, n_jobs=n_jobs)


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
