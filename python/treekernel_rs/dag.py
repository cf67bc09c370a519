"""DAG models: exact scores without the support trees."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from treekernel_rs import _core
from treekernel_rs._arguments import (
    check_floats,
    check_integer,
    check_jobs,
    check_number,
    check_values,
    progress_callback,
)
from treekernel_rs._core import __version__, as_forest
from treekernel_rs._held import HeldKernel
from treekernel_rs._matrices import warn_of_zeros
from treekernel_rs._model_arrays import (
    flattened,
    kernel_of,
    model_of,
    one_vs_one,
    per_output,
    shaped,
)
from treekernel_rs._public import listing
from treekernel_rs._wording import output_text, plural
from treekernel_rs.tree_kernels import TreeKernel, copied_kernel

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from treekernel_rs._arguments import Progress, Trees
    from treekernel_rs._core import Dag, Tree

__all__ = ["DagModel", "Fragment"]
__dir__ = listing(__all__)


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
        whose = "" if self.output is None else f"{output_text(self.output)}  "
        return f"{whose}{self.weight:<+9.4g} {self.tree}"

    def __repr__(self) -> str:
        """Show weight and fragment, shortened."""
        whose = "" if self.output is None else f"{output_text(self.output)} "
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
        weights = check_floats("dual_coef", dense)
        if weights.ndim == 1 or weights.shape == (1, len(x)):
            weights = weights.reshape(-1, 1)
        if weights.ndim != 2 or len(weights) != len(x):
            msg = (
                f"dual_coef must be of shape (n_trees,) or (n_trees, n_outputs) with "
                f"{len(x)} trees, got {np.shape(dense)}"
            )
            raise ValueError(msg)
        check_values("dual_coef", weights, "finite")
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
        dual_coef = check_floats("dual_coef", _dense(svc.dual_coef_))
        if len(dual_coef) > 1:
            dual_coef = one_vs_one(dual_coef, svc.n_support_)
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
        weights = per_output("alphas", alphas, len(x), self.n_outputs)
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
        labels = per_output("y", y, len(x), self.n_outputs)
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
        return shaped(scores, self.n_outputs)

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
            For each node, in the order of `Tree.walk`, the sum over all fragments that start
            there. Their sum is the score without the intercept.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> model = tk.DagModel(tk.SubsetTreeKernel(1.0))
        >>> model.add(["(S (A a) (B b))"], [1.0])
        >>> model.contributions("(S (A a) (B c))")
        array([2., 1., 0., 0., 0.])

        ``tk.draw(tree, model.contributions(tree))`` draws them.
        """
        shares = shaped(self._core.contributions(tree), self.n_outputs)
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
        values = check_floats("intercept", value).ravel()
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
        """The memory of the model, in bytes."""
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
        return cls._of_arrays(kernel_of(arrays), arrays)

    @classmethod
    def _of_arrays(cls, kernel: TreeKernel, arrays: dict[str, Any]) -> DagModel:
        parts: dict[str, dict[str, Any]] = {"": {}}
        for name, array in arrays.items():
            place = re.search(r"_\d+$", name)
            ending = place[0] if place else ""
            parts.setdefault(ending, {})[name.removesuffix(ending)] = array
        terms = [parts[end] for end in sorted(parts, key=lambda end: int(end[1:] or 0))]
        n_outputs, *_ = [flattened(term, "weights") for term in terms]
        core = _core.Dag.from_arrays(kernel._core, kernel.normalize, n_outputs, terms)
        return cls._of(core, kernel, n_outputs)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arrays and the kernel."""
        return model_of, (type(self), self._arrays(), self.kernel, __version__)

    def __repr__(self) -> str:
        """Name the kernel and sizes."""
        trees, nodes, *_ = self._core.figures()
        return (
            f"<{type(self).__name__}: {self.kernel!r}, {plural(trees, 'tree')}, "
            f"{plural(nodes, 'distinct subtree')}>"
        )


def _dense(values: Any) -> Any:
    """Return an array: the dual_coef_ of a linear SVC may be sparse."""
    return values.toarray() if hasattr(values, "toarray") else values
