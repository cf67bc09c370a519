//! Pairs of trees made ready, and what two trees have in common: a forest.
//!
//! Two nodes are *aligned* if their productions are equal (label, labels of the children,
//! and which of these nodes carry placeholders) and the production's own constraint, its
//! pairs of placeholders, is consistent. A fragment that two trees share can go on from
//! an aligned pair (n1, n2) only to the children of n1 and n2 at the same place, and come
//! to it only from their parents: aligned pairs form a **forest**, and a pair of equal
//! fragments is a connected part of one of its trees.
//!
//! Without constraints that is the subset tree kernel,
//! Δ(n1, n2) = λ Π (1 + Δ(child, child')), computed as pairs are found: that is all there
//! is to do where no two placeholder pairs are in conflict.
//!
//! # Complexity
//! Finding: linear in the trees plus the aligned pairs, by a table of productions in which
//! the first tree hangs, as long as callers go row by row. Memory: a number per aligned
//! pair.

use super::constraints::{Bits, Bounded, Budget, Stop, Universe, code};
use super::forest::{PairForest, Side, renumbered};
use crate::intern::new_id;
use crate::kernel::Number;
use crate::memory;
use crate::ragged::Ragged;
use crate::{Context, Error, NodeId, ProductionId, Result};

pub(crate) const NONE: u32 = u32::MAX;

/// An inner node of a tree.
#[derive(Debug, Clone, Copy)]
struct Inner {
    /// As in the forest's store.
    production: u32,
    /// Its number among the tree's nodes with this production.
    rank: u32,
    /// Where its children start, and how many there are.
    children: u32,
    n_children: u32,
    /// Where the placeholders of its production start, and how many there are.
    marks: u32,
    n_marks: u32,
}

/// Pairs of trees made ready.
#[derive(Debug)]
pub(crate) struct PairTrees {
    n_productions: usize,
    /// Per tree (two for each pair): its inner nodes, children before parents.
    nodes: Ragged<Inner>,
    /// By node: its children among the tree's inner nodes; NONE for a leaf.
    children: Vec<u32>,
    /// By node: placeholders of the node and its children that carry one, in order.
    marks: Vec<u32>,
    /// Per tree: its nodes by production.
    members: Ragged<u32>,
    /// Per tree: its productions: (production, where its nodes start among `members`,
    /// how many).
    groups: Ragged<(u32, u32, u32)>,
    /// Per pair: what its placeholders, numbered from 0, are called.
    names: Ragged<u32>,
}

impl PairTrees {
    /// Makes some pairs of a list ready, one after another.
    pub(crate) fn new(list: &PairForest, context: &Context) -> Result<Self> {
        let mut trees = Self {
            n_productions: list.forest().nodes().n_productions(),
            nodes: Ragged::default(),
            children: Vec::new(),
            marks: Vec::new(),
            members: Ragged::default(),
            groups: Ragged::default(),
            names: Ragged::default(),
        };
        let mut reader = Reader::default();
        for pair in 0..list.len() {
            let (ids, names) = renumbered(list.placeholders(pair))?;
            let mut ids = ids.into_iter();
            for side in Side::BOTH {
                trees.push(
                    list,
                    list.root(pair, side),
                    &mut ids,
                    &mut reader,
                    context,
                )?;
            }
            trees.names.extend(names)?;
            trees.names.close("placeholders")?;
        }
        Ok(trees)
    }

    fn push(
        &mut self,
        list: &PairForest,
        root: NodeId,
        ids: &mut impl Iterator<Item = u32>,
        reader: &mut Reader,
        context: &Context,
    ) -> Result<()> {
        let store = list.forest().nodes();
        // 1. The tree in preorder, with the placeholders that its nodes carry.
        let order = &mut reader.order;
        order.clear();
        reader.todo.clear(); // what an error left
        memory::push(&mut reader.todo, (root, NONE))?;
        while let Some((node, parent)) = reader.todo.pop() {
            context.check()?;
            let carries = super::forest::unmarked(store.name(node)).1;
            let mark = if carries { ids.next().unwrap_or(NONE) } else { NONE };
            let place = new_id(order.len(), "nodes in one tree")?;
            memory::push(order, Visit { node, parent, mark, inner: NONE })?;
            let below = store.children(node).iter().rev();
            memory::extend(&mut reader.todo, below.map(|&child| (child, place)))?;
        }
        // 2. Inner nodes. Backwards through a preorder children come before parents, and of each
        // parent's the last one first.
        let start = self.nodes.items.len();
        reader.below.clear();
        memory::reach_with(&mut reader.below, order.len(), Vec::new)?;
        for place in (0..order.len()).rev() {
            context.check()?;
            let Visit { node, parent, mark, .. } = order[place];
            if let Some(ProductionId(production)) = store.production(node) {
                order[place].inner = (self.nodes.items.len() - start) as u32;
                let children = std::mem::take(&mut reader.below[place]);
                let first = new_id(self.children.len(), "children, tree by tree")?;
                let marks = new_id(self.marks.len(), PLACEHOLDERS)?;
                let below = children.iter().rev().map(|&child| order[child as usize]);
                let inner = below.clone().map(|visit| visit.inner);
                memory::extend(&mut self.children, inner)?;
                // The node's own placeholder, then those of its children from left to
                // right: where productions are equal, the lists of two nodes match
                // place by place.
                let carried =
                    std::iter::once(mark).chain(below.map(|visit| visit.mark));
                let carried = carried.filter(|&mark| mark != NONE);
                memory::extend(&mut self.marks, carried)?;
                self.nodes.push(Inner {
                    production,
                    rank: 0,
                    children: first,
                    n_children: children.len() as u32,
                    marks,
                    n_marks: (self.marks.len() - marks as usize) as u32,
                })?;
            }
            if parent != NONE {
                memory::push(&mut reader.below[parent as usize], place as u32)?;
            }
        }
        // 3. Nodes by production.
        let nodes = &mut self.nodes.items[start..];
        let members = &mut reader.members;
        members.clear();
        memory::extend(members, 0..nodes.len() as u32)?;
        // By number within a production, so children still come before parents.
        members.sort_unstable_by_key(|&at| (nodes[at as usize].production, at));
        let mut last = NONE;
        let mut rank = 0;
        for (at, &member) in members.iter().enumerate() {
            let node = &mut nodes[member as usize];
            if node.production != last {
                (last, rank) = (node.production, 0);
                self.groups.push((last, at as u32, 0))?;
            }
            node.rank = rank;
            rank += 1;
            if let Some(group) = self.groups.items.last_mut() {
                group.2 = rank;
            }
        }
        self.members.extend(members.iter().copied())?;
        self.nodes.close("nodes, tree by tree")?;
        self.members.close("nodes, tree by tree")?;
        self.groups.close("productions, tree by tree")
    }

    /// How many placeholders a pair has.
    pub(crate) fn n_placeholders(&self, pair: usize) -> usize {
        self.names.get(pair).len()
    }

    /// What two placeholders of two pairs, given as a code, are called.
    pub(crate) fn named(&self, a: usize, b: usize, code: u64) -> (u32, u32) {
        let name = |pair: usize, id: u32| self.names.get(pair)[id as usize];
        (name(a, (code >> 32) as u32), name(b, code as u32))
    }

    #[inline]
    fn marks(&self, node: &Inner) -> &[u32] {
        &self.marks[node.marks as usize..][..node.n_marks as usize]
    }

    #[inline]
    fn children(&self, node: &Inner) -> &[u32] {
        &self.children[node.children as usize..][..node.n_children as usize]
    }

    /// Finds what two trees of two pairs have in common: the value without constraints
    /// goes into `found`, the placeholder pairs into `codes`.
    pub(crate) fn align<N: Number>(
        &self,
        [a, b]: [usize; 2],
        side: Side,
        decay: f64,
        found: &mut Found<N>,
        codes: &mut Vec<u64>,
        budget: &mut Budget<'_, '_>,
    ) -> Bounded<()> {
        let (a, b) = (2 * a + side as usize, 2 * b + side as usize);
        found.clear();
        let loaded_tree = &mut found.loaded_tree;
        loaded_tree.load(self, a)?;
        let (decay, one) = (N::from_f64(decay), N::from_f64(1.0));
        let of_a = self.nodes.get(a);
        let of_b = self.nodes.get(b);
        let members = self.members.get(a);
        let mut since_sort = 0;
        // As many as can fit together, and those in conflict that sets may have.
        let room = (self.names.get(a / 2).len() + self.names.get(b / 2).len())
            .saturating_add(budget.most_bytes().saturating_mul(8).isqrt() as usize);
        // Small trees cannot have too many, and counting takes a pass of its own.
        if of_a.len().saturating_mul(of_b.len()) > MAX_UNCHECKED {
            let aligned = self.aligned(loaded_tree, b)?;
            memory::reserve(&mut found.delta, aligned)?;
        }
        memory::reserve(&mut found.starts, of_b.len())?;
        for node in of_b {
            let (stamp, start, len) = loaded_tree.table[node.production as usize];
            // The first tree has no node with this production.
            if stamp != loaded_tree.stamp {
                found.starts.push(NONE); // has room
                continue;
            }
            // 1. Room for the node's pairs.
            found.starts.push(new_id(found.delta.len(), "aligned nodes")?); // has room
            memory::reserve(&mut found.delta, len as usize)?;
            let (marks, below) = (self.marks(node), self.children(node));
            let work = len as usize * (1 + marks.len() + below.len());
            budget.work(4 * work)?;
            since_sort += len as usize * marks.len();
            if since_sort > CODES_BETWEEN_SORTS {
                since_sort = 0;
                // Most repeat: so they take no more room than the placeholders' pairs.
                codes.sort_unstable();
                codes.dedup();
                // More pairs of placeholders than fit together: so many are in conflict
                // that their sets cannot be within the limit either.
                if codes.len() > room {
                    return Err(Stop::Limit);
                }
            }
            for &u in &members[start as usize..][..len as usize] {
                let other = &of_a[u as usize];
                // 2. A pair whose own placeholders do not go together has nothing.
                if !marks.is_empty() {
                    let others = self.marks(other);
                    if !loaded_tree.partners.is_bijection(others, marks)? {
                        found.delta.push(N::from_f64(0.0)); // has room
                        continue;
                    }
                    let pairs = others.iter().zip(marks);
                    memory::extend(codes, pairs.map(|(&a, &b)| code(a, b)))?;
                }
                // 3. λ Π (1 + that of each pair of children).
                let mut product = decay;
                for (&x, &y) in self.children(other).iter().zip(below) {
                    if x == NONE || y == NONE {
                        continue;
                    }
                    // Children come before parents in both trees, so the pairs of these
                    // two are there; the rank tells which of them.
                    let (x, y) = (&of_a[x as usize], y as usize);
                    if x.production == of_b[y].production {
                        let at = (found.starts[y] + x.rank) as usize;
                        product = product * (one + found.delta[at]);
                    }
                }
                found.total = found.total + product;
                found.delta.push(product); // has room
            }
        }
        Ok(())
    }

    /// How many pairs of nodes with equal productions two trees have: the tree that hangs,
    /// and `b`. More than fit into memory are refused.
    fn aligned(&self, loaded_tree: &TreeTable, b: usize) -> Result<usize> {
        let aligned = self.groups.get(b).iter().map(|&(production, _, n)| {
            let (stamp, _, len) = loaded_tree.table[production as usize];
            if stamp == loaded_tree.stamp { u64::from(n) * u64::from(len) } else { 0 }
        });
        let (needed, limit) = (aligned.fold(0, u64::saturating_add), MAX_ALIGNED);
        if needed > limit {
            let (what, unit) = ("the comparison of two trees", "pairs of nodes");
            return Err(Error::Expansion { what, unit, needed, limit });
        }
        Ok(needed as usize)
    }

    /// The forest behind what was just found by [`align`](Self::align), with each node's
    /// constraint as far as the universe has its members.
    pub(crate) fn forest<B: Bits, N: Number>(
        &self,
        [a, b]: [usize; 2],
        side: Side,
        found: &Found<N>,
        universe: &Universe<B>,
    ) -> Result<Aligned<B, N>> {
        let (a, b) = (2 * a + side as usize, 2 * b + side as usize);
        let (of_a, of_b) = (self.nodes.get(a), self.nodes.get(b));
        let members = self.members.get(a);
        let groups = self.groups.get(a);
        let mut aligned = Aligned {
            constraints: Vec::new(),
            below: Vec::new(),
            delta: Vec::new(),
            sum: Vec::new(),
            children: Ragged::default(),
            roots: Vec::new(),
        };
        let zero = N::from_f64(0.0);
        // By place among what was found: its number among nodes that are consistent.
        let mut number = memory::filled(NONE, found.delta.len())?;
        let mut has_parent: Vec<bool> = Vec::new();
        for (v, node) in of_b.iter().enumerate() {
            let at = found.starts[v];
            if at == NONE {
                continue;
            }
            // Groups are sorted by production, and this one is there, as the node has
            // pairs.
            let group = groups.partition_point(|group| group.0 < node.production);
            let (_, start, len) = groups[group];
            for (rank, &u) in
                members[start as usize..][..len as usize].iter().enumerate()
            {
                let place = at as usize + rank;
                if found.delta[place] == zero {
                    continue;
                }
                let other = &of_a[u as usize];
                // 1. The pair's own constraint.
                let mut constraint = universe.none()?;
                for (&a, &b) in self.marks(other).iter().zip(self.marks(node)) {
                    // A pair without a number is in conflict with none, so it need not
                    // be told.
                    if let Some(bit) = universe.bit(code(a, b)) {
                        constraint.insert(bit); // has room
                    }
                }
                // 2. Its children, and what can come from below.
                let mut below = constraint.copied()?;
                let mut sum = found.delta[place];
                for (&x, &y) in self.children(other).iter().zip(self.children(node)) {
                    if x == NONE || y == NONE {
                        continue;
                    }
                    let (x, y) = (&of_a[x as usize], y as usize);
                    if x.production != of_b[y].production {
                        continue;
                    }
                    // Pairs of children come first, so those that are consistent have
                    // numbers.
                    let child = number[(found.starts[y] + x.rank) as usize];
                    if child != NONE {
                        aligned.children.push(child)?;
                        has_parent[child as usize] = true;
                        below.add(&aligned.below[child as usize]);
                        sum = sum + aligned.sum[child as usize];
                    }
                }
                aligned.children.close("aligned nodes")?;
                number[place] = aligned.constraints.len() as u32;
                memory::push(&mut has_parent, false)?;
                memory::push(&mut aligned.constraints, constraint)?;
                memory::push(&mut aligned.below, below)?;
                memory::push(&mut aligned.delta, found.delta[place])?;
                memory::push(&mut aligned.sum, sum)?;
            }
        }
        // What no other pair has as a child is the root of a tree.
        let roots = has_parent.iter().enumerate().filter(|(_, has)| !**has);
        aligned.roots = memory::collect(roots.map(|(root, _)| root as u32))?;
        Ok(aligned)
    }
}

const PLACEHOLDERS: &str = "placeholders of productions, tree by tree";
/// Pairs of placeholders between two sorts.
const CODES_BETWEEN_SORTS: usize = 1 << 18;
/// The most pairs of nodes with equal productions that two trees may have: 2^25 take 256
/// MB, and as much again where values overflow floats.
const MAX_ALIGNED: u64 = 1 << 25;
/// Trees with fewer pairs of nodes are not asked for them.
const MAX_UNCHECKED: usize = 1 << 20;

#[derive(Debug, Clone, Copy)]
struct Visit {
    node: NodeId,
    /// The place of its parent in preorder; NONE for the root.
    parent: u32,
    /// Its placeholder, renumbered from 0; NONE: it carries none.
    mark: u32,
    /// Its number among the tree's inner nodes; NONE for a leaf.
    inner: u32,
}

#[derive(Default)]
struct Reader {
    /// The tree's nodes in preorder.
    order: Vec<Visit>,
    /// Nodes to be visited, each with its parent's place.
    todo: Vec<(NodeId, u32)>,
    /// By place: the places of the children seen so far, the last child first.
    below: Vec<Vec<u32>>,
    /// The tree's inner nodes, sorted by production.
    members: Vec<u32>,
}

/// The table in which a first tree hangs until another one does.
#[derive(Debug, Default)]
struct TreeTable {
    /// The tree whose productions the table has.
    tree: Option<usize>,
    /// Which entries are this tree's: others are left from earlier ones.
    stamp: u32,
    /// By production: stamp, and the tree's nodes with it among its `members`.
    table: Vec<(u32, u32, u32)>,
    partners: Partners,
}

impl TreeTable {
    fn load(&mut self, trees: &PairTrees, tree: usize) -> Result<()> {
        if self.tree == Some(tree) {
            return Ok(());
        }
        // A new stamp makes all older entries void, so the table is cleared only when
        // stamps run out.
        if self.table.len() != trees.n_productions || self.stamp == u32::MAX {
            self.tree = None;
            self.table.clear();
            memory::reach(&mut self.table, trees.n_productions, (0, 0, 0))?;
            self.stamp = 0;
        }
        self.stamp += 1;
        self.tree = Some(tree);
        for &(production, start, len) in trees.groups.get(tree) {
            self.table[production as usize] = (self.stamp, start, len);
        }
        Ok(())
    }
}

/// Which placeholder each one falls onto, within one production.
#[derive(Debug, Default)]
struct Partners {
    stamp: u32,
    by_side: [Vec<(u32, u32)>; 2],
}

impl Partners {
    /// Whether the pairs of two lists are a partial bijection.
    #[inline]
    fn is_bijection(&mut self, a: &[u32], b: &[u32]) -> Result<bool> {
        match (a, b) {
            ([_], [_]) => Ok(true),
            // Most are short: so nothing is written down.
            ([a, c], [b, d]) => Ok((a == c) == (b == d)),
            _ => self.are_partners(a, b),
        }
    }

    fn are_partners(&mut self, a: &[u32], b: &[u32]) -> Result<bool> {
        // Stamps tell entries of this call from older ones.
        if self.stamp == u32::MAX {
            *self = Self::default();
        }
        self.stamp += 1;
        let stamp = self.stamp;
        for (entries, from) in self.by_side.iter_mut().zip([a, b]) {
            let len = from.iter().max().map_or(0, |&most| most as usize + 1);
            memory::reach(entries, len, (0, 0))?;
        }
        let mut falls = |side: usize, from: u32, to: u32| {
            let entries = &mut self.by_side[side];
            let entry = &mut entries[from as usize];
            let free = entry.0 != stamp;
            if free {
                *entry = (stamp, to);
            }
            free || entry.1 == to
        };
        Ok(a.iter().zip(b).all(|(&a, &b)| falls(0, a, b) && falls(1, b, a)))
    }
}

/// What two trees have in common, without constraints between productions; and the first
/// of them, which hangs until another one does.
#[derive(Debug)]
pub(crate) struct Found<N> {
    loaded_tree: TreeTable,
    /// By node of the second tree: where its aligned pairs start; NONE: it has none.
    starts: Vec<u32>,
    /// Δ; zero for two nodes whose own constraint is inconsistent.
    delta: Vec<N>,
    /// Σ Δ.
    pub(crate) total: N,
}

impl<N: Number> Found<N> {
    pub(crate) fn new() -> Self {
        Self {
            loaded_tree: TreeTable::default(),
            starts: Vec::new(),
            delta: Vec::new(),
            total: N::from_f64(0.0),
        }
    }

    /// How many pairs of nodes there are with equal productions.
    pub(crate) fn len(&self) -> usize {
        self.delta.len()
    }

    fn clear(&mut self) {
        self.starts.clear();
        self.delta.clear();
        self.total = N::from_f64(0.0);
    }
}

/// The forest of aligned pairs, children before parents.
#[derive(Debug)]
pub(crate) struct Aligned<B, N> {
    /// The constraint of the pair's own production.
    pub(crate) constraints: Vec<B>,
    /// The members of all constraints of the pair and what is below it.
    pub(crate) below: Vec<B>,
    /// Δ without constraints.
    pub(crate) delta: Vec<N>,
    /// Σ Δ of the pair and all below it.
    pub(crate) sum: Vec<N>,
    pub(crate) children: Ragged<u32>,
    pub(crate) roots: Vec<u32>,
}

impl<B: Bits, N: Number> Aligned<B, N> {
    /// All members of all constraints.
    pub(crate) fn members(&self, none: B) -> B {
        let mut members = none;
        self.roots.iter().for_each(|&root| members.add(&self.below[root as usize]));
        members
    }

    /// K_S: Σ λ^productions of all pairs of equal fragments whose constraint is inside
    /// `allowed`. `scratch` is room for one value per node.
    pub(crate) fn inside(
        &self,
        allowed: &B,
        decay: f64,
        scratch: &mut Vec<N>,
        budget: &mut Budget<'_, '_>,
    ) -> Bounded<N> {
        budget.step(self.constraints.len())?;
        scratch.clear();
        memory::reserve(scratch, self.constraints.len())?;
        let (decay, one) = (N::from_f64(decay), N::from_f64(1.0));
        let mut total = N::from_f64(0.0);
        for (node, constraint) in self.constraints.iter().enumerate() {
            if !constraint.is_within(allowed) {
                scratch.push(N::from_f64(0.0)); // has room
                continue;
            }
            let below = self.children.get(node).iter();
            // A child outside has Δ = 0: its factor is 1, and fragments end there.
            let delta = below.fold(decay, |product, &child| {
                product * (one + scratch[child as usize])
            });
            scratch.push(delta); // has room
            total = total + delta;
        }
        Ok(total)
    }
}

impl Stop {
    /// The error, where it is not the limit's.
    pub(crate) fn into_error(self, limit: impl FnOnce() -> Error) -> Error {
        match self {
            Self::Limit => limit(),
            Self::Error(error) => error,
        }
    }
}
