"""Tree edit distance, against a recursion over forests and published implementations."""

from __future__ import annotations

import gzip
import inspect
import random
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

import treekernel_rs as tk

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TREES = [
    "(f (d (a) (c (b))) (e))",
    "(f (c (d (a) (b))) (e))",
    "(a (b) (c))",
    "(a (c))",
    "(h)",
    "(a (b) (c))",
]


class Costs:
    """What edits cost, as functions."""

    def __init__(
        self,
        rename: Callable[[str, str], float],
        insert: Callable[[str], float],
        delete: Callable[[str], float],
    ) -> None:
        self.rename, self.insert, self.delete = rename, insert, delete

    def distance(self, a: oracle.Tree, b: oracle.Tree) -> float:
        """Compute the distance of two trees: by the last roots of two forests."""

        @cache
        def emptied(forest: tuple[oracle.Tree, ...]) -> float:
            return sum(self.delete(tree[0]) + emptied(tree[1]) for tree in forest)

        @cache
        def filled(forest: tuple[oracle.Tree, ...]) -> float:
            return sum(self.insert(tree[0]) + filled(tree[1]) for tree in forest)

        @cache
        def of(x: tuple[oracle.Tree, ...], y: tuple[oracle.Tree, ...]) -> float:
            if not x:
                return filled(y)
            if not y:
                return emptied(x)
            (*before, (label, below)), (*others, (new, under)) = x, y
            before, others = tuple(before), tuple(others)
            return min(
                of(before + below, y) + self.delete(label),
                of(x, others + under) + self.insert(new),
                of(before, others) + of(below, under) + self.rename(label, new),
            )

        return of((a,), (b,))

    def total(self, a: oracle.Tree, b: oracle.Tree) -> tuple[float, float]:
        """Compute what deleting the first tree and inserting the second cost."""
        return (
            sum(self.delete(label) for label in labels(a)),
            sum(self.insert(label) for label in labels(b)),
        )


def labels(tree: oracle.Tree) -> list[str]:
    return [tree[0], *(label for child in tree[1] for label in labels(child))]


UNIT = Costs(lambda a, b: float(a != b), lambda _: 1.0, lambda _: 1.0)

small = st.recursive(
    st.sampled_from("abc").map(lambda label: (label, ())),
    lambda children: st.tuples(
        st.sampled_from("abc"), st.lists(children, max_size=3).map(tuple)
    ),
    max_leaves=5,
)
quarters = st.integers(0, 8).map(lambda n: n / 4)
by_label = st.fixed_dictionaries(dict.fromkeys("abc", quarters))
by_pair = st.dictionaries(
    st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), quarters
)


def parsed(text: str) -> oracle.Tree:
    (tree,) = oracle.parse(text)
    return tree


@given(a=small, b=small)
def test_unit_costs_are_the_definition(a, b):
    expected = UNIT.distance(a, b)
    a_text, b_text = oracle.show(a), oracle.show(b)
    assert tk.EditDistance().pair(a_text, b_text) == expected
    deleted, inserted = UNIT.total(a, b)
    divided = {
        "max": expected / max(deleted, inserted),
        "sum": expected / (deleted + inserted),
        "metric": 2 * expected / (deleted + inserted + expected),
    }
    for normalize, value in divided.items():
        distance = tk.EditDistance(normalize=normalize)
        assert distance.pair(a_text, b_text) == pytest.approx(value, abs=1e-15)


@given(
    a=small, b=small, insert=by_label, delete=by_label, rename=by_pair, rest=quarters
)
def test_costs_by_labels_are_the_definition(a, b, insert, delete, rename, rest):
    def renamed(label: str, new: str) -> float:
        return rename.get((label, new), rest if label != new else 0.0)

    expected = Costs(renamed, insert.__getitem__, delete.__getitem__).distance(a, b)
    texts = oracle.show(a), oracle.show(b)
    by_mapping = tk.EditDistance({**rename, None: rest}, insert, delete)
    assert by_mapping.pair(*texts) == expected
    stays = {label: rename.pop((label, label), 0.0) for label in "abc"}
    if not any(stays.values()):  # a callable is not asked of these
        assert tk.EditDistance(renamed, insert, delete).pair(*texts) == expected


@given(x=st.lists(small, max_size=5), y=st.lists(small, max_size=5))
def test_matrices_rows_and_lists_have_the_values_of_pairs(x, y):
    x, y = ([oracle.show(tree) for tree in trees] for trees in (x, y))
    for distance in (
        tk.EditDistance(),
        tk.EditDistance(0.3, 0.7, 1.1, normalize="sum"),
    ):
        right = np.array([[distance.pair(a, b) for b in y] for a in x])
        assert np.array_equal(distance(x, y, n_jobs=1), right.reshape(len(x), len(y)))
        right = np.array([[distance.pair(a, b) for b in x] for a in x])
        square = distance(x)
        assert np.array_equal(square, right.reshape(len(x), len(x)))
        rows = distance.rows(x)
        for row in range(len(x)):
            assert np.array_equal(rows[row], square[row])
        i, j = np.indices(square.shape).reshape(2, -1)
        assert np.array_equal(distance.pairs(x, i, j), square[i, j])
        n = min(len(x), len(y))
        listed = distance.pairs(x[:n], y[:n])
        assert np.array_equal(listed, np.diag(distance(x[:n], y[:n])))


def preorder(tree: oracle.Tree) -> list[tuple[str, int]]:
    """List labels with the ends of subtrees, by preorder number."""
    nodes: list[tuple[str, int]] = []

    def visit(node: oracle.Tree) -> None:
        place = len(nodes)
        nodes.append((node[0], 0))
        for child in node[1]:
            visit(child)
        nodes[place] = (node[0], len(nodes))

    visit(tree)
    return nodes


@given(
    a=small, b=small, insert=by_label, delete=by_label, rename=by_pair, rest=quarters
)
def test_mappings_are_valid_and_cost_what_they_say(a, b, insert, delete, rename, rest):
    distance = tk.EditDistance({**rename, None: rest}, insert, delete, normalize="max")
    found = distance.mapping(oracle.show(a), oracle.show(b))
    x, y = preorder(a), preorder(b)
    for i, j in found.pairs:
        for u, v in found.pairs:
            assert (i < u) == (j < v)
            assert (i < u < x[i][1]) == (j < v < y[j][1])
    mapped = [{i for i, _ in found.pairs}, {j for _, j in found.pairs}]
    assert found.pairs == sorted(found.pairs)
    assert found.deleted == sorted({*range(len(x))} - mapped[0])
    assert found.inserted == sorted({*range(len(y))} - mapped[1])
    assert found.renamed == [(i, j) for i, j in found.pairs if x[i][0] != y[j][0]]

    def renamed(label: str, new: str) -> float:
        return rename.get((label, new), rest if label != new else 0.0)

    cost = sum(renamed(x[i][0], y[j][0]) for i, j in found.pairs)
    cost += sum(delete[x[i][0]] for i in found.deleted)
    cost += sum(insert[y[j][0]] for j in found.inserted)
    assert (
        found.cost
        == cost
        == distance.replace(normalize=None).pair(oracle.show(a), oracle.show(b))
    )


def test_a_mapping_shows_its_first_edits():
    many = tk.EditDistance().mapping("(a)", f"(a {'b ' * 30})")
    lines = repr(many).splitlines()
    assert lines[:2] == ["<EditMapping: 1 pair of nodes, cost 30.0>", "insert 1 b"]
    assert lines[-1] == "... 10 more"
    assert len(lines) == 22


@given(x=st.lists(small, max_size=7), y=st.lists(small, max_size=7))
def test_neighbours_and_joins_are_those_of_all_pairs(x, y):
    x, y = ([oracle.show(tree) for tree in trees] for trees in (x, y))
    for distance in (tk.EditDistance(), tk.EditDistance(2, normalize="sum")):
        most = 0.5 if distance.normalize else 2.0
        for others, values in ((None, distance(x)), (y, distance(x, y))):
            close = values <= most
            if others is None:
                close &= np.triu(np.ones(close.shape, bool), 1)
            found = distance.join(x, others, max_distance=most)
            assert [found.rows.tolist(), found.columns.tolist()] == [
                places.tolist() for places in np.nonzero(close)
            ]
            assert np.array_equal(found.values, values[close])
            near = distance.top_k(x, others, k=2)
            within = distance.top_k(x, others, k=2, max_distance=most)
            for i, row in enumerate(values):
                order = np.argsort(row, kind="stable")
                if others is None:
                    order = order[order != i]
                order = order[:2]
                assert near.indices[i].tolist() == order.tolist()
                assert np.array_equal(near.values[i], row[order])
                is_close = row[order] <= most
                order = np.where(is_close, order, -1)
                assert within.indices[i].tolist() == order.tolist()
                expected = np.where(is_close, near.values[i], np.inf)
                assert np.array_equal(within.values[i], expected)
    for a in x[:3]:
        for b in y[:3]:
            value = distance.pair(a, b)
            assert distance.pair(a, b, max_distance=value) == value
            if value > 0:
                assert distance.pair(a, b, max_distance=value * 0.99) == float("inf")


def test_without_y_two_trees_have_one_distance():
    with pytest.raises(ValueError, match="symmetric"):
        tk.EditDistance(insert=2).join(TREES)
    near = tk.EditDistance(insert=2).top_k(TREES[2:5], k=1)
    assert near.values.ravel().tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(ValueError, match="max_distance"):
        tk.EditDistance().pair("(a)", "(b)", max_distance=float("nan"))
    with pytest.raises(ValueError, match="max_distance"):
        tk.EditDistance().top_k(TREES, max_distance=float("nan"))


def test_options_are_those_of_kernels():
    distance = tk.EditDistance()
    square = distance(TREES)
    assert np.array_equal(square, square.T)
    for n_jobs in (1, 2, -1):
        assert np.array_equal(distance(TREES, n_jobs=n_jobs), square)
    out = np.empty((6, 6), np.float32)
    told = []
    found = distance(
        TREES, out=out, dtype=np.float32, progress=lambda *n: told.append(n)
    )
    assert found is out
    assert np.array_equal(out, square)
    assert told[-1] == (5, 5)  # two of the six trees are equal
    assert distance(TREES, dtype=np.float32).dtype == np.float32
    forest = tk.Forest(TREES)
    assert np.array_equal(distance(forest[:2], forest), square[:2])
    with pytest.raises(KeyboardInterrupt):
        distance(TREES, progress=stop)


def stop(done: int, total: int) -> None:
    raise KeyboardInterrupt


def test_condensed_matrices_are_those_of_scipy():
    from scipy.cluster.hierarchy import linkage
    from scipy.spatial.distance import squareform

    for normalize in (None, "max", "sum", "metric"):
        distance = tk.EditDistance(normalize=normalize)
        condensed = distance.condensed(TREES, n_jobs=2)
        assert np.array_equal(squareform(condensed), distance(TREES))
    assert linkage(condensed).shape == (5, 4)
    assert distance.condensed(TREES[:1]).shape == (0,)
    assert distance.condensed([]).shape == (0,)
    for asymmetric in (
        tk.EditDistance(insert=2),
        tk.EditDistance({("a", "b"): 0.5}),
        tk.EditDistance(lambda a, b: 1.0),
    ):
        with pytest.raises(ValueError, match="symmetric"):
            asymmetric.condensed(TREES)


def test_a_callable_is_asked_once_for_each_two_labels():
    asked = []

    def rename(label, new):
        asked.append((label, new))
        return 0.5

    distance = tk.EditDistance(rename)
    assert distance(["(a (b))", "(c)", "(c b)"])[0, 1] == 1.5
    assert sorted(asked) == [(x, y) for x in "abc" for y in "abc" if x != y]

    def broken(label, new):
        raise LookupError(label)

    with pytest.raises(LookupError):
        tk.EditDistance(broken)(TREES)
    with pytest.raises(TypeError):
        tk.EditDistance(lambda a, b: None).pair("(a)", "(b)")
    with pytest.raises(ValueError, match="rename must be at least 0, got NaN"):
        tk.EditDistance(lambda a, b: float("nan")).pair("(a)", "(b)")


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        (
            {"insert": -1},
            ValueError,
            "insert must be 0, or from 1e-100 to 1e100, got -1",
        ),
        ({"delete": float("nan")}, ValueError, "delete must be"),
        ({"delete": {"a": float("inf")}}, ValueError, "delete must be"),
        ({"rename": {("a", "b"): -0.5}}, ValueError, "rename must be at least 0"),
        ({"rename": {("a", "b", "c"): 1}}, TypeError, "keys of rename are pairs"),
        ({"rename": {"a": 1}}, TypeError, "keys of rename are pairs"),
        ({"insert": {1: 1}}, TypeError, "keys of insert are labels"),
        ({"insert": "1"}, TypeError, "insert must be a number"),
        ({"rename": {("a", "b"): "1"}}, TypeError, "must be a number"),
        ({"rename": [1]}, TypeError, "rename must be a number"),
        ({"rename": "hamming"}, ValueError, "'levenshtein' or 'cells', got"),
        ({"normalize": "min"}, ValueError, "normalize must be None, 'max', 'sum' or"),
        ({"normalize": True}, ValueError, "normalize must be .* 'metric', got True"),
        ({"insert": 2, "normalize": "metric"}, ValueError, "normalize must be"),
        ({"rename": 0, "normalize": "metric"}, ValueError, "normalize must be"),
    ],
)
def test_wrong_parameters_are_refused_at_their_first_use(parameters, error, message):
    distance = tk.EditDistance(**parameters)
    with pytest.raises(error, match=message):
        distance(TREES)


def test_it_is_its_parameters():
    distance = tk.EditDistance(
        {("a", "b"): 0.5, None: 2.0}, insert={"x": 3.0}, normalize="sum"
    )
    assert distance.replace(normalize=None).normalize is None
    assert tk.kernels.kernel_from_json(distance.to_json()) == distance
    shown = "EditDistance(1, delete=2, normalize='max')"
    assert repr(tk.EditDistance(delete=2, normalize="max")) == shown
    defaults = inspect.signature(tk.EditDistance).parameters
    assert [p.default for p in defaults.values()] == [1, 1, 1, None]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "column", "n_pairs", "most"),
    [("qc/const_train", 3, 2_000, 200), ("code/java_functions", 1, 300, 250)],
)
def test_real_trees_have_the_published_distances(
    shared_data, file, column, n_pairs, most
):
    trees = some_trees(shared_data / f"{file}.tsv.gz", column, most)
    assert_published(trees, n_pairs)


def test_random_trees_have_the_published_distances():
    rng = random.Random(28)
    trees = [random_tree(rng, rng.randint(1, 70)) for _ in range(60)]
    assert_published(tk.Forest.from_brackets(trees), 150)


def random_tree(rng: random.Random, n_nodes: int) -> str:
    """Return a tree whose nodes stand below any that came before: wide, or deep."""
    recent = rng.choice([1, 3, n_nodes])
    below: list[list[int]] = [[] for _ in range(n_nodes)]
    for node in range(1, n_nodes):
        below[rng.randint(max(0, node - recent), node - 1)].append(node)
    texts = [""] * n_nodes
    for node in reversed(range(n_nodes)):
        children = "".join(f" {texts[child]}" for child in below[node])
        texts[node] = f"({rng.choice('abcd')}{children})"
    return texts[0]


def assert_published(trees: tk.Forest, n_pairs: int) -> None:
    """Compare with `apted` and `zss`, which no other test needs (group optional)."""
    apted, zss = pytest.importorskip("apted"), pytest.importorskip("zss")
    from apted.helpers import Tree

    rng = np.random.default_rng(28)
    i, j = rng.integers(0, len(trees), (2, n_pairs))
    found = tk.EditDistance().pairs(trees, i, j)
    parsed = [oracle.parse(text)[0] for text in trees.to_brackets()]

    def named(tree: oracle.Tree) -> Tree:
        return Tree(tree[0], *map(named, tree[1]))

    def noded(tree: oracle.Tree) -> zss.Node:
        return zss.Node(tree[0], [noded(child) for child in tree[1]])

    for a, b, distance in zip(i, j, found, strict=True):
        a, b = parsed[a], parsed[b]
        assert apted.APTED(named(a), named(b)).compute_edit_distance() == distance
        if max(len(labels(a)), len(labels(b))) <= 60:
            assert zss.simple_distance(noded(a), noded(b)) == distance


def some_trees(path: Path, column: int, most: int) -> tk.Forest:
    """Read the first thousand trees of at most so many nodes."""
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as lines:
        rows = (
            line.rstrip("\n").split("\t")[column]
            for line, _ in zip(lines, range(1_000), strict=False)
        )
        trees = tk.Forest.from_brackets([row for row in rows if "()" not in row])
    return trees[np.flatnonzero(trees.n_nodes <= most)]
