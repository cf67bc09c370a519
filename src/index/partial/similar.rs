//! Labels of the [index](super) that match by similarity.
//!
//! With a similarity σ of labels D(v,u) is μ σ(v,u) (λ² leafness + Σ ..), as in
//! [`crate::kernel::SmoothedPartialTree`]. The [walk](super::walk) asks which groups of
//! subtrees are near to a label of the query tree, and for σ.
//!
//! **Groups.** Labels of a block that is a matrix are *one* group of the index: its lists hold
//! the children of all of them, and σ of each entry is read from a row of the matrix. Other
//! labels are groups of their own; each finds those of its similar labels one by one, with a
//! σ that is the same for a whole list. So where similarity is dense there are few and long
//! lists, and where it is sparse nothing is visited that is not similar.
//!
//! # Complexity
//! A walk takes what it does for equal labels, by what is similar in place of what is
//! equal; and for each node and each group near to it a look-up for each group that is near to
//! a child, or a pass over what the group has below it, whichever is less.

use std::sync::Arc;

use super::matching::{MatchedChild, Matching, Near, Sigma};
use super::{FIRST_LEAF, Index, LEAF, SinkId, WIDE, list_of_inner};
use crate::ids::{GroupId, Id, IdVec, ListId, MemberId};
use crate::index::GroupKey;
use crate::kernel::similarity::{Block, NONE, SimilarityRow, SimilarityTable};
use crate::memory;
use crate::ragged::Ragged;
use crate::{Error, Label, NodeId, Nodes, Result};

/// How labels go together. Labels are numbers in the table of similarities.
#[derive(Debug)]
pub(crate) struct Groups {
    pub(crate) table: Arc<SimilarityTable>,
    /// By label: its group. Those of blocks come after those of single labels.
    of_label: Vec<GroupId>,
    /// By group of blocks: the place of each subtree's label.
    places: Vec<Vec<u32>>,
    /// By group: what is similar.
    near: Ragged<Near>,
    /// The groups of a group's children, and the lists of those that are inner.
    below: IdVec<GroupId, Vec<(GroupId, ListId)>>,
}

impl Groups {
    /// # Errors
    /// [`Error::Memory`].
    pub(crate) fn new(table: Arc<SimilarityTable>) -> Result<Self> {
        let n = table.len();
        // Labels of a matrix block have the block's group, which comes after those of
        // all labels.
        let group = |label: usize| {
            let (block, _) = table.place(label);
            match table.blocks().get(block as usize) {
                Some(Block::Matrix { .. }) => GroupId::at(n + block as usize),
                _ => GroupId::at(label),
            }
        };
        Ok(Self {
            of_label: memory::collect((0..n).map(group))?,
            places: memory::filled(Vec::new(), table.blocks().len())?,
            near: Ragged::default(),
            below: IdVec::default(),
            table,
        })
    }

    fn len(&self) -> usize {
        self.of_label.len() + self.places.len()
    }

    /// A label's group.
    pub(crate) fn of(&self, label: usize) -> GroupId {
        self.of_label[label]
    }

    /// What stands for a leaf with this label in its parent's list.
    pub(crate) fn leaf(&self, label: usize) -> MemberId {
        // In a block's lists leaves of several labels stand together, so a number says
        // which it is.
        match self.row(label) {
            Some(_) => MemberId(FIRST_LEAF.0 + self.table.place(label).1),
            None => LEAF,
        }
    }

    /// Takes note of a subtree that was entered.
    ///
    /// # Errors
    /// [`crate::Error::Memory`].
    pub(crate) fn entered(&mut self, label: usize) -> Result<()> {
        // Only groups of blocks have to remember the labels of their subtrees.
        if let Some(block) = self.block(self.of_label[label]) {
            memory::push(&mut self.places[block], self.table.place(label).1)?;
        }
        Ok(())
    }

    /// σ of a label by places, if its block is a group.
    fn row(&self, label: usize) -> Option<&[f64]> {
        let (block, place) = self.table.place(label);
        match self.table.blocks().get(block as usize) {
            Some(Block::Matrix { n, values }) => {
                Some(&values[place as usize * n..][..*n])
            }
            _ => None,
        }
    }

    /// The block that a group is, if it is one.
    fn block(&self, group: GroupId) -> Option<usize> {
        group.index().checked_sub(self.of_label.len())
    }

    /// The places of a group's subtrees.
    fn places(&self, group: GroupId) -> &[u32] {
        self.block(group).map_or(&[], |block| &self.places[block])
    }

    /// Once all subtrees are entered.
    pub(crate) fn finish<T: SinkId>(&mut self, index: &Index<T>) -> Result<()> {
        let members = self.table.members()?;
        for group in 0..self.len() {
            let mut offset = 0;
            // Values of near groups stand one after another.
            let mut add = |group: GroupId, sigma: f64| {
                self.near.push(Near { group, offset: offset as u32, sigma })?;
                offset += index.n_members(group);
                Ok::<_, Error>(())
            };
            let is_label = group < self.of_label.len();
            let (block, place) =
                if is_label { self.table.place(group) } else { (NONE, 0) };
            // A block by rows: the similar labels, with the label itself, in ascending
            // order, as `near_group` searches them.
            match self.table.blocks().get(block as usize) {
                Some(Block::Rows { .. }) => {
                    let row = self.table.row(block as usize, place as usize);
                    let others = row.iter().map(|&(y, sigma)| {
                        (members[block as usize][y as usize], sigma)
                    });
                    let mut similar =
                        memory::collect(others.chain([(group as u32, 1.0)]))?;
                    similar.sort_unstable_by_key(|of| of.0);
                    for (label, sigma) in similar {
                        add(GroupId(label), sigma)?;
                    }
                }
                // A block that is a matrix: its labels are asked for by the group of
                // the block.
                Some(Block::Matrix { .. }) => {}
                // A label in no block, or the group of a block: near to itself alone.
                None => add(GroupId::at(group), 1.0)?,
            }
            self.near.close("similar labels")?;
        }
        // The keys of each group, by the child's group: for queries whose children are
        // near to many.
        self.below = memory::filled_with(self.len(), Vec::new)?.into();
        for (id, &key) in index.keys.keys.enumerated() {
            let GroupKey { parent, child, .. } = key.into();
            memory::push(&mut self.below[parent], (child, list_of_inner(id)))?;
        }
        self.below.iter_mut().for_each(|keys| keys.sort_unstable());
        Ok(())
    }

    #[inline]
    fn near(&self, label: usize) -> &[Near] {
        self.near.get(self.of_label[label].index())
    }

    pub(crate) fn nbytes(&self) -> usize {
        let keys: usize = self.below.iter().map(|keys| 8 * keys.capacity()).sum();
        let places: usize = self.places.iter().map(|of| 4 * of.capacity()).sum();
        self.near.nbytes()
            + keys
            + places
            + 12 * self.of_label.len()
            + self.table.nbytes()
    }
}

/// Labels of query trees that the index does not have. Their groups come after its own.
#[derive(Debug)]
pub(crate) struct OtherGroups {
    /// By label: the labels of the index that are similar.
    pub(crate) similar: Vec<SimilarityRow>,
    /// By label: the groups of these, in ascending order.
    near: Ragged<Near>,
    /// By label: those that are blocks, and σ by places.
    rows: Vec<Vec<(GroupId, Vec<f64>)>>,
    /// Groups of the index with groups of these labels that match, ascending.
    matched: Vec<(GroupId, GroupId)>,
}

impl OtherGroups {
    /// Looks up what is similar to some labels in an index that is finished.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub(crate) fn new<T: SinkId>(
        groups: &Groups,
        index: &Index<T>,
        similar: Vec<SimilarityRow>,
    ) -> Result<Self> {
        let (mut near, mut matched) = (Ragged::default(), Vec::new());
        let mut rows = memory::filled_with(similar.len(), Vec::new)?;
        for ((other, similar), rows) in
            (groups.len() as u32..).map(GroupId).zip(&similar).zip(&mut rows)
        {
            let mut found = Vec::new();
            for &(label, sigma) in similar {
                let group = groups.of(label as usize);
                let Some(block) = groups.row(label as usize) else {
                    memory::push(&mut found, (group, sigma))?;
                    continue;
                };
                // All labels of a block have one group, and σ by place.
                if rows.iter().all(|row: &(GroupId, Vec<f64>)| row.0 != group) {
                    memory::push(&mut found, (group, 1.0))?;
                    memory::push(rows, (group, memory::filled(0.0, block.len())?))?;
                }
                for row in rows.iter_mut().filter(|row| row.0 == group) {
                    row.1[groups.table.place(label as usize).1 as usize] = sigma;
                }
            }
            found.sort_unstable_by_key(|item| item.0);
            let mut offset = 0;
            for (group, sigma) in found {
                near.push(Near { group, offset: offset as u32, sigma })?;
                offset += index.n_members(group);
                memory::push(&mut matched, (group, other))?;
            }
            near.close("similar labels")?;
        }
        matched.sort_unstable();
        Ok(Self { similar, near, rows, matched })
    }

    /// The groups of these labels that match one of the index.
    fn matching(&self, group: GroupId) -> impl Iterator<Item = GroupId> {
        let from = self.matched.partition_point(|pair| pair.0 < group);
        let same = self.matched[from..].iter().take_while(move |pair| pair.0 == group);
        same.map(|pair| pair.1)
    }
}

/// Similar labels match: the groups of an index, and the numbers of a store's labels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Similar<'a> {
    pub(crate) groups: &'a Groups,
    /// By label of the store: its number, beyond those of the index for one of `others`.
    pub(crate) numbers: &'a [u32],
    pub(crate) others: Option<&'a OtherGroups>,
}

/// What the children of the node at hand are near to.
#[derive(Debug, Default)]
pub(crate) struct NearChildren {
    children: Vec<NearChild>,
    /// By group: the last of the children that are near to it, or [`NONE`].
    heads: IdVec<GroupId, u32>,
    /// The node has more than [`WIDE`] children, and nothing is noted of them.
    is_wide: bool,
    /// Numbers of those that the group at hand has lists for, and these.
    found: Vec<(u32, ListId)>,
}

/// A query node's child, and a group that is near.
#[derive(Debug, Clone, Copy)]
struct NearChild {
    position: u32,
    child: NodeId,
    near: Near,
    /// The one before for the same group.
    next: u32,
}

/// σ with the subtrees of a group: one number, or by the row of a matrix and the places of
/// the subtrees' labels, or of leaves that say their places themselves.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SimilarSigma<'a> {
    Number(f64),
    Row(&'a [f64], &'a [u32]),
    Leaves(&'a [f64]),
}

impl Sigma for SimilarSigma<'_> {
    #[inline]
    fn of(self, number: MemberId) -> f64 {
        match self {
            Self::Number(sigma) => sigma,
            Self::Row(row, places) => row[places[number.index()] as usize],
            Self::Leaves(row) => row[number.index() - FIRST_LEAF.index()],
        }
    }

    #[inline]
    fn number(self) -> Option<f64> {
        match self {
            Self::Number(sigma) => Some(sigma),
            Self::Row(..) | Self::Leaves(_) => None,
        }
    }
}

impl<'a> Similar<'a> {
    #[inline]
    fn number(self, label: Label) -> usize {
        self.numbers[label.index()] as usize
    }

    /// Of a label that the index does not have: its number among these.
    #[inline]
    fn other(self, label: Label) -> Option<(&'a OtherGroups, usize)> {
        let number = self.number(label).checked_sub(self.groups.of_label.len());
        self.others.zip(number)
    }

    #[inline]
    fn near_groups(self, label: Label) -> &'a [Near] {
        match self.other(label) {
            None => self.groups.near(self.number(label)),
            Some((others, other)) => others.near.get(other),
        }
    }

    /// σ of a label by places, if a group that is near to it is that of a block.
    #[inline]
    fn row(self, label: Label, near: Near) -> Option<&'a [f64]> {
        let Some((others, other)) = self.other(label) else {
            return self.groups.row(self.number(label));
        };
        let row = others.rows[other].iter().find(|row| row.0 == near.group);
        row.map(|row| &row.1[..])
    }
}

impl<'a> Matching for Similar<'a> {
    const IS_EQUALITY: bool = false;

    type Sigma = SimilarSigma<'a>;

    #[inline]
    fn near(self, label: Label) -> impl DoubleEndedIterator<Item = Near> {
        self.near_groups(label).iter().copied()
    }

    #[inline]
    fn near_group(self, label: Label, group: GroupId) -> Near {
        let near = self.near_groups(label);
        // σ is symmetric, so what is near to the subtree's group is found here as well.
        near[near.partition_point(|near| near.group < group)]
    }

    #[inline]
    fn sigma(self, label: Label, near: Near, are_leaves: bool) -> SimilarSigma<'a> {
        match self.row(label, near) {
            None => SimilarSigma::Number(near.sigma),
            Some(row) if are_leaves => SimilarSigma::Leaves(row),
            Some(row) => SimilarSigma::Row(row, self.groups.places(near.group)),
        }
    }

    #[inline]
    fn group(self, label: Label) -> Option<GroupId> {
        Some(match self.other(label) {
            None => self.groups.of(self.number(label)),
            Some((_, other)) => GroupId::at(self.groups.len() + other),
        })
    }

    /// Groups of labels that only query trees have come after all of the index.
    fn n_groups<T>(self, _index: &Index<T>) -> usize {
        self.groups.len() + self.others.map_or(0, |others| others.rows.len())
    }

    #[inline]
    fn groups_near(self, group: GroupId) -> impl Iterator<Item = GroupId> {
        let known = self.groups.near.get(group.index()).iter().map(|near| near.group);
        known.chain(
            self.others.into_iter().flat_map(move |others| others.matching(group)),
        )
    }

    /// Takes note of what the node's children are near to.
    fn start(self, store: &Nodes, node: NodeId, near: &mut NearChildren) -> Result<()> {
        let NearChildren { children, heads, is_wide, .. } = near;
        memory::reach(heads, self.groups.len(), NONE)?;
        // Emptied here, so that an error on the way leaves nothing behind.
        for child in children.drain(..) {
            heads[child.near.group] = NONE;
        }
        let below = store.children(node);
        // Wide nodes go by grids, which do not ask for this.
        *is_wide = below.len() > WIDE;
        if *is_wide {
            return Ok(());
        }
        for (position, &child) in (0..).zip(below) {
            // Chained by group: several children may be near to one group.
            for near in self.near(store.label(child)) {
                let head = &mut heads[near.group];
                let next = *head;
                memory::push(children, NearChild { position, child, near, next })?;
                *head = children.len() as u32 - 1;
            }
        }
        Ok(())
    }

    fn find<T: SinkId>(
        self,
        index: &Index<T>,
        _node: NodeId,
        group: GroupId,
        near: &mut NearChildren,
    ) -> Result<bool> {
        let NearChildren { children, heads, is_wide, found } = near;
        found.clear();
        let below = &self.groups.below[group];
        // Through the group's lists if they are few, else by a look-up for each near child.
        if below.len() < 4 * children.len() {
            for &(below, list) in below {
                let mut at = heads[below];
                while let Some(child) = children.get(at as usize) {
                    memory::push(found, (at, list))?;
                    at = child.next;
                }
            }
            // By position, as the pairs of lists want it.
            found.sort_unstable();
        } else {
            for (at, child) in (0..).zip(&*children) {
                let key =
                    GroupKey { parent: group, position: 0, child: child.near.group };
                if let Some(list) = index.find(key) {
                    memory::push(found, (at, list))?;
                }
            }
        }
        Ok(!found.is_empty() || *is_wide)
    }

    #[inline]
    fn found(
        self,
        _node: NodeId,
        near: &NearChildren,
    ) -> impl Iterator<Item = MatchedChild> {
        near.found.iter().map(|&(at, list)| {
            let NearChild { position, child, near, .. } = near.children[at as usize];
            MatchedChild { position, child, near, list }
        })
    }
}
