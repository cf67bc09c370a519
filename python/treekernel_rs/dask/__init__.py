"""Beyond one machine: matrices, neighbours, vectors and models by Dask.

Each function here makes a graph of ordinary calls of this package, over *partitions*: parts
of a corpus, each of them a `Forest` on some worker. ``compute`` of a result runs the graph, on
a cluster or on the cores of this machine. Needs the extra ``dask``.

Every function takes trees in one of two forms:

* a `Forest` or a list of bracketed str, which is cut into parts of `chunks` trees and sent
  to the workers as arrays that store equal subtrees once;
* partitions: a list of `dask.delayed.Delayed`, or an object with ``to_delayed`` (a bag or a
  column of a data frame), each of trees. They never pass through this process. Without
  `chunks` they are counted first, which computes them.

`encode` and `vectorize` give the bits of one machine, for any partitions and workers, even if
workers are lost. Kernels agree with those of one machine to 1e-12 of the value, because their
last bits depend on the other trees of a partition. In float32 they have the same bits, except
where a value is within 1e-12 of the middle between two floats. So if the values of two
neighbours agree to 1e-12, the lower index is first, and a pair whose value is that near to
`min_similarity` may be in or out. Models are merged in the order of the partitions and depend on
them. The same partitions give the same bits for any number of workers.

See docs/SCALING.md.
"""

from treekernel_rs._extras import needs
from treekernel_rs._public import listing

with needs(__name__, "Dask", "dask"):
    from treekernel_rs.dask._matrices import NpyFile, gram
    from treekernel_rs.dask._models import Mixture, Solution, fit_perceptron, fit_svm
    from treekernel_rs.dask._neighbors import LazyNeighbors, join, top_k
    from treekernel_rs.dask._vectors import encode, vectorize

__all__ = [
    "LazyNeighbors",
    "Mixture",
    "NpyFile",
    "Solution",
    "encode",
    "fit_perceptron",
    "fit_svm",
    "gram",
    "join",
    "top_k",
    "vectorize",
]
__dir__ = listing(__all__)
