"""Dependencies: sentences of CoNLL-U as trees for tree kernels.

GRCT, LCT and LOCT (Croce, Moschitti & Basili, EMNLP 2011) and the compositional CGRCT and
CLCT (Annesi, Croce & Basili, CIKM 2014), as KeLP's generator builds them. For a token t
with the dependents k in the order of the sentence:

    GRCT(t)  = SYNT( GRCT(k) left of t …, POS( LEX ), GRCT(k) right of t … )
    LCT(t)   = LEX( LCT(k) …, POS, SYNT )
    LOCT(t)  = LEX( LOCT(k) … )
    CGRCT(t) = COMP( as GRCT )
    CLCT(t)  = COMP( CLCT(k) …, POS, SYNT, LEX )

A tree is built by an explicit stack, so a chain of any length is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from treekernel_rs.readers._reading import Collector, Reading, Table, choice

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treekernel_rs._core import Tree
    from treekernel_rs.readers._reading import Progress, Text
    from treekernel_rs.readers._source import Source, Texts

_SCHEMES = ("grct", "lct", "loct", "cgrct", "clct")
_COLUMNS = 10

# The letter of the Penn tag, where there is none: first letters of UPOS would merge ADJ,
# ADV, ADP and AUX, or PRON, PROPN, PART and PUNCT.
_LETTERS = {
    **dict.fromkeys(("NOUN", "PROPN"), "n"),
    **dict.fromkeys(("VERB", "AUX"), "v"),
    **dict.fromkeys(("ADV", "PART"), "r"),
    **dict.fromkeys(("ADP", "SCONJ"), "i"),
    **dict.fromkeys(("NUM", "CCONJ"), "c"),
    "ADJ": "j",
    "DET": "d",
    "PRON": "p",
    "INTJ": "u",
    "SYM": "s",
    "X": "x",
    "PUNCT": ".",
}
_COMP = str.maketrans({",": "_comma_", "<": "_oang_", ">": "_cang_"})


class Token(NamedTuple):
    """A word of a sentence; "_" stands for what is not there."""

    form: str
    lemma: str
    upos: str
    xpos: str
    relation: str
    id: int
    head: int
    line: int = 0


class Options(NamedTuple):
    """How trees are made of tokens."""

    scheme: str = "grct"
    word: str = "lemma"
    lower: bool = True
    lex_pos: str = "first"
    pos: str = "xpos"
    subtypes: bool = True
    punctuation: bool = True
    lexical: bool = True


def conllu(
    source: Source = None,
    *,
    text: Texts = None,
    scheme: str = "grct",
    word: str = "lemma",
    lower: bool = True,
    lex_pos: str = "first",
    pos: str = "xpos",
    subtypes: bool = True,
    punctuation: bool = True,
    lexical: bool = True,
    errors: str = "raise",
    progress: Progress = None,
) -> Reading:
    r"""Read sentences of CoNLL-U as dependency trees.

    Parameters
    ----------
    source : path, open file or iterable of these, optional
        Paths may also be directories (``*.conllu``) and patterns; files may be gzipped.
    text : str, bytes or iterable of these, optional
        The text itself, in place of `source`.
    scheme : {"grct", "lct", "loct", "cgrct", "clct"}, default "grct"
        What becomes a node: relations with parts of speech and words as their centre,
        words with both below, words alone, or the compositional forms of the first two.
    word : {"lemma", "form"}, default "lemma"
        The content of ``LEX##``; the form if there is no lemma.
    lower : bool, default True
        Lower-case words.
    lex_pos : {"first", "full", "none"}, default "first"
        What follows a word: the first letter of its tag, the tag, nothing.
    pos : {"xpos", "upos"}, default "xpos"
        Which tags to use; UPOS if there is no XPOS.
    subtypes : bool, default True
        Keep ``:pass`` of ``nsubj:pass``.
    punctuation : bool, default True
        Keep tokens whose relation is ``punct``. Those with dependents always stay.
    lexical : bool, default True
        Keep words in GRCT, CGRCT and CLCT.
    errors : {"raise", "skip"}, default "raise"
        "skip" leaves out the sentences that are wrong, and lists why.
    progress : callable or True, optional
        Called as progress(done, total), in texts; True shows a bar.

    Returns
    -------
    Reading
        `names` are the ``sent_id``, `metadata` all comments ``# key = value``, and
        `tokens` the id of the token of each node.

    Raises
    ------
    ParseError
        With file, line, column, what was expected and what was found.

    Notes
    -----
    Ranges (``1-2``), empty nodes (``8.1``) and enhanced dependencies are left out.

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> text = (
    ...     "# sent_id = s1\n"
    ...     "1\tThe\tthe\tDET\tDT\t_\t2\tdet\t_\t_\n"
    ...     "2\tcat\tcat\tNOUN\tNN\t_\t3\tnsubj\t_\t_\n"
    ...     "3\truns\trun\tVERB\tVBZ\t_\t0\troot\t_\t_\n\n"
    ... )
    >>> reading = tk.readers.conllu(text=text, scheme="lct")
    >>> reading.names, str(reading.forest[0].children[0])
    (['s1'], '(LEX##cat::n (LEX##the::d POS##DT SYNT##det) POS##NN SYNT##nsubj)')
    >>> reading.tokens.tolist()
    [3, 2, 1, 1, 1, 2, 2, 3, 3]
    """
    options = Options(scheme, word, lower, lex_pos, pos, subtypes, punctuation, lexical)
    _check(options)
    collector = Collector(source, text, (".conllu",), errors=errors, progress=progress)
    table, tokens = Table(), []
    for each in collector.texts():
        for lines in _sentences(each):
            try:
                metadata, words = _parse(each, lines)
                _check_heads(each, lines, words)
            except ValueError as error:
                collector.wrong(error)  # type: ignore[arg-type]
                continue
            tokens += _build(table, words, options)
            collector.metadata.append(metadata)
            span = lines[0][0], lines[-1][0]
            collector.add(each, metadata.get("sent_id", ""), span)
    return collector.reading(table.forest(), np.array(tokens, dtype=np.int64))


def _check(options: Options) -> None:
    choice("scheme", options.scheme, *_SCHEMES)
    choice("word", options.word, "lemma", "form")
    choice("lex_pos", options.lex_pos, "first", "full", "none")
    choice("pos", options.pos, "xpos", "upos")
    if not options.lexical and options.scheme in ("lct", "loct"):
        msg = f"lexical must be True for {options.scheme!r}, whose nodes are words"
        raise ValueError(msg)


def dependency_tree(tokens: list[Token]) -> Tree:
    """Return the GRCT of one sentence; its tokens come from another package."""
    wrong = _wrong_head(tokens)
    if wrong is not None:
        msg = f"expected {wrong[1]}, got {wrong[2]}"
        raise ValueError(msg)
    table = Table()
    _build(table, tokens, Options())
    return table.forest()[0]


def _sentences(text: Text) -> Iterator[list[tuple[int, str]]]:
    """Yield the numbered lines of each sentence."""
    lines: list[tuple[int, str]] = []
    for number, line in enumerate(text.content.split("\n"), 1):
        line = line.removesuffix("\r")
        if line:
            lines.append((number, line))
        elif lines:
            yield lines
            lines = []
    if lines:
        yield lines


def _parse(
    text: Text, lines: list[tuple[int, str]]
) -> tuple[dict[str, str], list[Token]]:
    metadata: dict[str, str] = {}
    words: dict[int, Token] = {}
    for number, line in lines:
        if line.startswith("#"):
            key, sign, value = line[1:].partition("=")
            if sign:
                metadata[key.strip()] = value.strip()
            continue
        fields = line.split("\t")
        if len(fields) != _COLUMNS:
            got = f"{len(fields)}"
            raise text.error_at(number, 1, f"{_COLUMNS} tab-separated columns", got)
        name = fields[0]
        if not _is_number(name):
            if not all(map(_is_number, name.replace("-", ".", 1).split(".", 1))):
                raise text.error_at(number, 1, "the id of a token", repr(name))
            continue
        column = sum(map(len, fields[:6])) + 7
        if not _is_number(fields[6]):
            got = repr(fields[6])
            raise text.error_at(number, column, "the id of a head, or 0", got)
        if int(name) in words or name == "0":
            raise text.error_at(number, 1, "a unique id above 0", name)
        words[int(name)] = Token(
            *(fields[1], fields[2], fields[3], fields[4], fields[7]),
            *(int(name), int(fields[6]), number),
        )
    if not words:
        raise text.error_at(lines[0][0], 1, "a sentence with tokens", "none")
    return metadata, sorted(words.values(), key=lambda token: token.id)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def _check_heads(text: Text, lines: list[tuple[int, str]], words: list[Token]) -> None:
    wrong = _wrong_head(words)
    if wrong is None:
        return
    token, expected, got = wrong
    line = dict(lines)[token.line]
    column = sum(map(len, line.split("\t")[:6])) + 7
    raise text.error_at(token.line, column, expected, got)


def _wrong_head(words: list[Token]) -> tuple[Token, str, str] | None:
    """Find a token whose head makes no tree; say what was expected and found."""
    if not words:
        return None
    below = _dependents(words)
    roots = below.get(0, [])
    known = {token.id for token in words}
    for token in words:
        if token.head and token.head not in known:
            return token, "the id of a token, or 0", str(token.head)
    if len(roots) > 1:
        return roots[1], f"one root, which is token {roots[0].id}", "another"
    reached: set[int] = set()
    todo = [token.id for token in roots]
    while todo:
        node = todo.pop()
        reached.add(node)
        todo += [token.id for token in below.get(node, ())]
    lost = next((token for token in words if token.id not in reached), None)
    if lost is not None:
        what = "a head that leads to the root" if roots else "one token with head 0"
        return lost, what, f"token {lost.id}, in a cycle or below one"
    return None


def _dependents(words: list[Token]) -> dict[int, list[Token]]:
    below: dict[int, list[Token]] = {}
    for token in words:
        below.setdefault(token.head, []).append(token)
    return below


def _build(table: Table, words: list[Token], options: Options) -> list[int]:
    """Append the tree of a sentence, and return the token of each node."""
    if not options.punctuation:
        heads = {token.head for token in words}
        words = [
            token
            for token in words
            if token.relation.partition(":")[0] != "punct"
            or token.id in heads
            or not token.head
        ]
    below, by_id = _dependents(words), {token.id: token for token in words}
    scheme, tokens = options.scheme, []
    table.begin()
    centred = scheme in ("grct", "cgrct")
    # A token to expand, or a label with what hangs on it.
    todo: list[tuple[Any, int, Token]] = [(None, -1, token) for token in below[0]]
    while todo:
        item, parent, token = todo.pop()
        if item is not None:
            node = parent
            for label in item:  # one below another
                node = table.node(label, node)
                tokens.append(token.id)
            continue
        lex, tag, synt = _labels(token, options)
        top = synt if scheme == "grct" else lex
        if scheme in ("cgrct", "clct"):
            top = _composed(token, by_id.get(token.head), options)
        node = table.node(top, parent)
        tokens.append(token.id)
        kids = [(None, node, kid) for kid in below.get(token.id, ())]
        if centred:
            own = (tag, lex) if options.lexical else (tag,)
            left = sum(kid[2].id < token.id for kid in kids)
            kids.insert(left, (own, node, token))  # type: ignore[arg-type]
        elif scheme == "lct":
            kids += [((label,), node, token) for label in (tag, synt)]  # type: ignore[misc]
        elif scheme == "clct":
            below_it = (tag, synt, lex) if options.lexical else (tag, synt)
            kids += [((label,), node, token) for label in below_it]  # type: ignore[misc]
        todo += reversed(kids)
    return tokens


def _labels(token: Token, options: Options) -> tuple[str, str, str]:
    tag = _tag(token, options)
    synt = token.relation if options.subtypes else token.relation.partition(":")[0]
    return f"LEX##{_lex(token, options)}", f"POS##{tag}", f"SYNT##{synt}"


def _tag(token: Token, options: Options) -> str:
    return token.upos if options.pos == "upos" or token.xpos == "_" else token.xpos


def _lex(token: Token, options: Options, escape: Any = None) -> str:
    """Return word and part of speech, as in ``dog::n``."""
    word = token.form
    if options.word == "lemma" and token.lemma != "_":
        word = token.lemma
    word = word.lower() if options.lower else word
    pos = _tag(token, options)
    if options.lex_pos == "first":
        from_upos = options.pos == "upos" or token.xpos == "_"
        pos = _LETTERS.get(pos, pos[:1].lower()) if from_upos else pos[:1].lower()
    if escape:
        word, pos = word.translate(escape), pos.translate(escape)
    return word if options.lex_pos == "none" else f"{word}::{pos}"


def _composed(token: Token, head: Token | None, options: Options) -> str:
    above = "*::*" if head is None else _lex(head, options, _COMP)
    synt = token.relation if options.subtypes else token.relation.partition(":")[0]
    return f"COMP##{synt}<{above},{_lex(token, options, _COMP)}>"
