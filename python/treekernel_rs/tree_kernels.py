"""Tree kernels: five ways to count the fragments that two trees share.

A kernel object holds parameters only, which are checked when it is used. Calling it with
trees gives a matrix.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from numbers import Real
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    Self,
    overload,
)

import numpy as np

from treekernel_rs._arguments import (
    check_flag,
    check_jobs,
    progress_callback,
)
from treekernel_rs._core import Forest, Kernel, Tree, as_forest, as_tree
from treekernel_rs._extras import needs
from treekernel_rs._matrices import KernelMethods
from treekernel_rs._public import listing
from treekernel_rs.weights import split_weights, weights_from_pairs, weights_to_pairs

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray
    from scipy.sparse.linalg import LinearOperator

    from treekernel_rs._arguments import Progress, Trees
    from treekernel_rs.algebra import (
        PowerKernel,
        ProductKernel,
        ScaledKernel,
        SumKernel,
    )
    from treekernel_rs.distances import KernelDistance
    from treekernel_rs.index import TreeIndex
    from treekernel_rs.similarity import Similarity
    from treekernel_rs.weights import Weights


__all__ = [
    "ElasticTreeKernel",
    "PartialTreeKernel",
    "SubpathKernel",
    "SubsetTreeKernel",
    "SubtreeKernel",
    "TreeKernel",
]
__dir__ = listing(__all__)

#: Every tree kernel, by its name; those made of others; and what else `kernel_from_json`
#: reads.
TREE_KERNELS: dict[str, type[TreeKernel]] = {}
COMPOSED_KERNELS: dict[str, type[TreeKernel]] = {}


class TreeKernel(KernelMethods["Trees"]):
    """The methods of all tree kernels: matrices, single kernels, neighbours, indexes.

    This is the base class of `SubtreeKernel`, `SubsetTreeKernel`, `PartialTreeKernel`,
    `ElasticTreeKernel` and `SubpathKernel`, and of the kernels made of kernels in
    `treekernel_rs.kernels`. A kernel holds parameters only, and checks them when it is
    used. Operators make kernels of kernels: ``k1 + k2``, ``2.0 * k``, ``k1 * k2`` and
    ``k ** 3``.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> k = tk.SubsetTreeKernel(0.5)
    >>> isinstance(k, tk.TreeKernel), isinstance(k + 2.0 * k, tk.TreeKernel)
    (True, True)
    >>> k(["(A a)", "(A b)"], ["(S (A a))"])
    array([[0.5],
           [0. ]])
    """

    #: What the kernel is called in Rust.
    _name: str
    normalize: bool
    weights: Weights | None
    #: Whether productions may have weights of their own.
    _has_productions = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        known = COMPOSED_KERNELS if cls._is_composed else TREE_KERNELS
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
            stored = {**stored, "weights": weights_to_pairs(weights)}
        return stored

    @classmethod
    def _read(cls, stored: dict[str, Any]) -> Self:
        if isinstance(weights := stored.get("weights"), list):
            stored = {**stored, "weights": weights_from_pairs(weights)}
        return super()._read(stored)

    def _make(self) -> Kernel:
        parameters = self._parameters
        check_flag(parameters.pop("normalize"))
        weights = parameters.pop("weights", None)
        counts = parameters.pop("counts", "linear")
        return self._weighted(Kernel(self._name, parameters), weights, counts)

    def _weighted(self, kernel: Kernel, weights: Any, counts: Any) -> Kernel:
        if not isinstance(counts, str):
            msg = f"counts must be 'linear', 'log' or 'set', got {counts!r}"
            raise TypeError(msg)
        if weights is None and counts == "linear":
            return kernel
        return kernel.weighted(*split_weights(weights, self._has_productions), counts)

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
        """Compute a kernel matrix, as calling the kernel does; also its derivatives.

        Parameters
        ----------
        X, Y, dtype, n_jobs, out, progress
            As in a call.
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
        tell = progress_callback(progress, type(self).__name__)
        self._core.gradient(x, y, out, self.normalize, check_jobs(n_jobs), tell)
        return dict(zip(names, out.reshape(shape), strict=True))

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

    @property
    def distance(self) -> KernelDistance:
        """The distance that the kernel induces: sqrt(K(a, a) + K(b, b) - 2 K(a, b)).

        Call it as a kernel. It has rows and condensed matrices, too.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> k = tk.SubsetTreeKernel(1.0)
        >>> k.distance(["(S (A a) (B b))", "(A a)"]).round(3)
        array([[0.   , 2.236],
               [2.236, 0.   ]])
        >>> k.normalized().distance.condensed(["(S (A a) (B b))", "(A a)"]).round(3)
        array([1.088])
        """
        from treekernel_rs.distances import KernelDistance

        return KernelDistance(self)

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
            Threads, as in a call.

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
            return model.decision_function(rows, n_jobs=n_jobs).reshape(shape)

        forwards, backwards = partial(product, x, y), partial(product, y, x)
        return LinearOperator(
            shape=(len(x), len(y)),
            dtype=np.float64,
            matvec=forwards,
            matmat=forwards,
            rmatvec=backwards,
            rmatmat=backwards,
        )

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
            Whether to return the derivatives by the kernel's real parameters as well.

        Returns
        -------
        float
            The kernel.
        dict of str to float
            With `gradient`: the derivatives by the name of the parameter.

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
        Factors of mu by label. The key None is for all other labels, whose factor is
        otherwise 1.
    normalize : bool, default False
        Divide by the square root of the product of both self-kernels.
    similarity : TableSimilarity, VectorSimilarity or ComposedSimilarity, optional
        The similarity of labels, for the smoothed kernels SPTK and CSPTK. Pairs of fragments
        of the same shape then weigh the product of the similarities of their labels as
        well. By default labels are equal or different.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> round(tk.PartialTreeKernel().pair("(A b)", "(A b)"), 4)
    0.1536
    >>> animals = tk.kernels.TableSimilarity({("cat", "dog"): 0.8})
    >>> k = tk.PartialTreeKernel(similarity=animals)
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
        check_flag(parameters.pop("normalize"))
        if not (similarity is None or hasattr(similarity, "_table")):
            msg = (
                f"similarity must be a TableSimilarity or the like, got {similarity!r}"
            )
            raise TypeError(msg)
        weights = parameters.pop("weights")
        if not (similarity is None or weights is None):
            msg = "similarity and weights cannot be combined: leave out one of them"
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


def _composed(name: str, *parameters: Any) -> Any:
    from treekernel_rs import algebra

    return getattr(algebra, name)(*parameters)


def copied_kernel(kernel: object) -> TreeKernel:
    """Copy a kernel for an object that must not change with it."""
    if not isinstance(kernel, TreeKernel):
        msg = f"kernel must be a tree kernel, got {kernel!r}"
        raise TypeError(msg)
    return kernel.replace()
