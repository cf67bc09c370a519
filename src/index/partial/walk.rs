//! A walk over the [index](super), one for equal and for similar labels.
//!
//! Which groups of subtrees a query node's label matches, and with which σ, a
//! [`Matching`] says. What is kept of a node is D / σ with the subtrees of these groups, one
//! group after another; σ comes in where a parent or the sink takes it.

use super::matching::{MatchedChild, Matching, Near, Sigma};
use super::similar::NearChildren;
use super::{
    CELL, Entry, FIRST_LEAF, Index, JoinId, Member, Pair, REPEATED, SinkId, WIDE,
    has_leaves, join, list_of_leaves,
};
use crate::forest::reader::Reader;
use crate::ids::{GroupId, Id, IdVec, ListId, MemberId, PackedOption, Place};
use crate::index::prefixes::{Bounds, Extent};
use crate::index::weights::{Sink, View};
use crate::kernel::partial::{Chains, Table, grow_powers};
use crate::{Context, Error, Label, NodeId, Nodes, Result, memory};

/// Values that are kept as they are (16 MB).
const MAX_LIVE: usize = 1 << 21;
/// Values that a query tree may need at a time (2 GB), as for a single pair: where memory is
/// promised that is not there, more would end the process.
const MAX_VALUES: usize = 1 << 28;

/// The two limits: set low by tests.
#[derive(Debug)]
struct Limits {
    live: usize,
    values: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { live: MAX_LIVE, values: MAX_VALUES }
    }
}

/// A tree that walks the index, and how its labels match the index's.
#[derive(Clone, Copy)]
pub(crate) struct Query<'a, M> {
    pub(crate) store: &'a Nodes,
    pub(crate) tree: &'a Reader,
    pub(crate) matching: M,
}

/// D / σ of an inner query node with the subtrees that its label matches, by number.
#[derive(Debug, Default)]
enum NodeValues {
    /// As for no common child with all.
    #[default]
    None,
    /// Of a closed label: more with the one of this number, if there is one.
    Simple(PackedOption<MemberId>),
    All(Array),
    /// Where each run of equal values ends.
    Runs(Vec<(u32, f64)>),
}

/// Values of a node. The array may be longer than they are: what is beyond `len` is always
/// as for no common child.
#[derive(Debug, Default)]
struct Array {
    values: Vec<f64>,
    len: usize,
    /// How many entries of lists may have changed them; `len` or more where no list says
    /// which are changed.
    touched: usize,
}

/// D / σ of a query node's child with the children in a list.
#[derive(Debug, Clone, Copy)]
enum ChildValues {
    Constant(f64),
    Simple(PackedOption<MemberId>),
    /// Of the child at this place.
    AtPlace(Place),
}

/// A query node's child and one list that it matches.
#[derive(Debug, Clone, Copy)]
struct Edge {
    list: ListId,
    /// The entries that count.
    bounds: Bounds,
    position: u32,
    child: NodeId,
    /// The group of the children in the list.
    near: Near,
    values: ChildValues,
    /// Where its sums start, and where its links end.
    sums: u32,
    links: u32,
    /// Whether later edges have links to this one.
    goes_on: bool,
}

/// An earlier edge that has pairs with this one.
#[derive(Debug, Clone, Copy)]
struct Link {
    edge: u32,
    joined: JoinId,
    /// λ^(children between them).
    weight: f64,
}

/// What a worker keeps from tree to tree.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// While a parent will ask; else none.
    values: IdVec<Place, NodeValues>,
    /// Arrays of values as for no common child. Arrays go from node to node, so a chain
    /// of equal labels needs two, not one for each node.
    clean: Vec<Vec<f64>>,
    /// How many values there are in the arrays of `values`.
    live: usize,
    /// Of the node at hand; nothing where labels have to be equal.
    near: NearChildren,
    edges: Vec<Edge>,
    links: Vec<Link>,
    /// T of the edges of one node.
    sums: Vec<f64>,
    powers: Vec<f64>,
    table: Table,
    chains: Chains<f64>,
    /// The groups of a node's children.
    groups: Vec<u32>,
    limits: Limits,
    n_folded: usize,
}

#[cfg(test)]
impl Scratch {
    pub(crate) fn fold_from(&mut self, max_live: usize) {
        self.limits.live = max_live;
    }

    /// Refuses more values at a time; returns how many there might be until now.
    pub(crate) fn refuse_from(&mut self, max_values: usize) -> usize {
        std::mem::replace(&mut self.limits.values, max_values)
    }

    /// How often values were kept as runs.
    pub(crate) fn n_folded(&self) -> usize {
        self.n_folded
    }

    /// How many arrays there are, all of them free.
    pub(crate) fn n_arrays(&self) -> usize {
        self.clean.len()
    }

    /// Whether all values were given back.
    pub(crate) fn is_clean(&self) -> bool {
        self.live == 0
    }
}

impl<T: SinkId> Index<T> {
    /// Tells a sink what a tree has in common with the index.
    pub(crate) fn walk<M: Matching, S: Sink<Id = T::Id>>(
        &self,
        query: Query<'_, M>,
        extent: &impl Extent,
        scratch: &mut Scratch,
        sink: &mut S,
        context: &Context,
    ) -> Result<()> {
        let items = query.tree.items();
        memory::reach_with(&mut scratch.values, items.len(), NodeValues::default)?;
        let mut walk = Walk { index: self, query, extent, scratch };
        for (place, item) in items.enumerated() {
            let done = walk.node(place, sink, context);
            if done.is_err() {
                // All arrays go back, as the next tree counts on empty places.
                items.enumerated().for_each(|(place, _)| walk.release(place));
                return done;
            }
            // Values go with the last parent. A leaf that was not read has no place.
            for &child in query.store.children(item.node) {
                if let Some(child) = query.tree.find(child)
                    && items[child].last_use == place.into()
                {
                    walk.release(child);
                }
            }
        }
        // The root has no parent that they would go with.
        walk.release(Place::at(items.len() - 1));
        Ok(())
    }
}

struct Walk<'a, T, M, E> {
    index: &'a Index<T>,
    query: Query<'a, M>,
    extent: &'a E,
    scratch: &'a mut Scratch,
}

impl<T: SinkId, M: Matching, E: Extent> Walk<'_, T, M, E> {
    /// Adds what a node has in common with the index.
    fn node<S: Sink<Id = T::Id>>(
        &mut self,
        place: Place,
        sink: &mut S,
        context: &Context,
    ) -> Result<()> {
        let Query { store, matching, tree } = self.query;
        let item = tree.items()[place];
        let label = store.label(item.node);
        let is_leaf = store.is_leaf(item.node);
        if !is_leaf {
            matching.start(store, item.node, &mut self.scratch.near)?;
        }
        let mut array = None;
        for near in matching.near(label) {
            // σ with a whole group is part of the count.
            sink.node(place, item.count * near.sigma);
            let len = self.len_of(near.group);
            // 1. The node alone. (Rows with similar labels count that.)
            if M::IS_EQUALITY {
                // Leaves are told apart from subtrees that have children, if any has.
                if len > 0 {
                    sink.group(near.group, self.index.weights.of(is_leaf, false));
                }
                // A group is a label where these are equal.
                let label = Label(near.group.0);
                sink.leaf(label, self.index.weights.of(is_leaf, true));
            }
            // 2. Beyond that, where children match.
            if len > 0
                && !is_leaf
                && matching.find(
                    self.index,
                    item.node,
                    near.group,
                    &mut self.scratch.near,
                )?
            {
                self.group(place, near, len, &mut array, sink, context)?;
            }
        }
        // 3. Keep the values for parents; the root has none.
        if let Some(array) = array.filter(|array| array.len > 0) {
            self.keep(place, array);
        }
        Ok(())
    }

    /// How many subtrees of a group count.
    #[inline]
    fn len_of(&self, group: GroupId) -> usize {
        // What is similar may be in no subtree of the index.
        match self.index.n_members(group) {
            0 => 0,
            n_members => self.extent.group(group, n_members),
        }
    }

    /// Adds what a node has in common with the first subtrees of a group, beyond the two
    /// nodes. Takes an array for its values if it has none yet.
    #[inline]
    fn group<S: Sink<Id = T::Id>>(
        &mut self,
        place: Place,
        near: Near,
        len: usize,
        array: &mut Option<Array>,
        sink: &mut S,
        context: &Context,
    ) -> Result<()> {
        let Query { store, matching, tree } = self.query;
        let index = self.index;
        let node = tree.items()[place].node;
        // 1. Two simple preterminals: the same or not.
        if M::IS_EQUALITY
            && !index.open[near.group]
            && let [child] = *store.children(node)
            && store.is_leaf(child)
            && let Some(found) = matching.found(node, &self.scratch.near).next()
        {
            // In a closed label only the subtree with this leaf can be in the leaf's
            // list.
            let list = index.lists.get(list_of_leaves(found.list));
            let same = list.first().filter(|entry| entry.u.index() < len);
            if let Some(entry) = same {
                let mut view = sink.view(near.group);
                view.add(entry.target.of(entry.u), index.mu * index.weights.leaf);
                view.close();
            }
            let same = same.map(|entry| entry.u).into();
            self.scratch.values[place] = NodeValues::Simple(same);
            return Ok(());
        }
        // 2. What the children match, and where the values go.
        let touched = self.find_edges(node, near.group)?;
        let unlisted = index.unlisted.get(near.group);
        let unlisted = &unlisted[..unlisted.partition_point(|u| u.index() < len)];
        let array = match array {
            Some(array) => array,
            None => array.insert(self.take_array(place)?), // bounded: one
        };
        let from = near.offset as usize;
        let values = array.values.get_mut(from..array.len.min(from + len));
        let mut to = GroupValues {
            node,
            group: near.group,
            // σ that is one for the group is in the count.
            sigma: matching.sigma(
                store.label(node),
                Near { sigma: 1.0, ..near },
                false,
            ),
            values: values.unwrap_or_default(),
        };
        // An error waits until the view is closed, as sinks finish a group there.
        let mut view = sink.view(near.group);
        let done = if touched.is_none() {
            // 3. Grids for all, where pairs of entries would take longer.
            let every = (0..len).map(MemberId::at);
            self.walk_grids(&mut to, every, &mut view, context)
        } else {
            // 4. Lists, and grids for what is in none.
            self.walk_lists(&mut to, &mut view).and_then(|()| {
                let some = unlisted.iter().copied();
                self.walk_grids(&mut to, some, &mut view, context)
            })
        };
        view.close();
        done?;
        // An unlisted subtree may have changed as well, and no list says which: then
        // all count as touched.
        let touched = touched.filter(|_| unlisted.is_empty()).unwrap_or(len);
        array.touched += touched;
        self.scratch.chains.step(touched, context)
    }

    /// An array for a node's values with all subtrees that its label matches, which are as
    /// for no common child; an empty one for the root, as nobody asks for its values.
    ///
    /// # Errors
    /// [`Error::Capacity`] beyond [`MAX_VALUES`], and [`Error::Memory`].
    fn take_array(&mut self, place: Place) -> Result<Array> {
        let item = self.query.tree.items()[place];
        if item.last_use.is_none() {
            return Ok(Array::default());
        }
        let label = self.query.store.label(item.node);
        let last = self.query.matching.near(label).next_back();
        let end = |near: Near| near.offset as usize + self.len_of(near.group);
        let len = last.map_or(0, end);
        let limit = self.scratch.limits.values;
        if self.scratch.live + len > limit {
            let what = "values of D that one row needs at a time";
            return Err(Error::Capacity { what, limit: limit as u64 });
        }
        // Arrays that are free hold D as for no common child.
        let mut values = self.scratch.clean.pop().unwrap_or_default();
        memory::reach(&mut values, len, self.index.weights.inner)?;
        Ok(Array { values, len, touched: 0 })
    }

    /// Finds the lists that a node's children match and which of them have pairs; returns
    /// how many entries they have. None: grids take less time.
    fn find_edges(&mut self, node: NodeId, group: GroupId) -> Result<Option<usize>> {
        let Query { store, matching, tree } = self.query;
        let index = self.index;
        let Scratch { values: kept, near, edges, links, .. } = &mut *self.scratch;
        edges.clear();
        links.clear();
        let n_below = store.children(node).len();
        // Pairs of positions are quadratic in the children.
        if n_below > WIDE {
            return Ok(None);
        }
        let (mut used, mut n_pairs) = (0, 0);
        for MatchedChild { position, child, near, list } in matching.found(node, near) {
            // 1. A list of inner children, and one of leaves.
            let is_leaf = store.is_leaf(child);
            for list in [list, list_of_leaves(list)] {
                let bounds = self.extent.list(list, || index.lists.bounds(list));
                let len = bounds[1] - bounds[0];
                if len == 0 {
                    continue;
                }
                // D of leaves is a number; D of two inner nodes is what the child has
                // kept.
                let is_other = has_leaves(list);
                let values = if is_leaf || is_other {
                    ChildValues::Constant(index.weights.of(is_leaf, is_other))
                } else {
                    let place = tree.place(child);
                    match kept[place] {
                        NodeValues::None => ChildValues::Constant(index.weights.inner),
                        NodeValues::Simple(same) => ChildValues::Simple(same),
                        _ => ChildValues::AtPlace(place),
                    }
                };
                // With leaf_factor 0, leaves end every chain.
                if matches!(values, ChildValues::Constant(0.0)) {
                    continue;
                }
                // 2. Link it to the earlier lists that it has pairs with. Edges come by
                // position.
                for (number, other) in edges.iter_mut().enumerate() {
                    // Children at one position are not in order, so they have no pairs.
                    if other.position == position {
                        break;
                    }
                    let key = join(other.list, list);
                    let Some(joined) = index.joined.find(key) else { continue };
                    other.goes_on = true;
                    let gap = (position - other.position - 1) as usize;
                    // Of what is left out between the two children in the query; the
                    // index has the gaps in its subtrees.
                    let (edge, weight) = (number as u32, index.powers[gap]);
                    memory::push(links, Link { edge, joined, weight })?;
                    // Below, the subtrees' side bounds the pairs, if a child has no more
                    // than two lists.
                    if n_below > REPEATED || !M::IS_EQUALITY {
                        let lens = index.pairs_of(joined).map(|(pairs, _)| pairs.len());
                        n_pairs += lens.sum::<usize>();
                    }
                }
                // 3. Room for its sums comes behind that of all before.
                let (sums, links) = (used as u32, links.len() as u32);
                let edge = Edge {
                    list,
                    bounds,
                    position,
                    child,
                    near,
                    values,
                    sums,
                    links,
                    goes_on: false,
                };
                memory::push(edges, edge)?;
                used += len as usize;
            }
        }
        // In cells of the grids that would be taken instead.
        let cells = n_below * index.n_edges[group];
        Ok((n_pairs <= CELL * cells).then_some(used))
    }

    /// A function of its own, so that what its loops need stays in registers: with others
    /// inlined, rows took a tenth longer.
    #[inline(never)]
    fn walk_lists<V: View<Id = T::Id>>(
        &mut self,
        to: &mut GroupValues<'_, M::Sigma>,
        view: &mut V,
    ) -> Result<()> {
        let Query { store, matching, .. } = self.query;
        let index = self.index;
        let Scratch { values, edges, links, sums, .. } = &mut *self.scratch;
        let mut link = 0;
        for edge in &*edges {
            let list = index.lists.between(edge.bounds);
            let used = edge.sums as usize;
            let end = used + list.len();
            memory::reach(sums, end, 0.0)?;
            // All sums are μ times what the formula says.
            let (earlier, t) = sums.split_at_mut(used);
            let t = &mut t[..list.len()];
            // Links stand in the order of their edges.
            let links = &links[link..edge.links as usize];
            link = edge.links as usize;
            // 1 of the formula, for chains that begin here.
            if !links.is_empty() {
                t.fill(index.mu);
            }
            for link in links {
                let from = &earlier[edges[link.edge as usize].sums as usize..];
                for (pairs, weight) in index.pairs_of(link.joined) {
                    add_pairs(pairs, from, link.weight * weight, t);
                }
            }
            // T times D goes to the sink, to D of the node, and to later lists.
            let of_node = to.sigma;
            let to =
                ListPass { mu: index.mu, list, t, of_node, values: &mut *to.values };
            let ways = (!links.is_empty(), edge.goes_on);
            let are_leaves = has_leaves(edge.list);
            let sigma = matching.sigma(store.label(edge.child), edge.near, are_leaves);
            match edge.values {
                ChildValues::Constant(d) => match sigma.number() {
                    Some(sigma) => {
                        let d = d * sigma;
                        to.walk(ways, |_| d, view);
                    }
                    None => to.walk(ways, |child| d * sigma.of(child), view),
                },
                ChildValues::Simple(same) => {
                    let d = self.index.simple_values();
                    to.walk(ways, |child| d[usize::from(same == child.into())], view);
                }
                ChildValues::AtPlace(place) => match &values[place] {
                    NodeValues::All(array) => {
                        let d = &array.values[edge.near.offset as usize..];
                        match sigma.number() {
                            Some(sigma) => {
                                to.walk(ways, |child| d[child.index()] * sigma, view);
                            }
                            None => to.walk(
                                ways,
                                |child| d[child.index()] * sigma.of(child),
                                view,
                            ),
                        }
                    }
                    NodeValues::Runs(runs) => {
                        let offset = edge.near.offset;
                        to.walk(
                            ways,
                            |child| in_runs(runs, offset + child.0) * sigma.of(child),
                            view,
                        );
                    }
                    NodeValues::None | NodeValues::Simple(_) => {}
                },
            }
        }
        Ok(())
    }

    /// Pairs of a node, one by one, with some subtrees of its label.
    #[inline(never)]
    fn walk_grids<V: View<Id = T::Id>>(
        &mut self,
        to: &mut GroupValues<'_, M::Sigma>,
        some: impl Iterator<Item = MemberId>,
        view: &mut V,
        context: &Context,
    ) -> Result<()> {
        let mut some = some.peekable();
        if some.peek().is_none() {
            return Ok(());
        }
        let Query { store, matching, tree } = self.query;
        let index = self.index;
        let Scratch { values, powers, table, chains, groups, .. } = &mut *self.scratch;
        // 1. Load the node's children by group. What the index does not know matches
        // nothing: a group of its own.
        let below = store.children(to.node);
        let n_groups = matching.n_groups(index);
        let unknown = n_groups as u32;
        let group = |&child: &NodeId| {
            let group = matching.group(store.label(child));
            group.map_or(unknown, |group| group.0.min(unknown))
        };
        groups.clear();
        memory::extend(groups, below.iter().map(group))?;
        table.fill(n_groups + 1, groups.iter().copied())?;
        // 2. Match those of each subtree with them.
        let members = index.members.get(to.group);
        let mut done = Ok(());
        for u in some {
            let Member { start, len, target } = members[u.index()];
            let other = &index.below[start as usize..][..len as usize];
            let widest = below.len().max(other.len());
            if let Err(error) = grow_powers(powers, index.decay, widest) {
                done = Err(error);
                // Errors end the loop and not the call: the table has to be emptied.
                break;
            }
            let d = |row: u32, column: u32, ()| {
                let (x, y) = (below[column as usize], other[row as usize]);
                let is_other = y.number >= FIRST_LEAF;
                let label = store.label(x);
                let near = matching.near_group(label, y.group);
                let d = if store.is_leaf(x) || is_other {
                    index.weights.of(store.is_leaf(x), is_other)
                } else {
                    let number = near.offset + y.number.0;
                    match &values[tree.place(x)] {
                        NodeValues::None => index.weights.inner,
                        NodeValues::Simple(same) => {
                            index.simple_values()[usize::from(*same == y.number.into())]
                        }
                        NodeValues::All(array) => array.values[number as usize],
                        NodeValues::Runs(runs) => in_runs(runs, number),
                    }
                };
                d * matching.sigma(label, near, is_other).of(y.number)
            };
            let rows = other.iter().map(|child| {
                matching.groups_near(child.group).map(|group| (group.0, ()))
            });
            let sum = chains.sum(rows, table, powers, index.longest, d, context);
            // Counted even if nothing matches: reading two child lists takes time as
            // well.
            let steps = below.len() + other.len();
            match sum.and_then(|sum| chains.step(steps, context).map(|()| sum)) {
                Ok(0.0) => {}
                Ok(sum) => {
                    let value = index.mu * sum;
                    if let Some(d) = to.values.get_mut(u.index()) {
                        *d += value;
                    }
                    view.add(target.of(u), to.sigma.of(u) * value);
                }
                Err(error) => {
                    done = Err(error);
                    break;
                }
            }
        }
        table.clear(groups.iter().copied());
        done
    }

    /// Keeps a node's values for its parents.
    fn keep(&mut self, place: Place, array: Array) {
        let values = &array.values[..array.len];
        // Beyond the limit runs of equal values are kept, if they are much shorter.
        if self.scratch.live + values.len() > self.scratch.limits.live {
            let equal = |a: &f64, b: &f64| a == b;
            let n_runs = values.chunk_by(equal).count();
            let mut runs = Vec::new();
            // Without memory for runs the values stay as they are.
            if n_runs < values.len() / 4 && memory::reserve(&mut runs, n_runs).is_ok() {
                let mut end = 0;
                let run = |run: &[f64]| {
                    end += run.len() as u32;
                    (end, run[0])
                };
                runs.extend(values.chunk_by(equal).map(run)); // has room
                self.scratch.values[place] = NodeValues::Runs(runs);
                self.scratch.n_folded += 1;
                // The array is free for the next node.
                self.clean(place, array);
                return;
            }
        }
        self.scratch.live += array.len;
        self.scratch.values[place] = NodeValues::All(array);
    }

    /// Forgets a node's values.
    fn release(&mut self, place: Place) {
        if let NodeValues::All(array) = std::mem::take(&mut self.scratch.values[place])
        {
            self.scratch.live -= array.len;
            self.clean(place, array);
        }
    }

    /// Makes values as for no common child: those in the node's lists, if they are few.
    fn clean(&mut self, place: Place, Array { mut values, len, touched }: Array) {
        let Query { matching, tree, .. } = self.query;
        let (lists, inner) = (&self.index.lists, self.index.weights.inner);
        // Lists take scattered writes; beyond a quarter of the array all of it is set
        // instead. Lists of similar labels would have to be found again.
        if 4 * touched >= len || !M::IS_EQUALITY {
            values[..len].fill(inner);
        } else {
            for found in matching.found(tree.items()[place].node, &self.scratch.near) {
                for list in [found.list, list_of_leaves(found.list)] {
                    let bounds = self.extent.list(list, || lists.bounds(list));
                    for entry in lists.between(bounds) {
                        values[entry.u.index()] = inner;
                    }
                }
            }
        }
        memory::set_aside(&mut self.scratch.clean, values);
    }
}

/// What a node's matches with the subtrees of one group add to.
struct GroupValues<'a, G> {
    node: NodeId,
    group: GroupId,
    /// σ where it differs within the group, else 1.
    sigma: G,
    /// D / σ by number: none where nobody asks.
    values: &'a mut [f64],
}

/// One list, the T of its entries, and the values that they add to.
struct ListPass<'a, T, G> {
    mu: f64,
    list: &'a [Entry<T>],
    t: &'a mut [f64],
    /// σ of the query node with the entries' subtrees, for the sink.
    of_node: G,
    values: &'a mut [f64],
}

impl<T: SinkId, G: Sigma> ListPass<'_, T, G> {
    /// Multiplies T by D, and adds it to where it belongs. T are all μ and not stored
    /// unless the list has links, and not to be kept unless it goes on.
    ///
    /// A loop for each case, and no branch for what is shared: a visit takes about 0.9 ns,
    /// an entry, two sums to be updated and three bounds being what it needs.
    #[inline]
    fn walk<V: View<Id = T::Id>>(
        self,
        (is_linked, goes_on): (bool, bool),
        d: impl Fn(MemberId) -> f64,
        view: &mut V,
    ) {
        match (is_linked, goes_on) {
            (false, false) => self.finish::<false, false, V>(d, view),
            (false, true) => self.finish::<false, true, V>(d, view),
            (true, false) => self.finish::<true, false, V>(d, view),
            (true, true) => self.finish::<true, true, V>(d, view),
        }
    }

    /// A function of its own for each, so that all that its loop needs stays in registers:
    /// inlined into their caller, some take a tenth more instructions.
    #[inline(never)]
    fn finish<const LINKED: bool, const GOES_ON: bool, V: View<Id = T::Id>>(
        self,
        d: impl Fn(MemberId) -> f64,
        view: &mut V,
    ) {
        let Self { mu, list, t, of_node, values } = self;
        view.add_all(list.iter().zip(t).map(|(entry, sum)| {
            let t = if LINKED { *sum } else { mu } * d(entry.child);
            if GOES_ON {
                *sum = t;
            }
            if let Some(value) = values.get_mut(entry.u.index()) {
                *value += t;
            }
            (entry.target.of(entry.u), of_node.of(entry.u) * t)
        }));
    }
}

/// Carries the sums of an earlier list on to a later one's. Pairs are listed by gap, so
/// that their weight is the same for all: half the reads, 0.6 ns per pair.
#[inline]
fn add_pairs(pairs: &[Pair], from: &[f64], weight: f64, to: &mut [f64]) {
    for pair in pairs {
        // Pairs are in the order of their subtrees, so what is beyond belongs to later
        // trees.
        let Some(to) = to.get_mut(pair.to as usize) else { break };
        *to += from[pair.from as usize] * weight;
    }
}

/// The value of a number, by where runs end.
fn in_runs(runs: &[(u32, f64)], number: u32) -> f64 {
    runs[runs.partition_point(|&(end, _)| end <= number)].1
}
