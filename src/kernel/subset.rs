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
    /// Its production's number among those of branching nodes.
    group: u32,
    count: u32,
    /// Where its children start, and how many there are.
    children: u32,
    n_children: u32,
}

/// Trees made ready for [`Pairs::pair`].
#[derive(Debug)]
pub(crate) struct Trees {
    decay: f64,
    leaf_weight: f64,
    n_groups: usize,
    n_branching_groups: usize,
    n_labels: usize,
    /// Per tree: how many inner nodes it has.
    sizes: Vec<f64>,
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

/// What is kept from pair to pair: the first tree hangs until another is first, as
/// callers that go row by row have it (104 to 59 ns on question trees).
pub(crate) struct Scratch<N> {
    /// The tree that hangs in the tables, and the stamp of what is its own there: what
    /// other trees left need not be taken down (115 to 104 ns, in no order).
    tree: Option<usize>,
    stamp: u32,
    /// By production: stamp, and how often it is in the tree.
    counts: Vec<(u32, u32)>,
    /// By production of branching nodes: stamp, and the last node that has it.
    last: Vec<(u32, u32)>,
    /// By label: stamp, and how many leaves have it.
    leaves: Vec<(u32, u32)>,
    /// Per branching node of the first tree: the one before it with its production, and
    /// how many there are before it.
    before: Vec<(u32, u32)>,
    /// Per branching node of the second tree: where its pairs start in `c`.
    starts: Vec<u32>,
    /// C of pairs of branching nodes with equal productions, and only of those.
    c: Vec<N>,
}

impl<N> Default for Scratch<N> {
    fn default() -> Self {
        Self {
            tree: None,
            stamp: 0,
            counts: Vec::new(),
            last: Vec::new(),
            leaves: Vec::new(),
            before: Vec::new(),
            starts: Vec::new(),
            c: Vec::new(),
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
            n_branching_groups: 0,
            n_labels: nodes.labels().len(),
            sizes: Vec::with_capacity(roots.len()),
            groups: Lists::new(),
            branching: Lists::new(),
            children: Vec::new(),
            leaves: Lists::new(),
        };
        let mut number = vec![NONE; nodes.len()];
        let mut branching_group = vec![NONE; nodes.n_productions()];
        for tree in 0..bags.len() {
            let start = trees.branching.items.len();
            let mut size = 0.0;
            for (node, count) in bags.iter(tree) {
                let Some(production) = nodes.production(node) else {
                    if leaf_weight > 0.0 {
                        trees.leaves.items.push((nodes.label(node).0, count));
                    }
                    continue;
                };
                size += f64::from(count);
                trees.groups.items.push((production.0, count));
                if nodes.is_preterminal(node) {
                    continue;
                }
                number[node.index()] = (trees.branching.items.len() - start) as u32;
                let of = |child: &NodeId| {
                    let group = nodes.production(*child).map_or(NONE, |p| p.0);
                    Child { group, branching: number[child.index()] }
                };
                let children = nodes.children(node);
                let group = &mut branching_group[production.index()];
                if *group == NONE {
                    *group = trees.n_branching_groups as u32;
                    trees.n_branching_groups += 1;
                }
                trees.branching.items.push(Branching {
                    group: *group,
                    count,
                    children: new_id(trees.children.len(), "children, tree by tree")?,
                    n_children: children.len() as u32,
                });
                trees.children.extend(children.iter().map(of));
            }
            for &node in bags.nodes(tree) {
                number[node.index()] = NONE;
            }
            trees.sizes.push(size);
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
    fn children(&self, node: Branching) -> &[Child] {
        &self.children[node.children as usize..][..node.n_children as usize]
    }

    /// Hangs up a tree in place of the one that hangs there.
    fn hang<N>(&self, tree: usize, s: &mut Scratch<N>) {
        if s.stamp == 0 || s.stamp == u32::MAX {
            let tables = [
                (&mut s.counts, self.n_groups),
                (&mut s.last, self.n_branching_groups),
                (&mut s.leaves, self.n_labels),
            ];
            for (table, len) in tables {
                table.clear();
                table.resize(len, (0, 0));
            }
            s.stamp = 0;
        }
        s.stamp += 1;
        s.tree = Some(tree);
        for &(group, count) in self.groups.get(tree) {
            s.counts[group as usize] = (s.stamp, count);
        }
        s.before.clear();
        for (u, node) in self.branching.get(tree).iter().enumerate() {
            let last = &mut s.last[node.group as usize];
            s.before.push(if last.0 == s.stamp {
                (last.1, s.before[last.1 as usize].1 + 1)
            } else {
                (NONE, 0)
            });
            *last = (s.stamp, u as u32);
        }
        for &(label, count) in self.leaves.get(tree) {
            s.leaves[label as usize] = (s.stamp, count);
        }
    }

    /// Σ over pairs of branching nodes of count · count · (C - λ): what the counts of
    /// productions do not have yet.
    #[inline]
    fn branching_pairs<N: Number>(&self, a: usize, b: usize, s: &mut Scratch<N>) -> N {
        let (all_a, all_b) = (self.branching.get(a), self.branching.get(b));
        let (before, last, c) = (&s.before[..all_a.len()], &s.last, &mut s.c);
        let stamp = s.stamp;
        s.starts.resize(s.starts.len().max(all_b.len()), 0);
        let starts = &mut s.starts[..all_b.len()];
        c.clear();
        let (decay, one) = (N::of(self.decay), N::of(1.0));
        let mut sum = N::of(0.0);
        for (v, node) in all_b.iter().enumerate() {
            let (known, mut u) = last[node.group as usize];
            if known != stamp {
                continue;
            }
            let below_v = self.children(*node);
            let start = c.len();
            starts[v] = start as u32;
            c.resize(start + before[u as usize].1 as usize + 1, one);
            while u != NONE {
                let other = all_a[u as usize];
                // Σ f_j Π_{i<j} (1 + f_i) = Π (1 + f_j) - 1, without the subtraction.
                let (mut product, mut more) = (one, N::of(0.0));
                for (x, y) in self.children(other).iter().zip(below_v) {
                    if x.group != y.group || x.group == NONE {
                        continue;
                    }
                    let f = if x.branching == NONE || y.branching == NONE {
                        decay
                    } else {
                        let start = starts[y.branching as usize];
                        c[(start + before[x.branching as usize].1) as usize]
                    };
                    let term = product * f;
                    more = more + term;
                    product = product + term;
                }
                let (next, place) = before[u as usize];
                c[start + place as usize] = decay * product;
                let times = N::of(f64::from(other.count) * f64::from(node.count));
                sum = sum + times * (decay * more);
                u = next;
            }
        }
        sum
    }
}

/// Σ of products of counts: integers as long as they fit, as chains of float additions
/// keep a pair waiting.
#[inline]
fn dot(counts: &[(u32, u32)], stamp: u32, items: &[(u32, u32)]) -> f64 {
    let mut sum = 0u64;
    for (index, &(symbol, count)) in items.iter().enumerate() {
        let (known, other) = counts[symbol as usize];
        let other = if known == stamp { other } else { 0 };
        let product = u64::from(other) * u64::from(count);
        let Some(more) = sum.checked_add(product) else {
            return sum as f64
                + product as f64
                + dot(counts, stamp, &items[index + 1..]);
        };
        sum = more;
    }
    sum as f64
}

impl Pairs for Trees {
    type Scratch<N: Number> = Scratch<N>;

    fn exceeds(&self, a: usize, b: usize, limit: f64) -> bool {
        // Counting takes half as long as evaluating: not for trees that cannot exceed.
        if self.sizes[a] * self.sizes[b] <= limit {
            return false;
        }
        // Both are sorted; preterminals count, though they cost nothing.
        let (mut left, mut pairs) = (self.groups.get(a), 0.0);
        for &(group, count) in self.groups.get(b) {
            left = &left[left.partition_point(|l| l.0 < group)..];
            if let Some(&(_, other)) = left.first().filter(|l| l.0 == group) {
                pairs += f64::from(count) * f64::from(other);
            }
        }
        pairs > limit
    }

    fn pair<N: Number>(&self, a: usize, b: usize, s: &mut Scratch<N>) -> N {
        if s.tree != Some(a) {
            self.hang(a, s);
        }
        let equal = dot(&s.counts, s.stamp, self.groups.get(b));
        let mut value =
            N::of(self.decay) * N::of(equal) + self.branching_pairs(a, b, s);
        if self.leaf_weight > 0.0 {
            let equal = dot(&s.leaves, s.stamp, self.leaves.get(b));
            value = value + N::of(self.leaf_weight) * N::of(equal);
        }
        value
    }
}
