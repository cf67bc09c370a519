"""Nodes of a tree, by their addresses: number, parent, path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from treekernel_rs._core import Forest, as_forest
from treekernel_rs._public import listing
from treekernel_rs._wording import label_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike, NDArray

    from treekernel_rs._core import Tree

__all__ = ["Node"]

__dir__ = listing(__all__)

#: Labels of a path that are shown: the root's, and the last ones.
_MOST_SHOWN = 6


class NodeTable:
    """The nodes of a tree as arrays, in preorder; one table for all its `Node` objects."""

    __slots__ = (
        "depths",
        "ends",
        "labels",
        "names",
        "parents",
        "spans",
        "starts",
        "tree",
    )

    def __init__(self, tree: Tree, spans: ArrayLike | None = None) -> None:
        arrays = as_forest([tree]).to_arrays()
        self.tree = tree
        #: Of each node: its label's number, and its parent's number, -1 for the root.
        self.labels, self.parents = arrays["labels"], arrays["parents"]
        #: All labels in UTF-8, and where each starts.
        self.names, self.starts = arrays["names"].tobytes(), arrays["name_offsets"]
        parents = self.parents.tolist()
        n = len(parents)
        depths, ends = [1] * n, list(range(1, n + 1))
        for node in range(1, n):
            depths[node] = depths[parents[node]] + 1
        for node in range(n - 1, 0, -1):
            ends[parents[node]] = max(ends[parents[node]], ends[node])
        #: Of each node: the nodes from the root to it, and the number behind its subtree.
        self.depths, self.ends = np.array(depths), np.array(ends)
        self.spans = None if spans is None else _checked(spans, n)

    def __len__(self) -> int:
        return len(self.parents)

    def nodes(self) -> Iterator[Node]:
        """Yield all nodes in preorder."""
        return map(self.node, range(len(self)))

    def node(self, number: int) -> Node:
        """Return a node by its number."""
        return Node(self, number)

    def label(self, number: int) -> str:
        """Return the label of a node."""
        return self.name(int(self.labels[number]))

    def name(self, label: int) -> str:
        """Return a label by its number."""
        return self.names[self.starts[label] : self.starts[label + 1]].decode()

    def children(self, number: int) -> Iterator[int]:
        """Yield the numbers of a node's children."""
        child, end = number + 1, int(self.ends[number])
        while child < end:
            yield child
            child = int(self.ends[child])


def _checked(spans: ArrayLike, n_nodes: int) -> NDArray[np.int64]:
    values = np.asarray(spans)
    if values.shape != (n_nodes, 2) or values.dtype.kind not in "iu":
        msg = (
            f"spans must be integers of shape ({n_nodes}, 2), first and last line of each "
            f"node, got {values.dtype} of shape {values.shape}"
        )
        raise ValueError(msg)
    return values.astype(np.int64)


def walk(tree: Tree, spans: ArrayLike | None = None) -> Iterator[Node]:
    """Yield the nodes of a tree in preorder: see `Tree.walk`."""
    return NodeTable(tree, spans).nodes()


def path_text(node: Node) -> str:
    """Return the path of a node as it is shown; of a long one, the root and the end."""
    labels, above = [node.label], node
    while len(labels) < _MOST_SHOWN and (parent := above.parent) is not None:
        labels.append(parent.label)
        above = parent
    if above.depth > 2:
        labels.append("\u2026")
    if above.depth > 1:
        labels.append(node._table.label(0))
    return "/".join(label_text(label) for label in reversed(labels))


def lines_text(node: Node) -> str:
    """Return the lines of a node as they follow its path; nothing where not known."""
    if node.span is None:
        return ""
    first, last = node.span
    return f", line {first}" if first == last else f", lines {first}-{last}"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Node:
    """A node of a tree, with its place there: what `Tree.walk` yields.

    Nodes are equal if their numbers and their whole trees are.

    Attributes
    ----------
    number : int
        Its place in preorder, the root's being 0: what `EditDistance.mapping` calls it, and
        where its weight is among those of `contributions` and `draw`.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> tree = tk.Forest(["(S (NP dogs) (VP (V bark)))"])[0]
    >>> root, np, dogs, vp, v, bark = tree.walk()
    >>> bark
    <Node 5: S/VP/V/bark>
    >>> bark.number, bark.label, bark.depth, bark.path
    (5, 'bark', 4, ['S', 'VP', 'V', 'bark'])
    >>> vp.children, vp.n_nodes, str(vp.tree)
    ([<Node 4: S/VP/V>], 3, '(VP (V bark))')
    >>> vp.parent == root, root.parent is None, root.span is None
    (True, True, True)
    """

    _table: NodeTable
    number: int

    @property
    def label(self) -> str:
        """The label."""
        return self._table.label(self.number)

    @property
    def depth(self) -> int:
        """The number of nodes from the root to this one, both included."""
        return int(self._table.depths[self.number])

    @property
    def n_nodes(self) -> int:
        """The number of nodes in its subtree: the others have the numbers after its own."""
        return int(self._table.ends[self.number]) - self.number

    @property
    def parent(self) -> Node | None:
        """The node above; None for the root."""
        number = int(self._table.parents[self.number])
        return None if number < 0 else Node(self._table, number)

    @property
    def children(self) -> list[Node]:
        """The nodes directly below, in order."""
        return [Node(self._table, child) for child in self._table.children(self.number)]

    @property
    def path(self) -> list[str]:
        """The labels from the root to this node, both included."""
        labels, number = [], self.number
        while number >= 0:
            labels.append(self._table.label(number))
            number = int(self._table.parents[number])
        return labels[::-1]

    @property
    def tree(self) -> Tree:
        """The subtree: this node and all below it."""
        table, number = self._table, self.number
        if number == 0:
            return table.tree
        part = slice(number, int(table.ends[number]))
        labels, ids = np.unique(table.labels[part], return_inverse=True)
        parents = table.parents[part] - number
        parents[0] = -1
        names = [table.name(label) for label in labels]
        return Forest.from_arrays(ids, parents, [0, len(ids)], names=names)[0]

    @property
    def span(self) -> tuple[int, int] | None:
        """First and last line in the source; None where they are not known."""
        if self._table.spans is None:
            return None
        first, last = self._table.spans[self.number].tolist()
        return (first, last) if first > 0 else None

    def __eq__(self, other: object) -> bool:
        """Compare numbers and whole trees."""
        if not isinstance(other, Node):
            return NotImplemented
        same = self._table is other._table or self._table.tree == other._table.tree
        return self.number == other.number and same

    def __hash__(self) -> int:
        """Return a number that equal nodes share."""
        return hash((self.number, self.label))

    def __repr__(self) -> str:
        """Show number and path."""
        return f"<Node {self.number}: {path_text(self)}>"
