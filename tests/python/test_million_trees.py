"""The example that learns a million trees, with some hundred."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("sklearn")

SCRIPT = Path(__file__).parents[2] / "examples" / "million_trees.py"
CODE = {
    "shop": "def total{i}(prices):\n    return sum(prices) + {i}\n\nvalue = total{i}([1])\n",
    "road": "class Way{i}:\n    length = {i}\n    name: str = 'way'\n\nimport way{i}\n",
}


@pytest.mark.slow
def test_statements_are_told_apart_and_the_table_is_printed(tmp_path: Path) -> None:
    for name, code in CODE.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
        for i in range(40):
            (tmp_path / name / f"m{i}.py").write_text('"""Doc."""\n' + code.format(i=i))
    command = [sys.executable, SCRIPT, "--folder", tmp_path, "--trees", "220", "--svm"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^\d{3} trees to learn from, 20 to test$", done.stdout, re.M)
    assert "\nof shop, road\n" in done.stdout
    names = ("HashingVectorizer", "TreeVectorizer", "perceptron", "exact SVM")
    for name in names:
        (accuracy,) = re.findall(rf"^{name}.*? (\d\.\d+) ", done.stdout, re.M)
        assert float(accuracy) > 0.9


@pytest.mark.slow
def test_without_packages_it_says_what_is_missing(tmp_path: Path) -> None:
    command = [sys.executable, SCRIPT, "--folder", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("skipped: fewer than two packages")
