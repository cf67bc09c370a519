"""Tree kernels: exact, fast and distributed, over hash-consed forests.

Examples
--------
>>> import treekernel_rs as tk
>>> forest = tk.Forest.from_brackets(["(S (A a) (B b))", "(S (A a) (B c))"])
>>> tk.SubsetTreeKernel(0.4)(forest).round(3)
array([[1.584, 0.96 ],
       [0.96 , 1.584]])
"""

from typing import TYPE_CHECKING, Any

from treekernel_rs import datasets, readers
from treekernel_rs._core import (
    ConstraintLimitError,
    Forest,
    KernelRows,
    Pair,
    PairForest,
    ParseError,
    Tree,
    __version__,
)
from treekernel_rs.dag import (
    DagModel,
    Fragment,
    Perceptron,
    PolynomialKernel,
    one_vs_one_dual_coef,
)
from treekernel_rs.distributed import DistributedTrees
from treekernel_rs.drawing import Drawing, draw, draw_gram
from treekernel_rs.kernels import (
    ElasticTreeKernel,
    PartialTreeKernel,
    SubsetTreeKernel,
    SubtreeKernel,
)
from treekernel_rs.pairs import PairKernel

if TYPE_CHECKING:
    from treekernel_rs.estimators import (
        DistributedTreeEncoder as DistributedTreeEncoder,
    )
    from treekernel_rs.estimators import TreeGram as TreeGram
    from treekernel_rs.estimators import TreePerceptron as TreePerceptron
    from treekernel_rs.estimators import TreeSVC as TreeSVC

# Not in __all__: they need scikit-learn, and `import *` should not.
_ESTIMATORS = ("DistributedTreeEncoder", "TreeGram", "TreePerceptron", "TreeSVC")

__all__ = [
    "ConstraintLimitError",
    "DagModel",
    "DistributedTrees",
    "Drawing",
    "ElasticTreeKernel",
    "Forest",
    "Fragment",
    "KernelRows",
    "Pair",
    "PairForest",
    "PairKernel",
    "ParseError",
    "PartialTreeKernel",
    "Perceptron",
    "PolynomialKernel",
    "SubsetTreeKernel",
    "SubtreeKernel",
    "Tree",
    "__version__",
    "datasets",
    "draw",
    "draw_gram",
    "one_vs_one_dual_coef",
    "readers",
]


def __getattr__(name: str) -> Any:
    """Import the estimators when they are asked for."""
    if name in _ESTIMATORS:
        from treekernel_rs import estimators

        return getattr(estimators, name)
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted({*globals(), *_ESTIMATORS})
