"""What many functions take: numbers, flags, threads, arrays to fill, and progress."""

from __future__ import annotations

import os
import sys
import time
from numbers import Real
from typing import (
    TYPE_CHECKING,
    Any,
    Protocol,
)

import numpy as np

from treekernel_rs._core import Forest, Tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import ArrayLike, DTypeLike, NDArray

    Trees = Forest | Sequence[str | bytes] | Sequence[Tree] | Iterable[Forest]
    Progress = Callable[[int, int], object]


class _Bar(Protocol):
    def __call__(self, done: int, total: int) -> object: ...


def check_number(name: str, value: float) -> float:
    if isinstance(value, Real):
        return float(value)
    msg = f"{name} must be a number, got {value!r}"
    raise TypeError(msg)


def check_integer(name: str, value: object) -> int:
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return int(value)
    msg = f"{name} must be an int, got {value!r}"
    raise TypeError(msg)


def check_floats(name: str, values: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        msg = f"{name} must be numbers, got {array.dtype}"
        raise ValueError(msg)
    # Arrays that came by the wire may begin at any byte.
    return np.require(np.ascontiguousarray(array, np.float64), None, ["ALIGNED"])


def check_values(
    name: str, values: NDArray[Any], expected: str, rights: ArrayLike = True
) -> None:
    """Refuse values that are not finite, or not right, by the first of them."""
    wrong = np.argwhere(~(np.isfinite(values) & rights))
    if len(wrong):
        place = tuple(wrong[0].tolist())
        msg = f"{name}{list(place)} must be {expected}, got {values[place]}"
        raise ValueError(msg)


def check_at_least_one(name: str, value: int) -> int:
    if (
        isinstance(value, int | np.integer)
        and not isinstance(value, bool)
        and value > 0
    ):
        return min(int(value), 2**62)
    msg = f"{name} must be an int of at least 1, got {value!r}"
    raise ValueError(msg)


def check_sink(out: Callable[..., object] | None) -> Callable[..., object] | None:
    if out is None or callable(out):
        return out
    msg = f"out must be a callable, got {type(out).__name__}"
    raise TypeError(msg)


def check_rows(rows: object, n: int) -> tuple[int, int] | None:
    """Check a range of items; it may go beyond the last one, as a slice."""
    if rows is None:
        return None
    if not isinstance(rows, tuple) or len(rows) != 2:
        msg = f"rows must be a tuple (start, stop), got {rows!r}"
        raise TypeError(msg)
    start, stop = (check_integer("rows", end) for end in rows)
    if not 0 <= start <= stop:
        msg = f"rows must be (start, stop) with 0 <= start <= stop, got {rows!r}"
        raise ValueError(msg)
    return min(start, n), min(stop, n)


def check_flag(value: object, name: str = "normalize") -> bool:
    if isinstance(value, bool | np.bool_):
        return bool(value)
    msg = f"{name} must be True or False, got {value!r}"
    raise ValueError(msg)


def check_jobs(n_jobs: int | None) -> int | None:
    """Check n_jobs; None means all cores, like -1, and -2 all but one, as in joblib.

    In joblib's workers and under `parallel_config`, None means what it means to joblib.
    Otherwise there would be as many threads as cores times workers.
    """
    joblib: Any = sys.modules.get("joblib.parallel")
    if n_jobs is None and joblib is not None:
        backend, wanted = joblib.get_active_backend()
        if backend.nesting_level or wanted is not None:
            n_jobs = joblib.effective_n_jobs(None)
    if n_jobs is None:
        return None
    if not isinstance(n_jobs, int | np.integer) or n_jobs == 0:
        msg = f"n_jobs must be None or an int other than 0, got {n_jobs!r}"
        raise ValueError(msg)
    if n_jobs > 0:
        return min(int(n_jobs), 2**31)
    return None if n_jobs == -1 else max(1, count_cores() + 1 + int(n_jobs))


def count_cores() -> int:
    """Return how many cores the process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def check_float_type(dtype: DTypeLike) -> np.dtype[Any]:
    wanted = np.dtype(dtype)
    if wanted in (np.dtype(np.float64), np.dtype(np.float32)):
        return wanted
    msg = f"dtype must be float64 or float32, got {wanted}"
    raise ValueError(msg)


def check_out(out: object, shape: tuple[int, int], dtype: DTypeLike) -> None:
    if not isinstance(out, np.ndarray):
        msg = f"out must be a numpy array, got {type(out).__name__}"
        raise TypeError(msg)
    wanted = None
    if out.shape != shape:
        wanted, got = f"of shape {shape}", str(out.shape)
    elif out.dtype not in (np.dtype(np.float64), np.dtype(np.float32)):
        wanted, got = "of float64 or float32", str(out.dtype)
    elif check_float_type(dtype) == np.float32 != out.dtype:
        wanted, got = "of the given dtype, float32", str(out.dtype)
    elif not out.flags.c_contiguous:
        wanted, got = "C-contiguous", f"strides {out.strides}"
    elif not (out.flags.writeable and out.flags.aligned):
        wanted, got = "writeable and aligned", str(out.flags).replace("\n", ",")
    if wanted:
        msg = f"out must be {wanted}, got {got}"
        raise ValueError(msg)


def progress_callback(
    progress: Progress | bool | None, name: str, unit: str = "row"
) -> Progress | None:
    """Return what to call as progress(done, total); for True a bar."""
    if progress is True:
        return _bar(name, unit)
    if progress is None or progress is False:
        return None
    if callable(progress):
        return progress
    msg = f"progress must be a callable, True or None, got {progress!r}"
    raise TypeError(msg)


def _bar(what: str, unit: str = "row") -> _Bar:
    """Show a progress bar of tqdm, or a line on standard error."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return _line(what, unit)
    bar = tqdm(desc=what, unit=unit)

    def tell(done: int, total: int) -> None:
        bar.total = total
        bar.update(done - bar.n)
        if done == total:
            bar.close()

    return tell


def _line(what: str, unit: str) -> _Bar:
    start = time.monotonic()

    def tell(done: int, total: int) -> None:
        seconds = time.monotonic() - start
        end = "\n" if done == total else ""
        text = f"\r{what}: {done} of {total} {unit}s, {seconds:.1f} s"
        print(text, end=end, file=sys.stderr, flush=True)

    return tell
