//! Kernels for pairs of sentences: tripartite DAGs (tDAGs).
//!
//! A pair of parse trees whose nodes carry placeholders, the same one where words or
//! phrases of the two sentences are related, is an instance of a rewrite rule. The kernel
//! counts the rules that two pairs share: parts of the left trees together with parts of
//! the right trees that are equal up to the names of placeholders.
//!
//! ```text
//! K(G1, G2) = Σ λ^(|t| + |g|)   over (t, g) in S(G1) and isomorphic (t', g') in S(G2)
//! ```
//!
//! (t, g): a fragment of the left tree, as the subset tree kernel has them, and one of the
//! right tree; |t| the number of its productions. Zanzotto & Dell'Arciprete, "Efficient
//! kernels for sentence pair classification", EMNLP 2009.
//!
//! | [`Method`] | file | value | dot product |
//! |---|---|---|---|
//! | `Exact` | `exact.rs` | K | yes |
//! | `Paper` | `paper.rs` | the paper's construction: at most K | no |
//! | `Max` | `max.rs` | the best correspondence of placeholders: at most K | no |
//!
//! A kernel is a [measure](crate::gram::Measure) of pairs: matrices, rows, neighbours and all
//! else are those of [`gram`](crate::gram) and [`neighbours`](crate::neighbours).
//! `forest.rs` holds pairs, `alignment.rs` finds what two trees have in common,
//! `constraints.rs` has sets of placeholder pairs, `linking.rs` gives placeholders to pairs
//! of plain trees, and `naive` transcribes the definitions.
//!
//! ```
//! use treekernel_rs::gram::{self, Options};
//! use treekernel_rs::pair::{PairForest, PairKernel};
//!
//! let left = ["(S (NP:1 a) (VP sleeps))", "(S (NP:7 b) (VP sleeps))"];
//! let right = ["(S (NP:1 a) (VP rests))", "(S (NP:7 b) (VP rests))"];
//! let pairs = PairForest::from_brackets(left, right, ":")?;
//! let matrix = gram::gram(&PairKernel::new(1.0), &pairs, None, Options::default())?;
//! assert_eq!(matrix[[0, 1]], 9.0); // (S NP VP), (S NP (VP ..)) and (VP ..), twice
//! # Ok::<(), treekernel_rs::Error>(())
//! ```

mod alignment;
mod constraints;
mod exact;
mod forest;
pub mod linking;
mod max;
#[doc(hidden)]
pub mod naive;
mod paper;
mod stemmer;

use std::borrow::Cow;

use crate::gram::{Items, Measure};
use crate::kernel::{LARGEST, Number, Prepared, Range, SMALLEST, Scaled, Worker};
use crate::{Context, Error, Forest, NodeId, Result, memory};
use alignment::{Found, PairTrees};
use constraints::{Bits, Bounded, Budget, Stop, Universe, retain_conflicting};
#[cfg(feature = "python")]
pub(crate) use forest::check_separator;
use forest::renumbered;
pub use forest::{PairForest, Side};

/// How a kernel of pairs is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// The definition: a dot product.
    Exact,
    /// The paper's construction: less than the exact value for some pairs.
    Paper,
    /// The best correspondence of placeholders, by branch and bound.
    Max,
    /// The same by trying all correspondences.
    MaxEnumerated,
}

/// A kernel of pairs with its parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct PairKernel {
    /// λ: weight of a pair of fragments per production.
    pub decay: f64,
    /// How it is computed.
    pub method: Method,
    /// How many sets of placeholder pairs one value may need at a time, and, times 500,
    /// how many comparisons of two: the exact value is #P-hard in the worst case.
    pub max_constraints: u64,
}

impl PairKernel {
    /// The exact kernel, with at most 100,000 sets.
    pub fn new(decay: f64) -> Self {
        Self { decay, method: Method::Exact, max_constraints: 100_000 }
    }

    /// This kernel computed in another way.
    #[must_use]
    pub fn with_method(self, method: Method) -> Self {
        Self { method, ..self }
    }

    /// This kernel with another limit.
    #[must_use]
    pub fn with_max_constraints(self, max_constraints: u64) -> Self {
        Self { max_constraints, ..self }
    }

    /// The same kernel, where its parameters are in range.
    ///
    /// # Errors
    /// [`Error::Parameter`] that names parameter, range and value.
    pub fn validated(self) -> Result<Self> {
        crate::kernel::Parameter::new("decay", self.decay, Range::Share).check()?;
        if self.max_constraints == 0 {
            let (name, expected, got) =
                ("max_constraints", "at least 1", "0".to_owned());
            return Err(Error::Parameter { name, expected, got });
        }
        Ok(self)
    }
}

impl Items for PairForest {
    /// Both roots, and the placeholders by the order of their first visit: no kernel tells
    /// names of placeholders apart.
    type Key = (NodeId, NodeId, Vec<u32>);

    fn n_items(&self) -> usize {
        self.len()
    }

    fn trees(&self) -> &Forest {
        self.forest()
    }

    fn key(&self, pair: usize, twin: &dyn Fn(NodeId) -> NodeId) -> Result<Self::Key> {
        let [left, right] = Side::BOTH.map(|side| twin(self.root(pair, side)));
        let (numbers, _) = renumbered(self.placeholders(pair))?;
        Ok((left, right, numbers))
    }

    fn pick(&self, pairs: &[usize]) -> Result<Self> {
        self.select(pairs)
    }

    fn chain(&self, others: &Self, context: &Context) -> Result<Self> {
        self.concat_with(others, context)
    }

    fn compact(&self, _: &Context) -> Result<Cow<'_, Self>> {
        Ok(Cow::Borrowed(self))
    }
}

impl Measure<PairForest> for PairKernel {
    fn check(&self) -> Result<()> {
        self.validated().map(drop)
    }

    fn prepare(
        &self,
        pairs: &PairForest,
        context: &Context,
    ) -> Result<Box<dyn Prepared>> {
        Ok(Box::new(PreparedPairs {
            kernel: *self,
            trees: PairTrees::new(pairs, context)?,
        }))
    }

    fn limit(&self) -> u64 {
        self.max_constraints
    }
}

/// The kernel of one pair with one other: pair `i` of `x` and pair `j` of `y`.
///
/// # Errors
/// [`Error::Parameter`], [`Error::ConstraintLimit`], [`Error::Overflow`]. The errors call the pairs `i` and `j`.
///
/// # Panics
/// When an index is out of range, as slices do.
pub fn pair(
    kernel: &PairKernel,
    (x, i): (&PairForest, usize),
    (y, j): (&PairForest, usize),
    normalize: bool,
) -> Result<f64> {
    pair_with(kernel, (x, i), (y, j), normalize, &Context::default())
}

/// As [`pair`], in a context.
///
/// # Errors
/// As [`pair`], and what `context` returns.
pub fn pair_with(
    kernel: &PairKernel,
    (x, i): (&PairForest, usize),
    (y, j): (&PairForest, usize),
    normalize: bool,
    context: &Context,
) -> Result<f64> {
    let kernel = kernel.validated()?;
    // A list of its own, so that both have one store, and productions compare.
    let both = x.select(&[i])?.concat_with(&y.select(&[j])?, context)?;
    context.advance(0, 1)?;
    let trees = PairTrees::new(&both, context)?;
    let mut scratch = Scratches::default();
    let mut value_of = |a: usize, b: usize| {
        let value = scaled(&kernel, &trees, [a, b], &mut scratch, context);
        value.map_err(|stop| refused(&kernel, (i, j), stop))
    };
    let [a, b] = [0, 1];
    // Equal pairs have the value 1, whatever the kernel; but 0 where there is nothing
    // to divide by.
    if normalize && both.key(a, &|root| root)? == both.key(b, &|root| root)? {
        // As in a matrix: what takes too many sets is not 0.
        return match value_of(a, a) {
            Ok(self_value) if self_value.is_zero() => Ok(0.0),
            Ok(_) | Err(Error::ConstraintLimit { .. }) => Ok(1.0),
            Err(error) => Err(error),
        };
    }
    let both = value_of(a, b)?;
    if !normalize {
        let value = both.value();
        return if value.is_finite() {
            Ok(value)
        } else {
            Err(Error::Overflow { row: i, column: j })
        };
    }
    // As in a matrix: nothing is shared with what has no kernel with itself, even if the
    // other one takes too many sets.
    match [value_of(a, a), value_of(b, b)] {
        [Ok(self_value), _] | [_, Ok(self_value)] if self_value.is_zero() => Ok(0.0),
        [self_value, other] => {
            Ok(both.cosine(self_value?, other?).min(max_normalized(kernel.method)))
        }
    }
}

/// Why there is no value for two pairs.
fn refused(kernel: &PairKernel, pair: (usize, usize), stop: Stop) -> Error {
    let (pairs, limit) = (vec![pair], kernel.max_constraints); // bounded: one
    stop.into_error(|| Error::ConstraintLimit { pairs, limit })
}

/// C, the alternative constraints of two pairs, each as pairs of placeholders: that of the
/// paper for [`Method::Paper`]; for [`Method::Exact`] the one under which the paper's
/// formula would be exact; for [`Method::Max`] the best one alone.
///
/// # Errors
/// As [`pair()`].
///
/// # Panics
/// When an index is out of range, as slices do.
pub fn constraints(
    kernel: &PairKernel,
    (x, i): (&PairForest, usize),
    (y, j): (&PairForest, usize),
) -> Result<Vec<Vec<(u32, u32)>>> {
    constraints_with(kernel, (x, i), (y, j), &Context::default())
}

/// As [`constraints`], in a context.
///
/// # Errors
/// As [`constraints`], and what `context` returns.
pub fn constraints_with(
    kernel: &PairKernel,
    (x, i): (&PairForest, usize),
    (y, j): (&PairForest, usize),
    context: &Context,
) -> Result<Vec<Vec<(u32, u32)>>> {
    let kernel = kernel.validated()?;
    let both = x.select(&[i])?.concat_with(&y.select(&[j])?, context)?;
    context.advance(0, 1)?;
    let trees = PairTrees::new(&both, context)?;
    let mut budget = Budget::new(kernel.max_constraints, context);
    let mut scratch = Scratch::<f64>::default();
    let found = scratch.align(&kernel, &trees, [0, 1], true, &mut budget);
    let found = found.and_then(|shared| {
        // The paper's C has the constraints of either side, whatever the other one has.
        if !shared && kernel.method != Method::Paper {
            return Ok(Vec::new());
        }
        // As wide a set as it takes: this is asked of one pair of items, once.
        named_constraints::<Vec<u64>>(&kernel, &trees, &scratch, &mut budget)
    });
    let mut sets = found.map_err(|stop| refused(&kernel, (i, j), stop))?;
    // In an order that depends on the sets alone.
    for set in &mut sets {
        set.sort_unstable();
    }
    sets.sort_unstable_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    Ok(sets)
}

fn named_constraints<B: Bits>(
    kernel: &PairKernel,
    trees: &PairTrees,
    scratch: &Scratch<f64>,
    budget: &mut Budget<'_, '_>,
) -> Bounded<Vec<Vec<(u32, u32)>>> {
    scratch.check_size(budget)?;
    let universe = Universe::<B>::new(memory::copied(&scratch.codes)?)?;
    // Words of a set: what one step reads.
    budget.width = universe.none()?.words().len();
    let forest = |side: Side| {
        trees.forest([0, 1], side, &scratch.found[side as usize], &universe)
    };
    let (left, right) = (forest(Side::Left)?, forest(Side::Right)?);
    let sets = match kernel.method {
        Method::Exact => paper::exact_constraints(&universe, &left, &right, budget)?,
        Method::Paper => paper::constraints(&universe, &left, &right, budget)?,
        Method::Max | Method::MaxEnumerated => {
            let join = |a, b| a * b;
            let best =
                max::kernel(&universe, &left, &right, kernel.decay, join, budget)?;
            memory::collect([best.1])?
        }
    };
    let named = |set: &B| {
        let named = |bit: usize| trees.named(0, 1, universe.codes[bit]);
        memory::collect(set.members().map(named))
    };
    Ok(memory::try_collect(sets.iter().map(named))?)
}

/// What a worker keeps from value to value.
struct Scratch<N> {
    /// By side.
    found: [Found<N>; 2],
    codes: Vec<u64>,
    seconds: Vec<u32>,
}

impl<N: Number> Default for Scratch<N> {
    fn default() -> Self {
        Self {
            found: [Found::new(), Found::new()],
            codes: Vec::new(),
            seconds: Vec::new(),
        }
    }
}

impl<N: Number> Scratch<N> {
    /// Finds what two pairs have in common, and all placeholder pairs in it. Whether
    /// there is something on both sides: else the kernel is 0, and where not the `whole` is
    /// wanted, that is found out as soon as one side has nothing.
    fn align(
        &mut self,
        kernel: &PairKernel,
        trees: &PairTrees,
        pair: [usize; 2],
        whole: bool,
        budget: &mut Budget<'_, '_>,
    ) -> Bounded<bool> {
        let Self { found, codes, .. } = self;
        codes.clear();
        for side in Side::BOTH {
            let found = &mut found[side as usize];
            trees.align(pair, side, kernel.decay, found, codes, budget)?;
            if !whole && found.total == N::from_f64(0.0) {
                return Ok(false);
            }
        }
        // Equal pairs of placeholders from both sides are one.
        codes.sort_unstable();
        codes.dedup();
        Ok(found.iter().all(|found| found.total != N::from_f64(0.0)))
    }

    fn value(
        &mut self,
        kernel: &PairKernel,
        trees: &PairTrees,
        pair: [usize; 2],
        budget: &mut Budget<'_, '_>,
    ) -> Bounded<N> {
        if !self.align(kernel, trees, pair, false, budget)? {
            return Ok(N::from_f64(0.0));
        }
        let unconstrained = self.found[0].total * self.found[1].total;
        // Where no constraint is in conflict with another one, all fragments fit
        // together, whatever the constraints: four kernels of five that are not 0, for the
        // first 200 pairs of SNLI; two of three for RTE-3.
        let is_free = match kernel.method {
            Method::Exact => {
                retain_conflicting(&mut self.codes, &mut self.seconds)?;
                self.codes.is_empty()
            }
            // C has the constraints of equal fragments, so every pair of placeholders
            // matters.
            Method::Paper => self.codes.is_empty(),
            Method::Max => {
                let mut conflicting = memory::copied(&self.codes)?;
                retain_conflicting(&mut conflicting, &mut self.seconds)?;
                conflicting.is_empty()
            }
            // The baseline: it tries all correspondences, whatever there is in common.
            Method::MaxEnumerated => false,
        };
        if is_free {
            return Ok(unconstrained);
        }
        self.check_size(budget)?;
        // The smallest sets that do: most steps go through all words of one.
        match self.codes.len() {
            n if n <= u64::MAX_ROOM => {
                self.constrained::<u64>(kernel, trees, pair, budget)
            }
            n if n <= <[u64; 4]>::MAX_ROOM => {
                self.constrained::<[u64; 4]>(kernel, trees, pair, budget)
            }
            _ => self.constrained::<Vec<u64>>(kernel, trees, pair, budget),
        }
    }

    /// Refuses what the limit does not allow before any set was counted: as many sets as
    /// there are pairs of placeholders and aligned nodes, each with a bit per pair.
    fn check_size(&self, budget: &Budget<'_, '_>) -> Bounded<()> {
        let aligned = self.found.iter().map(Found::len).sum::<usize>();
        let sets = self.codes.len() + 2 * aligned;
        let bytes = sets as u64 * self.codes.len().div_ceil(8) as u64;
        if bytes > budget.most_bytes() {
            return Err(Stop::Limit);
        }
        Ok(())
    }

    fn constrained<B: Bits>(
        &self,
        kernel: &PairKernel,
        trees: &PairTrees,
        pair: [usize; 2],
        budget: &mut Budget<'_, '_>,
    ) -> Bounded<N> {
        let universe = Universe::<B>::new(memory::copied(&self.codes)?)?;
        budget.width = universe.none()?.words().len();
        let forest = |side: Side| {
            trees.forest(pair, side, &self.found[side as usize], &universe)
        };
        let (left, right) = (forest(Side::Left)?, forest(Side::Right)?);
        let decay = kernel.decay;
        match kernel.method {
            Method::Exact => exact::kernel(&universe, &left, &right, decay, budget),
            Method::Paper => paper::kernel(&universe, &left, &right, decay, budget),
            Method::Max => {
                let join = |a, b| a * b;
                Ok(max::kernel(&universe, &left, &right, decay, join, budget)?.0)
            }
            Method::MaxEnumerated => {
                let n = pair.map(|pair| trees.n_placeholders(pair));
                max::enumerated(&universe, &left, &right, n, decay, budget)
            }
        }
    }
}

/// Scratches for either type of number.
#[derive(Default)]
struct Scratches {
    floats: Scratch<f64>,
    scaled: Scratch<Scaled>,
}

/// A value as a number that does not overflow.
fn scaled(
    kernel: &PairKernel,
    trees: &PairTrees,
    pair: [usize; 2],
    scratch: &mut Scratches,
    context: &Context,
) -> Bounded<Scaled> {
    // Floats first; a value that they do not hold is computed again. The smallest
    // fragments have a production on either side.
    if kernel.decay * kernel.decay >= SMALLEST {
        let mut budget = Budget::new(kernel.max_constraints, context);
        let float = scratch.floats.value(kernel, trees, pair, &mut budget)?;
        if float < LARGEST {
            return Ok(Scaled::from_f64(float));
        }
    }
    let mut budget = Budget::new(kernel.max_constraints, context);
    scratch.scaled.value(kernel, trees, pair, &mut budget)
}

/// The largest normalised value: only a dot product has one.
fn max_normalized(method: Method) -> f64 {
    if method == Method::Exact { 1.0 } else { f64::INFINITY }
}

/// Pairs made ready for their kernels with each other.
struct PreparedPairs {
    kernel: PairKernel,
    trees: PairTrees,
}

impl Prepared for PreparedPairs {
    fn worker(&self) -> Worker<'_> {
        let mut scratch = Scratches::default();
        Box::new(move |a, b, context| {
            let value =
                scaled(&self.kernel, &self.trees, [a, b], &mut scratch, context);
            value.map_err(|stop| refused(&self.kernel, (a, b), stop))
        })
    }

    fn most(&self) -> f64 {
        max_normalized(self.kernel.method)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs of star-shaped trees with so many placeholders that share `n` or so.
    fn stars(n: usize) -> PairForest {
        let star = |shift: usize, label: &str| {
            let leaf =
                |k: usize| format!("({label}{} (x:{} w))", k % 3, (k * shift) % n);
            format!("(R {})", (0..n).map(leaf).collect::<Vec<_>>().join(" "))
        };
        let shifts = [1, n - 1, 2 * n + 1, n / 2 + 1];
        let left = shifts.map(|shift| star(shift, "A"));
        let right = shifts.map(|shift| star(shift + 1, "B"));
        let texts = |side: &'static [String]| side.iter().map(String::as_str);
        let [left, right] = [left, right].map(|side| &*Vec::leak(side.to_vec()));
        PairForest::from_brackets(texts(left), texts(right), ":").unwrap()
    }

    #[test]
    fn values_do_not_depend_on_the_width_of_sets() {
        for method in [Method::Exact, Method::Paper, Method::Max] {
            let kernel = PairKernel { method, ..PairKernel::new(0.5) };
            let pairs = stars(5);
            let context = &Context::default();
            let trees = PairTrees::new(&pairs, context).unwrap();
            let mut constrained = 0;
            for a in 0..pairs.len() {
                for b in 0..pairs.len() {
                    let mut budget = Budget::new(1_000_000, context);
                    let mut scratch = Scratch::<f64>::default();
                    let pair = [a, b];
                    let value =
                        scratch.value(&kernel, &trees, pair, &mut budget).unwrap();
                    if scratch.codes.is_empty() {
                        continue;
                    }
                    constrained += 1;
                    let wide = [
                        scratch.constrained::<u64>(&kernel, &trees, pair, &mut budget),
                        scratch.constrained::<[u64; 4]>(
                            &kernel,
                            &trees,
                            pair,
                            &mut budget,
                        ),
                        scratch.constrained::<Vec<u64>>(
                            &kernel,
                            &trees,
                            pair,
                            &mut budget,
                        ),
                    ];
                    for other in wide {
                        let other = other.unwrap();
                        assert!((other - value).abs() <= 1e-12 * value, "{method:?}");
                    }
                    let mut scaled = Scratch::<Scaled>::default();
                    let other =
                        scaled.value(&kernel, &trees, pair, &mut budget).unwrap();
                    assert!((other.value() - value).abs() <= 1e-12 * value);
                }
            }
            assert!(constrained > 4, "{method:?}: {constrained}");
        }
    }
}
