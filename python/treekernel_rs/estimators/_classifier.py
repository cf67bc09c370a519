"""What classifiers have in common: classes, their scores, and what explains these."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_sample_weight

from treekernel_rs._core import Forest, as_tree
from treekernel_rs._wording import output_text
from treekernel_rs.dag import DagModel
from treekernel_rs.estimators._base import Predictor

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from treekernel_rs._core import Tree
    from treekernel_rs.dag import Fragment


class ExplainedClassifier(ClassifierMixin, Predictor):
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
        """Find the fragments with the largest weights in the decision functions.

        Parameters
        ----------
        k : int, default 10
            How many for each decision function.
        by : {"largest", "smallest", "absolute"}
            "largest" finds fragments that speak for a class (weights above 0), "smallest"
            fragments that speak against it (below 0), "absolute" both. With two classes
            there is one decision function, for ``classes_[1]``.
        label : class, or pair of classes, optional
            Only for this decision function; by default for all of them. For a class of a
            classifier by pairs, the fragments of the sum over the pairs of this class. For
            ``classes_[0]`` of two classes, those of ``classes_[1]`` with the other sign.
        min_size, max_size : int, optional
            Limits, both included, to the size: see `DagModel.top_fragments`.
        max_states : int, default 1,000,000
            How many partial fragments the search may look at.

        Returns
        -------
        list of Fragment
            `output` is the class. For a classifier by pairs of classes it is the pair:
            weights above 0 speak for the first class, weights below 0 for the second.

        Raises
        ------
        ValueError
            For an unknown label, or a perceptron that votes.
        RuntimeError
            If the search exceeds `max_states`; see `DagModel.top_fragments`.

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
        if label is not None and not self._has_output(label):
            outputs = [self.classes_[_place(self.classes_, label)]]
            model, label = self._by_class(outputs), outputs[0]
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
            Numbers above 0 speak for this class; for a pair, they speak for its first
            class. The default is the predicted class, but with two classes it is
            ``classes_[1]``, as in `decision_function`.

        Returns
        -------
        ndarray of float64, shape (n_nodes,)
            For each node, in preorder, the sum over all fragments that start there. The
            sum of all is the decision function without its intercept. For a class of a
            classifier by pairs, it is the sum over the pairs of this class.

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
        one = as_tree(tree)
        shares = model.contributions(one)
        if label is None and len(outputs) == 1:
            label = outputs[0]
        elif label is None:
            label = self.predict(Forest.from_trees([one]))[0]
        return self._of_label(shares.reshape(len(shares), -1), label)

    def _intercept_of(self, label: Any) -> float:
        """Return what is added to the sum of the contributions for a class, or a pair."""
        return float(self._of_label(np.atleast_2d(self._model().intercept), label)[0])

    def _of_label(self, values: NDArray[np.float64], label: Any) -> NDArray[np.float64]:
        """Return the values for a class, or a pair, of those for each output (columns)."""
        if self._has_output(label):
            return np.ascontiguousarray(values[:, _place(self._outputs(), label)])
        per_class: NDArray[np.float64] = values @ self._signs_of([label])[:, 0]
        return per_class

    def _has_output(self, label: Any) -> bool:
        """Say whether a label, if it is right, is that of one of the outputs."""
        outputs = self._outputs()
        if len(outputs) == 1:
            return _place(self.classes_, label) == 1
        return isinstance(label, tuple) or not isinstance(outputs[0], tuple)

    def _signs_of(self, classes: Sequence[Any]) -> NDArray[np.float64]:
        """Return by output (rows) and class what it says of the class: 1, -1 or 0.

        The output of a pair speaks for its first class; that of two classes for the second.
        """
        places = np.array([_place(self.classes_, name) for name in classes], np.intp)
        if len(self.classes_) == 2:
            return np.where(places == 1, 1.0, -1.0)[None]
        first, second = np.triu_indices(len(self.classes_), 1)
        signs: NDArray[np.float64] = np.zeros((len(first), len(places)))
        signs += first[:, None] == places
        signs -= second[:, None] == places
        return signs

    def _by_class(self, classes: Sequence[Any]) -> DagModel:
        """Return a model with an output for each class, as `_signs_of` has them."""
        return self._model()._combined(self._signs_of(classes))


def _place(names: Iterable[Any], name: Any) -> int:
    """Return where a class, or a pair of them, stands."""
    known = list(names)
    for place, other in enumerate(known):
        if type(name) is tuple or type(other) is tuple:
            if type(name) is type(other) and tuple(name) == tuple(other):
                return place
        elif name == other:
            return place
    some = ", ".join(map(output_text, known[:10]))
    some += f", ... ({len(known):,} in all)" if len(known) > 10 else ""
    msg = f"label must be one of {some}, got {name!r}"
    raise ValueError(msg)


def one_vs_rest_signs(codes: NDArray[np.int64], n: int) -> NDArray[np.float64]:
    """Return 1 for each tree's own class and -1 for the rest; of two, for the second."""
    is_own = codes == 1 if n == 2 else codes[:, None] == np.arange(n)
    return np.where(is_own, 1.0, -1.0)


def one_vs_rest_costs(
    class_weight: Any,
    classes: NDArray[Any],
    codes: NDArray[np.int64],
    weights: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return each tree's factor of C in each of the machines of `one_vs_rest_signs`."""
    signs = one_vs_rest_signs(codes, len(classes))
    if class_weight == "balanced":
        # By the sizes of a class and its rest.
        n_own = (signs > 0).sum(axis=0)
        n_other = len(signs) - n_own
        share = np.where(signs > 0, n_own, n_other)
        factors = len(signs) / (2.0 * share)
    else:
        factors = compute_sample_weight(class_weight, classes[codes])
        factors = factors.reshape(-1, *[1] * (signs.ndim - 1))
    found: NDArray[np.float64] = (weights * (signs * 0 + factors).T).T
    return found


def best_labels(scores: NDArray[Any], classes: NDArray[Any]) -> NDArray[Any]:
    best = scores >= 0 if scores.ndim == 1 else scores.argmax(axis=1)
    labels: NDArray[Any] = classes[best.astype(np.intp)]
    return labels
