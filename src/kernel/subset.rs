//! Single pairs of the subset tree kernel.
//!
//! The algorithm of Moschitti (EACL 2006), on interned trees: find the pairs of nodes
//! with equal productions, take them children first, and remember C of each.
//!
//! ```text
//! C(u,v) = λ Π_j (1 + C(u_j, v_j))       K(a,b) = Σ C(u,v) over pairs with equal productions
//! ```
//!
//! The paper sorts both node lists by production and merges them. Here one tree's nodes
//! are hung up by production, and the other tree's look theirs up. Most pairs are found
//! but need no work: they are counted by production, λ each, and only pairs of nodes
//! that both have inner children are looked at one by one.
//!
//! # Complexity
//! Linear in the trees' distinct subtrees, plus the pairs of distinct subtrees with
//! equal productions and inner children, which real trees have few of.

use super::{Bags, Number, Pairs};
use crate::intern::new_id;
use crate::{NodeId, Nodes, Result};

const NONE: u32 = u32::MAX;

/// A child as its parent sees it.
#[derive(Debug, Clone, Copy)]
struct Child {
    /// Its production's number; NONE for a leaf.
    group: u32,
    /// Its number among the tree's branching nodes; NONE for a preterminal.
    branching: u32,
}

/// A distinct subtree with inner children.
#[derive(Debug, Clone, Copy)]
struct Branching {
    group: u32,
    count: u32,
    /// Where its children end.
    children: u32,
}

/// Trees made ready for [`Pairs::pair`].
#[derive(Debug)]
pub(crate) struct Trees {
    decay: f64,
    leaf_weight: f64,
    n_groups: usize,
    n_labels: usize,
    /// Per tree: productions with the number of nodes that have them.
    groups: Lists<(u32, u32)>,
    /// Per tree: distinct subtrees with inner children, children first.
    branching: Lists<Branching>,
    children: Vec<Child>,
    /// Per tree: labels of leaves with counts.
    leaves: Lists<(u32, u32)>,
}

/// Lists laid end to end.
#[derive(Debug)]
struct Lists<T> {
    items: Vec<T>,
    ends: Vec<u32>,
}

impl<T> Lists<T> {
    fn new() -> Self {
        Self { items: Vec::new(), ends: Vec::new() }
    }

    fn close(&mut self) -> Result<()> {
        self.ends.push(new_id(self.items.len(), "subtrees, tree by tree")?);
        Ok(())
    }

    fn start(&self, index: usize) -> usize {
        index.checked_sub(1).map_or(0, |i| self.ends[i]) as usize
    }

    #[inline]
    fn get(&self, index: usize) -> &[T] {
        &self.items[self.start(index)..self.ends[index] as usize]
    }
}

/// What is kept from pair to pair.
pub(crate) struct Scratch<N> {
    /// By production: its count in the first tree, and its last branching node there.
    hung: Vec<(u32, u32)>,
    /// Per branching node of the first tree: the one before it with its production, and
    /// how many there are before it.
    before: Vec<(u32, u32)>,
    /// Per branching node of the second tree: where its pairs start in `c`.
    starts: Vec<u32>,
    /// C of pairs of branching nodes with equal productions, and only of those.
    c: Vec<N>,
    leaves: Vec<u32>,
}

impl<N> Default for Scratch<N> {
    fn default() -> Self {
        Self {
            hung: Vec::new(),
            before: Vec::new(),
            starts: Vec::new(),
            c: Vec::new(),
            leaves: Vec::new(),
        }
    }
}

impl Trees {
    pub(crate) fn new(
        nodes: &Nodes,
        decay: f64,
        leaf_weight: f64,
        roots: &[NodeId],
    ) -> Result<Self> {
        let bags = Bags::new(nodes, roots)?;
        let mut trees = Self {
            decay,
            leaf_weight,
            n_groups: nodes.n_productions(),
            n_labels: nodes.labels().len(),
            groups: Lists::new(),
            branching: Lists::new(),
            children: Vec::new(),
            leaves: Lists::new(),
        };
        let mut number = vec![NONE; nodes.len()];
        for tree in 0..bags.len() {
            let start = trees.branching.items.len();
            for (node, count) in bags.iter(tree) {
                let Some(production) = nodes.production(node) else {
                    if leaf_weight > 0.0 {
                        trees.leaves.items.push((nodes.label(node).0, count));
                    }
                    continue;
                };
                trees.groups.items.push((production.0, count));
                if nodes.is_preterminal(node) {
                    continue;
                }
                number[node.index()] = (trees.branching.items.len() - start) as u32;
                let of = |child: &NodeId| {
                    let group = nodes.production(*child).map_or(NONE, |p| p.0);
                    Child { group, branching: number[child.index()] }
                };
                trees.children.extend(nodes.children(node).iter().map(of));
                trees.branching.items.push(Branching {
                    group: production.0,
                    count,
                    children: new_id(trees.children.len(), "children, tree by tree")?,
                });
            }
            for &node in bags.nodes(tree) {
                number[node.index()] = NONE;
            }
            trees.merge_groups(tree);
            trees.groups.close()?;
            trees.branching.close()?;
            trees.leaves.close()?;
        }
        Ok(trees)
    }

    /// Makes one entry per production of the last tree.
    fn merge_groups(&mut self, tree: usize) {
        let start = self.groups.start(tree);
        self.groups.items[start..].sort_unstable();
        let mut end = start;
        for index in start..self.groups.items.len() {
            let (group, count) = self.groups.items[index];
            if end > start && self.groups.items[end - 1].0 == group {
                self.groups.items[end - 1].1 += count;
            } else {
                self.groups.items[end] = (group, count);
                end += 1;
            }
        }
        self.groups.items.truncate(end);
    }

    #[inline]
    fn children_of(&self, branching: usize) -> &[Child] {
        let items = &self.branching.items;
        let start = branching.checked_sub(1).map_or(0, |b| items[b].children);
        &self.children[start as usize..items[branching].children as usize]
    }

    /// Σ over pairs of branching nodes of count · count · (C - λ): what the counts of
    /// productions do not have yet.
    #[inline]
    fn branching_pairs<N: Number>(&self, a: usize, b: usize, s: &mut Scratch<N>) -> N {
        let (first_a, first_b) = (self.branching.start(a), self.branching.start(b));
        let all_b = self.branching.get(b);
        s.starts.clear();
        s.c.clear();
        let (decay, one) = (N::of(self.decay), N::of(1.0));
        let mut sum = N::of(0.0);
        for (v, node) in all_b.iter().enumerate() {
            let mut u = s.hung[node.group as usize].1;
            let start = s.c.len();
            s.starts.push(start as u32);
            if u != NONE {
                s.c.resize(start + s.before[u as usize].1 as usize + 1, one);
            }
            while u != NONE {
                let below_u = self.children_of(first_a + u as usize);
                let below_v = self.children_of(first_b + v);
                // Σ f_j Π_{i<j} (1 + f_i) = Π (1 + f_j) - 1, without the subtraction.
                let (mut product, mut more) = (one, N::of(0.0));
                for (x, y) in below_u.iter().zip(below_v) {
                    if x.group != y.group || x.group == NONE {
                        continue;
                    }
                    let f = if x.branching == NONE || y.branching == NONE {
                        decay
                    } else {
                        let start = s.starts[y.branching as usize];
                        s.c[(start + s.before[x.branching as usize].1) as usize]
                    };
                    let term = product * f;
                    more = more + term;
                    product = product + term;
                }
                let (next, place) = s.before[u as usize];
                s.c[start + place as usize] = decay * product;
                let count = self.branching.items[first_a + u as usize].count;
                let times = N::of(f64::from(count) * f64::from(node.count));
                sum = sum + times * (decay * more);
                u = next;
            }
        }
        sum
    }
}

impl Pairs for Trees {
    type Scratch<N: Number> = Scratch<N>;

    fn cost(&self, a: usize, b: usize) -> f64 {
        // Both are sorted; preterminals count, though they cost nothing.
        let (mut left, mut pairs) = (self.groups.get(a), 0.0);
        for &(group, count) in self.groups.get(b) {
            left = &left[left.partition_point(|l| l.0 < group)..];
            if let Some(&(_, other)) = left.first().filter(|l| l.0 == group) {
                pairs += f64::from(count) * f64::from(other);
            }
        }
        pairs
    }

    fn pair<N: Number>(&self, a: usize, b: usize, s: &mut Scratch<N>) -> N {
        if s.hung.len() < self.n_groups {
            s.hung.resize(self.n_groups, (0, NONE));
        }
        let all_a = self.branching.get(a);
        s.before.clear();
        for &(group, count) in self.groups.get(a) {
            s.hung[group as usize].0 = count;
        }
        for (u, node) in all_a.iter().enumerate() {
            let last = &mut s.hung[node.group as usize].1;
            let place = if *last == NONE { 0 } else { s.before[*last as usize].1 + 1 };
            s.before.push((*last, place));
            *last = u as u32;
        }
        let mut equal = 0.0; // pairs with equal productions: an integer
        for &(group, count) in self.groups.get(b) {
            equal += f64::from(s.hung[group as usize].0) * f64::from(count);
        }
        let mut value =
            N::of(self.decay) * N::of(equal) + self.branching_pairs(a, b, s);
        for &(group, _) in self.groups.get(a) {
            s.hung[group as usize] = (0, NONE);
        }
        if self.leaf_weight > 0.0 {
            s.leaves.resize(self.n_labels, 0);
            for &(label, count) in self.leaves.get(a) {
                s.leaves[label as usize] = count;
            }
            let mut equal = 0.0;
            for &(label, count) in self.leaves.get(b) {
                equal += f64::from(s.leaves[label as usize]) * f64::from(count);
            }
            for &(label, _) in self.leaves.get(a) {
                s.leaves[label as usize] = 0;
            }
            value = value + N::of(self.leaf_weight) * N::of(equal);
        }
        value
    }
}
