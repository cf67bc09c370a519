//! The subset tree kernel's scorer.
//!
//! For a node v of the scored tree and a subtree ξ of the model with v's production
//!
//! ```text
//! C(v,ξ) = λ Π_j (1 + C(v_j, ξ_j))           λ where no child shares its production
//! S(x)   = Σ_v [ λ Σ_ξ f(ξ)  +  Σ_ξ (C(v,ξ) - λ) f(ξ) ]      ξ of v's production
//! ```
//!
//! The first sum is kept per production. The second needs only those ξ that share the
//! production of a child with v, and lists by (production, position, child's production)
//! hold them. It is the walk of [`crate::gram`]'s rows of this kernel, with f in the
//! place of trees:
//!
//! ```text
//! for (ξ, child) in list:   d = c_v[ξ] c_child[child];   c_v[ξ] += d;   S += d f(ξ)
//! ```
//!
//! Values c_v start as λ throughout and are set back to it by walking the same lists
//! again: clearing them would take the size of the production's group, not of the match.
//!
//! # Complexity
//! A score takes time by the matches of (production, position, child's production)
//! between its tree and the model; a new subtree by its children. Memory: 8 bytes per
//! inner edge of the model, its list's 24 where it is the first in it.

use std::collections::HashMap;

use super::lens::{Key, LISTS, Lens, Wanted};
use super::tree::{NONE, Reader};
use super::weights::{Sink, Slot, View};
use crate::intern::Keys;
use crate::team::Pause;
use crate::{NodeId, Nodes, Result};

/// Values of nodes that are kept whole (16 MB); beyond this, nodes that touched few keep
/// only these. A node of 100,000 different children needs it.
const MAX_LIVE: usize = 1 << 21;
/// Entries walked between two questions whether to go on.
const BETWEEN_PAUSES: usize = 1 << 20;

/// A subtree in a list.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    /// Its number within its production.
    pub(super) u: u32,
    /// The number of its child within the child's.
    pub(super) child: u32,
}

/// Inverted lists of the model's subtrees.
#[derive(Debug, Clone)]
pub(super) struct Index {
    pub(super) decay: f64,
    pub(super) leaf_weight: f64,
    keys: Keys,
    lists: Vec<Vec<Entry>>,
    /// By production: how many subtrees.
    group_sizes: Vec<u32>,
}

/// What a worker keeps from tree to tree.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// By place: C(v, ·) while a parent will ask; empty: λ throughout.
    values: Vec<Vec<f64>>,
    /// Arrays that are λ throughout.
    clean: Vec<Vec<f64>>,
    /// By place: the group, and the values of nodes that keep only what they touched.
    folded: HashMap<usize, (u32, Vec<(u32, f64)>)>,
    live: usize,
    walked: usize,
    /// Set low by tests.
    max_live: Option<usize>,
}

impl Index {
    pub(super) fn new(decay: f64, leaf_weight: f64) -> Self {
        Self {
            decay,
            leaf_weight,
            keys: Keys::default(),
            lists: Vec::new(),
            group_sizes: Vec::new(),
        }
    }

    /// The lists, by number.
    pub(super) fn lists(&self) -> &[Vec<Entry>] {
        &self.lists
    }

    /// What a list is of: production, position, production of the child.
    pub(super) fn key(&self, list: u32) -> Key {
        self.keys.keys[list as usize]
    }

    /// How many subtrees a production has.
    pub(super) fn group_size(&self, group: u32) -> usize {
        self.group_sizes.get(group as usize).map_or(0, |&size| size as usize)
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
        let group = nodes.production(node).map_or(0, |p| p.0);
        if self.group_sizes.len() <= group as usize {
            self.group_sizes.resize(group as usize + 1, 0);
        }
        let number = self.group_sizes[group as usize];
        for (position, &child) in nodes.children(node).iter().enumerate() {
            let wanted = Wanted::Productions;
            if let Some(key) = Lens::key(wanted, nodes, node, position, child) {
                let list = self.keys.insert(key, LISTS)? as usize;
                if self.lists.len() <= list {
                    self.lists.push(Vec::new());
                }
                let entry = Entry { u: number, child: slots[child.index()].number };
                self.lists[list].push(entry);
            }
        }
        self.group_sizes[group as usize] += 1;
        Ok(Slot { group, number })
    }

    pub(super) fn nbytes(&self) -> usize {
        let of = |list: &Vec<Entry>| list.capacity() * size_of::<Entry>();
        self.keys.nbytes()
            + self.lists.iter().map(of).sum::<usize>()
            + self.lists.capacity() * size_of::<Vec<Entry>>()
            + self.group_sizes.capacity() * 4
    }

    pub(super) fn score<S: Sink>(
        &self,
        store: &Nodes,
        lens: &Lens,
        tree: &Reader,
        scratch: &mut Scratch,
        sink: &mut S,
        pause: &mut Pause<'_>,
    ) -> Result<()> {
        let items = tree.items();
        if scratch.values.len() < items.len() {
            scratch.values.resize_with(items.len(), Vec::new);
        }
        let mut walk = Walk { index: self, lens, tree, scratch };
        for (place, item) in items.iter().enumerate() {
            let Some(production) = store.production(item.node) else {
                let label = lens.labels[store.label(item.node).index()];
                if label != NONE {
                    sink.node(place, item.count);
                    sink.leaf(label, self.leaf_weight);
                }
                continue;
            };
            let group = lens.productions[production.index()];
            if group != NONE {
                sink.node(place, item.count);
                sink.group(group, self.decay);
                walk.node(place, group, sink);
            }
            walk.release_children(place);
            if walk.scratch.walked > BETWEEN_PAUSES {
                walk.scratch.walked = 0;
                if let Err(error) = pause() {
                    walk.release_all();
                    return Err(error);
                }
            }
        }
        walk.release(items.len() - 1);
        Ok(())
    }
}

struct Walk<'a> {
    index: &'a Index,
    lens: &'a Lens,
    tree: &'a Reader,
    scratch: &'a mut Scratch,
}

impl<'a> Walk<'a> {
    /// The lists of a node's edges that the model has, with the places of the children.
    #[inline]
    fn lists(
        &self,
        place: usize,
    ) -> impl Iterator<Item = (&'a [Entry], usize)> + use<'a> {
        let (index, lens, tree) = (self.index, self.lens, self.tree);
        lens.edges(tree.items()[place].node).iter().filter_map(move |&edge| {
            let list = index.lists.get(lens.list(edge) as usize)?;
            Some((&list[..], tree.place(edge.child)))
        })
    }

    /// Adds what a node's subtrees have beyond λ.
    #[inline]
    fn node<S: Sink>(&mut self, place: usize, group: u32, sink: &mut S) {
        let lists = self.lists(place);
        let mut n_lists = self.lists(place).count();
        if n_lists == 0 {
            return;
        }
        let decay = self.index.decay;
        let is_asked = self.tree.items()[place].last_use != NONE;
        let mut view = sink.view(group);
        // Nobody will ask for a root's values: its last list writes none, and one with a
        // single list needs none.
        let mut own = Vec::new();
        if is_asked || n_lists > 1 {
            own = self.take(group);
        }
        let mut is_first = true;
        for (list, child) in lists {
            n_lists -= 1;
            self.scratch.walked += list.len();
            let unfolded = self.unfold(child);
            let below = unfolded.as_ref().unwrap_or(&self.scratch.values[child]);
            let below = if below.is_empty() { None } else { Some(&below[..]) };
            let is_last = n_lists == 0 && !is_asked;
            match (is_first, is_last) {
                (true, true) => walk_only(list, decay, below, &mut view),
                (true, false) => walk_first(list, decay, below, &mut own, &mut view),
                (false, true) => walk_last(list, decay, below, &own, &mut view),
                (false, false) => walk(list, decay, below, &mut own, &mut view),
            }
            is_first = false;
            if let Some(values) = unfolded {
                self.clean(child, values);
            }
        }
        view.close();
        if is_asked {
            self.keep(place, group, own);
        } else {
            self.clean(place, own);
        }
    }

    /// An array for a group, λ throughout.
    #[inline]
    fn take(&mut self, group: u32) -> Vec<f64> {
        let len = self.index.group_sizes[group as usize] as usize;
        let mut values = self.scratch.clean.pop().unwrap_or_default();
        if values.len() < len {
            values.resize(len, self.index.decay);
        }
        values
    }

    /// Sets values back to λ, by the lists of the node that they are of.
    #[inline]
    fn clean(&mut self, place: usize, mut values: Vec<f64>) {
        if values.is_empty() {
            return;
        }
        let decay = self.index.decay;
        for (list, _) in self.lists(place) {
            for entry in list {
                values[entry.u as usize] = decay;
            }
        }
        self.scratch.clean.push(values);
    }

    /// Keeps a node's values for its parents.
    #[inline]
    fn keep(&mut self, place: usize, group: u32, values: Vec<f64>) {
        let max_live = self.scratch.max_live.unwrap_or(MAX_LIVE);
        if self.scratch.live + values.len() > max_live {
            let touched: usize = self.lists(place).map(|(list, _)| list.len()).sum();
            if touched < values.len() / 4 {
                let entries = self.lists(place).flat_map(|(list, _)| list);
                let few = entries.map(|e| (e.u, values[e.u as usize])).collect();
                self.clean(place, values);
                self.scratch.folded.insert(place, (group, few));
                return;
            }
        }
        self.scratch.live += values.len();
        self.scratch.values[place] = values;
    }

    /// The values of a node that kept only those it touched.
    #[inline]
    fn unfold(&mut self, place: usize) -> Option<Vec<f64>> {
        if self.scratch.folded.is_empty() {
            return None;
        }
        let (group, _) = *self.scratch.folded.get(&place)?;
        let mut values = self.take(group);
        for &(u, value) in &self.scratch.folded[&place].1 {
            values[u as usize] = value;
        }
        Some(values)
    }

    /// Gives back the values of children that no later parent asks for.
    #[inline]
    fn release_children(&mut self, place: usize) {
        let (lens, tree) = (self.lens, self.tree);
        for edge in lens.edges(tree.items()[place].node) {
            let child = tree.place(edge.child);
            if tree.items()[child].last_use == place as u32 {
                self.release(child);
            }
        }
    }

    #[inline]
    fn release(&mut self, place: usize) {
        let values = std::mem::take(&mut self.scratch.values[place]);
        self.scratch.live -= values.len();
        self.clean(place, values);
        if !self.scratch.folded.is_empty() {
            self.scratch.folded.remove(&place);
        }
    }

    fn release_all(&mut self) {
        for place in 0..self.tree.items().len() {
            self.release(place);
        }
    }
}

/// C of a child; None: λ throughout.
#[inline]
pub(super) fn c_of(below: Option<&[f64]>, decay: f64, child: u32) -> f64 {
    below.map_or(decay, |below| below[child as usize])
}

/// A list of a node that has been through others, and whose values are asked for later.
#[inline]
fn walk<V: View>(
    list: &[Entry],
    decay: f64,
    below: Option<&[f64]>,
    own: &mut [f64],
    view: &mut V,
) {
    for &Entry { u, child } in list {
        let c = &mut own[u as usize];
        let more = *c * c_of(below, decay, child);
        *c += more;
        view.add(u, more);
    }
}

/// The first list: c is λ.
#[inline]
fn walk_first<V: View>(
    list: &[Entry],
    decay: f64,
    below: Option<&[f64]>,
    own: &mut [f64],
    view: &mut V,
) {
    for &Entry { u, child } in list {
        let more = decay * c_of(below, decay, child);
        own[u as usize] = decay + more;
        view.add(u, more);
    }
}

/// The last list of a root.
#[inline]
fn walk_last<V: View>(
    list: &[Entry],
    decay: f64,
    below: Option<&[f64]>,
    own: &[f64],
    view: &mut V,
) {
    for &Entry { u, child } in list {
        view.add(u, own[u as usize] * c_of(below, decay, child));
    }
}

/// The only list of a root.
#[inline]
fn walk_only<V: View>(list: &[Entry], decay: f64, below: Option<&[f64]>, view: &mut V) {
    for &Entry { u, child } in list {
        view.add(u, decay * c_of(below, decay, child));
    }
}
