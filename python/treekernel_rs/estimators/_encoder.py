"""Distributed trees as a transformer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from treekernel_rs.distributed import DistributedTrees, check_errors
from treekernel_rs.estimators._base import TreeTransformer
from treekernel_rs.estimators._inputs import as_trees, drawn_seed, trees_to_fit
from treekernel_rs.tree_kernels import TreeKernel

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike, NDArray

    from treekernel_rs.estimators._inputs import TreesX


class DistributedTreeEncoder(TreeTransformer):
    """Trees as vectors whose dot products approximate a tree kernel.

    A transformer for linear models, whose training time is linear in the number of trees.
    It has the parameters of `DistributedTrees`, which explains them.

    Parameters
    ----------
    kernel : SubsetTreeKernel, SubtreeKernel or PartialTreeKernel, optional
        The kernel to approximate; by default ``SubsetTreeKernel(0.4)``.
    n_components : int, default 8192
        Length of the vectors; a multiple of 4.
    composition : {"quaternion", "sign", "phasor", "convolution", "gamma"}
        How two vectors become one.
    fold : {"left", "right"}
        The order in which children are composed.
    random_state : int or RandomState, optional
        Seed of the label vectors and permutations. By default each `fit` draws its own:
        give an int where vectors of several encoders are compared.
    max_height : int, optional
        Use only fragments of at most so many levels.
    sketch_decay : float, "auto" or None, default "auto"
        Decay to use in place of the kernel's. With "auto" `fit` finds the one that suits the
        training set (`DistributedTrees.tune`), None is the kernel's own.
    dtype : float32 or float64, default float32
        Type of the vectors.
    zero_mean : bool, default True
        Whether label vectors of "convolution" sum to zero.
    reproducible : bool, default True
        Whether vectors of "convolution" have the same bits on every processor; False
        takes a third of the time for each composition.
    norm : {"auto", "exact", "full", "own"}, default "auto"
        The norm that vectors are divided by if the kernel is normalised. "auto" is "own",
        so that all vectors have length 1 whatever their noise, or "exact" with `prune` or
        `paths`.
    errors : {"raise", "zero"}, default "raise"
        What to do with a vector that is too large for `dtype`.
    paths : ndarray of uint64, optional
        A dictionary of paths, from `DistributedTrees.prune`.
    prune : bool, default False
        Whether `fit` keeps only the paths that trees of the training set share. This
        reduces noise. For `SubsetTreeKernel`, and not together with `paths`.
    n_jobs : int, optional
        Threads; by default and for -1 all cores the process may use.
    verbose : bool, default False
        Whether to show a progress bar.

    Attributes
    ----------
    kernel_ : TreeKernel
        The kernel at the time of `fit`.
    encoder_ : DistributedTrees
        The encoder with its fitted `paths`, `sketch_decay` and `norm`. A vector does not
        depend on the trees that are encoded with it.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> from sklearn.linear_model import RidgeClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> X = ["(S (A a) (B b))", "(S (A a) (C c))", "(S (B b) (B b))", "(S (C c) (B b))"]
    >>> encoder = tk.DistributedTreeEncoder(n_components=1024)
    >>> encoder.fit_transform(X).shape
    (4, 1024)
    >>> encoder.transform(["(S (A a) (D d))"]).shape
    (1, 1024)
    >>> encoder.get_feature_names_out()[:2]
    array(['distributedtreeencoder0', 'distributedtreeencoder1'], dtype=object)
    >>> make_pipeline(encoder, RidgeClassifier()).fit(X, [0, 0, 1, 1]).predict(X)
    array([0, 0, 1, 1])
    """

    def __init__(
        self,
        kernel: TreeKernel | None = None,
        n_components: int = 8192,
        *,
        composition: str = "quaternion",
        fold: str = "left",
        random_state: int | np.random.RandomState | None = None,
        max_height: int | None = None,
        sketch_decay: float | Literal["auto"] | None = "auto",
        dtype: DTypeLike = np.float32,
        zero_mean: bool = True,
        reproducible: bool = True,
        norm: str = "auto",
        errors: Literal["raise", "zero"] = "raise",
        paths: ArrayLike | None = None,
        prune: bool = False,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.composition = composition
        self.fold = fold
        self.random_state = random_state
        self.max_height = max_height
        self.sketch_decay = sketch_decay
        self.dtype = dtype
        self.zero_mean = zero_mean
        self.reproducible = reproducible
        self.norm = norm
        self.errors = errors
        self.paths = paths
        self.prune = prune
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: TreesX, y: object = None) -> Self:
        """Make the encoder, with what `prune` and ``"auto"`` find in the trees.

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
            msg = "prune must be False if paths are given, because it computes paths"
            raise ValueError(msg)
        self.kernel_ = self._kernel()
        parameters = self.get_params(deep=False) | {"kernel": self.kernel_}
        for name in ("prune", "n_jobs", "verbose", "errors"):
            del parameters[name]
        check_errors(self.errors)
        if self.norm == "auto":
            is_pruned = self.prune or self.paths is not None
            parameters["norm"] = "exact" if is_pruned else "own"
        if not isinstance(self.random_state, int | np.integer):
            parameters["random_state"] = drawn_seed(self.random_state)
        encoder = DistributedTrees(**parameters)
        forest = trees_to_fit(X)
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
        return self.encoder_.encode(
            as_trees(X),
            n_jobs=self.n_jobs,
            progress=bool(self.verbose),
            errors=self.errors,
        )

    @property
    def _n_features_out(self) -> int:
        return self.encoder_.n_components
