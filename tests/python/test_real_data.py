"""Treebanks and parser output: every tree is read, counted and printed back."""

from __future__ import annotations

import functools
import gzip
import warnings
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import oracle
import pytest

import treekernel_rs as tk

if TYPE_CHECKING:
    from pathlib import Path


class Row(NamedTuple):
    """A row of the table in shared/data/README.md."""

    file: str
    column: int
    n_trees: int
    nodes: tuple[float, int]
    out_degree: tuple[float, int]
    depth: tuple[float, int]
    n_labels: int


TABLE = {
    "grct": Row("qc/dep_train", 2, 5452, (23.7, 81), (1.44, 9), (5.7, 14), 8033),
    "lct": Row("qc/dep_train", 3, 5452, (23.7, 81), (2.87, 10), (4.7, 13), 8033),
    "loct": Row("qc/dep_train", 4, 5452, (7.9, 27), (2.09, 8), (3.7, 12), 7857),
    "grct test": Row("qc/dep_test", 2, 500, (17.6, 42), (1.41, 6), (5.2, 9), 1073),
    "const": Row("qc/const_train", 3, 5452, (29.5, 115), (1.48, 14), (8.4, 22), 9477),
    "const test": Row("qc/const_test", 3, 500, (22.1, 51), (1.45, 6), (7.2, 16), 1151),
    "wsj": Row("wsj/wsj.txt", 2, 3914, (71.5, 711), (1.54, 32), (11.1, 30), 13104),
    "wsj clean": Row(
        "wsj/wsj_clean.txt", 2, 3914, (66.8, 660), (1.54, 32), (11.1, 30), 12029
    ),
}
rows = pytest.mark.parametrize("row", TABLE.values(), ids=TABLE)


@functools.cache
def lines(folder: Path, row: Row) -> list[str]:
    ending = ".gz" if row.file.endswith(".txt") else ".tsv.gz"
    path = folder / (row.file + ending)
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        return [line.rstrip("\n").split("\t")[row.column] for line in file]


@functools.cache
def forest(folder: Path, row: Row) -> tk.Forest:
    return tk.Forest.from_brackets(lines(folder, row))


def mean_and_max(values: np.ndarray, digits: int) -> tuple[float, int]:
    return round(float(values.mean()), digits), int(values.max())


@rows
def test_counts_are_those_of_the_table(shared_data, row):
    read = forest(shared_data, row)
    assert len(read) == row.n_trees
    assert mean_and_max(read.n_nodes, 1) == row.nodes
    assert mean_and_max(np.array([tree.depth for tree in read]), 1) == row.depth
    assert len(read.labels) == row.n_labels
    parents = read.to_arrays()["parents"]
    arity = np.bincount(parents[parents >= 0])
    assert mean_and_max(arity[arity > 0], 2) == row.out_degree


@rows
def test_print_then_parse_is_identity(shared_data, row):
    read = forest(shared_data, row)
    assert tk.Forest.from_brackets(read.to_brackets()) == read
    assert tk.Forest.from_brackets("\n".join(lines(shared_data, row))) == read
    assert tk.Forest.from_brackets("\n".join(lines(shared_data, row)).encode()) == read


@pytest.mark.parametrize("name", ["const", "const test", "wsj", "wsj clean"])
def test_penn_lines_print_as_they_stand(shared_data, name):
    row = TABLE[name]
    assert forest(shared_data, row).to_brackets() == lines(shared_data, row)


@rows
def test_every_fiftieth_tree_is_what_the_oracle_reads(shared_data, row):
    some = lines(shared_data, row)[::50]
    expected = oracle.parse(some)
    read = forest(shared_data, row)[::50]
    assert [oracle.from_library(tree) for tree in read] == expected
    assert read.n_distinct == oracle.n_distinct(expected)


@rows
def test_arrays_round_trip(shared_data, row):
    read = forest(shared_data, row)
    assert tk.Forest.from_arrays(**read.to_arrays()) == read


def test_nltk_reads_the_same_trees(shared_data):
    nltk = pytest.importorskip("nltk")
    row = TABLE["wsj"]
    trees = [nltk.Tree.fromstring(line) for line in lines(shared_data, row)[::20]]
    assert tk.Forest.from_trees(trees) == forest(shared_data, row)[::20]


@pytest.mark.slow
def test_a_gaussian_process_on_questions_raises_its_likelihood(shared_data):
    sklearn = pytest.importorskip("sklearn.gaussian_process")
    from sklearn.gaussian_process.kernels import ConstantKernel, WhiteKernel

    with gzip.open(shared_data / "qc/const_train.tsv.gz", "rt") as file:
        rows = [next(file).rstrip("\n").split("\t") for _ in range(200)]
    X, y = [row[3] for row in rows], [1.0 if row[0] == "HUM" else -1.0 for row in rows]
    trees = tk.gaussian_process.GPTreeKernel(tk.SubsetTreeKernel(0.4, normalize=True))
    kernel = ConstantKernel(1.0) * trees + WhiteKernel(0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # noise at its lower bound
        first, best = (
            sklearn.GaussianProcessRegressor(kernel, optimizer=optimizer).fit(X, y)
            for optimizer in (None, "fmin_l_bfgs_b")
        )
    gain = best.log_marginal_likelihood_value_ - first.log_marginal_likelihood_value_
    assert gain > 10
