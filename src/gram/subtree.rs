//! Rows of the subtree kernel: a sparse matrix product.
//!
//! With F the matrix of counts (trees x distinct subtrees) and w the weights of
//! [`crate::kernel::subtree`], the Gram matrix is F diag(w) Fᵀ. A row goes through the
//! subtrees of its tree and adds to all columns that have them:
//!
//! ```text
//! K(x,t) = Σ_{inner s in x} w(s) count_x(s) count_t(s)
//! ```
//!
//! Which way a subtree takes depends on how many trees have it and on its weight:
//!
//! * in one column only: nothing to spread. In a symmetric matrix all of these make
//!   one number per tree, which goes to the diagonal (96 of 100 inner subtrees);
//! * weight λ^1 (preterminals) or `leaf_weight` (leaves): integers, by [`Products`], as
//!   a few of them ("the", ".") stand in most trees;
//! * others: a list of (tree, count) each, ascending, so that the trees up to x are a
//!   prefix.
//!
//! With weights of productions, or with functions f(count) in the place of counts, preterminals
//! weigh differently, and all subtrees go through lists.
//!
//! ns per pair of the lower triangle, one thread, λ = 0.4, mean of 30 runs (merged pair by
//! pair in brackets): QC 0.78 [87], GRCT 0.82 [72], WSJ 1.06 [180], WSJs 0.97 [163]; with
//! leaf_weight QC 1.13 [130], GRCT 1.12 [107], WSJ 1.79 [272], WSJs 1.63 [254].
//! Preterminals in lists like the others took 1.23, 0.97, 1.81 and 1.67.
//!
//! # Complexity
//! A row takes time by the pairs (subtree, column) that match and, for the integers and
//! the output, by its length. Memory by the distinct subtrees of each tree.

use crate::ids::{Id, IdVec, ListId, SymbolId, TreeId};
use crate::index::counts::{CountsScratch, Products};
use crate::index::id_map::{IdMap, Wanted};
use crate::intern::new_id;
use crate::kernel::TreeCounts;
use crate::kernel::subtree::Count;
use crate::memory::{extend, filled, push};
use crate::ragged::{Filler, Ragged};
use crate::{Context, Forest, NodeId, Nodes, Result};

/// The index.
#[derive(Debug)]
pub(crate) struct Engine<C = u32> {
    /// Lists of (tree, count).
    lists: Ragged<(TreeId, C)>,
    /// Preterminals, leaves: subtrees of equal weight, counted in integers.
    levels: [Option<Products<SymbolId>>; 2],
    /// Which way a subtree takes, and its weight.
    lookups: IdVec<NodeId, Lookup>,
    weights: IdVec<NodeId, f64>,
    rows: Rows,
    /// f(count).
    of_count: fn(u32) -> C,
}

/// Trees that are multiplied with the columns'.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// Lists with count in x times weight.
    lists: Ragged<(ListId, f64)>,
    /// Preterminals, leaves, with counts.
    levels: [Ragged<(SymbolId, u32)>; 2],
    /// Of a lower triangle: what each tree has with itself by subtrees of no other tree.
    alone: Vec<f64>,
}

/// What one worker keeps from row to row.
#[derive(Debug)]
pub(crate) struct Scratch {
    levels: [CountsScratch; 2],
}

impl<C: Count> Engine<C> {
    /// Indexes the trees of `columns`, for `whole` rows or the lower triangle, by the
    /// weights of all subtrees and what f makes of counts. `levels`: the weights that all
    /// preterminals and all leaves have, where they have one and f(count) is the count.
    pub(crate) fn new(
        nodes: &Nodes,
        weights: Vec<f64>,
        levels: Option<[f64; 2]>,
        of_count: fn(u32) -> C,
        columns: &TreeCounts,
        whole: bool,
    ) -> Result<Self> {
        // 1. How many trees have each subtree.
        let weights = IdVec::from(weights);
        let mut seen = IdVec::from(filled(0u32, nodes.len())?);
        for tree in 0..columns.len() {
            for &node in columns.nodes(tree) {
                seen[node] += 1;
            }
        }
        // Of a lower triangle, what one tree has alone meets no other tree.
        let least = if whole { 1 } else { 2 };
        // 2. What is in one tree only adds to the diagonal of a lower triangle.
        let mut alone = Vec::new();
        if !whole {
            for tree in 0..columns.len() {
                let alone_in_tree = columns.iter(tree).filter(|(n, _)| seen[*n] == 1);
                let value = alone_in_tree.map(|(node, count)| {
                    let count: f64 = of_count(count).into();
                    weights[node] * count * count
                });
                push(&mut alone, value.sum())?;
            }
        }
        // 3. Which way a subtree takes: its level, a list, or none. Numbered as they are met,
        // so that a tree's lie close to each other.
        let mut lookups = IdVec::from(filled(Lookup::None, nodes.len())?);
        let mut lens: IdVec<ListId, u32> = IdVec::default();
        let mut n_symbols = [0; 2];
        let mut total = 0;
        for tree in 0..columns.len() {
            for &node in columns.nodes(tree) {
                // A weight of 0 adds nothing, and such subtrees (leaves, as a rule) are
                // half of all.
                if seen[node] < least || weights[node] == 0.0 {
                    continue;
                }
                let lookup = &mut lookups[node];
                if *lookup == Lookup::None {
                    let level = match (nodes.is_leaf(node), nodes.is_preterminal(node))
                    {
                        _ if levels.is_none() => None,
                        (true, _) => Some(1),
                        (_, true) => Some(0),
                        _ => None,
                    };
                    *lookup = if let Some(level) = level {
                        n_symbols[level] += 1;
                        Lookup::Level(level as u8, SymbolId::at(n_symbols[level] - 1))
                    } else {
                        push(&mut lens, 0)?;
                        Lookup::List(ListId::at(lens.len() - 1))
                    };
                }
                if let Lookup::List(list) = *lookup {
                    lens[list] += 1;
                    total += 1;
                }
            }
        }
        // Ends of lists are `u32`.
        new_id(total, "pairs of tree and subtree")?;
        let mut lists = Filler::new(lens.into(), (TreeId(0), C::default()))?;
        // Trees ascend within each list, as they come in order.
        for tree in 0..columns.len() {
            for (node, count) in columns.iter(tree) {
                if let Lookup::List(list) = lookups[node] {
                    lists.put(list.0, (TreeId::at(tree), of_count(count)));
                }
            }
        }
        // 4. Integers for the levels, and the rows' view of all.
        let mut engine = Self {
            lists: lists.done(),
            // Made of what follows.
            levels: [None, None],
            lookups,
            weights,
            rows: Rows::default(),
            of_count,
        };
        // Columns are looked up as any rows are, by their own ids.
        let column_rows = engine.translate(columns, Some)?;
        for (level, weight) in levels.into_iter().flatten().enumerate() {
            if weight > 0.0 {
                let products = Products::new(
                    weight,
                    n_symbols[level],
                    &column_rows.levels[level],
                )?;
                engine.levels[level] = Some(products);
            }
        }
        engine.rows = Rows { alone, ..column_rows };
        Ok(engine)
    }

    /// What trees have in common with any column; `twin` is a node's in the columns'
    /// store.
    fn translate(
        &self,
        trees: &TreeCounts,
        twin: impl Fn(NodeId) -> Option<NodeId>,
    ) -> Result<Rows> {
        const WHAT: &str = "subtrees of rows";
        let mut rows = Rows::default();
        for tree in 0..trees.len() {
            for (node, count) in trees.iter(tree) {
                let Some(node) = twin(node) else { continue };
                match self.lookups[node] {
                    Lookup::None => {}
                    Lookup::List(list) => {
                        let weight = self.weights[node] * (self.of_count)(count).into();
                        rows.lists.push((list, weight))?;
                    }
                    Lookup::Level(level, symbol) => {
                        rows.levels[usize::from(level)].push((symbol, count))?;
                    }
                }
            }
            rows.lists.close(WHAT)?;
            rows.levels.iter_mut().try_for_each(|level| level.close(WHAT))?;
        }
        Ok(rows)
    }
}

/// How a subtree's matches are found.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Lookup {
    /// It has none.
    None,
    List(ListId),
    /// Preterminals or leaves, and its number among these.
    Level(u8, SymbolId),
}

impl<C: Count + 'static> super::Engine for Engine<C> {
    type Rows = Rows;
    type Scratch = Scratch;

    fn own_rows(&self) -> &Rows {
        &self.rows
    }

    fn scratch(&self) -> Result<Scratch> {
        let [first, second] = self.levels.each_ref().map(Option::as_ref);
        Ok(Scratch { levels: [Products::scratch(first)?, Products::scratch(second)?] })
    }

    fn row(
        &self,
        rows: &Rows,
        x: usize,
        scratch: &mut Scratch,
        row: &mut [f64],
        _: &Context,
    ) -> Result<()> {
        row.fill(0.0);
        let levels = self.levels.iter().zip(&rows.levels).zip(&mut scratch.levels);
        for ((level, symbols), scratch) in levels {
            if let Some(level) = level {
                level.add_to(symbols.get(x), scratch, row)?;
            }
        }
        for &(list, weight) in rows.lists.get(x) {
            for &(tree, count) in self.lists.get(list.index()) {
                // Trees ascend, so what is beyond the row ends the list.
                let Some(value) = row.get_mut(tree.index()) else { break };
                *value += weight * count.into();
            }
        }
        // Only rows of a lower triangle have such numbers, and `x` is its own column
        // there.
        if let (Some(value), Some(alone)) = (row.get_mut(x), rows.alone.get(x)) {
            *value += alone;
        }
        Ok(())
    }

    fn meets(&self, rows: &Rows, x: usize, most: usize) -> Result<Option<Vec<u32>>> {
        let mut met = Vec::new();
        for (level, symbols) in self.levels.iter().zip(&rows.levels) {
            if let Some(level) = level
                && !level.counts.meet(symbols.get(x), most, &mut met)?
            {
                return Ok(None);
            }
        }
        for &(list, _) in rows.lists.get(x) {
            let list = self.lists.get(list.index());
            if met.len() + list.len() > most {
                return Ok(None);
            }
            extend(&mut met, list.iter().map(|&(tree, _)| tree.0))?;
        }
        Ok(Some(met))
    }

    fn read(
        &self,
        columns: &Forest,
        rows: &Forest,
        trees: &TreeCounts,
        _: &Context,
    ) -> Result<(Option<Self>, Rows)> {
        let (store, columns) = (rows.nodes(), columns.nodes());
        let id_map = IdMap::of_trees(store, columns, Wanted::Nodes, trees, |_| None)?;
        Ok((None, self.translate(trees, |node| id_map.nodes[node].get())?))
    }

    fn nbytes(&self) -> usize {
        let counts = self.levels.iter().flatten().map(|level| level.counts.nbytes());
        let rows = self.rows.levels.iter().map(Ragged::nbytes).sum::<usize>();
        let lookups = self.lookups.len() * (size_of::<Lookup>() + size_of::<f64>());
        let rows = rows + self.rows.lists.nbytes() + self.lists.nbytes();
        counts.sum::<usize>() + rows + lookups + self.rows.alone.len() * 8
    }
}
