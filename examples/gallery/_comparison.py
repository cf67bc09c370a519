"""What the gallery's examples share: accuracies over folds, and their picture."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedGroupKFold,
    StratifiedKFold,
)
from sklearn.svm import SVC

if TYPE_CHECKING:
    from collections.abc import Callable

    Results = dict[str, tuple[float, float]]


def folds(y: Any, groups: Any = None) -> Any:
    """Return three folds; those of a group stay together."""
    kind = StratifiedKFold if groups is None else StratifiedGroupKFold
    return kind(3, shuffle=True, random_state=0).split(y, y, groups)


def accuracy(grams: list[Any], y: Any, groups: Any = None) -> tuple[float, float]:
    """Return mean and deviation over folds.

    Matrix and C are chosen within each training part.
    """
    scores = []
    for train, test in folds(y, groups):
        found = []
        for gram in grams:
            model = GridSearchCV(SVC(kernel="precomputed"), {"C": [1, 10, 100]}, cv=3)
            model.fit(gram[np.ix_(train, train)], y[train])
            found.append((model.best_score_, model, gram))
        _, model, gram = max(found, key=lambda item: item[0])
        scores.append(model.score(gram[np.ix_(test, train)], y[test]))
    return float(np.mean(scores)), float(np.std(scores))


def tfidf(tokens: list[list[str]]) -> Any:
    """Return the linear kernel of bags of tokens."""
    vectors = TfidfVectorizer(analyzer=list, sublinear_tf=True).fit_transform(tokens)
    return (vectors @ vectors.T).toarray()


def show(results: Results, path: Path, without: str, what: str) -> None:
    """Draw accuracies; names with `without` need no kernel of trees."""
    import matplotlib.pyplot as plt

    names = list(results)[::-1]
    figure, axes = plt.subplots(figsize=(7, 3.4), layout="constrained")
    colours = ["#67a9cf" if without in name else "#b2182b" for name in names]
    means = [results[name][0] for name in names]
    axes.barh(names, means, xerr=[results[name][1] for name in names], color=colours)
    for at, mean in enumerate(means):
        axes.text(0.01, at, f"{mean:.3f}", va="center", color="white")
    axes.set_xlabel(f"accuracy of {what}, three folds (bars: deviation of folds)")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main(
    doc: str | None,
    run: Callable[..., Results],
    option: str,
    default: int | None,
    **shown: str,
) -> None:
    """Read the options, run the comparison, print and draw it."""
    parser = argparse.ArgumentParser(description=(doc or "").split("\n")[0])
    parser.add_argument(option, dest="size", type=int, default=default)
    stem = shown.pop("stem")
    parser.add_argument("--out", type=Path, default=Path(f"{stem}.png"))
    options = parser.parse_args()
    results = run(options.size)
    for name, (mean, deviation) in results.items():
        print(f"{name:34} {mean:.3f} ± {deviation:.3f}")
    show(results, options.out, **shown)
