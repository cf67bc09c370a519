"""Every entry point of the package as a call without arguments."""

from __future__ import annotations

import pickle
import random
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import treekernel_rs as tk

if TYPE_CHECKING:
    from collections.abc import Callable

    Calls = dict[str, Callable[[], object]]

KERNELS = {
    "subset": tk.SubsetTreeKernel(0.4),
    "subtree": tk.SubtreeKernel(0.4, leaf_weight=1.0),
    "partial": tk.PartialTreeKernel(),
    "elastic": tk.ElasticTreeKernel(0.2),
    "subpath": tk.SubpathKernel(0.4),
}
#: Kernels with vectors.
ENCODED = ("subset", "subtree", "partial")


def texts(n: int, seed: int = 1, n_nodes: int = 40) -> list[str]:
    """Make trees of few labels, so that they share subtrees; words make them differ."""
    rng = random.Random(seed)

    def tree(size: int) -> str:
        if size <= 2:
            return f"({rng.choice('ABCD')} w{int(rng.expovariate(0.01))})"
        first = rng.randrange(1, size)
        return f"({rng.choice('STUV')} {tree(first)} {tree(size - first)})"

    return [tree(n_nodes // 2) for _ in range(n)]


def calls(n: int) -> Calls:
    """Make all calls, of `n` trees where that takes linear time, of fewer elsewhere."""
    lines = texts(n)
    everything = tk.Forest.from_brackets(lines)
    objects = [("S", [("A", ["a", str(i)]), "b"]) for i in range(n)]
    arrays = everything.to_arrays()
    path = Path(tempfile.mkdtemp(prefix="faults-"))
    (path / "svm").write_text("".join(f"1 |BT| {t} |ET| 1:2 |EV|\n" for t in lines))
    (path / "klp").write_text("".join(f"x |BT:t| {t} |ET|\n" for t in lines))
    (path / "penn").write_text("\n".join(lines))
    marked = [t.replace("(A ", "(A:1 ").replace("(B ", "(B:2 ") for t in lines]
    pairs = tk.PairForest.from_brackets(marked, marked[::-1])
    few_pairs, few = pairs[: 2 + n // 400], everything[: 2 + n // 20]

    made: Calls = {
        "Forest.from_brackets": lambda: tk.Forest.from_brackets(lines),
        "Forest.from_trees": lambda: tk.Forest.from_trees(objects),
        "Forest.from_arrays": lambda: tk.Forest.from_arrays(**arrays),
        "Forest.to_arrays": everything.to_arrays,
        "Forest.to_brackets": everything.to_brackets,
        "Forest.subtree_ids": everything.subtree_ids,
        "Forest.unique": everything.unique,
        "Forest.__add__": lambda: everything + tk.Forest.from_brackets(lines[::2]),
        "Forest.__getitem__": lambda: everything[np.arange(n)[::-1]],
        "Forest pickled": lambda: pickle.loads(pickle.dumps(everything)),
        "Forest.sorted": everything.sorted,
        "Forest.collapse_repeats": everything.collapse_repeats,
        "Forest.binarize": everything.binarize,
        "Forest.save": lambda: everything.save(path / "forest"),
        "Forest.concat": lambda: tk.Forest.concat([everything, everything[::2]]),
        "Forest.labels": lambda: everything.labels,
        "Tree.children": lambda: [c.label for c in everything[0].children],
        "draw": lambda: tk.draw(everything[0]),
        "PairForest.from_brackets": lambda: tk.PairForest.from_brackets(marked, marked),
        "PairForest.anchored": lambda: tk.PairForest.anchored(few, few),
        "PairForest pickled": lambda: pickle.loads(pickle.dumps(pairs)),
        "PairKernel": lambda: tk.PairKernel()(few_pairs),
        "readers.svmlight_tk": lambda: tk.readers.svmlight_tk(path / "svm"),
        "readers.klp": lambda: tk.readers.klp(path / "klp"),
        "readers.penn": lambda: tk.readers.penn(path / "penn"),
    }
    sum_of, part = KERNELS["subset"] + KERNELS["partial"], everything[: 2 + n // 20]
    composed = tk.kernels.Gaussian(sum_of.normalized()) * KERNELS["subtree"]
    of_sum, views = tk.DagModel(sum_of), tk.kernels.Views(a=part, b=part)
    rules = tk.PairKernel(normalize=True)
    both_views = tk.kernels.ViewKernel(
        {"a": KERNELS["subset"], "b": sum_of}, normalize=True
    )
    made |= {
        "composed: k(X)": lambda: composed(part),
        "composed: rows": lambda: composed.rows(part)[:3],
        "composed: top_k": lambda: composed.top_k(part, k=2),
        "composed: pair": lambda: composed.pair(everything[0], everything[1]),
        "composed: distance": lambda: composed.distance(part, few),
        "composed: distance.condensed": lambda: composed.distance.condensed(part),
        "composed: distance.rows": lambda: composed.distance.rows(part)[:3],
        "composed: pickled": lambda: pickle.loads(pickle.dumps(composed)),
        "sum: DagModel.add": lambda: of_sum.add(part, np.ones(len(part))),
        "sum: DagModel.decision_function": lambda: of_sum.decision_function(part),
        "sum: DagModel pickled": lambda: pickle.loads(pickle.dumps(of_sum)),
        "Views": lambda: tk.kernels.Views(a=lines, b=np.ones((n, 2)))[: n // 2],
        "ViewKernel": lambda: both_views(views),
        "PreferenceKernel": lambda: tk.kernels.PreferenceKernel(
            KERNELS["subset"], first="a", second="b"
        )(views),
        "JoinResult.rows": lambda: (
            tk.SubtreeKernel(0.4, normalize=True)
            .join(everything[np.arange(n) % 5])
            .rows
        ),
        "PairKernel.rows": lambda: rules.rows(few_pairs)[0],
        "PairKernel.pairs": lambda: rules.pairs(few_pairs, few_pairs),
        "PairKernel.top_k": lambda: rules.top_k(few_pairs, k=1),
        "PairKernel.join": lambda: rules.join(few_pairs),
    }
    edit, old, new = tk.EditDistance(normalize="max"), everything[0], everything[1]
    edit_index = edit.index(everything)
    made |= {
        "edit: d(X)": lambda: edit(part),
        "edit: d(X, Y)": lambda: edit(part, few),
        "edit: condensed": lambda: edit.condensed(part),
        "edit: rows": lambda: edit.rows(part)[0],
        "edit: pairs": lambda: edit.pairs(part, part),
        "edit: top_k": lambda: edit.top_k(part, k=2),
        "edit: top_k(max_distance)": lambda: edit.top_k(
            part, few, k=2, max_distance=0.5
        ),
        "edit: join": lambda: edit.join(everything, max_distance=0.1),
        "edit: index": lambda: edit.index(everything).top_k(few, k=2),
        "edit: index, join": lambda: edit_index.join(few, max_distance=0.1),
        "edit: pair": lambda: edit.pair(old, new, max_distance=0.5),
        "edit: mapping": lambda: edit.mapping(old, new),
        "compare": lambda: str(tk.compare(old, new)),
        "compare: kernel": lambda: tk.compare(old, new, sum_of).shared,
        "compare: page": lambda: tk.compare(old, new)._repr_html_(),
        "compare: save": lambda: tk.compare(old, new).save(path / "changes.svg"),
    }
    for name, kernel in KERNELS.items():
        normalized = kernel.replace(normalize=True)
        # Scores of the elastic kernel, which has the most to look at, take longest.
        size = {"partial": 2 + n // 8, "elastic": 2 + n // 40}.get(name, n)
        forest, few = everything[:size], everything[: 2 + size // 10]
        weights = np.resize([0.5, -0.25, 1.0], size)
        y = np.resize([1, -1, -1, 1], size)
        vectors = np.resize(np.arange(7.0), (size, 5))
        rows = kernel.rows(few)
        index, first = normalized.index(few), np.arange(len(few))
        model = tk.DagModel(kernel, 2)
        scorer = tk.DagModel(normalized)
        scorer.add(forest, weights)
        learner = tk.Perceptron(kernel, predict_with="average")
        voter = tk.Perceptron(
            kernel, predict_with="vote", vectors=tk.kernels.VectorPolynomial(2), mix=0.5
        )
        voter.partial_fit(forest, y, vectors)
        both = np.stack([weights, -weights], axis=1)

        def bind(call: Callable[..., object], *given: object) -> Callable[[], object]:
            return lambda: call(*given)

        made |= {
            f"{name}: k(X)": bind(kernel, few),
            f"{name}: k(X, Y)": bind(normalized, few, forest),
            f"{name}: diag": bind(kernel.diag, forest),
            f"{name}: rows": bind(normalized.rows, few),
            f"{name}: rows[:]": bind(rows.__getitem__, slice(None)),
            f"{name}: join": bind(normalized.join, forest),
            f"{name}: top_k": bind(normalized.top_k, few),
            f"{name}: pairs": bind(normalized.pairs, few, first, first[::-1]),
            f"{name}: index": bind(
                lambda k, y: k.index(y).gram(y[:5]), normalized, few
            ),
            f"{name}: index.gram": bind(index.gram, forest),
            f"{name}: index.top_k": bind(index.top_k, few),
            f"{name}: index.join": bind(index.join),
            f"{name}: index.join(X)": bind(index.join, few),
            f"{name}: pair": bind(kernel.pair, forest[0], forest[1]),
            f"{name}: DagModel.add": bind(model.add, forest, both),
            f"{name}: DagModel.decision_function": bind(
                scorer.decision_function, forest
            ),
            f"{name}: DagModel.contributions": bind(scorer.contributions, forest[0]),
            f"{name}: DagModel.merge": bind(
                lambda model: tk.DagModel(model.kernel, model.n_outputs).merge(model),
                scorer,
            ),
            f"{name}: DagModel pickled": bind(
                lambda model: pickle.loads(pickle.dumps(model)), scorer
            ),
            f"{name}: Perceptron.partial_fit": bind(learner.partial_fit, forest, y),
            f"{name}: Perceptron.decision_function": bind(
                voter.decision_function, forest, vectors
            ),
            f"{name}: Perceptron pickled": bind(
                lambda learner: pickle.loads(pickle.dumps(learner)), voter
            ),
        }
        machine = tk.solve.KernelMachine(kernel, few, np.resize([1.0, -1.0], len(few)))
        made[f"{name}: KernelMachine.run"] = bind(machine.run)
        if name != "elastic":
            vectorizer = tk.TreeVectorizer(kernel)
            hashing = tk.TreeVectorizer(kernel, n_features=1 << 10)
            made |= {
                f"{name}: TreeVectorizer.fit": bind(vectorizer.fit_transform, few),
                f"{name}: TreeVectorizer hashed": bind(hashing.transform, forest),
            }
        if name in ("subset", "subtree"):
            made[f"{name}: top_fragments"] = bind(scorer.top_fragments, 3)
        if name in ENCODED:
            encoder = tk.DistributedTrees(kernel, 512)
            made[f"{name}: encode"] = bind(encoder.encode, few)
            made[f"{name}: fragment"] = bind(encoder.fragment, forest[0])
    encoder = tk.DistributedTrees(KERNELS["subset"], 256, composition="convolution")
    made["DistributedTrees.prune"] = lambda: encoder.prune(few)
    made["DistributedTrees.tune"] = lambda: encoder.tune(few)
    return made
