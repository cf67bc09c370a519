"""Matrices, rows, pairs and neighbours, of kernels of trees and of pairs of trees alike."""

from __future__ import annotations

import warnings
from typing import (
    TYPE_CHECKING,
    Any,
)

import numpy as np

from treekernel_rs._arguments import (
    check_at_least_one,
    check_float_type,
    check_jobs,
    check_number,
    check_out,
    check_sink,
    progress_callback,
)
from treekernel_rs._core import Forest, as_forest
from treekernel_rs._parameters import Parameters
from treekernel_rs.neighbors import JoinResult, Neighbors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import DTypeLike, NDArray

    from treekernel_rs._arguments import Progress
    from treekernel_rs._core import KernelRows


__all__ = ["MatrixMethods", "warn_of_both", "warn_of_zeros"]


class MatrixMethods(Parameters):
    """What all measures of trees and of pairs of trees do in the same way."""

    #: How values are normalised: as the core has it.
    normalize: Any
    #: What the items are called in messages.
    _items = "trees"

    @staticmethod
    def _as_items(items: Any) -> Any:
        return as_forest(items)

    def _warn(self, rows: list[int], columns: list[int], y: object) -> None:
        """Warn the caller of the method that called the method that calls this."""
        warn_of_zeros(rows, "X", stacklevel=5, what=self._items)
        if y is not None:
            warn_of_zeros(columns, "Y", stacklevel=5, what=self._items)

    def _matrix(
        self,
        X: Any,
        Y: Any,
        dtype: DTypeLike,
        n_jobs: int | None,
        out: NDArray[Any] | None,
        progress: Progress | bool | None,
    ) -> NDArray[Any]:
        x = self._as_items(X)
        y = None if Y is None else self._as_items(Y)
        shape = (len(x), len(x if y is None else y))
        if out is None:
            out = np.empty(shape, check_float_type(dtype))
        else:
            check_out(out, shape, dtype)
        tell = progress_callback(progress, type(self).__name__)
        rows, columns = self._core.gram(
            x, y, out, self.normalize, check_jobs(n_jobs), tell
        )
        self._warn(rows, columns, y)
        return out

    def _diag(self, X: Any, n_jobs: int | None) -> NDArray[np.float64]:
        x, jobs = self._as_items(X), check_jobs(n_jobs)
        values, zeros = self._core.diagonal(x, self.normalize, jobs)
        self._warn(zeros, [], None)
        diagonal: NDArray[np.float64] = values
        return diagonal

    def _rows(self, X: Any, n_jobs: int | None) -> KernelRows:
        rows, zeros = self._core.rows(
            self._as_items(X), self.normalize, check_jobs(n_jobs)
        )
        self._warn(zeros, [], None)
        made: KernelRows = rows
        return made

    def _pairs(
        self,
        X: Any,
        Y: Any,
        j: NDArray[Any] | Sequence[int] | None,
        n_jobs: int | None,
        progress: Progress | bool | None,
    ) -> NDArray[np.float64]:
        x, y, i = self._as_items(X), None, Y
        if j is None:
            y = self._as_items(Y)
            if len(y) != len(x):
                msg = f"Y has {len(y)} {self._items}, expected {len(x)}, as X"
                raise ValueError(msg)
            i = j = np.arange(len(x))
        jobs, tell = (
            check_jobs(n_jobs),
            progress_callback(progress, type(self).__name__, "pair"),
        )
        values, (rows, columns) = self._core.pairs(
            x, y, i, j, self.normalize, jobs, tell
        )
        if y is None:
            rows = sorted({*rows, *columns})
        self._warn(rows, columns, y)
        found: NDArray[np.float64] = values
        return found

    def _top_k(
        self,
        X: Any,
        Y: Any,
        k: int,
        n_jobs: int | None,
        progress: Progress | bool | None,
    ) -> Neighbors:
        k = check_at_least_one("k", k)
        x, y = self._as_items(X), None if Y is None else self._as_items(Y)
        jobs, tell = (
            check_jobs(n_jobs),
            progress_callback(progress, type(self).__name__),
        )
        found, (rows, columns) = self._core.top_k(x, y, k, self.normalize, jobs, tell)
        self._warn(rows, columns, y)
        return Neighbors(*found)

    def _join(
        self,
        X: Any,
        Y: Any,
        min_similarity: float,
        n_jobs: int | None,
        out: Callable[..., object] | None,
        progress: Progress | bool | None,
    ) -> JoinResult:
        x, y = self._as_items(X), None if Y is None else self._as_items(Y)
        least, out = check_number("min_similarity", min_similarity), check_sink(out)
        (i, j, values), (rows, columns) = self._core.join(
            x,
            y,
            least,
            self.normalize,
            check_jobs(n_jobs),
            progress_callback(progress, type(self).__name__),
            out,
        )
        self._warn(rows, columns, y)
        return JoinResult(i, j, values, (len(x), len(x if y is None else y)))


def warn_of_both(
    rows: list[int], columns: list[int], y: Forest | None, stacklevel: int = 4
) -> None:
    warn_of_zeros(rows, "X", stacklevel)
    if y is not None:
        warn_of_zeros(columns, "Y", stacklevel)


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
