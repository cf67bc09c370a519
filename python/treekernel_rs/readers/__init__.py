"""Readers of the file formats in which tree data sets come.

`svmlight_tk` reads SVM-Light-TK's examples, `klp` KeLP's, `penn` treebanks.
Each reads plain and gzip files, and an error says where in the file it is.
`write_svmlight_tk` writes what `svmlight_tk` reads.
"""

from treekernel_rs.readers._kelp import KlpData, klp
from treekernel_rs.readers._penn import penn
from treekernel_rs.readers._sparse import SparseRows
from treekernel_rs.readers._svmlight import SvmLightData, svmlight_tk
from treekernel_rs.readers._write import write_svmlight_tk

__all__ = [
    "KlpData",
    "SparseRows",
    "SvmLightData",
    "klp",
    "penn",
    "svmlight_tk",
    "write_svmlight_tk",
]
