"""Models that are added up, and objects that travel."""

from __future__ import annotations

import pickle
import sys

import kernel_oracle as ko
import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

import treekernel_rs as tk

KERNELS = [
    tk.SubtreeKernel(0.5, leaf_weight=0.25),
    tk.SubsetTreeKernel(0.5, leaf_weight=0.25),
    tk.PartialTreeKernel(0.5, 0.5, leaf_factor=4.0),
    tk.ElasticTreeKernel(0.5),
]
every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k._name)


def read(trees: list[oracle.Tree]) -> tk.Forest:
    return tk.Forest.from_brackets([oracle.show(tree) for tree in trees])


@every_kernel
@given(
    ko.small_forests,
    ko.small_forests,
    st.lists(st.integers(-8, 8), min_size=1),
    st.sampled_from([1.0, -1.0, 0.5]),
)
def test_scores_of_merged_models_are_sums(kernel, first, second, alphas, factor):
    # Everything is a multiple of a power of two: sums are exact in any order.
    trees = read(first + second)
    one, two = (
        tk.DagModel.from_dual(kernel, forest, np.resize(alphas, len(forest)), constant)
        for forest, constant in ((read(first), 0.5), (read(second), -2.0))
    )
    sums = one.decision_function(trees) + factor * two.decision_function(trees)
    before = pickle.dumps(two.to_arrays())
    one.merge(two, factor)
    assert one.decision_function(trees).tolist() == sums.tolist()
    assert one.intercept == 0.5 - 2.0 * factor
    assert pickle.dumps(two.to_arrays()) == before
    again = tk.DagModel.from_arrays(**one.to_arrays())
    assert again.decision_function(trees).tolist() == sums.tolist()


@every_kernel
@given(ko.small_forests, st.integers(1, 3))
def test_a_model_of_parts_is_that_of_the_whole(kernel, trees, n_outputs):
    normalised = kernel.replace(normalize=True)
    forest = read(trees)
    forest = forest[kernel.diag(forest) > 0]
    alphas = np.random.default_rng(0).normal(size=(len(forest), n_outputs))
    whole, merged = (tk.DagModel(normalised, n_outputs) for _ in range(2))
    whole.add(forest, alphas)
    for at in range(len(forest)):
        part = tk.DagModel(normalised, n_outputs)
        part.add(forest[at : at + 1].to_brackets(), alphas[at : at + 1])
        merged.merge(part)
    assert merged.n_nodes == whole.n_nodes
    assert (merged.n_trees, merged.n_tree_nodes) == (whole.n_trees, whole.n_tree_nodes)
    assert merged.decision_function(forest) == pytest.approx(
        whole.decision_function(forest), rel=1e-9, abs=1e-9
    )


def test_a_model_is_merged_with_itself_and_taken_out_again():
    kernel = tk.SubsetTreeKernel(0.4)
    trees = ["(S (A a) (B b))", "(S (A a) (C c))"]
    model = tk.DagModel.from_dual(kernel, trees, [0.3, -0.7], 0.1)
    twice = 2 * model.decision_function(trees)
    model.merge(model)
    assert model.decision_function(trees).tolist() == twice.tolist()
    model.merge(model, -1.0)
    assert model.decision_function(trees).tolist() == [0.0, 0.0]


def test_trees_too_large_for_floats_are_merged():
    deep = "(S (A a) (A a))"
    for _ in range(11):
        deep = f"(S {deep} {deep})"
    kernel = tk.SubsetTreeKernel(1.0, normalize=True)
    one, two = (tk.DagModel(kernel) for _ in range(2))
    one.add([deep], [1.0])
    two.add([deep, "(A a)"], [0.5, 2.0])
    assert "large_trees" in two.to_arrays()
    one.merge(two, 2.0)
    assert one.decision_function([deep, "(A a)"]) == pytest.approx([2.0, 4.0])


def test_models_of_sums_of_kernels_are_merged():
    sst, elastic = tk.SubsetTreeKernel(0.5), tk.ElasticTreeKernel(0.5)
    trees = ["(S (A a) (B b))", "(S (A a) (C c))", "(B b)"]
    for kernel in (0.5 * sst + elastic, 0.5 * sst, (sst + elastic).normalized()):
        one = tk.DagModel.from_dual(kernel, trees[:2], [1.0, -0.5], 0.25)
        two = tk.DagModel.from_dual(kernel, trees[1:], [2.0, -1.0], 1.0)
        sums = one.decision_function(trees) - 2.0 * two.decision_function(trees)
        one.merge(two, -2.0)
        assert one.decision_function(trees) == pytest.approx(sums, rel=1e-12, abs=1e-12)
        with pytest.raises(
            ValueError, match="other must be a model of the same kernel"
        ):
            one.merge(tk.DagModel(sst + sst))


def test_the_order_of_merging_is_all_that_bits_depend_on():
    kernel = tk.SubsetTreeKernel(0.4)
    trees = [f"(S (A a{i % 3}) (B b{i % 5}))" for i in range(60)]
    alphas = np.random.default_rng(1).normal(size=60)

    def merged() -> bytes:
        total = tk.DagModel(kernel)
        for at in range(0, 60, 7):
            part = tk.DagModel(kernel)
            part.add(trees[at : at + 7], alphas[at : at + 7])
            total.merge(pickle.loads(pickle.dumps(part)))
        return pickle.dumps(total.to_arrays())

    assert merged() == merged()


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (tk.DagModel(tk.SubsetTreeKernel(0.3)), "a model of the same kernel"),
        (tk.DagModel(tk.SubtreeKernel(0.4)), "a model of the same kernel"),
        (tk.DagModel(tk.SubsetTreeKernel(0.4, normalize=True)), "normalised as"),
        (tk.DagModel(tk.SubsetTreeKernel(0.4), 2), "with as many outputs"),
    ],
)
def test_models_of_another_kind_are_refused(other, expected):
    model = tk.DagModel(tk.SubsetTreeKernel(0.4))
    with pytest.raises(ValueError, match=f"other must be .*{expected}"):
        model.merge(other)


def test_what_is_no_model_and_no_factor_is_refused_and_changes_nothing():
    model = tk.DagModel.from_dual(tk.SubsetTreeKernel(0.4), ["(A a)"], [1e308])
    with pytest.raises(TypeError, match="other must be a DagModel, got Perceptron"):
        model.merge(tk.Perceptron(model.kernel))
    with pytest.raises(ValueError, match="factor must be a finite number"):
        model.merge(model, float("inf"))
    more = tk.DagModel.from_dual(
        tk.SubsetTreeKernel(0.4), ["(B b)", "(A a)"], [1, 1e308]
    )
    before = model.to_arrays()["weights"].tolist()
    with pytest.raises(ValueError, match="a weight that stays finite"):
        model.merge(more, 10.0)
    after = model.to_arrays()["weights"].ravel()
    assert after[: len(before)].tolist() == np.ravel(before).tolist()
    assert not after[len(before) :].any()
    assert model.decision_function(["(B b)"]).tolist() == [0.0]


@every_kernel
def test_passes_one_after_the_other_are_the_perceptron(kernel):
    trees = [f"(S (A a{i % 3}) (B b{i % 5}) (C c{i % 2}))" for i in range(40)]
    y = np.where(np.arange(40) % 3 == 1, 1.0, -1.0)
    perceptron = tk.Perceptron(kernel, "average")
    model, total = tk.DagModel(kernel), tk.DagModel(kernel)
    n_mistakes = 0
    for _ in range(3):
        perceptron.partial_fit(trees, y)
        model, more, mistakes = model._pass(trees, y)
        total.merge(more)
        n_mistakes += mistakes
    assert n_mistakes == perceptron.n_mistakes
    assert (
        total.decision_function(trees).tolist()
        == perceptron.decision_function(trees).tolist()
    )


def test_a_pass_goes_on_from_large_trees():
    deep = "(S (A a) (A a))"
    for _ in range(11):
        deep = f"(S {deep} {deep})"
    trees, y = [deep, "(A a)", deep, "(B b)", "(A a)"], [1, -1, -1, 1, -1]
    kernel = tk.SubsetTreeKernel(1.0, normalize=True)
    perceptron = tk.Perceptron(kernel, "average")
    model, total = tk.DagModel(kernel), tk.DagModel(kernel)
    for _ in range(3):
        perceptron.partial_fit(trees, y)
        model, more, _ = model._pass(trees, y)
        total.merge(more)
    assert total.decision_function(trees) == pytest.approx(
        perceptron.decision_function(trees)
    )


# --- Objects that travel --------------------------------------------------------------


def big() -> tk.Forest:
    return tk.Forest.from_brackets(
        [f"(S (A a{i}) (B (C c{i % 97}) b{i % 13}))" for i in range(3000)]
    )


def travelling() -> dict[str, object]:
    forest, kernel = big(), tk.SubsetTreeKernel(0.4)
    model = tk.DagModel(kernel)
    model.add(forest, np.ones(len(forest)))
    perceptron = tk.Perceptron(kernel)
    perceptron.partial_fit(forest, np.where(np.arange(len(forest)) % 2, 1.0, -1.0))
    index = kernel.index(forest)
    return {"forest": forest, "index": index, "model": model, "perceptron": perceptron}


@pytest.mark.parametrize("name", ["forest", "index", "model", "perceptron"])
def test_arrays_travel_out_of_band(name):
    there = travelling()[name]
    buffers: list[pickle.PickleBuffer] = []
    text = pickle.dumps(there, protocol=5, buffer_callback=buffers.append)
    size = sum(memoryview(buffer).nbytes for buffer in buffers)
    assert len(text) < 5000 < size
    # What comes by the wire is read-only, and begins anywhere.
    sent = [memoryview(b"?" + bytes(buffer))[1:] for buffer in buffers]
    here = pickle.loads(text, buffers=sent)
    if name == "forest":
        assert here == there
        assert here.to_brackets() == there.to_brackets()
        return
    ask = "gram" if name == "index" else "decision_function"
    trees = ["(S (A a1) (B (C c3) b2))", "(B (C c5) b5)"]
    assert getattr(here, ask)(trees).tolist() == getattr(there, ask)(trees).tolist()


def test_a_part_of_a_forest_travels_without_the_rest():
    forest = big()
    assert len(pickle.dumps(forest[:30])) < len(pickle.dumps(forest)) / 20


@pytest.mark.parametrize("name", ["forest", "index", "model", "perceptron"])
def test_objects_tell_schedulers_how_large_they_are(name):
    there = travelling()[name]
    assert there.nbytes <= sys.getsizeof(there) <= there.nbytes + 20_000
