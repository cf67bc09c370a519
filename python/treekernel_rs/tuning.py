"""Parameters of a kernel by gradients, without a grid.

Two measures of how well a kernel fits labelled trees, both functions of the kernel matrix
alone, so that its derivatives are enough to climb them. With the targets Y (a column for
each class, or one of values; without their means), and H taking means out of K:

* *Alignment* (Cortes, Mohri & Rostamizadeh, JMLR 2012): the cosine of HKH and Y Yᵀ. No
  matrix is inverted. For machines that are trained afterwards.
* *Marginal likelihood* of a Gaussian process with covariance a (K + r I): the best a has a
  closed form, r is tuned with the parameters (Beck et al., TACL 2015).

Complexity: a step takes a kernel matrix and its derivatives, pair by pair; the likelihood n³
operations more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from treekernel_rs._arguments import check_at_least_one
from treekernel_rs._core import as_forest
from treekernel_rs._extras import needs
from treekernel_rs._public import listing
from treekernel_rs.tree_kernels import TreeKernel, copied_kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike, NDArray

    from treekernel_rs._arguments import Trees

    Floats = NDArray[np.float64]
    #: The measure and its derivatives by the kernel's parameters and by r.
    Measure = Callable[[Floats, list[Floats], float], tuple[float, list[float], float]]

__all__ = ["tune_kernel"]
__dir__ = listing(__all__)

_K = TypeVar("_K", bound=TreeKernel)

#: Parameters above 0 and at most 1; all others are above 0.
_SHARES = ("decay", "mu")
#: The least distance of a share to 0 and to 1, and the least of other parameters.
_LEAST = 1e-4


def tune_kernel(
    kernel: _K,
    X: Trees,
    y: ArrayLike,
    *,
    objective: Literal["alignment", "marginal_likelihood"] = "alignment",
    parameters: Sequence[str] | None = None,
    max_iter: int = 50,
    n_jobs: int | None = None,
) -> _K:
    """Find the parameters of a kernel that fit labelled trees best, by gradients.

    The search (L-BFGS, on the logits of shares and the logarithms of other parameters)
    begins at the parameters of `kernel` and ends at a maximum near these. It is made for
    hundreds of trees up to a few thousand: derivatives are computed pair by pair. Needs
    SciPy.

    Parameters
    ----------
    kernel : TreeKernel
        The kernel to start from, preferably normalised.
    X : Forest or sequence of str
        The trees.
    y : array of shape (len(X),)
        Values, if they are floats; else classes.
    objective : {"alignment", "marginal_likelihood"}
        What to maximise: the centred alignment of the kernel with the targets, or the
        likelihood of a Gaussian process.
    parameters : list of str, optional
        Which to tune; by default `decay` and `mu`, also those of all parts of a
        composition (``left__decay``).
    max_iter : int, default 50
        Limit of steps.
    n_jobs : int, optional
        Threads, as in `gram`.

    Returns
    -------
    the kernel
        One of the same class with other parameters.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> X = ["(S (A a) (B b))", "(S (A a) (B c))", "(S (C a) (B b))", "(S (C a) (B c))"]
    >>> best = tk.tune_kernel(tk.SubsetTreeKernel(0.9, normalize=True), X, [2.0, 1, -1, -1])
    >>> round(best.decay, 2)
    0.32
    """
    kernel = copied_kernel(kernel)  # type: ignore[assignment]
    names = _tuned(kernel, parameters)
    measures = {"alignment": _alignment, "marginal_likelihood": _likelihood}
    if objective not in measures:
        msg = f"objective must be one of {sorted(measures)}, got {objective!r}"
        raise ValueError(msg)
    max_iter = check_at_least_one("max_iter", max_iter)
    forest = as_forest(X)
    measure = measures[objective](_targets(y, len(forest)))
    return _climb(kernel, names, forest, measure, max_iter, n_jobs)


def _tuned(kernel: TreeKernel, parameters: Sequence[str] | None) -> list[str]:
    known = kernel._core.parameter_names
    if parameters is None:
        return [name for name in known if _is_share(name)]
    if isinstance(parameters, str) or not parameters or not {*parameters} <= {*known}:
        msg = f"parameters must be a list of some of {known}, got {parameters!r}"
        raise ValueError(msg)
    values = kernel.get_params()
    for name in parameters:
        if values[name] <= 0:
            msg = f"{name} is tuned on a logarithmic scale: begin above 0, got 0"
            raise ValueError(msg)
    return list(dict.fromkeys(parameters))


def _is_share(name: str) -> bool:
    """Tell whether a parameter, of the kernel or of a part, is above 0 and at most 1."""
    return name.rpartition("__")[2] in _SHARES


def _targets(y: ArrayLike, n: int) -> Floats:
    """Make centred columns of equal size of classes or values."""
    given = np.asarray(y)
    if given.shape != (n,):
        msg = f"y must have shape ({n},), one target per tree, got {given.shape}"
        raise ValueError(msg)
    if given.dtype.kind == "f":
        columns = given[:, None].astype(np.float64)
    else:
        columns = (given[:, None] == np.unique(given)).astype(np.float64)
    if not np.isfinite(columns).all():
        msg = "y must be finite"
        raise ValueError(msg)
    columns = columns - columns.mean(axis=0)
    sizes = np.sqrt((columns**2).mean(axis=0)) if n else np.zeros(1)
    if not (sizes > 0).any():
        msg = "y must have two different values at least"
        raise ValueError(msg)
    scaled: Floats = columns[:, sizes > 0] / sizes[sizes > 0]
    return scaled


def _alignment(targets: Floats) -> Measure:
    wanted = targets @ targets.T
    size = float(np.linalg.norm(wanted))

    def measure(
        K: Floats, slopes: list[Floats], _: float
    ) -> tuple[float, list[float], float]:
        centred = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
        own = float(np.linalg.norm(centred))
        if own == 0:
            return 0.0, [0.0] * len(slopes), 0.0
        value = float((centred * wanted).sum()) / (own * size)

        # <H dK H, M> is <dK, M> where M is centred, as both are.
        def slope(dK: Floats) -> float:
            along = float((dK * wanted).sum()) / (own * size)
            return along - value * float((dK * centred).sum()) / own**2

        return value, [slope(dK) for dK in slopes], 0.0

    return measure


def _likelihood(targets: Floats) -> Measure:
    with needs("tune_kernel", "SciPy", "sklearn"):
        from scipy.linalg import cho_factor, cho_solve

    n, m = targets.shape

    def measure(
        K: Floats, slopes: list[Floats], ridge: float
    ) -> tuple[float, list[float], float]:
        # By a number of the data and a target: log N(y; 0, a B), a at its best.
        factor = cho_factor(K + ridge * np.eye(n), lower=True)
        alpha = cho_solve(factor, targets)
        scale = float((targets * alpha).sum()) / (n * m)
        logs = float(np.log(np.diagonal(factor[0])).sum()) / n
        value = float(-0.5 * (np.log(2 * np.pi * scale) + 1) - logs)
        # At the best a, B changes the likelihood alone.
        pull = (alpha @ alpha.T) / (scale * m) - cho_solve(factor, np.eye(n))
        own = [0.5 * float((pull * dK).sum()) / n for dK in slopes]
        return value, own, 0.5 * float(np.trace(pull)) / n

    return measure


def _climb(
    kernel: _K,
    names: list[str],
    forest: Any,
    measure: Measure,
    max_iter: int,
    n_jobs: int | None,
) -> _K:
    with needs("tune_kernel", "SciPy", "sklearn"):
        from scipy.optimize import minimize

    ridge = max(float(kernel.diag(forest, n_jobs=n_jobs).mean()), 1e-300)

    def with_values(at: Floats) -> _K:
        free = zip(names, at, strict=False)
        return kernel.replace(**{name: _value(name, t) for name, t in free})

    def negative(at: Floats) -> tuple[float, Floats]:
        own = with_values(at)
        K, slopes = own.gram(forest, gradient=True, n_jobs=n_jobs)
        noise = ridge * np.exp(at[-1])
        by_name = [slopes[name] for name in names]
        value, gradient, by_noise = measure(K, by_name, noise)
        values = own.get_params()
        chain = [_value_slope(name, values[name]) for name in names]
        by_parameter = np.multiply(gradient, chain)
        return -value, -np.append(by_parameter, noise * by_noise)

    values = kernel.get_params()
    start = np.array([_free(name, values[name]) for name in names] + [-2.0])
    limits = [(_free(name, 0.0), _free(name, np.inf)) for name in names] + [
        (-18.0, 9.0)
    ]
    # Near 0 and 1 logits have small derivatives, which are no end of the search.
    options = {"maxiter": max_iter, "ftol": 1e-12, "gtol": 1e-8}
    found = minimize(
        negative, start, jac=True, method="L-BFGS-B", bounds=limits, options=options
    )
    return with_values(found.x)


def _free(name: str, value: float) -> float:
    """Map a parameter to the numbers: the logit of a share, else the logarithm."""
    if _is_share(name):
        share = min(max(value, _LEAST), 1 - _LEAST)
        return float(np.log(share / (1 - share)))
    return float(np.log(min(max(value, _LEAST), 1 / _LEAST)))


def _value(name: str, free: float) -> float:
    return float(1 / (1 + np.exp(-free)) if _is_share(name) else np.exp(free))


def _value_slope(name: str, value: float) -> float:
    return value * (1 - value) if _is_share(name) else value
