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
//! The first sum is an integer dot product ([`Products`]). The second needs only pairs
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
//! | stored past the caches ([`mirror`](super::mirror)); 4.6 before it on that day | 4.15 |
//!
//! By samples of the last: storing 1.0, walks 0.8, counts 0.6, the index 0.6, page faults
//! 0.3. Sorting the trees by structure, so that neighbours are alike and stretches of
//! lists become vector loops, was not built: it could save a part of the 0.8, and undoing
//! the permutation would scatter the mirrored half over the memory's pages, which costs
//! more than that (a line at a time: 1.5 more, measured).
//!
//! Of the index, cutting the trees into a part per thread gains a third of the reading
//! ([`Bags::by`]), but nothing where lists and rows are made: two threads that fill fresh
//! memory wait for the system's page faults, and the merging takes what is left. Base and
//! corrections at the same time gain a tenth. Lists found by a hash of production,
//! position and child's production took a quarter longer than now. Vectors reserved in
//! full made the index slower: large ones come as fresh pages.
//!
//! # Complexity
//! A row takes time by the matches of (production, child, child's production) between
//! its tree and the distinct subtrees of the columns; the index takes memory by the
//! distinct subtrees.

use std::collections::HashMap;

use super::arrivals::{Arrivals, Revealed};
use super::counts::{Counts, CountsScratch, Products, Tally, largest_square};
use crate::intern::{Keys, new_id};
use crate::kernel::{Bags, Number, Scaled};
use crate::lists::{Filling, Lists};
use crate::team::Crew;
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
    lists: Lists<Entry>,
    /// Per production: how many subtrees.
    group_sizes: Vec<u32>,
    largest_group: u32,
    max_live: usize,
    arrivals: Arrivals,
    /// Subtrees of several trees: the trees with how often they stand there.
    shared: Lists<(u32, u32)>,
    row_nodes: Vec<RowNode>,
    edges: Vec<Edge>,
    /// Rows: the distinct inner subtrees of each tree, children first, with counts.
    rows: Lists<(u32, u32)>,
    /// Productions.
    base: Products,
    patterns: Patterns,
    /// Equal leaves, for `leaf_weight`.
    leaves: Option<Products>,
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
    /// What trees have of them.
    products: Products,
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

/// What one worker keeps from row to row.
#[derive(Debug)]
pub(crate) struct Scratch<N> {
    revealed: Revealed,
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
        crew: &mut Crew<'_>,
    ) -> Result<Self> {
        let mut builder = Builder::new(nodes, decay, columns)?;
        builder.number_subtrees(crew)?;
        // From here on base and corrections have nothing to do with each other.
        let trees = std::mem::take(&mut builder.trees);
        let group = std::mem::take(&mut builder.group);
        let groups = std::mem::take(&mut builder.engine.arrivals.groups);
        let n_groups = builder.engine.group_sizes.len();
        let counting = Counting {
            nodes,
            columns,
            rows,
            trees: &trees,
            groups: &groups.items,
            group: &group,
            n_groups,
        };
        let (mut engine, (base, leaves)) = crew.both(
            |crew| builder.finish(&trees, &group, rows, crew),
            || Ok((counting.base(decay)?, counting.leaves(leaf_weight)?)),
        )?;
        engine.arrivals.groups = groups;
        if rows.is_none() {
            engine.rows = trees;
        }
        engine.base = base;
        engine.leaves = leaves;
        Ok(engine)
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
            revealed: Revealed::new(self.group_sizes.len(), self.lists.len()),
            vals: Vec::new(),
            spare: Spare { clean: Vec::new(), used: Vec::new() },
            folded: HashMap::new(),
            parents: vec![(0, 0); self.row_nodes.len()],
            extra: vec![N::of(0.0); self.shared.len()],
            touched: Vec::new(),
            base: self.base.counts.scratch(),
            patterns: self.patterns.products.counts.scratch(),
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
        let (base, patterns) = (&self.base, &self.patterns.products);
        base.sum(x, &mut scratch.base, row.len());
        patterns.sum(x, &mut scratch.patterns, row.len());
        scratch.base.write(base.weight, &scratch.patterns, patterns.weight, row);
        if let Some(leaves) = &self.leaves {
            leaves.add_to(x, &mut scratch.leaves, row);
        }
    }

    fn add_corrections<N: Number>(
        &self,
        x: usize,
        scratch: &mut Scratch<N>,
        row: &mut [N],
    ) {
        scratch.revealed.reveal(row.len(), &self.arrivals);
        self.corrections(x, scratch, row);
        for &number in &scratch.touched {
            let extra =
                std::mem::replace(&mut scratch.extra[number as usize], N::of(0.0));
            for &(tree, count) in self.shared.get(number as usize) {
                let Some(value) = row.get_mut(tree as usize) else { break };
                *value = *value + extra * N::of(f64::from(count));
            }
        }
        scratch.touched.clear();
    }

    fn corrections<N: Number>(
        &self,
        x: usize,
        scratch: &mut Scratch<N>,
        row: &mut [N],
    ) {
        let decay = N::of(self.decay);
        let Scratch { vals, spare, folded, parents, extra, touched, .. } = scratch;
        let (group_len, list_len) =
            (&scratch.revealed.group_len, &scratch.revealed.list_len);
        let mut live = 0;
        let items = self.rows.get(x);
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
                let list = self.list(list, list_len);
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
                    let list = self.list(edge.list, list_len);
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
        self.edges(number).iter().filter(walked).map(|e| self.list(e.list, list_len))
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

    /// A list, as far as it is known.
    #[inline]
    fn list(&self, list: u32, list_len: &[u32]) -> &[Entry] {
        self.lists.first(list as usize, list_len[list as usize] as usize)
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

const LISTS: &str = "child lists";
const EDGES: &str = "edges";
const PATTERNS: &str = "pairs of tree and pattern";

struct Builder<'a> {
    nodes: &'a Nodes,
    columns: &'a Bags,
    engine: Engine,
    /// By node: its number among the columns' subtrees.
    number: Vec<u32>,
    column: Vec<Column>,
    /// Per tree: the numbers of its subtrees, with counts.
    trees: Lists<(u32, u32)>,
    /// By production: its number among the columns'.
    group: Vec<u32>,
    /// Lists by production, child's position and child's production.
    list_keys: Vec<[u32; 3]>,
    /// Per tree: the patterns of its subtrees, with counts.
    column_patterns: Lists<(u32, u32)>,
}

impl<'a> Builder<'a> {
    fn new(nodes: &'a Nodes, decay: f64, columns: &'a Bags) -> Result<Self> {
        let none = |weight| {
            let columns = |_: usize| std::iter::empty();
            Products::new(weight, 0, columns, 0, Lists::default())
        };
        let engine = Engine {
            decay,
            lists: Lists::default(),
            group_sizes: Vec::new(),
            largest_group: 0,
            max_live: MAX_LIVE,
            arrivals: Arrivals::default(),
            shared: Lists::default(),
            row_nodes: Vec::new(),
            edges: Vec::new(),
            rows: Lists::default(),
            base: none(decay)?,
            patterns: Patterns {
                of_list: Vec::new(),
                lists: Vec::new(),
                values: Vec::new(),
                starts: Vec::new(),
                products: none(decay * decay)?,
            },
            leaves: None,
        };
        Ok(Self {
            nodes,
            columns,
            engine,
            number: vec![NONE; nodes.len()],
            column: Vec::with_capacity(nodes.len()),
            trees: Lists::default(),
            group: vec![NONE; nodes.n_productions()],
            list_keys: Vec::new(),
            column_patterns: Lists::default(),
        })
    }

    /// Numbers the columns' subtrees by first tree, children first.
    fn number_subtrees(&mut self, crew: &mut Crew<'_>) -> Result<()> {
        for tree in 0..self.columns.len() {
            crew.pause()?;
            for (node, count) in self.columns.iter(tree) {
                let Some(production) = self.nodes.production(node) else { continue };
                let known = self.number[node.index()];
                if known == NONE {
                    let number = self.add_column(node, production, tree)?;
                    self.trees.push((number, count));
                } else {
                    self.trees.push((known, count));
                }
            }
            self.trees.close("subtrees, tree by tree")?;
            self.engine.arrivals.groups.close("subtrees")?;
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
        self.engine.arrivals.groups.push(*group);
        let inner = |child: &NodeId| self.number[child.index()] != NONE;
        let is_preterminal = !self.nodes.children(node).iter().any(inner);
        let slot = tree as u32;
        self.column.push(Column { group: *group, local: *size, slot, is_preterminal });
        *size += 1;
        Ok(number)
    }

    /// Finds subtrees that stand more than once, and lists where. Preterminals are left
    /// out: no list has them.
    fn collect_shared(&mut self, trees: &Lists<(u32, u32)>) {
        let mut times = vec![0u32; self.column.len()];
        for &(number, count) in &trees.items {
            times[number as usize] += if count > 1 { 2 } else { 1 };
        }
        // From here on: the number among the shared, or NONE.
        let mut lens = Vec::new();
        for (column, times) in self.column.iter_mut().zip(&mut times) {
            if *times > 1 && !column.is_preterminal {
                let number = lens.len() as u32;
                column.slot = !number;
                lens.push(*times); // at least as many as there are trees
                *times = number;
            } else {
                *times = NONE;
            }
        }
        let shared_of = times;
        let mut lists = Filling::new(lens, (NONE, 0));
        for (tree, items) in trees.iter().enumerate() {
            for &(number, count) in items {
                let shared = shared_of[number as usize];
                if shared != NONE {
                    lists.put(shared, (tree as u32, count));
                }
            }
        }
        self.engine.shared = lists.done();
    }

    /// The columns in the order of their numbers.
    fn order(&self) -> Vec<NodeId> {
        let mut order = vec![NodeId(0); self.column.len()];
        for (node, &number) in self.number.iter().enumerate() {
            if number != NONE {
                order[number as usize] = NodeId(node as u32);
            }
        }
        order
    }

    /// Lists by production, child's position and child's production: production by
    /// production and position by position, so that neither a hash is needed nor memory
    /// far away.
    fn build_lists(&mut self, crew: &mut Crew<'_>) -> Result<()> {
        let order = self.order();
        let engine = &mut self.engine;
        // The numbers of each column's children, NONE for leaves.
        let mut children = Lists::default();
        let mut lens = Vec::with_capacity(order.len());
        for &node in &order {
            crew.pause()?;
            let numbers =
                self.nodes.children(node).iter().map(|c| self.number[c.index()]);
            children.extend(numbers);
            let first = children.start(children.len());
            let inner = children.items[first..].iter().filter(|&&c| c != NONE);
            lens.push(inner.count() as u32);
            children.close(EDGES)?;
        }
        let mut edges = Filling::new(lens, NONE);
        let mut members = Filling::new(engine.group_sizes.clone(), 0);
        for (number, column) in (0..).zip(&self.column) {
            members.put(column.group, number);
        }
        let mut entries = Vec::new();
        // By production of a child: its list, if it is not one of another position.
        let mut list_of = vec![NONE; engine.group_sizes.len()];
        for (group, members) in (0..).zip(members.done().iter()) {
            crew.pause()?;
            let arity = members.first().map_or(0, |&m| children.get(m as usize).len());
            for position in 0..arity {
                let first = self.list_keys.len();
                let mut lens: Vec<u32> = Vec::new();
                entries.clear();
                for &member in members {
                    let child = children.get(member as usize)[position];
                    if child == NONE {
                        continue;
                    }
                    let (child, column) =
                        (self.column[child as usize], self.column[member as usize]);
                    let list = &mut list_of[child.group as usize];
                    // (Of another position or production: below `first`.)
                    if *list == NONE || (*list as usize) < first {
                        *list = new_id(self.list_keys.len(), LISTS)?;
                        self.list_keys.push([group, position as u32, child.group]);
                        lens.push(0);
                    }
                    lens[*list as usize - first] += 1;
                    edges.put(member, *list);
                    let (u, child, slot) = (column.local, child.local, column.slot);
                    entries.push((*list - first as u32, Entry { u, child, slot }));
                }
                let mut lists = Filling::new(lens, Entry::default());
                for &(list, entry) in &entries {
                    lists.put(list, entry);
                }
                engine.lists.append(lists.done(), EDGES)?;
            }
        }
        engine.arrivals.lists = edges.done();
        Ok(())
    }

    /// Chooses lists of preterminal children that are long for their production.
    fn find_patterns(
        &mut self,
        trees: &Lists<(u32, u32)>,
        crew: &mut Crew<'_>,
    ) -> Result<()> {
        let mut has_preterminal = vec![false; self.engine.group_sizes.len()];
        for column in self.column.iter().filter(|column| column.is_preterminal) {
            has_preterminal[column.group as usize] = true;
        }
        let engine = &mut self.engine;
        let patterns = &mut engine.patterns;
        patterns.of_list = vec![NONE; self.list_keys.len()];
        for (list, &key) in self.list_keys.iter().enumerate() {
            let [group, _, child_group] = key.map(|k| k as usize);
            let entries = engine.lists.get(list);
            let len = entries.len() as u32;
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
            for entry in entries {
                let value = &mut patterns.values[first + entry.u as usize];
                *value += *value * engine.decay;
            }
        }
        // Every pattern that a column's subtree is in counts for its trees.
        let mut tally = Tally::new(patterns.lists.len());
        for items in trees.iter() {
            crew.pause()?;
            for &(number, count) in items {
                for &list in engine.arrivals.lists.get(number as usize) {
                    let pattern = patterns.of_list[list as usize];
                    if pattern != NONE {
                        tally.add(pattern, count);
                    }
                }
            }
            self.column_patterns.extend(tally.drain());
            self.column_patterns.close(PATTERNS)?;
        }
        Ok(())
    }

    /// All but what is counted.
    fn finish(
        mut self,
        trees: &Lists<(u32, u32)>,
        group: &[u32],
        rows: Option<&Bags>,
        crew: &mut Crew<'_>,
    ) -> Result<Engine> {
        self.collect_shared(trees);
        self.build_lists(crew)?;
        self.find_patterns(trees, crew)?;
        if let Some(rows) = rows {
            let rows = self.number_rows(group, rows, crew)?;
            self.count_patterns(&rows, false)?;
            self.engine.rows = rows;
        } else {
            self.take_columns_as_rows(crew)?;
            self.count_patterns(trees, true)?;
        }
        let sizes = self.engine.group_sizes.iter().copied();
        self.engine.largest_group = sizes.max().unwrap_or(0);
        Ok(self.engine)
    }

    /// Rows that are the columns: nodes have the columns' numbers.
    fn take_columns_as_rows(&mut self, crew: &mut Crew<'_>) -> Result<()> {
        let order = self.order();
        let mut edges = Vec::with_capacity(self.engine.arrivals.lists.items.len());
        let mut row_nodes = Vec::with_capacity(order.len());
        for (number, node) in order.into_iter().enumerate() {
            crew.pause()?;
            let children = self.nodes.children(node).iter();
            let children = children.map(|child| self.number[child.index()]);
            let lists = self.engine.arrivals.lists.get(number);
            let first = edges.len();
            // Lists come in the order of the inner children.
            let children = children.filter(|&child| child != NONE);
            edges.extend(
                lists.iter().zip(children).map(|(&list, child)| Edge { list, child }),
            );
            let own = &edges[first..];
            let Column { group, is_preterminal, .. } = self.column[number];
            let is_below = |child: u32| self.column[child as usize].is_preterminal;
            let pattern = self.pattern_of(own, is_below);
            let edges = edges.len() as u32;
            row_nodes.push(RowNode { group, edges, pattern, is_preterminal });
        }
        self.engine.edges = edges;
        self.engine.row_nodes = row_nodes;
        Ok(())
    }

    /// Rows that are other trees: their nodes have numbers of their own.
    fn number_rows(
        &mut self,
        group: &[u32],
        rows: &Bags,
        crew: &mut Crew<'_>,
    ) -> Result<Lists<(u32, u32)>> {
        let mut numbers = vec![NONE; self.nodes.len()];
        let mut trees = Lists::default();
        let mut lists = Keys::default();
        for &key in &self.list_keys {
            lists.insert(key, LISTS)?;
        }
        for tree in 0..rows.len() {
            crew.pause()?;
            for (node, count) in rows.iter(tree) {
                let Some(production) = self.nodes.production(node) else { continue };
                if numbers[node.index()] == NONE {
                    numbers[node.index()] = self.engine.row_nodes.len() as u32;
                    self.add_row_node(node, production, group, &numbers, &lists)?;
                }
                trees.push((numbers[node.index()], count));
            }
            trees.close("subtrees")?;
        }
        Ok(trees)
    }

    fn add_row_node(
        &mut self,
        node: NodeId,
        production: ProductionId,
        groups: &[u32],
        numbers: &[u32],
        lists: &Keys,
    ) -> Result<()> {
        let group = groups[production.index()];
        let nodes = self.nodes;
        let first = self.engine.edges.len();
        for (position, child) in nodes.children(node).iter().enumerate() {
            let Some(production) = nodes.production(*child) else { continue };
            let child_group = groups[production.index()];
            let list = if group == NONE || child_group == NONE {
                NONE
            } else {
                let key = [group, position as u32, child_group];
                lists.find(key).unwrap_or(NONE)
            };
            self.engine.edges.push(Edge { list, child: numbers[child.index()] });
        }
        let own = &self.engine.edges[first..];
        let row_nodes = &self.engine.row_nodes;
        let pattern =
            self.pattern_of(own, |child| row_nodes[child as usize].is_preterminal);
        let is_preterminal = own.is_empty();
        let edges = new_id(self.engine.edges.len(), EDGES)?;
        self.engine.row_nodes.push(RowNode { group, edges, pattern, is_preterminal });
        Ok(())
    }

    /// Of the patterns that a row's node could start from the longest: it saves most.
    fn pattern_of(&self, edges: &[Edge], is_preterminal: impl Fn(u32) -> bool) -> u32 {
        let Engine { lists, patterns, .. } = &self.engine;
        let (mut longest, mut best) = (0, NONE);
        for &Edge { list, child } in edges {
            if list == NONE || patterns.of_list[list as usize] == NONE {
                continue;
            }
            let len = lists.get(list as usize).len();
            if len > longest && is_preterminal(child) {
                (longest, best) = (len, patterns.of_list[list as usize]);
            }
        }
        best
    }

    /// What rows' trees have of patterns.
    fn count_patterns(
        &mut self,
        rows: &Lists<(u32, u32)>,
        symmetric: bool,
    ) -> Result<()> {
        let Engine { row_nodes, patterns, .. } = &mut self.engine;
        let mut own = Lists::default();
        for items in rows.iter() {
            for &(number, count) in items {
                let pattern = row_nodes[number as usize].pattern;
                if pattern != NONE {
                    own.push((pattern, count));
                }
            }
            own.close(PATTERNS)?;
        }
        // The squares of columns are known: those of rows matter if they are others.
        let largest = if symmetric { 0.0 } else { largest_square(&own) };
        let of = |tree| self.column_patterns.get(tree).iter().copied();
        patterns.products.counts =
            Counts::new(patterns.lists.len(), of, self.columns.len(), largest)?;
        patterns.products.rows = own;
        Ok(())
    }
}

/// What is counted in trees, whatever is below.
struct Counting<'a> {
    nodes: &'a Nodes,
    columns: &'a Bags,
    rows: Option<&'a Bags>,
    /// Per column's tree: the numbers of its subtrees, with counts.
    trees: &'a Lists<(u32, u32)>,
    /// By number: the production's number among the columns'.
    groups: &'a [u32],
    /// By production: the same, or NONE.
    group: &'a [u32],
    n_groups: usize,
}

impl<'a> Counting<'a> {
    /// Equal productions.
    fn base(&self, decay: f64) -> Result<Products> {
        let n = self.trees.len();
        let group_of =
            |&(number, count): &(u32, u32)| (self.groups[number as usize], count);
        let columns =
            self.tally(n, |tree| self.trees.get(tree).iter().map(group_of))?;
        let of = |tree| columns.get(tree).iter().copied();
        let Some(rows) = self.rows else {
            // The squares of rows are known from the columns.
            let counts = Counts::new(self.n_groups, of, n, 0.0)?;
            return Ok(Products { weight: decay, rows: columns, counts });
        };
        let group_of = |(node, count)| {
            let production = self.nodes.production(node)?;
            Some((self.group[production.index()], count))
        };
        let rows =
            self.tally(rows.len(), |tree| rows.iter(tree).filter_map(group_of))?;
        Products::new(decay, self.n_groups, of, n, rows)
    }

    /// Productions of each tree with their counts.
    fn tally<I: Iterator<Item = (u32, u32)>>(
        &self,
        n: usize,
        trees: impl Fn(usize) -> I,
    ) -> Result<Lists<(u32, u32)>> {
        let mut tally = Tally::new(self.n_groups);
        let mut all = Lists::default();
        for tree in 0..n {
            for (group, count) in trees(tree).filter(|&(group, _)| group != NONE) {
                tally.add(group, count);
            }
            all.extend(tally.drain());
            all.close("productions")?;
        }
        Ok(all)
    }

    /// Equal leaves, where they count.
    fn leaves(&self, weight: f64) -> Result<Option<Products>> {
        if weight == 0.0 {
            return Ok(None);
        }
        let nodes = self.nodes;
        let of = |trees: &'a Bags, tree: usize| {
            let leaves = trees.iter(tree).filter(|(node, _)| nodes.is_leaf(*node));
            leaves.map(|(node, count)| (nodes.label(node).0, count))
        };
        let rows = self.rows.unwrap_or(self.columns);
        let mut own = Lists::default();
        for tree in 0..rows.len() {
            own.extend(of(rows, tree));
            own.close("leaves")?;
        }
        let columns = |tree| of(self.columns, tree);
        let n = nodes.labels().len();
        Products::new(weight, n, columns, self.columns.len(), own).map(Some)
    }
}
