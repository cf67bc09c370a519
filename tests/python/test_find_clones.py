"""The example that finds near-duplicate functions."""

from __future__ import annotations

import ast
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import find_clones
import pytest

import treekernel_rs as tk

SCRIPT = Path(find_clones.__file__)

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
    def names(self, lines):
        return [name.strip() for name in lines if name and not name.startswith("#")]
"""
TREE = "(S (A a) (B b) (C (D \\(d\\)) (E {last})))"


@pytest.fixture
def run(tmp_path):
    (tmp_path / "src" / "sub").mkdir(parents=True)
    (tmp_path / "src" / "a.py").write_text(ONE.format(constant=1) + OTHER)
    # Another name, layout and docstring, and one constant.
    copy = ONE.format(constant=2).replace("def total", "def other_name")
    copy = copy.replace("Add what", "Sum up what").replace("\n    for", "\n\n    for")
    (tmp_path / "src" / "sub" / "b.py").write_text(copy)

    def call(*arguments):
        return subprocess.run(
            [sys.executable, SCRIPT, *map(str, arguments)],
            capture_output=True,
            text=True,
            errors="surrogateescape",
            cwd=tmp_path,
            timeout=60,
        )

    return call


def found(done):
    """Return the functions of each group that was printed as JSON."""
    groups = json.loads(done.stdout)["groups"]
    return [[(f["file"], f["name"]) for f in group["functions"]] for group in groups]


def test_copies_are_found_and_told_as_text_json_sarif_and_a_page(run, tmp_path):
    page, data, log = (tmp_path / name for name in ("x.html", "x.json", "x.sarif"))
    reports = ("--html", page, "--json", data, "--sarif", log)
    done = run("src", "--min-nodes", 20, *reports)
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
    (log,) = json.loads(log.read_text())["runs"]
    (result,) = log["results"]
    assert result["ruleId"] == log["tool"]["driver"]["rules"][0]["id"]
    places = [result["locations"][0], *result["relatedLocations"]]
    places = [place["physicalLocation"] for place in places]
    assert [place["artifactLocation"]["uri"] for place in places] == [
        "src/a.py",
        "src/sub/b.py",
    ]
    assert places[1]["region"] == {"startLine": 2, "endLine": 11}


def test_exit_codes_are_for_continuous_integration(run, tmp_path):
    nodes = ("--min-nodes", 20)
    assert run("src", *nodes, "--fail").returncode == 1
    assert run("src", *nodes, "--min-similarity", 1, "--fail").returncode == 0
    missing = run("nowhere")
    assert missing.returncode == 2
    assert "nowhere: left out" in missing.stderr
    (tmp_path / "empty").mkdir()
    empty = run("empty", "--fail")
    assert (empty.returncode, "no function was found" in empty.stderr) == (2, True)
    (tmp_path / "src" / "broken.py").write_text("def f(:")
    broken = run("src", *nodes, "--json", "-", "--fail")
    assert broken.returncode == 2
    assert "broken.py:1: left out" in broken.stderr
    told = json.loads(broken.stdout)
    assert (told["n_functions"], told["n_skipped"]) == (3, 1)
    nowhere = run("src/a.py", "--json", tmp_path / "no" / "file")
    assert (nowhere.returncode, "Traceback" in nowhere.stderr) == (2, False)


@pytest.mark.parametrize(
    "changed",
    [
        ("price", "cost"),
        ("    result = 0\n", "    result = 0\n    check(prices)\n"),
        ("    result = 0\n", ""),
        ("return result", "return float(result)"),
    ],
    ids=["renamed", "inserted", "deleted", "changed"],
)
def test_changed_copies_are_found(run, tmp_path, changed):
    code = ONE.format(constant=1) + ONE.format(constant=1).split("\n", 1)[1].replace(
        *changed
    ).replace("def total", "def copy")
    # Long enough that one statement is a small part.
    more = "".join(
        f"    result = g{k}(result, prices[{k}], h(rate))\n" for k in range(6)
    )
    code = code.replace("    return", f"{more}    return")
    (tmp_path / "c.py").write_text(code)
    assert found(run("c.py", "--json", "-")) == [[("c.py", "total"), ("c.py", "copy")]]


def test_functions_in_functions_are_reported_once(run, tmp_path):
    def nested(name, work):
        inner = ONE.format(constant=1).replace("\n", "\n    ")
        return f"def {name}(x):{inner}\n{work}    return total(x, {name}) or x\n"

    work = "".join(f"    x = g{k}(x, y[{k}], h(x))\n" for k in range(9))
    (tmp_path / "both.py").write_text(nested("f", work) + nested("g", work))
    assert found(run("both.py", "--json", "-", "--min-nodes", 20)) == [
        [("both.py", "f"), ("both.py", "g")]
    ]
    # Where the functions around them differ, those inside are reported.
    other = "".join(f"    with o{k}.p{k}: r{k}(x) and s{k}[{k}]\n" for k in range(9))
    (tmp_path / "both.py").write_text(nested("f", work) + nested("g", other))
    inner = [("both.py", "f.<locals>.total"), ("both.py", "g.<locals>.total")]
    assert found(run("both.py", "--json", "-", "--min-nodes", 20)) == [inner]


def test_equal_functions_are_linked_to_the_first_and_large_ones_compared_by_equality(
    run, tmp_path
):
    (tmp_path / "many.py").write_text(ONE.format(constant=1) * 30)
    done = run("many.py", "--json", "-", "--min-nodes", 20, "--max-nodes", 10)
    (group,) = json.loads(done.stdout)["groups"]
    assert len(group["functions"]) == 30
    assert [pair["similarity"] for pair in group["pairs"]] == [1.0] * 29
    done = run("src", "--json", "-", "--min-nodes", 20, "--max-nodes", 30)
    assert found(done) == []


def test_files_of_trees_are_read(run, tmp_path):
    rows = [("id", "tree"), ("x", TREE.format(last="e")), ("y", TREE.format(last="e"))]
    text = "".join(f"{a}\t{b}\n" for a, b in rows)
    (tmp_path / "java.tsv").write_text(text)
    page = tmp_path / "page.html"
    done = run("java.tsv", "--min-nodes", 1, "--html", page)
    assert done.returncode == 0
    assert "  x\n" in done.stdout.replace("  \n", "\n")
    assert done.stdout.endswith("2 of 2 functions in 1 groups\n")
    assert page.read_text().count("    (d)</span>") == 2
    (tmp_path / "java.tsv").write_text(f"{text}z\t(broken\n")
    done = run("java.tsv", "--min-nodes", 1)
    assert "java.tsv:4: left out" in done.stderr
    assert done.returncode == 2


CODE = {
    "c": """
        static int *{name}(int *values, int n) {{
            int total = 0;
            for (int i = 0; i < n; i++) {{ if (values[i] > 3) total += values[i]; }}
            report(total, n); values[0] = total;
            return values;
        }}""",
    "go": """
        package p
        func {name}(values []int) int {{
            total := 0
            for i, v := range values {{ if v > 3 {{ total += v * i }} }}
            report(total, values)
            return total
        }}""",
    "java": """
        class A {{ int {name}(int[] values) {{
            int total = 0;
            for (int v : values) {{ if (v > 3) {{ total += v * this.rate; }} }}
            this.report(total, values);
            return total;
        }} }}""",
    "js": """
        const {name} = (values) => {{
            let total = 0;
            for (const v of values) {{ if (v > 3) {{ total += v * rate; }} }}
            report(total, values);
            return total;
        }};""",
    "ts": """
        function {name}(values: number[]): number {{
            let total = 0;
            for (const v of values) {{ if (v > 3) {{ total += v * rate; }} }}
            report(total, values);
            return total;
        }}""",
}


@pytest.mark.parametrize("suffix", CODE)
def test_other_languages_are_read_where_their_grammars_are(run, tmp_path, suffix):
    pytest.importorskip("tree_sitter")
    names = {"js": "javascript", "ts": "typescript"}
    pytest.importorskip(f"tree_sitter_{names.get(suffix, suffix)}")
    (tmp_path / f"one.{suffix}").write_text(CODE[suffix].format(name="first"))
    renamed = CODE[suffix].format(name="second").replace("total", "sum")
    (tmp_path / f"two.{suffix}").write_text(renamed.replace("values", "data"))
    page = tmp_path / "page.html"
    done = run(f"one.{suffix}", f"two.{suffix}", "--html", page, "--min-nodes", 20)
    assert done.returncode == 0, done.stderr
    assert "first" in done.stdout
    assert "second" in done.stdout
    assert "1.000 to 1.000" in done.stdout
    assert page.read_text().count('class="side"') == 2


def test_missing_grammars_are_told(tmp_path, monkeypatch, capsys):
    (tmp_path / "a.go").write_text("package p")
    monkeypatch.setitem(sys.modules, "tree_sitter_go", None)
    monkeypatch.setitem(sys.modules, "tree_sitter_language_pack", None)
    assert find_clones.main([str(tmp_path)]) == 2
    assert "a.go: left out" in capsys.readouterr().err


# --- what goes wrong ------------------------------------------------------------------

BAD = {
    "deep.py": b"x = " + b"-" * 50_000 + b"1",
    "coding.py": b"# coding: rot13\nx = 1\n",
    "nonsense.py": b"# coding: klingon\nx = 1\n",
    "cut.py": gzip.compress(b"x = 1\n" * 99)[:-9],
    "latin.py": b"x = '\xe9'\n",
    "null.py": b"x = '\0'\n",
    "utf16.py": "x = 1".encode("utf-16"),
    "cut.tsv.gz": gzip.compress(b"a\t(b c)\n" * 99)[:-9],
    "wrong.tsv.gz": b"\x1f\x8b no gzip",
    "unknown.txt": b"x",
}


@pytest.mark.parametrize("name", BAD)
def test_one_bad_file_ends_no_run(run, tmp_path, name):
    (tmp_path / name).write_bytes(BAD[name])
    done = run("src", name, "--min-nodes", 20, "--json", "-")
    assert done.returncode == 2
    assert f"{name}" in done.stderr
    assert "left out" in done.stderr
    assert "Traceback" not in done.stderr
    assert [name for _, name in found(done)[0]] == ["total", "other_name"]


@pytest.mark.posix
@pytest.mark.skipif(sys.platform == "win32", reason="needs links and pipes")
def test_what_is_no_file_is_left_out_and_told(run, tmp_path):
    (tmp_path / "src" / "d.py").mkdir()
    (tmp_path / "src" / "d.py" / "e.py").write_text(ONE.format(constant=3))
    done = run("src", "--min-nodes", 20, "--json", "-")
    assert done.returncode == 0, done.stderr
    assert len(found(done)[0]) == 3
    (tmp_path / "src" / "again.py").symlink_to("a.py")
    assert (
        run("src", "src/a.py", "--min-nodes", 20, "--json", "-").stdout == done.stdout
    )
    (tmp_path / "src" / "gone.py").symlink_to("nowhere.py")
    os.mkfifo(tmp_path / "src" / "pipe.py")
    done = run("src", "--min-nodes", 20, "--json", "-")
    assert done.returncode == 2
    assert "gone.py: left out: No such file" in done.stderr
    assert "pipe.py: left out: no regular file" in done.stderr
    assert len(found(done)[0]) == 3


@pytest.mark.linux
@pytest.mark.skipif(sys.platform != "linux", reason="names are Unicode there")
def test_names_that_are_no_text_have_their_page(run, tmp_path):
    name = os.fsdecode(b"caf\xe9.py")
    (tmp_path / "src" / name).write_text(ONE.format(constant=3))
    page, log = tmp_path / "page.html", tmp_path / "x.sarif"
    done = run("src", "--min-nodes", 20, "--html", page, "--sarif", log)
    assert done.returncode == 0, done.stderr
    assert "caf\\xe9.py:2-10" in done.stdout
    assert "caf\\xe9.py:2-10" in page.read_text(encoding="utf-8")
    assert "src/caf%E9.py" in log.read_text(encoding="utf-8")


def test_lines_are_those_of_the_file(run, tmp_path):
    # Neither a form feed nor other breaks of `str.splitlines` end a line.
    code = "x = '\u2028'\n\f\n" + ONE.format(constant=1).lstrip() + "\f"
    code += ONE.format(constant=1)
    (tmp_path / "feeds.py").write_text(code, encoding="utf-8")
    page = tmp_path / "page.html"
    done = run("feeds.py", "--min-nodes", 20, "--html", page)
    spans = [(n.lineno, n.end_lineno) for n in ast.parse(code).body[1:]]
    for first, last in spans:
        assert f"feeds.py:{first}-{last}  total" in done.stdout
    shown = page.read_text(encoding="utf-8").split('<span class="n">')[1:]
    lines = code.split("\n")
    for line in shown:
        number, text = line.split("</span>")[:2]
        assert text == find_clones.html.escape(lines[int(number) - 1])


# --- what a run keeps -----------------------------------------------------------------


def test_a_second_run_reads_what_changed(tmp_path, capsys, monkeypatch):
    for name in "abc":
        (tmp_path / f"{name}.py").write_text(ONE.format(constant=name) + OTHER)
    given = [str(tmp_path), "--min-nodes", "20", "--keep", str(tmp_path / "kept")]
    texts = []

    def read(files, *options, plainly=find_clones.read_code):
        texts.extend(Path(file.path).name for file in files)
        return plainly(files, *options)

    monkeypatch.setattr(find_clones, "read_code", read)
    assert find_clones.main(given) == 0
    first = capsys.readouterr().out
    assert sorted(set(texts)) == ["a.py", "b.py", "c.py"]
    texts.clear()
    assert find_clones.main(given) == 0
    assert (capsys.readouterr().out, texts) == (first, [])
    # Another file, a changed one, and one that is gone.
    (tmp_path / "a.py").write_text("\n" + ONE.format(constant="d"))
    (tmp_path / "d.py").write_text(ONE.format(constant="c") + OTHER)
    (tmp_path / "c.py").unlink()
    assert find_clones.main(given) == 0
    assert set(texts) == {"a.py"}  # d.py has what c.py had
    kept = capsys.readouterr().out
    assert find_clones.main(given[:3]) == 0
    assert capsys.readouterr().out == kept
    for file in (tmp_path / "kept").iterdir():
        file.write_bytes(b"damaged")
    texts.clear()
    assert find_clones.main(given) == 0
    assert (capsys.readouterr().out, set(texts)) == (kept, {"a.py", "b.py", "d.py"})


def test_what_was_left_out_is_told_again(tmp_path, capsys):
    (tmp_path / "a.py").write_text(ONE.format(constant=1) * 2)
    (tmp_path / "broken.py").write_text("def f(:")
    lines = "".join(f"{name}\t{TREE.format(last='e')}\n" for name in "xy")
    (tmp_path / "trees.tsv").write_text(f"{lines}z\t(broken\n")
    files = [str(tmp_path / name) for name in ("a.py", "broken.py", "trees.tsv")]
    given = [*files, "--min-nodes", "5", "--keep", str(tmp_path / "kept")]
    told = []
    for _ in range(2):
        assert find_clones.main(given) == 2
        told.append(capsys.readouterr())
    assert told[0] == told[1]
    assert told[0].err.count("left out") == 2
    assert "4 of 4 functions in 2 groups" in told[0].out


def test_the_similarity_is_that_of_both_views_by_single_kernels(tmp_path):
    """The values are those of plain kernels of each pair, the larger of both views."""
    code = ONE.format(constant=1) + ONE.format(constant=1).replace("price", "cost")
    code += (
        ONE.format(constant=1).replace("result", "r").replace("rate", "y", 1) + OTHER
    )
    (tmp_path / "a.py").write_text(code)
    skipped = find_clones.Skipped()
    files = find_clones.read_files([str(tmp_path)], skipped)
    corpus = find_clones.Corpus()
    corpus.add(files, skipped)
    functions, trees = find_clones.functions_of(files, corpus)
    views = [view[trees] for view in corpus.views]
    groups = find_clones.find(functions, views, 0.5, 1, 10_000)
    subtrees = tk.SubtreeKernel(1, counts="log", normalize=True)
    fragments = tk.SubsetTreeKernel(0.2, normalize=True)
    expected = {}
    for j in range(len(functions)):
        for i in range(j):
            value = max(
                0.4 * subtrees.pair(view[i], view[j])
                + 0.6 * fragments.pair(view[i], view[j])
                for view in views
            )
            if value >= 0.5:
                expected[i, j] = value
    got = {(i, j): value for group in groups for value, i, j in group.pairs}
    # Equal trees are linked to the first of them.
    assert got.keys() <= expected.keys()
    for pair, value in got.items():
        assert value == pytest.approx(expected[pair])
    assert {i for pair in expected for i in pair} == {
        i for group in groups for i in group.members
    }
