"""The oldest versions that pyproject.toml allows are those that CI tries."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MINIMUMS = ROOT / ".ci/minimums"

pytestmark = pytest.mark.skipif(
    not MINIMUMS.exists(), reason="the source distribution has no CI"
)


def test_every_stated_minimum_is_tried():
    run = [sys.executable, str(MINIMUMS)]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    listed = dict(line.split("==") for line in done.stdout.split())
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    stated = told["dependencies"]
    for extra in told["optional-dependencies"].values():
        stated = stated + extra
    for requirement in stated:
        name, version = re.match(r"([\w-]+).*?>=([\d.]+)", requirement).groups()
        assert listed[name] == version
    jobs = (ROOT / ".github/workflows/ci.yml").read_text()
    assert "\n      - run: make oldest\n" in jobs


def test_grammars_are_of_a_version_that_downloads_nothing():
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (pack,) = [r for r in told["optional-dependencies"]["code"] if "pack" in r]
    assert pack.endswith(",<1")
