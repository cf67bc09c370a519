"""Dependency trees: the worked examples, KeLP's own trees, another reader, bad input."""

from __future__ import annotations

import gzip
import io

import numpy as np
import pytest

import treekernel_rs as tk

conllu = tk.readers.conllu

CAT = """\
# sent_id = cat
# text = The cat runs over the grass.
1 The the DET DT _ 2 det _ _
2 cat cat NOUN NN _ 3 nsubj _ _
3 runs run VERB VBZ _ 0 root _ _
4 over over ADP IN _ 6 case _ _
5 the the DET DT _ 6 det _ _
6 grass grass NOUN NN _ 3 nmod _ SpaceAfter=No
7 . . PUNCT . _ 3 punct _ _
"""
FISH = """\
1 I I PRON PRP _ 4 nsubj 4:nsubj _
2-3 don't _ _ _ _ _ _ _ _
2 do do AUX VBP _ 4 aux 4:aux _
3 n't not PART RB _ 4 advmod 4:advmod _
4 eat eat VERB VB _ 0 root 0:root _
4.1 eat eat VERB VB _ _ _ 0:root _
5 ( ( PUNCT -LRB- _ 6 punct 6:punct SpaceAfter=No
6 raw raw ADJ JJ _ 8 amod 8:amod SpaceAfter=No
7 ) ) PUNCT -RRB- _ 6 punct 6:punct _
8 fish fish NOUN NN _ 4 obj 4:obj SpaceAfter=No
9 . . PUNCT . _ 4 punct 4:punct _
"""
# That sentence with brackets as the parser that tagged it wrote them.
FISH_LRB = FISH.replace("( ( ", "-LRB- -LRB- ").replace(") ) ", "-RRB- -RRB- ")
WHAT = """\
1 what what PRON WP _ 3 obj _ _
2 do do AUX VB _ 4 aux _ _
3 want want VERB VB _ 4 xcomp _ _
4 you you PRON PRP _ 0 root _ _
"""


def tabs(text):
    return "\n".join(
        line if line.startswith("#") else line.replace(" ", "\t")
        for line in text.split("\n")
    )


def one(text, scheme="grct", **options):
    (tree,) = conllu(text=tabs(text), scheme=scheme, **options).forest
    return tree


CASES = [
    (
        CAT,
        "grct",
        {},
        "(SYNT##root(SYNT##nsubj(SYNT##det(POS##DT(LEX##the::d)))(POS##NN(LEX##cat::n)))"
        "(POS##VBZ(LEX##run::v))(SYNT##nmod(SYNT##case(POS##IN(LEX##over::i)))"
        "(SYNT##det(POS##DT(LEX##the::d)))(POS##NN(LEX##grass::n)))"
        "(SYNT##punct(POS##.(LEX##.::.))))",
    ),
    (
        CAT,
        "lct",
        {},
        "(LEX##run::v(LEX##cat::n(LEX##the::d(POS##DT)(SYNT##det))(POS##NN)(SYNT##nsubj))"
        "(LEX##grass::n(LEX##over::i(POS##IN)(SYNT##case))(LEX##the::d(POS##DT)(SYNT##det))"
        "(POS##NN)(SYNT##nmod))(LEX##.::.(POS##.)(SYNT##punct))(POS##VBZ)(SYNT##root))",
    ),
    (
        CAT,
        "loct",
        {},
        "(LEX##run::v(LEX##cat::n(LEX##the::d))(LEX##grass::n(LEX##over::i)(LEX##the::d))"
        "(LEX##.::.))",
    ),
    (
        CAT,
        "cgrct",
        {},
        "(COMP##root<*::*,run::v>(COMP##nsubj<run::v,cat::n>(COMP##det<cat::n,the::d>"
        "(POS##DT(LEX##the::d)))(POS##NN(LEX##cat::n)))(POS##VBZ(LEX##run::v))"
        "(COMP##nmod<run::v,grass::n>(COMP##case<grass::n,over::i>(POS##IN(LEX##over::i)))"
        "(COMP##det<grass::n,the::d>(POS##DT(LEX##the::d)))(POS##NN(LEX##grass::n)))"
        "(COMP##punct<run::v,.::.>(POS##.(LEX##.::.))))",
    ),
    (
        CAT,
        "clct",
        {},
        "(COMP##root<*::*,run::v>(COMP##nsubj<run::v,cat::n>(COMP##det<cat::n,the::d>"
        "(POS##DT)(SYNT##det)(LEX##the::d))(POS##NN)(SYNT##nsubj)(LEX##cat::n))"
        "(COMP##nmod<run::v,grass::n>(COMP##case<grass::n,over::i>(POS##IN)(SYNT##case)"
        "(LEX##over::i))(COMP##det<grass::n,the::d>(POS##DT)(SYNT##det)(LEX##the::d))"
        "(POS##NN)(SYNT##nmod)(LEX##grass::n))(COMP##punct<run::v,.::.>(POS##.)"
        "(SYNT##punct)(LEX##.::.))(POS##VBZ)(SYNT##root)(LEX##run::v))",
    ),
    (
        CAT,
        "grct",
        {"lexical": False},
        "(SYNT##root(SYNT##nsubj(SYNT##det(POS##DT))(POS##NN))(POS##VBZ)(SYNT##nmod"
        "(SYNT##case(POS##IN))(SYNT##det(POS##DT))(POS##NN))(SYNT##punct(POS##.)))",
    ),
    (
        FISH,
        "lct",
        {"punctuation": False},
        "(LEX##eat::v(LEX##i::p(POS##PRP)(SYNT##nsubj))(LEX##do::v(POS##VBP)(SYNT##aux))"
        "(LEX##not::r(POS##RB)(SYNT##advmod))(LEX##fish::n(LEX##raw::j(POS##JJ)"
        "(SYNT##amod))(POS##NN)(SYNT##obj))(POS##VB)(SYNT##root))",
    ),
    (
        FISH_LRB,
        "loct",
        {},
        "(LEX##eat::v(LEX##i::p)(LEX##do::v)(LEX##not::r)(LEX##fish::n(LEX##raw::j"
        "(LEX##-lrb-::-)(LEX##-rrb-::-)))(LEX##.::.))",
    ),
    (
        WHAT,
        "grct",
        {},
        "(SYNT##root(SYNT##aux(POS##VB(LEX##do::v)))(SYNT##xcomp(SYNT##obj(POS##WP"
        "(LEX##what::w)))(POS##VB(LEX##want::v)))(POS##PRP(LEX##you::p)))",
    ),
    (
        "1 Dogs _ NOUN _ _ 2 nsubj:pass _ _\n2 , , VERB , _ 0 root _ _\n",
        "cgrct",
        {"subtypes": False, "lex_pos": "full"},
        "(COMP##root<*::*,_comma_::_comma_>(COMP##nsubj<_comma_::_comma_,dogs::NOUN>"
        "(POS##NOUN(LEX##dogs::NOUN)))(POS##,(LEX##,::,)))",
    ),
    (
        "1 Dogs dog NOUN NNS _ 2 nsubj _ _\n2 Run run AUX VB _ 0 root _ _\n",
        "loct",
        {"word": "form", "lower": False, "pos": "upos"},
        "(LEX##Run::v(LEX##Dogs::n))",
    ),
    (
        "1 Dogs dog NOUN NNS _ 2 nsubj _ _\n2 Run run AUX VB _ 0 root _ _\n",
        "loct",
        {"lex_pos": "none"},
        "(LEX##run(LEX##dog))",
    ),
]


@pytest.mark.parametrize(("text", "scheme", "options", "expected"), CASES)
def test_the_worked_examples_come_out(text, scheme, options, expected):
    assert one(text, scheme, **options) == tk.Forest([expected])[0]


@pytest.mark.parametrize(
    ("scheme", "values"),
    [
        ("grct", (0.760543, 0.866314)),
        ("lct", (0.617677, 0.857046)),
        ("loct", (0.128, 0.25344)),
        ("cgrct", (0.471040, 0.866314)),
        ("clct", (0.656444, 1.161344)),
    ],
)
def test_kernels_of_two_sentences_have_the_known_values(scheme, values):
    text = "1 The the {} DT _ 2 det _ _\n2 {} {} _ NN _ 3 nsubj _ _\n"
    text += "3 runs run _ VBZ _ 0 root _ _\n\n"
    both = text.format("_", "Cat", "cat") + text.format("_", "dog", "dog")
    gram = tk.PartialTreeKernel(0.4, 0.4)(conllu(text=tabs(both), scheme=scheme).forest)
    np.testing.assert_allclose(gram[0], values[::-1], atol=5e-7)


def test_ids_decide_and_not_the_order_of_lines():
    lines = [line for line in CAT.splitlines() if line[0] != "#"]
    assert one("\n".join(reversed(lines))) == one(CAT)


def test_names_metadata_spans_and_tokens_are_told():
    reading = conllu(text=tabs(CAT + "\n\n" + WHAT))
    assert reading.names == ["cat", ""]
    assert reading.metadata[0]["text"] == "The cat runs over the grass."
    assert reading.spans.tolist() == [[1, 9], [12, 15]]
    assert len(reading.tokens) == reading.forest.n_nodes.sum()
    labels = reading.forest.to_arrays()["labels"]
    words = ["The", "cat", "runs", "over", "the", "grass", "."]
    # Every token of the first sentence stands for a relation, a tag and a word.
    counts = np.bincount(reading.tokens[: len(words) * 3], minlength=8)
    assert counts.tolist() == [0, *[3] * 7]
    assert len(labels) == len(reading.tokens)


def questions(folder):
    for part in ("train", "test"):
        path = folder / "qc" / f"dep_{part}.tsv.gz"
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for line in file:
                yield line.rstrip("\n").split("\t")[2:5]


def sentence(tree):
    """Read tokens off a GRCT: words in the order of its parts of speech."""
    order, todo = [], [(tree, 0)]
    relation_of, heads = {}, {}
    while todo:
        node, above = todo.pop()
        if node.label.startswith("POS##"):
            order.append((node.label[5:], node.children[0].label[5:], above))
            continue
        number = len(relation_of) + 1
        relation_of[number] = node.label[6:]
        heads[number] = above
        todo += [(child, number) for child in reversed(node.children)]
    place = {number: at for at, (_, _, number) in enumerate(order, 1)}
    place[0] = 0
    return "".join(
        f"{at}\t_\t{lex.rpartition('::')[0]}\t_\t{tag}\t_\t{place[heads[number]]}"
        f"\t{relation_of[number]}\t_\t_\n"
        for at, (tag, lex, number) in enumerate(order, 1)
    )


def test_the_trees_of_kelp_come_out_of_their_sentences(shared_data):
    rows = list(questions(shared_data))
    given = [tk.Forest.from_brackets(column) for column in zip(*rows, strict=True)]
    text = "\n".join(sentence(tree) for tree in given[0])
    for scheme, expected in zip(("grct", "lct", "loct"), given, strict=True):
        forest = conllu(text=text, scheme=scheme).forest
        equal = sum(a == b for a, b in zip(forest, expected, strict=True))
        # All of them; 99 % was asked for.
        assert equal == len(rows) == 5952, scheme
    other = pytest.importorskip("conllu")
    sentences = other.parse_incr(io.StringIO(text))
    assert tk.Forest(sentences) == conllu(text=text).forest


def test_another_reader_sees_the_same_sentences(tmp_path):
    other = pytest.importorskip("conllu")
    path = tmp_path / "both.conllu"
    path.write_text(tabs(CAT + "\n" + FISH + "\n" + WHAT + "\n"), encoding="utf-8")
    reading = conllu(path)
    with path.open(encoding="utf-8") as file:
        sentences = list(other.parse_incr(file))
    assert tk.Forest(sentences) == reading.forest
    assert [dict(s.metadata) for s in sentences] == reading.metadata
    assert reading.sources == [str(path)] * 3


def test_all_kinds_of_sources_are_read(tmp_path):
    text = tabs(CAT)
    path = tmp_path / "deep" / "a.conllu"
    path.parent.mkdir()
    path.write_text(text, encoding="utf-8")
    with gzip.open(tmp_path / "b.conllu.gz", "wb") as file:
        file.write(text.encode())
    (tmp_path / "other.txt").write_text("no", encoding="utf-8")
    expected = conllu(text=text).forest
    for source in (
        path,
        str(path),
        tmp_path / "b.conllu.gz",
        io.StringIO(text),
        io.BytesIO(b"\xef\xbb\xbf" + text.encode()),
    ):
        assert conllu(source).forest == expected
    for same in (text.encode(), text.replace("\n", "\r\n"), [text]):
        assert conllu(text=same).forest == expected
    assert conllu(tmp_path).forest == expected + expected
    assert conllu(tmp_path / "*" / "*.conllu").forest == expected
    told = []
    reading = conllu(
        [io.StringIO(text), path], progress=lambda *done: told.append(done)
    )
    assert reading.sources == ["item 0", str(path)]
    assert told == [(1, 2), (2, 2)]


BAD = {
    "columns": ("1 The the\n", (1, 1), "10 tab-separated columns"),
    "id": ("x The the _ _ _ 0 root _ _\n", (1, 1), "id of a token"),
    "id 0": ("0 The the _ _ _ 0 root _ _\n", (1, 1), "above 0"),
    "id twice": (CAT + "7 . . _ _ _ 3 punct _ _\n", (10, 1), "a unique id"),
    "head": (CAT.replace("VBZ _ 0", "VBZ _ x"), (5, 23), "head, or 0"),
    "no token": (CAT.replace("NN _ 3", "NN _ 30", 1), (4, 21), "id of a token, or 0"),
    "no root": (CAT.replace("VBZ _ 0", "VBZ _ 7"), (3, 20), "one token with head 0"),
    "two roots": (CAT.replace("IN _ 6", "IN _ 0"), (6, 22), "one root"),
    "cycle": (CAT.replace("DT _ 6", "DT _ 5"), (7, 20), "leads to the root"),
    "nothing": ("# text = nothing\n", (1, 1), "a sentence with tokens"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_sentences_are_refused_with_their_place(kind, tmp_path):
    text, place, expected = BAD[kind]
    path = tmp_path / "bad.conllu"
    path.write_text(tabs(text), encoding="utf-8")
    with pytest.raises(tk.ParseError, match=expected) as caught:
        conllu(path)
    error = caught.value
    assert error.file == str(path)
    assert (error.line, error.column) == place
    before = tabs(text).encode()[: error.offset].decode()
    assert before.count("\n") + 1 == error.line
    assert len(before.rpartition("\n")[2]) + 1 == error.column
    assert str(path) in str(error)
    reading = conllu([io.StringIO(tabs(CAT)), path], errors="skip")
    assert reading.forest == conllu(text=tabs(CAT)).forest
    assert [str(e) for e in reading.skipped] == [str(error)]


def test_options_are_checked():
    for options in (
        {"scheme": "tree"},
        {"word": "x"},
        {"lex_pos": "x"},
        {"pos": "x"},
        {"errors": "x"},
        {"scheme": "lct", "lexical": False},
    ):
        with pytest.raises(
            ValueError, match=next(iter({*options} - {"scheme"}), "scheme")
        ):
            conllu(text="", **options)


def test_a_chain_of_many_tokens_is_read():
    n = 20_000
    text = "".join(f"{k}\tw\tw\tX\tX\t_\t{k - 1}\tdep\t_\t_\n" for k in range(1, n + 1))
    for scheme in ("grct", "lct", "loct", "cgrct", "clct"):
        assert conllu(text=text, scheme=scheme).forest[0].depth >= n
