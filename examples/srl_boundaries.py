"""Which node is an argument? Perceptrons and an SVM, as in the DAG models' paper.

Da San Martino, Sperduti, Aiolli & Moschitti, "Efficient Online Learning for Mapping
Kernels on Linguistic Structures" (AAAI 2019), detects the boundaries of a predicate's
arguments: each tree is the path from a predicate to a candidate node with all below it,
and the question is whether that node is an argument. Here on MASC, split by document:
training times and model sizes (their figure 5), F1 on held-out documents by the number of
training trees (their figure 6). Beside them an exact support vector machine, which the
paper's authors could not train on so many trees.

    python examples/srl_boundaries.py [--sizes 50000 100000 ...] [--mix 0.6] [--last 50000]

The data set is read from shared/data beside a folder above. Without it, a small task of
the same kind is made up. Needs numpy.
"""

from __future__ import annotations

import argparse
import gzip
import time
import zlib
from pathlib import Path

import numpy as np

import treekernel_rs as tk

FILE = "shared/data/srl/masc_boundary.tsv.gz"


def masc() -> tuple[list[str], np.ndarray, np.ndarray] | None:
    """Return trees, labels and whether their document is held out."""
    for folder in Path(__file__).resolve().parents:
        path = folder / FILE
        if path.is_file():
            with gzip.open(path, "rt", encoding="utf-8") as file:
                rows = [line.rstrip("\n").split("\t") for line in file]
            y = np.array([int(row[0]) for row in rows])
            # One document in five, whatever the order of the file.
            names = [row[1].split(":")[0].encode() for row in rows]
            held_out = np.array([zlib.crc32(name) % 5 == 0 for name in names])
            return [row[5] for row in rows], y, held_out
    return None


def made_up() -> tuple[list[str], np.ndarray, np.ndarray]:
    """Return phrases below verbs; those with a noun are arguments, with some noise."""
    rng = np.random.default_rng(0)
    print(f"no {FILE} in a folder above: made-up trees")

    def phrase(depth: int) -> str:
        if depth == 0:
            return f"(NN n{rng.zipf(1.5) % 500})" if rng.random() < 0.5 else "(DT the)"
        below = " ".join(phrase(depth - 1) for _ in range(rng.integers(1, 4)))
        return f"({rng.choice(['NP', 'PP', 'ADJP'])} {below})"

    trees = [
        f"(VP (VB-P v{rng.zipf(1.5) % 50}) {phrase(rng.integers(1, 3))})"
        for _ in range(20_000)
    ]
    noise = rng.random(len(trees)) < 0.05
    y = np.where(np.array(["(NN" in tree for tree in trees]) != noise, 1, -1)
    return trees, y, np.arange(len(trees)) >= 16_000


def features(forest: tk.Forest, n_columns: int = 1024) -> np.ndarray:
    """Return which labels of inner nodes are in a tree, hashed into columns."""
    arrays = forest.to_arrays()
    labels, parents, offsets = (arrays[k] for k in ("labels", "parents", "offsets"))
    names = np.array([zlib.crc32(name.encode()) % n_columns for name in forest.labels])
    is_inner = np.zeros(len(labels), bool)
    is_inner[parents[parents >= 0]] = True
    ends = offsets if offsets[0] > 0 else np.r_[offsets[1:], len(labels)]
    tree = np.searchsorted(ends, np.arange(len(labels)), side="right")
    rows = np.zeros((len(forest), n_columns), np.float32)
    rows[tree[is_inner], names[labels[is_inner]]] = 1
    return rows


def f1(scores: np.ndarray, y: np.ndarray) -> float:
    found, right = scores > 0, y > 0
    return 2 * float((found & right).sum()) / max(1, int(found.sum() + right.sum()))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="*")
    parser.add_argument("--decay", type=float, default=0.4)
    parser.add_argument(
        "--mix", type=float, help="with label features, this share of SST"
    )
    parser.add_argument("--last", type=int, help="hold out so many trees, the last")
    parser.add_argument("--jobs", type=int, default=1, help="threads")
    options = parser.parse_args()
    trees, y, held_out = masc() or made_up()
    start = time.perf_counter()
    forest = tk.Forest.from_brackets(trees)
    print(
        f"{len(forest):,} trees read in {time.perf_counter() - start:.2f} s: {forest}"
    )
    if options.last:
        held_out = np.arange(len(forest)) >= len(forest) - options.last
    train, test = forest[~held_out], forest[held_out]
    y_train, y_test = y[~held_out], y[held_out]
    kernel = tk.SubsetTreeKernel(options.decay)
    sizes = options.sizes or [len(train) // n for n in (16, 8, 4, 2, 1)]
    vectors = (
        {}
        if options.mix is None
        else {"vectors": tk.PolynomialKernel(3), "mix": options.mix}
    )
    # Rows are made for as many trees as are asked for: they are dense.
    X_test = features(test) if vectors else None
    print(f"{len(train):,} for training, {len(test):,} held out\n")
    print(
        "|  trees | vote | learn, s | mistakes | subtrees | tree nodes | score, us | F1 |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for n in sizes:
        part = train[:n]
        X = features(part) if vectors else None
        for vote in ("last", "average", "vote"):
            p = tk.Perceptron(kernel, vote, **vectors)
            start = time.perf_counter()
            p.learn(part, y_train[:n], X)
            learned = time.perf_counter() - start
            start = time.perf_counter()
            scores = p.score(test, X_test, n_jobs=options.jobs)
            scored = (time.perf_counter() - start) / len(test) * 1e6
            model = p.model
            print(
                f"| {len(part):,} | {vote} | {learned:.2f} | {p.n_mistakes:,} "
                f"| {model.n_nodes:,} | {model.n_tree_nodes:,} | {scored:.2f} "
                f"| {f1(scores, y_test):.3f} |"
            )
        machine = tk.KernelMachine(kernel.replace(normalize=True), part, y_train[:n])
        start = time.perf_counter()
        machine.run(tol=0.1, n_jobs=options.jobs)
        learned = time.perf_counter() - start
        model = machine.model()
        start = time.perf_counter()
        scores = model.score(test, n_jobs=options.jobs)
        scored = (time.perf_counter() - start) / len(test) * 1e6
        print(
            f"| {len(part):,} | svm | {learned:.2f} | {model.n_trees:,} (supports) "
            f"| {model.n_nodes:,} | {model.n_tree_nodes:,} | {scored:.2f} "
            f"| {f1(scores, y_test):.3f} |"
        )


if __name__ == "__main__":
    main()
