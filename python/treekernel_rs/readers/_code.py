"""Source code: Python by its own parser, other languages by tree-sitter.

The trees are walked by the native `CodeBuilder`, which asks once for each class of `ast`
and each symbol of a grammar what becomes of it.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import re
import warnings
from array import array
from bisect import bisect_left
from importlib import metadata
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from treekernel_rs._core import CodeBuilder, ParseError
from treekernel_rs._extras import missing, needed
from treekernel_rs.readers._names import (
    FUNCTION_NODE,
    FUNCTIONS,
    Declarations,
    captures,
    change_names,
    kinds_of,
    name_node,
    outermost,
)
from treekernel_rs.readers._reading import SHAPES, Collector, Reading, choice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treekernel_rs.readers._reading import Progress
    from treekernel_rs.readers._source import Source, Texts

    Level: TypeAlias = str

# Context follows from the position in the tree; the rest is spelling: type comments,
# the `u` prefix, parentheses around an annotated name, dots of a relative import,
# `!r` in an f-string, and the source text that a template string repeats. `is_async`
# is lost with them, the price for having no leaf without a node class of its own.
_DROPPED_FIELDS = frozenset(
    {"ctx", "type_comment", "kind", "simple", "level", "conversion", "str", "is_async"}
)

# Fields that cannot be told from a neighbour by position or by label. Wrapping every
# field would be simpler to state, but would add a node to each call and each operator.
_WRAPPED_FIELDS = frozenset(
    {
        *("body", "orelse", "finalbody"),
        *("decorator_list", "returns"),
        *("posonlyargs", "vararg", "kwonlyargs", "kw_defaults", "kwarg", "defaults"),
        *("lower", "upper", "step"),
        *("kwd_patterns", "default_value"),
    }
)

# Here `body` and `orelse` are single expressions, always present. A module's body is
# all there is.
_NEVER_WRAPPED = (ast.Lambda, ast.IfExp, ast.mod)

_DOCUMENTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)
_BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")

# Lists whose items follow each other: with `shape="chain"`, chains.
_PYTHON_LISTS = frozenset({"Module", "body", "orelse", "finalbody"})
_LIST_NODE = re.compile(
    r"program|module|source_file|translation_unit|(\w+_)?(block|body|body_statement"
    r"|compound_statement|statement_list|declaration_list|statement_group)"
)
_CODING = re.compile(
    rb"(?:\xef\xbb\xbf)?(?:[ \t\f]*(?:#[^\n]*)?\n)?[ \t\f]*#[^\n]*?coding[:=][ \t]*([-\w.]+)"
)
_NAMES = ("keep", "locals", "blank", "kind")
# Grammars that come in the package of another one.
_PACKAGES = {"tsx": "typescript"}
_LITERALS = ("keep", "type", "blank")


def python_ast(
    source: Source = None,
    *,
    text: Texts = None,
    level: str = "module",
    identifiers: str = "keep",
    literals: str = "type",
    docstrings: bool = False,
    shape: str = "as_is",
    node_spans: bool = False,
    errors: str = "raise",
    progress: Progress = None,
) -> Reading:
    r"""Read Python source as syntax trees, by the parser of the running Python.

    Parameters
    ----------
    source : path, open file or iterable of these, optional
        Paths may also be directories (``*.py``) and patterns; files may be gzipped.
    text : str, bytes or iterable of these, optional
        The text itself, in place of `source`.
    level : {"module", "function", "every_function"}, default "module"
        One tree for each text; or for each function and method that is in no other; or
        for those in others as well, which are also parts of the trees of these.
    identifiers : {"keep", "locals", "blank", "kind"}, default "keep"
        Keep names of functions, variables, attributes, arguments, keywords and imports
        as leaves, or drop them. "locals" drops those of parameters and local variables
        only, by Python's rules for scopes; "kind" writes ``local`` in place of these and
        ``other`` in place of all others.
    literals : {"keep", "type", "blank"}, default "type"
        A constant is ``(Constant (int 1))``, ``(Constant int)`` or ``Constant``.
    docstrings : bool, default False
        Keep them.
    shape : {"as_is", "chain"}, default "as_is"
        "chain" makes chains of lists of statements, as `Forest.binarize` does.
    node_spans : bool, default False
        Keep the lines of each node. Nodes that have none in `ast`, such as names of
        arguments, have those of the node above; fields have those of what is in them.
    errors : {"raise", "skip"}, default "raise"
        "skip" leaves out the texts that do not parse, and lists why.
    progress : callable or True, optional
        Called as progress(done, total), in texts; True shows a bar.

    Returns
    -------
    Reading
        `names` are qualified, as in ``JSONDecoder.decode``; `spans` are lines.

    Raises
    ------
    ParseError
        With file, line, column, what was expected and what was found.

    Notes
    -----
    `datasets.python_functions` describes the trees. Comments are no part of them.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> code = "class A:\n    def f(self):\n        return 1\n"
    >>> reading = tk.readers.python_ast(
    ...     text=code, level="function", identifiers="blank"
    ... )
    >>> reading.names, reading.spans.tolist()
    (['A.f'], [[2, 3]])
    >>> str(reading.forest[0])
    '(FunctionDef (arguments arg) (body (Return (Constant int))))'
    """
    choice("level", level, "module", "function", "every_function")
    choice("identifiers", identifiers, *_NAMES)
    choice("literals", literals, *_LITERALS)
    choice("shape", shape, *SHAPES)
    builder = CodeBuilder(ast_class(identifiers, literals, docstrings=docstrings))
    collector = Collector(source, text, (".py",), errors=errors, progress=progress)
    lines = array("q")
    for each in collector.texts(encoding=_declared):
        try:
            with warnings.catch_warnings():
                # Old escapes such as "\d" warn, and that is not the reader's concern.
                warnings.simplefilter("ignore")
                with _without_collection():
                    module = ast.parse(each.content)
        except SyntaxError as error:
            # A column of ast counts characters; 0 and None mean the line.
            line, column = error.lineno or 1, max(error.offset or 1, 1)
            collector.wrong(each.error_at(line, column, "Python", error.msg))
            continue
        except (ValueError, RecursionError, MemoryError) as error:
            got = str(error) or type(error).__name__
            collector.wrong(each.error_at(1, 1, "Python", got))
            continue
        whole = (1, each.content.count("\n") + 1) if node_spans else None
        every = level == "every_function"
        functions = [] if level == "module" else list(functions_in(module, every=every))
        if identifiers in ("locals", "kind"):
            change_names(module, kinds=identifiers == "kind")
        if level == "module":
            lines.extend(chain.from_iterable(builder.push_ast(module, whole)))
            collector.add(each)
            continue
        for name, node in functions:
            lines.extend(chain.from_iterable(builder.push_ast(node, whole)))
            collector.add(each, name, (node.lineno, node.end_lineno))
    spans = np.array(lines, dtype=np.int64).reshape(-1, 2) if node_spans else None
    return collector.reading(
        builder.finish(), node_spans=spans, shape=shape, lists=_PYTHON_LISTS
    )


@contextlib.contextmanager
def _without_collection() -> Iterator[None]:
    """Put off the search for cycles: a new syntax tree has none, and it took a quarter."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _declared(code: bytes) -> str:
    """Return the encoding that one of the first two lines names (PEP 263)."""
    found = _CODING.match(code)
    return found[1].decode() if found else "utf-8-sig"


def functions_in(
    module: ast.Module, *, every: bool = False
) -> Iterator[tuple[str, Any]]:
    """List functions and methods in source order; those inside others if asked for."""
    stack: list[tuple[Any, str]] = [(module, "")]
    while stack:
        node, prefix = stack.pop()
        if isinstance(node, FUNCTIONS):
            yield f"{prefix}{node.name}", node
            if not every:
                continue
            prefix = f"{prefix}{node.name}.<locals>."
        if isinstance(node, ast.ClassDef):
            prefix = f"{prefix}{node.name}."
        # Functions defined under `if`, `try` or `with` belong to the module as well.
        for block in reversed(_BLOCKS):
            stack += [(child, prefix) for child in reversed(getattr(node, block, ()))]


def ast_class(
    identifiers: str, literals: str, *, docstrings: bool = False
) -> Callable[[type], dict[str, Any]]:
    """Return what tells the native builder how to read a class of `ast`."""

    def constant(node: Any) -> list[tuple[str, list[str]]]:
        kind = type(node.value).__name__
        return [(kind, [repr(node.value)] if literals == "keep" else [])]

    def describe(cls: type) -> dict[str, Any]:
        is_constant = issubclass(cls, ast.Constant | ast.MatchSingleton)
        documented = not docstrings and issubclass(cls, _DOCUMENTED)
        fields = [
            (
                field,
                field if wraps(cls, field) else None,
                _is_docstring if documented and field == "body" else None,
            )
            for field in cls._fields  # type: ignore[attr-defined]
            if field not in _DROPPED_FIELDS and not is_constant
        ]
        return {
            "label": cls.__name__,
            "fields": fields,
            "keep_text": identifiers != "blank",
            "leaves": constant if is_constant and literals != "blank" else None,
        }

    def wraps(cls: type, field: str) -> bool:
        return field in _WRAPPED_FIELDS and not issubclass(cls, _NEVER_WRAPPED)

    return describe


def _is_docstring(statement: Any) -> bool:
    value = getattr(statement, "value", None)
    return (
        isinstance(statement, ast.Expr)
        and isinstance(value, ast.Constant)
        and isinstance(value.value, str)
    )


def tree_sitter(
    source: Source = None,
    *,
    text: Texts = None,
    language: Any,
    level: str = "file",
    identifiers: str = "keep",
    literals: str = "type",
    comments: bool = False,
    tokens: bool = False,
    shape: str = "as_is",
    errors: str = "raise",
    progress: Progress = None,
) -> Reading:
    """Read source code of any language that tree-sitter has a grammar of.

    Parameters
    ----------
    source : path, open file or iterable of these, optional
        Paths may also be directories (all files) and patterns; files may be gzipped.
    text : str, bytes or iterable of these, optional
        The text itself, in place of `source`.
    language : tree_sitter.Language or str
        The grammar, or the name of one: of ``tree_sitter_<name>`` where that package is
        installed, else of ``tree_sitter_language_pack``.
    level : str, default "file"
        One tree for each text; or ``"function"``, for each function, method and
        constructor that is in no other, or ``"every_function"``, for those in others as
        well; or a pattern (`re`) of node types.
    identifiers : {"keep", "locals", "blank", "kind"}, default "keep"
        Keep identifier text as a child leaf, or drop it. "locals" drops the names that a
        function declares, of parameters and variables, wherever they occur in it; "kind"
        writes ``local`` in place of these and ``other`` in place of all others. Both know
        C, Go, Java, JavaScript and TypeScript.
    literals : {"keep", "type", "blank"}, default "type"
        Other named leaves: with their text, by type, or all as ``literal``.
    comments : bool, default False
        Keep comments.
    tokens : bool, default False
        Keep nodes without a name: brackets, keywords and operators.
    shape : {"as_is", "chain"}, default "as_is"
        "chain" makes chains of blocks and bodies, as `Forest.binarize` does.
    errors : {"raise", "skip"}, default "raise"
        "skip" leaves out the texts in which the parser met an error, and lists why; with
        ``"every_function"``, the functions in which it met one.
    progress : callable or True, optional
        Called as progress(done, total), in texts; True shows a bar.

    Returns
    -------
    Reading
        `names` are those of functions; `spans` are lines.

    Raises
    ------
    ParseError
        With file, line, column, what was expected and what was found.
    ImportError
        If tree-sitter or the grammar is not installed (extra `code`). Nothing is
        downloaded.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> code = "int f(int x) { return x + 1; }"
    >>> reading = tk.readers.tree_sitter(text=code, language="java")  # doctest: +SKIP
    """
    choice("identifiers", identifiers, *_NAMES)
    choice("literals", literals, *_LITERALS)
    choice("shape", shape, *SHAPES)
    ts = needed("this reader", "tree_sitter", "code")
    grammar = _language(ts, language)
    parser = ts.Parser(grammar)
    of_functions = level in ("function", "every_function")
    roots = None
    if level != "file":
        roots = FUNCTION_NODE if of_functions else re.compile(level)
    describe = symbol(identifiers, literals, roots, comments=comments, tokens=tokens)
    declarations = None
    if identifiers in ("locals", "kind"):
        name = language if isinstance(language, str) else getattr(grammar, "name", None)
        kinds = identifiers == "kind"
        declarations = Declarations(ts, grammar, name or "", kinds=kinds)
    find_functions = None
    if declarations is not None or level == "every_function":
        types = kinds_of(grammar, FUNCTION_NODE.fullmatch)
        patterns = " ".join(f"({kind}) @function" for kind in types)
        find_functions = captures(ts, grammar, patterns)
    builder = CodeBuilder(describe)
    collector = Collector(source, text, ("",), errors=errors, progress=progress)
    for each in collector.texts():
        code = each.content.encode()
        root = parser.parse(code).root_node
        if root.has_error:
            collector.wrong(_error_in(root, each, code))
            if level != "every_function":
                continue
        functions = find_functions(root).get("function", []) if find_functions else []
        texts = None
        if declarations is not None:
            texts = declarations.texts(root, outermost(functions), code)
        starts = [root]
        if level == "every_function":
            whole = (node for node in functions if not node.has_error)
            starts = sorted(whole, key=lambda node: (node.start_byte, -node.end_byte))
        # Not by `start_point.row`, which crashes Python in tree-sitter 0.26.0 beyond line
        # 256: https://github.com/tree-sitter/py-tree-sitter/pull/466
        ends = [newline.start() for newline in re.finditer(b"\n", code)]
        for start in starts:
            for node in builder.push_cursor(start.walk(), code, texts):
                name = _name(node, code, of_functions=of_functions) if roots else ""
                first = bisect_left(ends, node.start_byte) + 1
                collector.add(each, name, (first, bisect_left(ends, node.end_byte) + 1))
    return collector.reading(builder.finish(), shape=shape, lists=_LIST_NODE.fullmatch)


def _name(node: Any, code: bytes, *, of_functions: bool) -> str:
    """Return what the source calls a node."""
    named = name_node(node) if of_functions else node.child_by_field_name("name")
    return code[named.start_byte : named.end_byte].decode() if named else ""


def symbol(
    identifiers: str,
    literals: str,
    roots: re.Pattern[str] | None = None,
    *,
    comments: bool = False,
    tokens: bool = False,
) -> Callable[[Any], dict[str, Any]]:
    """Return what tells the native builder what becomes of a symbol of a grammar."""

    def describe(node: Any) -> dict[str, Any]:
        label, keep = node.type, False
        if not node.is_named:
            label = label if tokens else None
        elif "comment" in label:
            label, keep = (label if comments else None), comments
        elif "identifier" in label:
            keep = identifiers != "blank"
        else:
            keep = literals == "keep"
        is_root = roots is None or bool(roots.fullmatch(label or ""))
        blank = literals == "blank" and node.child_count == 0 and node.is_named
        if blank and label and "identifier" not in label and "comment" not in label:
            label = "literal"
        return {"label": label, "keep_text": keep, "is_root": is_root}

    return describe


def _language(ts: Any, language: Any) -> Any:
    if not isinstance(language, str):
        if isinstance(language, ts.Language):
            return language
        msg = (
            "language must be a tree_sitter.Language or the name of one, got "
            f"{type(language).__name__}"
        )
        raise TypeError(msg)
    if not re.fullmatch("[A-Za-z0-9_#+-]+", language):
        msg = f"language must be the name of a grammar, got {language!r}"
        raise ValueError(msg)
    try:
        package = _PACKAGES.get(language, language)
        module = needed("this reader", f"tree_sitter_{package}", "code")
    except ImportError:
        pack = needed("this reader", "tree_sitter_language_pack", "code")
        version = metadata.version("tree-sitter-language-pack")
        if not version.startswith("0."):
            wanted = (
                "tree_sitter_language_pack below 1, which has its grammars with it, and "
                f"got {version}, which downloads them"
            )
            error = missing("this reader", wanted, "code")
            raise error from None
        try:
            return pack.get_language(language)
        except LookupError:
            msg = f"tree_sitter_language_pack has no grammar {language!r}"
            raise ValueError(msg) from None
    make = getattr(module, "language", None) or getattr(module, f"language_{language}")
    return ts.Language(make())


def _error_in(root: Any, text: Any, code: bytes) -> ParseError:
    """Return the first error that the parser met."""
    node = root
    while not (node.is_error or node.is_missing):
        below = next((c for c in node.children if c.has_error or c.is_missing), None)
        if below is None:
            break
        node = below
    start = node.start_byte
    place = len(code[:start].decode(errors="replace"))
    expected = f"{node.type!r}" if node.is_missing else "code that the grammar allows"
    error: ParseError = text.error(place, expected)
    return error
