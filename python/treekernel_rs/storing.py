"""Files of whole objects: fitted estimators, models, kernels, forests.

    16 bytes    "treekernel_rs", and the version of the format
     8 bytes    the length of the head; little-endian, as all that follows
    40 bytes    BLAKE2b of these 24 bytes and the head
    head        JSON: versions, the arrays, and what the object is made of; padded with spaces
    arrays      one after another; padded with zeros

Head and arrays begin at multiples of 64 bytes, so that an array can be mapped where it is.
Each has a checksum, padding included: a change of any byte is found. No code is stored, and
none is run: what an object is made of is named, and the names are those below.
"""

from __future__ import annotations

import copyreg
import functools
import hashlib
import importlib
import inspect
import json
import math
import operator
import os
import platform
import re
import struct
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from treekernel_rs._core import Forest, Pair, PairForest, Tree, __version__
from treekernel_rs._public import listing
from treekernel_rs._replacing import replacing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

__all__ = ["load", "save"]
__dir__ = listing(__all__)

#: The version of the format. One that reads more or otherwise has the next number.
FORMAT = 1
_PACKAGE = "treekernel_rs"
_MAGIC = re.compile(rb"treekernel_rs +(\d+)")
_PRELUDE = struct.Struct("<24s40s")
_START = struct.Struct("<16sQ")
_ALIGNMENT = 64
_CHUNK = 1 << 24  # bytes between two looks at Ctrl-C: some 20 ms
#: Of an array's numbers: truths, integers, floats, complex numbers, bytes, texts.
_KINDS = "biufcSU"

#: Functions that make objects of parts, by the name that files have for them.
_MAKERS = {
    "kernel": ("_parameters", "_rebuild"),
    "encoder": ("distributed", "_rebuild"),
    "model": ("_model_arrays", "model_of"),
    "machine": ("solve", "_restored"),
    "weights": ("weights", "_restored"),
}
#: Classes of other packages in estimators of this one.
_OTHERS = {
    "KNeighborsClassifier": "sklearn.neighbors",
    "KNeighborsRegressor": "sklearn.neighbors",
    "csr_matrix": "scipy.sparse",
    "csr_array": "scipy.sparse",
}
_SPARSE = ("csr_matrix", "csr_array")
#: Classes whose objects are made by a call; all others are made empty and get their state.
_CALLED = ("EditIndex", "TreeIndex", "ViewIndex", "Views")


def save(obj: object, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator, a model, a kernel or a forest into a file.

    `load` reads it, in another process and with a later version of the library. An object
    that was loaded computes the same bits.

    Parameters
    ----------
    obj : object
        An estimator, fitted or not, or any object of this package that is made of numbers,
        texts and arrays.
    path : str or path
        The file. It is there when all of it is; what stood there stays until then.

    Raises
    ------
    TypeError
        If a part cannot be stored, as a function or a kernel of one's own; names it.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import pathlib, tempfile, treekernel_rs as tk
    >>> trees = ["(S (A a))", "(S (A b))", "(S (B b))", "(S (B a))"]
    >>> svc = tk.TreeSVC(tk.SubsetTreeKernel(0.4)).fit(trees, ["x", "x", "y", "y"])
    >>> path = pathlib.Path(tempfile.mkdtemp(), "questions.tk")
    >>> tk.save(svc, path)
    >>> tk.load(path).predict(["(S (A c))"])
    array(['x'], dtype='<U1')
    """
    writer = _Writer()
    try:
        root = writer.told(obj, type(obj).__name__)
    except RecursionError:
        msg = f"{type(obj).__name__} is nested too deeply to be stored"
        raise TypeError(msg) from None
    offset, arrays = 0, []
    for array in writer.arrays:
        arrays.append(
            {
                "dtype": array.dtype.str,
                "shape": array.shape,
                "order": "C" if array.flags.c_contiguous else "F",
                "offset": offset,
                "blake2b": _digest(_chunks(array)).hex(),
            }
        )
        offset += _padded(array.nbytes)
    head = {
        "versions": _versions(),
        "kind": type(obj).__name__,
        "arrays": arrays,
        "root": root,
    }
    text = json.dumps(head, allow_nan=False).encode()
    text = text.ljust(_padded(len(text)))
    start = _START.pack(f"{_PACKAGE}{FORMAT:3}".encode(), len(text))
    with replacing(path) as file:
        file.write(_PRELUDE.pack(start, _digest([start, text])))
        file.write(text)
        for array in writer.arrays:
            for chunk in _chunks(array):
                file.write(chunk)


def load(path: str | os.PathLike[str]) -> Any:
    """Read what `save` wrote.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    object
        Of the class that was saved.

    Raises
    ------
    ValueError
        If the file is of another format or of a later version of it, was cut off, or has a
        byte that was changed; names the file.
    OSError
        If the file cannot be read.

    Examples
    --------
    >>> import pathlib, tempfile, treekernel_rs as tk
    >>> path = pathlib.Path(tempfile.mkdtemp(), "kernel.tk")
    >>> tk.save(tk.SubsetTreeKernel(0.4) * 2, path)
    >>> tk.load(path)
    2 * SubsetTreeKernel(0.4)
    """
    name = os.fspath(path)
    with Path(path).open("rb") as file:
        try:
            head, arrays = _read(file)
            return _Reader(arrays).made(head["root"])
        except (ImportError, MemoryError):
            raise
        # What was changed on purpose may have parts that go together with nothing.
        except Exception as error:
            if isinstance(error, OSError):
                raise
            msg = f"{name}: {error}" if str(error) else f"{name}: {error!r}"
            raise ValueError(msg) from None


def load_forest(path: str | os.PathLike[str]) -> Forest:
    """Read what `Forest.save` wrote."""
    found = load(path)
    if not isinstance(found, Forest):
        msg = f"{os.fspath(path)}: expected a Forest, got a {type(found).__name__}"
        raise ValueError(msg)
    return found


def _versions() -> dict[str, str]:
    """Return the versions that a file was written by."""
    versions = {
        _PACKAGE: __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
    try:
        import sklearn
    except ImportError:
        return versions
    return {**versions, "scikit-learn": sklearn.__version__}


def _padded(length: int) -> int:
    return -(-length // _ALIGNMENT) * _ALIGNMENT


def _chunks(array: NDArray[Any]) -> Iterator[Any]:
    """Yield the bytes of an array as they are in a file, padding included."""
    data = array.reshape(-1, order="A").view(np.uint8).data if array.nbytes else b""
    for start in range(0, len(data), _CHUNK):
        yield data[start : start + _CHUNK]
    yield bytes(_padded(array.nbytes) - array.nbytes)


def _digest(chunks: Any) -> bytes:
    digest = hashlib.blake2b(digest_size=40)
    for chunk in chunks:
        digest.update(chunk)
    return digest.digest()


class _Writer:
    """Tells objects as JSON. Arrays stand apart, and what is shared is told once."""

    def __init__(self) -> None:
        self.arrays: list[NDArray[Any]] = []
        #: By id: the number of an array or an object. Objects are kept, so that no other
        #: one gets their id.
        self.numbers: dict[int, tuple[str, int]] = {}
        self.kept: list[object] = []
        self.n_objects = 0

    def told(self, value: Any, place: str) -> Any:
        """Return JSON that `_Reader.made` makes an equal value of."""
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, list):
            return [self.told(x, f"{place}[{i}]") for i, x in enumerate(value)]
        if type(value) is tuple:
            return {"tuple": self.told(list(value), place)}
        if type(value) is dict:
            return {"dict": [self.pair(key, x, place) for key, x in value.items()]}
        if id(value) in self.numbers:
            kind, number = self.numbers[id(value)]
            return {kind: number}
        if isinstance(value, np.generic):
            return {"scalar": self.array(np.asarray(value), place)}
        if isinstance(value, bytes):
            return {"bytes": self.array(np.frombuffer(value, np.uint8), place)}
        if type(value) is np.ndarray:
            return self.told_array(value, place)
        if isinstance(value, np.dtype):
            return {"dtype": value.str}
        if isinstance(value, type):
            return {"class": self.class_name(value, place)}
        return self.told_object(value, place)

    def pair(self, key: Any, value: Any, place: str) -> list[Any]:
        told = self.told(key, f"a key of {place}")
        return [told, self.told(value, f"{place}.{key}")]

    def told_array(self, array: NDArray[Any], place: str) -> Any:
        if array.dtype.kind != "O":
            number = self.array(array, place)
            self.number("array", number, array)
            return {"array": number}
        values = self.told(array.ravel().tolist(), place)
        return {"objects": values, "shape": list(array.shape)}

    def array(self, array: NDArray[Any], place: str) -> int:
        if array.dtype.kind not in _KINDS:
            self.refuse(f"an array of {array.dtype}", place)
        array = array.astype(array.dtype.newbyteorder("<"), copy=False)
        is_packed = array.flags.c_contiguous or array.flags.f_contiguous
        self.arrays.append(array if is_packed else np.ascontiguousarray(array))
        return len(self.arrays) - 1

    def told_object(self, value: Any, place: str) -> Any:
        if inspect.isroutine(value):
            self.refuse(repr(value), place)
        name = self.class_name(type(value), place)
        if name in _SPARSE:
            parts = (value.data, value.indices, value.indptr)
            made = {"sparse": name, "parts": self.told([*parts, value.shape], place)}
        else:
            maker, arguments, *rest = value.__reduce_ex__(4)
            state = rest[0] if rest else None
            self.kept.append((arguments, state))
            if maker is copyreg.__newobj__:  # type: ignore[attr-defined]
                made = {"new": name}
            else:
                name = self.maker_name(maker, place)
                if name in _MAKERS:
                    # Pickles have the version last; a file has it in its head.
                    *arguments, _ = arguments
                made = {"call": name, "parts": self.told(list(arguments), place)}
            if state is not None:
                made["state"] = self.told(state, place)
        self.number("object", self.n_objects, value)
        self.n_objects += 1
        return made

    def number(self, kind: str, number: int, value: object) -> None:
        self.numbers[id(value)] = kind, number
        self.kept.append(value)

    def class_name(self, kind: type, place: str) -> str:
        name: str = kind.__name__
        if issubclass(kind, np.generic) or _class(name) is kind:
            return name
        self.refuse(f"{kind.__module__}.{kind.__qualname__}", place)
        raise AssertionError  # `refuse` has raised

    def maker_name(self, maker: Callable[..., Any], place: str) -> str:
        for name, known in _makers().items():
            if maker == known:
                return name
        if isinstance(maker, type):
            return self.class_name(maker, place)
        self.refuse(repr(maker), place)
        raise AssertionError

    def refuse(self, what: str, place: str) -> None:
        msg = (
            f"{place} cannot be stored: {what} is not of this package; "
            "pickle stores what Python can import"
        )
        raise TypeError(msg)


class _Reader:
    """Makes objects of what `_Writer` told."""

    def __init__(self, arrays: list[NDArray[Any]]) -> None:
        self.arrays = arrays
        self.objects: list[Any] = []

    def made(self, told: Any) -> Any:
        if isinstance(told, list):
            return [self.made(x) for x in told]
        if not isinstance(told, dict):
            return told
        kind = next(iter(told))
        value = told[kind]
        if kind in ("new", "call", "sparse"):
            made = self.made_object(kind, told)
            self.objects.append(made)
            return made
        simple: dict[str, Callable[[Any], Any]] = {
            "float": float,
            "tuple": lambda value: tuple(self.made(value)),
            "dict": lambda value: {self.made(k): self.made(v) for k, v in value},
            "array": self.arrays.__getitem__,
            "object": self.objects.__getitem__,
            "scalar": lambda value: self.arrays[value][()],
            "bytes": lambda value: self.arrays[value].tobytes(),
            "dtype": np.dtype,
            "class": _named,
            "objects": lambda value: self.made_objects(value, told["shape"]),
        }
        return simple[kind](value)

    def made_objects(self, values: list[Any], shape: list[int]) -> NDArray[Any]:
        array = np.empty(len(values), object)
        array[:] = self.made(values)
        return array.reshape(shape)

    def made_object(self, kind: str, told: dict[str, Any]) -> Any:
        if kind == "sparse":
            _one_of(_SPARSE, told["sparse"])
            *parts, shape = self.made(told["parts"])
            return _named(told["sparse"])(tuple(parts), shape=shape)
        if kind == "new":
            cls = _named(told["new"])
            made = cls.__new__(cls)
        else:
            parts = self.made(told["parts"])
            if told["call"] in _MAKERS:
                parts.append(__version__)
            makers = _makers()
            _one_of((*makers, *_CALLED), told["call"])
            made = (makers.get(told["call"]) or _named(told["call"]))(*parts)
        if "state" in told:
            state = self.made(told["state"])
            if hasattr(made, "__setstate__"):
                made.__setstate__(state)
            else:
                made.__dict__.update(state)
        return made


def _one_of(names: tuple[str, ...], name: object) -> None:
    if name not in names:
        msg = f"expected one of {', '.join(names)}, got {name!r}"
        raise ValueError(msg)


def _makers() -> dict[str, Callable[..., Any]]:
    made: dict[str, Callable[..., Any]] = {
        name: getattr(importlib.import_module(f"{_PACKAGE}.{module}"), function)
        for name, (module, function) in _MAKERS.items()
    }
    made["forest"] = Forest._from_shared  # type: ignore[attr-defined]
    made["pairs"] = PairForest.from_brackets
    made["item"] = operator.getitem
    return made


@functools.cache
def _class(name: str) -> type | None:
    """Return a class of this package, or one that its estimators are made of."""
    for kind in (Forest, Tree, PairForest, Pair):
        if kind.__name__ == name:
            return kind
    if name in _OTHERS:
        found = getattr(importlib.import_module(_OTHERS[name]), name)
        return found if isinstance(found, type) else None
    for path in sorted(Path(__file__).parent.glob("[!_]*")):
        is_module = path.suffix == ".py" or (path / "__init__.py").exists()
        # Nothing of Dask's is stored, and `NpyFile` would write to any path.
        if not is_module or path.name == "dask":
            continue
        try:
            module = importlib.import_module(f"{_PACKAGE}.{path.stem}")
        except ImportError:  # needs a package that is not here
            continue
        found = vars(module).get(name)
        # A package shows what its private modules define.
        if isinstance(found, type) and f"{found.__module__}.".startswith(
            f"{module.__name__}."
        ):
            return found
    return None


def _named(name: str) -> Any:
    """Return the class that a file names."""
    scalar = getattr(np, name, None)
    if isinstance(scalar, type) and issubclass(scalar, np.generic):
        return scalar
    found = _class(name)
    if found is None:
        msg = f"expected a class of {_PACKAGE} {__version__}, got {name!r}"
        raise ValueError(msg)
    return found


def _read(file: IO[bytes]) -> tuple[dict[str, Any], list[NDArray[Any]]]:
    """Read head and arrays, of which nothing is believed."""
    size = os.fstat(file.fileno()).st_size
    prelude = file.read(_PRELUDE.size)
    magic = _MAGIC.fullmatch(prelude[:16])
    if magic is None:
        msg = f"expected a file written by treekernel_rs.save, got {prelude[:16]!r}"
        raise ValueError(msg)
    if int(magic[1]) > FORMAT:
        msg = (
            f"expected format {FORMAT} or earlier, got {int(magic[1])}: it was written by "
            f"a later version than {__version__}"
        )
        raise ValueError(msg)
    if len(prelude) < _PRELUDE.size:
        msg = f"expected {_PRELUDE.size} bytes before the head, got {len(prelude)}"
        raise ValueError(msg)
    start, digest = _PRELUDE.unpack(prelude)
    _, length = _START.unpack(start)
    if length > size - _PRELUDE.size:
        msg = f"expected a head of {length} bytes, got {size - _PRELUDE.size}"
        raise ValueError(msg)
    text = file.read(length)
    if _digest([start, text]) != digest:
        msg = "expected the checksum of the head, got another: the file was changed"
        raise ValueError(msg)
    head: dict[str, Any] = json.loads(text)
    sizes = [_padded(_nbytes(told)) for told in head["arrays"]]
    if sum(sizes) != size - file.tell():
        msg = f"expected {sum(sizes)} bytes of arrays, got {size - file.tell()}"
        raise ValueError(msg)
    arrays = []
    for number, (told, padded) in enumerate(zip(head["arrays"], sizes, strict=True)):
        block = np.empty(padded, np.uint8)
        for first in range(0, padded, _CHUNK):
            file.readinto(block[first : first + _CHUNK].data)  # type: ignore[attr-defined]
        if _digest(_chunks(block)).hex() != told["blake2b"]:
            msg = f"expected the checksum of array {number}, got another: the file was changed"
            raise ValueError(msg)
        flat = block[: _nbytes(told)].view(told["dtype"])
        arrays.append(flat.reshape(told["shape"], order=told["order"]))
    return head, arrays


def _nbytes(told: dict[str, Any]) -> int:
    dtype = np.dtype(told["dtype"])
    if dtype.kind not in _KINDS:
        msg = f"expected an array of numbers or texts, got one of {dtype}"
        raise ValueError(msg)
    nbytes: int = dtype.itemsize * math.prod(told["shape"])
    return nbytes
