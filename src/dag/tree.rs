//! One tree at a time, as its distinct subtrees.
//!
//! They come in the order in which a walk leaves them, not in that of their ids: so a
//! tree has the same order, and its score the same bits, whichever forest it is in.

use super::lens::Lens;
use crate::{NodeId, Nodes};

/// "No place": not in the tree, or asked for by nobody.
pub(super) const NONE: u32 = u32::MAX;

/// A distinct subtree of the tree at hand.
#[derive(Debug, Clone, Copy)]
pub(super) struct Item {
    pub(super) node: NodeId,
    /// How often it stands in the tree. Exact up to 2^53: a tree may be much larger than
    /// what is stored of it.
    pub(super) count: f64,
    /// The place of its last parent; [`NONE`] for the root.
    pub(super) last_use: u32,
}

/// Reads trees of one store.
#[derive(Debug, Default)]
pub(super) struct Reader {
    items: Vec<Item>,
    /// By node: its place in the tree at hand, or [`NONE`].
    place: Vec<u32>,
    open: Vec<(NodeId, u32)>,
}

impl Reader {
    /// Reads the tree below `root`, children first; leaves only if they are asked for.
    pub(super) fn read(&mut self, store: &Nodes, root: NodeId, leaves: bool) {
        let children = |node| store.children(node);
        let wanted = |&c: &NodeId| Some(c).filter(|&c| leaves || !store.is_leaf(c));
        self.walk(store.len(), root, children, wanted);
    }

    /// The same without leaves, by a lens that has listed inner children: nothing is
    /// asked of leaves then.
    pub(super) fn read_listed(&mut self, store: &Nodes, root: NodeId, lens: &Lens) {
        self.walk(store.len(), root, |node| lens.edges(node), |edge| Some(edge.child));
    }

    fn walk<'a, T: 'a>(
        &mut self,
        n_nodes: usize,
        root: NodeId,
        children: impl Fn(NodeId) -> &'a [T],
        wanted: impl Fn(&T) -> Option<NodeId>,
    ) {
        for item in self.items.drain(..) {
            self.place[item.node.index()] = NONE;
        }
        if self.place.len() < n_nodes {
            self.place.resize(n_nodes, NONE);
        }
        self.open.push((root, 0));
        while let Some((node, next)) = self.open.last_mut() {
            if let Some(child) = children(*node).get(*next as usize) {
                *next += 1;
                if let Some(child) = wanted(child)
                    && self.place[child.index()] == NONE
                {
                    self.open.push((child, 0));
                }
                continue;
            }
            self.place[node.index()] = self.items.len() as u32;
            self.items.push(Item { node: *node, count: 0.0, last_use: NONE });
            self.open.pop();
        }
        // Parents stand behind their children: from the end, every count is complete
        // when it is passed on.
        let last = self.items.len() - 1;
        self.items[last].count = 1.0;
        for place in (0..=last).rev() {
            let Item { node, count, .. } = self.items[place];
            for child in children(node).iter().filter_map(&wanted) {
                let child = &mut self.items[self.place[child.index()] as usize];
                child.count += count;
                if child.last_use == NONE {
                    child.last_use = place as u32;
                }
            }
        }
    }

    /// The distinct subtrees of the tree at hand, children first, the root last.
    #[inline]
    pub(super) fn items(&self) -> &[Item] {
        &self.items
    }

    /// The place of one of them; [`NONE`] for a leaf that was not asked for.
    #[inline]
    pub(super) fn place(&self, node: NodeId) -> usize {
        self.place[node.index()] as usize
    }
}
