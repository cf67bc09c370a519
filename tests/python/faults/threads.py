"""Eight threads on shared objects: every value is the one that one thread gets.

Objects that calls change have threads that change them too: no call fails for it. Two more
threads learn and predict with one classifier, without a pause: both must come on.
"""

from __future__ import annotations

import faulthandler
import sys
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

import treekernel_rs as tk

from . import entry_points

if TYPE_CHECKING:
    from collections.abc import Callable

N_THREADS = 8


def steady() -> entry_points.Calls:
    """Make the calls that change nothing, each on objects that all threads share."""
    forest = tk.Forest.from_brackets(entry_points.texts(60))
    others = tk.Forest.from_brackets(entry_points.texts(20, seed=2))
    marked = [t.replace("(A ", "(A:1 ") for t in entry_points.texts(6)]
    pairs = tk.PairForest.from_brackets(marked, marked[::-1])
    y = np.resize([1, -1, -1], len(forest))
    edit = tk.EditDistance(normalize="max")
    made: entry_points.Calls = {
        "to_brackets": forest.to_brackets,
        "select": lambda: forest[::2].to_brackets(),
        "add": lambda: (forest + others).n_distinct,
        "labels": lambda: forest.labels,
        "equal": lambda: forest == tk.Forest.from_brackets(forest.to_brackets()),
        "pairs": lambda: tk.PairKernel()(pairs),
        "edit: join": lambda: np.stack(edit.join(forest, max_distance=0.5)[:3]),
        "edit: top_k": lambda: edit.top_k(others, forest, k=3),
    }
    for name, kernel in entry_points.KERNELS.items():
        kernel = kernel.replace(normalize=True)
        rows = kernel.rows(forest)
        model = tk.DagModel(kernel)
        model.add(forest, y)
        learner = tk.Perceptron(kernel, predict_with="average")
        learner.partial_fit(forest, y)

        def bind(call: Callable[..., object], *given: Any) -> Callable[[], object]:
            return lambda: call(*given)

        made |= {
            f"{name}: k(X, Y)": bind(kernel, others, forest),
            f"{name}: rows": bind(rows.__getitem__, [3, 1, 7]),
            f"{name}: pair": bind(kernel.pair, forest[0], others[1]),
            f"{name}: score": bind(model.decision_function, others),
            f"{name}: contributions": bind(model.contributions, forest[2]),
            f"{name}: learner": bind(learner.decision_function, others),
        }
        if name in entry_points.ENCODED:
            encoder = tk.DistributedTrees(kernel, 256)
            made[f"{name}: encode"] = bind(encoder.encode, others)
    return made


def changing() -> entry_points.Calls:
    """Make the calls that change shared objects, or read them meanwhile."""
    forest = tk.Forest.from_brackets(entry_points.texts(30, seed=3))
    made: entry_points.Calls = {}
    for name, kernel in entry_points.KERNELS.items():
        model, learner = tk.DagModel(kernel), tk.Perceptron(kernel, predict_with="vote")

        def score(model: tk.DagModel = model) -> None:
            assert np.isfinite(model.decision_function(forest)).all()

        def add(model: tk.DagModel = model) -> None:
            model.add(forest[:5], [1.0, -1.0, 0.5, -0.5, 1.0])

        def learn(learner: tk.Perceptron = learner) -> None:
            learner.partial_fit(forest[:9], [1, -1, -1, 1, 1, -1, 1, -1, 1])

        def vote(learner: tk.Perceptron = learner) -> None:
            assert np.isfinite(learner.decision_function(forest)).all()

        made |= {f"{name}: add": add, f"{name}: score while added to": score}
        made |= {f"{name}: learn": learn, f"{name}: score while learning": vote}
    return made


def classifying() -> entry_points.Calls:
    """Make the calls of a thread that learns, and of one that predicts meanwhile."""
    forest = tk.Forest.from_brackets(entry_points.texts(60, seed=4))
    y = np.resize(["x", "y", "y"], len(forest))
    classifier = tk.TreePerceptron(entry_points.KERNELS["subset"])
    classifier.partial_fit(forest, y, classes=["x", "y"])
    return {
        "partial_fit": lambda: classifier.partial_fit(forest[:9], y[:9]),
        "predict": lambda: classifier.predict(forest),
    }


def main(seconds: float) -> int:
    calls = steady()
    right = {name: call() for name, call in calls.items()}
    changes = changing()
    findings: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    end = time.monotonic() + seconds

    def work(thread: int) -> None:
        rng = np.random.default_rng(thread)
        names, changing_names = list(calls), list(changes)
        while time.monotonic() < end:
            name = names[rng.integers(len(names))]
            try:
                if rng.integers(4) == 0:
                    name = changing_names[rng.integers(len(changing_names))]
                    changes[name]()
                elif not np.array_equal(calls[name](), right[name]):
                    findings[f"{name}: another value than alone"] += 1
                counts["done"] += 1
            except BaseException as error:
                findings[f"{name}: {type(error).__name__}: {error}"] += 1

    def keep(kind: str, call: Callable[[], object]) -> None:
        # Once at least, however busy the machine is.
        while time.monotonic() < end or counts[kind] == 0:
            try:
                call()
            except BaseException as error:
                findings[f"{kind}: {type(error).__name__}: {error}"] += 1
                return
            counts[kind] += 1

    sys.setswitchinterval(1e-5)
    faulthandler.dump_traceback_later(seconds + 60, exit=True)
    threads = [threading.Thread(target=work, args=(t,)) for t in range(N_THREADS)]
    loops = classifying()
    threads += [threading.Thread(target=keep, args=loop) for loop in loops.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    faulthandler.cancel_dump_traceback_later()
    for name, change in changes.items():
        try:
            change()  # nobody uses it now
        except RuntimeError as error:
            findings[f"{name}, when all threads have ended: {error}"] += 1
    for finding, times in sorted(findings.items()):
        print(f"{times} x {finding}")
    print(f"threads: {N_THREADS} of them, {dict(counts)}")
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1])))
