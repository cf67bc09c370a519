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
import hashlib
import io
import json
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
#: By format: what its texts are made of, split at ~, and options with their values.
FORMATS: dict[str, tuple[bytes, dict[str, list[Any]]]] = {
    "conllu": (
        b"1\ta\ta\tN\tN\t_\t0\troot\t_\t_\n~"
        b"2\tb\tb\tV\t_\t_\t1\tobj:x\t_\t_\n~"
        b"3\tc\t_\t_\tX\t_\t2\tpunct\t_\t_\n~\n~# text = a\n~1-2\t~1\t~2\t~"
        b"3\t~1.1\t~_\t~0\t~-1\t~99999999999\t~a~\t~\r\n~ ~\xc3\xa9~\xff~|~"
        b"=~:~#~",
        {
            "scheme": ["grct", "lct", "loct", "cgrct", "clct"],
            "word": ["lemma", "form"],
            "lower": [True, False],
            "pos": ["xpos", "upos"],
            "lex_pos": ["first", "full", "none"],
            "subtypes": [True, False],
            "punctuation": [True, False],
            "lexical": [True, False],
        },
    ),
    "python_ast": (
        (
            b"def f(x):\n~ return x\n~ ~\n~class A:\n~pass\n~(~)~lambda:0~x~=~1~"
            b"'a'~f'{x}'~[~]~+~\\~\x00~\xff~# coding: latin-1\n~# coding: x\n~"
            b"if x:\n~\t~async ~await ~match x:\n~case _:\n~1e999~not ~"
        )
        + b"9" * 5000,
        {
            "level": ["module", "function"],
            "identifiers": ["keep", "blank"],
            "literals": ["type", "keep", "blank"],
            "docstrings": [False, True],
        },
    ),
    "xml": (
        b"<a>~</a>~<b x='1'/>~text~<!-- -->~<?p?>~&lt;~&#0;~<![CDATA[x]]>~<~"
        b">~&~<n:a xmlns:n='u'>~</n:a>~<r>~</r>~"
        b"<!DOCTYPE r [<!ENTITY e 'ee'>]>~&e;~<?xml version='1.0'?>~\xff~"
        b"\x00~\xc3\xa9~\n~<?xml version='1.0' encoding='x'?>~",
        {
            "attributes": ["names", "drop", "keep", ["x"]],
            "text_nodes": ["blank", "drop", "keep", "tokens"],
            "element": [None, "a", "{u}a"],
            "namespaces": ["strip", "keep"],
        },
    ),
    "html": (
        b"<p>~</p>~<form><input name=a>~</form>~<table><tr><td>x~<~"
        b"<script>if(a<b)</script>~<!--~-->~&amp;~&#xD800;~text~<a href=x>~"
        b"<br/>~<svg><title>~\x00~\xff~\xe6\xbc\xa2~\n~<html><head>~<body>~"
        b"<meta charset=x>~<frameset>~<x:y>~",
        {
            "attributes": ["drop", "names", "keep", ["name"]],
            "text_nodes": ["drop", "keep", "blank", "tokens"],
            "element": [None, "form", "p"],
        },
    ),
    "json": (
        (
            b'{~}~[~]~"a":~"a"~1~-0.5e3~true~null~,~:~\n~ ~"\\ud800"~'
            b'"\\u00e9"~NaN~1e999~\xff~\x00~"~\\~'
        )
        + b"9" * 5000
        + b"~"
        + b"[" * 500
        + b"~"
        + b'{"a":' * 500
        + b"~"
        + b"]" * 500
        + b"~"
        + b"}" * 500,
        {
            "values": ["keep", "type", "blank"],
            "lines": [False, True],
        },
    ),
    "newick": (
        (
            b"(~)~,~;~A~B~:1~:0.5~'a b'~''~[c]~[~]~:~_~ ~\n~:-1~:1e999~:nan~'~"
            b"((A,B),C);~\xff~\xc3\xa9~\x00~"
        )
        + b"(" * 500
        + b"~"
        + b")" * 500,
        {
            "leaves": ["keep", "blank"],
            "inner": ["keep", "blank"],
            "lengths": [None, [0.1, 1.0], [1.0, 0.5], [float("nan")], []],
        },
    ),
    "nexus": (
        b"#NEXUS\n~begin trees;\n~end;\n~tree t = ~(A,B);~translate ~1 A,~"
        b"2 'b c';~(1,2);~[&R]~[~]~'~;~,~=~utree * x=~begin taxa;~\n~ ~(~)~"
        b":1~\xff~BEGIN ~",
        {
            "leaves": ["keep", "blank"],
            "inner": ["keep", "blank"],
            "lengths": [None, [0.5]],
        },
    ),
    "dot_bracket": (
        (b">x\n~GCAU~ACGU\n~((.))\n~(~)~.~[~]~{~}~<~>~A~a~ (-1.20)\n~\n~ ~-~\xff~")
        + b"(" * 400
        + b"~"
        + b")" * 400,
        {
            "nodes": ["loops", "pairs"],
            "sizes": [False, True],
            "bases": [False, True],
        },
    ),
    "glycans": (
        (
            b"Gal~GlcNAc~(b1-4)~(a2-3)~[~]~Man~(~)~Neu5Ac~Fuc(a1-3)~\n~ ~(b1-?)~"
            b"-ol~6S~?~\xff~{~}~Gal(b1-4)[Fuc(a1-3)]GlcNAc\n~\t~,~"
        )
        + b"[" * 300
        + b"~"
        + b"]" * 300,
        {
            "linkages": ["label", "node", "drop"],
            "order": ["sorted", "as_is"],
        },
    ),
    "sql": (
        (
            b"SELECT ~a~, ~ FROM ~t~ WHERE ~x=1~(~)~;~'s'~ JOIN ~ ON ~NOT ~"
            b'--c\n~/*~*/~INSERT INTO t VALUES (1)~\n~`~"~[~]~+~CREATE TABLE ~'
            b" int~\xff~\x00~CASE WHEN ~ END~@~$1~::~"
        )
        + b"(" * 200
        + b"~"
        + b")" * 200,
        {
            "dialect": [None, "mysql", "postgres", "tsql", "none such"],
            "identifiers": ["keep", "blank"],
            "literals": ["type", "keep", "blank"],
        },
    ),
    "word_vectors": (
        (
            b"a 1 2\n~b 0.5 -1\n~2 2\n~cat::n\t0\t0\t1.0,0.0\n~1~ ~\t~\n~,~nan~"
            b"inf~1e999~x~\r\n~\xff~1e-400~a\t~\xc3\xa9 1 2\n~-~.~\x00~\x1f\x8b~"
            b"\xef\xbb\xbf~"
        )
        + b"9" * 400,
        {
            "format": ["auto", "kelp", "text"],
            "keep": [None, ["a"], []],
        },
    ),
}
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

    def number(self) -> int:
        return self.byte() << 8 | self.byte()

    def pick(self, items: Any) -> Any:
        return items[self.byte() % len(items)]

    def rest(self, tokens: list[bytes] = TOKENS) -> bytes:
        """Give what is left: as it is, or a token for each byte."""
        is_raw, rest = self.byte() % 4 == 0, self.data[self.at :]
        self.at = len(self.data)
        return rest if is_raw else b"".join(tokens[b % len(tokens)] for b in rest)

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


def given(data: bytes) -> dict[str, Any]:
    """Give a reader data as a file, a text or an open file: their size tells which."""
    how = len(data) % 3
    if how == 0:
        return {"source": file_of(data)}
    return {"text": data} if how == 1 else {"source": io.BytesIO(data)}


def read_or_skip(read: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """Read; where that is an error, what is wrong is left out and told."""
    try:
        return read(**arguments)
    except tk.ParseError:
        if isinstance(arguments.get("source"), io.BytesIO):
            arguments["source"].seek(0)
        reading = read(errors="skip", **arguments)
        assert reading.skipped
        return reading


def svmlight(source: Source) -> None:
    arguments = given(source.rest())
    data = read_or_skip(readers.svmlight_tk, arguments)
    repr(data)
    assert len(data) == len(data.forest) == len(data.names) == len(data.spans)
    path = FOLDER / "written"
    try:
        readers.write_svmlight_tk(path, data.y, data.forests, data.vectors)
    except ValueError:
        return  # the format has no escapes, and infinity no place in it
    again = readers.svmlight_tk(path)
    assert same(again.y, data.y), (again.y, data.y)
    assert same(again.forests, data.forests), (again.forests, data.forests)
    assert len(again) == len(data)


def kelp(source: Source) -> None:
    data = readers.klp(**given(source.rest()))
    repr(data)
    copy.deepcopy(data)


def penn(source: Source) -> None:
    flags = source.byte()
    reading = readers.penn(
        **given(source.rest()),
        strip_functions=bool(flags & 1),
        drop_traces=bool(flags & 2),
        root=[None, "", "ROOT", "a b"][flags >> 2 & 3],
        unescape=bool(flags & 16),
        max_depth=[None, 1, 3, 100][flags >> 5 & 3],
    )
    whole(reading.forest)
    assert len(reading) == len(reading.spans)


def formats(source: Source) -> None:
    name = source.pick(sorted(FORMATS))
    text, options = FORMATS[name]
    # Mostly the first value, which every reader has.
    chosen = {
        option: values[0]
        if (byte := source.byte()) < 100
        else values[byte % len(values)]
        for option, values in options.items()
    }
    data = source.rest(text.split(b"~"))
    if name == "word_vectors":
        labels, matrix = readers.word_vectors(**given(data), **chosen)
        assert len(labels) == len(set(labels)) == len(matrix)
        assert np.isfinite(matrix).all()
        return
    arguments = given(data) | chosen
    reading = read_or_skip(getattr(readers, name), arguments)
    whole(reading.forest)
    assert len(reading.forest) == len(reading)
    repr(reading)


def whole(forest: tk.Forest) -> None:
    assert tk.Forest.from_brackets(forest.to_brackets()) == forest or not len(forest)
    assert pickle.loads(pickle.dumps(forest)) == forest


def objects(source: Source) -> None:
    whole(tk.Forest.from_trees([source.tree()]))


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
        plain = tk.Perceptron(kernels[0], predict_with=vote)
        plain.partial_fit(forest, [1, -1, 1])
        poly = tk.kernels.VectorPolynomial()
        mixed = tk.Perceptron(kernels[2], predict_with=vote, vectors=poly, mix=0.5)
        mixed.partial_fit(forest, [1, -1, 1], np.eye(3))
        made += [plain, mixed, poly]
    two = tk.PairForest.from_brackets(["(A:1 a)"] * 2, ["(B:1 b)"] * 2)
    made += [two, two[0], tk.DistributedTrees(kernels[0], 64)]
    machine = tk.solve.KernelMachine(kernels[0], forest, [1, -1, 1])
    machine.run()
    words = tk.kernels.VectorSimilarity((["a", "b"], np.eye(2)))
    alike = [tk.kernels.TableSimilarity([("a", "b", 0.5)]), words]
    weighed = [
        tk.kernels.Idf().fit(forest),
        tk.kernels.Idf("productions").fit(forest),
        {"a": 0.5},
    ]
    kernels = [
        tk.SubpathKernel(),
        kernels[0] + kernels[2],
        tk.kernels.Gaussian(kernels[0].normalized()) * kernels[1],
        tk.kernels.Polynomial(kernels[0]) ** 2,
        0.5 * kernels[3],
        *(tk.PartialTreeKernel(similarity=similarity) for similarity in alike),
        *(tk.SubsetTreeKernel(weights=weights) for weights in weighed),
        tk.SubtreeKernel(counts="log"),
        tk.kernels.ViewKernel({"a": kernels[0]}),
    ]
    vectorizer = tk.TreeVectorizer().fit(forest)
    made += [machine, *alike, *weighed[:2], *kernels, kernels[1].index(forest)]
    return [
        *made,
        vectorizer,
        tk.kernels.Views(a=forest, b=np.eye(3)),
        tk.DagModel(kernels[1]),
    ]


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


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    GOOD = good_objects()
FOREST = GOOD[0]
VIEWED = tk.kernels.ViewKernel({"a": tk.SubsetTreeKernel()})


def pickles(source: Source) -> None:
    good = source.pick(GOOD)
    make, arguments, *states = good.__reduce_ex__(4)
    state = next((state for state in states if state), None)
    for _ in range(1 + source.byte() % 3):
        if state is None:
            arguments = tampered(arguments, source)
        else:
            state = tampered(state, source)
    made = make(*arguments)
    if state is not None and hasattr(made, "__setstate__"):
        made.__setstate__(state)
    elif state is not None:
        vars(made).update(state)
    use(made)


def storable() -> list[bytes]:
    """Return the file of every good object that can be stored."""
    found, path = [], FOLDER / "good"
    for good in GOOD:
        with contextlib.suppress(TypeError):
            tk.save(good, path)
            found.append(path.read_bytes())
    return found


FILES = storable()
PRELUDE, DIGEST = 24, 40


def checksum(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=DIGEST).digest()


def files(source: Source) -> None:
    """Load a file that was changed, and one whose checksums were made anew as well."""
    data = source.pick(FILES)
    if source.byte() & 1:
        at = source.number() % (len(data) + 1)
        data = data[:at] + bytes([source.byte()]) + data[at + source.byte() % 5 :]
    else:
        length = int.from_bytes(data[16:PRELUDE], "little")
        end = PRELUDE + DIGEST + length
        head, arrays = json.loads(data[PRELUDE + DIGEST : end]), bytearray(data[end:])
        for _ in range(source.byte() % 3 if arrays else 0):
            at = source.number() % len(arrays)
            arrays[at] = source.byte()
        for told in head["arrays"]:
            size = int(np.prod(told["shape"])) * np.dtype(told["dtype"]).itemsize
            start, padded = told["offset"], -(-size // 64) * 64
            told["blake2b"] = checksum(arrays[start : start + padded]).hex()
        for _ in range(source.byte() % 3):
            head = tampered(head, source)
        text = json.dumps(head).encode()
        text = text.ljust(-(-len(text) // 64) * 64)
        start = data[:16] + len(text).to_bytes(8, "little")
        data = start + checksum(start + text) + text + arrays
    path = FOLDER / "changed"
    path.write_bytes(data)
    use(tk.load(path))


JSON_OF = [good.to_json() for good in GOOD if hasattr(good, "to_json")]


def kernels(source: Source) -> None:
    """Read JSON of kernels that was changed; what is read is written and read again."""
    text = source.pick(JSON_OF)
    for _ in range(1 + source.byte() % 3):
        at = source.byte() % (len(text) + 1)
        new = source.pick(
            [
                '"',
                "{",
                "}",
                "[",
                "]",
                "null",
                "1e999",
                "-1",
                "0",
                "NaN",
                ",",
                ":",
                "[" * 99,
            ]
        )
        text = text[:at] + new + text[at + source.byte() % 9 :]
    made = tk.kernels.kernel_from_json(text)
    if "NaN" not in text:
        assert tk.kernels.kernel_from_json(made.to_json()) == made
    use(made)


def use(made: Any) -> None:
    """Call what an object has; each call ends in a result or an error."""
    calls: list[Callable[[], object]] = [lambda: pickle.loads(pickle.dumps(made))]
    calls += [lambda: repr(made), lambda: str(made)]
    if isinstance(made, tk.Forest):
        calls += [
            made.to_brackets,
            lambda: tk.SubsetTreeKernel()(made),
            made.subtree_ids,
        ]
    elif isinstance(made, tk.DagModel):
        calls += [lambda: made.decision_function(FOREST), lambda: made.top_fragments(2)]
        calls += [lambda: made.add(FOREST, np.ones((3, made.n_outputs)))]
    elif isinstance(made, tk.Perceptron):
        calls += [
            lambda: made.decision_function(FOREST),
            lambda: made.decision_function(FOREST, np.eye(3)),
        ]
        calls += [lambda: made.partial_fit(FOREST, [1, 1, -1]), lambda: made.model()]
    elif isinstance(made, tk.PairForest):
        calls += [lambda: tk.PairKernel()(made)]
    elif isinstance(made, tk.DistributedTrees):
        if made.n_components <= 4096:
            calls += [lambda: made.encode(FOREST)]
    elif isinstance(made, tk.solve.KernelMachine):
        calls += [
            lambda: made.run(max_iter=20),
            lambda: made.model().decision_function(FOREST),
        ]
        calls += [lambda: made.dual_gap]
    elif isinstance(made, tk.TreeVectorizer):
        calls += [lambda: made.transform(FOREST), made.get_feature_names_out]
    elif isinstance(made, tk.TreeIndex):
        calls += [made.join, lambda: made.top_k(FOREST, k=2), lambda: made.gram(FOREST)]
    elif isinstance(made, tk.kernels.Views):
        calls += [lambda: VIEWED(made), lambda: made[:2]]
    elif isinstance(made, tk.kernels.ViewKernel):
        calls += [lambda: made(tk.kernels.Views(a=FOREST))]
    elif isinstance(made, tk.kernels.TableSimilarity | tk.kernels.VectorSimilarity):
        calls += [lambda: tk.PartialTreeKernel(similarity=made)(FOREST)]
        calls += [lambda: made.matrix(["a", "b"])]
    elif isinstance(made, tk.kernels.Idf):
        calls += [lambda: tk.SubsetTreeKernel(weights=made)(FOREST)]
    elif hasattr(made, "pair") and hasattr(made, "rows"):
        calls += [lambda: made(FOREST), lambda: made.pair(FOREST[0], FOREST[1])]
        calls += [lambda: made.top_k(FOREST, k=1)]
    # Estimators are scikit-learn's to pickle: attributes may be missing.
    missing = (AttributeError,) if isinstance(made, tk.TreeVectorizer) else ()
    for call in calls:
        with contextlib.suppress(*EXPECTED, *missing):
            call()


TARGETS = [svmlight, kelp, penn, objects, drawing, pairs, pickles, formats]
TARGETS += [pickles, formats, files, kernels]


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
