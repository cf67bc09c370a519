"""Vectors of trees compared: accuracy by number of columns and time, on three sets of data.

* questions: TREC's, 5,452 to learn from and 500 to ask for their coarse class;
* forms: `datasets.forms()`, 12 purposes of forms, by 3-fold cross-validation in which the forms
  of a page stay together;
* functions: Java functions and clones of them (types 1 and 2). Groups are functions linked by
  pairs of clones; of functions with equal trees one is kept. Accuracy is the share of functions
  with a clone whose nearest neighbour, by cosine, is of their group. Other functions, drawn at
  random, are in the way.

Questions and forms are learned by linear support vector machines; C is chosen by 3-fold
cross-validation within the training part. Exact kernels stand beside. Seconds are processor
time, for making vectors + for learning or search, over all folds; for exact kernels only the
sum is known.

    python examples/features_table.py
    python examples/features_table.py --sets forms --dimensions 64 256
    python examples/features_table.py --train train.dat --test test.dat

Without files it reads qc and code of docs/DATA.md, from the folder --data. A set that is not
there is left out. Needs the extra sklearn; forms need the extras web and examples.
"""

from __future__ import annotations

import argparse
import gzip
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from _data import HINT, add_argument, find
from question_classification import read
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedKFold
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC

import treekernel_rs as tk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SST = tk.SubsetTreeKernel(0.4, normalize=True)
PT = tk.PartialTreeKernel(0.4, normalize=True)


class Cell(NamedTuple):
    """What one kind of vectors achieves on one set."""

    columns: int | None
    accuracy: float
    made: float
    used: float

    def __str__(self) -> str:
        seconds = f"{self.used:.1f}"
        if self.columns is None:
            return f" | {self.accuracy:.3f} | {seconds}"
        return f"{self.columns:,} | {self.accuracy:.3f} | {self.made:.1f} + {seconds}"


class Classes(NamedTuple):
    """Trees with classes, and the parts to learn from and to test on."""

    trees: tk.Forest
    y: np.ndarray
    splits: list[tuple[np.ndarray, np.ndarray]]
    #: Trees of one group stay together when C is chosen, too.
    groups: np.ndarray | None = None

    def search(self, model: Any, X: Any, train: np.ndarray) -> Any:
        groups = None if self.groups is None else self.groups[train]
        cv = StratifiedKFold(3) if groups is None else GroupKFold(3)
        search = GridSearchCV(model, {"C": [0.1, 1.0, 10.0, 100.0]}, cv=cv)
        return search.fit(X, self.y[train], groups=groups)

    def vectors(self, vectors: Any) -> Cell:
        right, made, used, columns = [], 0.0, 0.0, []
        for train, test in self.splits:
            own = clone(vectors)
            start = time.process_time()
            X = own.fit_transform(self.trees[train])
            Z = own.transform(self.trees[test])
            between = time.process_time()
            # liblinear's own tolerance; scikit-learn's is a hundred times smaller.
            model = LinearSVC(tol=0.01, max_iter=10_000, random_state=0)
            model = self.search(model, X, train)
            right.append(model.predict(Z) == self.y[test])
            made += between - start
            used += time.process_time() - between
            columns.append(X.shape[1])
        accuracy = np.concatenate(right).mean()
        return Cell(round(np.mean(columns)), accuracy, made, used)

    def exact(self, kernel: Any) -> Cell:
        right, start = [], time.process_time()
        for train, test in self.splits:
            model = tk.TreeSVC(kernel, multi_class="ovr")
            model = self.search(model, self.trees[train], train)
            right.append(model.predict(self.trees[test]) == self.y[test])
        used = time.process_time() - start
        return Cell(None, np.concatenate(right).mean(), 0.0, used)


class Groups(NamedTuple):
    """Trees of groups; the first `n` have others of theirs among the trees."""

    trees: tk.Forest
    group: np.ndarray
    n: int

    def accuracy(self, similar: np.ndarray) -> float:
        """Tell from similarities of the first `n` with all."""
        similar = np.array(similar)
        np.fill_diagonal(similar, -np.inf)
        return (self.group[similar.argmax(axis=1)] == self.group[: self.n]).mean()

    def vectors(self, vectors: Any) -> Cell:
        start = time.process_time()
        X = clone(vectors).fit_transform(self.trees)
        between = time.process_time()
        X = normalize(X)
        similar = X[: self.n] @ X.T
        if not isinstance(similar, np.ndarray):
            similar = similar.toarray()
        accuracy = self.accuracy(similar)
        used = time.process_time() - between
        return Cell(X.shape[1], accuracy, between - start, used)

    def exact(self, kernel: Any) -> Cell:
        start = time.process_time()
        accuracy = self.accuracy(kernel(self.trees[: self.n], self.trees))
        return Cell(None, accuracy, 0.0, time.process_time() - start)


# --- the sets -----------------------------------------------------------------------


def questions(train: Path, test: Path) -> Classes:
    parts = [read(train), read(test)]
    n, m = (len(part.trees) for part in parts)
    trees = tk.Forest.concat([part.trees for part in parts])
    y = np.concatenate([part.y for part in parts])
    return Classes(trees, y, [(np.arange(n), np.arange(n, n + m))])


def forms() -> Classes:
    data = tk.datasets.forms()
    _, pages = np.unique(data.names, return_inverse=True)
    folds = GroupKFold(3, shuffle=True, random_state=0)
    splits = list(folds.split(data.y, groups=pages))
    return Classes(data.forest, np.asarray(data.y), splits, pages)


def rows(path: Path) -> Iterable[list[str]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield line.rstrip("\n").split("\t")


def functions(trees: Path, clones: Path, others: int) -> Groups:
    texts: dict[str, int] = {}
    place = {}
    for name, tree in rows(trees):
        if "()" not in tree:  # a node without a label
            # Copies that are equal are kept once: any vectors would find them.
            place[name] = texts.setdefault(tree, len(texts))
    pairs = [(place[a], place[b]) for a, b, kind, *_ in rows(clones) if kind in "12"]
    first, second = np.array(pairs).T
    links = coo_array((np.ones(len(pairs)), (first, second)), (len(texts),) * 2)
    group = connected_components(links, directed=False)[1]
    size = np.bincount(group)[group]
    asked, alone = np.flatnonzero(size > 1), np.flatnonzero(size == 1)
    rng = np.random.default_rng(0)
    alone = rng.choice(alone, min(others, len(alone)), replace=False)
    kept = np.concatenate([asked, alone])
    distinct = list(texts)
    forest = tk.Forest.from_brackets([distinct[i] for i in kept])
    return Groups(forest, group[kept], len(asked))


# --- the table ----------------------------------------------------------------------


def edges() -> Any:
    """Make labels and edges, damped."""
    counts = make_union(tk.TreeVectorizer("labels"), tk.TreeVectorizer("edges"))
    return make_pipeline(counts, TfidfTransformer(sublinear_tf=True))


def kinds(dimensions: list[int]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "labels and edges, sublinear tf-idf": edges(),
        "productions": tk.TreeVectorizer(SST, max_size=1),
        "SST, fragments of 1 to 2": tk.TreeVectorizer(SST, max_size=2),
        "SST, fragments of 1 to 3": tk.TreeVectorizer(SST, max_size=3),
        "the same, hashed": tk.TreeVectorizer(SST, max_size=3, n_features=1 << 18),
        "PT, fragments of 1 to 2 nodes": tk.TreeVectorizer(PT, max_size=2),
        "PT, fragments of 1 to 3 nodes": tk.TreeVectorizer(PT, max_size=3),
    }
    for d in dimensions:
        found[f"SST, {d:,} landmarks"] = tk.TreeNystroem(SST, d, random_state=0)
    for d in dimensions:
        found[f"PT, {d:,} landmarks"] = tk.TreeNystroem(PT, d, random_state=0)
    for d in dimensions:
        found[f"SST, distributed, {d:,}"] = tk.DistributedTreeEncoder(
            SST, d, random_state=0
        )
    for d in dimensions:
        found[f"PT, distributed, {d:,}"] = tk.DistributedTreeEncoder(
            PT, d, random_state=0
        )
    return found


def table(sets: dict[str, Classes | Groups], dimensions: list[int]) -> None:
    heads = [f"{name}: columns | accuracy | seconds" for name in sets]
    print("| vectors |", " | ".join(heads), "|")
    print("|---" * (1 + 3 * len(sets)) + "|", flush=True)
    for name, vectors in kinds(dimensions).items():
        cells = []
        for data in sets.values():
            try:
                cells.append(str(data.vectors(vectors)))
            except (MemoryError, ValueError) as refused:  # too many fragments
                print(f"{name}: {refused}", file=sys.stderr)
                cells.append("too many | |")
        print(f"| {name} |", " | ".join(cells), "|", flush=True)
    for name, kernel in (("SST, exact", SST), ("PT, exact", PT)):
        cells = [str(data.exact(kernel)) for data in sets.values()]
        print(f"| {name} |", " | ".join(cells), "|", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = ["questions", "forms", "functions"]
    parser.add_argument("--sets", nargs="+", choices=names, default=names)
    parser.add_argument("--dimensions", nargs="+", type=int, default=[128, 512])
    parser.add_argument("--others", type=int, default=2000, help="functions in the way")
    for name in ("train", "test", "functions", "clones"):
        parser.add_argument(f"--{name}", type=Path)
    add_argument(parser)
    options = parser.parse_args()
    folder = find("", options.data) or Path("shared/data")
    train = options.train or folder / "qc/const_train.tsv.gz"
    test = options.test or folder / "qc/const_test.tsv.gz"
    trees = options.functions or folder / "code/java_functions.tsv.gz"
    clones = options.clones or folder / "code/java_clones.tsv.gz"
    ways: dict[str, Callable[[], Classes | Groups]] = {
        "questions": lambda: questions(train, test),
        "forms": forms,
        "functions": lambda: functions(trees, clones, options.others),
    }
    # Some forms are a single element, which has no production.
    warnings.filterwarnings("ignore", "the kernel of .* with themselves is 0")
    sets = {}
    for name in options.sets:
        try:
            sets[name] = ways[name]()
        except ImportError as missing:
            print(f"skipped: {name}: {missing}")
            continue
        except FileNotFoundError as missing:
            print(f"skipped: {name}: {missing} ({HINT})")
            continue
        data = sets[name]
        more = f", {data.n} of them asked" if isinstance(data, Groups) else ""
        print(f"{name}: {len(data.trees):,} trees{more}")
    print()
    if sets:
        table(sets, options.dimensions)
    return 0


if __name__ == "__main__":
    sys.exit(main())
