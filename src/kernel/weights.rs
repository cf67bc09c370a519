//! Weights of labels and productions, and functions of counts.
//!
//! A kernel multiplies factors over the nodes of a fragment: λ per production (ST, SST),
//! μ per node (PT), λ per node (ET, subpaths). With weights each factor is the node's own:
//!
//! ```text
//! ST   K = Σ over equal subtrees of Π λ w(p)       p over productions of the subtree
//! SST  C(u,v) = λ w(p) Π (1 + C(u_j,v_j))          p the production of u and v
//! PT   D(u,v) = μ w(l) (λ² leafness + ..)          l the label of u and v
//! ET   C(u,v) = λ w(l) S(u,v)
//! subpaths  K = Σ over paths of Π λ w(l)
//! ```
//!
//! and `leaf_weight` of an equal leaf is multiplied by w(l). Weights are not negative, so a
//! kernel stays a dot product: each side of a fragment has the root of the product. A
//! production without a weight of its own has that of its parent's label, and what has none
//! has the weight of all others, 1 unless set.
//!
//! Where a kernel is a sum over products of two counts (ST, subpaths), f(count) may stand
//! in the place of each: [`Counts`].
//!
//! Example: `(S (A a) (B b))` and itself under ST, λ = 0.5, w(A) = 2: A adds 1, B 0.5 and S
//! 0.5 · 1 · 0.5 = 0.25.
//!
//! # Complexity
//! Names become ids once per call, in time by the labels and productions of the store. A
//! pair then takes as long as without weights. ST and SST have fast rows; the others go pair
//! by pair.

use std::collections::BTreeMap; // bounded: a kernel's parameters
use std::fmt::Debug;
use std::sync::Arc;

use super::{
    Builtin, Kernel, Number, Parameter, Prepared, Value, builtin_kernels, parameter,
};
use crate::index::family::Family;
use crate::memory::{self, or_panic};
use crate::{Context, Error, Label, NodeId, Nodes, ProductionId, Result};

/// Weights by name: of labels, and of productions.
#[derive(Debug, Clone, PartialEq)]
pub struct Weights {
    others: f64,
    labels: BTreeMap<String, f64>, // bounded: a kernel's parameters
    /// By parent and children.
    productions: BTreeMap<Vec<String>, f64>, // bounded: a kernel's parameters
}

impl Default for Weights {
    fn default() -> Self {
        let (labels, productions) = Default::default();
        Self { others: 1.0, labels, productions }
    }
}

impl Weights {
    /// Weights that are all 1.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with another weight of all that has none of its own.
    ///
    /// # Errors
    /// [`Error::Parameter`] for one that is negative or not finite.
    pub fn with_others(mut self, weight: f64) -> Result<Self> {
        self.others = checked(weight)?;
        Ok(self)
    }

    /// Sets the weight of a label.
    ///
    /// # Errors
    /// [`Error::Parameter`] for one that is negative or not finite.
    pub fn set_label(&mut self, label: &str, weight: f64) -> Result<()> {
        // bounded: a kernel's parameters
        self.labels.insert(label.to_owned(), checked(weight)?);
        Ok(())
    }

    /// Sets the weight of a production: a parent, and children.
    ///
    /// # Errors
    /// [`Error::Parameter`] for one that is negative or not finite.
    pub fn set_production<'a>(
        &mut self,
        parent: &'a str,
        children: impl IntoIterator<Item = &'a str>,
        weight: f64,
    ) -> Result<()> {
        let names = std::iter::once(parent).chain(children).map(str::to_owned);
        // bounded: a kernel's parameters
        self.productions.insert(names.collect(), checked(weight)?);
        Ok(())
    }

    /// That of a label.
    pub(crate) fn label(&self, name: &str) -> f64 {
        self.labels.get(name).copied().unwrap_or(self.others)
    }

    /// That of a production of a store.
    pub(crate) fn production(
        &self,
        nodes: &Nodes,
        production: ProductionId,
    ) -> Result<f64> {
        let labels = nodes.production_labels(production);
        let name = |&label: &Label| nodes.labels().name(label);
        // Names are put together only if some production has a weight.
        if !self.productions.is_empty() {
            let names = labels.iter().map(|label| memory::text(name(label)));
            if let Some(&weight) = self.productions.get(&memory::try_collect(names)?) {
                return Ok(weight);
            }
        }
        Ok(self.label(name(&labels[0])))
    }

    /// By label of a store: its weight.
    pub(crate) fn of_labels(&self, nodes: &Nodes) -> Result<Vec<f64>> {
        memory::collect(nodes.labels().names().map(|name| self.label(name)))
    }

    /// By production of a store: its weight.
    pub(crate) fn of_productions(
        &self,
        nodes: &Nodes,
        labels: &[f64],
    ) -> Result<Vec<f64>> {
        let parent = |p| nodes.production_labels(ProductionId(p))[0];
        let productions = 0..nodes.n_productions() as u32;
        // At first the weights of parents' labels, and then those that productions have
        // themselves.
        let mut weights =
            memory::collect(productions.map(|p| labels[parent(p).index()]))?;
        for (names, &weight) in &self.productions {
            let id = |name: &String| nodes.labels().get(name);
            let ids = memory::collect(names.iter().map_while(id))?;
            // A production with a label that the store does not have is in none of its
            // trees.
            if ids.len() == names.len()
                && let Some(production) = nodes.find_production(&ids)
            {
                weights[production.index()] = weight;
            }
        }
        Ok(weights)
    }
}

/// Checks that a weight is finite and not negative.
fn checked(weight: f64) -> Result<f64> {
    if weight >= 0.0 && weight.is_finite() {
        return Ok(weight);
    }
    Err(parameter("weights", "finite and not negative", &weight))
}

/// What is multiplied in the place of two counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Counts {
    /// The counts themselves.
    #[default]
    Linear,
    /// 1 + ln(count).
    Log,
    /// 1, however often.
    Set,
}

impl Counts {
    /// The function of these names: linear, log, set.
    pub fn by_name(name: &str) -> Option<Self> {
        match name {
            "linear" => Some(Self::Linear),
            "log" => Some(Self::Log),
            "set" => Some(Self::Set),
            _ => None,
        }
    }

    /// f of a count; 0 of none.
    #[inline]
    pub(crate) fn of(self, count: f64) -> f64 {
        match self {
            Self::Linear => count,
            _ if count < 1.0 => 0.0,
            Self::Log => 1.0 + count.ln(),
            Self::Set => 1.0,
        }
    }
}

/// A number for each symbol: the same for all, or a table. What it is made for compiles
/// to what a single number compiles to where there is one.
pub(crate) trait Factors: Debug + Send + Sync {
    /// That of a symbol.
    fn of(&self, symbol: u32) -> f64;

    /// That of a symbol, to compute with. One factor for all symbols is a parameter of the
    /// kernel, the one at `place`, and has a derivative by it; factors of a table are constants.
    fn as_number<N: Number>(&self, symbol: u32, place: usize) -> N;

    /// The one number for all.
    fn same(&self) -> Option<f64>;

    /// Those of some symbols, numbered anew.
    ///
    /// # Errors
    /// [`crate::Error::Memory`].
    fn pick(&self, symbols: &[u32]) -> Result<Self>
    where
        Self: Sized;
}

impl Factors for f64 {
    #[inline]
    fn of(&self, _: u32) -> f64 {
        *self
    }

    #[inline]
    fn as_number<N: Number>(&self, _: u32, place: usize) -> N {
        N::parameter(*self, place)
    }

    #[inline]
    fn same(&self) -> Option<f64> {
        Some(*self)
    }

    fn pick(&self, _: &[u32]) -> Result<Self> {
        Ok(*self)
    }
}

impl Factors for Vec<f64> {
    #[inline]
    fn of(&self, symbol: u32) -> f64 {
        self[symbol as usize]
    }

    #[inline]
    fn as_number<N: Number>(&self, symbol: u32, _: usize) -> N {
        N::from_f64(self.of(symbol))
    }

    #[inline]
    fn same(&self) -> Option<f64> {
        None
    }

    fn pick(&self, symbols: &[u32]) -> Result<Self> {
        memory::collect(symbols.iter().map(|&symbol| self.of(symbol)))
    }
}

/// Weights as a store numbers labels and productions.
#[derive(Debug, Clone)]
pub(crate) struct ResolvedWeights {
    pub(crate) labels: Vec<f64>,
    pub(crate) productions: Vec<f64>,
    pub(crate) counts: Counts,
}

impl ResolvedWeights {
    pub(crate) fn new(
        weights: &Weights,
        counts: Counts,
        nodes: &Nodes,
    ) -> Result<Self> {
        let labels = weights.of_labels(nodes)?;
        let productions = weights.of_productions(nodes, &labels)?;
        Ok(Self { labels, productions, counts })
    }

    /// That of a node's label.
    pub(crate) fn label(&self, nodes: &Nodes, node: NodeId) -> f64 {
        self.labels[nodes.label(node).index()]
    }

    /// That of a node's production; of a leaf's label.
    pub(crate) fn production(&self, nodes: &Nodes, node: NodeId) -> f64 {
        match nodes.production(node) {
            Some(production) => self.productions[production.index()],
            None => self.label(nodes, node),
        }
    }

    /// The labels' times a number.
    pub(crate) fn labels_times(&self, factor: f64) -> Result<Vec<f64>> {
        memory::collect(self.labels.iter().map(|weight| factor * weight))
    }

    /// The productions' times a number.
    pub(crate) fn productions_times(&self, factor: f64) -> Result<Vec<f64>> {
        memory::collect(self.productions.iter().map(|weight| factor * weight))
    }
}

/// A kernel that can have weights: the same with a factor for each label or production.
pub(crate) trait Weightable: Debug {
    /// What it is called with weights.
    fn weighted_name(&self) -> &'static str;

    /// Whether it is a sum of products of two counts.
    fn has_counts(&self) -> bool {
        false
    }

    /// As [`Kernel::definition`].
    fn weighted_definition(
        &self,
        table: &ResolvedWeights,
        nodes: &Nodes,
        a: NodeId,
        b: NodeId,
    ) -> f64;

    /// As [`Kernel::pairs`].
    fn weighted_pairs(
        &self,
        table: &ResolvedWeights,
        nodes: &Arc<Nodes>,
        roots: &[NodeId],
        context: &Context,
    ) -> Result<Box<dyn Prepared>>;

    /// The index of itself with weights.
    fn weighted_index(&self, _: &Weighted) -> Option<Box<dyn Family>> {
        None
    }
}

/// A kernel with weights of labels or productions, and a function of counts.
///
/// ```
/// use std::sync::Arc;
/// use treekernel_rs::kernel::{Counts, SubsetTree, Weighted, Weights};
/// use treekernel_rs::{Forest, gram};
///
/// let mut weights = Weights::new();
/// weights.set_production("A", ["a"], 0.5)?;
/// let kernel = Arc::new(SubsetTree::new(0.4));
/// let kernel = Weighted::new(kernel, Arc::new(weights), Counts::Linear)?;
/// let forest = Forest::from_brackets("(S (A a) (B b)) (S (A a) (B c))")?;
/// let matrix = gram::gram(&kernel, &forest, None, gram::Options::default())?;
/// assert!((matrix[[0, 1]] - (0.2 + 0.4 * 1.2)).abs() < 1e-12);
/// # Ok::<(), treekernel_rs::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Weighted {
    kernel: Arc<dyn Kernel>,
    weights: Arc<Weights>,
    counts: Counts,
}

impl Weighted {
    /// A kernel with weights.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for one that has none, or no counts.
    pub fn new(
        kernel: Arc<dyn Kernel>,
        weights: Arc<Weights>,
        counts: Counts,
    ) -> Result<Self> {
        let fits = |kernel: &dyn Kernel| {
            let weightable = kernel.weightable()?;
            (counts == Counts::Linear || weightable.has_counts()).then_some(())
        };
        if fits(&*kernel).is_none() {
            // The error says which kernels would do.
            let can = builtin_kernels()
                .into_iter()
                .filter(|kernel| fits(&**kernel).is_some());
            let can = can.map(|kernel| kernel.name());
            let can = can.collect(); // bounded: the kernels that there are
            let is_plain = counts == Counts::Linear;
            let what = if is_plain { "weights" } else { "counts" };
            return Err(Error::Unsupported { kernel: kernel.name(), what, can });
        }
        Ok(Self { kernel, weights, counts })
    }

    /// The kernel without weights; there is one, or it would not have been made.
    fn unweighted(&self) -> Option<&dyn Weightable> {
        self.kernel.weightable()
    }

    /// Its function of counts.
    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// Its weights.
    pub(crate) fn shared(&self) -> Arc<Weights> {
        Arc::clone(&self.weights)
    }

    /// The weights as a store numbers labels and productions.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub(crate) fn table(&self, nodes: &Nodes) -> Result<ResolvedWeights> {
        ResolvedWeights::new(&self.weights, self.counts, nodes)
    }
}

impl PartialEq for Weighted {
    fn eq(&self, other: &Self) -> bool {
        *self.kernel == *other.kernel
            && self.weights == other.weights
            && self.counts == other.counts
    }
}

impl Kernel for Weighted {
    fn name(&self) -> &'static str {
        self.unweighted().map_or("Weighted", Weightable::weighted_name)
    }

    fn parameters(&self) -> Vec<Parameter> {
        self.kernel.parameters()
    }

    fn with(&self, name: &str, value: Value) -> Option<Arc<dyn Kernel>> {
        let kernel = self.kernel.with(name, value)?;
        Some(Arc::new(Self { kernel, ..self.clone() }))
    }

    fn definition(&self, nodes: &Nodes, a: NodeId, b: NodeId) -> f64 {
        let Some(kernel) = self.unweighted() else { return 0.0 };
        kernel.weighted_definition(&or_panic(self.table(nodes)), nodes, a, b)
    }

    fn pairs(
        &self,
        nodes: &Arc<Nodes>,
        roots: &[NodeId],
        context: &Context,
    ) -> Result<Box<dyn Prepared>> {
        match self.unweighted() {
            Some(kernel) => {
                kernel.weighted_pairs(&self.table(nodes)?, nodes, roots, context)
            }
            None => self.kernel.pairs(nodes, roots, context),
        }
    }

    fn builtin(&self) -> Option<Builtin<'_>> {
        let index = self.unweighted().and_then(|kernel| kernel.weighted_index(self));
        Some(Builtin { index, ..Builtin::new(self) })
    }
}

/// Refuses products of weights that no float holds.
///
/// # Errors
/// [`Error::Parameter`].
pub(crate) fn finite<'a>(values: impl IntoIterator<Item = &'a f64>) -> Result<()> {
    match values.into_iter().find(|value| !value.is_finite()) {
        None => Ok(()),
        Some(value) => {
            let expected = "so small that their product over a tree is finite";
            Err(parameter("weights", expected, value))
        }
    }
}
