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
from scipy import stats
from sklearn.model_selection import cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import SVC

import treekernel_rs as tk

sys.path.append(str(Path(__file__).resolve().parents[1]))
import _data
import _plots

#: Names of files in place of which data were generated.
generated: set[str] = set()


def options(doc: str) -> argparse.ArgumentParser:
    """Return a parser with what all scripts understand."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="small, for tests")
    parser.add_argument("--plot", type=Path, help="file to draw into")
    parser.add_argument("--seed", type=int, default=0)
    _data.add_argument(parser)
    return parser


def rows(name: str, options: argparse.Namespace) -> list[list[str]] | None:
    """Return the rows of a file of docs/DATA.md; None if it is missing, or with --short.

    Then the data have to be generated, which the headings of all later tables say.
    """
    path = None if options.short else _data.find(name, options.data)
    if path is not None:
        return _data.rows(path)
    print(f"generated data instead of {name}: {_data.HINT}")
    generated.add(name)
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
    """Print a table; its heading says where data were generated."""

    def cell(value: object) -> str:
        return f"{value:.{digits}f}" if isinstance(value, float) else str(value)

    lines = [[cell(value) for value in line] for line in (head, *body)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    print(f"\n{title}{' (generated data)' if generated else ''}\n")
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
    K: np.ndarray,
    y: np.ndarray,
    costs: Sequence[float] = (1, 10, 100),
    folds: int = 3,
    *,
    against_all: bool = False,
) -> SVC | OneVsRestClassifier:
    """Return a machine fitted with the C that is best in cross-validation on K.

    With several classes it has a machine for each pair, or one for each class against all.

    The C is kept as `cost_`, its accuracy in cross-validation as `score_` (not a number if
    there is but one C).
    """

    def machine(C: float) -> SVC | OneVsRestClassifier:
        svm = SVC(kernel="precomputed", C=C, cache_size=500)
        return OneVsRestClassifier(svm) if against_all else svm

    scores = [np.nan]
    if len(costs) > 1:
        scores = [cross_val_score(machine(C), K, y, cv=folds).mean() for C in costs]
    cost = costs[int(np.argmax(scores))]
    fitted = machine(cost).fit(K, y)
    fitted.cost_, fitted.score_ = cost, max(scores)
    return fitted


def interval(values: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """Return the mean, and half of Student's 95 % interval around it."""
    n = len(values)
    half = (
        stats.t.ppf(0.975, n - 1) * np.std(values, ddof=1) / n**0.5 if n > 1 else np.nan
    )
    return float(np.mean(values)), float(half)


def with_interval(values: Sequence[float] | np.ndarray, digits: int = 3) -> str:
    """Write a mean and its 95 % interval."""
    mean, half = interval(values)
    return f"{mean:.{digits}f}" + (f" ± {half:.{digits}f}" if len(values) > 1 else "")


def draw(options: argparse.Namespace, panels: Sequence[dict[str, Any]]) -> None:
    """Draw panels into the file that --plot names, if data are not generated."""
    if _data.may_draw(options.plot, is_generated=bool(generated)):
        _plots.save(panels, options.plot)


def forest(lines: Sequence[str]) -> tk.Forest:
    """Read bracketed text."""
    return tk.Forest.from_brackets(list(lines))
