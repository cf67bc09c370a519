//! Trees as sparse vectors of named features.
//!
//! A feature is a piece of a tree: a subtree, a fragment, a path, a window. Where the
//! pieces are a kernel's, dot products of the vectors are the kernel, cut at the size that
//! was asked for:
//!
//! | kind | a feature is | value |
//! |---|---|---|
//! | [`Kind::Subtrees`] | a node with all below it | √λ per inner node |
//! | [`Kind::Fragments`] | a fragment of the subset tree kernel | √λ per production |
//! | [`Kind::Partial`] | a fragment of the partial tree kernel | √μ per node, λ per leaf of it and per gap |
//! | [`Kind::Paths`] | the labels from a node down to one below it | √λ per node |
//! | [`Kind::Productions`] | a node's label and its children's | 1 |
//! | [`Kind::Labels`], [`Kind::Edges`] | a label; a label and a child's | 1 |
//! | [`Kind::PqGrams`] | p labels downwards, and q children of the last (Augsten et al. 2005) | 1 |
//!
//! **Each distinct subtree is expanded once.** A feature belongs to the node where it
//! begins, so equal subtrees have equal lists of features; a tree adds up the lists of its
//! distinct subtrees, each as often as the subtree stands there.
//!
//! **A feature is a hash of its content** (`SipHash` 1-3, 128 bits, keys fixed), made of its
//! children's hashes. So there is nothing to look up while features are made, no state is
//! shared by threads or machines, and equal features have equal hashes everywhere. A
//! [`Vocabulary`] knows the columns of those seen when it was made, and how they are made
//! of each other, which gives their names. Without one, the column is the hash modulo the
//! number of columns ([`hashed`]).
//!
//! ```
//! use treekernel_rs::{Context, Forest};
//! use treekernel_rs::features::{Kind, Vocabulary};
//! use treekernel_rs::kernel::Counts;
//!
//! let forest = Forest::from_brackets("(S (A a) (B b)) (S (A a) (B c))")?;
//! let kind = Kind::Fragments { decay: 0.25, leaf_weight: 0.0, max_size: 2 };
//! let (linear, context) = (Counts::Linear, &Context::default());
//! let (vocabulary, rows) = Vocabulary::fit(&kind, &forest, 1, linear, context)?;
//! assert_eq!(vocabulary.name(0)?, "(A a)");
//! let dot: f64 = rows.row(0).filter_map(|(c, x)| rows.row(1).find(|y| y.0 == c).map(|y| x * y.1)).sum();
//! // S -> A B, A -> a, and both: λ, λ, λ².
//! assert_eq!(dot, 0.25 + 0.25 + 0.0625);
//! # Ok::<(), treekernel_rs::Error>(())
//! ```
//!
//! # Complexity
//! Features are counted before any is made. Time and memory by the features of the
//! distinct subtrees; a row by those of its tree.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use siphasher::sip128::{Hasher128, SipHasher13};

use crate::kernel::{Counts, PartialTree, TreeCounts, subtree};
use crate::ragged::Ragged;
use crate::threads::Threads;
use crate::{Context, Error, Forest, NodeId, Nodes, Result, memory};

/// So many features of distinct subtrees are made at most.
pub const MOST: u64 = 1 << 28;

/// Which pieces of a tree are its features.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Kind {
    /// Those of [`crate::kernel::Subtree`].
    Subtrees {
        /// λ.
        decay: f64,
        /// Of a leaf.
        leaf_weight: f64,
    },
    /// Those of [`crate::kernel::SubsetTree`] of at most so many productions.
    Fragments {
        /// λ.
        decay: f64,
        /// Of a leaf.
        leaf_weight: f64,
        /// 1 is productions only.
        max_size: u32,
    },
    /// Those of [`PartialTree`] of at most so many nodes.
    Partial {
        /// With its parameters.
        kernel: PartialTree,
        /// 1 is labels only.
        max_size: u32,
    },
    /// Those of [`crate::kernel::Subpath`] of at most so many nodes.
    Paths {
        /// λ.
        decay: f64,
        /// 1 is labels only.
        max_size: u32,
    },
    /// Labels of inner nodes with those of their children.
    Productions,
    /// Labels of nodes.
    Labels,
    /// Labels of nodes with that of one child.
    Edges,
    /// Windows of `q` children below `p` labels.
    PqGrams {
        /// Labels downwards, the last one the children's parent.
        p: u32,
        /// Children side by side.
        q: u32,
    },
}

impl Kind {
    /// What limits the size of a feature: the parameter's name and its value.
    fn limit(&self) -> (&'static str, u32) {
        match *self {
            Self::Fragments { max_size, .. } => ("max_size", max_size),
            Self::Partial { max_size, .. } | Self::Paths { max_size, .. } => {
                ("max_size", max_size)
            }
            Self::PqGrams { p, .. } => ("p", p),
            _ => ("min_df", 1),
        }
    }

    fn check(&self) -> Result<()> {
        let (name, limit) = self.limit();
        let one = |name, value: u32| match value {
            1..=64 => Ok(()),
            _ => Err(parameter(name, "a whole number of 1 to 64", value)),
        };
        one(name, limit)?;
        match *self {
            Self::PqGrams { q, .. } => one("q", q),
            _ => Ok(()),
        }
    }
}

fn parameter(name: &'static str, expected: &'static str, got: u32) -> Error {
    Error::Parameter { name, expected, got: got.to_string() }
}

/// A hash of 128 bits needs no other.
#[derive(Default)]
struct Itself(u64);

impl Hasher for Itself {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().take(8).fold(0, |word, &b| word << 8 | u64::from(b));
    }

    fn write_u128(&mut self, hash: u128) {
        self.0 = hash as u64;
    }
}

type ByHash<T> = HashMap<u128, T, BuildHasherDefault<Itself>>;

/// The hash of something made of others.
fn hash(what: u8, parts: &[u128]) -> u128 {
    let mut hasher = SipHasher13::new_with_keys(0x7472_6565, 0x6665_6174);
    hasher.write_u8(what);
    for part in parts {
        hasher.write(&part.to_le_bytes());
    }
    hasher.finish128().as_u128()
}

/// A child in a feature: alone, or with what is below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// A label; [`STAR`] for a place where there is no child.
    Bare(u32),
    /// A feature by its number in the vocabulary.
    Whole(u32),
}

/// "No label": of pq-grams, above the root and beside children.
const STAR: u32 = u32::MAX;
const NONE: u32 = u32::MAX;

/// A feature of one distinct subtree.
#[derive(Debug, Clone, Copy)]
struct Item {
    hash: u128,
    value: f64,
    /// Productions, nodes or labels of the stem.
    size: u32,
    /// Its number in the vocabulary that is being made.
    number: u32,
}

/// A feature that grows, child by child.
#[derive(Debug, Clone, Copy)]
struct State {
    hash: u128,
    value: f64,
    size: u32,
    /// The one it was made of, and what was added.
    before: u32,
    part: Part,
    /// How many children were added, and the place of the last one.
    length: u32,
    place: u32,
}

impl State {
    fn first(hash: u128, value: f64) -> Self {
        let part = Part::Bare(STAR);
        Self { hash, value, size: 1, before: NONE, part, length: 0, place: 0 }
    }
}

/// What is known of features by name.
#[derive(Debug, Clone, Default)]
struct Names {
    labels: Vec<String>,
    number: ByHash<u32>,
    /// By feature: its label and its parts.
    heads: Vec<u32>,
    parts: Ragged<Part>,
}

/// Makes the features of distinct subtrees.
struct Maker<'a> {
    kind: &'a Kind,
    nodes: &'a Nodes,
    labels: Vec<u128>,
    items: Ragged<Item>,
    states: Vec<State>,
    /// Kept where a vocabulary is made.
    names: Option<Names>,
    /// √w of subtrees.
    weights: Vec<f64>,
}

impl<'a> Maker<'a> {
    fn new(kind: &'a Kind, nodes: &'a Nodes, named: bool) -> Result<Self> {
        let hashed = |name: &str| {
            let mut hasher = SipHasher13::new_with_keys(0x6c61_6265, 0x6c73);
            hasher.write(name.as_bytes());
            hasher.finish128().as_u128()
        };
        let weights = match *kind {
            Kind::Subtrees { decay, leaf_weight } => {
                let weights = subtree::weights(nodes, decay, leaf_weight)?;
                weights.into_iter().map(f64::sqrt).collect()
            }
            _ => Vec::new(),
        };
        let names = named.then(|| Names {
            labels: nodes.labels().names().map(str::to_owned).collect(),
            ..Names::default()
        });
        Ok(Self {
            kind,
            nodes,
            labels: nodes.labels().names().map(hashed).collect(),
            items: Ragged::default(),
            states: Vec::new(),
            names,
            weights,
        })
    }

    /// All features of the nodes that are used. Their numbers are the nodes'.
    fn make(&mut self, used: &[bool], context: &Context) -> Result<()> {
        self.check_count(used, context)?;
        for (node, &is_used) in used.iter().enumerate() {
            context.check()?;
            if is_used {
                self.node(NodeId(node as u32), context)?;
            }
            self.items.close("features")?;
        }
        Ok(())
    }

    /// Counts the features by size, before any is made: equal ones at one node as often as
    /// they come.
    fn check_count(&self, used: &[bool], context: &Context) -> Result<()> {
        let (name, limit) = self.kind.limit();
        let limit = limit as usize;
        let mut counts: Vec<u64> = memory::filled(0, used.len() * (limit + 1))?;
        let (mut total, mut parts) = (0u64, 0u64);
        for node in (0..used.len()).filter(|&node| used[node]) {
            context.check()?;
            let id = NodeId(node as u32);
            let below = self.nodes.children(id);
            let of = |child: &NodeId, size: usize, counts: &[u64]| {
                counts[child.index() * (limit + 1) + size]
            };
            let mut own = vec![0u64; limit + 1];
            own[1] = 1;
            match self.kind {
                Kind::Fragments { .. } | Kind::Partial { .. } => {
                    if matches!(self.kind, Kind::Fragments { .. }) && below.is_empty() {
                        own[1] = 0;
                    }
                    for child in below {
                        context.check()?;
                        for size in (2..=limit).rev() {
                            for more in 1..size {
                                let product = own[size - more]
                                    .saturating_mul(of(child, more, &counts));
                                own[size] = own[size].saturating_add(product);
                            }
                        }
                    }
                }
                Kind::Paths { .. } => {
                    for (size, own) in own.iter_mut().enumerate().skip(2) {
                        for child in below {
                            *own = own.saturating_add(of(child, size - 1, &counts));
                        }
                    }
                }
                Kind::PqGrams { q, .. } => {
                    let windows = if below.is_empty() {
                        1
                    } else {
                        below.len() as u64 + u64::from(*q) - 1
                    };
                    own[1] = windows;
                    for (size, own) in own.iter_mut().enumerate().skip(2) {
                        for child in below {
                            *own = own.saturating_add(of(child, size - 1, &counts));
                        }
                    }
                }
                Kind::Edges | Kind::Productions => own[1] = below.len() as u64,
                _ => {}
            }
            let n = own.iter().fold(0, |sum: u64, &n| sum.saturating_add(n));
            total = total.saturating_add(n);
            // A name has a part for each child, and for pq-grams for each place.
            let most = match self.kind {
                Kind::PqGrams { q, .. } => *q as usize,
                _ => below.len().max(1),
            };
            parts = parts.saturating_add(n.saturating_mul(most as u64));
            counts[node * (limit + 1)..][..=limit].copy_from_slice(&own);
        }
        if total > MOST {
            return Err(Error::TooManyFeatures { count: total, limit: MOST, name });
        }
        memory::room(total as usize, 2 * size_of::<Item>())?;
        if self.names.is_some() {
            memory::room(total as usize, 64)?;
            memory::room(usize::try_from(parts).unwrap_or(usize::MAX), 16)?;
        }
        Ok(())
    }

    fn label(&self, label: u32) -> u128 {
        if label == STAR { 0 } else { self.labels[label as usize] }
    }

    /// Adds a feature to the open list; `parts` come where names are wanted.
    fn push(
        &mut self,
        item: Item,
        head: u32,
        parts: impl IntoIterator<Item = Part>,
    ) -> Result<()> {
        let number = match &mut self.names {
            None => NONE,
            Some(names) => {
                let next = names.heads.len() as u32;
                let number = *names.number.entry(item.hash).or_insert(next);
                if number == next {
                    names.heads.push(head);
                    names.parts.extend(parts)?;
                    names.parts.close("parts of features")?;
                }
                number
            }
        };
        self.items.push(Item { number, ..item })?;
        Ok(())
    }

    fn node(&mut self, node: NodeId, context: &Context) -> Result<()> {
        let label = self.nodes.label(node).0;
        let own = self.label(label);
        let below = self.nodes.children(node);
        match *self.kind {
            Kind::Labels => {
                let item = Item { hash: own, value: 1.0, size: 1, number: NONE };
                self.push(item, label, [])?;
            }
            Kind::Edges => {
                let start = self.items.items.len();
                for child in below {
                    let child = self.nodes.label(*child).0;
                    let hash = hash(1, &[own, self.label(child)]);
                    let item = Item { hash, value: 1.0, size: 1, number: NONE };
                    self.push(item, label, [Part::Bare(child)])?;
                }
                self.merge(start);
            }
            Kind::Productions => {
                if !below.is_empty() {
                    let hash = self.production(node);
                    let item = Item { hash, value: 1.0, size: 1, number: NONE };
                    let nodes = self.nodes;
                    let bare = |child: &NodeId| Part::Bare(nodes.label(*child).0);
                    self.push(item, label, below.iter().map(bare))?;
                }
            }
            Kind::Subtrees { .. } => {
                let items = &self.items;
                let children = below.iter().map(|child| items.get(child.index())[0]);
                let children: Vec<Item> = children.collect();
                let mut parts = vec![own];
                parts.extend(children.iter().map(|child| child.hash));
                let value = self.weights[node.index()];
                let item = Item { hash: hash(2, &parts), value, size: 1, number: NONE };
                let parts = children.into_iter().map(|child| Part::Whole(child.number));
                self.push(item, label, parts)?;
            }
            Kind::Paths { decay, max_size } => {
                let start = self.items.items.len();
                let value = decay.sqrt();
                let item = Item { hash: own, value, size: 1, number: NONE };
                self.push(item, label, [])?;
                for child in below {
                    for at in self.range(*child) {
                        let path = self.items.items[at];
                        if path.size == max_size {
                            continue;
                        }
                        let item = Item {
                            hash: hash(3, &[own, path.hash]),
                            value: value * path.value,
                            size: path.size + 1,
                            number: NONE,
                        };
                        self.push(item, label, [Part::Whole(path.number)])?;
                    }
                }
                self.merge(start);
            }
            Kind::PqGrams { p, q } => self.pq_grams(node, p, q, context)?,
            Kind::Fragments { decay, leaf_weight, max_size } => {
                if below.is_empty() {
                    let value = leaf_weight.sqrt();
                    let item = Item { hash: own, value, size: 0, number: NONE };
                    self.push(item, label, [])?;
                } else {
                    self.fragments(node, decay, max_size, context)?;
                }
            }
            Kind::Partial { ref kernel, max_size } => {
                self.partial(node, kernel, max_size, context)?;
            }
        }
        Ok(())
    }

    fn range(&self, node: NodeId) -> std::ops::Range<usize> {
        let start = self.items.start(node.index());
        start..start + self.items.get(node.index()).len()
    }

    fn production(&self, node: NodeId) -> u128 {
        let labels = self.nodes.children(node).iter().map(|c| self.nodes.label(*c).0);
        let own = self.label(self.nodes.label(node).0);
        let labels = labels.map(|label| self.label(label));
        hash(4, &[vec![own], labels.collect()].concat())
    }

    /// Adds up equal features of the open list, from `start`.
    fn merge(&mut self, start: usize) {
        let items = &mut self.items.items;
        items[start..].sort_by_key(|item| item.hash);
        let mut end = start;
        for at in start..items.len() {
            if end > start && items[end - 1].hash == items[at].hash {
                items[end - 1].value += items[at].value;
            } else {
                items[end] = items[at];
                end += 1;
            }
        }
        items.truncate(end);
    }

    /// Fragments that begin with a state and have fragments of some children, in order.
    /// `add` makes a state, the place of its last child, a place, and a fragment there one
    /// with this fragment, too; None where that is not to be.
    ///
    /// What cannot grow any more is not looked at again: so this takes time by what it makes.
    fn grow(
        &mut self,
        node: NodeId,
        first: State,
        longest: u32,
        context: &Context,
        add: impl Fn(&State, usize, &Item) -> Option<(u128, f64)>,
    ) -> Result<()> {
        let can_grow = |state: &State| state.size < longest;
        self.states.clear();
        self.states.push(first);
        let mut open: Vec<u32> = if can_grow(&first) { vec![0] } else { Vec::new() };
        for (place, child) in self.nodes.children(node).iter().enumerate() {
            context.check()?;
            let fragments = self.range(*child);
            // Those of this child are for the next.
            for at in 0..if fragments.is_empty() { 0 } else { open.len() } {
                context.check()?;
                let (before, state) = (open[at], self.states[open[at] as usize]);
                for fragment in fragments.clone() {
                    let fragment = self.items.items[fragment];
                    if state.size + fragment.size > longest {
                        continue;
                    }
                    let Some((hash, value)) = add(&state, place, &fragment) else {
                        continue;
                    };
                    let size = state.size + fragment.size;
                    let part = Part::Whole(fragment.number);
                    let (length, place) = (state.length + 1, place as u32);
                    let made = State { hash, value, size, before, part, length, place };
                    if can_grow(&made) {
                        memory::reserve(&mut open, 1)?;
                        open.push(self.states.len() as u32);
                    }
                    memory::reserve(&mut self.states, 1)?;
                    self.states.push(made);
                }
            }
        }
        Ok(())
    }

    /// SST: each child as it is, or with one of its own fragments.
    fn fragments(
        &mut self,
        node: NodeId,
        decay: f64,
        longest: u32,
        context: &Context,
    ) -> Result<()> {
        let first = State::first(self.production(node), decay.sqrt());
        self.grow(node, first, longest, context, |state, place, fragment| {
            // A leaf is no fragment of its parent's.
            let hash = hash(5, &[state.hash, place as u128, fragment.hash]);
            (fragment.size > 0).then_some((hash, state.value * fragment.value))
        })?;
        let bare = |child: &NodeId| Part::Bare(self.nodes.label(*child).0);
        let all: Vec<Part> = self.nodes.children(node).iter().map(bare).collect();
        self.finish(node, context, |states, mut at| {
            let mut parts = all.clone();
            while states[at].before != NONE {
                parts[states[at].place as usize] = states[at].part;
                at = states[at].before as usize;
            }
            parts
        })
    }

    /// Makes items of states; `parts` are wanted where names are.
    fn finish(
        &mut self,
        node: NodeId,
        context: &Context,
        parts: impl Fn(&[State], usize) -> Vec<Part>,
    ) -> Result<()> {
        let label = self.nodes.label(node).0;
        let start = self.items.items.len();
        for at in 0..self.states.len() {
            context.check()?;
            let State { hash, value, size, .. } = self.states[at];
            let own = match self.names {
                Some(_) => parts(&self.states, at),
                None => Vec::new(),
            };
            self.push(Item { hash, value, size, number: NONE }, label, own)?;
        }
        self.merge(start);
        Ok(())
    }

    /// PT: sequences of children, each with one of its own fragments.
    fn partial(
        &mut self,
        node: NodeId,
        kernel: &PartialTree,
        longest: u32,
        context: &Context,
    ) -> Result<()> {
        let PartialTree { decay, mu, leaf_factor, max_children, .. } = *kernel;
        let most = max_children.map_or(u32::MAX, |most| most as u32);
        let own = self.label(self.nodes.label(node).0);
        let first = State::first(hash(6, &[own]), mu.sqrt());
        self.grow(node, first, longest, context, |state, place, fragment| {
            let gaps = match state.length {
                0 => 0,
                _ => place as i32 - state.place as i32 - 1,
            };
            let value = state.value * fragment.value * decay.powi(gaps);
            let hash = hash(7, &[state.hash, fragment.hash]);
            (state.length < most).then_some((hash, value))
        })?;
        // The node alone is a leaf of the fragment.
        let leafness = if self.nodes.is_leaf(node) { leaf_factor.sqrt() } else { 1.0 };
        self.states[0].value *= decay * leafness;
        self.finish(node, context, |states, mut at| {
            let mut parts = Vec::new();
            while states[at].before != NONE {
                parts.push(states[at].part);
                at = states[at].before as usize;
            }
            parts.reverse();
            parts
        })
    }

    /// Windows below stems of up to p labels that begin here.
    fn pq_grams(
        &mut self,
        node: NodeId,
        p: u32,
        q: u32,
        context: &Context,
    ) -> Result<()> {
        let label = self.nodes.label(node).0;
        let own = self.label(label);
        let below = self.nodes.children(node);
        let start = self.items.items.len();
        let nodes = self.nodes;
        let (n, q) = (below.len(), q as usize);
        let windows = if n == 0 { 1 } else { n + q - 1 };
        for first in 0..windows {
            context.check()?;
            let at = |place: usize| {
                let place = (first + place + 1).checked_sub(q).filter(|&at| at < n);
                place.map_or(STAR, |at| nodes.label(below[at]).0)
            };
            let mut all = vec![own];
            all.extend((0..q).map(|place| self.label(at(place))));
            let hash = hash(8, &all);
            let item = Item { hash, value: 1.0, size: 1, number: NONE };
            let parts: Vec<Part> = (0..q).map(|place| Part::Bare(at(place))).collect();
            self.push(item, label, parts)?;
        }
        for child in below {
            for at in self.range(*child) {
                let stem = self.items.items[at];
                if stem.size < p {
                    self.push(
                        Item {
                            hash: hash(9, &[own, stem.hash]),
                            value: stem.value,
                            size: stem.size + 1,
                            number: NONE,
                        },
                        label,
                        [Part::Whole(stem.number)],
                    )?;
                }
            }
        }
        self.merge(start);
        Ok(())
    }

    /// The features of a tree that begin above its root: pq-grams.
    fn above(&mut self, root: NodeId) -> Result<()> {
        if let Kind::PqGrams { p, .. } = *self.kind {
            for at in self.range(root) {
                let mut stem = self.items.items[at];
                for _ in stem.size..p {
                    let before = Part::Whole(stem.number);
                    stem.hash = hash(9, &[0, stem.hash]);
                    stem.number = match &mut self.names {
                        None => NONE,
                        Some(names) => names.add(stem.hash, STAR, before)?,
                    };
                }
                if self.items.items[at].size < p {
                    self.items.push(stem)?;
                }
            }
        }
        self.items.close("features")
    }
}

impl Names {
    fn add(&mut self, hash: u128, head: u32, part: Part) -> Result<u32> {
        let next = self.heads.len() as u32;
        let number = *self.number.entry(hash).or_insert(next);
        if number == next {
            self.heads.push(head);
            self.parts.push(part)?;
            self.parts.close("parts of features")?;
        }
        Ok(number)
    }
}

/// A sparse matrix, row by row.
#[derive(Debug, Clone, Default)]
pub struct Rows {
    /// Where each row starts, and the end of the last.
    pub starts: Vec<usize>,
    /// Ascending in each row.
    pub columns: Vec<u32>,
    /// Their values.
    pub values: Vec<f64>,
}

impl Rows {
    /// The entries of a row.
    pub fn row(&self, row: usize) -> impl Iterator<Item = (u32, f64)> {
        let range = self.starts[row]..self.starts[row + 1];
        let (columns, values) = (&self.columns[range.clone()], &self.values[range]);
        columns.iter().copied().zip(values.iter().copied())
    }
}

/// A [`Vocabulary`] as flat arrays.
#[derive(Debug, Clone, Default)]
pub struct Arrays {
    /// The labels' names.
    pub labels: Vec<String>,
    /// By feature: its label; 2^32 - 1 for a place without a node.
    pub heads: Vec<u32>,
    /// By feature: where its parts end.
    pub ends: Vec<u32>,
    /// A feature, or -2 - a label, or -1 for a place without a node.
    pub parts: Vec<i64>,
    /// By column: its feature.
    pub features: Vec<u32>,
    /// By column: the two halves of its hash, the lower first.
    pub hashes: Vec<u64>,
}

/// The columns of features.
#[derive(Debug, Clone)]
pub struct Vocabulary {
    kind: Kind,
    names: Names,
    /// By column: the feature.
    features: Vec<u32>,
    /// By hash: the column.
    columns: ByHash<u32>,
}

impl Vocabulary {
    /// The features that at least `min_df` trees have, in the order in which they come, and
    /// the trees' values.
    ///
    /// # Errors
    /// [`Error::Parameter`], [`Error::TooManyFeatures`], [`Error::Capacity`],
    /// [`Error::Memory`], and what `context` returns.
    pub fn fit(
        kind: &Kind,
        forest: &Forest,
        min_df: u32,
        counts: Counts,
        context: &Context,
    ) -> Result<(Self, Rows)> {
        let mut counted = Counted::new(kind, forest, true, context)?;
        let mut names = std::mem::take(&mut counted.names);
        let n = names.heads.len();
        let column = |item: &Item| Some((item.number, 1.0));
        let rows = counted.rows(n, column, counts, context)?;
        // Tables of the features, and the rows again.
        memory::room(n, 96)?;
        memory::room(rows.columns.len(), 24)?;
        let mut trees = memory::filled(0u32, n)?;
        let mut order = Vec::new();
        for &feature in &rows.columns {
            let seen = &mut trees[feature as usize];
            *seen += 1;
            if *seen == min_df.max(1) {
                order.push(feature);
            }
        }
        order.sort_unstable();
        let mut column = memory::filled(NONE, n)?;
        let mut hashes = memory::filled(0u128, n)?;
        names.number.iter().for_each(|(&hash, &at)| hashes[at as usize] = hash);
        let mut columns = ByHash::default();
        for (at, &feature) in order.iter().enumerate() {
            column[feature as usize] = at as u32;
            columns.insert(hashes[feature as usize], at as u32);
        }
        let mut kept = Rows { starts: vec![0], ..Rows::default() };
        for row in 0..forest.len() {
            for (feature, value) in rows.row(row) {
                if column[feature as usize] != NONE {
                    kept.columns.push(column[feature as usize]);
                    kept.values.push(value);
                }
            }
            kept.starts.push(kept.columns.len());
        }
        names.number = ByHash::default();
        Ok((Self { kind: kind.clone(), names, features: order, columns }, kept))
    }

    /// The vocabulary as flat arrays, from which [`from_arrays`](Self::from_arrays) makes
    /// it again.
    pub fn to_arrays(&self) -> Arrays {
        let names = &self.names;
        let part = |part: &Part| match *part {
            Part::Whole(at) => i64::from(at),
            Part::Bare(STAR) => -1,
            Part::Bare(label) => -2 - i64::from(label),
        };
        let mut hashes = vec![0u128; self.len()];
        self.columns.iter().for_each(|(&hash, &at)| hashes[at as usize] = hash);
        Arrays {
            labels: names.labels.clone(),
            heads: names.heads.clone(),
            ends: (1..=names.parts.len())
                .map(|n| names.parts.start(n) as u32)
                .collect(),
            parts: names.parts.items.iter().map(part).collect(),
            features: self.features.clone(),
            hashes: hashes.iter().flat_map(|h| [*h as u64, (h >> 64) as u64]).collect(),
        }
    }

    /// A vocabulary of such arrays.
    ///
    /// # Errors
    /// [`Error::Array`] or [`Error::Length`] where no vocabulary has such arrays, and as
    /// [`fit`](Self::fit).
    pub fn from_arrays(kind: &Kind, arrays: Arrays) -> Result<Self> {
        kind.check()?;
        let Arrays { labels, heads, ends, parts, features, hashes } = arrays;
        let length = |array, got, n, what| {
            let expected = format!("{n}, {what}");
            if got == n { Ok(()) } else { Err(Error::Length { array, expected, got }) }
        };
        let wrong = |array, index, expected: String, got: String| {
            Err(Error::Array { array, index, expected, got })
        };
        length("ends", ends.len(), heads.len(), "one for each feature")?;
        length("hashes", hashes.len(), 2 * features.len(), "two for each column")?;
        let last = ends.last().map_or(0, |&end| end as usize);
        length("parts", parts.len(), last, "as ends says")?;
        let is_label = |label: u32| label == STAR || (label as usize) < labels.len();
        if let Some(at) = heads.iter().position(|&head| !is_label(head)) {
            let expected = format!("a number below {}", labels.len());
            return wrong("heads", at, expected, heads[at].to_string());
        }
        let mut lists = Ragged::default();
        let mut start = 0;
        for (feature, &end) in ends.iter().enumerate() {
            if !(start..=parts.len()).contains(&(end as usize)) {
                let expected = format!("{start} to {}", parts.len());
                return wrong("ends", feature, expected, end.to_string());
            }
            let own = start..end as usize;
            for (at, &part) in own.clone().zip(&parts[own]) {
                // Parts come first: so no feature is part of itself.
                let part = match part {
                    whole if (0..feature as i64).contains(&whole) => {
                        Part::Whole(whole as u32)
                    }
                    -1 => Part::Bare(STAR),
                    bare if bare < -1 && (-2 - bare) < labels.len() as i64 => {
                        Part::Bare((-2 - bare) as u32)
                    }
                    other => {
                        let most = feature as i64 - 1;
                        let expected =
                            format!("{} to {most}", -1 - labels.len() as i64);
                        return wrong("parts", at, expected, other.to_string());
                    }
                };
                lists.push(part)?;
            }
            start = end as usize;
            lists.close("parts of features")?;
        }
        let mut columns = ByHash::default();
        for (at, hash) in hashes.chunks(2).enumerate() {
            if features[at] as usize >= heads.len() {
                let expected = format!("a number below {}", heads.len());
                return wrong("columns", at, expected, features[at].to_string());
            }
            columns.insert(u128::from(hash[1]) << 64 | u128::from(hash[0]), at as u32);
        }
        if columns.len() < features.len() {
            let (expected, got) = ("another hash each".into(), "one twice".into());
            return wrong("hashes", features.len(), expected, got);
        }
        let names = Names { labels, number: ByHash::default(), heads, parts: lists };
        Ok(Self { kind: kind.clone(), names, features, columns })
    }

    /// About how many bytes it holds.
    pub fn nbytes(&self) -> usize {
        let labels = self.names.labels.iter().map(|label| label.len() + 24);
        let names = self.names.parts.nbytes() + 4 * self.names.heads.len();
        labels.sum::<usize>() + names + self.columns.capacity() * 32 + 4 * self.len()
    }

    /// How many columns there are.
    pub fn len(&self) -> usize {
        self.features.len()
    }

    /// Whether there is no column.
    pub fn is_empty(&self) -> bool {
        self.features.is_empty()
    }

    /// The rows of other trees; what has no column is left out.
    ///
    /// # Errors
    /// As [`fit`](Self::fit).
    pub fn rows(
        &self,
        forest: &Forest,
        counts: Counts,
        context: &Context,
    ) -> Result<Rows> {
        let counted = Counted::new(&self.kind, forest, false, context)?;
        let column =
            |item: &Item| self.columns.get(&item.hash).map(|&column| (column, 1.0));
        counted.rows(self.len(), column, counts, context)
    }

    /// What a column counts, in brackets; a node without children stands for any node of
    /// its label, `*` for a place without a node.
    ///
    /// # Errors
    /// [`Error::Expansion`] where that has more than a million nodes.
    pub fn name(&self, column: usize) -> Result<String> {
        const LIMIT: u64 = 1_000_000;
        enum Step {
            Part(Part),
            Text(&'static str),
        }
        let names = &self.names;
        let mut text = String::new();
        let mut needed = 0;
        let mut open = vec![Step::Part(Part::Whole(self.features[column]))];
        while let Some(step) = open.pop() {
            let part = match step {
                Step::Text(fixed) => {
                    text.push_str(fixed);
                    continue;
                }
                Step::Part(part) => part,
            };
            needed += 1;
            if needed > LIMIT {
                let what = "the name of a column";
                return Err(Error::Expansion {
                    what,
                    unit: "nodes",
                    needed: u64::MAX,
                    limit: LIMIT,
                });
            }
            let (label, parts) = match part {
                Part::Bare(label) => (label, &[][..]),
                Part::Whole(at) => {
                    (names.heads[at as usize], names.parts.get(at as usize))
                }
            };
            let is_bare = parts.is_empty();
            if !is_bare {
                text.push('(');
                open.push(Step::Text(")"));
                for &part in parts.iter().rev() {
                    open.push(Step::Part(part));
                    open.push(Step::Text(" "));
                }
            }
            match label {
                STAR => text.push('*'),
                label => {
                    crate::parse::write_label(&mut text, &names.labels[label as usize]);
                }
            }
        }
        Ok(text)
    }
}

/// Rows without a vocabulary: the column of a feature is its hash modulo `n_features`, its
/// sign a bit of the hash, so that collisions cancel on average.
///
/// # Errors
/// As [`Vocabulary::fit`].
pub fn hashed(
    kind: &Kind,
    forest: &Forest,
    n_features: u32,
    signed: bool,
    counts: Counts,
    context: &Context,
) -> Result<Rows> {
    if n_features == 0 {
        return Err(parameter("n_features", "a whole number above 0", n_features));
    }
    let counted = Counted::new(kind, forest, false, context)?;
    let column = |item: &Item| {
        let sign = if signed && item.hash >> 127 == 1 { -1.0 } else { 1.0 };
        Some(((item.hash as u64 % u64::from(n_features)) as u32, sign))
    };
    counted.rows(n_features as usize, column, counts, context)
}

/// Trees as counts of distinct subtrees, and the features of these.
struct Counted {
    kind: Kind,
    trees: TreeCounts,
    items: Ragged<Item>,
    /// By tree: the list of what begins above its root.
    above: Vec<u32>,
    names: Names,
    /// Only items of this size count; 0: all do.
    size: u32,
}

impl Counted {
    fn new(
        kind: &Kind,
        forest: &Forest,
        named: bool,
        context: &Context,
    ) -> Result<Self> {
        kind.check()?;
        let nodes = forest.nodes();
        let threads = Threads::for_trees(context, forest.len());
        let trees = TreeCounts::alone(true, nodes, forest.roots(), &threads)?;
        let mut used = memory::filled(false, nodes.len())?;
        for tree in 0..trees.len() {
            trees.nodes(tree).iter().for_each(|node| used[node.index()] = true);
        }
        let mut maker = Maker::new(kind, nodes, named)?;
        maker.make(&used, context)?;
        let (mut above, mut list_of) = (Vec::new(), HashMap::new());
        let mut size = 0;
        if let Kind::PqGrams { p, .. } = *kind {
            size = p;
            for &root in forest.roots() {
                context.check()?;
                let next = maker.items.len() as u32;
                let list = *list_of.entry(root).or_insert(next);
                if list == next {
                    maker.above(root)?;
                }
                above.push(list);
            }
            let first = maker.items.start(nodes.len());
            for item in &mut maker.items.items[first..] {
                item.size = p;
            }
        }
        let names = maker.names.unwrap_or_default();
        Ok(Self { kind: kind.clone(), trees, items: maker.items, above, names, size })
    }

    /// How often its subtree has an item: equal ones are added up.
    fn count(&self, item: &Item) -> u32 {
        let unit = match self.kind {
            Kind::Paths { decay, .. } => decay.sqrt().powi(item.size.cast_signed()),
            Kind::Subtrees { .. } | Kind::Fragments { .. } => return 1,
            _ => 1.0,
        };
        (item.value / unit).round() as u32
    }

    /// Adds up the features of each tree, in `n` columns. A feature that a tree has c times has
    /// its mean value times the function of c.
    fn rows(
        &self,
        n: usize,
        column: impl Fn(&Item) -> Option<(u32, f64)> + Sync,
        of_count: Counts,
        context: &Context,
    ) -> Result<Rows> {
        if of_count != Counts::Linear && matches!(self.kind, Kind::Partial { .. }) {
            // Gaps: fragments that are equal have different weights.
            let can = vec!["Subtree", "SubsetTree", "Subpath"];
            let (kernel, what) = ("PartialTree", "functions of counts");
            return Err(Error::Unsupported { kernel, what, can });
        }
        let trees = &self.trees;
        let threads = Threads::for_trees(context, trees.len());
        // Once for each feature of a distinct subtree, not for each occurrence.
        memory::room(self.items.items.len(), 24)?;
        memory::room(self.items.len() + trees.len(), 16)?;
        let mut columns: Ragged<(u32, u32, f64)> = self.items.map(|item| {
            let counts = (self.size == 0 || item.size == self.size) && item.value > 0.0;
            let known = if counts { column(item) } else { None };
            known.map_or((NONE, 0, 0.0), |(column, sign)| {
                (column, self.count(item), sign * item.value)
            })
        })?;
        // Where most columns are empty, only the others get a place.
        let mut of_place: Vec<u32> = Vec::new();
        if n > columns.items.len() {
            of_place.extend(columns.items.iter().map(|item| item.0));
            of_place.sort_unstable();
            of_place.dedup();
            of_place.pop_if(|last| *last == NONE);
            for item in &mut columns.items {
                item.0 = of_place.binary_search(&item.0).map_or(NONE, |at| at as u32);
            }
        }
        let n = if n > columns.items.len() { of_place.len() } else { n };
        let column_of = |place: u32| *of_place.get(place as usize).unwrap_or(&place);
        let parts = threads.parts(trees.len(), |range, context| {
            let mut sums = memory::filled(0.0f64, n)?;
            let mut known = memory::filled(false, n)?;
            let is_linear = of_count == Counts::Linear;
            let mut counts = memory::filled(0.0f64, if is_linear { 0 } else { n })?;
            let mut met: Vec<u32> = Vec::new();
            let mut rows = Rows::default();
            for tree in range {
                let mut add = |list: usize, times: f64| {
                    for &(column, own, value) in columns.get(list) {
                        if column == NONE {
                            continue;
                        }
                        let at = column as usize;
                        if !known[at] {
                            known[at] = true;
                            met.push(column);
                        }
                        sums[at] += times * value;
                        if let Some(count) = counts.get_mut(at) {
                            *count += times * f64::from(own);
                        }
                    }
                };
                for (node, count) in trees.iter(tree) {
                    context.check()?;
                    add(node.index(), f64::from(count));
                }
                if let Some(&list) = self.above.get(tree) {
                    add(list as usize, 1.0);
                }
                met.sort_unstable();
                memory::reserve(&mut rows.columns, met.len())?;
                memory::reserve(&mut rows.values, met.len())?;
                for &column in &met {
                    let at = column as usize;
                    known[at] = false;
                    let mut value = std::mem::replace(&mut sums[at], 0.0);
                    if let Some(count) = counts.get_mut(at) {
                        let count = std::mem::replace(count, 0.0);
                        value *= of_count.of(count) / count;
                    }
                    if value != 0.0 {
                        rows.columns.push(column_of(column));
                        rows.values.push(value);
                    }
                }
                met.clear();
                rows.starts.push(rows.columns.len());
            }
            Ok(rows)
        })?;
        let mut all = Rows { starts: vec![0], ..Rows::default() };
        for part in parts {
            let start = all.columns.len();
            memory::reserve(&mut all.columns, part.columns.len())?;
            memory::reserve(&mut all.values, part.values.len())?;
            all.columns.extend(part.columns);
            all.values.extend(part.values);
            all.starts.extend(part.starts.iter().map(|at| start + at));
        }
        Ok(all)
    }
}
