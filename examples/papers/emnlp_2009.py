"""Zanzotto & Dell'Arciprete, "Efficient kernels for sentence pair classification" (EMNLP 2009).

Figure 7 (time of K and K_max by the product of the numbers of placeholders), figure 8 (time
of a matrix by the largest number of placeholders allowed) and table 1 (accuracy).

    python examples/papers/emnlp_2009.py [--most 800] [--plot emnlp_2009.png]

Pairs are those of RTE-3's development set: docs/DATA.md says how to build it; without it, pairs
are generated. No free parses of the paper's other sets are known, so table 1 is a ten-fold
cross-validation. K_max is timed as the paper computes it, by trying all correspondences.
C is chosen within the training parts. Needs scikit-learn.
"""

from __future__ import annotations

import argparse
import re

import numpy as np
from _common import (
    best_svm,
    draw,
    grown,
    options,
    rows,
    seconds,
    table,
    with_interval,
)
from sklearn.model_selection import StratifiedKFold

import treekernel_rs as tk

METHODS = {"K": "exact", "K, paper's construction": "paper", "K_max": "max_enumerated"}


def corpus(most: int, args: argparse.Namespace) -> tuple[tk.PairForest, np.ndarray]:
    """Return linked pairs and whether the first entails the second."""
    found = rows("rte/rte3_dev_parsed.tsv.gz", args)
    if found is None:
        rng = np.random.default_rng(4)
        y = np.arange(most) % 2 == 0
        texts = [grown(rng, "NPV", 3).replace("(N ", "(NN ") for _ in y]
        swapped = [grown(rng, "PNV", 2).replace("(N ", "(NN ") for _ in y]
        others = [t if c else s for c, t, s in zip(y, texts, swapped, strict=True)]
        return tk.PairForest.anchored(texts, others), y
    found = found[:most]
    pairs = tk.PairForest.anchored([r[4] for r in found], [r[5] for r in found])
    return pairs, np.array([row[3] == "YES" for row in found])


def at_most(pairs: tk.PairForest, n: int) -> tk.PairForest:
    """Take away all placeholders above n."""

    def limited(tree: str) -> str:
        return re.sub(r":(\d+)(?=[ )])", lambda m: m[0] if int(m[1]) <= n else "", tree)

    return tk.PairForest.from_brackets(
        [limited(pair.left) for pair in pairs], [limited(pair.right) for pair in pairs]
    )


def figure_7(pairs: tk.PairForest, n_pairs: int) -> dict[str, tuple[list, list]]:
    """Print milliseconds of a kernel by the product of the numbers of placeholders."""
    counts = np.asarray(pairs.n_placeholders)
    curves: dict[str, tuple[list, list]] = {name: ([], []) for name in METHODS}
    body, known = [], {}
    for n in range(1, 11):
        group = pairs[np.flatnonzero(counts == n)[:n_pairs].tolist()]
        if len(group) < 2:
            continue
        line: list[object] = [n * n, len(group)]
        for name, method in METHODS.items():
            if known.get(name, 0.0) > 5:  # the next one takes n times as long
                line.append("-")
                continue
            kernel = tk.PairKernel(0.4, method=method)
            try:
                known[name] = seconds(lambda k=kernel, x=group: k.gram(x, n_jobs=1))
            except tk.pairs.ConstraintLimitError:  # too many correspondences to try
                line.append("-")
                continue
            line.append(1e3 * known[name] / (len(group) * (len(group) + 1) / 2))
            curves[name][0].append(n * n)
            curves[name][1].append(line[-1])
        body.append(line)
    head = ("n * m", "pairs", *METHODS)
    table(
        "Figure 7: milliseconds a kernel, between pairs of n placeholders",
        head,
        body,
        5,
    )
    return curves


def figure_8(pairs: tk.PairForest, largest: int) -> dict[str, tuple[list, list]]:
    """Print the seconds of a matrix by the number of placeholders that are allowed."""
    curves: dict[str, tuple[list, list]] = {name: ([], []) for name in METHODS}
    body, known = [], {}
    for n in range(1, largest + 1):
        limited, line = at_most(pairs, n), [n]
        for name, method in METHODS.items():
            if known.get(name, 0.0) > 20:  # the next one takes n times as long
                line.append("-")
                continue
            kernel = tk.PairKernel(0.4, method=method)
            try:
                known[name] = seconds(lambda k=kernel, x=limited: k.gram(x, n_jobs=1))
            except tk.pairs.ConstraintLimitError:
                line.append("-")
                continue
            line.append(float(known[name]))
            curves[name][0].append(n)
            curves[name][1].append(known[name])
        body.append(line)
    title = f"Figure 8: seconds for the matrix of {len(pairs)} pairs, by placeholders allowed"
    table(title, ("placeholders", *METHODS), body, 2)
    return curves


def table_1(pairs: tk.PairForest, y: np.ndarray, short: bool) -> None:
    """Print accuracies in cross-validation, with four ways to make the folds."""
    n_folds, seeds = (3, 2) if short else (10, 4)
    methods = {"K_max": "max", "K": "exact"}
    matrices = {
        name: tk.PairKernel(0.4, method=method, normalize=True)(pairs)
        for name, method in methods.items()
    }
    right: dict[str, list[list[float]]] = {name: [] for name in methods}
    supports: dict[str, list[int]] = {name: [] for name in methods}
    for seed in range(seeds):
        folds = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
        for name, K in matrices.items():
            found = []
            for train, test in folds.split(K, y):
                svm = best_svm(K[np.ix_(train, train)], y[train], (0.1, 1, 10))
                said = svm.predict(K[np.ix_(test, train)])
                found.append(float(np.mean(said == y[test])))
                supports[name].append(len(svm.support_))
            right[name].append(found)
    body: list[list[object]] = [
        [
            name,
            *(with_interval(found) for found in right[name]),
            f"{np.mean(supports[name]):.0f}",
        ]
        for name in methods
    ]
    both = zip(right["K"], right["K_max"], strict=True)
    differences = (np.subtract(one, other) for one, other in both)
    body.append(["K - K_max", *map(with_interval, differences), ""])
    head = ("kernel", *(f"folds {seed}" for seed in range(seeds)), "support vectors")
    table(f"Table 1: accuracy of entailment, mean of {n_folds} folds", head, body)


def main() -> None:
    """Print the tables, draw the figures."""
    parser = options(__doc__)
    parser.add_argument("--most", type=int, default=800, help="pairs")
    args = parser.parse_args()
    pairs, y = corpus(24 if args.short else args.most, args)
    print(f"{len(pairs)} pairs, {np.mean(pairs.n_placeholders):.1f} placeholders each")
    seven = figure_7(pairs, 5 if args.short else 50)
    eight = figure_8(pairs[: 12 if args.short else 200], 3 if args.short else 14)
    table_1(pairs, y, args.short)
    draw(
        args,
        [
            {"title": "Figure 7: one kernel", "xlabel": "n * m placeholders",
             "ylabel": "milliseconds", "curves": seven, "log": "y"},
            {"title": "Figure 8: the matrix", "xlabel": "placeholders allowed",
             "ylabel": "seconds", "curves": eight, "log": "y"},
        ],
    )  # fmt: skip


if __name__ == "__main__":
    main()
