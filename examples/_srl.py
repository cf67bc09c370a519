"""Features of a predicate's argument and splits of documents, for the scripts on MASC."""

from __future__ import annotations

import zlib

import numpy as np
from scipy.sparse import csr_matrix

import treekernel_rs as tk


def flat(tree: tk.Tree) -> dict[str, float]:
    """Return the features of Gildea & Jurafsky (2002) that the pruned tree shows."""
    ways: dict[str, list[str]] = {}
    nodes: dict[str, tk.Tree] = {}
    order = []
    stack: list[tuple[tk.Tree, list[str]]] = [(tree, [])]
    while stack:
        node, above = stack.pop()
        way = [*above, node.label]
        for mark in ("-P", "-B"):
            if node.label.endswith(mark) and node.children and mark not in ways:
                ways[mark], nodes[mark] = way, node
                order.append(mark)
        stack.extend((child, way) for child in reversed(node.children))
    up, down = ways.get("-P", [""]), ways.get("-B", [""])
    shared = 0
    while shared < min(len(up), len(down)) and up[shared] == down[shared]:
        shared += 1
    path = "^".join(up[: shared - 1 : -1]) + "!" + "!".join(down[shared:])
    head = nodes.get("-B", tree)
    while head.children:  # the last word stands for the head word
        head = head.children[-1]
    verb = nodes.get("-P", tree)
    governing = next((x for x in reversed(down[:-1]) if x in ("S", "VP")), "")
    return {
        f"phrase={down[-1]}": 1.0,
        f"path={path}": 1.0,
        f"verb={verb.children[0].label if verb.children else ''}": 1.0,
        f"head={head.label}": 1.0,
        f"governing={governing}": 1.0,
        f"before={order[:1] == ['-B']}": 1.0,
        f"participle={verb.label == 'VBN-P'}": 1.0,
    }


def hashed(forest: tk.Forest, n_columns: int = 2**18) -> csr_matrix:
    """Return the features of all trees as rows, hashed into columns."""
    columns: dict[str, int] = {}
    rows = [
        sorted(
            {
                columns.setdefault(name, zlib.crc32(name.encode()) % n_columns)
                for name in flat(tree)
            }
        )
        for tree in forest
    ]
    ends = np.cumsum([0, *map(len, rows)])
    places = np.fromiter((place for row in rows for place in row), int, ends[-1])
    return csr_matrix((np.ones(ends[-1]), places, ends), (len(forest), n_columns))


def numbered(names: list[str], split: int) -> np.ndarray:
    """Return a number from 0 to 39 for each document, another one with each split."""
    distinct = sorted(set(names))
    if split == 0:
        numbers = [zlib.crc32(name.encode()) % 40 for name in distinct]
    else:
        numbers = np.random.default_rng(split).permutation(len(distinct)) % 40
    places = dict(zip(distinct, numbers, strict=True))
    return np.array([places[name] for name in names])
