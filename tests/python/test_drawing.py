"""Pictures: well-formed, nothing on top of anything else, honest colours."""

from __future__ import annotations

import builtins
import math
import sys
import xml.etree.ElementTree as ET
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treekernel_rs as tk

SVG = "{http://www.w3.org/2000/svg}"


class Picture:
    """What can be seen: boxes with their text, tooltip and colour, and lines."""

    def __init__(self, drawing: tk.drawing.Drawing) -> None:
        self.root = ET.fromstring(str(drawing))
        self.width, self.height = (float(self.root.get(k)) for k in ("width", "height"))
        self.boxes = []
        for group in self.root.iter(SVG + "g"):
            rect, text = group.find(SVG + "rect"), group.find(SVG + "text")
            title = group.findtext(SVG + "title")
            if rect is None or title == "weights":
                continue
            x, y, w, h = (float(rect.get(k)) for k in ("x", "y", "width", "height"))
            self.boxes.append((x, y, w, h, text.text, title, rect.get("fill")))
        self.paths = [path.get("d") for path in self.root.iter(SVG + "path")]
        self.legend = [
            text.text
            for group in self.root.iter(SVG + "g")
            if group.findtext(SVG + "title") == "weights"
            for text in group.iter(SVG + "text")
        ]

    @property
    def texts(self):
        return [box[4] for box in self.boxes]

    @property
    def titles(self):
        return [box[5] for box in self.boxes]

    def colour(self, node: int) -> tuple[int, ...]:
        (fill,) = (b[6] for b in self.boxes if f"(node {node})" in b[5])
        return tuple(bytes.fromhex(fill[1:]))

    def check(self) -> None:
        """Every box is inside the picture and clear of all others."""
        lines: dict[float, list[tuple[float, float]]] = {}
        for x, y, w, h, *_ in self.boxes:
            assert x >= 0
            assert y >= 0
            assert x + w <= self.width + 1
            assert y + h <= self.height
            lines.setdefault(y, []).append((x, x + w))
        for (y, boxes), (next_y, _) in pairwise(
            [*sorted(lines.items()), (math.inf, [])]
        ):
            assert y + self.boxes[0][3] < next_y
            for (_, end), (start, _) in pairwise(sorted(boxes)):
                assert start - end >= 7.5
        assert len(self.paths) == len(self.boxes) - 1


# --- Layout -------------------------------------------------------------------------

LABELS = ["", "a", "NP-SBJ", "<&\">'", "\x00\x1f\x7f\ufffe", "日本語", "W" * 90, "é\n "]
trees = st.recursive(
    st.sampled_from(LABELS).map(lambda label: (label, [])),
    lambda below: st.tuples(st.sampled_from(LABELS), st.lists(below, max_size=5)),
    max_leaves=40,
)


@settings(max_examples=200)
@given(trees, st.integers(1, 60), st.booleans())
def test_boxes_keep_clear_of_each_other(tree, max_nodes, weighted):
    forest = tk.Forest.from_trees([tree])
    n = forest[0].n_nodes
    weights = np.linspace(-1, 2, n) if weighted else None
    picture = Picture(tk.draw(forest[0], weights, max_nodes=max_nodes))
    picture.check()
    folded = [t for t in picture.titles if "not drawn" in t]
    hidden = sum(int(t.split()[0].replace(",", "")) for t in folded)
    assert len(picture.boxes) - len(folded) + hidden == n


@given(trees)
def test_a_parent_stands_in_the_middle_above_its_outer_children(tree):
    picture = Picture(tk.draw(tree))
    below: dict[tuple[str, str], list[float]] = {}
    for path in picture.paths:
        numbers = path[1:].replace("C", " ").split()
        below.setdefault((numbers[0], numbers[1]), []).append(float(numbers[-2]))
    for (x, _), children in below.items():
        assert float(x) == pytest.approx((children[0] + children[-1]) / 2, abs=0.11)
        assert children == sorted(children)


def test_small_subtrees_stand_between_their_neighbours_and_lean_on_none():
    wide = "(C a b c d e f g h)"
    picture = Picture(tk.draw(f"(A (B {wide}) x (F {wide}))"))
    place = {text: x + w / 2 for x, _, w, _, text, *_ in picture.boxes}
    assert place["x"] == pytest.approx((place["B"] + place["F"]) / 2, abs=0.2)


# --- Text ---------------------------------------------------------------------------


def test_what_xml_cannot_hold_is_shown_by_a_sign():
    tree = tk.Forest.from_trees([('<&"', ["", "\x00\n\x7f", "x" * 90])])[0]
    picture = Picture(tk.draw(tree))
    assert picture.texts == ['<&"', "∅", "␀␊\ufffd", "x" * 23 + "…"]
    assert picture.titles[1] == "empty label (node 1)"
    assert picture.titles[3] == "x" * 90 + " (node 3)"


def test_trees_come_as_text_as_objects_and_as_trees():
    text = "(S (A a))"
    drawings = {str(tk.draw(t)) for t in (text, tk.Forest.from_brackets(text)[0])}
    drawings.add(str(tk.draw(("S", [("A", ["a"])]))))
    assert len(drawings) == 1
    with pytest.raises(TypeError, match=r"draw\(forest\[i\]\)"):
        tk.draw(tk.Forest.from_brackets(text))
    with pytest.raises(tk.ParseError):
        tk.draw("(S")


# --- Weights ------------------------------------------------------------------------


def test_colours_are_red_above_zero_and_blue_below_and_symmetric():
    picture = Picture(tk.draw("(A b c d e)", [0.0, 2.0, -2.0, 1.0, -0.5]))
    assert picture.colour(0) == (247, 247, 247)
    red, blue, half = picture.colour(1), picture.colour(2), picture.colour(3)
    assert red == (178, 24, 43)
    assert blue == (33, 102, 172)
    assert half[0] > half[1]
    assert half[0] > half[2]
    assert picture.legend == ["-2", "+2", "0"]
    assert picture.titles[:3] == ["A (node 0): 0", "b (node 1): +2", "c (node 2): -2"]


def test_with_a_scale_equal_weights_have_equal_colours():
    a = Picture(tk.draw("(A b)", [0.5, 0.1], scale=2))
    b = Picture(tk.draw("(A b)", [0.5, 9.0], scale=2))
    assert a.colour(0) == b.colour(0)
    assert b.colour(1) == (178, 24, 43)
    assert a.legend == ["-2", "+2", "0"]


def test_extreme_weights_are_drawn():
    huge = [1e308, 1e308, 1e308, -1e308, -1e308, 0]
    assert Picture(tk.draw("(A b c d e f)", huge, max_nodes=2)).legend[1] == "+1e+308"
    tiny = Picture(tk.draw("(A b)", [5e-324, 1e308], scale=5e-324))
    assert tiny.colour(0) == tiny.colour(1) == (178, 24, 43)


def test_sums_of_zeros_are_zero():
    weights = [0.1, 0.2, 0.3, 0.0, 0.0, 0.0]
    picture = Picture(tk.draw("(A b c (D e f))", weights, max_nodes=4))
    assert picture.titles[-1] == "2 nodes not drawn, sum of weights 0"


def test_weights_of_zero_are_drawn():
    picture = Picture(tk.draw("(A b)", [0, 0]))
    assert picture.colour(0) == picture.colour(1) == (247, 247, 247)
    assert picture.legend == ["0"]


def test_what_is_folded_has_the_sum_of_its_weights():
    weights = np.arange(7) - 2.0
    picture = Picture(tk.draw("(A (B c d) (E f g))", weights, max_nodes=3))
    assert picture.titles == [
        "A (node 0): -2",
        "B (node 1): -1",
        "E (node 4): +2",
        "2 nodes not drawn, sum of weights +1",
        "2 nodes not drawn, sum of weights +7",
    ]


@pytest.mark.parametrize(
    ("weights", "options", "message"),
    [
        ([1.0], {}, r"weights must have shape \(2,\), one per node, got \(1,\)"),
        ([[1.0, 2.0]], {}, r"got \(1, 2\)"),
        ([1.0, math.nan], {}, "weights must be finite, got nan at node 1"),
        ([math.inf, 0.0], {}, "weights must be finite, got inf at node 0"),
        ([1.0, 1.0], {"scale": 0}, "scale must be a finite number above 0"),
        ([1.0, 1.0], {"scale": math.nan}, "scale must be a finite number above 0"),
        (None, {"max_nodes": 0}, "max_nodes must be at least 1"),
        (["x", "y"], {}, "could not convert"),
    ],
)
def test_what_makes_no_picture_is_refused(weights, options, message):
    with pytest.raises(ValueError, match=message):
        tk.draw("(A b)", weights, **options)


def test_text_can_be_read_on_every_ground():
    def luminance(colour):
        linear = [
            c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
            for c in (channel / 255 for channel in bytes.fromhex(colour[1:]))
        ]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    n = 201
    star = tk.Forest.from_trees([("r", ["x"] * (n - 1))])[0]
    root = ET.fromstring(str(tk.draw(star, np.linspace(-1, 1, n))))
    seen = 0
    for group in root.iter(SVG + "g"):
        rect, text = group.find(SVG + "rect"), group.find(SVG + "text")
        if rect is not None and group.findtext(SVG + "title") != "weights":
            low, high = sorted(luminance(e.get("fill")) for e in (rect, text))
            assert (high + 0.05) / (low + 0.05) >= 4.5
            seen += 1
    assert seen == n


# --- Sizes --------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["chain", "star"])
def test_a_million_nodes_make_a_picture_of_the_first(shape):
    n = 1_000_000
    parents = np.arange(n) - 1 if shape == "chain" else np.r_[-1, np.zeros(n - 1, int)]
    tree = tk.Forest.from_arrays(np.zeros(n, int), parents, [0], names=["A"])[0]
    picture = Picture(tk.draw(tree, np.ones(n), max_nodes=50))
    picture.check()
    assert picture.titles[-1] == "999,950 nodes not drawn, sum of weights +999950"
    assert tree._repr_svg_().startswith("<svg")


def test_a_chain_is_laid_out_without_recursion_and_in_linear_time():
    n = 20_000
    parents = np.arange(n) - 1
    tree = tk.Forest.from_arrays(np.zeros(n, int), parents, [0], names=["A"])[0]
    assert len(Picture(tk.draw(tree, max_nodes=n)).boxes) == n


def test_a_tree_beyond_all_measure_is_refused_and_shown_as_text():
    layers = tk.Forest.from_brackets("(A a)")[0]
    for _ in range(30):
        layers = tk.Forest.from_trees([("A", [layers, layers])])[0]
    with pytest.raises(
        ValueError, match=r"nodes, and pictures are made of trees of at"
    ):
        tk.draw(layers)
    assert layers._repr_svg_() is None


# --- Drawings -----------------------------------------------------------------------


def test_a_drawing_is_shown_printed_and_saved(tmp_path):
    drawing = tk.draw("(é b)")
    path = tmp_path / "tree.svg"
    drawing.save(path)
    assert path.read_text(encoding="utf-8") == str(drawing) == drawing._repr_svg_()
    assert tk.Forest.from_brackets("(é b)")[0]._repr_svg_() == str(drawing)
    assert repr(drawing) == f"<Drawing: {drawing.width} x {drawing.height} pixels>"


# --- Matrices -----------------------------------------------------------------------


@pytest.fixture
def plt():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    yield plt
    plt.close("all")


def test_rows_of_a_class_are_brought_together(plt):
    matrix = np.arange(16.0).reshape(4, 4)
    ax = tk.drawing.draw_gram(matrix, ["b", "a", "b", "a"])
    order = [1, 3, 0, 2]
    np.testing.assert_array_equal(
        ax.images[0].get_array(), matrix[np.ix_(order, order)]
    )
    assert [t.get_text() for t in ax.get_xticklabels()] == ["a", "b"]
    assert ax.get_yticks().tolist() == [0.5, 2.5]
    plain = tk.drawing.draw_gram(matrix, ["b", "a", "b", "a"], group=False)
    np.testing.assert_array_equal(plain.images[0].get_array(), matrix)
    assert len(plain.get_yticks()) == 4


def test_a_given_axes_is_used_and_rectangles_are_drawn(plt):
    _, ax = plt.subplots()
    assert tk.drawing.draw_gram(np.eye(2, 3), ax=ax) is ax
    assert ax.images[0].get_clim() == (0.0, 1.0)
    assert tk.drawing.draw_gram(-np.eye(2)).images[0].get_clim() == (-1.0, 1.0)
    assert tk.drawing.draw_gram(np.zeros((2, 2))).images[0].get_clim() == (0.0, 1.0)


@pytest.mark.parametrize(
    ("matrix", "labels", "message"),
    [
        ([1.0, 2.0], None, "two dimensions"),
        (np.zeros((0, 0)), None, "two dimensions and an entry"),
        ([[math.nan]], None, "finite numbers only"),
        (np.eye(2), ["a"], "got 1 labels and shape"),
        (np.eye(2, 3), ["a", "b"], "need a square matrix"),
    ],
)
def test_matrices_that_cannot_be_drawn_are_refused(matrix, labels, message):
    with pytest.raises(ValueError, match=message):
        tk.drawing.draw_gram(matrix, labels)


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    load = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return load(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"treekernel_rs\[viz\]"):
        tk.drawing.draw_gram(np.eye(2))


@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("b.PDF", b"%PDF")])
def test_a_suffix_says_what_is_written(tmp_path, name, start):
    pytest.importorskip("typst")
    tk.draw("(S (NP <&>) (VP \u00e9))", [0.1, 0.5, 0, -0.2, 0]).save(tmp_path / name)
    written = (tmp_path / name).read_bytes()
    assert written.startswith(start)
    assert len(written) > 1000


@pytest.mark.parametrize("name", ["a.jpg", "a", "a.svg.gz"])
def test_a_suffix_that_is_no_picture_is_refused(tmp_path, name):
    with pytest.raises(ValueError, match=r"path: expected a name that ends in .svg"):
        tk.draw("(S a)").save(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_png_without_its_package_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "typst", None)
    with pytest.raises(ImportError, match=r"treekernel_rs\[viz\]"):
        tk.draw("(S a)").save(tmp_path / "a.png")
