"""The report page: what is in it, that it is safe, and that it works in a browser."""

from __future__ import annotations

import json
import re
import time
from itertools import combinations, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import treekernel_rs as tk
from treekernel_rs._occurrences import occurrences

pytest.importorskip("sklearn", reason="reports need scikit-learn")

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Would do harm, or break the page, where it is not escaped.
EVIL = "</script><img src=x onerror=alert(1)><!--data-->&\"'"
X = [
    "(S (A a) (B b))",
    "(S (A a) (C c))",
    "(S (B b) (D d))",
    "(S (B b))",
    "(S (A a) (B (B b) (D d)))",
]
Y = ["x", "x", EVIL, EVIL, EVIL]
SST = tk.SubsetTreeKernel(0.4)


def data_of(page: str) -> Any:
    (text,) = re.findall(
        r'<script type="application/json" id="data">(.*?)</script>', page
    )
    return json.loads(text)


def write(path: Path, estimator: Any = None, **options: Any) -> str:
    estimator = estimator or tk.TreeSVC(SST, C=10).fit(X, Y)
    tk.report(estimator, X, Y, path, **options)
    return path.read_text(encoding="utf-8")


# --- Occurrences -------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [SST, tk.SubtreeKernel(0.4)], ids=repr)
def test_occurrences_add_up_to_the_scores(kernel: Any) -> None:
    """All fragments where they stand, times their weights, are the model's score."""
    trees = [*X, "(S (S (A a) (A a)) (S (A a) (B b)))", "(S (S (A a) (A a)) (B b))"]
    forest = tk.Forest.from_brackets(trees)
    model = tk.DagModel(kernel)
    model.add(trees, np.array([1.0, -2.0, 0.5, 3.0, -0.75, 0.3, 0.2]))
    fragments = model.top_fragments(100_000, by="absolute", min_size=1)
    whole = isinstance(kernel, tk.SubtreeKernel)
    found = occurrences(
        [f.tree for f in fragments], forest, "whole" if whole else "rules"
    )
    scores = np.zeros(len(trees))
    for fragment, of in zip(fragments, found, strict=True):
        for tree in of:
            times = slow_count(fragment.tree, forest[tree], whole)
            scores[tree] += times * fragment.weight
    np.testing.assert_allclose(scores, model.decision_function(trees), rtol=1e-9)


def slow_count(fragment: Any, tree: Any, whole: bool) -> int:
    """How often a fragment stands in a tree, by the definition (small trees only)."""

    def fits(part: Any, node: Any) -> bool:
        if part.label != node.label:
            return False
        if not part.children:
            return not (whole and node.children)
        return len(part.children) == len(node.children) and all(
            map(fits, part.children, node.children)
        )

    nodes, count = [tree], 0
    while nodes:
        node = nodes.pop()
        nodes += node.children
        count += fits(fragment, node)
    return count


def test_every_occurrence_is_found_and_no_other_tree() -> None:
    forest = tk.Forest.from_brackets(X)
    fragments = [f.tree for f in tk.TreeSVC(SST).fit(X, Y).top_fragments(50)]
    found = occurrences(fragments, forest, "rules")
    for (at, fragment), tree in product(enumerate(fragments), range(len(X))):
        assert (tree in found[at]) == (slow_count(fragment, forest[tree], False) > 0)


def slow_cover(fragment: Any, tree: Any, loose: bool) -> set[int]:
    """The nodes in any occurrence of a part, by the definition (small trees only)."""
    nodes: list[Any] = []  # label, children, end; in preorder

    def number(node: Any) -> int:
        mine = len(nodes)
        nodes.append([node.label, [], mine])
        nodes[mine][1] = [number(child) for child in node.children]
        nodes[mine][2] = len(nodes)
        return mine

    number(tree)

    def places(part: Any, at: int) -> list[set[int]]:
        """The covers of all occurrences with the root at a node."""
        label, children, _ = nodes[at]
        if part.label != label:
            return []
        found = []
        for chosen in combinations(children, len(part.children)):
            ways: list[set[int]] = [{at}]
            for below, slot in zip(part.children, chosen, strict=True):
                stands = range(slot, nodes[slot][2]) if loose else [slot]
                covers = [cover for node in stands for cover in places(below, node)]
                ways = [way | cover for way in ways for cover in covers]
            found += ways
        return found

    return set().union(*(c for at in range(len(nodes)) for c in places(fragment, at)))


@pytest.mark.parametrize("kind", ["part", "loose"])
def test_parts_with_gaps_cover_what_the_definition_says(kind: str) -> None:
    rng = np.random.default_rng(0)

    def grown(depth: int) -> str:
        below = " ".join(
            grown(depth - 1) for _ in range(rng.integers(0, 4) if depth else 0)
        )
        return f"({'AB'[rng.integers(2)]} {below})"

    forest = tk.Forest.from_brackets([grown(3) for _ in range(30)])
    parts = ["(A)", "(A B)", "(A A B)", "(B (A B) A)", "(A (A (B A)))", "(B A A A)"]
    fragments = list(tk.Forest.from_brackets(parts))
    found = occurrences(fragments, forest, kind)
    n_found = 0
    for fragment, of in zip(fragments, found, strict=True):
        for tree in range(len(forest)):
            expected = sorted(slow_cover(fragment, forest[tree], kind == "loose"))
            assert of.get(tree, []) == expected, (str(fragment), str(forest[tree]))
            n_found += bool(expected)
    assert n_found > 50


@pytest.mark.parametrize(
    ("kernel", "n_trees"),
    [
        (tk.PartialTreeKernel(0.5, mu=0.5), 2),
        (tk.ElasticTreeKernel(0.5), 3),
        (tk.SubpathKernel(0.5), 2),
        (0.5 * tk.PartialTreeKernel(0.5, mu=0.5), 2),
    ],
    ids=repr,
)
def test_fragments_with_gaps_have_their_trees(
    tmp_path: Path, kernel: Any, n_trees: int
) -> None:
    """`(S C)` leaves out a child; with ET it leaves out a level, too."""
    trees = ["(S (A a) (C c))", "(S (B b) (C c))", "(S (X (C c)))", "(S (B b) (D d))"]
    svc = tk.TreeSVC(kernel, C=10).fit(trees, ["x", "x", "y", "y"])
    tk.report(svc, trees, ["x", "x", "y", "y"], tmp_path / "r.html", n_fragments=100)
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    row = re.search(r'<tr data-fragment="(\d+)"[^>]*>(?:(?!</tr>).)*>\(S C\)<', page)
    assert row
    assert len(data_of(page)["fragments"][int(row[1])]) == n_trees


def test_a_deep_part_is_found_in_time() -> None:
    deep = "(A " * 50_000 + "a" + ")" * 50_000
    forest = tk.Forest.from_brackets([deep])
    part = tk.Forest.from_brackets(["(A (A a))"])[0]
    part_found, loose_found = (
        occurrences([part], forest, kind)[0] for kind in ("part", "loose")
    )
    assert part_found == {0: [49_998, 49_999, 50_000]}
    assert loose_found == {0: list(range(50_001))}


def test_a_deep_fragment_is_found_without_recursion() -> None:
    deep = "(A " * 50_000 + "a" + ")" * 50_000
    forest = tk.Forest.from_brackets([deep])
    (found,) = occurrences([forest[0]], forest, "whole")
    assert len(found[0]) == 50_001


# --- What is in it -----------------------------------------------------------------


def test_the_page_has_scores_fragments_trees_neighbours_and_settings(
    tmp_path: Path,
) -> None:
    page = write(tmp_path / "r.html", title="T & T", n_neighbors=2)
    assert "<title>T &amp; T</title>" in page
    assert "5 trees, 5 classified correctly" in page
    assert "(95 % interval 56.6% to 100.0%)" in page
    assert "has 60.0% of the trees" in page
    assert "support trees" in page
    # In three trees, two of them of class x.
    (row,) = (r for r in re.findall("<tr data-fragment.*?</tr>", page) if "(A a)<" in r)
    assert re.findall("<td[^>]*>([^<]*)</td>", row)[-2:] == ["3", "67%"]
    assert page.count("data-fragment=") == len(
        [
            f
            for by in ("largest", "smallest")
            for f in tk.TreeSVC(SST, C=10)
            .fit(X, Y)
            .top_fragments(10, by=by, min_size=1)
        ]
    )
    assert "kernel__decay" in page
    assert tk.__version__ in page
    trees = data_of(page)["trees"]
    assert len(trees) == 5
    assert all("<svg" in picture for tree in trees for _, picture in tree["pictures"])
    assert all(len(tree["near"]) <= 2 for tree in trees)
    scores = tk.TreeSVC(SST, C=10).fit(X, Y).decision_function(X)
    margins = {tree["name"]: tree["margin"] for tree in trees}
    for text, score in zip(X, scores, strict=True):
        assert margins[text] == pytest.approx(abs(score), rel=5e-3)
    assert trees[0]["near"]


@pytest.mark.parametrize("multi_class", ["two", "ovo", "ovr"])
def test_numbers_of_nodes_and_the_intercept_add_up_to_the_score(
    tmp_path: Path, multi_class: Any
) -> None:
    y = ["x", "x", "y", "y" if multi_class == "two" else "z", "y"]
    svc = tk.TreeSVC(
        SST,
        C=10,
        multi_class="ovo" if multi_class == "two" else multi_class,
        decision_function_shape="ovo",
    ).fit(X, y)
    tk.report(svc, X, y, tmp_path / "r.html")
    scores = svc.decision_function(X).reshape(len(X), -1)
    if multi_class == "ovo":  # the pairs x, y; x, z; y, z
        scores = scores @ np.array([[1, -1, 0], [1, 0, -1], [0, 1, -1]])
    elif multi_class == "two":
        scores = scores @ np.array([[-1, 1]])
    n_seen = 0
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    for tree in data_of(page)["trees"]:
        for name, picture in tree["pictures"]:
            label, numbers = re.fullmatch(
                r"for (\w)(?:, predicted)?: (.*)", name
            ).groups()
            nodes, intercept, total = map(float, numbers.replace("=", "").split())
            expected = scores[X.index(tree["text"]), list(svc.classes_).index(label)]
            assert total == pytest.approx(expected, rel=1e-3)
            assert nodes + intercept == pytest.approx(total, abs=2e-3)
            assert picture.startswith("<svg")
            n_seen += abs(intercept) > 0.01
    assert n_seen


def test_equal_input_makes_an_equal_page(tmp_path: Path) -> None:
    assert write(tmp_path / "a.html") == write(tmp_path / "b.html")


def test_text_of_others_is_escaped_everywhere(tmp_path: Path) -> None:
    evil = EVIL.replace("(", "[").replace(")", "]").replace(" ", "_")
    trees = [f"(S ({evil} a) (B b))", f"(S ({evil} {evil}))", "(S (B b))", "(S (C c))"]
    labels = [EVIL, EVIL, "y", "y"]
    svc = tk.TreeSVC(SST, C=10).fit(trees, labels)
    path = tmp_path / "r.html"
    tk.report(svc, trees, labels, path, title=EVIL, names=[EVIL] * 4)
    page = path.read_text(encoding="utf-8")
    assert "<img" not in page
    assert page.count("</script>") == 2
    assert page.count("<!--") == 0
    assert data_of(page)["trees"][0]["name"] == EVIL


def test_nothing_is_loaded_from_elsewhere(tmp_path: Path) -> None:
    page = write(tmp_path / "r.html")
    assert "default-src 'none'" in page
    links = set(re.findall(r"https?://[^\s\"'<>\\]+", page))
    assert links <= {"http://www.w3.org/2000/svg"}


@pytest.mark.parametrize(
    ("estimator", "reason"),
    [
        (tk.TreePerceptron(SST, "vote", random_state=0), "a vote is not a"),
        (tk.TreeKNeighborsClassifier(SST, 1), "not a sum over fragments"),
    ],
    ids=["vote", "neighbours"],
)
def test_what_cannot_be_explained_says_why(
    tmp_path: Path, estimator: Any, reason: str
) -> None:
    page = write(tmp_path / "r.html", estimator.fit(X, Y))
    assert reason in page
    assert data_of(page)["fragments"] == []
    assert len(data_of(page)["trees"]) == 5


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_three_classes_have_fragments_for_each(
    tmp_path: Path, multi_class: Any
) -> None:
    y = [0, 1, 2, 2, 2]
    svc = tk.TreeSVC(SST, C=10, multi_class=multi_class).fit(X, y)
    tk.report(svc, X, y, tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    whose = set(re.findall('data-class="(.*?)"', page))
    pairs = {f"{a}, not {b}" for a in range(3) for b in range(3) if a != b}
    assert whose == ({"0", "1", "2"} if multi_class == "ovr" else pairs)


def many(n: int, multi_class: Any = "ovo") -> tuple[Any, list[str], list[str]]:
    """Classes with three trees each, and one with four, by their own rules."""
    places = [*range(n)] * 3 + [n - 1]
    trees = [f"(S (A{i} a) (B{i % 7} b))" for i in places]
    names = [f"class {i:03}" for i in places]
    return tk.TreeSVC(SST, multi_class=multi_class).fit(trees, names), trees, names


def test_fragments_of_many_pairs_are_shown_by_class(tmp_path: Path) -> None:
    """Of 50 classes there are 1,225 pairs, whose page took a minute and 14 MB."""
    svc, trees, names = many(50)
    path = tmp_path / "r.html"
    start = time.process_time()
    tk.report(svc, trees, names, path)
    assert time.process_time() - start < 20
    page = path.read_text(encoding="utf-8")
    assert set(re.findall('data-class="(.*?)"', page)) == set(names)
    assert page.count("<tr data-fragment=") <= 1000
    assert "sums over the pairs of a class" in page
    assert len(page) < 2_000_000
    rows = re.findall("<tr data-fragment.*?</tr>", page)
    (row,) = (row for row in rows if ">for class 003<" in row and ">(A3 a)<" in row)
    (weight,) = re.findall(r"<td>([+-][\d.]+)</td>", row)
    found = svc.top_fragments(9, label="class 003")
    (expected,) = (f.weight for f in found if str(f.tree) == "(A3 a)")
    assert float(weight) == pytest.approx(expected, rel=1e-2)


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_of_very_many_classes_those_with_most_trees_are_shown(
    tmp_path: Path, multi_class: Any
) -> None:
    svc, trees, names = many(60, multi_class)
    names[0] = "never seen"
    path = tmp_path / "r.html"
    tk.report(svc, trees, names, path)
    page = path.read_text(encoding="utf-8")
    scores, confusion = re.findall("<table.*?</table>", page)[:2]
    assert scores.count("<tr>") == 1 + 50 + 2  # the head, the others, all
    assert "mean of 11 other classes" in scores
    assert confusion.count("<tr>") == 1 + 51
    assert "class 059" in confusion  # which has most trees
    assert "never seen" not in confusion
    cells = {
        tuple(map(int, cell.split(",")))
        for cell in re.findall('data-cell="(.*?)"', confusion)
    }
    shown = data_of(page)["trees"]
    assert {(tree["truth_code"], tree["said_code"]) for tree in shown} <= cells
    assert max(max(cell) for cell in cells) == 50


def test_the_table_of_fragments_is_bounded_in_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert write(tmp_path / "a.html", n_fragments=9).count("<tr data-fragment=") > 6
    monkeypatch.setattr("treekernel_rs.reporting._MOST_FRAGMENTS", 6)
    page = write(tmp_path / "b.html", n_fragments=10**6)
    assert page.count("<tr data-fragment=") == 6


def test_the_old_page_stays_where_a_new_one_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "r.html"
    old = write(path)
    with pytest.raises(UnicodeEncodeError):
        write(path, title="\ud800")
    assert path.read_text(encoding="utf-8") == old
    assert list(tmp_path.iterdir()) == [path]


def test_a_kernel_by_default_has_neighbours_too(tmp_path: Path) -> None:
    page = write(tmp_path / "r.html", tk.TreeLogisticRegression().fit(X, Y))
    assert data_of(page)["trees"][0]["near"]


def test_names_may_be_any_list_of_texts(tmp_path: Path) -> None:
    names = np.array(["a", "b", "c", "d", "e"])
    shown = data_of(write(tmp_path / "r.html", names=names))["trees"]
    assert {tree["name"] for tree in shown} == set(names.tolist())


def test_a_search_is_reported_by_its_best_estimator(tmp_path: Path) -> None:
    from sklearn.model_selection import GridSearchCV

    search = GridSearchCV(tk.TreeSVC(SST), {"C": [1, 10]}, cv=2)
    search.fit(X[:4], ["x", "x", "y", "y"])
    tk.report(search, X[:4], ["x", "x", "y", "x"], tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "TreeSVC: 4 trees" in page


def test_neighbours_come_from_the_training_set_where_it_is_given(
    tmp_path: Path,
) -> None:
    page = write(tmp_path / "r.html", training=(["(S (A a) (B b))"], ["other"]))
    near = [tree["near"] for tree in data_of(page)["trees"]]
    assert near[0] == [["other", "1.000", "(S (A a) (B b))"]]
    # So are the counts of fragments: here in three trees, there in one, of another class.
    (row,) = (r for r in re.findall("<tr data-fragment.*?</tr>", page) if "(A a)<" in r)
    counts = re.findall("<td[^>]*>([^<]*)</td>", row)[-4:]
    assert counts == ["3", "67%", "1", "0%"]


def test_large_trees_take_places_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treekernel_rs.reporting._MOST_DRAWN", 100)
    trees, y = ["(S " + "(A a)" * 20 + ")"] * 3 + ["(S (B b))"] * 3, [0] * 3 + [1] * 3
    svc = tk.TreeSVC(SST.replace(normalize=True)).fit(trees, y)
    tk.report(svc, trees, y, tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert len(data_of(page)["trees"]) < 6
    assert "of 6 trees are shown" in page


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"estimator": object()}, TypeError, "a fitted classifier, got object"),
        ({"estimator": tk.TreeSVC(SST)}, TypeError, "a fitted classifier, got TreeSVC"),
        ({"y": Y[:3]}, ValueError, "inconsistent numbers of samples"),
        ({"X": [], "y": []}, ValueError, "at least one tree"),
        ({"names": ["a"]}, ValueError, "one entry for each of 5 trees, got 1"),
        (
            {"names": [1, 2, "c", "d", "e"]},
            TypeError,
            r"names\[0\] must be a str, got 1",
        ),
        ({"names": "abcde"}, TypeError, "names must be a list of str"),
        ({"min_size": -1}, ValueError, "min_size must be at least 0, got -1"),
        ({"n_trees": "5"}, TypeError, "n_trees must be an int, got '5'"),
        ({"n_trees": 0}, ValueError, "n_trees must be at least 1, got 0"),
        ({"max_nodes": 0}, ValueError, "max_nodes must be at least 1, got 0"),
        ({"n_fragments": -1}, ValueError, "n_fragments must be at least 0, got -1"),
        ({"y": [1, 2, 3, 4, 5]}, ValueError, "Mix of label"),
    ],
)
def test_bad_input_writes_nothing(
    tmp_path: Path, change: Any, error: type[Exception], message: str
) -> None:
    path = tmp_path / "r.html"
    given: dict[str, Any] = {"estimator": tk.TreeSVC(SST).fit(X, Y), "X": X, "y": Y}
    with pytest.raises(error, match=message):
        tk.report(**{**given, **change}, path=path)
    assert not path.exists()


# --- In a browser ------------------------------------------------------------------


@pytest.fixture(params=[(1280, 900), (390, 844)], ids=["desktop", "phone"])
def page(browser: Any, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    big = "(S " + "(A (B b) (C (D d)))" * 500 + ")"  # 3,001 nodes
    trees, labels = [*X, big], [*Y, "x"]
    svc = tk.TreeSVC(SST.replace(normalize=True), C=10).fit(trees, labels)
    wrong = [EVIL, *labels[1:]]
    path = tmp_path / "r.html"
    tk.report(svc, trees, wrong, path, names=["<i>first</i>", *trees[1:-1], "big"])
    width, height = request.param
    page = browser.new_page(viewport={"width": width, "height": height})
    said: list[str] = []
    for event in ("console", "pageerror", "dialog", "request"):
        page.on(event, lambda it, event=event: said.append(f"{event}: {it}"))
    page.goto(path.as_uri())
    yield page
    requests = [line for line in said if line.startswith("request")]
    assert len(requests) == 1, "nothing but the page itself is asked for"
    assert [line for line in said if line not in requests] == []
    page.close()


def visible(page: Any) -> list[str]:
    return list(page.locator("#list li:visible").all_inner_texts())


def test_a_fragment_opens_its_trees_and_marks_its_nodes(page: Any) -> None:
    page.fill("#search", "(A a)")
    shown = page.locator("tr[data-fragment]:visible").all_inner_texts()
    assert shown
    assert all("(A a)" in text for text in shown)
    row = page.locator("tr[data-fragment]:visible", has_text="\t(A a)").first
    row.locator("button").focus()
    page.keyboard.press("Enter")
    assert len(visible(page)) == 3
    marked = page.locator("#view .hit title").all_text_contents()
    assert [title.split(" ")[0] for title in marked] == ["A", "a"]
    assert row.get_attribute("aria-selected") == "true"
    page.click("#all")
    assert len(visible(page)) == 6
    assert page.locator("#view .hit").count() == 0


def test_mistakes_cells_and_words_filter_the_trees(page: Any) -> None:
    page.click("#mistakes")
    (only,) = visible(page)
    assert only.startswith("<i>first</i>")
    assert EVIL in only
    # What speaks for the prediction, and for the right class.
    assert page.locator("#classes button").count() == 2
    page.click("#classes button >> nth=1")
    assert page.get_attribute("#classes button >> nth=1", "aria-pressed") == "true"
    page.click("#all")
    page.locator("button[data-cell]").first.click()
    assert 0 < len(visible(page)) < 6
    page.click("#all")
    page.fill("#find", "nothing like it")
    assert visible(page) == []
    assert "No tree" in page.inner_text("#view")
    page.fill("#find", "(D d)")
    assert len(visible(page)) == 3


def test_a_tree_of_3000_nodes_can_be_read_and_zoomed_by_keyboard(page: Any) -> None:
    page.fill("#find", "big")
    assert page.locator("#view [data-node]").count() == 1 + 500 * 6
    width = "document.querySelector('#view svg').getBoundingClientRect().width"
    shown, box = page.evaluate(width), page.evaluate("view.clientWidth")
    assert shown > box  # large enough to be read, with its root in sight
    root = page.locator("#view [data-node='0']").bounding_box()
    view = page.locator("#view").bounding_box()
    assert view["x"] <= root["x"] <= view["x"] + view["width"]
    page.focus("#view")
    page.keyboard.press("+")
    assert page.evaluate(width) == pytest.approx(1.4 * shown)
    page.keyboard.press("0")
    assert page.evaluate(width) <= box + 1
    page.keyboard.press("1")
    before = page.evaluate("view.scrollLeft")
    page.keyboard.press("ArrowRight")
    page.wait_for_timeout(500)
    assert page.evaluate("view.scrollLeft") > before


def test_trees_are_ordered_by_margin_and_by_size(page: Any) -> None:
    page.select_option("#order", "size")
    assert visible(page)[0].startswith("big")
    page.select_option("#order", "margin")
    margins = [float(text.rsplit(" ", 1)[1]) for text in visible(page)]
    assert margins == sorted(margins)
    page.focus("#list")
    page.locator("#list li").first.click()
    page.keyboard.press("ArrowDown")
    assert page.locator("#list li").nth(1).get_attribute("aria-selected") == "true"


def test_arrow_keys_go_through_the_trees(page: Any) -> None:
    page.focus("#list")
    first = page.locator("#list [aria-selected=true]").inner_text()
    page.keyboard.press("ArrowDown")
    assert page.locator("#list [aria-selected=true]").inner_text() != first
    page.keyboard.press("ArrowUp")
    assert page.locator("#list [aria-selected=true]").inner_text() == first


def test_the_page_is_no_wider_than_the_screen(page: Any) -> None:
    assert page.evaluate(
        "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    )
    unnamed = page.evaluate(
        "[...document.querySelectorAll('button, input, select')].filter((control) =>"
        " !(control.innerText || control.ariaLabel || control.labels?.length)).length"
    )
    assert unnamed == 0
