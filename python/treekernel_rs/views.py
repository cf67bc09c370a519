"""Examples with several views: trees, pairs of trees and vectors, side by side.

`Views` holds aligned columns, one entry per example, and is cut like an array, so that
scikit-learn can split it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from treekernel_rs._core import Forest, Pair, PairForest, as_forest, as_pairs
from treekernel_rs._public import listing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["Views"]
__dir__ = listing(__all__)


class Views:
    """Examples that consist of several named parts: trees, pairs of trees, vectors.

    Parameters
    ----------
    data : DataFrame or mapping of str to columns, optional
        The columns.
    **columns
        Further columns, all of one length: a `Forest`, `PairForest` or `Views`; a list of
        trees in brackets, or of pairs of them; numbers, as an array with a row per example
        (or one number), or a sparse matrix of SciPy's.

    Attributes
    ----------
    columns : dict
        The columns by name, as `Forest`, `PairForest`, `Views`, float64 array or CSR matrix.
    shape : tuple of int
        ``(len(views),)``.

    Examples
    --------
    >>> import numpy as np, treekernel_rs as tk
    >>> X = tk.kernels.Views(
    ...     question=["(S (A a))", "(S (B b))", "(S (A a))"], numbers=[[1, 0], [0, 1], [1, 1]]
    ... )
    >>> X
    <Views: 3 examples of question, numbers>
    >>> len(X[:2]), len(X[np.array([True, False, True])]), X["question"]
    (2, 2, <Forest: 3 trees, 9 nodes, 6 distinct subtrees>)
    """

    def __init__(self, data: Any = None, /, **columns: Any) -> None:
        given = {**columns_of(data), **columns}
        read = {str(name): _column(str(name), given[name]) for name in given}
        if not read:
            msg = "views must have at least one column, got none"
            raise ValueError(msg)
        lengths = {name: length_of(column) for name, column in read.items()}
        if len(set(lengths.values())) > 1:
            shown = ", ".join(f"{name}: {n}" for name, n in lengths.items())
            msg = f"views must be of one length, got {shown}"
            raise ValueError(msg)
        self.columns: dict[str, Any] = read

    @classmethod
    def _of(cls, columns: dict[str, Any]) -> Self:
        views = cls.__new__(cls)
        views.columns = columns
        return views

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the columns, which are checked when they are read."""
        return type(self), (self.columns,)

    def __len__(self) -> int:
        return length_of(next(iter(self.columns.values())))

    @property
    def shape(self) -> tuple[int]:
        """One number, of examples."""
        return (len(self),)

    def __getitem__(self, index: Any) -> Any:
        """Return a column by its name, an example as a dict, or some examples."""
        if isinstance(index, str):
            if index not in self.columns:
                raise KeyError(index)
            return self.columns[index]
        if isinstance(index, tuple):
            # As scikit-learn writes it: everything else of these examples.
            index = index[0] if len(index) == 2 and index[1] is Ellipsis else index
        if isinstance(index, int | np.integer):
            n = len(self)
            if not -n <= index < n:
                msg = f"expected an index from {-n} to {n - 1}, got {index}"
                raise IndexError(msg)
            at = int(index) % n
            return {
                name: column[at] if not hasattr(column, "toarray") else column[[at]]
                for name, column in self.columns.items()
            }
        if not isinstance(index, slice):
            index = np.asarray(index)
            if index.ndim != 1 or (index.dtype.kind not in "biu" and len(index)):
                msg = (
                    "expected a name, an int, a slice, a boolean mask or an array of "
                    f"ints, got {index!r}"
                )
                raise IndexError(msg)
            if index.dtype == bool and len(index) != len(self):
                msg = (
                    f"a mask of {len(index)} entries does not fit {len(self)} examples"
                )
                raise IndexError(msg)
            index = np.flatnonzero(index) if index.dtype == bool else index.astype(int)
        return self._of({name: column[index] for name, column in self.columns.items()})

    def __repr__(self) -> str:
        n, names = len(self), ", ".join(self.columns)
        return f"<Views: {n} example{'s' * (n != 1)} of {names}>"


def columns_of(data: Any) -> dict[Any, Any]:
    """Return the columns of what has several."""
    if data is None:
        return {}
    if isinstance(data, Views):
        return data.columns
    if isinstance(data, Mapping) or hasattr(data, "columns"):
        return {name: data[name] for name in getattr(data, "columns", data)}
    msg = (
        f"expected a DataFrame or a mapping of names to columns, got "
        f"{type(data).__name__}"
    )
    raise TypeError(msg)


def _column(name: str, values: Any) -> Any:
    if isinstance(values, Forest | PairForest | Views):
        return values
    if hasattr(values, "tocsr"):
        rows = values.tocsr().astype(np.float64)
        _check_finite(name, rows.data)
        return rows
    if isinstance(values, str | bytes) or not hasattr(values, "__len__"):
        msg = f"{name}: expected a column, got one {type(values).__name__}"
        raise TypeError(msg)
    if not isinstance(values, list | tuple) or not _are_trees(values):
        numbers = np.asarray(values)
        if numbers.dtype.kind in "biuf":
            numbers = numbers.astype(np.float64)
            if numbers.ndim not in (1, 2):
                msg = f"{name}: expected one or two dimensions, got {numbers.ndim}"
                raise ValueError(msg)
            _check_finite(name, numbers)
            return numbers.reshape(len(numbers), -1) if len(numbers) else numbers
    items = list(values)
    try:
        is_pairs = items and isinstance(items[0], Pair | tuple) and _is_pair(items[0])
        return as_pairs(items) if is_pairs else as_forest(items)
    except (TypeError, ValueError) as error:
        error.add_note(f"in the column {name!r}")
        raise


def _are_trees(values: Sequence[Any]) -> bool:
    return bool(values) and not isinstance(values[0], int | float | list | np.generic)


def _is_pair(item: Any) -> bool:
    # Two texts; a label and a list of children are a tree.
    return isinstance(item, Pair) or (
        len(item) == 2 and all(isinstance(side, str | bytes) for side in item)
    )


def _check_finite(name: str, numbers: NDArray[Any]) -> None:
    if not np.isfinite(numbers).all():
        msg = (
            f"{name}: expected finite numbers, got {numbers[~np.isfinite(numbers)][0]}"
        )
        raise ValueError(msg)


def length_of(column: Any) -> int:
    # A sparse matrix has no length.
    return int(column.shape[0]) if hasattr(column, "shape") else len(column)
