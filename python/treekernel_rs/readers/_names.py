"""Names of code: which of them are those of parameters and local variables.

People rename these when they copy a function; names of functions that are called, of
attributes and of globals stay, and tell functions apart. Python's are found by its rules
for scopes, those of other languages by queries of tree-sitter that say where a name is
declared.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

# Fields that hold the name of a variable, besides `Name.id`, `arg.arg` and `alias.asname`.
_BINDING_FIELDS = {
    ast.ExceptHandler: "name",
    ast.MatchAs: "name",
    ast.MatchStar: "name",
    ast.MatchMapping: "rest",
}

#: What stands in place of names of `identifiers="kind"`: of local ones, of all others.
LOCAL, OTHER = "local", "other"


class _Scope:
    """The names that a module, class or function binds, and where they are used."""

    __slots__ = ("above", "bound", "elsewhere", "globals", "imported", "kind", "uses")

    def __init__(self, kind: str, above: _Scope | None) -> None:
        self.kind, self.above = kind, above
        self.bound: set[str] = set()
        # Bound by an import without `as`, whose name is that of something outside.
        self.imported: set[str] = set()
        self.globals: set[str] = set()
        # Declared `nonlocal`.
        self.elsewhere: set[str] = set()
        self.uses: list[tuple[Any, str]] = []

    def is_local(self, name: str) -> bool:
        """Say whether a name that is used here is that of a function's variable."""
        scope: _Scope | None = self
        while scope is not None:
            # Functions do not see the names of a class around them.
            if scope is self or scope.kind != "class":
                if name in scope.globals:
                    return False
                if name not in scope.elsewhere:
                    if name in scope.bound:
                        return scope.kind in ("function", "comprehension")
                    if name in scope.imported:
                        return False
            scope = scope.above
        return False


def change_names(module: ast.Module, *, kinds: bool) -> None:
    """Take the names of parameters and local variables out of a syntax tree.

    With `kinds`, each name becomes `LOCAL` or `OTHER`.
    """
    scopes = _scopes(module)
    found = [
        (node, field, name)
        for scope in scopes
        for node, field in scope.uses
        for name in _names(getattr(node, field))
        if scope.is_local(name)
    ]
    if kinds:
        _change_all(module)
    for node, field, name in found:
        value = getattr(node, field)
        if not isinstance(value, list):
            setattr(node, field, LOCAL if kinds else None)
        elif kinds:
            value[value.index(OTHER)] = LOCAL
        else:
            value.remove(name)


def _names(value: str | list[str]) -> list[str]:
    return value if isinstance(value, list) else [value]


def _change_all(module: ast.Module) -> None:
    for node in ast.walk(module):
        if isinstance(node, ast.Constant):
            continue
        for field in node._fields:
            value = getattr(node, field, None)
            if isinstance(value, str):
                setattr(node, field, OTHER)
            elif isinstance(value, list) and value and isinstance(value[0], str):
                value[:] = [OTHER] * len(value)


def _scopes(module: ast.Module) -> list[_Scope]:
    """Return all scopes of a module, with the names that they bind and use."""
    scopes = [_Scope("module", None)]
    todo: list[tuple[Any, _Scope]] = [(module, scopes[0])]

    def inner(kind: str, above: _Scope) -> _Scope:
        scopes.append(_Scope(kind, above))
        return scopes[-1]

    def binds(node: Any, field: str, scope: _Scope) -> None:
        if name := getattr(node, field):
            scope.bound.add(name)
            scope.uses.append((node, field))

    while todo:
        node, scope = todo.pop()
        kind = type(node)
        if kind is ast.Name:
            scope.uses.append((node, "id"))
            if not isinstance(node.ctx, ast.Load):
                scope.bound.add(node.id)
        elif kind is ast.arg:
            binds(node, "arg", scope)
        elif kind in FUNCTIONS or kind is ast.Lambda:
            below = inner("function", scope)
            if kind is not ast.Lambda:
                binds(node, "name", scope)
                todo += [(each, scope) for each in _in_lists(node, "decorator_list")]
                todo += [(each, scope) for each in _in_lists(node, "type_params")]
                todo += [(node.returns, scope)] if node.returns else []
            for given in _arguments(node.args):
                todo.append((given, below))
                # Evaluated where the function is defined.
                todo += [(given.annotation, scope)] if given.annotation else []
            defaults = [*node.args.defaults, *node.args.kw_defaults]
            todo += [(each, scope) for each in defaults if each is not None]
            body = [node.body] if kind is ast.Lambda else node.body
            todo += [(each, below) for each in body]
        elif kind is ast.ClassDef:
            binds(node, "name", scope)
            fields = ("decorator_list", "bases", "keywords", "type_params")
            todo += [(each, scope) for each in _in_lists(node, *fields)]
            below = inner("class", scope)
            todo += [(each, below) for each in node.body]
        elif kind in _COMPREHENSIONS:
            below = inner("comprehension", scope)
            for number, loop in enumerate(node.generators):
                todo += [(each, below) for each in (loop.target, *loop.ifs)]
                todo.append((loop.iter, below if number else scope))
            made = [node.key, node.value] if kind is ast.DictComp else [node.elt]
            todo += [(each, below) for each in made]
        elif kind is ast.NamedExpr:
            # Bound around all comprehensions, and known in them.
            around = scope
            while around.kind == "comprehension" and around.above is not None:
                around = around.above
            todo += [(node.target, around), (node.value, scope)]
        elif kind is ast.alias:
            if node.asname:
                binds(node, "asname", scope)
            else:
                scope.imported.add(node.name.partition(".")[0])
        elif kind is ast.Global:
            scope.globals.update(node.names)
        elif kind is ast.Nonlocal:
            scope.elsewhere.update(node.names)
            scope.uses.append((node, "names"))
        else:
            if kind in _BINDING_FIELDS:
                binds(node, _BINDING_FIELDS[kind], scope)
            for field in node._fields:
                value = getattr(node, field, None)
                if isinstance(value, list):
                    todo += [
                        (each, scope) for each in value if hasattr(each, "_fields")
                    ]
                elif isinstance(value, ast.AST):
                    todo.append((value, scope))
    return scopes


def _in_lists(node: Any, *fields: str) -> list[Any]:
    return [each for field in fields for each in getattr(node, field, ())]


def _arguments(args: ast.arguments) -> Iterator[ast.arg]:
    yield from args.posonlyargs
    yield from args.args
    yield from args.kwonlyargs
    yield from filter(None, (args.vararg, args.kwarg))


# --- Other languages ------------------------------------------------------------------

#: Node types of functions, in all grammars.
FUNCTION_NODE = re.compile(
    r"(function|method|constructor|subroutine|procedure)(_signature)?"
    r"(_definition|_declaration|_item|_statement)?|(short_)?func(tion)?_decl"
    r"|arrow_function|function_expression|generator_function(_declaration)?|func_literal"
)

# Where names are declared (@local), and where the same text is no variable (@other).
_ECMASCRIPT = """
    (variable_declarator name: (identifier) @local)
    (arrow_function parameter: (identifier) @local)
    (catch_clause parameter: (identifier) @local)
    (for_in_statement left: (identifier) @local)
    (rest_pattern (identifier) @local)
    (array_pattern (identifier) @local)
    (pair_pattern value: (identifier) @local)
    (assignment_pattern left: (identifier) @local)
    (function_declaration name: (identifier) @local)
    (generator_function_declaration name: (identifier) @local)
    (shorthand_property_identifier_pattern) @local
    (shorthand_property_identifier) @use
"""
_TYPESCRIPT = f"""{_ECMASCRIPT}
    (required_parameter pattern: (identifier) @local)
    (optional_parameter pattern: (identifier) @local)
"""
_LOCALS = {
    "c": """
        (_ declarator: (identifier) @local)
        (parameter_list (identifier) @local)
    """,
    "go": """
        (parameter_declaration name: (identifier) @local)
        (variadic_parameter_declaration name: (identifier) @local)
        (var_spec name: (identifier) @local)
        (const_spec name: (identifier) @local)
        (short_var_declaration left: (expression_list (identifier) @local))
        (range_clause left: (expression_list (identifier) @local))
        (receive_statement left: (expression_list (identifier) @local))
        (type_switch_statement alias: (expression_list (identifier) @local))
        (keyed_element key: (literal_element (identifier) @other))
    """,
    "java": """
        (formal_parameter name: (identifier) @local)
        (catch_formal_parameter name: (identifier) @local)
        (inferred_parameters (identifier) @local)
        (lambda_expression parameters: (identifier) @local)
        (variable_declarator name: (identifier) @local)
        (enhanced_for_statement name: (identifier) @local)
        (resource name: (identifier) @local)
        (instanceof_expression name: (identifier) @local)
        (field_access field: (identifier) @other)
        (method_invocation name: (identifier) @other)
        (labeled_statement (identifier) @other)
        (break_statement (identifier) @other)
        (continue_statement (identifier) @other)
    """,
    "javascript": f"{_ECMASCRIPT} (formal_parameters (identifier) @local)",
    "tsx": _TYPESCRIPT,
    "typescript": _TYPESCRIPT,
}


class Declarations:
    """Finds the names of a grammar that are those of parameters and local variables."""

    def __init__(self, ts: Any, language: Any, name: str, *, kinds: bool) -> None:
        if name not in _LOCALS:
            msg = (
                "identifiers: 'locals' and 'kind' need a language whose declarations are "
                f"known ({', '.join(_LOCALS)}), got {name!r}"
            )
            raise ValueError(msg)
        self._kinds = kinds
        patterns = [_LOCALS[name], "(identifier) @use"]
        if kinds:
            identifiers = kinds_of(language, lambda kind: "identifier" in kind)
            patterns.append(f"[{' '.join(f'({kind})' for kind in identifiers)}] @all")
        self._find = captures(ts, language, "\n".join(patterns))

    def texts(
        self, root: Any, functions: list[Any], code: bytes
    ) -> dict[int, str | None]:
        """Return what stands in place of names, by their first bytes.

        `functions` are the outermost ones.
        """
        found = self._find(root)

        def starts(kind: str) -> set[int]:
            return {node.start_byte for node in found.get(kind, ())}

        texts: dict[int, str | None] = dict.fromkeys(starts("all"), OTHER)
        no_variables = starts("other")
        uses = found.get("use", []) + found.get("local", [])
        for function, declared, used in zip(
            functions,
            _inside(functions, found.get("local", [])),
            _inside(functions, uses),
            strict=True,
        ):
            named = name_node(function)
            named_at = -1 if named is None else named.start_byte
            names = {
                code[node.start_byte : node.end_byte]
                for node in declared
                if node.start_byte != named_at
            }
            for node in used:
                start = node.start_byte
                if (
                    code[start : node.end_byte] in names
                    and start != named_at
                    and start not in no_variables
                ):
                    texts[start] = LOCAL if self._kinds else None
        return texts


def _inside(functions: list[Any], nodes: list[Any]) -> Iterator[list[Any]]:
    """Yield the nodes inside each function; functions are disjoint and in order."""
    nodes = sorted(nodes, key=lambda node: node.start_byte)
    at = 0
    for function in functions:
        start, end = function.start_byte, function.end_byte
        while at < len(nodes) and nodes[at].start_byte < start:
            at += 1
        first = at
        while at < len(nodes) and nodes[at].start_byte < end:
            at += 1
        yield nodes[first:at]


def kinds_of(language: Any, wanted: Callable[[str], object]) -> list[str]:
    """List the node types of a grammar whose name is wanted."""
    found = (
        language.node_kind_for_id(number)
        for number in range(language.node_kind_count)
        if language.node_kind_is_named(number) and language.node_kind_is_visible(number)
    )
    return sorted({kind for kind in found if wanted(kind)})


def captures(
    ts: Any, language: Any, patterns: str
) -> Callable[[Any], dict[str, list[Any]]]:
    """Return what finds the nodes that patterns of a grammar name."""
    if not hasattr(ts, "QueryCursor"):  # before tree-sitter 0.25
        return language.query(patterns).captures  # type: ignore[no-any-return]
    query = ts.Query(language, patterns)
    return lambda root: ts.QueryCursor(query).captures(root)


def outermost(nodes: list[Any]) -> list[Any]:
    """Return the nodes that are in no other, in order."""
    found: list[Any] = []
    for node in sorted(nodes, key=lambda node: (node.start_byte, -node.end_byte)):
        if not found or node.start_byte >= found[-1].end_byte:
            found.append(node)
    return found


def name_node(function: Any) -> Any:
    """Return the node that names a function; None where nothing does."""
    node = function.child_by_field_name("name")
    if node is not None:
        return node
    # C: the name stands in the declarator, below pointers.
    below = function.child_by_field_name("declarator")
    while below is not None:
        node = below
        below = node.child_by_field_name("declarator")
        if below is None and node.type == "parenthesized_declarator":
            below = next(iter(node.named_children), None)
    if node is not None:
        return node
    # A function without a name: that of what it is assigned to.
    above = function.parent
    if above is not None:
        for field in ("name", "key", "property", "left"):
            node = above.child_by_field_name(field)
            if node is not None and node.end_byte <= function.start_byte:
                return node
    return None
