r"""The slow twin of the forest: parser, printer and counts in plain Python.

Written from the grammar alone, without a look at the Rust code, so that the two can
disagree.  A tree is a pair ``(label, children)`` of a str and a tuple of trees::

    text  := BOM? ws (tree ws)*
    tree  := '(' ws label (ws child)* ws ')'
           | '(' ws tree ws ')'             an outer empty bracket: dropped; the tree
                                           in it has children
    child := tree | label                   a bare label is a leaf

>>> parse(r"( (S (NN 1\/2) \e (x)) )")
[('S', (('NN', (('1\\/2', ()),)), ('', ()), ('x', ())))]
>>> show(_[0])
'(S (NN 1\\/2) \\e x)'

Nothing here recurses on the depth of a tree: every walk keeps its own stack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from random import Random

    Tree = tuple[str, tuple["Tree", ...]]

BLANKS = " \t\n\v\f\r"
BOM = "\ufeff"


# --- Reading ------------------------------------------------------------------------


class OracleError(ValueError):
    """Where reading stopped: tree and offset count from 0, line and column from 1."""

    def __init__(
        self, *, tree: int, line: int, column: int, offset: int, expected: str
    ) -> None:
        self.tree, self.line, self.column, self.offset = tree, line, column, offset
        self.expected = expected
        super().__init__(f"{self.position}: expected {expected}")

    @property
    def position(self) -> dict[str, int]:
        """The four coordinates, as golden.tsv writes them."""
        return {
            "tree": self.tree,
            "line": self.line,
            "column": self.column,
            "offset": self.offset,
        }


class Cursor:
    """A place in one text; text that is no Unicode fails when it is looked at."""

    def __init__(self, text: str | bytes, tree: int) -> None:
        self.chars, self.intact = decodable_prefix(text)
        self.at = 0
        self.tree = tree

    def peek(self) -> str:
        """Return the next character, or '' at the end of the text."""
        if self.at < len(self.chars):
            return self.chars[self.at]
        if not self.intact:
            self.fail("valid Unicode")
        return ""

    def take(self) -> str:
        char = self.peek()
        self.at += len(char)
        return char

    def skip_blanks(self) -> None:
        while (char := self.peek()) and char in BLANKS:
            self.take()

    def fail(self, expected: str) -> NoReturn:
        before = self.chars[: self.at]
        raise OracleError(
            tree=self.tree,
            line=before.count("\n") + 1,
            column=len(before) - (before.rfind("\n") + 1) + 1,
            offset=len(before.encode()),
            expected=expected,
        )


def decodable_prefix(text: str | bytes) -> tuple[str, bool]:
    """Return the text up to its first byte (or surrogate) that is no Unicode."""
    try:
        if isinstance(text, bytes):
            return text.decode(), True
        text.encode()
    except UnicodeDecodeError as error:
        return text[: error.start].decode(), False
    except UnicodeEncodeError as error:
        return text[: error.start], False
    return text, True


def parse(source: str | bytes | Iterable[str | bytes]) -> list[Tree]:
    """Read one text of one or more trees, or an iterable of texts of one tree each."""
    if isinstance(source, str | bytes):
        return read_text(source)
    return [read_item(item, index) for index, item in enumerate(source)]


def read_text(text: str | bytes) -> list[Tree]:
    cursor = Cursor(text, tree=0)
    skip_bom(cursor)
    trees = [read_tree(cursor)]
    while True:
        cursor.tree = len(trees)
        cursor.skip_blanks()
        if not cursor.peek():
            return trees
        trees.append(read_tree(cursor))


def read_item(text: str | bytes, index: int) -> Tree:
    cursor = Cursor(text, tree=index)
    skip_bom(cursor)
    tree = read_tree(cursor)
    cursor.skip_blanks()
    if cursor.peek():
        cursor.fail("end of text")
    return tree


def skip_bom(cursor: Cursor) -> None:
    if cursor.peek() == BOM:
        cursor.take()


def read_tree(cursor: Cursor) -> Tree:
    opened = 0  # brackets before the root's label; all but the last are empty ones
    while True:
        cursor.skip_blanks()
        if cursor.peek() != "(":
            break
        cursor.take()
        opened += 1
    if opened == 0:
        cursor.fail("'('")
    tree = read_rest_of_node(cursor)
    for _ in range(opened - 1):
        cursor.skip_blanks()
        if cursor.peek() != ")":
            cursor.fail("')'")
        if not tree[1]:
            cursor.fail("a tree of more than one node")
        cursor.take()
    return tree


def read_rest_of_node(cursor: Cursor) -> Tree:
    """Read what follows a node's opening bracket, the closing one included."""
    open_nodes: list[tuple[str, list[Tree]]] = [(read_label(cursor), [])]
    while True:
        cursor.skip_blanks()
        char = cursor.peek()
        if char == ")":
            cursor.take()
            label, children = open_nodes.pop()
            tree = (label, tuple(children))
            if not open_nodes:
                return tree
            open_nodes[-1][1].append(tree)
        elif char == "(":
            cursor.take()
            cursor.skip_blanks()
            open_nodes.append((read_label(cursor), []))
        elif char:
            open_nodes[-1][1].append((read_label(cursor), ()))
        else:
            cursor.fail("')'")


def read_label(cursor: Cursor) -> str:
    start = cursor.at
    label = ""
    while (char := cursor.peek()) and char not in BLANKS + "()":
        label += cursor.take()
        if char == "\\" and (escaped := cursor.peek()) and escaped in BLANKS + "()\\":
            label = label[:-1] + cursor.take()
    if cursor.at == start:
        cursor.fail("a label")
    return "" if cursor.chars[start : cursor.at] == r"\e" else label


# --- Printing -----------------------------------------------------------------------


def show(tree: Tree) -> str:
    """Print in Penn style: leaves bare, one blank between, a lone leaf in brackets."""
    if not tree[1]:
        return f"({show_label(tree[0])})"
    out: list[str] = []
    todo: list[Tree | str] = [tree]
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            out.append(item)
        elif item[1]:
            out.append("(" + show_label(item[0]))
            todo.append(")")
            for child in reversed(item[1]):
                todo += (child, " ")
        else:
            out.append(show_label(item[0]))
    return "".join(out)


def show_label(label: str) -> str:
    if label in ("", r"\e"):
        return {"": r"\e", r"\e": r"\\e"}[label]
    out = ""
    for char, following in zip(label, [*label[1:], ""], strict=True):
        doubled = char == "\\" and (not following or following in BLANKS + "()\\")
        out += "\\" + char if doubled or char in BLANKS + "()" else char
    return out


# --- Counting -----------------------------------------------------------------------


def preorder(tree: Tree) -> Iterator[tuple[Tree, int, int]]:
    """Yield each node with its parent's place in the sequence (-1) and its depth."""
    todo = [(tree, -1, 1)]
    place = 0
    while todo:
        node, parent, depth = todo.pop()
        yield node, parent, depth
        todo += [(child, place, depth + 1) for child in reversed(node[1])]
        place += 1


def n_nodes(tree: Tree) -> int:
    return sum(1 for _ in preorder(tree))


def depth(tree: Tree) -> int:
    """Count the nodes on the longest path."""
    return max(depth for _, _, depth in preorder(tree))


def labels(trees: Iterable[Tree]) -> set[str]:
    return {node[0] for tree in trees for node, _, _ in preorder(tree)}


def subtrees(tree: Tree) -> list[str]:
    """Print the subtree of every node, in preorder."""
    return [show(node) for node, _, _ in preorder(tree)]


def n_distinct(trees: Iterable[Tree]) -> int:
    return len({text for tree in trees for text in subtrees(tree)})


def to_arrays(trees: list[Tree]) -> dict[str, list]:
    """Return what from_arrays takes, with the labels as strings."""
    arrays: dict[str, list] = {"labels": [], "parents": [], "offsets": []}
    for tree in trees:
        start = len(arrays["labels"])
        arrays["offsets"].append(start)
        for node, parent, _ in preorder(tree):
            arrays["labels"].append(node[0])
            arrays["parents"].append(-1 if parent < 0 else parent + start)
    return arrays


def rebuild(root: object, make: Callable[[str, list], object], label, children):
    """Copy any kind of tree, children first: make(label, copies of the children)."""
    order = []
    todo = [root]
    while todo:
        node = todo.pop()
        kids = list(children(node))
        order.append((label(node), len(kids)))
        todo += kids
    done: list = []  # copies that wait for their parent, the leftmost at the bottom
    for name, arity in reversed(order):
        copies = [done.pop() for _ in range(arity)]
        copies.reverse()
        done.append(make(name, copies))
    return done.pop()


def from_library(tree: object) -> Tree:
    """Copy a tk.Tree through its label and its children, nothing else."""
    return rebuild(
        tree,
        lambda label, children: (label, tuple(children)),
        lambda node: node.label,
        lambda node: node.children,
    )


# --- Hypothesis: labels and trees ---------------------------------------------------

SPECIAL = [*"()\\e", *BLANKS, "\0", BOM, "\xa0", "\u3000", "\u2028", "\x85", "\x1c"]
SPECIAL += ["/", "*", "#", ":", "-", "é", "\u0301", "漢", "😀", "\U0010ffff", "\x7f"]
TRICKY = ["", r"\e", r"\\e", r"\ex", r"x\e", "\\", "\\\\", "\\\\\\", r"1\/2", r"\*"]
TRICKY += [r"\(", r"a\)", "a\\ ", "\\\n", "(", ")", "()", " ", "\t", "\r\n", "\0"]
TRICKY += [BOM, BOM + "a", "\xa0", "\u3000", "😀", "-LRB-", "LEX##how::w", "e", "\\\\e"]

characters = st.one_of(
    st.sampled_from(SPECIAL), st.characters(exclude_categories=("Cs",))
)
labels_any = st.one_of(
    st.sampled_from(TRICKY),
    st.text(characters, max_size=6),
    st.sampled_from(["S", "NP", "VP", "dog"]),
)
labels_few = st.sampled_from(["S", "NP", "a", "", r"\e", "("])


def _mixed(label: st.SearchStrategy[str]) -> st.SearchStrategy[Tree]:
    leaf = label.map(lambda name: (name, ()))
    return st.recursive(
        leaf,
        lambda child: st.tuples(label, st.lists(child, max_size=4).map(tuple)),
        max_leaves=20,
    )


def chain(names: list[str]) -> Tree:
    """Return a tree that is one path, its root first."""
    tree: Tree = (names[-1], ())
    for name in reversed(names[:-1]):
        tree = (name, (tree,))
    return tree


def comb(names: list[str]) -> Tree:
    """Return a path in which every node has a leaf on each side of its child."""
    tree: Tree = (names[-1], ())
    for name in reversed(names[:-1]):
        tree = (name, ((name, ()), tree, ("x", ())))
    return tree


mixed = _mixed(labels_any)
trees = st.one_of(
    mixed,
    _mixed(labels_few),
    _mixed(st.just("a")),  # one label everywhere: shape is all that differs
    labels_any.map(lambda name: (name, ())),  # a single node
    st.lists(labels_few, min_size=1, max_size=60).map(chain),
    st.lists(labels_few, min_size=1, max_size=30).map(comb),
    st.tuples(labels_any, st.lists(mixed, min_size=5, max_size=15).map(tuple)),
    st.tuples(  # wide, and all children alike
        labels_any,
        st.tuples(_mixed(labels_few), st.integers(1, 60)).map(
            lambda pair: (pair[0],) * pair[1]
        ),
    ),
)


@st.composite
def _repeating(draw: st.DrawFn) -> list[Tree]:
    pool = draw(st.lists(trees, min_size=1, max_size=3))
    pool += [("S", tuple(pool)), ("S", tuple(reversed(pool)))]
    return draw(st.lists(st.sampled_from(pool), max_size=8))


forests = st.one_of(st.lists(trees, max_size=5), _repeating())
nonempty_forests = forests.filter(bool)


# --- Hypothesis: text ---------------------------------------------------------------


def loose_label(label: str, random: Random) -> str:
    """Write a label with some backslashes doubled that need not be."""
    if label in ("", r"\e"):
        return show_label(label)
    out = ""
    for char, following in zip(label, [*label[1:], ""], strict=True):
        must = char in BLANKS + "()" or (
            char == "\\" and (not following or following in BLANKS + "()\\")
        )
        may = char == "\\" and random.random() < 0.3
        out += "\\" + char if must or may else char
    return out


def loose_blanks(random: Random, *, least: int = 0) -> str:
    n = max(least, random.choice([0, 0, 0, 1, 1, 2]))
    return "".join(random.choice("    " + BLANKS) for _ in range(n))


def loose_tree(tree: Tree, random: Random) -> str:
    """Write a tree in any legal way."""
    outer = random.choice([0, 0, 0, 1, 2]) if tree[1] else 0
    out: list[str] = []
    after_label = False  # a bare label must not touch the one before it
    todo: list[Tree | str] = [")"] * outer + [tree] + ["("] * outer
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            out += (loose_blanks(random), item)
            after_label = False
        elif item is not tree and not item[1] and random.random() < 0.5:
            out.append(loose_blanks(random, least=after_label))
            out.append(loose_label(item[0], random))
            after_label = True
        else:
            out += (loose_blanks(random), "(", loose_blanks(random))
            out.append(loose_label(item[0], random))
            after_label = True
            todo.append(")")
            todo += reversed(item[1])
    return "".join(out)


@st.composite
def written_items(draw: st.DrawFn) -> tuple[list[Tree], list[str]]:
    """Draw trees, and each of them in some legal layout."""
    forest = draw(forests)
    random = draw(st.randoms(use_true_random=False))
    bom = draw(st.booleans())
    texts = [
        BOM * bom + loose_tree(tree, random) + loose_blanks(random) for tree in forest
    ]
    return forest, texts


@st.composite
def written_text(draw: st.DrawFn) -> tuple[list[Tree], str]:
    """Draw trees, and one text that holds them all."""
    forest = draw(nonempty_forests)
    random = draw(st.randoms(use_true_random=False))
    texts = [loose_tree(tree, random) + loose_blanks(random) for tree in forest]
    return forest, BOM * draw(st.booleans()) + "".join(texts)


@st.composite
def _nearly_legal(draw: st.DrawFn) -> str:
    """Draw a legal text with one to three small wounds."""
    _, text = draw(written_text())
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(text)))
        end = min(len(text), place + draw(st.integers(0, 2)))
        text = text[:place] + draw(st.sampled_from(PIECES)) + text[end:]
    return text


PIECES = ["", "", "(", ")", "()", "((", "))", "(A a)", "a", " ", "\n", "\r\n"]
PIECES += ["\\", r"\e", r"\(", r"\)", "\\ ", BOM, "\xa0", "\0", "é", "😀", "( ", " )"]

garbage = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=12).map("".join),
    _nearly_legal(),
    st.text(max_size=8),
)
garbage_items = st.lists(garbage, max_size=3)

# No UTF-8: stray bytes, cut and overlong sequences, a surrogate, more than 10FFFF.
NO_UTF8 = [b"\xff", b"\x80", b"\xc3", b"\xe2\x82", b"\xc0\x80", b"\xed\xa0\x80"]
NO_UTF8 += [b"\xf4\x90\x80\x80", b"\xf0\x9f\x98"]


@st.composite
def broken_bytes(draw: st.DrawFn) -> bytes:
    """Draw a legal or nearly legal text with some bytes in it that are no UTF-8."""
    text = draw(st.one_of(garbage, written_text().map(lambda pair: pair[1])))
    place = draw(st.integers(0, len(text)))
    return (
        text[:place].encode() + draw(st.sampled_from(NO_UTF8)) + text[place:].encode()
    )


@st.composite
def broken_str(draw: st.DrawFn) -> str:
    """Draw a text with a lone surrogate in it."""
    text = draw(st.one_of(garbage, written_text().map(lambda pair: pair[1])))
    place = draw(st.integers(0, len(text)))
    surrogate = draw(st.sampled_from(["\ud800", "\udcff", "\udfff"]))
    return text[:place] + surrogate + text[place:]
