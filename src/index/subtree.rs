//! The subtree kernel's scorer.
//!
//! Equal subtrees only: S(x) = Σ_{v in x} w(v) f(v) over those that the model has, with
//! w(v) = λ^(inner nodes of v), and `leaf_weight` times the weights of equal leaves. No
//! list is needed, only a look-up, which the id_map has done.
//!
//! # Complexity
//! A score takes time by the distinct subtrees of its tree, whatever the model.

use super::id_map::IdMap;
use super::reader::{NONE, Reader};
use super::weights::{Sink, View};
use crate::Nodes;

/// Nothing but parameters: subtrees are found by the id_map.
#[derive(Debug, Clone)]
pub(crate) struct Index {
    pub(crate) decay: f64,
    pub(crate) leaf_weight: f64,
}

impl Index {
    pub(crate) fn score<S: Sink>(
        &self,
        store: &Nodes,
        id_map: &IdMap,
        tree: &Reader,
        values: &mut Vec<f64>,
        sink: &mut S,
    ) {
        values.clear();
        for (place, item) in tree.items().iter().enumerate() {
            if store.is_leaf(item.node) {
                let label = id_map.labels[store.label(item.node).index()];
                if label != NONE {
                    sink.node(place, item.count);
                    sink.leaf(label, self.leaf_weight);
                }
                // A factor of its parent's weight.
                values.push(1.0);
                continue;
            }
            let below = store.children(item.node).iter();
            let inner = below.filter(|&&child| !store.is_leaf(child));
            let value = inner.fold(self.decay, |product, &child| {
                product * values[tree.place(child)]
            });
            values.push(value);
            let twin = id_map.nodes[item.node.index()];
            if twin != NONE {
                sink.node(place, item.count);
                let mut view = sink.view(0);
                view.add(twin, value);
                view.close();
            }
        }
    }
}
