"""Which learner for how many trees: seconds, memory and F1 on argument boundaries of MASC.

    python benches/learners.py DATA 1000 10000 100000 439974
    python benches/learners.py DATA 439974 --learners perceptron machine --jobs 1 2
    python benches/learners.py DATA 10000000 --learners perceptron columns

DATA has srl/masc_boundary.tsv.gz (docs/DATA.md). The last 50,000 trees of the stream are the
test, the others before them, in their order, the training set; sizes beyond that are a stream
of copies, in each of which a tenth of the words are new, made and forgotten part by part. SST
with decay 0.4, normalised, C = 1. Every learner has a process of its own: seconds are those of
learning, without reading trees; "processor" those of all threads; "peak" is the memory of the
process, with the trees in it.
"""

from __future__ import annotations

import argparse
import gzip
import os
import random
import re
import resource
import time
from itertools import count, islice
from pathlib import Path

import numpy as np

import treekernel_rs as tk

N_TEST = 50_000
PART = 20_000
WORD = re.compile(r" ([^\s()]+)\)")
KERNEL = tk.SubsetTreeKernel(0.4, normalize=True)


def rows(data):
    with gzip.open(data / "srl/masc_boundary.tsv.gz", "rt", encoding="utf-8") as file:
        for line in file:
            row = line.rstrip("\n").split("\t")
            yield row[5], int(row[0])


def parts(pairs, n):
    """Make forests of some trees at a time."""
    pairs = islice(pairs, n)
    while part := list(islice(pairs, PART)):
        texts, y = zip(*part, strict=True)
        yield tk.Forest.from_brackets(list(texts)), np.array(y, float)


def whole(pairs, n):
    found = list(parts(pairs, n))
    return tk.Forest.concat([f for f, _ in found]), np.concatenate([y for _, y in found])


def stream(data, n_train):
    """Repeat the training set without end, with other words from its second time on."""
    chance = random.Random(13)
    for turn in count():

        def word(found, turn=turn):
            return f" {found[1]}-{turn})" if chance.random() < 0.1 else found[0]

        for text, y in islice(rows(data), n_train):
            yield (WORD.sub(word, text) if turn else text), y


def f1(scores, y):
    found, right = scores > 0, y > 0
    return 2 * float((found & right).sum()) / max(1, int(found.sum() + right.sum()))


class Svc:
    """TreeSVC, which chooses its solver."""

    def __init__(self, n_jobs):
        self.own = tk.TreeSVC(KERNEL, random_state=0, n_jobs=n_jobs)

    def learn(self, forest, y):
        self.own.fit(forest, y)

    def score(self, forest):
        return self.own.decision_function(forest)

    def __str__(self):
        trees = len(self.own.support_)
        return f"{trees} support trees, {self.own.model_.n_nodes} subtrees"


class Logistic(Svc):
    """TreeLogisticRegression."""

    def __init__(self, n_jobs):
        self.own = tk.TreeLogisticRegression(KERNEL, random_state=0, n_jobs=n_jobs)


class Machine:
    """KernelMachine: hinge, the intercept a feature, to a violation of 0.1."""

    def __init__(self, n_jobs):
        self.n_jobs = n_jobs

    def learn(self, forest, y):
        self.own = tk.solve.KernelMachine(KERNEL, forest, y, intercept="feature")
        assert self.own.run(tol=0.1, n_jobs=self.n_jobs)
        self.model = self.own.model()

    def score(self, forest):
        return self.model.decision_function(forest, n_jobs=self.n_jobs)

    def __str__(self):
        support = np.count_nonzero(self.own.dual_coef)
        gap = self.own.dual_gap[0] / self.own.objective[0]
        return (
            f"{support} support trees, {self.model.n_nodes} subtrees, "
            f"violation {self.own.violation:.3f}, relative gap {gap:.1e}"
        )


class Perceptron:
    """The averaged perceptron, one pass."""

    def __init__(self, n_jobs):
        self.own, self.n_jobs = tk.Perceptron(KERNEL, "average"), n_jobs

    def learn(self, forest, y):
        self.own.partial_fit(forest, y)

    def score(self, forest):
        return self.own.decision_function(forest, n_jobs=self.n_jobs)

    def __str__(self):
        return f"{self.own.n_mistakes} support trees, {self.own.model.n_nodes} subtrees"


class Columns:
    """Hashed columns of fragments, a linear machine by stochastic gradients, one pass."""

    def __init__(self, n_jobs):
        from sklearn.linear_model import SGDClassifier

        self.hashing = tk.TreeVectorizer(KERNEL, max_size=3, n_features=2**20)
        self.own = SGDClassifier(random_state=0, average=True)

    def learn(self, forest, y):
        for start in range(0, len(forest), PART):
            some = slice(start, start + PART)
            X = self.hashing.transform(forest[some])
            self.own.partial_fit(X, y[some], classes=[-1.0, 1.0])

    def score(self, forest):
        return self.own.decision_function(self.hashing.transform(forest))

    def __str__(self):
        return "2^20 columns"


LEARNERS = {
    "svc": Svc,
    "logistic": Logistic,
    "machine": Machine,
    "perceptron": Perceptron,
    "columns": Columns,
}


def processor():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def run(data, name, n, n_train, n_jobs):
    learner = LEARNERS[name](n_jobs)
    seconds = cpu = 0.0
    pairs = stream(data, n_train) if n > n_train else rows(data)
    given = [whole(pairs, n)] if n <= n_train else parts(pairs, n)
    for forest, y in given:
        start, before = time.perf_counter(), processor()
        learner.learn(forest, y)
        seconds += time.perf_counter() - start
        cpu += processor() - before
    del given
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    right, scores = [], []
    for forest, y in parts(islice(rows(data), n_train, None), N_TEST):
        right.append(y)
        scores.append(learner.score(forest))
    quality = f1(np.concatenate(scores), np.concatenate(right))
    print(
        f"{n:,} trees, {name}, {n_jobs} threads: {seconds:.2f} s, processor {cpu:.2f} s, "
        f"peak {peak:.0f} MB, F1 {quality:.4f}; {learner}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("sizes", type=int, nargs="+")
    parser.add_argument("--learners", nargs="+", choices=LEARNERS, default=[*LEARNERS])
    parser.add_argument("--jobs", type=int, nargs="+", default=[1])
    given = parser.parse_args()
    n_train = sum(1 for _ in rows(given.data)) - N_TEST
    for n in given.sizes:
        for n_jobs in given.jobs:
            for name in given.learners:
                child = os.fork()
                if not child:
                    run(given.data, name, n, n_train, n_jobs)
                    os._exit(0)
                if os.waitpid(child, 0)[1]:
                    raise SystemExit(1)


if __name__ == "__main__":
    main()
