"""Distributed trees: a tree as one vector, a tree kernel as a dot product."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from treekernel_rs import _core
from treekernel_rs._arguments import (
    check_flag,
    check_float_type,
    check_integer,
    check_jobs,
    check_number,
    check_out,
    progress_callback,
)
from treekernel_rs._core import __version__
from treekernel_rs._held import HeldKernel
from treekernel_rs._matrices import warn_of_zeros
from treekernel_rs._public import listing
from treekernel_rs._versions import warn_if_other
from treekernel_rs.tree_kernels import SubsetTreeKernel, TreeKernel, copied_kernel

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, DTypeLike, NDArray

    from treekernel_rs._arguments import Progress, Trees
    from treekernel_rs._core import Encoder, Tree

__all__ = ["DistributedTrees"]
__dir__ = listing(__all__)


class DistributedTrees:
    r"""Trees as vectors whose dot products approximate a tree kernel.

    Each label has a random unit vector. A composition makes one vector of two. The vector of
    a tree is the weighted sum over all its fragments (Zanzotto & Dell'Arciprete, ICML 2012).
    Over all seeds, the mean dot product of two trees is their kernel, and the variance is
    about (K11 K22 + K12^2) / n_components. So noise comes from large self-kernels. To reduce
    it, keep `decay` low, raise `n_components`, or use `max_height`, `sketch_decay` or
    `prune`. `encode` warns of trees that are too large for `n_components`.

    Encoders are immutable. Equal arguments give equal vectors, bit for bit: in every process,
    on every machine, for any number of threads, and for any split of the trees into calls.

    Parameters
    ----------
    kernel : SubsetTreeKernel, SubtreeKernel or PartialTreeKernel
        The kernel to approximate, with all its parameters. With ``normalize=True``
        vectors are divided by a norm: see `norm`.
    n_components : int, default 8192
        Length of the vectors; a multiple of 4.
    composition : {"quaternion", "sign", "phasor", "convolution", "gamma"}
        The first three keep norms exactly. Quaternions have the least noise, signs are
        the fastest. "convolution" and "gamma" are the paper's. Convolution needs an FFT;
        vectors of the gamma product shrink to zero or explode as trees grow.
    fold : {"left", "right"}
        The order in which children are composed. "right" is the paper's; it gives
        ``(A B C)`` and ``(A (B C))`` the same vector.
    random_state : int, default 0
        Seed of the label vectors and permutations, from 0 to 2**64 - 1.
    max_height : int, optional
        Use only fragments of at most so many levels. This is another, smaller kernel.
    sketch_decay : float or "auto", optional
        Decay to use in place of the kernel's. A smaller decay gives less noise and ranks
        trees nearly as the kernel does. "auto" depends on the trees: `tune` resolves it.
    dtype : float32 or float64, default float32
        Type of the vectors.
    zero_mean : bool, default True
        Whether label vectors of "convolution" sum to zero; False is the paper's version.
    reproducible : bool, default True
        Whether vectors of "convolution" have the same bits on every processor. False takes
        a third of the time for each composition: it uses the vector instructions of the
        processor, and the last bits differ from machine to machine. All other compositions
        are always reproducible.
    norm : {"exact", "full", "own"}, default "exact"
        The norm that vectors are divided by if the kernel is normalised: "exact" is the
        square root of the exact self-kernel with `sketch_decay` (dot products stay unbiased),
        "full" the same with the kernel's own decay (vectors of large trees are short, and
        have little noise), "own" is the norm of the vector (dot products are cosines).
    paths : ndarray of uint64, optional
        A dictionary of paths; see `prune`.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> enc = tk.DistributedTrees(tk.SubsetTreeKernel(0.4), 4096)
    >>> enc
    DistributedTrees(SubsetTreeKernel(0.4), 4096)
    >>> trees = ["(S (A a) (B b))", "(S (A a) (B c))"]
    >>> V = enc.encode(trees)
    >>> V.shape, V.dtype
    ((2, 4096), dtype('float32'))
    >>> abs(V @ V.T - enc.kernel(trees)).max() < 0.1
    np.True_
    """

    kernel = HeldKernel[TreeKernel]()
    n_components: int
    composition: str
    fold: str
    random_state: int
    max_height: int | None
    sketch_decay: float | Literal["auto"] | None
    dtype: np.dtype[Any]
    zero_mean: bool
    reproducible: bool
    norm: str
    paths: NDArray[np.uint64] | None
    _core: Encoder

    def __init__(
        self,
        kernel: TreeKernel | None = None,
        n_components: int = 8192,
        *,
        composition: str = "quaternion",
        fold: str = "left",
        random_state: int = 0,
        max_height: int | None = None,
        sketch_decay: float | Literal["auto"] | None = None,
        dtype: DTypeLike = np.float32,
        zero_mean: bool = True,
        reproducible: bool = True,
        norm: str = "exact",
        paths: ArrayLike | None = None,
    ) -> None:
        kernel = SubsetTreeKernel(0.4) if kernel is None else kernel
        kernel = copied_kernel(kernel)
        for name, value in (("composition", composition), ("fold", fold)):
            if not isinstance(value, str):
                msg = f"{name} must be a str, got {value!r}"
                raise TypeError(msg)
        if norm not in ("exact", "full", "own"):
            msg = f"norm must be 'exact', 'full' or 'own', got {norm!r}"
            raise ValueError(msg)
        for name, flag in (("zero_mean", zero_mean), ("reproducible", reproducible)):
            check_flag(flag, name)
        random_state = check_integer("random_state", random_state)
        if not 0 <= random_state < 2**64:
            msg = f"random_state must be from 0 to 2**64 - 1, got {random_state}"
            raise ValueError(msg)
        if isinstance(sketch_decay, str):
            if sketch_decay != "auto":
                msg = f"sketch_decay must be a number or 'auto', got {sketch_decay!r}"
                raise ValueError(msg)
        elif sketch_decay is not None:
            sketch_decay = check_number("sketch_decay", sketch_decay)
        n_components = check_integer("n_components", n_components)
        if max_height is not None:
            max_height = check_integer("max_height", max_height)
        hashes = None if paths is None else _hashes(paths)
        core = _core.Encoder(
            kernel._core,
            n_components,
            composition,
            fold,
            random_state,
            max_height,
            None if sketch_decay == "auto" else sketch_decay,
            bool(zero_mean),
            bool(reproducible),
            norm if kernel.normalize else None,
            hashes,
        )
        object.__setattr__(self, "kernel", kernel)
        vars(self).update(
            _core=core,
            n_components=n_components,
            composition=composition,
            fold=fold,
            random_state=random_state,
            max_height=max_height,
            sketch_decay=sketch_decay,
            dtype=check_float_type(dtype),
            zero_mean=bool(zero_mean),
            reproducible=bool(reproducible),
            norm=norm,
            paths=hashes,
        )

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse: vectors of a changed encoder would not go with those before."""
        msg = (
            f"{type(self).__name__}: attributes cannot be set, got {name!r}; "
            f"make an encoder with another {name}"
        )
        raise AttributeError(msg)

    @property
    def _parameters(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _DEFAULTS}

    @property
    def _key(self) -> tuple[Any, ...]:
        paths = None if self.paths is None else self.paths.tobytes()
        return (*(v for n, v in self._parameters.items() if n != "paths"), paths)

    def __repr__(self) -> str:
        """Name the kernel, n_components and what is not at its default."""
        shown = [repr(self.kernel), repr(self.n_components)]
        for name, value in self._parameters.items():
            if name == "dtype":
                if value != np.float32:
                    shown.append(f"dtype={value.name!r}")
            elif name == "paths":
                if value is not None:
                    shown.append(f"paths=<{len(value)} paths>")
            elif name not in ("kernel", "n_components") and value != _DEFAULTS[name]:
                shown.append(f"{name}={value!r}")
        return f"{type(self).__name__}({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        """Compare class and parameters."""
        if type(other) is not type(self):
            return NotImplemented
        return bool(self._key == other._key)

    def __hash__(self) -> int:
        # Kernels have no hash: what is equal has equal settings besides.
        own = (v for n, v in self._parameters.items() if n not in ("kernel", "paths"))
        return hash((type(self), *own))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the parameters."""
        return _rebuild, (type(self), self._parameters, __version__)

    def encode(
        self,
        X: Trees,
        n_jobs: int | None = None,
        out: NDArray[Any] | None = None,
        progress: Progress | bool | None = None,
        errors: Literal["raise", "zero"] = "raise",
    ) -> NDArray[Any]:
        """Compute the vectors of trees.

        Warns once of all trees whose vectors are mostly noise: dot products with these vectors
        say little about the kernel.

        Parameters
        ----------
        X : Forest or sequence of str
            The trees.
        n_jobs : int, optional
            Threads; by default and for -1 all cores the process may use, with 1 only
            the caller's thread.
        out : ndarray or memmap, optional
            C-contiguous matrix of `dtype` to fill, (len(X), n_components).
        progress : callable or True, optional
            Called as progress(done, total), in trees; True shows a bar.
        errors : {"raise", "zero"}, default "raise"
            What to do with a vector that is too large for `dtype`, which vectors of a
            normalised kernel never are: raise an error, or make it zero and warn.

        Returns
        -------
        ndarray, shape (len(X), n_components)
            `out` if it is given. ``V @ W.T`` approximates ``kernel(X, Y)``.

        Raises
        ------
        OverflowError
            If a vector is too large for its type and `errors` is "raise"; names the tree.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> enc = tk.DistributedTrees(n_components=1024, composition="sign")
        >>> enc.encode(["(S (A a) (B b))"], n_jobs=1).shape
        (1, 1024)
        """
        if self.sketch_decay == "auto":
            msg = (
                "sketch_decay must be a number or None to encode, got 'auto': "
                "enc.tune(forest) gives the encoder that fits some trees"
            )
            raise ValueError(msg)
        check_errors(errors)
        x = _core.as_forest(X)
        shape = (len(x), self.n_components)
        if out is None:
            out = np.empty(shape, self.dtype)
        else:
            check_out(out, shape, self.dtype)
            if out.dtype != self.dtype:
                msg = (
                    f"out must be of the encoder's dtype, {self.dtype}, got {out.dtype}"
                )
                raise ValueError(msg)
        tell = progress_callback(progress, type(self).__name__, "tree")
        zero = errors == "zero"
        zeros, noisy, too_large = self._core.encode(
            x, out, check_jobs(n_jobs), tell, zero
        )
        warn_of_zeros(zeros, "X", stacklevel=3)
        if too_large:
            self._warn(
                f"the vectors of {_some(too_large, len(x))} are too large for "
                f"{self.dtype} and were set to 0"
            )
        if noisy:
            self._warn(
                f"the vectors of {_some(noisy, len(x))} are mostly noise: their kernels "
                f"with themselves are too large for n_components={self.n_components}"
            )
        return out

    def _warn(self, what: str) -> None:
        """Warn the caller of `encode`, with the remedies that are left."""
        remedies = ["a smaller sketch_decay (`tune` finds one)"]
        if self.max_height is None:
            remedies.append("max_height=3")
        remedies.append("larger n_components")
        warnings.warn(
            f"{what}. Use {', '.join(remedies[:-1])} or {remedies[-1]}",
            RuntimeWarning,
            stacklevel=3,
        )

    def fragment(self, tree: Tree | str | object) -> NDArray[Any]:
        """Compute the vector of one fragment: the composition of its labels, unweighted.

        Examples
        --------
        >>> import numpy as np, treekernel_rs as tk
        >>> enc = tk.DistributedTrees(n_components=64)
        >>> a, b, c = map(enc.label_vector, "abc")
        >>> bool(np.allclose(enc.fragment("(a b c)"), enc.compose(enc.compose(a, b), c)))
        True
        """
        return self._filled(lambda out: self._core.fragment(tree, out))

    def label_vector(self, label: str) -> NDArray[Any]:
        """Compute the unit vector of a label.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> tk.DistributedTrees(n_components=4, composition="sign").label_vector("NP")
        array([-0.5, -0.5, -0.5,  0.5], dtype=float32)
        """
        return self._filled(lambda out: self._core.label_vector(label, out))

    def compose(self, a: ArrayLike, b: ArrayLike) -> NDArray[Any]:
        """Compose two vectors.

        Examples
        --------
        >>> import numpy as np, treekernel_rs as tk
        >>> enc = tk.DistributedTrees(dtype=np.float64)
        >>> ab = enc.compose(enc.label_vector("a"), enc.label_vector("b"))
        >>> float(np.linalg.norm(ab).round(9))
        1.0
        """
        left, right = self._vector("a", a), self._vector("b", b)
        return self._filled(lambda out: self._core.compose(left, right, out))

    def prune(self, X: Trees) -> DistributedTrees:
        """Return an encoder that uses only fragments which these trees can share.

        A path of productions that only one of the trees has cannot be in a fragment that
        two of them share, so everything beyond it is left out. The kernel of two different
        trees among these does not change, but has less noise. The kernel of a tree with
        itself becomes smaller. In new trees, fragments that no two of these trees share are
        left out as well. Only for SubsetTreeKernel, and not with ``norm="own"``: a pruned
        vector is shorter than the vector of the whole tree, so its own norm would make trees
        that share little look similar. Time and memory grow with the square of the shared
        depth: set `max_height` for very deep trees.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> trees = ["(S (A a) (B b))", "(S (A a) (B c))"]
        >>> enc = tk.DistributedTrees().prune(trees)
        >>> enc
        DistributedTrees(SubsetTreeKernel(0.4), 8192, paths=<3 paths>)
        """
        return self._with(paths=self._core.shared_paths(_core.as_forest(X)))

    def tune(self, X: Trees) -> DistributedTrees:
        """Return an encoder with the `sketch_decay` that suits these trees.

        The rule needs no labels. It takes the largest decay, at most the kernel's, for which
        the median squared norm of a tree's vector is at most ``0.75 * sqrt(n_components)``
        times the weight of the smallest fragments (the decay; for partial trees, mu times
        its square), or at most twice the median that is left at the smallest decay, if that
        is more. If the kernel is normalised and `norm` is not "full", it takes the largest decay at
        which at most a fifth of the trees have vectors that are mostly noise. It uses up to 256
        of the trees, and respects `max_height` and `paths`.

        Examples
        --------
        >>> import treekernel_rs as tk
        >>> trees = ["(S (A a) (B b) (C c) (D d) (E e) (F f) (G g))"]
        >>> tk.DistributedTrees(tk.SubsetTreeKernel(1.0), sketch_decay="auto").tune(trees)
        DistributedTrees(SubsetTreeKernel(1.0), 8192, sketch_decay=0.798)
        """
        return self._with(sketch_decay=self._core.tuned_decay(_core.as_forest(X)))

    def _with(self, **changes: object) -> DistributedTrees:
        return type(self)(**{**self._parameters, **changes})

    def _vector(self, name: str, value: ArrayLike) -> NDArray[Any]:
        vector = np.ascontiguousarray(value, dtype=self.dtype)
        if vector.shape == (self.n_components,):
            return vector
        msg = f"{name} must be of shape ({self.n_components},), got {vector.shape}"
        raise ValueError(msg)

    def _filled(self, fill: Callable[[NDArray[Any]], None]) -> NDArray[Any]:
        out = np.empty(self.n_components, self.dtype)
        fill(out)
        return out


_DEFAULTS: dict[str, Any] = {
    "kernel": None,
    "n_components": 8192,
    "composition": "quaternion",
    "fold": "left",
    "random_state": 0,
    "max_height": None,
    "sketch_decay": None,
    "dtype": np.dtype(np.float32),
    "zero_mean": True,
    "reproducible": True,
    "norm": "exact",
    "paths": None,
}


def check_errors(errors: object) -> None:
    if errors not in ("raise", "zero"):
        msg = f"errors must be 'raise' or 'zero', got {errors!r}"
        raise ValueError(msg)


def _some(trees: list[int], n: int) -> str:
    shown = ", ".join(map(str, trees[:5])) + (", ..." if len(trees) > 5 else "")
    return f"{len(trees)} of {n} trees of X ({shown})"


def _rebuild(
    cls: type[DistributedTrees],
    parameters: dict[str, Any],
    version: str | None = None,
) -> DistributedTrees:
    warn_if_other(version)
    return cls(**parameters)


def _hashes(paths: ArrayLike) -> NDArray[np.uint64]:
    hashes = np.asarray(paths)
    if hashes.ndim != 1 or (hashes.size and hashes.dtype != np.uint64):
        msg = (
            "paths must be a one-dimensional array of uint64, got "
            f"{hashes.ndim} dimensions of {hashes.dtype}"
        )
        raise ValueError(msg)
    hashes = np.unique(hashes.astype(np.uint64))
    hashes.flags.writeable = False
    return hashes
