"""DAG models: exact scores without the support trees, and online learning."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

import numpy as np

from treekernel_rs import _core
from treekernel_rs._arguments import (
    check_integer,
    check_jobs,
    check_number,
    progress_callback,
)
from treekernel_rs._core import __version__, as_forest
from treekernel_rs._held import HeldKernel
from treekernel_rs._matrices import warn_of_zeros
from treekernel_rs._parameters import Parameters, read_json
from treekernel_rs._versions import warn_if_other
from treekernel_rs.tree_kernels import (
    COMPOSED_KERNELS,
    TREE_KERNELS,
    TreeKernel,
    copied_kernel,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from treekernel_rs._arguments import Progress, Trees
    from treekernel_rs._core import Dag, Learner, Tree

    Vectors: TypeAlias = ArrayLike | Any

__all__ = [
    "DagModel",
    "Fragment",
    "Perceptron",
    "VectorPolynomial",
]


class VectorPolynomial(Parameters):
    """The kernel (gamma <a,b> + coef0)^degree of feature vectors that come with trees.

    Parameters
    ----------
    degree : int, default 3
        At least 1.
    coef0 : float, default 1
        Not negative.
    gamma : float, default 1
        Above 0.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> tk.kernels.VectorPolynomial(2, coef0=0.5)
    VectorPolynomial(2, coef0=0.5)
    """

    degree: int
    coef0: float
    gamma: float

    def __init__(
        self, degree: int = 3, *, coef0: float = 1.0, gamma: float = 1.0
    ) -> None:
        self._remember(degree=degree, coef0=coef0, gamma=gamma)
        self._make()

    def _make(self) -> tuple[int, float, float]:
        degree = check_integer("degree", self.degree)
        coef0, gamma = (
            check_number("coef0", self.coef0),
            check_number("gamma", self.gamma),
        )
        for name, value, right, expected in (
            ("degree", degree, 1 <= degree <= 1000, "from 1 to 1000"),
            ("coef0", coef0, 0 <= coef0 < np.inf, "finite and not negative"),
            ("gamma", gamma, 0 < gamma < np.inf, "finite and above 0"),
        ):
            if not right:
                msg = f"{name} must be {expected}, got {value}"
                raise ValueError(msg)
        return degree, coef0, gamma


@dataclass(frozen=True, slots=True, repr=False)
class Fragment:
    """A fragment and its weight in a score: see `DagModel.top_fragments`.

    Attributes
    ----------
    tree : Tree
        The fragment. A leaf of the fragment may have children in the trees.
    weight : float
        What one occurrence adds to the score of a tree.
    size : int
        The number of productions (inner nodes) of the fragment; for partial and elastic
        trees and for paths, the number of nodes.
    output : object
        The score that it belongs to. For a model, the number of the output, or None if
        there is only one; for a classifier, the class or pair of classes.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> model = tk.DagModel(tk.SubsetTreeKernel(0.5))
    >>> model.add(["(S (A a) (B b))"], [1.0])
    >>> fragment, *_ = model.top_fragments(1)
    >>> print(fragment)
    +0.5      (A a)
    >>> fragment.tree, fragment.weight, fragment.size
    (<Tree (A a)>, 0.5, 1)
    """

    tree: Tree
    weight: float
    size: int
    output: Any = None

    def __str__(self) -> str:
        """Return the output, the weight and the fragment in brackets."""
        whose = "" if self.output is None else f"{_shown(self.output)}  "
        return f"{whose}{self.weight:<+9.4g} {self.tree}"

    def __repr__(self) -> str:
        """Show weight and fragment, shortened."""
        whose = "" if self.output is None else f"{_shown(self.output)} "
        text = repr(self.tree).removeprefix("<Tree ")
        return f"<Fragment {whose}{self.weight:+.4g}: {text}"


class DagModel:
    r"""A kernel machine as one graph of weighted subtrees.

    A score is exactly the sum of alpha_i K(x_i, x) over the support trees x_i. But the model
    does not keep the support trees: it stores each distinct subtree once, with the sum of its
    weights. Scoring visits what the tree and the model have in common, so its time hardly
    depends on the number of support trees.

    Some kernels are no sums over subtrees: products, powers and other compositions, similar
    labels, `SubsetTreeKernel` and other kernels with `weights`, and counts that are not
    linear. Their models keep the support trees, equal ones once. Scores are as exact, but
    each takes the time of a kernel for every support tree.

    Parameters
    ----------
    kernel : TreeKernel
        The kernel, with all its parameters. With ``normalize=True``, the weight of a tree
        is divided by the square root of its self-kernel, and so is the score of a tree.
    n_outputs : int, default 1
        The number of scores for each tree, up to 2**20. Several outputs share one graph,
        which is visited once for all of them.

    Attributes
    ----------
    intercept : float, or ndarray of shape (n_outputs,)
        Intercept of each output: added to its scores; can be set.
    n_trees : int
        The number of trees that were added.
    n_nodes : int
        The number of distinct subtrees.
    is_graph : bool
        Whether only subtrees are stored, so that the time of a score hardly depends on the
        number of support trees. A sum of kernels has a graph for each term that has one.
    n_tree_nodes : int
        The number of nodes of all added trees, which a list of support trees would hold.
    nbytes : int
        The memory of the model in bytes.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> trees = ["(S (A a) (B b))", "(S (A a) (B c))", "(A a)"]
    >>> model = tk.DagModel(tk.SubsetTreeKernel(0.4))
    >>> model.add(trees[:2], [1.0, -0.5])
    >>> model
    <DagModel: SubsetTreeKernel(0.4), 2 trees, 8 distinct subtrees>
    >>> model.decision_function(trees).round(3)
    array([1.104, 0.168, 0.2  ])
    >>> (tk.SubsetTreeKernel(0.4)(trees, trees[:2]) @ [1.0, -0.5]).round(3)
    array([1.104, 0.168, 0.2  ])
    """

    kernel = HeldKernel[TreeKernel]()
    n_outputs: int
    _core: Dag

    def __init__(self, kernel: TreeKernel, n_outputs: int = 1) -> None:
        kernel = copied_kernel(kernel)
        n_outputs = check_integer("n_outputs", n_outputs)
        core = _core.Dag(kernel._core, kernel.normalize, n_outputs)
        self._remember(core, kernel, n_outputs)

    def _remember(self, core: Dag, kernel: TreeKernel, n_outputs: int) -> None:
        self.kernel = kernel
        vars(self).update(_core=core, n_outputs=n_outputs)

    @classmethod
    def _of(cls, core: Dag, kernel: TreeKernel, n_outputs: int) -> DagModel:
        model = cls.__new__(cls)
        model._remember(core, kernel, n_outputs)
        return model

    @classmethod
    def from_dual(
        cls,
        kernel: TreeKernel,
        X: Trees,
        dual_coef: ArrayLike | Any,
        intercept: ArrayLike = 0.0,
    ) -> DagModel:
        """Make a model of a machine that was trained elsewhere.

        Parameters
        ----------
        kernel : TreeKernel
            The kernel of the machine.
        X : Forest or sequence of str
            The support trees; or all training trees, where the others have zeros.
        dual_coef : array-like, shape (n_trees,), (1, n_trees) or (n_trees, n_outputs)
            The weights, as in `add`. One row is also accepted: this is the shape of
            `dual_coef_` of an `SVR` or a binary `SVC` in scikit-learn.
        intercept : float or array-like, shape (n_outputs,)
            Intercept of each output, as `intercept_` in scikit-learn.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> trees = ["(S (A a) (B b))", "(S (A a) (B c))"]
        >>> model = tk.DagModel.from_dual(tk.SubsetTreeKernel(1.0), trees, [[1, -1]], 0.5)
        >>> model.decision_function(trees)
        array([ 3.5, -2.5])
        """
        x, dense = as_forest(X), _dense(dual_coef)
        weights = _floats("dual_coef", dense)
        if weights.ndim == 1 or weights.shape == (1, len(x)):
            weights = weights.reshape(-1, 1)
        if weights.ndim != 2 or len(weights) != len(x):
            msg = (
                f"dual_coef must be of shape (n_trees,) or (n_trees, n_outputs) with "
                f"{len(x)} trees, got {np.shape(dense)}"
            )
            raise ValueError(msg)
        _check_all("dual_coef", weights, "finite")
        model = cls(kernel, max(1, weights.shape[1]))
        model.intercept = intercept
        used = np.flatnonzero((weights != 0).any(axis=1))
        model.add(x[used.tolist()], weights[used])
        return model

    @classmethod
    def from_svc(cls, kernel: TreeKernel, X: Trees, svc: Any) -> DagModel:
        """Make a model of a fitted `SVC` or `SVR` of scikit-learn.

        Parameters
        ----------
        kernel : TreeKernel
            The kernel whose matrix the machine was trained on.
        X : Forest or sequence of str
            Its training trees, all of them.
        svc : SVC, NuSVC, SVR, NuSVR or OneClassSVM
            The machine, fitted with ``kernel="precomputed"``.

        Returns
        -------
        DagModel
            Its scores are the machine's `decision_function`, those of an `SVR` its
            predictions. An `SVC` with more than two classes is a machine for each pair of
            classes; the model has an output for each, as the `SVC` has with
            ``decision_function_shape="ovo"``.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> from sklearn.svm import SVC
        >>> kernel, trees = tk.SubsetTreeKernel(0.4), ["(S a)", "(S b)", "(S c)"]
        >>> svc = SVC(kernel="precomputed").fit(kernel(trees), [0, 1, 2])
        >>> tk.DagModel.from_svc(kernel, trees, svc).decision_function(["(S a)"]).round(1)
        array([[0.4, 0.4, 0. ]])
        """
        x = as_forest(X)
        if len(x) != svc.shape_fit_[0]:
            msg = (
                f"X must hold the {svc.shape_fit_[0]} trees that the machine was trained "
                f"on, got {len(x)}"
            )
            raise ValueError(msg)
        dual_coef = _floats("dual_coef", _dense(svc.dual_coef_))
        if len(dual_coef) > 1:
            dual_coef = _one_vs_one(dual_coef, svc.n_support_)
        return cls.from_dual(
            kernel, x[svc.support_.tolist()], dual_coef, svc.intercept_
        )

    def add(
        self,
        X: Trees,
        alphas: ArrayLike,
        *,
        progress: Progress | bool | None = None,
    ) -> None:
        """Add trees with weights.

        Trees whose weights are all zero are not added. To remove a tree, add it again with
        the opposite weight.

        Parameters
        ----------
        X : Forest or sequence of str
            The trees.
        alphas : array-like, shape (n_trees,), or (n_trees, n_outputs) for several outputs
            Their weights.
        progress : callable or True, optional
            Called as progress(done, total), in trees; True shows a bar.

        Raises
        ------
        ValueError
            If a weight is not finite, or a sum of weights would be infinite. The model is
            not changed then.
        """
        x = as_forest(X)
        weights = _per_output("alphas", alphas, len(x), self.n_outputs)
        zeros = self._core.add(
            x, weights.ravel(), progress_callback(progress, type(self).__name__, "tree")
        )
        warn_of_zeros(zeros, "X", stacklevel=3)

    def merge(self, other: DagModel, factor: float = 1.0) -> None:
        """Add another model: scores and intercepts become sums.

        The models may come from different forests, processes or machines. Sums of floats
        depend on their order in the last bits: merge in a fixed order, and the result has
        the same bits every time.

        Parameters
        ----------
        other : DagModel
            A model of the same kernel and with as many outputs; it stays as it is.
        factor : float, default 1
            Factor of its weights and intercepts.

        Raises
        ------
        ValueError
            For a model of another kernel, or where a weight would become infinite; no
            score is changed.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> kernel, trees = tk.SubsetTreeKernel(0.5), ["(S (A a) (B b))", "(S (A a))"]
        >>> one = tk.DagModel.from_dual(kernel, trees[:1], [1.0], 0.25)
        >>> two = tk.DagModel.from_dual(kernel, trees[1:], [-2.0])
        >>> sums = one.decision_function(trees) + two.decision_function(trees)
        >>> one.merge(two)
        >>> one.decision_function(trees).tolist() == sums.tolist()
        True
        """
        if not isinstance(other, DagModel):
            msg = f"other must be a DagModel, got {type(other).__name__}"
            raise TypeError(msg)
        self._core.merge(other._core, check_number("factor", factor))

    def _pass(self, X: Trees, y: ArrayLike) -> tuple[DagModel, DagModel, int]:
        """Go on as a perceptron: its last version, the sum of all, and its mistakes."""
        x = as_forest(X)
        labels = _per_output("y", y, len(x), self.n_outputs)
        *models, mistakes = self._core.pass_over(x, labels.ravel())
        last, total = (self._of(core, self.kernel, self.n_outputs) for core in models)
        return last, total, mistakes

    def decision_function(
        self,
        X: Trees,
        *,
        n_jobs: int | None = None,
        progress: Progress | bool | None = None,
    ) -> NDArray[np.float64]:
        """Compute scores.

        Parameters
        ----------
        X : Forest or sequence of str
            The trees.
        n_jobs : int, optional
            Threads; by default and for -1 all cores the process may use, with 1 only
            the caller's thread.
            Scores do not depend on it, bit for bit.
        progress : callable or True, optional
            Called as progress(done, total), in trees; True shows a bar.

        Returns
        -------
        ndarray, shape (n_trees,), or (n_trees, n_outputs) for several outputs

        Raises
        ------
        OverflowError
            If a score is too large for a float; names the tree.
        """
        x = as_forest(X)
        told = progress_callback(progress, type(self).__name__, "tree")
        scores, zeros = self._core.score(x, check_jobs(n_jobs), told)
        warn_of_zeros(zeros, "X", stacklevel=3)
        return _shaped(scores, self.n_outputs)

    def contributions(
        self, tree: Tree | str | object, *, output: int | None = None
    ) -> NDArray[np.float64]:
        """Compute how much each node of a tree adds to its score.

        Parameters
        ----------
        tree : Tree, str or object as in Forest.from_trees
            The tree.
        output : int, optional
            Only for this output; by default for all of them.

        Returns
        -------
        ndarray, shape (n_nodes,), or (n_nodes, n_outputs) for several outputs
            For each node, in preorder, the sum over all fragments that start there. Their
            sum is the score without the intercept.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> model = tk.DagModel(tk.SubsetTreeKernel(1.0))
        >>> model.add(["(S (A a) (B b))"], [1.0])
        >>> model.contributions("(S (A a) (B c))")
        array([2., 1., 0., 0., 0.])

        ``tk.draw(tree, model.contributions(tree))`` draws them.
        """
        shares = _shaped(self._core.contributions(tree), self.n_outputs)
        if output is None:
            return shares
        output = self._output(output)
        return shares if shares.ndim == 1 else np.ascontiguousarray(shares[:, output])

    def top_fragments(
        self,
        k: int = 10,
        *,
        by: Literal["largest", "smallest", "absolute"] = "largest",
        output: int | None = None,
        min_size: int = 0,
        max_size: int | None = None,
        max_states: int = 1_000_000,
    ) -> list[Fragment]:
        """Find the fragments with the largest weights, without listing all fragments.

        A score is a sum over the fragments of a tree. Each occurrence of a fragment adds
        its weight. If the kernel is normalised, the sum is divided by the square root of
        the tree's self-kernel. Then the intercept is added.

        Parameters
        ----------
        k : int, default 10
            How many for each output.
        by : {"largest", "smallest", "absolute"}
            "largest": weights above 0, the largest first. "smallest": weights below 0, the
            most negative first. "absolute": all weights, by their absolute values.
        output : int, optional
            Only for this output; by default for all of them.
        min_size, max_size : int, optional
            Limits, both included, to the number of productions. A single leaf, which is a
            fragment if `leaf_weight` is above 0, has none. For `PartialTreeKernel`,
            `ElasticTreeKernel` and `SubpathKernel`, limits to the number of nodes.
        max_states : int, default 1,000,000
            How many partial fragments the search may visit.

        Returns
        -------
        list of Fragment
            Fewer than `k` for an output that has fewer fragments. If weights are equal,
            smaller fragments come first.

        Raises
        ------
        RuntimeError
            If the search exceeds `max_states`. A search takes long if decay is near 1, so
            that large fragments weigh nearly as much as small ones, and weights of opposite
            signs nearly cancel.

        Notes
        -----
        The weight of a fragment t is ``decay ** t.size`` times the sum over support trees
        of alpha_i times the number of occurrences of t in the tree. For a normalised kernel,
        alpha_i is divided by the square root of the tree's self-kernel. For
        `SubtreeKernel`, the fragments are whole subtrees.

        A fragment of a partial tree may stand below a node in several ways. Each counts
        with a factor `decay` for a child that it leaves out between two of its own, and the
        root of `leaf_factor` for a leaf that is a leaf of the tree. The weight is what a way
        adds without these factors: ``mu ** nodes * decay ** (2 * leaves)`` times the sum over
        support trees of alpha_i and their ways. Fragments of elastic trees skip nodes, and
        weigh ``decay ** nodes``; those of `SubpathKernel` are paths.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> model = tk.DagModel(tk.SubsetTreeKernel(0.5))
        >>> model.add(["(S (A a) (B b))", "(S (A c) (B b))"], [2.0, -1.0])
        >>> for fragment in model.top_fragments(4):
        ...     print(fragment)
        +1        (A a)
        +0.5      (B b)
        +0.5      (S A B)
        +0.5      (S (A a) B)
        >>> model.top_fragments(1, by="smallest", min_size=2)
        [<Fragment -0.25: (S (A c) B)>]
        """
        limits = {"k": k, "min_size": min_size, "max_states": max_states}
        if max_size is not None:
            limits["max_size"] = max_size
        for name, value in limits.items():
            if not 0 <= check_integer(name, value) < 2**63:
                msg = f"{name} must be at least 0 and below 2**63, got {value}"
                raise ValueError(msg)
        if output is not None:
            outputs = [self._output(output)]
        else:
            outputs = list(range(self.n_outputs))
        found = []
        for number in outputs:
            trees, weights, sizes = self._core.top_fragments(
                int(k), by, number, int(min_size), limits.get("max_size"), max_states
            )
            whose = None if self.n_outputs == 1 else number
            of = zip(trees, weights.tolist(), sizes, strict=True)
            found += [Fragment(*fragment, whose) for fragment in of]
        return found

    def _combined(self, factors: NDArray[np.float64]) -> DagModel:
        """Make a model whose scores are ``decision_function(X) @ factors``."""
        arrays = self._arrays()
        for name, array in arrays.items():
            if re.fullmatch(r"(weights|sums|large_alphas|intercept)(_\d+)?", name):
                rows = array.reshape(-1, self.n_outputs) @ factors
                arrays[name] = rows if array.ndim == 2 else rows.ravel()
        return self._of_arrays(self.kernel, arrays)

    def _output(self, output: int) -> int:
        number = check_integer("output", output)
        if 0 <= number < self.n_outputs:
            return number
        msg = f"output must be from 0 to {self.n_outputs - 1}, got {output}"
        raise ValueError(msg)

    @property
    def intercept(self) -> Any:
        """Intercept of each output: added to its scores."""
        values = self._core.intercept
        return float(values[0]) if self.n_outputs == 1 else values

    @intercept.setter
    def intercept(self, value: ArrayLike) -> None:
        values = _floats("intercept", value).ravel()
        if values.size == 1:
            values = np.repeat(values, self.n_outputs)
        self._core.set_intercept(values)

    @property
    def n_trees(self) -> int:
        """The number of trees that were added."""
        return self._core.figures()[0]

    @property
    def n_nodes(self) -> int:
        """The number of distinct subtrees."""
        return self._core.figures()[1]

    @property
    def is_graph(self) -> bool:
        """Whether only subtrees are stored, and no support trees."""
        return self._core.is_graph

    @property
    def n_tree_nodes(self) -> int:
        """The number of nodes of all trees that were added."""
        return self._core.figures()[2]

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._core.figures()[3]

    def __sizeof__(self) -> int:
        """Return what schedulers and ``sys.getsizeof`` ask for."""
        return object.__sizeof__(self) + self.nbytes

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the model as arrays, for `numpy.savez` or to inspect it.

        Returns
        -------
        dict
            Subtrees are numbered, children before parents. `labels` are indices into the
            alphabet (`names` in UTF-8, split at `name_offsets`). The children of subtree
            ``i`` are ``children[ends[i - 1]:ends[i]]``, and ``weights`` has a row for each
            subtree. The other arrays are needed by `from_arrays`. Those whose names begin
            with ``large_`` are support trees that are stored whole: all, if the model is no
            graph, else those whose self-kernel is too large to normalise. In a sum of
            kernels, the names of the second term end in ``_1``, and so on.

        Raises
        ------
        ValueError
            If the kernel has a similarity that is a function: pickle the model instead.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> model = tk.DagModel(tk.SubsetTreeKernel(0.4))
        >>> model.add(["(S (A a) (A a))"], [0.5])
        >>> model.to_arrays()["weights"].ravel()  # a, (A a), all
        array([1. , 1. , 0.5])
        """
        return self._arrays() | {"kernel": np.array(self.kernel.to_json())}

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Return the model as arrays, without its kernel."""
        parts = self._core.to_arrays()
        for part in parts:
            part["weights"] = part["weights"].reshape(-1, self.n_outputs)
        first, *others = parts
        for number, part in enumerate(others, 1):
            first.update((f"{name}_{number}", array) for name, array in part.items())
        return first

    @classmethod
    def from_arrays(cls, **arrays: Any) -> DagModel:
        """Make a model from the arrays of `to_arrays`. Its scores have the same bits.

        Examples
        --------
        >>> import io, numpy as np, treekernel_rs as tk
        >>> model = tk.DagModel(tk.SubsetTreeKernel(0.4))
        >>> model.add(["(S (A a) (B b))"], [1.0])
        >>> file = io.BytesIO()
        >>> np.savez(file, **model.to_arrays())
        >>> _ = file.seek(0)
        >>> tk.DagModel.from_arrays(**np.load(file))
        <DagModel: SubsetTreeKernel(0.4), 1 tree, 5 distinct subtrees>
        """
        return cls._of_arrays(_kernel_of(arrays), arrays)

    @classmethod
    def _of_arrays(cls, kernel: TreeKernel, arrays: dict[str, Any]) -> DagModel:
        parts: dict[str, dict[str, Any]] = {"": {}}
        for name, array in arrays.items():
            place = re.search(r"_\d+$", name)
            ending = place[0] if place else ""
            parts.setdefault(ending, {})[name.removesuffix(ending)] = array
        terms = [parts[end] for end in sorted(parts, key=lambda end: int(end[1:] or 0))]
        n_outputs, *_ = [_flatten(term, "weights") for term in terms]
        core = _core.Dag.from_arrays(kernel._core, kernel.normalize, n_outputs, terms)
        return cls._of(core, kernel, n_outputs)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arrays and the kernel."""
        return _model_of, (type(self), self._arrays(), self.kernel, __version__)

    def __repr__(self) -> str:
        """Name the kernel and sizes."""
        trees, nodes, *_ = self._core.figures()
        return (
            f"<{type(self).__name__}: {self.kernel!r}, {_plural(trees, 'tree')}, "
            f"{_plural(nodes, 'distinct subtree')}>"
        )


class Perceptron:
    r"""A kernel perceptron over trees that learns from a stream.

    A tree is a mistake if its label times its score is not above zero. It then becomes a
    support tree with its label as weight. Support trees are stored as one graph, see
    `DagModel`. Each call of `partial_fit` continues where the last one stopped, so a stream may be
    split into any parts.

    Parameters
    ----------
    kernel : TreeKernel
        The kernel, with all its parameters.
    predict_with : {"last", "average", "vote"}
        Each mistake makes a new version of the perceptron. c_k counts the examples seen
        while version k was current, including the one that created it; S_k is its score.
        "last" is the score of the last version, "average" the sum of ``c_k * S_k``, and
        "vote" the sum of ``c_k * sign(S_k)``. All three are exact. Start with "average".
    vectors : VectorPolynomial, optional
        The kernel of feature vectors that come with the trees.
    mix : float, default 1
        The kernel is ``mix * K_tree + (1 - mix) * K_vectors``.
    n_outputs : int, default 1
        The number of perceptrons that learn together, one against the rest. Labels have a
        column for each.

    Attributes
    ----------
    n_examples, n_mistakes : int
        The numbers of examples and of mistakes, over all outputs.
    model : DagModel
        A copy of the tree part as a model, without `mix`. It has the scores of the
        perceptron; with "vote", those of the last version, because a vote is not a model.
    nbytes : int
        The memory of the perceptron in bytes.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> trees = ["(S (A a) (B b))", "(S (A a) (C c))", "(S (B b) (B b))", "(S (C c))"]
    >>> p = tk.Perceptron(tk.SubsetTreeKernel(0.4), "average")
    >>> p.partial_fit(trees, [1, -1, 1, -1])
    <Perceptron: SubsetTreeKernel(0.4), average, 4 examples, 2 mistakes>
    >>> p.decision_function(trees) > 0
    array([ True, False,  True, False])
    """

    kernel = HeldKernel[TreeKernel]()
    predict_with: str
    vectors = HeldKernel[VectorPolynomial | None]()
    mix: float
    n_outputs: int
    _core: Learner

    def __init__(
        self,
        kernel: TreeKernel,
        predict_with: Literal["last", "average", "vote"] = "last",
        *,
        vectors: VectorPolynomial | None = None,
        mix: float = 1.0,
        n_outputs: int = 1,
    ) -> None:
        kernel = copied_kernel(kernel)
        if not isinstance(predict_with, str):
            msg = (
                "predict_with must be 'last', 'average' or 'vote', "
                f"got {predict_with!r}"
            )
            raise ValueError(msg)
        if vectors is not None and not isinstance(vectors, VectorPolynomial):
            msg = f"vectors must be a VectorPolynomial or None, got {vectors!r}"
            raise ValueError(msg)
        mix, n_outputs = check_number("mix", mix), check_integer("n_outputs", n_outputs)
        vectors = None if vectors is None else vectors.replace()
        poly = None if vectors is None else vectors._core
        core = _core.Learner(
            kernel._core, kernel.normalize, n_outputs, predict_with, poly, mix
        )
        self._remember(core, kernel, predict_with, vectors, mix, n_outputs)

    def _remember(self, core: Learner, *parameters: Any) -> None:
        names = ("kernel", "predict_with", "vectors", "mix", "n_outputs")
        for name, value in zip(names, parameters, strict=True):
            setattr(self, name, value)
        vars(self).update(_core=core)

    def partial_fit(
        self,
        X: Trees,
        y: ArrayLike,
        X_vec: Vectors | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        progress: Progress | bool | None = None,
    ) -> Self:
        """Make one pass over trees, in their order, and learn from mistakes.

        Ctrl-C, or an exception of `progress`, ends the pass and keeps what was learned;
        `n_examples` says from how many trees.

        Parameters
        ----------
        X : Forest or sequence of str
            The trees.
        y : array-like, shape (n_trees,), or (n_trees, n_outputs) for several outputs
            Labels, -1 or 1.
        X_vec : array-like or sparse matrix, shape (n_trees, n_features), optional
            Feature vectors, if `vectors` is set; a sparse matrix must be SciPy's CSR.
        sample_weight : array-like, of the shape of y, or (n_trees,), optional
            Numbers above 0. A mistake adds its tree with this weight, in place of 1.
        progress : callable or True, optional
            Called as progress(done, total), in trees; True shows a bar.

        Returns
        -------
        self
        """
        x = as_forest(X)
        labels = _per_output("y", y, len(x), self.n_outputs)
        is_wrong = np.abs(labels) != 1  # the core takes them with weights
        if is_wrong.any():
            at = int(np.argmax(is_wrong.ravel()))
            msg = f"y must be -1 or 1, got {labels.ravel()[at]} at index {at}"
            raise ValueError(msg)
        if sample_weight is not None:
            labels = _weighted(labels, sample_weight)
        vectors = _vectors(X_vec, len(x))
        told = progress_callback(progress, type(self).__name__, "tree")
        self._core.learn(x, labels.ravel(), vectors, told)
        return self

    def decision_function(
        self,
        X: Trees,
        X_vec: Vectors | None = None,
        *,
        n_jobs: int | None = None,
        progress: Progress | bool | None = None,
    ) -> NDArray[np.float64]:
        """Compute scores: above zero for the class of label 1.

        Parameters
        ----------
        X : Forest or sequence of str
            The trees.
        X_vec : array-like or sparse matrix, shape (n_trees, n_features), optional
            Feature vectors, as in `partial_fit`.
        n_jobs : int, optional
            Threads; by default and for -1 all cores the process may use, with 1 only
            the caller's thread.
        progress : callable or True, optional
            Called as progress(done, total), in trees; True shows a bar.

        Returns
        -------
        ndarray, shape (n_trees,), or (n_trees, n_outputs) for several outputs
            For "average" and "vote" sums over all examples seen, not means.
        """
        x = as_forest(X)
        vectors = _vectors(X_vec, len(x))
        told = progress_callback(progress, type(self).__name__, "tree")
        scores, zeros = self._core.score(x, vectors, check_jobs(n_jobs), told)
        warn_of_zeros(zeros, "X", stacklevel=3)
        return _shaped(scores, self.n_outputs)

    @property
    def n_examples(self) -> int:
        """The number of examples seen."""
        return self._core.figures()[0]

    @property
    def n_mistakes(self) -> int:
        """The number of mistakes, over all outputs."""
        return self._core.figures()[1]

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._core.figures()[2]

    def __sizeof__(self) -> int:
        """Return what schedulers and ``sys.getsizeof`` ask for."""
        return object.__sizeof__(self) + self.nbytes

    @property
    def model(self) -> DagModel:
        """A copy of the tree part as a model."""
        return DagModel._of(self._core.model(), self.kernel, self.n_outputs)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the perceptron as arrays, for `numpy.savez`.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> p = tk.Perceptron(tk.SubsetTreeKernel(0.4), "average")
        >>> p = p.partial_fit(["(S (A a))", "(S (B b))"], [1, -1])
        >>> tk.Perceptron.from_arrays(**p.to_arrays())
        <Perceptron: SubsetTreeKernel(0.4), average, 2 examples, 2 mistakes>
        """
        return self._arrays() | {"kernel": np.array(self.kernel.to_json())}

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Return the perceptron as arrays, without the kernel of trees."""
        arrays = self._core.to_arrays()
        arrays["weights"] = arrays["weights"].reshape(-1, self.n_outputs)
        arrays["alphas"] = arrays["alphas"].reshape(-1, self.n_outputs)
        arrays["predict_with"] = np.array(self.predict_with)
        arrays["vectors"] = np.array(self.vectors.to_json() if self.vectors else "")
        arrays["mix"] = np.array(self.mix)
        return arrays

    @classmethod
    def from_arrays(cls, **arrays: Any) -> Perceptron:
        """Make a perceptron from the arrays of `to_arrays`.

        It scores and learns with the same bits as the original.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> p = tk.Perceptron(tk.SubsetTreeKernel(0.4))
        >>> again = tk.Perceptron.from_arrays(**p.to_arrays())
        >>> again.partial_fit(["(S (A a))"], [1])
        <Perceptron: SubsetTreeKernel(0.4), last, 1 example, 1 mistake>
        """
        return cls._of_arrays(_kernel_of(arrays), arrays)

    @classmethod
    def _of_arrays(cls, kernel: TreeKernel, arrays: dict[str, Any]) -> Perceptron:
        n_outputs = _flatten(arrays, "weights")
        _flatten(arrays, "alphas")
        predict_with = str(_taken(arrays, "predict_with"))
        stored = str(_taken(arrays, "vectors"))
        try:
            mix = float(given := _taken(arrays, "mix"))
        except TypeError:
            msg = f"mix: expected a number, got {given!r}"
            raise ValueError(msg) from None
        poly = {"VectorPolynomial": VectorPolynomial}
        vectors = read_json(stored, poly, "vectors") if stored else None
        core = _core.Learner.from_arrays(
            kernel._core,
            kernel.normalize,
            n_outputs,
            predict_with,
            None if vectors is None else vectors._core,
            mix,
            dict(arrays),
        )
        perceptron = cls.__new__(cls)
        perceptron._remember(core, kernel, predict_with, vectors, mix, n_outputs)
        return perceptron

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arrays and the kernel."""
        return _model_of, (type(self), self._arrays(), self.kernel, __version__)

    def __repr__(self) -> str:
        """Name the kernel and what was seen."""
        examples, mistakes, _ = self._core.figures()
        return (
            f"<{type(self).__name__}: {self.kernel!r}, {self.predict_with}, "
            f"{_plural(examples, 'example')}, {_plural(mistakes, 'mistake')}>"
        )


def _one_vs_one(
    dual_coef: NDArray[np.float64], n_support: ArrayLike
) -> NDArray[np.float64]:
    """Separate the pairwise machines of scikit-learn's `SVC`: a column for each pair.

    An `SVC` with k classes is k (k - 1) / 2 machines, one for each pair of classes, in the
    order (0, 1), (0, 2), .. (k - 2, k - 1). Its `dual_coef_` has only k - 1 rows: a support
    tree of class i has its weights against the other classes in these rows, in their order.
    """
    counts = np.asarray(n_support)
    k = len(counts)
    if k == 2:
        return dual_coef.T
    ends = np.cumsum(counts)
    of_class = [slice(end - n, end) for end, n in zip(ends, counts, strict=True)]
    rows = np.zeros((k * (k - 1) // 2, dual_coef.shape[1]))
    pairs = [(i, j) for i in range(k) for j in range(i + 1, k)]
    for row, (i, j) in zip(rows, pairs, strict=True):
        row[of_class[i]] = dual_coef[j - 1, of_class[i]]
        row[of_class[j]] = dual_coef[i, of_class[j]]
    return rows.T


def _model_of(
    model: Any,
    arrays: dict[str, Any],
    kernel: TreeKernel,
    version: str | None = None,
) -> Any:
    warn_if_other(version)
    # Arrays that came by the wire may begin at any byte.
    here = {
        name: np.require(value, None, ["ALIGNED"]) for name, value in arrays.items()
    }
    return model._of_arrays(kernel, here)


def _dense(values: Any) -> Any:
    """Return an array: the dual_coef_ of a linear SVC may be sparse."""
    return values.toarray() if hasattr(values, "toarray") else values


def _floats(name: str, values: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        msg = f"{name} must be numbers, got {array.dtype}"
        raise ValueError(msg)
    # Arrays that came by the wire may begin at any byte.
    return np.require(np.ascontiguousarray(array, np.float64), None, ["ALIGNED"])


def _check_all(
    name: str, values: NDArray[Any], expected: str, rights: ArrayLike = True
) -> None:
    """Refuse values that are not finite, or not right, by the first of them."""
    wrong = np.argwhere(~(np.isfinite(values) & rights))
    if len(wrong):
        place = tuple(wrong[0].tolist())
        msg = f"{name}{list(place)} must be {expected}, got {values[place]}"
        raise ValueError(msg)


def _per_output(
    name: str, values: ArrayLike, n_trees: int, n_outputs: int
) -> NDArray[np.float64]:
    array = _floats(name, values)
    expected = (n_trees,) if n_outputs == 1 else (n_trees, n_outputs)
    # A column of weights is what `from_dual` has; of labels it would be a slip.
    is_column = name == "alphas" and array.shape == (n_trees, n_outputs)
    if array.shape != expected and not is_column:
        msg = f"{name} must be of shape {expected}, got {array.shape}"
        raise ValueError(msg)
    return array


def _weighted(
    labels: NDArray[np.float64], sample_weight: ArrayLike
) -> NDArray[np.float64]:
    """Multiply labels by weights, one for each tree or for each label."""
    weights = _floats("sample_weight", sample_weight)
    if weights.shape not in (labels.shape, labels.shape[:1]):
        msg = f"sample_weight must be of shape {labels.shape}, got {weights.shape}"
        raise ValueError(msg)
    _check_all("sample_weight", weights, "above 0 and finite", weights > 0)
    if weights.ndim < labels.ndim:
        weights = weights[:, None]
    product: NDArray[np.float64] = labels * weights
    return product


def _shaped(values: NDArray[np.float64], n_outputs: int) -> NDArray[np.float64]:
    return values if n_outputs == 1 else values.reshape(-1, n_outputs)


def _vectors(vectors: Any, n_trees: int) -> tuple[Any, ...] | None:
    """Dense values, or what any CSR matrix has; scipy itself is not needed."""
    if vectors is None:
        return None
    if hasattr(vectors, "tocsr"):
        vectors = vectors.tocsr()
    shape = tuple(np.shape(vectors))
    is_sparse = all(hasattr(vectors, part) for part in ("indptr", "indices", "data"))
    if is_sparse:
        shape = tuple(vectors.shape)
    else:
        values = _floats("X_vec", vectors)
    if len(shape) != 2 or shape[0] != n_trees:
        msg = f"X_vec must be of shape (n_trees, n_features) with {n_trees} trees, "
        raise ValueError(msg + f"got {shape}")
    if not is_sparse:
        return shape[1], values.ravel()
    parts = (np.asarray(part, np.int64) for part in (vectors.indptr, vectors.indices))
    return shape[1], *parts, _floats("X_vec.data", vectors.data)


def _shown(output: object) -> str:
    """Return a class or a pair of classes, without numpy's `np.str_` around it."""
    if isinstance(output, tuple):
        return "/".join(map(str, output))
    return str(output)


def _plural(n: int, one: str) -> str:
    return f"{n:,} {one}{'' if n == 1 else 's'}"


def _kernel_of(arrays: dict[str, Any]) -> TreeKernel:
    return read_json(str(_taken(arrays, "kernel")), TREE_KERNELS | COMPOSED_KERNELS)


def _taken(arrays: dict[str, Any], name: str) -> Any:
    if name in arrays:
        return arrays.pop(name)
    msg = f"{name}: expected an array, got none"
    raise ValueError(msg)


def _flatten(arrays: dict[str, Any], name: str) -> int:
    values = np.asarray(arrays.get(name))
    if values.ndim != 2:
        msg = f"{name} must be of shape (n, n_outputs), got {values.shape}"
        raise ValueError(msg)
    arrays[name] = values.ravel()
    return int(values.shape[1])
