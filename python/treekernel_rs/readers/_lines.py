"""Formats with an example in each line: lines with their place, growing forests.

Documents are read as bytes, line by line. A blank is then what the parser of trees takes for
one (six ASCII characters), and the place of a byte that is not UTF-8 is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from treekernel_rs._core import ForestBuilder, ParseError
from treekernel_rs.readers._source import BOM, found

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from treekernel_rs._core import Forest
    from treekernel_rs.readers._reading import Collector
    from treekernel_rs.readers._source import Document

# Java and C read `nan`, `0x1p3` and `1f` as numbers, Python `1_000`; files hold none of
# them on purpose. Possessive, so that a long run of digits is looked at once.
NUMBER = rb"[+-]?+(?:\d++(?:\.\d*+)?+|\.\d++)(?:[eE][+-]?+\d++)?+"

# Bytes of trees that wait for the parser. Each call of it costs some microseconds, and
# the text that waits is all that is held of the file.
_BATCH = 1 << 20

# What an example does not have is filled in: a thousand names in a thousand lines are a
# million trees. So many may be missing for each example, and so many in all however few
# the examples are.
_MOST_MISSING = 64
_FREE_MISSING = 1 << 22


class Columns:
    """Counts the places of a table: each column has one for every example."""

    def __init__(self) -> None:
        self._number = 0
        #: How many places the examples fill themselves.
        self.filled = 0

    def add(self, line: Line, n_examples: int, number: int = 1) -> None:
        """Count new columns, which the example after `n_examples` has."""
        self._number += number
        self.check(line, n_examples + 1)

    def check(self, line: Line, n_examples: int) -> None:
        """Refuse a table of which nearly everything is missing."""
        limit = max(_FREE_MISSING, _MOST_MISSING * n_examples)
        missing = self._number * n_examples - self.filled
        if missing > limit:
            expected = (
                f"at most {limit:,} trees, vectors and values that {n_examples:,} "
                "examples do not have and others do"
            )
            raise error(line, 0, expected, f"{missing:,}")


class Line(NamedTuple):
    """A line of a document."""

    #: From 1.
    number: int
    #: Where its first byte stands in the document.
    offset: int
    text: bytes
    #: How many lines come before, of all documents.
    tree: int
    document: Document

    def column(self, at: int) -> int:
        """Return the column of a byte, from 1."""
        return len(self.text[:at].decode(errors="replace")) + 1


def lines_of(document: Document, n_before: int = 0) -> Iterator[Line]:
    """Yield the lines of a document; `n_before` trees are in those before it."""
    offset = 0
    with document.open() as file:
        for number, text in enumerate(file, 1):
            plain = text.removeprefix(BOM) if number == 1 else text
            start = offset + len(text) - len(plain)
            yield Line(number, start, plain, n_before + number - 1, document)
            offset += len(text)


def lines(collector: Collector) -> Iterator[Line]:
    """Yield the lines of all documents without the blank ones at the end of each."""
    n_before = 0
    for document in collector.documents():
        blank: Line | None = None
        with collector.listed(document):
            for line in lines_of(document, n_before):
                if not line.text or line.text.isspace():
                    blank = blank or line
                    continue
                if blank is not None:
                    wanted = "an example, or the end of the file"
                    collector.wrong(error(blank, 0, wanted, "a blank line"))
                    blank = None
                yield line
                n_before = line.tree + 1


def error(
    line: Line,
    at: int,
    expected: str,
    got: str | None = None,
    *,
    opened: int | None = None,
) -> ParseError:
    """Return a ParseError at byte `at` of a line; see there for the attributes.

    `got` is what stands there unless given, `opened` the byte of an open bracket.
    """
    at = min(at, len(line.text.rstrip(b"\r\n")))
    if got is None:
        got = found(line.text[at:])
    place, note = None, ""
    if opened is not None:
        place = line.number, line.column(opened)
        note = f"; the bracket opened at column {place[1]} is open"
    start = line.number, line.column(at), line.offset + at
    return line.document.error(
        *start, expected, got, tree=line.tree, opened=place, note=note
    )


def text_of(line: Line, start: int, end: int) -> str:
    """Decode a part of a line, or raise with the place of the first bad byte."""
    try:
        return line.text[start:end].decode()
    except UnicodeDecodeError as bad:
        at = start + bad.start
        got = f"the byte 0x{line.text[at]:02x}"
        raise error(line, at, "UTF-8", got) from None


class Trees:
    """The trees of one position or name, one per example, as they come."""

    def __init__(self, store: TreeStore, n_missing: int) -> None:
        self._store = store
        self._builder = ForestBuilder()
        self._texts: list[bytes] = []
        self._places: list[tuple[Line, int] | None] = []
        self._null = bytearray()
        self.pad(n_missing)

    def __len__(self) -> int:
        return len(self._null)

    def add(self, line: Line, start: int, end: int) -> None:
        """Append the tree that stands in a part of a line; blank is the null tree."""
        text = line.text[start:end]
        if not text or text.isspace():
            self.pad(len(self) + 1)
            return
        if b"\\" in text:
            # The formats have no escape, our notation has: so it is written here.
            text = text.replace(b"\\", b"\\\\")
        self._texts.append(text)
        self._places.append((line, start))
        self._null.append(0)
        self._store.waiting += len(text)

    def pad(self, n_trees: int) -> None:
        """Append null trees up to `n_trees`."""
        missing = n_trees - len(self._null)
        if missing <= 0:
            return
        self._texts += [NULL_TREE] * missing
        self._places += [None] * missing
        self._null += b"\1" * missing
        self._store.waiting += missing

    def flush(self) -> ParseError | None:
        """Parse what waits; return the error of the first text that is not a tree."""
        try:
            self._builder.extend(self._texts)
        except ParseError as raised:
            return self._placed(raised)
        self._texts.clear()
        self._places.clear()
        return None

    def _placed(self, raised: ParseError) -> ParseError:
        place = self._places[raised.tree]
        if place is None:  # a null tree is never wrong
            return raised
        line, start = place
        text = self._texts[raised.tree]

        def at(n_bytes: int) -> int:
            # Before the place, every backslash of the line has been doubled.
            return start + n_bytes - text[:n_bytes].count(b"\\") // 2

        opened = None
        if raised.open is not None:
            before = text.decode(errors="replace")[: raised.open[1] - 1]
            opened = at(len(before.encode()))
        here = at(raised.offset)
        got = raised.got
        if got == "the end of the text":
            got = found(line.text[here:])
        expected = raised.expected
        if expected == "the end of the text after one tree":
            expected = "the end of the tree's text"
        return error(line, here, expected, got, opened=opened)

    def forest(self) -> Forest:
        """Hand over the forest."""
        return self._builder.finish()

    @property
    def null(self) -> NDArray[np.bool_]:
        """Which trees are null trees."""
        return np.frombuffer(self._null, dtype=np.bool_)


class TreeStore:
    """All forests that grow from the same lines."""

    def __init__(self) -> None:
        self.waiting = 0
        self._all: list[Trees] = []
        self._document: Document | None = None

    def new(self, n_missing: int) -> Trees:
        """Return another forest, with null trees for the examples before."""
        trees = Trees(self, n_missing)
        self._all.append(trees)
        return trees

    def check(self, line: Line) -> None:
        """Parse what waits, if it is enough or of another document than a line."""
        if self.waiting >= _BATCH or line.document is not self._document:
            self.flush()
            self._document = line.document

    def flush(self) -> None:
        """Parse what waits, or raise the file's first error in it."""
        first = self.first(None)
        if first is not None:
            raise first
        self.waiting = 0

    def first(self, known: ParseError | None) -> ParseError | None:
        """Return the first of an error in a line and those in trees that wait.

        Trees are parsed later than what stands around them, and forest by forest; the
        error that is reported is the one that comes first in the file nevertheless.
        """
        errors = [trees.flush() for trees in self._all]
        all_errors = [e for e in (known, *errors) if e is not None]
        return min(all_errors, key=lambda e: e.offset, default=None)


#: The null tree: a leaf whose label is empty.
NULL_TREE = rb"(\e)"


def null_trees(n_trees: int) -> Forest:
    """Return as many null trees, for examples of which none has a tree."""
    trees = TreeStore().new(n_trees)
    trees.flush()
    return trees.forest()
