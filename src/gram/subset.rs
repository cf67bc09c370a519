//! Rows of the subset tree kernel.
//!
//! For a node v of the row's tree and a subtree u of the columns' trees with v's
//! production, C(v,u) = λ Π_j (1 + C(v_j, u_j)): λ, unless some child of v and the same
//! child of u share their production, too. So
//!
//! ```text
//! K(x,t) = Σ_{v in x, u in t, same production} C(v,u)
//!        = λ Σ_p count_x(p) count_t(p)  +  Σ_{v,u} (C(v,u) - λ)
//! ```
//!
//! The first sum is an integer dot product ([`Counts`]). The second needs only pairs
//! that share a child's production, and an index finds them: for each production p,
//! child position j and child production q the list of all subtrees u with them. A row
//! takes the nodes v of x, children first, starts with c_v[u] = λ throughout, and for
//! each inner child of v walks one list:
//!
//! ```text
//! for (u, child, t) in list:   d = c_v[u] c_child[child];   c_v[u] += d;   K[t] += d
//! ```
//!
//! As λ Π (1 + f_j) = λ + Σ_j f_j λ Π_{i<j} (1 + f_i), the additions to K telescope: one
//! pass, no subtraction, and nothing is visited that shares no child's production.
//!
//! Subtrees are numbered within their production by the first tree that has them, so
//! the trees up to x are a prefix of every list, and a symmetric matrix costs half. A
//! subtree that several trees share (or one tree has twice) collects what it would add
//! to each of them, and passes it on once, at the end of the row. What half of all
//! subtrees of a production would be visited for every time, a preterminal child that is
//! that frequent, is done beforehand ([`Patterns`]).
//!
//! # What was tried
//! Nanoseconds per pair of trees, the 5,452 questions of TREC, index and storing of the
//! whole matrix included, in the order in which it was done:
//!
//! | step | ns |
//! |---|---|
//! | lists, integer base, one buffer per node filled with 1 | 6.9 |
//! | without any bounds check (unsafe; given up for so little) | 6.6 |
//! | C instead of C/λ, walks as functions of their own, arrays of one size | 5.9 |
//! | mirrored values stored a cache line at a time | 5.3 |
//! | patterns; passes over counts fused | 5.2 |
//! | the root's values spared; counts by AVX2 | 4.8 |
//! | what the walks need in registers | 4.7 |
//! | less memory touched per call (a page fault costs 2 µs) | 4.4 |
//! | each list looked up once, subtrees numbered once | 4.2 |
//!
//! Of these some 1.3 are the storing of both halves; in packed form it is 3.1 in all.
//! Sorting the trees by structure, so that neighbours are alike and stretches of lists
//! become vector loops, was not built: undoing the permutation scatters the mirrored
//! half over the cache, which by estimate costs more than it saves.
//!
//! # Complexity
//! A row takes time by the matches of (production, child, child's production) between
//! its tree and the distinct subtrees of the columns; the index takes memory by the
//! distinct subtrees.

use std::collections::HashMap;

use super::counts::{Counts, CountsScratch, largest_square};
use crate::intern::{IdTable, mix, new_id};
use crate::kernel::{Bags, Number, Scaled};
use crate::{NodeId, Nodes, ProductionId, Result};

/// "No number": not among the columns, or a leaf.
const NONE: u32 = u32::MAX;

/// Values of a row's nodes that are kept whole (16 MB). A node of 100,000 different
/// children would otherwise keep as many arrays, each as long as there are such children;
/// beyond this, nodes keep only what they touched.
const MAX_LIVE: usize = 1 << 21;

/// One subtree in a list.
#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    /// Its number within its production.
    u: u32,
    /// Its child's number within the child's production.
    child: u32,
    /// The tree it stands in; if in several (or twice), the complement of its number
    /// among those.
    slot: u32,
}

/// An inner child of a row's node.
#[derive(Debug, Clone, Copy)]
struct Edge {
    /// The list of (production, position, child's production), or NONE if no column's
    /// subtree is in it.
    list: u32,
    /// The child among the row nodes.
    child: u32,
}

/// A distinct inner subtree of the rows' trees.
#[derive(Debug, Clone, Copy)]
struct RowNode {
    /// Its production among the columns', or NONE.
    group: u32,
    /// Where its edges end.
    edges: u32,
    /// The pattern its values start from, or NONE.
    pattern: u32,
    /// Without inner children.
    is_preterminal: bool,
}

/// The index of some trees (columns), and what is needed of others (rows) to walk it.
#[derive(Debug)]
pub(crate) struct Engine {
    decay: f64,
    lists: Vec<Entry>,
    list_ends: Vec<u32>,
    /// Per production: how many subtrees.
    group_sizes: Vec<u32>,
    largest_group: u32,
    max_live: usize,
    /// Column subtrees in the order of their first tree: production, then per inner
    /// child the list that it is in.
    column_groups: Vec<u32>,
    column_edges: Vec<u32>,
    column_edge_ends: Vec<u32>,
    /// Per tree: where its new column subtrees end.
    tree_ends: Vec<u32>,
    /// Subtrees of several trees: the trees with how often they stand there.
    shared_ends: Vec<u32>,
    shared: Vec<(u32, u32)>,
    row_nodes: Vec<RowNode>,
    edges: Vec<Edge>,
    /// Rows: the distinct inner subtrees of each tree, children first, with counts.
    row_ends: Vec<u32>,
    row_items: Vec<(u32, u32)>,
    /// Rows: productions of each tree, with counts.
    base_ends: Vec<u32>,
    base_items: Vec<(u32, u32)>,
    base: Counts,
    patterns: Patterns,
    leaves: Option<Leaves>,
}

/// Long lists of preterminal children, done beforehand.
///
/// Half of all `NP -> DT NN` have `(DT the)`. Walking that list for each of them would
/// visit half of all others every time, to multiply the same 1 + λ to the same values. So
/// a node with such a child starts from these values, ready made, and what the walk
/// would have added to K is λ² times an integer dot product, like the base.
#[derive(Debug)]
struct Patterns {
    /// Per list its pattern, or NONE; per pattern its list.
    of_list: Vec<u32>,
    lists: Vec<u32>,
    /// Values, and where those of a pattern start.
    values: Vec<f64>,
    starts: Vec<usize>,
    /// Rows: patterns of each tree's nodes, with counts.
    row_ends: Vec<u32>,
    row_items: Vec<(u32, u32)>,
    counts: Counts,
}

impl Patterns {
    /// A list has a pattern if it has one in so many subtrees of its production: walking
    /// an entry costs some fifteen times what copying a value does.
    const SHARE: u32 = 12;
    /// ... and at least so many entries.
    const LEAST: u32 = 32;

    fn values(&self, pattern: u32) -> &[f64] {
        &self.values[self.starts[pattern as usize]..]
    }
}

/// Equal leaves, for `leaf_weight`.
#[derive(Debug)]
struct Leaves {
    weight: f64,
    ends: Vec<u32>,
    items: Vec<(u32, u32)>,
    counts: Counts,
}

/// What one worker keeps from row to row.
#[derive(Debug)]
pub(crate) struct Scratch<N> {
    /// How far the columns are known: trees before it.
    revealed: usize,
    /// Per production, per list: subtrees that stand in those trees.
    group_len: Vec<u32>,
    list_len: Vec<u32>,
    /// Per node of the tree at hand: C(v, ...), as long as a parent needs it.
    vals: Vec<Vec<N>>,
    spare: Spare<N>,
    /// The same for nodes that touched few, once there are too many of the others.
    folded: HashMap<u32, Vec<(u32, N)>>,
    /// Per row node: parents that have not been computed, and its place in the tree.
    parents: Vec<(u32, u32)>,
    /// Per shared subtree: what it adds to each of its trees; zero between rows.
    extra: Vec<N>,
    touched: Vec<u32>,
    base: CountsScratch,
    patterns: CountsScratch,
    leaves: CountsScratch,
}

/// Arrays of values that no node needs at the moment.
#[derive(Debug)]
struct Spare<N> {
    /// λ throughout.
    clean: Vec<Vec<N>>,
    /// With values of old: for nodes that start from a pattern.
    used: Vec<Vec<N>>,
}

impl Engine {
    /// Indexes the trees of `columns` for rows from `rows` (None: from the same trees).
    pub(crate) fn new(
        nodes: &Nodes,
        decay: f64,
        leaf_weight: f64,
        columns: &Bags,
        rows: Option<&Bags>,
    ) -> Result<Self> {
        Builder::new(nodes, decay, columns)?.finish(leaf_weight, rows)
    }
}

impl super::Engine for Engine {
    type Scratch = Scratch<f64>;

    fn scratch(&self) -> Scratch<f64> {
        self.new_scratch()
    }

    fn row(&self, x: usize, scratch: &mut Scratch<f64>, row: &mut [f64]) {
        self.base_row(x, scratch, row);
        self.add_corrections(x, scratch, row);
    }
}

impl Engine {
    fn new_scratch<N: Number>(&self) -> Scratch<N> {
        Scratch {
            revealed: 0,
            group_len: vec![0; self.group_sizes.len()],
            list_len: vec![0; self.list_ends.len()],
            vals: Vec::new(),
            spare: Spare { clean: Vec::new(), used: Vec::new() },
            folded: HashMap::new(),
            parents: vec![(0, 0); self.row_nodes.len()],
            extra: vec![N::of(0.0); self.shared_ends.len() - 1],
            touched: Vec::new(),
            base: self.base.scratch(),
            patterns: self.patterns.counts.scratch(),
            leaves: self
                .leaves
                .as_ref()
                .map_or_else(CountsScratch::default, |l| l.counts.scratch()),
        }
    }

    /// The kernel of row `x` and column 0, of an index of one tree each: for trees so
    /// large that pairs of nodes are too many, or values too large for floats.
    pub(crate) fn single(&self) -> Scaled {
        let mut scratch = self.new_scratch();
        let mut base = [0.0];
        self.base_row(0, &mut scratch, &mut base);
        let mut row = [Scaled::of(base[0])];
        self.add_corrections(0, &mut scratch, &mut row);
        row[0]
    }

    fn base_row<N: Number>(&self, x: usize, scratch: &mut Scratch<N>, row: &mut [f64]) {
        let base = slice(&self.base_items, &self.base_ends, x).iter().copied();
        self.base.sum(base, &mut scratch.base, row.len());
        let patterns = &self.patterns;
        let own = slice(&patterns.row_items, &patterns.row_ends, x).iter().copied();
        patterns.counts.sum(own, &mut scratch.patterns, row.len());
        let square = self.decay * self.decay;
        scratch.base.write(self.decay, &scratch.patterns, square, row);
        if let Some(leaves) = &self.leaves {
            let own = slice(&leaves.items, &leaves.ends, x).iter().copied();
            leaves.counts.add_to(own, leaves.weight, &mut scratch.leaves, row);
        }
    }

    fn add_corrections<N: Number>(
        &self,
        x: usize,
        scratch: &mut Scratch<N>,
        row: &mut [N],
    ) {
        self.reveal(row.len(), scratch);
        self.corrections(x, scratch, row);
        for &number in &scratch.touched {
            let extra =
                std::mem::replace(&mut scratch.extra[number as usize], N::of(0.0));
            let start = self.shared_ends[number as usize] as usize;
            let end = self.shared_ends[number as usize + 1] as usize;
            for &(tree, count) in &self.shared[start..end] {
                let Some(value) = row.get_mut(tree as usize) else { break };
                *value = *value + extra * N::of(f64::from(count));
            }
        }
        scratch.touched.clear();
    }

    /// Counts the subtrees of the first `end` trees. Rows come in ascending order, so
    /// this is a step from the last row; for another order it starts again.
    fn reveal<N>(&self, end: usize, scratch: &mut Scratch<N>) {
        if end < scratch.revealed {
            scratch.group_len.fill(0);
            scratch.list_len.fill(0);
            scratch.revealed = 0;
        }
        let start = scratch.revealed.checked_sub(1).map_or(0, |t| self.tree_ends[t]);
        let stop = end.checked_sub(1).map_or(0, |t| self.tree_ends[t]);
        for &group in &self.column_groups[start as usize..stop as usize] {
            scratch.group_len[group as usize] += 1;
        }
        let edge = |subtree: u32| {
            subtree.checked_sub(1).map_or(0, |s| self.column_edge_ends[s as usize])
                as usize
        };
        for &list in &self.column_edges[edge(start)..edge(stop)] {
            scratch.list_len[list as usize] += 1;
        }
        scratch.revealed = end;
    }

    fn corrections<N: Number>(
        &self,
        x: usize,
        scratch: &mut Scratch<N>,
        row: &mut [N],
    ) {
        let decay = N::of(self.decay);
        let Scratch { vals, spare, folded, parents, extra, touched, .. } = scratch;
        let (group_len, list_len) = (&scratch.group_len, &scratch.list_len);
        let mut live = 0;
        let items = slice(&self.row_items, &self.row_ends, x);
        if vals.len() < items.len() {
            vals.resize_with(items.len(), Vec::new);
        }
        for (place, &(number, _)) in items.iter().enumerate() {
            parents[number as usize] = (0, place as u32);
            for edge in self.edges(number) {
                parents[edge.child as usize].0 += 1;
            }
        }
        for (place, &(number, count)) in items.iter().enumerate() {
            let node = self.row_nodes[number as usize];
            if node.is_preterminal || node.group == NONE {
                continue;
            }
            let edges = self.edges(number);
            if let [Edge { list, child }] = *edges
                && parents[number as usize].0 == 0
                && list != NONE
                && !vals[parents[child as usize].1 as usize].is_empty()
            {
                // A root with one inner child, `(ROOT (S ...))`: nobody asks for its
                // values. On question trees this is half of all visits.
                let start = self.list_start(list) as usize;
                let list = &self.lists[start..start + list_len[list as usize] as usize];
                let count = decay * N::of(f64::from(count));
                let mut sink = Sink { row, extra, touched, count };
                let child = &vals[parents[child as usize].1 as usize];
                walk_root(list, child, &mut sink);
                continue;
            }
            let mut own = self.start(node, group_len, spare);
            for edge in edges {
                let child = edge.child as usize;
                if edge.list != NONE && !self.is_done(node, edge.list) {
                    let start = self.list_start(edge.list) as usize;
                    let len = list_len[edge.list as usize] as usize;
                    let list = &self.lists[start..start + len];
                    let count = N::of(f64::from(count));
                    let mut sink = Sink { row, extra, touched, count };
                    if self.row_nodes[child].is_preterminal {
                        walk_preterminal(list, &mut own, decay, &mut sink);
                    } else if let Some(few) = folded.get(&edge.child) {
                        let child = self.row_nodes[child];
                        let mut all = self.start(child, group_len, spare);
                        for &(u, c) in few {
                            all[u as usize] = c;
                        }
                        walk(list, &mut own, &all, &mut sink);
                        self.give_back(edge.child, all, group_len, list_len, spare);
                    } else {
                        let child = &vals[parents[child].1 as usize];
                        walk(list, &mut own, child, &mut sink);
                    }
                }
                let (left, child) = &mut parents[child];
                *left -= 1;
                if *left == 0 {
                    let used = std::mem::take(&mut vals[*child as usize]);
                    live -= usize::from(!used.is_empty());
                    self.give_back(edge.child, used, group_len, list_len, spare);
                    if !folded.is_empty() {
                        folded.remove(&edge.child);
                    }
                }
            }
            if live * self.largest_group as usize > self.max_live
                && self.touched(number, list_len) < group_len[node.group as usize] / 4
            {
                let walked = self.lists_of(number, list_len).flatten();
                let few =
                    walked.map(|entry| (entry.u, own[entry.u as usize])).collect();
                self.give_back(number, own, group_len, list_len, spare);
                folded.insert(number, few);
                continue;
            }
            live += 1;
            vals[place] = own;
        }
        folded.clear();
        // The root has no parent, nor has what stands below a production that no column
        // has.
        for (place, &(number, _)) in items.iter().enumerate() {
            let used = std::mem::take(&mut vals[place]);
            self.give_back(number, used, group_len, list_len, spare);
        }
    }

    /// Keeps a row node's values for another node: λ again, all of them or those that its
    /// lists touched, whichever is less; as they are if they came from a pattern.
    fn give_back<N: Number>(
        &self,
        number: u32,
        mut used: Vec<N>,
        group_len: &[u32],
        list_len: &[u32],
        spare: &mut Spare<N>,
    ) {
        let decay = N::of(self.decay);
        if used.is_empty() {
            return;
        }
        let node = self.row_nodes[number as usize];
        if node.pattern != NONE {
            return spare.used.push(used);
        }
        let len = group_len[node.group as usize];
        if self.touched(number, list_len) < len / 4 {
            for entry in self.lists_of(number, list_len).flatten() {
                used[entry.u as usize] = decay;
            }
        } else {
            used[..len as usize].fill(decay);
        }
        spare.clean.push(used);
    }

    /// The values that a node starts from: its pattern if it has one, else λ.
    fn start<N: Number>(
        &self,
        node: RowNode,
        group_len: &[u32],
        spare: &mut Spare<N>,
    ) -> Vec<N> {
        // All arrays are of one size: growing them as groups grow cost a tenth of the time.
        let fresh = || vec![N::of(self.decay); self.largest_group as usize];
        if node.pattern == NONE {
            return spare.clean.pop().unwrap_or_else(fresh);
        }
        let mut own = spare.used.pop().unwrap_or_else(fresh);
        let len = group_len[node.group as usize] as usize;
        let values = self.patterns.values(node.pattern);
        for (own, &value) in own[..len].iter_mut().zip(values) {
            *own = N::of(value);
        }
        own
    }

    /// Whether the pattern that a node starts from is that of this list.
    #[inline]
    fn is_done(&self, node: RowNode, list: u32) -> bool {
        node.pattern != NONE && self.patterns.lists[node.pattern as usize] == list
    }

    /// The lists that a row node walks, as far as they are known.
    fn lists_of(
        &self,
        number: u32,
        list_len: &[u32],
    ) -> impl Iterator<Item = &[Entry]> {
        let node = self.row_nodes[number as usize];
        let walked = move |e: &&Edge| e.list != NONE && !self.is_done(node, e.list);
        self.edges(number).iter().filter(walked).map(|e| {
            let start = self.list_start(e.list) as usize;
            &self.lists[start..start + list_len[e.list as usize] as usize]
        })
    }

    /// How many entries they have in all.
    fn touched(&self, number: u32, list_len: &[u32]) -> u32 {
        self.lists_of(number, list_len).map(|list| list.len() as u32).sum()
    }

    #[inline]
    fn edges(&self, number: u32) -> &[Edge] {
        let start =
            number.checked_sub(1).map_or(0, |n| self.row_nodes[n as usize].edges);
        &self.edges[start as usize..self.row_nodes[number as usize].edges as usize]
    }

    #[inline]
    fn list_start(&self, list: u32) -> u32 {
        list.checked_sub(1).map_or(0, |l| self.list_ends[l as usize])
    }
}

/// Where corrections go: to a tree, or to a subtree of several trees.
struct Sink<'a, N> {
    row: &'a mut [N],
    extra: &'a mut [N],
    touched: &'a mut Vec<u32>,
    /// How often the row's node stands in its tree.
    count: N,
}

/// Adds to what a subtree of several trees passes on to them at the end of the row.
#[inline(never)]
fn add_shared<N: Number>(slot: u32, d: N, extra: &mut [N], touched: &mut Vec<u32>) {
    let number = !slot;
    let value = &mut extra[number as usize];
    if *value == N::of(0.0) {
        touched.push(number);
    }
    *value = *value + d;
}

/// Walks a list: `own` is C of the row's node, as far as its children were taken, and
/// `child` that of its child. Functions of their own, so that what the loop needs stays
/// in registers.
#[inline(never)]
fn walk<N: Number>(list: &[Entry], own: &mut [N], child: &[N], sink: &mut Sink<'_, N>) {
    let (row, count) = (&mut *sink.row, sink.count);
    for entry in list {
        let c = &mut own[entry.u as usize];
        let d = *c * child[entry.child as usize];
        *c = *c + d;
        match row.get_mut(entry.slot as usize) {
            Some(value) => *value = *value + count * d,
            None => add_shared(entry.slot, count * d, sink.extra, sink.touched),
        }
    }
}

/// As [`walk`], for a root without other inner children.
#[inline(never)]
fn walk_root<N: Number>(list: &[Entry], child: &[N], sink: &mut Sink<'_, N>) {
    let (row, count) = (&mut *sink.row, sink.count);
    for entry in list {
        let d = count * child[entry.child as usize];
        match row.get_mut(entry.slot as usize) {
            Some(value) => *value = *value + d,
            None => add_shared(entry.slot, d, sink.extra, sink.touched),
        }
    }
}

/// As [`walk`], for a child that is a preterminal: its C is λ throughout.
#[inline(never)]
fn walk_preterminal<N: Number>(
    list: &[Entry],
    own: &mut [N],
    decay: N,
    sink: &mut Sink<'_, N>,
) {
    let (row, count) = (&mut *sink.row, sink.count);
    for entry in list {
        let c = &mut own[entry.u as usize];
        let d = *c * decay;
        *c = *c + d;
        match row.get_mut(entry.slot as usize) {
            Some(value) => *value = *value + count * d,
            None => add_shared(entry.slot, count * d, sink.extra, sink.touched),
        }
    }
}

/// The items of number `index`, where lists end at `ends`.
#[inline]
fn slice<'a, T>(items: &'a [T], ends: &[u32], index: usize) -> &'a [T] {
    let start = index.checked_sub(1).map_or(0, |i| ends[i]);
    &items[start as usize..ends[index] as usize]
}

/// A column subtree while the index is built.
#[derive(Debug, Clone, Copy)]
struct Column {
    group: u32,
    /// Number within the production.
    local: u32,
    /// A tree, or the complement of a number among the shared.
    slot: u32,
    /// Without inner children.
    is_preterminal: bool,
}

struct Builder<'a> {
    nodes: &'a Nodes,
    columns: &'a Bags,
    engine: Engine,
    /// By node: its number among the columns' subtrees.
    number: Vec<u32>,
    column: Vec<Column>,
    /// Per tree: the numbers of its subtrees, with counts.
    ends: Vec<u32>,
    items: Vec<(u32, u32)>,
    /// By production: its number among the columns'.
    group: Vec<u32>,
    list_table: IdTable,
    /// Per tree: the patterns of its subtrees, with counts.
    column_patterns: (Vec<u32>, Vec<(u32, u32)>),
    /// Per list: its key (production, position and child's production as hashed).
    list_keys: Vec<(u64, u32)>,
}

impl<'a> Builder<'a> {
    fn new(nodes: &'a Nodes, decay: f64, columns: &'a Bags) -> Result<Self> {
        let counts = |_: usize| std::iter::empty();
        let engine = Engine {
            decay,
            lists: Vec::new(),
            list_ends: Vec::new(),
            group_sizes: Vec::new(),
            largest_group: 0,
            max_live: MAX_LIVE,
            column_groups: Vec::new(),
            column_edges: Vec::new(),
            column_edge_ends: Vec::new(),
            tree_ends: Vec::new(),
            shared_ends: vec![0],
            shared: Vec::new(),
            row_nodes: Vec::new(),
            edges: Vec::new(),
            row_ends: Vec::new(),
            row_items: Vec::new(),
            base_ends: Vec::new(),
            base_items: Vec::new(),
            base: Counts::new(0, counts, 0, 0.0)?,
            patterns: Patterns {
                of_list: Vec::new(),
                lists: Vec::new(),
                values: Vec::new(),
                starts: Vec::new(),
                row_ends: Vec::new(),
                row_items: Vec::new(),
                counts: Counts::new(0, counts, 0, 0.0)?,
            },
            leaves: None,
        };
        let mut builder = Self {
            nodes,
            columns,
            engine,
            number: vec![NONE; nodes.len()],
            column: Vec::with_capacity(nodes.len()),
            ends: Vec::with_capacity(columns.len()),
            items: Vec::new(),
            group: vec![NONE; nodes.n_productions()],
            list_table: IdTable::default(),
            list_keys: Vec::new(),
            column_patterns: (Vec::new(), Vec::new()),
        };
        builder.number_subtrees()?;
        builder.collect_shared();
        builder.build_lists()?;
        builder.find_patterns()?;
        Ok(builder)
    }

    /// Numbers the columns' subtrees by first tree, children first.
    fn number_subtrees(&mut self) -> Result<()> {
        for tree in 0..self.columns.len() {
            for (node, count) in self.columns.iter(tree) {
                let Some(production) = self.nodes.production(node) else { continue };
                let known = self.number[node.index()];
                if known == NONE {
                    let number = self.add_column(node, production, tree)?;
                    self.items.push((number, count));
                } else {
                    self.items.push((known, count));
                }
            }
            self.ends.push(new_id(self.items.len(), "subtrees, tree by tree")?);
            self.engine.tree_ends.push(self.column.len() as u32);
        }
        Ok(())
    }

    fn add_column(
        &mut self,
        node: NodeId,
        production: ProductionId,
        tree: usize,
    ) -> Result<u32> {
        let group = &mut self.group[production.index()];
        if *group == NONE {
            *group = self.engine.group_sizes.len() as u32;
            self.engine.group_sizes.push(0);
        }
        let size = &mut self.engine.group_sizes[*group as usize];
        let number = new_id(self.column.len(), "subtrees")?;
        self.number[node.index()] = number;
        self.engine.column_groups.push(*group);
        let inner = |child: &NodeId| self.number[child.index()] != NONE;
        let is_preterminal = !self.nodes.children(node).iter().any(inner);
        let slot = tree as u32;
        self.column.push(Column { group: *group, local: *size, slot, is_preterminal });
        *size += 1;
        Ok(number)
    }

    /// Finds subtrees that stand more than once, and lists where. Preterminals are left
    /// out: no list has them.
    fn collect_shared(&mut self) {
        let mut times = vec![0u32; self.column.len()];
        for &(number, count) in &self.items {
            times[number as usize] += if count > 1 { 2 } else { 1 };
        }
        // From here on: the number among the shared, or NONE.
        let mut ends = vec![0u32];
        for (column, times) in self.column.iter_mut().zip(&mut times) {
            if *times > 1 && !column.is_preterminal {
                let number = ends.len() as u32 - 1;
                column.slot = !number;
                ends.push(*times); // at least as many as there are trees
                *times = number;
            } else {
                *times = NONE;
            }
        }
        let shared_of = times;
        let mut at = Vec::with_capacity(ends.len());
        let mut end = 0;
        for len in &mut ends {
            end += *len;
            at.push(end);
            *len = end;
        }
        let mut items = vec![(NONE, 0); end as usize];
        for tree in 0..self.ends.len() {
            for &(number, count) in slice(&self.items, &self.ends, tree) {
                let shared = shared_of[number as usize];
                if shared != NONE {
                    let at = &mut at[shared as usize];
                    items[*at as usize] = (tree as u32, count);
                    *at += 1;
                }
            }
        }
        self.engine.shared_ends = ends;
        self.engine.shared = items;
    }

    /// The id of a list; a new one on `insert`.
    fn list(
        &mut self,
        group: u32,
        position: usize,
        child: u32,
        insert: bool,
    ) -> Result<u32> {
        let key = (u64::from(group) << 32 | u64::from(child), position as u32);
        // Two steps: one would let ascending children at ascending positions collide.
        let hash = (mix(mix(1, key.0), u64::from(key.1)) >> 8) as u32;
        if let Some(list) =
            self.list_table.find(hash, |l| self.list_keys[l as usize] == key)
        {
            return Ok(list);
        }
        if !insert {
            return Ok(NONE);
        }
        let list = new_id(self.list_keys.len(), "child lists")?;
        self.list_table.insert(hash, list);
        self.list_keys.push(key);
        Ok(list)
    }

    fn build_lists(&mut self) -> Result<()> {
        // The columns in the order of their numbers.
        let mut order = vec![NodeId(0); self.column.len()];
        for (node, &number) in self.number.iter().enumerate() {
            if number != NONE {
                order[number as usize] = NodeId(node as u32);
            }
        }
        let mut children = Vec::new();
        for (number, &node) in order.iter().enumerate() {
            let group = self.column[number].group;
            for (position, child) in self.nodes.children(node).iter().enumerate() {
                let child = self.number[child.index()];
                if child != NONE {
                    let child_group = self.column[child as usize].group;
                    let list = self.list(group, position, child_group, true)?;
                    self.engine.column_edges.push(list);
                    children.push(child);
                }
            }
            let end = new_id(self.engine.column_edges.len(), "edges")?;
            self.engine.column_edge_ends.push(end);
        }
        let mut ends = vec![0u32; self.list_keys.len()];
        for &list in &self.engine.column_edges {
            ends[list as usize] += 1;
        }
        let mut end = 0;
        let mut at: Vec<u32> = Vec::with_capacity(ends.len());
        for len in &mut ends {
            at.push(end);
            end += *len;
            *len = end;
        }
        let mut lists = vec![Entry::default(); end as usize];
        let mut edge = 0;
        for (number, column) in self.column.iter().enumerate() {
            let last = self.engine.column_edge_ends[number] as usize;
            while edge < last {
                let place = &mut at[self.engine.column_edges[edge] as usize];
                let child = self.column[children[edge] as usize].local;
                lists[*place as usize] =
                    Entry { u: column.local, child, slot: column.slot };
                *place += 1;
                edge += 1;
            }
        }
        self.engine.lists = lists;
        self.engine.list_ends = ends;
        Ok(())
    }

    /// Chooses lists of preterminal children that are long for their production.
    fn find_patterns(&mut self) -> Result<()> {
        let mut has_preterminal = vec![false; self.engine.group_sizes.len()];
        for column in self.column.iter().filter(|column| column.is_preterminal) {
            has_preterminal[column.group as usize] = true;
        }
        let engine = &mut self.engine;
        let patterns = &mut engine.patterns;
        patterns.of_list = vec![NONE; self.list_keys.len()];
        for (list, &(key, _)) in self.list_keys.iter().enumerate() {
            let (group, child_group) = ((key >> 32) as usize, key as u32 as usize);
            let start = list.checked_sub(1).map_or(0, |l| engine.list_ends[l]);
            let len = engine.list_ends[list] - start;
            let size = engine.group_sizes[group];
            let is_long = len >= Patterns::LEAST && len >= size / Patterns::SHARE;
            if !is_long || !has_preterminal[child_group] {
                continue;
            }
            patterns.of_list[list] = patterns.lists.len() as u32;
            patterns.lists.push(list as u32);
            let first = patterns.values.len();
            patterns.starts.push(first);
            patterns.values.resize(first + size as usize, engine.decay);
            for entry in &engine.lists[start as usize..engine.list_ends[list] as usize]
            {
                let value = &mut patterns.values[first + entry.u as usize];
                *value += *value * engine.decay;
            }
        }
        // Every pattern that a column's subtree is in counts for its trees.
        let (mut ends, mut items) = (Vec::new(), Vec::new());
        let mut tally = vec![0u32; patterns.lists.len()];
        let mut met = Vec::new();
        let lists = |number: u32| {
            slice(&engine.column_edges, &engine.column_edge_ends, number as usize)
        };
        for tree in 0..self.ends.len() {
            for &(number, count) in slice(&self.items, &self.ends, tree) {
                for &list in lists(number) {
                    let pattern = patterns.of_list[list as usize];
                    if pattern != NONE {
                        if tally[pattern as usize] == 0 {
                            met.push(pattern);
                        }
                        tally[pattern as usize] += count;
                    }
                }
            }
            items.extend(
                met.drain(..).map(|p| (p, std::mem::take(&mut tally[p as usize]))),
            );
            ends.push(new_id(items.len(), "pairs of tree and pattern")?);
        }
        self.column_patterns = (ends, items);
        Ok(())
    }

    fn finish(mut self, leaf_weight: f64, rows: Option<&Bags>) -> Result<Engine> {
        match rows {
            None => self.take_columns_as_rows()?,
            Some(rows) => self.number_rows(rows)?,
        }
        self.list_row_productions()?;
        self.engine.largest_group =
            self.engine.group_sizes.iter().copied().max().unwrap_or(0);
        self.count_productions(rows.is_none())?;
        if leaf_weight > 0.0 {
            let rows = rows.unwrap_or(self.columns);
            self.engine.leaves = Some(self.count_leaves(leaf_weight, rows)?);
        }
        Ok(self.engine)
    }

    /// Rows that are the columns: nodes have the columns' numbers.
    fn take_columns_as_rows(&mut self) -> Result<()> {
        let mut order = vec![NodeId(0); self.column.len()];
        for (node, &number) in self.number.iter().enumerate() {
            if number != NONE {
                order[number as usize] = NodeId(node as u32);
            }
        }
        for (number, node) in order.into_iter().enumerate() {
            self.add_row_node(node, self.column[number].group, None)?;
        }
        self.engine.row_items = std::mem::take(&mut self.items);
        self.engine.row_ends = std::mem::take(&mut self.ends);
        Ok(())
    }

    /// Rows that are other trees: their nodes have numbers of their own.
    fn number_rows(&mut self, rows: &Bags) -> Result<()> {
        let mut numbers = vec![NONE; self.nodes.len()];
        for tree in 0..rows.len() {
            for (node, count) in rows.iter(tree) {
                let Some(production) = self.nodes.production(node) else { continue };
                if numbers[node.index()] == NONE {
                    numbers[node.index()] = self.engine.row_nodes.len() as u32;
                    self.add_row_node(
                        node,
                        self.group[production.index()],
                        Some(&numbers),
                    )?;
                }
                self.engine.row_items.push((numbers[node.index()], count));
            }
            self.engine.row_ends.push(new_id(self.engine.row_items.len(), "subtrees")?);
        }
        Ok(())
    }

    /// What rows' trees have of productions and of patterns.
    fn list_row_productions(&mut self) -> Result<()> {
        let engine = &mut self.engine;
        let mut tally = vec![0u32; engine.group_sizes.len()];
        let mut met = Vec::new();
        for tree in 0..engine.row_ends.len() {
            for &(number, count) in slice(&engine.row_items, &engine.row_ends, tree) {
                let RowNode { group, pattern, .. } = engine.row_nodes[number as usize];
                if pattern != NONE {
                    engine.patterns.row_items.push((pattern, count));
                }
                if group != NONE {
                    if tally[group as usize] == 0 {
                        met.push(group);
                    }
                    tally[group as usize] += count;
                }
            }
            let counted =
                met.drain(..).map(|g| (g, std::mem::take(&mut tally[g as usize])));
            engine.base_items.extend(counted);
            engine.base_ends.push(new_id(engine.base_items.len(), "productions")?);
            engine.patterns.row_ends.push(engine.patterns.row_items.len() as u32);
        }
        Ok(())
    }

    fn add_row_node(
        &mut self,
        node: NodeId,
        group: u32,
        row_number: Option<&Vec<u32>>,
    ) -> Result<()> {
        let nodes = self.nodes;
        let first = self.engine.edges.len();
        let (mut longest, mut pattern) = (0, NONE);
        for (position, child) in nodes.children(node).iter().enumerate() {
            let Some(production) = nodes.production(*child) else { continue };
            let (number, list) = if let Some(numbers) = row_number {
                let child_group = self.group[production.index()];
                let list = if group == NONE || child_group == NONE {
                    NONE
                } else {
                    self.list(group, position, child_group, false)?
                };
                (numbers[child.index()], list)
            } else {
                // The columns' nodes have the same numbers, and edges in the same order.
                let list = self.engine.column_edges[self.engine.edges.len()];
                (self.number[child.index()], list)
            };
            self.engine.edges.push(Edge { list, child: number });
            // The longest of the patterns that fit saves most.
            let fits =
                list != NONE && self.engine.row_nodes[number as usize].is_preterminal;
            if fits && self.engine.patterns.of_list[list as usize] != NONE {
                let start = list
                    .checked_sub(1)
                    .map_or(0, |l| self.engine.list_ends[l as usize]);
                let len = self.engine.list_ends[list as usize] - start;
                if len > longest {
                    (longest, pattern) =
                        (len, self.engine.patterns.of_list[list as usize]);
                }
            }
        }
        self.engine.row_nodes.push(RowNode {
            group,
            edges: new_id(self.engine.edges.len(), "edges")?,
            pattern,
            is_preterminal: self.engine.edges.len() == first,
        });
        Ok(())
    }

    fn count_productions(&mut self, symmetric: bool) -> Result<()> {
        let n = self.columns.len();
        let engine = &mut self.engine;
        let largest = if symmetric {
            0.0
        } else {
            largest_square(&engine.base_ends, &engine.base_items)
        };
        let tallied;
        let (ends, items) = if symmetric {
            (&self.engine.base_ends, &self.engine.base_items)
        } else {
            tallied = self.tally(self.columns);
            (&tallied.0, &tallied.1)
        };
        let of = |tree| slice(items, ends, tree).iter().copied();
        let n_groups = self.engine.group_sizes.len();
        let base = Counts::new(n_groups, of, n, largest)?;
        let engine = &mut self.engine;
        engine.base = base;
        let patterns = &mut engine.patterns;
        let largest = if symmetric {
            0.0
        } else {
            largest_square(&patterns.row_ends, &patterns.row_items)
        };
        let (ends, items) = &self.column_patterns;
        let of = |tree| slice(items, ends, tree).iter().copied();
        patterns.counts = Counts::new(patterns.lists.len(), of, n, largest)?;
        Ok(())
    }

    /// Productions of each tree with their counts.
    fn tally(&self, trees: &Bags) -> (Vec<u32>, Vec<(u32, u32)>) {
        let mut tally = vec![0u32; self.engine.group_sizes.len()];
        let (mut ends, mut items, mut met) = (Vec::new(), Vec::new(), Vec::new());
        for tree in 0..trees.len() {
            for (node, count) in trees.iter(tree) {
                let Some(production) = self.nodes.production(node) else { continue };
                let group = self.group[production.index()];
                if tally[group as usize] == 0 {
                    met.push(group);
                }
                tally[group as usize] += count;
            }
            for group in met.drain(..) {
                items.push((group, std::mem::take(&mut tally[group as usize])));
            }
            ends.push(items.len() as u32);
        }
        (ends, items)
    }

    fn count_leaves(&self, weight: f64, rows: &Bags) -> Result<Leaves> {
        let n = self.nodes.labels().len();
        let nodes = self.nodes;
        let of = |trees: &'a Bags, tree: usize| {
            let leaves = trees.iter(tree).filter(|(node, _)| nodes.is_leaf(*node));
            leaves.map(|(node, count)| (nodes.label(node).0, count))
        };
        let (mut ends, mut items) = (Vec::new(), Vec::new());
        for tree in 0..rows.len() {
            items.extend(
                rows.iter(tree)
                    .filter(|(node, _)| nodes.is_leaf(*node))
                    .map(|(node, count)| (nodes.label(node).0, count)),
            );
            ends.push(items.len() as u32);
        }
        let columns = |tree| of(self.columns, tree);
        let largest = largest_square(&ends, &items);
        let counts = Counts::new(n, columns, self.columns.len(), largest)?;
        Ok(Leaves { weight, ends, items, counts })
    }
}
