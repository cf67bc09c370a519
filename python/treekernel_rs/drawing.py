"""Pictures: trees as SVG, coloured by weights, and kernel matrices.

A tree is laid out tidily (Reingold & Tilford 1981): all nodes of a level stand on one
line, parents stand in the middle above their children, and two neighbouring subtrees are
moved together until their outlines touch. The outlines, lists of positions per level, are
merged from the shallower one, so the layout is linear in the nodes; nothing recurses.
"""

from __future__ import annotations

import math
import os
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from treekernel_rs._core import Forest, Tree, as_tree
from treekernel_rs._extras import needs
from treekernel_rs._public import listing
from treekernel_rs._replacing import replacing
from treekernel_rs._wording import label_text, printable, signed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

__all__ = ["Drawing", "draw", "draw_gram"]
__dir__ = listing(__all__)

_FONT_SIZE = 13
_FONT = "system-ui, 'Segoe UI', Helvetica, Arial, 'DejaVu Sans', sans-serif"
_BOX_HEIGHT = 22
_LEVEL = 50  # from one line of nodes to the next
_GAP = 8  # between two boxes of a line
_PADDING = 7  # between a box and its text
_MARGIN = 10
_LEGEND_WIDTH = 180
_LONGEST = 24  # characters of a label that are shown
_WIDEST = 1400  # of pictures side by side

# The arrays of a tree of this size take some hundred megabytes; nobody reads its picture.
_MOST_NODES = 10_000_000

# Boxes have a ground of their own and lines are in the middle between black and white:
# so the picture can be read on light and on dark pages.
_DARK, _LIGHT = "#000000", "#ffffff"  # one has a contrast of 4.5 to any ground
_LINE = "#8b949e"
_INNER_FILL, _LEAF_FILL = "#dde3ea", "#f6f8fa"

#: What became of a node: the sign before its label, and the ground of its box.
MARKS = {
    "deleted": ("\u2212", "#f7b9b2"),
    "inserted": ("+", "#b4e2b9"),
    "renamed": ("~", "#ffe08f"),
    "moved": ("\u00bb", "#b5d4f4"),
}

# Blue below 0, red above; of equal lightness on both sides (ColorBrewer's RdBu).
_COLOURS = np.array(
    [
        (33, 102, 172),
        (67, 147, 195),
        (146, 197, 222),
        (247, 247, 247),
        (244, 165, 130),
        (214, 96, 77),
        (178, 24, 43),
    ]
)


@dataclass(frozen=True, repr=False, slots=True)
class Drawing:
    """A picture as SVG: notebooks show it, `str` is its text, `save` writes it.

    `save` writes SVG, PNG or PDF by the suffix of the name, and refuses others.

    Attributes
    ----------
    svg : str
        The picture.
    width, height : float
        Its size in pixels.

    Examples
    --------
    >>> import pathlib, tempfile, treekernel_rs as tk
    >>> drawing = tk.draw("(S (A a) (B b))")
    >>> drawing.svg == str(drawing)
    True
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "tree.svg"
    ...     drawing.save(path)
    ...     path.read_text(encoding="utf-8") == drawing.svg
    True
    """

    svg: str
    width: float
    height: float

    def __repr__(self) -> str:
        """Say how large it is."""
        return f"<Drawing: {self.width:.0f} x {self.height:.0f} pixels>"

    def __str__(self) -> str:
        """Return the SVG text."""
        return self.svg

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file: SVG, or by its suffix PNG or PDF (package typst, extra viz)."""
        kind = Path(path).suffix.lower()
        if kind == ".svg":
            with replacing(path) as file:
                file.write(self.svg.encode())
            return
        if kind not in (".png", ".pdf"):
            msg = (
                "path: expected a name that ends in .svg, .png or .pdf, got "
                f"{os.fspath(path)!r}"
            )
            raise ValueError(msg)
        with needs(kind, "the package typst", "viz"):
            import typst
        page = (
            b"#set page(width: auto, height: auto, margin: 0pt, fill: none)\n"
            b'#image(bytes(sys.inputs.svg), format: "svg")'
        )
        ppi = 192.0 if kind == ".png" else None
        options: dict[str, Any] = {
            "format": kind[1:],
            "ppi": ppi,
            "sys_inputs": {"svg": self.svg},
        }
        picture = typst.compile(page, **options)
        with replacing(path) as file:
            file.write(picture)


def draw(
    tree: Tree | str | object,
    weights: ArrayLike | None = None,
    *,
    scale: float | None = None,
    max_nodes: int = 300,
) -> Drawing:
    """Draw a tree, coloured by a weight per node.

    Parameters
    ----------
    tree : Tree, str or object as in Forest.from_trees
        The tree.
    weights : array_like of float, optional
        One number per node, in the order of `Tree.walk`: red above 0, blue below, the
        stronger the farther from 0. Hovering over a node shows its number.
    scale : float, optional
        The weight with the strongest colour, the largest absolute weight by default.
        With one scale, the colours of several trees compare.
    max_nodes : int, default 300
        The most nodes to draw, level by level from the root; the rest is folded into
        boxes that tell how many nodes they stand for, coloured by the sum of their
        weights.

    Returns
    -------
    Drawing

    Raises
    ------
    ValueError
        If there is not one finite weight per node, a number is out of range, or the tree
        has more than 10,000,000 nodes.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> tk.draw("(S (NP dogs) (VP bark))")
    <Drawing: 122 x 142 pixels>
    >>> picture = tk.draw("(S (NP dogs) (VP bark))", [0.1, 0.5, 0, -0.2, 0])
    >>> str(picture)[:4]
    '<svg'
    """
    if isinstance(tree, Forest):
        msg = "expected one tree, got a Forest; draw(forest[i])"
        raise TypeError(msg)
    one = as_tree(tree)
    if max_nodes < 1:
        msg = f"max_nodes must be at least 1, got {max_nodes}"
        raise ValueError(msg)
    if scale is not None and not (math.isfinite(scale) and scale > 0):
        msg = f"scale must be a finite number above 0, got {scale}"
        raise ValueError(msg)
    n_nodes = one.n_nodes
    if n_nodes > _MOST_NODES:
        msg = (
            f"the tree has {n_nodes:,} nodes, and pictures are made of trees of at most "
            f"{_MOST_NODES:,}: draw a subtree (tree.children)"
        )
        raise ValueError(msg)
    values = None if weights is None else _checked(weights, n_nodes)
    boxes = _boxes(one, values, max_nodes)
    if values is not None and scale is None:
        scale = float(np.abs(values).max())
    return _svg(boxes, n_nodes, scale if values is not None else None)


@dataclass(frozen=True, slots=True)
class Marks:
    """What became of the nodes of a tree, and which of them to draw."""

    #: Of each node, in preorder: a key of `MARKS`, or None.
    kinds: Sequence[str | None]
    #: Of each node: whether to draw it. If not, none below is drawn either.
    shown: NDArray[np.bool_]
    #: The node to begin at: the others are folded.
    top: int = 0


def draw_marked(tree: Tree, marks: Marks, *, max_nodes: int) -> Drawing:
    """Draw a tree with marks; what is not to be drawn is folded."""
    boxes = _boxes(tree, None, max_nodes, marks)
    return _svg(boxes, tree.n_nodes, None)


def side_by_side(pictures: Sequence[tuple[str, Drawing]], kinds: list[str]) -> Drawing:
    """Put drawings with captions together, with a legend of some marks.

    They stand beside each other, or below each other if that would be too wide.
    """
    head, foot = 26.0, 34.0 if kinds else 0.0
    widths = [
        max(drawing.width, _text_width(caption) + 2 * _MARGIN)
        for caption, drawing in pictures
    ]
    is_row = sum(widths) <= _WIDEST
    parts, x, y = [], 0.0, 0.0
    width = height = 0.0
    for (caption, drawing), room in zip(pictures, widths, strict=True):
        middle = x + room / 2
        parts.append(
            f'<text x="{middle:.0f}" y="{y + 18:.0f}" fill="{_LINE}" '
            f'text-anchor="middle">{escape(caption)}</text>'
        )
        place = f'x="{middle - drawing.width / 2:.0f}" y="{y + head:.0f}"'
        parts.append(drawing.svg.replace("<svg ", f"<svg {place} ", 1))
        width, height = max(width, x + room), max(height, y + head + drawing.height)
        x, y = (x + room + 2 * _MARGIN, y) if is_row else (x, height)
    at = float(_MARGIN)
    for kind in kinds:
        sign, fill = MARKS[kind]
        room = _text_width(f"{sign} {kind}") + 2 * _PADDING
        parts.append(_labelled((at, height + 4), room, f"{sign} {kind}", fill))
        at += room + _GAP
    width, height = max(width, at + _MARGIN - _GAP), height + foot
    about = " and ".join(caption for caption, _ in pictures)
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" '
        f'height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
        f'aria-label={quoteattr(about)} font-family="{_FONT}" '
        f'font-size="{_FONT_SIZE}" text-anchor="middle">'
    )
    return Drawing("\n".join([opening, *parts, "</svg>"]), round(width), round(height))


def _checked(weights: ArrayLike, n_nodes: int) -> NDArray[np.float64]:
    values = np.asarray(weights, dtype=np.float64)
    if values.shape != (n_nodes,):
        msg = f"weights must have shape ({n_nodes},), one per node, got {values.shape}"
        if values.ndim == 2 and len(values) == n_nodes:
            msg += "; choose a column, such as weights[:, 0]"
        raise ValueError(msg)
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        msg = f"weights must be finite, got {values[wrong[0]]} at node {wrong[0]}"
        raise ValueError(msg)
    return values


@dataclass(slots=True)
class _Box:
    """A node of the picture: one of the tree, or some that are folded."""

    text: str
    title: str
    weight: float | None
    depth: int
    node: int | None = None  # none where many are folded
    mark: str | None = None
    children: list[int] = field(default_factory=list)
    width: float = 0.0
    x: float = 0.0  # of the middle; while laying out, relative to the parent


def _boxes(
    tree: Tree,
    weights: NDArray[np.float64] | None,
    max_nodes: int,
    marks: Marks | None = None,
) -> list[_Box]:
    """Choose what to draw, level by level; parents come before their children."""
    arrays = Forest.from_trees([tree]).to_arrays()
    names, ends = arrays["names"].tobytes(), arrays["name_offsets"].tolist()
    labels, parents = arrays["labels"].tolist(), arrays["parents"].tolist()
    sizes = [1] * len(labels)
    for node in range(len(labels) - 1, 0, -1):
        sizes[parents[node]] += sizes[node]

    def box(node: int, depth: int) -> _Box:
        label = names[ends[labels[node]] : ends[labels[node] + 1]].decode()
        weight = None if weights is None else float(weights[node])
        text, title = (
            label_text(label, _LONGEST),
            f"{printable(label) or 'empty label'} (node {node})",
        )
        if weight is not None:
            title += f": {signed(weight)}"
        mark = None if marks is None else marks.kinds[node]
        if mark is not None:
            text, title = f"{MARKS[mark][0]} {text}", f"{title}: {mark}"
        return _Box(text, title, weight, depth, node, mark)

    def fold(start: int, end: int, depth: int, n_nodes: int | None = None) -> _Box:
        n_nodes = end - start if n_nodes is None else n_nodes
        count = f"{n_nodes:,} node{'s' * (n_nodes != 1)}"
        weight, title, mark = None, f"{count} not drawn", None
        if weights is not None:
            # Beyond what a float holds, the largest one has the right colour.
            with np.errstate(over="ignore", invalid="ignore"):
                weight = float(np.nan_to_num(weights[start:end].sum()))
            title += f", sum of weights {signed(weight)}"
        if marks is not None and len(kinds := set(marks.kinds[start:end])) == 1:
            (mark,) = kinds
            title += "" if mark is None else f": {mark}"
        return _Box(f"\u22ef {count}", title, weight, depth, mark=mark)

    top = 0 if marks is None else marks.top
    boxes, nodes = [box(top, 0)], [top]
    if top:  # the nodes above and beside it, in a box above it
        above = fold(0, top, 0, len(labels) - sizes[top])
        above.children.append(1)
        boxes, nodes = [above, box(top, 1)], [-1, top]
    folds: list[tuple[int, int, int]] = []
    for at, node in enumerate(nodes):  # grows while it is gone through
        if node < 0:
            continue  # folded
        child, end = node + 1, node + sizes[node]
        # What is left is folded, unless it is one node: a fold takes as much room.
        while child < end and (len(nodes) < max_nodes or end - child == 1):
            stop = child
            while marks is not None and stop < end and not marks.shown[stop]:
                stop += sizes[stop]
            boxes[at].children.append(len(boxes))
            if stop - child > 1:
                boxes.append(fold(child, stop, boxes[at].depth + 1))
                nodes.append(-1)
                child = stop
                continue
            boxes.append(box(child, boxes[at].depth + 1))
            nodes.append(child)
            child += sizes[child]
        if child < end:
            folds.append((at, child, end))
    for at, start, end in folds:
        boxes[at].children.append(len(boxes))
        boxes.append(fold(start, end, boxes[at].depth + 1))
    return boxes


class _Outline:
    """How far a subtree reaches to both sides, per level, the deepest level first.

    Positions are relative to the subtree's root; `shift` is to be added to all.
    """

    __slots__ = ("left", "right", "shift")

    def __init__(self, left: list[float], right: list[float], shift: float) -> None:
        self.left, self.right, self.shift = left, right, shift

    def copy(self, *, mirrored: bool = False) -> _Outline:
        if not mirrored:
            return _Outline(self.left[:], self.right[:], self.shift)
        return _Outline([-r for r in self.right], [-x for x in self.left], -self.shift)

    def distance(self, other: _Outline) -> float:
        """Return how far right of this one another must stand, to keep clear of it."""
        levels = min(len(self.left), len(other.left))
        overlap = max(
            self.right[-level] - other.left[-level] for level in range(1, levels + 1)
        )
        return overlap + self.shift - other.shift + _GAP

    def join(self, other: _Outline, at: float) -> _Outline:
        """Return the outline of both, the other one's root at `at`; use up both.

        The deeper one is kept, and changed on the levels of the shallower one.
        """
        other.shift += at
        shift = other.shift - self.shift
        if len(other.left) <= len(self.left):
            for level in range(1, len(other.left) + 1):
                self.right[-level] = other.right[-level] + shift
            return self
        for level in range(1, len(self.left) + 1):
            other.left[-level] = self.left[-level] - shift
        return other


def _pack(outlines: list[_Outline]) -> list[float]:
    """Place subtrees side by side, each as far to the left as it goes."""
    positions = [0.0]
    outline = outlines[0]
    for other in outlines[1:]:
        positions.append(outline.distance(other))
        outline = outline.join(other, positions[-1])
    return positions


def _places(outlines: list[_Outline]) -> list[float]:
    """Place subtrees side by side: the mean of packing to the left and to the right.

    Packed to the left only, a small subtree leans on its left neighbour. That two
    subtrees keep clear is a linear inequality, so the mean keeps clear if both do.
    """
    if len(outlines) < 3:
        return _pack([o.copy() for o in outlines])
    left = _pack([o.copy() for o in outlines])
    mirrored = _pack([o.copy(mirrored=True) for o in reversed(outlines)])
    right = [left[-1] - x for x in reversed(mirrored)]
    return [(a + b) / 2 for a, b in zip(left, right, strict=True)]


def _lay_out(boxes: list[_Box]) -> None:
    """Set the middles of all boxes."""
    outlines: list[_Outline | None] = [None] * len(boxes)
    for at in range(len(boxes) - 1, -1, -1):
        box = boxes[at]
        box.width = _text_width(box.text) + 2 * _PADDING
        below = [o for c in box.children if (o := outlines[c]) is not None]
        outline = _Outline([], [], 0.0)
        if below:
            places = _places(below) if len(below) > 1 else [0.0]
            middle = (places[0] + places[-1]) / 2
            outline = below[0]
            for other, place in zip(below[1:], places[1:], strict=True):
                outline = outline.join(other, place)
            outline.shift -= middle
            for child, place in zip(box.children, places, strict=True):
                boxes[child].x = place - middle
                outlines[child] = None
        outline.left.append(-box.width / 2 - outline.shift)
        outline.right.append(box.width / 2 - outline.shift)
        outlines[at] = outline
    for box in boxes:
        for child in box.children:
            boxes[child].x += box.x
    leftmost = min(box.x - box.width / 2 for box in boxes)
    for box in boxes:
        box.x += _MARGIN - leftmost


def _svg(boxes: list[_Box], n_nodes: int, scale: float | None) -> Drawing:
    _lay_out(boxes)
    width = max(box.x + box.width / 2 for box in boxes) + _MARGIN
    height = max(box.depth for box in boxes) * _LEVEL + _BOX_HEIGHT + 2.0 * _MARGIN
    legend: list[str] = []
    if scale is not None:
        legend = _legend(height, scale)
        width = max(width, _LEGEND_WIDTH + 2 * _MARGIN)
        height += 44
    about = f"Tree of {n_nodes:,} node{'s' * (n_nodes != 1)}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" '
        f'height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
        f'aria-label={quoteattr(about)} font-family="{_FONT}" '
        f'font-size="{_FONT_SIZE}" text-anchor="middle">',
        f'<g fill="none" stroke="{_LINE}" stroke-width="1.3">',
    ]
    for box in boxes:
        bottom = _MARGIN + box.depth * _LEVEL + _BOX_HEIGHT
        top = bottom + _LEVEL - _BOX_HEIGHT
        half = (bottom + top) / 2
        for child in box.children:
            to = boxes[child].x
            parts.append(
                f'<path d="M{box.x:.1f} {bottom}C{box.x:.1f} {half} {to:.1f} {half} '
                f'{to:.1f} {top}"/>'
            )
    parts.append("</g>")
    parts += [_node(box, scale) for box in boxes]
    parts += legend
    parts.append("</svg>")
    return Drawing("\n".join(parts), round(width), round(height))


def _node(box: _Box, scale: float | None) -> str:
    fill = _INNER_FILL if box.children else _LEAF_FILL
    if scale is not None and box.weight is not None:
        fill = _colour(box.weight / scale if scale > 0 else 0.0)
    if box.mark is not None:
        _, fill = MARKS[box.mark]
    # A leaf has a square box, an inner node a round one, so that `(A A)` can be told
    # from `(A (A))` by more than the place.
    corner = 3 if not box.children else _BOX_HEIGHT / 2
    dashes = ' stroke-dasharray="3 2"' if box.node is None else ""
    number = "" if box.node is None else f' data-node="{box.node}"'
    place = box.x - box.width / 2, _MARGIN + box.depth * _LEVEL
    drawn = _labelled(place, box.width, box.text, fill, f' rx="{corner}"', dashes)
    return f"<g{number}><title>{escape(box.title)}</title>{drawn}</g>"


def _labelled(
    place: tuple[float, float],
    width: float,
    text: str,
    fill: str,
    corner: str = ' rx="3"',
    dashes: str = "",
) -> str:
    """Draw a box with its text; `place` is its left upper corner."""
    x, y = place
    return (
        f'<rect x="{x:.1f}" y="{y:g}" width="{width:.1f}" height="{_BOX_HEIGHT}"'
        f'{corner} fill="{fill}" stroke="{_LINE}"{dashes}/>'
        f'<text x="{x + width / 2:.1f}" y="{y + _BOX_HEIGHT / 2 + 0.35 * _FONT_SIZE:.1f}" '
        f'fill="{_ink(fill)}">{escape(text)}</text>'
    )


def _legend(y: float, scale: float) -> list[str]:
    """Draw the scale: a bar of colours with its ends and its middle named."""
    # Strips, not a gradient: gradients are named, names are a page's, and one in a part
    # of the page that is hidden hides the others.
    n_strips = 36
    strip = _LEGEND_WIDTH / n_strips
    bar = "".join(
        f'<rect x="{_MARGIN + k * strip:g}" y="{y:g}" width="{strip:g}" height="10" '
        f'fill="{_colour(2 * k / (n_strips - 1) - 1)}"/>'
        for k in range(n_strips)
    )
    names = []
    ends = [(0.0, "start", f"{-scale:.3g}"), (1.0, "end", f"{scale:+.3g}")]
    for at, anchor, text in (
        [*ends, (0.5, "middle", "0")] if scale > 0 else [(0.5, "middle", "0")]
    ):
        names.append(
            f'<text x="{_MARGIN + at * _LEGEND_WIDTH:.0f}" y="{y + 24}" '
            f'font-size="11" fill="{_LINE}" text-anchor="{anchor}">{text}</text>'
        )
    opening = '<g shape-rendering="crispEdges"><title>weights</title>'
    return [opening + bar, *names, "</g>"]


def _colour(value: float) -> str:
    """Return the colour of a weight from -1 to 1; beyond, that of the end."""
    at = (min(max(value, -1.0), 1.0) + 1) / 2 * (len(_COLOURS) - 1)
    low = min(int(at), len(_COLOURS) - 2)
    mixed = _COLOURS[low] + (at - low) * (_COLOURS[low + 1] - _COLOURS[low])
    return _hex(np.rint(mixed).astype(int))


def _hex(colour: NDArray[np.int64]) -> str:
    return "#" + "".join(f"{channel:02x}" for channel in colour.tolist())


def _ink(fill: str) -> str:
    """Return the colour of text that reads best on a ground (WCAG's contrast)."""

    def luminance(colour: str) -> float:
        channels = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        linear = [
            c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
            for c in channels
        ]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    def contrast(ink: str) -> float:
        low, high = sorted((luminance(ink), luminance(fill)))
        return (high + 0.05) / (low + 0.05)

    return max((_DARK, _LIGHT), key=contrast)


# Widths in ems, at least those of DejaVu Sans, which is wider than its like: fonts differ
# from machine to machine, and a box that is somewhat too wide does no harm.
_WIDTHS = {
    **dict.fromkeys("ijl|'.,:;!`", 0.36),
    **dict.fromkeys('ftrI()[]{}/\\ "-', 0.46),
    **dict.fromkeys("mwMW@%\u2014\u2026\u22ef", 1.0),
    **dict.fromkeys("#+<=>~^&OQGNDHU\u2205", 0.86),
}


def _text_width(text: str) -> float:
    ems = 0.0
    for char in text:
        if char in _WIDTHS:
            ems += _WIDTHS[char]
        elif unicodedata.combining(char):
            continue
        elif unicodedata.east_asian_width(char) in "WF":
            ems += 1.1
        elif char.isascii():
            ems += 0.74 if char.isupper() else 0.66
        else:
            ems += 0.9
    return ems * _FONT_SIZE


def draw_gram(
    matrix: ArrayLike,
    labels: Sequence[object] | NDArray[Any] | None = None,
    *,
    group: bool = True,
    ax: Any = None,
) -> Any:
    """Draw a kernel matrix as a picture, with matplotlib.

    Parameters
    ----------
    matrix : array_like, shape (n, m)
        The kernels, as in ``k(X)`` or ``k(X, Y)``.
    labels : sequence, optional
        The class of every row, for a square matrix. Classes are named at the axes and
        lines are drawn between them.
    group : bool, default True
        Bring rows and columns of a class together, the classes sorted by name and rows
        of a class in their order. Without it, runs of equal labels are named.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ImportError
        If matplotlib is not installed; it comes with the extra ``viz``.
    ValueError
        If the matrix is not one of finite numbers, or labels do not fit it.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> X = ["(S (A a))", "(S (B b))", "(S (A a) (B b))"]
    >>> ax = tk.drawing.draw_gram(tk.SubsetTreeKernel(normalize=True)(X), ["x", "y", "x"])
    >>> [tick.get_text() for tick in ax.get_yticklabels()]
    ['x', 'y']
    """
    values = np.asarray(matrix, dtype=np.float64)
    if values.ndim != 2 or not values.size:
        msg = f"matrix must have two dimensions and an entry, got shape {values.shape}"
        raise ValueError(msg)
    low, high = float(values.min()), float(values.max())
    if not (math.isfinite(low) and math.isfinite(high)):
        msg = "matrix must hold finite numbers only"
        raise ValueError(msg)
    names = None
    if labels is not None:
        names = [str(label) for label in labels]
        if values.shape != (len(names), len(names)):
            msg = (
                "labels need a square matrix with a row for each: got "
                f"{len(names)} labels and shape {values.shape}"
            )
            raise ValueError(msg)
        if group:
            order = sorted(range(len(names)), key=names.__getitem__)
            names = [names[k] for k in order]
            values = values[np.ix_(order, order)]
    with needs("draw_gram", "matplotlib", "viz"):
        import matplotlib.pyplot as plt
    if ax is None:
        _, ax = plt.subplots(layout="constrained")
    if low < 0:
        end = max(-low, high)
        image = ax.imshow(values, cmap="RdBu_r", vmin=-end, vmax=end)
    else:
        image = ax.imshow(values, cmap="viridis", vmin=0.0, vmax=high or 1.0)
    ax.figure.colorbar(image, ax=ax, label="kernel")
    if names is not None:
        starts = [k for k in range(len(names)) if k == 0 or names[k] != names[k - 1]]
        ends = [*starts[1:], len(names)]
        middles = [(a + b - 1) / 2 for a, b in zip(starts, ends, strict=True)]
        runs = [names[k] for k in starts]
        # Side by side, some sixty characters fit below a picture of the usual size.
        crowded = any(
            (middles[k] - middles[k - 1]) * 60
            < len(names) * (len(runs[k - 1]) + len(runs[k]) + 4) / 2
            for k in range(1, len(runs))
        )
        ax.set_yticks(middles, runs)
        ax.set_xticks(middles, runs, rotation=90 if crowded else 0)
        for start in starts[1:]:
            ax.axhline(start - 0.5, color="white", linewidth=0.8)
            ax.axvline(start - 0.5, color="white", linewidth=0.8)
    return ax
