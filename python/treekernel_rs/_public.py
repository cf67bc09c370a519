"""What `dir`, and the completion of shells and editors, show of a module."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["listing"]


def listing(names: list[str]) -> Callable[[], list[str]]:
    """Make the `__dir__` of a module, which leaves out what the module imports.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> dir(tk.neighbors)
    ['JoinGroups', 'JoinResult', 'Neighbors', 'UniqueTrees']
    """
    return lambda: names
