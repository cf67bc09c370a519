"""Pairs and their kernels from Python: reading, indexing, matrices, errors, signals."""

from __future__ import annotations

import copy
import doctest
import gzip
import pickle
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from interrupts import seconds_until_interrupted

import treekernel_rs as tk
from treekernel_rs import _core

LEFT = [
    "(A:1 (B:1 B:1 B:2) (C:1 C:1 C:2))",
    "(A:1 (B:1 B:1 B:2) (C:1 C:1 C:3))",
    "(A:1 (B:1 B:1 B:2) x)",
]
RIGHT = [
    "(I:1 (M:1 M:2 M:1) (N:1 N:2 N:1))",
    "(I:1 (M:1 M:3 M:1) (N:1 N:2 N:1))",
    "(I:1 (M:1 M:3 M:1) (N:1 N:2 N:1))",
]
METHODS = ["exact", "paper", "max", "max_enumerated"]


@pytest.fixture
def pairs() -> tk.PairForest:
    return tk.PairForest.from_brackets(LEFT, RIGHT)


def hard(n: int = 30) -> list[tuple[str, str]]:
    """Two pairs whose kernel counts the matchings of a complete bipartite graph."""
    ids = [[k // n for k in range(n * n)], [k % n for k in range(n * n)]]
    trees = (" ".join(f"(L{k} (x:{i}))" for k, i in enumerate(of)) for of in ids)
    return [(f"(R {tree})", "(Z z)") for tree in trees]


@pytest.mark.parametrize(
    "cls", [_core.PairForest, _core.Pair, _core.ConstraintLimitError]
)
def test_examples_of_the_compiled_classes_run(cls: type) -> None:
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = finder.find(cls, cls.__name__, module=False, globs={})
    examples = [test for test in found if test.examples]
    assert examples
    for test in examples:
        assert doctest.DocTestRunner(verbose=False).run(test).failed == 0


# --- Pair forests -------------------------------------------------------------------


def test_indexing_is_that_of_forests(pairs: tk.PairForest) -> None:
    assert len(pairs) == 3
    assert pairs[0] == pairs[-3] != pairs[1]
    assert pairs[0].left == LEFT[0]
    assert pairs[0].right == RIGHT[0]
    assert str(pairs[1]) == f"{LEFT[1]} | {RIGHT[1]}"
    assert [str(pair) for pair in pairs] == [str(pairs[i]) for i in range(3)]
    for index in [
        slice(1, None),
        [1, 2],
        np.array([1, -1]),
        np.array([False, True, True]),
    ]:
        some = pairs[index]
        assert isinstance(some, tk.PairForest)
        assert some.to_brackets() == (LEFT[1:], RIGHT[1:])
    assert pairs[:0].to_brackets() == ([], [])
    for wrong in [3, -4, "1", 1.5, [0, 3], np.array([True])]:
        with pytest.raises(IndexError):
            pairs[wrong]


def test_forests_add_compare_copy_and_pickle(pairs: tk.PairForest) -> None:
    both = pairs[:1] + tk.PairForest.from_brackets(LEFT[1:], RIGHT[1:])
    assert both == pairs
    assert both != pairs[:2]
    assert pairs.__add__(3) is NotImplemented  # type: ignore[operator]
    renamed = tk.PairForest.from_brackets(
        [text.replace(":1", ":7") for text in LEFT], RIGHT
    )
    assert renamed != pairs
    assert copy.copy(pairs) is pairs
    assert copy.deepcopy(pairs) == pairs
    again = pickle.loads(pickle.dumps(pairs))
    assert again == pairs
    pair = pickle.loads(pickle.dumps(pairs[1]))
    assert pair == pairs[1]
    assert hash(pair) == hash(pairs[1])
    assert {pairs[0], pairs[0], pair} == {pairs[0], pairs[1]}
    assert repr(pairs) == "<PairForest: 3 pairs, 8 placeholders>"


def test_trees_without_placeholders_are_forests(pairs: tk.PairForest) -> None:
    assert isinstance(pairs.left, tk.Forest)
    assert pairs.left[2] == tk.Forest.from_brackets("(A (B B B) x)")[0]
    assert pairs.right.to_brackets()[0] == "(I (M M M) (N N N))"
    assert pairs.n_placeholders.tolist() == [2, 3, 3]
    assert pairs[1].placeholders == [1, 2, 3]


def test_labels_with_separators_are_read_as_said() -> None:
    pairs = tk.PairForest.from_brackets(
        ["(S (: :) (N http://x) (T 10:30:-) (T:2 10:30) (x: y:))"], ["(S \\(:1)"]
    )
    assert pairs[0].placeholders == [1, 2, 30]
    assert pairs.left.to_brackets() == [
        "(S (: :) (N http://x) (T 10:30) (T 10) (x: y:))"
    ]
    for separator in [":", "::", "#", "é"]:
        texts = pairs.to_brackets(separator=separator)
        assert tk.PairForest.from_brackets(*texts, separator=separator) == pairs


@pytest.mark.parametrize("separator", ["", " ", "(", "1", "-", "a--", "\\"])
def test_separators_that_cannot_be_read_back_are_refused(separator: str) -> None:
    with pytest.raises(ValueError, match="separator must be"):
        tk.PairForest.from_brackets(LEFT, RIGHT, separator=separator)
    with pytest.raises(ValueError, match="separator must be"):
        tk.PairForest.from_brackets(LEFT, RIGHT).to_brackets(separator=separator)


@pytest.mark.parametrize(
    ("left", "right", "place"),
    [
        (["(A a)", "(A"], ["(B b)"] * 2, ("left", 1, 1, 3, 2)),
        (["(A a)"], ["(B\n b"], ("right", 0, 2, 3, 5)),
        (["(A a)"], [b"(B \xff)"], ("right", 0, 1, 4, 3)),
        (["(A:4294967295 a)"], ["(B b)"], ("left", 0, 1, 4, 3)),
        (["(A a)", "(é:5000000000)"], ["(B b)"] * 2, ("left", 1, 1, 4, 4)),
    ],
)
def test_errors_of_text_name_side_and_place(
    left: list[Any], right: list[Any], place: tuple[Any, ...]
) -> None:
    with pytest.raises(tk.ParseError) as caught:
        tk.PairForest.from_brackets(left, right)
    error = caught.value
    got = (error.side, error.tree, error.line, error.column, error.offset)
    assert got == place
    with pytest.raises(tk.ParseError) as caught:
        tk.Forest.from_brackets("(")
    assert caught.value.side is None


def test_sides_of_different_lengths_and_types_are_refused() -> None:
    with pytest.raises(ValueError, match="right has 1 entries, expected 3"):
        tk.PairForest.from_brackets(LEFT, RIGHT[:1])
    with pytest.raises(
        TypeError, match="right: tree 1: expected str or bytes, got int"
    ):
        tk.PairForest.from_brackets(LEFT[:2], [RIGHT[0], 3])  # type: ignore[list-item]


# --- Anchoring ----------------------------------------------------------------------

COW = ["(ROOT (S (NP-SBJ (DT The) (NN cow)) (VP (VBZ eats))))"]
COWS = ["(S (NP (NNS Cows)) (VP (MD may) (VP (VB eat))))"]


def test_anchored_links_words_and_passes_links_up_to_phrases() -> None:
    pairs = tk.PairForest.anchored(COW, tk.Forest.from_brackets(COWS))
    assert pairs[0].left == "(S:2 (NP:1 (DT The) (NN:1 cow)) (VP:2 (VBZ:2 eats)))"
    assert (
        pairs[0].right == "(S:2 (NP:1 (NNS:1 Cows)) (VP:2 (MD may) (VP:2 (VB:2 eat))))"
    )


def test_head_rules_and_match_can_be_replaced() -> None:
    asked = []

    def last(label: str, children: list[tuple[str, str]]) -> int:
        asked.append((label, children))
        return -1

    def first_letter(word: str, tag: str) -> str | None:
        return word[0].lower() if tag.startswith("NN") else None

    pairs = tk.PairForest.anchored(COW, COWS, head_rules=last, match=first_letter)
    assert pairs[0].left == "(S (NP:1 (DT The) (NN:1 cow)) (VP (VBZ eats)))"
    assert ("NP", [("DT", "The"), ("NN", "cow")]) in asked
    rules = {"NP": [("left", ["DT"])], "S": []}
    pairs = tk.PairForest.anchored(COW, COWS, head_rules=rules)
    assert pairs[0].left == "(S:2 (NP (DT The) (NN:1 cow)) (VP:2 (VBZ:2 eats)))"


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"head_rules": 3}, TypeError, "head_rules must be a callable, or map"),
        ({"head_rules": {"NP": 3}}, TypeError, "head_rules must be"),
        ({"head_rules": {"NP": [("left", "NN", 3)]}}, TypeError, "head_rules must be"),
        ({"head_rules": {"NP": [("up", ["NN"])]}}, ValueError, "got 'up'"),
        ({"head_rules": lambda _label, _below: 7}, ValueError, "got 7 for"),
        ({"head_rules": lambda _label, _below: 1 / 0}, ZeroDivisionError, None),
        ({"match": "x"}, TypeError, "match must be callable"),
        ({"match": lambda _word, _tag: 3}, TypeError, "return a str or None, got int"),
        ({"match": lambda _word, _tag: 1 / 0}, ZeroDivisionError, None),
    ],
)
def test_wrong_rules_are_refused(
    options: dict[str, Any], error: type[Exception], match: str | None
) -> None:
    with pytest.raises(error, match=match):
        tk.PairForest.anchored(COW, COWS, **options)


# --- Kernels ------------------------------------------------------------------------


def test_parameters_are_remembered_and_compared() -> None:
    k = tk.PairKernel(0.3, method="paper", normalize=True, max_constraints=7)
    assert eval(repr(k), {"PairKernel": tk.PairKernel}) == k
    assert repr(tk.PairKernel()) == "PairKernel(0.4)"
    assert pickle.loads(pickle.dumps(k)) == k
    assert copy.deepcopy(k) == k
    assert k != tk.PairKernel(0.3)
    assert k != tk.SubsetTreeKernel(0.3)
    assert (k.decay, k.method, k.max_constraints) == (0.3, "paper", 7)
    with pytest.raises(AttributeError, match="attributes cannot be set"):
        k.decay = 1.0


@pytest.mark.parametrize(
    ("parameters", "error", "match"),
    [
        ({"decay": 0.0}, ValueError, "decay must be above 0 and at most 1, got 0"),
        ({"decay": "x"}, TypeError, "decay must be a number"),
        ({"method": "best"}, ValueError, "method must be 'exact', .*got 'best'"),
        ({"method": None}, TypeError, "method must be a str"),
        (
            {"max_constraints": 0},
            ValueError,
            "max_constraints must be at least 1, got 0",
        ),
        ({"max_constraints": -5}, ValueError, "max_constraints must be at least 1"),
        ({"max_constraints": 1.5}, TypeError, "max_constraints must be an int"),
        ({"max_constraints": True}, TypeError, "max_constraints must be an int"),
        ({"normalize": "yes"}, ValueError, "normalize must be True or False"),
    ],
)
def test_wrong_parameters_are_refused(
    parameters: dict[str, Any], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        tk.PairKernel(**parameters).diag([("(a)", "(b)")])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("normalize", [False, True])
def test_every_way_in_gives_the_same_values(
    pairs: tk.PairForest, method: str, normalize: bool, tmp_path: Path
) -> None:
    k = tk.PairKernel(0.4, method=method, normalize=normalize)
    expected = np.array([[k.pair(p, q) for q in pairs] for p in pairs])
    matrix = k(pairs)
    np.testing.assert_allclose(matrix, expected, rtol=1e-12)
    assert np.array_equal(matrix, matrix.T)
    np.testing.assert_allclose(k(pairs, pairs[1:]), expected[:, 1:], rtol=1e-12)
    listed = list(zip(LEFT, RIGHT, strict=True))
    np.testing.assert_allclose(k(listed, list(pairs)), expected, rtol=1e-12)
    np.testing.assert_allclose(k.diag(pairs), np.diag(expected), rtol=1e-12)
    for n_jobs in [1, 2, None]:
        assert np.array_equal(k.gram(pairs, n_jobs=n_jobs), matrix)
    single = k.gram(pairs, dtype=np.float32)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, expected, rtol=1e-6)
    out = np.memmap(tmp_path / "out", dtype=np.float32, mode="w+", shape=(3, 3))
    told: list[tuple[int, int]] = []
    assert k.gram(pairs, out=out, progress=lambda *done: told.append(done)) is out
    assert np.array_equal(out, single)
    assert told[-1] == (3, 3)
    assert k(pairs[:0]).shape == (0, 0)
    assert k(pairs[:0], pairs).shape == (0, 3)


def test_values_do_not_depend_on_what_else_is_there() -> None:
    # Equal up to names: computed once, and equal to the last bit.
    renamed = [text.replace(":2", ":9") for text in LEFT]
    other = [text.replace(":2", ":9") for text in RIGHT]
    k = tk.PairKernel(0.4)
    both = tk.PairForest.from_brackets(LEFT + renamed, RIGHT + other)
    matrix = k(both)
    assert np.array_equal(matrix[:3, :3], matrix[3:, 3:])
    assert np.array_equal(matrix[:3, :3], k(both[:3]))


def test_pair_kernels_without_productions_have_kernels_of_zero_and_a_warning() -> None:
    pairs = [("(A a)", "(x)"), (LEFT[0], RIGHT[0])]
    k = tk.PairKernel(normalize=True)
    with pytest.warns(RuntimeWarning, match="1 of the pairs of X with themselves is 0"):
        matrix = k(pairs)
    assert matrix.tolist() == [[0.0, 0.0], [0.0, 1.0]]
    with pytest.warns(RuntimeWarning, match="pairs of X"):
        assert k.diag(pairs).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("wrong", [3, "(A a)", ["(A a)"], [("(A a)",)], [(1, 2)], None])
def test_what_are_no_pairs_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError):
        tk.PairKernel()(wrong)


def test_overflow_names_the_pairs_and_normalised_values_survive_it() -> None:
    wide = f"(S {'(A a) ' * 1200})"
    pairs = [("(A b)", "(Z z)"), (wide, "(Z z)")]
    with pytest.raises(OverflowError, match="1 and tree 1"):
        tk.PairKernel(1.0)(pairs)
    assert tk.PairKernel(1.0, normalize=True)(pairs)[1, 1] == 1.0


# --- The worst case -----------------------------------------------------------------


@pytest.mark.parametrize("method", ["exact", "paper", "max"])
def test_the_worst_case_ends_within_a_second_in_the_named_error(method: str) -> None:
    p, q = hard()
    start = time.process_time()  # others may work on the machine
    with pytest.raises(
        tk.pairs.ConstraintLimitError, match="max_constraints=100000"
    ) as caught:
        tk.PairKernel(method=method).pair(p, q)
    assert time.process_time() - start < 3  # a second where nobody else works
    assert isinstance(caught.value, ValueError)
    assert caught.value.pairs == [(0, 0)]
    assert caught.value.result is None
    with pytest.raises(tk.pairs.ConstraintLimitError):
        tk.PairKernel(method=method).constraints(p, q)


@pytest.mark.parametrize("normalize", [False, True])
def test_the_other_values_of_a_matrix_are_not_lost(normalize: bool) -> None:
    pairs = [*hard(), *zip(LEFT, RIGHT, strict=True)]
    k = tk.PairKernel(0.05, normalize=normalize)
    out = np.zeros((5, 5), dtype=np.float32)
    with pytest.raises(tk.pairs.ConstraintLimitError) as caught:
        k.gram(pairs, out=out)
    assert caught.value.result is out
    assert caught.value.max_constraints == 100_000
    missing = np.isnan(out)
    assert np.array_equal(missing, missing.T)
    where = list(zip(*np.nonzero(np.tril(missing)), strict=True))
    assert caught.value.pairs == where
    assert (1, 0) in where
    np.testing.assert_allclose(out[2:, 2:], k(pairs[2:]), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.linux
def test_memory_of_the_worst_case_is_bounded() -> None:
    script = (
        "import resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import treekernel_rs as tk, test_pair_kernels\n"
        "for method in ['exact', 'paper', 'max']:\n"
        "    try:\n"
        "        tk.PairKernel(method=method).pair(*test_pair_kernels.hard(40))\n"
        "    except tk.pairs.ConstraintLimitError:\n"
        "        print('limit')\n"
        "tree = ''.join(f'(A (x:{k}))' for k in range(1500))\n"
        "try:\n"
        "    tk.PairKernel().pair((f'(R {tree})', '(Z z)'), (f'(S {tree})', '(Z z)'))\n"
        "except tk.pairs.ConstraintLimitError:\n"
        "    print('limit')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["limit"] * 4


@pytest.mark.slow
@pytest.mark.posix
@pytest.mark.parametrize("normalize", [False, True])
def test_ctrl_c_ends_a_long_value_within_a_second(normalize: bool) -> None:
    script = (
        "import signal, sys, time\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import treekernel_rs as tk, test_pair_kernels\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"k = tk.PairKernel(max_constraints=10**7, normalize={normalize})\n"
        "print('ready', flush=True)\n"
        "try:\n"
        "    k.gram(test_pair_kernels.hard(), n_jobs=2)\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted', time.time(), time.process_time(), flush=True)\n"
    )
    assert seconds_until_interrupted(script, after=1) < 1.2


# --- Real pairs ---------------------------------------------------------------------


def test_kernels_of_real_pairs_are_positive_semidefinite(shared_data: Path) -> None:
    with gzip.open(shared_data / "snli" / "dev.tsv.gz", "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file][:200]
    pairs = tk.PairForest.anchored([row[1] for row in rows], [row[2] for row in rows])
    again = tk.PairForest.from_brackets(*pairs.to_brackets())
    assert again == pairs
    for decay in [0.4, 1.0]:
        exact = tk.PairKernel(decay)(pairs)
        unit = tk.PairKernel(decay, normalize=True)(pairs)
        assert np.linalg.eigvalsh(unit)[0] > -1e-12
        for method in ["paper", "max"]:
            other = tk.PairKernel(decay, method=method)(pairs)
            assert (other <= exact * (1 + 1e-12)).all()
            assert (other < exact * (1 - 1e-9)).any()


@pytest.mark.parametrize("decay", [1e-160, 1e-200])
def test_normalised_values_below_floats_are_computed(decay):
    left = ["(S (A a) (B b))", "(S (A a) (B c))"]
    right = ["(S (A a) (B b))", "(S (A a) (C c))"]
    pairs = tk.PairForest.from_brackets(left, right)
    # Fragments of two productions weigh nothing next to those of one.
    expected = tk.PairKernel(1e-100, normalize=True)(pairs)
    found = tk.PairKernel(decay, normalize=True)(pairs)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert 0 < found[0, 1] < 1
