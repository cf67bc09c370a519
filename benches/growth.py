"""How joins grow: real Java functions with seeded mutations, joined at 0.8.

    python benches/growth.py DATA 10000 100000 1000000

DATA has code/java_functions.tsv.gz (docs/DATA.md). One process for each size: seconds, pairs
and peak memory (of all, parsing included). Each round over the functions takes one leaf label
in ten of each function and makes it a new name of its own, so that copies are near, but not
equal.
"""

import argparse
import gzip
import os
import random
import re
import resource
import time
from itertools import islice
from pathlib import Path

import treekernel_rs as tk

LABEL = re.compile(r":([^\s()]+)")


def functions(data: Path) -> list[str]:
    with gzip.open(data / "code/java_functions.tsv.gz", "rt") as file:
        trees = [line.rstrip("\n").split("\t")[1] for line in file]
    # Two have brackets as labels.
    return [tree for tree in trees[1:] if "(:" not in tree and ":(" not in tree]


def mutated(trees: list[str], n: int, seed: int = 13):
    rng = random.Random(seed)
    # Ten copies of each at least.
    order = rng.sample(range(len(trees)), min(len(trees), max(n // 10, 1)))
    for i in range(n):
        text = trees[order[i % len(order)]]
        names = len(LABEL.findall(text))
        chosen = {rng.randrange(names) for _ in range(names // 10)} if names else set()
        at = iter(range(names))
        yield LABEL.sub(
            lambda m, at=at, chosen=chosen, i=i: (
                f":m{i}" if next(at) in chosen else m[0]
            ),
            text,
        )


def run(data: Path, n: int, n_jobs: int) -> None:
    start = time.perf_counter()
    texts = mutated(functions(data), n)
    forest = tk.Forest.from_brackets([])
    while part := list(islice(texts, 50_000)):
        try:
            forest += tk.Forest.from_brackets(part)
        except tk.ParseError:
            good = [text for text in part if is_legal(text)]
            forest += tk.Forest.from_brackets(good)
    read = time.perf_counter() - start
    found = 0

    def count(rows, columns, values) -> None:
        nonlocal found
        found += len(rows)

    before = resource.getrusage(resource.RUSAGE_SELF)
    start = time.perf_counter()
    kernel = tk.SubsetTreeKernel(0.4, normalize=True)
    kernel.join(forest, min_similarity=0.8, n_jobs=n_jobs, out=count)
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(
        f"{len(forest)} trees, {forest.n_distinct} distinct subtrees: read in {read:.0f} s; "
        f"join {seconds:.1f} s ({cpu:.1f} s of processors), {found} pairs, "
        f"peak {after.ru_maxrss / 2**20:.2f} GB",
        flush=True,
    )


def is_legal(text: str) -> bool:
    try:
        return len(tk.Forest.from_brackets([text])) == 1
    except tk.ParseError:
        return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("sizes", type=int, nargs="+")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    for n in given.sizes:
        child = os.fork()
        if not child:
            run(given.data, n, given.jobs)
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
