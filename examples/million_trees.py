"""Learn a million small trees: which package is a statement of.

Every statement of the installed Python packages is a tree (of a loop or a function only its
head), and the package is its class. One file in ten is for the test. The files are a stream: some
ten thousand trees are read, learned by all learners and forgotten, so that memory holds one part
and the models. Times are those of vectors and training together, reading is apart. Both are
given by the clock and as processor time, which other work on the machine does not change.

    python examples/million_trees.py
    python examples/million_trees.py --trees 20000 --packages 5

* hashed columns of scikit-learn: HashingVectorizer over productions, and SGDClassifier;
* hashed columns of `TreeVectorizer`, and the same SGDClassifier;
* an averaged perceptron over subtrees, one pass;
* with --svm an exact support vector machine over subtrees, on a model, no matrix (its trees are
  kept, all in one forest).

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
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import SGDClassifier

import treekernel_rs as tk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BATCH = 20_000
WORDS = "HashingVectorizer, SGD"
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

    def each(self, parts: Iterator[Part]) -> Iterator[Part]:
        """Hand parts on, and add up the time that they take to come."""
        while True:
            with self:
                part = next(parts, None)
            if part is None:
                return
            yield part


@dataclass
class Learner:
    """What makes vectors of a part, what learns them, and what is asked in the end."""

    vectors: Callable[[Any], Any]
    partial_fit: Callable[..., object]
    score: Callable[[Any, Any], float]
    watch: Watch = field(default_factory=Watch)
    correct: float = 0.0

    def learn(self, trees: Any, y: np.ndarray, n_classes: int) -> None:
        with self.watch:
            self.partial_fit(self.vectors(trees), y, classes=range(n_classes))

    def test(self, trees: Any, y: np.ndarray) -> None:
        self.correct += self.score(self.vectors(trees), y) * len(y)


def linear(vectors: Callable[[Any], Any]) -> Learner:
    model = SGDClassifier(alpha=1e-6, average=True, random_state=0, n_jobs=-1)
    return Learner(vectors, model.partial_fit, model.score)


def learners() -> dict[str, Learner]:
    words = HashingVectorizer(token_pattern=r"\S+", n_features=1 << 20, norm="l2")
    # Labels and edges. Of fragments of up to 3 productions a list of 2,000 items has millions.
    kernel = tk.PartialTreeKernel(0.4, normalize=True)
    own = tk.TreeVectorizer(kernel, max_size=2, n_features=1 << 20)
    perceptron = tk.TreePerceptron(tk.SubtreeKernel(0.4, leaf_weight=0.4))
    return {
        WORDS: linear(words.transform),
        "TreeVectorizer, SGD": linear(own.transform),
        "perceptron, subtrees": Learner(
            lambda trees: trees, perceptron.partial_fit, perceptron.score
        ),
    }


def exact(train: list[Part]) -> Learner:
    """Train a support vector machine of all trees at once."""
    model = tk.TreeSVC(
        tk.SubtreeKernel(0.4, leaf_weight=0.4, normalize=True),
        multi_class="ovr",
        solver="model",
        tol=0.1,
        random_state=0,
    )
    learner = Learner(lambda trees: trees, model.fit, model.score)
    trees = tk.Forest.concat(part.trees for part in train)
    y = np.concatenate([part.y for part in train])
    with learner.watch:
        model.fit(trees, y)
    return learner


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trees", type=int, default=1_100_000, help="with the test's")
    parser.add_argument("--packages", type=int, default=12)
    parser.add_argument("--folder", type=Path, default=sysconfig.get_path("purelib"))
    parser.add_argument("--svm", action="store_true", help="also an exact machine")
    options = parser.parse_args()
    by_name = packages(Path(options.folder), options.packages)
    names = list(by_name)
    if len(names) < 2:
        print(f"skipped: fewer than two packages in {options.folder}; give --folder")
        return 0
    files = [(path, names.index(name)) for name in names for path in by_name[name]]
    random.Random(0).shuffle(files)
    n_test = options.trees // 11
    rest = [file for at, file in enumerate(files) if at % 10]
    reading, found, kept = Watch(), learners(), []
    n_trees = n_tests = 0
    for part in reading.each(stream(rest, options.trees - n_test)):
        words = production_strings(part.trees)  # not counted
        for name, learner in found.items():
            learner.learn(words if name == WORDS else part.trees, part.y, len(names))
        n_trees += len(part.y)
        kept += [part] * options.svm
    if options.svm:
        found["exact SVM, subtrees"] = exact(kept)
    for part in reading.each(stream(files[::10], n_test)):
        words = production_strings(part.trees)
        for name, learner in found.items():
            learner.test(words if name == WORDS else part.trees, part.y)
        n_tests += len(part.y)
    print(f"{n_trees:,} trees to learn from, {n_tests:,} to test")
    print("of", ", ".join(names))
    print(f"read in {reading.seconds:.1f} s, cpu {reading.cpu:.1f} s")
    print(f"{'':26}{'accuracy':>9}{'µs a tree':>11}{'seconds':>9}{'cpu':>9}")
    for name, learner in found.items():
        watch = learner.watch
        times = f"{watch.seconds / n_trees * 1e6:>11.1f}{watch.seconds:>9.1f}{watch.cpu:>9.1f}"
        print(f"{name:26}{learner.correct / n_tests:>9.3f}{times}")
    print(f"peak memory {peak()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
