"""Sparse rows for a package whose only requirement is numpy."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from treekernel_rs._extras import needs

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class SparseRows:
    """One sparse vector per example, as compressed rows (CSR).

    The three arrays are those of `scipy.sparse.csr_matrix`. scipy is not needed to read
    a file; with it, `to_scipy` hands them over without a copy.

    Attributes
    ----------
    indptr : ndarray of int64, shape (n_rows + 1,)
        Row ``i`` has the entries from ``indptr[i]`` to ``indptr[i + 1]``.
    indices : ndarray of int64
        Column of each entry, from 0; increasing within a row.
    data : ndarray of float64
        Value of each entry.
    shape : tuple of int
        Numbers of rows and columns.

    Examples
    --------
    >>> import numpy as np, treekernel_rs as tk
    >>> rows = tk.readers.SparseRows(
    ...     np.array([0, 2, 2]), np.array([0, 3]), np.array([0.5, 1.0]), (2, 4)
    ... )
    >>> rows
    <SparseRows: 2 rows, 4 columns, 2 entries>
    >>> rows.toarray()
    array([[0.5, 0. , 0. , 1. ],
           [0. , 0. , 0. , 0. ]])
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int64]
    data: NDArray[np.float64]
    shape: tuple[int, int]

    def __repr__(self) -> str:
        """Say how large it is."""
        rows, columns = self.shape
        return (
            f"<SparseRows: {rows:,} row{'s' * (rows != 1)}, "
            f"{columns:,} column{'s' * (columns != 1)}, "
            f"{len(self.data):,} entr{'y' if len(self.data) == 1 else 'ies'}>"
        )

    def __len__(self) -> int:
        """Count the rows."""
        return self.shape[0]

    def to_scipy(self) -> Any:
        """Return the rows as a `scipy.sparse.csr_matrix`, sharing the arrays.

        Raises
        ------
        ImportError
            If scipy is not installed; it comes with the extra ``sklearn``.

        Examples
        --------
        >>> import numpy as np, treekernel_rs as tk
        >>> rows = tk.readers.SparseRows(
        ...     np.array([0, 1]), np.array([2]), np.array([0.5]), (1, 4)
        ... )
        >>> rows.to_scipy().toarray()
        array([[0. , 0. , 0.5, 0. ]])
        """
        with needs("SparseRows.to_scipy", "SciPy", "sklearn"):
            from scipy.sparse import csr_matrix
        return csr_matrix((self.data, self.indices, self.indptr), shape=self.shape)

    def toarray(self) -> NDArray[np.float64]:
        """Return the rows as a dense array; mind its size."""
        dense = np.zeros(self.shape)
        row = np.repeat(np.arange(len(self)), np.diff(self.indptr))
        dense[row, self.indices] = self.data
        return dense


class Rows:
    """Sparse rows as they come, one per example; missing ones are empty."""

    def __init__(self) -> None:
        self._indptr = array("q", [0])
        self._indices = array("q")
        self._data = array("d")

    def __len__(self) -> int:
        return len(self._indptr) - 1

    def add(self, indices: list[int], values: list[float]) -> None:
        """Append a row; its columns increase."""
        self._indices.extend(indices)
        self._data.extend(values)
        self._indptr.append(len(self._data))

    def pad(self, n_rows: int) -> None:
        """Append empty rows up to `n_rows`."""
        self._indptr.extend([len(self._data)] * (n_rows - len(self)))

    def done(self, n_columns: int) -> SparseRows:
        """Hand over the rows."""
        return SparseRows(
            np.array(self._indptr, dtype=np.int64),
            np.array(self._indices, dtype=np.int64),
            np.array(self._data, dtype=np.float64),
            (len(self), n_columns),
        )

    @property
    def width(self) -> int:
        """The least number of columns that holds all entries."""
        return max(self._indices, default=-1) + 1
