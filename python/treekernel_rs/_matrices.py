"""Matrices, rows, pairs and neighbours: written once for all that computes them.

`Computing` checks arguments, calls the core, and warns of items whose kernel with themselves
is 0. `MatrixMethods` are the methods of measures (kernels of trees, kernels of pairs, edit
distances), and `KernelMethods` those that only kernels have. A `TreeIndex` computes with
trees that it holds: it is no measure, and has `Computing` alone.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from treekernel_rs._arguments import (
    check_at_least_one,
    check_float_type,
    check_jobs,
    check_number,
    check_out,
    check_rows,
    check_sink,
    progress_callback,
)
from treekernel_rs._core import as_forest
from treekernel_rs._parameters import Normalizing, Parameters
from treekernel_rs.neighbors import JoinResult, Neighbors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import DTypeLike, NDArray

    from treekernel_rs._arguments import Progress
    from treekernel_rs._core import KernelRows

    Zeros = tuple[list[int], list[int]]

__all__ = ["Computing", "KernelMethods", "MatrixMethods", "warn_of_zeros"]

_Items = TypeVar("_Items")


class Computing:
    """Calls of the core by what measures and indexes are given."""

    #: What the items are called in messages.
    _items = "trees"

    def _title(self) -> str:
        """Name what computes, for progress."""
        return type(self).__name__

    def _examples(self, X: Any) -> Any:
        """Return what X holds as the core takes it."""
        return as_forest(X)

    def _compute(
        self, method: str, x: Any, y: Any, what: tuple[Any, ...], run: tuple[Any, ...]
    ) -> Any:
        """Call a method of the core; y is None for x with itself."""
        raise NotImplementedError

    def _shape(self, x: Any, y: Any) -> tuple[int, int]:
        return len(x), len(x if y is None else y)

    def _warn(self, zeros: Zeros, y: object, stacklevel: int = 5) -> None:
        """Warn the caller of the method that called the method that calls this."""
        rows, columns = zeros
        warn_of_zeros(rows, "X", stacklevel, self._items)
        if y is not None:
            warn_of_zeros(columns, "Y", stacklevel, self._items)

    def _matrix(
        self,
        X: Any,
        Y: Any,
        dtype: DTypeLike,
        n_jobs: int | None,
        out: NDArray[Any] | None,
        progress: Progress | bool | None,
    ) -> NDArray[Any]:
        x, y = self._examples(X), None if Y is None else self._examples(Y)
        target: Any = check_float_type(dtype) if out is None else out
        if out is not None:
            check_out(out, self._shape(x, y), dtype)
        run = check_jobs(n_jobs), progress_callback(progress, self._title())
        matrix: NDArray[Any]
        matrix, zeros = self._compute("gram", x, y, (target,), run)
        self._warn(zeros, y)
        return matrix

    def _top_k(
        self,
        X: Any,
        Y: Any,
        k: int,
        n_jobs: int | None,
        progress: Progress | bool | None,
        *within: Any,
    ) -> Neighbors:
        k = check_at_least_one("k", k)
        x, y = self._examples(X), None if Y is None else self._examples(Y)
        run = check_jobs(n_jobs), progress_callback(progress, self._title())
        found, zeros = self._compute("top_k", x, y, (k, *within), run)
        self._warn(zeros, y)
        return Neighbors(*found)

    def _limits(self, x: Any, rows: tuple[int, int] | None) -> tuple[Any, ...]:
        """Return which pairs of a join are wanted, besides the threshold."""
        return (check_rows(rows, len(x)),)

    def _join(
        self,
        X: Any,
        Y: Any,
        threshold: float,
        n_jobs: int | None,
        out: Callable[..., object] | None,
        progress: Progress | bool | None,
        *within: Any,
    ) -> JoinResult:
        x, y = self._examples(X), None if Y is None else self._examples(Y)
        out = check_sink(out)
        wanted = threshold, *self._limits(x, *within)
        run = check_jobs(n_jobs), progress_callback(progress, self._title()), out
        found, zeros = self._compute("join", x, y, wanted, run)
        self._warn(zeros, y)
        return JoinResult._found(found, self._shape(x, y))


class MatrixMethods(Computing, Parameters, Generic[_Items]):
    """What all measures of trees and of pairs of trees do in the same way."""

    #: How values are normalised: as the core has it.
    normalize: Any

    def _compute(
        self, method: str, x: Any, y: Any, what: tuple[Any, ...], run: tuple[Any, ...]
    ) -> Any:
        return getattr(self._core, method)(x, y, *what, self.normalize, *run)

    def __call__(
        self,
        X: _Items,
        Y: _Items | None = None,
        *,
        dtype: DTypeLike = np.float64,
        n_jobs: int | None = None,
        out: NDArray[Any] | None = None,
        progress: Progress | bool | None = None,
    ) -> NDArray[Any]:
        """Compute the matrix of all items of X with all items of Y.

        Parameters
        ----------
        X, Y : Forest or sequence of str
            The trees; for a `PairKernel`, a `PairForest` or a sequence of (left, right).
            They need not come from the same forest. Without Y, those of X with each other.
        dtype : float64 or float32
            Type of the result; that of `out` if it is given.
        n_jobs : int, optional
            Threads; by default and for -1 all cores the process may use, with 1 only the
            caller's thread. There are never more threads than cores or parts of the work.
            The result does not depend on it, bit for bit.
        out : ndarray or memmap, optional
            C-contiguous float64 or float32 matrix to fill, block by block. With a memmap
            the matrix may be larger than memory.
        progress : callable or True, optional
            Called as progress(done, total), in rows; True shows a progress bar (of tqdm if
            it is installed).

        Returns
        -------
        ndarray, shape (len(X), len(Y))
            `out` if it is given. Without Y, a matrix of kernels is symmetric, bit for bit.
            ``[i, j]`` of a matrix of distances is what it costs to make ``X[i]`` into
            ``Y[j]``.

        Raises
        ------
        OverflowError
            If a kernel is too large for the type; names the two items.
        MemoryError
            If two trees are too large for their edit distance: it takes 24 bytes for each
            pair of nodes.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> tk.SubsetTreeKernel(0.5)(["(A a)", "(A b)"], ["(S (A a))"])
        array([[0.5],
               [0. ]])
        >>> tk.EditDistance(delete=2)(["(a (b) (c))"], ["(a (b))", "(a)"], n_jobs=1)
        array([[2., 4.]])
        """
        return self._matrix(X, Y, dtype, n_jobs, out, progress)

    def rows(self, X: _Items, *, n_jobs: int | None = None) -> KernelRows:
        """Prepare the rows of the matrix of X with itself, to compute them on demand.

        For algorithms that need single rows but cannot hold the matrix. The items are
        indexed once, and a normalised kernel computes the self-kernels once.

        Parameters
        ----------
        X : Forest or sequence of str
            The trees; for a `PairKernel`, a `PairForest` or a sequence of (left, right).
        n_jobs : int, optional
            Threads for self-kernels and for several rows at once, as in a call.

        Returns
        -------
        KernelRows
            ``rows[i]`` is row ``i`` of the matrix, ``rows[indices]`` some of its rows. They
            raise what the matrix would raise.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> X = ["(S (A a) (B b))", "(S (A a) (B c))", "(A a)"]
        >>> rows = tk.SubsetTreeKernel(0.4).rows(X)
        >>> len(rows), rows[2].tolist()
        (3, [0.4, 0.4, 0.4])
        >>> rows[[0, 1]].round(3)
        array([[1.584, 0.96 , 0.4  ],
               [0.96 , 1.584, 0.4  ]])
        """
        run = (check_jobs(n_jobs),)
        rows, zeros = self._core.rows(self._examples(X), self.normalize, *run)
        self._warn((zeros, []), None, stacklevel=4)
        made: KernelRows = rows
        return made

    def pairs(
        self,
        X: _Items,
        Y: _Items | NDArray[Any] | Sequence[int],
        j: NDArray[Any] | Sequence[int] | None = None,
        *,
        n_jobs: int | None = None,
        progress: Progress | bool | None = None,
    ) -> NDArray[np.float64]:
        """Compute the kernels or distances of single pairs.

        ``pairs(X, Y)`` compares item n of X with item n of Y; ``pairs(X, i, j)`` compares
        item ``i[n]`` of X with item ``j[n]`` of X. It is fast if the same tree of X occurs
        in many consecutive pairs.

        Parameters
        ----------
        X : Forest or sequence of str
            The trees; for a `PairKernel`, a `PairForest` or a sequence of (left, right).
        Y : as X, or array of int
            As many others; with `j`, indices of items of X.
        j : array of int, optional
            As many indices of items of X.
        n_jobs : int, optional
            Threads, as in a call.
        progress : callable or True, optional
            As in a call, by pairs.

        Returns
        -------
        ndarray of float64, shape (number of pairs,)

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> k, X = tk.SubsetTreeKernel(1.0), ["(S (A a) (B b))", "(S (A a) (B c))"]
        >>> k.pairs(X, X)
        array([6., 6.])
        >>> k.pairs(X, [0, 0, 1], [0, 1, 0])
        array([6., 3., 3.])
        >>> tk.EditDistance().pairs(["(a)", "(a b)"], ["(b)", "(a b c)"])
        array([1., 1.])
        """
        x, y, i = self._examples(X), None, Y
        if j is None:
            y = self._examples(Y)
            if len(y) != len(x):
                msg = f"Y has {len(y)} {self._items}, expected {len(x)}, as X"
                raise ValueError(msg)
            i = j = np.arange(len(x))
        run = check_jobs(n_jobs), progress_callback(progress, self._title(), "pair")
        values, (rows, columns) = self._compute("pairs", x, y, (i, j), run)
        if y is None:
            rows = sorted({*rows, *columns})
        self._warn((rows, columns), y, stacklevel=4)
        found: NDArray[np.float64] = values
        return found

    def top_k(
        self,
        X: _Items,
        Y: _Items | None = None,
        *,
        k: int = 10,
        n_jobs: int | None = None,
        progress: Progress | bool | None = None,
    ) -> Neighbors:
        """Find the items of Y that are nearest to each item of X.

        The nearest have the largest kernels, or the smallest distances.

        Parameters
        ----------
        X, Y : Forest or sequence of str
            The trees; for a `PairKernel`, a `PairForest` or a sequence of (left, right).
            Without Y, each item of X is compared with the other items of X.
        k : int, default 10
            How many to find for each item of X; fewer if Y is smaller.
        n_jobs : int, optional
            Threads, as in a call. The result does not depend on it, bit for bit.
        progress : callable or True, optional
            As in a call.

        Returns
        -------
        Neighbors
            `indices` and `values`, each of shape (len(X), k), the nearest first. If values
            are equal, the lower index comes first.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> X = ["(S (A a) (B b))", "(S (A a) (B c))", "(A a)"]
        >>> found = tk.SubsetTreeKernel(0.4).top_k(X, k=2)
        >>> found.indices.tolist(), found.values.round(2).tolist()
        ([[1, 2], [0, 2], [0, 1]], [[0.96, 0.4], [0.96, 0.4], [0.4, 0.4]])
        """
        return self._top_k(X, Y, k, n_jobs, progress)


class KernelMethods(MatrixMethods[_Items], Normalizing):
    """What all kernels do in the same way, besides."""

    def gram(
        self,
        X: _Items,
        Y: _Items | None = None,
        *,
        dtype: DTypeLike = np.float64,
        n_jobs: int | None = None,
        out: NDArray[Any] | None = None,
        progress: Progress | bool | None = None,
    ) -> NDArray[Any]:
        """Compute a kernel matrix, as calling the kernel does.

        Parameters
        ----------
        X, Y, dtype, n_jobs, out, progress
            As in a call.

        Returns
        -------
        ndarray, shape (len(X), len(Y))
            `out` if it is given.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> pairs = [("(A:1 a)", "(B:1 b)"), ("(A:1 a)", "(B:2 b)")]
        >>> tk.PairKernel(0.5).gram(pairs, n_jobs=1)
        array([[0.25, 0.  ],
               [0.  , 0.25]])
        """
        return self._matrix(X, Y, dtype, n_jobs, out, progress)

    def diag(self, X: _Items, *, n_jobs: int | None = None) -> NDArray[np.float64]:
        """Compute the kernel of each item with itself.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> tk.SubsetTreeKernel(1.0).diag(["(S (A a) (B b))", "(A a)"])
        array([6., 1.])
        """
        run = (check_jobs(n_jobs),)
        values, zeros = self._core.diagonal(self._examples(X), self.normalize, *run)
        self._warn((zeros, []), None, stacklevel=4)
        diagonal: NDArray[np.float64] = values
        return diagonal

    def join(
        self,
        X: _Items,
        Y: _Items | None = None,
        *,
        min_similarity: float = 0.8,
        rows: tuple[int, int] | None = None,
        n_jobs: int | None = None,
        out: Callable[..., object] | None = None,
        progress: Progress | bool | None = None,
    ) -> JoinResult:
        """Find all pairs of items whose kernel is at least `min_similarity`.

        The result is exact: no pair is missed. If a tree kernel is normalised (and, except
        for `SubtreeKernel`, has no weights), most pairs are ruled out by a bound. If few
        trees are similar, this takes a small part of the time of all rows. The exact value,
        as computed by `pairs`, decides. A `PairKernel` computes all kernels.

        Parameters
        ----------
        X, Y : Forest or sequence of str
            The trees; for a `PairKernel`, a `PairForest` or a sequence of (left, right).
            Without Y, the pairs i < j of X, each once.
        min_similarity : float, default 0.8
            The smallest kernel value of a pair.
        rows : tuple of int, optional
            ``(start, stop)``: only the part of the answer that these items of X add. Parts
            that follow each other make up the whole answer, bit for bit, so a long join can
            be computed, stored and resumed part by part. A pair (i, j) of X and Y is in the
            part of i. Without Y it is in the part of j, as i < j: each item adds its pairs
            with those before it. Of equal items the first one adds the pairs of all.
        n_jobs : int, optional
            Threads, as in a call. The result does not depend on it, bit for bit.
        out : callable, optional
            Called with arrays ``rows, columns, values`` of at most 1,048,576 pairs at a
            time, in place of returning them: for answers larger than memory.
        progress : callable or True, optional
            As in a call.

        Returns
        -------
        JoinResult
            `rows`, `columns` and `values`, row by row; `groups`, in which pairs of
            different items are stored once. Empty if `out` is given.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> X = ["(S (A a) (B b))", "(S (A a) (B c))", "(S (A a) (B b))"]
        >>> found = tk.SubsetTreeKernel(0.4, normalize=True).join(X)
        >>> found.rows, found.columns, found.values
        (array([0]), array([2]), array([1.]))
        """
        least = check_number("min_similarity", min_similarity)
        return self._join(X, Y, least, n_jobs, out, progress, rows)


def warn_of_zeros(
    trees: list[int], name: str, stacklevel: int = 4, what: str = "trees"
) -> None:
    if trees:
        shown = ", ".join(map(str, trees[:10])) + (", ..." if len(trees) > 10 else "")
        warnings.warn(
            f"the kernel of {len(trees)} of the {what} of {name} with themselves is 0, so "
            f"their normalised kernels are 0 as well: {shown}",
            RuntimeWarning,
            stacklevel=stacklevel,
        )
