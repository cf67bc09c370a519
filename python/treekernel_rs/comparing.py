"""What two trees share and where they differ.

An edit mapping pairs nodes of two trees; the others are deleted and inserted. Here these
single nodes become changes that a reader would name:

1. A node that is deleted, with all deleted nodes that hang together with it, is one change;
   so is an inserted one.
2. A subtree all of which is deleted, and an equal one all of which is inserted, are one
   change: it moved. The largest are taken first; a single node moves only where it is a
   change of its own on both sides.

At costs that are numbers, equal subtrees at the edges are paired before the mapping is
searched: below two roots with one label, the first children while they are equal, and the
last ones. If one child is left on both sides, the same goes on below. That does not change
the distance: costs that are numbers keep to the triangle inequality.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from treekernel_rs import _comparison_pages
from treekernel_rs._core import Forest, as_forest, as_tree
from treekernel_rs._occurrences import fragment_kind, occurrences
from treekernel_rs._public import listing
from treekernel_rs._replacing import replacing
from treekernel_rs._wording import label_text, plural
from treekernel_rs.dag import DagModel
from treekernel_rs.drawing import Drawing, side_by_side
from treekernel_rs.edit import EditDistance
from treekernel_rs.nodes import NodeTable, lines_text, path_text
from treekernel_rs.readers import Reading
from treekernel_rs.tree_kernels import TreeKernel

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from treekernel_rs._core import Tree
    from treekernel_rs.nodes import Node

__all__ = ["Change", "Comparison", "SharedPart", "compare"]

__dir__ = listing(__all__)

#: Changes that a repr shows.
_MOST_SHOWN = 20
#: Of fragments: how many are listed, of how many of the first tree that weigh most, of
#: which size, how many at a time are looked up in the trees, and how long they are searched.
_N_FRAGMENTS = 10
_MOST_FRAGMENTS = 1_000
_N_AT_A_TIME = 20
_LARGEST_FRAGMENT = 100
_MOST_STATES = 200_000


@dataclass(frozen=True, slots=True, repr=False)
class Change:
    """One difference of two trees: see `Comparison.changes`.

    Attributes
    ----------
    kind : {"inserted", "deleted", "renamed", "moved"}
        What happened. "moved": a deleted and an inserted subtree that are equal.
    old, new : Node or None
        The node, or the root of the nodes, in the first and in the second tree; None in the
        first for what is inserted, in the second for what is deleted.
    deleted, inserted : list of int
        The numbers of all nodes of the first tree that go, and of the second that come.
        Both are empty where a node is renamed.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> change, *_ = tk.compare("(S (NP dogs))", "(S (NP dogs) (VP bark))").changes
    >>> change
    <Change: inserted 3 S/VP (2 nodes)>
    >>> change.kind, change.old, change.node.path, change.inserted
    ('inserted', None, ['S', 'VP'], [3, 4])
    """

    kind: Literal["inserted", "deleted", "renamed", "moved"]
    old: Node | None
    new: Node | None
    deleted: list[int] = field(default_factory=list)
    inserted: list[int] = field(default_factory=list)

    @property
    def node(self) -> Node:
        """The node in the second tree, or in the first for what is deleted."""
        node = self.old if self.new is None else self.new
        assert node is not None, "a change has a place in one tree or both"
        return node

    @property
    def n_nodes(self) -> int:
        """How many nodes are inserted, deleted or moved; 1 where one is renamed."""
        return max(len(self.deleted), len(self.inserted), 1)

    def __str__(self) -> str:
        """Say what happened, and where."""
        places = []
        for node in (self.old, self.new):
            if node is not None:
                places.append(f"{node.number} {path_text(node)}{lines_text(node)}")
        size = f" ({plural(self.n_nodes, 'node')})" if self.n_nodes > 1 else ""
        if self.kind == "renamed" and self.new is not None:
            label = label_text(self.new.label)
            return f"renamed {places[0]} to {label}{lines_text(self.new)}"
        return f"{self.kind} {' to '.join(places)}{size}"

    def __repr__(self) -> str:
        """Say what happened, and where."""
        return f"<Change: {self}>"


@dataclass(frozen=True, slots=True, repr=False)
class SharedPart:
    """A subtree or fragment that two trees have: see `Comparison.shared`.

    Attributes
    ----------
    tree : Tree
        The subtree, or the fragment.
    old, new : list of int
        Where it stands in the first and in the second tree: the numbers of the roots of a
        subtree, or of all nodes that a fragment covers.
    weight : float or None
        Of a fragment, what one occurrence in the second tree adds to the similarity.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> part, *_ = tk.compare("(S (A a) (B b))", "(S (B b) (A c) (B b))").shared
    >>> part
    <SharedPart (B b)>
    >>> part.tree.n_nodes, part.old, part.new, part.weight
    (2, [3], [1, 5], None)
    """

    tree: Tree
    old: list[int]
    new: list[int]
    weight: float | None = None

    def __repr__(self) -> str:
        """Show weight and tree, shortened."""
        weight = "" if self.weight is None else f"{self.weight:+.4g}: "
        return f"<SharedPart {weight}{repr(self.tree).removeprefix('<Tree ')}"


@dataclass(frozen=True, repr=False, eq=False)
class Comparison:
    """Two trees, what they share and where they differ: what `compare` returns.

    `print` shows it as a text: the second tree, with what was deleted, inserted, renamed and
    moved marked; large parts without changes are left out. A notebook shows both trees side
    by side. `save` writes that to a file.

    Attributes
    ----------
    old, new : Tree
        The first tree and the second.
    measure : EditDistance or TreeKernel
        What they are compared by.
    similarity : float
        1 for equal trees. Of an edit distance d: 1 - d / max(D, I), where D and I are the
        costs of deleting all of the first tree and of inserting all of the second, or 0 if
        that is below 0. If the measure divides by something else, 1 minus its value. Of a
        kernel: K(a, b) / sqrt(K(a, a) K(b, b)).
    distance : float
        The edit distance, as the measure has it; of a kernel
        sqrt(K(a, a) + K(b, b) - 2 K(a, b)).
    changes : list of Change
        What makes the first tree the second, from the root on: by the cheapest mapping of
        the edit distance; for a kernel, by that of unit costs.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> comparison = tk.compare("(S (NP dogs) (VP bark))", "(S (NP cats) (VP (V bark)))")
    >>> comparison
    <Comparison: similarity 0.666667, distance 2, 2 changes>
    renamed 2 S/NP/dogs to cats
    inserted 4 S/VP/V
    >>> print(comparison)
      S
        NP
    ~     dogs → cats
        VP
    +     V
            bark
    """

    old: Tree
    new: Tree
    measure: EditDistance | TreeKernel
    similarity: float
    distance: float
    changes: list[Change]
    _sides: tuple[_Side, _Side]
    _pairs: list[tuple[int, int]]

    @cached_property
    def shared(self) -> list[SharedPart]:
        """The largest common subtrees: those that are in no larger one, largest first.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> comparison = tk.compare("(S (NP dogs) (VP bark))", "(S (VP bark) (NP cats))")
        >>> comparison.shared
        [<SharedPart (VP bark)>]
        """
        return _shared_subtrees(self._sides)

    @cached_property
    def fragments(self) -> list[SharedPart]:
        """Of a kernel, the fragments that both trees have and that weigh most.

        The ten heaviest that are in the second tree, of the 1,000 heaviest of the first.
        Empty for edit distances, for kernels that are no sums over fragments
        (`DagModel.is_graph`), and where the search takes too long.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> kernel = tk.SubsetTreeKernel(0.5)
        >>> tk.compare("(S (A a) (B b))", "(S (A a) (B c))", kernel).fragments[:2]
        [<SharedPart +0.2353: (A a)>, <SharedPart +0.2353: (S A B)>]
        """
        if not isinstance(self.measure, TreeKernel):
            return []
        return _shared_fragments(self.measure, self.old, self.new)

    def draw(self, *, max_nodes: int = 60) -> Drawing:
        """Draw both trees side by side, with the changes marked.

        Parameters
        ----------
        max_nodes : int, default 60
            The most nodes to draw of each tree, level by level. Boxes stand for the others,
            and for parts without changes of a tree of more than 24 nodes.

        Returns
        -------
        Drawing

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> tk.compare("(S (NP dogs))", "(S (NP cats))").draw()
        <Drawing: 248 x 202 pixels>
        """
        drawn = _comparison_pages.pictures(self, max_nodes)
        return side_by_side(drawn, _comparison_pages.kinds_of(self))

    def save(self, path: str | os.PathLike[str], *, max_nodes: int = 60) -> None:
        """Write a page or a picture: HTML, SVG, PNG or PDF by the suffix of the name.

        PNG and PDF need the package typst (extra `viz`).

        Parameters
        ----------
        path : str or path
            Where to write it. What was there is replaced when all of it is written.
        max_nodes : int, default 60
            As in `draw`.

        Examples
        --------
        >>> import pathlib, tempfile, treekernel_rs as tk
        >>> comparison = tk.compare("(S (NP dogs))", "(S (NP cats))")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "dogs.html"
        ...     comparison.save(path)
        ...     "renamed" in path.read_text(encoding="utf-8")
        True
        """
        kind = Path(path).suffix.lower()
        if kind == ".html":
            page = _comparison_pages.page(self, max_nodes)
            with replacing(path) as file:
                file.write(page.encode())
            return
        if kind not in (".svg", ".png", ".pdf"):
            msg = (
                "path: expected a name that ends in .html, .svg, .png or .pdf, got "
                f"{str(path)!r}"
            )
            raise ValueError(msg)
        self.draw(max_nodes=max_nodes).save(path)

    def __str__(self) -> str:
        """Show the second tree as an outline, with the changes marked."""
        lines = _comparison_pages.outline(self)
        return "\n".join(f"{line.sign} {line.text}".rstrip() for line in lines)

    def __repr__(self) -> str:
        """Say how similar the trees are, and list the changes."""
        head = (
            f"<Comparison: similarity {self.similarity:.6g}, distance "
            f"{self.distance:.6g}, {plural(len(self.changes), 'change')}>"
        )
        shown = [str(change) for change in self.changes[:_MOST_SHOWN]]
        if len(self.changes) > _MOST_SHOWN:
            shown.append(f"... {len(self.changes) - _MOST_SHOWN:,} more")
        return "\n".join([head, *shown])

    def _repr_html_(self) -> str:
        return _comparison_pages.fragment(self)


def compare(
    a: Tree | str | object,
    b: Tree | str | object,
    measure: EditDistance | TreeKernel | None = None,
) -> Comparison:
    """Compare two trees: how similar they are, what they share, and where they differ.

    Parameters
    ----------
    a, b : Tree, str, object as in Forest.from_trees, or Reading
        The trees, the old one first. A reading has one tree; if it has the lines of its
        nodes, places have lines.
    measure : EditDistance or TreeKernel, optional
        What decides how similar they are; by default the edit distance at unit costs. An
        edit distance also decides which nodes become which: with
        ``EditDistance(rename=1.5)``, a node is sooner deleted and inserted than renamed, so
        more is found to have moved.

    Returns
    -------
    Comparison

    Raises
    ------
    MemoryError
        If the trees are too large for their edit distance: it takes 24 bytes for each node
        of one tree and each of the other. At costs that are numbers, equal subtrees before
        the first change and after the last one are left out of this.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> old = "(page (main (h1 Tea) (p hot)) (aside (note (p new))))"
    >>> new = "(page (main (note (p new)) (h1 Tea) (p cold)) (aside))"
    >>> tk.compare(old, new)
    <Comparison: similarity 0.3, distance 7, 2 changes>
    moved 7 page/aside/note to 2 page/main/note (3 nodes)
    renamed 5 page/main/p/hot to cold
    """
    if measure is None:
        measure = EditDistance()
    elif not isinstance(measure, EditDistance | TreeKernel):
        msg = (
            "measure must be an EditDistance, a kernel of trees or None, got "
            f"{type(measure).__name__}"
        )
        raise TypeError(msg)
    sides = _sides(_table("a", a), _table("b", b))
    old, new = (side.table.tree for side in sides)
    edit = measure if isinstance(measure, EditDistance) else EditDistance()
    pairs = _paired(edit, sides)
    if isinstance(measure, EditDistance):
        similarity, distance = _by_distance(measure, sides, pairs)
    else:
        similarity, distance = _by_kernel(measure, old, new)
    changes = _changes(sides, pairs)
    return Comparison(old, new, measure, similarity, distance, changes, sides, pairs)


@dataclass(frozen=True, slots=True)
class _Side:
    """One of the two trees; labels and subtrees have one number in both."""

    table: NodeTable
    labels: NDArray[np.int64]
    subtrees: NDArray[np.uint32]

    def children(self, node: int) -> list[int]:
        return list(self.table.children(node))

    def end(self, node: int) -> int:
        """Return the number behind the last node of a subtree."""
        return int(self.table.ends[node])


def _table(name: str, given: object) -> NodeTable:
    """Return the nodes of a tree; `name` is what errors call it."""
    if isinstance(given, Forest):
        msg = f"{name} must be one tree, got a Forest; compare(forest[i], forest[j])"
        raise TypeError(msg)
    if isinstance(given, Reading):
        if len(given) != 1:
            msg = (
                f"{name} must be a Reading of one tree, got {len(given)}; "
                "compare(reading.forest[i], ...)"
            )
            raise ValueError(msg)
        return NodeTable(given.forest[0], given.spans_of(0))
    return NodeTable(as_tree(given))


def _sides(a: NodeTable, b: NodeTable) -> tuple[_Side, _Side]:
    numbers = {a.name(label): label for label in range(len(a.starts) - 1)}
    names = (b.name(label) for label in range(len(b.starts) - 1))
    shared = np.array([numbers.setdefault(name, len(numbers)) for name in names])
    subtrees = as_forest([a.tree, b.tree]).subtree_ids()[1]
    return (
        _Side(a, a.labels, subtrees[: len(a)]),
        _Side(b, shared[b.labels], subtrees[len(a) :]),
    )


# --- Which nodes become which ---------------------------------------------------------


def _paired(measure: EditDistance, sides: tuple[_Side, _Side]) -> list[tuple[int, int]]:
    """Return the pairs of nodes of a cheapest mapping, in preorder."""
    a, b = sides
    costs = _constants(measure)
    if costs is None:
        return measure.mapping(a.table.tree, b.table.tree).pairs
    rename, insert, delete = costs
    pairs: list[tuple[int, int]] = []

    def keep(subtrees: Iterable[tuple[int, int]]) -> None:
        for i, j in subtrees:
            pairs.extend(zip(range(i, a.end(i)), range(j, b.end(j)), strict=True))

    i = j = 0
    while a.subtrees[i] != b.subtrees[j]:
        below = a.children(i), b.children(j)
        one, two = a.subtrees[below[0]], b.subtrees[below[1]]
        if a.labels[i] != b.labels[j]:
            if rename < insert + delete and np.array_equal(one, two):
                # They differ in this label only, and no other edit is cheaper.
                pairs.append((i, j))
                keep(zip(*below, strict=True))
            else:
                pairs += _mapped(measure, sides, (i, j), below)
            return sorted(pairs)
        # 1. Equal children at both ends are paired.
        least = min(len(one), len(two))
        unequal = np.flatnonzero(one[:least] != two[:least])
        first = int(unequal[0]) if len(unequal) else least
        unequal = np.flatnonzero(
            one[first:][::-1][: least - first] != two[first:][::-1][: least - first]
        )
        last = int(unequal[0]) if len(unequal) else least - first
        keep(zip(below[0][:first], below[1][:first], strict=True))
        ends = [children[len(children) - last :] for children in below]
        keep(zip(*ends, strict=True))
        rest = [children[first : len(children) - last] for children in below]
        pairs.append((i, j))
        if len(rest[0]) == len(rest[1]) == 1:
            (i,), (j,) = rest
            continue
        # 2. The others are mapped. One of the cheapest mappings keeps the two roots, and
        # those that are paired above need that.
        found = _mapped(measure, sides, (i, j), (rest[0], rest[1]))
        pairs += [pair for pair in found if pair[0] != i and pair[1] != j]
        return sorted(pairs)
    keep([(i, j)])
    return sorted(pairs)


def _constants(measure: EditDistance) -> tuple[float, float, float] | None:
    """Return the costs of renaming, inserting, deleting, if they are numbers above 0."""
    costs = measure.rename, measure.insert, measure.delete
    rename, insert, delete = (
        float(cost) if isinstance(cost, int | float) else math.nan for cost in costs
    )
    # The core refuses an infinite insertion, and says so.
    is_usual = rename > 0 and 0 < insert < math.inf and 0 < delete < math.inf
    return (rename, insert, delete) if is_usual else None


def _mapped(
    measure: EditDistance,
    sides: tuple[_Side, _Side],
    roots: tuple[int, int],
    below: tuple[list[int], list[int]],
) -> list[tuple[int, int]]:
    """Map two subtrees of which only some neighbouring children are left."""
    trees, numbers = [], []
    for side, root, children in zip(sides, roots, below, strict=True):
        start, end = (children[0], side.end(children[-1])) if children else (0, 0)
        nodes = np.r_[root, np.arange(start, end)]
        parents = side.table.parents[nodes] - start + 1
        parents[np.isin(nodes, children)] = 0
        parents[0] = -1
        # Of the labels only those in use: there may be many.
        used, labels = np.unique(side.table.labels[nodes], return_inverse=True)
        names = [side.table.name(label) for label in used]
        trees.append(Forest.from_arrays(labels, parents, [0, len(nodes)], names)[0])
        numbers.append(nodes.tolist())
    pairs = measure.mapping(*trees).pairs
    return [(numbers[0][i], numbers[1][j]) for i, j in pairs]


def _by_distance(
    measure: EditDistance, sides: tuple[_Side, _Side], pairs: list[tuple[int, int]]
) -> tuple[float, float]:
    """Return similarity and distance."""
    costs, (a, b) = _constants(measure), sides
    if costs is None or measure.normalize not in (None, "max", "sum"):
        trees = a.table.tree, b.table.tree
        distance = share = measure.pair(*trees)
        if measure.normalize is None:
            share = measure.replace(normalize="max").pair(*trees)
        return max(0.0, 1.0 - share), distance
    # The mapping has the distance, which the core could not compute of large trees.
    rename, insert, delete = costs
    n_renamed = sum(bool(a.labels[i] != b.labels[j]) for i, j in pairs)
    cost = n_renamed * rename if n_renamed else 0.0  # a renaming may cost infinity
    cost += (len(a.labels) - len(pairs)) * delete + (
        len(b.labels) - len(pairs)
    ) * insert
    both = len(a.labels) * delete, len(b.labels) * insert
    share = cost / (sum(both) if measure.normalize == "sum" else max(both))
    return max(0.0, 1.0 - share), cost if measure.normalize is None else share


def _by_kernel(kernel: TreeKernel, a: Tree, b: Tree) -> tuple[float, float]:
    """Return similarity and distance."""
    if kernel.normalize:
        similarity = kernel.pair(a, b)
        return similarity, math.sqrt(max(0.0, 2.0 - 2.0 * similarity))
    (one, both), (_, two) = kernel([a, b]).tolist()
    norm = math.sqrt(one) * math.sqrt(two)
    similarity = 1.0 if a == b and norm else both / norm if norm else 0.0
    squared = 0.0 if a == b else max(0.0, one + two - 2.0 * both)
    return similarity, math.sqrt(squared)


# --- Changes --------------------------------------------------------------------------


def _changes(sides: tuple[_Side, _Side], pairs: list[tuple[int, int]]) -> list[Change]:
    """Gather single nodes to changes, in the order of the outline."""
    a, b = sides
    old, new = a.table.node, b.table.node
    goes, comes = (np.ones(len(side.labels), bool) for side in sides)
    if pairs:
        first, second = np.array(pairs).T
        goes[first] = comes[second] = False
    found = []
    for i, j in _moved(sides, (goes, comes)):
        nodes = list(range(i, a.end(i))), list(range(j, b.end(j)))
        goes[nodes[0]] = comes[nodes[1]] = False
        found.append(Change("moved", old(i), new(j), *nodes))
    for i, j in pairs:
        if a.labels[i] != b.labels[j]:
            found.append(Change("renamed", old(i), new(j)))
    for part in _parts(a, goes):
        found.append(Change("deleted", old(part[0]), None, deleted=part))
    for part in _parts(b, comes):
        found.append(Change("inserted", None, new(part[0]), inserted=part))
    places = _places(pairs, (len(goes), len(comes)))

    def first_place(change: Change) -> int:
        nodes = change.old, change.new
        return min(
            int(order[node.number])
            for order, node in zip(places, nodes, strict=True)
            if node is not None
        )

    return sorted(found, key=first_place)


def _moved(
    sides: tuple[_Side, _Side], alone: tuple[NDArray[np.bool_], NDArray[np.bool_]]
) -> list[tuple[int, int]]:
    """Find subtrees that go and equal ones that come, by their roots; largest first."""
    places = []
    for side, unpaired in zip(sides, alone, strict=True):
        numbers, ends = np.arange(len(unpaired)), side.table.ends
        before = np.r_[0, np.cumsum(unpaired)]
        is_whole = before[ends] - before[numbers] == ends - numbers
        # A single node within a larger change is too little to be found elsewhere.
        parents = side.table.parents
        is_part = (ends - numbers == 1) & (parents >= 0) & unpaired[parents]
        places.append(_by_subtree(side, is_whole & ~is_part))
    free = [unpaired.copy() for unpaired in alone]
    sizes = {
        subtree: sides[0].end(nodes[0]) - nodes[0]
        for subtree, nodes in places[0].items()
        if subtree in places[1]
    }
    moves = []
    for subtree in sorted(sizes, key=lambda key: (-sizes[key], places[0][key])):
        left = (
            [node for node in nodes[subtree] if is_free[node]]
            for nodes, is_free in zip(places, free, strict=True)
        )
        for i, j in zip(*left, strict=False):
            moves.append((i, j))
            for is_free, node in zip(free, (i, j), strict=True):
                is_free[node : node + sizes[subtree]] = False
    return moves


def _by_subtree(side: _Side, chosen: NDArray[np.bool_]) -> dict[int, list[int]]:
    """Gather nodes by what stands at and below them."""
    places: dict[int, list[int]] = {}
    for node in np.flatnonzero(chosen).tolist():
        places.setdefault(int(side.subtrees[node]), []).append(node)
    return places


def _parts(side: _Side, chosen: NDArray[np.bool_]) -> list[list[int]]:
    """Gather nodes that hang together, each part with its root first."""
    parts: dict[int, list[int]] = {}
    root_of: dict[int, int] = {}
    for node in np.flatnonzero(chosen).tolist():
        root = root_of.get(int(side.table.parents[node]), node)
        root_of[node] = root
        parts.setdefault(root, []).append(node)
    return list(parts.values())


def _places(
    pairs: list[tuple[int, int]], sizes: tuple[int, int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where each node stands in the order of both trees."""
    places = np.zeros(sizes[0], np.int64), np.zeros(sizes[1], np.int64)
    for place, nodes in enumerate(_comparison_pages.merged(pairs, sizes)):
        for order, node in zip(places, nodes, strict=True):
            if node is not None:
                order[node] = place
    return places


# --- What both have -------------------------------------------------------------------


def _shared_subtrees(sides: tuple[_Side, _Side]) -> list[SharedPart]:
    common = np.intersect1d(sides[0].subtrees, sides[1].subtrees)
    largest = set()
    for side in sides:
        is_common, parents = np.isin(side.subtrees, common), side.table.parents
        # The root's parent is -1: the last node, which is not asked.
        is_within = is_common[parents] & (parents >= 0)
        largest.update(side.subtrees[is_common & ~is_within].tolist())
    chosen = sorted(largest)
    old, new = (_by_subtree(side, np.isin(side.subtrees, chosen)) for side in sides)
    first = {subtree: nodes[0] for subtree, nodes in old.items()}
    order = sorted(
        old, key=lambda key: (first[key] - sides[0].end(first[key]), first[key])
    )
    if not order:
        return []
    roots = [first[subtree] for subtree in order]
    return [
        SharedPart(tree, old[subtree], new[subtree])
        for subtree, tree in zip(order, _cut(sides[0], roots), strict=True)
    ]


def _cut(side: _Side, roots: list[int]) -> Forest:
    """Return the subtrees of some nodes as a forest."""
    table = side.table
    sizes = [side.end(root) - root for root in roots]
    nodes = [np.arange(root, root + n) for root, n in zip(roots, sizes, strict=True)]
    offsets = np.r_[0, np.cumsum(np.array(sizes, np.int64))]
    # Parents are counted in the new forest.
    parents = [
        np.r_[-1, table.parents[part[1:]] - part[0] + offset]
        for part, offset in zip(nodes, offsets.tolist(), strict=False)
    ]
    used, labels = np.unique(table.labels[np.concatenate(nodes)], return_inverse=True)
    names = [table.name(label) for label in used]
    return Forest.from_arrays(labels, np.concatenate(parents), offsets, names)


def _shared_fragments(kernel: TreeKernel, a: Tree, b: Tree) -> list[SharedPart]:
    model = DagModel(kernel.replace(normalize=True))
    norm = math.sqrt(kernel.replace(normalize=False).pair(b, b))
    if not model.is_graph or not norm:
        return []
    model.add([a], [1.0])
    kind = fragment_kind(kernel)
    size = None if kind == "whole" else _LARGEST_FRAGMENT
    try:
        heaviest = model.top_fragments(
            _MOST_FRAGMENTS, max_size=size, max_states=_MOST_STATES
        )
    except RuntimeError:  # the search would take too long
        return []
    parts: list[SharedPart] = []
    both = as_forest([a, b])
    while heaviest and len(parts) < _N_FRAGMENTS:
        some, heaviest = heaviest[:_N_AT_A_TIME], heaviest[_N_AT_A_TIME:]
        found = occurrences([part.tree for part in some], both, kind)
        parts += [
            SharedPart(part.tree, nodes[0], nodes[1], part.weight / norm)
            for part, nodes in zip(some, found, strict=True)
            if 0 in nodes and 1 in nodes
        ]
    return parts[:_N_FRAGMENTS]
