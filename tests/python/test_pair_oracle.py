"""The oracle of the sentence pairs against the worked numbers: no Rust."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import product

import kernel_oracle as ko
import numpy as np
import oracle
import pair_examples as ex
import pair_oracle as po
import pytest
from hypothesis import given, settings

TENTH = Fraction(1, 10)


@pytest.mark.parametrize("case", ex.VALUES, ids=str)
def test_worked_values(case):
    p, q = case.pairs
    for a, b in ((p, q), (q, p)):
        found = po.METHODS[case.method](a, b, Fraction(case.decay))
        assert found == Fraction(case.value)


@pytest.mark.parametrize(("method", "value"), [("exact", 7), ("paper", 7)])
def test_worked_values_of_fragments_of_whole_trees(method, value):
    assert po.METHODS[method](ex.P_A, ex.P_B, root_only=True) == value


def test_terms_of_the_worked_formula_for_fragments_of_whole_trees():
    left, right = po.both(ex.P_A, ex.P_B, 1, True)
    terms = {"11 22": (2, 2), "11 23": (2, 2), "11": (1, 1)}
    for written, values in terms.items():
        c = ex.constraint(written)
        assert (po.inside(left, c), po.inside(right, c)) == values
    assert po.paper_constraints(ex.P_A, ex.P_B, root_only=True) == {
        ex.constraint("11 22"),
        ex.constraint("11 23"),
    }


@pytest.mark.parametrize(("written", "counts"), ex.MATCHES.items(), ids=ex.MATCHES)
def test_worked_numbers_of_matches_by_constraint(written, counts):
    for p2, (left, right) in zip((ex.P2_NN, ex.P2_NNS), counts, strict=True):
        c = ex.constraint(written)
        assert po.matched(ex.P1[0], p2[0])[c] == left
        assert po.matched(ex.P1[1], p2[1])[c] == right


def test_no_other_constraint_occurs_in_the_worked_example():
    named = {ex.constraint(written) for written in ex.MATCHES}
    for p2, side in product((ex.P2_NN, ex.P2_NNS), (0, 1)):
        assert set(po.matched(ex.P1[side], p2[side])) <= named


@pytest.mark.parametrize(("method", "p", "q", "written"), ex.CONSTRAINTS)
def test_worked_sets_of_constraints(method, p, q, written):
    wanted = {ex.constraint(text) for text in written}
    assert po.CONSTRAINTS[method](p, q) == wanted


@pytest.mark.parametrize(("p2", "value"), [(ex.P2_NN, 19), (ex.P2_NNS, 31)])
def test_sums_of_the_best_assignment(p2, value):
    assert po.maximum(ex.P1, p2, join=sum) == value
    assert po.maximum(ex.P_A, ex.P_B, join=sum) == 6
    assert len(list(po.injections(ex.P1, p2))) == 60


def test_the_paper_variant_is_not_positive_semidefinite():
    gram = ex.matrix(po.paper, ex.THREE, TENTH)
    wanted = [[1.184356171, 0.9, 0], [0.9, 1.302791788, 0.9], [0, 0.9, 1.184356171]]
    np.testing.assert_allclose(gram, wanted, rtol=0, atol=5e-10)
    assert round(np.linalg.eigvalsh(gram)[0], 4) == -0.0306
    values = np.linalg.eigvalsh(ex.matrix(po.exact, ex.THREE, TENTH))
    assert values.round(3).tolist() == [0.330, 0.374, 2.967]
    assert po.exact(ex.THREE[0], ex.THREE[2], TENTH) == Fraction(81, 100)


def test_the_best_assignment_is_not_positive_semidefinite():
    gram = ex.matrix(po.maximum, ex.FOUR, TENTH)
    more = 1.1**8
    wanted = np.array(
        [[24, 24, 16, 24], [24, 32, 24, 16], [16, 24, 24, 24], [24, 16, 24, 32]]
    ) + more * np.eye(4)
    np.testing.assert_allclose(gram * 100, wanted, rtol=1e-12)
    w = np.array([1, -1, 1, -1])
    assert round(float(w @ gram @ w) * 100, 2) == -7.43
    assert round(np.linalg.eigvalsh(gram)[0], 4) == -0.0202
    sums = ex.matrix(lambda *pair: po.maximum(*pair, join=sum), ex.FOUR, TENTH)
    assert round(np.linalg.eigvalsh(sums)[0], 4) == -0.2016


@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_hard_family_counts_matchings(n):
    p, q = ex.matchings(n)
    assert po.exact(p, q) == po.paper(p, q) == ex.n_matchings(n) + n * n
    assert po.maximum(p, q) == 2**n + n
    assert ex.n_matchings(7) == 130_922


@settings(max_examples=60)
@given(po.sentence_pairs(most=2, nodes=5), po.decays)
def test_renumbering_bijections_and_constraints_say_the_same(pairs, decay):
    p, q = pairs[0], pairs[-1]
    value = po.exact(p, q, decay)
    assert value == po.exact_by_bijections(p, q, decay)
    left, right = po.both(p, q, decay, False)
    assert value == sum(
        x * y
        for (a, x), (b, y) in product(left.items(), right.items())
        if po.is_bijection(a | b)
    )


@given(po.sentence_pairs(most=2), po.decays)
def test_the_formula_of_the_paper_means_what_the_oracle_counts(pairs, decay):
    p, q = pairs[0], pairs[-1]
    members = po.paper_constraints(p, q)
    value = po.paper(p, q, decay)
    assert po.by_inclusion_and_exclusion(p, q, members, decay) == value
    # With unions of both sides in C, the formula is exact.
    exact = po.exact(p, q, decay)
    members = po.exact_constraints(p, q)
    assert po.by_inclusion_and_exclusion(p, q, members, decay) == exact
    assert value <= exact
    assert po.maximum(p, q, decay) <= exact


@given(po.sentence_pairs(most=1))
def test_show_then_read_is_identity(pairs):
    for tree in pairs[0]:
        assert po.read(po.show(tree)) == tree


@given(po.sentence_pairs(most=1), po.decays)
def test_without_placeholders_the_kernel_is_a_product(pairs, decay):
    """Of the two subset tree kernels, by the other oracle."""
    p = q = tuple(po.bare(tree) for tree in pairs[0])
    product_of_both = 1.0
    for tree in p:
        (plain,) = oracle.parse(po.show(tree))
        vector = ko.subset_tree(plain, decay=float(decay))
        product_of_both *= ko.dot(vector, vector)
    for kernel in po.METHODS.values():
        assert float(kernel(p, q, decay)) == pytest.approx(product_of_both, rel=1e-12)


def test_random_pairs_have_what_the_tests_are_about():
    """The strategy is worth nothing if all values were 0, or all variants agreed."""
    seen: Counter = Counter()

    @settings(max_examples=200, database=None, derandomize=True)
    @given(po.sentence_pairs(most=2))
    def look(pairs):
        p, q = pairs[0], pairs[-1]
        exact, paper, best = (kernel(p, q) for kernel in po.METHODS.values())
        seen["all"] += 1
        seen["not zero"] += exact > 0
        seen["paper differs"] += paper != exact
        seen["assignment differs"] += best != exact
        seen["several constraints"] += len(po.exact_constraints(p, q)) > 1

    look()
    assert seen["not zero"] >= 60
    assert min(seen.values()) >= 5, seen
