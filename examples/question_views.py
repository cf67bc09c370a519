"""Two views of a question, constituents and dependencies, against either alone.

5-fold cross-validation on the 5,452 training questions of TREC, six classes, with each tree
alone, their sum, and their product. Nothing is tuned: the kernels' usual parameters, C = 10.
The test questions are not looked at.

    python examples/question_views.py [--data FOLDER]

The questions are those of qc in docs/DATA.md. Needs the extra sklearn.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from _data import add_argument, find_or_exit, rows
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.svm import SVC

import treekernel_rs as tk

CONST = tk.SubsetTreeKernel(0.4, normalize=True)
DEP = tk.PartialTreeKernel(0.4, 0.4, normalize=True)
#: What is compared.
KERNELS = {
    "constituents, SST": tk.kernels.ViewKernel({"const": CONST}),
    "dependencies (GRCT), PT": tk.kernels.ViewKernel({"dep": DEP}),
    "sum": tk.kernels.ViewKernel({"const": CONST, "dep": DEP}, normalize=True),
    "product": tk.kernels.ViewKernel({"const": CONST, "dep": DEP}, combine="product"),
}


def read(path: Path) -> tuple[np.ndarray, tk.Forest]:
    """Read classes, and the trees of the first column that has some."""
    lines = rows(path)
    column = next(i for i, text in enumerate(lines[0]) if text.startswith("("))
    trees = tk.Forest.from_brackets([line[column] for line in lines])
    return np.array([line[0] for line in lines]), trees


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_argument(parser)
    folder = find_or_exit("qc", parser.parse_args().data)
    y, const = read(folder / "const_train.tsv.gz")
    same, dep = read(folder / "dep_train.tsv.gz")
    if y.tolist() != same.tolist():
        sys.exit("the two files are not of the same questions")
    X = tk.kernels.Views(const=const, dep=dep)
    print(f"{len(X):,} questions, 5 folds", flush=True)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    right = {}
    for name, kernel in KERNELS.items():
        K = kernel(X)
        svc = SVC(kernel="precomputed", C=10)
        scores = cross_val_score(svc, K, y, cv=folds)
        right[name] = scores
        error = scores.std(ddof=1) / len(scores) ** 0.5
        print(f"{name:<24} {scores.mean():.4f} +- {error:.4f}", flush=True)
    single = max(list(right.values())[:2], key=np.mean)
    for name in ("sum", "product"):
        gain = right[name] - single
        error = gain.std(ddof=1) / len(gain) ** 0.5
        print(f"{name} - better view: {gain.mean():+.4f} +- {error:.4f}")


if __name__ == "__main__":
    main()
