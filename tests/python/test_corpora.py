"""examples/corpora.py: clones are found by their commits, and trees are cleaned."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples/corpora.py"


@pytest.fixture(scope="module")
def corpora():
    spec = importlib.util.spec_from_file_location("corpora", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["corpora"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["corpora"]


def git(folder, *arguments):
    identity = ["-c", "user.name=T", "-c", "user.email=t@example.org"]
    command = ["git", *identity, *arguments]
    done = subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE)
    return done.stdout.decode().strip()


@pytest.fixture
def clone(tmp_path):
    """A repository with two files, whose second commit spoils them; and the first."""
    folder = tmp_path / "deep/below/clone"
    (folder / "data").mkdir(parents=True)
    git(folder, "init", "--quiet")
    (folder / "data/a.txt").write_bytes(b"one\n\n two")
    (folder / "data/b.txt").write_bytes(b"")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "first")
    commit = git(folder, "rev-parse", "HEAD")
    (folder / "data/a.txt").write_bytes(b"spoilt")
    git(folder, "commit", "--quiet", "-am", "second")
    return folder, commit


@pytest.mark.parametrize("is_bare", [False, True])
def test_a_clone_of_any_name_is_found_by_its_commit(
    corpora, clone, tmp_path, monkeypatch, is_bare
):
    folder, commit = clone
    if is_bare:
        git(tmp_path, "clone", "--quiet", "--bare", str(folder), str(tmp_path / "x"))
        folder = tmp_path / "x"
    monkeypatch.setattr(corpora, "SOURCES", {"some/one": commit, "an/other": "0" * 40})
    found = corpora.find_clones(folder if is_bare else tmp_path)
    assert list(found) == ["some/one"]
    files = found["some/one"].list("data")
    assert list(files) == ["data/a.txt", "data/b.txt"]
    assert list(found["some/one"].read_many(files)) == [b"one\n\n two", b""]
    assert found["some/one"].read("data/a.txt") == b"one\n\n two"
    with pytest.raises(corpora.MissingFileError, match=r"no content of data/c\.txt"):
        found["some/one"].read("data/c.txt")


def test_missing_clones_are_named_with_the_command_that_makes_them(tmp_path):
    done = subprocess.run(
        [sys.executable, SCRIPT, tmp_path, "--only", "wsj,code"],
        check=False,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert done.returncode == 1
    assert "wsj: not built" in done.stdout
    assert "git clone https://github.com/nltk/nltk_data  # 5db857e" in done.stdout
    assert "qc" not in done.stdout


def test_files_are_written_with_the_checksum_of_their_text(corpora, tmp_path):
    rows = [
        ("a/x.tsv.gz", ["1", "(A b)"]),
        ("y.txt", b"raw"),
        ("a/x.tsv.gz", ["2", "é"]),
    ]
    text = "1\t(A b)\n2\té\n".encode()
    assert corpora.write(iter(rows), tmp_path) == {
        "a/x.tsv.gz": hashlib.sha256(text).hexdigest(),
        "y.txt": hashlib.sha256(b"raw").hexdigest(),
    }
    assert gzip.decompress((tmp_path / "a/x.tsv.gz").read_bytes()) == text


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("((S (NP-SBJ-1 (NN dog)) (VP (VBZ barks))))", "(S (NP (NN dog)) (VP (VBZ barks)))"),
        ("(S (NP (-NONE- *-1)) (VP=2 (VB go)))", "(S (VP (VB go)))"),
        ("(NP (-LRB- -LRB-) (NN-X a))", "(NP (-LRB- -LRB-) (NN-X a))"),
        ("(S ((NP (NN a)) (NP (NN b))) (VP (VB c)))", "(S (NP (NN a)) (NP (NN b)) (VP (VB c)))"),
        ("(S (NP (-NONE- *)))", "None"),
    ],
)  # fmt: skip
def test_traces_function_tags_and_bare_brackets_go(corpora, text, clean):
    [tree] = corpora.parse(text)
    assert str(corpora.clean(corpora.unwrap(tree))) == clean


@pytest.mark.parametrize("text", ["(A b))", "(A (B c)", "a (B c)"])
def test_wrong_brackets_are_refused(corpora, text):
    with pytest.raises(ValueError, match="bracket"):
        corpora.parse(text)


def test_tuples_of_a_dump_have_their_escapes_resolved(corpora):
    dump = "x\nINSERT INTO `t` (`a`) VALUES\n(1, 'it''s \\'n\\' a,)\\n', NULL),\n(2, '', 'b');\n"
    assert list(corpora.sql_rows(dump)) == [
        ["1", "it's 'n' a,)\n", None],
        ["2", "", "b"],
    ]


def test_spans_of_arguments_are_read_from_columns(corpora):
    column = ["(ARG0*", "*)", "(V*)", "(ARG1*", "(R*)", "*)"]
    spans = [("ARG0", 0, 1), ("V", 2, 2), ("R", 4, 4), ("ARG1", 3, 5)]
    assert corpora.read_spans(column) == spans
    assert corpora.read_spans(["*)"]) is None
    assert corpora.read_spans(["(A*"]) is None
