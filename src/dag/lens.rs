//! A forest as a model sees it.
//!
//! Forest and model have stores, hence ids, of their own. A lens holds, for everything
//! in the forest's store, what it is called in the model, so that scoring a tree looks
//! nothing up by content: labels, productions and, for each edge, the inverted list that
//! the edge asks for. It is made in one pass over the store, and kept up to date while
//! the model learns the forest's trees.

use super::tree::NONE;
use crate::intern::{Keys, new_id};
use crate::{NodeId, Nodes, Result};

/// What an edge asks for: (production, position, production of the child) or (label, 0,
/// label of the child).
pub(super) type Key = [u32; 3];

/// What there may be too many of.
pub(super) const LISTS: &str = "child lists of a model";

/// An edge of the forest's store.
#[derive(Debug, Clone, Copy)]
pub(super) struct Edge {
    /// Its key among the lens's.
    pub(super) key: u32,
    pub(super) child: NodeId,
}

/// What a model's index asks of a lens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Labels only.
    Labels,
    /// Every node's twin.
    Nodes,
    /// Productions, and lists of inner children.
    Productions,
    /// Lists of all children by label.
    LabelPairs,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Lens {
    wanted: Wanted,
    /// By label, production, node: the model's, or [`NONE`].
    pub(super) labels: Vec<u32>,
    pub(super) productions: Vec<u32>,
    pub(super) nodes: Vec<u32>,
    ends: Vec<u32>,
    edges: Vec<Edge>,
    keys: Keys,
    /// By key: the model's list, or [`NONE`].
    lists: Vec<u32>,
}

impl Lens {
    /// Looks at a store. `find` is the number of a list by its key in the model's ids.
    pub(super) fn new(
        store: &Nodes,
        model: &Nodes,
        wanted: Wanted,
        find: impl Fn(Key) -> Option<u32>,
    ) -> Result<Self> {
        let known = |name| model.labels().get(name).map_or(NONE, |label| label.0);
        let mut lens = Self {
            wanted,
            labels: store.labels().names().map(known).collect(),
            productions: Vec::new(),
            nodes: Vec::new(),
            ends: Vec::new(),
            edges: Vec::new(),
            keys: Keys::default(),
            lists: Vec::new(),
        };
        match wanted {
            Wanted::Labels => {}
            Wanted::Nodes => lens.find_nodes(store, model),
            Wanted::Productions => {
                lens.productions = (0..store.n_productions())
                    .map(|p| lens.find_production(store, model, p))
                    .collect();
                lens.read_edges(store)?;
                let Self { productions, keys, lists, .. } = &mut lens;
                lists.extend(keys.keys.iter().map(|&[parent, position, child]| {
                    let [parent, child] =
                        [parent, child].map(|p| productions[p as usize]);
                    if parent == NONE || child == NONE {
                        return NONE;
                    }
                    find([parent, position, child]).unwrap_or(NONE)
                }));
            }
            Wanted::LabelPairs => {
                lens.read_edges(store)?;
                let Self { labels, keys, lists, .. } = &mut lens;
                lists.extend(keys.keys.iter().map(|&[parent, zero, child]| {
                    let [parent, child] = [parent, child].map(|l| labels[l as usize]);
                    if parent == NONE || child == NONE {
                        return NONE;
                    }
                    find([parent, zero, child]).unwrap_or(NONE)
                }));
            }
        }
        Ok(lens)
    }

    fn find_nodes(&mut self, store: &Nodes, model: &Nodes) {
        let mut below = Vec::new();
        for node in (0..store.len()).map(|n| NodeId(n as u32)) {
            let label = self.labels[store.label(node).index()];
            below.clear();
            below.extend(store.children(node).iter().map(|c| self.nodes[c.index()]));
            let known = label != NONE && !below.contains(&NONE);
            let there = if known { model.find_node(label, &below) } else { None };
            self.nodes.push(there.map_or(NONE, |node| node.0));
        }
    }

    fn find_production(&self, store: &Nodes, model: &Nodes, production: usize) -> u32 {
        let labels = store.production_labels(crate::ProductionId(production as u32));
        let there: Vec<u32> = labels.iter().map(|l| self.labels[l.index()]).collect();
        if there.contains(&NONE) {
            return NONE;
        }
        model.find_production(&there).map_or(NONE, |p| p.0)
    }

    fn read_edges(&mut self, store: &Nodes) -> Result<()> {
        self.ends.reserve_exact(store.len());
        for node in (0..store.len()).map(|n| NodeId(n as u32)) {
            for (position, &child) in store.children(node).iter().enumerate() {
                if let Some(key) = Self::key(self.wanted, store, node, position, child)
                {
                    let key = self.keys.insert(key, LISTS)?;
                    self.edges.push(Edge { key, child });
                }
            }
            self.ends.push(new_id(self.edges.len(), "edges")?);
        }
        Ok(())
    }

    /// What an edge of a store asks for, in the store's own ids.
    pub(super) fn key(
        wanted: Wanted,
        store: &Nodes,
        node: NodeId,
        position: usize,
        child: NodeId,
    ) -> Option<Key> {
        if wanted == Wanted::LabelPairs {
            return Some([store.label(node).0, 0, store.label(child).0]);
        }
        let (parent, child) = (store.production(node)?, store.production(child)?);
        Some([parent.0, position as u32, child.0])
    }

    /// A node's listed children.
    #[inline]
    pub(super) fn edges(&self, node: NodeId) -> &[Edge] {
        let start = node.index().checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.edges[start as usize..self.ends[node.index()] as usize]
    }

    /// The model's list for an edge, or [`NONE`].
    #[inline]
    pub(super) fn list(&self, edge: Edge) -> u32 {
        self.lists[edge.key as usize]
    }

    /// Takes note that a subtree of the forest has become one of the model.
    pub(super) fn learn(
        &mut self,
        (store, node): (&Nodes, NodeId),
        (model, twin): (&Nodes, NodeId),
        find: impl Fn(Key) -> Option<u32>,
    ) {
        if let Some(known) = self.nodes.get_mut(node.index()) {
            *known = twin.0;
        }
        let productions = (store.production(node), model.production(twin));
        if let (Some(own), Some(there)) = productions
            && let Some(known) = self.productions.get_mut(own.index())
        {
            *known = there.0;
        }
        if self.ends.is_empty() {
            return;
        }
        let start = node.index().checked_sub(1).map_or(0, |before| self.ends[before]);
        let mut edge = start as usize;
        for (position, &child) in model.children(twin).iter().enumerate() {
            let Some(key) = Self::key(self.wanted, model, twin, position, child) else {
                continue;
            };
            let list = &mut self.lists[self.edges[edge].key as usize];
            if *list == NONE {
                *list = find(key).unwrap_or(NONE);
            }
            edge += 1;
        }
    }
}
