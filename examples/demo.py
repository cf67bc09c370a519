"""The library at work: functions of Python's library, and the package they come from.

Three ways to learn it from syntax trees, side by side; then what was learnt: the
fragments that count most. Prints a table, and writes a report page to ./demo.html
(another place: the first argument), which shows what each function was classified by.
"""

import pickle
import sys
from pathlib import Path
from time import perf_counter

import numpy as np
from sklearn.linear_model import RidgeClassifierCV
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

import treekernel_rs as tk

KERNEL = tk.SubsetTreeKernel(0.4, normalize=True)


class Bar:
    """Says on the terminal what is going on, with a bar where it is told how far."""

    def __init__(self, what: str) -> None:
        self.what, self.start = what, perf_counter()
        self.shown = sys.stderr.isatty()
        if self.shown:
            print(f"  {what} ...", end="", file=sys.stderr, flush=True)

    def __call__(self, done: int, total: int) -> None:
        """Redraw; on a terminal only."""
        seconds = perf_counter() - self.start
        if self.shown and seconds > 1 and total:
            full = 30 * done // total
            bar = "#" * full + "." * (30 - full)
            text = f"\r  {self.what:<28}[{bar}] {done / total:4.0%}"
            print(text, end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Leave the line empty."""
        if self.shown:
            print("\r" + " " * 70 + "\r", end="", file=sys.stderr, flush=True)


def methods() -> dict[str, object]:
    """Name the three; all of them are estimators of scikit-learn."""
    return {
        "exact SST + SVM": tk.TreeSVC(KERNEL, C=10, multi_class="ovr"),
        "distributed trees + linear": make_pipeline(
            tk.DistributedTreeEncoder(KERNEL, 8192, prune=True, random_state=0),
            RidgeClassifierCV(alphas=(0.1, 0.3, 1.0, 3.0)),
        ),
        "online perceptron": tk.TreePerceptron(KERNEL, n_iter=1, random_state=0),
    }


def fit_in_passes(
    model: tk.TreePerceptron, X: tk.Forest, y: np.ndarray, bar: Bar, n: int = 5
) -> None:
    """Let a perceptron go through the trees in parts, as they would come."""
    rng = np.random.default_rng(0)
    for number in range(n):
        order = rng.permutation(len(X))
        for start in range(0, len(X), 100):
            part = order[start : start + 100]
            model.partial_fit(X[part], y[part], classes=np.unique(y))
            bar(number * len(X) + start + len(part), n * len(X))


def main() -> None:
    """Learn, compare, explain."""
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "demo.html")
    print(f"Python {sys.version.split()[0]}: which package is a function from?")
    start = perf_counter()
    bar = Bar("reading the library")
    data = tk.datasets.python_functions(identifiers=True)
    bar.close()
    y = np.array(data.classes)[data.y]
    names = np.array(data.names)
    train, test = train_test_split(
        np.arange(len(y)), test_size=0.25, stratify=y, random_state=0
    )
    X, X_test = data.forest[train], data.forest[test]
    about = (
        f"{len(train):,} functions to learn from, {len(test):,} to classify; "
        f"{data.forest.n_nodes.mean():.0f} nodes on average"
    )
    packages = f"{len(data.classes)} packages: {', '.join(data.classes)}"
    print(f"  read as syntax trees in {perf_counter() - start:.1f} s")
    print(f"  {about}\n  {packages}\n")
    heads = ("method", "accuracy", "training", "prediction", "model")
    print("  {:<28}{:>9}{:>11}{:>13}{:>11}".format(*heads))
    fitted = {}
    for name, model in methods().items():
        bar = Bar(name)
        start = perf_counter()
        if isinstance(model, tk.TreePerceptron):
            fit_in_passes(model, X, y[train], bar)
        else:
            model.fit(X, y[train])
        training = perf_counter() - start
        bar.close()
        start = perf_counter()
        right = model.predict(X_test) == y[test]
        prediction = perf_counter() - start
        row = (
            name,
            f"{right.mean():.1%}",
            f"{training:.2f} s",
            f"{prediction * 1e3:.0f} ms",
            f"{len(pickle.dumps(model)) / 1e6:.1f} MB",
        )
        print("  {:<28}{:>9}{:>11}{:>13}{:>11}".format(*row), flush=True)
        fitted[name] = model

    svc = fitted["exact SST + SVM"]
    start = perf_counter()
    found = svc.top_fragments(3, min_size=2)
    seconds = perf_counter() - start
    print(f"\n  What speaks for a package, found in {seconds * 1e3:.0f} ms:")
    for fragment in found:
        print(f"    {fragment.output:<16}{fragment.weight:+7.3f}  {fragment.tree}")

    tk.report(
        svc,
        X_test,
        y[test],
        path,
        training=(X, y[train]),
        names=names[test],
        title="Which package does a function come from?",
        min_size=2,
    )
    print(f"\n  Scores, fragments and explained functions: {path.resolve()}")


if __name__ == "__main__":
    main()
