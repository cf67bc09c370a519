"""Weights of labels and productions: from document frequencies, or learnt from classes.

A kernel's `weights` may be a mapping, too. docs/KERNELS.md has what they do in each kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np

from treekernel_rs._arguments import check_number
from treekernel_rs._core import Forest, Vocabulary, __version__, as_forest
from treekernel_rs._parameters import Parameters
from treekernel_rs._public import listing
from treekernel_rs._versions import warn_if_other

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from treekernel_rs._arguments import Trees

    WeightKey: TypeAlias = str | tuple[str, tuple[str, ...]] | None
    Weights: TypeAlias = Mapping[Any, float] | "FittedWeights"

    Found = tuple[list[WeightKey], NDArray[np.int64], NDArray[np.int64]]

__all__ = ["Idf", "LearnedWeights"]
__dir__ = listing(__all__)

_OF = ("labels", "productions")


class NotFittedError(ValueError, AttributeError):
    """Weights are used before they are fitted."""


class FittedWeights(Parameters):
    """Weights that `fit` makes."""

    of: str

    @property
    def weights_(self) -> dict[WeightKey, float]:
        """The weights by label or production; the key None is for all others."""
        try:
            return vars(self)["_fitted"]  # type: ignore[no-any-return]
        except KeyError:
            msg = f"{self!r} has no weights yet: fit it to the training trees first"
            raise NotFittedError(msg) from None

    def _symbols(self, X: Trees) -> Found:
        """Find all symbols, and all occurrences as (tree, symbol), each tree's once."""
        if self.of not in _OF:
            msg = f"of must be 'labels' or 'productions', got {self.of!r}"
            raise ValueError(msg)
        forest = as_forest(X)
        if not len(forest):
            msg = "weights need at least one tree, got none"
            raise ValueError(msg)
        known, rows = Vocabulary.fit(self.of, (1, 1), forest, 1, "linear", None)
        starts, columns, counts = rows
        names: Sequence[Any] = known.names(None)
        if self.of == "productions":
            trees = Forest.from_brackets(list(names)) if names else ()
            names = [(t.label, tuple(c.label for c in t.children)) for t in trees]
        elif names:
            # Names are written as brackets have them.
            trees = Forest.from_brackets([f"({name})" for name in names])
            names = [tree.label for tree in trees]
        trees_of = np.repeat(np.arange(len(forest)), np.diff(starts))
        vars(self)["_counts"] = counts
        return list(names), trees_of, columns.astype(np.int64)

    def _remember_weights(
        self, names: list[WeightKey], weights: NDArray[np.float64], others: float
    ) -> Self:
        values = weights.tolist()
        fitted: dict[WeightKey, float] = dict(zip(names, values, strict=True))
        fitted[None] = float(others)
        vars(self)["_fitted"] = fitted
        vars(self).pop("_counts", None)
        return self

    def __eq__(self, other: object) -> bool:
        """Compare parameters and weights."""
        if type(other) is not type(self):
            return NotImplemented
        same = vars(self).get("_fitted") == vars(other).get("_fitted")
        return same and self._parameters == other._parameters

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle parameters and weights."""
        fitted = vars(self).get("_fitted")
        return _restored, (type(self), self._parameters, fitted, __version__)

    _also_stored = ("fitted",)

    def _stored(self) -> dict[str, Any]:
        fitted = vars(self).get("_fitted")
        more = {} if fitted is None else {"fitted": weights_to_pairs(fitted)}
        return {**self._parameters, **more}

    @classmethod
    def _read(cls, stored: dict[str, Any]) -> Self:
        fitted = stored.pop("fitted", None)
        return cls(**stored)._with(
            None if fitted is None else weights_from_pairs(fitted)
        )

    def _with(self, fitted: dict[WeightKey, float] | None) -> Self:
        if fitted is not None:
            vars(self)["_fitted"] = fitted
        return self

    def replace(self, **changes: Any) -> Self:
        """Make weights that differ in some parameters; without changes they stay fitted.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> tk.kernels.Idf().fit(["(A a)"]).replace(of="productions")
        Idf('productions')
        """
        new = super().replace(**changes)
        return new if changes else new._with(vars(self).get("_fitted"))

    __replace__ = replace

    def __sklearn_clone__(self) -> Self:
        # What was fitted is part of the kernel that holds it.
        return self


def _restored(
    kind: type[FittedWeights],
    parameters: dict[str, Any],
    fitted: Any,
    version: str | None = None,
) -> FittedWeights:
    warn_if_other(version)
    return kind(**parameters)._with(fitted)


class Idf(FittedWeights):
    """Weights by rarity: the inverse document frequency of labels or productions.

    With n trees, of which d have a label or production, its weight is
    ``log((1 + n) / (1 + d)) + 1``, as in scikit-learn's ``TfidfTransformer``. Labels or
    productions that no tree has get the weight of d = 0.

    Parameters
    ----------
    of : {"labels", "productions"}
        What has weights. `SubtreeKernel` and `SubsetTreeKernel` take both, other kernels
        labels.
    smooth : bool, default True
        If False, weights are ``log(n / d) + 1``, and what no tree has gets the weight of
        d = 1.

    Attributes
    ----------
    weights_ : dict
        The weights, by label or (label, labels of children). The key None has the weight of
        all others.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> X = ["(S (A a) (B b))", "(S (A a) (B c))", "(S (B b))"]
    >>> idf = tk.kernels.Idf().fit(X)
    >>> {label: round(weight, 2) for label, weight in idf.weights_.items()}
    {'a': 1.29, 'A': 1.29, 'b': 1.29, 'B': 1.0, 'S': 1.0, 'c': 1.69, None: 2.39}
    >>> tk.SubsetTreeKernel(0.4, weights=idf)(X).round(3)[0]
    array([1.764, 1.121, 0.4  ])
    """

    def __init__(self, of: str = "labels", *, smooth: bool = True) -> None:
        self._remember(of=of, smooth=smooth)

    smooth: bool

    def fit(self, X: Trees, y: object = None) -> Self:
        """Count in how many trees each label or production occurs.

        Parameters
        ----------
        X : Forest or sequence of str
            The training trees.
        y : ignored

        Returns
        -------
        self

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> tk.kernels.Idf("productions").fit(["(S (A a))", "(S (A b))"]).weights_[("S", ("A",))]
        1.0
        """
        names, _, columns = self._symbols(X)
        n = len(as_forest(X))
        found = np.bincount(columns, minlength=len(names)).astype(float)
        more = 1 if self.smooth else 0
        weights = np.log((n + more) / (found + more)) + 1
        others = np.log(n + 1.0 if self.smooth else float(n)) + 1
        return self._remember_weights(names, weights, float(others))


class LearnedWeights(FittedWeights):
    """Weights from 0 to 1 by how well labels or productions tell the classes apart.

    Parameters
    ----------
    of : {"labels", "productions"}
        What has weights, as in `Idf`.
    method : {"classes", "alignment"}
        "classes", after Azaïs & Ingels (JMLR 2020): let r_k be the share of the trees of
        class k that have the label or production. Its worth is 1 if it is in all trees of
        one class and in no others, or in all trees but those of one class. Otherwise it
        is f(1 - d), where d is the distance of r from the nearest of these cases, and
        f(x) = 3x² - 2x³, or 0 for d of 1 and more.
        "alignment", after Cortes, Mohri & Rostamizadeh (JMLR 2012): the centred alignment
        of its counts with y, divided by the largest. Here y may be numbers.
    least : float, default 0
        The smallest weight: a weight is ``least + (1 - least) * worth``. If it is 0, a
        fragment that contains a node of worth 0 weighs 0.

    Attributes
    ----------
    weights_ : dict
        The weights, by label or (label, labels of children). The key None has the weight of
        all others, whose worth is 0.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> X = ["(S (A a) (B b))", "(S (A a) (B c))", "(S (D a) (B b))", "(S (D a) (B c))"]
    >>> learned = tk.kernels.LearnedWeights().fit(X, [0, 0, 1, 1])
    >>> {label: round(weight, 2) for label, weight in learned.weights_.items()}
    {'a': 0.0, 'A': 1.0, 'b': 0.21, 'B': 0.0, 'S': 0.0, 'c': 0.21, 'D': 1.0, None: 0.0}
    """

    def __init__(
        self, of: str = "labels", *, method: str = "classes", least: float = 0.0
    ) -> None:
        self._remember(of=of, method=method, least=least)

    method: str
    least: float

    def fit(self, X: Trees, y: ArrayLike) -> Self:
        """Learn a weight for each label or production from y.

        Parameters
        ----------
        X : Forest or sequence of str
            The training trees.
        y : array-like, shape (len(X),)
            Their classes; for "alignment" also numbers.

        Returns
        -------
        self

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> learned = tk.kernels.LearnedWeights(method="alignment")
        >>> learned.fit(["(A a)", "(A b)"], [0.5, 2.5]).weights_["a"]
        1.0
        """
        if self.method not in ("classes", "alignment"):
            msg = f"method must be 'classes' or 'alignment', got {self.method!r}"
            raise ValueError(msg)
        if not (isinstance(self.least, int | float) and 0 <= self.least <= 1):
            msg = f"least must be from 0 to 1, got {self.least!r}"
            raise ValueError(msg)
        names, trees, columns = self._symbols(X)
        n, target = len(as_forest(X)), np.asarray(y)
        if target.shape != (n,):
            msg = (
                f"y: expected one value for each of {n} trees, got shape {target.shape}"
            )
            raise ValueError(msg)
        worth = getattr(self, f"_{self.method}")(target, trees, columns, len(names))
        weights = self.least + (1 - self.least) * worth
        return self._remember_weights(names, weights, self.least)

    @staticmethod
    def _classes(
        y: NDArray[Any], trees: NDArray[np.int64], columns: NDArray[np.int64], n: int
    ) -> NDArray[np.float64]:
        classes, of = np.unique(y, return_inverse=True)
        n_classes = len(classes)
        if n_classes < 2:
            msg = f"y: expected at least two classes, got {n_classes}"
            raise ValueError(msg)
        cells = columns * n_classes + of[trees]
        found = np.bincount(cells, minlength=n * n_classes).reshape(n, n_classes)
        part = found / np.bincount(of)
        # The squared distances of (r_1, .., r_K) to unit vectors, and to 1 minus these.
        own = (part**2).sum(1, keepdims=True)
        rest = ((1 - part) ** 2).sum(1, keepdims=True)
        here = own - part**2 + (1 - part) ** 2
        not_here = rest - (1 - part) ** 2 + part**2
        nearest = np.sqrt(np.minimum(here.min(1), not_here.min(1)).clip(0))
        x = (1 - nearest).clip(0)
        return np.asarray(3 * x**2 - 2 * x**3)

    def _alignment(
        self,
        y: NDArray[Any],
        trees: NDArray[np.int64],
        columns: NDArray[np.int64],
        n: int,
    ) -> NDArray[np.float64]:
        counts = vars(self)["_counts"]
        if y.dtype.kind == "f":
            if not np.isfinite(y).all():
                msg = "y: expected finite numbers"
                raise ValueError(msg)
            target = y[:, None] - y.mean()
        else:
            classes, of = np.unique(y, return_inverse=True)
            target = np.eye(len(classes))[of]
            target = target - target.mean(0)
        # <x xᵀ, Y Yᵀ> = |xᵀ Y|²; Y is centred, and so x need not be.
        dots = np.zeros((n, target.shape[1]))
        np.add.at(dots, columns, counts[:, None] * target[trees])
        sums = np.bincount(columns, counts, minlength=n)
        squares = np.bincount(columns, counts**2, minlength=n) - sums**2 / len(y)
        # What every tree has as often tells nothing, and no rounding should say otherwise.
        varies = squares > 1e-12 * np.bincount(columns, counts**2, minlength=n)
        worth = (dots**2).sum(1) / np.where(varies, squares, 1) * varies
        largest = worth.max(initial=0.0)
        return np.asarray(worth / largest if largest > 0 else worth)


def weights_to_pairs(weights: Mapping[Any, float]) -> list[list[Any]]:
    """Write weights as JSON has them: pairs of key and weight."""
    return [[key, float(weight)] for key, weight in weights.items()]


def weights_from_pairs(pairs: list[list[Any]]) -> dict[Any, float]:
    return {
        (key[0], tuple(key[1])) if isinstance(key, list) else key: weight
        for key, weight in pairs
    }


def split_weights(
    weights: Any, has_productions: bool
) -> tuple[list[tuple[str, float]], list[tuple[str, list[str], float]], float]:
    """Read weights: of labels, of productions, and of all others."""
    found = {} if weights is None else weights
    if hasattr(type(weights), "weights_"):
        found = weights.weights_
    if not isinstance(found, Mapping):
        msg = f"weights must be a mapping, Idf or LearnedWeights, got {weights!r}"
        raise TypeError(msg)
    labels: list[tuple[str, float]] = []
    productions: list[tuple[str, list[str], float]] = []
    others = 1.0
    for key, given in found.items():
        weight = check_number(f"weights[{key!r}]", given)
        if not 0 <= weight < float("inf"):
            msg = f"weights[{key!r}] must be finite and not negative, got {given!r}"
            raise ValueError(msg)
        match key:
            case None:
                others = weight
            case str() if " -> " not in key:
                labels.append((key, weight))
            case str():
                head, _, right = key.partition(" -> ")
                productions.append((head, right.split(), weight))
            case (str() as parent, tuple() as children) if all(
                isinstance(child, str) for child in children
            ):
                productions.append((parent, list(children), weight))
            case _:
                msg = (
                    "keys of weights are a label, a production as ('NP', ('DT', 'NN')) or "
                    f"'NP -> DT NN', or None, got {key!r}"
                )
                raise TypeError(msg)
    if productions and not has_productions:
        first = productions[0][0], tuple(productions[0][1])
        msg = (
            "weights of productions are for SubtreeKernel and SubsetTreeKernel; others "
            f"have weights of labels, got {first!r}"
        )
        raise ValueError(msg)
    return labels, productions, others
