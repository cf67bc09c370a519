"""Hypothesis profiles (`make check` asks for the longer one), the real data, a browser."""

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

HERE = Path(__file__).parent

settings.register_profile(
    "default",
    max_examples=50,
    deadline=None,  # two cores, shared
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("check", settings.get_profile("default"), max_examples=100)
settings.load_profile("default")

# What runs in the background of a shell is deaf to Ctrl-C, and tests of Ctrl-C would wait.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what a system cannot do; the marks are explained in pyproject.toml."""
    if item.get_closest_marker("linux") and not sys.platform.startswith("linux"):
        pytest.skip("reads /proc or limits the address space")
    if item.get_closest_marker("posix") and os.name == "nt":
        pytest.skip("sends signals or needs the module resource")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder shared/data beside some folder above this file; skip without it."""
    for folder in HERE.parents:
        if (folder / "shared" / "data").is_dir():
            return folder / "shared" / "data"
    pytest.skip(f"no folder shared/data beside any folder above {HERE}")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """The system's Chromium; skips where it or Playwright is missing."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="Playwright is not installed: --group browser"
    )
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()
