"""The page of formulas: each names its paper, its number there and its function, and runs.

The code of the page runs as doctests; here is what must be on the page.
"""

from __future__ import annotations

import re
from functools import reduce
from pathlib import Path

import pytest

import treekernel_rs as tk

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/MATH.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S))
ROWS = [
    [cell.strip() for cell in row.strip("|").split(" | ")]
    for row in re.findall(r"^\| \w+ 20\d\d, .*\|$", PAGE, re.M)
]
#: A line of a formula is indented by at least four spaces.
FORMULAS = {
    name: text for name, text in SECTIONS.items() if re.search(r"^    \S", text, re.M)
}


@pytest.mark.parametrize(
    ("paper", "last"), [("EACL 2006", 1), ("ICML 2012", 6), ("AAAI 2019", 10), ("EMNLP 2009", 10)]
)  # fmt: skip
def test_each_numbered_formula_of_the_papers_has_its_row(paper: str, last: int) -> None:
    named = " ".join(row[0] for row in ROWS if row[0].startswith(paper))
    numbers = sorted(int(n) for n in re.findall(r"\((\d+)\)", named))
    assert numbers == list(range(1, last + 1))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_formula_has_a_function_and_says_where_it_differs(row: list[str]) -> None:
    assert len(row) == 4
    assert all(row)
    names = re.findall(r"`([^`]+)`", row[2])
    assert names
    for name in names:
        if "::" in name:
            module, item = name.split("::")
            source = (ROOT / "src" / module / "mod.rs").read_text(encoding="utf-8")
            assert re.search(rf"pub (use|struct)\b.*\b{item}\b", source), name
            continue
        *path, last = name.split(".")
        owner = reduce(getattr, path, tk)
        assert hasattr(owner, last) or last in getattr(owner, "__annotations__", {}), (
            name
        )


@pytest.mark.parametrize("name", FORMULAS)
def test_a_section_with_formulas_names_paper_and_source_and_runs(name: str) -> None:
    text = FORMULAS[name]
    head = text.split("```pycon")[0]
    defined_here = {
        "Weights and counts: `weights=`, `counts=`",
        "Normalisation, zeros, overflow",
        "Derivatives: `gram(gradient=True)`",
    }
    assert re.search(r"\b(19|20)\d\d\b", head) or name in defined_here, "no paper"
    assert re.findall(r"`src/[a-z_/]+\.rs`", text), "no source"
    assert "```pycon" in text, "no example that runs"


def test_no_number_is_claimed_outside_of_code_that_runs() -> None:
    prose = re.sub(r"```.*?```", "", PAGE, flags=re.S)
    prose = re.sub(r"^    .*$", "", prose, flags=re.M)  # formulas
    # What is given or defined is no result: Greek parameters, and some more.
    given = (
        r"(?:[\u03bb\u03c3\u03bc\u03b3]|\u03c3\(cat, dog\)|w_a\(g\)|\bH|sign 0|"
        r"`?(?:decay|leaf_weight|leaf_factor|max_children)`?) ?= ?-?[\d.]+"
    )
    prose = re.sub(given, "", prose)
    assert re.findall(r".*[^=<>≤≥]= ?-?\d[\d.]*(?![\dx.]).*", prose) == []
