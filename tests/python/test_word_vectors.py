"""Files of word vectors: KeLP's, and those of word2vec, GloVe and fastText."""

import gzip

import numpy as np
import pytest

import treekernel_rs as tk

KELP = "2 3\ncat::n\t0\tx\t1.0,-0.5,2e-1\n\ndog::n\t1\t\t0,1,0\n"
WORD2VEC = "2 3\ncat 1.0 -0.5 2e-1 \ndog 0 1 0\n"
GLOVE = "cat 1.0 -0.5 2e-1\n. . . 0 1 0\n"
MATRIX = [[1.0, -0.5, 0.2], [0.0, 1.0, 0.0]]


@pytest.mark.parametrize(
    ("text", "format", "labels"),
    [
        (KELP, "kelp", ["cat::n", "dog::n"]),
        (WORD2VEC, "text", ["cat", "dog"]),
        (GLOVE, "text", ["cat", ". . ."]),
        ("\ufeff" + WORD2VEC.replace("\n", "\r\n"), "text", ["cat", "dog"]),
    ],
)
@pytest.mark.parametrize("zipped", [False, True])
def test_files_are_read_and_recognised(tmp_path, text, format, labels, zipped):
    path = tmp_path / "vectors"
    data = text.encode()
    path.write_bytes(gzip.compress(data) if zipped else data)
    for how in (format, "auto"):
        found, matrix = tk.readers.word_vectors(path, format=how)
        assert found == labels
        np.testing.assert_array_equal(matrix, MATRIX)
    found, matrix = tk.readers.word_vectors(path, keep={labels[1]})
    assert (found, matrix.tolist()) == (labels[1:], MATRIX[1:])


def test_the_last_of_two_counts_and_empty_files_have_none(tmp_path):
    path = tmp_path / "vectors"
    path.write_text("a 1 2\nb 3 4\na 5 6\n")
    labels, matrix = tk.readers.word_vectors(path)
    assert (labels, matrix.tolist()) == (["a", "b"], [[5, 6], [3, 4]])
    path.write_text("")
    labels, matrix = tk.readers.word_vectors(path)
    assert (labels, matrix.shape) == ([], (0, 0))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a 1 2\nb 3 x\n", r"line 2, column 5 \(byte 10\): expected a finite number"),
        ("a 1 nan\n", "line 1, column 5 .*: expected a finite number"),
        ("a 1 2\nb 3\n", "line 2, column 1 .*: expected a key and 2 numbers"),
        ("a\n", "line 1, column 1 .*: expected a key and 1 numbers"),
        ("2 2\na 1\n", "line 2, .*: expected a key and 2 numbers"),
        ("a\t0\t0\t1,2\nb\t0\t0\t1\n", "line 2, column 7 .*: expected 2 numbers"),
        ("a\t0\t0\t1,2\nb\t0\n", "line 2, column 1 .*: expected four columns"),
        ("a\t0\t0\t1,,2\n", "line 1, column 9 .*: expected a finite number"),
    ],
)
def test_an_error_names_its_place(tmp_path, text, message):
    path = tmp_path / "vectors"
    path.write_text(text)
    with pytest.raises(tk.ParseError, match=message):
        tk.readers.word_vectors(path)


def test_keys_that_are_not_utf_8_are_named(tmp_path):
    path = tmp_path / "vectors"
    path.write_bytes(b"a 1\nb\xff 2\n")
    with pytest.raises(tk.ParseError, match=r"line 2, column 2 .*0xff"):
        tk.readers.word_vectors(path)


def test_other_formats_are_refused(tmp_path):
    with pytest.raises(ValueError, match="format must be 'auto', 'kelp' or 'text'"):
        tk.readers.word_vectors(tmp_path, format="glove")
