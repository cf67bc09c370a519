"""Tell from which class of organisms a glycan is.

Data: ten classes of glycowork's glycans that were found in one class only, 300 of each.
Forest: residues and bonds as nodes, the reducing end on top, branches sorted.
Kernel: partial trees (PT), which skip residues and bonds; ST and SST beside it.
Against: what needs no tree, n-grams of residues and bonds with tf-idf.

    pip install '.[sklearn,viz,examples]'
    python examples/gallery/glycans.py             # some minutes; writes glycans.png
    python examples/gallery/glycans.py --per-class 60 --out /tmp/glycans.png
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from _comparison import accuracy, main, n_grams

import treekernel_rs as tk

DECAYS = (0.3, 0.5, 0.7)
KERNELS = {
    "ST": [tk.SubtreeKernel(decay, normalize=True) for decay in DECAYS],
    "SST": [tk.SubsetTreeKernel(decay, normalize=True) for decay in DECAYS],
    "PT": [
        tk.PartialTreeKernel(decay, mu, normalize=True)
        for decay in DECAYS
        for mu in DECAYS
    ],
}


def ten_classes(linkages: str, per_class: int) -> tuple[tk.Forest, Any, Any]:
    """Return some trees of each of the ten largest classes, their names and labels."""
    data = tk.datasets.glycans(level="Class", linkages=linkages)
    largest = np.argsort(-np.bincount(data.y), kind="stable")[:10]
    rng = np.random.default_rng(0)
    chosen = [rng.permutation(np.flatnonzero(data.y == c))[:per_class] for c in largest]
    kept = np.concatenate(chosen)
    labels = np.array(data.classes)[data.y[kept]]
    return data.forest[kept], np.array(data.names)[kept], labels


def run(per_class: int = 300) -> dict[str, tuple[float, float]]:
    """Return the accuracy of each way; print what tells mammals from the others."""
    results = {}
    forest, names, y = ten_classes("label", per_class)
    for name, kernels in KERNELS.items():
        results[f"{name}, bonds in labels"] = accuracy([k(forest) for k in kernels], y)
    forest, names, y = ten_classes("node", per_class)
    for name, kernels in KERNELS.items():
        results[f"{name}, bonds as nodes"] = accuracy([k(forest) for k in kernels], y)
    # Residues, bonds and branches.
    parts = [re.findall(r"[^()\[\]]+|\[|\]", name) for name in names]
    for longest in (1, 3):
        what = f"{longest}-grams" if longest == 1 else f"1- to {longest}-grams"
        results[f"{what}, tf-idf"] = accuracy([n_grams(parts, longest)], y)
    model = tk.TreeSVC(tk.SubsetTreeKernel(0.5, normalize=True), C=10)
    model.fit(forest, y == "Mammalia")
    print("Fragments that speak for or against mammals:")
    for by in ("largest", "smallest"):
        for fragment in model.top_fragments(4, by=by, min_size=3):
            print(fragment)
    return results


if __name__ == "__main__":
    what = {"without": ("gram",), "what": "ten classes", "stem": "glycans"}
    main(__doc__, run, "--per-class", 300, **what)
