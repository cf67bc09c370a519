"""DistributedTrees against sums over fragments that are listed one by one."""

import copy
import gzip
import itertools
import math
import pickle
import random
import subprocess
import sys
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest

import treekernel_rs as tk

COMPOSITIONS = ["quaternion", "sign", "phasor", "convolution", "gamma"]
FOLDS = ["left", "right"]
TREES = [
    "(A a)",
    "(S (A a) (B b))",
    "(S (A a) (A a) (B a))",
    "(S (NP (D the) (N dog)) (VP (V barks)))",
    "(A (A (A A) A) A)",
    "(S x (Y y z) w)",
]


def text(label, parts):
    return f"({' '.join([label, *parts])})"


def subset(tree, root, height=math.inf):
    """Fragments at a node as (text, root of weight): each child bare or expanded."""
    if not tree.children or height < 1:
        return
    ways = [
        [(f"({c.label})", 1.0), *subset(c, root, height - 1)] for c in tree.children
    ]
    for way in itertools.product(*ways):
        weight = root * math.prod(w for _, w in way)
        yield text(tree.label, [t for t, _ in way]), weight


def subtree(tree, root, height=math.inf):
    def size(tree):
        return sum(map(size, tree.children)) + bool(tree.children)

    if tree.children and tree.depth - 1 <= height:
        yield str(tree), root ** size(tree)


def partial(tree, decay, mu, leaf_factor, longest):
    leafness = 1.0 if tree.children else math.sqrt(leaf_factor)
    yield f"({tree.label})", math.sqrt(mu) * decay * leafness
    ways = [list(partial(c, decay, mu, leaf_factor, longest)) for c in tree.children]
    for n in range(1, min(longest, len(ways)) + 1):
        for chosen in itertools.combinations(range(len(ways)), n):
            gaps = chosen[-1] - chosen[0] + 1 - n
            for way in itertools.product(*(ways[c] for c in chosen)):
                weight = math.sqrt(mu) * decay**gaps * math.prod(w for _, w in way)
                yield text(tree.label, [t for t, _ in way]), weight


def fragments(kernel, tree, height=math.inf):
    for node in nodes(tree):
        if isinstance(kernel, tk.PartialTreeKernel):
            longest = kernel.max_children or 99
            yield from partial(
                node, kernel.decay, kernel.mu, kernel.leaf_factor, longest
            )
            continue
        at_node = subset if isinstance(kernel, tk.SubsetTreeKernel) else subtree
        yield from at_node(node, math.sqrt(kernel.decay), height)
        if not node.children:
            yield f"({node.label})", math.sqrt(kernel.leaf_weight)


def nodes(tree):
    yield tree
    for child in tree.children:
        yield from nodes(child)


KERNELS = [
    tk.SubsetTreeKernel(0.4),
    tk.SubsetTreeKernel(0.8, leaf_weight=0.3),
    tk.SubtreeKernel(0.6, leaf_weight=1.0),
    tk.PartialTreeKernel(0.5, 0.6),
    tk.PartialTreeKernel(0.5, 0.6, leaf_factor=4.0, max_children=2),
]


@pytest.mark.parametrize("composition", COMPOSITIONS)
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_vectors_are_the_sum_over_all_fragments(kernel, composition):
    forest = tk.Forest.from_brackets(TREES)
    for fold, height in itertools.product(FOLDS, [None, 1, 2]):
        if isinstance(kernel, tk.PartialTreeKernel) and (fold == "right" or height):
            continue
        for dtype, tolerance in [(np.float64, 1e-12), (np.float32, 1e-6)]:
            options = {"composition": composition, "fold": fold, "max_height": height}
            enc = tk.DistributedTrees(kernel, 96, dtype=dtype, **options)
            exact = tk.DistributedTrees(kernel, 96, dtype=np.float64, **options)
            vectors = enc.encode(forest)
            assert vectors.dtype == dtype
            for tree, vector in zip(forest, vectors, strict=True):
                total = np.zeros(96)
                for fragment, weight in fragments(kernel, tree, height or math.inf):
                    total += weight * exact.fragment(fragment)
                gap = np.linalg.norm(vector - total)
                assert gap <= tolerance * np.linalg.norm(total)


def test_fragments_are_compositions_of_labels_in_either_order():
    for composition, fold in itertools.product(COMPOSITIONS, FOLDS):
        enc = tk.DistributedTrees(
            n_components=64, composition=composition, fold=fold, dtype=np.float64
        )
        s, a, b, c = map(enc.label_vector, "SABC")
        o = enc.compose
        left = o(o(o(s, a), o(b, c)), c)
        right = o(s, o(a, o(o(b, c), c)))
        expected = left if fold == "left" else right
        np.testing.assert_allclose(enc.fragment("(S A (B C) C)"), expected, atol=1e-13)
        np.testing.assert_array_equal(enc.fragment("(S)"), s)


def test_convolutions_are_circular_convolutions_of_shuffled_vectors():
    for d in (4, 36, 128):
        enc = tk.DistributedTrees(
            n_components=d, composition="convolution", dtype=np.float64
        )
        # Where the permutations send each number: from products with one impulse.
        rng = np.random.default_rng(d)
        a, b = rng.normal(size=(2, d))
        one = np.zeros(d)
        one[0] = 1.0
        shift = int(np.argmax(enc.compose(one, one)))  # p1(0) + p2(0)
        p1a = np.roll(enc.compose(a, one), 0)
        p2b = np.roll(enc.compose(one, b), 0)
        naive = np.array(
            [sum(p1a[i] * p2b[(k - i) % d] for i in range(d)) for k in range(d)]
        )
        # Both carry a shift by where the other's impulse went: p1(0) + p2(0) in all.
        expected = np.roll(naive, -shift)
        np.testing.assert_allclose(enc.compose(a, b), expected, atol=1e-10)


def test_labels_of_convolutions_sum_to_zero_unless_the_papers_are_asked_for():
    for zero_mean in (True, False):
        enc = tk.DistributedTrees(
            n_components=512,
            composition="convolution",
            zero_mean=zero_mean,
            dtype=np.float64,
        )
        label = enc.label_vector("NP")
        assert np.linalg.norm(label) == pytest.approx(1.0, abs=1e-14)
        assert (abs(label.sum()) < 1e-12) == zero_mean


@pytest.mark.parametrize("composition", ["quaternion", "sign", "phasor"])
def test_fragments_have_norm_one(composition):
    enc = tk.DistributedTrees(n_components=1024, composition=composition)
    deep = "(A " * 200 + "B" + " C)" * 200
    for tree in [*TREES, deep, "(A" + " B C" * 300 + ")"]:
        assert np.linalg.norm(enc.fragment(tree)) == pytest.approx(1.0, abs=1e-5)


def test_quaternion_dot_products_are_near_kernels_of_every_kind():
    forest = tk.Forest.from_brackets(TREES)
    for kernel in KERNELS:
        V = tk.DistributedTrees(kernel, 1 << 16).encode(forest)
        K = kernel(forest)
        scale = np.sqrt(np.outer(np.diag(K), np.diag(K)))
        assert np.abs(V @ V.T - K).max() < 8 / 256 * scale.max()


def test_normalised_vectors_are_divided_by_the_kernel_or_by_their_norm():
    kernel = tk.SubsetTreeKernel(0.6, normalize=True)
    raw = tk.DistributedTrees(tk.SubsetTreeKernel(0.6), dtype=np.float64)
    V = raw.encode(TREES)
    exact = tk.DistributedTrees(kernel, dtype=np.float64).encode(TREES)
    norms = np.sqrt(tk.SubsetTreeKernel(0.6).diag(TREES))
    np.testing.assert_allclose(exact, V / norms[:, None], rtol=1e-12, atol=1e-18)
    own = tk.DistributedTrees(kernel, dtype=np.float64, norm="own").encode(TREES)
    np.testing.assert_allclose(np.linalg.norm(own, axis=1), 1.0, rtol=1e-12)
    with pytest.warns(RuntimeWarning, match="1 of the trees of X"):
        zero = tk.DistributedTrees(kernel, 64).encode(["(a)"])
    assert not zero.any()


def test_bits_do_not_depend_on_threads_batches_or_what_else_is_there():
    lines = [f"(S (NP (D d{i % 3}) (N n{i % 7})) (VP (V v{i})))" for i in range(90)]
    forest = tk.Forest.from_brackets(lines)
    for composition in COMPOSITIONS:
        enc = tk.DistributedTrees(n_components=256, composition=composition)
        V = enc.encode(forest, n_jobs=1)
        np.testing.assert_array_equal(enc.encode(forest, n_jobs=3), V)
        np.testing.assert_array_equal(enc.encode(lines[::-1])[::-1], V)
        np.testing.assert_array_equal(
            np.concatenate([enc.encode(forest[:31]), enc.encode(forest[31:])]), V
        )
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(enc)).encode(forest), V)


@pytest.mark.filterwarnings("ignore:.*mostly noise")
@pytest.mark.parametrize("norm", ["exact", "own"])
@pytest.mark.parametrize(
    "kernel",
    [
        tk.SubtreeKernel(0.37, leaf_weight=0.3, normalize=True),
        tk.SubsetTreeKernel(0.37, leaf_weight=0.3, normalize=True),
        tk.PartialTreeKernel(0.37, 0.43, normalize=True),
    ],
    ids=repr,
)
def test_normalised_vectors_do_not_depend_on_what_else_is_encoded(kernel, norm):
    rng = random.Random(0)

    def tree(depth):
        n = rng.randint(1, 4) if depth else 0
        return (
            f"({' '.join([rng.choice('ABC'), *(tree(depth - 1) for _ in range(n))])})"
        )

    trees = [tree(rng.randint(2, 4)) for _ in range(60)]
    enc = tk.DistributedTrees(kernel, 64, norm=norm, dtype=np.float64)
    V = enc.encode(trees)
    # In another order, in a store with other trees, and each by itself.
    np.testing.assert_array_equal(enc.encode(trees[::-1])[::-1], V)
    np.testing.assert_array_equal(enc.encode(tk.Forest(trees[::-1])[:20]), V[:39:-1])
    np.testing.assert_array_equal(np.concatenate([enc.encode([t]) for t in trees]), V)


def test_another_process_gives_the_same_bits():
    program = (
        "import sys, treekernel_rs as tk\n"
        "for c in sys.argv[1:]:\n"
        "    enc = tk.DistributedTrees(n_components=64, composition=c, random_state=3)\n"
        "    print(enc.encode(['(S (A a) (B b))']).tobytes().hex())\n"
    )
    out = subprocess.run(
        [sys.executable, "-c", program, *COMPOSITIONS],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    for composition, line in zip(COMPOSITIONS, out, strict=True):
        enc = tk.DistributedTrees(
            n_components=64, composition=composition, random_state=3
        )
        assert enc.encode(["(S (A a) (B b))"]).tobytes().hex() == line


def test_out_may_be_an_array_or_a_file(tmp_path: Path):
    enc = tk.DistributedTrees(n_components=64)
    V = enc.encode(TREES)
    out = np.full_like(V, np.nan)
    assert enc.encode(TREES, out=out) is out
    np.testing.assert_array_equal(out, V)
    file = np.memmap(tmp_path / "V", np.float32, "w+", shape=V.shape)
    enc.encode(TREES, out=file)
    file.flush()
    there = np.fromfile(tmp_path / "V", np.float32).reshape(V.shape)
    np.testing.assert_array_equal(there, V)
    for bad in (out[:, ::2], out[:3], out.astype(float)):
        with pytest.raises(ValueError, match="out must be"):
            enc.encode(TREES, out=bad)


def test_progress_is_told_and_its_exceptions_stop_the_work():
    enc = tk.DistributedTrees(n_components=64)
    told = []
    enc.encode(TREES * 50, progress=lambda *a: told.append(a))
    assert told[-1] == (300, 300)

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        enc.encode(TREES, progress=stop)


@pytest.mark.parametrize("composition", ["quaternion", "sign", "phasor"])
def test_deep_and_wide_trees_are_finite(composition):
    n = 100_000
    lines = ["(A " * n + "A" + ")" * n, "(A" + " A" * n + ")"]
    V = tk.DistributedTrees(n_components=16, composition=composition).encode(lines)
    assert np.isfinite(V).all()
    assert (np.linalg.norm(V, axis=1) > 0.1).all()


def test_a_vector_too_large_for_its_type_is_an_error_or_zero_as_the_caller_says():
    wide = "(W" + " (A A)" * 2000 + ")"
    enc = tk.DistributedTrees(n_components=64)
    with pytest.raises(OverflowError, match="tree 1"):
        enc.encode(["(A a)", wide])
    with pytest.warns(RuntimeWarning, match=r"1 of 3 trees of X \(1\) are too large"):
        V = enc.encode(["(A a)", wide, "(B b)"], errors="zero")
    assert not V[1].any()
    np.testing.assert_array_equal(V[::2], enc.encode(["(A a)", "(B b)"]))
    with pytest.raises(
        ValueError, match="errors must be 'raise' or 'zero', got 'skip'"
    ):
        enc.encode([], errors="skip")


NORMALIZED = tk.SubsetTreeKernel(0.4, normalize=True)


def wide_tree(n, last="a"):
    return "(W" + "".join(f" (A a{i % 97})" for i in range(n - 1)) + f" (A {last}))"


@pytest.mark.parametrize("n", [200, 1000, 20_000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_wide_nodes_have_vectors_of_length_one(n, dtype):
    kernels = [NORMALIZED, tk.SubsetTreeKernel(1.0, normalize=True)]
    for kernel, norm in itertools.product(kernels, ["exact", "own"]):
        enc = tk.DistributedTrees(kernel, 256, norm=norm, dtype=dtype)
        with pytest.warns(
            RuntimeWarning, match=r"vectors of 1 of 2 .*\(1\) are mostly noise"
        ):
            V = enc.encode(["(A a)", wide_tree(n)])
        lengths = np.linalg.norm(V.astype(float), axis=1)
        np.testing.assert_allclose(lengths, 1.0, atol=1e-4 if norm == "own" else 0.5)


def test_a_smaller_sketch_decay_makes_wide_nodes_as_good_as_others():
    trees = [wide_tree(1000, last) for last in "ab"]
    enc = tk.DistributedTrees(NORMALIZED, 8192, sketch_decay=0.005)
    V = enc.encode(trees).astype(float)
    K = tk.SubsetTreeKernel(0.005, normalize=True)(trees)
    assert K[0, 1] > 0.99
    np.testing.assert_allclose(V @ V.T, K, atol=0.06)


@pytest.mark.parametrize("composition", COMPOSITIONS)
def test_numbers_far_from_one_are_as_exact_as_others(composition):
    """In float32, whose range is left at once, and in float64, which holds them all."""
    kernel = tk.SubsetTreeKernel(1.0, normalize=True)
    wide = [wide_tree(n) for n in (150, 400)]
    rows = [
        tk.DistributedTrees(
            kernel, 64, composition=composition, norm="own", dtype=dtype
        ).encode
        for dtype in (np.float32, np.float64)
    ]
    with pytest.warns(RuntimeWarning, match="mostly noise"):
        single, double = (encode(wide) for encode in rows)
    np.testing.assert_allclose(single, double, atol=2e-3)


def test_noise_is_told_once_with_a_remedy_that_helps():
    trees = [*TREES, *(wide_tree(n) for n in (60, 80, 100))]
    enc = tk.DistributedTrees(NORMALIZED, 256)
    with pytest.warns(RuntimeWarning) as caught:
        enc.encode(trees)
    message = str(caught[0].message)
    assert len(caught) == 1
    assert "3 of 9 trees of X (6, 7, 8)" in message
    assert "sketch_decay" in message
    assert "max_height=3" in message
    for better in (
        tk.DistributedTrees(NORMALIZED, 256, sketch_decay=0.02),
        tk.DistributedTrees(NORMALIZED, 256, max_height=1),
        tk.DistributedTrees(tk.SubtreeKernel(0.4, normalize=True), 256),
    ):
        better.encode(trees)  # warnings are errors
    # Small fragments that are there often are no reason for noise.
    many = "(S" + " (A (B b))" * 3 + ")"
    for _ in range(6):
        many = f"(S {many} {many})"
    tk.DistributedTrees(tk.SubtreeKernel(1.0), 256).encode([many])
    chain = "(A " * 3000 + "A" + ")" * 3000
    tk.DistributedTrees(NORMALIZED, 256).encode([chain])


def test_exact_norms_are_those_of_the_sketch_and_full_ones_of_the_kernel():
    trees = [wide_tree(n) for n in (10, 12, 14, 16)]
    self_products = {}
    for norm in ("exact", "full", "own"):
        enc = tk.DistributedTrees(NORMALIZED, 4096, norm=norm, sketch_decay=0.05)
        V = enc.encode(trees).astype(float)
        self_products[norm] = (V**2).sum(1)
        if norm != "own":
            below = tk.SubsetTreeKernel(0.05 if norm == "exact" else 0.4).diag(trees)
            K = tk.SubsetTreeKernel(0.05)(trees) / np.sqrt(np.outer(below, below))
            np.testing.assert_allclose(V @ V.T, K, atol=0.1)
    assert np.median(self_products["exact"]) == pytest.approx(1.0, abs=0.1)
    assert np.median(self_products["own"]) == pytest.approx(1.0, abs=1e-6)
    assert np.median(self_products["full"]) < 0.1


def test_tuning_does_not_give_large_trees_up():
    """Fragments of one production alone are more than .75 sqrt(d): none can be left."""
    trees = [wide_tree(n) for n in range(100, 130)]
    for kernel in (tk.SubsetTreeKernel(0.4), NORMALIZED):
        for norm in ("exact", "full", "own"):
            enc = tk.DistributedTrees(kernel, 256, sketch_decay="auto", norm=norm)
            assert enc.tune(trees).sketch_decay > 0.003, (kernel, norm)


def squared_lengths(trees, enc):
    """Of vectors, and the number of trees that the warning names."""
    with pytest.warns(RuntimeWarning, match="mostly noise") as caught:
        V = enc.encode(trees).astype(float)
    n_noisy = int(str(caught[0].message).split("vectors of ")[1].split()[0])
    return (V**2).sum(1), n_noisy


def test_tuned_vectors_that_are_normalised_are_noise_for_a_fifth():
    """The rest has a variance of 1/2 at most, which does not bound a single length."""
    trees = [wide_tree(n) for n in range(10, 100)]
    tuned = tk.DistributedTrees(NORMALIZED, 1024, sketch_decay="auto").tune(trees)
    sound = []
    for seed in range(10):
        enc = tuned._with(random_state=seed)
        squares, n_noisy = squared_lengths(trees, enc)
        assert n_noisy == len(trees) / 5
        sound.append(squares[:-n_noisy])  # in order of size
        # Noisy vectors that are off by more are divided by their own norm.
        assert squares[-n_noisy:].min() > 0.49
        assert squares[-n_noisy:].max() < 2.01
    assert np.mean((np.array(sound) - 1.0) ** 2) < 0.5


def test_noise_of_one_wide_node_is_seen_at_a_small_decay():
    """All of the kernel comes from one product; other large trees have more fragments."""
    trees = [wide_tree(n) for n in range(10, 100)]
    enc = tk.DistributedTrees(NORMALIZED, 1024, sketch_decay=0.1)
    squares, n_noisy = squared_lengths(trees, enc)
    assert n_noisy >= 30
    assert squares.max() < 5.0


#: Of vectors of ordinary trees, CRC-32; made at commit a84f210.
BITS = {
    "quaternion": [1898818937, 3068980844],
    "sign": [4005475712, 162236598],
    "phasor": [3769642085, 4289331569],
    "convolution": [1234468156, 1089026222],
    "gamma": [3159047132, 2032513021],
}


def bits_of(composition, dtype):
    trees = [
        *TREES,
        *(f"(S (NP (D d{i}) (N n)) (VP (V v{i % 3})) .)" for i in range(9)),
    ]
    crc = 0
    for kernel in [*KERNELS, tk.SubsetTreeKernel(0.4, normalize=True)]:
        for norm in ("exact", "own"):
            enc = tk.DistributedTrees(
                kernel, 64, composition=composition, norm=norm, dtype=dtype
            )
            crc = zlib.crc32(enc.encode(trees).tobytes(), crc)
    return crc


@pytest.mark.parametrize("composition", COMPOSITIONS)
def test_vectors_of_ordinary_trees_have_the_same_bits_always(composition):
    found = [bits_of(composition, dtype) for dtype in (np.float32, np.float64)]
    assert found == BITS[composition]


def test_an_empty_forest_has_no_vectors():
    assert tk.DistributedTrees(n_components=64).encode([]).shape == (0, 64)


def test_encoders_are_values():
    enc = tk.DistributedTrees(tk.PartialTreeKernel(0.3), 64, random_state=np.int64(5))
    assert eval(repr(enc), vars(tk).copy()) == enc
    for same in (copy.copy(enc), copy.deepcopy(enc), pickle.loads(pickle.dumps(enc))):
        assert same == enc
        assert hash(same) == hash(enc)
    assert enc != tk.DistributedTrees(tk.PartialTreeKernel(0.3), 64, random_state=6)
    assert enc != 1
    with pytest.raises(AttributeError, match="attributes cannot be set"):
        enc.random_state = 2
    shown = (
        "DistributedTrees(SubsetTreeKernel(0.4), 8192, fold='right', dtype='float64')"
    )
    assert repr(tk.DistributedTrees(fold="right", dtype="float64")) == shown
    assert eval(shown, vars(tk).copy()) == tk.DistributedTrees(
        fold="right", dtype="float64"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_components": 6}, "n_components must be a multiple of 4 .*got 6"),
        ({"n_components": -4}, "n_components must be a multiple of 4 .*got -4"),
        ({"n_components": 8.0}, "n_components must be an int, got 8.0"),
        ({"composition": "circular"}, "composition must be .*got 'circular'"),
        ({"composition": None}, "composition must be a str, got None"),
        ({"fold": "up"}, "fold must be 'left' or 'right', got 'up'"),
        (
            {"kernel": tk.ElasticTreeKernel()},
            "ElasticTreeKernel does not support .*trees",
        ),
        ({"kernel": "sst"}, "kernel must be .*got 'sst'"),
        ({"max_height": 0}, "max_height must be at least 1.*got 0"),
        ({"max_height": -1}, "max_height must be at least 1.*got -1"),
        ({"max_height": 1.5}, "max_height must be an int, got 1.5"),
        ({"sketch_decay": math.nan}, "sketch_decay must be above 0 .*got NaN"),
        ({"sketch_decay": 1.5}, "sketch_decay must be above 0 .*got 1.5"),
        ({"sketch_decay": "best"}, "sketch_decay must be .*got 'best'"),
        ({"random_state": -1}, r"random_state must be from 0 to 2\*\*64 - 1, got -1"),
        ({"random_state": 2**64}, r"random_state must be from 0"),
        ({"dtype": np.int32}, "dtype must be float64 or float32, got int32"),
        ({"norm": "l1"}, "norm must be 'exact', 'full' or 'own', got 'l1'"),
        ({"zero_mean": 1}, "zero_mean must be True or False, got 1"),
        ({"reproducible": 0}, "reproducible must be True or False, got 0"),
        ({"paths": [1.5]}, "paths must be .*got 1 dimensions of float64"),
        ({"kernel": tk.PartialTreeKernel(), "fold": "right"}, "fold must be"),
    ],
)
def test_bad_arguments_name_parameter_range_and_value(arguments, message):
    wrong_type = ("must be an int", "must be a str", "got 'sst'")
    error = TypeError if any(w in message for w in wrong_type) else ValueError
    with pytest.raises(error, match=message):
        tk.DistributedTrees(**arguments)


def test_auto_is_resolved_by_tune_and_refused_by_encode():
    enc = tk.DistributedTrees(tk.SubsetTreeKernel(1.0), 1024, sketch_decay="auto")
    with pytest.raises(ValueError, match=r"'auto'.*tune"):
        enc.encode(TREES)
    trees = [f"(S {' '.join(f'(A a{i})' for i in range(n))} (B b))" for n in range(20)]
    tuned = enc.tune(trees)
    assert 0.1 < tuned.sketch_decay < 1.0
    limit = 0.75 * math.sqrt(1024)
    own = tk.SubsetTreeKernel(tuned.sketch_decay)
    assert np.median(own.diag(trees)) <= limit * own.decay
    more = tk.SubsetTreeKernel(tuned.sketch_decay + 0.001)
    assert np.median(more.diag(trees)) > limit * more.decay
    enc = tk.DistributedTrees(own, 1024)
    np.testing.assert_array_equal(enc.encode(trees), tuned.encode(trees))


def test_pruning_keeps_kernels_between_trees_and_survives_pickling():
    trees = [
        "(S (NP (D the) (N dog)) (VP (V barks)))",
        "(S (NP (D the) (N cat)) (VP (V barks)))",
        "(S (NP (D the) (N dog)) (VP (V sleeps) (X (Y (Z y)))))",
        "(X (Y (Z z)))",
    ]
    kernel = tk.SubsetTreeKernel(0.5)
    full = tk.DistributedTrees(kernel, 1 << 15)
    pruned = full.prune(trees)
    assert pruned != full
    V = pruned.encode(trees).astype(float)
    K = kernel(trees)
    gap = V @ V.T - K
    off = ~np.eye(4, dtype=bool)
    assert np.abs(gap[off]).max() < 0.08
    assert (np.diag(gap)[1:] < -0.2).all()  # all of tree 0 is found elsewhere
    again = pickle.loads(pickle.dumps(pruned))
    assert again == pruned
    np.testing.assert_array_equal(again.encode(trees), pruned.encode(trees))
    given = tk.DistributedTrees(kernel, 1 << 15, paths=pruned.paths)
    assert given == pruned
    assert "paths=<" in repr(pruned)
    with pytest.raises(ValueError, match="SubsetTreeKernel"):
        tk.DistributedTrees(tk.SubtreeKernel()).prune(trees)


@pytest.fixture(scope="module")
def questions(shared_data):
    with gzip.open(shared_data / "qc" / "const_train.tsv.gz", "rt") as file:
        lines = sorted({line.rstrip("\n").split("\t")[3] for line in file})
    rng = np.random.default_rng(1)
    return tk.Forest.from_brackets(list(rng.permutation(lines)[:400]))


def spearman(x, y):
    def ranks(values):
        _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
        return (np.cumsum(counts) - counts / 2)[inverse]

    return np.corrcoef(ranks(x), ranks(y))[0, 1]


@pytest.mark.slow
def test_rankings_of_questions_are_as_good_as_promised(questions):
    pairs = np.triu_indices(len(questions), 1)
    for decay, least in [(0.4, 0.985), (0.6, 0.86)]:
        kernel = tk.SubsetTreeKernel(decay)
        K = kernel(questions)[pairs]
        V = tk.DistributedTrees(kernel).encode(questions)
        assert spearman((V @ V.T)[pairs], K) > least - 0.006  # one seed's luck
    for decay, least in [(0.6, 0.98), (0.8, 0.97), (1.0, 0.95)]:
        kernel = tk.SubsetTreeKernel(decay)
        K = kernel(questions)[pairs]
        enc = tk.DistributedTrees(kernel, sketch_decay="auto").prune(questions)
        V = enc.tune(questions).encode(questions)
        assert spearman((V @ V.T)[pairs], K) > least


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*mostly noise")
def test_noise_on_questions_is_that_of_the_table(questions):
    """Mean squared error over (K11 K22 + K12^2) / d, decay .4, within 10 %."""
    kernel, d, some = tk.SubsetTreeKernel(0.4), 1024, questions[:200]
    pairs = np.triu_indices(len(some), 1)
    K = kernel(some)
    limit = (np.outer(np.diag(K), np.diag(K)) + K**2)[pairs].mean() / d
    stated = {"quaternion": 1.05, "sign": 1.10, "phasor": 1.19}
    for composition, ratio in stated.items():
        errors = []
        for seed in range(24):
            enc = tk.DistributedTrees(
                kernel, d, composition=composition, random_state=seed
            )
            V = enc.encode(some).astype(float)
            errors.append(((V @ V.T - K)[pairs] ** 2).mean() / limit)
        assert abs(np.mean(errors) / ratio - 1) < 0.1 + 2 * np.std(errors) / 24**0.5


def test_convolutions_by_vector_instructions_differ_in_last_bits_only():
    trees = ["(S (A a) (B b (C c)))", "(S (A a) (B c))", "(X (Y y) (Z z) z)"]
    for dtype, rtol in ((np.float32, 1e-5), (np.float64, 1e-12)):
        by = [
            tk.DistributedTrees(
                n_components=720,
                composition="convolution",
                dtype=dtype,
                reproducible=reproducible,
            )
            for reproducible in (True, False)
        ]
        one, two = (encoder.encode(trees) for encoder in by)
        np.testing.assert_allclose(one, two, atol=rtol)
        assert repr(by[1]).endswith("reproducible=False)")


def test_pruned_vectors_are_not_divided_by_their_own_norm():
    kernel = tk.SubsetTreeKernel(0.4, normalize=True)
    trees = ["(S (A a) (B b))", "(S (A a) (B c))"]
    encoder = tk.DistributedTrees(kernel, 64, norm="own")
    with pytest.raises(ValueError, match=r"norm must be .exact. with prune"):
        encoder.prune(trees)
    paths = tk.DistributedTrees(kernel, 64).prune(trees).paths
    with pytest.raises(ValueError, match=r"norm must be .exact. with prune"):
        tk.DistributedTrees(kernel, 64, norm="own", paths=paths)


def test_pages_and_source_name_the_same_noise():
    root = Path(__file__).parents[2]
    for name in ("docs/MATH.md", "docs/DISTRIBUTED.md", "src/dtk/mod.rs"):
        text = (root / name).read_text(encoding="utf-8").replace("λ =", "decay")
        assert "1.05 to 1.3 at decay .4 and 1.6 to 3.8 at decay 1" in text, name


def test_vectors_of_the_papers_recursion_are_larger():
    """MATH.md: s(n) = n o (c + sqrt(decay) s(c)) has no root of the decay before n."""
    enc = tk.DistributedTrees(tk.SubsetTreeKernel(0.25), 64, dtype=np.float64)
    s, a = map(enc.label_vector, "SA")
    paper = enc.compose(s, a)
    np.testing.assert_allclose(enc.encode(["(S A)"])[0] / 0.25**0.5, paper, atol=1e-12)
    page = Path(__file__).parents[2] / "docs" / "MATH.md"
    assert "recursion are larger by 1/√λ" in page.read_text(encoding="utf-8")


@pytest.mark.slow
def test_self_products_are_as_noisy_as_the_table_says(questions):
    some, d = questions[:10], 1024
    for decay, least, most in [(0.4, 1.1, 3), (1.0, 2, 200)]:
        kernel = tk.SubsetTreeKernel(decay)
        own = kernel.diag(some)
        squares = []
        for seed in range(60):
            enc = tk.DistributedTrees(kernel, d, random_state=seed)
            with warnings.catch_warnings(record=True):
                lengths = (enc.encode(some).astype(float) ** 2).sum(1)
            squares.append((lengths - own) ** 2)
        ratios = np.mean(squares, 0) * d / (2 * own**2)
        assert least < ratios.max() < most, (decay, ratios)
