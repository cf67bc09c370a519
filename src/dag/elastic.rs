//! The elastic tree kernel's scorer.
//!
//! C(v,ξ) = λ S(v,ξ) for equal labels, with S from Ca of the children, as in
//! [`crate::kernel::elastic`]; Ca(y,z) sums C over all pairs at or below y and z. The
//! model is one graph in which every distinct subtree stands once, so the recursion that
//! a pair of trees takes over the nodes of the larger one is taken over the model's
//! subtrees, children first, with all nodes of the scored tree (lanes) at once:
//!
//! ```text
//! B(v,ξ)  = C(v,ξ) + Σ_j B(v,ξ_j)            Ca(v,ξ) = B(v,ξ) + Σ_i Ca(v_i,ξ)
//! S      += Σ_v count_v C(v,ξ) f(ξ)
//! ```
//!
//! Only subtrees that have a label of the scored tree at or below them are visited: from
//! the nodes with these labels, parents are marked upwards. A visited subtree with a
//! foreign label and one visited child has that child's values; lanes shrink alike. And
//! as words differ most, few of the visited subtrees do once foreign labels are gone: they
//! are interned again, by label and what their visited children are, as *kinds*, and the
//! recursion is taken over kinds.
//!
//! # Complexity
//! A score takes time by the visited subtrees and their edges, and by their kinds times
//! the lanes, plus the products of child counts of label-equal pairs. A worker's memory:
//! two numbers per lane for each kind.

use super::lens::Lens;
use super::tree::{NONE, Reader};
use super::weights::{Sink, Slot, View};
use crate::intern::{IdTable, hash_ids, new_id};
use crate::team::Pause;
use crate::{NodeId, Nodes, Result};

/// Cells computed between two questions whether to go on.
const BETWEEN_PAUSES: usize = 1 << 20;

/// The model's subtrees by label, and their parents.
#[derive(Debug, Clone)]
pub(super) struct Index {
    pub(super) decay: f64,
    /// By label.
    members: Vec<Vec<u32>>,
    /// By subtree: those that have it as a child, each once.
    parents: Vec<Vec<u32>>,
}

/// The scored tree without what the model cannot match.
#[derive(Debug, Default)]
struct Lanes {
    /// By place: its lane, or [`NONE`].
    of_place: Vec<u32>,
    /// By lane: its place, its label in the model or [`NONE`], where its children end.
    places: Vec<u32>,
    labels: Vec<u32>,
    ends: Vec<u32>,
    children: Vec<u32>,
    /// Lanes with known labels, by label.
    by_label: Vec<(u32, u32)>,
}

impl Lanes {
    fn children(&self, lane: usize) -> std::ops::Range<usize> {
        let start = lane.checked_sub(1).map_or(0, |before| self.ends[before]);
        start as usize..self.ends[lane] as usize
    }
}

/// What a worker keeps from tree to tree.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    lanes: Lanes,
    /// By label: where its lanes are in `by_label`; empty between trees.
    ranges: Vec<(u32, u32)>,
    /// Bits of visited subtrees; zero between trees.
    marks: Vec<u64>,
    todo: Vec<u32>,
    /// By subtree: its kind; [`NONE`] between trees.
    kind_of: Vec<u32>,
    visited: Vec<u32>,
    kinds: Kinds,
    below: Vec<u32>,
    sums: Vec<f64>,
    row: Vec<f64>,
}

/// Different subtrees of the model, as far as the scored tree can tell.
#[derive(Debug, Default)]
struct Kinds {
    table: IdTable,
    /// Label ([`NONE`]: foreign), then the kinds of children.
    keys: Vec<u32>,
    key_ends: Vec<u32>,
    /// C of the lanes with the label.
    rows: Vec<f64>,
    row_ends: Vec<u32>,
    /// B and Ca of all lanes.
    values: Vec<f64>,
}

impl Kinds {
    fn clear(&mut self) {
        self.table.clear();
        self.keys.clear();
        self.key_ends.clear();
        self.rows.clear();
        self.row_ends.clear();
        self.values.clear();
    }

    fn find(&self, hash: u32, key: &[u32]) -> Option<u32> {
        self.table.find(hash, |kind| {
            let kind = kind as usize;
            let start = kind.checked_sub(1).map_or(0, |before| self.key_ends[before]);
            self.keys[start as usize..self.key_ends[kind] as usize] == *key
        })
    }

    fn row(&self, kind: u32) -> &[f64] {
        let kind = kind as usize;
        let start = kind.checked_sub(1).map_or(0, |before| self.row_ends[before]);
        &self.rows[start as usize..self.row_ends[kind] as usize]
    }

    /// Ca of all lanes.
    fn ca(&self, kind: u32, n_lanes: usize) -> &[f64] {
        &self.values[(2 * kind as usize + 1) * n_lanes..][..n_lanes]
    }
}

impl Index {
    pub(super) fn new(decay: f64) -> Self {
        Self { decay, members: Vec::new(), parents: Vec::new() }
    }

    /// Enters a new subtree, leaf or not.
    pub(super) fn enter(&mut self, nodes: &Nodes, node: NodeId) -> Slot {
        let label = nodes.label(node).index();
        if self.members.len() <= label {
            self.members.resize_with(label + 1, Vec::new);
        }
        self.members[label].push(node.0);
        self.parents.push(Vec::new());
        for child in nodes.children(node) {
            let parents = &mut self.parents[child.index()];
            if parents.last() != Some(&node.0) {
                parents.push(node.0);
            }
        }
        Slot { group: 0, number: node.0 }
    }

    pub(super) fn nbytes(&self) -> usize {
        let of = |list: &Vec<u32>| list.capacity() * 4 + size_of::<Vec<u32>>();
        self.members.iter().chain(&self.parents).map(of).sum()
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) fn score<S: Sink>(
        &self,
        store: &Nodes,
        lens: &Lens,
        model: &Nodes,
        tree: &Reader,
        scratch: &mut Scratch,
        sink: &mut S,
        pause: &mut Pause<'_>,
    ) -> Result<()> {
        scratch.lanes.read(store, lens, tree);
        if scratch.lanes.by_label.is_empty() {
            return Ok(());
        }
        scratch.enter_labels(self, model.labels().len());
        scratch.mark(self, model.len());
        let mut run = Run { index: self, model, tree, scratch, cells: 0 };
        let mut result = Ok(());
        for word in 0..run.scratch.marks.len() {
            let mut bits = std::mem::take(&mut run.scratch.marks[word]);
            while bits != 0 {
                let node = NodeId(word as u32 * 64 + bits.trailing_zeros());
                bits &= bits - 1;
                if result.is_ok() {
                    result = run.visit(node, sink);
                }
            }
            if run.cells > BETWEEN_PAUSES && result.is_ok() {
                run.cells = 0;
                result = pause();
            }
        }
        scratch.leave();
        result
    }
}

impl Lanes {
    fn read(&mut self, store: &Nodes, lens: &Lens, tree: &Reader) {
        let Self { of_place, places, labels, ends, children, by_label } = self;
        of_place.clear();
        places.clear();
        labels.clear();
        ends.clear();
        children.clear();
        by_label.clear();
        for (place, item) in tree.items().iter().enumerate() {
            let label = lens.labels[store.label(item.node).index()];
            let start = children.len();
            let below = store.children(item.node).iter();
            let lanes = below.map(|&c| of_place[tree.place(c)]);
            children.extend(lanes.filter(|&lane| lane != NONE));
            if label == NONE && children.len() <= start + 1 {
                // Nothing below, or what is below stands for it.
                of_place.push(children.get(start).copied().unwrap_or(NONE));
                children.truncate(start);
                continue;
            }
            let lane = labels.len() as u32;
            of_place.push(lane);
            places.push(place as u32);
            labels.push(label);
            ends.push(children.len() as u32);
            if label != NONE {
                by_label.push((label, lane));
            }
        }
        by_label.sort_unstable();
    }
}

impl Scratch {
    fn enter_labels(&mut self, index: &Index, n_labels: usize) {
        debug_assert!(index.members.len() <= n_labels);
        if self.ranges.len() < n_labels {
            self.ranges.resize(n_labels, (0, 0));
        }
        for (at, &(label, _)) in self.lanes.by_label.iter().enumerate() {
            let range = &mut self.ranges[label as usize];
            if range.1 == 0 {
                range.0 = at as u32;
            }
            range.1 = at as u32 + 1;
        }
    }

    fn leave(&mut self) {
        for &(label, _) in &self.lanes.by_label {
            self.ranges[label as usize] = (0, 0);
        }
        for node in self.visited.drain(..) {
            self.kind_of[node as usize] = NONE;
        }
        self.kinds.clear();
    }

    /// Marks the subtrees with labels of the tree, and all above them.
    fn mark(&mut self, index: &Index, n_nodes: usize) {
        let Self { marks, todo, kind_of, lanes, .. } = self;
        if kind_of.len() < n_nodes {
            kind_of.resize(n_nodes, NONE);
            marks.resize(n_nodes.div_ceil(64), 0);
        }
        let mut set = |node: u32| {
            let (word, bit) = (node as usize / 64, 1 << (node % 64));
            let is_new = marks[word] & bit == 0;
            marks[word] |= bit;
            is_new
        };
        let mut last = NONE;
        for &(label, _) in &lanes.by_label {
            if label != last {
                let members = index.members.get(label as usize).into_iter().flatten();
                todo.extend(members.copied().filter(|&node| set(node)));
            }
            last = label;
        }
        while let Some(node) = todo.pop() {
            let parents = index.parents[node as usize].iter().copied();
            todo.extend(parents.filter(|&parent| set(parent)));
        }
    }
}

struct Run<'a> {
    index: &'a Index,
    model: &'a Nodes,
    tree: &'a Reader,
    scratch: &'a mut Scratch,
    cells: usize,
}

impl Run<'_> {
    /// C of all lanes with one subtree of the model, whose visited children are done.
    fn visit<S: Sink>(&mut self, node: NodeId, sink: &mut S) -> Result<()> {
        let Scratch { ranges, kind_of, below, kinds, visited, .. } = &mut *self.scratch;
        let label = self.model.label(node).0;
        let range = ranges.get(label as usize).copied().unwrap_or((0, 0));
        let is_foreign = range.0 == range.1;
        below.clear();
        below.push(if is_foreign { NONE } else { label });
        let children = self.model.children(node).iter();
        below.extend(children.map(|c| kind_of[c.index()]).filter(|&kind| kind != NONE));
        self.cells += below.len();
        let is_asked = !self.index.parents[node.index()].is_empty();
        if let (true, &[_, only]) = (is_foreign, &below[..]) {
            // What is below stands for it.
            kind_of[node.index()] = only;
            visited.push(node.0);
            return Ok(());
        }
        let hash = hash_ids(u64::from(below[0]), below[1..].iter().copied());
        let kind = match kinds.find(hash, below) {
            Some(kind) => kind,
            None if !is_asked => {
                // Nobody asks for its B and Ca.
                self.match_children(range);
                let Scratch { row, lanes, .. } = &*self.scratch;
                tell(lanes, range, row, (self.tree, node), sink);
                return Ok(());
            }
            None => {
                self.match_children(range);
                self.new_kind(hash, range)?
            }
        };
        let Scratch { kinds, lanes, kind_of, visited, .. } = &mut *self.scratch;
        kind_of[node.index()] = kind;
        visited.push(node.0);
        tell(lanes, range, kinds.row(kind), (self.tree, node), sink);
        Ok(())
    }

    /// C of the lanes with the label, from the kinds below.
    fn match_children(&mut self, range: (u32, u32)) {
        let Scratch { lanes, kinds, below, sums, row, .. } = &mut *self.scratch;
        row.clear();
        let n_lanes = lanes.labels.len();
        for &(_, lane) in &lanes.by_label[range.0 as usize..range.1 as usize] {
            let edges = lanes.children(lane as usize);
            let children = &lanes.children[edges];
            sums.clear();
            sums.resize(children.len(), 0.0);
            for &kind in &below[1..] {
                let ca = kinds.ca(kind, n_lanes);
                let mut before = 1.0;
                for (sum, &x) in sums.iter_mut().zip(children) {
                    let s = ca[x as usize] * before;
                    before += *sum;
                    *sum += s;
                }
            }
            self.cells += children.len() * below.len();
            row.push(self.index.decay * (1.0 + sums.iter().sum::<f64>()));
        }
    }

    /// Enters a kind, whose C has been computed, with B and Ca.
    fn new_kind(&mut self, hash: u32, range: (u32, u32)) -> Result<u32> {
        let Scratch { lanes, kinds, below, row, .. } = &mut *self.scratch;
        let n_lanes = lanes.labels.len();
        let kind = new_id(kinds.key_ends.len(), "different subtrees of a model")?;
        kinds.table.insert(hash, kind);
        kinds.keys.extend_from_slice(below);
        kinds.key_ends.push(new_id(kinds.keys.len(), "edges of a model")?);
        kinds.rows.extend_from_slice(row);
        kinds.row_ends.push(new_id(kinds.rows.len(), "values of a score")?);
        let start = kinds.values.len();
        kinds.values.resize(start + 2 * n_lanes, 0.0);
        let (done, own) = kinds.values.split_at_mut(start);
        let (b, ca) = own.split_at_mut(n_lanes);
        for &kind in &below[1..] {
            let other = &done[2 * kind as usize * n_lanes..][..n_lanes];
            for (b, other) in b.iter_mut().zip(other) {
                *b += other;
            }
        }
        let same = &lanes.by_label[range.0 as usize..range.1 as usize];
        for (&(_, lane), c) in same.iter().zip(row) {
            b[lane as usize] += *c;
        }
        let mut edge = 0;
        for (lane, &end) in lanes.ends.iter().enumerate() {
            let mut sum = b[lane];
            for &child in &lanes.children[edge..end as usize] {
                sum += ca[child as usize];
            }
            edge = end as usize;
            ca[lane] = sum;
        }
        self.cells += n_lanes * (below.len() + 1);
        Ok(kind)
    }
}

/// Tells a sink C of the lanes with a subtree's label.
#[inline]
fn tell<S: Sink>(
    lanes: &Lanes,
    range: (u32, u32),
    row: &[f64],
    (tree, node): (&Reader, NodeId),
    sink: &mut S,
) {
    let same = &lanes.by_label[range.0 as usize..range.1 as usize];
    for (&(_, lane), &c) in same.iter().zip(row) {
        let place = lanes.places[lane as usize] as usize;
        sink.node(place, tree.items()[place].count);
        let mut view = sink.view(0);
        view.add(node.0, c);
        view.close();
    }
}
