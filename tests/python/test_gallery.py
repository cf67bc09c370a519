"""The gallery's examples run, in their short form, and better than by chance."""

import runpy
import sys
from pathlib import Path

import pytest

GALLERY = Path(__file__).parents[2] / "examples" / "gallery"
EXAMPLES = {
    # short form, chance, and ways that must be well above it
    "glycans": ("--per-class=20", 0.1, ("PT", "SST", "1-")),
    "forms": ("--most=150", 0.33, ("PT", "words", "tags")),
    "functions": ("--per-class=40", 0.125, ("SST", "kinds and")),
    "services": ("--most=100", 0.5, ("ST", "PT", "edges")),
    "pages": ("--most=120", 0.35, ("SST, c", "PT", "tags")),
    "rna": ("--most=60", 0.5, ("PT, sizes", "statistics")),
    "phylogenies": (
        "--n-trees=40",
        0.5,
        ("ET, lengths", "PT, lengths", "statistics, l"),
    ),
}


def test_every_example_is_tested():
    examples = {path.stem for path in GALLERY.glob("[!_]*.py")}
    assert examples == set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.filterwarnings("ignore")
def test_an_example_runs_and_learns(name, tmp_path, monkeypatch, capsys):
    option, chance, ways = EXAMPLES[name]
    pytest.importorskip("sklearn")
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.syspath_prepend(GALLERY)
    out = tmp_path / "figure.png"
    monkeypatch.setattr(sys, "argv", [name, option, "--out", str(out)])
    try:
        runpy.run_path(str(GALLERY / f"{name}.py"), run_name="__main__")
    except ImportError as error:
        pytest.skip(str(error))
    assert out.read_bytes().startswith(b"\x89PNG")
    lines = capsys.readouterr().out.splitlines()
    found = [line for line in lines if line.startswith(ways)]
    assert len(found) >= len(ways)
    for line in found:
        assert float(line.split(" ± ")[0].split()[-1]) > chance + 0.1, line
