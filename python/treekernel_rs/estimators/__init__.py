"""Estimators for scikit-learn: trees as X, wherever scikit-learn takes an X.

X is a `Forest`, or a list, array, series or column with one bracketed string per tree. None,
NaN and empty strings raise an error that names the first of them: drop these rows, or fill
them with a tree such as ``(none)``. A Forest is better for searches and cross-validation,
because it is parsed only once and is passed to other processes as arrays. Strings are parsed
at every call, which takes a small part of the time of a fit.

Needs the extra ``sklearn``.
"""

from treekernel_rs._extras import SKLEARN, needs
from treekernel_rs._public import listing

with needs(__name__, SKLEARN, "sklearn"):
    from treekernel_rs.estimators._encoder import DistributedTreeEncoder
    from treekernel_rs.estimators._features import TreeNystroem, TreeVectorizer
    from treekernel_rs.estimators._gram import TreeGram
    from treekernel_rs.estimators._linear import TreeLogisticRegression, TreeRidge
    from treekernel_rs.estimators._neighbors import (
        TreeKNeighborsClassifier,
        TreeKNeighborsRegressor,
        TreeKNeighborsTransformer,
    )
    from treekernel_rs.estimators._perceptron import TreePerceptron
    from treekernel_rs.estimators._ranking import TreeRanker
    from treekernel_rs.estimators._svm import TreeOneClassSVM, TreeSVC, TreeSVR

__all__ = [
    "DistributedTreeEncoder",
    "TreeGram",
    "TreeKNeighborsClassifier",
    "TreeKNeighborsRegressor",
    "TreeKNeighborsTransformer",
    "TreeLogisticRegression",
    "TreeNystroem",
    "TreeOneClassSVM",
    "TreePerceptron",
    "TreeRanker",
    "TreeRidge",
    "TreeSVC",
    "TreeSVR",
    "TreeVectorizer",
]
__dir__ = listing(__all__)
