//! How the labels of a query tree match those of the index.
//!
//! The [walk](super::walk) is generic over it. Where labels have to be [equal](Equal), a
//! node meets one group and σ is 1: what the walk does for [similar](super::similar) labels
//! compiles to nothing.

use super::similar::NearChildren;
use super::{Index, SinkId};
use crate::ids::{GroupId, ListId, MemberId};
use crate::index::id_map::IdMap;
use crate::{Label, NodeId, Nodes, Result};

/// A group of subtrees whose labels match a query node's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Near {
    pub(super) group: GroupId,
    /// Where values with its subtrees start among those of the query node.
    pub(super) offset: u32,
    /// σ with all of it; 1 where it differs, and [`Matching::sigma`] tells it.
    pub(super) sigma: f64,
}

/// A child of the query node at hand that matches children of a group's subtrees.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MatchedChild {
    pub(super) position: u32,
    pub(super) child: NodeId,
    /// The group of these children.
    pub(super) near: Near,
    /// The list of those that are inner; that of leaves comes after it.
    pub(super) list: ListId,
}

/// σ of a query node's label with the labels of a group.
pub(crate) trait Sigma: Copy {
    /// With the subtree of this number, or the leaf.
    fn of(self, number: MemberId) -> f64;

    /// Where it is the same with all but not the constant 1: loops over lists need not
    /// look it up then.
    fn number(self) -> Option<f64>;
}

/// See the module. Labels are those of the query tree's store.
pub(crate) trait Matching: Copy {
    /// Whether labels match that are equal, and no others.
    const IS_EQUALITY: bool;

    type Sigma: Sigma;

    /// The groups that match a label, in ascending order.
    fn near(self, label: Label) -> impl DoubleEndedIterator<Item = Near>;

    /// The one of these that is `group`.
    fn near_group(self, label: Label, group: GroupId) -> Near;

    /// σ of a label with the subtrees of a group that matches, or with leaves in its lists.
    fn sigma(self, label: Label, near: Near, are_leaves: bool) -> Self::Sigma;

    /// A label's own group, if the index has it.
    fn group(self, label: Label) -> Option<GroupId>;

    /// All groups of labels that can match are below this.
    fn n_groups<T>(self, index: &Index<T>) -> usize;

    /// The groups that the labels of a group match.
    fn groups_near(self, group: GroupId) -> impl Iterator<Item = GroupId>;

    /// Begins with a node: what is found once for all groups that match it.
    fn start(self, store: &Nodes, node: NodeId, near: &mut NearChildren) -> Result<()>;

    /// Finds the node's children that match children of a group's subtrees. False: there
    /// are none.
    fn find<T: SinkId>(
        self,
        index: &Index<T>,
        node: NodeId,
        group: GroupId,
        near: &mut NearChildren,
    ) -> Result<bool>;

    /// What was found, by position; nothing for nodes of more than [`WIDE`](super::WIDE)
    /// children with labels that are similar.
    fn found(
        self,
        node: NodeId,
        near: &NearChildren,
    ) -> impl Iterator<Item = MatchedChild>;
}

/// Equal labels match: what labels and edges of the query tree's store are in the index.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Equal<'a>(pub(crate) &'a IdMap);

/// σ of equal labels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct One;

impl Sigma for One {
    #[inline]
    fn of(self, _number: MemberId) -> f64 {
        1.0
    }

    #[inline]
    fn number(self) -> Option<f64> {
        None
    }
}

impl Matching for Equal<'_> {
    const IS_EQUALITY: bool = true;

    type Sigma = One;

    #[inline]
    fn near(self, label: Label) -> impl DoubleEndedIterator<Item = Near> {
        self.group(label).map(|group| self.near_group(label, group)).into_iter()
    }

    #[inline]
    fn near_group(self, _label: Label, group: GroupId) -> Near {
        Near { group, offset: 0, sigma: 1.0 }
    }

    #[inline]
    fn sigma(self, _label: Label, _near: Near, _are_leaves: bool) -> One {
        One
    }

    #[inline]
    fn group(self, label: Label) -> Option<GroupId> {
        self.0.labels[label].get().map(|label| GroupId(label.0))
    }

    #[inline]
    fn n_groups<T>(self, index: &Index<T>) -> usize {
        index.n_groups
    }

    #[inline]
    fn groups_near(self, group: GroupId) -> impl Iterator<Item = GroupId> {
        std::iter::once(group)
    }

    #[inline]
    fn start(self, _: &Nodes, _: NodeId, _: &mut NearChildren) -> Result<()> {
        Ok(())
    }

    #[inline]
    fn find<T: SinkId>(
        self,
        _index: &Index<T>,
        node: NodeId,
        _group: GroupId,
        near: &mut NearChildren,
    ) -> Result<bool> {
        Ok(self.found(node, near).next().is_some())
    }

    /// The id map has the lists of all edges, so nothing is to be found.
    #[inline]
    fn found(
        self,
        node: NodeId,
        _near: &NearChildren,
    ) -> impl Iterator<Item = MatchedChild> {
        let edges = (0..).zip(self.0.edges(node));
        edges.filter_map(move |(position, &edge)| {
            let (list, child) = (self.0.list(edge)?, edge.child);
            // Nothing is asked of the group where σ is 1.
            let near = Near { group: GroupId(0), offset: 0, sigma: 1.0 };
            Some(MatchedChild { position, child, near, list })
        })
    }
}
