//! Rows of the elastic tree kernel.
//!
//! With S and Ca as in [`crate::kernel::elastic`], every pair of nodes with equal labels
//! adds λ, and two inner ones λ(S-1) more; call that the excess X(u,v):
//!
//! ```text
//! K(x,t) = λ Σ_label count_x count_t  +  Σ_{inner u in x, inner v in t, equal labels} X(u,v)
//! X(p,q) = λ Σ_{i,j} s(i,j)           s from Ca(p_i, q_j), children of p and q
//! Ca(y,z) = λ Σ_label count_y count_z +  Σ_{inner u in y, inner v in z, equal labels} X(u,v)
//! ```
//!
//! The first sums are integer dot products ([`Counts`] for K). X depends on the two
//! subtrees only, not on the trees, so a row computes X(p,q) for all inner p of x, children
//! first, with **all** distinct column subtrees q of p's label at once. All it needs are
//! the Ca of p's children with all edges e = (q,j) below that label, and lists say
//! which edges those are: for label ℓ and symbol s (a label; or an inner label) the list
//! of edges e below ℓ that have s at or below them, with counts:
//!
//! ```text
//! for p, for each child p_i:   V = 0
//!     for each label s in p_i:        for (e, count) in list(ℓ, s):      V[e] += λ count_s(p_i) count
//!     for each inner node u in p_i:   for (e, v, count) in list'(ℓ, label u):  V[e] += X(u,v) count_u count
//!     per q, over its edges e:        s = V[e] (1 + Σ_{e'<e} sum[e']);  sum[e] += s
//! X(p,q) = λ Σ_e sum[e]
//! ```
//!
//! Sums and products of numbers that are not negative: nothing cancels.
//!
//! **Nesting.** What is below an inner node n of p's own label ℓ has been summed for the
//! same edges before: Ca(n, e) is n's own share and the total of n's V. So lists are
//! walked only for what is below p_i down to such n, and their totals are added, straight
//! along the edges. ns of CPU time per pair, one thread, λ = 0.4, on a busy machine,
//! without and with it [pair by pair]: QC 121, 117 [2,055], GRCT 29, 27 [1,360], WSJ 889,
//! 717 [6,431], WSJs 1,246, 1,015 [6,129].
//!
//! **Tried.** The same on the columns' side, lists that end at nested edges with a pass
//! that adds up what is below them: lists a third shorter, rows a fifth slower (QC 143,
//! GRCT 28, WSJ 849, WSJs 1,262), as the pass is a chain of short sums.
//!
//! **Simple labels.** Most inner nodes are parts of speech above one word. A label whose
//! inner nodes all have just one child, a leaf, needs no X: it is λ² for two equal subtrees
//! and else 0. So those subtrees are symbols of their own, like labels, with weight λ².
//!
//! **What does not fit.** The lists hold each node once per ancestor and would be quadratic
//! for deep trees. Trees whose subtrees have more than [`DEEP`] nodes on average stay out
//! and are done pair by pair, and so is every row whose lists are longer than the dense
//! recursion would take. This bounds the worst case by that of pairs.
//!
//! # Complexity
//! A row takes time by the pairs of (node, ancestor) of x and of the columns' distinct
//! subtrees that agree in both labels (in x only the nearest ancestor of each label), by
//! the edges of nodes with equal labels, and by the products of the child numbers of nodes
//! with equal labels. Index: at most [`DEEP`] entries per distinct node. A worker's
//! scratch: a number per pair of an inner node of x and a column subtree of its label, or
//! an edge of one where nodes are nested; at most [`MOST_VALUES`].

use super::counts::{CountsScratch, Products, Tally};
use crate::intern::{IdTable, mix, new_id};
use crate::kernel::{Bags, Pairs, elastic};
use crate::lists::{Filling, Lists};
use crate::team::{Crew, Pause};
use crate::{Error, Label, NodeId, Nodes, Result};

/// "No number".
const NONE: u32 = u32::MAX;
/// Trees whose subtrees are larger than this on average do without lists. (A chain has
/// half its length, sentences 4 to 8.)
const DEEP: u64 = 64;
/// A row with more values of X than this (256 MB of scratch) goes by pairs.
const MOST_VALUES: u64 = 1 << 25;

/// What a node is to the lists.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Leaf,
    /// Of a simple label; with a number among the equal ones.
    Simple(u32),
    Inner,
}

/// A column subtree q of some label.
#[derive(Debug, Clone, Copy)]
struct Column {
    /// Where its edges end, counted from the first of its label.
    end: u32,
    /// The first tree it stands in.
    first: u32,
    /// That tree if it stands there once and nowhere else; otherwise the complement of
    /// its number among those that stand more than once.
    slot: u32,
}

/// A list of edges with a symbol below them.
#[derive(Debug, Clone, Copy)]
struct List {
    start: u32,
    end: u32,
    weight: f64,
}

/// An edge with a label or simple subtree below it.
#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    edge: u32,
    count: u32,
}

/// An edge with an inner node below it.
#[derive(Debug, Clone, Copy, Default)]
struct InnerEntry {
    edge: u32,
    /// The node's number within its label.
    node: u32,
    count: u32,
}

/// An inner node p of the rows' trees.
#[derive(Debug, Clone, Copy)]
struct RowNode {
    /// Its label among the columns' inner labels, or NONE.
    group: u32,
    /// Where its children end.
    edges: u32,
    /// Whether it stands below another of its label.
    is_nested: bool,
}

/// What a child p_i adds up: where its lists end.
#[derive(Debug, Clone, Copy)]
struct RowEdge {
    plain: u32,
    inner: u32,
    nested: u32,
}

/// An inner node below a row's edge.
#[derive(Debug, Clone, Copy)]
struct InnerStep {
    list: u32,
    /// Its number among the row nodes.
    node: u32,
    count: u32,
}

/// How a row is computed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Lists,
    Pairs,
}

/// The index.
#[derive(Debug)]
pub(crate) struct Engine {
    decay: f64,
    /// All column trees, then (unless symmetric) all row trees, for what goes by pairs.
    pairs: elastic::Trees,
    first_row: usize,
    /// Columns that are not in the lists.
    apart: Vec<u32>,
    ways: Vec<Way>,
    /// Column subtrees by label, in the order of their first trees.
    columns: Lists<Column>,
    lists: Vec<List>,
    entries: Vec<Entry>,
    inner_entries: Vec<InnerEntry>,
    /// Subtrees that stand more than once: trees and counts.
    shared: Lists<(u32, u32)>,
    row_nodes: Vec<RowNode>,
    row_edges: Vec<RowEdge>,
    /// (list, count)
    plain_steps: Vec<(u32, u32)>,
    inner_steps: Vec<InnerStep>,
    /// (row node, count)
    nested_steps: Vec<(u32, u32)>,
    /// Per row: inner nodes, children first, with counts.
    rows: Lists<(u32, u32)>,
    /// Labels, simple subtrees.
    base: Vec<Products>,
}

/// What one worker keeps from row to row.
#[derive(Debug)]
pub(crate) struct Scratch {
    base: Vec<CountsScratch>,
    /// V and the sums of s, per edge of the label at hand.
    v: Vec<f64>,
    sums: Vec<f64>,
    /// X of the row's nodes, and by row node where its values start.
    excess: Vec<f64>,
    /// Of nested nodes: the sum of V over their children; and where it starts.
    totals: Vec<f64>,
    start: Vec<(u32, u32)>,
    /// Per shared subtree: what it adds to each of its trees; zero between rows.
    extra: Vec<f64>,
    touched: Vec<u32>,
    pairs: elastic::Scratch<f64>,
}

impl Engine {
    /// Indexes the trees of `columns` for rows from `rows` (None: from the same trees).
    pub(crate) fn new(
        nodes: &Nodes,
        decay: f64,
        columns: &Bags,
        rows: Option<&Bags>,
        crew: &mut Crew<'_>,
    ) -> Result<Self> {
        Builder::new(nodes, decay, columns, rows)?.build(crew)
    }
}

impl super::Engine for Engine {
    type Scratch = Scratch;

    fn scratch(&self) -> Scratch {
        Scratch {
            base: self.base.iter().map(|base| base.counts.scratch()).collect(),
            v: Vec::new(),
            sums: Vec::new(),
            excess: Vec::new(),
            totals: Vec::new(),
            start: vec![(0, 0); self.row_nodes.len()],
            extra: vec![0.0; self.shared.len()],
            touched: Vec::new(),
            pairs: elastic::Scratch::default(),
        }
    }

    /// Pair by pair a row of deep trees takes some tenths of a second.
    fn long_row(
        &self,
        x: usize,
        scratch: &mut Scratch,
        row: &mut [f64],
        pause: &mut Pause<'_>,
    ) -> Result<()> {
        if self.ways[x] != Way::Pairs {
            self.row(x, scratch, row);
            return Ok(());
        }
        for (tree, value) in row.iter_mut().enumerate() {
            *value = self.pairs.pair(self.first_row + x, tree, &mut scratch.pairs);
            pause()?;
        }
        Ok(())
    }

    fn row(&self, x: usize, scratch: &mut Scratch, row: &mut [f64]) {
        let own = self.first_row + x;
        if self.ways[x] == Way::Pairs {
            for (tree, value) in row.iter_mut().enumerate() {
                *value = self.pairs.pair(own, tree, &mut scratch.pairs);
            }
            return;
        }
        row.fill(0.0);
        for (base, scratch) in self.base.iter().zip(&mut scratch.base) {
            base.add_to(x, scratch, row);
        }
        self.add_excess(x, scratch, row);
        for number in scratch.touched.drain(..) {
            let extra = std::mem::take(&mut scratch.extra[number as usize]);
            for &(tree, count) in self.shared.get(number as usize) {
                let Some(value) = row.get_mut(tree as usize) else { break };
                *value += extra * f64::from(count);
            }
        }
        for &tree in &self.apart {
            let Some(value) = row.get_mut(tree as usize) else { break };
            *value = self.pairs.pair(own, tree as usize, &mut scratch.pairs);
        }
        // 0 · ∞, where a sum left the floats before a child with nothing in common.
        for value in row.iter_mut().filter(|value| value.is_nan()) {
            *value = f64::INFINITY;
        }
    }
}

impl Engine {
    fn add_excess(&self, x: usize, scratch: &mut Scratch, row: &mut [f64]) {
        let Scratch { v, sums, excess, totals, start, extra, touched, .. } = scratch;
        excess.clear();
        totals.clear();
        for &(number, times) in self.rows.get(x) {
            let node = self.row_nodes[number as usize];
            start[number as usize] = (excess.len() as u32, totals.len() as u32);
            if node.group == NONE {
                continue;
            }
            let all = self.columns.get(node.group as usize);
            let len = all.partition_point(|q| (q.first as usize) < row.len());
            let group = &all[..len];
            let n_edges = group.last().map_or(0, |q| q.end as usize);
            if n_edges == 0 {
                continue;
            }
            let own_total = totals.len();
            if node.is_nested {
                totals.resize(own_total + n_edges, 0.0);
            }
            let first =
                number.checked_sub(1).map_or(0, |n| self.row_nodes[n as usize].edges);
            // The sums of the first child that has anything in common are its V.
            let mut is_first = true;
            for edge in first as usize..node.edges as usize {
                v.clear();
                v.resize(n_edges, 0.0);
                let (before, own_total) = totals.split_at_mut(own_total);
                if !self.add_below(edge, excess, before, start, v) {
                    continue;
                }
                for (total, value) in own_total.iter_mut().zip(&*v) {
                    *total += value;
                }
                if is_first {
                    std::mem::swap(v, sums);
                    is_first = false;
                } else {
                    match_children(group, v, sums);
                }
            }
            if is_first {
                // Nothing below p is below any of its label: X is 0.
                excess.resize(excess.len() + len, 0.0);
                continue;
            }
            let weight = f64::from(times);
            let mut at = 0;
            for q in group {
                let end = q.end as usize;
                let value = self.decay * sums[at..end].iter().sum::<f64>();
                at = end;
                excess.push(value);
                if let Some(sum) = row.get_mut(q.slot as usize) {
                    *sum += weight * value;
                } else {
                    let number = !q.slot;
                    let sum = &mut extra[number as usize];
                    if *sum == 0.0 {
                        touched.push(number);
                    }
                    *sum += weight * value;
                }
            }
        }
    }

    /// Adds Ca of a row's edge with all edges below its node's label to `v`; false if
    /// there is nothing to add.
    fn add_below(
        &self,
        edge: usize,
        excess: &[f64],
        totals: &[f64],
        start: &[(u32, u32)],
        v: &mut [f64],
    ) -> bool {
        let none = RowEdge { plain: 0, inner: 0, nested: 0 };
        let first = edge.checked_sub(1).map_or(none, |before| self.row_edges[before]);
        let last = self.row_edges[edge];
        let nested = &self.nested_steps[first.nested as usize..last.nested as usize];
        for &(node, count) in nested {
            let weight = f64::from(count);
            let total = &totals[start[node as usize].1 as usize..];
            for (value, total) in v.iter_mut().zip(total) {
                *value += weight * total;
            }
        }
        let plain = &self.plain_steps[first.plain as usize..last.plain as usize];
        for &(list, count) in plain {
            let list = self.lists[list as usize];
            let weight = list.weight * f64::from(count);
            for entry in &self.entries[list.start as usize..list.end as usize] {
                let Some(value) = v.get_mut(entry.edge as usize) else { break };
                *value += weight * f64::from(entry.count);
            }
        }
        let inner = &self.inner_steps[first.inner as usize..last.inner as usize];
        for step in inner {
            let list = self.lists[step.list as usize];
            let weight = f64::from(step.count);
            let below = &excess[start[step.node as usize].0 as usize..];
            for entry in &self.inner_entries[list.start as usize..list.end as usize] {
                let Some(value) = v.get_mut(entry.edge as usize) else { break };
                *value += weight * below[entry.node as usize] * f64::from(entry.count);
            }
        }
        !(nested.is_empty() && plain.is_empty() && inner.is_empty())
    }
}

/// One step of S, for one child of p and the children of all q.
fn match_children(group: &[Column], v: &[f64], sums: &mut [f64]) {
    let mut at = 0;
    for q in group {
        let end = q.end as usize;
        let mut before = 1.0;
        for (sum, &ca) in sums[at..end].iter_mut().zip(&v[at..end]) {
            let s = ca * before;
            before += *sum;
            *sum += s;
        }
        at = end;
    }
}

/// What is known while the index is built.
struct Builder<'a> {
    nodes: &'a Nodes,
    columns: &'a Bags,
    /// The columns, if symmetric.
    rows: &'a Bags,
    is_listed: Vec<bool>,
    is_row_listed: Vec<bool>,
    kind: Vec<Kind>,
    n_simple: u32,
    /// By label: its number among the labels of the columns' inner nodes.
    group: Vec<u32>,
    /// By node: its number within its label, among the columns.
    local: Vec<u32>,
    /// Column nodes by label, in the order of `Engine::columns`.
    order: Vec<NodeId>,
    /// By node: its number in `content`, which has the children of inner nodes.
    content_of: Vec<u32>,
    content: Bags,
    /// By label: how often in the content at hand; zero between.
    tally: Vec<u32>,
    met: Vec<Label>,
    /// By node: the same; only in `read_content`.
    times: Vec<u32>,
    items: Vec<Item>,
    table: IdTable,
    /// Per list: its label's group, and its symbol.
    keys: Vec<(u32, u32)>,
    engine: Engine,
}

/// Something below an edge: a symbol is a label, a simple subtree, or the label of the
/// inner node that it is; these three follow one another.
#[derive(Debug, Clone, Copy)]
struct Item {
    symbol: u32,
    count: u32,
    /// The inner node itself.
    node: Option<NodeId>,
}

/// Of listed trees: those of `trees` for which `listed` holds.
fn listed<'a>(
    trees: &'a Bags,
    is_listed: &'a [bool],
) -> impl Iterator<Item = usize> + 'a {
    (0..trees.len()).filter(|&tree| is_listed[tree])
}

impl<'a> Builder<'a> {
    fn new(
        nodes: &'a Nodes,
        decay: f64,
        columns: &'a Bags,
        rows: Option<&'a Bags>,
    ) -> Result<Self> {
        let roots = |trees: &Bags| -> Vec<NodeId> {
            (0..trees.len()).filter_map(|t| trees.nodes(t).last().copied()).collect()
        };
        let mut all = roots(columns);
        all.extend(rows.map(roots).unwrap_or_default());
        let sizes = nodes.sizes();
        let flat = |trees: &Bags| -> Vec<bool> {
            let is_flat = |below: &[NodeId]| {
                let sizes = below.iter().map(|n| sizes[n.index()]);
                sizes.fold(0, u64::saturating_add) <= DEEP * below.len() as u64
            };
            (0..trees.len()).map(|tree| is_flat(trees.nodes(tree))).collect()
        };
        let is_listed = flat(columns);
        let is_row_listed = rows.map_or_else(|| is_listed.clone(), flat);
        let apart = (0..columns.len()).filter(|&t| !is_listed[t]).map(|t| t as u32);
        let engine = Engine {
            decay,
            pairs: elastic::Trees::new(nodes, decay, &all)?,
            first_row: if rows.is_some() { columns.len() } else { 0 },
            apart: apart.collect(),
            ways: Vec::new(),
            columns: Lists::default(),
            lists: Vec::new(),
            entries: Vec::new(),
            inner_entries: Vec::new(),
            shared: Lists::default(),
            row_nodes: Vec::new(),
            row_edges: Vec::new(),
            plain_steps: Vec::new(),
            inner_steps: Vec::new(),
            nested_steps: Vec::new(),
            rows: Lists::default(),
            base: Vec::new(),
        };
        let mut builder = Self {
            nodes,
            columns,
            rows: rows.unwrap_or(columns),
            is_listed,
            is_row_listed,
            kind: vec![Kind::Leaf; nodes.len()],
            n_simple: 0,
            group: vec![NONE; nodes.labels().len()],
            local: vec![NONE; nodes.len()],
            order: Vec::new(),
            content_of: vec![NONE; nodes.len()],
            content: Bags::new(nodes, &[])?,
            tally: vec![0; nodes.labels().len()],
            met: Vec::new(),
            times: vec![0; nodes.len()],
            items: Vec::new(),
            table: IdTable::default(),
            keys: Vec::new(),
            engine,
        };
        builder.classify()?;
        Ok(builder)
    }

    fn build(mut self, crew: &mut Crew<'_>) -> Result<Engine> {
        crew.pause()?;
        self.number_columns()?;
        self.collect_shared()?;
        crew.pause()?;
        self.build_lists(crew)?;
        self.build_rows(crew)?;
        self.count()?;
        Ok(self.engine)
    }

    /// Finds simple labels, numbers simple subtrees, and gathers what is below each edge.
    fn classify(&mut self) -> Result<()> {
        let mut known = vec![false; self.nodes.len()];
        let columns = listed(self.columns, &self.is_listed);
        let columns = columns.flat_map(|tree| self.columns.nodes(tree));
        let rows = listed(self.rows, &self.is_row_listed);
        for node in columns.chain(rows.flat_map(|tree| self.rows.nodes(tree))) {
            known[node.index()] = true;
        }
        let all = || {
            let all = known.iter().enumerate().filter(|(_, known)| **known);
            all.map(|(node, _)| NodeId(node as u32))
        };
        let nodes = self.nodes;
        let above_leaf =
            |node| matches!(nodes.children(node), &[c] if nodes.is_leaf(c));
        let mut is_simple = vec![true; nodes.labels().len()];
        for node in all().filter(|&n| !nodes.is_leaf(n) && !above_leaf(n)) {
            is_simple[nodes.label(node).index()] = false;
        }
        let mut edges = Vec::new();
        for node in all().filter(|&n| !nodes.is_leaf(n)) {
            self.kind[node.index()] = if is_simple[nodes.label(node).index()] {
                self.n_simple += 1;
                Kind::Simple(self.n_simple - 1)
            } else {
                for &child in nodes.children(node) {
                    let number = &mut self.content_of[child.index()];
                    if *number == NONE {
                        *number = edges.len() as u32;
                        edges.push(child);
                    }
                }
                Kind::Inner
            };
        }
        self.content = Bags::new(nodes, &edges)?;
        Ok(())
    }

    /// Numbers the columns' inner nodes within their labels, by first tree.
    fn number_columns(&mut self) -> Result<()> {
        let mut fresh = Vec::new();
        let mut sizes: Vec<u32> = Vec::new();
        for tree in listed(self.columns, &self.is_listed) {
            for &node in self.columns.nodes(tree) {
                let local = &mut self.local[node.index()];
                if self.kind[node.index()] != Kind::Inner || *local != NONE {
                    continue;
                }
                let group = &mut self.group[self.nodes.label(node).index()];
                if *group == NONE {
                    *group = sizes.len() as u32;
                    sizes.push(0);
                }
                *local = sizes[*group as usize];
                sizes[*group as usize] += 1;
                fresh.push((node, tree as u32));
            }
        }
        new_id(fresh.len(), "inner subtrees")?;
        self.order = vec![NodeId(0); fresh.len()];
        let mut edge_end = vec![0; sizes.len()];
        let mut columns = Filling::new(sizes, Column { end: 0, first: 0, slot: 0 });
        for (node, first) in fresh {
            let group = self.group[self.nodes.label(node).index()];
            let end: &mut usize = &mut edge_end[group as usize];
            *end += self.nodes.children(node).len();
            let end = new_id(*end, "edges")?;
            let place = columns.put(group, Column { end, first, slot: first });
            self.order[place] = node;
        }
        self.engine.columns = columns.done();
        Ok(())
    }

    /// Finds column subtrees that stand more than once, and lists where.
    fn collect_shared(&mut self) -> Result<()> {
        // Numbers among the shared, or NONE.
        let mut times = vec![NONE; self.nodes.len()];
        let mut n_shared = 0;
        let mut more = vec![0u32; self.nodes.len()];
        for tree in listed(self.columns, &self.is_listed) {
            for (node, count) in self.columns.iter(tree) {
                more[node.index()] = more[node.index()].saturating_add(count.min(2));
            }
        }
        for (&node, column) in self.order.iter().zip(&mut self.engine.columns.items) {
            if more[node.index()] > 1 {
                column.slot = !n_shared;
                times[node.index()] = n_shared;
                n_shared += 1;
            }
        }
        let mut lens = vec![0u32; n_shared as usize];
        let each = |f: &mut dyn FnMut(u32, u32, u32)| {
            for tree in listed(self.columns, &self.is_listed) {
                for (node, count) in self.columns.iter(tree) {
                    if times[node.index()] != NONE {
                        f(times[node.index()], tree as u32, count);
                    }
                }
            }
        };
        let mut total = 0;
        each(&mut |shared, _, _| {
            lens[shared as usize] += 1;
            total += 1;
        });
        new_id(total, "places of shared subtrees")?;
        let mut shared = Filling::new(lens, (0, 0));
        each(&mut |number, tree, count| {
            shared.put(number, (tree, count));
        });
        self.engine.shared = shared.done();
        Ok(())
    }

    /// Writes what stands at or below a node to `items`: labels, simple subtrees and
    /// inner nodes; of inner nodes labelled `end` only themselves, not what is below.
    fn read_content(&mut self, node: NodeId, end: Option<Label>) -> Result<()> {
        let (nodes, content) = (self.nodes, &self.content);
        let capacity = || Error::Capacity {
            what: "equal labels in one tree",
            limit: u64::from(u32::MAX),
        };
        self.items.clear();
        let n_labels = nodes.labels().len() as u32;
        let number = self.content_of[node.index()] as usize;
        self.times[node.index()] = 1;
        // Parents before children: a count is complete when it is passed on.
        for &below in content.nodes(number).iter().rev() {
            let count = std::mem::take(&mut self.times[below.index()]);
            if count == 0 {
                continue; // only below an `end`
            }
            let label = nodes.label(below);
            let tally = &mut self.tally[label.index()];
            if *tally == 0 {
                self.met.push(label);
            }
            *tally = tally.checked_add(count).ok_or_else(capacity)?;
            let kind = self.kind[below.index()];
            match kind {
                Kind::Leaf => {}
                Kind::Simple(number) => {
                    let symbol = n_labels + number;
                    self.items.push(Item { symbol, count, node: None });
                }
                Kind::Inner => {
                    let symbol = n_labels + self.n_simple + label.0;
                    self.items.push(Item { symbol, count, node: Some(below) });
                }
            }
            if kind != Kind::Inner || end != Some(label) {
                for child in nodes.children(below) {
                    self.times[child.index()] += count; // no more than `content` has
                }
            }
        }
        for label in self.met.drain(..) {
            let count = std::mem::take(&mut self.tally[label.index()]);
            self.items.push(Item { symbol: label.0, count, node: None });
        }
        Ok(())
    }

    /// The number of a list; a new one on `insert`, else NONE if there is none.
    fn list(&mut self, key: (u32, u32), insert: bool) -> Result<u32> {
        let hash = (mix(u64::from(key.0) << 32 | u64::from(key.1), 0) >> 8) as u32;
        let known = self.table.find(hash, |list| self.keys[list as usize] == key);
        if let Some(list) = known {
            return Ok(list);
        }
        if !insert {
            return Ok(NONE);
        }
        let list = new_id(self.keys.len(), "lists of edges")?;
        self.table.insert(hash, list);
        self.keys.push(key);
        Ok(list)
    }

    /// The lists, from all edges below column nodes, label by label.
    fn build_lists(&mut self, crew: &mut Crew<'_>) -> Result<()> {
        let mut lens: Vec<u32> = Vec::new();
        let mut of_item: Vec<u32> = Vec::new();
        for place in 0..self.order.len() {
            crew.pause()?;
            let node = self.order[place];
            let group = self.group[self.nodes.label(node).index()];
            for &child in self.nodes.children(node) {
                self.read_content(child, None)?;
                for number in 0..self.items.len() {
                    let list = self.list((group, self.items[number].symbol), true)?;
                    if list as usize == lens.len() {
                        lens.push(0);
                    }
                    lens[list as usize] += 1;
                    of_item.push(list);
                }
            }
        }
        new_id(of_item.len(), "pairs of edge and symbol below it")?;
        let n_labels = self.nodes.labels().len() as u32;
        let first_inner = n_labels + self.n_simple;
        let (mut plain, mut inner) = (0, 0);
        for (&(_, symbol), &len) in self.keys.iter().zip(&lens) {
            let decay = self.engine.decay;
            let (total, weight) = if symbol < n_labels {
                (&mut plain, decay)
            } else if symbol < first_inner {
                (&mut plain, decay * decay)
            } else {
                (&mut inner, 1.0)
            };
            // `end` grows as the list is filled.
            self.engine.lists.push(List { start: *total, end: *total, weight });
            *total += len;
        }
        self.engine.entries = vec![Entry::default(); plain as usize];
        self.engine.inner_entries = vec![InnerEntry::default(); inner as usize];
        let mut of_item = of_item.into_iter();
        let mut edge = 0;
        let mut group_before = NONE;
        for place in 0..self.order.len() {
            crew.pause()?;
            let node = self.order[place];
            let group = self.group[self.nodes.label(node).index()];
            if group != group_before {
                (group_before, edge) = (group, 0);
            }
            for &child in self.nodes.children(node) {
                self.read_content(child, None)?;
                for (item, list) in self.items.iter().zip(of_item.by_ref()) {
                    let list = &mut self.engine.lists[list as usize];
                    let place = list.end as usize;
                    list.end += 1;
                    let count = item.count;
                    if let Some(node) = item.node {
                        let node = self.local[node.index()];
                        self.engine.inner_entries[place] =
                            InnerEntry { edge, node, count };
                    } else {
                        self.engine.entries[place] = Entry { edge, count };
                    }
                }
                edge += 1;
            }
        }
        Ok(())
    }

    /// The rows' inner nodes, and which lists each of their children walks.
    fn build_rows(&mut self, crew: &mut Crew<'_>) -> Result<()> {
        let rows = self.rows;
        let mut number = vec![NONE; self.nodes.len()];
        // Entries that each row node walks, values that it computes.
        let mut costs: Vec<(u64, u64)> = Vec::new();
        let n_columns: usize =
            (0..self.columns.len()).map(|t| self.engine.pairs.n_nodes(t)).sum();
        for tree in 0..rows.len() {
            crew.pause()?;
            let mut cost = (0, 0);
            if self.is_row_listed[tree] {
                for (node, count) in rows.iter(tree) {
                    if self.kind[node.index()] != Kind::Inner {
                        continue;
                    }
                    if number[node.index()] == NONE {
                        number[node.index()] = self.engine.row_nodes.len() as u32;
                        costs.push(self.add_row_node(node, &number)?);
                    }
                    let number = number[node.index()];
                    self.engine.rows.push((number, count));
                    cost.0 += costs[number as usize].0;
                    cost.1 += costs[number as usize].1;
                }
            }
            self.engine.rows.close("inner subtrees of rows")?;
            let own = self.engine.pairs.n_nodes(self.engine.first_row + tree);
            let by_pairs = own as u64 * n_columns as u64;
            let by_lists =
                self.is_row_listed[tree] && cost.0 <= by_pairs && cost.1 <= MOST_VALUES;
            self.engine.ways.push(if by_lists { Way::Lists } else { Way::Pairs });
        }
        Ok(())
    }

    fn add_row_node(&mut self, node: NodeId, number: &[u32]) -> Result<(u64, u64)> {
        let label = self.nodes.label(node);
        let group = self.group[label.index()];
        let mut cost = (0, 0);
        if group != NONE {
            let columns = self.engine.columns.get(group as usize);
            let n_edges = columns.last().map_or(0, |q| u64::from(q.end));
            cost = (0, columns.len() as u64 + n_edges);
            for &child in self.nodes.children(node) {
                self.read_content(child, Some(label))?;
                cost.0 += n_edges;
                for at in 0..self.items.len() {
                    let Item { symbol, count, node } = self.items[at];
                    let inner = node.map(|node| number[node.index()]);
                    if let (Some(inner), Some(node)) = (inner, node)
                        && self.nodes.label(node) == label
                    {
                        self.engine.nested_steps.push((inner, count));
                        self.engine.row_nodes[inner as usize].is_nested = true;
                        cost.0 += n_edges;
                    }
                    let list = self.list((group, symbol), false)?;
                    if list == NONE {
                        continue;
                    }
                    let engine = &mut self.engine;
                    let List { start, end, .. } = engine.lists[list as usize];
                    cost.0 += u64::from(end - start);
                    if let Some(node) = inner {
                        engine.inner_steps.push(InnerStep { list, node, count });
                    } else {
                        engine.plain_steps.push((list, count));
                    }
                }
                self.engine.row_edges.push(RowEdge {
                    plain: new_id(self.engine.plain_steps.len(), "steps of rows")?,
                    inner: new_id(self.engine.inner_steps.len(), "steps of rows")?,
                    nested: new_id(self.engine.nested_steps.len(), "steps of rows")?,
                });
            }
        }
        let edges = new_id(self.engine.row_edges.len(), "edges of rows")?;
        self.engine.row_nodes.push(RowNode { group, edges, is_nested: false });
        Ok(cost)
    }

    /// Labels and simple subtrees of whole trees.
    fn count(&mut self) -> Result<()> {
        let n_labels = self.nodes.labels().len();
        let nodes = self.nodes;
        let label = |(node, count): (NodeId, u32)| Some((nodes.label(node).0, count));
        let simple = |(node, count): (NodeId, u32)| match self.kind[node.index()] {
            Kind::Simple(number) => Some((number, count)),
            _ => None,
        };
        let decay = self.engine.decay;
        self.engine.base = vec![
            self.count_symbols(decay, n_labels, label)?,
            self.count_symbols(decay * decay, self.n_simple as usize, simple)?,
        ];
        Ok(())
    }

    fn count_symbols(
        &self,
        weight: f64,
        n_symbols: usize,
        of: impl Fn((NodeId, u32)) -> Option<(u32, u32)>,
    ) -> Result<Products> {
        let mut tally = Tally::new(n_symbols);
        let mut count = |trees: &Bags| -> Result<Lists<(u32, u32)>> {
            let mut all = Lists::default();
            for tree in 0..trees.len() {
                for (symbol, count) in trees.iter(tree).filter_map(&of) {
                    tally.add(symbol, count);
                }
                all.extend(tally.drain());
                all.close("symbols of trees")?;
            }
            Ok(all)
        };
        let (columns, rows) = (count(self.columns)?, count(self.rows)?);
        let of = |tree: usize| columns.get(tree).iter().copied();
        Products::new(weight, n_symbols, of, columns.len(), rows)
    }
}

#[cfg(test)]
mod tests {

    use super::super::{Engine as _, trial};
    use super::*;
    use crate::Forest;
    use crate::kernel::{Kernel, naive, sample};

    /// As [`trial::check`].
    fn check(
        forest: &Forest,
        decay: f64,
        random: &mut sample::Random,
        expected: impl Fn(usize, usize) -> f64,
    ) -> usize {
        let engine = |columns: &Bags, rows: Option<&Bags>| {
            let mut watch = || Ok(());
            let crew = &mut Crew::alone(&mut watch);
            Engine::new(forest.nodes(), decay, columns, rows, crew).unwrap()
        };
        trial::check(forest, random, engine, expected)
    }

    #[test]
    fn rows_are_the_definition_in_any_order() {
        let mut random = sample::Random(3);
        let mut n_pairs = 0;
        for round in 0..45 {
            let decay = [0.05, 0.4, 1.0][round % 3];
            let kernel = Kernel::ElasticTree { decay };
            let forest = sample::forest(&mut random, 22, 11);
            let root = |tree: usize| forest.roots()[tree];
            n_pairs += check(&forest, decay, &mut random, |x, t| {
                naive::kernel(&kernel, forest.nodes(), root(x), root(t))
            });
        }
        assert!(n_pairs >= 10_000, "{n_pairs}");
    }

    #[test]
    fn rows_of_larger_trees_are_their_pairs() {
        let mut random = sample::Random(4);
        for round in 0..30 {
            let decay = [0.05, 0.4, 1.0][round % 3];
            // From 150 on, some chains are too deep for lists and wide nodes are not.
            let size = [20, 60, 150, 400][round % 4];
            let forest = sample::forest(&mut random, 30, size);
            let trees = elastic::Trees::new(forest.nodes(), decay, forest.roots());
            let trees = trees.unwrap();
            let scratch = std::cell::RefCell::new(elastic::Scratch::default());
            check(&forest, decay, &mut random, |x, t| {
                trees.pair::<f64>(x, t, &mut scratch.borrow_mut())
            });
        }
    }

    #[test]
    fn deep_trees_go_by_pairs_beside_flat_ones_in_lists() {
        let chain = "(A ".repeat(20_000) + "A" + &")".repeat(20_000);
        let forest =
            Forest::from_bracket_items(["(A (B b) (C c))", &*chain, "(A (B c) (C c))"])
                .unwrap();
        let bags = Bags::new(forest.nodes(), forest.roots()).unwrap();
        let mut watch = || Ok(());
        let crew = &mut Crew::alone(&mut watch);
        let engine = Engine::new(forest.nodes(), 0.4, &bags, None, crew).unwrap();
        assert_eq!(engine.apart, [1]);
        assert_eq!(engine.ways, [Way::Lists, Way::Pairs, Way::Lists]);
        let mut row = [0.0; 3];
        engine.row(2, &mut engine.scratch(), &mut row);
        // One A against 20,001 of them, the leaf included: λ each.
        assert!((row[1] - 0.4 * 20_001.0).abs() < 1e-6, "{}", row[1]);
    }

    #[test]
    fn values_beyond_floats_stay_in_their_columns() {
        let wide = String::from("(A") + &" (A A A A)".repeat(800) + ")";
        let forest =
            Forest::from_bracket_items(["(A (A A))", &*wide, "(A (B A) A)"]).unwrap();
        let bags = Bags::new(forest.nodes(), forest.roots()).unwrap();
        let mut watch = || Ok(());
        let crew = &mut Crew::alone(&mut watch);
        let engine =
            Engine::new(forest.nodes(), 1.0, &bags, Some(&bags), crew).unwrap();
        let mut scratch = engine.scratch();
        let mut row = [0.0; 3];
        engine.row(1, &mut scratch, &mut row);
        assert!(row[0].is_finite() && row[2].is_finite(), "{row:?}");
        assert_eq!(row[1], f64::INFINITY);
        engine.row(0, &mut scratch, &mut row);
        assert!(row.iter().all(|value| value.is_finite()), "{row:?}");
    }
}
