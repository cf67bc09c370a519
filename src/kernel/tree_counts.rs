//! Trees as multisets of distinct subtrees.
//!
//! A kernel sums over pairs of nodes, and equal subtrees give equal terms: a tree is
//! read as its distinct subtrees, each with the number of times it stands there. They come
//! in the order in which a walk leaves them, not in that of their ids: so sums over them
//! have the same bits whichever forest the tree is in.

use crate::intern::new_id;
use crate::threads::Threads;
use crate::{Context, Error, NodeId, Nodes, Result, memory};

const WHAT: &str = "distinct subtrees, tree by tree";

/// The distinct subtrees of each of some trees, children before parents, with counts.
#[derive(Debug)]
pub(crate) struct TreeCounts {
    starts: Vec<u32>,
    nodes: Vec<NodeId>,
    counts: Vec<u32>,
}

impl TreeCounts {
    /// Reads trees in time by their distinct subtrees, by several threads; without leaves
    /// if they are not wanted (see [`read_with`](Self::read_with)).
    ///
    /// # Errors
    /// [`Error::Capacity`] if a subtree stands 2^32 times in one tree, [`Error::Memory`],
    /// and what the threads' context returns.
    pub(crate) fn by(
        leaves: bool,
        store: &Nodes,
        roots: &[NodeId],
        threads: &Threads<'_>,
    ) -> Result<Self> {
        let read = |part, context: &Context| {
            Self::read_with(leaves, store, &roots[part], context)
        };
        let mut parts = threads.parts(roots.len(), read)?.into_iter();
        let Some(mut merged) = parts.next() else {
            return Self::read(store, &[], &Context::default());
        };
        for part in parts {
            let start = merged.nodes.len();
            new_id(start + part.nodes.len(), WHAT)?;
            memory::extend(&mut merged.nodes, part.nodes)?;
            memory::extend(&mut merged.counts, part.counts)?;
            let starts = part.starts[1..].iter().map(|at| start as u32 + at);
            memory::extend(&mut merged.starts, starts)?;
        }
        Ok(merged)
    }

    /// The same by one thread, asking now and then whether to go on.
    ///
    /// # Errors
    /// As [`by`](Self::by), and what `context` returns.
    pub(crate) fn read(
        store: &Nodes,
        roots: &[NodeId],
        context: &Context,
    ) -> Result<Self> {
        Self::read_as::<true>(store, roots, context)
    }

    /// The same without leaves (but for a tree that is one), if they are not wanted: half of
    /// the subtrees, and those that are far away.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(crate) fn read_with(
        leaves: bool,
        store: &Nodes,
        roots: &[NodeId],
        context: &Context,
    ) -> Result<Self> {
        if leaves {
            Self::read_as::<true>(store, roots, context)
        } else {
            Self::read_as::<false>(store, roots, context)
        }
    }

    fn read_as<const LEAVES: bool>(
        store: &Nodes,
        roots: &[NodeId],
        context: &Context,
    ) -> Result<Self> {
        const PER_CHECK: usize = 1 << 12;
        let starts = memory::collect([0])?;
        let mut trees = Self { starts, nodes: Vec::new(), counts: Vec::new() };
        // Counts of the tree at hand, 1 for what the walk has left; zero again after it.
        let n = roots.iter().map(|r| r.index() + 1).max().unwrap_or(0);
        let mut count = memory::filled(0u32, n)?;
        let mut open = Vec::new();
        for &root in roots {
            context.check()?;
            let start = trees.nodes.len();
            // 1. The subtrees, in the order in which a walk leaves them.
            memory::push(&mut open, (root, store.children(root).iter()))?;
            while let Some((node, children)) = open.last_mut() {
                // What has nothing below it is left at once.
                let is_new = |child: &&NodeId| {
                    (LEAVES || !store.is_leaf(**child)) && count[child.index()] == 0
                };
                let left = match children.find(is_new) {
                    Some(&child) if store.children(child).is_empty() => child,
                    Some(&child) => {
                        memory::push(&mut open, (child, store.children(child).iter()))?;
                        continue;
                    }
                    None => {
                        let node = *node;
                        open.pop();
                        node
                    }
                };
                count[left.index()] = 1;
                memory::push(&mut trees.nodes, left)?;
                if trees.nodes.len().is_multiple_of(PER_CHECK) {
                    context.check_now()?;
                }
            }
            // 2. Their counts. Parents stand behind their children: from the end, every
            // count is complete when it is passed on.
            let nodes = &trees.nodes[start..];
            for node in nodes {
                count[node.index()] = 0;
            }
            count[root.index()] = 1;
            for &node in nodes.iter().rev() {
                let times = count[node.index()];
                let children = store.children(node).iter();
                for child in children.filter(|&&c| LEAVES || !store.is_leaf(c)) {
                    let count = &mut count[child.index()];
                    *count = count.checked_add(times).ok_or(Error::Capacity {
                        what: "equal subtrees in one tree",
                        limit: u64::from(u32::MAX),
                    })?;
                }
            }
            memory::reserve(&mut trees.counts, trees.nodes.len() - start)?;
            memory::reserve(&mut trees.starts, 1)?;
            let mut total = 0u64;
            for node in &trees.nodes[start..] {
                total += u64::from(count[node.index()]);
                trees.counts.push(count[node.index()]); // has room
                count[node.index()] = 0;
            }
            // So that whoever sums counts of a tree needs no check.
            if total > u64::from(u32::MAX) {
                let (what, limit) = ("nodes in one tree", u64::from(u32::MAX));
                return Err(Error::Capacity { what, limit });
            }
            trees.starts.push(new_id(trees.nodes.len(), WHAT)?); // has room
        }
        Ok(trees)
    }

    /// How many trees there are.
    pub(crate) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// The distinct subtrees of a tree as a walk leaves them, the root last.
    #[inline]
    pub(crate) fn nodes(&self, tree: usize) -> &[NodeId] {
        &self.nodes[self.starts[tree] as usize..self.starts[tree + 1] as usize]
    }

    /// How often each of them stands in the tree.
    #[inline]
    pub(crate) fn counts(&self, tree: usize) -> &[u32] {
        &self.counts[self.starts[tree] as usize..self.starts[tree + 1] as usize]
    }

    /// Both, pair by pair.
    #[inline]
    pub(crate) fn iter(&self, tree: usize) -> impl Iterator<Item = (NodeId, u32)> {
        self.nodes(tree).iter().copied().zip(self.counts(tree).iter().copied())
    }
}
