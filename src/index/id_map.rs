//! A forest as a model sees it.
//!
//! Forest and model have stores, hence ids, of their own. An id map holds, for everything
//! in the forest's store, what it is called in the model, so that scoring a tree looks
//! nothing up by content: labels, productions and, for each edge, the inverted list that
//! the edge asks for. It is made in one pass over the store, and kept up to date while
//! the model learns the forest's trees.

use crate::forest::reader::{Descend, NONE};
use crate::intern::{Keys, new_id};
use crate::kernel::TreeCounts;
use crate::{NodeId, Nodes, ProductionId, Result, memory};

/// What an edge asks for: (production, position, production of the child) or (label, 0,
/// label of the child).
pub(crate) type Key = [u32; 3];

/// What there may be too many of.
pub(crate) const LISTS: &str = "child lists of a model";

/// An edge of the forest's store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Edge {
    /// Its key among the id map's.
    pub(crate) key: u32,
    pub(crate) child: NodeId,
}

/// What a model's index asks of an id map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
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
pub(crate) struct IdMap {
    wanted: Wanted,
    /// By label, production, node: the model's, or [`NONE`].
    pub(crate) labels: Vec<u32>,
    pub(crate) productions: Vec<u32>,
    pub(crate) nodes: Vec<u32>,
    ends: Vec<u32>,
    edges: Vec<Edge>,
    keys: Keys,
    /// By key: the index's list, or [`NONE`]. Empty where keys are lists.
    lists: Vec<u32>,
}

impl IdMap {
    /// Looks at a store. `find` is the number of a list by its key in the model's ids.
    pub(crate) fn new(
        store: &Nodes,
        model: &Nodes,
        wanted: Wanted,
        find: impl Fn(Key) -> Option<u32>,
    ) -> Result<Self> {
        let model_label = |name| model.labels().get(name).map_or(NONE, |label| label.0);
        let mut id_map = Self {
            wanted,
            labels: memory::collect(store.labels().names().map(model_label))?,
            ..Self::blank(wanted)
        };
        match wanted {
            Wanted::Labels => {}
            Wanted::Nodes => id_map.find_nodes(store, model)?,
            Wanted::Productions => {
                id_map.productions = id_map.find_productions(store, model)?;
                id_map.read_edges(store)?;
                // Taken out while keys are written: both are part of the map.
                let here = std::mem::take(&mut id_map.productions);
                id_map.find_lists(|production| here[production as usize], find)?;
                id_map.productions = here;
            }
            Wanted::LabelPairs => {
                id_map.read_edges(store)?;
                let here = std::mem::take(&mut id_map.labels);
                id_map.find_lists(|label| here[label as usize], find)?;
                id_map.labels = here;
            }
        }
        Ok(id_map)
    }

    /// Of the store that an index was built of. `edges` are those of each node, by number
    /// of the list, or [`NONE`].
    pub(crate) fn of_lists<I: Iterator<Item = Edge>>(
        store: &Nodes,
        wanted: Wanted,
        edges: impl Fn(NodeId) -> I,
    ) -> Result<Self> {
        let labels = memory::collect(0..store.labels().len() as u32)?;
        let mut map = Self { labels, ..Self::blank(wanted) };
        memory::reserve(&mut map.ends, store.len())?;
        for node in (0..store.len()).map(|n| NodeId(n as u32)) {
            memory::extend(&mut map.edges, edges(node))?;
            memory::push(&mut map.ends, new_id(map.edges.len(), "edges")?)?;
        }
        Ok(map)
    }

    /// The same for the nodes of some trees; `find` is a list by its key in the store's
    /// ids.
    pub(crate) fn of_same(
        store: &Nodes,
        wanted: Wanted,
        trees: &TreeCounts,
        find: impl Fn(Key) -> Option<u32>,
    ) -> Result<Self> {
        // Nodes of other trees have no edges: nobody will ask for them.
        let mut is_asked = memory::filled(false, store.len())?;
        for node in (0..trees.len()).flat_map(|tree| trees.nodes(tree)) {
            is_asked[node.index()] = true;
        }
        Self::of_lists(store, wanted, |node| {
            let children =
                if is_asked[node.index()] { store.children(node) } else { &[] };
            let find = &find;
            children.iter().enumerate().filter_map(move |(position, &child)| {
                let key = Self::key(wanted, store, node, position, child)?;
                Some(Edge { key: find(key).unwrap_or(NONE), child })
            })
        })
    }

    /// As [`new`](Self::new), with the edges of some trees only; the store may be the model's.
    pub(crate) fn of_trees(
        store: &Nodes,
        model: &Nodes,
        wanted: Wanted,
        trees: &TreeCounts,
        find: impl Fn(Key) -> Option<u32>,
    ) -> Result<Self> {
        // One store: every id is its own.
        let is_same = std::ptr::eq(store, model);
        // Twins need no edges.
        if wanted == Wanted::Nodes && !is_same {
            return Self::new(store, model, wanted, find);
        }
        let mut map = if is_same {
            let labels = memory::collect(0..store.labels().len() as u32)?;
            Self { labels, ..Self::blank(wanted) }
        } else {
            Self::new(store, model, Wanted::Labels, |_| None)?
        };
        if wanted == Wanted::Nodes {
            map.nodes = memory::collect(0..store.len() as u32)?;
            return Ok(map);
        }
        if wanted == Wanted::Productions {
            map.productions = if is_same {
                memory::collect(0..store.n_productions() as u32)?
            } else {
                map.find_productions(store, model)?
            };
        }
        let here =
            if wanted == Wanted::Productions { &map.productions } else { &map.labels };
        // Edges in the ids of the store, lists by those of the model.
        let edges = Self::of_same(store, wanted, trees, |[parent, at, child]| {
            let [parent, child] = [parent, child].map(|id| here[id as usize]);
            let is_known = parent != NONE && child != NONE;
            if is_known { find([parent, at, child]) } else { None }
        })?;
        let Self { labels, productions, .. } = map;
        Ok(Self { labels, productions, ..edges })
    }

    /// The map of a store without nodes.
    pub(crate) fn blank(wanted: Wanted) -> Self {
        Self {
            wanted,
            labels: Vec::new(),
            productions: Vec::new(),
            nodes: Vec::new(),
            ends: Vec::new(),
            edges: Vec::new(),
            keys: Keys::default(),
            lists: Vec::new(),
        }
    }

    pub(crate) fn nbytes(&self) -> usize {
        let ids = self.labels.len() + self.productions.len() + self.nodes.len();
        let ids = ids + self.ends.len() + self.lists.len();
        ids * 4 + self.edges.len() * size_of::<Edge>() + self.keys.nbytes()
    }

    /// Finds the lists of all keys; `here` is a label or production in the index.
    fn find_lists(
        &mut self,
        here: impl Fn(u32) -> u32,
        find: impl Fn(Key) -> Option<u32>,
    ) -> Result<()> {
        let lists = self.keys.keys.iter().map(|&[parent, position, child]| {
            let [parent, child] = [parent, child].map(&here);
            if parent == NONE || child == NONE {
                return NONE;
            }
            find([parent, position, child]).unwrap_or(NONE)
        });
        memory::extend(&mut self.lists, lists)
    }

    fn find_nodes(&mut self, store: &Nodes, model: &Nodes) -> Result<()> {
        memory::reserve(&mut self.nodes, store.len())?;
        let mut below = Vec::new();
        for node in (0..store.len()).map(|n| NodeId(n as u32)) {
            // Children have smaller ids, so their twins are found already.
            let label = self.labels[store.label(node).index()];
            below.clear();
            let children = store.children(node).iter();
            memory::extend(
                &mut below,
                children.map(|c| NodeId(self.nodes[c.index()])),
            )?;
            // A subtree is known only if its label and all below it are.
            let is_known = label != NONE && !below.contains(&NodeId(NONE));
            let there = if is_known { model.find_node(label, &below) } else { None };
            memory::push(&mut self.nodes, there.map_or(NONE, |node| node.0))?;
        }
        Ok(())
    }

    /// By production of the store: the model's, or [`NONE`].
    fn find_productions(&self, store: &Nodes, model: &Nodes) -> Result<Vec<u32>> {
        let (mut found, mut there) = (Vec::new(), Vec::new());
        // Productions are compared by their labels in the model's ids.
        for production in (0..store.n_productions() as u32).map(ProductionId) {
            let labels = store.production_labels(production).iter();
            there.clear();
            memory::extend(&mut there, labels.map(|l| self.labels[l.index()]))?;
            let twin = if there.contains(&NONE) {
                None
            } else {
                model.find_production(&there)
            };
            memory::push(&mut found, twin.map_or(NONE, |p| p.0))?;
        }
        Ok(found)
    }

    fn read_edges(&mut self, store: &Nodes) -> Result<()> {
        memory::reserve(&mut self.ends, store.len())?;
        for node in (0..store.len()).map(|n| NodeId(n as u32)) {
            // Many edges ask for one list, so each key is looked up once.
            for (position, &child) in store.children(node).iter().enumerate() {
                if let Some(key) = Self::key(self.wanted, store, node, position, child)
                {
                    let key = self.keys.insert(key, LISTS)?;
                    memory::push(&mut self.edges, Edge { key, child })?;
                }
            }
            // Edges of a node start where those of the node before end.
            memory::push(&mut self.ends, new_id(self.edges.len(), "edges")?)?;
        }
        Ok(())
    }

    /// What an edge of a store asks for, in the store's own ids.
    pub(crate) fn key(
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
    pub(crate) fn edges(&self, node: NodeId) -> &[Edge] {
        let start = node.index().checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.edges[start as usize..self.ends[node.index()] as usize]
    }

    /// The index's list for an edge, or [`NONE`].
    #[inline]
    pub(crate) fn list(&self, edge: Edge) -> u32 {
        if self.lists.is_empty() {
            return edge.key;
        }
        self.lists[edge.key as usize]
    }

    /// Takes note that a subtree of the forest has become one of the model.
    pub(crate) fn learn(
        &mut self,
        (store, node): (&Nodes, NodeId),
        (model, twin): (&Nodes, NodeId),
        find: impl Fn(Key) -> Option<u32>,
    ) {
        // A map without nodes or productions has nothing to note there.
        if let Some(model_id) = self.nodes.get_mut(node.index()) {
            *model_id = twin.0;
        }
        let productions = (store.production(node), model.production(twin));
        // A leaf has no production.
        if let (Some(production), Some(there)) = productions
            && let Some(model_id) = self.productions.get_mut(production.index())
        {
            *model_id = there.0;
        }
        if self.ends.is_empty() {
            return;
        }
        let start = node.index().checked_sub(1).map_or(0, |before| self.ends[before]);
        // Twin and node have equal children, so their edges come in the same order.
        let mut edge = start as usize;
        for (position, &child) in model.children(twin).iter().enumerate() {
            let Some(key) = Self::key(self.wanted, model, twin, position, child) else {
                continue;
            };
            // A list that is found stays: only keys without one are asked again.
            let list = &mut self.lists[self.edges[edge].key as usize];
            if *list == NONE {
                *list = find(key).unwrap_or(NONE);
            }
            edge += 1;
        }
    }
}

/// Nothing is asked of leaves where inner children are listed.
impl Descend for IdMap {
    type Edge = Edge;

    #[inline]
    fn edges(&self, node: NodeId) -> &[Edge] {
        self.edges(node)
    }

    #[inline]
    fn child(&self, edge: &Edge) -> Option<NodeId> {
        Some(edge.child)
    }
}
