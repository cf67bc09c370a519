"""Tree kernels for scikit-learn's Gaussian processes.

A Gaussian process chooses the parameters of its kernel by the likelihood of the training
data, with gradients instead of a grid (Beck, Cohn, Hardmeier & Specia, "Learning Structural
Kernels for Natural Language Processing", TACL 2015). `GPTreeKernel` is a kernel of this
library as `GaussianProcessRegressor` and `GaussianProcessClassifier` want it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from treekernel_rs._extras import SKLEARN, needs
from treekernel_rs._public import listing
from treekernel_rs.tree_kernels import TreeKernel

with needs(__name__, SKLEARN, "sklearn"):
    from sklearn.gaussian_process.kernels import (
        GenericKernelMixin,
        Hyperparameter,
        Kernel,
    )

    from treekernel_rs.estimators._base import (
        KernelParameter,
        check_tree_kernel,
        default_kernel,
    )
    from treekernel_rs.estimators._inputs import as_trees


if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

    from treekernel_rs.estimators._inputs import TreesX

    Bounds = tuple[float, float] | Literal["fixed"]

__all__ = ["GPTreeKernel"]
__dir__ = listing(__all__)

#: Of parameters above 0 and at most 1. Others are fixed where nothing is said.
_DEFAULT: dict[str, Bounds] = {"decay": (1e-3, 1.0), "mu": (1e-3, 1.0)}


class GPTreeKernel(KernelParameter, GenericKernelMixin, Kernel):  # type: ignore[misc]
    """A tree kernel as a kernel of a Gaussian process.

    Its hyperparameters are the real parameters of the tree kernel, on a logarithmic scale,
    with exact derivatives. It can be combined with other kernels: usually a constant factor
    and white noise. Normalise the tree kernel, unless larger trees should vary more.

    The process takes a list of bracketed strings, an array of them, or a `Forest`.

    Parameters
    ----------
    kernel : TreeKernel, optional
        The kernel, with the parameters to begin with; by default ``SubsetTreeKernel(0.4)``.
    bounds : dict or "fixed", optional
        For each parameter the smallest and the largest value to try, or "fixed". By default
        `decay` and `mu` are searched from 0.001 to 1, and all others are fixed. Those of
        parts of a composition are named as in `get_params`: ``left__decay``.
    n_jobs : int, optional
        Threads, as in `gram`.

    Examples
    --------
    >>> import numpy as np, treekernel_rs as tk
    >>> from sklearn.gaussian_process import GaussianProcessRegressor
    >>> from sklearn.gaussian_process.kernels import ConstantKernel, WhiteKernel
    >>> tree = tk.gaussian_process.GPTreeKernel(tk.SubsetTreeKernel(0.9, normalize=True))
    >>> tree.hyperparameters[0].name, tree.theta.round(3), tree.bounds.round(3)
    ('decay', array([-0.105]), array([[-6.908,  0.   ]]))
    >>> tree.diag(["(A a)"]), tree.is_stationary(), tree.get_params()["bounds"]
    (array([1.]), False, None)
    >>> X = ["(S (A a) (B b))", "(S (A a) (B c))", "(S (C a) (B b))", "(S (C a) (B c))"]
    >>> noise = WhiteKernel(0.1, "fixed")
    >>> gp = GaussianProcessRegressor(ConstantKernel(1.0, "fixed") * tree + noise)
    >>> gp = gp.fit(X, [2.0, 1.0, -1.0, -1.0])
    >>> float(np.exp(gp.kernel_.theta[0]).round(2))
    0.5
    >>> gp.predict(["(T (A a))", "(T (C a))"]).round(1)
    array([ 0.6, -0.4])
    """

    def __init__(
        self,
        kernel: TreeKernel | None = None,
        bounds: Mapping[str, Bounds] | Literal["fixed"] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.bounds = bounds
        self.n_jobs = n_jobs

    @property
    def hyperparameters(self) -> list[Hyperparameter]:
        """The real parameters of the tree kernel, with what is searched."""
        values = self._values()
        given = self._given
        if isinstance(given, str):
            if given != "fixed":
                msg = f"bounds must be a dict, 'fixed' or None, got {given!r}"
                raise ValueError(msg)
            given = dict.fromkeys(values, "fixed")
        given = dict(given or {})
        for name in given.keys() - values.keys():
            msg = f"bounds: expected names among {', '.join(values)}, got {name!r}"
            raise ValueError(msg)
        return [
            _hyperparameter(name, value, given.get(name, _default(name)))
            for name, value in values.items()
        ]

    @property
    def theta(self) -> NDArray[np.float64]:
        """The logarithms of what is searched."""
        values = self._values()
        return np.log([values[h.name] for h in self._free()])

    @theta.setter
    def theta(self, theta: ArrayLike) -> None:
        free, logs = self._free(), np.asarray(theta, np.float64)
        if logs.shape != (len(free),):
            msg = f"theta must have shape ({len(free)},), got {logs.shape}"
            raise ValueError(msg)
        # Rounding must not take a parameter out of its range.
        values = {
            h.name: float(np.clip(np.exp(log), *h.bounds[0]))
            for h, log in zip(free, logs, strict=True)
        }
        self.kernel = self._kernel().replace(**values)

    @property
    def bounds(self) -> NDArray[np.float64]:
        """The logarithms of the bounds of what is searched."""
        return np.log([h.bounds[0] for h in self._free()]).reshape(-1, 2)

    @bounds.setter
    def bounds(self, bounds: Mapping[str, Bounds] | Literal["fixed"] | None) -> None:
        self._given = bounds

    def _kernel(self) -> TreeKernel:
        kernel = self.kernel
        return default_kernel() if kernel is None else check_tree_kernel(kernel)

    def _values(self) -> dict[str, float]:
        kernel = self._kernel()
        params = kernel.get_params()
        return {name: params[name] for name in kernel._core.parameter_names}

    def _free(self) -> list[Hyperparameter]:
        return [h for h in self.hyperparameters if not h.fixed]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Name the constructor's parameters and their values."""
        return {"kernel": self.kernel, "bounds": self._given, "n_jobs": self.n_jobs}

    def __sklearn_clone__(self) -> GPTreeKernel:
        kernel = None if self.kernel is None else self._kernel().replace()
        return GPTreeKernel(kernel, self._given, self.n_jobs)

    def __call__(
        self, X: TreesX, Y: TreesX | None = None, eval_gradient: bool = False
    ) -> Any:
        """Compute the kernel matrix.

        Parameters
        ----------
        X, Y : Forest or sequence of str
            The trees; without Y, those of X with each other.
        eval_gradient : bool, default False
            Whether to return the derivatives by `theta` as well; requires Y=None.

        Returns
        -------
        ndarray, shape (len(X), len(Y))
            The kernels.
        ndarray, shape (len(X), len(X), n_dims)
            With `eval_gradient`: the derivatives.
        """
        kernel, x = self._kernel(), as_trees(X)
        if not eval_gradient:
            return kernel.gram(
                x, None if Y is None else as_trees(Y), n_jobs=self.n_jobs
            )
        if Y is not None:
            msg = "eval_gradient=True requires Y=None"
            raise ValueError(msg)
        free, values = self._free(), self._values()
        if not free:
            return kernel.gram(x, n_jobs=self.n_jobs), np.empty((len(x), len(x), 0))
        matrix, slopes = kernel.gram(x, gradient=True, n_jobs=self.n_jobs)
        # By the logarithm of a parameter p: p dK/dp.
        scaled = [values[h.name] * slopes[h.name] for h in free]
        return matrix, np.stack(scaled, axis=-1)

    def diag(self, X: TreesX) -> NDArray[np.float64]:
        """Compute the kernels of trees with themselves."""
        return self._kernel().diag(as_trees(X), n_jobs=self.n_jobs)

    def is_stationary(self) -> bool:
        """Return False: the kernel is not a function of a difference."""
        return False

    def __repr__(self) -> str:
        return f"GPTreeKernel({self.kernel!r})"


def _default(name: str) -> Bounds:
    """Find what is searched of a parameter, of the kernel or of a part such as left__decay."""
    return _DEFAULT.get(name.rpartition("__")[2], "fixed")


def _hyperparameter(name: str, value: float, bounds: Bounds) -> Hyperparameter:
    if isinstance(bounds, str) and bounds == "fixed":
        return Hyperparameter(name, "numeric", "fixed")
    most = np.inf if _default(name) == "fixed" else 1.0
    wanted = f"'fixed' or two numbers, 0 < least <= most <= {most:g}"
    try:
        low, high = map(float, bounds)
    except (TypeError, ValueError):
        low = high = np.nan
    if not (0 < low <= high <= most and high < np.inf):
        msg = f"bounds of {name} must be {wanted}, got {bounds!r}"
        raise ValueError(msg)
    if value <= 0:
        msg = f"{name} is searched on a logarithmic scale: begin above 0, got {value}"
        raise ValueError(msg)
    return Hyperparameter(name, "numeric", (low, high))
