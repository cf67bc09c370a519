"""Vectors and classes of labels, and what labels of KeLP's are made of."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from numpy.typing import NDArray

__all__ = [
    "checked_labels",
    "class_of",
    "composed_vector",
    "compound_of",
    "vector_lookup",
    "word_of",
]


def vector_lookup(vectors: Any) -> Callable[[str], NDArray[np.float64] | None]:
    """Return a function from a label to its vector, which checks what it gives."""
    if isinstance(vectors, tuple):
        labels, matrix = checked_labels("vectors", vectors)
        matrix = np.asarray(matrix)
        if matrix.ndim != 2 or len(matrix) != len(labels):
            expected = f"a matrix of {len(labels)} rows"
            msg = f"vectors: expected {expected}, got shape {matrix.shape}"
            raise ValueError(msg)
        rows = {label: i for i, label in enumerate(labels)}
        length = matrix.shape[1]
    elif hasattr(vectors, "items"):
        rows, matrix = {label: label for label in vectors}, vectors
        length = len(next(iter(vectors.values()), ()))
    else:
        msg = f"vectors must be a dict or (labels, matrix), got {vectors!r}"
        raise TypeError(msg)

    def vector(label: str) -> NDArray[np.float64] | None:
        row = rows.get(label)
        if row is None:
            return None
        try:
            found = np.asarray(matrix[row], np.float64)
        except (TypeError, ValueError):
            msg = f"vectors: expected numbers for {label!r}, got {matrix[row]!r}"
            raise ValueError(msg) from None
        if found.shape != (length,):
            msg = (
                f"vectors: expected {length} numbers for {label!r}, as for the first "
                f"label, got shape {found.shape}"
            )
            raise ValueError(msg)
        if not np.isfinite(found).all():
            at = int(np.flatnonzero(~np.isfinite(found))[0])
            msg = f"vectors: number {at} of {label!r} is {found[at]}, expected a finite one"
            raise ValueError(msg)
        return found

    return vector


def checked_labels(name: str, given: Any) -> tuple[list[str], Any]:
    """Take (labels, matrix) apart; labels are different."""
    if len(given) != 2:
        msg = f"{name}: expected (labels, matrix), got {len(given)} objects"
        raise ValueError(msg)
    labels = [str(label) for label in given[0]]
    seen: set[str] = set()
    for label in labels:
        if label in seen:
            msg = f"{name}: duplicate label {label!r}"
            raise ValueError(msg)
        seen.add(label)
    return labels, given[1]


def class_of(classes: Any, label: str) -> Hashable:
    if classes is None:
        return True
    if callable(classes):
        return classes(label)  # type: ignore[no-any-return]
    if hasattr(classes, "get"):
        return classes.get(label)  # type: ignore[no-any-return]
    if classes == "kelp":
        return None
    msg = f"classes must be None, a dict, a callable or 'kelp', got {classes!r}"
    raise ValueError(msg)


def _typed(label: str) -> tuple[str, str]:
    """Take a label of KeLP's apart: its type and content."""
    kind, mark, content = label.partition("##")
    if mark:
        return kind, content
    return ("LEX" if "::" in label else "NOTYPE"), label


def word_of(label: str) -> tuple[Hashable, str]:
    """Return the class of a word and the key of its vector; None for other labels."""
    kind, content = _typed(label)
    _, mark, pos = content.partition("::")
    return (("LEX", pos) if kind == "LEX" and mark else None), content


def compound_of(label: str) -> tuple[str, str, str] | None:
    """Return relation, head and modifier of a compound."""
    kind, content = _typed(label)
    relation, opened, rest = content.partition("<")
    head, comma, modifier = rest.removesuffix(">").partition(",")
    if kind != "COMP" or not (opened and comma and rest.endswith(">")):
        return None
    return relation, head, modifier


def composed_vector(
    how: str, head: NDArray[np.float64] | None, modifier: NDArray[np.float64] | None
) -> NDArray[np.float64] | None:
    """Compose the vectors of two words; one that is missing is the other."""
    h = modifier if head is None else head
    m = head if modifier is None else modifier
    if h is None or m is None:
        return None
    h, m = _unit(h), _unit(m)
    if how == "sum":
        return h + m
    if how == "product":
        return np.asarray(h * m)
    return np.asarray(math.fsum(h * h) * h + math.fsum(h * m) * m)


def _unit(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    # By exact sums: the same bits on every machine.
    largest = np.abs(vector).max(initial=0.0)
    if largest == 0:
        return vector
    vector = vector / largest
    return np.asarray(vector / math.sqrt(math.fsum(vector * vector)))
