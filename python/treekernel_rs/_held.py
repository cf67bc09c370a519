"""Kernels as attributes of other objects: only their holder changes them.

Estimators of scikit-learn change what they hold in place: ``SVC(kernel=k)`` answers
``set_params(kernel__decay=0.9)`` by ``k.set_params(decay=0.9)``. Whatever else holds `k` must
not change with it, and cannot copy it when it gets it, because `sklearn.base.clone` demands
that an estimator returns the very object that it was given. So kernels are copied when they
are written to: a kernel knows its holders, and `set_params` first leaves each of them a copy.
"""

from __future__ import annotations

from typing import Any, Generic, Self, TypeVar, overload

from treekernel_rs._parameters import Parameters

__all__ = ["HeldKernel"]

_K = TypeVar("_K")


class HeldKernel(Generic[_K]):
    """An attribute for a kernel, which stays as it was set.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> kernel = tk.SubsetTreeKernel(0.4)
    >>> model = tk.TreeRidge(kernel)
    >>> model.kernel is kernel
    True
    >>> kernel.set_params(decay=0.9), model.kernel
    (SubsetTreeKernel(0.9), SubsetTreeKernel(0.4))
    >>> model.fit(["(A a)", "(B b)"], [0, 1]).kernel_
    SubsetTreeKernel(0.4)
    >>> tk.Perceptron(kernel, vectors=tk.kernels.VectorPolynomial(2), mix=0.5).vectors
    VectorPolynomial(2)
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, holder: None, owner: type) -> Self: ...
    @overload
    def __get__(self, holder: object, owner: type) -> _K: ...
    def __get__(self, holder: object, owner: type) -> Any:
        """Return the kernel."""
        if holder is None:
            return self
        if self._name not in vars(holder):
            msg = f"{owner.__name__!r} object has no attribute {self._name!r}"
            raise AttributeError(msg, name=self._name, obj=holder)
        # What comes out of a pickle or a copy has not been set.
        return self._known(holder, vars(holder)[self._name])

    def __set__(self, holder: object, kernel: _K) -> None:
        vars(holder)[self._name] = self._known(holder, kernel)

    def __delete__(self, holder: object) -> None:
        vars(holder).pop(self._name, None)

    def _known(self, holder: object, kernel: Any) -> Any:
        if isinstance(kernel, Parameters):
            kernel._hold(holder, self._name)
        return kernel
