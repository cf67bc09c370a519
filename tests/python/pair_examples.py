"""Worked examples of sentence pairs, with the numbers that were found by hand."""

from __future__ import annotations

from math import comb, factorial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pair_oracle as po

if TYPE_CHECKING:
    from collections.abc import Callable

    from pair_oracle import Constraint, Pair


def pair(left: str, right: str) -> Pair:
    return po.read(left), po.read(right)


def constraint(written: str) -> Constraint:
    """Read "11 34" as {(1, 1), (3, 4)}."""
    return frozenset((a, b) for a, b in written.split())


def matrix(kernel: Callable[..., po.Number], pairs: list[Pair], decay: po.Number):
    return np.array([[float(kernel(p, q, decay)) for q in pairs] for p in pairs])


# --- The two that are small enough for fragments to be drawn --------------------------

P_A = pair(
    "(A:1 (B:1 (B:1) (B:2)) (C:1 (C:1) (C:2)))",
    "(I:1 (M:1 (M:2) (M:1)) (N:1 (N:2) (N:1)))",
)
P_B = pair(
    "(A:1 (B:1 (B:1) (B:2)) (C:1 (C:1) (C:3)))",
    "(I:1 (M:1 (M:3) (M:1)) (N:1 (N:2) (N:1)))",
)

# --- Farmers feed cows animal extracts; Pediatricians suggest women to feed ... -------

P1 = pair(
    "(S (NP (NNS Farmers)) (VP (VB feed) (NP:1 (NNS:1 cows))"
    " (NP:3 (NN:2 animal) (NNS:3 extracts))))",
    "(S (NP:1 (NNS:1 Cows)) (VP (VB eat) (NP:3 (NN:2 animal) (NNS:3 extracts))))",
)


def _p2(tag: str) -> Pair:
    return pair(
        "(S:2 (NP:1 (NNS:1 Pediatricians)) (VP:2 (VB:2 suggest) (S (NP (NNS women))"
        " (VP (TO to) (VP (VB feed) (NP:3 (NNS:3 newborns))"
        f" (NP:4 (NN:5 breast) ({tag}:4 milk)))))))",
        "(S:2 (NP:1 (NNS:1 Pediatricians)) (VP:2 (VB:2 suggest) (SBAR (IN that)"
        " (S (NP:3 (NNS:3 newborns)) (VP (VB eat)"
        f" (NP:4 (NN:5 breast) ({tag}:4 milk)))))))",
    )


P2_NN, P2_NNS = _p2("NN"), _p2("NNS")

# Numbers of matches of left trees and of right trees, for P2_NN and for P2_NNS.
MATCHES = {
    "": ((4, 1), (4, 1)),
    "11": ((1, 1), (1, 1)),
    "13": ((1, 3), (1, 3)),
    "34": ((0, 2), (0, 2)),
    "13 34": ((4, 4), (4, 4)),
    "25 34": ((0, 0), (1, 3)),
    "13 25 34": ((0, 0), (4, 4)),
}

# --- Where the paper's construction falls short ---------------------------------------

SHORT = (
    pair("(S1 (T (P:1)) (Q:2))", "(S2 (U (Q:2)) (P:1))"),
    pair("(S3 (T (P:1)) (Q:2))", "(S4 (U (Q:2)) (P:1))"),
)

_R, _S, _T, _U = "(R (P:1) (Q:2))", "(S (P:1) (Q:2))", "(T (P:1))", "(U (Q:2))"
THREE = [
    pair(f"(Z1 {_T * 3} {_R})", f"(Y1 {_U * 3} (P:1))"),
    pair(f"(Z2 {_T * 3} {_R} {_S})", f"(Y2 {_U * 3} (P:1))"),
    pair(f"(Z3 {_T * 3} {_S})", f"(Y3 {_U * 3} (P:1))"),
]

# The largest constraint of a node alone is not enough: 9 matches, not 8.
UNPRUNED = (
    pair("(R (P (x:1) (Q (y:2))) (S (z:3)))", "(Z z)"),
    pair("(R (P (x:1) (Q (y:2))) (S (z:2)))", "(Z z)"),
)


# --- The best single assignment is no dot product -------------------------------------


def _children(*counted: tuple[int, str]) -> str:
    return " ".join(f"({child} x)" for n, child in counted for _ in range(n))


FOUR = [
    pair(f"(R{i} {_children(*counted)})", "(Z z)")
    for i, counted in enumerate(
        [
            [(4, "A:1"), (2, "B:1"), (2, "B:2")],
            [(4, "A:1"), (4, "B:1")],
            [(2, "A:1"), (4, "B:1"), (2, "A:2")],
            [(4, "A:1"), (4, "B:2")],
        ]
    )
]


def matchings(n: int) -> tuple[Pair, Pair]:
    """Return two pairs whose kernel is the number of matchings of K(n, n), plus n * n.

    A fragment from the root expands any of the n * n children; child (i, j) asks for
    placeholder i to be j, so those that are expanded together must be a matching.
    """
    places = [(i, j) for i in range(n) for j in range(n)]
    left, right = (
        " ".join(f"(L{place[0]}-{place[1]} (x:{place[end]}))" for place in places)
        for end in (0, 1)
    )
    return pair(f"(R {left})", "(Z z)"), pair(f"(R {right})", "(Z z)")


def n_matchings(n: int) -> int:
    return sum(comb(n, k) ** 2 * factorial(k) for k in range(n + 1))


# --- Values ---------------------------------------------------------------------------


class Value(NamedTuple):
    method: str
    names: str
    decay: str
    value: str
    pairs: tuple[Pair, Pair]

    def __str__(self) -> str:
        return f"{self.method} {self.names} {self.decay}"


_PAIRS = {
    "a,b": (P_A, P_B),
    "a,a": (P_A, P_A),
    "b,b": (P_B, P_B),
    "1,NN": (P1, P2_NN),
    "1,NNS": (P1, P2_NNS),
    "1,1": (P1, P1),
    "NN,NN": (P2_NN, P2_NN),
    "NNS,NNS": (P2_NNS, P2_NNS),
    "short": SHORT,
    "unpruned": UNPRUNED,
    "1,2": (THREE[0], THREE[1]),
    "1,3": (THREE[0], THREE[2]),
}

# Method, pairs, decay, value. Both directions, and either X of the second, have one value
# each where they are not listed apart.
_VALUES = """
exact a,b 1 17
exact a,b 0.5 2.875
exact a,b 0.4 1.6832
paper a,b 1 17
paper a,b 0.5 2.875
paper a,b 0.4 1.6832
max a,b 1 9
exact a,a 1 36
exact b,b 1 36
paper a,a 1 36
paper b,b 1 36
exact 1,NN 1 98
exact 1,NNS 1 250
paper 1,NN 1 96
paper 1,NNS 1 244
max 1,NN 1 90
max 1,NNS 1 238
exact 1,NN 0.4 6.7702784
exact 1,NNS 0.4 11.215151104
paper 1,NN 0.4 6.5462784
paper 1,NNS 0.4 10.581551104
exact 1,1 1 7208
paper 1,1 1 7208
exact NN,NN 1 1240926
exact NNS,NNS 1 1240926
paper NN,NN 1 1240824
max NN,NN 1 1240782
paper NNS,NNS 1 1240824
max NNS,NNS 1 1240782
exact short 1 1
paper short 1 0
max short 1 1
exact unpruned 1 9
paper unpruned 1 9
exact 1,2 0.1 0.9
paper 1,2 0.1 0.9
exact 1,3 0.1 0.81
paper 1,3 0.1 0
"""
VALUES = [
    Value(method, names, decay, value, _PAIRS[names])
    for method, names, decay, value in map(str.split, _VALUES.strip().splitlines())
]

# Method, the two pairs, C.
CONSTRAINTS = [
    ("paper", P_A, P_B, ["11 22", "11 23"]),
    ("exact", P_A, P_B, ["11 22", "11 23"]),
    ("paper", P1, P2_NN, ["11", "13 34"]),
    ("paper", P1, P2_NNS, ["11", "13 34 25"]),
    ("exact", P1, P2_NN, ["13 34", "11 34"]),
    ("exact", P1, P2_NNS, ["13 25 34", "11 25 34"]),
    ("paper", *SHORT, ["11", "22"]),
    ("exact", *SHORT, ["11 22"]),
]
