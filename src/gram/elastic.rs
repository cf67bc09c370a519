//! Rows of the elastic tree kernel: its [index](crate::index::elastic), walked by each
//! row's tree, and integer counts.
//!
//! ```text
//! K(x,t) = λ Σ_label count_x count_t  +  λ² Σ_simple count_x count_t  +  what the walk tells
//! ```
//!
//! # Complexity
//! That of the index, and of [`Products`] for labels and simple subtrees.

use std::sync::Arc;

use crate::forest::reader::Reader;
use crate::ids::{
    GroupId, Id, IdVec, MemberId, PackedOption, Place, RowSlot, SymbolId, TreeId,
};
use crate::index::counts::{CountsScratch, Products, tally};
use crate::index::elastic::{Index, Query, Scratch as WalkScratch};
use crate::index::id_map::{IdMap, Wanted, same_ids};
use crate::index::rows::{self, SlotSinkView, Slots};
use crate::index::weights::{Sink, View};
use crate::kernel::TreeCounts;
use crate::ragged::Ragged;
use crate::threads::Threads;
use crate::{Context, Forest, Label, NodeId, Nodes, Result, memory};

/// The index, where its subtrees stand, and the trees of the rows.
#[derive(Debug)]
pub(crate) struct Engine {
    nodes: Arc<Nodes>,
    index: Index,
    slots: Slots,
    /// By number within the group: the slot.
    groups: IdVec<GroupId, Vec<RowSlot>>,
    /// Labels, simple subtrees.
    base: [Products<SymbolId>; 2],
    rows: Rows,
}

/// Trees that walk the index.
#[derive(Debug)]
pub(crate) struct Rows {
    nodes: Arc<Nodes>,
    /// The index's labels.
    labels: IdVec<Label, PackedOption<Label>>,
    roots: Vec<NodeId>,
    /// Labels, simple subtrees.
    base: [Ragged<(SymbolId, u32)>; 2],
}

impl Rows {
    fn new(
        index: &Index,
        nodes: &Arc<Nodes>,
        labels: IdVec<Label, PackedOption<Label>>,
        trees: &TreeCounts,
        n_labels: usize,
    ) -> Result<Self> {
        // Labels that the columns do not have match nothing.
        let label = |node| labels[nodes.label(node)].get();
        let simple = |node| match nodes.children(node) {
            &[child] if nodes.is_leaf(child) => {
                Some(SymbolId(index.simple(label(node)?, label(child)?)?.0))
            }
            _ => None,
        };
        let base = [
            tally(trees, n_labels, |node| Some(SymbolId(label(node)?.0)))?,
            tally(trees, index.n_simple(), simple)?,
        ];
        let roots = (0..trees.len()).filter_map(|t| trees.nodes(t).last().copied());
        let (nodes, roots) = (Arc::clone(nodes), memory::collect(roots)?);
        Ok(Self { nodes, labels, roots, base })
    }
}

/// What one worker keeps from row to row.
#[derive(Debug)]
pub(crate) struct Scratch {
    base: [CountsScratch; 2],
    reader: Reader,
    walk: WalkScratch,
    rows: rows::Scratch,
}

impl Engine {
    /// Indexes the trees of `columns`.
    pub(crate) fn new(
        nodes: &Arc<Nodes>,
        decay: f64,
        columns: &TreeCounts,
        threads: &Threads<'_>,
    ) -> Result<Self> {
        // 1. The index, tree by tree.
        let mut index = Index::new(decay);
        let mut new = Ragged::default();
        for tree in 0..columns.len() {
            for &node in columns.nodes(tree) {
                threads.context.check()?;
                if !index.has(node) {
                    index.enter(nodes, node, TreeId::at(tree))?;
                    new.push(node)?;
                }
            }
            new.close("subtrees")?;
        }
        // 2. Where its subtrees stand.
        // Leaves add λ for each pair of equal ones, and nothing else.
        let is_elsewhere = |node| index.member(nodes, node).is_none();
        let (slots, slot_of) = Slots::new(
            columns,
            &new,
            is_elsewhere,
            &Slots::times(columns, nodes.len())?,
        )?;
        // The index calls subtrees by group and number, rows by slot.
        let groups = memory::filled(Vec::new(), 2 * nodes.labels().len())?;
        let mut groups: IdVec<GroupId, Vec<RowSlot>> = groups.into();
        for &node in &new.items {
            if let Some((group, member)) = index.member(nodes, node) {
                let (group, at) = (&mut groups[group], member.index());
                memory::reach(group, at + 1, slots.elsewhere())?;
                group[at] = slot_of[node];
            }
        }
        // 3. Integers.
        threads.context.check()?;
        let n_labels = nodes.labels().len();
        let labels = same_ids(n_labels)?;
        let rows = Rows::new(&index, nodes, labels, columns, n_labels)?;
        let [labels, simple] = &rows.base;
        let base = [
            Products::new(decay, n_labels, labels)?,
            Products::new(decay * decay, index.n_simple(), simple)?,
        ];
        Ok(Self { nodes: Arc::clone(nodes), index, slots, groups, base, rows })
    }
}

/// The sink of rows, told by groups and numbers.
struct BySlot<'a> {
    groups: &'a IdVec<GroupId, Vec<RowSlot>>,
    rows: rows::SlotSink<'a>,
}

struct BySlotView<'a> {
    slots: &'a [RowSlot],
    row: SlotSinkView<'a>,
}

impl Sink for BySlot<'_> {
    type Id = MemberId;
    type View<'a>
        = BySlotView<'a>
    where
        Self: 'a;

    #[inline]
    fn node(&mut self, place: Place, count: f64) {
        self.rows.node(place, count);
    }

    fn group(&mut self, _group: GroupId, _value: f64) {}

    #[inline]
    fn view(&mut self, group: GroupId) -> BySlotView<'_> {
        let slots = &self.groups[group];
        BySlotView { slots, row: self.rows.view(group) }
    }
}

impl View for BySlotView<'_> {
    type Id = MemberId;

    #[inline]
    fn add(&mut self, member: MemberId, value: f64) {
        self.row.add(self.slots[member.index()], value);
    }

    #[inline]
    fn close(self) {}
}

impl super::Engine for Engine {
    type Rows = Rows;
    type Scratch = Scratch;

    fn own_rows(&self) -> &Rows {
        &self.rows
    }

    fn scratch(&self) -> Result<Scratch> {
        let [labels, simple] = &self.base;
        Ok(Scratch {
            base: [labels.counts.scratch()?, simple.counts.scratch()?],
            reader: Reader::default(),
            walk: WalkScratch::default(),
            rows: self.slots.scratch()?,
        })
    }

    fn row(
        &self,
        queries: &Rows,
        x: usize,
        scratch: &mut Scratch,
        row: &mut [f64],
        context: &Context,
    ) -> Result<()> {
        // 1. Integers: equal labels, and equal simple subtrees.
        let Scratch { base, reader, walk, rows } = scratch;
        for ((base, symbols), scratch) in self.base.iter().zip(&queries.base).zip(base)
        {
            base.add_to(symbols.get(x), scratch, rows.trees(row.len()))?;
        }
        // 2. The excess of all pairs, from the walk.
        reader.read(&queries.nodes, queries.roots[x], true)?;
        let query =
            Query { store: &queries.nodes, labels: &queries.labels, tree: reader };
        let n_trees = row.len();
        let mut sink = BySlot { groups: &self.groups, rows: rows.sink() };
        let done =
            self.index.walk(&self.nodes, query, n_trees, walk, &mut sink, context);
        if let Err(error) = done {
            rows.clear();
            return Err(error);
        }
        // 3. What shared subtrees have collected.
        self.slots.finish(rows, row);
        // 0 · ∞, where a sum left the floats before a child with nothing in common.
        for value in row.iter_mut().filter(|value| value.is_nan()) {
            *value = f64::INFINITY;
        }
        Ok(())
    }

    fn meets(&self, rows: &Rows, x: usize, most: usize) -> Result<Option<Vec<u32>>> {
        let mut met = Vec::new();
        // Whatever is equal has equal labels.
        let [labels, _] = &self.base;
        let are_few = labels.counts.meet(rows.base[0].get(x), most, &mut met)?;
        Ok(are_few.then_some(met))
    }

    fn read(
        &self,
        columns: &Forest,
        rows: &Forest,
        trees: &TreeCounts,
        _: &Context,
    ) -> Result<(Option<Self>, Rows)> {
        let (columns, rows) = (columns.nodes(), rows.nodes());
        let labels = IdMap::new(rows, columns, Wanted::Labels, |_| None)?.labels;
        let n_labels = columns.labels().len();
        Ok((None, Rows::new(&self.index, rows, labels, trees, n_labels)?))
    }

    fn nbytes(&self) -> usize {
        let groups: usize = self.groups.iter().map(|group| 24 + group.len() * 4).sum();
        let counts: usize = self.base.iter().map(|base| base.counts.nbytes()).sum();
        let rows = self.rows.base.iter().map(Ragged::nbytes).sum::<usize>();
        self.index.nbytes() + self.slots.nbytes() + groups + counts + rows
    }
}

#[cfg(test)]
mod tests {
    use super::super::Engine as _;
    use super::*;

    #[test]
    fn deep_trees_stand_beside_flat_ones() {
        let chain = "(A ".repeat(20_000) + "A" + &")".repeat(20_000);
        let forest =
            Forest::from_bracket_items(["(A (B b) (C c))", &*chain, "(A (B c) (C c))"])
                .unwrap();
        let counts =
            TreeCounts::read(forest.nodes(), forest.roots(), &Context::default())
                .unwrap();
        let engine = Engine::new(
            forest.nodes(),
            0.4,
            &counts,
            &Threads::alone(&Context::default()),
        )
        .unwrap();
        let mut row = [0.0; 3];
        engine
            .row(
                &engine.rows,
                2,
                &mut engine.scratch().unwrap(),
                &mut row,
                &Context::default(),
            )
            .unwrap();
        // One A against 20,001 of them, the leaf included: λ each.
        assert!((row[1] - 0.4 * 20_001.0).abs() < 1e-6, "{}", row[1]);
    }

    #[test]
    fn values_beyond_floats_stay_in_their_columns() {
        let wide = String::from("(A") + &" (A A A A)".repeat(800) + ")";
        let forest =
            Forest::from_bracket_items(["(A (A A))", &*wide, "(A (B A) A)"]).unwrap();
        let counts =
            TreeCounts::read(forest.nodes(), forest.roots(), &Context::default())
                .unwrap();
        let engine = Engine::new(
            forest.nodes(),
            1.0,
            &counts,
            &Threads::alone(&Context::default()),
        )
        .unwrap();
        let mut scratch = engine.scratch().unwrap();
        let mut row = [0.0; 3];
        engine
            .row(&engine.rows, 1, &mut scratch, &mut row, &Context::default())
            .unwrap();
        assert!(row[0].is_finite() && row[2].is_finite(), "{row:?}");
        assert_eq!(row[1], f64::INFINITY);
        engine
            .row(&engine.rows, 0, &mut scratch, &mut row, &Context::default())
            .unwrap();
        assert!(row.iter().all(|value| value.is_finite()), "{row:?}");
    }
}
