//! Trees as multisets of distinct subtrees.
//!
//! A kernel sums over pairs of nodes, and equal subtrees give equal terms: a tree is
//! read as its distinct subtrees, each with the number of times it stands there. They come
//! in the order in which a walk leaves them, not in that of their ids: so sums over them
//! have the same bits whichever forest the tree is in.

use crate::forest::reader::{Children, Item, Reader};
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
        Self::read_with(true, store, roots, context)
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
        let starts = memory::collect([0])?;
        let mut trees = Self { starts, nodes: Vec::new(), counts: Vec::new() };
        let n_nodes = roots.iter().map(|r| r.index() + 1).max().unwrap_or(0);
        let below = Children { store, leaves, context: Some(context) };
        let mut reader = Reader::default();
        for &root in roots {
            context.check()?;
            reader.walk(n_nodes, root, &below)?;
            let items = reader.items();
            check_counts(items)?;
            memory::extend(&mut trees.nodes, items.iter().map(|item| item.node))?;
            let counts = items.iter().map(|item| item.count as u32);
            memory::extend(&mut trees.counts, counts)?;
            memory::push(&mut trees.starts, new_id(trees.nodes.len(), WHAT)?)?;
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

/// Refuses a tree whose counts are too large, so that whoever sums them needs no check.
fn check_counts(items: &[Item]) -> Result<()> {
    let limit = u64::from(u32::MAX);
    let exceeds = |count: f64| count > limit as f64;
    if items.iter().any(|item| exceeds(item.count)) {
        return Err(Error::Capacity { what: "equal subtrees in one tree", limit });
    }
    if exceeds(items.iter().map(|item| item.count).sum()) {
        return Err(Error::Capacity { what: "nodes in one tree", limit });
    }
    Ok(())
}
