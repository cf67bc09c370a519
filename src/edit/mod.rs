//! Tree edit distance: the least that it costs to make one tree another.
//!
//! A mapping pairs nodes of two ordered trees one to one and keeps ancestors and the order
//! from left to right (Tai, "The tree-to-tree correction problem", JACM 1979). It costs
//!
//! ```text
//! Σ rename(u, v)  over its pairs   +   Σ delete(u) + Σ insert(v)  over all other nodes
//! ```
//!
//! and the distance d(a, b) is that of the cheapest one. With D, the cost of deleting all of
//! a, and I, that of inserting all of b:
//!
//! | [`Normalization`] | value | |
//! |---|---|---|
//! | none | d | |
//! | `Max` | d / max(D, I) | by the larger tree at unit costs; may exceed 1 |
//! | `Sum` | d / (D + I) | from 0 to 1 |
//! | `Metric` | 2d / (D + I + d) | from 0 to 1; a metric, where costs are one |
//!
//! Where nothing costs anything the value is 0. The last one: Li & Chenguang, "A metric
//! normalization of tree edit distance", Frontiers of Computer Science 2011.
//!
//! An [`EditDistance`] is a [measure](crate::gram::Measure) of trees: matrices, rows and
//! lists of pairs are those of [`gram`](crate::gram) and [`neighbours`](crate::neighbours).
//! `costs.rs` has costs, `order.rs` trees as arrays, `distance.rs` the recursion,
//! `strategy.rs` and `forests.rs` that of trees that turn, `bounded.rs` that of distances
//! that are small, `trim.rs` takes off what is equal outside, `search.rs` says which trees are
//! near, `mapping.rs` traces back.
//!
//! ```
//! use treekernel_rs::edit::EditDistance;
//! use treekernel_rs::{Forest, gram};
//!
//! let forest = Forest::from_brackets("(f (d (a) (c (b))) (e)) (f (c (d (a) (b))) (e))")?;
//! let matrix = gram::gram(&EditDistance::default(), &forest, None, Default::default())?;
//! assert_eq!(matrix[[0, 1]], 2.0); // delete c, and insert it elsewhere
//! # Ok::<(), treekernel_rs::Error>(())
//! ```
//!
//! # Complexity
//! See `distance.rs`. Memory besides: 16 bytes for each node of each tree.

mod bounded;
mod bounds;
mod costs;
mod distance;
mod forests;
mod mapping;
mod order;
mod search;
mod strategy;
mod text;
mod trim;

use std::sync::Arc;

use crate::NodeId;
use crate::gram::{Measure, Near, gathered};
use crate::kernel::{Prepared, Scaled, Worker};
use crate::{Context, Error, Forest, Result, memory};
use bounded::Bounded;
use costs::{
    ConstantCosts, Costs, Gains, LabelCosts, MOST_UNITS, NO_CODE, PairGains, Unit,
    UnitCosts,
};
pub use costs::{NodeCosts, RenameCosts, RenameFunction};
use distance::{Tables, saving};
pub use mapping::Mapping;
use mapping::mapping;
use order::{BothOrders, Order, Orders, Sides};
use search::Neighbourhood;
use trim::Trimmed;

/// What distances are divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Normalization {
    /// d / max(D, I).
    Max,
    /// d / (D + I).
    Sum,
    /// 2d / (D + I + d).
    Metric,
}

impl Normalization {
    /// The value of distance `d`.
    fn divide(self, d: f64, delete: f64, insert: f64) -> f64 {
        let (part, whole) = match self {
            Self::Max => (d, delete.max(insert)),
            Self::Sum => (d, delete + insert),
            Self::Metric => (2.0 * d, delete + insert + d),
        };
        if whole == 0.0 { 0.0 } else { part / whole }
    }

    /// The largest distance of which that is `value`.
    fn multiply(self, value: f64, delete: f64, insert: f64) -> f64 {
        match self {
            Self::Max => value * delete.max(insert),
            Self::Sum => value * (delete + insert),
            Self::Metric if value >= 2.0 => f64::INFINITY,
            Self::Metric => value * (delete + insert) / (2.0 - value),
        }
    }
}

/// Tree edit distance with its costs. The default is that of unit costs.
#[derive(Debug, Clone)]
pub struct EditDistance {
    costs: Arc<Costs>,
    normalization: Option<Normalization>,
    /// Distances above need not be known.
    most: Option<f64>,
}

impl Default for EditDistance {
    fn default() -> Self {
        Self::new(1.0, 1.0, 1.0)
    }
}

impl EditDistance {
    /// The distance of some costs.
    pub fn new(
        rename: impl Into<RenameCosts>,
        insert: impl Into<NodeCosts>,
        delete: impl Into<NodeCosts>,
    ) -> Self {
        let (rename, insert, delete) = (rename.into(), insert.into(), delete.into());
        let costs = Arc::new(Costs { rename, insert, delete });
        Self { costs, normalization: None, most: None }
    }

    /// This distance, divided.
    #[must_use]
    pub fn with_normalization(self, normalization: Option<Normalization>) -> Self {
        Self { normalization, ..self }
    }

    /// The distance of the first trees of two forests.
    ///
    /// # Errors
    /// [`Error::Parameter`], [`Error::Length`] for a forest without trees,
    /// [`Error::Expansion`], [`Error::Memory`].
    pub fn pair(&self, a: &Forest, b: &Forest) -> Result<f64> {
        self.pair_with(a, b, &Context::default())
    }

    /// As [`pair`](Self::pair), in a context.
    ///
    /// # Errors
    /// As [`pair`](Self::pair), and what `context` returns.
    pub fn pair_with(&self, a: &Forest, b: &Forest, context: &Context) -> Result<f64> {
        let both = self.both(a, b, context)?;
        let trees = Trees::new(self, &both, context)?;
        let [first, second] = [0, 1].map(|at| both.roots()[at]);
        let last = usize::from(first != second);
        trees.distance([0, last], &mut Scratch::default(), context)
    }

    /// The distance of the first trees of two forests, if it is at most `most`.
    ///
    /// # Errors
    /// As [`pair`](Self::pair), and [`Error::Parameter`] for NaN.
    pub fn pair_within(
        &self,
        a: &Forest,
        b: &Forest,
        most: f64,
    ) -> Result<Option<f64>> {
        self.pair_within_with(a, b, most, &Context::default())
    }

    /// As [`pair_within`](Self::pair_within), in a context.
    ///
    /// # Errors
    /// As [`pair_within`](Self::pair_within), and what `context` returns.
    pub fn pair_within_with(
        &self,
        a: &Forest,
        b: &Forest,
        most: f64,
        context: &Context,
    ) -> Result<Option<f64>> {
        if most.is_nan() {
            let (name, expected) = ("max_distance", "a number");
            return Err(Error::Parameter { name, expected, got: most.to_string() });
        }
        let within = Self { most: Some(most), ..self.clone() };
        Ok(Some(within.pair_with(a, b, context)?).filter(|&d| d <= most))
    }

    /// What becomes of the nodes of the first trees of two forests, at the least cost.
    ///
    /// # Errors
    /// As [`pair`](Self::pair).
    pub fn mapping(&self, a: &Forest, b: &Forest) -> Result<Mapping> {
        self.mapping_with(a, b, &Context::default())
    }

    /// As [`mapping`](Self::mapping), in a context.
    ///
    /// # Errors
    /// As [`mapping`](Self::mapping), and what `context` returns.
    pub fn mapping_with(
        &self,
        a: &Forest,
        b: &Forest,
        context: &Context,
    ) -> Result<Mapping> {
        let both = self.both(a, b, context)?;
        let trees = Trees::new(self, &both, context)?;
        let (prices, mut gains) = (trees.prices([0, 1]), PairGains::default());
        let (costs, sides) = (&prices.labels.costs, trees.sides([0, 1]).cheapest());
        let (sides, gains) = costs.between(&sides, &mut gains, context)?;
        let (mapping, saved) = mapping(&sides, gains, context)?;
        let cost = (prices.delete + prices.insert - saved) * costs.unit;
        Ok(Mapping { cost, ..mapping })
    }

    /// The first trees of two forests, in a store of their own.
    fn both(&self, a: &Forest, b: &Forest, context: &Context) -> Result<Forest> {
        self.check()?;
        for (array, forest) in [("a", a), ("b", b)] {
            if forest.is_empty() {
                let expected = "1 or more: the first tree is compared".to_owned();
                return Err(Error::Length { array, expected, got: 0 });
            }
        }
        gathered([(a, &[0]), (b, &[0])], context)
    }
}

impl Measure<Forest> for EditDistance {
    fn check(&self) -> Result<()> {
        self.costs.check()?;
        if self.normalization == Some(Normalization::Metric)
            && !self.costs.are_metric()?
        {
            let (name, expected) = (
                "normalize",
                "None, 'max' or 'sum' for costs that are \
                                                  not known to be a metric",
            );
            return Err(Error::Parameter {
                name,
                expected,
                got: "'metric'".to_owned(),
            });
        }
        Ok(())
    }

    fn prepare(&self, trees: &Forest, context: &Context) -> Result<Box<dyn Prepared>> {
        Ok(Box::new(Trees::new(self, trees, context)?))
    }

    fn is_symmetric(&self) -> bool {
        self.costs.is_symmetric()
    }

    fn is_distance(&self) -> bool {
        true
    }

    fn within(&self, most: f64) -> Option<Box<dyn Measure<Forest>>> {
        Some(Box::new(Self { most: Some(most), ..self.clone() }))
    }

    fn near(
        &self,
        trees: &Forest,
        n_columns: usize,
        context: &Context,
    ) -> Result<Option<Arc<dyn Near<Forest>>>> {
        let trees = Trees::new(self, trees, context)?;
        let near = Neighbourhood::new(trees, n_columns, context)?;
        Ok(near.map(|near| Arc::new(near) as Arc<dyn Near<Forest>>))
    }
}

/// Trees made ready, and others that ask these.
struct Trees {
    columns: Arc<Columns>,
    /// Numbered behind the columns; none where these ask each other.
    asking: TreeArrays,
    /// Codes are below.
    n_labels: usize,
    normalization: Option<Normalization>,
    /// Distances above need not be known.
    most: Option<f64>,
}

/// Trees, and the costs of their labels.
struct Columns {
    trees: Forest,
    arrays: TreeArrays,
    /// By label: its code, if a tree has it.
    codes: Vec<u32>,
    labels: LabelPrices,
    /// In large units, if there are trees that need them.
    in_large_units: Option<LabelPrices>,
}

/// Trees as arrays.
struct TreeArrays {
    roots: Vec<NodeId>,
    orders: BothOrders,
    totals: Totals,
    /// In large units, if there are trees that need them.
    in_large_units: Option<Totals>,
}

/// By tree, in units: what it costs to delete it, to insert it.
struct Totals {
    delete: Vec<f64>,
    insert: Vec<f64>,
}

/// Costs of labels in some unit.
struct LabelPrices {
    costs: UnitCosts,
    /// The largest gain.
    gain: f64,
    /// The costs, if they do not depend on labels.
    constant: Option<ConstantCosts>,
}

/// What two trees cost, in the smallest unit in which that adds up exactly.
#[derive(Clone, Copy)]
struct Prices<'a> {
    labels: &'a LabelPrices,
    /// What it costs to delete the first, and to insert the second.
    delete: f64,
    insert: f64,
}

/// What one worker keeps from pair to pair.
#[derive(Default)]
struct Scratch {
    tables: Tables,
    gains: PairGains,
    trimmed: Trimmed,
}

impl LabelPrices {
    fn new(costs: UnitCosts) -> Self {
        let (gain, constant) = (costs.gains.largest(), costs.constant());
        Self { costs, gain, constant }
    }
}

impl TreeArrays {
    fn none() -> Self {
        let totals = Totals { delete: Vec::new(), insert: Vec::new() };
        let orders = BothOrders([false, true].map(Orders::empty));
        Self { roots: Vec::new(), orders, totals, in_large_units: None }
    }

    fn nbytes(&self) -> usize {
        let orders: usize = self.orders.0.iter().map(Orders::nbytes).sum();
        let n_totals = 2 * (1 + usize::from(self.in_large_units.is_some()));
        orders + self.roots.len() * (4 + n_totals * size_of::<f64>())
    }
}

impl Totals {
    fn new(costs: &UnitCosts, orders: &Orders, n_trees: usize) -> Result<Self> {
        let total = |costs: &[f64], tree: usize| {
            let labels = orders.get(tree).labels.iter();
            labels.map(|&label| costs[label as usize]).sum::<f64>()
        };
        let totals = |costs: &[f64]| {
            memory::collect((0..n_trees).map(|tree| total(costs, tree)))
        };
        Ok(Self { delete: totals(&costs.delete)?, insert: totals(&costs.insert)? })
    }

    /// Of trees of these sizes, where costs do not depend on labels.
    fn constant(costs: &ConstantCosts, sizes: &[u64]) -> Result<Self> {
        // Whole numbers of units: they are what their sums are.
        let totals =
            |cost: f64| memory::collect(sizes.iter().map(|&size| size as f64 * cost));
        Ok(Self { delete: totals(costs.delete)?, insert: totals(costs.insert)? })
    }
}

impl Trees {
    fn new(measure: &EditDistance, trees: &Forest, context: &Context) -> Result<Self> {
        let costs = &measure.costs;
        let (by_label, codes) = LabelCosts::new(costs, trees, context)?;
        let sizes = trees.try_n_nodes()?;
        let orders = BothOrders::new(trees, &sizes, &codes, context)?;
        let most = sizes.into_iter().max().unwrap_or(0);
        let totals = |labels: &LabelPrices| {
            Totals::new(&labels.costs, &orders.0[0], trees.len())
        };
        let large = if by_label.may_exceed(most, costs, Unit::Small) {
            let large = by_label.copied()?.in_units(costs, Unit::Large)?;
            Some(LabelPrices::new(large))
        } else {
            None
        };
        let labels = LabelPrices::new(by_label.in_units(costs, Unit::Small)?);
        let n_labels = labels.costs.delete.len();
        let arrays = TreeArrays {
            roots: memory::copied(trees.roots())?,
            totals: totals(&labels)?,
            in_large_units: large.as_ref().map(totals).transpose()?,
            orders,
        };
        let trees = trees.clone();
        let columns = Columns { trees, arrays, codes, labels, in_large_units: large };
        Ok(Self {
            columns: Arc::new(columns),
            asking: TreeArrays::none(),
            n_labels,
            normalization: measure.normalization,
            most: measure.most,
        })
    }

    /// The same columns, asked by other trees for distances up to `most`. None: these need
    /// larger units than the columns, or costs depend on labels.
    fn asked_by(
        &self,
        trees: &Forest,
        most: Option<f64>,
        context: &Context,
    ) -> Result<Option<Self>> {
        let Columns { trees: columns, codes, labels, in_large_units, .. } =
            &*self.columns;
        let Some(costs) = &labels.constant else { return Ok(None) };
        let sizes = trees.try_n_nodes()?;
        let largest = sizes.iter().max().copied().unwrap_or(0) as f64;
        let large = in_large_units.as_ref().and_then(|large| large.constant.as_ref());
        if large.is_none() && (costs.delete + costs.insert + 1.0) * largest > MOST_UNITS
        {
            return Ok(None);
        }
        // 1. Labels that the columns do not have are numbered behind theirs.
        let (here, there) = (trees.nodes(), columns.nodes());
        let mut n_labels = labels.costs.delete.len();
        let mut own_codes = memory::filled(NO_CODE, here.labels().len())?;
        for label in trees.try_used_labels()? {
            let known = there.labels().get(here.labels().name(label));
            let known = known.map(|label| codes[label.index()]);
            own_codes[label.index()] = match known {
                Some(code) if code != NO_CODE => code,
                _ => {
                    n_labels += 1;
                    n_labels as u32 - 1
                }
            };
        }
        // 2. A tree that is a column has its root; no column has that of the others.
        let mut roots = Vec::new();
        for &root in trees.roots() {
            let root = here.try_find_in(root, there)?;
            memory::push(&mut roots, root.unwrap_or(NodeId(u32::MAX)))?;
        }
        let asking = TreeArrays {
            roots,
            orders: BothOrders::new(trees, &sizes, &own_codes, context)?,
            totals: Totals::constant(costs, &sizes)?,
            in_large_units: large
                .map(|costs| Totals::constant(costs, &sizes))
                .transpose()?,
        };
        let (columns, normalization) = (Arc::clone(&self.columns), self.normalization);
        Ok(Some(Self { columns, asking, n_labels, normalization, most }))
    }

    /// How many trees there are, those that ask included.
    fn len(&self) -> usize {
        self.n_columns() + self.asking.roots.len()
    }

    fn n_columns(&self) -> usize {
        self.columns.arrays.roots.len()
    }

    /// Where a tree stands.
    #[inline]
    fn arrays(&self, tree: usize) -> (&TreeArrays, usize) {
        match tree.checked_sub(self.n_columns()) {
            None => (&self.columns.arrays, tree),
            Some(tree) => (&self.asking, tree),
        }
    }

    /// A tree from both sides.
    #[inline]
    fn orders(&self, tree: usize) -> [Order<'_>; 2] {
        let (arrays, tree) = self.arrays(tree);
        arrays.orders.0.each_ref().map(|orders| orders.get(tree))
    }

    /// Two trees from the left.
    fn sides(&self, pair: [usize; 2]) -> Sides<'_> {
        let [a, b] = pair.map(|tree| self.orders(tree));
        Sides { trees: [a[0], b[0]], others: [a[1], b[1]] }
    }

    #[inline]
    fn size(&self, tree: usize) -> u32 {
        let (arrays, tree) = self.arrays(tree);
        arrays.orders.0[0].size(tree)
    }

    #[inline]
    fn prices(&self, pair: [usize; 2]) -> Prices<'_> {
        let [(first, a), (second, b)] = pair.map(|tree| self.arrays(tree));
        let prices = |labels, [first, second]: [&Totals; 2]| {
            let (delete, insert) = (first.delete[a], second.insert[b]);
            Prices { labels, delete, insert }
        };
        let Columns { labels, in_large_units, .. } = &*self.columns;
        let small = prices(labels, [&first.totals, &second.totals]);
        let large = [&first.in_large_units, &second.in_large_units];
        match (in_large_units, large) {
            (Some(labels), [Some(first), Some(second)])
                if small.delete + small.insert > MOST_UNITS =>
            {
                prices(labels, [first, second])
            }
            _ => small,
        }
    }

    fn distance(
        &self,
        pair: [usize; 2],
        scratch: &mut Scratch,
        context: &Context,
    ) -> Result<f64> {
        if self.are_equal(pair) {
            return Ok(0.0);
        }
        match self.most {
            Some(most) => self.within(pair, most, scratch, context),
            None => self.full(pair, scratch, context),
        }
    }

    /// Whether two trees are equal, and a tree that stays as it is costs nothing.
    fn are_equal(&self, pair: [usize; 2]) -> bool {
        let [a, b] = pair.map(|tree| {
            let (arrays, tree) = self.arrays(tree);
            arrays.roots[tree]
        });
        a == b && self.prices(pair).labels.costs.is_staying_free
    }

    fn full(
        &self,
        pair: [usize; 2],
        scratch: &mut Scratch,
        context: &Context,
    ) -> Result<f64> {
        let Scratch { tables, gains, trimmed } = scratch;
        let (sides, off) = self.trimmed(pair, trimmed)?;
        let costs = &self.prices(pair).labels.costs;
        let (sides, gains) = costs.between(&sides, gains, context)?;
        let saved = saving(&sides, gains, tables, context)?;
        Ok(self.value(pair, off + saved))
    }

    /// Two trees without what is equal at their outside, and what that saves.
    fn trimmed<'a>(
        &'a self,
        pair: [usize; 2],
        trimmed: &'a mut Trimmed,
    ) -> Result<(Sides<'a>, f64)> {
        let sides = self.sides(pair);
        let Some(costs) = &self.prices(pair).labels.constant else {
            return Ok((sides.cheapest(), 0.0));
        };
        let (sides, n_lost) = trimmed.trim(&sides)?;
        Ok((sides, n_lost as f64 * costs.equal))
    }

    /// The distance where the best mapping saves so much.
    fn value(&self, pair: [usize; 2], saved: f64) -> f64 {
        self.value_at(&self.prices(pair), saved)
    }

    #[inline]
    fn value_at(&self, prices: &Prices<'_>, saved: f64) -> f64 {
        let Prices { labels, delete, insert } = *prices;
        let d = delete + insert - saved;
        match self.normalization {
            None => d * labels.costs.unit,
            Some(normalization) => normalization.divide(d, delete, insert),
        }
    }

    /// What the best mapping costs at most, in units, if the distance is at most `most`; a
    /// little more, as that is rounded.
    fn largest(&self, most: f64, unit: f64, delete: f64, insert: f64) -> f64 {
        let largest = match self.normalization {
            None => most / unit,
            Some(normalization) => normalization.multiply(most, delete, insert),
        };
        largest * (1.0 + 1e-9)
    }

    /// The distance, or more than `most` if it is more.
    fn within(
        &self,
        pair: [usize; 2],
        most: f64,
        scratch: &mut Scratch,
        context: &Context,
    ) -> Result<f64> {
        let labels = self.prices(pair).labels;
        let shorter = self.size(pair[0]).min(self.size(pair[1]));
        let is_beyond = |saved: f64| self.value(pair, saved) > most;
        if is_beyond(f64::from(shorter) * labels.gain) {
            return Ok(f64::INFINITY);
        }
        if let Some(costs) = &labels.constant {
            self.ask(pair[0], &mut scratch.tables)?;
            let n_most = self.most_edits(pair, most, costs);
            let tables = &mut scratch.tables;
            let least = self.least_edits(pair[1], n_most, tables, context)?;
            let Some(least) = least else { return Ok(f64::INFINITY) };
            return self.close(pair, [least, n_most], costs, scratch, context);
        }
        let Sides { trees, others } = self.sides(pair);
        for side in [trees, others] {
            let [a, b] = side.map(|tree| tree.labels);
            let (gains, row) = (&labels.costs.gains, &mut scratch.tables.row);
            if is_beyond(bounds::by_alignment(a, b, gains, row, context)?) {
                return Ok(f64::INFINITY);
            }
        }
        self.full(pair, scratch, context)
    }

    /// Sets the labels from which string edit distances are asked for.
    fn ask(&self, tree: usize, tables: &mut Tables) -> Result<()> {
        for (order, strings) in self.orders(tree).iter().zip(&mut tables.strings) {
            strings.read(order.labels, self.n_labels)?;
        }
        Ok(())
    }

    /// How many edits a mapping has at most that costs at most `most`.
    fn most_edits(&self, pair: [usize; 2], most: f64, costs: &ConstantCosts) -> u32 {
        let Prices { labels, delete, insert } = self.prices(pair);
        let largest = self.largest(most, labels.costs.unit, delete, insert);
        let n_edits = (largest / costs.edit).ceil() as u32; // 0 for what is below it
        n_edits.min(self.size(pair[0]) + self.size(pair[1]))
    }

    /// How many edits there are at least between the tree whose labels have been set and
    /// another. None: more than `most`.
    fn least_edits(
        &self,
        tree: usize,
        most: u32,
        tables: &mut Tables,
        context: &Context,
    ) -> Result<Option<u32>> {
        let mut least = 0;
        for (order, strings) in self.orders(tree).iter().zip(&mut tables.strings) {
            least = strings.distance(order.labels, most, context)?.max(least);
            if least > most {
                return Ok(None);
            }
        }
        Ok(Some(least))
    }

    /// No more than the distance where so many edits are needed.
    fn value_of_edits(
        &self,
        pair: [usize; 2],
        n_edits: u32,
        costs: &ConstantCosts,
    ) -> f64 {
        let Prices { delete, insert, .. } = self.prices(pair);
        self.value(pair, delete + insert - f64::from(n_edits) * costs.edit)
    }

    /// The distance of two trees that are at least and at most so many edits apart;
    /// infinity, if it is more.
    fn close(
        &self,
        pair: [usize; 2],
        [least, most]: [u32; 2],
        costs: &ConstantCosts,
        scratch: &mut Scratch,
        context: &Context,
    ) -> Result<f64> {
        let Prices { labels, delete, insert } = self.prices(pair);
        let Gains::Constant(gains) = &labels.costs.gains else {
            return self.full(pair, scratch, context);
        };
        let Scratch { tables, trimmed, .. } = scratch;
        let (sides, off) = self.trimmed(pair, trimmed)?;
        let (n_cells, [n, m]) = (sides.n_cells(), sides.trees.map(|tree| tree.len()));
        let mut edits = (least + 1 + least / 8).min(most);
        let is_slow = |edits: u32| Bounded::n_cells(n, m, edits) > n_cells;
        let full = |tables: &mut Tables| {
            let saved = saving(&sides, &labels.costs.gains, tables, context)?;
            Ok(self.value(pair, off + saved))
        };
        if is_slow(edits) {
            return full(tables);
        }
        let bounded = Bounded::new(&sides)?;
        loop {
            let corridors = &mut tables.corridors;
            let saved = off + bounded.saving(edits, gains, corridors, context)?;
            let cost = delete + insert - saved;
            // No mapping has more edits than there are nodes.
            if cost <= f64::from(edits) * costs.edit || edits as usize >= n + m {
                return Ok(self.value(pair, saved));
            }
            if edits == most {
                return Ok(f64::INFINITY);
            }
            edits = (edits + edits / 2 + 2).min(most);
            if is_slow(edits) {
                return full(tables);
            }
        }
    }
}

impl Prepared for Trees {
    fn worker(&self) -> Worker<'_> {
        let mut scratch = Scratch::default();
        Box::new(move |a, b, context| {
            let value = self.distance([a, b], &mut scratch, context)?;
            // What is beyond the bound must be a number.
            let beyond = || self.most.unwrap_or(0.0).max(0.0) * 2.0 + 1.0;
            Ok(Scaled::from_f64(if value.is_finite() { value } else { beyond() }))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Costs in small units, and trees from both sides.
    pub(super) fn prepared(costs: &Costs, forest: &Forest) -> (UnitCosts, BothOrders) {
        let context = Context::default();
        let (by_label, codes) = LabelCosts::new(costs, forest, &context).unwrap();
        let sizes = forest.try_n_nodes().unwrap();
        let orders = BothOrders::new(forest, &sizes, &codes, &context).unwrap();
        (by_label.in_units(costs, Unit::Small).unwrap(), orders)
    }
}
