//! One tree at a time, as its distinct subtrees.
//!
//! They come in the order in which a walk leaves them, not in that of their ids: so a
//! tree has the same order, and its score the same bits, whichever forest it is in.

use super::id_map::IdMap;
use crate::memory::{push, reach, reserve};
use crate::{NodeId, Nodes, Result};

/// "No place": not in the tree, or asked for by nobody.
pub(crate) const NONE: u32 = u32::MAX;

/// A distinct subtree of the tree at hand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Item {
    pub(crate) node: NodeId,
    /// How often it stands in the tree. Exact up to 2^53: a tree may be much larger than
    /// what is stored of it.
    pub(crate) count: f64,
    /// The place of its last parent; [`NONE`] for the root.
    pub(crate) last_use: u32,
}

/// Reads trees of one store.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    items: Vec<Item>,
    /// By node: its place in the tree at hand, or [`NONE`].
    place: Vec<u32>,
    open: Vec<(NodeId, u32)>,
}

impl Reader {
    /// Reads the tree below `root`, children first; leaves only if they are asked for.
    ///
    /// # Errors
    /// [`crate::Error::Memory`]; the next tree can be read.
    pub(crate) fn read(
        &mut self,
        store: &Nodes,
        root: NodeId,
        leaves: bool,
    ) -> Result<()> {
        let children = |node| store.children(node);
        let wanted = |&c: &NodeId| Some(c).filter(|&c| leaves || !store.is_leaf(c));
        self.walk(store.len(), root, children, wanted)
    }

    /// The same without leaves, by an id map that has listed inner children: nothing is
    /// asked of leaves then.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(crate) fn read_listed(
        &mut self,
        n_nodes: usize,
        root: NodeId,
        id_map: &IdMap,
    ) -> Result<()> {
        self.walk(n_nodes, root, |node| id_map.edges(node), |edge| Some(edge.child))
    }

    /// Takes a tree that was read before: its subtrees in the order of a walk. Who asks for
    /// them last is not found out.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(crate) fn set(
        &mut self,
        n_nodes: usize,
        tree: impl ExactSizeIterator<Item = (NodeId, u32)>,
    ) -> Result<()> {
        self.start(n_nodes)?;
        reserve(&mut self.items, tree.len())?;
        for (node, count) in tree {
            self.place[node.index()] = self.items.len() as u32;
            let count = f64::from(count);
            self.items.push(Item { node, count, last_use: NONE }); // has room
        }
        Ok(())
    }

    fn start(&mut self, n_nodes: usize) -> Result<()> {
        self.open.clear(); // where an error ended the last walk
        for item in self.items.drain(..) {
            self.place[item.node.index()] = NONE;
        }
        reach(&mut self.place, n_nodes, NONE)
    }

    fn walk<'a, T: 'a>(
        &mut self,
        n_nodes: usize,
        root: NodeId,
        children: impl Fn(NodeId) -> &'a [T],
        wanted: impl Fn(&T) -> Option<NodeId>,
    ) -> Result<()> {
        self.start(n_nodes)?;
        // 1. Places, in the order in which a walk leaves the subtrees. What has nothing
        // below it is left at once.
        let Self { items, place, open } = self;
        push(open, (root, 0))?;
        'walk: while let Some((node, next)) = open.last_mut() {
            let below = children(*node);
            while let Some(child) = below.get(*next as usize) {
                *next += 1;
                let Some(child) = wanted(child).filter(|c| place[c.index()] == NONE)
                else {
                    continue;
                };
                if children(child).is_empty() {
                    leave(child, items, place)?;
                } else {
                    push(open, (child, 0))?;
                    continue 'walk;
                }
            }
            leave(*node, items, place)?;
            open.pop();
        }
        // 2. Parents stand behind their children: from the end, every count is complete
        // when it is passed on.
        let last = self.items.len() - 1;
        self.items[last].count = 1.0;
        for at in (0..=last).rev() {
            let Item { node, count, .. } = self.items[at];
            for child in children(node).iter().filter_map(&wanted) {
                let child = &mut self.items[self.place[child.index()] as usize];
                child.count += count;
                if child.last_use == NONE {
                    child.last_use = at as u32;
                }
            }
        }
        Ok(())
    }

    /// The distinct subtrees of the tree at hand, children first, the root last.
    #[inline]
    pub(crate) fn items(&self) -> &[Item] {
        &self.items
    }

    /// The place of one of them; [`NONE`] for a leaf that was not asked for.
    #[inline]
    pub(crate) fn place(&self, node: NodeId) -> usize {
        self.place[node.index()] as usize
    }
}

/// Gives a subtree the next place.
#[inline]
fn leave(node: NodeId, items: &mut Vec<Item>, place: &mut [u32]) -> Result<()> {
    push(items, Item { node, count: 0.0, last_use: NONE })?;
    place[node.index()] = items.len() as u32 - 1;
    Ok(())
}
