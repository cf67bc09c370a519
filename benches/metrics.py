"""Metrics beside the programs that people use, on one thread.

    pip install table-recognition-metric dendropy apted zss edist
    python benches/metrics.py

Processor time, the least of some runs; what is not installed is left out.
"""

from __future__ import annotations

import itertools
import random
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING

import treekernel_rs as tk

if TYPE_CHECKING:
    from collections.abc import Callable


def least(run: Callable[[], object], n_runs: int) -> float:
    """Measure some runs, in milliseconds."""
    times = []
    for _ in range(n_runs):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return 1_000 * min(times)


def tables(n_rows: int, n_columns: int) -> tuple[str, str]:
    """Make a table, and one that differs in three cells of ten."""
    rng = random.Random(4)

    def cell() -> str:
        return "".join(rng.choices("0123456789.abcdefghij -", k=rng.randint(4, 16)))

    rows = [[cell() for _ in range(n_columns)] for _ in range(n_rows)]
    other = [[c if rng.random() < 0.7 else cell() for c in row] for row in rows]

    def page(rows: list[list[str]]) -> str:
        lines = ("".join(f"<td>{cell}</td>" for cell in row) for row in rows)
        body = "".join(f"<tr>{line}</tr>" for line in lines)
        return f"<html><body><table>{body}</table></body></html>"

    return page(other), page(rows)


def phylogenies(n_trees: int, n_taxa: int) -> str:
    """Make random trees with branch lengths, in Newick notation."""
    rng = random.Random(1)
    texts = []
    for _ in range(n_trees):
        nodes = [f"taxon{i}:{rng.random():.6f}" for i in range(n_taxa)]
        while len(nodes) > 3:
            pair = [nodes.pop(rng.randrange(len(nodes))) for _ in "ab"]
            nodes.append(f"({','.join(pair)}):{rng.random():.6f}")
        texts.append(f"({','.join(nodes)});")
    return "\n".join(texts)


def edit_distances() -> None:
    """Print what a pair of trees of 60 nodes takes, at unit costs."""
    rng = random.Random(2)

    def tree(n: int) -> tuple[str, list]:
        below = []
        n -= 1
        while n:
            part = rng.randint(1, n)
            below.append(tree(part))
            n -= part
        return rng.choice("abcdefgh"), below

    def text(node: tuple[str, list], marks: str) -> str:
        label, below = node
        return marks[0] + label + "".join(text(b, marks) for b in below) + marks[1]

    trees = [tree(60) for _ in range(40)]
    forest = tk.Forest.from_brackets([text(t, "()") for t in trees])
    i, j = list(range(0, 40, 2)), list(range(1, 40, 2))
    distance = tk.EditDistance()
    ours = least(lambda: distance.pairs(forest, i * 100, j * 100, n_jobs=1), 5) / 2_000
    found = distance.pairs(forest, i, j).tolist()
    print(f"edit distance, trees of 60 nodes: {1_000 * ours:.1f} µs a pair")

    def beside(name: str, run: Callable[[int, int], float]) -> None:
        pairs = list(zip(i, j, strict=True))
        assert [run(*pair) for pair in pairs] == found, name
        theirs = least(lambda: [run(*pair) for pair in pairs], 2) / len(pairs)
        print(f"  {name}: {1_000 * theirs:,.0f} µs, {theirs / ours:,.0f} times as long")

    if find_spec("apted"):
        from apted import APTED
        from apted.helpers import Tree

        nodes = [Tree.from_text(text(t, "{}")) for t in trees]
        beside("apted", lambda a, b: APTED(nodes[a], nodes[b]).compute_edit_distance())
    if find_spec("zss"):
        import zss

        def node(t: tuple[str, list]) -> object:
            return zss.Node(t[0], [node(below) for below in t[1]])

        roots = [node(t) for t in trees]
        beside("zss", lambda a, b: zss.simple_distance(roots[a], roots[b]))
    if find_spec("edist"):
        from edist import ted

        def arrays(t: tuple[str, list]) -> tuple[list[str], list[list[int]]]:
            labels, children = [t[0]], [[]]
            for below in t[1]:
                children[0].append(len(labels))
                more, lists = arrays(below)
                children += [[c + len(labels) for c in list_] for list_ in lists]
                labels += more
            return labels, children

        lists = [arrays(t) for t in trees]
        beside("edist", lambda a, b: ted.standard_ted(*lists[a], *lists[b]))


def main() -> None:
    """Print a line for each metric and program."""
    pair = tables(40, 10)
    for name, options in {"TEDS": {}, "TEDS-struct": {"structure_only": True}}.items():
        ours = least(lambda: tk.metrics.teds(*pair, n_jobs=1, **options), 20)  # noqa: B023
        print(f"{name}, two tables of 400 cells: {ours:.1f} ms")
    if find_spec("table_recognition_metric"):
        from table_recognition_metric import TEDS

        theirs = least(lambda: TEDS()(*pair), 1)
        print(f"  TEDS by table-recognition-metric: {theirs:,.0f} ms")

    edit_distances()

    text = phylogenies(1_000, 100)
    for weighted in (False, True):
        lengths = "keep" if weighted else None
        read = least(lambda: tk.readers.newick(text=text, lengths=lengths), 3)  # noqa: B023
        trees = tk.readers.newick(text=text, lengths=lengths).forest
        matrix = least(
            lambda: tk.metrics.robinson_foulds(trees, weighted=weighted, n_jobs=1),  # noqa: B023
            3,
        )
        name = "weighted Robinson-Foulds" if weighted else "Robinson-Foulds"
        print(
            f"{name}, all pairs of 1,000 trees of 100 taxa: {matrix:.0f} ms, "
            f"reading {read:.0f} ms"
        )
    if find_spec("dendropy"):
        import dendropy
        from dendropy.calculate import treecompare

        start = time.process_time()
        trees = dendropy.TreeList.get(data=text, schema="newick")
        for tree in trees:
            tree.encode_bipartitions()
        read = time.process_time() - start
        for compare in (
            treecompare.symmetric_difference,
            treecompare.weighted_robinson_foulds_distance,
        ):
            some = list(itertools.pairwise(trees[:201]))
            run = least(
                lambda: [compare(a, b, is_bipartitions_updated=True) for a, b in some],  # noqa: B023
                3,
            )
            print(
                f"  {compare.__name__} of DendroPy: {1_000 * run / 200:.0f} µs a pair, "
                f"reading {read:.1f} s"
            )


if __name__ == "__main__":
    main()
