"""Metrics, against published programs, and edge cases against their definitions."""

from __future__ import annotations

import random
import re
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

import treekernel_rs as tk

PAGE = "<html><body>{}</body></html>"


# --- Tables --------------------------------------------------------------------------


def some_text(rng: random.Random) -> str:
    """Make what a cell may hold: nothing, words, markup, entities, other scripts."""
    words = ["", "12.5", "n = 40", "Größe", "表 1", "&lt; 0.05", "a &amp; b", "x" * 70]
    text = "".join(rng.choices(words, [3, 4, 3, 1, 1, 1, 1, 0.3], k=rng.randint(1, 3)))
    if rng.random() < 0.3:
        tag = rng.choice(["b", "i", "sup", "sub", "unk"])
        text = f"{text}<{tag}>{rng.choice(words)}</{tag}>{rng.choice(words)}"
    if rng.random() < 0.03:
        text += f"<table><tr><td>{rng.choice(words)}</td>in</tr></table>"
    return text


def some_table(rng: random.Random) -> list[list[str]]:
    """Make the rows of a table, cells with their tags."""
    rows = []
    for row in range(rng.randint(0, 6)):
        cells = []
        for _ in range(rng.randint(0, 5)):
            spans = "".join(
                f' {name}="{rng.randint(1, 3)}"'
                for name in ("rowspan", "colspan")
                if rng.random() < 0.2
            )
            tag = "th" if row == 0 and rng.random() < 0.5 else "td"
            cells.append(f"<{tag}{spans}>{some_text(rng)}</{tag}>")
        rows.append(cells)
    return rows


def changed(rows: list[list[str]], rng: random.Random) -> list[list[str]]:
    """Make a prediction: cells with other text, other cells, fewer and more rows."""
    new = []
    for cells in rows:
        if rng.random() < 0.1:
            continue
        row = [
            rng.choice([f"<td>{some_text(rng)}</td>", cell + "<td></td>", ""])
            if rng.random() < 0.3
            else cell
            for cell in cells
        ]
        new.append(row)
    return new + [["<td>1</td>"]] * (rng.random() < 0.2)


def written(rows: list[list[str]], rng: random.Random) -> str:
    lines = [f"<tr>{''.join(cells)}</tr>" for cells in rows]
    n_head = rng.randint(0, 1)
    head = "".join(lines[:n_head])
    head = f"<thead>{head}</thead>" if head else ""
    body = "".join(lines[n_head:])
    if rng.random() < 0.5:
        body = f"<tbody>{body}</tbody>"
    return PAGE.format(f"<table border=1>{head}{body}<!-- end --></table>")


def table_pairs(n: int) -> list[tuple[str, str]]:
    rng = random.Random(28)
    pairs = []
    for _ in range(n):
        true = some_table(rng)
        predicted = changed(true, rng) if rng.random() < 0.8 else some_table(rng)
        pairs.append((written(predicted, rng), written(true, rng)))
    return pairs


@pytest.mark.parametrize("structure_only", [False, True])
def test_teds_is_that_of_table_recognition_metric(structure_only):
    pytest.importorskip("lxml", reason="the extra web is not installed")
    published = pytest.importorskip("table_recognition_metric")
    score = published.TEDS(structure_only=structure_only)
    pairs = table_pairs(500)
    expected = [score(predicted, true) for predicted, true in pairs]
    found = tk.metrics.teds(*zip(*pairs, strict=True), structure_only=structure_only)
    assert np.abs(found - expected).max() <= 1e-12
    assert len({*found.round(6)}) > 100
    # PubTabNet's program differs in what it divides by.
    from lxml import html

    by_elements = tk.metrics.teds(
        *zip(*pairs, strict=True), structure_only=structure_only, size="elements"
    )
    for (predicted, true), by_tree, value in zip(
        pairs, expected, by_elements, strict=True
    ):
        tables = [
            html.fromstring(page).find("body/table") for page in (predicted, true)
        ]
        n_nodes = max(map(n_tree_nodes, tables))
        n_elements = max(len(table.xpath(".//*")) for table in tables)
        if n_elements:
            right = 1 - (1 - by_tree) * n_nodes / n_elements
            assert value == pytest.approx(right, abs=1e-12)


def n_tree_nodes(element) -> int:
    below = [] if element.tag == "td" else element.xpath("*")
    return 1 + sum(map(n_tree_nodes, below))


needs_lxml = pytest.mark.usefixtures("lxml")


@pytest.fixture(scope="module")
def lxml():
    return pytest.importorskip("lxml", reason="the extra web is not installed")


def teds(predicted: str, true: str, **options) -> float:
    return tk.metrics.teds(
        f"<table>{predicted}</table>", f"<table>{true}</table>", **options
    )


@needs_lxml
@pytest.mark.parametrize(
    ("predicted", "true", "score"),
    [
        ("<tr><td>a</td></tr>", "<tr><td>a</td></tr>", Fraction(1)),
        # Of 3 nodes, one is replaced: by half, wholly, and not at all.
        ("<tr><td>ab</td></tr>", "<tr><td>ac</td></tr>", 1 - Fraction(1, 2) / 3),
        ("<tr><td>a</td></tr>", "<tr><td colspan=2>a</td></tr>", Fraction(2, 3)),
        ("<tr><td>a</td></tr>", "<tr><td rowspan=2>a</td></tr>", Fraction(2, 3)),
        ("<tr><td>a</td></tr>", "<tr><th>a</th></tr>", Fraction(2, 3)),
        ("<tr><td>a</td></tr>", "<tr><td colspan=' 01 '>a</td></tr>", Fraction(1)),
        ("<tr><td></td></tr>", "<tr><td>a</td></tr>", Fraction(2, 3)),
        # A tag is one token of a cell, and text of a header is none.
        ("<tr><td>abc</td></tr>", "<tr><td><b>abc</b></td></tr>", 1 - Fraction(2, 15)),
        (
            "<tr><td><i>a</i></td></tr>",
            "<tr><td><b>a</b></td></tr>",
            1 - Fraction(2, 9),
        ),
        ("<tr><th>a</th></tr>", "<tr><th>b</th></tr>", Fraction(1)),
        ("<tr><th colspan=2>a</th></tr>", "<tr><th>a</th></tr>", Fraction(1)),
        # Deleted and inserted.
        ("<tr><td>a</td></tr>", "<tr><td>a</td><td>b</td></tr>", Fraction(3, 4)),
        ("", "<tr><td>a</td></tr>", Fraction(1, 3)),
        ("", "", Fraction(1)),
        # Entities are characters.
        ("<tr><td>1 &lt; 2</td></tr>", "<tr><td>1 > 2</td></tr>", 1 - Fraction(1, 15)),
        ("<tr><td>&amp;lt;</td></tr>", "<tr><td>&lt;</td></tr>", 1 - Fraction(1, 3)),
    ],
)
def test_teds_is_its_definition(predicted, true, score):
    for pair in ((predicted, true), (true, predicted)):
        assert teds(*pair) == pytest.approx(float(score), abs=1e-12)
    assert teds(predicted, true, structure_only=True) >= teds(predicted, true)


@needs_lxml
def test_tables_are_leaves_of_text_and_markup():
    page = "<table><tr><td colspan=2 rowspan=3 id=x>a&amp;<b>x<br></b>y</td><th>z</th></tr></table>"
    (tree,) = tk.metrics.table_trees(page)
    (row,) = tree.children
    labels = [cell.label for cell in row.children]
    assert labels == ["<td rowspan=3 colspan=2>a&amp;<b>x<br></br></b>y", "th"]
    trees = tk.metrics.table_trees([page, "<table></table>"])
    scores = tk.metrics.teds(trees, trees[[1, 0]])
    assert scores.tolist() == [1 - 3 / 4] * 2
    assert tk.metrics.teds(trees[0], trees[1]) == 1 - 3 / 4
    assert tk.metrics.teds([trees[0]], page, size="elements").tolist() == [1.0]
    by_elements = tk.metrics.teds(trees, trees[[1, 0]], size="elements")
    assert by_elements.tolist() == [1 - 3 / 5] * 2  # tr, td, b, br, th
    # Trees of any reader: nodes are equal or not.
    assert tk.metrics.teds(tk.Forest(["(table (tr td th))"])[0], tree) == 0.75


@needs_lxml
def test_the_table_of_a_page_is_found_as_published_programs_find_it():
    nested = "<div><table><tr></tr></table></div>"
    page = f"{nested}<table><tr><td>a</td></tr></table><table></table>"
    assert tk.metrics.table_trees(page).to_brackets() == ["(table (tr <td>a))"]
    assert tk.metrics.table_trees(nested).to_brackets() == ["(table tr)"]
    deep = f"<table><tr><td>{'<b>' * 1_500}x{'</b>' * 1_500}</td></tr></table>"
    assert tk.metrics.teds(deep, deep) == 1.0


@needs_lxml
def test_what_is_no_table_is_refused_or_scores_zero():
    table = "<table><tr><td>a</td></tr></table>"
    assert tk.metrics.teds("", table) == 0.0
    assert tk.metrics.teds(table, " \n") == 0.0
    wrong = {
        "<p>none</p>": "item 1, line 1, column 1 .* expected a table, got HTML without",
        "<table>\n<tr><td colspan=two>": "item 1, line 2, .* as colspan, got 'two'",
        "<table><tr><td rowspan=1.5>": "as rowspan, got '1.5'",
    }
    for text, message in wrong.items():
        for side in ([table, text], [table, table]), ([table, table], [table, text]):
            with pytest.raises(tk.ParseError, match=message):
                tk.metrics.teds(*side)
            assert tk.metrics.teds(*side, errors="zero").tolist() == [1.0, 0.0]
        assert tk.metrics.teds(text, table, errors="zero") == 0.0
    scores = tk.metrics.teds(["", table, ""], [table, "", table], errors="zero")
    assert scores.tolist() == [0.0] * 3
    for no_tables in ([], tk.Forest()):
        with pytest.raises(
            ValueError, match="predicted has no tables, expected at least"
        ):
            tk.metrics.teds(no_tables, no_tables)
    with pytest.raises(ValueError, match="true has 1 table, expected 2, as predicted"):
        tk.metrics.teds([table, table], [table])
    with pytest.raises(
        ValueError, match="size must be 'tree' or 'elements', got 'rows'"
    ):
        tk.metrics.teds(table, table, size="rows")
    with pytest.raises(
        ValueError, match="errors must be 'raise' or 'zero', got 'skip'"
    ):
        tk.metrics.teds(table, table, errors="skip")
    with pytest.raises(tk.ParseError, match="expected a table, got an empty text"):
        tk.metrics.table_trees("")


@needs_lxml
def test_scores_do_not_depend_on_threads_or_on_other_tables():
    pairs = table_pairs(60)
    predicted, true = (list(side) for side in zip(*pairs, strict=True))
    scores = tk.metrics.teds(predicted, true, n_jobs=1)
    assert np.array_equal(tk.metrics.teds(predicted, true, n_jobs=2), scores)
    assert [tk.metrics.teds(*pair) for pair in pairs] == scores.tolist()
    back = tk.metrics.teds(true, predicted)
    assert np.array_equal(back, scores)
    matrix = tk.EditDistance("cells", normalize="max")(
        tk.metrics.table_trees(predicted), tk.metrics.table_trees(true)
    )
    assert np.array_equal(1 - np.diag(matrix), scores)


# --- Code ----------------------------------------------------------------------------

JAVA = [
    "class A { int f(int x) { return x + 1; } }",
    "class B { int g(int x, int y) { return x * y; } }",
    "class A { void f() { for (int i = 0; i < 9; i++) { g(i); } /* all */ } }",
    "",
]


def test_tsed_is_one_less_edits_by_the_nodes_of_the_larger_tree():
    # By hand: one node of three is deleted; all are; a chain becomes a star.
    trees = ["(a (b) (c))", "(a)", "(a (b (c (d))))"]
    others = ["(a (b))", "(b (c) (d))", "(a (b) (c) (d))"]
    unit = [2 / 3, 0.0, 0.0]
    assert tk.metrics.tsed(trees, others) == pytest.approx(unit, abs=1e-15)
    assert tk.metrics.tsed(trees[0], others[0]) == pytest.approx(2 / 3)
    weighted = tk.metrics.tsed(trees, others, insert=0.5, delete=0.25, rename=3)
    # (a) is deleted where it could be renamed, and three are inserted.
    by_hand = [1 - 0.25 / 3, 1 - 1.75 / 3, 1 - 1.5 / 4]
    assert weighted == pytest.approx(by_hand, abs=1e-15)
    with pytest.raises(ValueError, match="predicted has no trees"):
        tk.metrics.tsed([], [])
    with pytest.raises(ValueError, match="true has 2 trees, expected 3"):
        tk.metrics.tsed(trees, others[:2])


def test_code_is_compared_by_types_of_nodes():
    pytest.importorskip("tree_sitter_java")
    assert tk.metrics.tsed("int x = 1;", "int y = 2;", "java") == 1.0
    # Of eight nodes, an operation and a number are inserted.
    assert tk.metrics.tsed("int x = y;", "int x = 1 + y;", "java") == 0.75
    scores = tk.metrics.tsed(JAVA, JAVA[::-1], "java", n_jobs=2)
    # At unit costs the way back costs the same.
    assert scores.tolist() == scores[::-1].tolist()
    assert len({*scores.tolist()}) == 2
    with pytest.raises(tk.ParseError, match="item 1, line 1"):
        tk.metrics.tsed(JAVA[:2], [JAVA[0], "class {"], "java")
    found = tk.metrics.tsed(JAVA[:2], [JAVA[0], "class {"], "java", errors="zero")
    assert found.tolist() == [1.0, 0.0]


def test_tsed_is_that_of_the_published_package(monkeypatch):
    """But for comments, and its names of nodes: of the last field, not of the type."""
    published = pytest.importorskip("TSED", reason="tsed is not installed")
    ts = pytest.importorskip("tree_sitter")
    grammar = pytest.importorskip("tree_sitter_java")
    parser = ts.Parser(ts.Language(grammar.language()))

    def parse(language, text):
        root = parser.parse(text.encode()).root_node
        nodes = re.sub(r"\w+: | \(block_comment\)", "", str(root))
        return SimpleNamespace(root_node=nodes)

    monkeypatch.setattr(published, "_parse", parse)
    for delete, insert, rename in ((1, 1, 1), (1, 0.8, 1), (0.5, 0.7, 0.9)):
        costs = {"delete": delete, "insert": insert, "rename": rename}
        for a in JAVA:
            for b in JAVA:
                expected = published.Calculate("java", a, b, delete, insert, rename)
                found = tk.metrics.tsed(a, b, "java", **costs)
                assert found == pytest.approx(expected, abs=1e-12)


# --- Phylogenies ---------------------------------------------------------------------


def some_phylogeny(taxa: list[str], rng: random.Random, only: float = 0.0) -> str:
    """Make a tree with lengths, some of its nodes with several children, or with one."""

    def branch(text: str) -> str:
        if rng.random() < only:
            text = f"({branch(text)})"
        return f"{text}:{rng.choice([0, 1, 0.25, rng.random()])}"

    nodes = [branch(taxon) for taxon in taxa]
    n_below_root = rng.choice([2, 2, 3, 4])
    while len(nodes) > n_below_root:
        rng.shuffle(nodes)
        n = min(rng.choice([2, 2, 2, 3]), len(nodes) - 1)
        nodes = [*nodes[n:], branch(f"({','.join(nodes[:n])})")]
    return f"({','.join(nodes)}){rng.choice(['', '', ':0.5'])};"


def phylogeny_pairs(n: int, only: float) -> list[tuple[str, str]]:
    """Make pairs of trees with the same taxa; some of them share large parts."""
    rng = random.Random(29)
    pairs = []
    for _ in range(n):
        taxa = [f"t{i}" for i in range(rng.choice([3, 4, 6, 10, 25]))]
        group = taxa[: len(taxa) // 2]
        tree, other = (some_phylogeny(taxa, rng, only) for _ in "ab")
        if rng.random() < 0.5 and len(group) > 1:
            # One subtree in the place of one taxon of both.
            part = some_phylogeny([f"u{name}" for name in group], rng).rpartition(")")[
                0
            ]
            tree, other = (
                re.sub(r"\bt0\b", f"{part})", text) for text in (tree, other)
            )
        pairs.append((tree, other))
    return pairs


@pytest.mark.parametrize("rooted", [False, True])
def test_robinson_foulds_is_that_of_dendropy(rooted):
    dendropy = pytest.importorskip("dendropy")
    from dendropy.calculate import treecompare

    # Below an unrooted root, DendroPy takes one of two branches, not their sum, if there
    # is a node with one child.
    pairs = phylogeny_pairs(1_000, only=0.03 if rooted else 0.0)
    compared = {False: [], True: []}
    for pair in pairs:
        taxa = dendropy.TaxonNamespace()
        rooting = "force-rooted" if rooted else "force-unrooted"
        trees = [
            dendropy.Tree.get(
                data=text, schema="newick", rooting=rooting, taxon_namespace=taxa
            )
            for text in pair
        ]
        compared[False].append(treecompare.symmetric_difference(*trees))
        compared[True].append(treecompare.weighted_robinson_foulds_distance(*trees))
    for weighted, expected in compared.items():
        found = [
            tk.metrics.robinson_foulds(a, b, rooted=rooted, weighted=weighted)
            for a, b in pairs
        ]
        assert found == pytest.approx(expected, abs=0 if not weighted else 1e-12)
        assert len({round(value, 6) for value in found}) > 20


def groups(text: str, *, rooted: bool) -> set[frozenset[str]]:
    """List the clades of a tree by its text, or the parts of its splits without taxon a."""
    found, opened = [], []
    for at, char in enumerate(text):
        if char == "(":
            opened.append(at)
        elif char == ")":
            found.append(frozenset(re.findall(r"\w+", text[opened.pop() : at])))
    everything = frozenset(re.findall(r"\w+", text))
    if not rooted:
        found = [everything - group if "a" in group else group for group in found]
    largest = len(everything) - (1 if rooted else 2)
    return {group for group in found if 2 <= len(group) <= largest}


@pytest.mark.parametrize("rooted", [False, True])
def test_robinson_foulds_is_its_definition(rooted):
    rng = random.Random(30)
    texts = [
        re.sub(r":[\de.-]+", "", some_phylogeny(list("abcdefg"), rng))
        for _ in range(40)
    ]
    of = [groups(text, rooted=rooted) for text in texts]
    counts = np.array([[len(x ^ y) for y in of] for x in of])
    sizes = np.array([[len(x) + len(y) for y in of] for x in of])
    found = tk.metrics.robinson_foulds(texts, rooted=rooted, n_jobs=2)
    assert np.array_equal(found, counts)
    divided = tk.metrics.robinson_foulds(texts, rooted=rooted, normalize=True)
    assert divided == pytest.approx(counts / np.maximum(sizes, 1), abs=1e-15)
    # By a forest, a tree, a second list, and with children in another order.
    forest = tk.readers.newick(text="\n".join(texts)).forest
    assert np.array_equal(tk.metrics.robinson_foulds(forest, rooted=rooted), counts)
    half = tk.metrics.robinson_foulds(texts[:9], forest.sorted(), rooted=rooted)
    assert np.array_equal(half, counts[:9])
    assert (
        tk.metrics.robinson_foulds(forest[1], texts[2], rooted=rooted) == counts[1, 2]
    )


def test_lengths_are_added_up():
    a, b = "((a:1,b:2):3,c:4,d);", "((a:1,c:2):5,b:7,d:1);"
    weighted = {"weighted": True}
    # Without ab and ac in common: 3 + 5; a 0, b 5, c 2, d 1.
    assert tk.metrics.robinson_foulds(a, b, **weighted) == 16.0
    assert tk.metrics.robinson_foulds(a, b, normalize=True, **weighted) == 16 / 26
    # Both branches below an unrooted root are one.
    split, joined = "((a:1,b:1):2,(c:1,d:1):3);", "((a:1,b:1):5,c:1,d:1);"
    assert tk.metrics.robinson_foulds(split, joined, **weighted) == 0.0
    assert tk.metrics.robinson_foulds(split, joined, rooted=True, **weighted) == 6.0
    kept = tk.readers.newick(text=a + b, lengths="keep").forest
    matrix = tk.metrics.robinson_foulds(kept, **weighted, n_jobs=1)
    assert matrix.tolist() == [[0.0, 16.0], [16.0, 0.0]]
    with pytest.raises(
        ValueError, match=r"end with .:. and a finite length or .* got .n."
    ):
        tk.metrics.robinson_foulds(tk.Forest(["(n a b)"]), weighted=True)


@pytest.mark.parametrize(
    ("trees", "message"),
    [
        (
            ["(a,b);", "(a,c);"],
            r"X\[1\]: expected the taxa of X\[0\], got the extra taxon 'c'",
        ),
        (
            ["(a,b,c);", "(a,b);"],
            r"X\[1\]: expected the taxa of X\[0\], got none called 'c'",
        ),
        (["(a,b,a);", "(a,b);"], r"X\[0\]: expected each taxon once, got 'a' twice"),
        (["(a,b);", "(a,b,b);"], r"X\[1\]: expected each taxon once, got 'b' twice"),
        (["(a,b);(b,a);"], "one tree in each of 1 texts, got 2: .* readers.newick"),
        (["(a,b);", "(a,b"], "item 1, line 1"),
    ],
)
def test_other_taxa_are_refused(trees, message):
    for weighted in (False, True):
        with pytest.raises(ValueError, match=message):
            tk.metrics.robinson_foulds(trees, weighted=weighted)
    if len(trees) == 2:
        message = message.replace(r"X\[1\]", r"Y\[0\]").replace("item 1, ", "")
        with pytest.raises(ValueError, match=message):
            tk.metrics.robinson_foulds(trees[0], trees[1])


def test_small_and_no_trees_have_distances():
    assert tk.metrics.robinson_foulds([]).shape == (0, 0)
    assert tk.metrics.robinson_foulds(["a;"], ["a;", "(a);"]).tolist() == [[0.0, 0.0]]
    assert tk.metrics.robinson_foulds("(a,b);", "(b,a);", normalize=True) == 0.0
    caterpillar = "(" * 3_000 + "t0" + "".join(f",t{i})" for i in range(1, 3_001)) + ";"
    assert tk.metrics.robinson_foulds(caterpillar, caterpillar) == 0.0


def test_a_path_and_a_reading_are_refused_with_what_to_give(tmp_path):
    path = tmp_path / "tree.nwk"
    path.write_text("(a,b);")
    reading = tk.readers.newick(path)
    wrong = {
        path: "give the text of the file, or the .forest of a reader",
        reading: "Reading: give its .forest",
        3: "expected texts, a Forest or a list of Tree, got int$",
    }
    for given, message in wrong.items():
        for score in (tk.metrics.teds, tk.metrics.tsed):
            with pytest.raises(TypeError, match=f"^predicted: .*{message}"):
                score(given, tk.Forest(["(a)"]))
            with pytest.raises(TypeError, match=f"^true: .*{message}"):
                score(tk.Forest(["(a)"]), given)
        with pytest.raises(TypeError, match=f"^X: .*{message}"):
            tk.metrics.robinson_foulds(given)
        with pytest.raises(TypeError, match=f"^Y: .*{message}"):
            tk.metrics.robinson_foulds("(a,b);", given)
    assert tk.metrics.robinson_foulds(reading.forest, path.read_text()) == [[0.0]]
