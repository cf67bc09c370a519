"""Objects that are the parameters of their constructor: kernels, similarities, weights."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Self,
    TypeVar,
)
from weakref import WeakValueDictionary

import numpy as np

from treekernel_rs._core import __version__
from treekernel_rs._versions import warn_if_other

if TYPE_CHECKING:
    from collections.abc import Iterator


__all__ = ["Normalizing", "Parameters", "kernel_from_json", "read_json"]

_SAVED: dict[str, type[Parameters]] = {}


class Parameters:
    """An object that is its constructor's parameters.

    It only stores them. They are checked when it is used: so an invalid value can be set,
    cloned, pickled and put into a grid, and raises its error when it is tried.
    """

    #: Constructor parameters, in order, with their defaults.
    _defaults: dict[str, Any]
    #: What JSON has besides.
    _also_stored: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__init__" in vars(cls):
            _, *parameters = inspect.signature(cls.__init__).parameters.values()
            cls._defaults = {p.name: p.default for p in parameters}
            _SAVED.setdefault(cls.__name__, cls)

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse: assigning an attribute would also change what other objects hold."""
        msg = (
            f"{type(self).__name__}: attributes cannot be set, got {name!r}; "
            f"use replace({name}=...)"
        )
        raise AttributeError(msg)

    def _remember(self, **parameters: object) -> None:
        # Scalars of numpy's as Python's: so they are written and read back.
        vars(self).update(
            (name, value.item() if isinstance(value, np.generic) else value)
            for name, value in parameters.items()
        )
        vars(self).pop("_checked", None)

    #: Parts may be changed in place, so what computes is not kept.
    _is_composed: ClassVar[bool] = False

    @property
    def _core(self) -> Any:
        """The native object; made, and the parameters checked, at its first use."""
        if self._is_composed or "_checked" not in vars(self):
            vars(self)["_checked"] = self._make()
        return vars(self)["_checked"]

    def _make(self) -> Any:
        raise NotImplementedError

    @property
    def _parameters(self) -> dict[str, Any]:
        return {name: vars(self)[name] for name in self._defaults}

    def __repr__(self) -> str:
        """Show the first parameter and those that differ from their defaults."""
        (_, first), *rest = self._parameters.items()
        changed = [(name, v) for name, v in rest if v != self._defaults[name]]
        shown = [repr(first), *(f"{name}={value!r}" for name, value in changed)]
        return f"{type(self).__name__}({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        """Compare class and parameters."""
        if type(other) is not type(self):
            return NotImplemented
        return self._parameters == other._parameters

    # `set_params` changes the values that are compared: a hash would change with them.
    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the parameters."""
        return _rebuild, (type(self), self._parameters, __version__)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters and their values, as in scikit-learn.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> tk.ElasticTreeKernel(0.3).get_params()
        {'decay': 0.3, 'weights': None, 'normalize': False}
        >>> sorted((tk.ElasticTreeKernel(0.3) ** 2).get_params())
        ['base', 'base__decay', 'base__normalize', 'base__weights', 'degree', 'normalize']
        """
        if not deep:
            return self._parameters
        parts = self._parts()
        nested = {
            f"{name}__{parameter}": value
            for name, part in parts.items()
            for parameter, value in part.get_params().items()
        }
        return {**parts, **nested, **self._parameters}

    def _parts(self) -> dict[str, Parameters]:
        """Kernels that this one is made of, by the names of their parameters."""
        parameters = self._parameters.items()
        return {name: p for name, p in parameters if isinstance(p, Parameters)}

    def _changed(self, changes: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters after changes; ``part__name`` makes a new part."""
        own = {n: value for n, value in changes.items() if "__" not in n}
        self._check_names(own)
        # A new part comes before changes to it, whatever their order in a grid.
        new = {**self._parameters, **own}
        for name, value in changes.items():
            if name in own:
                continue
            part, _, parameter = name.partition("__")
            kernel = new.get(part)
            if isinstance(kernel, Parameters):
                new[part] = kernel.replace(**{parameter: value})
            else:
                self._check_names({name: value})
        return new

    def replace(self, **changes: Any) -> Self:
        """Make a kernel that differs in some parameters.

        Parts of kernels made of kernels are copied, and changed as ``left__decay=0.2``.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> tk.SubsetTreeKernel(0.4, normalize=True).replace(decay=0.2)
        SubsetTreeKernel(0.2, normalize=True)
        """
        new = self._changed(changes)
        return type(self)(**{name: _copied(value) for name, value in new.items()})

    __replace__ = replace  # copy.replace of Python 3.13

    def set_params(self, **changes: Any) -> Self:
        """Change parameters in place, as scikit-learn does with its clones.

        This is for estimators of scikit-learn that hold a kernel: ``SVC(kernel=k)`` and a
        search over ``kernel__decay``. Elsewhere use `replace`, which does not change this
        object. Models and estimators of this package keep the parameters that they were
        made with.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> tk.SubsetTreeKernel(0.4).set_params(decay=0.2)
        SubsetTreeKernel(0.2)
        """
        new = self._changed(changes)
        self._leave_copies()
        self._remember(**new)
        return self

    def _nested(self) -> Iterator[Parameters]:
        """Go through this object and all kernels that it is made of."""
        yield self
        for part in self._parts().values():
            yield from part._nested()

    def _hold(self, holder: object, name: str) -> None:
        """Remember an object with this one as an attribute that others may not change."""
        for part in self._nested():
            if (holders := vars(part).get("_holders")) is None:
                holders = vars(part)["_holders"] = WeakValueDictionary()
            holders[id(holder), name] = holder

    def _leave_copies(self) -> None:
        """Give holders a copy of what they hold: this object, or what has it as a part."""
        holders: Mapping[tuple[int, str], object] = vars(self).pop("_holders", {})
        for (_, name), holder in list(holders.items()):
            held = vars(holder).get(name)
            if isinstance(held, Parameters) and any(p is self for p in held._nested()):
                vars(holder)[name] = held.replace()

    def _check_names(self, changes: dict[str, Any]) -> None:
        for name in changes:
            if name not in self._defaults:
                msg = (
                    f"{type(self).__name__} has no parameter {name!r}; "
                    f"it has {', '.join(self._defaults)}"
                )
                raise ValueError(msg)

    def to_json(self) -> str:
        """Write class and parameters as JSON, for `kernel_from_json`.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> text = tk.ElasticTreeKernel(0.3).to_json()
        >>> text
        '{"version": 1, "kernel": "ElasticTreeKernel", "decay": 0.3, "normalize": false}'
        >>> tk.kernels.kernel_from_json(text)
        ElasticTreeKernel(0.3)
        """
        return json.dumps(_saved(self), default=_saved)

    def _stored(self) -> dict[str, Any]:
        """Return the parameters as JSON has them; kernels in them as they are."""
        return self._parameters

    @classmethod
    def _read(cls, stored: dict[str, Any]) -> Self:
        """Make what `_stored` told of this class."""
        return cls(**stored)

    def __sklearn_clone__(self) -> Self:
        return self.replace()


class Normalizing(Parameters):
    """Kernels with the parameter `normalize`."""

    normalize: bool

    def normalized(self) -> Self:
        """Make the same kernel with ``normalize=True``: K(a,b) / sqrt(K(a,a) K(b,b)).

        A kernel made of kernels is normalised as a whole.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> tk.SubsetTreeKernel(0.4).normalized()
        SubsetTreeKernel(0.4, normalize=True)
        >>> (tk.SubsetTreeKernel(0.4) + tk.ElasticTreeKernel(0.4)).normalized()
        (SubsetTreeKernel(0.4) + ElasticTreeKernel(0.4)).normalized()
        """
        return self.replace(normalize=True)


def kernel_from_json(text: str) -> Any:
    """Read a kernel of trees, pairs or vectors that `to_json` has written.

    Its parameters are checked when it is used, as for any kernel.

    Raises
    ------
    ValueError
        If the text is not the JSON of a kernel.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> k = tk.PartialTreeKernel(0.3, max_children=2, normalize=True)
    >>> tk.kernels.kernel_from_json(k.to_json()) == k
    True
    """
    return read_json(text, _SAVED)


_P = TypeVar("_P", bound=Parameters)

#: Of what `to_json` writes.
_VERSION = 1


def read_json(text: str, known: Mapping[str, type[_P]], what: str = "kernel") -> _P:
    expected = f"{what}: expected one of {sorted(known)} with its parameters as JSON"
    wrong = f"{expected}, got {text[:200]!r}"
    try:
        stored = json.loads(text)
        version = stored["version"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ValueError(wrong) from None
    if version != _VERSION:
        msg = f"{what}: expected version {_VERSION} of the JSON, got {version!r}"
        raise ValueError(msg)
    if not _is_saved(stored):
        raise ValueError(wrong)
    try:
        kernel: _P = _read(stored, known)
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ValueError(wrong) from None
    return kernel


def _saved(kernel: Any) -> dict[str, Any]:
    if not isinstance(kernel, Parameters):
        msg = f"a kernel with {kernel!r} cannot be written as JSON"
        raise TypeError(msg)
    name = type(kernel).__name__
    return {"version": _VERSION, "kernel": name, **kernel._stored()}


def _is_saved(stored: Any) -> bool:
    return (
        isinstance(stored, dict)
        and type(stored.get("version")) is int
        and isinstance(stored.get("kernel"), str)
    )


def _read(stored: Any, known: Mapping[str, type[Parameters]]) -> Any:
    """Make what `_saved` has written, and the kernels in it; KeyError for anything else."""
    if not isinstance(stored, dict):
        return stored
    parameters = {name: _read(value, _SAVED) for name, value in stored.items()}
    if not _is_saved(stored):
        return parameters
    made = known[stored["kernel"]]
    del parameters["version"], parameters["kernel"]
    defaults = made._defaults.items()
    needed = {n for n, default in defaults if default is inspect.Parameter.empty}
    if not needed <= parameters.keys() <= {*made._defaults, *made._also_stored}:
        raise KeyError
    return made._read(parameters)


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copied(part) for name, part in value.items()}
    return value.replace() if isinstance(value, Parameters) else value


def _rebuild(
    kernel: type[Parameters], parameters: dict[str, Any], version: str | None = None
) -> Parameters:
    warn_if_other(version)
    return kernel(**parameters)
