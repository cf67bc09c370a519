"""Comparisons of two trees: changes that are true, pictures and pages that show them."""

from __future__ import annotations

import math
import re
import time
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from typing import Any

import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from interrupts import seconds_until_interrupted
from test_drawing import Picture
from test_edit import UNIT, labels, small

import treekernel_rs as tk

OLD = "(page (main (h1 Tea) (p hot)) (aside (note (p new))))"
NEW = "(page (main (note (p new)) (h1 Tea) (p cold)) (aside))"

larger = st.recursive(
    st.sampled_from("ab").map(lambda label: (label, ())),
    lambda below: st.tuples(
        st.sampled_from("ab"), st.lists(below, max_size=4).map(tuple)
    ),
    max_leaves=14,
)
costs = st.sampled_from([0.25, 0.5, 1, 1.9, 3])


def compared(a, b, *measure: Any) -> tk.comparing.Comparison:
    return tk.compare(oracle.show(a), oracle.show(b), *measure)


def without(tree: oracle.Tree, gone: set[int], new_labels: dict[int, str]) -> tuple:
    """Take nodes out, whose children take their place, and give others new labels."""
    number = -1

    def kept(tree: oracle.Tree) -> tuple:
        nonlocal number
        number += 1
        here = number
        below = tuple(node for child in tree[1] for node in kept(child))
        return below if here in gone else ((new_labels.get(here, tree[0]), below),)

    return kept(tree)


def subtrees(tree: oracle.Tree) -> list[oracle.Tree]:
    """List the subtrees at all nodes, in preorder."""
    return [tree, *(below for child in tree[1] for below in subtrees(child))]


# --- What changed ---------------------------------------------------------------------


def check_changes(a, b, comparison):
    """Hold the changes to the two trees."""
    gone, come, renamed = [], [], {}
    for change in comparison.changes:
        gone += change.deleted
        come += change.inserted
        if change.kind == "renamed":
            assert change.old.label != change.new.label
            assert change.deleted == change.inserted == []
            renamed[change.old.number] = change.new.label
        if change.kind == "moved":
            assert str(change.old.tree) == str(change.new.tree)
            assert len(change.deleted) == len(change.inserted) == change.old.n_nodes
        for node, numbers, text in (
            (change.old, change.deleted, a),
            (change.new, change.inserted, b),
        ):
            assert (node is None) == (
                change.kind == {a: "inserted", b: "deleted"}[text]
            )
            if numbers:  # they hang together below the node
                assert numbers[0] == node.number
                nodes = list(tk.Forest([oracle.show(text)])[0].walk())
                assert all(nodes[n].parent.number in numbers for n in numbers[1:])
                above = nodes[numbers[0]].parent
                assert above is None or above.number not in numbers
    # No node is in two changes, and the changes make the one tree the other.
    assert len(set(gone)) == len(gone)
    assert len(set(come)) == len(come)
    assert len(labels(a)) - len(gone) + len(come) == len(labels(b))
    assert without(a, set(gone), renamed) == without(b, set(come), {})
    return len(gone), len(come), len(renamed)


@given(a=small, b=small)
def test_changes_make_one_tree_the_other_and_cost_the_distance(a, b):
    comparison = compared(a, b)
    if a == b:
        assert comparison.changes == []
    else:
        assert sum(check_changes(a, b, comparison)) == UNIT.distance(a, b)
    assert comparison.distance == UNIT.distance(a, b)
    # The distance may be more than the larger tree has nodes.
    n_nodes = max(len(labels(a)), len(labels(b)))
    similarity = max(0, 1 - UNIT.distance(a, b) / n_nodes)
    assert comparison.similarity == pytest.approx(similarity)


@given(
    a=larger,
    b=larger,
    rename=costs,
    insert=costs,
    delete=costs,
    normalize=st.sampled_from([None, "max", "sum"]),
)
def test_a_comparison_costs_what_the_distance_is(
    a, b, rename, insert, delete, normalize
):
    """Equal subtrees at the edges are paired without the distance's engine."""
    measure = tk.EditDistance(rename, insert, delete, normalize=normalize)
    comparison = compared(a, b, measure)
    plain = measure.replace(normalize=None).pair(oracle.show(a), oracle.show(b))
    if a != b:
        gone, come, renamed = check_changes(a, b, comparison)
        cost = gone * delete + come * insert + renamed * rename
        assert cost == pytest.approx(plain, abs=1e-9)
    value = measure.pair(oracle.show(a), oracle.show(b))
    assert comparison.distance == pytest.approx(value, abs=1e-9)
    share = value
    if normalize is None:
        share = measure.replace(normalize="max").pair(oracle.show(a), oracle.show(b))
    assert comparison.similarity == pytest.approx(max(0, 1 - share), abs=1e-9)


@given(a=larger, b=larger, extra=small, at=st.integers(0, 40))
def test_costs_by_label_are_taken_and_large_equal_parts_too(a, b, extra, at):
    measure = tk.EditDistance({("a", "b"): 0.5}, {"c": 2.0}, 1.5)
    comparison = compared(a, b, measure)
    check_changes(a, b, comparison)
    texts = oracle.show(a), oracle.show(b)
    assert comparison.distance == measure.pair(*texts)
    share = measure.replace(normalize="max").pair(*texts)
    assert comparison.similarity == max(0.0, 1 - share)
    # One subtree more: nothing else changes.
    children = list(a[1])
    children.insert(at % (len(children) + 1), ("new", (extra,)))
    more = (a[0], tuple(children))
    (change,) = compared(a, more).changes
    assert (change.kind, change.n_nodes) == ("inserted", 1 + len(labels(extra)))
    assert change.new.label == "new"


@given(a=larger, b=larger)
def test_nothing_is_left_that_moved(a, b):
    lone = {"deleted": [], "inserted": []}
    for change in compared(a, b).changes:
        if change.kind in lone:
            node = change.old or change.new
            inside = set(change.deleted or change.inserted)
            for below in [node, *descendants(node)]:
                whole = set(range(below.number, below.number + below.n_nodes)) <= inside
                if whole and (below.n_nodes > 1 or len(inside) == 1):
                    lone[change.kind].append(str(below.tree))
    assert set(lone["deleted"]) & set(lone["inserted"]) == set()


def descendants(node):
    return [n for child in node.children for n in [child, *descendants(child)]]


def test_worked_changes():
    comparison = tk.compare(OLD, NEW)
    moved, renamed = comparison.changes
    assert (moved.kind, moved.n_nodes) == ("moved", 3)
    assert moved.old.path == ["page", "aside", "note"]
    assert moved.new.path == ["page", "main", "note"]
    assert str(renamed) == "renamed 5 page/main/p/hot to cold"
    assert repr(comparison).splitlines()[0] == (
        "<Comparison: similarity 0.3, distance 7, 2 changes>"
    )
    assert str(comparison).splitlines() == [
        "  page",
        "    main",
        "+     note (3 nodes, moved from 7)",
        "      h1",
        "        Tea",
        "      p",
        "~       hot → cold",
        "    aside",
        "-     note (3 nodes, moved to 2)",
    ]


def test_a_node_around_others_is_one_change_and_those_stay():
    (change,) = tk.compare("(a (b) (c) (d) (e))", "(a (x (b) (c)) (d) (e))").changes
    assert str(change) == "inserted 1 a/x"
    (change,) = tk.compare("(a (x (y (b) (z) (c))) (d))", "(a (b) (c) (d))").changes
    assert str(change) == "deleted 1 a/x (3 nodes)"
    assert change.deleted == [1, 2, 4]


def test_dear_renamings_let_subtrees_move():
    old, new = "(r (x a b) (y c d))", "(r (y c d) (x a b))"
    kinds = [change.kind for change in tk.compare(old, new).changes]
    assert kinds == ["moved"]
    old, new = "(r (x a q) (x c q))", "(r (x c q) (x a q))"
    assert {change.kind for change in tk.compare(old, new).changes} == {"renamed"}
    dear = tk.EditDistance(rename=math.inf)
    assert "moved" in {change.kind for change in tk.compare(old, new, dear).changes}


def test_many_changes_are_listed_in_part_and_counted():
    comparison = tk.compare("(r)", f"(r {' '.join(f'(x{i})' for i in range(500))})")
    assert len(comparison.changes) == 500
    lines = repr(comparison).splitlines()
    assert len(lines) == 22
    assert lines[-1] == "... 480 more"
    assert str(comparison).splitlines()[-1].strip() == "... 101 nodes more"
    assert "<p>300 more.</p>" in comparison._repr_html_()


# --- What both have -------------------------------------------------------------------


@given(a=larger, b=larger)
def test_shared_subtrees_are_the_largest_common_ones(a, b):
    of_a, of_b = subtrees(a), subtrees(b)
    common = set(of_a) & set(of_b)
    # A subtree counts if it stands somewhere below no larger common one.
    largest = set()
    for tree in (a, b):
        open_nodes = [tree]
        while open_nodes:
            node = open_nodes.pop()
            if node in common:
                largest.add(node)
            else:
                open_nodes += node[1]
    expected = {
        oracle.show(tree): (
            [n for n, other in enumerate(of_a) if other == tree],
            [n for n, other in enumerate(of_b) if other == tree],
        )
        for tree in largest
    }
    shared = compared(a, b).shared
    assert {str(part.tree): (part.old, part.new) for part in shared} == expected
    sizes = [part.tree.n_nodes for part in shared]
    assert sizes == sorted(sizes, reverse=True)


@given(a=small, b=small, normalize=st.booleans())
def test_a_kernel_gives_its_similarity_distance_and_fragments(a, b, normalize):
    kernel = tk.SubtreeKernel(0.5, leaf_weight=1.0, normalize=normalize)
    comparison = compared(a, b, kernel)
    texts = [oracle.show(a), oracle.show(b)]
    matrix = kernel.replace(normalize=True)(texts)
    assert comparison.similarity == pytest.approx(matrix[0, 1])
    raw = kernel(texts)
    squared = raw[0, 0] + raw[1, 1] - 2 * raw[0, 1]
    assert comparison.distance == pytest.approx(math.sqrt(max(squared, 0)), abs=1e-6)
    # Few enough subtrees to list all of them: together they are the similarity.
    if len(comparison.fragments) < 10:
        found = sum(part.weight * len(places(b, part)) for part in comparison.fragments)
        assert found == pytest.approx(comparison.similarity)
    # Changes are those of the edit distance at unit costs.
    assert list(map(str, comparison.changes)) == list(map(str, compared(a, b).changes))


def places(tree, part):
    return [n for n in subtrees(tree) if oracle.show(n) == str(part.tree)]


def test_fragments_name_the_nodes_that_they_cover():
    kernel = tk.SubsetTreeKernel(0.5)
    comparison = tk.compare("(S (A a) (B b))", "(S (B a) (A a))", kernel)
    (part,) = comparison.fragments
    assert (str(part.tree), part.old, part.new) == ("(A a)", [1, 2], [3, 4])
    comparison = tk.compare("(S (A a) (B b))", "(S (A a) (B c))", kernel)
    weights = [part.weight for part in comparison.fragments]
    assert weights == sorted(weights, reverse=True)
    assert sum(weights) == pytest.approx(comparison.similarity)
    assert tk.compare(OLD, NEW).fragments == []
    assert tk.compare(OLD, NEW, kernel**2).fragments == []
    assert tk.compare(OLD, NEW, kernel**2).similarity > 0
    nothing = tk.compare("(a)", "(b)", kernel)
    assert (nothing.similarity, nothing.distance, nothing.fragments) == (0, 0, [])


# --- Text -----------------------------------------------------------------------------


@given(a=small, b=small)
def test_an_outline_of_small_trees_has_all_labels_of_both(a, b):
    comparison = compared(a, b)
    if any(change.kind == "moved" for change in comparison.changes):
        return
    old, new = [], []
    for line in str(comparison).splitlines():
        before, _, after = line[2:].strip().partition(" → ")
        if line[0] != "+":
            old.append(before)
        if line[0] != "-":
            new.append(after or before)
    assert old == labels(a)
    assert new == labels(b)


@given(a=larger, b=larger, n=st.integers(20, 40))
def test_folded_nodes_and_others_are_all_nodes(a, b, n):
    wide = ("a", (*(("a", (("b", ()),)) for _ in range(n)), a, ("c", ())))
    other = ("a", (*(("a", (("b", ()),)) for _ in range(n)), b, ("c", ())))
    comparison = compared(wide, other)
    n_new = 0
    for line in str(comparison).splitlines():
        folded = re.search(r"(?:⋯ |\()([\d,]+) nodes?", line)
        if line[0] != "-":
            n_new += int(folded[1]) if folded else 1
    assert n_new == len(labels(other))
    for (_, drawing), tree in zip(sides(comparison), (wide, other), strict=True):
        picture = Picture(drawing)
        picture.check()
        folded = [t for t in picture.titles if "not drawn" in t]
        hidden = sum(int(t.split()[0].replace(",", "")) for t in folded)
        assert len(picture.boxes) - len(folded) + hidden == len(labels(tree))


def sides(comparison, max_nodes=60):
    return tk.comparing._comparison_pages.pictures(comparison, max_nodes)


def test_long_labels_are_cut():
    old, new = f"(r {'x' * 500} a)", f"(r {'x' * 500} {'y' * 500})"
    comparison = tk.compare(old, new)
    assert str(comparison.changes[0]) == f"renamed 2 r/a to {'y' * 59}…"
    assert max(map(len, str(comparison).splitlines())) < 120


def test_what_is_equal_far_from_a_change_is_left_out():
    old = f"(r {'(p q)' * 30} (x (y a)) {'(p q)' * 30})"
    comparison = tk.compare(old, old.replace("(y a)", "(y b)"))
    assert str(comparison).splitlines() == [
        "  r",
        "    ⋯ 58 nodes",
        "    p",
        "      q",
        "    x",
        "      y",
        "~       a → b",
        "    p",
        "      q",
        "    ⋯ 58 nodes",
    ]


def test_a_change_far_below_the_root_is_shown_with_the_nodes_above_it():
    def chain(label):
        return "(a " * 50 + label + ")" * 50

    comparison = tk.compare(chain("x"), chain("y"))
    assert str(comparison).splitlines() == [
        "  a/…/a/a/a/a/a/a ⋯ 46 nodes",
        "    a",
        "      a",
        "        a",
        "          a",
        "~           x → y",
    ]
    old, new = (Picture(drawing) for _, drawing in sides(comparison))
    assert old.texts == ["⋯ 46 nodes", "a", "a", "a", "a", "~ x"]
    assert new.texts[-1] == "~ y"


def test_equal_trees_are_said_to_be_equal():
    comparison = tk.compare(OLD, OLD)
    assert (comparison.similarity, comparison.distance) == (1, 0)
    assert comparison.changes == []
    assert [str(part.tree) for part in comparison.shared] == [OLD]
    assert "The trees are equal." in comparison._repr_html_()
    assert all(line.startswith(" ") for line in str(comparison).splitlines())


# --- Pictures and pages ---------------------------------------------------------------


def test_boxes_have_the_colour_and_the_sign_of_the_change():
    old, new = (Picture(drawing) for _, drawing in sides(tk.compare(OLD, NEW)))
    marked = {title for title in old.titles if ": " in title}
    assert marked == {
        "hot (node 5): renamed",
        "note (node 7): moved",
        "p (node 8): moved",
        "new (node 9): moved",
    }
    assert old.colour(5) == new.colour(8) != old.colour(7) == new.colour(2)
    assert old.colour(7) != old.colour(0) == new.colour(0)
    assert "» note" in old.texts
    assert "~ cold" in new.texts


def test_both_trees_are_in_one_picture_with_a_legend():
    comparison = tk.compare(OLD, NEW)
    root = ET.fromstring(str(comparison.draw()))
    texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"old: 10 nodes", "new: 10 nodes", "~ renamed", "» moved"} <= set(texts)
    assert "+ inserted" not in texts
    inner = root.findall("{http://www.w3.org/2000/svg}svg")
    spans = [
        (float(s.get("x")), float(s.get("x")) + float(s.get("width"))) for s in inner
    ]
    assert spans[0][1] <= spans[1][0]
    assert spans[1][1] <= float(root.get("width"))
    # Beside each other these would be too wide.
    wide = f"(r {' '.join('x' * 20 for _ in range(20))})"
    root = ET.fromstring(str(tk.compare(wide, f"(r {wide})").draw()))
    inner = root.findall("{http://www.w3.org/2000/svg}svg")
    spans = [
        (float(s.get("y")), float(s.get("y")) + float(s.get("height"))) for s in inner
    ]
    assert spans[0][1] <= spans[1][0]
    assert spans[1][1] <= float(root.get("height"))


def test_a_picture_has_as_many_nodes_as_asked_for():
    old, new = (f"(r {f'({name})' * 30})" for name in "pq")
    comparison = tk.compare(old, new)
    for _, drawing in sides(comparison, 10):
        titles = Picture(drawing).titles
        assert len([title for title in titles if "(node" in title]) == 10
        assert titles[-1] == "21 nodes not drawn: renamed"
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="max_nodes must be at least 1"):
            comparison.draw(max_nodes=wrong)
    with pytest.raises(TypeError, match="max_nodes must be an int"):
        comparison.draw(max_nodes=1.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("suffix", [".html", ".svg", ".png", ".pdf", ".SVG"])
def test_a_comparison_is_saved_as_a_page_or_a_picture(tmp_path, suffix):
    if suffix in (".png", ".pdf"):
        pytest.importorskip("typst", reason="the extra viz is not installed")
    path = tmp_path / f"changes{suffix}"
    tk.compare(OLD, NEW).save(path)
    starts = {".html": b"<!DOCTYPE", ".png": b"\x89PNG", ".pdf": b"%PDF"}
    assert path.read_bytes().startswith(starts.get(suffix, b"<svg"))


def test_other_names_are_refused_and_a_file_stays(tmp_path):
    comparison = tk.compare(OLD, NEW)
    for name in ("changes.txt", "changes"):
        with pytest.raises(ValueError, match=r"ends in \.html, \.svg, \.png or \.pdf"):
            comparison.save(tmp_path / name)
    path = tmp_path / "changes.html"
    path.write_text("what stood there")
    with pytest.raises(ValueError, match="max_nodes"):
        comparison.save(path, max_nodes=0)
    assert path.read_text() == "what stood there"
    with pytest.raises(FileNotFoundError):
        comparison.save(tmp_path / "nowhere" / "changes.html")


class Tags(HTMLParser):
    """The elements of a page, and whether each that is opened is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, _: Any) -> None:
        self.seen.append(tag)
        if tag not in ("meta", "wbr"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, _: Any) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


EVIL = ["<script>alert(1)</script>", '"><img src=x>', "</style>", "&amp;", "a\x00b", ""]


@given(st.lists(st.sampled_from(EVIL), min_size=1, max_size=4))
def test_labels_cannot_leave_their_place_in_a_page(names):
    old, new = (names[0], names), (names[-1], [("x", names[::-1])])
    comparison = tk.compare(old, new)
    page = tk.comparing._comparison_pages.page(comparison, 60)
    for text in (page, comparison._repr_html_()):
        tags = Tags()
        tags.feed(text)
        tags.close()
        assert tags.open == []
        assert {"script", "img"} & set(tags.seen) == set()
        assert tags.seen.count("style") == (2 if text is page else 1)
    assert "default-src 'none'" in page
    ET.fromstring(str(comparison.draw()))
    assert "\x00" not in str(comparison) + repr(comparison) + page


@pytest.mark.parametrize("width", [1280, 480])
def test_a_page_is_no_wider_than_the_screen(browser, tmp_path, width):
    path = tmp_path / "changes.html"
    tk.compare(f"(r {'(p q)' * 9} {OLD})", f"(r {NEW} {'(p q)' * 9})").save(path)
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.goto(path.as_uri())
    over = page.evaluate("document.documentElement.scrollWidth") - width
    page.close()
    assert over <= 0


# --- Trees and measures ---------------------------------------------------------------


def test_trees_come_as_text_as_objects_and_as_trees():
    text = "(S (A a))"
    given_as = [text, tk.Forest([text])[0], ("S", [("A", ["a"])])]
    for tree in given_as:
        assert tk.compare(tree, "(S (A b))").distance == 1
        assert tk.compare("(S (A b))", tree).distance == 1


def test_a_reading_of_one_tree_gives_its_lines():
    texts = ["<a>\n<b/>\n<c/>\n</a>", "<a>\n<b/>\n\n<d/></a>"]
    old, new = (tk.readers.xml(text=text, node_spans=True) for text in texts)
    (change,) = tk.compare(old, new).changes
    assert (change.old.span, change.new.span) == ((3, 3), (4, 4))
    assert str(change) == "renamed 2 a/c, line 3 to d, line 4"
    assert "a/<wbr>c, line 3<" in tk.compare(old, new)._repr_html_()
    (change,) = tk.compare(tk.readers.xml(text=texts[0]), new).changes
    assert (change.old.span, change.new.span) == (None, (4, 4))
    both = tk.readers.xml(text=texts, node_spans=True)
    with pytest.raises(ValueError, match="a must be a Reading of one tree, got 2"):
        tk.compare(both, new)


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(tk.ParseError):
        tk.compare("(S", "(S)")
    with pytest.raises(TypeError, match=r"b must be one tree, got a Forest"):
        tk.compare("(S)", tk.Forest(["(S)"]))
    for measure in ("edit", tk.PairKernel(tk.SubsetTreeKernel()), tk.EditDistance):
        with pytest.raises(
            TypeError, match="measure must be an EditDistance, a kernel"
        ):
            tk.compare("(S)", "(S)", measure)  # type: ignore[arg-type]
    for wrong in (-1, math.nan):
        with pytest.raises(ValueError, match="rename"):
            tk.compare("(a (b))", "(b (a))", tk.EditDistance(wrong))
    with pytest.raises(ValueError, match="insert"):
        tk.compare("(a (b))", "(b (a))", tk.EditDistance(1, math.inf))
    layers = tk.Forest(["(A a)"])[0]
    for _ in range(60):
        layers = tk.Forest.from_trees([("A", [layers, layers])])[0]
    with pytest.raises(ValueError, match="above the limit"):
        tk.compare(layers, "(A a)")


# --- Large trees ----------------------------------------------------------------------

N = 100_000


def large(shape: str, names: list[str]) -> tk.Tree:
    codes = {name: code for code, name in enumerate(dict.fromkeys(names))}
    parents = np.arange(len(names)) - 1
    if shape == "star":
        parents[1:] = 0
    numbers = [codes[name] for name in names]
    return tk.Forest.from_arrays(numbers, parents, [0], names=list(codes))[0]


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["chain", "star"])
@pytest.mark.parametrize("place", [N // 2, N - 1])
def test_one_change_in_a_large_tree_is_found_at_once(shape, place):
    names = ["a"] * N
    changed = [*names[:place], "b", *names[place + 1 :]]
    start = time.process_time()
    comparison = tk.compare(large(shape, names), large(shape, changed))
    (change,) = comparison.changes
    assert (change.kind, change.old.number, change.new.label) == ("renamed", place, "b")
    assert comparison.distance == 1
    assert "a → b" in str(comparison)
    assert "~ b" in str(comparison.draw())
    assert len(comparison.shared) <= 1
    assert len(comparison._repr_html_()) < 30_000
    assert time.process_time() - start < 90  # takes 10 to 30


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["chain", "star"])
def test_large_trees_that_differ_everywhere_are_refused_with_their_memory(shape):
    start = time.process_time()
    with pytest.raises(MemoryError, match="out of memory: 240"):
        tk.compare(large(shape, ["a"] * N), large(shape, ["b"] * N))
    assert time.process_time() - start < 30


INTERRUPTED = """
import time
import numpy as np
import treekernel_rs as tk

n = 6_000
old, new = (
    tk.Forest.from_arrays(np.arange(n), np.r_[-1, np.zeros(n - 1, int)], [0],
                          names=[f"{name}{i}" for i in range(n)])[0]
    for name in "xy"
)
print("ready", flush=True)
try:
    while True:
        tk.compare(old, new, tk.EditDistance(1, 1, {"x": 2.0}))
except KeyboardInterrupt:
    print("interrupted", time.time(), time.process_time(), flush=True)
"""


@pytest.mark.posix
@pytest.mark.slow
def test_ctrl_c_ends_a_comparison():
    assert seconds_until_interrupted(INTERRUPTED, after=1.0) < 1.0
