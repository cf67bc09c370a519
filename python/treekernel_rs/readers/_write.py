"""Examples as SVM-Light-TK reads them: the inverse of `svmlight_tk`."""

from __future__ import annotations

import gzip
import os
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np

from treekernel_rs._core import Forest
from treekernel_rs.readers._lines import NULL_TREE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import ArrayLike, NDArray

    from treekernel_rs.readers._source import PathLike

_NULL = NULL_TREE.decode()
_MARKERS = ("|BT|", "|ET|")
_BLANKS_AND_BRACKETS = frozenset(" \t\n\v\f\r()")


class _Csr(Protocol):
    """Rows as `SparseRows` and scipy's CSR matrices have them."""

    @property
    def indptr(self) -> NDArray[np.integer]: ...
    @property
    def indices(self) -> NDArray[np.integer]: ...
    @property
    def data(self) -> NDArray[np.floating]: ...


def write_svmlight_tk(
    path: PathLike,
    labels: ArrayLike,
    forests: Forest | Sequence[Forest] = (),
    vectors: _Csr | Sequence[_Csr] = (),
) -> None:
    """Write examples for SVM-Light-TK; gzipped if the name ends in ``.gz``.

    Parameters
    ----------
    path : str or path
        The file.
    labels : array_like of float, shape (n_examples,)
        A class (+1, -1, 0) or a value per example.
    forests : Forest or sequence of Forest
        The trees of every example, one forest per position. A null tree (a leaf with an
        empty label) is written as an empty one.
    vectors : SparseRows, CSR matrix or sequence of them
        The vectors of every example, one matrix per position. Column ``k`` becomes
        feature ``k + 1``.

    Raises
    ------
    ValueError
        If numbers of examples differ; if a number is not finite; if a label of a node is
        empty or holds a blank, a bracket or a marker, for the format has no escapes.
        Nothing is written then.

    Examples
    --------
    >>> import pathlib, tempfile, treekernel_rs as tk
    >>> path = pathlib.Path(tempfile.mkdtemp(), "train.dat")
    >>> forest = tk.Forest.from_brackets(["(S (A a))", "(S (B b))"])
    >>> tk.readers.write_svmlight_tk(path, [1, -1], forest)
    >>> print(path.read_text(), end="")
    1 |BT| (S (A a)) |ET|
    -1 |BT| (S (B b)) |ET|
    """
    values = np.asarray(labels, dtype=np.float64)
    if values.ndim != 1:
        msg = f"labels must have one dimension, got shape {values.shape}"
        raise ValueError(msg)
    trees = [forests] if isinstance(forests, Forest) else list(forests)
    alone = hasattr(vectors, "indptr")
    rows: list[_Csr] = list(cast("Sequence[_Csr]", [vectors] if alone else vectors))
    for kind, lengths in (
        ("forests", [len(forest) for forest in trees]),
        ("vectors", [len(each.indptr) - 1 for each in rows]),
    ):
        for position, length in enumerate(lengths):
            if length != len(values):
                msg = f"{kind}[{position}] has {length} examples, labels {len(values)}"
                raise ValueError(msg)
    if not all(
        np.isfinite(numbers).all() for numbers in (values, *(r.data for r in rows))
    ):
        msg = "labels and vectors must be finite numbers"
        raise ValueError(msg)
    texts = [_texts(forest, position) for position, forest in enumerate(trees)]
    lines = _lines(values, texts, [list(_features(each)) for each in rows])
    if os.fspath(path).endswith(".gz"):
        # Without name and time, so that equal examples make equal files.
        with (
            Path(path).open("wb") as plain,
            gzip.GzipFile("", "wb", 9, plain, 0) as file,
        ):
            file.writelines(line.encode() for line in lines)
    else:
        with Path(path).open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(lines)


def _lines(
    values: NDArray[np.float64], texts: list[list[str]], features: list[list[str]]
) -> Iterator[str]:
    for example, value in enumerate(values.tolist()):
        parts = [_number(value)]
        for text in texts:
            parts += ["|BT|", text[example]]
        if texts:
            parts.append("|ET|")
        if features:
            parts += [" |BV| ".join(each[example] for each in features), "|EV|"]
        yield " ".join(part for part in parts if part) + "\n"


def _texts(forest: Forest, position: int) -> list[str]:
    """Return the trees as the format has them: without escapes."""
    names = forest.labels
    sign = "\\"
    for name in names:
        if not _BLANKS_AND_BRACKETS.isdisjoint(name) or any(
            m in name for m in _MARKERS
        ):
            msg = f"forests[{position}]: the label {name!r} cannot be written"
            raise ValueError(msg)
    if any(sign in name for name in names):
        # Printed, some backslashes are doubled: a character in their place is not.
        used = set().union(*names)
        sign = next(c for c in map(chr, range(0xE000, 0x110000)) if c not in used)
        forest = _renamed(forest, sign)
    texts = forest.to_brackets()
    for number, text in enumerate(texts):
        if text == _NULL:
            texts[number] = ""
        elif "\\e" in text:
            msg = (
                f"forests[{position}], tree {number}: an empty label cannot be written"
            )
            raise ValueError(msg)
    return [text.replace(sign, "\\") for text in texts] if sign != "\\" else texts


def _renamed(forest: Forest, sign: str) -> Forest:
    arrays = forest.to_arrays()
    text, ends = arrays["names"].tobytes(), arrays["name_offsets"].tolist()
    names = [text[a:b].decode().replace("\\", sign) for a, b in pairwise(ends)]
    return Forest.from_arrays(
        arrays["labels"], arrays["parents"], arrays["offsets"], names=names
    )


def _features(rows: _Csr) -> Iterator[str]:
    indices, data = rows.indices.tolist(), rows.data.tolist()
    for start, end in pairwise(rows.indptr.tolist()):
        # Indices of a CSR matrix need not be in order, those of the format are.
        pairs = sorted(zip(indices[start:end], data[start:end], strict=True))
        yield " ".join(f"{index + 1}:{_number(value)}" for index, value in pairs)


def _number(value: float) -> str:
    return repr(float(value)).removesuffix(".0")
