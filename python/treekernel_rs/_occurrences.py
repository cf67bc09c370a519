"""Where fragments occur in trees: the nodes that each of them covers."""

from __future__ import annotations

from bisect import bisect_left
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

from treekernel_rs._core import Forest
from treekernel_rs.algebra import ScaledKernel
from treekernel_rs.tree_kernels import (
    ElasticTreeKernel,
    SubsetTreeKernel,
    SubtreeKernel,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["fragment_kind", "occurrences"]


def fragment_kind(kernel: Any) -> str:
    """Return what a fragment of a kernel is: see `occurrences`."""
    while isinstance(kernel, ScaledKernel):
        kernel = kernel.get_params(deep=False)["base"]
    if isinstance(kernel, SubtreeKernel):
        return "whole"
    if isinstance(kernel, SubsetTreeKernel):
        return "rules"
    return "loose" if isinstance(kernel, ElasticTreeKernel) else "part"


def occurrences(
    fragments: Sequence[Any], forest: Forest, kind: str
) -> list[dict[int, list[int]]]:
    """Find the nodes of each tree that a fragment covers, for all fragments.

    A fragment of the kind "rules" (SST) has all children of a node or none: a node that has
    children needs a node with the same production; one that has none needs a node with its
    label, and alone it covers leaves. "whole" ones (ST) cover equal subtrees, which have one
    id. A "part" (PT, paths) needs a node with the same label for each node, and may leave
    out children. A "loose" one (ET) may have any descendant in the place of a child.
    """
    if not fragments:
        return []
    # One alphabet for both: fragments come last.
    both = forest + Forest.from_trees(fragments)
    arrays = both.to_arrays()
    labels, starts = arrays["labels"].tolist(), arrays["offsets"].tolist()
    children: list[list[int]] = [[] for _ in labels]
    for node, parent in enumerate(arrays["parents"].tolist()):
        if parent >= 0:
            children[parent].append(node)
    if kind in ("part", "loose"):
        return _embedded(both, len(forest), children, is_loose=kind == "loose")
    keys: list[Any] = both.subtree_ids()[1].tolist()
    if kind == "rules":
        keys = [
            (label, *(labels[child] for child in below))
            for label, below in zip(labels, children, strict=True)
        ]
    places: dict[Any, list[tuple[int, int]]] = {}
    for tree, (start, end) in enumerate(pairwise(starts[: len(forest) + 1])):
        for node in range(start, end):
            places.setdefault(keys[node], []).append((tree, node))

    def covered(root: int, at: int) -> list[int]:
        """Return the nodes that a fragment covers with its root at a node, or none."""
        under, rest = [], [(root, at)]
        while rest:
            part, node = rest.pop()
            under.append(node)
            if children[part]:
                if keys[part] != keys[node]:
                    return []
                rest.extend(zip(children[part], children[node], strict=True))
        return under

    found = []
    for root in starts[len(forest) : -1]:
        nodes: dict[int, set[int]] = {}
        for tree, node in places.get(keys[root], ()):
            if under := covered(root, node):
                nodes.setdefault(tree, set()).update(n - starts[tree] for n in under)
        found.append({tree: sorted(of) for tree, of in nodes.items()})
    return found


def _embedded(
    both: Forest, n_trees: int, children: list[list[int]], *, is_loose: bool
) -> list[dict[int, list[int]]]:
    """Find the nodes that fragments cover which may leave nodes out.

    The fragments are the trees from `n_trees` on. Upwards, `fits` are the nodes at which the
    part of a fragment below its node can stand; downwards, `covered` those of them that
    stand in an occurrence of the whole fragment.
    """
    arrays = both.to_arrays()
    labels, parents = arrays["labels"].tolist(), arrays["parents"].tolist()
    starts = arrays["offsets"].tolist()
    by_label: dict[int, list[int]] = {}
    for node in range(starts[n_trees]):
        by_label.setdefault(labels[node], []).append(node)
    ends = list(
        range(1, len(labels) + 1)
    )  # where the nodes below a node end, in preorder
    for node in range(len(labels) - 1, -1, -1):
        if parents[node] >= 0:
            ends[parents[node]] = max(ends[parents[node]], ends[node])

    def first_places(slots: list[int], needed: list[set[int]]) -> list[int]:
        """Return the places of the leftmost choice of children; fewer if there is none."""
        places: list[int] = []
        for at, slot in enumerate(slots):
            if len(places) < len(needed) and slot in needed[len(places)]:
                places.append(at)
        return places

    found = []
    for start, end in pairwise(starts[n_trees:]):
        # 1. Upwards. In `within` are the children that a node may stand at or below.
        fits: dict[int, list[int]] = {}
        within: dict[int, set[int]] = {}
        for part in range(end - 1, start - 1, -1):
            needed = [within[below] for below in children[part]]
            fits[part] = by_label.get(labels[part], [])
            if needed:
                above = {parents[node] for node in min(needed, key=len)}
                fits[part] = sorted(
                    node
                    for node in above
                    if node >= 0
                    and labels[node] == labels[part]
                    and len(first_places(children[node], needed)) == len(needed)
                )
            within[part] = set(fits[part])
            if is_loose:
                for node in fits[part]:
                    up = parents[node]
                    while up >= 0 and up not in within[part]:
                        within[part].add(up)
                        up = parents[up]
        # 2. Downwards: a child may take a place between the leftmost choice of those
        # before it and the rightmost choice of those after it.
        covered = {start: fits[start]}
        for part in range(start, end):
            below = children[part]
            needed = [within[child] for child in below]
            spans: list[set[tuple[int, int]]] = [set() for _ in below]
            for node in covered[part] if below else ():
                slots = children[node]
                left = first_places(slots, needed)
                right = first_places(slots[::-1], needed[::-1])
                for k, span in enumerate(spans):
                    low = left[k]
                    high = len(slots) - 1 - right[len(below) - 1 - k]
                    for slot in slots[low : high + 1]:
                        if slot in needed[k]:
                            span.add((slot, ends[slot] if is_loose else slot + 1))
            for child, span in zip(below, spans, strict=True):
                covered[child] = _inside(fits[child], sorted(span))
        trees: dict[int, list[int]] = {}
        tree = 0
        for node in sorted(set(chain.from_iterable(covered.values()))):
            while starts[tree + 1] <= node:
                tree += 1
            trees.setdefault(tree, []).append(node - starts[tree])
        found.append(trees)
    return found


def _inside(nodes: list[int], spans: list[tuple[int, int]]) -> list[int]:
    """Return the nodes, which ascend, that are in some of the spans, which do so too."""
    kept: list[int] = []
    done = 0
    for low, high in spans:
        first, last = bisect_left(nodes, max(low, done)), bisect_left(nodes, high)
        kept += nodes[first:last]
        done = max(done, high)
    return kept
