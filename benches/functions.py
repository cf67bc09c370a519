"""Real Python functions, and their statements, for benches that need many trees.

    python benches/functions.py CACHE

downloads the packages below from PyPI into the folder CACHE (270 MB), without what they
depend on and without running anything of theirs, reads all their functions once, which
takes some minutes, and says how many there are. Benches import `functions` and `statements`.
"""

import argparse
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

import numpy as np

import treekernel_rs as tk

PACKAGES = [
    "ansible==12.3.0",
    "sympy==1.14.0",
    "transformers==5.23.0",
    "django==5.2.19",
    "homeassistant==2024.3.3",
    "kubernetes==37.0.2",
    "astropy==8.0.2",
    "twisted==26.10.0",
    "pulumi-aws==7.51.1",
    "scikit-learn==1.9.1",
    "scipy==1.17.1",
    "pandas==3.1.1",
    "nova==34.0.0",
    "salt==3008.5",
    "matplotlib==3.11.2",
    "sqlalchemy==2.1.9",
]


def functions(cache: Path, n: int | None = None) -> tk.Forest:
    """Load n functions of all packages, drawn without repetition; None: all, in order."""
    return _drawn(_read(cache), n)


def statements(cache: Path, n: int | None = None) -> tk.Forest:
    """Load n statements of the functions' bodies, with their natural repetitions."""
    path = cache / "statements.tkrs"
    if not path.exists():
        fields = (field for tree in _read(cache) for field in tree.children)
        bodies = (field for field in fields if field.label == "body")
        tk.Forest([one for body in bodies for one in body.children]).save(path)
    return _drawn(tk.Forest.load(path), n)


def _drawn(forest: tk.Forest, n: int | None) -> tk.Forest:
    if n is None:
        return forest
    if n > len(forest):
        message = f"{n} trees are wanted, and the packages have {len(forest)}"
        raise SystemExit(message)
    return forest[np.random.default_rng(13).permutation(len(forest))[:n]]


def _read(cache: Path) -> tk.Forest:
    path = cache / "functions.tkrs"
    if not path.exists():
        parts = []
        for package in PACKAGES:
            sources = list(_sources(_archive(cache, package)))
            reading = tk.readers.python_ast(
                text=sources, level="function", errors="skip"
            )
            print(f"{package}: {len(reading.forest)} functions", flush=True)
            parts.append(reading.forest)
        tk.Forest.concat(parts).save(path)
    return tk.Forest.load(path)


def _archive(cache: Path, package: str) -> Path:
    folder = cache / package
    if not folder.exists():
        folder.mkdir(parents=True)
        pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet"]
        subprocess.run([*pip, "--dest", str(folder), package], check=True)
    (archive,) = folder.iterdir()
    return archive


def _sources(archive: Path):
    """Yield Python's source files of a wheel or a source distribution, in order."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as file:
            for name in sorted(file.namelist()):
                if PurePosixPath(name).suffix == ".py":
                    yield file.read(name)
        return
    with tarfile.open(archive) as file:
        for member in sorted(file, key=lambda member: member.name):
            if member.isfile() and PurePosixPath(member.name).suffix == ".py":
                yield file.extractfile(member).read()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cache", type=Path)
    cache = parser.parse_args().cache
    for name, forest in (
        ("functions", functions(cache)),
        ("statements", statements(cache)),
    ):
        print(f"{len(forest)} {name}, {forest.n_nodes.sum()} nodes")


if __name__ == "__main__":
    main()
