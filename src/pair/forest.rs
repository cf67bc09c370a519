//! Pairs of trees that share placeholders.
//!
//! An **extended tree** is a tree some of whose nodes carry a placeholder, a number. A
//! pair (a tripartite DAG, tDAG) has two of them over one set of placeholders: nodes of
//! both trees that carry the same number are related.
//!
//! ```text
//! (S (NP:1 (NNS:1 Cows)) (VP (VB eat) (NP:3 ...)))     label NP, placeholder 1
//! ```
//!
//! For the kernel it matters which nodes carry a placeholder, and where the same one
//! comes again, but not its number. So a node's *label with the fact that it carries one*
//! is interned like any label, in an ordinary [`Forest`]: equal productions are equal
//! ids, as for tree kernels. The numbers themselves lie apart, per pair and in preorder.

use crate::error::quoted;
use crate::memory::{self, Map, or_panic};
use crate::ragged::Ragged;
use crate::{Context, Error, Forest, Label, NodeId, Nodes, ParseError, Result};

/// The numbers of one pair's placeholders, in all pairs together.
const PLACEHOLDERS: &str = "nodes with placeholders";
/// The largest placeholder: one number is kept free.
const MAX_PLACEHOLDER: u32 = u32::MAX - 1;
/// What stands for a placeholder in text where a label would be misread without one.
const NO_PLACEHOLDER: &str = "-";

/// What ends the interned form of a label whose node carries a placeholder.
const MARK: char = '\u{1}';
/// What ends that of a label without, if it would otherwise end like one of these two.
const PLAIN: char = '\u{2}';

/// The interned form of a label: different for different labels, and for nodes with and
/// without a placeholder.
pub(crate) fn marked(name: &str, carries: bool) -> Result<String> {
    let mut marked = memory::text(name)?;
    if carries {
        memory::write(&mut marked, MARK.encode_utf8(&mut [0; 4]))?;
    } else if name.ends_with([MARK, PLAIN]) {
        memory::write(&mut marked, PLAIN.encode_utf8(&mut [0; 4]))?;
    }
    Ok(marked)
}

/// The label behind an interned form, and whether the node carries a placeholder.
pub(crate) fn unmarked(name: &str) -> (&str, bool) {
    match name.strip_suffix(MARK) {
        Some(plain) => (plain, true),
        None => (name.strip_suffix(PLAIN).unwrap_or(name), false),
    }
}

/// A side of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// The first tree.
    Left,
    /// The second tree.
    Right,
}

impl Side {
    /// Both, in order.
    pub const BOTH: [Self; 2] = [Self::Left, Self::Right];

    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Left => "left",
            Self::Right => "right",
        }
    }
}

/// A list of pairs of trees with common placeholders.
///
/// ```
/// use treekernel_rs::pair::PairForest;
///
/// let pairs = PairForest::from_brackets(["(NP:1 (NNS:1 cows))"], ["(S (NP:1 Cows) eat)"], ":")?;
/// assert_eq!(pairs.len(), 1);
/// assert_eq!(pairs.to_brackets(0, ":")[1], "(S (NP:1 Cows) eat)");
/// # Ok::<(), treekernel_rs::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct PairForest {
    /// Trees 2i and 2i + 1 are those of pair i; labels in their interned form.
    trees: Forest,
    /// Per pair: the placeholders of the left tree's nodes that carry one, in preorder,
    /// then those of the right tree's.
    placeholders: Ragged<u32>,
}

impl PairForest {
    /// Reads pairs from bracketed text, one tree per item: label, separator and a decimal
    /// number make a node that carries a placeholder.
    ///
    /// The last separator of a label counts. Where nothing but digits follows it, and
    /// something precedes it, they are a placeholder; a label of which that is not meant,
    /// such as the time 10:30, is written with `-` for "none": `10:30:-`. Any other label
    /// stands for itself.
    ///
    /// # Errors
    /// [`Error::PairParse`] for an item that is not exactly one tree, or a number too
    /// large; [`Error::Length`] if there are more trees on one side;
    /// [`Error::Parameter`] for a separator that is empty, or has a blank, bracket,
    /// backslash, digit or `-`.
    pub fn from_brackets<'a>(
        left: impl IntoIterator<Item = &'a str>,
        right: impl IntoIterator<Item = &'a str>,
        separator: &str,
    ) -> Result<Self> {
        let items = [memory::collect(left)?, memory::collect(right)?];
        Self::from_items(&items, separator, &Context::default())
    }

    /// As [`from_brackets`](Self::from_brackets), of left and right items, in a context.
    ///
    /// # Errors
    /// As [`from_brackets`](Self::from_brackets), and what `context` returns.
    pub(crate) fn from_items(
        items: &[Vec<&str>; 2],
        separator: &str,
        context: &Context,
    ) -> Result<Self> {
        check_separator(separator)?;
        let mut raw = Forest::default();
        // All left trees, then all right ones, in one store.
        for (side, items) in Side::BOTH.into_iter().zip(items) {
            let read = raw.push_bracket_items_with(items.iter().copied(), context);
            read.map_err(|error| match error {
                Error::Parse(error) => Error::PairParse { side: side.name(), error },
                other => other,
            })?;
        }
        let n = items[0].len();
        if items[1].len() != n {
            let expected = format!("{n}, one for each of left");
            return Err(Error::Length {
                array: "right",
                expected,
                got: items[1].len(),
            });
        }
        let mut reader = Reader { separator, splits: Map::default() };
        Self::build(n, context, |pair, side, builder| {
            let tree = pair + if side == Side::Right { n } else { 0 };
            let nodes = raw.nodes();
            builder.tree(nodes, raw.roots()[tree], |node| {
                reader.label(nodes, node, |name| {
                    let text = items[side as usize][pair];
                    too_large(side, pair, text, name, separator)
                })
            })
        })
    }

    /// Makes `n` pairs, of the trees that `tree` hands to the builder.
    pub(crate) fn build(
        n: usize,
        context: &Context,
        mut tree: impl FnMut(usize, Side, &mut Builder<'_, '_>) -> Result<NodeId>,
    ) -> Result<Self> {
        let mut pairs = Self::default();
        let placeholders = &mut pairs.placeholders;
        pairs.trees.extend_with(|nodes, roots| {
            let mut builder = Builder {
                nodes,
                placeholders,
                labels: Map::default(),
                below: Vec::new(),
                context,
            };
            for pair in 0..n {
                for side in Side::BOTH {
                    let root = tree(pair, side, &mut builder)?;
                    memory::push(roots, root)?;
                }
                builder.placeholders.close(PLACEHOLDERS)?;
            }
            Ok(())
        })?;
        // The store is complete: growth by doubling has left room.
        pairs.trees.shrink_to_fit();
        pairs.placeholders.shrink();
        Ok(pairs)
    }

    /// How many pairs there are.
    pub fn len(&self) -> usize {
        self.placeholders.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn forest(&self) -> &Forest {
        &self.trees
    }

    pub(crate) fn root(&self, pair: usize, side: Side) -> NodeId {
        self.trees.roots()[2 * pair + side as usize]
    }

    /// The placeholders of one pair's nodes that carry one: the left tree's in preorder,
    /// then the right tree's.
    pub fn placeholders(&self, pair: usize) -> &[u32] {
        self.placeholders.get(pair)
    }

    /// How many different placeholders each pair has.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn n_placeholders(&self) -> Result<Vec<usize>> {
        let count = |ids: &[u32]| {
            let mut ids = memory::copied(ids)?;
            ids.sort_unstable();
            ids.dedup();
            Ok(ids.len())
        };
        memory::try_collect(self.placeholders.iter().map(count))
    }

    /// The pairs at the given indices.
    ///
    /// # Errors
    /// [`Error::Capacity`] if repetition makes them too many.
    ///
    /// # Panics
    /// When an index is out of range, as slices do.
    pub fn select(&self, indices: &[usize]) -> Result<Self> {
        let trees = indices.iter().flat_map(|&i| [2 * i, 2 * i + 1]);
        let trees = self.trees.picked(trees)?;
        let mut placeholders = Ragged::default();
        for &index in indices {
            placeholders.extend(self.placeholders(index).iter().copied())?;
            placeholders.close(PLACEHOLDERS)?;
        }
        Ok(Self { trees, placeholders })
    }

    /// The pairs of one list followed by those of another.
    ///
    /// # Errors
    /// [`Error::Capacity`] if together they are too many.
    pub fn concat(&self, other: &Self) -> Result<Self> {
        self.concat_with(other, &Context::default())
    }

    /// As [`concat`](Self::concat), in a context.
    pub(crate) fn concat_with(&self, other: &Self, context: &Context) -> Result<Self> {
        let trees = Forest::try_concat_all([&self.trees, &other.trees], context)?;
        let mut placeholders = self.placeholders.copied()?;
        for ids in other.placeholders.iter() {
            placeholders.extend(ids.iter().copied())?;
            placeholders.close(PLACEHOLDERS)?;
        }
        Ok(Self { trees, placeholders })
    }

    /// The trees of one side, without placeholders.
    ///
    /// # Errors
    /// [`Error::Capacity`], though there are no more trees than here.
    pub fn plain(&self, side: Side) -> Result<Forest> {
        self.plain_with(side, &Context::default())
    }

    /// As [`plain`](Self::plain), in a context.
    pub(crate) fn plain_with(&self, side: Side, context: &Context) -> Result<Forest> {
        let nodes = self.trees.nodes();
        let mut forest = Forest::default();
        forest.extend_with(|into, roots| {
            // By label with its mark: the plain one, interned when first met.
            let mut plain_labels: Map<Label, Label> = Map::default();
            let mut below = Vec::new();
            for pair in 0..self.len() {
                let root = self.root(pair, side);
                let root =
                    copy(nodes, root, into, &mut below, context, |node, into| {
                        let label = nodes.label(node);
                        if let Some(&plain) = plain_labels.get(&label) {
                            return Ok(plain);
                        }
                        let plain =
                            into.labels_mut().intern(unmarked(nodes.name(node)).0)?;
                        plain_labels.insert(label, plain)?;
                        Ok(plain)
                    })?;
                memory::push(roots, root)?;
            }
            Ok(())
        })?;
        Ok(forest)
    }

    /// The two trees of a pair as text that [`from_brackets`](Self::from_brackets) reads
    /// back with the same separator, whatever the labels contain.
    ///
    /// # Panics
    /// Without memory for it.
    pub fn to_brackets(&self, pair: usize, separator: &str) -> [String; 2] {
        or_panic(self.try_to_brackets(pair, separator))
    }

    /// As [`to_brackets`](Self::to_brackets), or an error.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn try_to_brackets(&self, pair: usize, separator: &str) -> Result<[String; 2]> {
        let nodes = self.trees.nodes();
        // Copies ask for labels in preorder, which is the order of the placeholders.
        let mut ids = self.placeholders(pair).iter();
        let (mut below, context) = (Vec::new(), &Context::default());
        let mut print = |side| {
            // For this text alone: labels with numbers are no labels of the forest.
            let mut scratch = Nodes::default();
            let root = self.root(pair, side);
            let root =
                copy(nodes, root, &mut scratch, &mut below, context, |node, into| {
                    let (name, carries) = unmarked(nodes.name(node));
                    let mut text = memory::text(name)?;
                    if carries {
                        if let Some(id) = ids.next() {
                            memory::write(&mut text, separator)?;
                            memory::write(&mut text, &id.to_string())?;
                        }
                    } else if split(name, separator) != Split::Plain {
                        // Else its end would be read as a placeholder.
                        memory::write(&mut text, separator)?;
                        memory::write(&mut text, NO_PLACEHOLDER)?;
                    }
                    into.labels_mut().intern(&text)
                })?;
            let mut text = String::new();
            scratch.print(root, usize::MAX, &mut text)?;
            Ok::<_, Error>(text)
        };
        let [left, right] = Side::BOTH;
        Ok([print(left)?, print(right)?])
    }
}

impl PartialEq for PairForest {
    /// Equal lists of equal pairs, placeholders included, whatever the stores.
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len()
            && self.placeholders.iter().eq(other.placeholders.iter())
            && self.trees == other.trees
    }
}

/// Placeholders by the order of their first visit, from 0; and those that had the numbers.
pub(crate) fn renumbered(ids: &[u32]) -> Result<(Vec<u32>, Vec<u32>)> {
    let mut number_of: Map<u32, u32> = Map::default();
    let (mut numbers, mut names) = (Vec::new(), Vec::new());
    for &id in ids {
        let next = names.len() as u32;
        let number = *number_of.get_or(id, next)?;
        // Met for the first time, so it has the next number.
        if number == next {
            memory::push(&mut names, id)?;
        }
        memory::push(&mut numbers, number)?;
    }
    Ok((numbers, names))
}

/// Copies a tree with other labels, for which it asks in preorder.
fn copy(
    from: &Nodes,
    root: NodeId,
    into: &mut Nodes,
    below: &mut Vec<NodeId>,
    context: &Context,
    mut label: impl FnMut(NodeId, &mut Nodes) -> Result<Label>,
) -> Result<NodeId> {
    let mut order = Vec::new();
    let mut todo = memory::collect([root])?;
    while let Some(node) = todo.pop() {
        context.check()?;
        memory::push(&mut order, (node, label(node, into)?))?;
        memory::extend(&mut todo, from.children(node).iter().rev().copied())?;
    }
    // Backwards through a preorder, a node finds its children on top of the stack, the
    // first one uppermost.
    below.clear();
    for (node, label) in order.into_iter().rev() {
        context.check()?;
        let first = below.len() - from.children(node).len();
        below[first..].reverse();
        let here = into.intern(label, &below[first..])?;
        below.truncate(first);
        memory::push(below, here)?;
    }
    Ok(below.pop().unwrap_or(NodeId(0)))
}

/// What pairs are built into.
pub(crate) struct Builder<'a, 'w> {
    nodes: &'a mut Nodes,
    placeholders: &'a mut Ragged<u32>,
    /// Interned forms, by label and whether it carries a placeholder.
    labels: Map<(String, bool), Label>,
    below: Vec<NodeId>,
    pub(crate) context: &'a Context<'w>,
}

impl Builder<'_, '_> {
    /// Copies a tree, asking in preorder for each node's label and placeholder.
    pub(crate) fn tree<'n>(
        &mut self,
        from: &Nodes,
        root: NodeId,
        mut read: impl FnMut(NodeId) -> Result<(&'n str, Option<u32>)>,
    ) -> Result<NodeId> {
        let Self { nodes, placeholders, labels, below, context } = self;
        copy(from, root, nodes, below, context, |node, into| {
            let (name, placeholder) = read(node)?;
            // Copies ask in preorder, so they come in the order that the list wants.
            placeholders.extend(placeholder)?;
            let carries = placeholder.is_some();
            let key = (memory::text(name)?, carries);
            if let Some(&label) = labels.get(&key) {
                return Ok(label);
            }
            let label = into.labels_mut().intern(&marked(name, carries)?)?;
            labels.insert(key, label)?;
            Ok(label)
        })
    }
}

/// What a label says of a placeholder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Split<'a> {
    /// Nothing: it stands for itself.
    Plain,
    /// What comes before the separator carries none.
    Without(&'a str),
    /// What comes before the separator carries this one; None: too large.
    With(&'a str, Option<u32>),
}

fn split<'a>(label: &'a str, separator: &str) -> Split<'a> {
    match label.rsplit_once(separator) {
        Some((name, NO_PLACEHOLDER)) if !name.is_empty() => Split::Without(name),
        Some((name, digits))
            if !name.is_empty()
                && !digits.is_empty()
                && digits.bytes().all(|b| b.is_ascii_digit()) =>
        {
            Split::With(name, digits.parse().ok().filter(|&id| id <= MAX_PLACEHOLDER))
        }
        _ => Split::Plain,
    }
}

/// Refuses a separator with which text could not be read back.
///
/// # Errors
/// [`Error::Parameter`] as [`PairForest::from_brackets`].
pub(crate) fn check_separator(separator: &str) -> Result<()> {
    let is_bad = |c: char| {
        c.is_whitespace() || c.is_ascii_digit() || matches!(c, '(' | ')' | '\\' | '-')
    };
    if !separator.is_empty() && !separator.contains(is_bad) {
        return Ok(());
    }
    Err(Error::Parameter {
        name: "separator",
        expected: "text without blanks, brackets, backslashes, digits and '-'",
        got: quoted(separator),
    })
}

/// Takes labels apart, each once.
struct Reader<'s, 'n> {
    separator: &'s str,
    splits: Map<Label, Split<'n>>,
}

impl<'n> Reader<'_, 'n> {
    /// A node's label and placeholder; a label whose number is too large makes the error.
    fn label(
        &mut self,
        nodes: &'n Nodes,
        node: NodeId,
        too_large: impl FnOnce(&str) -> Error,
    ) -> Result<(&'n str, Option<u32>)> {
        let (name, label) = (nodes.name(node), nodes.label(node));
        let parts = match self.splits.get(&label) {
            Some(parts) => *parts,
            None => *self.splits.get_or(label, split(name, self.separator))?,
        };
        match parts {
            Split::Plain => Ok((name, None)),
            Split::Without(plain) => Ok((plain, None)),
            Split::With(plain, Some(id)) => Ok((plain, Some(id))),
            Split::With(_, None) => Err(too_large(name)),
        }
    }
}

/// The error of a placeholder that is too large. A label is met once for all its places,
/// so the text is searched for the first one.
fn too_large(
    side: Side,
    tree: usize,
    text: &str,
    name: &str,
    separator: &str,
) -> Error {
    // The error names the first place in the item where the label ends in these digits.
    let digits = name.rsplit_once(separator).map_or("", |(_, digits)| digits);
    let end = format!("{separator}{digits}");
    let ends_here = |at: &usize| {
        let rest = &text[at + end.len()..];
        rest.is_empty()
            || rest.starts_with(|c: char| c.is_whitespace() || "()".contains(c))
    };
    let offset = text.match_indices(&end).map(|(at, _)| at).find(ends_here);
    let offset = offset.unwrap_or(0) + separator.len();
    let before = text.get(..offset).unwrap_or_default();
    let (line, column) = crate::parse::position(before);
    let short: String = digits.chars().take(20).collect(); // bounded: 20 characters
    let dots = if short.len() < digits.len() { "..." } else { "" };
    Error::PairParse {
        side: side.name(),
        error: Box::new(ParseError {
            tree,
            line,
            column,
            offset,
            expected: "a placeholder of at most 4294967294",
            got: format!("{short}{dots}"),
            open: None,
        }),
    }
}
