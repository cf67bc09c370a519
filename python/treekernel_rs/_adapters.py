"""Trees of other packages, recognised by what they are; none is imported here.

`known` answers the native reader, once for each class of objects: None, a pair of what
gives label and children (a callable, or the name of an attribute or method), or a
callable that makes another object of it, a `Tree` or something else that is known.
`several` tells one tree from objects that hold more.

An object becomes the tree that the reader of its format, with its defaults, makes of the
text: what was learned from files applies to objects. Nothing becomes a tree through its
`repr`: what has no place in a format is refused.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from treekernel_rs._core import CodeBuilder, Forest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Access: TypeAlias = "str | Callable[[Any], Any]"
    Known: TypeAlias = "tuple[Access, Access] | Callable[[Any], Any] | None"


def known(cls: type) -> Known:
    """Say how objects of a class are read."""
    for base in cls.__mro__:
        found = _KNOWN.get(f"{base.__module__}.{base.__qualname__}")
        if found is not None:
            # A list with a label is a tree of its own kind, such as nltk's.
            own = base in (list, dict) and hasattr(cls, "label")
            return None if own else found
    return None


def several(given: Any) -> Any:
    """Return what is iterated for the trees of a collection; None for a single tree."""
    _refuse_table(given)
    for base in type(given).__mro__:
        within = _COLLECTIONS.get(f"{base.__module__}.{base.__qualname__}")
        if within is not None:
            return within(given)
    is_known = not isinstance(given, list) and known(type(given)) is not None
    is_one = is_known or hasattr(given, "label") or isinstance(given, Mapping)
    return None if is_one else given


def _refuse_table(given: Any) -> None:
    # Iterated, a table would give its names, examples of several columns, or parts.
    if hasattr(given, "columns") or hasattr(given, "schema"):
        msg = (
            "expected a Forest or a list of bracketed strings, got the table "
            f"{type(given).__name__}; give one of its columns"
        )
        raise TypeError(msg)


def is_column(values: Any) -> bool:
    """Say whether an object gives its strings by Arrow's interface."""
    return hasattr(values, "__arrow_c_stream__") or hasattr(values, "__arrow_c_array__")


def column(values: Any) -> Iterable[str]:
    """Return the strings of a column that Arrow's interface gives."""
    _refuse_table(values)
    if not hasattr(values, "to_pylist"):
        if hasattr(values, "__iter__"):
            return values  # type: ignore[no-any-return]
        import pyarrow

        values = pyarrow.chunked_array(values)
    return values.to_pylist()  # type: ignore[no-any-return]


# --- Documents -----------------------------------------------------------------------


def _element_label(element: Any) -> str:
    # The tag of a comment or an instruction is the function that makes it.
    if not isinstance(element.tag, str):
        msg = f"expected an element of XML, got a {element.tag.__name__.lower()}"
        raise ValueError(msg)
    return _stripped(element.tag)


def _stripped(name: str) -> str:
    return name.rpartition("}")[2]


def _element_children(element: Any) -> list[Any]:
    """Return names of attributes, text and elements, as `readers.xml` has them."""
    below: list[Any] = [f"@{_stripped(key)}" for key in sorted(element.attrib)]
    has_text = _has_text(element.text)
    for child in element:
        if isinstance(child.tag, str):
            below += ["#text", child] if has_text else [child]
            has_text = False
        # Text on both sides of a comment is one text.
        has_text |= _has_text(child.tail)
    return [*below, "#text"] if has_text else below


def _has_text(text: str | None) -> bool:
    return bool(text) and not text.isspace()  # type: ignore[union-attr]


def _of_lxml(element: Any) -> Any:
    """Read an element of lxml: of a page as `readers.html` does, else as `readers.xml`."""
    from treekernel_rs.readers._documents import Elements

    _element_label(element)
    etree = sys.modules["lxml.etree"]
    is_page = isinstance(element.getroottree().parser, etree.HTMLParser)
    elements = Elements("drop", "drop") if is_page else Elements(namespaces="strip")
    elements.walk(etree, element)
    return elements.table.forest()[0]


def _json_children(value: Any) -> list[Any]:
    """Return the trees below a list or a dict of JSON."""
    if isinstance(value, dict):
        return [(_json_key(key), [_json_tree(value[key])]) for key in value]
    return [_json_tree(below) for below in value]


def _json_key(key: Any) -> str:
    if isinstance(key, dict | list):
        raise _not_json(key)
    name: str = _json_tree(key)
    return name


def _json_tree(value: Any) -> Any:
    """Return what stands for a value of JSON."""
    if isinstance(value, dict | list | str):
        return value
    if value is None:
        return "null"
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    # The bare numbers: what a class of its own writes is no JSON.
    if isinstance(value, Integral):
        return repr(int(value))
    if isinstance(value, float | np.floating):
        return repr(float(value))
    raise _not_json(value)


def _not_json(value: object) -> TypeError:
    return TypeError(f"expected a value of JSON, got {type(value).__name__}")


# --- Code ----------------------------------------------------------------------------


@cache
def _ast_class() -> Callable[[type], dict[str, Any]]:
    from treekernel_rs.readers._code import ast_class

    # Remembered: there are few classes, and a million statements may be asked for.
    return cache(ast_class("keep", "type"))


def _of_ast(node: Any) -> Any:
    builder = CodeBuilder(_ast_class())
    builder.push_ast(node)
    return builder.finish()[0]


def _of_tree_sitter(node: Any) -> Any:
    from treekernel_rs.readers._code import symbol

    node = getattr(node, "root_node", node)
    # Bytes outside the node are not looked at.
    source = node.text or b""
    builder = CodeBuilder(symbol("keep", "type"))
    if not builder.push_cursor(node.walk(), b" " * node.start_byte + source):
        msg = f"expected a node of tree-sitter that has a name, got {node.type!r}"
        raise ValueError(msg)
    return builder.finish()[0]


def _libcst_children(node: Any) -> list[Any]:
    # White space and commas are nodes there, too.
    dull = ("Whitespace", "Comma", "Newline", "EmptyLine", "Parenthes")
    leaf = getattr(node, "value", None)
    if isinstance(leaf, str):
        return [leaf]
    return [c for c in node.children if not any(d in type(c).__name__ for d in dull)]


# --- Sentences -----------------------------------------------------------------------


def _sentence(tokens: Iterable[tuple[Any, ...]]) -> Any:
    from treekernel_rs.readers._conllu import Token, dependency_tree

    made = [
        Token(*(value or "_" for value in t[:5]), *t[5:])  # type: ignore[arg-type]
        for t in tokens
    ]
    return dependency_tree(made)


def _of_token_list(tokens: Any) -> Any:
    return _sentence(
        (t["form"], t["lemma"], t["upos"], t["xpos"], t["deprel"], t["id"], t["head"])
        for t in tokens
        if isinstance(t["id"], int)
    )


def _of_token_tree(tree: Any) -> Any:
    flat, todo = [], [tree]
    while todo:
        node = todo.pop()
        flat.append(node.token)
        todo += node.children
    return _of_token_list(sorted(flat, key=lambda token: token["id"]))


def _of_spacy(span: Any) -> Any:
    if span._.has("parse_string"):  # constituents, by benepar
        return Forest.from_brackets([span._.parse_string])[0]
    place = {token.i: at for at, token in enumerate(span, 1)}
    return _sentence(
        (
            *(t.text, t.lemma_, t.pos_, t.tag_, t.dep_),
            *(at, 0 if t.head.i == t.i else place.get(t.head.i, 0)),
        )
        for at, t in enumerate(span, 1)
    )


def _of_stanza(sentence: Any) -> Any:
    if getattr(sentence, "constituency", None) is not None:
        return sentence.constituency
    return _sentence(
        (w.text, w.lemma, w.upos, w.xpos, w.deprel, w.id, w.head)
        for w in sentence.words
    )


# --- Phylogenies ---------------------------------------------------------------------


def _clade(name: Callable[[Any], str | None], children: str) -> Known:
    """Return how a class of nodes is read as `readers.newick` reads them."""

    def label(node: Any) -> str:
        from treekernel_rs.readers.bio import clade_label

        below = getattr(node, children)
        below = below() if callable(below) else below
        return clade_label(name(node) or "", is_leaf=not below)

    return label, children


def _dendropy_name(node: Any) -> str | None:
    taxon = node.taxon
    label: str | None = node.label if taxon is None else taxon.label
    return label


def _clade_name(node: Any) -> str | None:
    name: str | None = node.name
    return name


# --- Graphs and models ---------------------------------------------------------------


def _text(name: Any) -> str:
    if isinstance(name, str):
        return name
    if isinstance(name, Real):
        return str(name)
    msg = f"expected a label that is a str or a number, got {type(name).__name__}"
    raise TypeError(msg)


def _name(node: Any) -> str:
    return _text(node.name)


# These become arrays, which are read several times as fast as objects.


def _preorder(
    root: Any, children: Callable[[Any], Iterable[Any]], n_nodes: int
) -> tuple[list[Any], list[int]]:
    """Return the nodes below a root, `n_nodes` at most, and where each one's parent is."""
    nodes: list[Any] = []
    parents: list[int] = []
    todo, above = [root], [-1]
    while todo and len(nodes) < n_nodes:
        below = list(children(todo[-1]))
        nodes.append(todo.pop())
        parents.append(above.pop())
        todo += reversed(below)
        above += [len(nodes) - 1] * len(below)
    return nodes, parents


def _of_networkx(graph: Any) -> Any:
    """Read a tree whose labels are the attribute `label`, or the nodes themselves."""
    if not graph.is_directed():
        msg = "expected a directed networkx graph, edges from parent to child"
        raise ValueError(msg)
    roots = [node for node, degree in graph.in_degree() if degree == 0]
    n_edges, n_nodes = graph.number_of_edges(), graph.number_of_nodes()
    if len(roots) == 1 and n_edges == n_nodes - 1:
        # All other nodes have one parent: what the root reaches has no cycle.
        nodes, parents = _preorder(roots[0], graph.successors, n_nodes)
        if len(nodes) == n_nodes:
            named = dict(graph.nodes(data="label"))
            labels = [_text(x if named[x] is None else named[x]) for x in nodes]
            return Forest.from_arrays(labels, parents, [0])[0]
    msg = (
        "expected a networkx graph that is one rooted tree, got "
        f"{len(roots)} roots, {n_nodes} nodes and {n_edges} edges"
    )
    raise ValueError(msg)


def _of_decision_tree(model: Any) -> Any:
    """Read a tree: features of splits, with both sides; classes or values of leaves."""
    tree = model.tree_
    names = getattr(model, "feature_names_in_", None)
    classes = getattr(model, "classes_", None)
    values = tree.value[:, 0, :]
    if classes is None or tree.n_outputs > 1:
        labels = [f"{value:.3g}" for value in values[:, 0].tolist()]
    else:
        own = [_text(c) for c in classes.tolist()]
        labels = [own[best] for best in values.argmax(axis=1).tolist()]
    sides = tree.children_left.tolist(), tree.children_right.tolist()
    for node, feature in enumerate(tree.feature.tolist()):
        if sides[0][node] >= 0:
            labels[node] = str(names[feature]) if names is not None else f"x{feature}"

    def children(node: int) -> list[int]:
        return [side[node] for side in sides if side[node] >= 0]

    nodes, parents = _preorder(0, children, len(labels))
    return Forest.from_arrays([labels[node] for node in nodes], parents, [0])[0]


_KNOWN: dict[str, Known] = {
    "ast.AST": _of_ast,
    "_ast.AST": _of_ast,
    "tree_sitter.Tree": _of_tree_sitter,
    "tree_sitter.Node": _of_tree_sitter,
    "libcst._nodes.base.CSTNode": (lambda node: type(node).__name__, _libcst_children),
    "xml.etree.ElementTree.Element": (_element_label, _element_children),
    "xml.etree.ElementTree.ElementTree": lambda tree: tree.getroot(),
    "lxml.etree._Element": _of_lxml,
    "lxml.etree._ElementTree": lambda tree: tree.getroot(),
    "builtins.dict": (lambda _: "object", _json_children),
    "builtins.list": (lambda _: "array", _json_children),
    "conllu.models.TokenList": _of_token_list,
    "conllu.models.TokenTree": _of_token_tree,
    "spacy.tokens.doc.Doc": _of_spacy,
    "spacy.tokens.span.Span": _of_spacy,
    "stanza.models.common.doc.Sentence": _of_stanza,
    "dendropy.datamodel.treemodel._node.Node": _clade(_dendropy_name, "child_nodes"),
    "dendropy.datamodel.treemodel._tree.Tree": lambda tree: tree.seed_node,
    "Bio.Phylo.BaseTree.Tree": lambda tree: tree.root,
    "Bio.Phylo.BaseTree.Clade": _clade(_clade_name, "clades"),
    "skbio.tree._tree.TreeNode": _clade(_clade_name, "children"),
    "ete3.coretype.tree.TreeNode": _clade(_clade_name, "children"),
    "ete4.core.tree.Tree": _clade(_clade_name, "children"),
    "networkx.classes.graph.Graph": _of_networkx,
    "anytree.node.nodemixin.NodeMixin": (_name, "children"),
    "bigtree.node.basenode.BaseNode": (_name, "children"),
    "sklearn.tree._classes.BaseDecisionTree": _of_decision_tree,
}

_COLLECTIONS: dict[str, Callable[[Any], Any]] = {
    "dendropy.datamodel.treecollectionmodel.TreeList": iter,
    "stanza.models.common.doc.Document": lambda document: document.sentences,
}
