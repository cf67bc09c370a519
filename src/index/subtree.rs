//! The subtree kernel's scorer.
//!
//! Equal subtrees only: S(x) = Σ_{v in x} w(v) f(v) over those that the model has, with
//! w(v) = λ^(inner nodes of v), and `leaf_weight` times the weights of equal leaves. No
//! list is needed, only a look-up, which the id_map has done.
//!
//! # Complexity
//! A score takes time by the distinct subtrees of its tree, whatever the model.

use std::sync::Arc;

use super::id_map::IdMap;
use super::weights::{ONE_GROUP, Sink, View};
use crate::forest::reader::Reader;
use crate::ids::{Id, IdVec, MemberId, Place};
use crate::kernel::Weights;
use crate::kernel::weights::finite;
use crate::{Label, NodeId, Nodes, ProductionId, Result, memory};

/// Parameters, and weights where there are such: subtrees are found by the id_map.
#[derive(Debug, Clone)]
pub(crate) struct Index {
    pub(crate) decay: f64,
    pub(crate) leaf_weight: f64,
    pub(crate) weighted: Option<Weighted>,
}

/// Weights of the model's own labels, productions and subtrees.
#[derive(Debug, Clone)]
pub(crate) struct Weighted {
    weights: Arc<Weights>,
    labels: IdVec<Label, f64>,
    productions: IdVec<ProductionId, f64>,
    subtrees: IdVec<NodeId, f64>,
}

impl Weighted {
    pub(crate) fn new(weights: Arc<Weights>) -> Self {
        let (labels, productions) = (IdVec::default(), IdVec::default());
        Self { weights, labels, productions, subtrees: IdVec::default() }
    }
}

impl Index {
    /// Takes in the next subtree of a model.
    ///
    /// # Errors
    /// [`crate::Error::Parameter`] for a weight that is not finite, and
    /// [`crate::Error::Memory`]: the subtree and its production are not there.
    pub(crate) fn enter(&mut self, nodes: &Nodes, node: NodeId) -> Result<()> {
        let Some(Weighted { weights, labels, productions, subtrees }) =
            &mut self.weighted
        else {
            return Ok(());
        };
        let (n_labels, n_productions) = (nodes.labels().len(), nodes.n_productions());
        // Room first, as nothing may fail after the weight.
        memory::reserve(subtrees, 1)?;
        // Ids come in their order.
        let new = (labels.len()..n_labels).map(Label::at);
        memory::extend(labels, new.map(|l| weights.label(nodes.labels().name(l))))?;
        let n_before = productions.len();
        let new = (n_before..n_productions).map(ProductionId::at);
        for production in new {
            memory::push(productions, weights.production(nodes, production)?)?;
        }
        // Subtrees come children first, so those of children are there.
        let weight = match nodes.production(node) {
            None => self.leaf_weight * labels[nodes.label(node)],
            Some(production) => {
                let inner = nodes.children(node).iter().filter(|&&c| !nodes.is_leaf(c));
                let factor = self.decay * productions[production];
                inner.fold(factor, |product, c| product * subtrees[*c])
            }
        };
        // Products of finite weights need not be finite.
        if let Err(error) = finite(&[weight]) {
            productions.truncate(n_before);
            return Err(error);
        }
        subtrees.push(weight); // has room
        Ok(())
    }

    /// By subtree of a model, what it weighs, where labels or productions have weights.
    pub(crate) fn weights(&self) -> Option<&IdVec<NodeId, f64>> {
        // Without weights all have λ^n, which scoring computes by itself.
        self.weighted.as_ref().map(|weighted| &weighted.subtrees)
    }

    /// Bytes held.
    pub(crate) fn nbytes(&self) -> usize {
        self.weighted.as_ref().map_or(0, |weighted| {
            let Weighted { labels, productions, subtrees, .. } = weighted;
            (labels.capacity() + productions.capacity() + subtrees.capacity()) * 8
        })
    }

    /// Tells a sink the values of all subtrees of a tree; `values` is scratch.
    ///
    /// # Errors
    /// [`crate::Error::Memory`].
    pub(crate) fn score<S: Sink<Id = MemberId>>(
        &self,
        store: &Nodes,
        id_map: &IdMap,
        tree: &Reader,
        values: &mut IdVec<Place, f64>,
        sink: &mut S,
    ) -> Result<()> {
        // By place: λ^(inner nodes), of every node, as parents ask for it.
        values.clear();
        memory::reserve(values, tree.items().len())?;
        for (place, item) in tree.items().enumerated() {
            if store.is_leaf(item.node) {
                if let Some(label) = id_map.labels[store.label(item.node)].get() {
                    let weight = match &self.weighted {
                        None => self.leaf_weight,
                        Some(weighted) => self.leaf_weight * weighted.labels[label],
                    };
                    sink.node(place, item.count);
                    sink.leaf(label, weight);
                }
                // A factor of its parent's weight.
                values.push(1.0); // has room
                continue;
            }
            // Leaves count 1, so only inner children are multiplied.
            let below = store.children(item.node).iter();
            let inner = below.filter(|&&child| !store.is_leaf(child));
            let value = inner.fold(self.decay, |product, &child| {
                product * values[tree.place(child)]
            });
            values.push(value); // has room
            if let Some(twin) = id_map.nodes[item.node].get() {
                let value = match &self.weighted {
                    None => value,
                    Some(weighted) => weighted.subtrees[twin],
                };
                // One group: a subtree is found by its id.
                sink.node(place, item.count);
                let mut view = sink.view(ONE_GROUP);
                view.add(MemberId(twin.0), value);
                view.close();
            }
        }
        Ok(())
    }
}
