"""Small files of gzip data that would fill the memory."""

import gzip
import io

import pytest

import treekernel_rs as tk
from treekernel_rs import readers

# 130 MB of blanks in 130 kB: the limit is 64 MiB for files as small.
BOMB = gzip.compress(b" " * 1000) * 4 + gzip.compress(b" " * (130 << 20), 9)
LIMIT = (
    r"expected at most 67,108,864 bytes inflated from 1\d\d,\d{3} bytes of gzip data"
)


@pytest.fixture(scope="module")
def bomb(tmp_path_factory):
    path = tmp_path_factory.mktemp("bomb") / "bomb.gz"
    path.write_bytes(BOMB)
    return path


READERS = {
    "svmlight_tk": readers.svmlight_tk,
    "klp": readers.klp,
    "penn": readers.penn,
    "word_vectors": readers.word_vectors,
    "newick": readers.newick,
    "xml": readers.xml,
    "json": readers.json,
    "conllu": readers.conllu,
}


@pytest.mark.parametrize("name", READERS)
def test_what_is_inflated_has_a_limit_that_the_error_names(bomb, name):
    with pytest.raises(tk.ParseError, match=rf"bomb\.gz: {LIMIT}") as raised:
        READERS[name](bomb)
    assert raised.value.file == str(bomb)
    assert raised.value.expected.startswith("at most 67,108,864 bytes")


def test_a_bomb_among_texts_is_skipped(bomb):
    texts = ["(a,b);", BOMB, gzip.compress(b"(c,d);")]
    reading = readers.newick(text=texts, errors="skip")
    assert reading.forest.to_brackets() == ["(node a b)", "(node c d)"]
    assert [error.tree for error in reading.skipped] == [1]
    with pytest.raises(tk.ParseError, match=f"item 1: {LIMIT}"):
        readers.newick(text=texts)
    reading = readers.newick([bomb, io.BytesIO(BOMB)], errors="skip")
    assert [error.tree for error in reading.skipped] == [0, 1]
    lines = [io.BytesIO(BOMB), io.StringIO("1 |BT| (A b) |ET|")]
    assert [e.tree for e in readers.svmlight_tk(lines, errors="skip").skipped] == [0]


def test_data_that_are_inflated_once_are_not_inflated_again(tmp_path):
    path = tmp_path / "twice.gz"
    path.write_bytes(gzip.compress(gzip.compress(b"(a,b);")))
    with pytest.raises(tk.ParseError, match="expected UTF-8, got the byte 0x8b"):
        readers.newick(path)


def test_large_files_may_inflate_to_more(tmp_path, monkeypatch):
    monkeypatch.setattr("treekernel_rs.readers._source._FREE_INFLATED", 1000)
    path = tmp_path / "a.mrg.gz"
    trees = "".join(f"(S (A a{i * i}))\n" for i in range(2000))
    path.write_bytes(gzip.compress(trees.encode()))
    assert len(trees) < 100 * path.stat().st_size
    assert len(readers.penn(path)) == 2000
    path.write_bytes(gzip.compress(b"(S a)" * 20_000))
    with pytest.raises(tk.ParseError, match=r"\(100 for each, or 1,000\), got more"):
        readers.penn(path)
