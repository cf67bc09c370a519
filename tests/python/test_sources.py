"""What readers take and return: one convention, for every reader there is."""

from __future__ import annotations

import dataclasses
import errno
import gzip
import inspect
import io
import random
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

import treekernel_rs as tk
from treekernel_rs import readers

if TYPE_CHECKING:
    from collections.abc import Callable


class Example(NamedTuple):
    """A text of two trees or more, one that is wrong, and a suffix of such files."""

    good: str
    bad: str
    suffix: str
    options: dict[str, Any] = {}  # noqa: RUF012
    package: str | None = None


ROW = "{}\tcafé\tcafé\tN\tN\t_\t{}\tdep\t_\t_\n"
EXAMPLES = {
    "conllu": Example(
        "# sent_id = é\n"
        + ROW.format(1, 0)
        + ROW.format(2, 1)
        + "\n"
        + ROW.format(1, 0),
        ROW.format(1, 1),
        "conllu",
    ),
    "dot_bracket": Example(">é\nGGAAC\n((.))\n(.)\n", "((.)", "dbn"),
    "glycans": Example("Gal(b1-4)Glc\nFuc(a1-6)é\n", "{Fuc(a1-2)}Gal", "iupac"),
    "html": Example(
        "<form>é</form><form><p></form>", "", "html", {"element": "form"}, "lxml"
    ),
    "json": Example('{"é": [1]}\n[null]\n', "{", "jsonl", {"lines": True}),
    "klp": Example(
        "a |BT:t| (A é) |ET| |BV| x:1 |EV|\nb |BT:t| (B b) |ET| |BS| y |ES|\n",
        "c |BT:t| (A |ET|",
        "klp",
    ),
    "newick": Example("(a,é)x;\n(b);\n", "(a,", "nwk"),
    "nexus": Example(
        "#NEXUS\nbegin trees;\ntree é = (a,b);\ntree u = (c);\nend;\n", "(a,b);", "nex"
    ),
    "penn": Example("( (S (A é)\n  (B b)) )\n(C (D d))\n", "(A (b)", "mrg"),
    "python_ast": Example(
        "def f(é):\n    return é\ndef g(): pass\n", "def (", "py", {"level": "function"}
    ),
    "sql": Example("SELECT é FROM t;\nSELECT 1\n", "SELECT (", "sql", {}, "sqlglot"),
    "svmlight_tk": Example(
        "+1 |BT| (A é) |BT| (P p) |ET| 1:1 3:2 |EV|\n-1 |BT| (B b) |ET|\n",
        "1 |BT| (A |ET|",
        "dat",
    ),
    "tree_sitter": Example(
        "class A { int é() { return 1; }\n int g() { return 2; } }\n",
        "class {",
        "java",
        {"language": "java", "level": "function"},
        "tree_sitter_java",
    ),
    "xml": Example("<r><a>é</a>\n<a/></r>", "<r><a></r>", "xml", {"element": "a"}),
}
#: It reads no trees.
OTHERS = {"word_vectors": Example("é 1 2\nb 3 4\n", "a 1 x\n", "txt")}
SAMPLES = EXAMPLES | OTHERS
#: An encoding is named by the text itself, or guessed.
NAME_THEIRS = {"xml", "html"}

PUBLIC = {
    name
    for name, value in vars(readers).items()
    if inspect.isfunction(value)
    and value.__module__.startswith("treekernel_rs.readers")
    and not name.startswith(("_", "write_"))
}


def reader(name: str) -> Callable[..., Any]:
    """The reader with the options of its example."""
    example = SAMPLES[name]
    if example.package is not None:
        pytest.importorskip(example.package)
    read = getattr(readers, name)
    return lambda *source, **options: read(*source, **example.options, **options)


def same(a: Any, b: Any) -> bool:
    """Compare what readers return, but for the names of files."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.tobytes() == b.tobytes() and a.shape == b.shape
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if dataclasses.is_dataclass(a):
        names = [f.name for f in dataclasses.fields(a) if f.name != "sources"]
        return all(same(getattr(a, name), getattr(b, name)) for name in names)
    if isinstance(a, tk.ParseError):
        return (a.tree, a.line, a.column, a.offset, a.expected, a.got) == (
            (b.tree, b.line, b.column, b.offset, b.expected, b.got)
        )
    return bool(a == b)


each = pytest.mark.parametrize("name", SAMPLES)
each_of_trees = pytest.mark.parametrize("name", EXAMPLES)


# --- The convention ---------------------------------------------------------------------


def test_every_public_reader_is_tested_here():
    assert set(SAMPLES) == PUBLIC
    assert set(readers.__all__) >= PUBLIC


@each
def test_signatures_are_of_one_kind(name):
    parameters = inspect.signature(getattr(readers, name)).parameters
    first, *others = parameters.values()
    assert (first.name, first.default) == ("source", None)
    assert {p.kind for p in others} == {inspect.Parameter.KEYWORD_ONLY}
    assert others[0].name == "text"
    if name in EXAMPLES:
        assert [p.name for p in others[-2:]] == ["errors", "progress"]


class Dribble:
    """A file of bytes that has nothing but `read`, and returns little at a time."""

    def __init__(self, data: bytes) -> None:
        self._file = io.BytesIO(data)

    def read(self, size: int = -1) -> bytes:
        return self._file.read(size if size < 0 else min(size, 7))


@each
def test_paths_files_and_texts_are_read_the_same(name, tmp_path):
    read, text = reader(name), SAMPLES[name].good
    data = text.encode()
    path, zipped = tmp_path / "plain", tmp_path / "zipped"
    path.write_bytes(data)
    zipped.write_bytes(gzip.compress(data))
    expected = read(path)
    if name in EXAMPLES:
        assert isinstance(expected, readers.Reading)
        assert len(expected) == len(expected.forest) == 2
        assert len(expected.names) == len(expected.spans) == 2
        assert expected.sources == [str(path)] * 2
        assert (expected.spans >= 1).all()
        assert expected.skipped == []
    with (
        path.open(encoding="utf-8", newline="") as as_text,
        path.open("rb") as as_bytes,
        path.open("rb", buffering=0) as unbuffered,
        zipped.open("rb") as as_gzip,
        gzip.open(zipped) as inflated,
    ):
        files = [as_text, as_bytes, unbuffered, as_gzip, inflated]
        files += [io.StringIO(text), io.BytesIO(data), Dribble(data)]
        for source in (str(path), zipped, [path], (str(zipped),), *files):
            assert same(read(source), expected), source
        assert not any(file.closed for file in files[:5])
    mark = b"\xef\xbb\xbf" + data
    for given in (
        text,
        data,
        bytearray(data),
        gzip.compress(data),
        [text],
        iter([data]),
    ):
        assert same(read(text=given), expected), given
    for given in (mark, "\ufeff" + text):
        assert same(read(text=given), expected), given


@each_of_trees
def test_several_documents_follow_each_other(name, tmp_path):
    read, text = reader(name), EXAMPLES[name].good
    suffix = EXAMPLES[name].suffix
    one = read(text=text)
    two = read(text=(part for part in (text, text.encode())))
    assert two.forest == one.forest + one.forest
    assert two.sources == ["item 0"] * 2 + ["item 1"] * 2
    assert two.spans.tolist() == one.spans.tolist() * 2
    assert two.names == one.names * 2
    inner = tmp_path / "a"
    inner.mkdir()
    paths = [inner / f"x.{suffix}", tmp_path / f"y.{suffix}.gz"]
    paths[0].write_text(text, encoding="utf-8")
    paths[1].write_bytes(gzip.compress(text.encode()))
    for source in (paths, map(str, paths), tmp_path, str(tmp_path), [tmp_path]):
        found = read(source)
        assert found.forest == two.forest
        assert found.sources == [str(path) for path in paths for _ in range(2)]
    for pattern in (f"{tmp_path}/**/x.*", tmp_path / "*" / "x.*"):
        assert read(pattern).sources == [str(paths[0])] * 2
    told = []
    read(paths, progress=lambda *done: told.append(done))
    assert told == [(1, 2), (2, 2)]
    assert len(read([])) == len(read(text=[])) == 0


def test_files_are_read_from_where_they_are():
    for file in (
        io.BytesIO(b"x\n1 |BT| (A a) |ET|\n"),
        io.StringIO("x\n1 |BT| (A a) |ET|"),
    ):
        file.readline()
        assert readers.svmlight_tk(file).forest.to_brackets() == ["(A a)"]


# --- What is no source ------------------------------------------------------------------


@each
def test_text_in_place_of_a_path_is_told_how_to_be_passed(name):
    read, text = reader(name), SAMPLES[name].good
    for given in (text, text * 1000, text + "\0", [text]):
        with pytest.raises(
            FileNotFoundError, match="for the text itself, pass text="
        ) as told:
            read(given)
        assert told.value.errno == errno.ENOENT
        assert len(str(told.value)) < 200
    with pytest.raises(TypeError, match="got bytes; for the text itself, pass text="):
        read(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        "/**/ int x;",
        "/* a */\nint x;",
        "[1, 2]",
        "SELECT a FROM t",
        "." * 5000,
        "",
        "x = 1",
    ],
)
def test_text_is_never_taken_for_a_pattern(text):
    with pytest.raises(FileNotFoundError, match="pass text="):
        readers.json(text)


@each
def test_a_name_that_no_file_has_is_just_missing(name, tmp_path):
    for path in (
        tmp_path / "no (a).x",
        "no_such_file.dat",
        "no such.dat",
        "no/such.dat",
    ):
        with pytest.raises(FileNotFoundError) as told:
            reader(name)(path)
        assert "text=" not in str(told.value)
    with pytest.raises(FileNotFoundError, match="found none"):
        reader(name)("no_such*.dat")


def test_a_file_whose_name_looks_like_text_is_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "(a;b) [c].nwk").write_text("(a,b);")
    assert len(readers.newick("(a;b) [c].nwk")) == 1


@each
def test_what_is_given_is_one_of_two(name):
    read, text = reader(name), SAMPLES[name].good
    with pytest.raises(TypeError, match="got neither"):
        read()
    with pytest.raises(TypeError, match="got both"):
        read("x", text=text)
    with pytest.raises(
        TypeError, match="source: expected a path, an open file or an it"
    ):
        read(3)
    with pytest.raises(
        TypeError, match="text: expected a text or an iterable, got int"
    ):
        read(text=3)
    with pytest.raises(
        TypeError, match="item 1: expected a path or an open file, got int"
    ):
        read([io.StringIO(text), 3])
    with pytest.raises(
        TypeError, match="item 1: expected a str or bytes, got NoneType"
    ):
        read(text=[text, None])
    with pytest.raises(
        TypeError, match="item 0: expected a str or bytes, got StringIO"
    ):
        read(text=iter([io.StringIO(text)]))

    class Nothing:
        def read(self, size: int = -1) -> None:
            return None

    with pytest.raises(
        TypeError, match="str or bytes from the open file, got NoneType"
    ):
        read(Nothing())


@each
def test_errors_of_the_operating_system_stay_what_they_are(name, tmp_path):
    class Broken:
        def read(self, size: int = -1) -> bytes:
            raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        reader(name)(Broken())
    path = tmp_path / "closed"
    path.write_text(SAMPLES[name].good, encoding="utf-8")
    with path.open("rb") as file:
        pass
    with pytest.raises(ValueError, match="closed file"):
        reader(name)(file)


# --- Text that cannot be decoded --------------------------------------------------------


@each
@pytest.mark.parametrize("way", ["path", "bytes", "file", "gzip"])
def test_bytes_that_are_no_text_have_a_place(name, way, tmp_path):
    if name in NAME_THEIRS:
        pytest.skip("its encoding is named by the text, or guessed")
    data = SAMPLES[name].good.encode()
    at = data.index("é".encode())
    data = data[:at] + b"\xff" + data[at + 2 :]
    path = tmp_path / "x"
    path.write_bytes(gzip.compress(data) if way == "gzip" else data)
    with path.open(encoding="utf-8", newline="") as file:
        given = {"bytes": {"text": data}, "file": {"source": file}}
        with pytest.raises(tk.ParseError) as told:
            reader(name)(**given.get(way, {"source": path}))
    error = told.value
    assert (error.expected, error.got) == ("UTF-8", "the byte 0xff")
    assert (error.offset, error.line) == (at, data[:at].count(b"\n") + 1)
    line = data[:at].rpartition(b"\n")[2]
    assert error.column == len(line.decode()) + 1
    assert error.file == (None if way == "bytes" else str(path))


@each
def test_a_lone_surrogate_is_no_text(name):
    text = SAMPLES[name].good.replace("é", "\ud800", 1)
    before = text[: text.index("\ud800")]
    for given in ({"text": text}, {"source": io.StringIO(text)}):
        with pytest.raises(tk.ParseError, match="expected Unicode text") as told:
            reader(name)(**given)
        assert (told.value.line, told.value.offset) == (
            before.count("\n") + 1,
            len(before),
        )


# --- What is left out -------------------------------------------------------------------


@each_of_trees
def test_a_wrong_text_among_others_is_left_out(name, tmp_path):
    read, example = reader(name), EXAMPLES[name]
    path = tmp_path / "bad"
    path.write_text(example.bad, encoding="utf-8")
    with pytest.raises(tk.ParseError) as told:
        read(path)
    assert told.value.file == str(path)
    assert str(path) in str(told.value)
    texts = [example.good, example.bad, example.good]
    with pytest.raises(
        tk.ParseError, match=r"^item 1, (tree 0, )?line \d+, column \d+"
    ):
        read(text=texts)
    reading = read(text=texts, errors="skip")
    assert len(reading.skipped) == 1
    (error,) = reading.skipped
    assert same(told.value, error) or error.tree != told.value.tree
    assert (error.line, error.column, error.got) == (
        (told.value.line, told.value.column, told.value.got)
    )
    assert same(reading.forest, read(text=[example.good] * 2).forest)
    assert reading.sources == ["item 0"] * 2 + ["item 2"] * 2
    assert "1 skipped" in repr(reading)
    # An item that is no text is left out, too, and one text by itself cannot be.
    reading = read(text=[example.good, None], errors="skip")
    assert [e.got for e in reading.skipped] == ["NoneType"]
    with pytest.raises(TypeError):
        read(text=[None], errors="skip")
    with pytest.raises(ValueError, match="errors must be 'raise' or 'skip', got 'x'"):
        read(text=example.good, errors="x")


@pytest.mark.parametrize("name", ["svmlight_tk", "klp"])
def test_wrong_lines_leave_the_others(name):
    read = reader(name)
    good = {
        "svmlight_tk": [
            "1 |BT| (A a) |ET| 2:1",
            "2",
            "3 |BT| (B) |BT| (C) |ET|",
            "4 5:1",
        ],
        "klp": [
            "a |BT:t| (A a) |ET|",
            "b |BV| x:1 |EV|",
            "c |<| |BS| a |ES| |,| |BS| b |ES| |>|",
        ],
    }[name]
    bad = {
        "svmlight_tk": [
            "x",
            "1 |BT| (A |ET|",
            "1 |BT| (A) |BT| |BT| B |ET| 9:1",
            "",
            "1 1:x",
        ],
        "klp": [
            "x",
            "x |BT:u| (A |ET|",
            "x |BT:u| (A) |ET| |BV:v| x |EV|",
            "",
            "p:1 p:2 |BS| |ES|",
        ],
    }[name]
    rng = random.Random(0)
    for _ in range(20):
        lines = [(rng.choice(good), True) for _ in range(8)]
        lines += [(rng.choice(bad), False) for _ in range(4)]
        rng.shuffle(lines)
        lines.append((good[0], True))
        text = "\n".join(line for line, _ in lines)
        reading = read(text=text, errors="skip")
        kept = [(number, line) for number, (line, fine) in enumerate(lines, 1) if fine]
        expected = read(text="\n".join(line for _, line in kept))
        places = [number for number, _ in kept]
        assert reading.spans.tolist() == [[number, number] for number in places]
        assert same(without_places(reading), without_places(expected))
        wrong = [number for number, (_, fine) in enumerate(lines, 1) if not fine]
        found = [error.line for error in reading.skipped]
        # Blank lines one after another are one error.
        runs = [n for n in wrong if lines[n - 1][0] or lines[n - 2][0] or n == 1]
        assert found == runs
        assert all(error.tree == error.line - 1 for error in reading.skipped)


def without_places(reading: Any) -> Any:
    new: dict[str, Any] = {"spans": None, "skipped": None}
    if getattr(reading, "left", None):
        new |= {
            side: without_places(getattr(reading, side)) for side in ("left", "right")
        }
    return dataclasses.replace(reading, **new)


def test_a_feature_beyond_n_features_is_a_wrong_line():
    reading = readers.svmlight_tk(text="1 1:1\n2 7:1\n", n_features=3, errors="skip")
    assert (reading.y.tolist(), reading.vectors[0].shape) == ([1.0], (1, 3))
    assert "at most 3" in reading.skipped[0].expected


def test_the_error_of_the_first_document_is_told_first():
    texts = ["1 |BT| (A) |ET| 1:1 2:1 3:1\n1 |BT| (A |ET|\n", "x"]
    with pytest.raises(tk.ParseError, match=r"^item 0, line 2") as told:
        readers.svmlight_tk(text=texts)
    assert told.value.tree == 1
    with pytest.raises(tk.ParseError, match=r"^item 1, line 1") as told:
        readers.svmlight_tk(text=["1\n1\n", "x"])
    assert told.value.tree == 2


def test_trees_that_are_too_deep_leave_the_others():
    text = "(A a)\n(B (C c))\n((D d))"
    reading = readers.penn(text=text, max_depth=2, errors="skip")
    assert reading.forest.to_brackets() == ["(A a)", "(D d)"]
    assert reading.spans.tolist() == [[1, 1], [3, 3]]
    assert [(e.tree, e.line, e.got) for e in reading.skipped] == [(1, 2, "3 levels")]


# --- What is told of trees --------------------------------------------------------------


def test_lines_of_treebanks_are_counted_from_the_text():
    rng = random.Random(0)
    for _ in range(50):
        text, spans, line = "", [], 1
        for _ in range(rng.randrange(1, 6)):
            text += (blank := rng.choice(["", "\n", " \n\n", "\t"]))
            line += blank.count("\n")
            tree = rng.choice(
                [
                    "(A)",
                    "(A\n(B b)\r\n)",
                    r"( (A \( \)" + "\n" + r"\\))",
                    "(é\n\n(X\n))",
                ]
            )
            spans.append([line, line + tree.count("\n")])
            text += tree
            line += tree.count("\n")
        reading = readers.penn(text=text)
        assert reading.spans.tolist() == spans


def test_examples_without_trees_have_null_trees():
    for reading in (
        readers.svmlight_tk(text="1 1:1\n2\n"),
        readers.klp(text="a |BS| x |ES|\nb |BS| y |ES|\n"),
    ):
        assert reading.forest.to_brackets() == [r"(\e)"] * 2
        assert len(reading) == len(reading.y) == 2
    pair = "yes |<| |BT:t| (A) |ET| |,| |BT:t| (B) |ET| |>|\n"
    reading = readers.klp(text=pair)
    assert reading.left.forest.to_brackets() == ["(A)"]
    assert reading.right.spans.tolist() == [[1, 1]]


def test_classes_are_y_and_nothing_else_is():
    assert readers.svmlight_tk(text="1\n-2.5\n").y.tolist() == [1.0, -2.5]
    assert readers.klp(text="a |BS| x |ES|\n").y.tolist() == ["a"]
    for name in set(EXAMPLES) - {"svmlight_tk", "klp", "html", "sql", "tree_sitter"}:
        assert reader(name)(text=EXAMPLES[name].good).y is None


def test_a_reading_in_place_of_its_forest_is_named():
    reading = tk.readers.json(text="[1]")
    kernel = tk.SubtreeKernel()
    for call in (lambda: kernel(reading), lambda: tk.TreeGram(kernel).fit(reading)):
        with pytest.raises(TypeError, match=r"Reading: give its \.forest"):
            call()
