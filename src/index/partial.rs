//! The partial tree kernel's index.
//!
//! With D as in [`crate::kernel::partial`], a node v of the query tree has with every
//! indexed subtree ξ of its label μ λ² leafness in common, and more only where children
//! match. Lists by (label, child's label) hold these children, inner ones and leaves
//! apart; a node takes one list for each child v_i:
//!
//! ```text
//! for e = (ξ, c) in list:
//!     T_i[e] = D(v_i, c) (1 + Σ_{i'<i} λ^(i-i'-1) Σ_{e' of ξ before e} λ^(gap) T_i'[e'])
//!     D(v,ξ) += μ T_i[e]                    and so much is told to the sink
//! ```
//!
//! The inner sum runs over pairs of entries of the same ξ. They depend on the index alone,
//! so they are listed too, by the two lists that they join and the gap between them:
//! entries that stand alone in their ξ are never asked about others (walking each entry's
//! chain of earlier ones instead took twice as long).
//!
//! Subtrees are numbered within their label in the order in which they come, and lists and
//! pairs refer to earlier subtrees only, so the index grows at its end. What the first
//! trees have is a prefix of every list ([`Extent`](super::prefixes::Extent)).
//!
//! A label is *closed* while all its indexed subtrees are simple preterminals: one leaf
//! and nothing else. Two of these are the same or share their label only, so no values
//! are kept: numbers are compared.
//!
//! # Guards
//! A node of k children has k²/2 pairs, and meets k'²/2 pairs of positions. Subtrees that
//! are wide or have many children of one label are in no list; they, and query nodes
//! whose pair lists would be longer than the grids, go through [`Chains`](crate::kernel::partial::Chains), never
//! slower than one pass over both child lists. So do subtrees for which `max_children` matters.
//! Values of nodes that parents will ask for are kept as runs of equal values once there
//! are many.
//!
//! # Complexity
//! A walk takes time by the matches of (label, child's label) between its tree and the
//! index, and by their pairs, at most a constant times the grids; a new subtree by its
//! children and their pairs. Memory: 16 to 20 bytes per edge, 8 per pair.

mod matching;
pub(crate) mod similar;
mod walk;

pub(crate) use matching::{Equal, Matching};
pub(crate) use walk::{Query, Scratch};

use super::id_map::LISTS;
use super::prefixes::Prefix;
use super::weights::Slot;
use super::{GroupKey, SinkId};
use crate::ids::{GroupId, Id, IdVec, KeyId, ListId, MemberId, ids};
use crate::intern::{Keys, new_id};
use crate::kernel::partial::Weights;
use crate::ragged::Growing;
use crate::{NodeId, Nodes, Result, memory};

/// Subtrees with more children are in no list: so there are at most 15.5 pairs per edge.
/// (No phrase of the Penn treebank has more than 32.)
const WIDE: usize = 32;
/// Nor are subtrees in which children share their label with more than so many on
/// average. Two nodes of k and k' children of which this is true have by Cauchy and
/// Schwarz at most 8 sqrt(k k') matches, hence at most 16 k k' pairs of matches.
const REPEATED: usize = 8;
/// A pair is about so many times cheaper than a cell of a grid: T and S take some
/// dependent additions and multiplications, a pair one.
const CELL: usize = 4;
/// Numbers of children from here on are leaves: [`LEAF`], or what says which.
pub(crate) const FIRST_LEAF: MemberId = MemberId(1 << 31);
/// A child that is any leaf of its label.
pub(crate) const LEAF: MemberId = MemberId(u32::MAX);

ids! {
    /// Two lists with children of the same subtrees.
    JoinId;
    /// A list of pairs of such children, with one gap between them.
    PairListId;
}

/// One child of a subtree, in the list of its label.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Entry<T> {
    /// The subtree's number within its label.
    u: MemberId,
    /// The child's within its own; [`LEAF`] for a leaf.
    child: MemberId,
    target: T,
}

/// Two children of a subtree, by their places in their lists.
#[derive(Debug, Clone, Copy, Default)]
struct Pair {
    from: u32,
    to: u32,
}

/// A child, by label (or similar ones) and number within it; [`LEAF`] for a leaf.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Below {
    pub(crate) group: GroupId,
    pub(crate) number: MemberId,
}

/// A subtree: its children are so many from `start` on.
#[derive(Debug, Clone, Copy, Default)]
struct Member<T> {
    start: u32,
    len: u32,
    target: T,
}

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Index<T> {
    pub(crate) decay: f64,
    pub(crate) mu: f64,
    pub(crate) leaf_factor: f64,
    weights: Weights,
    pub(crate) longest: usize,
    /// λ^0 .. λ^[`WIDE`].
    powers: Vec<f64>,
    /// By label and child's label: a number k. Inner children are in list 2k, leaves in
    /// list 2k + 1.
    keys: Keys<KeyId>,
    lists: Growing<ListId, Entry<T>>,
    /// By two lists: the gaps between their entries of one subtree, and which of `pairs`
    /// has those.
    joined: Keys<JoinId>,
    gaps: Growing<JoinId, (u32, PairListId)>,
    pairs: Growing<PairListId, Pair>,
    /// The inner subtrees of a label; the numbers of those in no list; how many children
    /// they have; whether one is no simple preterminal.
    members: Growing<GroupId, Member<T>>,
    unlisted: Growing<GroupId, MemberId>,
    n_edges: IdVec<GroupId, usize>,
    open: IdVec<GroupId, bool>,
    below: Vec<Below>,
    /// The groups of all children are below this.
    n_groups: usize,
    /// Of the subtree that came last: each child's list and place in it.
    places: Vec<(ListId, u32)>,
}

impl<T: SinkId> Index<T> {
    pub(crate) fn new(
        decay: f64,
        mu: f64,
        leaf_factor: f64,
        max_children: Option<usize>,
    ) -> Self {
        let powers = std::iter::successors(Some(1.0), |last| Some(last * decay));
        Self {
            decay,
            mu,
            leaf_factor,
            weights: Weights::new(decay, mu, leaf_factor),
            longest: max_children.unwrap_or(usize::MAX),
            powers: powers.take(WIDE + 1).collect(), // bounded: WIDE + 1
            keys: Keys::default(),
            lists: Growing::default(),
            joined: Keys::default(),
            gaps: Growing::default(),
            pairs: Growing::default(),
            members: Growing::default(),
            unlisted: Growing::default(),
            n_edges: IdVec::default(),
            open: IdVec::default(),
            below: Vec::new(),
            n_groups: 0,
            places: Vec::new(),
        }
    }

    /// Enters a new inner subtree, after its children; returns its number within the
    /// label.
    ///
    /// # Errors
    /// [`crate::Error::Capacity`] beyond 2^32 edges or pairs of them, and
    /// [`crate::Error::Memory`]: the subtree is not there.
    pub(crate) fn enter(
        &mut self,
        group: GroupId,
        children: impl Iterator<Item = Below>,
        target: T,
    ) -> Result<MemberId> {
        // Groups reach as far as the labels of inner subtrees.
        let n_groups = group.index() + 1;
        if self.open.len() < n_groups {
            self.members.reach(n_groups)?;
            self.unlisted.reach(n_groups)?;
            memory::reach(&mut self.n_edges, n_groups, 0)?;
            memory::reach(&mut self.open, n_groups, false)?;
        }
        let number = MemberId::at(self.members.len_of(group));
        let start = self.below.len();
        // Of the subtree before: `forget` reads what is there.
        self.places.clear();
        let entered = memory::extend(&mut self.below, children)
            .and_then(|()| self.enter_below(group, number, start, target));
        if entered.is_err() {
            // The lists, pairs and children of a subtree that failed are taken out in
            // full.
            self.forget(group, number, start);
        }
        entered.map(|()| number)
    }

    /// Enters a subtree whose children are the last below.
    fn enter_below(
        &mut self,
        group: GroupId,
        number: MemberId,
        start: usize,
        target: T,
    ) -> Result<()> {
        let below = &self.below[start..];
        let len = new_id(self.below.len(), "edges")? - start as u32;
        // 1. List its children, unless they are many. Those of the others have keys, too:
        // without one a query takes it that nothing matches.
        let is_listed = below.len() <= WIDE.min(self.longest) && is_varied(below);
        if !is_listed {
            self.unlisted.push(group, number, "subtrees")?;
        }
        for child in below {
            self.n_groups = self.n_groups.max(child.group.index() + 1);
            let key = GroupKey { parent: group, position: 0, child: child.group };
            // Room for its two lists first: a key without them would be found by queries.
            let n_lists = 2 * (self.keys.keys.len() + 1);
            new_id(n_lists, LISTS)?;
            self.lists.reach(n_lists)?;
            let inner = list_of_inner(self.keys.insert(key.into(), LISTS)?);
            let leaves = list_of_leaves(inner);
            if is_listed {
                let list = if child.number < FIRST_LEAF { inner } else { leaves };
                let place = self.lists.len_of(list) as u32;
                memory::push(&mut self.places, (list, place))?;
                let entry = Entry { u: number, child: child.number, target };
                self.lists.push(list, entry, "edges")?;
            }
        }
        // 2. List their pairs. Each ends at a child of this subtree, so it goes to the
        // end of its list.
        for (j, &(list, to)) in self.places.iter().enumerate() {
            for (i, &(other, from)) in self.places[..j].iter().enumerate() {
                self.gaps.reach(self.joined.keys.len() + 1)?;
                let joined = self.joined.insert(join(other, list), "pair lists")?;
                let gap = (j - i - 1) as u32;
                // Pairs with one gap share their weight, so each gap has a list of its
                // own.
                let same_gap =
                    self.gaps.get(joined).iter().find(|same_gap| same_gap.0 == gap);
                let pairs = if let Some(&(_, pairs)) = same_gap {
                    pairs
                } else {
                    let pairs = PairListId::next(self.pairs.len(), "pair lists")?;
                    self.pairs.reach(pairs.index() + 1)?;
                    self.gaps.push(joined, (gap, pairs), "pair lists")?;
                    pairs
                };
                self.pairs.push(pairs, Pair { from, to }, "pairs of children")?;
            }
        }
        // 3. Number it.
        let member = Member { start: start as u32, len, target };
        self.members.push(group, member, "subtrees")?;
        let below = &self.below[start..];
        self.n_edges[group] += below.len();
        // The label is open from its first subtree on that is more than one leaf.
        if !matches!(below, [child] if child.number >= FIRST_LEAF) {
            self.open[group] = true;
        }
        Ok(())
    }

    /// Takes out what was entered of a subtree that is not numbered: the next one has its
    /// number. (Lists without entries match nothing.)
    fn forget(&mut self, group: GroupId, number: MemberId, start: usize) {
        for (j, &(list, to)) in self.places.iter().enumerate() {
            // The error may have come anywhere, so nothing is taken for granted but
            // what is checked: the last pair or entry is taken out if it is of this
            // subtree.
            for &(other, from) in &self.places[..j] {
                let Some(joined) = self.joined.find(join(other, list)) else {
                    continue;
                };
                for &(_, pairs) in self.gaps.get(joined) {
                    let is_own = |pair: &Pair| (pair.from, pair.to) == (from, to);
                    self.pairs.pop_if(pairs, is_own);
                }
            }
        }
        for &(list, _) in &self.places {
            self.lists.pop_if(list, |entry| entry.u == number);
        }
        self.unlisted.pop_if(group, |&unlisted| unlisted == number);
        self.below.truncate(start);
    }

    /// The lists that the subtree that came last is in, child by child.
    pub(crate) fn entered(&self) -> impl Iterator<Item = ListId> {
        self.places.iter().map(|&(list, _)| list)
    }

    /// Lays the lists out in order, and gives back the room for growth: for an index
    /// that stays as it is.
    ///
    /// # Errors
    /// [`crate::Error::Memory`].
    pub(crate) fn shrink(&mut self) -> Result<()> {
        self.lists.shrink()?;
        self.gaps.shrink()?;
        self.pairs.shrink()?;
        self.members.shrink()
    }

    /// No tree's labels and lists yet.
    ///
    /// # Errors
    /// [`crate::Error::Memory`].
    pub(crate) fn prefix(&self) -> Result<Prefix> {
        Prefix::new(self.members.len(), self.lists.starts())
    }

    /// The list of the inner children with a key. That of leaves comes after it.
    pub(crate) fn find(&self, key: GroupKey) -> Option<ListId> {
        self.keys.find(key.into()).map(list_of_inner)
    }

    pub(crate) fn nbytes(&self) -> usize {
        self.keys.nbytes()
            + self.lists.nbytes()
            + self.joined.nbytes()
            + self.gaps.nbytes()
            + self.pairs.nbytes()
            + self.members.nbytes()
            + self.unlisted.nbytes()
            + self.below.capacity() * size_of::<Below>()
            + self.n_edges.capacity() * size_of::<usize>()
            + self.open.capacity()
    }

    /// How many subtrees a group has.
    #[inline]
    fn n_members(&self, group: GroupId) -> usize {
        let is_there = group.index() < self.members.len();
        if is_there { self.members.len_of(group) } else { 0 }
    }

    /// D of two simple preterminals, by whether they are the same.
    #[inline]
    fn simple_values(&self) -> [f64; 2] {
        let Weights { inner, leaf, .. } = self.weights;
        [inner, inner + self.mu * leaf]
    }

    /// The pairs of two lists, by gap, and λ^gap.
    #[inline]
    fn pairs_of(&self, joined: JoinId) -> impl Iterator<Item = (&[Pair], f64)> {
        let gaps = self.gaps.get(joined).iter();
        gaps.map(|&(gap, pairs)| (self.pairs.get(pairs), self.powers[gap as usize]))
    }
}

impl Index<()> {
    /// Where the weight of the next subtree of a label will be.
    pub(crate) fn next_slot(&self, group: GroupId) -> Slot {
        Slot::of_member(group, MemberId::at(self.n_members(group)))
    }

    /// Enters a new inner subtree of a model; `slots` are those of all before it.
    ///
    /// # Errors
    /// As [`enter`](Self::enter).
    pub(crate) fn enter_node(
        &mut self,
        nodes: &Nodes,
        node: NodeId,
        slots: &[Slot],
    ) -> Result<Slot> {
        let below = nodes.children(node).iter().map(|&child| {
            let number = slots[child.index()].member().unwrap_or(LEAF);
            Below { group: GroupId(nodes.label(child).0), number }
        });
        let group = GroupId(nodes.label(node).0);
        Ok(Slot::of_member(group, self.enter(group, below, ())?))
    }
}

/// The list of inner children with a key.
fn list_of_inner(key: KeyId) -> ListId {
    ListId(2 * key.0)
}

/// The list of leaves that goes with one of inner children.
#[inline]
fn list_of_leaves(inner: ListId) -> ListId {
    ListId(inner.0 + 1)
}

/// Whether a list is one of leaves.
#[inline]
fn has_leaves(list: ListId) -> bool {
    list.0 % 2 == 1
}

/// The key of the pairs of two lists.
#[inline]
fn join(earlier: ListId, later: ListId) -> [u32; 3] {
    [earlier.0, later.0, 0]
}

/// Whether children share their label with few.
fn is_varied(below: &[Below]) -> bool {
    let n = below.len();
    // A square sum: k children of one label count k² times.
    let equal = |group| below.iter().filter(|other| other.group == group).count();
    n <= REPEATED
        || below.iter().map(|child| equal(child.group)).sum::<usize>() <= REPEATED * n
}
