"""Kernels of sentence pairs: how many rewrite rules two pairs of trees share.

A pair is two trees whose related nodes carry the same placeholder (`PairForest`). The
kernel counts the pairs of fragments, one of the left tree and one of the right tree, that
two pairs share, where the names of placeholders do not matter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treekernel_rs._arguments import check_flag, check_integer, check_number
from treekernel_rs._core import (
    ConstraintLimitError,
    Pair,
    PairCore,
    PairForest,
    as_pairs,
)
from treekernel_rs._matrices import KernelMethods
from treekernel_rs._public import listing

if TYPE_CHECKING:
    from collections.abc import Sequence

    OnePair = Pair | tuple[str | bytes, str | bytes]
    Pairs = PairForest | Sequence[OnePair]

__all__ = ["ConstraintLimitError", "Pair", "PairForest", "PairKernel"]
__dir__ = listing(__all__)


class PairKernel(KernelMethods["Pairs"]):
    r"""A kernel of sentence pairs: the rewrite rules that two pairs share.

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

    Notes
    -----
    X and Y of its methods are pairs: a `PairForest`, or a sequence of (left, right). If values
    need more than `max_constraints`, the methods raise a `ConstraintLimitError`. All other
    values are computed first: the error's ``result`` is the matrix, with NaN for what is
    missing, and its ``pairs`` says where.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> p = ("(S (NP:1 a) (VP sleeps))", "(S (NP:1 a) (VP rests))")
    >>> q = ("(S (NP:7 b) (VP sleeps))", "(S (NP:7 b) (VP rests))")
    >>> k = tk.PairKernel(1.0)
    >>> k.pair(p, q), k([p, q]).diagonal(), k.top_k([p, q], k=1).indices.ravel()
    (9.0, array([36., 36.]), array([1, 0]))
    """

    _core: PairCore
    decay: float
    method: str
    normalize: bool
    max_constraints: int
    _items = "pairs"

    def _examples(self, X: Pairs) -> PairForest:
        return as_pairs(X)

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
