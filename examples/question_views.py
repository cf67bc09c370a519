"""Two views of a question, constituents and dependencies, against either alone.

5-fold cross-validation on the 5,452 training questions of TREC, six classes, with each tree
alone, their sum, and their product. Nothing is tuned: the kernels' usual parameters, C = 10.
The test questions are not looked at.

    python examples/question_views.py [FOLDER]

The folder has const_train.tsv.gz and dep_train.tsv.gz: tables separated by tabs, the class
first, and in the same order. By default shared/data/qc beside a folder above. Needs the
extra sklearn.
"""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import numpy as np
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.svm import SVC

import treekernel_rs as tk

CONST = tk.SubsetTreeKernel(0.4, normalize=True)
DEP = tk.PartialTreeKernel(0.4, 0.4, normalize=True)
#: What is compared.
KERNELS = {
    "constituents, SST": tk.ViewKernel({"const": CONST}),
    "dependencies (GRCT), PT": tk.ViewKernel({"dep": DEP}),
    "sum": tk.ViewKernel({"const": CONST, "dep": DEP}, normalize=True),
    "product": tk.ViewKernel({"const": CONST, "dep": DEP}, combine="product"),
}


def read(path: Path) -> tuple[np.ndarray, tk.Forest]:
    """Read classes, and the trees of the first column that has some."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    column = next(i for i, text in enumerate(rows[0]) if text.startswith("("))
    trees = tk.Forest.from_brackets([row[column] for row in rows])
    return np.array([row[0] for row in rows]), trees


def main() -> None:
    """Print a table."""
    above = [parent / "shared/data/qc" for parent in Path(__file__).parents]
    folders = [Path(sys.argv[1])] if len(sys.argv) > 1 else above
    folder = next((f for f in folders if (f / "const_train.tsv.gz").exists()), None)
    if folder is None:
        sys.exit("no const_train.tsv.gz found: name its folder")
    y, const = read(folder / "const_train.tsv.gz")
    same, dep = read(folder / "dep_train.tsv.gz")
    if y.tolist() != same.tolist():
        sys.exit("the two files are not of the same questions")
    X = tk.Views(const=const, dep=dep)
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
