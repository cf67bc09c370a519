"""Which version wrote a pickle."""

from __future__ import annotations

import warnings

from treekernel_rs._core import __version__

__all__ = ["warn_if_other"]


def warn_if_other(version: str | None) -> None:
    """Warn of a pickle that another version wrote; none is known of the oldest."""
    if version != __version__:
        warnings.warn(
            f"a pickle of treekernel_rs {version or 'of an unknown version'} is read by "
            f"{__version__}: it may not be read alike; treekernel_rs.save writes files "
            "that later versions read",
            UserWarning,
            stacklevel=3,
        )
