from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from types import EllipsisType
from typing import (
    Any,
    Final,
    Literal,
    Self,
    SupportsIndex,
    TypeAlias,
    TypedDict,
    final,
    overload,
)

import numpy as np
from numpy.typing import ArrayLike, NDArray

from treekernel_rs.neighbors import UniqueTrees
from treekernel_rs.nodes import Node

__all__ = [
    "CodeBuilder",
    "ConstraintLimitError",
    "Dag",
    "EditCore",
    "Encoder",
    "Forest",
    "ForestBuilder",
    "Index",
    "Kernel",
    "KernelRows",
    "LabelTable",
    "Learner",
    "Pair",
    "PairCore",
    "PairExpander",
    "PairForest",
    "PairIterator",
    "ParseError",
    "Solver",
    "Tree",
    "TreeIterator",
    "Vocabulary",
    "__version__",
    "as_forest",
    "as_pairs",
    "as_tree",
    "hashed_features",
    "robinson_foulds",
]

__version__: Final[str]

class _Arrays(TypedDict):
    labels: NDArray[np.int64]
    parents: NDArray[np.int64]
    offsets: NDArray[np.int64]
    names: NDArray[np.uint8]
    name_offsets: NDArray[np.int64]

_Pairs: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]
# Pairs, the groups of trees that they are pairs of, and the trees without kernel.
_Joined: TypeAlias = tuple[
    tuple[_Pairs, NDArray[np.int64] | None, NDArray[np.int64] | None],
    tuple[list[int], list[int]],
]

class ParseError(ValueError):
    tree: int
    line: int
    column: int
    offset: int
    expected: str
    got: str
    open: tuple[int, int] | None
    file: str | None
    side: str | None

class ConstraintLimitError(ValueError):
    pairs: list[tuple[int, int]]
    max_constraints: int
    # None where no matrix was asked for.
    result: NDArray[Any] | Any

@final
class Forest:
    def __new__(cls, trees: Any = None) -> Self: ...
    @overload
    @staticmethod
    def from_brackets(
        lines: str | bytes | Iterable[str | bytes],
        *,
        errors: Literal["raise"] = "raise",
    ) -> Forest: ...
    @overload
    @staticmethod
    def from_brackets(
        lines: Iterable[str | bytes | None], *, errors: Literal["skip"]
    ) -> tuple[Forest, list[ParseError]]: ...
    @staticmethod
    def from_trees(
        objects: Iterable[Any],
        *,
        label: Callable[[Any], str] | str | None = None,
        children: Callable[[Any], Iterable[Any]] | str | None = None,
        order: Literal["as_is", "sorted"] = "as_is",
    ) -> Forest: ...
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
    def unique(self) -> UniqueTrees: ...
    @staticmethod
    def concat(forests: Iterable[Forest]) -> Forest: ...
    def save(self, path: str | PathLike[str]) -> None: ...
    @staticmethod
    def load(path: str | PathLike[str]) -> Forest: ...
    def sorted(self) -> Forest: ...
    def collapse_repeats(self, *, count: bool = False) -> Forest: ...
    def relabel(self, labels: Mapping[str, str] | Callable[[str], str]) -> Forest: ...
    def prune(
        self,
        labels: Container[str] | Callable[[str], object],
        *,
        keep_children: bool = False,
    ) -> Forest: ...
    def binarize(
        self,
        labels: Container[str] | Callable[[str], object] | None = None,
        *,
        min_children: int = 2,
        branching: Literal["right", "left"] = "right",
    ) -> Forest: ...
    def __sizeof__(self) -> int: ...
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
class CodeBuilder:
    def __new__(cls, describe: Callable[[Any], dict[str, Any]]) -> Self: ...
    def push_ast(
        self, node: Any, lines: tuple[int, int] | None = None
    ) -> list[tuple[int, int]]: ...
    def push_cursor(
        self, cursor: Any, source: bytes, texts: Mapping[int, str | None] | None = None
    ) -> list[Any]: ...
    def finish(self) -> Forest: ...

@final
class PairExpander:
    def __new__(
        cls,
        rows: ArrayLike,
        columns: ArrayLike,
        values: NDArray[np.float64],
        row_groups: ArrayLike,
        column_groups: ArrayLike | None,
    ) -> Self: ...
    def starts(self) -> NDArray[np.int64]: ...
    def expand(self, start: int, stop: int) -> _Pairs: ...

@final
class ForestBuilder:
    def __new__(cls) -> Self: ...
    def extend(self, items: Iterable[str | bytes]) -> None: ...
    def finish(self) -> Forest: ...

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
    def walk(self, spans: ArrayLike | None = None) -> Iterator[Node]: ...
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
    def __new__(
        cls, name: str, parameters: dict[str, Any], similarity: Any | None = None
    ) -> Self: ...
    @staticmethod
    def composed(
        name: str, parts: Sequence[Kernel], parameters: dict[str, Any]
    ) -> Kernel: ...
    def weighted(
        self,
        labels: list[tuple[str, float]],
        productions: list[tuple[str, list[str], float]],
        others: float,
        counts: str,
    ) -> Kernel: ...
    def gram(
        self,
        x: Any,
        y: Any | None,
        out: NDArray[Any] | np.dtype[Any],
        normalize: bool,
        n_jobs: int | None,
        progress: Callable[[int, int], object] | None,
    ) -> tuple[NDArray[Any], tuple[list[int], list[int]]]: ...
    @property
    def parameter_names(self) -> list[str]: ...
    def gradient(
        self,
        x: Any,
        y: Any | None,
        out: NDArray[np.float64],
        normalize: bool,
        n_jobs: int | None,
        progress: Callable[[int, int], object] | None,
    ) -> tuple[list[int], list[int]]: ...
    def diagonal(
        self, x: Any, normalize: bool, n_jobs: int | None
    ) -> tuple[NDArray[np.float64], list[int]]: ...
    def condensed(
        self,
        x: Any,
        normalize: bool,
        n_jobs: int | None,
        progress: Callable[[int, int], object] | None,
    ) -> NDArray[np.float64]: ...
    def rows(
        self, x: Any, normalize: bool, n_jobs: int | None
    ) -> tuple[KernelRows, list[int]]: ...
    def join(
        self,
        x: Any,
        y: Any | None,
        min_similarity: float,
        rows: tuple[int, int] | None,
        normalize: bool,
        n_jobs: int | None,
        progress: Callable[[int, int], object] | None,
        out: Callable[..., object] | None,
    ) -> _Joined: ...
    def top_k(
        self,
        x: Any,
        y: Any | None,
        k: int,
        normalize: bool,
        n_jobs: int | None,
        progress: Callable[[int, int], object] | None,
    ) -> tuple[
        tuple[NDArray[np.int64], NDArray[np.float64]], tuple[list[int], list[int]]
    ]: ...
    def pairs(
        self,
        x: Any,
        y: Any | None,
        i: Any,
        j: Any,
        normalize: bool,
        n_jobs: int | None,
        progress: Callable[[int, int], object] | None,
    ) -> tuple[NDArray[np.float64], tuple[list[int], list[int]]]: ...
    def pair(self, a: Any, b: Any, normalize: bool) -> float: ...

# How many labels each of some others is similar to, which, and the similarities.
_LabelRows: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]

@final
class LabelTable:
    @staticmethod
    def of_pairs(
        n: int,
        i: NDArray[np.int64],
        j: NDArray[np.int64],
        values: NDArray[np.float64],
    ) -> LabelTable: ...
    @staticmethod
    def of_vectors(
        vectors: NDArray[np.float64],
        classes: NDArray[np.int64],
        power: int,
        threshold: float | None,
        clip: bool,
    ) -> LabelTable: ...
    def rows_by_vectors(
        self, vectors: NDArray[np.float64], classes: NDArray[np.int64]
    ) -> _LabelRows: ...
    def blocks(
        self, most: int
    ) -> tuple[list[tuple[int, Any]], NDArray[np.int64], NDArray[np.int64]]: ...
    def __len__(self) -> int: ...

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
    def merge(self, other: Dag, factor: float) -> None: ...
    def pass_over(self, x: Any, y: NDArray[np.float64]) -> tuple[Dag, Dag, int]: ...
    def contributions(self, tree: Any) -> NDArray[np.float64]: ...
    @property
    def is_graph(self) -> bool: ...
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
    def to_arrays(self) -> list[dict[str, NDArray[Any]]]: ...
    @staticmethod
    def from_arrays(
        kernel: Kernel, normalize: bool, n_outputs: int, arrays: list[dict[str, Any]]
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
class Solver:
    def __new__(
        cls,
        kernel: Kernel,
        normalize: bool,
        x: Any,
        loss: str,
        number: float,
        intercept: float | None,
        targets: NDArray[np.float64],
        costs: NDArray[np.float64],
        n_outputs: int,
        preferences: Any | None,
        vectors: tuple[tuple[int, float, float], float, tuple[Any, ...]] | None,
        seed: int,
    ) -> Self: ...
    def score(
        self,
        x: Any,
        features: tuple[Any, ...] | None,
        n_jobs: int | None,
        progress: Callable[[int, int], object] | None,
    ) -> NDArray[np.float64]: ...
    def run(
        self,
        tol: float,
        max_iter: int,
        cache: int,
        n_jobs: int | None,
        progress: Callable[[int, int], object] | None,
    ) -> bool: ...
    def dual_coef(self) -> NDArray[np.float64]: ...
    def state(self, reached: bool) -> dict[str, Any]: ...
    def set_state(self, state: dict[str, Any]) -> None: ...

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
        reproducible: bool,
        normalize: str | None,
        paths: NDArray[np.uint64] | None,
    ) -> Self: ...
    def encode(
        self,
        x: Any,
        out: NDArray[Any],
        n_jobs: int | None,
        progress: Callable[[int, int], object] | None,
        zero_too_large: bool,
    ) -> tuple[list[int], list[int], list[int]]: ...
    def fragment(self, tree: Any, out: NDArray[Any]) -> None: ...
    def label_vector(self, label: str, out: NDArray[Any]) -> None: ...
    def compose(self, a: NDArray[Any], b: NDArray[Any], out: NDArray[Any]) -> None: ...
    def shared_paths(self, x: Any) -> NDArray[np.uint64]: ...
    def tuned_decay(self, x: Any) -> float | None: ...

@final
class Index:
    def __new__(cls, kernel: Kernel, forest: Forest, normalize: bool) -> Index: ...
    def __len__(self) -> int: ...
    @property
    def forest(self) -> Forest: ...
    def add(self, forest: Any) -> None: ...
    def compact(self) -> None: ...
    def build(self, n_jobs: int | None) -> None: ...
    def nbytes(self) -> int: ...
    def gram(
        self,
        x: Any,
        out: NDArray[Any] | np.dtype[Any],
        n_jobs: int | None,
        progress: Callable[[int, int], object] | None,
    ) -> tuple[NDArray[Any], tuple[list[int], list[int]]]: ...
    def top_k(
        self,
        x: Any | None,
        k: int,
        at_least: float | None,
        among: Any | None,
        exclude_equal: bool,
        n_jobs: int | None,
        progress: Callable[[int, int], object] | None,
    ) -> tuple[
        tuple[NDArray[np.int64], NDArray[np.float64]], tuple[list[int], list[int]]
    ]: ...
    def join(
        self,
        x: Any | None,
        at_least: float,
        among: Any | None,
        n_jobs: int | None,
        progress: Callable[[int, int], object] | None,
        out: Callable[..., object] | None,
    ) -> _Joined: ...

@final
class Vocabulary:
    @staticmethod
    def fit(
        kind: Any,
        size: tuple[int, int],
        x: Any,
        min_df: int,
        counts: str,
        n_jobs: int | None,
    ) -> tuple[
        Vocabulary, tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]
    ]: ...
    def transform(
        self, x: Any, counts: str, n_jobs: int | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]: ...
    def __len__(self) -> int: ...
    def __sizeof__(self) -> int: ...
    def names(self, columns: list[int] | None) -> list[str]: ...
    def to_arrays(self) -> dict[str, NDArray[Any]]: ...
    @staticmethod
    def from_arrays(
        kind: Any, size: tuple[int, int], arrays: dict[str, NDArray[Any]]
    ) -> Vocabulary: ...

def hashed_features(
    kind: Any,
    size: tuple[int, int],
    x: Any,
    n_features: int,
    signed: bool,
    counts: str,
    n_jobs: int | None,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]: ...

@final
class KernelRows:
    def __len__(self) -> int: ...
    def __getitem__(
        self, index: SupportsIndex | slice | ArrayLike, /
    ) -> NDArray[np.float64]: ...

@final
class PairForest:
    @staticmethod
    def from_brackets(
        left: str | bytes | Iterable[str | bytes],
        right: str | bytes | Iterable[str | bytes],
        *,
        separator: str = ":",
    ) -> PairForest: ...
    @staticmethod
    def anchored(
        left: Forest | Sequence[str | bytes] | Sequence[Tree],
        right: Forest | Sequence[str | bytes] | Sequence[Tree],
        *,
        head_rules: Mapping[str, Sequence[tuple[str, Sequence[str]]]]
        | Callable[[str, list[tuple[str, str]]], int]
        | None = None,
        match: Callable[[str, str], str | None] | None = None,
    ) -> PairForest: ...
    def to_brackets(self, *, separator: str = ":") -> tuple[list[str], list[str]]: ...
    @property
    def left(self) -> Forest: ...
    @property
    def right(self) -> Forest: ...
    @property
    def n_placeholders(self) -> NDArray[np.int64]: ...
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, index: SupportsIndex, /) -> Pair: ...
    @overload
    def __getitem__(self, index: slice | ArrayLike, /) -> PairForest: ...
    def __iter__(self) -> PairIterator: ...
    def __add__(self, other: PairForest, /) -> PairForest: ...
    def __radd__(self, other: PairForest, /) -> PairForest: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: Any, /) -> Self: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class Pair:
    @property
    def left(self) -> str: ...
    @property
    def right(self) -> str: ...
    @property
    def placeholders(self) -> list[int]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: Any, /) -> Self: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class PairIterator(Iterator[Pair]):
    def __iter__(self) -> Self: ...
    def __next__(self) -> Pair: ...

@final
class PairCore:
    def __new__(cls, decay: float, method: str, max_constraints: int) -> Self: ...
    def gram(
        self,
        x: Any,
        y: Any | None,
        out: NDArray[Any] | np.dtype[Any],
        normalize: bool,
        n_jobs: int | None,
        progress: Callable[[int, int], object] | None,
    ) -> tuple[NDArray[Any], tuple[list[int], list[int]]]: ...
    def diagonal(
        self, x: Any, normalize: bool, n_jobs: int | None
    ) -> tuple[NDArray[np.float64], list[int]]: ...
    def rows(
        self, x: Any, normalize: bool, n_jobs: int | None
    ) -> tuple[KernelRows, list[int]]: ...
    def pairs(
        self,
        x: Any,
        y: Any | None,
        i: Any,
        j: Any,
        normalize: bool,
        n_jobs: int | None,
        progress: Callable[[int, int], object] | None,
    ) -> tuple[NDArray[np.float64], tuple[list[int], list[int]]]: ...
    def join(
        self,
        x: Any,
        y: Any | None,
        min_similarity: float,
        rows: tuple[int, int] | None,
        normalize: bool,
        n_jobs: int | None,
        progress: Callable[[int, int], object] | None,
        out: Callable[..., object] | None,
    ) -> _Joined: ...
    def top_k(
        self,
        x: Any,
        y: Any | None,
        k: int,
        normalize: bool,
        n_jobs: int | None,
        progress: Callable[[int, int], object] | None,
    ) -> tuple[
        tuple[NDArray[np.int64], NDArray[np.float64]], tuple[list[int], list[int]]
    ]: ...
    def pair(self, a: Any, b: Any, normalize: bool) -> float: ...
    def constraints(self, a: Any, b: Any) -> list[list[tuple[int, int]]]: ...

@final
class EditCore:
    def __new__(
        cls,
        rename: Any,
        insert: tuple[list[tuple[str, float]], float],
        delete: tuple[list[tuple[str, float]], float],
    ) -> Self: ...
    def gram(
        self,
        x: Any,
        y: Any | None,
        out: NDArray[Any] | np.dtype[Any],
        normalize: str | None,
        n_jobs: int | None,
        progress: Callable[[int, int], object] | None,
    ) -> tuple[NDArray[Any], tuple[list[int], list[int]]]: ...
    def condensed(
        self,
        x: Any,
        normalize: str | None,
        n_jobs: int | None,
        progress: Callable[[int, int], object] | None,
    ) -> NDArray[np.float64]: ...
    def rows(
        self, x: Any, normalize: str | None, n_jobs: int | None
    ) -> tuple[KernelRows, list[int]]: ...
    def pairs(
        self,
        x: Any,
        y: Any | None,
        i: Any,
        j: Any,
        normalize: str | None,
        n_jobs: int | None,
        progress: Callable[[int, int], object] | None,
    ) -> tuple[NDArray[np.float64], tuple[list[int], list[int]]]: ...
    def mapping(
        self, a: Any, b: Any
    ) -> tuple[
        list[tuple[int, int]], list[tuple[int, int]], list[int], list[int], float
    ]: ...
    def join(
        self,
        x: Any,
        y: Any | None,
        max_distance: float,
        rows: tuple[int, int] | None,
        normalize: str | None,
        n_jobs: int | None,
        progress: Callable[[int, int], object] | None,
        out: Callable[..., object] | None,
    ) -> _Joined: ...
    def top_k(
        self,
        x: Any,
        y: Any | None,
        k: int,
        max_distance: float | None,
        normalize: str | None,
        n_jobs: int | None,
        progress: Callable[[int, int], object] | None,
    ) -> tuple[
        tuple[NDArray[np.int64], NDArray[np.float64]], tuple[list[int], list[int]]
    ]: ...
    def index(self, forest: Forest, normalize: str | None) -> Index: ...
    def pair(
        self, a: Any, b: Any, normalize: str | None, max_distance: float | None
    ) -> float: ...

def robinson_foulds(
    x: Any,
    y: Any | None,
    out: NDArray[Any] | np.dtype[Any],
    options: tuple[bool, bool, bool],
    n_jobs: int | None,
    progress: Callable[[int, int], object] | None,
) -> tuple[NDArray[Any], tuple[list[int], list[int]]]: ...
def as_forest(trees: Any) -> Forest: ...
def as_tree(tree: Any) -> Tree: ...
def as_pairs(pairs: Any) -> PairForest: ...
