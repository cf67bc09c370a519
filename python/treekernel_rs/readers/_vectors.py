"""Vectors of words: KeLP's word spaces, and the text files of word2vec, GloVe and fastText.

    kelp: key TAB x TAB x TAB v1,v2,...     lines without a TAB are skipped
    text: key v1 v2 ...                     blanks between; a first line "rows columns" may be

In text a key may hold blanks, as some of GloVe's do: the last so many words of a line are its
numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from treekernel_rs.readers._source import BOM, Line, PathLike, error, opened, text_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from numpy.typing import NDArray

_FORMATS = ("auto", "kelp", "text")


def word_vectors(
    path: PathLike,
    format: str = "auto",
    *,
    keep: Collection[str] | None = None,
) -> tuple[list[str], NDArray[np.float64]]:
    r"""Read vectors of words from a plain or gzip file.

    Parameters
    ----------
    path : path
        The file.
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
    >>> import pathlib, tempfile, treekernel_rs as tk
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "space.txt"
    ...     _ = path.write_text("cat::n\t0\t0\t1.0,0.0\ndog::n\t0\t0\t0.8,0.6\n")
    ...     vectors = tk.readers.word_vectors(path)
    >>> vectors[0], vectors[1].tolist()
    (['cat::n', 'dog::n'], [[1.0, 0.0], [0.8, 0.6]])
    >>> similar = tk.kernels.VectorSimilarity(vectors, classes="kelp")
    >>> similar.matrix(["LEX##cat::n", "LEX##dog::n"])
    array([[1. , 0.8],
           [0.8, 1. ]])
    """
    if format not in _FORMATS:
        msg = f"format must be 'auto', 'kelp' or 'text', got {format!r}"
        raise ValueError(msg)
    if format == "auto":
        format = _guess(path)
    rows: dict[str, NDArray[np.float64]] = {}
    length = None
    split = _kelp if format == "kelp" else _text
    for line, key, fields, start in split(path):
        if length is None:
            length = len(fields)
        if len(fields) != length:
            expected = f"{length} numbers, as in the first line"
            raise error(path, line, start, expected, str(len(fields)))
        if keep is None or key in keep:
            rows[key] = _numbers(path, line, fields, start)
    matrix = np.array(list(rows.values()), np.float64).reshape(len(rows), length or 0)
    return list(rows), matrix


def _lines(path: PathLike) -> Iterator[Line]:
    offset = 0
    with opened(path) as file:
        for number, text in enumerate(file, 1):
            here = text.removeprefix(BOM) if number == 1 else text
            # Ends of lines only: a key may end in a blank of Unicode's.
            yield Line(number, offset + len(text) - len(here), here.rstrip(b"\r\n"))
            offset += len(text)


def _guess(path: PathLike) -> str:
    for line in _lines(path):
        if line.text.count(b"\t") == 3:
            return "kelp"
        if line.number == 2:
            break
    return "text"


_Split = tuple[Line, str, list[bytes], int]


def _kelp(path: PathLike) -> Iterator[_Split]:
    for line in _lines(path):
        parts = line.text.split(b"\t")
        if len(parts) == 1:
            continue
        if len(parts) != 4:
            expected = "four columns: a key, two that are not used, numbers"
            raise error(path, line, 0, expected, str(len(parts)))
        start = len(line.text) - len(parts[3])
        key = text_of(path, line, 0, len(parts[0]))
        yield line, key, parts[3].split(b","), start


def _text(path: PathLike) -> Iterator[_Split]:
    length = None
    for line in _lines(path):
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
            raise error(path, line, 0, expected, f"{len(words)} words")
        fields = words[-length:]
        tail = line.text.rstrip()
        for field in reversed(fields):
            tail = tail[: -len(field)].rstrip()
        start = len(tail) + 1
        yield line, text_of(path, line, 0, len(tail)), fields, start


def _numbers(
    path: PathLike, line: Line, fields: list[bytes], start: int
) -> NDArray[np.float64]:
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
        raise error(
            path, line, at, "a finite number", repr(field.decode(errors="replace"))
        )
    raise error(path, line, start, "numbers")
