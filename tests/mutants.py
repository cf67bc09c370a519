"""Change the sources in places drawn at random, one at a time: do the tests notice?

    python tests/mutants.py [--number 60] [--workers 3] [--record tests/MUTANTS.md]

1. cargo-mutants lists the changes ("mutants"); the commit's hash draws some of them.
2. Each is made in a copy of the commit, in target/mutants, and `cargo test` is run.
3. Those that it does not notice are built for Python, one at a time, and pytest is run on
   them without the slow tests.

What no test notices is printed. It changes no value, or a test is missing: a reader decides,
and writes it into the record, to which this adds a line. The exit status is 1 if more than
5 % survive. It takes minutes for each mutant, so it is run by hand.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
HOME = ROOT / "target/mutants"
TREE, SITE, WHEELS, LOG = (HOME / name for name in ("tree", "site", "wheels", "log"))

#: Tests that take so many times what they take on the sources as they are do not end.
SLOWER = 5
RUST = ["cargo", "test", "--locked", "--quiet"]
PYTHON = ["-m", "pytest", "-q", "-x", "-m", "not slow", "-p", "no:cacheprovider"]


def main() -> int:
    """Draw, test, and record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--number", type=int, default=60)
    parser.add_argument("--workers", type=int, default=3, help="of pytest")
    parser.add_argument("--record", type=Path, default=ROOT / "tests/MUTANTS.md")
    told = parser.parse_args()
    os.nice(10)
    started = time.monotonic()
    commit = git("rev-parse", "HEAD").decode().strip()
    copy(commit)
    mutants = draw(commit, told.number)
    viable, left = [], []

    limit = time_limit(lambda: run(RUST))
    for number, mutant in enumerate(mutants, 1):
        with changed(mutant):
            outcome = "does not compile"
            if run(["cargo", "check", "--locked", "--quiet", "--features", "python"]):
                viable.append(mutant)
                outcome = "killed by cargo test"
                if run(RUST, limit):
                    left.append(mutant)
                    outcome = "left for pytest"
        say(f"{number} of {len(mutants)}: {outcome}: {mutant['name']}")

    pytest = [sys.executable, *PYTHON, "-n", str(told.workers), "tests/python"]
    survivors = []
    limit = time_limit(lambda: build() and run(pytest)) if left else 0.0
    for number, mutant in enumerate(left, 1):
        with changed(mutant):
            outcome = "killed by pytest"
            if build() and run(pytest, limit):
                survivors.append(mutant["name"])
                outcome = "SURVIVES"
        say(f"{number} of {len(left)}: {outcome}: {mutant['name']}")

    killed = len(viable) - len(survivors)
    say(f"{killed} of {len(viable)} killed; survivors: {survivors}")
    row = [
        datetime.now(UTC).date(),
        commit[:7],
        round((time.monotonic() - started) / 60),
        len(mutants),
        len(mutants) - len(viable),
        len(viable) - len(left),
        len(left) - len(survivors),
        "; ".join(f"`{name}`" for name in survivors) or "none",
    ]
    with told.record.open("a", encoding="utf-8") as record:
        record.write(f"| {' | '.join(map(str, row))} |\n")
    return int(killed < 0.95 * len(viable))


def say(text: str) -> None:
    """Print a line now."""
    print(text, flush=True)


def git(*arguments: str) -> bytes:
    """Return the output of a command of git."""
    command = ["git", *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout


def copy(commit: str) -> None:
    """Write the commit's files anew: what is not committed is not tested."""

    def of_now(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo | None:
        # Cargo builds what is younger than its last build, and that may be of a mutant.
        return tarfile.data_filter(member.replace(mtime=time.time()), path)

    shutil.rmtree(TREE, ignore_errors=True)
    with tarfile.open(fileobj=BytesIO(git("archive", commit))) as files:
        files.extractall(TREE, filter=of_now)


def draw(commit: str, number: int) -> list[dict[str, Any]]:
    """Draw mutants of the library: the same for the same commit."""
    command = ["cargo", "mutants", "--list", "--json", "--package", "treekernel_rs"]
    listed = subprocess.run(command, cwd=TREE, check=True, stdout=subprocess.PIPE)
    mutants = {mutant["name"]: mutant for mutant in json.loads(listed.stdout)}
    names = sorted(name for name in mutants if name.startswith("src/"))
    say(f"{number} of {len(names)} mutants")
    drawn = random.Random(commit).sample(names, min(number, len(names)))
    return [mutants[name] for name in drawn]


@contextmanager
def changed(mutant: dict[str, Any]) -> Iterator[None]:
    """Make a mutant in the copy, and take it back."""
    path, span = TREE / mutant["file"], mutant["span"]
    old = path.read_text("utf-8")
    lines = old.splitlines(keepends=True)
    start, end = (
        sum(map(len, lines[: place["line"] - 1])) + place["column"] - 1
        for place in (span["start"], span["end"])
    )
    path.write_text(old[:start] + mutant["replacement"] + old[end:], "utf-8")
    try:
        yield
    finally:
        path.write_text(old, "utf-8")


def run(command: list[str], limit: float | None = None) -> bool:
    """Tell whether a command in the copy succeeds, in so many seconds."""

    def limited() -> None:
        most = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        resource.setrlimit(resource.RLIMIT_AS, (most, most))

    paths = {"CARGO_TARGET_DIR": str(HOME / "build"), "PYTHONPATH": str(SITE)}
    with LOG.open("ab") as log:
        process = subprocess.Popen(
            command,
            cwd=TREE,
            env={**os.environ, **paths},
            stdout=log,
            stderr=log,
            preexec_fn=limited,
            start_new_session=True,
        )
        try:
            return process.wait(limit) == 0
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
            return False


def build() -> bool:
    """Build the extension of the copy, and install it into a folder."""
    for folder in (WHEELS, SITE):
        shutil.rmtree(folder, ignore_errors=True)
    options = ["--profile", "quick", "--locked", "--out", str(WHEELS)]
    if not run([sys.executable, "-m", "maturin", "build", *options]):
        return False
    wheels = [str(wheel) for wheel in WHEELS.glob("*.whl")]
    options = ["--quiet", "--no-deps", "--target", str(SITE)]
    return run([sys.executable, "-m", "pip", "install", *options, *wheels])


def time_limit(passes: Any) -> float:
    """Run what must pass on the sources as they are; return the limit for mutants."""
    started = time.monotonic()
    if not passes():
        sys.exit(f"the tests fail on the sources as they are: {LOG}")
    return SLOWER * (time.monotonic() - started)


if __name__ == "__main__":
    sys.exit(main())
