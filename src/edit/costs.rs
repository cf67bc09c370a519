//! What edits cost, and what a match of two nodes saves.
//!
//! Every cost is rounded to a multiple of a *unit*. In units costs are whole numbers, and
//! floats add those exactly up to 2⁵³: two trees have the same distance, to the bit, in
//! whichever order costs are added. A unit is the power of two that is no larger than the
//! largest insertion or deletion, times 2⁻⁴⁰; or times 2⁻³⁰, where deleting one of the trees
//! and inserting the other costs more than 2⁵³ of the small units. Those are trees of more
//! than 4,096 nodes together, and sums of the large ones are exact to some 2²² nodes.
//!
//! A renaming that costs more than a deletion and an insertion is never made, so no saving
//! is below 0, and a cost may be infinite.

use std::fmt;
use std::sync::Arc;

use super::order::Sides;
use super::text::{Matcher, TextKind, Texts};
use crate::error::quoted;
use crate::label::Labels;
use crate::memory::{self, Map, filled, push, reach, room};
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
    Text(TextKind),
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
        Self(Kind::Text(TextKind::Characters))
    }

    /// The same for the cells of tables. A label that begins with `<` is a cell: its start
    /// tag, then what it holds, where a tag `<b>` and an entity `&lt;` are a character each.
    /// Two cells with equal start tags cost the string edit distance of what they hold,
    /// divided by the length of the longer one; all other labels that differ cost 1.
    pub fn cells() -> Self {
        Self(Kind::Text(TextKind::Cells))
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
            Kind::Text(_) => true,
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
            Kind::Text(kind) => f.debug_tuple("Text").field(kind).finish(),
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

    /// The power of two that is no larger than the largest insertion or deletion.
    fn scale(&self) -> f64 {
        let values = self.insert.values().chain(self.delete.values());
        let largest = values.fold(0.0, f64::max);
        if largest == 0.0 {
            return 1.0;
        }
        2f64.powi((largest.to_bits() >> 52) as i32 - 1023)
    }
}

/// What costs are rounded to, as a part of [`Costs::scale`].
#[derive(Debug, Clone, Copy)]
pub(super) enum Unit {
    Small,
    Large,
}

impl Unit {
    fn of(self, costs: &Costs) -> f64 {
        let bits = match self {
            Self::Small => 40,
            Self::Large => 30,
        };
        costs.scale() * 2f64.powi(-bits)
    }
}

/// In place of the code of a label that no tree has.
pub(super) const NO_CODE: u32 = u32::MAX;
/// Units up to which every whole number is a float.
pub(super) const MOST_UNITS: f64 = (1_u64 << 53) as f64;
/// Labels with costs of their own among which every detour is looked at.
const MOST_NAMED: usize = 256;

/// Labels of which a table of all pairs is made, however few trees there are.
const FEW_LABELS: usize = 256;

/// What the labels of some trees cost.
pub(super) struct LabelCosts {
    /// By code.
    delete: Vec<f64>,
    insert: Vec<f64>,
    rename: Renamings,
    /// Whether deleting has one cost, and inserting.
    is_constant: bool,
}

enum Renamings {
    /// One cost for all labels that differ.
    One(f64),
    /// By two codes, row after row.
    Table(Vec<f64>),
    /// Computed for each two trees.
    Texts(Arc<Texts>),
}

/// The costs of the labels of some trees, in units.
pub(super) struct UnitCosts {
    /// By code.
    pub(super) delete: Vec<f64>,
    pub(super) insert: Vec<f64>,
    /// With `texts`, no less than what [`between`](Self::between) has: to bound savings.
    pub(super) gains: Gains,
    /// Whether a tree that stays as it is costs nothing.
    pub(super) is_staying_free: bool,
    pub(super) unit: f64,
    texts: Option<Arc<Texts>>,
}

/// What a match of two nodes saves, by the codes of their labels: the cost of deleting the
/// one and inserting the other, less that of renaming; never below 0.
pub(super) trait Gain {
    fn gain(&self, a: u32, b: u32) -> f64;
}

/// One cost for all labels: what labels save that differ, and that are equal. They are read
/// by number. To choose one of two floats the compiler makes a branch, and which labels are
/// equal cannot be predicted: questions took 1.1 times as long.
pub(super) struct ConstantGain([f64; 2]);

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
        self.0[usize::from(a == b)]
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
}

impl Gains {
    /// The largest of them.
    pub(super) fn largest(&self) -> f64 {
        match self {
            Self::Constant(ConstantGain([_, equal])) => *equal,
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

/// Costs that do not depend on labels, none of which is 0, in units.
#[derive(Clone, Copy)]
pub(super) struct ConstantCosts {
    pub(super) delete: f64,
    pub(super) insert: f64,
    /// What a match saves.
    pub(super) equal: f64,
    pub(super) different: f64,
    /// The cheapest edit.
    pub(super) edit: f64,
}

impl LabelCosts {
    /// The costs of the labels of a forest, and the code of each label: those that are used
    /// are numbered from 0, the others are [`NO_CODE`].
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
        let mut codes = filled(NO_CODE, labels.len())?;
        for (code, label) in (0..).zip(&used) {
            codes[label.index()] = code;
        }
        let names = memory::collect(used.iter().map(|&label| labels.name(label)))?;
        let of = |costs: &NodeCosts| {
            memory::collect(names.iter().map(|name| costs.of(name)))
        };
        let (delete, insert) = (of(&costs.delete)?, of(&costs.insert)?);
        let is_constant =
            costs.delete.named.is_empty() && costs.insert.named.is_empty();
        let table = Table { names: &names, labels, codes: &codes };
        let rename = match &costs.rename.0 {
            Kind::Labels { named, other } if named.is_empty() => Renamings::One(*other),
            Kind::Labels { named, other } => {
                Renamings::Table(table.named(named, *other)?)
            }
            Kind::Function(function) => {
                Renamings::Table(table.ask(&**function, context)?)
            }
            Kind::Text(kind) => {
                let texts = Texts::new(&names, *kind)?;
                // A table of all labels is made where it is no larger than the tables of
                // single pairs would be, if each tree is compared with one.
                let n_nodes = forest.try_n_nodes()?.iter().sum::<u64>() as f64;
                let (n, n_trees) = (names.len() as f64, forest.len() as f64);
                if names.len() <= FEW_LABELS || n * n * n_trees <= n_nodes * n_nodes {
                    Renamings::Table(table.texts(&texts, context)?)
                } else {
                    Renamings::Texts(Arc::new(texts))
                }
            }
        };
        Ok((Self { delete, insert, rename, is_constant }, codes))
    }

    /// The same costs.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub(super) fn copied(&self) -> Result<Self> {
        let rename = match &self.rename {
            Renamings::One(cost) => Renamings::One(*cost),
            Renamings::Table(costs) => Renamings::Table(memory::copied(costs)?),
            Renamings::Texts(texts) => Renamings::Texts(texts.clone()),
        };
        let (delete, insert) =
            (memory::copied(&self.delete)?, memory::copied(&self.insert)?);
        Ok(Self { delete, insert, rename, is_constant: self.is_constant })
    }

    /// Whether deleting a tree of so many nodes and inserting another may cost more than
    /// [`MOST_UNITS`] of a unit.
    pub(super) fn may_exceed(&self, n_nodes: u64, costs: &Costs, unit: Unit) -> bool {
        let most = (largest(&self.delete) + largest(&self.insert)) / unit.of(costs);
        (most + 1.0) * n_nodes as f64 > MOST_UNITS // either may be rounded up by half
    }

    /// These costs, rounded.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub(super) fn in_units(self, costs: &Costs, unit: Unit) -> Result<UnitCosts> {
        let unit = unit.of(costs);
        let round = |cost: f64| (cost / unit).round();
        let (mut delete, mut insert) = (self.delete, self.insert);
        for cost in delete.iter_mut().chain(&mut insert) {
            *cost = round(*cost);
        }
        let saved = |delete: f64, insert: f64, rename| {
            (delete + insert - round(rename)).max(0.0)
        };
        let (mut is_staying_free, mut texts) = (true, None);
        let gains = match self.rename {
            Renamings::One(rename) if self.is_constant => {
                let [delete, insert] =
                    [&costs.delete, &costs.insert].map(|costs| round(costs.other));
                let different = saved(delete, insert, rename);
                Gains::Constant(ConstantGain([different, delete + insert]))
            }
            Renamings::One(rename) => {
                let (delete, insert) =
                    (memory::copied(&delete)?, memory::copied(&insert)?);
                Gains::ByLabel(LabelGain { delete, insert, rename: round(rename) })
            }
            Renamings::Table(mut gains) => {
                let n = delete.len();
                for (row, &delete) in gains.chunks_mut(n.max(1)).zip(&delete) {
                    for (gain, &insert) in row.iter_mut().zip(&insert) {
                        *gain = saved(delete, insert, *gain);
                    }
                }
                is_staying_free =
                    (0..n).all(|a| gains[a * n + a] == delete[a] + insert[a]);
                Gains::Table(GainTable { n, gains })
            }
            Renamings::Texts(found) => {
                texts = Some(found);
                let most = largest(&delete) + largest(&insert);
                Gains::Constant(ConstantGain([most; 2]))
            }
        };
        Ok(UnitCosts { delete, insert, gains, is_staying_free, unit, texts })
    }
}

fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

/// What the labels of two trees save, kept from pair to pair.
#[derive(Default)]
pub(super) struct PairGains {
    /// By code: the code among the labels of the two trees.
    codes: Vec<Option<u32>>,
    /// By code in the pair: that among all labels.
    used: Vec<u32>,
    /// By node of each tree: codes in the pair.
    labels: [Vec<u32>; 2],
    gains: Option<Gains>,
    matcher: Matcher,
}

impl UnitCosts {
    /// The costs, if they do not depend on labels.
    pub(super) fn constant(&self) -> Option<ConstantCosts> {
        let (Gains::Constant(gains), None) = (&self.gains, &self.texts) else {
            return None;
        };
        let ConstantGain([different, equal]) = *gains;
        let (&delete, &insert) = (self.delete.first()?, self.insert.first()?);
        let edit = delete.min(insert).min(equal - different);
        let costs = ConstantCosts { delete, insert, equal, different, edit };
        Some(costs).filter(|costs| costs.edit > 0.0)
    }

    /// What matches of two trees save, and the trees with the codes that this asks for, from
    /// the side from which they are compared.
    ///
    /// # Errors
    /// [`Error::Memory`], and what `context` returns.
    pub(super) fn between<'a>(
        &'a self,
        sides: &Sides<'a>,
        pair: &'a mut PairGains,
        context: &Context,
    ) -> Result<(Sides<'a>, &'a Gains)> {
        let Some(texts) = &self.texts else { return Ok((*sides, &self.gains)) };
        let [a, b] = sides.trees;
        let PairGains { codes, used, labels, gains, matcher } = pair;
        // 1. Codes: those of the second tree, which are columns, then others.
        reach(codes, self.delete.len(), None)?;
        used.clear();
        let mut n_columns = 0;
        for (tree, labels) in [b, a].into_iter().zip(labels.iter_mut().rev()) {
            n_columns = used.len();
            labels.clear();
            for &label in tree.labels {
                let code = codes[label as usize].unwrap_or(used.len() as u32);
                if code as usize == used.len() {
                    push(used, label)?;
                }
                codes[label as usize] = Some(code);
                push(labels, code)?;
            }
        }
        for &label in &*used {
            codes[label as usize] = None;
        }
        // 2. Rows of the labels of the first tree.
        let mut table = match gains.take() {
            Some(Gains::Table(table)) => table.gains,
            _ => Vec::new(),
        };
        table.clear();
        reach(&mut table, used.len().saturating_mul(n_columns), f64::NAN)?;
        for &code in &labels[0] {
            let row = &mut table[code as usize * n_columns..][..n_columns];
            if row.first().is_some_and(|gain| !gain.is_nan()) {
                continue;
            }
            let from = used[code as usize];
            let both = used[..n_columns]
                .iter()
                .map(|&to| self.delete[from as usize] + self.insert[to as usize]);
            let mut cells = row.iter_mut().zip(both);
            let others = used[..n_columns].iter().copied();
            texts.rename(from, others, matcher, context, |cost| {
                if let Some((gain, both)) = cells.next() {
                    *gain = (both - (cost / self.unit).round()).max(0.0);
                }
            })?;
        }
        *gains = Some(Gains::Table(GainTable { n: n_columns, gains: table }));
        let [x, y] = &*labels;
        let gains = gains.as_ref().unwrap_or(&self.gains);
        let trees = [a.with_labels(x), b.with_labels(y)];
        Ok((Sides { trees, ..*sides }, gains))
    }
}

/// A table of what it costs to rename each label to each, to be made.
struct Table<'a> {
    /// By code.
    names: &'a [&'a str],
    labels: &'a Labels,
    /// By label.
    codes: &'a [u32],
}

impl Table<'_> {
    fn empty(&self) -> Result<Vec<f64>> {
        let n = self.names.len();
        room(n.saturating_mul(n), size_of::<f64>())?;
        filled(0.0, n * n)
    }

    fn named(
        &self,
        named: &Map<String, Map<String, f64>>,
        other: f64,
    ) -> Result<Vec<f64>> {
        let (n, mut costs) = (self.names.len(), self.empty()?);
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
        Ok(costs)
    }

    fn texts(&self, texts: &Texts, context: &Context) -> Result<Vec<f64>> {
        let (n, mut costs) = (self.names.len(), self.empty()?);
        let mut matcher = Matcher::default();
        for a in 0..n {
            let mut b = 0;
            texts.rename(a as u32, 0..a as u32, &mut matcher, context, |cost| {
                (costs[a * n + b], costs[b * n + a]) = (cost, cost);
                b += 1;
            })?;
        }
        Ok(costs)
    }

    fn ask(&self, function: &RenameFunction, context: &Context) -> Result<Vec<f64>> {
        let (n, mut costs) = (self.names.len(), self.empty()?);
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
        Ok(costs)
    }
}
