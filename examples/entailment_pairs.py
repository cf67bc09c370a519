"""Textual entailment with kernels of sentence pairs.

Does the text entail the hypothesis? Each pair is linked by `PairForest.anchored`; a
support vector machine is given the pair kernel, which compares rewrite rules, plus a
polynomial kernel of lexical overlap, which rules do not see: the share of the
hypothesis' content words that the text has. As in Zanzotto & Dell'Arciprete, "Efficient
kernels for sentence pair classification" (EMNLP 2009); accuracies are cross-validated on
the development pairs of RTE-3 (yes or no) and on a part of SNLI's (three classes).

    python examples/entailment_pairs.py [--folds 10] [--repeats 3] [--decay 0.4] [--cost 1]

Data are those of docs/DATA.md, from the folder --data; without them, a few written pairs
show what goes on. Needs scikit-learn.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from _data import HINT, add_argument, find, rows
from sklearn.model_selection import RepeatedStratifiedKFold, cross_val_score
from sklearn.svm import SVC

import treekernel_rs as tk

FILES = {
    "RTE-3 development": ("rte/rte3_dev_parsed.tsv.gz", 3, 4, 5),
    "SNLI development (part)": ("snli/dev.tsv.gz", 0, 1, 2),
}
WRITTEN = [
    ("YES", "(S (NP (NNS Cows)) (VP (VB eat) (NP (NN grass))))", "(S (NP (NNS Cows)) (VP (VB eat)))"),
    ("NO", "(S (NP (NNS Cows)) (VP (VB eat)))", "(S (NP (NN Grass)) (VP (VB eats) (NP (NNS cows))))"),
    ("YES", "(S (NP (NNS Dogs)) (VP (VB chase) (NP (NNS cats))))", "(S (NP (NNS Dogs)) (VP (VB chase)))"),
    ("NO", "(S (NP (NNS Dogs)) (VP (VB chase)))", "(S (NP (NNS Cats)) (VP (VB chase) (NP (NNS dogs))))"),
]  # fmt: skip


def corpora(data: Path | None) -> dict[str, list[tuple[str, str, str]]]:
    """Return class, left tree and right tree of each pair."""
    found = {}
    for name, (file, y, left, right) in FILES.items():
        if path := find(file, data):
            found[name] = [(row[y], row[left], row[right]) for row in rows(path)]
    if not found:
        print(f"no pairs of RTE-3 and SNLI: {HINT}")
    return found or {"written pairs": WRITTEN * 10}


def overlap(pairs: tk.PairForest) -> np.ndarray:
    """Return for each pair the share of tags in the right tree that are linked."""
    shares = []
    for pair in pairs:
        # A tag with its word is the innermost bracket; a linked one has a placeholder.
        tags = [part.split("(")[-1] for part in pair.right.split(")") if "(" in part]
        words = [tag.split(" ")[0] for tag in tags]
        content = [w for w in words if w.startswith(("NN", "VB", "JJ", "RB", "CD"))]
        linked = [word for word in content if ":" in word]
        shares.append(len(linked) / max(len(content), 1))
    return np.array(shares)


def accuracy(matrix: np.ndarray, y: list[str], options: argparse.Namespace) -> str:
    folds = RepeatedStratifiedKFold(
        n_splits=options.folds, n_repeats=options.repeats, random_state=0
    )
    svm = SVC(kernel="precomputed", C=options.cost)
    scores = cross_val_score(svm, matrix, y, cv=folds)
    error = scores.std() / np.sqrt(options.folds)
    return f"{100 * scores.mean():5.1f} ± {100 * error:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folds", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--decay", type=float, default=0.4)
    parser.add_argument("--cost", type=float, default=1.0)
    add_argument(parser)
    options = parser.parse_args()
    for name, texts in corpora(options.data).items():
        y, left, right = map(list, zip(*texts, strict=True))
        start = time.perf_counter()
        pairs = tk.PairForest.anchored(left, right)
        seconds = time.perf_counter() - start
        most = max(y.count(label) for label in set(y))
        print(
            f"{name}: {len(pairs)} pairs, {pairs.n_placeholders.mean():.1f} placeholders "
            f"each, linked in {seconds:.2f} s; most frequent class "
            f"{100 * most / len(y):.1f} %"
        )
        share = overlap(pairs)
        lexical = (1 + np.outer(share, share)) ** 2 / 4
        print(f"  {'overlap':22}         {accuracy(lexical, y, options)} %")
        for method in ["exact", "paper", "max"]:
            kernel = tk.PairKernel(options.decay, method=method, normalize=True)
            start = time.perf_counter()
            try:
                matrix = kernel(pairs)
            except tk.pairs.ConstraintLimitError as error:
                print(f"  {method}: not all values: {error}")
                continue
            seconds = time.perf_counter() - start
            least = np.linalg.eigvalsh(matrix)[0]
            print(
                f"  {method:22} {seconds:5.2f} s {accuracy(matrix, y, options)} %"
                f"   least eigenvalue {least:.1e}"
            )
            both = accuracy(matrix + lexical, y, options)
            print(f"  {method + ' + overlap':22}         {both} %")


if __name__ == "__main__":
    main()
