"""Tree kernels: exact, fast and distributed, over hash-consed forests.

>>> import treekernel_rs as tk
>>> trees = ["(S (A a) (B b))", "(S (A a) (B c))"]
>>> tk.SubsetTreeKernel(0.4)(trees).round(3)
array([[1.584, 0.96 ],
       [0.96 , 1.584]])

Trees       Forest, Tree, PairForest (pairs of trees), ParseError; readers (files
            and objects of other programs), datasets
Kernels     SubtreeKernel, SubsetTreeKernel, PartialTreeKernel, ElasticTreeKernel,
            SubpathKernel, PairKernel; TreeKernel has their methods; tune_kernel;
            kernels (made of kernels, of views; similarities and weights)
Estimators  TreeSVC, TreeLogisticRegression, TreePerceptron, TreeSVR, TreeRidge,
for         TreeKNeighborsClassifier, TreeKNeighborsRegressor, TreeRanker,
scikit-     TreeOneClassSVM, TreeGram, TreeKNeighborsTransformer, TreeVectorizer,
learn       TreeNystroem, DistributedTreeEncoder; gaussian_process (a module)
Distances   EditDistance; compare (two trees: what changed); metrics (a module:
            TEDS, TSED, Robinson-Foulds)
Search      top_k, join and index of a kernel; TreeIndex
Explain     draw, report; contributions and top_fragments of models
Scale       DagModel (scores without support trees), Perceptron (for streams),
            DistributedTrees (vectors); dask (a module)
Store       save, load

Results, and what is needed less often, are in modules: solve (KernelMachine),
neighbors, index, dag, drawing, pairs. docs/GUIDE.md answers questions by task.
"""

from typing import TYPE_CHECKING

from treekernel_rs import comparing as comparing
from treekernel_rs import dag as dag
from treekernel_rs import datasets, kernels, readers
from treekernel_rs import drawing as drawing
from treekernel_rs import index as index
from treekernel_rs import metrics as metrics
from treekernel_rs import neighbors as neighbors
from treekernel_rs import nodes as nodes
from treekernel_rs import pairs as pairs
from treekernel_rs import solve as solve
from treekernel_rs._core import Forest, PairForest, ParseError, Tree, __version__
from treekernel_rs._public import listing
from treekernel_rs.comparing import compare
from treekernel_rs.dag import DagModel
from treekernel_rs.distributed import DistributedTrees
from treekernel_rs.drawing import draw
from treekernel_rs.edit import EditDistance
from treekernel_rs.index import TreeIndex
from treekernel_rs.pairs import PairKernel
from treekernel_rs.perceptron import Perceptron
from treekernel_rs.reporting import report
from treekernel_rs.storing import load, save
from treekernel_rs.tree_kernels import (
    ElasticTreeKernel,
    PartialTreeKernel,
    SubpathKernel,
    SubsetTreeKernel,
    SubtreeKernel,
    TreeKernel,
)
from treekernel_rs.tuning import tune_kernel

if TYPE_CHECKING:
    from treekernel_rs import dask as dask
    from treekernel_rs import gaussian_process as gaussian_process
    from treekernel_rs.estimators import (
        DistributedTreeEncoder,
        TreeGram,
        TreeKNeighborsClassifier,
        TreeKNeighborsRegressor,
        TreeKNeighborsTransformer,
        TreeLogisticRegression,
        TreeNystroem,
        TreeOneClassSVM,
        TreePerceptron,
        TreeRanker,
        TreeRidge,
        TreeSVC,
        TreeSVR,
        TreeVectorizer,
    )

__all__ = [
    "DagModel",
    "DistributedTreeEncoder",
    "DistributedTrees",
    "EditDistance",
    "ElasticTreeKernel",
    "Forest",
    "PairForest",
    "PairKernel",
    "ParseError",
    "PartialTreeKernel",
    "Perceptron",
    "SubpathKernel",
    "SubsetTreeKernel",
    "SubtreeKernel",
    "Tree",
    "TreeGram",
    "TreeIndex",
    "TreeKNeighborsClassifier",
    "TreeKNeighborsRegressor",
    "TreeKNeighborsTransformer",
    "TreeKernel",
    "TreeLogisticRegression",
    "TreeNystroem",
    "TreeOneClassSVM",
    "TreePerceptron",
    "TreeRanker",
    "TreeRidge",
    "TreeSVC",
    "TreeSVR",
    "TreeVectorizer",
    "__version__",
    "compare",
    "datasets",
    "draw",
    "kernels",
    "load",
    "readers",
    "report",
    "save",
    "tune_kernel",
]
__dir__ = listing(__all__)


if not TYPE_CHECKING:  # to which a module with `__getattr__` has every name

    def __getattr__(name: str) -> object:
        """Import what needs scikit-learn or Dask when it is used for the first time."""
        import importlib

        is_estimator = name in __all__
        try:
            if name in ("dask", "gaussian_process"):
                return importlib.import_module(f"{__name__}.{name}")
            if is_estimator:
                from treekernel_rs import estimators

                return getattr(estimators, name)
        except ImportError as error:
            if is_estimator:
                return _stand_in(name, error)
            raise AttributeError(str(error), name=name) from error
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg, name=name)


def _stand_in(name: str, error: ImportError) -> type:
    """Make a class that can be imported and listed, and whose use names the extra.

    `hasattr`, `help` and `inspect.getmembers` let no ImportError pass, and
    ``from treekernel_rs import TreeSVC`` would replace an AttributeError by one that does
    not name the extra.
    """
    msg = str(error).replace("treekernel_rs.estimators", name)

    def refuse(*_: object, **__: object) -> None:
        raise ImportError(msg, name=error.name)

    methods = {"__new__": refuse, "__init_subclass__": refuse}
    return type(name, (), {**methods, "__module__": __name__, "__doc__": f"{msg}."})
