"""Kernel perceptrons, which learn from a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

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
    per_output,
    shaped,
    taken,
)
from treekernel_rs._parameters import read_json
from treekernel_rs._public import listing
from treekernel_rs._wording import plural
from treekernel_rs.dag import DagModel
from treekernel_rs.tree_kernels import TreeKernel, copied_kernel
from treekernel_rs.vectors import VectorPolynomial, vector_parts

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from treekernel_rs._arguments import Progress, Trees
    from treekernel_rs._core import Learner

    Vectors: TypeAlias = ArrayLike | Any

__all__ = ["Perceptron"]
__dir__ = listing(__all__)


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
        labels = per_output("y", y, len(x), self.n_outputs)
        is_wrong = np.abs(labels) != 1  # the core takes them with weights
        if is_wrong.any():
            at = int(np.argmax(is_wrong.ravel()))
            msg = f"y must be -1 or 1, got {labels.ravel()[at]} at index {at}"
            raise ValueError(msg)
        if sample_weight is not None:
            labels = _weighted(labels, sample_weight)
        vectors = vector_parts(X_vec, len(x))
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
        vectors = vector_parts(X_vec, len(x))
        told = progress_callback(progress, type(self).__name__, "tree")
        scores, zeros = self._core.score(x, vectors, check_jobs(n_jobs), told)
        warn_of_zeros(zeros, "X", stacklevel=3)
        return shaped(scores, self.n_outputs)

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
        """The memory of the perceptron, in bytes."""
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
        return cls._of_arrays(kernel_of(arrays), arrays)

    @classmethod
    def _of_arrays(cls, kernel: TreeKernel, arrays: dict[str, Any]) -> Perceptron:
        n_outputs = flattened(arrays, "weights")
        flattened(arrays, "alphas")
        predict_with = str(taken(arrays, "predict_with"))
        stored = str(taken(arrays, "vectors"))
        try:
            mix = float(given := taken(arrays, "mix"))
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
        return model_of, (type(self), self._arrays(), self.kernel, __version__)

    def __repr__(self) -> str:
        """Name the kernel and what was seen."""
        examples, mistakes, _ = self._core.figures()
        return (
            f"<{type(self).__name__}: {self.kernel!r}, {self.predict_with}, "
            f"{plural(examples, 'example')}, {plural(mistakes, 'mistake')}>"
        )


def _weighted(
    labels: NDArray[np.float64], sample_weight: ArrayLike
) -> NDArray[np.float64]:
    """Multiply labels by weights, one for each tree or for each label."""
    weights = check_floats("sample_weight", sample_weight)
    if weights.shape not in (labels.shape, labels.shape[:1]):
        msg = f"sample_weight must be of shape {labels.shape}, got {weights.shape}"
        raise ValueError(msg)
    check_values("sample_weight", weights, "above 0 and finite", weights > 0)
    if weights.ndim < labels.ndim:
        weights = weights[:, None]
    product: NDArray[np.float64] = labels * weights
    return product
