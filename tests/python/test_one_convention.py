"""A tree is the same, whether a reader has its text or `from_trees` the object."""

import ast
import io
import socket
import sys
import types
import warnings
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import treekernel_rs as tk
from treekernel_rs import readers

# --- One convention for each format ---------------------------------------------------

NEWICK = [
    "((a,b),c);",
    "((a:1,b:2)x:1,(c,d)95:3)root;",
    "((a,b)0.87,'it''s');",
    "((Homo_sapiens,'Pan paniscus')Hominini,Mus_musculus);",
    "a;",
]


@pytest.mark.parametrize("text", NEWICK)
def test_phylogenies_are_the_same_from_files_and_objects(text):
    expected = readers.newick(text=text).forest
    dendropy = pytest.importorskip("dendropy")
    tree = dendropy.Tree.get(data=text, schema="newick")
    assert tk.Forest([tree, tree.seed_node]) == expected + expected
    kept = dendropy.Tree.get(data=text, schema="newick", preserve_underscores=True)
    assert tk.Forest([kept]) == expected


@pytest.mark.parametrize("text", NEWICK[:4])
def test_phylogenies_of_biopython_and_ete_are_those_of_the_reader(text):
    expected = readers.newick(text=text).forest
    tested = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            from Bio import Phylo
        except ImportError:
            pass
        else:
            tested += 1
            assert tk.Forest([Phylo.read(io.StringIO(text), "newick")]) == expected
        try:
            from ete3 import Tree
        except ImportError:
            pass
        else:
            tested += 1
            if "''" not in text:  # a quote in a name, which ete3 does not read
                read = Tree(text, format=1, quoted_node_names=True)
                assert tk.Forest([read]) == expected
    if not tested:
        pytest.skip("neither Biopython nor ete3 is installed")


class Node:
    """A node with a name and children, as scikit-bio and ete have them."""

    def __init__(self, name, *children):
        self.name, self.children = name, list(children)


@pytest.mark.parametrize("module", ["skbio.tree._tree", "ete3.coretype.tree"])
def test_nodes_without_a_name_are_nodes_and_leaves(module):
    known = type("TreeNode", (Node,), {"__module__": module})
    tree = known(None, known("", known("a_1"), known("b")), known("95", known(None)))
    expected = readers.newick(text="((a_1,b),()95);").forest
    assert tk.Forest([tree]) == expected


XML = [
    '<r xmlns:x="u" b="1" a="2"> t <x:a x:k="v">one<!-- no --> two</x:a>tail<b/>\n</r>',
    "<a><!-- no -->text<?pi no?></a>",
    "<a> <b> </b> <c>x<d/>y</c> </a>",
]


@pytest.mark.parametrize("text", XML)
@pytest.mark.parametrize("comments", [False, True])
def test_xml_is_the_same_from_files_and_objects(text, comments):
    expected = readers.xml(text=text).forest
    builder = ET.TreeBuilder(insert_comments=comments, insert_pis=comments)
    root = ET.fromstring(text, ET.XMLParser(target=builder))
    assert tk.Forest([root, ET.ElementTree(root)]) == expected + expected
    etree = pytest.importorskip("lxml.etree")
    root = etree.fromstring(text, etree.XMLParser(remove_comments=not comments))
    assert tk.Forest([root, root.getroottree()]) == expected + expected
    first = expected[0].children[-1]
    if root[-1].tag == "c":  # of an element its tail is no part
        assert tk.Forest([root[-1]])[0] == first


def test_html_is_the_same_from_files_and_objects():
    html = pytest.importorskip("lxml.html")
    page = "<p class=x>one<!-- no --><b>two</b><form><input name=q></form>"
    expected = readers.html(text=page).forest
    document = html.document_fromstring(page)
    assert tk.Forest([document, document.getroottree()]) == expected + expected
    assert tk.Forest([document])[0].label == "html"


def test_a_comment_is_no_tree():
    with pytest.raises(ValueError, match="tree 0: expected an element of XML, got a c"):
        tk.Forest([ET.Comment("x")])


def test_elements_that_are_shared_or_contain_themselves_end():
    loop = ET.Element("a")
    loop.append(loop)
    with pytest.raises(ValueError, match="contains itself"):
        tk.Forest([loop])
    tree = ET.Element("leaf")
    for _ in range(50):
        above = ET.Element("x")
        above.extend([tree, tree])
        tree = above
    assert tk.Forest([tree])[0].n_nodes == 2**51 - 1


CODE = """
class A:
    "Documented."
    def f(self, x=1, *, y: int = 2.5):
        return f"{x!r} {y}" if x is not None else [b"z", ..., -1j]
"""


def test_python_is_the_same_from_files_and_objects():
    assert tk.Forest([ast.parse(CODE)]) == readers.python_ast(text=CODE).forest


def test_code_is_the_same_from_files_and_objects():
    ts = pytest.importorskip("tree_sitter")
    java = ts.Language(pytest.importorskip("tree_sitter_java").language())
    code = 'class A { /* no */ int f(int x) { return x + 1; } String s = "é"; }'
    tree = ts.Parser(java).parse(code.encode())
    assert tk.Forest([tree]) == readers.tree_sitter(text=code, language=java).forest


JSON = '{"a": [1, 2.50, 1e400, "x y", null, true], "b": {"c": [], "": {}}, "n": NaN}'


def test_json_is_the_same_from_files_and_objects():
    import json

    read = readers.json(text=[JSON, "[3]"]).forest
    assert tk.Forest([json.loads(JSON), [3]]) == read
    numbers = {"a": [np.int64(3), np.float64(2.5), np.float32(0.5), np.bool_(True)]}
    assert tk.Forest([numbers]).to_brackets() == ["(object (a (array 3 2.5 0.5 true)))"]
    keys = {1: 2, None: 3, False: 4, 1.5: 5}
    again = json.loads(json.dumps(keys))
    assert tk.Forest([keys]) == tk.Forest([again])


def test_sentences_are_the_same_from_files_and_objects():
    conllu = pytest.importorskip("conllu")
    text = (
        "1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_\n"
        "1\tDo\tdo\tAUX\tVB\t_\t3\taux\t_\t_\n"
        "2\tn't\tnot\tPART\t_\t_\t3\tadvmod:neg\t_\t_\n"
        "3\tGo\tgo\tVERB\tVB\t_\t0\troot\t_\t_\n\n"
    )
    sentence = conllu.parse(text)[0]
    expected = readers.conllu(text=text).forest
    assert tk.Forest([sentence, sentence.to_tree()]) == expected + expected


class Bracketed(list):
    """A tree as nltk has them: the list of its children."""

    def __init__(self, label, children=()):
        super().__init__(children)
        self._label = label

    def label(self):
        return self._label


def test_an_empty_bracket_around_a_tree_is_dropped_from_objects_too():
    inner = Bracketed("S", [Bracketed("A", ["a"])])
    expected = tk.Forest("( (S (A a)))")
    assert tk.Forest([Bracketed("", [inner])]) == expected
    assert tk.Forest([Bracketed("", [Bracketed("", [inner])])]) == expected
    # What could not be in a text stays: two trees, one node.
    kept = [Bracketed("", [inner, inner]), Bracketed("", ["S"])]
    assert tk.Forest(kept).to_brackets() == [r"(\e (S (A a)) (S (A a)))", r"(\e S)"]
    nltk = pytest.importorskip("nltk")
    assert tk.Forest([nltk.Tree.fromstring("( (S (A a)))")]) == expected


# --- Several trees in one object ------------------------------------------------------


def test_the_lists_of_dendropy_are_forests():
    dendropy = pytest.importorskip("dendropy")
    text = "((a,b),c);\n(a,(b,c));"
    trees = dendropy.TreeList.get(data=text, schema="newick")
    expected = readers.newick(text=text).forest
    assert tk.Forest(trees) == tk.Forest.from_trees(trees) == expected
    assert tk.SubsetTreeKernel(0.4)(trees).shape == (2, 2)


class Word:
    def __init__(self, text, id, head):
        self.text = self.lemma = text
        self.upos = self.xpos = self.deprel = "X"
        self.id, self.head = id, head


class Parsed:
    def __init__(self, *words):
        self.words, self.sentences = words, words


def test_the_documents_of_stanza_are_forests():
    there = {"__module__": "stanza.models.common.doc"}
    sentence = type("Sentence", (Parsed,), there)
    document = type("Document", (Parsed,), there)
    one, two = sentence(Word("a", 1, 0)), sentence(Word("b", 1, 2), Word("c", 2, 0))
    both = tk.Forest.from_trees([one, two])
    assert tk.Forest(document(one, two)) == both
    assert tk.Forest.from_trees(document(one, two)) == both


# --- What is no tree ------------------------------------------------------------------


@pytest.mark.parametrize(
    "columns",
    [{"a": ["(A a)", "(B b)"]}, {"n": [1.0, 2.0]}, {"a": ["(A a)"], "n": [[1.0, 2.0]]}],
)
def test_views_are_no_trees(columns):
    views = tk.kernels.Views(**columns)
    kernel = tk.SubsetTreeKernel(0.4)
    for made in (
        lambda: kernel(views),
        lambda: tk.Forest(views),
        lambda: tk.Forest.from_trees(views),
        lambda: tk.Forest(list(views)),
        lambda: tk.TreeSVC(kernel).fit(views, range(len(views))),
    ):
        with pytest.raises(TypeError, match=r"expected|must be"):
            made()


def test_a_table_is_not_read_by_the_names_of_its_columns():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"(tree)": ["(A a)"], "(b)": ["(B b)"]})
    for read in (tk.Forest, tk.Forest.from_brackets, tk.Forest.from_trees):
        with pytest.raises(TypeError, match="got the table DataFrame; give one of its"):
            read(table)
    assert tk.Forest(table["(tree)"]).to_brackets() == ["(A a)"]


@pytest.mark.parametrize(
    "value",
    [object(), {1}, b"x", (1, 2), np.ones(2), 1j, tk.SubtreeKernel(), types],
)
def test_nothing_becomes_a_tree_through_its_repr(value):
    for item in ([value], {"a": value}, {"a": [{"b": value}]}):
        with pytest.raises(TypeError, match="tree 1: expected a value of JSON, got"):
            tk.Forest([["a"], item])


def test_a_key_that_json_does_not_have_is_refused():
    with pytest.raises(TypeError, match="tree 0: expected a value of JSON, got tuple"):
        tk.Forest([{(1, 2): 3}])


def test_a_node_without_a_label_is_refused():
    networkx = pytest.importorskip("networkx")
    graph = networkx.DiGraph([((0, 1), (1, 2))])
    with pytest.raises(TypeError, match="label that is a str or a number, got tuple"):
        tk.Forest([graph])


# --- Trees that nothing was learned of ------------------------------------------------

X = ["(S (A a) (B b))", "(S (A a) (C c))", "(S (B b) (B b))", "(S (C c) (B b))"] * 2
Y = [0, 0, 1, 1] * 2
FOREIGN = ["(T (D d))", "(U u)"]
SST = tk.SubsetTreeKernel(0.4)

PREDICTING = [
    (lambda: tk.TreeSVC(SST), ["predict", "decision_function"]),
    (lambda: tk.TreeSVC(SST * SST), ["predict"]),
    (lambda: tk.TreePerceptron(SST), ["predict", "decision_function"]),
    (lambda: tk.TreePerceptron(SST, predict_with="vote"), ["predict"]),
    (lambda: tk.TreeLogisticRegression(SST), ["predict", "predict_proba"]),
    (lambda: tk.TreeSVR(SST), ["predict"]),
    (lambda: tk.TreeRidge(SST), ["predict"]),
    (lambda: tk.TreeRanker(SST), ["predict"]),
    (lambda: tk.TreeOneClassSVM(SST), ["predict", "score_samples"]),
    (lambda: tk.TreeKNeighborsClassifier(SST, 2), ["predict", "predict_proba"]),
    (lambda: tk.TreeKNeighborsRegressor(SST, 2), ["predict"]),
    (lambda: tk.TreeGram(SST), ["transform"]),
]


@pytest.mark.parametrize(("make", "methods"), PREDICTING)
def test_trees_of_which_nothing_was_learned_are_warned_of(make, methods):
    pytest.importorskip("sklearn")
    model = make().fit(X, Y)
    for method in methods:
        ask = getattr(model, method)
        with pytest.warns(
            UserWarning, match="no tree of X shares a label or produ"
        ) as w:
            ask(FOREIGN)
        assert len(w) == 1
        ask([*FOREIGN, "(Q (A a))"])  # an error, were it a warning
        ask(X)


def test_weights_that_cancel_are_no_reason_to_warn():
    pytest.importorskip("sklearn")
    model = tk.TreeSVC(tk.SubsetTreeKernel(0.4)).fit(["(S (A a))", "(S (B b))"], [0, 1])
    assert model.decision_function(["(T (A a) (B b))"]) == model.intercept_


# --- Grammars -------------------------------------------------------------------------


def test_grammars_of_the_pack_are_there_without_a_network(monkeypatch):
    pack = pytest.importorskip("tree_sitter_language_pack")
    monkeypatch.setitem(sys.modules, "tree_sitter_java", None)

    def refused(*_, **__):
        msg = "the network was used"
        raise AssertionError(msg)

    monkeypatch.setattr(socket, "socket", refused)
    assert pack
    tree = readers.tree_sitter(text="class A { int x = 1; }", language="java").forest[0]
    assert tree.label == "program"
    with pytest.raises(ValueError, match="has no grammar 'klingon'"):
        readers.tree_sitter(text="x", language="klingon")


def test_a_pack_that_downloads_grammars_is_refused(monkeypatch):
    pytest.importorskip("tree_sitter")
    pack = types.ModuleType("tree_sitter_language_pack")
    pack.get_language = lambda _: pytest.fail("the grammar was asked for")
    monkeypatch.setitem(sys.modules, "tree_sitter_language_pack", pack)
    monkeypatch.setattr("importlib.metadata.version", lambda _: "1.23.1")
    with pytest.raises(ImportError, match=r"got 1\.23\.1, which downloads them: pip"):
        readers.tree_sitter(text="x", language="fortran")
