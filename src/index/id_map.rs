//! A forest as a model sees it.
//!
//! Forest and model have stores, hence ids, of their own. An id map holds, for everything
//! in the forest's store, what it is called in the model, so that scoring a tree looks
//! nothing up by content: labels, productions and, for each edge, the inverted list that
//! the edge asks for. It is made in one pass over the store, and kept up to date while
//! the model learns the forest's trees.

use crate::forest::reader::Descend;
use crate::ids::{Id, IdVec, KeyId, ListId, PackedOption};
use crate::intern::{Keys, new_id};
use crate::kernel::TreeCounts;
use crate::{Label, NodeId, Nodes, ProductionId, Result, memory};

/// What an edge asks for: (production, position, production of the child) or (label, 0,
/// label of the child), all of one store.
pub(crate) type Key = [u32; 3];

/// What there may be too many of.
pub(crate) const LISTS: &str = "child lists of a model";

/// An edge of the forest's store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Edge {
    /// Its key among the id map's; its list where keys are lists.
    key: PackedOption<KeyId>,
    pub(crate) child: NodeId,
}

impl Edge {
    /// An edge of a map whose keys are lists.
    pub(crate) fn of_list(list: Option<ListId>, child: NodeId) -> Self {
        Self { key: list.map(|list| KeyId(list.0)).into(), child }
    }
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
    /// The model's label, production, node.
    pub(crate) labels: IdVec<Label, PackedOption<Label>>,
    pub(crate) productions: IdVec<ProductionId, PackedOption<ProductionId>>,
    pub(crate) nodes: IdVec<NodeId, PackedOption<NodeId>>,
    ends: IdVec<NodeId, u32>,
    edges: Vec<Edge>,
    keys: Keys<KeyId>,
    /// The index's list. Empty where keys are lists.
    lists: IdVec<KeyId, PackedOption<ListId>>,
}

impl IdMap {
    /// Looks at a store. `find` is the number of a list by its key in the model's ids.
    pub(crate) fn new(
        store: &Nodes,
        model: &Nodes,
        wanted: Wanted,
        find: impl Fn(Key) -> Option<ListId>,
    ) -> Result<Self> {
        let model_label = |name| model.labels().get(name).into();
        let labels = memory::collect(store.labels().names().map(model_label))?.into();
        let mut id_map = Self { wanted, labels, ..Self::blank(wanted) };
        match wanted {
            Wanted::Labels => {}
            Wanted::Nodes => id_map.find_nodes(store, model)?,
            Wanted::Productions => {
                id_map.productions = id_map.find_productions(store, model)?;
                id_map.read_edges(store)?;
                id_map.find_lists(find)?;
            }
            Wanted::LabelPairs => {
                id_map.read_edges(store)?;
                id_map.find_lists(find)?;
            }
        }
        Ok(id_map)
    }

    /// Of the store that an index was built of. `edges` are those of each node, by
    /// [list](Edge::of_list).
    pub(crate) fn of_lists<I: Iterator<Item = Edge>>(
        store: &Nodes,
        wanted: Wanted,
        edges: impl Fn(NodeId) -> I,
    ) -> Result<Self> {
        let labels = same_ids(store.labels().len())?;
        let mut map = Self { labels, ..Self::blank(wanted) };
        memory::reserve(&mut map.ends, store.len())?;
        for node in (0..store.len()).map(NodeId::at) {
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
        find: impl Fn(Key) -> Option<ListId>,
    ) -> Result<Self> {
        // Nodes of other trees have no edges: nobody will ask for them.
        let is_asked = memory::filled(false, store.len())?;
        let mut is_asked: IdVec<NodeId, bool> = is_asked.into();
        for &node in (0..trees.len()).flat_map(|tree| trees.nodes(tree)) {
            is_asked[node] = true;
        }
        Self::of_lists(store, wanted, |node| {
            let children = if is_asked[node] { store.children(node) } else { &[] };
            let find = &find;
            children.iter().enumerate().filter_map(move |(position, &child)| {
                let key = Self::key(wanted, store, node, position, child)?;
                Some(Edge::of_list(find(key), child))
            })
        })
    }

    /// As [`new`](Self::new), with the edges of some trees only; the store may be the model's.
    pub(crate) fn of_trees(
        store: &Nodes,
        model: &Nodes,
        wanted: Wanted,
        trees: &TreeCounts,
        find: impl Fn(Key) -> Option<ListId>,
    ) -> Result<Self> {
        // One store: every id is its own.
        let is_same = std::ptr::eq(store, model);
        // Twins need no edges.
        if wanted == Wanted::Nodes && !is_same {
            return Self::new(store, model, wanted, find);
        }
        let mut map = if is_same {
            let labels = same_ids(store.labels().len())?;
            Self { labels, ..Self::blank(wanted) }
        } else {
            // What else is wanted is found below, for some trees only.
            Self { wanted, ..Self::new(store, model, Wanted::Labels, |_| None)? }
        };
        if wanted == Wanted::Nodes {
            map.nodes = same_ids(store.len())?;
            return Ok(map);
        }
        if wanted == Wanted::Productions {
            map.productions = if is_same {
                same_ids(store.n_productions())?
            } else {
                map.find_productions(store, model)?
            };
        }
        // Edges in the ids of the store, lists by those of the model.
        let find = |key| map.model_key(key).and_then(&find);
        let edges = Self::of_same(store, wanted, trees, find)?;
        let Self { labels, productions, .. } = map;
        Ok(Self { labels, productions, ..edges })
    }

    /// The map of a store without nodes.
    pub(crate) fn blank(wanted: Wanted) -> Self {
        Self {
            wanted,
            labels: IdVec::default(),
            productions: IdVec::default(),
            nodes: IdVec::default(),
            ends: IdVec::default(),
            edges: Vec::new(),
            keys: Keys::default(),
            lists: IdVec::default(),
        }
    }

    pub(crate) fn nbytes(&self) -> usize {
        let ids = self.labels.len() + self.productions.len() + self.nodes.len();
        let ids = ids + self.ends.len() + self.lists.len();
        ids * 4 + self.edges.len() * size_of::<Edge>() + self.keys.nbytes()
    }

    /// A key of the store by the model's labels or productions, if it has them.
    fn model_key(&self, [parent, position, child]: Key) -> Option<Key> {
        let there = |id| match self.wanted {
            Wanted::Productions => Some(self.productions[ProductionId(id)].get()?.0),
            _ => Some(self.labels[Label(id)].get()?.0),
        };
        Some([there(parent)?, position, there(child)?])
    }

    /// Finds the lists of all keys.
    fn find_lists(&mut self, find: impl Fn(Key) -> Option<ListId>) -> Result<()> {
        let find = |&key| self.model_key(key).and_then(&find).into();
        self.lists = memory::collect(self.keys.keys.iter().map(find))?.into();
        Ok(())
    }

    fn find_nodes(&mut self, store: &Nodes, model: &Nodes) -> Result<()> {
        memory::reserve(&mut self.nodes, store.len())?;
        let mut below = Vec::new();
        for node in (0..store.len()).map(NodeId::at) {
            // Children have smaller ids, so their twins are found already.
            let label = self.labels[store.label(node)].get();
            below.clear();
            let children = store.children(node);
            let twins = children.iter().map_while(|&child| self.nodes[child].get());
            memory::extend(&mut below, twins)?;
            // A subtree is known only if its label and all below it are.
            let label = label.filter(|_| below.len() == children.len());
            let twin = label.and_then(|label| model.find_node(label, &below));
            memory::push(&mut self.nodes, twin.into())?;
        }
        Ok(())
    }

    /// By production of the store: the model's.
    fn find_productions(
        &self,
        store: &Nodes,
        model: &Nodes,
    ) -> Result<IdVec<ProductionId, PackedOption<ProductionId>>> {
        let (mut found, mut there) = (IdVec::default(), Vec::new());
        // Productions are compared by their labels in the model's ids.
        for production in (0..store.n_productions()).map(ProductionId::at) {
            let labels = store.production_labels(production);
            there.clear();
            let twins = labels.iter().map_while(|&label| self.labels[label].get());
            memory::extend(&mut there, twins)?;
            let is_known = there.len() == labels.len();
            let twin = if is_known { model.find_production(&there) } else { None };
            memory::push(&mut found, twin.into())?;
        }
        Ok(found)
    }

    fn read_edges(&mut self, store: &Nodes) -> Result<()> {
        memory::reserve(&mut self.ends, store.len())?;
        for node in (0..store.len()).map(NodeId::at) {
            // Many edges ask for one list, so each key is looked up once.
            for (position, &child) in store.children(node).iter().enumerate() {
                if let Some(key) = Self::key(self.wanted, store, node, position, child)
                {
                    let key = self.keys.insert(key, LISTS)?.into();
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
        &self.edges[self.first_edge(node)..self.ends[node] as usize]
    }

    /// Where a node's edges start: where those of the node before end.
    #[inline]
    fn first_edge(&self, node: NodeId) -> usize {
        let before = node.index().checked_sub(1).map(NodeId::at);
        before.map_or(0, |before| self.ends[before] as usize)
    }

    /// The index's list for an edge.
    #[inline]
    pub(crate) fn list(&self, edge: Edge) -> Option<ListId> {
        if self.lists.is_empty() {
            return edge.key.get().map(|key| ListId(key.0));
        }
        self.lists[edge.key.expect_id()].get()
    }

    /// Takes note that a subtree of the forest has become one of the model.
    pub(crate) fn learn(
        &mut self,
        (store, node): (&Nodes, NodeId),
        (model, twin): (&Nodes, NodeId),
        find: impl Fn(Key) -> Option<ListId>,
    ) {
        // A map without nodes or productions has nothing to note there.
        if let Some(model_id) = self.nodes.get_mut(node.index()) {
            *model_id = twin.into();
        }
        let productions = (store.production(node), model.production(twin));
        // A leaf has no production.
        if let (Some(production), Some(there)) = productions
            && let Some(model_id) = self.productions.get_mut(production.index())
        {
            *model_id = there.into();
        }
        if self.ends.is_empty() {
            return;
        }
        // Twin and node have equal children, so their edges come in the same order.
        let mut edges = self.edges[self.first_edge(node)..].iter();
        for (position, &child) in model.children(twin).iter().enumerate() {
            let Some(key) = Self::key(self.wanted, model, twin, position, child) else {
                continue;
            };
            let Some(edge) = edges.next().and_then(|edge| edge.key.get()) else {
                return;
            };
            // A list that is found stays: only keys without one are asked again.
            let list = &mut self.lists[edge];
            if list.is_none() {
                *list = find(key).into();
            }
        }
    }
}

/// The ids of a store in itself.
pub(crate) fn same_ids<I: Id>(len: usize) -> Result<IdVec<I, PackedOption<I>>> {
    Ok(memory::collect((0..len).map(|index| I::at(index).into()))?.into())
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
