"""Where the corpora of docs/DATA.md are, for the scripts that read them.

`python examples/corpora.py CLONES` builds them. A script looks for them in the folder that
`--data` names, else in shared/data in the repository or in a folder above.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

HINT = "docs/DATA.md says how to build it, --data where it is"


def add_argument(parser: argparse.ArgumentParser) -> None:
    """Let a script be told where the corpora are."""
    parser.add_argument(
        "--data", type=Path, help="folder of the corpora (docs/DATA.md)"
    )


def find(name: str, data: Path | None) -> Path | None:
    """Return a file or a folder of the corpora, None where it is missing."""
    above = (folder / "shared/data" for folder in Path(__file__).resolve().parents)
    places = [data] if data is not None else above
    return next((p / name for p in places if (p / name).exists()), None)


def find_or_exit(name: str, data: Path | None) -> Path:
    """Return a file or a folder of the corpora; end the script where it is missing."""
    path = find(name, data)
    if path is None:
        msg = f"{name} is missing: {HINT}"
        raise SystemExit(msg)
    return path


def rows(path: Path) -> list[list[str]]:
    """Read a table of tab-separated columns."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [line.rstrip("\n").split("\t") for line in file]


def may_draw(picture: Path | None, is_generated: bool) -> bool:
    """Whether to write a picture: generated data are not drawn over an older picture."""
    if picture is None:
        return False
    if is_generated and picture.exists():
        print(f"\n{picture} is left as it is: data were generated ({HINT})")
        return False
    return True
