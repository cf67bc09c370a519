//! What edits cost, and what a match of two nodes saves.
//!
//! Every cost is rounded to a multiple of a *unit*, 2⁻³⁰ of the power of two that is no
//! larger than the largest insertion or deletion. In units costs are whole numbers, and
//! floats add those exactly: trees of up to some 2²² nodes have the same distance, to the
//! bit, in whichever order costs are added.
//!
//! A renaming that costs more than a deletion and an insertion is never made, so no saving
//! is below 0, and a cost may be infinite.

use std::fmt;
use std::sync::Arc;

use super::text::{Levenshtein, rename_text};
use crate::error::quoted;
use crate::label::Labels;
use crate::memory::{self, Map, filled, room};
use crate::{Context, Error, Forest, Result};

/// What it costs to insert or to delete a node, by its label.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeCosts {
    named: Map<String, f64>,
    other: f64,
}

impl From<f64> for NodeCosts {
    fn from(cost: f64) -> Self {
        Self { named: Map::default(), other: cost }
    }
}

impl NodeCosts {
    /// Costs of some labels, and of all others.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn by_label(
        named: impl IntoIterator<Item = (String, f64)>,
        other: f64,
    ) -> Result<Self> {
        Ok(Self { named: Map::of(named)?, other })
    }

    fn of(&self, label: &str) -> f64 {
        self.named.get(label).copied().unwrap_or(self.other)
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        self.named.values().copied().chain([self.other])
    }

    fn check(&self, name: &'static str) -> Result<()> {
        let expected = "0, or from 1e-100 to 1e100";
        let is_right = |cost: f64| cost == 0.0 || (1e-100..=1e100).contains(&cost);
        refuse(name, expected, self.values().find(|&cost| !is_right(cost)))
    }
}

/// What it costs to rename a node, by its label and the new one. A label that stays costs
/// nothing, unless it is a pair of [`by_labels`](Self::by_labels).
#[derive(Clone)]
pub struct RenameCosts(Kind);

#[derive(Clone)]
enum Kind {
    Labels { named: Map<String, Map<String, f64>>, other: f64 },
    Levenshtein,
    Function(Arc<RenameFunction>),
}

/// What it costs to rename one label to another.
pub type RenameFunction = dyn Fn(&str, &str) -> Result<f64> + Send + Sync;

impl From<f64> for RenameCosts {
    fn from(cost: f64) -> Self {
        Self(Kind::Labels { named: Map::default(), other: cost })
    }
}

impl RenameCosts {
    /// Costs of some pairs of labels, and of all others.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn by_labels(
        pairs: impl IntoIterator<Item = (String, String, f64)>,
        other: f64,
    ) -> Result<Self> {
        let mut named: Map<String, Map<String, f64>> = Map::default();
        for (from, to, cost) in pairs {
            named.get_or_default(from)?.insert(to, cost)?;
        }
        Ok(Self(Kind::Labels { named, other }))
    }

    /// The string edit distance of the two labels, divided by the length of the longer one,
    /// in characters.
    pub fn levenshtein() -> Self {
        Self(Kind::Levenshtein)
    }

    /// What a function says, which is asked once for each two different labels. It must
    /// say the same whenever it is asked.
    pub fn function(
        cost: impl Fn(&str, &str) -> Result<f64> + Send + Sync + 'static,
    ) -> Self {
        Self(Kind::Function(Arc::new(cost)))
    }

    fn of(&self, from: &str, to: &str) -> f64 {
        let Kind::Labels { named, other } = &self.0 else { return f64::NAN };
        let known = named.get(from).and_then(|costs| costs.get(to));
        known.copied().unwrap_or(if from == to { 0.0 } else { *other })
    }

    fn is_symmetric(&self) -> bool {
        match &self.0 {
            Kind::Levenshtein => true,
            Kind::Function(_) => false,
            Kind::Labels { named, .. } => named.iter().all(|(from, costs)| {
                costs.iter().all(|(to, &cost)| self.of(to, from) == cost)
            }),
        }
    }

    fn check(&self) -> Result<()> {
        let Kind::Labels { named, other } = &self.0 else { return Ok(()) };
        let mut costs = named.values().flat_map(|costs| costs.values()).chain([other]);
        let wrong = costs.find(|&&cost| !is_rename_cost(cost));
        refuse("rename", RENAME_COST, wrong.copied())
    }
}

impl fmt::Debug for RenameCosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Labels { named, other } => f
                .debug_struct("Labels")
                .field("named", named)
                .field("other", other)
                .finish(),
            Kind::Levenshtein => f.write_str("Levenshtein"),
            Kind::Function(_) => f.write_str("Function"),
        }
    }
}

const RENAME_COST: &str = "at least 0";

fn is_rename_cost(cost: f64) -> bool {
    cost >= 0.0
}

fn refuse(
    name: &'static str,
    expected: &'static str,
    wrong: Option<f64>,
) -> Result<()> {
    match wrong {
        Some(got) => Err(Error::Parameter { name, expected, got: got.to_string() }),
        None => Ok(()),
    }
}

/// What all edits cost.
#[derive(Debug, Clone)]
pub(super) struct Costs {
    pub(super) rename: RenameCosts,
    pub(super) insert: NodeCosts,
    pub(super) delete: NodeCosts,
}

impl Costs {
    pub(super) fn check(&self) -> Result<()> {
        self.insert.check("insert")?;
        self.delete.check("delete")?;
        self.rename.check()
    }

    /// Whether the way back costs the same for any two trees.
    pub(super) fn is_symmetric(&self) -> bool {
        let mut named = self.insert.named.keys().chain(self.delete.named.keys());
        self.insert.other == self.delete.other
            && named.all(|label| self.insert.of(label) == self.delete.of(label))
            && self.rename.is_symmetric()
    }

    /// Whether different labels are apart, and no detour over a third label, or over none,
    /// is shorter: then distances of trees are a metric. `false` where that is not known.
    ///
    /// # Errors
    /// [`Error::Capacity`] for more than [`MOST_NAMED`] labels with costs of their own,
    /// [`Error::Memory`].
    pub(super) fn are_metric(&self) -> Result<bool> {
        let Kind::Labels { named, .. } = &self.rename.0 else { return Ok(false) };
        if !self.is_symmetric() || self.insert.values().any(|cost| cost == 0.0) {
            return Ok(false);
        }
        // 1. All labels that have costs of their own, and three that have none.
        let mut labels: Map<&str, ()> = Map::default();
        let pairs = named
            .iter()
            .flat_map(|(from, costs)| [from].into_iter().chain(costs.keys()));
        for label in pairs.chain(self.insert.named.keys()) {
            labels.insert(label, ())?;
        }
        if labels.len() > MOST_NAMED {
            let (what, limit) = ("labels with costs that must be a metric", MOST_NAMED);
            return Err(Error::Capacity { what, limit: limit as u64 });
        }
        let mut labels = memory::collect(labels.keys().copied())?;
        for other in ["\0", "\0\0", "\0\0\0"] {
            memory::push(&mut labels, other)?;
        }
        // 2. What is dearer than deleting and inserting is that: any two labels that keep
        // to the triangle inequality still do.
        let cost = |a: &str, b: &str| {
            self.rename.of(a, b).min(self.delete.of(a) + self.insert.of(b))
        };
        let is_detour_shorter = |a: &str, b: &str| {
            let direct = cost(a, b);
            let over_nothing = (self.insert.of(a) - self.insert.of(b)).abs() > direct;
            over_nothing || labels.iter().any(|c| cost(a, c) + cost(c, b) < direct)
        };
        Ok(labels.iter().all(|a| {
            labels
                .iter()
                .all(|b| (cost(a, b) == 0.0) == (a == b) && !is_detour_shorter(a, b))
        }))
    }

    /// The power of two whose multiples all costs are.
    pub(super) fn unit(&self) -> f64 {
        let values = self.insert.values().chain(self.delete.values());
        let largest = values.fold(0.0, f64::max);
        if largest == 0.0 {
            return 1.0;
        }
        let exponent = (largest.to_bits() >> 52) as i32 - 1023;
        2f64.powi(exponent - UNIT_BITS)
    }
}

/// A cost has so many binary digits behind that of the largest.
const UNIT_BITS: i32 = 30;
/// Labels with costs of their own among which every detour is looked at.
const MOST_NAMED: usize = 256;

/// The costs of the labels of some trees, in units.
pub(super) struct LabelCosts {
    /// By code.
    pub(super) delete: Vec<f64>,
    pub(super) insert: Vec<f64>,
    pub(super) gains: Gains,
    /// Whether a tree that stays as it is costs nothing.
    pub(super) is_staying_free: bool,
}

/// What a match of two nodes saves, by the codes of their labels: the cost of deleting the
/// one and inserting the other, less that of renaming; never below 0.
pub(super) trait Gain {
    fn gain(&self, a: u32, b: u32) -> f64;

    /// All of one label of the first tree.
    fn row(&self, a: u32) -> impl Fn(u32) -> f64 {
        move |b| self.gain(a, b)
    }

    /// All of one label of the second tree.
    fn column(&self, b: u32) -> impl Fn(u32) -> f64 {
        move |a| self.gain(a, b)
    }
}

/// One cost for all labels.
pub(super) struct ConstantGain {
    equal: f64,
    different: f64,
}

/// By code: what deleting and inserting cost; renaming has one cost.
pub(super) struct LabelGain {
    delete: Vec<f64>,
    insert: Vec<f64>,
    rename: f64,
}

/// By two codes, row after row.
pub(super) struct GainTable {
    n: usize,
    gains: Vec<f64>,
}

/// The other way round.
pub(super) struct Transposed<'a, G>(pub(super) &'a G);

/// Any of them: where each is compiled for itself, loops over cells are as fast as can be.
pub(super) enum Gains {
    Constant(ConstantGain),
    ByLabel(LabelGain),
    Table(GainTable),
}

impl Gain for ConstantGain {
    #[inline]
    fn gain(&self, a: u32, b: u32) -> f64 {
        if a == b { self.equal } else { self.different }
    }

    /// Not read again for each cell: writing one might have changed it.
    #[inline]
    fn row(&self, a: u32) -> impl Fn(u32) -> f64 {
        let Self { equal, different } = *self;
        move |b| if a == b { equal } else { different }
    }

    #[inline]
    fn column(&self, b: u32) -> impl Fn(u32) -> f64 {
        self.row(b)
    }
}

impl Gain for LabelGain {
    #[inline]
    fn gain(&self, a: u32, b: u32) -> f64 {
        let both = self.delete[a as usize] + self.insert[b as usize];
        if a == b { both } else { (both - self.rename).max(0.0) }
    }
}

impl Gain for GainTable {
    #[inline]
    fn gain(&self, a: u32, b: u32) -> f64 {
        self.gains[a as usize * self.n + b as usize]
    }
}

impl<G: Gain> Gain for Transposed<'_, G> {
    #[inline]
    fn gain(&self, a: u32, b: u32) -> f64 {
        self.0.gain(b, a)
    }

    #[inline]
    fn row(&self, a: u32) -> impl Fn(u32) -> f64 {
        self.0.column(a)
    }

    #[inline]
    fn column(&self, b: u32) -> impl Fn(u32) -> f64 {
        self.0.row(b)
    }
}

impl Gains {
    /// The largest of them.
    pub(super) fn largest(&self) -> f64 {
        let largest = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
        match self {
            Self::Constant(gains) => gains.equal,
            Self::ByLabel(gains) => largest(&gains.delete) + largest(&gains.insert),
            Self::Table(table) => largest(&table.gains),
        }
    }
}

impl Gain for Gains {
    fn gain(&self, a: u32, b: u32) -> f64 {
        match self {
            Self::Constant(gains) => gains.gain(a, b),
            Self::ByLabel(gains) => gains.gain(a, b),
            Self::Table(gains) => gains.gain(a, b),
        }
    }
}

impl LabelCosts {
    /// The costs of the labels of a forest, and the code of each label: those that are used
    /// are numbered from 0.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a function that returns what is no cost, [`Error::Memory`],
    /// and what that function and `context` return.
    pub(super) fn new(
        costs: &Costs,
        forest: &Forest,
        context: &Context,
    ) -> Result<(Self, Vec<u32>)> {
        let (labels, used) = (forest.nodes().labels(), forest.try_used_labels()?);
        let mut codes = filled(0, labels.len())?;
        for (code, label) in (0..).zip(&used) {
            codes[label.index()] = code;
        }
        let unit = costs.unit();
        let names = memory::collect(used.iter().map(|&label| labels.name(label)))?;
        let in_units = |costs: &NodeCosts| {
            memory::collect(names.iter().map(|name| (costs.of(name) / unit).round()))
        };
        let (delete, insert) = (in_units(&costs.delete)?, in_units(&costs.insert)?);
        let gains = match &costs.rename.0 {
            Kind::Labels { named, other } if named.is_empty() => {
                let rename = (other / unit).round();
                let is_constant = |costs: &NodeCosts| costs.named.is_empty();
                if is_constant(&costs.delete) && is_constant(&costs.insert) {
                    let both = (costs.delete.other / unit).round()
                        + (costs.insert.other / unit).round();
                    let different = (both - rename).max(0.0);
                    Gains::Constant(ConstantGain { equal: both, different })
                } else {
                    let (delete, insert) =
                        (memory::copied(&delete)?, memory::copied(&insert)?);
                    Gains::ByLabel(LabelGain { delete, insert, rename })
                }
            }
            _ => {
                let table =
                    Renamings { costs, unit, names: &names, labels, codes: &codes };
                table.gains(&delete, &insert, context)?
            }
        };
        let is_staying_free = match &gains {
            Gains::Table(GainTable { n, gains }) => {
                (0..*n).all(|a| gains[a * n + a] == delete[a] + insert[a])
            }
            _ => true,
        };
        Ok((Self { delete, insert, gains, is_staying_free }, codes))
    }
}

/// A table of what each pair of labels saves, to be made.
struct Renamings<'a> {
    costs: &'a Costs,
    unit: f64,
    /// By code.
    names: &'a [&'a str],
    labels: &'a Labels,
    /// By label.
    codes: &'a [u32],
}

impl Renamings<'_> {
    fn gains(
        &self,
        delete: &[f64],
        insert: &[f64],
        context: &Context,
    ) -> Result<Gains> {
        let n = self.names.len();
        room(n.saturating_mul(n), size_of::<f64>())?;
        let mut gains = filled(0.0, n * n)?;
        // 1. What renaming costs.
        match &self.costs.rename.0 {
            Kind::Labels { named, other } => self.named(named, *other, &mut gains),
            Kind::Levenshtein => self.levenshtein(&mut gains, context)?,
            Kind::Function(function) => self.ask(&**function, &mut gains, context)?,
        }
        // 2. What it saves.
        for (row, &delete) in gains.chunks_mut(n.max(1)).zip(delete) {
            for (gain, &insert) in row.iter_mut().zip(insert) {
                *gain = (delete + insert - (*gain / self.unit).round()).max(0.0);
            }
        }
        Ok(Gains::Table(GainTable { n, gains }))
    }

    fn named(
        &self,
        named: &Map<String, Map<String, f64>>,
        other: f64,
        costs: &mut [f64],
    ) {
        let n = self.names.len();
        costs.fill(other);
        costs.iter_mut().step_by(n + 1).for_each(|cost| *cost = 0.0);
        let code = |name: &str| {
            let code = self.codes[self.labels.get(name)?.index()] as usize;
            // A label that is not used has the code of another.
            (self.names.get(code) == Some(&name)).then_some(code)
        };
        for (from, row) in named.iter() {
            for (to, &cost) in row.iter() {
                if let (Some(from), Some(to)) = (code(from), code(to)) {
                    costs[from * n + to] = cost;
                }
            }
        }
    }

    fn levenshtein(&self, costs: &mut [f64], context: &Context) -> Result<()> {
        let n = self.names.len();
        let mut scratch = Levenshtein::default();
        for (a, from) in self.names.iter().enumerate() {
            for (b, to) in self.names[..a].iter().enumerate() {
                let cost = rename_text(from, to, &mut scratch)?;
                (costs[a * n + b], costs[b * n + a]) = (cost, cost);
                context.check()?;
            }
        }
        Ok(())
    }

    fn ask(
        &self,
        function: &RenameFunction,
        costs: &mut [f64],
        context: &Context,
    ) -> Result<()> {
        let n = self.names.len();
        for (a, from) in self.names.iter().enumerate() {
            for (b, to) in self.names.iter().enumerate().filter(|&(b, _)| a != b) {
                let cost = function(from, to)?;
                if !is_rename_cost(cost) {
                    let got = format!("{cost} for {} and {}", quoted(from), quoted(to));
                    let (name, expected) = ("rename", RENAME_COST);
                    return Err(Error::Parameter { name, expected, got });
                }
                costs[a * n + b] = cost;
                context.check()?;
            }
        }
        Ok(())
    }
}
