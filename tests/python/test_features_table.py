"""The example that compares vectors of trees, on made-up questions and functions."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("sklearn")

SCRIPT = Path(__file__).parents[2] / "examples" / "features_table.py"
QUESTIONS = {"HUM": "(S (W Who) (V (B is) (N n{i})))", "LOC": "(S (W Where) (N n{i}))"}


def table(path: Path, lines: list[tuple[str, ...]]) -> Path:
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines("\t".join(line) + "\n" for line in lines)
    return path


def run(*options: object) -> str:
    command = [sys.executable, SCRIPT, "--dimensions", 4, 8, *options]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_every_kind_of_vectors_has_a_line_with_all_sets(tmp_path: Path) -> None:
    asked = [(c, t.format(i=i)) for i in range(20) for c, t in QUESTIONS.items()]
    train = table(tmp_path / "train.tsv.gz", asked[:30])
    test = table(tmp_path / "test.tsv.gz", asked[30:])
    # Four groups: two functions that differ in a name, and a copy of one of them.
    trees, clones = [("strange", "(M(()))")], []
    for g in range(4):
        body = f"(M(T:{g})(B(I:a{g})(C:b{g})(R:c{g}))(N:{{}}))"
        names = [f"{g}{k}" for k in "abc"]
        trees += zip(names, map(body.format, "xyy"), strict=True)
        clones += [(names[0], names[1], "2"), (names[1], names[2], "1")]
    trees += [(f"alone{i}", f"(M(T:{i})(X:q{i})(Y:q{i}))") for i in range(9)]
    clones.append(("alone0", "alone1", "3"))  # not of the types that are taken
    functions = table(tmp_path / "functions.tsv.gz", trees)
    pairs = table(tmp_path / "clones.tsv.gz", clones)
    out = run(
        *("--train", train, "--test", test),
        *("--functions", functions, "--clones", pairs),
        *("--others", 5, "--sets", "questions", "functions"),
    )
    assert "questions: 40 trees\nfunctions: 13 trees, 8 of them asked\n" in out
    lines = re.findall(r"^\| (.*) \|$", out, re.M)
    cells = {line.split(" | ")[0]: line.split(" | ")[1:] for line in lines}
    assert len(cells) == 1 + 7 + 4 * 2 + 2
    for name in ("productions", "SST, fragments of 1 to 3", "PT, exact"):
        assert [cells[name][1], cells[name][4]] == ["1.000", "1.000"]
    assert cells["PT, distributed, 8"][3] == "8"


@pytest.mark.slow
def test_sets_that_are_not_there_are_named(tmp_path: Path) -> None:
    out = run("--sets", "functions", "--functions", tmp_path / "none.tsv.gz")
    assert out.startswith("skipped: functions: ")
    assert "none.tsv.gz" in out
