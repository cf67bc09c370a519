"""Claims about the datasets: which functions are read, and what their trees look like.

Most tests read a library of a few lines in a temporary directory; only those about
real source read the installed one.
"""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import json
import os
import platform
import subprocess
import sys
from textwrap import dedent
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import treekernel_rs as tk
from treekernel_rs import datasets
from treekernel_rs._core import CodeBuilder
from treekernel_rs.datasets import TreeDataset, python_functions
from treekernel_rs.readers._code import ast_class

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Library = Callable[[dict[str, str]], Path]

REAL: dict[str, Any] = {"classes": ["email", "json", "logging"], "max_per_class": 40}


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    """Write files (path -> source) and let them be the standard library."""

    def write(files: dict[str, str]) -> Path:
        for name, source in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(dedent(source), encoding="utf-8")
        stand_in = SimpleNamespace(get_path=lambda _: str(tmp_path))
        monkeypatch.setattr(datasets, "sysconfig", stand_in)
        return tmp_path

    return write


def function(name: str, calls: int = 1) -> str:
    """Source of a function whose tree grows with `calls`."""
    return f"def {name}():\n" + "    work()\n" * calls


def read(**options: Any) -> TreeDataset:
    return python_functions(**{"min_nodes": 1, "n_classes": 1} | options)


def bracket(source: str, **options: bool) -> str:
    """Print the tree of the one function in `source`."""
    return tree_of(ast.parse(dedent(source)).body[0], **options).to_brackets()[0]


def tree_of(
    node: ast.AST, *, identifiers: bool = False, constants: bool = False
) -> tk.Forest:
    text = "keep" if identifiers else "blank", "keep" if constants else "type"
    builder = CodeBuilder(ast_class(*text))
    builder.push_ast(node)
    return builder.finish()


def digest(data: TreeDataset) -> str:
    text = "\n".join([*data.forest.to_brackets(), *data.names, *map(str, data.y)])
    return hashlib.sha256(text.encode()).hexdigest()


# -- which functions


def test_two_calls_give_the_same_dataset() -> None:
    first, second = python_functions(**REAL), python_functions(**REAL)
    assert first.forest == second.forest
    assert first.names == second.names
    assert first.classes == second.classes
    assert first.description == second.description
    np.testing.assert_array_equal(first.y, second.y)


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["1", "2"])
def test_hash_seed_does_not_matter(seed: str) -> None:
    options = REAL | {"identifiers": True, "constants": True}
    # Handed over as a set, whose order does depend on the seed.
    script = f"""
import hashlib
from treekernel_rs.datasets import python_functions
options = {options!r}
data = python_functions(**options | {{"classes": set(options["classes"])}})
text = "\\n".join([*data.forest.to_brackets(), *data.names, *map(str, data.y)])
print(hashlib.sha256(text.encode()).hexdigest())
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == digest(python_functions(**options))


@pytest.mark.slow
def test_limits_are_respected_by_the_default_call() -> None:
    data = python_functions()
    assert data.forest.n_nodes.min() >= 10
    assert data.forest.n_nodes.max() <= 300
    assert np.bincount(data.y).max() <= 300
    assert len(data.classes) == 8
    assert data.classes == sorted(data.classes)
    assert set(data.y.tolist()) == set(range(8))
    assert data.y.dtype == np.int64
    assert len(data.forest) == len(data.y) == len(data.names)
    for index, name in zip(data.y.tolist(), data.names, strict=True):
        assert name.split(".")[0] == data.classes[index]


def test_node_limits_are_inclusive(library: Library) -> None:
    library({"json.py": "".join(function(f"f{n}", n) for n in range(1, 6))})
    sizes = read().forest.n_nodes.tolist()
    low, high = sizes[1], sizes[3]
    kept = read(min_nodes=low, max_nodes=high)
    assert kept.forest.n_nodes.tolist() == sizes[1:4]
    assert kept.names == ["json.f2", "json.f3", "json.f4"]
    assert read(min_nodes=low + 1, max_nodes=high - 1).names == ["json.f3"]


def test_max_per_class_takes_from_all_files_evenly(library: Library) -> None:
    files = {f"json/m{i}.py": function("f") + function("g") for i in range(4)}
    library(files)
    assert read(max_per_class=4).names == [f"json.m{i}.f" for i in range(4)]
    assert len(read(max_per_class=None).names) == 8


def test_modules_with_most_different_functions_are_chosen(library: Library) -> None:
    library(
        {
            "email/a.py": function("f") + function("g"),
            "email/b/c.py": function("h"),
            "json.py": function("f") + function("g"),
            "csv.py": function("f") + function("g"),
            "ast.py": 5 * function("f"),
        }
    )
    # csv comes before json: a tie goes to the name that sorts first. The five functions
    # of ast are one.
    assert read(n_classes=2, identifiers=True).classes == ["csv", "email"]
    assert read(n_classes=3, identifiers=True).y.tolist() == [0, 0, 1, 1, 1, 2, 2]


def test_classes_are_sorted_and_counted_once(library: Library) -> None:
    library({"json.py": function("f"), "csv.py": function("f")})
    data = read(classes=["json", "csv", "json"])
    assert data.classes == ["csv", "json"]
    assert data.names == ["csv.f", "json.f"]


def test_tests_site_packages_and_foreign_modules_are_skipped(library: Library) -> None:
    library(
        {
            "json/__init__.py": function("kept"),
            "json/tests/a.py": function("f"),
            "json/test/deep/a.py": function("f"),
            "json/idle_test/a.py": function("f"),
            "json/__pycache__/a.py": function("f"),
            "json/site-packages/a.py": function("f"),
            "test/a.py": function("f"),
            "site-packages/numpy/a.py": function("f"),
            "not_of_the_library.py": function("f"),
        }
    )
    assert read().names == ["json.kept"]
    with pytest.raises(ValueError, match="unknown class 'test'"):
        read(classes=["test"])


def test_files_that_do_not_parse_are_skipped(library: Library) -> None:
    root = library({"json/a.py": "def f(:", "json/b.py": function("kept")})
    (root / "json" / "c.py").write_bytes(b"def f(): pass\0")
    (root / "json" / "d.py").write_bytes(b"x = '\xff'\ndef f(): pass")
    assert read().names == ["json.b.kept"]


def test_warnings_of_the_parser_are_silent(library: Library) -> None:
    library({"json.py": "def f():\n    return '\\d'\n"})
    assert len(read().forest) == 1


def test_methods_and_guarded_functions_are_listed_nested_ones_are_not(
    library: Library,
) -> None:
    library(
        {
            "json/decoder.py": """
                class Outer:
                    class Inner:
                        def method(self):
                            class Local:
                                def hidden(self): pass
                            def hidden(): pass
                    async def later(self): pass
                try:
                    import fast
                except ImportError:
                    def fallback(): pass
                else:
                    def quick(): pass
                if True:
                    with x:
                        def guarded(): pass
            """
        }
    )
    data = read(identifiers=True)
    assert data.names == [
        "json.decoder.Outer.Inner.method",
        "json.decoder.Outer.later",
        "json.decoder.fallback",
        "json.decoder.quick",
        "json.decoder.guarded",
    ]
    assert data.forest.to_brackets()[0].count("hidden") == 2
    assert data.forest[1].label == "AsyncFunctionDef"


# -- what trees look like


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def f(): pass", "(FunctionDef arguments (body Pass))"),
        (
            "def f(a): return a + 1",
            "(FunctionDef (arguments arg) "
            "(body (Return (BinOp Name Add (Constant int)))))",
        ),
        (
            "def f(a, /, b, *c, d, e=1, **g): pass",
            "(FunctionDef (arguments (posonlyargs arg) arg (vararg arg) "
            "(kwonlyargs arg arg) (kw_defaults None (Constant int)) (kwarg arg)) "
            "(body Pass))",
        ),
        (
            "@d\ndef f(a: int = 0) -> str: pass",
            "(FunctionDef (arguments (arg Name) (defaults (Constant int))) "
            "(body Pass) (decorator_list Name) (returns Name))",
        ),
        (
            "def f():\n if a: pass\n else: b",
            "(FunctionDef arguments (body (If Name (body Pass) (orelse (Expr Name)))))",
        ),
        (
            "def f():\n try: a\n except E: b\n finally: c",
            "(FunctionDef arguments (body (Try (body (Expr Name)) "
            "(ExceptHandler Name (body (Expr Name))) (finalbody (Expr Name)))))",
        ),
        (
            "def f(): a[1:], a[:1]",
            "(FunctionDef arguments (body (Expr (Tuple "
            "(Subscript Name (Slice (lower (Constant int)))) "
            "(Subscript Name (Slice (upper (Constant int))))))))",
        ),
        (
            "def f(): return (lambda: a) if b else {**c}",
            "(FunctionDef arguments "
            "(body (Return (IfExp Name (Lambda arguments Name) (Dict None Name)))))",
        ),
        ("def f():\n global a", "(FunctionDef arguments (body Global))"),
    ],
)
def test_tree_follows_the_convention(source: str, expected: str) -> None:
    assert bracket(source) == expected


def test_identifiers_add_leaves() -> None:
    source = "def f(a):\n global g\n import x.y as z\n return a.b(k=a)"
    assert bracket(source, identifiers=True) == (
        "(FunctionDef f (arguments (arg a)) (body (Global g) (Import (alias x.y z)) "
        "(Return (Call (Attribute (Name a) b) (keyword k (Name a))))))"
    )
    assert bracket(source) == (
        "(FunctionDef (arguments arg) (body Global (Import alias) "
        "(Return (Call (Attribute Name) (keyword Name)))))"
    )


def test_constants_add_leaves() -> None:
    source = "def f():\n return 1, 'two', None, ..."
    assert bracket(source) == (
        "(FunctionDef arguments (body (Return (Tuple (Constant int) (Constant str) "
        "(Constant NoneType) (Constant ellipsis)))))"
    )
    assert bracket(source, constants=True) == (
        "(FunctionDef arguments (body (Return (Tuple (Constant (int 1)) "
        "(Constant (str 'two')) (Constant (NoneType None)) "
        "(Constant (ellipsis Ellipsis))))))"
    )


def test_switches_reach_the_dataset(library: Library) -> None:
    library({"json.py": "def f(a):\n    return 1\n"})
    sizes = {
        (names, values): int(
            read(identifiers=names, constants=values).forest.n_nodes[0]
        )
        for names in (False, True)
        for values in (False, True)
    }
    plain = sizes[False, False]
    assert sizes == {
        (False, False): plain,
        (True, False): plain + 2,
        (False, True): plain + 1,
        (True, True): plain + 3,
    }


def test_docstrings_are_dropped_other_strings_stay() -> None:
    source = '''
        def f():
            """Gone."""
            class A:
                """Gone."""
                b
            def g():
                """Gone, and the body with it."""
            "stays"
    '''
    assert bracket(source, constants=True) == (
        "(FunctionDef arguments (body (ClassDef (body (Expr Name))) "
        "(FunctionDef arguments) (Expr (Constant (str 'stays')))))"
    )


def test_labels_of_functions_left_out_are_not_in_the_forest(library: Library) -> None:
    library({"json.py": "def f(): pass\ndef g():\n while a: b"})
    assert "While" not in read(max_per_class=1).forest.labels


def test_long_chain_in_source_is_no_recursion() -> None:
    # About as deep as the parser of Python 3.11 goes from inside pytest.
    chain = "+".join(["a"] * 1_500)
    assert bracket(f"def f(): return {chain}").count("BinOp") == 1_499


def test_depth_beyond_the_parser_is_no_recursion() -> None:
    chain: ast.expr = ast.Name("a", ast.Load())
    for _ in range(20_000):
        chain = ast.BinOp(chain, ast.Add(), ast.Name("a", ast.Load()))
    (tree,) = tree_of(chain)
    assert (tree.n_nodes, tree.depth) == (60_001, 20_001)


# -- errors


def test_missing_source_says_what_was_looked_for_and_where(library: Library) -> None:
    root = library({"json/__init__.pyc": "", "lib.zip": ""})
    with pytest.raises(RuntimeError, match=r"looked for the \.py files") as caught:
        python_functions()
    assert str(root) in str(caught.value)


def test_unknown_class_is_named_with_some_that_exist() -> None:
    with pytest.raises(ValueError, match=r"unknown class 'jsom'.* json") as caught:
        python_functions(classes=["email", "jsom"])
    assert "there are" in str(caught.value)


def test_class_without_functions_in_the_limits_is_named(library: Library) -> None:
    library({"json.py": function("f"), "csv.py": "x = 1"})
    with pytest.raises(ValueError, match="class 'csv' has no function of 1 to 300"):
        read(classes=["csv", "json"])


def test_more_classes_than_there_are_is_an_error(library: Library) -> None:
    library({"json.py": function("f"), "csv.py": "x = 1"})
    with pytest.raises(ValueError, match=r"n_classes must be at most 1, .* got 2"):
        read(n_classes=2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_classes": 0}, "n_classes must be an integer of at least 1, got 0"),
        ({"n_classes": True}, "n_classes must be .* got True"),
        ({"max_per_class": 0}, "max_per_class must be .* at least 1, got 0"),
        ({"max_per_class": 2.5}, r"max_per_class must be an integer .* got 2\.5"),
        ({"min_nodes": -3}, "min_nodes must be .* at least 1, got -3"),
        ({"min_nodes": 9, "max_nodes": 8}, "max_nodes must be .* at least 9, got 8"),
        ({"classes": "json"}, "classes must be an iterable .* got the string 'json'"),
        ({"classes": []}, "classes must name at least one module"),
    ],
)
def test_bad_option_is_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        python_functions(**options)


# -- the result


def test_description_records_the_python_version(library: Library) -> None:
    root = library({"json.py": function("f") + function("g")})
    text = read(max_per_class=1).description
    assert platform.python_version() in text
    assert str(root) in text
    assert "json 1/2" in text


def test_dataset_is_frozen_and_shows_its_size(library: Library) -> None:
    library({"json.py": "def f(): pass"})
    data = read()
    assert repr(data) == "<TreeDataset: 1 trees, 4 nodes, 1 classes (json)>"
    with pytest.raises(dataclasses.FrozenInstanceError):
        data.y = np.zeros(1, np.int64)  # type: ignore[misc]


# -- data of other packages


def test_a_second_call_does_not_read_again(library: Library) -> None:
    library({"json.py": "def f(): pass\n"})
    first = read()
    first.y[:] = 7
    first.names.clear()
    library({"json.py": "no python ("})
    second = read()
    assert (second.names, second.y.tolist()) == (["json.f"], [0])
    forest, y = read(return_X_y=True)
    assert forest == second.forest
    assert y.tolist() == [0]


def whole(data: TreeDataset, X_y: tuple[tk.Forest, Any]) -> None:
    """Check what holds of every dataset."""
    assert len(data.forest) == len(data.y) == len(data.names)
    assert sorted(set(data.y.tolist())) == list(range(len(data.classes)))
    assert (np.diff(data.y) >= 0).all()
    assert data.classes == sorted(data.classes)
    assert X_y[0] == data.forest
    assert (X_y[1] == data.y).all()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    """Put files in place of those of a package that may not be installed."""

    def write(files: dict[str, str]) -> Path:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        monkeypatch.setattr(datasets, "_package", lambda _: tmp_path)
        return tmp_path

    return write


def test_glycans_of_a_table_are_read_by_their_only_owner(package: Library) -> None:
    rows = [
        ("Man(a1-3)Man", "Bacteria"),
        ("Gal(b1-4)Glc", "Eukarya"),
        ("Gal(b1-4)GlcNAc", "Eukarya"),
        ("Gal(b1-4)GlcNAc", "Bacteria"),
        ("{Fuc(a1-2)}Gal(b1-4)Glc", "Virus"),
        ("Fuc(a1-6)Glc", "undetermined"),
    ]
    table = "".join(f"{glycan},{domain}\n" for glycan, domain in rows)
    package({"glycan_data/v1_df_species.csv": f"glycan,Domain\n{table}"})
    data = datasets.glycans(level="Domain", linkages="drop")
    assert (data.names, data.classes, data.y.tolist()) == (
        ["Man(a1-3)Man", "Gal(b1-4)Glc"],
        ["Bacteria", "Eukarya"],
        [0, 1],
    )
    assert data.forest.to_brackets() == ["(Man Man)", "(Glc Gal)"]
    assert "1 that are no tree were left out" in data.description


def test_forms_of_pages_have_the_purpose_that_the_index_names(package: Library) -> None:
    pytest.importorskip("lxml")
    kinds = [{"short": "l", "full": "login"}, {"short": "s", "full": "search"}]
    types = {"types": kinds, "simplify_map": {}, "NA_value": "X", "skip_value": "-"}
    page = "<form>find<input type=text></form><p><form><input type=password></form>"
    package(
        {
            "data/index.json": json.dumps({"html/0.html": {"forms": ["s", "l"]}}),
            "data/config.json": json.dumps({"form_types": types}),
            "data/html/0.html": page,
        }
    )
    data = datasets.forms(text_nodes="tokens")
    assert [data.classes[k] for k in data.y] == ["login", "search"]
    assert data.forest.to_brackets() == [
        "(form (input (@type password)))",
        "(form find (input (@type text)))",
    ]


def test_forms_are_those_that_were_labelled() -> None:
    pytest.importorskip("lxml")
    try:
        data = datasets.forms()
    except ImportError as error:
        pytest.skip(str(error))
    whole(data, datasets.forms(return_X_y=True))
    # Another version of lxml may see other forms on some pages.
    assert 1500 < len(data.forest) <= 1585
    assert len(data.classes) == 12
    assert len(datasets.forms(simplify=True).classes) == 8
    login = data.forest[data.y == data.classes.index("login")]
    assert sum("password" in str(tree) for tree in login) > 0.9 * len(login)


def test_glycans_have_one_class_each() -> None:
    try:
        data = datasets.glycans(level="Domain")
    except ImportError as error:
        pytest.skip(str(error))
    whole(data, datasets.glycans(level="Domain", return_X_y=True))
    assert len(set(data.names)) == len(data.names) > 10_000
    assert {"Bacteria", "Eukarya"} <= set(data.classes)
    common = datasets.glycans(level="Kingdom", min_per_class=100)
    assert np.bincount(common.y).min() >= 100
    with pytest.raises(ValueError, match="level must be 'Species'"):
        datasets.glycans(level="kingdom")


@pytest.mark.slow
def test_models_do_not_tell_their_protocol() -> None:
    try:
        data = datasets.json_models()
    except ImportError as error:
        pytest.skip(str(error))
    whole(data, (data.forest, data.y))
    assert len(data.forest) > 300
    assert {"query", "rest-json", "rest-xml"} <= set(data.classes)
    parts = {child.label for tree in data.forest for child in tree.children}
    assert parts == {"operations", "shapes"}


def test_phylogenies_depend_on_the_seed_only() -> None:
    pytest.importorskip("dendropy")
    options = {"n_trees": 4, "n_leaves": 10}
    data = datasets.phylogenies(**options)
    whole(data, datasets.phylogenies(**options, return_X_y=True))
    assert data.classes == ["birth-death", "coalescent"]
    assert datasets.phylogenies(**options, random_state=1).forest != data.forest
    assert (data.forest.n_nodes == 19).all()
    assert all(label.startswith(("leaf:", "node:")) for label in data.forest.labels)


@pytest.mark.parametrize("name", ["forms", "glycans", "json_models", "phylogenies"])
def test_a_package_that_is_missing_is_named(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets.util, "find_spec", lambda _: None)
    with pytest.raises(ImportError, match=r"treekernel_rs\[examples\]"):
        getattr(datasets, name)()
