"""Documents: XML by expat, HTML by lxml, JSON by the library's parser, SQL by sqlglot."""

from __future__ import annotations

import json as _json
import re
from typing import TYPE_CHECKING, Any
from xml.parsers import expat

import numpy as np

from treekernel_rs._extras import needed
from treekernel_rs.readers._reading import (
    SHAPES,
    Collector,
    Reading,
    Table,
    choice,
    numbered,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from treekernel_rs._core import ParseError
    from treekernel_rs.readers._reading import Progress, Text
    from treekernel_rs.readers._source import Source, Texts

_ATTRIBUTES = ("drop", "names", "keep")
_TEXT = ("drop", "blank", "tokens", "keep")


class Elements:
    """A table of elements, while a document goes by."""

    def __init__(
        self,
        attributes: str | Iterable[str] = "names",
        text_nodes: str = "blank",
        element: str | None = None,
        namespaces: str = "keep",
        *,
        node_spans: bool = False,
    ) -> None:
        if isinstance(attributes, str):
            choice("attributes", attributes, *_ATTRIBUTES)
        else:
            attributes = frozenset(attributes)
        choice("text_nodes", text_nodes, *_TEXT)
        choice("namespaces", namespaces, "strip", "keep")
        self.table = Table()
        self.attributes, self.element = attributes, element
        self.text_nodes = text_nodes
        self.strips = namespaces == "strip"
        self.path: list[int] = []
        self.waiting: list[str] = []
        self.outside = 0
        self.spans: list[list[int]] = []
        self.names: list[str] = []
        # Of each node, if wanted: its element, whose first and last line it has.
        self.keeps_lines = node_spans
        self.elements: list[int] = []
        self.lines: list[list[int]] = []

    def mark(self) -> int:
        """Return what `back` takes: how many trees there are."""
        self.path.clear()
        self.waiting.clear()
        self.outside = 0
        self.spans.clear()
        self.names.clear()
        return len(self.table.offsets)

    def back(self, mark: int) -> None:
        """Take back all trees since a mark."""
        while len(self.table.offsets) > mark:
            self.table.forget()
        del self.lines[len(self.table.labels) :], self.elements[len(self.lines) :]

    def name(self, name: str) -> str:
        """Return a name as it is wanted; expat and lxml write namespaces differently."""
        return name.rpartition("}")[2] if self.strips else name

    def start(self, tag: str, attributes: dict[str, str], line: int) -> None:
        """Open an element."""
        self.flush()
        tag = self.name(tag)
        if not self.path:
            if self.element is not None and tag != self.element:
                self.outside += 1
                return
            self.table.begin()
            self.spans.append([line, line])
            named = (attributes.get(key) for key in ("id", "name"))
            self.names.append(next(filter(None, named), ""))
        node = self.table.node(tag, self.path[-1] if self.path else -1)
        self.path.append(node)
        self.placed(node, line)
        if self.attributes == "drop":
            return
        for key, value in sorted(attributes.items()):
            key = self.name(key)
            if not isinstance(self.attributes, str) and key not in self.attributes:
                continue
            at = self.table.node(f"@{key}", node)
            self.placed(node, line)
            if self.attributes != "names":
                self.table.node(value, at)
                self.placed(node, line)

    def end(self, line: int) -> None:
        """Close an element."""
        self.flush()
        if not self.path:
            self.outside -= 1
            return
        node = self.path.pop()
        if self.keeps_lines:
            last = self.lines[node][1] = max(self.lines[node][1], line)
            if self.path:
                above = self.lines[self.path[-1]]
                above[1] = max(above[1], last)
        if not self.path:
            self.spans[-1][1] = line

    def text(self, text: str | None) -> None:
        """Take a piece of text."""
        if text and self.path and self.text_nodes != "drop":
            self.waiting.append(text)

    def flush(self) -> None:
        """Append the text that has come."""
        if not self.waiting:
            return
        words = "".join(self.waiting).split()
        self.waiting.clear()
        if not words:
            return
        if self.text_nodes == "blank":
            words = ["#text"]
        elif self.text_nodes == "keep":
            words = [" ".join(words)]
        for word in words:
            self.table.node(word, self.path[-1])
            self.placed(self.path[-1], 0)

    def placed(self, element: int, line: int) -> None:
        """Keep what is known of the place of the node that was appended last."""
        if self.keeps_lines:
            self.elements.append(element)
            self.lines.append([line, line])

    def node_spans(self) -> NDArray[np.int64] | None:
        """Return the lines of all nodes."""
        if not self.keeps_lines:
            return None
        lines = np.array(self.lines, dtype=np.int64).reshape(-1, 2)
        return lines[np.array(self.elements, dtype=np.int64)]

    def walk(self, etree: Any, root: Any) -> None:
        """Take an element of lxml and all below."""
        for event, node in etree.iterwalk(root, ("start", "end", "comment", "pi")):
            if event == "start":
                found = {str(k): str(v) for k, v in node.attrib.items()}
                self.start(str(node.tag), found, node.sourceline or 0)
                self.text(node.text)
                continue
            if event == "end":
                self.end(node.sourceline or 0)
            self.text(node.tail)

    def keep(self, text: Text, collector: Collector) -> None:
        """Tell the collector of the trees of a document."""
        for name, (first, last) in zip(self.names, self.spans, strict=True):
            collector.add(text, name, (first, last))


def xml(
    source: Source = None,
    *,
    text: Texts = None,
    attributes: str | Iterable[str] = "names",
    text_nodes: str = "blank",
    element: str | None = None,
    namespaces: str = "strip",
    shape: str = "as_is",
    node_spans: bool = False,
    errors: str = "raise",
    progress: Progress = None,
) -> Reading:
    r"""Read XML documents: elements, attributes and text as nodes.

    Parameters
    ----------
    source : path, open file or iterable of these, optional
        Paths may also be directories (``*.xml``) and patterns; files may be gzipped.
        The encoding is the one that a document names.
    text : str, bytes or iterable of these, optional
        The text itself, in place of `source`.
    attributes : {"drop", "names", "keep"} or iterable of str, default "names"
        Attributes as first children ``@name``, sorted, without or with their value
        below; or those with the given names, with their value.
    text_nodes : {"drop", "blank", "tokens", "keep"}, default "blank"
        Text as a leaf ``#text``, a leaf for each word, or one leaf.
    element : str, optional
        A tag: one tree for each element with it that is in no other. By default a
        document is a tree.
    namespaces : {"strip", "keep"}, default "strip"
        ``title``, or ``{http://purl.org/dc/elements/1.1/}title``.
    shape : {"as_is", "chain"}, default "as_is"
        "chain" makes chains of the children of all nodes, as `Forest.binarize` does.
    node_spans : bool, default False
        Keep the lines of each node. Attributes and texts have those of their element.
    errors : {"raise", "skip"}, default "raise"
        "skip" leaves out the documents that are not well-formed, and lists why.
    progress : callable or True, optional
        Called as progress(done, total), in texts; True shows a bar.

    Returns
    -------
    Reading
        `names` are the attributes ``id`` or ``name`` of the roots.

    Raises
    ------
    ParseError
        With file, line, column, what was expected and what was found.

    Notes
    -----
    Comments and instructions are dropped. External entities are not loaded.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> text = '<ul class="x"><li>one two</li><li/></ul>'
    >>> str(tk.readers.xml(text=text).forest[0])
    '(ul @class (li #text) li)'
    >>> str(tk.readers.xml(text=text, attributes="keep", text_nodes="tokens").forest[0])
    '(ul (@class x) (li one two) li)'
    >>> tk.readers.xml(text=text, element="li", text_nodes="keep").forest.to_brackets()
    ['(li one\\ two)', '(li)']
    """
    choice("shape", shape, *SHAPES)
    elements = Elements(
        attributes, text_nodes, element, namespaces, node_spans=node_spans
    )
    collector = Collector(source, text, (".xml",), errors=errors, progress=progress)
    for each in collector.texts(raw=True):
        mark = elements.mark()
        parser = expat.ParserCreate(namespace_separator="}")
        parser.buffer_text = True

        def start(tag: str, found: dict[str, str], parser: Any = parser) -> None:
            found = {_clark(key): value for key, value in found.items()}
            elements.start(_clark(tag), found, parser.CurrentLineNumber)

        def end(_: str, parser: Any = parser) -> None:
            elements.end(parser.CurrentLineNumber)

        parser.StartElementHandler = start
        parser.EndElementHandler = end
        parser.CharacterDataHandler = elements.text
        try:
            parser.Parse(each.raw, True)
        except expat.ExpatError as error:
            elements.back(mark)
            got = expat.ErrorString(error.code) or "an error"
            place = error.lineno, error.offset + 1
            collector.wrong(each.error_at(*place, "well-formed XML", got))
            continue
        except (LookupError, ValueError) as error:
            # What the declaration names: no encoding, or one of many bytes for each.
            elements.back(mark)
            place = parser.CurrentLineNumber, parser.CurrentColumnNumber + 1
            wrong = each.error_at(*place, "an encoding that expat knows", str(error))
            collector.wrong(wrong)
            continue
        elements.keep(each, collector)
    spans = elements.node_spans()
    forest = elements.table.forest()
    return collector.reading(forest, node_spans=spans, shape=shape)


def _clark(name: str) -> str:
    return "{" + name if "}" in name else name


def html(
    source: Source = None,
    *,
    text: Texts = None,
    attributes: str | Iterable[str] = "drop",
    text_nodes: str = "drop",
    element: str | None = None,
    shape: str = "as_is",
    node_spans: bool = False,
    errors: str = "raise",
    progress: Progress = None,
) -> Reading:
    """Read HTML pages as browsers do: errors are repaired (lxml).

    Parameters
    ----------
    source : path, open file or iterable of these, optional
        Paths may also be directories (``*.html``, ``*.htm``) and patterns; files may be
        gzipped. The encoding is the one that a page names.
    text : str, bytes or iterable of these, optional
        The text itself, in place of `source`.
    attributes : {"drop", "names", "keep"} or iterable of str, default "drop"
        Attributes as first children ``@name``, sorted, without or with their value
        below; or those with the given names, with their value.
    text_nodes : {"drop", "blank", "tokens", "keep"}, default "drop"
        Text as a leaf ``#text``, a leaf for each word, or one leaf.
    element : str, optional
        A tag, such as ``"form"``: one tree for each element with it that is in no
        other. By default a page is a tree.
    shape : {"as_is", "chain"}, default "as_is"
        "chain" makes chains of the children of all nodes, as `Forest.binarize` does.
    node_spans : bool, default False
        Keep the lines of each node: that on which its element begins, and the last one on
        which an element in it begins. Attributes and texts have those of their element.
    errors : {"raise", "skip"}, default "raise"
        "skip" leaves out pages without any element or deeper than 2,048, and lists why.
    progress : callable or True, optional
        Called as progress(done, total), in texts; True shows a bar.

    Returns
    -------
    Reading
        `names` are the attributes ``id`` or ``name`` of the roots.

    Raises
    ------
    ParseError
        With file, line, column, what was expected and what was found.
    ImportError
        If lxml is not installed (extra `web`).

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> page = "<title>t</title><form><input name=q><input type=submit></form>"
    >>> str(tk.readers.html(text=page).forest[0])  # doctest: +SKIP
    '(html (head title) (body (form input input)))'
    """
    choice("shape", shape, *SHAPES)
    elements = Elements(attributes, text_nodes, element, node_spans=node_spans)
    etree = needed("this reader", "lxml.etree", "web")
    collector = Collector(
        source, text, (".html", ".htm"), errors=errors, progress=progress
    )
    for each in collector.texts(raw=True):
        elements.mark()
        root, fatal = html_root(etree, each.raw)
        if root is None or fatal is not None:
            place, got = (1, 1), "a page without elements"
            if fatal is not None:
                place, got = (fatal.line, fatal.column), fatal.message
            collector.wrong(each.error_at(*place, "HTML", got))
            continue
        elements.walk(etree, root)
        elements.keep(each, collector)
    spans = elements.node_spans()
    forest = elements.table.forest()
    return collector.reading(forest, node_spans=spans, shape=shape)


def html_root(etree: Any, page: str | bytes) -> tuple[Any, Any]:
    """Return the root of a page, None if it has no element; and what ended it early."""
    if not page.strip():
        return None, None
    # Of a str, the encoding that the page names is no concern.
    named = "utf-8" if isinstance(page, str) else None
    data = page.encode() if isinstance(page, str) else page
    parser = etree.HTMLParser(
        encoding=named, remove_comments=True, remove_pis=True, huge_tree=True
    )
    root = etree.fromstring(data, parser)
    # Of all that lxml mends, this alone cuts off what follows.
    cut = (error for error in parser.error_log if "Excessive depth" in error.message)
    return root, next(cut, None)


def json(
    source: Source = None,
    *,
    text: Texts = None,
    values: str = "keep",
    lines: bool = False,
    shape: str = "as_is",
    errors: str = "raise",
    progress: Progress = None,
) -> Reading:
    """Read JSON: objects, keys, arrays and values as nodes.

    Parameters
    ----------
    source : path, open file or iterable of these, optional
        Paths may also be directories (``*.json``, ``*.jsonl``, ``*.ndjson``) and
        patterns; files may be gzipped.
    text : str, bytes or iterable of these, optional
        The text itself, in place of `source`.
    values : {"keep", "type", "blank"}, default "keep"
        Strings and numbers as they are; or ``string``, ``number``, ``true``, ``false``,
        ``null``; or all as ``value``.
    lines : bool, default False
        Each line is a tree of its own (JSON Lines).
    shape : {"as_is", "chain"}, default "as_is"
        "chain" makes chains of the children of all nodes, as `Forest.binarize` does.
    errors : {"raise", "skip"}, default "raise"
        "skip" leaves out the texts (or lines) that are wrong, and lists why.
    progress : callable or True, optional
        Called as progress(done, total), in texts; True shows a bar.

    Returns
    -------
    Reading

    Raises
    ------
    ParseError
        With file, line, column, what was expected and what was found.

    Notes
    -----
    Keys keep their order: see `Forest.sorted`. A key that comes twice is two nodes.
    Numbers are written as Python does.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> text = '{"name": "Ada", "born": [1815, 12]}'
    >>> str(tk.readers.json(text=text).forest[0])
    '(object (name Ada) (born (array 1815 12)))'
    >>> str(tk.readers.json(text=text, values="type").forest[0])
    '(object (name string) (born (array number number)))'
    """
    choice("values", values, "keep", "type", "blank")
    choice("shape", shape, *SHAPES)
    collector = Collector(
        source, text, (".json", ".jsonl", ".ndjson"), errors=errors, progress=progress
    )
    table = Table()
    for each in collector.texts():
        pieces = [(1, 0, each.content)]
        if lines:
            pieces = list(numbered(each.content))
        for number, offset, piece in pieces:
            try:
                value = loads(piece)
            except _json.JSONDecodeError as error:
                # "Expecting value", "Extra data" and the like.
                expected = f"JSON ({error.msg})"
                if error.msg == "Extra data" and not lines:
                    expected = "one JSON value (lines=True reads one on each line)"
                collector.wrong(each.error(offset + error.pos, expected))
                continue
            except ValueError as error:
                # A number of more digits than Python reads.
                expected = "a text that json.loads reads"
                collector.wrong(each.error_at(number, 1, expected, str(error)))
                continue
            table.begin()
            try:
                json_nodes(table, value, values)
            except UnicodeEncodeError:
                table.forget()
                got = "a lone surrogate"
                collector.wrong(each.error_at(number, 1, "Unicode text", got))
                continue
            collector.add(each, "", (number, number) if lines else None)
    return collector.reading(table.forest(), shape=shape)


class Pairs(list[tuple[str, Any]]):
    """An object of JSON, with keys in order and as often as they come."""


_BLANK = re.compile(r"[ \t\n\r]*")


def loads(text: str) -> Any:
    """Read JSON of any depth: `json.loads`, and where that gives up, a stack."""
    try:
        return _json.loads(text, object_pairs_hook=Pairs)
    except RecursionError:
        return deep_loads(text)


def deep_loads(text: str) -> Any:
    """Read JSON by a stack of open objects and lists; words and numbers as the library."""
    scan = _json.JSONDecoder().scan_once  # type: ignore[attr-defined]

    def skip(at: int) -> int:
        return _BLANK.match(text, at).end()  # type: ignore[union-attr]

    def key(at: int) -> tuple[str, int]:
        if text[at : at + 1] != '"':
            msg = "Expecting property name enclosed in double quotes"
            raise _json.JSONDecodeError(msg, text, at)
        name, end = scan(text, at)
        end = skip(end)
        if text[end : end + 1] != ":":
            msg = "Expecting ':' delimiter"
            raise _json.JSONDecodeError(msg, text, end)
        return name, skip(end + 1)

    top: list[Any] = []
    path: list[tuple[list[Any], str]] = [(top, "")]
    at, name = skip(0), ""
    while True:
        # A value begins here.
        open_list = path[-1][0]
        char = text[at : at + 1]
        if char and char in "[{":
            value: Any = Pairs() if char == "{" else []
            at = skip(at + 1)
            is_empty = text[at : at + 1] == ("}" if char == "{" else "]")
            path.append((value, name))
            if not is_empty:
                if char == "{":
                    name, at = key(at)
                continue
        else:
            try:
                value, at = scan(text, at)
            except StopIteration as stop:
                msg = "Expecting value"
                raise _json.JSONDecodeError(msg, text, stop.value) from None
            open_list.append((name, value) if isinstance(open_list, Pairs) else value)
        # Behind a value, or in an object or list that is empty.
        while True:
            at = skip(at)
            open_list, outer = path[-1]
            if len(path) == 1:
                if at < len(text):
                    msg = "Extra data"
                    raise _json.JSONDecodeError(msg, text, at)
                return top[0]
            end = "}" if isinstance(open_list, Pairs) else "]"
            char = text[at : at + 1]
            if char == end:
                path.pop()
                above = path[-1][0]
                above.append(
                    (outer, open_list) if isinstance(above, Pairs) else open_list
                )
                at += 1
                continue
            if char != ",":
                msg = "Expecting ',' delimiter"
                raise _json.JSONDecodeError(msg, text, at)
            at = skip(at + 1)
            if end == "}":
                name, at = key(at)
            break


def json_nodes(table: Table, value: Any, values: str) -> None:
    """Append the tree of a value of JSON."""
    todo: list[tuple[Any, int]] = [(value, -1)]
    while todo:
        item, parent = todo.pop()
        if isinstance(item, tuple):
            item[0].encode()
            parent = table.node(item[0], parent)
            item = item[1]
        if isinstance(item, list):
            kind = "object" if isinstance(item, Pairs) else "array"
            node = table.node(kind, parent)
            todo += [(below, node) for below in reversed(item)]
            continue
        if values == "blank":
            label = "value"
        elif item is None or isinstance(item, bool):
            label = {None: "null", True: "true", False: "false"}[item]
        elif values == "type":
            label = "string" if isinstance(item, str) else "number"
        else:
            label = item if isinstance(item, str) else repr(item)
            label.encode()
        table.node(label, parent)


def sql(
    source: Source = None,
    *,
    text: Texts = None,
    dialect: str | None = None,
    identifiers: str = "keep",
    literals: str = "type",
    errors: str = "raise",
    progress: Progress = None,
) -> Reading:
    """Read SQL statements as syntax trees, by sqlglot.

    Parameters
    ----------
    source : path, open file or iterable of these, optional
        Paths may also be directories (``*.sql``) and patterns; files may be gzipped.
    text : str, bytes or iterable of these, optional
        The text itself, in place of `source`.
    dialect : str, optional
        One of sqlglot's, such as ``"postgres"``.
    identifiers : {"keep", "blank"}, default "keep"
        Keep names of tables, columns and functions as leaves, or drop them.
    literals : {"keep", "type", "blank"}, default "type"
        A literal is ``(Literal 1)``, ``(Literal number)`` or ``Literal``.
    errors : {"raise", "skip"}, default "raise"
        "skip" leaves out the statements that are wrong, and lists why.
    progress : callable or True, optional
        Called as progress(done, total), in texts; True shows a bar.

    Returns
    -------
    Reading
        One tree per statement.

    Raises
    ------
    ParseError
        With file, line, column, what was expected and what was found.
    ImportError
        If sqlglot is not installed (extra `sql`).

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> query = "SELECT name FROM ships WHERE year > 1900"
    >>> tk.readers.sql(text=query).forest[0].label  # doctest: +SKIP
    'Select'
    """
    choice("identifiers", identifiers, "keep", "blank")
    choice("literals", literals, "keep", "type", "blank")
    sqlglot = needed("this reader", "sqlglot", "sql")
    collector = Collector(source, text, (".sql",), errors=errors, progress=progress)
    table = Table()
    for each in collector.texts():
        try:
            places = _statements(sqlglot, each.content, dialect)
        except sqlglot.errors.SqlglotError as error:
            collector.wrong(_sql_error(each, error))
            continue
        for place, statement in _parsed(sqlglot, each, places, dialect, collector):
            table.begin()
            _sql_nodes(sqlglot.exp, table, statement, identifiers, literals)
            span = each.line(place.start), each.line(max(place.stop - 1, place.start))
            collector.add(each, "", span)
    return collector.reading(table.forest())


def _statements(sqlglot: Any, content: str, dialect: str | None) -> list[slice]:
    """Return where each statement stands: from its first to its last token."""
    places, start, stop = [], None, 0
    for token in sqlglot.tokenize(content, dialect=dialect):
        if token.token_type == sqlglot.TokenType.SEMICOLON:
            if start is not None:
                places.append(slice(start, stop))
            start = None
            continue
        start = token.start if start is None else start
        stop = token.end + 1
    return places if start is None else [*places, slice(start, stop)]


def _parsed(
    sqlglot: Any,
    text: Text,
    places: list[slice],
    dialect: str | None,
    collector: Collector,
) -> Iterator[tuple[slice, Any]]:
    """Yield statements; where one is wrong, the others by themselves."""
    whole = slice(0, len(text.content))
    for place in [whole, *places]:
        try:
            found = sqlglot.parse(text.content[place], dialect=dialect)
        # Its parser stumbles over some wrong texts, such as "{:}".
        except (sqlglot.errors.SqlglotError, RecursionError, AttributeError) as error:
            if place is whole and len(places) > 1:
                continue
            collector.wrong(_sql_error(text, error, place.start))
            found = []
        found = [statement for statement in found if statement is not None]
        if place is not whole:
            yield from ((place, statement) for statement in found)
            continue
        # A block of statements may be one for the parser.
        known = places if len(found) == len(places) else [whole] * len(found)
        yield from zip(known, found, strict=True)
        return


def _sql_error(text: Text, error: Exception, start: int = 0) -> ParseError:
    """Return what is wrong with the part of a text that begins at a character."""
    line = text.line(start)
    if isinstance(error, RecursionError):
        return text.error(start, "SQL", "a statement that is too deep")
    if isinstance(error, AttributeError):
        return text.error(start, "SQL", "text that sqlglot cannot parse")
    told = (getattr(error, "errors", None) or [{}])[0]
    below, column = (told.get("line") or 1) - 1, told.get("col") or 1
    if not below:
        column += start - text.content.rfind("\n", 0, start) - 1
    got = told.get("description") or str(error)
    return text.error_at(line + below, column, "SQL", got)


def _sql_nodes(
    exp: Any, table: Table, statement: Any, identifiers: str, literals: str
) -> None:
    todo: list[tuple[Any, int]] = [(statement, -1)]
    while todo:
        item, parent = todo.pop()
        if isinstance(item, str):
            table.node(item, parent)
            continue
        node = table.node(type(item).__name__, parent)
        if isinstance(item, exp.Literal):
            if literals != "blank":
                kind = "string" if item.is_string else "number"
                table.node(item.this if literals == "keep" else kind, node)
            continue
        below: list[Any] = []
        for value in item.args.values():
            for each in value if isinstance(value, list) else [value]:
                named = isinstance(each, str) and identifiers == "keep"
                if named or isinstance(each, exp.Expression):
                    below.append(each)
        todo += [(each, node) for each in reversed(below)]
