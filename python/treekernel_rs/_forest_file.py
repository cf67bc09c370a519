"""Files of forests: the arrays in which each distinct subtree stands once.

    line    JSON: format, version, dtype and length of each array, SHA-256 of what follows
    arrays  labels, ends, children, roots, names (UTF-8), name_offsets; little-endian

The digest finds what was damaged; what was changed on purpose is found as in a pickle,
for the arrays are not trusted. A file is not mapped into memory: the tables by which
subtrees are found are built anew and every array is checked, so that all of it would be
read at once, mapped or not.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from treekernel_rs._core import Forest
from treekernel_rs._replacing import replacing

_FORMAT = "treekernel_rs.Forest"
_VERSION = 1
_ARRAYS = {
    "labels": "<u4",
    "ends": "<u4",
    "children": "<u4",
    "roots": "<u4",
    "names": "|u1",
    "name_offsets": "<i8",
}
_LONGEST_HEADER = 4096
_CHUNK = 1 << 24  # bytes between two looks at Ctrl-C: some 10 ms


def save(forest: Forest, path: str | os.PathLike[str]) -> None:
    """Write a forest; the file is there when all of it is."""
    values = forest.__reduce__()[1]
    arrays = [
        np.ascontiguousarray(value, dtype=dtype)
        for value, dtype in zip(values, _ARRAYS.values(), strict=True)
    ]
    digest = hashlib.sha256()
    for array in arrays:
        _update(digest, array)
    header = {
        "format": _FORMAT,
        "version": _VERSION,
        "arrays": {
            name: len(array) for name, array in zip(_ARRAYS, arrays, strict=True)
        },
        "sha256": digest.hexdigest(),
    }
    with replacing(path) as file:
        file.write(json.dumps(header).encode() + b"\n")
        for array in arrays:
            file.write(array.data)


def load(path: str | os.PathLike[str]) -> Forest:
    """Read a forest; see `Forest.load`."""
    with Path(path).open("rb") as file:
        header = _header(file.readline(_LONGEST_HEADER), path)
        sizes = [
            header["arrays"][name] * np.dtype(dtype).itemsize
            for name, dtype in _ARRAYS.items()
        ]
        there = os.fstat(file.fileno()).st_size - file.tell()
        if there != sum(sizes):
            msg = (
                f"{os.fspath(path)}: expected {sum(sizes)} bytes of arrays, got {there}"
            )
            raise ValueError(msg)
        arrays = []
        digest = hashlib.sha256()
        for (name, dtype), size in zip(_ARRAYS.items(), sizes, strict=True):
            array = np.empty(header["arrays"][name], dtype=dtype)
            file.readinto(array.view(np.uint8).data if size else bytearray())
            _update(digest, array)
            arrays.append(array)
    if digest.hexdigest() != header["sha256"]:
        msg = (
            f"{os.fspath(path)}: expected SHA-256 {header['sha256']} of the arrays, got "
            f"{digest.hexdigest()}: the file was changed or is damaged"
        )
        raise ValueError(msg)
    try:
        made: Forest = Forest._from_shared(*arrays)  # type: ignore[attr-defined]
    except ValueError as error:
        msg = f"{os.fspath(path)}: {error}"
        raise ValueError(msg) from None
    return made


def _update(digest: Any, array: Any) -> None:
    data = array.view(np.uint8).data
    for start in range(0, len(data), _CHUNK):
        digest.update(data[start : start + _CHUNK])


def _header(line: bytes, path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the header of a file, of which nothing is believed."""
    header: dict[str, Any] = {}
    try:
        header = json.loads(line)
        known = header["format"] == _FORMAT
    except (ValueError, TypeError, KeyError, RecursionError):
        known = False
    if not known:
        msg = f"{os.fspath(path)}: expected a file written by Forest.save, got another"
        raise ValueError(msg)
    if header.get("version") != _VERSION:
        msg = (
            f"{os.fspath(path)}: expected version {_VERSION}, got "
            f"{header.get('version')!r}"
        )
        raise ValueError(msg)
    arrays: Any = header.get("arrays")
    digest = header.get("sha256")
    wrong = not isinstance(arrays, dict) or set(arrays) != set(_ARRAYS)
    if wrong or not all(
        type(n) is int and 0 <= n < math.inf and n < 2**40 for n in arrays.values()
    ):
        msg = f"{os.fspath(path)}: expected the lengths of {len(_ARRAYS)} arrays, got {arrays!r}"
        raise ValueError(msg)
    if not isinstance(digest, str):
        msg = f"{os.fspath(path)}: expected a SHA-256 as text, got {digest!r}"
        raise ValueError(msg)
    return header
