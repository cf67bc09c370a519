"""The example that makes word vectors of a text, against the definition."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="the SVD is scikit-learn's")

SCRIPT = Path(__file__).parents[2] / "examples" / "word_vectors.py"
SPEC = importlib.util.spec_from_file_location("word_vectors", SCRIPT)
module = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(module)

TEXT = [
    sentence.split()
    for sentence in (
        "the cat drinks the milk",
        "the dog drinks water",
        "a dog sees the cat and a cat sees the dog",
        "milk and water",
    )
]


def ppmi(words: list[str], window: int) -> np.ndarray:
    """Compute the matrix from the definition, cell by cell."""
    n = len(words)
    counts = np.zeros((n, 2 * n))
    for sentence in TEXT:
        for i, w in enumerate(sentence):
            for j, c in enumerate(sentence):
                if i != j and abs(i - j) <= window and {w, c} <= {*words}:
                    counts[words.index(w), words.index(c) + n * (j > i)] += 1
    joint = counts / counts.sum()
    independent = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    cells = np.divide(joint, independent, out=np.ones_like(joint), where=joint > 0)
    return np.maximum(0, np.log(cells))


def test_dot_products_are_the_root_of_those_of_ppmi() -> None:
    words, vectors = module.word_vectors(TEXT, dimensions=7, window=2, min_count=2)
    assert words == ["a", "and", "cat", "dog", "drinks", "milk", "sees", "the", "water"]
    u, s, _ = np.linalg.svd(ppmi(words, 2))
    expected = (u[:, :7] * s[:7]) @ u[:, :7].T
    np.testing.assert_allclose(vectors @ vectors.T, expected, atol=1e-9)


def test_forms_become_known_base_forms_and_others_stay() -> None:
    known = {"film", "city", "make", "paint", "his"}
    text = [["films", "cities", "making", "painted", "his", "bus"]]
    assert list(module.base_forms(text, known)) == [
        ["film", "city", "make", "paint", "his", "bus"]
    ]


def test_no_test_question_is_read() -> None:
    assert not [name for name in module.TEXTS if "test" in name]
