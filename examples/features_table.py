"""Vectors of trees compared: accuracy, columns and time on TREC's questions.

Trains linear support vector machines on 5,452 questions and asks 500 others for their
coarse class. C is chosen by 3-fold cross-validation on the training set. Exact kernels stand
beside.

    python examples/features_table.py
    python examples/features_table.py --train train.dat --test test.dat

Without files it reads shared/data/qc beside a folder above, as question_classification.py
does. Needs the extra sklearn.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from question_classification import read
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline, make_union
from sklearn.svm import LinearSVC

import treekernel_rs as tk

if TYPE_CHECKING:
    from question_classification import Questions

SST = tk.SubsetTreeKernel(0.4, normalize=True)
PT = tk.PartialTreeKernel(0.4, normalize=True)


def edges() -> Any:
    """Make labels and edges, damped."""
    counts = make_union(tk.TreeVectorizer("labels"), tk.TreeVectorizer("edges"))
    return make_pipeline(counts, TfidfTransformer(sublinear_tf=True))


VECTORS: dict[str, Any] = {
    "labels and edges, sublinear tf-idf": edges(),
    "productions": tk.TreeVectorizer(SST, max_size=1),
    "SST, fragments of 1 to 2": tk.TreeVectorizer(SST, max_size=2),
    "SST, fragments of 1 to 3": tk.TreeVectorizer(SST, max_size=3),
    "SST, fragments of 1 to 4": tk.TreeVectorizer(SST, max_size=4),
    "the same, hashed to 2^18": tk.TreeVectorizer(SST, max_size=4, n_features=1 << 18),
    "PT, fragments of 1 to 3 nodes": tk.TreeVectorizer(PT, max_size=3),
    "SST, 256 landmarks": tk.TreeNystroem(SST, 256, random_state=0),
    "SST, 1,024 landmarks": tk.TreeNystroem(SST, 1024, random_state=0),
    "PT, 1,024 landmarks": tk.TreeNystroem(PT, 1024, random_state=0),
    "SST, distributed, 1,024": tk.DistributedTreeEncoder(SST, 1024),
}


def table(train: Questions, test: Questions) -> None:
    print(
        f"{'vectors':36}{'columns':>9}{'accuracy':>10}{'vectors s':>11}{'search s':>10}"
    )
    for name, vectors in VECTORS.items():
        start = time.perf_counter()
        X = vectors.fit_transform(train.trees)
        Z = vectors.transform(test.trees)
        made = time.perf_counter()
        search = GridSearchCV(LinearSVC(), {"C": [0.1, 1.0, 10.0, 100.0]}, cv=3)
        accuracy = search.fit(X, train.y).score(Z, test.y)
        done = time.perf_counter()
        times = f"{made - start:>11.2f}{done - made:>10.1f}"
        print(f"{name:36}{X.shape[1]:>9,}{accuracy:>10.3f}{times}", flush=True)
    for name, kernel in (("SST, exact", SST), ("PT, exact", PT)):
        start = time.perf_counter()
        model = tk.TreeSVC(kernel, multi_class="ovr")
        search = GridSearchCV(model, {"C": [1.0, 10.0]}, cv=3)
        accuracy = search.fit(train.trees, train.y).score(test.trees, test.y)
        took = time.perf_counter() - start
        print(f"{name:36}{'':>9}{accuracy:>10.3f}{'':>11}{took:>10.1f}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", type=Path)
    parser.add_argument("--test", type=Path)
    options = parser.parse_args()
    folders = [p / "shared/data/qc" for p in Path(__file__).resolve().parents]
    folder = next((folder for folder in folders if folder.is_dir()), Path())
    train = options.train or folder / "const_train.tsv.gz"
    test = options.test or folder / "const_test.tsv.gz"
    if not (train.exists() and test.exists()):
        print(f"skipped: {train} is not there; give --train and --test")
        return 0
    table(read(train), read(test))
    return 0


if __name__ == "__main__":
    sys.exit(main())
