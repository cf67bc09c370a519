"""A str that is not Unicode text is an error at the border, wherever it comes in.

numpy makes such a str of numbers that are no code points, as a file with tampered bytes
has them: `str.encode` makes bytes of it that are not UTF-8. Run as a script, this file
hands texts of both kinds, beyond U+10FFFF and with lone surrogates, to all entry points.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import treekernel_rs as tk
from treekernel_rs import _core

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Calls = dict[str, Callable[[str], object]]

TREES = ["(S (A a) (B b))", "(S (A a) (B c))", "(S (B b) (B b))"]
Y = [1, -1, -1]


def not_text(*numbers: int) -> str:
    """Make a str of numbers, which need not be code points."""
    words = np.array(numbers, "<u4").view(f"<U{len(numbers)}")
    return str(words[0])


TEXTS = {
    "beyond U+10FFFF": not_text(0x45000000, 0x45000000),
    "just beyond U+10FFFF": not_text(0x110000, ord("b")),
    "beyond U+10FFFF, within text": not_text(ord("a"), 0x7FFFFFFF, ord("b")),
    "a lone surrogate": "a\ud800b",
}


def bindings() -> Calls:
    """Make a call for each parameter of the compiled part that is or holds a str."""
    core = tk.SubsetTreeKernel()._core
    one: Any = ([], 1.0)

    def edit(rename: Any = (), insert: Any = (), delete: Any = ()) -> _core.EditCore:
        costs = ((list(named), 1.0) for named in (rename, insert, delete))
        return _core.EditCore(*costs)

    forest, ones = tk.Forest(TREES), np.ones(3)
    pairs = tk.PairForest.from_brackets(TREES, TREES)
    words = _core.Vocabulary.fit("labels", (3, 1), forest, 1, "linear", None)[0]
    arrays = forest.to_arrays()
    model, out = _core.Dag(core, False, 1), np.zeros(8)
    learner = _core.Learner(core, False, 1, "last", None, 1.0)
    learned = learner.to_arrays()

    def encoder(
        composition: str = "sign", fold: str = "left", norm: str | None = None
    ) -> Any:
        given = (8, composition, fold, 0, None, None, False, True, norm, None)
        return _core.Encoder(core, *given)

    def solver(loss: str) -> Any:
        given = (1.0, None, ones, ones, 1, None, None, 0)
        return _core.Solver(core, False, forest, loss, *given)

    def described(text: str, **changes: Any) -> None:
        class_ = {"label": "A", "fields": [], "keep_text": True, "leaves": None}
        _core.CodeBuilder(lambda _: {**class_, **changes}).push_ast(ast.Name(id=text))

    def cursor(text: str, texts: dict[int, str] | None = None) -> None:
        symbol = {"label": text, "keep_text": False, "is_root": True}
        at = SimpleNamespace(node=SimpleNamespace(kind_id=1))
        _core.CodeBuilder(lambda _: symbol).push_cursor(at, b"", texts)

    return {
        "Forest": lambda s: tk.Forest([f"(A {s})"]),
        "Forest.from_brackets.lines": lambda s: tk.Forest.from_brackets(f"(A {s})"),
        "Forest.from_brackets.errors": lambda s: tk.Forest.from_brackets(
            TREES, errors=s
        ),
        "Forest.from_trees.objects": lambda s: tk.Forest.from_trees([("A", [s])]),
        "Forest.from_trees.label": lambda s: tk.Forest.from_trees([1], label=s),
        "Forest.from_trees.children": lambda s: tk.Forest.from_trees([1], children=s),
        "Forest.from_trees.order": lambda s: tk.Forest.from_trees([], order=s),
        "Forest.from_arrays.names": lambda s: tk.Forest.from_arrays(
            [0], [-1], [0], names=[s]
        ),
        "Forest.from_arrays.labels": lambda s: tk.Forest.from_arrays([s], [-1], [0]),
        "Forest.from_arrays, a field's name": lambda s: tk.Forest.from_arrays(
            np.zeros(1, [(s, "i4")]), [-1], [0], names=["A"]
        ),
        "Forest.from_arrays.name_offsets": lambda s: tk.Forest.from_arrays(
            **{**arrays, "names": np.frombuffer(bytes(range(250, 254)), np.uint8)}
        ),
        "Forest.save.path": lambda s: forest.save(f"/nowhere/{s}"),
        "Forest.load.path": lambda s: tk.Forest.load(f"/nowhere/{s}"),
        "Forest.relabel.labels": lambda s: forest.relabel({"a": s}),
        "Forest.relabel, called": lambda s: forest.relabel(lambda _: s),
        "Forest.binarize.labels": lambda s: forest.binarize([s]),
        "Forest.binarize.branching": lambda s: forest.binarize(branching=s),
        "ForestBuilder.extend.items": lambda s: _core.ForestBuilder().extend([s]),
        "CodeBuilder.__new__.describe": lambda s: described("a", label=s),
        "CodeBuilder, a field's label": lambda s: described(
            "a", fields=[("id", s, None)]
        ),
        "CodeBuilder, a symbol's label": cursor,
        "CodeBuilder.push_cursor.texts": lambda s: cursor("A", {0: s}),
        "CodeBuilder.push_ast.node": lambda s: described(
            s, fields=[("id", None, None)]
        ),
        "Kernel.__new__.name": lambda s: _core.Kernel(s, {}),
        "Kernel.__new__.parameters": lambda s: _core.Kernel("Subtree", {s: 1.0}),
        "Kernel.__new__, a value": lambda s: _core.Kernel("Subtree", {"decay": s}),
        "Kernel.composed.name": lambda s: _core.Kernel.composed(s, [core], {}),
        "Kernel.composed.parameters": lambda s: _core.Kernel.composed(
            "Sum", [core, core], {s: 1.0}
        ),
        "Kernel.weighted.labels": lambda s: core.weighted([(s, 1.0)], [], 1.0, "set"),
        "Kernel.weighted.productions": lambda s: core.weighted(
            [], [("A", [s], 1.0)], 1.0, "set"
        ),
        "Kernel.weighted, a parent": lambda s: core.weighted(
            [], [(s, ["A"], 1.0)], 1.0, "set"
        ),
        "Kernel.weighted.counts": lambda s: core.weighted([], [], 1.0, s),
        "EditCore.__new__.rename": lambda s: edit([(s, "a", 1.0)]),
        "EditCore.__new__, a name": lambda s: _core.EditCore(s, one, one),
        "EditCore.__new__.insert": lambda s: edit(insert=[(s, 1.0)]),
        "EditCore.__new__.delete": lambda s: edit(delete=[(s, 1.0)]),
        "EditCore.gram.normalize": lambda s: edit().gram(
            forest, None, np.zeros((3, 3)), s, 1, None
        ),
        "EditCore.condensed.normalize": lambda s: edit().condensed(forest, s, 1, None),
        "EditCore.rows.normalize": lambda s: edit().rows(forest, s, 1),
        "EditCore.pairs.normalize": lambda s: edit().pairs(
            forest, None, [0], [0], s, 1, None
        ),
        "EditCore.index.normalize": lambda s: edit().index(forest, s),
        "EditCore.pair.normalize": lambda s: edit().pair("(a)", "(a)", s, None),
        "EditCore.join.normalize": lambda s: edit().join(
            forest, None, 1.0, None, s, 1, None, None
        ),
        "EditCore.top_k.normalize": lambda s: edit().top_k(
            forest, None, 1, None, s, 1, None
        ),
        "Dag.top_fragments.by": lambda s: model.top_fragments(1, s, 0, 1, None, 9),
        "Dag.from_arrays.arrays": lambda s: _core.Dag.from_arrays(
            core, False, 1, [{s: ones}]
        ),
        "Learner.__new__.vote": lambda s: _core.Learner(core, False, 1, s, None, 1.0),
        "Learner.from_arrays.vote": lambda s: _core.Learner.from_arrays(
            core, False, 1, s, None, 1.0, learned
        ),
        "Learner.from_arrays.arrays": lambda s: _core.Learner.from_arrays(
            core, False, 1, "last", None, 1.0, {**learned, "names": s}
        ),
        "Solver.__new__.loss": solver,
        "Solver.set_state.state": lambda s: solver("hinge").set_state({s: 1}),
        "Encoder.__new__.composition": encoder,
        "Encoder.__new__.fold": lambda s: encoder(fold=s),
        "Encoder.__new__.normalize": lambda s: encoder(norm=s),
        "Encoder.label_vector.label": lambda s: encoder().label_vector(s, out),
        "Vocabulary.fit.counts": lambda s: _core.Vocabulary.fit(
            "labels", (3, 1), forest, 1, s, None
        ),
        "Vocabulary.fit.kind": lambda s: _core.Vocabulary.fit(
            s, (3, 1), forest, 1, "set", None
        ),
        "Vocabulary.transform.counts": lambda s: words.transform(forest, s, None),
        "Vocabulary.from_arrays.arrays": lambda s: _core.Vocabulary.from_arrays(
            "labels", (3, 1), {s: ones}
        ),
        "hashed_features.counts": lambda s: _core.hashed_features(
            "labels", (3, 1), forest, 8, False, s, None
        ),
        "hashed_features.kind": lambda s: _core.hashed_features(
            s, (3, 1), forest, 8, False, "set", None
        ),
        "PairForest.from_brackets.left": lambda s: tk.PairForest.from_brackets([s], []),
        "PairForest.from_brackets.right": lambda s: tk.PairForest.from_brackets(
            TREES, [s] * 3
        ),
        "PairForest.from_brackets.separator": lambda s: tk.PairForest.from_brackets(
            TREES, TREES, separator=s
        ),
        "PairForest.to_brackets.separator": lambda s: pairs.to_brackets(separator=s),
        "PairForest.anchored.left": lambda s: tk.PairForest.anchored(
            [f"(A {s})"], TREES[:1]
        ),
        "PairForest.anchored.right": lambda s: tk.PairForest.anchored(
            TREES[:1], [f"(A {s})"]
        ),
        "PairForest.anchored.head_rules": lambda s: tk.PairForest.anchored(
            TREES, TREES, head_rules={s: [("left", ["A"])]}
        ),
        "PairForest.anchored, a search": lambda s: tk.PairForest.anchored(
            TREES, TREES, head_rules={"S": [(s, ["A"])]}
        ),
        "PairForest.anchored, labels": lambda s: tk.PairForest.anchored(
            TREES, TREES, head_rules={"S": [("left", [s])]}
        ),
        "PairForest.anchored.match": lambda s: tk.PairForest.anchored(
            TREES, TREES, match=lambda word, tag: s
        ),
        "PairCore.__new__.method": lambda s: _core.PairCore(0.5, s, 10),
        "as_forest": lambda s: _core.as_forest([f"(A {s})"]),
        "as_forest, a class of that name": lambda s: _core.as_forest(named(s)),
        "as_forest, an error with it": lambda s: _core.as_forest([Refused(s)]),
    }


def named(text: str) -> object:
    class_: Any = type("A", (), {})
    class_.__qualname__ = text
    return class_()


class Refused:
    """A tree that refuses to be one."""

    children = ()

    def __init__(self, text: str) -> None:
        self.text = text

    @property
    def label(self) -> str:
        raise ValueError(self.text)


def face() -> Calls:
    """Make calls of the package that hand a str on."""
    forest = tk.Forest(TREES)
    kernel = tk.SubsetTreeKernel(0.4)
    model = tk.DagModel(kernel)
    model.add(forest, [1.0, -1.0, 0.5])
    stored = tk.Perceptron(kernel).to_arrays()
    folder = Path(tempfile.mkdtemp(prefix="texts-"))

    def similar(pairs: Any) -> object:
        return tk.PartialTreeKernel(similarity=tk.kernels.TableSimilarity(pairs))(
            forest
        )

    return {
        "SubtreeKernel counts": lambda s: tk.SubtreeKernel(counts=s)(forest),
        "SubpathKernel counts": lambda s: tk.SubpathKernel(counts=s)(forest),
        "weights": lambda s: tk.SubsetTreeKernel(0.4, weights={s: 2.0})(forest),
        "similarity": lambda s: similar({("a", s): 0.5}),
        "kernel_from_json": lambda s: tk.kernels.kernel_from_json(s),
        "kernel_from_json, a name": lambda s: tk.kernels.kernel_from_json(
            f'{{"kernel": "{s}"}}'
        ),
        "DistributedTrees composition": lambda s: tk.DistributedTrees(
            kernel, 8, composition=s
        ),
        "DistributedTrees fold": lambda s: tk.DistributedTrees(kernel, 8, fold=s),
        "DistributedTrees norm": lambda s: tk.DistributedTrees(
            kernel.replace(normalize=True), 8, norm=s
        ),
        "label_vector": lambda s: tk.DistributedTrees(kernel, 8).label_vector(s),
        "top_fragments": lambda s: model.top_fragments(1, by=s),
        "Perceptron predict_with": lambda s: tk.Perceptron(kernel, s),
        "Perceptron.from_arrays": lambda s: tk.Perceptron.from_arrays(
            **{**stored, "predict_with": np.array(s)}
        ),
        "PairKernel method": lambda s: tk.PairKernel(method=s).pair(*[TREES[:2]] * 2),
        "KernelMachine loss": lambda s: tk.solve.KernelMachine(
            kernel, forest, Y, loss=s
        ),
        "KernelMachine intercept": lambda s: tk.solve.KernelMachine(
            kernel, forest, Y, intercept=s
        ),
        "TreeVectorizer": lambda s: tk.TreeVectorizer(s).fit(forest),
        "TreePerceptron": lambda s: tk.TreePerceptron(kernel, s).fit(forest, Y),
        "draw": lambda s: tk.draw(f"(A {s})"),
        "k(X)": lambda s: kernel([f"(A {s})"]),
        "k.pair": lambda s: kernel.pair(f"(A {s})", "(A a)"),
        "model.contributions": lambda s: model.contributions(f"(A {s})"),
        "index.add": lambda s: kernel.index(forest).add([f"(A {s})"]),
        "Views": lambda s: tk.kernels.Views(a=[f"(A {s})"]),
        "readers.newick": lambda s: tk.readers.newick(text=[f"(a,{s});"]),
        "readers.json": lambda s: tk.readers.json(text=[f'["{s}"]']),
        "readers.penn": lambda s: tk.readers.penn(text=[f"(A {s})"]),
        "Forest.save": lambda s: forest.save(folder / "none" / s),
    }


def results() -> Iterator[str]:
    """Make all calls; what is not as it should be."""
    for kind, text in TEXTS.items():
        for name, call in {**bindings(), **face()}.items():
            print(f"{name}: {kind}", flush=True)  # the last line tells where it ended
            try:
                call(text)
            except (ValueError, TypeError, AttributeError, OSError) as error:
                # A call that never gets as far as its text says nothing of it.
                if "positional argument" in str(error):
                    yield f"{name}: {kind}: {error}"
            except BaseException as error:
                is_python = name in IN_PYTHON and isinstance(error, SystemError)
                if not is_python:
                    yield f"{name}: {kind}: {type(error).__name__}"
            else:
                if name not in COMPARED:
                    yield f"{name}: {kind}: no error"


#: Where the text is only compared with labels, by Python.
COMPARED = {"Forest.binarize.labels", "Forest.prune.labels", "similarity"}
#: Code in Python that cuts the text to pieces, which Python refuses by a SystemError.
IN_PYTHON = {"readers.newick", "readers.json", "Forest.save"}


def parameters() -> Iterator[str]:
    """Give all parameters of the compiled part that are or hold a str."""
    stub = ast.parse(Path(_core.__file__).with_name("_core.pyi").read_text("utf-8"))
    for outer in stub.body:
        inner = outer.body if isinstance(outer, ast.ClassDef) else [outer]
        prefix = f"{outer.name}." if isinstance(outer, ast.ClassDef) else ""
        for function in inner:
            if not isinstance(function, ast.FunctionDef):
                continue
            given = [*function.args.args, *function.args.kwonlyargs]
            for parameter in given:
                words = ast.walk(parameter.annotation or ast.Constant(None))
                names = {word.id for word in words if isinstance(word, ast.Name)}
                words = ast.walk(parameter.annotation or ast.Constant(None))
                chosen = {word.value.id for word in words if is_literal(word)}
                if "str" in names or chosen:
                    yield f"{prefix}{function.name}.{parameter.arg}"


def is_literal(word: ast.AST) -> bool:
    is_subscript = isinstance(word, ast.Subscript) and isinstance(word.value, ast.Name)
    return is_subscript and word.value.id == "Literal"


def test_every_text_parameter_of_the_bindings_has_a_call() -> None:
    assert set(parameters()) - COMPARED - set(bindings()) == set()


def test_no_str_ends_the_process() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", __file__],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-200:] + done.stderr[-2000:]


def test_a_str_beyond_unicode_is_named() -> None:
    text = TEXTS["beyond U+10FFFF"]
    with pytest.raises(
        ValueError, match=r"names\[1\]: expected Unicode text, got .*45"
    ):
        tk.Forest.from_arrays([0], [-1], [0], names=["A", text])
    with pytest.raises(tk.ParseError) as caught:
        tk.Forest.from_brackets(["(A a)", f"(B é{text})"])
    assert (caught.value.tree, caught.value.column) == (1, 5)
    forest, skipped = tk.Forest.from_brackets(["(A a)", f"(B {text})"], errors="skip")
    assert len(forest) == len(skipped) == 1
    with pytest.raises(ValueError, match=r"label .b.: expected Unicode text"):
        tk.Forest(TREES).relabel({"b": text})


if __name__ == "__main__":
    found = list(results())
    print("\n".join(found), file=sys.stderr)
    sys.exit(bool(found))
