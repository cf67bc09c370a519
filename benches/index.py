"""An index that lives: what questions and additions take, by real functions.

    python benches/index.py CACHE 100000 500000
    python benches/index.py CACHE 1000000 --statements --asked 5000
    python benches/index.py CACHE 20000 --edit --asked 100

CACHE is that of `functions.py`. One process for each size, one thread, milliseconds of
processor: each question is a function that the index does not have, in a forest of its own.
Compare two versions of the library in one run of each, on one machine: older versions are
asked what they can answer. With --statements, statements are joined at .9 only; with --edit,
functions of 20 to 2,000 nodes are asked for by edit distance, and nothing else.
"""

import argparse
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from functions import functions, statements

import treekernel_rs as tk

KERNEL = tk.SubsetTreeKernel(0.4, normalize=True)
#: Labels that no function has.
STRANGER = "(Q_ (R_ s_))"


def seconds(call) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def shown(name: str, each: list[float]) -> None:
    p50, p99 = np.percentile(each, [50, 99]) * 1e3
    print(f"  {name}: p50 {p50:.2f} ms, p99 {p99:.1f} ms", flush=True)


def run(cache: Path, n: int, n_asked: int, n_added: int) -> None:
    drawn = functions(cache, n + n_asked + n_added)
    known, added = drawn[:n], drawn[n + n_asked :]
    # Read anew: a forest that is cut out of another shares its store.
    texts = drawn[n : n + n_asked].to_brackets()
    asked = [tk.Forest.from_brackets([text]) for text in texts]
    batch, stranger = tk.Forest.concat(asked), tk.Forest.from_brackets([STRANGER])
    index = KERNEL.index(known)
    build = seconds(lambda: index.build(n_jobs=1))
    print(f"{n} functions: built in {build:.2f} s, {index.nbytes >> 20} MB")

    def times(forests, **options) -> list[float]:
        def one(forest):
            return seconds(lambda: index.top_k(forest, k=10, n_jobs=1, **options))

        one(forests[0])
        return [one(forest) for forest in forests]

    shown("nothing in common", times([stranger] * n_asked))
    shown("one query", times(asked))
    each = seconds(lambda: index.top_k(batch, k=10, n_jobs=1)) / n_asked
    print(f"  of a batch of {n_asked}: {each * 1e3:.2f} ms each")
    direct = seconds(lambda: KERNEL.join(batch, known, min_similarity=0.8, n_jobs=1))
    print(f"  kernel.join of the batch at .8: {direct:.2f} s")
    first = seconds(lambda: index.join(batch, min_similarity=0.8, n_jobs=1))
    again = seconds(lambda: index.join(batch, min_similarity=0.8, n_jobs=1))
    print(f"  index.join of the batch at .8: {first:.2f} s, again {again:.2f} s")
    if hasattr(index, "compact"):
        shown("min_similarity=0.8", times(asked, min_similarity=0.8))
        shown("exclude_equal", times(asked, exclude_equal=True))
        shown("where, a third", times(asked, where=np.arange(0, n, 3)))
        print(f"  with the bound of .8: {index.nbytes >> 20} MB")

    def add(i: int) -> float:
        def one():
            index.add(added[i : i + 1])
            index.build(n_jobs=1)

        return seconds(one)

    if not hasattr(index, "compact"):
        print(f"  to add one function: {add(0):.2f} s")
        return
    took = [add(i) for i in range(len(added))]
    print(
        f"  {len(added)} functions added one by one: {sum(took):.2f} s, "
        f"{sum(took) / build:.2f} builds; the longest {max(took) * 1e3:.0f} ms, "
        f"half of them {np.median(took) * 1e3:.2f} ms"
    )
    shown("one query, then", times(asked))
    shown("nothing in common, then", times([stranger] * n_asked))


def join_statements(cache: Path, n: int, n_asked: int) -> None:
    drawn = statements(cache, n + n_asked)
    known, asked = drawn[:n], tk.Forest.from_brackets(drawn[n:].to_brackets())
    index = KERNEL.index(known)
    found: list[int] = []

    def count(rows, columns, values):
        found.append(len(rows))

    run = {"min_similarity": 0.9, "n_jobs": 1, "out": count}
    direct = seconds(lambda: KERNEL.join(asked, known, **run))
    first = seconds(lambda: index.join(asked, **run))
    again = seconds(lambda: index.join(asked, **run))
    print(
        f"{n_asked} statements with {n}: {sum(found) // 3} pairs; kernel.join "
        f"{direct:.2f} s, index.join {first:.2f} s with all it builds, then {again:.2f} s"
    )


def ask_edits(cache: Path, n: int, n_asked: int) -> None:
    drawn = functions(cache, 2 * (n + n_asked))
    fits = (drawn.n_nodes >= 20) & (drawn.n_nodes <= 2_000)
    drawn = drawn[np.flatnonzero(fits)[: n + n_asked]]
    known = drawn[:n]
    asked = [tk.Forest.from_brackets([text]) for text in drawn[n:].to_brackets()]
    distance = tk.EditDistance(normalize="max")
    index = distance.index(known)
    build = seconds(lambda: index.build(n_jobs=1))
    print(f"{n} functions, edit distance: {build:.2f} s, {index.nbytes >> 20} MB")
    near = {"max_distance": 0.2, "n_jobs": 1}
    for name, call in [
        ("index.join at .2", lambda one: index.join(one, **near)),
        ("index.top_k, up to .2", lambda one: index.top_k(one, k=10, **near)),
        ("index.top_k", lambda one: index.top_k(one, k=10, n_jobs=1)),
    ]:
        shown(name, [seconds(lambda one=one: call(one)) for one in asked])
    few = asked[:10]
    shown(
        "join of the distance",
        [seconds(lambda one=one: distance.join(one, known, **near)) for one in few],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cache", type=Path)
    parser.add_argument("sizes", type=int, nargs="+")
    parser.add_argument("--asked", type=int, default=300)
    parser.add_argument("--added", type=int, default=10_000)
    parser.add_argument("--statements", action="store_true")
    parser.add_argument("--edit", action="store_true")
    given = parser.parse_args()
    # Statements that are one leaf have no kernel with themselves.
    warnings.filterwarnings("ignore", "the kernel of", RuntimeWarning)
    if given.statements:
        join_statements(given.cache, given.sizes[0], given.asked)
        return
    if given.edit:
        ask_edits(given.cache, given.sizes[0], given.asked)
        return
    if len(given.sizes) == 1:
        run(given.cache, given.sizes[0], given.asked, given.added)
        return
    for n in given.sizes:
        options = ["--asked", str(given.asked), "--added", str(given.added)]
        command = [sys.executable, __file__, str(given.cache), str(n), *options]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
