//! The index of a kernel: one structure with many uses.
//!
//! Trees are indexed by their distinct subtrees. A query tree *walks* the index, meets
//! the subtrees that have something in common with its own, and tells every value C(v,ξ)
//! to a *sink*. What the sink makes of it is the use:
//!
//! ```text
//! forest ──▶ index of a kernel ──walk(query tree)──▶ sink
//!                                                     ├ rows           K with every tree
//!                                                     ├ scores         Σ weights
//!                                                     └ contributions  per node of the query
//! ```

pub(crate) mod counts;
pub(crate) mod elastic;
pub(crate) mod family;
pub(crate) mod id_map;
pub(crate) mod partial;
pub(crate) mod prefixes;
pub(crate) mod rows;
pub(crate) mod score_tables;
pub(crate) mod subset;
pub(crate) mod subtree;
pub(crate) mod weights;

use crate::ids::{GroupId, Id, MemberId, RowSlot};

/// What a sink calls a subtree: its number within its group, or something
/// else that its entry in a list says at once.
pub(crate) trait SinkId: Copy + Default {
    type Id: Id;

    fn of(self, member: MemberId) -> Self::Id;
}

impl SinkId for () {
    type Id = MemberId;

    #[inline]
    fn of(self, member: MemberId) -> MemberId {
        member
    }
}

impl SinkId for RowSlot {
    type Id = Self;

    #[inline]
    fn of(self, _member: MemberId) -> Self {
        self
    }
}

/// What the subtrees of an inverted list have in common: their group, and the group of the
/// child at a position; for PT the position is 0, as children at any stand in one list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupKey {
    pub(crate) parent: GroupId,
    pub(crate) position: u32,
    pub(crate) child: GroupId,
}

/// Also of productions or labels, where these are the groups as their store numbers them.
impl From<[u32; 3]> for GroupKey {
    fn from([parent, position, child]: [u32; 3]) -> Self {
        Self { parent: GroupId(parent), position, child: GroupId(child) }
    }
}

impl From<GroupKey> for [u32; 3] {
    fn from(key: GroupKey) -> Self {
        [key.parent.0, key.position, key.child.0]
    }
}
