"""Beyond one machine: matrices, neighbours, vectors and models by Dask.

Each function here makes a graph of ordinary calls of this package, over *partitions*: parts
of a corpus, each of them a `Forest` on some worker. A cluster, or the cores of this machine,
computes it when Dask is asked to. Needs the extra ``dask``.

Trees are given in one of two ways, everywhere:

* as a `Forest` or a list of bracketed str, which is cut into parts of `chunks` trees and sent
  to the workers as arrays in which equal subtrees stand once;
* as partitions: a list of `dask.delayed.Delayed`, or what has ``to_delayed`` (a bag or a
  column of a data frame), each of trees. They never pass through this process. Without
  `chunks` they are counted first, which computes them.

What is promised: `encode` and `vectorize` give the bits that one machine gives, whatever the
partitions, the workers, and workers that are lost. Kernels are those of one machine to 1e-12 of
the value, as their last bits depend on the list that a tree stands in: in float32 they have the
same bits, but for a value that stands within 1e-12 of the middle between two floats. So of
neighbours whose values agree to 1e-12 the lower index is first, and a pair whose value is that near
to `min_similarity` may be in or out. Models depend on the partitions, whose order they are merged
in. The same partitions give the same bits on every number of workers.

See docs/SCALING.md.
"""

from treekernel_rs._extras import needs
from treekernel_rs._public import listing

with needs(__name__, "Dask", "dask"):
    from treekernel_rs.dask._matrices import NpyFile, gram
    from treekernel_rs.dask._models import Mixture, Solution, fit_perceptron, fit_svm
    from treekernel_rs.dask._neighbors import join, top_k
    from treekernel_rs.dask._vectors import encode, vectorize

__all__ = [
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
