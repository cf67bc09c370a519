"""Eight threads ask an index while another one adds to it: no error, and no wrong answer.

A thread may see the index as it was at any moment of its question, so its answer must be
that of the trees which were there before, or of those and some of the next ones. What is
right comes from a matrix of all kernels. For half of the time nobody adds: the slowest
questions (one in a hundred) of the other half may take three times as long as theirs. That
is a finding from two minutes on; before, so few questions are slow that it is only told.
"""

from __future__ import annotations

import faulthandler
import sys
import threading
import time
from collections import Counter

import numpy as np

import treekernel_rs as tk

from . import entry_points

N_THREADS = 8
#: Trees of the index, and those that are added before a new index is begun.
N_TREES, N_ADDED = 3000, 1500
N_ASKED, K = 60, 10
#: Seconds between two additions.
PAUSE = 0.005
#: How much longer questions may take beside additions.
SLOWER = 3


def main(seconds: float) -> int:
    trees = tk.Forest.from_brackets(entry_points.texts(N_TREES + N_ADDED, seed=5))
    asked = tk.Forest.from_brackets(entry_points.texts(N_ASKED, seed=6))
    kernel = tk.SubsetTreeKernel(0.4, normalize=True)
    similarities = kernel(asked, trees)
    first = kernel.index(trees[:N_TREES])
    first.build()
    held = [first]
    findings: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    taken: dict[bool, list[float]] = {False: [], True: []}
    start = time.monotonic()
    half, end = start + seconds / 2, start + seconds

    def is_right(
        tree: int, found: tk.neighbors.Neighbors, least: int, most: int
    ) -> bool:
        for n in range(least, most + 1):
            nearest = np.sort(similarities[tree, :n])[::-1][:K]
            if np.abs(found.values[0] - nearest).max() < 1e-12:
                values = similarities[tree, found.indices[0]]
                return bool(np.abs(values - nearest).max() < 1e-12)
        return False

    def ask(thread: int) -> None:
        rng = np.random.default_rng(thread)
        while (began := time.monotonic()) < end:
            tree = int(rng.integers(N_ASKED))
            try:
                index = held[0]
                least = len(index)
                found = index.top_k(asked[tree : tree + 1], k=K, n_jobs=1)
                took, most = time.monotonic() - began, len(index)
                if not is_right(tree, found, least, most):
                    findings["an answer of no state of the index"] += 1
            except BaseException as error:
                findings[f"ask: {type(error).__name__}: {error}"] += 1
                return
            # What was begun before additions and ended beside them is neither.
            if began >= half or began + took < half:
                taken[began >= half].append(took)

    def add() -> None:
        rng = np.random.default_rng(N_THREADS)
        time.sleep(max(0, half - time.monotonic()))
        while time.monotonic() < end:
            try:
                n = len(held[0])
                if n == len(trees):
                    held[0] = kernel.index(trees[:N_TREES])
                    held[0].build()
                else:
                    held[0].add(trees[n : n + int(rng.integers(1, 8))])
            except BaseException as error:
                findings[f"add: {type(error).__name__}: {error}"] += 1
                return
            counts["additions"] += 1
            time.sleep(PAUSE)

    faulthandler.dump_traceback_later(seconds + 60, exit=True)
    threads = [threading.Thread(target=ask, args=(t,)) for t in range(N_THREADS)]
    threads.append(threading.Thread(target=add))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    faulthandler.cancel_dump_traceback_later()
    p99 = {added: float(np.percentile(taken[added], 99)) * 1e3 for added in taken}
    if seconds >= 120 and p99[True] > SLOWER * p99[False]:
        findings["questions wait for additions"] += 1
    for finding, times in sorted(findings.items()):
        print(f"{times} x {finding}")
    print(
        f"serving: {sum(map(len, taken.values()))} questions, {counts['additions']} "
        f"additions, p99 {p99[False]:.1f} ms without them, {p99[True]:.1f} ms beside them"
    )
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1])))
