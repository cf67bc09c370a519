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

from typing import Any

import numpy as np
from _comparison import accuracy, folds, main
from sklearn.ensemble import RandomForestClassifier

import treekernel_rs as tk

KERNELS = {
    "SST": tk.SubsetTreeKernel(0.4, normalize=True),
    "PT": tk.PartialTreeKernel(0.4, 0.4, normalize=True),
    "ET": tk.ElasticTreeKernel(0.2, normalize=True),
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


def by_statistics(table: Any, y: Any) -> tuple[float, float]:
    """Return the same of a random forest."""
    scores = []
    for train, test in folds(y):
        model = RandomForestClassifier(300, random_state=0).fit(table[train], y[train])
        scores.append(model.score(table[test], y[test]))
    return float(np.mean(scores)), float(np.std(scores))


def run(n_trees: int = 300) -> dict[str, tuple[float, float]]:
    """Return the accuracy of each way."""
    data = tk.datasets.phylogenies(n_trees=n_trees)
    plain = data.forest.relabel(lambda label: label.split(":")[0]).sorted()
    results = {}
    for name, kernel in KERNELS.items():
        results[f"{name}, shape"] = accuracy([kernel(plain)], data.y)
        results[f"{name}, lengths"] = accuracy([kernel(data.forest)], data.y)
    table = np.array([shape(tree) for tree in data.forest])
    results["statistics of shape"] = by_statistics(table[:, :4], data.y)
    results["statistics, lengths"] = by_statistics(table, data.y)
    return results


if __name__ == "__main__":
    what = {"without": "stat", "what": "two processes", "stem": "phylogenies"}
    main(__doc__, run, "--n-trees", 300, **what)
