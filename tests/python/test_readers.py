"""Readers: what stands in a file, where an error is, and what empty trees score."""

from __future__ import annotations

import builtins
import gzip
import pickle
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
import scipy.sparse
from hypothesis import example, given, settings
from hypothesis import strategies as st

import treekernel_rs as tk
from treekernel_rs import readers

if TYPE_CHECKING:
    from pathlib import Path

READERS = {
    "svmlight_tk": readers.svmlight_tk,
    "klp": readers.klp,
    "penn": readers.penn,
}
GOOD = {
    "svmlight_tk": "+1 |BT| (A b) |ET| 1:2\n",
    "klp": "x |BT| (A b) |ET|\n",
    "penn": "(A b)\n",
}
each_reader = pytest.mark.parametrize("name", READERS)


def place(error: tk.ParseError) -> tuple[int, int, int]:
    return error.line, error.column, error.offset


def write(folder: Path, text: str | bytes, name: str = "data") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


# --- All readers --------------------------------------------------------------------


@each_reader
def test_gzip_is_told_by_its_bytes_and_not_by_its_name(tmp_path, name):
    plain = write(tmp_path, GOOD[name], "misleading.gz")
    zipped = write(tmp_path, gzip.compress(GOOD[name].encode()), "data")
    a, b = READERS[name](plain), READERS[name](str(zipped))
    assert forests_of(a) == forests_of(b) == ["(A b)"]


def forests_of(result) -> list[str]:
    forests = getattr(result, "forests", [result.forest])
    forests = forests.values() if isinstance(forests, dict) else forests
    return [t for forest in forests for t in forest.to_brackets()]


@each_reader
def test_a_byte_order_mark_and_windows_line_ends_are_passed_over(tmp_path, name):
    text = b"\xef\xbb\xbf" + GOOD[name].replace("\n", "\r\n").encode()
    assert forests_of(READERS[name](write(tmp_path, text))) == ["(A b)"]


@each_reader
def test_a_missing_file_is_the_error_it_is(tmp_path, name):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        READERS[name](tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="found none"):
        READERS[name](tmp_path)


@each_reader
@pytest.mark.parametrize("damage", ["cut off", "flipped"])
def test_damaged_gzip_data_is_an_os_error_that_names_the_file(tmp_path, name, damage):
    data = bytearray(gzip.compress(GOOD[name].encode() * 1000))
    if damage == "cut off":
        del data[len(data) // 2 :]
    else:
        data[20] ^= 255
    path = write(tmp_path, bytes(data), "broken.gz")
    with pytest.raises(OSError, match=r"broken\.gz"):
        READERS[name](path)


@each_reader
def test_bytes_that_are_not_utf8_have_a_place(tmp_path, name):
    good = GOOD[name].encode()
    text = good + good.replace(b"(A b", "(é ".encode() + b"\xff")
    with pytest.raises(tk.ParseError) as caught:
        READERS[name](write(tmp_path, text))
    column = good.index(b"(A") + 4
    assert (caught.value.expected, caught.value.got) == ("UTF-8", "the byte 0xff")
    assert place(caught.value) == (2, column, len(good) + column)


def test_an_error_in_text_that_is_no_file_names_none():
    with pytest.raises(tk.ParseError) as caught:
        tk.Forest.from_brackets("(A\n (b")
    assert (caught.value.file, caught.value.open) == (None, (2, 2))


@each_reader
def test_an_error_pickles_with_its_attributes(tmp_path, name):
    path = write(tmp_path, GOOD[name].replace(")", ""))
    with pytest.raises(tk.ParseError) as caught:
        READERS[name](path)
    again = pickle.loads(pickle.dumps(caught.value))
    assert vars(again) == vars(caught.value)
    assert caught.value.file == str(path)
    assert str(caught.value).startswith(f"{path}, ")


@pytest.mark.parametrize("name", ["svmlight_tk", "klp"])
def test_an_empty_file_and_blank_lines_at_the_end_hold_no_examples(tmp_path, name):
    assert len(READERS[name](write(tmp_path, ""))) == 0
    assert len(READERS[name](write(tmp_path, " \n\n"))) == 0
    assert len(READERS[name](write(tmp_path, GOOD[name] + "\n \n"))) == 1
    with pytest.raises(tk.ParseError) as caught:
        READERS[name](write(tmp_path, "\n" + GOOD[name]))
    assert place(caught.value) == (1, 1, 0)


# --- SVM-Light-TK -------------------------------------------------------------------

NUM_TRAIN = (
    "-1      |BT| (ROOT (SBARQ (WHNP (WP What))(SQ (VBZ does)(NP (NNP I.V.))(VP (VB "
    "stand)(PP (IN for))))(. ?))) |ET| \n"
)

# line -> label, trees, vectors
SVMLIGHT = {
    NUM_TRAIN: (
        -1.0,
        [
            "(ROOT (SBARQ (WHNP (WP What)) (SQ (VBZ does) (NP (NNP I.V.)) (VP (VB "
            "stand) (PP (IN for)))) (. ?)))"
        ],
        [],
    ),
    "+1 |BT| (S (NP x)) |BT| (PAS (A0 y)) |ET| 1:0.5 7:1 |BV| 2:0.25 |EV|": (
        1.0,
        ["(S (NP x))", "(PAS (A0 y))"],
        [{0: 0.5, 6: 1.0}, {1: 0.25}],
    ),
    "0 |BT| (x) |ET| |BV| 1:1 |EV|": (0.0, ["(x)"], [{}, {0: 1.0}]),
    "1 |BT| (x) |ET| |EV|": (1.0, ["(x)"], [{}]),
    "1 |BT| (x) |ET| 3:1": (1.0, ["(x)"], [{2: 1.0}]),
    "1 |BT| (x) |ET|2:1|BV|3:1|EV|": (1.0, ["(x)"], [{1: 1.0}, {2: 1.0}]),
    "-1.5e-3 |BT||BT| |ET|": (-0.0015, [r"(\e)", r"(\e)"], []),
    "+1": (1.0, [], []),
    "\t.5\t1:+2. 2:-.5E1 \t10:1e0": (0.5, [], [{0: 2.0, 1: -5.0, 9: 1.0}]),
    "1 1:0": (1.0, [], [{0: 0.0}]),
    "1 |BT| (A  ( B\tb )(C c)) |ET|": (1.0, ["(A (B b) (C c))"], []),
    r"1 |BT| (A \e \x \\) |ET|": (1.0, [r"(A \\e \x \\\\)"], []),
    "1 |BT| (A |BV| |x|) |ET|": (1.0, ["(A |BV| |x|)"], []),
    "1 |BT| (A b\u00a0c\u2028d) |ET|": (1.0, ["(A b\u00a0c\u2028d)"], []),
}


def rows_of(rows: readers.SparseRows) -> list[dict[int, float]]:
    return [
        dict(zip(rows.indices[a:b].tolist(), rows.data[a:b].tolist(), strict=True))
        for a, b in pairwise(rows.indptr.tolist())
    ]


@pytest.mark.parametrize("line", SVMLIGHT)
def test_svmlight_line_reads_as(tmp_path, line):
    label, trees, vectors = SVMLIGHT[line]
    data = tk.readers.svmlight_tk(write(tmp_path, line))
    assert data.y.tolist() == [label]
    assert [f.to_brackets() for f in data.forests] == [[tree] for tree in trees]
    assert [e.tolist() for e in data.empty] == [[t == r"(\e)"] for t in trees]
    assert [rows_of(rows) for rows in data.vectors] == [[v] for v in vectors]


def test_examples_with_different_numbers_of_trees_and_vectors_are_filled_up(tmp_path):
    path = write(
        tmp_path,
        "1\n2 |BT| (A a) |BT| (B b) |ET| 2:1\n3 |BT| (C c) |ET| 1:1 |BV| 3:1\n4 1:1\n",
    )
    data = tk.readers.svmlight_tk(path)
    null = r"(\e)"
    assert [f.to_brackets() for f in data.forests] == [
        [null, "(A a)", "(C c)", null],
        [null, "(B b)", null, null],
    ]
    assert data.empty[0].tolist() == [True, False, False, True]
    assert [rows_of(rows) for rows in data.vectors] == [
        [{}, {1: 1.0}, {0: 1.0}, {0: 1.0}],
        [{}, {}, {2: 1.0}, {}],
    ]
    assert [rows.shape for rows in data.vectors] == [(4, 3), (4, 3)]
    assert data.n_trees.tolist() == [0, 2, 1, 0]
    assert data.n_vectors.tolist() == [0, 1, 2, 1]
    assert tk.readers.svmlight_tk(path, n_features=9).vectors[0].shape == (4, 9)


# line -> column, expected (a part of it), got
BAD_SVMLIGHT = {
    "x |BT| (A) |ET|": (1, "a label", "'x'"),
    "  nan 1:1": (3, "a label", "'nan'"),
    "1_0 1:1": (1, "a label", "'1_0'"),
    "+1|BT| (A b) |ET|": (1, "a label", "'+1|BT|'"),
    "# comment": (1, "a label", "'#'"),
    "+1 1:1 |BT| (A b) |ET|": (4, "'|BT|'", "'1:1'"),
    "+1 |BT| (A b)  ": (14, "'|ET|'", "the end of the line"),
    "+1 |BT| (A b)": (14, "'|ET|'", "the end of the line"),
    "+1 |BT| (A b |ET|": (14, "')'", "'|ET|'"),
    "+1 |BT| (A b)) |ET|": (14, "the end of the tree", "')'"),
    "+1 |BT| (A b) (C d) |ET|": (15, "the end of the tree", "'('"),
    "+1 |BT| é |ET|": (9, "'('", "'é'"),
    "+1 |BT| (é b) |BT| (A \\\\é ( |ET|": (29, "a label", "'|ET|'"),
    "+1 |BT| (A \\() |ET|": (14, "a label", "')'"),
    "+1 |BT| (A b) |ET| 2:1 |BT| (A b) |ET|": (24, "a feature", "'|BT|'"),
    "+1 |BT| (A b) |ET| (A b) |STD| 1:1": (20, "a feature", "'('"),
    "1 0:1": (3, "from 1 on", "'0:1'"),
    "1 2:1 2:1": (7, "above 2", "'2:1'"),
    "1 3:1 2:1": (7, "above 3", "'2:1'"),
    "1 1:1 a:1": (7, "a feature", "'a:1'"),
    "1 qid:3 1:1": (3, "a feature", "'qid:3'"),
    "1 1:": (3, "a feature", "'1:'"),
    "1 1:nan": (3, "a feature", "'1:nan'"),
    "1 1:1e999": (5, "below 1.8e308", "'1e999'"),
    "1 1:1 # c": (7, "a feature", "'#'"),
    "1 é:1": (3, "a feature", "'é:1'"),
    "1 |BT||ET| 1:1 |EV| 2:1": (21, "the end of the line", "'2:1'"),
    "1 1:1 |EV| |EV|": (12, "the end of the line", "'|EV|'"),
    "1 9223372036854775808:1": (3, "at most", "'9223372036854775808:'..."),
    "1 " + "9" * 5000 + ":1": (3, "at most", "'99999999999999999999'..."),
}


@pytest.mark.parametrize("line", BAD_SVMLIGHT, ids=lambda line: line[:40])
def test_svmlight_line_is_refused_with_its_place(tmp_path, line):
    column, expected, got = BAD_SVMLIGHT[line]
    good = "+1 |BT| (é b) |ET| 1:1\n"
    with pytest.raises(tk.ParseError) as caught:
        tk.readers.svmlight_tk(write(tmp_path, good * 2 + line + "\n" + good))
    error = caught.value
    offset = 2 * len(good.encode()) + len(line[: column - 1].encode())
    assert place(error) == (3, column, offset)
    assert error.tree == 2
    assert expected in error.expected
    assert error.got == got
    assert f"line 3, column {column} (byte {offset}): expected" in str(error)


def test_a_feature_above_n_features_is_refused(tmp_path):
    path = write(tmp_path, "1 5:1\n1 5:1 6:1\n")
    assert tk.readers.svmlight_tk(path, n_features=6).vectors[0].shape == (2, 6)
    with pytest.raises(tk.ParseError, match="at most 5, got '6:1'") as caught:
        tk.readers.svmlight_tk(path, n_features=5)
    assert place(caught.value) == (2, 7, 12)
    with pytest.raises(ValueError, match="n_features must be None or at least 0"):
        tk.readers.svmlight_tk(path, n_features=-1)
    with pytest.raises(TypeError, match="float"):
        tk.readers.svmlight_tk(path, n_features=6.0)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("1 |BT| (A |ET|\n1 |BT| (B |ET|\nx\n", (1, 11)),
        ("1 |BT| (A) |BT| (B |ET|\n1 |BT| (A |ET|\n", (1, 20)),
        ("1 |BT| (A |ET| 1:x\n", (1, 11)),
        ("1 |BT| (A) |BT| (B |ET| 1:1\n1 1:x\n", (1, 20)),
        ("1 |BT| (A) |ET| 1:x\n1 |BT| (A |ET|\n", (1, 17)),
    ],
)
def test_the_error_that_is_reported_comes_first_in_the_file(tmp_path, text, where):
    with pytest.raises(tk.ParseError) as caught:
        tk.readers.svmlight_tk(write(tmp_path, text))
    assert place(caught.value)[:2] == where


def test_an_open_bracket_is_named_where_it_stands(tmp_path):
    path = write(tmp_path, r"1 |BT| (é \\\ (B b |ET|" + "\n")
    with pytest.raises(
        tk.ParseError, match=r"the bracket opened at column 15"
    ) as caught:
        tk.readers.svmlight_tk(path)
    assert caught.value.open == (1, 15)


def test_batches_of_trees_make_no_difference(tmp_path, monkeypatch):
    text = "".join(f"{i} |BT| (A (B b{i % 7}) c) |BT| (C d) |ET|\n" for i in range(50))
    path = write(tmp_path, text)
    whole = tk.readers.svmlight_tk(path)
    broken = write(tmp_path, text + "1 |BT| (A |ET|\n" + text, "broken")
    monkeypatch.setattr("treekernel_rs.readers._lines._BATCH", 1)
    pieces = tk.readers.svmlight_tk(path)
    assert pieces.forests == whole.forests
    assert pieces.forests[0].n_distinct == whole.forests[0].n_distinct
    with pytest.raises(tk.ParseError) as caught:
        tk.readers.svmlight_tk(broken)
    assert place(caught.value)[:2] == (51, 11)


def sorted_pairs(vector: dict[int, float]) -> str:
    return " ".join(f"{k + 1}:{v!r}" for k, v in sorted(vector.items()))


@given(drawn=st.data())
def test_what_is_written_is_read(tmp_path_factory, drawn):
    folder = tmp_path_factory.mktemp("round")
    label = st.sampled_from(["NP", "a", "é", "-LRB-", r"\e", "\\", "|BV|", "x:1", "'"])
    tree = st.recursive(
        st.tuples(label, st.just([])),
        lambda below: st.tuples(label, st.lists(below, max_size=3)),
        max_leaves=6,
    )
    number = st.floats(-1e300, 1e300)
    vector = st.dictionaries(st.integers(0, 40), number, max_size=4)
    example = st.tuples(
        number,
        st.lists(st.none() | tree, max_size=3),
        st.lists(vector, max_size=3),
    )
    examples = drawn.draw(st.lists(example, max_size=5))

    lines = []
    for value, trees, vectors in examples:
        forest = "".join(f"|BT| {'' if t is None else show(t)} " for t in trees)
        ends = "|ET| " if trees else ""
        body = " |BV| ".join(map(sorted_pairs, vectors)) + (" |EV|" if vectors else "")
        lines.append(f"{value!r} {forest}{ends}{body}\n")
    data = tk.readers.svmlight_tk(write(folder, "".join(lines)))

    again = folder / "again.gz"
    tk.readers.write_svmlight_tk(again, data.y, data.forests, data.vectors)
    width = data.vectors[0].shape[1] if data.vectors else None
    twin = tk.readers.svmlight_tk(again, n_features=width)
    assert twin.y.tolist() == data.y.tolist()
    assert twin.forests == data.forests
    assert list(map(rows_of, twin.vectors)) == list(map(rows_of, data.vectors))

    assert data.y.tolist() == [value for value, _, _ in examples]
    assert len(data.forests) == max((len(t) for _, t, _ in examples), default=0)
    null = ("", [])
    for position, forest in enumerate(data.forests):
        expected = [
            (t[position] if position < len(t) else None) or null for _, t, _ in examples
        ]
        assert forest == tk.Forest.from_trees(expected)
        assert data.empty[position].tolist() == [t == null for t in expected]
    for position, rows in enumerate(data.vectors):
        expected = [v[position] if position < len(v) else {} for _, _, v in examples]
        assert rows_of(rows) == expected


def show(tree) -> str:
    label, children = tree
    return f"({label}{''.join(' ' + show(child) for child in children)})"


PIECES = [
    *(b"1 ", b"-2.5", b" ", b"\t", b"\n", b"|BT|", b"|ET|", b"|BV|", b"|EV|", b"1:1 "),
    *(
        b"7:.5",
        b"(A b)",
        b"(",
        b")",
        b"A",
        b"(S (A a)(B b))",
        b"\\",
        b"\\e",
        b"|",
        b":",
    ),
    *(b"|BT:n|", b"|BS|", b"|ES|", b"|BDV|", b"|EDV|", b"|BSQ|", b"|ESQ|", b"(x) "),
    *(b"|<|", b"|,|", b"|>|", b"a:1 ", b"\xc3\xa9", b"\xff", b"\xef\xbb\xbf", b"\r\n"),
    *(b"(-NONE- *)", b"-LRB-", b"NP-1", b"(ROOT ", b"9" * 30 + b":1", b"1e999"),
]
pieces = st.lists(st.sampled_from(PIECES), max_size=25).map(b"".join)


@st.composite
def nearly_files(draw):
    """Draw a file of one of the formats with something cut out or put in."""
    lines = [*SVMLIGHT, *KLP.splitlines(), *TREEBANK.splitlines()]
    chosen = draw(st.lists(st.sampled_from(lines), min_size=1, max_size=4))
    text = "".join(line.rstrip("\n") + "\n" for line in chosen).encode()
    start = draw(st.integers(0, len(text)))
    end = draw(st.integers(start, min(start + 5, len(text))))
    return text[:start] + draw(st.just(b"") | st.sampled_from(PIECES)) + text[end:]


def is_in(error: tk.ParseError, text: bytes) -> bool:
    """Whether line and column are those of the offset."""
    before = text[: error.offset]
    start = before.rfind(b"\n") + 1
    line = before[start:].removeprefix(b"" if start else b"\xef\xbb\xbf")
    column = len(line.decode(errors="replace")) + 1
    there = error.offset <= len(text)
    return there and place(error)[:2] == (before.count(b"\n") + 1, column)


@settings(max_examples=300)
@given(text=pieces | nearly_files())
@example(text=b"\xef\xbb\xbf(A b)\n(")
@example(text=b"\xef\xbb\xbf(")
@example(text=b"\xef\xbb\xbf x")
def test_any_file_is_read_or_refused_with_a_place_in_it(tmp_path_factory, text):
    path = write(tmp_path_factory.mktemp("any"), text)
    everything = {"strip_functions": True, "drop_traces": True, "unescape": True}
    n = len(text.removeprefix(b"\xef\xbb\xbf").rstrip().splitlines())
    for read, options in [
        (readers.svmlight_tk, {}),
        (readers.klp, {}),
        (readers.penn, {}),
        (readers.penn, {**everything, "root": ""}),
        (readers.penn, {**everything, "root": "ROOT"}),
    ]:
        outcome = read_or_error(read, path, options)
        if isinstance(outcome, tk.ParseError):
            assert is_in(outcome, text)
            assert outcome.file == str(path)
        elif read is not readers.penn:
            forests = outcome.forests
            forests = [*forests.values()] if isinstance(forests, dict) else forests
            assert {len(outcome), *map(len, forests)} == {n}


def read_or_error(read, path, options):
    try:
        return read(path, **options)
    except tk.ParseError as error:
        return error


def test_scipy_matrices_are_written_whatever_the_order_of_their_indices(tmp_path):
    matrix = scipy.sparse.csr_matrix(
        (np.array([1.0, 2.0, 3.5]), np.array([4, 0, 2]), np.array([0, 2, 3]))
    )
    path = tmp_path / "plain.dat"
    tk.readers.write_svmlight_tk(path, [0.1, -1], vectors=matrix)
    assert path.read_text() == "0.1 1:2 5:1 |EV|\n-1 3:3.5 |EV|\n"


@pytest.mark.parametrize(
    ("labels", "trees", "vectors", "message"),
    [
        ([1], [("A", [])] * 2, [], r"forests\[0\] has 2 examples, labels 1"),
        ([[1]], [("A", [])], [], "one dimension"),
        ([np.nan], [("A", [])], [], "finite"),
        ([1], [("A", ["b c"])], [], "label 'b c' cannot be written"),
        ([1], [("A", ["("])], [], r"label '\(' cannot be written"),
        ([1], [("A", ["x|ET|"])], [], "cannot be written"),
        ([1], [("A", [""])], [], "tree 0: an empty label cannot be written"),
        ([1], [("A\\", [""])], [], "tree 0: an empty label cannot be written"),
        ([1, 2], [("A", [])] * 2, [[0, 1]], r"vectors\[0\] has 1 examples, labels 2"),
    ],
)
def test_what_the_format_cannot_hold_is_not_written(
    tmp_path, labels, trees, vectors, message
):
    rows = [
        tk.readers.SparseRows(np.array(p), np.zeros(1, int), np.ones(1), (1, 1))
        for p in vectors
    ]
    path = tmp_path / "never"
    with pytest.raises(ValueError, match=message):
        tk.readers.write_svmlight_tk(path, labels, tk.Forest.from_trees(trees), rows)
    assert not path.exists()


# --- The null tree ------------------------------------------------------------------


@pytest.fixture
def with_null(tmp_path) -> tk.Forest:
    text = "1 |BT| (S (A a) (B b)) |ET|\n1 |BT| |ET|\n1 |BT| (A a) |ET|\n1\n"
    return tk.readers.svmlight_tk(write(tmp_path, text)).forests[0]


@pytest.mark.parametrize("kernel", [tk.SubtreeKernel(), tk.SubsetTreeKernel()], ids=str)
def test_the_null_tree_scores_zero_with_everything(with_null, kernel):
    matrix = kernel(with_null)
    assert not matrix[[1, 3]].any()
    assert not matrix[:, [1, 3]].any()
    assert matrix[np.ix_([0, 2], [0, 2])].all()
    assert kernel.pair(with_null[1], with_null[1]) == 0


@pytest.mark.parametrize(
    ("kernel", "value"),
    [
        (tk.PartialTreeKernel(0.4, 0.4), 0.4 * 0.4**2),
        (tk.ElasticTreeKernel(0.4), 0.4),
        (tk.SubsetTreeKernel(0.4, leaf_weight=0.4), 0.4),
    ],
    ids=str,
)
def test_kernels_that_count_leaves_match_null_trees_with_each_other_only(
    with_null, kernel, value
):
    matrix = kernel(with_null)
    null = np.array([False, True, False, True])
    np.testing.assert_allclose(matrix[np.ix_(null, null)], value, rtol=1e-15)
    assert not matrix[np.ix_(null, ~null)].any()


def test_the_null_tree_survives_all_that_a_forest_does(with_null):
    assert tk.Forest.from_brackets(with_null.to_brackets()) == with_null
    assert pickle.loads(pickle.dumps(with_null)) == with_null
    assert tk.Forest.from_arrays(**with_null.to_arrays()) == with_null
    assert (with_null[1:] + with_null[:1]).to_brackets() == [
        r"(\e)",
        "(A a)",
        r"(\e)",
        "(S (A a) (B b))",
    ]
    assert str(with_null[[3]][0]) == r"(\e)"


# --- KeLP ---------------------------------------------------------------------------

KLP = (
    "DESC |BS:quest| How did … ? |ES| |BV:bow| _how__w:1.0 a:b:2 |EV| "
    "|BT:grct| (SYNT##root(SYNT##advmod(POS##WRB(LEX##how::w)))) |ET| "
    "|BT:loct| (LEX##develop::v(LEX##how::w)) |ET|\n"
    "NUM extra price:12.5 |BT:loct| (A (NN dog) word) |ET||BDV| 1,2; 3 |EDV| "
    "|BSQ:S| (_the) (_food) |ESQ| |BG| any text 1 2 |EG|\n"
)


def test_klp_representations_are_read_by_kind_and_name(tmp_path):
    data = tk.readers.klp(write(tmp_path, KLP))
    assert len(data) == 2
    assert data.y.tolist() == ["DESC", "NUM"]
    assert data.classes == [("DESC",), ("NUM", "extra")]
    assert np.isnan(data.values["price"][0])
    assert data.values["price"][1] == 12.5
    assert {name: f.to_brackets() for name, f in data.forests.items()} == {
        "grct": ["(SYNT##root (SYNT##advmod (POS##WRB LEX##how::w)))", r"(\e)"],
        "loct": ["(LEX##develop::v LEX##how::w)", "(A (NN dog) word)"],
    }
    assert data.empty["grct"].tolist() == [False, True]
    assert data.strings == {"quest": ["How did … ?", None]}
    assert data.sequences == {"S": [None, ("_the", "_food")]}
    # Without a name: the number of the representation in its example.
    np.testing.assert_array_equal(data.dense["1"], [[np.nan] * 3, [1, 2, 3]])
    assert data.graphs == {"3": [None, "any text 1 2"]}
    assert data.features == {"bow": ["_how__w", "a:b"]}
    assert rows_of(data.vectors["bow"]) == [{0: 1.0, 1: 2.0}, {}]
    assert data.left is data.right is None


def test_features_of_the_training_set_are_the_columns_of_the_test_set(tmp_path):
    train = tk.readers.klp(
        write(tmp_path, "a |BV:w| x:1 y:2 |EV|\nb |BV:w| z:1 |EV|\n")
    )
    test = write(tmp_path, "a |BV:w| z:3 new:1 y:4 y:5 |EV| |BV:v| q:1 |EV|\n")
    data = tk.readers.klp(test, features=train.features)
    assert data.features == {"w": ["x", "y", "z"], "v": ["q"]}
    assert rows_of(data.vectors["w"]) == [{1: 5.0, 2: 3.0}]
    with pytest.raises(ValueError, match="duplicate feature 'x'"):
        tk.readers.klp(test, features={"w": ["x", "y", "x"]})


def test_pairs_nest_and_their_members_are_tables_of_their_own(tmp_path):
    tree = "|BT:t| ({}) |ET|"
    text = (
        "yes |<| l1 " + tree.format("a") + " |,| " + tree.format("b") + " |>| "
        "|BV| sim:0.5 |EV|\n"
        "no|<||<| " + tree.format("c") + "|,|" + tree.format("d") + "|>||,| "
        "deep |<| " + tree.format("e") + " |,| " + tree.format("f") + " |>| "
        "|BS| own |ES| |>|\n"
        "single " + tree.format("g") + "\n"
    )
    data = tk.readers.klp(write(tmp_path, text))
    null = r"(\e)"

    def trees(table):
        return table.forests["t"].to_brackets() if "t" in table.forests else None

    assert data.y.tolist() == ["yes", "no", "single"]
    assert trees(data) == [null, null, "(g)"]
    assert rows_of(data.vectors["0"]) == [{0: 0.5}, {}, {}]
    assert data.left.y.tolist() == ["l1", "", ""]
    assert data.right.y.tolist() == ["", "deep", ""]
    assert trees(data.left) == ["(a)", null, null]
    assert trees(data.right) == ["(b)", null, null]
    assert trees(data.left.left) == [null, "(c)", null]
    assert trees(data.left.right) == [null, "(d)", null]
    assert trees(data.right.left) == [null, "(e)", null]
    assert trees(data.right.right) == [null, "(f)", null]
    assert data.right.strings == {"0": [None, "own", None]}
    assert "pairs" in repr(data)


# line -> column, expected (a part of it), got
BAD_KLP = {
    "x": (2, "a representation", "the end of the line"),
    "x |ET|": (3, "a representation", "'|ET|'"),
    "x |B| a |E|": (3, "a representation", "'|B|'"),
    "x |BX| a |EX|": (3, "of type V, DV", "'|BX|'"),
    "x |BT| (A)": (11, "'|ET|'", "the end of the line"),
    "x |BT| (A) |EV|": (12, "'|ET|'", "'|EV|'"),
    "x |BS| a |BT| (A) |ET|": (19, "'|ES|'", "'|ET|'"),
    "x |BT| (A |ET|": (11, "')'", "'|ET|'"),
    "x |BT| (A b c) |ET|": (13, "')' after a word", "'c'"),
    "x |BT| (A b (C c)) |ET|": (13, "')' after a word", "'('"),
    "x |BT:é| (A) |ET| é |BS| b |ES|": (19, "end of the line", "'é'"),
    "x |BT:é| (A) |ET| |BS:é| b |ES|": (19, "another name than 'é'", "'|BS:é|'"),
    "x |BS:1| a |ES| |BS| b |ES|": (17, "another name than '1'", "'|BS|'"),
    "x |BV| a |EV|": (8, "a feature", "'a'"),
    "x |BV| a:1 :2 |EV|": (12, "a feature", "':2'"),
    "x |BV| a:1e999 |EV|": (10, "below 1.8e308", "'1e999'"),
    "x |BDV| 1 x |EDV|": (11, "a number", "'x'"),
    "x |BSQ| (a) b |ESQ|": (13, "an element", "'b'"),
    "x |BSQ| (a (b)) |ESQ|": (9, "an element", "'('"),
    "DESC:manner |BS| |ES|": (6, "a number", "'manner'"),
    "p:1 p:2 |BS| |ES|": (5, "one value of 'p'", "'p:2'"),
    "x |<| |BS| a |ES| |>|": (19, "'|,|'", "'|>|'"),
    "x |<| |BS| a |ES| |,| |BS| a |ES|": (34, "'|>|'", "the end of the line"),
    "x |<| |BS| a |ES| |,| |>|": (23, "a representation", "'|>|'"),
    "x |BS| a |ES| |>|": (15, "end of the line", "'|>|'"),
    "|<|" * 65 + " |BS| |ES|": (193, "at most 64 pairs", "'|<|'"),
}


@pytest.mark.parametrize("line", BAD_KLP, ids=lambda line: line[:40])
def test_klp_line_is_refused_with_its_place(tmp_path, line):
    column, expected, got = BAD_KLP[line]
    good = "é |BT| (é b) |ET|\n"
    with pytest.raises(tk.ParseError) as caught:
        tk.readers.klp(write(tmp_path, good + line + "\n" + good))
    offset = len(good.encode()) + len(line[: column - 1].encode())
    assert place(caught.value) == (2, column, offset)
    assert expected in caught.value.expected
    assert caught.value.got == got


def test_dense_vectors_of_one_name_have_one_length(tmp_path):
    path = write(tmp_path, "a |BDV| 1 2 |EDV|\nb |BDV| 1 2 3 |EDV|\n")
    with pytest.raises(tk.ParseError, match="expected 2 numbers") as caught:
        tk.readers.klp(path)
    assert place(caught.value)[:2] == (2, 8)


# --- Penn ---------------------------------------------------------------------------

TREEBANK = r"""
( (S (NP-SBJ-1 (DT The) (NNS -LRB-))
     (VP=2 (VBD 1\/2) (NP (-NONE- *-1) (: -)) (ADVP|PRT (RB \*up)))) )
(ROOT (S (-LRB- -LRB-) (NP (-NONE- *))))
(TOP (S (NP (-NONE- 0))))
(A)
(A(B b)(C \(c\)))
"""


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {},
            [
                r"(S (NP-SBJ-1 (DT The) (NNS -LRB-)) (VP=2 (VBD 1\/2) (NP (-NONE- *-1)"
                r" (: -)) (ADVP|PRT (RB \*up))))",
                "(ROOT (S (-LRB- -LRB-) (NP (-NONE- *))))",
                "(TOP (S (NP (-NONE- 0))))",
                "(A)",
                r"(A (B b) (C \(c\)))",
            ],
        ),
        (
            {"strip_functions": True},
            [
                r"(S (NP (DT The) (NNS -LRB-)) (VP (VBD 1\/2) (NP (-NONE- *-1) (: -))"
                r" (ADVP (RB \*up))))",
                "(ROOT (S (-LRB- -LRB-) (NP (-NONE- *))))",
                "(TOP (S (NP (-NONE- 0))))",
                "(A)",
                r"(A (B b) (C \(c\)))",
            ],
        ),
        (
            {"drop_traces": True, "root": "ROOT"},
            [
                r"(ROOT (S (NP-SBJ-1 (DT The) (NNS -LRB-)) (VP=2 (VBD 1\/2) (NP (: -))"
                r" (ADVP|PRT (RB \*up)))))",
                "(ROOT (S (-LRB- -LRB-)))",
                r"(\e)",
                "(ROOT A)",
                r"(ROOT (A (B b) (C \(c\))))",
            ],
        ),
        (
            {"unescape": True, "root": ""},
            [
                r"(S (NP-SBJ-1 (DT The) (NNS \()) (VP=2 (VBD 1/2) (NP (-NONE- *-1)"
                r" (: -)) (ADVP|PRT (RB *up))))",
                r"(S (-LRB- \() (NP (-NONE- *)))",
                "(S (NP (-NONE- 0)))",
                "(A)",
                r"(A (B b) (C \(c\)))",
            ],
        ),
    ],
)
def test_penn_options(tmp_path, options, expected):
    assert (
        tk.readers.penn(write(tmp_path, TREEBANK), **options).forest.to_brackets()
        == expected
    )


def test_a_top_with_several_children_stays(tmp_path):
    path = write(tmp_path, "(TOP (A a) (B b)) (TOP x)")
    assert tk.readers.penn(path, root="").forest.to_brackets() == [
        "(TOP (A a) (B b))",
        "(x)",
    ]


def test_penn_errors_name_the_file_and_the_place_in_it(tmp_path):
    path = write(tmp_path, "(A b)\n(é (B b)\n c\n")
    with pytest.raises(
        tk.ParseError, match=r"data, tree 1, line 4, column 1"
    ) as caught:
        tk.readers.penn(path)
    assert (caught.value.tree, caught.value.open) == (1, (2, 1))
    assert place(caught.value) == (4, 1, 19)


def test_penn_depth_has_a_limit_where_it_is_asked_for(tmp_path):
    n = 100_000
    text = "(A \\(b)\n ( (é " + "(X " * n + "y" + ")" * n + "))"
    path = write(tmp_path, text)
    assert tk.readers.penn(path, root="ROOT", drop_traces=True).forest[1].depth == n + 3
    with pytest.raises(tk.ParseError, match="at most 99 levels, got 100002") as caught:
        tk.readers.penn(path, max_depth=99)
    assert (caught.value.tree, *place(caught.value)) == (1, 2, 2, 9)
    with pytest.raises(ValueError, match="max_depth must be None or at least 1"):
        tk.readers.penn(path, max_depth=0)


# --- Sparse rows --------------------------------------------------------------------


def test_sparse_rows_are_those_of_scipy(tmp_path):
    data = tk.readers.svmlight_tk(write(tmp_path, "1 1:1 4:2\n1\n1 3:0.5\n"))
    rows = data.vectors[0]
    matrix = rows.to_scipy()
    assert matrix.format == "csr"
    assert matrix.has_canonical_format
    np.testing.assert_array_equal(matrix.toarray(), rows.toarray())
    assert np.shares_memory(matrix.data, rows.data)
    assert len(pickle.loads(pickle.dumps(rows))) == len(rows) == 3


def test_without_scipy_the_extra_is_named(tmp_path, monkeypatch):
    rows = tk.readers.svmlight_tk(write(tmp_path, "1 1:1\n")).vectors[0]
    load = builtins.__import__

    def without_scipy(name, *args, **kwargs):
        if name.startswith("scipy"):
            raise ImportError(name)
        return load(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_scipy)
    with pytest.raises(ImportError, match=r"treekernel_rs\[sklearn\]"):
        rows.to_scipy()


# --- Real data ----------------------------------------------------------------------


def columns(path: Path) -> list[list[str]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        return [line.rstrip("\n").split("\t") for line in file]


def test_question_classification_reads_the_same_from_all_formats(shared_data, tmp_path):
    rows = columns(shared_data / "qc" / "dep_train.tsv.gz")
    svm = "".join(f"{i} |BT| {r[2]} |BT| {r[4]} |ET| \n" for i, r in enumerate(rows))
    klp = "".join(
        f"{r[0]} |BS:quest| {r[1]} |ES| |BV:bow| {r[5]} |EV| |BT:grct| {r[2]} |ET| "
        f"|BT:lct| {r[3]} |ET| |BT:loct| {r[4]} |ET|\n"
        for r in rows
    )
    a = tk.readers.svmlight_tk(write(tmp_path, gzip.compress(svm.encode(), 1)))
    b = tk.readers.klp(write(tmp_path, klp))
    grct, lct, loct = (tk.Forest.from_brackets([r[k] for r in rows]) for k in (2, 3, 4))
    assert a.forests == [grct, loct]
    assert b.forests == {"grct": grct, "lct": lct, "loct": loct}
    assert a.y.tolist() == list(range(len(rows)))
    assert b.y.tolist() == [r[0] for r in rows]
    assert b.strings["quest"] == [r[1] for r in rows]
    assert len(b.vectors["bow"].data) == sum(len(set(r[5].split())) for r in rows)


def test_the_treebank_stripped_is_the_clean_treebank(shared_data, tmp_path):
    raw = columns(shared_data / "wsj" / "wsj.txt.gz")
    clean = columns(shared_data / "wsj" / "wsj_clean.txt.gz")
    text = "\n".join(f"( {row[2]} )" for row in raw)
    forest = tk.readers.penn(
        write(tmp_path, text), strip_functions=True, drop_traces=True
    ).forest
    # The clean one keeps the one label with a bar.
    expected = [row[2].replace("ADVP|PRT", "ADVP") for row in clean]
    assert forest == tk.Forest.from_brackets(expected)
