//! The features of distinct subtrees, made from the bottom up.

use std::hash::{BuildHasherDefault, Hasher};

use siphasher::sip128::{Hasher128, SipHasher13};

use super::{Kind, MAX_FEATURES, NONE};
use crate::kernel::{PartialTree, subtree};
use crate::memory::{self, Map};
use crate::ragged::Ragged;
use crate::{Context, Error, NodeId, Nodes, Result};

/// A hasher of keys that are hashes already: it takes their lower half.
#[derive(Default)]
pub(super) struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
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

pub(super) type ByHash<T> = Map<u128, T, BuildHasherDefault<IdentityHasher>>;

/// The hash of something made of others.
fn hash(what: u8, parts: impl IntoIterator<Item = u128>) -> u128 {
    let mut hasher = SipHasher13::new_with_keys(0x7472_6565, 0x6665_6174);
    hasher.write_u8(what);
    for part in parts {
        hasher.write(&part.to_le_bytes());
    }
    hasher.finish128().as_u128()
}

/// A child in a feature: alone, or with what is below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// A label; [`STAR`] for a place where there is no child.
    Bare(u32),
    /// A feature by its number in the vocabulary.
    Whole(u32),
}

/// "No label": of pq-grams, above the root and beside children.
pub(super) const STAR: u32 = u32::MAX;

/// A feature of one distinct subtree.
#[derive(Debug, Clone, Copy)]
pub(super) struct Item {
    pub(super) hash: u128,
    pub(super) value: f64,
    /// Productions, nodes or labels of the stem.
    pub(super) size: u32,
    /// Its number in the vocabulary that is being made.
    pub(super) number: u32,
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

/// What features are made of, which gives their names.
#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    pub(super) labels: Vec<String>,
    /// Features by their hashes, while they are made.
    pub(super) number: ByHash<u32>,
    /// By feature: its label.
    pub(super) heads: Vec<u32>,
    /// By feature: its parts.
    pub(super) parts: Ragged<Part>,
}

impl Names {
    /// The number of a feature; a new one has a label and parts.
    fn add(
        &mut self,
        hash: u128,
        head: u32,
        parts: impl IntoIterator<Item = Part>,
    ) -> Result<u32> {
        let next = self.heads.len() as u32;
        let number = *self.number.get_or(hash, next)?;
        if number == next {
            memory::push(&mut self.heads, head)?;
            self.parts.extend(parts)?;
            self.parts.close("parts of features")?;
        }
        Ok(number)
    }
}

/// Makes the features of distinct subtrees.
pub(super) struct Maker<'a> {
    kind: &'a Kind,
    nodes: &'a Nodes,
    /// By label: its hash.
    labels: Vec<u128>,
    /// By node: the features that begin there.
    pub(super) items: Ragged<Item>,
    /// Scratch: what begins at the node at hand, unfinished.
    states: Vec<State>,
    /// Kept where a vocabulary is made.
    pub(super) names: Option<Names>,
    /// By node: √w of its subtree, where these are the features.
    weights: Vec<f64>,
}

impl<'a> Maker<'a> {
    pub(super) fn new(kind: &'a Kind, nodes: &'a Nodes, named: bool) -> Result<Self> {
        let hashed = |name: &str| {
            let mut hasher = SipHasher13::new_with_keys(0x6c61_6265, 0x6c73);
            hasher.write(name.as_bytes());
            hasher.finish128().as_u128()
        };
        let weights = match *kind {
            Kind::Subtrees { decay, leaf_weight } => {
                let weights = subtree::weights(nodes, decay, leaf_weight)?;
                memory::collect(weights.into_iter().map(f64::sqrt))?
            }
            _ => Vec::new(),
        };
        let mut names = named.then(Names::default);
        if let Some(names) = &mut names {
            names.labels =
                memory::try_collect(nodes.labels().names().map(memory::text))?;
        }
        Ok(Self {
            kind,
            nodes,
            labels: memory::collect(nodes.labels().names().map(hashed))?,
            items: Ragged::default(),
            states: Vec::new(),
            names,
            weights,
        })
    }

    /// All features of the nodes that are used. Their numbers are the nodes'.
    pub(super) fn make(&mut self, used: &[bool], context: &Context) -> Result<()> {
        // Refused before memory is asked for: they may be far too many.
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
        // By node, by size: parents read those of their children.
        let mut counts: Vec<u64> = memory::filled(0, used.len() * (limit + 1))?;
        let mut total = 0u64;
        // The same of the node at hand.
        let mut here = memory::filled(0u64, limit + 1)?;
        for node in (0..used.len()).filter(|&node| used[node]) {
            context.check()?;
            let id = NodeId(node as u32);
            let below = self.nodes.children(id);
            let count_of = |child: &NodeId, size: usize, counts: &[u64]| {
                counts[child.index() * (limit + 1) + size]
            };
            here.fill(0);
            here[1] = 1;
            match self.kind {
                Kind::Fragments { .. } | Kind::Partial { .. } => {
                    // A leaf is a part of fragments, and none itself.
                    if matches!(self.kind, Kind::Fragments { .. }) && below.is_empty() {
                        here[1] = 0;
                    }
                    for child in below {
                        context.check()?;
                        // From the largest on, so that each child is added once.
                        for size in (2..=limit).rev() {
                            for more in 1..size {
                                let product = here[size - more]
                                    .saturating_mul(count_of(child, more, &counts));
                                here[size] = here[size].saturating_add(product);
                            }
                        }
                    }
                }
                Kind::Paths { .. } => {
                    // A path from here is this node and a path from a child.
                    for (size, n) in here.iter_mut().enumerate().skip(2) {
                        for child in below {
                            *n = n.saturating_add(count_of(child, size - 1, &counts));
                        }
                    }
                }
                Kind::PqGrams { q, .. } => {
                    let windows = if below.is_empty() {
                        1
                    } else {
                        below.len() as u64 + u64::from(*q) - 1
                    };
                    // A stem of one label, whatever window is below it.
                    here[1] = windows;
                    for (size, n) in here.iter_mut().enumerate().skip(2) {
                        for child in below {
                            *n = n.saturating_add(count_of(child, size - 1, &counts));
                        }
                    }
                }
                Kind::Edges | Kind::Productions => here[1] = below.len() as u64,
                _ => {}
            }
            let n = here.iter().fold(0, |sum: u64, &n| sum.saturating_add(n));
            total = total.saturating_add(n);
            counts[node * (limit + 1)..][..=limit].copy_from_slice(&here);
        }
        if total > MAX_FEATURES {
            return Err(Error::TooManyFeatures {
                count: total,
                limit: MAX_FEATURES,
                name,
            });
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
            Some(names) => names.add(item.hash, head, parts)?,
        };
        self.items.push(Item { number, ..item })
    }

    fn node(&mut self, node: NodeId, context: &Context) -> Result<()> {
        let label = self.nodes.label(node).0;
        let label_hash = self.label(label);
        let below = self.nodes.children(node);
        match *self.kind {
            Kind::Labels => {
                let item = Item { hash: label_hash, value: 1.0, size: 1, number: NONE };
                self.push(item, label, [])?;
            }
            Kind::Edges => {
                let start = self.items.items.len();
                for child in below {
                    let child = self.nodes.label(*child).0;
                    let hash = hash(1, [label_hash, self.label(child)]);
                    let item = Item { hash, value: 1.0, size: 1, number: NONE };
                    self.push(item, label, [Part::Bare(child)])?;
                }
                self.merge(start)?;
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
                // The subtree itself is the only feature of its node.
                let children = below.iter().map(|child| items.get(child.index())[0]);
                let children = memory::collect(children)?;
                let hash = hash(
                    2,
                    [label_hash].into_iter().chain(children.iter().map(|c| c.hash)),
                );
                let value = self.weights[node.index()];
                let item = Item { hash, value, size: 1, number: NONE };
                let parts = children.into_iter().map(|child| Part::Whole(child.number));
                self.push(item, label, parts)?;
            }
            Kind::Paths { decay, max_size } => {
                let start = self.items.items.len();
                let value = decay.sqrt();
                let item = Item { hash: label_hash, value, size: 1, number: NONE };
                self.push(item, label, [])?;
                for child in below {
                    // Paths of children were made before: children have smaller ids.
                    for at in self.range(*child) {
                        let path = self.items.items[at];
                        if path.size == max_size {
                            continue;
                        }
                        let item = Item {
                            hash: hash(3, [label_hash, path.hash]),
                            value: value * path.value,
                            size: path.size + 1,
                            number: NONE,
                        };
                        self.push(item, label, [Part::Whole(path.number)])?;
                    }
                }
                self.merge(start)?;
            }
            Kind::PqGrams { p, q } => self.pq_grams(node, p, q, context)?,
            Kind::Fragments { decay, leaf_weight, max_size } => {
                if below.is_empty() {
                    let value = leaf_weight.sqrt();
                    let item = Item { hash: label_hash, value, size: 0, number: NONE };
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
        let label_hash = self.label(self.nodes.label(node).0);
        let labels = labels.map(|label| self.label(label));
        hash(4, [label_hash].into_iter().chain(labels))
    }

    /// Adds up equal features of the open list, from `start`.
    fn merge(&mut self, start: usize) -> Result<()> {
        let items = &mut self.items.items;
        // A stable sort: equal features are added in the order of the children.
        memory::sort_by_key(&mut items[start..], |item| item.hash)?;
        // What stays moves forward, over what was merged.
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
        Ok(())
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
        memory::push(&mut self.states, first)?;
        let mut open: Vec<u32> = memory::collect(can_grow(&first).then_some(0))?;
        for (place, child) in self.nodes.children(node).iter().enumerate() {
            // Fragments of the child, all made before.
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
                        memory::push(&mut open, self.states.len() as u32)?;
                    }
                    memory::push(&mut self.states, made)?;
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
            let hash = hash(5, [state.hash, place as u128, fragment.hash]);
            (fragment.size > 0).then_some((hash, state.value * fragment.value))
        })?;
        let bare = |child: &NodeId| Part::Bare(self.nodes.label(*child).0);
        let bare_children =
            memory::collect(self.nodes.children(node).iter().map(bare))?;
        self.finish(node, context, |states, mut at, parts| {
            memory::extend(parts, bare_children.iter().copied())?;
            // From the last child back to the state without any.
            while states[at].before != NONE {
                parts[states[at].place as usize] = states[at].part;
                at = states[at].before as usize;
            }
            Ok(())
        })
    }

    /// Makes items of states; `write` adds the parts of one to a list.
    fn finish(
        &mut self,
        node: NodeId,
        context: &Context,
        write: impl Fn(&[State], usize, &mut Vec<Part>) -> Result<()>,
    ) -> Result<()> {
        let label = self.nodes.label(node).0;
        let start = self.items.items.len();
        let mut parts = Vec::new();
        for at in 0..self.states.len() {
            context.check()?;
            let State { hash, value, size, .. } = self.states[at];
            parts.clear();
            // Parts are there for names only.
            if self.names.is_some() {
                write(&self.states, at, &mut parts)?;
            }
            let item = Item { hash, value, size, number: NONE };
            self.push(item, label, parts.iter().copied())?;
        }
        self.merge(start)
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
        let longest_row = max_children.map_or(u32::MAX, |n| n as u32);
        let label_hash = self.label(self.nodes.label(node).0);
        let first = State::first(hash(6, [label_hash]), mu.sqrt());
        self.grow(node, first, longest, context, |state, place, fragment| {
            // Children left out between the last one and this.
            let gaps = match state.length {
                0 => 0,
                _ => place as i32 - state.place as i32 - 1,
            };
            let value = state.value * fragment.value * decay.powi(gaps);
            let hash = hash(7, [state.hash, fragment.hash]);
            (state.length < longest_row).then_some((hash, value))
        })?;
        // The node alone is a leaf of the fragment.
        let leafness = if self.nodes.is_leaf(node) { leaf_factor.sqrt() } else { 1.0 };
        self.states[0].value *= decay * leafness;
        self.finish(node, context, |states, mut at, parts| {
            while states[at].before != NONE {
                memory::push(parts, states[at].part)?;
                at = states[at].before as usize;
            }
            parts.reverse();
            Ok(())
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
        let label_hash = self.label(label);
        let below = self.nodes.children(node);
        let start = self.items.items.len();
        let nodes = self.nodes;
        let (n, q) = (below.len(), q as usize);
        // A window at each place where it has at least one child; one of stars below a
        // leaf.
        let windows = if n == 0 { 1 } else { n + q - 1 };
        for first in 0..windows {
            context.check()?;
            let at = |place: usize| {
                let place = (first + place + 1).checked_sub(q).filter(|&at| at < n);
                place.map_or(STAR, |at| nodes.label(below[at]).0)
            };
            let window = (0..q).map(|place| self.label(at(place)));
            let hash = hash(8, [label_hash].into_iter().chain(window));
            let item = Item { hash, value: 1.0, size: 1, number: NONE };
            self.push(item, label, (0..q).map(|place| Part::Bare(at(place))))?;
        }
        for child in below {
            // Stems grow upwards, label by label, as long as they may.
            for at in self.range(*child) {
                let stem = self.items.items[at];
                if stem.size < p {
                    self.push(
                        Item {
                            hash: hash(9, [label_hash, stem.hash]),
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
        self.merge(start)
    }

    /// The features of a tree that begin above its root: pq-grams.
    pub(super) fn above(&mut self, root: NodeId) -> Result<()> {
        if let Kind::PqGrams { p, .. } = *self.kind {
            for at in self.range(root) {
                let mut stem = self.items.items[at];
                // Above the root there are stars.
                for _ in stem.size..p {
                    let before = Part::Whole(stem.number);
                    stem.hash = hash(9, [0, stem.hash]);
                    stem.number = match &mut self.names {
                        None => NONE,
                        Some(names) => names.add(stem.hash, STAR, [before])?,
                    };
                }
                // Stems of p labels end at or below the root, and were counted there.
                if self.items.items[at].size < p {
                    self.items.push(stem)?;
                }
            }
        }
        self.items.close("features")
    }
}
