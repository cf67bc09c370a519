//! The fragments that count most in a model, without listing all there are.
//!
//! A score is a sum over the fragments of a tree. For SST, with n_t(x) the number of times
//! that fragment t stands in x, and |t| its productions,
//!
//! ```text
//! S(x) = Σ_t w(t) n_t(x)        w(t) = λ^|t| Σ_i α_i n_t(x_i) = λ^|t| Σ_{ξ begins with t} f(ξ)
//! ```
//!
//! so w(t) is what one occurrence adds to the score (1/sqrt(K(x,x)) and the intercept
//! stand outside). A tree of n nodes has up to 2^n fragments; those with the largest w are
//! found best first, by branch and bound.
//!
//! A state is a fragment with the subtrees ξ that begin with it. Its open nodes are decided
//! from left to right: a node stays bare or gets one of the productions that the ξ have
//! there, so that each fragment is made once. Larger fragments begin fewer ξ, and λ ≤ 1:
//!
//! ```text
//! w(what is made of a state)  ≤  λ^(|t|+1) Σ_ξ max(f(ξ), 0)
//! ```
//!
//! Weights of both signs make this loose, as what cancels for ever would count. So a ξ is
//! seen as the list of its open nodes: those with equal lists can no longer be told apart
//! by any decision, become one row with the sum of their f, and rows that have nothing left
//! to expand are dropped.
//!
//! For ST the fragments are the subtrees themselves, w(ξ) = λ^|ξ| f(ξ). The search and what
//! it keeps are in `fragments/search.rs`, for all kernels; what the fragments of SST are made
//! of is in `fragments/subset.rs`, and those of PT and ET, which may stand in one place in
//! many ways, are in `fragments/parts.rs`.
//!
//! # Complexity
//! A state costs the rows it has, and their children where these are expanded. How many
//! states there are depends on the weights: few where λ is small or few fragments matter,
//! exponentially many where long fragments with λ = 1 nearly cancel; so there is a limit.

mod best;
mod parts;
mod search;
mod subset;

use best::{Best, Source};
use parts::Parts;
use search::Search;
use subset::Productions;

use super::{Index, Model};
use crate::index::subtree;
use crate::memory;
use crate::{Context, Error, Forest, NodeId, Nodes, Result};

/// Which weights are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rank {
    /// The largest, above 0.
    Largest,
    /// The most negative, below 0.
    Smallest,
    /// The largest absolute values.
    Absolute,
}

impl Rank {
    /// What is made as large as possible.
    fn value(self, weight: f64) -> f64 {
        match self {
            Self::Largest => weight,
            Self::Smallest => -weight,
            Self::Absolute => weight.abs(),
        }
    }
}

/// What fragments are looked for.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Query {
    /// How many.
    pub k: usize,
    /// By what.
    pub rank: Rank,
    /// Of which of the model's outputs.
    pub output: usize,
    /// The smallest size: productions, of which a leaf alone has none; of PT and ET nodes.
    pub min_size: u64,
    /// The largest size.
    pub max_size: u64,
    /// How many states the search may look at.
    pub max_states: usize,
}

impl Default for Query {
    fn default() -> Self {
        Self {
            k: 10,
            rank: Rank::Largest,
            output: 0,
            min_size: 0,
            max_size: u64::MAX,
            max_states: 1_000_000,
        }
    }
}

/// Fragments, the best first.
#[derive(Debug, Clone)]
pub struct Fragments {
    /// As trees; a node that stays bare is a leaf.
    pub forest: Forest,
    /// What one occurrence adds to a score that is not normalised; of PT one without gaps, and
    /// without leaves of the tree.
    pub weights: Vec<f64>,
    /// Productions; of PT and ET nodes.
    pub sizes: Vec<u64>,
}

impl Model {
    /// The k fragments with the best weights, fewer if there are not so many above 0; see
    /// the file's head. Of equal weights the smaller fragments come first.
    ///
    /// # Errors
    /// [`Error::Parameter`] for an output that the model does not have; [`Error::Search`] if
    /// the limit was reached; [`Error::Array`] for weights whose sum is beyond floats;
    /// [`Error::Capacity`].
    pub fn top_fragments(&self, query: &Query) -> Result<Fragments> {
        self.top_fragments_with(query, &Context::default())
    }

    /// As [`top_fragments`](Self::top_fragments), in a context.
    ///
    /// # Errors
    /// As [`top_fragments`](Self::top_fragments), and what `context` returns.
    pub fn top_fragments_with(
        &self,
        query: &Query,
        context: &Context,
    ) -> Result<Fragments> {
        if query.output >= self.options.n_outputs {
            let (name, expected) = ("output", "below n_outputs");
            let got = query.output.to_string();
            return Err(Error::Parameter { name, expected, got });
        }
        let (nodes, mut best) = (&self.nodes, Best::new(*query));
        let weights = self.checked_weights(query.output)?;
        match &self.index {
            Index::Support => Err(self.unsupported("fragments with weights")),
            Index::Subtree(index) => {
                self.offer_subtrees(index, weights, &mut best)?;
                // No steps were offered, so no tree is built of them.
                best.fragments(nodes, |_, _| Ok(NodeId(0)))
            }
            Index::Subset(index) => {
                // A leaf is a fragment without productions. None grows of it, so it is
                // offered here, and the search leaves leaves out.
                let is_leaf = |&(node, _): &(NodeId, f64)| nodes.is_leaf(node);
                for (node, f) in weights.clone().filter(is_leaf) {
                    best.offer(index.leaf_weight * f, 0, Source::Subtree(node))?;
                }
                let growth = Productions::new(nodes, index.decay)?;
                Search::new(growth, best).run(nodes, weights, context)
            }
            Index::Partial(index) => {
                let growth = Parts::new(nodes, (&**index).into(), context)?;
                Search::new(growth, best).run(nodes, weights, context)
            }
            Index::Elastic(index) => {
                let growth = Parts::new(nodes, (&**index).into(), context)?;
                Search::new(growth, best).run(nodes, weights, context)
            }
        }
    }

    /// Offers the fragments of ST, which are the subtrees themselves.
    fn offer_subtrees(
        &self,
        index: &subtree::Index,
        weights: impl Iterator<Item = (NodeId, f64)>,
        best: &mut Best,
    ) -> Result<()> {
        let sizes = inner_nodes(&self.nodes)?;
        // By node: λ^|ξ|.
        let mut powers: Vec<f64> = Vec::new();
        for (node, f) in weights {
            let is_leaf = self.nodes.is_leaf(node);
            let below = self.nodes.children(node).iter();
            // λ for the node itself, times the powers of its children, which come
            // before it.
            let power = below.fold(index.decay, |power, c| power * powers[c.index()]);
            // A factor of 1 leaves the power of the parent alone.
            let power = if is_leaf { 1.0 } else { power };
            memory::push(&mut powers, power)?;
            let weight = match index.weights() {
                Some(weights) => weights[node],
                None if is_leaf => index.leaf_weight,
                None => power,
            };
            best.offer(weight * f, sizes[node.index()], Source::Subtree(node))?;
        }
        Ok(())
    }

    /// All subtrees with their weights of one output.
    ///
    /// # Errors
    /// [`Error::Array`] where their sum is beyond floats: then no sum of some of them is
    /// infinite, nor one of both infinities.
    fn checked_weights(
        &self,
        output: usize,
    ) -> Result<impl Iterator<Item = (NodeId, f64)> + Clone + use<'_>> {
        let nodes = (0..self.nodes.len()).map(|node| NodeId(node as u32));
        let weights = nodes.map(move |node| (node, self.weights(node)[output]));
        let mut sum = 0.0;
        for (node, f) in weights.clone() {
            // Sizes are summed: this bounds every sum of some of the weights, whatever
            // their signs.
            sum += f.abs();
            if !f64::is_finite(sum) {
                return Err(Error::Array {
                    array: "weights",
                    index: node.index(),
                    expected: "weights whose sum a float can hold".to_owned(),
                    got: f.to_string(),
                });
            }
        }
        Ok(weights)
    }
}

/// By node: the inner nodes of its tree, which are the most productions that a fragment
/// has there.
fn inner_nodes(nodes: &Nodes) -> Result<Vec<u64>> {
    let mut sizes: Vec<u64> = Vec::new();
    for node in (0..nodes.len()).map(|node| NodeId(node as u32)) {
        let below = nodes.children(node).iter().map(|child| sizes[child.index()]);
        // Saturating: a tree may have more nodes than a u64 can count, as its parts are
        // shared.
        let size = below.fold(u64::from(!nodes.is_leaf(node)), u64::saturating_add);
        memory::push(&mut sizes, size)?;
    }
    Ok(sizes)
}
