"""Trees that are indexed once, for many queries; and rows that are computed on demand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from treekernel_rs._arguments import check_flag, check_jobs, check_number
from treekernel_rs._core import Forest, Index, KernelRows, as_forest
from treekernel_rs._held import HeldKernel
from treekernel_rs._matrices import Computing, warn_of_zeros
from treekernel_rs._public import listing
from treekernel_rs.neighbors import JoinResult, Neighbors
from treekernel_rs.tree_kernels import TreeKernel, copied_kernel

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, DTypeLike, NDArray

    from treekernel_rs._arguments import Progress, Trees
    from treekernel_rs._matrices import Zeros
    from treekernel_rs.edit import EditDistance

__all__ = ["EditIndex", "IndexRows", "KernelRows", "TreeIndex"]
__dir__ = listing(__all__)


class TreesIndex(Computing):
    """What an index of trees does, whichever measure it is for."""

    _core: Index

    @property
    def forest(self) -> Forest:
        """The trees."""
        return self._core.forest

    def __len__(self) -> int:
        return len(self._core)

    @property
    def nbytes(self) -> int:
        """The approximate memory of the trees and the index, in bytes."""
        return self._core.nbytes()

    def __sizeof__(self) -> int:
        """Return what schedulers and ``sys.getsizeof`` ask for."""
        return object.__sizeof__(self) + self.nbytes

    def add(self, Y: Trees) -> None:
        """Add trees after the others.

        They are indexed by the next query, in a part beside the others. Parts are merged
        when the later ones have become as large as those before them, so adding n trees
        takes time by n log n, whether one by one or all at once.

        Parameters
        ----------
        Y : Forest or sequence of str
            The trees.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> index = tk.SubsetTreeKernel().index([])
        >>> index.add(["(A a)", "(B b)"])
        >>> len(index)
        2
        """
        self._core.add(as_forest(Y))

    def compact(self) -> Self:
        """Make one part of all trees, as if they had been indexed together.

        The next query builds the index again. From then on results have the bits of
        ``kernel(X, Y)``, and queries do not go from part to part.

        Returns
        -------
        self

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> kernel, X = tk.PartialTreeKernel(), ["(S (A a) (B b))", "(A a)"]
        >>> index = kernel.index(X)
        >>> index.add(["(S (A a))"])
        >>> bool((index.compact().gram(X) == kernel(X, index.forest)).all())
        True
        """
        self._core.compact()
        return self

    def build(self, *, n_jobs: int | None = None) -> Self:
        """Build the index now, not at the first query.

        Parameters
        ----------
        n_jobs : int, optional
            Threads, as in a call of the kernel.

        Returns
        -------
        self

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> tk.SubsetTreeKernel().index(["(A a)"]).build().nbytes > 0
        True
        """
        self._core.build(check_jobs(n_jobs))
        return self

    def _limits(self, x: Any, among: Any) -> tuple[Any, ...]:
        return (among,)

    def _numbers(self, where: ArrayLike | None) -> NDArray[Any] | None:
        """Return the numbers of the trees that a mask selects."""
        if where is None:
            return None
        array = np.asarray(where)
        if array.dtype != bool:
            return array
        if array.shape != (len(self),):
            expected, got = f"({len(self)},), one value per tree", array.shape
            msg = f"where must be of shape {expected}, got {got}"
            raise ValueError(msg)
        return np.flatnonzero(array)

    def _asked(self, X: Trees | None) -> tuple[Any, Self | None]:
        """Return X and Y; without X, the indexed trees are compared with each other."""
        return (self, None) if X is None else (X, self)

    def _examples(self, X: Any) -> Any:
        # The core has the indexed trees.
        return X if X is self else as_forest(X)

    def _compute(
        self, method: str, x: Any, y: Any, what: tuple[Any, ...], run: tuple[Any, ...]
    ) -> Any:
        return getattr(self._core, method)(None if y is None else x, *what, *run)

    def _shape(self, x: Any, y: Any) -> tuple[int, int]:
        # Trees may have been added in the meantime.
        return len(self if y is None else x), len(self)

    def _warn(self, zeros: Zeros, y: object, stacklevel: int = 5) -> None:
        if y is None:
            warn_of_zeros(zeros[0], "Y", stacklevel)
        else:
            super()._warn(zeros, y, stacklevel + 1)


class TreeIndex(TreesIndex):
    """Trees that are indexed once, for many queries; made by a kernel's `index`.

    Results are those of the kernel with these trees as Y, bit for bit and for every `n_jobs`.
    After `add` they are the same but for rounding, and `compact` makes them the same bits
    again. The first query builds the index, and the first query after `add` builds what was
    added: both take time by the trees that are new. A pickle contains the trees only. A query
    takes time for its own nodes and for one row.

    `PartialTreeKernel`, `SubpathKernel` and kernels that are made of these index the trees
    again for a query, if one of its nodes has several children or a branch below it, and all
    indexed nodes with its label have a single leaf.

    Parameters
    ----------
    kernel : TreeKernel
        The kernel.
    Y : Forest or sequence of str
        The trees.

    Attributes
    ----------
    kernel : TreeKernel
        The kernel.
    forest : Forest
        The trees.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> kernel = tk.SubsetTreeKernel(0.4, normalize=True)
    >>> index = kernel.index(["(S (A a) (B b))", "(A a)"])
    >>> index.gram(["(S (A a) (B c))"]).round(3)
    array([[0.606, 0.503]])
    >>> index.add(["(S (A a) (B c))"])
    >>> index.top_k(["(S (A a) (B c))"], k=2).indices
    array([[2, 0]])
    >>> index
    <TreeIndex: 3 trees, SubsetTreeKernel(0.4, normalize=True)>
    """

    kernel = HeldKernel[TreeKernel]()

    def __init__(self, kernel: TreeKernel, Y: Trees) -> None:
        self.kernel = copied_kernel(kernel)
        forest = Y if isinstance(Y, Forest) else as_forest(Y)
        self._core = Index(self.kernel._core, forest, self.kernel.normalize)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle kernel and trees."""
        return TreeIndex, (self.kernel, self.forest)

    def __repr__(self) -> str:
        return _shown(self, self.kernel)

    def gram(
        self,
        X: Trees,
        *,
        dtype: DTypeLike = np.float64,
        n_jobs: int | None = None,
        out: NDArray[Any] | None = None,
        progress: Progress | bool | None = None,
    ) -> NDArray[Any]:
        """Compute the kernels of all trees of X with all indexed trees.

        Parameters
        ----------
        X : Forest or sequence of str
            The trees.
        dtype, n_jobs, out, progress
            As in a call of the kernel.

        Returns
        -------
        ndarray, shape (len(X), len(index))
            ``kernel(X, Y)``, bit for bit unless trees were added and not made `compact`.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> tk.SubsetTreeKernel(0.5).index(["(A a)", "(B b)"]).gram(["(S (A a))"])
        array([[0.5, 0. ]])
        """
        return self._matrix(*self._asked(X), dtype, n_jobs, out, progress)

    def rows(self, X: Trees, *, n_jobs: int | None = None) -> IndexRows:
        """Prepare the rows of X; each row is computed on demand.

        Parameters
        ----------
        X : Forest or sequence of str
            The trees.
        n_jobs : int, optional
            Threads for several rows at once.

        Returns
        -------
        IndexRows
            ``rows[i]`` is the row of tree i of X, ``rows[indices]`` a matrix.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> rows = tk.SubsetTreeKernel(0.5).index(["(A a)", "(B b)"]).rows(["(S (A a))"])
        >>> len(rows), rows[0].tolist(), rows[:].shape
        (1, [0.5, 0.0], (1, 2))
        """
        return IndexRows(self, as_forest(X), check_jobs(n_jobs))

    def top_k(
        self,
        X: Trees | None = None,
        *,
        k: int = 10,
        min_similarity: float | None = None,
        where: ArrayLike | None = None,
        exclude_equal: bool = False,
        n_jobs: int | None = None,
        progress: Progress | bool | None = None,
    ) -> Neighbors:
        """Find the indexed trees that have the largest kernels with each tree of X.

        Parameters
        ----------
        X : Forest or sequence of str, optional
            The trees. Without X, the indexed trees are compared with the other ones.
        k : int, default 10
            How many trees to find for each tree; fewer if the index has fewer.
        min_similarity : float, optional
            The smallest kernel value of an answer. If the kernel is normalised, most trees are
            then ruled out by a bound, as in `join`, which takes a small part of the time.
        where : array of bool or int, optional
            Which indexed trees may be answers: a mask with a value for each, or their
            numbers.
        exclude_equal : bool, default False
            Leave out trees that are equal to the query.
        n_jobs, progress
            As in a call of the kernel.

        Returns
        -------
        Neighbors
            As the kernel's `top_k`. A row with fewer than k answers ends with indices -1
            and values of -infinity.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> index = tk.SubsetTreeKernel(0.5).index(["(A a)", "(B b)"])
        >>> index.top_k(["(S (B b))"], k=1).indices
        array([[1]])
        >>> index.top_k(["(A a)"], k=2, min_similarity=0.3).indices
        array([[ 0, -1]])
        >>> index.top_k(["(A a)"], k=1, exclude_equal=True).indices
        array([[1]])
        """
        least = min_similarity
        least = None if least is None else check_number("min_similarity", least)
        exclude_equal = check_flag(exclude_equal, "exclude_equal")
        within = least, self._numbers(where), exclude_equal
        return self._top_k(*self._asked(X), k, n_jobs, progress, *within)

    def join(
        self,
        X: Trees | None = None,
        *,
        min_similarity: float = 0.8,
        where: ArrayLike | None = None,
        n_jobs: int | None = None,
        out: Callable[..., object] | None = None,
        progress: Progress | bool | None = None,
    ) -> JoinResult:
        """Find all pairs of a tree of X and an indexed tree above a similarity.

        Parameters
        ----------
        X : Forest or sequence of str, optional
            The trees. Without X, the pairs i < j of indexed trees.
        min_similarity : float, default 0.8
            The smallest kernel value of a pair. What is needed for it is kept, and serves
            all queries with this threshold or a higher one.
        where : array of bool or int, optional
            The indexed trees that pairs may have: a mask with a value for each, or their
            numbers.
        n_jobs, out, progress
            As in the kernel's `join`.

        Returns
        -------
        JoinResult
            As the kernel's `join`.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> kernel = tk.SubsetTreeKernel(0.4, normalize=True)
        >>> index = kernel.index(["(S (A a) (B b))", "(A a)", "(S (A a) (B b))"])
        >>> index.join().columns, index.join(["(A a)"]).columns
        (array([2]), array([1]))
        """
        least = check_number("min_similarity", min_similarity)
        some = self._numbers(where)
        return self._join(*self._asked(X), least, n_jobs, out, progress, some)

    def _title(self) -> str:
        return type(self.kernel).__name__


class EditIndex(TreesIndex):
    """Trees that are indexed once, for many questions of an `EditDistance`; by its `index`.

    What finds near trees is kept, so a question takes time by its own tree and by the trees
    that are near. This is so where costs do not depend on labels; elsewhere a question takes
    as long as one of `EditDistance`.

    Results are those of the distance with these trees as Y. `add` and `compact` work as
    those of a `TreeIndex`. A pickle contains the trees only.

    Parameters
    ----------
    distance : EditDistance
        The distance.
    Y : Forest or sequence of str
        The trees.

    Attributes
    ----------
    distance : EditDistance
        The distance.
    forest : Forest
        The trees.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> index = tk.EditDistance().index(["(a b c)", "(x (y z))", "(a b)"])
    >>> index.distance
    EditDistance(1)
    >>> found = index.top_k(["(a b c d)"], k=2)
    >>> found.indices, found.values
    (array([[0, 2]]), array([[1., 2.]]))
    >>> index.add(["(a b d)"])
    >>> index.join(["(a b c d)"], max_distance=1).columns
    array([0, 3])
    """

    distance = HeldKernel["EditDistance"]()

    def __init__(self, distance: EditDistance, Y: Trees) -> None:
        self.distance = distance.replace()
        forest = Y if isinstance(Y, Forest) else as_forest(Y)
        self._core = self.distance._core.index(forest, self.distance.normalize)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle distance and trees."""
        return EditIndex, (self.distance, self.forest)

    def __repr__(self) -> str:
        return _shown(self, self.distance)

    def __call__(
        self,
        X: Trees,
        *,
        dtype: DTypeLike = np.float64,
        n_jobs: int | None = None,
        out: NDArray[Any] | None = None,
        progress: Progress | bool | None = None,
    ) -> NDArray[Any]:
        """Compute the distances of all trees of X from all indexed trees.

        Parameters
        ----------
        X : Forest or sequence of str
            The trees.
        dtype, n_jobs, out, progress
            As in a call of the distance.

        Returns
        -------
        ndarray, shape (len(X), len(index))
            ``distance(X, Y)``.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> tk.EditDistance().index(["(a b)", "(a)"])(["(a b c)"])
        array([[1., 2.]])
        """
        return self._matrix(*self._asked(X), dtype, n_jobs, out, progress)

    def top_k(
        self,
        X: Trees | None = None,
        *,
        k: int = 10,
        max_distance: float | None = None,
        where: ArrayLike | None = None,
        exclude_equal: bool = False,
        n_jobs: int | None = None,
        progress: Progress | bool | None = None,
    ) -> Neighbors:
        """Find the indexed trees that are nearest to each tree of X.

        Parameters
        ----------
        X : Forest or sequence of str, optional
            The trees. Without X, the indexed trees are compared with the other ones.
        k : int, default 10
            How many trees to find for each tree; fewer if the index has fewer.
        max_distance : float, optional
            The largest distance of an answer.
        where, exclude_equal, n_jobs, progress
            As in `TreeIndex.top_k`.

        Returns
        -------
        Neighbors
            As the distance's `top_k`. A row with fewer than k answers ends with indices -1
            and values of infinity.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> index = tk.EditDistance().index(["(a b c)", "(a b)", "(x)"])
        >>> index.top_k(["(a b)"], k=1, exclude_equal=True).indices
        array([[0]])
        >>> index.top_k(["(a b)"], k=2, max_distance=0).indices
        array([[ 1, -1]])
        """
        most = max_distance
        most = None if most is None else check_number("max_distance", most)
        exclude_equal = check_flag(exclude_equal, "exclude_equal")
        within = most, self._numbers(where), exclude_equal
        return self._top_k(*self._asked(X), k, n_jobs, progress, *within)

    def join(
        self,
        X: Trees | None = None,
        *,
        max_distance: float = 0.2,
        where: ArrayLike | None = None,
        n_jobs: int | None = None,
        out: Callable[..., object] | None = None,
        progress: Progress | bool | None = None,
    ) -> JoinResult:
        """Find all pairs of a tree of X and an indexed tree that are near each other.

        Parameters
        ----------
        X : Forest or sequence of str, optional
            The trees. Without X, the pairs i < j of indexed trees.
        max_distance : float, default 0.2
            The largest distance of a pair.
        where : array of bool or int, optional
            The indexed trees that pairs may have: a mask with a value for each, or their
            numbers.
        n_jobs, out, progress
            As in the distance's `join`.

        Returns
        -------
        JoinResult
            As the distance's `join`.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> index = tk.EditDistance().index(["(a b c)", "(a b)", "(x)"])
        >>> index.join(max_distance=1).rows, index.join(["(x y)"], max_distance=1).columns
        (array([0]), array([2]))
        """
        most = check_number("max_distance", max_distance)
        some = self._numbers(where)
        return self._join(*self._asked(X), most, n_jobs, out, progress, some)

    def _title(self) -> str:
        return type(self.distance).__name__


def _shown(index: TreesIndex, measure: object) -> str:
    n = len(index)
    return f"<{type(index).__name__}: {n} tree{'s' * (n != 1)}, {measure!r}>"


class IndexRows:
    """Rows of trees with the trees of an index, each computed on demand.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> tk.SubsetTreeKernel().index(["(A a)"]).rows(["(A a)", "(B b)"])
    <IndexRows: 2 trees with 1>
    """

    def __init__(self, index: TreeIndex, forest: Forest, n_jobs: int | None) -> None:
        self._index = index
        self._forest = forest
        self._n_jobs = n_jobs

    def __len__(self) -> int:
        return len(self._forest)

    def __getitem__(self, which: int | slice | ArrayLike) -> NDArray[np.float64]:
        one = isinstance(which, int | np.integer)
        some: Any = [which] if one else which
        matrix = self._index.gram(self._forest[some], n_jobs=self._n_jobs)
        row: NDArray[np.float64] = matrix[0] if one else matrix
        return row

    def __repr__(self) -> str:
        n = len(self)
        return f"<IndexRows: {n} tree{'s' * (n != 1)} with {len(self._index)}>"
