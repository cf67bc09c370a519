"""Kernels made of kernels: sums, products, powers, polynomials, Gaussians.

A composition is a formula over the values of its parts, and every part keeps its own index:
a row of a matrix is one row of each part, and the formula. So ``k1 + k2`` takes the time of
both, and ``k ** 3`` that of ``k``.

Each operation keeps what a kernel must be, symmetric and positive semidefinite: sums,
products, powers with whole exponents and factors that are not negative do, and so do
normalisation, polynomials and the Gaussian of the distance that a kernel defines.
"""

from __future__ import annotations

from typing import ClassVar

from treekernel_rs._arguments import check_flag, check_integer, check_number
from treekernel_rs._core import Kernel
from treekernel_rs._public import listing
from treekernel_rs.tree_kernels import TreeKernel

__all__ = [
    "Gaussian",
    "Polynomial",
    "PowerKernel",
    "ProductKernel",
    "ScaledKernel",
    "SumKernel",
]
__dir__ = listing(__all__)


class _Composed(TreeKernel):
    """What compositions have in common."""

    #: How firmly an operator holds its parts together in text: a sum least.
    _level = 3
    _is_composed: ClassVar[bool] = True

    def _make(self) -> Kernel:
        parameters = self._parameters
        check_flag(parameters.pop("normalize"))
        parts = [
            _part(name, parameters.pop(name))
            for name in ("left", "right", "base")
            if name in self._defaults
        ]
        for name, value in parameters.items():
            parameters[name] = (check_integer if name == "degree" else check_number)(
                name, value
            )
        return Kernel.composed(self._name, parts, parameters)

    def _text(self) -> str:
        return super().__repr__()

    def __repr__(self) -> str:
        """Write the composition as Python would make it."""
        if not self._is_wrapped():
            return self._text()
        plain = self.replace(normalize=False)
        return f"{_bound(plain, 3)}.normalized()"

    def _is_wrapped(self) -> bool:
        return self.normalize is not False


def _part(name: str, kernel: object) -> Kernel:
    """Return what computes a part, normalised as it says itself."""
    if not isinstance(kernel, TreeKernel):
        msg = f"{name} must be a tree kernel, got {kernel!r}"
        raise TypeError(msg)
    core = kernel._core
    return Kernel.composed("Normalized", [core], {}) if kernel.normalize else core


def _bound(kernel: object, level: int) -> str:
    """Write an operand, in brackets where it would fall apart."""
    own = 3
    if isinstance(kernel, _Composed) and not kernel._is_wrapped():
        own = kernel._level
    return repr(kernel) if own >= level else f"({kernel!r})"


class SumKernel(_Composed):
    """The sum of two kernels: ``left + right``.

    Its features are those of both kernels.

    Parameters
    ----------
    left, right : TreeKernel
        The parts, each with its own `normalize`.
    normalize : bool, default False
        Divide the sum by the root of the product of both self-kernels.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> k = tk.SubsetTreeKernel(0.4) + 0.5 * tk.SubpathKernel(0.4)
    >>> k
    SubsetTreeKernel(0.4) + 0.5 * SubpathKernel(0.4)
    >>> round(k.pair("(S (A a) (B b))", "(S (A a) (B c))"), 3)
    2.032
    >>> k.replace(left__decay=0.2)
    SubsetTreeKernel(0.2) + 0.5 * SubpathKernel(0.4)
    """

    _level = 0

    left: TreeKernel
    right: TreeKernel

    def __init__(
        self, left: TreeKernel, right: TreeKernel, *, normalize: bool = False
    ) -> None:
        self._remember(left=left, right=right, normalize=normalize)

    def _text(self) -> str:
        return f"{_bound(vars(self)['left'], 0)} + {_bound(vars(self)['right'], 1)}"


class ProductKernel(_Composed):
    """The product of two kernels: ``left * right``.

    Its features are pairs of a feature of each kernel. Two trees are similar if they are
    similar by both kernels.

    Parameters
    ----------
    left, right : TreeKernel
        The parts, each with its own `normalize`.
    normalize : bool, default False
        Divide the product by the root of the product of both self-kernels.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> k = tk.SubsetTreeKernel(1.0) * tk.ElasticTreeKernel(1.0)
    >>> k
    SubsetTreeKernel(1.0) * ElasticTreeKernel(1.0)
    >>> k.pair("(A b)", "(A b)")
    3.0
    """

    _level = 1

    left: TreeKernel
    right: TreeKernel

    def __init__(
        self, left: TreeKernel, right: TreeKernel, *, normalize: bool = False
    ) -> None:
        self._remember(left=left, right=right, normalize=normalize)

    def _text(self) -> str:
        return f"{_bound(vars(self)['left'], 1)} * {_bound(vars(self)['right'], 2)}"


class ScaledKernel(_Composed):
    """A kernel times a number: ``factor * base``.

    Parameters
    ----------
    factor : float
        Finite and not negative.
    base : TreeKernel
        The kernel.
    normalize : bool, default False
        Divide by the root of the product of both self-kernels, which cancels the factor.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> k = 2.0 * tk.SubsetTreeKernel(1.0)
    >>> k, k.pair("(A b)", "(A b)")
    (2.0 * SubsetTreeKernel(1.0), 2.0)
    """

    _level = 1

    factor: float
    base: TreeKernel

    def __init__(
        self, factor: float, base: TreeKernel, *, normalize: bool = False
    ) -> None:
        self._remember(factor=factor, base=base, normalize=normalize)

    def _text(self) -> str:
        return f"{vars(self)['factor']!r} * {_bound(vars(self)['base'], 2)}"


class PowerKernel(_Composed):
    """A kernel to the power of a whole number: ``base ** degree``.

    Parameters
    ----------
    base : TreeKernel
        The kernel.
    degree : int
        From 1 to 1000.
    normalize : bool, default False
        Divide by the root of the product of both self-kernels.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> k = tk.SubsetTreeKernel(1.0) ** 2
    >>> k, k.pair("(S (A a) (B b))", "(S (A a) (B c))")
    (SubsetTreeKernel(1.0) ** 2, 9.0)
    """

    _level = 2

    base: TreeKernel
    degree: int

    def __init__(
        self, base: TreeKernel, degree: int, *, normalize: bool = False
    ) -> None:
        self._remember(base=base, degree=degree, normalize=normalize)

    def _text(self) -> str:
        return f"{_bound(vars(self)['base'], 3)} ** {vars(self)['degree']!r}"


class Polynomial(_Composed):
    """A polynomial of a kernel: (K(a,b) + coef0)^degree.

    If `coef0` is above 0, its features are all sets of up to `degree` features of the kernel.

    Parameters
    ----------
    base : TreeKernel
        The kernel.
    degree : int, default 3
        From 1 to 1000.
    coef0 : float, default 1
        Finite and not negative.
    normalize : bool, default False
        Divide by the root of the product of both self-kernels.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> k = tk.kernels.Polynomial(tk.SubsetTreeKernel(1.0), 2)
    >>> k, k.pair("(S (A a) (B b))", "(S (A a) (B c))")
    (Polynomial(SubsetTreeKernel(1.0), degree=2), 16.0)
    """

    base: TreeKernel
    degree: int
    coef0: float

    def __init__(
        self,
        base: TreeKernel,
        degree: int = 3,
        coef0: float = 1.0,
        *,
        normalize: bool = False,
    ) -> None:
        self._remember(base=base, degree=degree, coef0=coef0, normalize=normalize)


class Gaussian(_Composed):
    """The Gaussian of a kernel's distance: exp(-gamma (K(a,a) + K(b,b) - 2 K(a,b))).

    This is the RBF kernel of support vector machines, over trees. If the base is normalised,
    values are between exp(-2 gamma) and 1. If it is not, most distances are huge, because
    they depend on the sizes of trees, and most values are 0.

    Parameters
    ----------
    base : TreeKernel
        The kernel.
    gamma : float, default 1
        Finite and above 0.
    normalize : bool, default False
        Changes nothing: the kernel of a tree with itself is 1.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> k = tk.kernels.Gaussian(tk.SubsetTreeKernel(0.4).normalized(), gamma=0.5)
    >>> k(["(S (A a) (B b))", "(S (A a) (B c))"]).round(3)
    array([[1.   , 0.674],
           [0.674, 1.   ]])
    """

    base: TreeKernel
    gamma: float

    def __init__(
        self, base: TreeKernel, gamma: float = 1.0, *, normalize: bool = False
    ) -> None:
        self._remember(base=base, gamma=gamma, normalize=normalize)
