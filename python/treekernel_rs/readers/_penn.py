"""Treebanks: files of bracketed trees, with what is usually taken off them.

The text is read by the parser of the core in one go, so trees may run over many lines.
What the options change is changed afterwards in the flat arrays of the forest: labels by
name, each name once, and nodes by masks.
"""

from __future__ import annotations

import os
import re
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from treekernel_rs._core import Forest, ParseError
from treekernel_rs.readers._source import BOM, Line, PathLike, error, opened

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

_TRACE = "-NONE-"
_TOPS = frozenset({"", "ROOT", "TOP", "S1"})
_BRACKETS = {
    "-LRB-": "(",
    "-RRB-": ")",
    "-LSB-": "[",
    "-RSB-": "]",
    "-LCB-": "{",
    "-RCB-": "}",
}
_TOKEN = re.compile(rb"\\[\\()\s]|[()]")


def penn(
    path: PathLike,
    *,
    strip_functions: bool = False,
    drop_traces: bool = False,
    root: str | None = None,
    unescape: bool = False,
    max_depth: int | None = None,
) -> Forest:
    r"""Read a treebank: bracketed trees, from a plain or a gzip file.

    Parameters
    ----------
    path : str or path
        The file. Trees may run over several lines; its text is held once.
    strip_functions : bool, default False
        Cut function tags, indices and marks off the labels of phrases, from the first
        ``-``, ``=`` or ``|`` on: ``NP-SBJ-1`` becomes ``NP``. Labels that begin with
        ``-``, parts of speech and words stay.
    drop_traces : bool, default False
        Take out parts of speech ``-NONE-`` with their words, and all nodes that this
        leaves without words. A tree of which nothing is left becomes the null tree, a
        leaf with an empty label, so that trees keep their numbers.
    root : str, optional
        The label on top of every tree. The empty bracket of the Penn Treebank's files,
        ROOT, TOP and S1 are replaced by it, and other trees get it on top. ``""`` takes
        them off, where they have one child. By default the empty bracket is dropped and
        the others stay.
    unescape : bool, default False
        In words, read ``-LRB-``, ``-RRB-``, ``-LSB-``, ``-RSB-``, ``-LCB-`` and
        ``-RCB-`` as brackets, ``\/`` as ``/`` and ``\*`` as ``*``.
    max_depth : int, optional
        The most nodes on a path from a root to a leaf; no limit by default.

    Returns
    -------
    Forest

    Raises
    ------
    ParseError
        With file, tree, line, column, offset, what was expected and what was got.
    OSError
        If the file cannot be read.

    Examples
    --------
    >>> import pathlib, tempfile, treekernel_rs as tk
    >>> path = pathlib.Path(tempfile.mkdtemp(), "wsj_0001.mrg")
    >>> _ = path.write_text(
    ...     "( (S (NP-SBJ-1 (NNS dogs))\n"
    ...     "     (VP (VBP bark) (NP (-NONE- *-1)))))\n"
    ... )
    >>> tk.readers.penn(path).to_brackets()
    ['(S (NP-SBJ-1 (NNS dogs)) (VP (VBP bark) (NP (-NONE- *-1))))']
    >>> tk.readers.penn(
    ...     path, strip_functions=True, drop_traces=True, root="ROOT"
    ... ).to_brackets()
    ['(ROOT (S (NP (NNS dogs)) (VP (VBP bark))))']
    """
    if max_depth is not None and max_depth < 1:
        msg = f"max_depth must be None or at least 1, got {max_depth}"
        raise ValueError(msg)
    with opened(path) as file:
        text = file.read()
    try:
        forest = Forest.from_brackets(text)
    except ParseError as raised:
        raise _in_file(path, raised, bom=text.startswith(BOM)) from None
    if max_depth is not None:
        for number, tree in enumerate(forest):
            depth = tree.depth
            if depth > max_depth:
                raise _too_deep(path, text, number, depth, max_depth)
    del text
    if not (strip_functions or drop_traces or unescape or root is not None):
        return forest
    nodes = _Nodes(forest)
    leaf, phrase = nodes.leaves(), nodes.phrases()
    if strip_functions:
        nodes.rename(phrase, _without_function)
    if unescape:
        nodes.rename(leaf, _unescaped)
    if drop_traces:
        nodes.drop_traces(leaf)
    if root is not None:
        nodes.top(root)
    return nodes.forest()


class _Nodes:
    """The flat arrays of a forest, while they change."""

    def __init__(self, forest: Forest) -> None:
        arrays = forest.to_arrays()
        self.labels = arrays["labels"]
        self.parents = arrays["parents"]
        self.offsets = arrays["offsets"][:-1]
        text, ends = arrays["names"].tobytes(), arrays["name_offsets"].tolist()
        self.names = [text[start:end].decode() for start, end in pairwise(ends)]
        self.ids = {name: at for at, name in enumerate(self.names)}

    def id_of(self, name: str) -> int:
        """Return the number of a label, a new one if need be."""
        if name not in self.ids:
            self.ids[name] = len(self.names)
            self.names.append(name)
        return self.ids[name]

    def leaves(self) -> NDArray[np.bool_]:
        """Which nodes have no children."""
        mask = np.ones(len(self.labels), dtype=np.bool_)
        mask[self.parents[self.parents >= 0]] = False
        return mask

    def phrases(self) -> NDArray[np.bool_]:
        """Which nodes have children that have children."""
        parents = self.parents[~self.leaves()]
        mask = np.zeros(len(self.labels), dtype=np.bool_)
        mask[parents[parents >= 0]] = True
        return mask

    def rename(self, where: NDArray[np.bool_], new: Callable[[str], str]) -> None:
        """Change the labels of some nodes; every name is looked at once."""
        used = np.unique(self.labels[where])
        target = [self.id_of(new(self.names[label])) for label in used.tolist()]
        to = np.arange(len(self.names))
        to[used] = target
        self.labels = np.where(where, to[self.labels], self.labels)

    def drop_traces(self, leaf: NDArray[np.bool_]) -> None:
        """Take out traces and what has no words without them."""
        above = self.labels[np.maximum(self.parents, 0)]
        trace = leaf & (self.parents >= 0) & (above == self.ids.get(_TRACE, -1))
        if not trace.any():
            return
        # Backwards through a preorder, children come before their parents.
        alive = bytearray(leaf & ~trace)
        parents = self.parents.tolist()
        for node in range(len(alive) - 1, -1, -1):
            if alive[node] and parents[node] >= 0:
                alive[parents[node]] = 1
        keep = np.frombuffer(alive, dtype=np.bool_).copy()
        lost = self.offsets[~keep[self.offsets]]
        keep[lost] = True
        self.labels[lost] = self.id_of("")
        self.keep(keep)

    def keep(self, mask: NDArray[np.bool_]) -> None:
        """Take out the nodes that a mask leaves out; no child may lose its parent."""
        new = np.cumsum(mask) - 1
        parents = self.parents[mask]
        self.parents = np.where(parents < 0, -1, new[np.maximum(parents, 0)])
        self.labels = self.labels[mask]
        self.offsets = new[self.offsets]

    def top(self, root: str) -> None:
        """Put one label on top of every tree, or take it off."""
        tops = np.array([name in _TOPS for name in self.names])
        inner = ~self.leaves()[self.offsets]
        is_top = tops[self.labels[self.offsets]] & inner
        null = ~inner & (self.labels[self.offsets] == self.ids.get("", -1))
        if root:
            self.labels[self.offsets[is_top]] = self.id_of(root)
            self.insert(self.offsets[~is_top & ~null], self.id_of(root))
            return
        n_children = np.bincount(
            self.parents[self.parents >= 0], minlength=len(self.labels)
        )
        goes = self.offsets[is_top & (n_children[self.offsets] == 1)]
        self.parents[goes + 1] = -1
        mask = np.ones(len(self.labels), dtype=np.bool_)
        mask[goes] = False
        # The first child is now the root; it takes the number that its parent had.
        starts = self.offsets + ~mask[self.offsets]
        self.offsets = starts
        self.keep(mask)

    def insert(self, roots: NDArray[np.int64], label: int) -> None:
        """Put a node on top of some trees."""
        if not len(roots):
            return
        before = np.zeros(len(self.labels), dtype=np.int64)
        before[roots] = 1
        new = np.arange(len(self.labels)) + np.cumsum(before)
        parents = np.where(self.parents < 0, -1, new[np.maximum(self.parents, 0)])
        parents[roots] = new[roots] - 1
        self.parents = np.insert(parents, roots, -1)
        self.labels = np.insert(self.labels, roots, label)
        self.offsets = new[self.offsets] - before[self.offsets]

    def forest(self) -> Forest:
        """Hand over the forest."""
        return Forest.from_arrays(
            self.labels, self.parents, self.offsets, names=self.names
        )


def _without_function(label: str) -> str:
    if label.startswith("-"):
        return label
    return re.split(r"[-=|]", label, maxsplit=1)[0] or label


def _unescaped(word: str) -> str:
    return _BRACKETS.get(word) or word.replace("\\/", "/").replace("\\*", "*")


def _in_file(path: PathLike, raised: ParseError, *, bom: bool) -> ParseError:
    """Name the file in an error; a byte-order mark is no column of its first line."""

    def column(line: int, column: int) -> int:
        return column - (bom and line == 1)

    file = os.fspath(path)
    message = (
        f"{file}, tree {raised.tree}, line {raised.line}, column "
        f"{column(raised.line, raised.column)} (byte {raised.offset}): expected "
        f"{raised.expected}, got {raised.got}"
    )
    opened = raised.open and (raised.open[0], column(*raised.open))
    if opened is not None:
        message += (
            f"; the bracket opened at line {opened[0]}, column {opened[1]} is open"
        )
    new = ParseError(message)
    vars(new).update(vars(raised))
    new.file, new.open = file, opened
    new.column = column(raised.line, raised.column)
    return new


def _too_deep(
    path: PathLike, text: bytes, number: int, depth: int, limit: int
) -> ParseError:
    """Find where a tree begins, for the error."""
    open_brackets = trees = at = 0
    for token in _TOKEN.finditer(text):
        if token.group() == b"(":
            if open_brackets == 0:
                at = token.start()
                if trees == number:
                    break
                trees += 1
            open_brackets += 1
        elif token.group() == b")":
            open_brackets -= 1
    start = text.rfind(b"\n", 0, at) + 1
    if start == 0 and text.startswith(BOM):
        start = len(BOM)
    line = Line(text.count(b"\n", 0, at) + 1, start, text[start : at + 1])
    expected = f"a tree of at most {limit} levels"
    raised = error(path, line, at - start, expected, f"{depth} levels")
    raised.tree = number
    return raised
