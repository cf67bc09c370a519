"""What the encoder's norms and decays are good for: neighbours, copies and classes.

    python benches/encoders.py DATA [N_COMPONENTS...]

DATA has code/java_functions.tsv.gz and qc/const_train.tsv.gz (docs/DATA.md). Of 1,500 trees
each, SST 0.4 normalised: the share of the ten nearest trees by the exact kernel that are
among the ten nearest by vectors; how often a copy of a tree is nearest to it; the accuracy
of an SVC, the best of five C, in four folds; and what the warning names.
"""

from __future__ import annotations

import gzip
import sys
import warnings
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.svm import SVC

import treekernel_rs as tk

KERNEL = tk.SubsetTreeKernel(0.4, normalize=True)
SETTINGS = [("own", "auto"), *(("own", x) for x in (0.4, 0.3, 0.2))]
SETTINGS += [("full", x) for x in (0.4, 0.3, 0.2)]


def rows(path: Path) -> list[list[str]]:
    """Read the fields of a table's lines."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [line.rstrip("\n").split("\t") for line in lines]


def corpora(data: Path) -> dict[str, tuple[tk.Forest, NDArray | None]]:
    """Read trees and, where there are any, classes."""
    java = rows(data / "code/java_functions.tsv.gz")
    picked = np.linspace(0, len(java) - 1, 1500).astype(int)
    python = tk.datasets.python_functions(max_per_class=188)
    questions = rows(data / "qc/const_train.tsv.gz")[:1500]
    coarse = np.array([row[0].split(":")[0] for row in questions])
    return {
        "Java": (tk.Forest([java[i][-1] for i in picked]), None),
        "Python": (python.forest, python.y),
        "questions": (tk.Forest([row[-1] for row in questions]), coarse),
    }


def nearest(matrix: NDArray) -> list[set[int]]:
    """Find the ten columns of each row that are largest, without the diagonal."""
    others = matrix.copy()
    np.fill_diagonal(others, -np.inf)
    return [set(row) for row in np.argpartition(-others, 10, axis=1)[:, :10]]


def accuracy(matrix: NDArray, y: NDArray | None) -> float:
    """Cross-validate with the best of five C."""
    if y is None:
        return np.nan
    folds = StratifiedKFold(4, shuffle=True, random_state=0)
    machines = [SVC(kernel="precomputed", C=10.0**i) for i in range(-1, 4)]
    return max(cross_val_score(m, matrix, y, cv=folds).mean() for m in machines)


def main() -> None:
    """Print a row for each corpus, length and setting."""
    lengths = [int(d) for d in sys.argv[2:]] or [1024, 8192]
    for name, (trees, y) in corpora(Path(sys.argv[1])).items():
        exact = KERNEL(trees)
        near, same = nearest(exact), exact > 1 - 1e-9
        print(f"{name}: accuracy of the kernel {accuracy(exact, y):.3f}")
        for d, (norm, decay) in ((d, s) for d in lengths for s in SETTINGS):
            encoder = tk.DistributedTrees(KERNEL, d, norm=norm, sketch_decay=decay)
            encoder = encoder.tune(trees) if decay == "auto" else encoder
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                V = encoder.encode(trees)
            noisy = [str(w.message).split("vectors of ")[1].split()[0] for w in caught]
            G = (V @ V.T).astype(float)
            both = zip(near, nearest(G), strict=True)
            recall = np.mean([len(a & b) for a, b in both]) / 10
            first = same[np.arange(len(G)), G.argmax(1)].mean()
            print(
                f"  d={d} {norm}/{decay} decay {encoder.sketch_decay or 0.4:.3f}: "
                f"recall {recall:.3f}, copies first {first:.3f}, accuracy "
                f"{accuracy(G, y):.3f}, noisy {noisy[0] if noisy else 0}",
                flush=True,
            )


if __name__ == "__main__":
    main()
