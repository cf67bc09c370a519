//! The fragments that count most in a model, without listing all there are.
//!
//! A score is a sum over the fragments of a tree. For SST, with n_t(x) the number of times
//! that fragment t stands in x, and |t| its productions,
//!
//! ```text
//! S(x) = Σ_t w(t) n_t(x)        w(t) = λ^|t| Σ_i α_i n_t(x_i) = λ^|t| Σ_{ξ begins with t} f(ξ)
//! ```
//!
//! so w(t) is what one occurrence adds to the score (1/sqrt(K(x,x)) and the intercept
//! stand outside). A tree of n nodes has up to 2^n fragments; those with the largest w are
//! found best first, by branch and bound.
//!
//! A state is a fragment with the subtrees ξ that begin with it. Its open nodes are decided
//! from left to right: a node stays bare or gets one of the productions that the ξ have
//! there, so that each fragment is made once. Larger fragments begin fewer ξ, and λ ≤ 1:
//!
//! ```text
//! w(what is made of a state)  ≤  λ^(|t|+1) Σ_ξ max(f(ξ), 0)
//! ```
//!
//! Weights of both signs make this loose, as what cancels for ever would count. So a ξ is
//! seen as the list of its open nodes: those with equal lists can no longer be told apart
//! by any decision, become one row with the sum of their f, and rows that have nothing left
//! to expand are dropped. Lists are interned cells (node, rest): to leave a node bare is to
//! go on to `rest`, and equal lists have equal numbers. States wait in a heap by their
//! bounds; the search is over when the largest is not above the k-th best weight found.
//!
//! For ST the fragments are the subtrees themselves, w(ξ) = λ^|ξ| f(ξ). Those of PT and ET,
//! which may stand in one place in many ways, have a file of their own, beside this one.
//!
//! # Complexity
//! A state costs the rows it has, and their children where these are expanded. How many
//! states there are depends on the weights: few where λ is small or few fragments matter,
//! exponentially many where long fragments with λ = 1 nearly cancel; so there is a limit.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use super::{BYTES_PER_NODE, Model, parts};
use crate::kernel::{IndexOf, SubsetTree, Subtree};
use crate::{
    Context, Error, Forest, Label, NodeId, Nodes, ProductionId, Result, memory,
};

/// Which weights are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rank {
    /// The largest, above 0.
    Largest,
    /// The most negative, below 0.
    Smallest,
    /// The largest absolute values.
    Absolute,
}

impl Rank {
    /// What is made as large as possible.
    fn value(self, weight: f64) -> f64 {
        match self {
            Self::Largest => weight,
            Self::Smallest => -weight,
            Self::Absolute => weight.abs(),
        }
    }
}

/// What fragments are looked for.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Query {
    /// How many.
    pub k: usize,
    /// By what.
    pub rank: Rank,
    /// Of which of the model's outputs.
    pub output: usize,
    /// The smallest size: productions, of which a leaf alone has none; of PT and ET nodes.
    pub min_size: u64,
    /// The largest size.
    pub max_size: u64,
    /// How many states the search may look at.
    pub max_states: usize,
}

impl Default for Query {
    fn default() -> Self {
        Self {
            k: 10,
            rank: Rank::Largest,
            output: 0,
            min_size: 0,
            max_size: u64::MAX,
            max_states: 1_000_000,
        }
    }
}

/// Fragments, the best first.
#[derive(Debug, Clone)]
pub struct Fragments {
    /// As trees; a node that stays bare is a leaf.
    pub forest: Forest,
    /// What one occurrence adds to a score that is not normalised; of PT one without gaps, and
    /// without leaves of the tree.
    pub weights: Vec<f64>,
    /// Productions; of PT and ET nodes.
    pub sizes: Vec<u64>,
}

impl Model {
    /// The k fragments with the best weights, fewer if there are not so many above 0; see
    /// the file's head. Of equal weights the smaller fragments come first.
    ///
    /// # Errors
    /// [`Error::Parameter`] for an output that the model does not have; [`Error::Search`] if
    /// the limit was reached; [`Error::Array`] for weights whose sum is beyond floats;
    /// [`Error::Capacity`], and what `context` returns.
    pub fn top_fragments(&self, query: &Query, context: &Context) -> Result<Fragments> {
        if query.output >= self.options.n_outputs {
            let (name, expected) = ("output", "below n_outputs");
            return Err(Error::Parameter {
                name,
                expected,
                got: query.output.to_string(),
            });
        }
        memory::room(self.nodes.len(), BYTES_PER_NODE)?;
        match self.kernel.index.clone() {
            IndexOf::Subtree(Subtree { decay, leaf_weight })
            | IndexOf::WeightedSubtree(Subtree { decay, leaf_weight }, _) => {
                let own_weights = match &self.index {
                    super::Index::Subtree(index) => index.weights(),
                    _ => None,
                };
                let mut best = Best::new(*query);
                let power = |node: NodeId, below: &[f64]| {
                    let children = self.nodes.children(node).iter();
                    children.fold(decay, |power, child| power * below[child.index()])
                };
                let sizes = inner_nodes(&self.nodes);
                let mut powers: Vec<f64> = Vec::with_capacity(sizes.len());
                for (node, f) in self.checked_weights(query.output)? {
                    let is_leaf = self.nodes.is_leaf(node);
                    powers.push(if is_leaf { 1.0 } else { power(node, &powers) });
                    let own = match own_weights {
                        Some(weights) => weights[node.index()],
                        None if is_leaf => leaf_weight,
                        None => powers[node.index()],
                    };
                    best.offer(own * f, sizes[node.index()], Found::Subtree(node));
                }
                best.fragments(&self.nodes, |_, _| Ok(NodeId(0)))
            }
            IndexOf::SubsetTree(SubsetTree { decay, leaf_weight }) => {
                let mut search = Search::new(&self.nodes, decay, *query);
                search.begin(self.checked_weights(query.output)?, leaf_weight)?;
                search.run(context)?;
                let Search { best, steps, .. } = search;
                best.fragments(&self.nodes, |last, into| {
                    build(&self.nodes, &steps, last, into)
                })
            }
            // Without models.
            IndexOf::WeightedSubsetTree(..) => Err(Error::Unsupported {
                kernel: self.kernel().name(),
                what: "models",
                can: Vec::new(),
            }),
            IndexOf::PartialTree(kernel) => {
                let weights = self.checked_weights(query.output)?;
                parts::search(&self.nodes, kernel.into(), *query, weights, context)
            }
            IndexOf::ElasticTree(kernel) => {
                let weights = self.checked_weights(query.output)?;
                parts::search(&self.nodes, kernel.into(), *query, weights, context)
            }
        }
    }

    /// All subtrees with their weights of one output.
    fn checked_weights(
        &self,
        output: usize,
    ) -> Result<impl Iterator<Item = (NodeId, f64)> + use<'_>> {
        let nodes = (0..self.nodes.len()).map(|node| NodeId(node as u32));
        let of = move |node| (node, self.weights(node)[output]);
        // Then no sum below is infinite, nor one of both infinities.
        let mut sum = 0.0;
        for (node, f) in nodes.clone().map(of) {
            sum += f.abs();
            if !f64::is_finite(sum) {
                return Err(Error::Array {
                    array: "weights",
                    index: node.index(),
                    expected: "weights whose sum a float can hold".to_owned(),
                    got: f.to_string(),
                });
            }
        }
        Ok(nodes.map(of))
    }
}

/// By node: the inner nodes of its tree, which are the most productions that a fragment
/// has there.
fn inner_nodes(nodes: &Nodes) -> Vec<u64> {
    let mut sizes: Vec<u64> = Vec::with_capacity(nodes.len());
    for node in (0..nodes.len()).map(|node| NodeId(node as u32)) {
        let below = nodes.children(node).iter().map(|child| sizes[child.index()]);
        let own = u64::from(!nodes.is_leaf(node));
        sizes.push(below.fold(own, u64::saturating_add));
    }
    sizes
}

// --- the best so far ------------------------------------------------------------------

/// How a fragment is found again.
#[derive(Debug, Clone, Copy)]
pub(super) enum Found {
    /// A whole subtree of the model.
    Subtree(NodeId),
    /// What a chain of steps ends in.
    Steps(u32),
}

#[derive(Debug, Clone, Copy)]
struct Candidate {
    value: f64,
    weight: f64,
    size: u64,
    /// Counts offers: the same search has the same answer, whatever is equal.
    number: u64,
    found: Found,
}

impl Candidate {
    /// Whether it comes before another.
    fn order(&self, other: &Self) -> Ordering {
        let by_value = other.value.total_cmp(&self.value);
        by_value.then(self.size.cmp(&other.size)).then(self.number.cmp(&other.number))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Candidate {}
impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Candidate {
    /// The worst is the largest: it is the one that a heap gives up.
    fn cmp(&self, other: &Self) -> Ordering {
        self.order(other)
    }
}

/// The k best candidates so far.
pub(super) struct Best {
    query: Query,
    heap: BinaryHeap<Candidate>,
    n_offers: u64,
}

impl Best {
    pub(super) fn new(query: Query) -> Self {
        Self { query, heap: BinaryHeap::new(), n_offers: 0 }
    }

    pub(super) fn query(&self) -> &Query {
        &self.query
    }

    /// What a fragment's value must be above to be of use.
    pub(super) fn threshold(&self) -> f64 {
        match self.heap.peek() {
            _ if self.query.k == 0 => f64::INFINITY,
            Some(worst) if self.heap.len() == self.query.k => worst.value,
            _ => 0.0,
        }
    }

    /// The largest value where what is added and what is taken away are no more than so much.
    pub(super) fn of_signs(&self, above: f64, below: f64) -> f64 {
        match self.query.rank {
            Rank::Largest => above,
            Rank::Smallest => below,
            Rank::Absolute => f64::max(above, below),
        }
    }

    pub(super) fn offer(&mut self, weight: f64, size: u64, found: Found) {
        let query = &self.query;
        let value = query.rank.value(weight);
        if size < query.min_size || size > query.max_size || value <= 0.0 {
            return;
        }
        self.n_offers += 1;
        let number = self.n_offers;
        let candidate = Candidate { value, weight, size, number, found };
        if self.heap.len() < query.k {
            self.heap.push(candidate);
        } else if let Some(mut worst) = self.heap.peek_mut()
            && candidate < *worst
        {
            *worst = candidate;
        }
    }

    /// Writes the fragments out; `build` makes the tree that a step ends in.
    pub(super) fn fragments(
        self,
        model: &Nodes,
        build: impl Fn(u32, &mut Nodes) -> Result<NodeId>,
    ) -> Result<Fragments> {
        let best = self.heap.into_sorted_vec();
        if let Some(index) = best.iter().position(|found| !found.weight.is_finite()) {
            let (expected, got) =
                ("a weight that a float can hold", best[index].weight);
            return Err(Error::Array {
                array: "fragments",
                index,
                expected: expected.to_owned(),
                got: got.to_string(),
            });
        }
        let mut nodes = Nodes::default();
        let mut roots = Vec::with_capacity(best.len());
        for candidate in &best {
            roots.push(match candidate.found {
                Found::Subtree(node) => {
                    nodes.absorb_one(model, node, &Context::default())?
                }
                Found::Steps(last) => build(last, &mut nodes)?,
            });
        }
        Ok(Fragments {
            forest: Forest::new(Arc::new(nodes), roots),
            weights: best.iter().map(|candidate| candidate.weight).collect(),
            sizes: best.iter().map(|candidate| candidate.size).collect(),
        })
    }
}

// --- fragments as chains of steps -----------------------------------------------------

/// The step before a root.
pub(super) const START: u32 = u32::MAX;

/// One more production: after `skipped` open nodes that stay bare.
#[derive(Debug, Clone, Copy)]
struct Step {
    before: u32,
    skipped: u32,
    production: ProductionId,
}

/// Makes the tree that steps describe.
fn build(
    model: &Nodes,
    steps: &[Step],
    last: u32,
    nodes: &mut Nodes,
) -> Result<NodeId> {
    let mut chain = Vec::new();
    let mut at = last;
    while at != START {
        let step = steps[at as usize];
        chain.push(step);
        at = step.before;
    }
    // By node, parents first: the label, and where its children are.
    let mut made: Vec<(Label, std::ops::Range<usize>)> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    for step in chain.iter().rev() {
        let labels = model.production_labels(step.production);
        if made.is_empty() {
            made.push((labels[0], 0..0));
            open.push(0);
        }
        open.truncate(open.len() - step.skipped as usize);
        let children = made.len()..made.len() + labels.len() - 1;
        if let Some(parent) = open.pop() {
            made[parent].1 = children.clone();
        }
        made.extend(labels[1..].iter().map(|&label| (label, 0..0)));
        open.extend(children.rev());
    }
    let mut ids = vec![NodeId(0); made.len()];
    for (at, (label, children)) in made.iter().enumerate().rev() {
        let label = nodes.labels_mut().intern(model.labels().name(*label))?;
        ids[at] = nodes.intern(label, &ids[children.clone()])?;
    }
    Ok(ids[0])
}

// --- lists of open nodes --------------------------------------------------------------

/// The empty list.
const EMPTY: u32 = 0;

#[derive(Debug, Clone, Copy)]
struct Cell {
    node: NodeId,
    rest: u32,
    /// Inner nodes in the trees of the list: the productions that can still come.
    inner: u64,
}

/// Lists of nodes that share their ends; equal lists have equal numbers.
struct OpenLists {
    cells: Vec<Cell>,
    numbers: HashMap<(NodeId, u32), u32>,
}

impl OpenLists {
    fn new() -> Self {
        let empty = Cell { node: NodeId(u32::MAX), rest: EMPTY, inner: 0 };
        Self { cells: vec![empty], numbers: HashMap::new() }
    }

    fn get(&self, list: u32) -> Cell {
        self.cells[list as usize]
    }

    /// The list of a node's children and what comes after.
    fn push_all(
        &mut self,
        children: &[NodeId],
        mut rest: u32,
        inner: &[u64],
    ) -> Result<u32> {
        for &node in children.iter().rev() {
            if let Some(&known) = self.numbers.get(&(node, rest)) {
                rest = known;
                continue;
            }
            let what = "lists of open nodes in a search";
            let new = crate::intern::new_id(self.cells.len(), what)?;
            let more = self.get(rest).inner;
            let inner = inner[node.index()].saturating_add(more);
            self.cells.push(Cell { node, rest, inner });
            self.numbers.insert((node, rest), new);
            rest = new;
        }
        Ok(rest)
    }
}

// --- the search -----------------------------------------------------------------------

/// Subtrees with the same open nodes, and the sum of their weights.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub(super) list: u32,
    pub(super) f: f64,
}

/// A fragment whose first open node is to be decided.
#[derive(Debug)]
pub(super) struct State {
    /// Nothing that is made of it has a larger value.
    pub(super) bound: f64,
    pub(super) number: u64,
    pub(super) rows: Vec<Row>,
    pub(super) size: u64,
    /// λ^size.
    pub(super) power: f64,
    /// The last production's step, and the open nodes that stay bare since then.
    pub(super) last: u32,
    pub(super) skipped: u32,
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

/// Bytes that a row takes in a state, with its open nodes.
pub(super) const BYTES_PER_ROW: usize = 96;

struct Search<'a> {
    nodes: &'a Nodes,
    decay: f64,
    inner: Vec<u64>,
    lists: OpenLists,
    steps: Vec<Step>,
    states: BinaryHeap<State>,
    n_states: u64,
    best: Best,
    /// Bytes that states took so far, and up to where there was room for them.
    used: usize,
    room: usize,
}

impl<'a> Search<'a> {
    fn new(nodes: &'a Nodes, decay: f64, query: Query) -> Self {
        Self {
            nodes,
            decay,
            inner: inner_nodes(nodes),
            lists: OpenLists::new(),
            steps: Vec::new(),
            states: BinaryHeap::new(),
            n_states: 0,
            best: Best::new(query),
            used: 0,
            room: 0,
        }
    }

    /// Offers leaves and single productions, and makes the states that begin with these.
    fn begin(
        &mut self,
        weights: impl Iterator<Item = (NodeId, f64)>,
        leaf_weight: f64,
    ) -> Result<()> {
        let mut rows: Vec<(ProductionId, NodeId, f64)> = Vec::new();
        for (node, f) in weights {
            match self.nodes.production(node) {
                Some(production) if f != 0.0 => rows.push((production, node, f)),
                None => self.best.offer(leaf_weight * f, 0, Found::Subtree(node)),
                _ => {}
            }
        }
        rows.sort_by_key(|&(production, node, _)| (production.0, node.0));
        let groups = || rows.chunk_by(|a, b| a.0 == b.0);
        let mut firsts = Vec::new();
        for group in groups() {
            let step = Step { before: START, skipped: 0, production: group[0].0 };
            let sum = group.iter().map(|row| row.2).sum();
            firsts.push(self.offer(step, sum, 1, self.decay)?);
        }
        // Only now: lists are made of few, as all single productions were offered.
        for (group, last) in groups().zip(firsts) {
            let bound = self.bound(group.iter().map(|row| row.2), 1, self.decay);
            if bound <= self.best.threshold() {
                continue;
            }
            let mut own = Vec::with_capacity(group.len());
            for &(_, node, f) in group {
                let children = self.nodes.children(node);
                let list = self.lists.push_all(children, EMPTY, &self.inner)?;
                own.push(Row { list, f });
            }
            self.enter(own, 1, self.decay, last, 0)?;
        }
        Ok(())
    }

    /// Offers the fragment that a step ends in; returns the step's number.
    fn offer(&mut self, step: Step, sum: f64, size: u64, power: f64) -> Result<u32> {
        let number = crate::intern::new_id(self.steps.len(), "steps of a search")?;
        self.steps.push(step);
        self.best.offer(power * sum, size, Found::Steps(number));
        Ok(number)
    }

    /// What no fragment is above that is larger than one of this size and begins some of
    /// these rows.
    fn bound(&self, rows: impl Iterator<Item = f64>, size: u64, power: f64) -> f64 {
        let (mut above, mut below) = (0.0, 0.0);
        for f in rows {
            if f > 0.0 {
                above += f;
            } else {
                below -= f;
            }
        }
        let sum = self.best.of_signs(above, below);
        let more = self.best.query.min_size.saturating_sub(size).max(1);
        sum * power * self.decay.powi(i32::try_from(more).unwrap_or(i32::MAX))
    }

    /// Puts a state into the heap, if anything can come of it.
    fn enter(
        &mut self,
        mut rows: Vec<Row>,
        size: u64,
        power: f64,
        last: u32,
        mut skipped: u32,
    ) -> Result<()> {
        let query = self.best.query;
        if size >= query.max_size {
            return Ok(());
        }
        self.used += rows.len() * BYTES_PER_ROW + size_of::<State>();
        if self.used > self.room {
            self.room = 2 * self.used + (1 << 20);
            memory::room(1, self.room)?;
        }
        let lists = &self.lists;
        rows.retain(|row| {
            let inner = lists.get(row.list).inner;
            inner > 0 && size.saturating_add(inner) >= query.min_size
        });
        // Where all have a leaf there is nothing to decide.
        let is_leaf = |row: &Row| self.nodes.is_leaf(lists.get(row.list).node);
        while !rows.is_empty() && rows.iter().all(is_leaf) {
            for row in &mut rows {
                row.list = lists.get(row.list).rest;
            }
            skipped += 1;
        }
        rows.sort_by_key(|row| row.list);
        rows.dedup_by(|next, row| {
            let is_same = next.list == row.list;
            if is_same {
                row.f += next.f;
            }
            is_same
        });
        rows.retain(|row| row.f != 0.0);
        let bound = self.bound(rows.iter().map(|row| row.f), size, power);
        if bound > self.best.threshold() {
            self.n_states += 1;
            let number = self.n_states;
            rows.shrink_to_fit();
            let state = State { bound, number, rows, size, power, last, skipped };
            self.states.push(state);
        }
        Ok(())
    }

    fn run(&mut self, context: &Context) -> Result<()> {
        let Query { k, max_states, .. } = self.best.query;
        context.check_now()?;
        let mut n_seen = 0;
        while let Some(state) = self.states.pop() {
            if state.bound <= self.best.threshold() {
                break;
            }
            if n_seen == max_states {
                return Err(Error::Search { k, max_states });
            }
            n_seen += 1;
            context.check()?;
            self.decide(state)?;
        }
        Ok(())
    }

    /// Decides a state's first open node in all ways.
    fn decide(&mut self, state: State) -> Result<()> {
        let State { mut rows, size, power, last, skipped, .. } = state;
        let (lists, nodes) = (&self.lists, self.nodes);
        let production = |row: &Row| nodes.production(lists.get(row.list).node);
        let mut expanded: Vec<(ProductionId, Row)> =
            rows.iter().filter_map(|row| Some((production(row)?, *row))).collect();
        for row in &mut rows {
            row.list = lists.get(row.list).rest;
        }
        expanded.sort_by_key(|(production, row)| (production.0, row.list));
        let (more, shrunk) = (size + 1, power * self.decay);
        for group in expanded.chunk_by(|a, b| a.0 == b.0) {
            let step = Step { before: last, skipped, production: group[0].0 };
            let sum = group.iter().map(|(_, row)| row.f).sum();
            let number = self.offer(step, sum, more, shrunk)?;
            let f = group.iter().map(|(_, row)| row.f);
            if self.bound(f, more, shrunk) <= self.best.threshold() {
                continue;
            }
            let mut own = Vec::with_capacity(group.len());
            for (_, row) in group {
                let Cell { node, rest, .. } = self.lists.get(row.list);
                let children = nodes.children(node);
                let list = self.lists.push_all(children, rest, &self.inner)?;
                own.push(Row { list, f: row.f });
            }
            self.enter(own, more, shrunk, number, 0)?;
        }
        self.enter(rows, size, power, last, skipped + 1)
    }
}
