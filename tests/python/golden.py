"""Reads tests/data/golden.tsv, which the Rust tests read too."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

PATH = Path(__file__).parents[1] / "data" / "golden.tsv"


@dataclass(frozen=True)
class Case:
    """A text (or a list of items), and either its trees or where reading stops."""

    name: str
    source: str | bytes | list[str | bytes]
    trees: list[str] | None
    position: dict[str, int] | None

    def __str__(self) -> str:
        return self.name


def decode(source):
    """Turn the input column's {"hex": ...} into bytes."""
    if isinstance(source, list):
        return [decode(item) for item in source]
    return bytes.fromhex(source["hex"]) if isinstance(source, dict) else source


def read() -> list[Case]:
    cases = []
    for line in PATH.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        name, kind, source, expected = line.split("\t")
        assert kind in ("ok", "error"), f"{name}: kind {kind}"
        answer = json.loads(expected)
        cases.append(
            Case(
                name,
                decode(json.loads(source)),
                answer if kind == "ok" else None,
                answer if kind == "error" else None,
            )
        )
    return cases


CASES = read()
