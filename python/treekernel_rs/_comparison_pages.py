"""A comparison of two trees as a text, as two pictures and as a page."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from treekernel_rs._arguments import check_integer
from treekernel_rs._wording import label_text, plural
from treekernel_rs.drawing import MARKS, Drawing, Marks, draw_marked
from treekernel_rs.nodes import lines_text, path_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from treekernel_rs.comparing import Comparison
    from treekernel_rs.nodes import Node, NodeTable

__all__ = ["fragment", "merged", "outline", "page", "pictures"]

#: Lines of an outline, rows of the table of changes, and characters of a label.
_MOST_LINES = 400
_MOST_ROWS = 200
_LONGEST = 100
#: Trees of at most so many nodes are shown whole, larger ones only near changes.
_WHOLE = 24
#: Nodes of a picture, if not asked for otherwise.
_MOST_DRAWN = 60
#: Pictures stand side by side if they need not be made smaller than this, and are made
#: smaller to fit the screen down to that.
_SCALE, _LEAST_SCALE = 0.7, 0.6
#: Nodes around all changes: those beyond are left out.
_MOST_ABOVE = 4


@dataclass(frozen=True, slots=True)
class Line:
    """A line of an outline: its sign, its text, and what became of its node."""

    sign: str
    text: str
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class View:
    """What is shown of one of the trees; nodes are numbered in preorder."""

    table: NodeTable
    #: What became of each node.
    kinds: list[str | None]
    #: Whether a node is shown itself.
    shown: NDArray[np.bool_]
    #: All nodes that are shown are in its subtree.
    top: int


def merged(
    pairs: list[tuple[int, int]], sizes: tuple[int, int]
) -> Iterator[tuple[int | None, int | None]]:
    """Yield the nodes of both trees in one order: those that go, that come, that stay."""
    i = j = 0
    for old, new in [*pairs, sizes]:
        yield from ((node, None) for node in range(i, old))
        yield from ((None, node) for node in range(j, new))
        if (old, new) != sizes:
            yield old, new
        i, j = old + 1, new + 1


def _views(comparison: Comparison) -> tuple[View, View]:
    """Choose what is shown of both trees: all of small ones, else what is near changes."""
    old, new = (side.table for side in comparison._sides)
    tables, pairs = (old, new), comparison._pairs
    kinds: tuple[list[str | None], ...] = tuple([None] * len(table) for table in tables)
    for change in comparison.changes:
        if change.old is not None and change.new is not None and not change.deleted:
            kinds[0][change.old.number] = kinds[1][change.new.number] = change.kind
        for node in change.deleted:
            kinds[0][node] = change.kind
        for node in change.inserted:
            kinds[1][node] = change.kind
    if not comparison.changes or max(map(len, tables)) <= _WHOLE:
        shown = [np.ones(len(table), bool) for table in tables]
        return _both(tables, kinds, shown, (0, 0))
    # 1. Nodes that changed, of what moved only its root, and all nodes above them.
    on_path = []
    for table, changed in zip(tables, kinds, strict=True):
        parents = table.parents.tolist()
        path = [
            kind is not None and not kind == changed[parent] == "moved"
            for kind, parent in zip(changed, parents, strict=True)
        ]
        for node in range(len(path) - 1, 0, -1):
            path[parents[node]] |= path[node]
        on_path.append(path)
    for i, j in pairs:
        on_path[0][i] = on_path[1][j] = on_path[0][i] or on_path[1][j]
    # 2. Below a long path that both trees have, the changes begin far from the root.
    tops = _tops(tables, kinds, on_path, pairs)
    # 3. Their neighbours.
    shown = []
    for table, path in zip(tables, on_path, strict=True):
        near = np.array(path)
        for node in np.flatnonzero(near).tolist():
            children = list(table.children(node))
            for one, two in pairwise(children):
                if path[one] != path[two]:
                    near[one] = near[two] = True
        shown.append(near)
    for i, j in pairs:
        shown[0][i] = shown[1][j] = shown[0][i] or shown[1][j]
    return _both(tables, kinds, shown, tops)


def _both(
    tables: tuple[NodeTable, NodeTable],
    kinds: Sequence[list[str | None]],
    shown: Sequence[NDArray[np.bool_]],
    tops: tuple[int, int],
) -> tuple[View, View]:
    one, two = map(View, tables, kinds, shown, tops)
    return one, two


def _tops(
    tables: tuple[NodeTable, NodeTable],
    kinds: Sequence[list[str | None]],
    on_path: Sequence[list[bool]],
    pairs: list[tuple[int, int]],
) -> tuple[int, int]:
    """Return the nodes to begin at: some nodes above the first change or branching."""
    partner = dict(pairs)
    way = [(0, 0)]
    while True:
        old, new = way[-1]
        if partner.get(old) != new or kinds[0][old] or kinds[1][new]:
            break
        below = [
            [child for child in table.children(node) if path[child]]
            for table, node, path in zip(tables, (old, new), on_path, strict=True)
        ]
        if len(below[0]) != 1 or len(below[1]) != 1:
            break
        way.append((below[0][0], below[1][0]))
    return (
        way[max(0, len(way) - 1 - _MOST_ABOVE)]
        if len(way) > 2 * _MOST_ABOVE
        else way[0]
    )


# --- Text -----------------------------------------------------------------------------


def outline(comparison: Comparison) -> list[Line]:
    """Show the second tree by lines, with what changed; what is equal is left out."""
    old, new = _views(comparison)
    moved = {
        node.number: other.number
        for change in comparison.changes
        if change.kind == "moved"
        for node, other in [(change.old, change.new)]
        if node is not None and other is not None
    }
    origin = {there: here for here, there in moved.items()}
    lines: list[Line] = []
    hidden = _Hidden(new, lines)
    n_left_out = 0
    if new.top:
        n_around = len(new.table) - int(new.table.ends[new.top]) + new.top
        place = path_text(new.table.node(int(new.table.parents[new.top])))
        lines.append(Line(" ", f"{place} \u22ef {plural(n_around, 'node')}"))
    for i, j in merged(comparison._pairs, (len(old.table), len(new.table))):
        if _is_around(old, i) or _is_around(new, j):
            continue
        if len(lines) >= _MOST_LINES:
            n_left_out += 1
            continue
        if (
            i is not None
            and j is not None
            and new.kinds[j] is None
            and not new.shown[j]
        ):
            hidden.add(j)
            continue
        hidden.flush()
        view, node = (old, i) if j is None else (new, j)
        if node is None:
            continue
        kind, text = view.kinds[node], label_text(view.table.label(node), _LONGEST)
        sign = " " if kind is None else "-" if j is None else "+"
        if kind == "renamed" and i is not None:
            sign, text = (
                "~",
                f"{label_text(old.table.label(i), _LONGEST)} \u2192 {text}",
            )
        elif kind == "moved":
            way, other = ("to", moved) if j is None else ("from", origin)
            if node not in other:  # below the root of what moved
                continue
            size = plural(view.table.node(node).n_nodes, "node")
            text = f"{text} ({size}, moved {way} {other[node]})"
        lines.append(Line(sign, _indented(view, node, text), kind))
    hidden.flush()
    if n_left_out:
        lines.append(Line(" ", f"... {plural(n_left_out, 'node')} more"))
    return lines


class _Hidden:
    """Nodes that are not shown, which become one line for each row of siblings."""

    def __init__(self, view: View, lines: list[Line]) -> None:
        self.view, self.lines = view, lines
        self.parent, self.first, self.count, self.end = -1, 0, 0, 0

    def add(self, node: int) -> None:
        """Take the next node."""
        parent = int(self.view.table.parents[node])
        if node >= self.end:  # not below the last one
            if parent != self.parent:
                self.flush()
                self.parent, self.first = parent, node
            self.end = int(self.view.table.ends[node])
        self.count += 1

    def flush(self) -> None:
        """Write the line of those that have come."""
        if self.count:
            text = f"\u22ef {plural(self.count, 'node')}"
            if self.count == 1:
                text = label_text(self.view.table.label(self.first), _LONGEST)
            self.lines.append(Line(" ", _indented(self.view, self.first, text)))
        self.parent, self.count = -1, 0


def _is_around(view: View, node: int | None) -> bool:
    """Whether a node is not in the part that is shown."""
    if node is None:
        return False
    return not view.top <= node < int(view.table.ends[view.top])


def _indented(view: View, node: int, text: str) -> str:
    depth = int(view.table.depths[node] - view.table.depths[view.top]) + bool(view.top)
    return "  " * depth + text


# --- Pictures -------------------------------------------------------------------------


def pictures(comparison: Comparison, max_nodes: int) -> list[tuple[str, Drawing]]:
    """Draw both trees, each with a caption."""
    if check_integer("max_nodes", max_nodes) < 1:
        msg = f"max_nodes must be at least 1, got {max_nodes}"
        raise ValueError(msg)
    drawn = []
    views = _views(comparison)
    for name, view in zip(("old", "new"), views, strict=True):
        marks = Marks(view.kinds, view.shown, view.top)
        picture = draw_marked(view.table.tree, marks, max_nodes=max_nodes)
        drawn.append((f"{name}: {plural(len(view.table), 'node')}", picture))
    return drawn


def kinds_of(comparison: Comparison) -> list[str]:
    """Return what happened at all, in the order of the legend."""
    return [kind for kind in MARKS if any(c.kind == kind for c in comparison.changes)]


# --- Pages ----------------------------------------------------------------------------

_STYLE = """
.tk-compare { font: 15px/1.5 system-ui, sans-serif; --line: #8b949e66; }
.tk-compare p { margin: .5rem 0; }
.tk-compare .sides { display: flex; flex-wrap: wrap; gap: 1rem; }
.tk-compare figure { margin: 0; flex-grow: 1; min-width: 0; max-width: 100%; }
.tk-compare .box { overflow: auto; border: 1px solid var(--line); border-radius: 8px; }
.tk-compare svg { display: block; margin: 0 auto; max-width: 100%; height: auto; }
.tk-compare .mark { color: #000; border-radius: 4px; padding: 0 .4rem;
  margin-right: .4rem; white-space: nowrap; }
.tk-compare table { border-collapse: collapse; width: 100%; margin: 0; }
.tk-compare th, .tk-compare td { padding: .2rem .6rem; text-align: left;
  vertical-align: top; }
.tk-compare td { overflow-wrap: anywhere; } .tk-compare .name { white-space: nowrap; }
.tk-compare .number { opacity: .65; margin-right: .5em; }
.tk-compare tbody tr { border-top: 1px solid var(--line); }
.tk-compare pre { margin: 0; padding: .5rem 0; font-size: 13px; line-height: 1.45;
  width: max-content; min-width: 100%; }
.tk-compare pre span { display: block; padding: 0 .6rem; }
""".strip()

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
  content="default-src 'none'; style-src 'unsafe-inline'">
<title>Comparison of two trees</title>
<style>
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 90rem; margin: 0 auto;
  padding: 1rem; }
h1 { font-size: 1.5rem; margin: .5rem 0; }
</style>
</head>
<body>
<h1>Comparison of two trees</h1>
"""


def fragment(comparison: Comparison, max_nodes: int = _MOST_DRAWN) -> str:
    """Return what a notebook shows; all text of trees in it is escaped."""
    legend = "".join(
        f'<span class="mark" style="background:{MARKS[kind][1]}">{MARKS[kind][0]} {kind} '
        f"{sum(change.kind == kind for change in comparison.changes):,}</span>"
        for kind in kinds_of(comparison)
    )
    sides = "".join(
        f'<figure style="flex-basis:min(100%, {_SCALE * drawing.width:.0f}px)">'
        f'<figcaption>{escape(caption)}</figcaption><div class="box" tabindex="0" '
        f'role="group" aria-label="{escape(caption)}">{_scaled(drawing)}</div></figure>'
        for caption, drawing in pictures(comparison, max_nodes)
    )
    about = (
        f"Similarity {comparison.similarity:.6g}, distance {comparison.distance:.6g}, "
        f"{plural(len(comparison.changes), 'change')} ({comparison.measure!r})."
    )
    return (
        f'<div class="tk-compare"><style>{_STYLE}</style><p>{escape(about)} {legend}</p>'
        f'<div class="sides">{sides}</div>{_table(comparison)}{_text(comparison)}</div>'
    )


def _scaled(drawing: Drawing) -> str:
    """Return a picture that shrinks with the page, as long as it can be read."""
    style = f'style="min-width:{_LEAST_SCALE * drawing.width:.0f}px"'
    return drawing.svg.replace("<svg ", f"<svg {style} ", 1)


def _table(comparison: Comparison) -> str:
    """Make the table of changes."""
    changes = comparison.changes
    if not changes:
        return "<p>The trees are equal.</p>"
    rows = "".join(
        f'<tr><td class="name"><span class="mark" '
        f'style="background:{MARKS[change.kind][1]}">{change.kind}</span></td>'
        f'<td class="name">{change.n_nodes:,}</td>'
        f"<td>{_place(change.old)}</td><td>{_place(change.new, change.kind)}</td></tr>"
        for change in changes[:_MOST_ROWS]
    )
    left_out = len(changes) - _MOST_ROWS
    more = f"<p>{left_out:,} more.</p>" if left_out > 0 else ""
    return (
        '<p><strong>Changes</strong></p><div class="box"><table><thead><tr><th>change</th>'
        "<th>nodes</th><th>old</th><th>new</th></tr></thead>"
        f"<tbody>{rows}</tbody></table></div>{more}"
    )


def _place(node: Node | None, kind: str = "") -> str:
    if node is None:
        return ""
    path = label_text(node.label) if kind == "renamed" else path_text(node)
    # A path may break behind a slash.
    text = escape(path + lines_text(node)).replace("/", "/<wbr>")
    return f'<span class="number">{node.number}</span>{text}'


def _text(comparison: Comparison) -> str:
    lines = "".join(
        (
            f'<span style="background:{MARKS[line.kind][1]};color:#000">'
            if line.kind
            else "<span>"
        )
        + escape(f"{line.sign} {line.text}")
        + "</span>"
        for line in outline(comparison)
    )
    return f'<p><strong>Outline</strong></p><div class="box"><pre>{lines}</pre></div>'


def page(comparison: Comparison, max_nodes: int) -> str:
    """Return an HTML page that needs no script and no network."""
    return f"{_PAGE}{fragment(comparison, max_nodes)}\n</body>\n</html>\n"
