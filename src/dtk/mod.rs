//! Distributed trees: a tree as one vector, a tree kernel as a dot product.
//!
//! (Zanzotto & Dell'Arciprete, "Distributed Tree Kernels", ICML 2012.) Every label gets a
//! random unit vector, and a composition ◇ makes of two vectors a third one, nearly
//! orthogonal to both and to all others. So every fragment has a vector, nearly
//! orthogonal to those of all other fragments: `(A (B c))` that of Ã ◇ (B̃ ◇ c̃). The
//! vector of a tree is the weighted sum over all its fragments, which a recursion
//! computes in one composition per node:
//!
//! ```text
//! s(n) = √λ ((ñ ◇ (c̃1 + s(c1))) ◇ (c̃2 + s(c2))) ◇ ...        s(leaf) = 0
//! T    = Σ_n s(n) + √leaf_weight Σ_leaves l̃                   T1 · T2 ≈ K(T1, T2)
//! ```
//!
//! That is for the subset tree kernel; √λ per production makes λ per pair. The others:
//!
//! ```text
//! subtrees        s(n) = √λ (ñ ◇ x1) ◇ x2 ...     x = c̃ for a leaf, s(c) for an inner child
//! partial trees   P = (ñ + R) ◇ s(c);  out += P;  R = λ R + P      for each child, R = 0 at first
//!                 s(n) = √μ (λ ñ + out),   s(leaf) = √μ λ √leaf_factor l̃,   T = Σ over all nodes
//! ```
//!
//! Folding from the left, as here, is injective: a tree is one curried expression. The
//! paper nests to the right, n ◇ (c1 ◇ (c2 ◇ c3)), where `(A B C)` and `(A (B C))` are the
//! same expression whatever ◇ is; [`Fold::Right`] is there for comparison.
//!
//! What noise to expect: over seeds a dot product of different trees has mean K12 and a variance of
//! about (K11 K22 + K12²)/d, times 1.1 (λ = .4) to 2.5 (λ = 1). So keep `decay` low, raise d,
//! or shrink self-kernels: `max_height` (fragments of few levels), `sketch_decay` (the
//! kernel of a lower decay), and [`DistributedTrees::prune`], the only one that keeps the
//! kernel of different trees as it is.
//!
//! ```
//! use treekernel_rs::{Forest, dtk, kernel::SubsetTree};
//!
//! let forest = Forest::from_brackets("(S (A a) (B b)) (S (A a) (B c))")?;
//! let kernel = SubsetTree::new(0.4);
//! let trees = dtk::DistributedTrees::new(dtk::Settings::new(kernel, 8192))?;
//! let mut vectors = vec![0.0f32; 2 * 8192];
//! trees.encode(&forest, dtk::Options::default(), &mut vectors, &mut |_, _| Ok(()))?;
//! let (a, b) = vectors.split_at(8192);
//! let dot: f32 = a.iter().zip(b).map(|(x, y)| x * y).sum();
//! assert!((dot - 0.96).abs() < 0.1); // K = 0.96
//! # Ok::<(), treekernel_rs::Error>(())
//! ```
//!
//! # Complexity
//! One composition per distinct pair of the fold, O(d), for convolutions O(d log d).
//! Memory: the plan, linear in the distinct subtrees of a batch of 65,536 trees, and
//! vectors that are asked for again, up to [`Options::cache_bytes`].

mod cache;
mod composition;
pub mod naive;
mod paths;
mod plan;
pub(crate) mod random;
mod worker;

use std::sync::{Arc, Mutex};

use crate::gram::{self, Distinct, Watch};
use crate::kernel::{Parameter, Rule, Scaled, Sketch, Value, parameter};
use crate::threads::{Pause, Threads, Throttle};
use crate::{Error, Forest, Kernel, Nodes, Result, memory};
use composition::Composer;
pub use composition::{Composition, Real};
pub use paths::Paths;
use plan::{Plan, Shape};
use worker::{Job, LARGE, Worker};

/// In which order the children of a node are composed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fold {
    /// ((n ◇ c1) ◇ c2) ◇ c3: different trees are different expressions.
    Left,
    /// n ◇ (c1 ◇ (c2 ◇ c3)): the paper's, where `(A B C)` is `(A (B C))`.
    Right,
}

/// What a vector of a normalised kernel is divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Norm {
    /// √K(T,T) of the kernel itself: dot products stay unbiased.
    Exact,
    /// Its own norm: dot products are cosines.
    Own,
}

/// All that vectors depend on.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Settings {
    /// The kernel that dot products approximate; not the elastic one.
    pub kernel: Arc<dyn Kernel>,
    /// d, a multiple of 4.
    pub n_components: usize,
    /// How vectors are composed.
    pub composition: Composition,
    /// The order in which children are.
    pub fold: Fold,
    /// Where labels and permutations come from.
    pub seed: u64,
    /// Only fragments of at most so many levels of productions (for partial trees, of
    /// edges).
    pub max_height: Option<usize>,
    /// Run with this decay in place of the kernel's.
    pub sketch_decay: Option<f64>,
    /// Whether labels of convolutions sum to 0.
    pub zero_mean: bool,
    /// Whether convolutions have the same bits on every processor; if not they are twice
    /// as fast.
    pub reproducible: bool,
    /// Divide vectors by a norm.
    pub normalize: Option<Norm>,
    /// Leave out what lies beyond paths that are not among these.
    pub paths: Option<Arc<Paths>>,
}

impl Settings {
    /// The defaults: quaternions, left fold, seed 0, nothing left out.
    pub fn new(kernel: impl Kernel, n_components: usize) -> Self {
        Self::of(Arc::new(kernel), n_components)
    }

    /// The same for a kernel that is shared.
    pub fn of(kernel: Arc<dyn Kernel>, n_components: usize) -> Self {
        Self {
            kernel,
            n_components,
            composition: Composition::Quaternion,
            fold: Fold::Left,
            seed: 0,
            max_height: None,
            sketch_decay: None,
            zero_mean: true,
            reproducible: true,
            normalize: None,
            paths: None,
        }
    }

    /// The kernel at the decay that counts.
    fn kernel(&self) -> Arc<dyn Kernel> {
        match self.sketch_decay {
            Some(decay) => with_decay(&self.kernel, decay),
            None => Arc::clone(&self.kernel),
        }
    }
}

/// How to encode; vectors do not depend on it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Options {
    /// Threads; None: one for each core that the process may use.
    pub n_jobs: Option<usize>,
    /// What vectors kept for later may take, all threads together.
    pub cache_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { n_jobs: None, cache_bytes: 256 << 20 }
    }
}

impl Options {
    /// These options with a number of threads.
    #[must_use]
    pub fn with_n_jobs(self, n_jobs: Option<usize>) -> Self {
        Self { n_jobs, ..self }
    }

    /// These options with another limit of memory.
    #[must_use]
    pub fn with_cache_bytes(self, cache_bytes: usize) -> Self {
        Self { cache_bytes, ..self }
    }
}

/// What came of encoding.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Trees whose norm is 0 (normalised vectors only): their vectors are 0.
    pub zero_rows: Vec<usize>,
    /// Compositions done.
    pub n_compositions: u64,
}

/// An encoder of trees: settings that were found right, with what follows from them.
pub struct DistributedTrees {
    settings: Settings,
    composer: Arc<Composer>,
    weights: Sketch,
}

/// An FFT of so many numbers takes about a second, and nothing can end it sooner.
const LONGEST_FFT: usize = 1 << 24;

/// Trees to be planned at a time: what bounds the plan's memory.
const BATCH: usize = 1 << 16;

impl DistributedTrees {
    /// An encoder with these settings.
    ///
    /// # Errors
    /// [`Error::Parameter`] that names parameter, range and value.
    pub fn new(settings: Settings) -> Result<Self> {
        Self::watched(settings, &mut || Ok(()))
    }

    /// As [`new`](Self::new); `pause` is called now and then, and its error ends the call.
    ///
    /// # Errors
    /// As [`new`](Self::new), [`Error::Memory`], and what `pause` returns.
    pub fn watched(settings: Settings, pause: &mut Pause<'_>) -> Result<Self> {
        let (d, fold) = (settings.n_components, settings.fold);
        if d == 0 || d % 4 != 0 || u32::try_from(d).is_err() {
            let expected = "a multiple of 4, at least 4 and below 2^32";
            return Err(parameter("n_components", expected, &d));
        }
        if settings.composition == Composition::Convolution && d > LONGEST_FFT {
            let expected =
                "at most 16777216 for convolutions, as no FFT can be stopped";
            return Err(parameter("n_components", expected, &d));
        }
        if settings.max_height == Some(0) {
            let expected = "at least 1, or None for no limit";
            return Err(parameter("max_height", expected, &0));
        }
        if let Some(decay) = settings.sketch_decay {
            settings.kernel.check()?;
            if settings.kernel().check().is_err() {
                let expected = "above 0 and at most 1, or None for the kernel's decay";
                return Err(parameter("sketch_decay", expected, &decay));
            }
        }
        let weights = weights(&settings)?;
        if weights.rule == Rule::Partial && fold == Fold::Right {
            let expected = "\"left\" for partial trees, whose children may be left out";
            return Err(parameter("fold", expected, &"\"right\""));
        }
        if settings.paths.is_some() {
            prunable(&settings)?;
        }
        let Settings { composition, seed, zero_mean, reproducible, .. } = settings;
        let composer =
            Composer::new(composition, d, seed, zero_mean, reproducible, pause)?;
        Ok(Self { settings, composer: Arc::new(composer), weights })
    }

    /// What it was made from.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The same encoder, with some settings changed that labels do not depend on.
    fn with(&self, settings: Settings) -> Result<Self> {
        let weights = weights(&settings)?;
        Ok(Self { settings, composer: Arc::clone(&self.composer), weights })
    }

    /// This encoder with the dictionary of the paths that some trees share: fragments
    /// that only one of these has are left out. K of two different trees among them is
    /// approximated as before, with less noise; K(T,T) is not. Of other trees, fragments
    /// are left out whose paths are not in two of these.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for kernels other than the subset tree kernel, and what
    /// `watch` returns.
    pub fn prune(&self, forest: &Forest, watch: &mut Watch<'_>) -> Result<Self> {
        let longest = self.settings.max_height.unwrap_or(usize::MAX);
        prunable(&self.settings)?;
        let mut throttle = Throttle::default();
        let n = forest.len();
        let paths =
            Paths::learn(forest, longest, &mut || throttle.ask_now(|| watch(0, n)))?;
        let mut settings = self.settings.clone();
        settings.paths = Some(Arc::new(paths));
        self.with(settings)
    }

    /// This encoder with the decay that gives good rankings of these trees: the largest
    /// λ' (of three digits, at most the kernel's) for which the median of ‖T‖², in units of
    /// what the smallest fragments weigh (λ' for subset trees), is at most .75 √d. The rule is label-free and was found on two corpora; see `docs`.
    ///
    /// # Errors
    /// What `watch` returns.
    pub fn tune(&self, forest: &Forest, watch: &mut Watch<'_>) -> Result<Self> {
        const SAMPLE: usize = 256;
        let n = forest.len();
        let step = n.div_ceil(SAMPLE).max(1);
        let sample = forest.select((0..n).step_by(step));
        let own = decay_of(&*self.settings.kernel);
        let limit = 0.75 * (self.settings.n_components as f64).sqrt();
        let encoder = |thousandths: u32| {
            let mut settings = self.settings.clone();
            let decay = f64::from(thousandths) / 1000.0;
            settings.sketch_decay = (decay < own).then_some(decay);
            self.with(settings)
        };
        let top = (own * 1000.0).ceil().max(1.0) as u32;
        let (mut fits, mut fails) = (1, top + 1);
        while fails - fits > 1 && !sample.is_empty() {
            let middle = fits.midpoint(fails);
            let encoder = encoder(middle)?;
            let squares = encoder.squares(&sample, watch)?;
            if median(squares) <= limit * encoder.weights.smallest {
                fits = middle;
            } else {
                fails = middle;
            }
        }
        encoder(if sample.is_empty() { top } else { fits })
    }

    /// ‖T‖² of trees, exact where nothing but the decay differs from the kernel.
    fn squares(&self, forest: &Forest, watch: &mut Watch<'_>) -> Result<Vec<f64>> {
        let Settings { max_height, ref paths, n_components: d, .. } = self.settings;
        if max_height.is_none() && paths.is_none() {
            let (kernel, options) = (self.settings.kernel(), gram::Options::default());
            return match gram::diagonal(&*kernel, forest, options, watch) {
                Err(Error::Overflow { .. }) => Ok(vec![f64::INFINITY; forest.len()]),
                result => Ok(result?.0),
            };
        }
        let mut settings = self.settings.clone();
        settings.normalize = None;
        let mut vectors = memory::filled(0.0f64, forest.len().saturating_mul(d))?;
        match self.with(settings)?.encode(
            forest,
            Options::default(),
            &mut vectors,
            watch,
        ) {
            Err(Error::VectorOverflow { .. }) => Ok(vec![f64::INFINITY; forest.len()]),
            Err(error) => Err(error),
            Ok(_) => Ok(vectors.chunks(d).map(square).collect()),
        }
    }

    /// The vectors of all trees, row after row. A failed call may leave some written.
    ///
    /// # Errors
    /// [`Error::Length`] for an `out` of the wrong size, [`Error::VectorOverflow`],
    /// [`Error::Memory`], [`Error::Capacity`], and what `watch` returns.
    pub fn encode<T: Real>(
        &self,
        forest: &Forest,
        options: Options,
        out: &mut [T],
        watch: &mut Watch<'_>,
    ) -> Result<Report> {
        let (d, n) = (self.settings.n_components, forest.len());
        if n.checked_mul(d) != Some(out.len()) {
            let expected = format!("{n} times {d}, trees times components");
            return Err(Error::Length { array: "out", expected, got: out.len() });
        }
        let mut report = Report::default();
        for (batch, rows) in out.chunks_mut(BATCH * d).enumerate() {
            let start = batch * BATCH;
            let trees = forest.select(start..start + rows.len() / d);
            self.encode_batch(&trees, start, n, options, rows, watch, &mut report)?;
        }
        if n > 0 {
            watch(n, n)?;
        }
        Ok(report)
    }

    #[allow(clippy::too_many_arguments)]
    fn encode_batch<T: Real>(
        &self,
        trees: &Forest,
        start: usize,
        n: usize,
        options: Options,
        out: &mut [T],
        watch: &mut Watch<'_>,
        report: &mut Report,
    ) -> Result<()> {
        let d = self.settings.n_components;
        let (nodes, roots) = (&**trees.nodes(), trees.roots());
        let factors = self.factors(trees, start, n, options, watch, report)?;
        let mut throttle = Throttle::default();
        let shape = Shape {
            rule: self.weights.rule,
            fold: self.settings.fold,
            max_height: self.settings.max_height,
            paths: self.settings.paths.as_deref(),
            leaves_count: self.weights.leaf_sum > 0.0,
        };
        let plan = Plan::new(nodes, roots, shape, &mut || {
            throttle.ask_now(|| watch(start, n))
        })?;
        let mut weights = self.weights;
        // Longer subsequences than there are children need no room.
        weights.longest = weights.longest.map(|l| l.min(plan.widest).max(1));
        let job = Job { nodes, plan: &plan, composer: &self.composer, weights };
        // Small enough to share the work out, and to stop soon.
        let per_task = (roots.len() / 64).clamp(1, 64);
        let parts: Vec<_> = out.chunks_mut(per_task * d).map(Mutex::new).collect();
        let threads = Threads::new(options.n_jobs, parts.len());
        let share = options.cache_bytes / threads.size();
        memory::room(threads.size(), Worker::<T>::most_bytes(&job, share))?;
        let mut workers: Vec<Worker<'_, T>> =
            (0..threads.size()).map(|_| Worker::new(&job, share)).collect();
        let normalize = self.settings.normalize;
        let own_norm = normalize == Some(Norm::Own);
        let zeros = Mutex::new(Vec::new());
        threads.run(
            parts.len(),
            &mut workers,
            |part, worker, pause| {
                let Ok(mut rows) = parts[part].lock() else { return Ok(()) };
                for (offset, row) in rows.chunks_mut(d).enumerate() {
                    let tree = part * per_task + offset;
                    worker.tree(roots[tree], factors[tree], row, pause)?;
                    let is_finite = |row: &[T]| row.iter().all(|x| x.get().is_finite());
                    if !is_finite(row) && normalize.is_some() && size_of::<T>() < 8 {
                        // Too large for this type only until it is divided.
                        memory::room(1, Worker::<f64>::most_bytes(&job, share))?;
                        let mut wide = memory::filled(0.0f64, d)?;
                        let mut worker = Worker::new(&job, share);
                        worker.tree(roots[tree], factors[tree], &mut wide, pause)?;
                        if own_norm {
                            to_unit(&mut wide);
                        }
                        for (x, wide) in row.iter_mut().zip(wide) {
                            *x = T::of(wide);
                        }
                    }
                    if !is_finite(row) {
                        return Err(too_large::<T>(start + tree));
                    }
                    if own_norm
                        && !to_unit(row)
                        && let Ok(mut zeros) = zeros.lock()
                    {
                        zeros.push(start + tree);
                    }
                    if d >= LARGE {
                        pause()?;
                    }
                }
                Ok(())
            },
            &mut |done| watch(start + (done * per_task).min(roots.len()), n),
        )?;
        report.n_compositions += workers.iter().map(|w| w.n_compositions).sum::<u64>();
        if let Ok(mut zeros) = zeros.into_inner() {
            zeros.sort_unstable();
            report.zero_rows.append(&mut zeros);
        }
        Ok(())
    }

    /// What each tree's vector is multiplied by at the end.
    fn factors(
        &self,
        trees: &Forest,
        start: usize,
        n: usize,
        options: Options,
        watch: &mut Watch<'_>,
        report: &mut Report,
    ) -> Result<Vec<f64>> {
        let unit = 1.0 / self.composer.unit;
        if self.settings.normalize != Some(Norm::Exact) {
            return Ok(vec![unit; trees.len()]);
        }
        let distinct = Distinct::new(trees.roots());
        let kernel = &*self.settings.kernel;
        let pause = &mut || watch(start, n);
        let singles = gram::prepare(kernel, trees.nodes(), &distinct.roots, pause)?;
        let n_jobs = options.n_jobs;
        let mut told = |_, _| watch(start, n);
        let selfs = gram::self_kernels(&*singles, distinct.len(), n_jobs, &mut told)?;
        let mut factors = memory::filled(0.0, trees.len())?;
        for (tree, factor) in factors.iter_mut().enumerate() {
            let own = selfs[distinct.of[tree] as usize];
            if own.is_zero() {
                report.zero_rows.push(start + tree);
                continue;
            }
            *factor = match own.value() {
                float if float.is_normal() => unit / float.sqrt(),
                _ => Scaled::of(unit).cosine(own, Scaled::of(1.0)),
            };
        }
        Ok(factors)
    }

    /// The vector f of one fragment: labels composed, no weights, nothing left out.
    ///
    /// # Errors
    /// [`Error::Length`] for an `out` that is not d long, [`Error::Parameter`] for a
    /// forest that is not one tree, [`Error::VectorOverflow`], and what `pause` returns.
    pub fn fragment<T: Real>(
        &self,
        tree: &Forest,
        out: &mut [T],
        pause: &mut Pause<'_>,
    ) -> Result<()> {
        self.check_length("out", out)?;
        let &[root] = tree.roots() else {
            return Err(parameter(
                "tree",
                "one tree",
                &format!("{} trees", tree.len()),
            ));
        };
        let mut nodes = Nodes::default();
        let root = nodes.absorb_one(tree.nodes(), root, pause)?;
        if nodes.is_leaf(root) {
            return self.label_vector(nodes.name(root), out, pause);
        }
        let mut throttle = Throttle::default();
        let mut pause = || throttle.ask_now(&mut *pause);
        let plan = Plan::of_fragment(&nodes, root, self.settings.fold, &mut pause)?;
        let weights = Sketch {
            rule: Rule::Subtree,
            value: 1.0,
            leaf: 1.0,
            cut: 1.0,
            leaf_sum: 0.0,
            decay: 1.0,
            longest: None,
            smallest: 1.0,
        };
        let job = Job { nodes: &nodes, plan: &plan, composer: &self.composer, weights };
        let share = Options::default().cache_bytes;
        memory::room(1, Worker::<T>::most_bytes(&job, share))?;
        let mut worker = Worker::new(&job, share);
        let pair = plan.pair_of[root.index()];
        worker.fragment(pair, 1.0 / self.composer.unit, out, &mut pause)?;
        if out.iter().all(|x| x.get().is_finite()) {
            Ok(())
        } else {
            Err(too_large::<T>(0))
        }
    }

    /// A label's vector.
    ///
    /// # Errors
    /// [`Error::Length`] for an `out` that is not d long, and what `pause` returns.
    pub fn label_vector<T: Real>(
        &self,
        label: &str,
        out: &mut [T],
        pause: &mut Pause<'_>,
    ) -> Result<()> {
        self.check_length("out", out)?;
        self.composer.label(label, out, pause)?;
        composition::scaled(out, T::of(1.0 / self.composer.unit), pause)
    }

    /// a ◇ b.
    ///
    /// # Errors
    /// [`Error::Length`] for a vector that is not d long, and what `pause` returns.
    pub fn compose<T: Real>(
        &self,
        a: &[T],
        b: &[T],
        out: &mut [T],
        pause: &mut Pause<'_>,
    ) -> Result<()> {
        self.check_length("a", a)?;
        self.check_length("b", b)?;
        self.check_length("out", out)?;
        self.composer.compose(a, b, out, pause)
    }

    fn check_length<T>(&self, array: &'static str, values: &[T]) -> Result<()> {
        let d = self.settings.n_components;
        if values.len() == d {
            return Ok(());
        }
        let expected = format!("{d}, n_components");
        Err(Error::Length { array, expected, got: values.len() })
    }
}

fn weights(settings: &Settings) -> Result<Sketch> {
    settings.kernel().require("distributed trees", <dyn Kernel>::sketch)
}

/// Refuses kernels whose paths mean nothing, and norms that pruning makes wrong: a tree's own
/// norm lacks what was left out, so trees with much of their own would seem close to all.
fn prunable(settings: &Settings) -> Result<Sketch> {
    if settings.normalize == Some(Norm::Own) {
        let expected = "\"exact\" with prune: own norms lack what is left out";
        return Err(parameter("norm", expected, &"\"own\""));
    }
    settings.kernel.require("distributed trees that can be pruned", |kernel| {
        kernel.sketch().filter(|sketch| sketch.rule == Rule::Subset)
    })
}

fn decay_of(kernel: &dyn Kernel) -> f64 {
    let is_decay = |parameter: &Parameter| parameter.name == "decay";
    match kernel.parameters().into_iter().find(is_decay) {
        Some(Parameter { value: Value::Number(decay), .. }) => decay,
        _ => 1.0,
    }
}

fn with_decay(kernel: &Arc<dyn Kernel>, decay: f64) -> Arc<dyn Kernel> {
    kernel.with("decay", decay.into()).unwrap_or_else(|| Arc::clone(kernel))
}

fn square<T: Real>(x: &[T]) -> f64 {
    x.iter().map(|x| x.get() * x.get()).sum()
}

/// Divides a vector by its norm, if it is not zero.
fn to_unit<T: Real>(row: &mut [T]) -> bool {
    let squares = square(row);
    // Squares of very large and of very small numbers are no floats.
    let most = if (1e-280..1e300).contains(&squares) {
        1.0
    } else {
        row.iter().fold(0.0f64, |most, x| most.max(x.get().abs()))
    };
    let norm = row.iter().map(|x| (x.get() / most).powi(2)).sum::<f64>().sqrt();
    let is_there = norm > 0.0;
    for x in row.iter_mut().filter(|_| is_there) {
        *x = T::of(x.get() / most / norm);
    }
    is_there
}

fn too_large<T: Real>(tree: usize) -> Error {
    Error::VectorOverflow { tree, wider: size_of::<T>() < 8 }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let n = values.len();
    f64::midpoint(values[(n - 1) / 2], values[n / 2])
}
