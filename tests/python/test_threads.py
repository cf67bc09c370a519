"""Threads that share objects; in Python without the interpreter lock they run at once.

`faults/threads.py` runs everything in threads for longer.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

import treekernel_rs as tk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

N_THREADS = 8
FREE = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def together(work: Callable[[int], Any]) -> list[Any]:
    with ThreadPoolExecutor(N_THREADS) as pool:
        return list(pool.map(work, range(N_THREADS)))


@pytest.mark.skipif(not FREE, reason="a Python with the interpreter lock")
def test_the_import_leaves_the_interpreter_lock_off() -> None:
    code = "import sys, treekernel_rs; print(sys._is_gil_enabled())"
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr


def test_threads_that_share_an_iterator_get_each_tree_once() -> None:
    forest = tk.Forest.from_brackets([f"(A t{i})" for i in range(20_000)])
    shared = iter(forest)
    got = together(lambda _: [str(tree) for tree in shared])
    counts = Counter(text for texts in got for text in texts)
    assert counts == Counter(forest.to_brackets())


def test_threads_that_share_an_iterator_get_each_pair_once() -> None:
    texts = [f"(A t{i})" for i in range(2_000)]
    shared = iter(tk.PairForest.from_brackets(texts, texts))
    got = together(lambda _: [pair.left for pair in shared])
    assert Counter(text for texts in got for text in texts) == Counter(texts)


def test_an_index_has_the_trees_of_all_threads_that_add_to_it() -> None:
    """Its `forest`, too, whichever call is the last to return."""
    index = tk.SubsetTreeKernel(0.4, normalize=True).index(["(S s)"])

    def add(thread: int) -> None:
        for i in range(50):
            seen = len(index)
            index.add([f"(A t{thread}x{i})"])
            assert len(index) > seen

    together(add)
    assert len(index) == 1 + 50 * N_THREADS
    assert len(set(index.forest.to_brackets())) == len(index)
    found = index.top_k(index.forest, k=1)
    assert found.indices.ravel().tolist() == list(range(len(index)))


# --- calls that read, and calls that change -------------------------------------------

SST = tk.SubsetTreeKernel(0.4)
TREES = tk.Forest([f"(S (A a{i % 7}) (B b{i % 5}) (C c{i % 11}))" for i in range(400)])
SIGNS = np.where(np.arange(len(TREES)) % 3, 1.0, -1.0)
FEW = TREES[:11]


def learner(n: int = 40) -> tk.Perceptron:
    learned = tk.Perceptron(SST, "average")
    learned.partial_fit(TREES[:n], SIGNS[:n])
    return learned


class Inside:
    """A progress callable that holds its call until it is let go."""

    def __init__(self) -> None:
        self.is_inside, self.may_go = threading.Event(), threading.Event()

    def __call__(self, done: int, total: int) -> None:
        self.is_inside.set()
        self.may_go.wait(100)


@contextlib.contextmanager
def held(call: Callable[..., Any], *given: Any) -> Iterator[Inside]:
    """Have another thread stand inside a call; it must end without an error."""
    inside, failures = Inside(), []

    def run() -> None:
        try:
            call(*given, progress=inside)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert inside.is_inside.wait(60)
        yield inside
    finally:
        inside.may_go.set()
        thread.join()
    assert failures == []


#: Long enough for its progress callable to be called.
LONG = TREES[np.arange(200_000) % len(TREES)]
LONG_SIGNS = np.resize(SIGNS, len(LONG))


def test_a_thread_that_predicts_and_one_that_learns_both_go_on() -> None:
    """Without a failure; a prediction is that of what was there between two calls."""
    classifier, alone = (tk.TreePerceptron(SST) for _ in range(2))

    def scores(of: tk.TreePerceptron) -> tuple[float, ...]:
        # Last bits depend on when a model is asked for scores.
        return tuple(np.round(of.decision_function(FEW), 6).tolist())

    parts = [slice(at, at + 20) for at in range(0, len(TREES), 20)]
    versions = set()
    for part in parts:
        alone.partial_fit(TREES[part], SIGNS[part], classes=[-1, 1])
        versions.add(scores(alone))
    classifier.partial_fit(TREES[parts[0]], SIGNS[parts[0]], classes=[-1, 1])
    stop, counts = threading.Event(), [0] * 3

    def predict(thread: int) -> None:
        while not stop.is_set():
            assert scores(classifier) in versions
            counts[thread] += 1

    with ThreadPoolExecutor(len(counts)) as pool:
        predicting = [pool.submit(predict, thread) for thread in range(len(counts))]
        try:
            for part in parts[1:]:
                before = list(counts)
                classifier.partial_fit(TREES[part], SIGNS[part])
                while counts == before and not any(p.done() for p in predicting):
                    time.sleep(0.001)
        finally:
            stop.set()
        for done in predicting:
            done.result()
    assert scores(classifier) == scores(alone)


def test_a_change_does_not_wait_long_for_a_call_that_reads() -> None:
    """It goes on with a copy: the call that reads has what was there."""
    learned = learner()
    right, got = learned.decision_function(LONG, n_jobs=1), []

    def score(progress: Any) -> None:
        got.append(learned.decision_function(LONG, n_jobs=1, progress=progress))

    with held(score):
        learned.partial_fit(TREES, SIGNS)
        assert learned.n_examples == 40 + len(TREES)
        assert got == []
    np.testing.assert_array_equal(got[0], right)


def test_a_call_that_reads_does_not_wait_for_the_end_of_a_long_one_that_learns() -> (
    None
):
    learned, alone = learner(), learner()
    stop = threading.Event()

    def slow(done: int, total: int) -> None:
        if not stop.is_set():
            time.sleep(0.2)

    with ThreadPoolExecutor(1) as pool:
        learning = pool.submit(learned.partial_fit, LONG, LONG_SIGNS, progress=slow)
        try:
            seen, give_up = 40, time.monotonic() + 60
            while seen == 40 and time.monotonic() < give_up:
                seen = learned.n_examples
            assert 40 < seen < 40 + len(LONG)
            assert not learning.done()
        finally:
            stop.set()
        alone.partial_fit(LONG, LONG_SIGNS)
        assert learning.result() is learned
        assert learned.n_mistakes == alone.n_mistakes
    np.testing.assert_array_equal(
        learned.decision_function(FEW), alone.decision_function(FEW)
    )


def test_calls_that_change_wait_for_each_other() -> None:
    learned, model = learner(), tk.DagModel(SST)

    def change(thread: int) -> None:
        for _ in range(20):
            learned.partial_fit(FEW, SIGNS[:11])
            model.add(FEW, SIGNS[:11])

    together(change)
    assert learned.n_examples == 40 + N_THREADS * 20 * len(FEW)
    alone = tk.DagModel(SST)
    for _ in range(N_THREADS * 20):
        alone.add(FEW, SIGNS[:11])
    np.testing.assert_array_equal(
        model.decision_function(FEW), alone.decision_function(FEW)
    )


def test_models_that_merge_into_each_other_do_not_wait_forever() -> None:
    models = [tk.DagModel(SST), tk.DagModel(SST)]
    for model in models:
        model.add(FEW, SIGNS[:11])

    def merge(thread: int) -> None:
        for _ in range(3):
            models[thread % 2].merge(models[1 - thread % 2], 1e-9)

    together(merge)
    assert np.isfinite(models[0].decision_function(FEW)).all()


def test_eight_threads_ask_an_index_while_one_adds() -> None:
    """Each answer is that of all trees that some call has added, and nobody waits."""
    index = SST.replace(normalize=True).index(TREES[:40])
    stop = threading.Event()
    lengths = {40 + 10 * i for i in range(31)}

    def ask(thread: int) -> None:
        while not stop.is_set():
            assert index.gram(FEW).shape[1] in lengths
            assert (index.top_k(FEW, k=1).values > 1 - 1e-9).all()

    with ThreadPoolExecutor(N_THREADS) as pool:
        asking = [pool.submit(ask, thread) for thread in range(N_THREADS)]
        try:
            for at in range(40, 340, 10):
                index.add(TREES[at : at + 10])
        finally:
            stop.set()
        for done in asking:
            done.result()
    assert len(index) == 340


def test_a_matrix_has_the_trees_that_were_added_before_it_is_computed() -> None:
    index = SST.index(TREES[:40])

    class Double:
        """A type that is asked for within the call: another thread may come in there."""

        @property
        def dtype(self) -> np.dtype[np.float64]:
            index.add(TREES[40:50])
            return np.dtype(np.float64)

    matrix = index.gram(FEW, dtype=cast("Any", Double()))
    np.testing.assert_array_equal(matrix, SST.gram(FEW, TREES[:50]))


@pytest.mark.parametrize("outer", ["learn", "score"])
@pytest.mark.parametrize("inner", ["learn", "score"])
def test_a_call_from_within_another_one_never_waits(outer: str, inner: str) -> None:
    learned, said = learner(), []
    calls = {
        "learn": lambda: learned.partial_fit(FEW, SIGNS[:11]),
        "score": lambda: learned.decision_function(FEW, n_jobs=1),
    }

    def call(done: int, total: int) -> None:
        start = time.monotonic()
        try:
            calls[inner]()
        except RuntimeError as error:
            said.append(str(error))
        assert time.monotonic() - start < 5

    if outer == "learn":
        learned.partial_fit(LONG, LONG_SIGNS, progress=call)
    else:
        learned.decision_function(LONG, n_jobs=1, progress=call)
    is_read = (outer, inner) == ("score", "score")
    assert all("a call from within another call on it" in text for text in said)
    assert bool(said) != is_read
    calls["learn"]()


def test_a_call_that_reads_may_read_while_a_change_waits_for_it() -> None:
    """The change would wait for both of them."""
    learned = learner()
    changing: list[Future[int]] = []
    with ThreadPoolExecutor(1) as pool:

        def again(done: int, total: int) -> None:
            if not changing:
                changing.append(pool.submit(learned.partial_fit, FEW, SIGNS[:11]))
                time.sleep(0.1)
            start = time.monotonic()
            learned.decision_function(FEW, n_jobs=1)
            assert time.monotonic() - start < 0.9

        learned.decision_function(LONG, n_jobs=1, progress=again)
        changing[0].result()


@pytest.mark.skipif(os.name == "nt", reason="signals")
@pytest.mark.parametrize("waiting", ["learn", "score"])
def test_ctrl_c_ends_waiting(waiting: str) -> None:
    learned = learner()
    calls = {
        "learn": lambda: learned.partial_fit(FEW, SIGNS[:11]),
        "score": lambda: learned.decision_function(FEW),
    }
    with held(learned.partial_fit, LONG, LONG_SIGNS):
        start = time.monotonic()
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            calls[waiting]()
        assert time.monotonic() - start < 5
    assert learned.n_examples == 40 + len(LONG)
    learned.decision_function(FEW)


@pytest.mark.slow
def test_nobody_waits_for_longer_than_a_minute() -> None:
    """Also two calls whose callables wait for each other, and then the error says why."""
    learned = learner()
    with held(learned.partial_fit, LONG, LONG_SIGNS), ThreadPoolExecutor(2) as pool:
        start = time.monotonic()
        waiting = [
            pool.submit(learned.partial_fit, FEW, SIGNS[:11]),
            pool.submit(learned.decision_function, FEW),
        ]
        for call in waiting:
            with pytest.raises(RuntimeError, match="waited for 60 s for other calls"):
                call.result()
        assert 59 < time.monotonic() - start < 90
    learned.partial_fit(FEW, SIGNS[:11])
