"""Trees as vectors for linear models: fragments as columns, and landmarks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from treekernel_rs import _core
from treekernel_rs._arguments import check_jobs
from treekernel_rs.estimators._base import TreeTransformer
from treekernel_rs.estimators._inputs import as_trees, trees_to_fit
from treekernel_rs.tree_kernels import TreeKernel

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import DTypeLike, NDArray

    from treekernel_rs._core import Forest, Vocabulary
    from treekernel_rs.estimators._inputs import TreesX

_NAMES = ("labels", "edges", "productions", "pq-grams")


class TreeVectorizer(TreeTransformer):
    """Pieces of trees as the columns of a sparse matrix.

    If the pieces are the fragments of a kernel, dot products of rows are the kernel
    restricted to fragments of at most `max_size`. Use the matrix for linear models, feature
    selection and boosting. Columns have readable names. See docs/FEATURES.md.

    Parameters
    ----------
    kernel : TreeKernel or {"labels", "edges", "productions", "pq-grams"}, optional
        The kernel whose fragments are the pieces: `SubtreeKernel`, `SubsetTreeKernel`,
        `PartialTreeKernel` or `SubpathKernel`; or the name of a kind of pieces. By default
        ``SubsetTreeKernel(0.4)``. If the kernel is normalised, rows have length 1.
    max_size : int, default 3
        The most productions of a fragment of `SubsetTreeKernel`, or the most nodes of a
        fragment of `PartialTreeKernel` or `SubpathKernel`; at most 64.
    pq : tuple of int, default (2, 3)
        For "pq-grams": how many labels downwards, and how many children side by side.
    min_df : int, default 1
        Only pieces that occur in at least so many trees of the training set get a column.
    n_features : int, optional
        Hash pieces to so many columns instead of learning a vocabulary. Trees may then be
        processed in parts, and columns are the same on all machines, but have no names.
    signed : bool, default True
        With `n_features`, half of the pieces count negatively, so that collisions cancel
        on average.
    counts : {"linear", "log", "set"}
        What the weight of a piece is multiplied by, if a tree has it c times: c, 1 + log(c),
        or 1. With "log", markup that a page repeats does not drown the rest. Fragments of
        `PartialTreeKernel` are counted linearly only, as their weights depend on gaps.
    binary : bool, default False
        Whether values are 1 for pieces that occur, in place of their weights.
    dtype : float32 or float64, default float32
        Type of the values.
    n_jobs : int, optional
        Threads; by default and for -1 all cores the process may use.

    Attributes
    ----------
    vocabulary_ : dict of str to int
        The column of each piece, by its name.
    kernel_ : TreeKernel or str
        The kernel, or the kind of pieces, at the time of `fit`.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> X = ["(S (NP (D the) (N dog)) (VP barks))", "(S (NP (D the) (N cat)) (VP sleeps))"]
    >>> vectorizer = tk.TreeVectorizer("productions")
    >>> vectorizer.fit_transform(X).toarray()
    array([[1., 1., 1., 1., 1., 0., 0.],
           [1., 0., 1., 0., 1., 1., 1.]], dtype=float32)
    >>> vectorizer.get_feature_names_out()[:4].tolist()
    ['(D the)', '(N dog)', '(NP D N)', '(VP barks)']
    >>> kernel = tk.SubsetTreeKernel(0.4)
    >>> rows = tk.TreeVectorizer(kernel, max_size=10, dtype=float).fit_transform(X)
    >>> (rows @ rows.T).toarray().round(4).tolist() == kernel(X).round(4).tolist()
    True
    """

    def __init__(
        self,
        kernel: TreeKernel | str | None = None,
        *,
        max_size: int = 3,
        pq: tuple[int, int] = (2, 3),
        min_df: int = 1,
        n_features: int | None = None,
        signed: bool = True,
        counts: Literal["linear", "log", "set"] = "linear",
        binary: bool = False,
        dtype: DTypeLike = np.float32,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.max_size = max_size
        self.pq = pq
        self.min_df = min_df
        self.n_features = n_features
        self.signed = signed
        self.counts = counts
        self.binary = binary
        self.dtype = dtype
        self.n_jobs = n_jobs

    _vocabulary: Vocabulary
    _size: tuple[int, int]

    def _what(self) -> tuple[TreeKernel | str, tuple[int, int]]:
        """Return what the pieces are, and their size."""
        if not isinstance(self.kernel, str):
            return self._kernel(), (self.max_size, 1)
        if self.kernel not in _NAMES:
            msg = (
                f"kernel must be a tree kernel or one of {_NAMES}, got {self.kernel!r}"
            )
            raise ValueError(msg)
        p, q = self.pq
        return self.kernel, (p, q) if self.kernel == "pq-grams" else (1, 1)

    def fit(self, X: TreesX, y: object = None) -> Self:
        """Learn the columns.

        Parameters
        ----------
        X : Forest or sequence of str
            The training set; not used with `n_features`.
        y : ignored

        Returns
        -------
        self

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> tk.TreeVectorizer("labels").fit(["(A a)", "(B a)"]).vocabulary_
        {'a': 0, 'A': 1, 'B': 2}
        """
        self._fit(X)
        return self

    def _fit(self, X: TreesX) -> csr_matrix | None:
        self.kernel_, self._size = self._what()
        if self.n_features is not None:
            self._n_features_out = self.n_features
            return None
        forest = trees_to_fit(X)
        self._vocabulary, rows = _core.Vocabulary.fit(
            _native(self.kernel_),
            self._size,
            forest,
            self.min_df,
            self.counts,
            check_jobs(self.n_jobs),
        )
        self._n_features_out = len(self._vocabulary)
        return self._matrix(rows)

    def fit_transform(self, X: TreesX, y: object = None) -> csr_matrix:
        """Learn the columns, and return the rows of the training set.

        Parameters
        ----------
        X : Forest or sequence of str
            The training set.
        y : ignored

        Returns
        -------
        csr_matrix, shape (len(X), columns)

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> tk.TreeVectorizer("edges").fit_transform(["(A a)", "(A a a)"]).toarray()
        array([[1.],
               [2.]], dtype=float32)
        """
        rows = self._fit(X)
        return self.transform(X) if rows is None else rows

    def transform(self, X: TreesX) -> csr_matrix:
        """Return the rows of trees; pieces without a column are left out.

        Parameters
        ----------
        X : Forest or sequence of str
            The trees.

        Returns
        -------
        csr_matrix, shape (len(X), columns)

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> vectorizer = tk.TreeVectorizer("labels").fit(["(A a)"])
        >>> vectorizer.transform(["(A b)"]).toarray()
        array([[0., 1.]], dtype=float32)
        """
        forest = as_trees(X)
        n_jobs = check_jobs(self.n_jobs)
        if self.n_features is None:
            check_is_fitted(self, "_vocabulary")
            return self._matrix(self._vocabulary.transform(forest, self.counts, n_jobs))
        # Hashing learns nothing, so it needs no `fit`.
        what, size = self._what()
        rows = _core.hashed_features(
            _native(what),
            size,
            forest,
            self.n_features,
            self.signed,
            self.counts,
            n_jobs,
        )
        return self._matrix(rows, what)

    def _matrix(self, rows: Any, what: TreeKernel | str | None = None) -> csr_matrix:
        """Make the matrix of rows, which have learned columns unless pieces are given."""
        starts, columns, values = rows
        n_columns = len(self._vocabulary) if what is None else self.n_features
        what = self.kernel_ if what is None else what
        values = np.sign(values) if self.binary else values
        matrix = csr_matrix(
            (values.astype(self.dtype, copy=False), columns, starts),
            shape=(len(starts) - 1, n_columns),
        )
        if not isinstance(what, str) and what.normalize:
            length = np.sqrt(matrix.multiply(matrix).sum(axis=1))
            matrix.data /= np.repeat(np.ravel(length), np.diff(starts))
        return matrix

    @property
    def vocabulary_(self) -> dict[str, int]:
        """The column of each piece, by its name."""
        return {name: column for column, name in enumerate(self._names())}

    def _names(self, columns: list[int] | None = None) -> list[str]:
        if self.n_features is not None:
            msg = "hashed columns have no names: leave out n_features to learn a vocabulary"
            raise AttributeError(msg)
        check_is_fitted(self, "_vocabulary")
        return self._vocabulary.names(columns)

    def get_feature_names_out(self, input_features: object = None) -> NDArray[Any]:
        """Return the names of the columns: pieces in brackets.

        A node without children in a piece stands for any node with its label. In pq-grams,
        ``*`` marks a position without a node.

        Parameters
        ----------
        input_features : ignored

        Returns
        -------
        ndarray of str objects

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> tk.TreeVectorizer("edges").fit(["(A b (C d))"]).get_feature_names_out()
        array(['(C d)', '(A b)', '(A C)'], dtype=object)
        """
        return np.array(self._names(), dtype=object)

    def inverse_transform(self, X: Any) -> list[dict[str, float]]:
        """Return the pieces of each row, by name, with their values.

        Parameters
        ----------
        X : sparse matrix or array, shape (n, columns)
            Rows.

        Returns
        -------
        list of dict of str to float

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> vectorizer = tk.TreeVectorizer("edges")
        >>> vectorizer.inverse_transform(vectorizer.fit_transform(["(A a a)", "(A b)"]))
        [{'(A a)': 2.0}, {'(A b)': 1.0}]
        """
        rows = csr_matrix(X)
        used = np.unique(rows.indices)
        names = dict(zip(used.tolist(), self._names(used.tolist()), strict=True))
        return [
            {
                names[column]: float(value)
                for column, value in zip(row.indices.tolist(), row.data, strict=True)
            }
            for row in rows
        ]

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        if isinstance(known := state.get("_vocabulary"), _core.Vocabulary):
            state = state | {"_vocabulary": known.to_arrays()}
        return dict(state)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        arrays = self.__dict__.get("_vocabulary")
        if not isinstance(arrays, dict):
            return
        kernel = state.get("kernel_")
        size: Any = state.get("_size")  # the core refuses what is no pair of numbers
        if not isinstance(kernel, str | TreeKernel):
            msg = f"kernel_ of a TreeVectorizer: expected a kernel, got {kernel!r}"
            raise TypeError(msg)
        self._vocabulary = _core.Vocabulary.from_arrays(_native(kernel), size, arrays)


def _native(what: TreeKernel | str) -> Any:
    """Return what the core makes pieces of."""
    return what if isinstance(what, str) else what._core


class TreeNystroem(TreeTransformer):
    """Trees by their kernels with landmarks: dense vectors for linear models.

    Dot products of the vectors approximate the kernel, exactly so between landmarks
    (Williams & Seeger 2001).

    Parameters
    ----------
    kernel : TreeKernel, optional
        Any kernel; by default ``SubsetTreeKernel(0.4)``.
    n_components : int, default 256
        How many landmarks; directions of the kernel's noise are dropped.
    selection : {"uniform", "kmeans++", "leverage", "greedy"}
        How landmarks are chosen: at random; far from each other, at random by distance;
        by ridge leverage scores from a uniform sample; or each where the error is largest
        (pivoted Cholesky).
    random_state : int or RandomState, optional
        Seed of the random choices; by default each `fit` has others.
    n_jobs : int, optional
        Threads; by default and for -1 all cores the process may use.

    Attributes
    ----------
    landmarks_ : Forest
        The landmarks.
    landmark_indices_ : ndarray of int64
        Their places in the training set.
    index_ : TreeIndex
        The index of the landmarks, which `transform` uses; built by its first call.
    kernel_ : TreeKernel
        The kernel at the time of `fit`.
    rank_ : int
        How many directions are kept: the number of columns.
    error_ : float
        For "greedy": the part of the training set's self-kernels that the landmarks leave
        out, 0 to 1; NaN elsewhere.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> X = ["(S (A a) (B b))", "(S (A a) (C c))", "(S (B b) (B b))", "(S (C c) (B b))"]
    >>> kernel = tk.SubsetTreeKernel(0.4)
    >>> vectors = tk.TreeNystroem(kernel, 4, selection="greedy").fit_transform(X)
    >>> bool(abs(vectors @ vectors.T - kernel(X)).max() < 1e-12)
    True
    """

    def __init__(
        self,
        kernel: TreeKernel | None = None,
        n_components: int = 256,
        *,
        selection: str = "uniform",
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.selection = selection
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: TreesX, y: object = None) -> Self:
        """Choose landmarks.

        Parameters
        ----------
        X : Forest or sequence of str
            The training set.
        y : ignored

        Returns
        -------
        self

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> tk.TreeNystroem(n_components=2, random_state=0).fit(["(A a)", "(B b)"]).rank_
        2
        """
        kernel = self._kernel()
        if not (isinstance(self.n_components, int) and self.n_components > 0):
            msg = f"n_components must be an int above 0, got {self.n_components!r}"
            raise ValueError(msg)
        select = getattr(self, f"_{str(self.selection).replace('++', '_pp')}", None)
        if self.selection not in ("uniform", "kmeans++", "leverage", "greedy"):
            msg = (
                "selection must be 'uniform', 'kmeans++', 'leverage' or 'greedy', "
                f"got {self.selection!r}"
            )
            raise ValueError(msg)
        forest = trees_to_fit(X)
        self.kernel_ = kernel
        self.error_ = float("nan")
        assert select is not None
        chosen = select(forest, min(self.n_components, len(forest)))
        self.landmark_indices_ = np.asarray(chosen, dtype=np.int64)
        self.landmarks_: Forest = forest[self.landmark_indices_.tolist()]
        self.index_ = kernel.index(self.landmarks_)
        between = kernel.gram(self.landmarks_, n_jobs=self.n_jobs)
        values, vectors = np.linalg.eigh(between)
        # Below this an eigenvalue is rounding: nothing is divided by it.
        least = values.max(initial=0.0) * len(values) * np.finfo(float).eps
        kept = values > least
        self.rank_ = int(kept.sum())
        self._whitening = vectors[:, kept] / np.sqrt(values[kept])
        return self

    def transform(self, X: TreesX) -> NDArray[np.float64]:
        """Return the vectors of trees.

        Parameters
        ----------
        X : Forest or sequence of str
            The trees.

        Returns
        -------
        ndarray of float64, shape (len(X), rank_)

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> nystroem = tk.TreeNystroem(n_components=2).fit(["(A a)", "(B b)"])
        >>> nystroem.transform(["(A a)", "(C c)"]).shape
        (2, 2)
        """
        check_is_fitted(self, "_whitening")
        kernels = self.index_.gram(as_trees(X), n_jobs=self.n_jobs)
        return np.asarray(kernels @ self._whitening)

    @property
    def _n_features_out(self) -> int:
        return self.rank_

    def _uniform(self, forest: Forest, n: int) -> Iterable[int]:
        rng = check_random_state(self.random_state)
        return sorted(rng.choice(len(forest), n, replace=False).tolist())

    def _columns(self, forest: Forest, trees: list[int]) -> NDArray[np.float64]:
        chosen: Forest = forest[list(trees)]
        kernel: TreeKernel = self.kernel_
        return kernel.gram(forest, chosen, n_jobs=self.n_jobs)

    def _kmeans_pp(self, forest: Forest, n: int) -> Iterable[int]:
        rng = check_random_state(self.random_state)
        own = self.kernel_.diag(forest, n_jobs=self.n_jobs)
        chosen = [int(rng.randint(len(forest)))]
        distance = np.full(len(forest), np.inf)
        while True:
            last = chosen[-1]
            column = self._columns(forest, [last])[:, 0]
            distance = np.minimum(distance, own + own[last] - 2 * column)
            distance[chosen] = 0
            if len(chosen) == n or not distance.max() > 1e-12 * own.max():
                return chosen
            share = np.maximum(distance, 0)
            chosen.append(int(rng.choice(len(forest), p=share / share.sum())))

    def _leverage(self, forest: Forest, n: int) -> Iterable[int]:
        rng = check_random_state(self.random_state)
        sample = list(self._uniform(forest, n))
        columns = self._columns(forest, sample)
        values, vectors = np.linalg.eigh(columns[sample])
        kept = values > values.max() * len(values) * np.finfo(float).eps
        rows = columns @ (vectors[:, kept] / np.sqrt(values[kept]))
        # Ridge leverage: half of the directions count fully, where n are asked for.
        spectrum = rows.T @ rows
        ridge = max(np.trace(spectrum) / max(n, 1), np.finfo(float).tiny)
        inverse = np.linalg.inv(spectrum + ridge * np.eye(len(spectrum)))
        scores = np.einsum("ij,jk,ik->i", rows, inverse, rows) + 1e-12
        chosen = rng.choice(len(forest), n, replace=False, p=scores / scores.sum())
        return sorted(chosen.tolist())

    def _greedy(self, forest: Forest, n: int) -> Iterable[int]:
        left = self.kernel_.diag(forest, n_jobs=self.n_jobs)
        total = left.sum()
        factor = np.zeros((len(forest), n))
        chosen: list[int] = []
        for step in range(n):
            pivot = int(left.argmax())
            if not left[pivot] > 1e-12 * max(total, 1e-300) / len(forest):
                break
            column = self._columns(forest, [pivot])[:, 0]
            column = column - factor[:, :step] @ factor[pivot, :step]
            factor[:, step] = column / np.sqrt(left[pivot])
            left = np.maximum(left - factor[:, step] ** 2, 0)
            left[pivot] = 0
            chosen.append(pivot)
        self.error_ = float(left.sum() / total) if total > 0 else 0.0
        return chosen or [0]
