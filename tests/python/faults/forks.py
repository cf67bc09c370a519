"""Forks while other threads are at work: the child is never stuck, and never wrong.

A fork copies one thread. Locks that others held stay locked in the child, and what they
were about to do never happens. So threads change, score and compute here without a pause,
the main thread forks at random moments, and each child uses the very objects that were in
use. A child that does no work for seconds is stuck. What it may be told is that an object
was being changed when the process was forked.
"""

from __future__ import annotations

import os
import random
import select
import signal
import sys
import threading
import time
import warnings
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

import treekernel_rs as tk

from . import entry_points
from .signals import worked

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = 10.0  # seconds, after which a child that does no work
ASLEEP = 5.0  # for so long is stuck: a busy machine may let it wait


class Objects:
    """What threads use, and children after them."""

    def __init__(self) -> None:
        kernel = entry_points.KERNELS["subset"]
        self.kernel = kernel
        self.forest = tk.Forest.from_brackets(entry_points.texts(1500, n_nodes=60))
        self.few = self.forest[:20]
        self.weights = np.resize([1.0, -0.5, 0.25], len(self.forest))
        self.y = np.resize([1, -1, -1], len(self.forest))
        self.changing = tk.DagModel(kernel)
        self.changing.add(self.forest, self.weights)
        self.resting = tk.DagModel(kernel)
        self.resting.add(self.forest, self.weights)
        self.scores = self.resting.decision_function(self.few)
        self.learner = tk.Perceptron(kernel, predict_with="average")
        self.learner.partial_fit(self.forest[:300], self.y[:300])
        self.rows = kernel.rows(self.forest[:300])
        self.row = self.rows[3]
        self.gram = kernel(self.few)

    # --- what threads do ---------------------------------------------------------

    def rebuild(self) -> None:
        """Change a model, so that its next score makes tables."""
        self.changing.add(self.forest[:1], [0.5])
        self.changing.decision_function(self.few, n_jobs=1)

    def learn(self) -> None:
        self.learner.partial_fit(self.forest[300:900], self.y[300:900])

    def ask(self) -> None:
        """Read what others change, for which one of them has to wait."""
        self.changing.decision_function(self.few, n_jobs=1)
        self.learner.decision_function(self.few, n_jobs=1)

    def score(self) -> None:
        self.resting.decision_function(self.forest, n_jobs=2)

    def compute(self) -> None:
        self.kernel.gram(self.forest[:200], n_jobs=2)
        self.rows[3]

    def start(self) -> None:
        """Start threads, as often as can be."""
        self.kernel.gram(self.few, n_jobs=2)

    # --- what a child does -------------------------------------------------------

    def use(self) -> str:
        """Use everything; what went wrong. What was being changed may be missing."""
        wrong = []

        def attempt(
            name: str, call: Callable[[], object], right: object = None
        ) -> None:
            try:
                got = call()
                if right is not None and not np.array_equal(got, right):
                    wrong.append(f"{name}: another value than before")
            except BaseException as error:
                if not (right is None and "forked" in str(error)):
                    wrong.append(f"{name}: {type(error).__name__}: {error}")

        attempt("score", lambda: self.resting.decision_function(self.few), self.scores)
        # Stacks of the parent's threads are used again by those that a child starts.
        for _ in range(5):
            attempt("gram", lambda: self.kernel.gram(self.few, n_jobs=2), self.gram)
        attempt("rows", lambda: self.rows[3], self.row)
        attempt(
            "score what was changed", lambda: self.changing.decision_function(self.few)
        )
        attempt("change", self.rebuild)
        attempt("learner's score", lambda: self.learner.decision_function(self.few))
        attempt("learn", self.learn)
        return "; ".join(wrong)


def one_fork(objects: Objects) -> str:
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python 3.12 warns of what is tested here
        pid = os.fork()
    if pid == 0:
        os.write(writer, objects.use().encode())
        os._exit(0)
    os.close(writer)
    is_stuck, wait, before = False, PATIENCE, -1.0
    while not is_stuck and not select.select([reader], [], [], wait)[0]:
        is_stuck = worked(pid) == before
        wait, before = ASLEEP, worked(pid)
    if is_stuck:
        os.kill(pid, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read().decode()
    if is_stuck:
        return "the child is stuck"
    return said or ("" if status == 0 else f"the child ended with status {status}")


def main(seconds: float) -> int:
    objects, rng = Objects(), random.Random(2)
    stop = threading.Event()
    findings: Counter[str] = Counter()

    def work(call: str) -> None:
        while not stop.is_set():
            try:
                getattr(objects, call)()
            except Exception as error:
                findings[f"in the parent, {call}: {type(error).__name__}: {error}"] += 1
                return

    names = ("rebuild", "learn", "ask", "score", "compute", "start", "start")
    threads = [threading.Thread(target=work, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        time.sleep(rng.uniform(0, 0.03))
        said = one_fork(objects)
        count += 1
        for finding in filter(None, said.split("; ")):
            findings[finding] += 1
    stop.set()
    for thread in threads:
        thread.join()
    for finding, times in sorted(findings.items()):
        print(f"{times} x {finding}")
    print(f"forks: {count} children, {findings.total()} findings")
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1])))
