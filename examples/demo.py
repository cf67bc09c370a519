"""The library at work: functions of Python's standard library as trees.

Parses them, counts what is shared, and finds to some functions the one with which they
have most in common.
"""

import sys
from time import perf_counter

import numpy as np

import treekernel_rs as tk


def nearest(forest: tk.Forest) -> tuple[np.ndarray, np.ndarray]:
    """Find every tree's nearest neighbour by shared subtrees.

    Equal subtrees have equal ids, so a tree is a bag of integers. Two trees are similar
    by the number of subtrees of three nodes and more that they share, relative to how
    many they have (a cosine).
    """
    indptr, ids = forest.subtree_ids()
    trees = np.repeat(np.arange(len(forest)), np.diff(indptr))
    order = np.lexsort((trees, ids))
    ids, trees = ids[order], trees[order]
    # A row per (subtree, tree), with the number of times it stands there.
    first = np.flatnonzero(np.r_[True, (np.diff(ids) != 0) | (np.diff(trees) != 0)])
    count = np.diff(np.r_[first, len(ids)])
    ids, trees = ids[first], trees[first]
    start = np.flatnonzero(np.r_[True, np.diff(ids) != 0])
    end = np.r_[start[1:], len(ids)]
    # Subtrees that stand in very many trees (most of them small) tell little and cost
    # most; those of one tree only are shared with nobody.
    keep = (end - start > 1) & (end - start < len(forest) / 10)
    norm = np.sqrt(np.bincount(trees, count.astype(float) ** 2, len(forest)))
    similarity = np.zeros((len(forest), len(forest)), np.float32)
    for a, b in zip(start[keep], end[keep], strict=True):
        t, c = trees[a:b], count[a:b]
        similarity[np.ix_(t, t)] += np.outer(c, c)
    similarity /= np.outer(norm, norm)
    np.fill_diagonal(similarity, -1)
    best = similarity.argmax(axis=1)
    return best, similarity[np.arange(len(forest)), best]


def main() -> None:
    """Print what is found, with the time it took."""
    print(
        f"Python {sys.version.split()[0]}: functions of the standard library as trees"
    )
    start = perf_counter()
    data = tk.datasets.python_functions(identifiers=True)
    print(f"  read through ast            {perf_counter() - start:8.2f} s")

    lines = data.forest.to_brackets()
    megabytes = sum(map(len, lines)) / 1e6
    start = perf_counter()
    forest = tk.Forest.from_brackets(lines)
    seconds = perf_counter() - start
    print(f"  parsed again from brackets  {seconds * 1e3:8.1f} ms")
    print(f"                              {megabytes / seconds:8.0f} MB/s")
    print(f"  trees                       {len(forest):8,}")
    print(f"  nodes                       {forest.n_nodes.sum():8,}")
    print(f"  distinct subtrees           {forest.n_distinct:8,}")
    print(f"  memory of the store         {forest.nbytes / 1e6:8.2f} MB")

    start = perf_counter()
    best, similarity = nearest(forest)
    seconds = perf_counter() - start
    right = (data.y == data.y[best]).mean()
    chance = (np.bincount(data.y) / len(forest)).max()
    print(f"\nNearest neighbour of every function by shared subtrees, {seconds:.2f} s:")
    print(f"  in the same package for {right:.0%} (always guessing one: {chance:.0%})")
    print("  some of the closest that are not equal:")
    different = np.flatnonzero([similarity < 0.97])
    for i in different[np.argsort(-similarity[different])][::40][:8]:
        name, other = data.names[i], data.names[best[i]]
        print(f"    {similarity[i]:.2f}  {name:<44}  {other}")


if __name__ == "__main__":
    main()
