"""All kernels, and what they are made of.

`treekernel_rs` itself has the tree kernels and `PairKernel`. Here are the others: kernels
made of kernels, which operators such as ``+`` and ``*`` make as well; kernels of views and
of vectors; similarities and weights of labels.
"""

from treekernel_rs._parameters import kernel_from_json
from treekernel_rs._public import listing
from treekernel_rs.algebra import (
    Gaussian,
    Polynomial,
    PowerKernel,
    ProductKernel,
    ScaledKernel,
    SumKernel,
)
from treekernel_rs.pairs import PairKernel
from treekernel_rs.similarity import (
    ComposedSimilarity,
    TableSimilarity,
    VectorSimilarity,
)
from treekernel_rs.tree_kernels import (
    ElasticTreeKernel,
    PartialTreeKernel,
    SubpathKernel,
    SubsetTreeKernel,
    SubtreeKernel,
    TreeKernel,
)
from treekernel_rs.vectors import VectorPolynomial
from treekernel_rs.view_kernels import PreferenceKernel, ViewKernel
from treekernel_rs.views import Views
from treekernel_rs.weights import Idf, LearnedWeights

__all__ = [
    "ComposedSimilarity",
    "ElasticTreeKernel",
    "Gaussian",
    "Idf",
    "LearnedWeights",
    "PairKernel",
    "PartialTreeKernel",
    "Polynomial",
    "PowerKernel",
    "PreferenceKernel",
    "ProductKernel",
    "ScaledKernel",
    "SubpathKernel",
    "SubsetTreeKernel",
    "SubtreeKernel",
    "SumKernel",
    "TableSimilarity",
    "TreeKernel",
    "VectorPolynomial",
    "VectorSimilarity",
    "ViewKernel",
    "Views",
    "kernel_from_json",
]
__dir__ = listing(__all__)
