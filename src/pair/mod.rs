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
//! `forest.rs` holds pairs, `alignment.rs` finds what two trees have in common,
//! `constraints.rs` has sets of placeholder pairs, `linking.rs` gives placeholders to pairs
//! of plain trees, and [`naive`] transcribes the definitions.
//!
//! ```
//! use treekernel_rs::gram::Options;
//! use treekernel_rs::pair::{self, PairForest, PairKernel};
//!
//! let left = ["(S (NP:1 a) (VP sleeps))", "(S (NP:7 b) (VP sleeps))"];
//! let right = ["(S (NP:1 a) (VP rests))", "(S (NP:7 b) (VP rests))"];
//! let pairs = PairForest::from_brackets(left, right, ":")?;
//! let matrix = pair::gram(&PairKernel::new(1.0), &pairs, None, Options::default())?;
//! assert_eq!(matrix[[0, 1]], 9.0); // (S NP VP), (S NP (VP ..)) and (VP ..), twice
//! # Ok::<(), treekernel_rs::Error>(())
//! ```

mod alignment;
mod constraints;
mod exact;
mod forest;
pub mod linking;
mod max;
pub mod naive;
mod paper;
mod stemmer;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use ndarray::Array2;

use crate::gram::{self, Askable, Distinct, Element, Engine, Matrix, Options};
use crate::kernel::{
    LARGEST, Number, Prepared, Range, SMALLEST, Scaled, TreeCounts, Worker,
};
use crate::threads::{Tasks, Threads};
use crate::{Context, Error, NodeId, Nodes, Result, memory};
use alignment::{Found, Trees};
use constraints::{Bits, Bounded, Budget, Stop, Universe, retain_conflicting};
pub use forest::{PairForest, Side, check_separator};

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

    /// The same kernel, its parameters found to be in range.
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

/// What the caller may want to warn of, and what is missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Pairs whose kernel with themselves is 0 (normalised matrices only).
    pub zeros: gram::Report,
    /// Entries (row, column) that are NaN, as the kernel needs more sets of placeholder
    /// pairs than `max_constraints`; of a symmetric matrix those of the lower triangle.
    pub given_up: Vec<(usize, usize)>,
}

/// The kernels of all pairs of `x` with all of `y` (of `x`, where it is None).
///
/// # Errors
/// As [`fill`], and [`Error::ConstraintLimit`] where that would report values given up.
pub fn gram(
    kernel: &PairKernel,
    x: &PairForest,
    y: Option<&PairForest>,
    options: Options,
) -> Result<Array2<f64>> {
    gram_with(kernel, x, y, options, &Context::default())
}

/// As [`gram()`], in a context.
///
/// # Errors
/// As [`gram()`].
pub fn gram_with(
    kernel: &PairKernel,
    x: &PairForest,
    y: Option<&PairForest>,
    options: Options,
    context: &Context,
) -> Result<Array2<f64>> {
    let shape = (x.len(), y.unwrap_or(x).len());
    let mut values = memory::filled(0.0, shape.0.saturating_mul(shape.1))?;
    let report = fill(kernel, x, y, options, &mut values, context)?;
    complete(kernel, report.given_up)?;
    Ok(Array2::from_shape_vec(shape, values).unwrap_or_default())
}

fn complete(kernel: &PairKernel, given_up: Vec<(usize, usize)>) -> Result<()> {
    if given_up.is_empty() {
        return Ok(());
    }
    Err(Error::ConstraintLimit { pairs: given_up, limit: kernel.max_constraints })
}

/// As [`gram()`], into `out`, row after row. A value that needs more than the kernel's
/// `max_constraints` becomes NaN and is reported; all others are computed.
///
/// # Errors
/// [`Error::Parameter`] for a kernel out of range, [`Error::Length`] for an `out` of the
/// wrong size, [`Error::Overflow`] for a value too large for `out`,
/// [`Error::Capacity`], and what `context` returns.
pub fn fill<T: Element>(
    kernel: &PairKernel,
    x: &PairForest,
    y: Option<&PairForest>,
    options: Options,
    out: &mut [T],
    context: &Context,
) -> Result<Report> {
    let kernel = kernel.validated()?;
    let width = y.unwrap_or(x).len();
    if out.len() != x.len() * width {
        let expected = format!("{}, rows times columns", x.len() * width);
        return Err(Error::Length { array: "out", expected, got: out.len() });
    }
    if out.is_empty() {
        return Ok(Report::default());
    }
    // Columns first, as the matrix counts them.
    let both = y.map(|y| y.union_store(x, context)).transpose()?;
    let (first, second) = match &both {
        Some((y, x)) => (y, Some(x)),
        None => (x, None),
    };
    context.advance(0, x.len())?;
    let (numbers, examples) = first.instances(second, context)?;
    let columns = Distinct::new(&numbers[..first.len()]);
    let rows = second.map(|_| Distinct::new(&numbers[first.len()..]));
    let instance: Vec<u32> = columns
        .roots
        .iter()
        .chain(rows.iter().flat_map(|r| &r.roots))
        .copied()
        .collect();
    let work = Work {
        kernel,
        trees: prepared(first, second, &examples, context)?,
        first_row: if rows.is_some() { columns.len() } else { 0 },
        instance,
        gave_up: AtomicBool::new(false),
    };
    let symmetric = rows.is_none();
    let matrix = Matrix { out: &mut *out, columns: &columns, rows: rows.as_ref() };
    let singles: Option<&dyn Prepared> =
        if options.normalize { Some(&work) } else { None };
    let zeros = matrix.fill(&work, singles, context)?;
    let mut given_up = Vec::new();
    if work.gave_up.load(Ordering::Relaxed) {
        for (row, values) in out.chunks(width).enumerate() {
            let values = if symmetric { &values[..=row] } else { values };
            let gaps = values.iter().enumerate().filter(|(_, value)| value.is_gap());
            given_up.extend(gaps.map(|(column, _)| (row, column)));
        }
    }
    Ok(Report { zeros, given_up })
}

fn prepared(
    first: &PairForest,
    second: Option<&PairForest>,
    examples: &[usize],
    context: &Context,
) -> Result<Trees> {
    let place = |&at: &usize| match at.checked_sub(first.len()) {
        None => (0, at),
        Some(at) => (1, at),
    };
    let lists = [first, second.unwrap_or(first)];
    Trees::new(examples.iter().map(place), lists, context)
}

/// The kernel of each pair with itself, NaN where it is given up.
///
/// # Errors
/// As [`fill`].
pub fn diagonal(
    kernel: &PairKernel,
    x: &PairForest,
    options: Options,
    context: &Context,
) -> Result<(Vec<f64>, Report)> {
    context.advance(0, x.len())?;
    let (numbers, examples) = x.instances(None, context)?;
    let distinct = Distinct::new(&numbers);
    let work = Work {
        kernel: kernel.validated()?,
        trees: prepared(x, None, &examples, context)?,
        first_row: 0,
        instance: distinct.roots.clone(),
        gave_up: AtomicBool::new(false),
    };
    let (values, zeros) = gram::diagonal_of(&work, &distinct, options, context)?;
    let gaps = values.iter().enumerate().filter(|(_, value)| value.is_nan());
    let given_up = gaps.map(|(pair, _)| (pair, pair)).collect();
    Ok((values, Report { zeros, given_up }))
}

/// The rows of the matrix of `x` with itself, each computed when it is asked for. A row
/// with a value that needs more than the kernel's `max_constraints` is
/// [`Error::ConstraintLimit`].
///
/// # Errors
/// As [`fill`].
pub fn rows(
    kernel: &PairKernel,
    x: &PairForest,
    options: Options,
    context: &Context,
) -> Result<gram::Rows> {
    let kernel = kernel.validated()?;
    context.advance(0, x.len())?;
    let (numbers, examples) = x.instances(None, context)?;
    // Distinct things are told apart by an id, whatever they are.
    let ids: Vec<NodeId> = numbers.iter().copied().map(NodeId).collect();
    let distinct = Distinct::new(&ids);
    let work = Arc::new(Work {
        kernel,
        trees: prepared(x, None, &examples, context)?,
        first_row: 0,
        instance: distinct.roots.iter().map(|id| id.0).collect(),
        gave_up: AtomicBool::new(false),
    });
    let singles = options.normalize.then(|| Arc::clone(&work) as Arc<dyn Prepared>);
    let limit = kernel.max_constraints;
    gram::Rows::with_engine(Kept(work), singles, distinct, limit, context)
}

/// The kernels of some pairs: of `i[n]` of X and `j[n]` of Y (of X, where there is no Y);
/// NaN where they are given up.
///
/// # Errors
/// As [`fill`]; [`Error::Length`] for lists of different lengths, [`Error::Array`] for a
/// pair that is not there.
pub fn values(
    kernel: &PairKernel,
    x: &PairForest,
    y: Option<&PairForest>,
    (i, j): (&[usize], &[usize]),
    options: Options,
    context: &Context,
) -> Result<(Vec<f64>, Report)> {
    const PER_TASK: usize = 64;
    let kernel = kernel.validated()?;
    if i.len() != j.len() {
        let expected = format!("{}, as i", i.len());
        return Err(Error::Length { array: "j", expected, got: j.len() });
    }
    for (array, list, len) in [("i", i, x.len()), ("j", j, y.unwrap_or(x).len())] {
        if let Some(index) = list.iter().position(|&pair| pair >= len) {
            let (expected, got) = (format!("below {len}"), list[index].to_string());
            return Err(Error::Array { array, index, expected, got });
        }
    }
    // 1. Make all pairs ready, X before Y.
    let both = y.map(|y| x.union_store(y, context)).transpose()?;
    let (first, second) = match &both {
        Some((x, y)) => (x, Some(y)),
        None => (x, None),
    };
    context.advance(0, i.len())?;
    let (numbers, examples) = first.instances(second, context)?;
    let work = Work {
        kernel,
        trees: prepared(first, second, &examples, context)?,
        first_row: 0,
        instance: (0..examples.len() as u32).collect(),
        gave_up: AtomicBool::new(false),
    };
    let of_y = if second.is_some() { first.len() } else { 0 };
    let number =
        |at: usize| [i[at], of_y + j[at]].map(|pair: usize| numbers[pair] as usize);
    // 2. Their kernels with themselves, of those that are asked for.
    let mut selfs = Vec::new();
    if options.normalize {
        selfs = gram::self_kernels(&work, examples.len(), context)?;
    }
    // 3. The values.
    let most = most(kernel.method);
    let mut out = memory::filled(0.0, i.len())?;
    let parts: Vec<_> = out.chunks_mut(PER_TASK).map(Mutex::new).collect();
    let threads = Threads::new(context, parts.len());
    let mut workers: Vec<_> = (0..threads.size()).map(|_| work.worker()).collect();
    threads.run(
        &Tasks::of_rows(i.len(), PER_TASK),
        &mut workers,
        |part, of, context| {
            let Ok(mut out) = parts[part].lock() else { return Ok(()) };
            for (at, value) in (part * PER_TASK..).zip(out.iter_mut()) {
                let [a, b] = number(at);
                *value = match selfs.get(a) {
                    Some(own) if a == b => f64::from(!own.is_zero()),
                    Some(own) => {
                        let cosine = of(a, b, context)?.cosine(*own, selfs[b]);
                        // Not by `min`, which NaN is no number to.
                        if cosine > most { most } else { cosine }
                    }
                    None => of(a, b, context)?.value(),
                };
                if value.is_infinite() {
                    return Err(Error::Overflow { row: i[at], column: j[at] });
                }
                context.check_now()?;
            }
            Ok(())
        },
    )?;
    drop(parts);
    let gaps = (0..i.len()).filter(|&at| out[at].is_nan());
    let given_up = gaps.map(|at| (i[at], j[at])).collect();
    let mut zeros = gram::Report::default();
    for at in 0..i.len() {
        let [a, b] =
            number(at).map(|pair| selfs.get(pair).is_some_and(|k| k.is_zero()));
        zeros.zero_rows.extend(a.then_some(i[at]));
        zeros.zero_columns.extend(b.then_some(j[at]));
    }
    for list in [&mut zeros.zero_rows, &mut zeros.zero_columns] {
        list.sort_unstable();
        list.dedup();
    }
    Ok((out, Report { zeros, given_up }))
}

/// The kernel of one pair with one other: pair `i` of `x` and pair `j` of `y`.
///
/// # Errors
/// [`Error::Parameter`], [`Error::ConstraintLimit`], [`Error::Overflow`], and what `context`
/// returns. The errors call the pairs `i` and `j`.
///
/// # Panics
/// When an index is out of range, as slices do.
pub fn pair(
    kernel: &PairKernel,
    (x, i): (&PairForest, usize),
    (y, j): (&PairForest, usize),
    normalize: bool,
    context: &Context,
) -> Result<f64> {
    let kernel = kernel.validated()?;
    let (x, y) = x.select(&[i])?.union_store(&y.select(&[j])?, context)?;
    context.advance(0, 1)?;
    let (numbers, examples) = x.instances(Some(&y), context)?;
    let trees = prepared(&x, Some(&y), &examples, context)?;
    let mut scratch = Both::default();
    let mut of = |a: u32, b: u32| {
        let pair = [a as usize, b as usize];
        let value = scaled(&kernel, &trees, pair, &mut scratch, context);
        value.map_err(|stop| refused(&kernel, (i, j), stop))
    };
    let [a, b] = [numbers[0], numbers[1]];
    if normalize && a == b {
        // As in a matrix: what takes too many sets is not 0.
        return match of(a, b) {
            Ok(own) if own.is_zero() => Ok(0.0),
            Ok(_) | Err(Error::ConstraintLimit { .. }) => Ok(1.0),
            Err(error) => Err(error),
        };
    }
    let both = of(a, b)?;
    if !normalize {
        let value = both.value();
        return if value.is_finite() {
            Ok(value)
        } else {
            Err(Error::Overflow { row: i, column: j })
        };
    }
    Ok(both.cosine(of(a, a)?, of(b, b)?).min(most(kernel.method)))
}

/// Why there is no value for two pairs.
fn refused(kernel: &PairKernel, pair: (usize, usize), stop: Stop) -> Error {
    let (pairs, limit) = (vec![pair], kernel.max_constraints);
    stop.into_error(|| Error::ConstraintLimit { pairs, limit })
}

/// Pairs made ready for single kernels of many of them.
///
/// ```
/// use treekernel_rs::pair::{PairForest, PairKernel, Pairs};
///
/// let pairs = PairForest::from_brackets(["(A:1 a)"; 2], ["(B:1 b)", "(B:2 b)"], ":")?;
/// let pairs = Pairs::new(&PairKernel::new(1.0), &pairs)?;
/// let mut of = pairs.worker();
/// assert_eq!((of(0, 0)?, of(0, 1)?), (1.0, 0.0));
/// # Ok::<(), treekernel_rs::Error>(())
/// ```
pub struct Pairs {
    kernel: PairKernel,
    trees: Trees,
    /// Which of the pairs made ready each one is.
    instance: Vec<u32>,
}

impl Pairs {
    /// Makes the pairs of a list ready.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a kernel out of range, [`Error::Capacity`].
    pub fn new(kernel: &PairKernel, pairs: &PairForest) -> Result<Self> {
        let kernel = kernel.validated()?;
        let context = &Context::default();
        let (instance, examples) = pairs.instances(None, context)?;
        Ok(Self { kernel, trees: prepared(pairs, None, &examples, context)?, instance })
    }

    /// A function from the numbers of two pairs to their kernel, not normalised. It
    /// keeps what it needs from call to call: one worker for each thread, and for many
    /// kernels. Its errors are [`Error::ConstraintLimit`] and [`Error::Overflow`].
    ///
    /// # Panics
    /// The function panics on a number of no pair.
    pub fn worker(&self) -> impl FnMut(usize, usize) -> Result<f64> + Send + '_ {
        let mut scratch = Scratch::<f64>::default();
        move |i, j| {
            let pair = [i, j].map(|pair| self.instance[pair] as usize);
            let context = Context::default();
            let mut budget = Budget::new(self.kernel.max_constraints, &context);
            let value = scratch.value(&self.kernel, &self.trees, pair, &mut budget);
            let value = value.map_err(|stop| refused(&self.kernel, (i, j), stop))?;
            if value.is_finite() {
                Ok(value)
            } else {
                Err(Error::Overflow { row: i, column: j })
            }
        }
    }
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
    context: &Context,
) -> Result<Vec<Vec<(u32, u32)>>> {
    let kernel = kernel.validated()?;
    let (x, y) = x.select(&[i])?.union_store(&y.select(&[j])?, context)?;
    // Not by instances: these pairs' own placeholders are shown.
    context.advance(0, 1)?;
    let trees = Trees::new([(0, 0), (1, 0)], [&x, &y], context)?;
    let mut budget = Budget::new(kernel.max_constraints, context);
    let mut scratch = Scratch::<f64>::default();
    let found = scratch.align(&kernel, &trees, [0, 1], true, &mut budget);
    let found = found.and_then(|shared| {
        // The paper's C has the constraints of either side, whatever the other one has.
        if !shared && kernel.method != Method::Paper {
            return Ok(Vec::new());
        }
        show::<Vec<u64>>(&kernel, &trees, &scratch, &mut budget)
    });
    let mut sets = found.map_err(|stop| refused(&kernel, (i, j), stop))?;
    for set in &mut sets {
        set.sort_unstable();
    }
    sets.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    Ok(sets)
}

fn show<B: Bits>(
    kernel: &PairKernel,
    trees: &Trees,
    scratch: &Scratch<f64>,
    budget: &mut Budget<'_, '_>,
) -> Bounded<Vec<Vec<(u32, u32)>>> {
    scratch.check_size(budget)?;
    let universe = Universe::<B>::new(scratch.codes.clone());
    budget.width = universe.none().words().len();
    let forest = |side: Side| {
        trees.forest([0, 1], side, &scratch.found[side as usize], &universe)
    };
    let (left, right) = (forest(Side::Left)?, forest(Side::Right)?);
    let sets = match kernel.method {
        Method::Exact => paper::exact_constraints(&universe, &left, &right, budget)?,
        Method::Paper => paper::constraints(&universe, &left, &right, budget)?,
        Method::Max | Method::MaxEnumerated => {
            let join = |a, b| a * b;
            vec![max::kernel(&universe, &left, &right, kernel.decay, join, budget)?.1]
        }
    };
    let named = |set: &B| {
        set.members().map(|bit| trees.named(0, 1, universe.codes[bit])).collect()
    };
    Ok(sets.iter().map(named).collect())
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
        trees: &Trees,
        pair: [usize; 2],
        whole: bool,
        budget: &mut Budget<'_, '_>,
    ) -> Bounded<bool> {
        let Self { found, codes, .. } = self;
        codes.clear();
        for side in Side::BOTH {
            let found = &mut found[side as usize];
            trees.align(pair, side, kernel.decay, found, codes, budget)?;
            if !whole && found.total == N::of(0.0) {
                return Ok(false);
            }
        }
        codes.sort_unstable();
        codes.dedup();
        Ok(found.iter().all(|found| found.total != N::of(0.0)))
    }

    fn value(
        &mut self,
        kernel: &PairKernel,
        trees: &Trees,
        pair: [usize; 2],
        budget: &mut Budget<'_, '_>,
    ) -> Bounded<N> {
        if !self.align(kernel, trees, pair, false, budget)? {
            return Ok(N::of(0.0));
        }
        let unconstrained = self.found[0].total * self.found[1].total;
        // Where no constraint is in conflict with another one, all fragments fit
        // together, whatever the constraints: four kernels of five that are not 0, for the
        // first 200 pairs of SNLI; two of three for RTE-3.
        let is_free = match kernel.method {
            Method::Exact => {
                retain_conflicting(&mut self.codes, &mut self.seconds);
                self.codes.is_empty()
            }
            Method::Paper => self.codes.is_empty(),
            Method::Max => {
                let mut conflicting = self.codes.clone();
                retain_conflicting(&mut conflicting, &mut self.seconds);
                conflicting.is_empty()
            }
            Method::MaxEnumerated => false,
        };
        if is_free {
            return Ok(unconstrained);
        }
        self.check_size(budget)?;
        match self.codes.len() {
            n if n <= u64::MOST => self.constrained::<u64>(kernel, trees, pair, budget),
            n if n <= <[u64; 4]>::MOST => {
                self.constrained::<[u64; 4]>(kernel, trees, pair, budget)
            }
            _ => self.constrained::<Vec<u64>>(kernel, trees, pair, budget),
        }
    }

    /// Refuses what would not fit into memory before any set was counted: as many sets as
    /// there are pairs of placeholders and aligned nodes, each with a bit per pair.
    fn check_size(&self, budget: &Budget<'_, '_>) -> Bounded<()> {
        let aligned = self.found.iter().map(Found::len).sum::<usize>();
        let sets = self.codes.len() + 2 * aligned;
        let bytes = sets as u64 * self.codes.len().div_ceil(8) as u64;
        if bytes > budget.most_bytes() {
            return Err(Stop::Limit);
        }
        let per_node = 8 * size_of::<N>() + self.codes.len() / 4;
        memory::room(aligned, per_node)?;
        Ok(())
    }

    fn constrained<B: Bits>(
        &self,
        kernel: &PairKernel,
        trees: &Trees,
        pair: [usize; 2],
        budget: &mut Budget<'_, '_>,
    ) -> Bounded<N> {
        let universe = Universe::<B>::new(self.codes.clone());
        budget.width = universe.none().words().len();
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
struct Both {
    floats: Scratch<f64>,
    scaled: Scratch<Scaled>,
}

/// A value as a number that does not overflow.
fn scaled(
    kernel: &PairKernel,
    trees: &Trees,
    pair: [usize; 2],
    scratch: &mut Both,
    context: &Context,
) -> Bounded<Scaled> {
    // The smallest fragments have a production on either side.
    if kernel.decay * kernel.decay >= SMALLEST {
        let mut budget = Budget::new(kernel.max_constraints, context);
        let float = scratch.floats.value(kernel, trees, pair, &mut budget)?;
        if float < LARGEST {
            return Ok(Scaled::of(float));
        }
    }
    let mut budget = Budget::new(kernel.max_constraints, context);
    scratch.scaled.value(kernel, trees, pair, &mut budget)
}

/// The largest normalised value: only a dot product has one.
fn most(method: Method) -> f64 {
    if method == Method::Exact { 1.0 } else { f64::INFINITY }
}

/// Pairs at work in a matrix: an engine for its rows, and single values for its diagonal.
struct Work {
    kernel: PairKernel,
    trees: Trees,
    /// Columns, then rows where these are others: which of the prepared pairs they are.
    instance: Vec<u32>,
    first_row: usize,
    gave_up: AtomicBool,
}

impl Engine for Work {
    type Scratch = Scratch<f64>;
    const GIVES_UP: bool = true;
    const HEIGHT: usize = 32;

    fn most(&self) -> f64 {
        most(self.kernel.method)
    }

    fn scratch(&self) -> Result<Self::Scratch> {
        Ok(Scratch::default())
    }

    fn row(
        &self,
        x: usize,
        scratch: &mut Self::Scratch,
        row: &mut [f64],
        context: &Context,
    ) -> Result<()> {
        let a = self.instance[self.first_row + x] as usize;
        for (t, value) in row.iter_mut().enumerate() {
            if t % 64 == 63 {
                context.check_now()?;
            }
            let pair = [a, self.instance[t] as usize];
            let mut budget = Budget::new(self.kernel.max_constraints, context);
            *value = match scratch.value(&self.kernel, &self.trees, pair, &mut budget) {
                Ok(value) => value,
                Err(Stop::Limit) => {
                    self.gave_up.store(true, Ordering::Relaxed);
                    f64::NAN
                }
                Err(Stop::Error(error)) => return Err(error),
            };
        }
        Ok(())
    }
}

/// Pairs that are asked row by row.
struct Kept(Arc<Work>);

impl Engine for Kept {
    type Scratch = Scratch<f64>;
    const GIVES_UP: bool = true;

    fn most(&self) -> f64 {
        Engine::most(&*self.0)
    }

    fn scratch(&self) -> Result<Self::Scratch> {
        self.0.scratch()
    }

    fn row(
        &self,
        x: usize,
        scratch: &mut Self::Scratch,
        row: &mut [f64],
        context: &Context,
    ) -> Result<()> {
        self.0.row(x, scratch, row, context)
    }
}

impl Askable for Kept {
    type Rows = ();

    fn read(&self, _: &Nodes, _: &Arc<Nodes>, _: &TreeCounts) -> Result<Option<()>> {
        Ok(None)
    }

    fn row_of(
        &self,
        (): &(),
        x: usize,
        scratch: &mut Self::Scratch,
        row: &mut [f64],
        context: &Context,
    ) -> Result<()> {
        self.row(x, scratch, row, context)
    }

    fn nbytes(&self) -> usize {
        0
    }
}

impl Prepared for Work {
    fn worker(&self) -> Worker<'_> {
        let mut scratch = Both::default();
        Box::new(move |a, b, context| {
            let pair = [a, b].map(|tree| self.instance[tree] as usize);
            match scaled(&self.kernel, &self.trees, pair, &mut scratch, context) {
                Ok(value) => Ok(value),
                Err(Stop::Limit) => {
                    self.gave_up.store(true, Ordering::Relaxed);
                    Ok(Scaled::of(f64::NAN))
                }
                Err(Stop::Error(error)) => Err(error),
            }
        })
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
            let (_, examples) = pairs.instances(None, context).unwrap();
            let trees = prepared(&pairs, None, &examples, context).unwrap();
            let mut constrained = 0;
            for a in 0..examples.len() {
                for b in 0..examples.len() {
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
