"""The tables and figures of the distributed tree kernels' paper, computed again.

Zanzotto & Dell'Arciprete, "Distributed Tree Kernels" (ICML 2012): table 2 (Spearman's
correlation of dot products with kernels, by decay), figure 2 (norms, and the variance
of dot products, of compositions of k vectors), figure 5 (time for a kernel value by the
size of trees). Beside Spearman: Pearson, and how often a tree's nearest neighbour is the
kernel's (normalised by exact self-kernels), since a rank correlation over all pairs is
easy to satisfy.

    python examples/dtk_tables.py [--trees 400] [--seeds 2] [--plot picture.png]

Trees are those of docs/DATA.md, from the folder --data; without them, Python's standard
library is parsed. Needs numpy; draws with matplotlib where it is installed.
"""

from __future__ import annotations

import argparse
import ast
import sysconfig
import time
from pathlib import Path

import numpy as np
from _data import HINT, add_argument, find, may_draw, rows

import treekernel_rs as tk

COMPOSITIONS = ["quaternion", "sign", "phasor", "convolution", "gamma"]
DECAYS = [0.2, 0.4, 0.6, 0.8, 1.0]
D = 8192


def corpora(n: int, data: Path | None) -> dict[str, tk.Forest]:
    """Return QC and WSJ where they are at hand, else functions of Python's library."""
    qc, wsj = find("qc/const_train.tsv.gz", data), find("wsj/wsj_clean.txt.gz", data)
    if qc is None or wsj is None:
        print(f"no questions and no WSJ: {HINT}")
        return {"stdlib": sample(stdlib(), n, 80)}
    return {
        "QC": sample(sorted({row[3] for row in rows(qc)}), n),
        "WSJ": sample([row[2] for row in rows(wsj)], min(n, 150), 80),
    }


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


def table_2(name: str, forest: tk.Forest, n_seeds: int) -> dict[str, list[float]]:
    """Print agreement by decay; return Spearman's."""
    exact = {decay: tk.SubsetTreeKernel(decay)(forest) for decay in DECAYS}
    rows: dict[str, np.ndarray] = {}
    for seed in range(n_seeds):
        for column, decay in enumerate(DECAYS):
            kernel = tk.SubsetTreeKernel(decay)
            for what, enc in encoders(kernel, forest, seed):
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
    for place, measure in enumerate(["Spearman", "Pearson", "nearest neighbour"]):
        print(f"\n  {measure:30}" + "".join(f"{decay:8.1f}" for decay in DECAYS))
        for what, cells in rows.items():
            means = cells[:, :, place].mean(axis=0)
            print(f"  {what:30}" + "".join(f"{value:8.3f}" for value in means))
    return {what: list(cells[:, :, 0].mean(axis=0)) for what, cells in rows.items()}


def figure_2(n_samples: int = 100) -> dict[str, dict[int, float]]:
    """Print norms of compositions of k labels, and variances of dot products."""
    sizes = [2, 5, 10, 20, 30]
    norms: dict[str, dict[int, float]] = {}
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
            norms.setdefault(composition, {})[k] = float(np.mean(values))
        print(f"  {composition:20}" + "".join(cells))
        variances[composition] = more
    print("\n  variance x d of dot products, the last vector another one")
    for composition, more in variances.items():
        print(f"  {composition:20}" + "".join(more))
    return norms


def best(work, runs: int = 5) -> float:
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def figure_5(name: str, forest: tk.Forest) -> list[tuple[float, float, float]]:
    """Print microseconds for a kernel value as trees grow, by dot product and exactly."""
    kernel, rows = tk.SubsetTreeKernel(0.4), []
    enc = tk.DistributedTrees(kernel, D)
    print(f"\nFigure 5, {name}: microseconds for a value, by nodes of both trees")
    print(f"  {'nodes':>8}{'dot product':>14}{'exact pair':>14}")
    order = np.argsort(forest.n_nodes, kind="stable")
    for part in np.array_split(order, 8):
        trees = forest[part[:20]]
        V = enc.encode(trees)
        pairs = [(i, (i + 1) % len(trees)) for i in range(len(trees))] * 5
        objects = list(trees)
        dot = best(lambda V=V, pairs=pairs: [V[i] @ V[j] for i, j in pairs])
        exact = best(
            lambda objects=objects, pairs=pairs: [
                kernel.pair(objects[i], objects[j]) for i, j in pairs
            ]
        )
        nodes = 2 * float(trees.n_nodes.mean())
        rows.append((nodes, dot * 1e6 / len(pairs), exact * 1e6 / len(pairs)))
        print("  {:8.0f}{:14.2f}{:14.2f}".format(*rows[-1]))
    return rows


DRAWN = (
    "convolution, right",
    "gamma, right",
    "quaternion, left",
    "quaternion, prune",
    "limit",
)


def draw(path: Path, tables, norms, times) -> None:
    """Draw table 2 and figure 5 of each corpus, and figure 2a."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("\nnothing drawn: matplotlib is not installed")
        return
    panels = [
        (f"Table 2, {name}", "decay", "Spearman", {w: (DECAYS, rows[w]) for w in DRAWN})
        for name, rows in tables.items()
    ]
    lengths = {what: (list(of), list(of.values())) for what, of in norms.items()}
    panels.append(("Figure 2a", "vectors", "norm", lengths))
    for name, lines in times.items():
        nodes, dots, exact = zip(*lines, strict=True)
        curves = {"dot product": (nodes, dots), "exact kernel": (nodes, exact)}
        panels.append((f"Figure 5, {name}", "nodes of both", "microseconds", curves))
    columns = 2
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(9, 3.4 * rows), layout="constrained")
    axes = figure.subplots(rows, columns).flat
    for ax, (title, x, y, curves) in zip(axes, panels, strict=False):
        for what, curve in curves.items():
            ax.plot(*curve, marker="o", markersize=3, label=what)
        ax.set(title=title, xlabel=x, ylabel=y)
        ax.legend(fontsize=7)
    for ax in axes[len(panels) :]:
        ax.remove()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=90)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trees", type=int, default=400, help="trees per corpus")
    parser.add_argument("--seeds", type=int, default=2, help="seeds for table 2")
    parser.add_argument("--samples", type=int, default=100, help="seeds for figure 2")
    parser.add_argument("--plot", type=Path, help="file to draw into")
    add_argument(parser)
    options = parser.parse_args()
    forests = corpora(options.trees, options.data)
    tables, times = {}, {}
    for name, forest in forests.items():
        tables[name] = table_2(name, forest, options.seeds)
        times[name] = figure_5(name, forest)
    norms = figure_2(options.samples)
    if may_draw(options.plot, is_generated="QC" not in forests):
        draw(options.plot, tables, norms, times)


if __name__ == "__main__":
    main()
