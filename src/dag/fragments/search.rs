//! The best-first search that all kernels share.
//!
//! A fragment is written piece by piece: each [`Step`] closes some open nodes and adds a piece
//! at the open node that is then next. As these have one order, each fragment is written
//! once. A [`State`] is what is written so far, with its rows: the places in the model's
//! subtrees where it begins. Places that nothing which follows can tell apart, as their lists
//! of open nodes are equal, are one row with the sum of their weights.
//!
//! States wait in a heap by their bounds, and the best one is decided: its next open node
//! gets a piece, in all ways that the rows have, or is closed. The search is over when the
//! best bound is not above the k-th best weight found. What the pieces, the lists and the
//! bounds are is the kernel's [`Growth`].

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::hash::Hash;

use super::best::{Best, Source};
use super::{Fragments, Query};
use crate::ids::{Id, IdVec, PackedOption, ids};
use crate::memory::{self, Map};
use crate::{Context, Error, Label, NodeId, Nodes, Result};

ids! {
    /// A list of open nodes.
    pub(super) OpenList;
    /// A step of a search.
    pub(super) StepId;
}

impl OpenList {
    pub(super) const EMPTY: Self = Self(0);
}

/// Places of a fragment with the same open nodes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    /// Their open nodes.
    pub(super) list: OpenList,
    /// The sum of their weights.
    pub(super) f: f64,
}

/// A way to go on at a place: the piece that `node` has there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Way<P> {
    pub(super) piece: P,
    pub(super) node: NodeId,
    pub(super) f: f64,
    /// The other open nodes.
    pub(super) rest: OpenList,
}

/// A fragment as far as it is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prefix {
    /// The step that added its last piece.
    last: PackedOption<StepId>,
    /// How many open nodes were closed since.
    closed: u32,
    /// How many pieces it has.
    pub(super) size: u64,
    /// What a place's weight is multiplied by.
    pub(super) power: f64,
}

/// What fragments of a kernel are made of, and what they weigh.
pub(super) trait Growth {
    /// What a step adds.
    type Piece: Copy + Ord;

    /// The piece that a fragment rooted at a node begins with, if it can have one.
    fn piece(&self, node: NodeId) -> Option<Self::Piece>;

    /// What a piece multiplies the weight by.
    fn factor(&self) -> f64;

    /// What a fragment weighs that has these places.
    fn weight(&self, ways: &[Way<Self::Piece>], power: f64) -> f64;

    /// All ways to go on at the rows' next open nodes, by piece.
    fn ways(
        &mut self,
        rows: &[Row],
        context: &Context,
    ) -> Result<Vec<Way<Self::Piece>>>;

    /// The open nodes when a way is taken.
    fn open_nodes_after(&mut self, way: &Way<Self::Piece>) -> Result<OpenList>;

    /// Whether a fragment of this size that the query allows can come of a place.
    fn can_grow(&self, list: OpenList, size: u64, query: &Query) -> bool;

    /// Whether nothing can be added at the next open node.
    fn is_decided(&self, list: OpenList) -> bool;

    /// Closes the next open node of all rows; returns the power after that.
    fn close(&self, rows: &mut [Row], power: f64) -> f64;

    /// What no larger fragment is above that begins as this one and has some of these rows.
    fn bound(&self, rows: &[Row], prefix: &Prefix, best: &Best) -> f64;

    /// Whether even before their lists are made nothing larger can come of these places.
    fn is_ruled_out(
        &self,
        _ways: &[Way<Self::Piece>],
        _prefix: &Prefix,
        _best: &Best,
    ) -> bool {
        false
    }

    /// Adds a piece to a tree.
    fn draw(&self, piece: Self::Piece, tree: &mut Drawing) -> Result<()>;
}

/// One more piece, after some open nodes were closed.
#[derive(Debug, Clone, Copy)]
struct Step<P> {
    /// The step before, none for the first.
    before: PackedOption<StepId>,
    closed: u32,
    piece: P,
}

/// A fragment whose next open node is to be decided.
#[derive(Debug)]
struct State {
    /// Nothing that is made of it has a larger value.
    bound: f64,
    /// Counts states.
    number: u64,
    /// By their lists, each once.
    rows: Vec<Row>,
    prefix: Prefix,
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for State {}
impl PartialOrd for State {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for State {
    /// Of equal bounds the youngest is next: where many fragments are equal the search goes
    /// down to k of them in place of going through all.
    fn cmp(&self, other: &Self) -> Ordering {
        self.bound.total_cmp(&other.bound).then(self.number.cmp(&other.number))
    }
}

/// A search under way.
pub(super) struct Search<G: Growth> {
    growth: G,
    steps: IdVec<StepId, Step<G::Piece>>,
    states: BinaryHeap<State>,
    n_states: u64,
    best: Best,
}

impl<G: Growth> Search<G> {
    pub(super) fn new(growth: G, best: Best) -> Self {
        let (steps, states) = (IdVec::default(), BinaryHeap::new());
        Self { growth, steps, states, n_states: 0, best }
    }

    /// Finds the best fragments of weighted subtrees.
    ///
    /// # Errors
    /// [`Error::Search`] if the limit was reached, [`Error::Array`] for a weight beyond
    /// floats, [`Error::Capacity`], and what `context` returns.
    pub(super) fn run(
        mut self,
        model: &Nodes,
        weights: impl Iterator<Item = (NodeId, f64)>,
        context: &Context,
    ) -> Result<Fragments> {
        // 1. Fragments of one piece, each at the roots of all subtrees that begin with it.
        let mut roots = Vec::new();
        // Without a weight a subtree adds 0 to all fragments that begin it.
        for (node, f) in weights.filter(|&(_, f)| f != 0.0) {
            if let Some(piece) = self.growth.piece(node) {
                memory::push(
                    &mut roots,
                    Way { piece, node, f, rest: OpenList::EMPTY },
                )?;
            }
        }
        // By piece for `grow`; by node too, so that sums are added in the same order
        // every time.
        roots.sort_unstable_by_key(|way| (way.piece, way.node));
        let last = PackedOption::NONE;
        self.grow(&roots, Prefix { last, closed: 0, size: 0, power: 1.0 })?;
        // 2. Larger ones, the best bound first.
        let Query { k, max_states, .. } = *self.best.query();
        context.check_now()?;
        let mut n_decided = 0;
        while let Some(state) = self.states.pop() {
            // No state has a higher bound, so nothing that is left can be among the
            // best.
            if state.bound <= self.best.threshold() {
                break;
            }
            if n_decided == max_states {
                return Err(Error::Search { k, max_states });
            }
            n_decided += 1;
            context.check()?;
            self.decide(state, context)?;
        }
        let Self { growth, steps, best, .. } = self;
        best.fragments(model, |last, nodes| build(&growth, &steps, last, model, nodes))
    }

    /// Decides a state's next open node in all ways.
    fn decide(&mut self, state: State, context: &Context) -> Result<()> {
        let State { mut rows, mut prefix, .. } = state;
        let ways = self.growth.ways(&rows, context)?;
        // The node gets a piece, in all ways; ..
        self.grow(&ways, prefix)?;
        // .. or stays as it is, which no other state says: so each fragment is made
        // once.
        prefix.power = self.growth.close(&mut rows, prefix.power);
        prefix.closed += 1;
        self.enter(rows, prefix)
    }

    /// Offers the fragments that have a piece more, and enters their states.
    fn grow(&mut self, ways: &[Way<G::Piece>], before: Prefix) -> Result<()> {
        let (size, power) = (before.size + 1, before.power * self.growth.factor());
        let groups = || ways.chunk_by(|a, b| a.piece == b.piece);
        let mut offered = Vec::new();
        for group in groups() {
            let Prefix { last, closed, .. } = before;
            let step = Step { before: last, closed, piece: group[0].piece };
            let last = StepId::next(self.steps.len(), "steps of a search")?;
            memory::push(&mut self.steps, step)?;
            let weight = self.growth.weight(group, power);
            self.best.offer(weight, size, Source::Steps(last))?;
            memory::push(&mut offered, last)?;
        }
        // A loop of its own: after all offers the threshold rules out more states, and fewer
        // lists are made.
        for (group, last) in groups().zip(offered) {
            let prefix = Prefix { last: last.into(), closed: 0, size, power };
            if self.growth.is_ruled_out(group, &prefix, &self.best) {
                continue;
            }
            let open =
                |way| Ok(Row { list: self.growth.open_nodes_after(way)?, f: way.f });
            let rows = memory::try_collect(group.iter().map(open))?;
            self.enter(rows, prefix)?;
        }
        Ok(())
    }

    /// Puts a state into the heap, if anything can come of it.
    fn enter(&mut self, mut rows: Vec<Row>, mut prefix: Prefix) -> Result<()> {
        let (growth, query) = (&self.growth, self.best.query());
        // Any further piece would make it too large.
        if prefix.size >= query.max_size {
            return Ok(());
        }
        rows.retain(|row| growth.can_grow(row.list, prefix.size, query));
        // 1. Close what no row can add to: there is nothing to decide.
        while !rows.is_empty() && rows.iter().all(|row| growth.is_decided(row.list)) {
            prefix.power = growth.close(&mut rows, prefix.power);
            prefix.closed += 1;
        }
        // 2. Make rows with equal lists one.
        memory::sort_by_key(&mut rows, |row| row.list)?;
        rows.dedup_by(|next, row| {
            let is_same = next.list == row.list;
            if is_same {
                row.f += next.f;
            }
            is_same
        });
        // Rows with equal lists go on in the same ways: where their weights cancel,
        // they do so in all that follows.
        rows.retain(|row| row.f != 0.0);
        // 3. Bound what is left.
        let bound = growth.bound(&rows, &prefix, &self.best);
        if bound > self.best.threshold() {
            self.n_states += 1;
            // Many states wait, most of them to the end.
            rows.shrink_to_fit();
            let state = State { bound, number: self.n_states, rows, prefix };
            memory::enter(&mut self.states, state)?;
        }
        Ok(())
    }
}

// --- fragments written out ------------------------------------------------------------

/// A tree that is drawn piece by piece.
#[derive(Debug, Default)]
pub(super) struct Drawing {
    /// By node, parents before children and siblings in order: its label, and the parent.
    nodes: Vec<(Label, Option<usize>)>,
    /// The nodes that can get children, the next one last.
    pub(super) open: Vec<usize>,
}

impl Drawing {
    /// Adds the next child of a node, or a root; returns its place.
    pub(super) fn add(&mut self, label: Label, parent: Option<usize>) -> Result<usize> {
        memory::push(&mut self.nodes, (label, parent))?;
        Ok(self.nodes.len() - 1)
    }

    /// Enters the tree in a store; labels are those of `model`.
    fn intern(&self, model: &Nodes, nodes: &mut Nodes) -> Result<NodeId> {
        let mut children = memory::filled_with(self.nodes.len(), Vec::<NodeId>::new)?;
        let mut root = NodeId(u32::MAX);
        // From the end, as children stand behind their parents: they are interned
        // first.
        for (place, &(label, parent)) in self.nodes.iter().enumerate().rev() {
            let label = nodes.labels_mut().intern(model.labels().name(label))?;
            // The last sibling came first.
            children[place].reverse();
            root = nodes.intern(label, &children[place])?;
            if let Some(parent) = parent {
                memory::push(&mut children[parent], root)?;
            }
            // The first node came last: the root.
        }
        Ok(root)
    }
}

/// Makes the tree that a step ends in.
fn build<G: Growth>(
    growth: &G,
    steps: &IdVec<StepId, Step<G::Piece>>,
    last: StepId,
    model: &Nodes,
    nodes: &mut Nodes,
) -> Result<NodeId> {
    // Steps know the one before: the chain is read from its end, and drawn from its
    // start.
    let mut chain = Vec::new();
    let mut next = Some(last);
    while let Some(last) = next {
        let step = steps[last];
        memory::push(&mut chain, step)?;
        next = step.before.get();
    }
    let mut drawing = Drawing::default();
    for step in chain.iter().rev() {
        // What was closed before this piece takes no more children.
        drawing.open.truncate(drawing.open.len() - step.closed as usize);
        growth.draw(step.piece, &mut drawing)?;
    }
    drawing.intern(model, nodes)
}

// --- lists by id ----------------------------------------------------------------------

/// Values with keys; equal keys have equal ids.
pub(super) struct Interned<I, K, V> {
    values: IdVec<I, V>,
    ids: Map<K, I>,
    /// What there can be too many of.
    what: &'static str,
}

impl<I: Id, K: Eq + Hash, V: Copy> Interned<I, K, V> {
    /// With a value for the first id, of the empty list, which has no key.
    pub(super) fn new(what: &'static str, empty: V) -> Result<Self> {
        let values = memory::collect([empty])?.into();
        Ok(Self { values, ids: Map::default(), what })
    }

    pub(super) fn get(&self, id: I) -> V {
        self.values[id]
    }

    pub(super) fn find(&self, key: &K) -> Option<I> {
        self.ids.get(key).copied()
    }

    /// Adds a value whose key is new.
    ///
    /// # Errors
    /// [`Error::Capacity`] for what there is too much of, [`Error::Memory`].
    pub(super) fn add(&mut self, key: K, value: V) -> Result<I> {
        let id = I::next(self.values.len(), self.what)?;
        memory::push(&mut self.values, value)?;
        self.ids.insert(key, id)?;
        Ok(id)
    }
}
