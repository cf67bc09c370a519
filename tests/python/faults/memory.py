"""Every entry point while memory runs out: a result or an error, never the end.

A template process makes the objects. Each trial is a fork of
it that limits its address space (RLIMIT_AS), leaves itself a little memory, calls one
entry point, lifts the limit, and calls it again: that must work then, whatever happened.
"""

from __future__ import annotations

import ctypes
import os
import random
import resource
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import treekernel_rs as tk

from . import entry_points

if TYPE_CHECKING:
    from collections.abc import Callable

REFUSED = (MemoryError, ValueError, OverflowError, TypeError)
MB = 1 << 20
BLOCK = 1 << 14
# What is left to a call, and up to a third more. What it takes for messages, threads and
# other things of a fixed size is not asked for: the least must be there.
LEFT = (4 * MB, 8 * MB, 64 * MB, 250 * MB, 900 * MB)
# Of the calls that take most, one in so many of all; and what is left to them.
LARGE_EVERY = 20
LARGE = (250 * MB, 900 * MB)


class _Csr:
    """A sparse matrix of one row and very many columns, as scipy's looks."""

    format = "csr"

    def __init__(self, n_columns: int) -> None:
        self.shape = (1, n_columns)
        self.indptr, self.indices = np.array([0, 1]), np.array([0])
        self.data = np.array([1.0])


class _Liar(list[str]):
    """A list that says that it is very long."""

    def __len__(self) -> int:
        return 1 << 40


def sizes_from_the_caller() -> entry_points.Calls:
    """Make the calls whose arguments say how much memory is wanted: far too much."""
    kernel = tk.SubsetTreeKernel(0.4)
    forest = tk.Forest.from_brackets(["(A a)", "(B b)"])
    mixed = tk.Perceptron(kernel, vectors=tk.kernels.VectorPolynomial(), mix=0.5)
    mixed.partial_fit(forest, [1, -1], np.eye(2))
    stored = mixed.to_arrays()

    def tampered(name: str, value: int) -> object:
        counts = {**stored, name: np.full_like(stored[name], value)}
        return tk.Perceptron.from_arrays(**counts)

    fresh = lambda: tk.Perceptron(  # noqa: E731
        kernel, vectors=tk.kernels.VectorPolynomial(), mix=0.5
    )
    large = tk.DistributedTrees(kernel, 1 << 24)  # 128 MB a vector
    return {
        "DagModel(k, 10**12)": lambda: tk.DagModel(kernel, 10**12),
        "DagModel(k, 2**61)": lambda: tk.DagModel(kernel, 2**61),
        "Perceptron(n_outputs=10**12)": lambda: tk.Perceptron(kernel, n_outputs=10**12),
        "learn with 2**31 - 1 columns": lambda: fresh().partial_fit(
            ["(A a)"], [1], _Csr(2**31 - 1)
        ),
        "learn with 2**62 columns": lambda: fresh().partial_fit(
            ["(A a)"], [1], _Csr(2**62)
        ),
        **{
            f"a perceptron's {name} of 2**40": lambda name=name: tampered(name, 1 << 40)
            for name, values in stored.items()
            if values.dtype.kind in "iu" and values.ndim == 1
        },
        "a list that says it has 2**40 items": lambda: tk.Forest.from_brackets(
            _Liar(["(A a)"])
        ),
        "trees that say they are 2**40": lambda: tk.Forest.from_trees(_Liar(["(A a)"])),
        "pairs that say they are 2**40": lambda: tk.PairForest.from_brackets(
            _Liar(["(A a)"]), _Liar(["(A a)"])
        ),
        "encode at 2**24": lambda: large.encode(forest),
        "fragment at 2**24": lambda: large.fragment("(A a)"),
        "label_vector at 2**24": lambda: large.label_vector("a"),
        "a matrix of 10**6 squared": lambda: kernel(forest[np.zeros(10**6, int)]),
        "rows of 10**6 squared": lambda: kernel.rows(forest[np.zeros(10**6, int)])[:],
        "top_fragments(2**60)": lambda: tk.DagModel(kernel).top_fragments(2**60),
    }


def large_calls() -> entry_points.Calls:
    """Make the calls that take hundreds of megabytes, or would without a bound."""
    rng = random.Random(2)
    words = lambda: " ".join(f"w{rng.randrange(10**4)}" for _ in range(31))  # noqa: E731
    wide = tk.Forest.from_brackets([f"(S {words()})" for _ in range(20_000)])
    equal = tk.Forest.from_brackets(["(S (A a) (B b))"] * 4_000)
    normalized = tk.SubsetTreeKernel(0.4, normalize=True)
    calls: entry_points.Calls = {
        "a join of equal trees, block by block": lambda: normalized.join(
            equal, out=lambda *arrays: None
        ),
        "the pairs of equal trees": lambda: normalized.join(equal).rows,
        "top_k of equal trees": lambda: normalized.top_k(equal, k=5),
    }
    for kernel in (tk.PartialTreeKernel(), tk.ElasticTreeKernel()):
        name = type(kernel).__name__
        calls |= {
            f"{name}, rows of wide trees": lambda k=kernel: k(wide[:4], wide),
            f"{name}, an index of wide trees": lambda k=kernel: k.index(wide).gram(
                wide[:4]
            ),
            f"{name}, a model of wide trees": lambda k=kernel: tk.DagModel(k).add(
                wide, np.ones(len(wide))
            ),
        }
    return calls


def trial(call: Callable[[], object], headroom: int, *, is_possible: bool) -> str:
    """Run a call in a fork with so much memory left; what came of it."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        # A minute of work, and more by the clock where others work too.
        resource.setrlimit(resource.RLIMIT_CPU, (60, 70))
        signal.alarm(300)
        os.write(writer, child(call, headroom, is_possible).encode()[:4000])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read().decode()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status < 0:
        return f"the process ended by {signal.Signals(-status).name}"
    return said or f"the process ended with status {status}"


def child(call: Callable[[], object], headroom: int, is_possible: bool) -> str:
    """In the fork: the call with the limit; if it can be done, again without."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    leave(headroom, hard)
    outcome = "done"
    try:
        call()
    except REFUSED as error:
        outcome = "refused" if str(error) or type(error) is MemoryError else "no words"
    except BaseException as error:
        outcome = f"{type(error).__name__}: {error}"
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    if is_possible:
        try:
            call()
        except BaseException as error:
            outcome += f", then without a limit {type(error).__name__}: {error}"
    return outcome


def leave(headroom: int, hard: int) -> None:
    """Limit the address space, and take all memory but so much of what is there.

    What was freed before is the allocator's to give again, whatever the limit: so all
    of it is taken, in blocks, and some of these are given back.
    """
    libc = ctypes.CDLL(None)
    libc.malloc.argtypes, libc.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
    libc.free.argtypes = [ctypes.c_void_p]
    # Its room is there before memory is not.
    blocks = (ctypes.c_void_p * (4 * headroom // BLOCK + (1 << 16)))()
    virtual = int(Path("/proc/self/statm").read_text().split()[0])
    limit = virtual * resource.getpagesize() + headroom
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    count = 0
    for size in (BLOCK, BLOCK >> 4, BLOCK >> 8):
        while block := libc.malloc(size):
            if size == BLOCK:
                blocks[count] = block
                count += 1
    for at in range(min(count, headroom // BLOCK)):
        libc.free(blocks[at])


def main(seconds: float) -> int:
    os.environ["RUST_BACKTRACE"] = "0"  # it takes memory, and half a second
    end = time.monotonic() + seconds
    findings: Counter[str] = Counter()
    counts: Counter[str] = Counter()

    def record(name: str, said: str, headroom: int) -> None:
        counts[said if said in ("done", "refused") else "found"] += 1
        if said not in ("done", "refused"):
            findings[f"{name} with {headroom / MB:.2f} MB left: {said}"] += 1

    for name, call in sizes_from_the_caller().items():
        record(name, trial(call, 32 * MB, is_possible=False), 32 * MB)
    # What is imported late is imported now.
    for call in entry_points.calls(10).values():
        call()
    calls = entry_points.calls(4000)
    rng = random.Random(1)
    large = large_calls()
    all_calls = calls | large
    turns = [(name, left) for name in calls for left in LEFT]
    while time.monotonic() < end:
        rng.shuffle(turns)
        for at, (name, left) in enumerate(turns):
            tried = [(name, int(left * rng.uniform(1, 4 / 3)))]
            if at % LARGE_EVERY == 0:
                tried.append((rng.choice(list(large)), rng.randint(*LARGE)))
            for of, headroom in tried:
                record(of, trial(all_calls[of], headroom, is_possible=True), headroom)
            if time.monotonic() > end:
                break
    for finding, times in sorted(findings.items()):
        print(f"{times} x {finding}")
    print(
        f"memory: {counts.total()} calls of {len(all_calls)} entry points, "
        f"{dict(counts)}"
    )
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1])))
