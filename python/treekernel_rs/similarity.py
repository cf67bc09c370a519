"""Similarities of labels, for the smoothed partial tree kernel.

    sigma(x, y) from -1 to 1, symmetric, 1 for equal labels

A similarity holds plain data. It is computed once per call for all labels of the trees, never
per pair of nodes; other trees that ask an index bring rows of their new labels. The kernel is
positive semidefinite if and only if sigma is.
"""

from __future__ import annotations

import itertools
import math
import sys
import warnings
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np

from treekernel_rs._arguments import check_flag
from treekernel_rs._core import LabelTable, as_forest
from treekernel_rs._extras import needs
from treekernel_rs._label_vectors import (
    checked_labels,
    class_of,
    composed_vector,
    compound_of,
    vector_lookup,
    word_of,
)
from treekernel_rs._parameters import Parameters
from treekernel_rs._public import listing

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from treekernel_rs._arguments import Trees

    #: How many labels each of some others is similar to, which, and the similarities.
    LabelRows: TypeAlias = tuple[
        NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]
    ]
    Labelled: TypeAlias = tuple[Sequence[str], Any]
    Pairs: TypeAlias = (
        Mapping[tuple[str, str], float] | Labelled | Callable[[str, str], float]
    )
    Vectors: TypeAlias = Mapping[str, ArrayLike] | Labelled
    Classes: TypeAlias = Mapping[str, Hashable] | Callable[[str], Hashable] | str | None

__all__ = ["ComposedSimilarity", "TableSimilarity", "VectorSimilarity"]
__dir__ = listing(__all__)

#: Labels of a block whose eigenvalues are computed by NumPy; SciPy has those of more.
_DENSE = 4_000
#: Labels of a block whose eigenvalues are computed for the sake of a warning.
_CHECKED = 400
#: What rounding makes of an eigenvalue 0.
_ROUNDING = 1e-9

_ADVICE = (
    "kernels may have negative eigenvalues, and machines trained on them may fail. Take "
    "cosines without threshold and clip, or power=2 (a power comes before all else); "
    "smallest_eigenvalue(forest) says how far off it is"
)


class Similarity(Parameters):
    """What all similarities can do."""

    #: Whether positive semidefiniteness is certain.
    _certain: bool

    def _remember(self, **parameters: object) -> None:
        super()._remember(**parameters)
        vars(self).pop("_told", None)

    def _of(self, labels: list[str]) -> LabelTable:
        """Make the table of some different labels."""
        raise NotImplementedError

    def _table(self, labels: list[str]) -> LabelTable:
        """Answer the kernel."""
        table = self._of(labels)
        told = vars(self).get("_told", 0)
        if not self._certain and len(labels) > told >= 0:
            vars(self)["_told"] = len(labels)
            self._warn(table)
        return table

    def _rows(
        self, table: LabelTable, labels: list[str], others: list[str]
    ) -> LabelRows:
        """Compare other labels with those of a table."""
        raise NotImplementedError

    def _warn(self, table: LabelTable) -> None:
        """Say once that a similarity is indefinite, or may be."""
        blocks, _, _ = table.blocks(_CHECKED)
        least = min((_least(*b) for b in blocks if b[1] is not None), default=1.0)
        if least < -_ROUNDING:
            text = f"is not positive semidefinite (an eigenvalue is {least:.3g})"
        elif any(n > _CHECKED for n, _ in blocks):
            text = "may not be positive semidefinite"
        else:
            return
        vars(self)["_told"] = -1
        name = type(self).__name__
        warnings.warn(f"{name} {text}: {_ADVICE}", RuntimeWarning, stacklevel=4)

    def smallest_eigenvalue(self, X: Trees) -> float:
        """Compute the smallest eigenvalue of the matrix of similarities of labels.

        Labels of different classes, and labels that no similarity connects, are separate: the
        matrix of each block is looked at alone, by NumPy up to 4,000 labels and by SciPy's
        Lanczos beyond. Without any negative eigenvalue the kernel is positive semidefinite
        for all trees with these labels.

        Parameters
        ----------
        X : Forest or sequence of str
            The trees whose labels are compared.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> similar = tk.kernels.TableSimilarity({("a", "b"): -1, ("b", "c"): -1, ("a", "c"): -1})
        >>> round(similar.smallest_eigenvalue(["(a (b) (c))"]), 6)
        -1.0
        """
        blocks, _, _ = self._of(list(as_forest(X).labels)).blocks(sys.maxsize)
        return min((_least(*block) for block in blocks), default=1.0)

    def matrix(self, labels: Sequence[str]) -> NDArray[np.float64]:
        """Return the similarities of some different labels.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> tk.kernels.TableSimilarity({("cat", "dog"): 0.8}).matrix(["cat", "cow", "dog"])
        array([[1. , 0. , 0.8],
               [0. , 1. , 0. ],
               [0.8, 0. , 1. ]])
        """
        names = list(labels)
        blocks, of, places = self._of(names).blocks(sys.maxsize)
        out = np.eye(len(names))
        for number, (n, block) in enumerate(blocks):
            here = np.empty(n, np.int64)
            members = np.flatnonzero(of == number)
            here[places[members]] = members
            if isinstance(block, np.ndarray):
                out[np.ix_(here, here)] = block
            else:
                rows, columns, values = block
                out[here[rows], here[columns]] = values
        return out

    def __eq__(self, other: object) -> bool:
        """Compare class and data."""
        if type(other) is not type(self):
            return NotImplemented
        mine, theirs = self._parameters, other._parameters
        return all(_same(value, theirs[name]) for name, value in mine.items())

    def __repr__(self) -> str:
        """Name the settings, and say how much data there is."""
        (_, data), *rest = self._parameters.items()
        changed = [(name, v) for name, v in rest if v is not self._defaults[name]]
        changed = [(name, v) for name, v in changed if v != self._defaults[name]]
        shown = [_shown(data), *(f"{name}={_shown(v)}" for name, v in changed)]
        return f"{type(self).__name__}({', '.join(shown)})"

    def to_json(self) -> str:
        """Write class and data as JSON, for `kernel_from_json`.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> tk.kernels.TableSimilarity({("cat", "dog"): 0.8}).to_json()
        '{"version": 1, "kernel": "TableSimilarity", "pairs": [["cat", "dog", 0.8]]}'
        """
        return super().to_json()

    def _stored(self) -> dict[str, Any]:
        return {key: _plain(key, v) for key, v in self._parameters.items()}

    @classmethod
    def _read(cls, stored: dict[str, Any]) -> Self:
        for name in ("pairs", "vectors"):
            data = stored.get(name)
            if isinstance(data, list):
                stored[name] = {(x, y): value for x, y, value in data}
            elif isinstance(data, dict) and "matrix" in data:
                stored[name] = (data["labels"], np.array(data["matrix"]))
            elif isinstance(data, dict):
                stored[name] = data["vectors"]
        return super()._read(stored)


class TableSimilarity(Similarity):
    """Pairs of labels with their similarities; pairs not given have 0.

    It may be indefinite. Kernels then warn, and the warning says what to do.

    Parameters
    ----------
    pairs : dict, (labels, matrix) or callable
        Similarities by pairs of labels, in either order or both; a matrix of NumPy or SciPy
        with as many rows and columns as labels, symmetric, with a diagonal of 1; or a
        function of two labels x < y. Values are from -1 to 1. A function cannot be saved as
        JSON.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> similar = tk.kernels.TableSimilarity({("cat", "dog"): 0.8})
    >>> k = tk.PartialTreeKernel(similarity=similar)
    >>> round(k.pair("(N (cat))", "(N (dog))"), 6)
    0.13568
    """

    _certain = False

    pairs: Pairs

    def __init__(self, pairs: Pairs) -> None:
        self._remember(pairs=pairs)

    def _make(self) -> Any:
        """Check the data, and make a look-up of it: by label its similar ones."""
        pairs: Any = vars(self)["pairs"]
        if callable(pairs):
            return pairs
        by_label: dict[str, dict[str, float]] = {}
        for x, y, value in _checked_pairs(pairs):
            by_label.setdefault(x, {})[y] = value
            by_label.setdefault(y, {})[x] = value
        return by_label

    def _of(self, labels: list[str]) -> LabelTable:
        known = self._core
        rows: list[int] = []
        columns: list[int] = []
        values: list[float] = []

        def tell(i: int, j: int, value: float) -> None:
            if value != 0:
                rows.append(i)
                columns.append(j)
                values.append(value)

        if callable(known):
            order = sorted(range(len(labels)), key=labels.__getitem__)
            for at, i in enumerate(order):
                for j in order[at + 1 :]:
                    x, y = labels[i], labels[j]
                    tell(i, j, _in_range(x, y, known(x, y)))
        else:
            number = {label: i for i, label in enumerate(labels)}
            for i, label in enumerate(labels):
                for other, value in known.get(label, {}).items():
                    j = number.get(other, -1)
                    if i < j:
                        tell(i, j, value)
        ids = (np.array(rows, np.int64), np.array(columns, np.int64))
        return LabelTable.of_pairs(len(labels), *ids, np.array(values, np.float64))

    def _rows(
        self, table: LabelTable, labels: list[str], others: list[str]
    ) -> LabelRows:
        pairs = self._core
        found: list[list[tuple[int, float]]] = []
        number = {label: i for i, label in enumerate(labels)}
        for other in others:
            if callable(pairs):
                row = [
                    (i, _in_range(x, y, pairs(x, y)))
                    for i, label in enumerate(labels)
                    for x, y in [sorted((label, other))]
                ]
            else:
                similar = pairs.get(other, {}).items()
                row = sorted((number[x], v) for x, v in similar if x in number)
            found.append([(i, value) for i, value in row if value != 0])
        items = [item for row in found for item in row]
        return (
            np.array([len(row) for row in found], np.int64),
            np.array([i for i, _ in items], np.int64),
            np.array([value for _, value in items], np.float64),
        )


def _checked_pairs(pairs: Any) -> Iterable[tuple[str, str, float]]:
    """Yield each pair of different labels once, its value in range."""
    if not isinstance(pairs, tuple):
        if not hasattr(pairs, "items"):
            msg = f"pairs must be a dict, (labels, matrix) or a callable, got {pairs!r}"
            raise TypeError(msg)
        for key, given in pairs.items():
            if not (isinstance(key, tuple) and len(key) == 2):
                msg = f"pairs: expected keys (x, y) of two labels, got {key!r}"
                raise ValueError(msg)
            x, y = map(str, key)
            value = _in_range(x, y, given)
            other = pairs.get((y, x), given)
            if other != given:
                msg = (
                    f"pairs: ({x!r}, {y!r}) is {given!r}, but ({y!r}, {x!r}) {other!r}"
                )
                raise ValueError(msg)
            if x < y or (x != y and (y, x) not in pairs):
                yield x, y, value
        return
    labels, matrix = checked_labels("pairs", pairs)
    n = len(labels)
    if getattr(matrix, "shape", None) is None:
        matrix = np.asarray(matrix, np.float64)
    if matrix.shape != (n, n):
        msg = f"pairs: expected a matrix of shape {(n, n)}, got {matrix.shape}"
        raise ValueError(msg)
    if hasattr(matrix, "tocoo"):
        coo = matrix.tocsr().tocoo()  # adds up duplicates
        found = {
            (int(i), int(j)): float(v)
            for i, j, v in zip(coo.row, coo.col, coo.data, strict=True)
        }
        diagonal = matrix.diagonal()
    else:
        dense = np.asarray(matrix, np.float64)
        places = np.argwhere(dense).tolist()
        found = {(i, j): float(dense[i, j]) for i, j in places}
        diagonal = np.diagonal(matrix)
    for label, value in zip(labels, diagonal, strict=True):
        _in_range(label, label, float(value))
    for (i, j), value in found.items():
        x, y = labels[i], labels[j]
        _in_range(x, y, value)
        other = found.get((j, i), 0.0)
        if other != value:
            msg = f"pairs: ({x!r}, {y!r}) is {value!r}, but ({y!r}, {x!r}) {other!r}"
            raise ValueError(msg)
        if i < j:
            yield x, y, value


def _in_range(x: str, y: str, value: Any) -> float:
    """Return the similarity of two labels as a float from -1 to 1."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if x == y:
        if number != 1.0:
            msg = f"pairs: the similarity of {x!r} with itself must be 1, got {value!r}"
            raise ValueError(msg)
    elif not abs(number) <= 1.0:
        msg = f"pairs: the similarity of {x!r} and {y!r} must be from -1 to 1, got {value!r}"
        raise ValueError(msg)
    return number


class _CosineSimilarity(Similarity):
    """Cosines of vectors that labels have."""

    @property
    def _certain(self) -> bool:  # type: ignore[override]
        return vars(self)["threshold"] is None and not vars(self)["clip"]

    def _make(self) -> Any:
        return vector_lookup(vars(self)["vectors"])

    def _found(self, labels: list[str]) -> _LabelVectors:
        """Find the vectors and classes of labels."""
        raise NotImplementedError

    def _of(self, labels: list[str]) -> LabelTable:
        found = self._found(labels)
        power, threshold, clip = (
            vars(self)[name] for name in ("power", "threshold", "clip")
        )
        is_int = isinstance(power, int) and not isinstance(power, bool)
        if not (is_int and 1 <= power <= 1 << 20):
            msg = f"power must be an int of at least 1, got {power!r}"
            raise ValueError(msg)
        if threshold is not None:
            ok = isinstance(threshold, int | float) and math.isfinite(threshold)
            if not ok:
                msg = f"threshold must be a finite number or None, got {threshold!r}"
                raise ValueError(msg)
            threshold = float(threshold)
        check_flag(clip, "clip")
        return LabelTable.of_vectors(*found.arrays(), power, threshold, clip)

    def _rows(
        self, table: LabelTable, labels: list[str], others: list[str]
    ) -> LabelRows:
        return table.rows_by_vectors(*self._found(others).arrays())


class _LabelVectors:
    """Vectors and classes of labels, as they are found."""

    def __init__(self, similarity: Similarity, n: int) -> None:
        self._classes = np.full(n, -1, np.int64)
        # A class has one number in all tables of a similarity.
        self._numbers: dict[Hashable, int]
        self._numbers, self._next = vars(similarity).setdefault(
            "_class_numbers", ({}, itertools.count())
        )
        self._vectors: dict[int, NDArray[np.float64]] = {}

    def add(self, i: int, class_: Hashable, vector: NDArray[np.float64] | None) -> None:
        if vector is not None:
            self._vectors[i] = vector
            # Also in threads no two classes get the same number; some numbers get lost.
            if class_ not in self._numbers:
                self._numbers.setdefault(class_, next(self._next))
            self._classes[i] = self._numbers[class_]

    def arrays(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        # Only what has a vector goes to the matrix; its place in the table stays.
        length = len(next(iter(self._vectors.values()), ()))
        matrix = np.zeros((len(self._classes), length))
        for i, vector in self._vectors.items():
            matrix[i] = vector
        return matrix, self._classes


class VectorSimilarity(_CosineSimilarity):
    """Cosines of vectors of labels.

    The similarity of two different labels is the cosine of their vectors, after `clip`,
    `threshold` and `power`, in this order. It is 0 if the labels are of different classes, or
    if one has no class, no vector or a vector of zeros. Without `clip` and `threshold` it is
    positive semidefinite.

    Parameters
    ----------
    vectors : dict or (labels, matrix)
        Vectors by label, all of one length; as `readers.word_vectors` reads them.
    classes : dict, callable or "kelp", optional
        The class of a label; None for a label that is similar to itself only. By default all
        labels are of one class. "kelp": labels are KeLP's; a word ``LEX##lemma::pos`` has the
        class pos and the vector of ``lemma::pos``, and other labels have no class.
    power : int, default 1
        An exponent of the cosine, at least 1.
    threshold : float, optional
        Smaller cosines become 0. The similarity may then be indefinite, less so with power 2
        and a low threshold.
    clip : bool, default False
        Negative cosines become 0. The similarity may then be indefinite.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> vectors = {"cat": [1.0, 0.0], "dog": [0.8, 0.6]}
    >>> similar = tk.kernels.VectorSimilarity(vectors, power=2)
    >>> similar
    VectorSimilarity(<2 vectors>, power=2)
    >>> round(tk.PartialTreeKernel(similarity=similar).pair("(N (cat))", "(N (dog))"), 6)
    0.121344
    """

    vectors: Vectors
    classes: Classes
    power: int
    threshold: float | None
    clip: bool

    def __init__(
        self,
        vectors: Vectors,
        *,
        classes: Classes = None,
        power: int = 1,
        threshold: float | None = None,
        clip: bool = False,
    ) -> None:
        self._remember(
            vectors=vectors,
            classes=classes,
            power=power,
            threshold=threshold,
            clip=clip,
        )

    def _found(self, labels: list[str]) -> _LabelVectors:
        vector, classes = self._core, vars(self)["classes"]
        found = _LabelVectors(self, len(labels))
        for i, label in enumerate(labels):
            key, class_ = label, class_of(classes, label)
            if classes == "kelp":
                class_, key = word_of(label)
            if class_ is not None:
                found.add(i, class_, vector(key))
        return found


class ComposedSimilarity(_CosineSimilarity):
    """Cosines of vectors that are composed of a head's and a modifier's.

    For trees CGRCT and CLCT (`readers.conllu`), whose labels ``COMP##relation<head,modifier>``
    are of two words ``lemma::pos`` (CSPTK: Annesi, Croce & Basili, CIKM 2014). If one of the two
    words has no vector, the other one is used in its place. Labels that are neither
    compounds nor words are similar to themselves only.

    Parameters
    ----------
    vectors : dict or (labels, matrix)
        Vectors of ``lemma::pos``, as in `VectorSimilarity`.
    compose : {"sum", "product", "dilation"}, default "sum"
        The vector of head h and modifier m, both of length 1: ``h + m``, ``h_i m_i`` or
        ``(h·h) h + (h·m) m``.
    same_pos : bool, default True
        Heads must have the same pos, and modifiers.
    same_relation : bool, default False
        Relations must be the same.
    lexical : bool, default True
        Words ``LEX##lemma::pos`` are similar, too, as with ``classes="kelp"``. (The paper;
        KeLP compares them by equality.)
    power, threshold, clip
        As in `VectorSimilarity`.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> vectors = {"run::v": [1.0, 0.0], "walk::v": [0.6, 0.8]}
    >>> similar = tk.kernels.ComposedSimilarity(vectors)
    >>> similar.matrix(["COMP##root<*::*,run::v>", "COMP##root<*::*,walk::v>"])
    array([[1. , 0.6],
           [0.6, 1. ]])
    """

    vectors: Vectors
    compose: str
    same_pos: bool
    same_relation: bool
    lexical: bool
    power: int
    threshold: float | None
    clip: bool

    def __init__(
        self,
        vectors: Vectors,
        *,
        compose: str = "sum",
        same_pos: bool = True,
        same_relation: bool = False,
        lexical: bool = True,
        power: int = 1,
        threshold: float | None = None,
        clip: bool = False,
    ) -> None:
        self._remember(
            vectors=vectors,
            compose=compose,
            same_pos=same_pos,
            same_relation=same_relation,
            lexical=lexical,
            power=power,
            threshold=threshold,
            clip=clip,
        )

    def _found(self, labels: list[str]) -> _LabelVectors:
        own, vector = vars(self), self._core
        if own["compose"] not in ("sum", "product", "dilation"):
            msg = f"compose must be 'sum', 'product' or 'dilation', got {own['compose']!r}"
            raise ValueError(msg)
        for name in ("same_pos", "same_relation", "lexical"):
            check_flag(own[name], name)
        found = _LabelVectors(self, len(labels))
        for i, label in enumerate(labels):
            class_, key = word_of(label)
            if class_ is not None:
                if own["lexical"]:
                    found.add(i, class_, vector(key))
                continue
            compound = compound_of(label)
            if compound is not None:
                relation, head, modifier = compound
                parts: list[Hashable] = ["COMP"]
                if own["same_pos"]:
                    parts += [word.partition("::")[2] for word in (head, modifier)]
                if own["same_relation"]:
                    parts.append(relation)
                both = vector(head), vector(modifier)
                found.add(i, tuple(parts), composed_vector(own["compose"], *both))
        return found


def _least(n: int, block: Any) -> float:
    """Compute the smallest eigenvalue of a block of a table."""
    if not isinstance(block, np.ndarray):
        rows, columns, values = block
        if n <= _DENSE:
            block = np.eye(n)
            block[rows, columns] = values
        else:
            with needs("a large table's eigenvalue", "SciPy", "sklearn"):
                from scipy.sparse import coo_matrix, identity

            block = coo_matrix((values, (rows, columns)), shape=(n, n)).tocsr()
            block += identity(n)
    if n <= _DENSE:
        return float(np.linalg.eigvalsh(block)[0])
    with needs("a large table's eigenvalue", "SciPy", "sklearn"):
        from scipy.sparse.linalg import eigsh

    # A start of its own: SciPy's is random.
    start = np.ones(n) + np.arange(n) % 7
    return float(eigsh(block, k=1, which="SA", v0=start, return_eigenvectors=False)[0])


def _same(a: Any, b: Any) -> bool:
    """Compare data that may hold arrays."""
    if a is b:
        return True
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    if hasattr(a, "tocsr") and hasattr(b, "tocsr"):
        return bool(a.shape == b.shape and (a != b).nnz == 0)
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(v, b[key]) for key, v in a.items())
    if isinstance(a, np.ndarray | list) or isinstance(b, np.ndarray | list):
        return np.array_equal(np.asarray(a), np.asarray(b))
    return bool(a == b)


def _shown(value: Any) -> str:
    if isinstance(value, tuple) and len(value) == 2:
        return f"<{len(value[0])} labels, {type(value[1]).__name__}>"
    if isinstance(value, dict):
        key = next(iter(value), "")
        what = "pair" if isinstance(key, tuple) else "vector"
        what = what if value and not isinstance(value[key], str) else "label"
        return f"<{len(value)} {what}{'s' * (len(value) != 1)}>"
    return repr(value)


def _plain(name: str, value: Any) -> Any:
    """Return what JSON holds of data."""
    if callable(value):
        msg = f"{name} is a function, {value!r}, which cannot be written as JSON"
        raise ValueError(msg)
    if name == "pairs" and hasattr(value, "items"):
        return [[*key, float(v)] for key, v in value.items()]
    if isinstance(value, tuple):
        labels, matrix = value
        matrix = matrix.toarray() if hasattr(matrix, "toarray") else matrix
        return {"labels": list(labels), "matrix": np.asarray(matrix).tolist()}
    if name == "vectors":
        return {"vectors": {x: np.asarray(v).tolist() for x, v in value.items()}}
    return value
