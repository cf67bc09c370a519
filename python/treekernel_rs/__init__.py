"""Tree kernels: exact, fast and distributed, over hash-consed forests.

Examples
--------
>>> import treekernel_rs as tk
>>> forest = tk.Forest.from_brackets(["(S (A a) (B b))", "(S (A a) (B c))"])
>>> tk.SubsetTreeKernel(0.4)(forest).round(3)
array([[1.584, 0.96 ],
       [0.96 , 1.584]])
"""

from treekernel_rs import datasets
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
from treekernel_rs.distributed import DistributedTrees
from treekernel_rs.kernels import (
    ElasticTreeKernel,
    PartialTreeKernel,
    SubsetTreeKernel,
    SubtreeKernel,
)
from treekernel_rs.pairs import PairKernel

__all__ = [
    "ConstraintLimitError",
    "DistributedTrees",
    "ElasticTreeKernel",
    "Forest",
    "KernelRows",
    "Pair",
    "PairForest",
    "PairKernel",
    "ParseError",
    "PartialTreeKernel",
    "SubsetTreeKernel",
    "SubtreeKernel",
    "Tree",
    "__version__",
    "datasets",
]
