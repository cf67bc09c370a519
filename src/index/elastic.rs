//! The elastic tree kernel's index.
//!
//! With S and Ca as in [`crate::kernel::elastic`], every pair of nodes with equal labels
//! adds λ, and two inner ones λ(S-1) more; call that the excess X(u,v):
//!
//! ```text
//! C(p,q) = λ + X(p,q)                 equal labels
//! X(p,q) = λ Σ_{i,j} s(i,j)           s from Ca(p_i, q_j), children of p and q
//! Ca(y,z) = λ Σ_label count_y count_z +  Σ_{inner u in y, inner v in z, equal labels} X(u,v)
//! ```
//!
//! The λ of all pairs are integer dot products or sums over groups: the user of the index
//! or [`Index::tell_labels`] does them. X depends on the two subtrees only, so the walk
//! computes X(p,q) for all inner p of the query, children first, with **all** distinct
//! subtrees q of p's label at once. All it needs are the Ca of p's children with all
//! edges e = (q,j) below that label, and lists say which edges those are: for label ℓ and
//! symbol s (a label; or an inner label) the list of edges e below ℓ that have s at or
//! below them, with counts:
//!
//! ```text
//! for p, for each child p_i:   V = 0
//!     for each label s in p_i:        for (e, count) in list(ℓ, s):      V[e] += λ count_s(p_i) count
//!     for each inner node u in p_i:   for (e, v, count) in list'(ℓ, label u):  V[e] += X(u,v) count_u count
//!     per q, over its edges e:        s = V[e] (1 + Σ_{e'<e} sum[e']);  sum[e] += s
//! X(p,q) = λ Σ_e sum[e]
//! ```
//!
//! Sums and products of numbers that are not negative: nothing cancels. A new subtree's
//! edges refer to subtrees that are there already, so all lists grow at their end, and
//! what the first trees have is a prefix of each.
//!
//! **Nesting.** What is below an inner node n of p's own label ℓ has been summed for the
//! same edges before: Ca(n, e) is n's own share and the total of n's V. So lists are
//! walked only for what is below p_i down to such n, and their totals are added, straight
//! along the edges.
//!
//! **Simple subtrees.** Most inner nodes are parts of speech above one word. (ℓ w) has
//! with an inner u of its label X = λ² · (how often the label w stands below u), so it
//! needs no values of its own: it is a symbol, like labels, with weight λ².
//!
//! **Deep subtrees.** The lists hold each node once per ancestor and would be quadratic
//! for deep trees. A subtree whose own subtrees have more than [`DEEP`] nodes on average,
//! or that is above such a one, is in no list: the walk takes [`Dense`], the recursion of
//! single pairs, over these and what is below them, and over all subtrees where lists
//! would take longer than that. This bounds the worst case by that of pairs.
//!
//! # Complexity
//! A walk takes time by the pairs of (node, ancestor) of the query and of the index that
//! agree in both labels (in the query only the nearest ancestor of each label), by the
//! edges of nodes with equal labels, and by the products of the child numbers of nodes
//! with equal labels. Index: at most some [`DEEP`] entries per distinct node. A worker's
//! scratch: a number per pair of an inner node of the query and a subtree of its label, or
//! an edge of one where nodes are nested; at most [`MAX_LISTED_VALUES`].

use std::ops::Range;

use super::reader::{NONE, Reader};
use super::weights::{Sink, Slot, View};
use crate::intern::{IdTable, Keys, new_id};
use crate::kernel::elastic::{Below, Dense};
use crate::{Context, NodeId, Nodes, Result, memory};

/// Subtrees whose own subtrees are larger than this on average do without lists. (A chain
/// has half its length, sentences 4 to 8.)
const DEEP: u64 = if cfg!(test) { 12 } else { 64 };
/// A query with more values of X than this (256 MB of scratch) goes without lists.
const MAX_LISTED_VALUES: usize = if cfg!(test) { 1 << 9 } else { 1 << 25 };
/// The dense recursion takes so many pairs of nodes at a time, or one tree.
const BATCH: usize = if cfg!(test) { 1 << 10 } else { 1 << 22 };
/// Steps between two questions whether to go on.
const BETWEEN_CHECKS: usize = 1 << 20;

const EDGES: &str = "edges below nodes of one label";

/// What a subtree is to the index.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// Not there.
    None,
    Leaf,
    /// An inner node above nothing but a leaf; with its number among the simple ones.
    Simple(u32),
    /// Any other inner node, with its number within its label.
    Listed(u32),
    /// One that is in no list, with its number among those without edges.
    Deep(u32),
}

/// The subtrees of a label.
#[derive(Debug, Clone, Default)]
struct Group {
    /// How many have no edges in the lists: leaves, simple and deep ones.
    n_plain: u32,
    has_simple: bool,
    /// By listed subtree: where its edges end, counted from the first of the label; and
    /// the tree that it came with.
    ends: Vec<u32>,
    trees: Vec<u32>,
}

/// An edge with a label or simple subtree at or below it.
#[derive(Debug, Clone, Copy)]
struct Entry {
    edge: u32,
    count: u32,
}

/// An edge with a listed subtree at or below it.
#[derive(Debug, Clone, Copy)]
struct InnerEntry {
    edge: u32,
    /// The subtree's number within its label.
    node: u32,
    count: u32,
}

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Index {
    pub(crate) decay: f64,
    /// By label.
    groups: Vec<Group>,
    /// By node: what it is, its nodes, and the sum of those of all nodes at or below it.
    kinds: Vec<Kind>,
    sizes: Vec<u64>,
    paths: Vec<u64>,
    n_nodes: usize,
    /// (label, 0, label of the leaf), and each simple subtree's number in its group, with
    /// the tree that it came with.
    simple: Keys,
    simple_numbers: Vec<(u32, u32)>,
    /// (label above, 0, label below) and (label above, 1, simple subtree).
    plain: Lists<Entry>,
    /// (label above, 0, label of the inner node).
    inner: Lists<InnerEntry>,
    /// Inner subtrees as they came, with the trees that they came with.
    order: Vec<(NodeId, u32)>,
    has_deep: bool,
    below: Below,
    tally: Tally,
}

/// Lists by key.
#[derive(Debug, Clone)]
struct Lists<T> {
    table: IdTable,
    lists: Vec<List<T>>,
}

/// Key and first edge stand with the list: a look-up asks for one line of the cache more,
/// and lists that start with a later tree are not asked for.
#[derive(Debug, Clone)]
struct List<T> {
    key: [u32; 3],
    first_edge: u32,
    items: Vec<T>,
}

impl<T> Default for Lists<T> {
    fn default() -> Self {
        Self { table: IdTable::default(), lists: Vec::new() }
    }
}

impl<T> Lists<T> {
    #[inline]
    fn find(&self, key: [u32; 3]) -> Option<u32> {
        self.table
            .find(self.table.hash_key(key), |list| self.lists[list as usize].key == key)
    }

    /// The list, if it starts before edge `end`, and its length.
    #[inline]
    fn before(&self, key: [u32; 3], end: u32) -> Option<(u32, u64)> {
        let list = self.find(key)?;
        let List { first_edge, items, .. } = &self.lists[list as usize];
        (*first_edge < end).then_some((list, items.len() as u64))
    }

    fn add(&mut self, key: [u32; 3], edge: u32, item: T) -> Result<()> {
        let list = if let Some(list) = self.find(key) {
            list
        } else {
            let list = new_id(self.lists.len(), "lists of edges")?;
            let new = List { key, first_edge: edge, items: Vec::new() };
            memory::reserve(&mut self.lists, 1)?;
            self.table.insert(self.table.hash_key(key), list)?;
            self.lists.push(new); // has room
            list
        };
        memory::push(&mut self.lists[list as usize].items, item)
    }

    /// Takes out what was entered last below a label, up to what stays.
    fn forget(&mut self, above: u32, stays: impl Fn(&T) -> bool) {
        for list in self.lists.iter_mut().filter(|list| list.key[0] == above) {
            let len = list.items.partition_point(&stays);
            list.items.truncate(len);
        }
    }

    #[inline]
    fn get(&self, list: u32) -> &[T] {
        &self.lists[list as usize].items
    }

    fn nbytes(&self) -> usize {
        let items = self.lists.iter().map(|l| l.items.capacity() * size_of::<T>());
        let lists = self.lists.capacity() * size_of::<List<T>>();
        self.table.nbytes() + lists + items.sum::<usize>()
    }
}

/// How often each label stands in what is at hand.
#[derive(Debug, Clone, Default)]
struct Tally {
    /// By label; zero between uses.
    counts: Vec<f64>,
    met: Vec<u32>,
}

impl Tally {
    fn add(&mut self, label: u32, count: f64) -> Result<()> {
        let label_at = label as usize;
        memory::reach(&mut self.counts, label_at + 1, 0.0)?;
        if self.counts[label_at] == 0.0 {
            memory::push(&mut self.met, label)?;
        }
        self.counts[label_at] += count;
        Ok(())
    }

    fn drain(&mut self) -> impl Iterator<Item = (u32, f64)> {
        let Self { counts, met } = self;
        met.drain(..).map(|label| (label, std::mem::take(&mut counts[label as usize])))
    }
}

/// The tree that walks the index.
#[derive(Clone, Copy)]
pub(crate) struct Query<'a> {
    pub(crate) store: &'a Nodes,
    /// By label of the store: the index's, or [`NONE`].
    pub(crate) labels: &'a [u32],
    pub(crate) tree: &'a Reader,
}

impl Query<'_> {
    fn label(&self, node: NodeId) -> u32 {
        self.labels[self.store.label(node).index()]
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
    /// By place.
    steps: Vec<Step>,
    children: Vec<Child>,
    /// (list, weight), (list, place, weight), (place, weight)
    plain: Vec<(u32, f64)>,
    inner: Vec<(u32, u32, f64)>,
    nested: Vec<(u32, f64)>,
    /// (simple subtree, how often its leaf's label is below the node)
    simple: Vec<(u32, f64)>,
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

    fn simple(&self, place: usize) -> Range<usize> {
        let start = place.checked_sub(1).map_or(0, |before| self.steps[before].simple);
        start as usize..self.steps[place].simple as usize
    }
}

/// What a worker keeps from tree to tree.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    plan: Plan,
    below: Below,
    tally: Tally,
    /// V and the sums of s, per edge of the label at hand.
    v: Vec<f64>,
    sums: Vec<f64>,
    /// X of the query's nodes; of nested nodes: the sum of V over their children.
    excess: Vec<f64>,
    totals: Vec<f64>,
    dense: Dense<f64>,
    /// By label: its number among the query's, else [`NONE`].
    numbers: Vec<u32>,
    batch: Below,
    /// Bits of nodes that the dense recursion has told.
    told: Vec<u64>,
}

impl Index {
    pub(crate) fn new(decay: f64) -> Self {
        Self {
            decay,
            groups: Vec::new(),
            kinds: Vec::new(),
            sizes: Vec::new(),
            paths: Vec::new(),
            n_nodes: 0,
            simple: Keys::default(),
            simple_numbers: Vec::new(),
            plain: Lists::default(),
            inner: Lists::default(),
            order: Vec::new(),
            has_deep: false,
            below: Below::default(),
            tally: Tally::default(),
        }
    }

    /// Whether a subtree has been entered.
    pub(crate) fn has(&self, node: NodeId) -> bool {
        !matches!(self.kinds.get(node.index()), None | Some(Kind::None))
    }

    /// The number of the simple subtree of a label and a leaf's.
    pub(crate) fn simple(&self, label: u32, leaf: u32) -> Option<u32> {
        self.simple.find([label, 0, leaf])
    }

    pub(crate) fn n_simple(&self) -> usize {
        self.simple_numbers.len()
    }

    /// Where the weight of a subtree is: two groups for each label, the second that of
    /// listed ones.
    pub(crate) fn slot(&self, nodes: &Nodes, node: NodeId) -> Option<Slot> {
        let group = 2 * nodes.label(node).0;
        match *self.kinds.get(node.index())? {
            Kind::None | Kind::Leaf => None,
            Kind::Simple(simple) => {
                Some(Slot { group, number: self.simple_numbers[simple as usize].0 })
            }
            Kind::Deep(number) => Some(Slot { group, number }),
            Kind::Listed(number) => Some(Slot { group: group + 1, number }),
        }
    }

    /// Where the weight of a new subtree will be. Its children are there.
    pub(crate) fn next_slot(&self, nodes: &Nodes, node: NodeId) -> Slot {
        let below = nodes.children(node);
        let is_simple = matches!(below, &[child] if nodes.is_leaf(child));
        let is_plain = below.is_empty() || is_simple || self.depth(below).2;
        let own = self.groups.get(nodes.label(node).index());
        let number =
            own.map_or(
                0,
                |own| if is_plain { own.n_plain } else { own.ends.len() as u32 },
            );
        Slot { group: 2 * nodes.label(node).0 + u32::from(!is_plain), number }
    }

    /// The nodes of a subtree with these children, the sum of those of all nodes at or
    /// below it, and whether it is deep.
    fn depth(&self, below: &[NodeId]) -> (u64, u64, bool) {
        let sum = |of: &[u64]| {
            below.iter().map(|c| of[c.index()]).fold(0, u64::saturating_add)
        };
        let size = sum(&self.sizes).saturating_add(1);
        let path = sum(&self.paths).saturating_add(size);
        let is_deep = |c: &NodeId| matches!(self.kinds[c.index()], Kind::Deep(_));
        let is_deep = size > u64::from(u32::MAX)
            || path / size >= DEEP
            || below.iter().any(is_deep);
        (size, path, is_deep)
    }

    /// Enters a new subtree, leaf or not, of the `tree`th tree. Its children are there.
    ///
    /// # Errors
    /// [`crate::Error::Capacity`] and [`crate::Error::Memory`]: the subtree is not there.
    pub(crate) fn enter(
        &mut self,
        nodes: &Nodes,
        node: NodeId,
        tree: u32,
    ) -> Result<Slot> {
        // 1. How deep is it?
        if self.kinds.len() <= node.index() {
            let len = nodes.len().max(node.index() + 1);
            memory::reach(&mut self.paths, len, 0)?;
            memory::reach(&mut self.sizes, len, 0)?;
            memory::reach(&mut self.kinds, len, Kind::None)?;
        }
        let below = nodes.children(node);
        let (size, path, is_deep) = self.depth(below);
        // 2. Its place in its group.
        let label = nodes.label(node);
        let (group, leaf) = (2 * label.0, label.index());
        memory::reach(&mut self.groups, leaf + 1, Group::default())?;
        let own = &mut self.groups[leaf];
        // What is entered at last: nothing fails then.
        memory::reserve(&mut own.ends, 1)?;
        memory::reserve(&mut own.trees, 1)?;
        memory::reserve(&mut self.order, 1)?;
        memory::reserve(&mut self.simple_numbers, 1)?;
        let kind = match below {
            [] => Kind::Leaf,
            &[child] if nodes.is_leaf(child) => {
                own.has_simple = true;
                let key = [label.0, 0, nodes.label(child).0];
                let simple = self.simple.insert(key, "simple subtrees")?;
                self.simple_numbers.push((own.n_plain, tree)); // has room
                Kind::Simple(simple)
            }
            _ if is_deep => Kind::Deep(own.n_plain),
            _ => Kind::Listed(own.ends.len() as u32),
        };
        let slot = if let Kind::Listed(number) = kind {
            // 3. Its edges in the lists.
            let first = own.ends.last().copied().unwrap_or(0);
            let end = new_id(first as usize + below.len(), EDGES)?;
            let mut listed = (first..end).zip(below);
            let listed = listed.try_for_each(|(edge, &child)| {
                self.list(nodes, (label.0, edge), child)
            });
            if let Err(error) = listed {
                // The next subtree of the label has these edges.
                self.plain.forget(label.0, |entry| entry.edge < first);
                self.inner.forget(label.0, |entry| entry.edge < first);
                return Err(error);
            }
            let own = &mut self.groups[leaf];
            own.ends.push(end); // has room
            own.trees.push(tree); // has room
            Slot { group: group + 1, number }
        } else {
            own.n_plain += 1;
            Slot { group, number: own.n_plain - 1 }
        };
        if kind != Kind::Leaf {
            self.order.push((node, tree)); // has room
            self.has_deep |= is_deep;
        }
        self.n_nodes += 1;
        let at = node.index();
        (self.kinds[at], self.sizes[at], self.paths[at]) = (kind, size, path);
        Ok(slot)
    }

    /// Enters an edge into the lists of all that is at or below it.
    fn list(
        &mut self,
        nodes: &Nodes,
        (above, edge): (u32, u32),
        child: NodeId,
    ) -> Result<()> {
        let Self { kinds, plain, inner, below, tally, .. } = self;
        // Counts are no more than the nodes of a listed subtree.
        let mut add =
            |key, count| plain.add(key, edge, Entry { edge, count: count as u32 });
        tally.drain().for_each(drop); // what an error left
        for (node, count) in below.read(nodes, child, None)? {
            let label = nodes.label(node).0;
            tally.add(label, count)?;
            match kinds[node.index()] {
                Kind::Simple(simple) => add([above, 1, simple], count)?,
                Kind::Listed(node) => {
                    let entry = InnerEntry { edge, node, count: count as u32 };
                    inner.add([above, 0, label], edge, entry)?;
                }
                Kind::None | Kind::Leaf | Kind::Deep(_) => {}
            }
        }
        for (label, count) in tally.drain() {
            add([above, 0, label], count)?;
        }
        Ok(())
    }

    pub(crate) fn nbytes(&self) -> usize {
        let group = |group: &Group| group.ends.capacity() * 8 + size_of::<Group>();
        self.simple.nbytes()
            + self.plain.nbytes()
            + self.inner.nbytes()
            + self.groups.iter().map(group).sum::<usize>()
            + self.kinds.capacity() * (size_of::<Kind>() + 16)
            + (self.order.capacity() + self.simple_numbers.capacity()) * 8
    }

    /// Tells λ for all pairs with equal labels, and λ² for equal simple subtrees.
    pub(crate) fn tell_labels<S: Sink>(&self, query: Query<'_>, sink: &mut S) {
        for (place, item) in query.tree.items().iter().enumerate() {
            let label = query.label(item.node);
            let Some(group) = self.groups.get(label as usize) else { continue };
            sink.node(place, item.count);
            if group.n_plain > 0 {
                sink.group(2 * label, self.decay);
            }
            if !group.ends.is_empty() {
                sink.group(2 * label + 1, self.decay);
            }
            if let Some(simple) = self.same_simple(query, item.node) {
                self.tell_simple(label, &[(simple, 1.0)], u32::MAX, sink);
            }
        }
    }

    fn tell_simple<S: Sink>(
        &self,
        label: u32,
        pairs: &[(u32, f64)],
        n_trees: u32,
        sink: &mut S,
    ) {
        let mut view = sink.view(2 * label);
        for &(simple, count) in pairs {
            let (number, tree) = self.simple_numbers[simple as usize];
            if tree < n_trees {
                view.add(number, self.decay * self.decay * count);
            }
        }
        view.close();
    }

    /// The simple subtree that a simple node of the query equals.
    fn same_simple(&self, query: Query<'_>, node: NodeId) -> Option<u32> {
        let &[child] = query.store.children(node) else { return None };
        let is_leaf = query.store.is_leaf(child);
        let key = [query.label(node), 0, query.label(child)];
        Some(key).filter(|_| is_leaf).and_then(|key| self.simple.find(key))
    }

    /// Tells X of all pairs of inner nodes with equal labels, except of equal simple ones,
    /// with what the first `n_trees` trees have. `nodes` is the index's own store.
    pub(crate) fn walk<S: Sink>(
        &self,
        nodes: &Nodes,
        query: Query<'_>,
        n_trees: u32,
        scratch: &mut Scratch,
        sink: &mut S,
        context: &Context,
    ) -> Result<()> {
        let by_lists = self.plan(query, n_trees, scratch, context)?;
        if by_lists {
            for (place, item) in query.tree.items().iter().enumerate() {
                let simple = scratch.plan.simple(place);
                if !simple.is_empty() && !query.is_simple(item.node) {
                    sink.node(place, item.count);
                    let pairs = &scratch.plan.simple[simple];
                    self.tell_simple(query.label(item.node), pairs, n_trees, sink);
                }
            }
            self.walk_lists(query, scratch, sink, context)?;
        }
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
        n_trees: u32,
        scratch: &mut Scratch,
        context: &Context,
    ) -> Result<bool> {
        let items = query.tree.items();
        let most = items.len() as u64 * self.n_nodes as u64;
        let most_steps = (items.len() * DEEP as usize).max(1 << 16);
        scratch.plan.clear();
        let mut checked = 0;
        for item in items {
            let label = query.label(item.node);
            let children = query.store.children(item.node);
            let mut step = Step::default();
            let group = self.groups.get(label as usize);
            if let Some(group) = group.filter(|_| !children.is_empty()) {
                if group.has_simple {
                    self.plan_simple(query, item.node, scratch)?;
                }
                let len = group.trees.partition_point(|&tree| tree < n_trees);
                step.n_columns = len as u32;
                step.n_edges = len.checked_sub(1).map_or(0, |last| group.ends[last]);
                scratch.plan.n_values += len;
            }
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
            step.children = plan.children.len() as u32;
            step.simple = new_id(plan.simple.len(), "pairs with simple subtrees")?;
            memory::push(&mut plan.steps, step)?;
            if plan.cost > most {
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
        if query.is_simple(node) {
            let same = self.same_simple(query, node).map(|simple| (simple, 1.0));
            return memory::extend(&mut plan.simple, same);
        }
        for (node, count) in below.read(query.store, node, None)?.skip(1) {
            let label = query.label(node);
            if label != NONE {
                tally.add(label, count)?;
            }
        }
        for (word, count) in tally.drain() {
            let simple = self.simple.find([query.label(node), 0, word]);
            memory::extend(&mut plan.simple, simple.map(|simple| (simple, count)))?;
        }
        plan.cost += below.order.len() as u64;
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
        let (label, end) = (query.label(parent), query.store.label(parent));
        let starts = [plan.plain.len(), plan.inner.len(), plan.nested.len()];
        plan.cost += u64::from(n_edges);
        for (node, count) in below.read(query.store, child, Some(end))? {
            let own = query.label(node);
            if own == NONE {
                continue;
            }
            tally.add(own, count)?;
            let place = query.tree.place(node);
            for at in plan.simple(place) {
                let (simple, times) = plan.simple[at];
                if let Some((list, len)) =
                    self.plain.before([label, 1, simple], n_edges)
                {
                    plan.cost += len;
                    let weight = self.decay * self.decay * count * times;
                    memory::push(&mut plan.plain, (list, weight))?;
                }
            }
            let step = &mut plan.steps[place];
            if step.n_edges == 0 {
                continue;
            }
            if own == label {
                memory::push(&mut plan.nested, (place as u32, count))?;
                plan.n_values += if step.is_nested { 0 } else { step.n_edges as usize };
                step.is_nested = true;
                plan.cost += u64::from(n_edges);
            }
            if let Some((list, len)) = self.inner.before([label, 0, own], n_edges) {
                plan.cost += len;
                memory::push(&mut plan.inner, (list, place as u32, count))?;
            }
        }
        plan.cost += below.order.len() as u64;
        for (own, count) in tally.drain() {
            if let Some((list, len)) = self.plain.before([label, 0, own], n_edges) {
                plan.cost += len;
                memory::push(&mut plan.plain, (list, self.decay * count))?;
            }
        }
        let ends = [plan.plain.len(), plan.inner.len(), plan.nested.len()];
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

    fn walk_lists<S: Sink>(
        &self,
        query: Query<'_>,
        scratch: &mut Scratch,
        sink: &mut S,
        context: &Context,
    ) -> Result<()> {
        let Scratch { plan, v, sums, excess, totals, .. } = scratch;
        excess.clear();
        totals.clear();
        let (mut first, mut walked) = (0, 0);
        for (place, item) in query.tree.items().iter().enumerate() {
            let step = &mut plan.steps[place];
            (step.excess, step.total) = (excess.len() as u32, totals.len() as u32);
            let Step { n_columns, n_edges, children, is_nested, .. } = *step;
            let children = &plan.children[first..children as usize];
            first += children.len();
            if n_edges == 0 {
                continue;
            }
            let label = query.label(item.node);
            let ends = &self.groups[label as usize].ends[..n_columns as usize];
            let n_edges = n_edges as usize;
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
            let mut view = sink.view(2 * label + 1);
            let mut at = 0;
            let excesses = ends.iter().enumerate().map(|(number, &end)| {
                let own = at..end as usize;
                at = end as usize;
                let all = if sums.is_empty() {
                    v[own].iter().sum()
                } else {
                    last_child(&v[own.clone()], &sums[own])
                };
                view.add(number as u32, self.decay * all);
                self.decay * all
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
            let total = &totals[plan.steps[place as usize].total as usize..];
            for (value, total) in v.iter_mut().zip(total) {
                *value += weight * total;
            }
            walked += v.len();
        }
        for &(list, weight) in &plan.plain[child.plain.clone()] {
            let list = self.plain.get(list);
            for entry in list {
                let Some(value) = v.get_mut(entry.edge as usize) else { break };
                *value += weight * f64::from(entry.count);
            }
            walked += list.len();
        }
        for &(list, place, weight) in &plan.inner[child.inner.clone()] {
            let list = self.inner.get(list);
            let below = &excess[plan.steps[place as usize].excess as usize..];
            for entry in list {
                let Some(value) = v.get_mut(entry.edge as usize) else { break };
                *value += weight * below[entry.node as usize] * f64::from(entry.count);
            }
            walked += list.len();
        }
        walked
    }

    /// The recursion of single pairs, over deep subtrees or `all`, from the last one on,
    /// so that whole trees come at a time.
    #[allow(clippy::too_many_arguments)]
    fn walk_dense<S: Sink>(
        &self,
        nodes: &Nodes,
        query: Query<'_>,
        n_trees: u32,
        all: bool,
        scratch: &mut Scratch,
        sink: &mut S,
        context: &Context,
    ) -> Result<()> {
        let Scratch { batch, dense, numbers, told, .. } = scratch;
        let items = query.tree.items();
        // 1. The query's labels, numbered.
        numbers.clear();
        memory::reach(numbers, nodes.labels().len(), NONE)?;
        let mut n_labels = 0;
        dense.lanes.clear();
        let n_edges = items.iter().map(|item| query.store.children(item.node).len());
        dense.lanes.reserve(items.len(), n_edges.sum())?;
        for item in items {
            let label = query.label(item.node);
            let mut number = NONE;
            if label != NONE {
                let known = &mut numbers[label as usize];
                if *known == NONE {
                    *known = n_labels;
                    n_labels += 1;
                }
                number = *known;
            }
            let children = query.store.children(item.node).iter();
            let places = children.map(|&c| query.tree.place(c) as u32);
            dense.lanes.push(number, places); // has room
        }
        if n_labels == 0 {
            return Ok(());
        }
        // 2. Batches of subtrees, each told once.
        told.clear();
        memory::reach(told, nodes.len().div_ceil(64), 0)?;
        let is_wanted = |node: NodeId| match self.kinds[node.index()] {
            Kind::Deep(_) => true,
            Kind::Listed(_) | Kind::Simple(_) => all,
            _ => false,
        };
        let bit = |node: NodeId| (node.index() / 64, 1u64 << (node.index() % 64));
        let len = self.order.partition_point(|&(_, tree)| tree < n_trees);
        for at in (0..len).rev() {
            let node = self.order[at].0;
            let (word, mask) = bit(node);
            if is_wanted(node) && told[word] & mask == 0 && batch.at(node) == NONE {
                batch.extend(nodes, node, None, &self.sizes)?;
            }
            if batch.order.is_empty()
                || at > 0 && batch.order.len() * dense.lanes.len() < BATCH
            {
                continue;
            }
            dense.tree.clear();
            let n_edges = batch.order.iter().map(|&node| nodes.children(node).len());
            dense.tree.reserve(batch.order.len(), n_edges.sum())?;
            for &node in &batch.order {
                let label = numbers[nodes.label(node).index()];
                let children = nodes.children(node).iter();
                dense.tree.push(label, children.map(|&c| batch.at(c))); // has room
            }
            let tell = |node: usize, place: usize, value: f64| {
                let node = batch.order[node];
                let (word, mask) = bit(node);
                let is_same = matches!(self.kinds[node.index()], Kind::Simple(_))
                    && query.is_simple(items[place].node);
                if is_wanted(node)
                    && !is_same
                    && told[word] & mask == 0
                    && let Some(slot) = self.slot(nodes, node)
                {
                    sink.node(place, items[place].count);
                    let mut view = sink.view(slot.group);
                    view.add(slot.number, value);
                    view.close();
                }
            };
            dense.run(|_| self.decay, n_labels as usize, tell, context)?;
            for &node in &batch.order {
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
    let (mut before, mut all) = (1.0, 0.0);
    for (&sum, &ca) in sums.iter().zip(v) {
        all += sum + ca * before;
        before += sum;
    }
    all
}

/// One step of S, for one child of p and the children of all q.
fn match_children(ends: &[u32], v: &[f64], sums: &mut [f64]) {
    let mut at = 0;
    for &end in ends {
        let end = end as usize;
        let mut before = 1.0;
        for (sum, &ca) in sums[at..end].iter_mut().zip(&v[at..end]) {
            let s = ca * before;
            before += *sum;
            *sum += s;
        }
        at = end;
    }
}

#[cfg(test)]
mod tests {
    use crate::dag::{Model, Options};
    use crate::kernel::{ElasticTree, sample};
    use crate::{Context, Forest, gram};

    #[test]
    fn scores_are_sums_over_pairs_whichever_way_they_take() {
        let mut random = sample::Random(5);
        for round in 0..60 {
            let kernel = ElasticTree::new([0.05, 0.4, 1.0][round % 3]);
            // Beyond the thresholds of tests: some trees are deep, some ask for many
            // values, some batches end between trees.
            let size = [8, 25, 60, 150][round % 4];
            let forest = sample::forest(&mut random, 24, size);
            let pairs = gram::Pairs::new(&kernel, &forest).unwrap();
            let mut of = pairs.worker();
            let options = Options { n_outputs: 2, ..Options::default() };
            let mut model = Model::new(&kernel, options).unwrap();
            let weight = |tree: usize| tree as f64 - 5.5;
            for tree in 0..12 {
                let trees = forest.select([tree]);
                model.add(&trees, &[weight(tree), 1.0], &Context::default()).unwrap();
            }
            // Of a store of its own, with some labels that the model does not know.
            let others = forest.select(12..24).to_brackets();
            let others =
                Forest::from_bracket_items(others.iter().map(|t| &**t)).unwrap();
            let scores = model.score(&others, &Context::default()).unwrap().0;
            for (other, scores) in scores.chunks(2).enumerate() {
                let values: Vec<f64> =
                    (0..12).map(|tree| of(tree, 12 + other).unwrap()).collect();
                let all: f64 = values.iter().sum();
                let weighted = values.iter().enumerate().map(|(t, k)| weight(t) * k);
                let gap = (scores[0] - weighted.sum::<f64>()).abs();
                assert!(gap <= 1e-9 * all, "{round} {other}: {gap}");
                assert!((scores[1] - all).abs() <= 1e-10 * all, "{round} {other}");
                let shares = model
                    .contributions(&others.select([other]), &Context::default())
                    .unwrap();
                let sum: f64 = shares.iter().skip(1).step_by(2).sum();
                assert!((sum - all).abs() <= 1e-10 * all, "{round} {other}");
            }
        }
    }
}
