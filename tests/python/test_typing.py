"""What runs passes mypy: the examples of all docstrings and pages, as a user's code."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import treekernel_rs

if TYPE_CHECKING:
    from collections.abc import Iterator

pytest.importorskip("mypy", reason="mypy is not installed: --group dev")
pytest.importorskip(
    "sklearn", reason="scikit-learn is not installed: the extra sklearn"
)

ROOT = Path(__file__).parents[2]
#: Errors of other packages' types: numpy's savez takes a dict of arrays for its options,
#: and Dask's store does not know that all it needs of a target is `__setitem__`.
THEIRS = re.compile(r'Argument 2 to "(savez|savez_compressed|store)"')
OPTIONS = [
    "--check-untyped-defs",
    "--allow-redefinition",  # pages use a name again for something else
    "--disable-error-code=no-redef",
    "--ignore-missing-imports",
]


def examples() -> Iterator[tuple[str, list[doctest.Example]]]:
    finder = doctest.DocTestFinder(exclude_empty=True)
    for module in pkgutil.walk_packages(treekernel_rs.__path__, "treekernel_rs."):
        if module.name == "treekernel_rs.dask":
            pytest.importorskip("distributed")
        for test in finder.find(importlib.import_module(module.name), module.name):
            yield test.name, test.examples
    parser = doctest.DocTestParser()
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        yield page.stem, parser.get_examples(page.read_text(encoding="utf-8"))


@pytest.mark.slow
def test_every_example_passes_mypy(tmp_path: Path) -> None:
    n_files = 0
    for name, found in examples():
        # What is to fail may well have the wrong type.
        code = "".join(example.source for example in found if not example.exc_msg)
        if code:
            n_files += 1
            path = tmp_path / (re.sub(r"\W", "_", name) + ".py")
            path.write_text(code, encoding="utf-8")
    assert n_files > 150
    command = [sys.executable, "-m", "mypy", *OPTIONS, "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert lines, done.stderr
    wrong = [line for line in lines if ": error: " in line and not THEIRS.search(line)]
    assert not wrong, "\n".join(wrong)
    assert re.search(rf"checked {n_files} source files|no issues found", lines[-1])


@pytest.mark.slow
def test_a_wrong_type_is_told(tmp_path: Path) -> None:
    """Else the types would be `Any`, and the test above could not fail."""
    code = 'import treekernel_rs as tk\ntk.SubsetTreeKernel("0.4").decay.no\n'
    (tmp_path / "wrong.py").write_text(code)
    command = [sys.executable, "-m", "mypy", *OPTIONS, "wrong.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert "[arg-type]" in done.stdout
    assert "[attr-defined]" in done.stdout


#: Every line of this is refused, every line of the other is taken.
WRONG = """
tk.SubsetTreeKernle()
tk.TreeSCV(k)
tk.nothing
tk.TreeSVC(k).fitt(X, y)
tk.TreeRidge().predcit(X)
tk.TreeGram(k).fit(X).nothing()
tk.TreeKNeighborsClassifier(k).fit(X, y).predict_prob(X)
tk.gaussian_process.nothing
tk.dask.nothing
"""
RIGHT = """
tk.TreeSVC(k).fit(X, y).score(X, y)
tk.TreeSVC(k).set_fit_request(sample_weight=True).set_params(C=2.0).get_params()["C"]
tk.TreeRidge().fit(X, y).score(X, y, [1.0])
tk.TreeGram(k).set_output(transform="pandas").fit_transform(X).shape
tk.TreeVectorizer("labels").fit(X).get_feature_names_out().tolist()
tk.TreeOneClassSVM().fit_predict(X).tolist()
tk.TreeKNeighborsClassifier(k).fit(X, y).predict_proba(X).sum()
tk.TreePerceptron(k).partial_fit(X, y, y).classes_.tolist()
tk.gaussian_process.GPTreeKernel(k).theta.sum()
"""


@pytest.mark.slow
def test_names_that_are_not_there_are_refused(tmp_path: Path) -> None:
    """A module's `__getattr__`, and a base class without types, would let all pass."""
    start = (
        "import treekernel_rs as tk\nk, X, y = tk.SubsetTreeKernel(), ['(A a)'], [1]"
    )
    (tmp_path / "wrong.py").write_text(start + WRONG)
    (tmp_path / "right.py").write_text(start + RIGHT)
    command = [sys.executable, "-m", "mypy", "--strict", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    found = re.findall(r"(\w+)\.py:(\d+): error: ", done.stdout)
    refused = [int(line) for page, line in found if page == "wrong"]
    assert sorted(set(refused)) == list(range(3, 3 + WRONG.count("\n") - 1))
    assert [line for line in done.stdout.splitlines() if "right.py" in line] == []
