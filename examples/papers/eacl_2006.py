"""Moschitti, "Making Tree Kernels Practical for Natural Language Learning" (EACL 2006).

Of the quadratic and the fast algorithm, figure 5 (learning time by training set) and figure 6
(time by the size of trees); figure 7 and table 2 (argument classification by kernel), table 4
(tree kernels added to kernels of flat features).

    python examples/papers/eacl_2006.py [--most 4000] [--plot eacl_2006.png]

An argument is the smallest tree with the predicate (tag with -P) and the argument (label
with -B), as in the paper. The corpus is MASC (gold trees, PropBank roles), split by document:
docs/DATA.md says how to build it; without it, trees are generated. The paper used the Penn
Treebank, which has no free copy, and FrameNet, which has no free trees, so table 3 is not
computed. Decays are the paper's (ST 1, SST 0.4), C and the weight of an added kernel are chosen on the training
set. Needs scikit-learn.
"""

from __future__ import annotations

import argparse
import zlib
from collections.abc import Callable

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
from _srl import flat
from scipy.sparse import csr_matrix
from sklearn.feature_extraction import DictVectorizer
from sklearn.metrics import f1_score
from sklearn.svm import SVC

import treekernel_rs as tk

ROLES = ("ARG0", "ARG1", "ARG2", "ARG3", "ARG4", "ARGM")
#: What the paper's text has of figure 7, of PropBank.
PUBLISHED = {"Poly": ([122_774], [0.905]), "Linear": ([122_774], [0.876])}
KERNELS = {
    "ST": tk.SubtreeKernel(1.0),
    "SST": tk.SubsetTreeKernel(0.4),
    "ST+bow": tk.SubtreeKernel(1.0, leaf_weight=1.0),
    "SST+bow": tk.SubsetTreeKernel(0.4, leaf_weight=1.0),
}


def arguments(args: argparse.Namespace) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Return trees, roles and whether the document is held out."""
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
        return trees, roles, np.arange(1200) % 4 == 0
    kept = [row for row in found if row[0] == "+1" and row[4].split("-")[0] in ROLES]
    held_out = [zlib.crc32(row[1].split(":")[0].encode()) % 5 == 0 for row in kept]
    roles = [row[4].split("-")[0] for row in kept]
    return [row[5] for row in kept], np.array(roles), np.array(held_out)


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


def quadratic(a: list[tuple], b: list[tuple], decay: float = 0.4) -> float:
    """Return the kernel by all pairs of nodes: Collins & Duffy's algorithm.

    Nodes are (production, children), children before parents; leaves have none.
    """
    C = np.zeros((len(a), len(b)))
    for i, (rule, below) in enumerate(a):
        for j, (other, under) in enumerate(b):
            if rule == other and below:
                product = decay
                for x, y in zip(below, under, strict=True):
                    product *= 1 + C[x, y]
                C[i, j] = product
    return float(C.sum())


def fast(a: list[tuple], b: list[tuple], decay: float = 0.4) -> float:
    """Return the kernel by pairs of equal productions: the paper's algorithm."""
    places: dict[object, list[int]] = {}
    for j, (rule, under) in enumerate(b):
        if under:
            places.setdefault(rule, []).append(j)
    C: dict[tuple[int, int], float] = {}
    for i, (rule, below) in enumerate(a):
        for j in places.get(rule, ()) if below else ():
            product = decay
            for x, y in zip(below, b[j][1], strict=True):
                product *= 1 + C.get((x, y), 0.0)
            C[i, j] = product
    return sum(C.values())


def nodes(tree: tk.Tree) -> list[tuple]:
    """Return the nodes of a tree as the two functions above take them."""
    done: list[tuple] = []

    def visit(node: tk.Tree) -> int:
        below = [visit(child) for child in node.children]
        done.append(((node.label, *(c.label for c in node.children)), below))
        return len(done) - 1

    visit(tree)
    return done


def figure_5(
    trees: tk.Forest, is_zero: np.ndarray, n_python: int
) -> dict[str, tuple[list[float], list[float]]]:
    """Print the seconds to learn one machine, ARG0 against the rest."""
    shares = (0.25, 0.5, 0.75, 1.0)
    kernel = tk.SubsetTreeKernel(0.4, normalize=True)

    def by_pairs(of: Callable[..., float], n: int) -> None:
        prepared = [nodes(tree) for tree in trees[:n]]
        K = np.zeros((n, n))
        for i, a in enumerate(prepared):
            for j, b in enumerate(prepared[: i + 1]):
                K[i, j] = K[j, i] = of(a, b)
        diagonal = np.diag(K).copy()
        SVC(kernel="precomputed").fit(normalised(K, diagonal, diagonal), is_zero[:n])

    def by_solver(solver: str, n: int) -> None:
        tk.TreeSVC(kernel, solver=solver, random_state=0).fit(trees[:n], is_zero[:n])

    body = []
    for share in shares:
        n = int(share * n_python)
        quick = seconds(lambda n=n: by_pairs(fast, n))
        slow = seconds(lambda n=n: by_pairs(quadratic, n))
        body.append([f"{n:,}", slow, quick, slow / quick])
    head = ("arguments", "quadratic", "fast", "ratio")
    table("Figure 5: seconds to learn ARG0, both algorithms in Python", head, body, 2)
    curves = {
        f"{what}, in Python": (
            [share * n_python for share in shares],
            [line[column] for line in body],
        )
        for column, what in ((1, "quadratic"), (2, "fast"))
    }
    body = []
    for share in shares:
        n = int(share * len(trees))
        times = [
            seconds(lambda n=n: kernel(trees[:n]), 3),
            *(
                seconds(lambda n=n, s=s: by_solver(s, n), 3)
                for s in ("matrix", "model")
            ),
        ]
        body.append([f"{n:,}", *times])
    head = ("arguments", "matrix alone", "matrix + SVM", "without matrix")
    table("Figure 5: seconds to learn ARG0, this library", head, body, 2)
    for column, what in ((2, "matrix + SVM"), (3, "without matrix")):
        curves[f"this library, {what}"] = (
            [share * len(trees) for share in shares],
            [line[column] for line in body],
        )
    return curves


def figure_6(args: argparse.Namespace) -> dict[str, tuple[list[float], list[float]]]:
    """Print microseconds of a kernel by the number of nodes of both trees."""
    found = rows("wsj/wsj_clean.txt.gz", args)
    rng = np.random.default_rng(1)
    lines = (
        [grown(rng, "NPVD", 4) for _ in range(300)]
        if found is None
        else [r[2] for r in found]
    )
    trees = forest(lines)
    sizes = (10, 20, 40) if args.short else (10, 20, 30, 40, 50, 60, 70, 80, 90, 100)
    kernel, body = tk.SubsetTreeKernel(0.4), []
    for size in sizes:
        near = np.argsort(abs(trees.n_nodes - size), kind="stable")[
            : 6 if args.short else 12
        ]
        some = [trees[int(k)] for k in near]
        prepared = [nodes(tree) for tree in some]
        pairs = [(i, j) for i in range(len(some)) for j in range(i)]
        for i, j in pairs[:5]:  # all three compute the same number
            exact = kernel.pair(some[i], some[j])
            assert abs(quadratic(prepared[i], prepared[j]) - exact) < 1e-6 * (1 + exact)
            assert abs(fast(prepared[i], prepared[j]) - exact) < 1e-6 * (1 + exact)
        times = [
            seconds(lambda of=of: [of(prepared[i], prepared[j]) for i, j in pairs])  # noqa: B023
            for of in (quadratic, fast)
        ]
        own = seconds(lambda: [kernel.pair(some[i], some[j]) for i, j in pairs], 3)  # noqa: B023
        body.append(
            [
                float(np.mean(trees.n_nodes[near])),
                *(1e6 * value / len(pairs) for value in (*times, own)),
            ]
        )
    head = ("nodes", "quadratic", "fast", "k.pair")
    table("Figure 6: microseconds a kernel; the first two in Python", head, body, 1)
    x = [line[0] for line in body]
    names = ("quadratic, in Python", "fast, in Python", "this library, k.pair")
    return {name: (x, [line[k] for line in body]) for k, name in enumerate(names, 1)}


def main() -> None:
    """Print the tables, draw the figures."""
    parser = options(__doc__)
    parser.add_argument("--most", type=int, default=4000, help="training arguments")
    args = parser.parse_args()
    curves_6 = figure_6(args)
    lines, roles, held_out = arguments(args)
    rng = np.random.default_rng(args.seed)
    most = 200 if args.short else args.most
    train = rng.permutation(np.flatnonzero(~held_out))[:most]
    test = rng.permutation(np.flatnonzero(held_out))[: 100 if args.short else 3000]
    trees = forest([lines[k] for k in (*train, *test)])
    features = DictVectorizer().fit_transform([flat(tree) for tree in trees])
    y, y_test = roles[train], roles[test]
    print(
        f"\n{len(train):,} training and {len(test):,} held-out arguments, {len(ROLES)} roles"
    )

    curves_5 = figure_5(
        trees[: len(train)], y == "ARG0", min(len(train), 100 if args.short else 2000)
    )

    # Figure 7 and table 2: kernels by the size of the training set, F1 by role.
    sizes = [len(train) // k for k in (8, 4, 2, 1)]
    names = ["ST", "SST", "ST+bow", "SST+bow", "Linear", "Poly"]
    combined = ["Linear+ST", "Linear+SST", "Poly+ST", "Poly+SST"]
    split = (features[: len(train)], features[len(train) :])
    curves, by_role = {}, []

    def add(name: str, said: np.ndarray) -> float:
        each = f1_score(y_test, said, average=None, labels=ROLES, zero_division=0)
        by_role.append([name, *map(float, each), float(np.mean(said == y_test))])
        return by_role[-1][-1]

    known = {}
    for name in names:
        known[name] = matrices(name, trees[: len(train)], trees[len(train) :], split)
        K, K_test = known[name]
        accuracy = []
        for n in sizes:
            said = best_svm(K[:n, :n], y[:n]).predict(K_test[:, :n])
            accuracy.append(float(np.mean(said == y_test)))
        add(name, said)
        curves[name] = (sizes, accuracy)
    for name in combined:  # K1 + gamma K2
        (K, K_test), (L, L_test) = (known[part] for part in name.split("+"))
        gamma, _ = max(
            ((g, best_svm(K + g * L, y).score_) for g in (0.25, 0.5, 1.0, 2.0)),
            key=lambda found: found[1],
        )
        add(
            f"{name}, {gamma}",
            best_svm(K + gamma * L, y).predict(K_test + gamma * L_test),
        )
    table(
        "Figure 7: accuracy by training arguments",
        ("kernel", *sizes),
        [[name, *values] for name, (_, values) in curves.items()],
    )
    head = ("kernel", *ROLES, "accuracy")
    table("Table 2: F1 by role, accuracy", head, by_role[: len(names)])
    head = ("K1+K2, weight of K2", *ROLES, "accuracy")
    table("Table 4: kernels added", head, by_role[len(names) :])
    draw(
        args,
        [
            {"title": "Figure 5: learning ARG0", "xlabel": "training arguments",
             "ylabel": "seconds", "curves": curves_5, "log": "xy"},
            {"title": "Figure 6: one kernel", "xlabel": "nodes of a tree",
             "ylabel": "microseconds", "curves": curves_6, "log": "xy"},
            {"title": "Figure 7: accuracy", "xlabel": "training arguments",
             "ylabel": "accuracy", "curves": curves, "published": PUBLISHED, "log": "x"},
        ],
    )  # fmt: skip


if __name__ == "__main__":
    main()
