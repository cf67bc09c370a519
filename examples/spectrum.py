"""Kernel PCA and spectral clustering of 100,000 trees, without their kernel matrix.

The matrix of 100,000 trees has 10^10 entries, 80 GB. Eigenvalue searches need only its
products with vectors, and `kernel.operator` computes these from one model of all trees, in
time linear in the trees:

* kernel PCA (Schölkopf, Smola & Müller 1998): the eigenvectors of H K H, where H takes means
  out;
* spectral clustering (Ng, Jordan & Weiss 2001): the eigenvectors of D^-1/2 K D^-1/2, where D
  has the row sums of K, and k-means among their rows.

The trees are sentences of a made-up grammar in four styles: so it is known what is to be
found. Prints the share of the variance that each component has, how well single components
tell the styles apart, and how well the clusters are the styles, with times.

    python examples/spectrum.py [--n 100000] [--decay 0.4] [--jobs 2]

Needs SciPy.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from scipy.cluster.vq import kmeans2
from scipy.sparse.linalg import LinearOperator, eigsh

import treekernel_rs as tk

STYLES = ("report", "question", "order", "story")
#: By style: the ways to expand a symbol, the first of them most often.
GRAMMAR = {
    "report": {
        "S": ["NP VP", "S , S"],
        "NP": ["DT NN", "DT JJ NN"],
        "VP": ["VBZ NP", "VBZ"],
    },
    "question": {
        "S": ["WP VP ?", "AUX NP VP ?"],
        "NP": ["PRP", "DT NN"],
        "VP": ["VB NP", "VB"],
    },
    "order": {
        "S": ["VP !", "UH , VP !"],
        "NP": ["DT NN", "PRP"],
        "VP": ["VB NP ADV", "VB NP"],
    },
    "story": {
        "S": ["PP , NP VP", "NP VP"],
        "NP": ["NNP", "NNP CC NNP"],
        "VP": ["VBD PP", "VBD NP"],
    },
}
WORDS = 30


def sentence(
    rng: np.random.Generator, style: str, symbol: str = "S", depth: int = 0
) -> str:
    """Make a tree in a style; now and then a part of it is in another one."""
    if rng.random() < 0.05:
        style = str(rng.choice(STYLES))
    ways = GRAMMAR[style].get(symbol)
    if symbol == "PP":
        ways = ["IN NP", "IN NP"]
    if ways is None or depth > 6:
        return f"({symbol} {symbol.lower()}{min(rng.zipf(1.6), WORDS)})"
    way = ways[int(rng.random() < 0.3)]
    below = (sentence(rng, style, s, depth + 1) for s in way.split())
    return f"({symbol} {' '.join(below)})"


def principal_components(
    K: LinearOperator, k: int, trace: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the shares of the variance, and the projections of all trees."""
    n = K.shape[0]

    def product(V: np.ndarray) -> np.ndarray:
        V = V - V.mean(axis=0)
        W = K @ V
        return W - W.mean(axis=0)

    centred = LinearOperator((n, n), matvec=product, matmat=product, dtype=float)
    total = trace - float((K @ np.ones(n)).sum()) / n
    values, vectors = eigsh(
        centred, k=k, v0=np.random.default_rng(0).normal(size=n), tol=1e-4
    )
    order = np.argsort(values)[::-1]
    return values[order] / total, vectors[:, order] * np.sqrt(values[order])


def clusters(K: LinearOperator, k: int) -> np.ndarray:
    """Return the cluster of each tree."""
    n = K.shape[0]
    scale = 1 / np.sqrt(K @ np.ones(n))

    def product(V: np.ndarray) -> np.ndarray:
        weights = scale if V.ndim == 1 else scale[:, None]
        return weights * (K @ (weights * V))

    balanced = LinearOperator((n, n), matvec=product, matmat=product, dtype=float)
    _, vectors = eigsh(
        balanced, k=k, v0=np.random.default_rng(0).normal(size=n), tol=1e-4
    )
    rows = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return kmeans2(rows, k, minit="++", rng=np.random.default_rng(0))[1]


def main() -> None:
    """Print what is found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=100_000, help="trees")
    parser.add_argument("--decay", type=float, default=0.4)
    parser.add_argument("--jobs", type=int, help="threads")
    options = parser.parse_args()
    rng = np.random.default_rng(1)
    styles = rng.integers(0, len(STYLES), options.n)
    forest = tk.Forest.from_brackets([sentence(rng, STYLES[s]) for s in styles])
    print(f"{len(forest):,} trees: {forest}")
    kernel = tk.SubsetTreeKernel(options.decay, normalize=True)
    K = kernel.operator(forest, n_jobs=options.jobs)

    start = time.perf_counter()
    shares, projections = principal_components(K, 5, float(options.n))
    print(f"\nkernel PCA in {time.perf_counter() - start:.1f} s")
    print("component | share of variance | share between styles")
    for i, (share, along) in enumerate(zip(shares, projections.T, strict=True)):
        means = np.array([along[styles == s].mean() for s in range(len(STYLES))])
        between = np.average(means**2, weights=np.bincount(styles)) / along.var()
        print(f"{i + 1:9} | {share:17.3f} | {between:20.3f}")

    start = time.perf_counter()
    found = clusters(K, len(STYLES))
    print(f"\nspectral clustering in {time.perf_counter() - start:.1f} s")
    table = np.zeros((len(STYLES), len(STYLES)), int)
    np.add.at(table, (styles, found), 1)
    for name, row in zip(STYLES, table, strict=True):
        print(f"{name:9} {row}")
    print(f"in the cluster of their style: {table.max(axis=0).sum() / options.n:.3f}")


if __name__ == "__main__":
    main()
