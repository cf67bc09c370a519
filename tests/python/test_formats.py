"""Readers of documents, code and biology: examples, other parsers, bad input."""

from __future__ import annotations

import ast
import functools
import gzip
import importlib.util
import io
import json
import random
import re
import sysconfig
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

import treekernel_rs as tk

STDLIB = Path(sysconfig.get_path("stdlib"))
readers = tk.readers


def brackets(reading):
    return reading.forest.to_brackets()


# --- What goes wrong --------------------------------------------------------------------

BAD = {
    # reader, text, line, column, part of the message
    "newick": [
        ("(a,b);\n(a,(b);", 2, 7, "',' or ')'"),
        ("(a,b;", 1, 5, "',' or ')'"),
        ("(a b);", 1, 4, "',' or ')'"),
        ("(a,b));", 1, 6, "';' at the end of the tree"),
        ("(a:x,b);", 1, 4, "a branch length"),
        ("(a:1_0,b);", 1, 4, "a branch length"),
        ("(a:inf,b);", 1, 4, "a branch length"),
        ("(a:,b);", 1, 4, "a branch length"),
        ("(a,b)", 1, 6, "';' at the end"),
        ("(a,\n'b);", 2, 1, "an end of a quote"),
        ("(a,[b);", 1, 4, "an end of a comment"),
        ("(a,]b);", 1, 4, "an open bracket"),
        ("(a=b);", 1, 3, "',' or ')'"),
    ],
    "nexus": [
        ("(a,b);", 1, 1, "'#NEXUS'"),
        ("#NEXUS\nbegin trees;\ntree a (x,y);\nend;", 3, 8, "a name and '='"),
        ("#NEXUS\nbegin trees;\ntree a = (x,y;\nend;", 3, 14, "',' or ')'"),
        ("#NEXUS\nbegin trees;\ntree a = ;\nend;", 3, 10, None),
    ],
    "dot_bracket": [
        ("((..)", 1, 6, "')' for the bracket in column 1"),
        (">x\n(..))", 2, 5, "'(' before this bracket"),
        ("(([)])", 1, 3, "pseudoknot"),
        ("((A))", 1, 3, "'(', ')' or '.'"),
    ],
    "glycans": [
        ("Gal(b1-4)GlcNAc\nGal(b1-4)]GlcNAc", 2, 1, "'[' before the branch"),
        ("Gal(b1-4)[GlcNAc", 1, 10, "a branch that ends in a bond and"),
        ("Gal[Fuc(a1-2)]GlcNAc", 1, 4, "a bond after the residue"),
        ("(b1-4)GlcNAc", 1, 1, "a residue"),
        ("Gal(b1-4)(b1-3)GlcNAc", 1, 4, "a residue and a whole bond"),
        ("{Fuc(a1-2)}Gal(b1-4)GlcNAc", 1, 1, "braces"),
        ("Gal(b1-4", 1, 4, None),
        ("Gal()[](b1-4)GlcNAc", 1, 7, None),
    ],
    "xml": [
        ("<a><b></a>", 1, 9, "well-formed XML, got mismatched tag"),
        ("", 1, 1, "no element found"),
        ("<a>\n&x;</a>", 2, 1, "undefined entity"),
    ],
    "json": [
        ('{"a": [1,\n 2 x]}', 2, 4, "JSON"),
        ("[1] x", 1, 5, "lines=True reads one on each line"),
        ("", 1, 1, "Expecting value"),
        ('["\\ud800"]', 1, 1, "Unicode text, got a lone surrogate"),
        ("[" * 200_000, 1, 200_001, "Expecting value"),
    ],
    "python_ast": [
        ("x = 1\ny = (", 2, 5, "Python, got '(' was never closed"),
        ("def f(:\n  pass", 1, 7, "Python"),
        ("x = '\0'", 1, 1, "Python"),
    ],
}
CASES = [(name, *case) for name, cases in BAD.items() for case in cases]


@pytest.mark.parametrize(("name", "text", "line", "column", "message"), CASES)
def test_bad_text_is_refused_with_its_place_or_skipped(
    name, text, line, column, message, tmp_path
):
    reader = getattr(readers, name)
    if name == "nexus" and message is None:
        assert brackets(reader(text=text)) == ["(leaf)"]  # an empty tree is a leaf
        return
    if name == "glycans" and text == "Gal(b1-4":
        assert brackets(reader(text=text)) == ["(Gal\\(b1-4)"]
        return
    path = tmp_path / "bad"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(tk.ParseError) as caught:
        reader(path)
    error = caught.value
    assert (error.file, error.line, error.column) == (str(path), line, column)
    assert message is None or message in str(error)
    assert error.expected
    assert error.got
    before = text.encode()[: error.offset].decode().split("\n")
    assert (len(before), len(before[-1]) + 1) == (line, column)
    reading = reader([path, path], errors="skip")
    assert str(reading.skipped[0]) == str(error)
    assert len(reading.forest) == len(reading.names) == len(reading.spans)
    assert len(reading.sources) == len(reading.names)


@pytest.mark.parametrize("name", BAD)
def test_text_that_is_not_utf_8_is_refused_with_its_place(name):
    if name in ("xml",):
        pytest.skip("a document names its encoding")
    with pytest.raises(
        tk.ParseError, match=r"line 2, column 2 .*expected UTF-8"
    ) as got:
        getattr(readers, name)(text=b"(\n.\xff)")
    assert got.value.got == "the byte 0xff"


def test_sql_that_sqlglot_stumbles_over_is_a_parse_error():
    pytest.importorskip("sqlglot")
    with pytest.raises(tk.ParseError, match=r"line 1, column 1 .*expected SQL"):
        readers.sql(text="{:}")


@pytest.mark.parametrize("name", [*BAD, "tree_sitter", "sql", "html"])
@given(st.text("()[]{}<>\"',:;.=\\ \n&ab1-é#", max_size=40))
def test_any_text_is_read_or_a_parse_error(name, text):
    options = {"html": "lxml", "sql": "sqlglot", "tree_sitter": "tree_sitter_java"}
    if name in options:
        pytest.importorskip(options[name])
    reader = getattr(readers, name)
    if name == "tree_sitter":
        reader = functools.partial(reader, language="java")
    reading = reader(text=text, errors="skip")
    assert len(reading.forest) == len(reading.names) == len(reading.spans)
    assert reading.forest == tk.Forest.from_brackets(brackets(reading) or [])
    if not reading.skipped:
        assert reader(text=text).forest == reading.forest


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("newick", {"leaves": "x"}),
        ("newick", {"lengths": [2, 1]}),
        ("newick", {"lengths": [float("nan")]}),
        ("nexus", {"inner": "x"}),
        ("dot_bracket", {"nodes": "x"}),
        ("glycans", {"order": "x"}),
        ("glycans", {"linkages": "x"}),
        ("xml", {"attributes": "x"}),
        ("xml", {"text_nodes": "x"}),
        ("xml", {"namespaces": "x"}),
        ("html", {"text_nodes": "x"}),
        ("json", {"values": "x"}),
        ("sql", {"literals": "x"}),
        ("python_ast", {"level": "x"}),
        ("python_ast", {"identifiers": "x"}),
        ("json", {"errors": "x"}),
    ],
)
def test_options_are_checked(name, option):
    with pytest.raises(ValueError, match=next(iter(option))):
        getattr(readers, name)(text="", **option)


def test_a_package_that_is_missing_is_named_with_its_extra(monkeypatch):
    import sys

    for name, module, extra, text in (
        ("html", "lxml", "web", "<p>"),
        ("sql", "sqlglot", "sql", "SELECT 1"),
    ):
        for known in [m for m in sys.modules if m.split(".")[0] == module]:
            monkeypatch.delitem(sys.modules, known)
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(ImportError, match=rf"treekernel_rs\[{extra}\]"):
            getattr(readers, name)(text=text)


def test_many_trees_of_one_text_take_linear_time():
    n = 40_000
    start = time.process_time()
    reading = readers.newick(text="(a,b)x;\n" * n)
    assert reading.spans[-1].tolist() == [n, n]
    reading = readers.dot_bracket(text="(é\n" * n, errors="skip")
    assert len(reading.skipped) == n
    assert (reading.skipped[-1].line, reading.skipped[-1].offset) == (n, 4 * n - 3)
    # Counting lines from the beginning, for each tree, took 20 s.
    assert time.process_time() - start < 6


def test_gzip_data_is_read_from_files_that_are_open_and_in_memory(tmp_path):
    data = gzip.compress(b"(a,b);")
    path = tmp_path / "a.nwk"
    path.write_bytes(data)
    with path.open("rb") as file, gzip.open(path) as text:
        for source in (io.BytesIO(data), file, path, text):
            assert brackets(readers.newick(source)) == ["(node a b)"]
    assert brackets(readers.newick(text=data)) == ["(node a b)"]
    path.write_bytes(data[:-9])
    with pytest.raises(gzip.BadGzipFile, match=r"a\.nwk: the gzip data is cut off"):
        readers.newick(path)
    whole = io.StringIO("(c);")
    reading = readers.newick([path, io.BytesIO(data[:-9]), whole], errors="skip")
    assert brackets(reading) == ["(node c)"]
    assert [error.expected for error in reading.skipped] == ["whole gzip data"] * 2
    assert [error.tree for error in reading.skipped] == [0, 1]


def test_what_has_no_files_is_refused(tmp_path):
    for path in (tmp_path, tmp_path / "*.nwk", tmp_path / "no" / "**" / "*.nwk"):
        with pytest.raises(FileNotFoundError, match="found none"):
            readers.newick(path)
    with pytest.raises(FileNotFoundError):
        readers.newick(tmp_path / "no.nwk")
    assert len(readers.newick(text=[])) == 0


def test_a_generator_of_texts_is_asked_for_one_at_a_time():
    asked = []

    def texts():
        for k in range(3):
            asked.append(k)
            yield "(a;" if k == 1 else "(a,b);"

    with pytest.raises(tk.ParseError, match="item 1"):
        readers.newick(text=texts())
    assert asked == [0, 1]
    told = []
    reading = readers.newick(
        text=texts(), errors="skip", progress=lambda *done: told.append(done)
    )
    assert (len(reading), told) == (2, [(1, 3), (2, 3), (3, 3)])


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_columns_are_sources(kind):
    package = pytest.importorskip(kind)
    texts = ["(a,b);", "(c);"]
    make = {"pandas": "Series", "polars": "Series", "pyarrow": "array"}[kind]
    column = getattr(package, make)(texts)
    assert brackets(readers.newick(text=column)) == ["(node a b)", "(node c)"]
    missing = getattr(package, make)([*texts, None])
    with pytest.raises(TypeError, match="item 2: expected a str or bytes, got"):
        readers.newick(text=missing)
    assert [e.tree for e in readers.newick(text=missing, errors="skip").skipped] == [2]


# --- Documents ----------------------------------------------------------------------------


def slow_xml(element):
    """Elements and attributes by another parser, recursively."""
    children = [(f"@{key.rpartition('}')[2]}", ()) for key in sorted(element.attrib)]
    if (element.text or "").strip():
        children.append(("#text", ()))
    for child in element:
        if isinstance(child.tag, str):
            children.append(slow_xml(child))
        # Text around a comment is one text.
        if (child.tail or "").strip() and children[-1:] != [("#text", ())]:
            children.append(("#text", ()))
    return element.tag.rpartition("}")[2], tuple(children)


def test_xml_is_what_another_parser_reads():
    import matplotlib as mpl

    files = sorted(Path(mpl.get_data_path()).rglob("*.svg"))[:30]
    assert files
    reading = readers.xml(files)
    for file, text in zip(files, brackets(reading), strict=True):
        assert text == oracle.show(slow_xml(ET.parse(file).getroot()))
    assert reading.sources == [str(file) for file in files]
    assert (reading.spans[:, 0] >= 1).all()
    etree = pytest.importorskip("lxml.etree")
    plain = readers.xml(files, attributes="drop", text_nodes="drop").forest
    roots = [etree.parse(file).getroot() for file in files]
    assert tk.Forest.from_trees(roots) == reading.forest
    assert plain == reading.forest.prune(lambda label: label[0] in "@#")


def test_options_of_xml():
    text = '<r xmlns:x="u"><x:a k="v" id="i">one  two<b/> three</x:a>\n<x:a/></r>'
    whole = {"attributes": "keep", "text_nodes": "keep", "namespaces": "keep"}
    assert brackets(readers.xml(text=text, **whole)) == [
        r"(r ({u}a (@id i) (@k v) one\ two b three) {u}a)"
    ]
    reading = readers.xml(text=text, element="a", text_nodes="tokens")
    assert brackets(reading) == ["(a @id @k one two b three)", "(a)"]
    assert (reading.names, reading.spans.tolist()) == (["i", ""], [[1, 1], [2, 2]])
    latin = '<?xml version="1.0" encoding="latin-1"?><é/>'.encode("latin-1")
    assert brackets(readers.xml(text=latin)) == ["(é)"]
    for name in ("klingon", "shift_jis", "hex", "utf-16"):
        text = f'<?xml version="1.0" encoding="{name}"?><a/>'.encode()
        with pytest.raises(tk.ParseError, match="line 1, column"):
            readers.xml(text=text)
        assert brackets(readers.xml(text=[text, b"<b/>"], errors="skip")) == ["(b)"]


def test_deep_documents_are_read():
    n = 50_000
    assert readers.xml(text="<a>" * n + "</a>" * n).forest[0].depth == n
    assert readers.newick(text="(" * n + ")" * n + ";").forest[0].depth == n + 1
    assert readers.dot_bracket(text="(" * n + ")" * n).forest[0].depth == 3
    pairs = readers.dot_bracket(text="(" * n + ")" * n, nodes="pairs")
    assert pairs.forest[0].depth == n + 1
    glycan = "Gal(b1-4)" * n + "Gal"
    assert readers.glycans(text=glycan).forest[0].depth == n + 1


def test_html_is_mended_and_cut_to_elements():
    pytest.importorskip("lxml")
    page = "<p>a<form id=f><input name=q><b>x</form><p>b<form name=g><i>y</i></form>"
    reading = readers.html(text=page, element="form")
    assert brackets(reading) == ["(form input b)", "(form i)"]
    assert reading.names == ["f", "g"]
    assert brackets(
        readers.html(text="<p class=x>one two<br>three", text_nodes="tokens")
    ) == ["(html (body (p one two br three)))"]
    assert brackets(
        readers.html(text="<p b=2 a=1>x", attributes="keep", text_nodes="blank")
    ) == ["(html (body (p (@a 1) (@b 2) #text)))"]
    latin = '<meta charset="latin-1"><title>é</title>'.encode("latin-1")
    assert "é" in readers.html(text=latin, text_nodes="keep").forest.labels
    pages = ["<p>", "", "<p>", "<div>\n" * 9_999]
    reading = readers.html(text=pages, errors="skip")
    assert (len(reading), [e.tree for e in reading.skipped]) == (2, [1, 3])
    # What lxml cuts off is not returned as if it were all.
    assert "depth" in reading.skipped[1].got
    assert reading.skipped[1].line > 1_000


def slow_elements(element):
    """Elements of a tree of lxml, recursively."""
    below = (child for child in element if isinstance(child.tag, str))
    return element.tag, tuple(slow_elements(child) for child in below)


def test_pages_are_what_lxml_reads():
    html = pytest.importorskip("lxml.html")
    spec = importlib.util.find_spec("formasaurus")
    if spec is None:
        pytest.skip("formasaurus is not installed")
    folder = Path(spec.submodule_search_locations[0]) / "data/html"
    files = sorted(folder.glob("*.html"))[:60]
    for file, tree in zip(files, readers.html(files).forest, strict=True):
        assert str(tree) == oracle.show(slow_elements(html.parse(str(file)).getroot()))


def test_json_is_what_the_library_reads():
    botocore = pytest.importorskip("botocore")
    files = sorted(Path(botocore.__file__).parent.glob("data/*/*/paginators-1.json"))
    files = files[:60]
    reading = readers.json(files)
    values = [json.loads(file.read_bytes()) for file in files]
    assert reading.forest == tk.Forest.from_trees(values)
    assert len(reading) == len(files)


def test_options_of_json():
    text = '{"a": 1, "a": [true, null, "x y"]}\n\n[]\n'
    reading = readers.json(text=text, lines=True, values="type")
    assert brackets(reading) == [
        "(object (a number) (a (array true null string)))",
        "(array)",
    ]
    assert reading.spans.tolist() == [[1, 1], [3, 3]]
    assert brackets(readers.json(text="[1.50, 1e400, -0]")) == ["(array 1.5 inf 0)"]
    assert brackets(readers.json(text="[1, {}]", values="blank")) == [
        "(array value object)"
    ]
    reading = readers.json(text="[1]\n[2,\n[3]", lines=True, errors="skip")
    assert [(e.line, e.column) for e in reading.skipped] == [(2, 4)]
    assert len(reading) == 2


@pytest.mark.slow
def test_deep_json_is_read_by_a_stack():
    n = 100_000
    reading = readers.json(text='{"a": [' * n + "1" + "]}" * n)
    assert reading.forest[0].depth == 3 * n + 1
    reading = readers.json(text=["[" * n + "1 2" + "]" * n, "[]"], errors="skip")
    assert (len(reading), reading.skipped[0].column) == (1, n + 3)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@pytest.mark.slow
@given(values, st.integers(0, 2), st.data())
def test_the_stack_reads_json_as_the_library_does(value, indent, data):
    from treekernel_rs.readers import _documents

    text = json.dumps(value, indent=indent or None)
    at = data.draw(st.integers(0, len(text)))
    places = []
    broken = text[:at] + data.draw(st.sampled_from('[]{},:"1 xt')) + text[at:]
    for each in (text, broken, text[:at]):
        found = []
        for loads in (
            functools.partial(json.loads, object_pairs_hook=_documents.Pairs),
            _documents.deep_loads,
        ):
            try:
                found.append(repr(loads(each)))
            except json.JSONDecodeError as error:
                found.append("an error")
                places.append(error.pos)
        assert found[0] == found[1]
    assert all(0 <= place <= len(broken) for place in places)


def test_of_sql_the_good_statements_are_read():
    pytest.importorskip("sqlglot")
    text = "SELECT a\n  FROM t;\n\n-- a note\nSELECT b FROM (;\nSELECT ';'; SELECT c"
    reading = readers.sql(text=text, errors="skip")
    assert reading.spans.tolist() == [[1, 2], [6, 6], [6, 6]]
    assert [(e.line, e.expected) for e in reading.skipped] == [(5, "SQL")]
    good = text.replace("SELECT b FROM (", "SELECT b")
    reading = readers.sql(text=good)
    assert reading.spans.tolist() == [[1, 2], [5, 5], [6, 6], [6, 6]]
    with pytest.raises(tk.ParseError, match="line 5"):
        readers.sql(text=text)


def test_sql_is_what_sqlglot_reads():
    sqlglot = pytest.importorskip("sqlglot")
    query = "SELECT a, count(*) FROM t WHERE b > 1 AND c = 'x' GROUP BY a; SELECT 1"
    reading = readers.sql(text=query, literals="keep")

    def slow(node):
        return type(node).__name__, tuple(slow(n) for n in node.iter_expressions())

    plain = readers.sql(text=query, identifiers="blank", literals="blank")
    assert brackets(plain) == [oracle.show(slow(s)) for s in sqlglot.parse(query)]
    assert {"a", "t", "1", "x"} <= set(reading.forest.labels)
    with pytest.raises(
        tk.ParseError, match=r"line 2, column \d+ .*expected SQL"
    ) as got:
        readers.sql(text="SELECT a\nFROM (")
    assert got.value.line == 2
    with pytest.raises(tk.ParseError):
        readers.sql(text="SELECT " + "(" * 100_000)


# --- Code ---------------------------------------------------------------------------------


def slow_ast(node, *, identifiers, literals):
    """The trees of datasets.python_functions by their description, recursively."""
    same = functools.partial(slow_ast, identifiers=identifiers, literals=literals)
    if isinstance(node, str):
        return node, ()
    name = type(node).__name__
    if isinstance(node, ast.Constant | ast.MatchSingleton):
        kind = type(node.value).__name__
        value = ((repr(node.value), ()),) if literals == "keep" else ()
        return name, ((kind, value),) if literals != "blank" else ()
    children = []
    wrapped = {
        *("body", "orelse", "finalbody", "decorator_list", "returns", "posonlyargs"),
        *("vararg", "kwonlyargs", "kw_defaults", "kwarg", "defaults", "lower"),
        *("upper", "step", "kwd_patterns", "default_value"),
    }
    dropped = {
        "ctx",
        "type_comment",
        "kind",
        "simple",
        "level",
        "conversion",
        "is_async",
    }
    for field, value in ast.iter_fields(node):
        if field in dropped:
            continue
        items = value if isinstance(value, list) else [value]
        documented = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module
        if field == "body" and isinstance(node, documented) and ast.get_docstring(node):
            items = items[1:]
        below = []
        for item in items:
            if item is None and isinstance(value, list):
                below.append(("None", ()))
            elif isinstance(item, ast.AST) or (isinstance(item, str) and identifiers):
                below.append(same(item))
        if field in wrapped and not isinstance(
            node, ast.Lambda | ast.IfExp | ast.Module
        ):
            below = [(field, tuple(below))] if below else []
        children += below
    return name, tuple(children)


@pytest.mark.parametrize("literals", ["keep", "type", "blank"])
@pytest.mark.parametrize("identifiers", ["keep", "blank"])
def test_python_is_what_ast_says(identifiers, literals):
    files = [STDLIB / name for name in ("ast.py", "typing.py", "dataclasses.py")]
    options = {"identifiers": identifiers, "literals": literals}
    reading = readers.python_ast(files, **options)
    options["identifiers"] = identifiers == "keep"
    for file, text in zip(files, brackets(reading), strict=True):
        tree = ast.parse(file.read_bytes())
        assert text == oracle.show(slow_ast(tree, **options))


def test_functions_have_names_and_lines():
    file = STDLIB / "json" / "decoder.py"
    reading = readers.python_ast(STDLIB / "json", level="function")
    decode = reading.names.index("JSONDecoder.decode")
    assert reading.sources[decode] == str(file)
    first, last = reading.spans[decode]
    lines = file.read_text(encoding="utf-8").splitlines()
    assert lines[first - 1].strip().startswith("def decode(")
    assert lines[last - 1].strip() == "return obj"
    assert {tree.label for tree in reading.forest} == {"FunctionDef"}
    code = "def f():\n    'doc'\n    def g(): pass\nif 1:\n    async def h(): 'doc'\n"
    reading = readers.python_ast(text=code, level="function", identifiers="blank")
    assert reading.names == ["f", "h"]
    assert brackets(reading)[1] == "(AsyncFunctionDef arguments)"
    reading = readers.python_ast(
        text=code, level="function", docstrings=True, literals="keep"
    )
    assert "'doc'" in reading.forest.labels


def slow_nodes(node, code):
    """Named nodes by lists of children."""
    if "comment" in node.type or not node.is_named:
        return None
    below = [slow_nodes(child, code) for child in node.children]
    text = code[node.start_byte : node.end_byte].decode()
    if not node.children and "identifier" in node.type:
        return node.type, ((text, ()),)
    return node.type, tuple(child for child in below if child)


JAVA = """\
package a.b; // comment
class Point<T> { int x = 1; String s = "é";
  Point(int x) { this.x = x; }
  int twice() { return x + x; /* two */ }
}
"""


def test_tree_sitter_is_walked_as_its_nodes_say():
    ts = pytest.importorskip("tree_sitter")
    java = ts.Language(pytest.importorskip("tree_sitter_java").language())
    tree = ts.Parser(java).parse(JAVA.encode())
    slow = oracle.show(slow_nodes(tree.root_node, JAVA.encode()))
    assert brackets(readers.tree_sitter(text=JAVA, language=java)) == [slow]
    assert brackets(readers.tree_sitter(text=JAVA, language="java")) == [slow]
    reading = readers.tree_sitter(text=JAVA, language="java", level="function")
    assert (reading.names, reading.spans.tolist()) == (
        ["Point", "twice"],
        [[3, 3], [4, 4]],
    )
    assert [tree.label for tree in reading.forest] == [
        "constructor_declaration",
        "method_declaration",
    ]
    whole = readers.tree_sitter(text=JAVA, language="java").forest
    assert tk.Forest.from_trees([tree, tree.root_node]) == whole + whole
    node = tree.root_node.named_children[2]
    assert tk.Forest.from_trees([node])[0] == whole[0].children[1]
    blank = readers.tree_sitter(
        text=JAVA, language="java", identifiers="blank", literals="blank"
    )
    assert {"x", "1", "é"}.isdisjoint(blank.forest.labels)
    tokens = readers.tree_sitter(
        text=JAVA, language="java", tokens=True, comments=True
    ).forest.labels
    assert {"{", "class", "// comment"} <= set(tokens)
    with pytest.raises(tk.ParseError, match="line 2, column 3"):
        readers.tree_sitter(text="class A {\n  ?\n}", language="java")
    with pytest.raises(ValueError, match="name of a grammar"):
        readers.tree_sitter(text=JAVA, language="../java")
    with pytest.raises(TypeError, match="language must be"):
        readers.tree_sitter(text=JAVA, language=3)


def test_real_code_is_walked_as_its_nodes_say():
    ts = pytest.importorskip("tree_sitter")
    python = ts.Language(pytest.importorskip("tree_sitter_python").language())
    files = [STDLIB / name for name in ("ast.py", "typing.py", "dataclasses.py")]
    for file, text in zip(
        files, brackets(readers.tree_sitter(files, language=python)), strict=True
    ):
        code = file.read_bytes()
        root = ts.Parser(python).parse(code).root_node
        assert text == oracle.show(slow_nodes(root, code))


def test_lines_of_long_code_are_told_and_do_no_harm():
    pytest.importorskip("tree_sitter_java")
    code = "class A {\n" + "int f() {\n  return 1;\n}\n" * 2_000 + "}\n"
    # Points of tree-sitter 0.26.0 lose a reference to each line number above 256: the
    # process crashed here.
    for _ in range(3):
        reading = readers.tree_sitter(text=code, language="java", level="function")
        spans = [[k, k + 2] for k in range(2, 6_001, 3)]
        assert reading.spans.tolist() == spans
    assert readers.tree_sitter(text=code, language="java").spans.tolist() == [
        [1, 6_003]
    ]


# --- Phylogenies --------------------------------------------------------------------------


def test_phylogenies_are_what_dendropy_reads(tmp_path):
    dendropy = pytest.importorskip("dendropy")
    rng = random.Random(0)
    taxa = dendropy.TaxonNamespace([f"T{k} o'x" for k in range(30)])
    trees = dendropy.TreeList(taxon_namespace=taxa)
    for _ in range(20):
        trees.append(
            dendropy.simulate.treesim.birth_death_tree(
                1.0, 0.5, num_extant_tips=30, taxon_namespace=taxa, rng=rng
            )
        )
    expected = tk.Forest.from_trees(list(trees))
    expected = expected.relabel(lambda label: label or "node")
    for schema, reader, suffix in (
        ("newick", readers.newick, "nwk"),
        ("nexus", readers.nexus, "nex"),
    ):
        path = tmp_path / f"trees.{suffix}"
        trees.write(path=path, schema=schema)
        assert reader(path).forest == expected
        assert reader(tmp_path).forest == expected
        again = dendropy.TreeList.get(path=path, schema=schema)
        lengths = reader(path, lengths=[0.1, 0.3], leaves="blank").forest
        binned = []
        for tree in again:
            for node in tree:
                label = "leaf" if node.is_leaf() else "node"
                length = node.edge.length
                at = "?" if length is None else sum(length > x for x in (0.1, 0.3))
                node.label, node.taxon = f"{label}:{at}", None
            binned.append(tree)
        assert lengths == tk.Forest.from_trees(binned)


def test_names_comments_and_lengths_of_newick():
    text = "[&R] ( 'a b'[x]:1 , 'it''s':2e-1,)\n(c)95:0.5; x; (,);"
    with pytest.raises(tk.ParseError, match="line 2, column 1"):
        readers.newick(text=text)
    reading = readers.newick(text=text, errors="skip")
    assert brackets(reading) == ["(x)", "(node leaf leaf)"]
    reading = readers.newick(
        text="('a b'[x]:1,'it''s':.2,(c,d)95:5e0)r;", lengths=[1, 4.0]
    )
    assert brackets(reading) == [r"(r:? a\ b:0 it's:0 (node:2 c:? d:?))"]
    assert reading.names == ["r"]


def test_comments_nest_and_other_blocks_are_passed_over():
    assert brackets(readers.newick(text="(a[x[y]z],b[;])[&R];")) == ["(node a b)"]
    with pytest.raises(tk.ParseError, match=r"line 1, column 3 .*an end of a comment"):
        readers.newick(text="(a[x[y],b);")
    text = "#NEXUS\nBegin data;\nMatrix\na 5'AC-{CT}?[\n;end;\nbegin trees;\ntree t=(x,y);\nend;"
    reading = readers.nexus(text=text)
    assert (brackets(reading), reading.spans.tolist()) == (["(node x y)"], [[7, 7]])


def test_nexus_translates_and_skips():
    text = (
        "#nexus [c]\nBEGIN TAXA; DIMENSIONS NTAX=2; END;\nBegin Trees;\n"
        "Translate 1 'A a', 2 B;\nTree * 'one x' = [&U] (1,2);\nTREE bad = (1,;\n"
        "UTREE two = (2,3);\nEND;\nBEGIN NOTES; TREE no = (1,2); END;"
    )
    reading = readers.nexus(text=text, errors="skip")
    assert brackets(reading) == [r"(node A\ a B)", "(node B 3)"]
    assert reading.names == ["one x", "two"]
    assert reading.spans.tolist() == [[5, 5], [7, 7]]
    assert [(e.line, e.column) for e in reading.skipped] == [(6, 15)]


# --- RNA ------------------------------------------------------------------------------------

structures = st.recursive(
    st.text(".", max_size=4),
    lambda inner: st.lists(
        st.one_of(st.text(".", max_size=3), inner.map("({})".format)), max_size=4
    ).map("".join),
    max_leaves=12,
).filter(bool)


def slow_loops(text, *, sizes):
    """Loops and stems by recursion on the text between two brackets."""

    def parts(inside):
        found, depth, start = [], 0, 0
        for at, char in enumerate(inside):
            depth += (char == "(") - (char == ")")
            if char == "(" and depth == 1:
                start = at
            if char == ")" and depth == 0:
                found.append((start, at))
        return found

    def label(kind, n):
        return f"{kind}:{n}" if sizes else kind

    def loop(inside, kind=None):
        below = parts(inside)
        free = len(inside) - sum(end + 1 - start for start, end in below)
        if kind is None:
            if len(below) == 1:
                both = below[0][0] > 0 and below[0][1] < len(inside) - 1
                kind = "interior" if both else "bulge"
            else:
                kind = "multi" if below else "hairpin"
        return label(kind, free), tuple(stem(inside[a + 1 : b]) for a, b in below)

    def stem(inside):
        n = 1
        while inside[:1] == "(" and parts(inside) == [(0, len(inside) - 1)]:
            inside, n = inside[1:-1], n + 1
        return label("stem", n), (loop(inside),)

    return loop(text, "exterior")


@given(structures, st.booleans())
def test_loops_are_those_of_the_slow_reader(text, sizes):
    reading = readers.dot_bracket(text=text, sizes=sizes)
    assert brackets(reading) == [oracle.show(slow_loops(text, sizes=sizes))]


@given(structures)
def test_base_pairs_are_the_brackets(text):
    nested = re.sub(r"\(", "(pair ", text).replace(".", " base ")
    expected = tk.Forest.from_brackets([f"(exterior {nested})"])
    assert readers.dot_bracket(text=text, nodes="pairs").forest == expected


def test_structures_are_those_of_viennarna():
    RNA = pytest.importorskip("RNA")
    rng = random.Random(0)
    for _ in range(40):
        sequence = "".join(rng.choices("ACGU", k=90))
        structure, energy = RNA.fold(sequence)
        partner = RNA.ptable(structure)  # from 1; the first entry is the length
        pairs = [(i, k) for i, k in enumerate(partner) if i and k > i]
        text = f">x\n{sequence}\n{structure} ({energy:.2f})\n"
        (tree,) = readers.dot_bracket(text=text, nodes="pairs", bases=True).forest
        found = [label for label in tree_labels(tree) if len(label) == 2]
        assert found == [sequence[i - 1] + sequence[k - 1] for i, k in pairs]
        # A pair that stacks on the next closes no loop.
        stacked = sum(partner[i + 1] == k - 1 for i, k in pairs if k > i + 1)
        labels = tree_labels(readers.dot_bracket(text=structure).forest[0])
        assert len(labels) == 1 + 2 * (len(pairs) - stacked)


def tree_labels(tree):
    """Labels in preorder."""
    found, todo = [], [tree]
    while todo:
        node = todo.pop()
        found.append(node.label)
        todo += reversed(node.children)
    return found


def test_names_sequences_and_energies_of_rna():
    text = ">a b\nGGAAACC\n((...)) (-1.20)\n\n>c\nACGU\n....\n(..)\n"
    reading = readers.dot_bracket(text=text, nodes="pairs", bases=True)
    assert reading.names == ["a b", "c", "c"]
    assert [m["sequence"] for m in reading.metadata] == ["GGAAACC", "ACGU", "ACGU"]
    assert brackets(reading) == [
        "(exterior (GC (GC A A A)))",
        "(exterior A C G U)",
        "(exterior (AU C G))",
    ]
    assert reading.spans.tolist() == [[3, 3], [7, 7], [8, 8]]
    with pytest.raises(tk.ParseError, match="a sequence of 4 bases before it"):
        readers.dot_bracket(text="(..)", bases=True)


# --- Glycans --------------------------------------------------------------------------------


def test_a_glycan_hangs_from_its_reducing_end():
    core = "Man(a1-3)[Gal(b1-4)GlcNAc(b1-2)Man(a1-6)]Man(b1-4)GlcNAc(b1-4)[Fuc(a1-6)]GlcNAc"
    assert brackets(readers.glycans(text=core, linkages="drop", order="as_is")) == [
        "(GlcNAc Fuc (GlcNAc (Man (Man (GlcNAc Gal)) Man)))"
    ]
    other = "Gal(b1-4)GlcNAc(b1-2)Man(a1-6)[Man(a1-3)]Man(b1-4)GlcNAc(b1-4)[Fuc(a1-6)]GlcNAc"
    reading = readers.glycans(text=[core, f"{other}\n\n{core}"])
    assert reading.forest[0] == reading.forest[1] == reading.forest[2]
    assert reading.names == [core, other, core]
    assert reading.spans.tolist() == [[1, 1], [1, 1], [3, 3]]
    assert brackets(
        readers.glycans(text="Neu5Ac(a2-3)[Fuc(a1-2)[GalNAc(a1-3)]Gal(b1-4)]Glc")
    ) == [r"(Glc (Gal\(b1-4\) Fuc\(a1-2\) GalNAc\(a1-3\)) Neu5Ac\(a2-3\))"]


def test_glycans_are_the_graphs_of_glycowork():
    pytest.importorskip("glycowork")
    from glycowork.motif.graph import glycan_to_nxGraph

    data = tk.datasets.glycans()
    for name, tree in list(zip(data.names, data.forest, strict=True))[::200]:
        graph = glycan_to_nxGraph(name)
        residues = sorted(label for _, label in graph.nodes(data="string_labels"))
        found, todo = [], [tree]
        while todo:
            node = todo.pop()
            found += [part for part in re.split(r"[()]", node.label) if part]
            todo += node.children
        assert sorted(found) == residues


def test_python_is_read_in_the_encoding_that_it_names(tmp_path):
    path = tmp_path / "old.py"
    path.write_bytes("# -*- coding: latin-1 -*-\né = 1\n".encode("latin-1"))
    assert "é" in readers.python_ast(path).forest.labels
    path.write_bytes(b"#!/bin/python\n# coding: klingon\nx = 1\n")
    with pytest.raises(tk.ParseError, match="expected a known encoding, got 'klingon'"):
        readers.python_ast(path)
    path.write_bytes(b"\xef\xbb\xbfx = 1\n# \xff\n")
    with pytest.raises(tk.ParseError, match=r"line 2, column 3 .*expected UTF-8, got"):
        readers.python_ast(path)
    # Only the first two lines count.
    path.write_bytes("\n\n# coding: latin-1\né = 1\n".encode())
    assert "é" in readers.python_ast(path).forest.labels
