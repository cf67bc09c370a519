"""Tree kernels: exact, fast and distributed, over hash-consed forests.

Examples
--------
>>> import treekernel_rs as tk
>>> forest = tk.Forest.from_brackets(["(S (NP dogs) (VP bark))", "(S (NP cats) (VP bark))"])
>>> forest.n_distinct
8
"""

from treekernel_rs import datasets
from treekernel_rs._core import Forest, ParseError, Tree, __version__

__all__ = ["Forest", "ParseError", "Tree", "__version__", "datasets"]
