"""What was found by attack on forests, labels, readers and trees that are objects.

What could end the process runs in one of its own. "In time" is: a signal that comes while
a call runs is answered within a second, by a call that would take longer.
"""

import contextlib
import itertools
import pickle
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import treekernel_rs as tk


def tower(times: int) -> tk.Forest:
    """Return a tree that holds itself twice, so many times over."""
    forest = tk.Forest.from_brackets("(x)")
    for _ in range(times):
        forest = tk.Forest.from_trees([("S", [forest[0], forest[0]])])
    return forest


def python(code: str, megabytes: int | None = None) -> str:
    """Run code with so much memory beyond what the imports take; return its output."""
    limit = ""
    if megabytes is not None:
        limit = (
            "import resource\n"
            "pages = int(open('/proc/self/statm').read().split()[0])\n"
            f"most = pages * resource.getpagesize() + ({megabytes} << 20)\n"
            "resource.setrlimit(resource.RLIMIT_AS, (most, most))\n"
        )
    head = "import itertools\nimport numpy as np\nimport treekernel_rs as tk\n"
    done = subprocess.run(
        [sys.executable, "-c", head + limit + code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


class Rang(Exception):
    pass


@contextlib.contextmanager
def answered_in_time(after: float = 0.1):
    """Let a signal ring during a call, and expect its exception within a second."""

    def ring(*_):
        raise Rang

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, after)
    start, used = time.perf_counter(), time.process_time()
    try:
        yield
    except Rang:
        # Where others work on the machine the clock alone says little.
        took = min(time.perf_counter() - start, time.process_time() - used)
        assert took < after + 1
    else:
        pytest.fail("the call ended before the signal")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# --- Trees that share ---------------------------------------------------------------


def test_a_tree_doubled_seventy_times_is_counted_kept_and_pickled():
    forest = tower(70)
    assert forest.n_nodes.tolist() == [2**63 - 1]
    assert tower(61).n_nodes.tolist() == [2**62 - 1]
    assert forest[0].n_nodes == 2**64 - 1
    assert "at least 18,446,744,073,709,551,615 nodes" in repr(forest)
    data = pickle.dumps([forest, forest[0]])
    assert len(data) < 10_000
    assert pickle.loads(data) == [forest, forest[0]]
    assert hash(pickle.loads(data)[1]) == hash(forest[0])
    assert (forest + forest).unique().inverse.tolist() == [0, 0]


@pytest.mark.parametrize("times", [40, 70])
@pytest.mark.parametrize(
    "call",
    [
        tk.Forest.to_arrays,
        tk.Forest.to_brackets,
        tk.Forest.subtree_ids,
        lambda f: str(f[0]),
        lambda f: tk.DagModel.from_dual(
            tk.SubtreeKernel(), ["(S x)"], [1.0]
        ).contributions(f[0]),
        lambda f: tk.PairForest.anchored(f, f),
        lambda f: tk.draw(f[0]),
    ],
)
def test_what_writes_out_every_node_refuses_with_both_numbers(times, call):
    with pytest.raises(ValueError, match=r"[\d,]{13,}.* (limit of|at most) [\d,]+"):
        call(tower(times))


def test_the_writer_refuses_before_it_opens_the_file(tmp_path):
    with pytest.raises(ValueError, match=r"\d{13,} bytes, above the limit of \d+"):
        tk.readers.write_svmlight_tk(tmp_path / "x", [1], tower(45))
    assert not (tmp_path / "x").exists()


def test_a_model_of_a_tree_doubled_seventy_times_is_pickled_as_it_is():
    """Normalised by a kernel that no float holds, it stands in the model as a whole."""
    forest = tower(70)
    model = tk.DagModel(tk.ElasticTreeKernel(normalize=True))
    model.add(forest, [2.0])
    data = pickle.dumps(model)
    assert len(data) < 20_000
    assert (
        pickle.loads(data).decision_function(forest).tolist()
        == model.decision_function(forest).tolist()
    )
    arrays = model.to_arrays()
    arrays["large_children"][-1] = 99
    with pytest.raises(ValueError, match=r"^large_trees: children\["):
        tk.DagModel.from_arrays(**arrays)


def test_a_fragment_that_no_float_can_weigh_is_an_error():
    model = tk.DagModel(tk.ElasticTreeKernel())
    model.add(tower(70), [1.0])
    with pytest.raises(ValueError, match=r"fragments\[0\]: expected a weight that a"):
        model.top_fragments(3)


def test_a_pickle_takes_no_more_than_the_forest():
    sentence = "(S (NP (D the) (N n{})) (VP (V sees) (NP (D the) (N n{}))))"
    texts = [sentence.format(k % 100, k % 93) for k in range(5_000)]
    forest = tk.Forest.from_brackets(texts)
    data = pickle.dumps(forest)
    assert len(data) < forest.nbytes
    assert pickle.loads(data) == forest


def test_a_forest_from_a_pickle_has_the_same_kernels_to_the_last_bit():
    random = np.random.default_rng(0)
    trees = [
        f"(S (A a{i}) (B (C c{j}) (A a{k})) (A a{j}))"
        for i, j, k in random.integers(0, 6, (60, 3))
    ]
    forest = tk.Forest.from_brackets(trees)
    again = pickle.loads(pickle.dumps(forest))
    for kernel in (tk.SubsetTreeKernel(0.3), tk.PartialTreeKernel(0.3)):
        assert (kernel(forest) == kernel(again)).all()


@pytest.mark.parametrize(
    "call", [tk.Forest.to_arrays, tk.Forest.to_brackets, tk.Forest.subtree_ids]
)
def test_what_is_written_out_answers_signals_in_time(call):
    forest = tower(27 if call is not tk.Forest.to_brackets else 25)
    with answered_in_time():
        call(forest)


# --- Signals while trees come in ----------------------------------------------------


@pytest.mark.slow
def test_arrays_answer_signals_in_time():
    n = 12_000_000
    labels = np.arange(n) % 1000
    parents = np.arange(n) - 1
    for names in (None, [str(k) for k in range(1000)]):
        with answered_in_time(0.3):
            tk.Forest.from_arrays(labels, parents, [0], names)


@pytest.mark.slow
@pytest.mark.parametrize("end", [b")", b"\xff"])
def test_one_large_tree_answers_signals_in_time(end):
    text = b"(S" + b" ".join(b"(A%d (B%d b))" % (k, k) for k in range(2_500_000))
    with answered_in_time():
        tk.Forest.from_brackets(text + end)


def test_a_fragment_answers_signals_in_time():
    wide = " ".join(f"w{i}" for i in range(500_000))
    for text in (f"(S {wide})", "(S" + " (A (B b) c)" * 300_000 + ")"):
        tree = tk.Forest.from_brackets(text)[0]
        with answered_in_time():
            tk.DistributedTrees(tk.SubsetTreeKernel(), 8192).fragment(tree)


@pytest.mark.parametrize(
    "call",
    [
        lambda endless: tk.Forest.from_trees([("S", endless)]),
        lambda endless: tk.Forest.from_trees(endless),
        lambda endless: tk.Forest.from_brackets(endless),
        lambda endless: tk.SubsetTreeKernel()(endless),
    ],
)
def test_what_never_ends_answers_signals_in_time(call):
    with answered_in_time():
        call(itertools.repeat("(a)"))


# --- Trees that are objects ---------------------------------------------------------


def test_children_may_be_made_as_they_are_asked_for():
    code = """
node = lambda d: ("x", (node(d - 1) for _ in range(1))) if d else "leaf"
forest = tk.Forest.from_trees([node(3), node(10), node(50)])
print(forest[0], [tree.depth for tree in forest])
"""
    assert python(code) == "(x (x (x leaf))) [4, 11, 51]\n"


def test_an_object_within_itself_is_still_refused():
    loop = ["x", []]
    loop[1].append(tuple(loop))
    children = []
    children.append(("a", children))
    with pytest.raises(ValueError, match="contains itself"):
        tk.Forest.from_trees([("a", children), tuple(loop)])


@pytest.mark.parametrize("name", ["label", "children"])
def test_an_error_of_the_users_property_comes_through(name):
    def fail(self):
        return self.misspelt

    members = {"label": "x", "children": (), name: property(fail)}
    with pytest.raises(AttributeError, match="misspelt"):
        tk.Forest.from_trees([type("Node", (), members)()])


@pytest.mark.slow
@pytest.mark.parametrize(
    "children",
    [
        "itertools.repeat('a')",
        "map(str, itertools.count())",
        "(('x', [str(k)]) for k in itertools.count())",
    ],
)
@pytest.mark.linux
def test_children_without_end_are_a_memory_error(children):
    code = f"""
forest = tk.Forest.from_brackets("(a)")
for _ in range(2):
    try:
        tk.Forest.from_trees([("S", {children})])
    except MemoryError as error:
        print("refused")
print(forest.to_brackets())
"""
    assert python(code, 60).split("\n")[:3] == ["refused", "refused", "['(a)']"]


# --- Sizes that the caller names ----------------------------------------------------


@pytest.mark.linux
def test_a_length_that_lies_is_not_believed():
    code = """
class Liar:
    def __len__(self):
        return 2**40
    def __iter__(self):
        return iter(["(a)", "(b)"])
print(tk.Forest.from_brackets(Liar()).to_brackets())
print(tk.SubsetTreeKernel()(Liar()).shape)
"""
    assert python(code, 500) == "['(a)', '(b)']\n(2, 2)\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "call",
    [
        "tk.Forest.from_brackets(text)",
        "tk.Forest.from_brackets([text])",
        "tk.Forest.from_arrays(labels, parents, [0])",
        "[f := tk.Forest.from_brackets('(a)')] + [f := f + f for _ in range(33)]",
        "tk.Forest.from_brackets('(a)')[np.broadcast_to(np.int64(0), 10**8)]",
    ],
)
@pytest.mark.linux
def test_no_memory_is_an_error(call):
    code = f"""
text = "(S" + "".join(f"(A{{k}} b)" for k in range(500_000)) + ")"
labels, parents = np.arange(2_000_000), np.arange(2_000_000) - 1
keep = np.ones(30 << 17)  # all that is left but a little
try:
    {call}
    print("done")
except MemoryError as error:
    print("refused")
del keep
print(tk.Forest.from_brackets("(S (A a))").to_brackets())
"""
    assert python(code, 90) == "refused\n['(S (A a))']\n"


DEEP = """
import random

def chain(n):
    return "(A " * n + "x" + ")" * n

def binary(inner, seed):
    "A random binary tree of two labels."
    draw, text, todo = random.Random(seed), [], [inner]
    while todo:
        inner = todo.pop()
        if inner is None:
            text.append(")")
            continue
        text.append("(" + draw.choice("ab"))
        left = draw.randrange(inner) if inner else 0
        todo += [None, inner - 1 - left, left] if inner else [None]
    return "".join(text)

chains, trees = [chain(6000), chain(6001)], [binary(6000, 1), binary(6000, 2)]
partial, elastic = tk.PartialTreeKernel(), tk.ElasticTreeKernel(1e-9)

def score(kernel, trees):
    model = tk.DagModel(kernel)
    model.add(trees[:1], [1.0])
    return model.decision_function(trees[1:])[0]
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "other"),
    [
        ("partial.pair(*chains)", "score(partial, chains)"),
        ("score(elastic, trees)", "elastic.pair(*trees)"),
    ],
    ids=["pair of the partial kernel", "score of the elastic kernel"],
)
@pytest.mark.linux
def test_deep_trees_take_no_quadratic_memory(call, other):
    # A number for each pair of equal labels: 288 MB for the chains, 144 for the trees.
    value = float(python(DEEP + f"print({call})", 64))
    assert value == pytest.approx(float(python(DEEP + f"print({other})")), rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["elastic", "tk.PartialTreeKernel(0.4, 0.1)"])
@pytest.mark.linux
def test_too_little_memory_for_large_trees_is_an_error(kernel):
    # Two trees of 48,000 nodes, of which values of the elastic kernel take 200 MB.
    code = f"""
import resource
kernel = {kernel}
trees = tk.Forest.from_brackets([binary(24000, seed) for seed in (1, 2)])
model = tk.DagModel(kernel)
model.add(trees[:1], [1.0])
calls = [
    lambda: kernel.pair(trees[0], trees[1]),
    lambda: kernel.gram(trees, n_jobs=1),
    lambda: kernel.diag(trees),
    lambda: model.decision_function(trees),
    lambda: model.contributions(trees[1]),
]
pages = int(open("/proc/self/statm").read().split()[0])
most = pages * resource.getpagesize() + (12 << 20)
hard = resource.getrlimit(resource.RLIMIT_AS)[1]
for call in calls:
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    try:
        call()
    except MemoryError:
        print("refused", end=" ")
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    call()
"""
    assert python(DEEP + code).split() == ["refused"] * 5


@pytest.mark.slow
@pytest.mark.parametrize("left", range(8, 27, 2))
@pytest.mark.linux
def test_little_memory_for_large_trees_ends_in_a_value_or_an_error(left):
    code = f"""
import resource
kernel = tk.SubsetTreeKernel(0.4)
trees = tk.Forest.from_brackets([binary(24000, seed) for seed in (1, 2)])
model = tk.DagModel(kernel)
model.add(trees[:1], [1.0])
calls = [
    lambda: kernel.pair(trees[0], trees[1]),
    lambda: kernel.gram(trees, n_jobs=1),
    lambda: kernel.diag(trees),
    lambda: model.decision_function(trees),
    lambda: model.contributions(trees[1]),
    lambda: kernel.top_k(trees, k=1, n_jobs=1).values,
]
pages = int(open("/proc/self/statm").read().split()[0])
most = pages * resource.getpagesize() + ({left} << 20)
hard = resource.getrlimit(resource.RLIMIT_AS)[1]
for call in calls:
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    try:
        found = call()
    except MemoryError:
        found = None
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    assert found is None or np.array_equal(found, call())
    print("refused" if found is None else "done", end=" ")
"""
    ends = python(DEEP + code).split()
    assert len(ends) == 6
    assert left > 8 or "refused" in ends


def test_an_index_beyond_int64_is_refused():
    labels = np.array([0, 2**64 - 1], dtype=np.uint64)
    message = (
        r"labels\[1\]: expected at most 9223372036854775807, got 1844674407370955161"
    )
    for names in (None, ["a", "b"]):
        with pytest.raises(ValueError, match=message):
            tk.Forest.from_arrays(labels, [-1, 0], [0], names)
    with pytest.raises(ValueError, match=r"parents\[0\]: expected at most"):
        tk.Forest.from_arrays([0, 0], labels[::-1], [0], ["a"])


def test_a_tampered_pickle_names_the_array():
    make, values = tk.Forest.from_brackets("(S (A a) (A a)) (A a)").__reduce__()
    keys = ["labels", "ends", "children", "roots", "names", "name_offsets"]
    for place, wrong in itertools.product(range(6), (-1, 2**31, 2**40, 2**64 - 1)):
        array = np.array(values[place]).astype(np.uint64)
        array[-1] = np.array(wrong).astype(np.uint64)
        changed = (*values[:place], array, *values[place + 1 :])
        with pytest.raises((ValueError, TypeError), match=rf"^{keys[place]}\b"):
            make(*changed)
    assert make(*values).to_brackets() == ["(S (A a) (A a))", "(A a)"]


# --- Readers ------------------------------------------------------------------------


def test_a_label_beyond_a_float_is_an_error(tmp_path):
    path = tmp_path / "x"
    path.write_text("1 |BT| (a) |ET|\n1e999 |BT| (a) |ET|\n")
    with pytest.raises(tk.ParseError, match=r"line 2, column 1 .* below 1.8e308"):
        tk.readers.svmlight_tk(path)


SQUARES = {
    "SVM-Light trees": ("1 " + "|BT| (a) " * 40_000 + "|ET|\n", "1 |BT| (a) |ET|\n"),
    "SVM-Light trees, last": ("", "1 |BT| (a) |ET|\n", "1 " + "|BT| (a) " * 40_000),
    "SVM-Light vectors": ("1 " + "1:1 |BV| " * 40_000 + "|EV|\n", "1 1:1\n"),
    "KeLP trees": ("|BT|(a)|ET| " * 30_000 + "\n", "|BT|(a)|ET|\n"),
    "KeLP strings": ("|BS|a|ES| " * 30_000 + "\n", "|BS|a|ES|\n"),
    "KeLP numbers": (
        " ".join(f"p{k}:1" for k in range(30_000)) + "|BS|a|ES|\n",
        "|BS|a|ES|\n",
    ),
    "KeLP dense": ("|BDV:d|" + "1 " * 99_999 + "|EDV|\n", "|BS|a|ES|\n"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SQUARES)
def test_a_small_file_cannot_ask_for_a_square_of_missing_trees(tmp_path, name):
    wide, narrow, *last = SQUARES[name]
    end = last[0] + "|ET|\n" if last else ""
    path = tmp_path / "x"
    path.write_text(wide + narrow * 20_000 + end)
    read = tk.readers.klp if name.startswith("KeLP") else tk.readers.svmlight_tk
    with pytest.raises(
        tk.ParseError, match=r"expected at most 4,194,304 .* got [\d,]+"
    ):
        read(path)


def test_many_columns_that_are_filled_are_read(tmp_path):
    path = tmp_path / "x"
    path.write_text(("1 " + "|BT| (a) " * 300 + "|ET|\n") * 20 + "1 |BT| (a) |ET|\n")
    data = tk.readers.svmlight_tk(path)
    assert (len(data.forests), len(data.forests[299])) == (300, 21)
    assert data.empty[299].tolist() == [False] * 20 + [True]


# --- numpy --------------------------------------------------------------------------


def test_numpy_is_loaded_at_import_and_not_by_a_call():
    code = """
import sys
for name in [name for name in sys.modules if "multiarray" in name]:
    sys.modules[name] = None
print(tk._core.Forest.from_brackets("(a)").n_nodes.tolist())
"""
    assert python(code) == "[1]\n"
