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
from _comparison import accuracy, main, tfidf

import treekernel_rs as tk

SST = tk.SubsetTreeKernel(0.4, normalize=True)
PT = tk.PartialTreeKernel(0.4, 0.4, normalize=True)
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


def labels(forest: tk.Forest, *, edges: bool) -> list[list[str]]:
    """Return the labels of each tree, and with `edges` those of parent and child."""
    found = []
    for tree in forest:
        tokens, todo = [tree.label], [tree]
        while todo:
            node = todo.pop()
            for child in node.children:
                tokens.append(child.label)
                if edges:
                    tokens.append(f"{node.label}>{child.label}")
                todo.append(child)
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
    more = tk.datasets.forms(simplify=True, attributes=("type", "name"), text="tokens")
    texts = more.forest[kept].relabel(str.lower)
    content = texts.prune(LAYOUT, keep_children=True).collapse_repeats()
    letters = re.compile("[a-z]+").findall
    words = tfidf(
        [[w for t in each for w in letters(t)] for each in labels(texts, edges=False)]
    )
    grams = {
        "SST": SST(forest),
        "SST, collapsed": SST(once),
        "PT": PT(forest),
        "PT, collapsed": PT(once),
        "tags and edges, tf-idf": tfidf(labels(forest, edges=True)),
        "PT with words, no layout": PT(content),
        "words, tf-idf": words,
        "words + PT with words": words + PT(content),
    }
    return {name: accuracy([gram], y, pages) for name, gram in grams.items()}


if __name__ == "__main__":
    what = {"without": "tf-idf", "what": "eight purposes", "stem": "forms"}
    main(__doc__, run, "--most", None, **what)
