"""Estimators for scikit-learn: trees as X, wherever scikit-learn takes an X.

X is a `Forest`, or a list, array or series with one bracketed string per tree. A Forest is
the better choice for searches and cross-validation: its parts share what was read, and
travel to other processes as arrays. Strings are parsed when they come; the parses of
small corpora are kept for a while, so that a grid search reads each fold once per process
and not once per candidate.

Kernels are immutable, and scikit-learn sets parameters in place. So ``kernel__decay=0.2``
gives an estimator another kernel in place of changing the one it has.

Needs scikit-learn: ``pip install 'treekernel_rs[sklearn]'``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from treekernel_rs._core import Forest, as_forest
from treekernel_rs.distributed import DistributedTrees
from treekernel_rs.kernels import SubsetTreeKernel, TreeKernel

try:
    from sklearn.base import (
        BaseEstimator,
        ClassNamePrefixFeaturesOutMixin,
        TransformerMixin,
    )
    from sklearn.utils.validation import check_is_fitted
except ImportError as error:
    # Raised by `tk.TreeGram`, not by `import treekernel_rs`.
    msg = (
        "treekernel_rs.estimators needs scikit-learn 1.6 or later: "
        "pip install 'treekernel_rs[sklearn]'"
    )
    raise ImportError(msg, name=error.name) from error

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike, DTypeLike, NDArray

    from treekernel_rs._core import Tree

    TreesX = Forest | Iterable[str | bytes] | Iterable[Tree]

__all__ = ["DistributedTreeEncoder", "TreeGram"]

#: Kernels are immutable, so that one can be everybody's default.
_SST = SubsetTreeKernel(0.4)

#: Corpora of more characters are parsed anew: the memory is better used otherwise.
_LONGEST_KEPT = 1 << 22


class _TreeEstimator(BaseEstimator):  # type: ignore[misc, unused-ignore]
    """What estimators over trees have in common."""

    kernel: TreeKernel

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``kernel__decay=0.2`` replaces the kernel by such a one.

        Parameters
        ----------
        **params : dict
            Parameters of the estimator, and of its kernel after ``kernel__``.

        Returns
        -------
        self
        """
        of_kernel = {
            name.removeprefix("kernel__"): value
            for name, value in params.items()
            if name.startswith("kernel__")
        }
        # A new kernel comes before changes to it, whatever their order in a grid.
        super().set_params(
            **{n: v for n, v in params.items() if not n.startswith("kernel__")}
        )
        if of_kernel:
            self.kernel = _checked_kernel(self.kernel).replace(**of_kernel)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags


class _TreeTransformer(
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    _TreeEstimator,  # type: ignore[misc, unused-ignore]
):
    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags


class TreeGram(_TreeTransformer):
    """Kernels of trees with the trees of the training set.

    A transformer for estimators that take a precomputed kernel matrix, such as
    ``SVC(kernel="precomputed")``.

    Parameters
    ----------
    kernel : SubtreeKernel, SubsetTreeKernel, PartialTreeKernel or ElasticTreeKernel
        The kernel. Its parameters are set and searched as ``kernel__decay`` and so on.
    n_jobs : int, optional
        Threads; all cores the process may use by default. Set 1 where joblib's own
        workers already use the cores.

    Attributes
    ----------
    forest_ : Forest
        The trees of the training set.
    kernel_ : TreeKernel
        The kernel at the time of `fit`.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.svm import SVC
    >>> X = ["(S (A a) (B b))", "(S (A a) (C c))", "(S (B b) (B b))", "(S (C c) (B b))"]
    >>> gram = tk.TreeGram(tk.SubsetTreeKernel(0.4))
    >>> gram.fit_transform(X).shape
    (4, 4)
    >>> gram.transform(["(S (A a) (D d))"]).round(2)
    array([[0.4, 0.4, 0. , 0. ]])
    >>> model = make_pipeline(gram, SVC(kernel="precomputed"))
    >>> model.set_params(treegram__kernel__decay=0.2).fit(X, [0, 0, 1, 1]).predict(X)
    array([0, 0, 1, 1])
    """

    def __init__(self, kernel: TreeKernel, *, n_jobs: int | None = None) -> None:
        self.kernel = kernel
        self.n_jobs = n_jobs

    def fit(self, X: TreesX, y: object = None) -> Self:
        """Keep the trees.

        Parameters
        ----------
        X : Forest or sequence of str
            The training set.
        y : ignored

        Returns
        -------
        self
        """
        kernel = _checked_kernel(self.kernel)
        self.forest_ = _trees_to_fit(X)
        self.kernel_ = kernel
        return self

    def transform(self, X: TreesX) -> NDArray[np.float64]:
        """Compute the kernels of all trees of X with all of the training set.

        Parameters
        ----------
        X : Forest or sequence of str
            The trees.

        Returns
        -------
        ndarray of float64, shape (len(X), len(forest_))
        """
        check_is_fitted(self)
        return self.kernel_.gram(_trees(X), self.forest_, n_jobs=self.n_jobs)

    def fit_transform(self, X: TreesX, y: object = None) -> NDArray[np.float64]:
        """Keep the trees and compute their kernels with each other, once per pair.

        Parameters
        ----------
        X : Forest or sequence of str
            The training set.
        y : ignored

        Returns
        -------
        ndarray of float64, shape (len(X), len(X))
        """
        self.fit(X)
        return self.kernel_.gram(self.forest_, n_jobs=self.n_jobs)

    @property
    def _n_features_out(self) -> int:
        return len(self.forest_)


class DistributedTreeEncoder(_TreeTransformer):
    """Trees as vectors whose dot products approximate a tree kernel.

    A transformer for linear models: their training takes time linear in the number of
    trees, and prediction does not depend on it. See `DistributedTrees`, whose parameters
    it has.

    Parameters
    ----------
    kernel : SubsetTreeKernel, SubtreeKernel or PartialTreeKernel
        The kernel to approximate; ``SubsetTreeKernel(0.4)`` by default.
    n_components : int, default 8192
        Length of the vectors; a multiple of 4.
    composition : {"quaternion", "sign", "phasor", "convolution", "gamma"}
        How two vectors become one.
    fold : {"left", "right"}
        The order in which children are composed.
    seed : int, default 0
        Where labels and permutations come from.
    max_height : int, optional
        Only fragments of at most so many levels.
    sketch_decay : float or "auto", optional
        Run with this decay in place of the kernel's; "auto" is found at `fit`.
    dtype : float32 or float64, default float32
        Type of the vectors.
    zero_mean : bool, default True
        Whether label vectors of "convolution" sum to zero.
    norm : {"exact", "own"}, default "exact"
        What vectors are divided by if the kernel is normalised.
    paths : ndarray of uint64, optional
        A dictionary of paths.
    prune : bool, default False
        Whether `fit` makes the dictionary of the paths that the training set shares: less
        noise, for `SubsetTreeKernel`. Not together with `paths`.
    n_jobs : int, optional
        Threads; all cores the process may use by default.

    Attributes
    ----------
    encoder_ : DistributedTrees
        The encoder, with what `fit` found.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> from sklearn.linear_model import RidgeClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> X = ["(S (A a) (B b))", "(S (A a) (C c))", "(S (B b) (B b))", "(S (C c) (B b))"]
    >>> encoder = tk.DistributedTreeEncoder(n_components=1024)
    >>> encoder.fit_transform(X).shape
    (4, 1024)
    >>> encoder.get_feature_names_out()[:2]
    array(['distributedtreeencoder0', 'distributedtreeencoder1'], dtype=object)
    >>> make_pipeline(encoder, RidgeClassifier()).fit(X, [0, 0, 1, 1]).predict(X)
    array([0, 0, 1, 1])
    """

    def __init__(
        self,
        kernel: TreeKernel = _SST,
        n_components: int = 8192,
        *,
        composition: str = "quaternion",
        fold: str = "left",
        seed: int = 0,
        max_height: int | None = None,
        sketch_decay: float | Literal["auto"] | None = None,
        dtype: DTypeLike = np.float32,
        zero_mean: bool = True,
        norm: str = "exact",
        paths: ArrayLike | None = None,
        prune: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.composition = composition
        self.fold = fold
        self.seed = seed
        self.max_height = max_height
        self.sketch_decay = sketch_decay
        self.dtype = dtype
        self.zero_mean = zero_mean
        self.norm = norm
        self.paths = paths
        self.prune = prune
        self.n_jobs = n_jobs

    def fit(self, X: TreesX, y: object = None) -> Self:
        """Make the encoder; look at the trees where `prune` or "auto" ask for it.

        Parameters
        ----------
        X : Forest or sequence of str
            The training set.
        y : ignored

        Returns
        -------
        self
        """
        if self.prune and self.paths is not None:
            msg = "prune must be False where paths are given: it makes them"
            raise ValueError(msg)
        _checked_kernel(self.kernel)
        encoder = DistributedTrees(
            **{
                name: value
                for name, value in self.get_params(deep=False).items()
                if name not in ("prune", "n_jobs")
            }
        )
        forest = _trees_to_fit(X)
        if self.prune:
            encoder = encoder.prune(forest)
        if encoder.sketch_decay == "auto":
            encoder = encoder.tune(forest)
        self.encoder_ = encoder
        return self

    def transform(self, X: TreesX) -> NDArray[Any]:
        """Compute the vectors of trees.

        Parameters
        ----------
        X : Forest or sequence of str
            The trees.

        Returns
        -------
        ndarray of `dtype`, shape (len(X), n_components)
        """
        check_is_fitted(self)
        return self.encoder_.encode(_trees(X), n_jobs=self.n_jobs)

    @property
    def _n_features_out(self) -> int:
        return self.encoder_.n_components


def _checked_kernel(kernel: object) -> TreeKernel:
    if isinstance(kernel, TreeKernel):
        return kernel
    msg = f"kernel must be a tree kernel, such as SubsetTreeKernel(0.4), got {kernel!r}"
    raise TypeError(msg)


def _trees_to_fit(X: TreesX) -> Forest:
    forest = _trees(X)
    if len(forest) == 0:
        msg = "X must hold at least one tree to fit, got none"
        raise ValueError(msg)
    return forest


def _trees(X: Any) -> Forest:
    """Return X as a Forest, one tree per entry."""
    if isinstance(X, Forest):
        return X
    if isinstance(X, str | bytes) or not hasattr(X, "__iter__"):
        msg = (
            "X must be a Forest or a list of bracketed strings, "
            f"got one {type(X).__name__}"
        )
        raise TypeError(msg)
    if getattr(X, "ndim", 1) != 1:
        # A table would be read by its column names, an array by its rows.
        msg = (
            "X must be one-dimensional, a bracketed string per tree, "
            f"got an array of shape {X.shape}"
        )
        raise ValueError(msg)
    items = tuple(X)
    if not all(isinstance(item, str) for item in items):
        return as_forest(list(items))
    if sum(map(len, items)) > _LONGEST_KEPT:
        return as_forest(items)
    return _parsed(items)


# A search by 10-fold cross-validation comes back to 20 lists for every candidate. They are
# made of the same str objects, which remember their hashes, so that a look-up takes some
# microseconds.
@lru_cache(maxsize=32)
def _parsed(lines: tuple[str, ...]) -> Forest:
    return as_forest(lines)
