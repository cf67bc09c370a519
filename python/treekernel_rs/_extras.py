"""Optional packages: an import that fails names the extra that installs the package."""

from __future__ import annotations

import importlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["SKLEARN", "missing", "needed", "needs"]

#: The package that most of the extra `sklearn` needs.
SKLEARN = "scikit-learn 1.6 or later"


def missing(what: str, package: str, extra: str) -> ImportError:
    """Make the error of something that needs a package."""
    return ImportError(
        f"{what} needs {package}: pip install '.[{extra}]' in the clone "
        f"(after the first release: pip install 'treekernel_rs[{extra}]')"
    )


@contextmanager
def needs(what: str, package: str, extra: str) -> Iterator[None]:
    """Name the extra if an import in the block fails.

    Examples
    --------
    >>> from treekernel_rs._extras import needs
    >>> with needs("my_function", "no_such_package", "viz"):  # doctest: +ELLIPSIS
    ...     import no_such_package
    Traceback (most recent call last):
    ImportError: my_function needs no_such_package: pip install '.[viz]' in the clone...
    """
    try:
        yield
    except ImportError as error:
        named = missing(what, package, extra)
        named.name = error.name
        raise named from error


def needed(what: str, module: str, extra: str) -> Any:
    """Import a module of an optional package."""
    with needs(what, f"the package {module.partition('.')[0]}", extra):
        return importlib.import_module(module)
