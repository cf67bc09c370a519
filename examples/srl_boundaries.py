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
   figure 5 as well. Then with all trees: 95 % intervals by drawing held-out documents
   (bootstrap), and the same for other splits.

    python examples/srl_boundaries.py [--sizes 50000 100000 ...] [--last 50000] [--out f.png]
                                      [--decay 0.4 --mixed-decay 0.6 --mix 0.9] [--splits 3]

Vectors are the features of Gildea & Jurafsky that the trees show. All kernels are normalised,
also those of the SVM; lines named "raw" are not, and have the paper's decays and mix. All
lines of all figures learn from the training documents of table 1, in the order of the corpus;
decay and mix are chosen as in the paper, by F1 on validation documents, which nothing learns
from. With --out and matplotlib all four are drawn. The data set is srl of docs/DATA.md, from
the folder --data. Without it, or with --made-up, a small task of the same kind is made up.
Needs SciPy.
"""

from __future__ import annotations

import argparse
import itertools
import time
from pathlib import Path
from typing import Any

import _plots
import numpy as np
from _data import HINT, add_argument, find, may_draw, rows
from _srl import hashed, numbered
from scipy.sparse import csr_matrix

import treekernel_rs as tk

FILE = "srl/masc_boundary.tsv.gz"

#: (<p,q> + 1)^3, and the same normalised: all vectors have seven features that are 1.
RAW = tk.kernels.VectorPolynomial(3)
POLY = tk.kernels.VectorPolynomial(3, gamma=1 / 8, coef0=1 / 8)


def masc(path: Path) -> tuple[list[str], np.ndarray, list[str]]:
    """Return trees, labels and the names of their documents."""
    found = rows(path)
    y = np.array([int(row[0]) for row in found])
    return [row[5] for row in found], y, [row[1].split(":")[0] for row in found]


def made_up(n: int) -> tuple[list[str], np.ndarray, list[str]]:
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
    return trees, y, [f"document {k % 97}" for k in range(n)]


def table_1(parts: dict[str, tk.Forest], suffix: str) -> None:
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
    print(f"\nTable 1. The data set{suffix}\n")
    print("| | " + " | ".join(parts) + " |")
    print("|---|" + "---|" * len(parts))
    names = ("trees", "nodes", "mean nodes", "mean of the largest outdegree", "largest")
    for name, *cells in zip(names, *columns, strict=True):
        print(f"| {name} | " + " | ".join(cells) + " |")


#: Trees, labels, vectors and documents.
Part = tuple[tk.Forest, np.ndarray, csr_matrix, np.ndarray]


def perceptron(
    kernel: tk.SubsetTreeKernel, mix: float | None, vote: str = "vote"
) -> Any:
    """Return a perceptron of trees alone (no mix), or of trees and vectors."""
    if mix is None:
        return tk.Perceptron(kernel, vote)
    poly = POLY if kernel.normalize else RAW
    return tk.Perceptron(kernel, vote, vectors=poly, mix=mix)


def choose(
    fit: Part, validation: Part, most: int, n_jobs: int, suffix: str
) -> tuple[float, ...]:
    """Return the decay of trees alone, and decay and mix of both, by F1 on validation."""
    decays, mixes = (0.2, 0.4, 0.6, 0.8, 1.0), (0.2, 0.5, 0.9)
    found: dict[tuple[bool, float | None, float], float] = {}
    for normalize, mix, decay in itertools.product(
        (True, False), (None, *mixes), decays
    ):
        kernel = tk.SubsetTreeKernel(decay, normalize=normalize)
        p = perceptron(kernel, mix)
        vectors = mix is not None
        p.partial_fit(fit[0][:most], fit[1][:most], fit[2][:most] if vectors else None)
        scores = p.decision_function(
            validation[0], validation[2] if vectors else None, n_jobs=n_jobs
        )
        found[normalize, mix, decay] = f1(scores, validation[1])
    n = min(most, len(fit[0]))
    print(f"\nF1 on validation documents after {n:,} trees{suffix}\n")
    print("| decay | " + " | ".join(map(str, decays)) + " |")
    print("|---|" + "---|" * len(decays))
    for normalize, mix in itertools.product((True, False), (None, *mixes)):
        name = "Tk" if mix is None else f"Tk + Poly3, mix {mix}"
        cells = (f"{found[normalize, mix, decay]:.3f}" for decay in decays)
        print(f"| {name}{'' if normalize else ', raw'} | " + " | ".join(cells) + " |")
    decay = max(decays, key=lambda decay: found[True, None, decay])
    mix, mixed_decay = max(
        itertools.product(mixes, decays), key=lambda both: found[True, *both]
    )
    return decay, mixed_decay, mix


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
            vectors = ((X[rows] @ X[columns].T).toarray() + 1) / 8
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
    fit: Part, sizes: list[int], decays: list[float], mixes: list[float]
) -> tuple[Lines, Lines]:
    """Return figures 3 and 4: of all settings the fastest, slowest, fewest and most."""
    forest, y, X, _ = fit
    times: dict[str, list[list[float]]] = {"sum": [], "voted DAG": []}
    nodes: dict[str, list[list[float]]] = {"sum": [], "voted DAG": []}
    n_nodes = forest.n_nodes
    for decay, mix in itertools.product(decays, mixes):
        kernel = tk.SubsetTreeKernel(decay, normalize=True)
        plain = SumPerceptron(kernel, mix)
        voted = perceptron(kernel, mix)
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


#: The scores of held-out trees by line, for each number of training trees.
Scores = dict[str, list[np.ndarray]]


def lines_of(options: argparse.Namespace) -> list[tuple[str, Any, float | None, str]]:
    """Return the lines of figures 5 and 6: name, kernel, mix and who predicts."""
    tree = tk.SubsetTreeKernel(options.decay, normalize=True)
    both = tree.replace(decay=options.mixed_decay)
    raw = tk.SubsetTreeKernel(0.4)
    return [
        ("Tk", tree, None, "vote"),
        ('Tk, `predict_with="average"`', tree, None, "average"),
        ('Tk, `predict_with="last"`', tree, None, "last"),
        ("Poly3", tree, 0.0, "vote"),
        ("Tk + Poly3", both, options.mix, "vote"),
        ("Tk, raw", raw, None, "vote"),
        ("Tk + Poly3, raw", raw.replace(decay=0.6), 0.9, "vote"),
    ]


def curves(
    fit: Part, test: Part, sizes: list[int], options: argparse.Namespace
) -> tuple[Lines, Lines, Scores]:
    """Return figures 5 and 6: seconds to learn, and F1; and the scores."""
    times: Lines = {}
    accuracy: Lines = {}
    scores: Scores = {}

    def add(name: str, seconds: float, found: np.ndarray) -> None:
        if "predict" not in name:
            times.setdefault(name, []).append(seconds)
        scores.setdefault(name, []).append(found)
        accuracy.setdefault(name, []).append(f1(found, test[1]))

    for name, kernel, mix, vote in lines_of(options):
        p, spent = perceptron(kernel, mix, vote), 0.0
        X, X_test = (fit[2], test[2]) if mix is not None else (None, None)
        for first, end in itertools.pairwise([0, *sizes]):
            start = time.process_time()
            p.partial_fit(
                fit[0][first:end],
                fit[1][first:end],
                None if X is None else X[first:end],
            )
            spent += time.process_time() - start
            add(name, spent, p.decision_function(test[0], X_test, n_jobs=options.jobs))
    kernel = tk.SubsetTreeKernel(options.decay, normalize=True)
    for n in sizes:
        start = time.process_time()
        machine = tk.solve.KernelMachine(kernel, fit[0][:n], fit[1][:n])
        machine.run(tol=0.1, n_jobs=options.jobs)
        spent = time.process_time() - start
        model = machine.model()
        add("SVM Tk", spent, model.decision_function(test[0], n_jobs=options.jobs))
    return times, accuracy, scores


def intervals(scores: Scores, test: Part, n_draws: int = 2000) -> dict[str, np.ndarray]:
    """Return F1 by line, draw and number of training trees.

    Documents are drawn with replacement, since trees of one document are alike.
    """
    _, place = np.unique(test[3], return_inverse=True)
    n = place.max() + 1
    draws = np.random.default_rng(0).multinomial(n, np.full(n, 1 / n), n_draws)
    found = {}
    for name, several in scores.items():
        columns = []
        for values in several:
            said, true = values > 0, test[1] > 0
            both, either = (
                draws @ np.bincount(place, weights, n)
                for weights in ((said & true) * 2.0, said * 1.0 + true * 1.0)
            )
            columns.append(both / np.maximum(either, 1))
        found[name] = np.transpose(columns)
    return found


def written(values: np.ndarray, sign: str = "") -> str:
    """Write the 95 % interval of what was drawn."""
    low, high = np.percentile(values, [2.5, 97.5])
    return f"{low:{sign}.3f} to {high:{sign}.3f}"


def relative(times: Lines, unit: str) -> tuple[Lines, float]:
    """Return times by the last one of a line, and that one."""
    one = times[unit][-1]
    return {name: [t / one for t in line] for name, line in times.items()}, one


def show(title: str, sizes: list[int], lines: Lines, form: str) -> None:
    """Print a figure as a table."""
    print(f"\n{title}\n")
    print("| | " + " | ".join(f"{n:,}" for n in sizes) + " |")
    print("|---|" + "---|" * len(sizes))
    for name, values in lines.items():
        print(f"| {name} | " + " | ".join(format(v, form) for v in values) + " |")


def parts(
    given: tuple[tk.Forest, np.ndarray, csr_matrix], documents: np.ndarray
) -> tuple[Part, Part, Part]:
    """Return training, validation and test by the numbers of documents."""
    held_out = documents % 5 == 0
    is_validation = ~held_out & (documents % 8 == 4)
    chosen = (~held_out & ~is_validation, is_validation, held_out)
    forest, y, X = given
    fit, validation, test = (
        (forest[where], y[where], X[where], documents[where]) for where in chosen
    )
    return fit, validation, test


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
    parser.add_argument("--splits", type=int, default=0, help="other splits, figure 6")
    parser.add_argument("--jobs", type=int, default=1, help="threads")
    parser.add_argument("--made-up", type=int, help="make up so many trees")
    parser.add_argument("--out", type=Path, help="a file for the picture")
    add_argument(parser)
    options = parser.parse_args()
    path = None if options.made_up else find(FILE, options.data)
    if path is None and not options.made_up:
        print(f"no {FILE}: {HINT}")
    trees, y, names = masc(path) if path else made_up(options.made_up or 20_000)
    suffix = "" if path else " (made-up trees)"
    start = time.process_time()
    forest = tk.Forest.from_brackets(trees)
    spent = time.process_time() - start
    print(f"{len(forest):,} trees read in {spent:.2f} s: {forest}")
    given = forest, y, hashed(forest)
    numbers = numbered(names, 0)
    if (
        options.last
    ):  # the last ones have the number of what is held out, others have not
        is_last = np.arange(len(forest)) >= len(forest) - options.last
        numbers = np.where(is_last, 0, np.where(numbers % 5 == 0, 1, numbers))
    fit, validation, test = parts(given, numbers)
    table_1({"training": fit[0], "validation": validation[0], "test": test[0]}, suffix)
    if None in (options.decay, options.mixed_decay, options.mix):
        chosen = choose(fit, validation, options.choose, options.jobs, suffix)
        for name, value in zip(("decay", "mixed_decay", "mix"), chosen, strict=True):
            if getattr(options, name) is None:
                setattr(options, name, value)
    print(
        f"\ndecay {options.decay}; both: decay {options.mixed_decay}, mix {options.mix}"
    )
    n = len(fit[0])
    sizes = sorted(options.sizes or [n // part for part in (16, 8, 4, 2, 1)])
    most = min(n, 100_000)
    sum_sizes = sorted(options.sum_sizes or [most * part // 4 for part in range(1, 5)])
    times, nodes = times_and_nodes(fit, sum_sizes, [0.2, 1.0], [0.2, 0.9])
    learned, accuracy, scores = curves(fit, test, sizes, options)
    times, unit = relative(times, "voted DAG, slowest")
    title = f"Figure 3. CPU time to learn, Tk + Poly3; 1 is {unit:.2f} s{suffix}"
    show(title, sum_sizes, times, ".3f")
    show(f"Figure 4. Tree nodes kept, Tk + Poly3{suffix}", sum_sizes, nodes, ",.0f")
    learned, unit = relative(learned, "Tk")
    title = f"Figure 5. CPU time to learn; 1 is {unit:.2f} s{suffix}"
    show(title, sizes, learned, ".3f")
    show(f"Figure 6. F1 on held-out documents{suffix}", sizes, accuracy, ".3f")
    found = intervals(scores, test)
    print(f"\nIntervals of figure 6, {sizes[-1]:,} trees, by documents{suffix}\n")
    print("| | F1 | 95 % | difference to Tk, 95 % |\n|---|---|---|---|")
    for name, values in found.items():
        difference = written(values[:, -1] - found["Tk"][:, -1], "+")
        cells = f"{written(values[:, -1])} | {difference}"
        print(f"| {name} | {accuracy[name][-1]:.3f} | {cells} |")
    differences = (found["Tk + Poly3"] - found["Tk"]).T
    print(f"\nTk + Poly3 less Tk, 95 %, by training trees{suffix}\n")
    for size, values in zip(sizes, differences, strict=True):
        print(f"* {size:,}: {written(values, '+')}")
    if options.splits:
        splits, by_split = list(range(1, options.splits + 1)), dict[str, list[float]]()
        for split in splits:
            other, _, held_out = parts(given, numbered(names, split))
            _, one, _ = curves(other, held_out, [len(other[0])], options)
            for name, [value] in one.items():
                by_split.setdefault(name, []).append(value)
        show(f"F1 by split of the documents{suffix}", splits, by_split, ".3f")
    if may_draw(options.out, is_generated=path is None):
        last = {name: values[:, -1] for name, values in found.items()}
        draw((sum_sizes, times, nodes), (sizes, learned, accuracy), last, options.out)


#: What the paper's text has of its figures: training trees, and values; times in its units.
PUBLISHED_3 = {
    "sum, fastest": ([10**6], [22_892.62 / 15_814.09]),
    "voted DAG, slowest": ([10**6], [1]),
}
PUBLISHED_4 = {
    "sum": ([10**6] * 2, [391_240, 625_501]),
    "voted DAG": ([10**6] * 2, [124_333, 145_928]),
}
PUBLISHED_5 = {
    "Tk": ([4_079_510], [1]),
    "Poly3": ([4_079_510], [129_163.98 / 51_235.9]),
    "Tk + Poly3": ([4_079_510], [178_826.19 / 51_235.9]),
    "SVM Tk": ([10**6], [10_705 * 60 / 51_235.9]),
}
PUBLISHED_6 = {
    "Tk": ([10**6, 2 * 10**6, 4_079_510], [0.805, 0.814, 0.822]),
    "Poly3": ([4_079_510], [0.818]),
    "Tk + Poly3": ([4_079_510], [0.831]),
}


def draw(sums: Any, learned: Any, last: dict[str, np.ndarray], out: Path) -> None:
    """Draw all figures into a file; the last points of figure 6 have intervals."""
    sizes, times, accuracy = learned
    points: dict[str, tuple[Any, ...]] = {}
    for name, values in accuracy.items():
        low, high = np.percentile(last[name], [2.5, 97.5])
        before = [0.0] * (len(sizes) - 1)
        halves = [[*before, values[-1] - low], [*before, high - values[-1]]]
        points[name] = (values, halves)
    panels = [
        ("Figure 3: Tk + Poly3", "time, 1: DAG, slowest, all trees", sums[0], sums[1],
         "xy", PUBLISHED_3),
        ("Figure 4: Tk + Poly3", "tree nodes kept", sums[0], sums[2], "xy", PUBLISHED_4),
        ("Figure 5: time to learn", "time, 1: Tk, all trees", sizes, times, "xy",
         PUBLISHED_5),
        ("Figure 6: accuracy", "F1", sizes, points, "x", PUBLISHED_6),
    ]  # fmt: skip
    _plots.save(
        [
            {"title": title, "xlabel": "training trees", "ylabel": what, "log": log,
             "published": published,
             "curves": {name: (x, *(values if log == "x" else (values,)))
                        for name, values in curves.items()
                        if "raw" not in name and "predict" not in name}}
            for title, what, x, curves, log, published in panels
        ],
        out,
    )  # fmt: skip


if __name__ == "__main__":
    main()
