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
//! are loaded into a table by production, and the other tree's look theirs up. Most pairs are found
//! but need no work: they are counted by production, λ each, and only pairs of nodes
//! that both have inner children are looked at one by one.
//!
//! # Complexity
//! Linear in the trees' distinct subtrees, plus the pairs of distinct subtrees with
//! equal productions and inner children, which real trees have few of. Memory: a C for
//! each of these. A pair of trees with 10^6 matching nodes or more is computed by an index.
//! Where there is none, with weights or derivatives, more than 2^25 values are refused.

use std::sync::Arc;

use super::weights::{Factors, ResolvedWeights, Weightable};
use super::{
    Builtin, Kernel, Number, Pairs, Prepared, Rule, Sketch, Sloped, TreeCounts,
    Weighted, described, kernel_struct, naive,
};
use crate::features::Kind;
use crate::gram;
use crate::ids::{Id, IdVec, PackedOption, ids};
use crate::index::family::{Family, WithWeights};
use crate::intern::new_id;
use crate::ragged::Ragged;
use crate::{Context, Error, Label, NodeId, Nodes, ProductionId, Result, memory};

kernel_struct! {
    /// Fragments expand a node completely or not at all (Collins & Duffy 2002).
    SubsetTree new(decay) {
        /// λ: weight of a fragment per production.
        decay: f64 = 0.4, Share, with_decay;
        /// What each pair of leaves with equal labels adds.
        leaf_weight: f64 = 0.0, NotNegative, with_leaf_weight;
    }
}

impl Kernel for SubsetTree {
    described!();

    fn definition(&self, nodes: &Nodes, a: NodeId, b: NodeId) -> f64 {
        naive::sum(nodes, a, b, |u, v| {
            naive::subset_tree(nodes, &|_| self.decay, u, v)
                + self.leaf_weight * naive::leaves(nodes, u, v)
        })
    }

    fn pairs(
        &self,
        nodes: &Arc<Nodes>,
        roots: &[NodeId],
        context: &Context,
    ) -> Result<Box<dyn Prepared>> {
        gram::subset_tree_pairs(self, nodes, roots, context)
    }

    fn sloped(
        &self,
        nodes: &Arc<Nodes>,
        roots: &[NodeId],
        context: &Context,
    ) -> Result<Option<Box<dyn Sloped>>> {
        let Self { decay, leaf_weight } = *self;
        Ok(Some(Box::new(PreparedTrees::new(
            nodes,
            decay,
            leaf_weight,
            true,
            roots,
            context,
        )?)))
    }

    fn builtin(&self) -> Option<Builtin<'_>> {
        Some(Builtin {
            index: Some(Box::new(self.clone())),
            sketch: Some(Sketch {
                rule: Rule::Subset,
                value: self.decay.sqrt(),
                leaf: 1.0,
                cut: 1.0,
                leaf_sum: self.leaf_weight.sqrt(),
                decay: 1.0,
                longest: None,
                smallest: self.decay,
            }),
            weightable: Some(self),
            features: Some(Kind::Fragments {
                decay: self.decay,
                leaf_weight: self.leaf_weight,
                max_size: 1,
            }),
            ..Builtin::new(self)
        })
    }
}

impl Weightable for SubsetTree {
    fn weighted_name(&self) -> &'static str {
        "weighted SubsetTree"
    }

    fn weighted_definition(
        &self,
        table: &ResolvedWeights,
        nodes: &Nodes,
        a: NodeId,
        b: NodeId,
    ) -> f64 {
        let decay = |u| self.decay * table.production(nodes, u);
        naive::sum(nodes, a, b, |u, v| {
            let leaf = self.leaf_weight * table.label(nodes, u);
            naive::subset_tree(nodes, &decay, u, v) + leaf * naive::leaves(nodes, u, v)
        })
    }

    fn weighted_pairs(
        &self,
        table: &ResolvedWeights,
        nodes: &Arc<Nodes>,
        roots: &[NodeId],
        context: &Context,
    ) -> Result<Box<dyn Prepared>> {
        let decay = table.productions_times(self.decay)?;
        let leaf_weight = table.labels_times(self.leaf_weight)?;
        let has_leaves = self.leaf_weight > 0.0;
        let trees =
            PreparedTrees::read(nodes, decay, leaf_weight, has_leaves, roots, context)?;
        Ok(Box::new(trees))
    }

    fn weighted_index(&self, weighted: &Weighted) -> Option<Box<dyn Family>> {
        let (kernel, weighted) = (self.clone(), weighted.clone());
        Some(Box::new(WithWeights { kernel, weighted }))
    }
}

ids! {
    /// A production of branching nodes.
    BranchingGroup;
    /// A branching node within its tree.
    BranchingId;
}

const SUBTREES: &str = "subtrees, tree by tree";
/// Pairs of branching nodes with equal productions that a pair of trees may have (256 MB).
const MAX_VALUES: usize = 1 << 25;
/// Steps between two questions whether to go on: some milliseconds.
const BETWEEN_CHECKS: usize = 1 << 20;

/// A child as its parent sees it.
#[derive(Debug, Clone, Copy)]
struct Child {
    /// Its production; none for a leaf.
    production: PackedOption<ProductionId>,
    /// None for a preterminal.
    branching: PackedOption<BranchingId>,
}

/// A distinct subtree with inner children.
#[derive(Debug, Clone, Copy)]
struct Branching {
    group: BranchingGroup,
    count: u32,
    /// Where its children start, and how many there are.
    children: u32,
    n_children: u32,
}

/// Trees made ready for [`Pairs::pair`].
#[derive(Debug)]
pub(crate) struct PreparedTrees<F = f64> {
    /// λ by production, and by the numbers that [`Branching`] has for them.
    decay: F,
    branching_decay: F,
    /// By label.
    leaf_weight: F,
    /// Whether leaves were read: they weigh something, or derivatives are wanted.
    has_leaves: bool,
    n_productions: usize,
    n_branching_groups: usize,
    n_labels: usize,
    /// Per tree: how many inner nodes it has.
    sizes: Vec<f64>,
    /// Per tree: productions with the number of nodes that have them. Ascending where all
    /// have one λ: counts are summed as integers, in any order. Else in the order of a
    /// walk: sums of floats would tell which store the tree is in.
    productions: Ragged<(ProductionId, u32)>,
    /// Per tree: distinct subtrees with inner children, children first.
    branching: Ragged<Branching>,
    children: Vec<Child>,
    /// Per tree: labels of leaves with counts.
    leaves: Ragged<(Label, u32)>,
}

/// What is kept from pair to pair: the first tree stays loaded until another is first, as
/// callers that go row by row have it (104 to 59 ns on question trees).
pub(crate) struct Scratch<N> {
    /// The tree in the tables, and the stamp of its entries there: what other trees left
    /// need not be taken out (115 to 104 ns, in no order).
    tree: Option<usize>,
    stamp: u32,
    /// Stamp, and how often a production is in the tree.
    counts: IdVec<ProductionId, (u32, u32)>,
    /// Stamp, and the last branching node that has a production.
    last: IdVec<BranchingGroup, (u32, BranchingId)>,
    /// Stamp, and how many leaves have a label.
    leaves: IdVec<Label, (u32, u32)>,
    /// Of the first tree: the branching node before one with its production, and how many
    /// there are before it.
    before: IdVec<BranchingId, (PackedOption<BranchingId>, u32)>,
    /// Of the second tree: where the pairs of a branching node start in `c`.
    starts: IdVec<BranchingId, u32>,
    /// C of pairs of branching nodes with equal productions, and only of those.
    c: Vec<N>,
}

impl<N> Default for Scratch<N> {
    fn default() -> Self {
        Self {
            tree: None,
            stamp: 0,
            counts: IdVec::default(),
            last: IdVec::default(),
            leaves: IdVec::default(),
            before: IdVec::default(),
            starts: IdVec::default(),
            c: Vec::new(),
        }
    }
}

impl PreparedTrees {
    pub(crate) fn new(
        nodes: &Nodes,
        decay: f64,
        leaf_weight: f64,
        sloped: bool,
        roots: &[NodeId],
        context: &Context,
    ) -> Result<Self> {
        let has_leaves = leaf_weight > 0.0 || sloped;
        Self::read(nodes, decay, leaf_weight, has_leaves, roots, context)
    }
}

impl<F: Factors> PreparedTrees<F> {
    fn read(
        nodes: &Nodes,
        decay: F,
        leaf_weight: F,
        has_leaves: bool,
        roots: &[NodeId],
        context: &Context,
    ) -> Result<Self> {
        let counts = TreeCounts::read_with(has_leaves, nodes, roots, context)?;
        let mut trees = Self {
            // Made at the end, once it is known which productions branch.
            branching_decay: decay.pick(&[])?,
            decay,
            leaf_weight,
            has_leaves,
            n_productions: nodes.n_productions(),
            n_branching_groups: 0,
            n_labels: nodes.labels().len(),
            sizes: Vec::new(),
            productions: Ragged::default(),
            branching: Ragged::default(),
            children: Vec::new(),
            leaves: Ragged::default(),
        };
        let mut number = IdVec::from(memory::filled(PackedOption::NONE, nodes.len())?);
        // By production: its place among the tree's.
        let mut place =
            IdVec::from(memory::filled(None::<usize>, nodes.n_productions())?);
        let mut groups = IdVec::from(memory::filled(None, nodes.n_productions())?);
        let mut branching_productions = Vec::new();
        for tree in 0..counts.len() {
            context.check()?;
            let start = trees.branching.items.len();
            let mut size = 0.0;
            for (node, count) in counts.iter(tree) {
                let Some(production) = nodes.production(node) else {
                    if has_leaves {
                        trees.leaves.push((nodes.label(node), count))?;
                    }
                    continue;
                };
                size += f64::from(count);
                // Productions of the tree, each with all of its nodes.
                if let Some(at) = place[production] {
                    trees.productions.items[at].1 += count;
                } else {
                    place[production] = Some(trees.productions.items.len());
                    trees.productions.push((production, count))?;
                }
                // λ is all that a preterminal has; only other nodes have values.
                if nodes.is_preterminal(node) {
                    continue;
                }
                number[node] =
                    BranchingId::at(trees.branching.items.len() - start).into();
                // Children come first, so those that branch have numbers.
                let child_of = |&child: &NodeId| {
                    let production = nodes.production(child).into();
                    Child { production, branching: number[child] }
                };
                let children = nodes.children(node);
                let group = if let Some(group) = groups[production] {
                    group
                } else {
                    let group = BranchingGroup::at(trees.n_branching_groups);
                    groups[production] = Some(group);
                    trees.n_branching_groups += 1;
                    memory::push(&mut branching_productions, production.0)?;
                    group
                };
                trees.branching.push(Branching {
                    group,
                    count,
                    children: new_id(trees.children.len(), "children, tree by tree")?,
                    n_children: children.len() as u32,
                })?;
                memory::extend(&mut trees.children, children.iter().map(child_of))?;
            }
            // None again for the next tree.
            for &node in counts.nodes(tree) {
                number[node] = PackedOption::NONE;
            }
            memory::push(&mut trees.sizes, size)?;
            let productions = trees.productions.start(tree)..;
            for &(production, _) in &trees.productions.items[productions.clone()] {
                place[production] = None;
            }
            if trees.decay.same().is_some() {
                trees.productions.items[productions].sort_unstable();
            }
            trees.productions.close(SUBTREES)?;
            trees.branching.close(SUBTREES)?;
            trees.leaves.close(SUBTREES)?;
        }
        trees.branching_decay = trees.decay.pick(&branching_productions)?;
        Ok(trees)
    }

    #[inline]
    fn children(&self, node: Branching) -> &[Child] {
        &self.children[node.children as usize..][..node.n_children as usize]
    }

    /// Loads a tree into the tables, in place of the one that is there.
    fn load<N>(&self, tree: usize, s: &mut Scratch<N>) -> Result<()> {
        s.tree = None; // until all is there: memory may be refused on the way
        // Before stamps run out the tables are emptied: an old stamp must not look like
        // a new one.
        if s.stamp == 0 || s.stamp == u32::MAX {
            s.counts = memory::filled((0, 0), self.n_productions)?.into();
            let last = (0, BranchingId::default());
            s.last = memory::filled(last, self.n_branching_groups)?.into();
            s.leaves = memory::filled((0, 0), self.n_labels)?.into();
            s.stamp = 0;
        }
        s.before.clear();
        memory::reserve(&mut s.before, self.branching.get(tree).len())?;
        s.stamp += 1;
        s.tree = Some(tree);
        for &(production, count) in self.productions.get(tree) {
            s.counts[production] = (s.stamp, count);
        }
        // Nodes of a production are chained from the last to the first.
        for (u, node) in (0..).map(BranchingId).zip(self.branching.get(tree)) {
            let last = &mut s.last[node.group];
            let (stamp, before) = *last;
            let entry = if stamp == s.stamp {
                (before.into(), s.before[before].1 + 1)
            } else {
                (PackedOption::NONE, 0)
            };
            s.before.push(entry); // has room
            *last = (s.stamp, u);
        }
        for &(label, count) in self.leaves.get(tree) {
            s.leaves[label] = (s.stamp, count);
        }
        Ok(())
    }

    /// Σ over pairs of branching nodes of count · count · (C - λ): what the counts of
    /// productions do not have yet.
    #[inline]
    fn branching_pairs<N: Number>(
        &self,
        a: usize,
        b: usize,
        s: &mut Scratch<N>,
        context: &Context,
    ) -> Result<N> {
        let (all_a, all_b) = (self.branching.get(a), self.branching.get(b));
        let (before, last, c) = (&s.before, &s.last, &mut s.c);
        let stamp = s.stamp;
        // In powers of two, so that it grows rarely.
        if s.starts.len() < all_b.len() {
            s.starts = memory::filled(0, all_b.len().next_power_of_two())?.into();
        }
        let starts = &mut s.starts;
        c.clear();
        let one = N::from_f64(1.0);
        let (mut sum, mut steps) = (N::from_f64(0.0), 0);
        // The second tree, children first; of the first all nodes with the same
        // production.
        for (v, node) in (0..).map(BranchingId).zip(all_b) {
            let (entry_stamp, last_u) = last[node.group];
            if entry_stamp != stamp {
                continue;
            }
            let below_v = self.children(*node);
            let start = c.len();
            starts[v] = start as u32;
            let n_pairs = before[last_u].1 as usize + 1;
            steps += n_pairs * below_v.len();
            if steps > BETWEEN_CHECKS {
                steps = 0;
                context.check_now()?;
                // Asked here only: so many more are no matter.
                if start + n_pairs > MAX_VALUES {
                    let what = "pairs of nodes with equal productions of two trees";
                    return Err(Error::Capacity { what, limit: MAX_VALUES as u64 });
                }
            }
            memory::reach(c, start + n_pairs, one)?;
            let decay: N = self.branching_decay.as_number(node.group.0, 0);
            let mut node_sum = N::from_f64(0.0);
            let mut next = Some(last_u);
            while let Some(u) = next {
                let other = all_a[u.index()];
                // Σ f_j Π_{i<j} (1 + f_i) = Π (1 + f_j) - 1, without the subtraction.
                let (mut product, mut more) = (one, N::from_f64(0.0));
                for (x, y) in self.children(other).iter().zip(below_v) {
                    // Equal productions have equal labels of children, but these may
                    // have other productions, or be leaves.
                    let Some(production) = x.production.get() else { continue };
                    if x.production != y.production {
                        continue;
                    }
                    let f = match (x.branching.get(), y.branching.get()) {
                        // By the second tree's child, and there by the rank of the
                        // first one's in its production.
                        (Some(x), Some(y)) => c[(starts[y] + before[x].1) as usize],
                        // A preterminal has λ with any node of its production.
                        _ => self.decay.as_number(production.0, 0),
                    };
                    let term = product * f;
                    more = more + term;
                    product = product + term;
                }
                // Where the chain goes on, and this node's rank in it.
                let (above, rank) = before[u];
                c[start + rank as usize] = decay * product;
                node_sum =
                    node_sum + N::from_f64(f64::from(other.count)) * (decay * more);
                next = above.get();
            }
            // Of each node first: long sums of small terms lose digits.
            sum = sum + N::from_f64(f64::from(node.count)) * node_sum;
        }
        Ok(sum)
    }
}

/// Σ of products of counts, times what their symbols have.
#[inline]
fn dot<S: Id, N: Number, F: Factors>(
    (factors, place): (&F, usize),
    counts: &IdVec<S, (u32, u32)>,
    stamp: u32,
    items: &[(S, u32)],
) -> N {
    if let Some(factor) = factors.same() {
        return N::parameter(factor, place)
            * N::from_f64(integer_dot(counts, stamp, items));
    }
    let mut sum = N::from_f64(0.0);
    for &(symbol, count) in items {
        let (entry_stamp, other) = counts[symbol];
        if entry_stamp == stamp {
            let count = f64::from(other) * f64::from(count);
            sum = sum + N::from_f64(factors.of(symbol.number())) * N::from_f64(count);
        }
    }
    sum
}

/// Σ of products of counts, in integers: a tree's are less than 2^32 together.
#[inline]
fn integer_dot<S: Id>(
    counts: &IdVec<S, (u32, u32)>,
    stamp: u32,
    items: &[(S, u32)],
) -> f64 {
    let mut sum = 0;
    for &(symbol, count) in items {
        let (entry_stamp, other) = counts[symbol];
        // No branch: whether both have it is not to be guessed.
        let other = if entry_stamp == stamp { other } else { 0 };
        sum += u64::from(other) * u64::from(count);
    }
    sum as f64
}

impl PreparedTrees {
    /// Whether a pair has more than so many matching pairs of nodes, where a row engine
    /// could do with fewer.
    pub(crate) fn exceeds(&self, a: usize, b: usize, limit: f64) -> bool {
        // Counting takes half as long as evaluating: not for trees that cannot exceed.
        if self.sizes[a] * self.sizes[b] <= limit {
            return false;
        }
        // Both are sorted; preterminals count, though they cost nothing.
        let (mut left, mut pairs) = (self.productions.get(a), 0.0);
        for &(production, count) in self.productions.get(b) {
            left = &left[left.partition_point(|l| l.0 < production)..];
            if let Some(&(_, other)) = left.first().filter(|l| l.0 == production) {
                pairs += f64::from(count) * f64::from(other);
            }
        }
        pairs > limit
    }
}

impl<F: Factors> Pairs for PreparedTrees<F> {
    type Scratch<N: Number> = Scratch<N>;

    fn pair<N: Number>(
        &self,
        a: usize,
        b: usize,
        s: &mut Scratch<N>,
        context: &Context,
    ) -> Result<N> {
        if s.tree != Some(a) {
            self.load(a, s)?;
        }
        let productions = self.productions.get(b);
        let equal: N = dot((&self.decay, 0), &s.counts, s.stamp, productions);
        let more = self.branching_pairs(a, b, s, context)?;
        let mut value = equal + more;
        if self.has_leaves {
            let leaves = self.leaves.get(b);
            let equal: N = dot((&self.leaf_weight, 1), &s.leaves, s.stamp, leaves);
            value = value + equal;
        }
        Ok(value)
    }
}
