"""The fault suites, a moment each; `make faults` runs them for longer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SUITES = ["memory", "forks", "signals", "threads", "serving"]


@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.linux
@pytest.mark.slow
def test_nothing_is_found_in_a_moment(suite: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"faults.{suite}", "2"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
