//! The elastic tree kernel of two trees.
//!
//! A fragment keeps order and ancestry but may skip nodes (Kashima & Koyanagi 2002).
//! With C(u,v) the weight of the fragments rooted at u and v, and Ca(x,y) the sum of C
//! over all pairs at or below x and y:
//!
//! ```text
//! C(u,v)  = 0 for other labels, else λ S(u,v)
//! S(u,v)  = 1 + Σ_{i,j} s(i,j)        s(i,j) = Ca(u_i,v_j) (1 + Σ_{i'<i, j'<j} s(i',j'))
//! B(x,y)  = C(x,y) + Σ_j B(x,y_j)     the sum of C over x and all at or below y
//! Ca(x,y) = B(x,y) + Σ_i Ca(x_i,y)
//! K(a,b)  = Ca(root a, root b)
//! ```
//!
//! This is the usual recursion without its subtractions: every term is a sum or product
//! of numbers that are not negative, so nothing cancels, at λ = 1 as little as at 0.05.
//!
//! Example, λ = 1, `(A b)` and `(A (X b))`: C(b,b) = 1, Ca(b,X) = 1, C(A,A) = 1 + 1, and
//! the kernel is 3.
//!
//! # What is skipped
//! C is 0 for other labels, so each pair first shrinks both trees to what can matter:
//! subtrees without a label of the other tree go, a node with a foreign label and one
//! remaining child is replaced by that child (its Ca is the child's), only a foreign
//! fork stays, to add up. Real trees share few of their words: of 32 x 32 nodes some
//! 15 x 15 remain. Then the dense recursion runs over what is left, one value per node
//! of the smaller tree (a lane) for each node of the larger. As Ca depends on the two
//! subtrees only, equal subtrees of a tree are one node from the start.
//!
//! # Complexity
//! Time O(|a| + |b| + |a'| |b'|) and the products of child counts of label-equal pairs,
//! with a', b' what remains; never above the dense recursion. Memory by the smaller tree
//! for each node of the larger that is open (some of its children done, not all) or
//! that stands below several parents and is not yet done with.

use super::{Number, Pairs};
use crate::intern::new_id;
use crate::{NodeId, Nodes, Result};

const NONE: u32 = u32::MAX;

/// A node of a tree.
#[derive(Debug, Clone, Copy)]
struct Head {
    /// The label's number among those of the tree.
    label: u32,
    /// Where its children end, among those of all trees.
    end: u32,
}

/// Trees as distinct subtrees in postorder.
#[derive(Debug)]
pub(crate) struct Trees {
    decay: f64,
    n_labels: usize,
    /// Per tree: where its nodes, and its labels, end.
    ends: Vec<(u32, u32)>,
    heads: Vec<Head>,
    /// Children, as numbers within the tree.
    children: Vec<u32>,
    labels: Vec<u32>,
}

impl Trees {
    /// Reads trees in time by their distinct subtrees.
    ///
    /// # Errors
    /// [`crate::Error::Capacity`] beyond 2^32 distinct subtrees or edges, tree by tree.
    pub(crate) fn new(nodes: &Nodes, decay: f64, roots: &[NodeId]) -> Result<Self> {
        let n_labels = nodes.labels().len();
        let mut trees = Self {
            decay,
            n_labels,
            ends: Vec::with_capacity(roots.len()),
            heads: Vec::new(),
            children: Vec::new(),
            labels: Vec::new(),
        };
        // Both are as they were after each tree.
        let known = roots.iter().map(|root| root.index() + 1).max().unwrap_or(0);
        let mut number = vec![NONE; known];
        let mut label_number = vec![NONE; n_labels];
        // In the order of a walk, not of ids: only that lets a pair finish one child
        // after another and forget it.
        let mut done: Vec<NodeId> = Vec::new();
        let mut open: Vec<(NodeId, usize)> = Vec::new();
        for &root in roots {
            let first_label = trees.labels.len();
            open.push((root, 0));
            while let Some((node, next)) = open.last_mut() {
                if let Some(&child) = nodes.children(*node).get(*next) {
                    *next += 1;
                    if number[child.index()] == NONE {
                        open.push((child, 0));
                    }
                    continue;
                }
                let node = *node;
                open.pop();
                let label = &mut label_number[nodes.label(node).index()];
                if *label == NONE {
                    *label = (trees.labels.len() - first_label) as u32;
                    trees.labels.push(nodes.label(node).0);
                }
                number[node.index()] = done.len() as u32;
                done.push(node);
                let below = nodes.children(node).iter().map(|c| number[c.index()]);
                trees.children.extend(below);
                let end = new_id(trees.children.len(), "edges, tree by tree")?;
                trees.heads.push(Head { label: *label, end });
            }
            for node in done.drain(..) {
                number[node.index()] = NONE;
            }
            for &label in &trees.labels[first_label..] {
                label_number[label as usize] = NONE;
            }
            let end = new_id(trees.heads.len(), "distinct subtrees, tree by tree")?;
            trees.ends.push((end, trees.labels.len() as u32));
        }
        Ok(trees)
    }

    /// How many distinct subtrees a tree has.
    pub(crate) fn n_nodes(&self, tree: usize) -> usize {
        self.ends[tree].0 as usize - self.starts(tree).0
    }

    fn starts(&self, tree: usize) -> (usize, usize) {
        let (nodes, labels) = tree.checked_sub(1).map_or((0, 0), |t| self.ends[t]);
        (nodes as usize, labels as usize)
    }

    fn labels(&self, tree: usize) -> &[u32] {
        &self.labels[self.starts(tree).1..self.ends[tree].1 as usize]
    }

    /// What is left of a tree when only some labels count.
    fn shrink(
        &self,
        tree: usize,
        keep: &[u32],
        places: &mut Vec<u32>,
        to: &mut Shrunk,
    ) {
        places.clear();
        to.clear();
        let start = self.starts(tree).0;
        let mut edge = start.checked_sub(1).map_or(0, |n| self.heads[n].end as usize);
        for head in &self.heads[start..self.ends[tree].0 as usize] {
            let first = to.children.len();
            let below = &self.children[edge..head.end as usize];
            edge = head.end as usize;
            let places_below = below.iter().map(|&c| places[c as usize]);
            to.children.extend(places_below.filter(|&place| place != NONE));
            let label = keep[head.label as usize];
            if label == NONE && to.children.len() - first <= 1 {
                places.push(to.children.get(first).copied().unwrap_or(NONE));
                to.children.truncate(first);
            } else {
                places.push(to.labels.len() as u32);
                to.labels.push(label);
                to.ends.push(to.children.len() as u32);
            }
        }
    }
}

/// A tree reduced to what another one can match: children before parents, root last.
#[derive(Debug, Default)]
struct Shrunk {
    /// A number of the label, the same in both trees; NONE for one that only one has.
    labels: Vec<u32>,
    ends: Vec<u32>,
    children: Vec<u32>,
}

impl Shrunk {
    fn clear(&mut self) {
        self.labels.clear();
        self.ends.clear();
        self.children.clear();
    }

    fn len(&self) -> usize {
        self.labels.len()
    }

    #[inline]
    fn edges(&self, node: usize) -> std::ops::Range<usize> {
        let start = node.checked_sub(1).map_or(0, |n| self.ends[n]);
        start as usize..self.ends[node] as usize
    }
}

/// The values of one node of the larger tree.
#[derive(Debug)]
struct Slot<N> {
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

/// What is kept from pair to pair.
#[derive(Debug)]
pub(crate) struct Scratch<N> {
    /// By label: its number in tree a. NONE between pairs.
    mark: Vec<u32>,
    keep: [Vec<u32>; 2],
    places: Vec<u32>,
    lanes: Shrunk,
    tree: Shrunk,
    /// Lanes by label, and where each label's end.
    by_label: Vec<u32>,
    by_label_ends: Vec<u32>,
    /// Per node of the larger tree: a parent, edges that still ask for it, its next
    /// child to absorb (counted from the first of the tree), its slot.
    parent: Vec<u32>,
    asked: Vec<u32>,
    next: Vec<u32>,
    slot: Vec<u32>,
    slots: Vec<Slot<N>>,
    free: Vec<u32>,
}

impl<N> Default for Scratch<N> {
    fn default() -> Self {
        Self {
            mark: Vec::new(),
            keep: [Vec::new(), Vec::new()],
            places: Vec::new(),
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
        }
    }
}

impl Pairs for Trees {
    type Scratch<N: Number> = Scratch<N>;

    fn pair<N: Number>(&self, a: usize, b: usize, scratch: &mut Scratch<N>) -> N {
        // The same pair in the same order whoever asks: K(a,b) is K(b,a) bit for bit.
        let (a, b) = (a.min(b), a.max(b));
        let n_common = self.common_labels(a, b, scratch);
        if n_common == 0 {
            return N::of(0.0);
        }
        let Scratch { keep, places, lanes, tree, .. } = scratch;
        self.shrink(a, &keep[0], places, lanes);
        self.shrink(b, &keep[1], places, tree);
        if lanes.len() + lanes.children.len() > tree.len() + tree.children.len() {
            std::mem::swap(lanes, tree);
        }
        scratch.group_lanes(n_common);
        scratch.link();
        scratch.run(self.decay)
    }
}

impl Trees {
    /// Numbers the labels that both trees have (others: NONE), and counts them.
    fn common_labels<N>(&self, a: usize, b: usize, scratch: &mut Scratch<N>) -> usize {
        let Scratch { mark, keep: [keep_a, keep_b], .. } = scratch;
        mark.resize(self.n_labels, NONE);
        for (number, &label) in self.labels(a).iter().enumerate() {
            mark[label as usize] = number as u32;
        }
        keep_a.clear();
        keep_a.resize(self.labels(a).len(), NONE);
        keep_b.clear();
        let mut n_common = 0;
        for &label in self.labels(b) {
            let number = mark[label as usize];
            if number == NONE {
                keep_b.push(NONE);
            } else {
                keep_b.push(n_common);
                keep_a[number as usize] = n_common;
                n_common += 1;
            }
        }
        for &label in self.labels(a) {
            mark[label as usize] = NONE;
        }
        n_common as usize
    }
}

impl<N> Scratch<N> {
    fn group_lanes(&mut self, n_labels: usize) {
        let Self { by_label, by_label_ends: ends, lanes, .. } = self;
        ends.clear();
        ends.resize(n_labels + 1, 0);
        for &label in lanes.labels.iter().filter(|&&label| label != NONE) {
            ends[label as usize + 1] += 1;
        }
        for label in 0..n_labels {
            ends[label + 1] += ends[label];
        }
        by_label.clear();
        by_label.resize(ends[n_labels] as usize, 0);
        // `ends[label]` is where the label's next lane goes; at last, where they end.
        for (lane, &label) in lanes.labels.iter().enumerate() {
            if label != NONE {
                let place = &mut ends[label as usize];
                by_label[*place as usize] = lane as u32;
                *place += 1;
            }
        }
    }

    /// Finds a parent of each node of the larger tree, and how often it is asked for.
    fn link(&mut self) {
        let Self { parent, asked, next, slot, tree, .. } = self;
        parent.clear();
        parent.resize(tree.len(), NONE);
        asked.clear();
        asked.resize(tree.len(), 0);
        next.clear();
        slot.clear();
        slot.resize(tree.len(), NONE);
        for node in 0..tree.len() {
            let edges = tree.edges(node);
            next.push(edges.start as u32);
            for &child in &tree.children[edges] {
                asked[child as usize] += 1;
                if parent[child as usize] == NONE {
                    parent[child as usize] = node as u32;
                }
            }
        }
    }
}

impl<N: Number> Scratch<N> {
    /// The recursion: nodes of the larger tree, children first.
    fn run(&mut self, decay: f64) -> N {
        let root = self.tree.len() - 1;
        for node in 0..=root {
            self.absorb(node, node);
            self.finish(node, N::of(decay));
            // The parent takes in what is done, and what nobody else asks for goes: wide
            // nodes never hold the values of all their children.
            if self.parent[node] != NONE {
                self.absorb(self.parent[node] as usize, node);
            }
        }
        let slot = self.slot[root];
        self.free.push(slot);
        self.slots[slot as usize].ca[self.lanes.len() - 1]
    }

    fn open(&mut self, node: usize) -> usize {
        if self.slot[node] == NONE {
            let slot = self.free.pop().unwrap_or_else(|| {
                self.slots.push(Slot::default());
                self.slots.len() as u32 - 1
            });
            self.slot[node] = slot;
            let slot = &mut self.slots[slot as usize];
            let zero = N::of(0.0);
            slot.b.clear();
            slot.b.resize(self.lanes.len(), zero);
            slot.sums.clear();
            slot.sums.resize(self.lanes.children.len(), zero);
        }
        self.slot[node] as usize
    }

    /// Takes the next children of `node` in, as far as they are done (up to `done`).
    fn absorb(&mut self, node: usize, done: usize) {
        let end = self.tree.ends[node];
        while self.next[node] < end {
            let child = self.tree.children[self.next[node] as usize] as usize;
            if child > done {
                return;
            }
            self.next[node] += 1;
            let to = self.open(node);
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
                let mut before = N::of(1.0);
                let lane_children = &self.lanes.children[edges.clone()];
                for (sum, &x) in slot.sums[edges].iter_mut().zip(lane_children) {
                    let s = below.ca[x as usize] * before;
                    before = before + *sum;
                    *sum = *sum + s;
                }
            }
            self.slots[from] = below;
            self.asked[child] -= 1;
            if self.asked[child] == 0 {
                self.free.push(from as u32);
            }
        }
    }

    /// All children are in: C, B and Ca of all lanes with `node`.
    fn finish(&mut self, node: usize, decay: N) {
        let slot = self.open(node);
        let slot = &mut self.slots[slot];
        let label = self.tree.labels[node];
        for &lane in lanes_of(&self.by_label, &self.by_label_ends, label) {
            let edges = self.lanes.edges(lane as usize);
            let ways = slot.sums[edges].iter().fold(N::of(1.0), |sum, &s| sum + s);
            slot.b[lane as usize] = slot.b[lane as usize] + decay * ways;
        }
        slot.ca.clear();
        let mut edge = 0;
        for (&b, &end) in slot.b.iter().zip(&self.lanes.ends) {
            let mut sum = b;
            for &child in &self.lanes.children[edge..end as usize] {
                sum = sum + slot.ca[child as usize];
            }
            edge = end as usize;
            slot.ca.push(sum);
        }
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

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;
    use crate::kernel::{Kernel, Scaled, naive, sample};
    use crate::{Forest, Label};

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-10 * a.abs().max(b.abs())
    }

    #[test]
    fn pairs_are_the_definition_in_both_kinds_of_number() {
        let mut random = sample::Random(1);
        let mut n_pairs = 0;
        for round in 0..45 {
            let decay = [0.05, 0.4, 1.0][round % 3];
            let kernel = Kernel::ElasticTree { decay };
            let forest = sample::forest(&mut random, 22, 11);
            let trees = Trees::new(forest.nodes(), decay, forest.roots()).unwrap();
            let (mut floats, mut scaled) = (Scratch::default(), Scratch::default());
            for (i, &a) in forest.roots().iter().enumerate() {
                for (j, &b) in forest.roots().iter().enumerate().take(i + 1) {
                    let expected = naive::kernel(&kernel, forest.nodes(), a, b);
                    let value = trees.pair::<f64>(i, j, &mut floats);
                    assert!(close(value, expected), "{value} {expected} {i} {j}");
                    let large = trees.pair::<Scaled>(i, j, &mut scaled).value();
                    assert!(close(large, value), "{large} {value}");
                    assert_eq!(trees.pair::<f64>(j, i, &mut floats), value);
                    n_pairs += 1;
                }
            }
        }
        assert!(n_pairs >= 10_000, "{n_pairs}");
    }

    #[test]
    fn hand_values_hold() {
        let forest =
            Forest::from_bracket_items(["(A b)", "(A (X b))", "(A)", "(Q)"]).unwrap();
        let trees = Trees::new(forest.nodes(), 1.0, forest.roots()).unwrap();
        let mut scratch = Scratch::default();
        for (a, b, expected) in [(0, 1, 3.0), (0, 2, 1.0), (2, 2, 1.0), (0, 3, 0.0)] {
            assert_eq!(trees.pair::<f64>(a, b, &mut scratch), expected, "{a} {b}");
        }
        // Two chains A over A over ...: C of depths m, n is the number of ways to choose
        // equally many below the roots.
        let chain = |n| "(A ".repeat(n) + "A" + &")".repeat(n);
        let chains = [chain(2), chain(3)];
        let forest = Forest::from_bracket_items(chains.iter().map(String::as_str));
        let forest = forest.unwrap();
        let trees = Trees::new(forest.nodes(), 1.0, forest.roots()).unwrap();
        // Σ_k (3 choose k)(4 choose k), k >= 1: 12 + 18 + 4.
        assert_eq!(trees.pair::<f64>(0, 1, &mut scratch), 34.0);
    }

    /// A chain of a, b, a, b, ... of this many nodes, and a small tree.
    fn chain_and_small(length: usize) -> (Nodes, Vec<NodeId>) {
        let mut nodes = Nodes::default();
        let [a, b, c]: [Label; 3] =
            ["a", "b", "c"].map(|name| nodes.labels_mut().intern(name).unwrap());
        let mut chain = nodes.intern_leaf(a).unwrap();
        for i in 1..length {
            chain = nodes.intern([a, b][i % 2], &[chain]).unwrap();
        }
        let leaf = nodes.intern_leaf(b).unwrap();
        let other = nodes.intern(c, &[leaf, leaf]).unwrap();
        let small = nodes.intern(a, &[other, leaf]).unwrap();
        (nodes, vec![chain, small])
    }

    #[test]
    fn deep_trees_take_little_memory_and_no_stack() {
        let (nodes, roots) = chain_and_small(100_000);
        let trees = Trees::new(&nodes, 0.4, &roots).unwrap();
        let mut scratch = Scratch::default();
        // C(a,a) = λ(1 + the b below, three times) but for the leaf, C(b,b) = λ.
        let h = 50_000.0;
        let below = h * (h + 1.0) / 2.0;
        let expected = 0.4 * (h + 3.0 * h + 3.0 * 0.4 * (below - h));
        let value = trees.pair::<f64>(0, 1, &mut scratch);
        assert!(close(value, expected), "{value} {expected}");
        assert!(scratch.slots.len() <= 3, "{}", scratch.slots.len());
    }

    #[test]
    fn wide_trees_forget_children_that_are_done() {
        let mut text = String::from("(r");
        for i in 0..2_000 {
            write!(text, " (a x{i} (b x{}))", i % 50).unwrap();
        }
        text += ")";
        let forest = Forest::from_bracket_items([&*text, "(r (a (b x1)) b)"]).unwrap();
        let trees = Trees::new(forest.nodes(), 1.0, forest.roots()).unwrap();
        let mut scratch = Scratch::default();
        assert!(trees.pair::<f64>(0, 1, &mut scratch) > 0.0);
        assert!(scratch.slots.len() < 110, "{}", scratch.slots.len());
    }

    #[test]
    fn large_counts_overflow_floats_but_not_scaled_numbers() {
        let chain = "(A ".repeat(1_000) + "A" + &")".repeat(1_000);
        let forest = Forest::from_bracket_items([&*chain]).unwrap();
        let trees = Trees::new(forest.nodes(), 1.0, forest.roots()).unwrap();
        assert_eq!(trees.pair::<f64>(0, 0, &mut Scratch::default()), f64::INFINITY);
        let k = trees.pair::<Scaled>(0, 0, &mut Scratch::default());
        assert_eq!(k.normalized(k, k), 1.0);
    }
}
