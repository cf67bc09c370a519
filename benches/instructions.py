"""How many instructions the library's calls take, for comparing two builds of it.

    python benches/instructions.py [--times | --limit SHARE] DATA NEW [OLD]

DATA has qc/, wsj/, snli/ and code/ of docs/DATA.md; with `-` in its place, the matrices of five
kernels on generated trees are counted. NEW and OLD are folders that hold a
package `treekernel_rs` with its extension built, as `python/` does after `maturin develop`.
Each call is made once to warm up, and counted the second time, on one thread, by valgrind's
callgrind; counts do not depend on what else the machine is doing. With OLD, a last column has
the ratio of NEW to OLD; with --limit 0.05, a ratio above 1.05 ends in an error. Needs valgrind
with its headers, and cc.

With --times, the calls are timed without valgrind instead: builds take turns, and the least
of seven times is printed. That is worth something only where nothing else runs.
"""

from __future__ import annotations

import argparse
import ctypes
import gzip
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

#: Processes that time the calls of a build.
ROUNDS = 7

SWITCH = r"""
#include <valgrind/callgrind.h>
void start(void) { CALLGRIND_START_INSTRUMENTATION; CALLGRIND_ZERO_STATS; }
void stop(const char *name) { CALLGRIND_DUMP_STATS_AT(name); CALLGRIND_STOP_INSTRUMENTATION; }
"""


def column(path: Path, number: int, n: int) -> list[str]:
    """Read one column of the first lines of a table."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [
            line.rstrip("\n").split("\t")[number]
            for line, _ in zip(lines, range(n), strict=False)
        ]


def grown(rng: np.random.Generator, label: int, depth: int) -> str:
    """Return a random tree: what stands below a label depends on the label."""
    if depth == 0 or rng.random() < 0.2:
        return f"(L{label} w{rng.zipf(1.6) % 100})"
    below = (label + rng.integers(1, 4, size=rng.integers(1, 4))) % 12
    return f"(L{label} {' '.join(grown(rng, child, depth - 1) for child in below)})"


def generated_calls() -> dict[str, Callable[[], object]]:
    """Make matrices of generated trees ready, each with its name."""
    import treekernel_rs as tk

    rng = np.random.default_rng(0)
    trees = tk.Forest.from_brackets([grown(rng, 0, 6) for _ in range(1000)])
    few = trees[:300]
    return {
        "ST matrix": lambda: tk.SubtreeKernel(0.4).gram(trees, n_jobs=1),
        "SST matrix": lambda: tk.SubsetTreeKernel(0.4).gram(trees, n_jobs=1),
        "PT matrix": lambda: tk.PartialTreeKernel(0.4, 0.4).gram(few, n_jobs=1),
        "ET matrix": lambda: tk.ElasticTreeKernel(0.4).gram(few, n_jobs=1),
        "subpath matrix": lambda: tk.SubpathKernel(0.4).gram(few, n_jobs=1),
    }


def calls(data: Path | None) -> dict[str, Callable[[], object]]:
    """Make the calls ready, each with its name."""
    if data is None:
        return generated_calls()
    import treekernel_rs as tk

    read = tk.Forest.from_brackets
    questions = column(data / "qc/const_train.tsv.gz", 3, 5452)
    y = np.array(column(data / "qc/const_train.tsv.gz", 0, 5452))
    y = np.where(y == "HUM", 1.0, -1.0)
    qc = read(questions)
    qc1, qc2 = qc[:1000], qc[:2000]
    grct = read(column(data / "qc/dep_train.tsv.gz", 2, 1000))
    wsj = read(column(data / "wsj/wsj.txt.gz", 2, 400))
    java = column(data / "code/java_functions.tsv.gz", 1, 1500)
    java = read([tree for tree in java if "()" not in tree])
    sentences = [column(data / "snli/dev.tsv.gz", side, 200) for side in (1, 2)]
    pairs = tk.PairForest.anchored(*sentences)
    st, sst = tk.SubtreeKernel(0.4), tk.SubsetTreeKernel(0.4)
    pt, et = tk.PartialTreeKernel(0.4, 0.4), tk.ElasticTreeKernel(0.4)
    unit = sst.replace(normalize=True)
    tags = {("NP", "NN"): 0.2, ("VB", "VBD"): 0.2, ("NN", "NNS"): 0.2}
    smoothed = tk.PartialTreeKernel(
        0.4, 0.4, similarity=tk.kernels.TableSimilarity(tags)
    )
    i, j = np.arange(20_000) % 1000, np.arange(20_000) * 7 % 1000
    model = tk.DagModel.from_dual(sst, qc2, y[:2000])
    encoder = tk.DistributedTrees(sst, 2048)
    return {
        "parse 5,452 questions": lambda: read(questions),
        "ST matrix, 2,000 questions": lambda: st.gram(qc2, n_jobs=1),
        "SST matrix, 2,000 questions": lambda: sst.gram(qc2, n_jobs=1),
        "the same, normalised": lambda: unit.gram(qc2, n_jobs=1),
        "SST matrix, 400 of WSJ": lambda: sst.gram(wsj, n_jobs=1),
        "SST 500 against 2,000": lambda: sst.gram(qc[2000:2500], qc2, n_jobs=1),
        "PT matrix, 1,000 GRCT": lambda: pt.gram(grct, n_jobs=1),
        "PT matrix, 1,000 questions": lambda: pt.gram(qc1, n_jobs=1),
        "similar labels, 500 GRCT": lambda: smoothed.gram(grct[:500], n_jobs=1),
        "ET matrix, 400 questions": lambda: et.gram(qc[:400], n_jobs=1),
        "subpaths, 1,000 questions": lambda: tk.SubpathKernel(0.4).gram(qc1, n_jobs=1),
        "SST + ST, 1,000 questions": lambda: (sst + st).gram(qc1, n_jobs=1),
        "SST 20,000 pairs": lambda: sst.pairs(qc1[i], qc1[j], n_jobs=1),
        "PT 5,000 pairs": lambda: pt.pairs(qc1[i[:5000]], qc1[j[:5000]], n_jobs=1),
        "SST model, 1,000 scores": lambda: model.decision_function(qc1, n_jobs=1),
        "SST perceptron, 5,452": lambda: tk.Perceptron(sst).partial_fit(qc, y),
        "PT perceptron, 1,000": lambda: tk.Perceptron(pt).partial_fit(qc1, y[:1000]),
        "SST machine, 300": lambda: tk.solve.KernelMachine(unit, qc[:300], y[:300]).run(
            n_jobs=1
        ),
        "SST join at .8, 1,500 Java": lambda: unit.join(
            java, min_similarity=0.8, n_jobs=1
        ),
        "SST top_k, 2,000 questions": lambda: unit.top_k(qc2, k=10, n_jobs=1),
        "200 vectors of 2,048": lambda: encoder.encode(qc[:200], n_jobs=1),
        "200 sentence pairs": lambda: tk.PairKernel(0.4).gram(pairs, n_jobs=1),
    }


def count(data: Path | None, switch: str) -> None:
    """Make each call, the second time with callgrind counting: runs inside valgrind."""
    callgrind = ctypes.CDLL(switch)
    for name, call in calls(data).items():
        call()
        callgrind.start()
        call()
        callgrind.stop(name.encode())


def measure(data: Path | None) -> None:
    """Time each call, the second time, and print milliseconds by name."""
    for name, call in calls(data).items():
        call()
        started = time.perf_counter()
        call()
        print(f"{1e3 * (time.perf_counter() - started)}\t{name}")


def timed(data: str, packages: list[Path]) -> list[dict[str, float]]:
    """Run `measure` for builds by turns; the least milliseconds by call."""
    tables: list[dict[str, float]] = [{} for _ in packages]
    for _ in range(ROUNDS):
        for package, table in zip(packages, tables, strict=True):
            done = subprocess.run(
                [sys.executable, __file__, "--measure", data],
                check=True,
                env=os.environ | {"PYTHONPATH": str(package), "PYTHONHASHSEED": "0"},
                stdout=subprocess.PIPE,
                text=True,
            )
            for line in done.stdout.splitlines():
                took, name = line.split("\t")
                table[name] = min(float(took), table.get(name, float("inf")))
    return tables


def counted(data: str, package: Path, folder: Path) -> dict[str, float]:
    """Run `count` in a valgrind of its own; millions of instructions by call."""
    source, switch = folder / "switch.c", folder / "switch.so"
    source.write_text(SWITCH)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", switch, source], check=True)
    out = Path(tempfile.mkdtemp(dir=folder))
    command = ["valgrind", "--quiet", "--tool=callgrind", "--instr-atstart=no"]
    command += [f"--callgrind-out-file={out}/counts", sys.executable, __file__]
    environment = os.environ | {"PYTHONPATH": str(package), "PYTHONHASHSEED": "0"}
    command += ["--count", data, str(switch)]
    subprocess.run(command, check=True, env=environment)
    found = {}
    for path in out.glob("counts.*"):
        text = path.read_text()
        name = re.search(r"Client Request: (.+)", text)
        total = re.search(r"^(?:summary|totals): (\d+)", text, re.MULTILINE)
        if name and total:
            found[name[1]] = int(total[1]) / 1e6
    return found


def slower(new: dict[str, float], old: dict[str, float], limit: float) -> list[str]:
    """Return the calls that take more than this share more in the new build."""
    return [name for name in sorted(new) if new[name] > (1 + limit) * old[name]]


def main() -> None:
    """Count, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", action="store_true")
    parser.add_argument("--limit", type=float)
    parser.add_argument("--count", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("data")
    parser.add_argument("paths", type=Path, nargs="*", metavar="NEW [OLD]")
    options = parser.parse_args()
    data = options.data if options.data == "-" else str(Path(options.data).resolve())
    folder_of_data = None if data == "-" else Path(data)
    if options.count:
        count(folder_of_data, str(options.paths[0]))
        return
    if options.measure:
        measure(folder_of_data)
        return
    packages = [path.resolve() for path in options.paths]
    least = 1 if options.limit is None else 2
    if not least <= len(packages) <= 2:
        parser.error("expected NEW, or NEW and OLD, and both with --limit")
    if options.times:
        unit, tables = "milliseconds", timed(data, packages)
    else:
        with tempfile.TemporaryDirectory() as folder:
            unit = "millions of instructions"
            tables = [counted(data, package, Path(folder)) for package in packages]
    print(f"| {unit} | new |" + (" old | ratio |" if tables[1:] else ""))
    print("|---|---|" + ("---|---|" if tables[1:] else ""))
    for name in sorted(tables[0]):
        values = [table[name] for table in tables]
        cells = [f"{value:,.1f}" for value in values]
        cells += [f"{values[0] / values[1]:.3f}"] if values[1:] else []
        print(f"| {name} | {' | '.join(cells)} |")
    if options.limit is not None and (found := slower(*tables, options.limit)):
        sys.exit(f"more than {options.limit:.0%} slower: {', '.join(found)}")


if __name__ == "__main__":
    main()
