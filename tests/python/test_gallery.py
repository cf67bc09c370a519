"""The gallery's examples run, in their short form, and better than by chance."""

import importlib
import json
import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GALLERY = ROOT / "examples" / "gallery"
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


def sections():
    page = (ROOT / "docs/GALLERY.md").read_text(encoding="utf-8")
    for section in page.partition("## Seven fields")[2].split("\n### ")[1:]:
        (name,) = re.findall(r"python examples/gallery/(\w+)\.py", section)
        yield name, section


def test_the_page_says_what_was_recorded():
    recorded = json.loads((ROOT / "docs/gallery.json").read_text(encoding="utf-8"))
    pages = dict(sections())
    assert set(pages) == set(recorded) == set(EXAMPLES)
    for name, section in pages.items():
        assert f"(images/gallery-{name}.png)" in section
        assert (ROOT / f"docs/images/gallery-{name}.png").exists()
        known = recorded[name]["results"].values()
        pairs = [[f"{number:.3f}"[1:] for number in pair] for pair in known]
        written = {mean for mean, _ in pairs} | {" ± ".join(pair) for pair in pairs}
        text = section.replace("\n", " ")
        said = re.findall(r"(?<![\d.])\.\d{3}(?: ± \.\d{3})?", text)
        assert said
        assert [number for number in said if number not in written] == [], name


VERSIONS = {"page": "html", "model": "json", "function": "py"}


@pytest.fixture
def versions(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "examples")
    return importlib.import_module("compare_versions")


@pytest.mark.parametrize("name", VERSIONS)
def test_the_page_has_the_changes_of_two_versions_and_their_picture(name, versions):
    if name == "page":
        pytest.importorskip("lxml", reason="the extra web is not installed")
    comparison = versions.compared(name)
    page = (ROOT / "docs/GALLERY.md").read_text(encoding="utf-8")
    assert f"\n{comparison!r}\n" in page
    picture = ROOT / f"docs/images/compare-{name}.svg"
    assert f"(images/{picture.name})" in page
    assert picture.read_text(encoding="utf-8") == str(comparison.draw())


@pytest.mark.parametrize("name", ["model", "function"])
def test_two_files_are_compared(name, versions, tmp_path, monkeypatch, capsys):
    suffix = VERSIONS[name]
    files = tmp_path / f"old.{suffix}", tmp_path / f"new.{suffix}"
    for path, text in zip(files, versions.EXAMPLES[name], strict=True):
        path.write_text(text, encoding="utf-8")
    out = tmp_path / "changes.html"
    monkeypatch.setattr(sys, "argv", ["", *map(str, files), "--out", str(out)])
    versions.main()
    assert capsys.readouterr().out.startswith(f"new.{suffix}: <Comparison: similarity")
    assert out.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    monkeypatch.setattr(sys, "argv", ["", str(files[0])])
    with pytest.raises(SystemExit):
        versions.main()
    with pytest.raises(
        ValueError, match=r"ends in \.html, \.json or \.py, got '\.txt'"
    ):
        versions.read("x", ".txt")


@pytest.mark.slow
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
