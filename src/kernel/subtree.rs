//! The subtree kernel of two trees.
//!
//! Fragments are complete subtrees (Vishwanathan & Smola 2002), and equal subtrees have
//! one id in the forest, so the kernel is a sparse dot product over ids:
//!
//! ```text
//! K(a,b) = Σ over ids in both: count_a(id) · count_b(id) · w(id)
//! w(id)  = λ^(inner nodes of the subtree) for inner nodes, leaf_weight for leaves
//! ```
//!
//! Example, λ = 0.5: `(S (A a) (B b))` and itself share A, B (0.5 each) and S (0.125):
//! 1.125.
//!
//! # Complexity
//! A pair: time by the distinct subtrees of the second tree, and by those of the first
//! where another was first in the call before.

use std::sync::Arc;

use super::weights::{self, ResolvedWeights, Weightable};
use super::{
    Builtin, Kernel, Number, Pairs, Prepared, Rule, Sketch, Sloped, TreeCounts,
    Weighted, described, kernel_struct, naive,
};
use crate::features::Kind;
use crate::index::family::{Family, WithWeights};
use crate::ragged::Ragged;
use crate::{Context, NodeId, Nodes, Result, memory};

kernel_struct! {
    /// Fragments are complete subtrees (Vishwanathan & Smola 2002).
    Subtree new(decay) {
        /// λ: weight of a fragment per inner node.
        decay: f64 = 0.4, Share, with_decay;
        /// What each pair of leaves with equal labels adds.
        leaf_weight: f64 = 0.0, NotNegative, with_leaf_weight;
    }
}

impl Kernel for Subtree {
    described!();

    fn definition(&self, nodes: &Nodes, a: NodeId, b: NodeId) -> f64 {
        naive::sum(nodes, a, b, |u, v| {
            naive::subtree(nodes, &|_| self.decay, u, v)
                + self.leaf_weight * naive::leaves(nodes, u, v)
        })
    }

    fn pairs(
        &self,
        nodes: &Arc<Nodes>,
        roots: &[NodeId],
        context: &Context,
    ) -> Result<Box<dyn Prepared>> {
        let weights = weights(nodes, self.decay, self.leaf_weight)?;
        let leaves = self.leaf_weight > 0.0;
        let trees = PreparedTrees::new(
            nodes,
            &weights,
            |count| count,
            leaves,
            None,
            roots,
            context,
        )?;
        Ok(Box::new(trees))
    }

    fn sloped(
        &self,
        nodes: &Arc<Nodes>,
        roots: &[NodeId],
        context: &Context,
    ) -> Result<Option<Box<dyn Sloped>>> {
        let weights = weights(nodes, self.decay, self.leaf_weight)?;
        let sloped = Some(self.decay);
        let trees = PreparedTrees::new(
            nodes,
            &weights,
            |count| count,
            true,
            sloped,
            roots,
            context,
        )?;
        Ok(Some(Box::new(trees)))
    }

    fn builtin(&self) -> Option<Builtin<'_>> {
        Some(Builtin {
            index: Some(Box::new(self.clone())),
            sketch: Some(Sketch {
                rule: Rule::Subtree,
                value: self.decay.sqrt(),
                leaf: 1.0,
                cut: 1.0,
                leaf_sum: self.leaf_weight.sqrt(),
                decay: 1.0,
                longest: None,
                smallest: self.decay,
            }),
            weightable: Some(self),
            features: Some(Kind::Subtrees {
                decay: self.decay,
                leaf_weight: self.leaf_weight,
            }),
            ..Builtin::new(self)
        })
    }
}

impl Weightable for Subtree {
    fn weighted_name(&self) -> &'static str {
        "weighted Subtree"
    }

    fn has_counts(&self) -> bool {
        true
    }

    fn weighted_definition(
        &self,
        table: &ResolvedWeights,
        nodes: &Nodes,
        a: NodeId,
        b: NodeId,
    ) -> f64 {
        // Each pair's share of f(count in a) f(count in b).
        let share = |tree, u| {
            let mut n = naive::occurrences(nodes, tree);
            n.retain(|&v| naive::identical(nodes, u, v));
            table.counts.of(n.len() as f64) / n.len() as f64
        };
        let decay = |u| self.decay * table.production(nodes, u);
        naive::sum(nodes, a, b, |u, v| {
            let leaf = self.leaf_weight * table.label(nodes, u);
            let value =
                naive::subtree(nodes, &decay, u, v) + leaf * naive::leaves(nodes, u, v);
            if value > 0.0 { value * share(a, u) * share(b, v) } else { 0.0 }
        })
    }

    fn weighted_pairs(
        &self,
        table: &ResolvedWeights,
        nodes: &Arc<Nodes>,
        roots: &[NodeId],
        context: &Context,
    ) -> Result<Box<dyn Prepared>> {
        let weights = weighted(nodes, self, table)?;
        let counts = |count| table.counts.of(f64::from(count));
        let trees =
            PreparedTrees::new(nodes, &weights, counts, true, None, roots, context)?;
        weights::finite(trees.items.items.iter().map(|item| &item.weight))?;
        Ok(Box::new(trees))
    }

    fn weighted_index(&self, weighted: &Weighted) -> Option<Box<dyn Family>> {
        let (kernel, weighted) = (self.clone(), weighted.clone());
        Some(Box::new(WithWeights { kernel, weighted }))
    }
}

/// w of every node of the store. What is too small for a float is 0: next to the
/// subtree's own inner nodes, which count too, it is below the last bit.
///
/// # Errors
/// [`crate::Error::Memory`].
pub(crate) fn weights(nodes: &Nodes, decay: f64, leaf_weight: f64) -> Result<Vec<f64>> {
    products(nodes, |_| decay, |_| leaf_weight)
}

/// The same with weights of productions, and of leaves' labels.
///
/// # Errors
/// [`crate::Error::Memory`].
pub(crate) fn weighted(
    nodes: &Nodes,
    kernel: &Subtree,
    table: &ResolvedWeights,
) -> Result<Vec<f64>> {
    let Subtree { decay, leaf_weight } = *kernel;
    let inner = |node| decay * table.production(nodes, node);
    products(nodes, inner, |node| leaf_weight * table.label(nodes, node))
}

fn products(
    nodes: &Nodes,
    decay: impl Fn(NodeId) -> f64,
    leaf_weight: impl Fn(NodeId) -> f64,
) -> Result<Vec<f64>> {
    let mut weights = Vec::new();
    memory::reserve(&mut weights, nodes.len())?;
    // Children have smaller ids, so their weights are there.
    for node in (0..nodes.len()).map(|n| NodeId(n as u32)) {
        let inner = nodes.children(node).iter().filter(|&&c| !nodes.is_leaf(c));
        let weight = if nodes.is_leaf(node) {
            leaf_weight(node)
        } else {
            inner.fold(decay(node), |product, c| product * weights[c.index()])
        };
        memory::push(&mut weights, weight)?;
    }
    Ok(weights)
}

/// Trees as lists of weighted subtrees, in the order of [`TreeCounts`]; C is the type of a
/// count, or of a function of it.
#[derive(Debug)]
pub(crate) struct PreparedTrees<C = u32> {
    n_nodes: usize,
    items: Ragged<Item<C>>,
    decay: f64,
    /// By node, where derivatives are wanted: how many inner nodes it has at and below it.
    inner: Vec<f64>,
}

#[derive(Debug, Clone, Copy)]
struct Item<C> {
    node: NodeId,
    count: C,
    weight: f64,
}

/// A count, or a function of it.
pub(crate) trait Count: Copy + Default + Into<f64> + Send + Sync {}
impl Count for u32 {}
impl Count for f64 {}

impl<C: Count> PreparedTrees<C> {
    /// Reads trees in time by their distinct subtrees, and the store once; where derivatives
    /// by λ are wanted (`sloped`), with leaves of weight 0. `leaves` says whether these are read
    /// at all.
    ///
    /// # Errors
    /// [`crate::Error::Capacity`] if a subtree stands 2^32 times in one tree,
    /// [`crate::Error::Memory`], and what `context` returns.
    pub(crate) fn new(
        nodes: &Nodes,
        weights: &[f64],
        counts: impl Fn(u32) -> C,
        leaves: bool,
        sloped: Option<f64>,
        roots: &[NodeId],
        context: &Context,
    ) -> Result<Self> {
        let tree_counts = TreeCounts::read_with(leaves, nodes, roots, context)?;
        let mut items = Ragged::default();
        for tree in 0..tree_counts.len() {
            context.check()?;
            let weighted_items = tree_counts.iter(tree).map(|(node, count)| Item {
                node,
                count: counts(count),
                weight: weights[node.index()],
            });
            // Leaves out where they have no weight: half of the subtrees.
            items.extend(
                weighted_items.filter(|item| item.weight > 0.0 || sloped.is_some()),
            )?;
            items.close("subtrees, tree by tree")?;
        }
        let mut inner: Vec<f64> = Vec::new();
        if sloped.is_some() {
            memory::reserve(&mut inner, nodes.len())?;
            // Inner nodes at and below each node, for λ^n has the derivative n λ^(n-1).
            for node in (0..nodes.len()).map(|n| NodeId(n as u32)) {
                let is_inner = f64::from(u8::from(!nodes.is_leaf(node)));
                let below = nodes.children(node).iter().map(|c| inner[c.index()]);
                let sum = below.fold(is_inner, |sum, n| sum + n);
                memory::push(&mut inner, sum)?;
            }
        }
        Ok(Self { n_nodes: nodes.len(), items, decay: sloped.unwrap_or(1.0), inner })
    }

    /// The weight of a subtree.
    #[inline]
    fn weight<N: Number>(&self, item: &Item<C>) -> N {
        N::depending(item.weight, || {
            // A leaf weighs `leaf_weight` itself; the others depend on λ alone.
            let inner = self.inner[item.node.index()];
            if inner == 0.0 {
                [0.0, 1.0, 0.0]
            } else {
                [inner * item.weight / self.decay, 0.0, 0.0]
            }
        })
    }
}

/// What is kept from pair to pair: how often the first tree has each subtree. What other
/// trees left there has another stamp.
#[derive(Debug, Default)]
pub(crate) struct Scratch<C> {
    tree: Option<usize>,
    stamp: u32,
    /// By node: stamp and count.
    counts: Vec<(u32, C)>,
}

impl<C: Count> Scratch<C> {
    /// Loads a tree into the table, in place of the one that is there.
    fn load(&mut self, tree: usize, trees: &PreparedTrees<C>) -> Result<()> {
        // Before stamps run out the table is emptied: an old stamp must not look like a
        // new one.
        if self.stamp == 0 || self.stamp == u32::MAX {
            self.counts = memory::filled((0, C::default()), trees.n_nodes)?;
            self.stamp = 0;
        }
        self.stamp += 1;
        self.tree = Some(tree);
        for item in trees.items.get(tree) {
            self.counts[item.node.index()] = (self.stamp, item.count);
        }
        Ok(())
    }
}

impl<C: Count> Pairs for PreparedTrees<C> {
    type Scratch<N: Number> = Scratch<C>;

    fn pair<N: Number>(
        &self,
        a: usize,
        b: usize,
        scratch: &mut Scratch<C>,
        _: &Context,
    ) -> Result<N> {
        if scratch.tree != Some(a) {
            scratch.load(a, self)?;
        }
        // In the order of the second tree's walk, so that the bits do not depend on ids.
        let mut sum = N::from_f64(0.0);
        for item in self.items.get(b) {
            let (stamp, count) = scratch.counts[item.node.index()];
            if stamp == scratch.stamp {
                let count: f64 = count.into() * item.count.into();
                sum = sum + N::from_f64(count) * self.weight(item);
            }
        }
        Ok(sum)
    }
}
