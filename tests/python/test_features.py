"""Features of trees against their enumeration, and against kernels."""

from __future__ import annotations

import copy
import pickle
from collections import Counter
from math import sqrt
from typing import TYPE_CHECKING

import kernel_oracle
import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treekernel_rs as tk

pytest.importorskip("sklearn")

if TYPE_CHECKING:
    from collections.abc import Callable

    from kernel_oracle import Vector
    from oracle import Tree


def n_inner(fragment: Tree) -> int:
    return sum(1 for node in kernel_oracle.nodes(fragment) if node[1])


def name(fragment: object) -> str:
    """Write a fragment as the columns do: a node alone without brackets."""
    match fragment:
        case ("leaf", str(label)):
            return oracle.show_label(label)
        case (str(label), tuple(children)):
            return (
                oracle.show((label, children)) if children else oracle.show_label(label)
            )
    raise AssertionError(fragment)


def cut(vector: Vector, size: Callable[[Tree], int], most: int) -> dict[str, float]:
    """Keep what is small enough, and above 0, by name."""
    kept: Counter[str] = Counter()
    for fragment, value in vector.items():
        is_leaf = isinstance(fragment, tuple) and fragment[0] == "leaf"
        is_leaf = is_leaf and isinstance(fragment[1], str)
        if value > 0 and (is_leaf or size(fragment) <= most):
            kept[name(fragment)] += value
    return dict(kept)


def check(
    vectorizer: tk.TreeVectorizer, trees: list[Tree], want: list[dict[str, float]]
) -> None:
    texts = [oracle.show(tree) for tree in trees]
    rows = vectorizer.fit_transform(texts)
    again = vectorizer.transform(texts)
    assert (rows != again).nnz == 0
    assert rows.has_sorted_indices
    got = vectorizer.inverse_transform(rows)
    for own, expected in zip(got, want, strict=True):
        assert own.keys() == expected.keys()
        assert own == pytest.approx(expected, rel=1e-12)


@settings(max_examples=150)
@given(kernel_oracle.small_forests, st.sampled_from([0.0, 0.3]))
def test_subtrees(trees: list[Tree], leaf_weight: float) -> None:
    kernel = tk.SubtreeKernel(0.4, leaf_weight=leaf_weight)
    vectors = [kernel_oracle.subtree(tree, leaf_weight=leaf_weight) for tree in trees]
    want = [cut(vector, n_inner, 99) for vector in vectors]
    check(tk.TreeVectorizer(kernel, dtype=float), trees, want)


@settings(max_examples=150)
@given(kernel_oracle.small_forests, st.sampled_from([0.0, 0.3]), st.integers(1, 4))
def test_fragments(trees: list[Tree], leaf_weight: float, size: int) -> None:
    kernel = tk.SubsetTreeKernel(0.3, leaf_weight=leaf_weight)
    oracle_of = kernel_oracle.subset_tree
    vectors = [oracle_of(tree, decay=0.3, leaf_weight=leaf_weight) for tree in trees]
    want = [cut(vector, n_inner, size) for vector in vectors]
    check(tk.TreeVectorizer(kernel, max_size=size, dtype=float), trees, want)


@settings(max_examples=150, deadline=None)
@given(
    kernel_oracle.small_forests,
    st.sampled_from([None, 1, 2]),
    st.sampled_from([1.0, 0.5]),
    st.integers(1, 5),
)
def test_partial_trees(
    trees: list[Tree], max_children: int | None, leaf_factor: float, size: int
) -> None:
    given = {"max_children": max_children, "leaf_factor": leaf_factor}
    kernel = tk.PartialTreeKernel(0.4, mu=0.5, **given)
    vectors = [kernel_oracle.partial_tree(t, decay=0.4, mu=0.5, **given) for t in trees]
    want = [cut(vector, oracle.n_nodes, size) for vector in vectors]
    check(tk.TreeVectorizer(kernel, max_size=size, dtype=float), trees, want)


@given(kernel_oracle.small_forests, st.integers(1, 5))
def test_paths(trees: list[Tree], size: int) -> None:
    def tree_of(path: tuple[str, ...]) -> Tree:
        return oracle.chain(list(path))

    want = []
    for tree in trees:
        paths = kernel_oracle.subpath(tree)
        chains = Counter({tree_of(path): value for path, value in paths.items()})
        want.append(cut(chains, oracle.n_nodes, size))
    check(
        tk.TreeVectorizer(tk.SubpathKernel(0.4), max_size=size, dtype=float),
        trees,
        want,
    )


@given(kernel_oracle.small_forests)
def test_labels_edges_and_productions(trees: list[Tree]) -> None:
    def counts(pieces: Callable[[Tree], list[Tree]]) -> list[dict[str, float]]:
        return [
            dict(
                Counter(
                    name(p) for node in kernel_oracle.nodes(t) for p in pieces(node)
                )
            )
            for t in trees
        ]

    bare = [lambda node: [(node[0], ())]]
    check(tk.TreeVectorizer("labels"), trees, counts(bare[0]))
    edges = counts(lambda node: [(node[0], ((child[0], ()),)) for child in node[1]])
    check(tk.TreeVectorizer("edges"), trees, edges)
    productions = counts(
        lambda n: [(n[0], tuple((child[0], ()) for child in n[1]))] if n[1] else []
    )
    check(tk.TreeVectorizer("productions"), trees, productions)


@given(kernel_oracle.small_forests, st.integers(1, 3), st.integers(1, 3))
def test_pq_grams(trees: list[Tree], p: int, q: int) -> None:
    star = ("*", ())

    def grams(tree: Tree, stem: tuple[str, ...]) -> list[str]:
        label, children = tree
        stem = (*stem, label)[-p:]
        beside = (q - 1) * [star]
        row = [*beside, *((child[0], ()) for child in children), *beside]
        row = row if children else q * [star]
        found = []
        for first in range(len(row) - q + 1):
            piece = (stem[-1], tuple(row[first : first + q]))
            for above in stem[-2::-1]:
                piece = (above, (piece,))
            found.append(name(piece))
        return found + [gram for child in children for gram in grams(child, stem)]

    want = [dict(Counter(grams(tree, p * ("*",)))) for tree in trees]
    check(tk.TreeVectorizer("pq-grams", pq=(p, q)), trees, want)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@given(kernel_oracle.small_forests)
def test_products_are_the_kernel(trees: list[Tree]) -> None:
    texts = [oracle.show(tree) for tree in trees]
    for kernel in (
        tk.SubtreeKernel(0.4),
        tk.SubsetTreeKernel(0.4, normalize=True),
        tk.PartialTreeKernel(0.4, normalize=True),
        tk.SubpathKernel(0.4),
    ):
        vectorizer = tk.TreeVectorizer(kernel, max_size=30, dtype=float)
        rows = vectorizer.fit_transform(texts)
        want = kernel(texts)
        np.testing.assert_allclose((rows @ rows.T).toarray(), want, rtol=1e-10)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("counts", ["log", "set"])
@given(kernel_oracle.small_forests)
def test_functions_of_counts_are_those_of_the_kernel(
    counts: str, trees: list[Tree]
) -> None:
    texts = [oracle.show(tree) for tree in trees]
    function = {"log": lambda c: 1 + np.log(c), "set": np.ones_like}[counts]
    for plain in (tk.SubtreeKernel(0.4, leaf_weight=0.3), tk.SubpathKernel(0.4)):
        vectorizer = tk.TreeVectorizer(plain, max_size=30, counts=counts, dtype=float)
        rows = vectorizer.fit_transform(texts)
        want = plain.replace(counts=counts)(texts)
        np.testing.assert_allclose((rows @ rows.T).toarray(), want, rtol=1e-10)
    for pieces in ("labels", "edges", "productions", "pq-grams"):
        rows = tk.TreeVectorizer(pieces, dtype=float).fit_transform(texts)
        vectorizer = tk.TreeVectorizer(pieces, counts=counts, dtype=float)
        found = vectorizer.fit_transform(texts)
        assert (found.indices == rows.indices).all()
        np.testing.assert_allclose(found.data, function(rows.data), rtol=1e-12)
        assert (vectorizer.transform(texts) != found).nnz == 0
        wide = {"n_features": 2**20, "counts": counts, "dtype": float}
        hashed = tk.TreeVectorizer(pieces, signed=True, **wide).transform(texts)
        np.testing.assert_allclose(
            (hashed @ hashed.T).toarray(), (found @ found.T).toarray(), rtol=1e-12
        )


@given(kernel_oracle.small_forests)
def test_hashed_rows_are_the_columns_added_up(trees: list[Tree]) -> None:
    texts = [oracle.show(tree) for tree in trees]
    kernel = tk.SubsetTreeKernel(0.4)
    wide = tk.TreeVectorizer(kernel, n_features=2**20, signed=False, dtype=float)
    named = tk.TreeVectorizer(kernel, dtype=float).fit_transform(texts)
    rows = wide.fit_transform(texts)
    np.testing.assert_allclose(
        (rows @ rows.T).toarray(), (named @ named.T).toarray(), rtol=1e-12
    )
    few = tk.TreeVectorizer(kernel, n_features=7, signed=False, dtype=float)
    np.testing.assert_allclose(few.transform(texts).sum(axis=1), named.sum(axis=1))


# What these columns were when they were first written: files may hold them.
GOLDEN = {
    "labels": [
        (75, 1.0),
        (118, 1.0),
        (305, -1.0),
        (368, -1.0),
        (406, -1.0),
        (493, -1.0),
        (698, -1.0),
        (809, 1.0),
    ],
    "pq-grams": [
        (35, 1.0),
        (55, 1.0),
        (71, -1.0),
        (104, -1.0),
        (120, 1.0),
        (182, -1.0),
        (201, 1.0),
        (266, -1.0),
        (325, 1.0),
        (330, -1.0),
        (445, 1.0),
        (552, -1.0),
        (616, -1.0),
        (687, 1.0),
        (745, -1.0),
        (767, 1.0),
        (850, 1.0),
        (887, 1.0),
        (926, 1.0),
        (981, 1.0),
    ],
    "fragments": [
        (32, 0.25),
        (43, -0.25),
        (419, 0.125),
        (494, 0.125),
        (557, -0.5),
        (615, 0.25),
        (735, -0.5),
        (744, -0.25),
        (753, -0.5),
        (758, -0.5),
        (851, 0.125),
        (933, -0.125),
        (985, 0.5),
    ],
}


def test_hashes_are_the_same_everywhere() -> None:
    text = ["(S (NP (D the) (N dog)) (VP barks))"]

    def entries(kernel: tk.SubsetTreeKernel | str) -> list[tuple[int, float]]:
        vectorizer = tk.TreeVectorizer(kernel, n_features=1000, dtype=float)
        rows = vectorizer.transform(text)
        return list(zip(rows.indices.tolist(), rows.data.tolist(), strict=True))

    assert entries("labels") == GOLDEN["labels"]
    assert entries("pq-grams") == GOLDEN["pq-grams"]
    assert entries(tk.SubsetTreeKernel(0.25)) == GOLDEN["fragments"]


def test_trees_that_were_not_seen_have_no_columns() -> None:
    vectorizer = tk.TreeVectorizer("edges").fit(["(A b)"])
    assert vectorizer.transform(["(A c)", "(A b b)"]).toarray().tolist() == [[0], [2]]


def test_min_df_counts_trees() -> None:
    vectorizer = tk.TreeVectorizer("labels", min_df=2)
    rows = vectorizer.fit_transform(["(A b b)", "(A c)", "(B b)"])
    assert vectorizer.vocabulary_ == {"b": 0, "A": 1}
    assert rows.toarray().tolist() == [[2, 1], [0, 1], [1, 0]]


def test_every_number_of_threads_gives_the_same_bits() -> None:
    texts = [f"(S (A w{i % 7}) (B (C w{i % 5}) (D w{i % 3})))" for i in range(3000)]
    kernel = tk.PartialTreeKernel(0.4)
    one, two = (
        tk.TreeVectorizer(kernel, n_jobs=n_jobs).fit_transform(texts)
        for n_jobs in (1, 2)
    )
    for name in ("data", "indices", "indptr"):
        assert (getattr(one, name) == getattr(two, name)).all()


@pytest.mark.parametrize(
    "kernel", [tk.SubsetTreeKernel(0.4), "pq-grams", tk.SubpathKernel(0.4)]
)
def test_pickles_and_copies_answer_as_before(kernel: tk.SubsetTreeKernel | str) -> None:
    texts = ["(S (A a) (B b))", "(S (A (B b) (B b)))"]
    vectorizer = tk.TreeVectorizer(kernel).fit(texts)
    for again in (pickle.loads(pickle.dumps(vectorizer)), copy.deepcopy(vectorizer)):
        assert (again.transform(texts) != vectorizer.transform(texts)).nnz == 0
        names = vectorizer.get_feature_names_out()
        assert (again.get_feature_names_out() == names).all()


def test_tampered_vocabularies_are_refused() -> None:
    core = tk.TreeVectorizer("edges").fit(["(A b (C d))"])._vocabulary
    arrays = core.to_arrays()
    for array, value in (
        ("heads", 99),
        ("parts", 99),
        ("parts", -99),
        ("columns", 99),
        ("ends", -1),
        ("ends", 2**40),
        ("hashes", 0),
        ("name_offsets", 7),
    ):
        wrong = {**arrays, array: np.full_like(arrays[array], value)}
        with pytest.raises((ValueError, OverflowError), match=array):
            type(core).from_arrays("edges", (1, 1), wrong)


def test_too_many_fragments_are_counted_and_refused() -> None:
    wide = "(S " + " ".join(f"(A{i} (B b))" for i in range(40)) + ")"
    vectorizer = tk.TreeVectorizer(tk.SubsetTreeKernel(0.4), max_size=40)
    with pytest.raises(ValueError, match=r"have \d+ features.*268435456.*max_size"):
        vectorizer.fit([wide])


def test_parameters_out_of_range_are_named() -> None:
    texts = ["(A a)"]
    with pytest.raises(ValueError, match="max_size must be"):
        tk.TreeVectorizer(max_size=0).fit(texts)
    with pytest.raises(ValueError, match="'labels'"):
        tk.TreeVectorizer("label").fit(texts)
    with pytest.raises(ValueError, match="n_features must be"):
        tk.TreeVectorizer(n_features=0).transform(texts)
    with pytest.raises(ValueError, match=r"counts must be 'linear'.*got 'many'"):
        tk.TreeVectorizer(counts="many").fit(texts)
    partial = tk.TreeVectorizer(tk.PartialTreeKernel(), counts="log")
    with pytest.raises(ValueError, match="functions of counts"):
        partial.fit(texts)
    with pytest.raises(ValueError, match="got ElasticTreeKernel"):
        tk.TreeVectorizer(tk.ElasticTreeKernel(0.2)).fit(texts)
    with pytest.raises(AttributeError, match="hashed columns have no names"):
        tk.TreeVectorizer(n_features=8).fit(texts).get_feature_names_out()


# --- Landmarks ----------------------------------------------------------------------

FORTY = [f"(S (A w{i % 7}) (B (C w{i % 5}) (D w{i})))" for i in range(40)]


@pytest.mark.parametrize("selection", ["uniform", "kmeans++", "leverage", "greedy"])
def test_all_trees_as_landmarks_are_exact(selection: str) -> None:
    kernel = tk.SubsetTreeKernel(0.4)
    nystroem = tk.TreeNystroem(kernel, 40, selection=selection, random_state=0)
    vectors = nystroem.fit_transform(FORTY)
    np.testing.assert_allclose(vectors @ vectors.T, kernel(FORTY), atol=1e-9)
    assert vectors.shape == (40, nystroem.rank_)
    assert len(nystroem.get_feature_names_out()) == nystroem.rank_


def test_greedy_says_what_it_leaves_out() -> None:
    kernel = tk.SubsetTreeKernel(0.4)
    nystroem = tk.TreeNystroem(kernel, 6, selection="greedy").fit(FORTY)
    vectors = nystroem.transform(FORTY)
    own = kernel.diag(FORTY)
    left = (own - (vectors**2).sum(axis=1)).sum() / own.sum()
    assert nystroem.error_ == pytest.approx(left, rel=1e-9)
    assert 0 < left < 1


def test_equal_trees_are_one_direction() -> None:
    nystroem = tk.TreeNystroem(tk.SubsetTreeKernel(0.4), 3).fit(3 * ["(A a)"])
    assert nystroem.rank_ == 1
    assert nystroem.transform(["(A a)"])[0, 0] == pytest.approx(sqrt(0.4))


def test_a_tampered_state_without_its_kernel_is_refused():
    state = tk.TreeVectorizer().fit(["(A a)"]).__getstate__()
    for kernel in (None, 1):
        made = tk.TreeVectorizer()
        with pytest.raises(
            TypeError, match=f"kernel_ .* expected a kernel, got {kernel}"
        ):
            made.__setstate__(state | {"kernel_": kernel})
