//! Rows of the partial tree kernel.
//!
//! With D as in [`crate::kernel::partial`], every pair of nodes with equal labels adds
//! μ λ² leafness to K, an integer dot product ([`Products`]), and only pairs with matching
//! children add more: the [index](crate::index::partial) of the columns' trees tells it to
//! the [slots](crate::index::rows) of trees.
//!
//! Labels of simple preterminals, all of whose inner nodes have one leaf and nothing
//! else, add no more than μ² λ² leafness for each pair that is the same: one more integer
//! dot product, so these have no slots.
//!
//! # Complexity
//! That of the index; its memory is linear in the distinct subtrees of the columns, their
//! edges, and the pairs of these that have one parent.

pub(super) mod smoothed;

use std::sync::Arc;

use crate::forest::reader::Reader;
use crate::ids::{GroupId, IdVec, MemberId, RowSlot, SymbolId};
use crate::index::counts::{CountsScratch, Products, tally};
use crate::index::id_map::{IdMap, Key, Wanted};
use crate::index::partial::{self, Below, Equal, Index, LEAF, Matching, Query};
use crate::index::prefixes::{Prefix, Prefixes};
use crate::index::rows::{self, Slots};
use crate::intern::Keys;
use crate::kernel::TreeCounts;
use crate::kernel::partial::Weights;
use crate::ragged::Ragged;
use crate::threads::Threads;
use crate::{Context, Forest, Label, NodeId, Nodes, Result, memory};

/// What the kernel is made with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Params {
    pub(crate) decay: f64,
    pub(crate) mu: f64,
    pub(crate) leaf_factor: f64,
    pub(crate) max_children: Option<usize>,
}

/// The index of some trees (columns), and others (rows) that walk it.
#[derive(Debug)]
pub(crate) struct Engine {
    params: Params,
    index: Index<RowSlot>,
    prefixes: Prefixes,
    slots: Slots,
    bases: Vec<(Products<SymbolId>, Kind)>,
    symbols: SimpleSymbols,
    rows: Rows,
}

/// Trees that walk the index.
#[derive(Debug)]
pub(crate) struct Rows {
    nodes: Arc<Nodes>,
    id_map: IdMap,
    roots: Vec<NodeId>,
    /// By base: symbols with counts.
    bases: Vec<Ragged<(SymbolId, u32)>>,
}

/// Simple preterminals by (label, 0, label of the leaf), and by label whether all of the
/// columns' inner nodes are such.
#[derive(Debug, Default)]
struct SimpleSymbols {
    keys: Keys<SymbolId>,
    labels: IdVec<Label, bool>,
}

/// What an integer dot product is of.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// Labels: of leaves, of inner nodes, or both, in rows and in columns.
    Labels(NodeFilter, NodeFilter),
    Simple,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum NodeFilter {
    All,
    Inner,
    Leaves,
}

impl NodeFilter {
    fn takes(self, is_leaf: bool) -> bool {
        self == Self::All || is_leaf == (self == Self::Leaves)
    }
}

/// The leaf of a node that has nothing else below it.
fn simple_leaf(nodes: &Nodes, node: NodeId) -> Option<NodeId> {
    match nodes.children(node) {
        &[child] if nodes.is_leaf(child) => Some(child),
        _ => None,
    }
}

fn roots(trees: &TreeCounts) -> Result<Vec<NodeId>> {
    memory::collect((0..trees.len()).filter_map(|t| trees.nodes(t).last().copied()))
}

/// By label: whether all inner nodes of some trees are simple preterminals, and it is none of
/// some.
fn simple_labels(
    nodes: &Nodes,
    trees: &TreeCounts,
    not_simple: &[Label],
) -> Result<IdVec<Label, bool>> {
    let mut simple = IdVec::from(memory::filled(true, nodes.labels().len())?);
    for &label in not_simple {
        simple[label] = false;
    }
    // One inner node with more than a leaf, or without one, and the label is not
    // simple.
    for &node in (0..trees.len()).flat_map(|tree| trees.nodes(tree)) {
        if !nodes.is_leaf(node) && simple_leaf(nodes, node).is_none() {
            simple[nodes.label(node)] = false;
        }
    }
    Ok(simple)
}

/// The inner subtrees that each tree is the first to have, in the order of a walk.
fn new_subtrees(
    nodes: &Nodes,
    columns: &TreeCounts,
    threads: &Threads<'_>,
) -> Result<Ragged<NodeId>> {
    let mut is_new = IdVec::from(memory::filled(true, nodes.len())?);
    let mut new = Ragged::default();
    for tree in 0..columns.len() {
        threads.context.check()?;
        for &node in columns.nodes(tree) {
            if !nodes.is_leaf(node) && std::mem::take(&mut is_new[node]) {
                new.push(node)?;
            }
        }
        new.close("subtrees")?;
    }
    Ok(new)
}

/// What one worker keeps from row to row.
#[derive(Debug)]
pub(crate) struct Scratch {
    prefix: Prefix,
    reader: Reader,
    walk: partial::Scratch,
    slots: rows::Scratch,
    bases: Vec<CountsScratch>,
}

impl Engine {
    /// Indexes the trees of `columns`, for others in which nodes with some labels are no
    /// simple preterminals.
    ///
    /// # Errors
    /// [`crate::Error::Capacity`] beyond 2^32 edges or pairs of them.
    pub(crate) fn new(
        nodes: &Arc<Nodes>,
        params: Params,
        columns: &TreeCounts,
        not_simple: &[Label],
        threads: &Threads<'_>,
    ) -> Result<Self> {
        let simple = simple_labels(nodes, columns, not_simple)?;
        Self::build(nodes, params, columns, simple, None, threads)
    }

    /// The same, given by label whether its nodes are simple preterminals; for labels that go
    /// together in groups, which get to know the subtrees.
    fn build(
        nodes: &Arc<Nodes>,
        params: Params,
        columns: &TreeCounts,
        simple: IdVec<Label, bool>,
        mut similar: Option<&mut smoothed::Similar>,
        threads: &Threads<'_>,
    ) -> Result<Self> {
        let Params { decay, mu, leaf_factor, max_children } = params;
        // Of a simple label no subtree has a slot: pairs of equal ones are counted.
        let is_simple = |node: NodeId| simple[nodes.label(node)];
        // 1. Find the columns' inner subtrees, in the order of a walk.
        let new = new_subtrees(nodes, columns, threads)?;
        // 2. Enter them.
        let (slots, slot_of) =
            Slots::new(columns, &new, is_simple, &Slots::times(columns, nodes.len())?)?;
        let mut index = Index::new(decay, mu, leaf_factor, max_children);
        let mut prefixes = Prefixes::default();
        let mut number = IdVec::from(memory::filled(MemberId::default(), nodes.len())?);
        for new in new.iter() {
            for &node in new {
                threads.context.check()?;
                // A group is a label, or what is similar to it.
                let group = |node| match &similar {
                    None => GroupId(nodes.label(node).0),
                    Some(similar) => similar.group(nodes.label(node)),
                };
                let own_group = group(node);
                // Children come before their parents, so their numbers are known.
                let below = nodes.children(node).iter().map(|&child| {
                    let number = match (nodes.is_leaf(child), &similar) {
                        (false, _) => number[child],
                        (true, None) => LEAF,
                        (true, Some(similar)) => similar.leaf(nodes.label(child)),
                    };
                    Below { group: group(child), number }
                });
                let entered = index.enter(own_group, below, slot_of[node])?;
                if let Some(similar) = &mut similar {
                    similar.entered(nodes.label(node))?;
                }
                number[node] = entered;
                // In the order of the trees, so that what the first trees have is a
                // prefix.
                prefixes.groups.push(own_group)?;
                prefixes.lists.extend(index.entered())?;
                prefixes.lists.close("edges")?;
            }
            prefixes.groups.close("subtrees")?;
        }
        // It stays as it is from here on.
        index.shrink()?;
        // 3. Count what needs no index.
        let id_map = match similar {
            None => {
                let find = |key: Key| index.find(key.into());
                IdMap::of_same(nodes, Wanted::LabelPairs, columns, find)
            }
            Some(_) => IdMap::new(nodes, nodes, Wanted::Labels, |_| None),
        }?;
        threads.context.check()?;
        // Equal simple preterminals have one symbol, whatever tree they are in.
        let mut symbols = SimpleSymbols { keys: Keys::default(), labels: simple };
        for tree in 0..columns.len() {
            for &node in columns.nodes(tree) {
                let label = nodes.label(node);
                if symbols.labels[label]
                    && let Some(leaf) = simple_leaf(nodes, node)
                {
                    let key = [label.0, 0, nodes.label(leaf).0];
                    symbols.keys.insert(key, "simple preterminals")?;
                }
            }
        }
        let (bases, nodes) = (Vec::new(), Arc::clone(nodes));
        let mut rows = Rows { nodes, id_map, roots: roots(columns)?, bases };
        let n_labels = rows.nodes.labels().len();
        let Weights { inner, mixed, leaf } = Weights::new(decay, mu, leaf_factor);
        // Inner nodes and leaves weigh differently in general, so pairs of each kind
        // have their own product.
        let kinds = [
            (inner, Kind::Labels(NodeFilter::Inner, NodeFilter::Inner)),
            (leaf, Kind::Labels(NodeFilter::Leaves, NodeFilter::Leaves)),
            (mixed, Kind::Labels(NodeFilter::Leaves, NodeFilter::Inner)),
            (mixed, Kind::Labels(NodeFilter::Inner, NodeFilter::Leaves)),
        ];
        let both = [(inner, Kind::Labels(NodeFilter::All, NodeFilter::All))];
        // One product where all kinds weigh the same, one where leaves weigh nothing.
        let kinds = match () {
            () if inner == leaf => &both[..],
            () if leaf > 0.0 => &kinds[..],
            () => &kinds[..1],
        };
        // Two equal simple preterminals have their leaf in common besides: D of the
        // leaves, times μ.
        let simple = (mu * leaf, Kind::Simple);
        let simple = Some(simple).filter(|_| leaf > 0.0);
        let mut bases = Vec::new();
        for (weight, kind) in kinds.iter().copied().chain(simple) {
            let tallied = symbols.tally(&rows, columns, kind, false)?;
            let n_symbols = match kind {
                Kind::Labels(..) => n_labels,
                Kind::Simple => symbols.keys.keys.len(),
            };
            // What no column has need not be looked up: where leaves and inner nodes have
            // no label in common, that is all.
            if !tallied.items.is_empty() {
                let products = Products::new(weight, n_symbols, &tallied)?;
                // Of mixed pairs the rows take the one kind of node, and the columns
                // the other.
                let same = match kind {
                    Kind::Labels(in_rows, in_columns) => in_rows == in_columns,
                    Kind::Simple => true,
                };
                let symbols = if same {
                    tallied
                } else {
                    let mut symbols = symbols.tally(&rows, columns, kind, true)?;
                    symbols.retain(|&(symbol, _)| products.counts.has(symbol));
                    symbols
                };
                rows.bases.push(symbols); // bounded: one for each kind
                bases.push((products, kind)); // bounded: one for each kind
            }
        }
        Ok(Self { params, index, prefixes, slots, bases, symbols, rows })
    }

    /// Begins a row of so many columns with what single nodes with equal labels have in
    /// common; returns it to be added to.
    fn start_row<'s>(
        &self,
        rows: &Rows,
        x: usize,
        scratch: &'s mut Scratch,
        len: usize,
    ) -> Result<&'s mut [f64]> {
        scratch.prefix.reveal(len, &self.prefixes);
        let trees = scratch.slots.trees(len);
        let bases_and_rows = self.bases.iter().zip(&rows.bases);
        for (((base, _), symbols), scratch) in bases_and_rows.zip(&mut scratch.bases) {
            base.add_to(symbols.get(x), scratch, trees)?;
        }
        Ok(trees)
    }

    /// Adds what larger fragments have, by labels that match, and writes the row.
    fn finish_row(
        &self,
        rows: &Rows,
        x: usize,
        matching: impl Matching,
        scratch: &mut Scratch,
        row: &mut [f64],
        context: &Context,
    ) -> Result<()> {
        let Scratch { prefix, reader, walk, slots, .. } = scratch;
        // 1. The walk, which adds to slots. Leaves are in lists of their parents and
        // need not be read.
        reader.read(&rows.nodes, rows.roots[x], false)?;
        let query = Query { store: &rows.nodes, tree: reader, matching };
        if let Err(error) =
            self.index.walk(query, prefix, walk, &mut slots.sink(), context)
        {
            slots.clear();
            return Err(error);
        }
        // 2. What shared subtrees have collected goes to their trees.
        self.slots.finish(slots, row);
        Ok(())
    }

    /// Trees of a store as rows.
    fn rows_of(
        &self,
        nodes: &Arc<Nodes>,
        id_map: IdMap,
        trees: &TreeCounts,
    ) -> Result<Rows> {
        let (nodes, bases) = (Arc::clone(nodes), Vec::new());
        let mut rows = Rows { nodes, id_map, roots: roots(trees)?, bases };
        for (base, kind) in &self.bases {
            let mut symbols = self.symbols.tally(&rows, trees, *kind, true)?;
            // What no column has adds nothing to any row.
            symbols.retain(|&(symbol, _)| base.counts.has(symbol));
            rows.bases.push(symbols); // bounded: one for each kind
        }
        Ok(rows)
    }

    /// By the columns' labels: those whose nodes are simple preterminals there, but not all
    /// of them in other trees. Their subtrees have no slots.
    fn not_simple(
        &self,
        store: &Nodes,
        id_map: &IdMap,
        trees: &TreeCounts,
    ) -> Result<Vec<Label>> {
        let nodes = (0..trees.len()).flat_map(|tree| trees.nodes(tree)).copied();
        let inner = nodes
            .filter(|&n| !store.is_leaf(n) && simple_leaf(store, n).is_none())
            .filter_map(|node| id_map.labels[store.label(node)].get());
        let was_simple = |&l: &Label| self.symbols.labels.find(l) == Some(&true);
        memory::collect(inner.filter(was_simple))
    }
}

impl SimpleSymbols {
    /// The symbols of trees of a store, rows or columns.
    fn tally(
        &self,
        rows: &Rows,
        trees: &TreeCounts,
        kind: Kind,
        are_rows: bool,
    ) -> Result<Ragged<(SymbolId, u32)>> {
        let nodes = &*rows.nodes;
        let label = |node| Some(rows.id_map.labels[nodes.label(node)].get()?.0);
        match kind {
            Kind::Labels(in_rows, in_columns) => {
                let taken = if are_rows { in_rows } else { in_columns };
                let n_labels = self.labels.len();
                tally(trees, n_labels, |node| {
                    let label =
                        label(node).filter(|_| taken.takes(nodes.is_leaf(node)));
                    label.map(SymbolId)
                })
            }
            Kind::Simple => tally(trees, self.keys.keys.len(), |node| {
                let leaf = simple_leaf(nodes, node)?;
                self.keys.find([label(node)?, 0, label(leaf)?])
            }),
        }
    }
}

impl super::Engine for Engine {
    type Rows = Rows;
    type Scratch = Scratch;

    fn own_rows(&self) -> &Rows {
        &self.rows
    }

    fn scratch(&self) -> Result<Scratch> {
        let bases = self.bases.iter().map(|base| base.0.counts.scratch());
        Ok(Scratch {
            prefix: self.index.prefix()?,
            reader: Reader::default(),
            walk: partial::Scratch::default(),
            slots: self.slots.scratch()?,
            bases: memory::try_collect(bases)?,
        })
    }

    fn row(
        &self,
        rows: &Rows,
        x: usize,
        scratch: &mut Scratch,
        row: &mut [f64],
        context: &Context,
    ) -> Result<()> {
        self.start_row(rows, x, scratch, row.len())?;
        self.finish_row(rows, x, Equal(&rows.id_map), scratch, row, context)
    }

    fn meets(&self, rows: &Rows, x: usize, most: usize) -> Result<Option<Vec<u32>>> {
        let mut met = Vec::new();
        // Whatever is equal has equal labels.
        for ((base, _), symbols) in self.bases.iter().zip(&rows.bases) {
            if !base.counts.meet(symbols.get(x), most, &mut met)? {
                return Ok(None);
            }
        }
        Ok(Some(met))
    }

    fn read(
        &self,
        columns: &Forest,
        rows: &Forest,
        trees: &TreeCounts,
        context: &Context,
    ) -> Result<(Option<Self>, Rows)> {
        let map = |engine: &Self| {
            let find = |key: Key| engine.index.find(key.into());
            let wanted = Wanted::LabelPairs;
            IdMap::of_trees(rows.nodes(), columns.nodes(), wanted, trees, find)
        };
        let id_map = map(self)?;
        let not_simple = self.not_simple(rows.nodes(), &id_map, trees)?;
        // In the rows some label is not simple, although it is in the columns: these
        // have no slots for it, so they are indexed once more.
        if not_simple.is_empty() {
            return Ok((None, self.rows_of(rows.nodes(), id_map, trees)?));
        }
        let threads = &Threads::for_trees(context, columns.len());
        let nodes = columns.nodes();
        let counts = &TreeCounts::by(true, nodes, columns.roots(), threads)?;
        let anew = Self::new(nodes, self.params, counts, &not_simple, threads)?;
        let rows = anew.rows_of(rows.nodes(), map(&anew)?, trees)?;
        Ok((Some(anew), rows))
    }

    fn nbytes(&self) -> usize {
        let counts: usize = self.bases.iter().map(|base| base.0.counts.nbytes()).sum();
        let rows = self.rows.bases.iter().map(Ragged::nbytes).sum::<usize>();
        let rows = rows + self.rows.id_map.nbytes() + self.symbols.keys.nbytes();
        let built = self.index.nbytes() + self.slots.nbytes() + self.prefixes.nbytes();
        counts + rows + built
    }
}

#[cfg(test)]
mod tests {
    use super::super::Engine as _;
    use super::*;
    use crate::corpus::random_trees;
    use crate::{Error, Forest};
    use std::time::Duration;

    fn engine(texts: &[String]) -> Engine {
        let forest =
            Forest::from_bracket_items(texts.iter().map(String::as_str)).unwrap();
        let nodes = forest.nodes();
        let trees =
            TreeCounts::read(nodes, forest.roots(), &Context::default()).unwrap();
        let params =
            Params { decay: 0.4, mu: 0.4, leaf_factor: 2.0, max_children: None };
        let context = Context::default();
        Engine::new(nodes, params, &trees, &[], &Threads::alone(&context)).unwrap()
    }

    /// All rows, by one worker.
    fn rows(engine: &Engine, scratch: &mut Scratch) -> Vec<Vec<f64>> {
        let n = engine.rows.roots.len();
        let mut row = |x| {
            let mut row = vec![f64::NAN; n];
            engine
                .row(&engine.rows, x, scratch, &mut row, &Context::default())
                .unwrap();
            row
        };
        (0..n).map(&mut row).collect()
    }

    #[test]
    fn values_kept_as_runs_are_the_same_to_the_last_bit() {
        let mut texts = random_trees(60, 100, 3);
        // Children of one label that differ: many arrays of long runs at a time.
        texts.extend([9, 30, 60].map(|n| {
            let below: Vec<_> = (0..n).map(|i| format!("(A x w{i})")).collect();
            format!("(S {})", below.join(" "))
        }));
        let engine = engine(&texts);
        let usual = rows(&engine, &mut engine.scratch().unwrap());
        let mut scratch = engine.scratch().unwrap();
        scratch.walk.fold_from(0);
        assert_eq!(rows(&engine, &mut scratch), usual);
        assert!(scratch.walk.n_folded() > 60, "{}", scratch.walk.n_folded());
        assert!(scratch.walk.is_clean());
    }

    #[test]
    fn an_interrupted_row_leaves_its_scratch_good() {
        let texts = [2000, 1500, 3]
            .map(|n| format!("(T (S {}) (S (A b) (A c b) (B c)))", "a ".repeat(n)));
        let engine = engine(&texts);
        let usual = rows(&engine, &mut engine.scratch().unwrap());
        let mut scratch = engine.scratch().unwrap();
        let mut n_calls = 0;
        let mut row = vec![0.0; 3];
        let stop = &Context::watched(|_, _| {
            n_calls += 1;
            if n_calls < 2 { Ok(()) } else { Err(Error::Interrupted) }
        })
        .with_interval(Duration::ZERO);
        assert_eq!(
            engine.row(&engine.rows, 0, &mut scratch, &mut row, stop),
            Err(Error::Interrupted)
        );
        assert!(scratch.walk.is_clean());
        assert_eq!(rows(&engine, &mut scratch), usual);
    }

    #[test]
    fn chains_of_one_label_need_two_arrays() {
        let chain = format!("{}x{}", "(A ".repeat(5_000), ")".repeat(5_000));
        let engine = engine(&[chain]);
        let mut scratch = engine.scratch().unwrap();
        assert!(rows(&engine, &mut scratch)[0][0] > 0.0);
        assert!(scratch.walk.is_clean());
        assert!(scratch.walk.n_arrays() <= 2);
    }
}
