"""Readers of the file formats in which tree data sets come.

A reader takes a path, an open file, or several of them; or a text as ``text=``. It returns
a `Reading`: the forest, with names, places and classes of its trees. `svmlight_tk` reads
SVM-Light-TK's examples, `klp` KeLP's, `penn` treebanks; the others read what parsers and
fields of science have: `conllu`, `python_ast`, `tree_sitter`, `xml`, `html`, `json`, `sql`,
`newick`, `nexus`, `dot_bracket` and `glycans`. `word_vectors` reads what similarities of
labels are made of. All read plain and gzip files, and an error says where in the file it is.
`write_svmlight_tk` writes what `svmlight_tk` reads.
"""

from treekernel_rs._public import listing
from treekernel_rs.readers._code import python_ast, tree_sitter
from treekernel_rs.readers._conllu import conllu
from treekernel_rs.readers._documents import html, json, sql, xml
from treekernel_rs.readers._kelp import KlpReading, klp
from treekernel_rs.readers._penn import penn
from treekernel_rs.readers._reading import Reading
from treekernel_rs.readers._sparse import SparseRows
from treekernel_rs.readers._svmlight import SvmLightReading, svmlight_tk
from treekernel_rs.readers._vectors import word_vectors
from treekernel_rs.readers._write import write_svmlight_tk
from treekernel_rs.readers.bio import dot_bracket, glycans, newick, nexus

__all__ = [
    "KlpReading",
    "Reading",
    "SparseRows",
    "SvmLightReading",
    "conllu",
    "dot_bracket",
    "glycans",
    "html",
    "json",
    "klp",
    "newick",
    "nexus",
    "penn",
    "python_ast",
    "sql",
    "svmlight_tk",
    "tree_sitter",
    "word_vectors",
    "write_svmlight_tk",
    "xml",
]
__dir__ = listing(__all__)
