"""The tables and figures of the distributed tree kernels' paper, computed again.

Zanzotto & Dell'Arciprete, "Distributed Tree Kernels" (ICML 2012): table 2 (Spearman's
correlation of dot products with kernels, by decay), figure 2 (norms, and the variance
of dot products, of compositions of k vectors), figure 5 (time for a kernel value by the
size of trees). Beside Spearman: Pearson, and how often a tree's nearest neighbour is the
kernel's (normalised by exact self-kernels), since a rank correlation over all pairs is
easy to satisfy. Means over seeds, with 95 % intervals of the mean.

    python examples/dtk_tables.py [--trees 400] [--seeds 5] [--plot picture.png]

Figure 5 compares compiled code with compiled code: pairs of trees and pairs of vectors in
one call each, and matrices of both, relative to the dot product of two vectors.

Trees are those of docs/DATA.md, from the folder --data; without them, Python's standard
library is parsed. Needs SciPy; draws with matplotlib where it is installed.
"""

from __future__ import annotations

import argparse
import ast
import sysconfig
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import _plots
import numpy as np
from _data import HINT, add_argument, find, may_draw, rows
from scipy import stats

import treekernel_rs as tk

COMPOSITIONS = ["quaternion", "sign", "phasor", "convolution", "gamma"]
DECAYS = [0.2, 0.4, 0.6, 0.8, 1.0]
LENGTHS = (1024, 2048, 4096, 8192)
D = 8192
#: Table 2 as published.
PUBLISHED = {
    "QC": {
        "convolution, right": (0.994, 0.989, 0.880, 0.377, 0.107),
        "gamma, right": (0.993, 0.980, 0.908, 0.644, 0.316),
    },
    "RTE": {
        "convolution, right": (0.998, 0.961, 0.350, 0.039, 0.000),
        "gamma, right": (0.997, 0.990, 0.890, 0.469, 0.169),
    },
}


def corpora(n: int, data: Path | None) -> dict[str, tk.Forest]:
    """Return QC, RTE and WSJ where they are at hand, else functions of Python's library."""
    files = (
        "qc/const_train.tsv.gz",
        "rte/rte3_dev_parsed.tsv.gz",
        "wsj/wsj_clean.txt.gz",
    )
    qc, rte, wsj = (find(name, data) for name in files)
    if qc is None or rte is None or wsj is None:
        print(f"no questions, RTE-3 and WSJ: {HINT}")
        return {"stdlib": sample(stdlib(), n, 80)}
    pairs = [tree for row in rows(rte) for tree in row[4:6]]
    return {
        "QC": sample(sorted({row[3] for row in rows(qc)}), n),
        "RTE-3": sample(pairs, min(n, 150)),
        "RTE-3 up to 80 nodes": sample(pairs, min(n, 150), 80),
        "WSJ": sample([row[2] for row in rows(wsj)], min(n, 150), 80),
    }


def by_size(forests: dict[str, tk.Forest], data: Path | None) -> dict[str, tk.Forest]:
    """Return trees of all sizes for figure 5, which needs no encoder of all of them."""
    if "WSJ" not in forests:
        return forests
    qc, wsj = find("qc/const_train.tsv.gz", data), find("wsj/wsj_clean.txt.gz", data)
    lines = {
        "QC": [row[3] for row in rows(qc)] if qc else [],
        "WSJ": [row[2] for row in rows(wsj)] if wsj else [],
    }
    return {name: tk.Forest.from_brackets(trees) for name, trees in lines.items()}


def stdlib() -> list[str]:
    """Return the functions of some modules as trees of their syntax."""

    def write(node: ast.AST) -> str:
        parts = [type(node).__name__, *map(write, ast.iter_child_nodes(node))]
        return f"({' '.join(parts)})"

    folder = Path(sysconfig.get_paths()["stdlib"])
    trees = []
    for path in sorted(folder.glob("*.py"))[:80]:
        module = ast.parse(path.read_text(encoding="utf-8"))
        found = (n for n in ast.walk(module) if isinstance(n, ast.FunctionDef))
        trees += [write(node) for node in found]
    return trees


def sample(lines: list[str], n: int, largest: int = 10**9) -> tk.Forest:
    forest = tk.Forest.from_brackets(lines)
    fitting = np.flatnonzero(forest.n_nodes <= largest)
    chosen = np.random.default_rng(1).permutation(fitting)[:n]
    return forest[chosen]


def spearman(x: np.ndarray, y: np.ndarray) -> float:
    """Return the correlation of ranks, ties at their mean rank."""

    def ranks(values: np.ndarray) -> np.ndarray:
        _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
        return (np.cumsum(counts) - counts / 2)[inverse]

    return float(np.corrcoef(ranks(x), ranks(y))[0, 1])


def agreement(V: np.ndarray, K: np.ndarray) -> tuple[float, float, float]:
    """Return Spearman and Pearson over pairs, and nearest neighbours in common."""
    G = V.astype(np.float64) @ V.T.astype(np.float64)
    pairs = np.triu_indices(len(K), 1)
    norms = np.sqrt(np.diag(K))
    near = []
    for matrix in (G, K):
        cosines = matrix / np.outer(norms, norms)
        np.fill_diagonal(cosines, -np.inf)
        near.append(cosines.argmax(axis=1))
    pearson = float(np.corrcoef(G[pairs], K[pairs])[0, 1])
    same = float(np.mean(near[0] == near[1]))
    return spearman(G[pairs], K[pairs]), pearson, same


def encoders(kernel: tk.SubsetTreeKernel, forest: tk.Forest, seed: int):
    """Yield (name, encoder): the compositions, and the ways to make less noise."""
    for fold in ("left", "right"):
        for composition in COMPOSITIONS:
            paper = fold == "right"
            yield (
                f"{composition}, {fold}",
                tk.DistributedTrees(
                    kernel,
                    D,
                    composition=composition,
                    fold=fold,
                    random_state=seed,
                    zero_mean=not paper,
                ),
            )
    for height in (2, 3):
        enc = tk.DistributedTrees(kernel, D, random_state=seed, max_height=height)
        yield f"quaternion, max_height={height}", enc
    enc = tk.DistributedTrees(kernel, D, random_state=seed)
    yield "quaternion, tune", enc.tune(forest)
    yield "quaternion, prune", enc.prune(forest)
    yield "quaternion, prune, tune", enc.prune(forest).tune(forest)


#: Of RTE-3, only these lines are computed: the paper's, and the default.
FEW = ("quaternion, left", "convolution, right", "gamma, right")


def table_2(
    name: str, forest: tk.Forest, n_seeds: int
) -> dict[str, tuple[list[float], list[float]]]:
    """Print agreement by decay; return Spearman's means and halves of intervals."""
    exact = {decay: tk.SubsetTreeKernel(decay)(forest) for decay in DECAYS}
    rows: dict[str, np.ndarray] = {}
    for seed in range(n_seeds):
        for column, decay in enumerate(DECAYS):
            kernel = tk.SubsetTreeKernel(decay)
            for what, enc in encoders(kernel, forest, seed):
                if name.startswith("RTE") and what not in FEW:
                    continue
                with warnings.catch_warnings():  # that large trees are noise
                    warnings.simplefilter("ignore")
                    values = agreement(enc.encode(forest), exact[decay])
                cells = rows.setdefault(what, np.zeros((n_seeds, len(DECAYS), 3)))
                cells[seed, column] = values
            # A sketch by Gaussian vectors, one for each fragment: what no unbiased and
            # oblivious one is expected to beat.
            values, vectors = np.linalg.eigh(exact[decay])
            root = vectors * np.sqrt(np.maximum(values, 0))
            noise = np.random.default_rng(seed).normal(size=(len(forest), D)) / D**0.5
            cells = rows.setdefault("limit", np.zeros((n_seeds, len(DECAYS), 3)))
            cells[seed, column] = agreement(root @ noise, exact[decay])
    nodes = forest.n_nodes
    print(
        f"\nTable 2, {name}: {len(forest)} trees of {nodes.min()} to {nodes.max()} nodes "
        f"(mean {nodes.mean():.1f}), d = {D}, mean of {n_seeds} seeds"
    )
    quantile = stats.t.ppf(0.975, n_seeds - 1) if n_seeds > 1 else np.nan
    means = {what: cells.mean(axis=0) for what, cells in rows.items()}
    halves = {
        what: quantile * cells.std(axis=0, ddof=min(1, n_seeds - 1)) / n_seeds**0.5
        for what, cells in rows.items()
    }
    for place, measure in enumerate(["Spearman", "Pearson", "nearest neighbour"]):
        print(f"\n  {measure:24}" + "".join(f"{decay:14.1f}" for decay in DECAYS))
        for what in rows:
            both = zip(means[what][:, place], halves[what][:, place], strict=True)
            print(f"  {what:24}" + "".join(f"{x:8.3f}±{half:.3f}" for x, half in both))
        if place == 0:
            for what, line in PUBLISHED.get(name.split("-")[0], {}).items():
                cells = "".join(f"{x:8.3f}      " for x in line)
                print(f"  {what + ', paper':24}{cells}".rstrip())
    return {what: (list(means[what][:, 0]), list(halves[what][:, 0])) for what in rows}


def figure_2(n_samples: int = 100) -> dict[str, dict[int, tuple[float, float]]]:
    """Print norms of compositions of k labels, and variances of dot products."""
    sizes = [2, 5, 10, 20, 30]
    norms: dict[str, dict[int, tuple[float, float]]] = {}
    print(f"\nFigure 2, {n_samples} samples, d = {D}")
    print(f"\n  {'norm of k vectors':20}" + "".join(f"{f'k={k}':>15}" for k in sizes))
    variances = {}
    for composition in COMPOSITIONS:
        cells, more = [], []
        for k in sizes:
            values, dots = [], []
            for seed in range(n_samples):
                enc = tk.DistributedTrees(
                    n_components=D,
                    composition=composition,
                    random_state=seed,
                    zero_mean=False,
                )
                labels = [f"x{i}" for i in range(k)]
                a = enc.fragment(f"({' '.join(labels)})")
                b = enc.fragment(f"({' '.join([*labels[:-1], 'y'])})")
                values.append(np.linalg.norm(a))
                dots.append(float(a @ b))
            cells.append(f"{np.mean(values):8.3f}±{np.std(values):<6.3f}")
            more.append(f"{np.var(dots) * D:15.2f}")
            spread = float(np.mean(values)), float(np.std(values))
            norms.setdefault(composition, {})[k] = spread
        print(f"  {composition:20}" + "".join(cells))
        variances[composition] = more
    print("\n  variance x d of dot products, the last vector another one")
    for composition, more in variances.items():
        print(f"  {composition:20}" + "".join(more))
    return norms


def best(work: Callable[[], object], runs: int = 7) -> float:
    times = []
    for _ in range(runs):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def figure_5(
    name: str, forest: tk.Forest
) -> dict[str, tuple[list[float], list[float]]]:
    """Print the time of a value as trees grow, relative to a dot product at d = 8192.

    One thread; every number is of one call for all values, without the conversion of trees.
    Left of the bar pairs in any order, right of it whole matrices.
    """
    kernel, rows, units = tk.SubsetTreeKernel(0.4), [], []
    rng = np.random.default_rng(0)
    heads = ("nodes", *(f"dot {d}" for d in LENGTHS), "k.pairs", "| dots 8192",
             "k(trees)")  # fmt: skip
    for part in np.array_split(np.argsort(forest.n_nodes, kind="stable"), 8):
        trees = forest[rng.permutation(part)[:300]]
        left, right = rng.integers(0, len(trees), (2, 2000))
        line = []
        for d in LENGTHS:
            V = rng.normal(size=(len(trees), d)).astype(np.float32)
            A, B = V[left[:64], None, :], V[right[:64], :, None]
            line.append(best(lambda A=A, B=B: A @ B, 49) / len(A))
        n_values = len(trees) * (len(trees) + 1) / 2
        works: list[tuple[Callable[[], object], float]] = [
            (
                lambda x=trees, i=left, j=right: kernel.pairs(x, i, j, n_jobs=1),
                len(left),
            ),
            (lambda V=V: V @ V.T, n_values),
            (lambda x=trees: kernel.gram(x, n_jobs=1), n_values),
        ]
        line += [best(work) / n for work, n in works]
        unit = line[len(LENGTHS) - 1]
        units.append(1e9 * unit)
        rows.append([2 * float(trees.n_nodes.mean()), *(time / unit for time in line)])
    print(
        f"\nFigure 5, {name}: time of a value by nodes of both trees; the dot product of two "
        f"vectors of {D} ({np.median(units):,.0f} ns) is 1\n  "
        + "".join(f"{head:>11}" for head in heads)
    )
    for row in rows:
        print(f"  {row[0]:11.0f}" + "".join(f"{cell:11.3f}" for cell in row[1:]))
    columns = list(zip(*rows, strict=True))
    n = len(LENGTHS)
    drawn = {f"dot product, d = {D}": n, "exact, k.pairs": n + 1}
    drawn |= {f"dot product, d = {D}, matrix": n + 2, "exact, matrix": n + 3}
    return {what: (list(columns[0]), list(columns[k])) for what, k in drawn.items()}


DRAWN = (
    "convolution, right",
    "gamma, right",
    "quaternion, left",
    "quaternion, prune",
    "limit",
)


def panels(tables, norms, times) -> list[dict]:
    """Return table 2 and figure 5 of each corpus, and figure 2a."""
    found = []
    for name, lines in tables.items():
        paper = PUBLISHED.get(name, PUBLISHED["RTE"] if "RTE" in name else {})
        found.append(
            {
                "title": f"Table 2, {name}",
                "xlabel": "decay",
                "ylabel": "Spearman",
                "curves": {w: (DECAYS, *lines[w]) for w in DRAWN if w in lines},
                "published": {what: (DECAYS, line) for what, line in paper.items()},
            }
        )
    lengths = {
        what: (list(cells), *map(list, zip(*cells.values(), strict=True)))
        for what, cells in norms.items()
    }
    found.append(
        {
            "title": "Figure 2a: mean and standard deviation",
            "xlabel": "vectors",
            "ylabel": "norm",
            "curves": lengths,
        }
    )
    found += [
        {
            "title": f"Figure 5, {name}",
            "xlabel": "nodes of both trees",
            "ylabel": f"time by a dot product, d = {D}",
            "curves": curves,
            "log": "xy",
        }
        for name, curves in times.items()
    ]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trees", type=int, default=400, help="trees per corpus")
    parser.add_argument("--seeds", type=int, default=5, help="seeds for table 2")
    parser.add_argument("--samples", type=int, default=100, help="seeds for figure 2")
    parser.add_argument("--plot", type=Path, help="file to draw into")
    add_argument(parser)
    options = parser.parse_args()
    forests = corpora(options.trees, options.data)
    suffix = "" if "QC" in forests else " (generated data)"
    tables = {
        name: table_2(f"{name}{suffix}", forest, options.seeds)
        for name, forest in forests.items()
    }
    times = {
        name: figure_5(f"{name}{suffix}", forest)
        for name, forest in by_size(forests, options.data).items()
    }
    norms = figure_2(options.samples)
    if may_draw(options.plot, is_generated="QC" not in forests):
        _plots.save(panels(tables, norms, times), options.plot)


if __name__ == "__main__":
    main()
