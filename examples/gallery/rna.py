"""Tell tRNA from its own shuffles by the structure into which each folds.

Data: 500 tRNA genes of the ten species that come with mimseq, each sequence once; of each, one
shuffle that keeps how often every base follows every other (Altschul & Erickson 1985). All
genes for one amino acid stay together, for they resemble each other.
Forest: loops and stems of the structure with the least free energy (ViennaRNA), with and
without sizes; the sequence is not in it.
Kernels: ST, SST and PT.
Against: the free energy alone; counts of loops, pairs and free bases with a random forest, also
with the energy; 1- to 5-grams of the dot-bracket text; loops with their sizes, without and with
those around them. The last three with sublinear tf-idf.

    pip install '.[sklearn,viz,rna]'
    python examples/gallery/rna.py                 # a minute; writes rna.png
    python examples/gallery/rna.py --most 150 --out /tmp/rna.png
"""

from __future__ import annotations

import random
import re
from importlib import util
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from _comparison import accuracy, bags, by_forest, main, n_grams

import treekernel_rs as tk

KERNELS = {
    "ST": [tk.SubtreeKernel(d, normalize=True) for d in (0.4, 0.8)],
    "SST": [tk.SubsetTreeKernel(d, normalize=True) for d in (0.2, 0.4, 0.8)],
    "PT": [
        tk.PartialTreeKernel(d, m, normalize=True)
        for d, m in ((0.2, 0.2), (0.4, 0.4), (0.8, 0.4))
    ],
}
SHORTEST, LONGEST = 65, 95  # with the bases of an intron, genes are longer


def genes() -> dict[str, str]:
    """Return sequences, each with the amino acid that its tRNA carries."""
    found = util.find_spec("mimseq")
    if found is None or not found.submodule_search_locations:
        msg = "this example needs mimseq: pip install '.[rna]'"
        raise ImportError(msg)
    sequences: dict[str, str] = {}
    folder = Path(found.submodule_search_locations[0], "data")
    for path in sorted(folder.glob("*/*tRNAs*.fa")):
        if re.search("mature|mito|plastid|modomics", path.name):
            continue
        for record in path.read_text(encoding="utf-8").split(">")[1:]:
            name, *lines = record.splitlines()
            acid = re.search(r"tRNA-(?:eColi)?([A-Z][a-z]{2})-[ACGT]{3}", name)
            sequence = "".join(lines).upper().replace("T", "U")
            fits = SHORTEST <= len(sequence) <= LONGEST
            if acid and fits and not {*sequence} - {*"ACGU"}:
                sequences.setdefault(sequence, acid[1])
    return sequences


def shuffled(sequence: str, rng: random.Random) -> str:
    """Return a random sequence with the same neighbours: a walk over all of its edges.

    The last edge out of each base, but for the last base, must lead to the last base over
    other last edges; the rest come in any order (Altschul & Erickson 1985).
    """
    follows: dict[str, list[str]] = {base: [] for base in sequence}
    for one, other in pairwise(sequence):
        follows[one].append(other)
    end = sequence[-1]
    while True:
        last = {base: rng.choice(edges) for base, edges in follows.items() if edges}
        last.pop(end, None)
        reached, known = {end}, 0
        while len(reached) > known:
            known = len(reached)
            reached |= {base for base, to in last.items() if to in reached}
        if reached >= set(follows):
            break
    for base, edges in follows.items():
        if base in last:
            edges.remove(last[base])
        rng.shuffle(edges)
        if base in last:
            edges.append(last[base])
    walk = [sequence[0]]
    ways = {base: iter(edges) for base, edges in follows.items()}
    while (base := next(ways[walk[-1]], None)) is not None:
        walk.append(base)
    return "".join(walk)


def statistics(forest: tk.Forest, structures: list[str]) -> Any:
    """Return counts of kinds of loops, of stems, pairs and free bases, and the length."""
    kinds = tk.TreeVectorizer("labels").fit_transform(forest).toarray()
    pairs = [[s.count("("), s.count("."), len(s)] for s in structures]
    return np.hstack([kinds, pairs])


def run(most: int = 500) -> dict[str, tuple[float, float]]:
    """Return the accuracy of each way."""
    try:
        import RNA
    except ImportError:
        msg = "this example needs ViennaRNA: pip install '.[rna]'"
        raise ImportError(msg) from None

    rng = random.Random(0)
    found = sorted(genes().items())
    rng.shuffle(found)
    found = found[:most]
    sequences = [sequence for sequence, _ in found]
    sequences += [shuffled(sequence, rng) for sequence in sequences]
    y = np.repeat([1, 0], len(found))
    acids = np.array([acid for _, acid in found] * 2)
    folded = [RNA.fold(sequence) for sequence in sequences]
    structures = [structure for structure, _ in folded]
    energy = np.array([[free, len(s)] for s, free in folded])
    shapes = tk.readers.dot_bracket(text=structures).forest
    sizes = tk.readers.dot_bracket(text=structures, sizes=True).forest
    results = {}
    for name, kernels in KERNELS.items():
        results[f"{name}, shape"] = accuracy([k(shapes) for k in kernels], y, acids)
        results[f"{name}, sizes"] = accuracy([k(sizes) for k in kernels], y, acids)
    text = [re.findall("[(.)]", structure) for structure in structures]
    results["1- to 5-grams, tf-idf"] = accuracy([n_grams(text, 5)], y, acids)
    loops = bags(sizes, "labels")
    results["loops with sizes, tf-idf"] = accuracy([loops], y, acids)
    both = (loops + bags(sizes, "edges")) / 2
    results["loops, edges, sizes, tf-idf"] = accuracy([both], y, acids)
    table = statistics(shapes, structures)
    results["statistics of shape"] = by_forest(table[:, :-3], y, acids)
    results["statistics"] = by_forest(table, y, acids)
    results["energy and length"] = by_forest(energy, y, acids)
    every = np.hstack([table, energy])
    results["statistics and energy"] = by_forest(every, y, acids)
    return results


if __name__ == "__main__":
    what = {
        "without": ("stat", "energy", "tf-idf"),
        "what": "tRNA or shuffle",
        "stem": "rna",
    }
    main(__doc__, run, "--most", 500, **what)
