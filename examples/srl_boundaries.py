"""Which node is an argument? The study of the DAG models' paper, with an SVM beside it.

Da San Martino, Sperduti, Aiolli & Moschitti, "Efficient Online Learning for Mapping
Kernels on Linguistic Structures" (AAAI 2019), detects the boundaries of a predicate's
arguments: each tree is the path from a predicate to a candidate node with all below it,
and the question is whether that node is an argument. Here on MASC, split by document. One
command prints their table 1, the choice of decay and mix on validation documents, and their
figures 3 to 6, each line of them as a row:

3. CPU time to learn, of a perceptron that sums over its support trees and of the voted one on a
   DAG, both with a polynomial kernel of vectors beside the trees: fastest and slowest of
   four settings;
4. the tree nodes that both keep: the fewest and the most;
5. CPU time to learn of the voted one, with vectors, trees, or both;
6. F1 on held-out documents of the same, and of an exact support vector machine, which the
   paper's authors could train on a part of their trees only. Here it is in all columns, in
   figure 5 as well.

    python examples/srl_boundaries.py [--sizes 50000 100000 ...] [--last 50000] [--out f.png]
                                      [--decay 0.4 --mixed-decay 0.6 --mix 0.9]

Decay and mix are chosen as in the paper: F1 on validation documents, which are a part of the
training documents. With --out and matplotlib all four are drawn. The data set is srl of
docs/DATA.md, from the folder --data. Without it, or with --made-up, a small task of the same
kind is made up. Needs SciPy.
"""

from __future__ import annotations

import argparse
import itertools
import time
import zlib
from pathlib import Path

import numpy as np
from _data import HINT, add_argument, find, may_draw, rows
from scipy.sparse import csr_matrix

import treekernel_rs as tk

FILE = "srl/masc_boundary.tsv.gz"


def masc(path: Path) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Return trees, labels and a number from 0 to 39 for their document."""
    found = rows(path)
    y = np.array([int(row[0]) for row in found])
    names = [row[1].split(":")[0].encode() for row in found]
    documents = np.array([zlib.crc32(name) % 40 for name in names])
    return [row[5] for row in found], y, documents


def made_up(n: int) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Return the same: phrases below verbs. Those with a noun are arguments, with noise."""
    rng = np.random.default_rng(0)
    print("made-up trees")

    def phrase(depth: int) -> str:
        if depth == 0:
            return f"(NN n{rng.zipf(1.5) % 500})" if rng.random() < 0.5 else "(DT the)"
        below = " ".join(phrase(depth - 1) for _ in range(rng.integers(1, 4)))
        return f"({rng.choice(['NP', 'PP', 'ADJP'])} {below})"

    trees = [
        f"(VP (VB-P v{rng.zipf(1.5) % 50}) {phrase(rng.integers(1, 3))})"
        for _ in range(n)
    ]
    noise = rng.random(len(trees)) < 0.05
    y = np.where(np.array(["(NN" in tree for tree in trees]) != noise, 1, -1)
    last = np.arange(n) >= 4 * n // 5  # held out, as a multiple of 5
    return trees, y, np.where(last, 5, np.array([1, 2, 3, 4])[np.arange(n) % 4])


def table_1(parts: dict[str, tk.Forest]) -> None:
    """Print the statistics of the data set."""
    columns = []
    for forest in parts.values():
        arrays = forest.to_arrays()
        parents, n_nodes = arrays["parents"], forest.n_nodes
        degree = np.bincount(parents[parents >= 0], minlength=len(parents))
        # Nodes whose parent is -1 begin a tree; they are in the order of the trees.
        starts = np.flatnonzero(parents < 0)
        widest = np.maximum.reduceat(degree, starts)
        columns.append(
            (
                f"{len(forest):,}",
                f"{n_nodes.sum():,}",
                f"{n_nodes.mean():.2f}",
                f"{widest.mean():.2f}",
                f"{widest.max():,}",
            )
        )
    print("\nTable 1. The data set\n")
    print("| | " + " | ".join(parts) + " |")
    print("|---|" + "---|" * len(parts))
    names = ("trees", "nodes", "mean nodes", "mean of the largest outdegree", "largest")
    for name, *cells in zip(names, *columns, strict=True):
        print(f"| {name} | " + " | ".join(cells) + " |")


def choose(
    train: tuple[tk.Forest, np.ndarray],
    validation: tuple[tk.Forest, np.ndarray],
    most: int,
    n_jobs: int,
) -> tuple[float, float, float]:
    """Return the decay of trees alone, and decay and mix of both, by F1 on validation."""
    forest, y = train[0][:most], train[1][:most]
    X, X_validation = features(forest), features(validation[0])
    decays, mixes = (0.2, 0.4, 0.6, 0.8, 1.0), (0.2, 0.5, 0.9)
    found: dict[tuple[float | None, float], float] = {}
    for mix in (None, *mixes):
        for decay in decays:
            beside = (
                {}
                if mix is None
                else {"vectors": tk.kernels.VectorPolynomial(3), "mix": mix}
            )
            p = tk.Perceptron(tk.SubsetTreeKernel(decay), "vote", **beside)
            p.partial_fit(forest, y, None if mix is None else X)
            of = None if mix is None else X_validation
            scores = p.decision_function(validation[0], of, n_jobs=n_jobs)
            found[mix, decay] = f1(scores, validation[1])
    print(f"\nF1 on validation documents after {len(forest):,} trees, voted DAG\n")
    print("| decay | " + " | ".join(map(str, decays)) + " |")
    print("|---|" + "---|" * len(decays))
    for mix in (None, *mixes):
        name = "Tk" if mix is None else f"Tk + Poly3, mix {mix}"
        cells = (f"{found[mix, decay]:.3f}" for decay in decays)
        print(f"| {name} | " + " | ".join(cells) + " |")
    decay = max(decays, key=lambda decay: found[None, decay])
    mix, mixed_decay = max((key for key in found if key[0]), key=found.__getitem__)
    return decay, mixed_decay, mix


def features(forest: tk.Forest, n_columns: int = 1024) -> csr_matrix:
    """Return which labels of inner nodes are in a tree, hashed into columns."""
    arrays = forest.to_arrays()
    labels, parents, offsets = (arrays[k] for k in ("labels", "parents", "offsets"))
    names = np.array([zlib.crc32(name.encode()) % n_columns for name in forest.labels])
    is_inner = np.zeros(len(labels), bool)
    is_inner[parents[parents >= 0]] = True
    ends = offsets if offsets[0] > 0 else np.r_[offsets[1:], len(labels)]
    tree = np.searchsorted(ends, np.arange(len(labels)), side="right")
    places = np.unique(tree[is_inner] * n_columns + names[labels[is_inner]])
    at = (places // n_columns, places % n_columns)
    return csr_matrix((np.ones(len(places)), at), (len(forest), n_columns))


def f1(scores: np.ndarray, y: np.ndarray) -> float:
    found, right = scores > 0, y > 0
    return 2 * float((found & right).sum()) / max(1, int(found.sum() + right.sum()))


class SumPerceptron:
    """The standard perceptron: a score is a sum over all support trees.

    Rows of kernels are computed for a block of trees at a time, which is many times faster
    than pair by pair; what is in the block comes in as it becomes a support tree.
    """

    def __init__(self, kernel: tk.SubsetTreeKernel, mix: float) -> None:
        self.kernel, self.mix = kernel, mix
        self.support: list[int] = []
        self.alphas: list[float] = []

    def learn(
        self, forest: tk.Forest, y: np.ndarray, X: csr_matrix, start: int, end: int
    ) -> None:
        def kernels(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
            trees = self.kernel.gram(forest[rows], forest[columns], n_jobs=1)
            vectors = (X[rows] @ X[columns].T).toarray() + 1
            return self.mix * trees + (1 - self.mix) * vectors**3

        for first in range(start, end, 256):
            block = np.arange(first, min(first + 256, end))
            known = len(self.support)
            scores = kernels(block, np.array(self.support, int)) @ self.alphas[:known]
            own = kernels(block, block)
            for i, tree in enumerate(block):
                # The later ones of the block have it in their scores from now on.
                if y[tree] * scores[i] <= 1e-9:
                    self.support.append(int(tree))
                    self.alphas.append(float(y[tree]))
                    scores += y[tree] * own[:, i]


Lines = dict[str, list[float]]


def times_and_nodes(
    forest: tk.Forest,
    y: np.ndarray,
    sizes: list[int],
    decays: list[float],
    mixes: list[float],
) -> tuple[Lines, Lines]:
    """Return figures 3 and 4: of all settings the fastest, slowest, fewest and most."""
    X = features(forest[: sizes[-1]])
    times: dict[str, list[list[float]]] = {"sum": [], "voted DAG": []}
    nodes: dict[str, list[list[float]]] = {"sum": [], "voted DAG": []}
    n_nodes = np.array([tree.n_nodes for tree in forest[: sizes[-1]]])
    for decay, mix in itertools.product(decays, mixes):
        kernel = tk.SubsetTreeKernel(decay)
        plain = SumPerceptron(kernel, mix)
        voted = tk.Perceptron(
            kernel, "vote", vectors=tk.kernels.VectorPolynomial(3), mix=mix
        )
        spent = {"sum": 0.0, "voted DAG": 0.0}
        seconds: dict[str, list[float]] = {"sum": [], "voted DAG": []}
        kept: dict[str, list[float]] = {"sum": [], "voted DAG": []}
        for first, end in itertools.pairwise([0, *sizes]):
            start = time.process_time()
            plain.learn(forest, y, X, first, end)
            middle = time.process_time()
            voted.partial_fit(forest[first:end], y[first:end], X[first:end])
            spent["sum"] += middle - start
            spent["voted DAG"] += time.process_time() - middle
            kept["sum"].append(float(n_nodes[plain.support].sum()))
            kept["voted DAG"].append(float(voted.model.n_nodes))
            for name, value in spent.items():
                seconds[name].append(value)
        for name in spent:
            times[name].append(seconds[name])
            nodes[name].append(kept[name])

    def extremes(of: dict[str, list[list[float]]], low: str, high: str) -> Lines:
        lines = {}
        for name, all_settings in of.items():
            ordered = sorted(all_settings, key=lambda line: line[-1])
            lines[f"{name}, {low}"] = ordered[0]
            lines[f"{name}, {high}"] = ordered[-1]
        return lines

    return extremes(times, "fastest", "slowest"), extremes(nodes, "fewest", "most")


def curves(
    train: tuple[tk.Forest, np.ndarray],
    test: tuple[tk.Forest, np.ndarray],
    sizes: list[int],
    options: argparse.Namespace,
) -> tuple[Lines, Lines]:
    """Return figures 5 and 6: seconds to learn, and F1."""
    (forest, y), (held_out, y_held_out) = train, test
    times: Lines = {}
    accuracy: Lines = {}

    def add(line: str, seconds: float | None, scores: np.ndarray) -> None:
        if seconds is not None:
            times.setdefault(line, []).append(seconds)
        accuracy.setdefault(line, []).append(f1(scores, y_held_out))

    def learn(
        line: str, kernel: tk.SubsetTreeKernel, mix: float | None, votes: list[str]
    ) -> None:
        beside = (
            {}
            if mix is None
            else {"vectors": tk.kernels.VectorPolynomial(3), "mix": mix}
        )
        X = None if mix is None else features(forest[: sizes[-1]])
        X_held_out = None if mix is None else features(held_out)
        for vote in votes:
            p = tk.Perceptron(kernel, vote, **beside)
            name = line if vote == "vote" else f"{line}, {vote}"
            spent = 0.0
            for first, end in itertools.pairwise([0, *sizes]):
                start = time.process_time()
                p.partial_fit(
                    forest[first:end], y[first:end], None if X is None else X[first:end]
                )
                spent += time.process_time() - start
                scores = p.decision_function(held_out, X_held_out, n_jobs=options.jobs)
                add(name, spent if vote == "vote" else None, scores)

    kernel = tk.SubsetTreeKernel(options.decay)
    learn("Tk", kernel, None, ["vote", "average", "last"])
    learn("Poly3", kernel, 0.0, ["vote"])
    learn("Tk + Poly3", tk.SubsetTreeKernel(options.mixed_decay), options.mix, ["vote"])
    for n in sizes:
        start = time.process_time()
        normalised = kernel.replace(normalize=True)
        machine = tk.solve.KernelMachine(normalised, forest[:n], y[:n])
        machine.run(tol=0.1, n_jobs=options.jobs)
        seconds = time.process_time() - start
        add(
            "SVM Tk",
            seconds,
            machine.model().decision_function(held_out, n_jobs=options.jobs),
        )
    return times, accuracy


def show(title: str, sizes: list[int], lines: Lines, form: str) -> None:
    """Print a figure as a table."""
    print(f"\n{title}\n")
    print("| | " + " | ".join(f"{n:,}" for n in sizes) + " |")
    print("|---|" + "---|" * len(sizes))
    for name, values in lines.items():
        print(f"| {name} | " + " | ".join(format(v, form) for v in values) + " |")


def draw(figures: list[tuple[str, list[int], Lines]], out: Path) -> None:
    """Draw all figures into a file."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("matplotlib is not installed: no picture")
        return
    figure = Figure(figsize=(12, 9), layout="constrained")
    for axes, (title, sizes, lines) in zip(
        figure.subplots(2, 2).flat, figures, strict=True
    ):
        for name, values in lines.items():
            axes.plot(sizes, values, marker=".", label=name)
        axes.set(title=title, xlabel="training trees")
        axes.legend()
    figure.savefig(out)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="*", help="of figures 5 and 6")
    parser.add_argument("--sum-sizes", type=int, nargs="*", help="of figures 3 and 4")
    parser.add_argument("--decay", type=float, help="of trees alone")
    parser.add_argument("--mixed-decay", type=float, help="of both")
    parser.add_argument("--mix", type=float, help="the share of trees")
    parser.add_argument("--choose", type=int, default=100_000, help="by so many trees")
    parser.add_argument("--last", type=int, help="hold out so many trees, the last")
    parser.add_argument("--jobs", type=int, default=1, help="threads")
    parser.add_argument("--made-up", type=int, help="make up so many trees")
    parser.add_argument("--out", type=Path, help="a file for the picture")
    add_argument(parser)
    options = parser.parse_args()
    path = None if options.made_up else find(FILE, options.data)
    if path is None and not options.made_up:
        print(f"no {FILE}: {HINT}")
    trees, y, documents = masc(path) if path else made_up(options.made_up or 20_000)
    held_out = documents % 5 == 0
    start = time.process_time()
    forest = tk.Forest.from_brackets(trees)
    spent = time.process_time() - start
    print(f"{len(forest):,} trees read in {spent:.2f} s: {forest}")
    if options.last:
        held_out = np.arange(len(forest)) >= len(forest) - options.last
    train, test = forest[~held_out], forest[held_out]
    y_train, y_test = y[~held_out], y[held_out]
    print(f"{len(train):,} for training, {len(test):,} held out")
    is_validation = documents[~held_out] % 8 == 4
    fit, validation = train[~is_validation], train[is_validation]
    table_1({"training": fit, "validation": validation, "test": test})
    if None in (options.decay, options.mixed_decay, options.mix):
        chosen = choose(
            (fit, y_train[~is_validation]),
            (validation, y_train[is_validation]),
            options.choose,
            options.jobs,
        )
        names = ("decay", "mixed_decay", "mix")
        for name, value in zip(names, chosen, strict=True):
            if getattr(options, name) is None:
                setattr(options, name, value)
    print(
        f"\ndecay {options.decay}; both: decay {options.mixed_decay}, mix {options.mix}"
    )
    sizes = sorted(options.sizes or [len(train) // n for n in (16, 8, 4, 2, 1)])
    most = min(len(train), 25_000)
    sum_sizes = sorted(options.sum_sizes or [most * n // 5 for n in range(1, 6)])
    times, nodes = times_and_nodes(train, y_train, sum_sizes, [0.2, 1.0], [0.2, 0.9])
    learned, accuracy = curves((train, y_train), (test, y_test), sizes, options)
    show("Figure 3. CPU seconds to learn, Tk + Poly3", sum_sizes, times, ".2f")
    show("Figure 4. Tree nodes kept, Tk + Poly3", sum_sizes, nodes, ",.0f")
    show("Figure 5. CPU seconds to learn, voted DAG and SVM", sizes, learned, ".2f")
    show("Figure 6. F1 on held-out trees, voted DAG and SVM", sizes, accuracy, ".3f")
    if may_draw(options.out, is_generated=path is None):
        figures = [
            ("Figure 3: seconds", sum_sizes, times),
            ("Figure 4: tree nodes", sum_sizes, nodes),
            ("Figure 5: seconds", sizes, learned),
            ("Figure 6: F1", sizes, accuracy),
        ]
        draw(figures, options.out)


if __name__ == "__main__":
    main()
