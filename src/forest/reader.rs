//! One tree at a time, as its distinct subtrees, children first.
//!
//! They come in the order in which a walk leaves them, not in that of their ids: so a
//! tree has the same order, and its values the same bits, whichever forest it is in.

use super::{NodeId, Nodes};
use crate::ids::{Id, IdVec, PackedOption, Place};
use crate::memory::{push, reach, reserve};
use crate::{Context, Label, Result};

/// Subtrees between two questions whether to go on.
const PER_CHECK: usize = 1 << 12;

/// A distinct subtree of the tree at hand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Item {
    pub(crate) node: NodeId,
    /// How often it stands in the tree. Exact up to 2^53: a tree may be much larger than
    /// what is stored of it.
    pub(crate) count: f64,
    /// The place of its last parent; none for the root.
    pub(crate) last_use: PackedOption<Place>,
}

/// What a walk finds below a node.
pub(crate) trait Descend {
    /// A child, or what names one.
    type Edge;

    /// The edges to a node's children.
    fn edges(&self, node: NodeId) -> &[Self::Edge];

    /// The child at an edge; None for one that is left out.
    fn child(&self, edge: &Self::Edge) -> Option<NodeId>;

    /// The child to begin with, where that is not the one at the first edge.
    fn first(&self, _node: NodeId) -> Option<NodeId> {
        None
    }

    /// Asked after every subtree, with how many there are: an error ends the walk.
    fn check(&self, _n_left: usize) -> Result<()> {
        Ok(())
    }
}

/// All children, or all that are no leaves.
pub(crate) struct Children<'a> {
    pub(crate) store: &'a Nodes,
    pub(crate) leaves: bool,
    /// Who may stop the walk.
    pub(crate) context: Option<&'a Context<'a>>,
}

impl Descend for Children<'_> {
    type Edge = NodeId;

    #[inline]
    fn edges(&self, node: NodeId) -> &[NodeId] {
        self.store.children(node)
    }

    #[inline]
    fn child(&self, &child: &NodeId) -> Option<NodeId> {
        Some(child).filter(|&child| self.leaves || !self.store.is_leaf(child))
    }

    #[inline]
    fn check(&self, n_left: usize) -> Result<()> {
        match self.context {
            Some(context) if n_left.is_multiple_of(PER_CHECK) => context.check_now(),
            _ => Ok(()),
        }
    }
}

/// All children, but those of nodes with a label.
pub(crate) struct UpTo<'a> {
    pub(crate) store: &'a Nodes,
    pub(crate) end: Label,
}

impl Descend for UpTo<'_> {
    type Edge = NodeId;

    #[inline]
    fn edges(&self, node: NodeId) -> &[NodeId] {
        if self.end == self.store.label(node) {
            return &[];
        }
        self.store.children(node)
    }

    #[inline]
    fn child(&self, &child: &NodeId) -> Option<NodeId> {
        Some(child)
    }
}

/// All children, the heaviest one first: so few nodes wait for a child at any time.
pub(crate) struct HeaviestFirst<'a> {
    pub(crate) store: &'a Nodes,
    /// Of all nodes of the store.
    pub(crate) sizes: &'a [u64],
}

impl Descend for HeaviestFirst<'_> {
    type Edge = NodeId;

    fn edges(&self, node: NodeId) -> &[NodeId] {
        self.store.children(node)
    }

    fn child(&self, &child: &NodeId) -> Option<NodeId> {
        Some(child)
    }

    fn first(&self, node: NodeId) -> Option<NodeId> {
        // From the end, as the last of equal ones is taken: so the first child wins.
        let children = self.store.children(node).iter().copied();
        children.rev().max_by_key(|child| self.sizes[child.index()])
    }
}

/// Reads trees of one store.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reader {
    items: IdVec<Place, Item>,
    /// The place of a node in the tree at hand, if it is there.
    place: IdVec<NodeId, PackedOption<Place>>,
    /// Nodes that the walk has not left, with the number of the next edge.
    open: Vec<(NodeId, u32)>,
}

impl Reader {
    /// Reads the tree below `root`; leaves only if they are asked for.
    ///
    /// # Errors
    /// As [`walk`](Self::walk).
    pub(crate) fn read(
        &mut self,
        store: &Nodes,
        root: NodeId,
        leaves: bool,
    ) -> Result<()> {
        self.walk(store.len(), root, &Children { store, leaves, context: None })
    }

    /// Reads what a walk meets at or below `root`, a node of a store of `n_nodes`.
    ///
    /// # Errors
    /// [`crate::Error::Memory`], and what [`Descend::check`] returns; the next tree can be
    /// read.
    pub(crate) fn walk<D: Descend>(
        &mut self,
        n_nodes: usize,
        root: NodeId,
        below: &D,
    ) -> Result<()> {
        // 1. Places, in the order in which the walk leaves the subtrees.
        self.clear();
        self.extend(n_nodes, root, below)?;
        // 2. Parents stand behind their children: from the end, every count is complete
        // when it is passed on.
        let Self { items, place, .. } = self;
        if let Some(root) = items.last_mut() {
            root.count = 1.0;
        }
        for parent in (0..items.len()).rev().map(Place::at) {
            let Item { node, count, .. } = items[parent];
            for child in below.edges(node).iter().filter_map(|edge| below.child(edge)) {
                let child = &mut items[place[child].expect_id()];
                child.count += count;
                if child.last_use.is_none() {
                    child.last_use = parent.into();
                }
            }
        }
        Ok(())
    }

    /// Adds what a walk meets at or below a node and is not there yet, without counts.
    ///
    /// # Errors
    /// As [`walk`](Self::walk).
    pub(crate) fn extend<D: Descend>(
        &mut self,
        n_nodes: usize,
        root: NodeId,
        below: &D,
    ) -> Result<()> {
        reach(&mut self.place, n_nodes, PackedOption::NONE)?;
        let Self { items, place, open } = self;
        open.clear(); // where an error ended the last walk
        if place[root].is_some() {
            return Ok(());
        }
        enter(root, below, place, open)?;
        'walk: while let Some((node, next)) = open.last_mut() {
            let edges = below.edges(*node);
            while let Some(edge) = edges.get(*next as usize) {
                *next += 1;
                let child = below.child(edge);
                let Some(child) = child.filter(|&c| place[c].is_none()) else {
                    continue;
                };
                // What has nothing below it is left at once.
                if below.edges(child).is_empty() {
                    leave(child, items, place)?;
                    below.check(items.len())?;
                } else {
                    enter(child, below, place, open)?;
                    continue 'walk;
                }
            }
            leave(*node, items, place)?;
            below.check(items.len())?;
            open.pop();
        }
        Ok(())
    }

    /// Takes a tree that was read before: its subtrees in the order of a walk. Who asks for
    /// them last is not found out.
    ///
    /// # Errors
    /// [`crate::Error::Memory`]; the next tree can be read.
    pub(crate) fn set(
        &mut self,
        n_nodes: usize,
        tree: impl ExactSizeIterator<Item = (NodeId, u32)>,
    ) -> Result<()> {
        self.clear();
        reach(&mut self.place, n_nodes, PackedOption::NONE)?;
        reserve(&mut self.items, tree.len())?;
        for (node, count) in tree {
            self.place[node] = Place::at(self.items.len()).into();
            let (count, last_use) = (f64::from(count), PackedOption::NONE);
            self.items.push(Item { node, count, last_use }); // has room
        }
        Ok(())
    }

    /// Forgets the tree at hand.
    pub(crate) fn clear(&mut self) {
        for item in self.items.drain(..) {
            self.place[item.node] = PackedOption::NONE;
        }
    }

    /// The distinct subtrees of the tree at hand, children first, the root last.
    #[inline]
    pub(crate) fn items(&self) -> &IdVec<Place, Item> {
        &self.items
    }

    /// The place of one of them, for a node that was read.
    #[inline]
    pub(crate) fn place(&self, node: NodeId) -> Place {
        self.place[node].expect_id()
    }

    /// The place of a node if it is one of them; a leaf may not have been asked for.
    #[inline]
    pub(crate) fn find(&self, node: NodeId) -> Option<Place> {
        self.place.find(node)?.get()
    }

    /// Whether a node is one of them.
    #[inline]
    pub(crate) fn has(&self, node: NodeId) -> bool {
        self.find(node).is_some()
    }
}

/// Begins with a subtree: with its first child before it, and so on.
#[inline]
fn enter<D: Descend>(
    root: NodeId,
    below: &D,
    place: &IdVec<NodeId, PackedOption<Place>>,
    open: &mut Vec<(NodeId, u32)>,
) -> Result<()> {
    let mut next = Some(root);
    while let Some(node) = next {
        push(open, (node, 0))?;
        next = below.first(node).filter(|&child| place[child].is_none());
    }
    Ok(())
}

/// Gives a subtree the next place.
#[inline]
fn leave(
    node: NodeId,
    items: &mut IdVec<Place, Item>,
    place: &mut IdVec<NodeId, PackedOption<Place>>,
) -> Result<()> {
    push(items, Item { node, count: 0.0, last_use: PackedOption::NONE })?;
    place[node] = Place::at(items.len() - 1).into();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus;

    /// A walk that ends with the second subtree.
    struct Stopped<'a>(Children<'a>);
    impl Descend for Stopped<'_> {
        type Edge = NodeId;
        fn edges(&self, node: NodeId) -> &[NodeId] {
            self.0.edges(node)
        }
        fn child(&self, edge: &NodeId) -> Option<NodeId> {
            self.0.child(edge)
        }
        fn check(&self, n_left: usize) -> Result<()> {
            if n_left < 2 { Ok(()) } else { Err(crate::Error::Interrupted) }
        }
    }

    /// All nodes of a tree in the order of a walk, by recursion, each with its parent.
    fn walk_all(
        (node, parent): (NodeId, Option<NodeId>),
        below: &dyn Fn(NodeId) -> Vec<NodeId>,
        order: &mut Vec<(NodeId, Option<NodeId>)>,
    ) {
        for child in below(node) {
            walk_all((child, Some(node)), below, order);
        }
        order.push((node, parent));
    }

    /// What was read, against all nodes of the tree one by one.
    fn check(
        root: NodeId,
        below: &dyn Fn(NodeId) -> Vec<NodeId>,
        reader: &Reader,
        is_counted: bool,
    ) {
        let mut order = Vec::new();
        walk_all((root, None), below, &mut order);
        let mut expected: Vec<NodeId> = Vec::new();
        for &(node, _) in &order {
            if !expected.contains(&node) {
                expected.push(node);
            }
        }
        let read: Vec<NodeId> = reader.items().iter().map(|item| item.node).collect();
        assert_eq!(read, expected);
        for (place, item) in reader.items().enumerated() {
            assert_eq!((reader.place(item.node), reader.has(item.node)), (place, true));
            if !is_counted {
                continue;
            }
            let stands = order.iter().filter(|(node, _)| *node == item.node);
            let parents = stands.clone().filter_map(|(_, parent)| *parent);
            let last = parents.filter_map(|p| read.iter().position(|&node| node == p));
            assert_eq!(item.count, stands.count() as f64);
            assert_eq!(item.last_use, last.max().map(Place::at).into());
        }
    }

    #[test]
    fn trees_are_read_in_the_order_of_a_walk_with_counts_and_last_parents() {
        let mut random = corpus::Random(7);
        let mut n_shared = 0;
        for size in [1, 2, 8, 30, 60] {
            let forest = corpus::forest(&mut random, 20, size);
            let (nodes, sizes) = (&**forest.nodes(), forest.nodes().sizes());
            let mut reader = Reader::default();
            for &root in forest.roots() {
                let every = |node| nodes.children(node).to_vec();
                reader.read(nodes, root, true).unwrap();
                check(root, &every, &reader, true);
                n_shared += reader.items().iter().filter(|i| i.count > 1.0).count();

                let inner = |node| {
                    let mut children = nodes.children(node).to_vec();
                    children.retain(|&child| !nodes.is_leaf(child));
                    children
                };
                reader.read(nodes, root, false).unwrap();
                check(root, &inner, &reader, true);

                let end = nodes.label(root);
                let until = |node| {
                    if nodes.label(node) == end { Vec::new() } else { every(node) }
                };
                for &child in nodes.children(root) {
                    let below = UpTo { store: nodes, end };
                    reader.walk(nodes.len(), child, &below).unwrap();
                    check(child, &until, &reader, true);
                }

                let heaviest_first = |node| {
                    let mut children = every(node);
                    let largest = children.iter().map(|child| nodes.size(*child)).max();
                    let is_first = |child: &NodeId| Some(nodes.size(*child)) == largest;
                    if let Some(at) = children.iter().position(is_first) {
                        children[..=at].rotate_right(1);
                    }
                    children
                };
                reader.clear();
                let below = HeaviestFirst { store: nodes, sizes: &sizes };
                reader.extend(nodes.len(), root, &below).unwrap();
                check(root, &heaviest_first, &reader, false);
                // What is there is not read again.
                let n_read = reader.items().len();
                reader.extend(nodes.len(), root, &below).unwrap();
                assert_eq!(reader.items().len(), n_read);
            }
        }
        assert!(n_shared > 100, "{n_shared}");
    }

    #[test]
    fn a_walk_that_is_stopped_leaves_a_reader_for_the_next_tree() {
        let forest = crate::Forest::from_brackets("(a (b c) (d (b c)))").unwrap();
        let (nodes, root) = (&**forest.nodes(), forest.roots()[0]);
        let mut reader = Reader::default();
        let stopped = Stopped(Children { store: nodes, leaves: true, context: None });
        assert_eq!(
            reader.walk(nodes.len(), root, &stopped),
            Err(crate::Error::Interrupted)
        );
        reader.read(nodes, root, true).unwrap();
        check(root, &|node| nodes.children(node).to_vec(), &reader, true);
    }
}
