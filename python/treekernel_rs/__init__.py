"""Tree kernels: exact, fast and distributed, over hash-consed forests.

Examples
--------
>>> import treekernel_rs as tk
>>> forest = tk.Forest.from_brackets(["(S (A a) (B b))", "(S (A a) (B c))"])
>>> tk.SubsetTreeKernel(0.4)(forest).round(3)
array([[1.584, 0.96 ],
       [0.96 , 1.584]])
"""

import importlib
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
from treekernel_rs.algebra import (
    Gaussian,
    Normalized,
    Polynomial,
    PowerKernel,
    ProductKernel,
    ScaledKernel,
    SumKernel,
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
from treekernel_rs.index import IndexRows, TreeIndex
from treekernel_rs.kernels import (
    ElasticTreeKernel,
    PartialTreeKernel,
    SubpathKernel,
    SubsetTreeKernel,
    SubtreeKernel,
    kernel_from_json,
)
from treekernel_rs.neighbors import Neighbors, SimilarPairs
from treekernel_rs.pairs import PairKernel
from treekernel_rs.reporting import report
from treekernel_rs.similarity import (
    ComposedSimilarity,
    PairSimilarity,
    VectorSimilarity,
)
from treekernel_rs.solve import KernelMachine
from treekernel_rs.tuning import tune_kernel
from treekernel_rs.views import PreferencePairs, ViewKernel, Views
from treekernel_rs.weights import Idf, LearnedWeights

if TYPE_CHECKING:
    from treekernel_rs import dask as dask
    from treekernel_rs import gaussian_process as gaussian_process
    from treekernel_rs.estimators import (
        DistributedTreeEncoder as DistributedTreeEncoder,
    )
    from treekernel_rs.estimators import TreeGram as TreeGram
    from treekernel_rs.estimators import (
        TreeKNeighborsClassifier as TreeKNeighborsClassifier,
    )
    from treekernel_rs.estimators import (
        TreeKNeighborsRegressor as TreeKNeighborsRegressor,
    )
    from treekernel_rs.estimators import (
        TreeNeighborsTransformer as TreeNeighborsTransformer,
    )
    from treekernel_rs.estimators import TreePerceptron as TreePerceptron
    from treekernel_rs.estimators import TreeSVC as TreeSVC
    from treekernel_rs.features import TreeNystroem as TreeNystroem
    from treekernel_rs.features import TreeVectorizer as TreeVectorizer
    from treekernel_rs.machines import TreeLogistic as TreeLogistic
    from treekernel_rs.machines import TreeOneClass as TreeOneClass
    from treekernel_rs.machines import TreeRanker as TreeRanker
    from treekernel_rs.machines import TreeRidge as TreeRidge
    from treekernel_rs.machines import TreeSVR as TreeSVR

# Not in __all__: they need scikit-learn, and `import *` should not.
_ESTIMATORS = (
    "DistributedTreeEncoder",
    "TreeGram",
    "TreeKNeighborsClassifier",
    "TreeKNeighborsRegressor",
    "TreeLogistic",
    "TreeNeighborsTransformer",
    "TreeNystroem",
    "TreeOneClass",
    "TreePerceptron",
    "TreeRanker",
    "TreeRidge",
    "TreeSVC",
    "TreeSVR",
    "TreeVectorizer",
)

__all__ = [
    "ComposedSimilarity",
    "ConstraintLimitError",
    "DagModel",
    "DistributedTrees",
    "Drawing",
    "ElasticTreeKernel",
    "Forest",
    "Fragment",
    "Gaussian",
    "Idf",
    "IndexRows",
    "KernelMachine",
    "KernelRows",
    "LearnedWeights",
    "Neighbors",
    "Normalized",
    "Pair",
    "PairForest",
    "PairKernel",
    "PairSimilarity",
    "ParseError",
    "PartialTreeKernel",
    "Perceptron",
    "Polynomial",
    "PolynomialKernel",
    "PowerKernel",
    "PreferencePairs",
    "ProductKernel",
    "ScaledKernel",
    "SimilarPairs",
    "SubpathKernel",
    "SubsetTreeKernel",
    "SubtreeKernel",
    "SumKernel",
    "Tree",
    "TreeIndex",
    "VectorSimilarity",
    "ViewKernel",
    "Views",
    "__version__",
    "datasets",
    "draw",
    "draw_gram",
    "kernel_from_json",
    "one_vs_one_dual_coef",
    "readers",
    "report",
    "tune_kernel",
]


if not TYPE_CHECKING:  # to which a module with `__getattr__` has every name

    def __getattr__(name: str) -> Any:
        """Import the estimators, and what needs Dask, when they are asked for."""
        try:
            if name in ("dask", "gaussian_process"):
                return importlib.import_module(f"{__name__}.{name}")
            if name in _ESTIMATORS:
                from treekernel_rs import estimators, features, machines

                homes = (estimators, features, machines)
                home = next(home for home in homes if name in home.__all__)
                return getattr(home, name)
        except ImportError as error:
            if name in _ESTIMATORS:
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

    def refuse(*_: object, **__: object) -> Any:
        raise ImportError(msg, name=error.name)

    methods = {"__new__": refuse, "__init_subclass__": refuse}
    return type(name, (), {**methods, "__module__": __name__, "__doc__": f"{msg}."})


def __dir__() -> list[str]:
    return sorted({*globals(), *_ESTIMATORS, "gaussian_process"})
