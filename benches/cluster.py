"""Memory and time of a matrix that a cluster of processes writes to a file.

    python benches/cluster.py [TREES] [CHUNK] [WORKERS]

Trees are different subtrees of 5 to 40 nodes of the installed Python's functions; SST, float32.
Peaks are of resident memory; the client's process has the scheduler in it. Then the file is held
against rows that one machine computes.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from pathlib import Path

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

import treekernel_rs as tk
import treekernel_rs.dask


def small_trees(n: int) -> list[str]:
    """Take different subtrees of the functions of Python's library."""
    found: dict[str, None] = {}
    functions = tk.datasets.python_functions(n_classes=60, min_nodes=10, max_nodes=2000)
    for tree in functions.forest:
        below = [tree]
        while below:
            node = below.pop()
            below.extend(node.children)
            if 5 <= node.n_nodes <= 40:
                found[str(node)] = None
        if len(found) >= n:
            break
    return list(found)[:n]


def resident() -> int:
    """Return the peak of this process's memory, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def main() -> None:
    given = [int(number) for number in sys.argv[1:]]
    n, chunk, workers = [*given, *(10_000, 2_500, 2)[len(given) :]]
    forest = tk.Forest.from_brackets(small_trees(n))
    kernel = tk.SubsetTreeKernel(0.4, normalize=True)
    print(f"{len(forest)} trees, blocks of {chunk}, {workers} workers")
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        idle = list(client.run(resident).values())
        own = resident()
        start, cpu = time.perf_counter(), os.times()
        matrix = tk.dask.gram(kernel, forest, chunks=chunk, dtype=np.float32)
        path = Path(folder) / "k.npy"
        file = tk.dask.NpyFile(str(path), matrix.shape, matrix.dtype)
        da.store(matrix, file, lock=False)
        seconds = time.perf_counter() - start
        cpus = sum(client.run(time.process_time).values())
        print(
            f"{path.stat().st_size / 1e9:.2f} GB in {seconds:.1f} s, processors of the"
        )
        print(f"workers {cpus:.1f} s, of the client {os.times()[0] - cpu[0]:.1f} s")
        n_tasks = len(dict(matrix.__dask_graph__()))
        print(
            f"{n_tasks} tasks; client and scheduler {own} MB idle, {resident()} MB peak"
        )
        print(f"workers {idle} MB idle, {list(client.run(resident).values())} MB peak")
        rows = list(range(0, len(forest), max(1, len(forest) // 50)))
        want = kernel.gram(forest[rows], forest, dtype=np.float32)
        got = np.load(path, mmap_mode="r")[rows]
        print(f"of {want.size} values {np.sum(got != want)} have other bits")


if __name__ == "__main__":
    main()
