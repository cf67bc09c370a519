"""Tree edit distance: what it costs to make one tree another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from treekernel_rs._arguments import check_jobs, check_number, progress_callback
from treekernel_rs._core import EditCore, as_forest, as_tree
from treekernel_rs._matrices import MatrixMethods
from treekernel_rs._public import listing

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from treekernel_rs._arguments import Progress, Trees
    from treekernel_rs._core import Tree
    from treekernel_rs.index import EditIndex
    from treekernel_rs.neighbors import JoinResult, Neighbors

    NodeCosts = float | Mapping[str | None, float]
    RenameCosts = (
        float
        | str
        | Mapping[tuple[str, str] | None, float]
        | Callable[[str, str], float]
    )

__all__ = ["EditDistance", "EditMapping"]
__dir__ = listing(__all__)

#: Edits that a mapping shows.
_MOST_SHOWN = 20


@dataclass(frozen=True)
class EditMapping:
    """Which nodes of two trees are kept, renamed, deleted and inserted.

    The result of `EditDistance.mapping`.

    Nodes are numbered from 0 in preorder, as by `Tree.walk`.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> tk.EditDistance().mapping("(S (NP dogs) (VP bark))", "(S (NP cats) (VP (V bark)))")
    <EditMapping: 5 pairs of nodes, cost 2.0>
    rename 2 dogs to cats
    insert 4 V
    """

    #: Nodes of the first tree that stay, each with what it becomes; ascending in both.
    pairs: list[tuple[int, int]]
    #: Those of them whose label changes.
    renamed: list[tuple[int, int]]
    #: The other nodes of the first tree.
    deleted: list[int]
    #: The other nodes of the second tree.
    inserted: list[int]
    #: What all that costs: the distance before it is divided.
    cost: float
    #: The labels of the nodes of both trees.
    _labels: tuple[list[str], list[str]] = field(repr=False, compare=False)

    def __repr__(self) -> str:
        """Show how many nodes stay, and the edits."""
        old, new = self._labels
        edits = [
            *(f"rename {i} {old[i]} to {new[j]}" for i, j in self.renamed),
            *(f"delete {i} {old[i]}" for i in self.deleted),
            *(f"insert {j} {new[j]}" for j in self.inserted),
        ]
        if len(edits) > _MOST_SHOWN:
            edits = [*edits[:_MOST_SHOWN], f"... {len(edits) - _MOST_SHOWN} more"]
        n = len(self.pairs)
        noun = "pair" if n == 1 else "pairs"
        head = f"<EditMapping: {n} {noun} of nodes, cost {self.cost}>"
        return "\n".join([head, *edits])


class EditDistance(MatrixMethods["Trees"]):
    r"""Tree edit distance: the least cost of edits that turn one ordered tree into another.

    Nodes are renamed, deleted (their children take their place) and inserted. The distance
    is the cost of the cheapest mapping of nodes, one to one, that keeps ancestors and the
    order from left to right (Tai 1979). Smaller is nearer; it is not a kernel.

    Parameters
    ----------
    rename : float, mapping, callable, "levenshtein" or "cells", default 1
        What it costs to give a node another label. A mapping has costs of pairs (label, new
        label), and under None that of all others, else 1. A callable is given a label and a
        new one; it is called once for each two different labels. "levenshtein": the string edit
        distance of the two labels, divided by the length of the longer one. "cells": that of
        what two cells of tables hold, as `metrics.teds` has it. A label that stays costs
        nothing, unless the mapping has the pair. Infinity means never.
    insert, delete : float or mapping, default 1
        What it costs to insert and to delete a node. A mapping has costs by label, and under
        None that of all others, else 1.
    normalize : {None, "max", "sum", "metric"}, default None
        With D, the cost of deleting all of the first tree, and I, that of inserting all of
        the second, a distance d becomes: with "max" d / max(D, I), which may exceed 1; with
        "sum" d / (D + I); with "metric" 2d / (D + I + d), a metric, for costs that are known
        to be one.

    Notes
    -----
    Costs are rounded, so that they add up exactly, and values have the same bits in every
    matrix, row or list: to multiples of 2**-40 of the largest insertion or deletion, up to a
    factor of 2. Where two trees have more than 4,096 nodes together, it may be 2**-30.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> d = tk.EditDistance()
    >>> d.pair("(f (d (a) (c (b))) (e))", "(f (c (d (a) (b))) (e))")
    2.0
    >>> d(["(a (b) (c))", "(a (c))", "(x (b) (c))"])
    array([[0., 1., 1.],
           [1., 0., 2.],
           [1., 2., 0.]])
    >>> tk.EditDistance(rename={("a", "x"): 0.25}, normalize="sum").pair("(a b)", "(x b)")
    0.0625
    """

    _core: EditCore
    rename: RenameCosts
    insert: NodeCosts
    delete: NodeCosts
    normalize: str | None

    def __init__(
        self,
        rename: RenameCosts = 1,
        insert: NodeCosts = 1,
        delete: NodeCosts = 1,
        *,
        normalize: str | None = None,
    ) -> None:
        self._remember(rename=rename, insert=insert, delete=delete, normalize=normalize)

    def _make(self) -> EditCore:
        if self.normalize not in (None, "max", "sum", "metric"):
            msg = (
                "normalize must be None, 'max', 'sum' or 'metric', "
                f"got {self.normalize!r}"
            )
            raise ValueError(msg)
        return EditCore(
            _rename_costs(self.rename),
            _node_costs("insert", self.insert),
            _node_costs("delete", self.delete),
        )

    def _stored(self) -> dict[str, Any]:
        def stored(value: Any) -> Any:
            return list(value.items()) if isinstance(value, Mapping) else value

        return {name: stored(value) for name, value in self._parameters.items()}

    @classmethod
    def _read(cls, stored: dict[str, Any]) -> Self:
        def read(value: Any) -> Any:
            if not isinstance(value, list):
                return value
            return {
                tuple(key) if isinstance(key, list) else key: cost
                for key, cost in value
            }

        return cls(**{name: read(value) for name, value in stored.items()})

    def condensed(
        self,
        X: Trees,
        *,
        n_jobs: int | None = None,
        progress: Progress | bool | None = None,
    ) -> NDArray[np.float64]:
        """Compute each distance of two trees of X once, as SciPy's `pdist` has them.

        Parameters
        ----------
        X : Forest or sequence of str
            The trees.
        n_jobs, progress
            As in a call.

        Returns
        -------
        ndarray of float64, shape (len(X) * (len(X) - 1) / 2,)
            Of trees i < j, by i and then by j: what SciPy's `linkage` and `squareform`
            take.

        Raises
        ------
        ValueError
            If the way back may cost something else: as with a callable, or where inserting
            and deleting cost different amounts.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> tk.EditDistance().condensed(["(a)", "(a b)", "(a b c d)"])
        array([1., 3., 2.])
        """
        jobs, tell = (
            check_jobs(n_jobs),
            progress_callback(progress, type(self).__name__),
        )
        return self._core.condensed(self._examples(X), self.normalize, jobs, tell)

    def join(
        self,
        X: Trees,
        Y: Trees | None = None,
        *,
        max_distance: float = 0.2,
        rows: tuple[int, int] | None = None,
        n_jobs: int | None = None,
        out: Callable[..., object] | None = None,
        progress: Progress | bool | None = None,
    ) -> JoinResult:
        """Find all pairs of trees whose distance is at most `max_distance`.

        Pairs that are farther apart by their sizes, their labels, or the order of their
        labels are left out without their distance. Where costs do not depend on labels,
        most of these are not even looked at.

        Parameters
        ----------
        X, Y : Forest or sequence of str
            The trees; without Y, pairs i < j of X, each once.
        max_distance : float, default 0.2
            The largest distance, as `normalize` has it.
        rows, n_jobs, out, progress
            As in a tree kernel's `join`.

        Returns
        -------
        JoinResult
            `rows`, `columns` and `values`, row by row.

        Raises
        ------
        ValueError
            Without Y, if the way back may cost something else, as in `condensed`.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> d = tk.EditDistance(normalize="max")
        >>> found = d.join(["(a b c d)", "(a b c e)", "(x y)"], max_distance=0.25)
        >>> found.rows, found.columns, found.values
        (array([0]), array([1]), array([0.25]))
        """
        most = check_number("max_distance", max_distance)
        return self._join(X, Y, most, n_jobs, out, progress, rows)

    def top_k(
        self,
        X: Trees,
        Y: Trees | None = None,
        *,
        k: int = 10,
        max_distance: float | None = None,
        n_jobs: int | None = None,
        progress: Progress | bool | None = None,
    ) -> Neighbors:
        """Find the trees of Y that are nearest to each tree of X.

        Where costs do not depend on labels, few distances are computed, and fewer with
        `max_distance`.

        Parameters
        ----------
        X, Y : Forest or sequence of str
            The trees. Without Y, each tree of X is compared with the other trees of X.
        k : int, default 10
            How many to find for each tree of X; fewer if Y is smaller.
        max_distance : float, optional
            The largest distance, as `normalize` has it. A row with fewer than k trees so
            near ends with indices -1 and values of infinity.
        n_jobs, progress
            As in a call.

        Returns
        -------
        Neighbors
            `indices` and `values`, each of shape (len(X), k), the nearest first. If values
            are equal, the lower index comes first.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> d, X = tk.EditDistance(), ["(a b c)", "(a b)", "(x (y z))"]
        >>> d.top_k(X, k=1).values.ravel()
        array([1., 1., 3.])
        >>> found = d.top_k(X, k=2, max_distance=2)
        >>> found.indices.tolist(), found.values.tolist()
        ([[1, -1], [0, -1], [-1, -1]], [[1.0, inf], [1.0, inf], [inf, inf]])
        """
        most = _most(max_distance)
        return self._top_k(X, Y, k, n_jobs, progress, most)

    def index(self, Y: Trees) -> EditIndex:
        """Index trees once, for many questions.

        Parameters
        ----------
        Y : Forest or sequence of str
            The trees.

        Returns
        -------
        EditIndex

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> index = tk.EditDistance(normalize="max").index(["(a b c)", "(x y)"])
        >>> index.top_k(["(a b)"], k=1).values.round(3)
        array([[0.333]])
        """
        from treekernel_rs.index import EditIndex

        return EditIndex(self, Y)

    def pair(
        self,
        a: Tree | str | object,
        b: Tree | str | object,
        *,
        max_distance: float | None = None,
    ) -> float:
        """Compute the distance of two trees.

        Parameters
        ----------
        a, b : Tree, str or object as in Forest.from_trees
            The trees.
        max_distance : float, optional
            The largest distance that is wanted: if it is more, infinity, and sooner.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> d = tk.EditDistance(rename="levenshtein")
        >>> round(d.pair("(a (color))", "(a (colour))"), 6)
        0.166667
        """
        return self._core.pair(a, b, self.normalize, _most(max_distance))

    def mapping(self, a: Tree | str | object, b: Tree | str | object) -> EditMapping:
        """Find a cheapest mapping of two trees.

        A renaming that costs as much as deleting and inserting is not made. `normalize`
        makes no difference.

        Parameters
        ----------
        a, b : Tree, str or object as in Forest.from_trees
            The trees.

        Returns
        -------
        EditMapping
            Its `pairs`, `renamed`, `deleted`, `inserted` and `cost`.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> d = tk.EditDistance()
        >>> m = d.mapping("(f (d (a) (c (b))) (e))", "(f (c (d (a) (b))) (e))")
        >>> m.pairs, m.deleted, m.inserted, m.cost
        ([(0, 0), (1, 2), (2, 3), (4, 4), (5, 5)], [3], [1], 2.0)
        """
        trees = as_tree(a), as_tree(b)
        found = self._core.mapping(*trees)
        old, new = (_labels_of(tree) for tree in trees)
        return EditMapping(*found, _labels=(old, new))


def _most(max_distance: float | None) -> float | None:
    """Check a largest distance, if there is one."""
    return None if max_distance is None else check_number("max_distance", max_distance)


def _labels_of(tree: Tree) -> list[str]:
    """List the labels of all nodes in preorder."""
    arrays = as_forest([tree]).to_arrays()
    names, ends = arrays["names"].tobytes(), arrays["name_offsets"]
    return [names[ends[n] : ends[n + 1]].decode() for n in arrays["labels"]]


def _node_costs(name: str, costs: Any) -> tuple[list[tuple[str, float]], float]:
    """Costs by label, and that of all other labels."""
    if not isinstance(costs, Mapping):
        return [], check_number(name, costs)
    named = {
        label: check_number(f"{name}[{label!r}]", cost) for label, cost in costs.items()
    }
    other = named.pop(None, 1.0)
    for label in named:
        if not isinstance(label, str):
            msg = f"keys of {name} are labels or None, got {label!r}"
            raise TypeError(msg)
    return list(named.items()), other


def _rename_costs(costs: Any) -> Any:
    """Costs by pair of labels and that of all other pairs, a name, or a callable."""
    if isinstance(costs, str) or callable(costs):
        return costs
    if not isinstance(costs, Mapping):
        return [], check_number("rename", costs)
    named = dict(costs)
    other = check_number("rename[None]", named.pop(None, 1.0))
    pairs = []
    for key, cost in named.items():
        match key:
            case (str() as label, str() as new):
                pairs.append((label, new, check_number(f"rename[{key!r}]", cost)))
            case _:
                msg = f"keys of rename are pairs of labels or None, got {key!r}"
                raise TypeError(msg)
    return pairs, other
