from collections.abc import Callable, Iterable, Iterator, Sequence
from types import EllipsisType
from typing import Any, Final, Self, SupportsIndex, TypedDict, final, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "Dag",
    "Encoder",
    "Forest",
    "ForestBuilder",
    "Kernel",
    "KernelRows",
    "Learner",
    "ParseError",
    "Tree",
    "TreeIterator",
    "__version__",
    "as_forest",
]

__version__: Final[str]

class _Arrays(TypedDict):
    labels: NDArray[np.int64]
    parents: NDArray[np.int64]
    offsets: NDArray[np.int64]
    names: NDArray[np.uint8]
    name_offsets: NDArray[np.int64]

class ParseError(ValueError):
    tree: int
    line: int
    column: int
    offset: int
    expected: str
    got: str
    open: tuple[int, int] | None
    file: str | None

@final
class Forest:
    @staticmethod
    def from_brackets(lines: str | bytes | Iterable[str | bytes]) -> Forest: ...
    @staticmethod
    def from_trees(objects: Iterable[Any]) -> Forest: ...
    @staticmethod
    def from_arrays(
        labels: ArrayLike,
        parents: ArrayLike,
        offsets: ArrayLike,
        names: Sequence[str] | NDArray[np.uint8] | None = None,
        name_offsets: ArrayLike | None = None,
    ) -> Forest: ...
    def to_arrays(self) -> _Arrays: ...
    def to_brackets(self) -> list[str]: ...
    @property
    def labels(self) -> list[str]: ...
    @property
    def n_nodes(self) -> NDArray[np.int64]: ...
    @property
    def n_distinct(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def shape(self) -> tuple[int]: ...
    def subtree_ids(self) -> tuple[NDArray[np.int64], NDArray[np.uint32]]: ...
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, index: SupportsIndex, /) -> Tree: ...
    @overload
    def __getitem__(self, index: slice | ArrayLike, /) -> Forest: ...
    @overload
    def __getitem__(
        self, index: tuple[slice | ArrayLike, EllipsisType], /
    ) -> Forest: ...
    def __iter__(self) -> TreeIterator: ...
    def __add__(self, other: Forest, /) -> Forest: ...
    def __radd__(self, other: Forest, /) -> Forest: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: Any, /) -> Self: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class ForestBuilder:
    def __new__(cls) -> Self: ...
    def extend(self, items: Iterable[str | bytes]) -> None: ...
    def finish(self) -> Forest: ...
    def __len__(self) -> int: ...

@final
class Tree:
    @property
    def label(self) -> str: ...
    @property
    def children(self) -> list[Tree]: ...
    @property
    def n_nodes(self) -> int: ...
    @property
    def depth(self) -> int: ...
    def _repr_svg_(self) -> str | None: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: Any, /) -> Self: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class TreeIterator(Iterator[Tree]):
    def __iter__(self) -> Self: ...
    def __next__(self) -> Tree: ...

@final
class Kernel:
    @staticmethod
    def subtree(decay: float, leaf_weight: float) -> Kernel: ...
    @staticmethod
    def subset_tree(decay: float, leaf_weight: float) -> Kernel: ...
    @staticmethod
    def partial_tree(
        decay: float, mu: float, leaf_factor: float, max_children: int | None
    ) -> Kernel: ...
    @staticmethod
    def elastic_tree(decay: float) -> Kernel: ...
    def gram(
        self,
        x: Any,
        y: Any | None,
        out: NDArray[Any],
        normalize: bool,
        n_jobs: int | None,
        progress: Callable[[int, int], object] | None,
    ) -> tuple[list[int], list[int]]: ...
    def diagonal(
        self, x: Any, normalize: bool, n_jobs: int | None
    ) -> tuple[NDArray[np.float64], list[int]]: ...
    def rows(
        self, x: Any, normalize: bool, n_jobs: int | None
    ) -> tuple[KernelRows, list[int]]: ...
    def pair(self, a: Any, b: Any, normalize: bool) -> float: ...

@final
class Dag:
    def __new__(cls, kernel: Kernel, normalize: bool, n_outputs: int) -> Self: ...
    def add(
        self,
        x: Any,
        alphas: NDArray[np.float64],
        progress: Callable[[int, int], object] | None,
    ) -> list[int]: ...
    def score(
        self,
        x: Any,
        n_jobs: int | None,
        progress: Callable[[int, int], object] | None,
    ) -> tuple[NDArray[np.float64], list[int]]: ...
    def contributions(self, tree: Any) -> NDArray[np.float64]: ...
    def top_fragments(
        self,
        k: int,
        by: str,
        output: int,
        min_size: int,
        max_size: int | None,
        max_states: int,
    ) -> tuple[Forest, NDArray[np.float64], list[int]]: ...
    @property
    def intercept(self) -> NDArray[np.float64]: ...
    def set_intercept(self, intercept: NDArray[np.float64]) -> None: ...
    def figures(self) -> tuple[int, int, int, int]: ...
    def to_arrays(self) -> dict[str, NDArray[Any]]: ...
    @staticmethod
    def from_arrays(
        kernel: Kernel, normalize: bool, n_outputs: int, arrays: dict[str, Any]
    ) -> Dag: ...

@final
class Learner:
    def __new__(
        cls,
        kernel: Kernel,
        normalize: bool,
        n_outputs: int,
        vote: str,
        vectors: tuple[int, float, float] | None,
        mix: float,
    ) -> Self: ...
    def learn(
        self,
        x: Any,
        y: NDArray[np.float64],
        features: tuple[Any, ...] | None,
        progress: Callable[[int, int], object] | None,
    ) -> int: ...
    def score(
        self,
        x: Any,
        features: tuple[Any, ...] | None,
        n_jobs: int | None,
        progress: Callable[[int, int], object] | None,
    ) -> tuple[NDArray[np.float64], list[int]]: ...
    def figures(self) -> tuple[int, int, int]: ...
    def model(self) -> Dag: ...
    def to_arrays(self) -> dict[str, NDArray[Any]]: ...
    @staticmethod
    def from_arrays(
        kernel: Kernel,
        normalize: bool,
        n_outputs: int,
        vote: str,
        vectors: tuple[int, float, float] | None,
        mix: float,
        arrays: dict[str, Any],
    ) -> Learner: ...

@final
class Encoder:
    def __new__(
        cls,
        kernel: Kernel,
        n_components: int,
        composition: str,
        fold: str,
        seed: int,
        max_height: int | None,
        sketch_decay: float | None,
        zero_mean: bool,
        normalize: str | None,
        paths: NDArray[np.uint64] | None,
    ) -> Self: ...
    def encode(
        self,
        x: Any,
        out: NDArray[Any],
        n_jobs: int | None,
        progress: Callable[[int, int], object] | None,
    ) -> list[int]: ...
    def fragment(self, tree: Any, out: NDArray[Any]) -> None: ...
    def label_vector(self, label: str, out: NDArray[Any]) -> None: ...
    def compose(self, a: NDArray[Any], b: NDArray[Any], out: NDArray[Any]) -> None: ...
    def shared_paths(self, x: Any) -> NDArray[np.uint64]: ...
    def tuned_decay(self, x: Any) -> float | None: ...

@final
class KernelRows:
    def __len__(self) -> int: ...
    def __getitem__(
        self, index: SupportsIndex | slice | ArrayLike, /
    ) -> NDArray[np.float64]: ...

def as_forest(trees: Any) -> Forest: ...
