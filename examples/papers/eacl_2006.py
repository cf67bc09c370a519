"""Moschitti, "Making Tree Kernels Practical for Natural Language Learning" (EACL 2006).

Of the quadratic and the fast algorithm, figure 5 (learning time by training set) and figure 6
(time by the size of trees); figure 7 and table 2 (argument classification by kernel), table 4
(tree kernels added to kernels of flat features).

    python examples/papers/eacl_2006.py [--most 4000] [--plot eacl_2006.png]

An argument is the smallest tree with the predicate (tag with -P) and the argument (label
with -B), as in the paper. The corpus is MASC (gold trees, PropBank roles), split by document:
docs/DATA.md says how to build it; without it, trees are generated. As in the paper, an
argument has the role of the most certain machine, one against all. Decays are the paper's
(ST 1, SST 0.4); C and the weight of an added kernel are chosen on the training set. Intervals
have 95 %: held-out documents are drawn with replacement, since arguments of one document are
alike. What the paper concludes is checked on three more splits of the documents, with the same
C and weights. Times are relative to others of the same table. Needs scikit-learn.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from _common import (
    best_svm,
    draw,
    forest,
    grown,
    normalised,
    options,
    rows,
    seconds,
    table,
)
from _srl import flat, numbered
from scipy import stats
from scipy.sparse import csr_matrix
from sklearn.feature_extraction import DictVectorizer
from sklearn.metrics import f1_score

import treekernel_rs as tk

COSTS = (1, 10, 100)
ROLES = ("ARG0", "ARG1", "ARG2", "ARG3", "ARG4", "ARGM")
KERNELS = {
    "ST": tk.SubtreeKernel(1.0),
    "SST": tk.SubsetTreeKernel(0.4),
    "ST+bow": tk.SubtreeKernel(1.0, leaf_weight=1.0),
    "SST+bow": tk.SubsetTreeKernel(0.4, leaf_weight=1.0),
}


def arguments(args: argparse.Namespace) -> tuple[list[str], np.ndarray, list[str]]:
    """Return trees, roles and documents."""
    found = rows("srl/masc_boundary.tsv.gz", args)
    if found is None:
        rng = np.random.default_rng(0)
        roles = rng.choice(ROLES, 1200, p=[0.3, 0.35, 0.1, 0.05, 0.05, 0.15])
        trees = []
        for role in roles:
            phrase = grown(rng, "NPVD" if role < "ARG2" else "PNVD", 2)
            phrase = phrase.replace("(", "(B", 1).replace(" ", "-B ", 1)
            verb = f"(VP (VB-P v{rng.integers(30)}))"
            before = role == "ARG0" or rng.random() < 0.1
            trees.append(f"(S {phrase} {verb})" if before else f"(S {verb} {phrase})")
        return trees, roles, [f"document {k % 40}" for k in range(1200)]
    kept = [row for row in found if row[0] == "+1" and row[4].split("-")[0] in ROLES]
    roles = np.array([row[4].split("-")[0] for row in kept])
    return [row[5] for row in kept], roles, [row[1].split(":")[0] for row in kept]


def matrices(
    name: str, train: tk.Forest, test: tk.Forest, F: tuple[csr_matrix, csr_matrix]
) -> tuple[np.ndarray, np.ndarray]:
    """Return normalised kernels within the training set, and of the test set with it."""
    if name in KERNELS:
        kernel = KERNELS[name].replace(normalize=True)
        return kernel(train), kernel(test, train)
    degree = {"Linear": 1, "Poly": 3}[name]
    within = (F[0] @ F[0].T).toarray()
    across = (F[1] @ F[0].T).toarray()
    if degree > 1:
        within, across = (within + 1) ** degree, (across + 1) ** degree
    n_test = np.asarray(F[1].multiply(F[1]).sum(axis=1)).ravel()
    n_test = (n_test + 1) ** degree if degree > 1 else n_test
    diagonal = np.diag(within).copy()
    return normalised(within, diagonal, diagonal), normalised(across, n_test, diagonal)


def productions(tree: tk.Tree) -> Counter[tuple[str, ...]]:
    """Return how often a tree has each production."""
    found: Counter[tuple[str, ...]] = Counter()
    todo = [tree]
    while todo:
        node = todo.pop()
        if node.children:  # a leaf has no production
            found[node.label, *(child.label for child in node.children)] += 1
        todo += node.children
    return found


def evaluated(forest: tk.Forest) -> tuple[int, int]:
    """Return how many pairs of nodes a matrix evaluates: all, and with equal productions.

    The quadratic algorithm evaluates the former, the fast one the latter.
    """
    counts: Counter[tuple[str, ...]] = Counter()
    for tree in forest:
        counts.update(productions(tree))
    return int(forest.n_nodes.sum()) ** 2, sum(n * n for n in counts.values())


def exponent(x: Sequence[float], y: Sequence[float]) -> str:
    """Return p with y growing as x^p, with its 95 % interval."""
    line = stats.linregress(np.log(x), np.log(y))
    half = stats.t.ppf(0.975, len(x) - 2) * line.stderr if len(x) > 2 else np.nan
    return f"{line.slope:.2f} ± {half:.2f}"


def growth(
    title: str,
    head: Sequence[str],
    body: list[list[float]],
    exponents: Sequence[int],
    digits: Sequence[int],
) -> None:
    """Print a table, and below it the exponents by which some columns grow with the first."""
    lines: list[list[str]] = [
        [f"{value:,.{n}f}" for value, n in zip(line, digits, strict=True)]
        for line in body
    ]
    if exponents:
        columns = list(zip(*body, strict=True))
        last = [
            exponent(columns[0], columns[k]) if k in exponents else ""
            for k in range(1, len(head))
        ]
        lines.append(["exponent", *last])
    table(title, head, lines)


def compiled(path: Path | None) -> dict[str, list[list[float]]]:
    """Return the rows of figures 5 and 6 that the bench of compiled code has printed."""
    found: dict[str, list[list[float]]] = {"MASC": [], "WSJ": []}
    for line in path.read_text("utf-8").splitlines() if path else ():
        name, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        if name in found:
            found[name].append([float(cell) for cell in cells])
    return found


def figure_5(
    trees: tk.Forest, is_zero: np.ndarray, measured: list[list[float]]
) -> dict[str, tuple[list[float], list[float]]]:
    """Print what it takes to learn one machine, ARG0 against the rest."""
    kernel = tk.SubsetTreeKernel(0.4, normalize=True)
    pairs = []
    for share in (0.1, 0.2, 0.4, 0.7, 1.0):
        n = int(share * len(trees))
        every, equal = evaluated(trees[:n])
        pairs.append([n, every / n**2, equal / n**2, every / equal])
    growth(
        "Figure 5: pairs of nodes evaluated for a kernel, all training arguments",
        ("arguments", "quadratic", "fast", "ratio"),
        pairs,
        (),
        (0, 1, 2, 1),
    )
    curves = {}
    if measured:
        growth(
            "Figure 5: seconds for all kernels of the arguments, compiled code",
            ("arguments", "quadratic", "fast", "ratio", "pairs here", "rows here"),
            [[n, a, b, a / b, *more] for n, a, b, *more in measured],
            (1, 2, 4, 5),
            (0, 2, 2, 1, 2, 3),
        )
        n, *columns = map(list, zip(*measured, strict=True))
        names = ("quadratic", "fast", "this library, pairs", "this library, rows")
        curves = {name: (n, y) for name, y in zip(names, columns, strict=True)}

    def learn(solver: str, n: int) -> None:
        tk.TreeSVC(kernel, solver=solver, random_state=0).fit(trees[:n], is_zero[:n])

    sizes = [min(8000, len(trees)) // k for k in (8, 4, 2, 1)]
    body = [
        [
            n,
            seconds(lambda n=n: kernel(trees[:n]), 3),
            *(seconds(lambda n=n, s=s: learn(s, n), 3) for s in ("matrix", "model")),
        ]
        for n in sizes
    ]
    growth(
        "Figure 5: seconds to learn ARG0, this library",
        ("arguments", "matrix alone", "matrix + SVM", "without matrix"),
        body,
        (1, 2, 3),
        (0, 3, 3, 3),
    )
    if measured:
        return curves
    names = ("this library, matrix + SVM", "this library, without matrix")
    columns = list(zip(*body, strict=True))[2:]
    return {name: (sizes, list(y)) for name, y in zip(names, columns, strict=True)}


def figure_6(
    args: argparse.Namespace, measured: list[list[float]]
) -> dict[str, tuple[list[float], list[float]]]:
    """Print evaluated pairs and times of a kernel by the number of nodes of both trees."""
    found = rows("wsj/wsj_clean.txt.gz", args)
    rng = np.random.default_rng(1)
    lines = (
        [grown(rng, "NPVDS", 5) for _ in range(300)]
        if found is None
        else [r[2] for r in found]
    )
    trees = forest(lines)
    sizes = (
        (10, 20, 40) if args.short else (10, 20, 30, 50, 70, 100, 130, 160, 200, 250)
    )
    body = []
    for size in sizes:
        near = np.argsort(abs(trees.n_nodes - size), kind="stable")
        about = int(np.sum(abs(trees.n_nodes - size) <= size / 10))
        group = trees[near[: 6 if args.short else max(12, min(60, about))]]
        counts = list(map(productions, group))
        equal = [
            sum(n * b[production] for production, n in a.items())
            for k, a in enumerate(counts)
            for b in counts[:k]
        ]
        mean = float(np.mean(group.n_nodes))
        body.append([mean, mean**2, float(np.mean(equal))])
    growth(
        "Figure 6: pairs of nodes evaluated for a kernel",
        ("nodes", "quadratic", "fast"),
        body,
        (1, 2),
        (1, 0, 1),
    )
    if not measured:
        x, *columns = map(list, zip(*body, strict=True))
        return dict(zip(("quadratic", "fast"), ((x, y) for y in columns), strict=True))
    growth(
        "Figure 6: nanoseconds a kernel, compiled code",
        ("nodes", "quadratic", "fast", "ratio", "pair here"),
        [[n, a, b, a / b, c] for n, _, _, a, b, c in measured],
        (1, 2, 4),
        (1, 0, 0, 1, 0),
    )
    x, _, _, *columns = map(list, zip(*measured, strict=True))
    names = ("quadratic", "fast", "this library, pair")
    return {name: (x, y) for name, y in zip(names, columns, strict=True)}


#: Accuracies of figure 7 and table 4 that the paper's text has, of PropBank.
PUBLISHED = {"Poly": ([122_774], [0.905]), "Linear": ([122_774], [0.876])}
SINGLE = ("ST", "SST", "ST+bow", "SST+bow", "Linear", "Poly")
COMBINED = ("Linear+ST", "Linear+SST", "Poly+ST", "Poly+SST")


class Split:
    """Training and held-out arguments of one split of the documents."""

    def __init__(
        self, args: argparse.Namespace, corpus: tuple[list[str], np.ndarray, list[str]],
        split: int,
    ) -> None:  # fmt: skip
        lines, roles, names = corpus
        held_out = numbered(names, split) % 5 == 0
        rng = np.random.default_rng(args.seed)
        most = 200 if args.short else args.most
        train = rng.permutation(np.flatnonzero(~held_out))[:most]
        test = rng.permutation(np.flatnonzero(held_out))[: 100 if args.short else 3000]
        self.trees = forest([lines[k] for k in (*train, *test)])
        self.n = n = len(train)
        self.y, self.y_test = roles[train], roles[test]
        self.documents = np.array(names)[test]
        F = DictVectorizer().fit_transform([flat(tree) for tree in self.trees])
        self.matrices = {
            name: matrices(name, self.trees[:n], self.trees[n:], (F[:n], F[n:]))
            for name in SINGLE
        }

    def kernel(self, name: str, weight: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the matrices of a kernel, or of K1 + weight K2."""
        if name in SINGLE:
            return self.matrices[name]
        first, second = (self.matrices[part] for part in name.split("+"))
        return first[0] + weight * second[0], first[1] + weight * second[1]

    def predictions(
        self, name: str, n: int, costs: Sequence[float], weight: float = 1.0
    ) -> tuple[np.ndarray, float]:
        """Return roles of the held-out arguments, learned from n, and the C chosen."""
        K, K_test = self.kernel(name, weight)
        machines = best_svm(K[:n, :n], self.y[:n], costs, against_all=True)
        return machines.predict(K_test[:, :n]), machines.cost_


#: What the paper says, as differences of accuracy that should be above 0.
CLAIMS = {
    "SST - ST": ("SST", "ST"),
    "ST+bow - ST": ("ST+bow", "ST"),
    "SST+bow - SST": ("SST+bow", "SST"),
    "Poly - SST": ("Poly", "SST"),
    "Poly - Linear": ("Poly", "Linear"),
    "Poly+ST - Poly": ("Poly+ST", "Poly"),
    "Poly+SST - Poly": ("Poly+SST", "Poly"),
    "Linear+ST - Linear": ("Linear+ST", "Linear"),
    "Linear+SST - Linear": ("Linear+SST", "Linear"),
    "Linear+SST - Linear+ST": ("Linear+SST", "Linear+ST"),
}


def claims(right: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return by argument what the claims compare; "half" is half the training set."""
    found = {name: right[a] - right[b] for name, (a, b) in CLAIMS.items()}
    gains = {name: right[name] - right[f"{name}, half"] for name in SINGLE}
    for name in ("ST", "Linear", "Poly"):
        found[f"gain of SST - gain of {name}"] = gains["SST"] - gains[name]
    return found


def drawn(
    values: np.ndarray, documents: np.ndarray, n_draws: int = 2000
) -> list[float]:
    """Return the 95 % interval of a mean, documents drawn with replacement."""
    _, place = np.unique(documents, return_inverse=True)
    n = place.max() + 1
    draws = np.random.default_rng(0).multinomial(n, np.full(n, 1 / n), n_draws)
    sums, sizes = draws @ np.bincount(place, values, n), draws @ np.bincount(place)
    return list(np.percentile(sums / np.maximum(sizes, 1), [2.5, 97.5]))


def main() -> None:
    """Print the tables, draw the figures."""
    parser = options(__doc__)
    parser.add_argument("--most", type=int, default=4000, help="training arguments")
    parser.add_argument("--splits", type=int, default=3, help="other splits")
    parser.add_argument(
        "--compiled",
        type=Path,
        help="what `cargo bench --bench gram -- papers` printed",
    )
    args = parser.parse_args()
    measured = compiled(args.compiled)
    curves_6 = figure_6(args, measured["WSJ"])
    corpus = arguments(args)
    lines, roles, names = corpus
    train = np.random.default_rng(args.seed).permutation(
        np.flatnonzero(numbered(names, 0) % 5 != 0)
    )
    curves_5 = figure_5(
        forest([lines[k] for k in train[: 400 if args.short else None]]),
        roles[train] == "ARG0",
        measured["MASC"],
    )
    split = Split(args, corpus, 0)
    n = split.n
    print(
        f"\n{n:,} training and {len(split.y_test):,} held-out arguments of "
        f"{len(set(split.documents))} documents, {len(ROLES)} roles"
    )
    # Figure 7 and table 2: kernels by the size of the training set, F1 by role.
    sizes = [n // k for k in (8, 4, 2, 1)]
    curves, by_role, costs, weights = {}, [], {}, dict.fromkeys(SINGLE, 1.0)
    right: dict[str, np.ndarray] = {}

    def add(name: str, said: np.ndarray) -> None:
        right[name] = (said == split.y_test).astype(float)
        each = f1_score(split.y_test, said, average=None, labels=ROLES, zero_division=0)
        low, high = drawn(right[name], split.documents)
        title = name if name in SINGLE else f"{name}, {weights[name]}"
        accuracy = f"{np.mean(right[name]):.3f} ({low:.3f} to {high:.3f})"
        by_role.append([title, *map(float, each), accuracy])

    for name in SINGLE:
        points = []
        for size in sizes:
            said, costs[name, size] = split.predictions(name, size, COSTS)
            hit = (said == split.y_test).astype(float)
            points.append((float(hit.mean()), *drawn(hit, split.documents)))
            if size == n // 2:
                right[f"{name}, half"] = hit
        add(name, said)
        means, lows, highs = np.transpose(points)
        # Intervals of all points would cover each other.
        last = np.arange(len(sizes)) == len(sizes) - 1
        halves = [(means - lows) * last, (highs - means) * last]
        curves[name] = (sizes, means.tolist(), halves)
    for name in COMBINED:  # K1 + gamma K2
        weights[name] = max(
            (0.25, 0.5, 1.0, 2.0),
            key=lambda g: (
                best_svm(split.kernel(name, g)[0], split.y, against_all=True).score_
            ),
        )
        said, costs[name, n] = split.predictions(name, n, COSTS, weights[name])
        add(name, said)
    table(
        "Figure 7: accuracy by training arguments",
        ("kernel", *sizes),
        [[name, *values] for name, (_, values, _) in curves.items()],
    )
    head = ("kernel", *ROLES, "accuracy, 95 %")
    table("Table 2: F1 by role, accuracy", head, by_role[: len(SINGLE)])
    head = ("K1+K2, weight of K2", *ROLES, "accuracy, 95 %")
    table("Table 4: kernels added", head, by_role[len(SINGLE) :])

    differences = claims(right)
    body = {}
    for name, values in differences.items():
        low, high = drawn(values, split.documents)
        body[name] = [f"{np.mean(values):+.3f} ({low:+.3f} to {high:+.3f})"]
    for number in range(1, args.splits + 1):
        other, said = Split(args, corpus, number), {}
        for name, size in costs:
            if size < n // 2:
                continue
            title = name if size == n else f"{name}, half"
            chosen = (costs[name, size],)
            found, _ = other.predictions(
                name, size * other.n // n, chosen, weights[name]
            )
            said[title] = (found == other.y_test).astype(float)
        for name, values in claims(said).items():
            body[name].append(f"{np.mean(values):+.3f}")
    table(
        "Differences of accuracy, 95 %, and in other splits of the documents",
        ("difference", "split 0", *(f"{k}" for k in range(1, args.splits + 1))),
        [[name, *cells] for name, cells in body.items()],
    )
    draw(
        args,
        [
            {"title": f"Figure 5: {'kernels of arguments' if measured['MASC'] else 'learning'}",
             "xlabel": "training arguments", "ylabel": "seconds", "curves": curves_5,
             "log": "xy"},
            {"title": "Figure 6: one kernel", "xlabel": "nodes of a tree",
             "ylabel": "nanoseconds" if measured["WSJ"] else "pairs of nodes",
             "curves": curves_6, "log": "xy"},
            {"title": "Figure 7: accuracy", "xlabel": "training arguments",
             "ylabel": "accuracy", "curves": curves, "published": PUBLISHED, "log": "x"},
        ],
    )  # fmt: skip


if __name__ == "__main__":
    main()
