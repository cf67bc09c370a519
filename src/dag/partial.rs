//! The partial tree kernel's scorer.
//!
//! With D as in [`crate::kernel::partial`], a node v of the scored tree has with every
//! subtree ξ of its label μ λ² leafness in common, which sums over ξ tell without looking
//! at any, and more only where children match. Lists by (label, child's label) hold these
//! children; for each child i of v one is walked:
//!
//! ```text
//! for (ξ, j, child) in list:
//!     T = D(v_i, child) (1 + Σ over earlier matches (i',j') of ξ, i' < i, j' < j, of
//!                            λ^(i-i'-1 + j-j'-1) T')
//!     D(v,ξ) += μ T;   S += μ T f(ξ)
//! ```
//!
//! Matches of one ξ are chained, the last one first. Values start as μ λ² throughout and
//! are set back by the same lists.
//!
//! # Guards
//! Chains cost the square of the matches. Subtrees that are wide or repeat labels are in
//! no list; they, and all subtrees where v is such a node or `max_children` matters, go
//! through [`Chains`], never slower than one pass over both child lists.
//!
//! # Complexity
//! A score takes time by the matches of (label, child's label) between its tree and the
//! model and by pairs of matches of one node, at most a constant times the grids of both
//! child lists; memory 12 bytes per edge of the model.

use super::lens::{Key, LISTS, Lens, Wanted};
use super::tree::{NONE, Reader};
use super::weights::{LEAF, Sink, Slot, View};
use crate::intern::Keys;
use crate::kernel::partial::{Chains, Table, Weights};
use crate::team::Pause;
use crate::{NodeId, Nodes, Result};

/// Nodes with more children are in no list, nor go through lists.
const WIDE: usize = 32;
/// Nor those whose children share their label with more than so many on average. Nodes
/// of k and k' children that pass have at most 8 sqrt(k k') matches, hence at most
/// 32 k k' steps along chains.
const REPEATED: usize = 8;
/// Matches walked between two questions whether to go on.
const BETWEEN_PAUSES: usize = 1 << 18;

/// A child of a model's subtree.
#[derive(Debug, Clone, Copy)]
struct Entry {
    /// The subtree's number within its label.
    u: u32,
    position: u32,
    /// The child's number within its label; [`LEAF`] for a leaf.
    child: u32,
}

/// Inverted lists of the model's subtrees.
#[derive(Debug, Clone)]
pub(super) struct Index {
    decay: f64,
    mu: f64,
    weights: Weights,
    longest: usize,
    keys: Keys,
    lists: Vec<Vec<Entry>>,
    /// By label: its inner subtrees, and the numbers of those in no list.
    members: Vec<Vec<NodeId>>,
    unlisted: Vec<Vec<u32>>,
    widest: usize,
}

/// A match of the node at hand.
#[derive(Debug, Clone, Copy)]
struct Match {
    u: u32,
    row: u32,
    column: u32,
    /// The match of the same u before it, plus one.
    before: u32,
    chains: f64,
}

/// What a worker keeps from tree to tree.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// By place: D(v, ·) while a parent will ask; empty: as for no common child.
    values: Vec<Vec<f64>>,
    /// Arrays of values as for no common child.
    clean: Vec<Vec<f64>>,
    /// By u: its last match plus one; zero between nodes.
    heads: Vec<u32>,
    matches: Vec<Match>,
    powers: Vec<f64>,
    table: Table,
    chains: Chains<f64>,
    labels: Vec<u32>,
    walked: usize,
}

impl Index {
    pub(super) fn new(
        decay: f64,
        mu: f64,
        leaf_factor: f64,
        max_children: Option<usize>,
    ) -> Self {
        Self {
            decay,
            mu,
            weights: Weights::new(decay, mu, leaf_factor),
            longest: max_children.unwrap_or(usize::MAX),
            keys: Keys::default(),
            lists: Vec::new(),
            members: Vec::new(),
            unlisted: Vec::new(),
            widest: 0,
        }
    }

    pub(super) fn find(&self, key: Key) -> Option<u32> {
        self.keys.find(key)
    }

    /// Enters a new inner subtree; `slots` are those of all subtrees before it.
    pub(super) fn enter(
        &mut self,
        nodes: &Nodes,
        node: NodeId,
        slots: &[Slot],
    ) -> Result<Slot> {
        let label = nodes.label(node).0;
        if self.members.len() <= label as usize {
            self.members.resize_with(label as usize + 1, Vec::new);
            self.unlisted.resize_with(label as usize + 1, Vec::new);
        }
        let members = &mut self.members[label as usize];
        let number = members.len() as u32;
        members.push(node);
        let below = nodes.children(node);
        self.widest = self.widest.max(below.len());
        let is_listed = is_narrow(&below.iter().map(|&c| nodes.label(c).0));
        if !is_listed {
            self.unlisted[label as usize].push(number);
        }
        for (position, &child) in below.iter().enumerate() {
            let wanted = Wanted::LabelPairs;
            let Some(key) = Lens::key(wanted, nodes, node, position, child) else {
                continue;
            };
            // Lists of those that are in none exist, too: a key is one question only.
            let list = self.keys.insert(key, LISTS)? as usize;
            if self.lists.len() <= list {
                self.lists.push(Vec::new());
            }
            if is_listed {
                let slot = slots[child.index()];
                let child = if slot.group == LEAF { LEAF } else { slot.number };
                let position = position as u32;
                self.lists[list].push(Entry { u: number, position, child });
            }
        }
        Ok(Slot { group: label, number })
    }

    pub(super) fn nbytes(&self) -> usize {
        let of = |list: &Vec<Entry>| list.capacity() * size_of::<Entry>() + 24;
        let members = |list: &Vec<NodeId>| list.capacity() * 4 + 48;
        self.keys.nbytes()
            + self.lists.iter().map(of).sum::<usize>()
            + self.members.iter().map(members).sum::<usize>()
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) fn score<S: Sink>(
        &self,
        store: &Nodes,
        lens: &Lens,
        model: (&Nodes, &[Slot]),
        tree: &Reader,
        scratch: &mut Scratch,
        sink: &mut S,
        pause: &mut Pause<'_>,
    ) -> Result<()> {
        let items = tree.items();
        if scratch.values.len() < items.len() {
            scratch.values.resize_with(items.len(), Vec::new);
        }
        let mut walk = Walk { index: self, store, lens, model, tree, scratch };
        for (place, item) in items.iter().enumerate() {
            let label = lens.labels[store.label(item.node).index()];
            let is_leaf = store.is_leaf(item.node);
            if label != NONE {
                sink.node(place, item.count);
                let members = self.members.get(label as usize);
                let has_inner = members.is_some_and(|members| !members.is_empty());
                if has_inner {
                    sink.group(label, self.weights.of(is_leaf, false));
                }
                sink.leaf(label, self.weights.of(is_leaf, true));
                if has_inner && !is_leaf {
                    walk.node(place, label, sink);
                }
            }
            for &child in store.children(item.node) {
                let child = tree.place(child);
                if items[child].last_use == place as u32 {
                    walk.release(child);
                }
            }
            if walk.scratch.walked > BETWEEN_PAUSES {
                walk.scratch.walked = 0;
                if let Err(error) = pause() {
                    (0..items.len()).for_each(|place| walk.release(place));
                    return Err(error);
                }
            }
        }
        walk.release(items.len() - 1);
        Ok(())
    }
}

/// Whether a node goes through lists.
fn is_narrow(labels: &(impl ExactSizeIterator<Item = u32> + Clone)) -> bool {
    let n = labels.len();
    if n <= REPEATED {
        return true;
    }
    if n > WIDE {
        return false;
    }
    let equal = |label| labels.clone().filter(|&other| other == label).count();
    labels.clone().map(equal).sum::<usize>() <= REPEATED * n
}

struct Walk<'a> {
    index: &'a Index,
    store: &'a Nodes,
    lens: &'a Lens,
    /// The model's store, and its subtrees' slots.
    model: (&'a Nodes, &'a [Slot]),
    tree: &'a Reader,
    scratch: &'a mut Scratch,
}

impl Walk<'_> {
    /// Whether a node of the scored tree goes through lists.
    fn is_listed(&self, node: NodeId) -> bool {
        let below = self.store.children(node);
        let labels = below.iter().map(|&c| self.store.label(c).0);
        (self.index.longest >= below.len() || self.index.longest == usize::MAX)
            && is_narrow(&labels)
    }

    /// Adds what a node's subtrees have beyond a node in common.
    fn node<S: Sink>(&mut self, place: usize, group: u32, sink: &mut S) {
        let index = self.index;
        let item = self.tree.items()[place];
        let is_listed = self.is_listed(item.node);
        let all = index.members[group as usize].len();
        let has_unlisted = !index.unlisted[group as usize].is_empty();
        let edges = self.lens.edges(item.node);
        let has_lists = edges.iter().any(|&edge| self.lens.list(edge) != NONE);
        if !has_lists {
            return;
        }
        let mut own = self.scratch.clean.pop().unwrap_or_default();
        if own.len() < all {
            own.resize(all, index.weights.inner);
        }
        let mut view = sink.view(group);
        if is_listed {
            self.walk_lists(item.node, &mut own, &mut view);
            if has_unlisted {
                let some = index.unlisted[group as usize].iter().copied();
                self.walk_grids(item.node, group, some, &mut own, &mut view);
            }
        } else {
            self.walk_grids(item.node, group, 0..all as u32, &mut own, &mut view);
        }
        view.close();
        self.scratch.values[place] = own;
        if item.last_use == NONE {
            self.release(place);
        }
    }

    fn walk_lists<V: View>(&mut self, node: NodeId, own: &mut [f64], view: &mut V) {
        let Index { mu, weights, members, lists, .. } = self.index;
        let (mu, n_members) = (*mu, own.len());
        debug_assert!(!members.is_empty());
        let Scratch { values, heads, matches, powers, walked, .. } = &mut *self.scratch;
        let edges = self.lens.edges(node);
        grow_powers(powers, self.index.decay, self.index.widest.max(edges.len()));
        if heads.len() < n_members {
            heads.resize(n_members, 0);
        }
        for (row, &edge) in edges.iter().enumerate() {
            let Some(list) = lists.get(self.lens.list(edge) as usize) else { continue };
            let is_leaf = self.store.is_leaf(edge.child);
            let below = &values[self.tree.place(edge.child)];
            let goes_on = row + 1 < edges.len();
            *walked += list.len();
            for &Entry { u, position, child } in list {
                let d = match (is_leaf, child == LEAF) {
                    (false, false) if below.is_empty() => weights.inner,
                    (false, false) => below[child as usize],
                    (is_leaf, is_other) => weights.of(is_leaf, is_other),
                };
                let mut sum = d;
                let mut at = heads[u as usize];
                while let Some(other) = matches.get((at as usize).wrapping_sub(1)) {
                    if other.row < row as u32 && other.column < position {
                        let gaps = powers[row - other.row as usize - 1]
                            * powers[(position - other.column - 1) as usize];
                        sum += d * (gaps * other.chains);
                    }
                    at = other.before;
                }
                let more = mu * sum;
                own[u as usize] += more;
                view.add(u, more);
                if goes_on {
                    let (row, column) = (row as u32, position);
                    let before = heads[u as usize];
                    matches.push(Match { u, row, column, before, chains: sum });
                    heads[u as usize] = matches.len() as u32;
                }
            }
        }
        *walked += matches.len();
        for entry in matches.drain(..) {
            heads[entry.u as usize] = 0;
        }
    }

    /// One pass over both child lists for each of some subtrees.
    fn walk_grids<V: View>(
        &mut self,
        node: NodeId,
        group: u32,
        some: impl Iterator<Item = u32>,
        own: &mut [f64],
        view: &mut V,
    ) {
        let Self { index, store, lens, model: (nodes, slots), tree, .. } = *self;
        let Scratch { values, powers, table, chains, labels, walked, .. } =
            &mut *self.scratch;
        let below = store.children(node);
        grow_powers(powers, index.decay, index.widest.max(below.len()));
        // What the model does not know matches nothing: a label of its own.
        let unknown = nodes.labels().len() as u32;
        labels.clear();
        labels.extend(below.iter().map(|&c| {
            let label = lens.labels[store.label(c).index()];
            if label == NONE { unknown } else { label }
        }));
        table.fill(unknown as usize + 1, labels.iter().copied());
        for u in some {
            let other = nodes.children(index.members[group as usize][u as usize]);
            let d = |row: u32, column: u32| {
                let (x, y) = (below[column as usize], other[row as usize]);
                let slot = slots[y.index()];
                match (store.is_leaf(x), slot.group == LEAF) {
                    (false, false) => {
                        let values = &values[tree.place(x)];
                        // Without values: no common child.
                        values.get(slot.number as usize).copied()
                    }
                    (is_leaf, is_other) => Some(index.weights.of(is_leaf, is_other)),
                }
                .unwrap_or(index.weights.inner)
            };
            let rows = other.iter().map(|&c| nodes.label(c).0);
            let more = index.mu * chains.sum(rows, table, powers, index.longest, d);
            *walked += below.len() + other.len();
            own[u as usize] += more;
            view.add(u, more);
        }
        table.clear(labels.iter().copied());
    }

    /// Takes a node's values back, and makes them as for no common child.
    fn release(&mut self, place: usize) {
        let mut values = std::mem::take(&mut self.scratch.values[place]);
        if values.is_empty() {
            return;
        }
        let Index { weights, lists, unlisted, .. } = self.index;
        let node = self.tree.items()[place].node;
        let group = self.lens.labels[self.store.label(node).index()];
        if self.is_listed(node) {
            for &edge in self.lens.edges(node) {
                let list = lists.get(self.lens.list(edge) as usize);
                for entry in list.into_iter().flatten() {
                    values[entry.u as usize] = weights.inner;
                }
            }
            for &u in &unlisted[group as usize] {
                values[u as usize] = weights.inner;
            }
        } else {
            values.fill(weights.inner);
        }
        self.scratch.clean.push(values);
    }
}

/// λ^0 .. λ^n, made longer if need be.
fn grow_powers(powers: &mut Vec<f64>, decay: f64, n: usize) {
    while powers.len() <= n {
        powers.push(powers.last().map_or(1.0, |last| last * decay));
    }
}
