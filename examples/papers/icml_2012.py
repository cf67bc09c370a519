"""Zanzotto & Dell'Arciprete, "Distributed Tree Kernels" (ICML 2012).

The properties 2.1 to 2.6 of a composition, figure 2b in the paper's own order (growth of
variance with the number of vectors), figure 3 (accuracy of question classification by
decay, exact kernel and distributed trees; also by the length of the vectors) and figure 4
(the same for textual entailment). `examples/dtk_tables.py` has table 2, figure 2a and
figure 5.

    python examples/papers/icml_2012.py [--most 5452] [--plot icml_2012.png]

Questions are TREC's, entailment pairs those of RTE-3's development set (the only ones with free
parses; ten-fold cross-validation in place of the paper's test sets): docs/DATA.md says how to
build both; without them, trees are generated. C is chosen on the training
sets; kernels are normalised. Needs scikit-learn.
"""

from __future__ import annotations

import argparse

import numpy as np
from _common import best_svm, draw, forest, grown, options, rows, table
from sklearn.model_selection import StratifiedKFold

import treekernel_rs as tk

DECAYS = (0.2, 0.4, 0.6, 0.8, 1.0)
PAPERS = ("convolution", "gamma")
COMPOSITIONS = ("quaternion", "sign", "phasor", *PAPERS)
D = 8192


def encoder(
    composition: str, decay: float, d: int, seed: int = 0
) -> tk.DistributedTrees:
    """Return the paper's encoder, or with quaternions the library's default."""
    paper = composition in PAPERS
    return tk.DistributedTrees(
        tk.SubsetTreeKernel(decay),
        d,
        composition=composition,
        fold="right" if paper else "left",
        zero_mean=not paper,
        random_state=seed,
    )


def properties(d: int, n_samples: int) -> None:
    """Print how far each composition is from the ideal one of definition 2."""
    body = []
    for composition in COMPOSITIONS:
        found: list[list[float]] = [[] for _ in range(6)]
        for seed in range(n_samples):
            enc = encoder(composition, 1.0, d, seed)
            a, b, c, e = (enc.label_vector(name).astype(float) for name in "abce")

            def o(x: np.ndarray, y: np.ndarray, enc: tk.DistributedTrees = enc):
                return enc.compose(x, y).astype(float)

            def cosine(x: np.ndarray, y: np.ndarray) -> float:
                return abs(float(x @ y)) / float(np.linalg.norm(x) * np.linalg.norm(y))

            t = o(o(o(a, b), c), e)
            values = (
                cosine(o(a, b), o(b, a)),  # 2.1
                cosine(o(a, o(b, c)), o(o(a, b), c)),  # 2.2
                float(np.abs(o(a + 2 * b, c) - o(a, c) - 2 * o(b, c)).max()),  # 2.3
                abs(float(np.linalg.norm(o(a, b))) - 1),  # 2.4
                cosine(a, t),  # 2.5
                cosine(o(a, t), o(b, t)),  # 2.6
            )
            for own, value in zip(found, values, strict=True):
                own.append(value)
        body.append([composition, *(f"{np.mean(own):.1e}" for own in found)])
    table(
        f"Definition 2: means of {n_samples} seeds, d = {d}; the ideal is 0 everywhere",
        (
            "composition",
            "2.1 |ab.ba|",
            "2.2 |a(bc).(ab)c|",
            "2.3 linear",
            "2.4 norm - 1",
            "2.5 |a.t|",
            "2.6 |at.bt|",
        ),
        body,
    )


def figure_2b(d: int, n_samples: int) -> dict[str, tuple[list[int], list[float]]]:
    """Print the variance of dot products of two chains, of which one vector differs."""
    sizes = (2, 5, 10, 20, 30)
    curves = {}
    body = []
    for place in ("first", "last"):
        for composition in COMPOSITIONS:
            variances = []
            for k in sizes:
                dots = []
                for seed in range(n_samples):
                    enc = encoder(composition, 1.0, d, seed)
                    names = [f"x{i}" for i in range(k)]
                    other = (
                        ["y", *names[1:]] if place == "first" else [*names[:-1], "y"]
                    )
                    # The paper's chain: x1 (x2 (x3 ...)).
                    chains = []
                    for chain in (names, other):
                        *rest, inner = map(enc.label_vector, chain)
                        for vector in reversed(rest):
                            inner = enc.compose(vector, inner)
                        chains.append(inner.astype(float))
                    dots.append(float(chains[0] @ chains[1]))
                variances.append(float(np.var(dots) * d))
            body.append([f"{composition}, {place}", *variances])
            curves[f"{composition}, {place}"] = (list(sizes), variances)
    table(
        f"Figure 2b: variance x d, x1 (x2 (x3 ...)), {n_samples} samples, d = {d}",
        ("composition, the other vector", *sizes),
        body,
        2,
    )
    return {name: curve for name, curve in curves.items() if name.endswith("first")}


def questions(most: int, args: argparse.Namespace) -> tuple[tk.Forest, np.ndarray, int]:
    """Return trees, classes, and how many of them, the first, are for training."""
    train = rows("qc/const_train.tsv.gz", args)
    rng = np.random.default_rng(2)
    if train is None:
        y = rng.integers(0, 3, most + most // 2)
        lines = [grown(rng, ("NPV", "PVN", "VNP")[c], 3) for c in y]
        return forest(lines), y, most
    test = rows("qc/const_test.tsv.gz", args) or []
    chosen = rng.permutation(len(train))[:most]
    both = [train[k] for k in chosen] + test
    return forest([row[3] for row in both]), np.array([r[0] for r in both]), len(chosen)


def figure_3(
    trees: tk.Forest, y: np.ndarray, n: int, seed: int, d: int
) -> dict[str, tuple[list[float], list[float]]]:
    """Print the accuracy of question classification by decay."""
    curves: dict[str, list[float]] = {}
    for decay in DECAYS:
        K = tk.SubsetTreeKernel(decay, normalize=True)(trees, trees[:n])
        curves.setdefault("TK", []).append(accuracy(K, y, n))
        for composition in ("quaternion", *PAPERS):
            V = unit_vectors(encoder(composition, decay, d, seed), trees)
            K = (V @ V[:n].T).astype(float)
            curves.setdefault(f"DTK {composition}", []).append(accuracy(K, y, n))
    table(
        f"Figure 3: accuracy, {n:,} questions for training, {len(y) - n:,} for test, d = {d}",
        ("decay", *DECAYS),
        [[name, *values] for name, values in curves.items()],
    )
    return {name: (list(DECAYS), values) for name, values in curves.items()}


def by_length(
    trees: tk.Forest, y: np.ndarray, n: int, seed: int, largest: int
) -> dict[str, tuple[list[int], list[float]]]:
    """Print the accuracy of question classification by the length of the vectors."""
    lengths = [largest // 2**k for k in range(5, -1, -1)]
    curves: dict[str, list[float]] = {}
    for composition in ("quaternion", "convolution"):
        for decay in (0.2, 0.4, 0.6, 0.8):
            for d in lengths:
                V = unit_vectors(encoder(composition, decay, d, seed), trees)
                found = accuracy((V @ V[:n].T).astype(float), y, n)
                curves.setdefault(f"{composition}, decay {decay}", []).append(found)
    table(
        f"Accuracy by the length d of the vectors, {n:,} questions for training",
        ("d", *lengths),
        [[name, *values] for name, values in curves.items()],
    )
    return {name: (lengths, values) for name, values in curves.items()}


def accuracy(K: np.ndarray, y: np.ndarray, n: int) -> float:
    """Return the accuracy on the test set, C chosen on the first n trees."""
    return float(np.mean(best_svm(K[:n], y[:n]).predict(K[n:]) == y[n:]))


def unit_vectors(enc: tk.DistributedTrees, trees: tk.Forest) -> np.ndarray:
    """Return the vectors of trees, divided by their lengths."""
    V = enc.encode(trees)
    return V / np.maximum(np.linalg.norm(V, axis=1, keepdims=True), 1e-30)


def figure_4(args, d: int) -> dict[str, tuple[list[float], list[float]]]:
    """Print the accuracy of entailment by decay: K(t1,t2) + K(h1,h2), and with words."""
    found = rows("rte/rte3_dev_parsed.tsv.gz", args)
    rng = np.random.default_rng(3)
    if found is None:
        y = rng.integers(0, 2, 60)
        texts = [grown(rng, "NPV", 3) for _ in y]
        others = [grown(rng, "PVN", 3) for _ in y]
        hypotheses = [t if c else o for c, t, o in zip(y, texts, others, strict=True)]
    else:
        y = np.array([row[3] == "YES" for row in found])
        texts, hypotheses = [r[4] for r in found], [r[5] for r in found]
    n = len(y)
    trees = forest([*texts, *hypotheses])
    words = [{x for x in line.replace(")", " ").split() if "(" not in x} for line in
             (*texts, *hypotheses)]  # fmt: skip
    lex = np.array(
        [len(t & h) / max(1, len(h)) for t, h in zip(words[:n], words[n:], strict=True)]
    )
    curves: dict[str, list[float]] = {}
    for decay in DECAYS:
        kernel = tk.SubsetTreeKernel(decay, normalize=True)
        matrices = {"TK": kernel(trees[:n]) + kernel(trees[n:])}
        for composition in ("quaternion", *PAPERS):
            V = unit_vectors(encoder(composition, decay, d, args.seed), trees)
            K = (V[:n] @ V[:n].T + V[n:] @ V[n:].T).astype(float)
            matrices[f"DTK {composition}"] = K
        for name, K in list(matrices.items()):
            matrices[f"{name} + Lex"] = K + np.outer(lex, lex)
        for name, K in matrices.items():
            right = []
            for train, test in StratifiedKFold(
                3 if args.short else 10, shuffle=True, random_state=args.seed
            ).split(K, y):
                svm = best_svm(K[np.ix_(train, train)], y[train], (0.1, 1, 10))
                right.append(np.mean(svm.predict(K[np.ix_(test, train)]) == y[test]))
            curves.setdefault(name, []).append(float(np.mean(right)))
    table(
        f"Figure 4: accuracy of entailment, {n} pairs, cross-validated, d = {d}",
        ("decay", *DECAYS),
        [[name, *values] for name, values in sorted(curves.items())],
    )
    return {name: (list(DECAYS), values) for name, values in curves.items()}


def main() -> None:
    """Print the tables, draw the figures."""
    parser = options(__doc__)
    parser.add_argument("--most", type=int, default=5452, help="training questions")
    args = parser.parse_args()
    d, n_samples = (256, 5) if args.short else (D, 100)
    args.most = 60 if args.short else args.most
    properties(d, n_samples)
    trees, y, n = questions(args.most, args)
    half = np.r_[: min(n, 2000), n : len(y)]  # enough for the curves by length
    some = trees[half.tolist()], y[half], min(n, 2000)
    panels = (
        (
            "Figure 2b: first vector replaced",
            "vectors",
            "variance x d",
            figure_2b(d, n_samples),
        ),
        (
            "Figure 3: questions",
            "decay",
            "accuracy",
            figure_3(trees, y, n, args.seed, d),
        ),
        ("Questions", "d", "accuracy", by_length(*some, args.seed, d)),
        ("Figure 4: entailment", "decay", "accuracy", figure_4(args, d)),
    )
    draw(
        args,
        [
            {"title": title, "xlabel": x, "ylabel": y, "curves": curves, "log": k == 0}
            for k, (title, x, y, curves) in enumerate(panels)
        ],
    )


if __name__ == "__main__":
    main()
