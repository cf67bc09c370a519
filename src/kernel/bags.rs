//! Trees as bags of distinct subtrees.
//!
//! A kernel sums over pairs of nodes, and equal subtrees give equal terms: a tree is
//! read as its distinct subtrees, each with the number of times it stands there.

use crate::intern::new_id;
use crate::team::{Crew, Pause};
use crate::{Error, NodeId, Nodes, Result};

const WHAT: &str = "distinct subtrees, tree by tree";

/// The distinct subtrees of each of some trees, children before parents, with counts.
#[derive(Debug)]
pub(crate) struct Bags {
    starts: Vec<u32>,
    nodes: Vec<NodeId>,
    counts: Vec<u32>,
}

impl Bags {
    /// Reads trees in time by their distinct subtrees.
    ///
    /// # Errors
    /// [`Error::Capacity`] if a subtree stands 2^32 times in one tree.
    pub(crate) fn new(store: &Nodes, roots: &[NodeId]) -> Result<Self> {
        Self::read(store, roots, &mut || Ok(()))
    }

    /// The same by several threads.
    ///
    /// # Errors
    /// As [`new`](Self::new), and what the crew's watch returns.
    pub(crate) fn by(
        store: &Nodes,
        roots: &[NodeId],
        crew: &mut Crew<'_>,
    ) -> Result<Self> {
        let read = |part, pause: &mut Pause<'_>| Self::read(store, &roots[part], pause);
        let mut parts = crew.parts(roots.len(), read)?.into_iter();
        let Some(mut bags) = parts.next() else { return Self::new(store, &[]) };
        for part in parts {
            let start = bags.nodes.len();
            new_id(start + part.nodes.len(), WHAT)?;
            bags.nodes.extend(part.nodes);
            bags.counts.extend(part.counts);
            bags.starts.extend(part.starts[1..].iter().map(|at| start as u32 + at));
        }
        Ok(bags)
    }

    fn read(store: &Nodes, roots: &[NodeId], pause: &mut Pause<'_>) -> Result<Self> {
        let mut bags = Self { starts: vec![0], nodes: Vec::new(), counts: Vec::new() };
        // Counts of the tree at hand; zero again after it.
        let mut count =
            vec![0u32; roots.iter().map(|r| r.index() + 1).max().unwrap_or(0)];
        for &root in roots {
            pause()?;
            let start = bags.nodes.len();
            bags.nodes.push(root);
            count[root.index()] = 1;
            let mut next = start;
            while next < bags.nodes.len() {
                for &child in store.children(bags.nodes[next]) {
                    if count[child.index()] == 0 {
                        count[child.index()] = 1;
                        bags.nodes.push(child);
                    }
                }
                next += 1;
            }
            // Ids ascend from children to parents, so descending every parent's count
            // is complete when it is passed on.
            let nodes = &mut bags.nodes[start..];
            nodes.sort_unstable();
            for node in &*nodes {
                count[node.index()] = 0;
            }
            count[root.index()] = 1;
            for &node in nodes.iter().rev() {
                let times = count[node.index()];
                for child in store.children(node) {
                    let count = &mut count[child.index()];
                    *count = count.checked_add(times).ok_or(Error::Capacity {
                        what: "equal subtrees in one tree",
                        limit: u64::from(u32::MAX),
                    })?;
                }
            }
            let mut total = 0u64;
            for node in &bags.nodes[start..] {
                total += u64::from(count[node.index()]);
                bags.counts.push(count[node.index()]);
                count[node.index()] = 0;
            }
            // So that whoever sums counts of a tree needs no check.
            if total > u64::from(u32::MAX) {
                let (what, limit) = ("nodes in one tree", u64::from(u32::MAX));
                return Err(Error::Capacity { what, limit });
            }
            bags.starts.push(new_id(bags.nodes.len(), WHAT)?);
        }
        Ok(bags)
    }

    /// How many trees there are.
    pub(crate) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// The distinct subtrees of a tree, ascending, the root last.
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
