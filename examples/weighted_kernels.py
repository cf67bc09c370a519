"""Do weights help? Kernels with weights and functions of counts, in cross-validation.

Each line is a kernel with weights of one kind; idf and learned weights are fitted to the
training part of each fold. A support vector machine with C = 10 is trained on normalised
kernels. The decay of each line is chosen by an inner cross-validation on the training part
of each fold.

    python examples/weighted_kernels.py questions
    python examples/weighted_kernels.py json
    python examples/weighted_kernels.py functions
    python examples/weighted_kernels.py pages

questions: the first training questions of qc in docs/DATA.md; json: the
models of botocore; functions: the standard library's; pages: the web pages of formasaurus by
the program that made them, of those that say so. Needs the extra sklearn.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from _data import add_argument, find_or_exit, rows
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline, make_union
from sklearn.svm import SVC, LinearSVC

import treekernel_rs as tk

if TYPE_CHECKING:
    from collections.abc import Callable

    Fit = Callable[[tk.Forest, np.ndarray], object]

DECAYS = (0.05, 0.1, 0.2, 0.4)

WEIGHTS: dict[str, Fit | None] = {
    "none": None,
    "idf of labels": lambda X, y: tk.kernels.Idf("labels").fit(X),
    "idf of productions": lambda X, y: tk.kernels.Idf("productions").fit(X),
    "classes, labels": lambda X, y: tk.kernels.LearnedWeights(least=0.2).fit(X, y),
    "classes, productions": lambda X, y: tk.kernels.LearnedWeights(
        "productions", least=0.2
    ).fit(X, y),
    "alignment, labels": lambda X, y: tk.kernels.LearnedWeights(
        method="alignment", least=0.2
    ).fit(X, y),
}


def kernels(decay: float) -> dict[str, tk.SubtreeKernel]:
    """Make the kernels that are compared."""
    return {
        "SubtreeKernel": tk.SubtreeKernel(decay, normalize=True),
        "SubtreeKernel, log": tk.SubtreeKernel(decay, counts="log", normalize=True),
        "SubsetTreeKernel": tk.SubsetTreeKernel(decay, normalize=True),
        "SubsetTreeKernel, leaves": tk.SubsetTreeKernel(
            decay, leaf_weight=decay, normalize=True
        ),
        "SubpathKernel": tk.SubpathKernel(decay, normalize=True),
        "SubpathKernel, log": tk.SubpathKernel(decay, counts="log", normalize=True),
    }


def scores(
    kernel: tk.SubtreeKernel, fit: Fit | None, X: tk.Forest, y: np.ndarray, folds: list
) -> np.ndarray:
    """Return the accuracy of each fold."""
    found = []
    for train, test in folds:
        if fit is not None:
            kernel = kernel.replace(weights=fit(X[train], y[train]))
        machine = SVC(C=10, kernel="precomputed").fit(kernel(X[train]), y[train])
        found.append(machine.score(kernel(X[test], X[train]), y[test]))
    return np.array(found)


def compare(X: tk.Forest, y: np.ndarray) -> None:
    """Print a table: accuracy in 5 folds, decay chosen within each."""
    outer = StratifiedKFold(5, shuffle=True, random_state=0)
    inner = StratifiedKFold(3, shuffle=True, random_state=1)
    for name in kernels(0.4):
        for kind, fit in WEIGHTS.items():
            if "productions" in kind and name.startswith("Subpath"):
                continue
            start, found, chosen = time.process_time(), [], []
            for train, test in outer.split(X.n_nodes, y):
                own, target = X[train], y[train]
                folds = list(inner.split(own.n_nodes, target))
                tried = {
                    decay: scores(kernels(decay)[name], fit, own, target, folds).mean()
                    for decay in DECAYS
                }
                best = max(tried, key=lambda decay: tried[decay])
                chosen.append(best)
                one = [(train, test)]
                found.extend(scores(kernels(best)[name], fit, X, y, one))
            seconds = time.process_time() - start
            mean, error = np.mean(found), np.std(found, ddof=1) / np.sqrt(len(found))
            decays = " ".join(f"{decay:g}" for decay in chosen)
            print(
                f"{name:24} {kind:22} {mean:.3f} ± {error:.3f}"
                f"   decays {decays:22} {seconds:6.1f} s",
                flush=True,
            )


def read(name: str, limit: int, folder: Path | None) -> tuple[tk.Forest, np.ndarray]:
    """Read trees and classes."""
    if name == "json":
        data = tk.datasets.json_models()
    elif name == "functions":
        data = tk.datasets.python_functions()
    elif name == "pages":
        return pages(limit)
    else:
        lines = rows(find_or_exit("qc/const_train.tsv.gz", folder))[:limit]
        trees = tk.Forest.from_brackets([line[3] for line in lines])
        return trees, np.array([line[0] for line in lines])
    y, classes = data.y, data.classes
    # Classes of fewer trees than folds cannot be in all of them.
    kept = np.flatnonzero(np.bincount(y)[y] >= 15)
    kept = np.sort(np.random.default_rng(0).permutation(kept)[:limit])
    kept = kept[np.bincount(y[kept], minlength=len(classes))[y[kept]] >= 15]
    return data.forest[kept], y[kept]


def pages(limit: int, least: int = 10) -> tuple[tk.Forest, np.ndarray]:
    """Read web pages as trees of tags; the class is what `meta name="generator"` says."""
    package = importlib.util.find_spec("formasaurus")
    if package is None or package.origin is None:
        msg = "formasaurus is not installed (extra examples)"
        raise SystemExit(msg)
    folder = Path(package.origin).parent / "data/html"
    texts, names = [], []
    for path in sorted(folder.glob("*.html"), key=lambda path: int(path.stem)):
        text = path.read_bytes().decode(errors="replace")
        tag = re.search(r"<meta[^>]*name=[\"']?generator[\"' ][^>]*>", text, re.I)
        content = tag and re.search(r"content=[\"']\s*([a-z]+)", tag[0], re.I)
        if content:
            texts.append(text)
            names.append(content[1].lower())
    y = np.array(names)
    classes, counts = np.unique(y, return_counts=True)
    kept = np.flatnonzero(np.isin(y, classes[counts >= least]))[:limit]
    return tk.readers.html(text=[texts[i] for i in kept]).forest, y[kept]


def compare_columns(X: tk.Forest, y: np.ndarray) -> None:
    """Print the accuracy of labels and edges as columns, for comparison."""
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    for name, how in {
        "none": TfidfTransformer(use_idf=False),
        "log counts": TfidfTransformer(use_idf=False, sublinear_tf=True),
        "log counts, idf": TfidfTransformer(sublinear_tf=True),
    }.items():
        columns = make_union(tk.TreeVectorizer("labels"), tk.TreeVectorizer("edges"))
        machine = make_pipeline(columns, how, LinearSVC(C=10, max_iter=100_000))
        found = cross_val_score(machine, X, y, cv=folds)
        mean, error = found.mean(), found.std(ddof=1) / np.sqrt(len(found))
        print(f"{'labels and edges':24} {name:22} {mean:.3f} ± {error:.3f}", flush=True)


def main() -> None:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("set", choices=["questions", "json", "functions", "pages"])
    parser.add_argument("--limit", type=int, default=1000, help="at most so many trees")
    add_argument(parser)
    args = parser.parse_args()
    X, y = read(args.set, args.limit, args.data)
    print(f"{args.set}: {X}, {len(np.unique(y))} classes")
    with warnings.catch_warnings():
        # Subtrees whose label weighs nothing are their own kernel's zeros.
        warnings.simplefilter("ignore", RuntimeWarning)
        compare_columns(X, y)
        compare(X, y)


if __name__ == "__main__":
    main()
