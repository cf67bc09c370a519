"""Tables are scored by TEDS, code by TSED, phylogenies compared by Robinson-Foulds.

docs/METRICS.md has the definitions, their edge cases, and what published programs do.
"""

from __future__ import annotations

import re
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from treekernel_rs import _core
from treekernel_rs._arguments import check_flag, check_jobs, progress_callback
from treekernel_rs._core import Forest, Tree, as_forest
from treekernel_rs._extras import needed
from treekernel_rs._public import listing
from treekernel_rs._wording import plural
from treekernel_rs.edit import EditDistance
from treekernel_rs.readers import newick, tree_sitter
from treekernel_rs.readers._documents import html_root
from treekernel_rs.readers._reading import Collector, Reading, Table, choice

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from treekernel_rs._arguments import Progress, Trees
    from treekernel_rs.readers._source import Texts

__all__ = ["robinson_foulds", "table_trees", "teds", "tsed"]
__dir__ = listing(__all__)

#: Of a cell's label: the start tag, with its spans.
_HEAD = re.compile("<[^>]*>")
_START_TAG = re.compile("<(?!/)")


def teds(
    predicted: Texts | Trees | Tree,
    true: Texts | Trees | Tree,
    *,
    structure_only: bool = False,
    size: str = "tree",
    errors: str = "raise",
    n_jobs: int | None = None,
) -> Any:  # a float, or an array of them
    """Score predicted tables by TEDS, the similarity by tree edit distance of PubTabNet.

    1 is a table like the true one, and the score falls by the edits that make them equal,
    divided by the size of the larger one (Zhong, ShafieiBavani & Jimeno Yepes, "Image-based
    table recognition", ECCV 2020). Inserting and deleting a node cost 1; so does replacing
    one by a node with another tag, rowspan or colspan. Two cells ``td`` with equal spans
    cost the string edit distance of what they hold, divided by the length of the longer one,
    where a tag counts as one character.

    Parameters
    ----------
    predicted, true : str, Tree, Forest, or list of str or Tree
        HTML, whose first table is taken; or trees of `table_trees`. Several tables are scored
        one by one, so there must be as many of both.
    structure_only : bool, default False
        Leave out what cells hold: TEDS-struct, or S-TEDS.
    size : {"tree", "elements"}, default "tree"
        What distances are divided by: the nodes of the larger tree, as the package
        table-recognition-metric does, or the elements below ``table``, with those inside
        cells, as PubTabNet's program does.
    errors : {"raise", "zero"}, default "raise"
        "zero": a text without a table, or with a span that is no number, scores 0.
    n_jobs : int, optional
        Threads; by default and for -1 all cores.

    Returns
    -------
    float, or ndarray of float64, shape (number of tables,)
        One score for one table each, else an array. An empty text scores 0.

    Raises
    ------
    ParseError
        With item, line, column, what was expected and what was found.
    ValueError
        If there are no tables, or the numbers of tables differ.
    ImportError
        If lxml is not installed (extra `web`), and HTML is given.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> true = "<table><tr><td>Year</td><td>2020</td></tr></table>"
    >>> predicted = "<table><tr><td>Year</td><td>2o2o</td></tr></table>"
    >>> tk.metrics.teds(predicted, true)  # doctest: +SKIP
    0.875
    >>> tk.metrics.teds(predicted, true, structure_only=True)  # doctest: +SKIP
    1.0
    """
    choice("size", size, "tree", "elements")
    choice("errors", errors, "raise", "zero")

    def read(tables: Any) -> Reading:
        return _read_tables(tables, "skip" if errors == "zero" else "raise")

    sides = _sides(predicted, true, read, "table")
    forests = [side.trees for side in sides.both]
    sizes = [
        _elements(trees) if size == "elements" else trees.n_nodes for trees in forests
    ]
    if structure_only:
        forests = [trees.relabel(_head) for trees in forests]
    distances = EditDistance("cells").pairs(forests[0], forests[1], n_jobs=n_jobs)
    return sides.scores(1.0 - distances / np.maximum(np.maximum(*sizes), 1))


def table_trees(tables: Texts) -> Forest:
    r"""Read tables as the trees that `teds` compares.

    Nodes are the elements below ``table``, named by their tags. A cell ``td`` is a leaf,
    whose label is its start tag, with its spans if they are not 1, and what it holds: text
    and tags, in which ``&`` and ``<`` of the text are ``&amp;`` and ``&lt;``. With these
    labels, ``EditDistance("cells")`` is the distance of TEDS, also for matrices, nearest
    tables and mappings.

    Parameters
    ----------
    tables : str, bytes or iterable of these
        HTML, of which the first table is read.

    Returns
    -------
    Forest
        A tree for each text.

    Raises
    ------
    ParseError, ImportError
        As in `teds`. An empty text is an error, too.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> table = "<table><tr><td colspan=2>a <b>x</b></td><td>1 &lt; 2</td></tr></table>"
    >>> trees = tk.metrics.table_trees(table)  # doctest: +SKIP
    >>> str(trees[0])  # doctest: +SKIP
    '(table (tr <td\\ colspan=2>a\\ <b>x</b> <td>1\\ &lt;\\ 2))'
    """
    reading = _read_tables(tables, "raise")
    if reading.skipped:
        raise reading.skipped[0]
    return reading.forest


def tsed(
    predicted: Texts | Trees | Tree,
    true: Texts | Trees | Tree,
    language: Any = None,
    *,
    rename: float = 1,
    insert: float = 1,
    delete: float = 1,
    errors: str = "raise",
    n_jobs: int | None = None,
) -> Any:  # a float, or an array of them
    """Score predicted code by TSED, the similarity by edit distance of syntax trees.

    1 - d / n, but not below 0, with the edit distance d of the two syntax trees and the
    nodes n of the larger one (Song, Lothritz, Tang, Bissyandé & Klein, "Revisiting code
    similarity evaluation with abstract syntax tree edit distance", ACL 2024). Nodes are those
    that the grammar names, by their types: names, literals and comments make no difference.

    Parameters
    ----------
    predicted, true : str, Tree, Forest, or list of str or Tree
        Code; several texts are scored one by one, so there must be as many of both. Without
        `language`, trees: a `Forest` of any reader, or bracketed text.
    language : tree_sitter.Language or str, optional
        The grammar, as in `readers.tree_sitter`.
    rename, insert, delete : float, default 1
        The costs, as in `EditDistance`. The paper recommends 0.8 for inserting.
    errors : {"raise", "zero"}, default "raise"
        "zero": code that the grammar does not allow scores 0.
    n_jobs : int, optional
        Threads; by default and for -1 all cores.

    Returns
    -------
    float, or ndarray of float64, shape (number of trees,)
        One score for one text each, else an array.

    Raises
    ------
    ParseError
        With item, line, column, what was expected and what was found.
    ValueError
        If there is no code, or the numbers of texts differ.
    ImportError
        If tree-sitter or the grammar is not installed (extra `code`).

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> true, predicted = "int x = 1 + y;", "int x = y;"
    >>> tk.metrics.tsed(predicted, true, "java")  # doctest: +SKIP
    0.75
    >>> tk.metrics.tsed("(a (b) (c))", "(a (b))")
    0.6666666666666667
    """
    choice("errors", errors, "raise", "zero")

    def read(code: Any) -> Reading:
        return tree_sitter(
            text=code,
            language=language,
            identifiers="blank",
            errors="skip" if errors == "zero" else "raise",
        )

    sides = _sides(predicted, true, None if language is None else read, "tree")
    forests = [side.trees for side in sides.both]
    distance = EditDistance(rename, insert, delete)
    distances = distance.pairs(forests[0], forests[1], n_jobs=n_jobs)
    sizes = np.maximum(*(trees.n_nodes for trees in forests))
    return sides.scores(np.maximum(1.0 - distances / sizes, 0.0))


def robinson_foulds(
    X: Texts | Trees | Tree,
    Y: Texts | Trees | Tree | None = None,
    *,
    rooted: bool = False,
    weighted: bool = False,
    normalize: bool = False,
    n_jobs: int | None = None,
    progress: Progress | bool | None = None,
) -> Any:  # a float, or an array of them
    """Compare phylogenies by their Robinson-Foulds distances.

    A branch of an unrooted tree splits its taxa in two; a node of a rooted tree has a clade
    below it. The distance is the number of splits, or clades, of one tree that the other has
    not (Robinson & Foulds, "Comparison of phylogenetic trees", Mathematical Biosciences 1981).

    Parameters
    ----------
    X, Y : str, Tree, or several of them
        Trees in Newick notation, one in each text; or trees whose leaves are taxa, in a
        `Forest` as `readers.newick` and `readers.nexus` return it. The order of children
        makes no difference. Without Y, the trees of X are compared with each other.
    rooted : bool, default False
        Compare clades, and not splits.
    weighted : bool, default False
        Add up by how much the branches above differ in length, of single taxa too, in
        place of counting; a branch that a tree does not have has length 0. The labels of a
        `Forest` have to have lengths: ``readers.newick(..., lengths="keep")``.
    normalize : bool, default False
        Divide by the largest possible distance: the number of splits or clades of both
        trees, or their total length.
    n_jobs : int, optional
        Threads; by default and for -1 all cores.
    progress : callable or True, optional
        Called as progress(done, total), in rows; True shows a bar.

    Returns
    -------
    float, or ndarray of float64, shape (len(X), len(Y))
        The distance of one tree X and one tree Y, else a matrix.

    Raises
    ------
    ParseError
        If a text is not one tree; with item, line, column, what was expected and what was
        found.
    ValueError
        If trees have other taxa than the first one, a taxon twice, or no lengths.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> tk.metrics.robinson_foulds("((a,b),(c,d),e);", "((a,c),(b,d),e);")
    4.0
    >>> trees = ["((a:1,b:1):2,c:1,d:1);", "((a:1,c:1):1,b:1,d:2);", "((b,a),d,c);"]
    >>> tk.metrics.robinson_foulds(trees)
    array([[0., 2., 0.],
           [2., 0., 2.],
           [0., 2., 0.]])
    >>> tk.metrics.robinson_foulds(trees[:2], weighted=True)
    array([[0., 4.],
           [4., 0.]])
    """
    options = (
        check_flag(rooted, "rooted"),
        check_flag(weighted, "weighted"),
        check_flag(normalize),
    )
    x = _phylogenies("X", X, weighted)
    y = None if Y is None else _phylogenies("Y", Y, weighted)
    _check_taxa(x, y, weighted)
    run = check_jobs(n_jobs), progress_callback(progress, "robinson_foulds")
    matrix, _ = _core.robinson_foulds(x, y, np.dtype(np.float64), options, *run)
    return float(matrix[0, 0]) if _is_one(X) and _is_one(Y) else matrix


def _phylogenies(name: str, given: Any, weighted: bool) -> Forest:
    given = _listed(name, given)
    first = given[0] if isinstance(given, list) and given else given
    if isinstance(first, Forest | Tree):
        return as_forest([given] if isinstance(given, Tree) else given)
    reading = newick(text=given, lengths="keep" if weighted else None)
    texts = [given] if isinstance(given, str | bytes) else given
    if len(reading) != len(texts):
        msg = (
            f"expected one tree in each of {len(texts)} texts, got {len(reading)}: for a "
            "text of several, pass readers.newick(text=...).forest"
        )
        raise ValueError(msg)
    return reading.forest


def _check_taxa(x: Forest, y: Forest | None, weighted: bool) -> None:
    """Refuse trees with other taxa than the first, and with a taxon twice."""
    trees = x if y is None else x + y
    arrays = trees.to_arrays()
    labels, parents, offsets = (arrays[k] for k in ("labels", "parents", "offsets"))
    is_leaf = np.ones(len(labels), bool)
    is_leaf[parents[parents >= 0]] = False
    # Labels without their lengths, numbered.
    names = [_taxon(label) if weighted else label for label in trees.labels]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    taxa = np.array([numbers[name] for name in names], np.int64)[labels[is_leaf]]
    n_taxa = np.diff(np.concatenate([[0], np.cumsum(is_leaf)])[offsets])
    tree = np.repeat(np.arange(len(trees)), n_taxa)
    taxa = taxa[np.lexsort((taxa, tree))]
    ends = np.cumsum(n_taxa)
    known = list(numbers)
    first = taxa[: ends[0]] if len(trees) else taxa
    for number, end in enumerate(ends):
        found = taxa[end - n_taxa[number] : end]
        if number and np.array_equal(found, first):
            continue
        here = f"X[{number}]" if number < len(x) else f"Y[{number - len(x)}]"
        if (twice := found[1:][found[1:] == found[:-1]]).size:
            msg = f"{here}: expected each taxon once, got {known[twice[0]]!r} twice"
            raise ValueError(msg)
        if number and (more := np.setdiff1d(found, first)).size:
            msg = f"{here}: expected the taxa of X[0], got the extra taxon {known[more[0]]!r}"
            raise ValueError(msg)
        if number and (fewer := np.setdiff1d(first, found)).size:
            msg = f"{here}: expected the taxa of X[0], got none called {known[fewer[0]]!r}"
            raise ValueError(msg)


def _taxon(label: str) -> str:
    return label.rpartition(":")[0] or label


class _Side(NamedTuple):
    """Trees, and which of the items given they are."""

    trees: Forest
    places: NDArray[np.int64]
    n_items: int


class _Sides(NamedTuple):
    """As many trees of both sides, those of the same items."""

    both: tuple[_Side, _Side]
    is_single: bool

    def scores(
        self, scores: NDArray[np.float64]
    ) -> Any:  # a float, or an array of them
        """Return the scores of all items: 0 where one of the trees is not there."""
        side = self.both[0]
        found = np.zeros(side.n_items)
        found[side.places] = scores
        return float(found[0]) if self.is_single else found


def _sides(predicted: Any, true: Any, read: Any, what: str) -> _Sides:
    first, second = _side("predicted", predicted, read), _side("true", true, read)
    if first.n_items == 0:
        msg = f"predicted has no {what}s, expected at least 1"
        raise ValueError(msg)
    if first.n_items != second.n_items:
        given = plural(second.n_items, what)
        msg = f"true has {given}, expected {first.n_items:,}, as predicted"
        raise ValueError(msg)
    shared, i, j = np.intersect1d(
        first.places, second.places, assume_unique=True, return_indices=True
    )
    both = tuple(
        side._replace(trees=side.trees[at, ...], places=shared)
        for side, at in ((first, i), (second, j))
    )
    return _Sides((both[0], both[1]), _is_one(predicted) and _is_one(true))


def _side(name: str, given: Any, read: Any) -> _Side:
    """Read one side by `read`, unless it has trees."""
    given = _listed(name, given)
    first = given[0] if isinstance(given, list) and given else given
    if read is None or isinstance(first, Forest | Tree):
        trees = as_forest([given] if isinstance(given, str | Tree) else given)
        return _Side(trees, np.arange(len(trees)), len(trees))
    reading = read(given)
    skipped = [error.tree for error in reading.skipped]
    n_items = len(reading) + len(skipped)
    return _Side(reading.forest, np.setdiff1d(np.arange(n_items), skipped), n_items)


def _listed(name: str, given: Any) -> Any:
    """Return a text, a tree, a forest, or a list of what is given one by one."""
    if _is_one(given) or isinstance(given, Forest):
        return given
    if hasattr(given, "__iter__"):
        return list(given)
    hint = ""
    if isinstance(given, PathLike):
        hint = ": give the text of the file, or the .forest of a reader"
    elif hasattr(given, "forest"):
        hint = ": give its .forest"
    got = type(given).__name__
    msg = f"{name}: expected texts, a Forest or a list of Tree, got {got}{hint}"
    raise TypeError(msg)


def _is_one(given: Any) -> bool:
    return isinstance(given, Tree | str | bytes)


def _read_tables(tables: Texts, errors: str) -> Reading:
    """Read the first table of each text; empty texts are skipped in any case."""
    etree = needed("HTML", "lxml.etree", "web")
    collector = Collector(None, tables, (), errors=errors)
    table = Table()
    for text in collector.texts(raw=True):
        root, fatal = html_root(etree, text.raw)
        if root is None and not text.raw.strip():
            collector.skipped.append(text.error_at(1, 1, "a table", "an empty text"))
            continue
        if fatal is not None:
            place = fatal.line, fatal.column
            collector.wrong(text.error_at(*place, "HTML", fatal.message))
            continue
        # As published programs do; but they score 0 where a table stands elsewhere.
        found = None if root is None else root.find("body/table")
        if found is None and root is not None:
            found = next(root.iter("table"), None)
        if found is None:
            collector.wrong(text.error_at(1, 1, "a table", "HTML without one"))
            continue
        table.begin()
        try:
            _table_nodes(table, found)
        except _SpanError as error:
            table.forget()
            cell, name, value = error.args
            expected, line = f"a whole number as {name}", cell.sourceline or 1
            collector.wrong(text.error_at(line, 1, expected, repr(value)))
            continue
        collector.add(text)
    return collector.reading(table.forest())


def _table_nodes(table: Table, root: Any) -> None:
    """Append the tree of a table of lxml."""
    todo = [(root, -1)]
    while todo:
        element, parent = todo.pop()
        if element.tag == "td":
            table.node(_cell(element), parent)
            continue
        node = table.node(element.tag, parent)
        todo += [(below, node) for below in reversed(element)]


def _cell(cell: Any) -> str:
    """Return the label of a cell: its start tag, then text and tags."""
    spans = ""
    for name in ("rowspan", "colspan") if cell.attrib else ():
        value = cell.get(name, "1")
        try:
            span = int(value)
        except ValueError:
            raise _SpanError(cell, name, value) from None
        spans += f" {name}={span}" if span != 1 else ""
    written = [f"<td{spans}>", _escaped(cell.text)]
    todo = list(reversed(cell))
    while todo:
        each = todo.pop()
        if isinstance(each, str):
            written.append(each)
            continue
        written += f"<{each.tag}>", _escaped(each.text)
        # PubTabNet's tokens: <unk> stands alone, and nothing follows a cell in a cell.
        end = "" if each.tag == "unk" else f"</{each.tag}>"
        todo += [
            end + ("" if each.tag == "td" else _escaped(each.tail)),
            *reversed(each),
        ]
    return "".join(written)


class _SpanError(Exception):
    """A cell whose span is no number."""


def _escaped(text: str | None) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;") if text else ""


def _head(label: str) -> str:
    """Return what of a label says nothing of the text."""
    found = _HEAD.match(label)
    return found.group() if found else label


def _elements(trees: Forest) -> NDArray[np.int64]:
    """Count the elements below the root of each table, with those inside cells."""
    # Of a cell's label, one start tag is the cell itself.
    inside = [max(len(_START_TAG.findall(label)), 1) for label in trees.labels]
    arrays = trees.to_arrays()
    ends = np.cumsum(np.array([0, *inside])[1:][arrays["labels"]])
    return np.diff(np.concatenate([[0], ends])[arrays["offsets"]]) - 1
