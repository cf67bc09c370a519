"""SVM-Light-TK's examples: a label, trees, vectors.

    line    := label ('|BT|' tree?)+ '|ET|' vectors?      or     label vectors?
    vectors := vector ('|BV|' vector)* '|EV|'?
    vector  := (index ':' number)*                        indices from 1, increasing

A line is cut at its markers by searching bytes; all that is left to look at one by one
are the vectors. Trees go to the parser by the megabyte.
"""

from __future__ import annotations

import math
import re
from array import array
from dataclasses import dataclass
from operator import ge, index
from typing import TYPE_CHECKING

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
)
from treekernel_rs.readers._reading import Collector, Reading
from treekernel_rs.readers._sparse import Rows, SparseRows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from treekernel_rs._core import Forest
    from treekernel_rs.readers._reading import Progress
    from treekernel_rs.readers._source import Source, Texts

_LABEL = re.compile(NUMBER + rb"(?=\s|\Z)")
_PAIR = re.compile(rb"(\d++):(" + NUMBER + rb")(?=\s|\Z)")
_PAIRS = re.compile(rb"\s*+(?:\d++:" + NUMBER + rb"(?:\s++|\Z))*+")
_BLANKS = re.compile(rb"\s*+")
_FIRST_TREE = re.compile(rb"\s*+\|BT\|")

_LARGEST = 2**63 - 1


@dataclass(frozen=True, eq=False, repr=False, slots=True, kw_only=True)
class SvmLightReading(Reading):
    r"""What SVM-Light-TK's examples hold: a `Reading` with all trees and vectors.

    Attributes
    ----------
    forest : Forest
        The first tree of every example.
    y : ndarray of float64, shape (n_examples,)
        The numbers at the beginning of the lines: a class (+1, -1; 0 for unlabelled) or
        a value to predict.
    forests : list of Forest
        ``forests[j]`` holds the tree at position ``j`` of every example. An empty tree,
        and one that an example does not have, is the null tree: a leaf with an empty
        label.
    empty : list of ndarray of bool
        ``empty[j][i]``: whether the tree of example ``i`` in ``forests[j]`` is the null
        tree.
    vectors : list of SparseRows
        ``vectors[j]`` holds the vector at position ``j`` of every example; an example
        without one has an empty row. Feature ``k`` of the file is column ``k - 1``.
    n_trees, n_vectors : ndarray of int64, shape (n_examples,)
        How many trees and vectors each example has, empty ones included.
    names, sources, spans, tokens, node_spans, metadata, skipped
        As in `Reading`.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> text = "+1 |BT| (S (A a)) |ET|\n-1 |BT| (S b) |ET|\n"
    >>> data = tk.readers.svmlight_tk(text=text)
    >>> data.y, data.forest.to_brackets()
    (array([ 1., -1.]), ['(S (A a))', '(S b)'])
    """

    forests: list[Forest]
    empty: list[NDArray[np.bool_]]
    vectors: list[SparseRows]
    n_trees: NDArray[np.int64]
    n_vectors: NDArray[np.int64]

    def __repr__(self) -> str:
        """Say how much there is of what."""
        n, left_out = len(self), len(self.skipped)
        skipped = f", {left_out} skipped" if left_out else ""
        return (
            f"<SvmLightReading: {n:,} example{'s' * (n != 1)}, trees per example "
            f"{len(self.forests)}, vectors per example {len(self.vectors)}{skipped}>"
        )


def svmlight_tk(
    source: Source = None,
    *,
    text: Texts = None,
    n_features: int | None = None,
    errors: str = "raise",
    progress: Progress = None,
) -> SvmLightReading:
    r"""Read the examples of SVM-Light-TK.

    Parameters
    ----------
    source : path, open file or iterable of these, optional
        Paths may also be directories (``*.dat``) and patterns; files may be
        gzipped. They are read line by line, and their text is not held.
    text : str, bytes or iterable of these, optional
        The text itself, in place of `source`.
    n_features : int, optional
        The number of columns of all vectors: that of the training set, when a test set
        is read. By default the largest index that is read, over all positions.
    errors : {"raise", "skip"}, default "raise"
        "skip" leaves out the lines that are wrong, and lists why. Too
        many missing trees and vectors (see Notes) are an error in any case.
    progress : callable or True, optional
        Called as progress(done, total), in texts; True shows a bar.

    Returns
    -------
    SvmLightReading
        `y` are the numbers of the lines, `forest` the first trees, `forests` and
        `vectors` all of them by position.

    Raises
    ------
    ParseError
        With file, line, column, offset, what was expected and what was got. A feature
        above `n_features` is one.
    OSError
        If a file cannot be read.

    Notes
    -----
    The format has no escapes: a backslash is an ordinary character, and a bracket cannot
    stand in a label. A number that a float cannot hold is an error. After ``|ET|``,
    ``|BV| 1:1`` is an empty vector and then a second one, as the C program reads it.
    Comments and ``qid:`` are not part of the format.

    An example gets the null tree or an empty row for what it does not have and others
    do. More than 64 of these for each example, and more than 4,194,304, are an error.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> text = (
    ...     "+1 |BT| (S (NP x)) |BT| (PAS (A0 y)) |ET| 1:0.5 7:1 |BV| 2:0.25 |EV|\n"
    ...     "-1 |BT| (S (VP z)) |BT| |ET| 3:2\n"
    ... )
    >>> data = tk.readers.svmlight_tk(text=text)
    >>> data
    <SvmLightReading: 2 examples, trees per example 2, vectors per example 2>
    >>> data.y
    array([ 1., -1.])
    >>> data.forests[1].to_brackets(), data.empty[1]
    (['(PAS (A0 y))', '(\\e)'], array([False,  True]))
    >>> data.vectors[0].toarray()
    array([[0.5, 0. , 0. , 0. , 0. , 0. , 1. ],
           [0. , 0. , 2. , 0. , 0. , 0. , 0. ]])
    """
    if n_features is not None and index(n_features) < 0:
        msg = f"n_features must be None or at least 0, got {n_features}"
        raise ValueError(msg)
    limit = _LARGEST if n_features is None else n_features
    collector = Collector(source, text, (".dat",), errors=errors, progress=progress)
    reader = _Reader(limit)
    try:
        for line in lines(collector):
            reader.store.check(line)
            if collector.skips and (wrong := _error_in(line, limit)):
                collector.wrong(wrong)
                continue
            reader.example(line)
            collector.add(line.document, "", (line.number, line.number))
        reader.store.flush()
    except ParseError as raised:
        raise (reader.store.first(raised) or raised) from None
    return reader.done(n_features, collector)


def _error_in(line: Line, limit: int) -> ParseError | None:
    """Return what is wrong with a line: it is read by itself, and taken or not."""
    alone = _Reader(limit)
    try:
        alone.example(line)
    except ParseError as raised:
        return alone.store.first(raised)
    return alone.store.first(None)


class _Reader:
    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.store = TreeStore()
        self.labels = array("d")
        self.n_trees, self.n_vectors = array("q"), array("q")
        self.trees: list[Trees] = []
        self.rows: list[Rows] = []
        self.columns = Columns()

    def example(self, line: Line) -> None:
        text = line.text
        start = len(text) - len(text.lstrip())
        label = _LABEL.match(text, start)
        if label is None:
            raise error(line, start, "a label, which is a number")
        if not math.isfinite(float(label.group())):
            raise error(line, start, "a label below 1.8e308")
        self.columns.check(line, len(self.labels) + 1)
        at, n_trees = label.end(), 0
        if b"|BT|" in text:
            at, n_trees = self.forest(line, at)
        self.n_vectors.append(self.vectors(line, at))
        self.n_trees.append(n_trees)
        self.columns.filled += n_trees + self.n_vectors[-1]
        self.labels.append(float(label.group()))

    def forest(self, line: Line, at: int) -> tuple[int, int]:
        """Read the trees from byte `at` on; return where they end, and their number."""
        text = line.text
        first = _FIRST_TREE.match(text, at)
        if first is None:
            at = _end_of_blanks(text, at)
            raise error(line, at, "'|BT|', as there are trees in this line")
        start = first.end()
        end = text.find(b"|ET|", start)
        if end < 0:
            last = len(text.rstrip())
            raise error(line, last, "'|ET|' after the last tree")
        position = 0
        while True:
            stop = text.find(b"|BT|", start, end)
            if position == len(self.trees):
                self.columns.add(line, len(self.labels))
                self.trees.append(self.store.new(len(self.labels)))
            trees = self.trees[position]
            trees.pad(len(self.labels))
            trees.add(line, start, end if stop < 0 else stop)
            position += 1
            if stop < 0:
                return end + 4, position
            start = stop + 4

    def vectors(self, line: Line, at: int) -> int:
        """Read the vectors from byte `at` on; return their number."""
        text = line.text
        at = _end_of_blanks(text, at)
        if at == len(text):
            return 0
        end = text.find(b"|EV|", at)
        if end < 0:
            end = len(text)
        else:
            rest = _end_of_blanks(text, end + 4)
            if rest < len(text):
                raise error(line, rest, "the end of the line after '|EV|'")
        position = 0
        while True:
            stop = text.find(b"|BV|", at, end)
            if position == len(self.rows):
                self.columns.add(line, len(self.labels))
                self.rows.append(Rows())
            rows = self.rows[position]
            rows.pad(len(self.labels))
            rows.add(*self.vector(line, at, end if stop < 0 else stop))
            position += 1
            if stop < 0:
                return position
            at = stop + 4

    def vector(self, line: Line, start: int, end: int) -> tuple[list[int], list[float]]:
        text = line.text[start:end]
        match = _PAIRS.match(text)
        if match is not None and match.end() == len(text):
            flat = text.replace(b":", b" ").split()
            try:
                indices = [int(digits) - 1 for digits in flat[::2]]
                values = [float(value) for value in flat[1::2]]
            except ValueError:  # more digits than Python converts
                return self.one_by_one(line, start, end)
            fine = (
                not any(map(ge, indices, indices[1:]))
                and (not indices or (indices[0] >= 0 and indices[-1] < self.limit))
                and np.inf not in values
                and -np.inf not in values
            )
            if fine:
                return indices, values
        return self.one_by_one(line, start, end)

    def one_by_one(
        self, line: Line, start: int, end: int
    ) -> tuple[list[int], list[float]]:
        """Read a vector that is wrong somewhere, for the place and the reason."""
        text = line.text[:end]
        at = _end_of_blanks(text, start)
        indices: list[int] = []
        values: list[float] = []
        while at < end:
            pair = _PAIR.match(text, at)
            if pair is None:
                raise error(line, at, "a feature as in 7:0.5")
            digits = pair.group(1).lstrip(b"0") or b"0"
            if digits == b"0":
                raise error(line, at, "a feature index from 1 on")
            # Compared as text: a million digits are not made a number.
            limit = str(self.limit).encode()
            if (len(digits), digits) > (len(limit), limit):
                expected = f"a feature index of at most {self.limit}"
                raise error(line, at, expected)
            column = int(digits) - 1
            if indices and column <= indices[-1]:
                expected = f"a feature index above {indices[-1] + 1}, the one before"
                raise error(line, at, expected)
            value = float(pair.group(2))
            if not np.isfinite(value):
                raise error(line, pair.start(2), "a number below 1.8e308")
            indices.append(column)
            values.append(value)
            at = _end_of_blanks(text, pair.end())
        return indices, values

    def done(self, n_features: int | None, collector: Collector) -> SvmLightReading:
        n = len(self.labels)
        for trees in self.trees:
            trees.pad(n)
        self.store.flush()
        for rows in self.rows:
            rows.pad(n)
        width = n_features
        if width is None:
            # One width for all positions: which of them holds the largest index is
            # chance, and vectors are often added up.
            width = max((rows.width for rows in self.rows), default=0)
        forests = [trees.forest() for trees in self.trees]
        return SvmLightReading(
            forest=forests[0] if forests else null_trees(n),
            y=np.array(self.labels, dtype=np.float64),
            forests=forests,
            empty=[trees.null for trees in self.trees],
            vectors=[rows.done(width) for rows in self.rows],
            n_trees=np.array(self.n_trees, dtype=np.int64),
            n_vectors=np.array(self.n_vectors, dtype=np.int64),
            **collector.kept(),
        )


def _end_of_blanks(text: bytes, at: int) -> int:
    match = _BLANKS.match(text, at)
    return at if match is None else match.end()
