"""The slow twin of the DAG models: sums over support trees, and a dual perceptron.

It sees kernel values only: a matrix, or a function of two things.  The definitions, and
how they are read here:

*   A mistake is made on (x, y) if y * S(x) <= 0, where S is the score of the version at
    hand; the first version is empty and scores 0, so the first example is a mistake.
*   After every example the version at hand gets one vote, also the one that this very
    example made (Freund and Schapire: c = 1 on a mistake, c + 1 otherwise). So c_t is
    the number of examples after which version t was the one at hand; the votes add up to
    the number of examples, and the empty version has none.
*   last: S(x) of the last version. average: the sum of c_t * S_t(x); it may be divided by
    the number of examples. vote: the sum of c_t * sign(S_t(x)), where sign(0) = 0.

A score that is nothing beside the terms it is a sum of has a sign that depends on the
order of the additions; real streams have many that are 0 but for rounding.  Where all
terms are multiples of a power of two, as with decay 0.5, sums are exact and there is no
doubt.  Elsewhere `follow` takes another learner's word where the sign is in doubt, and
only there; `doubt` tells how far a sum of signs may be off.

>>> p = DualPerceptron(lambda a, b: a * b)
>>> p.learn([1.0, 2.0, -1.0], [1, 1, 1])
2
>>> p.mistakes, p.votes
([(1.0, 1), (-1.0, 1)], [2, 1])
>>> p.score([3.0], "last"), p.score([3.0], "average"), p.score([3.0], "vote")
([0.0], [6.0], [2.0])
"""

from __future__ import annotations

from itertools import accumulate
from math import fsum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

TINY = 1e-10


def sign(value: float) -> int:
    return (value > 0) - (value < 0)


def mistakes(perceptron: Any, *args: Any, **options: Any) -> int:
    """Let the library's perceptron learn; return how many mistakes it made."""
    before: int = perceptron.n_mistakes
    assert perceptron.partial_fit(*args, **options) is perceptron
    return int(perceptron.n_mistakes - before)


class DualPerceptron:
    """Keeps every mistake and the votes of every version."""

    def __init__(self, kernel: Callable[[Any, Any], float]) -> None:
        self.kernel = kernel
        self.mistakes: list[tuple[Any, int]] = []
        #: Votes of the versions, that after the first mistake first.
        self.votes: list[int] = []

    def terms(self, x: Any) -> list[float]:
        return [y * self.kernel(other, x) for other, y in self.mistakes]

    def learn(self, xs: Iterable[Any], ys: Iterable[int]) -> int:
        before = len(self.mistakes)
        for x, y in zip(xs, ys, strict=True):
            self.note(x, y, mistake=y * fsum(self.terms(x)) <= 0)
        return len(self.mistakes) - before

    def follow(self, x: Any, y: int, *, mistake: bool) -> bool:
        """Learn as another did, where the score hangs on rounding; else as it should.

        Returns whether the two agree.
        """
        terms = self.terms(x)
        score = fsum(terms)
        doubtful = 0 < fsum(map(abs, terms)) * TINY >= abs(score)
        right = mistake if doubtful else y * score <= 0
        self.note(x, y, mistake=right)
        return mistake == right

    def note(self, x: Any, y: int, *, mistake: bool) -> None:
        if mistake:
            self.mistakes.append((x, y))
            self.votes.append(0)
        self.votes[-1] += 1

    def versions(self, x: Any) -> list[float]:
        """Return the score of every version that has votes."""
        return list(accumulate(self.terms(x)))

    def score(self, xs: Sequence[Any], vote: str) -> list[float]:
        if vote == "last":
            return [fsum(self.terms(x)) for x in xs]
        how = (lambda score: score) if vote == "average" else sign
        return [
            fsum(c * how(s) for c, s in zip(self.votes, self.versions(x), strict=True))
            for x in xs
        ]

    def scale(self, xs: Sequence[Any], vote: str) -> list[float]:
        """Return the sum of the absolute values of what the score is a sum of."""
        if vote == "vote":
            return [float(sum(self.votes)) for _ in xs]
        if vote == "last":
            return [fsum(map(abs, self.terms(x))) for x in xs]
        weights = list(accumulate(reversed(self.votes)))[::-1]
        return [
            fsum(w * abs(t) for w, t in zip(weights, self.terms(x), strict=True))
            for x in xs
        ]

    def doubt(self, xs: Sequence[Any]) -> list[float]:
        """Return the votes of those versions whose sign hangs on rounding."""
        found = []
        for x in xs:
            scales = accumulate(abs(t) for t in self.terms(x))
            both = zip(self.votes, self.versions(x), scales, strict=True)
            found.append(sum(c for c, s, scale in both if abs(s) <= TINY * scale))
        return found
