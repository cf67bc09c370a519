"""Kernels of sentence pairs: how many rewrite rules two pairs of trees share.

A pair is two trees whose related nodes carry the same placeholder (`PairForest`). The
kernel counts the pairs of fragments, one of the left tree and one of the right tree, that
two pairs share, where the names of placeholders do not matter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from treekernel_rs._core import Pair, PairCore, PairForest, as_pairs
from treekernel_rs.kernels import (
    Parameters,
    _at_least_one,
    _bar,
    _check_out,
    _flag,
    _float_type,
    _integer,
    _jobs,
    _real,
    _warn_of_zeros,
)
from treekernel_rs.neighbors import Neighbors, SimilarPairs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import DTypeLike, NDArray

    from treekernel_rs._core import KernelRows

    OnePair = Pair | tuple[str | bytes, str | bytes]
    Pairs = PairForest | Sequence[OnePair]
    Progress = Callable[[int, int], object]

__all__ = ["PairKernel"]

#: Kernels that `top_k` and `join` hold at a time.
_CELLS = 1 << 22


class PairKernel(Parameters):
    r"""The rewrite rules that two sentence pairs share.

    Every two isomorphic pairs of fragments add decay^n, where n is the number of productions
    on both sides. They are isomorphic if the trees on each side are equal, and one bijection
    of placeholders fits both sides.

    Parameters
    ----------
    decay : float, default 0.4
        Weight of a pair of fragments per production, above 0 and at most 1.
    method : {"exact", "paper", "max", "max_enumerated"}, default "exact"
        "exact": the kernel as defined, whose matrices are positive semidefinite. "paper":
        the construction of Zanzotto and Dell'Arciprete (2009), which misses some pairs of
        fragments and is not a dot product. "max": the value of the best single
        correspondence of placeholders, found by branch and bound; it is at most the exact
        value and not a dot product. "max_enumerated": the same, by trying all
        correspondences.
    normalize : bool, default False
        Divide by the square root of the product of both self-kernels.
    max_constraints : int, default 100,000
        How many sets of placeholder pairs one value may need at a time. In the worst
        case there are exponentially many, for every method. This limits time as well: to
        500 times as many comparisons of two sets.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> p = ("(S (NP:1 a) (VP sleeps))", "(S (NP:1 a) (VP rests))")
    >>> q = ("(S (NP:7 b) (VP sleeps))", "(S (NP:7 b) (VP rests))")
    >>> tk.PairKernel(1.0).pair(p, q)
    9.0
    """

    _core: PairCore
    decay: float
    method: str
    normalize: bool
    max_constraints: int

    def __init__(
        self,
        decay: float = 0.4,
        *,
        method: str = "exact",
        normalize: bool = False,
        max_constraints: int = 100_000,
    ) -> None:
        self._remember(
            decay=decay,
            method=method,
            normalize=normalize,
            max_constraints=max_constraints,
        )

    def _make(self) -> PairCore:
        _flag(self.normalize)
        return PairCore(
            _real("decay", self.decay),
            _text("method", self.method),
            _integer("max_constraints", self.max_constraints),
        )

    def _examples(self, X: Pairs) -> PairForest:
        return as_pairs(X)

    def __call__(self, X: Pairs, Y: Pairs | None = None) -> NDArray[np.float64]:
        """Compute the kernels of all pairs of X with all pairs of Y.

        Parameters
        ----------
        X, Y : PairForest or sequence of (left, right)
            The pairs. They need not come from the same forest. Without Y, the kernels of
            X with itself.

        Returns
        -------
        ndarray of float64, shape (len(X), len(Y))
            Without Y it is symmetric, bit for bit.

        Raises
        ------
        ConstraintLimitError
            As `gram`.
        """
        return self._matrix(X, Y, np.float64, None, None, None)

    def gram(
        self,
        X: Pairs,
        Y: Pairs | None = None,
        *,
        dtype: DTypeLike = np.float64,
        n_jobs: int | None = None,
        out: NDArray[Any] | None = None,
        progress: Progress | bool | None = None,
    ) -> NDArray[Any]:
        """Compute a kernel matrix, with all options.

        Parameters
        ----------
        X, Y : PairForest or sequence of (left, right)
            The pairs; without Y, those of X with each other.
        dtype : float64 or float32
            Type of the result; that of `out` where it is given.
        n_jobs : int, optional
            Threads; by default and for -1 all cores the process may use, with 1 only
            the caller's thread.
            The result does not depend on it, bit for bit.
        out : ndarray or memmap, optional
            C-contiguous float64 or float32 matrix to fill.
        progress : callable or True, optional
            Called with the numbers of rows done and in all; True shows a bar (tqdm's,
            where it is installed).

        Returns
        -------
        ndarray, shape (len(X), len(Y))
            `out` where it is given.

        Raises
        ------
        ConstraintLimitError
            If values need more than `max_constraints`. All others are computed first:
            the error's ``result`` is the matrix, with NaN for what is missing, and its
            ``pairs`` says where.
        OverflowError
            If a value is too large for the type; names the two pairs.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> pairs = [("(A:1 a)", "(B:1 b)"), ("(A:1 a)", "(B:2 b)")]
        >>> tk.PairKernel(0.5).gram(pairs, n_jobs=1)
        array([[0.25, 0.  ],
               [0.  , 0.25]])
        """
        return self._matrix(X, Y, dtype, n_jobs, out, progress)

    def _matrix(
        self,
        X: Pairs,
        Y: Pairs | None,
        dtype: DTypeLike,
        n_jobs: int | None,
        out: NDArray[Any] | None,
        progress: Progress | bool | None,
    ) -> NDArray[Any]:
        x = as_pairs(X)
        y = None if Y is None else as_pairs(Y)
        shape = (len(x), len(x if y is None else y))
        if out is None:
            out = np.empty(shape, _float_type(dtype))
        else:
            _check_out(out, shape, dtype)
        tell = _teller(type(self).__name__, progress)
        rows, columns = self._core.gram(x, y, out, self.normalize, _jobs(n_jobs), tell)
        _warn_of_zeros(rows, "X", what="pairs")
        if y is not None:
            _warn_of_zeros(columns, "Y", what="pairs")
        return out

    def diag(self, X: Pairs, *, n_jobs: int | None = None) -> NDArray[np.float64]:
        """Compute the kernel of each pair with itself.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> tk.PairKernel(1.0).diag([("(A:1 (B:1 b))", "(C c)"), ("(A a)", "(x)")])
        array([3., 0.])
        """
        values, zeros = self._core.diagonal(as_pairs(X), self.normalize, _jobs(n_jobs))
        _warn_of_zeros(zeros, "X", stacklevel=3, what="pairs")
        return values

    def rows(self, X: Pairs, *, n_jobs: int | None = None) -> KernelRows:
        """Make the rows of the matrix of X with itself ready to be asked for.

        Parameters
        ----------
        X : PairForest or sequence of (left, right)
            The pairs.
        n_jobs : int, optional
            Threads for self-kernels and for several rows at once, as in `gram`.

        Returns
        -------
        KernelRows
            ``rows[i]`` is row ``i`` of ``k(X, X)``, ``rows[indices]`` some of its rows.

        Raises
        ------
        ConstraintLimitError
            By ``rows[i]``, where `gram` has it.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> rows = tk.PairKernel(0.5).rows([("(A:1 a)", "(B:1 b)"), ("(A:1 a)", "(B:2 b)")])
        >>> rows[0], len(rows)
        (array([0.25, 0.  ]), 2)
        """
        rows, zeros = self._core.rows(as_pairs(X), self.normalize, _jobs(n_jobs))
        _warn_of_zeros(zeros, "X", stacklevel=3, what="pairs")
        return rows

    def pairs(
        self,
        X: Pairs,
        Y: Pairs | NDArray[Any] | Sequence[int],
        j: NDArray[Any] | Sequence[int] | None = None,
        *,
        n_jobs: int | None = None,
        progress: Progress | bool | None = None,
    ) -> NDArray[np.float64]:
        """Compute single kernels.

        ``pairs(X, Y)`` has pair n of X with pair n of Y; ``pairs(X, i, j)`` pair ``i[n]`` of
        X with pair ``j[n]`` of X.

        Parameters
        ----------
        X : PairForest or sequence of (left, right)
            The pairs.
        Y : PairForest or sequence of (left, right), or array of int
            As many others; or, with `j`, numbers of pairs of X.
        j : array of int, optional
            As many numbers of pairs of X.
        n_jobs, progress
            As in `gram`.

        Returns
        -------
        ndarray of float64, shape (number of kernels,)

        Raises
        ------
        ConstraintLimitError
            As `gram`.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> X = [("(A:1 a)", "(B:1 b)"), ("(A:1 a)", "(B:2 b)")]
        >>> tk.PairKernel(0.5).pairs(X, [0, 0], [0, 1])
        array([0.25, 0.  ])
        """
        x, y = as_pairs(X), None
        i: Any = Y
        if j is None:
            y = as_pairs(Y)
            if len(y) != len(x):
                msg = f"Y has {len(y)} pairs, expected {len(x)}, as X"
                raise ValueError(msg)
            i = j = np.arange(len(x))
        tell = _teller(type(self).__name__, progress)
        values, (rows, columns) = self._core.pairs(
            x, y, i, j, self.normalize, _jobs(n_jobs), tell
        )
        if y is None:
            rows = sorted({*rows, *columns})
        _warn_of_zeros(rows, "X", stacklevel=3, what="pairs")
        if y is not None:
            _warn_of_zeros(columns, "Y", stacklevel=3, what="pairs")
        return values

    def top_k(
        self,
        X: Pairs,
        Y: Pairs | None = None,
        *,
        k: int = 10,
        n_jobs: int | None = None,
        progress: Progress | bool | None = None,
    ) -> Neighbors:
        """Find the pairs of Y that have the largest kernels with each pair of X.

        All kernels are computed, some rows at a time.

        Parameters
        ----------
        X, Y : PairForest or sequence of (left, right)
            The pairs; without Y, those of X, each without itself.
        k : int, default 10
            How many; fewer where there are fewer pairs.
        n_jobs, progress
            As in `gram`.

        Returns
        -------
        Neighbors
            As a tree kernel's `top_k`.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> X = [("(A:1 a)", "(B:1 b)"), ("(A:1 a)", "(B:2 b)"), ("(A:3 a)", "(B:3 b)")]
        >>> tk.PairKernel(0.5).top_k(X, k=1).indices.ravel()
        array([2, 0, 0])
        """
        k = _at_least_one("k", k)
        x, y = as_pairs(X), None if Y is None else as_pairs(Y)
        k = min(k, len(x) - 1 if y is None else len(y)) if len(x) else 0
        indices = np.zeros((len(x), k), np.int64)
        values = np.zeros((len(x), k))
        for start, block in self._blocks(x, y, n_jobs, progress):
            if y is None:
                own = np.arange(len(block))
                block[own, start + own] = -np.inf
            nearest = np.argsort(-block, axis=1, kind="stable")[:, :k]
            indices[start : start + len(block)] = nearest
            values[start : start + len(block)] = np.take_along_axis(
                block, nearest, axis=1
            )
        return Neighbors(indices, values)

    def join(
        self,
        X: Pairs,
        Y: Pairs | None = None,
        *,
        min_similarity: float = 0.8,
        n_jobs: int | None = None,
        progress: Progress | bool | None = None,
    ) -> SimilarPairs:
        """Find all kernels that are at least `min_similarity`.

        All kernels are computed, some rows at a time.

        Parameters
        ----------
        X, Y : PairForest or sequence of (left, right)
            The pairs; without Y, kernels of pairs i < j of X, each once.
        min_similarity : float, default 0.8
            The least kernel.
        n_jobs, progress
            As in `gram`.

        Returns
        -------
        SimilarPairs
            As a tree kernel's `join`.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> X = [("(A:1 a)", "(B:1 b)"), ("(A:1 a)", "(B:2 b)"), ("(A:3 a)", "(B:3 b)")]
        >>> found = tk.PairKernel(0.5, normalize=True).join(X)
        >>> found.rows, found.columns, found.values
        (array([0]), array([2]), array([1.]))
        """
        least = _real("min_similarity", min_similarity)
        if np.isnan(least):
            msg = f"min_similarity must be a number, got {least}"
            raise ValueError(msg)
        x, y = as_pairs(X), None if Y is None else as_pairs(Y)
        found: list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]] = []
        for start, block in self._blocks(x, y, n_jobs, progress):
            rows, columns = np.nonzero(block >= least)
            kept = np.full(len(rows), True) if y is not None else columns > start + rows
            rows, columns = rows[kept], columns[kept]
            found.append((start + rows, columns, block[rows, columns]))
        none = (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
        parts = zip(*found, strict=True) if found else ((part,) for part in none)
        rows, columns, values = (np.concatenate(part) for part in parts)
        return SimilarPairs(rows, columns, values, (len(x), len(x if y is None else y)))

    def _blocks(
        self,
        x: PairForest,
        y: PairForest | None,
        n_jobs: int | None,
        progress: Progress | bool | None,
    ) -> Iterator[tuple[int, NDArray[np.float64]]]:
        """Yield some rows of the matrix at a time, and the number of the first."""
        tell, columns = _teller(type(self).__name__, progress), x if y is None else y
        height = max(16, _CELLS // max(1, len(columns)))
        zeros: tuple[list[int], list[int]] = ([], [])
        for start in range(0, len(x), height):
            rows = x[start : start + height]
            out = np.empty((len(rows), len(columns)))
            args = (out, self.normalize, _jobs(n_jobs), None)
            own, others = self._core.gram(rows, columns, *args)
            zeros = ([*zeros[0], *(start + row for row in own)], others)
            if tell is not None:
                tell(start + len(rows), len(x))
            yield start, out
        _warn_of_zeros(zeros[0], "X", stacklevel=4, what="pairs")
        if y is not None:
            _warn_of_zeros(zeros[1], "Y", stacklevel=4, what="pairs")

    def pair(self, p: OnePair, q: OnePair) -> float:
        """Compute the kernel of two pairs.

        Parameters
        ----------
        p, q : Pair or (left, right)
            The pairs; as text with placeholders after a colon.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> p = ("(A (B:1 b) (B:2 b))", "(C:1 (D:2 d))")
        >>> q = ("(A (B:7 b) (B:8 b))", "(C:8 (D:7 d))")
        >>> k = tk.PairKernel(1.0)
        >>> k.pair(p, p), k.pair(p, q)
        (18.0, 6.0)
        """
        return self._core.pair(p, q, self.normalize)

    def constraints(self, p: OnePair, q: OnePair) -> list[list[tuple[int, int]]]:
        """Return the sets of placeholder pairs under which fragments of two pairs match.

        Returns
        -------
        list of list of tuple of int
            C, the maximal sets of pairs (placeholder of p, placeholder of q), larger
            sets first. With ``method="paper"``, as in the paper, for fragments of one side;
            with "exact", for fragments of both sides together; with "max", only the set
            that has the maximum. With "exact" and "max" the list is empty if one side
            has no equal fragments.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> p = ("(R (A:1 a) (B:2 b))", "(Q (A:1 a) (B:2 b))")
        >>> q = ("(S (A:1 a) (B:2 b))", "(T (A:2 a) (B:2 b))")
        >>> tk.PairKernel(method="paper").constraints(p, q)
        [[(1, 1)], [(1, 2)], [(2, 2)]]
        >>> tk.PairKernel().constraints(p, q)
        [[(1, 1), (2, 2)]]
        """
        return self._core.constraints(p, q)


def _teller(name: str, progress: Progress | bool | None) -> Progress | None:
    if progress is True:
        return _bar(name)
    if progress is None or progress is False:
        return None
    if callable(progress):
        return progress
    msg = f"progress must be a callable, True or None, got {progress!r}"
    raise TypeError(msg)


def _text(name: str, value: object) -> str:
    if isinstance(value, str):
        return value
    msg = f"{name} must be a str, got {value!r}"
    raise TypeError(msg)
