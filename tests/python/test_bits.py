"""Bits: a value depends on its trees and parameters, not on the store that holds them.

Each case is one list of trees, held in several ways: as parsed, pickled, from arrays,
copied, and selected from a larger forest that read other trees first, so that subtrees
and labels have other ids.
"""

from __future__ import annotations

import copy
import math
import pickle
import random
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treekernel_rs as tk

# Each kernel with its decays, and what its other parameter may be.
KERNELS = {
    "SubtreeKernel": {"leaf_weight": [0.0, 0.3]},
    "SubsetTreeKernel": {"leaf_weight": [0.0, 0.3]},
    "PartialTreeKernel": {"leaf_factor": [0.0, 1.0, 1.7], "max_children": [None, 2]},
    "ElasticTreeKernel": {},
    "SubpathKernel": {},
}
DECAYS = [0.05, 0.1, 0.3, 1 / 3, 0.7, 0.9]
WITH_VECTORS = ["SubtreeKernel", "SubsetTreeKernel", "PartialTreeKernel"]
seeds = st.integers(0, 2**32)


def bracketed(rng: random.Random, n: int, labels: str) -> str:
    """Return a tree of n nodes, each below a random one before it."""
    children: list[list[int]] = [[] for _ in range(n)]
    for node in range(1, n):
        children[rng.randrange(max(0, node - 6), node)].append(node)
    made = [""] * n
    for node in reversed(range(n)):
        below = " ".join(made[child] for child in children[node])
        made[node] = f"({rng.choice(labels)} {below})"
    return made[0]


def case(
    seed: int, kernel: str, most: int = 26
) -> tuple[random.Random, list[str], dict[str, object]]:
    """Return trees, of which some are equal or share subtrees, and parameters."""
    rng = random.Random(seed)
    labels = rng.choice(["ab", "ba", "xyzab"])
    trees = [bracketed(rng, rng.randrange(1, most), labels) for _ in range(4)]
    trees.append(f"({rng.choice(labels)} {trees[0]} {trees[1]} {trees[0]})")
    trees.append(rng.choice(trees))
    rng.shuffle(trees)
    parameters = {name: rng.choice(values) for name, values in KERNELS[kernel].items()}
    return rng, trees, {"decay": rng.choice(DECAYS), **parameters}


def stores(rng: random.Random, trees: list[str]) -> list[tk.Forest]:
    """Hold the same list of trees in several ways."""
    forest = tk.Forest.from_brackets(trees)
    others = [bracketed(rng, 12, "bayzx") for _ in range(3)] + sorted(trees)
    rng.shuffle(others)
    larger = tk.Forest.from_brackets(others + trees)
    slices = larger[len(others) :], larger[[others.index(tree) for tree in trees]]
    pickled = pickle.loads(pickle.dumps(slices[1]))
    arrays = tk.Forest.from_arrays(**slices[0].to_arrays())
    return [forest, *slices, pickled, arrays, copy.deepcopy(slices[1])]


def uses(kernel: tk.SubtreeKernel, forest: tk.Forest, other: tk.Forest) -> list[bytes]:
    """Return the bits of every use of a kernel."""
    n, rows = len(forest), kernel.rows(forest)
    pairs = [kernel.pair(forest[i], other[(3 * i + 1) % n]) for i in range(n)]
    values = [
        kernel(forest),
        kernel.gram(forest, n_jobs=2),
        kernel(forest[: n // 2], other),
        kernel.diag(forest),
        np.array([rows[i] for i in reversed(range(n))]),
        rows[[n - 1, 0]],
        np.array(pairs),
    ]
    return [np.asarray(value).tobytes() for value in values]


@pytest.mark.slow
@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("name", KERNELS)
@settings(max_examples=250)
@given(seed=seeds)
def test_every_use_has_the_same_bits_whatever_holds_the_trees(name, normalize, seed):
    rng, trees, parameters = case(seed, name)
    kernel = getattr(tk, name)(**parameters, normalize=normalize)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # trees without a kernel
        first, *more = stores(rng, trees)
        expected = uses(kernel, first, first)
        for number, (forest, other) in enumerate(
            zip(more, [*more[1:], first], strict=True)
        ):
            found = uses(kernel, forest, other)
            assert found == expected, (number, trees, kernel)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("name", KERNELS)
@settings(max_examples=100)
@given(seed=seeds)
def test_a_pair_has_the_same_bits_from_either_end(name, normalize, seed):
    rng, trees, parameters = case(seed, name)
    kernel = getattr(tk, name)(**parameters, normalize=normalize)
    forest, larger, *_ = stores(rng, trees)
    for i, j in [(0, 1), (2, 3), (1, 4), (5, 0)]:
        value = kernel.pair(forest[i], forest[j])
        assert value == kernel.pair(forest[j], forest[i]), (trees[i], trees[j], kernel)
        assert value == kernel.pair(larger[i], trees[j]), (trees[i], trees[j], kernel)


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_VECTORS)
@settings(max_examples=80)
@given(seed=seeds)
def test_normalised_vectors_do_not_depend_on_what_is_encoded_with_them(name, seed):
    rng, trees, parameters = case(seed, name, most=80)
    kernel = getattr(tk, name)(**parameters, normalize=True)
    encoder = tk.DistributedTrees(kernel, 32, dtype=np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # trees without a kernel
        forest, *more = stores(rng, trees)
        expected = encoder.encode(forest)
        alone = [encoder.encode([tree])[0] for tree in trees]
        assert np.array_equal(np.array(alone), expected), (trees, encoder)
        for held in more:
            assert np.array_equal(encoder.encode(held), expected), (trees, encoder)
            assert np.array_equal(encoder.encode(held[2:]), expected[2:])


@pytest.mark.slow
def test_kernels_of_long_chains_lose_no_digits():
    # Of two chains, nodes i and j above the leaves have C = C(min(i, j)).
    n, m, decay = 20_000, 15_000, 0.9
    chains = tk.Forest.from_brackets(["(a " * k + "a" + ")" * k for k in (n, m)])
    c = [0.0]
    for _ in range(n):
        c.append(decay * (1 + c[-1]))
    between = math.fsum(c[k] * (n + m - 2 * k + 1) for k in range(1, m + 1))
    own = math.fsum(c[k] * (2 * (n - k) + 1) for k in range(1, n + 1))
    kernel = tk.SubsetTreeKernel(decay)
    matrix = kernel(chains)
    values = [kernel.pair(chains[0], chains[1]), matrix[0, 1], matrix[0, 0]]
    values.append(kernel(chains[:1])[0, 0])
    exact = [between, between, own, own]
    assert values == pytest.approx(exact, rel=1e-12)
