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
//! ns per pair of the lower triangle, one thread, λ = 0.4, mean of 30 runs (merged pair by
//! pair in brackets): QC 0.78 [87], GRCT 0.82 [72], WSJ 1.06 [180], WSJs 0.97 [163]; with
//! leaf_weight QC 1.13 [130], GRCT 1.12 [107], WSJ 1.79 [272], WSJs 1.63 [254].
//! Preterminals in lists like the others took 1.23, 0.97, 1.81 and 1.67.
//!
//! # Complexity
//! A row takes time by the pairs (subtree, column) that match and, for the integers and
//! the output, by its length. Memory by the distinct subtrees of each tree.

use super::counts::{CountsScratch, Products};
use crate::intern::new_id;
use crate::kernel::{Bags, subtree};
use crate::lists::{Filling, Lists};
use crate::{NodeId, Nodes, Result};

/// "No number".
const NONE: u32 = u32::MAX;

/// The index.
#[derive(Debug)]
pub(crate) struct Engine {
    /// Per column: what it shares with no other; empty unless symmetric.
    alone: Vec<f64>,
    /// Lists of (tree, count), by number.
    lists: Lists<(u32, u32)>,
    /// Per row: lists with count in x times weight.
    rows: Lists<(u32, f64)>,
    /// Preterminals, leaves: subtrees of equal weight, counted in integers.
    levels: [Option<Products>; 2],
}

/// What one worker keeps from row to row.
#[derive(Debug)]
pub(crate) struct Scratch {
    levels: [CountsScratch; 2],
}

impl Engine {
    /// Indexes the trees of `columns` for rows from `rows` (None: from the same trees).
    pub(crate) fn new(
        nodes: &Nodes,
        decay: f64,
        leaf_weight: f64,
        columns: &Bags,
        rows: Option<&Bags>,
    ) -> Result<Self> {
        let weights = subtree::weights(nodes, decay, leaf_weight);
        let symmetric = rows.is_none();
        let rows = rows.unwrap_or(columns);
        let mut seen = vec![0u32; nodes.len()];
        for tree in 0..columns.len() {
            for &node in columns.nodes(tree) {
                seen[node.index()] += 1;
            }
        }
        let least = if symmetric { 2 } else { 1 };
        // Which way a node takes: its level, the lists, or none.
        let level = |node: NodeId| {
            if seen[node.index()] < least || weights[node.index()] == 0.0 {
                Way::None
            } else if nodes.is_leaf(node) {
                Way::Level(1)
            } else if nodes.is_preterminal(node) {
                Way::Level(0)
            } else {
                Way::List
            }
        };
        let ways: Vec<Way> =
            (0..nodes.len()).map(|n| level(NodeId(n as u32))).collect();
        let mut alone = Vec::new();
        if symmetric {
            for tree in 0..columns.len() {
                let own = columns.iter(tree).filter(|(n, _)| seen[n.index()] == 1);
                let value = own.map(|(node, count)| {
                    weights[node.index()] * f64::from(count) * f64::from(count)
                });
                alone.push(value.sum());
            }
        }
        let level = |level: u8, weight| {
            count_level(&ways, level, weight, columns, rows).map(Some)
        };
        let leaves = if leaf_weight > 0.0 { level(1, leaf_weight)? } else { None };
        let levels = [level(0, decay)?, leaves];
        let mut engine =
            Self { alone, lists: Lists::default(), rows: Lists::default(), levels };
        engine.build_lists(&ways, &weights, columns, rows)?;
        Ok(engine)
    }

    fn build_lists(
        &mut self,
        ways: &[Way],
        weights: &[f64],
        columns: &Bags,
        rows: &Bags,
    ) -> Result<()> {
        let listed = |trees: &Bags, tree: usize| -> Vec<(usize, u32)> {
            let all = trees.iter(tree).map(|(node, count)| (node.index(), count));
            all.filter(|&(node, _)| ways[node] == Way::List).collect()
        };
        // Lists are numbered as they are met, so that a tree's lie close to each other.
        let mut number = vec![NONE; ways.len()];
        let mut lens: Vec<u32> = Vec::new();
        let mut total = 0;
        for tree in 0..columns.len() {
            for (node, _) in listed(columns, tree) {
                if number[node] == NONE {
                    number[node] = lens.len() as u32;
                    lens.push(0);
                }
                lens[number[node] as usize] += 1;
                total += 1;
            }
        }
        new_id(total, "pairs of tree and subtree")?;
        let mut lists = Filling::new(lens, (0, 0));
        for tree in 0..columns.len() {
            for (node, count) in listed(columns, tree) {
                lists.put(number[node], (tree as u32, count));
            }
        }
        self.lists = lists.done();
        for tree in 0..rows.len() {
            for (node, count) in listed(rows, tree) {
                self.rows.push((number[node], weights[node] * f64::from(count)));
            }
            self.rows.close("subtrees of rows")?;
        }
        Ok(())
    }
}

/// How a subtree's matches are found.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    None,
    List,
    Level(u8),
}

/// Counts the subtrees of a level.
fn count_level(
    ways: &[Way],
    level: u8,
    weight: f64,
    columns: &Bags,
    rows: &Bags,
) -> Result<Products> {
    let mut number = vec![NONE; ways.len()];
    let mut n_symbols = 0;
    for (node, way) in ways.iter().enumerate() {
        if *way == Way::Level(level) {
            number[node] = n_symbols;
            n_symbols += 1;
        }
    }
    let number = &number;
    let of = |trees: &Bags, tree: usize| -> Vec<(u32, u32)> {
        let all = trees.iter(tree).map(|(n, count)| (number[n.index()], count));
        all.filter(|item| item.0 != NONE).collect()
    };
    let mut own = Lists::default();
    for tree in 0..rows.len() {
        own.extend(of(rows, tree));
        own.close("subtrees of rows")?;
    }
    let of_column = |tree| of(columns, tree).into_iter();
    Products::new(weight, n_symbols as usize, of_column, columns.len(), own)
}

impl super::Engine for Engine {
    type Scratch = Scratch;

    fn scratch(&self) -> Scratch {
        let of = |level: &Option<Products>| {
            level.as_ref().map_or_else(CountsScratch::default, |l| l.counts.scratch())
        };
        Scratch { levels: [of(&self.levels[0]), of(&self.levels[1])] }
    }

    fn row(&self, x: usize, scratch: &mut Scratch, row: &mut [f64]) {
        row.fill(0.0);
        for (level, scratch) in self.levels.iter().zip(&mut scratch.levels) {
            if let Some(level) = level {
                level.add_to(x, scratch, row);
            }
        }
        for &(list, weight) in self.rows.get(x) {
            for &(tree, count) in self.lists.get(list as usize) {
                let Some(value) = row.get_mut(tree as usize) else { break };
                *value += weight * f64::from(count);
            }
        }
        if let (Some(value), Some(alone)) = (row.get_mut(x), self.alone.get(x)) {
            *value += alone;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Engine as _, trial};
    use super::*;
    use crate::Forest;
    use crate::kernel::{Kernel, naive, sample};

    #[test]
    fn rows_are_the_definition_in_any_order() {
        let mut random = sample::Random(4);
        let mut n_pairs = 0;
        for round in 0..45 {
            let decay = [0.05, 0.4, 1.0][round % 3];
            let leaf_weight = [0.0, 0.4, 1.0][round / 3 % 3];
            let kernel = Kernel::Subtree { decay, leaf_weight };
            let forest = sample::forest(&mut random, 22, 30);
            let (nodes, roots) = (forest.nodes(), forest.roots());
            n_pairs += trial::check(
                &forest,
                &mut random,
                |columns, rows| {
                    Engine::new(nodes, decay, leaf_weight, columns, rows).unwrap()
                },
                |x, t| naive::kernel(&kernel, nodes, roots[x], roots[t]),
            );
        }
        assert!(n_pairs >= 10_000, "{n_pairs}");
    }

    #[test]
    fn a_node_of_100_000_children_and_a_chain_as_long_take_linear_time() {
        let n = 100_000;
        let chain = "(A ".repeat(n) + "A" + &")".repeat(n);
        let wide = String::from("(W") + &" (A A)".repeat(n) + ")";
        let forest = Forest::from_bracket_items([&*chain, &*wide, "(A A)"]).unwrap();
        let bags = Bags::new(forest.nodes(), forest.roots()).unwrap();
        let engine = Engine::new(forest.nodes(), 0.4, 1.0, &bags, None).unwrap();
        let mut row = [0.0; 2];
        engine.row(1, &mut engine.scratch(), &mut row);
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9 * b;
        let n = n as f64;
        assert!(close(row[0], 1.4 * n) && close(row[1], 1.4 * n * n), "{row:?}");
    }
}
