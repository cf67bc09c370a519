"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file for writing that takes the place of `path` when all of it is there.

    Until then, and after a failure, what stood there stays. A file keeps its permissions
    and, where the system allows it, its owner; a symbolic link keeps pointing to it.
    Whatever `open` would refuse to write to is refused, and also what cannot be replaced:
    pipes, devices and sockets.
    """
    try:
        with _replacing(path) as file:
            yield file
    except OSError as error:
        if error.errno is None:
            raise
        # Of the temporary file nobody knows.
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None


@contextmanager
def _replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    old = _old(path)
    target = Path(os.path.realpath(path))
    # Its own name, since one made of the file's may be too long.
    temporary = target.with_name(f".treekernel-{secrets.token_hex(8)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    # The system applies the umask. Nobody else reads what others could not read before.
    handle = os.open(temporary, flags, 0o666 if old is None else 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        if old is not None:
            _take_over(temporary, old)
        temporary.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def _old(path: str | os.PathLike[str]) -> os.stat_result | None:
    """Return what is known of a file that may be replaced; None if there is none."""
    try:
        old = Path(path).stat()
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(old.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(old.st_mode):
        raise OSError(errno.EINVAL, "expected a file, got a pipe, device or socket")
    # The superuser may write to a file that is read-only, but hardly means to.
    if not old.st_mode & 0o222 or not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, "the file is read-only")
    return old


def _take_over(temporary: Path, old: os.stat_result) -> None:
    mode = stat.S_IMODE(old.st_mode)
    new = temporary.stat()
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.chown(temporary, old.st_uid, old.st_gid)
        except OSError:
            # What the old group might do is not for another one.
            mode &= ~0o070
    temporary.chmod(mode)
