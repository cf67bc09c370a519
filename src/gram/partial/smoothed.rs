//! Rows of the smoothed partial tree kernel.
//!
//! As those of the [partial tree kernel](super), with an index whose groups are of
//! [similar labels](crate::index::partial::similar). Pairs of nodes with equal labels add
//! integer dot products, those with similar ones the dot product of counts and
//!
//! ```text
//! w(y) = Σ_x σ(x,y) count(x) over the labels x of the row's tree, y ≠ x
//! ```
//!
//! for which lists have the trees of each label.
//!
//! # Complexity
//! That of the index; and for each row its labels times what is similar, and the occurrences of
//! that in the columns.

use std::sync::Arc;

use super::{Params, Weights};
use crate::gram::RowsOf;
use crate::ids::{GroupId, Id, IdVec, MemberId, SymbolId, TreeId};
use crate::index::counts::tally;
use crate::index::id_map::{IdMap, Wanted};
use crate::index::partial::similar::{Groups, OtherGroups, Similar as SimilarLabels};
use crate::kernel::similarity::{Block, NONE};
use crate::kernel::smoothed::Labels;
use crate::kernel::{PartialTree, SmoothedPartialTree, TreeCounts};
use crate::ragged::{Filler, Ragged};
use crate::threads::Threads;
use crate::{Context, Forest, Label, Nodes, Result, memory};

/// Labels of a store and their groups.
#[derive(Debug)]
pub(super) struct Similar {
    labels: Labels,
    groups: Groups,
}

impl Similar {
    pub(super) fn group(&self, label: Label) -> GroupId {
        self.groups.of(self.labels.number(label))
    }

    pub(super) fn leaf(&self, label: Label) -> MemberId {
        self.groups.leaf(self.labels.number(label))
    }

    pub(super) fn entered(&mut self, label: Label) -> Result<()> {
        self.groups.entered(self.labels.number(label))
    }
}

/// The index of some trees (columns), and others (rows) that walk it.
#[derive(Debug)]
pub(crate) struct Engine {
    kernel: SmoothedPartialTree,
    plain: super::Engine,
    similar: Similar,
    weights: Weights,
    /// By symbol: the columns' trees that have it, and how often. A symbol is twice the
    /// number of a label that is in a block, and 1 more for leaves.
    trees: Ragged<(TreeId, u32)>,
    /// By block: its labels.
    members: Vec<Vec<u32>>,
    rows: Rows,
}

/// Trees that walk the index.
#[derive(Debug)]
pub(crate) struct Rows {
    /// None: the columns.
    others: Option<OtherRows>,
    /// By tree: symbols with counts.
    symbols: Ragged<(SymbolId, u32)>,
}

/// Rows that are not the columns, and may have labels that no column has.
#[derive(Debug)]
struct OtherRows {
    plain: super::Rows,
    /// By label of their store: its number; of those that no column has behind the others.
    numbers: Vec<u32>,
    groups: OtherGroups,
}

/// What one worker keeps from row to row.
#[derive(Debug)]
pub(crate) struct Scratch {
    plain: super::Scratch,
    /// w; zero between rows.
    wanted: IdVec<SymbolId, f64>,
    touched: Vec<SymbolId>,
}

/// The labels of some trees, in the order of a walk.
fn labels_of(nodes: &Nodes, trees: &TreeCounts) -> impl Iterator<Item = Label> {
    let all = (0..trees.len()).flat_map(|tree| trees.nodes(tree));
    all.map(|&node| nodes.label(node))
}

impl Engine {
    /// Indexes the trees of `columns`, for some rows.
    ///
    /// # Errors
    /// As for partial trees, and those of the similarity.
    pub(crate) fn new(
        kernel: &SmoothedPartialTree,
        nodes: &Arc<Nodes>,
        columns: &TreeCounts,
        rows_of: RowsOf,
        threads: &Threads<'_>,
    ) -> Result<Self> {
        let PartialTree { decay, mu, leaf_factor, max_children } = kernel.tree;
        let params = Params { decay, mu, leaf_factor, max_children };
        // 1. Ask for similarities, in the order of a walk: sums are in that of labels.
        let labels =
            Labels::new(nodes, labels_of(nodes, columns), kernel, threads.context)?;
        let groups = Groups::new(Arc::clone(&labels.table))?;
        // 2. Index the trees.
        let mut similar = Similar { labels, groups };
        let some = Some(&mut similar);
        // No label counts as simple: two leaves that are similar add something as well.
        let simple = memory::filled(false, nodes.labels().len())?.into();
        let plain =
            super::Engine::build(nodes, params, columns, simple, some, threads)?;
        similar.groups.finish(&plain.index)?;
        // 3. List the trees of labels that are similar to others, or to labels that other
        // trees may bring.
        let table = &similar.groups.table;
        // Two symbols for a label: as that of an inner node, and of a leaf.
        let n_symbols = 2 * table.len();
        let is_similar = |label: usize| table.place(label).0 != NONE;
        let has_others = rows_of != RowsOf::LowerTriangle;
        let mut symbols = tally(columns, n_symbols, |node| {
            let label = similar.labels.number(nodes.label(node));
            let symbol = 2 * label as u32 + u32::from(nodes.is_leaf(node));
            (has_others || is_similar(label)).then_some(SymbolId(symbol))
        })?;
        // From trees with symbols to symbols with trees.
        let mut lens = memory::filled(0, n_symbols)?;
        for item in &symbols.items {
            lens[item.0.index()] += 1;
        }
        let mut trees = Filler::new(lens, (TreeId(0), 0))?;
        for (tree, symbols) in (0..).map(TreeId).zip(symbols.iter()) {
            for &(symbol, count) in symbols {
                trees.put(symbol.0, (tree, count));
            }
        }
        symbols.retain(|&(symbol, _)| is_similar(symbol.index() / 2));
        Ok(Self {
            kernel: kernel.clone(),
            rows: Rows { others: None, symbols },
            trees: trees.done(),
            members: table.members()?,
            weights: Weights::new(decay, mu, leaf_factor),
            plain,
            similar,
        })
    }

    /// Adds what single nodes with similar labels have. The scratch is clean again even after
    /// an error.
    fn add_similar(
        &self,
        (rows, x): (&Rows, usize),
        wanted: &mut IdVec<SymbolId, f64>,
        touched: &mut Vec<SymbolId>,
        row: &mut [f64],
    ) -> Result<()> {
        // In any case emptied, so that the next row starts from zeros.
        let done = self.weigh_similar((rows, x), wanted, touched);
        for symbol in touched.drain(..) {
            let weight = std::mem::take(&mut wanted[symbol]);
            for &(tree, count) in self.trees.get(symbol.index()) {
                let Some(value) = row.get_mut(tree.index()) else { break };
                *value += weight * f64::from(count);
            }
        }
        done
    }

    /// Sums up by symbol what it adds to a column that has it once, and notes which symbols
    /// have a sum.
    fn weigh_similar(
        &self,
        (rows, x): (&Rows, usize),
        wanted: &mut IdVec<SymbolId, f64>,
        touched: &mut Vec<SymbolId>,
    ) -> Result<()> {
        let table = &self.similar.groups.table;
        for &(symbol, count) in rows.symbols.get(x) {
            let (label, is_leaf) = (symbol.0 / 2, symbol.0 % 2 == 1);
            // What one node weighs with an inner node, and with a leaf.
            let weights = [false, true]
                .map(|is_other| self.weights.of(is_leaf, is_other) * f64::from(count));
            let mut add = |other: u32, sigma: f64| -> Result<()> {
                // Equal labels are counted by the plain products.
                if other == label || sigma == 0.0 {
                    return Ok(());
                }
                for (symbol, weight) in (2 * other..).map(SymbolId).zip(weights) {
                    let sum = &mut wanted[symbol];
                    // A sum that cancels to 0 is noted again, and then adds 0 when it
                    // is read the second time.
                    if *sum == 0.0 {
                        memory::push(touched, symbol)?;
                    }
                    *sum += sigma * weight;
                }
                Ok(())
            };
            // A label that no column has tells its similar ones itself.
            if let (Some(others), Some(label)) =
                (&rows.others, (label as usize).checked_sub(table.len()))
            {
                for &(other, sigma) in &others.groups.similar[label] {
                    add(other, sigma)?;
                }
                continue;
            }
            let (block, place) = table.place(label as usize);
            let members = &self.members[block as usize];
            match &table.blocks()[block as usize] {
                Block::Matrix { n, values } => {
                    let row = &values[place as usize * n..][..*n];
                    for (&other, &sigma) in members.iter().zip(row) {
                        add(other, sigma)?;
                    }
                }
                Block::Rows { .. } => {
                    let row = table.row(block as usize, place as usize);
                    for &(place, sigma) in row {
                        add(members[place as usize], sigma)?;
                    }
                }
            }
        }
        Ok(())
    }
}

impl crate::gram::Engine for Engine {
    type Rows = Rows;
    type Scratch = Scratch;

    fn own_rows(&self) -> &Rows {
        &self.rows
    }

    fn scratch(&self) -> Result<Scratch> {
        Ok(Scratch {
            plain: crate::gram::Engine::scratch(&self.plain)?,
            wanted: memory::filled(0.0, 2 * self.similar.groups.table.len())?.into(),
            touched: Vec::new(),
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
        let Scratch { plain, wanted, touched } = scratch;
        let Similar { labels, groups } = &self.similar;
        let (plain_rows, numbers, others) = match &rows.others {
            None => (&self.plain.rows, &labels.numbers, None),
            Some(OtherRows { plain, numbers, groups }) => {
                (plain, numbers, Some(groups))
            }
        };
        let matching = SimilarLabels { groups, numbers, others };
        let trees = self.plain.start_row(plain_rows, x, plain, row.len())?;
        self.add_similar((rows, x), wanted, touched, trees)?;
        self.plain.finish_row(plain_rows, x, matching, plain, row, context)?;
        for value in row.iter_mut().filter(|value| value.is_infinite()) {
            *value = f64::INFINITY; // of either sign an overflow
        }
        Ok(())
    }

    fn read(
        &self,
        columns: &Forest,
        rows: &Forest,
        trees: &TreeCounts,
        context: &Context,
    ) -> Result<(Option<Self>, Rows)> {
        let (nodes, Similar { labels, groups }) = (rows.nodes(), &self.similar);
        let table = &groups.table;
        // 1. Number their labels as the columns' are, and ask for those that these do not
        // have.
        let id_map = IdMap::new(nodes, columns.nodes(), Wanted::Labels, |_| None)?;
        let (numbers, similar) = labels.others(
            &self.kernel,
            (nodes, &id_map.labels),
            labels_of(nodes, trees),
            context,
        )?;
        // 2. Count those that are similar to others.
        let n_symbols = 2 * (table.len() + similar.len());
        let symbols = tally(trees, n_symbols, |node| {
            let label = numbers[nodes.label(node).index()];
            let is_similar = match (label as usize).checked_sub(table.len()) {
                None => table.place(label as usize).0 != NONE,
                Some(other) => !similar[other].is_empty(),
            };
            is_similar.then_some(SymbolId(2 * label + u32::from(nodes.is_leaf(node))))
        })?;
        let groups = OtherGroups::new(groups, &self.plain.index, similar)?;
        let plain = self.plain.rows_of(nodes, id_map, trees)?;
        Ok((None, Rows { others: Some(OtherRows { plain, numbers, groups }), symbols }))
    }

    fn nbytes(&self) -> usize {
        let lists = self.trees.nbytes() + self.rows.symbols.nbytes();
        self.plain.nbytes() + lists + self.similar.groups.nbytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::random_trees;
    use crate::gram::Engine as _;
    use crate::kernel::LabelPairs;
    use crate::{Error, Forest};

    /// Labels of random trees in a block that is a matrix, in one by rows, and in none; and
    /// wide nodes, which go by grids.
    fn engine() -> Engine {
        let name = |i: usize| format!("l{i}");
        let dense = (0..6).flat_map(|i| (0..i).map(move |j| (i, j)));
        let sparse = (8..30).map(|i| (i, i + 1));
        let pairs: Vec<_> =
            dense.chain(sparse).map(|(i, j)| (name(i), name(j))).collect();
        let similarity =
            LabelPairs::new(pairs.iter().map(|(x, y)| (x.as_str(), y.as_str(), 0.3)));
        let mut texts = random_trees(60, 80, 3);
        for n in [9, 40] {
            let below: Vec<_> =
                (0..n).map(|i| format!("(l{} (l{} l9))", i % 8, i % 12)).collect();
            texts.push(format!("(l0 {} (l1 {}))", below.join(" "), below.join(" ")));
        }
        let forest =
            Forest::from_bracket_items(texts.iter().map(String::as_str)).unwrap();
        let context = Context::default();
        let nodes = forest.nodes();
        let trees = TreeCounts::read(nodes, forest.roots(), &context).unwrap();
        let kernel = SmoothedPartialTree::new(PartialTree::default(), similarity);
        let threads = Threads::alone(&context);
        Engine::new(&kernel, nodes, &trees, RowsOf::Columns, &threads).unwrap()
    }

    fn rows(engine: &Engine, scratch: &mut Scratch) -> Result<Vec<Vec<f64>>> {
        let n = engine.plain.rows.roots.len();
        let mut row = |x| {
            let mut row = vec![f64::NAN; n];
            let context = &Context::default();
            engine.row(&engine.rows, x, scratch, &mut row, context).map(|()| row)
        };
        (0..n).map(&mut row).collect()
    }

    #[test]
    fn values_kept_as_runs_are_the_same_to_the_last_bit() {
        let engine = engine();
        let usual = rows(&engine, &mut engine.scratch().unwrap());
        let mut scratch = engine.scratch().unwrap();
        scratch.plain.walk.fold_from(0);
        assert_eq!(rows(&engine, &mut scratch), usual);
        let n_folded = scratch.plain.walk.n_folded();
        assert!(n_folded > 60, "{n_folded}");
        assert!(scratch.plain.walk.is_clean());
    }

    #[test]
    fn a_row_of_too_many_values_is_refused_and_leaves_its_scratch_good() {
        let engine = engine();
        let usual = rows(&engine, &mut engine.scratch().unwrap());
        let mut scratch = engine.scratch().unwrap();
        let limit = scratch.plain.walk.refuse_from(100);
        let refused = rows(&engine, &mut scratch);
        assert!(matches!(refused, Err(Error::Capacity { limit: 100, .. })));
        assert!(scratch.plain.walk.is_clean());
        scratch.plain.walk.refuse_from(limit);
        assert_eq!(rows(&engine, &mut scratch), usual);
    }
}
