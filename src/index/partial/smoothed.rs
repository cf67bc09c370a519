//! A walk over the [index](super) by similar labels.
//!
//! With a similarity σ of labels D(v,u) is μ σ(v,u) (λ² leafness + Σ ..), as in
//! [`crate::kernel::SmoothedPartialTree`]. What is kept of a query node is D / σ, with the
//! subtrees of all groups that have similar labels, one after another; σ comes in where a
//! parent or the sink takes it.
//!
//! **Groups.** Labels of a block that is a matrix are *one* group of the index: its lists hold
//! the children of all of them, and σ of each entry is read from a row of the matrix. Other
//! labels are groups of their own; each finds those of its similar labels one by one, with a
//! σ that is the same for a whole list. So where similarity is dense there are few and long
//! lists, and where it is sparse nothing is visited that is not similar.
//!
//! # Complexity
//! That of the index's own walk, by what is similar in place of what is equal.

use std::sync::Arc;

use super::walk::{Link, add_pairs};
use super::{CELL, Entry, FIRST_LEAF, Index, Member, SinkId, WIDE};
use crate::index::prefixes::{Bounds, Extent};
use crate::index::reader::{NONE, Reader};
use crate::index::weights::{LEAF, Sink, View};
use crate::kernel::partial::{Chains, Table, grow_powers};
use crate::kernel::similarity::{Block, SimilarityTable};
use crate::memory::{self, reserve};
use crate::ragged::Ragged;
use crate::{Context, Error, Label, NodeId, Nodes, Result};

/// Values that a query tree may need at a time (2 GB).
const MAX_VALUES: usize = 1 << 28;

/// How labels go together. Labels are numbers in the table of similarities.
#[derive(Debug)]
pub(crate) struct Groups {
    pub(crate) table: Arc<SimilarityTable>,
    /// By label: its group. Those of blocks come after those of single labels.
    of_label: Vec<u32>,
    /// By group of blocks: the place of each subtree's label.
    places: Vec<Vec<u32>>,
    /// By group: what is similar.
    near: Ragged<Near>,
    /// By group: how many subtrees are near.
    totals: Vec<usize>,
    /// By group: the groups of children, and their lists' keys.
    below: Vec<Vec<(u32, u32)>>,
}

/// A group with similar labels.
#[derive(Debug, Clone, Copy)]
struct Near {
    group: u32,
    /// Where its subtrees' values start.
    offset: u32,
    /// σ with all of it; 1 where a row of the matrix has it.
    sigma: f64,
}

impl Groups {
    /// # Errors
    /// [`Error::Memory`].
    pub(crate) fn new(table: Arc<SimilarityTable>) -> Result<Self> {
        let n = table.len();
        // Labels of a matrix block have the block's group, which comes after those of
        // all labels.
        let group = |label: usize| {
            let (block, _) = table.place(label);
            match table.blocks().get(block as usize) {
                Some(Block::Matrix { .. }) => n as u32 + block,
                _ => label as u32,
            }
        };
        Ok(Self {
            of_label: memory::collect((0..n).map(group))?,
            places: memory::filled(Vec::new(), table.blocks().len())?,
            near: Ragged::default(),
            totals: Vec::new(),
            below: Vec::new(),
            table,
        })
    }

    fn len(&self) -> usize {
        self.of_label.len() + self.places.len()
    }

    /// A label's group.
    pub(crate) fn of(&self, label: usize) -> u32 {
        self.of_label[label]
    }

    /// What stands for a leaf with this label in its parent's list.
    pub(crate) fn leaf(&self, label: usize) -> u32 {
        // In a block's lists leaves of several labels stand together, so a number says
        // which it is.
        match self.row(label) {
            Some(_) => FIRST_LEAF + self.table.place(label).1,
            None => LEAF,
        }
    }

    /// Takes note of a subtree that was entered.
    ///
    /// # Errors
    /// [`crate::Error::Memory`].
    pub(crate) fn entered(&mut self, label: usize) -> Result<()> {
        // Only groups of blocks have to remember the labels of their subtrees.
        let block = self.of_label[label] as usize;
        if let Some(block) = block.checked_sub(self.of_label.len()) {
            memory::push(&mut self.places[block], self.table.place(label).1)?;
        }
        Ok(())
    }

    /// σ of a label by places, if its block is a group.
    fn row(&self, label: usize) -> Option<&[f64]> {
        let (block, place) = self.table.place(label);
        match self.table.blocks().get(block as usize) {
            Some(Block::Matrix { n, values }) => {
                Some(&values[place as usize * n..][..*n])
            }
            _ => None,
        }
    }

    /// The places of a group's subtrees.
    fn places(&self, group: u32) -> &[u32] {
        let block = (group as usize).checked_sub(self.of_label.len());
        block.map_or(&[], |block| &self.places[block])
    }

    /// Once all subtrees are entered.
    pub(crate) fn finish<T: SinkId>(&mut self, index: &Index<T>) -> Result<()> {
        let members = self.table.members()?;
        for group in 0..self.len() {
            let mut offset = 0;
            // Values of near groups stand one after another.
            let mut add = |group: u32, sigma: f64| {
                self.near.push(Near { group, offset: offset as u32, sigma })?;
                offset += index.n_members(group);
                Ok::<_, Error>(())
            };
            let is_label = group < self.of_label.len();
            let (block, place) =
                if is_label { self.table.place(group) } else { (NONE, 0) };
            // A block by rows: the similar labels, with the label itself, in ascending
            // order, as `walk_grids` searches them.
            match self.table.blocks().get(block as usize) {
                Some(Block::Rows { .. }) => {
                    let row = self.table.row(block as usize, place as usize);
                    let others = row.iter().map(|&(y, sigma)| {
                        (members[block as usize][y as usize], sigma)
                    });
                    let mut similar =
                        memory::collect(others.chain([(group as u32, 1.0)]))?;
                    similar.sort_unstable_by_key(|of| of.0);
                    for (label, sigma) in similar {
                        add(label, sigma)?;
                    }
                }
                // A block that is a matrix: its labels are asked for by the group of
                // the block.
                Some(Block::Matrix { .. }) => {}
                // A label in no block, or the group of a block: near to itself alone.
                None => add(group as u32, 1.0)?,
            }
            memory::push(&mut self.totals, offset)?;
            self.near.close("similar labels")?;
        }
        // The keys of each group, by the child's group: for queries whose children are
        // near to many.
        self.below = memory::filled_with(self.len(), Vec::new)?;
        for (key, &[group, _, child]) in (0..).zip(&index.keys.keys) {
            memory::push(&mut self.below[group as usize], (child, key))?;
        }
        self.below.iter_mut().for_each(|keys| keys.sort_unstable());
        Ok(())
    }

    #[inline]
    fn near(&self, label: usize) -> &[Near] {
        self.near.get(self.of_label[label] as usize)
    }

    pub(crate) fn nbytes(&self) -> usize {
        let keys: usize = self.below.iter().map(|keys| 8 * keys.capacity()).sum();
        let places: usize = self.places.iter().map(|of| 4 * of.capacity()).sum();
        self.near.nbytes()
            + keys
            + places
            + 12 * self.of_label.len()
            + self.table.nbytes()
    }
}

impl<T: SinkId> Index<T> {
    fn n_members(&self, group: u32) -> usize {
        // What is similar may be in no subtree of the index.
        let is_there = (group as usize) < self.open.len();
        if is_there { self.members.len_of(group as usize) } else { 0 }
    }
}

/// A query node's child, and a group that is near.
#[derive(Debug, Clone, Copy)]
struct NearChild {
    position: u32,
    child: NodeId,
    near: Near,
    /// The one before for the same group.
    next: u32,
}

/// A query node's child and one list that it matches.
#[derive(Debug, Clone, Copy)]
struct Edge {
    list: u32,
    /// The entries that count.
    bounds: Bounds,
    position: u32,
    child: NodeId,
    near: Near,
    /// Where its sums start, and where its links end.
    sums: u32,
    links: u32,
    /// Whether later edges have links to this one.
    goes_on: bool,
}

/// What a worker keeps from tree to tree.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// By place: D / σ while a parent will ask.
    values: Vec<Vec<f64>>,
    pool: Vec<Vec<f64>>,
    live: usize,
    /// What the children of the node at hand are near to; by group the last of these.
    near_children: Vec<NearChild>,
    heads: Vec<u32>,
    /// Numbers of those that a group has lists for, and their keys.
    found: Vec<(u32, u32)>,
    edges: Vec<Edge>,
    links: Vec<Link>,
    sums: Vec<f64>,
    powers: Vec<f64>,
    table: Table,
    chains: Chains<f64>,
    row: Vec<(u32, f64)>,
}

/// A tree that walks the index.
#[derive(Clone, Copy)]
pub(crate) struct Query<'a> {
    pub(crate) store: &'a Nodes,
    /// By label of the store: its number.
    pub(crate) numbers: &'a [u32],
    pub(crate) tree: &'a Reader,
}

impl Query<'_> {
    fn label(&self, node: NodeId) -> usize {
        let Label(label) = self.store.label(node);
        self.numbers[label as usize] as usize
    }
}

/// σ of the query node with the subtrees of a group.
#[derive(Clone, Copy)]
enum Factor<'a> {
    One,
    Row(&'a [f64], &'a [u32]),
}

impl Factor<'_> {
    #[inline]
    fn of(self, u: u32) -> f64 {
        match self {
            Self::One => 1.0,
            Self::Row(row, places) => row[places[u as usize] as usize],
        }
    }
}

/// One list, the T of its entries, and the D that they add to: none where nobody asks.
struct ListPass<'a, T> {
    mu: f64,
    list: &'a [Entry<T>],
    t: &'a mut [f64],
    node_values: &'a mut [f64],
    factor: Factor<'a>,
    /// Whether T are not all μ, and whether they are to be kept.
    is_linked: bool,
    goes_on: bool,
}

impl<T: SinkId> ListPass<'_, T> {
    #[inline]
    fn walk<V: View>(self, d: impl Fn(usize) -> f64, view: &mut V) {
        let Self { mu, list, t, node_values, factor, is_linked, goes_on } = self;
        // T is complete before D of the child comes in: it ends chains and continues
        // them.
        for (entry, sum) in list.iter().zip(t) {
            let t = if is_linked { *sum } else { mu } * d(entry.child as usize);
            if goes_on {
                *sum = t;
            }
            if let Some(value) = node_values.get_mut(entry.u as usize) {
                *value += t;
            }
            view.add(entry.target.of(entry.u), factor.of(entry.u) * t);
        }
    }
}

struct Walk<'a, T, E> {
    index: &'a Index<T>,
    groups: &'a Groups,
    query: Query<'a>,
    extent: &'a E,
    scratch: &'a mut Scratch,
}

/// Tells a sink what a tree has in common with the index, beside single nodes.
pub(crate) fn walk<T: SinkId, S: Sink>(
    index: &Index<T>,
    groups: &Groups,
    query: Query<'_>,
    extent: &impl Extent,
    scratch: &mut Scratch,
    sink: &mut S,
    context: &Context,
) -> Result<()> {
    let items = query.tree.items();
    memory::reach_with(&mut scratch.values, items.len(), Vec::new)?;
    let mut walk = Walk { index, groups, query, extent, scratch };
    // The same order as in the walk by equal labels: children first.
    let mut done = Ok(());
    for (place, item) in items.iter().enumerate() {
        if !query.store.is_leaf(item.node) {
            done = walk.node(place, sink, context);
        }
        for &child in query.store.children(item.node) {
            let child = query.tree.place(child);
            if items.get(child).is_some_and(|c| c.last_use == place as u32) {
                walk.release(child);
            }
        }
        if done.is_err() {
            // All arrays go back, as the next tree counts on empty places.
            (0..items.len()).for_each(|place| walk.release(place));
            break;
        }
    }
    // Nobody asked for the root's values, so nobody released them.
    let root = items.len() - 1;
    walk.release(root);
    done
}

impl<T: SinkId, E: Extent> Walk<'_, T, E> {
    fn release(&mut self, place: usize) {
        let values = std::mem::take(&mut self.scratch.values[place]);
        if values.capacity() > 0 {
            self.scratch.live -= values.len();
            memory::set_aside(&mut self.scratch.pool, values);
        }
    }

    /// Adds what a node's subtrees have beyond a node in common.
    fn node<S: Sink>(
        &mut self,
        place: usize,
        sink: &mut S,
        context: &Context,
    ) -> Result<()> {
        let item = self.query.tree.items()[place];
        // A pooled array is of another node: its size and values are set anew.
        let label = self.query.label(item.node);
        let mut values = self.scratch.pool.pop().unwrap_or_default();
        values.clear();
        // Nobody asks for the root's D.
        if item.last_use != NONE {
            let total = self.groups.totals[self.groups.of(label) as usize];
            self.scratch.live += total;
            if self.scratch.live > MAX_VALUES {
                self.scratch.live -= total;
                let what = "values of D that one row needs at a time";
                return Err(Error::Capacity { what, limit: MAX_VALUES as u64 });
            }
            memory::reach(&mut values, total, self.index.weights.inner)?;
        }
        let mut done = self.note_near_children(item.node);
        for near in self.groups.near(label) {
            if done.is_err() {
                break;
            }
            let members = self.index.n_members(near.group);
            if members == 0 {
                continue;
            }
            let len = self.extent.group(near.group, members);
            if len == 0 {
                continue;
            }
            // σ with a whole group is part of the count; 1 where a row has it.
            sink.node(place, item.count * near.sigma);
            let node_values =
                values.get_mut(near.offset as usize..).unwrap_or_default();
            let n_values = node_values.len().min(len);
            let mut view = sink.view(near.group);
            done = self.group(
                item.node,
                near,
                len,
                &mut node_values[..n_values],
                &mut view,
                context,
            );
            view.close();
        }
        // Heads are `NONE` again for the next node.
        for near_children in self.scratch.near_children.drain(..) {
            self.scratch.heads[near_children.near.group as usize] = NONE;
        }
        self.scratch.values[place] = values;
        done
    }

    fn group<V: View>(
        &mut self,
        node: NodeId,
        near: &Near,
        len: usize,
        node_values: &mut [f64],
        view: &mut V,
        context: &Context,
    ) -> Result<()> {
        let (index, groups, group) = (self.index, self.groups, near.group);
        let factor = match groups.row(self.query.label(node)) {
            Some(row) => Factor::Row(row, groups.places(group)),
            None => Factor::One,
        };
        // 1. Lists, or grids where pairs would take longer.
        let Some(touched) = self.find_edges(node, group)? else {
            return self.walk_grids(
                node,
                group,
                0..len as u32,
                node_values,
                factor,
                view,
                context,
            );
        };
        self.walk_lists(node_values, factor, view)?;
        // 2. Grids for what is in no list.
        let unlisted = index.unlisted.get(group as usize);
        let n = unlisted.partition_point(|&u| (u as usize) < len);
        let some = unlisted[..n].iter().copied();
        self.walk_grids(node, group, some, node_values, factor, view, context)?;
        self.scratch.chains.step(touched, context)
    }

    /// Takes note of what a node's children are near to.
    fn note_near_children(&mut self, node: NodeId) -> Result<()> {
        let Scratch { near_children, heads, .. } = &mut *self.scratch;
        memory::reach(heads, self.groups.len(), NONE)?;
        let below = self.query.store.children(node);
        // Wide nodes go by grids, which do not ask for this.
        if below.len() > WIDE {
            return Ok(());
        }
        for (position, &child) in (0..).zip(below) {
            // Chained by group: several children may be near to one group.
            for &near in self.groups.near(self.query.label(child)) {
                let head = &mut heads[near.group as usize];
                memory::push(
                    near_children,
                    NearChild { position, child, near, next: *head },
                )?;
                *head = near_children.len() as u32 - 1;
            }
        }
        Ok(())
    }

    /// Finds the lists that a node's children match and which of them have pairs; returns
    /// how many entries they have. None: grids take less time.
    fn find_edges(&mut self, node: NodeId, group: u32) -> Result<Option<usize>> {
        let (index, groups) = (self.index, self.groups);
        let n_below = self.query.store.children(node).len();
        if n_below > WIDE {
            return Ok(None);
        }
        // 1. The keys of what is near_children for: the group's, if they are fewer.
        let Scratch { near_children, heads, found, edges, links, .. } =
            &mut *self.scratch;
        edges.clear();
        links.clear();
        found.clear();
        let keys = &groups.below[group as usize];
        // Through the group's keys if they are few, else by a look-up for each near
        // child.
        if keys.len() < 4 * near_children.len() {
            for &(below, key) in keys {
                let mut at = heads[below as usize];
                while let Some(near_children) = near_children.get(at as usize) {
                    memory::push(found, (at, key))?;
                    at = near_children.next;
                }
            }
            // By position, as the pairs of lists want it.
            found.sort_unstable();
        } else {
            for (at, near_children) in (0..).zip(&*near_children) {
                if let Some(key) = index.keys.find([group, 0, near_children.near.group])
                {
                    memory::push(found, (at, key))?;
                }
            }
        }
        // 2. Their lists.
        let (mut used, mut n_pairs) = (0, 0);
        for at in 0..found.len() {
            self.add_edges(at, &mut used, &mut n_pairs)?;
        }
        // In cells of the grids that would be taken instead.
        let cells = n_below * index.n_edges[group as usize];
        Ok((n_pairs <= CELL * cells).then_some(used))
    }

    /// Takes note of the two lists of a key that was found.
    fn add_edges(
        &mut self,
        found: usize,
        used: &mut usize,
        n_pairs: &mut usize,
    ) -> Result<()> {
        let index = self.index;
        let Scratch { near_children, found: found_keys, edges, links, .. } =
            &mut *self.scratch;
        let (at, key) = found_keys[found];
        let NearChild { position, child, near, .. } = near_children[at as usize];
        let is_leaf = self.query.store.is_leaf(child);
        // Inner children, and leaves.
        for list in [2 * key, 2 * key + 1] {
            let bounds = self.extent.list(list, || index.lists.bounds(list as usize));
            // With leaf_factor 0, leaves end every chain.
            let is_other = list % 2 == 1;
            let ends =
                (is_leaf || is_other) && index.weights.of(is_leaf, is_other) == 0.0;
            if bounds[0] == bounds[1] || ends {
                continue;
            }
            for (number, other) in edges.iter_mut().enumerate() {
                if other.position == position {
                    break;
                }
                let Some(joined) = index.joined.find([other.list, list, 0]) else {
                    continue;
                };
                other.goes_on = true;
                let weight = index.powers[(position - other.position - 1) as usize];
                memory::push(links, Link { edge: number as u32, joined, weight })?;
                let lens = index.pairs_of(joined).map(|(pairs, _)| pairs.len());
                *n_pairs += lens.sum::<usize>();
            }
            let edge = Edge {
                list,
                bounds,
                position,
                child,
                near,
                sums: *used as u32,
                links: links.len() as u32,
                goes_on: false,
            };
            memory::push(edges, edge)?;
            *used += (bounds[1] - bounds[0]) as usize;
        }
        Ok(())
    }

    fn walk_lists<V: View>(
        &mut self,
        node_values: &mut [f64],
        factor: Factor<'_>,
        view: &mut V,
    ) -> Result<()> {
        let (index, groups, query) = (self.index, self.groups, self.query);
        let Scratch { values, edges, links, sums, .. } = &mut *self.scratch;
        let mut link = 0;
        for edge in &*edges {
            let list = index.lists.between(edge.bounds);
            let used = edge.sums as usize;
            let end = used + list.len();
            memory::reach(sums, end, 0.0)?;
            // 1. All sums are μ times what the formula says.
            let (earlier, t) = sums.split_at_mut(used);
            let t = &mut t[..list.len()];
            let links = &links[link..edge.links as usize];
            link = edge.links as usize;
            if !links.is_empty() {
                t.fill(index.mu);
            }
            for link in links {
                let from = &earlier[edges[link.edge as usize].sums as usize..];
                for (pairs, weight) in index.pairs_of(link.joined) {
                    add_pairs(pairs, from, link.weight * weight, t);
                }
            }
            // 2. Times D, to where it belongs.
            let Near { group, offset, sigma } = edge.near;
            let (is_linked, goes_on) = (!links.is_empty(), edge.goes_on);
            let to = ListPass {
                mu: index.mu,
                list,
                t,
                node_values,
                factor,
                is_linked,
                goes_on,
            };
            let row = groups.row(query.label(edge.child));
            let (is_leaf, is_other) =
                (query.store.is_leaf(edge.child), edge.list % 2 == 1);
            let weight = index.weights.of(is_leaf, is_other);
            let places = groups.places(group);
            // From where the values of that group start among the child's.
            let below = || &values[query.tree.place(edge.child)][offset as usize..];
            // σ of the child: one number, or by the row of its label. A leaf's row
            // starts at `FIRST_LEAF`.
            match row {
                None if is_leaf || is_other => {
                    let d = weight * sigma;
                    to.walk(|_| d, view);
                }
                None => {
                    let below = below();
                    to.walk(|c| sigma * below[c], view);
                }
                Some(row) if is_other => {
                    to.walk(|c| weight * row[c - FIRST_LEAF as usize], view);
                }
                Some(row) if is_leaf => {
                    to.walk(|c| weight * row[places[c] as usize], view);
                }
                Some(row) => {
                    let below = below();
                    to.walk(|c| below[c] * row[places[c] as usize], view);
                }
            }
        }
        Ok(())
    }

    /// Pairs of a node, one by one, with some subtrees of a group.
    #[allow(clippy::too_many_arguments)]
    fn walk_grids<V: View>(
        &mut self,
        node: NodeId,
        group: u32,
        some: impl Iterator<Item = u32>,
        node_values: &mut [f64],
        factor: Factor<'_>,
        view: &mut V,
        context: &Context,
    ) -> Result<()> {
        let mut some = some.peekable();
        if some.peek().is_none() {
            return Ok(());
        }
        let (index, groups, query) = (self.index, self.groups, self.query);
        let Scratch { values, powers, table, chains, row, .. } = &mut *self.scratch;
        // 1. Hang the node's children up by group.
        let below = query.store.children(node);
        // Labels that are near are found through their groups.
        let group_of = |&child: &NodeId| groups.of(query.label(child));
        table.fill(groups.len(), below.iter().map(group_of))?;
        // 2. Match those of each subtree with them.
        let members = index.members.get(group as usize);
        let mut done = Ok(());
        // Errors end the loop and not the call: the table has to be emptied.
        'some: for u in some {
            let Member { start, len, target } = members[u as usize];
            let other = &index.below[start as usize..][..len as usize];
            done = grow_powers(powers, index.decay, below.len().max(other.len()));
            if done.is_err() {
                break;
            }
            let found = |group: u32| -> usize {
                let near = groups.near.get(group as usize);
                near.iter().map(|near| table.count(near.group) as usize).sum()
            };
            // Chains choose their method by these, so they are counted before.
            let n_rows = other.iter().filter(|y| found(y.label) > 0).count();
            let n_matches = other.iter().map(|y| found(y.label)).sum();
            done = chains.step(below.len() + other.len(), context);
            if done.is_err() {
                break;
            }
            if n_matches == 0 {
                continue;
            }
            done = chains
                .start(n_rows, below.len(), n_matches, index.longest)
                .and_then(|()| reserve(row, n_matches));
            if done.is_err() {
                break;
            }
            let mut sum = 0.0;
            for (i, y) in other.iter().enumerate() {
                // From the subtree's side: which groups are near to its child's, and
                // then which of the query's children have these.
                let near = groups.near.get(y.label as usize);
                let is_other = y.number >= FIRST_LEAF;
                row.clear();
                for &Near { group, sigma, .. } in near {
                    let values = table.positions(group).map(|j| {
                        let x = below[j as usize];
                        let label = query.label(x);
                        let sigma = groups.row(label).map_or(sigma, |row| {
                            row[if is_other {
                                (y.number - FIRST_LEAF) as usize
                            } else {
                                groups.places(y.label)[y.number as usize] as usize
                            }]
                        });
                        let is_leaf = query.store.is_leaf(x);
                        if is_leaf || is_other {
                            return (j, sigma * index.weights.of(is_leaf, is_other));
                        }
                        // The child's values are by group; this one starts at its
                        // offset.
                        let near = groups.near(label);
                        let at = near.binary_search_by_key(&y.label, |near| near.group);
                        let offset = at.map_or(0, |at| near[at].offset);
                        let values = &values[query.tree.place(x)];
                        (j, sigma * values[(offset + y.number) as usize])
                    });
                    row.extend(values); // has room
                }
                // Groups come one after another, and positions have to ascend.
                if near.len() > 1 {
                    row.sort_unstable_by_key(|of| of.0);
                }
                if !row.is_empty() {
                    sum += chains.row(i as u32, row, powers);
                }
                done = chains.step(chains.per_row(row.len()) + near.len(), context);
                if done.is_err() {
                    break 'some;
                }
            }
            if let Some(value) = node_values.get_mut(u as usize) {
                *value += index.mu * sum;
            }
            view.add(target.of(u), factor.of(u) * index.mu * sum);
        }
        table.clear(below.iter().map(group_of));
        done
    }
}
