"""Secondary structures of RNA in dot-bracket notation, as loops or as base pairs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from treekernel_rs._core import ParseError
from treekernel_rs.readers._reading import Collector, Reading, Table, choice, numbered

if TYPE_CHECKING:
    from treekernel_rs.readers._reading import Progress, Text
    from treekernel_rs.readers._source import Source, Texts

_STRUCTURE = re.compile(r"[().\[\]{}<>]+(?=\s|$)")
_SEQUENCE = re.compile(r"[A-Za-z]+")
_KNOT = set("[]{}<>")


def dot_bracket(
    source: Source = None,
    *,
    text: Texts = None,
    nodes: str = "loops",
    sizes: bool = False,
    bases: bool = False,
    errors: str = "raise",
    progress: Progress = None,
) -> Reading:
    r"""Read secondary structures of RNA in dot-bracket notation.

    Parameters
    ----------
    source : path, open file or iterable of these, optional
        Paths may also be directories (``*.db``, ``*.dbn``, ``*.vienna``) and patterns;
        files may be gzipped. A record is a structure, after a line ``>name`` and one
        with the sequence, which hold until the next; what follows a structure on its
        line, an energy, is left out.
    text : str, bytes or iterable of these, optional
        The text itself, in place of `source`.
    nodes : {"loops", "pairs"}, default "loops"
        Loops and stems as nodes: ``hairpin``, ``bulge``, ``interior``, ``multi``,
        ``stem`` and, on top, ``exterior``. Or base pairs as nodes ``pair``, with the
        bases that are not paired as leaves ``base``.
    sizes : bool, default False
        Of loops: add the number of unpaired bases, and of pairs to stems, ``stem:4``.
    bases : bool, default False
        Of pairs: ``GC`` and ``A`` in place of ``pair`` and ``base``. Needs sequences.
    errors : {"raise", "skip"}, default "raise"
        "skip" leaves out the structures that are wrong, and lists why.
    progress : callable or True, optional
        Called as progress(done, total), in texts; True shows a bar.

    Returns
    -------
    Reading
        `metadata` has the ``sequence`` of each structure that has one.

    Raises
    ------
    ParseError
        With file, line, column, what was expected and what was found; a pseudoknot,
        which is no tree, is one.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> text = ">one\nGGAAACGAAAGUCC\n((...((...))))\n"
    >>> reading = tk.readers.dot_bracket(text=text, sizes=True)
    >>> reading.names, str(reading.forest[0])
    (['one'], '(exterior:0 (stem:2 (bulge:3 (stem:2 hairpin:3))))')
    >>> str(tk.readers.dot_bracket(text="(.)", nodes="pairs").forest[0])
    '(exterior (pair base))'
    """
    choice("nodes", nodes, "loops", "pairs")
    collector = Collector(
        source, text, (".db", ".dbn", ".vienna"), errors=errors, progress=progress
    )
    table = Table()
    for each in collector.texts():
        name = sequence = ""
        for number, start, line in numbered(each.content):
            stripped = line.strip()
            if line.startswith(">"):
                name, sequence = stripped[1:].strip(), ""
                continue
            structure = _STRUCTURE.match(line)
            if structure is None and _SEQUENCE.fullmatch(stripped):
                sequence = stripped
                continue
            try:
                if structure is None:
                    wrong = re.match(r"[().\[\]{}<>]*", line)
                    at = wrong.end() if wrong else 0
                    expected = "'(', ')' or '.'"
                    raise each.error(start + at, expected, repr(line[at]))
                pairs = _pairs(each, start, structure.group())
                if bases and len(sequence) != len(structure.group()):
                    expected = f"a sequence of {len(structure.group())} bases before it"
                    raise each.error(start, expected, f"one of {len(sequence)}")
                table.begin()
                if nodes == "loops":
                    _loops(table, pairs, sizes=sizes)
                else:
                    _base_pairs(table, pairs, sequence if bases else "")
            except ParseError as error:
                collector.wrong(error)
                continue
            collector.metadata.append({"sequence": sequence} if sequence else {})
            collector.add(each, name, (number, number))
    return collector.reading(table.forest())


def _pairs(text: Text, start: int, structure: str) -> list[int]:
    """Return the partner of each base, -1 where it has none."""
    partner, opened = [-1] * len(structure), []
    for at, char in enumerate(structure):
        if char in _KNOT:
            expected = "'(', ')' or '.', as a pseudoknot is no tree"
            raise text.error(start + at, expected, repr(char))
        if char == "(":
            opened.append(at)
        elif char == ")":
            if not opened:
                raise text.error(start + at, "'(' before this bracket", "')'")
            partner[at] = opened.pop()
            partner[partner[at]] = at
    if opened:
        end = start + len(structure)
        expected = f"')' for the bracket in column {opened[-1] + 1}"
        raise text.error(end, expected, "the end of the structure")
    return partner


def _loops(table: Table, partner: list[int], *, sizes: bool) -> None:
    """Append the tree of loops and stems."""
    # What is left: the pair at which a stem begins, or -1 for all, and the node above.
    todo = [(-1, -1)]
    while todo:
        left, parent = todo.pop()
        right = partner[left] if left >= 0 else len(partner)
        if left >= 0:
            n = 1
            while left + 1 < right and partner[left + 1] == right - 1:
                left, right, n = left + 1, right - 1, n + 1
            parent = table.node(f"stem:{n}" if sizes else "stem", parent)
        below, free, at = [], 0, left + 1
        while at < right:
            if partner[at] >= 0:
                below.append(at)
                at = partner[at]
            else:
                free += 1
            at += 1
        if left < 0:
            kind = "exterior"
        elif len(below) != 1:
            kind = "multi" if below else "hairpin"
        else:
            one_sided = below[0] == left + 1 or partner[below[0]] == right - 1
            kind = "bulge" if one_sided else "interior"
        node = table.node(f"{kind}:{free}" if sizes else kind, parent)
        todo += [(start, node) for start in reversed(below)]


def _base_pairs(table: Table, partner: list[int], sequence: str) -> None:
    """Append the tree of base pairs."""
    path = [table.node("exterior")]
    for at, other in enumerate(partner):
        if other < 0:
            table.node(sequence[at] if sequence else "base", path[-1])
        elif other > at:
            label = sequence[at] + sequence[other] if sequence else "pair"
            path.append(table.node(label, path[-1]))
        else:
            path.pop()
