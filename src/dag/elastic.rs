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
//! foreign label and one visited child has that child's values; lanes shrink alike. (The
//! rows of [`crate::gram`] also keep, for each label, what is below it: a fifth of the
//! time there, but a quadratic number of entries in deep models.)
//!
//! # Complexity
//! A score takes time by the visited subtrees times the labels' share of its tree, plus
//! the products of child counts of label-equal pairs. A worker's memory: two numbers per
//! lane for each visited subtree that a later one will ask for.

use super::lens::Lens;
use super::tree::{NONE, Reader};
use super::weights::{Sink, Slot, View};
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
    /// By subtree: where its values are, while it is visited.
    slots: Vec<u32>,
    /// By slot: how many subtrees have it, and later parents that will ask.
    users: Vec<u32>,
    free: Vec<u32>,
    /// B and Ca of all lanes, slot by slot.
    values: Vec<f64>,
    sums: Vec<f64>,
    row: Vec<f64>,
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
                    run.visit(node, sink);
                }
            }
            if run.cells > BETWEEN_PAUSES && result.is_ok() {
                run.cells = 0;
                result = pause();
            }
        }
        scratch.leave_labels();
        if result.is_err() {
            scratch.slots.fill(NONE);
        }
        scratch.free.clear();
        scratch.users.clear();
        scratch.values.clear();
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

    fn leave_labels(&mut self) {
        for &(label, _) in &self.lanes.by_label {
            self.ranges[label as usize] = (0, 0);
        }
    }

    /// Marks the subtrees with labels of the tree, and all above them.
    fn mark(&mut self, index: &Index, n_nodes: usize) {
        let Self { marks, todo, slots, lanes, .. } = self;
        if slots.len() < n_nodes {
            slots.resize(n_nodes, NONE);
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
    /// C, B and Ca of all lanes with one subtree of the model, whose visited children
    /// are done.
    fn visit<S: Sink>(&mut self, node: NodeId, sink: &mut S) {
        let below = self.model.children(node);
        let label = self.model.label(node).index();
        let range = self.scratch.ranges.get(label).copied().unwrap_or((0, 0));
        let is_asked = !self.index.parents[node.index()].is_empty();
        self.scratch.slots[node.index()] = NONE;
        let slots = &self.scratch.slots;
        let visited = below.iter().filter(|c| slots[c.index()] != NONE).count();
        if range.0 == range.1 && visited == 1 {
            // What is below stands for it.
            let child = below.iter().map(|c| slots[c.index()]).find(|&s| s != NONE);
            if let Some(slot) = child.filter(|_| is_asked) {
                self.scratch.users[slot as usize] += 1;
                self.scratch.slots[node.index()] = slot;
            }
        } else {
            self.match_children(below, range);
            self.tell(node, range, sink);
            if is_asked {
                self.add_up(node, below, range);
            }
        }
        self.release_below(node, below);
    }

    /// The sums of s over the visited children, per child of the lanes with the label.
    fn match_children(&mut self, below: &[NodeId], range: (u32, u32)) {
        let Scratch { lanes, slots, values, sums, .. } = &mut *self.scratch;
        if range.0 == range.1 {
            return;
        }
        let n_lanes = lanes.labels.len();
        sums.clear();
        sums.resize(lanes.children.len(), 0.0);
        for child in below {
            let slot = slots[child.index()];
            if slot == NONE {
                continue;
            }
            let ca = &values[(2 * slot as usize + 1) * n_lanes..][..n_lanes];
            for &(_, lane) in &lanes.by_label[range.0 as usize..range.1 as usize] {
                let edges = lanes.children(lane as usize);
                let mut before = 1.0;
                let children = &lanes.children[edges.clone()];
                self.cells += children.len();
                for (sum, &x) in sums[edges].iter_mut().zip(children) {
                    let s = ca[x as usize] * before;
                    before += *sum;
                    *sum += s;
                }
            }
        }
    }

    /// C of the lanes with the label.
    fn tell<S: Sink>(&mut self, node: NodeId, range: (u32, u32), sink: &mut S) {
        let Scratch { lanes, sums, row, .. } = &mut *self.scratch;
        row.clear();
        for &(_, lane) in &lanes.by_label[range.0 as usize..range.1 as usize] {
            let edges = lanes.children(lane as usize);
            let ways = sums.get(edges).unwrap_or_default().iter().sum::<f64>() + 1.0;
            let c = self.index.decay * ways;
            row.push(c);
            let place = lanes.places[lane as usize] as usize;
            sink.node(place, self.tree.items()[place].count);
            let mut view = sink.view(0);
            view.add(node.0, c);
            view.close();
        }
    }

    /// B and Ca, for parents.
    fn add_up(&mut self, node: NodeId, below: &[NodeId], range: (u32, u32)) {
        let Scratch { lanes, slots, users, free, values, row, .. } = &mut *self.scratch;
        let n_lanes = lanes.labels.len();
        let slot = free.pop().unwrap_or_else(|| {
            users.push(0);
            values.resize(values.len() + 2 * n_lanes, 0.0);
            users.len() as u32 - 1
        });
        users[slot as usize] = 1;
        let start = 2 * slot as usize * n_lanes;
        values[start..start + n_lanes].fill(0.0);
        for child in below {
            let from = slots[child.index()];
            if from == NONE {
                continue;
            }
            let from = 2 * from as usize * n_lanes;
            // Two stretches of one array.
            let (b, other) = if from < start {
                let (left, right) = values.split_at_mut(start);
                (&mut right[..n_lanes], &left[from..from + n_lanes])
            } else {
                let (left, right) = values.split_at_mut(from);
                (&mut left[start..start + n_lanes], &right[..n_lanes])
            };
            for (b, other) in b.iter_mut().zip(other) {
                *b += other;
            }
            self.cells += n_lanes;
        }
        let (b, ca) = values[start..start + 2 * n_lanes].split_at_mut(n_lanes);
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
        self.cells += n_lanes;
        slots[node.index()] = slot;
    }

    /// Gives back what only this parent still asked for.
    fn release_below(&mut self, node: NodeId, below: &[NodeId]) {
        let Scratch { slots, users, free, .. } = &mut *self.scratch;
        for child in below {
            let slot = slots[child.index()];
            let is_last = self.index.parents[child.index()].last() == Some(&node.0);
            if slot == NONE || !is_last {
                continue;
            }
            slots[child.index()] = NONE;
            users[slot as usize] -= 1;
            if users[slot as usize] == 0 {
                free.push(slot);
            }
        }
    }
}
