"""Change the sources in places drawn at random, one at a time: do the tests notice?

    python tests/mutants.py [--number 60] [--skip 0] [--workers 3]
                            [--record tests/MUTANTS.md]

1. cargo-mutants lists the changes ("mutants"); the commit's hash puts them into an order, of
   which some are taken. `--skip` goes on after those of an earlier run.
2. Each is made in a copy of the commit, in target/mutants, and the Rust tests are run up to
   the first that fails: those named like the changed file, then the others, then the tests
   inside the sources. Builds are incremental, without benches and doctests, which notice
   little. cargo-nextest ends at the first failure; `cargo test` is used where it is missing.
3. Those that the Rust tests do not notice, and all of the bindings, are built for Python,
   one at a time. pytest is run on them without the slow tests, up to the first that fails;
   files that mention the changed module come first.

What no test notices is printed. It changes no value, or a test is missing: a reader decides,
and writes it into the record, to which this adds a line. The exit status is 1 if more than
5 % survive. Most mutants take less than a minute, survivors as long as all tests.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
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
#: No process of a test may ask for more than this share of the machine's memory.
SHARE = 4
NEXTEST = ["cargo", "nextest", "run", "--locked", "--no-tests=pass"]
NEXTEST += ["--max-fail=1:immediate", "--cargo-quiet"]
PYTHON = ["-m", "pytest", "-q", "-x", "-m", "not slow", "-p", "no:cacheprovider"]
#: Bindings are compiled for Python only.
BINDINGS = "src/python/"
#: Folders and files that name no part of the library.
NO_WORDS = {"src", "mod", "lib", "python"}


def main() -> int:
    """Draw, test, and record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--number", type=int, default=60)
    parser.add_argument("--skip", type=int, default=0, help="mutants of earlier runs")
    parser.add_argument("--workers", type=int, default=3, help="of pytest")
    parser.add_argument("--record", type=Path, default=ROOT / "tests/MUTANTS.md")
    told = parser.parse_args()
    os.nice(10)
    started = time.monotonic()
    commit = git("rev-parse", "HEAD").decode().strip()
    copy(commit)
    mutants = draw(commit)[told.skip :][: told.number]
    broken, left = [], []

    # Both first: tests that fail without a mutant are told before the hours that follow.
    pytest_limit = time_limit(lambda: build() and run(pytest("", told.workers)))
    limit = time_limit(lambda: passes_rust("", None))
    for number, mutant in enumerate(mutants, 1):
        path = mutant["file"]
        begun = time.monotonic()
        with changed(mutant):
            if path.startswith(BINDINGS):
                left.append(mutant)
                outcome = "left for pytest, a binding"
            elif not compiles():
                broken.append(mutant)
                outcome = "does not compile"
            elif passes_rust(path, limit):
                left.append(mutant)
                outcome = "left for pytest"
            else:
                outcome = "killed by Rust tests"
        tell(number, mutants, outcome, mutant, begun)

    killed_by_rust = len(mutants) - len(broken) - len(left)
    survivors = []
    for number, mutant in enumerate(left, 1):
        begun = time.monotonic()
        with changed(mutant):
            if not build():
                broken.append(mutant)
                outcome = "does not compile"
            elif run(pytest(mutant["file"], told.workers), pytest_limit):
                survivors.append(mutant["name"])
                outcome = "SURVIVES"
            else:
                outcome = "killed by pytest"
        tell(number, left, outcome, mutant, begun)

    viable = len(mutants) - len(broken)
    killed = viable - len(survivors)
    say(f"{killed} of {viable} killed; survivors: {survivors}")
    row = [
        datetime.now(UTC).date(),
        commit[:7],
        round((time.monotonic() - started) / 60),
        f"{told.skip + 1} to {told.skip + len(mutants)}",
        len(broken),
        killed_by_rust,
        killed - killed_by_rust,
        "; ".join(f"`{name}`" for name in survivors) or "none",
    ]
    with told.record.open("a", encoding="utf-8") as record:
        record.write(f"| {' | '.join(map(str, row))} |\n")
    return int(killed < 0.95 * viable)


def tell(
    number: int,
    among: list[dict[str, Any]],
    outcome: str,
    mutant: dict[str, Any],
    begun: float,
) -> None:
    """Print what became of a mutant."""
    seconds = time.monotonic() - begun
    say(f"{number} of {len(among)}: {outcome}: {mutant['name']} ({seconds:.0f} s)")


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


def draw(commit: str) -> list[dict[str, Any]]:
    """Put all mutants of the library into an order: the same for the same commit."""
    command = ["cargo", "mutants", "--list", "--json", "--package", "treekernel_rs"]
    listed = subprocess.run(command, cwd=TREE, check=True, stdout=subprocess.PIPE)
    mutants = {mutant["name"]: mutant for mutant in json.loads(listed.stdout)}
    names = sorted(name for name in mutants if is_wanted(name))
    say(f"{len(names)} mutants")
    random.Random(commit).shuffle(names)
    return [mutants[name] for name in names]


def is_wanted(name: str) -> bool:
    """Tell whether a mutant is one of the library that may compile.

    cargo-mutants takes `PyResult` and `Bound` for containers and calls their constructors
    in every combination: they have none of these, and would be half of all mutants.
    """
    return name.startswith("src/") and not re.search(r"\b(PyResult|Bound)::", name)


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
        most = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // SHARE
        resource.setrlimit(resource.RLIMIT_AS, (most, most))

    settings = {
        "CARGO_TARGET_DIR": str(HOME / "build"),
        "CARGO_INCREMENTAL": "1",
        "CARGO_PROFILE_DEV_DEBUG": "none",
        "PYTHONPATH": str(SITE),
    }
    with LOG.open("ab") as log:
        process = subprocess.Popen(
            command,
            cwd=TREE,
            env={**os.environ, **settings},
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


def words(path: str) -> list[str]:
    """Return what the file's name and folders call its part of the library."""
    return [word for word in re.findall(r"\w+", path[:-3]) if word not in NO_WORDS]


def compiles() -> bool:
    """Tell whether the Rust tests can be built."""
    return run(["cargo", "test", "--locked", "--quiet", "--test", "rust", "--no-run"])


def passes_rust(path: str, limit: float | None) -> bool:
    """Tell whether all Rust tests pass, the likeliest to fail first."""
    if not shutil.which("cargo-nextest"):
        command = ["cargo", "test", "--locked", "--quiet"]
        return run(
            [*command, "--test", "rust", "--test", "units", "--test", "nbytes"], limit
        )
    own = f"test(/^({'|'.join(['golden', *words(path)])})/)"
    rounds = [["rust", "-E", own], ["rust", "-E", f"not {own}"], ["units"], ["nbytes"]]
    return all(run([*NEXTEST, "--test", *tests], limit) for tests in rounds)


def pytest(path: str, workers: int) -> list[str]:
    """Return the command that runs the Python tests, the likeliest to fail first."""
    files = sorted((TREE / "tests/python").glob("test_*.py"))
    texts = {file: file.read_text("utf-8").lower() for file in files}
    files.sort(key=lambda file: -sum(map(texts[file].count, words(path))))
    # Workers take a few tests at a time, so that their order is kept.
    spread = ["-n", str(workers), "--maxschedchunk", "4"]
    return [sys.executable, *PYTHON, *spread, *map(str, files)]


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
