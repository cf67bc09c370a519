"""What is alike: the answers of `top_k`, `join` and `unique`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from treekernel_rs._core import PairExpander
from treekernel_rs._extras import needs
from treekernel_rs._public import listing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from treekernel_rs._core import Forest

    _Pairs = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]
    #: As the core returns them; without groups no two trees are known to be equal.
    _Found = tuple[_Pairs, NDArray[np.int64] | None, NDArray[np.int64] | None]

__all__ = ["JoinGroups", "JoinResult", "Neighbors", "UniqueTrees"]
__dir__ = listing(__all__)

#: Pairs of a batch of Arrow's, but for a tree that has more.
_BATCH = 1 << 20


class _Result:
    """Arrays in a fixed order, which can be unpacked; and an Arrow table of them."""

    _names: ClassVar[tuple[str, ...]]

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[Any]:
        return (getattr(self, name) for name in self._names)

    def __getitem__(self, which: Any) -> Any:
        return tuple(self)[which]

    def _batches(self) -> Iterator[_Pairs]:
        """Return the rows of the table, some at a time."""
        raise NotImplementedError

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Stream ``row, column, value`` to Arrow. Needs pyarrow.

        So ``pyarrow.table(found)`` and ``polars.DataFrame(found)`` are tables of the pairs.
        """
        with needs("__arrow_c_stream__", "pyarrow", "arrow"):
            import pyarrow as pa
        names = {"row": pa.int64(), "column": pa.int64(), "value": pa.float64()}
        schema = pa.schema(names)
        batches = (
            pa.record_batch(list(part), schema=schema) for part in self._batches()
        )
        reader = pa.RecordBatchReader.from_batches(schema, batches)
        stream: object = reader.__arrow_c_stream__(requested_schema)
        return stream


def _pieces(pairs: _Pairs) -> Iterator[_Pairs]:
    rows, columns, values = pairs
    for start in range(0, len(values), _BATCH):
        part = slice(start, start + _BATCH)
        yield rows[part], columns[part], values[part]


class Neighbors(_Result):
    """The nearest trees of each tree, by a kernel's `top_k`.

    As a sequence it is ``indices, values``. As an Arrow table (``pyarrow.table(found)``) it
    has the columns ``row, column, value``.

    Parameters
    ----------
    indices : ndarray of int64, shape (len(X), k)
        Trees, the nearest first, one row for each tree of X.
    values : ndarray of float64, shape (len(X), k)
        Their kernels.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> X = ["(S (A a) (B b))", "(S (A a) (B c))", "(A a)"]
    >>> indices, values = tk.SubsetTreeKernel(0.4).top_k(X, k=1)
    >>> indices.ravel()
    array([1, 0, 0])
    """

    _names = "indices", "values"
    indices: NDArray[np.int64]
    values: NDArray[np.float64]

    def __init__(self, indices: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        self.indices = indices
        self.values = values

    def __repr__(self) -> str:
        return f"Neighbors(indices={self.indices!r}, values={self.values!r})"

    def _batches(self) -> Iterator[_Pairs]:
        # Where fewer are near enough, the places behind them have -1.
        row, rank = np.nonzero(self.indices >= 0)
        return _pieces((row, self.indices[row, rank], self.values[row, rank]))


class UniqueTrees(NamedTuple):
    """The different trees of a forest, by `Forest.unique`.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> forest = tk.Forest(["(S (A a))", "(B b)", "(S (A a))"])
    >>> unique = forest.unique()
    >>> unique.trees, unique.counts
    (<Forest: 2 trees, 5 nodes, 5 distinct subtrees>, array([2, 1]))
    >>> forest[unique.indices] == unique.trees, unique.trees[unique.inverse] == forest
    (True, True)
    """

    #: The different trees, in the order of their first occurrence.
    trees: Forest
    #: Where each of them occurs first.
    indices: NDArray[np.int64]
    #: The number of each tree of the forest among them.
    inverse: NDArray[np.int64]
    #: How often each of them occurs.
    counts: NDArray[np.int64]


class JoinGroups(NamedTuple):
    """The pairs of a join, each pair of different trees once, by `JoinResult.groups`.

    Equal trees are a group. Groups are numbered in the order of their first trees, as those
    of `Forest.unique`.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> X = ["(S (A a) (B b))", "(S (A a) (B c))", *["(S (A a) (B b))"] * 3]
    >>> groups = tk.SubsetTreeKernel(0.4, normalize=True).join(X, min_similarity=0.5).groups
    >>> groups.rows, groups.columns, groups.values.round(3)
    (array([0, 0]), array([0, 1]), array([1.   , 0.606]))
    >>> groups.row_groups
    array([0, 1, 0, 0, 0])
    >>> groups.row_trees()[0]
    array([0, 2, 3, 4])
    >>> groups.column_groups is groups.row_groups, groups.column_trees()[1]
    (True, array([1]))
    """

    #: Groups of X, ascending.
    rows: NDArray[np.int64]
    #: Groups of Y. Without Y, groups of X: each pair of two groups occurs once, the lower
    #: group first; the pair of a group with itself stands for the pairs of its trees.
    columns: NDArray[np.int64]
    #: Their kernels.
    values: NDArray[np.float64]
    #: The group of each tree of X.
    row_groups: NDArray[np.int64]
    #: The group of each tree of Y; without Y, of X.
    column_groups: NDArray[np.int64]

    def row_trees(self) -> list[NDArray[np.int64]]:
        """List the trees of each group of X.

        Returns
        -------
        list of ndarray of int64
            ``row_trees()[g]`` are the places of the trees of group g, ascending.
        """
        return _members(self.row_groups)

    def column_trees(self) -> list[NDArray[np.int64]]:
        """List the trees of each group of Y (without Y, of X), as `row_trees`."""
        return _members(self.column_groups)


def _members(groups: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    ends = np.cumsum(np.bincount(groups))
    return np.split(np.argsort(groups, kind="stable"), ends)[:-1]


class JoinResult(_Result):
    """Pairs of trees with their kernels, by a kernel's `join`, row by row.

    Each pair of different trees is stored once (`groups`). The first read of `rows`,
    `columns` or `values` writes out the pairs of all trees and keeps them, 24 bytes for
    each of `n_pairs`. As a sequence it is ``rows, columns, values, shape``. As an Arrow
    table (``pyarrow.table(found)``) it has the columns ``row, column, value``, and is
    written out some rows at a time.

    Parameters
    ----------
    rows, columns : ndarray of int64
        Trees of X, and of Y (of X where there is no Y).
    values : ndarray of float64
        Their kernels.
    shape : tuple of int
        The numbers of trees of X and of Y.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> X = ["(S (A a) (B b))", "(S (A a) (B c))", "(A a)"]
    >>> found = tk.SubsetTreeKernel(0.4, normalize=True).join(X, min_similarity=0.5)
    >>> found
    <JoinResult: 3 pairs, shape (3, 3)>
    >>> found.rows, found.columns, found.values.round(3)
    (array([0, 0, 1]), array([1, 2, 2]), array([0.606, 0.503, 0.503]))
    >>> found.tocsr().shape
    (3, 3)
    """

    _names = "rows", "columns", "values", "shape"
    shape: tuple[int, int]

    def __init__(
        self,
        rows: NDArray[np.int64],
        columns: NDArray[np.int64],
        values: NDArray[np.float64],
        shape: tuple[int, int],
    ) -> None:
        #: Of trees, or of groups if there are groups.
        self._stored = rows, columns, values
        self._groups: tuple[NDArray[np.int64], NDArray[np.int64] | None] | None = None
        self._expanded: _Pairs | None = None
        self.shape = shape

    @classmethod
    def _found(cls, found: _Found, shape: tuple[int, int]) -> JoinResult:
        """Make one of what the core has found."""
        pairs, rows, columns = found
        made = cls(*pairs, shape)
        # Numbered in order: where no trees are equal, the last one has the last group.
        lists = [groups for groups in (rows, columns) if groups is not None]
        if rows is not None and any(
            len(groups) and groups[-1] < len(groups) - 1 for groups in lists
        ):
            made._groups = rows, columns
        return made

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what can be written out again."""
        return {**self.__dict__, "_expanded": None}

    def __repr__(self) -> str:
        n = self.n_pairs
        return f"<JoinResult: {n:,} pair{'s' * (n != 1)}, shape {self.shape}>"

    def _pairs(self) -> _Pairs:
        if self._groups is None:
            return self._stored
        if self._expanded is None:
            expander = PairExpander(*self._stored, *self._groups)
            self._expanded = expander.expand(0, self.shape[0])
        return self._expanded

    @property
    def rows(self) -> NDArray[np.int64]:
        """Trees of X."""
        return self._pairs()[0]

    @property
    def columns(self) -> NDArray[np.int64]:
        """Trees of Y, of X where there is no Y."""
        return self._pairs()[1]

    @property
    def values(self) -> NDArray[np.float64]:
        """Their kernels."""
        return self._pairs()[2]

    @property
    def groups(self) -> JoinGroups:
        """The same pairs, each pair of different trees once.

        Results of `treekernel_rs.dask.join` and of an index do not know which trees are
        equal: there each tree is a group.
        """
        rows, columns = self._groups or (np.arange(self.shape[0]), None)
        if columns is None:
            is_self = self._groups is not None
            columns = rows if is_self else np.arange(self.shape[1])
        return JoinGroups(*self._stored, rows, columns)

    @property
    def n_pairs(self) -> int:
        """The number of pairs of trees; does not write them out."""
        rows, columns, values = self._stored
        if self._groups is None:
            return len(values)
        row_counts = np.bincount(self._groups[0])
        if self._groups[1] is not None:
            return int((row_counts[rows] * np.bincount(self._groups[1])[columns]).sum())
        pairs = row_counts[rows] * (row_counts[columns] - (rows == columns))
        return int((pairs >> (rows == columns)).sum())  # of equal trees half

    def tocsr(self) -> Any:
        """Make a sparse matrix. Needs SciPy.

        Returns
        -------
        scipy.sparse.csr_matrix of shape `shape`
            Without Y its upper triangle: ``m + m.T`` is symmetric.
        """
        with needs("tocsr", "SciPy", "sklearn"):
            from scipy.sparse import csr_matrix
        starts = np.searchsorted(self.rows, np.arange(self.shape[0] + 1))
        return csr_matrix((self.values, self.columns, starts), shape=self.shape)

    def _batches(self) -> Iterator[_Pairs]:
        if self._groups is None or self._expanded is not None:
            yield from _pieces(self._pairs())
            return
        expander = PairExpander(*self._stored, *self._groups)
        starts, row = expander.starts(), 0
        while row < self.shape[0]:
            # At least one tree, however many pairs it has.
            end = int(np.searchsorted(starts, starts[row] + _BATCH, side="right")) - 1
            stop = max(end, row + 1)
            yield expander.expand(row, stop)
            row = stop
