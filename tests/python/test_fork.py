"""A fork at any moment leaves the child with objects that work.

Threads of the parent learn, add, score and encode; the main thread forks again and again.
A child has one thread: what the others held must not be held for ever.
"""

import os
import pickle
import random
import signal
import threading
import time

import numpy as np
import pytest

import treekernel_rs as tk

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork"),
    # The point of these tests; Python 3.12 warns of it.
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]

PATIENCE = 20  # seconds that a child gets for what takes milliseconds


def trees(n, seed):
    draw = random.Random(seed)

    def tree(depth):
        label = draw.choice("ABCD")
        if depth == 0:
            return f"({label} w{draw.randrange(400)})"
        children = " ".join(tree(depth - 1) for _ in range(draw.choice([1, 2, 2, 3])))
        return f"({label} {children})"

    return tk.Forest.from_brackets([tree(4) for _ in range(n)])


SST = tk.SubsetTreeKernel(0.4)
FOREST = trees(1_500, 1)
LABELS = np.where(np.arange(len(FOREST)) % 2, 1.0, -1.0)
FEW = FOREST[:20]


def fork_and(ask):
    """Run `ask` in a child: "fine", what it raised, or "hangs"."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(PATIENCE)
            ask()
            os.write(writer, b"fine")
        except BaseException as error:
            os.write(writer, f"{type(error).__name__}: {error}".encode()[:4000])
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read().decode()
    os.waitpid(child, 0)
    return said or "hangs"


def fork_while(work, ask, n=6, seconds=60):
    """Fork while another thread works; return what all children said."""
    stop, said, failures = threading.Event(), [], []

    def keep_working():
        while not stop.is_set():
            try:
                work()
            except Exception as error:
                failures.append(error)
                return

    thread = threading.Thread(target=keep_working)
    thread.start()
    draw, start = random.Random(0), time.monotonic()
    try:
        while len(said) < n and time.monotonic() - start < seconds:
            time.sleep(draw.random() * 0.02)
            said.append(fork_and(ask))
    finally:
        stop.set()
        thread.join()
    assert not failures
    return said


def test_a_child_scores_though_tables_were_being_made():
    model = tk.DagModel(SST)
    model.add(FOREST, LABELS)

    # The first score after a change makes the tables, which takes nearly all its time.
    def work():
        model.add(FEW[:1], [1e-9])
        model.decision_function(FEW[:1], n_jobs=1)

    said = fork_while(work, lambda: model.decision_function(FEW, n_jobs=1))
    assert len(said) >= 5
    assert set(said) == {"fine"}


@pytest.mark.slow
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_a_child_may_change_what_was_being_scored(n_jobs):
    model = tk.DagModel(tk.PartialTreeKernel())
    model.add(FOREST[:300], LABELS[:300])

    def ask():
        model.add(FEW, LABELS[:20])
        model.decision_function(FEW, n_jobs=2)
        model.add(FEW, LABELS[:20])

    said = fork_while(lambda: model.decision_function(FOREST[:400], n_jobs=n_jobs), ask)
    assert len(said) >= 5
    assert set(said) == {"fine"}


@pytest.mark.slow
@pytest.mark.parametrize("vote", ["last", "average", "vote"])
def test_a_child_goes_on_with_what_was_being_learned(vote):
    learner = tk.Perceptron(tk.SubsetTreeKernel(0.4, normalize=True), vote)

    def ask():
        seen = learner.n_examples
        learner.decision_function(FEW)
        learner.partial_fit(FEW, LABELS[:20])
        assert learner.n_examples == seen + 20
        again = pickle.loads(pickle.dumps(learner))
        np.testing.assert_array_equal(
            again.decision_function(FEW), learner.decision_function(FEW)
        )

    said = fork_while(lambda: learner.partial_fit(FOREST, LABELS), ask)
    assert len(said) >= 5
    assert set(said) == {"fine"}


def test_forks_change_nothing_in_the_parent():
    vectors = np.random.default_rng(0).normal(size=(len(FOREST), 3))

    def learned(fork):
        kernel = tk.kernels.VectorPolynomial(2)
        learner = tk.Perceptron(SST, "average", vectors=kernel, mix=0.5)
        model = tk.DagModel(SST)

        def work():
            assert learner.partial_fit(FOREST, LABELS, vectors).n_mistakes
            model.add(FOREST, LABELS * 0.1)

        thread = threading.Thread(target=work)
        thread.start()
        while fork and thread.is_alive():
            fork_and(lambda: None)
        thread.join()
        assert learner.n_examples == model.n_trees == len(FOREST)
        return learner.decision_function(FEW, vectors[:20]), model.decision_function(
            FEW
        )

    for alone, disturbed in zip(learned(fork=False), learned(fork=True), strict=True):
        np.testing.assert_array_equal(alone, disturbed)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*mostly noise")
def test_a_child_encodes_rows_and_kernels_as_its_parent():
    rows = SST.rows(FOREST[:300], n_jobs=2)
    # A convolution plans its FFT when it is first used.
    encoders = iter(
        [
            tk.DistributedTrees(SST, 64, composition="convolution", random_state=s)
            for s in range(100_000)
        ]
    )
    current = [next(encoders)]

    def work():
        current[0] = next(encoders)
        current[0].encode(FEW, n_jobs=1)
        rows[[1, 2, 3]]
        SST.gram(FEW, n_jobs=2)

    def ask():
        current[0].encode(FEW, n_jobs=2)
        rows[[4, 5]]
        SST.gram(FEW, n_jobs=2)

    said = fork_while(work, ask)
    assert len(said) >= 5
    assert set(said) == {"fine"}


def test_a_progress_callable_may_fork():
    learner, said = tk.Perceptron(SST), []

    def fork(done, total):
        if not said:
            said.append(fork_and(lambda: learner.decision_function(FEW)))

    learner.partial_fit(FOREST, LABELS, progress=fork)
    # The child stands inside the call that learns, as its parent does.
    assert "a call from within another call on it" in said[0]
    assert learner.n_examples == len(FOREST)


def test_what_waited_when_the_process_was_forked_is_not_waited_for():
    """Neither a thread that reads, nor one that waits for it to change the object."""
    learner, inside, go = tk.Perceptron(SST), threading.Event(), threading.Event()
    learner.partial_fit(FOREST, LABELS)

    def hold(done, total):
        inside.set()
        go.wait(60)

    threads = [
        threading.Thread(target=call, args=given, kwargs=options)
        for call, given, options in [
            (learner.decision_function, (FOREST,), {"n_jobs": 1, "progress": hold}),
            (learner.partial_fit, (FEW, LABELS[:20]), {}),
        ]
    ]
    threads[0].start()
    assert inside.wait(60)
    threads[1].start()
    time.sleep(0.1)

    def ask():
        start = time.monotonic()
        learner.partial_fit(FEW, LABELS[:20])
        learner.decision_function(FEW)
        assert learner.n_examples == len(FOREST) + 20
        assert time.monotonic() - start < 0.9

    said = fork_and(ask)
    go.set()
    for thread in threads:
        thread.join()
    assert said == "fine"
    assert learner.n_examples == len(FOREST) + 20


def test_where_one_tree_takes_long_the_child_is_told():
    """A fork does not wait for ever: the object is missing in the child, and says so."""
    star = f"(S {' '.join(['(A a)'] * 6_000)})"
    huge = tk.Forest.from_brackets([star])
    learner = tk.Perceptron(tk.PartialTreeKernel(0.1, 0.1))
    learner.partial_fit(huge, [1])
    thread = threading.Thread(target=learner.partial_fit, args=(huge, [-1]))
    thread.start()
    time.sleep(0.1)
    start = time.monotonic()
    said = (
        fork_and(lambda: learner.decision_function(FEW))
        if thread.is_alive()
        else "fine"
    )
    waited = time.monotonic() - start
    thread.join()
    assert said == "fine" or "this process was forked while another thread" in said
    assert waited < 10
    learner.decision_function(FEW)
