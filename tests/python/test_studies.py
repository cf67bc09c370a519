"""The longer examples, in their short form."""

import runpy
import sys
from itertools import takewhile
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, options: list[str], monkeypatch, capsys) -> list[str]:
    monkeypatch.setattr(sys, "argv", [name, *options])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    return capsys.readouterr().out.splitlines()


def test_the_spectrum_of_trees_shows_their_styles(monkeypatch, capsys):
    # Older ones have another name for kmeans2's rng.
    pytest.importorskip("scipy", minversion="1.15")
    lines = run("spectrum", ["--n=1500", "--jobs=1"], monkeypatch, capsys)
    shares = [float(line.split("|")[1]) for line in lines if line[:9].strip().isdigit()]
    assert shares == sorted(shares, reverse=True)
    assert len(shares) == 5
    assert float(lines[-1].split()[-1]) > 0.9


def test_the_study_of_argument_boundaries_has_every_line_of_its_figures(
    monkeypatch, capsys, tmp_path
):
    pytest.importorskip("scipy")
    pytest.importorskip("matplotlib").use("Agg")
    out = tmp_path / "figures.png"
    sizes = ["--sizes", "400", "800", "--sum-sizes", "200", "400"]
    options = ["--made-up=1200", *sizes, "--splits=1", f"--out={out}"]
    lines = run("srl_boundaries", options, monkeypatch, capsys)
    starts = [i for i, line in enumerate(lines) if line.startswith("Figure ")]
    tables = [
        list(takewhile(lambda line: line.startswith("|"), lines[start + 4 :]))
        for start in starts
    ]
    names = [[row.split("|")[1].strip() for row in table] for table in tables]
    both = ("sum", "voted DAG")
    assert names[0] == [
        f"{line}, {how}" for line in both for how in ("fastest", "slowest")
    ]
    assert names[1] == [f"{line}, {how}" for line in both for how in ("fewest", "most")]
    raw = ["Tk, raw", "Tk + Poly3, raw"]
    assert names[2] == ["Tk", "Poly3", "Tk + Poly3", *raw, "SVM Tk"]
    assert set(names[2]) < set(names[3])
    for row in tables[3]:
        assert float(row.split("|")[-2]) > 0.6, row
    # A DAG keeps fewer nodes than the trees that it stands for.
    nodes = [float(row.split("|")[-2].replace(",", "")) for row in tables[1]]
    assert max(nodes[2:]) < min(nodes[:2])
    # An interval has a width, and its value within.
    rows = [line for line in lines if " to " in line and line.startswith("| ")][1:]
    assert [row.split("|")[1].strip() for row in rows] == names[3]
    for row in rows:
        low, high = map(float, row.split("|")[3].split(" to "))
        assert low < float(row.split("|")[2]) < high, row
    # A difference of a line to itself has no width.
    assert "+0.000 to +0.000" in rows[0]
    # Made-up data are named in every heading.
    heads = [line for line in lines if line.startswith(("Figure", "Table", "F1 "))]
    assert len(heads) == 7
    assert all(line.endswith("(made-up trees)") for line in heads)
    assert out.read_bytes().startswith(b"\x89PNG")
