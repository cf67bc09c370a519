"""Tell which protocol a web service speaks from the JSON model that describes it.

Data: models of Amazon's services that come with botocore; four protocols.
Forest: objects and lists of JSON, names as labels, values by type; models of at most 8,000
nodes; members sorted, so that their order does not matter; runs of equal elements collapsed.
Kernels: ST, SST and PT.
Against: what needs no tree kernel: names, and names with those around them, with sublinear
tf-idf.

    pip install '.[sklearn,viz,examples]'
    python examples/gallery/services.py            # a minute; writes services.png
    python examples/gallery/services.py --most 120 --out /tmp/services.png
"""

from __future__ import annotations

import numpy as np
from _comparison import accuracy, bags, main

import treekernel_rs as tk

KERNELS = {
    "ST": [tk.SubtreeKernel(d, normalize=True) for d in (0.4, 0.8)],
    "SST": [tk.SubsetTreeKernel(d, normalize=True) for d in (0.2, 0.4)],
    "PT": [tk.PartialTreeKernel(0.4, m, normalize=True) for m in (0.2, 0.4)],
}
SMALL = 8000


def run(most: int | None = None) -> dict[str, tuple[float, float]]:
    """Return the accuracy of each way."""
    data = tk.datasets.json_models()
    common = np.bincount(data.y)[data.y] >= 15
    kept = np.flatnonzero(common & (data.forest.n_nodes <= SMALL))
    if most is not None:
        kept = np.sort(np.random.default_rng(0).permutation(kept)[:most])
    y = data.y[kept]
    forest = data.forest[kept].sorted().collapse_repeats()
    results = {
        name: accuracy([kernel(forest) for kernel in kernels], y)
        for name, kernels in KERNELS.items()
    }
    for kind in ("labels", "edges"):
        results[f"{kind}, tf-idf"] = accuracy([bags(forest, kind)], y)
    return results


if __name__ == "__main__":
    what = {"without": ("tf-idf",), "what": "four protocols", "stem": "services"}
    main(__doc__, run, "--most", None, **what)
