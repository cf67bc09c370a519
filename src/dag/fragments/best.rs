//! The k best fragments so far, and the bar that further ones have to pass.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;

use super::search::StepId;
use super::{Fragments, Query, Rank};
use crate::memory;
use crate::{Context, Error, Forest, NodeId, Nodes, Result};

/// Where a fragment's tree comes from.
#[derive(Debug, Clone, Copy)]
pub(super) enum Source {
    /// It is a whole subtree of the model.
    Subtree(NodeId),
    /// A search wrote it, up to this step.
    Steps(StepId),
}

#[derive(Debug, Clone, Copy)]
struct Candidate {
    /// What the query ranks by, above 0.
    value: f64,
    weight: f64,
    size: u64,
    /// Counts offers: of equal candidates the first one wins, so that the same search has
    /// the same answer.
    number: u64,
    source: Source,
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Candidate {}
impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Candidate {
    /// The better candidate is less: the top of a heap is the worst, which it gives up first.
    fn cmp(&self, other: &Self) -> Ordering {
        let by_value = other.value.total_cmp(&self.value);
        by_value.then(self.size.cmp(&other.size)).then(self.number.cmp(&other.number))
    }
}

/// The k best candidates so far.
pub(super) struct Best {
    query: Query,
    /// At most k, the worst on top.
    heap: BinaryHeap<Candidate>,
    n_offers: u64,
}

impl Best {
    pub(super) fn new(query: Query) -> Self {
        Self { query, heap: BinaryHeap::new(), n_offers: 0 }
    }

    pub(super) fn query(&self) -> &Query {
        &self.query
    }

    /// What a fragment's value must be above to be of use.
    pub(super) fn threshold(&self) -> f64 {
        match self.heap.peek() {
            // Nothing is wanted, so nothing is of use, and the search ends at once.
            _ if self.query.k == 0 => f64::INFINITY,
            Some(worst) if self.heap.len() == self.query.k => worst.value,
            _ => 0.0,
        }
    }

    /// The largest value that a sum of any of these terms has.
    pub(super) fn largest_sum(&self, terms: impl Iterator<Item = f64>) -> f64 {
        let (mut above, mut below) = (0.0, 0.0);
        for term in terms {
            if term > 0.0 {
                above += term;
            } else {
                below -= term;
            }
        }
        // For `Absolute` terms of one sign count alone: those of the other make the sum
        // smaller.
        match self.query.rank {
            Rank::Largest => above,
            Rank::Smallest => below,
            Rank::Absolute => f64::max(above, below),
        }
    }

    /// Takes a fragment in, if the query allows it and it is among the k best.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub(super) fn offer(
        &mut self,
        weight: f64,
        size: u64,
        source: Source,
    ) -> Result<()> {
        let query = &self.query;
        let value = query.rank.value(weight);
        if size < query.min_size || size > query.max_size || value <= 0.0 {
            return Ok(());
        }
        // The number is taken even if the candidate is not: it depends on the search
        // alone.
        self.n_offers += 1;
        let number = self.n_offers;
        let candidate = Candidate { value, weight, size, number, source };
        if self.heap.len() < query.k {
            memory::enter(&mut self.heap, candidate)?;
        } else if let Some(mut worst) = self.heap.peek_mut()
            // The better one is less. The heap moves the new top to its place when
            // `worst` goes.
            && candidate < *worst
        {
            *worst = candidate;
        }
        Ok(())
    }

    /// Writes the fragments out; `build` makes the tree that a step ends in.
    pub(super) fn fragments(
        self,
        model: &Nodes,
        build: impl Fn(StepId, &mut Nodes) -> Result<NodeId>,
    ) -> Result<Fragments> {
        // In ascending order, so the best comes first.
        let best = self.heap.into_sorted_vec();
        // Infinite weights cannot be told apart, so their order would mean nothing.
        if let Some(index) = best.iter().position(|found| !found.weight.is_finite()) {
            return Err(Error::Array {
                array: "fragments",
                index,
                expected: "a weight that a float can hold".to_owned(),
                got: best[index].weight.to_string(),
            });
        }
        let mut nodes = Nodes::default();
        let mut roots = Vec::new();
        for candidate in &best {
            let root = match candidate.source {
                Source::Subtree(node) => {
                    nodes.absorb_one(model, node, &Context::default())?
                }
                Source::Steps(last) => build(last, &mut nodes)?,
            };
            memory::push(&mut roots, root)?;
        }
        Ok(Fragments {
            forest: Forest::new(Arc::new(nodes), roots),
            weights: memory::collect(best.iter().map(|candidate| candidate.weight))?,
            sizes: memory::collect(best.iter().map(|candidate| candidate.size))?,
        })
    }
}
