"""Tell what a form of a web page is for: search, login, registration and so on.

Data: Formasaurus's labelled forms, eight purposes; forms of one page stay together.
Forest: elements, types of inputs; runs of equal elements collapsed (a list of countries
is one option, not two hundred). For words: layout pruned, texts and names as leaves.
Kernels: SST and PT, with and without repeats, and their sum with words.
Against: tags and edges with tf-idf; all words with tf-idf.

    pip install '.[sklearn,viz,web,examples]'
    python examples/gallery/forms.py               # half a minute; writes forms.png
    python examples/gallery/forms.py --most 300 --out /tmp/forms.png
"""

from __future__ import annotations

import re

import numpy as np
from _comparison import accuracy, bags, main, n_grams

import treekernel_rs as tk

DECAYS = (0.2, 0.4)
SST = [tk.SubsetTreeKernel(d, normalize=True) for d in DECAYS]
PT = [tk.PartialTreeKernel(0.4, m, normalize=True) for m in DECAYS]
# Elements that say how a form looks, not what it asks for.
LAYOUT = {
    "a",
    "b",
    "br",
    "center",
    "dd",
    "div",
    "dl",
    "dt",
    "em",
    "fieldset",
    "font",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "hr",
    "i",
    "img",
    "li",
    "ol",
    "p",
    "small",
    "span",
    "strong",
    "style",
    "script",
    "table",
    "tbody",
    "td",
    "th",
    "tr",
    "ul",
}


def labels(forest: tk.Forest) -> list[list[str]]:
    """Return the labels of each tree."""
    found = []
    for tree in forest:
        tokens, todo = [], [tree]
        while todo:
            node = todo.pop()
            tokens.append(node.label)
            todo += node.children
        found.append(tokens)
    return found


def run(most: int | None = None) -> dict[str, tuple[float, float]]:
    """Return the accuracy of each way."""
    data = tk.datasets.forms(simplify=True)
    kept = np.arange(len(data.y))
    if most is not None:
        kept = np.sort(np.random.default_rng(0).permutation(kept)[:most])
    y, pages = data.y[kept], np.array(data.names)[kept]
    forest = data.forest[kept]
    once = forest.collapse_repeats()
    more = tk.datasets.forms(
        simplify=True, attributes=("type", "name"), text_nodes="tokens"
    )
    texts = more.forest[kept].relabel(str.lower)
    content = texts.prune(LAYOUT, keep_children=True).collapse_repeats()
    letters = re.compile("[a-z]+").findall
    words = n_grams([[w for t in each for w in letters(t)] for each in labels(texts)])
    with_words = [kernel(content) for kernel in PT]
    grams = {
        "SST": [kernel(forest) for kernel in SST],
        "SST, collapsed": [kernel(once) for kernel in SST],
        "PT": [kernel(forest) for kernel in PT],
        "PT, collapsed": [kernel(once) for kernel in PT],
        "tags and edges, tf-idf": [bags(forest, "labels") + bags(forest, "edges")],
        "PT with words, no layout": with_words,
        "words, tf-idf": [words],
        "words + PT with words": [words + gram for gram in with_words],
    }
    return {name: accuracy(each, y, pages) for name, each in grams.items()}


if __name__ == "__main__":
    what = {"without": ("tf-idf",), "what": "eight purposes", "stem": "forms"}
    main(__doc__, run, "--most", None, **what)
