"""KeLP's examples: labels, then named representations, or a pair of examples.

    example := labels (representation+ | pair)
    pair    := '|<|' example '|,|' example '|>|' representation*
    representation := '|B' TYPE (':' NAME)? '|' body '|E' TYPE '|'

Pairs nest, so an example is read with a stack. What the examples hold is collected by
columns, one per kind and name; for the members of pairs there is a table of columns of
their own, with a row for every line.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from treekernel_rs._core import ParseError
from treekernel_rs.readers._lines import (
    NUMBER,
    Columns,
    Line,
    Trees,
    TreeStore,
    error,
    lines,
    null_trees,
    text_of,
)
from treekernel_rs.readers._reading import Collector, Reading
from treekernel_rs.readers._source import found
from treekernel_rs.readers._sparse import Rows, SparseRows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from treekernel_rs._core import Forest
    from treekernel_rs.readers._reading import Progress
    from treekernel_rs.readers._source import Source, Texts

_NUMBER = re.compile(NUMBER)
_WORD = re.compile(rb"\S++")
_BLANKS = re.compile(rb"\s*+")
_BEGIN = re.compile(rb"\|B([A-Z]+)(?::([^|\s]+))?\|")
_DENSE = re.compile(rb"[^\s,;]++")
_ELEMENT = re.compile(rb"\s*+\(([^()]*+)\)")
# A word that has no bracket of its own, not being the label after a bracket.
_BARE = re.compile(rb"\(\s*+[^\s()]++|([^\s()]++)")
_MAY_HAVE_BARE = re.compile(rb"[^\s(]\s++[^\s()]|\)\s*+[^\s()]")

_TYPES = ("V", "DV", "S", "T", "SQ", "G")

# How deep pairs may nest. Results nest as deep, and Python recurses when it copies or
# pickles them; KeLP's own data has pairs of pairs at most.
_MAX_NESTING = 64


@dataclass(frozen=True, eq=False, repr=False, slots=True, kw_only=True)
class KlpReading(Reading):
    r"""What KeLP's examples hold, by kind and by name: a `Reading` with all of it.

    Every attribute has an entry for each example, whether it has that representation or
    not.

    Attributes
    ----------
    forest : Forest
        The trees that the file names first; of pairs, they are in `left` and `right`.
    y : ndarray of str, shape (n_examples,)
        The first class of each example; "" where there is none.
    classes : list of tuple of str
        All classes of each example.
    values : dict of str to ndarray of float64
        Numeric labels ``property:value``, by property; NaN where an example lacks it.
    forests : dict of str to Forest
        Trees, by name. Where an example has none, or an empty one: the null tree, a leaf
        with an empty label.
    empty : dict of str to ndarray of bool
        Which trees are null trees.
    vectors : dict of str to SparseRows
        Sparse vectors, by name; an empty row where there is none.
    features : dict of str to list of str
        The feature of each column of the vectors of that name.
    dense : dict of str to ndarray of float64, shape (n_examples, n_values)
        Dense vectors, by name; a row of NaN where there is none.
    strings, graphs : dict of str to list of str or None
        Strings, and graphs as the text they are written in, by name.
    sequences : dict of str to list of tuple of str or None
        Sequences of elements, by name.
    left, right : KlpReading or None
        The members of pairs, with as many examples as there are pairs; None if the file
        has no pairs.
    names, sources, spans, tokens, node_spans, metadata, skipped
        As in `Reading`.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> text = "HUM |BT:t| (S (A a)) |ET|\nLOC |BT:t| (S b) |ET|\n"
    >>> data = tk.readers.klp(text=text)
    >>> data.y.tolist(), data.forests["t"].to_brackets()
    (['HUM', 'LOC'], ['(S (A a))', '(S b)'])
    """

    classes: list[tuple[str, ...]]
    values: dict[str, NDArray[np.float64]]
    forests: dict[str, Forest]
    empty: dict[str, NDArray[np.bool_]]
    vectors: dict[str, SparseRows]
    features: dict[str, list[str]]
    dense: dict[str, NDArray[np.float64]]
    strings: dict[str, list[str | None]]
    graphs: dict[str, list[str | None]]
    sequences: dict[str, list[tuple[str, ...] | None]]
    # None where the examples are not pairs; callers know.
    left: KlpReading | Any
    right: KlpReading | Any

    def __repr__(self) -> str:
        """Say how much there is of what."""
        n = len(self)
        parts = [f"{n:,} {'pair' if self.left else 'example'}{'s' * (n != 1)}"]
        kinds = ("forests", "vectors", "dense", "strings", "graphs", "sequences")
        for kind in kinds:
            names = getattr(self, kind)
            if names:
                parts.append(f"{kind} {', '.join(map(repr, names))}")
        if self.skipped:
            parts.append(f"{len(self.skipped)} skipped")
        return f"<KlpReading: {'; '.join(parts)}>"


def klp(
    source: Source = None,
    *,
    text: Texts = None,
    features: Mapping[str, Iterable[str]] | None = None,
    errors: str = "raise",
    progress: Progress = None,
) -> KlpReading:
    r"""Read the examples of KeLP.

    Parameters
    ----------
    source : path, open file or iterable of these, optional
        Paths may also be directories (``*.klp``) and patterns; files may be
        gzipped. They are read line by line, and their text is not held.
    text : str, bytes or iterable of these, optional
        The text itself, in place of `source`.
    features : mapping of str to iterable of str, optional
        Columns of the vectors of a name: those of the training set, when a test set is
        read. Other features are left out. By default features get columns in the order
        in which they come, and members of pairs share them.
    errors : {"raise", "skip"}, default "raise"
        "skip" leaves out the lines that are wrong, and lists why. Dense
        vectors of two lengths under one name, and too many missing representations (see
        Notes), are an error in any case.
    progress : callable or True, optional
        Called as progress(done, total), in texts; True shows a bar.

    Returns
    -------
    KlpReading
        `y` are the first classes, `forest` the trees that are named first, `forests` and
        others all representations by name.

    Raises
    ------
    ParseError
        With file, line, column, offset, what was expected and what was got.
    OSError
        If a file cannot be read.

    Notes
    -----
    As KeLP has it: a representation without a name is named by its number in the
    example, from 0; a label with a colon is a number, of the property before the last
    colon; of a feature that a vector names twice, the last value counts; a word without
    a bracket of its own is a leaf, and the last child. The format has no escapes. Labels
    of nodes and elements of sequences stay as they are written: ``dog::n`` is not taken
    for ``LEX##dog::n``. Graphs are kept as text. Pairs nest up to 64 deep.

    An example gets the null tree, an empty row or NaN for what it does not have and
    others do. More than 64 of these for each example, and more than 4,194,304, are an
    error.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> text = (
    ...     "HUM |BT:loct| (LEX##be::v(LEX##who::w)) |ET| |BV:bow| who:1 be:0.5 |EV|\n"
    ...     "LOC |BT:loct| (LEX##be::v(LEX##where::w)) |ET| |BV:bow| be:0.5 |EV|\n"
    ... )
    >>> data = tk.readers.klp(text=text)
    >>> data
    <KlpReading: 2 examples; forests 'loct'; vectors 'bow'>
    >>> data.y.tolist(), data.features["bow"]
    (['HUM', 'LOC'], ['who', 'be'])
    >>> data.forests["loct"].to_brackets()[0]
    '(LEX##be::v LEX##who::w)'
    >>> data.vectors["bow"].toarray()
    array([[1. , 0.5],
           [0. , 0.5]])
    """
    collector = Collector(source, text, (".klp",), errors=errors, progress=progress)
    reader = _Reader(features)
    top = _Table(reader)
    try:
        for line in lines(collector):
            reader.store.check(line)
            if collector.skips and (wrong := _error_in(line)):
                collector.wrong(wrong)
                continue
            reader.example(line, top, reader.n_examples)
            collector.add(line.document, "", (line.number, line.number))
        reader.store.flush()
    except ParseError as raised:
        raise (reader.store.first(raised) or raised) from None
    return top.done(collector)


def _error_in(line: Line) -> ParseError | None:
    """Return what is wrong with a line: it is read by itself, and taken or not."""
    alone = _Reader(None)
    try:
        alone.example(line, _Table(alone), 0)
    except ParseError as raised:
        return alone.store.first(raised)
    return alone.store.first(None)


class _Features:
    """The columns of the vectors of one name."""

    def __init__(self, known: Iterable[str] | None) -> None:
        self.grows = known is None
        self.column: dict[str, int] = {}
        for name in known or ():
            if name in self.column:
                msg = f"duplicate feature {name!r}"
                raise ValueError(msg)
            self.column[name] = len(self.column)

    def of(self, name: str) -> int | None:
        column = self.column.get(name)
        if column is None and self.grows:
            column = self.column[name] = len(self.column)
        return column


class _Texts:
    """Strings, graphs or sequences: None where an example has none."""

    def __init__(self) -> None:
        self.items: list[str | tuple[str, ...] | None] = []

    def pad(self, n_items: int) -> None:
        self.items += [None] * (n_items - len(self.items))


class _Dense:
    """Dense vectors of one length; None where an example has none."""

    def __init__(self) -> None:
        self.rows: list[NDArray[np.float64] | None] = []
        self.width: int | None = None

    def pad(self, n_rows: int) -> None:
        self.rows += [None] * (n_rows - len(self.rows))

    def done(self) -> NDArray[np.float64]:
        missing = np.full(self.width or 0, np.nan)
        return np.array([missing if row is None else row for row in self.rows])


class _Table:
    """What is known of the examples at one place: of the lines, or of members of pairs.

    Columns are as long as the last line that has something for them; `done` fills up.
    """

    def __init__(self, reader: _Reader) -> None:
        self.reader = reader
        self.known: set[tuple[str, str]] = set()  # columns, by kind and name
        self.classes: list[tuple[str, ...]] = []
        self.values: dict[str, list[float]] = {}
        self.trees: dict[str, Trees] = {}
        self.rows: dict[str, Rows] = {}
        self.dense: dict[str, _Dense] = {}
        self.texts: dict[tuple[str, str], _Texts] = {}
        self.members: tuple[_Table, _Table] | None = None

    def done(self, collector: Collector) -> KlpReading:
        n = self.reader.n_examples
        # Depth is bounded by _MAX_NESTING.
        members = [table.done(collector) for table in self.members or ()]
        self.classes += [()] * (n - len(self.classes))
        for trees in self.trees.values():
            trees.pad(n)
        self.reader.store.flush()
        columns: list[Rows | _Dense | _Texts] = [*self.rows.values()]
        columns += [*self.dense.values(), *self.texts.values()]
        for each in columns:
            each.pad(n)
        texts: dict[str, dict[str, list[str | tuple[str, ...] | None]]]
        texts = {"S": {}, "G": {}, "SQ": {}}
        for (kind, name), column in self.texts.items():
            texts[kind][name] = column.items
        vocabulary = {name: self.reader.features[name].column for name in self.rows}
        forests = {name: trees.forest() for name, trees in self.trees.items()}
        return KlpReading(
            forest=next(iter(forests.values())) if forests else null_trees(n),
            y=np.array([c[0] if c else "" for c in self.classes], dtype=np.str_),
            classes=self.classes,
            values={
                name: np.array(values + [math.nan] * (n - len(values)))
                for name, values in self.values.items()
            },
            forests=forests,
            empty={name: trees.null for name, trees in self.trees.items()},
            vectors={n: r.done(len(vocabulary[n])) for n, r in self.rows.items()},
            features={name: list(column) for name, column in vocabulary.items()},
            dense={name: column.done() for name, column in self.dense.items()},
            strings=texts["S"],  # type: ignore[arg-type]
            graphs=texts["G"],  # type: ignore[arg-type]
            sequences=texts["SQ"],  # type: ignore[arg-type]
            left=members[0] if members else None,
            right=members[1] if members else None,
            **collector.kept(),
        )


class _Reader:
    def __init__(self, features: Mapping[str, Iterable[str]] | None) -> None:
        self.store = TreeStore()
        self.n_examples = 0
        self.columns = Columns()
        self.features = {
            name: _Features(known) for name, known in (features or {}).items()
        }

    def example(self, line: Line, top: _Table, n_before: int) -> None:
        """Read one line."""
        self.n_examples = n_before
        self.columns.check(line, n_before + 1)
        text = line.text
        table = top
        at = self.labels(line, 0, table)
        # Pairs that are open, with their second member while the first is being read.
        pairs: list[tuple[_Table, _Table | None]] = []
        while True:
            # Behind the labels of an example.
            if text.startswith(b"|<|", at):
                if len(pairs) == _MAX_NESTING:
                    expected = f"at most {_MAX_NESTING} pairs within one another"
                    raise error(line, at, expected)
                if table.members is None:
                    self.columns.add(line, n_before, 2)
                    table.members = _Table(self), _Table(self)
                left, right = table.members
                self.columns.filled += 2
                pairs.append((table, right))
                table = left
                at = self.labels(line, at + 3, table)
                continue
            at = self.representations(line, at, table, at_least=1)
            # Behind a complete example: close the pairs that end here.
            while pairs:
                pair, second = pairs.pop()
                marker, member = (b"|,|", "first") if second else (b"|>|", "second")
                if not text.startswith(marker, at):
                    expected = (
                        f"'{marker.decode()}' after the {member} member of the pair, or "
                        "a representation as in '|BT|'"
                    )
                    raise error(line, at, expected)
                if second:
                    pairs.append((pair, None))
                    table = second
                    at = self.labels(line, at + 3, table)
                    break
                table = pair
                at = self.representations(line, at + 3, table, at_least=0)
            else:
                if at < len(text):
                    expected = "a representation as in '|BT|', or the end of the line"
                    raise error(line, at, expected)
                self.n_examples = n_before + 1
                return

    def labels(self, line: Line, start: int, table: _Table) -> int:
        """Read the labels from byte `start` on; return where they end."""
        end = line.text.find(b"|", start)
        if end < 0:
            last = len(line.text.rstrip())
            raise error(line, last, "a representation as in '|BT|'")
        n = self.n_examples
        table.classes += [()] * (n - len(table.classes))
        classes: list[str] = []
        for word in _WORD.finditer(line.text, start, end):
            name, colon, value = word.group().rpartition(b":")
            if not colon:
                classes.append(text_of(line, *word.span()))
                continue
            at = word.start() + len(name) + 1
            number = float(value) if _NUMBER.fullmatch(value) else math.nan
            if not math.isfinite(number):
                expected = "a number, as the label has a colon"
                raise error(line, at, expected, found(value))
            property_ = text_of(line, word.start(), at - 1)
            if property_ not in table.values:
                self.columns.add(line, n)
            values = table.values.setdefault(property_, [])
            if len(values) > n:
                expected = f"one value of {property_!r}"
                raise error(line, word.start(), expected)
            values += [math.nan] * (n - len(values))
            values.append(number)
            self.columns.filled += 1
        table.classes.append(tuple(classes))
        return end

    def representations(
        self, line: Line, at: int, table: _Table, *, at_least: int
    ) -> int:
        """Read representations from byte `at` on; return where there is none."""
        text = line.text
        names: set[str] = set()
        while True:
            at = _end_of_blanks(text, at)
            begin = _BEGIN.match(text, at)
            if begin is None:
                if len(names) < at_least or text.startswith(b"|B", at):
                    expected = "a representation as in '|BT|' or '|BT:name|'"
                    raise error(line, at, expected)
                return at
            kind = begin.group(1).decode()
            if kind not in _TYPES:
                expected = "a representation of type " + ", ".join(_TYPES)
                raise error(line, at, expected)
            name = str(len(names))
            if begin.group(2) is not None:
                name = text_of(line, *begin.span(2))
            if name in names:
                expected = f"another name than {name!r}, which the example already has"
                raise error(line, at, expected)
            names.add(name)
            start = begin.end()
            end = text.find(b"|E", start)
            closing = b"|E" + begin.group(1) + b"|"
            if end < 0 or not text.startswith(closing, end):
                where = end if end >= 0 else len(text.rstrip())
                raise error(line, where, f"'{closing.decode()}'")
            self.body(line, start, end, table, kind, name)
            at = end + len(closing)

    def body(
        self, line: Line, start: int, end: int, table: _Table, kind: str, name: str
    ) -> None:
        n = self.n_examples
        row = self.dense(line, start, end) if kind == "DV" else None
        width = 1 if row is None else len(row)
        if (kind, name) not in table.known:
            table.known.add((kind, name))
            self.columns.add(line, n, width)
        self.columns.filled += width
        if kind == "T":
            trees = table.trees.get(name)
            if trees is None:
                trees = table.trees[name] = self.store.new(n)
            self.check_bare_words(line, start, end)
            trees.pad(n)
            trees.add(line, start, end)
        elif kind == "V":
            rows = table.rows.setdefault(name, Rows())
            rows.pad(n)
            rows.add(*self.vector(line, start, end, name))
        elif row is not None:
            dense = table.dense.setdefault(name, _Dense())
            if dense.width not in (None, len(row)):
                expected = f"{dense.width} numbers, as in the vectors {name!r} before"
                raise error(line, start, expected, str(len(row)))
            dense.width = len(row)
            dense.pad(n)
            dense.rows.append(row)
        else:
            item: str | tuple[str, ...]
            if kind == "SQ":
                item = self.sequence(line, start, end)
            else:
                item = text_of(line, start, end).strip()
            column = table.texts.setdefault((kind, name), _Texts())
            column.pad(n)
            column.items.append(item)

    def check_bare_words(self, line: Line, start: int, end: int) -> None:
        """Refuse words without brackets where KeLP would hang them elsewhere.

        It puts an opening bracket before such a word and a closing one after it at the
        next closing bracket: what follows the word would become its child.
        """
        text = line.text[:end]
        if _MAY_HAVE_BARE.search(text, start) is None:
            return
        for word in _BARE.finditer(text, start):
            if word.group(1) is None:
                continue
            after = _end_of_blanks(text, word.end())
            if text[after : after + 1] not in (b")", b""):
                expected = "')' after a word without a bracket of its own"
                raise error(line, after, expected)

    def vector(
        self, line: Line, start: int, end: int, name: str
    ) -> tuple[list[int], list[float]]:
        features = self.features.get(name)
        if features is None:
            features = self.features[name] = _Features(None)
        entries: dict[int, float] = {}
        for word in _WORD.finditer(line.text, start, end):
            feature, _, value = word.group().rpartition(b":")
            if not feature or not _NUMBER.fullmatch(value):
                raise error(line, word.start(), "a feature as in word:0.5")
            number = float(value)
            if not math.isfinite(number):
                at = word.end() - len(value)
                raise error(line, at, "a number below 1.8e308")
            stop = word.start() + len(feature)
            column = features.of(text_of(line, word.start(), stop))
            if column is not None:
                entries[column] = number
        columns = sorted(entries)
        return columns, [entries[column] for column in columns]

    def dense(self, line: Line, start: int, end: int) -> NDArray[np.float64]:
        numbers: list[float] = []
        for word in _DENSE.finditer(line.text, start, end):
            fine = _NUMBER.fullmatch(word.group()) is not None
            number = float(word.group()) if fine else math.nan
            if not math.isfinite(number):
                raise error(line, word.start(), "a number")
            numbers.append(number)
        return np.array(numbers, dtype=np.float64)

    def sequence(self, line: Line, start: int, end: int) -> tuple[str, ...]:
        text = line.text[:end]
        elements: list[str] = []
        at = start
        while True:
            element = _ELEMENT.match(text, at)
            if element is None:
                break
            elements.append(text_of(line, *element.span(1)).strip())
            at = element.end()
        at = _end_of_blanks(text, at)
        if at < end:
            raise error(line, at, "an element as in (word)")
        return tuple(elements)


def _end_of_blanks(text: bytes, at: int) -> int:
    match = _BLANKS.match(text, at)
    return at if match is None else match.end()
