"""Kernels of sentence pairs: how many rewrite rules two pairs of trees share.

A pair is two trees whose related nodes carry the same placeholder (`PairForest`). The
kernel counts the pairs of fragments, one of the left tree and one of the right tree, that
two pairs share, where the names of placeholders do not matter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from treekernel_rs._arguments import check_flag, check_integer, check_number
from treekernel_rs._core import (
    ConstraintLimitError,
    Pair,
    PairCore,
    PairForest,
    as_pairs,
)
from treekernel_rs._matrices import MatrixMethods
from treekernel_rs._parameters import Normalizing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import DTypeLike, NDArray

    from treekernel_rs._arguments import Progress
    from treekernel_rs._core import KernelRows
    from treekernel_rs.neighbors import JoinResult, Neighbors

    OnePair = Pair | tuple[str | bytes, str | bytes]
    Pairs = PairForest | Sequence[OnePair]

__all__ = ["ConstraintLimitError", "Pair", "PairForest", "PairKernel"]


class PairKernel(MatrixMethods, Normalizing):
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
    _items = "pairs"

    @staticmethod
    def _as_items(items: Any) -> PairForest:
        return as_pairs(items)

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
        check_flag(self.normalize)
        return PairCore(
            check_number("decay", self.decay),
            _text("method", self.method),
            check_integer("max_constraints", self.max_constraints),
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
            Type of the result; that of `out` if it is given.
        n_jobs : int, optional
            Threads; by default and for -1 all cores the process may use, with 1 only
            the caller's thread.
            The result does not depend on it, bit for bit.
        out : ndarray or memmap, optional
            C-contiguous float64 or float32 matrix to fill.
        progress : callable or True, optional
            Called as progress(done, total), in rows; True shows a bar (of tqdm if it is
            installed).

        Returns
        -------
        ndarray, shape (len(X), len(Y))
            `out` if it is given.

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

    def diag(self, X: Pairs, *, n_jobs: int | None = None) -> NDArray[np.float64]:
        """Compute the kernel of each pair with itself.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> tk.PairKernel(1.0).diag([("(A:1 (B:1 b))", "(C c)"), ("(A a)", "(x)")])
        array([3., 0.])
        """
        return self._diag(X, n_jobs)

    def rows(self, X: Pairs, *, n_jobs: int | None = None) -> KernelRows:
        """Prepare the rows of the matrix of X with itself, to compute them on demand.

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
        return self._rows(X, n_jobs)

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

        ``pairs(X, Y)`` compares pair n of X with pair n of Y; ``pairs(X, i, j)`` compares
        pair ``i[n]`` of X with pair ``j[n]`` of X.

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
        return self._pairs(X, Y, j, n_jobs, progress)

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

        All kernels are computed; those of X with itself once for both pairs.

        Parameters
        ----------
        X, Y : PairForest or sequence of (left, right)
            The pairs; without Y, those of X, each without itself.
        k : int, default 10
            How many; fewer if there are fewer pairs.
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
        return self._top_k(X, Y, k, n_jobs, progress)

    def join(
        self,
        X: Pairs,
        Y: Pairs | None = None,
        *,
        min_similarity: float = 0.8,
        n_jobs: int | None = None,
        out: Callable[..., object] | None = None,
        progress: Progress | bool | None = None,
    ) -> JoinResult:
        """Find all kernels that are at least `min_similarity`.

        All kernels are computed.

        Parameters
        ----------
        X, Y : PairForest or sequence of (left, right)
            The pairs; without Y, kernels of pairs i < j of X, each once.
        min_similarity : float, default 0.8
            The smallest kernel value of a pair.
        n_jobs, out, progress
            As in a tree kernel's `join`.

        Returns
        -------
        JoinResult
            As a tree kernel's `join`.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> X = [("(A:1 a)", "(B:1 b)"), ("(A:1 a)", "(B:2 b)"), ("(A:3 a)", "(B:3 b)")]
        >>> found = tk.PairKernel(0.5, normalize=True).join(X)
        >>> found.rows, found.columns, found.values
        (array([0]), array([2]), array([1.]))
        """
        return self._join(X, Y, min_similarity, n_jobs, out, progress)

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


def _text(name: str, value: object) -> str:
    if isinstance(value, str):
        return value
    msg = f"{name} must be a str, got {value!r}"
    raise TypeError(msg)
