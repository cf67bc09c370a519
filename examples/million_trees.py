"""Learn a million small trees: which package is a statement of.

Every statement of the installed Python packages is a tree (of a loop or a function only its
head), and the package is its class. One file in ten is for the test. All learners see the same
stream, in one run; times are those of vectors and training together, reading is apart. Both are
given by the clock and as processor time, which other work on the machine does not change.

    python examples/million_trees.py
    python examples/million_trees.py --trees 20000 --packages 5

* hashed columns of scikit-learn: HashingVectorizer over productions, and SGDClassifier;
* hashed columns of `TreeVectorizer`, and the same SGDClassifier;
* an averaged perceptron over subtrees, one pass;
* with --svm an exact support vector machine over subtrees, on a model, no matrix.

Needs the extra sklearn.
"""

from __future__ import annotations

import argparse
import ast
import random
import sys
import sysconfig
import time
import warnings
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import SGDClassifier

import treekernel_rs as tk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BATCH = 50_000
BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


class Part(NamedTuple):
    """Some trees of the stream, and the numbers of their packages."""

    trees: tk.Forest
    y: np.ndarray


def peak() -> str:
    """Return the peak of this process's memory, where the system tells it."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows
        return "unknown"
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    unit = 2**30 if sys.platform == "darwin" else 2**20  # of bytes there, else of kB
    return f"{size / unit:.1f} GB"


def packages(folder: Path, n: int) -> dict[str, list[Path]]:
    """Find the packages with the most source, and their files."""
    found = {}
    for package in sorted(folder.iterdir()):
        if (package / "__init__.py").exists():
            found[package.name] = sorted(package.rglob("*.py"))
    size = {name: sum(p.stat().st_size for p in found[name]) for name in found}
    return {name: found[name] for name in sorted(found, key=lambda p: -size[p])[:n]}


def statements(path: Path) -> list[ast.stmt]:
    """Take a file's statements apart: the blocks of each are statements of their own."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return []  # a template, or a test of Python's grammar
    found = [node for node in ast.walk(module) if isinstance(node, ast.stmt)]
    for node in found:
        for block in BLOCKS:
            if hasattr(node, block):
                setattr(node, block, [])
    return [node for node in found if not is_docstring(node)]


def is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def stream(files: list[tuple[Path, int]], n: int) -> Iterator[Part]:
    """Read the files, some trees at a time, until there were n."""
    nodes: list[ast.stmt] = []
    y: list[int] = []
    for path, label in files:
        new = statements(path)[: n - len(nodes)]
        nodes += new
        y += len(new) * [label]
        if len(nodes) >= min(n, BATCH):
            n -= len(nodes)
            yield Part(tk.Forest.from_trees(nodes), np.array(y))
            nodes, y = [], []
        if n == 0:
            return
    if nodes:
        yield Part(tk.Forest.from_trees(nodes), np.array(y))


def production_strings(forest: tk.Forest) -> list[str]:
    """Write the productions of each tree as words."""
    vectorizer = tk.TreeVectorizer("productions")
    counts = vectorizer.fit_transform(forest)
    names = vectorizer.get_feature_names_out()
    words = [name.strip("()").replace(" ", "_") for name in names]
    each = np.repeat(counts.indices, counts.data.astype(int))
    ends = np.concatenate([[0], np.cumsum(counts.data.astype(int))])[counts.indptr]
    return [
        " ".join([words[word] for word in each[start:end]])
        for start, end in pairwise(ends)
    ]


class Watch:
    """Adds up seconds by the clock, and of processors."""

    seconds = cpu = 0.0

    def __enter__(self) -> Self:
        self._start = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds += time.perf_counter() - self._start[0]
        self.cpu += time.process_time() - self._start[1]


class Learner(NamedTuple):
    """What makes vectors of a part, what learns them, and what is asked in the end."""

    vectors: Callable[[Any], Any]
    partial_fit: Callable[..., object]
    score: Callable[[Any, Any], float]


def linear(vectors: Callable[[Any], Any]) -> Learner:
    model = SGDClassifier(alpha=1e-6, random_state=0, n_jobs=-1)
    return Learner(vectors, model.partial_fit, model.score)


def learners() -> dict[str, Learner]:
    words = HashingVectorizer(token_pattern=r"\S+", n_features=1 << 20, norm="l2")
    kernel = tk.SubsetTreeKernel(0.4, normalize=True)
    own = tk.TreeVectorizer(kernel, max_size=3, n_features=1 << 20)
    perceptron = tk.TreePerceptron(tk.SubtreeKernel(0.4, leaf_weight=0.4))
    return {
        "HashingVectorizer, SGD": linear(words.transform),
        "TreeVectorizer, SGD": linear(own.transform),
        "perceptron, subtrees": Learner(
            lambda trees: trees, perceptron.partial_fit, perceptron.score
        ),
    }


def table(train: list[Part], test: list[Part], names: list[str], *, svm: bool) -> None:
    n = sum(len(part.y) for part in train)
    print(f"{'':26}{'accuracy':>9}{'µs a tree':>11}{'seconds':>9}{'cpu':>9}")

    def show(name: str, correct: float, watch: Watch) -> None:
        accuracy = correct / sum(len(part.y) for part in test)
        each = watch.seconds / n * 1e6
        times = f"{each:>11.1f}{watch.seconds:>9.1f}{watch.cpu:>9.1f}"
        print(f"{name:26}{accuracy:>9.3f}{times}", flush=True)

    for name, learner in learners().items():
        is_words = name.startswith("HashingVectorizer")
        watch, correct = Watch(), 0.0
        for part in train:
            # Words are given to scikit-learn: their making is not counted.
            given = production_strings(part.trees) if is_words else part.trees
            with watch:
                rows = learner.vectors(given)
                learner.partial_fit(rows, part.y, classes=range(len(names)))
        for part in test:
            given = production_strings(part.trees) if is_words else part.trees
            correct += learner.score(learner.vectors(given), part.y) * len(part.y)
        show(name, correct, watch)
    if svm:
        watch = Watch()
        model = tk.TreeSVC(
            tk.SubtreeKernel(0.4, leaf_weight=0.4, normalize=True),
            multi_class="ovr",
            solver="model",
            tol=0.1,
        )
        trees = tk.Forest.concat(part.trees for part in train)
        y = np.concatenate([part.y for part in train])
        with watch:
            model.fit(trees, y)
        correct = sum(model.score(part.trees, part.y) * len(part.y) for part in test)
        show("exact SVM, subtrees", correct, watch)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trees", type=int, default=1_100_000, help="with the test's")
    parser.add_argument("--packages", type=int, default=12)
    parser.add_argument("--folder", type=Path, default=sysconfig.get_path("purelib"))
    parser.add_argument("--svm", action="store_true", help="also an exact machine")
    options = parser.parse_args()
    found = packages(Path(options.folder), options.packages)
    names = list(found)
    if len(names) < 2:
        print(f"skipped: fewer than two packages in {options.folder}; give --folder")
        return 0
    files = [(path, names.index(name)) for name in names for path in found[name]]
    random.Random(0).shuffle(files)
    n_test = options.trees // 11
    rest = [file for at, file in enumerate(files) if at % 10]
    with Watch() as watch:
        test = list(stream(files[::10], n_test))
        train = list(stream(rest, options.trees - n_test))
    sizes = [sum(len(part.y) for part in parts) for parts in (train, test)]
    print(f"{sizes[0]:,} trees to learn from, {sizes[1]:,} to test")
    print(f"read in {watch.seconds:.1f} s, cpu {watch.cpu:.1f} s")
    print("of", ", ".join(names))
    table(train, test, names, svm=options.svm)
    print(f"peak memory {peak()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
