"""Zanzotto & Dell'Arciprete, "Distributed Tree Kernels" (ICML 2012).

The properties 2.1 to 2.6 of a composition, figure 2b in the paper's own order (growth of
variance with the number of vectors), figure 3 (accuracy of question classification by
decay, exact kernel and distributed trees; also by the length of the vectors) and figure 4
(the same for textual entailment). `examples/dtk_tables.py` has table 2, figure 2a and
figure 5.

    python examples/papers/icml_2012.py [--most 5452] [--seeds 5] [--plot icml_2012.png]

Questions are TREC's, entailment pairs those of RTE-3's development set (the only ones with free
parses; ten-fold cross-validation in place of the paper's test sets): docs/DATA.md says how to
build both; without them, trees are generated. As in the paper, a question has
the class of the most certain of six machines, one against all. Kernels are normalised. C is
chosen on the training sets, with the vectors of the first seed. Figures 3 and 4
are means over seeds of the encoder, with 95 % intervals of the mean. Needs scikit-learn.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterable, Sequence

import numpy as np
from _common import (
    best_svm,
    draw,
    forest,
    grown,
    interval,
    options,
    rows,
    table,
    with_interval,
)
from sklearn.model_selection import StratifiedKFold

import treekernel_rs as tk

DECAYS = (0.2, 0.4, 0.6, 0.8, 1.0)
PAPERS = ("convolution", "gamma")
COMPOSITIONS = ("quaternion", "sign", "phasor", *PAPERS)
D = 8192


Curves = dict[str, tuple[list[float], list[float], list[float]]]


def encoder(
    composition: str, decay: float, d: int, seed: int = 0, fold: str | None = None
) -> tk.DistributedTrees:
    """Return the paper's encoder, or with other compositions the library's default."""
    paper = composition in PAPERS
    return tk.DistributedTrees(
        tk.SubsetTreeKernel(decay),
        d,
        composition=composition,
        fold=fold or ("right" if paper else "left"),
        zero_mean=not paper,
        random_state=seed,
    )


def cosine(x: np.ndarray, y: np.ndarray) -> float:
    return abs(float(x @ y)) / float(np.linalg.norm(x) * np.linalg.norm(y))


def properties(d: int, n_samples: int) -> None:
    """Print how far each composition is from the ideal one of definition 2.

    All compositions are composed in the paper's order, x1 (x2 (x3 ...)).
    """
    body = []
    for composition in COMPOSITIONS:
        samples = []
        for seed in range(n_samples):
            enc = encoder(composition, 1.0, d, seed)
            a, b, c, e, f = (enc.label_vector(name).astype(float) for name in "abcef")

            def o(x: np.ndarray, y: np.ndarray, enc: tk.DistributedTrees = enc):
                return enc.compose(x, y).astype(float)

            rest = o(c, o(e, f))
            t, other = o(a, o(b, rest)), o(b, rest)
            samples.append(
                (
                    cosine(o(a, b), o(b, a)),  # 2.1
                    cosine(o(a, o(b, c)), o(o(a, b), c)),  # 2.2
                    float(np.abs(o(a + 2 * b, c) - o(a, c) - 2 * o(b, c)).max()),  # 2.3
                    abs(float(np.linalg.norm(o(a, b))) - 1),  # 2.4
                    cosine(a, t),  # 2.5, a in t
                    cosine(a, other),  # 2.5, a not in t
                    cosine(o(a, rest), other),  # 2.6
                )
            )
        means = np.mean(samples, axis=0)
        body.append([composition, *(f"{mean:.1e}" for mean in means)])
    table(
        f"Definition 2: means of {n_samples} seeds, d = {d}; the ideal is 0 everywhere",
        (
            "composition",
            "2.1 |ab.ba|",
            "2.2 |a(bc).(ab)c|",
            "2.3 linear",
            "2.4 norm - 1",
            "2.5 |a.t|, a in t",
            "a not in t",
            "2.6 |at.bt|",
        ),
        body,
    )


def swaps(d: int, n_samples: int) -> None:
    """Print property 2.1 over chains: a c1 .. cj b compared with b c1 .. cj a."""
    between = (0, 1, 3, 8, 20)
    body = []
    for composition in COMPOSITIONS:
        for fold in ("right", "left"):
            cells = []
            for j in between:
                inner = " ".join(f"c{i}" for i in range(j))
                found = []
                for seed in range(n_samples):
                    enc = encoder(composition, 1.0, d, seed, fold)
                    chains = (f"(a {inner} b)", f"(b {inner} a)")
                    found.append(
                        cosine(*(enc.fragment(x).astype(float) for x in chains))
                    )
                cells.append(f"{np.mean(found):.3f} {np.max(found):.3f}")
            body.append([f"{composition}, {fold}", *cells])
    table(
        f"Property 2.1 over chains: |cosine| of a c1 .. cj b and b c1 .. cj a, by j; mean "
        f"and largest of {n_samples} seeds, d = {d}",
        ("composition, fold", *between),
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


def figure_3(trees: tk.Forest, y: np.ndarray, n: int, seeds: range, d: int) -> Curves:
    """Print the accuracy of question classification by decay."""
    found: dict[str, list[list[float]]] = {}
    for decay in DECAYS:
        K = tk.SubsetTreeKernel(decay, normalize=True)(trees, trees[:n])
        found.setdefault("TK", []).append(accuracies([K], y, n))
        for composition in ("quaternion", *PAPERS):
            name = f"DTK {composition}"
            matrices = (
                products(encoder(composition, decay, d, seed), trees, n)
                for seed in seeds
            )
            found.setdefault(name, []).append(accuracies(matrices, y, n))
    table(
        f"Figure 3: accuracy, {n:,} questions for training, {len(y) - n:,} for test, "
        f"d = {d}, {len(seeds)} seeds",
        ("decay", *DECAYS),
        [[name, *map(with_interval, cells)] for name, cells in found.items()],
    )
    differences(found)
    return {name: curve(DECAYS, cells) for name, cells in found.items()}


def differences(found: dict[str, list[list[float]]]) -> None:
    """Print what the figures say of each other, seed by seed."""

    def row(name: str, a: list[list[float]], b: list[list[float]]) -> list[str]:
        cells = []
        for x, z in zip(a, b, strict=True):
            same = x if len(x) == len(z) else x * len(z)
            cells.append(with_interval([p - q for p, q in zip(same, z, strict=True)]))
        return [name, *cells]

    body = []
    for what in ("", " + Lex"):
        if f"TK{what}" not in found:
            continue
        exact = found[f"TK{what}"]
        others = {c: found[f"DTK {c}{what}"] for c in ("quaternion", *PAPERS)}
        body += [row(f"TK - {c}{what}", exact, others[c]) for c in others]
        body.append(
            row(f"convolution - gamma{what}", others["convolution"], others["gamma"])
        )
    table("Differences, seed by seed", ("decay", *DECAYS), body)


def curve(
    x: Sequence[float], cells: list[list[float]]
) -> tuple[list[float], list[float], list[float]]:
    """Return a curve of means, with halves of intervals (0 where there is one value)."""
    points = [interval(values) for values in cells]
    halves = [0.0 if np.isnan(half) else half for _, half in points]
    return list(x), [mean for mean, _ in points], halves


def by_length(
    trees: tk.Forest, y: np.ndarray, n: int, seeds: range, largest: int
) -> Curves:
    """Print the accuracy of question classification by the length of the vectors."""
    lengths = [largest // 2**k for k in range(5, -1, -1)]
    found: dict[str, list[list[float]]] = {}
    for composition in ("quaternion", "convolution"):
        for decay in (0.2, 0.4):  # the best two of figure 3
            for d in lengths:
                matrices = (
                    products(encoder(composition, decay, d, seed), trees, n)
                    for seed in seeds
                )
                name = f"{composition}, decay {decay}"
                found.setdefault(name, []).append(accuracies(matrices, y, n))
    table(
        f"Accuracy by the length d of the vectors, {n:,} questions for training, "
        f"{len(seeds)} seeds",
        ("d", *lengths),
        [[name, *map(with_interval, cells)] for name, cells in found.items()],
    )
    return {name: curve(lengths, cells) for name, cells in found.items()}


def accuracies(matrices: Iterable[np.ndarray], y: np.ndarray, n: int) -> list[float]:
    """Return accuracies on the test set, C chosen on the first n trees of the first."""
    found, costs = [], (1, 10, 100)
    for K in matrices:
        machines = best_svm(K[:n], y[:n], costs, against_all=True)
        costs = (machines.cost_,)
        found.append(float(np.mean(machines.predict(K[n:]) == y[n:])))
    return found


def products(enc: tk.DistributedTrees, trees: tk.Forest, n: int) -> np.ndarray:
    """Return the dot products of all unit vectors with the first n."""
    V = unit_vectors(enc, trees)
    return np.vstack([V[:n] @ V[:n].T, V[n:] @ V[:n].T]).astype(float)


def unit_vectors(enc: tk.DistributedTrees, trees: tk.Forest) -> np.ndarray:
    """Return the vectors of trees, divided by their lengths."""
    with warnings.catch_warnings():  # that large trees are noise at a high decay
        warnings.simplefilter("ignore")
        V = enc.encode(trees)
    V /= np.maximum(np.abs(V).max(axis=1, keepdims=True), 1e-30)  # squares may overflow
    return V / np.maximum(np.linalg.norm(V, axis=1, keepdims=True), 1e-30)


def figure_4(args: argparse.Namespace, d: int, seeds: range) -> Curves:
    """Print the accuracy of entailment by decay: K(t1,t2) + K(h1,h2), and with words."""
    lines = rows("rte/rte3_dev_parsed.tsv.gz", args)
    rng = np.random.default_rng(3)
    if lines is None:
        y = rng.integers(0, 2, 60)
        texts = [grown(rng, "NPV", 3) for _ in y]
        others = [grown(rng, "PVN", 3) for _ in y]
        hypotheses = [t if c else o for c, t, o in zip(y, texts, others, strict=True)]
    else:
        y = np.array([row[3] == "YES" for row in lines])
        texts, hypotheses = [r[4] for r in lines], [r[5] for r in lines]
    n = len(y)
    trees = forest([*texts, *hypotheses])
    words = [{x for x in line.replace(")", " ").split() if "(" not in x} for line in
             (*texts, *hypotheses)]  # fmt: skip
    lex = np.array(
        [len(t & h) / max(1, len(h)) for t, h in zip(words[:n], words[n:], strict=True)]
    )
    folds = StratifiedKFold(3 if args.short else 10, shuffle=True, random_state=0)

    def validated(several: list[np.ndarray]) -> list[float]:
        """Return accuracies; C is chosen in each training part, with the first matrix."""
        right = np.zeros((len(several), folds.n_splits))
        for fold, (train, test) in enumerate(folds.split(several[0], y)):
            costs = (0.1, 1, 10)
            for row, K in zip(right, several, strict=True):
                svm = best_svm(K[np.ix_(train, train)], y[train], costs)
                costs = (svm.cost_,)
                row[fold] = np.mean(svm.predict(K[np.ix_(test, train)]) == y[test])
        return [float(mean) for mean in right.mean(axis=1)]

    found: dict[str, list[list[float]]] = {}
    for decay in DECAYS:
        kernel = tk.SubsetTreeKernel(decay, normalize=True)
        matrices = {"TK": [kernel(trees[:n]) + kernel(trees[n:])]}
        for composition in ("quaternion", *PAPERS):
            vectors = (
                unit_vectors(encoder(composition, decay, d, seed), trees)
                for seed in seeds
            )
            matrices[f"DTK {composition}"] = [
                (V[:n] @ V[:n].T + V[n:] @ V[n:].T).astype(float) for V in vectors
            ]
        for name, several in matrices.items():
            with_words = [K + np.outer(lex, lex) for K in several]
            found.setdefault(name, []).append(validated(several))
            found.setdefault(f"{name} + Lex", []).append(validated(with_words))
    [lexical] = validated([np.outer(lex, lex)])
    table(
        f"Figure 4: accuracy of entailment, {n} pairs, cross-validated, d = {d}, "
        f"{len(seeds)} seeds; Lex alone {lexical:.3f}",
        ("decay", *DECAYS),
        [[name, *map(with_interval, cells)] for name, cells in sorted(found.items())],
    )
    differences(found)
    return {name: curve(DECAYS, cells) for name, cells in found.items()}


def main() -> None:
    """Print the tables, draw the figures."""
    parser = options(__doc__)
    parser.add_argument("--most", type=int, default=5452, help="training questions")
    parser.add_argument("--seeds", type=int, default=5, help="seeds of encoders")
    args = parser.parse_args()
    d, n_samples = (256, 5) if args.short else (D, 100)
    args.most = 60 if args.short else args.most
    seeds = range(args.seed, args.seed + (2 if args.short else args.seeds))
    properties(d, n_samples)
    swaps(d, n_samples)
    trees, y, n = questions(args.most, args)
    half = np.r_[: min(n, 2000), n : len(y)]  # enough for the curves by length
    some = trees[half.tolist()], y[half], min(n, 2000)
    variances = figure_2b(d, n_samples)
    questions_by_decay = figure_3(trees, y, n, seeds, d)
    entailment = figure_4(args, d, seeds)
    lengths = by_length(*some, seeds, d)
    draw(
        args,
        [
            {"title": "Figure 2b: first vector replaced", "xlabel": "vectors",
             "ylabel": "variance x d", "curves": variances, "log": "xy"},
            {"title": "Figure 3: questions", "xlabel": "decay", "ylabel": "accuracy",
             "curves": questions_by_decay},
            {"title": "Questions, by length of vectors", "xlabel": "d",
             "ylabel": "accuracy", "curves": lengths, "log": "x"},
            {"title": "Figure 4: entailment", "xlabel": "decay", "ylabel": "accuracy",
             "curves": entailment},
        ],
    )  # fmt: skip


if __name__ == "__main__":
    main()
