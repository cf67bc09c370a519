"""The slow twin of the sentence pairs: every pair of fragments, written out.

Written from the definitions; it knows no alignment of nodes, no sets of constraints that
grow from the leaves, no inclusion and exclusion.  A node is a triple ``(label,
placeholder, children)`` of a str, a str or None, and a tuple of nodes; a sentence pair
is a pair of nodes.

A fragment of a tree has a root with children, and every one of its nodes has all of its
children or none.  A fragment of a sentence pair is a fragment of its left tree and one of
its right tree, chosen independently; two of those are the same if they look alike, and
*one* bijection carries the placeholders of the first to those at the same places in the
second.  The weight of a match is decay per expanded node.

Three ways to say what is the same, for the tests to compare:

*   `features`: placeholders are renumbered as they are first met, left tree first, each
    in preorder; equal means equal.  `exact` is the dot product of two such bags.
*   `exact_by_bijections`: for every two fragments of the same shape, every bijection of
    the one's placeholders onto the other's is tried.
*   `matched` pairs with a constraint, the set of pairs of placeholders at the same
    places; `is_bijection` of the union of both sides'.  `paper` and `maximum` need these.

>>> tree = read("(A:1 (B:1 b) (C c))")
>>> [(show(root), n) for root, n in fragments(tree)]
... # doctest: +NORMALIZE_WHITESPACE
[('(A:1 (B:1) (C))', 1), ('(A:1 (B:1) (C (c)))', 2), ('(A:1 (B:1 (b)) (C))', 2),
 ('(A:1 (B:1 (b)) (C (c)))', 3), ('(B:1 (b))', 1), ('(C (c))', 1)]

All values are exact: ints where decay is an int, Fractions where it is a Fraction.  The
number of fragments is exponential, and that of pairs of them its square.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from functools import cache, lru_cache
from itertools import combinations, permutations, product
from math import prod
from typing import TYPE_CHECKING

import oracle
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Node = tuple[str, str | None, tuple["Node", ...]]
    Pair = tuple[Node, Node]
    Number = int | Fraction
    Constraint = frozenset[tuple[str, str]]

# --- Reading ------------------------------------------------------------------------


def read(text: str) -> Node:
    """Read one tree; what follows the last colon of a label is a placeholder."""
    (tree,) = oracle.parse(text)

    def node(tree: oracle.Tree) -> Node:
        label, colon, placeholder = tree[0].rpartition(":")
        children = tuple(node(child) for child in tree[1])
        return (label, placeholder, children) if colon else (tree[0], None, children)

    return node(tree)


def show(node: Node) -> str:
    """Write a tree with every node in brackets, so that every one may have a colon."""
    label, placeholder, children = node
    name = label if placeholder is None else f"{label}:{placeholder}"
    return f"({' '.join([name, *map(show, children)])})"


def preorder(node: Node) -> Iterator[Node]:
    yield node
    for child in node[2]:
        yield from preorder(child)


def placeholders(*trees: Node) -> list[str]:
    """Return the placeholders in the order in which they are first met."""
    found = (node[1] for tree in trees for node in preorder(tree))
    return list(dict.fromkeys(name for name in found if name is not None))


def renamed(node: Node, names: dict[str, str]) -> Node:
    label, placeholder, children = node
    placeholder = None if placeholder is None else names[placeholder]
    return label, placeholder, tuple(renamed(child, names) for child in children)


def bare(node: Node) -> Node:
    """Return the tree without placeholders."""
    return node[0], None, tuple(bare(child) for child in node[2])


# --- Fragments ----------------------------------------------------------------------


def expansions(node: Node) -> Iterator[tuple[Node, int]]:
    """Yield the fragments with this root, and their numbers of expanded nodes."""
    label, placeholder, children = node
    if not children:
        return
    choices = [[((*child[:2], ()), 0), *expansions(child)] for child in children]
    for choice in product(*choices):
        below = tuple(fragment for fragment, _ in choice)
        yield (label, placeholder, below), 1 + sum(size for _, size in choice)


def fragments(tree: Node, *, root_only: bool = False) -> Iterator[tuple[Node, int]]:
    for node in [tree] if root_only else preorder(tree):
        yield from expansions(node)


@cache
def bag(tree: Node, root_only: bool = False) -> Counter:
    """Count the occurrences of (shape, placeholders in preorder, size)."""
    found: Counter = Counter()
    for fragment, size in fragments(tree, root_only=root_only):
        names = [n[1] for n in preorder(fragment) if n[1] is not None]
        shape = show(renamed(fragment, dict.fromkeys(names, "*")))
        found[shape, tuple(names), size] += 1
    return found


@cache
def normal_form(left: tuple[str, ...], right: tuple[str, ...]) -> tuple[int, ...]:
    """Renumber placeholders in the order in which they are first met."""
    order: dict[str, int] = {}
    return tuple(order.setdefault(name, len(order)) for name in left + right)


@lru_cache(maxsize=16)
def features(pair: Pair, root_only: bool = False) -> Counter:
    """Count the pairs of fragments of a sentence pair, up to names of placeholders."""
    found: Counter = Counter()
    left, right = (bag(tree, root_only) for tree in pair)
    for (t, names_t, size_t), n_t in left.items():
        for (g, names_g, size_g), n_g in right.items():
            form = normal_form(names_t, names_g)
            found[t, g, form, size_t + size_g] += n_t * n_g
    return found


# --- The exact kernel ---------------------------------------------------------------


def exact(p: Pair, q: Pair, decay: Number = 1, *, root_only: bool = False) -> Number:
    a, b = features(p, root_only), features(q, root_only)
    sizes: Counter = Counter()
    for f, n in a.items():
        sizes[f[-1]] += n * b.get(f, 0)
    return sum(n * decay**size for size, n in sizes.items())


def exact_by_bijections(p: Pair, q: Pair, decay: Number = 1) -> Number:
    """Try every bijection for every two pairs of fragments: the definition itself."""
    (left, right), (left_q, right_q) = ([bag(tree) for tree in x] for x in (p, q))
    total: Number = 0
    for (t, g), (u, h) in product(product(left, right), product(left_q, right_q)):
        if t[0] == u[0] and g[0] == h[0] and some_bijection(t[1] + g[1], u[1] + h[1]):
            count = left[t] * right[g] * left_q[u] * right_q[h]
            total += count * decay ** (t[2] + g[2])
    return total


def some_bijection(a: tuple[str, ...], b: tuple[str, ...]) -> bool:
    """Tell whether a bijection of the names of a onto those of b carries a to b."""
    names = list(dict.fromkeys(a))
    images = list(dict.fromkeys(b))
    return len(names) == len(images) and any(
        [dict(zip(names, chosen, strict=True))[name] for name in a] == list(b)
        for chosen in permutations(images)
    )


# --- Constraints: the paper's kernel, and the best single assignment ----------------


def is_bijection(constraint: Iterable[tuple[str, str]]) -> bool:
    """Tell whether no two of the pairs share exactly one end."""
    pairs = set(constraint)
    left, right = zip(*pairs, strict=True) if pairs else ((), ())
    return len(pairs) == len(set(left)) == len(set(right))


@cache
def matched(a: Node, b: Node, decay: Number = 1, root_only: bool = False) -> Counter:
    """Return the weights of all matches of fragments of two trees, by constraint."""
    same_shape: dict[str, list[tuple[tuple[str, ...], int]]] = {}
    for (shape, names, _), n in bag(b, root_only).items():
        same_shape.setdefault(shape, []).append((names, n))
    found: Counter = Counter()
    for (shape, names, size), n in bag(a, root_only).items():
        weight = n * decay**size
        for names_b, n_b in same_shape.get(shape, ()):
            constraint = frozenset(zip(names, names_b, strict=True))
            if is_bijection(constraint):
                found[constraint] += weight * n_b
    return found


def inside(weights: Counter, limit: Constraint) -> Number:
    """Return the weight of what has its constraint inside a limit: K_S."""
    return sum(weight for c, weight in weights.items() if c <= limit)


def maximal(constraints: Iterable[Constraint]) -> set[Constraint]:
    every = set(constraints)
    return {c for c in every if not any(c < other for other in every)}


def both(p: Pair, q: Pair, decay: Number, root_only: bool) -> tuple[Counter, Counter]:
    left = matched(p[0], q[0], decay, root_only)
    return left, matched(p[1], q[1], decay, root_only)


def paper_constraints(p: Pair, q: Pair, *, root_only: bool = False) -> set[Constraint]:
    """Return C: the maximal ones of the constraints of either side."""
    left, right = both(p, q, 1, root_only)
    return maximal([*left, *right])


def exact_constraints(p: Pair, q: Pair) -> set[Constraint]:
    """Return the maximal ones of the unions of constraints of both sides."""
    unions = (a | b for a, b in product(*both(p, q, 1, False)))
    return maximal(c for c in unions if is_bijection(c))


def paper(p: Pair, q: Pair, decay: Number = 1, *, root_only: bool = False) -> Number:
    """Sum over what is inside one member of C as a whole: the meaning of the formula.

    Where C is empty nothing matches, and where it holds no pair of placeholders it is
    {{}}: both are covered.
    """
    left, right = both(p, q, decay, root_only)
    members = paper_constraints(p, q, root_only=root_only)
    return sum(
        x * y
        for (a, x), (b, y) in product(left.items(), right.items())
        if any(a <= member and b <= member for member in members)
    )


def by_inclusion_and_exclusion(
    p: Pair, q: Pair, members: set[Constraint], decay: Number = 1
) -> Number:
    """Evaluate the formula: intersections C*, their multiplicities N, the sum."""
    closed = set(members) | {frozenset()}
    while more := {a & b for a, b in combinations(closed, 2)} - closed:
        closed |= more
    signs: dict[Constraint, int] = {}
    for c in sorted(closed, key=len, reverse=True):
        signs[c] = 1 - sum(n for other, n in signs.items() if c < other)
    left, right = both(p, q, decay, False)
    return sum(n * inside(left, c) * inside(right, c) for c, n in signs.items())


def injections(p: Pair, q: Pair) -> Iterator[Constraint]:
    """Yield all injections of the smaller set of placeholders into the larger."""
    left, right = placeholders(*p), placeholders(*q)
    if len(left) <= len(right):
        for chosen in permutations(right, len(left)):
            yield frozenset(zip(left, chosen, strict=True))
    else:
        for chosen in permutations(left, len(right)):
            yield frozenset(zip(chosen, right, strict=True))


def maximum(
    p: Pair,
    q: Pair,
    decay: Number = 1,
    *,
    join: Callable[[list[Number]], Number] = prod,
    root_only: bool = False,
) -> Number:
    """Return K_max, the best value of a single assignment of placeholders."""
    sides = both(p, q, decay, root_only)
    return max(join([inside(side, c) for side in sides]) for c in injections(p, q))


METHODS: dict[str, Callable[..., Number]] = {
    "exact": exact,
    "paper": paper,
    "max": maximum,
}
CONSTRAINTS = {"exact": exact_constraints, "paper": paper_constraints}


# --- Hypothesis: small sentence pairs that have something in common -----------------


@st.composite
def _skeletons(draw: st.DrawFn, n: int) -> Node:
    """Draw a tree of at most n nodes, some of them marked, of few labels."""
    size = draw(st.integers(1, n))
    children: list[list[int]] = [[] for _ in range(size)]
    for node in range(1, size):
        children[draw(st.integers(max(0, node - 3), node - 1))].append(node)
    made: list = [None] * size
    for node in reversed(range(size)):
        mark = draw(st.sampled_from([None, "*", "*"]))
        below = tuple(made[child] for child in children[node])
        made[node] = (draw(st.sampled_from("ab")), mark, below)
    return made[0]


def _named(draw: st.DrawFn, node: Node, names: st.SearchStrategy[str]) -> Node:
    label, mark, children = node
    mark = None if mark is None else draw(names)
    return label, mark, tuple(_named(draw, child, names) for child in children)


@st.composite
def sentence_pairs(draw: st.DrawFn, most: int = 3, nodes: int = 7) -> list[Pair]:
    """Draw some pairs from fewer shapes, so that mostly their names differ."""
    shape = st.tuples(_skeletons(nodes), _skeletons(nodes))
    shapes = draw(st.lists(shape, min_size=1, max_size=2))
    # Two names make for clashes, four for many assignments.
    names = st.sampled_from("1234"[: draw(st.integers(1, 4))])
    return [
        (_named(draw, left, names), _named(draw, right, names))
        for left, right in draw(
            st.lists(st.sampled_from(shapes), min_size=1, max_size=most)
        )
    ]


decays = st.sampled_from([1, Fraction(1, 2), Fraction(2, 5), Fraction(1, 10)])
