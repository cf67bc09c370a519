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

use crate::index::counts::{CountsScratch, Products};
use crate::index::id_map::{IdMap, Wanted};
use crate::intern::new_id;
use crate::kernel::TreeCounts;
use crate::kernel::subtree::Count;
use crate::memory::{collect, filled, push};
use crate::ragged::{Filler, Ragged};
use crate::{Context, Forest, NodeId, Nodes, Result};

/// "No number".
const NONE: u32 = u32::MAX;

/// The index.
#[derive(Debug)]
pub(crate) struct Engine<C = u32> {
    /// Lists of (tree, count), by number.
    lists: Ragged<(u32, C)>,
    /// Preterminals, leaves: subtrees of equal weight, counted in integers.
    levels: [Option<Products>; 2],
    /// By node: which way it takes, its number there, and its weight.
    lookups: Vec<Lookup>,
    number: Vec<u32>,
    weights: Vec<f64>,
    rows: Rows,
    /// f(count).
    of_count: fn(u32) -> C,
}

/// Trees that are multiplied with the columns'.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// Lists with count in x times weight.
    lists: Ragged<(u32, f64)>,
    /// Preterminals, leaves, with counts.
    levels: [Ragged<(u32, u32)>; 2],
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
        let mut seen = filled(0u32, nodes.len())?;
        for tree in 0..columns.len() {
            for &node in columns.nodes(tree) {
                seen[node.index()] += 1;
            }
        }
        // Of a lower triangle, what one tree has alone meets no other tree.
        let least = if whole { 1 } else { 2 };
        // 2. Which way a node takes: its level, the lists, or none.
        let level = |node: NodeId| {
            // A weight of 0 adds nothing, and such subtrees (leaves, as a rule) are
            // half of all.
            if seen[node.index()] < least || weights[node.index()] == 0.0 {
                Lookup::None
            } else if levels.is_none() {
                Lookup::List
            } else if nodes.is_leaf(node) {
                Lookup::Level(1)
            } else if nodes.is_preterminal(node) {
                Lookup::Level(0)
            } else {
                Lookup::List
            }
        };
        let lookups = collect((0..nodes.len()).map(|n| level(NodeId(n as u32))))?;
        // 3. What is in one tree only adds to the diagonal of a lower triangle.
        let mut alone = Vec::new();
        if !whole {
            for tree in 0..columns.len() {
                let alone_in_tree =
                    columns.iter(tree).filter(|(n, _)| seen[n.index()] == 1);
                let value = alone_in_tree.map(|(node, count)| {
                    let count: f64 = of_count(count).into();
                    weights[node.index()] * count * count
                });
                push(&mut alone, value.sum())?;
            }
        }
        // 4. Lists, numbered as they are met, so that a tree's lie close to each other.
        let mut number = filled(NONE, lookups.len())?;
        let mut lens: Vec<u32> = Vec::new();
        let mut n_symbols = [0; 2];
        let mut total = 0;
        for tree in 0..columns.len() {
            for &node in columns.nodes(tree) {
                let lookup = lookups[node.index()];
                let number = &mut number[node.index()];
                // Numbers count within each kind of look-up, so each has its own next one.
                let next = match lookup {
                    Lookup::None => continue,
                    Lookup::List => lens.len(),
                    Lookup::Level(level) => n_symbols[usize::from(level)],
                };
                if *number == NONE {
                    *number = next as u32;
                    match lookup {
                        // The same number serves all trees that have the subtree.
                        Lookup::Level(level) => n_symbols[usize::from(level)] += 1,
                        _ => push(&mut lens, 0)?,
                    }
                }
                if lookup == Lookup::List {
                    lens[*number as usize] += 1;
                    total += 1;
                }
            }
        }
        // Ends of lists are `u32`.
        new_id(total, "pairs of tree and subtree")?;
        let mut lists = Filler::new(lens, (0, C::default()))?;
        // Trees ascend within each list, as they come in order.
        for tree in 0..columns.len() {
            for (node, count) in columns.iter(tree) {
                if lookups[node.index()] == Lookup::List {
                    lists.put(number[node.index()], (tree as u32, of_count(count)));
                }
            }
        }
        // 5. Integers for the levels, and the rows' view of all.
        let mut engine = Self {
            lists: lists.done(),
            // Made of what follows.
            levels: [None, None],
            lookups,
            number,
            weights,
            rows: Rows::default(),
            of_count,
        };
        // Columns are looked up as any rows are, by their own ids.
        let column_rows = engine.translate(columns, |node| node)?;
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
    /// store, or one that is not there.
    fn translate(
        &self,
        trees: &TreeCounts,
        twin: impl Fn(NodeId) -> NodeId,
    ) -> Result<Rows> {
        const WHAT: &str = "subtrees of rows";
        let mut rows = Rows::default();
        for tree in 0..trees.len() {
            for (node, count) in trees.iter(tree) {
                let node = twin(node).index();
                // A subtree that the columns do not have has a number beyond the store.
                let Some(&number) = self.number.get(node).filter(|&&n| n != NONE)
                else {
                    continue;
                };
                match self.lookups[node] {
                    Lookup::None => {}
                    Lookup::List => {
                        let weight = self.weights[node] * (self.of_count)(count).into();
                        rows.lists.push((number, weight))?;
                    }
                    Lookup::Level(level) => {
                        rows.levels[usize::from(level)].push((number, count))?;
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
    None,
    List,
    Level(u8),
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
            for &(tree, count) in self.lists.get(list as usize) {
                // Trees ascend, so what is beyond the row ends the list.
                let Some(value) = row.get_mut(tree as usize) else { break };
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

    fn read(
        &self,
        columns: &Forest,
        rows: &Forest,
        trees: &TreeCounts,
        _: &Context,
    ) -> Result<(Option<Self>, Rows)> {
        let (store, columns) = (rows.nodes(), columns.nodes());
        let id_map = IdMap::of_trees(store, columns, Wanted::Nodes, trees, |_| None)?;
        let twin = |node: NodeId| NodeId(id_map.nodes[node.index()]);
        Ok((None, self.translate(trees, twin)?))
    }

    fn nbytes(&self) -> usize {
        let counts = self.levels.iter().flatten().map(|level| level.counts.nbytes());
        let rows = self.rows.levels.iter().map(Ragged::nbytes).sum::<usize>();
        let lookups = self.lookups.len() * (size_of::<Lookup>() + 12);
        let rows = rows + self.rows.lists.nbytes() + self.lists.nbytes();
        counts.sum::<usize>() + rows + lookups + self.rows.alone.len() * 8
    }
}
