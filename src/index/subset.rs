//! The index of the subset tree kernel, and the walk of a tree over it.
//!
//! For a node v of the query tree and a subtree u of the index with v's production,
//!
//! ```text
//! C(v,u) = λ Π_j (1 + C(v_j, u_j))
//! ```
//!
//! which is λ unless some child of v and the same child of u share their production, too.
//! So a walk has two passes. The first tells what all subtrees of a production have in
//! common, λ ([`Index::plan`]). The second finds the pairs that have more
//! ([`Index::walk`]): for each production p, position j and child's production q the index
//! has the list of all u with them. The nodes v are taken children first, each starts with
//! c_v[u] = λ throughout and walks one list for each inner child:
//!
//! ```text
//! for (u, child) in list:   d = c_v[u] c_child[child];   c_v[u] += d;   tell (u, d)
//! ```
//!
//! As λ Π (1 + f_j) = λ + Σ_j f_j λ Π_{i<j} (1 + f_i), what is told telescopes to C - λ:
//! one pass, no subtraction, and nothing is visited that shares no child's production. The
//! [`Sink`] makes of it a row of K, a score, or the share of each node.
//!
//! # At rest
//! Half of all `NP -> DT NN` have `(DT the)`. While the index does not change, such a list
//! is a [pattern](Patterns): a child that matches no deeper than its own production
//! multiplies all subtrees of its list by 1 + λ, whatever v is, so v starts from an array
//! made once, and all the list adds is λ² times a number known before.
//!
//! # Complexity
//! A walk takes time by the matches of (production, position, child's production) between
//! its tree and the index. A new subtree takes time by its children. Memory: 8 bytes per
//! inner edge of a model, 12 of a matrix, and what a list takes.

use super::id_map::{IdMap, LISTS, Wanted};
use super::prefixes::Extent;
use super::weights::{Sink, Slot, View};
use super::{GroupKey, SinkId};
use crate::forest::reader::Reader;
use crate::ids::{
    FoldId, GroupId, Id, IdVec, ListId, MemberId, PackedOption, PatternId, Place,
};
use crate::intern::Keys;
use crate::kernel::Number;
use crate::kernel::weights::Factors;
use crate::memory;
use crate::ragged::Growing;
use crate::{Context, NodeId, Nodes, Result};

/// Values of a tree's nodes that are kept whole (16 MB). A node of 100,000 different
/// children would otherwise keep as many arrays, each as long as there are such children;
/// beyond this, nodes that touched few keep only these.
const MAX_LIVE: usize = 1 << 21;
/// Entries walked between two questions whether to go on.
const BETWEEN_CHECKS: usize = 1 << 20;
/// What there may be too many of.
pub(crate) const EDGES: &str = "edges of an index";

/// A subtree in a list.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Entry<T = ()> {
    /// Its number within its production.
    pub(crate) u: MemberId,
    /// The number of its child within the child's production.
    pub(crate) child: MemberId,
    pub(crate) target: T,
}

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Index<T = (), F = f64> {
    /// By group, which are productions.
    pub(crate) decay: F,
    pub(crate) leaf_weight: f64,
    /// Lists by production, position and child's production.
    pub(crate) keys: Keys<ListId>,
    /// Entries of all lists, for [`cost_of_tables`](Self::cost_of_tables).
    pub(crate) lists: Growing<ListId, Entry<T>>,
    n_entries: u64,
    /// How many subtrees a group has.
    pub(crate) group_sizes: IdVec<GroupId, u32>,
    pub(crate) largest_group: u32,
    /// See [`MAX_LIVE`].
    pub(crate) max_live: usize,
}

/// Long lists as arrays of the values that nodes start from: see the module.
#[derive(Debug, Default)]
pub(crate) struct Patterns<N = f64> {
    /// Whether lists of a production have patterns.
    groups: IdVec<GroupId, bool>,
    of_list: IdVec<ListId, PackedOption<PatternId>>,
    pub(crate) lists: IdVec<PatternId, ListId>,
    /// By number within the production: C.
    values: IdVec<PatternId, Vec<N>>,
}

impl<N> Patterns<N> {
    #[inline]
    fn has_group(&self, group: GroupId) -> bool {
        self.groups[group]
    }

    /// The pattern of a list.
    #[inline]
    pub(crate) fn of_list(&self, list: ListId) -> Option<PatternId> {
        self.of_list.find(list)?.get()
    }
}

impl Patterns {
    /// A list has a pattern if it has one in so many subtrees of its production: walking
    /// an entry costs some fifteen times what copying a value does.
    const SHARE: usize = 12;
    /// ... and at least so many entries.
    pub(crate) const MIN_LENGTH: usize = 32;

    /// Whether a list is long for a group.
    pub(crate) fn is_long(len: usize, group: usize) -> bool {
        len >= Self::MIN_LENGTH && len * Self::SHARE >= group
    }

    /// Those of the lists among which `wanted` are.
    ///
    /// # Errors
    /// [`crate::Error::Memory`].
    pub(crate) fn new<T: SinkId, F: Factors>(
        index: &Index<T, F>,
        wanted: impl Fn(GroupKey) -> bool,
    ) -> Result<Self> {
        let mut patterns = Self {
            groups: memory::filled(false, index.group_sizes.len())?.into(),
            of_list: memory::filled(PackedOption::NONE, index.lists.len())?.into(),
            ..Self::default()
        };
        for (list, &key) in index.keys.keys.enumerated() {
            let key = GroupKey::from(key);
            let (entries, size) = (index.lists.get(list), index.group_size(key.parent));
            if !Self::is_long(entries.len(), size) || !wanted(key) {
                continue;
            }
            // Where the one child in question is no deeper than its production and no
            // other child matches, C = λ (1 + λ of the child's production).
            let decay = index.decay_of(key.parent);
            let mut values = memory::filled(decay, size)?;
            for entry in entries {
                // A subtree is in a list once at most, as the list is of one position.
                values[entry.u.index()] += decay * index.decay_of(key.child);
            }
            patterns.groups[key.parent] = true;
            patterns.of_list[list] = PatternId::at(patterns.lists.len()).into();
            memory::push(&mut patterns.lists, list)?;
            memory::push(&mut patterns.values, values)?;
        }
        Ok(patterns)
    }

    pub(crate) fn nbytes(&self) -> usize {
        let values = self.values.iter().map(|values| values.capacity() * 8 + 24);
        values.sum::<usize>() + (self.of_list.capacity() + self.lists.capacity()) * 4
    }
}

/// What the first pass found out about a node of the tree.
#[derive(Debug, Clone, Copy)]
struct Step {
    group: PackedOption<GroupId>,
    /// The pattern that its values start from.
    pattern: PackedOption<PatternId>,
    /// How many lists it walks besides, and how many entries these had.
    n_lists: u32,
    touched: u32,
    /// The place of its last parent. (Found on the way for the rows of a matrix, whose trees
    /// were read before.)
    last_use: PackedOption<Place>,
}

impl Step {
    /// Whether nothing of the node matches deeper than its production.
    fn is_flat(self) -> bool {
        self.n_lists == 0 && self.pattern.is_none()
    }
}

/// Values of a node: C(v, ·).
#[derive(Debug)]
enum Values<N> {
    /// λ throughout.
    Flat,
    /// As the pattern has them.
    Pattern(PatternId),
    Own(Vec<N>),
    /// Only those that the node touched: when too many are kept.
    Few(Vec<(MemberId, N)>),
}

/// What a worker keeps from tree to tree.
#[derive(Debug)]
pub(crate) struct Scratch<N = f64> {
    steps: IdVec<Place, Step>,
    /// The places that have lists to walk, or start from a pattern.
    active: Vec<Place>,
    /// As long as a parent will ask.
    values: IdVec<Place, Values<N>>,
    /// Arrays that are λ throughout; by pattern those that are as it has them.
    clean: Vec<Vec<N>>,
    patterns: IdVec<PatternId, Vec<Vec<N>>>,
    /// Arrays of any values.
    used: Vec<Vec<N>>,
    /// How many places have values that are not flat, and how many numbers these are.
    n_kept: usize,
    live: usize,
    walked: usize,
    /// Entries walked since somebody asked.
    visits: u64,
}

// By hand, as a derived Default asks for one of N.
impl<N> Default for Scratch<N> {
    fn default() -> Self {
        Self {
            steps: IdVec::default(),
            active: Vec::new(),
            values: IdVec::default(),
            clean: Vec::new(),
            patterns: IdVec::default(),
            used: Vec::new(),
            n_kept: 0,
            live: 0,
            walked: 0,
            visits: 0,
        }
    }
}

impl<N> Scratch<N> {
    /// How many entries were walked since this was last asked.
    pub(crate) fn take_visits(&mut self) -> u64 {
        std::mem::take(&mut self.visits)
    }

    /// To be called when tables have been made anew.
    pub(crate) fn forget_patterns(&mut self) {
        self.patterns.clear();
    }
}

impl<T: SinkId, F: Factors> Index<T, F> {
    pub(crate) fn new(decay: F, leaf_weight: f64) -> Self {
        Self {
            decay,
            leaf_weight,
            keys: Keys::default(),
            lists: Growing::default(),
            n_entries: 0,
            group_sizes: IdVec::default(),
            largest_group: 0,
            max_live: MAX_LIVE,
        }
    }

    /// About how many visits take as long as making tables for scores.
    pub(crate) fn cost_of_tables(&self) -> u64 {
        3 * self.n_entries
    }

    /// How many entries a tree visits without tables.
    pub(crate) fn visits(&self, id_map: &IdMap, tree: &Reader) -> u64 {
        let edges = tree.items().iter().flat_map(|item| id_map.edges(item.node));
        let lists = edges.filter_map(|&edge| id_map.list(edge));
        lists.map(|list| self.lists.len_of(list) as u64).sum()
    }

    /// How many subtrees a production has.
    pub(crate) fn group_size(&self, group: GroupId) -> usize {
        self.group_sizes.find(group).map_or(0, |&size| size as usize)
    }

    /// λ of a production.
    #[inline]
    pub(crate) fn decay_of(&self, group: GroupId) -> f64 {
        self.decay.of(group.number())
    }

    /// The list with a key.
    pub(crate) fn find(&self, key: GroupKey) -> Option<ListId> {
        self.keys.find(key.into())
    }

    /// The key of a list.
    pub(crate) fn key(&self, list: ListId) -> GroupKey {
        self.keys.keys[list].into()
    }

    pub(crate) fn nbytes(&self) -> usize {
        let groups = self.group_sizes.capacity() * 4;
        self.keys.nbytes() + self.lists.nbytes() + groups
    }
}

impl Index {
    /// Enters a new inner subtree of a model; `slots` are those of all before it.
    ///
    /// # Errors
    /// [`crate::Error::Capacity`] and [`crate::Error::Memory`]: the subtree is not there.
    pub(crate) fn enter(
        &mut self,
        nodes: &Nodes,
        node: NodeId,
        slots: &[Slot],
    ) -> Result<Slot> {
        // Leaves are not entered, and all others have a production.
        let group = nodes.production(node).map_or(GroupId(0), |p| GroupId(p.0));
        memory::reach(&mut self.group_sizes, group.index() + 1, 0)?;
        let member = MemberId(self.group_sizes[group]);
        if let Err(error) = self.enter_children(nodes, node, member, slots) {
            // Its children are each in a list of their own.
            for list in (0..self.keys.keys.len()).map(ListId::at) {
                if self.key(list).parent == group {
                    self.lists.pop_if(list, |entry| entry.u == member);
                }
            }
            return Err(error);
        }
        // At last: a subtree that is refused leaves its number to the next.
        self.group_sizes[group] += 1;
        self.largest_group = self.largest_group.max(self.group_sizes[group]);
        Ok(Slot::of_member(group, member))
    }

    fn enter_children(
        &mut self,
        nodes: &Nodes,
        node: NodeId,
        member: MemberId,
        slots: &[Slot],
    ) -> Result<()> {
        for (position, &child) in nodes.children(node).iter().enumerate() {
            let wanted = Wanted::Productions;
            if let Some(key) = IdMap::key(wanted, nodes, node, position, child) {
                // Room for a list first: a key without one would be found by queries.
                self.lists.reach(self.keys.keys.len() + 1)?;
                let list = self.keys.insert(key, LISTS)?;
                // Children are entered before their parents, so this slot is there. They
                // are inner ones, and so members of a group.
                let child = slots[child.index()].member().unwrap_or_default();
                let entry = Entry { u: member, child, target: () };
                self.lists.push(list, entry, EDGES)?;
                self.n_entries += 1;
            }
        }
        Ok(())
    }

    /// Where the weight of the next subtree of a production will be.
    pub(crate) fn next_slot(&self, group: GroupId) -> Slot {
        Slot::of_member(group, MemberId::at(self.group_size(group)))
    }
}

/// A tree, and an index for it to walk.
pub(crate) struct Walk<'a, T, N, E, F = f64> {
    pub(crate) index: &'a Index<T, F>,
    pub(crate) id_map: &'a IdMap,
    pub(crate) tree: &'a Reader,
    pub(crate) extent: &'a E,
    pub(crate) patterns: Option<&'a Patterns<N>>,
    /// Folds of lists (see [`Sink::fold`]); None where there are none.
    pub(crate) folds: Option<&'a IdVec<ListId, PackedOption<FoldId>>>,
    pub(crate) scratch: &'a mut Scratch<N>,
}

/// An array, or one number for all of it.
#[derive(Clone, Copy)]
enum Source<'a, N> {
    Constant(N),
    Array(&'a [N]),
}

impl<'a, T: SinkId, N: Number, E: Extent, F: Factors> Walk<'a, T, N, E, F> {
    /// The first pass: tells what nodes have in common with all subtrees of their
    /// production or pattern. `group` is a node's production in the index, by its place.
    pub(crate) fn plan(
        &mut self,
        group: impl Fn(Place) -> PackedOption<GroupId>,
        sink: &mut impl Sink<N>,
    ) -> Result<()> {
        self.scratch.steps.clear();
        self.scratch.active.clear();
        // If the list of a root's only child has a fold, the child is told for both,
        // and the root needs no walk.
        let (items, fold) = (self.tree.items(), self.fold());
        // At most one of each per node, so no push below can fail.
        memory::reserve(&mut self.scratch.steps, items.len())?;
        memory::reserve(&mut self.scratch.active, items.len())?;
        // 1. Children come first, so each child's step is there when its parent asks.
        for (place, item) in items.enumerated() {
            let group = group(place);
            let last_use = item.last_use;
            let pattern = PackedOption::NONE;
            let mut step = Step { group, pattern, n_lists: 0, touched: 0, last_use };
            // 2. λ, which all subtrees of the production have in common.
            if let Some(group) = group.get() {
                let decay = N::from_f64(self.index.decay_of(group));
                sink.node(place, item.count);
                sink.group(group, decay);
                if fold.is_some() && place.index() + 1 == items.len() {
                    // Told with the child.
                    self.scratch.steps.push(step); // has room
                    continue;
                }
                // 3. The lists to walk, and of those with a pattern the longest, from
                // whose array the node will start. One only, as two would have to be
                // multiplied.
                let (mut longest, mut of_child) = (0, decay);
                // Most lists of rare productions are looked up for nothing.
                let patterns = self.patterns.filter(|tables| tables.has_group(group));
                for &edge in self.id_map.edges(item.node) {
                    let list = self.id_map.list(edge);
                    if !E::WHOLE {
                        // Parents come in ascending order, so the last one to write is
                        // the last to ask.
                        let child = self.tree.place(edge.child);
                        self.scratch.steps[child].last_use = place.into();
                    }
                    let Some(list) = list else { continue };
                    step.n_lists += 1;
                    let Some(patterns) = patterns else { continue };
                    // A pattern's values hold only where the child has no more than its
                    // production in common with anything.
                    if let Some(pattern) = patterns.of_list(list)
                        && self.step(edge.child).is_flat()
                    {
                        let len = self.index.lists.len_of(list);
                        // The longest saves most.
                        if len > longest {
                            (longest, step.pattern) = (len, pattern.into());
                            of_child = self.decay_of(self.step(edge.child).group);
                        }
                    }
                }
                // 4. What a fold's child has in common with its whole production counts
                // for the roots above it, and so does its pattern.
                let fold = fold.filter(|_| place.index() + 2 == items.len());
                if let Some(fold) = fold {
                    sink.folded(fold, decay);
                    sink.fold(Some(fold));
                }
                if let Some(pattern) = step.pattern.get() {
                    step.n_lists -= 1;
                    sink.pattern(pattern, decay * of_child);
                }
                if fold.is_some() {
                    sink.fold(None);
                }
                // 5. All others are λ throughout, and the second pass need not see
                // them.
                if !step.is_flat() {
                    self.scratch.active.push(place); // has room
                }
            }
            self.scratch.steps.push(step); // has room
        }
        Ok(())
    }

    /// The second pass: tells what pairs of subtrees have beyond that.
    pub(crate) fn walk<S: Sink<N, Id = T::Id>>(
        &mut self,
        sink: &mut S,
        context: &Context,
    ) -> Result<()> {
        // All values are `Flat` between trees, so those of earlier trees need not be
        // cleared.
        let (n, fold) = (self.tree.items().len(), self.fold());
        memory::reach_with(&mut self.scratch.values, n, || Values::Flat)?;
        // In the order of places: a child's values are complete before a parent reads
        // them.
        for at in 0..self.scratch.active.len() {
            let place = self.scratch.active[at];
            let step = self.scratch.steps[place];
            if let Some(pattern) = step.pattern.get().filter(|_| step.n_lists == 0) {
                // It has nothing beyond its pattern: the pattern's array serves as it
                // is.
                self.put(place, Values::Pattern(pattern));
            } else if let Some(group) = step.group.get() {
                let fold = fold.filter(|_| place.index() + 2 == n);
                if fold.is_some() {
                    sink.fold(fold);
                }
                sink.node(place, self.tree.items()[place].count);
                // The child of a folded root has no other parent, and that one was told
                // with it.
                let is_asked = step.last_use.is_some() && fold.is_none();
                let mut view = sink.view(group);
                let told = self.node(place, step, is_asked, &mut view);
                view.close();
                if fold.is_some() {
                    sink.fold(None);
                }
                // An error gives all arrays back, as the next tree counts on flat
                // values.
                if let Err(error) = told {
                    self.release_all();
                    return Err(error);
                }
            }
            if self.scratch.n_kept > 0 {
                self.release_children(place);
            }
            // By entries and not by nodes: one node may have lists of millions.
            if self.scratch.walked > BETWEEN_CHECKS {
                self.scratch.walked = 0;
                if let Err(error) = context.check_now() {
                    self.release_all();
                    return Err(error);
                }
            }
        }
        if self.scratch.n_kept > 0 {
            // A root that starts from a pattern, and what stands below unknown productions.
            self.release_all();
        }
        Ok(())
    }

    /// The fold of the list of a root with one child.
    fn fold(&self) -> Option<FoldId> {
        let folds = self.folds?;
        let root = self.tree.items().last()?;
        let [edge] = self.id_map.edges(root.node) else { return None };
        folds.find(self.id_map.list(*edge)?)?.get()
    }

    #[inline]
    fn step(&self, node: NodeId) -> Step {
        self.scratch.steps[self.tree.place(node)]
    }

    /// The lists of a node, but for the one that its pattern stands for, with the places
    /// of the children.
    #[inline]
    fn lists(
        &self,
        place: Place,
        pattern: PackedOption<PatternId>,
    ) -> impl Iterator<Item = (&'a [Entry<T>], Place)> + use<'a, T, N, E, F> {
        let Self { index, id_map, tree, extent, .. } = *self;
        let done = match (self.patterns, pattern.get()) {
            (Some(patterns), Some(pattern)) => Some(patterns.lists[pattern]),
            _ => None,
        };
        let edges = id_map.edges(tree.items()[place].node).iter();
        edges.filter_map(move |&edge| {
            let list = id_map.list(edge).filter(|&list| Some(list) != done)?;
            let bounds = extent.list(list, || index.lists.bounds(list));
            Some((index.lists.between(bounds), tree.place(edge.child)))
        })
    }

    /// Tells what a node's subtrees have beyond what it starts from.
    fn node<V: View<N, Id = T::Id>>(
        &mut self,
        place: Place,
        step: Step,
        is_asked: bool,
        view: &mut V,
    ) -> Result<()> {
        // An array of its own is needed only if its values are read again: by a parent,
        // or by its next list.
        let mut node_values = None;
        if is_asked || step.n_lists > 1 {
            node_values = Some(self.take(step)?);
        }
        let mut left = step.n_lists;
        let mut walked = 0;
        for (list, child) in self.lists(place, step.pattern) {
            left -= 1;
            walked += list.len();
            let unfolded = self.unfold(child)?;
            let below = match &unfolded {
                Some(values) => Source::Array(&values[..]),
                None => self.source(child),
            };
            match &mut node_values {
                // Nobody will ask for what the last list of a root makes of its values.
                Some(node_values) if left > 0 || is_asked => {
                    update(list, node_values, below, view);
                }
                Some(node_values) => {
                    read(list, Source::Array(node_values), below, view);
                }
                None => {
                    let start = self.start(step.group, step.pattern);
                    read(list, start, below, view);
                }
            }
            if let Some(values) = unfolded {
                self.give_back(child, values);
            }
        }
        self.scratch.walked += walked;
        self.scratch.visits += walked as u64;
        if let Some(node_values) = node_values {
            // An upper bound: a subtree may stand in several of the lists.
            self.scratch.steps[place].touched =
                u32::try_from(walked).unwrap_or(u32::MAX);
            self.keep(place, node_values, is_asked);
        }
        Ok(())
    }

    /// C of the node at a place, as far as it is not [few](Values::Few).
    #[inline]
    fn source(&self, place: Place) -> Source<'_, N> {
        match &self.scratch.values[place] {
            Values::Own(values) => Source::Array(values),
            Values::Pattern(pattern) => {
                self.start(PackedOption::NONE, (*pattern).into())
            }
            Values::Flat | Values::Few(_) => {
                self.start(self.scratch.steps[place].group, PackedOption::NONE)
            }
        }
    }

    /// What nodes of a production start from.
    #[inline]
    fn start(
        &self,
        group: PackedOption<GroupId>,
        pattern: PackedOption<PatternId>,
    ) -> Source<'a, N> {
        match (self.patterns, pattern.get()) {
            (Some(patterns), Some(pattern)) => Source::Array(&patterns.values[pattern]),
            _ => Source::Constant(self.decay_of(group)),
        }
    }

    /// λ of a production; of one that the index does not have nothing is asked.
    #[inline]
    fn decay_of(&self, group: PackedOption<GroupId>) -> N {
        let decay = &self.index.decay;
        let of_group = || group.get().map_or(0.0, |group| decay.of(group.number()));
        N::from_f64(decay.same().unwrap_or_else(of_group))
    }

    /// An array of what a node starts from.
    #[inline]
    fn take(&mut self, step: Step) -> Result<Vec<N>> {
        let decay = self.decay_of(step.group);
        // All arrays are of one size, the largest group's: growing them as groups grow
        // cost rows a tenth of the time.
        let size = self.index.largest_group as usize;
        let Scratch { clean, patterns, used, .. } = &mut *self.scratch;
        // 1. Where λ is one number, an array of it serves every production.
        if step.pattern.is_none() && self.index.decay.same().is_some() {
            let mut node_values = clean.pop().unwrap_or_default();
            memory::reach(&mut node_values, size, decay)?;
            return Ok(node_values);
        }
        // 2. An array that a node gave back is set as the pattern has it.
        let spare = step.pattern.get().and_then(|p| patterns.find_mut(p)?.pop());
        if let Some(node_values) = spare {
            return Ok(node_values);
        }
        // 3. Any array, set as far as the group goes; nobody reads further.
        let mut node_values = used.pop().unwrap_or_default();
        memory::reach(&mut node_values, size, decay)?;
        let len = self.len_of(step.group);
        match self.start(step.group, step.pattern) {
            Source::Array(values) => node_values[..len].copy_from_slice(&values[..len]),
            Source::Constant(decay) => node_values[..len].fill(decay),
        }
        Ok(node_values)
    }

    /// How many subtrees of a production count.
    #[inline]
    fn len_of(&self, group: PackedOption<GroupId>) -> usize {
        let len_of = |group| self.extent.group(group, self.index.group_size(group));
        group.get().map_or(0, len_of)
    }

    /// Keeps a node's values for its parents, if they will ask; when these are many, only
    /// those that it touched.
    fn keep(&mut self, place: Place, node_values: Vec<N>, is_asked: bool) {
        if !is_asked {
            return self.give_back(place, node_values);
        }
        let Step { touched, pattern, .. } = self.scratch.steps[place];
        // Beyond the limit a node with few touched values keeps these alone. If there
        // is no memory for them, the array stays: it is there already.
        if self.scratch.live + node_values.len() > self.index.max_live
            && (touched as usize) < node_values.len() / 4
        {
            let mut few = Vec::new();
            let entries = self.lists(place, pattern).flat_map(|(list, _)| list);
            let values = entries.map(|e| (e.u, node_values[e.u.index()]));
            let has_room = memory::reserve(&mut few, touched as usize).is_ok();
            if has_room && memory::extend(&mut few, values).is_ok() {
                self.give_back(place, node_values);
                return self.put(place, Values::Few(few));
            }
        }
        self.scratch.live += node_values.len();
        self.put(place, Values::Own(node_values));
    }

    #[inline]
    fn put(&mut self, place: Place, values: Values<N>) {
        self.scratch.n_kept += 1;
        self.scratch.values[place] = values;
    }

    /// The values of a node that kept few, as an array.
    #[inline]
    fn unfold(&mut self, place: Place) -> Result<Option<Vec<N>>> {
        if !matches!(self.scratch.values[place], Values::Few(_)) {
            return Ok(None);
        }
        // What the node started from, and on it the few that it changed.
        let mut values = self.take(self.scratch.steps[place])?;
        let Values::Few(few) = &self.scratch.values[place] else { return Ok(None) };
        for &(u, value) in few {
            values[u.index()] = value;
        }
        Ok(Some(values))
    }

    /// Keeps an array for other nodes: what its node started from is set back where it
    /// touched little.
    fn give_back(&mut self, place: Place, mut node_values: Vec<N>) {
        let Step { group, pattern, touched, .. } = self.scratch.steps[place];
        // Entry by entry, or all at once if that is most of the array.
        let len = self.len_of(group);
        let is_little = (touched as usize) < len / 4;
        let lists = self.lists(place, pattern).flat_map(|(list, _)| list);
        match self.start(group, pattern) {
            // Other productions start from other numbers.
            Source::Constant(_) if self.index.decay.same().is_none() => {
                return memory::set_aside(&mut self.scratch.used, node_values);
            }
            Source::Constant(decay) if is_little => {
                lists.for_each(|entry| node_values[entry.u.index()] = decay);
            }
            Source::Constant(decay) => node_values[..len].fill(decay),
            // Under a prefix, a pattern is copied only as far as the prefix goes; a
            // later row would read beyond.
            Source::Array(start) if E::WHOLE && is_little => {
                lists.for_each(|entry| {
                    node_values[entry.u.index()] = start[entry.u.index()];
                });
                let Some(pattern) = pattern.get() else { return };
                let patterns = &mut self.scratch.patterns;
                // The array is lost if there is no room for it: another one is made
                // then.
                let len = pattern.index() + 1;
                if memory::reach_with(patterns, len, Vec::new).is_ok() {
                    memory::set_aside(&mut patterns[pattern], node_values);
                }
                return;
            }
            Source::Array(_) => {
                return memory::set_aside(&mut self.scratch.used, node_values);
            }
        }
        memory::set_aside(&mut self.scratch.clean, node_values);
    }

    /// Gives back the values of children that no later parent asks for.
    #[inline]
    fn release_children(&mut self, place: Place) {
        // A child may be kept for several parents; the last one frees it.
        let (id_map, tree) = (self.id_map, self.tree);
        for edge in id_map.edges(tree.items()[place].node) {
            let child = tree.place(edge.child);
            if self.scratch.steps[child].last_use == place.into() {
                self.release(child);
            }
        }
    }

    /// Gives back all that is left.
    fn release_all(&mut self) {
        for place in (0..self.tree.items().len()).map(Place::at) {
            self.release(place);
        }
    }

    #[inline]
    fn release(&mut self, place: Place) {
        let values = std::mem::replace(&mut self.scratch.values[place], Values::Flat);
        self.scratch.n_kept -= usize::from(!matches!(values, Values::Flat));
        if let Values::Own(node_values) = values {
            self.scratch.live -= node_values.len();
            self.give_back(place, node_values);
        }
    }
}

/// Walks a list: `node_values` is C of the node, as far as its children were taken, and
/// `below` that of its child. Functions of their own, so that what the loops need stays
/// in registers.
#[inline(never)]
fn update<T: SinkId, N: Number, V: View<N, Id = T::Id>>(
    list: &[Entry<T>],
    node_values: &mut [N],
    below: Source<'_, N>,
    view: &mut V,
) {
    let mut each = |entry: &Entry<T>, factor: N| {
        let c = &mut node_values[entry.u.index()];
        // C (1 + f) with f of the child, as C + C f: what is told is the second term,
        // and nothing is subtracted.
        let d = *c * factor;
        *c = *c + d;
        view.add(entry.target.of(entry.u), d);
    };
    match below {
        Source::Constant(c) => {
            for entry in list {
                each(entry, c);
            }
        }
        Source::Array(values) => {
            for entry in list {
                each(entry, values[entry.child.index()]);
            }
        }
    }
}

/// The same where nobody asks for the node's values afterwards.
#[inline(never)]
fn read<T: SinkId, N: Number, V: View<N, Id = T::Id>>(
    list: &[Entry<T>],
    node_values: Source<'_, N>,
    below: Source<'_, N>,
    view: &mut V,
) {
    // The cases apart, so that none of the loops has a branch.
    match (node_values, below) {
        (Source::Constant(node_values), Source::Constant(c)) => {
            tell(list, |_| node_values * c, view);
        }
        (Source::Constant(node_values), Source::Array(c)) => {
            tell(list, |e| node_values * c[e.child.index()], view);
        }
        (Source::Array(node_values), Source::Constant(c)) => {
            tell(list, |e| node_values[e.u.index()] * c, view);
        }
        (Source::Array(node_values), Source::Array(c)) => {
            tell(list, |e| node_values[e.u.index()] * c[e.child.index()], view);
        }
    }
}

#[inline]
fn tell<T: SinkId, N: Number, V: View<N, Id = T::Id>>(
    list: &[Entry<T>],
    value: impl Fn(&Entry<T>) -> N,
    view: &mut V,
) {
    for entry in list {
        view.add(entry.target.of(entry.u), value(entry));
    }
}
