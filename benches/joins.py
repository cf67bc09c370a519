"""Joins of real statements, with their repetitions: seconds and memory.

    python benches/joins.py CACHE 600000 1000000

CACHE is the folder of benches/functions.py. One process for each size; one thread, SST
λ = 0.4, joined at 0.9. The join is also computed in five parts, as one that is resumed.
"""

import argparse
import os
import resource
import time
import warnings
from pathlib import Path

import numpy as np
from functions import statements

import treekernel_rs as tk

N_PARTS = 5


def run(cache: Path, n: int) -> None:
    path = cache / f"statements-{n}.tkrs"
    if not path.exists():
        # A store of its own, which is read by a process of its own: the peak is the join's.
        tk.Forest.concat([tk.Forest(), statements(cache, n)]).save(path)
        return
    forest = tk.Forest.load(path)
    kernel = tk.SubsetTreeKernel(0.4, normalize=True)
    warnings.simplefilter("ignore")  # leaves have no kernel

    def joined(
        rows: tuple[int, int] | None = None,
    ) -> tuple[tk.neighbors.JoinResult, float]:
        start = time.process_time()
        found = kernel.join(forest, min_similarity=0.9, rows=rows, n_jobs=1)
        return found, time.process_time() - start

    found, seconds = joined()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    groups = found.groups
    print(
        f"{n} statements, {groups.row_groups.max() + 1} of them different: {seconds:.1f} s, "
        f"{found.n_pairs} pairs, {len(groups.values)} of groups, peak {peak:.2f} GB",
        flush=True,
    )
    size = -(-n // N_PARTS)
    parts = [joined((at, at + size)) for at in range(0, n, size)]
    values = np.concatenate([part.groups.values for part, _ in parts])
    is_equal = np.array_equal(np.sort(values), np.sort(groups.values))
    print(
        f"in {N_PARTS} parts: {sum(seconds for _, seconds in parts):.1f} s, the same values: "
        f"{is_equal}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cache", type=Path)
    parser.add_argument("sizes", type=int, nargs="+")
    given = parser.parse_args()
    for n in given.sizes:
        for _ in range(1 if (given.cache / f"statements-{n}.tkrs").exists() else 2):
            child = os.fork()
            if not child:
                run(given.cache, n)
                os._exit(0)
            os.waitpid(child, 0)


if __name__ == "__main__":
    main()
