"""Tell from which package of the standard library a Python function is.

Data: the installed Python's functions, eight packages, 300 of each.
Forest: syntax trees; identifiers and texts are blanked, so that shape has to tell.
Kernels: ST, SST and PT.
Against: what needs no tree kernel: kinds of nodes, and kinds with their parents, with
sublinear tf-idf.

    pip install '.[sklearn,viz]'
    python examples/gallery/functions.py           # some minutes; writes functions.png
    python examples/gallery/functions.py --per-class 20 --out /tmp/functions.png
"""

from __future__ import annotations

import numpy as np
from _comparison import accuracy, bags, main

import treekernel_rs as tk

KERNELS = {
    "ST": [tk.SubtreeKernel(d, normalize=True) for d in (0.4, 0.8)],
    "SST": [tk.SubsetTreeKernel(d, normalize=True) for d in (0.1, 0.2, 0.4)],
    "PT": [
        tk.PartialTreeKernel(d, m, normalize=True)
        for d, m in ((0.2, 0.1), (0.4, 0.2), (0.4, 0.4))
    ],
}


def run(per_class: int = 300) -> dict[str, tuple[float, float]]:
    """Return the accuracy of each way."""
    data = tk.datasets.python_functions()
    rng = np.random.default_rng(0)
    chosen = [
        rng.permutation(np.flatnonzero(data.y == c))[:per_class]
        for c in range(len(data.classes))
    ]
    kept = np.concatenate(chosen)
    forest, y = data.forest[kept], data.y[kept]
    results = {
        name: accuracy([kernel(forest) for kernel in kernels], y)
        for name, kernels in KERNELS.items()
    }
    kinds, edges = bags(forest, "labels"), bags(forest, "edges")
    results["kinds, tf-idf"] = accuracy([kinds], y)
    results["kinds and edges, tf-idf"] = accuracy([kinds + edges], y)
    return results


if __name__ == "__main__":
    what = {"without": ("tf-idf",), "what": "eight packages", "stem": "functions"}
    main(__doc__, run, "--per-class", 300, **what)
