//! One tree at a time, as its distinct subtrees.
//!
//! They come in the order in which a walk leaves them, not in that of their ids: so a
//! tree has the same order, and its score the same bits, whichever forest it is in.

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
        for item in self.items.drain(..) {
            self.place[item.node.index()] = NONE;
        }
        if self.place.len() < store.len() {
            self.place.resize(store.len(), NONE);
        }
        self.open.push((root, 0));
        while let Some((node, next)) = self.open.last_mut() {
            let below = store.children(*node);
            if let Some(&child) = below.get(*next as usize) {
                *next += 1;
                let is_known = self.place[child.index()] != NONE;
                if !is_known && (leaves || !store.is_leaf(child)) {
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
            for child in store.children(node) {
                let at = self.place[child.index()];
                if let Some(child) = self.items.get_mut(at as usize) {
                    child.count += count;
                    if child.last_use == NONE {
                        child.last_use = place as u32;
                    }
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
