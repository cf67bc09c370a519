"""What all estimators over trees have in common.

Estimators never change the kernel that they are given: ``kernel__decay=0.2`` replaces it by
another one. Later changes to the kernel, such as those of scikit-learn's
``SVC(kernel=k).set_params(kernel__decay=0.2)``, have no effect on them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)

from treekernel_rs._held import HeldKernel
from treekernel_rs.pairs import PairKernel
from treekernel_rs.tree_kernels import SubsetTreeKernel, TreeKernel
from treekernel_rs.view_kernels import KernelOfViews

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from treekernel_rs.estimators._inputs import TreesX

    AnyKernel = TreeKernel | PairKernel | KernelOfViews

    class _NoSuchAttribute:
        """What an estimator has, to a type checker, in place of an unknown attribute."""


class KernelParameter:
    """The parameter `kernel`, which no other object changes, and which is not changed."""

    kernel = HeldKernel[Any]()

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``kernel__decay=0.2`` replaces the kernel by such a one.

        Parameters
        ----------
        **params : dict
            Parameters of the estimator, and of its kernel after ``kernel__``.

        Returns
        -------
        self

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> tk.TreeSVC(tk.SubsetTreeKernel(0.4)).set_params(kernel__decay=0.2).kernel
        SubsetTreeKernel(0.2)
        """
        of_kernel = {
            name.removeprefix("kernel__"): value
            for name, value in params.items()
            if name.startswith("kernel__")
        }
        # A new kernel comes before changes to it, whatever their order in a grid.
        above: Any = super()
        above.set_params(
            **{n: v for n, v in params.items() if not n.startswith("kernel__")}
        )
        if of_kernel:
            self.kernel = self._any_kernel().replace(**of_kernel)
        return self

    def _any_kernel(self) -> Any:
        """Return a copy of the kernel, of trees, pairs or views, or the default for None."""
        kernel = self.kernel
        return (
            default_kernel() if kernel is None else check_any_kernel(kernel).replace()
        )


class TreeEstimator(KernelParameter, BaseEstimator):
    """What estimators over trees have in common."""

    kernel_ = HeldKernel[Any]()

    if TYPE_CHECKING:
        # scikit-learn has no types: what inherits from it has every attribute to a type
        # checker, unless it has this method. So what scikit-learn adds is declared.
        def __getattr__(self, name: str) -> _NoSuchAttribute: ...
        def get_params(self, deep: bool = ...) -> dict[str, Any]: ...
        def get_metadata_routing(self) -> Any: ...
        def set_fit_request(self, **requests: bool | str | None) -> Self: ...
        def set_partial_fit_request(self, **requests: bool | str | None) -> Self: ...
        def set_score_request(self, **requests: bool | str | None) -> Self: ...

    def _kernel(self) -> TreeKernel:
        """Return the kernel to fit with, a copy, or the default for None."""
        kernel = self.kernel
        return (
            default_kernel() if kernel is None else check_tree_kernel(kernel).replace()
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags


class Predictor(TreeEstimator):
    """What classifiers and regressors of scikit-learn have."""

    if TYPE_CHECKING:

        def predict(self, X: TreesX) -> NDArray[Any]: ...
        def score(
            self, X: TreesX, y: ArrayLike, sample_weight: ArrayLike | None = ...
        ) -> float: ...


class TreeTransformer(
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    TreeEstimator,
):
    if TYPE_CHECKING:

        def fit_transform(self, X: Any, y: object = ...) -> Any: ...
        def get_feature_names_out(
            self, input_features: object = ...
        ) -> NDArray[Any]: ...
        def set_output(self, *, transform: str | None = ...) -> Self: ...

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags


def default_kernel() -> TreeKernel:
    """Make the kernel of estimators that are given none: a new one for each."""
    return SubsetTreeKernel(0.4)


def check_tree_kernel(kernel: object) -> TreeKernel:
    if isinstance(kernel, TreeKernel):
        return kernel
    msg = f"kernel must be a tree kernel, such as SubsetTreeKernel(0.4), got {kernel!r}"
    raise TypeError(msg)


def check_any_kernel(kernel: object) -> AnyKernel:
    if isinstance(kernel, TreeKernel | PairKernel | KernelOfViews):
        return kernel
    msg = (
        "kernel must be a tree kernel, or one of pairs or views, such as "
        f"SubsetTreeKernel(0.4), got {kernel!r}"
    )
    raise TypeError(msg)
