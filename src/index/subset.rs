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

use super::SinkId;
use super::id_map::{IdMap, Key, LISTS, Wanted};
use super::prefixes::Extent;
use super::weights::{Sink, Slot, View};
use crate::forest::reader::{NONE, Reader};
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
    pub(crate) u: u32,
    /// The number of its child within the child's production.
    pub(crate) child: u32,
    pub(crate) target: T,
}

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Index<T = (), F = f64> {
    /// By production.
    pub(crate) decay: F,
    pub(crate) leaf_weight: f64,
    /// Lists by production, position and child's production.
    pub(crate) keys: Keys,
    /// Entries of all lists, for [`cost_of_tables`](Self::cost_of_tables).
    pub(crate) lists: Growing<Entry<T>>,
    n_entries: u64,
    /// By production: how many subtrees.
    pub(crate) group_sizes: Vec<u32>,
    pub(crate) largest_group: u32,
    /// See [`MAX_LIVE`].
    pub(crate) max_live: usize,
}

/// Long lists as arrays of the values that nodes start from: see the module.
#[derive(Debug, Default)]
pub(crate) struct Patterns<N = f64> {
    /// By production, whether lists of it have patterns.
    groups: Vec<bool>,
    /// By list its pattern, or [`NONE`]; by pattern its list.
    of_list: Vec<u32>,
    pub(crate) lists: Vec<u32>,
    /// By pattern, by number within the production: C.
    values: Vec<Vec<N>>,
}

impl<N> Patterns<N> {
    #[inline]
    fn has_group(&self, group: u32) -> bool {
        self.groups[group as usize]
    }

    /// The pattern of a list, or [`NONE`].
    #[inline]
    pub(crate) fn of_list(&self, list: u32) -> u32 {
        self.of_list.get(list as usize).copied().unwrap_or(NONE)
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
        wanted: impl Fn(Key) -> bool,
    ) -> Result<Self> {
        let mut patterns = Self {
            groups: memory::filled(false, index.group_sizes.len())?,
            of_list: memory::filled(NONE, index.lists.len())?,
            ..Self::default()
        };
        for (list, &key) in index.keys.keys.iter().enumerate() {
            let (entries, size) = (index.lists.get(list), index.group_size(key[0]));
            if !Self::is_long(entries.len(), size) || !wanted(key) {
                continue;
            }
            // Where the one child in question is no deeper than its production and no
            // other child matches, C = λ (1 + λ of the child's production).
            let decay = index.decay.of(key[0]);
            let mut values = memory::filled(decay, size)?;
            for entry in entries {
                // A subtree is in a list once at most, as the list is of one position.
                values[entry.u as usize] += decay * index.decay.of(key[2]);
            }
            patterns.groups[key[0] as usize] = true;
            patterns.of_list[list] = patterns.lists.len() as u32;
            memory::push(&mut patterns.lists, list as u32)?;
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
    group: u32,
    /// The pattern that its values start from, or [`NONE`].
    pattern: u32,
    /// How many lists it walks besides, and how many entries these had.
    n_lists: u32,
    touched: u32,
    /// The place of its last parent, or [`NONE`]. (Found on the way for the rows of a
    /// matrix, whose trees were read before.)
    last_use: u32,
}

impl Step {
    /// Whether nothing of the node matches deeper than its production.
    fn is_flat(self) -> bool {
        self.n_lists == 0 && self.pattern == NONE
    }
}

/// Values of a node: C(v, ·).
#[derive(Debug)]
enum Values<N> {
    /// λ throughout.
    Flat,
    /// As the pattern has them.
    Pattern(u32),
    Own(Vec<N>),
    /// Only those that the node touched: when too many are kept.
    Few(Vec<(u32, N)>),
}

/// What a worker keeps from tree to tree.
#[derive(Debug)]
pub(crate) struct Scratch<N = f64> {
    steps: Vec<Step>,
    /// The places that have lists to walk, or start from a pattern.
    active: Vec<u32>,
    /// By place, as long as a parent will ask.
    values: Vec<Values<N>>,
    /// Arrays that are λ throughout; by pattern those that are as it has them.
    clean: Vec<Vec<N>>,
    patterns: Vec<Vec<Vec<N>>>,
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
            steps: Vec::new(),
            active: Vec::new(),
            values: Vec::new(),
            clean: Vec::new(),
            patterns: Vec::new(),
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
            group_sizes: Vec::new(),
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
        let lists = edges.map(|&edge| id_map.list(edge)).filter(|&list| list != NONE);
        lists.map(|list| self.lists.len_of(list as usize) as u64).sum()
    }

    /// How many subtrees a production has.
    pub(crate) fn group_size(&self, group: u32) -> usize {
        self.group_sizes.get(group as usize).map_or(0, |&size| size as usize)
    }

    pub(crate) fn find(&self, key: Key) -> Option<u32> {
        self.keys.find(key)
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
        let group = nodes.production(node).map_or(0, |p| p.0);
        memory::reach(&mut self.group_sizes, group as usize + 1, 0)?;
        let number = self.group_sizes[group as usize];
        if let Err(error) = self.enter_children(nodes, node, number, slots) {
            // Its children are each in a list of their own.
            for list in 0..self.lists.len() {
                if self.keys.keys[list][0] == group {
                    self.lists.pop_if(list, |entry| entry.u == number);
                }
            }
            return Err(error);
        }
        // At last: a subtree that is refused leaves its number to the next.
        self.group_sizes[group as usize] += 1;
        self.largest_group = self.largest_group.max(number + 1);
        Ok(Slot { group, number })
    }

    fn enter_children(
        &mut self,
        nodes: &Nodes,
        node: NodeId,
        number: u32,
        slots: &[Slot],
    ) -> Result<()> {
        for (position, &child) in nodes.children(node).iter().enumerate() {
            let wanted = Wanted::Productions;
            if let Some(key) = IdMap::key(wanted, nodes, node, position, child) {
                let list = self.keys.insert(key, LISTS)? as usize;
                self.lists.reach(list + 1)?;
                // Children are entered before their parents, so this slot is there.
                let child = slots[child.index()].number;
                let entry = Entry { u: number, child, target: () };
                self.lists.push(list, entry, EDGES)?;
                self.n_entries += 1;
            }
        }
        Ok(())
    }

    /// Where the weight of the next subtree of a production will be.
    pub(crate) fn next_slot(&self, group: u32) -> Slot {
        Slot { group, number: self.group_size(group) as u32 }
    }
}

/// A tree, and an index for it to walk.
pub(crate) struct Walk<'a, T, N, E, F = f64> {
    pub(crate) index: &'a Index<T, F>,
    pub(crate) id_map: &'a IdMap,
    pub(crate) tree: &'a Reader,
    pub(crate) extent: &'a E,
    pub(crate) patterns: Option<&'a Patterns<N>>,
    /// By list: its fold, if it has one (see [`Sink::fold`]).
    pub(crate) folds: &'a [u32],
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
    /// production or pattern. `group` is a node's production in the index, or [`NONE`], by
    /// its place.
    pub(crate) fn plan(
        &mut self,
        group: impl Fn(usize) -> u32,
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
        for (place, item) in items.iter().enumerate() {
            let group = group(place);
            let last_use = item.last_use;
            let mut step =
                Step { group, pattern: NONE, n_lists: 0, touched: 0, last_use };
            // 2. λ, which all subtrees of the production have in common.
            if group != NONE {
                let decay = N::from_f64(self.index.decay.of(group));
                sink.node(place, item.count);
                sink.group(group, decay);
                if fold != NONE && place + 1 == items.len() {
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
                        self.scratch.steps[child].last_use = place as u32;
                    }
                    if list == NONE {
                        continue;
                    }
                    step.n_lists += 1;
                    let Some(patterns) = patterns else { continue };
                    let pattern = patterns.of_list(list);
                    // A pattern's values hold only where the child has no more than its
                    // production in common with anything.
                    if pattern != NONE && self.step(edge.child).is_flat() {
                        let len = self.index.lists.len_of(list as usize);
                        // The longest saves most.
                        if len > longest {
                            (longest, step.pattern) = (len, pattern);
                            let child = self.step(edge.child).group;
                            of_child = N::from_f64(self.index.decay.of(child));
                        }
                    }
                }
                // 4. What a fold's child has in common with its whole production counts
                // for the roots above it, and so does its pattern.
                let is_folded = fold != NONE && place + 2 == items.len();
                if is_folded {
                    sink.folded(fold, decay);
                    sink.fold(fold);
                }
                if step.pattern != NONE {
                    step.n_lists -= 1;
                    sink.pattern(step.pattern, decay * of_child);
                }
                if is_folded {
                    sink.fold(NONE);
                }
                // 5. All others are λ throughout, and the second pass need not see
                // them.
                if step.n_lists > 0 || step.pattern != NONE {
                    self.scratch.active.push(place as u32); // has room
                }
            }
            self.scratch.steps.push(step); // has room
        }
        Ok(())
    }

    /// The second pass: tells what pairs of subtrees have beyond that.
    pub(crate) fn walk<S: Sink<N>>(
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
            let place = self.scratch.active[at] as usize;
            let step = self.scratch.steps[place];
            if step.n_lists > 0 {
                let is_folded = fold != NONE && place + 2 == n;
                if is_folded {
                    sink.fold(fold);
                }
                sink.node(place, self.tree.items()[place].count);
                // The child of a folded root has no other parent, and that one was told
                // with it.
                let is_asked = step.last_use != NONE;
                let told = self.node(place, step, is_asked && !is_folded, sink);
                if is_folded {
                    sink.fold(NONE);
                }
                // An error gives all arrays back, as the next tree counts on flat
                // values.
                if let Err(error) = told {
                    (0..n).for_each(|place| self.release(place));
                    return Err(error);
                }
            } else {
                // It has nothing beyond its pattern: the pattern's array serves as it
                // is.
                self.put(place, Values::Pattern(step.pattern));
            }
            if self.scratch.n_kept > 0 {
                self.release_children(place);
            }
            // By entries and not by nodes: one node may have lists of millions.
            if self.scratch.walked > BETWEEN_CHECKS {
                self.scratch.walked = 0;
                if let Err(error) = context.check_now() {
                    (0..n).for_each(|place| self.release(place));
                    return Err(error);
                }
            }
        }
        if self.scratch.n_kept > 0 {
            // A root that starts from a pattern, and what stands below unknown productions.
            (0..n).for_each(|place| self.release(place));
        }
        Ok(())
    }

    /// The fold of the list of a root with one child, or [`NONE`].
    fn fold(&self) -> u32 {
        let Some(root) = self.tree.items().last() else { return NONE };
        let [edge] = self.id_map.edges(root.node) else { return NONE };
        let list = self.id_map.list(*edge);
        self.folds.get(list as usize).copied().unwrap_or(NONE)
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
        place: usize,
        pattern: u32,
    ) -> impl Iterator<Item = (&'a [Entry<T>], usize)> + use<'a, T, N, E, F> {
        let Self { index, id_map, tree, extent, .. } = *self;
        let done = match self.patterns {
            Some(patterns) if pattern != NONE => patterns.lists[pattern as usize],
            _ => NONE,
        };
        let edges = id_map.edges(tree.items()[place].node).iter();
        edges.filter_map(move |&edge| {
            let list = id_map.list(edge);
            if list == NONE || list == done {
                return None;
            }
            let bounds = extent.list(list, || index.lists.bounds(list as usize));
            Some((index.lists.between(bounds), tree.place(edge.child)))
        })
    }

    /// Tells what a node's subtrees have beyond what it starts from.
    fn node<S: Sink<N>>(
        &mut self,
        place: usize,
        step: Step,
        is_asked: bool,
        sink: &mut S,
    ) -> Result<()> {
        // An array of its own is needed only if its values are read again: by a parent,
        // or by its next list.
        let mut node_values = None;
        if is_asked || step.n_lists > 1 {
            node_values = Some(self.take(step)?);
        }
        let mut view = sink.view(step.group);
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
                    update(list, node_values, below, &mut view);
                }
                Some(node_values) => {
                    read(list, Source::Array(node_values), below, &mut view);
                }
                None => {
                    let start = self.start(step.group, step.pattern);
                    read(list, start, below, &mut view);
                }
            }
            if let Some(values) = unfolded {
                self.give_back(child, values);
            }
        }
        view.close();
        self.scratch.walked += walked;
        self.scratch.visits += walked as u64;
        if let Some(node_values) = node_values {
            // An upper bound: a subtree may stand in several of the lists.
            self.scratch.steps[place].touched = walked.min(NONE as usize) as u32;
            self.keep(place, node_values, is_asked);
        }
        Ok(())
    }

    /// C of the node at a place, as far as it is not [few](Values::Few).
    #[inline]
    fn source(&self, place: usize) -> Source<'_, N> {
        match &self.scratch.values[place] {
            Values::Own(values) => Source::Array(values),
            Values::Pattern(pattern) => self.start(NONE, *pattern),
            Values::Flat | Values::Few(_) => {
                self.start(self.scratch.steps[place].group, NONE)
            }
        }
    }

    /// What nodes of a production start from.
    #[inline]
    fn start(&self, group: u32, pattern: u32) -> Source<'a, N> {
        match self.patterns {
            Some(patterns) if pattern != NONE => {
                Source::Array(&patterns.values[pattern as usize])
            }
            _ => Source::Constant(N::from_f64(self.index.decay.of(group))),
        }
    }

    /// An array of what a node starts from.
    #[inline]
    fn take(&mut self, step: Step) -> Result<Vec<N>> {
        let decay = N::from_f64(self.index.decay.of(step.group));
        // All arrays are of one size, the largest group's: growing them as groups grow
        // cost rows a tenth of the time.
        let size = self.index.largest_group as usize;
        let Scratch { clean, patterns, used, .. } = &mut *self.scratch;
        // 1. Where λ is one number, an array of it serves every production.
        if step.pattern == NONE && self.index.decay.same().is_some() {
            let mut node_values = clean.pop().unwrap_or_default();
            memory::reach(&mut node_values, size, decay)?;
            return Ok(node_values);
        }
        // 2. An array that a node gave back is set as the pattern has it. (No pattern
        // has the number `NONE`.)
        if let Some(node_values) =
            patterns.get_mut(step.pattern as usize).and_then(Vec::pop)
        {
            return Ok(node_values);
        }
        // 3. Any array, set as far as the group goes; nobody reads further.
        let mut node_values = used.pop().unwrap_or_default();
        memory::reach(&mut node_values, size, decay)?;
        match self.start(step.group, step.pattern) {
            Source::Array(values) => {
                let len = self.extent.group(step.group, values.len());
                node_values[..len].copy_from_slice(&values[..len]);
            }
            Source::Constant(decay) => {
                let len = self.index.group_size(step.group);
                let len = self.extent.group(step.group, len);
                node_values[..len].fill(decay);
            }
        }
        Ok(node_values)
    }

    /// Keeps a node's values for its parents, if they will ask; when these are many, only
    /// those that it touched.
    fn keep(&mut self, place: usize, node_values: Vec<N>, is_asked: bool) {
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
            let values = entries.map(|e| (e.u, node_values[e.u as usize]));
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
    fn put(&mut self, place: usize, values: Values<N>) {
        self.scratch.n_kept += 1;
        self.scratch.values[place] = values;
    }

    /// The values of a node that kept few, as an array.
    #[inline]
    fn unfold(&mut self, place: usize) -> Result<Option<Vec<N>>> {
        if !matches!(self.scratch.values[place], Values::Few(_)) {
            return Ok(None);
        }
        // What the node started from, and on it the few that it changed.
        let mut values = self.take(self.scratch.steps[place])?;
        let Values::Few(few) = &self.scratch.values[place] else { return Ok(None) };
        for &(u, value) in few {
            values[u as usize] = value;
        }
        Ok(Some(values))
    }

    /// Keeps an array for other nodes: what its node started from is set back where it
    /// touched little.
    fn give_back(&mut self, place: usize, mut node_values: Vec<N>) {
        let Step { group, pattern, touched, .. } = self.scratch.steps[place];
        // Entry by entry, or all at once if that is most of the array.
        let len = self.extent.group(group, self.index.group_size(group));
        let is_little = (touched as usize) < len / 4;
        let lists = self.lists(place, pattern).flat_map(|(list, _)| list);
        match self.start(group, pattern) {
            // Other productions start from other numbers.
            Source::Constant(_) if self.index.decay.same().is_none() => {
                return memory::set_aside(&mut self.scratch.used, node_values);
            }
            Source::Constant(decay) if is_little => {
                lists.for_each(|entry| node_values[entry.u as usize] = decay);
            }
            Source::Constant(decay) => node_values[..len].fill(decay),
            // Under a prefix, a pattern is copied only as far as the prefix goes; a
            // later row would read beyond.
            Source::Array(start) if E::WHOLE && is_little => {
                lists.for_each(|entry| {
                    node_values[entry.u as usize] = start[entry.u as usize];
                });
                let patterns = &mut self.scratch.patterns;
                // The array is lost if there is no room for it: another one is made
                // then.
                let len = pattern as usize + 1;
                if memory::reach_with(patterns, len, Vec::new).is_ok() {
                    memory::set_aside(&mut patterns[pattern as usize], node_values);
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
    fn release_children(&mut self, place: usize) {
        // A child may be kept for several parents; the last one frees it.
        let (id_map, tree) = (self.id_map, self.tree);
        for edge in id_map.edges(tree.items()[place].node) {
            let child = tree.place(edge.child);
            if self.scratch.steps[child].last_use == place as u32 {
                self.release(child);
            }
        }
    }

    #[inline]
    fn release(&mut self, place: usize) {
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
fn update<T: SinkId, N: Number, V: View<N>>(
    list: &[Entry<T>],
    node_values: &mut [N],
    below: Source<'_, N>,
    view: &mut V,
) {
    let mut each = |entry: &Entry<T>, factor: N| {
        let c = &mut node_values[entry.u as usize];
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
                each(entry, values[entry.child as usize]);
            }
        }
    }
}

/// The same where nobody asks for the node's values afterwards.
#[inline(never)]
fn read<T: SinkId, N: Number, V: View<N>>(
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
            tell(list, |e| node_values * c[e.child as usize], view);
        }
        (Source::Array(node_values), Source::Constant(c)) => {
            tell(list, |e| node_values[e.u as usize] * c, view);
        }
        (Source::Array(node_values), Source::Array(c)) => {
            tell(list, |e| node_values[e.u as usize] * c[e.child as usize], view);
        }
    }
}

#[inline]
fn tell<T: SinkId, N: Number, V: View<N>>(
    list: &[Entry<T>],
    value: impl Fn(&Entry<T>) -> N,
    view: &mut V,
) {
    for entry in list {
        view.add(entry.target.of(entry.u), value(entry));
    }
}
