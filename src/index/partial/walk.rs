//! A walk over the [index](super) by equal labels.

use super::{CELL, Entry, FIRST_LEAF, Index, Member, Pair, REPEATED, SinkId, WIDE};
use crate::index::id_map::IdMap;
use crate::index::prefixes::Extent;
use crate::index::reader::{NONE, Reader};
use crate::index::weights::{Sink, View};
use crate::kernel::partial::{Chains, Table, grow_powers};
use crate::{Context, NodeId, Nodes, Result, memory};

/// Values that are kept as they are (16 MB).
const MAX_LIVE: usize = 1 << 21;

/// A tree that walks the index, and how its store and the index's go together.
#[derive(Clone, Copy)]
pub(crate) struct Query<'a> {
    pub(crate) store: &'a Nodes,
    pub(crate) id_map: &'a IdMap,
    pub(crate) tree: &'a Reader,
}

/// What D of an inner query node with the subtrees of its label is.
#[derive(Debug, Clone, Copy, Default)]
enum Values {
    /// As for no common child with all.
    #[default]
    None,
    /// Of a closed label: more with the one of this number, if there is one.
    Simple(u32),
    /// Stored at the node's place.
    Stored,
}

/// Values of D, by number.
/// D of one node with the subtrees of its label, as they are kept for its parents.
#[derive(Debug)]
enum NodeValues {
    /// The first `len`; the others are as for no common child. So many were touched.
    All { values: Vec<f64>, len: usize, touched: usize },
    /// Where each run of equal values ends.
    Runs(Vec<(u32, f64)>),
}

impl Default for NodeValues {
    fn default() -> Self {
        Self::Runs(Vec::new())
    }
}

/// D of a query node's child with the children in a list.
#[derive(Debug, Clone, Copy)]
enum Child {
    Constant(f64),
    Simple(u32),
    /// Of the child at this place.
    AtPlace(usize),
}

/// A query node's child and one list that it matches.
#[derive(Debug, Clone, Copy)]
struct Edge {
    list: u32,
    len: u32,
    position: u32,
    child: Child,
    /// Where its sums start, and where its links end.
    sums: u32,
    links: u32,
    /// Whether later edges have links to this one.
    goes_on: bool,
}

/// An earlier edge that has pairs with this one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Link {
    pub(super) edge: u32,
    pub(super) joined: u32,
    /// λ^(children between them).
    pub(super) weight: f64,
}

/// What a worker keeps from tree to tree.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// By place: D(v, ·) while a parent will ask.
    values: Vec<Values>,
    kept: Vec<NodeValues>,
    /// Arrays of values as for no common child. Arrays go from node to node, so a chain
    /// of equal labels needs two, not one for each node.
    clean: Vec<Vec<f64>>,
    live: usize,
    edges: Vec<Edge>,
    links: Vec<Link>,
    /// T of the edges of one node.
    sums: Vec<f64>,
    powers: Vec<f64>,
    table: Table,
    chains: Chains<f64>,
    labels: Vec<u32>,
    /// Set low by tests.
    max_live: Option<usize>,
    n_folded: usize,
}

#[cfg(test)]
impl Scratch {
    pub(crate) fn fold_from(&mut self, max_live: usize) {
        self.max_live = Some(max_live);
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
    pub(crate) fn walk<S: Sink>(
        &self,
        query: Query<'_>,
        extent: &impl Extent,
        scratch: &mut Scratch,
        sink: &mut S,
        context: &Context,
    ) -> Result<()> {
        let items = query.tree.items();
        memory::reach(&mut scratch.values, items.len(), Values::None)?;
        memory::reach_with(&mut scratch.kept, items.len(), NodeValues::default)?;
        let mut walk = Walk { index: self, query, extent, scratch };
        let mut done = Ok(());
        for (place, item) in items.iter().enumerate() {
            let label = query.id_map.labels[query.store.label(item.node).index()];
            let is_leaf = query.store.is_leaf(item.node);
            // The root of the tree before may have left its own.
            walk.scratch.values[place] = Values::None;
            if label != NONE {
                sink.node(place, item.count);
                // Whether any subtree of the label has children: leaves are told apart.
                let has_inner =
                    self.n_edges.get(label as usize).is_some_and(|&n| n > 0);
                if has_inner {
                    sink.group(label, self.weights.of(is_leaf, false));
                }
                sink.leaf(label, self.weights.of(is_leaf, true));
                if has_inner && !is_leaf {
                    done = walk.node(place, label, sink, context);
                }
            }
            // Values go with the last parent. A leaf that was not read has no place.
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
        done
    }
}

struct Walk<'a, T, E> {
    index: &'a Index<T>,
    query: Query<'a>,
    extent: &'a E,
    scratch: &'a mut Scratch,
}

impl<T: SinkId, E: Extent> Walk<'_, T, E> {
    /// Adds what a node's subtrees have beyond a node in common.
    fn node<S: Sink>(
        &mut self,
        place: usize,
        group: u32,
        sink: &mut S,
        context: &Context,
    ) -> Result<()> {
        let Query { store, id_map, tree } = self.query;
        let index = self.index;
        let item = tree.items()[place];
        let edges = id_map.edges(item.node);
        // No child's label stands below this label anywhere in the index.
        if edges.iter().all(|&edge| id_map.list(edge) == NONE) {
            return Ok(());
        }
        let members = index.members.get(group as usize).len();
        let len = self.extent.group(group, members);
        if len == 0 {
            return Ok(());
        }
        let mut view = sink.view(group);
        // 1. Two simple preterminals: the same or not.
        if let [edge] = *edges
            && !index.open[group as usize]
            && store.is_leaf(edge.child)
        {
            // In a closed label only the subtree with this leaf can be in the leaf's
            // list.
            let list = index.lists.get(2 * id_map.list(edge) as usize + 1);
            let mut same = NONE;
            if let Some(entry) = list.first().filter(|entry| (entry.u as usize) < len) {
                same = entry.u;
                view.add(entry.target.of(same), index.mu * index.weights.leaf);
            }
            self.scratch.values[place] = Values::Simple(same);
            view.close();
            return Ok(());
        }
        // 2. Lists, or grids where pairs would take longer.
        // Nobody asks for the root's D.
        let n_values = if item.last_use == NONE { 0 } else { len };
        // Arrays that are free hold D as for no common child.
        let mut node_values = self.scratch.clean.pop().unwrap_or_default();
        if let Err(error) =
            memory::reach(&mut node_values, n_values, index.weights.inner)
        {
            memory::set_aside(&mut self.scratch.clean, node_values);
            return Err(error);
        }
        // An error waits until the view is closed, as sinks finish a group there.
        let mut done = Ok(());
        let touched = self.find_edges(item.node, group)?;
        if touched.is_some() {
            done = self.walk_lists(&mut node_values[..n_values], &mut view);
        }
        // 3. Grids for what is in no list.
        let unlisted = index.unlisted.get(group as usize);
        done = if done.is_err() {
            done
        } else if touched.is_none() {
            self.walk_grids(
                item.node,
                group,
                0..len as u32,
                &mut node_values[..n_values],
                &mut view,
                context,
            )
        } else {
            let n = unlisted.partition_point(|&u| (u as usize) < len);
            let some = unlisted[..n].iter().copied();
            self.walk_grids(
                item.node,
                group,
                some,
                &mut node_values[..n_values],
                &mut view,
                context,
            )
        };
        view.close();
        done?;
        // 4. Keep the values for parents.
        // An unlisted subtree may have changed as well, and no list says which: then
        // all count as touched.
        let touched = touched.filter(|_| unlisted.is_empty()).unwrap_or(len);
        if n_values == 0 {
            memory::set_aside(&mut self.scratch.clean, node_values);
        } else {
            self.keep(place, node_values, n_values, touched);
        }
        self.scratch.chains.step(touched, context)
    }

    /// Finds the lists that a node's children match and which of them have pairs; returns
    /// how many entries they have. None: grids take less time.
    fn find_edges(&mut self, node: NodeId, group: u32) -> Result<Option<usize>> {
        let Query { store, id_map, tree } = self.query;
        let index = self.index;
        let Scratch { values, edges, links, .. } = &mut *self.scratch;
        edges.clear();
        links.clear();
        let below = id_map.edges(node);
        // Pairs of positions are quadratic in the children.
        if below.len() > WIDE {
            return Ok(None);
        }
        let (mut used, mut n_pairs) = (0, 0);
        for (position, &edge) in below.iter().enumerate() {
            let key = id_map.list(edge);
            if key == NONE {
                continue;
            }
            // A key has a list of inner children, and one of leaves.
            let is_leaf = store.is_leaf(edge.child);
            for list in [2 * key, 2 * key + 1] {
                let [start, end] =
                    self.extent.list(list, || index.lists.bounds(list as usize));
                let len = end - start;
                if len == 0 {
                    continue;
                }
                let place = tree.place(edge.child);
                // D of leaves is a number; D of two inner nodes is what the child has
                // kept.
                let child = match (is_leaf, list % 2 == 1) {
                    (false, false) => match values[place] {
                        Values::None => Child::Constant(index.weights.inner),
                        Values::Simple(same) => Child::Simple(same),
                        Values::Stored => Child::AtPlace(place),
                    },
                    (is_leaf, is_other) => {
                        Child::Constant(index.weights.of(is_leaf, is_other))
                    }
                };
                // With leaf_factor 0, leaves end every chain.
                if matches!(child, Child::Constant(0.0)) {
                    continue;
                }
                let position = position as u32;
                for (number, other) in edges.iter_mut().enumerate() {
                    // Children at one position are not in order, so they have no pairs.
                    // Edges come by position.
                    if other.position == position {
                        break;
                    }
                    let key = [other.list, list, 0];
                    let Some(joined) = index.joined.find(key) else { continue };
                    other.goes_on = true;
                    let gap = (position - other.position - 1) as usize;
                    let (edge, weight) = (number as u32, index.powers[gap]);
                    // Of what is left out between the two children in the query; the
                    // index has the gaps in its subtrees.
                    memory::push(links, Link { edge, joined, weight })?;
                    // Below, the subtrees' side bounds the pairs.
                    if below.len() > REPEATED {
                        let lens = index.pairs_of(joined).map(|(pairs, _)| pairs.len());
                        n_pairs += lens.sum::<usize>();
                    }
                }
                // Room for its sums comes behind that of all before.
                let links = links.len() as u32;
                let sums = used as u32;
                let goes_on = false;
                let edge = Edge { list, len, position, child, sums, links, goes_on };
                memory::push(edges, edge)?;
                used += len as usize;
            }
        }
        // In cells of the grids that would be taken instead.
        let cells = below.len() * index.n_edges[group as usize];
        Ok((n_pairs <= CELL * cells).then_some(used))
    }

    /// A function of its own, so that what its loops need stays in registers: with others
    /// inlined, rows took a tenth longer.
    #[inline(never)]
    fn walk_lists<V: View>(
        &mut self,
        node_values: &mut [f64],
        view: &mut V,
    ) -> Result<()> {
        let index = self.index;
        let Scratch { kept, edges, links, sums, .. } = &mut *self.scratch;
        let mut link = 0;
        for edge in &*edges {
            let list = &index.lists.get(edge.list as usize)[..edge.len as usize];
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
            let to = ListPass { mu: index.mu, list, t, node_values };
            let ways = (!links.is_empty(), edge.goes_on);
            match edge.child {
                Child::Constant(d) => to.walk(ways, |_| d, view),
                Child::Simple(same) => {
                    let inner = index.weights.inner;
                    let d = [inner, inner + index.mu * index.weights.leaf];
                    to.walk(
                        ways,
                        |child| if child == same { d[1] } else { d[0] },
                        view,
                    );
                }
                Child::AtPlace(place) => match &kept[place] {
                    NodeValues::All { values, .. } => {
                        to.walk(ways, |child| values[child as usize], view);
                    }
                    NodeValues::Runs(runs) => {
                        to.walk(ways, |child| in_runs(runs, child), view);
                    }
                },
            }
        }
        Ok(())
    }

    /// Pairs of a node, one by one, with some subtrees of its label.
    #[inline(never)]
    fn walk_grids<V: View>(
        &mut self,
        node: NodeId,
        group: u32,
        some: impl Iterator<Item = u32>,
        node_values: &mut [f64],
        view: &mut V,
        context: &Context,
    ) -> Result<()> {
        let mut some = some.peekable();
        if some.peek().is_none() {
            return Ok(());
        }
        let Query { store, id_map, tree } = self.query;
        let index = self.index;
        let Scratch { values, kept, powers, table, chains, labels, .. } =
            &mut *self.scratch;
        // 1. Hang the node's children up by label. What the index does not know matches
        // nothing: a label of its own.
        let below = store.children(node);
        let unknown = index.n_labels;
        // The table has one label more than the index, for all that are unknown.
        let label = |&child: &NodeId| id_map.labels[store.label(child).index()];
        labels.clear();
        memory::extend(labels, below.iter().map(|child| label(child).min(unknown)))?;
        table.fill(unknown as usize + 1, labels.iter().copied())?;
        // 2. Match those of each subtree with them.
        let members = index.members.get(group as usize);
        let mut done = Ok(());
        for u in some {
            let Member { start, len, target } = members[u as usize];
            let other = &index.below[start as usize..][..len as usize];
            let widest = below.len().max(other.len());
            if let Err(error) = grow_powers(powers, index.decay, widest) {
                done = Err(error);
                // Errors end the loop and not the call: the table has to be emptied.
                break;
            }
            let d = |row: u32, column: u32| {
                let (x, y) = (below[column as usize], other[row as usize]);
                if store.is_leaf(x) || y.number >= FIRST_LEAF {
                    let is_leaf = y.number >= FIRST_LEAF;
                    return index.weights.of(store.is_leaf(x), is_leaf);
                }
                // Only nodes with lists have stored values; for all others D is as for
                // no common child.
                let place = tree.place(x);
                match (values[place], &kept[place]) {
                    (Values::Stored, NodeValues::All { values, .. }) => {
                        values[y.number as usize]
                    }
                    (Values::Stored, NodeValues::Runs(runs)) => in_runs(runs, y.number),
                    (Values::Simple(same), _) if same == y.number => {
                        index.weights.inner + index.mu * index.weights.leaf
                    }
                    _ => index.weights.inner,
                }
            };
            let rows = other.iter().map(|child| child.label);
            let sum = chains.sum(rows, table, powers, index.longest, d, context);
            // Counted even if nothing matches: reading two child lists takes time as
            // well.
            let steps = below.len() + other.len();
            match sum.and_then(|sum| chains.step(steps, context).map(|()| sum)) {
                Ok(0.0) => {}
                Ok(sum) => {
                    if let Some(value) = node_values.get_mut(u as usize) {
                        *value += index.mu * sum;
                    }
                    view.add(target.of(u), index.mu * sum);
                }
                Err(error) => {
                    done = Err(error);
                    break;
                }
            }
        }
        table.clear(labels.iter().copied());
        done
    }

    /// Keeps a node's values for its parents.
    fn keep(&mut self, place: usize, values: Vec<f64>, len: usize, touched: usize) {
        self.scratch.values[place] = Values::Stored;
        let max_live = self.scratch.max_live.unwrap_or(MAX_LIVE);
        // Beyond the limit runs of equal values are kept, if they are much shorter.
        if self.scratch.live + len > max_live {
            let equal = |a: &f64, b: &f64| a == b;
            let n_runs = values[..len].chunk_by(equal).count();
            let mut runs = Vec::new();
            // Without memory for runs the values stay as they are.
            if n_runs < len / 4 && memory::reserve(&mut runs, n_runs).is_ok() {
                let mut end = 0;
                let run = |run: &[f64]| {
                    end += run.len() as u32;
                    (end, run[0])
                };
                runs.extend(values[..len].chunk_by(equal).map(run)); // has room
                self.scratch.kept[place] = NodeValues::Runs(runs);
                self.scratch.n_folded += 1;
                // The array is free for the next node.
                self.clean(place, values, len, touched);
                return;
            }
        }
        self.scratch.live += len;
        self.scratch.kept[place] = NodeValues::All { values, len, touched };
    }

    /// Forgets a node's values.
    fn release(&mut self, place: usize) {
        let kept = std::mem::take(&mut self.scratch.kept[place]);
        if let NodeValues::All { values, len, touched } = kept {
            self.scratch.live -= len;
            self.clean(place, values, len, touched);
        }
        self.scratch.values[place] = Values::None;
    }

    /// Makes values as for no common child: those in the node's lists, if they are few.
    fn clean(
        &mut self,
        place: usize,
        mut values: Vec<f64>,
        len: usize,
        touched: usize,
    ) {
        let Query { id_map, tree, .. } = self.query;
        let inner = self.index.weights.inner;
        // Lists take scattered writes; beyond a quarter of the array all of it is set
        // instead.
        if 4 * touched >= len {
            values[..len].fill(inner);
        } else {
            for &edge in id_map.edges(tree.items()[place].node) {
                let key = id_map.list(edge);
                if key == NONE {
                    continue;
                }
                for list in [2 * key, 2 * key + 1] {
                    let lists = &self.index.lists;
                    let bounds = self.extent.list(list, || lists.bounds(list as usize));
                    for entry in lists.between(bounds) {
                        values[entry.u as usize] = inner;
                    }
                }
            }
        }
        memory::set_aside(&mut self.scratch.clean, values);
    }
}

/// One list, the T of its entries, and the D that they add to: none where nobody asks.
struct ListPass<'a, T> {
    mu: f64,
    list: &'a [Entry<T>],
    t: &'a mut [f64],
    node_values: &'a mut [f64],
}

impl<T: SinkId> ListPass<'_, T> {
    /// Multiplies T by D, and adds it to where it belongs. T are all μ and not stored
    /// unless the list has links, and not to be kept unless it goes on.
    ///
    /// A loop for each case, and no branch for what is shared: a visit takes about 0.9 ns,
    /// an entry, two sums to be updated and three bounds being what it needs.
    #[inline]
    fn walk<V: View>(
        self,
        (is_linked, goes_on): (bool, bool),
        d: impl Fn(u32) -> f64,
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
    fn finish<const LINKED: bool, const GOES_ON: bool, V: View>(
        self,
        d: impl Fn(u32) -> f64,
        view: &mut V,
    ) {
        let Self { mu, list, t, node_values } = self;
        view.add_all(list.iter().zip(t).map(|(entry, sum)| {
            let t = if LINKED { *sum } else { mu } * d(entry.child);
            if GOES_ON {
                *sum = t;
            }
            if let Some(value) = node_values.get_mut(entry.u as usize) {
                *value += t;
            }
            (entry.target.of(entry.u), t)
        }));
    }
}

/// Carries the sums of an earlier list on to a later one's. Pairs are listed by gap, so
/// that their weight is the same for all: half the reads, 0.6 ns per pair.
#[inline]
pub(super) fn add_pairs(pairs: &[Pair], from: &[f64], weight: f64, to: &mut [f64]) {
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
