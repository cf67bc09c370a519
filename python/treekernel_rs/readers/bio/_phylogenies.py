"""Phylogenies in Newick notation, and in the blocks of NEXUS that hold it.

The formats are small, and are read here: a place in the text is then known for every
error, nothing recurses, and nothing has to be installed.
"""

from __future__ import annotations

import bisect
import math
import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from treekernel_rs._core import ParseError
from treekernel_rs.readers._reading import Collector, Reading, Table, choice

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from treekernel_rs.readers._reading import Progress, Text
    from treekernel_rs.readers._source import Source, Texts

_TOKEN = re.compile(
    r"""\s++ | '(?:[^']|'')*+' | "[^"]*+" | [(),:;=] | [^\s()\[\]'":;,=]++""",
    re.VERBOSE,
)

_SIGNS = frozenset("(),:;=")
_COMMENT = re.compile(r"[\[\]]")
_BLOCK_END = re.compile(r"\bend(block)?\s*;", re.IGNORECASE)

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)


@lru_cache(maxsize=1 << 14)
def clade_label(name: str, *, is_leaf: bool) -> str:
    """Return the label of a node, whether a file or an object has the name.

    Packages disagree on two things, which are therefore not told apart: an underscore
    and a blank, and a number at an inner node and no name.
    """
    if name and (is_leaf or not _NUMBER.fullmatch(name)):
        return name.replace("_", " ")
    return "leaf" if is_leaf else "node"


class _Statement(NamedTuple):
    """The tokens of a statement, and where each starts."""

    tokens: list[str]
    starts: list[int]


class _Labels(NamedTuple):
    """What becomes of names and lengths."""

    leaves: str
    inner: str
    lengths: list[float] | str | None

    def of(self, name: str, length: str | None, *, is_leaf: bool) -> str:
        """Return the label of a node."""
        is_kept = (self.leaves if is_leaf else self.inner) == "keep"
        label = clade_label(name if is_kept else "", is_leaf=is_leaf)
        if self.lengths is None:
            return label
        if length is None:
            return f"{label}:?"
        if isinstance(self.lengths, str):
            return f"{label}:{float(length)}"
        return f"{label}:{bisect.bisect_left(self.lengths, float(length))}"


def newick(
    source: Source = None,
    *,
    text: Texts = None,
    leaves: str = "keep",
    inner: str = "keep",
    lengths: Sequence[float] | str | None = None,
    errors: str = "raise",
    progress: Progress = None,
) -> Reading:
    r"""Read phylogenies in Newick notation, each of which ends in a semicolon.

    Parameters
    ----------
    source : path, open file or iterable of these, optional
        Paths may also be directories (``*.nwk``, ``*.newick``, ``*.tree``, ``*.tre``)
        and patterns; files may be gzipped.
    text : str, bytes or iterable of these, optional
        The text itself, in place of `source`.
    leaves : {"keep", "blank"}, default "keep"
        Names of leaves, or ``leaf`` for all.
    inner : {"keep", "blank"}, default "keep"
        Names of inner nodes, or ``node`` for all. A node without a name is ``node`` or
        ``leaf`` in any case; a number at an inner node is a support, not a name.
    lengths : "keep" or sequence of float, optional
        With "keep", labels end in ``:`` and the branch length, and in ``:?`` where there
        is none. Limits make classes of lengths: with ``[0.1, 1]``, labels end in ``:0``
        up to 0.1, ``:1`` up to 1, and ``:2`` above. By default lengths are left out.
    errors : {"raise", "skip"}, default "raise"
        "skip" leaves out the trees that are wrong, and lists why.
    progress : callable or True, optional
        Called as progress(done, total), in texts; True shows a bar.

    Returns
    -------
    Reading
        `names` are those of the roots.

    Raises
    ------
    ParseError
        With file, line, column, what was expected and what was found.

    Notes
    -----
    Quoted names and comments in square brackets are read as the format has them; an
    underscore is a blank. Children keep their order: see `Forest.sorted`. The trees of
    DendroPy, Biopython, scikit-bio and ete become the same (`Forest.from_trees`).

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> text = "((Homo:0.05,Pan:0.07)95:0.2,Mus_musculus:0.9)root;"
    >>> str(tk.readers.newick(text=text).forest[0])
    '(root (node Homo Pan) Mus\\ musculus)'
    >>> reading = tk.readers.newick(text=text, leaves="blank", lengths=[0.1, 0.5])
    >>> str(reading.forest[0])
    '(root:? (node:1 leaf:0 leaf:0) leaf:2)'
    """
    labels = _labels(leaves, inner, lengths)
    suffixes = (".nwk", ".newick", ".tree", ".tre")
    collector = Collector(source, text, suffixes, errors=errors, progress=progress)
    table = Table()
    for each in collector.texts():
        for statement in _statements(each, collector):
            _tree(each, statement, labels, {}, table, collector, None)
    return collector.reading(table.forest())


def nexus(
    source: Source = None,
    *,
    text: Texts = None,
    leaves: str = "keep",
    inner: str = "keep",
    lengths: Sequence[float] | str | None = None,
    errors: str = "raise",
    progress: Progress = None,
) -> Reading:
    r"""Read phylogenies of the blocks TREES of NEXUS files.

    Parameters
    ----------
    source : path, open file or iterable of these, optional
        Paths may also be directories (``*.nex``, ``*.nexus``, ``*.trees``) and
        patterns; files may be gzipped.
    text : str, bytes or iterable of these, optional
        The text itself, in place of `source`.
    leaves, inner : {"keep", "blank"}, default "keep"
        As in `newick`. Names are translated as the block says.
    lengths : "keep" or sequence of float, optional
        As in `newick`.
    errors : {"raise", "skip"}, default "raise"
        "skip" leaves out the trees that are wrong, and lists why.
    progress : callable or True, optional
        Called as progress(done, total), in texts; True shows a bar.

    Returns
    -------
    Reading
        `names` are those of the trees.

    Raises
    ------
    ParseError
        With file, line, column, what was expected and what was found.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> text = (
    ...     "#NEXUS\nBEGIN TREES;\n  TRANSLATE 1 Homo, 2 Pan, 3 Mus;\n"
    ...     "  TREE best = [&R] ((1,2),3);\nEND;\n"
    ... )
    >>> reading = tk.readers.nexus(text=text)
    >>> reading.names, str(reading.forest[0])
    (['best'], '(node (node Homo Pan) Mus)')
    """
    labels = _labels(leaves, inner, lengths)
    collector = Collector(
        source, text, (".nex", ".nexus", ".trees"), errors=errors, progress=progress
    )
    table = Table()
    for each in collector.texts():
        if each.content.lstrip()[:6].upper() != "#NEXUS":
            start = len(each.content) - len(each.content.lstrip())
            collector.wrong(each.error(start, "'#NEXUS'"))
            continue
        in_trees, names = False, dict[str, str]()
        for statement in _statements(each, collector, after="#NEXUS"):
            tokens, starts = statement
            words = [token.lower() for token in tokens[:2]]
            if words[:1] == ["begin"]:
                in_trees, names = words[1:] == ["trees"], {}
            elif words[:1] in (["end"], ["endblock"]):
                in_trees = False
            elif in_trees and words[:1] == ["translate"]:
                names = _translation(tokens[1:-1])
            elif in_trees and words[:1] in (["tree"], ["utree"]):
                at = 2 if words[1:] == ["*"] else 1
                equals = at + 1
                if len(tokens) <= equals + 1 or tokens[equals] != "=":
                    start = starts[min(equals, len(starts) - 1)]
                    collector.wrong(each.error(start, "a name and '=' after TREE"))
                    continue
                name = _unquoted(tokens[at])
                rest = _Statement(tokens[equals + 1 :], starts[equals + 1 :])
                _tree(each, rest, labels, names, table, collector, name)
    return collector.reading(table.forest())


def _labels(leaves: str, inner: str, lengths: Sequence[float] | str | None) -> _Labels:
    choice("leaves", leaves, "keep", "blank")
    choice("inner", inner, "keep", "blank")
    if isinstance(lengths, str):
        choice("lengths", lengths, "keep")
        return _Labels(leaves, inner, lengths)
    limits = None if lengths is None else [float(limit) for limit in lengths]
    if limits is not None and (
        limits != sorted(limits) or not all(map(math.isfinite, limits))
    ):
        msg = f"lengths must be finite and increase, got {limits}"
        raise ValueError(msg)
    return _Labels(leaves, inner, limits)


def _statements(
    text: Text, collector: Collector, after: str = ""
) -> Iterator[_Statement]:
    """Yield the tokens of each statement, its semicolon included."""
    content = text.content
    statement = _Statement([], [])
    at, end = content.find(after) if after else 0, len(content)
    at = max(at, 0) + len(after)
    while at < end:
        for match in _TOKEN.finditer(content, at):
            if match.start() != at:
                break
            token, start, at = match[0], at, match.end()
            if token.isspace():
                continue
            statement.tokens.append(token)
            statement.starts.append(start)
            if token != ";":
                continue
            yield statement
            words = [token.lower() for token in statement.tokens[:2]]
            statement = _Statement([], [])
            if after and words[0] == "begin" and words[1] != "trees":
                # Not looked at: sequences and the like have signs of their own.
                behind_it = _BLOCK_END.search(content, at)
                at = behind_it.start() if behind_it else end
                break
        if at == end or _TOKEN.match(content, at):
            continue
        if content[at] == "[" and (behind := _behind_comment(content, at)):
            at = behind
            continue
        what = {"'": "a quote", '"': "a quote", "[": "a comment"}
        char = content[at]
        expected = f"an end of {what[char]}" if char in what else "an open bracket"
        got = "the end of the text" if char in what else repr(char)
        collector.wrong(text.error(at, expected, got))
        # Where it was meant to end is not known: the next line that ends a tree.
        found = re.compile(r";[ \t]*(\n|$)").search(content, at)
        at, statement = (found.end() if found else end), _Statement([], [])
    if statement.tokens:
        collector.wrong(text.error(end, "';' at the end of the tree"))


def _behind_comment(content: str, at: int) -> int | None:
    """Return the place behind a comment, which may hold others; None without an end."""
    depth = 0
    for bracket in _COMMENT.finditer(content, at):
        depth += 1 if bracket.group() == "[" else -1
        if depth == 0:
            return bracket.end()
    return None


def _translation(tokens: list[str]) -> dict[str, str]:
    names: dict[str, str] = {}
    words: list[str] = []
    for token in [*tokens, ","]:
        if token != ",":
            words.append(_unquoted(token))
        elif words:
            names[words[0]] = " ".join(words[1:])
            words = []
    return names


def _unquoted(name: str) -> str:
    if name[:1] == "'":
        return name[1:-1].replace("''", "'")
    return name[1:-1] if name[:1] == '"' else name


def _tree(
    text: Text,
    statement: _Statement,
    labels: _Labels,
    names: dict[str, str],
    table: Table,
    collector: Collector,
    name: str | None,
) -> None:
    """Read a tree from tokens, and keep it or what is wrong with it."""
    table.begin()
    try:
        root = _nodes(text, statement, labels, names, table)
    except ParseError as error:
        table.forget()
        collector.wrong(error)
        return
    lines = text.line(statement.starts[0]), text.line(statement.starts[-1])
    collector.add(text, root if name is None else name, lines)


def _nodes(
    text: Text,
    statement: _Statement,
    labels: _Labels,
    names: dict[str, str],
    table: Table,
) -> str:
    """Append the nodes of a tree in preorder, and return the name of its root.

    A node's name comes after its children, so nodes are labelled when they are closed.
    """
    tokens, starts = statement
    path = [table.node("")]
    has_children = [False]
    at = 0

    def refuse(expected: str) -> NoReturn:
        raise text.error(starts[at], expected, repr(tokens[at]))

    while True:
        # At the beginning of a node.
        token = tokens[at]
        if token == "(":
            has_children[-1] = True
            path.append(table.node("", path[-1]))
            has_children.append(False)
            at += 1
            continue
        # Behind its children.
        while True:
            name, length = "", None
            if token not in _SIGNS:
                name = _unquoted(token)
                at += 1
                token = tokens[at]
            if token == ":":
                at += 1
                length = tokens[at]
                if not _NUMBER.fullmatch(length):
                    refuse("a branch length")
                at += 1
                token = tokens[at]
            node, inside = path.pop(), has_children.pop()
            name = names.get(name, name)
            label = labels.of(name, length, is_leaf=not inside)
            table.labels[node] = table.ids.setdefault(label, len(table.ids))
            if not path:
                if token != ";" or at + 1 < len(tokens):
                    refuse("';' at the end of the tree")
                return name
            if token == ",":
                path.append(table.node("", path[-1]))
                has_children.append(False)
                at += 1
                break
            if token != ")":
                refuse("',' or ')'")
            at += 1
            token = tokens[at]
