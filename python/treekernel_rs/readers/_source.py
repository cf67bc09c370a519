"""What readers read from: paths, open files, texts; the one place that opens and inflates.

A reader takes `source`, a path or an open file, or `text`, what would stand in a file; or
several of one of them. Both become documents, and what is wrong with a document is said
with its place.
"""

from __future__ import annotations

import errno
import gzip
import io
import itertools
import os
import re
import zlib
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias

from treekernel_rs._adapters import column, is_column
from treekernel_rs._core import ParseError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

PathLike = str | os.PathLike[str]
Source: TypeAlias = "PathLike | IO[Any] | Iterable[Any] | None"
Texts: TypeAlias = "str | bytes | Iterable[Any] | None"

GZIP = b"\x1f\x8b"
BOM = b"\xef\xbb\xbf"

# Text is rarely packed to a thirtieth, and gzip can pack zeros to a thousandth: a small
# file would fill the memory. Small texts may repeat themselves.
_MOST_INFLATED = 100
_FREE_INFLATED = 1 << 26

# A str that no file has for a name, and that few people would give a file: it is a text,
# and its stars and brackets are no pattern.
_LIKE_TEXT = re.compile(r'[\n\r\t\0(<{;"=]|\[.*,|\s.*\s', re.DOTALL)
_LONGEST_NAME = 255


class Document:
    """One thing to read: a file by its path, an open file, or a text.

    Attributes
    ----------
    item : int
        Its number among those that are read.
    file : str or None
        The name of the file.
    where : str
        What errors call it: the file, "item 3" of several, or "" of one.
    """

    __slots__ = ("_given", "_is_path", "_is_text", "file", "item", "where")

    def __init__(self, given: Any, item: int, *, is_text: bool, several: bool) -> None:
        if isinstance(given, bytearray | memoryview):
            given = bytes(given)
        self._given, self._is_text, self.item = given, is_text, item
        self._is_path = not is_text and isinstance(given, str | os.PathLike)
        name = os.fspath(given) if self._is_path else getattr(given, "name", None)
        self.file = name if isinstance(name, str) and not is_text else None
        self.where = self.file or (f"item {item}" if several else "")

    @property
    def kind(self) -> str:
        """The type of what was given."""
        return type(self._given).__name__

    def read(self) -> str | bytes:
        """Return all of it; data of gzip inflated."""
        if self._is_path:
            with self.open() as file:
                return file.read()
        read = self._text if self._is_text else self._reading()
        return self._inflated(read())

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Open it to be read by pieces, as bytes of UTF-8."""
        if self._is_path:
            with Path(self._given).open("rb") as plain:
                zipped = plain.read(2) == GZIP
                size = plain.seek(0, os.SEEK_END)
                plain.seek(0)
                if not zipped:
                    yield plain
                    return
                with self._inflating(plain, size) as file:
                    yield file
            return
        data: str | bytes
        if self._is_text:
            data = self._text()
        else:
            read = self._reading()
            # Files of text are read at once: they alone know how to go on.
            data = read() if isinstance(self._given, io.TextIOBase) else read(len(GZIP))
            if isinstance(data, bytes) and data != GZIP:
                yield io.BufferedReader(_Stream(data, read), 1 << 16)  # type: ignore[arg-type]
                return
            data += read()  # type: ignore[operator]
        data = self._inflated(data)
        yield io.BytesIO(self.encoded(data) if isinstance(data, str) else data)

    def error(
        self,
        line: int,
        column: int,
        offset: int,
        expected: str,
        got: str,
        *,
        tree: int | None = None,
        opened: tuple[int, int] | None = None,
        place: str | None = None,
        note: str = "",
    ) -> ParseError:
        """Return the error at a place: line and column from 1, offset in bytes."""
        if place is None:
            place = f"line {line}, column {column} (byte {offset})"
        place = ", ".join(filter(None, (self.where, place)))
        raised = ParseError(f"{place}: expected {expected}, got {got}{note}")
        raised.file, raised.tree = self.file, self.item if tree is None else tree
        raised.line, raised.column, raised.offset = line, column, offset
        raised.expected, raised.got = expected, got
        raised.side, raised.open = None, opened
        return raised

    def encoded(self, text: str) -> bytes:
        """Return the bytes of a text, or raise."""
        try:
            return text.encode()
        except UnicodeEncodeError as bad:
            place = place_behind(text[: bad.start].encode())
            raise self.error(*place, "Unicode text", "a lone surrogate") from None

    def _text(self) -> str | bytes:
        if isinstance(self._given, str | bytes):
            return self._given
        raise self._refused(self._given)

    def _reading(self) -> Callable[..., str | bytes]:
        """Return the method of an open file, which has to return text or bytes."""
        if not hasattr(self._given, "read"):
            raise self._refused(self._given)

        def read(*size: int) -> str | bytes:
            try:
                data = self._given.read(*size)
            except UnicodeDecodeError as bad:
                # Of a file that was opened as text: its encoding does not fit.
                place = place_behind(bad.object[: bad.start])
                got = f"the byte 0x{bad.object[bad.start]:02x}"
                raise self.error(*place, bad.encoding.upper(), got) from None
            if isinstance(data, str | bytes):
                return data
            raise self._refused(data, "str or bytes from the open file")

        return read

    def _refused(self, got: object, expected: str | None = None) -> TypeError:
        where = self.where or ("text" if self._is_text else "source")
        if expected is None:
            expected = "a str or bytes" if self._is_text else "a path or an open file"
        hint = "; for the text itself, pass text=..." * isinstance(got, bytes)
        return TypeError(
            f"{where}: expected {expected}, got {type(got).__name__}{hint}"
        )

    def _inflated(self, data: str | bytes) -> str | bytes:
        if isinstance(data, str) or not data.startswith(GZIP):
            return data
        with self._inflating(io.BytesIO(data), len(data)) as file:
            return file.read()

    @contextmanager
    def _inflating(self, plain: IO[bytes], size: int) -> Iterator[IO[bytes]]:
        """Inflate `size` bytes of gzip data, up to a limit."""
        limit = max(_FREE_INFLATED, _MOST_INFLATED * size)
        expected = (
            f"at most {limit:,} bytes inflated from {size:,} bytes of gzip data "
            f"({_MOST_INFLATED} for each, or {_FREE_INFLATED:,})"
        )
        place = "" if self.where else "source"
        raised = self.error(1, 1, limit, expected, "more", place=place)
        try:
            with gzip.open(plain) as data:
                yield io.BufferedReader(_Limited(data, limit, raised), 1 << 16)
        except (EOFError, zlib.error, gzip.BadGzipFile) as broken:
            where = self.where or "source"
            msg = f"{where}: the gzip data is cut off or damaged ({broken})"
            raise gzip.BadGzipFile(msg) from broken


def documents(
    source: Source, text: Texts, suffixes: Sequence[str]
) -> tuple[Iterator[Document], bool]:
    """Return what there is to read, and whether that may be several documents.

    A directory stands for its files with the suffixes, a pattern for all that match.
    """
    if (source is None) == (text is None):
        got = "neither" if source is None else "both"
        msg = (
            "give either a path or an open file (or several) or text=..., the text "
            f"itself, got {got}"
        )
        raise TypeError(msg)
    given: Any = source if text is None else text
    one = isinstance(given, str | bytes | bytearray | memoryview | os.PathLike)
    if one or hasattr(given, "read"):
        given, several = [given], False
    elif is_column(given):
        given, several = column(given), True
    elif hasattr(given, "__iter__"):
        several = not (isinstance(given, list | tuple) and len(given) == 1)
    else:
        what = "a path, an open file" if text is None else "a text"
        name = "source" if text is None else "text"
        msg = f"{name}: expected {what} or an iterable, got {type(given).__name__}"
        raise TypeError(msg)
    if text is None:
        given = itertools.chain.from_iterable(_files(item, suffixes) for item in given)
    is_text = text is not None
    numbered = (
        Document(item, number, is_text=is_text, several=several)
        for number, item in enumerate(given)
    )
    return numbered, several


def _files(item: Any, suffixes: Sequence[str]) -> Iterable[Any]:
    """Return the files of a directory or a pattern; anything else as it is."""
    if not isinstance(item, str | os.PathLike):
        return [item]
    if isinstance(item, str) and not (item and _exists(item)):
        names = re.split(r"[/\\]", item)
        # Of an empty name, pathlib would make the current directory.
        is_name = item and max(map(len, names)) <= _LONGEST_NAME
        if not is_name or _LIKE_TEXT.search(item):
            shown = item if len(item) <= 40 else f"{item[:40]}..."
            msg = "no such file; for the text itself, pass text=..."
            raise FileNotFoundError(errno.ENOENT, msg, shown)
    path = Path(item)
    if path.is_dir():
        wanted = f"a file *{' or *'.join(suffixes)} in the directory"
        found = (f for f in path.rglob("*") if _is_named(f.name, suffixes))
    elif any(sign in str(path) for sign in "*?[") and not path.exists():
        wanted = "a file that matches the pattern"
        anchor = Path(path.anchor) if path.anchor else Path()
        pattern = str(path.relative_to(anchor) if path.anchor else path)
        found = anchor.glob(pattern)
    else:
        return [item]
    files = sorted(file for file in found if file.is_file())
    if not files:
        msg = f"{os.fspath(path)}: expected {wanted}, found none"
        raise FileNotFoundError(msg)
    return files


def _is_named(name: str, suffixes: Sequence[str]) -> bool:
    return name.removesuffix(".gz").endswith(tuple(suffixes))


def _exists(name: str) -> bool:
    try:
        return Path(name).exists()
    except (OSError, ValueError):  # too long, or with a null character
        return False


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


class _Stream(io.RawIOBase):
    """Anything with a method `read` that returns bytes, as a file."""

    def __init__(self, head: bytes, read: Callable[[int], bytes]) -> None:
        self._head, self._read = head, read

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._head or self._read(len(buffer))
        self._head = data[len(buffer) :]
        data = data[: len(buffer)]
        buffer[: len(data)] = data
        return len(data)


def place_behind(text: bytes) -> tuple[int, int, int]:
    """Return line, column and offset of what comes after a text."""
    start = text.rfind(b"\n") + 1
    line = text[start:] if start else text.removeprefix(BOM)
    column = len(line.decode(errors="replace")) + 1
    return text.count(b"\n") + 1, column, len(text)


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
