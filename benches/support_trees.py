"""Time of a score by the number of support trees, for models that are no graphs.

    python benches/support_trees.py DATA

DATA has qc/const_train.tsv.gz (docs/DATA.md). Microseconds of one processor per score, for
400 questions in one call and the index of the support trees; the least of three.
"""

from __future__ import annotations

import gzip
import sys
import time
from pathlib import Path

import numpy as np

import treekernel_rs as tk

SIZES, N_ASKED = (500, 1_000, 2_000, 5_000), 400
SST = tk.SubsetTreeKernel(0.4)
IDF = {"NP": 0.5, "VP": 2.0}
KERNELS = {
    "SST, a graph": SST,
    "SST with weights": tk.SubsetTreeKernel(0.4, weights=IDF),
    "SST * subpaths": SST * tk.SubpathKernel(0.4),
}


def main() -> None:
    with gzip.open(Path(sys.argv[1]) / "qc/const_train.tsv.gz", "rt") as lines:
        trees = [line.rstrip("\n").split("\t")[3] for line in lines]
    forest = tk.Forest.from_brackets(trees)
    asked = forest[-N_ASKED:]
    print("| kernel |", *(f" {size:,} support trees |" for size in SIZES), sep="")
    print("|---" * (len(SIZES) + 1), "|", sep="")
    for name, kernel in KERNELS.items():
        row = []
        for size in SIZES:
            alphas = np.random.default_rng(0).normal(size=size)
            least = np.inf
            for _ in range(3):
                model = tk.DagModel.from_dual(kernel, forest[:size], alphas)
                start = time.process_time()
                model.decision_function(asked, n_jobs=1)
                least = min(least, time.process_time() - start)
            row.append(f" {least / N_ASKED * 1e6:,.0f} |")
        print(f"| {name} |", *row, sep="")


if __name__ == "__main__":
    main()
