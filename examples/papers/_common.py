"""Shared by the papers' scripts: data, tables, pictures and support vector machines."""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC

import treekernel_rs as tk

sys.path.append(str(Path(__file__).resolve().parents[1]))
import _data


def options(doc: str) -> argparse.ArgumentParser:
    """Return a parser with what all scripts understand."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="small, for tests")
    parser.add_argument("--plot", type=Path, help="file to draw into")
    parser.add_argument("--seed", type=int, default=0)
    parser.set_defaults(is_generated=False)
    _data.add_argument(parser)
    return parser


def rows(name: str, options: argparse.Namespace) -> list[list[str]] | None:
    """Return the rows of a file of docs/DATA.md; None if it is missing, or with --short.

    Then the data have to be generated, which `options.is_generated` keeps for `draw`.
    """
    path = None if options.short else _data.find(name, options.data)
    if path is not None:
        return _data.rows(path)
    print(f"generated data instead of {name}: {_data.HINT}")
    options.is_generated = True
    return None


def grown(rng: np.random.Generator, labels: str, depth: int, width: int = 3) -> str:
    """Return a random tree whose labels depend on the label above."""
    label = labels[0]
    if depth == 0 or rng.random() < 0.15:
        return f"({label} {label.lower()}{rng.zipf(1.6) % 50})"
    below = [
        grown(rng, "".join(rng.permutation(list(labels))), depth - 1, width)
        for _ in range(rng.integers(1, width + 1))
    ]
    return f"({label} {' '.join(below)})"


def table(
    title: str,
    head: Sequence[object],
    body: Sequence[Sequence[object]],
    digits: int = 3,
) -> None:
    """Print a table."""

    def cell(value: object) -> str:
        return f"{value:.{digits}f}" if isinstance(value, float) else str(value)

    lines = [[cell(value) for value in line] for line in (head, *body)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    print(f"\n{title}\n")
    for line in lines:
        first, *others = zip(line, widths, strict=True)
        print(f"  {first[0]:<{first[1]}}", *(f"{text:>{w}}" for text, w in others))


def seconds(work: Callable[[], object], runs: int = 1) -> float:
    """Return the CPU time of a call, the least of some runs, without garbage collection."""
    found = []
    gc.disable()
    for _ in range(runs):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    gc.enable()
    return min(found)


def normalised(K: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Divide a matrix by the square roots of self-kernels."""
    return K / np.sqrt(np.outer(np.maximum(rows, 1e-300), np.maximum(columns, 1e-300)))


def best_svm(
    K: np.ndarray, y: np.ndarray, costs: Sequence[float] = (1, 10, 100), folds: int = 3
) -> SVC:
    """Return a machine fitted with the C that is best in cross-validation on K.

    Its accuracy in cross-validation is kept as `score_`.
    """
    scores = [
        cross_val_score(SVC(kernel="precomputed", C=C), K, y, cv=folds).mean()
        for C in costs
    ]
    svm = SVC(kernel="precomputed", C=costs[int(np.argmax(scores))]).fit(K, y)
    svm.score_ = max(scores)
    return svm


def draw(options: argparse.Namespace, panels: Sequence[dict[str, Any]]) -> None:
    """Draw panels in rows of two: title, xlabel, ylabel, curves by name, log."""
    path = options.plot
    if not _data.may_draw(path, options.is_generated):
        return
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        print("\nnothing drawn: matplotlib is not installed")
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    figure, axes = plt.subplots(
        rows,
        columns,
        figsize=(4.5 * columns, 3.4 * rows),
        layout="constrained",
        squeeze=False,
    )
    for ax in axes.flat[len(panels) :]:
        ax.remove()
    for ax, panel in zip(axes.flat, panels, strict=False):
        for name, (x, y) in panel["curves"].items():
            ax.plot(x, y, marker="o", markersize=3, label=name)
        ax.set(title=panel["title"], xlabel=panel["xlabel"], ylabel=panel["ylabel"])
        if panel.get("log"):
            ax.set_yscale("log")
        ax.legend(fontsize=7)
    figure.savefig(path, dpi=90)
    plt.close(figure)


def forest(lines: Sequence[str]) -> tk.Forest:
    """Read bracketed text."""
    return tk.Forest.from_brackets(list(lines))
