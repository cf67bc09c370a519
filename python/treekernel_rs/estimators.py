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

from dataclasses import replace
from functools import lru_cache
from itertools import combinations
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from treekernel_rs._core import Forest, as_forest
from treekernel_rs.dag import (
    DagModel,
    Fragment,
    Perceptron,
    _shown,
    one_vs_one_dual_coef,
)
from treekernel_rs.distributed import DistributedTrees
from treekernel_rs.drawing import _one_tree
from treekernel_rs.kernels import SubsetTreeKernel, TreeKernel

try:
    from sklearn.base import (
        BaseEstimator,
        ClassifierMixin,
        ClassNamePrefixFeaturesOutMixin,
        TransformerMixin,
    )
    from sklearn.svm import SVC
    from sklearn.utils import check_consistent_length, check_random_state, column_or_1d
    from sklearn.utils.class_weight import compute_sample_weight
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted
except ImportError as error:
    # Raised by `tk.TreeGram`, not by `import treekernel_rs`.
    msg = (
        "treekernel_rs.estimators needs scikit-learn 1.6 or later: "
        "pip install 'treekernel_rs[sklearn]'"
    )
    raise ImportError(msg, name=error.name) from error

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import ArrayLike, DTypeLike, NDArray

    from treekernel_rs._core import Tree

    TreesX = Forest | Iterable[str | bytes] | Iterable[Tree]

__all__ = ["DistributedTreeEncoder", "TreeGram", "TreePerceptron", "TreeSVC"]

#: Kernels are immutable, so that one can be everybody's default.
_SST = SubsetTreeKernel(0.4)

#: Corpora of more characters are parsed anew: the memory is better used otherwise.
_LONGEST_KEPT = 1 << 22


class _TreeEstimator(BaseEstimator):
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
    _TreeEstimator,
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
    >>> encoder.transform(["(S (A a) (D d))"]).shape
    (1, 1024)
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


class _Explained(ClassifierMixin, _TreeEstimator):
    """A classifier whose decision functions are the outputs of a `DagModel`.

    With two classes that is one output for the second; else one for each class, or for
    each pair of classes.
    """

    classes_: NDArray[Any]

    def _model(self) -> DagModel:
        raise NotImplementedError

    def _outputs(self) -> list[Any]:
        """Return the class, or pair of classes, that each output speaks for."""
        if len(self.classes_) == 2:
            return [self.classes_[1]]
        return list(self.classes_)

    def top_fragments(
        self,
        k: int = 10,
        *,
        by: Literal["largest", "smallest", "absolute"] = "largest",
        label: Any = None,
        min_size: int = 0,
        max_size: int | None = None,
        max_states: int = 1_000_000,
    ) -> list[Fragment]:
        """Find the fragments that count most in the decision functions.

        Parameters
        ----------
        k : int, default 10
            How many of each decision function.
        by : {"largest", "smallest", "absolute"}
            What speaks for a class (weights above 0), against it (below 0), or either.
            With two classes there is one decision function, for ``classes_[1]``.
        label : class, or pair of classes, optional
            Of this decision function only.
        min_size, max_size : int, optional
            Limits, both included, to the number of productions.
        max_states : int, default 1,000,000
            How many partial fragments the search may look at.

        Returns
        -------
        list of Fragment
            Their `output` is the class; of a classifier by pairs of classes the pair,
            where weights above 0 speak for the first and below 0 for the second.

        Raises
        ------
        ValueError
            For a partial or elastic tree kernel, an unknown label, or a perceptron that
            votes.
        RuntimeError
            If `max_states` did not do; see `DagModel.top_fragments`.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> X = ["(S (A a) (B b))", "(S (A a) (C c))", "(S (B b) (D d))", "(S (B b))"]
        >>> svc = tk.TreeSVC(tk.SubsetTreeKernel(0.4), C=10).fit(X, ["x", "x", "y", "y"])
        >>> for fragment in svc.top_fragments(2):
        ...     print(fragment)
        y  +0.4163   (S B)
        y  +0.203    (B b)
        >>> svc.top_fragments(1, by="smallest")
        [<Fragment y -0.6131: (A a)>]
        """
        model, outputs = self._model(), self._outputs()
        found = model.top_fragments(
            k,
            by=by,
            output=None if label is None else _place(outputs, label),
            min_size=min_size,
            max_size=max_size,
            max_states=max_states,
        )
        return [replace(f, output=outputs[f.output or 0]) for f in found]

    def contributions(
        self, tree: Tree | str | object, label: Any = None
    ) -> NDArray[np.float64]:
        """Compute how much each node of a tree adds to a decision function.

        Parameters
        ----------
        tree : Tree, str or object as in Forest.from_trees
            The tree.
        label : class, or pair of classes, optional
            What speaks for this class; of a classifier by pairs, also what speaks for the
            first of a pair against the second. By default the class that is predicted
            for the tree, and with two classes ``classes_[1]``, as in `decision_function`.

        Returns
        -------
        ndarray of float64, shape (n_nodes,)
            By node, in preorder: the sum over all fragments rooted there. Together they
            are the decision function without its constant; for a class of a classifier by
            pairs, the sum over its pairs.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> X = ["(S (A a) (B b))", "(S (A a) (C c))", "(S (B b) (D d))", "(S (B b))"]
        >>> svc = tk.TreeSVC(tk.SubsetTreeKernel(0.4), C=10).fit(X, ["x", "x", "y", "y"])
        >>> svc.contributions(X[0]).round(2)
        array([-0.8 , -0.61,  0.  ,  0.2 ,  0.  ])
        >>> tk.draw(X[0], svc.contributions(X[0]))
        <Drawing: 200 x 186 pixels>
        """
        model, outputs = self._model(), self._outputs()
        one = _one_tree(tree)
        shares = model.contributions(one)
        if len(outputs) == 1:
            if label is None:
                label = outputs[0]
            # For the one class is against the other.
            return shares if _place(self.classes_, label) == 1 else -shares
        if label is None:
            label = self.predict(Forest.from_trees([one]))[0]
        if isinstance(label, tuple) or not isinstance(outputs[0], tuple):
            return np.ascontiguousarray(shares[:, _place(outputs, label)])
        which = self.classes_[_place(self.classes_, label)]
        signs = [(a == which) * 1.0 - (b == which) for a, b in outputs]
        per_class: NDArray[np.float64] = shares @ np.array(signs)
        return per_class


class TreeSVC(_Explained):
    """A support vector classifier over trees that predicts without kernel rows.

    Training is scikit-learn's `SVC` on the Gram matrix. Its decision functions are
    weighted sums over the support vectors, ``sum_i alpha_i k(x_i, x) + b``, and those are
    put into one `DagModel`: subtrees that support vectors share are stored once, with one
    weight per decision function. So a prediction is one pass over the new tree for all
    classes, and decisions are those of `SVC` but for rounding. Training holds the Gram
    matrix.

    Parameters
    ----------
    kernel : SubtreeKernel, SubsetTreeKernel, PartialTreeKernel or ElasticTreeKernel
        The kernel. Its parameters are set and searched as ``kernel__decay`` and so on.
    C : float, default 1
        The price of training errors. Kernels that are not normalised want it small.
    multi_class : {"ovo", "ovr"}
        One decision function per pair of classes, as `SVC` does it, or one per class
        against the rest.
    decision_function_shape : {"ovr", "ovo"}
        Whether `decision_function` sums the pairs' votes up to a column per class, as in
        `SVC`. Of use only with ``multi_class="ovo"``.
    class_weight : dict or "balanced", optional
        Factors of `C` per class.
    tol : float, default 1e-3
        Where the solver stops.
    max_iter : int, default -1
        Limit of the solver's iterations; -1 for none.
    cache_size : float, default 200
        Megabytes of the solver's cache.
    n_jobs : int, optional
        Threads; all cores the process may use by default.

    Attributes
    ----------
    classes_ : ndarray
        The labels, sorted.
    support_ : ndarray of int
        Indices of the support vectors in the training set.
    n_support_ : ndarray of int, shape (n_classes,)
        How many of them each class has.
    dual_coef_ : ndarray, shape (n_decisions, len(support_))
        Coefficients of the support vectors in every decision function: one for two
        classes, else one per pair or per class.
    intercept_ : ndarray, shape (n_decisions,)
        The constants of the decision functions.
    model_ : DagModel
        The decision functions.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> X = ["(S (A a) (B b))", "(S (A a) (C c))", "(S (B b) (B b))", "(S (C c) (B b))"]
    >>> svc = tk.TreeSVC(tk.SubsetTreeKernel(0.4), C=10).fit(X, ["x", "x", "y", "y"])
    >>> svc.predict(["(S (A a) (D d))", "(S (D d) (B b))"])
    array(['x', 'y'], dtype='<U1')
    >>> svc.decision_function(X[:2]).round(2)
    array([-1., -1.])
    """

    classes_: NDArray[Any]
    intercept_: NDArray[np.float64]
    model_: DagModel
    _pairs: bool

    def __init__(
        self,
        kernel: TreeKernel,
        C: float = 1.0,
        *,
        multi_class: Literal["ovo", "ovr"] = "ovo",
        decision_function_shape: Literal["ovr", "ovo"] = "ovr",
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        tol: float = 1e-3,
        max_iter: int = -1,
        cache_size: float = 200,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.C = C
        self.multi_class = multi_class
        self.decision_function_shape = decision_function_shape
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.cache_size = cache_size
        self.n_jobs = n_jobs

    def fit(
        self, X: TreesX, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Train the decision functions and build their model.

        Parameters
        ----------
        X : Forest or sequence of str
            The training set.
        y : array of shape (len(X),)
            Labels: str, int or bool.
        sample_weight : array of shape (len(X),), optional
            Factors of `C` per tree.

        Returns
        -------
        self
        """
        kernel = _checked_kernel(self.kernel)
        for name in ("multi_class", "decision_function_shape"):
            if (value := getattr(self, name)) not in ("ovo", "ovr"):
                msg = f"{name} must be 'ovo' or 'ovr', got {value!r}"
                raise ValueError(msg)
        forest, classes, codes = _labelled(X, y)
        if not isinstance(self.C, Real) or not self.C > 0:
            msg = f"C must be a number above 0, got {self.C!r}"
            raise ValueError(msg)
        K = kernel.gram(forest, n_jobs=self.n_jobs)
        if len(classes) == 2 or self.multi_class == "ovr":
            dual, intercept = self._fit_each(K, classes, codes, sample_weight)
        else:
            dual, intercept = self._fit_pairs(K, classes, codes, sample_weight)
        support = np.flatnonzero(dual.any(axis=0))
        self.classes_ = classes
        self.support_ = support
        self.n_support_ = np.bincount(codes[support], minlength=len(classes))
        self.dual_coef_ = np.ascontiguousarray(dual[:, support])
        self.intercept_ = intercept
        self.model_ = DagModel.from_dual(
            kernel, forest[support], self.dual_coef_, intercept
        )
        self._pairs = len(classes) > 2 and self.multi_class == "ovo"
        return self

    def decision_function(self, X: TreesX) -> NDArray[np.float64]:
        """Compute the decision functions of trees.

        Parameters
        ----------
        X : Forest or sequence of str
            The trees.

        Returns
        -------
        ndarray of float64
            For two classes of shape (len(X),), positive for ``classes_[1]``; else with a
            column per class, or per pair of classes where `decision_function_shape` is
            "ovo".
        """
        scores = self._scores(X)
        if self._pairs and self.decision_function_shape == "ovr":
            return _per_class(scores, len(self.classes_))
        return scores

    def predict(self, X: TreesX) -> NDArray[Any]:
        """Classify trees.

        Parameters
        ----------
        X : Forest or sequence of str
            The trees.

        Returns
        -------
        ndarray of shape (len(X),)
            Labels, as in `classes_`.
        """
        scores = self._scores(X)
        if self._pairs:
            n = len(self.classes_)
            votes = np.zeros((len(scores), n), np.int64)
            for score, (i, j) in zip(scores.T, combinations(range(n), 2), strict=True):
                votes[:, i] += score > 0
                votes[:, j] += score <= 0  # a tie goes to the later class, as in libsvm
            return _labels(votes, self.classes_)
        return _labels(scores, self.classes_)

    def _model(self) -> DagModel:
        check_is_fitted(self)
        return self.model_

    def _outputs(self) -> list[Any]:
        if self._pairs:
            return list(combinations(self.classes_, 2))
        return super()._outputs()

    def _scores(self, X: TreesX) -> NDArray[np.float64]:
        check_is_fitted(self)
        scores = self.model_.score(_trees(X), n_jobs=self.n_jobs)
        return scores.reshape(-1) if len(self.intercept_) == 1 else scores

    def _svc(self, class_weight: Any) -> Any:
        return SVC(
            kernel="precomputed",
            C=self.C,
            class_weight=class_weight,
            tol=self.tol,
            max_iter=self.max_iter,
            cache_size=self.cache_size,
        )

    def _fit_each(
        self,
        K: NDArray[np.float64],
        classes: NDArray[Any],
        codes: NDArray[np.int64],
        sample_weight: Any,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Train each class against the rest; of two classes, the second."""
        weights, balanced = sample_weight, None
        if self.class_weight == "balanced":
            balanced = "balanced"  # by the sizes of a class and its rest
        elif self.class_weight is not None:
            weights = compute_sample_weight(self.class_weight, classes[codes])
            if sample_weight is not None:
                weights = weights * np.asarray(sample_weight)
        wanted = [1] if len(classes) == 2 else range(len(classes))
        dual = np.zeros((len(wanted), len(codes)))
        intercept = np.empty(len(wanted))
        for row, c in enumerate(wanted):
            svc = self._svc(balanced).fit(K, codes == c, weights)
            dual[row, svc.support_] = svc.dual_coef_[0]
            intercept[row] = svc.intercept_[0]
        return dual, intercept

    def _fit_pairs(
        self,
        K: NDArray[np.float64],
        classes: NDArray[Any],
        codes: NDArray[np.int64],
        sample_weight: Any,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Train every class against every other."""
        svc = self._svc(self.class_weight).fit(K, classes[codes], sample_weight)
        pairs = one_vs_one_dual_coef(svc.dual_coef_, svc.n_support_)
        dual = np.zeros((len(pairs), len(codes)))
        dual[:, svc.support_] = pairs
        return dual, svc.intercept_


class TreePerceptron(_Explained):
    """A kernel perceptron over trees, trained tree by tree.

    With more than two classes it is one perceptron per class against the rest, all in
    one model: a tree is looked up once for all of them.

    Parameters
    ----------
    kernel : SubtreeKernel, SubsetTreeKernel, PartialTreeKernel or ElasticTreeKernel
        The kernel. Its parameters are set and searched as ``kernel__decay`` and so on.
    vote : {"average", "last", "vote"}
        Who predicts: the mean of all hypotheses on the way, the last one, or a vote of
        all, each as often as it survived.
    n_iter : int, default 5
        How often `fit` goes through the training set.
    shuffle : bool, default True
        Whether `fit` takes the trees in a new order each time.
    random_state : int, RandomState or None
        Where the orders come from.
    n_jobs : int, optional
        Threads for predictions; all cores the process may use by default.

    Attributes
    ----------
    classes_ : ndarray
        The labels, sorted.
    perceptron_ : Perceptron
        What was learnt.
    n_mistakes_ : int
        Mistakes so far, summed over the classes' perceptrons.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> X = ["(S (A a) (B b))", "(S (A a) (C c))", "(S (B b) (B b))", "(S (C c) (B b))"]
    >>> y = ["x", "x", "y", "y"]
    >>> clf = tk.TreePerceptron(tk.SubsetTreeKernel(0.4), random_state=0).fit(X, y)
    >>> clf.predict(X)
    array(['x', 'x', 'y', 'y'], dtype='<U1')
    >>> clf.partial_fit(["(S (D d) (B b))"], ["y"]).decision_function(X) > 0
    array([False, False,  True,  True])
    """

    classes_: NDArray[Any]
    perceptron_: Perceptron

    def __init__(
        self,
        kernel: TreeKernel,
        vote: Literal["average", "last", "vote"] = "average",
        *,
        n_iter: int = 5,
        shuffle: bool = True,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.vote = vote
        self.n_iter = n_iter
        self.shuffle = shuffle
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: TreesX, y: ArrayLike) -> Self:
        """Forget what was learnt, and learn in `n_iter` passes.

        Parameters
        ----------
        X : Forest or sequence of str
            The training set.
        y : array of shape (len(X),)
            Labels: str, int or bool.

        Returns
        -------
        self
        """
        if not isinstance(self.n_iter, int | np.integer) or self.n_iter < 1:
            msg = f"n_iter must be an int of at least 1, got {self.n_iter!r}"
            raise ValueError(msg)
        forest, classes, codes = _labelled(X, y)
        rng = check_random_state(self.random_state)
        self._start(classes)
        for _ in range(self.n_iter):
            if self.shuffle:
                order = rng.permutation(len(forest))
                self._learn(forest[order], codes[order])
            else:
                self._learn(forest, codes)
        return self

    def partial_fit(
        self, X: TreesX, y: ArrayLike, classes: ArrayLike | None = None
    ) -> Self:
        """Go on learning: one pass over some trees, in their order.

        Parameters
        ----------
        X : Forest or sequence of str
            The trees.
        y : array of shape (len(X),)
            Their labels.
        classes : array, optional
            All labels that will ever come; needed in the first call.

        Returns
        -------
        self
        """
        known: Any = getattr(self, "classes_", None)
        if classes is None and known is None:
            msg = "classes must be given in the first call of partial_fit"
            raise ValueError(msg)
        given = known if classes is None else _two_or_more(np.unique(classes))
        if known is not None and not np.array_equal(known, given):
            msg = f"classes must stay what they were, {known!r}, got {given!r}"
            raise ValueError(msg)
        forest, labels = _with_labels(X, y)
        strangers = np.setdiff1d(labels, given)
        if strangers.size:
            msg = f"y must hold labels of classes, {given!r}, got {strangers[0]!r}"
            raise ValueError(msg)
        if known is None:
            self._start(given)
        self._learn(forest, np.searchsorted(given, labels))
        return self

    def decision_function(self, X: TreesX) -> NDArray[np.float64]:
        """Compute the scores of trees.

        Parameters
        ----------
        X : Forest or sequence of str
            The trees.

        Returns
        -------
        ndarray of float64
            For two classes of shape (len(X),), positive for ``classes_[1]``; else with a
            column per class.
        """
        check_is_fitted(self)
        return self.perceptron_.score(_trees(X), n_jobs=self.n_jobs)

    def predict(self, X: TreesX) -> NDArray[Any]:
        """Classify trees.

        Parameters
        ----------
        X : Forest or sequence of str
            The trees.

        Returns
        -------
        ndarray of shape (len(X),)
            Labels, as in `classes_`.
        """
        return _labels(self.decision_function(X), self.classes_)

    def _model(self) -> DagModel:
        check_is_fitted(self)
        if self.perceptron_.vote == "vote":
            msg = "vote must be 'average' or 'last': votes are no sum over fragments"
            raise ValueError(msg)
        return self.perceptron_.model

    @property
    def n_mistakes_(self) -> int:
        """Mistakes so far, summed over the classes' perceptrons."""
        return int(np.sum(self.perceptron_.n_mistakes))

    def _start(self, classes: NDArray[Any]) -> None:
        n_outputs = 1 if len(classes) == 2 else len(classes)
        self.perceptron_ = Perceptron(
            _checked_kernel(self.kernel), self.vote, n_outputs=n_outputs
        )
        self.classes_ = classes

    def _learn(self, forest: Forest, codes: NDArray[np.int64]) -> None:
        n = len(self.classes_)
        if n == 2:
            signs = np.where(codes == 1, 1.0, -1.0)
        else:
            signs = np.where(codes[:, None] == np.arange(n), 1.0, -1.0)
        self.perceptron_.learn(forest, signs)


def _place(names: Iterable[Any], name: Any) -> int:
    """Return where a class, or a pair of them, stands."""
    known = list(names)
    for place, other in enumerate(known):
        if type(name) is tuple or type(other) is tuple:
            if type(name) is type(other) and tuple(name) == tuple(other):
                return place
        elif name == other:
            return place
    msg = f"label must be one of {', '.join(map(_shown, known))}, got {name!r}"
    raise ValueError(msg)


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


def _with_labels(X: TreesX, y: ArrayLike) -> tuple[Forest, NDArray[Any]]:
    forest = _trees_to_fit(X)
    labels = column_or_1d(y, warn=True)
    check_consistent_length(forest, labels)
    check_classification_targets(labels)
    return forest, labels


def _labelled(
    X: TreesX, y: ArrayLike
) -> tuple[Forest, NDArray[Any], NDArray[np.int64]]:
    """Return trees, classes, and the class of each tree as an index."""
    forest, labels = _with_labels(X, y)
    classes, codes = np.unique(labels, return_inverse=True)
    return forest, _two_or_more(classes), codes


def _two_or_more(classes: NDArray[Any]) -> NDArray[Any]:
    if len(classes) < 2:
        msg = f"y must hold at least two classes, got {len(classes)}: {classes!r}"
        raise ValueError(msg)
    return classes


def _labels(scores: NDArray[Any], classes: NDArray[Any]) -> NDArray[Any]:
    best = scores >= 0 if scores.ndim == 1 else scores.argmax(axis=1)
    labels: NDArray[Any] = classes[best.astype(np.intp)]
    return labels


def _per_class(scores: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """Turn scores of pairs of classes into one per class, as `SVC` does.

    A column counts the pairs that the class wins. What it won them by is squeezed into
    less than a half vote, so that it orders classes of equal votes and changes nothing
    else.
    """
    votes = np.zeros((len(scores), n))
    margins = np.zeros((len(scores), n))
    for score, (i, j) in zip(scores.T, combinations(range(n), 2), strict=True):
        votes[:, i] += score >= 0
        votes[:, j] += score < 0
        margins[:, i] += score
        margins[:, j] -= score
    per_class: NDArray[np.float64] = votes + margins / (3 * (np.abs(margins) + 1))
    return per_class
