"""Bracketed text: golden cases, the oracle, and what stands in an error."""

from __future__ import annotations

import io
import pickle

import numpy as np
import oracle
import pytest
from golden import CASES, Case
from hypothesis import example, given

import treekernel_rs as tk

BOM = oracle.BOM
TEXT_CASES = [case for case in CASES if isinstance(case.source, str)]


def position(error: tk.ParseError) -> dict[str, int]:
    return {name: getattr(error, name) for name in ("tree", "line", "column", "offset")}


def outcome(read, source):
    """Return the trees, printed, or the place of the error."""
    try:
        return read(source)
    except (tk.ParseError, oracle.OracleError) as error:
        return error.position if hasattr(error, "position") else position(error)


def library(source):
    return tk.Forest.from_brackets(source).to_brackets()


def slow_twin(source):
    return [oracle.show(tree) for tree in oracle.parse(source)]


# --- Golden cases -------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=str)
def test_golden_case(case: Case):
    expected = case.trees if case.position is None else case.position
    assert outcome(library, case.source) == expected


@pytest.mark.parametrize("case", TEXT_CASES, ids=str)
def test_golden_text_reads_the_same_as_bytes(case: Case):
    assert outcome(library, case.source.encode()) == outcome(library, case.source)


# --- Against the oracle -------------------------------------------------------------


@given(oracle.written_text())
def test_text_in_any_layout_reads_as_the_oracle_reads_it(drawn):
    forest, text = drawn
    read = tk.Forest.from_brackets(text)
    assert [oracle.from_library(tree) for tree in read] == forest
    assert read.to_brackets() == [oracle.show(tree) for tree in forest]
    assert [str(tree) for tree in read] == read.to_brackets()
    assert tk.Forest.from_brackets(text.encode()) == read


@given(oracle.written_items())
def test_items_in_any_layout_read_as_the_oracle_reads_them(drawn):
    forest, texts = drawn
    read = tk.Forest.from_brackets(texts)
    assert [oracle.from_library(tree) for tree in read] == forest
    assert tk.Forest.from_brackets(text.encode() for text in texts) == read
    if texts:  # one text may be BOM-marked at its start only
        joined = "\n".join(text.removeprefix(BOM) for text in texts)
        assert tk.Forest.from_brackets(joined) == read


@given(oracle.garbage)
def test_garbage_stops_where_the_oracle_stops(text):
    assert outcome(library, text) == outcome(slow_twin, text)
    assert outcome(library, text.encode()) == outcome(slow_twin, text)


@given(oracle.garbage_items)
def test_garbage_items_stop_where_the_oracle_stops(texts):
    assert outcome(library, texts) == outcome(slow_twin, texts)


@given(oracle.broken_bytes())
@example(b"(a)) \xff")
@example(b"\xff (a))")
def test_invalid_utf8_stops_where_the_oracle_stops(text):
    assert outcome(library, text) == outcome(slow_twin, text)
    assert outcome(library, ["(a)", text]) == outcome(slow_twin, ["(a)", text])


@given(oracle.broken_str())
@example("(a \ud800)")
@example("(é \udcff)")
@example("\ud800")
@example("(a)) \ud800")
@example("(a)\n\udfff")
def test_lone_surrogate_stops_where_the_oracle_stops(text):
    assert outcome(library, text) == outcome(slow_twin, text)
    assert outcome(library, ["(a)", text]) == outcome(slow_twin, ["(a)", text])


# --- What may be passed -------------------------------------------------------------

LINES = ["(a b)\n", "( (c (d)) )\n", "(é\\e (\\e))\n"]


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(LINES, id="list"),
        pytest.param(tuple(LINES), id="tuple"),
        pytest.param("".join(LINES), id="one str"),
        pytest.param("".join(LINES).encode(), id="one bytes"),
        pytest.param([line.encode() for line in LINES], id="list of bytes"),
        pytest.param([LINES[0], LINES[1].encode(), LINES[2]], id="mixed"),
        pytest.param(np.array(LINES), id="array of str"),
        pytest.param(np.array(LINES, dtype=object), id="array of object"),
        pytest.param(dict.fromkeys(LINES), id="dict keys"),
    ],
)
def test_every_kind_of_source_reads_the_same(source):
    assert library(source) == ["(a b)", "(c d)", r"(é\e \e)"]


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(lambda: iter(LINES), id="iterator"),
        pytest.param(lambda: (line for line in LINES), id="generator"),
        pytest.param(lambda: io.StringIO("".join(LINES)), id="text file"),
        pytest.param(lambda: io.BytesIO("".join(LINES).encode()), id="binary file"),
        pytest.param(lambda: map(str.strip, LINES), id="map"),
    ],
)
def test_every_kind_of_stream_reads_the_same(source):
    assert tk.Forest.from_brackets(source()) == tk.Forest.from_brackets(LINES)


def test_file_on_disk_is_an_iterable_of_lines(tmp_path):
    path = tmp_path / "trees.txt"
    path.write_text("".join(LINES), encoding="utf-8")
    with path.open(encoding="utf-8") as file:
        assert tk.Forest.from_brackets(file) == tk.Forest.from_brackets(LINES)


def test_empty_list_gives_an_empty_forest():
    forest = tk.Forest.from_brackets([])
    assert len(forest) == 0
    assert forest.to_brackets() == []
    assert list(forest) == []


def test_an_exception_of_the_generator_passes_through():
    def lines():
        yield "(a)"
        message = "disk on fire"
        raise OSError(message)

    with pytest.raises(OSError, match="disk on fire"):
        tk.Forest.from_brackets(lines())


@pytest.mark.parametrize("item", [3, None, 1.5, ["(a)"], ...], ids=repr)
def test_an_item_that_is_no_text_is_a_type_error_with_its_index(item):
    with pytest.raises(TypeError, match=r"\b2\b"):
        tk.Forest.from_brackets(["(a)", b"(b)", item])


@pytest.mark.parametrize("source", [3, None, 1.5, ...], ids=repr)
def test_a_source_that_is_no_text_and_no_iterable_is_a_type_error(source):
    with pytest.raises(TypeError):
        tk.Forest.from_brackets(source)


# --- ParseError ---------------------------------------------------------------------


def error_of(source) -> tk.ParseError:
    with pytest.raises(tk.ParseError) as caught:
        tk.Forest.from_brackets(source)
    return caught.value


def test_parse_error_is_a_value_error():
    assert issubclass(tk.ParseError, ValueError)


def test_parse_error_says_where_and_what():
    error = error_of(["(a)", "(b)", "(c)", "(é\n(d x) ()"])
    assert position(error) == {"tree": 3, "line": 2, "column": 8, "offset": 11}
    assert all(type(value) is int for value in position(error).values())
    assert isinstance(error.expected, str)
    assert "label" in error.expected
    assert ")" in str(error.got)
    for word in ("tree 3", "line 2", "column 8", "11", error.expected):
        assert word in str(error)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("dog", "("),
        ("", "("),
        ("()", "label"),
        ("(a", ")"),
        (["(a) (b)"], "end"),
        ("((A a) b)", ")"),
    ],
)
def test_parse_error_names_what_was_expected(source, expected):
    error = error_of(source)
    assert expected in error.expected
    assert expected in str(error)


@pytest.mark.parametrize("source", ["(a", "()", b"\xff", "\ud800", "(a)\0", "(a))"])
def test_parse_error_pickles(source):
    error = error_of(source)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        copy = pickle.loads(pickle.dumps(error, protocol))
        assert type(copy) is tk.ParseError
        assert str(copy) == str(error)
        assert position(copy) == position(error)
        assert (copy.expected, copy.got) == (error.expected, error.got)


def test_message_of_a_long_text_stays_short():
    assert len(str(error_of("(" + "x" * 1_000_000))) < 500
    assert len(str(error_of("x" * 1_000_000))) < 500
