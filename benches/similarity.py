"""Rows by similar labels against rows of PT and single pairs, on questions' LCT.

    python benches/similarity.py DATA

DATA has qc/dep_train.tsv.gz (docs/DATA.md). Takes some minutes.

Vectors are made of the questions themselves: which lemmas stand in one, PPMI, SVD to 100
numbers. Similar are the pairs of words of one class with the largest cosines, among words that
stand in three questions at least; or all words of one class. "a word": how many are similar
to a word of a tree. CPU time of one thread, the least of three runs, in nanoseconds for a pair
of trees; the index is made before, and its time with that of the similarities is shown apart.
"""

from __future__ import annotations

import gzip
import re
import sys
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.linalg import svds

import treekernel_rs as tk

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


def vectors_of(trees: list[str]) -> tuple[list[str], NDArray[np.float64]]:
    """Make vectors of the lemmas of some trees."""
    words = [re.findall(r"LEX##([^()\s]+)", tree) for tree in trees]
    names = sorted({word for of in words for word in of})
    number = {name: i for i, name in enumerate(names)}
    pairs = Counter((x, y) for of in words for x in set(of) for y in set(of) if x != y)
    rows, columns = zip(*((number[x], number[y]) for x, y in pairs), strict=True)
    counts = csr_matrix((list(pairs.values()), (rows, columns)), (len(names),) * 2)
    counts = counts.astype(np.float64).tocoo()
    sums = np.asarray(counts.sum(axis=1)).ravel()
    expected = sums[counts.row] * sums[counts.col] / sums.sum()
    counts.data = np.maximum(np.log(counts.data / expected), 0)
    start = np.ones(len(names))
    u, s, _ = svds(counts.tocsr(), k=100, v0=start)
    return names, u * np.sqrt(s)


def most_similar(
    names: list[str],
    matrix: NDArray[np.float64],
    counts: Counter[str],
    n_pairs: int,
    least: int,
) -> dict[tuple[str, str], float]:
    """Find the most similar pairs of words of one class that stand in `least` questions."""
    unit = matrix / np.linalg.norm(matrix, axis=1, keepdims=True).clip(1e-9)
    pos = np.unique([x.rpartition("::")[2] for x in names], return_inverse=True)[1]
    often = np.array([counts[name] >= least for name in names])
    cosines = np.triu(unit @ unit.T, 1)
    cosines[(pos[:, None] != pos) | ~often[:, None] | ~often] = 0
    best = np.argpartition(cosines, -n_pairs, axis=None)[-n_pairs:]
    return {
        (f"LEX##{names[i]}", f"LEX##{names[j]}"): float(min(cosines[i, j], 1))
        for i, j in zip(*np.unravel_index(best, cosines.shape), strict=True)
    }


def best(run: Callable[[], object], n: int = 3) -> float:
    """Return the CPU time of the best of some runs, in seconds."""
    times = []
    for _ in range(n):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def measure(k: tk.PartialTreeKernel, forest: tk.Forest) -> list[float]:
    """Return ns per pair of rows and of single pairs, and what making ready takes in ms."""
    n = len(forest)
    rows = k.rows(forest, n_jobs=1)
    some = np.arange(0, n, max(1, n // 800))
    of_rows = best(lambda: rows[some]) / (len(some) * n)
    ready = best(lambda: k.rows(forest, n_jobs=1), 1)
    sample = forest[np.arange(0, n, n // 150)]
    i, j = np.tril_indices(len(sample))
    short = best(lambda: k.pairs(sample, i[:1], j[:1], n_jobs=1))
    single = best(lambda: k.pairs(sample, i, j, n_jobs=1)) - short
    return [of_rows * 1e9, single / (len(i) - 1) * 1e9, ready * 1e3]


def main() -> None:
    """Print the table."""
    path = Path(sys.argv[1]) / "qc" / "dep_train.tsv.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        trees = [line.rstrip("\n").split("\t")[3] for line in file]
    forest = tk.Forest.from_brackets(trees)
    names, matrix = vectors_of(trees)
    warnings.simplefilter("ignore")
    words = [re.findall(r"LEX##([^()\s]+)", tree) for tree in trees]
    counts = Counter(word for of in words for word in of)
    pt = tk.PartialTreeKernel(leaf_factor=0.2)
    base, single, ready = measure(pt, forest)
    print(
        f"{len(forest)} trees, {len(forest.labels)} labels, {len(names)} with vectors"
    )
    print(
        "similar pairs  a word  rows, ns  of PT  single pairs, ns  rows of these  index"
    )
    print(f"{0:13,}  {0:6}  {base:8.1f}  {1:5}  {single:16.0f}  {ready:21.0f} ms")
    for n_pairs, least in ((3_209, 3), (47_147, 3), (0, 1)):
        if n_pairs:
            pairs = most_similar(names, matrix, counts, n_pairs, least)
            similar = tk.kernels.TableSimilarity(pairs)
            near = Counter(name for pair in pairs for name in pair)
        else:
            similar = tk.kernels.VectorSimilarity((names, matrix), classes="kelp")
            of = Counter(name.rpartition("::")[2] for name in names)
            near = {f"LEX##{x}": of[x.rpartition("::")[2]] - 1 for x in names}
            n_pairs = sum(near.values()) // 2
        a_word = sum(near.get(f"LEX##{x}", 0) * c for x, c in counts.items())
        rows, single, ready = measure(pt.replace(similarity=similar), forest)
        print(
            f"{n_pairs:13,}  {a_word / counts.total():6.1f}  {rows:8.1f}  "
            f"{rows / base:5.2f}  {single:16.0f}  {rows / single:13.2f}  {ready:5.0f} ms",
            flush=True,
        )


if __name__ == "__main__":
    main()
