"""Sentence pairs: three kernels against the oracle, matrices, limits, the builder."""

from __future__ import annotations

import copy
import gzip
import itertools
import pickle
import random
import re
import sys
import time
import warnings
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pair_examples as ex
import pair_oracle as po
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interrupts import seconds_until_interrupted

import treekernel_rs as tk

if TYPE_CHECKING:
    from pair_oracle import Node, Pair

METHODS = list(po.METHODS)
WRONG = (ValueError, TypeError)
every_method = pytest.mark.parametrize("method", METHODS)


def read(pairs: list[Pair]) -> tk.PairForest:
    left, right = ([po.show(pair[side]) for pair in pairs] for side in (0, 1))
    return tk.PairForest.from_brackets(left, right)


def make(method: str = "exact", decay: object = 0.4, **more: object) -> tk.PairKernel:
    return tk.PairKernel(float(decay), method=method, **more)


def quietly(function, *args, **kwargs):
    """Call without the warning about zero self-kernels."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args, **kwargs)


def readable(constraints) -> set[frozenset[tuple[str, str]]]:
    """Return C, whatever collections it comes in."""
    return {frozenset((str(a), str(b)) for a, b in c) for c in constraints}


def random_tree(rng: random.Random, n: int, names: int, labels: str = "ab") -> Node:
    """Return a tree of n nodes, each below a near one before it."""
    children: list[list[int]] = [[] for _ in range(n)]
    for node in range(1, n):
        children[rng.randrange(max(0, node - 3), node)].append(node)
    made: list = [None] * n
    for node in reversed(range(n)):
        name = rng.choice([None, *map(str, range(1, names + 1))]) if names else None
        below = tuple(made[child] for child in children[node])
        made[node] = (rng.choice(labels), name, below)
    return made[0]


def random_pairs(n: int, size: int = 9, names: int = 3, seed: int = 0) -> list[Pair]:
    rng = random.Random(seed)
    return [
        tuple(random_tree(rng, rng.randint(2, size), names) for _ in range(2))
        for _ in range(n)
    ]


# --- Worked numbers -----------------------------------------------------------------


@pytest.mark.parametrize("case", ex.VALUES, ids=str)
def test_worked_values(case):
    k = make(case.method, case.decay)
    wanted = pytest.approx(float(case.value), rel=1e-12)
    pairs = read(list(case.pairs))
    assert k.pair(pairs[0], pairs[1]) == wanted
    assert k.pair(pairs[1], pairs[0]) == wanted
    assert k(pairs)[0, 1] == wanted
    assert k(pairs[:1], pairs[1:])[0, 0] == wanted
    assert isinstance(k.pair(pairs[0], pairs[1]), float)


def test_worked_value_of_fragments_of_whole_trees():
    """Take away what no fragment from both roots adds: 7 of the 17 are left."""

    def elsewhere(tree: Node) -> Node:
        return ("other", *tree[1:])

    (a, b), (left, right) = (ex.P_A, ex.P_B), ex.P_A
    others = [(elsewhere(left), right), (left, elsewhere(right))]
    others.append((elsewhere(left), elsewhere(right)))
    signed = list(zip([a, *others], [1, -1, -1, 1], strict=True))
    assert sum(sign * po.exact(p, b) for p, sign in signed) == 7
    values = make("exact", 1)(read([p for p, _ in signed]), read([b]))[:, 0]
    assert values @ [sign for _, sign in signed] == 7


@pytest.mark.parametrize(("method", "p", "q", "written"), ex.CONSTRAINTS)
def test_worked_sets_of_constraints(method, p, q, written):
    pairs = read([p, q])
    found = readable(make(method).constraints(pairs[0], pairs[1]))
    assert found == {ex.constraint(text) for text in written}


@every_method
def test_self_kernels_are_on_the_diagonal(method):
    pairs = [ex.P_A, ex.P_B, ex.P1, *ex.THREE]
    wanted = [float(po.METHODS[method](p, p, Fraction(2, 5))) for p in pairs]
    k = make(method)
    np.testing.assert_allclose(k.diag(read(pairs)), wanted, rtol=1e-12)
    np.testing.assert_array_equal(k.diag(read(pairs)), np.diag(k(read(pairs))))


# --- What is a dot product, and what is not -----------------------------------------


def test_the_paper_variant_is_not_positive_semidefinite_and_exact_is():
    pairs = read(ex.THREE)
    paper = make("paper", 0.1)(pairs)
    wanted = [[1.184356171, 0.9, 0], [0.9, 1.302791788, 0.9], [0, 0.9, 1.184356171]]
    np.testing.assert_allclose(paper, wanted, rtol=0, atol=5e-10)
    assert paper[0, 2] == 0
    assert round(np.linalg.eigvalsh(paper)[0], 4) == -0.0306
    exact = make("exact", 0.1)(pairs)
    assert exact[0, 2] == pytest.approx(0.81, rel=1e-12)
    assert np.linalg.eigvalsh(exact).round(3).tolist() == [0.330, 0.374, 2.967]


def test_the_best_assignment_is_not_positive_semidefinite():
    gram = make("max", 0.1)(read(ex.FOUR))
    wanted = ex.matrix(po.maximum, ex.FOUR, Fraction(1, 10))
    np.testing.assert_allclose(gram, wanted, rtol=1e-12)
    assert round(np.linalg.eigvalsh(gram)[0], 4) == -0.0202
    w = np.array([1, -1, 1, -1])
    assert round(float(w @ gram @ w) * 100, 2) == -7.43


@pytest.mark.parametrize("normalize", [False, True])
@given(po.sentence_pairs(most=5), po.decays)
def test_exact_matrices_are_positive_semidefinite(normalize, pairs, decay):
    matrix = quietly(make("exact", decay, normalize=normalize), read(pairs))
    assert np.linalg.eigvalsh(matrix).min() >= -1e-11 * max(1.0, matrix.max())


def test_a_larger_exact_matrix_is_positive_semidefinite():
    for decay in (1.0, 0.1):
        matrix = make("exact", decay)(read(random_pairs(80, 14, 4)))
        assert np.linalg.eigvalsh(matrix).min() >= -1e-11 * matrix.max()


# --- Against the oracle -------------------------------------------------------------


@every_method
@given(po.sentence_pairs(), po.sentence_pairs(most=2), po.decays)
def test_values_are_those_of_the_oracle(method, rows, columns, decay):
    kernel, k = po.METHODS[method], make(method, decay)
    x, y = read(rows), read(columns)
    square = k(x)
    wanted = ex.matrix(kernel, rows, decay)
    assert (square.shape, square.dtype) == ((len(rows), len(rows)), np.float64)
    np.testing.assert_allclose(square, wanted, rtol=1e-12)
    np.testing.assert_array_equal(square == 0, wanted == 0)
    np.testing.assert_array_equal(square, square.T)  # bit for bit
    np.testing.assert_allclose(k.diag(x), np.diag(wanted), rtol=1e-12)

    rectangle = k(x, y)
    wanted = [[float(kernel(p, q, decay)) for q in columns] for p in rows]
    np.testing.assert_allclose(rectangle, wanted, rtol=1e-12)
    np.testing.assert_allclose(k(y, x), rectangle.T, rtol=1e-12)
    single = [[k.pair(p, q) for q in y] for p in x]
    np.testing.assert_allclose(single, wanted, rtol=1e-12)


@every_method
@settings(max_examples=50)
@given(po.sentence_pairs(), po.decays)
def test_normalized_values_are_ratios_of_the_oracle_s(method, pairs, decay):
    x = read(pairs)
    matrix = quietly(make(method, decay, normalize=True), x)
    plain = ex.matrix(po.METHODS[method], pairs, decay)
    own = np.sqrt(np.diag(plain))
    scale = np.outer(own, own)
    wanted = np.divide(plain, scale, out=np.zeros_like(plain), where=scale > 0)
    np.testing.assert_allclose(matrix, wanted, rtol=1e-12, atol=1e-14)
    own = quietly(make(method, decay, normalize=True).diag, x)
    np.testing.assert_allclose(own, np.diag(wanted), rtol=1e-12)


@pytest.mark.parametrize("method", ["exact", "paper"])
@settings(max_examples=60)
@given(po.sentence_pairs(most=2))
def test_constraints_are_those_of_the_oracle(method, pairs):
    p, q = pairs[0], pairs[-1]
    # Without a match the set has no members, or an empty one: both say the same.
    wanted = po.CONSTRAINTS[method](p, q) - {frozenset()}
    x = read([p, q])
    assert readable(make(method).constraints(x[0], x[1])) - {frozenset()} == wanted


@given(po.sentence_pairs(most=2, nodes=9), po.decays)
def test_no_other_variant_exceeds_the_exact_one(pairs, decay):
    x = read(pairs)
    exact = make("exact", decay)(x)
    for method in ("paper", "max"):
        assert (make(method, decay)(x) <= exact * (1 + 1e-12)).all()


@every_method
@given(po.sentence_pairs(nodes=12), po.decays)
def test_without_placeholders_the_kernel_is_the_product_of_two(method, pairs, decay):
    bare = [(po.bare(left), po.bare(right)) for left, right in pairs]
    ground = tk.SubsetTreeKernel(float(decay))
    sides = [ground([po.show(pair[side]) for pair in bare]) for side in (0, 1)]
    found = make(method, decay)(read(bare))
    np.testing.assert_allclose(found, sides[0] * sides[1], rtol=1e-12)


@every_method
@given(po.sentence_pairs(), st.data())
def test_renaming_placeholders_changes_nothing(method, pairs, data):
    """Each pair has a name space of its own, so each may be renamed by itself."""
    strange = ["1", "2", "3", "4", "10", "007", "99999"]
    again = []
    for pair in pairs:
        names = data.draw(st.permutations(strange))
        mapping = dict(zip("1234", names, strict=False))
        again.append(tuple(po.renamed(tree, mapping) for tree in pair))
    k = make(method)
    x, y = read(pairs), read(again)
    matrix = k(x)
    np.testing.assert_allclose(k(y), matrix, rtol=1e-12)
    np.testing.assert_allclose(k(x, y), matrix, rtol=1e-12)


@every_method
@given(po.sentence_pairs(), po.decays)
def test_exchanging_left_and_right_in_all_pairs_changes_nothing(method, pairs, decay):
    k = make(method, decay)
    turned = [(right, left) for left, right in pairs]
    np.testing.assert_allclose(k(read(turned)), k(read(pairs)), rtol=1e-12)


@every_method
def test_forests_need_not_be_the_same(method):
    """Read by itself, the second half has other ids for the same labels."""
    k, pairs = make(method), random_pairs(24)
    whole = k(read(pairs))
    x, y = read(pairs[:12]), read([*random_pairs(3, seed=9), *pairs[12:]])[3:]
    np.testing.assert_allclose(k(x, y), whole[:12, 12:], rtol=1e-12)
    np.testing.assert_allclose(k.gram(x, y), whole[:12, 12:], rtol=1e-12)
    assert k.pair(x[3], y[4]) == pytest.approx(whole[3, 16], rel=1e-12)


# --- Many placeholders --------------------------------------------------------------


def chain(label: str, n: int, shift: int = 0) -> str:
    """Return a path of n inner nodes, each with a leaf that has its own placeholder."""
    text = "(end)"
    for i in reversed(range(1, n + 1)):
        text = f"({label}{i} (x:{i + shift}) {text})"
    return text


def chains(n: int) -> tuple[Pair, Pair]:
    """Return two pairs in which left i asks for i to be i, and right for i + 1."""
    left, right = chain("C", n), chain("D", n)
    return ex.pair(left, right), ex.pair(left, chain("D", n, shift=1))


def chains_value(n: int, decay: float) -> float:
    """Count runs of nodes on both sides, by their ends.

    Left nodes i to j and right ones a to b clash if one of the latter is in i-1 to j.
    """
    below, above = [0.0] * (n + 2), [0.0] * (n + 2)  # runs that end by, or start at
    for end in range(1, n + 1):
        below[end] = below[end - 1] + sum(decay**k for k in range(1, end + 1))
    for start in reversed(range(1, n + 1)):
        runs = sum(decay**k for k in range(1, n + 2 - start))
        above[start] = above[start + 1] + runs
    return sum(
        decay ** (j - i + 1) * (below[max(i - 2, 0)] + above[j + 1])
        for i in range(1, n + 1)
        for j in range(i, n + 1)
    )


def test_the_closed_form_of_the_chains_is_that_of_the_oracle():
    for n in (1, 2, 3, 4, 5):
        p, q = chains(n)
        found = po.exact(p, q, Fraction(1, 2))
        assert float(found) == pytest.approx(chains_value(n, 0.5), rel=1e-12)
        assert po.paper(p, q) == 0


@pytest.mark.parametrize("n", [5, 31, 32, 33, 63, 64, 65, 80])
def test_constraints_may_be_wider_than_a_word(n):
    pairs = read(list(chains(n)))
    found = make("exact", 0.5).pair(pairs[0], pairs[1])
    assert found == pytest.approx(chains_value(n, 0.5), rel=1e-11)
    # Each side is content with one assignment, and the two have no pair in common.
    assert make("paper", 0.5).pair(pairs[0], pairs[1]) == 0


@every_method
@pytest.mark.parametrize("n", [63, 64, 65, 130])
def test_wide_constraints_without_a_clash_are_no_trouble(method, n):
    p = ex.pair(chain("C", n), chain("D", n))
    bare = [po.show(po.bare(tree)) for tree in p]
    ground = tk.SubsetTreeKernel(0.5)
    wanted = ground.pair(bare[0], bare[0]) * ground.pair(bare[1], bare[1])
    pairs = read([p])
    assert make(method, 0.5).pair(pairs[0], pairs[0]) == pytest.approx(wanted)
    assert make(method, 0.5)(pairs)[0, 0] == pytest.approx(wanted)


@pytest.mark.parametrize("n", [1, 64, 65, 200])
def test_a_clash_is_seen_wherever_it_is(n):
    """A star of n children on the left; the right asks for the last to be the first."""
    star = "(R " + " ".join(f"(L{i} (x:{i}))" for i in range(1, n + 1)) + ")"
    pairs = read([ex.pair(star, f"(Z (x:{n}))"), ex.pair(star, "(Z (x:1))")])
    free = n if n == 1 else n - 2  # children that may still be expanded
    wanted = 0.1 * (0.1 * 1.1**free + 0.1 * free)
    assert make("exact", 0.1).pair(pairs[0], pairs[1]) == pytest.approx(wanted)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6])
def test_the_hard_family_counts_matchings(n):
    pairs = read(list(ex.matchings(n)))
    wanted = ex.n_matchings(n) + n * n
    assert make("exact", 1).pair(pairs[0], pairs[1]) == wanted
    if n <= 4:
        assert make("paper", 1).pair(pairs[0], pairs[1]) == wanted
        assert make("max", 1).pair(pairs[0], pairs[1]) == 2**n + n


# --- The limit ----------------------------------------------------------------------


def hopeless(n: int = 30) -> tuple[Pair, Pair]:
    """Return two pairs of n placeholders each, whose kernel counts all matchings."""
    p, q = ex.matchings(n)
    order = list(range(n * n))
    random.Random(0).shuffle(order)  # so that no order of visiting is a lucky one

    def shuffled(tree: Node) -> Node:
        return (*tree[:2], tuple(tree[2][i] for i in order))

    return (shuffled(p[0]), p[1]), (shuffled(q[0]), q[1])


@pytest.mark.posix
@pytest.mark.parametrize("method", ["exact", "paper"])
def test_a_hopeless_pair_ends_soon_in_an_error_that_names_the_option(method):
    import resource  # not on Windows

    pairs = read(list(hopeless()))
    k = make(method)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = []
    for _ in range(3):  # the machine may be busy: the fastest counts
        start = time.process_time()
        with pytest.raises(tk.pairs.ConstraintLimitError, match="max_constraints"):
            k.pair(pairs[0], pairs[1])
        seconds.append(time.process_time() - start)
    assert min(seconds) < 1
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    if sys.platform == "darwin":  # bytes there, kB elsewhere
        grown //= 1024
    assert grown < 500_000


@pytest.mark.parametrize("method", ["exact", "paper"])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_hopeless_pair_is_named_and_costs_no_other(method, n_jobs):
    pairs = random_pairs(8)
    pairs[3], pairs[6] = hopeless()
    k, x = make(method), read(pairs)
    out = np.full((8, 8), np.nan)
    with pytest.raises(
        tk.pairs.ConstraintLimitError, match="max_constraints"
    ) as caught:
        k.gram(x, out=out, n_jobs=n_jobs)
    assert {"3", "6"} <= set(re.findall(r"\d+", str(caught.value)))
    for i, j in itertools.product(range(8), repeat=2):
        if {i, j} != {3, 6}:
            assert out[i, j] == pytest.approx(k.pair(x[i], x[j]), rel=1e-12)


def test_a_higher_limit_lets_more_through():
    pairs = read(list(ex.matchings(5)))
    wanted = ex.n_matchings(5) + 25
    assert make("exact", 1).pair(pairs[0], pairs[1]) == wanted
    with pytest.raises(tk.pairs.ConstraintLimitError):
        make("exact", 1, max_constraints=10).pair(pairs[0], pairs[1])


def test_pairs_with_few_clashes_stay_below_a_low_limit():
    pairs = read([ex.P_A, ex.P1])
    k = make("exact", 1, max_constraints=100)
    assert k.diag(pairs).tolist() == [36, 7208]


# --- Size ---------------------------------------------------------------------------


@every_method
def test_depth_is_no_trouble(method):
    n = 50_000
    deep = "".join(f"(a{i}" for i in range(n)) + ")" * n
    pairs = tk.PairForest.from_brackets([deep], [f"(a{n - 2} a{n - 1})"])
    # Fragments are runs of k inner nodes, n - k of them, at decay**k each.
    one_side = sum((n - k) * 0.1**k for k in range(1, 60))
    assert make(method, 0.1)(pairs)[0, 0] == pytest.approx(0.1 * one_side)


def wide(n: int, last: str) -> str:
    return "(R " + " ".join(f"(L{i} a)" for i in range(n - 1)) + f" (L{n - 1} {last}))"


@every_method
@pytest.mark.parametrize(
    ("n_left", "n_right"),
    [(700, 1), (600, 600), (2000, 1)],
    ids=["product of self-kernels", "product of sides", "one side"],
)
def test_ratios_are_finite_where_values_are_too_large(method, n_left, n_right):
    """At decay 1 there are 2**n + n fragments, half as many shared: a ratio of 1/2."""
    pairs = tk.PairForest.from_brackets(
        [wide(n_left, "a"), wide(n_left, "b")], [wide(n_right, "a")] * 2
    )
    ratio = make(method, 1, normalize=True)
    wanted = [[1, 0.5], [0.5, 1]]
    np.testing.assert_allclose(ratio(pairs), wanted, rtol=1e-9)
    assert ratio.pair(pairs[0], pairs[1]) == pytest.approx(0.5)
    if n_left + n_right > 1024:
        with pytest.raises(OverflowError):
            make(method, 1)(pairs)
        with pytest.raises(OverflowError):
            make(method, 1).pair(pairs[0], pairs[1])


# --- Matrices: out, dtype, n_jobs, progress -----------------------------------------


@every_method
@pytest.mark.parametrize("normalize", [False, True])
def test_n_jobs_changes_no_bit(method, normalize):
    k = make(method, normalize=normalize)
    x, y = read(random_pairs(50)), read(random_pairs(25, seed=1))
    for columns in (None, y):
        alone = quietly(k.gram, x, columns, n_jobs=1)
        for n_jobs in (2, 3, 8, None):
            shared = quietly(k.gram, x, columns, n_jobs=n_jobs)
            np.testing.assert_array_equal(shared, alone)
    np.testing.assert_array_equal(quietly(k, x), quietly(k.gram, x, n_jobs=1))


@every_method
@pytest.mark.parametrize("dtype", [np.float32, np.float64, "float32", "f8"])
def test_gram_is_filled_in_place_or_made(method, dtype):
    k = make(method)
    x, y = read(random_pairs(20)), read(random_pairs(12, seed=1))
    for columns, shape in ((None, (20, 20)), (y, (20, 12))):
        expected = k.gram(x, columns).astype(dtype)
        made = k.gram(x, columns, dtype=dtype)
        assert (made.dtype, made.shape) == (np.dtype(dtype), shape)
        np.testing.assert_array_equal(made, expected)
        out = np.full(shape, np.nan, dtype)
        assert k.gram(x, columns, dtype=dtype, out=out) is out
        np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gram_fills_a_file(dtype, tmp_path):
    k, x, path = make(), read(random_pairs(20)), tmp_path / "gram.npy"
    out = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=(20, 20))
    k.gram(x, dtype=dtype, out=out)
    out.flush()
    del out
    np.testing.assert_array_equal(np.load(path), k.gram(x, dtype=dtype))


BAD_OUT = {
    "too few rows": lambda n: np.zeros((n - 1, n)),
    "one dimension": lambda n: np.zeros(n * n),
    "int64": lambda n: np.zeros((n, n), np.int64),
    "order F": lambda n: np.zeros((n, n), order="F"),
    "backwards": lambda n: np.zeros((n, n))[::-1],
    "a list": lambda n: [[0.0] * n for _ in range(n)],
}


@pytest.mark.parametrize("bad", BAD_OUT.values(), ids=BAD_OUT)
def test_a_wrong_out_is_refused_before_any_work(bad):
    x, calls = read(random_pairs(10)), []
    out = bad(len(x))
    with pytest.raises(WRONG, match="out"):
        make().gram(x, out=out, progress=lambda *step: calls.append(step))
    assert not calls
    assert not np.asarray(out).any()


@pytest.mark.parametrize(
    "options",
    [{"n_jobs": 0}, {"n_jobs": 1.5}, {"dtype": np.int64}, {"progress": "yes"}],
)
def test_a_wrong_option_is_refused_by_name(options):
    (name,) = options
    with pytest.raises(WRONG, match=name):
        make().gram(read(random_pairs(3)), **options)


@every_method
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_progress_goes_up_and_reaches_the_total(method, n_jobs):
    x, y = read(random_pairs(40)), read(random_pairs(20, seed=1))
    for columns in (None, y):
        steps: list[tuple[int, int]] = []

        def note(done: int, total: int, steps=steps) -> None:
            steps.append((done, total))

        make(method).gram(x, columns, n_jobs=n_jobs, progress=note)
        done = [step[0] for step in steps]
        assert len({step[1] for step in steps}) == 1
        assert done == sorted(done)
        assert steps[-1][0] == steps[-1][1] > 0


def test_an_error_in_progress_ends_the_computation():
    class StopHereError(Exception):
        pass

    def progress(done: int, total: int) -> None:
        raise StopHereError

    with pytest.raises(StopHereError):
        make().gram(read(random_pairs(40)), progress=progress)


def test_a_progress_bar_changes_nothing(capfd):
    k, x = make(), read(random_pairs(20))
    matrix = k.gram(x, progress=True)
    assert capfd.readouterr().out == ""
    np.testing.assert_array_equal(matrix, k.gram(x))


INTERRUPTED = """
import random, signal, sys, time
import treekernel_rs as tk

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored below "pytest &"

def tree(n):
    children = [[] for _ in range(n)]
    for node in range(1, n):
        children[random.randrange(max(0, node - 4), node)].append(node)
    made = [None] * n
    for node in reversed(range(n)):
        label = random.choice("ab")
        made[node] = "(" + label + "".join(made[c] for c in children[node]) + ")"
    return made[0]

random.seed(0)
left, right = ([tree(60) for _ in range(1500)] for _ in range(2))
pairs = tk.PairForest.from_brackets(left, right)
k = tk.PairKernel(0.1, method=sys.argv[1])
print("ready", flush=True)
try:
    k.gram(pairs, n_jobs=int(sys.argv[2]))
except KeyboardInterrupt:
    print("interrupted", time.time(), time.process_time(), flush=True)
else:
    print("finished", flush=True)
"""


@pytest.mark.slow
@pytest.mark.posix
@pytest.mark.parametrize(
    ("method", "n_jobs"), [("exact", 1), ("exact", 2), ("paper", 2), ("max", 2)]
)
def test_control_c_ends_a_long_computation_within_a_second(method, n_jobs):
    assert seconds_until_interrupted(INTERRUPTED, method, n_jobs, after=0.2) < 1.2


@every_method
def test_no_pairs_give_an_empty_matrix(method):
    k, some = make(method), read(random_pairs(2))
    none = some[:0]
    assert k(none).shape == (0, 0)
    assert k(none, some).shape == (0, 2)
    assert k(some, none).shape == (2, 0)
    assert k.diag(none).shape == (0,)
    assert k(tk.PairForest.from_brackets([], [])).shape == (0, 0)


def test_a_tree_without_productions_matches_nothing():
    pairs = tk.PairForest.from_brackets(["(a:1)", "(S:1 a)"], ["(S:1 a)", "(S:1 a)"])
    for method in METHODS:
        assert make(method, 1)(pairs).tolist() == [[0, 0], [0, 1]]
        with pytest.warns(RuntimeWarning, match="0"):
            matrix = make(method, 1, normalize=True)(pairs)
        assert matrix.tolist() == [[0, 0], [0, 1]]


# --- Forests of pairs ---------------------------------------------------------------


def test_indexing_takes_integers_slices_masks_and_arrays():
    pairs = random_pairs(10)
    x, k = read(pairs), make()
    whole = k(x)
    assert len(x) == 10
    mask = np.arange(10) % 3 == 0
    for index in (
        slice(2, 7),
        slice(None, None, -2),
        mask,
        [4, 1, 1],
        np.array([9, 0]),
    ):
        part = x[index]
        numbers = np.arange(10)[index]
        assert isinstance(part, tk.PairForest)
        assert len(part) == len(numbers)
        np.testing.assert_allclose(k(part), whole[np.ix_(numbers, numbers)], rtol=1e-12)
    assert k.pair(x[-1], x[np.int64(2)]) == pytest.approx(whole[9, 2], rel=1e-12)
    for wrong in (10, -11):
        with pytest.raises(IndexError):
            x[wrong]
    assert len(list(x)) == 10


def test_pickles_and_copies_have_the_same_kernels():
    x = read([ex.P_A, ex.P_B, ex.P1, ex.P2_NN, ex.P2_NNS, *random_pairs(5)])
    for k in (make(method) for method in METHODS):
        wanted = k(x)
        twins = [pickle.loads(pickle.dumps(x)), copy.copy(x), copy.deepcopy(x)]
        for twin in twins:
            assert len(twin) == len(x)
            np.testing.assert_array_equal(k(twin), wanted)
            np.testing.assert_array_equal(k(x, twin), k(x, x))
    part = pickle.loads(pickle.dumps(x[2:4]))
    assert make("exact", 1)(part)[0, 1] == 98


def test_bare_leaves_are_leaves():
    bare = tk.PairForest.from_brackets(["(S:1 (A:2 a) b)"], ["(B:2 b)"])
    full = tk.PairForest.from_brackets(["(S:1 (A:2 (a)) (b))"], ["(B:2 (b))"])
    assert make("exact", 1)(bare, full)[0, 0] == make("exact", 1).diag(bare)[0] == 3


def test_the_separator_can_be_another():
    default = tk.PairForest.from_brackets(["(A:1 (B:1) (C))"], ["(Z:1 (z))"])
    other = tk.PairForest.from_brackets(
        ["(A#1 (B#1) (C))"], ["(Z#1 (z))"], separator="#"
    )
    colon = tk.PairForest.from_brackets(
        ["(A:1 (B:1) (C))"], ["(Z:1 (z))"], separator="#"
    )
    k = make("exact", 1)
    assert k(default, other)[0, 0] == 1
    assert k(default, colon)[0, 0] == 0
    assert k(colon)[0, 0] == 1


def test_a_placeholder_and_none_never_match():
    marked = tk.PairForest.from_brackets(["(S (A:1 a))"], ["(Z z)"])
    bare = tk.PairForest.from_brackets(["(S (A a))"], ["(Z z)"])
    for method in METHODS:
        assert make(method, 1)(marked, bare)[0, 0] == 0


@pytest.mark.parametrize(
    ("left", "right"), [(["(a b)"], []), (["(a b)"], ["(c d)"] * 2)]
)
def test_sides_of_different_lengths_are_refused(left, right):
    with pytest.raises(ValueError, match=r"left|right"):
        tk.PairForest.from_brackets(left, right)
    with pytest.raises(ValueError, match=r"left|right"):
        tk.PairForest.anchored(left, right)


def test_bad_text_is_refused_with_its_place():
    with pytest.raises(tk.ParseError) as caught:
        tk.PairForest.from_brackets(["(a b)", "(a b)"], ["(a b)", "(a (b)"])
    assert caught.value.tree == 1


@pytest.mark.parametrize("separator", ["", None, 5])
def test_a_wrong_separator_is_refused(separator):
    with pytest.raises(WRONG, match="separator"):
        tk.PairForest.from_brackets(["(a b)"], ["(a b)"], separator=separator)


# --- The builder --------------------------------------------------------------------

FARMERS = (
    "(S (NP (NNS Farmers)) (VP (VB feed) (NP (NNS cows))"
    " (NP (NN animal) (NNS extracts))))",
    "(S (NP (NNS Cows)) (VP (VB eat) (NP (NN animal) (NNS extracts))))",
)
PEDIATRICIANS = (
    "(S (NP (NNS Pediatricians)) (VP (VB suggest) (S (NP (NNS women)) (VP (TO to)"
    " (VP (VB feed) (NP (NNS newborns)) (NP (NN breast) (NN milk)))))))",
    "(S (NP (NNS Pediatricians)) (VP (VB suggest) (SBAR (IN that) (S (NP (NNS newborns))"
    " (VP (VB eat) (NP (NN breast) (NN milk)))))))",
)


def anchored(*pairs: tuple[str, str], **options: object) -> tk.PairForest:
    left, right = zip(*pairs, strict=True)
    return tk.PairForest.anchored(list(left), list(right), **options)


def test_the_builder_anchors_the_sentences_of_the_paper():
    built, written = anchored(FARMERS, PEDIATRICIANS), read([ex.P1, ex.P2_NN])
    k = make("exact", 1)
    # Equal vectors, and no others of that length, have this as their product.
    assert k(built).tolist() == [[7208, 98], [98, 1240926]]
    assert k(built, written).tolist() == [[7208, 98], [98, 1240926]]
    assert make("paper", 1)(built)[0, 1] == 96
    forests = [
        tk.Forest.from_brackets(list(side))
        for side in zip(FARMERS, PEDIATRICIANS, strict=True)
    ]
    np.testing.assert_array_equal(k(tk.PairForest.anchored(*forests)), k(built))


def test_the_builder_numbers_placeholders_by_the_right_sentence():
    built = anchored(FARMERS)
    written = tk.PairForest.from_brackets(*([po.show(tree)] for tree in ex.P1))
    found = readable(make("exact").constraints(built[0], written[0]))
    assert found == {ex.constraint("11 22 33")}


@pytest.mark.parametrize(
    "change",
    [
        lambda text: f"(ROOT {text})",
        lambda text: f"( {text} )",
        lambda text: text.replace("(NP (NN ", "(NP-OBJ (NN ").replace("(S (", "(S-1 ("),
        lambda text: text.replace("(VP (VB", "(VP (-NONE- *) (VB"),
        lambda text: text.replace("(VP (VB", "(VP (NP (-NONE- *T*-1)) (VB"),
    ],
    ids=["ROOT", "outer bracket", "function tags", "a trace", "a phrase of a trace"],
)
def test_wrappers_traces_and_function_tags_are_dropped(change):
    plain, changed = anchored(FARMERS), anchored(tuple(map(change, FARMERS)))
    assert make("exact", 1)(plain, changed)[0, 0] == 7208
    assert make("exact", 1)(changed)[0, 0] == 7208


def test_stop_words_and_words_of_one_side_are_no_anchors():
    """Forms of be, have and do are content by their tags alone."""
    pair = (
        "(S (NP (PRP It)) (VP (VBD had) (RB not) (VP (VBN been) (ADJP (JJ green)))))",
        "(S (NP (PRP It)) (VP (VBZ has) (RB not) (VP (VBN been) (ADJP (JJ red)))))",
    )
    k = make("exact", 1)
    ground = tk.SubsetTreeKernel(1.0)
    wanted = ground.diag([pair[0]]) * ground.diag([pair[1]])
    assert k.diag(anchored(pair)) == wanted
    bare = tk.PairForest.from_brackets([pair[0]], [pair[1]])
    assert k(anchored(pair), bare)[0, 0] == wanted[0]


def test_plurals_and_capitals_share_a_stem():
    pair = ("(NP (DT the) (NN dog))", "(NP (NNS Dogs))")
    wanted = tk.PairForest.from_brackets(
        ["(NP:1 (DT the) (NN:1 dog))"], ["(NP:1 (NNS:1 Dogs))"]
    )
    k = make("exact", 1)
    assert (
        k(anchored(pair), wanted)[0, 0] == k.diag(wanted)[0] == k.diag(anchored(pair))
    )


def test_a_match_that_matches_nothing_leaves_no_placeholder():
    built = anchored(FARMERS, match=lambda *_: None)
    bare = tk.PairForest.from_brackets([FARMERS[0]], [FARMERS[1]])
    k = make("exact", 1)
    assert k(built, bare)[0, 0] == k.diag(bare)[0] == k.diag(built)[0]


def test_real_pairs_keep_the_order_of_the_three_kernels(shared_data):
    with gzip.open(shared_data / "snli" / "dev.tsv.gz", "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in itertools.islice(file, 60)]
    columns = [i for i, cell in enumerate(rows[0]) if cell.startswith("(ROOT")]
    assert len(columns) == 2
    x = tk.PairForest.anchored(*([row[i] for row in rows] for i in columns))
    exact, paper, best = (make(method)(x) for method in METHODS)
    assert (paper <= exact * (1 + 1e-9)).all()
    assert (best <= exact * (1 + 1e-9)).all()
    assert (paper < exact * (1 - 1e-9)).any()
    assert np.linalg.eigvalsh(exact).min() > -1e-10 * exact.max()
    assert len(np.unique(exact)) > 100


# --- Parameters ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        *[("decay", value) for value in (0.0, -0.4, 1.5, float("nan"), float("inf"))],
        ("decay", "0.4"),
        *[("method", value) for value in ("", "Exact", "kmax", None, 3)],
        *[("max_constraints", value) for value in (0, -1, 1.5, "many", None)],
        ("normalize", "yes"),
    ],
)
def test_a_wrong_parameter_is_refused_by_name(parameter, value):
    with pytest.raises(WRONG, match=parameter):
        tk.PairKernel(**{parameter: value}).diag([("(a)", "(b)")])


def test_defaults_are_those_of_the_contract():
    k = tk.PairKernel()
    assert (k.decay, k.method, k.normalize) == (0.4, "exact", False)
    assert k.max_constraints == 100_000
    with pytest.raises(TypeError):
        tk.PairKernel(0.4, "exact")


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"decay": 1.0},
        {"method": "paper", "normalize": True},
        {"decay": 0.25, "method": "max", "max_constraints": 7},
    ],
)
def test_parameters_are_kept_printed_and_pickled(parameters):
    k = tk.PairKernel(**parameters)
    for parameter, value in parameters.items():
        assert getattr(k, parameter) == value
        with pytest.raises(AttributeError):
            setattr(k, parameter, value)
    names = {**vars(tk), "tk": tk, "treekernel_rs": tk}
    twins = [eval(repr(k), names), copy.copy(k), pickle.loads(pickle.dumps(k))]
    for twin in twins:
        assert (twin, repr(twin)) == (k, repr(k))
    assert k != tk.PairKernel(0.7)
    assert k != tk.SubsetTreeKernel(k.decay)


@every_method
def test_what_is_no_forest_of_pairs_is_refused(method):
    k, x = make(method), read(random_pairs(2))
    for wrong in (5, ["(a b)"], tk.Forest.from_brackets(["(a b)"]), None):
        with pytest.raises(WRONG):
            k(wrong)
        with pytest.raises(WRONG):
            k.pair(x[0], wrong)


def test_the_limit_s_error_is_one_that_can_be_caught_by_type():
    assert issubclass(tk.pairs.ConstraintLimitError, Exception)
    assert not issubclass(tk.pairs.ConstraintLimitError, OverflowError)
