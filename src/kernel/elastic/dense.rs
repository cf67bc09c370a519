//! The recursion over all pairs of nodes of two trees that have been reduced to their
//! common labels.

use crate::kernel::Number;
use crate::{Context, Error, Result, memory};

pub(crate) const NONE: u32 = u32::MAX;
/// Numbers held at once, 8 or 16 bytes each: 2 GB of floats.
const MAX_CELLS: usize = if cfg!(test) { 1 << 20 } else { 1 << 28 };
/// Steps between two questions whether to go on.
const BETWEEN_CHECKS: usize = 1 << 20;

/// A tree reduced to what another one can match: children before parents, root last.
#[derive(Debug, Default)]
pub(crate) struct Shrunk {
    /// A number of the label, the same in both trees; NONE for one that only one has.
    labels: Vec<u32>,
    ends: Vec<u32>,
    children: Vec<u32>,
    /// By node: which of those read it is; and by node read: what stands for it, or NONE.
    read: Vec<u32>,
    stands_for: Vec<u32>,
}

impl Shrunk {
    pub(crate) fn clear(&mut self) {
        self.labels.clear();
        self.ends.clear();
        self.children.clear();
        self.read.clear();
        self.stands_for.clear();
    }

    /// Makes room for so many nodes with so many children: reading them takes no memory.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub(crate) fn reserve(&mut self, n_nodes: usize, n_edges: usize) -> Result<()> {
        memory::reserve(&mut self.children, n_edges)?;
        let by_node =
            [&mut self.labels, &mut self.ends, &mut self.read, &mut self.stands_for];
        by_node.into_iter().try_for_each(|list| memory::reserve(list, n_nodes))
    }

    /// Reads the next node: its label, and which of those read before are its children.
    #[allow(clippy::inline_always)] // a call for each node: pairs took 7 % longer
    #[inline(always)]
    pub(crate) fn push(&mut self, label: u32, below: impl Iterator<Item = u32>) {
        let first = self.children.len();
        let below = below.map(|child| self.stands_for[child as usize]);
        self.children.extend(below.filter(|&child| child != NONE)); // has room
        if label == NONE && self.children.len() <= first + 1 {
            // Nothing below, or what is below stands for it.
            let other = self.children.get(first).copied().unwrap_or(NONE);
            self.stands_for.push(other); // has room
            self.children.truncate(first);
            return;
        }
        self.read.push(self.stands_for.len() as u32); // has room
        self.stands_for.push(self.labels.len() as u32); // has room
        self.labels.push(label); // has room
        self.ends.push(self.children.len() as u32); // has room
    }

    pub(crate) fn len(&self) -> usize {
        self.labels.len()
    }

    /// How many nodes and edges there are.
    pub(super) fn size(&self) -> usize {
        self.labels.len() + self.children.len()
    }

    #[inline]
    fn edges(&self, node: usize) -> std::ops::Range<usize> {
        let start = node.checked_sub(1).map_or(0, |n| self.ends[n]);
        start as usize..self.ends[node] as usize
    }
}

/// The values of one node of the larger tree.
#[derive(Debug)]
pub(super) struct Slot<N> {
    /// B(lane, node); while the node is open, without the node's own C.
    b: Vec<N>,
    /// Ca(lane, node), once the node is done.
    ca: Vec<N>,
    /// Per edge of the lanes, Σ_{j so far} s(i,j): kept for lanes with the node's label.
    sums: Vec<N>,
}

impl<N> Default for Slot<N> {
    fn default() -> Self {
        Self { b: Vec::new(), ca: Vec::new(), sums: Vec::new() }
    }
}

/// The dense recursion over the nodes of a tree, or of several trees that share subtrees,
/// with all nodes (lanes) of another.
#[derive(Debug)]
pub(crate) struct Dense<N> {
    pub(crate) lanes: Shrunk,
    pub(crate) tree: Shrunk,
    /// Lanes by label, and where each label's end.
    by_label: Vec<u32>,
    by_label_ends: Vec<u32>,
    /// Per node of the larger tree: a parent, edges that still ask for it, its next
    /// child to absorb (counted from the first of the tree), its slot.
    parent: Vec<u32>,
    asked: Vec<u32>,
    next: Vec<u32>,
    slot: Vec<u32>,
    pub(super) slots: Vec<Slot<N>>,
    free: Vec<u32>,
    steps: usize,
}

impl<N> Default for Dense<N> {
    fn default() -> Self {
        Self {
            lanes: Shrunk::default(),
            tree: Shrunk::default(),
            by_label: Vec::new(),
            by_label_ends: Vec::new(),
            parent: Vec::new(),
            asked: Vec::new(),
            next: Vec::new(),
            slot: Vec::new(),
            slots: Vec::new(),
            free: Vec::new(),
            steps: 0,
        }
    }
}

impl<N> Dense<N> {
    fn group_lanes(&mut self, n_labels: usize) -> Result<()> {
        let Self { by_label, by_label_ends: ends, lanes, .. } = self;
        ends.clear();
        memory::reach(ends, n_labels + 1, 0)?;
        for &label in lanes.labels.iter().filter(|&&label| label != NONE) {
            ends[label as usize + 1] += 1;
        }
        for label in 0..n_labels {
            ends[label + 1] += ends[label];
        }
        by_label.clear();
        memory::reach(by_label, ends[n_labels] as usize, 0)?;
        // `ends[label]` is where the label's next lane goes; at last, where they end.
        for (lane, &label) in lanes.labels.iter().enumerate() {
            if label != NONE {
                let place = &mut ends[label as usize];
                by_label[*place as usize] = lane as u32;
                *place += 1;
            }
        }
        Ok(())
    }

    /// Finds a parent of each node of the larger tree, and how often it is asked for.
    fn link(&mut self) -> Result<()> {
        let Self { parent, asked, next, slot, tree, slots, free, .. } = self;
        let n = tree.len();
        for list in [&mut *parent, &mut *asked, &mut *next, &mut *slot] {
            list.clear();
        }
        memory::reach(parent, n, NONE)?;
        memory::reach(asked, n, 0)?;
        memory::reserve(next, n)?;
        memory::reach(slot, n, NONE)?;
        free.clear();
        memory::extend(free, (0..slots.len() as u32).rev())?;
        for node in 0..tree.len() {
            let edges = tree.edges(node);
            next.push(edges.start as u32); // has room
            for &child in &tree.children[edges] {
                asked[child as usize] += 1;
                if parent[child as usize] == NONE {
                    parent[child as usize] = node as u32;
                }
            }
        }
        Ok(())
    }
}

impl<N: Number> Dense<N> {
    /// How many cells a number counts for: one with derivatives for more than one.
    const SIZE: usize = size_of::<N>().div_ceil(16);

    /// The recursion, λ by label: nodes of the larger tree, children first. Tells λ(S-1) of each pair
    /// of inner nodes with equal labels, called by their places in what was read, first
    /// that of the larger tree; returns Ca of both roots.
    pub(crate) fn run(
        &mut self,
        decay: impl Fn(u32) -> f64,
        n_labels: usize,
        mut tell: impl FnMut(usize, usize, N),
        context: &Context,
    ) -> Result<N> {
        // Slots of larger trees before would hold on to their memory.
        let room = self.lanes.len() * 2 + self.lanes.children.len();
        self.slots.truncate(MAX_CELLS / (room.max(1) * Self::SIZE));
        self.group_lanes(n_labels)?;
        self.link()?;
        let mut last = N::from_f64(0.0);
        for node in 0..self.tree.len() {
            self.absorb(node, node, context)?;
            let decay = N::parameter(decay(self.tree.labels[node]), 0);
            last = self.finish(node, decay, &mut tell)?;
            // The parent takes in what is done, and what nobody else asks for goes: wide
            // nodes never hold the values of all their children.
            if self.parent[node] == NONE {
                memory::push(&mut self.free, self.slot[node])?;
            } else {
                self.absorb(self.parent[node] as usize, node, context)?;
            }
        }
        Ok(last)
    }

    fn open(&mut self, node: usize) -> Result<usize> {
        if self.slot[node] == NONE {
            let (n_lanes, n_edges) = (self.lanes.len(), self.lanes.children.len());
            let slot = if let Some(slot) = self.free.pop() {
                slot
            } else {
                let cells = (self.slots.len() + 1) * (2 * n_lanes + n_edges);
                if cells * Self::SIZE > MAX_CELLS {
                    let what = "values of two trees' nodes held at once";
                    return Err(Error::Capacity { what, limit: MAX_CELLS as u64 });
                }
                memory::push(&mut self.slots, Slot::default())?;
                self.slots.len() as u32 - 1
            };
            self.slot[node] = slot;
            let slot = &mut self.slots[slot as usize];
            let zero = N::from_f64(0.0);
            slot.b.clear();
            memory::reach(&mut slot.b, n_lanes, zero)?;
            slot.sums.clear();
            memory::reach(&mut slot.sums, n_edges, zero)?;
        }
        Ok(self.slot[node] as usize)
    }

    /// Takes the next children of `node` in, as far as they are done (up to `done`).
    fn absorb(&mut self, node: usize, done: usize, context: &Context) -> Result<()> {
        let (end, mut steps) = (self.tree.ends[node], 0);
        while self.next[node] < end {
            let child = self.tree.children[self.next[node] as usize] as usize;
            if child > done {
                break;
            }
            self.next[node] += 1;
            let to = self.open(node)?;
            let from = self.slot[child] as usize;
            // Out of the way while the other is written.
            let below = std::mem::take(&mut self.slots[from]);
            let slot = &mut self.slots[to];
            for (sum, &b) in slot.b.iter_mut().zip(&below.b) {
                *sum = *sum + b;
            }
            let label = self.tree.labels[node];
            for &lane in lanes_of(&self.by_label, &self.by_label_ends, label) {
                let edges = self.lanes.edges(lane as usize);
                steps += edges.len();
                let mut before = N::from_f64(1.0);
                let lane_children = &self.lanes.children[edges.clone()];
                for (sum, &x) in slot.sums[edges].iter_mut().zip(lane_children) {
                    let s = below.ca[x as usize] * before;
                    before = before + *sum;
                    *sum = *sum + s;
                }
            }
            steps += below.b.len();
            self.slots[from] = below;
            self.asked[child] -= 1;
            if self.asked[child] == 0 {
                memory::push(&mut self.free, from as u32)?;
            }
            if steps > BETWEEN_CHECKS {
                steps = 0;
                context.check_now()?;
            }
        }
        self.steps += steps;
        if self.steps > BETWEEN_CHECKS {
            self.steps = 0;
            context.check_now()?;
        }
        Ok(())
    }

    /// All children are in: C, B and Ca of all lanes with `node`.
    fn finish(
        &mut self,
        node: usize,
        decay: N,
        tell: &mut impl FnMut(usize, usize, N),
    ) -> Result<N> {
        let slot = self.open(node)?;
        let slot = &mut self.slots[slot];
        let label = self.tree.labels[node];
        let is_leaf = self.tree.edges(node).is_empty();
        for &lane in lanes_of(&self.by_label, &self.by_label_ends, label) {
            let edges = self.lanes.edges(lane as usize);
            let zero = N::from_f64(0.0);
            let more = slot.sums[edges.clone()].iter().fold(zero, |sum, &s| sum + s);
            let b = &mut slot.b[lane as usize];
            *b = *b + decay * (N::from_f64(1.0) + more);
            if !is_leaf && !edges.is_empty() {
                let [node, lane] =
                    [self.tree.read[node], self.lanes.read[lane as usize]];
                tell(node as usize, lane as usize, decay * more);
            }
        }
        slot.ca.clear();
        memory::reserve(&mut slot.ca, self.lanes.len())?;
        let mut edge = 0;
        for (&b, &end) in slot.b.iter().zip(&self.lanes.ends) {
            let mut sum = b;
            for &child in &self.lanes.children[edge..end as usize] {
                sum = sum + slot.ca[child as usize];
            }
            edge = end as usize;
            slot.ca.push(sum); // has room
        }
        self.steps += slot.ca.len();
        Ok(slot.ca.last().copied().unwrap_or(N::from_f64(0.0)))
    }
}

/// The lanes with a label.
#[inline]
fn lanes_of<'a>(by_label: &'a [u32], ends: &[u32], label: u32) -> &'a [u32] {
    if label == NONE {
        return &[];
    }
    let start = label.checked_sub(1).map_or(0, |l| ends[l as usize]);
    &by_label[start as usize..ends[label as usize] as usize]
}
