//! The fragments of partial and elastic trees that count most in a model.
//!
//! As in [`fragments`](super::fragments), best first, by branch and bound; but such a fragment
//! t may stand below a node in many ways. With |t| nodes, l of them leaves,
//!
//! ```text
//! PT  w(t) = μ^|t| λ^2l Σ_ξ f(ξ) Σ over the ways of t in ξ of λ^gaps √leaf_factor^(leaves on leaves of ξ)
//! ET  w(t) = λ^|t| Σ_ξ f(ξ) (the ways of t in ξ)
//! ```
//!
//! where a way begins at the root of ξ. So w(t) is what one way without gaps, and with no leaf
//! of the tree, adds to a score; and S(x) is the sum of w(t) λ^gaps √leaf_factor^leaves over
//! all ways of all t in x.
//!
//! A fragment is written node by node, in preorder: each step closes some open nodes and
//! begins a child, with a label, of the one that is then the last. So each is made once. A
//! state is what is written, and its ways, the rows: for each open node the siblings that
//! can still be taken. Ways whose lists of these are equal are one row. Of a row, more is
//! made by at most
//!
//! ```text
//! b(ξ) = μ max(λ² or λ² √leaf_factor, G(children))
//! G(v_1 ..) ≥ Σ_I Π_i∈I b(v_i)   over the I with one sequence of labels, whichever is best
//! ```
//!
//! Let s be the sum of b over the n children with a label, m the largest of them. Of r
//! children with it, all that stand in order make at most s^r / r!, and as each leaves out
//! what is between it and the last one, s g^(r-1) with g = m / (1 - λ) or s, whichever is
//! less; after a child that is already taken, g^r. The largest of these with r from 1 to n is
//! the label's part of G. Those above 1 come in together, as factors; if there are none the
//! best comes in alone. What is open in a row are several such lists, each of which goes on or
//! not.
//!
//! # Complexity
//! A state costs the ways that its rows have to go on. How many states there are depends on
//! the weights, as there: at λ = μ = 0.4 a node more makes 0.06 of a weight.

use std::collections::{BinaryHeap, HashMap};

use super::fragments::{
    BYTES_PER_ROW, Best, Found, Fragments, Query, Row, START, State,
};
use crate::intern::new_id;
use crate::kernel::elastic::Below;
use crate::kernel::{ElasticTree, PartialTree};
use crate::{Context, Error, Label, NodeId, Nodes, Result, memory};

/// What fragments weigh.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    /// A node.
    node: f64,
    /// A leaf, besides; and one that is a leaf of the tree, besides.
    leaf: f64,
    leaf_on_leaf: f64,
    /// A child left out between two.
    gap: f64,
    /// The most children of a node.
    longest: u32,
    /// Whether a child may stand further below.
    skips: bool,
}

impl From<PartialTree> for Rules {
    fn from(kernel: PartialTree) -> Self {
        let PartialTree { decay, mu, leaf_factor, max_children } = kernel;
        Self {
            node: mu,
            leaf: decay * decay,
            leaf_on_leaf: leaf_factor.sqrt(),
            gap: decay,
            longest: max_children
                .map_or(u32::MAX, |n| u32::try_from(n).unwrap_or(u32::MAX)),
            skips: false,
        }
    }
}

impl From<ElasticTree> for Rules {
    fn from(kernel: ElasticTree) -> Self {
        Self {
            node: kernel.decay,
            leaf: 1.0,
            leaf_on_leaf: 1.0,
            gap: 1.0,
            longest: u32::MAX,
            skips: true,
        }
    }
}

/// Finds the best fragments of weighted subtrees.
pub(super) fn search(
    nodes: &Nodes,
    rules: Rules,
    query: Query,
    weights: impl Iterator<Item = (NodeId, f64)>,
    context: &Context,
) -> Result<Fragments> {
    let mut search = Search::new(nodes, rules, query, context)?;
    search.begin(weights)?;
    search.run(context)?;
    let Search { steps, best, .. } = search;
    best.fragments(nodes, |last, into| build(nodes, &steps, last, into))
}

// --- fragments as chains of steps -----------------------------------------------------

/// One more node, after some that were open are closed.
#[derive(Debug, Clone, Copy)]
struct Step {
    before: u32,
    closed: u32,
    label: Label,
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
    // Nodes in preorder, with their children; and those that are open.
    let mut made: Vec<(Label, Vec<usize>)> = Vec::with_capacity(chain.len());
    let mut open: Vec<usize> = Vec::new();
    for step in chain.iter().rev() {
        open.truncate(open.len() - step.closed as usize);
        let own = made.len();
        made.push((step.label, Vec::new()));
        if let Some(&parent) = open.last() {
            made[parent].1.push(own);
        }
        open.push(own);
    }
    let mut ids = vec![NodeId(0); made.len()];
    for (at, (label, children)) in made.iter().enumerate().rev() {
        let label = nodes.labels_mut().intern(model.labels().name(*label))?;
        let below: Vec<NodeId> = children.iter().map(|&child| ids[child]).collect();
        ids[at] = nodes.intern(label, &below)?;
    }
    Ok(ids[0])
}

// --- what can still be taken ----------------------------------------------------------

/// No siblings, and no open node.
const EMPTY: u32 = 0;
/// Larger bounds are all the same: nothing is ruled out by them.
const MOST: f64 = 1e300;
/// Lists up to here have a bound by labels.
const FEW: u32 = 256;

/// Siblings from one on.
#[derive(Debug, Clone, Copy)]
struct Siblings {
    first: NodeId,
    rest: u32,
    sums: Sums,
    /// What is taken here makes at most so much: first of all, and after another child.
    first_most: f64,
    next_most: f64,
}

/// An open node of one way, and those above it.
#[derive(Debug, Clone, Copy)]
struct Open {
    siblings: u32,
    /// Children so far, counted as far as it matters.
    taken: u32,
    above: u32,
    /// What closing the node without more children makes: of a leaf's weight.
    close: f64,
    /// What can be made at most of this and those above; and with another node at least.
    any: f64,
    more: f64,
}

struct Search<'a> {
    nodes: &'a Nodes,
    rules: Rules,
    /// By node: what a fragment rooted there makes at most, in all its ways; and the same by
    /// label, for all that may be taken where this node is a child.
    bounds: Vec<f64>,
    choices: Vec<Vec<(Label, f64)>>,
    siblings: Vec<Siblings>,
    sibling_numbers: HashMap<(NodeId, u32), u32>,
    open: Vec<Open>,
    open_numbers: HashMap<(u32, u32, u32), u32>,
    below: Below,
    steps: Vec<Step>,
    states: BinaryHeap<State>,
    n_states: u64,
    best: Best,
    /// Bytes that states took so far, and up to where there was room for them.
    used: usize,
    room: usize,
}

impl<'a> Search<'a> {
    fn new(
        nodes: &'a Nodes,
        rules: Rules,
        query: Query,
        context: &Context,
    ) -> Result<Self> {
        let none = Siblings {
            first: NodeId(u32::MAX),
            rest: EMPTY,
            sums: Sums::default(),
            first_most: 0.0,
            next_most: 0.0,
        };
        let closed = Open {
            siblings: EMPTY,
            taken: 0,
            above: EMPTY,
            close: 1.0,
            any: 1.0,
            more: 0.0,
        };
        let mut search = Self {
            nodes,
            rules,
            bounds: Vec::new(),
            choices: Vec::new(),
            siblings: vec![none],
            sibling_numbers: HashMap::new(),
            open: vec![closed],
            open_numbers: HashMap::new(),
            below: Below::default(),
            steps: Vec::new(),
            states: BinaryHeap::new(),
            n_states: 0,
            best: Best::new(query),
            used: 0,
            room: 0,
        };
        search.find_bounds(context)?;
        Ok(search)
    }

    /// Finds what fragments rooted at each node make at most, children first.
    fn find_bounds(&mut self, context: &Context) -> Result<()> {
        let (nodes, rules) = (self.nodes, self.rules);
        memory::reserve(&mut self.bounds, nodes.len())?;
        let mut n_choices = 0usize;
        for node in (0..nodes.len()).map(|node| NodeId(node as u32)) {
            context.check()?;
            let children = nodes.children(node);
            let all = children.iter().flat_map(|&child| self.choices_of(child));
            let sums = all.fold(Sums::default(), |sums, (_, bound)| sums.with(bound));
            let below = self.most(children.iter().copied(), sums).0;
            let single = if children.is_empty() { rules.leaf_on_leaf } else { 1.0 };
            let bound = (rules.node * f64::max(rules.leaf * single, below)).min(MOST);
            self.bounds.push(bound);
            if rules.skips {
                let own = std::iter::once((nodes.label(node), bound));
                let below = children.iter().flat_map(|&child| self.choices_of(child));
                let mut all: Vec<_> = own.chain(below).collect();
                sum_by_label(&mut all);
                n_choices += all.len();
                memory::room(n_choices, 16)?;
                self.choices.push(all);
            }
        }
        Ok(())
    }

    /// What can be taken where a node is a child: labels, with the bounds of these.
    fn choices_of(&self, child: NodeId) -> impl Iterator<Item = (Label, f64)> + '_ {
        let label = self.nodes.label(child);
        let direct = (!self.rules.skips).then(|| (label, self.bounds[child.index()]));
        let skipped = self.choices.get(child.index());
        direct.into_iter().chain(skipped.into_iter().flatten().copied())
    }

    /// G of some siblings whose bounds have these sums: first of all, and after another child.
    fn most(&self, siblings: impl Iterator<Item = NodeId>, sums: Sums) -> (f64, f64) {
        let most = |sums: Sums, taken| sums.most(self.rules, taken);
        // As if all had one label.
        let alike = (most(sums, false), most(sums, true));
        if sums.n > FEW {
            return alike;
        }
        let mut all: Vec<(Label, f64)> = Vec::new();
        for child in siblings {
            all.extend(self.choices_of(child));
        }
        all.sort_unstable_by_key(|choice| choice.0.0);
        let (mut together, mut alone) = ([1.0; 2], [0.0f64; 2]);
        for same in all.chunk_by(|a, b| a.0 == b.0) {
            let sums = same.iter().fold(Sums::default(), |sums, of| sums.with(of.1));
            for (at, taken) in [false, true].into_iter().enumerate() {
                let most = most(sums, taken);
                alone[at] = alone[at].max(most);
                together[at] = (together[at] * most.max(1.0)).min(MOST);
            }
        }
        let of = |at: usize| match together[at] {
            together if together > 1.0 && self.rules.longest > 1 => together,
            _ => alone[at],
        };
        (of(0).min(alike.0), of(1).min(alike.1))
    }

    /// The list of a node's children.
    fn children(&mut self, node: NodeId) -> Result<u32> {
        let mut rest = EMPTY;
        for &first in self.nodes.children(node).iter().rev() {
            if let Some(&known) = self.sibling_numbers.get(&(first, rest)) {
                rest = known;
                continue;
            }
            let new = new_id(self.siblings.len(), "lists of siblings in a search")?;
            let Siblings { sums, .. } = self.siblings[rest as usize];
            let sums = self.choices_of(first).fold(sums, |sums, of| sums.with(of.1));
            let all = std::iter::once(first).chain(self.list(rest));
            let (first_most, next_most) = self.most(all, sums);
            self.siblings.push(Siblings { first, rest, sums, first_most, next_most });
            self.sibling_numbers.insert((first, rest), new);
            rest = new;
        }
        Ok(rest)
    }

    fn list(&self, mut at: u32) -> impl Iterator<Item = NodeId> + '_ {
        std::iter::from_fn(move || {
            let own = self.siblings[at as usize];
            let first = (at != EMPTY).then_some(own.first);
            at = own.rest;
            first
        })
    }

    /// The list of an open node, whose next children are some siblings, and those above it.
    fn push(&mut self, siblings: u32, taken: u32, above: u32) -> Result<u32> {
        let rules = self.rules;
        // Counted where there is a limit only; one that is reached leaves nothing to take.
        let taken = if rules.longest == u32::MAX { taken.min(1) } else { taken };
        let siblings = if taken >= rules.longest { EMPTY } else { siblings };
        let key = (siblings, taken, above);
        if let Some(&known) = self.open_numbers.get(&key) {
            return Ok(known);
        }
        let new = new_id(self.open.len(), "lists of open nodes in a search")?;
        let Siblings { first_most, next_most, .. } = self.siblings[siblings as usize];
        let take = if taken == 0 { first_most } else { next_most };
        let close = match (taken, siblings) {
            (0, EMPTY) => rules.leaf_on_leaf,
            _ => 1.0,
        };
        let end = if taken == 0 { rules.leaf * close } else { 1.0 };
        let Open { any, more, .. } = self.open[above as usize];
        self.open.push(Open {
            siblings,
            taken,
            above,
            close,
            any: (f64::max(take, end) * any).min(MOST),
            more: f64::max(take * any, end * more).min(MOST),
        });
        self.open_numbers.insert(key, new);
        Ok(new)
    }

    // --- the search -------------------------------------------------------------------

    /// Offers single nodes, and makes the states that begin with these.
    fn begin(&mut self, weights: impl Iterator<Item = (NodeId, f64)>) -> Result<()> {
        let mut rows: Vec<(Label, NodeId, f64)> = weights
            .filter(|&(_, f)| f != 0.0)
            .map(|(node, f)| (self.nodes.label(node), node, f))
            .collect();
        rows.sort_by_key(|&(label, node, _)| (label.0, node.0));
        let grown: Vec<_> =
            rows.iter().map(|&(label, node, f)| (label, node, f, EMPTY)).collect();
        self.grow(&grown, START, 0, (0, 1.0))
    }

    /// Offers the fragments that have a node more, and enters their states: label, node,
    /// weight and open nodes above of each way, by label.
    fn grow(
        &mut self,
        ways: &[(Label, NodeId, f64, u32)],
        before: u32,
        closed: u32,
        (size, power): (u64, f64),
    ) -> Result<()> {
        let (size, power) = (size + 1, power * self.rules.node);
        let groups = || ways.chunk_by(|a, b| a.0 == b.0);
        let mut lasts = Vec::new();
        for group in groups() {
            let step = Step { before, closed, label: group[0].0 };
            let number = new_id(self.steps.len(), "steps of a search")?;
            self.steps.push(step);
            let on_leaf = |node| {
                if self.nodes.is_leaf(node) { self.rules.leaf_on_leaf } else { 1.0 }
            };
            let sum: f64 = group.iter().map(|&(_, node, f, _)| f * on_leaf(node)).sum();
            self.best.offer(power * self.rules.leaf * sum, size, Found::Steps(number));
            lasts.push(number);
        }
        // Only now: after the offers fewer lists are needed.
        for (group, last) in groups().zip(lasts) {
            let mut rows = Vec::with_capacity(group.len());
            for &(_, node, f, above) in group {
                let siblings = self.children(node)?;
                rows.push(Row { list: self.push(siblings, 0, above)?, f });
            }
            self.enter(rows, (size, power), last, 0)?;
        }
        Ok(())
    }

    /// What nothing that is made of these rows is above.
    fn bound(&self, rows: &[Row], power: f64) -> f64 {
        let (mut above, mut below) = (0.0, 0.0);
        for row in rows {
            let most = row.f * self.open[row.list as usize].more;
            if most > 0.0 {
                above += most;
            } else {
                below -= most;
            }
        }
        // Sums are rounded, and what they bound too, in another order.
        self.best.of_signs(above, below) * power * (1.0 + 1e-9)
    }

    /// Closes the last open node of all rows.
    fn close(&self, rows: &mut [Row], power: f64) -> f64 {
        let is_leaf =
            rows.first().is_some_and(|row| self.open[row.list as usize].taken == 0);
        for row in rows {
            let Open { close, above, .. } = self.open[row.list as usize];
            row.f *= close;
            row.list = above;
        }
        if is_leaf { power * self.rules.leaf } else { power }
    }

    /// Puts a state into the heap, if anything can come of it.
    fn enter(
        &mut self,
        mut rows: Vec<Row>,
        (size, mut power): (u64, f64),
        last: u32,
        mut closed: u32,
    ) -> Result<()> {
        if size >= self.best.query().max_size {
            return Ok(());
        }
        self.used += rows.len() * BYTES_PER_ROW + size_of::<State>();
        if self.used > self.room {
            self.room = 2 * self.used + (1 << 20);
            memory::room(1, self.room)?;
        }
        rows.retain(|row| self.open[row.list as usize].more > 0.0);
        // Where nothing can be taken there is nothing to decide.
        let is_done = |row: &Row| self.open[row.list as usize].siblings == EMPTY;
        while !rows.is_empty() && rows.iter().all(is_done) {
            power = self.close(&mut rows, power);
            closed += 1;
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
        let bound = self.bound(&rows, power);
        if bound > self.best.threshold() {
            self.n_states += 1;
            let number = self.n_states;
            rows.shrink_to_fit();
            self.states.push(State {
                bound,
                number,
                rows,
                size,
                power,
                last,
                skipped: closed,
            });
        }
        Ok(())
    }

    fn run(&mut self, context: &Context) -> Result<()> {
        let Query { k, max_states, .. } = *self.best.query();
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
            self.decide(state, context)?;
        }
        Ok(())
    }

    /// Goes on at the last open node in all ways, and closes it.
    fn decide(&mut self, state: State, context: &Context) -> Result<()> {
        let State { mut rows, size, power, last, skipped: closed, .. } = state;
        let mut ways: Vec<(Label, NodeId, f64, u32)> = Vec::new();
        let mut below = std::mem::take(&mut self.below);
        for row in &rows {
            let Open { mut siblings, taken, above, .. } = self.open[row.list as usize];
            let mut f = row.f;
            while siblings != EMPTY {
                context.check()?;
                let Siblings { first, rest, .. } = self.siblings[siblings as usize];
                let above = self.push(rest, taken.saturating_add(1), above)?;
                let label = |node| self.nodes.label(node);
                if self.rules.skips {
                    let all = below.read(self.nodes, first, None)?;
                    let all = all.map(|(node, n)| (label(node), node, f * n, above));
                    memory::extend(&mut ways, all)?;
                } else {
                    ways.push((label(first), first, f, above));
                }
                siblings = rest;
                if taken > 0 {
                    f *= self.rules.gap;
                }
            }
        }
        self.below = below;
        ways.sort_by_key(|&(label, node, _, above)| (label.0, node.0, above));
        // Equal ways are one.
        ways.dedup_by(|next, way| {
            let is_same = (next.1, next.3) == (way.1, way.3);
            if is_same {
                way.2 += next.2;
            }
            is_same
        });
        self.grow(&ways, last, closed, (size, power))?;
        let power = self.close(&mut rows, power);
        self.enter(rows, (size, power), last, closed + 1)
    }
}

/// Bounds of what stands side by side: how many, their sum, and the largest.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    n: u32,
    sum: f64,
    largest: f64,
}

impl Sums {
    fn with(self, bound: f64) -> Self {
        let sum = (self.sum + bound).min(MOST);
        Self { n: self.n.saturating_add(1), sum, largest: self.largest.max(bound) }
    }

    /// The largest min(s^r / r!, s g^(r-1)), after a child that is `taken` min(s^r / r!, g^r).
    fn most(self, rules: Rules, taken: bool) -> f64 {
        let Self { n, sum, largest } = self;
        let next = (largest / (1.0 - rules.gap)).min(sum);
        let (mut all, mut in_line) = (sum, if taken { next } else { sum });
        let mut most = f64::min(all, in_line);
        for r in 2..=n.min(rules.longest) {
            all *= sum / f64::from(r);
            in_line *= next;
            most = most.max(all.min(in_line));
            let is_past = sum <= f64::from(r) && all <= most;
            if is_past || next <= 1.0 || most >= MOST {
                break;
            }
        }
        most.min(MOST)
    }
}

fn sum_by_label(choices: &mut Vec<(Label, f64)>) {
    choices.sort_unstable_by_key(|choice| choice.0.0);
    choices.dedup_by(|next, own| {
        let is_same = next.0 == own.0;
        if is_same {
            own.1 += next.1;
        }
        is_same
    });
}
