"""What is alike: joins, nearest trees and lists of pairs are those of whole matrices."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
import warnings
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.cluster import DBSCAN, HDBSCAN
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import KNeighborsClassifier, KNeighborsTransformer
from sklearn.pipeline import make_pipeline

import treekernel_rs as tk

pytestmark = pytest.mark.filterwarnings("ignore:the kernel of:RuntimeWarning")

KERNELS = [
    tk.SubtreeKernel(0.5),
    tk.SubtreeKernel(0.3, leaf_weight=0.4),
    tk.SubsetTreeKernel(0.4),
    tk.SubsetTreeKernel(1.0, leaf_weight=0.3),
    tk.PartialTreeKernel(),
    tk.PartialTreeKernel(0.7, 0.5, leaf_factor=2.0, max_children=1),
    tk.ElasticTreeKernel(0.6),
    tk.SubpathKernel(0.5),
]
X = ["(S (A a) (B b))", "(S (A a) (B c))", "(A a)", "(S (A a) (B b))", "(a)"]

trees = st.recursive(
    st.sampled_from(["a", "b"]),
    lambda below: st.builds(
        lambda label, children: f"({label} {' '.join(children)})",
        st.sampled_from(["S", "A"]),
        st.lists(below, min_size=1, max_size=3),
    ),
    max_leaves=6,
).map(lambda text: text if text.startswith("(") else f"({text})")
corpora = st.lists(trees, min_size=1, max_size=9).flatmap(
    # Equal trees.
    lambda few: st.lists(st.sampled_from(few), min_size=1, max_size=14)
)


@settings(max_examples=300, deadline=None)
@given(
    corpora,
    st.none() | corpora,
    st.sampled_from(KERNELS),
    st.booleans(),
    st.sampled_from([0.2, 0.5, 0.8, 1.0]),
    st.integers(1, 5),
)
def test_answers_are_those_of_the_matrix(X, Y, kernel, normalize, least, k):
    kernel = kernel.replace(normalize=normalize)
    matrix = kernel(X, Y)
    found = kernel.join(X, Y, min_similarity=least, n_jobs=1)
    again = kernel.join(X, Y, min_similarity=least, n_jobs=3)
    assert all(np.array_equal(a, b) for a, b in zip(found, again, strict=True))
    values = dict(zip(zip(*found[:2], strict=True), found.values, strict=True))
    assert len(values) == len(found.values)
    for (i, j), value in np.ndenumerate(matrix):
        if Y is None and i >= j:
            assert (i, j) not in values
        elif (i, j) in values:
            assert values[i, j] >= least
            assert values[i, j] == pytest.approx(value, rel=1e-12, abs=1e-12)
        else:
            assert value < least + 1e-12 * max(1, least)
    if Y is None:
        own = kernel.pairs(X, found.rows, found.columns)
        np.testing.assert_array_equal(own, found.values)
    else:
        own = kernel.pairs([X[i] for i in found.rows], [Y[j] for j in found.columns])
        np.testing.assert_allclose(own, found.values, rtol=1e-12)
    others = len(matrix) - 1 if Y is None else matrix.shape[1]
    if Y is None:
        np.fill_diagonal(matrix, -1.0)
    nearest = kernel.top_k(X, Y, k=k, n_jobs=1)
    assert all(
        np.array_equal(a, b)
        for a, b in zip(nearest, kernel.top_k(X, Y, k=k, n_jobs=3), strict=True)
    )
    assert nearest.indices.shape == nearest.values.shape
    assert nearest.indices.shape == (len(X), min(k, others))
    best = -np.sort(-matrix, axis=1)[:, : min(k, others)]
    np.testing.assert_allclose(nearest.values, best, rtol=1e-12, atol=1e-12)
    own = np.take_along_axis(matrix, nearest.indices, axis=1)
    np.testing.assert_allclose(nearest.values, own, rtol=1e-12, atol=1e-12)


def group(trees):
    """Number trees by the first that is equal."""
    number = {}
    return [number.setdefault(tree, len(number)) for tree in trees]


@settings(max_examples=200, deadline=None)
@given(
    st.just([]) | corpora,
    st.none() | st.just([]) | corpora,
    st.sampled_from([*KERNELS, tk.EditDistance()]),
    st.booleans(),
    st.sampled_from([0.2, 0.5, 0.8, 1.0]),
    st.lists(st.integers(0, 16), max_size=3),
)
def test_groups_and_parts_make_up_the_whole_answer(
    X, Y, kernel, normalize, least, cuts
):
    threshold = {"min_similarity": least}
    if isinstance(kernel, tk.EditDistance):
        threshold = {"max_distance": 4 * least}
    else:
        kernel = kernel.replace(normalize=normalize)
    # Those that are handed on are spread to equal trees by themselves.
    chunks = [(np.empty(0, int), np.empty(0, int), np.empty(0))]
    kernel.join(X, Y, out=lambda *arrays: chunks.append(arrays), **threshold)
    rows, columns, values = map(np.concatenate, zip(*chunks, strict=True))
    order = np.lexsort((columns, rows))
    whole = kernel.join(X, Y, **threshold)
    # Written out in the end, and some rows at a time.
    assert whole.n_pairs == len(values)
    batches = [*chunks[:1], *whole._batches()]
    for found in (map(np.concatenate, zip(*batches, strict=True)), whole):
        for one, other in zip(found, (rows, columns, values), strict=False):
            np.testing.assert_array_equal(one, other[order])
            assert one.dtype == other.dtype
    groups, others = whole.groups, X if Y is None else Y
    assert groups.row_groups.tolist() == group(X)
    assert groups.column_groups.tolist() == group(others)
    assert [list(trees) for trees in groups.row_trees()] == [
        [place for place, tree in enumerate(X) if tree == one]
        for one in dict.fromkeys(X)
    ]
    assert len(groups.column_trees()) == len(set(others))
    pairs = list(zip(*map(np.ndarray.tolist, groups[:2]), strict=True))
    assert sorted(set(pairs)) == pairs
    expected = {
        tuple(sorted(pair) if Y is None else pair): value
        for *pair, value in zip(
            groups.row_groups[rows].tolist(),
            groups.column_groups[columns].tolist(),
            values,
            strict=True,
        )
    }
    assert dict(zip(pairs, groups.values, strict=True)) == expected
    again = pickle.loads(pickle.dumps(whole))
    assert all(map(np.array_equal, again, whole))
    # Parts.
    cuts = [0, *sorted(cuts), 17]
    parts = [kernel.join(X, Y, rows=part, **threshold) for part in pairwise(cuts)]
    first = {number: place for place, number in [*enumerate(group(X))][::-1]}
    for part, start, stop in zip(parts, cuts, cuts[1:], strict=False):
        assert part.shape == whole.shape
        finders = [first[number] for number in groups.row_groups[part.rows].tolist()]
        if Y is None:
            later = [first[n] for n in groups.row_groups[part.columns].tolist()]
            finders = [max(pair) for pair in zip(finders, later, strict=True)]
        assert all(start <= finder < stop for finder in finders)
    together = [np.concatenate(field) for field in [*zip(*parts, strict=True)][:3]]
    order = np.lexsort((together[1], together[0]))
    for one, other in zip(together, whole, strict=False):
        np.testing.assert_array_equal(one[order], other)


def as_table(found, package):
    if package == "pyarrow":
        return pytest.importorskip("pyarrow").table(found).to_pydict()
    pytest.importorskip("pyarrow")
    return pytest.importorskip("polars").DataFrame(found).to_dict(as_series=False)


@pytest.mark.parametrize("package", ["pyarrow", "polars"])
@pytest.mark.parametrize("Y", [None, X[:3], []])
def test_answers_are_tables_of_arrow(package, Y, monkeypatch):
    kernel = tk.SubsetTreeKernel(0.4, normalize=True)
    matrix = kernel(X, Y)
    # Batches of some pairs, with a tree that has more.
    monkeypatch.setattr("treekernel_rs.neighbors._BATCH", 3)
    found = kernel.join(X, Y, min_similarity=0.3)
    table = as_table(found, package)
    assert list(table) == ["row", "column", "value"]
    above = np.argwhere(np.triu(matrix, 1) >= 0.3 if Y is None else matrix >= 0.3)
    places = list(zip(table["row"], table["column"], strict=True))
    assert places == [tuple(place) for place in above.tolist()]
    np.testing.assert_allclose(table["value"], [matrix[place] for place in places])
    assert table["value"] == found.values.tolist()  # written out before
    assert as_table(found, package) == table
    nearest = kernel.top_k(X, Y, k=2)
    table = as_table(nearest, package)
    assert table["row"] == np.repeat(np.arange(5), nearest.indices.shape[1]).tolist()
    assert table["column"] == nearest.indices.ravel().tolist()
    assert table["value"] == nearest.values.ravel().tolist()


def test_places_without_a_near_tree_are_not_in_the_table():
    nearest = tk.EditDistance().top_k(X, k=2, max_distance=0)
    assert as_table(nearest, "pyarrow") == {
        "row": [0, 3],
        "column": [3, 0],
        "value": [0.0, 0.0],
    }


def test_blocks_together_are_the_whole_answer():
    kernel, parts = tk.SubsetTreeKernel(normalize=True), []
    rest = kernel.join(X, min_similarity=0.3, out=lambda *arrays: parts.append(arrays))
    assert len(rest.values) == 0
    together = [np.concatenate(part) for part in zip(*parts, strict=True)]
    whole = kernel.join(X, min_similarity=0.3)
    assert [part.dtype for part in together] == [np.int64, np.int64, np.float64]
    for part, expected in zip(together, whole, strict=False):
        np.testing.assert_array_equal(part, expected)


@pytest.mark.parametrize("n_others", [None, 900])
def test_equal_trees_come_in_blocks_of_a_stated_size(n_others):
    n, kernel, most = 1_700, tk.SubsetTreeKernel(normalize=True), 1 << 20
    X = tk.Forest.from_brackets(["(S (A a) (B b))"] * n + ["(S (A a) (B c))"] * 3)
    Y = None if n_others is None else X[:n_others]
    index, asked = kernel.index(X if Y is None else Y), None if Y is None else X
    for join in (
        lambda out: kernel.join(X, Y, min_similarity=0.2, out=out),
        lambda out: index.join(asked, min_similarity=0.2, out=out),
    ):
        parts = []
        join(lambda *arrays, parts=parts: parts.append(arrays))
        assert len(parts) > 1
        assert max(len(rows) for rows, _, _ in parts) <= most
        rows, columns, values = (
            np.concatenate(part) for part in zip(*parts, strict=True)
        )
        found = np.zeros((len(X), len(X if Y is None else Y)), bool)
        found[rows, columns] = True
        expected = np.ones_like(found)
        expected = np.triu(expected, 1) if Y is None else expected
        np.testing.assert_array_equal(found, expected)
        assert len(rows) == expected.sum()  # each once
        is_equal = (rows < n) & (columns < n)
        assert (values[is_equal] == 1).all()


def test_an_exception_of_the_callable_is_raised():
    def stop(*arrays):
        raise LookupError(len(arrays))

    with pytest.raises(LookupError, match="3"):
        tk.SubsetTreeKernel(normalize=True).join(X, min_similarity=0.3, out=stop)
    with pytest.raises(LookupError, match="2"):
        tk.SubsetTreeKernel(normalize=True).join(X, progress=stop)


RESUMED = """
import sys
from pathlib import Path

import numpy as np
import treekernel_rs as tk

trees, folder = np.loadtxt(sys.argv[1], dtype=str, delimiter=";"), Path(sys.argv[2])
kernel = tk.SubsetTreeKernel(0.4, normalize=True)
for start in range(0, len(trees), 300):
    path = folder / f"{start}.npy"
    if not path.exists():
        found = kernel.join(trees, min_similarity=0.6, rows=(start, start + 300))
        with (folder / "part").open("wb") as file:
            np.save(file, np.stack(found[:3]))
        (folder / "part").rename(path)
        print(start, flush=True)
"""


@pytest.mark.posix
def test_an_interrupted_join_is_resumed_to_the_same_answer(tmp_path):
    draw = np.random.default_rng(3).integers(0, [4, 4, 30, 30], (3_000, 4))
    trees = [f"(S (A a{a}) (B (C c{b}) (D d{c}) (E e{d})))" for a, b, c, d in draw]
    (tmp_path / "trees.txt").write_text("\n".join(trees))
    parts = tmp_path / "parts"
    parts.mkdir()
    program = [sys.executable, "-c", RESUMED, tmp_path / "trees.txt", parts]
    n_interrupted = 0
    # Ctrl-C after one part, after two more, and then no more.
    for n in (1, 2, 300):
        with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as run:
            for _ in range(n):
                if not run.stdout.readline():
                    break
            else:
                run.send_signal(signal.SIGINT)
        n_interrupted += run.returncode != 0
    assert (n_interrupted, run.returncode) == (2, 0)
    found = np.concatenate([np.load(path) for path in parts.glob("*.npy")], axis=1)
    found = found[:, np.lexsort(found[1::-1])]
    whole = tk.SubsetTreeKernel(0.4, normalize=True).join(trees, min_similarity=0.6)
    assert whole.n_pairs > 10_000
    np.testing.assert_array_equal(found, np.stack(whole[:3]))


def test_a_part_that_a_callable_ended_is_resumed():
    kernel, corpus, chunks = tk.SubsetTreeKernel(0.4, normalize=True), X * 40, []

    def fail(*arrays):
        raise LookupError

    for part in pairwise([0, 1, 200]):
        with pytest.raises(LookupError):
            kernel.join(corpus, min_similarity=0.3, rows=part, out=fail)
        keep = lambda *arrays: chunks.append(np.stack(arrays))  # noqa: E731
        kernel.join(corpus, min_similarity=0.3, rows=part, out=keep)
    found = np.concatenate(chunks, axis=1)
    found = found[:, np.lexsort(found[1::-1])]
    whole = kernel.join(corpus, min_similarity=0.3)
    np.testing.assert_array_equal(found, np.stack(whole[:3]))


BOUNDED = """
import resource, sys
from pathlib import Path

import numpy as np
import treekernel_rs as tk

which, n, leaves, pairs, least = sys.argv[1], *map(int, sys.argv[2:5]), sys.argv[5]
draw = np.random.default_rng(1).integers(0, leaves, (n, 3))
lines = [
    f"(S (A (X a{a}) (Y y)) (B (X b{b}) (Y y)) (C (X c{c}) (Y y)) (D (E e)))"
    for a, b, c in draw
]
forest = tk.Forest(lines)
trees = forest.unique().trees
kernel = getattr(tk, which)(normalize=True)
kernel.join(lines[:100])
# The formula of docs/FINDING.md.
most = 200_000_000 + 100 * trees.n_nodes.sum() + 50 * pairs
pages = int(Path("/proc/self/statm").read_text().split()[0])
limit = pages * resource.getpagesize() + int(most)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
found = kernel.join(forest, min_similarity=float(least), n_jobs=1)
print(len(found.groups.values), found.n_pairs)
"""


@pytest.mark.linux
@pytest.mark.parametrize(
    ("kernel", "n", "leaves", "least", "pairs", "total"),
    [
        # Different trees, pairs of different trees, and 10.8 GB of pairs of equal trees.
        ("SubtreeKernel", 60_000, 1 << 40, 0.98, 0, 0),
        ("SubsetTreeKernel", 60_000, 1 << 40, 0.98, 0, 0),
        ("PartialTreeKernel", 4_000, 1 << 40, 0.98, 0, 0),
        ("SubsetTreeKernel", 3_500, 1 << 40, 0.5, 6_123_250, 6_123_250),
        ("SubsetTreeKernel", 30_000, 1, 0.98, 1, 449_985_000),
    ],
)
def test_a_join_takes_no_more_memory_than_is_stated(
    kernel, n, leaves, least, pairs, total
):
    done = subprocess.run(
        [sys.executable, "-c", BOUNDED, kernel, *map(str, (n, leaves, pairs, least))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(pairs), str(total)]


def test_sparse_matrices_are_the_matrix():
    kernel = tk.SubsetTreeKernel(normalize=True)
    matrix = kernel(X, X[:3])
    found = kernel.join(X, X[:3], min_similarity=0.3).tocsr()
    np.testing.assert_allclose(found.toarray(), np.where(matrix >= 0.3, matrix, 0))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda k: k.join(X, min_similarity=np.nan), ValueError, "min_similarity must"),
        (lambda k: k.join(X, min_similarity="a"), TypeError, "min_similarity must"),
        (lambda k: k.join(X, out=3), TypeError, "out must be a callable, got int"),
        (lambda k: k.join(X, rows=3), TypeError, r"rows must be a tuple .*, got 3"),
        (lambda k: k.join(X, rows=(0, 1.5)), TypeError, "rows must be an int, got 1.5"),
        (lambda k: k.join(X, rows=(2, 1)), ValueError, r"rows must be .* got \(2, 1\)"),
        (
            lambda k: k.join(X, rows=(-1, 1)),
            ValueError,
            r"rows must be .* got \(-1, 1\)",
        ),
        (
            lambda k: k.top_k(X, k=0),
            ValueError,
            "k must be an int of at least 1, got 0",
        ),
        (lambda k: k.top_k(X, k=1.5), ValueError, "k must be an int"),
        (lambda k: k.pairs(X, X[:2]), ValueError, "Y has 2 trees, expected 5"),
        (
            lambda k: k.pairs(X, [0], [5]),
            ValueError,
            r"j\[0\]: expected below 5, got 5",
        ),
        (
            lambda k: k.pairs(X, [0, -1], [0, 0]),
            ValueError,
            r"i\[1\]: expected .* got -1",
        ),
        (lambda k: k.pairs(X, [0], [0, 1]), ValueError, "j has 2 entries, expected 1"),
        (lambda k: k.join(["(A"]), tk.ParseError, "tree 0"),
    ],
)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call(tk.SubsetTreeKernel(normalize=True))


def test_trees_without_kernel_are_told_of():
    kernel = tk.SubsetTreeKernel(normalize=True)
    for call in (kernel.join, kernel.top_k, lambda x: kernel.pairs(x, x)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call(X)
        assert "X with themselves is 0" in str(caught[0].message), call
        assert str(caught[0].message).endswith(": 4")
        assert caught[0].filename == __file__


def test_empty_corpora_have_no_answers():
    kernel = tk.SubsetTreeKernel(normalize=True)
    assert kernel.join([]).shape == (0, 0)
    assert kernel.top_k(X, [], k=3).indices.shape == (5, 0)
    assert kernel.top_k([], X, k=3).indices.shape == (0, 3)
    assert kernel.pairs([], []).shape == (0,)


# Estimators

WORDS = ("who", "what", "where")
LINES = [f"(S (W (V {w}) (V {w})) (N {n}))" for w in WORDS for n in "abcdefgh"]
Y = np.repeat(["HUM", "ENTY", "LOC"], 8)


def test_graphs_are_those_of_scikit_learn_over_distances():
    kernel = tk.SubsetTreeKernel(0.4, normalize=True)
    new = [line.replace("a", "z") for line in LINES[::3]]
    distances = np.sqrt(np.maximum(2 - 2 * kernel(LINES), 0))
    own = tk.TreeKNeighborsTransformer(kernel, 3)
    graph = own.fit_transform(LINES)
    theirs = KNeighborsTransformer(n_neighbors=3, metric="precomputed")
    expected = theirs.fit_transform(distances)
    assert graph.shape == expected.shape
    assert graph.nnz == expected.nnz
    np.testing.assert_allclose(graph.data, expected.data, atol=1e-7)
    expected = theirs.transform(np.sqrt(np.maximum(2 - 2 * kernel(new, LINES), 0)))
    np.testing.assert_allclose(own.transform(new).data, expected.data, atol=1e-7)
    assert own.get_feature_names_out()[0] == "treekneighborstransformer0"


def test_graphs_go_to_clusterings_and_classifiers():
    graph = tk.TreeKNeighborsTransformer(tk.SubsetTreeKernel(0.4), 7)
    found = DBSCAN(eps=1.0, min_samples=2, metric="precomputed").fit(
        graph.fit_transform(LINES)
    )
    assert len(set(found.labels_)) == 3
    model = make_pipeline(graph, KNeighborsClassifier(3, metric="precomputed"))
    model.set_params(treekneighborstransformer__kernel__decay=0.2).fit(LINES, Y)
    assert model.score(LINES, Y) == 1.0


#: Equal trees, one that is near many others, and one that has nothing in common with any.
CROWDED = [*LINES, *["(S (A a))"] * 9, "(S (W (V who) (V who)))", "(X y)"]


def links(graph):
    """The stored distances by their places: SciPy's operations lose those that are 0."""
    coo = graph.tocoo()
    return dict(zip(zip(coo.row, coo.col, strict=True), coo.data, strict=True))


@pytest.mark.parametrize("n_neighbors", [1, 4, 12, 40])
def test_symmetric_graphs_link_both_ways_what_the_others_link_in_one(n_neighbors):
    make = tk.TreeKNeighborsTransformer(tk.SubsetTreeKernel(0.4), n_neighbors)
    one_way = links(make.fit_transform(CROWDED))
    graph = clone(make).set_params(symmetric=True).fit_transform(CROWDED)
    both = links(graph)
    assert both.keys() == one_way.keys() | {(j, i) for i, j in one_way}
    assert all(both[i, j] == both[j, i] for i, j in both)
    assert all((distance == 0) == (i == j) for (i, j), distance in both.items())
    for place, distance in one_way.items():
        assert both[place] == pytest.approx(distance, abs=2e-9)
    for start, end in zip(graph.indptr[:-1], graph.indptr[1:], strict=True):
        assert (np.diff(graph.data[start:end]) >= 0).all()
    # What the graph is for refuses, or warns of, any other.
    assert len(one_way) < len(both) or n_neighbors == 40


@pytest.mark.parametrize("n_neighbors", [12, 20, 40])
def test_hdbscan_clusters_a_symmetric_graph_as_it_does_the_matrix(n_neighbors):
    kernel = tk.SubsetTreeKernel(0.4, normalize=True)
    distances = np.sqrt(np.maximum(2 - 2 * kernel(CROWDED), 0))
    make = tk.TreeKNeighborsTransformer(kernel, n_neighbors, symmetric=True)
    hdbscan = HDBSCAN(min_cluster_size=5, metric="precomputed", copy=True)
    expected = hdbscan.fit_predict(distances)
    assert len(set(expected)) == 5
    found = hdbscan.fit_predict(make.fit_transform(CROWDED))
    assert adjusted_rand_score(expected, found) == 1.0
    dbscan = DBSCAN(eps=1.0, min_samples=3, metric="precomputed")
    found = dbscan.fit_predict(make.fit_transform(CROWDED))
    assert adjusted_rand_score(dbscan.fit_predict(distances), found) == 1.0


def test_symmetric_is_a_flag():
    make = tk.TreeKNeighborsTransformer(symmetric="yes")
    with pytest.raises(ValueError, match="symmetric must be True or False, got 'yes'"):
        make.fit_transform(X)
    new = clone(make).set_params(symmetric=True).fit(X)
    # Trees of another list are linked to the training set, in one direction.
    plain = tk.TreeKNeighborsTransformer().fit(X)
    assert links(new.transform(X)) == links(plain.transform(X))


@pytest.mark.parametrize("weights", ["uniform", "distance"])
def test_neighbours_vote_as_they_do_over_the_matrix(weights):
    kernel = tk.SubsetTreeKernel(0.4)
    new = [line.replace("(N a)", "(N z)") for line in LINES]
    model = tk.TreeKNeighborsClassifier(kernel, 3, weights=weights).fit(LINES, Y)
    assert list(model.classes_) == ["ENTY", "HUM", "LOC"]
    assert model.score(new, Y) == 1.0
    assert model.predict_proba(new).shape == (24, 3)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(new), model.predict(new))
    means = tk.TreeKNeighborsRegressor(kernel, 3, weights=weights)
    values = np.repeat([1.0, 2.0, 3.0], 8)
    assert means.fit(LINES, values).score(new, values) > 0.99
    assert clone(means).get_params().keys() == means.get_params().keys()
    means.set_params(kernel__decay=0.2)
    assert means.kernel == tk.SubsetTreeKernel(0.2)
