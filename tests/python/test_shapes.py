"""Shapes of trees that are read, and names of code: `shape=` and `identifiers=`."""

from __future__ import annotations

import ast
import re
import symtable
import sys
import warnings
from collections import Counter
from pathlib import Path

import oracle
import pytest

from treekernel_rs import readers
from treekernel_rs.readers import _names

STDLIB = Path(ast.__file__).parent


def chained(label, children):
    """The chain of a list, by its description."""
    if len(children) < 2:
        return label, tuple(children)
    return label, (children[0], chained(label, children[1:]))


def plain(tree, is_list):
    """A tree of the library with the chains that `is_list` asks for, recursively."""
    below = [plain(child, is_list) for child in tree.children]
    return (
        chained(tree.label, below)
        if is_list(tree.label)
        else (tree.label, tuple(below))
    )


def is_python_list(label):
    return label in ("Module", "body", "orelse", "finalbody")


def test_chains_of_statements_are_those_of_the_slow_twin():
    files = [STDLIB / name for name in ("ast.py", "dataclasses.py", "json/decoder.py")]
    for level in ("module", "function", "every_function"):
        as_is = readers.python_ast(files, level=level)
        chains = readers.python_ast(files, level=level, shape="chain")
        expected = [oracle.show(plain(tree, is_python_list)) for tree in as_is.forest]
        assert chains.forest.to_brackets() == expected
        assert chains.names == as_is.names
        assert chains.spans.tolist() == as_is.spans.tolist()


def test_chains_of_documents_are_those_of_the_slow_twin():
    texts = {
        "xml": '<ul class="x" id="y"><li>a</li><li/><li><b/><i/>c</li></ul>',
        "json": '{"a": [1, 2, [3, 4]], "b": {}, "c": {"d": null}}',
    }
    for name, text in texts.items():
        read = getattr(readers, name)
        expected = oracle.show(plain(read(text=text).forest[0], lambda _: True))
        assert read(text=text, shape="chain").forest.to_brackets() == [expected]
    pytest.importorskip("lxml")
    page = "<p>a<b>c</b><i>d</i></p><p>e</p>"
    expected = oracle.show(plain(readers.html(text=page).forest[0], lambda _: True))
    assert readers.html(text=page, shape="chain").forest.to_brackets() == [expected]


@pytest.mark.parametrize("name", ["python_ast", "tree_sitter", "xml", "html", "json"])
def test_shapes_are_checked(name):
    options = {"language": "java"} if name == "tree_sitter" else {}
    with pytest.raises(ValueError, match="shape must be 'as_is' or 'chain', got 'up'"):
        getattr(readers, name)(text="", shape="up", **options)


CODE = """\
def f(x):
    a = 1
    if x:
        b = 2
        c = 3
    return (a,
            x)
"""


def test_lines_of_a_chain_are_those_of_what_is_left_of_the_list():
    reading = readers.python_ast(
        text=CODE, level="function", identifiers="blank", shape="chain", node_spans=True
    )
    bodies = [node.span for node in reading.walk() if node.label == "body"]
    assert bodies == [(2, 7), (3, 7), (4, 5), (5, 5), (6, 7)]
    xml = "<a>\n<b/>\n<c><d/>\n<e/></c>\n<f/></a>"
    reading = readers.xml(text=[xml, xml], shape="chain", node_spans=True)
    for tree in (0, 1):
        spans = [(node.label, node.span) for node in reading.walk(tree)]
        assert spans == [
            *(
                ("a", (1, 5)),
                ("b", (2, 2)),
                ("a", (3, 5)),
                ("c", (3, 4)),
                ("d", (3, 3)),
            ),
            *(("c", (4, 4)), ("e", (4, 4)), ("a", (5, 5)), ("f", (5, 5))),
        ]


def test_lines_of_chains_fit_a_walk_of_both_trees():
    """Every node but the added ones keeps its lines, in the order of the nodes."""
    file = STDLIB / "json" / "decoder.py"
    as_is = readers.python_ast(file, node_spans=True)
    chains = readers.python_ast(file, node_spans=True, shape="chain")
    assert len(chains.node_spans) == chains.forest.n_nodes.sum()
    above = {}
    kept = []
    for node in chains.walk():
        parent = node.parent
        # A node of a chain stands below one with its label, as its second child.
        is_added = (
            parent is not None
            and node.label == parent.label
            and is_python_list(node.label)
            and parent.children[-1] == node
            and len(parent.children) == 2
        )
        if is_added:
            above[node.number] = parent
        else:
            kept.append((node.label, node.span))
    assert above
    assert kept == [(node.label, node.span) for node in as_is.walk()]
    for number, parent in above.items():
        first, last = chains.node_spans[number]
        assert parent.span[0] <= first <= last == parent.span[1]


# --- Names ----------------------------------------------------------------------------


def names_left(code, **options):
    """The names that are leaves below a variable or an argument, in order."""
    reading = readers.python_ast(text=code, identifiers="locals", **options)
    return [
        node.label
        for node in reading.walk()
        if not node.children
        and node.parent.label in ("Name", "arg", "alias", "Nonlocal")
    ]


@pytest.mark.parametrize(
    ("code", "left"),
    [
        ("def f(a, *b, c=d, **e):\n return a, b, c, d, e", ["d", "d"]),
        ("def f(a: int) -> b:\n c: int = a\n return c", ["int", "int", "b"]),
        ("a = 1\ndef f():\n return a", ["a", "a"]),
        ("def f():\n global a\n a = 1\n return a", ["a", "a"]),
        ("def f():\n a = 1\n def g():\n  nonlocal a\n  a = b\n return g", ["b"]),
        ("def f():\n global a\n def g():\n  return a\n", ["a"]),
        ("def f(a):\n return lambda b: a(b, c)", ["c"]),
        ("def f(a):\n return [b for b in a if b in c]", ["c"]),
        ("[a for a in b]", ["b"]),
        ("[a for a in b for c in a]", ["b"]),
        ("def f():\n return [a := b for b in c], a", ["c"]),
        ("[a := b for b in c]", ["a", "c"]),
        # The method's `b` is no attribute of the class.
        ("def f(a):\n class C:\n  b = a\n  def g(self):\n   return b", ["b", "b"]),
        ("class C:\n def g(self):\n  return g, C, self", ["g", "C"]),
        ("class C:\n a = 1\n b = [c for c in a]", ["a", "b", "a"]),
        (
            "def f():\n import a, b.c\n import d as e\n return a, b, e",
            ["a", "b.c", "d", "a", "b"],
        ),
        ("def f():\n try: a()\n except b as c: c()", ["a", "b"]),
        ("def f():\n with a as b, c as (d, e): b, d, e", ["a", "c"]),
        ("def f(a):\n for b, *c in a: del b\n return c", []),
        (
            "def f(a):\n match a:\n  case {'b': c, **d}: c, d\n  case [e, *g] as h: h",
            [],
        ),
        ("def f():\n a = 1\n class a: pass\n return a", []),
        ("def f(a):\n def g(b=a): return b\n return g(b=1)", []),
        ("def f(a):\n return a.b.a(a=a)", []),
    ],
)
def test_names_of_parameters_and_local_variables_go(code, left):
    assert names_left(code) == left


def test_names_of_attributes_functions_and_keywords_stay():
    code = "def f(a):\n return a.b(c=g(a))\ndef h(): pass\nclass C: pass"
    labels = readers.python_ast(text=code, identifiers="locals").forest.labels
    assert {"b", "c", "g", "f", "h", "C"} <= set(labels)
    assert "a" not in labels


def test_each_name_of_kind_is_local_or_other():
    code = "def f(a):\n global g\n b, g = a.c, print(a=b)\n def h(): nonlocal b, a"
    forest = readers.python_ast(text=code, identifiers="kind").forest
    assert str(forest[0]) == (
        "(Module (FunctionDef other (arguments (arg local)) (body (Global other) (Assign "
        "(Tuple (Name local) (Name other)) (Tuple (Attribute (Name local) other) "
        "(Call (Name other) (keyword other (Name local))))) (FunctionDef local arguments "
        "(body (Nonlocal local local))))))"
    )


def by_compiler(code, file):
    """For each function, lambda and comprehension: its names, and those it takes from
    functions around it.
    """
    todo, found = [(symtable.symtable(code, file, "exec"), frozenset())], []
    while todo:
        table, imported = todo.pop()
        # Imports have the names of what is outside.
        imported |= {s.get_name() for s in table.get_symbols() if s.is_imported()}
        todo += [(child, imported) for child in table.get_children()]
        if table.get_type() != "function":
            continue
        symbols = [s for s in table.get_symbols() if is_plain(s.get_name())]
        bound = {s.get_name() for s in symbols if s.is_local() and not s.is_imported()}
        used = (s for s in symbols if s.is_free())
        used = {s.get_name() for s in used if s.is_referenced() or s.is_assigned()}
        found.append((frozenset(bound), frozenset(used - imported)))
    return Counter(found)


def is_plain(name):
    # Not the iterator of a comprehension, nor a name to which a class adds its own.
    return not re.match(r"\.|_\w*__|__class__$", name)


@pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="comprehensions are parts of functions"
)
@pytest.mark.parametrize(
    "file",
    [
        *(
            "ast.py",
            "dataclasses.py",
            "typing.py",
            "enum.py",
            "inspect.py",
            "doctest.py",
        ),
        *("asyncio/tasks.py", "unittest/mock.py", "functools.py", "difflib.py"),
        *("statistics.py", "contextlib.py", "tarfile.py", "argparse.py"),
    ],
)
def test_local_names_are_those_of_the_compiler(file):
    code = (STDLIB / file).read_text(encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = by_compiler(code, file)
        module = ast.parse(code)
    found = []
    for scope in _names._scopes(module):
        if scope.kind not in ("function", "comprehension"):
            continue
        outside = scope.globals | scope.elsewhere
        bound = filter(is_plain, scope.bound - scope.imported - outside)
        used = {n for node, field in scope.uses for n in names_of(getattr(node, field))}
        used = {n for n in used if is_plain(n) and scope.is_local(n)}
        found.append((frozenset(bound), frozenset(used - (scope.bound - outside))))
    assert Counter(found) == expected


def names_of(value):
    return value if isinstance(value, list) else [value]


# --- Names by tree-sitter ---------------------------------------------------------------

SOURCES = {
    # A language, its code, and what is left of its names.
    "java": (
        """class A { int y;
          int f(int x, String... v) {
            this.y = x; for (T t : v) { g(t); t.x(x); }
            F h = (a, b) -> a.x; try (R r = o()) { } catch (E e) { e.p(y, h, r); }
            return f(x);
          } }""",
        "A y f String y T g x F x R o E p y f",
    ),
    "javascript": (
        """function f(a, {b, c: d}, [e] = [1], ...g) {
            const h = x => x.a, {i, j = 2} = k; f(z);
            for (const n of a) { try { n(b) } catch (r) { r(d, e, g, h, i, j) } }
            return {a, v: a, z}; }""",
        "f c a k f z v z",
    ),
    "typescript": (
        """function f(a: number, b?: T): void { const h = <U>a; g(b, h, c); }
           class A { m(y: T) { return y.y } }""",
        "f T U g c A m T y",
    ),
    "tsx": ("const C = ({a, b}: P) => <p a={a}>{z(b)}</p>;", "C P p a z p"),
    "go": (
        """package p
           func (r *R) F(a, b int, c ...T) (d error) {
             x, y := g(a); var z = 1; for i, v := range c { h(i, v, G) }
             q := func(s int) { s++ }; r.x = a
             return S{a: b, x: y, z: d, w: q, k: x, l: z} }""",
        "p R F int T error g h G int x S a x z w k l",
    ),
    "c": (
        """static int *f(int a, char **b, void (*cb)(int), T c[3]) {
             int x = 1, *y, z[2]; for (int i = 0; i < x; i++) { s->x = y[i]; cb(g); }
             f(a, b, c, z); return a; }""",
        "f T s x g f",
    ),
}


@pytest.mark.parametrize("language", SOURCES)
def test_names_that_a_function_declares_go(language):
    pytest.importorskip("tree_sitter")
    pytest.importorskip(
        f"tree_sitter_{'typescript' if language == 'tsx' else language}"
    )
    code, left = SOURCES[language]

    def names(**options):
        reading = readers.tree_sitter(text=code, language=language, **options)
        return [
            node.label
            for node in reading.walk()
            if not node.children and node.parent and "identifier" in node.parent.label
        ]

    assert names(identifiers="locals") == left.split()
    every = names()
    kinds = names(identifiers="kind")
    assert len(kinds) == len(every)
    others = [name for name, kind in zip(every, kinds, strict=True) if kind == "other"]
    assert others == left.split()
    assert set(kinds) == {"local", "other"}


def test_functions_have_the_names_that_the_source_gives_them():
    pytest.importorskip("tree_sitter")
    code = {
        "c": "char **f(void) { return 0; } int (*g(int z))(int) { return h; }",
        "javascript": "const f = () => 1; o.g = function () {}; p = {h: async (x) => x};",
        "go": "package p\nfunc f() { g := func() {}; g() }",
    }
    expected = {"c": ["f", "g"], "javascript": ["f", "o.g", "h"], "go": ["f", ""]}
    for language, text in code.items():
        pytest.importorskip(f"tree_sitter_{language}")
        reading = readers.tree_sitter(
            text=text, language=language, level="every_function"
        )
        assert reading.names == expected[language]


def test_functions_in_functions_follow_these():
    code = "def f():\n def g():\n  class C:\n   def h(self): pass\ndef i(): pass"
    reading = readers.python_ast(text=code, level="every_function")
    names = ["f", "f.<locals>.g", "f.<locals>.g.<locals>.C.h", "i"]
    assert reading.names == names
    assert reading.spans.tolist() == [[1, 4], [2, 4], [4, 4], [5, 5]]
    locals_ = readers.python_ast(
        text=code, level="every_function", identifiers="locals"
    )
    assert locals_.names == names
    pytest.importorskip("tree_sitter_java")
    code = "class A { int f() {\n return new B() { int g() { return 1; } }.g(); } }"
    every = readers.tree_sitter(text=code, language="java", level="every_function")
    assert (every.names, every.spans.tolist()) == (["f", "g"], [[1, 2], [2, 2]])
    outer = readers.tree_sitter(text=code, language="java", level="function")
    assert outer.forest == every.forest[:1]


def test_functions_without_errors_are_read_where_others_have_some():
    pytest.importorskip("tree_sitter_java")
    code = (
        "class A { int f() { return 1; } int g() { return ?; } int h() { return 3; } }"
    )
    options = {"text": code, "language": "java", "errors": "skip"}
    reading = readers.tree_sitter(level="every_function", **options)
    assert reading.names == ["f", "h"]
    assert [error.column for error in reading.skipped] == [50]
    assert len(readers.tree_sitter(level="function", **options)) == 0


def test_blocks_of_other_languages_become_chains():
    pytest.importorskip("tree_sitter_java")
    code = "class A { int f(int x) { a(); b(); if (x) { c(); d(); } } int y; }"
    as_is = readers.tree_sitter(text=code, language="java").forest
    chains = readers.tree_sitter(text=code, language="java", shape="chain").forest
    lists = {"program", "class_body", "block"}
    assert chains.to_brackets() == [oracle.show(plain(as_is[0], lists.__contains__))]
    assert chains != as_is


def test_local_names_need_a_known_language():
    ts = pytest.importorskip("tree_sitter")
    java = ts.Language(pytest.importorskip("tree_sitter_java").language())
    if getattr(java, "name", None) is None:
        with pytest.raises(ValueError, match=r"declarations are known \(c, go, java"):
            readers.tree_sitter(text="", language=java, identifiers="locals")
