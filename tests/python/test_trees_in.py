"""Trees from everywhere: objects, columns, files; and forests made of forests."""

import ast
import functools
import io
import json
import random
import sys
import time
import xml.etree.ElementTree as ET
from collections import Counter

import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

import treekernel_rs as tk


def brackets(objects, **options):
    return tk.Forest.from_trees(objects, **options).to_brackets()


# --- Forest(x) ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "trees",
    [
        "(S a) (b)",
        b"(S a) (b)",
        ["(S a)", "(b)"],
        [("S", ["a"]), ("b", [])],
        tk.Forest("(S a) (b)"),
        np.array(["(S a)", "(b)"]),
        (tree for tree in ["(S a)", "(b)"]),
    ],
)
def test_a_forest_is_made_of_whatever_is_read(trees):
    assert tk.Forest(trees).to_brackets() == ["(S a)", "(b)"]


def test_a_forest_of_nothing_is_empty():
    assert len(tk.Forest()) == 0


@pytest.mark.parametrize("one", [3, {"a": 1}, ET.Element("a"), ast.parse("x")])
def test_one_tree_is_not_taken_for_a_list(one):
    with pytest.raises(TypeError, match="expected"):
        tk.Forest(one)
    if hasattr(one, "__iter__"):
        with pytest.raises(TypeError, match="put it in a list"):
            tk.Forest.from_trees(one)


SEVERAL = {
    "strings": ["(S a)", "(S b)"],
    "one string": [" (S a)"],
    "bytes": (b"(S a)", b"(S b)"),
    "trees": list(tk.Forest(["(S a)", "(S b)"])),
    "forests": [tk.Forest(["(S a)"])],
    "a forest": tk.Forest(["(S a)", "(S b)"]),
}


@pytest.mark.parametrize("name", SEVERAL)
def test_several_trees_are_not_taken_for_one(name):
    """A list of trees would be an array of JSON."""
    trees, model = SEVERAL[name], tk.DagModel(tk.SubsetTreeKernel())
    uses = {
        "draw": tk.draw,
        "pair": lambda tree: tk.SubsetTreeKernel().pair("(S a)", tree),
        "gradient": lambda tree: tk.SubsetTreeKernel().pair(tree, "a", gradient=True),
        "contributions": model.contributions,
        "fragment": tk.DistributedTrees(n_components=64).fragment,
    }
    for use in uses.values():
        with pytest.raises(TypeError, match=r"expected one tree, got a \w+"):
            use(trees)


def test_a_str_that_is_no_text_is_no_tree_and_no_index():
    wild = str(np.array([0x45000000] * 2, "<u4").view("<U2")[0])
    with pytest.raises(ValueError, match="expected Unicode text"):
        tk.draw([wild])
    with pytest.raises(IndexError, match="expected one index"):
        tk.Forest(["(S a)"])[(wild,)]


@pytest.mark.parametrize("array", [[], ["a", "b"], [["a"], 1], ["(S a)", {"b": 1}]])
def test_arrays_of_json_are_one_tree(array):
    tree = tk.Forest.from_trees([array])[0]
    assert tree.label == "array"
    k = tk.SubsetTreeKernel(leaf_weight=1.0)
    assert k.pair(array, array) == k.pair(tree, tree)
    assert str(tk.draw(array)) == str(tk.draw(tree))


# --- Columns and wrong items ----------------------------------------------------------


def test_wrong_items_are_skipped_and_told():
    items = ["(S a)", "()", None, b"(b \xff)", "\ud800", "(S (c", "(S a)"]
    forest, skipped = tk.Forest.from_brackets(items, errors="skip")
    assert forest.to_brackets() == ["(S a)", "(S a)"]
    assert [error.tree for error in skipped] == [1, 2, 3, 4, 5]
    assert skipped[1].expected == "str or bytes"
    assert skipped[1].got == "NoneType"
    assert all(isinstance(error, tk.ParseError) for error in skipped)
    # Nothing of what was left out is kept.
    assert forest.nbytes <= tk.Forest(["(S a)", "(S a)"]).nbytes
    assert set(forest.labels) == {"S", "a"}


@given(st.lists(st.sampled_from(["(a)", "(a (b c))", "(", "", "((a))", "(b b)", "x"])))
def test_skipping_leaves_what_single_calls_read(items):
    forest, skipped = tk.Forest.from_brackets(items, errors="skip")
    good, bad = [], []
    for at, item in enumerate(items):
        try:
            good += tk.Forest.from_brackets([item]).to_brackets()
        except tk.ParseError as error:
            bad.append((at, error.offset, error.expected))
    assert forest.to_brackets() == good
    assert [(e.tree, e.offset, e.expected) for e in skipped] == bad


def test_one_text_cannot_be_skipped_through():
    with pytest.raises(ValueError, match="one text per tree"):
        tk.Forest.from_brackets("(S a) (", errors="skip")
    with pytest.raises(ValueError, match="errors must be 'raise' or 'skip'"):
        tk.Forest.from_brackets([], errors="ignore")


@pytest.mark.parametrize(
    "kind", ["pandas", "arrow pandas", "polars", "pyarrow", "numpy"]
)
def test_columns_are_read(kind):
    texts = ["(S a)", "(S (A é))", "(b)"]
    if kind == "numpy":
        if not hasattr(np.dtypes, "StringDType"):
            pytest.skip("numpy 2 has columns of text")
        column = np.array(texts, dtype=np.dtypes.StringDType())
    elif kind == "polars":
        column = pytest.importorskip("polars").Series(texts)
    elif kind == "pyarrow":
        pa = pytest.importorskip("pyarrow")
        column = pa.chunked_array([texts[:2], texts[2:]])
        assert tk.Forest(pa.array(texts)).to_brackets() == texts
    else:
        pandas = pytest.importorskip("pandas")
        if kind == "arrow pandas":
            pytest.importorskip("pyarrow")
        dtype = "string[pyarrow]" if kind == "arrow pandas" else object
        column = pandas.Series(texts, dtype=dtype)
    assert tk.Forest.from_brackets(column).to_brackets() == texts
    assert tk.Forest(column).to_brackets() == texts


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "reader"])
def test_tables_are_refused_by_name(kind):
    texts = {"tree": ["(S a)", "(b)"]}
    if kind == "reader":
        table = pytest.importorskip("pyarrow").table(texts).to_reader()
    elif kind == "pyarrow":
        table = pytest.importorskip("pyarrow").table(texts)
    else:
        table = pytest.importorskip(kind).DataFrame(texts)
    message = f"got the table {type(table).__name__}; give one of its columns"
    with pytest.raises(TypeError, match=message):
        tk.Forest(table)
    with pytest.raises(TypeError, match=message):
        tk.Forest.from_brackets(table)


def test_a_missing_value_of_a_column_is_refused_or_skipped():
    pa = pytest.importorskip("pyarrow")
    column = pa.array(["(a)", None, "(b)"])
    with pytest.raises(TypeError, match="tree 1: expected str or bytes, got NoneType"):
        tk.Forest.from_brackets(column)
    forest, skipped = tk.Forest.from_brackets(column, errors="skip")
    assert (len(forest), [e.tree for e in skipped]) == (2, [1])


# --- Objects --------------------------------------------------------------------------


class Part:
    def __init__(self, kind, parts=()):
        self.kind, self.parts = kind, list(parts)

    def below(self):
        return self.parts


def test_any_class_is_read_by_two_names_or_callables():
    tree = Part("a", [Part("b"), Part("c", [Part("b")])])
    for options in (
        {"label": "kind", "children": "parts"},
        {"label": lambda part: part.kind, "children": "below"},
    ):
        assert brackets([tree], **options) == ["(a b (c b))"]
    with pytest.raises(TypeError, match="children must be a callable or the name"):
        brackets([tree], children=3)
    with pytest.raises(AttributeError, match="label"):
        brackets([tree], children="parts")
    with pytest.raises(TypeError, match="expected a label that is a str, got int"):
        brackets([Part(3)], label="kind", children="parts")
    with pytest.raises(ZeroDivisionError):
        brackets([tree], label=lambda _: 1 / 0, children="parts")


def test_a_cyclic_object_is_refused():
    part = Part("a", [Part("b")])
    part.parts[0].parts.append(part)
    with pytest.raises(ValueError, match=r"tree 1: .* contains itself"):
        brackets([Part("x"), part], label="kind", children="parts")
    loop = {"a": []}
    loop["a"].append(loop)
    with pytest.raises(ValueError, match="contains itself"):
        brackets([loop])


def test_a_shared_object_is_read_once():
    reads = Counter()

    def children(part):
        reads[id(part)] += 1
        return part.parts

    tree = Part("leaf")
    for _ in range(60):
        tree = Part("x", [tree, tree])
    forest = tk.Forest.from_trees([tree], label="kind", children=children)
    assert forest[0].n_nodes == 2**61 - 1
    assert set(reads.values()) == {1}


def test_order_makes_unordered_trees_equal():
    trees = [("a", ["c", ("b", ["x", "y"])]), ("a", [("b", ["y", "x"]), "c"])]
    assert brackets(trees, order="sorted") == ["(a (b x y) c)"] * 2
    with pytest.raises(ValueError, match="order must be"):
        brackets(trees, order="random")


def test_known_classes_are_read():
    assert brackets([ast.parse("a + 1").body[0]]) == [
        "(Expr (BinOp (Name a) Add (Constant int)))"
    ]
    xml = "<a><b x='1'>text</b><!-- no --><c/></a>"
    assert brackets([ET.fromstring(xml), ET.ElementTree(ET.fromstring("<d/>"))]) == [
        "(a (b @x #text) c)",
        "(d)",
    ]
    value = json.loads('{"a": [1, 2.5, "x y", null, true, {}], "b": {"c": []}}')
    assert brackets([value, [1]]) == [
        "(object (a (array 1 2.5 x\\ y null true object)) (b (object (c array))))",
        "(array 1)",
    ]


def shown_model(model, node):
    """Write a decision tree, node by node."""
    tree = model.tree_
    if tree.children_left[node] < 0:
        value = tree.value[node][0]
        is_class = hasattr(model, "classes_")
        return str(model.classes_[value.argmax()]) if is_class else f"{value[0]:.3g}"
    sides = tree.children_left[node], tree.children_right[node]
    below = " ".join(shown_model(model, side) for side in sides)
    return f"(x{tree.feature[node]} {below})"


@pytest.mark.filterwarnings("ignore")
def test_trees_of_packages_are_read():
    read = []

    def package(name):
        try:
            __import__(name)
        except ImportError:
            return None
        read.append(name)
        return sys.modules[name]

    if lxml := package("lxml.etree"):
        assert brackets([lxml.fromstring("<a><b/><!-- c --></a>")]) == ["(a b)"]
    if networkx := package("networkx"):
        graph = networkx.DiGraph([(1, 2), (1, 3), (3, 4)])
        graph.nodes[4]["label"] = "x"
        assert brackets([graph]) == ["(1 2 (3 x))"]
        for edges in ([(1, 2), (2, 1)], [(1, 2), (3, 2)], [(1, 2), (2, 3), (3, 2)]):
            with pytest.raises(ValueError, match="tree 0: expected a networkx graph"):
                brackets([networkx.DiGraph(edges)])
        # As many edges as a tree has, but a cycle beside the root.
        apart = networkx.DiGraph([(2, 3), (3, 2)])
        apart.add_node(1)
        with pytest.raises(ValueError, match="1 roots, 3 nodes and 2 edges"):
            brackets([apart])
        with pytest.raises(ValueError, match="directed"):
            brackets([networkx.path_graph(3)])
    if anytree := package("anytree"):
        root = anytree.Node("a")
        anytree.Node("b", parent=root)
        assert brackets([root]) == ["(a b)"]
    if bigtree := package("bigtree"):
        assert brackets([bigtree.list_to_tree(["a/b", "a/c/d"])]) == ["(a b (c d))"]
    if dendropy := package("dendropy"):
        tree = dendropy.Tree.get(data="((A,B)x,C);", schema="newick")
        assert brackets([tree, tree.seed_node]) == ["(node (x A B) C)"] * 2
    if conllu := package("conllu"):
        text = "1\tdogs\tdog\tNOUN\tNNS\t_\t2\tnsubj\t_\t_\n"
        text += "2\tbark\tbark\tVERB\tVBP\t_\t0\troot\t_\t_\n\n"
        expected = "(SYNT##root (SYNT##nsubj (POS##NNS LEX##dog::n)) "
        expected += "(POS##VBP LEX##bark::v))"
        sentence = conllu.parse(text)[0]
        assert brackets([sentence, sentence.to_tree()]) == [expected] * 2
    if package("sklearn.tree"):
        from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

        model = DecisionTreeClassifier().fit([[0, 0], [0, 1], [0, 3]], ["a", "b", "b"])
        assert brackets([model]) == ["(x1 a b)"]
        X = [[k, k % 7] for k in range(60)]
        y = np.arange(60) * 13 % 11
        for kind in (DecisionTreeClassifier, DecisionTreeRegressor):
            for most in (None, 9):  # depth-first, and the best first
                model = kind(max_leaf_nodes=most).fit(X, y)
                assert brackets([model]) == [shown_model(model, 0)]
    if package("Bio.Phylo"):
        from Bio import Phylo

        tree = Phylo.read(io.StringIO("((A,B)x,C);"), "newick")
        assert brackets([tree, tree.root]) == ["(node (x A B) C)"] * 2
    if ete3 := package("ete3"):
        tree = ete3.Tree("((A,B)x,C);", format=1)
        assert brackets([tree]) == ["(node (x A B) C)"]
    if libcst := package("libcst"):
        assert brackets([libcst.parse_module("x = f(1)\n")]) == [
            "(Module (SimpleStatementLine (Assign (AssignTarget (Name x)) "
            "(Call (Name f) (Arg (Integer 1))))))"
        ]
    if spacy := package("spacy"):
        options = {"heads": [1, 1, 2], "deps": ["nsubj", "ROOT", "ROOT"]}
        options |= {"tags": ["NNS", "VBP", "UH"], "lemmas": ["dog", "bark", "hey"]}
        words, starts = ["Dogs", "bark", "Hey"], [True, False, True]
        doc = spacy.tokens.Doc(
            spacy.blank("en").vocab, words, sent_starts=starts, **options
        )
        assert brackets(doc.sents) == [
            "(SYNT##ROOT (SYNT##nsubj (POS##NNS LEX##dog::n)) (POS##VBP LEX##bark::v))",
            "(SYNT##ROOT (POS##UH LEX##hey::u))",
        ]
        with pytest.raises(ValueError, match="tree 0: expected one root"):
            brackets([doc])
        # As benepar does.
        spacy.tokens.Span.set_extension(
            "parse_string", getter=lambda _: "(S (X -LRB-))"
        )
        assert brackets(doc.sents) == ["(S (X -LRB-))"] * 2
        spacy.tokens.Span.remove_extension("parse_string")
    assert read or pytest.skip("none of the packages is installed")


@pytest.mark.slow
def test_a_million_objects_are_read_in_two_seconds():
    parts = [Part(str(k % 100)) for k in range(250_000)]
    for at, part in enumerate(parts[1:], 1):
        parts[(at - 1) // 3].parts.append(part)
    start = time.process_time()
    tk.Forest.from_trees([parts[0]], label="kind", children="parts")
    # Four times as many in 2 s; twice that where caches are shared.
    assert time.process_time() - start < 1.0


# --- Transformations ------------------------------------------------------------------


def rebuilt(tree, rule):
    """Apply a rule to a tree of the oracle's, bottom-up: the slow twin."""
    label, children = tree
    below = [new for child in children for new in rebuilt(child, rule)]
    return rule(label, below)


def by_oracle(forest, rule):
    """The trees as the slow twin has them; a root cannot go."""
    out = []
    for tree in forest:
        new = rebuilt(tree, rule)
        out.append(new[0] if len(new) == 1 else (tree[0] if new else "", tuple(new)))
    return out


def built(forest):
    return tk.Forest.from_brackets([oracle.show(tree) for tree in forest])


def shown(forest):
    return [oracle.show(tree) for tree in forest]


@given(oracle.forests)
def test_relabelled_forests_are_the_slow_ones(forest):
    def new(label):
        return label[:1] + "!"

    expected = by_oracle(forest, lambda label, below: [(new(label), tuple(below))])
    assert built(forest).relabel(new).to_brackets() == shown(expected)


@given(oracle.forests, st.booleans())
def test_collapsed_forests_are_the_slow_ones(forest, count):
    def collapse(label, below):
        runs = []
        for child in below:
            if runs and runs[-1][0] == child:
                runs[-1][1] += 1
            else:
                runs.append([child, 1])
        kept = [(f"*{n}", (c,)) if count and n > 1 else c for c, n in runs]
        return [(label, tuple(kept))]

    got = built(forest).collapse_repeats(count=count)
    assert got.to_brackets() == shown(by_oracle(forest, collapse))


@given(oracle.forests, st.booleans())
def test_pruned_forests_are_the_slow_ones(forest, keep):
    def goes(label):
        return len(label) % 2 == 0

    def prune(label, below):
        if not goes(label):
            return [(label, tuple(below))]
        return below if keep else []

    got = built(forest).prune(goes, keep_children=keep)
    assert got.to_brackets() == shown(by_oracle(forest, prune))


@given(
    oracle.forests, st.integers(0, 4), st.booleans(), st.sampled_from(["right", "left"])
)
def test_binarized_forests_are_the_slow_ones(forest, least, named, branching):
    def is_list(label):
        return not named or len(label) % 2 == 0

    def chain(label, below):
        if len(below) == 1:
            return label, tuple(below)
        if branching == "right":
            return label, (below[0], chain(label, below[1:]))
        return label, (chain(label, below[:-1]), below[-1])

    def binarize(label, below):
        if len(below) >= max(least, 2) and is_list(label):
            return [chain(label, below)]
        return [(label, tuple(below))]

    got = built(forest).binarize(
        is_list if named else None, min_children=least, branching=branching
    )
    assert got.to_brackets() == shown(by_oracle(forest, binarize))


def test_branching_is_right_or_left():
    forest = tk.Forest("(S a b)")
    with pytest.raises(ValueError, match="must be 'right' or 'left', got 'up'"):
        forest.binarize(branching="up")
    with pytest.raises(OverflowError):
        forest.binarize(min_children=-1)


@given(oracle.forests, st.randoms())
def test_sorted_forests_do_not_depend_on_the_order_of_children(forest, rng):
    def shuffle(label, below):
        return [(label, tuple(rng.sample(below, len(below))))]

    shuffled = by_oracle(forest, shuffle)
    ours, other = built(forest).sorted(), built(shuffled).sorted()
    assert ours == other
    assert ours.sorted() == ours

    def canonical(tree):
        return tree[0], tuple(sorted(map(canonical, tree[1])))

    # Equal when sorted exactly if they are equal as unordered trees.
    keys = [canonical(tree) for tree in [*forest, *shuffled]]
    both = tk.Forest.concat([ours, other])
    indptr, ids = both.subtree_ids()
    roots = ids[indptr[:-1]].tolist()
    for i in range(min(len(keys), 8)):
        for j in range(i):
            assert (keys[i] == keys[j]) == (roots[i] == roots[j])


def test_transformations_are_linear_in_distinct_subtrees():
    # 2^61 nodes in 61 subtrees.
    tree = functools.reduce(lambda below, k: (f"n{k}", [below, below]), range(60), "a")
    forest = tk.Forest.from_trees([tree])
    assert forest.sorted() == forest
    assert forest.collapse_repeats()[0].n_nodes == 61
    assert forest.relabel(str.upper)[0].label == "N59"
    assert forest.prune({"n0"})[0].n_nodes == 2**59 - 1
    assert forest.binarize(min_children=3) == forest
    assert forest.binarize({"n0"})[0].n_nodes == 2**61 - 1 + 2**59
    with pytest.raises(ValueError, match="the forest would have"):
        forest.prune(lambda label: label != "a", keep_children=True)
    wide = tk.Forest("(a" + " b" * 1_000_000 + ")").binarize()
    assert (wide[0].depth, wide[0].n_nodes) == (1_000_001, 2_000_000)
    deep = tk.Forest("(a" * 100_000 + ")" * 100_000)
    for made in (
        deep.sorted(),
        deep.collapse_repeats(),
        deep.relabel({}),
        deep.binarize(),
    ):
        assert made == deep


def test_what_relabel_returns_is_checked():
    forest = tk.Forest("(S a)")
    with pytest.raises(TypeError, match="label 'a': expected a str for it, got int"):
        forest.relabel({"a": 3})
    with pytest.raises(ZeroDivisionError):
        forest.relabel(lambda label: 1 // 0)


# --- Concatenation, size, files -------------------------------------------------------


@given(st.lists(oracle.forests, max_size=4))
def test_shards_are_joined_as_by_plus(forests):
    forests = [built(forest) for forest in forests]
    forests += forests[:1]
    joined = tk.Forest.concat(forests)
    assert joined == sum(forests, tk.Forest())
    with pytest.raises(TypeError):
        tk.Forest.concat([*forests, "(S a)"])


TEXTS = ["(S (A a) (B b))", "(S (A a) (B c))", "(S (C c) (B b))", "(A a)"]
SST = tk.SubsetTreeKernel(0.4)


def columns(trees):
    return tk.TreeVectorizer("edges").fit_transform(trees).toarray()


def learnt(trees):
    return tk.TreeSVC(SST).fit(trees, [0, 0, 1, 1]).decision_function(trees)


def scored(trees):
    return tk.DagModel.from_dual(SST, trees, [1, 2, -1, 1]).decision_function(trees)


@pytest.mark.parametrize(
    "use",
    [
        SST,
        SST.diag,
        lambda trees: SST(tk.Forest(TEXTS), trees),
        lambda trees: SST.index(trees).gram(trees),
        lambda trees: SST.top_k(trees, k=2).indices,
        tk.DistributedTrees(SST, 64).encode,
        scored,
        learnt,
        columns,
    ],
)
def test_whatever_takes_trees_takes_shards(use):
    shards = [tk.Forest(TEXTS[:1]), tk.Forest(TEXTS[1:3]), tk.Forest(TEXTS[3:])]
    np.testing.assert_array_equal(use(shards), use(TEXTS))
    assert tk.Forest(shards) == tk.Forest.concat(shards)
    # Those of one store, which stay as they are.
    whole = tk.Forest(TEXTS)
    np.testing.assert_array_equal(use([whole[:3], whole[3:]]), use(TEXTS))
    assert whole.to_brackets() == TEXTS


def test_shards_come_from_a_generator_and_are_checked():
    shards = (tk.Forest(text) for text in TEXTS)
    assert tk.Forest(shards).to_brackets() == TEXTS
    shards = (tk.Forest(text) for text in TEXTS)
    model = tk.TreeSVC(SST).fit(shards, [0, 0, 1, 1])
    assert len(model.predict(tk.Forest(text) for text in TEXTS)) == 4
    with pytest.raises(TypeError, match="shard 1: expected a Forest as the first"):
        tk.Forest([tk.Forest(TEXTS), "(S a)"])


def test_the_size_is_that_of_store_and_roots():
    forest = tk.Forest("(S (A a) (B b))" * 1000)
    assert sys.getsizeof(forest) >= forest.nbytes + 4 * len(forest)
    assert sys.getsizeof(forest[:1]) < sys.getsizeof(forest)


@given(oracle.forests)
def test_a_saved_forest_is_read_again(tmp_path_factory, forest):
    path = tmp_path_factory.mktemp("saved") / "a.forest"
    forest = built(forest)
    forest.save(path)
    assert tk.Forest.load(path) == forest
    assert [each.name for each in path.parent.iterdir()] == ["a.forest"]


def test_any_changed_byte_of_a_file_is_refused(tmp_path):
    path = tmp_path / "a.forest"
    forest = tk.Forest(["(S (A é) (B b))", "(A é)"])
    forest.save(path)
    good = path.read_bytes()
    rng = random.Random(0)
    for at in range(len(good)):
        bad = bytearray(good)
        bad[at] ^= 1 << rng.randrange(8)
        path.write_bytes(bad)
        with pytest.raises(ValueError, match=r"a\.forest: expected"):
            tk.Forest.load(path)
    for bad in (b"", good[:-1], good + b"x", good[:40], b"{}\n", b"[1]\n", b"9" * 5000):
        path.write_bytes(bad)
        with pytest.raises(ValueError, match=r"a\.forest: expected"):
            tk.Forest.load(path)


def test_a_later_version_is_refused(tmp_path):
    path = tmp_path / "a.forest"
    tk.Forest("(S a)").save(path)
    path.write_bytes(
        path.read_bytes().replace(b"treekernel_rs  1", b"treekernel_rs  2")
    )
    with pytest.raises(ValueError, match="expected format 1 or earlier, got 2"):
        tk.Forest.load(path)


def test_a_failed_save_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "a.forest"
    path.mkdir()
    with pytest.raises(IsADirectoryError):
        tk.Forest("(S a)").save(path)
    assert [each.name for each in tmp_path.iterdir()] == ["a.forest"]
