"""Kernels of examples with several views.

`ViewKernel` has a kernel for each view, and adds or multiplies them; `PreferenceKernel`
compares examples that are two candidates each. Both compute whole matrices of their parts,
and then numpy does the rest: time and threads are those of the parts, memory is a matrix
more. A `ViewIndex` keeps the indexes of the trees of one side.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from treekernel_rs._arguments import (
    check_flag,
    check_float_type,
    check_number,
    check_out,
    progress_callback,
)
from treekernel_rs._core import Forest, PairForest
from treekernel_rs._held import HeldKernel
from treekernel_rs._matrices import warn_of_zeros
from treekernel_rs._parameters import Normalizing, Parameters
from treekernel_rs._public import listing
from treekernel_rs.index import TreeIndex
from treekernel_rs.pairs import PairKernel
from treekernel_rs.tree_kernels import TreeKernel
from treekernel_rs.vectors import VectorPolynomial
from treekernel_rs.views import Views, columns_of, length_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import DTypeLike, NDArray

    from treekernel_rs._arguments import Progress

    Matrix = NDArray[np.float64]

__all__ = ["PreferenceKernel", "ViewIndex", "ViewKernel"]
__dir__ = listing(__all__)

#: Kernels of vectors by name.
_VECTORS = ("linear", "cosine", "rbf")


class KernelOfViews(Normalizing):
    """What kernels of views have in common."""

    _is_composed: ClassVar[bool] = True

    def _names(self) -> list[str]:
        """Name the columns that are looked at."""
        raise NotImplementedError

    def _kernel_of(self, name: str) -> Any:
        """Return the kernel that a column is looked at with."""
        raise NotImplementedError

    def _raw(self, x: Views, y: Any, n_jobs: int | None, tell: Any) -> Matrix:
        """Compute the matrix; y is Views, a ViewIndex, or None for x."""
        raise NotImplementedError

    def _raw_pairs(self, x: Views, y: Views | None, n_jobs: int | None) -> Matrix:
        """Compute row n of x with row n of y; y None: of x with itself."""
        raise NotImplementedError

    def _examples(self, X: Any) -> Views:
        """Return the columns that are looked at as Views."""
        known = columns_of(X)
        for name in self._names():
            if name not in known:
                msg = f"there is no view {name!r}, only {', '.join(map(repr, known))}"
                raise ValueError(msg)
        some = {name: known[name] for name in self._names()}
        return Views._of(some) if isinstance(X, Views) else Views(some)

    def __call__(self, X: Any, Y: Any = None) -> Matrix:
        """Compute the kernels of all examples of X with all of Y (of X, without Y).

        Parameters
        ----------
        X, Y : Views, DataFrame or mapping of str to columns
            The examples.

        Returns
        -------
        ndarray of float64, shape (len(X), len(Y))
            Without Y it is symmetric, bit for bit.
        """
        return self.gram(X, Y)

    def gram(
        self,
        X: Any,
        Y: Any = None,
        *,
        dtype: DTypeLike = np.float64,
        n_jobs: int | None = None,
        out: NDArray[Any] | None = None,
        progress: Progress | bool | None = None,
    ) -> NDArray[Any]:
        """Compute a kernel matrix, with all options.

        Parameters
        ----------
        X, Y : Views, DataFrame or mapping of str to columns
            The examples; without Y, those of X with each other.
        dtype : float64 or float32
            Type of the result; that of `out` if it is given.
        n_jobs : int, optional
            Threads for the matrices of trees, as in a call of a tree kernel.
        out : ndarray or memmap, optional
            C-contiguous matrix that the result is copied to.
        progress : callable or True, optional
            Called as progress(done, total), in rows, for the matrix of every view.

        Returns
        -------
        ndarray, shape (len(X), len(Y))
            `out` if it is given.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> X = tk.kernels.Views(tree=["(A a)", "(B b)"], number=[1.0, 2.0])
        >>> k = tk.kernels.ViewKernel({"tree": tk.SubsetTreeKernel(1.0), "number": "linear"})
        >>> k.gram(X, n_jobs=1)
        array([[2., 2.],
               [2., 5.]])
        """
        y = None if Y is None else self._examples(Y)
        return self._gram(self._examples(X), y, dtype, n_jobs, out, progress)

    def _gram(
        self,
        x: Views,
        y: Views | ViewIndex | None,
        dtype: DTypeLike,
        n_jobs: int | None,
        out: NDArray[Any] | None,
        progress: Progress | bool | None,
    ) -> NDArray[Any]:
        check_flag(self.normalize)
        shape = (len(x), len(x if y is None else y))
        wanted = check_float_type(dtype)
        if out is not None:
            check_out(out, shape, dtype)
        tell = progress_callback(progress, type(self).__name__)
        values = self._raw(x, y, n_jobs, tell)
        if self.normalize:
            rows = self._raw_pairs(x, None, n_jobs)
            if isinstance(y, ViewIndex):
                columns = y._own(n_jobs)
            else:
                columns = rows if y is None else self._raw_pairs(y, None, n_jobs)
            values = _normalized(values, _root(rows)[:, None], _root(columns)[None, :])
            if y is None:
                np.fill_diagonal(values, (rows > 0).astype(np.float64))
            warn_of_zeros(np.flatnonzero(rows <= 0).tolist(), "X", what="examples")
            if y is not None:
                zeros = np.flatnonzero(columns <= 0).tolist()
                warn_of_zeros(zeros, "Y", what="examples")
        if out is None:
            return values.astype(wanted, copy=False)
        out[...] = values
        return out

    def index(self, Y: Any) -> ViewIndex:
        """Make an index of examples, for many queries.

        Parameters
        ----------
        Y : Views, DataFrame or mapping of str to columns
            The examples.

        Returns
        -------
        ViewIndex
            Its `gram` returns what this kernel's returns for Y, but does not index the
            trees of Y again.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> X = tk.kernels.Views(tree=["(A a)", "(B b)"], number=[1.0, 2.0])
        >>> k = tk.kernels.ViewKernel({"tree": tk.SubsetTreeKernel(1.0), "number": "linear"})
        >>> k.index(X).gram(X[:1])
        array([[2., 2.]])
        """
        return ViewIndex(self, Y)

    def diag(self, X: Any, *, n_jobs: int | None = None) -> Matrix:
        """Compute the kernel of each example with itself.

        Parameters
        ----------
        X : Views, DataFrame or mapping of str to columns
            The examples.
        n_jobs : int, optional
            Threads, as in `gram`.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> X = tk.kernels.Views(tree=["(A a)", "(B b)"], number=[1.0, 2.0])
        >>> k = tk.kernels.ViewKernel({"tree": tk.SubsetTreeKernel(1.0), "number": "linear"})
        >>> k.diag(X)
        array([2., 5.])
        """
        values = self._raw_pairs(self._examples(X), None, n_jobs)
        return (values > 0).astype(np.float64) if check_flag(self.normalize) else values

    def pairs(self, X: Any, Y: Any, *, n_jobs: int | None = None) -> Matrix:
        """Compute the kernels of example n of X with example n of Y.

        Parameters
        ----------
        X, Y : Views, DataFrame or mapping of str to columns
            As many examples.
        n_jobs : int, optional
            Threads, as in `gram`.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> X = tk.kernels.Views(tree=["(A a)", "(B b)"], number=[1.0, 2.0])
        >>> k = tk.kernels.ViewKernel({"tree": tk.SubsetTreeKernel(1.0), "number": "linear"})
        >>> k.pairs(X, X[::-1])
        array([2., 2.])
        """
        x, y = self._examples(X), self._examples(Y)
        if len(x) != len(y):
            msg = f"Y has {len(y)} examples, expected {len(x)}, as X"
            raise ValueError(msg)
        values = self._raw_pairs(x, y, n_jobs)
        if not check_flag(self.normalize):
            return values
        rows, columns = (self._raw_pairs(each, None, n_jobs) for each in (x, y))
        return _normalized(values, _root(rows), _root(columns))

    def pair(self, a: Mapping[str, Any], b: Mapping[str, Any]) -> float:
        """Compute the kernel of two examples.

        Parameters
        ----------
        a, b : mapping of str to a tree, pair or vector
            The examples, as ``views[i]`` is.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> X = tk.kernels.Views(tree=["(A a)", "(B b)"], number=[1.0, 2.0])
        >>> k = tk.kernels.ViewKernel({"tree": tk.SubsetTreeKernel(1.0), "number": "linear"})
        >>> k.pair(X[0], {"tree": "(A a)", "number": 3.0})
        4.0
        """
        columns = [
            {name: _one(example[name]) for name in self._names()} for example in (a, b)
        ]
        return float(self.pairs(*columns)[0])


class ViewIndex:
    """Examples with several views that are indexed once; made by a kernel's `index`.

    Results are those of the kernel with these examples as Y, bit for bit. The first query
    builds the indexes of trees. Pairs of trees and numbers are kept as they are. A pickle
    contains the examples only.

    Parameters
    ----------
    kernel : ViewKernel or PreferenceKernel
        The kernel.
    Y : Views, DataFrame or mapping of str to columns
        The examples.

    Attributes
    ----------
    kernel : ViewKernel or PreferenceKernel
        The kernel.
    examples : Views
        The examples.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> X = tk.kernels.Views(tree=["(A a)", "(B b)"], number=[1.0, 2.0])
    >>> k = tk.kernels.ViewKernel({"tree": tk.SubsetTreeKernel(1.0), "number": "linear"})
    >>> index = k.index(X)
    >>> index.gram(X[1:])
    array([[2., 5.]])
    >>> index.examples
    <Views: 2 examples of tree, number>
    """

    kernel = HeldKernel[KernelOfViews]()

    def __init__(self, kernel: KernelOfViews, Y: Any) -> None:
        if not isinstance(kernel, KernelOfViews):
            msg = f"kernel must be a kernel of views, got {kernel!r}"
            raise TypeError(msg)
        self.kernel = kernel.replace()
        self.examples = self.kernel._examples(Y)
        self.columns: dict[str, Any] = {}
        for name, column in self.examples.columns.items():
            part = self.kernel._kernel_of(name)
            _check_kernel(name, part, column)
            has_index = isinstance(part, TreeKernel | KernelOfViews)
            self.columns[name] = part.index(column) if has_index else column
        self._norms: Matrix | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle kernel and examples."""
        return ViewIndex, (self.kernel, self.examples)

    def __len__(self) -> int:
        return len(self.examples)

    def __repr__(self) -> str:
        n = len(self)
        return f"<ViewIndex: {n} example{'s' * (n != 1)}, {self.kernel!r}>"

    def gram(
        self,
        X: Any,
        *,
        dtype: DTypeLike = np.float64,
        n_jobs: int | None = None,
        out: NDArray[Any] | None = None,
        progress: Progress | bool | None = None,
    ) -> NDArray[Any]:
        """Compute the kernels of all examples of X with all indexed examples.

        Parameters
        ----------
        X : Views, DataFrame or mapping of str to columns
            The examples.
        dtype, n_jobs, out, progress
            As in the kernel's `gram`.

        Returns
        -------
        ndarray, shape (len(X), len(index))
            ``kernel(X, Y)``, bit for bit.
        """
        kernel = self.kernel
        return kernel._gram(kernel._examples(X), self, dtype, n_jobs, out, progress)

    def _own(self, n_jobs: int | None) -> Matrix:
        """Compute the kernels of the examples with themselves, once."""
        if self._norms is None:
            self._norms = self.kernel._raw_pairs(self.examples, None, n_jobs)
        return self._norms


class ViewKernel(KernelOfViews):
    """The sum or the product of kernels of several views.

    Parameters
    ----------
    kernels : dict of str to kernel
        A kernel for each view. For trees, pairs and views, a kernel of these. For numbers, a
        `VectorPolynomial`, "linear", "cosine", "rbf" (with gamma 1 / number of columns, as
        in scikit-learn), or a callable that takes two columns and returns a matrix.
    weights : dict or sequence of float, optional
        Factors of the views in a sum, finite and not negative; 1 by default.
    combine : {"sum", "product"}
        Whether the values of the views are added or multiplied.
    normalize : bool, default False
        Divide the result by the root of the product of both self-kernels. Each part has its
        own `normalize`.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> X = tk.kernels.Views(
    ...     question=["(S (A a) (B b))", "(S (A a) (B c))"], numbers=[[1.0, 0.0], [1.0, 1.0]]
    ... )
    >>> k = tk.kernels.ViewKernel({"question": tk.SubsetTreeKernel(1.0), "numbers": "linear"})
    >>> k(X)
    array([[7., 4.],
           [4., 8.]])
    >>> k.replace(weights={"numbers": 0.5}, question__decay=0.4)(X).round(3)
    array([[2.084, 1.46 ],
           [1.46 , 2.584]])
    >>> k.replace(combine="product").pair(X[0], X[1])
    3.0
    """

    kernels: dict[str, Any]
    weights: Any
    combine: str

    def __init__(
        self,
        kernels: Mapping[str, Any],
        *,
        weights: Mapping[str, float] | Sequence[float] | None = None,
        combine: str = "sum",
        normalize: bool = False,
    ) -> None:
        self._remember(
            kernels=kernels, weights=weights, combine=combine, normalize=normalize
        )

    def _parts(self) -> dict[str, Parameters]:
        kernels = dict(self.kernels).items()
        return {name: k for name, k in kernels if isinstance(k, Parameters)}

    def _changed(self, changes: dict[str, Any]) -> dict[str, Any]:
        own = {n: value for n, value in changes.items() if n in self._defaults}
        new = super()._changed(own)
        kernels = dict(new["kernels"])
        for name, value in changes.items():
            if name in kernels and name not in own:
                kernels[name] = value
        for name, value in changes.items():
            if name in own or name in kernels:
                continue
            view = max((v for v in kernels if name.startswith(f"{v}__")), default=None)
            if view is None or not isinstance(kernels[view], Parameters):
                self._check_names({name: value})
            else:
                parameter = name.removeprefix(f"{view}__")
                kernels[view] = kernels[view].replace(**{parameter: value})
        return {**new, "kernels": kernels}

    def _names(self) -> list[str]:
        if not isinstance(self.kernels, Mapping) or not self.kernels:
            msg = f"kernels must map names of views to kernels, got {self.kernels!r}"
            raise ValueError(msg)
        return list(self.kernels)

    def _kernel_of(self, name: str) -> Any:
        return self.kernels[name]

    def _factors(self) -> list[float]:
        if self.combine not in ("sum", "product"):
            msg = f"combine must be 'sum' or 'product', got {self.combine!r}"
            raise ValueError(msg)
        names, weights = self._names(), self.weights
        if weights is None:
            return [1.0] * len(names)
        if self.combine == "product":
            msg = f"weights must be None for a product, got {weights!r}"
            raise ValueError(msg)
        if isinstance(weights, Mapping):
            if unknown := [name for name in weights if name not in names]:
                msg = f"weights must be of {', '.join(names)}, got {unknown[0]!r}"
                raise ValueError(msg)
            weights = [weights.get(name, 1.0) for name in names]
        if len(weights) != len(names):
            msg = f"weights must be {len(names)}, one per view, got {len(weights)}"
            raise ValueError(msg)
        factors = [check_number("weights", weight) for weight in weights]
        if not all(0 <= factor < np.inf for factor in factors):
            msg = f"weights must be finite and not negative, got {self.weights!r}"
            raise ValueError(msg)
        return factors

    def _combined(self, x: Views, of: Callable[[int, str, Any], Matrix]) -> Matrix:
        """Combine what a function gives for every view."""
        total: Any = None
        factors = self._factors()
        for number, (name, kernel) in enumerate(self.kernels.items()):
            _check_kernel(name, kernel, x.columns[name])
            values = of(number, name, kernel)
            if factors[number] != 1.0:
                values = factors[number] * values
            if total is None:
                total = values
            else:
                total = total + values if self.combine == "sum" else total * values
        return np.asarray(total, np.float64)

    def _raw(self, x: Views, y: Any, n_jobs: int | None, tell: Any) -> Matrix:
        n = len(x)

        def matrix(number: int, name: str, kernel: Any) -> Matrix:
            def told(done: int, total: int) -> None:
                tell(number * n + min(done, n), len(self.kernels) * n)

            other = None if y is None else y.columns[name]
            told_to = told if tell else None
            values = _matrix(kernel, x.columns[name], other, n_jobs, told_to)
            if tell:
                told(n, n)
            return values

        return self._combined(x, matrix)

    def _raw_pairs(self, x: Views, y: Views | None, n_jobs: int | None) -> Matrix:
        def paired(_: int, name: str, kernel: Any) -> Matrix:
            other = None if y is None else y.columns[name]
            return _pairs(kernel, x.columns[name], other, n_jobs)

        return self._combined(x, paired)


class PreferenceKernel(KernelOfViews):
    """The kernel of pairs of candidates: K(a1,b1) + K(a2,b2) - K(a1,b2) - K(a2,b1).

    An example is a pair of candidates, of which the first is better or worse than the
    second. A machine that separates these two cases ranks candidates (Herbrich et al. 2000;
    for parses Collins & Duffy 2002). The kernel is the dot product of the differences, so
    what both candidates have in common does not count. `TreeRanker` solves the same problem
    over single trees, without the pairs.

    Parameters
    ----------
    base : kernel
        The kernel of candidates: of trees, pairs or views, or of numbers as in `ViewKernel`.
    first, second : str
        The names of the views that hold the candidates.
    normalize : bool, default False
        Divide by the root of the product of both self-kernels.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> X = tk.kernels.Views(first=["(S (A a))", "(S (B b))"], second=["(S (B b))", "(S (A a))"])
    >>> tk.kernels.PreferenceKernel(tk.SubsetTreeKernel(1.0))(X)
    array([[ 6., -6.],
           [-6.,  6.]])
    """

    base: Any
    first: str
    second: str

    def __init__(
        self,
        base: Any,
        *,
        first: str = "first",
        second: str = "second",
        normalize: bool = False,
    ) -> None:
        self._remember(base=base, first=first, second=second, normalize=normalize)

    def _names(self) -> list[str]:
        return [self.first, self.second]

    def _kernel_of(self, name: str) -> Any:
        return self.base

    def _both(self, x: Any) -> tuple[Any, Any]:
        both = x.columns[self.first], x.columns[self.second]
        if isinstance(x, ViewIndex):
            return both
        for name, column in zip(self._names(), both, strict=True):
            _check_kernel(name, self.base, column)
        return both

    def _raw(self, x: Views, y: Any, n_jobs: int | None, tell: Any) -> Matrix:
        n, (a1, a2) = len(x), self._both(x)

        def matrix(number: int, of: Any, other: Any, n_parts: int) -> Matrix:
            def told(done: int, total: int) -> None:
                tell(number * n + min(done, n), n_parts * n)

            values = _matrix(self.base, of, other, n_jobs, told if tell else None)
            if tell:
                told(n, n)
            return values

        if y is None:
            own = matrix(0, a1, None, 3) + matrix(1, a2, None, 3)
            crossed = matrix(2, a1, a2, 3)
            symmetric: Matrix = own - (crossed + crossed.T)
            return symmetric
        b1, b2 = self._both(y)
        own = matrix(0, a1, b1, 4) + matrix(1, a2, b2, 4)
        return own - (matrix(2, a1, b2, 4) + matrix(3, a2, b1, 4))

    def _raw_pairs(self, x: Views, y: Views | None, n_jobs: int | None) -> Matrix:
        a1, a2 = self._both(x)
        b1, b2 = (a1, a2) if y is None else self._both(y)

        def paired(of: Any, other: Any) -> Matrix:
            return _pairs(self.base, of, other, n_jobs)

        if y is None:
            own = paired(a1, None) + paired(a2, None) - 2.0 * paired(a1, a2)
            # Only rounding makes it negative.
            return np.maximum(own, 0.0)
        return paired(a1, b1) + paired(a2, b2) - (paired(a1, b2) + paired(a2, b1))


def _one(value: Any) -> Any:
    """Make a column of one entry."""
    if isinstance(value, dict):
        return Views({name: _one(part) for name, part in value.items()})
    if hasattr(value, "tocsr"):
        return value
    if isinstance(value, np.ndarray):
        return value.reshape(1, -1)
    return [value]


def _root(values: Matrix) -> Matrix:
    roots: Matrix = np.sqrt(np.maximum(values, 0.0))
    return roots


def _normalized(values: Matrix, rows: Matrix, columns: Matrix) -> Matrix:
    norms, cosines = rows * columns, np.zeros_like(values)
    np.divide(values, norms, out=cosines, where=norms > 0)
    return cosines


# --- Kernels of one view --------------------------------------------------------------


def _matrix(kernel: Any, x: Any, y: Any, n_jobs: int | None, tell: Any) -> Matrix:
    """Compute all kernels of x with y (of x, where it is None), which may be an index."""
    if isinstance(y, TreeIndex | ViewIndex):
        indexed: Matrix = y.gram(x, n_jobs=n_jobs, progress=tell)
        return indexed
    if isinstance(kernel, TreeKernel | PairKernel | KernelOfViews):
        matrix: Matrix = kernel.gram(x, y, n_jobs=n_jobs, progress=tell)
        return matrix
    if not callable(kernel):
        other = x if y is None else y
        dots = x @ other.T
        dots = dots.toarray() if hasattr(dots, "toarray") else dots
        squares = _squares(x, x)[:, None], _squares(other, other)[None, :]
        values = _of_dots(kernel, dots, *squares, x.shape[1])
        if y is None and kernel in ("cosine", "rbf"):
            np.fill_diagonal(values, _of_own(kernel, squares[0].ravel(), x.shape[1]))
    else:
        values = np.asarray(kernel(x, x if y is None else y), np.float64)
    shape = (length_of(x), length_of(x if y is None else y))
    if values.shape != shape:
        msg = f"a kernel must return a matrix of shape {shape}, got {values.shape}"
        raise ValueError(msg)
    return values


def _pairs(kernel: Any, x: Any, y: Any, n_jobs: int | None) -> Matrix:
    """Compute the kernels of row n of x with row n of y; y None: of x with itself."""
    if isinstance(kernel, TreeKernel | PairKernel | KernelOfViews):
        values: Matrix = (
            kernel.diag(x, n_jobs=n_jobs)
            if y is None
            else kernel.pairs(x, y, n_jobs=n_jobs)
        )
        return values
    if not callable(kernel):
        if y is None:
            return _of_own(kernel, _squares(x, x), x.shape[1])
        squares = _squares(x, x), _squares(y, y)
        return _of_dots(kernel, _squares(x, y), *squares, x.shape[1])
    other, found = x if y is None else y, [np.zeros(0)]
    for start in range(0, length_of(x), 64):
        some = slice(start, start + 64)
        found.append(np.diagonal(_matrix(kernel, x[some], other[some], n_jobs, None)))
    return np.concatenate(found)


def _squares(x: Any, y: Any) -> Matrix:
    """Compute the dot products of rows."""
    products = x.multiply(y) if hasattr(x, "multiply") else x * y
    return np.asarray(products.sum(axis=1), np.float64).ravel()


def _of_own(kernel: Any, squares: Matrix, width: int) -> Matrix:
    if kernel == "rbf":
        return np.ones_like(squares)
    if kernel == "cosine":
        return (squares > 0).astype(np.float64)
    return _of_dots(kernel, squares, squares, squares, width)


def _of_dots(kernel: Any, dots: Matrix, xx: Matrix, yy: Matrix, width: int) -> Matrix:
    """Compute kernels of vectors from dot products."""
    if isinstance(kernel, VectorPolynomial):
        degree, coef0, gamma = kernel._core
        powers: Matrix = (gamma * dots + coef0) ** degree
        return powers
    if kernel == "cosine":
        norms = np.sqrt(xx) * np.sqrt(yy)
        cosines: Matrix = np.zeros_like(norms)
        np.divide(dots, norms, out=cosines, where=norms > 0)
        return cosines
    if kernel == "rbf":
        distances = np.maximum(xx + yy - 2.0 * dots, 0.0)
        similar: Matrix = np.exp(-distances / max(1, width))
        return similar
    return np.asarray(dots, np.float64)


def _check_kernel(name: str, kernel: Any, column: Any) -> None:
    """Find a kernel to be one for a column."""
    if isinstance(kernel, TreeKernel):
        right, what = isinstance(column, Forest), "trees"
    elif isinstance(kernel, PairKernel):
        right, what = isinstance(column, PairForest), "pairs of trees"
    elif isinstance(kernel, KernelOfViews):
        right, what = isinstance(column, Views), "views"
    elif (
        isinstance(kernel, VectorPolynomial)
        or callable(kernel)
        or (isinstance(kernel, str) and kernel in _VECTORS)
    ):
        right, what = not isinstance(column, Forest | PairForest | Views), "numbers"
        right = right or callable(kernel)
    else:
        msg = (
            f"the kernel of {name!r} must be one of trees, pairs or views, a "
            f"VectorPolynomial, a callable, or one of {', '.join(map(repr, _VECTORS))}, "
            f"got {kernel!r}"
        )
        raise ValueError(msg)
    if not right:
        msg = f"{kernel!r} is a kernel of {what}, but {name!r} is {column!r}"
        raise TypeError(msg)
