"""What all readers of texts share: sources, errors with their place, one result."""

from __future__ import annotations

import gzip
import io
import itertools
import os
from bisect import bisect_right
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import numpy as np

from treekernel_rs._adapters import column, is_column
from treekernel_rs._arguments import progress_callback
from treekernel_rs._core import Forest, ParseError
from treekernel_rs.readers._source import GZIP, found, inflated, opened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

Source: TypeAlias = "str | bytes | os.PathLike[str] | IO[Any] | Iterable[Any]"
Progress: TypeAlias = "Callable[[int, int], object] | bool | None"


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Reading:
    """Trees that a reader found, and what the source says of them.

    Attributes
    ----------
    forest : Forest
        The trees.
    names : list of str
        What the source calls each tree: the id of a sentence, the qualified name of a
        function; "" where it has no name.
    labels : list of str
        Where each tree comes from: the file, or "item 3" of a list of texts; "" in one
        text.
    spans : ndarray of int64, shape (n_trees, 2)
        First and last line of each tree there, from 1; 0 where lines are not known.
    tokens : ndarray of int64 or None
        Per node, in the order of ``forest.to_arrays()``: the number of the token that
        the node stands for. Trees of dependencies only.
    metadata : list of dict
        Other data of each tree, such as the comments of a sentence; empty if the
        format has none.
    skipped : list of ParseError
        With ``errors="skip"``, the errors of what was left out.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> reading = tk.readers.newick(["(a,b)x;", "(a,", "(a,c)y;"], errors="skip")
    >>> reading
    <Reading: 2 trees, 1 skipped>
    >>> reading.names, [error.tree for error in reading.skipped]
    (['x', 'y'], [1])
    """

    forest: Forest
    names: list[str]
    labels: list[str]
    spans: NDArray[np.int64]
    tokens: NDArray[np.int64] | Any = None  # callers know which they have
    metadata: list[dict[str, str]] = field(default_factory=list)
    skipped: list[ParseError] = field(default_factory=list)

    def __len__(self) -> int:
        """Count the trees."""
        return len(self.forest)

    def __repr__(self) -> str:
        """Say how much there is."""
        n, left_out = len(self), len(self.skipped)
        skipped = f", {left_out} skipped" if left_out else ""
        return f"<Reading: {n:,} tree{'s' * (n != 1)}{skipped}>"


@dataclass(slots=True)
class Text:
    """A text with its place: a file, an item of a list, or neither."""

    content: str
    item: int
    file: str | None = None
    where: str = ""
    #: What was read, for parsers that find out the encoding themselves.
    raw: str | bytes = ""
    _starts: list[int] = field(default_factory=list)
    _bytes: list[int] = field(default_factory=list)

    def line(self, offset: int) -> int:
        """Return the line of a character, from 1."""
        return bisect_right(self._lines(), offset)

    def _lines(self) -> list[int]:
        """Return where lines start: found once, for a text may have a million trees."""
        if not self._starts:
            lines = self.content.split("\n")
            starts = itertools.accumulate((len(line) + 1 for line in lines), initial=0)
            self._starts = list(itertools.islice(starts, len(lines)))
            if not self.content.isascii():
                sizes = (len(line.encode(errors="replace")) + 1 for line in lines)
                self._bytes = list(itertools.accumulate(sizes, initial=0))
        return self._starts

    def error(self, offset: int, expected: str, got: str | None = None) -> ParseError:
        """Return the error at a character of the text."""
        line = self.line(offset)
        column = offset - self._lines()[line - 1] + 1
        if got is None:
            got = self.found(offset)
        return self.error_at(line, column, expected, got)

    def found(self, offset: int) -> str:
        """Name what stands at a character."""
        if offset >= len(self.content):
            return "the end of the text"
        rest = self.content[offset : offset + 80].encode()
        return found(rest) if not rest[:1].isspace() else "a blank"

    def error_at(self, line: int, column: int, expected: str, got: str) -> ParseError:
        """Return the error at a line and a column, both from 1."""
        starts = self._lines()
        at = min(max(line, 1), len(starts)) - 1
        end = starts[at + 1] - 1 if at + 1 < len(starts) else len(self.content)
        offset = min(starts[at] + column - 1, end)
        if self._bytes:
            before = self.content[starts[at] : offset]
            offset = self._bytes[at] + len(before.encode(errors="replace"))
        place = f"{self.where}, " if self.where else ""
        message = (
            f"{place}line {line}, column {column} (byte {offset}): expected {expected}, "
            f"got {got}"
        )
        raised = ParseError(message)
        raised.file, raised.tree, raised.side, raised.open = (
            self.file,
            self.item,
            None,
            None,
        )
        raised.line, raised.column, raised.offset = line, column, offset
        raised.expected, raised.got = expected, got
        return raised


def numbered(content: str) -> Iterator[tuple[int, int, str]]:
    """Yield the lines of a text that are not blank: number, place, line."""
    offset = 0
    for number, line in enumerate(content.split("\n"), 1):
        if line.strip():
            yield number, offset, line
        offset += len(line) + 1


class Collector:
    """Goes through the texts of a source and gathers what becomes of them."""

    def __init__(
        self,
        source: Source,
        errors: str,
        progress: Progress,
        suffixes: Sequence[str],
        builder: Any = None,
        *,
        raw: bool = False,
        encoding: Callable[[bytes], str] = lambda _: "utf-8-sig",
    ) -> None:
        if errors not in ("raise", "skip"):
            msg = f"errors must be 'raise' or 'skip', got {errors!r}"
            raise ValueError(msg)
        self._skips = errors == "skip"
        self._tell = progress_callback(progress, "read", "text")
        self._items, self._several = _items(source, suffixes)
        self._raw, self._encoding = raw, encoding
        self.builder = builder
        self.names: list[str] = []
        self.labels: list[str] = []
        self.spans: list[tuple[int, int]] = []
        self.metadata: list[dict[str, str]] = []
        self.skipped: list[ParseError] = []

    def texts(self) -> Iterator[Text]:
        """Yield the texts; what is wrong with one is said of that one."""
        items, total = self._items, 0
        if self._tell is not None:
            # Otherwise a generator of texts is asked for one at a time.
            items = list(items)
            total = len(items)
        for number, item in enumerate(items):
            name = f"item {number}" if self._several else ""
            try:
                yield _text(item, number, name, self._raw, self._encoding)
            except ParseError as error:
                self.wrong(error)
            except TypeError:
                # A value that a column does not have.
                if not self._skips or not self._several:
                    raise
                text = Text("", number, where=name)
                got = type(item).__name__
                self.wrong(text.error(0, "a text, a path or a file", got))
            except gzip.BadGzipFile as damaged:
                if not self._skips:
                    raise
                text = Text("", number, where=name)
                self.wrong(text.error(0, "whole gzip data", str(damaged)))
            if self._tell is not None:
                self._tell(number + 1, total)

    def wrong(self, error: ParseError) -> None:
        """Raise an error, or list it."""
        if not self._skips:
            raise error
        self.skipped.append(error)

    def add(
        self, text: Text, name: str = "", span: tuple[int, int] | None = None
    ) -> None:
        """Keep what is known of a tree that the forest will have."""
        self.names.append(name)
        self.labels.append(text.where)
        self.spans.append(span or (1, text.content.count("\n") + 1))

    def reading(
        self, forest: Forest | None = None, tokens: NDArray[np.int64] | None = None
    ) -> Reading:
        """Return all of it."""
        return Reading(
            self.builder.finish() if forest is None else forest,
            self.names,
            self.labels,
            np.array(self.spans, dtype=np.int64).reshape(-1, 2),
            tokens,
            self.metadata,
            self.skipped,
        )


class Table:
    """Trees as flat arrays, while they are read: labels and parents in preorder."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}
        self.labels: list[int] = []
        self.parents: list[int] = []
        self.offsets: list[int] = []

    def begin(self) -> None:
        """Begin a tree; `forget` takes it back."""
        self.offsets.append(len(self.labels))

    def forget(self) -> None:
        """Take back the tree that was begun last."""
        start = self.offsets.pop()
        del self.labels[start:], self.parents[start:]

    def node(self, label: str, parent: int = -1) -> int:
        """Append a node, and return its number."""
        self.labels.append(self.ids.setdefault(label, len(self.ids)))
        self.parents.append(parent)
        return len(self.labels) - 1

    def forest(self) -> Forest:
        """Return the trees."""
        return Forest.from_arrays(
            np.array(self.labels, dtype=np.int64),
            np.array(self.parents, dtype=np.int64),
            np.array([*self.offsets, len(self.labels)], dtype=np.int64),
            names=list(self.ids),
        )


def choice(name: str, value: Any, *choices: Any) -> None:
    """Refuse a value that is none of those there are."""
    if value not in choices:
        listed = ", ".join(map(repr, choices[:-1])) + f" or {choices[-1]!r}"
        msg = f"{name} must be {listed}, got {value!r}"
        raise ValueError(msg)


def _items(source: Source, suffixes: Sequence[str]) -> tuple[Iterable[Any], bool]:
    """Return texts, files, and the files of directories and patterns; and if several."""
    if isinstance(source, bytearray | memoryview):
        source = bytes(source)
    if isinstance(source, str | bytes | os.PathLike) or hasattr(source, "read"):
        return _found([source], suffixes), False
    if is_column(source):
        return _found(column(source), suffixes), True
    if not hasattr(source, "__iter__"):
        msg = (
            "source must be a text, a path, a file or an iterable of these, got "
            f"{type(source).__name__}"
        )
        raise TypeError(msg)
    one = isinstance(source, list | tuple) and len(source) == 1
    return _found(source, suffixes), not one


def _found(source: Iterable[Any], suffixes: Sequence[str]) -> Iterator[Any]:
    for item in source:
        if not isinstance(item, os.PathLike):
            yield item
            continue
        path = Path(item)
        if path.is_dir():
            wanted = f"a file *{' or *'.join(suffixes)} in the directory"
            found = (f for f in path.rglob("*") if f.name.endswith(tuple(suffixes)))
        elif any(sign in str(path) for sign in "*?[") and not path.exists():
            wanted = "a file that matches the pattern"
            anchor = Path(path.anchor) if path.anchor else Path()
            pattern = str(path.relative_to(anchor) if path.anchor else path)
            found = anchor.glob(pattern)
        else:
            yield path
            continue
        files = sorted(file for file in found if file.is_file())
        if not files:
            msg = f"{os.fspath(path)}: expected {wanted}, found none"
            raise FileNotFoundError(msg)
        yield from files


def _text(
    item: Any, number: int, name: str, raw: bool, encoding: Callable[[bytes], str]
) -> Text:
    """Read a text; with `raw`, bytes need not be of the encoding."""
    file = None
    if isinstance(item, os.PathLike):
        file = os.fspath(item)
        with opened(file, number) as handle:
            item = handle.read()
    else:
        if hasattr(item, "read"):
            named = getattr(item, "name", None)
            file = named if isinstance(named, str) else None
            item = item.read()
        if isinstance(item, bytes) and item.startswith(GZIP):
            where, plain = file or name or "source", io.BytesIO(item)
            with inflated(plain, len(item), where, file=file, item=number) as handle:
                item = handle.read()
    text = Text("", number, file, file or name)
    text.raw = item
    if isinstance(item, bytes):
        if raw:
            text.content = item.decode(errors="replace")
            return text
        named = encoding(item)
        try:
            item = item.decode(named)
        except LookupError:
            raise text.error(0, "a known encoding", repr(named)) from None
        except UnicodeDecodeError as bad:
            # The codec counts from behind a byte-order mark.
            start = bad.start + (len(item) - len(bad.object))
            text.content = item[:start].decode(named, errors="replace")
            got = f"the byte 0x{item[start]:02x}"
            expected = named.removesuffix("-sig").upper()
            raise text.error(len(text.content), expected, got) from None
    if not isinstance(item, str):
        msg = (
            f"{text.where or 'source'}: expected a text, a path or a file, got "
            f"{type(item).__name__}"
        )
        raise TypeError(msg)
    if file is None and _is_file(item):
        msg = (
            f"source: {item!r} is the name of a file, and a str is read as the text "
            "itself; give pathlib.Path(...) for the file"
        )
        raise ValueError(msg)
    try:
        item.encode()
    except UnicodeEncodeError as bad:
        text.content = item[: bad.start]
        raise text.error(bad.start, "Unicode text", "a lone surrogate") from None
    text.content = item.removeprefix("\ufeff")
    return text


def _is_file(text: str) -> bool:
    if len(text) > 1024 or not any(map(str.isalnum, text)) or {*"\n\0"} & {*text}:
        return False
    try:
        return Path(text).exists()
    except OSError:
        return False
