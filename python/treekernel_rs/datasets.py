"""Datasets of trees that need no download.

The functions of the standard library are there wherever Python is installed. They
make a corpus of some thousand real trees with a class each (the module that a function
belongs to), large enough to time a kernel on and to train a classifier with.
"""

from __future__ import annotations

import ast
import difflib
import operator
import platform
import sys
import sysconfig
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, SupportsIndex, TypeAlias

import numpy as np

from treekernel_rs._core import Forest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

__all__ = ["TreeDataset", "python_functions"]

# Directories that hold no part of the library proper: tests are written in a style of
# their own, and would tell a classifier "this is a test" rather than the module.
_SKIPPED_DIRECTORIES = frozenset(
    {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"}
)

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

# Here `body` and `orelse` are single expressions, always present.
_NEVER_WRAPPED = frozenset({"Lambda", "IfExp"})

_DOCUMENTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")

# What becomes a node: an ast node, a leaf by its label, a field with its children.
_Item: TypeAlias = "ast.AST | str | tuple[str, list[_Item]]"


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class TreeDataset:
    """Trees with their classes.

    Attributes
    ----------
    forest : Forest
        The trees, grouped by class: shuffle before you split.
    y : numpy.ndarray of int64, shape (n_trees,)
        Class of each tree, as an index into `classes`.
    classes : list of str
        Names of the classes, sorted.
    names : list of str
        Where each tree comes from. Not necessarily unique: the getter and the setter
        of a property have one name.
    description : str
        What was read, by which Python, with which options.

    Examples
    --------
    >>> import numpy as np, treekernel_rs as tk
    >>> forest = tk.Forest.from_brackets("(S (A a)) (S (B b)) (S (B c))")
    >>> names = ["one", "two", "three"]
    >>> data = tk.datasets.TreeDataset(
    ...     forest, np.array([0, 1, 1]), ["a", "b"], names, "three trees"
    ... )
    >>> [data.classes[k] for k in data.y]
    ['a', 'b', 'b']
    """

    forest: Forest
    y: NDArray[np.int64]
    classes: list[str]
    names: list[str]
    description: str

    def __repr__(self) -> str:
        """Say how much there is of what, not what is in it."""
        nodes = int(self.forest.n_nodes.sum())
        classes = ", ".join(self.classes)
        return (
            f"<TreeDataset: {len(self.names)} trees, {nodes} nodes, "
            f"{len(self.classes)} classes ({classes})>"
        )


def python_functions(
    *,
    classes: Iterable[str] | None = None,
    n_classes: int = 8,
    max_per_class: int | None = 300,
    min_nodes: int = 10,
    max_nodes: int = 300,
    identifiers: bool = False,
    constants: bool = False,
) -> TreeDataset:
    """Read the functions of the installed standard library as syntax trees.

    The class of a function is the top-level module or package it lives in. Two calls
    with one Python installation give the same dataset; another Python version, or a
    distribution that leaves out parts of the library, gives another one.

    Parameters
    ----------
    classes : iterable of str, optional
        Modules to read, for example ``["asyncio", "json"]``. By default the
        `n_classes` modules with the most different functions within the size limits
        (ties go to the name that sorts first), which means parsing the whole library.
    n_classes : int, default 8
        How many modules to choose; not used when `classes` is given.
    max_per_class : int or None, default 300
        At most so many functions of a class, taken at even distances from all of them
        in the order of files and lines. None keeps all.
    min_nodes, max_nodes : int, default 10 and 300
        Limits, both included, to the number of nodes of a tree as it is returned;
        functions outside are left out.
    identifiers : bool, default False
        Add the names of functions, variables, attributes, arguments, keywords and
        imports as leaves.
    constants : bool, default False
        Add the values of constants as leaves, by their `repr`.

    Returns
    -------
    TreeDataset
        The trees; `names` are qualified, as in ``json.decoder.JSONDecoder.decode``.

    Raises
    ------
    ValueError
        If a class is unknown or has no function within the limits, or a number is out
        of range.
    RuntimeError
        If the source of the standard library is not installed.

    Notes
    -----
    A tree mirrors `ast`:

    * A node is labelled with its class, its children are its fields in the order of
      `ast.iter_fields`. Operators are leaves: ``a + b`` is ``(BinOp Name Add Name)``.
    * Fields that could be taken for a neighbour are wrapped in a node with the name of
      the field, unless they are empty: blocks (``body``, ``orelse``, ``finalbody``),
      ``decorator_list``, ``returns``, all of ``arguments`` but its plain ``args``, the
      bounds of a ``Slice``, ``kwd_patterns`` and ``default_value``. An absent element
      of a list (the key of ``**rest`` in a dict, the default of a required
      keyword-only argument) is a leaf ``None``.
    * A constant is ``(Constant type)``, with its value ``(Constant (type value))``.
    * Docstrings, contexts (``Load``, ``Store``, ``Del``), type comments and flags
      stored as integers are dropped.
    * A function inside a function is part of the outer one and not listed by itself,
      as is a class inside a function; methods are listed.

    Tests are skipped, and so are files that do not parse. Equal functions are kept:
    without identifiers that is about one tree in ten of most modules.

    Examples
    --------
    >>> from treekernel_rs.datasets import python_functions
    >>> data = python_functions(classes=["logging", "email"], max_per_class=50)
    >>> data.classes
    ['email', 'logging']
    >>> len(data.forest), data.y.shape
    (100, (100,))
    >>> data.names[0].split(".")[0]
    'email'
    >>> data.forest[0].label
    'FunctionDef'
    """
    n_classes = _checked("n_classes", n_classes, 1)
    if max_per_class is not None:
        max_per_class = _checked("max_per_class", max_per_class, 1)
    min_nodes = _checked("min_nodes", min_nodes, 1)
    max_nodes = _checked("max_nodes", max_nodes, min_nodes)

    root = Path(sysconfig.get_path("stdlib"))
    files = _source_files(root)
    if classes is not None:
        chosen = _checked_classes(classes, files, root)
        files = {name: files[name] for name in chosen}

    builder = _TreeBuilder(identifiers=identifiers, constants=constants)
    found = {
        name: [
            (qualified, tree)
            for path in paths
            for qualified, node in _functions_of(path, root)
            if (tree := builder.build(node, max_nodes)) and len(tree[0]) >= min_nodes
        ]
        for name, paths in files.items()
    }
    counts = Counter({name: len(trees) for name, trees in found.items() if trees})
    limits = f"{min_nodes} to {max_nodes} nodes"
    if classes is None:
        if n_classes > len(counts):
            msg = (
                f"n_classes must be at most {len(counts)}, the number of modules that "
                f"have functions of {limits}; got {n_classes}"
            )
            raise ValueError(msg)
        # By distinct trees, or generated code would win: of the functions of
        # `encodings` four in five are copies.
        distinct = {
            name: len(
                {(tuple(labels), tuple(parents)) for _, (labels, parents) in trees}
            )
            for name, trees in found.items()
        }
        ranked = sorted(counts, key=lambda name: (-distinct[name], name))
        chosen = sorted(ranked[:n_classes])
    elif empty := [name for name in chosen if name not in counts]:
        msg = f"class {empty[0]!r} has no function of {limits}"
        raise ValueError(msg)

    kept = [_spread(found[name], max_per_class) for name in chosen]
    sizes = [len(trees) for trees in kept]
    pairs = [pair for trees in kept for pair in trees]
    description = (
        f"Functions of the standard library of {platform.python_implementation()} "
        f"{platform.python_version()} in {root}, as ast trees.\n"
        f"{len(pairs)} functions of {limits}, identifiers={identifiers}, "
        f"constants={constants}.\nPer class, of all within the limits: "
        + ", ".join(
            f"{name} {size}/{counts[name]}"
            for name, size in zip(chosen, sizes, strict=True)
        )
        + "."
    )
    return TreeDataset(
        forest=_forest([tree for _, tree in pairs], list(builder.labels)),
        y=np.repeat(np.arange(len(chosen), dtype=np.int64), sizes),
        classes=chosen,
        names=[qualified for qualified, _ in pairs],
        description=description,
    )


def _checked(name: str, value: SupportsIndex, least: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least or isinstance(value, bool):
        msg = f"{name} must be an integer of at least {least}, got {value!r}"
        raise ValueError(msg)
    return number


def _checked_classes(
    classes: Iterable[str], files: dict[str, list[Path]], root: Path
) -> list[str]:
    if isinstance(classes, str):
        msg = f"classes must be an iterable of names, got the string {classes!r}"
        raise ValueError(msg)
    names = list(classes)
    for name in names:
        if name not in files:
            # The nearest names, however far: the list has to say what a name is like.
            near = difflib.get_close_matches(str(name), files, n=6, cutoff=0.0)
            msg = (
                f"unknown class {name!r}: no such module with Python source in {root}; "
                f"there are {len(files)}, among them {', '.join(sorted(near))}"
            )
            raise ValueError(msg)
    if not names:
        msg = "classes must name at least one module, got none"
        raise ValueError(msg)
    # Sorted, because a set would otherwise number the classes by hash seed.
    return sorted(set(names))


def _source_files(root: Path) -> dict[str, list[Path]]:
    """Find the source files of each module, in an order that no file system decides."""
    files: dict[str, list[Path]] = {}
    # From the names, not from the directory: `root` may hold site-packages with tens
    # of thousands of files, and build files whose names depend on the platform.
    for name in sorted(sys.stdlib_module_names - _SKIPPED_DIRECTORIES):
        single, package = root / f"{name}.py", root / name
        paths = [single] if single.is_file() else []
        paths += [
            path
            for path in package.rglob("*.py")
            if _SKIPPED_DIRECTORIES.isdisjoint(path.relative_to(package).parts[:-1])
        ]
        if paths:
            files[name] = sorted(paths, key=lambda path: path.relative_to(root).parts)
    if not files:
        msg = (
            "the source of the standard library is not installed: looked for the .py "
            f"files of its modules in {root} and found none (they may be in a zip "
            "archive, or stripped to .pyc files)"
        )
        raise RuntimeError(msg)
    return files


def _functions_of(path: Path, root: Path) -> Iterator[tuple[str, ast.AST]]:
    parts = path.relative_to(root).with_suffix("").parts
    module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    try:
        with warnings.catch_warnings():
            # Old escapes such as "\d" warn, and that is not the caller's concern.
            warnings.simplefilter("ignore")
            tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, RecursionError):
        return  # templates and the like: not this Python's grammar
    yield from _functions_in(tree, module)


def _functions_in(module: ast.Module, name: str) -> Iterator[tuple[str, ast.AST]]:
    """List functions and methods in source order, but none inside a function."""
    stack: list[tuple[ast.AST, str]] = [(module, "")]
    while stack:
        node, prefix = stack.pop()
        if isinstance(node, _FUNCTIONS):
            yield f"{prefix}.{node.name}", node
            continue
        if isinstance(node, ast.Module):
            prefix = name
        elif isinstance(node, ast.ClassDef):
            prefix = f"{prefix}.{node.name}"
        # Functions defined under `if`, `try` or `with` belong to the module as well.
        for block in reversed(_BLOCKS):
            stack += [(child, prefix) for child in reversed(getattr(node, block, ()))]


class _TreeBuilder:
    """Turns ast nodes into preorder arrays over one table of labels."""

    def __init__(self, *, identifiers: bool, constants: bool) -> None:
        self.identifiers = identifiers
        self.constants = constants
        self.labels: dict[str, int] = {}
        self._fields: dict[type[ast.AST], list[tuple[str, bool]]] = {}

    def build(
        self, root: ast.AST, max_nodes: int
    ) -> tuple[list[int], list[int]] | None:
        """Labels and parents (within the tree), None beyond `max_nodes` nodes."""
        table = self.labels
        labels: list[int] = []
        parents: list[int] = []
        # A chain `a + a + ...` is as deep as it is long, hence no recursion.
        stack: list[tuple[_Item, int]] = [(root, -1)]
        while stack:
            item, parent = stack.pop()
            here = len(labels)
            if here == max_nodes:
                return None
            children: list[_Item]
            if isinstance(item, ast.AST):
                label, children = type(item).__name__, self._children(item)
            elif isinstance(item, str):
                label, children = item, []
            else:
                label, children = item
            labels.append(table.setdefault(label, len(table)))
            parents.append(parent)
            if children:
                children.reverse()
                stack += [(child, here) for child in children]
        return labels, parents

    def _children(self, node: ast.AST) -> list[_Item]:
        if isinstance(node, ast.Constant | ast.MatchSingleton):
            kind = type(node.value).__name__
            return [(kind, [repr(node.value)])] if self.constants else [kind]
        # A string in a field is an identifier, an integer is a flag.
        kept = ast.AST | str if self.identifiers else ast.AST
        children: list[_Item] = []
        for field, wrapped in self._fields_of(type(node)):
            value = getattr(node, field, None)
            if value is None or value == []:
                continue
            values = value if isinstance(value, list) else [value]
            if field == "body" and isinstance(node, _DOCUMENTED):
                values = values[ast.get_docstring(node, clean=False) is not None :]
            items: list[_Item] = []
            for element in values:
                if element is None:
                    items.append("None")
                elif isinstance(element, kept):
                    items.append(element)
            if wrapped and items:
                children.append((field, items))
            else:
                children += items
        return children

    def _fields_of(self, kind: type[ast.AST]) -> list[tuple[str, bool]]:
        fields = self._fields.get(kind)
        if fields is None:
            never = kind.__name__ in _NEVER_WRAPPED
            fields = self._fields[kind] = [
                (field, field in _WRAPPED_FIELDS and not never)
                for field in kind._fields
                if field not in _DROPPED_FIELDS
            ]
        return fields


_Named: TypeAlias = tuple[str, tuple[list[int], list[int]]]


def _spread(trees: list[_Named], limit: int | None) -> list[_Named]:
    """Take at most `limit` elements, at even distances."""
    if limit is None or len(trees) <= limit:
        return trees
    return [trees[i * len(trees) // limit] for i in range(limit)]


def _forest(trees: list[tuple[list[int], list[int]]], table: list[str]) -> Forest:
    sizes = [len(labels) for labels, _ in trees]
    offsets = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
    parents = np.concatenate([np.array(local, np.int64) for _, local in trees])
    parents += np.where(parents < 0, 0, np.repeat(offsets, sizes))
    # The table also knows the labels of functions that were left out.
    used, labels = np.unique(
        np.concatenate([np.array(local, np.int64) for local, _ in trees]),
        return_inverse=True,
    )
    names = [table[i] for i in used]
    return Forest.from_arrays(labels.astype(np.int64), parents, offsets, names=names)
