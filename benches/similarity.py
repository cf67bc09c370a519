"""Rows by similar labels against rows of PT and single pairs, on questions' LCT.

    python benches/similarity.py FOLDER     with qc/dep_train.tsv.gz in it; some minutes

Vectors are made of the questions themselves: which lemmas stand in one, PPMI, SVD to 100
numbers. Cosines are cut where as many pairs of words are left as asked for; or not at all.
CPU time of one thread, the least of three runs, in nanoseconds for a pair of trees.
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


def n_similar(similar: tk.VectorSimilarity, forest: tk.Forest) -> int:
    """Count the pairs of different labels that are similar."""
    blocks, _, _ = similar._of(list(forest.labels)).blocks()
    return sum(len(values) for _, (_, _, values) in blocks) // 2


def best(run: Callable[[], object], n: int = 3) -> float:
    """Return the CPU time of the best of some runs."""
    times = []
    for _ in range(n):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def main() -> None:
    """Print the table."""
    path = Path(sys.argv[1]) / "qc" / "dep_train.tsv.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        columns = [line.rstrip("\n").split("\t") for line in file]
    trees = [fields[3] for fields in columns]
    forest = tk.Forest.from_brackets(trees)
    n = len(forest)
    vectors = vectors_of(trees)
    warnings.simplefilter("ignore")
    i, j = np.tril_indices(200)

    def cut(wanted: int) -> tk.VectorSimilarity:
        low, high = 0.0, 1.0
        for _ in range(30):
            middle = (low + high) / 2
            similar = tk.VectorSimilarity(vectors, classes="kelp", threshold=middle)
            if n_similar(similar, forest) > wanted:
                low = middle
            else:
                high = middle
        return tk.VectorSimilarity(vectors, classes="kelp", threshold=high)

    pt = tk.PartialTreeKernel(leaf_factor=0.2)
    whole = n * (n + 1) / 2
    base = best(lambda: pt.gram(forest, n_jobs=1)) / whole * 1e9
    print(f"{n} trees, {len(forest.labels)} labels, {len(vectors[0])} with vectors")
    print(f"PT                      rows {base:8.1f}")
    for wanted in (3_209, 47_147, None):
        similar = (
            tk.VectorSimilarity(vectors, classes="kelp")
            if wanted is None
            else cut(wanted)
        )
        k = pt.replace(similarity=similar)
        table = best(lambda s=similar: s._of(list(forest.labels)), 2)
        rows = best(lambda k=k: k.gram(forest, n_jobs=1), 3 if wanted else 2)
        rows = (rows - table) / whole * 1e9
        some = np.random.default_rng(0).choice(n, 200, replace=False)
        sample = forest[some]
        labels = list(sample.labels)
        own = best(lambda s=similar, names=labels: s._of(names))
        pairs = best(lambda k=k, x=sample: k.pairs(x, i, j, n_jobs=1)) - own
        pairs = pairs / len(i) * 1e9
        name = f"{n_similar(similar, forest):10,} pairs"
        print(
            f"{name:22}  rows {rows:8.1f}  {rows / base:5.2f} of PT; "
            f"single pairs {pairs:8.1f}  {rows / pairs:.2f}; "
            f"similarities {table:.2f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
