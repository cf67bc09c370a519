"""Models, perceptrons, encoders and pairs: values at the edge of what numbers can hold."""

import pickle
import signal
import time

import numpy as np
import pytest
from dag_oracle import mistakes

import treekernel_rs as tk

SST = tk.SubsetTreeKernel(0.4)
TREES = ["(S (A a) (B b))", "(S (A a) (B c))", "(S (B b) (B b))", "(A a)"]
Y = [1, -1, -1, 1]

# --- kernels with themselves beyond floats ----------------------------------------------


def bushes():
    """Return trees whose self-kernels are from 8 to 2^4000, with parts in common."""
    parts = [f"(L{i} a)" for i in range(4_000)]
    cut = [(0, 3), (0, 1_500), (500, 2_000), (3_990, 4_000), (0, 4_000)]
    trees = [f"(R {' '.join(parts[a:b])})" for a, b in cut]
    trees += [f"(S {trees[1]} {trees[2]})", "(S (R (L0 a)) (R (L1 a)))", trees[1]]
    return tk.Forest.from_brackets(trees * 2)


WIDE = tk.SubsetTreeKernel(1.0, normalize=True)
# Equal trees have equal labels: else they cancel, and rounding decides.
LABELS = np.array([1, -1, 1, 1, -1, -1, 1, -1] * 2)


def versions(K, y):
    """Return the mistakes of a perceptron over a matrix, and the examples before each."""
    mistakes = []
    for t in range(len(K)):
        if y[t] * sum(y[i] * K[i, t] for i in mistakes) <= 0:
            mistakes.append(t)
    return mistakes


def expected(K, y, vote):
    mistakes, n = versions(K, y), len(K)
    if vote == "last":
        return sum(y[i] * K[i] for i in mistakes)
    if vote == "average":
        return sum((n - i) * y[i] * K[i] for i in mistakes)
    scores, sizes, total = np.zeros((3, n))
    for i, end in zip(mistakes, [*mistakes[1:], n], strict=True):
        scores = scores + y[i] * K[i]
        sizes = sizes + K[i]
        total += np.where(abs(scores) > 1e-12 * sizes, np.sign(scores), 0) * (end - i)
    return total


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("vote", ["last", "average", "vote"])
def test_a_perceptron_learns_trees_whose_kernel_no_float_can_hold(vote, order):
    forest, y = bushes()[::order], LABELS[::order]
    K = WIDE(forest)
    assert np.isfinite(K).all()
    p = tk.Perceptron(WIDE, vote)
    assert mistakes(p, forest, y) == len(versions(K, y)) > 3
    wanted = expected(K, y, vote)
    np.testing.assert_allclose(
        p.decision_function(forest), wanted, rtol=1e-9, atol=1e-9
    )
    again = pickle.loads(pickle.dumps(p))
    np.testing.assert_array_equal(
        again.decision_function(forest), p.decision_function(forest)
    )
    if vote != "vote":
        np.testing.assert_allclose(
            p.model.decision_function(forest), wanted, rtol=1e-9, atol=1e-9
        )
    # A stream in any parts is one stream, also after a pickle.
    parts = tk.Perceptron(WIDE, vote)
    for start in range(0, len(forest), 3):
        parts.partial_fit(forest[start : start + 3], y[start : start + 3])
        parts = pickle.loads(pickle.dumps(parts))
    np.testing.assert_array_equal(
        parts.decision_function(forest), p.decision_function(forest)
    )


@pytest.mark.parametrize("vote", ["last", "average", "vote"])
def test_vectors_stand_beside_trees_whose_kernel_no_float_can_hold(vote):
    forest, y = bushes(), LABELS
    X = np.random.default_rng(0).normal(size=(len(forest), 2))
    K = 0.3 * WIDE(forest) + 0.7 * (X @ X.T + 1) ** 2
    p = tk.Perceptron(WIDE, vote, vectors=tk.kernels.VectorPolynomial(2), mix=0.3)
    p.partial_fit(forest, y, X)
    np.testing.assert_allclose(
        p.decision_function(forest, X), expected(K, y, vote), rtol=1e-9
    )
    again = pickle.loads(pickle.dumps(p))
    np.testing.assert_array_equal(
        again.decision_function(forest, X), p.decision_function(forest, X)
    )


@pytest.mark.parametrize("leaf_weight", [0.0, 0.5])
def test_contributions_are_shares_of_a_score_that_no_float_could_divide(leaf_weight):
    forest = bushes()[:8]
    kernel = WIDE.replace(leaf_weight=leaf_weight)
    model = tk.DagModel(kernel, 2)
    model.add(forest, np.random.default_rng(0).normal(size=(8, 2)))
    for tree, score in zip(forest, model.decision_function(forest), strict=True):
        shares = model.contributions(tree)
        np.testing.assert_allclose(shares.sum(axis=0), score, rtol=1e-9, atol=1e-9)
    # A tree that knows nothing of the bushes: its shares are those of the plain model.
    small = tk.DagModel(kernel)
    small.add(forest[6:7], [1.0])
    before = small.contributions(forest[6])
    small.add(forest[1:2], [1e-30])
    np.testing.assert_allclose(small.contributions(forest[6]), before, rtol=1e-12)


# --- counts -----------------------------------------------------------------------------


@pytest.mark.parametrize("at", [2**63 - 1, 2**63 - 2])
def test_counts_at_their_end_stay_there_and_pickle(at):
    model = tk.DagModel(SST)
    model.add(TREES, [1.0, 2.0, 3.0, 4.0])
    arrays = model.to_arrays()
    arrays["counts"][:] = at
    model = tk.DagModel.from_arrays(**arrays)
    for _ in range(3):
        model.add(TREES, [1.0] * 4)
        model = pickle.loads(pickle.dumps(model))
    assert model.n_trees >= 2**63 - 1
    for vote in ("last", "average", "vote"):
        p = tk.Perceptron(SST, vote)
        p.partial_fit(TREES, Y)
        arrays = p.to_arrays()
        arrays["seen"][1:] = at
        p = tk.Perceptron.from_arrays(**arrays)
        for _ in range(3):
            p.partial_fit(TREES, [-y for y in Y])
            p = pickle.loads(pickle.dumps(p))
            assert np.isfinite(p.decision_function(TREES)).all()


# --- weights ----------------------------------------------------------------------------


def test_weights_have_the_same_shape_in_add_and_in_from_dual():
    weights = np.arange(1.0, 5.0).reshape(2, 2)
    added = tk.DagModel(SST, 2)
    added.add(TREES[:2], weights)
    made = tk.DagModel.from_dual(SST, TREES[:2], weights)
    np.testing.assert_array_equal(
        made.decision_function(TREES), added.decision_function(TREES)
    )
    three = tk.DagModel.from_dual(SST, TREES[:2], np.ones((2, 3)))
    assert three.n_outputs == 3
    for row in ([1.0, 2.0], [[1.0, 2.0]], [[1.0], [2.0]]):
        model = tk.DagModel.from_dual(SST, TREES[:2], row)
        assert model.decision_function(TREES).shape == (4,)
    with pytest.raises(ValueError, match=r"\(n_trees, n_outputs\) with 2 trees"):
        tk.DagModel.from_dual(SST, TREES[:2], np.ones((3, 2)))


# --- pairs ------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["exact", "paper", "max"])
def test_a_normalised_pair_with_itself_is_one_whatever_its_limit(method):
    k = tk.PairKernel(0.03, method=method, normalize=True, max_constraints=3)
    pairs = tk.PairForest.from_brackets(
        ["(a (a b:2))", "(a)"], ["(a b:2 a:1)", "(a (b c))"]
    )
    assert k(pairs[:1]).tolist() == [[1.0]] == k.gram(pairs[:1]).tolist()
    assert [k.pair(pair, pair) for pair in pairs] == [1.0, 0.0]


# --- signals ----------------------------------------------------------------------------


LARGE = tk.DistributedTrees(SST, 2**24, composition="sign")
ONES = np.ones(2**24, np.float32)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="signals")
@pytest.mark.parametrize(
    "call",
    [
        lambda: tk.DistributedTrees(SST, 2**24, composition="gamma"),
        lambda: tk.DistributedTrees(SST, 2**28),
        lambda: tk.DistributedTrees(SST, 2**24, composition="convolution"),
        lambda: LARGE.label_vector("a"),
        lambda: LARGE.compose(ONES, ONES),
    ],
    ids=["gamma", "quaternion", "convolution", "label", "compose"],
)
def test_ctrl_c_ends_what_a_large_encoder_does(call):
    def ring(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, ring)
    start, used = time.monotonic(), time.process_time()
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(TimeoutError):  # noqa: PT012
            while True:
                call()
        assert min(time.monotonic() - start, time.process_time() - used) < 1.2
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_no_convolution_is_longer_than_what_ctrl_c_can_end():
    with pytest.raises(ValueError, match="n_components must be at most 16777216"):
        tk.DistributedTrees(SST, 2**24 + 4, composition="convolution")


@pytest.mark.parametrize("composition", ["quaternion", "sign", "phasor", "gamma"])
def test_long_vectors_are_drawn_and_composed_as_short_ones_are(composition):
    """In parts of 2^16 numbers, which nothing but the clock notices."""
    for d in (2**16 - 4, 2**16 + 4, 2**17 + 64):
        enc = tk.DistributedTrees(SST, d, composition=composition, dtype=float)
        a, b = enc.label_vector("a"), enc.label_vector("b")
        assert len(np.unique(a[2**16 :].round(9))) <= len(np.unique(a.round(9)))
        tree = tk.Forest.from_brackets("(a b)")
        np.testing.assert_allclose(enc.compose(a, b), enc.fragment(tree[0]), rtol=1e-9)
        assert abs(a @ b) < 0.05
        assert np.linalg.norm(a) == pytest.approx(1)
