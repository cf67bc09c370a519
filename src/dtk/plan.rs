//! What is to be composed, each thing once.
//!
//! A fold turns a tree into nested pairs: with the left fold (n c1 c2) is the pair of
//! the pair of (n, c1) and c2, with the right one the pair of n and the pair (c1, c2).
//! Pairs are interned as trees are, so equal subtrees are one pair, and so are equal left
//! prefixes of two nodes: `(VP V NP)` and `(VP V NP PP)` share (VP, V) and (VP V, NP).
//! A composition is then done once per distinct pair, for any fold, kernel, height or
//! dictionary; the rest of the encoder knows pairs only.
//!
//! What is cut off (by height, or since no other tree has the path to it) is a leaf to
//! the pair above it, so a cut tree is a tree, interned with all others.

use crate::intern::{IdTable, new_id};
use crate::{Context, NodeId, Nodes, Result, memory};

use super::Fold;
use super::paths::{Paths, Productions};
use crate::kernel::Rule;

pub(super) const NONE: u32 = u32::MAX;

/// One side of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Operand {
    /// The label of the node itself: where a fold starts.
    Start(u32),
    /// A pair inside a fold.
    Partial(u32),
    /// A child that is a leaf.
    Leaf(u32),
    /// An inner child (its label) whose own children are left out.
    Cut(u32),
    /// An inner child: its label, and the pair that its fold ends in.
    Inner(u32, u32),
}

impl Operand {
    fn word(self) -> [u32; 3] {
        match self {
            Self::Start(label) => [0, label, 0],
            Self::Partial(pair) => [1, pair, 0],
            Self::Leaf(label) => [2, label, 0],
            Self::Cut(label) => [3, label, 0],
            Self::Inner(label, pair) => [4, label, pair],
        }
    }

    /// The pair below it.
    #[inline]
    pub(super) fn pair(self) -> Option<u32> {
        match self {
            Self::Partial(pair) | Self::Inner(_, pair) => Some(pair),
            _ => None,
        }
    }
}

/// Two operands to be composed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) left: Operand,
    pub(super) right: Operand,
    /// The label of the node whose fold this is part of (left folds only).
    pub(super) head: u32,
}

/// Which node contributes which pair, for one batch of trees.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Each once; the pairs below a pair come before it.
    pub(super) pairs: Vec<Pair>,
    /// Compositions in a pair, all below it included; saturates.
    pub(super) cost: Vec<u64>,
    /// Finds pairs by their operands, as long as pairs are made.
    table: IdTable,
    /// By node: the pair of the largest fragment at it; NONE for leaves, and where
    /// none is wanted.
    pub(super) pair_of: Vec<u32>,
    /// The most children a node has.
    pub(super) widest: usize,
    /// By node: how many nodes there are below and at it; saturates.
    pub(super) size: Vec<u64>,
    /// By node: whether all that its sum has is that pair.
    pub(super) simple: Vec<bool>,
    /// How often each will be asked for, if each is computed once.
    pub(super) pair_uses: Vec<u32>,
    pub(super) sum_uses: Vec<u32>,
    pub(super) label_uses: Vec<u32>,
}

/// What a plan depends on besides the trees.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape<'a> {
    pub(super) rule: Rule,
    pub(super) fold: Fold,
    pub(super) max_height: Option<usize>,
    pub(super) paths: Option<&'a Paths>,
    /// Whether leaves add something of their own.
    pub(super) leaves_count: bool,
}

impl Plan {
    pub(super) fn new(
        nodes: &Nodes,
        roots: &[NodeId],
        shape: Shape<'_>,
        context: &Context,
    ) -> Result<Self> {
        // 1. The pairs of all nodes, with what is left out.
        let reached = nodes.reachable(roots)?;
        let mut plan = Self {
            pair_of: memory::filled(NONE, reached.len())?,
            simple: memory::filled(false, reached.len())?,
            ..Self::default()
        };
        let ids = || (0..reached.len() as u32).filter(|&n| reached[n as usize]);
        let inner = || ids().map(NodeId).filter(|&n| !nodes.is_leaf(n));
        match (shape.paths, shape.max_height, shape.rule) {
            (Some(paths), ..) => {
                plan.cut_by_paths(nodes, inner(), paths, shape, context)?;
            }
            (None, Some(height), Rule::Subset | Rule::Partial) => {
                plan.cut_by_height(nodes, inner, height, shape, context)?;
            }
            (None, height, _) => {
                // Whole subtrees cannot be cut: those that are too high are dropped, as
                // a whole.
                plan.keep_all(nodes, inner(), shape, context)?;
                if let Some(height) = height {
                    plan.drop_high(nodes, inner(), height)?;
                }
            }
        }
        // 2. By node: what the order of sums depends on, and which sums are a single
        // vector.
        plan.size = memory::filled(1, reached.len())?;
        for node in inner() {
            let below = nodes.children(node).iter().map(|c| plan.size[c.index()]);
            plan.widest = plan.widest.max(nodes.children(node).len());
            plan.size[node.index()] = below.fold(1, u64::saturating_add);
            plan.simple[node.index()] =
                !shape.leaves_count && nodes.is_preterminal(node);
        }
        // 3. How often each is asked for, now that all pairs are there.
        plan.count_uses(nodes, roots, ids().map(NodeId), shape)?;
        Ok(plan)
    }

    /// The plan of one tree as a fragment, nothing left out.
    pub(super) fn of_fragment(
        nodes: &Nodes,
        root: NodeId,
        fold: Fold,
        context: &Context,
    ) -> Result<Self> {
        let shape = Shape {
            rule: Rule::Subtree,
            fold,
            max_height: None,
            paths: None,
            leaves_count: false,
        };
        Self::new(nodes, &[root], shape, context)
    }

    /// The pair of a node's whole subtree, for every node.
    fn keep_all(
        &mut self,
        nodes: &Nodes,
        inner: impl Iterator<Item = NodeId>,
        shape: Shape<'_>,
        context: &Context,
    ) -> Result<()> {
        let mut operands = Vec::new();
        for node in inner {
            operands.clear();
            let children = nodes.children(node).iter().map(|&child| {
                operand(nodes, child, self.pair_of[child.index()], shape.rule)
            });
            memory::extend(&mut operands, children)?;
            self.pair_of[node.index()] =
                self.fold(nodes.label(node).0, &operands, shape.fold)?;
            context.check()?;
        }
        Ok(())
    }

    /// Complete subtrees are cut by being left out.
    fn drop_high(
        &mut self,
        nodes: &Nodes,
        inner: impl Iterator<Item = NodeId>,
        max_height: usize,
    ) -> Result<()> {
        let mut heights = memory::filled(0, self.pair_of.len())?;
        for node in inner {
            // Children come first, so their heights are there.
            let below = nodes.children(node).iter().map(|c| heights[c.index()]);
            heights[node.index()] = 1 + below.max().unwrap_or(0);
            if heights[node.index()] > max_height {
                self.pair_of[node.index()] = NONE;
            }
        }
        Ok(())
    }

    /// Cuts at each height up to the one wanted: s_k(n) asks for s_{k-1} of the children.
    fn cut_by_height<I: Iterator<Item = NodeId>>(
        &mut self,
        nodes: &Nodes,
        inner: impl Fn() -> I,
        max_height: usize,
        shape: Shape<'_>,
        context: &Context,
    ) -> Result<()> {
        let mut operands = Vec::new();
        for _ in 0..max_height {
            // The children's pairs of one level less, before any of them is replaced.
            let before = memory::copied(&self.pair_of)?;
            for node in inner() {
                operands.clear();
                let children = nodes.children(node).iter().map(|&child| {
                    operand(nodes, child, before[child.index()], shape.rule)
                });
                memory::extend(&mut operands, children)?;
                self.pair_of[node.index()] =
                    self.fold(nodes.label(node).0, &operands, shape.fold)?;
                context.check()?;
            }
            // No tree is higher than this: further levels change nothing.
            if self.pair_of == before {
                break;
            }
        }
        Ok(())
    }

    /// Cuts each node's subtree where a path from that node is not in the dictionary.
    fn cut_by_paths(
        &mut self,
        nodes: &Nodes,
        inner: impl Iterator<Item = NodeId>,
        paths: &Paths,
        shape: Shape<'_>,
        context: &Context,
    ) -> Result<()> {
        struct Item {
            node: NodeId,
            path: u64,
            height: usize,
            /// Which child of its parent it is.
            place: usize,
            /// Where its own kept children start; they stand together.
            first_child: usize,
            pair: u32,
        }
        let productions = Productions::new(nodes)?;
        let highest = shape.max_height.unwrap_or(usize::MAX);
        let (mut items, mut operands) = (Vec::new(), Vec::new());
        for root in inner {
            let Some(path) = productions.start(nodes, root) else { continue };
            if !paths.contains(path) {
                continue;
            }
            // 1. Down, level by level: the nodes to which all paths are in the
            // dictionary.
            items.clear();
            let (place, first_child, pair) = (0, 0, NONE);
            let (node, height) = (root, 1);
            let first = Item { node, path, height, place, first_child, pair };
            memory::push(&mut items, first)?;
            let mut next = 0;
            while next < items.len() {
                let Item { node, path, height, .. } = items[next];
                // The children that are kept of one node stand together, from here on.
                items[next].first_child = items.len();
                for (place, &child) in nodes.children(node).iter().enumerate() {
                    if let Some(path) = productions.next(nodes, path, place, child)
                        && height < highest
                        && paths.contains(path)
                    {
                        let (node, height) = (child, height + 1);
                        let item =
                            Item { node, path, height, place, first_child, pair };
                        memory::push(&mut items, item)?;
                    }
                }
                next += 1;
                context.check()?;
            }
            // 2. Back up: behind a node's kept children stand only those of later
            // nodes, which are done, so they end where the last range began.
            let mut end = items.len();
            for at in (0..items.len()).rev() {
                let Item { node, first_child, .. } = items[at];
                let mut kept = items[first_child..end].iter().peekable();
                operands.clear();
                for (place, &child) in nodes.children(node).iter().enumerate() {
                    let item = kept.next_if(|item| item.place == place);
                    let pair = item.map_or(NONE, |item| item.pair);
                    let operand = operand(nodes, child, pair, shape.rule);
                    memory::push(&mut operands, operand)?;
                }
                end = first_child;
                items[at].pair =
                    self.fold(nodes.label(node).0, &operands, shape.fold)?;
            }
            self.pair_of[root.index()] = items[0].pair;
        }
        Ok(())
    }

    fn fold(&mut self, label: u32, operands: &[Operand], fold: Fold) -> Result<u32> {
        match fold {
            Fold::Left => {
                let mut left = Operand::Start(label);
                for &right in operands {
                    left = Operand::Partial(self.intern(left, right, label)?);
                }
                // An inner node has a child, so there is a pair.
                Ok(left.pair().unwrap_or(NONE))
            }
            Fold::Right => {
                let mut operands = operands.iter().rev();
                let Some(&last) = operands.next() else { return Ok(NONE) };
                let mut right = last;
                for &left in operands {
                    right = Operand::Partial(self.intern(left, right, NONE)?);
                }
                self.intern(Operand::Start(label), right, NONE)
            }
        }
    }

    fn intern(&mut self, left: Operand, right: Operand, head: u32) -> Result<u32> {
        // Pairs below have their numbers already, so equal pairs have equal operands.
        let pair = Pair { left, right, head };
        let words = [left.word(), right.word()];
        let hash = self.table.seed.hash_ids(0, words.as_flattened().iter().copied());
        if let Some(id) = self.table.find(hash, |id| self.pairs[id as usize] == pair) {
            return Ok(id);
        }
        let id = new_id(self.pairs.len(), "distinct compositions")?;
        let below =
            [left, right].map(|o| o.pair().map_or(0, |p| self.cost[p as usize]));
        memory::push(&mut self.pairs, pair)?;
        let cost = below[0].saturating_add(below[1]).saturating_add(1);
        memory::push(&mut self.cost, cost)?;
        self.table.insert(hash, id)?;
        Ok(id)
    }

    fn count_uses(
        &mut self,
        nodes: &Nodes,
        roots: &[NodeId],
        reached: impl Iterator<Item = NodeId>,
        shape: Shape<'_>,
    ) -> Result<()> {
        // All pairs are made: its memory is free before the counts are asked for.
        self.table = IdTable::default();
        self.pair_uses = memory::filled(0, self.pairs.len())?;
        self.sum_uses = memory::filled(0, self.pair_of.len())?;
        self.label_uses = memory::filled(0, nodes.labels().len())?;
        // A count that saturates lets something go early, to be computed once more.
        let add = |count: &mut u32| *count = count.saturating_add(1);
        for pair in &self.pairs {
            for operand in [pair.left, pair.right] {
                if let Some(below) = operand.pair() {
                    add(&mut self.pair_uses[below as usize]);
                }
                if let Some(label) = label_of(shape.rule, operand, pair.head) {
                    add(&mut self.label_uses[label as usize]);
                }
            }
        }
        for node in reached {
            let index = node.index();
            // A simple node's pair is asked for by those that ask for its sum.
            if !self.simple[index] && self.pair_of[index] != NONE {
                add(&mut self.pair_uses[self.pair_of[index] as usize]);
            }
            let counts = |c: &&NodeId| shape.leaves_count || !nodes.is_leaf(**c);
            for &child in nodes.children(node).iter().filter(counts) {
                self.use_sum(nodes, child);
            }
        }
        for &root in roots {
            self.use_sum(nodes, root);
        }
        Ok(())
    }

    fn use_sum(&mut self, nodes: &Nodes, node: NodeId) {
        let index = node.index();
        let count = if nodes.is_leaf(node) {
            &mut self.label_uses[nodes.label(node).index()]
        } else if !self.simple[index] {
            &mut self.sum_uses[index]
        } else if self.pair_of[index] != NONE {
            &mut self.pair_uses[self.pair_of[index] as usize]
        } else {
            return;
        };
        *count = count.saturating_add(1);
    }
}

/// The label whose vector an operand asks for, if any.
#[inline]
pub(super) fn label_of(rule: Rule, operand: Operand, head: u32) -> Option<u32> {
    match operand {
        Operand::Start(label) | Operand::Leaf(label) | Operand::Cut(label) => {
            Some(label)
        }
        Operand::Inner(label, _) => (rule == Rule::Subset).then_some(label),
        Operand::Partial(_) => (rule == Rule::Partial).then_some(head),
    }
}

fn operand(nodes: &Nodes, child: NodeId, pair: u32, rule: Rule) -> Operand {
    let label = nodes.label(child).0;
    if pair != NONE {
        Operand::Inner(label, pair)
    } else if nodes.is_leaf(child) || rule == Rule::Subset {
        // To the subset tree kernel a node that is not expanded is its label.
        Operand::Leaf(label)
    } else {
        Operand::Cut(label)
    }
}
