"""Vectors of words: KeLP's word spaces, and the text files of word2vec, GloVe and fastText.

    kelp: key TAB x TAB x TAB v1,v2,...     lines without a TAB are skipped
    text: key v1 v2 ...                     blanks between; a first line "rows columns" may be

In text a key may hold blanks, as some of GloVe's do: the last so many words of a line are its
numbers.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from treekernel_rs.readers._lines import Line, error, lines_of, text_of
from treekernel_rs.readers._reading import Collector, choice

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from numpy.typing import NDArray

    from treekernel_rs.readers._source import Source, Texts

_FORMATS = ("auto", "kelp", "text")


def word_vectors(
    source: Source = None,
    *,
    text: Texts = None,
    format: str = "auto",
    keep: Collection[str] | None = None,
) -> tuple[list[str], NDArray[np.float64]]:
    r"""Read vectors of words.

    Parameters
    ----------
    source : path, open file or iterable of these, optional
        Paths may also be directories (``*.txt``, ``*.vec``) and patterns; files may be
        gzipped. They are read line by line.
    text : str, bytes or iterable of these, optional
        The text itself, in place of `source`.
    format : {"auto", "kelp", "text"}, default "auto"
        KeLP's word spaces, ``key TAB x TAB x TAB v1,v2,...``, or lines ``key v1 v2 ...`` as
        word2vec, GloVe and fastText write them, with or without a first line that says how
        many there are. By default the first two lines tell.
    keep : collection of str, optional
        Only these keys, for files larger than memory; all by default.

    Returns
    -------
    labels : list of str
        The keys. If a key occurs twice, the last vector is used, as in KeLP.
    matrix : ndarray of float64, shape (n_labels, n_numbers)

    Raises
    ------
    ParseError
        With line and column, for fields that are not finite numbers, and lines of unequal
        length.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> text = "cat::n\t0\t0\t1.0,0.0\ndog::n\t0\t0\t0.8,0.6\n"
    >>> vectors = tk.readers.word_vectors(text=text)
    >>> vectors[0], vectors[1].tolist()
    (['cat::n', 'dog::n'], [[1.0, 0.0], [0.8, 0.6]])
    >>> similar = tk.kernels.VectorSimilarity(vectors, classes="kelp")
    >>> similar.matrix(["LEX##cat::n", "LEX##dog::n"])
    array([[1. , 0.8],
           [0.8, 1. ]])
    """
    choice("format", format, *_FORMATS)
    rows: dict[str, NDArray[np.float64]] = {}
    length = None
    for document in Collector(source, text, (".txt", ".vec")).documents():
        for line, key, fields, start in _split(lines_of(document), format):
            if length is None:
                length = len(fields)
            if len(fields) != length:
                expected = f"{length} numbers, as in the first line"
                raise error(line, start, expected, str(len(fields)))
            if keep is None or key in keep:
                rows[key] = _numbers(line, fields, start)
    matrix = np.array(list(rows.values()), np.float64).reshape(len(rows), length or 0)
    return list(rows), matrix


_Split = tuple[Line, str, list[bytes], int]


def _split(lines: Iterator[Line], format: str) -> Iterator[_Split]:
    # Ends of lines only: a key may end in a blank of Unicode's.
    lines = (line._replace(text=line.text.rstrip(b"\r\n")) for line in lines)
    first = list(itertools.islice(lines, 2))
    if format == "auto":
        is_kelp = any(line.text.count(b"\t") == 3 for line in first)
        format = "kelp" if is_kelp else "text"
    return (_kelp if format == "kelp" else _text)(itertools.chain(first, lines))


def _kelp(lines: Iterable[Line]) -> Iterator[_Split]:
    for line in lines:
        parts = line.text.split(b"\t")
        if len(parts) == 1:
            continue
        if len(parts) != 4:
            expected = "four columns: a key, two that are not used, numbers"
            raise error(line, 0, expected, str(len(parts)))
        start = len(line.text) - len(parts[3])
        key = text_of(line, 0, len(parts[0]))
        yield line, key, parts[3].split(b","), start


def _text(lines: Iterable[Line]) -> Iterator[_Split]:
    length = None
    for line in lines:
        words = line.text.split()
        if line.number == 1 and len(words) == 2 and all(w.isdigit() for w in words):
            length = int(words[1])
            continue
        if not words:
            continue
        if length is None:
            length = len(words) - 1
        if not 0 < length < len(words):
            expected = f"a key and {max(length, 1)} numbers"
            raise error(line, 0, expected, f"{len(words)} words")
        fields = words[-length:]
        tail = line.text.rstrip()
        for field in reversed(fields):
            tail = tail[: -len(field)].rstrip()
        start = len(tail) + 1
        yield line, text_of(line, 0, len(tail)), fields, start


def _numbers(line: Line, fields: list[bytes], start: int) -> NDArray[np.float64]:
    try:
        numbers = np.array(fields, np.float64)
        if np.isfinite(numbers).all():
            return numbers
    except ValueError:
        pass
    at = start
    for field in fields:
        at = line.text.index(field, at)
        try:
            if np.isfinite(float(field)):
                at += len(field) + 1
                continue
        except ValueError:
            pass
        got = repr(field.decode(errors="replace"))
        raise error(line, at, "a finite number", got)
    raise error(line, start, "numbers")
