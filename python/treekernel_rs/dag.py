"""DAG models: exact scores without the support trees, and online learning."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from treekernel_rs import _core
from treekernel_rs._core import as_forest
from treekernel_rs._held import HeldKernel
from treekernel_rs.kernels import (
    _COMPOSED,
    _KERNELS,
    Parameters,
    TreeKernel,
    _bar,
    _from_json,
    _integer,
    _jobs,
    _own,
    _real,
    _warn_of_zeros,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from treekernel_rs._core import Dag, Learner, Tree
    from treekernel_rs.kernels import Progress, Trees

    Vectors: TypeAlias = ArrayLike | Any

__all__ = [
    "DagModel",
    "Fragment",
    "Perceptron",
    "PolynomialKernel",
    "one_vs_one_dual_coef",
]


class PolynomialKernel(Parameters):
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
    >>> tk.PolynomialKernel(2, coef0=0.5)
    PolynomialKernel(2, coef0=0.5)
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
        degree = _integer("degree", self.degree)
        coef0, gamma = _real("coef0", self.coef0), _real("gamma", self.gamma)
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

    Parameters
    ----------
    kernel : SubtreeKernel, SubsetTreeKernel, PartialTreeKernel or ElasticTreeKernel
        The kernel, with all its parameters. With ``normalize=True``, the weight of a tree
        is divided by the square root of its self-kernel, and so is the score of a tree.
    n_outputs : int, default 1
        The number of scores for each tree, up to 2**20. Several outputs share one graph,
        which is visited once for all of them.

    Attributes
    ----------
    intercept : float, or ndarray of shape (n_outputs,)
        The constant that is added to scores; can be set.
    n_trees : int
        The number of trees that were added.
    n_nodes : int
        The number of distinct subtrees.
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
    >>> model.score(trees).round(3)
    array([1.104, 0.168, 0.2  ])
    >>> (tk.SubsetTreeKernel(0.4)(trees, trees[:2]) @ [1.0, -0.5]).round(3)
    array([1.104, 0.168, 0.2  ])
    """

    kernel = HeldKernel[TreeKernel]()
    n_outputs: int
    _core: Dag

    def __init__(self, kernel: TreeKernel, n_outputs: int = 1) -> None:
        kernel = _own(kernel)
        n_outputs = _integer("n_outputs", n_outputs)
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
        kernel : tree kernel
            The kernel of the machine.
        X : Forest or sequence of str
            The support trees; or all training trees, where the others have zeros.
        dual_coef : array-like, shape (n_trees,), (1, n_trees) or (n_trees, n_outputs)
            The weights, as in `add`. One row is also accepted: this is the shape of
            `dual_coef_` of an `SVR` or a binary `SVC` in scikit-learn. For an `SVC` with
            more classes, use `one_vs_one_dual_coef`.
        intercept : float or array-like, shape (n_outputs,)
            The constants, as `intercept_` in scikit-learn.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> trees = ["(S (A a) (B b))", "(S (A a) (B c))"]
        >>> model = tk.DagModel.from_dual(tk.SubsetTreeKernel(1.0), trees, [[1, -1]], 0.5)
        >>> model.score(trees)
        array([ 3.5, -2.5])
        """
        x = as_forest(X)
        # The dual_coef_ of a linear SVC may be sparse.
        dense = dual_coef.toarray() if hasattr(dual_coef, "toarray") else dual_coef
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
            Called with the numbers of trees done and in all; True shows a bar.

        Raises
        ------
        ValueError
            If a weight is not finite, or a sum of weights would be infinite. The model is
            not changed then.
        """
        x = as_forest(X)
        weights = _per_output("alphas", alphas, len(x), self.n_outputs)
        zeros = self._core.add(x, weights.ravel(), _told(self, progress))
        _warn_of_zeros(zeros, "X", stacklevel=3)

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
            What its weights and intercepts are multiplied with.

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
        >>> sums = one.score(trees) + two.score(trees)
        >>> one.merge(two)
        >>> one.score(trees).tolist() == sums.tolist()
        True
        """
        if not isinstance(other, DagModel):
            msg = f"other must be a DagModel, got {type(other).__name__}"
            raise TypeError(msg)
        self._core.merge(other._core, _real("factor", factor))

    def _pass(self, X: Trees, y: ArrayLike) -> tuple[DagModel, DagModel, int]:
        """Go on as a perceptron: its last version, the sum of all, and its mistakes."""
        x = as_forest(X)
        labels = _per_output("y", y, len(x), self.n_outputs)
        *models, mistakes = self._core.pass_over(x, labels.ravel())
        last, total = (self._of(core, self.kernel, self.n_outputs) for core in models)
        return last, total, mistakes

    def score(
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
            Called with the numbers of trees done and in all; True shows a bar.

        Returns
        -------
        ndarray, shape (n_trees,), or (n_trees, n_outputs) for several outputs

        Raises
        ------
        OverflowError
            If a score is too large for a float; names the tree.
        """
        x = as_forest(X)
        told = _told(self, progress)
        scores, zeros = self._core.score(x, _jobs(n_jobs), told)
        _warn_of_zeros(zeros, "X", stacklevel=3)
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
            if not 0 <= _integer(name, value) < 2**63:
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
        """Make a model whose scores are ``score(X) @ factors``."""
        arrays = self.to_arrays()
        for name, array in arrays.items():
            if re.fullmatch(r"(weights|sums|large_alphas|intercept)(_\d+)?", name):
                rows = array.reshape(-1, self.n_outputs) @ factors
                arrays[name] = rows if array.ndim == 2 else rows.ravel()
        return self.from_arrays(**arrays)

    def _output(self, output: int) -> int:
        number = _integer("output", output)
        if 0 <= number < self.n_outputs:
            return number
        msg = f"output must be from 0 to {self.n_outputs - 1}, got {output}"
        raise ValueError(msg)

    @property
    def intercept(self) -> Any:
        """The constant that is added to scores."""
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
            with ``large_`` are trees whose self-kernel is too large to normalise; few models
            have any. In a sum of kernels, the names of the second term end in
            ``_1``, and so on.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> model = tk.DagModel(tk.SubsetTreeKernel(0.4))
        >>> model.add(["(S (A a) (A a))"], [0.5])
        >>> model.to_arrays()["weights"].ravel()  # a, (A a), all
        array([1. , 1. , 0.5])
        """
        parts = self._core.to_arrays()
        for part in parts:
            part["weights"] = part["weights"].reshape(-1, self.n_outputs)
        first, *others = parts
        for number, part in enumerate(others, 1):
            first.update((f"{name}_{number}", array) for name, array in part.items())
        first["kernel"] = np.array(self.kernel.to_json())
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
        kernel = _kernel_of(arrays)
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
        """Pickle the arrays."""
        return _model_of, (type(self), self.to_arrays())

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
    `DagModel`. Each call of `learn` continues where the last one stopped, so a stream may be
    split into any parts.

    Parameters
    ----------
    kernel : tree kernel
        The kernel, with all its parameters.
    vote : {"last", "average", "vote"}
        Each mistake makes a new version of the perceptron. c_k counts the examples seen
        while version k was current, including the one that created it; S_k is its score.
        "last" is the score of the last version, "average" the sum of ``c_k * S_k``, and
        "vote" the sum of ``c_k * sign(S_k)``. All three are exact. Start with "average".
    vectors : PolynomialKernel, optional
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
    >>> p.learn(trees, [1, -1, 1, -1]), p.n_mistakes
    (2, 2)
    >>> p.score(trees) > 0
    array([ True, False,  True, False])
    """

    kernel = HeldKernel[TreeKernel]()
    vote: str
    vectors = HeldKernel[PolynomialKernel | None]()
    mix: float
    n_outputs: int
    _core: Learner

    def __init__(
        self,
        kernel: TreeKernel,
        vote: Literal["last", "average", "vote"] = "last",
        *,
        vectors: PolynomialKernel | None = None,
        mix: float = 1.0,
        n_outputs: int = 1,
    ) -> None:
        kernel = _own(kernel)
        if not isinstance(vote, str):
            msg = f"vote must be 'last', 'average' or 'vote', got {vote!r}"
            raise ValueError(msg)
        if vectors is not None and not isinstance(vectors, PolynomialKernel):
            msg = f"vectors must be a PolynomialKernel or None, got {vectors!r}"
            raise ValueError(msg)
        mix, n_outputs = _real("mix", mix), _integer("n_outputs", n_outputs)
        vectors = None if vectors is None else vectors.replace()
        poly = None if vectors is None else vectors._core
        core = _core.Learner(kernel._core, kernel.normalize, n_outputs, vote, poly, mix)
        self._remember(core, kernel, vote, vectors, mix, n_outputs)

    def _remember(self, core: Learner, *parameters: Any) -> None:
        names = ("kernel", "vote", "vectors", "mix", "n_outputs")
        for name, value in zip(names, parameters, strict=True):
            setattr(self, name, value)
        vars(self).update(_core=core)

    def learn(
        self,
        X: Trees,
        y: ArrayLike,
        X_vec: Vectors | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        progress: Progress | bool | None = None,
    ) -> int:
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
            Called with the numbers of trees done and in all; True shows a bar.

        Returns
        -------
        int
            The number of mistakes, over all outputs.
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
        told = _told(self, progress)
        return self._core.learn(x, labels.ravel(), vectors, told)

    def score(
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
            Feature vectors, as in `learn`.
        n_jobs : int, optional
            Threads; by default and for -1 all cores the process may use, with 1 only
            the caller's thread.
        progress : callable or True, optional
            Called with the numbers of trees done and in all; True shows a bar.

        Returns
        -------
        ndarray, shape (n_trees,), or (n_trees, n_outputs) for several outputs
            For "average" and "vote" sums over all examples seen, not means.
        """
        x = as_forest(X)
        vectors = _vectors(X_vec, len(x))
        told = _told(self, progress)
        scores, zeros = self._core.score(x, vectors, _jobs(n_jobs), told)
        _warn_of_zeros(zeros, "X", stacklevel=3)
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
        >>> p.learn(["(S (A a))", "(S (B b))"], [1, -1])
        2
        >>> tk.Perceptron.from_arrays(**p.to_arrays())
        <Perceptron: SubsetTreeKernel(0.4), average, 2 examples, 2 mistakes>
        """
        arrays = self._core.to_arrays()
        arrays["weights"] = arrays["weights"].reshape(-1, self.n_outputs)
        arrays["alphas"] = arrays["alphas"].reshape(-1, self.n_outputs)
        arrays["kernel"] = np.array(self.kernel.to_json())
        arrays["vote"] = np.array(self.vote)
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
        >>> again.learn(["(S (A a))"], [1])
        1
        """
        kernel = _kernel_of(arrays)
        n_outputs = _flatten(arrays, "weights")
        _flatten(arrays, "alphas")
        vote = str(_taken(arrays, "vote"))
        stored = str(_taken(arrays, "vectors"))
        try:
            mix = float(given := _taken(arrays, "mix"))
        except TypeError:
            msg = f"mix: expected a number, got {given!r}"
            raise ValueError(msg) from None
        poly = {"PolynomialKernel": PolynomialKernel}
        vectors = _from_json(stored, poly, "vectors") if stored else None
        core = _core.Learner.from_arrays(
            kernel._core,
            kernel.normalize,
            n_outputs,
            vote,
            None if vectors is None else vectors._core,
            mix,
            dict(arrays),
        )
        perceptron = cls.__new__(cls)
        perceptron._remember(core, kernel, vote, vectors, mix, n_outputs)
        return perceptron

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arrays."""
        return _model_of, (type(self), self.to_arrays())

    def __repr__(self) -> str:
        """Name the kernel and what was seen."""
        examples, mistakes, _ = self._core.figures()
        return (
            f"<{type(self).__name__}: {self.kernel!r}, {self.vote}, "
            f"{_plural(examples, 'example')}, {_plural(mistakes, 'mistake')}>"
        )


def one_vs_one_dual_coef(
    dual_coef: ArrayLike, n_support: ArrayLike
) -> NDArray[np.float64]:
    """Separate the pairwise machines of scikit-learn's `SVC`.

    An `SVC` with k classes is k (k - 1) / 2 machines, one for each pair of classes, in the
    order (0, 1), (0, 2), .. (k - 2, k - 1). Its `dual_coef_` has only k - 1 rows: a support
    tree of class i has its weights against the other classes in these rows, in their order.

    Parameters
    ----------
    dual_coef : array-like, shape (n_classes - 1, n_support_trees)
        ``svc.dual_coef_``.
    n_support : array-like, shape (n_classes,)
        ``svc.n_support_``.

    Returns
    -------
    ndarray, shape (n_support_trees, k (k - 1) / 2)
        For `DagModel.from_dual`, with ``svc.intercept_``, over the trees of
        ``svc.support_``; its scores are the `SVC`'s with
        ``decision_function_shape="ovo"``. For two classes the column of `dual_coef`.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> tk.one_vs_one_dual_coef([[1, -2, -3], [4, 5, -6]], [1, 1, 1])
    array([[ 1.,  4.,  0.],
           [-2.,  0.,  5.],
           [ 0., -3., -6.]])
    """
    coef, counts = _floats("dual_coef", dual_coef), np.asarray(n_support)
    k = len(counts)
    if coef.ndim != 2 or coef.shape != (k - 1, int(counts.sum())):
        msg = (
            f"dual_coef must be of shape (n_classes - 1, n_support_trees), here "
            f"{(k - 1, int(counts.sum()))}, got {coef.shape}"
        )
        raise ValueError(msg)
    if k == 2:
        return coef.T
    ends = np.cumsum(counts)
    of_class = [slice(end - n, end) for end, n in zip(ends, counts, strict=True)]
    rows = np.zeros((k * (k - 1) // 2, coef.shape[1]))
    pairs = [(i, j) for i in range(k) for j in range(i + 1, k)]
    for row, (i, j) in zip(rows, pairs, strict=True):
        row[of_class[i]] = coef[j - 1, of_class[i]]
        row[of_class[j]] = coef[i, of_class[j]]
    return rows.T


def _model_of(model: Any, arrays: dict[str, Any]) -> Any:
    # Arrays that came by the wire may begin at any byte.
    here = {
        name: np.require(value, None, ["ALIGNED"]) for name, value in arrays.items()
    }
    return model.from_arrays(**here)


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


def _told(of: object, progress: Progress | bool | None) -> Progress | None:
    if progress is True:
        return _bar(type(of).__name__, "tree")
    return progress or None


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
    return _from_json(str(_taken(arrays, "kernel")), _KERNELS | _COMPOSED)


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
