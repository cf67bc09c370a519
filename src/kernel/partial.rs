//! The partial tree kernel: how child lists are matched, and single pairs.
//!
//! A fragment takes any children of a node, in order, so for two nodes with equal labels
//!
//! ```text
//! D(u,v) = μ (λ² leafness + Σ over subsequences I of u's children, J of v's, |I| = |J| >= 1
//!                           of λ^(gaps(I) + gaps(J)) Π_k D(u_{I_k}, v_{J_k}))
//! K(a,b) = Σ_{u in a, v in b} D(u,v)
//! ```
//!
//! (Moschitti, ECML 2006; λ per child left out, as SVM-Light-TK and KeLP compute it, not
//! λ per position as printed there.) Pairs of subsequences are chains of matches (i,j),
//! both growing. With T(i,j) the weight of all chains that end in (i,j), one pass over
//! the ρ × ρ grid does what the papers do in one pass per length:
//!
//! ```text
//! T(i,j) = D(i,j) (1 + S(i-1,j-1))     R(i,j) = λ R(i,j-1) + T(i,j)     S(i,j) = λ S(i-1,j) + R(i,j)
//! ```
//!
//! Nothing is subtracted, so no digits are lost. (Texts have λ² - λ · λ forms of the same
//! sum.) Only children with equal labels match, and where few do, a list of the matches
//! is shorter than the grid: [`Chains`] takes what is cheapest.
//!
//! For example, `(A b)` against itself at λ = μ = 0.4: D(b,b) = 0.4 · 0.16 = 0.064, and
//! D(A,A) = 0.4 (0.16 + 0.064) = 0.0896, so K = 0.1536.
//!
//! # Complexity
//! A pair takes time by its pairs of distinct nodes with equal labels, each by its
//! matches M of r and c children: the least of M², r c and M log c. Memory: the values of
//! nodes that a parent will still ask for, so a chain takes no more than two nodes' at a
//! time; beyond 2^28 of them a pair is refused.
//!
//! Sums follow the order in which a walk leaves the nodes, and the two trees change places
//! by a hash of what they hold. So K(a,b) is K(b,a) bit for bit, and neither depends on
//! what else is in the store.

mod chains;
mod trees;

use std::sync::Arc;

pub(crate) use chains::{Chains, NONE, Table, Weights, grow_powers};
pub(crate) use trees::{
    EqualLabels, MatchingLabel, MatchingLabels, PreparedTrees, Scratch, Tree,
};

use super::weights::{ResolvedWeights, Weightable};
use super::{
    Builtin, Kernel, Prepared, Rule, Sketch, Sloped, described, kernel_struct, naive,
    parameter,
};
use crate::features::Kind;
use crate::{Context, NodeId, Nodes, Result};

kernel_struct! {
    /// Fragments are any connected parts (Moschitti, ECML 2006).
    PartialTree new(decay, mu) {
        /// λ: per child left out between two of a fragment's.
        decay: f64 = 0.4, Share, with_decay;
        /// μ: per node of a fragment.
        mu: f64 = 0.4, Share, with_mu;
        /// How much more a leaf's single-node fragment weighs.
        leaf_factor: f64 = 1.0, NotNegative, with_leaf_factor;
        /// The longest child subsequence that counts.
        max_children: Option<usize> = None, Limit, with_max_children;
    }
}

impl Kernel for PartialTree {
    described!();

    fn definition(&self, nodes: &Nodes, a: NodeId, b: NodeId) -> f64 {
        naive::sum(nodes, a, b, |u, v| {
            let equal = |u, v| f64::from(u8::from(nodes.label(u) == nodes.label(v)));
            naive::partial_tree(nodes, self, &equal, u, v)
        })
    }

    fn pairs(
        &self,
        nodes: &Arc<Nodes>,
        roots: &[NodeId],
        context: &Context,
    ) -> Result<Box<dyn Prepared>> {
        let trees = PreparedTrees::new(self, self.mu, nodes, roots, context)?;
        Ok(Box::new(trees))
    }

    fn sloped(
        &self,
        nodes: &Arc<Nodes>,
        roots: &[NodeId],
        context: &Context,
    ) -> Result<Option<Box<dyn Sloped>>> {
        self.check_slopes()?;
        let trees = PreparedTrees::new(self, self.mu, nodes, roots, context)?;
        Ok(Some(Box::new(trees)))
    }

    fn builtin(&self) -> Option<Builtin<'_>> {
        // Each tree has the root of a pair's weight.
        let single = self.mu.sqrt() * self.decay;
        Some(Builtin {
            index: Some(Box::new(self.clone())),
            sketch: Some(Sketch {
                rule: Rule::Partial,
                value: self.mu.sqrt(),
                leaf: single * self.leaf_factor.sqrt(),
                cut: single,
                leaf_sum: single * self.leaf_factor.sqrt(),
                decay: self.decay,
                longest: self.max_children,
                smallest: self.mu * self.decay * self.decay,
            }),
            weightable: Some(self),
            features: Some(Kind::Partial { kernel: self.clone(), max_size: 1 }),
            ..Builtin::new(self)
        })
    }
}

impl PartialTree {
    /// Makes sure that there are derivatives.
    pub(super) fn check_slopes(&self) -> Result<()> {
        if self.leaf_factor > 0.0 {
            return Ok(());
        }
        // A leaf and an inner node weigh its root, whose derivative is infinite.
        let expected = "above 0 where derivatives are wanted";
        Err(parameter("leaf_factor", expected, &self.leaf_factor))
    }
}

impl Weightable for PartialTree {
    fn weighted_name(&self) -> &'static str {
        "weighted PartialTree"
    }

    fn weighted_definition(
        &self,
        table: &ResolvedWeights,
        nodes: &Nodes,
        a: NodeId,
        b: NodeId,
    ) -> f64 {
        naive::sum(nodes, a, b, |u, v| {
            let equal = |u, v| {
                let is_equal = nodes.label(u) == nodes.label(v);
                if is_equal { table.label(nodes, u) } else { 0.0 }
            };
            naive::partial_tree(nodes, self, &equal, u, v)
        })
    }

    fn weighted_pairs(
        &self,
        table: &ResolvedWeights,
        nodes: &Arc<Nodes>,
        roots: &[NodeId],
        context: &Context,
    ) -> Result<Box<dyn Prepared>> {
        let mu = table.labels_times(self.mu)?;
        let trees = PreparedTrees::new(self, mu, nodes, roots, context)?;
        Ok(Box::new(trees))
    }
}

#[cfg(test)]
mod tests;
