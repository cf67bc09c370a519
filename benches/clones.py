"""How many changed copies of functions are found, and how many pairs that are no copies.

    python benches/clones.py FOLDER                 # the folder of an installed package
    python benches/clones.py FOLDER --ways          # and by other shapes, names and kernels
    python benches/clones.py FOLDER --jscpd jscpd   # and by jscpd, with its defaults
    python benches/clones.py --java shared/data     # labelled clones of Java

Of the functions with 60 to 400 nodes, declarations aside, 600 are drawn and changed in four ways. A copy is
found where its similarity to the original is at least .8. Statements that are inserted are
drawn from other functions of the package, and have no block. The share of pairs is that of
all pairs of different functions with 60 to 400 nodes; copies that the package has are among
them. Parameters were chosen on the standard library and Django.
"""

from __future__ import annotations

import argparse
import ast
import copy
import gzip
import json
import random
import subprocess
import sys
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np

import treekernel_rs as tk

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
import find_clones

N_FUNCTIONS = 600
NODES = (60, 400)
LEAST = 0.8
SEED = 1
_DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

Change = Callable[[ast.AST, random.Random, list[ast.stmt]], bool]


# --- changes ----------------------------------------------------------------------------


def rename(function: ast.AST, rng: random.Random, statements: list[ast.stmt]) -> bool:
    """Give all parameters and local variables other names."""
    names, outside = set(), set()
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif (
            isinstance(node, ast.ExceptHandler | _DEFINITIONS) and node is not function
        ):
            names |= {node.name} if node.name else set()
        elif isinstance(node, ast.Global):
            outside |= set(node.names)
    new = {name: f"renamed_{k}" for k, name in enumerate(sorted(names - outside))}
    for node in ast.walk(function):
        if node is function:
            continue
        for field in ("id", "arg", "name"):
            name = getattr(node, field, None)
            # The names of keyword arguments are those of the function that is called.
            if name in new and not isinstance(node, ast.keyword | ast.alias):
                setattr(node, field, new[name])
        if isinstance(node, ast.Nonlocal):
            node.names = [new[name] for name in node.names]
    return True


def blocks(function: ast.AST) -> list[list[ast.stmt]]:
    """List the lists of statements in a function."""
    found = [
        getattr(node, field, None)
        for node in ast.walk(function)
        for field in ("body", "orelse", "finalbody")
    ]
    return [
        b for b in found if isinstance(b, list) and b and isinstance(b[0], ast.stmt)
    ]


def insert(n: int) -> Change:
    """Insert statements anywhere."""

    def change(
        function: ast.AST, rng: random.Random, statements: list[ast.stmt]
    ) -> bool:
        for _ in range(n):
            lists = blocks(function)
            (where,) = rng.choices(lists, [len(b) + 1 for b in lists])
            new = copy.deepcopy(rng.choice(statements))
            where.insert(rng.randrange(len(where) + 1), new)
        return True

    return change


def delete(function: ast.AST, rng: random.Random, statements: list[ast.stmt]) -> bool:
    """Delete a statement, with what is in it, but the only one of a block."""
    lists = [b for b in blocks(function) if len(b) > 1]
    if not lists:
        return False
    (where,) = rng.choices(lists, [len(b) for b in lists])
    del where[rng.randrange(len(where))]
    return True


CHANGES: dict[str, Change] = {
    "names changed": rename,
    "one inserted": insert(1),
    "three inserted": insert(3),
    "one deleted": delete,
}


# --- functions ----------------------------------------------------------------------------


def functions_of(folder: Path) -> list[ast.AST]:
    """Return the functions of a package that are in no other, without docstrings."""
    found: list[ast.AST] = []
    for path in sorted(folder.rglob("*.py")):
        inside = path.relative_to(folder).parts
        if {"test", "tests", "site-packages"} & set(inside) or not path.is_file():
            continue
        try:
            module = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):
            continue
        found += (node for _, node in tk.readers._code.functions_in(module))
    for function in found:
        value = getattr(function.body[0], "value", None)
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            del function.body[0]
            function.body = function.body or [ast.Pass()]
    return found


def views_of(texts: list[str]) -> list[tk.Forest]:
    """Read a function from each text as find_clones does."""
    files = [
        find_clones.File(f"{k}", "python", t.encode()) for k, t in enumerate(texts)
    ]
    corpus = find_clones.Corpus()
    corpus.add(files, find_clones.Skipped())
    trees = [corpus.files[file.key][0][3] for file in files]
    return [view[trees] for view in corpus.views]


def other_view(names: str, shape: str) -> Callable[[list[str]], list[tk.Forest]]:
    """Return what reads a function from each text in one view."""

    def read(texts: list[str]) -> list[tk.Forest]:
        reading = tk.readers.python_ast(
            text=texts,
            level="function",
            identifiers=names,
            literals="keep",
            shape=shape,
        )
        return [find_clones.unnamed(reading.forest, reading.names)]

    return read


SST = tk.SubsetTreeKernel(0.4, normalize=True)
WAYS = {
    "find_clones": (views_of, find_clones.KERNEL),
    **{
        f"SST 0.4, {shape}, names {names}": (other_view(names, shape), SST)
        for shape in ("as_is", "chain")
        for names in ("keep", "locals", "blank")
    },
}


def main() -> None:
    """Print what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument(
        "--java", type=Path, metavar="DATA", help="the folder of corpora"
    )
    parser.add_argument("--ways", action="store_true", help="compare other ways")
    parser.add_argument("--jscpd", metavar="COMMAND", help="compare jscpd")
    given = parser.parse_args()
    warnings.simplefilter("ignore", SyntaxWarning)
    if given.java:
        java(given.java)
    if given.folder:
        python(given.folder, ways=given.ways, jscpd=given.jscpd)


def python(folder: Path, *, ways: bool, jscpd: str | None) -> None:
    """Print the table of a package."""
    functions = functions_of(folder)
    texts = [ast.unparse(function) for function in functions]
    sizes = tk.readers.python_ast(text=texts, level="function").forest.n_nodes
    (read_as_it_does, *_) = views_of(texts)
    is_compared = find_clones.body_sizes(read_as_it_does) >= find_clones.MIN_BODY
    fitting = np.flatnonzero(
        is_compared & (sizes >= NODES[0]) & (sizes <= NODES[1])
    ).tolist()
    rng = random.Random(SEED)
    statements = [
        statement
        for function in functions
        for block in blocks(function)
        for statement in block
        if not hasattr(statement, "body") and not hasattr(statement, "cases")
    ]
    drawn = rng.sample(fitting, min(N_FUNCTIONS, len(fitting)))
    copies: dict[str, tuple[list[int], list[str]]] = {}
    for name, change in CHANGES.items():
        kept, changed = [], []
        for i in drawn:
            function = copy.deepcopy(functions[i])
            if change(function, rng, statements):
                kept.append(i)
                changed.append(ast.unparse(ast.fix_missing_locations(function)))
        copies[name] = kept, changed
    print(
        f"{folder.name}: {len(functions)} functions, {len(fitting)} of {NODES[0]} to "
        f"{NODES[1]} nodes, {len(drawn)} changed"
    )
    print(
        "| | " + " | ".join(CHANGES) + " | pairs | s |\n|" + "---|" * (len(CHANGES) + 3)
    )
    for way, (read, kernel) in WAYS.items():
        if way != "find_clones" and not ways:
            continue
        shares = []
        for kept, changed in copies.values():
            originals = read([texts[i] for i in kept])
            values = [
                kernel.pairs(original, new)
                for original, new in zip(originals, read(changed), strict=True)
            ]
            shares.append((np.max(values, axis=0) >= LEAST).mean())
        start = time.process_time()
        pairs: set[tuple[int, int]] = set()
        for view in read([texts[i] for i in fitting]):
            found = kernel.join(view, min_similarity=LEAST)
            pairs.update(zip(found.rows.tolist(), found.columns.tolist(), strict=True))
        share = len(pairs) / (len(fitting) * (len(fitting) - 1) / 2)
        seconds = time.process_time() - start
        row = " | ".join(f"{x:.3f}" for x in shares)
        print(f"| {way} | {row} | {share:.1e} | {seconds:.1f} |", flush=True)
    if jscpd:
        shares = [
            np.mean(
                [
                    covered(jscpd, texts[i], new) >= LEAST
                    for i, new in zip(kept, changed, strict=True)
                ]
            )
            for kept, changed in copies.values()
        ]
        print("| jscpd | " + " | ".join(f"{x:.3f}" for x in shares) + " | | |")


def covered(command: str, original: str, changed: str) -> float:
    """Return the share of the lines of an original that jscpd finds in its copy."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("a", original), ("b", changed)):
            Path(folder, f"{name}.py").write_text(text, encoding="utf-8")
        options = ["--reporters", "json", "--output", folder, "--silent"]
        subprocess.run([command, *options, folder], check=False, capture_output=True)
        report = json.loads(
            Path(folder, "jscpd-report.json").read_text(encoding="utf-8")
        )
    lines: set[int] = set()
    for found in report["duplicates"]:
        for side in ("firstFile", "secondFile"):
            if Path(found[side]["name"]).name == "a.py":
                lines |= set(range(found[side]["start"], found[side]["end"] + 1))
    return len(lines) / (original.count("\n") + 1)


# --- labelled clones ------------------------------------------------------------------


def java(data: Path) -> None:
    """Print the share of labelled clones that are found, by their type."""
    numbers, texts = {}, []
    with gzip.open(data / "code" / "java_functions.tsv.gz", "rt") as file:
        for line in file:
            name, text = line.rstrip("\n").split("\t")[:2]
            try:
                tk.Forest([text])
            except tk.ParseError:
                continue
            numbers[name] = len(texts)
            texts.append(text)
    pairs: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    with gzip.open(data / "code" / "java_clones.tsv.gz", "rt") as file:
        for line in file:
            a, b, kind = line.split("\t")[:3]
            if a in numbers and b in numbers:
                pairs[kind].append((numbers[a], numbers[b]))
    as_is = tk.Forest(texts)
    chains = as_is.binarize(find_clones.LIST.fullmatch)
    ways = {
        "SST 0.4, as_is, names keep": (SST, [as_is]),
        "find_clones, a file of trees": (find_clones.KERNEL, [chains]),
        "find_clones, both views": (
            find_clones.KERNEL,
            [chains, without_locals(chains)],
        ),
    }
    kinds = sorted(pairs)
    print(
        "| | "
        + " | ".join(f"type {kind} ({len(pairs[kind])})" for kind in kinds)
        + " |"
    )
    for way, (kernel, views) in ways.items():
        shares = []
        for kind in kinds:
            a, b = np.array(pairs[kind]).T
            values = [kernel.pairs(view[a], view[b]) for view in views]
            shares.append(f"{(np.max(values, axis=0) >= LEAST).mean():.3f}")
        print(f"| {way} | {' | '.join(shares)} |", flush=True)


def without_locals(forest: tk.Forest) -> tk.Forest:
    """Take the names that a tree declares out of it, by the labels of this corpus."""
    arrays, labels = forest.to_arrays(), forest.labels
    declares = np.array(
        [label.startswith(("SingleVar", "VariableDeclarationF")) for label in labels]
    )
    is_name = np.array([label.startswith("SimpleName:") for label in labels])
    tree = np.repeat(np.arange(len(forest)), np.diff(arrays["offsets"]))
    label, parents = arrays["labels"], arrays["parents"]
    keys = tree * len(labels) + label
    declared = is_name[label] & (parents >= 0) & declares[label[parents]]
    local = np.isin(keys, keys[declared]) & is_name[label]
    arrays["labels"] = np.where(local, len(labels), label)
    arrays |= {"names": [*labels, "SimpleName"], "name_offsets": None}
    return tk.Forest.from_arrays(**arrays)


if __name__ == "__main__":
    main()
