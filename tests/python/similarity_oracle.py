"""The slow twin of the smoothed partial tree kernel: pairs of fragments, written out.

Written from the definition, before the library's code; it shares no recursion with it. For
every pair of fragments F of a, G of b with the same unlabelled ordered shape,

    w(F) w(G) Π_i sigma(F_i, G_i)      nodes paired in preorder
    w(F) = μ^(|F|/2) λ^(fragment leaves + gaps) √leaf_factor^(leaves of the tree among them)

and a kernel is the sum. A tree is ``(label, children)`` as in oracle.py, a similarity a
function of two labels, 1 for equal ones. Trees of some seven nodes.

>>> sigma = table({("cat", "dog"): 0.8})
>>> cat, dog = ("N", (("cat", ()),)), ("N", (("dog", ()),))
>>> round(smoothed(cat, dog, sigma), 6)
0.13568
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import combinations, product
from math import prod, sqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

    from oracle import Tree

    Sigma = Callable[[str, str], float]
    Shape = tuple["Shape", ...]


# --- The kernel -----------------------------------------------------------------------


def fragments(
    tree: Tree,
    *,
    decay: float = 0.4,
    mu: float = 0.4,
    leaf_factor: float = 1.0,
    max_children: int | None = None,
) -> dict[Shape, Counter[tuple[str, ...]]]:
    """Return the fragments by shape: labels in preorder, and the sum of the weights."""

    def rooted(node: Tree) -> Iterator[tuple[Shape, tuple[str, ...], float]]:
        label, children = node
        single = sqrt(mu) * decay
        yield (), (label,), single if children else single * sqrt(leaf_factor)
        below = [list(rooted(child)) for child in children]
        longest = len(children) if max_children is None else max_children
        for length in range(1, min(longest, len(children)) + 1):
            for places in combinations(range(len(children)), length):
                gaps = places[-1] - places[0] + 1 - length
                for parts in product(*(below[place] for place in places)):
                    shape = tuple(part[0] for part in parts)
                    labels = (label, *(name for part in parts for name in part[1]))
                    weight = prod(part[2] for part in parts)
                    yield shape, labels, sqrt(mu) * decay**gaps * weight

    found: dict[Shape, Counter[tuple[str, ...]]] = defaultdict(Counter)
    stack = [tree]
    while stack:
        node = stack.pop()
        stack.extend(node[1])
        for shape, labels, weight in rooted(node):
            found[shape][labels] += weight
    return found


def smoothed(a: Tree, b: Tree, sigma: Sigma, **parameters: float) -> float:
    """Return K(a, b)."""
    left, right = fragments(a, **parameters), fragments(b, **parameters)
    return float(
        sum(
            w * v * prod(map(sigma, f, g))
            for shape in left.keys() & right.keys()
            for f, w in left[shape].items()
            for g, v in right[shape].items()
        )
    )


# --- Similarities ---------------------------------------------------------------------


def table(pairs: Mapping[tuple[str, str], float]) -> Sigma:
    """Return the similarity of a table; what is not in it is 0."""

    def sigma(x: str, y: str) -> float:
        if x == y:
            return 1.0
        return pairs.get((x, y), pairs.get((y, x), 0.0))

    return sigma


def cut(
    cosine: float, power: int = 1, threshold: float | None = None, clip: bool = False
) -> float:
    """Return what is made of a cosine: clip, cut, then power."""
    c = min(max(cosine, -1.0), 1.0)
    if clip:
        c = max(c, 0.0)
    if threshold is not None and c < threshold:
        return 0.0
    return c**power


def _dot(x: Sequence[float], y: Sequence[float]) -> float:
    return sum(p * q for p, q in zip(x, y, strict=True))


def _cosine(x: Sequence[float], y: Sequence[float]) -> float:
    return _dot(x, y) / sqrt(_dot(x, x) * _dot(y, y))


def vectors(
    of: Mapping[str, Sequence[float]],
    class_of: Callable[[str], Hashable] = lambda _: "one",
    key: Callable[[str], str] = lambda label: label,
    **how: object,
) -> Sigma:
    """Return the similarity of vectors within classes; None is no class."""

    def sigma(x: str, y: str) -> float:
        if x == y:
            return 1.0
        if class_of(x) is None or class_of(x) != class_of(y):
            return 0.0
        u, v = of.get(key(x)), of.get(key(y))
        if u is None or v is None or not any(u) or not any(v):
            return 0.0
        return cut(_cosine(u, v), **how)  # type: ignore[arg-type]

    return sigma


def _typed(label: str) -> tuple[str, str]:
    if "##" in label:
        kind, _, content = label.partition("##")
        return kind, content
    return ("LEX" if "::" in label else "NOTYPE"), label


def kelp_class(label: str) -> Hashable:
    """Return the class of a label of KeLP's: its part of speech, if it is a word."""
    kind, content = _typed(label)
    if kind != "LEX" or "::" not in content:
        return None
    return "LEX", content.partition("::")[2]


def kelp_key(label: str) -> str:
    """Return the key of a label's vector."""
    return _typed(label)[1]


def _unit(v: Sequence[float]) -> list[float]:
    n = sqrt(_dot(v, v))
    return [x / n for x in v] if n else list(v)


def composed(
    of: Mapping[str, Sequence[float]],
    *,
    compose: str = "sum",
    same_pos: bool = True,
    same_relation: bool = False,
    lexical: bool = True,
    **how: object,
) -> Sigma:
    """Return the similarity of compounds ``COMP##relation<head,modifier>``."""

    def parts(label: str) -> tuple[str, str, str]:
        relation, _, both = _typed(label)[1][:-1].partition("<")
        head, _, modifier = both.partition(",")
        return relation, head, modifier

    def vector(label: str) -> list[float] | None:
        _, head, modifier = parts(label)
        h, m = of.get(head), of.get(modifier)
        if h is None and m is None:
            return None
        h, m = (_unit(m or h or []) if v is None else _unit(v) for v in (h, m))
        if compose == "sum":
            return [x + y for x, y in zip(h, m, strict=True)]
        if compose == "product":
            return [x * y for x, y in zip(h, m, strict=True)]
        hh, hm = _dot(h, h), _dot(h, m)
        return [hh * x + hm * y for x, y in zip(h, m, strict=True)]

    words = vectors(of, kelp_class, kelp_key, **how)

    def sigma(x: str, y: str) -> float:
        if x == y:
            return 1.0
        kinds = {_typed(x)[0], _typed(y)[0]}
        if kinds == {"LEX"} and lexical:
            return words(x, y)
        if kinds != {"COMP"}:
            return 0.0
        (r, h, m), (s, i, n) = parts(x), parts(y)
        pos = [word.partition("::")[2] for word in (h, m, i, n)]
        if same_pos and pos[:2] != pos[2:]:
            return 0.0
        if same_relation and r != s:
            return 0.0
        u, v = vector(x), vector(y)
        if u is None or v is None or not any(u) or not any(v):
            return 0.0
        return cut(_cosine(u, v), **how)  # type: ignore[arg-type]

    return sigma
