//! One tree walks the index, along lists of edges or densely.

use std::ops::Range;

use super::{DEEP, Index, InnerListId, Kind, PlainListId, SimpleId, Tally, groups_of};
use crate::forest::reader::{HeaviestFirst, Item, Reader, UpTo};
use crate::ids::{Id, IdVec, MemberId, PackedOption, Place};
use crate::index::weights::{Sink, View};
use crate::intern::new_id;
use crate::kernel::elastic::{Dense, NONE};
use crate::{Context, Label, NodeId, Nodes, Result, memory};

/// A query with more values of X than this (256 MB of scratch) goes without lists.
const MAX_LISTED_VALUES: usize = if cfg!(test) { 1 << 9 } else { 1 << 25 };
/// The dense recursion takes so many pairs of nodes at a time, or one tree.
const BATCH: usize = if cfg!(test) { 1 << 10 } else { 1 << 22 };
/// Steps between two questions whether to go on.
const BETWEEN_CHECKS: usize = 1 << 20;

/// The tree that walks the index.
#[derive(Clone, Copy)]
pub(crate) struct Query<'a> {
    pub(crate) store: &'a Nodes,
    /// The index's label for one of the store.
    pub(crate) labels: &'a IdVec<Label, PackedOption<Label>>,
    pub(crate) tree: &'a Reader,
}

impl Query<'_> {
    fn label(&self, node: NodeId) -> Option<Label> {
        self.labels[self.store.label(node)].get()
    }

    fn is_simple(&self, node: NodeId) -> bool {
        matches!(self.store.children(node), &[child] if self.store.is_leaf(child))
    }
}

/// A node of the query.
#[derive(Debug, Clone, Copy, Default)]
struct Step {
    /// The listed subtrees with its label, and their edges; 0: nothing to compute.
    n_columns: u32,
    n_edges: u32,
    /// Where its children that have lists, and its simple pairs, end.
    children: u32,
    simple: u32,
    /// Whether it stands below another of its label.
    is_nested: bool,
    /// Where its values of X, and its totals, start.
    excess: u32,
    total: u32,
}

/// What a child adds up.
#[derive(Debug, Clone)]
struct Child {
    plain: Range<usize>,
    inner: Range<usize>,
    nested: Range<usize>,
}

/// Which lists a query walks.
#[derive(Debug, Default)]
struct Plan {
    steps: IdVec<Place, Step>,
    children: Vec<Child>,
    /// (list, weight), (list, place, weight), (place, weight)
    plain: Vec<(PlainListId, f64)>,
    inner: Vec<(InnerListId, Place, f64)>,
    nested: Vec<(Place, f64)>,
    /// (simple subtree, how often its leaf's label is below the node)
    simple: Vec<(SimpleId, f64)>,
    /// Entries and edges to be walked, and values of X and totals to be held.
    cost: u64,
    n_values: usize,
}

impl Plan {
    fn clear(&mut self) {
        self.steps.clear();
        self.children.clear();
        self.plain.clear();
        self.inner.clear();
        self.nested.clear();
        self.simple.clear();
        (self.cost, self.n_values) = (0, 0);
    }

    fn simple(&self, place: Place) -> Range<usize> {
        let before = place.index().checked_sub(1).map(Place::at);
        let start = before.map_or(0, |before| self.steps[before].simple);
        start as usize..self.steps[place].simple as usize
    }
}

/// What a worker keeps from tree to tree.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    plan: Plan,
    below: Reader,
    tally: Tally,
    /// V and the sums of s, per edge of the label at hand.
    v: Vec<f64>,
    sums: Vec<f64>,
    /// X of the query's nodes; of nested nodes: the sum of V over their children.
    excess: Vec<f64>,
    totals: Vec<f64>,
    dense: Dense<f64>,
    /// By label: its number among the query's, else [`NONE`].
    numbers: IdVec<Label, u32>,
    batch: Reader,
    /// Bits of nodes that the dense recursion has told.
    told: Vec<u64>,
}

impl Index {
    /// Tells λ for all pairs with equal labels, and λ² for equal simple subtrees.
    pub(crate) fn tell_labels<S: Sink<Id = MemberId>>(
        &self,
        query: Query<'_>,
        sink: &mut S,
    ) {
        for (place, item) in query.tree.items().enumerated() {
            let Some(label) = query.label(item.node) else { continue };
            let Some(group) = self.groups.find(label) else { continue };
            let [plain, listed] = groups_of(label);
            sink.node(place, item.count);
            if group.n_plain > 0 {
                sink.group(plain, self.decay);
            }
            if !group.ends.is_empty() {
                sink.group(listed, self.decay);
            }
            // Equal simple subtrees share their leaf besides: λ² on top of the λ that
            // all of the label have.
            if let Some(simple) = self.same_simple(query, item.node) {
                self.tell_simple(label, &[(simple, 1.0)], usize::MAX, sink);
            }
        }
    }

    fn tell_simple<S: Sink<Id = MemberId>>(
        &self,
        label: Label,
        pairs: &[(SimpleId, f64)],
        n_trees: usize,
        sink: &mut S,
    ) {
        let [plain, _] = groups_of(label);
        let mut view = sink.view(plain);
        for &(simple, count) in pairs {
            let (member, tree) = self.simple_numbers[simple];
            // Those of later trees are not part of the row.
            if tree.index() < n_trees {
                view.add(member, self.decay * self.decay * count);
            }
        }
        view.close();
    }

    /// The simple subtree that a simple node of the query equals.
    fn same_simple(&self, query: Query<'_>, node: NodeId) -> Option<SimpleId> {
        let &[child] = query.store.children(node) else { return None };
        let child = Some(child).filter(|&child| query.store.is_leaf(child))?;
        self.simple(query.label(node)?, query.label(child)?)
    }

    /// Tells X of all pairs of inner nodes with equal labels, except of equal simple ones,
    /// with what the first `n_trees` trees have. `nodes` is the index's own store.
    pub(crate) fn walk<S: Sink<Id = MemberId>>(
        &self,
        nodes: &Nodes,
        query: Query<'_>,
        n_trees: usize,
        scratch: &mut Scratch,
        sink: &mut S,
        context: &Context,
    ) -> Result<()> {
        // 1. Which lists, and whether they are worth it.
        let by_lists = self.plan(query, n_trees, scratch, context)?;
        if by_lists {
            // 2. Simple subtrees, which are in no list of columns. A simple node's pair
            // was told with the labels.
            for (place, item) in query.tree.items().enumerated() {
                let simple = scratch.plan.simple(place);
                if !simple.is_empty()
                    && !query.is_simple(item.node)
                    && let Some(label) = query.label(item.node)
                {
                    sink.node(place, item.count);
                    let pairs = &scratch.plan.simple[simple];
                    self.tell_simple(label, pairs, n_trees, sink);
                }
            }
            self.walk_lists(query, scratch, sink, context)?;
        }
        // 3. Deep subtrees, or all where lists would take longer.
        if self.has_deep || !by_lists {
            self.walk_dense(nodes, query, n_trees, !by_lists, scratch, sink, context)?;
        }
        Ok(())
    }

    /// Which lists the query walks; tells nothing. False if the dense recursion takes
    /// less time, or lists too much memory.
    fn plan(
        &self,
        query: Query<'_>,
        n_trees: usize,
        scratch: &mut Scratch,
        context: &Context,
    ) -> Result<bool> {
        let items = query.tree.items();
        // The dense recursion looks at each pair of nodes once: more entries than that
        // are not worth it. The plan itself takes memory, and is bounded by what lists
        // may hold per node.
        let most = items.len() as u64 * self.n_nodes as u64;
        let most_steps = (items.len() * DEEP as usize).max(1 << 16);
        scratch.plan.clear();
        let mut checked = 0;
        for item in items {
            let label = query.label(item.node);
            let children = query.store.children(item.node);
            let mut step = Step::default();
            let group = label.and_then(|label| self.groups.find(label));
            if let Some(group) = group.filter(|_| !children.is_empty()) {
                if group.has_simple {
                    self.plan_simple(query, item.node, scratch)?;
                }
                // Subtrees are numbered as trees bring them, so those of the first
                // trees come first, and their edges as well.
                let len = group.trees.partition_point(|tree| tree.index() < n_trees);
                step.n_columns = len as u32;
                step.n_edges = len.checked_sub(1).map_or(0, |last| group.ends[last]);
                scratch.plan.n_values += len;
            }
            // Asked after every child: a plan for a deep query would be quadratic.
            for &child in children.iter().filter(|_| step.n_edges > 0) {
                self.plan_child(query, item.node, child, step.n_edges, scratch)?;
                let Plan { cost, n_values, plain, inner, nested, .. } = &scratch.plan;
                let n_steps = plain.len() + inner.len() + nested.len();
                if *cost > most || n_steps > most_steps || *n_values > MAX_LISTED_VALUES
                {
                    return Ok(false);
                }
            }
            let plan = &mut scratch.plan;
            // By node where its parts end; they start where those of the node before
            // end.
            step.children = plan.children.len() as u32;
            step.simple = new_id(plan.simple.len(), "pairs with simple subtrees")?;
            memory::push(&mut plan.steps, step)?;
            if plan.cost > most {
                // The last child may have gone beyond the bound.
                return Ok(false);
            }
            if plan.cost - checked > BETWEEN_CHECKS as u64 {
                checked = plan.cost;
                context.check_now()?;
            }
        }
        Ok(true)
    }

    /// Simple subtrees with the label of a node of the query.
    fn plan_simple(
        &self,
        query: Query<'_>,
        node: NodeId,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let Scratch { plan, below, tally, .. } = scratch;
        tally.drain().for_each(drop); // what an error left
        // Two simple subtrees of one label have an excess only if their leaves are
        // equal.
        if query.is_simple(node) {
            let same = self.same_simple(query, node).map(|simple| (simple, 1.0));
            return memory::extend(&mut plan.simple, same);
        }
        // The node itself comes first and is not below itself.
        below.read(query.store, node, true)?;
        for &Item { node, count, .. } in below.items().iter().rev().skip(1) {
            if let Some(label) = query.label(node) {
                tally.add(label, count)?;
            }
        }
        let label = query.label(node);
        for (word, count) in tally.drain() {
            let simple = label.and_then(|label| self.simple(label, word));
            memory::extend(&mut plan.simple, simple.map(|simple| (simple, count)))?;
        }
        plan.cost += below.items().len() as u64;
        Ok(())
    }

    /// Listed subtrees with a node's label, by the lists of what is below one child.
    fn plan_child(
        &self,
        query: Query<'_>,
        parent: NodeId,
        child: NodeId,
        n_edges: u32,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let Scratch { plan, below, tally, .. } = scratch;
        tally.drain().for_each(drop); // what an error left
        let end = query.store.label(parent);
        // Only nodes whose label the index has are asked for their children.
        let Some(label) = query.label(parent) else { return Ok(()) };
        let starts = [plan.plain.len(), plan.inner.len(), plan.nested.len()];
        plan.cost += u64::from(n_edges);
        // Not below nodes of the parent's own label: their totals hold that (see
        // "Nesting").
        let until = UpTo { store: query.store, end };
        below.walk(query.store.len(), child, &until)?;
        for &Item { node, count, .. } in below.items().iter().rev() {
            let Some(below_label) = query.label(node) else { continue };
            tally.add(below_label, count)?;
            let place = query.tree.place(node);
            // X with a simple subtree is λ² times the occurrences of its leaf's label.
            for at in plan.simple(place) {
                let (simple, times) = plan.simple[at];
                if let Some((list, len)) =
                    self.plain.before([label.0, 1, simple.0], n_edges)
                {
                    plan.cost += len;
                    let weight = self.decay * self.decay * count * times;
                    memory::push(&mut plan.plain, (list, weight))?;
                }
            }
            // A leaf, or one whose label has no listed subtree in these trees: there is
            // no X to add.
            let step = &mut plan.steps[place];
            if step.n_edges == 0 {
                continue;
            }
            if below_label == label {
                // Its totals are kept from the first parent of its label on, and
                // counted once.
                memory::push(&mut plan.nested, (place, count))?;
                plan.n_values += if step.is_nested { 0 } else { step.n_edges as usize };
                step.is_nested = true;
                plan.cost += u64::from(n_edges);
            }
            if let Some((list, len)) =
                self.inner.before([label.0, 0, below_label.0], n_edges)
            {
                plan.cost += len;
                memory::push(&mut plan.inner, (list, place, count))?;
            }
        }
        plan.cost += below.items().len() as u64;
        // λ for every pair of equal labels; leaves and inner nodes alike.
        for (below_label, count) in tally.drain() {
            if let Some((list, len)) =
                self.plain.before([label.0, 0, below_label.0], n_edges)
            {
                plan.cost += len;
                memory::push(&mut plan.plain, (list, self.decay * count))?;
            }
        }
        let ends = [plan.plain.len(), plan.inner.len(), plan.nested.len()];
        // A child without any of these adds nothing, and S need not see it.
        if starts != ends {
            let child = Child {
                plain: starts[0]..ends[0],
                inner: starts[1]..ends[1],
                nested: starts[2]..ends[2],
            };
            memory::push(&mut plan.children, child)?;
        }
        Ok(())
    }

    fn walk_lists<S: Sink<Id = MemberId>>(
        &self,
        query: Query<'_>,
        scratch: &mut Scratch,
        sink: &mut S,
        context: &Context,
    ) -> Result<()> {
        // By place in the query, children first: X of what is below is there when it is
        // asked for.
        let Scratch { plan, v, sums, excess, totals, .. } = scratch;
        excess.clear();
        totals.clear();
        let (mut first, mut walked) = (0, 0);
        for (place, item) in query.tree.items().enumerated() {
            let step = &mut plan.steps[place];
            (step.excess, step.total) = (excess.len() as u32, totals.len() as u32);
            let Step { n_columns, n_edges, children, is_nested, .. } = *step;
            let children = &plan.children[first..children as usize];
            first += children.len();
            if n_edges == 0 {
                continue;
            }
            let Some(label) = query.label(item.node) else { continue };
            let ends = &self.groups[label].ends[..n_columns as usize];
            let n_edges = n_edges as usize;
            // Totals come at the end of the array, so those of nodes below can be read
            // while these are written.
            let own_total = totals.len();
            if is_nested {
                memory::reach(totals, own_total + n_edges, 0.0)?;
            }
            let Some((last, others)) = children.split_last() else {
                // Nothing below p is below any of its label: X is 0.
                memory::reach(excess, excess.len() + ends.len(), 0.0)?;
                continue;
            };
            // 1. V of a child: the sums Ca over everything below it, by edge of the columns.
            let mut add = |child: &Child, v: &mut Vec<f64>| {
                v.clear();
                v.resize(n_edges, 0.0); // has room
                // What is nested in p adds up all of p's children.
                let (before, own_total) = totals.split_at_mut(own_total);
                walked += n_edges + self.add_below(plan, child, excess, before, v);
                for (total, value) in own_total.iter_mut().zip(&*v) {
                    *total += value;
                }
            };
            // 2. The children from the left, but for the last one.
            sums.clear();
            v.clear();
            memory::reserve(sums, n_edges)?;
            memory::reserve(v, n_edges)?;
            for (number, child) in others.iter().enumerate() {
                if number == 0 {
                    // Its sums are its V.
                    add(child, sums);
                } else {
                    add(child, v);
                    match_children(ends, v, sums);
                }
            }
            add(last, v);
            // 3. The last one, at each column's end: the excess, kept and told.
            sink.node(place, item.count);
            let [_, listed] = groups_of(label);
            let mut view = sink.view(listed);
            // Edges of a column stand together, in the order of its children.
            let mut at = 0;
            let excesses = ends.iter().enumerate().map(|(number, &end)| {
                let column = at..end as usize;
                at = end as usize;
                let s_sum = if sums.is_empty() {
                    // One child of p: S has one step, and it is the sum.
                    v[column].iter().sum()
                } else {
                    last_child(&v[column.clone()], &sums[column])
                };
                view.add(MemberId::at(number), self.decay * s_sum);
                self.decay * s_sum
            });
            memory::extend(excess, excesses)?;
            view.close();
            if walked > BETWEEN_CHECKS {
                walked = 0;
                context.check_now()?;
            }
        }
        Ok(())
    }

    /// Adds Ca of a child with all edges below its parent's label to `v`; returns how
    /// much there was to add.
    fn add_below(
        &self,
        plan: &Plan,
        child: &Child,
        excess: &[f64],
        totals: &[f64],
        v: &mut [f64],
    ) -> usize {
        let mut walked = 0;
        for &(place, weight) in &plan.nested[child.nested.clone()] {
            let total = &totals[plan.steps[place].total as usize..];
            // `total` reaches at least as far as the parent's edges: both are of one
            // label and of the same trees.
            for (value, total) in v.iter_mut().zip(total) {
                *value += weight * total;
            }
            walked += v.len();
        }
        for &(list, weight) in &plan.plain[child.plain.clone()] {
            let list = self.plain.get(list);
            // Edges ascend within a list: what is beyond `v` came with later trees.
            for entry in list {
                let Some(value) = v.get_mut(entry.edge as usize) else { break };
                *value += weight * f64::from(entry.count);
            }
            walked += list.len();
        }
        for &(list, place, weight) in &plan.inner[child.inner.clone()] {
            let list = self.inner.get(list);
            let below = &excess[plan.steps[place].excess as usize..];
            for entry in list {
                let Some(value) = v.get_mut(entry.edge as usize) else { break };
                *value += weight * below[entry.node.index()] * f64::from(entry.count);
            }
            walked += list.len();
        }
        walked
    }

    /// The recursion of single pairs, over deep subtrees or `every_subtree`, from the
    /// last one on, so that whole trees come at a time.
    #[allow(clippy::too_many_arguments)]
    fn walk_dense<S: Sink<Id = MemberId>>(
        &self,
        nodes: &Nodes,
        query: Query<'_>,
        n_trees: usize,
        every_subtree: bool,
        scratch: &mut Scratch,
        sink: &mut S,
        context: &Context,
    ) -> Result<()> {
        let Scratch { batch, dense, numbers, told, .. } = scratch;
        let items = query.tree.items();
        // 1. The query's labels, numbered.
        // Labels of the index that the query does not have get no number: the recursion
        // skips them.
        numbers.clear();
        memory::reach(numbers, nodes.labels().len(), NONE)?;
        let mut n_labels = 0;
        dense.lanes.clear();
        let n_edges = items.iter().map(|item| query.store.children(item.node).len());
        dense.lanes.reserve(items.len(), n_edges.sum())?;
        for item in items {
            let mut number = NONE;
            if let Some(label) = query.label(item.node) {
                let label_number = &mut numbers[label];
                if *label_number == NONE {
                    *label_number = n_labels;
                    n_labels += 1;
                }
                number = *label_number;
            }
            let children = query.store.children(item.node).iter();
            let places = children.map(|&c| query.tree.place(c).0);
            dense.lanes.push(number, places); // has room
        }
        if n_labels == 0 {
            return Ok(());
        }
        // 2. Batches of subtrees. One may stand in several, and only the first may tell
        // it.
        told.clear();
        memory::reach(told, nodes.len().div_ceil(64), 0)?;
        let is_wanted = |node: NodeId| match self.kinds[node] {
            Kind::Deep(_) => true,
            Kind::Listed(_) | Kind::Simple(_) => every_subtree,
            _ => false,
        };
        let bit = |node: NodeId| (node.index() / 64, 1u64 << (node.index() % 64));
        // From the end: a root comes before what is below it, so one `extend` takes a
        // whole tree in.
        let len = self.order.partition_point(|(_, tree)| tree.index() < n_trees);
        for at in (0..len).rev() {
            let node = self.order[at].0;
            let (word, mask) = bit(node);
            if is_wanted(node) && told[word] & mask == 0 && !batch.has(node) {
                let heaviest_first = HeaviestFirst { store: nodes, sizes: &self.sizes };
                batch.extend(nodes.len(), node, &heaviest_first)?;
            }
            // Batches end where they are full, at the latest with the first subtree.
            if batch.items().is_empty()
                || at > 0 && batch.items().len() * dense.lanes.len() < BATCH
            {
                continue;
            }
            dense.tree.clear();
            let n_edges =
                batch.items().iter().map(|item| nodes.children(item.node).len());
            dense.tree.reserve(batch.items().len(), n_edges.sum())?;
            for &Item { node, .. } in batch.items() {
                let label = numbers[nodes.label(node)];
                let children = nodes.children(node).iter();
                dense.tree.push(label, children.map(|&c| batch.place(c).0)); // has room
            }
            let tell = |node: usize, place: usize, value: f64| {
                let (node, place) =
                    (batch.items()[Place::at(node)].node, Place::at(place));
                // Equal simple subtrees were told with their labels.
                let (word, mask) = bit(node);
                let is_same = matches!(self.kinds[node], Kind::Simple(_))
                    && query.is_simple(items[place].node);
                if is_wanted(node)
                    && !is_same
                    && told[word] & mask == 0
                    && let Some((group, member)) = self.member(nodes, node)
                {
                    sink.node(place, items[place].count);
                    let mut view = sink.view(group);
                    view.add(member, value);
                    view.close();
                }
            };
            dense.run(|_| self.decay, n_labels as usize, tell, context)?;
            for &Item { node, .. } in batch.items() {
                let (word, mask) = bit(node);
                told[word] |= mask;
            }
            batch.clear();
        }
        Ok(())
    }
}

/// The last step of S for the children of one q, and the sum over all s.
#[inline]
fn last_child(v: &[f64], sums: &[f64]) -> f64 {
    // Nothing reads the sums after the last child of p, so only their total is taken.
    let (mut before, mut total) = (1.0, 0.0);
    for (&sum, &ca) in sums.iter().zip(v) {
        total += sum + ca * before;
        before += sum;
    }
    total
}

/// One step of S, for one child of p and the children of all q.
fn match_children(ends: &[u32], v: &[f64], sums: &mut [f64]) {
    let mut at = 0;
    for &end in ends {
        let end = end as usize;
        // 1 and the sums of what is to the left of e, as the children before p_i left
        // them: `sum` is read before it is updated.
        let mut before = 1.0;
        for (sum, &ca) in sums[at..end].iter_mut().zip(&v[at..end]) {
            let s = ca * before;
            before += *sum;
            *sum += s;
        }
        at = end;
    }
}
