"""The slow twin of the kernels: every fragment of a tree, written out and counted.

Written from the definitions; it shares no recursion with the library.  A tree is a pair
``(label, children)`` as in oracle.py.  For each kernel there is a function from a tree
to its feature vector, a Counter that gives every fragment the sum of the weights of its
occurrences; a kernel is the dot product of two such vectors.  No function here ever
looks at two trees at once, so nothing is shared with a recursion over pairs of nodes.

The definitions give a weight to a *pair* of occurrences; each side gets what multiplies
to it:

=====  ============================  ===================================================
ST     complete subtree              sqrt(decay) per inner node
SST    connected productions         sqrt(decay) per production
PT     any connected part            sqrt(mu) per node; decay per child passed over
                                     between two chosen ones; for a node without chosen
                                     children also decay, and sqrt(leaf_factor) if it
                                     has no children in the tree either
ET     ordered, with gaps in depth   sqrt(decay) per node
=====  ============================  ===================================================

>>> tree = ("S", (("A", (("a", ()),)), ("B", (("b", ()),))))
>>> sum(subset_tree(tree, decay=1).values())
6.0
>>> dot(subset_tree(tree, decay=1), subset_tree(tree, decay=1))
6.0

The number of fragments grows exponentially: for trees of some ten nodes.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations, product
from math import prod, sqrt
from typing import TYPE_CHECKING

import oracle
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

    from oracle import Tree

    Vector = Counter[Hashable]


def dot(a: Vector, b: Vector) -> float:
    return float(sum(weight * b[fragment] for fragment, weight in a.items()))


def normalized(ab: float, aa: float, bb: float) -> float:
    return ab / (sqrt(aa) * sqrt(bb)) if aa and bb else 0.0


def nodes(tree: Tree) -> list[Tree]:
    return [node for node, _, _ in oracle.preorder(tree)]


def collect(weighted: Iterable[tuple[Hashable, float]]) -> Vector:
    vector: Vector = Counter()
    for fragment, weight in weighted:
        vector[fragment] += weight
    return vector


def add_leaves(vector: Vector, tree: Tree, leaf_weight: float) -> Vector:
    """Count a leaf's label apart from all fragments that happen to look like it."""
    for label, children in nodes(tree):
        if not children:
            vector["leaf", label] += sqrt(leaf_weight)
    return vector


# --- ST -----------------------------------------------------------------------------


def subtree(tree: Tree, *, decay: float = 0.4, leaf_weight: float = 0.0) -> Vector:
    complete: Vector = Counter()
    for node in nodes(tree):
        if node[1]:
            n_inner = sum(1 for below in nodes(node) if below[1])
            complete[node] += sqrt(decay) ** n_inner
    return add_leaves(complete, tree, leaf_weight)


# --- SST ----------------------------------------------------------------------------


def subset_tree(tree: Tree, *, decay: float = 0.4, leaf_weight: float = 0.0) -> Vector:
    found = [pair for node in nodes(tree) for pair in expansions(node, decay)]
    return add_leaves(collect(found), tree, leaf_weight)


def expansions(node: Tree, decay: float) -> Iterator[tuple[Tree, float]]:
    """Yield the fragments with this root: each child stays bare, or is expanded too."""
    label, children = node
    if not children:
        return
    choices = [[((child[0], ()), 1.0), *expansions(child, decay)] for child in children]
    for choice in product(*choices):
        below = tuple(fragment for fragment, _ in choice)
        yield (label, below), sqrt(decay) * prod(weight for _, weight in choice)


# --- PT -----------------------------------------------------------------------------


def partial_tree(
    tree: Tree,
    *,
    decay: float = 0.4,
    mu: float = 0.4,
    leaf_factor: float = 1.0,
    max_children: int | None = None,
) -> Vector:
    def parts(node: Tree) -> Iterator[tuple[Tree, float]]:
        """Yield the fragments with this root, once for each way they stand here."""
        label, children = node
        single = sqrt(mu) * decay
        yield (label, ()), single if children else single * sqrt(leaf_factor)
        below = [list(parts(child)) for child in children]
        most = len(children) if max_children is None else max_children
        for length in range(1, min(most, len(children)) + 1):
            for places in combinations(range(len(children)), length):
                gaps = places[-1] - places[0] + 1 - length
                for choice in product(*(below[place] for place in places)):
                    weight = prod(weight for _, weight in choice)
                    fragment = (label, tuple(fragment for fragment, _ in choice))
                    yield fragment, sqrt(mu) * decay**gaps * weight

    return collect(pair for node in nodes(tree) for pair in parts(node))


# --- ET -----------------------------------------------------------------------------


def elastic_tree(tree: Tree, *, decay: float = 0.4) -> Vector:
    def embeddings(node: Tree) -> Iterator[tuple[Tree, float]]:
        """Yield the fragments with this root: below a child, any of its nodes."""
        label, children = node
        below = [
            [pair for n in nodes(child) for pair in embeddings(n)] for child in children
        ]
        for length in range(len(children) + 1):
            for places in combinations(range(len(children)), length):
                for choice in product(*(below[place] for place in places)):
                    weight = prod(weight for _, weight in choice)
                    fragment = (label, tuple(fragment for fragment, _ in choice))
                    yield fragment, sqrt(decay) * weight

    return collect(pair for node in nodes(tree) for pair in embeddings(node))


# --- Subpaths -----------------------------------------------------------------------


def subpath(tree: Tree, *, decay: float = 0.4) -> Vector:
    def paths(node: Tree) -> Iterator[tuple[str, ...]]:
        """Yield the labels from this node down to each of its descendants."""
        label, children = node
        yield (label,)
        yield from ((label, *path) for child in children for path in paths(child))

    down = (path for node in nodes(tree) for path in paths(node))
    return collect((path, sqrt(decay) ** len(path)) for path in down)


# --- All of them --------------------------------------------------------------------

VECTORS: dict[str, Callable[..., Vector]] = {
    "SubtreeKernel": subtree,
    "SubsetTreeKernel": subset_tree,
    "PartialTreeKernel": partial_tree,
    "ElasticTreeKernel": elastic_tree,
    "SubpathKernel": subpath,
}


def gram(
    name: str,
    rows: list[Tree],
    columns: list[Tree],
    *,
    normalize: bool = False,
    **parameters: float,
) -> list[list[float]]:
    """Return the kernel matrix of the class with this name."""
    vector = VECTORS[name]
    left = [vector(tree, **parameters) for tree in rows]
    right = [vector(tree, **parameters) for tree in columns]
    if not normalize:
        return [[dot(a, b) for b in right] for a in left]
    aa, bb = [dot(a, a) for a in left], [dot(b, b) for b in right]
    return [
        [normalized(dot(a, b), aa[i], bb[j]) for j, b in enumerate(right)]
        for i, a in enumerate(left)
    ]


# --- Hypothesis: small trees, and parameters ----------------------------------------


def _small(label: st.SearchStrategy[str], n: int) -> st.SearchStrategy[Tree]:
    leaf = label.map(lambda name: (name, ()))
    return st.recursive(
        leaf,
        lambda child: st.tuples(label, st.lists(child, max_size=4).map(tuple)),
        max_leaves=6,
    ).filter(lambda tree: oracle.n_nodes(tree) <= n)


# One label: all nodes match, only shape differs. Two: leaves and inner nodes mix.
small_trees = st.one_of(
    _small(st.just("a"), 7),
    _small(st.sampled_from("ab"), 9),
    _small(st.sampled_from(["S", "NP", "a", "b", ""]), 10),
    st.lists(st.sampled_from("ab"), min_size=1, max_size=8).map(oracle.chain),
    st.sampled_from("ab").map(lambda name: (name, ())),
)


@st.composite
def _with_repeats(draw: st.DrawFn) -> list[Tree]:
    pool = draw(st.lists(small_trees, min_size=1, max_size=3))
    twice = [("S", (tree, tree)) for tree in pool if oracle.n_nodes(tree) <= 4]
    return draw(st.lists(st.sampled_from(pool + twice), min_size=1, max_size=6))


small_forests = st.one_of(
    st.lists(small_trees, min_size=1, max_size=5), _with_repeats()
)

_unit = st.one_of(st.sampled_from([1.0, 0.4, 0.5]), st.floats(0.01, 1.0))
_weight = st.one_of(st.sampled_from([0.0, 0.4, 1.0, 5.0]), st.floats(0.01, 10.0))
_PARAMETERS: dict[str, dict[str, st.SearchStrategy]] = {
    "SubtreeKernel": {"decay": _unit, "leaf_weight": _weight},
    "SubsetTreeKernel": {"decay": _unit, "leaf_weight": _weight},
    "PartialTreeKernel": {
        "decay": _unit,
        "mu": _unit,
        "leaf_factor": _weight,
        "max_children": st.one_of(st.none(), st.integers(1, 4)),
    },
    "ElasticTreeKernel": {"decay": _unit},
    "SubpathKernel": {"decay": _unit},
}

parameters: dict[str, st.SearchStrategy[dict]] = {
    name: st.fixed_dictionaries({}, optional=kinds)
    for name, kinds in _PARAMETERS.items()
}
kernels = st.sampled_from(list(VECTORS)).flatmap(
    lambda name: st.tuples(st.just(name), parameters[name])
)
