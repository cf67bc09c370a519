"""Tree kernels: four ways to count the fragments that two trees share.

A kernel object holds parameters only. Calling it with trees gives a matrix.
"""

from __future__ import annotations

import sys
import time
import warnings
from numbers import Real
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from treekernel_rs._core import Forest, Kernel, Tree, as_forest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import DTypeLike, NDArray

    from treekernel_rs._core import KernelRows

    Trees = Forest | Sequence[str | bytes] | Sequence[Tree]
    Progress = Callable[[int, int], object]

__all__ = [
    "ElasticTreeKernel",
    "PartialTreeKernel",
    "SubsetTreeKernel",
    "SubtreeKernel",
]


class _Bar(Protocol):
    def __call__(self, done: int, total: int) -> object: ...


class Parameters:
    """An immutable object that is its constructor's parameters."""

    #: Constructor parameters, in order, with their defaults.
    _defaults: dict[str, Any]

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse: a kernel that changes would change what it is a key of."""
        msg = f"{type(self).__name__} is immutable; make another one"
        raise AttributeError(msg)

    def _remember(self, core: object, **parameters: object) -> None:
        vars(self).update(_core=core, **parameters)

    @property
    def _parameters(self) -> dict[str, Any]:
        return {name: vars(self)[name] for name in self._defaults}

    def __repr__(self) -> str:
        """Name the parameters that are not at their defaults, and the decay."""
        shown = [
            repr(value) if name == "decay" else f"{name}={value!r}"
            for name, value in self._parameters.items()
            if name == "decay" or value != self._defaults[name]
        ]
        return f"{type(self).__name__}({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        """Compare class and parameters."""
        if type(other) is not type(self):
            return NotImplemented
        return self._parameters == other._parameters

    def __hash__(self) -> int:
        return hash((type(self), *self._parameters.values()))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the parameters."""
        return _rebuild, (type(self), self._parameters)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Name the parameters and their values, as scikit-learn asks for them.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> tk.ElasticTreeKernel(0.3).get_params()
        {'decay': 0.3, 'normalize': False}
        """
        return self._parameters

    def replace(self, **changes: Any) -> Self:
        """Make a kernel that differs in some parameters.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> tk.SubsetTreeKernel(0.4, normalize=True).replace(decay=0.2)
        SubsetTreeKernel(0.2, normalize=True)
        """
        for name in changes:
            if name not in self._defaults:
                msg = (
                    f"{type(self).__name__} has no parameter {name!r}; "
                    f"it has {', '.join(self._defaults)}"
                )
                raise ValueError(msg)
        return type(self)(**{**self._parameters, **changes})

    __replace__ = replace  # copy.replace of Python 3.13

    def set_params(self, **changes: Any) -> Self:
        """Refuse, and say what to call; estimators of this package replace their kernel.

        A kernel that only returned another one would leave foreign code, which relies on
        the change, with the old parameters and no sign of it.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> tk.SubsetTreeKernel(0.4).set_params(decay=0.2)
        Traceback (most recent call last):
            ...
        AttributeError: SubsetTreeKernel is immutable; replace(...) makes another one
        """
        if not changes:
            return self
        msg = f"{type(self).__name__} is immutable; replace(...) makes another one"
        raise AttributeError(msg)

    def __sklearn_clone__(self) -> Self:
        return self  # immutable


class TreeKernel(Parameters):
    """What all tree kernels can do."""

    _core: Kernel
    normalize: bool

    def __call__(self, X: Trees, Y: Trees | None = None) -> NDArray[np.float64]:
        """Compute the kernels of all trees of X with all of Y (of X, without Y).

        Parameters
        ----------
        X, Y : Forest or sequence of str
            The trees; they need not come from the same forest.

        Returns
        -------
        ndarray of float64, shape (len(X), len(Y))
            Symmetric bit for bit where there is no Y.
        """
        return self._matrix(X, Y, np.float64, None, None, None)

    def gram(
        self,
        X: Trees,
        Y: Trees | None = None,
        *,
        dtype: DTypeLike = np.float64,
        n_jobs: int | None = None,
        out: NDArray[Any] | None = None,
        progress: Progress | bool | None = None,
    ) -> NDArray[Any]:
        """Compute a kernel matrix, with all options.

        Parameters
        ----------
        X, Y : Forest or sequence of str
            The trees; without Y, those of X with each other.
        dtype : float64 or float32
            Type of the result; that of `out` where it is given.
        n_jobs : int, optional
            Threads; all cores the process may use by default, 1 for the caller's only.
            The result does not depend on it, bit for bit.
        out : ndarray or memmap, optional
            C-contiguous float64 or float32 matrix to fill, block by block; so a matrix
            larger than memory can be computed into a file.
        progress : callable or True, optional
            Called with the numbers of rows done and in all; True shows a bar (tqdm's,
            where it is installed).

        Returns
        -------
        ndarray, shape (len(X), len(Y))
            `out` where it is given.

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
        """
        return self._matrix(X, Y, dtype, n_jobs, out, progress)

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
        tell = _bar(type(self).__name__) if progress is True else progress or None
        rows, columns = self._core.gram(x, y, out, self.normalize, _jobs(n_jobs), tell)
        _warn_of_zeros(rows, "X")
        if y is not None:
            _warn_of_zeros(columns, "Y")
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
        """Make the rows of the matrix of X with itself ready to be asked for.

        For a solver or a nearest-neighbour search that does not hold the matrix: the
        trees are indexed once, and normalised rows need no self-kernels later.

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

    def pair(self, a: Tree | str | object, b: Tree | str | object) -> float:
        """Compute the kernel of two trees.

        Parameters
        ----------
        a, b : Tree, str or object as in Forest.from_trees
            The trees.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> tk.SubsetTreeKernel(1.0).pair("(S (A a) (B b))", "(S (A a) (B c))")
        3.0
        """
        return self._core.pair(a, b, self.normalize)


class SubtreeKernel(TreeKernel):
    r"""ST: complete subtrees in common.

    Every pair of equal subtrees with n inner nodes adds decay^n.

    Parameters
    ----------
    decay : float, default 0.4
        Weight of a subtree per inner node, above 0 and at most 1.
    leaf_weight : float, default 0
        What each pair of leaves with equal labels adds.
    normalize : bool, default False
        Divide by the root of the product of both self-kernels.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> tk.SubtreeKernel(0.5).pair("(S (A a) (B b))", "(S (A a) (B b))")
    1.125
    """

    _defaults = {"decay": 0.4, "leaf_weight": 0.0, "normalize": False}  # noqa: RUF012

    def __init__(
        self, decay: float = 0.4, *, leaf_weight: float = 0.0, normalize: bool = False
    ) -> None:
        core = Kernel.subtree(_real("decay", decay), _real("leaf_weight", leaf_weight))
        self._remember(
            core, decay=decay, leaf_weight=leaf_weight, normalize=_flag(normalize)
        )


class SubsetTreeKernel(TreeKernel):
    r"""SST: connected parts in common whose nodes have all their children or none.

    Every pair of equal fragments with n productions adds decay^n.

    Parameters
    ----------
    decay : float, default 0.4
        Weight of a fragment per production, above 0 and at most 1.
    leaf_weight : float, default 0
        What each pair of leaves with equal labels adds.
    normalize : bool, default False
        Divide by the root of the product of both self-kernels.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> k = tk.SubsetTreeKernel(0.4)
    >>> k(["(S (A a) (B b))", "(S (A a) (B c))"]).round(3)
    array([[1.584, 0.96 ],
           [0.96 , 1.584]])
    """

    _defaults = {"decay": 0.4, "leaf_weight": 0.0, "normalize": False}  # noqa: RUF012

    def __init__(
        self, decay: float = 0.4, *, leaf_weight: float = 0.0, normalize: bool = False
    ) -> None:
        core = Kernel.subset_tree(
            _real("decay", decay), _real("leaf_weight", leaf_weight)
        )
        self._remember(
            core, decay=decay, leaf_weight=leaf_weight, normalize=_flag(normalize)
        )


class PartialTreeKernel(TreeKernel):
    r"""PT: any connected parts in common; children may be left out.

    Every pair of equal fragments adds mu per node, decay^2 per fragment node without
    children in the fragment, and decay per child left out between two of a fragment's.

    Parameters
    ----------
    decay : float, default 0.4
        Weight of a gap, above 0 and at most 1.
    mu : float, default 0.4
        Weight of a fragment per node, above 0 and at most 1.
    leaf_factor : float, default 1
        How much more the single-node fragment of a leaf weighs.
    max_children : int, optional
        The longest child subsequence that counts; no limit by default.
    normalize : bool, default False
        Divide by the root of the product of both self-kernels.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> round(tk.PartialTreeKernel().pair("(A b)", "(A b)"), 4)
    0.1536
    """

    _defaults = {  # noqa: RUF012
        "decay": 0.4,
        "mu": 0.4,
        "leaf_factor": 1.0,
        "max_children": None,
        "normalize": False,
    }

    def __init__(
        self,
        decay: float = 0.4,
        mu: float = 0.4,
        *,
        leaf_factor: float = 1.0,
        max_children: int | None = None,
        normalize: bool = False,
    ) -> None:
        core = Kernel.partial_tree(
            _real("decay", decay),
            _real("mu", mu),
            _real("leaf_factor", leaf_factor),
            max_children,
        )
        self._remember(
            core,
            decay=decay,
            mu=mu,
            leaf_factor=leaf_factor,
            max_children=max_children,
            normalize=_flag(normalize),
        )


class ElasticTreeKernel(TreeKernel):
    r"""ET: parts in common that keep order and ancestry, but may skip nodes.

    Every pair of equal fragments with n nodes adds decay^n.

    Parameters
    ----------
    decay : float, default 0.4
        Weight of a fragment per node, above 0 and at most 1.
    normalize : bool, default False
        Divide by the root of the product of both self-kernels.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> tk.ElasticTreeKernel(1.0).pair("(A b)", "(A (X b))")
    3.0
    """

    _defaults = {"decay": 0.4, "normalize": False}  # noqa: RUF012

    def __init__(self, decay: float = 0.4, *, normalize: bool = False) -> None:
        core = Kernel.elastic_tree(_real("decay", decay))
        self._remember(core, decay=decay, normalize=_flag(normalize))


def _rebuild(kernel: type[Parameters], parameters: dict[str, Any]) -> Parameters:
    return kernel(**parameters)


def _real(name: str, value: float) -> float:
    if isinstance(value, Real):
        return float(value)
    msg = f"{name} must be a number, got {value!r}"
    raise TypeError(msg)


def _flag(value: object) -> bool:
    if isinstance(value, bool | np.bool_):
        return bool(value)
    msg = f"normalize must be True or False, got {value!r}"
    raise ValueError(msg)


def _jobs(n_jobs: int | None) -> int | None:
    if n_jobs is None or (isinstance(n_jobs, int | np.integer) and n_jobs >= 1):
        return None if n_jobs is None else int(n_jobs)
    msg = f"n_jobs must be None or an int of at least 1, got {n_jobs!r}"
    raise ValueError(msg)


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


def _warn_of_zeros(
    trees: list[int], name: str, stacklevel: int = 4, what: str = "trees"
) -> None:
    if trees:
        shown = ", ".join(map(str, trees[:10])) + (", ..." if len(trees) > 10 else "")
        warnings.warn(
            f"the kernel of {len(trees)} of the {what} of {name} with themselves is 0, so "
            f"their normalised kernels are 0, too: {shown}",
            RuntimeWarning,
            stacklevel=stacklevel,
        )


def _bar(what: str, unit: str = "row") -> _Bar:
    """Show a bar of tqdm's, or a line on standard error."""
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
