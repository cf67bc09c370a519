"""The example that finds near-duplicate functions."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "find_clones.py"

ONE = '''
def total(prices, rate):
    """Add what all of it costs."""
    result = 0
    for price in prices:
        if price > 10:
            result += price * rate
        else:
            result += price + {constant}
    return result
'''
OTHER = """
class Deep:
    def names(self, (of)):
        return [name.strip() for name in of if name and not name.startswith("#")]
""".replace("(of)", "of")
TREE = "(S (A a) (B b) (C (D \\(d\\)) (E {last})))"


@pytest.fixture
def run(tmp_path):
    (tmp_path / "a.py").write_text(ONE.format(constant=1) + OTHER)
    (tmp_path / "sub").mkdir()
    # Another name, layout and docstring, and one constant.
    copy = ONE.format(constant=2).replace("def total", "def other_name")
    copy = copy.replace("Add what", "Sum up what").replace("\n    for", "\n\n    for")
    (tmp_path / "sub" / "b.py").write_text(copy)

    def call(*arguments):
        return subprocess.run(
            [sys.executable, SCRIPT, *map(str, arguments)],
            capture_output=True,
            text=True,
            cwd=tmp_path,
        )

    return call


def test_copies_are_found_and_told_as_text_json_and_a_page(run, tmp_path):
    page, data = tmp_path / "page.html", tmp_path / "data.json"
    done = run(".", "--min-nodes", 20, "--html", page, "--json", data)
    assert done.returncode == 0, done.stderr
    assert "a.py:2-10  total" in done.stdout
    assert "sub/b.py:2-11  other_name" in done.stdout
    assert done.stdout.endswith("2 of 3 functions in 1 groups\n")
    (group,) = json.loads(data.read_text())["groups"]
    assert [f["name"] for f in group["functions"]] == ["total", "other_name"]
    assert 0.8 <= group["pairs"][0]["similarity"] < 1
    text = page.read_text()
    assert text.count('class="side"') == 2
    lines = {
        line.split("</span>")[1] for line in text.split('<span class="line shared">')
    }
    assert "            result += price * rate" in lines
    assert "            result += price + 2" not in lines
    assert "http" not in text


def test_exit_codes_are_for_continuous_integration(run, tmp_path):
    assert run(".", "--min-nodes", 20, "--fail").returncode == 1
    assert run(".", "--min-nodes", 20, "--min-similarity", 1, "--fail").returncode == 0
    missing = run("nowhere")
    assert missing.returncode == 2
    assert "nowhere" in missing.stderr
    (tmp_path / "broken.py").write_text("def f(:")
    broken = run(".", "--min-nodes", 20, "--json", "-")
    assert broken.returncode == 0
    assert "broken.py: left out" in broken.stderr
    assert json.loads(broken.stdout)["n_functions"] == 3


def test_files_of_trees_are_read(run, tmp_path):
    rows = [("id", "tree"), ("x", TREE.format(last="e")), ("y", TREE.format(last="e"))]
    rows += [("z", "(broken")]
    (tmp_path / "java.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in rows))
    page = tmp_path / "page.html"
    done = run("java.tsv", "--min-nodes", 1, "--html", page)
    assert "  x  \n  y  \n2 of 2 functions in 1 groups\n" in done.stdout
    assert "java.tsv:4: no tree, left out" in done.stderr
    assert page.read_text().count(">    (d)") == 0
    assert page.read_text().count("      (d)</span>") == 2


def test_deep_nesting_is_read_without_recursion():
    spec = importlib.util.spec_from_file_location("find_clones", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["find_clones"] = module
    spec.loader.exec_module(module)
    node = module.ast.Name("x")
    for _ in range(20_000):
        node = module.ast.UnaryOp(module.ast.Not(), node)
    text, lines = module.brackets(node)
    assert text.count("(Not") == 20_000
    assert len(lines) == 40_002
    while isinstance(node, module.ast.UnaryOp):
        node = node.operand
