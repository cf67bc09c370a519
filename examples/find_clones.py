"""Find near-duplicate functions in source code, or in a file of trees.

    python examples/find_clones.py PATH...
    python examples/find_clones.py src --min-similarity 0.85 --html clones.html
    python examples/find_clones.py src --json - --fail      # for CI: exit code 1 if any
    python examples/find_clones.py src --keep .clones       # the next run reads what changed

Paths are files, directories (all files below them of known languages), or tab-separated
files (``.tsv``, ``.tsv.gz``) with a name and a tree in brackets a line. Python is read by
the running Python; C, Go, Java, JavaScript and TypeScript by tree-sitter, which needs the
packages tree-sitter and tree-sitter-c, tree-sitter-go and so on.

Functions are compared by their syntax trees: comments and layout do not count. Lists of
statements are chains, so that a statement more or less changes little. Functions are
compared twice, with all names and without those of parameters and local variables, and the
higher similarity counts. It is a weighted mean of two kernels, see `KERNEL`. Groups are
functions that are linked by pairs of at least the given similarity; none is missed. A pair
of functions that stand in two others which are alike is part of that pair.

Exit code: 0; with ``--fail`` 1 where there are clones; 2 where something was left out, or
where there was no function at all.
"""

from __future__ import annotations

import argparse
import difflib
import gzip
import hashlib
import html
import io
import json
import os
import re
import stat
import sys
import tokenize
import zlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from urllib.parse import quote

import numpy as np

import treekernel_rs as tk
from treekernel_rs.readers import Reading

# Whole subtrees, counted by the logarithm, tell what a function works on; fragments of any
# form how it does this. Chosen on the standard library and Django: benches/clones.py.
KERNEL = 0.4 * tk.SubtreeKernel(1, counts="log", normalize=True) + (
    0.6 * tk.SubsetTreeKernel(0.2, normalize=True)
)

#: Functions whose bodies have fewer nodes are declarations: `...`, `pass`, `raise Error`.
MIN_BODY = 8

#: Names in both views of a function.
VIEWS = ("keep", "locals")

#: Languages by the suffixes of files.
LANGUAGES = {
    ".py": "python",
    ".c": "c",
    ".h": "c",
    ".go": "go",
    ".java": "java",
    **dict.fromkeys((".js", ".mjs", ".cjs", ".jsx"), "javascript"),
    **dict.fromkeys((".ts", ".mts", ".cts"), "typescript"),
    ".tsx": "tsx",
}
#: Suffixes of files of trees, and the labels of lists in them.
TREES = (".tsv", ".tsv.gz")
LIST = re.compile(r"(?i)(\w+_?)?(block|body|suite|compound_?statement|statement_?list)")

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
.shared { background: #dff3e0 }
.n { color: #8a93a5; display: inline-block; width: 3.2em; user-select: none }
.key { padding: 0 .5em } .others { color: #4b5567; font-size: .9em }
@media (max-width: 60em) { .pair { grid-template-columns: 1fr } }
"""


@dataclass(eq=False)
class File:
    """A file that was read."""

    path: str
    language: str
    content: bytes

    @cached_property
    def key(self) -> str:
        """What the trees of the file depend on."""
        return f"{self.language} {hashlib.sha256(self.content).hexdigest()}"

    def lines(self) -> list[str]:
        """Return the lines as parsers count them: a form feed ends none."""
        content = self.content
        if content.startswith(b"\x1f\x8b"):
            content = gzip.decompress(content)
        encoding = "utf-8-sig"
        if self.language == "python":
            encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
        text = content.decode(encoding, errors="replace")
        return re.split(r"\r\n?|\n" if self.language == "python" else r"\n", text)


@dataclass
class Function:
    """A function of a file."""

    file: File
    name: str
    #: First and last line, 0 in files of trees.
    first: int
    last: int
    #: Its number in the file, and the number of the function around it in the corpus.
    number: int
    around: int | None

    @property
    def place(self) -> str:
        path = shown(self.file.path)
        return f"{path}:{self.first}-{self.last}" if self.first else path


def shown(path: str) -> str:
    """Return a path as text; a name may have bytes that are none."""
    return os.fsencode(path).decode(errors="backslashreplace")


class Skipped:
    """Says what is left out, and counts it."""

    def __init__(self) -> None:
        self.n = 0

    def __call__(self, what: str, why: object) -> None:
        print(f"{shown(what)}: left out: {why}", file=sys.stderr)
        self.n += 1


# --- reading ------------------------------------------------------------------------


def read_files(paths: list[str], skipped: Skipped) -> list[File]:
    """Read files, each once, whatever links lead to it."""
    files, seen = [], set()
    for path in found_in(paths, skipped):
        language = language_of(path)
        if language is None:
            skipped(path, f"expected one of {' '.join([*LANGUAGES, *TREES])}")
            continue
        try:
            status = Path(path).stat()
            # Opening a pipe would wait for somebody to write.
            if not stat.S_ISREG(status.st_mode):
                skipped(path, "no regular file")
            elif (place := (status.st_dev, status.st_ino)) not in seen:
                seen.add(place)
                files.append(File(path, language, Path(path).read_bytes()))
        except OSError as error:
            skipped(path, error.strerror)
    return files


def found_in(paths: list[str], skipped: Skipped) -> Iterator[str]:
    """List paths, and the files of known languages below those that are directories."""
    for path in paths:
        if not Path(path).is_dir():
            yield path
            continue
        walk = os.walk(
            path, onerror=lambda error: skipped(error.filename, error.strerror)
        )
        for folder, folders, names in walk:
            folders.sort()
            for name in sorted(names):
                if Path(name).suffix in LANGUAGES:
                    yield str(Path(folder, name))


def language_of(path: str) -> str | None:
    return "trees" if path.endswith(TREES) else LANGUAGES.get(Path(path).suffix)


@dataclass
class Corpus:
    """Functions by the keys of their files, and their trees in both views."""

    #: Name, first and last line, and number of the tree.
    files: dict[str, list[tuple[str, int, int, int]]] = field(default_factory=dict)
    views: list[tk.Forest] = field(default_factory=lambda: [tk.Forest() for _ in VIEWS])
    #: Keys of files of which a part was left out, to be read and told again.
    partial: set[str] = field(default_factory=set)

    def only(self, files: list[File]) -> Corpus:
        """Return what is known of some files."""
        rows = {f.key: self.files[f.key] for f in files if f.key in self.files}
        trees = [row[3] for of_file in rows.values() for row in of_file]
        numbers = iter(range(len(trees)))
        renumbered = {
            key: [
                (name, first, last, next(numbers)) for name, first, last, _ in of_file
            ]
            for key, of_file in rows.items()
        }
        return Corpus(renumbered, [view[trees] for view in self.views])

    def add(self, files: list[File], skipped: Skipped) -> None:
        """Read files of one language, in both views; those that are wrong are left out."""
        language = files[0].language
        read = read_trees if language == "trees" else read_code
        try:
            readings = [read(files, language, names) for names in VIEWS]
        except ImportError as missing:
            for file in files:
                skipped(file.path, missing)
            return
        reading = readings[0]
        found: defaultdict[int, list[tuple[str, int, int, int]]] = defaultdict(list)
        rows = zip(reading.sources, reading.names, reading.spans.tolist(), strict=True)
        for number, (source, name, span) in enumerate(rows, len(self.views[0])):
            # Texts are called "item 3", a single one has no name.
            found[int(source.removeprefix("item ") or 0)].append((name, *span, number))
        wrong = {error.tree: error for error in reading.skipped}
        for number, file in enumerate(files):
            if error := wrong.get(number):
                why = f"expected {error.expected}, got {error.got}"
                skipped(f"{file.path}:{error.line}", why)
                self.partial.add(file.key)
            self.files[file.key] = found[number]
        self.views = [
            view + unnamed(read.forest, reading.names)
            for view, read in zip(self.views, readings, strict=True)
        ]


def read_code(files: list[File], language: str, names: str) -> Reading:
    texts = [file.content for file in files]
    options = {"level": "every_function", "shape": "chain", "errors": "skip"}
    options |= {"identifiers": names, "literals": "keep"}
    if language == "python":
        return tk.readers.python_ast(text=texts, **options)
    return tk.readers.tree_sitter(text=texts, language=language, **options)


def read_trees(files: list[File], language: str, names: str) -> Reading:
    """Read tab-separated files. Which of their names are local is not known."""
    texts, ids, sources, skipped = [], [], [], []
    for number, file in enumerate(files):
        try:
            lines = file.lines()
        except (OSError, EOFError, zlib.error) as error:
            skipped.append(wrong(number, 1, "whole gzip data", error))
            continue
        for at, line in enumerate(lines, 1):
            name, _, tree = line.partition("\t")
            tree = tree.partition("\t")[0].rstrip("\r")
            try:
                is_one = (
                    tree.startswith("(") and len(tk.Forest.from_brackets([tree])) == 1
                )
            except tk.ParseError:
                is_one = False
            if is_one:
                texts.append(tree)
                ids.append(name)
                sources.append(f"item {number}")
            elif at > 1 and line:
                skipped.append(wrong(number, at, "a name and a tree", repr(line[:40])))
    return Reading(
        forest=tk.Forest(texts).binarize(LIST.fullmatch),
        names=ids,
        sources=sources,
        spans=np.zeros((len(ids), 2), dtype=np.int64),
        skipped=skipped,
    )


def wrong(file: int, line: int, expected: str, got: object) -> tk.ParseError:
    error = tk.ParseError(f"expected {expected}, got {got}")
    error.tree, error.line, error.expected, error.got = file, line, expected, str(got)
    return error


def unnamed(forest: tk.Forest, names: list[str]) -> tk.Forest:
    """Take the first occurrence of its name out of each tree: it makes no difference."""
    arrays = forest.to_arrays()
    number = {label: at for at, label in enumerate(forest.labels)}
    # Of a name that is no label, and of trees without names: no node.
    name = np.array([number.get(name, -1) for name in names], dtype=np.int64)
    sizes = np.diff(arrays["offsets"])
    at = np.flatnonzero(arrays["labels"] == np.repeat(name, sizes))
    tree = np.searchsorted(arrays["offsets"], at, side="right")
    first = at[np.diff(tree, prepend=0) > 0]
    labels = arrays["labels"].copy()
    labels[first] = len(number)
    arrays |= {"labels": labels, "names": [*forest.labels, ""], "name_offsets": None}
    return tk.Forest.from_arrays(**arrays)


def body_sizes(forest: tk.Forest) -> np.ndarray:
    """Count the nodes of the bodies of functions; of trees without a body, all nodes."""
    arrays, sizes = forest.to_arrays(), forest.n_nodes
    starts = arrays["offsets"]
    is_list = np.array([bool(LIST.fullmatch(label)) for label in forest.labels], bool)
    tree = np.repeat(np.arange(len(forest)), sizes)
    # Children of roots, each with its subtree behind it, up to the next one or the end.
    at = np.flatnonzero(arrays["parents"] == starts[tree])
    ends = np.minimum(np.append(at[1:], starts[-1]), starts[tree[at] + 1])
    is_body = is_list[arrays["labels"][at]]
    n_nodes = np.bincount(tree[at[is_body]], (ends - at)[is_body], len(forest))
    return np.where(n_nodes > 0, n_nodes, sizes)


def functions_of(files: list[File], corpus: Corpus) -> tuple[list[Function], list[int]]:
    """List the functions of all files, and the numbers of their trees."""
    functions: list[Function] = []
    trees = []
    for file in files:
        path: list[int] = []
        for at, (name, first, last, tree) in enumerate(corpus.files.get(file.key, ())):
            # A function comes before those in it. Of several on the same lines it is not
            # known whether they are in each other.
            while path and not is_inside((first, last), functions[path[-1]]):
                path.pop()
            around = path[-1] if path else None
            path.append(len(functions))
            functions.append(Function(file, name, first, last, at, around))
            trees.append(tree)
    return functions, trees


def is_inside(lines: tuple[int, int], function: Function) -> bool:
    around = function.first, function.last
    return around[0] <= lines[0] <= lines[1] <= around[1] and lines != around


# --- what a run keeps for the next --------------------------------------------------


def maker() -> str:
    """Return what trees depend on, besides the files."""
    versions = [tk.__version__, *sys.version_info[:2]]
    return f"{' '.join(map(str, versions))} {Path(__file__).stat().st_mtime_ns}"


def load(folder: Path) -> Corpus:
    """Load what an earlier run kept; nothing if that was another version's, or damaged."""
    try:
        told = json.loads((folder / "functions.json").read_text(encoding="utf-8"))
        views = [tk.Forest.load(folder / f"{names}.forest") for names in VIEWS]
        if told["maker"] == maker() and all(len(view) == told["n"] for view in views):
            return Corpus(told["files"], views)
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return Corpus()


def keep(corpus: Corpus, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    """Keep the trees of files that were read whole."""
    whole = {k: rows for k, rows in corpus.files.items() if k not in corpus.partial}
    told = {"maker": maker(), "n": len(corpus.views[0]), "files": whole}
    for names, view in zip(VIEWS, corpus.views, strict=True):
        view.save(folder / f"{names}.forest")
    text = json.dumps(told)
    (folder / "functions.json").write_text(text, encoding="utf-8")


# --- finding ------------------------------------------------------------------------


@dataclass
class Group:
    """Functions that are linked by pairs."""

    members: list[int]
    #: (similarity, i, j), the most similar first.
    pairs: list[tuple[float, int, int]]


def find(
    functions: list[Function],
    views: list[tk.Forest],
    least: float,
    min_nodes: int,
    max_nodes: int,
) -> list[Group]:
    """Group the functions that are linked by pairs of at least `least`."""
    sizes = views[0].n_nodes
    # Declarations are no copies of each other.
    is_compared = (sizes >= min_nodes) & (body_sizes(views[0]) >= MIN_BODY)
    large = np.flatnonzero(is_compared & (sizes <= max_nodes))
    huge = np.flatnonzero(is_compared & (sizes > max_nodes))
    values: dict[tuple[int, int], float] = {}
    for view in views:
        for compared, threshold in ((large, least), (huge, None)):
            for i, j, value in linked(view[compared], threshold):
                pair = int(compared[i]), int(compared[j])
                values[pair] = max(value, values.get(pair, 0.0))
    around = [[i, *outer(functions, i)] for i in range(len(functions))]
    parent = list(range(len(functions)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    pairs = []
    # Outer functions first: what is in two that are alike is part of their pair.
    for i, j in sorted(
        values, key=lambda p: (len(around[p[0]]) + len(around[p[1]]), p)
    ):
        one, two = functions[i], functions[j]
        same_lines = (one.file, one.first, one.last) == (two.file, two.first, two.last)
        if i in around[j] or j in around[i] or (one.first and same_lines):
            continue
        if any(
            root(a) == root(b)
            for a in around[i]
            for b in around[j]
            if (a, b) != (i, j) and a != b
        ):
            continue
        pairs.append((values[i, j], i, j))
        parent[root(j)] = root(i)
    by_root: defaultdict[int, Group] = defaultdict(lambda: Group([], []))
    for pair in sorted(pairs, key=lambda pair: (-pair[0], pair[1:])):
        by_root[root(pair[1])].pairs.append(pair)
    for group in by_root.values():
        group.members = sorted({i for pair in group.pairs for i in pair[1:]})

    def lines(group: Group) -> int:
        return sum(functions[i].last - functions[i].first for i in group.members)

    return sorted(by_root.values(), key=lambda g: (-lines(g), g.members))


def linked(trees: tk.Forest, least: float | None) -> Iterator[tuple[int, int, float]]:
    """Yield links from equal trees to their first, and pairs of different trees.

    Without `least`, equal trees only.
    """
    unique = trees.unique()
    for tree, group in enumerate(unique.inverse):
        if unique.indices[group] != tree:
            yield unique.indices[group], tree, 1.0
    if least is None:
        return
    found = KERNEL.join(unique.trees, min_similarity=least)
    for a, b, value in zip(found.rows, found.columns, found.values, strict=True):
        yield *sorted((unique.indices[a], unique.indices[b])), float(value)


def outer(functions: list[Function], i: int) -> Iterator[int]:
    """List the functions around a function."""
    around = functions[i].around
    while around is not None:
        yield around
        around = functions[around].around


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


def as_json(functions: list[Function], groups: list[Group], n_skipped: int) -> str:
    def function(i: int) -> dict[str, object]:
        f = functions[i]
        path = shown(f.file.path)
        return {"file": path, "name": f.name, "first": f.first, "last": f.last}

    found = []
    for group in groups:
        at = {i: place for place, i in enumerate(group.members)}
        pairs = [
            {"similarity": value, "a": at[i], "b": at[j]} for value, i, j in group.pairs
        ]
        found.append(
            {"functions": [function(i) for i in group.members], "pairs": pairs}
        )
    told = {"n_functions": len(functions), "n_skipped": n_skipped, "groups": found}
    return json.dumps(told, indent=1)


def as_sarif(functions: list[Function], groups: list[Group]) -> str:
    """Write a log of SARIF 2.1.0: a result for each group, at its first function."""

    def location(i: int) -> dict[str, object]:
        f = functions[i]
        path = os.fsencode(f.file.path).replace(os.fsencode(os.sep), b"/")
        place: dict[str, object] = {"artifactLocation": {"uri": quote(path)}}
        if f.first:
            place["region"] = {"startLine": f.first, "endLine": f.last}
        return {"physicalLocation": place, "message": {"text": f.name or "a function"}}

    results = []
    for group in groups:
        first, *others = group.members
        text = (
            f"{functions[first].name or 'This function'} has {len(others)} near-duplicates, "
            f"with similarities from {group.pairs[-1][0]:.3f} to {group.pairs[0][0]:.3f}"
        )
        results.append(
            {
                "ruleId": "near-duplicate",
                "level": "warning",
                "message": {"text": text},
                "locations": [location(first)],
                "relatedLocations": [
                    {"id": number, **location(i)} for number, i in enumerate(others, 1)
                ],
            }
        )
    rule = {"id": "near-duplicate", "shortDescription": {"text": "Near-duplicates"}}
    driver = {"name": "find_clones", "version": tk.__version__, "rules": [rule]}
    log = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }
    return json.dumps(log, indent=1)


@dataclass
class Side:
    """A function as it is shown: its lines, and the tree that says which are shared."""

    source: list[str]
    trees: tk.Forest
    #: By node: first and last line, from 0.
    spans: np.ndarray


def side_of(function: Function, tree: tk.Tree) -> Side:
    """Return a function of Python with the lines of its nodes, or a tree as it is."""
    first = function.first
    if not first:
        source = outline(tree)
        lines = np.arange(len(source))
        return Side(source, tk.Forest([tree]), np.stack([lines, lines], axis=1))
    source = function.file.lines()[first - 1 : function.last]
    if function.file.language != "python":
        return Side(source, tk.Forest(), np.zeros((0, 2), dtype=np.int64))
    reading = tk.readers.python_ast(
        text=function.file.content,
        level="every_function",
        identifiers="locals",
        literals="keep",
        node_spans=True,
    )
    spans = reading.spans_of(function.number) - first
    return Side(source, reading.forest[[function.number]], spans)


def outline(tree: tk.Tree) -> list[str]:
    """Write a tree that has no source, a node on each line."""
    return ["  " * (node.depth - 1) + node.label for node in tree.walk()]


def shared_lines(one: Side, other: Side) -> set[int]:
    """Find the lines of a function that subtrees equal to some of the other cover."""
    if not (len(one.trees) and len(other.trees)):
        # Of other languages the lines of nodes are not known.
        matcher = difflib.SequenceMatcher(
            None,
            [line.strip() for line in one.source],
            [line.strip() for line in other.source],
            autojunk=False,
        )
        blocks = matcher.get_matching_blocks()
        return {block.a + k for block in blocks for k in range(block.size)}
    both = tk.Forest.concat([one.trees, other.trees])
    starts, ids = both.subtree_ids()
    subtrees, there = ids[: starts[1]].tolist(), set(ids[starts[1] :].tolist())
    parents = one.trees.to_arrays()["parents"].tolist()
    spans = one.spans.tolist()
    shared, others = set(), set()
    for subtree, parent, (first, last) in zip(subtrees, parents, spans, strict=True):
        if subtree not in there:
            # A line is not shared if anything that begins and ends on it is not.
            others |= {first} if first == last else set()
        elif first == last or parent < 0 or [first, last] != spans[parent]:
            # Nodes without lines of their own have those of the node above.
            shared.update(range(first, last + 1))
    return shared - others


def side_html(function: Function, source: list[str], shared: set[int]) -> str:
    lines = []
    for number, text in enumerate(source):
        kind = "line shared" if number in shared else "line"
        at = f'<span class="n">{function.first + number}</span>'
        # Lines of generated code may be as long as the file.
        lines.append(f'<span class="{kind}">{at}{html.escape(text[:400])}</span>')
    title = f"{html.escape(function.place)} &nbsp; {html.escape(function.name)}"
    return f'<div class="side"><h3>{title}</h3><pre>{"".join(lines)}</pre></div>'


def as_html(functions: list[Function], groups: list[Group], trees: tk.Forest) -> str:
    """Show the least similar pair of each group side by side."""
    n = len({i for group in groups for i in group.members})
    out = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        "<meta name=viewport content='width=device-width'>",
        f"<title>Near-duplicate functions</title><style>{STYLE}</style>",
        f"<h1>{n} of {len(functions)} functions in {len(groups)} groups</h1>",
        "<p><span class='key shared'>Shared</span> lines have the same syntax on the ",
        "other side, local names aside; in languages other than Python, the same text. ",
        "Of each group the least similar pair is shown.</p>",
    ]
    for number, group in enumerate(groups, 1):
        value, i, j = group.pairs[-1]
        out.append(f"<h2>Group {number}: similarity {value:.3f}</h2>")
        others = [functions[k] for k in group.members if k not in (i, j)]
        if others:
            names = ", ".join(html.escape(f"{f.place} {f.name}") for f in others)
            out.append(f"<p class=others>Also {names}</p>")
        one, other = (side_of(functions[k], trees[k]) for k in (i, j))
        shown_sides = [
            side_html(functions[i], one.source, shared_lines(one, other)),
            side_html(functions[j], other.source, shared_lines(other, one)),
        ]
        out.append(f'<div class="pair">{"".join(shown_sides)}</div>')
    return "\n".join([*out, "</html>\n"])


def write(target: str, text: str) -> None:
    if target == "-":
        print(text)
    else:
        Path(target).write_text(text, encoding="utf-8", errors="backslashreplace")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Find near-duplicate functions.", epilog="See the head of the file."
    )
    parser.add_argument(
        "paths", nargs="+", metavar="PATH", help="files, or directories of them"
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
        "--max-nodes",
        type=int,
        default=10_000,
        metavar="N",
        help="of functions with more nodes, find equal ones only (default: %(default)s)",
    )
    for option, what in {
        "--json": "JSON",
        "--sarif": "SARIF 2.1.0",
        "--html": "an HTML page",
    }.items():
        parser.add_argument(
            option, metavar="FILE", help=f"write {what}; - for standard output"
        )
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="FOLDER",
        help="keep the trees here; the next run reads files that changed",
    )
    parser.add_argument("--fail", action="store_true", help="exit code 1 for clones")
    given = parser.parse_args(arguments)
    # Names of files and functions may have characters that a terminal does not.
    sys.stdout.reconfigure(errors="backslashreplace")
    skipped = Skipped()
    files = read_files(given.paths, skipped)
    kept = load(given.keep) if given.keep else Corpus()
    corpus = kept.only(files)
    by_language: defaultdict[str, dict[str, File]] = defaultdict(dict)
    for file in files:
        if file.key not in corpus.files:
            by_language[file.language][file.key] = file
    for group in by_language.values():
        corpus.add(list(group.values()), skipped)
    if given.keep and (by_language or len(corpus.files) < len(kept.files)):
        keep(corpus, given.keep)
    functions, trees = functions_of(files, corpus)
    views = [view[trees] for view in corpus.views]
    limits = given.min_similarity, given.min_nodes, given.max_nodes
    groups = find(functions, views, *limits)
    reports = {
        "json": lambda: as_json(functions, groups, skipped.n),
        "sarif": lambda: as_sarif(functions, groups),
        "html": lambda: as_html(functions, groups, views[0]),
    }
    targets = {name: getattr(given, name) for name in reports}
    if "-" not in targets.values():
        print(as_text(functions, groups))
    try:
        for name, target in targets.items():
            if target:
                write(target, reports[name]())
    except OSError as error:
        print(f"find_clones: {error}", file=sys.stderr)
        return 2
    if not functions:
        print("find_clones: no function was found", file=sys.stderr)
    if skipped.n or not functions:
        return 2
    return int(given.fail and bool(groups))


if __name__ == "__main__":
    sys.exit(main())
