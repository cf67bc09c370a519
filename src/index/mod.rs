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

/// What a sink calls a subtree: its number within its group, or something
/// else that its entry in a list says at once.
pub(crate) trait SinkId: Copy + Default {
    fn of(self, number: u32) -> u32;
}

impl SinkId for () {
    #[inline]
    fn of(self, number: u32) -> u32 {
        number
    }
}

impl SinkId for u32 {
    #[inline]
    fn of(self, _number: u32) -> u32 {
        self
    }
}
