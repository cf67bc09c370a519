"""Distances that kernels of trees induce."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from treekernel_rs._arguments import check_jobs, progress_callback
from treekernel_rs._core import as_forest, as_tree
from treekernel_rs._matrices import warn_of_zeros
from treekernel_rs._public import listing

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from treekernel_rs._arguments import Progress, Trees
    from treekernel_rs._core import Forest, KernelRows, Tree
    from treekernel_rs.tree_kernels import TreeKernel

    Floats = NDArray[np.float64]
    Numbers = NDArray[np.int64]

__all__ = ["DistanceRows", "KernelDistance"]
__dir__ = listing(__all__)

#: Rows that are finished together: whole matrices of terms would take as much memory again.
_HEIGHT = 256


class KernelDistance:
    """The distance that a kernel of trees induces, by `TreeKernel.distance`.

    ::

        d(a, b) = sqrt(K(a, a) + K(b, b) - 2 K(a, b))

    This is how far the vectors of two trees are apart whose dot products are the kernel. If
    the kernel is normalised, it is sqrt(2 - 2 K(a, b)), from 0 to sqrt(2).

    Parameters
    ----------
    kernel : TreeKernel
        The kernel.

    Notes
    -----
    Equal trees have the distance 0 exactly. The distance of two trees that are nearly equal is
    the root of a small difference of large numbers, and has half the digits of the kernel. If a
    kernel is not positive semidefinite, the root of a negative number is taken as 0.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> X = ["(S (A a) (B b))", "(S (A a) (B c))", "(A a)"]
    >>> d = tk.SubsetTreeKernel(0.4, normalize=True).distance
    >>> d
    KernelDistance(SubsetTreeKernel(0.4, normalize=True))
    >>> d(X, X[:1]).round(3)
    array([[0.   ],
           [0.888],
           [0.997]])
    >>> d.condensed(X).round(3)
    array([0.888, 0.997, 0.997])
    """

    kernel: TreeKernel

    def __init__(self, kernel: TreeKernel) -> None:
        self.kernel = kernel

    def __repr__(self) -> str:
        """Show the kernel."""
        return f"{type(self).__name__}({self.kernel!r})"

    def __call__(
        self,
        X: Trees,
        Y: Trees | None = None,
        *,
        n_jobs: int | None = None,
        progress: Progress | bool | None = None,
    ) -> Floats:
        """Compute the matrix of all distances of trees of X and of Y.

        Parameters
        ----------
        X, Y : Forest or sequence of str
            The trees; without Y, those of X among each other.
        n_jobs, progress
            As in a call of the kernel.

        Returns
        -------
        ndarray of float64, shape (len(X), len(Y))
            Without Y, it is symmetric, bit for bit.
        """
        x, y = as_forest(X), None if Y is None else as_forest(Y)
        rows = columns = self._trees(x, n_jobs)
        if y is not None:
            # Equal trees have one number in both.
            numbers = (x + y).unique().inverse
            rows = rows[0], numbers[: len(x)]
            columns = self._trees(y, n_jobs, "Y")[0], numbers[len(x) :]
        run, double = self._run(n_jobs, progress), np.dtype(np.float64)
        matrix: Floats
        matrix, _ = self.kernel._core.gram(x, y, double, self.kernel.normalize, *run)
        for start in range(0, len(x), _HEIGHT):
            some = slice(start, start + _HEIGHT)
            _finish(matrix[some], (rows[0][some], rows[1][some]), columns)
        return matrix

    def condensed(
        self,
        X: Trees,
        *,
        n_jobs: int | None = None,
        progress: Progress | bool | None = None,
    ) -> Floats:
        """Compute each distance of two trees of X once, as SciPy's `pdist` has them.

        Parameters
        ----------
        X : Forest or sequence of str
            The trees.
        n_jobs, progress
            As in a call of the kernel.

        Returns
        -------
        ndarray of float64, shape (len(X) * (len(X) - 1) / 2,)
            Of trees i < j, by i and then by j: what SciPy's `linkage` and `squareform`
            take.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> tk.SubsetTreeKernel(1.0).distance.condensed(["(A a)", "(A b)", "(A a)"])
        array([1.41421356, 0.        , 1.41421356])
        """
        x, kernel = as_forest(X), self.kernel
        own, numbers = self._trees(x, n_jobs)
        run = self._run(n_jobs, progress)
        values = kernel._core.condensed(x, kernel.normalize, *run)
        end = 0
        for i in range(len(x)):
            start, end = end, end + len(x) - i - 1
            behind = slice(i + 1, None)
            _finish(
                values[start:end], (own[i], numbers[i]), (own[behind], numbers[behind])
            )
        return values

    def rows(self, X: Trees, *, n_jobs: int | None = None) -> DistanceRows:
        """Prepare the rows of the matrix of X with itself, to compute them on demand.

        Parameters
        ----------
        X : Forest or sequence of str
            The trees.
        n_jobs : int, optional
            Threads, as in a call of the kernel.

        Returns
        -------
        DistanceRows
            ``rows[i]`` is row ``i`` of the matrix, ``rows[indices]`` some of its rows.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> rows = tk.SubsetTreeKernel(1.0).distance.rows(["(A a)", "(A b)", "(A a)"])
        >>> len(rows), rows[2], rows[:2].shape
        (3, array([0.        , 1.41421356, 0.        ]), (2, 3))
        """
        x, kernel = as_forest(X), self.kernel
        trees = self._trees(x, n_jobs)
        kernels, _ = kernel._core.rows(x, kernel.normalize, check_jobs(n_jobs))
        return DistanceRows(kernels, trees)

    def pair(self, a: Tree | str | object, b: Tree | str | object) -> float:
        """Compute the distance of two trees.

        Parameters
        ----------
        a, b : Tree, str or object as in Forest.from_trees
            The trees.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> tk.SubsetTreeKernel(1.0).distance.pair("(S (A a) (B b))", "(S (A a) (B c))")
        2.449489742783178
        """
        return float(self.condensed([as_tree(a), as_tree(b)], n_jobs=1)[0])

    def _run(
        self, n_jobs: int | None, progress: Progress | bool | None
    ) -> tuple[Any, Any]:
        return check_jobs(n_jobs), progress_callback(progress, type(self).__name__)

    def _trees(
        self, x: Forest, n_jobs: int | None, name: str = "X"
    ) -> tuple[Floats, Numbers]:
        """Return the kernels of trees with themselves, and numbers: equal trees have one.

        The caller of the method that calls this is warned of trees whose kernel is 0.
        """
        kernel = self.kernel
        own, zeros = kernel._core.diagonal(x, kernel.normalize, check_jobs(n_jobs))
        warn_of_zeros(zeros, name)
        return own, x.unique().inverse


class DistanceRows:
    """The rows of a matrix of distances, each computed on demand, by `KernelDistance.rows`.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> rows = tk.SubsetTreeKernel(1.0).distance.rows(["(A a)", "(A b)"])
    >>> rows
    <DistanceRows: 2 trees>
    >>> rows[[1]]
    array([[1.41421356, 0.        ]])
    """

    def __init__(self, kernels: KernelRows, trees: tuple[Floats, Numbers]) -> None:
        self._kernels = kernels
        self._trees = trees

    def __len__(self) -> int:
        return len(self._kernels)

    def __getitem__(self, index: Any) -> Floats:
        """Compute a row, or several."""
        rows = self._kernels[index]
        own, numbers = self._trees
        _finish(rows, (own[index], numbers[index]), self._trees)
        return rows

    def __repr__(self) -> str:
        """Show how many trees there are."""
        n = len(self)
        return f"<{type(self).__name__}: {n} tree{'' if n == 1 else 's'}>"


def _finish(
    values: Floats, rows: tuple[Any, Any], columns: tuple[Floats, Numbers]
) -> None:
    """Make kernels distances. Rows and columns are own kernels and numbers of trees."""
    own, numbers = (np.asarray(part)[..., np.newaxis] for part in rows)
    # By halves, of which none is too large.
    np.subtract(own / 2 + columns[0] / 2, values, out=values)
    np.maximum(values, 0.0, out=values)
    np.multiply(values, 2.0, out=values)
    np.sqrt(values, out=values)
    values[numbers == columns[1]] = 0.0
