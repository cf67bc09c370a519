"""Time of TreeVectorizer against HashingVectorizer over production strings.

    python benches/features.py [TREES]

Trees are the different subtrees of 5 to 40 nodes of the installed Python's functions, repeated
as often as needed. One thread; minimum of three runs.
"""

from __future__ import annotations

import resource
import sys
import time
from typing import TYPE_CHECKING

from sklearn.feature_extraction.text import HashingVectorizer

import treekernel_rs as tk

if TYPE_CHECKING:
    from collections.abc import Callable


def production_strings(forest: tk.Forest) -> list[str]:
    """Write the productions of each tree as words."""
    rows = tk.TreeVectorizer("productions").fit(forest)
    words = [
        name.strip("()").replace(" ", "_") for name in rows.get_feature_names_out()
    ]
    counts = rows.transform(forest)
    return [
        " ".join(
            word
            for column, n in zip(row.indices, row.data, strict=True)
            for word in int(n) * [words[column]]
        )
        for row in counts
    ]


def seconds(work: Callable[[], object]) -> float:
    """Return the least time of three runs."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    functions = tk.datasets.python_functions().forest
    small: dict[str, None] = {}
    for tree in functions:
        below = [tree]
        while below:
            node = below.pop()
            below.extend(node.children)
            if 5 <= node.n_nodes <= 40:
                small[str(node)] = None
    distinct = list(small)
    texts = [distinct[i % len(distinct)] for i in range(n)]
    forest = tk.Forest.from_brackets(texts)
    print(f"{n} trees, {len(distinct)} distinct, {forest.n_nodes.mean():.1f} nodes each")
    words = production_strings(forest)
    hashing = HashingVectorizer(token_pattern=r"\S+", n_features=2**20, norm=None)
    base = seconds(lambda: hashing.transform(words))
    print(f"HashingVectorizer on strings of productions: {n / base:,.0f} trees/s")
    for kernel, size in (("productions", 1), (tk.SubsetTreeKernel(0.4), 3)):
        own = tk.TreeVectorizer(kernel, max_size=size, n_features=2**20, n_jobs=1)
        for what, trees in (("with parsing", texts), ("of a Forest", forest)):
            took = seconds(
                lambda own=own, trees=trees: own.transform(
                    trees if trees is forest else tk.Forest.from_brackets(trees)
                )
            )
            ratio = f"{n / took:,.0f} trees/s, {base / took:.1f} times"
            print(f"TreeVectorizer({kernel!r}, max_size={size}) {what}: {ratio}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"peak memory {peak} MB")


if __name__ == "__main__":
    main()
