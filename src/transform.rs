//! Forests made of others: sorted, without repeats, with other labels, pruned, with
//! chains in place of long lists of children.
//!
//! Equal subtrees become equal subtrees, so each distinct one is rewritten once, children
//! before parents ([`Forest::rewrite`]). What takes a node's place is a list: empty where
//! it goes, of several nodes where its children move up.
//!
//! ```
//! use treekernel_rs::Forest;
//!
//! let forest = Forest::from_brackets("(S (B b) (A a) (A a))")?;
//! let sorted = forest.sorted()?;
//! assert_eq!(sorted.to_brackets(), ["(S (A a) (A a) (B b))"]);
//! let once = sorted.collapse_repeats(true)?;
//! assert_eq!(once.to_brackets(), ["(S (*2 (A a)) (B b))"]);
//! # Ok::<(), treekernel_rs::Error>(())
//! ```
//!
//! # Complexity
//! Linear in the distinct subtrees and their children; sorting takes k log k comparisons
//! at a node of k children, of labels and hashes nearly always. Children that move up
//! are copied to every place: more than [`MAX_MOVED`] of them are an error.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::forest::check_size;
use crate::intern::Seed;
use crate::memory::{self, filled, reserve};
use crate::ragged::Ragged;
use crate::{Context, Forest, Label, NodeId, Nodes, Result};

/// Which end of a list of children is nearest to the root of its chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Branching {
    /// The last child: `(S (S (S a) b) c)`.
    Left,
    /// The first child: `(S a (S b (S c)))`.
    Right,
}

/// The most nodes that take the place of others, of all distinct subtrees together.
const MAX_MOVED: u64 = 1 << 26;

impl Forest {
    /// Replaces every distinct subtree once. `names` are the new ones of
    /// [`used_labels`](Self::used_labels). `rule` gets the new store, the old label, the
    /// new one, and what has become of the children, and appends what becomes of the
    /// node. A root that goes becomes the null tree; one that several nodes replace stays
    /// above them. At most `most` nodes may take the place of others.
    fn rewrite(
        &self,
        names: Option<&[String]>,
        most: u64,
        context: &Context,
        mut rule: impl FnMut(
            &mut Nodes,
            [Label; 2],
            &mut Vec<NodeId>,
            &mut Vec<NodeId>,
        ) -> Result<()>,
    ) -> Result<Self> {
        let old = self.nodes();
        let (mut nodes, mut new) =
            (Nodes::default(), filled(Label(0), old.labels().len())?);
        // Only labels that occur: others have no new name.
        for (at, label) in self.try_used_labels()?.into_iter().enumerate() {
            let name =
                names.map_or_else(|| old.labels().name(label), |names| &names[at]);
            new[label.index()] = nodes.labels_mut().intern(name)?;
        }
        // By old node: what has taken its place. Children come before parents.
        let (mut lists, mut below) = (Ragged::<NodeId>::default(), Vec::new());
        for (at, is_there) in old.reachable(self.roots())?.into_iter().enumerate() {
            if is_there {
                let node = NodeId(at as u32);
                below.clear();
                for child in old.children(node) {
                    // One entry for each node so far is what has stayed in its place:
                    // all above that has moved up.
                    let moved =
                        lists.items.len() + below.len() - at.min(lists.items.len());
                    let more = lists.get(child.index());
                    let needed = (moved + more.len()) as u64;
                    let what = "nodes in place of others";
                    check_size("the forest", what, needed, most)?;
                    memory::extend(&mut below, more.iter().copied())?;
                }
                let label = old.label(node);
                // A rule appends one node, or all that stand below it.
                lists.reserve(below.len().max(1))?;
                rule(
                    &mut nodes,
                    [label, new[label.index()]],
                    &mut below,
                    &mut lists.items,
                )?;
                context.check()?;
            }
            // Every old id has a list, so that lists are found by id.
            lists.reserve(0)?;
            lists.close("nodes")?;
        }
        let mut roots = Vec::new();
        reserve(&mut roots, self.len())?;
        for root in self.roots() {
            // A tree is one node; what several have become needs one above them.
            roots.push(match lists.get(root.index()) {
                [one] => *one,
                [] => {
                    let empty = nodes.labels_mut().intern("")?;
                    nodes.intern_leaf(empty)?
                }
                several => nodes.intern(new[old.label(*root).index()], several)?,
            });
        }
        nodes.shrink();
        Ok(Self::new(Arc::new(nodes), roots))
    }

    /// The trees with the children of every node in an order that depends on nothing but
    /// what they are: by label, then by a hash of all below. Trees that are equal but for
    /// the order of children become equal.
    ///
    /// # Errors
    /// [`crate::Error::Memory`].
    pub fn sorted(&self) -> Result<Self> {
        self.sorted_with(&Context::default())
    }

    /// As [`sorted`](Self::sorted), in a context.
    ///
    /// # Errors
    /// As [`sorted`](Self::sorted), and what `context` returns.
    pub fn sorted_with(&self, context: &Context) -> Result<Self> {
        let mut hashes: Vec<u64> = Vec::new();
        self.rewrite(None, MAX_MOVED, context, |nodes, [_, label], below, out| {
            // The children are nodes of the new store, whose hashes are there.
            below.sort_unstable_by(|&a, &b| by_content(nodes, &hashes, a, b));
            let node = nodes.intern(label, below)?;
            // A new node; one that is known has its hash.
            if node.index() == hashes.len() {
                let hash = Seed::FIXED.hash_bytes(nodes.name(node).as_bytes());
                let hash = below.iter().fold(hash, |hash, child| {
                    Seed::FIXED.mix(hash, hashes[child.index()])
                });
                memory::push(&mut hashes, hash)?;
            }
            out.push(node);
            Ok(())
        })
    }

    /// The trees with one of each run of equal siblings; with `count`, a run of three
    /// has a node `*3` above it. Children collapse before they are compared.
    ///
    /// # Errors
    /// As [`sorted`](Self::sorted).
    pub fn collapse_repeats(&self, count: bool) -> Result<Self> {
        self.collapse_repeats_with(count, &Context::default())
    }

    /// As [`collapse_repeats`](Self::collapse_repeats), in a context.
    ///
    /// # Errors
    /// As [`collapse_repeats`](Self::collapse_repeats), and what `context` returns.
    pub fn collapse_repeats_with(
        &self,
        count: bool,
        context: &Context,
    ) -> Result<Self> {
        self.rewrite(None, MAX_MOVED, context, |nodes, [_, label], below, out| {
            let mut kept = Vec::new();
            // Equal subtrees are equal nodes.
            for run in below.chunk_by(|a, b| a == b) {
                let node = if count && run.len() > 1 {
                    let number =
                        nodes.labels_mut().intern(&format!("*{}", run.len()))?;
                    nodes.intern(number, &run[..1])?
                } else {
                    run[0]
                };
                memory::push(&mut kept, node)?;
            }
            out.push(nodes.intern(label, &kept)?);
            Ok(())
        })
    }

    /// The trees with other labels: `names` has one for each of
    /// [`used_labels`](Self::used_labels).
    ///
    /// # Errors
    /// As [`sorted`](Self::sorted).
    ///
    /// # Panics
    /// If there are fewer names than labels.
    pub fn relabel(&self, names: &[String]) -> Result<Self> {
        self.relabel_with(names, &Context::default())
    }

    /// As [`relabel`](Self::relabel), in a context.
    ///
    /// # Errors
    /// As [`relabel`](Self::relabel), and what `context` returns.
    pub fn relabel_with(&self, names: &[String], context: &Context) -> Result<Self> {
        self.rewrite(
            Some(names),
            MAX_MOVED,
            context,
            |nodes, [_, label], below, out| {
                out.push(nodes.intern(label, below)?);
                Ok(())
            },
        )
    }

    /// The trees without the nodes whose label `goes` accepts, and without all below
    /// them, or, with `keep_children`, with their children in their place. Of a tree of
    /// which nothing is left the null tree stays; a root stays above several children.
    ///
    /// # Errors
    /// As [`sorted`](Self::sorted); [`crate::Error::Expansion`].
    pub fn prune(
        &self,
        goes: impl Fn(Label) -> bool,
        keep_children: bool,
    ) -> Result<Self> {
        self.prune_with(goes, keep_children, &Context::default())
    }

    /// As [`prune`](Self::prune), in a context.
    ///
    /// # Errors
    /// As [`prune`](Self::prune), and what `context` returns.
    pub fn prune_with(
        &self,
        goes: impl Fn(Label) -> bool,
        keep_children: bool,
        context: &Context,
    ) -> Result<Self> {
        self.rewrite(None, MAX_MOVED, context, |nodes, [old, label], below, out| {
            if !goes(old) {
                out.push(nodes.intern(label, below)?);
            } else if keep_children {
                out.append(below);
            }
            Ok(())
        })
    }

    /// The trees with a chain in place of each node that has at least `min_children`
    /// children and a label that `is_list` accepts: one node with its label for each
    /// child, each below the one before. Lists that differ in one child then differ in
    /// one node, and have the chains of what precedes or follows it in common.
    ///
    /// # Errors
    /// As [`sorted`](Self::sorted); [`crate::Error::Capacity`].
    pub fn binarize(
        &self,
        is_list: impl Fn(Label) -> bool,
        min_children: usize,
        branching: Branching,
    ) -> Result<Self> {
        self.binarize_with(is_list, min_children, branching, &Context::default())
    }

    /// As [`binarize`](Self::binarize), in a context.
    ///
    /// # Errors
    /// As [`binarize`](Self::binarize), and what `context` returns.
    pub fn binarize_with(
        &self,
        is_list: impl Fn(Label) -> bool,
        min_children: usize,
        branching: Branching,
        context: &Context,
    ) -> Result<Self> {
        self.rewrite(None, MAX_MOVED, context, |nodes, [old, label], below, out| {
            // Of a single child the chain is the node itself.
            if below.len() < min_children.max(2) || !is_list(old) {
                out.push(nodes.intern(label, below)?);
                return Ok(());
            }
            // The chain grows from its lowest node.
            if branching == Branching::Right {
                below.reverse();
            }
            let mut chain = nodes.intern(label, &below[..1])?;
            for &child in &below[1..] {
                chain = match branching {
                    Branching::Left => nodes.intern(label, &[chain, child])?,
                    Branching::Right => nodes.intern(label, &[child, chain])?,
                };
                context.check()?;
            }
            out.push(chain);
            Ok(())
        })
    }
}

/// By label and hash; where hashes collide, by the first difference below.
fn by_content(nodes: &Nodes, hashes: &[u64], mut a: NodeId, mut b: NodeId) -> Ordering {
    while a != b {
        // Names, as ids depend on the order in which labels came.
        let (left, right) = (nodes.children(a), nodes.children(b));
        let order = nodes
            .name(a)
            .cmp(nodes.name(b))
            .then_with(|| hashes[a.index()].cmp(&hashes[b.index()]))
            .then_with(|| left.len().cmp(&right.len()));
        // Equal in all that is compared, yet different nodes: the difference is further
        // down.
        let first = left.iter().zip(right).find(|(a, b)| a != b);
        let (Ordering::Equal, Some((&left, &right))) = (order, first) else {
            return order;
        };
        (a, b) = (left, right);
    }
    Ordering::Equal
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    #[test]
    fn nodes_in_place_of_others_are_counted_and_limited() {
        let forest = Forest::from_brackets("(S (X a b) (X a b))").unwrap();
        // X is replaced by two nodes, one more than it is, and both X by four.
        let without_x = |most| {
            forest.rewrite(
                None,
                most,
                &Context::default(),
                |nodes, [_, label], below, out| {
                    if nodes.labels().name(label) == "X" {
                        out.append(below);
                    } else {
                        out.push(nodes.intern(label, below)?);
                    }
                    Ok(())
                },
            )
        };
        assert_eq!(without_x(5).unwrap().to_brackets(), ["(S a b a b)"]);
        match without_x(4) {
            Err(Error::Expansion { needed, limit, .. }) => {
                assert_eq!((needed, limit), (5, 4));
            }
            other => panic!("{other:?}"),
        }
    }
}
