"""Find near-duplicate functions in Python sources, or in a file of trees.

    python examples/find_clones.py PATH...
    python examples/find_clones.py src --min-similarity 0.85 --html clones.html
    python examples/find_clones.py src --json - --fail      # for CI: exit code 1 if any

Paths are Python files, directories (all ``*.py`` below them), or tab-separated files
(``.tsv``, ``.tsv.gz``) with a name and a tree in brackets a line, such as those of Java
functions. Functions are compared by the subset tree kernel on their syntax trees: names
and values count, comments and layout do not. Groups are functions that are linked by
pairs of at least the given similarity; none is missed.

Exit code: 0, with ``--fail`` 1 where there are clones, 2 for paths that cannot be read.
"""

from __future__ import annotations

import argparse
import ast
import gzip
import html
import json
import sys
import tokenize
import warnings
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import treekernel_rs as tk

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 90em;
  padding: 0 1em; color: #1d2433; background: #fff }
h1 { font-size: 1.5em } h2 { font-size: 1.1em; margin: 2em 0 .3em }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 1em; margin: .7em 0 1.5em }
.side { min-width: 0; border: 1px solid #d5dae3; border-radius: 6px; overflow: hidden }
.side h3 { font-size: .85em; margin: 0; padding: .5em .8em; background: #f1f3f7;
  overflow-wrap: anywhere }
pre { margin: 0; padding: .5em 0; overflow-x: auto; font: 12.5px/1.5 monospace }
.line { display: block; padding: 0 .8em; min-height: 1.5em; white-space: pre;
  width: max-content; min-width: 100%; box-sizing: border-box }
.shared { background: #dff3e0 } .own { background: #fff }
.n { color: #8a93a5; display: inline-block; width: 3.2em; user-select: none }
.key { padding: 0 .5em } .others { color: #4b5567; font-size: .9em }
@media (max-width: 60em) { .pair { grid-template-columns: 1fr } }
"""


@dataclass
class Function:
    """A function of a file, and its tree."""

    path: str
    name: str
    first: int
    last: int
    tree: str
    #: By node in preorder: its first and last line, None for what has none.
    lines: list[tuple[int, int] | None] = field(default_factory=list)
    source: list[str] = field(default_factory=list)

    @property
    def place(self) -> str:
        return f"{self.path}:{self.first}-{self.last}" if self.first else self.path


# --- reading ------------------------------------------------------------------------


def quoted(label: str) -> str:
    text = label
    for mark in "\\()":
        text = text.replace(mark, f"\\{mark}")
    return "".join(f"\\{c}" if c.isspace() else c for c in text)


def brackets(root: ast.AST) -> tuple[str, list[tuple[int, int] | None]]:
    """Write a syntax tree in brackets; without recursion, as nesting is input."""
    text: list[str] = []
    lines: list[tuple[int, int] | None] = []
    todo: list[object] = [root]
    while todo:
        node = todo.pop()
        if node is END:
            text.append(")")
        elif isinstance(node, ast.AST):
            text.append(f"({type(node).__name__}")
            first = getattr(node, "lineno", None)
            lines.append((first, node.end_lineno or first) if first else None)
            below: list[object] = []
            for name, value in ast.iter_fields(node):
                if value is None or value in ([], "") or name in SKIPPED:
                    continue
                is_list = isinstance(value, list)
                if is_list and name in ("body", "orelse", "finalbody"):
                    below.append((name, value))
                else:
                    below.extend(value if is_list else [value])
            todo.append(END)
            todo.extend(reversed(below))
        elif isinstance(node, tuple):
            text.append(f"({node[0]}")
            lines.append(None)
            todo.append(END)
            todo.extend(reversed(node[1]))
        else:
            text.append(f" {quoted(repr(node))}")
            lines.append(None)
    return "".join(text), lines


#: Ends a node.
END = object()
SKIPPED = ("ctx", "type_comment")


def is_docstring(node: ast.stmt) -> bool:
    value = getattr(node, "value", None)
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def of_python(path: Path) -> list[Function]:
    with tokenize.open(path) as file:
        text = file.read()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        module = ast.parse(text, str(path))
    source, found = text.splitlines(), []
    for node in ast.walk(module):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        last = node.end_lineno or first
        # What a function is called, and says of itself, makes no difference.
        copy = type(node)(**dict(ast.iter_fields(node)))
        ast.copy_location(copy, node)
        copy.name = ""
        copy.body = node.body[is_docstring(node.body[0]) :]
        tree, lines = brackets(copy)
        part = source[first - 1 : last]
        found.append(Function(str(path), node.name, first, last, tree, lines, part))
    return found


def of_trees(path: Path) -> list[Function]:
    found = []
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt") as file:
        for number, line in enumerate(file, 1):
            columns = line.rstrip("\n").split("\t")
            tree = columns[1] if len(columns) > 1 else ""
            try:
                is_one = len(tk.Forest.from_brackets([tree])) == 1
            except tk.ParseError:
                is_one = False
            if is_one and tree.startswith("("):
                found.append(Function(columns[0], "", 0, 0, tree))
            elif number > 1:
                print(f"{path}:{number}: no tree, left out", file=sys.stderr)
    return found


def read(paths: list[str]) -> list[Function]:
    found = []
    for path in map(Path, paths):
        if not path.exists():
            raise FileNotFoundError(path)
        if path.name.endswith((".tsv", ".tsv.gz")):
            found += of_trees(path)
            continue
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            try:
                found += of_python(file)
            except (SyntaxError, UnicodeError, ValueError, RecursionError) as error:
                print(f"{file}: left out: {error}", file=sys.stderr)
    return found


# --- finding ------------------------------------------------------------------------


@dataclass
class Group:
    """Functions that are linked by pairs."""

    members: list[int]
    #: (similarity, i, j), the most similar first.
    pairs: list[tuple[float, int, int]]


def find(
    functions: list[Function], kernel: tk.SubsetTreeKernel, least: float, min_nodes: int
) -> tuple[list[Group], tk.Forest]:
    """Group the functions that are linked by pairs of at least `least`."""
    forest = tk.Forest.from_brackets([function.tree for function in functions])
    large = [i for i, tree in enumerate(forest) if tree.n_nodes >= min_nodes]
    found = kernel.join(forest[large], min_similarity=least)
    parent = list(range(len(functions)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    pairs = []
    for a, b, value in zip(found.rows, found.columns, found.values, strict=True):
        i, j = large[a], large[b]
        one, other = functions[i], functions[j]
        is_inside = one.path == other.path and (
            one.first <= other.first <= other.last <= one.last
        )
        if is_inside and one.first:
            continue
        pairs.append((float(value), i, j))
        parent[root(j)] = root(i)
    by_root: defaultdict[int, Group] = defaultdict(lambda: Group([], []))
    for pair in sorted(pairs, key=lambda pair: (-pair[0], pair[1:])):
        by_root[root(pair[1])].pairs.append(pair)
    for group in by_root.values():
        group.members = sorted({i for pair in group.pairs for i in pair[1:]})

    def lines(group: Group) -> int:
        return sum(functions[i].last - functions[i].first for i in group.members)

    return sorted(by_root.values(), key=lambda g: (-lines(g), g.members)), forest


# --- reporting ----------------------------------------------------------------------


def as_text(functions: list[Function], groups: list[Group]) -> str:
    out = []
    for number, group in enumerate(groups, 1):
        low, high = group.pairs[-1][0], group.pairs[0][0]
        out.append(
            f"Group {number}: {len(group.members)} functions, {low:.3f} to {high:.3f}"
        )
        out += [f"  {functions[i].place}  {functions[i].name}" for i in group.members]
    n = len({i for group in groups for i in group.members})
    out.append(f"{n} of {len(functions)} functions in {len(groups)} groups")
    return "\n".join(out)


def as_json(functions: list[Function], groups: list[Group]) -> str:
    def function(i: int) -> dict[str, object]:
        f = functions[i]
        return {"file": f.path, "name": f.name, "first": f.first, "last": f.last}

    found = [
        {
            "functions": [function(i) for i in group.members],
            "pairs": [
                {
                    "similarity": value,
                    "a": group.members.index(i),
                    "b": group.members.index(j),
                }
                for value, i, j in group.pairs
            ],
        }
        for group in groups
    ]
    return json.dumps({"n_functions": len(functions), "groups": found}, indent=1)


def shared_lines(
    functions: list[Function], forest: tk.Forest, i: int, j: int
) -> set[int]:
    """Find the lines of function i that subtrees equal to some of function j cover."""
    own, other = (forest[k : k + 1].subtree_ids()[1].tolist() for k in (i, j))
    there, shared, others = set(other), set(), set()
    for node, where in zip(own, functions[i].lines, strict=True):
        if where is None:
            continue
        if node in there:
            shared.update(range(where[0], where[1] + 1))
        elif where[0] == where[1]:
            # A line is not shared if anything that begins and ends on it is not.
            others.add(where[0])
    return shared - others


def outline(tree: tk.Tree) -> tuple[list[str], list[tuple[int, int] | None]]:
    """Write a tree that has no source, a node on each line."""
    source, todo = [], [(tree, 0)]
    while todo:
        node, depth = todo.pop()
        source.append("  " * depth + node.label)
        todo += [(child, depth + 1) for child in reversed(node.children)]
    return source, [(line, line) for line in range(len(source))]


def side(function: Function, shared: set[int]) -> str:
    lines = []
    for number, text in enumerate(function.source, function.first):
        kind = "shared" if number in shared else "own"
        shown = html.escape(text)
        lines.append(
            f'<span class="line {kind}"><span class="n">{number}</span>{shown}</span>'
        )
    title = f"{html.escape(function.place)} &nbsp; {html.escape(function.name)}"
    return f'<div class="side"><h3>{title}</h3><pre>{"".join(lines)}</pre></div>'


def as_html(functions: list[Function], groups: list[Group], forest: tk.Forest) -> str:
    """Show the least similar pair of each group side by side."""
    n = len({i for group in groups for i in group.members})
    out = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        "<meta name=viewport content='width=device-width'>",
        f"<title>Near-duplicate functions</title><style>{STYLE}</style>",
        f"<h1>{n} of {len(functions)} functions in {len(groups)} groups</h1>",
        "<p><span class='key shared'>Shared</span> lines have the same syntax on the ",
        "other side. Of each group the least similar pair is shown.</p>",
    ]
    for number, group in enumerate(groups, 1):
        value, i, j = group.pairs[-1]
        out.append(f"<h2>Group {number}: similarity {value:.3f}</h2>")
        others = [functions[k] for k in group.members if k not in (i, j)]
        if others:
            names = ", ".join(html.escape(f"{f.place} {f.name}") for f in others)
            out.append(f"<p class=others>Also {names}</p>")
        for k in (i, j):
            if not functions[k].first:
                functions[k].source, functions[k].lines = outline(forest[k])
        sides = [
            side(functions[a], shared_lines(functions, forest, a, b))
            for a, b in ((i, j), (j, i))
        ]
        out.append(f'<div class="pair">{"".join(sides)}</div>')
    return "\n".join([*out, "</html>\n"])


def write(target: str, text: str) -> None:
    if target == "-":
        print(text)
    else:
        Path(target).write_text(text, encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Find near-duplicate functions.", epilog="See the head of the file."
    )
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="Python files, directories, or .tsv files",
    )
    parser.add_argument(
        "--min-similarity",
        type=float,
        default=0.8,
        metavar="S",
        help="list pairs at least as similar, from 0 to 1 (default: %(default)s)",
    )
    parser.add_argument(
        "--min-nodes",
        type=int,
        default=50,
        metavar="N",
        help="leave out functions with fewer nodes (default: %(default)s)",
    )
    parser.add_argument(
        "--decay",
        type=float,
        default=0.4,
        help="decay of the subset tree kernel (default: %(default)s)",
    )
    parser.add_argument(
        "--json", metavar="FILE", help="write JSON; - for standard output"
    )
    parser.add_argument("--html", metavar="FILE", help="write an HTML page")
    parser.add_argument("--fail", action="store_true", help="exit code 1 for clones")
    given = parser.parse_args(arguments)
    try:
        functions = read(given.paths)
    except OSError as error:
        print(f"find_clones: {error}", file=sys.stderr)
        return 2
    kernel = tk.SubsetTreeKernel(given.decay, normalize=True)
    groups, forest = find(functions, kernel, given.min_similarity, given.min_nodes)
    if given.json != "-":
        print(as_text(functions, groups))
    if given.json:
        write(given.json, as_json(functions, groups))
    if given.html:
        write(given.html, as_html(functions, groups, forest))
    return int(given.fail and bool(groups))


if __name__ == "__main__":
    sys.exit(main())
