"""What all readers share: texts with places, errors that are listed, one result."""

from __future__ import annotations

import gzip
import itertools
from array import array
from bisect import bisect_right
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from treekernel_rs._arguments import progress_callback
from treekernel_rs._core import Forest, ParseError
from treekernel_rs.readers._source import BOM, Document, documents, found

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Sequence

    from numpy.typing import NDArray

    from treekernel_rs.nodes import Node
    from treekernel_rs.readers._source import Source, Texts

Progress: TypeAlias = "Callable[[int, int], object] | bool | None"


#: Whether long lists of children become chains.
SHAPES = ("as_is", "chain")


def _utf_8(_: bytes) -> str:
    return "utf-8-sig"


@dataclass(frozen=True, eq=False, repr=False, slots=True, kw_only=True)
class Reading:
    """Trees that a reader found, with their names, places and classes.

    Attributes
    ----------
    forest : Forest
        The trees.
    y : ndarray or None
        The class or value of each tree, where the format has one: SVM-Light-TK, KeLP.
    names : list of str
        What the source calls each tree: the id of a sentence, the qualified name of a
        function; "" where it has no name.
    sources : list of str
        Where each tree comes from: the file, or "item 3" of a list of texts; "" in one
        text.
    spans : ndarray of int64, shape (n_trees, 2)
        First and last line of each tree there, from 1; 0 where lines are not known.
    tokens : ndarray of int64 or None
        Per node, in the order of ``forest.to_arrays()``: the number of the token that
        the node stands for. Trees of dependencies only.
    node_spans : ndarray of int64, shape (n_nodes, 2), or None
        Per node, in the order of ``forest.to_arrays()``: first and last line, from 1. With
        ``node_spans=True`` of `xml`, `html` and `python_ast`.
    metadata : list of dict
        Other data of each tree, such as the comments of a sentence; empty if the
        format has none.
    skipped : list of ParseError
        With ``errors="skip"``, the errors of what was left out.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> texts = ["(a,b)x;", "(a,", "(a,c)y;"]
    >>> reading = tk.readers.newick(text=texts, errors="skip")
    >>> reading
    <Reading: 2 trees, 1 skipped>
    >>> reading.names, [error.tree for error in reading.skipped]
    (['x', 'y'], [1])
    """

    forest: Forest
    # None where the format has none; callers know.
    y: NDArray[Any] | Any = None
    names: list[str]
    sources: list[str]
    spans: NDArray[np.int64]
    tokens: NDArray[np.int64] | Any = None  # callers know which they have
    node_spans: NDArray[np.int64] | Any = None
    metadata: list[dict[str, str]] = field(default_factory=list)
    skipped: list[ParseError] = field(default_factory=list)

    def __len__(self) -> int:
        """Count the trees."""
        return len(self.forest)

    def walk(self, tree: int = 0) -> Iterator[Node]:
        r"""Go through the nodes of a tree, with their lines if these are kept.

        Parameters
        ----------
        tree : int, default 0
            The number of the tree.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> text = "<ul>\n<li>one</li>\n<li>two</li>\n</ul>"
        >>> reading = tk.readers.xml(text=text, text_nodes="keep", node_spans=True)
        >>> [(node.label, node.span) for node in reading.walk()]
        [('ul', (1, 4)), ('li', (2, 2)), ('one', (2, 2)), ('li', (3, 3)), ('two', (3, 3))]
        """
        return self.forest[tree].walk(self.spans_of(tree))

    def spans_of(self, tree: int) -> NDArray[np.int64] | None:
        r"""Return the lines of the nodes of a tree; None if these are not kept.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> reading = tk.readers.xml(text=["<a/>", "\n<b/>"], node_spans=True)
        >>> reading.spans_of(1)
        array([[2, 2]])
        """
        if self.node_spans is None:
            return None
        sizes = self.forest.n_nodes
        tree = range(len(sizes))[tree]
        start = int(sizes[:tree].sum())
        spans: NDArray[np.int64] = self.node_spans[start : start + int(sizes[tree])]
        return spans

    def __repr__(self) -> str:
        """Say how much there is."""
        n, left_out = len(self), len(self.skipped)
        skipped = f", {left_out} skipped" if left_out else ""
        return f"<Reading: {n:,} tree{'s' * (n != 1)}{skipped}>"


class Text:
    """The text of a document, in which characters have places."""

    __slots__ = ("_bytes", "_content", "_starts", "document", "raw")

    def __init__(self, document: Document, raw: str | bytes) -> None:
        self.document = document
        #: What was read, for parsers that find out the encoding themselves.
        self.raw = raw
        self._content: str | None = None
        self._starts: list[int] = []
        self._bytes: list[int] = []

    @property
    def where(self) -> str:
        """What errors call the document."""
        return self.document.where

    @property
    def content(self) -> str:
        """The characters, without a byte-order mark."""
        if self._content is None:
            raw = self.raw
            text = raw if isinstance(raw, str) else raw.decode(errors="replace")
            self._content = text.removeprefix("\ufeff")
        return self._content

    def decode(self, encoding: Callable[[bytes], str]) -> None:
        """Take the bytes for text in an encoding that they may name."""
        if isinstance(self.raw, bytes):
            self._content = self._decoded(self.raw, encoding(self.raw))
        # Bytes of UTF-16 and others can hold half a pair, as a str can.
        self.document.encoded(self.content)

    def _decoded(self, raw: bytes, encoding: str) -> str:
        try:
            return raw.decode(encoding).removeprefix("\ufeff")
        except LookupError:
            raise self.error(0, "a known encoding", repr(encoding)) from None
        except UnicodeError as bad:
            start, got = 0, str(bad)
            if isinstance(bad, UnicodeDecodeError):
                # The codec counts from behind a byte-order mark.
                start = bad.start + (len(raw) - len(bad.object))
                got = f"the byte 0x{raw[start]:02x}"
            before = raw[:start].decode(encoding, errors="replace")
            self._content = before.removeprefix("\ufeff")
            expected = encoding.removesuffix("-sig").upper()
            raise self.error(len(self._content), expected, got) from None

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
        mark = BOM if isinstance(self.raw, bytes) else "\ufeff"
        if self.raw.startswith(mark):  # type: ignore[arg-type]
            offset += len(BOM)
        return self.document.error(line, column, offset, expected, got)


def numbered(content: str) -> Iterator[tuple[int, int, str]]:
    """Yield the lines of a text that are not blank: number, place, line."""
    offset = 0
    for number, line in enumerate(content.split("\n"), 1):
        if line.strip():
            yield number, offset, line
        offset += len(line) + 1


class Collector:
    """Goes through the documents of a source and gathers what becomes of them."""

    def __init__(
        self,
        source: Source,
        text: Texts,
        suffixes: Sequence[str],
        *,
        errors: str = "raise",
        progress: Progress = None,
    ) -> None:
        choice("errors", errors, "raise", "skip")
        self.skips = errors == "skip"
        self._tell = progress_callback(progress, "read", "text")
        self._documents, self._several = documents(source, text, suffixes)
        self.names: list[str] = []
        self.sources: list[str] = []
        self.spans = array("q")
        self.metadata: list[dict[str, str]] = []
        self.skipped: list[ParseError] = []

    def documents(self) -> Iterator[Document]:
        """Yield what there is to read."""
        items, total = self._documents, 0
        if self._tell is not None:
            # Otherwise a generator of texts is asked for one at a time.
            known = list(items)
            items, total = iter(known), len(known)
        for document in items:
            yield document
            if self._tell is not None:
                self._tell(document.item + 1, total)

    def texts(
        self, *, raw: bool = False, encoding: Callable[[bytes], str] = _utf_8
    ) -> Iterator[Text]:
        """Yield the texts; what is wrong with one is said of that one.

        With `raw`, bytes need not be of the encoding.
        """
        for document in self.documents():
            with self.listed(document):
                text = Text(document, document.read())
                if not raw or isinstance(text.raw, str):
                    text.decode(encoding)
                yield text

    @contextmanager
    def listed(self, document: Document) -> Iterator[None]:
        """Raise or list what goes wrong while a document is read."""
        try:
            yield
        except ParseError as error:
            self.wrong(error)
        except TypeError:
            # A value that a column does not have.
            if not self.skips or not self._several:
                raise
            expected = "a text, a path or an open file"
            self.wrong(document.error(1, 1, 0, expected, document.kind))
        except gzip.BadGzipFile as damaged:
            if not self.skips:
                raise
            self.wrong(document.error(1, 1, 0, "whole gzip data", str(damaged)))

    def wrong(self, error: ParseError) -> None:
        """Raise an error, or list it."""
        if not self.skips:
            raise error
        self.skipped.append(error)

    def add(
        self,
        place: Text | Document,
        name: str = "",
        span: tuple[int, int] | None = None,
    ) -> None:
        """Keep what is known of a tree that the forest will have."""
        if span is None:
            n_lines = place.content.count("\n") + 1 if isinstance(place, Text) else 0
            span = (min(1, n_lines), n_lines)
        self.names.append(name)
        self.sources.append(place.where)
        self.spans.extend(span)

    def add_all(self, place: Text, spans: NDArray[np.int64]) -> None:
        """Keep the lines of trees that have no names."""
        self.names += [""] * len(spans)
        self.sources += [place.where] * len(spans)
        self.spans.extend(spans.ravel().tolist())

    def kept(self) -> dict[str, Any]:
        """Return the fields of a `Reading` that do not depend on the format."""
        return {
            "names": self.names,
            "sources": self.sources,
            "spans": np.array(self.spans, dtype=np.int64).reshape(-1, 2),
            "metadata": self.metadata,
            "skipped": self.skipped,
        }

    def reading(
        self,
        forest: Forest,
        tokens: NDArray[np.int64] | None = None,
        node_spans: NDArray[np.int64] | None = None,
        *,
        shape: str = "as_is",
        lists: Container[str] | Callable[[str], object] | None = None,
    ) -> Reading:
        """Return all of it; with the shape "chain", lists with these labels as chains."""
        kept = self.kept()
        if shape == "chain":
            if node_spans is not None:
                node_spans = spans_of_chains(forest, node_spans, lists)
            forest = forest.binarize(lists)
        return Reading(forest=forest, tokens=tokens, node_spans=node_spans, **kept)


def spans_of_chains(
    forest: Forest,
    spans: NDArray[np.int64],
    lists: Container[str] | Callable[[str], object] | None,
) -> NDArray[np.int64]:
    """Return the lines of the nodes of chains: those of what is left of a list."""
    arrays = forest.to_arrays()
    labels, parents = arrays["labels"], arrays["parents"]
    is_list = np.ones(len(forest.labels), dtype=bool)
    if lists is not None:
        accepts = lists if callable(lists) else lists.__contains__
        is_list[:] = [bool(accepts(label)) for label in forest.labels]
    # In preorder, a chain has a node more before each child but the first, which follows
    # its parent.
    at = np.flatnonzero(parents != np.arange(len(parents)) - 1)
    at = at[parents[at] >= 0]
    at = at[is_list[labels[parents[at]]]]
    new = np.stack([spans[at, 0], spans[parents[at], 1]], axis=1)
    return np.insert(spans, at, new, axis=0)


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
