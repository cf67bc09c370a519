"""Texts of numbers, labels and outputs, as they are shown."""

from __future__ import annotations

__all__ = ["label_text", "output_text", "plural", "printable", "signed"]


def output_text(output: object) -> str:
    """Return a class or a pair of classes, without numpy's `np.str_` around it."""
    if isinstance(output, tuple):
        return "/".join(map(str, output))
    return str(output)


def label_text(label: str, longest: int = 60) -> str:
    """Return a label as it is shown: cut, and with a sign where it is empty."""
    if not label:
        return "\u2205"
    return printable(
        label if len(label) <= longest else label[: longest - 1] + "\u2026"
    )


def plural(n: int, one: str) -> str:
    return f"{n:,} {one}{'' if n == 1 else 's'}"


def signed(weight: float) -> str:
    return f"{weight:+.6g}" if weight else "0"


def printable(text: str) -> str:
    """Replace what XML cannot hold or what would not be seen, by pictures of it."""
    return "".join(
        chr(0x2400 + ord(c))
        if ord(c) < 0x20
        else "\ufffd"
        if ord(c) in (0x7F, 0xFFFE, 0xFFFF) or 0x80 <= ord(c) < 0xA0
        else c
        for c in text
    )
