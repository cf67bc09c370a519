"""What the gallery's examples share: accuracies over folds, and their picture."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfTransformer, TfidfVectorizer
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedGroupKFold,
    StratifiedKFold,
)
from sklearn.svm import SVC

import treekernel_rs as tk

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Results = dict[str, tuple[float, float]]


def folds(y: Any, groups: Any = None) -> Any:
    """Return three folds; those of a group stay together."""
    kind = StratifiedKFold if groups is None else StratifiedGroupKFold
    return kind(3, shuffle=True, random_state=0).split(y, y, groups)


def accuracy(grams: list[Any], y: Any, groups: Any = None) -> tuple[float, float]:
    """Return mean and deviation over folds.

    Matrix and C are chosen within each training part, by folds that keep groups together.
    """
    scores = []
    for train, test in folds(y, groups):
        inner = list(folds(y[train], None if groups is None else groups[train]))
        found = []
        for gram in grams:
            grid = {"C": [1, 10, 100]}
            model = GridSearchCV(SVC(kernel="precomputed"), grid, cv=inner)
            model.fit(gram[np.ix_(train, train)], y[train])
            found.append((model.best_score_, model, gram))
        _, model, gram = max(found, key=lambda item: item[0])
        scores.append(model.score(gram[np.ix_(test, train)], y[test]))
    return float(np.mean(scores)), float(np.std(scores))


def by_forest(table: Any, y: Any, groups: Any = None) -> tuple[float, float]:
    """Return the same of a random forest on a table."""
    scores = []
    for train, test in folds(y, groups):
        model = RandomForestClassifier(300, random_state=0).fit(table[train], y[train])
        scores.append(model.score(table[test], y[test]))
    return float(np.mean(scores)), float(np.std(scores))


def n_grams(tokens: list[list[str]], longest: int = 1) -> Any:
    """Return the linear kernel of n-grams of tokens, with sublinear tf-idf."""
    vectors = TfidfVectorizer(
        preprocessor=lambda each: each,
        tokenizer=lambda each: each,
        token_pattern=None,
        ngram_range=(1, longest),
        sublinear_tf=True,
    ).fit_transform(tokens)
    return (vectors @ vectors.T).toarray()


def bags(forest: tk.Forest, kind: str) -> Any:
    """Return the linear kernel of labels or edges, with sublinear tf-idf."""
    counts = tk.TreeVectorizer(kind).fit_transform(forest)
    rows = TfidfTransformer(sublinear_tf=True).fit_transform(counts)
    return (rows @ rows.T).toarray()


def show(results: Results, path: Path, without: Sequence[str], what: str) -> None:
    """Draw accuracies, the best above; names with `without` need no kernel of trees."""
    import matplotlib.pyplot as plt

    names = sorted(results, key=lambda name: results[name][0])
    figure, axes = plt.subplots(
        figsize=(7, 0.9 + 0.27 * len(names)), layout="constrained"
    )
    for at, name in enumerate(names):
        mean, deviation = results[name]
        colour = "#2166ac" if any(map(name.__contains__, without)) else "#b2182b"
        axes.barh(at, mean, color=colour)
        axes.errorbar(mean, at, xerr=deviation, color="black", capsize=2, lw=1)
        axes.text(0.01, at, f"{mean:.3f}", va="center", color="white")
    axes.set_yticks(range(len(names)), names)
    axes.set(xlim=(0, 1), ylim=(-0.6, len(names) - 0.4))
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel(f"accuracy: {what}; three folds and their deviation")
    axes.set_title("red: kernels of trees; blue: without", fontsize=9, loc="left")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main(
    doc: str | None,
    run: Callable[..., Results],
    option: str,
    default: int | None,
    **shown: Any,
) -> None:
    """Read the options, run the comparison, print, draw and perhaps record it."""
    parser = argparse.ArgumentParser(description=(doc or "").split("\n")[0])
    parser.add_argument(option, dest="size", type=int, default=default)
    stem = shown.pop("stem")
    parser.add_argument("--out", type=Path, default=Path(f"{stem}.png"))
    parser.add_argument("--record", type=Path, help="a JSON file that gets the results")
    options = parser.parse_args()
    results = run(options.size)
    for name, (mean, deviation) in results.items():
        print(f"{name:34} {mean:.3f} ± {deviation:.3f}")
    show(results, options.out, **shown)
    if options.record:
        known = {}
        if options.record.exists():
            known = json.loads(options.record.read_text(encoding="utf-8"))
        rounded = {
            name: [round(mean, 3), round(deviation, 3)]
            for name, (mean, deviation) in results.items()
        }
        known[stem] = {"shown": shown, "results": rounded}
        text = json.dumps(known, indent=1, sort_keys=True)
        options.record.write_text(f"{text}\n", encoding="utf-8")
