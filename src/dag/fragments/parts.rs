//! The fragments of partial and elastic trees that count most in a model.
//!
//! They are searched as those of SST are, but a fragment t may stand below a node in many
//! ways. With |t| nodes, l of them leaves,
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
//! A piece is a node with its label, in preorder: a step closes the open nodes that get no
//! further child, and adds a child of the last one that stays open. A row's open nodes each
//! have the siblings that can still be taken. Of a row, more is made by at most
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

use super::Query;
use super::best::Best;
use super::search::{Drawing, Growth, Interned, OpenList, Prefix, Row, Way};
use crate::forest::reader::Reader;
use crate::ids::ids;
use crate::index::{elastic, partial};
use crate::memory;
use crate::{Context, Label, NodeId, Nodes, Result};

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

impl From<&partial::Index<()>> for Rules {
    fn from(index: &partial::Index<()>) -> Self {
        Self {
            node: index.mu,
            leaf: index.decay * index.decay,
            leaf_on_leaf: index.leaf_factor.sqrt(),
            gap: index.decay,
            longest: u32::try_from(index.longest).unwrap_or(u32::MAX),
            skips: false,
        }
    }
}

impl From<&elastic::Index> for Rules {
    fn from(index: &elastic::Index) -> Self {
        Self {
            node: index.decay,
            leaf: 1.0,
            leaf_on_leaf: 1.0,
            gap: 1.0,
            longest: u32::MAX,
            skips: true,
        }
    }
}

/// Larger bounds are all the same: nothing is ruled out by them.
const MAX_BOUND: f64 = 1e300;
/// Longer lists are bounded as if all had one label: to sort them would take longer than it
/// saves.
const MAX_SORTED: u32 = 256;

ids! {
    /// A list of siblings.
    SiblingList;
}

impl SiblingList {
    const EMPTY: Self = Self(0);
}

/// Siblings from one on.
#[derive(Debug, Clone, Copy)]
struct Siblings {
    first: NodeId,
    /// The others.
    rest: SiblingList,
    /// Of the bounds of all.
    sums: Sums,
    /// G: what is taken here makes at most so much, where no child was taken before.
    first_most: f64,
    /// The same after another child.
    next_most: f64,
}

/// An open node of one way, and those above it.
#[derive(Debug, Clone, Copy)]
struct Open {
    /// The list of siblings that can be its next child.
    siblings: SiblingList,
    /// Children so far, counted as far as it matters.
    taken: u32,
    /// The list of the open nodes above it.
    above: OpenList,
    /// What closing the node without more children multiplies the weight by: more than 1
    /// only for a leaf of the tree.
    close: f64,
    /// What can be made at most of this and those above.
    any: f64,
    /// The same, with another node at least.
    more: f64,
}

/// How fragments of PT and ET grow: a piece is a node with its label.
pub(super) struct Parts<'a> {
    nodes: &'a Nodes,
    rules: Rules,
    /// By node: b, what a fragment rooted there makes at most, in all its ways.
    bounds: Vec<f64>,
    /// By node, where children may stand further below: for each label, the sum of b over
    /// all that may be taken where this node is a child. Else empty.
    choices: Vec<Vec<(Label, f64)>>,
    /// By the first sibling and the list of the others.
    siblings: Interned<SiblingList, (NodeId, SiblingList), Siblings>,
    /// By the siblings that can still be taken, how many were, and the list above.
    open: Interned<OpenList, (SiblingList, u32, OpenList), Open>,
    below: Reader,
}

impl<'a> Parts<'a> {
    pub(super) fn new(
        nodes: &'a Nodes,
        rules: Rules,
        context: &Context,
    ) -> Result<Self> {
        let no_siblings = Siblings {
            first: NodeId(u32::MAX),
            rest: SiblingList::EMPTY,
            sums: Sums::default(),
            first_most: 0.0,
            next_most: 0.0,
        };
        let closed = Open {
            siblings: SiblingList::EMPTY,
            taken: 0,
            above: OpenList::EMPTY,
            close: 1.0,
            any: 1.0,
            more: 0.0,
        };
        let mut parts = Self {
            nodes,
            rules,
            bounds: Vec::new(),
            choices: Vec::new(),
            siblings: Interned::new("lists of siblings in a search", no_siblings)?,
            open: Interned::new("lists of open nodes in a search", closed)?,
            below: Reader::default(),
        };
        parts.find_bounds(context)?;
        Ok(parts)
    }

    /// Finds what fragments rooted at each node make at most, children first.
    fn find_bounds(&mut self, context: &Context) -> Result<()> {
        let (nodes, rules) = (self.nodes, self.rules);
        // One bound for each node: nothing below fails after its entry was made.
        memory::reserve(&mut self.bounds, nodes.len())?;
        for node in (0..nodes.len()).map(|node| NodeId(node as u32)) {
            context.check()?;
            let children = nodes.children(node);
            // b of the module: a node alone, or with the best of what its children can
            // add.
            let below = children.iter().flat_map(|&child| self.choices_of(child));
            let sums = below.fold(Sums::default(), |sums, (_, bound)| sums.with(bound));
            let below = self.most(children.iter().copied(), sums)?.0;
            let single = if children.is_empty() { rules.leaf_on_leaf } else { 1.0 };
            let bound =
                (rules.node * f64::max(rules.leaf * single, below)).min(MAX_BOUND);
            memory::push(&mut self.bounds, bound)?;
            // In ET a fragment's child may stand anywhere below: whoever takes this
            // node may take it, or what can be taken at its children.
            if rules.skips {
                let direct = std::iter::once((nodes.label(node), bound));
                let below = children.iter().flat_map(|&child| self.choices_of(child));
                let mut choices = memory::collect(direct.chain(below))?;
                // One entry for each label, so a list is as long as its tree has
                // labels, not nodes.
                sum_by_label(&mut choices);
                choices.shrink_to_fit();
                memory::push(&mut self.choices, choices)?;
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
    fn most(
        &self,
        siblings: impl Iterator<Item = NodeId>,
        sums: Sums,
    ) -> Result<(f64, f64)> {
        let most = |sums: Sums, taken| sums.most(self.rules, taken);
        // As if all had one label.
        let alike = (most(sums, false), most(sums, true));
        // The bound is good for all: only not as sharp.
        if sums.n > MAX_SORTED {
            return Ok(alike);
        }
        let mut choices: Vec<(Label, f64)> = Vec::new();
        for child in siblings {
            memory::extend(&mut choices, self.choices_of(child))?;
        }
        // `chunk_by` below sees neighbours only.
        choices.sort_unstable_by_key(|choice| choice.0.0);
        let (mut together, mut alone) = ([1.0; 2], [0.0f64; 2]);
        for same in choices.chunk_by(|a, b| a.0 == b.0) {
            let bounds = same.iter().map(|choice| choice.1);
            let sums = bounds.fold(Sums::default(), Sums::with);
            for (at, taken) in [false, true].into_iter().enumerate() {
                let most = most(sums, taken);
                alone[at] = alone[at].max(most);
                // A part below 1 would make the product smaller, and its label can be
                // left out.
                together[at] = (together[at] * most.max(1.0)).min(MAX_BOUND);
            }
        }
        let most_of = |at: usize| match together[at] {
            together if together > 1.0 && self.rules.longest > 1 => together,
            // A product takes a child of each label, which needs room for more than
            // one.
            _ => alone[at],
        };
        // Both are bounds, and so is the smaller one.
        Ok((most_of(0).min(alike.0), most_of(1).min(alike.1)))
    }

    /// The list of a node's children.
    fn children(&mut self, node: NodeId) -> Result<SiblingList> {
        let mut rest = SiblingList::EMPTY;
        // From the last sibling on: a list is its first node and the list of the
        // others, so the ends of all lists are shared.
        for &first in self.nodes.children(node).iter().rev() {
            let key = (first, rest);
            rest = match self.siblings.find(&key) {
                Some(list) => list,
                None => self.siblings.add(key, self.siblings_from(first, rest)?)?,
            };
        }
        Ok(rest)
    }

    fn siblings_from(&self, first: NodeId, rest: SiblingList) -> Result<Siblings> {
        let sums = self.siblings.get(rest).sums;
        let sums =
            self.choices_of(first).fold(sums, |sums, (_, bound)| sums.with(bound));
        let list = std::iter::once(first).chain(self.list(rest));
        let (first_most, next_most) = self.most(list, sums)?;
        Ok(Siblings { first, rest, sums, first_most, next_most })
    }

    /// The nodes of a list of siblings.
    fn list(&self, mut list: SiblingList) -> impl Iterator<Item = NodeId> + '_ {
        std::iter::from_fn(move || {
            let Siblings { first, rest, .. } = self.siblings.get(list);
            let is_there = list != SiblingList::EMPTY;
            list = rest;
            is_there.then_some(first)
        })
    }

    /// The list of an open node, whose next children are some siblings, and those above it.
    fn open_node(
        &mut self,
        siblings: SiblingList,
        taken: u32,
        above: OpenList,
    ) -> Result<OpenList> {
        let rules = self.rules;
        // Counted where there is a limit only; one that is reached leaves nothing to take.
        let taken = if rules.longest == u32::MAX { taken.min(1) } else { taken };
        let is_full = taken >= rules.longest;
        let siblings = if is_full { SiblingList::EMPTY } else { siblings };
        let key = (siblings, taken, above);
        if let Some(list) = self.open.find(&key) {
            return Ok(list);
        }
        let Siblings { first_most, next_most, .. } = self.siblings.get(siblings);
        // Before the first child there is no gap to pay for.
        let take = if taken == 0 { first_most } else { next_most };
        let close = match (taken, siblings) {
            (0, SiblingList::EMPTY) => rules.leaf_on_leaf,
            _ => 1.0,
        };
        // A node that closes without children is a leaf; one with children pays
        // nothing.
        let end = if taken == 0 { rules.leaf * close } else { 1.0 };
        let below = self.open.get(above);
        // Either the node takes more or it closes; those above go on in any case.
        let any = (f64::max(take, end) * below.any).min(MAX_BOUND);
        // The node that must come is taken here, or by those above once this one is
        // closed.
        let more = f64::max(take * below.any, end * below.more).min(MAX_BOUND);
        self.open.add(key, Open { siblings, taken, above, close, any, more })
    }
}

impl Growth for Parts<'_> {
    type Piece = Label;

    fn piece(&self, node: NodeId) -> Option<Label> {
        Some(self.nodes.label(node))
    }

    fn factor(&self) -> f64 {
        self.rules.node
    }

    fn weight(&self, ways: &[Way<Label>], power: f64) -> f64 {
        // The fragment as it is: the last node becomes a leaf. The nodes above it have
        // it as a child, so they close without a factor.
        let single = ways.iter().map(|way| {
            let is_leaf = self.nodes.is_leaf(way.node);
            way.f * if is_leaf { self.rules.leaf_on_leaf } else { 1.0 }
        });
        power * self.rules.leaf * single.sum::<f64>()
    }

    fn ways(&mut self, rows: &[Row], context: &Context) -> Result<Vec<Way<Label>>> {
        let mut ways: Vec<Way<Label>> = Vec::new();
        for row in rows {
            let Open { mut siblings, taken, above, .. } = self.open.get(row.list);
            let mut f = row.f;
            while siblings != SiblingList::EMPTY {
                context.check()?;
                let Siblings { first, rest, .. } = self.siblings.get(siblings);
                // What is left open has only the siblings behind this one, as children
                // keep their order.
                let above = self.open_node(rest, taken.saturating_add(1), above)?;
                let nodes = self.nodes;
                let way = |(node, count)| Way {
                    piece: nodes.label(node),
                    node,
                    f: f * count,
                    rest: above,
                };
                if self.rules.skips {
                    // The subtrees below, each with the number of ways to it.
                    self.below.read(nodes, first, true)?;
                    let items = self.below.items().iter().rev();
                    memory::extend(&mut ways, items.map(|i| way((i.node, i.count))))?;
                } else {
                    memory::push(&mut ways, way((first, 1.0)))?;
                }
                siblings = rest;
                // A gap counts between two children only: what stands before the first
                // one is free.
                if taken > 0 {
                    f *= self.rules.gap;
                }
            }
        }
        // By piece for `grow`, and the rest so that equal ways are neighbours.
        memory::sort_by_key(&mut ways, |way| (way.piece, way.node, way.rest))?;
        // Equal ways are one.
        ways.dedup_by(|next, way| {
            let is_same = (next.node, next.rest) == (way.node, way.rest);
            if is_same {
                way.f += next.f;
            }
            is_same
        });
        Ok(ways)
    }

    fn open_nodes_after(&mut self, way: &Way<Label>) -> Result<OpenList> {
        let siblings = self.children(way.node)?;
        self.open_node(siblings, 0, way.rest)
    }

    fn can_grow(&self, list: OpenList, _: u64, _: &Query) -> bool {
        self.open.get(list).more > 0.0
    }

    fn is_decided(&self, list: OpenList) -> bool {
        self.open.get(list).siblings == SiblingList::EMPTY
    }

    fn close(&self, rows: &mut [Row], power: f64) -> f64 {
        // All rows have the same fragment, whose open node is a leaf if it took nothing.
        let is_leaf =
            rows.first().is_some_and(|row| self.open.get(row.list).taken == 0);
        for row in rows {
            let Open { close, above, .. } = self.open.get(row.list);
            row.f *= close;
            row.list = above;
        }
        if is_leaf { power * self.rules.leaf } else { power }
    }

    fn bound(&self, rows: &[Row], prefix: &Prefix, best: &Best) -> f64 {
        let most = rows.iter().map(|row| row.f * self.open.get(row.list).more);
        // Sums are rounded, and what they bound too, in another order.
        best.largest_sum(most) * prefix.power * (1.0 + 1e-9)
    }

    fn draw(&self, piece: Label, tree: &mut Drawing) -> Result<()> {
        // The last open node gets the child, and the child is open in its turn.
        let parent = tree.open.last().copied();
        let node = tree.add(piece, parent)?;
        memory::push(&mut tree.open, node)
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
        let sum = (self.sum + bound).min(MAX_BOUND);
        Self { n: self.n.saturating_add(1), sum, largest: self.largest.max(bound) }
    }

    /// The largest min(s^r / r!, s g^(r-1)), after a child that is `taken` min(s^r / r!, g^r).
    fn most(self, rules: Rules, taken: bool) -> f64 {
        let Self { n, sum, largest } = self;
        // g of the module.
        let next = (largest / (1.0 - rules.gap)).min(sum);
        let (mut by_order, mut by_gaps) = (sum, if taken { next } else { sum });
        let mut most = f64::min(by_order, by_gaps);
        for r in 2..=n.min(rules.longest) {
            by_order *= sum / f64::from(r);
            by_gaps *= next;
            most = most.max(by_order.min(by_gaps));
            // s^r / r! falls from here on. With g at most 1 the first value was the
            // largest.
            let is_past = sum <= f64::from(r) && by_order <= most;
            if is_past || next <= 1.0 || most >= MAX_BOUND {
                break;
            }
        }
        most.min(MAX_BOUND)
    }
}

fn sum_by_label(choices: &mut Vec<(Label, f64)>) {
    choices.sort_unstable_by_key(|choice| choice.0.0);
    choices.dedup_by(|next, choice| {
        let is_same = next.0 == choice.0;
        if is_same {
            choice.1 += next.1;
        }
        is_same
    });
}
