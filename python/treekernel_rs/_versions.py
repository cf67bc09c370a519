"""Pickles of other versions."""

from __future__ import annotations

import warnings

from treekernel_rs._core import __version__

__all__ = ["warn_if_other"]


def warn_if_other(version: str | None) -> None:
    """Warn if another version wrote a pickle: None, in which the oldest left no number."""
    if version != __version__:
        warnings.warn(
            f"this pickle was written by treekernel_rs {version or '(unknown)'} and is "
            f"read by {__version__}, which may give other results; treekernel_rs.save "
            "writes files that later versions read",
            UserWarning,
            stacklevel=3,
        )
