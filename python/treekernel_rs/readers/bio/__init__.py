"""Trees of biology: phylogenies, structures of RNA, glycans."""

from treekernel_rs._public import listing
from treekernel_rs.readers.bio._glycans import glycans
from treekernel_rs.readers.bio._phylogenies import clade_label, newick, nexus
from treekernel_rs.readers.bio._rna import dot_bracket

__all__ = ["clade_label", "dot_bracket", "glycans", "newick", "nexus"]
__dir__ = listing(__all__)
