"""What the readers share: lines of a file, errors with their place, growing forests.

Files are read as bytes, line by line. A blank is then what the parser of trees takes for
one (six ASCII characters), and the place of a byte that is not UTF-8 is known.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import zlib
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np

from treekernel_rs._core import ForestBuilder, ParseError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from treekernel_rs._core import Forest

PathLike = str | os.PathLike[str]

# Java and C read `nan`, `0x1p3` and `1f` as numbers, Python `1_000`; files hold none of
# them on purpose. Possessive, so that a long run of digits is looked at once.
NUMBER = rb"[+-]?+(?:\d++(?:\.\d*+)?+|\.\d++)(?:[eE][+-]?+\d++)?+"

# Bytes of trees that wait for the parser. Each call of it costs some microseconds, and
# the text that waits is all that is held of the file.
_BATCH = 1 << 20

GZIP = b"\x1f\x8b"

# Text is rarely packed to a thirtieth, and gzip can pack zeros to a thousandth: a small
# file would fill the memory. Small texts may repeat themselves.
_MOST_INFLATED = 100
_FREE_INFLATED = 1 << 26
BOM = b"\xef\xbb\xbf"


# What an example does not have is filled in: a thousand names in a thousand lines are a
# million trees. So many may be missing for each example, and so many in all however few
# the examples are.
_MOST_MISSING = 64
_FREE_MISSING = 1 << 22


class Columns:
    """Counts the places of a file's table: each column has one for every example."""

    def __init__(self, file: PathLike) -> None:
        self._file = file
        self._number = 0
        #: How many places the file itself fills.
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
            raise error(self._file, line, 0, expected, f"{missing:,}")


class Line(NamedTuple):
    """A line of a file: its number from 1, its first byte's offset, its bytes."""

    number: int
    offset: int
    text: bytes


@contextmanager
def opened(path: PathLike, item: int = 0) -> Iterator[IO[bytes]]:
    """Open a plain or gzip file; which of them is told by its first bytes."""
    with Path(path).open("rb") as plain:
        zipped = plain.read(2) == GZIP
        size = plain.seek(0, os.SEEK_END)
        plain.seek(0)
        if not zipped:
            yield plain
            return
        name = os.fspath(path)
        with inflated(plain, size, name, file=name, item=item) as file:
            yield file


@contextmanager
def inflated(
    plain: IO[bytes], size: int, where: str, *, file: str | None, item: int
) -> Iterator[IO[bytes]]:
    """Inflate `size` bytes of gzip data, up to a limit; the rest is for the error."""
    limit = max(_FREE_INFLATED, _MOST_INFLATED * size)
    expected = (
        f"at most {limit:,} bytes inflated from {size:,} bytes of gzip data "
        f"({_MOST_INFLATED} for each, or {_FREE_INFLATED:,})"
    )
    raised = ParseError(f"{where}: expected {expected}, got more")
    raised.file, raised.tree, raised.side, raised.open = file, item, None, None
    raised.line, raised.column, raised.offset = 1, 1, limit
    raised.expected, raised.got = expected, "more"
    try:
        with gzip.open(plain) as data:
            yield io.BufferedReader(_Limited(data, limit, raised), 1 << 16)
    except (EOFError, zlib.error, gzip.BadGzipFile) as broken:
        msg = f"{where}: the gzip data is cut off or damaged ({broken})"
        raise gzip.BadGzipFile(msg) from broken


class _Limited(io.RawIOBase):
    """A file of which no more than so many bytes may be read."""

    def __init__(self, file: gzip.GzipFile, left: int, error: ParseError) -> None:
        self._file, self._left, self._error = file, left, error

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        read = self._file.readinto(buffer)
        self._left -= read
        if self._left < 0:
            raise self._error
        return read


def lines(path: PathLike) -> Iterator[Line]:
    """Yield the lines of a file without the blank ones at its end."""
    blank: Line | None = None
    offset = 0
    with opened(path) as file:
        for number, text in enumerate(file, 1):
            line = Line(number, offset, text)
            offset += len(text)
            if number == 1 and text.startswith(BOM):
                line = Line(1, len(BOM), text[len(BOM) :])
            if not line.text or line.text.isspace():
                blank = blank or line
            elif blank is not None:
                wanted = "an example, or the end of the file"
                raise error(path, blank, 0, wanted, "a blank line")
            else:
                yield line


def error(
    file: PathLike,
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
    column = len(line.text[:at].decode(errors="replace")) + 1
    if got is None:
        got = found(line.text[at:])
    message = (
        f"{os.fspath(file)}, line {line.number}, column {column} "
        f"(byte {line.offset + at}): expected {expected}, got {got}"
    )
    place = None
    if opened is not None:
        place = line.number, len(line.text[:opened].decode(errors="replace")) + 1
        message += f"; the bracket opened at column {place[1]} is open"
    raised = ParseError(message)
    raised.file = os.fspath(file)
    raised.tree = line.number - 1
    raised.line, raised.column, raised.offset = line.number, column, line.offset + at
    raised.expected, raised.got, raised.open = expected, got, place
    return raised


def found(rest: bytes) -> str:
    """Name what stands at the beginning of `rest`, shortened, as the parser does."""
    marker = re.match(rb"\|[^|\s]{0,20}\|", rest)
    if marker:
        return repr(marker.group().decode(errors="replace"))
    if rest[:1] in (b"(", b")"):
        return repr(rest[:1].decode())
    word = re.match(rb"[^\s()]*", rest)
    text = word.group().decode(errors="replace") if word else ""
    if text:
        return repr(text[:20]) + ("..." if len(text) > 20 else "")
    return "a blank" if rest.strip() else "the end of the line"


def text_of(file: PathLike, line: Line, start: int, end: int) -> str:
    """Decode a part of a line, or raise with the place of the first bad byte."""
    try:
        return line.text[start:end].decode()
    except UnicodeDecodeError as bad:
        at = start + bad.start
        got = f"the byte 0x{line.text[at]:02x}"
        raise error(file, line, at, "UTF-8", got) from None


class Trees:
    """The trees of one position or name, one per example, as they come."""

    def __init__(self, store: TreeStore, n_missing: int) -> None:
        self._store = store
        self._builder = ForestBuilder()
        self._texts: list[bytes] = []
        self._places: list[tuple[Line, int]] = []
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
        self._places += [_NOWHERE] * missing
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
        line, start = self._places[raised.tree]
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
        return error(self._store.file, line, here, expected, got, opened=opened)

    def forest(self) -> Forest:
        """Hand over the forest."""
        return self._builder.finish()

    @property
    def null(self) -> NDArray[np.bool_]:
        """Which trees are null trees."""
        return np.frombuffer(self._null, dtype=np.bool_)


class TreeStore:
    """All forests that grow from one file."""

    def __init__(self, file: PathLike) -> None:
        self.file = file
        self.waiting = 0
        self._all: list[Trees] = []

    def new(self, n_missing: int) -> Trees:
        """Return another forest, with null trees for the examples before."""
        trees = Trees(self, n_missing)
        self._all.append(trees)
        return trees

    def check(self) -> None:
        """Parse what waits, if it is enough."""
        if self.waiting >= _BATCH:
            self.flush()

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
_NOWHERE = (Line(0, 0, b""), 0)
