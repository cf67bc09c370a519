"""Ctrl-C at random moments of calls that take long: each ends within a second.

Every call is one that takes seconds or minutes on a tree or a corpus chosen to be bad
for it: chains, stars, a corpus of many labels, few labels. It runs in a fork of a
process that has made all of them. After it has begun, SIGINT is sent, and the time is
taken until the call has raised KeyboardInterrupt; then the library must still work. The
time is that of the processor, as a busy machine may let a process wait for seconds; only
calls that were late twice are findings.
"""

from __future__ import annotations

import contextlib
import os
import random
import select
import signal
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
from interrupts import worked

import treekernel_rs as tk

from . import entry_points

if TYPE_CHECKING:
    from collections.abc import Callable

PROMISED = 1.0  # seconds of work from the signal to the exception
PATIENCE = 4.0  # after which the child is ended,
ASLEEP = 60.0  # or after so long if it does no work


def star(n: int, n_labels: int, shift: int = 0) -> tk.Forest:
    """Make a tree of one node with `n` children."""
    labels = np.arange(shift, shift + n + 1) * 7919 % n_labels
    parents = np.zeros(n + 1, int)
    parents[0] = -1
    names = [f"w{i}" for i in range(n_labels)]
    return tk.Forest.from_arrays(labels, parents, [0], names)


def chain(n: int, n_labels: int, shift: int = 0) -> tk.Forest:
    """Make a tree of `n` nodes, each the only child of the one before."""
    labels = np.arange(shift, shift + n) // 3 % n_labels
    names = [f"c{i}" for i in range(n_labels)]
    return tk.Forest.from_arrays(labels, np.arange(-1, n - 1), [0], names)


def endless() -> Any:
    while True:
        yield "a"


def long_calls() -> entry_points.Calls:
    """Make the calls; none of them may end before it is interrupted, but some do."""
    corpus = tk.Forest.from_brackets(entry_points.texts(4000, n_nodes=60))
    bushes = tk.Forest.from_brackets(
        [f"(S {' '.join('abc'[i * k % 3] for i in range(90))})" for k in range(400)]
    )
    weights, y = np.resize([1.0, -0.5], 4000), np.resize([1, -1], 4000)
    chains = [chain(50_000, 2, shift) for shift in (0, 1)]
    stars = [star(30_000, 3, shift) for shift in (0, 1)]
    wide = np.zeros(20_000_001, np.int64)
    wide_parents = wide.copy()
    wide_parents[0] = -1
    text = "(S " + "(A a) " * 8_000_000 + ")"
    fragment = star(1_000_000, 500_000)
    long = [chain(3_000_000, 1000, shift) for shift in (0, 1)]
    alike = tk.PartialTreeKernel(
        similarity=tk.kernels.TableSimilarity({("w0", "w1"): 0.5})
    )
    subset = entry_points.KERNELS["subset"]
    composed = (
        tk.kernels.Gaussian(subset.normalized()) * entry_points.KERNELS["partial"]
    )
    edit = tk.EditDistance(normalize="max")

    def bind(call: Callable[..., object], *given: Any) -> Callable[[], object]:
        return lambda: call(*given)

    made: entry_points.Calls = {
        "from_brackets of one tree of 48 MB": bind(tk.Forest.from_brackets, [text]),
        "from_arrays of 20 M nodes": bind(
            tk.Forest.from_arrays, wide, wide_parents, [0], ["a"]
        ),
        "from_trees with endless children": lambda: tk.Forest.from_trees(
            [("S", endless())]
        ),
        "fragment of 10**6 nodes": lambda: tk.DistributedTrees(
            entry_points.KERNELS["subset"], 256
        ).fragment(fragment[0]),
        "long chains put together": lambda: [long[0] + long[1] for _ in range(3)],
        "subset: pair of long chains": bind(subset.pair, long[0][0], long[1][0]),
        "sort, prune and save long chains": lambda: [
            *(forest.sorted() for forest in long),
            *(forest.prune(["c1"], keep_children=True) for forest in long),
        ],
        "similar: pair of stars": bind(alike.pair, stars[0][0], stars[1][0]),
        "similar: k(X) of a corpus": bind(alike, corpus),
        "composed: k(X) of a corpus": bind(composed, corpus),
        "composed: top_k of a corpus": bind(composed.top_k, corpus),
        "edit: d(X) of a corpus": bind(edit, corpus),
        "edit: join of a corpus": lambda: edit.join(corpus, max_distance=0.6),
        "edit: top_k of a corpus": bind(edit.top_k, corpus),
        # 24 bytes for each pair of nodes: of larger stars the system frees for seconds.
        "edit: pair of stars": bind(
            edit.pair, *(star(10_000, 3, i)[0] for i in (0, 1))
        ),
        "encode a corpus": lambda: tk.DistributedTrees(
            entry_points.KERNELS["partial"], 4096
        ).encode(corpus),
    }
    for name, kernel in entry_points.KERNELS.items():
        normalized = kernel.replace(normalize=True)

        def added(kernel: Any, forest: tk.Forest, alphas: Any) -> tk.DagModel:
            model = tk.DagModel(kernel)
            model.add(forest, alphas)
            return model

        def learn(kernel: Any, forest: tk.Forest) -> None:
            learner = tk.Perceptron(kernel, predict_with="average")
            for _ in range(20):
                learner.partial_fit(forest, y[: len(forest)])

        def asked(kernel: Any, forest: tk.Forest) -> None:
            index = kernel.index(forest)
            index.add(forest[:9])
            index.top_k(forest)
            index.join()

        def trained(kernel: Any, forest: tk.Forest, y: Any) -> None:
            tk.solve.KernelMachine(kernel, forest, y).run()

        for shape, pair in (("chains", chains), ("stars", stars)):
            trees = pair[0] + pair[1]
            made |= {
                f"{name}: pair of {shape}": bind(kernel.pair, pair[0][0], pair[1][0]),
                f"{name}: diag of {shape}": bind(kernel.diag, trees),
                f"{name}: k(X) of {shape}": bind(normalized, trees),
                f"{name}: normalised add of {shape}": bind(
                    added, normalized, trees, [1.0, -1.0]
                ),
                f"{name}: learn {shape}": bind(learn, kernel, trees),
                f"{name}: score {shape}": lambda kernel=kernel, trees=trees: added(
                    kernel, trees[:1], [1.0]
                ).decision_function(trees),
                f"{name}: contributions of {shape}": lambda k=kernel, trees=trees: (
                    added(k, trees[:1], [1.0]).contributions(trees[1])
                ),
                f"{name}: rows[i] of {shape}": lambda kernel=kernel, trees=trees: (
                    kernel.rows(trees)[1]
                ),
            }
        made |= {
            f"{name}: k(X) of a corpus": bind(normalized, corpus),
            f"{name}: k(X) of bushes": bind(kernel, bushes),
            f"{name}: diag of bushes": bind(kernel.diag, bushes),
            f"{name}: add a corpus": bind(added, normalized, corpus, weights),
            f"{name}: learn a corpus": bind(learn, kernel, corpus),
            f"{name}: learn bushes": bind(learn, kernel, bushes),
            f"{name}: join a corpus": bind(normalized.join, corpus),
            f"{name}: top_k of a corpus": bind(normalized.top_k, corpus),
            f"{name}: index of a corpus": bind(asked, normalized, corpus),
            f"{name}: machine of a corpus": bind(trained, normalized, corpus, y),
            f"{name}: gradient of bushes": bind(
                lambda kernel: kernel.gram(bushes, gradient=True), kernel
            ),
        }
        if name != "elastic":
            vectorizer = tk.TreeVectorizer(kernel, max_size=6)
            made[f"{name}: vectorize a corpus"] = bind(vectorizer.fit_transform, corpus)
    limited = tk.PartialTreeKernel(max_children=50)
    made["partial, max_children: score stars"] = lambda: (
        lambda model: (model.add(stars[0], [1.0]), model.decision_function(stars[1]))
    )(tk.DagModel(limited))
    return made


def interrupted(call: Callable[[], object], delay: float) -> tuple[str, float]:
    """Run a call in a fork and interrupt it: what came of it, and after how long."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        # The background of a shell is deaf to it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        said = "interrupted"
        try:
            os.write(writer, b".")
            call()
            said = "ended"
        except KeyboardInterrupt:
            pass
        except OverflowError:
            said = "ended"  # what some of these trees end in, if nobody interrupts
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        # The signal may come just now.
        with contextlib.suppress(KeyboardInterrupt):
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.write(writer, said.encode()[:500])
        if tk.SubsetTreeKernel(1.0).pair("(a b)", "(a b)") != 1.0:
            os.write(writer, b", and the library no longer works")
        os._exit(0)
    os.close(writer)
    os.read(reader, 1)
    time.sleep(delay)
    sent, before, took = time.monotonic(), worked(pid), 0.0
    os.kill(pid, signal.SIGINT)
    ready: list[int] = []
    while not ready and took < PATIENCE:
        ready = select.select([reader], [], [], 0.05)[0]
        slept = time.monotonic() - sent
        took = slept if slept > ASLEEP else min(slept, worked(pid) - before)
    said = (os.read(reader, 1000).decode() or "ended") if ready else "deaf"
    if not ready:
        os.kill(pid, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(reader)
    if status < 0 and ready:
        said = f"the process ended by {signal.Signals(-status).name}"
    return said, took


def main(seconds: float) -> int:
    end = time.monotonic() + seconds
    calls = long_calls()
    rng = random.Random(time.time_ns())
    names: list[str] = []
    late: Counter[str] = Counter()
    findings: dict[str, str] = {}
    counts: Counter[str] = Counter()
    worst = (0.0, "")
    while time.monotonic() < end:
        # All in a random order, and at once again those that were late.
        if not names:
            names = list(calls)
            rng.shuffle(names)
        name = names.pop()
        if name in findings:
            continue
        said, took = interrupted(calls[name], rng.choice([0.05, 0.2, 0.5]))
        counts[said if said in ("interrupted", "ended") else "other"] += 1
        if said in ("interrupted", "ended"):
            worst = max(worst, (took, name))
        if said not in ("interrupted", "ended", "deaf"):
            findings[name] = said
        elif took > PROMISED:
            late[name] += 1
            names.append(name)
            if late[name] == 2:
                findings[name] = f"{said} {took:.1f} s after the signal, twice late"
    for name, said in sorted(findings.items()):
        print(f"{name}: {said}")
    print(
        f"signals: {counts.total()} to {len(calls)} calls, {dict(counts)}; the slowest "
        f"to end: {worst[0]:.2f} s, {worst[1]}"
    )
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1])))
