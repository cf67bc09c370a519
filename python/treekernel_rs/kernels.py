"""Tree kernels: four ways to count the fragments that two trees share.

A kernel object holds parameters only, which are checked when it is used. Calling it with
trees gives a matrix.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import time
import warnings
from collections.abc import Mapping
from functools import partial
from numbers import Real
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
    Protocol,
    Self,
    TypeAlias,
    TypeVar,
    overload,
)
from weakref import WeakValueDictionary

import numpy as np

from treekernel_rs._core import Forest, Kernel, Tree, as_forest, as_tree
from treekernel_rs._extras import needs
from treekernel_rs.neighbors import Neighbors, SimilarPairs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import DTypeLike, NDArray
    from scipy.sparse.linalg import LinearOperator

    from treekernel_rs._core import KernelRows
    from treekernel_rs.algebra import (
        PowerKernel,
        ProductKernel,
        ScaledKernel,
        SumKernel,
    )
    from treekernel_rs.index import TreeIndex
    from treekernel_rs.similarity import Similarity
    from treekernel_rs.weights import FittedWeights

    Trees = Forest | Sequence[str | bytes] | Sequence[Tree] | Iterable[Forest]
    WeightKey: TypeAlias = str | tuple[str, tuple[str, ...]] | None
    Weights: TypeAlias = Mapping[Any, float] | FittedWeights
    Progress = Callable[[int, int], object]

__all__ = [
    "ElasticTreeKernel",
    "PartialTreeKernel",
    "SubpathKernel",
    "SubsetTreeKernel",
    "SubtreeKernel",
    "kernel_from_json",
]

#: Every tree kernel, by its name; those made of others; and what else `kernel_from_json`
#: reads.
_KERNELS: dict[str, type[TreeKernel]] = {}
_COMPOSED: dict[str, type[TreeKernel]] = {}
_SAVED: dict[str, type[Parameters]] = {}


class _Bar(Protocol):
    def __call__(self, done: int, total: int) -> object: ...


class Parameters:
    """An object that is its constructor's parameters.

    It only stores them. They are checked when it is used: so an invalid value can be set,
    cloned, pickled and put into a grid, and raises its error when it is tried.
    """

    #: Constructor parameters, in order, with their defaults.
    _defaults: dict[str, Any]
    #: What JSON has besides.
    _also_stored: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        if "__init__" in vars(cls):
            _, *parameters = inspect.signature(cls.__init__).parameters.values()
            cls._defaults = {p.name: p.default for p in parameters}
            _SAVED.setdefault(cls.__name__, cls)

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse: assigning an attribute would also change what other objects hold."""
        msg = (
            f"{type(self).__name__}: attributes cannot be set, got {name!r}; "
            f"replace({name}=...) makes another one"
        )
        raise AttributeError(msg)

    def _remember(self, **parameters: object) -> None:
        # Scalars of numpy's as Python's: so they are written and read back.
        vars(self).update(
            (name, value.item() if isinstance(value, np.generic) else value)
            for name, value in parameters.items()
        )
        vars(self).pop("_checked", None)

    #: Parts may be changed in place, so what computes is not kept.
    _is_composed: ClassVar[bool] = False

    @property
    def _core(self) -> Any:
        """The native object; made, and the parameters checked, at its first use."""
        if self._is_composed or "_checked" not in vars(self):
            vars(self)["_checked"] = self._make()
        return vars(self)["_checked"]

    def _make(self) -> Any:
        raise NotImplementedError

    @property
    def _parameters(self) -> dict[str, Any]:
        return {name: vars(self)[name] for name in self._defaults}

    def __repr__(self) -> str:
        """Show the first parameter and those that differ from their defaults."""
        (_, first), *rest = self._parameters.items()
        changed = [(name, v) for name, v in rest if v != self._defaults[name]]
        shown = [repr(first), *(f"{name}={value!r}" for name, value in changed)]
        return f"{type(self).__name__}({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        """Compare class and parameters."""
        if type(other) is not type(self):
            return NotImplemented
        return self._parameters == other._parameters

    # `set_params` changes the values that are compared: a hash would change with them.
    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the parameters."""
        return _rebuild, (type(self), self._parameters)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters and their values, as in scikit-learn.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> tk.ElasticTreeKernel(0.3).get_params()
        {'decay': 0.3, 'weights': None, 'normalize': False}
        >>> sorted((tk.ElasticTreeKernel(0.3) ** 2).get_params())
        ['base', 'base__decay', 'base__normalize', 'base__weights', 'degree', 'normalize']
        """
        if not deep:
            return self._parameters
        parts = self._parts()
        nested = {
            f"{name}__{parameter}": value
            for name, part in parts.items()
            for parameter, value in part.get_params().items()
        }
        return {**parts, **nested, **self._parameters}

    def _parts(self) -> dict[str, Parameters]:
        """Kernels that this one is made of, by the names of their parameters."""
        parameters = self._parameters.items()
        return {name: p for name, p in parameters if isinstance(p, Parameters)}

    def _changed(self, changes: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters after changes; ``part__name`` makes a new part."""
        own = {n: value for n, value in changes.items() if "__" not in n}
        self._check_names(own)
        # A new part comes before changes to it, whatever their order in a grid.
        new = {**self._parameters, **own}
        for name, value in changes.items():
            if name in own:
                continue
            part, _, parameter = name.partition("__")
            kernel = new.get(part)
            if isinstance(kernel, Parameters):
                new[part] = kernel.replace(**{parameter: value})
            else:
                self._check_names({name: value})
        return new

    def replace(self, **changes: Any) -> Self:
        """Make a kernel that differs in some parameters.

        Parts of kernels made of kernels are copied, and changed as ``left__decay=0.2``.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> tk.SubsetTreeKernel(0.4, normalize=True).replace(decay=0.2)
        SubsetTreeKernel(0.2, normalize=True)
        """
        new = self._changed(changes)
        return type(self)(**{name: _copied(value) for name, value in new.items()})

    __replace__ = replace  # copy.replace of Python 3.13

    def set_params(self, **changes: Any) -> Self:
        """Change parameters in place, as scikit-learn does with its clones.

        This is for estimators of scikit-learn that hold a kernel: ``SVC(kernel=k)`` and a
        search over ``kernel__decay``. Elsewhere use `replace`, which does not change this
        object. Models and estimators of this package keep the parameters that they were
        made with.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> tk.SubsetTreeKernel(0.4).set_params(decay=0.2)
        SubsetTreeKernel(0.2)
        """
        new = self._changed(changes)
        self._leave_copies()
        self._remember(**new)
        return self

    def _nested(self) -> Iterator[Parameters]:
        """Go through this object and all kernels that it is made of."""
        yield self
        for part in self._parts().values():
            yield from part._nested()

    def _hold(self, holder: object, name: str) -> None:
        """Remember an object with this one as an attribute that others may not change."""
        for part in self._nested():
            if (holders := vars(part).get("_holders")) is None:
                holders = vars(part)["_holders"] = WeakValueDictionary()
            holders[id(holder), name] = holder

    def _leave_copies(self) -> None:
        """Give holders a copy of what they hold: this object, or what has it as a part."""
        holders: Mapping[tuple[int, str], object] = vars(self).pop("_holders", {})
        for (_, name), holder in list(holders.items()):
            held = vars(holder).get(name)
            if isinstance(held, Parameters) and any(p is self for p in held._nested()):
                vars(holder)[name] = held.replace()

    def _check_names(self, changes: dict[str, Any]) -> None:
        for name in changes:
            if name not in self._defaults:
                msg = (
                    f"{type(self).__name__} has no parameter {name!r}; "
                    f"it has {', '.join(self._defaults)}"
                )
                raise ValueError(msg)

    def to_json(self) -> str:
        """Write class and parameters as JSON, for `kernel_from_json`.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> text = tk.ElasticTreeKernel(0.3).to_json()
        >>> text
        '{"version": 1, "kernel": "ElasticTreeKernel", "decay": 0.3, "normalize": false}'
        >>> tk.kernel_from_json(text)
        ElasticTreeKernel(0.3)
        """
        return json.dumps(_saved(self), default=_saved)

    def _stored(self) -> dict[str, Any]:
        """Return the parameters as JSON has them; kernels in them as they are."""
        return self._parameters

    @classmethod
    def _read(cls, stored: dict[str, Any]) -> Self:
        """Make what `_stored` told of this class."""
        return cls(**stored)

    def __sklearn_clone__(self) -> Self:
        return self.replace()


class TreeKernel(Parameters):
    """The methods of all tree kernels."""

    #: What the kernel is called in Rust.
    _name: str
    normalize: bool
    weights: Weights | None
    #: Whether productions may have weights of their own.
    _has_productions = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        known = _COMPOSED if cls._is_composed else _KERNELS
        if "__init__" in vars(cls) and (
            cls._is_composed or TreeKernel in cls.__bases__
        ):
            cls._name = cls.__name__.removesuffix("Kernel")
            known[cls.__name__] = cls

    @property
    def _core(self) -> Kernel:
        if self._has_weights():
            # They may have been changed, or fitted again.
            vars(self).pop("_checked", None)
        return super()._core  # type: ignore[no-any-return]

    def _has_weights(self) -> bool:
        kernels = [p for p in self._parts().values() if isinstance(p, TreeKernel)]
        own = vars(self).get("weights") is not None
        return own or any(kernel._has_weights() for kernel in kernels)

    def _stored(self) -> dict[str, Any]:
        stored = super()._stored()
        # Left out, so that what needs neither is read by earlier versions.
        for later in ("counts", "weights"):
            if later in stored and stored[later] == self._defaults[later]:
                stored = {n: value for n, value in stored.items() if n != later}
        weights = stored.get("weights")
        if isinstance(weights, Mapping):
            stored = {**stored, "weights": _pairs_of(weights)}
        return stored

    @classmethod
    def _read(cls, stored: dict[str, Any]) -> Self:
        if isinstance(weights := stored.get("weights"), list):
            stored = {**stored, "weights": _of_pairs(weights)}
        return super()._read(stored)

    def _make(self) -> Kernel:
        parameters = self._parameters
        _flag(parameters.pop("normalize"))
        weights, counts = parameters.pop("weights"), parameters.pop("counts", "linear")
        return self._weighted(Kernel(self._name, parameters), weights, counts)

    def _weighted(self, kernel: Kernel, weights: Any, counts: Any) -> Kernel:
        if not isinstance(counts, str):
            msg = f"counts must be 'linear', 'log' or 'set', got {counts!r}"
            raise TypeError(msg)
        if weights is None and counts == "linear":
            return kernel
        return kernel.weighted(*_weights(weights, self._has_productions), counts)

    @overload
    def __add__(self, other: TreeKernel) -> SumKernel: ...
    @overload
    def __add__(self, other: object) -> TreeKernel: ...
    def __add__(self, other: object) -> TreeKernel:
        """Make the sum of two kernels; `sum` of several begins with 0."""
        if isinstance(other, TreeKernel):
            made: SumKernel = _composed("SumKernel", self, other)
            return made
        is_nothing = isinstance(other, Real) and other == 0
        return self if is_nothing else NotImplemented

    __radd__ = __add__

    @overload
    def __mul__(self, other: TreeKernel) -> ProductKernel: ...
    @overload
    def __mul__(self, other: float | np.number[Any]) -> ScaledKernel: ...
    def __mul__(self, other: object) -> TreeKernel:
        """Make the product with a kernel or a number."""
        if isinstance(other, TreeKernel):
            made: ProductKernel = _composed("ProductKernel", self, other)
            return made
        return self.__rmul__(other)

    def __rmul__(self, factor: object) -> ScaledKernel:
        if not isinstance(factor, Real):
            return NotImplemented
        made: ScaledKernel = _composed("ScaledKernel", factor, self)
        return made

    def __pow__(self, degree: object) -> PowerKernel:
        """Make the power of a whole number."""
        if not isinstance(degree, Real):
            return NotImplemented
        made: PowerKernel = _composed("PowerKernel", self, degree)
        return made

    #: Numbers of numpy's leave multiplication to the kernel.
    __array_ufunc__ = None

    def __call__(self, X: Trees, Y: Trees | None = None) -> NDArray[np.float64]:
        """Compute the kernels of all trees of X with all trees of Y.

        Parameters
        ----------
        X, Y : Forest or sequence of str
            The trees. They need not come from the same forest. Without Y, the kernels of
            X with itself.

        Returns
        -------
        ndarray of float64, shape (len(X), len(Y))
            Without Y it is symmetric, bit for bit.
        """
        return self._matrix(X, Y, np.float64, None, None, None)

    @overload
    def gram(
        self,
        X: Trees,
        Y: Trees | None = None,
        *,
        dtype: DTypeLike = ...,
        n_jobs: int | None = ...,
        out: NDArray[Any] | None = ...,
        progress: Progress | bool | None = ...,
        gradient: Literal[False] = ...,
    ) -> NDArray[Any]: ...
    @overload
    def gram(
        self,
        X: Trees,
        Y: Trees | None = None,
        *,
        dtype: DTypeLike = ...,
        n_jobs: int | None = ...,
        out: NDArray[Any] | None = ...,
        progress: Progress | bool | None = ...,
        gradient: Literal[True],
    ) -> tuple[NDArray[Any], dict[str, NDArray[np.float64]]]: ...
    def gram(
        self,
        X: Trees,
        Y: Trees | None = None,
        *,
        dtype: DTypeLike = np.float64,
        n_jobs: int | None = None,
        out: NDArray[Any] | None = None,
        progress: Progress | bool | None = None,
        gradient: bool = False,
    ) -> NDArray[Any] | tuple[NDArray[Any], dict[str, NDArray[np.float64]]]:
        """Compute a kernel matrix, with all options.

        Parameters
        ----------
        X, Y : Forest or sequence of str
            The trees; without Y, those of X with each other.
        dtype : float64 or float32
            Type of the result; that of `out` where it is given.
        n_jobs : int, optional
            Threads; by default and for -1 all cores the process may use, with 1 only the
            caller's thread. There are never more threads than cores or parts of the work.
            The result does not depend on it, bit for bit.
        out : ndarray or memmap, optional
            C-contiguous float64 or float32 matrix to fill, block by block. With a memmap
            the matrix may be larger than memory.
        progress : callable or True, optional
            Called with the number of rows done and the number of all rows; True shows a
            progress bar (of tqdm if it is installed).
        gradient : bool, default False
            Whether to return the derivatives by the real parameters of the kernel as well.
            They are exact, and computed pair by pair.

        Returns
        -------
        ndarray, shape (len(X), len(Y))
            `out` if it is given.
        dict of str to ndarray of float64, shape (len(X), len(Y))
            With `gradient`: the derivatives by the name of the parameter.

        Raises
        ------
        OverflowError
            If a value is too large for the type; names the two trees.

        Examples
        --------
        >>> import numpy as np, treekernel_rs as tk
        >>> k = tk.SubsetTreeKernel(0.4)
        >>> k.gram(["(S (A a) (B b))", "(S (A a) (B c))"], dtype=np.float32).round(2)
        array([[1.58, 0.96],
               [0.96, 1.58]], dtype=float32)
        >>> K, slopes = k.gram(["(S (A a) (B b))", "(S (A a) (B c))"], gradient=True)
        >>> slopes["decay"].round(2)
        array([[5.08, 2.8 ],
               [2.8 , 5.08]])
        """
        if not gradient:
            return self._matrix(X, Y, dtype, n_jobs, out, progress)
        x = as_forest(X)
        y = None if Y is None else as_forest(Y)
        matrix = self._matrix(x, y, dtype, n_jobs, out, None)
        return matrix, self._slopes(x, y, n_jobs, progress)

    def _slopes(
        self,
        x: Forest,
        y: Forest | None,
        n_jobs: int | None = None,
        progress: Progress | bool | None = None,
    ) -> dict[str, NDArray[np.float64]]:
        """Compute the derivatives of the matrix by each real parameter."""
        names = self._core.parameter_names
        shape = (len(names), len(x), len(x if y is None else y))
        out = np.zeros((shape[0] * shape[1], shape[2]))
        tell = self._tell(progress)
        self._core.gradient(x, y, out, self.normalize, _jobs(n_jobs), tell)
        return dict(zip(names, out.reshape(shape), strict=True))

    def _matrix(
        self,
        X: Trees,
        Y: Trees | None,
        dtype: DTypeLike,
        n_jobs: int | None,
        out: NDArray[Any] | None,
        progress: Progress | bool | None,
    ) -> NDArray[Any]:
        x = as_forest(X)
        y = None if Y is None else as_forest(Y)
        shape = (len(x), len(x if y is None else y))
        if out is None:
            out = np.empty(shape, _float_type(dtype))
        else:
            _check_out(out, shape, dtype)
        tell = self._tell(progress)
        rows, columns = self._core.gram(x, y, out, self.normalize, _jobs(n_jobs), tell)
        _warn_of_both(rows, columns, y, stacklevel=5)
        return out

    def diag(self, X: Trees, *, n_jobs: int | None = None) -> NDArray[np.float64]:
        """Compute the kernel of each tree with itself.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> tk.SubsetTreeKernel(1.0).diag(["(S (A a) (B b))", "(A a)"])
        array([6., 1.])
        """
        values, zeros = self._core.diagonal(as_forest(X), self.normalize, _jobs(n_jobs))
        _warn_of_zeros(zeros, "X", stacklevel=3)
        return values

    def rows(self, X: Trees, *, n_jobs: int | None = None) -> KernelRows:
        """Prepare the rows of the matrix of X with itself, to compute them on demand.

        For algorithms that need single rows but cannot hold the matrix. The trees are
        indexed once, and a normalised kernel computes the self-kernels once.

        Parameters
        ----------
        X : Forest or sequence of str
            The trees.
        n_jobs : int, optional
            Threads for self-kernels and for several rows at once, as in `gram`.

        Returns
        -------
        KernelRows
            ``rows[i]`` is row ``i`` of ``k(X, X)``, ``rows[indices]`` some of its rows.

        Raises
        ------
        OverflowError
            By ``rows[i]``, if a value is too large; names the two trees.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> X = ["(S (A a) (B b))", "(S (A a) (B c))", "(A a)"]
        >>> rows = tk.SubsetTreeKernel(0.4).rows(X)
        >>> len(rows), rows[2].tolist()
        (3, [0.4, 0.4, 0.4])
        >>> rows[[0, 1]].round(3)
        array([[1.584, 0.96 , 0.4  ],
               [0.96 , 1.584, 0.4  ]])
        """
        rows, zeros = self._core.rows(as_forest(X), self.normalize, _jobs(n_jobs))
        _warn_of_zeros(zeros, "X", stacklevel=3)
        return rows

    def index(self, Y: Trees) -> TreeIndex:
        """Make an index of trees, for many queries. The index can grow.

        Parameters
        ----------
        Y : Forest or sequence of str
            The trees.

        Returns
        -------
        TreeIndex
            Its `gram`, `rows`, `top_k` and `join` return what those of this kernel return
            for Y, but do not index Y again.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> index = tk.SubsetTreeKernel(0.5).index(["(A a)", "(B b)"])
        >>> index.gram(["(S (A a))"]), len(index)
        (array([[0.5, 0. ]]), 2)
        """
        from treekernel_rs.index import TreeIndex

        return TreeIndex(self, Y)

    def operator(
        self, X: Trees, Y: Trees | None = None, *, n_jobs: int | None = None
    ) -> LinearOperator:
        """Make the matrix of X and Y as a linear operator that is never stored.

        To multiply a vector, a `DagModel` of the trees of Y with the vector as weights
        scores the trees of X. This takes time linear in the trees. Use the operator with
        SciPy's solvers and eigenvalue functions. Needs SciPy.

        Parameters
        ----------
        X : Forest or sequence of str
            The trees of the rows.
        Y : Forest or sequence of str, optional
            The trees of the columns; by default those of X.
        n_jobs : int, optional
            Threads, as in `gram`.

        Returns
        -------
        scipy.sparse.linalg.LinearOperator of float64, shape (len(X), len(Y))

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> X = ["(S (A a) (B b))", "(S (A a) (B c))", "(A a)"]
        >>> K = tk.SubsetTreeKernel(0.4).operator(X)
        >>> K @ [1.0, -0.5, 0.0]
        array([1.104, 0.168, 0.2  ])
        >>> from scipy.sparse.linalg import eigsh
        >>> eigsh(K, k=1)[0].round(3)
        array([2.684])
        """
        from treekernel_rs.dag import DagModel

        with needs("operator", "SciPy", "sklearn"):
            from scipy.sparse.linalg import LinearOperator

        x = as_forest(X)
        y = x if Y is None else as_forest(Y)

        def product(rows: Forest, columns: Forest, values: Any) -> NDArray[np.float64]:
            weights = np.asarray(values, np.float64)
            # No size is left to be inferred: there may be no rows, or no columns.
            shape = (len(rows), *weights.shape[1:])
            if 0 in (*shape, len(columns)):
                return np.zeros(shape)
            weights = weights.reshape(len(columns), -1)
            model = DagModel(self, weights.shape[1])
            model.add(columns, weights)
            return model.score(rows, n_jobs=n_jobs).reshape(shape)

        forwards, backwards = partial(product, x, y), partial(product, y, x)
        return LinearOperator(
            shape=(len(x), len(y)),
            dtype=np.float64,
            matvec=forwards,
            matmat=forwards,
            rmatvec=backwards,
            rmatmat=backwards,
        )

    def pairs(
        self,
        X: Trees,
        Y: Trees | NDArray[Any] | Sequence[int],
        j: NDArray[Any] | Sequence[int] | None = None,
        *,
        n_jobs: int | None = None,
        progress: Progress | bool | None = None,
    ) -> NDArray[np.float64]:
        """Compute the kernels of single pairs.

        ``pairs(X, Y)`` compares tree n of X with tree n of Y; ``pairs(X, i, j)`` compares
        tree ``i[n]`` of X with tree ``j[n]`` of X. It is fast if the same tree of X occurs
        in many consecutive pairs.

        Parameters
        ----------
        X : Forest or sequence of str
            The trees.
        Y : Forest or sequence of str, or array of int
            As many other trees; with `j`, indices of trees of X.
        j : array of int, optional
            As many indices of trees of X.
        n_jobs : int, optional
            Threads, as in `gram`.
        progress : callable or True, optional
            As in `gram`, by pairs.

        Returns
        -------
        ndarray of float64, shape (number of pairs,)

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> k, X = tk.SubsetTreeKernel(1.0), ["(S (A a) (B b))", "(S (A a) (B c))"]
        >>> k.pairs(X, X)
        array([6., 6.])
        >>> k.pairs(X, [0, 0, 1], [0, 1, 0])
        array([6., 3., 3.])
        """
        x = as_forest(X)
        y: Forest | None = None
        i: Any = Y
        if j is None:
            y = as_forest(Y)
            if len(y) != len(x):
                msg = f"Y has {len(y)} trees, expected {len(x)}, as X"
                raise ValueError(msg)
            i = j = np.arange(len(x))
        tell = self._tell(progress, "pair")
        values, (rows, columns) = self._core.pairs(
            x, y, i, j, self.normalize, _jobs(n_jobs), tell
        )
        if y is None:
            rows = sorted({*rows, *columns})
        _warn_of_both(rows, columns, y)
        return values

    def top_k(
        self,
        X: Trees,
        Y: Trees | None = None,
        *,
        k: int = 10,
        n_jobs: int | None = None,
        progress: Progress | bool | None = None,
    ) -> Neighbors:
        """Find the trees of Y that have the largest kernels with each tree of X.

        Parameters
        ----------
        X, Y : Forest or sequence of str
            The trees. Without Y, the trees of X are compared with the other trees of X.
        k : int, default 10
            How many trees to find for each tree of X; fewer if Y is smaller.
        n_jobs : int, optional
            Threads, as in `gram`. The result does not depend on it, bit for bit.
        progress : callable or True, optional
            As in `gram`.

        Returns
        -------
        Neighbors
            `indices` and `values`, each of shape (len(X), k), the nearest first. If values
            are equal, the lower index comes first.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> X = ["(S (A a) (B b))", "(S (A a) (B c))", "(A a)"]
        >>> found = tk.SubsetTreeKernel(0.4).top_k(X, k=2)
        >>> found.indices.tolist(), found.values.round(2).tolist()
        ([[1, 2], [0, 2], [0, 1]], [[0.96, 0.4], [0.96, 0.4], [0.4, 0.4]])
        """
        k = _at_least_one("k", k)
        x, y = as_forest(X), None if Y is None else as_forest(Y)
        found, (rows, columns) = self._core.top_k(
            x,
            y,
            k,
            self.normalize,
            _jobs(n_jobs),
            self._tell(progress),
        )
        _warn_of_both(rows, columns, y)
        return Neighbors(*found)

    def join(
        self,
        X: Trees,
        Y: Trees | None = None,
        *,
        min_similarity: float = 0.8,
        n_jobs: int | None = None,
        out: Callable[..., object] | None = None,
        progress: Progress | bool | None = None,
    ) -> SimilarPairs:
        """Find all pairs of trees whose kernel is at least `min_similarity`.

        The result is exact: no pair is missed. If the kernel is normalised (and, except for
        `SubtreeKernel`, has no weights), most pairs are ruled out by a bound. If few trees
        are similar, this takes a small part of the time of all rows. The exact value, as
        computed by `pairs`, decides.

        Parameters
        ----------
        X, Y : Forest or sequence of str
            The trees. Without Y, the pairs i < j of X, each once.
        min_similarity : float, default 0.8
            The smallest kernel value of a pair.
        n_jobs : int, optional
            Threads, as in `gram`. The result does not depend on it, bit for bit.
        out : callable, optional
            Called with arrays ``rows, columns, values`` of at most 1,048,576 pairs at a
            time, in place of returning them: for answers larger than memory.
        progress : callable or True, optional
            As in `gram`.

        Returns
        -------
        SimilarPairs
            `rows`, `columns` and `values`, row by row; empty if `out` is given.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> X = ["(S (A a) (B b))", "(S (A a) (B c))", "(S (A a) (B b))"]
        >>> found = tk.SubsetTreeKernel(0.4, normalize=True).join(X)
        >>> found.rows, found.columns, found.values
        (array([0]), array([2]), array([1.]))
        """
        x, y = as_forest(X), None if Y is None else as_forest(Y)
        least, out = _real("min_similarity", min_similarity), _check_sink(out)
        found, (rows, columns) = self._core.join(
            x, y, least, self.normalize, _jobs(n_jobs), self._tell(progress), out
        )
        _warn_of_both(rows, columns, y)
        return SimilarPairs(*found, (len(x), len(x if y is None else y)))

    def _tell(
        self, progress: Progress | bool | None, unit: str = "row"
    ) -> Progress | None:
        return _bar(type(self).__name__, unit) if progress is True else progress or None

    @overload
    def pair(
        self,
        a: Tree | str | object,
        b: Tree | str | object,
        *,
        gradient: Literal[False] = ...,
    ) -> float: ...
    @overload
    def pair(
        self,
        a: Tree | str | object,
        b: Tree | str | object,
        *,
        gradient: Literal[True],
    ) -> tuple[float, dict[str, float]]: ...
    def pair(
        self,
        a: Tree | str | object,
        b: Tree | str | object,
        *,
        gradient: bool = False,
    ) -> float | tuple[float, dict[str, float]]:
        """Compute the kernel of two trees.

        Parameters
        ----------
        a, b : Tree, str or object as in Forest.from_trees
            The trees.
        gradient : bool, default False
            Whether the derivatives by the kernel's real parameters are wanted, too.

        Returns
        -------
        float
            The kernel.
        dict of str to float
            With `gradient`: by the name of a parameter the derivative.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> k = tk.SubsetTreeKernel(1.0)
        >>> k.pair("(S (A a) (B b))", "(S (A a) (B c))")
        3.0
        >>> k.pair("(S (A a) (B b))", "(S (A a) (B c))", gradient=True)  # 2 λ + λ²
        (3.0, {'decay': 4.0, 'leaf_weight': 1.0})
        """
        value = self._core.pair(a, b, self.normalize)
        if not gradient:
            return value
        x, y = (as_forest([as_tree(tree)]) for tree in (a, b))
        slopes = self._slopes(x, y, 1)
        return value, {name: float(slope[0, 0]) for name, slope in slopes.items()}


class SubtreeKernel(TreeKernel):
    r"""ST: shared complete subtrees.

    Every pair of equal subtrees with n inner nodes adds decay^n.

    Parameters
    ----------
    decay : float, default 0.4
        Weight of a subtree per inner node, above 0 and at most 1.
    leaf_weight : float, default 0
        What each pair of leaves with equal labels adds.
    weights : mapping, Idf or LearnedWeights, optional
        Factors of decay for productions: by label of the parent or by production, as
        ``("NP", ("DT", "NN"))`` or ``"NP -> DT NN"``. The key None is for all others, whose
        factor is otherwise 1. The weight of a leaf's label is a factor of `leaf_weight`.
    counts : {"linear", "log", "set"}
        For each subtree, the kernel multiplies a number of one tree by that of the other:
        the count c of the subtree, 1 + log(c), or 1.
    normalize : bool, default False
        Divide by the square root of the product of both self-kernels.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> tk.SubtreeKernel(0.5).pair("(S (A a) (B b))", "(S (A a) (B b))")
    1.125
    """

    _has_productions = True

    decay: float
    leaf_weight: float
    counts: str

    def __init__(
        self,
        decay: float = 0.4,
        *,
        leaf_weight: float = 0.0,
        weights: Weights | None = None,
        counts: str = "linear",
        normalize: bool = False,
    ) -> None:
        self._remember(
            decay=decay,
            leaf_weight=leaf_weight,
            weights=weights,
            counts=counts,
            normalize=normalize,
        )


class SubsetTreeKernel(TreeKernel):
    r"""SST: shared connected parts in which each node has all its children or none.

    Every pair of equal fragments with n productions adds decay^n.

    Parameters
    ----------
    decay : float, default 0.4
        Weight of a fragment per production, above 0 and at most 1.
    leaf_weight : float, default 0
        What each pair of leaves with equal labels adds.
    weights : mapping, Idf or LearnedWeights, optional
        Factors of decay for productions: by label of the parent or by production, as
        ``("NP", ("DT", "NN"))`` or ``"NP -> DT NN"``. The key None is for all others, whose
        factor is otherwise 1. The weight of a leaf's label is a factor of `leaf_weight`.
    normalize : bool, default False
        Divide by the square root of the product of both self-kernels.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> k = tk.SubsetTreeKernel(0.4)
    >>> k(["(S (A a) (B b))", "(S (A a) (B c))"]).round(3)
    array([[1.584, 0.96 ],
           [0.96 , 1.584]])
    """

    _has_productions = True

    decay: float
    leaf_weight: float

    def __init__(
        self,
        decay: float = 0.4,
        *,
        leaf_weight: float = 0.0,
        weights: Weights | None = None,
        normalize: bool = False,
    ) -> None:
        self._remember(
            decay=decay,
            leaf_weight=leaf_weight,
            weights=weights,
            normalize=normalize,
        )


class PartialTreeKernel(TreeKernel):
    r"""PT: shared connected parts, in which any children may be left out.

    The kernel is a sum over all pairs of equal fragments. A pair weighs
    ``mu**nodes * decay**(2 * leaves + gaps)``: nodes and leaves of the fragment, and the
    children that either tree leaves out between two children of a fragment's node.

    Parameters
    ----------
    decay : float, default 0.4
        Weight of a gap, above 0 and at most 1.
    mu : float, default 0.4
        Weight of a fragment per node, above 0 and at most 1.
    leaf_factor : float, default 1
        Weight of each leaf of a fragment that is a leaf of the tree.
    max_children : int, optional
        The largest number of children of a node in a fragment; no limit by default.
    weights : mapping, Idf or LearnedWeights, optional
        Factors of mu by label; None: of all others, 1 where it is not given.
    normalize : bool, default False
        Divide by the square root of the product of both self-kernels.
    similarity : PairSimilarity, VectorSimilarity or ComposedSimilarity, optional
        The similarity of labels, for the smoothed kernels SPTK and CSPTK. Pairs of fragments
        of the same shape then weigh the product of the similarities of their labels as
        well. By default labels are equal or different.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> round(tk.PartialTreeKernel().pair("(A b)", "(A b)"), 4)
    0.1536
    >>> k = tk.PartialTreeKernel(similarity=tk.PairSimilarity({("cat", "dog"): 0.8}))
    >>> round(k.pair("(N (cat))", "(N (dog))"), 6)
    0.13568
    """

    decay: float
    mu: float
    leaf_factor: float
    max_children: int | None
    similarity: Similarity | None

    def __init__(
        self,
        decay: float = 0.4,
        mu: float = 0.4,
        *,
        leaf_factor: float = 1.0,
        max_children: int | None = None,
        weights: Weights | None = None,
        normalize: bool = False,
        similarity: Similarity | None = None,
    ) -> None:
        self._remember(
            decay=decay,
            mu=mu,
            leaf_factor=leaf_factor,
            max_children=max_children,
            weights=weights,
            normalize=normalize,
            similarity=similarity,
        )

    def _make(self) -> Kernel:
        parameters = self._parameters
        similarity = parameters.pop("similarity")
        _flag(parameters.pop("normalize"))
        if not (similarity is None or hasattr(similarity, "_table")):
            msg = f"similarity must be a PairSimilarity or the like, got {similarity!r}"
            raise TypeError(msg)
        weights = parameters.pop("weights")
        if not (similarity is None or weights is None):
            msg = "similarity and weights are not to be had together: leave out one of them"
            raise ValueError(msg)
        kernel = Kernel(self._name, parameters, similarity)
        return self._weighted(kernel, weights, "linear")


class ElasticTreeKernel(TreeKernel):
    r"""ET: shared parts that keep order and ancestry but may skip nodes.

    Every pair of equal fragments with n nodes adds decay^n.

    Parameters
    ----------
    decay : float, default 0.4
        Weight of a fragment per node, above 0 and at most 1.
    weights : mapping, Idf or LearnedWeights, optional
        Factors of decay by label. The key None is for all other labels, whose factor is
        otherwise 1.
    normalize : bool, default False
        Divide by the square root of the product of both self-kernels.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> tk.ElasticTreeKernel(1.0).pair("(A b)", "(A (X b))")
    3.0
    """

    decay: float

    def __init__(
        self,
        decay: float = 0.4,
        *,
        weights: Weights | None = None,
        normalize: bool = False,
    ) -> None:
        self._remember(decay=decay, weights=weights, normalize=normalize)


class SubpathKernel(TreeKernel):
    r"""Shared paths: the labels from a node down to one of its descendants.

    Every pair of equal paths with n nodes adds decay^n.

    Parameters
    ----------
    decay : float, default 0.4
        Weight of a path per node, above 0 and at most 1.
    weights : mapping, Idf or LearnedWeights, optional
        Factors of decay by label. The key None is for all other labels, whose factor is
        otherwise 1.
    counts : {"linear", "log", "set"}
        For each path, the kernel multiplies a number of one tree by that of the other: the
        count c of the path, 1 + log(c), or 1.
    normalize : bool, default False
        Divide by the square root of the product of both self-kernels.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> tk.SubpathKernel(1.0).pair("(A (A b))", "(A (A b))")  # A twice, b, AA, Ab, AAb
    8.0
    """

    decay: float
    counts: str

    def __init__(
        self,
        decay: float = 0.4,
        *,
        weights: Weights | None = None,
        counts: str = "linear",
        normalize: bool = False,
    ) -> None:
        self._remember(decay=decay, weights=weights, counts=counts, normalize=normalize)


def kernel_from_json(text: str) -> Any:
    """Read a kernel of trees, pairs or vectors that `to_json` has written.

    Its parameters are checked when it is used, as for any kernel.

    Raises
    ------
    ValueError
        If the text is not the JSON of a kernel.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> k = tk.PartialTreeKernel(0.3, max_children=2, normalize=True)
    >>> tk.kernel_from_json(k.to_json()) == k
    True
    """
    return _from_json(text, _SAVED)


_P = TypeVar("_P", bound=Parameters)

#: Of what `to_json` writes.
_VERSION = 1


def _from_json(text: str, known: Mapping[str, type[_P]], what: str = "kernel") -> _P:
    expected = f"{what}: expected one of {sorted(known)} with its parameters as JSON"
    wrong = f"{expected}, got {text[:200]!r}"
    try:
        stored = json.loads(text)
        version = stored["version"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ValueError(wrong) from None
    if version != _VERSION:
        msg = f"{what}: expected version {_VERSION} of the JSON, got {version!r}"
        raise ValueError(msg)
    if not _is_saved(stored):
        raise ValueError(wrong)
    try:
        kernel: _P = _read(stored, known)
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ValueError(wrong) from None
    return kernel


def _saved(kernel: Any) -> dict[str, Any]:
    if not isinstance(kernel, Parameters):
        msg = f"a kernel with {kernel!r} cannot be written as JSON"
        raise TypeError(msg)
    name = type(kernel).__name__
    return {"version": _VERSION, "kernel": name, **kernel._stored()}


def _is_saved(stored: Any) -> bool:
    return (
        isinstance(stored, dict)
        and type(stored.get("version")) is int
        and isinstance(stored.get("kernel"), str)
    )


def _read(stored: Any, known: Mapping[str, type[Parameters]]) -> Any:
    """Make what `_saved` has written, and the kernels in it; KeyError for anything else."""
    if not isinstance(stored, dict):
        return stored
    parameters = {name: _read(value, _SAVED) for name, value in stored.items()}
    if not _is_saved(stored):
        return parameters
    made = known[stored["kernel"]]
    del parameters["version"], parameters["kernel"]
    defaults = made._defaults.items()
    needed = {n for n, default in defaults if default is inspect.Parameter.empty}
    if not needed <= parameters.keys() <= {*made._defaults, *made._also_stored}:
        raise KeyError
    return made._read(parameters)


def _composed(name: str, *parameters: Any) -> Any:
    from treekernel_rs import algebra

    return getattr(algebra, name)(*parameters)


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copied(part) for name, part in value.items()}
    return value.replace() if isinstance(value, Parameters) else value


def _pairs_of(weights: Mapping[Any, float]) -> list[list[Any]]:
    """Write weights as JSON has them: pairs of key and weight."""
    return [[key, float(weight)] for key, weight in weights.items()]


def _of_pairs(pairs: list[list[Any]]) -> dict[Any, float]:
    return {
        (key[0], tuple(key[1])) if isinstance(key, list) else key: weight
        for key, weight in pairs
    }


def _weights(
    weights: Any, has_productions: bool
) -> tuple[list[tuple[str, float]], list[tuple[str, list[str], float]], float]:
    """Read weights: of labels, of productions, and of all others."""
    found = {} if weights is None else weights
    if hasattr(type(weights), "weights_"):
        found = weights.weights_
    if not isinstance(found, Mapping):
        msg = f"weights must be a mapping, Idf or LearnedWeights, got {weights!r}"
        raise TypeError(msg)
    labels: list[tuple[str, float]] = []
    productions: list[tuple[str, list[str], float]] = []
    others = 1.0
    for key, given in found.items():
        weight = _real(f"weights[{key!r}]", given)
        if not 0 <= weight < float("inf"):
            msg = f"weights[{key!r}] must be finite and not negative, got {given!r}"
            raise ValueError(msg)
        match key:
            case None:
                others = weight
            case str() if " -> " not in key:
                labels.append((key, weight))
            case str():
                head, _, right = key.partition(" -> ")
                productions.append((head, right.split(), weight))
            case (str() as parent, tuple() as children) if all(
                isinstance(child, str) for child in children
            ):
                productions.append((parent, list(children), weight))
            case _:
                msg = (
                    "keys of weights are a label, a production as ('NP', ('DT', 'NN')) or "
                    f"'NP -> DT NN', or None, got {key!r}"
                )
                raise TypeError(msg)
    if productions and not has_productions:
        first = productions[0][0], tuple(productions[0][1])
        msg = (
            "weights of productions are for SubtreeKernel and SubsetTreeKernel; others "
            f"have weights of labels, got {first!r}"
        )
        raise ValueError(msg)
    return labels, productions, others


def _rebuild(kernel: type[Parameters], parameters: dict[str, Any]) -> Parameters:
    return kernel(**parameters)


def _own(kernel: object) -> TreeKernel:
    """Copy a kernel for an object that must not change with it."""
    if not isinstance(kernel, TreeKernel):
        msg = f"kernel must be a tree kernel, got {kernel!r}"
        raise TypeError(msg)
    return kernel.replace()


def _real(name: str, value: float) -> float:
    if isinstance(value, Real):
        return float(value)
    msg = f"{name} must be a number, got {value!r}"
    raise TypeError(msg)


def _integer(name: str, value: object) -> int:
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return int(value)
    msg = f"{name} must be an int, got {value!r}"
    raise TypeError(msg)


def _at_least_one(name: str, value: int) -> int:
    if (
        isinstance(value, int | np.integer)
        and not isinstance(value, bool)
        and value > 0
    ):
        return min(int(value), 2**62)
    msg = f"{name} must be an int of at least 1, got {value!r}"
    raise ValueError(msg)


def _check_sink(out: Callable[..., object] | None) -> Callable[..., object] | None:
    if out is None or callable(out):
        return out
    msg = f"out must be a callable, got {type(out).__name__}"
    raise TypeError(msg)


def _flag(value: object, name: str = "normalize") -> bool:
    if isinstance(value, bool | np.bool_):
        return bool(value)
    msg = f"{name} must be True or False, got {value!r}"
    raise ValueError(msg)


def _jobs(n_jobs: int | None) -> int | None:
    """Check n_jobs; None means all cores, like -1, and -2 all but one, as in joblib.

    In joblib's workers and under `parallel_config`, None means what it means to joblib.
    Otherwise there would be as many threads as cores times workers.
    """
    joblib: Any = sys.modules.get("joblib.parallel")
    if n_jobs is None and joblib is not None:
        backend, wanted = joblib.get_active_backend()
        if backend.nesting_level or wanted is not None:
            n_jobs = joblib.effective_n_jobs(None)
    if n_jobs is None:
        return None
    if not isinstance(n_jobs, int | np.integer) or n_jobs == 0:
        msg = f"n_jobs must be None or an int other than 0, got {n_jobs!r}"
        raise ValueError(msg)
    if n_jobs > 0:
        return min(int(n_jobs), 2**31)
    return None if n_jobs == -1 else max(1, _n_cores() + 1 + int(n_jobs))


def _n_cores() -> int:
    """Return how many cores the process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _float_type(dtype: DTypeLike) -> np.dtype[Any]:
    wanted = np.dtype(dtype)
    if wanted in (np.dtype(np.float64), np.dtype(np.float32)):
        return wanted
    msg = f"dtype must be float64 or float32, got {wanted}"
    raise ValueError(msg)


def _check_out(out: object, shape: tuple[int, int], dtype: DTypeLike) -> None:
    if not isinstance(out, np.ndarray):
        msg = f"out must be a numpy array, got {type(out).__name__}"
        raise TypeError(msg)
    wanted = None
    if out.shape != shape:
        wanted, got = f"of shape {shape}", str(out.shape)
    elif out.dtype not in (np.dtype(np.float64), np.dtype(np.float32)):
        wanted, got = "of float64 or float32", str(out.dtype)
    elif _float_type(dtype) == np.float32 != out.dtype:
        wanted, got = "of the dtype asked for, float32", str(out.dtype)
    elif not out.flags.c_contiguous:
        wanted, got = "C-contiguous", f"strides {out.strides}"
    elif not (out.flags.writeable and out.flags.aligned):
        wanted, got = "writeable and aligned", str(out.flags).replace("\n", ",")
    if wanted:
        msg = f"out must be {wanted}, got {got}"
        raise ValueError(msg)


def _warn_of_both(
    rows: list[int], columns: list[int], y: Forest | None, stacklevel: int = 4
) -> None:
    _warn_of_zeros(rows, "X", stacklevel)
    if y is not None:
        _warn_of_zeros(columns, "Y", stacklevel)


def _warn_of_zeros(
    trees: list[int], name: str, stacklevel: int = 4, what: str = "trees"
) -> None:
    if trees:
        shown = ", ".join(map(str, trees[:10])) + (", ..." if len(trees) > 10 else "")
        warnings.warn(
            f"the kernel of {len(trees)} of the {what} of {name} with themselves is 0, so "
            f"their normalised kernels are 0 as well: {shown}",
            RuntimeWarning,
            stacklevel=stacklevel,
        )


def _bar(what: str, unit: str = "row") -> _Bar:
    """Show a progress bar of tqdm, or a line on standard error."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return _line(what, unit)
    bar = tqdm(desc=what, unit=unit)

    def tell(done: int, total: int) -> None:
        bar.total = total
        bar.update(done - bar.n)
        if done == total:
            bar.close()

    return tell


def _line(what: str, unit: str) -> _Bar:
    start = time.monotonic()

    def tell(done: int, total: int) -> None:
        seconds = time.monotonic() - start
        end = "\n" if done == total else ""
        text = f"\r{what}: {done} of {total} {unit}s, {seconds:.1f} s"
        print(text, end=end, file=sys.stderr, flush=True)

    return tell
