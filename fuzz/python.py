# ruff: noqa: D102, D103 (a function is a target, its name says of what)
"""The part that lives in Python, under fuzz: readers, drawing, objects, pickles.

    python fuzz/python.py [libFuzzer's options] [folders]

The first byte picks a target, the others decide as in the Rust targets: readers get
texts of their own tokens or raw bytes, pickles are those of good objects with arrays
tampered with. Bad input must end in ValueError, TypeError or OSError; what is read must
be whole. With atheris the readers' and the drawing's coverage guides the fuzzer; without
it inputs are mutations of the kept ones, blindly.
"""

from __future__ import annotations

import contextlib
import copy
import pickle
import random
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np

try:
    import atheris
except ImportError:
    atheris = None

with (
    atheris.instrument_imports(["treekernel_rs"])
    if atheris
    else contextlib.nullcontext()
):
    import treekernel_rs as tk
    from treekernel_rs import readers

if TYPE_CHECKING:
    from collections.abc import Callable

EXPECTED = (ValueError, TypeError, OSError, IndexError, OverflowError, MemoryError)
FOLDER = Path(tempfile.mkdtemp(prefix="fuzz-"))

TOKENS = [
    *(
        b"|BT|",
        b"|ET|",
        b"|BV|",
        b"|EV|",
        b"1 ",
        b"-1 ",
        b"0.5 ",
        b"1e999 ",
        b" ",
        b"\n",
    ),
    *(b"(a b)", b"(a (b c))", b"(", b")", b"a", b"\\e", b"\\(", b"1:1 ", b"2:0.5 "),
    *(b"9999999:1 ", b"|<|", b"|,|", b"|>|", b"|BT:x|", b"|BV:y|", b"|BDV|", b"|EDV|"),
    *(b"|BS|", b"|ES|", b"|BSQ|", b"|ESQ|", b"|BG|", b"|EG|", b"nan ", b"\r\n", b"\t"),
    *(b"-NONE-", b"NP-SBJ-1", b"(NP-SBJ (-NONE- *))", b"( (S (NP x)))", b"-LRB-", b"#"),
    *("\ufeff".encode(), "\xa0".encode(), "é".encode(), b"\xff", b"\0", b"1,2;3", b"_"),
    *(b"NP:1", b":", b"::", b"a:4294967296", b"a:-", b"(NN:1 dog)", b"\x1f\x8b"),
]
CHARACTERS = (
    "ab<>&\"'\0\x01\x1b\n\t ]]>\ud800\udfff\ufffe\uffff\u202e\u0301é漢😀\x7f\x85"
)
VALUES = [0, 1, -1, 2, 3, 7, 2**31 - 1, 2**32, 2**40, 2**63 - 1, -(2**63)]
FLOATS = [0.0, 1.0, -1.0, 0.5, float("nan"), float("inf"), 1e308, -1e308, 5e-324]


class Source:
    """The bytes that are left to decide by; after the last one, zeros."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1] if self.at <= len(self.data) else 0

    def pick(self, items: Any) -> Any:
        return items[self.byte() % len(items)]

    def rest(self) -> bytes:
        """Give what is left: as it is, or a token for each byte."""
        is_raw, rest = self.byte() % 4 == 0, self.data[self.at :]
        self.at = len(self.data)
        return rest if is_raw else b"".join(TOKENS[b % len(TOKENS)] for b in rest)

    def label(self) -> str:
        return "".join(self.pick(CHARACTERS) for _ in range(self.byte() % 6))

    def tree(self, budget: int = 12) -> Any:
        """Nested tuples; by an explicit stack, a node for each byte."""
        root: tuple[str, list[Any]] = (self.label(), [])
        path = [root]
        for _ in range(budget):
            op = self.byte()
            del path[max(1, len(path) - op % 3) :]
            child = self.label() if op & 64 else (self.label(), [])
            path[-1][1].append(child)
            if isinstance(child, tuple):
                path.append(child)
            if self.at >= len(self.data):
                break
        return root


def file_of(data: bytes) -> Path:
    path = FOLDER / "input"
    path.write_bytes(data)
    return path


def same(a: Any, b: Any) -> bool:
    """Compare what readers give: arrays, forests, rows and plain values."""
    if isinstance(a, np.ndarray):
        return bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))
    if isinstance(a, readers.SparseRows):
        return all(
            same(getattr(a, n), getattr(b, n)) for n in ("indptr", "indices", "data")
        )
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def svmlight(source: Source) -> None:
    data = readers.svmlight_tk(file_of(source.rest()))
    repr(data)
    path = FOLDER / "written"
    try:
        readers.write_svmlight_tk(path, data.labels, data.forests, data.vectors)
    except ValueError:
        return  # the format has no escapes, and infinity no place in it
    again = readers.svmlight_tk(path)
    assert same(again.labels, data.labels), (again.labels, data.labels)
    assert same(again.forests, data.forests), (again.forests, data.forests)
    assert len(again) == len(data)


def kelp(source: Source) -> None:
    data = readers.klp(file_of(source.rest()))
    repr(data)
    copy.deepcopy(data)


def penn(source: Source) -> None:
    flags = source.byte()
    forest = readers.penn(
        file_of(source.rest()),
        strip_functions=bool(flags & 1),
        drop_traces=bool(flags & 2),
        root=[None, "", "ROOT", "a b"][flags >> 2 & 3],
        unescape=bool(flags & 16),
        max_depth=[None, 1, 3, 100][flags >> 5 & 3],
    )
    assert tk.Forest.from_brackets(forest.to_brackets()) == forest or not len(forest)


def objects(source: Source) -> None:
    forest = tk.Forest.from_trees([source.tree()])
    assert tk.Forest.from_brackets(forest.to_brackets()) == forest
    assert pickle.loads(pickle.dumps(forest)) == forest


def drawing(source: Source) -> None:
    flags = source.byte()
    tree = source.tree()
    try:
        n = tk.Forest.from_trees([tree])[0].n_nodes
    except EXPECTED:
        return
    weights = [source.pick(FLOATS) for _ in range(n)] if flags & 1 else None
    scale = source.pick([None, 1.0, 1e-300, 1e300])
    picture = tk.draw(
        tree, weights, scale=scale, max_nodes=[300, 1, 2, 5][flags >> 1 & 3]
    )
    root = ElementTree.fromstring(picture.svg)
    assert root.tag.endswith("svg")
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    known = {
        "svg",
        "g",
        "rect",
        "text",
        "title",
        "path",
        "line",
        "style",
        "defs",
        "tspan",
    }
    known |= {"linearGradient", "stop"}
    assert tags <= known, tags - known


def pairs(source: Source) -> None:
    separator = source.pick([":", "::", "#", "", "-", "1", "é", "_"])
    sides = [source.rest().split(b"\n")]
    half = len(sides[0]) // 2
    left, right = sides[0][:half], sides[0][half : 2 * half]
    given = tk.PairForest.from_brackets(left, right, separator=separator)
    again = tk.PairForest.from_brackets(
        *given.to_brackets(separator="::"), separator="::"
    )
    assert again == given
    assert pickle.loads(pickle.dumps(given)) == given
    tk.PairForest.anchored(given.left, given.right)


def good_objects() -> list[Any]:
    """One object of every class that can be pickled."""
    forest = tk.Forest.from_brackets(["(S (A a) (B b))", "(S (A a) (A a))", "(A a)"])
    kernels = [
        *(tk.SubsetTreeKernel(0.5), tk.SubtreeKernel(0.5, leaf_weight=1.0)),
        *(tk.PartialTreeKernel(), tk.ElasticTreeKernel(0.5, normalize=True)),
    ]
    made: list[Any] = [forest, forest[1], *kernels, tk.PairKernel()]
    for kernel in kernels:
        model = tk.DagModel(kernel, 2)
        model.add(forest, np.ones((3, 2)))
        made.append(model)
    for vote in ("last", "average", "vote"):
        plain = tk.Perceptron(kernels[0], vote=vote)
        plain.learn(forest, [1, -1, 1])
        poly = tk.PolynomialKernel()
        mixed = tk.Perceptron(kernels[2], vote=vote, vectors=poly, mix=0.5)
        mixed.learn(forest, [1, -1, 1], np.eye(3))
        made += [plain, mixed, poly]
    two = tk.PairForest.from_brackets(["(A:1 a)"] * 2, ["(B:1 b)"] * 2)
    made += [two, two[0], tk.DistributedTrees(kernels[0], 64)]
    return made


def tampered(value: Any, source: Source) -> Any:
    """Change one entry of one array, its length or its type; other values as they come."""
    if isinstance(value, dict) and value:
        name = source.pick(sorted(value))
        if source.byte() > 250:
            return {k: v for k, v in value.items() if k != name}
        return {**value, name: tampered(value[name], source)}
    if isinstance(value, np.ndarray) and value.dtype.kind in "iuf":
        flat, op = value.copy(), source.byte() % 8
        if op == 0:
            return flat[:-1]
        if op == 1:
            return np.concatenate([flat, flat[-1:]])
        if op == 2:
            return flat.astype(
                source.pick([np.float32, np.int8, np.uint64, np.float64])
            )
        if op == 3:
            return flat[None]
        if flat.size:
            new = source.pick(FLOATS if flat.dtype.kind == "f" else VALUES)
            with contextlib.suppress(OverflowError):
                flat.flat[source.byte() % flat.size] = new
        return flat
    if isinstance(value, (tuple, list)) and value:
        at = source.byte() % len(value)
        changed = [tampered(v, source) if i == at else v for i, v in enumerate(value)]
        return type(value)(changed)
    if isinstance(value, (bool, int, float, str, type(None))) or (
        isinstance(value, np.ndarray) and not value.ndim
    ):
        return source.pick(
            [None, 0, -1, 2**70, 0.5, float("nan"), "", "(a", "x" * 9, [], ()]
        )
    return value


GOOD = good_objects()
FOREST = GOOD[0]


def pickles(source: Source) -> None:
    good = source.pick(GOOD)
    make, arguments, *_ = good.__reduce__()
    for _ in range(1 + source.byte() % 3):
        arguments = tampered(arguments, source)
    made = make(*arguments)
    use(made)


def use(made: Any) -> None:
    """Call what an object has; each call ends in a result or an error."""
    repr(made), str(made)
    calls: list[Callable[[], object]] = [lambda: pickle.loads(pickle.dumps(made))]
    if isinstance(made, tk.Forest):
        calls += [
            made.to_brackets,
            lambda: tk.SubsetTreeKernel()(made),
            made.subtree_ids,
        ]
    elif isinstance(made, tk.DagModel):
        calls += [lambda: made.score(FOREST), lambda: made.top_fragments(2)]
        calls += [lambda: made.add(FOREST, np.ones((3, made.n_outputs)))]
    elif isinstance(made, tk.Perceptron):
        calls += [lambda: made.score(FOREST), lambda: made.score(FOREST, np.eye(3))]
        calls += [lambda: made.learn(FOREST, [1, 1, -1]), lambda: made.model()]
    elif isinstance(made, tk.PairForest):
        calls += [lambda: tk.PairKernel()(made)]
    elif isinstance(made, tk.DistributedTrees):
        if made.n_components <= 4096:
            calls += [lambda: made.encode(FOREST)]
    elif hasattr(made, "pair") and hasattr(made, "rows"):
        calls += [lambda: made(FOREST)]
    for call in calls:
        with contextlib.suppress(*EXPECTED):
            call()


TARGETS = [svmlight, kelp, penn, objects, drawing, pairs, pickles, pickles]


def one_input(data: bytes) -> None:
    source = Source(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with contextlib.suppress(*EXPECTED):
            source.pick(TARGETS)(source)


def without_atheris(arguments: list[str]) -> int:
    """Mutate the kept inputs for as long as libFuzzer's option says."""
    options = dict(a.lstrip("-").split("=", 1) for a in arguments if "=" in a)
    folders = [Path(a) for a in arguments if "=" not in a]
    pool = [f.read_bytes() for folder in folders for f in folder.iterdir()] or [b""]
    rng = random.Random(int(options.get("seed", time.time_ns())))
    end, count = time.monotonic() + float(options.get("max_total_time", 10)), 0
    while time.monotonic() < end:
        data = bytearray(rng.choice(pool))
        for _ in range(rng.randrange(1, 9)):
            at = rng.randrange(len(data) + 1)
            data[at : at + rng.randrange(2)] = rng.randbytes(rng.randrange(3))
        count += 1
        try:
            one_input(bytes(data))
        except BaseException:
            prefix = options.get("artifact_prefix", "")
            Path(f"{prefix}crash-{count}").write_bytes(data)
            traceback.print_exc()
            return 1
    print("stat::number_of_executed_units:", count)
    return 0


if __name__ == "__main__":
    if atheris is None:
        sys.exit(without_atheris(sys.argv[1:]))
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
