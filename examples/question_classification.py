"""Question classification: exact and smoothed kernels, distributed trees, a perceptron.

Trains on 5,452 questions of TREC and asks 500 others for their coarse class (abbreviation,
description, entity, human, location, number). The table stands beside what is published
for the same data with SVM-Light-TK, one class against the rest, C = 10.

SPTK is the partial tree kernel with similar words: cosines of vectors that
`word_vectors.py` makes of the texts of docs/DATA.md, without the test questions. PT on lct is
the same without vectors, chosen in the same way.

Everything is tuned by 5-fold cross-validation on the training set: decay, normalisation
and C. Neighbouring decays differ by less than such a search can tell apart, so the setting
is chosen by the rule of one standard error: of all settings within one standard error of
the best, the best of those whose decay is nearest to 0.4, the usual one. "plain best" is
the test accuracy that the best setting would have had. (Partial trees keep their decays:
there it is the same.) "95 %" is Wilson's interval for the test accuracy.

    python examples/question_classification.py
    python examples/question_classification.py --train train.dat --test test.dat

Without files it reads qc of docs/DATA.md, from the folder --data. Files are tables separated by
tabs, as they are there (class first, the tree in the first column that starts with a
bracket), or SVM-Light-TK's. Needs the extra sklearn.
"""

from __future__ import annotations

import argparse
import gzip
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from _data import add_argument, find_or_exit
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import GridSearchCV, ParameterGrid, StratifiedKFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from word_vectors import base_forms, sentences, word_vectors

import treekernel_rs as tk

if TYPE_CHECKING:
    from collections.abc import Callable


class Questions(NamedTuple):
    """Trees and their classes."""

    trees: tk.Forest
    y: np.ndarray


def read(path: Path, tree: int = 0) -> Questions:
    """Read a table, with which of its trees, or a file of SVM-Light-TK's."""
    if ".tsv" not in path.suffixes:
        data = tk.readers.svmlight_tk(path)
        return Questions(data.forests[tree], data.y)
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    column = [i for i, text in enumerate(rows[0]) if text.startswith("(")][tree]
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
#: Similarities made of the cosines of word vectors. A threshold alone is not tried: see
#: docs/KERNELS.md.
SMOOTH = [{"power": 1}, {"power": 2}, {"power": 2, "threshold": 0.2}]
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
    lct = {"leaf_factor": [0.2, 1.0, 5.0], "similarity": [None]}
    smooth = lct | {"similarity": SMOOTH}
    partial = {"kernel__leaf_factor": [1.0, 5.0], "kernel__mu": [0.3, 0.4], "C": COSTS}
    distributed = make_pipeline(
        tk.DistributedTreeEncoder(SST, 16384, prune=True, random_state=0, n_jobs=1),
        LinearModel(),
    )
    return [
        Row("SST", "const", support_vectors(SST), exact, "91.6"),
        Row("SST, leaves", "const", support_vectors(SST), with_leaves, "92.0"),
        Row("PT on grct", "dep", support_vectors(PT), partial, "91.4"),
        Row("PT on lct", "lct", support_vectors(PT), lct),
        Row("SPTK on lct", "lct", support_vectors(PT), smooth),
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


def vectors_for(trees: tk.Forest, data: Path) -> tuple[list[str], np.ndarray]:
    """Make vectors of nouns, verbs, adjectives and adverbs, keyed as lemma::pos.

    A word has the same vector under each pos: the texts have none. Question words keep to
    themselves: to mix up who and where is of no use here.
    """
    lemmas = {
        label[5:].split("::")[0] for label in trees.labels if label[:5] == "LEX##"
    }
    words, vectors = word_vectors(base_forms(sentences(data), lemmas))
    keys = [f"{word}::{pos}" for word in words for pos in "nvjr"]
    return keys, np.repeat(vectors, 4, axis=0)


def wilson(right: np.ndarray) -> str:
    """Write the 95 % interval of an accuracy (Wilson 1927), in per cent."""
    n, p, z = len(right), right.mean(), 1.96
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * np.sqrt(p * (1 - p) / n + (z / (2 * n)) ** 2)
    return f"{100 * (middle - half):.1f}-{100 * (middle + half):.1f}"


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
            parts.append(repr(value))
        else:
            parts.append(f"{name.rsplit('__', 1)[-1]}={value}")
    return " ".join(parts)


class Found(NamedTuple):
    """The chosen setting, the best by cross-validation alone, the score of the chosen."""

    setting: dict
    best: dict
    score: float


def by_grid(row: Row, train: Questions, cv: StratifiedKFold) -> Found:
    """Choose from the grid by the rule of one standard error."""
    search = GridSearchCV(row.model, row.grid, cv=cv, refit=False, n_jobs=2)
    found = search.fit(train.trees, train.y).cv_results_
    chosen = chooser(len(train.y))(found)
    best = found["mean_test_score"].argmax()
    params = found["params"]
    return Found(params[chosen], params[best], found["mean_test_score"][chosen])


def by_matrix(row: Row, train: Questions, cv: StratifiedKFold, data: Path) -> Found:
    """Choose kernel and C with one matrix per kernel, which all folds and C share."""
    each = OneVsRestClassifier(SVC(kernel="precomputed"))
    smooth = None not in row.grid["similarity"]
    vectors = vectors_for(train.trees, data) if smooth else None
    found = []
    for changes in ParameterGrid(row.grid):
        if smooth:
            how = changes["similarity"]
            changes["similarity"] = tk.kernels.VectorSimilarity(
                vectors, classes="kelp", **how
            )
        kernel = row.model.kernel.replace(**changes)
        with warnings.catch_warnings():
            # Thresholds may be indefinite: cross-validation says whether that does harm.
            warnings.simplefilter("ignore", RuntimeWarning)
            matrix = kernel.gram(train.trees)
        search = GridSearchCV(
            each, {"estimator__C": COSTS}, cv=cv, refit=False, n_jobs=2
        )
        search.fit(matrix, train.y)
        setting = {"kernel": kernel, "C": search.best_params_["estimator__C"]}
        found.append(Found(setting, setting, search.best_score_))
    return max(found, key=lambda one: one.score)


def main() -> None:
    """Print the table, a row at a time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", type=Path, help="training set")
    parser.add_argument("--test", type=Path, help="test set")
    parser.add_argument("--folds", type=int, default=5)
    names = [row.name for row in rows()]
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    add_argument(parser)
    arguments = parser.parse_args()
    if (arguments.train is None) != (arguments.test is None):
        parser.error("--train and --test go together")
    texts = None
    if arguments.train is not None:
        one = read(arguments.train), read(arguments.test)
        data = {"const": one, "dep": one}
    else:
        texts = find_or_exit("qc", arguments.data).parent
        trees = {"const": ("const", 0), "dep": ("dep", 0), "lct": ("dep", 1)}
        data = {
            name: tuple(
                read(texts / "qc" / f"{kind}_{part}.tsv.gz", tree)
                for part in ("train", "test")
            )
            for name, (kind, tree) in trees.items()
        }
    sizes = [len(questions.y) for questions in data["const"]]
    print(f"{sizes[0]:,} questions to learn from, {sizes[1]:,} to classify\n")
    print(
        f"{'':16}{'test':>7}{'95 %':>11}{'published':>11}{'plain best':>12}{'cv':>7}"
        f"{'tune':>9}{'train':>9}{'predict':>10}  setting"
    )
    cv = StratifiedKFold(arguments.folds, shuffle=True, random_state=0)
    for row in rows():
        if row.name not in arguments.only:
            continue
        if row.data not in data:
            print(f"{row.name:16} needs the files of qc")
            continue
        train, test = data[row.data]
        start = time.perf_counter()
        if row.data == "lct":
            found = by_matrix(row, train, cv, texts)
        else:
            found = by_grid(row, train, cv)
        tune = time.perf_counter() - start
        start = time.perf_counter()
        model = clone(row.model).set_params(**found.setting).fit(train.trees, train.y)
        fit = time.perf_counter() - start
        start = time.perf_counter()
        right = model.predict(test.trees) == test.y
        predict = time.perf_counter() - start
        best = right
        if found.best != found.setting:
            other = clone(row.model).set_params(**found.best)
            best = other.fit(train.trees, train.y).predict(test.trees) == test.y
        print(
            f"{row.name:16}{right.mean():7.1%}{wilson(right):>11}{row.published:>11}"
            f"{best.mean():12.1%}{found.score:7.1%}{tune:8.1f}s{fit:8.2f}s"
            f"{predict * 1e3:8.1f}ms  {described(found.setting)}",
            flush=True,
        )


if __name__ == "__main__":
    main()
