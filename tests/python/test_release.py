"""What a release is made by: pinned actions, one script for every CI, and its own checks."""

import importlib.machinery
import importlib.util
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(
    not (ROOT / ".ci").exists(), reason="the source distribution has no CI"
)


@pytest.fixture(scope="module")
def check():
    loader = importlib.machinery.SourceFileLoader(
        "release_check", str(ROOT / ".ci/release-check")
    )
    spec = importlib.util.spec_from_loader(loader.name, loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_by_hash(path):
    used = re.findall(r"uses: (.*)", path.read_text("utf-8"))
    assert used
    for action in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v[\d.]+", action), action


def test_an_action_has_one_version():
    texts = [path.read_text("utf-8") for path in WORKFLOWS]
    used = {
        tuple(pin.split("@")) for t in texts for pin in re.findall(r"uses: (.*)", t)
    }
    assert len(used) == len({name for name, _ in used})


def test_continuous_integration_runs_the_script_that_contributors_run():
    jobs = (ROOT / ".github/workflows/ci.yml").read_text("utf-8")
    assert "\n      - run: .ci/run\n" in jobs
    assert "make check" not in jobs
    script = (ROOT / ".ci/run").read_text("utf-8")
    for step in ("make minimum-rust", "make site", "make check"):
        assert step in script


LINK = '<p><a href="{}">it</a></p>'
BLOB = "https://github.com/treekernel-rs/treekernel_rs/blob/main/"


@pytest.mark.parametrize(
    "link",
    [f"{BLOB}README.md", f"{BLOB}README.md#first-example", "https://a.example/b"],
)
def test_good_links_of_a_page_are_counted(check, link):
    assert check.check_links("page", LINK.format(link) * 2, ROOT) == 2


def test_links_within_a_page_are_not_counted(check):
    page = '<h1 id="top">A</h1><a href="#top">#</a>' + LINK.format("https://a.example")
    assert check.check_links("page", page, ROOT) == 1


@pytest.mark.parametrize(
    ("page", "told"),
    [
        (LINK.format("docs/START.md"), "expected an absolute link"),
        (LINK.format("http://a.example/b"), "expected an absolute link"),
        (LINK.format(f"{BLOB}docs/NONE.md"), "leads to no file"),
        (LINK.format(f"{BLOB}README.md#none"), "leads to no heading"),
        ('<img src="images/a.png">', "expected an absolute link"),
        (LINK.format("#none"), "expected an absolute link"),
        ("<p>text</p>", "expected links"),
    ],
)
def test_bad_links_of_a_page_end_the_rehearsal(check, page, told):
    with pytest.raises(SystemExit, match=told):
        check.check_links("page", page, ROOT)


def test_versions_that_differ_end_the_rehearsal(check, tmp_path):
    for name in ("Cargo.toml", "CITATION.cff", "CHANGELOG.md"):
        (tmp_path / name).write_text((ROOT / name).read_text("utf-8"), "utf-8")
    version = check.check_texts(tmp_path)
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    (tmp_path / "CHANGELOG.md").write_text(text.replace(f"[{version}]", "[9]"), "utf-8")
    with pytest.raises(SystemExit, match=r"CHANGELOG\.md: expected a section"):
        check.check_texts(tmp_path)


def test_a_slower_kernel_is_named():
    slower = runpy.run_path(str(ROOT / "benches/instructions.py"))["slower"]
    old = {"ST": 100.0, "SST": 100.0, "PT": 100.0}
    new = {"ST": 104.0, "SST": 106.0, "PT": 50.0}
    assert slower(new, old, 0.05) == ["SST"]
    assert slower(new, old, 0.03) == ["SST", "ST"]
    assert slower(old, old, 0.0) == []
