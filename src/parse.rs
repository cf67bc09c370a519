//! Bracketed text to a [`Forest`], and back.
//!
//! ```text
//! tree  := '(' label child* ')'           child := tree | label
//! ```
//!
//! Both notations in use are read, mixed at will: `(NN dog)`, where a bare label is a
//! leaf, and `(NN(dog))`, where leaves have brackets too. Blanks between brackets are
//! optional, and an empty bracket around one whole tree of more than a node,
//! `( (S ...) )`, is dropped.
//!
//! A label is a run of characters other than brackets and blanks (the six ASCII ones);
//! `\(`, `\)`, `\\` and a backslash before a blank stand for that character, and a label
//! written `\e` is the empty one. Any other backslash is an ordinary character, so that
//! the Penn Treebank's `1\/2` and `\*` stay what they are. A byte-order mark before the
//! text is skipped.
//!
//! Printing is the inverse for every tree, whatever its labels contain:
//!
//! ```
//! use treekernel_rs::Forest;
//!
//! let forest = Forest::from_brackets(r"(NP(DT(the))(NN(dog))) (NP (NN \(\)))")?;
//! assert_eq!(forest.to_brackets(), ["(NP (DT the) (NN dog))", r"(NP (NN \(\)))"]);
//!
//! let error = Forest::from_brackets("(NP (DT the)").unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "tree 0, line 1, column 13 (byte 12): expected ')', got the end of the text; \
//!      the bracket opened at line 1, column 1 is open"
//! );
//! # Ok::<(), treekernel_rs::Error>(())
//! ```
//!
//! # Complexity
//! One pass, linear in the text, with an explicit stack: depth costs memory only. Labels
//! are scanned eight bytes at a time; the word in which a short label's end is found is
//! also the key under which it is interned.

use crate::error::quoted;
use crate::forest::{MAX_BYTES, check_size};
use crate::memory::{self, or_panic, reserve};
use crate::{Context, Error, Forest, Label, NodeId, Nodes, ParseError, Result};

/// Bytes of text between two questions whether to go on: some milliseconds.
const BYTES_BETWEEN_CHECKS: usize = 1 << 20;

impl Forest {
    /// Reads one or more trees from one text.
    ///
    /// # Errors
    /// [`Error::Parse`] for text that is not a sequence of trees, or blank.
    pub fn from_brackets(text: &str) -> Result<Self> {
        let mut forest = Self::default();
        forest.push_brackets(text)?;
        forest.shrink_to_fit();
        Ok(forest)
    }

    /// Reads one tree from each item.
    ///
    /// # Errors
    /// [`Error::Parse`] for an item that is not exactly one tree; its number is the
    /// item's, and line, column and offset count within the item.
    pub fn from_bracket_items<'a>(
        items: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self> {
        let mut forest = Self::default();
        forest.push_bracket_items(items)?;
        forest.shrink_to_fit();
        Ok(forest)
    }

    /// Appends the trees of one text. A failed call leaves the forest as it was.
    ///
    /// # Errors
    /// As [`from_brackets`](Self::from_brackets).
    pub fn push_brackets(&mut self, text: &str) -> Result<()> {
        self.push_brackets_with(text, &Context::default())
    }

    /// As [`push_brackets`](Self::push_brackets), in a context, which is asked about every megabyte.
    ///
    /// # Errors
    /// As [`push_brackets`](Self::push_brackets), and what `context` returns.
    pub fn push_brackets_with(&mut self, text: &str, context: &Context) -> Result<()> {
        self.extend_with(|nodes, roots| {
            let mut parser = Parser::default();
            let mut cursor = Cursor::new(text, 0);
            cursor.skip_blanks();
            loop {
                let root = parser.tree(&mut cursor, nodes, context)?;
                memory::push(roots, root)?;
                cursor.tree += 1;
                cursor.skip_blanks();
                if cursor.at == text.len() {
                    return Ok(());
                }
            }
        })
    }

    /// Appends one tree per item. A failed call leaves the forest as it was.
    ///
    /// # Errors
    /// As [`from_bracket_items`](Self::from_bracket_items).
    pub fn push_bracket_items<'a>(
        &mut self,
        items: impl IntoIterator<Item = &'a str>,
    ) -> Result<()> {
        self.push_bracket_items_with(items, &Context::default())
    }

    /// As [`push_bracket_items`](Self::push_bracket_items), in a context, which is asked
    /// about every megabyte.
    ///
    /// # Errors
    /// As [`push_bracket_items`](Self::push_bracket_items), and what `context` returns.
    pub fn push_bracket_items_with<'a>(
        &mut self,
        items: impl IntoIterator<Item = &'a str>,
        context: &Context,
    ) -> Result<()> {
        self.push_some_items(items.into_iter().map(Ok), context, Err)
    }

    /// As [`push_bracket_items`](Self::push_bracket_items). `wrong` takes the error of
    /// an item that is no tree, and ends the call or has the item left out. The store
    /// may then hold parts of it.
    pub(crate) fn push_some_items<'a>(
        &mut self,
        items: impl IntoIterator<Item = Result<&'a str>>,
        context: &Context,
        mut wrong: impl FnMut(Error) -> Result<()>,
    ) -> Result<()> {
        self.extend_with(|nodes, roots| {
            // Kept from item to item: its stacks have their memory.
            let mut parser = Parser::default();
            for (tree, text) in items.into_iter().enumerate() {
                match text.and_then(|text| parser.item(text, tree, nodes, context)) {
                    Ok(root) => {
                        memory::push(roots, root)?;
                    }
                    Err(error @ Error::Parse(_)) => wrong(error)?,
                    Err(other) => return Err(other),
                }
            }
            Ok(())
        })
    }

    /// Every tree in Penn notation, `(NN dog)`. Reads back as the same tree. The text is
    /// as long as the trees are written out, which sharing does not bound.
    pub fn to_brackets(&self) -> Vec<String> {
        let print = |&root: &NodeId| {
            let mut text = String::new();
            self.nodes().print(root, usize::MAX, &mut text)?;
            Ok(text)
        };
        or_panic(memory::try_collect(self.roots().iter().map(print)))
    }

    /// As [`to_brackets`](Self::to_brackets), or an error.
    ///
    /// # Errors
    /// [`Error::Expansion`] beyond [`MAX_BYTES`] of text, [`Error::Memory`], and what
    /// `context` returns.
    pub fn to_brackets_with(&self, context: &Context) -> Result<Vec<String>> {
        // Counted before it is written: sharing makes trees far longer than their
        // store.
        let nodes = self.nodes();
        let mut label = String::new();
        let sizes = self.totals(|node| {
            label.clear();
            // Without memory for the label there is none for the text.
            let printed = write_label(&mut label, nodes.name(node));
            let len = printed.map_or(MAX_BYTES, |()| label.len() as u64);
            // A blank before it, and brackets around an inner node.
            len + if nodes.is_leaf(node) { 1 } else { 3 }
        })?;
        let needed = sizes.iter().copied().fold(0, u64::saturating_add);
        check_size("the text of the trees", "bytes", needed, MAX_BYTES)?;
        let mut texts = Vec::new();
        reserve(&mut texts, self.len())?;
        for (&root, &size) in self.roots().iter().zip(&sizes) {
            // A root has no blank before it, but brackets even if it is a leaf.
            let (mut text, bytes) = (String::new(), size as usize + 1);
            text.try_reserve_exact(bytes).map_err(|_| Error::Memory { bytes })?;
            nodes.print_while(root, &mut text, |_| context.check().map(|()| true))?;
            memory::push(&mut texts, text)?;
        }
        Ok(texts)
    }
}

/// Bytes as text; or the error of what comes first in them, a place that is not UTF-8
/// or one that is not a tree. `item` is the number of an item of a list, None for a text
/// of several trees.
///
/// # Errors
/// [`Error::Parse`].
pub fn utf8(bytes: &[u8], item: Option<usize>) -> Result<&str> {
    utf8_with(bytes, item, &Context::default())
}

/// As [`utf8`]; `context` is asked about every megabyte, and its error ends the
/// call.
pub(crate) fn utf8_with<'b>(
    bytes: &'b [u8],
    item: Option<usize>,
    context: &Context,
) -> Result<&'b str> {
    std::str::from_utf8(bytes).map_err(|error| {
        let offset = error.valid_up_to();
        // What stands before the wrong byte may be wrong itself, and then comes first.
        let before = String::from_utf8_lossy(&bytes[..offset]);
        let mut forest = Forest::default();
        let parsed = match item {
            None => forest.push_brackets_with(&before, context),
            Some(_) => forest.push_bracket_items_with([&*before], context),
        };
        let tree = match parsed {
            Err(Error::Parse(mut first)) => {
                first.tree = item.unwrap_or(first.tree);
                if first.offset < offset {
                    return Error::Parse(first);
                }
                first.tree
            }
            Err(other) => return other,
            Ok(()) => item.unwrap_or(forest.len()),
        };
        let (line, column) = position(&before);
        let got = format!("the byte 0x{:02x}", bytes[offset]);
        let expected = "UTF-8";
        let error =
            ParseError { tree, line, column, offset, expected, got, open: None };
        Error::Parse(Box::new(error))
    })
}

/// Line and column, from 1, of what follows `before`.
pub(crate) fn position(before: &str) -> (usize, usize) {
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    (line, before[start..].chars().count() + 1)
}

#[inline]
fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte.wrapping_sub(b'\t') < 5
}

/// A place in a text.
struct Cursor<'a> {
    text: &'a str,
    at: usize,
    tree: usize,
}

impl<'a> Cursor<'a> {
    fn new(text: &'a str, tree: usize) -> Self {
        // The mark is no part of a label.
        let at = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        Self { text, at, tree }
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    #[inline]
    fn skip_blanks(&mut self) {
        while self.peek().is_some_and(is_blank) {
            self.at += 1;
        }
    }

    /// Reads the label that starts here; there is at least one byte of it.
    #[inline]
    fn label(&mut self, nodes: &mut Nodes) -> Result<Label> {
        let rest = &self.text.as_bytes()[self.at..];
        // Eight bytes at a time: the end of a short label is among the first eight.
        if let Some((word, _)) = rest.split_first_chunk::<8>() {
            let word = u64::from_le_bytes(*word);
            let len = (special(word).trailing_zeros() / 8) as usize;
            if len < 8 && (is_blank(rest[len]) || matches!(rest[len], b'(' | b')')) {
                // With zeros behind the label, the word is the key of the string.
                let key = word & ((1 << (8 * len)) - 1);
                let (text, start) = (self.text, self.at);
                self.at += len;
                return nodes
                    .labels_mut()
                    .intern_short(key, || &text[start..start + len]);
            }
        }
        self.long_label(nodes)
    }

    /// Labels of eight bytes and more, at the end of the text, or with an escape.
    fn long_label(&mut self, nodes: &mut Nodes) -> Result<Label> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        let mut end = start;
        loop {
            // Words without a mark are part of the label as they are.
            while let Some((word, _)) = bytes[end..].split_first_chunk::<8>() {
                let len =
                    (special(u64::from_le_bytes(*word)).trailing_zeros() / 8) as usize;
                end += len;
                if len < 8 {
                    break;
                }
            }
            match bytes.get(end) {
                None | Some(b'(' | b')') => break,
                Some(&b) if is_blank(b) => break,
                Some(b'\\') => return self.escaped_label(nodes),
                Some(_) => end += 1, // a control character, or near the end
            }
        }
        self.at = end;
        nodes.labels_mut().intern(&self.text[start..end])
    }

    #[cold]
    fn escaped_label(&mut self, nodes: &mut Nodes) -> Result<Label> {
        let mut name = String::new();
        let mut rest = self.text[self.at..].char_indices().peekable();
        let mut end = self.text.len();
        while let Some((at, char)) = rest.next() {
            let next = rest.peek().map(|&(_, next)| next);
            match (char, next) {
                ('\\', Some(next)) if needs_escape(next) || next == '\\' => {
                    memory::write(&mut name, next.encode_utf8(&mut [0; 4]))?;
                    rest.next();
                }
                ('(' | ')', _) => {
                    end = self.at + at;
                    break;
                }
                (char, _) if needs_escape(char) => {
                    end = self.at + at;
                    break;
                }
                (char, _) => memory::write(&mut name, char.encode_utf8(&mut [0; 4]))?,
            }
        }
        let is_empty = &self.text[self.at..end] == EMPTY;
        self.at = end;
        nodes.labels_mut().intern(if is_empty { "" } else { &name })
    }

    #[cold]
    fn error(&self, expected: &'static str, open: Option<usize>) -> Error {
        let rest = &self.text[self.at..];
        let got = match rest.bytes().next() {
            None => "the end of the text".to_owned(),
            Some(bracket @ (b'(' | b')')) => format!("'{}'", bracket as char),
            Some(_) => {
                let end = rest.find(|c| needs_escape(c) || c == '\\');
                let label = &rest[..end.unwrap_or(rest.len())];
                let short: String = label.chars().take(20).collect();
                let dots = if short.len() < label.len() { "..." } else { "" };
                quoted(if short.is_empty() { "\\" } else { &short }) + dots
            }
        };
        let (line, column) = position(&self.text[..self.at]);
        Error::Parse(Box::new(ParseError {
            tree: self.tree,
            line,
            column,
            offset: self.at,
            expected,
            got,
            open: open.map(|at| position(&self.text[..at])),
        }))
    }
}

/// Marks (with the upper bit) the first byte that may end a label: control characters
/// and blanks, brackets, backslash. Bytes above the first mark may be marked wrongly.
#[inline]
fn special(word: u64) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    // The upper bit of each byte that is below the limit; a borrow reaches higher bytes
    // only.
    let below = |word: u64, limit: u64| (word.wrapping_sub(ONES * limit)) & !word;
    let control_or_blank = below(word, 0x21);
    // The two brackets differ in the lowest bit.
    let bracket = below((word & !ONES) ^ (ONES * 0x28), 1);
    let backslash = below(word ^ (ONES * 0x5c), 1);
    (control_or_blank | bracket | backslash) & (ONES * 0x80)
}

/// A bracket that is open.
struct Open {
    /// None for an empty bracket around the whole tree.
    label: Option<Label>,
    first_child: usize,
    at: usize,
}

/// The stacks of the parser: kept from tree to tree.
struct Parser {
    open: Vec<Open>,
    children: Vec<NodeId>,
    /// Where in the text to ask whether to go on.
    next_check: usize,
}

impl Default for Parser {
    fn default() -> Self {
        let next_check = BYTES_BETWEEN_CHECKS;
        Self { open: Vec::new(), children: Vec::new(), next_check }
    }
}

impl Parser {
    /// Makes room for what comes before the next check: an open bracket and a child take
    /// two bytes of text each.
    fn make_room(&mut self, cursor: &Cursor) -> Result<()> {
        // Both stacks get it in advance, so that pushes need not ask.
        let rest = cursor.text.len() - cursor.at;
        let most = rest.min(BYTES_BETWEEN_CHECKS) / 2 + 1;
        reserve(&mut self.open, most)?;
        reserve(&mut self.children, most)
    }

    /// Reads a text that holds one tree.
    fn item(
        &mut self,
        text: &str,
        tree: usize,
        nodes: &mut Nodes,
        context: &Context,
    ) -> Result<NodeId> {
        let mut cursor = Cursor::new(text, tree);
        cursor.skip_blanks();
        let root = self.tree(&mut cursor, nodes, context)?;
        cursor.skip_blanks();
        if cursor.at < text.len() {
            return Err(cursor.error("the end of the text after one tree", None));
        }
        // Places count from the start of an item: the next one begins at 0.
        self.next_check = self.next_check.saturating_sub(text.len());
        Ok(root)
    }

    /// Reads the tree that starts at the cursor, which stands on no blank.
    fn tree(
        &mut self,
        cursor: &mut Cursor,
        nodes: &mut Nodes,
        context: &Context,
    ) -> Result<NodeId> {
        self.open.clear();
        self.children.clear();
        self.make_room(cursor)?;
        let mut wrapped = false; // in an empty bracket whose tree is complete
        loop {
            // The stacks have room for what comes until then.
            if cursor.at >= self.next_check {
                self.next_check = cursor.at + BYTES_BETWEEN_CHECKS;
                self.make_room(cursor)?;
                context.check_now()?;
            }
            match cursor.peek() {
                Some(b'(') if !wrapped => self.open_bracket(cursor, nodes)?,
                Some(b')') => {
                    let Some(closed) = self.open.pop() else {
                        return Err(cursor.error("'('", None));
                    };
                    // `((..))` is the structure of some RNA, and no tree of one node.
                    if closed.label.is_none() && nodes.is_leaf(self.children[0]) {
                        let expected = "a tree of more than one node before ')'";
                        return Err(cursor.error(expected, Some(closed.at)));
                    }
                    cursor.at += 1;
                    let node = match closed.label {
                        // Its children are those pushed since its bracket opened.
                        Some(label) => {
                            let below = &self.children[closed.first_child..];
                            nodes.intern(label, below)?
                        }
                        None => self.children[0],
                    };
                    self.children.truncate(closed.first_child);
                    match self.open.last() {
                        None => return Ok(node),
                        // An empty bracket is complete with its only tree.
                        Some(parent) => wrapped = parent.label.is_none(),
                    }
                    self.children.push(node);
                }
                Some(byte) if !is_blank(byte) && !wrapped && !self.open.is_empty() => {
                    let label = cursor.label(nodes)?;
                    self.children.push(nodes.intern_leaf(label)?);
                }
                Some(byte) if is_blank(byte) => {
                    cursor.skip_blanks();
                }
                _ => {
                    let open = self.open.last().map(|o| o.at);
                    let expected = match self.open.last() {
                        None => "'('",
                        Some(_) => "')'",
                    };
                    return Err(cursor.error(expected, open));
                }
            }
        }
    }

    #[inline]
    fn open_bracket(&mut self, cursor: &mut Cursor, nodes: &mut Nodes) -> Result<()> {
        let at = cursor.at;
        cursor.at += 1;
        cursor.skip_blanks();
        let label = match cursor.peek() {
            // Below a labelled bracket there is no unlabelled one: the last tells of all.
            Some(b'(') if self.open.last().is_none_or(|o| o.label.is_none()) => None,
            None | Some(b'(' | b')') => return Err(cursor.error("a label", Some(at))),
            Some(_) => Some(cursor.label(nodes)?),
        };
        let first_child = self.children.len();
        // Half of the brackets of a parse tree are `(NN dog)`: read in one go, without
        // the stack. Worth a tenth of the time.
        let inside = self.open.last().is_some_and(|open| open.label.is_some());
        if let (Some(label), Some(b' '), true) = (label, cursor.peek(), inside) {
            cursor.at += 1;
            if cursor.peek().is_some_and(|b| !is_blank(b) && !matches!(b, b'(' | b')'))
            {
                let word = cursor.label(nodes)?;
                self.children.push(nodes.intern_leaf(word)?);
                if cursor.peek() == Some(b')') {
                    cursor.at += 1;
                    let node = nodes.intern(label, &self.children[first_child..])?;
                    self.children[first_child] = node;
                    return Ok(());
                }
            }
        }
        self.open.push(Open { label, first_child, at });
        Ok(())
    }
}

/// The written form of the empty label.
const EMPTY: &str = "\\e";

fn needs_escape(char: char) -> bool {
    matches!(char, '(' | ')') || u8::try_from(char).is_ok_and(is_blank)
}

impl Nodes {
    /// Appends a tree in Penn notation; stops early once `text` exceeds `limit` bytes,
    /// for those who show only a beginning. Returns whether the tree was complete.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub(crate) fn print(
        &self,
        root: NodeId,
        limit: usize,
        text: &mut String,
    ) -> Result<bool> {
        self.print_while(root, text, |text| Ok(text.len() <= limit))
    }

    /// Appends a tree in Penn notation; `go_on` sees the text before every node. Returns
    /// whether it went on to the end.
    fn print_while(
        &self,
        root: NodeId,
        text: &mut String,
        mut go_on: impl FnMut(&str) -> Result<bool>,
    ) -> Result<bool> {
        let mut todo = memory::collect([(root, 0)])?;
        memory::write(text, "(")?;
        write_label(text, self.name(root))?;
        // The stack has the path to the node at hand, each with its next child.
        while let Some((node, next)) = todo.last_mut() {
            if !go_on(text)? {
                return Ok(false);
            }
            let Some(&child) = self.children(*node).get(*next) else {
                memory::write(text, ")")?;
                todo.pop();
                continue;
            };
            *next += 1;
            memory::write(text, " ")?;
            if !self.is_leaf(child) {
                memory::write(text, "(")?;
                memory::push(&mut todo, (child, 0))?;
            }
            write_label(text, self.name(child))?;
        }
        Ok(true)
    }
}

/// A label as the parser reads it again.
///
/// # Errors
/// [`Error::Memory`].
pub(crate) fn write_label(text: &mut String, name: &str) -> Result<()> {
    if name.is_empty() {
        return memory::write(text, EMPTY);
    }
    let mut chars = name.chars().peekable();
    let doubles = name == EMPTY;
    while let Some(char) = chars.next() {
        // A backslash is doubled where it would be read as an escape.
        let next = chars.peek().copied();
        let is_read = char == '\\'
            && (doubles || next.is_none_or(|n| n == '\\' || needs_escape(n)));
        if is_read || needs_escape(char) {
            memory::write(text, "\\")?;
        }
        memory::write(text, char.encode_utf8(&mut [0; 4]))?;
    }
    Ok(())
}
