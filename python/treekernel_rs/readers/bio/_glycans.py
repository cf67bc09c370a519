"""Glycans in IUPAC-condensed notation, which is read from the right: from the root."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from treekernel_rs._core import ParseError
from treekernel_rs.readers._reading import Collector, Reading, Table, choice, numbered

if TYPE_CHECKING:
    from treekernel_rs.readers._reading import Progress, Text
    from treekernel_rs.readers._source import Source, Texts

_PART = re.compile(r"\([^()\[\]{}\s]*\)?|[\[\]]|[^()\[\]{}\s]+")


def glycans(
    source: Source = None,
    *,
    text: Texts = None,
    linkages: str = "label",
    order: str = "sorted",
    errors: str = "raise",
    progress: Progress = None,
) -> Reading:
    r"""Read glycans in IUPAC-condensed notation: the root is the reducing end.

    Parameters
    ----------
    source : path, open file or iterable of these, optional
        Paths may also be directories (``*.iupac``, ``*.txt``) and patterns; files may
        be gzipped. A line is a glycan.
    text : str, bytes or iterable of these, optional
        The text itself, in place of `source`.
    linkages : {"label", "node", "drop"}, default "label"
        The bond to the residue above as part of the label, ``Gal(b1-4)``; as a node of
        its own between the two residues, so that kernels which skip nodes compare
        residues and bonds each for itself; or left out.
    order : {"sorted", "as_is"}, default "sorted"
        Branches in an order that depends on what they are (see `Forest.sorted`), as
        they have none by nature; or as they are written.
    errors : {"raise", "skip"}, default "raise"
        "skip" leaves out the glycans that are wrong, and lists why.
    progress : callable or True, optional
        Called as progress(done, total), in texts; True shows a bar.

    Returns
    -------
    Reading
        `names` are the glycans as they are written.

    Raises
    ------
    ParseError
        With file, line, column, what was expected and what was found. Floating parts
        in braces, whose place in the tree is unknown, are one.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> name = "Man(a1-3)[Man(a1-6)]Man(b1-4)GlcNAc"
    >>> str(tk.readers.glycans(text=name, linkages="drop").forest[0])
    '(GlcNAc (Man Man Man))'
    >>> str(tk.readers.glycans(text="Man(a1-3)Man", linkages="node").forest[0])
    '(Man (\\(a1-3\\) Man))'
    """
    choice("linkages", linkages, "label", "node", "drop")
    choice("order", order, "sorted", "as_is")
    collector = Collector(
        source, text, (".iupac", ".txt"), errors=errors, progress=progress
    )
    table = Table()
    for each in collector.texts():
        for number, start, line in numbered(each.content):
            name = line.strip()
            table.begin()
            try:
                _glycan(each, start + line.index(name), name, table, linkages=linkages)
            except ParseError as error:
                table.forget()
                collector.wrong(error)
                continue
            collector.add(each, name, (number, number))
    forest = table.forest()
    return collector.reading(forest.sorted() if order == "sorted" else forest)


def _glycan(text: Text, start: int, name: str, table: Table, *, linkages: str) -> None:
    """Read a glycan from its reducing end, which stands on the right."""
    parts: list[tuple[str, int]] = []
    at = 0
    while at < len(name):
        match = _PART.match(name, at)
        if match is None:
            expected = "a residue, a bond in round or a branch in square brackets"
            if name[at] in "{}":
                expected += ", as a part in braces has no known place in the tree"
            raise text.error(start + at, expected, repr(name[at]))
        parts.append((match.group(), at))
        at = match.end()

    def wrong(at: int, expected: str) -> ParseError:
        got = repr(name[at : at + 20]) if at < len(name) else "the end of the glycan"
        return text.error(start + at, expected, got)

    # Nodes come in the order right to left, which is a preorder: parents before
    # children, and one branch after another.
    parents: list[int] = []
    bond: str | None = ""
    bond_at = len(name)
    node = -1
    for part, at in reversed(parts):
        if part == "]":
            if bond is not None:
                raise wrong(at, "a residue after the branch")
            parents.append(node)
            bond_at = -1
        elif part == "[":
            if not parents or bond is not None or bond_at < 0:
                raise wrong(at, "a branch that ends in a bond and ']'")
            node = parents.pop()
        elif part.startswith("("):
            if node < 0 and bond == "":
                bond = part  # of the reducing end, which is bound to something else
            elif bond is not None or not part.endswith(")"):
                raise wrong(at, "a residue and a whole bond")
            else:
                bond, bond_at = part, at
        else:
            if bond is None:
                raise wrong(at + len(part), "a bond after the residue")
            if bond and linkages == "node":
                node = table.node(bond, node)
            node = table.node(part + bond if linkages == "label" else part, node)
            bond = None
            bond_at = at
    if parents:
        raise wrong(0, "'[' before the branch")
    if node < 0 or bond is not None:
        raise wrong(0, "a residue")
