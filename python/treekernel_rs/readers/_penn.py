"""Treebanks: files of bracketed trees, with what is usually taken off them.

The text is read by the parser of the core in one go, so trees may run over many lines.
What the options change is changed afterwards in the flat arrays of the forest: labels by
name, each name once, and nodes by masks.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from treekernel_rs._core import Forest, ParseError
from treekernel_rs.readers._reading import Collector, Reading
from treekernel_rs.readers._source import BOM, place_behind

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from treekernel_rs.readers._reading import Progress, Text
    from treekernel_rs.readers._source import Source, Texts

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
_ESCAPE = re.compile(rb"\\[\\()\s]")


def penn(
    source: Source = None,
    *,
    text: Texts = None,
    strip_functions: bool = False,
    drop_traces: bool = False,
    root: str | None = None,
    unescape: bool = False,
    max_depth: int | None = None,
    errors: str = "raise",
    progress: Progress = None,
) -> Reading:
    r"""Read treebanks: bracketed trees, which may run over several lines.

    Parameters
    ----------
    source : path, open file or iterable of these, optional
        Paths may also be directories (``*.mrg``, ``*.ptb``, ``*.parse``) and patterns;
        files may be gzipped.
    text : str, bytes or iterable of these, optional
        The text itself, in place of `source`.
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
    errors : {"raise", "skip"}, default "raise"
        "skip" leaves out trees that are too deep, and texts in which brackets do not
        match, and lists why: where the next tree begins is not known then.
    progress : callable or True, optional
        Called as progress(done, total), in texts; True shows a bar.

    Returns
    -------
    Reading

    Raises
    ------
    ParseError
        With file, tree, line, column, offset, what was expected and what was got.
    OSError
        If a file cannot be read.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> text = (
    ...     "( (S (NP-SBJ-1 (NNS dogs))\n"
    ...     "     (VP (VBP bark) (NP (-NONE- *-1)))))\n"
    ... )
    >>> reading = tk.readers.penn(text=text)
    >>> reading.forest.to_brackets(), reading.spans.tolist()
    (['(S (NP-SBJ-1 (NNS dogs)) (VP (VBP bark) (NP (-NONE- *-1))))'], [[1, 2]])
    >>> reading = tk.readers.penn(
    ...     text=text, strip_functions=True, drop_traces=True, root="ROOT"
    ... )
    >>> reading.forest.to_brackets()
    ['(ROOT (S (NP (NNS dogs)) (VP (VBP bark))))']
    """
    if max_depth is not None and max_depth < 1:
        msg = f"max_depth must be None or at least 1, got {max_depth}"
        raise ValueError(msg)
    suffixes = (".mrg", ".ptb", ".parse")
    collector = Collector(source, text, suffixes, errors=errors, progress=progress)
    parts: list[Forest] = []
    for each in collector.texts(raw=True):
        try:
            forest = Forest.from_brackets(each.raw)
        except ParseError as raised:
            collector.wrong(_placed(each, raised))
            continue
        spans = _spans(each)
        if max_depth is not None:
            depths = [tree.depth for tree in forest]
            for number, depth in enumerate(depths):
                if depth > max_depth:
                    collector.wrong(_too_deep(each, number, depth, max_depth))
            fits = [k for k, depth in enumerate(depths) if depth <= max_depth]
            forest, spans = forest[fits], spans[fits]
        parts.append(forest)
        collector.add_all(each, spans)
    forest = parts[0] if len(parts) == 1 else Forest.concat(parts)
    if not (strip_functions or drop_traces or unescape or root is not None):
        return collector.reading(forest)
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
    return collector.reading(nodes.forest())


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


def _placed(text: Text, raised: ParseError) -> ParseError:
    """Name the file in an error; a byte-order mark is no column of its first line."""
    bom = _bytes(text).startswith(BOM)

    def column(line: int, column: int) -> int:
        return column - (bom and line == 1)

    line, start = raised.line, column(raised.line, raised.column)
    opened, note = None, ""
    if raised.open is not None:
        opened = raised.open[0], column(*raised.open)
        note = f"; the bracket opened at line {opened[0]}, column {opened[1]} is open"
    return text.document.error(
        *(line, start, raised.offset, raised.expected, raised.got),
        tree=raised.tree,
        place=f"tree {raised.tree}, line {line}, column {start} (byte {raised.offset})",
        opened=opened,
        note=note,
    )


def _bytes(text: Text) -> bytes:
    return text.raw.encode() if isinstance(text.raw, str) else text.raw


def _top_brackets(text: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where trees begin and end, whose brackets match."""
    signs = np.frombuffer(text, dtype=np.uint8)
    step = (signs == ord("(")).astype(np.int8) - (signs == ord(")"))
    if b"\\" in text:
        for escape in _ESCAPE.finditer(text):
            step[escape.start() : escape.end()] = 0
    places = np.flatnonzero(step)
    depth = np.cumsum(step[places], dtype=np.int32)
    opens = step[places] > 0
    return places[opens & (depth == 1)], places[~opens & (depth == 0)]


def _spans(text: Text) -> NDArray[np.int64]:
    """Return the first and the last line of each tree."""
    data = _bytes(text)
    newlines = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == ord("\n"))
    return np.searchsorted(newlines, np.array(_top_brackets(data)).T) + 1


def _too_deep(text: Text, number: int, depth: int, limit: int) -> ParseError:
    """Find where a tree begins, for the error."""
    data = _bytes(text)
    place = place_behind(data[: _top_brackets(data)[0][number]])
    expected = f"a tree of at most {limit} levels"
    return text.document.error(*place, expected, f"{depth} levels", tree=number)
