"""Question classification: exact kernels, distributed trees and a perceptron on TREC.

Trains on 5,452 questions and asks 500 others for their coarse class (abbreviation,
description, entity, human, location, number). The table stands beside what is published
for the same data with SVM-Light-TK, one class against the rest, C = 10.

Everything is tuned by 5-fold cross-validation on the training set: decay, normalisation
and C. Neighbouring decays differ by less than such a search can tell apart, so the setting
is chosen by the rule of one standard error: of all settings within one standard error of
the best, the best of those whose decay is nearest to 0.4, the usual one. "plain best" is
the test accuracy that the best setting would have had.

    python examples/question_classification.py
    python examples/question_classification.py --train train.dat --test test.dat

Without files it reads shared/data/qc beside a folder above. Files are tables separated by
tabs, as they are there (class first, the tree in the first column that starts with a
bracket), or SVM-Light-TK's. Needs the extra sklearn.
"""

from __future__ import annotations

import argparse
import gzip
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import treekernel_rs as tk

if TYPE_CHECKING:
    from collections.abc import Callable


class Questions(NamedTuple):
    """Trees and their classes."""

    trees: tk.Forest
    y: np.ndarray


def read(path: Path) -> Questions:
    """Read a table or a file of SVM-Light-TK's."""
    if ".tsv" not in path.suffixes:
        data = tk.readers.svmlight_tk(path)
        return Questions(data.forests[0], data.labels)
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    column = next(i for i, text in enumerate(rows[0]) if text.startswith("("))
    trees = tk.Forest.from_brackets([row[column] for row in rows])
    return Questions(trees, np.array([row[0] for row in rows]))


class LinearModel(ClassifierMixin, BaseEstimator):
    """Linear support vector machines, one class against the rest.

    Trained on the matrix of dot products, which is the quickest where vectors have more
    components than there are questions. What is left is a vector per class.
    """

    def __init__(self, C: float = 10.0) -> None:
        self.C = C

    def fit(self, X: np.ndarray, y: np.ndarray) -> LinearModel:
        self.classes_ = np.unique(y)
        dots = (X @ X.T).astype(np.float64)
        svcs = [
            SVC(C=self.C, kernel="precomputed").fit(dots, y == c) for c in self.classes_
        ]
        self.coef_ = np.vstack([svc.dual_coef_ @ X[svc.support_] for svc in svcs])
        self.intercept_ = np.array([svc.intercept_[0] for svc in svcs])
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.classes_[(X @ self.coef_.T + self.intercept_).argmax(axis=1)]


class Row(NamedTuple):
    """A model, what is searched, and the accuracy that is published for it."""

    name: str
    data: str
    model: object
    grid: dict | list
    published: str = ""


SST = tk.SubsetTreeKernel(0.4, normalize=True)
PT = tk.PartialTreeKernel(0.4, 0.4, normalize=True)
DECAYS = [0.2, 0.3, 0.4]
COSTS = [3, 10, 30]


def support_vectors(kernel: object) -> tk.TreeSVC:
    return tk.TreeSVC(kernel, multi_class="ovr", n_jobs=1)


def rows() -> list[Row]:
    """Return the models of the table."""
    exact = [
        {"kernel__decay": DECAYS, "C": COSTS},
        # Self-kernels are large without normalisation, so C is small.
        {"kernel__normalize": [False], "kernel__decay": [0.2, 0.4], "C": [0.1, 1]},
    ]
    with_leaves = [
        {"kernel": [SST.replace(decay=d, leaf_weight=d) for d in DECAYS], "C": COSTS}
    ]
    partial = {"kernel__leaf_factor": [1.0, 5.0], "kernel__mu": [0.3, 0.4], "C": COSTS}
    distributed = make_pipeline(
        tk.DistributedTreeEncoder(SST, 16384, prune=True, n_jobs=1),
        LinearModel(),
    )
    return [
        Row("SST", "const", support_vectors(SST), exact, "91.6"),
        Row("SST, leaves", "const", support_vectors(SST), with_leaves, "92.0"),
        Row("PT on grct", "dep", support_vectors(PT), partial, "91.4"),
        Row(
            "distributed SST",
            "const",
            distributed,
            {
                "distributedtreeencoder__kernel__decay": DECAYS,
                "linearmodel__C": [10],
            },
        ),
        Row(
            "perceptron, SST",
            "const",
            tk.TreePerceptron(SST, n_iter=10, random_state=0),
            {"kernel__decay": DECAYS},
        ),
    ]


def decay_of(setting: dict) -> float:
    """Return the decay among the parameters of a setting."""
    for name, value in setting.items():
        if name.endswith("kernel__decay"):
            return value
        if name.endswith("kernel"):
            return value.decay
    return 0.4


def chooser(n: int) -> Callable[[dict], int]:
    """Make the rule of one standard error, for accuracies on n questions."""

    def choose(results: dict) -> int:
        mean = results["mean_test_score"]
        best = mean.max()
        good = np.flatnonzero(mean >= best - np.sqrt(best * (1 - best) / n))
        distance = [round(abs(decay_of(p) - 0.4), 9) for p in results["params"]]
        return int(min(good, key=lambda i: (distance[i], -mean[i])))

    return choose


def described(setting: dict) -> str:
    """Write a setting in short."""
    parts = []
    for name, value in setting.items():
        if name.endswith("kernel"):
            parts.append(f"decay={value.decay} leaf_weight={value.leaf_weight}")
        else:
            parts.append(f"{name.rsplit('__', 1)[-1]}={value}")
    return " ".join(parts)


def main() -> None:
    """Print the table, a row at a time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", type=Path, help="training set")
    parser.add_argument("--test", type=Path, help="test set")
    parser.add_argument("--folds", type=int, default=5)
    names = [row.name for row in rows()]
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    arguments = parser.parse_args()
    if (arguments.train is None) != (arguments.test is None):
        parser.error("--train and --test go together")
    if arguments.train is not None:
        one = read(arguments.train), read(arguments.test)
        data = {"const": one, "dep": one}
    else:
        folders = (
            f / "shared" / "data" / "qc" for f in Path(__file__).resolve().parents
        )
        folder = next((f for f in folders if f.is_dir()), None)
        if folder is None:
            sys.exit(
                "no folder shared/data/qc beside a folder above: give --train, --test"
            )
        data = {
            kind: tuple(
                read(folder / f"{kind}_{part}.tsv.gz") for part in ("train", "test")
            )
            for kind in ("const", "dep")
        }
    sizes = [len(questions.y) for questions in data["const"]]
    print(f"{sizes[0]:,} questions to learn from, {sizes[1]:,} to classify\n")
    print(
        f"{'':16}{'test':>7}{'published':>11}{'plain best':>12}{'cv':>7}"
        f"{'tune':>9}{'train':>9}{'predict':>10}  setting"
    )
    cv = StratifiedKFold(arguments.folds, shuffle=True, random_state=0)
    for row in rows():
        if row.name not in arguments.only:
            continue
        train, test = data[row.data]
        start = time.perf_counter()
        search = GridSearchCV(
            row.model, row.grid, cv=cv, refit=chooser(len(train.y)), n_jobs=2
        ).fit(train.trees, train.y)
        tune = time.perf_counter() - start
        start = time.perf_counter()
        right = search.predict(test.trees) == test.y
        predict = time.perf_counter() - start
        found = search.cv_results_
        plain = found["params"][found["mean_test_score"].argmax()]
        if plain == search.best_params_:
            best = right
        else:
            other = search.estimator.set_params(**plain).fit(train.trees, train.y)
            best = other.predict(test.trees) == test.y
        score = found["mean_test_score"][search.best_index_]
        print(
            f"{row.name:16}{right.mean():7.1%}{row.published:>11}{best.mean():12.1%}"
            f"{score:7.1%}{tune - search.refit_time_:8.1f}s{search.refit_time_:8.2f}s"
            f"{predict * 1e3:8.1f}ms  {described(search.best_params_)}",
            flush=True,
        )


if __name__ == "__main__":
    main()
