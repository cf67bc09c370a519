"""Word vectors of a text at hand: PPMI and truncated SVD, for similar labels.

    M[w, c] = max(0, log P(w, c) / (P(w) P(c)))    c: a word up to 3 words before, or after
    M ~ U S V'                                     the vector of w: its row of U sqrt(S)

Words that stand among the same words get similar vectors (Levy, Goldberg & Dagan, TACL
2015). No network and no download: for common words some 100,000 words of text are enough,
rare words get none.

    python examples/word_vectors.py city river paint

prints the nearest words of these, from the texts of docs/DATA.md in the folder --data. Needs
the extra sklearn. Complexity: linear in the text, then that of the SVD.
"""

from __future__ import annotations

import argparse
import gzip
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from _data import add_argument, find_or_exit
from scipy.sparse import coo_matrix
from sklearn.decomposition import TruncatedSVD

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

#: Files of docs/DATA.md and their columns with sentences or trees. No test questions.
TEXTS = {
    "qc/dep_train.tsv.gz": [1],
    "rte/rte_raw.tsv.gz": [4, 5],
    "snli/dev.tsv.gz": [1, 2],
    "srl/masc_props.tsv.gz": [1],
    "wsj/wsj_clean.txt.gz": [2],
}
#: Endings of English words, and what stands in their place in the base form.
ENDINGS = [
    ("ies", "y"), ("ied", "y"), ("s", ""), ("es", ""), ("ed", ""), ("ed", "e"),
    ("ing", ""), ("ing", "e"),
]  # fmt: skip


def sentences(data: Path) -> Iterator[list[str]]:
    """Read the texts that are there: small words, without punctuation."""
    for name, columns in TEXTS.items():
        if not (data / name).exists():
            continue
        with gzip.open(data / name, "rt", encoding="utf-8") as file:
            for row in file:
                fields = row.split("\t")
                for text in (fields[column] for column in columns):
                    if text.startswith("("):
                        words = re.findall(r"[^\s()]+(?=\))", text)
                    else:
                        words = re.findall(r"\w[\w.'-]*\w|\w", text)
                    yield [word.lower() for word in words if word[-1].isalnum()]


def base_forms(
    text: Iterable[list[str]], known: Collection[str]
) -> Iterator[list[str]]:
    """Replace words by those of `known` whose forms they are, by their endings."""

    def base(word: str) -> str:
        if word in known:
            return word
        cut = (word.removesuffix(end) + y for end, y in ENDINGS if word.endswith(end))
        return next((form for form in cut if form in known), word)

    for sentence in text:
        yield [base(word) for word in sentence]


def word_vectors(
    text: Iterable[list[str]],
    *,
    dimensions: int = 200,
    window: int = 3,
    min_count: int = 5,
) -> tuple[list[str], np.ndarray]:
    """Return the words that stand at least `min_count` times, and their vectors."""
    text = list(text)
    counts = Counter(word for sentence in text for word in sentence)
    words = sorted(word for word, n in counts.items() if n >= min_count)
    number = {word: i for i, word in enumerate(words)}
    n = len(words)
    pairs: Counter[tuple[int, int]] = Counter()
    for sentence in text:
        ids = [number.get(word, -1) for word in sentence]
        for i, w in enumerate(ids):
            for c in ids[i + 1 : i + 1 + window]:
                if w >= 0 and c >= 0:
                    pairs[w, c + n] += 1  # c after w
                    pairs[c, w] += 1  # w before c
    places = np.array(list(pairs), np.int64).T
    times = np.array(list(pairs.values()), np.float64)
    of_word, of_context = (np.bincount(p, times, 2 * n) for p in places)
    expected = of_word[places[0]] * of_context[places[1]] / times.sum()
    ppmi = coo_matrix((np.maximum(0, np.log(times / expected)), places), (n, 2 * n))
    svd = TruncatedSVD(dimensions, random_state=0)
    return words, svd.fit_transform(ppmi.tocsr()) / np.sqrt(svd.singular_values_)


def main() -> None:
    """Print the nearest words of some."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("words", nargs="*")
    add_argument(parser)
    options = parser.parse_args()
    text = list(sentences(find_or_exit("qc", options.data).parent))
    counts = Counter(word for sentence in text for word in sentence)
    words, vectors = word_vectors(text)
    print(f"{sum(counts.values()):,} words of text, {len(words):,} with vectors\n")
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    for word in options.words:
        if word not in words:
            print(f"{word}: no vector")
            continue
        cosines = vectors @ vectors[words.index(word)]
        nearest = np.argsort(-cosines)[1:9]
        print(f"{word}: {', '.join(f'{words[i]} {cosines[i]:.2f}' for i in nearest)}")


if __name__ == "__main__":
    main()
