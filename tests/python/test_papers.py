"""The papers' scripts run, in their short forms, and what must hold in any form holds."""

import re
import runpy
import sys
from pathlib import Path

import _data
import pytest

PAPERS = Path(__file__).parents[2] / "examples" / "papers"
PARTS = {
    "eacl_2006": (
        "Figure 5: pairs of nodes", "Figure 5: seconds for all kernels",
        "Figure 5: seconds to learn", "Figure 6: pairs of nodes",
        "Figure 6: nanoseconds", "Figure 7", "Table 2", "Table 4", "Differences",
    ),
    "emnlp_2009": ("Figure 7", "Figure 8", "Table 1"),
    "icml_2012": ("Definition 2", "Figure 2b", "Figure 3", "Figure 4"),
}  # fmt: skip
#: As the bench of compiled code prints it.
BENCH = "\n".join(
    [f"| WSJ | {n} | {n * n} | {n} | {n * n} | {n} | {n} |" for n in (10, 20, 30)]
    + [f"| MASC | {n} | {n * n} | {n} | {n} | {n} |" for n in (100, 200, 300)]
)


def test_every_script_is_tested_and_run_by_make_papers():
    scripts = {path.stem for path in PAPERS.glob("[!_]*.py")}
    assert scripts == set(PARTS)
    makefile = (PAPERS.parents[1] / "Makefile").read_text(encoding="utf-8")
    assert set(re.findall(r"examples/papers/(\w+)\.py", makefile)) == scripts


def test_generated_data_are_not_drawn_over_an_older_picture(tmp_path, capsys):
    picture = tmp_path / "a.png"
    assert not _data.may_draw(None, is_generated=False)
    assert _data.may_draw(picture, is_generated=True)
    picture.touch()
    assert _data.may_draw(picture, is_generated=False)
    assert capsys.readouterr().out == ""
    assert not _data.may_draw(picture, is_generated=True)
    assert f"{picture} is left as it is" in capsys.readouterr().out


def test_scripts_find_corpora_in_the_named_folder_only(tmp_path):
    (tmp_path / "wsj").touch()
    assert _data.find("wsj", tmp_path) == tmp_path / "wsj"
    assert _data.find("qc", tmp_path) is None
    assert _data.find_or_exit("wsj", tmp_path) == tmp_path / "wsj"
    with pytest.raises(SystemExit, match=r"qc is missing: docs/DATA\.md"):
        _data.find_or_exit("qc", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", PARTS)
@pytest.mark.filterwarnings("ignore")
def test_a_script_prints_its_tables_and_draws(name, tmp_path, monkeypatch, capsys):
    pytest.importorskip("sklearn", reason="the scripts train machines")
    pytest.importorskip("matplotlib", reason="the scripts draw").use("Agg")
    monkeypatch.syspath_prepend(PAPERS)
    out = tmp_path / "figure.png"
    arguments = [name, "--short", "--plot", str(out)]
    if name == "eacl_2006":
        (tmp_path / "bench.txt").write_text(BENCH)
        arguments += ["--compiled", str(tmp_path / "bench.txt")]
    monkeypatch.setattr(sys, "argv", arguments)
    runpy.run_path(str(PAPERS / f"{name}.py"), run_name="__main__")
    assert out.read_bytes().startswith(b"\x89PNG")
    text = capsys.readouterr().out
    assert [part for part in PARTS[name] if f"\n{part}" not in text] == []


def test_counts_of_evaluated_pairs_and_rows_of_the_bench(monkeypatch, tmp_path):
    """Figures 5 and 6: the counts by a loop over all pairs of nodes."""
    pytest.importorskip("sklearn", reason="the script trains machines")
    monkeypatch.syspath_prepend(PAPERS)
    import treekernel_rs as tk

    paper = runpy.run_path(str(PAPERS / "eacl_2006.py"))
    lines = ["(S (N (D the) (N dog)) (V barks))", "(S (N (D the) (N cat)) (V x))"]
    trees = tk.Forest.from_brackets(lines)
    found = [
        (len(node.children), [node.label, *(child.label for child in node.children)])
        for tree in trees
        for node in walked(tree)
    ]
    every = len(found) ** 2
    equal = sum(a == b and a[0] > 0 for a in found for b in found)
    assert paper["evaluated"](trees) == (every, equal)
    bench = tmp_path / "bench.txt"
    bench.write_text(
        "| WSJ | 10.2 | 105 | 0.4 | 62 | 15 | 34 |\n| MASC | 9 | 2 | 1 |\n"
    )
    assert paper["compiled"](bench) == {
        "WSJ": [[10.2, 105, 0.4, 62, 15, 34]],
        "MASC": [[9, 2, 1]],
    }
    assert paper["compiled"](None) == {"WSJ": [], "MASC": []}


def walked(tree):
    yield tree
    for child in tree.children:
        yield from walked(child)
