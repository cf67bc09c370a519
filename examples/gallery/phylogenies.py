"""Tell by which process a phylogeny grew.

Data: trees of 30 leaves simulated by DendroPy, birth and death against coalescence.
Forest: leaves without names, branch lengths in five classes of the tree's mean, sorted.
Kernels: ET, PT and SST, with and without lengths.
Against: statistics of shape (cherries, Colless, Sackin, height) and of lengths, with a
random forest.

    pip install '.[sklearn,viz,examples]'
    python examples/gallery/phylogenies.py         # a minute; writes phylogenies.png
    python examples/gallery/phylogenies.py --n-trees 40 --out /tmp/phylogenies.png
"""

from __future__ import annotations

import numpy as np
from _comparison import accuracy, by_forest, main

import treekernel_rs as tk

DECAYS = (0.1, 0.2, 0.4)
KERNELS = {
    "SST": [tk.SubsetTreeKernel(d, normalize=True) for d in DECAYS],
    "PT": [tk.PartialTreeKernel(0.4, m, normalize=True) for m in DECAYS],
    "ET": [tk.ElasticTreeKernel(d, normalize=True) for d in DECAYS],
}


def shape(tree: tk.Tree) -> list[float]:
    """Return cherries, Colless, Sackin, height, and how common each length is."""
    order, todo = [], [(tree, 0)]
    counts = dict.fromkeys("01234?", 0)
    while todo:
        node, depth = todo.pop()
        order.append((node, depth))
        counts[node.label[-1]] = counts.get(node.label[-1], 0) + 1
        todo += [(child, depth + 1) for child in node.children]
    cherries = colless = sackin = height = 0
    stack: list[int] = []
    for node, depth in reversed(order):
        below = [stack.pop() for _ in node.children]
        if not below:
            sackin += depth
            height = max(height, depth)
        elif len(below) == 2:
            cherries += below == [1, 1]
            colless += abs(below[0] - below[1])
        stack.append(sum(below) or 1)
    return [cherries, colless, sackin, height, *(counts[c] for c in "01234")]


def run(n_trees: int = 300) -> dict[str, tuple[float, float]]:
    """Return the accuracy of each way."""
    data = tk.datasets.phylogenies(n_trees=n_trees)
    plain = data.forest.relabel(lambda label: label.split(":")[0]).sorted()
    results = {}
    for name, kernels in KERNELS.items():
        for what, trees in (("shape", plain), ("lengths", data.forest)):
            results[f"{name}, {what}"] = accuracy([k(trees) for k in kernels], data.y)
    table = np.array([shape(tree) for tree in data.forest])
    results["statistics of shape"] = by_forest(table[:, :4], data.y)
    results["statistics, lengths"] = by_forest(table, data.y)
    return results


if __name__ == "__main__":
    what = {"without": ("stat",), "what": "two processes", "stem": "phylogenies"}
    main(__doc__, run, "--n-trees", 300, **what)
