//! Rows of the partial tree kernel.
//!
//! With D as in [`crate::kernel::partial`], every pair of nodes with equal labels adds
//! μ λ² leafness to K, an integer dot product ([`Counts`]), and only pairs with matching
//! children add more. An index finds them: for each label l and child label q the list
//! of all (u, j, c): subtrees u of the columns' trees with label l, and their children c
//! at position j with label q. A row takes the nodes v of its tree, children first, and
//! for each child i of v one list:
//!
//! ```text
//! for e = (u, j, c) in list:
//!     T_i[e] = D(v_i, c) (1 + Σ_{i'<i} λ^(i-i'-1) Σ_{e' of u, j'<j} λ^(j-j'-1) T_i'[e'])
//!     D(v,u) += μ T_i[e];  K[t of u] += μ T_i[e]
//! ```
//!
//! The inner sum runs over pairs of entries of the same u. They depend on the columns
//! alone, so they are listed too, by the two lists they join: entries that stand alone
//! in their u are never asked about others (walking each entry's chain of earlier ones
//! instead took twice as long).
//!
//! Labels of simple preterminals, all of whose inner nodes have one leaf and nothing
//! else, have no rows of D: such nodes are the same or share their label only, so ids
//! are compared, and their own part of K is one more integer dot product.
//!
//! Subtrees are numbered within their label by the first tree that has them, so the
//! trees up to x are a prefix of every list, and a symmetric matrix costs half. What
//! several trees share (or one tree has twice) collects what it would add to each of
//! them, and passes it on once, at the end of the row.
//!
//! # Guards
//! A node of k children has k²/2 pairs, and meets k'²/2 pairs of positions. Nodes that
//! are wide or have many children of one label are in no list; they, and rows' nodes
//! whose lists would be longer than the grids, go pair by pair through [`Chains`], never
//! slower than one pass over both child lists. So do pairs for which `max_children`
//! matters.
//!
//! # Complexity
//! A row takes time by the matches of (label, child's label) between its tree and the
//! distinct subtrees of the columns, and by their pairs, at most a constant times the
//! grids; the index takes memory by the distinct subtrees and their edges.

use super::arrivals::{Arrivals, Revealed};
use super::counts::{CountsScratch, Products, Tally};
use crate::intern::{Keys, new_id};
use crate::kernel::Bags;
use crate::kernel::partial::{Chains, NONE, Table, Weights, powers};
use crate::lists::{self, Filling, Lists};
use crate::team::Crew;
use crate::{NodeId, Nodes, Result};

/// Columns' nodes with more children are in no list: so there are at most 15.5 pairs per
/// edge. (No phrase of the Penn treebank has more than 32.)
const WIDE: usize = 32;
/// Nor are nodes in which children share their label with more than so many on average.
/// Nodes v and u of which this is true have by Cauchy and Schwarz at most
/// 8 sqrt(k_v k_u) matches, hence at most 16 k_v k_u pairs of matches.
const REPEATED: usize = 8;
/// A pair is about so many times cheaper than a cell of a grid: T and S take some
/// dependent additions and multiplications, a pair one.
const CELL: u64 = 4;

/// One child of a subtree, in the list of its label.
#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    /// The subtree's number within its label.
    u: u32,
    /// The child's number within its label; of simple preterminals the node's id.
    child: u32,
    /// The tree it stands in; if that is several (or twice), n_trees + 1 + its number
    /// among the shared.
    slot: u32,
}

/// Two children of a subtree, by their places in their lists.
#[derive(Debug, Clone, Copy, Default)]
struct Pair {
    from: u32,
    to: u32,
}

/// What D of a row's child with the children in a list is.
#[derive(Debug, Clone, Copy)]
enum Child {
    /// Computed before: the child's number among the row nodes.
    Row(u32),
    /// Of simple preterminals: of equal nodes more than of others.
    Simple(u32),
    /// Where one is a leaf.
    Constant(f64),
}

/// A row's child and one list that it matches.
#[derive(Debug, Clone, Copy)]
struct Edge {
    list: u32,
    child: Child,
    /// Where its links end.
    links: u32,
    /// Whether later edges have links to this one.
    goes_on: bool,
}

/// An earlier edge of the same row node that has pairs with this one.
#[derive(Debug, Clone, Copy)]
struct Link {
    /// The earlier edge, counted from the node's first.
    edge: u32,
    /// The number of the two lists.
    joined: u32,
    /// λ^(children between them).
    weight: f64,
}

/// A child as grids see it.
#[derive(Debug, Clone, Copy)]
struct Below {
    label: u32,
    /// [`LEAF`]; of a simple preterminal, its id; of other inner nodes of columns the
    /// number within the label, of rows the number among the row nodes.
    id: u32,
}

const LEAF: u32 = NONE;

/// How a row's node meets the columns' subtrees of its label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Walks lists, and grids for those that are in none.
    Lists,
    /// A grid for each.
    Grids,
}

/// A distinct inner subtree of the rows' trees, simple preterminals left out.
#[derive(Debug, Clone, Copy)]
struct RowNode {
    /// Its label's number among the groups, or NONE if no column has such a subtree.
    group: u32,
    way: Way,
    /// Where its edges and its children end.
    edges: u32,
    below: u32,
}

/// A subtree that stands in several trees, or more than once in one.
#[derive(Debug, Clone, Copy)]
struct Shared {
    /// Its first two trees with how often it stands there; (NONE, 0) for a second tree
    /// that there is not.
    first: [(u32, u32); 2],
    /// Its third tree or NONE, and where those from the third on end.
    third: u32,
    end: u32,
}

/// What the kernel is made with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Params {
    pub(crate) decay: f64,
    pub(crate) mu: f64,
    pub(crate) leaf_factor: f64,
    pub(crate) max_children: Option<usize>,
}

/// The index of some trees (columns), and what is needed of others (rows) to walk it.
#[derive(Debug)]
pub(crate) struct Engine {
    mu: f64,
    weights: Weights,
    /// D of two equal simple preterminals.
    same: f64,
    longest: usize,
    powers: Vec<f64>,
    n_labels: usize,
    /// By label: whether all its inner nodes are simple preterminals.
    simple: Vec<bool>,
    lists: Lists<Entry>,
    /// By two lists, by gap, by subtree: the pairs. By two lists: where their gaps end.
    /// By two lists and gap: λ^gap, and where the pairs end.
    pairs: Vec<Pair>,
    gap_ends: Vec<u32>,
    pair_ends: Vec<(u32, f64)>,
    /// By group (a label), then by number: slot and where the children end.
    members: Lists<(u32, u32)>,
    below: Vec<Below>,
    /// By group: the numbers of those in no list.
    unlisted: Lists<u32>,
    arrivals: Arrivals,
    /// By tree: where its new column subtrees end, and those of them that are shared.
    tree_shared_ends: Vec<u32>,
    shared: Vec<Shared>,
    /// Their trees from the third on, with how often they stand there.
    shared_rest: Vec<(u32, u32)>,
    row_nodes: Vec<RowNode>,
    edges: Vec<Edge>,
    links: Vec<Link>,
    row_below: Vec<Below>,
    /// By row: its distinct subtrees, children first, with counts.
    rows: Lists<(u32, u32)>,
    bases: Vec<Products>,
}

/// What one worker keeps from row to row.
#[derive(Debug)]
pub(crate) struct Scratch {
    revealed: Revealed,
    /// Per row node: its D with its group, while parents will ask for it. Arrays go from
    /// node to node, so a chain of equal labels needs two, not one for each node.
    vals: Vec<Vec<f64>>,
    free: Vec<Vec<f64>>,
    /// Per row node: the place of the last parent in the tree at hand, or NONE.
    last_use: Vec<u32>,
    /// T of one node's edges, and where each edge's start.
    sums: Vec<f64>,
    sum_start: Vec<u32>,
    /// By slot: what is added to a tree, or to each of a shared subtree's; zero between
    /// rows. One array for both, as which it is cannot be predicted.
    slots: Vec<f64>,
    touched: Vec<u32>,
    bases: Vec<CountsScratch>,
    table: Table,
    chains: Chains<f64>,
}

impl Engine {
    /// Indexes the trees of `columns` for rows from `rows` (None: from the same trees).
    ///
    /// # Errors
    /// [`crate::Error::Capacity`] beyond 2^32 edges or pairs of them.
    pub(crate) fn new(
        nodes: &Nodes,
        params: Params,
        columns: &Bags,
        rows: Option<&Bags>,
        crew: &mut Crew<'_>,
    ) -> Result<Self> {
        let Params { decay, mu, leaf_factor, max_children } = params;
        let weights = Weights::new(decay, mu, leaf_factor);
        let mut builder = Builder::new(nodes, columns, rows, weights, mu);
        builder.engine.longest = max_children.unwrap_or(usize::MAX);
        builder.find_simple_labels();
        builder.number_subtrees(crew)?;
        builder.collect_shared()?;
        builder.list_members()?;
        crew.pause()?;
        builder.engine.powers = powers(decay, builder.widest);
        builder.build_lists()?;
        builder.build_pairs(crew)?;
        builder.build_rows(crew)?;
        builder.count_symbols(leaf_factor)?;
        Ok(builder.engine)
    }
}

impl super::Engine for Engine {
    type Scratch = Scratch;

    fn scratch(&self) -> Scratch {
        Scratch {
            revealed: Revealed::new(self.members.len(), self.lists.len()),
            vals: vec![Vec::new(); self.row_nodes.len()],
            free: Vec::new(),
            last_use: vec![NONE; self.row_nodes.len()],
            sums: Vec::new(),
            sum_start: Vec::new(),
            slots: vec![0.0; self.n_trees() + 1 + self.shared.len()],
            touched: vec![0; self.shared.len()],
            bases: self.bases.iter().map(|base| base.counts.scratch()).collect(),
            table: Table::default(),
            chains: Chains::default(),
        }
    }

    fn row(&self, x: usize, scratch: &mut Scratch, row: &mut [f64]) {
        scratch.revealed.reveal(row.len(), &self.arrivals);
        let trees = &mut scratch.slots[..row.len()];
        for (base, scratch) in self.bases.iter().zip(&mut scratch.bases) {
            base.add_to(x, scratch, trees);
        }
        self.walk(x, scratch);
        self.expand(row.len(), scratch);
        row.copy_from_slice(&scratch.slots[..row.len()]);
        scratch.slots[..row.len()].fill(0.0);
    }
}

impl Engine {
    /// Passes on what shared subtrees have collected to the first `len` trees.
    fn expand(&self, len: usize, scratch: &mut Scratch) {
        let Scratch { slots, touched, .. } = scratch;
        let n_shared =
            len.checked_sub(1).map_or(0, |t| self.tree_shared_ends[t]) as usize;
        let (trees, sums) = slots.split_at_mut(self.n_trees() + 1);
        let (trees, sums) = (&mut trees[..=len], &mut sums[..n_shared]);
        // One in five has collected something, most of them for one or two of these
        // trees, and neither can be predicted: so first a list of those that have,
        // without a branch, then their first two trees, without a branch (what is not
        // there goes to the place after the trees), and at last the others. That took
        // GRCT from 6.4 to 5.1 ns per pair of trees, QC from 18.0 to 14.7; of frequent
        // subtrees, dense columns would cost what they gain.
        let mut n_touched = 0;
        for (number, &sum) in sums.iter().enumerate() {
            touched[n_touched] = number as u32;
            n_touched += usize::from(sum != 0.0);
        }
        let mut n_more = 0;
        for at in 0..n_touched {
            let number = touched[at];
            let sum = sums[number as usize];
            let shared = &self.shared[number as usize];
            for (tree, count) in shared.first {
                trees[(tree as usize).min(len)] += sum * f64::from(count);
            }
            touched[n_more] = number;
            n_more += usize::from((shared.third as usize) < len);
        }
        for &number in &touched[..n_more] {
            let number = number as usize;
            let start =
                number.checked_sub(1).map_or(0, |n| self.shared[n].end) as usize;
            let rest = &self.shared_rest[start..self.shared[number].end as usize];
            for &(tree, count) in rest {
                if tree as usize >= len {
                    break;
                }
                trees[tree as usize] += sums[number] * f64::from(count);
            }
        }
        trees[len] = 0.0;
        sums.fill(0.0);
    }

    fn n_trees(&self) -> usize {
        self.arrivals.groups.len()
    }

    fn walk(&self, x: usize, scratch: &mut Scratch) {
        let items = self.rows.get(x);
        for &(number, _) in items {
            scratch.last_use[number as usize] = NONE;
        }
        for (at, &(number, _)) in items.iter().enumerate() {
            for child in self.rows_below(number) {
                scratch.last_use[child] = at as u32;
            }
        }
        for (at, &(number, count)) in items.iter().enumerate() {
            let node = self.row_nodes[number as usize];
            if node.group == NONE {
                continue;
            }
            let members = scratch.revealed.group_len[node.group as usize];
            // Nobody asks for the root's D.
            let is_asked = scratch.last_use[number as usize] != NONE;
            let len = if is_asked { members as usize } else { 0 };
            let mut own = scratch.free.pop().unwrap_or_default();
            // Never made shorter: growing again would write them one by one.
            if own.len() < len {
                own.resize(len, 0.0);
            }
            own[..len].fill(self.weights.inner);
            let mut sink = Sink { slots: &mut scratch.slots, weight: f64::from(count) };
            let mut known =
                Known { engine: self, vals: &scratch.vals, own: &mut own[..len] };
            if node.way == Way::Lists {
                known.walk_lists(
                    self.edges_of(number),
                    &scratch.revealed.list_len,
                    (&mut scratch.sums, &mut scratch.sum_start),
                    &mut sink,
                );
            }
            known.walk_grids(
                number,
                members,
                (&mut scratch.table, &mut scratch.chains),
                &mut sink,
            );
            scratch.vals[number as usize] = own;
            for done in self.rows_below(number).chain([number as usize]) {
                let last = scratch.last_use[done];
                // Once only, should a child stand here twice.
                if (last == at as u32 || last == NONE)
                    && scratch.vals[done].capacity() > 0
                {
                    scratch.free.push(std::mem::take(&mut scratch.vals[done]));
                }
            }
        }
    }

    /// A row node's children.
    #[inline]
    fn below_of(&self, number: u32) -> &[Below] {
        let first =
            number.checked_sub(1).map_or(0, |n| self.row_nodes[n as usize].below);
        &self.row_below[first as usize..self.row_nodes[number as usize].below as usize]
    }

    /// Those that have rows of D.
    fn rows_below(&self, number: u32) -> impl Iterator<Item = usize> {
        let below = self.below_of(number).iter();
        let with = |c: &&Below| c.id != LEAF && !self.simple[c.label as usize];
        below.filter(with).map(|child| child.id as usize)
    }

    /// A row node's edges, and where their links start.
    #[inline]
    fn edges_of(&self, number: u32) -> (&[Edge], u32) {
        let first =
            number.checked_sub(1).map_or(0, |n| self.row_nodes[n as usize].edges)
                as usize;
        let edges = &self.edges[first..self.row_nodes[number as usize].edges as usize];
        (edges, first.checked_sub(1).map_or(0, |e| self.edges[e].links))
    }

    /// The pairs of two lists, by gap, and λ^gap.
    #[inline]
    fn pairs_of(&self, joined: u32) -> impl Iterator<Item = (&[Pair], f64)> {
        let joined = joined as usize;
        let first = joined.checked_sub(1).map_or(0, |j| self.gap_ends[j]) as usize;
        let mut start = first.checked_sub(1).map_or(0, |gap| self.pair_ends[gap].0);
        self.pair_ends[first..self.gap_ends[joined] as usize].iter().map(
            move |&(end, weight)| {
                let pairs = &self.pairs[start as usize..end as usize];
                start = end;
                (pairs, weight)
            },
        )
    }
}

/// The values of D that are known so far, and those of the node at hand.
struct Known<'a> {
    engine: &'a Engine,
    vals: &'a [Vec<f64>],
    own: &'a mut [f64],
}

impl Known<'_> {
    fn walk_lists(
        &mut self,
        (edges, first_link): (&[Edge], u32),
        list_len: &[u32],
        (sums, sum_start): (&mut Vec<f64>, &mut Vec<u32>),
        sink: &mut Sink,
    ) {
        let engine = self.engine;
        sum_start.clear();
        let (mut used, mut link) = (0, first_link as usize);
        for edge in edges {
            let len = list_len[edge.list as usize];
            let list = engine.lists.first(edge.list as usize, len as usize);
            sum_start.push(used as u32);
            let end = used + len as usize;
            if sums.len() < end {
                sums.resize(end, 0.0);
            }
            // All sums are μ times what the formula says.
            let (earlier, own) = sums.split_at_mut(used);
            let own = &mut own[..len as usize];
            used = end;
            let links = &engine.links[link..edge.links as usize];
            link = edge.links as usize;
            if !links.is_empty() {
                own.fill(engine.mu);
            }
            for link in links {
                let from = &earlier[sum_start[link.edge as usize] as usize..];
                for (pairs, weight) in engine.pairs_of(link.joined) {
                    add_pairs(pairs, from, link.weight * weight, own);
                }
            }
            match (links.is_empty(), edge.goes_on) {
                (true, false) => self.walk_list::<false, false>(edge, list, own, sink),
                (true, true) => self.walk_list::<false, true>(edge, list, own, sink),
                (false, false) => self.walk_list::<true, false>(edge, list, own, sink),
                (false, true) => self.walk_list::<true, true>(edge, list, own, sink),
            }
        }
    }

    /// Multiplies the sums of one list by D, and adds them to where they belong. The
    /// sums are all μ and not stored unless LINKED, and not to be kept unless GOES_ON.
    ///
    /// Loops of their own for each case, and no branch for what is shared, took QC from
    /// 22.8 to 18.0 ns per pair of trees, WSJ from 73 to 57; a visit now takes about
    /// 0.9 ns, an entry, two sums to be updated and three bounds being what it needs.
    #[inline]
    fn walk_list<const LINKED: bool, const GOES_ON: bool>(
        &mut self,
        edge: &Edge,
        list: &[Entry],
        sums: &mut [f64],
        sink: &mut Sink,
    ) {
        let engine = self.engine;
        match edge.child {
            Child::Row(child) => {
                let d = &self.vals[child as usize];
                let d = |entry: &Entry| d[entry.child as usize];
                self.finish::<LINKED, GOES_ON>(list, sums, sink, d);
            }
            Child::Simple(id) => {
                let (same, other) = (engine.same, engine.weights.inner);
                let d = |entry: &Entry| if entry.child == id { same } else { other };
                self.finish::<LINKED, GOES_ON>(list, sums, sink, d);
            }
            Child::Constant(d) => {
                self.finish::<LINKED, GOES_ON>(list, sums, sink, |_| d);
            }
        }
    }

    #[inline]
    fn finish<const LINKED: bool, const GOES_ON: bool>(
        &mut self,
        list: &[Entry],
        sums: &mut [f64],
        sink: &mut Sink,
        d: impl Fn(&Entry) -> f64,
    ) {
        let mu = self.engine.mu;
        for (entry, sum) in list.iter().zip(sums) {
            let t = if LINKED { *sum } else { mu } * d(entry);
            if GOES_ON {
                *sum = t;
            }
            if let Some(value) = self.own.get_mut(entry.u as usize) {
                *value += t;
            }
            sink.add(entry.slot, t);
        }
    }

    /// Pairs of a row's node, one by one: with the subtrees of its label that are in no
    /// list, or with all.
    fn walk_grids(
        &mut self,
        number: u32,
        members: u32,
        (table, chains): (&mut Table, &mut Chains<f64>),
        sink: &mut Sink,
    ) {
        let engine = self.engine;
        let node = engine.row_nodes[number as usize];
        let group = node.group as usize;
        let unlisted = engine.unlisted.get(group);
        let n_grids = match node.way {
            Way::Lists => unlisted.partition_point(|&u| u < members),
            Way::Grids => members as usize,
        };
        if n_grids == 0 {
            return;
        }
        let own = engine.below_of(number);
        let labels = own.iter().map(|child| child.label);
        table.fill(engine.n_labels, labels.clone());
        let group_start = engine.members.start(group);
        for at in 0..n_grids as u32 {
            let u = match node.way {
                Way::Lists => unlisted[at as usize],
                Way::Grids => at,
            };
            let member = group_start + u as usize;
            let first = member.checked_sub(1).map_or(0, |m| engine.members.items[m].1);
            let (slot, end) = engine.members.items[member];
            let below = &engine.below[first as usize..end as usize];
            let sum = chains.sum(
                below.iter().map(|child| child.label),
                table,
                &engine.powers,
                engine.longest,
                |j, i| self.d(own[i as usize], below[j as usize]),
            );
            if sum == 0.0 {
                continue;
            }
            if let Some(value) = self.own.get_mut(u as usize) {
                *value += engine.mu * sum;
            }
            sink.add(slot, engine.mu * sum);
        }
        table.clear(labels);
    }

    /// D of a row's child and a column's with the same label.
    #[inline]
    fn d(&self, row: Below, column: Below) -> f64 {
        let engine = self.engine;
        if row.id == LEAF || column.id == LEAF {
            engine.weights.of(row.id == LEAF, column.id == LEAF)
        } else if !engine.simple[row.label as usize] {
            self.vals[row.id as usize][column.id as usize]
        } else if row.id == column.id {
            engine.same
        } else {
            engine.weights.inner
        }
    }
}

/// Carries the sums of an earlier list on to a later one's. Pairs are listed by gap, so
/// that their weight is the same for all: half the reads, 0.6 ns per pair.
#[inline]
fn add_pairs(pairs: &[Pair], from: &[f64], weight: f64, to: &mut [f64]) {
    for pair in pairs {
        let Some(to) = to.get_mut(pair.to as usize) else { break };
        *to += from[pair.from as usize] * weight;
    }
}

/// Where values go: to a tree, or to a subtree of several trees.
struct Sink<'a> {
    slots: &'a mut [f64],
    weight: f64,
}

impl Sink<'_> {
    #[inline]
    fn add(&mut self, slot: u32, d: f64) {
        self.slots[slot as usize] += self.weight * d;
    }
}

/// A column subtree while the index is built.
#[derive(Debug, Clone, Copy)]
struct Column {
    node: NodeId,
    group: u32,
    /// Number within the group.
    local: u32,
    slot: u32,
    listed: bool,
}

struct Builder<'a> {
    nodes: &'a Nodes,
    columns: &'a Bags,
    rows: &'a Bags,
    symmetric: bool,
    engine: Engine,
    widest: usize,
    /// By node: its number among the columns' subtrees.
    number: Vec<u32>,
    column: Vec<Column>,
    /// By label: its number among the columns'; and back.
    group: Vec<u32>,
    group_labels: Vec<u32>,
    group_sizes: Vec<u32>,
    /// Lists by group and child's label, leaves apart.
    list_keys: Keys,
    /// Two lists that have pairs.
    joined_keys: Keys,
}

impl<'a> Builder<'a> {
    fn new(
        nodes: &'a Nodes,
        columns: &'a Bags,
        rows: Option<&'a Bags>,
        weights: Weights,
        mu: f64,
    ) -> Self {
        let n_labels = nodes.labels().len();
        let engine = Engine {
            mu,
            weights,
            same: weights.inner + mu * weights.leaf,
            longest: usize::MAX,
            powers: Vec::new(),
            n_labels,
            simple: vec![true; n_labels],
            lists: Lists::default(),
            pairs: Vec::new(),
            gap_ends: Vec::new(),
            pair_ends: Vec::new(),
            members: Lists::default(),
            below: Vec::new(),
            unlisted: Lists::default(),
            arrivals: Arrivals::default(),
            tree_shared_ends: Vec::new(),
            shared: Vec::new(),
            shared_rest: Vec::new(),
            row_nodes: Vec::new(),
            edges: Vec::new(),
            links: Vec::new(),
            row_below: Vec::new(),
            rows: Lists::default(),
            bases: Vec::new(),
        };
        Self {
            nodes,
            columns,
            rows: rows.unwrap_or(columns),
            symmetric: rows.is_none(),
            engine,
            widest: 0,
            number: vec![NONE; nodes.len()],
            column: Vec::new(),
            group: vec![NONE; n_labels],
            group_labels: Vec::new(),
            group_sizes: Vec::new(),
            list_keys: Keys::default(),
            joined_keys: Keys::default(),
        }
    }

    /// Whether a node has one child, a leaf.
    fn is_simple(&self, node: NodeId) -> bool {
        matches!(self.nodes.children(node), [child] if self.nodes.is_leaf(*child))
    }

    fn find_simple_labels(&mut self) {
        let trees = [self.columns, self.rows];
        for bags in &trees[..if self.symmetric { 1 } else { 2 }] {
            for tree in 0..bags.len() {
                for &node in bags.nodes(tree) {
                    let below = self.nodes.children(node);
                    self.widest = self.widest.max(below.len());
                    if !below.is_empty() && !self.is_simple(node) {
                        let label = self.nodes.label(node).index();
                        self.engine.simple[label] = false;
                    }
                }
            }
        }
    }

    /// Whether a node has a row of D: it is neither leaf nor simple preterminal.
    fn is_open(&self, node: NodeId) -> bool {
        !self.nodes.is_leaf(node) && !self.engine.simple[self.nodes.label(node).index()]
    }

    /// Numbers the columns' subtrees by label and first tree.
    fn number_subtrees(&mut self, crew: &mut Crew<'_>) -> Result<()> {
        for tree in 0..self.columns.len() {
            crew.pause()?;
            for &node in self.columns.nodes(tree) {
                if self.number[node.index()] != NONE || !self.is_open(node) {
                    continue;
                }
                let label = self.nodes.label(node);
                let group = &mut self.group[label.index()];
                if *group == NONE {
                    *group = self.group_sizes.len() as u32;
                    self.group_sizes.push(0);
                    self.group_labels.push(label.0);
                }
                let size = &mut self.group_sizes[*group as usize];
                self.number[node.index()] = new_id(self.column.len(), "subtrees")?;
                self.engine.arrivals.groups.push(*group);
                self.column.push(Column {
                    node,
                    group: *group,
                    local: *size,
                    slot: tree as u32,
                    listed: true,
                });
                *size += 1;
            }
            self.engine.arrivals.groups.close("subtrees")?;
        }
        Ok(())
    }

    /// Finds subtrees that stand more than once, and lists where.
    fn collect_shared(&mut self) -> Result<()> {
        let mut times = vec![0u32; self.column.len()];
        for tree in 0..self.columns.len() {
            for (node, count) in self.columns.iter(tree) {
                let number = self.number[node.index()];
                if number != NONE {
                    let times = &mut times[number as usize];
                    *times = times.saturating_add(count.min(2));
                }
            }
        }
        // From here on: the number among the shared, or NONE.
        let mut n_shared = 0;
        let n_trees = self.columns.len();
        for (column, times) in self.column.iter_mut().zip(&mut times) {
            if *times > 1 {
                column.slot = new_id(n_trees + 1 + n_shared as usize, "subtrees")?;
                *times = n_shared;
                n_shared += 1;
            } else {
                *times = NONE;
            }
        }
        let shared_of = times;
        // By first tree, as the columns are.
        let mut known = 0;
        let mut left = &shared_of[..];
        for new in self.engine.arrivals.groups.iter() {
            let (new, others) = left.split_at(new.len());
            known += new.iter().filter(|&&shared| shared != NONE).count() as u32;
            self.engine.tree_shared_ends.push(known);
            left = others;
        }
        let none = Shared { first: [(NONE, 0); 2], third: NONE, end: 0 };
        let mut shared = vec![none; n_shared as usize];
        let each = |f: &mut dyn FnMut(usize, (u32, u32))| {
            for tree in 0..self.columns.len() {
                for (node, count) in self.columns.iter(tree) {
                    let number = self.number[node.index()];
                    if number != NONE && shared_of[number as usize] != NONE {
                        f(shared_of[number as usize] as usize, (tree as u32, count));
                    }
                }
            }
        };
        each(&mut |number, item| {
            let shared = &mut shared[number];
            match shared.first {
                [(NONE, _), _] => shared.first[0] = item,
                [_, (NONE, _)] => shared.first[1] = item,
                _ => {
                    shared.third = shared.third.min(item.0);
                    shared.end += 1;
                }
            }
        });
        let mut end = 0;
        let mut at = Vec::with_capacity(shared.len());
        for Shared { end: len, .. } in &mut shared {
            at.push(end);
            end += *len;
            *len = end;
        }
        let mut rest = vec![(0, 0); end as usize];
        each(&mut |number, item| {
            if item.0 >= shared[number].third {
                rest[at[number] as usize] = item;
                at[number] += 1;
            }
        });
        self.engine.shared = shared;
        self.engine.shared_rest = rest;
        Ok(())
    }

    /// Lays out the groups, and finds the subtrees that must not be in lists.
    fn list_members(&mut self) -> Result<()> {
        let mut order = Filling::new(self.group_sizes.clone(), 0);
        for (number, column) in self.column.iter().enumerate() {
            order.put(column.group, number as u32);
        }
        let widest_listed = WIDE.min(self.engine.longest);
        let mut counts = vec![0u32; self.engine.n_labels];
        for group in order.done().iter() {
            for &number in group {
                self.add_member(number, widest_listed, &mut counts)?;
            }
            self.engine.members.close("subtrees")?;
            self.engine.unlisted.close("subtrees")?;
        }
        Ok(())
    }

    fn add_member(
        &mut self,
        number: u32,
        widest_listed: usize,
        counts: &mut [u32],
    ) -> Result<()> {
        let Column { node, local, slot, .. } = self.column[number as usize];
        let below = self.nodes.children(node);
        for &child in below {
            let child = self.column_below(child);
            self.engine.below.push(child);
        }
        let end = new_id(self.engine.below.len(), "edges")?;
        self.engine.members.push((slot, end));
        // Σ over labels of (children with it)², one child at a time.
        let mut same = 0;
        for &child in below {
            let count = &mut counts[self.nodes.label(child).index()];
            same += 2 * *count as usize + 1;
            *count += 1;
        }
        for &child in below {
            counts[self.nodes.label(child).index()] = 0;
        }
        if below.len() > widest_listed || same > REPEATED * below.len() {
            self.column[number as usize].listed = false;
            self.engine.unlisted.push(local);
        }
        Ok(())
    }

    fn column_below(&self, child: NodeId) -> Below {
        let label = self.nodes.label(child).0;
        let id = if self.nodes.is_leaf(child) {
            LEAF
        } else if self.engine.simple[label as usize] {
            child.0
        } else {
            self.column[self.number[child.index()] as usize].local
        };
        Below { label, id }
    }

    fn build_lists(&mut self) -> Result<()> {
        for column in &self.column {
            if column.listed {
                for &child in self.nodes.children(column.node) {
                    let label = self.nodes.label(child).0;
                    let is_leaf = u32::from(self.nodes.is_leaf(child));
                    let key = [column.group, label, is_leaf];
                    let list = self.list_keys.insert(key, "child lists")?;
                    self.engine.arrivals.lists.push(list);
                }
            }
            self.engine.arrivals.lists.close("edges")?;
        }
        let edges = &self.engine.arrivals.lists.items;
        let lens = lists::times(edges, self.list_keys.keys.len());
        let mut lists = Filling::new(lens, Entry::default());
        let mut edges = edges.iter();
        for column in self.column.iter().filter(|column| column.listed) {
            for (&child, &list) in
                self.nodes.children(column.node).iter().zip(&mut edges)
            {
                let child = self.column_below(child).id;
                lists.put(list, Entry { u: column.local, child, slot: column.slot });
            }
        }
        self.engine.lists = lists.done();
        Ok(())
    }

    fn build_pairs(&mut self, crew: &mut Crew<'_>) -> Result<()> {
        // Which two lists and gap each pair is of, in the order in which they are met
        // below.
        let mut met = Vec::new();
        let mut gap_keys = Keys::default();
        for lists in self.engine.arrivals.lists.iter() {
            crew.pause()?;
            for (j, &to) in lists.iter().enumerate() {
                for (i, &from) in lists[..j].iter().enumerate() {
                    let joined =
                        self.joined_keys.insert([from, to, 0], "pair lists")?;
                    let key = [joined, (j - i - 1) as u32, 0];
                    met.push(gap_keys.insert(key, "pair lists")?);
                }
            }
        }
        new_id(met.len(), "pairs of children")?;
        // From the order in which they were met to that of lists and gaps.
        let mut order: Vec<u32> = (0..gap_keys.keys.len() as u32).collect();
        order.sort_unstable_by_key(|&met| gap_keys.keys[met as usize]);
        let mut place = vec![0; order.len()];
        self.engine.gap_ends = vec![0; self.joined_keys.keys.len()];
        for (at, &met) in order.iter().enumerate() {
            place[met as usize] = at as u32;
            self.engine.gap_ends[gap_keys.keys[met as usize][0] as usize] =
                at as u32 + 1;
        }
        for met in &mut met {
            *met = place[*met as usize];
        }
        let mut ends = lists::times(&met, order.len());
        let mut at = lists::starts(&mut ends);
        let gaps = order.iter().map(|&met| gap_keys.keys[met as usize][1]);
        let weights = gaps.map(|gap| self.engine.powers[gap as usize]);
        self.engine.pair_ends = ends.into_iter().zip(weights).collect();
        let mut pairs = vec![Pair::default(); met.len()];
        let mut met = met.into_iter();
        // The place in its list of each child of the subtree at hand.
        let mut list_len = vec![0u32; self.engine.lists.len()];
        let mut places: Vec<u32> = Vec::new();
        for lists in self.engine.arrivals.lists.iter() {
            places.clear();
            for &list in lists {
                places.push(list_len[list as usize]);
                list_len[list as usize] += 1;
            }
            for (j, &to) in places.iter().enumerate() {
                for (&from, list) in places[..j].iter().zip(&mut met) {
                    let place = &mut at[list as usize];
                    pairs[*place as usize] = Pair { from, to };
                    *place += 1;
                }
            }
        }
        self.engine.pairs = pairs;
        Ok(())
    }

    fn build_rows(&mut self, crew: &mut Crew<'_>) -> Result<()> {
        // Row subtrees have numbers of their own: rows need not be columns.
        let mut row_number = vec![NONE; self.nodes.len()];
        // By group: children of all its members.
        let mut group_edges = vec![0u64; self.group_sizes.len()];
        for column in &self.column {
            let arity = self.nodes.children(column.node).len() as u64;
            group_edges[column.group as usize] += arity;
        }
        for tree in 0..self.rows.len() {
            crew.pause()?;
            for (node, count) in self.rows.iter(tree) {
                if !self.is_open(node) {
                    continue;
                }
                if row_number[node.index()] == NONE {
                    let number = new_id(self.engine.row_nodes.len(), "subtrees")?;
                    row_number[node.index()] = number;
                    self.add_row_node(node, &row_number, &group_edges)?;
                }
                self.engine.rows.push((row_number[node.index()], count));
            }
            self.engine.rows.close("subtrees")?;
        }
        Ok(())
    }

    fn add_row_node(
        &mut self,
        node: NodeId,
        row_number: &[u32],
        group_edges: &[u64],
    ) -> Result<()> {
        let nodes = self.nodes;
        let children = nodes.children(node);
        let group = self.group[nodes.label(node).index()];
        let mut way = Way::Grids;
        if group != NONE {
            let (first_edge, first_link) =
                (self.engine.edges.len(), self.engine.links.len());
            if children.len() <= WIDE {
                let cells = children.len() as u64 * group_edges[group as usize];
                if self.add_edges(group, children, row_number)? <= CELL * cells {
                    way = Way::Lists;
                }
            }
            if way == Way::Grids {
                self.engine.edges.truncate(first_edge);
                self.engine.links.truncate(first_link);
            }
            for &child in children {
                let label = nodes.label(child).0;
                let id = if nodes.is_leaf(child) {
                    LEAF
                } else if self.engine.simple[label as usize] {
                    child.0
                } else {
                    row_number[child.index()]
                };
                self.engine.row_below.push(Below { label, id });
            }
        }
        self.engine.row_nodes.push(RowNode {
            group,
            way,
            edges: new_id(self.engine.edges.len(), "edges")?,
            below: new_id(self.engine.row_below.len(), "edges")?,
        });
        Ok(())
    }

    /// Finds the lists that a row node's children match, and which of them have pairs:
    /// returns the length of all pair lists.
    fn add_edges(
        &mut self,
        group: u32,
        children: &[NodeId],
        row_number: &[u32],
    ) -> Result<u64> {
        let first = self.engine.edges.len();
        let mut positions = Vec::new();
        let mut n_pairs = 0;
        for (position, &child) in children.iter().enumerate() {
            let is_leaf = self.nodes.is_leaf(child);
            let label = self.nodes.label(child).0;
            for column_leaf in [false, true] {
                let key = [group, label, u32::from(column_leaf)];
                let Some(list) = self.list_keys.find(key) else { continue };
                let child = if is_leaf || column_leaf {
                    Child::Constant(self.engine.weights.of(is_leaf, column_leaf))
                } else if self.engine.simple[label as usize] {
                    Child::Simple(child.0)
                } else {
                    Child::Row(row_number[child.index()])
                };
                // With leaf_factor 0, leaves end every chain.
                if matches!(child, Child::Constant(0.0)) {
                    continue;
                }
                for (edge, &earlier) in positions.iter().enumerate() {
                    let from = self.engine.edges[first + edge].list;
                    let joined = self.joined_keys.find([from, list, 0]);
                    let Some(joined) = joined.filter(|_| earlier < position) else {
                        continue;
                    };
                    self.engine.edges[first + edge].goes_on = true;
                    let weight = self.engine.powers[position - earlier - 1];
                    self.engine.links.push(Link { edge: edge as u32, joined, weight });
                    let pairs = self.engine.pairs_of(joined);
                    n_pairs += pairs.map(|(pairs, _)| pairs.len() as u64).sum::<u64>();
                }
                positions.push(position);
                let links = new_id(self.engine.links.len(), "pairs of child lists")?;
                self.engine.edges.push(Edge { list, child, links, goes_on: false });
            }
        }
        Ok(n_pairs)
    }

    /// Single-node fragments, and simple preterminals with their leaf.
    fn count_symbols(&mut self, leaf_factor: f64) -> Result<()> {
        let nodes = self.nodes;
        let any = |_: NodeId| true;
        let leaf = |node: NodeId| nodes.is_leaf(node);
        let inner = |node: NodeId| !nodes.is_leaf(node);
        let label = |node: NodeId| nodes.label(node).0;
        let n_labels = self.engine.n_labels;
        let Weights { inner: both_inner, mixed, leaf: both_leaves } =
            self.engine.weights;
        if leaf_factor == 1.0 {
            self.add_base(both_inner, n_labels, label, any, any)?;
        } else {
            self.add_base(both_inner, n_labels, label, inner, inner)?;
            if leaf_factor > 0.0 {
                self.add_base(both_leaves, n_labels, label, leaf, leaf)?;
                self.add_base(mixed, n_labels, label, leaf, inner)?;
                self.add_base(mixed, n_labels, label, inner, leaf)?;
            }
        }
        if both_leaves > 0.0 {
            // Equal simple preterminals, numbered from 0.
            let mut number = vec![NONE; nodes.len()];
            let mut n_symbols = 0;
            for tree in 0..self.columns.len() {
                for &node in self.columns.nodes(tree) {
                    let simple =
                        inner(node) && self.engine.simple[label(node) as usize];
                    if simple && number[node.index()] == NONE {
                        number[node.index()] = n_symbols;
                        n_symbols += 1;
                    }
                }
            }
            let simple = |node: NodeId| number[node.index()] != NONE;
            let symbol = |node: NodeId| number[node.index()];
            let weight = self.engine.mu * both_leaves;
            self.add_base(weight, n_symbols as usize, symbol, simple, simple)?;
        }
        Ok(())
    }

    fn add_base(
        &mut self,
        weight: f64,
        n_symbols: usize,
        symbol: impl Fn(NodeId) -> u32,
        in_rows: impl Fn(NodeId) -> bool,
        in_columns: impl Fn(NodeId) -> bool,
    ) -> Result<()> {
        let columns = tally(self.columns, n_symbols, &symbol, in_columns)?;
        let mut rows = tally(self.rows, n_symbols, &symbol, in_rows)?;
        // What no column has need not be looked up: where leaves and inner nodes have no
        // label in common, that is all.
        let mut known = vec![false; n_symbols];
        columns.items.iter().for_each(|&(symbol, _)| known[symbol as usize] = true);
        rows.retain(|&(symbol, _)| known[symbol as usize]);
        if rows.items.is_empty() {
            return Ok(());
        }
        let of = |tree| columns.get(tree).iter().copied();
        let products = Products::new(weight, n_symbols, of, columns.len(), rows)?;
        self.engine.bases.push(products);
        Ok(())
    }
}

/// The symbols of all nodes that `of` takes.
fn tally(
    trees: &Bags,
    n_symbols: usize,
    symbol: impl Fn(NodeId) -> u32,
    of: impl Fn(NodeId) -> bool,
) -> Result<Lists<(u32, u32)>> {
    let mut tally = Tally::new(n_symbols);
    let mut all = Lists::default();
    for tree in 0..trees.len() {
        for (node, count) in trees.iter(tree).filter(|&(node, _)| of(node)) {
            tally.add(symbol(node), count);
        }
        all.extend(tally.drain());
        all.close("pairs of tree and label")?;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::super::Engine as _;
    use super::*;
    use crate::Forest;
    use crate::corpus::Random;
    use crate::kernel::partial::tests::{
        Parameters, all_parameters, assert_close, kelp, random_trees,
    };
    use crate::kernel::{Pairs, partial};

    const USUAL: Parameters =
        Parameters { decay: 0.4, mu: 0.4, leaf_factor: 1.0, max_children: None };

    fn parsed(texts: &[String]) -> Forest {
        Forest::from_bracket_items(texts.iter().map(String::as_str)).unwrap()
    }

    impl Parameters {
        fn engine(&self, nodes: &Nodes, columns: &Bags, rows: Option<&Bags>) -> Engine {
            let Self { decay, mu, leaf_factor, max_children } = *self;
            let params = Params { decay, mu, leaf_factor, max_children };
            let mut watch = || Ok(());
            let crew = &mut Crew::alone(&mut watch);
            Engine::new(nodes, params, columns, rows, crew).unwrap()
        }
    }

    #[test]
    fn rows_agree_with_the_definition_in_any_order() {
        let mut n_pairs = 0;
        for (seed, parameters) in all_parameters().into_iter().enumerate() {
            let mut random = Random(seed as u64);
            let texts = random_trees(24, 14, 1000 + seed as u64);
            let forest = parsed(&texts);
            let n = texts.len();
            let expected: Vec<Vec<f64>> = (0..n)
                .map(|a| (0..n).map(|b| parameters.naive(&forest, a, b)).collect())
                .collect();
            let check = |row: &[f64], a: usize, first: usize| {
                for (b, &value) in row.iter().enumerate() {
                    let b = first + b;
                    assert_close(value, expected[a][b], &|| {
                        format!("{parameters:?}\n{}\n{}", texts[a], texts[b])
                    });
                }
            };
            let nodes = forest.nodes();
            let all = Bags::new(nodes, forest.roots()).unwrap();
            let engine = parameters.engine(nodes, &all, None);
            let mut scratch = engine.scratch();
            let mut first: Vec<Option<Vec<f64>>> = vec![None; n];
            for turn in 0..3 * n {
                // Up, then anyhow, and once with a new scratch.
                let x = if turn < n { turn } else { random.below(n) };
                if turn == 2 * n {
                    scratch = engine.scratch();
                }
                let mut row = vec![f64::NAN; x + 1];
                engine.row(x, &mut scratch, &mut row);
                check(&row, x, 0);
                n_pairs += row.len();
                assert_eq!(*first[x].get_or_insert(row.clone()), row, "same bits");
            }
            // The first half against the second.
            let half = n / 2;
            let rows = Bags::new(nodes, &forest.roots()[..half]).unwrap();
            let columns = Bags::new(nodes, &forest.roots()[half..]).unwrap();
            let engine = parameters.engine(nodes, &columns, Some(&rows));
            let mut scratch = engine.scratch();
            let mut row = vec![f64::NAN; n - half];
            for x in (0..half).rev() {
                engine.row(x, &mut scratch, &mut row);
                check(&row, x, half);
                n_pairs += row.len();
            }
        }
        assert!(n_pairs >= 10_000, "{n_pairs}");
    }

    /// Rows against single pairs, symmetric and rectangular.
    fn assert_rows_are_pairs(texts: &[String], parameters: Parameters) {
        let forest = parsed(texts);
        let nodes = forest.nodes();
        let trees = parameters.trees(&forest);
        let mut pairs = partial::Scratch::<f64>::default();
        let all = Bags::new(nodes, forest.roots()).unwrap();
        for rows in [None, Some(&all)] {
            let engine = parameters.engine(nodes, &all, rows);
            let mut scratch = engine.scratch();
            for x in 0..texts.len() {
                let n = if rows.is_some() { texts.len() } else { x + 1 };
                let mut row = vec![0.0; n];
                engine.row(x, &mut scratch, &mut row);
                for (t, &value) in row.iter().enumerate() {
                    let expected = trees.pair(x, t, &mut pairs);
                    assert_close(value, expected, &|| {
                        format!("{parameters:?} {x} {t}")
                    });
                }
            }
        }
    }

    #[test]
    fn rows_agree_with_single_pairs_on_larger_trees() {
        for (seed, size) in [(1, 30), (2, 100), (3, 300), (4, 1000)] {
            for leaf_factor in [0.0, 1.0, 5.0] {
                for max_children in [None, Some(5)] {
                    let parameters = Parameters { leaf_factor, max_children, ..USUAL };
                    assert_rows_are_pairs(&random_trees(40, size, seed), parameters);
                }
            }
        }
    }

    /// Nodes just below, at and above where lists are given up.
    #[test]
    fn guards_hold_at_their_boundaries() {
        let sizes = [
            REPEATED - 1,
            REPEATED,
            REPEATED + 1,
            WIDE - 1,
            WIDE,
            WIDE + 1,
            255,
            256,
            257,
        ];
        for n_labels in [1, 3, 1000] {
            let mut texts = Vec::new();
            for size in sizes {
                for inner in [false, true] {
                    let child = |i: usize| {
                        if inner {
                            format!("(p{} w{})", i % n_labels, i % 2)
                        } else {
                            format!("w{}", i % n_labels)
                        }
                    };
                    let children: Vec<_> = (0..size).map(child).collect();
                    texts.push(format!("(S {})", children.join(" ")));
                    texts.push(format!("(S (S {}) p0 p1)", children.join(" ")));
                }
            }
            assert_rows_are_pairs(&texts, USUAL);
            let bounded = Parameters { max_children: Some(REPEATED), ..USUAL };
            assert_rows_are_pairs(&texts, bounded);
        }
    }

    /// A row's node that must go by grids though all columns are in lists.
    #[test]
    fn rows_with_longer_pair_lists_than_grids_take_grids() {
        let row = format!("(S {})", "a ".repeat(WIDE));
        let columns = (1..=REPEATED).map(|n| format!("(S {})", "a ".repeat(n)));
        let texts: Vec<String> = columns.chain([row]).collect();
        let forest = parsed(&texts);
        let bags = |roots| Bags::new(forest.nodes(), roots).unwrap();
        let (columns, rows) =
            (bags(&forest.roots()[..REPEATED]), bags(&forest.roots()[REPEATED..]));
        let engine = USUAL.engine(forest.nodes(), &columns, Some(&rows));
        assert!(engine.unlisted.items.is_empty());
        assert_eq!(engine.row_nodes[0].way, Way::Grids);
        assert_rows_are_pairs(&texts, USUAL);
    }

    #[test]
    fn counts_of_65_536_are_right() {
        // Roots differ in their labels, so only the preterminals meet.
        let sizes = [255, 256, 257, 65_535, 65_536, 65_537];
        let texts = sizes.map(|n| format!("(S{n} {})", "(P a)".repeat(n)));
        let forest = parsed(&texts);
        let all = Bags::new(forest.nodes(), forest.roots()).unwrap();
        let rows = Bags::new(forest.nodes(), &forest.roots()[5..]).unwrap();
        let columns = Bags::new(forest.nodes(), &forest.roots()[..3]).unwrap();
        let d = 0.4 * (0.16 + 0.064) + 0.064; // P with a, and a
        // Columns alone would fit 16 bits.
        let engine = USUAL.engine(forest.nodes(), &columns, Some(&rows));
        let mut row = vec![0.0; 3];
        engine.row(0, &mut engine.scratch(), &mut row);
        for (value, n) in row.iter().zip([255.0, 256.0, 257.0]) {
            assert_close(*value, d * n * 65_537.0, &|| format!("{n}"));
        }
        let engine = USUAL.engine(forest.nodes(), &all, None);
        let mut row = vec![0.0; 5];
        engine.row(5, &mut engine.scratch(), &mut row);
        assert_close(row[4], d * 65_536.0 * 65_537.0, &|| "65,536".into());
    }

    #[test]
    fn nodes_of_65_536_children_take_no_quadratic_time() {
        let texts = [65_535, 65_536, 65_537].map(|n| {
            let words: Vec<_> = (n % 100..n).map(|word| format!("w{word}")).collect();
            format!("(S {})", words.join(" "))
        });
        assert_rows_are_pairs(&texts, USUAL);
    }

    #[test]
    fn deep_trees_need_no_quadratic_memory() {
        // One label: 4 * 10^8 values of D, of which two rows are kept at a time.
        let chain = |n: usize| format!("{}x{}", "(A ".repeat(n), ")".repeat(n));
        let forest = parsed(&[chain(20_000)]);
        let all = Bags::new(forest.nodes(), forest.roots()).unwrap();
        let engine = USUAL.engine(forest.nodes(), &all, None);
        let mut scratch = engine.scratch();
        let mut row = [0.0];
        engine.row(0, &mut scratch, &mut row);
        assert!(row[0] > 0.0);
        assert!(scratch.vals.iter().all(|vals| vals.capacity() == 0));
        assert!(scratch.free.len() <= 2);
        let labels =
            |n: usize| (0..n).fold(String::new(), |s, i| s + &format!("(A{i} "));
        let deep = format!("{}x{}", labels(100_000), ")".repeat(100_000));
        assert_rows_are_pairs(&[deep, chain(300)], USUAL);
    }

    #[test]
    fn lists_grow_beyond_65_536_entries() {
        let texts: Vec<_> =
            (0..66_000).map(|n| format!("(X (A y z) w{n} y)")).collect();
        let forest = parsed(&texts);
        let all = Bags::new(forest.nodes(), forest.roots()).unwrap();
        let engine = USUAL.engine(forest.nodes(), &all, None);
        let trees = USUAL.trees(&forest);
        let mut pairs = partial::Scratch::<f64>::default();
        let mut row = vec![0.0; 66_000];
        engine.row(65_999, &mut engine.scratch(), &mut row);
        for (t, &value) in row.iter().enumerate() {
            let expected = trees.pair(65_999, t, &mut pairs);
            assert_close(value, expected, &|| format!("{t}"));
        }
    }

    #[test]
    fn overflow_stays_in_its_column() {
        let all = Parameters { decay: 1.0, mu: 1.0, ..USUAL };
        let texts: Vec<String> =
            [1200, 3, 1200, 5].map(|n| format!("(S {})", "a ".repeat(n))).into();
        let texts = [&texts[..], &["(T (S a a) a)".into()]].concat();
        let forest = parsed(&texts);
        let bags = Bags::new(forest.nodes(), forest.roots()).unwrap();
        let engine = all.engine(forest.nodes(), &bags, Some(&bags));
        let mut scratch = engine.scratch();
        for x in 0..5 {
            let mut row = vec![0.0; 5];
            engine.row(x, &mut scratch, &mut row);
            for (t, value) in row.iter().enumerate() {
                let huge = [x, t].iter().all(|i| [0, 2].contains(i));
                assert_eq!(value.is_finite(), !huge, "{x} {t}");
            }
        }
    }

    #[test]
    fn kelp_scores_are_reproduced() {
        let Some((kelp, forest, scores)) = kelp() else { return };
        let all = Bags::new(forest.nodes(), forest.roots()).unwrap();
        let engine = kelp.engine(forest.nodes(), &all, None);
        let mut scratch = engine.scratch();
        let mut before = 0.0f64;
        let mut scores = scores.into_iter();
        for x in 0..forest.len() {
            let mut row = vec![0.0; x + 1];
            engine.row(x, &mut scratch, &mut row);
            let own = row[x];
            if x > 0 {
                let value = row[x - 1] / (before * own).sqrt();
                let score = scores.next().unwrap();
                assert!((value - score).abs() < 2e-7, "line {x}: {value} {score}");
            }
            before = own;
        }
    }
}
