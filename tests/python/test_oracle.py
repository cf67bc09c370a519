"""The oracle against the golden cases and against itself: no Rust here."""

import oracle
import pytest
from golden import CASES, Case
from hypothesis import given


@pytest.mark.parametrize("case", CASES, ids=str)
def test_oracle_meets_the_golden_case(case: Case):
    if case.position is None:
        assert [oracle.show(tree) for tree in oracle.parse(case.source)] == case.trees
    else:
        with pytest.raises(oracle.OracleError) as caught:
            oracle.parse(case.source)
        assert caught.value.position == case.position


@given(oracle.written_text())
def test_every_layout_reads_back(drawn):
    forest, text = drawn
    assert oracle.parse(text) == forest
    assert oracle.parse(text.encode()) == forest


@given(oracle.written_items())
def test_every_layout_of_items_reads_back(drawn):
    forest, texts = drawn
    assert oracle.parse(texts) == forest


@given(oracle.nonempty_forests)
def test_print_then_parse_is_identity(forest):
    printed = [oracle.show(tree) for tree in forest]
    assert oracle.parse(printed) == forest
    assert oracle.parse("\n".join(printed)) == forest


@given(oracle.labels_any)
def test_printing_escapes_no_more_than_needed(label):
    """Take one backslash away, and the text is another tree or none."""
    written = oracle.show_label(label)
    for place, char in enumerate(written):
        if char == "\\":
            shorter = written[:place] + written[place + 1 :]
            try:
                (tree,) = oracle.parse(f"(x {shorter})")
            except oracle.OracleError:
                continue
            assert tree != ("x", ((label, ()),))


def test_oracle_needs_no_recursion():
    n = 20_000
    (tree,) = oracle.parse("(a" * n + ")" * n)
    assert oracle.depth(tree) == oracle.n_nodes(tree) == n
    assert oracle.show(tree) == "(a " * (n - 1) + "a" + ")" * (n - 1)
