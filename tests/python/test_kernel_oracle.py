"""The oracle of the kernels against hand values, a second twin, and KeLP: no Rust.

The second twin transcribes the recursions of the definitions, over pairs of nodes,
where the oracle enumerates fragments of one tree.
"""

from __future__ import annotations

import gzip
from functools import cache
from itertools import combinations
from math import prod, sqrt
from typing import TYPE_CHECKING

import kernel_oracle as ko
import oracle
import pytest
from hypothesis import given

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from oracle import Tree

SAME = "(S (A a) (B b))"
HAND_VALUES = [
    ("SubsetTreeKernel", SAME, "(S (A a) (B c))", {"decay": 1}, 3),
    ("SubsetTreeKernel", SAME, "(S (A a) (B c))", {"decay": 0.4}, 0.96),
    ("SubsetTreeKernel", SAME, SAME, {"decay": 1}, 6),
    ("SubsetTreeKernel", "(A (B c))", "(A B)", {"decay": 1}, 1),
    ("SubsetTreeKernel", SAME, SAME, {"decay": 1, "leaf_weight": 0.4}, 6.8),
    ("SubsetTreeKernel", "(x)", "(x)", {"leaf_weight": 0.4}, 0.4),
    ("SubsetTreeKernel", "(x)", "(x)", {}, 0),
    ("SubtreeKernel", SAME, SAME, {"decay": 0.5}, 1.125),
    ("SubtreeKernel", "(A (B c))", "(A B)", {"decay": 1}, 0),
    ("SubtreeKernel", "(S (A a) (B b))", "(S (A z) (B b))", {"decay": 1}, 1),
    (
        "SubtreeKernel",
        "(S (A a) (B b))",
        "(S (A z) (B b))",
        {"decay": 1, "leaf_weight": 1},
        2,
    ),
    ("PartialTreeKernel", "(A b)", "(A b)", {"decay": 0.4, "mu": 0.4}, 0.1536),
    # A leaf against an inner node: mu * decay**2 * sqrt(leaf_factor).
    ("PartialTreeKernel", "(A)", "(A b)", {"decay": 0.5, "leaf_factor": 9}, 0.3),
    # A with b, A with c, A with b c (a gap on one side only), and A, b, c alone.
    (
        "PartialTreeKernel",
        "(A b c)",
        "(A b x c)",
        {"decay": 0.5, "mu": 1},
        3 * 0.25 + 2 * 0.25 + 0.5 * 0.25**2,
    ),
    (
        "PartialTreeKernel",
        "(A b c)",
        "(A b x c)",
        {"decay": 0.5, "mu": 1, "max_children": 1},
        3 * 0.25 + 2 * 0.25,
    ),
    ("ElasticTreeKernel", "(A b)", "(A (X b))", {"decay": 1}, 3),
    # A, b, c; A with b; but not A with b and c, which are below one child of one A.
    ("ElasticTreeKernel", "(A b c)", "(A (X b c))", {"decay": 1}, 5),
]


@pytest.mark.parametrize(("name", "a", "b", "parameters", "value"), HAND_VALUES)
def test_hand_values(name, a, b, parameters, value):
    trees = oracle.parse([a, b])
    for x, y in (trees, trees[::-1]):
        found = ko.gram(name, [x], [y], **parameters)
        assert found == [[pytest.approx(value, rel=1e-12)]]


# --- The second twin ----------------------------------------------------------------


def leaf_pairs(a: Tree, b: Tree) -> int:
    return sum(u == v for u in ko.nodes(a) for v in ko.nodes(b) if not u[1])


def subtree(a: Tree, b: Tree, *, decay: float = 0.4, leaf_weight: float = 0.0) -> float:
    def delta(u: Tree, v: Tree) -> float:
        if u != v or not u[1]:
            return 0.0
        return decay ** sum(1 for node in ko.nodes(u) if node[1])

    sums = sum(delta(u, v) for u in ko.nodes(a) for v in ko.nodes(b))
    return sums + leaf_weight * leaf_pairs(a, b)


def subset_tree(
    a: Tree, b: Tree, *, decay: float = 0.4, leaf_weight: float = 0.0
) -> float:
    def production(node: Tree) -> list[str]:
        return [node[0], *(child[0] for child in node[1])]

    @cache
    def delta(u: Tree, v: Tree) -> float:
        if not u[1] or not v[1] or production(u) != production(v):
            return 0.0
        pairs = zip(u[1], v[1], strict=True)
        return decay * prod(1 + delta(x, y) for x, y in pairs)

    sums = sum(delta(u, v) for u in ko.nodes(a) for v in ko.nodes(b))
    return sums + leaf_weight * leaf_pairs(a, b)


def partial_tree(
    a: Tree,
    b: Tree,
    *,
    decay: float = 0.4,
    mu: float = 0.4,
    leaf_factor: float = 1.0,
    max_children: int | None = None,
) -> float:
    @cache
    def delta(u: Tree, v: Tree) -> float:
        if u[0] != v[0]:
            return 0.0
        leafness = prod(sqrt(leaf_factor) for node in (u, v) if not node[1])
        pairs = one_pass if max_children is None else subsequences
        return mu * (decay**2 * leafness + pairs(u[1], v[1]))

    def one_pass(us: Sequence[Tree], vs: Sequence[Tree]) -> float:
        total = 0.0
        above = [0.0] * (len(vs) + 1)  # T(i-1, .)
        for u in us:
            row = [0.0]
            for j, v in enumerate(vs):
                s = delta(u, v) * (1 + above[j])
                row.append(s + decay * (above[j + 1] + row[j]) - decay**2 * above[j])
                total += s
            above = row
        return total

    def subsequences(us: Sequence[Tree], vs: Sequence[Tree]) -> float:
        total = 0.0
        for length in range(1, min(len(us), len(vs), max_children) + 1):
            for left in combinations(range(len(us)), length):
                for right in combinations(range(len(vs)), length):
                    gaps = left[-1] - left[0] + right[-1] - right[0] + 2 - 2 * length
                    pairs = zip(left, right, strict=True)
                    deltas = prod(delta(us[i], vs[j]) for i, j in pairs)
                    total += decay**gaps * deltas
        return total

    return sum(delta(u, v) for u in ko.nodes(a) for v in ko.nodes(b))


def elastic_tree(a: Tree, b: Tree, *, decay: float = 0.4) -> float:
    @cache
    def delta(u: Tree, v: Tree) -> float:
        if u[0] != v[0]:
            return 0.0
        above = [1.0] * (len(v[1]) + 1)  # S(i-1, .)
        for x in u[1]:
            row = [1.0]
            for j, y in enumerate(v[1]):
                row.append(
                    above[j + 1] + row[j] - above[j] + above[j] * at_or_below(x, y)
                )
            above = row
        return decay * above[-1]

    @cache
    def at_or_below(u: Tree, v: Tree) -> float:
        return sum(delta(x, y) for x in ko.nodes(u) for y in ko.nodes(v))

    return at_or_below(a, b)


def subpath(a: Tree, b: Tree, *, decay: float = 0.4) -> float:
    @cache
    def down(u: Tree, v: Tree) -> float:
        """Sum over the equal paths that start here."""
        if u[0] != v[0]:
            return 0.0
        return decay * (1 + sum(down(x, y) for x in u[1] for y in v[1]))

    return sum(down(u, v) for u in ko.nodes(a) for v in ko.nodes(b))


RECURSIONS: dict[str, Callable[..., float]] = {
    "SubtreeKernel": subtree,
    "SubsetTreeKernel": subset_tree,
    "PartialTreeKernel": partial_tree,
    "ElasticTreeKernel": elastic_tree,
    "SubpathKernel": subpath,
}


@given(ko.kernels, ko.small_forests, ko.small_trees)
def test_fragments_and_recursions_agree(kernel, forest, other):
    name, parameters = kernel
    trees = [*forest, other]
    for a, row in zip(trees, ko.gram(name, trees, trees, **parameters), strict=True):
        for b, value in zip(trees, row, strict=True):
            expected = RECURSIONS[name](a, b, **parameters)
            assert value == pytest.approx(expected, rel=1e-10, abs=1e-300)


@given(ko.kernels, ko.small_forests)
def test_normalized_is_one_with_itself_and_at_most_one(kernel, forest):
    name, parameters = kernel
    for i, row in enumerate(
        ko.gram(name, forest, forest, normalize=True, **parameters)
    ):
        assert row[i] == 0 or row[i] == pytest.approx(1)
        assert all(0 <= value <= 1 + 1e-12 for value in row)


KELP = {
    "kelp_sst_scores.txt": ("SubsetTreeKernel", {"decay": 0.4, "leaf_weight": 0.4}),
    "kelp_ptk_scores.txt": (
        "PartialTreeKernel",
        {"decay": 0.4, "mu": 0.4, "leaf_factor": 5},
    ),
}


@pytest.mark.parametrize("file", KELP)
def test_recursions_give_the_scores_of_kelp(shared_data, file):
    name, parameters = KELP[file]
    scores = [float(line) for line in (shared_data / "qc" / file).read_text().split()]
    with gzip.open(shared_data / "qc" / "dep_test.tsv.gz", "rt", encoding="utf-8") as f:
        trees = oracle.parse([line.split("\t")[2] for line in f])
    k = RECURSIONS[name]
    own = [k(tree, tree, **parameters) for tree in trees]
    for i, score in enumerate(scores):
        value = k(trees[i], trees[i + 1], **parameters)
        assert ko.normalized(value, own[i], own[i + 1]) == pytest.approx(
            score, abs=2e-7
        )
