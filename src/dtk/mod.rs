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
//! about (K11 K22 + K12²)/d, times 1.05 to 1.3 at λ = .4 and 1.6 to 3.8 at λ = 1, by
//! composition; that of a tree with itself varies more (`finish.rs`). So keep `decay` low, raise d,
//! or shrink self-kernels: `max_height` (fragments of few levels), `sketch_decay` (the
//! kernel of a lower decay), and [`DistributedTrees::prune`], the only one that keeps the
//! kernel of different trees as it is.
//!
//! ```
//! use treekernel_rs::{Forest, dtk, kernel::SubsetTree};
//!
//! let forest = Forest::from_brackets("(S (A a) (B b)) (S (A a) (B c))")?;
//! let kernel = SubsetTree::new(0.4);
//! let trees = dtk::DistributedTrees::new(dtk::Settings::new(&kernel, 8192))?;
//! let mut vectors = vec![0.0f32; 2 * 8192];
//! trees.encode(&forest, dtk::EncodeOptions::default(), &mut vectors)?;
//! let (a, b) = vectors.split_at(8192);
//! let dot: f32 = a.iter().zip(b).map(|(x, y)| x * y).sum();
//! assert!((dot - 0.96).abs() < 0.1); // K = 0.96
//! # Ok::<(), treekernel_rs::Error>(())
//! ```
//!
//! No number leaves the range of a float inside (`scale.rs`), however wide a tree is, and
//! [`EncodeReport::noisy`] names the trees that are too large for d.
//!
//! # Complexity
//! One composition per distinct pair of the fold, O(d), for convolutions O(d log d).
//! Memory: the plan, linear in the distinct subtrees of a batch of 65,536 trees, and
//! vectors that are needed again, up to [`EncodeOptions::cache_bytes`].

mod cache;
mod composition;
mod finish;
#[doc(hidden)]
pub mod naive;
mod paths;
mod plan;
pub(crate) mod random;
mod scale;
mod worker;

use std::sync::{Arc, Mutex};

use crate::gram::{self, Different};
use crate::kernel::{IntoKernel, Parameter, Rule, Scaled, Sketch, Value, parameter};
use crate::threads::{Tasks, Threads};
use crate::{Context, Error, Forest, Kernel, NodeId, Nodes, Result, memory};
use composition::Composer;
pub use composition::{Composition, Real};
use finish::{Row, RowWriter, ScaledVector};
pub use paths::Paths;
use plan::{Plan, Shape};
use worker::{Job, LONG_VECTOR, Worker};

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
    /// √K(T,T) of the kernel that dot products approximate, so with the decay of the
    /// sketch: dot products stay unbiased. A vector that is mostly noise, so that its
    /// length says nothing, is divided by its own norm if that is off by more than √2.
    Exact,
    /// √K(T,T) of the kernel itself, whatever the decay of the sketch. Vectors of large
    /// trees become short, and so does their noise: neighbours are found best.
    Full,
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
    pub fn new(kernel: impl IntoKernel, n_components: usize) -> Self {
        Self {
            kernel: kernel.into_kernel(),
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
pub struct EncodeOptions {
    /// What vectors kept for later may take, all threads together.
    pub cache_bytes: usize,
    /// Whether a vector that is too large for its type becomes 0 and is reported, and does
    /// not end the call.
    pub zero_too_large: bool,
}

impl Default for EncodeOptions {
    fn default() -> Self {
        Self { cache_bytes: 256 << 20, zero_too_large: false }
    }
}

impl EncodeOptions {
    /// These options, with vectors that are too large set to 0 or an error.
    #[must_use]
    pub fn with_zero_too_large(self, zero_too_large: bool) -> Self {
        Self { zero_too_large, ..self }
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
pub struct EncodeReport {
    /// Trees whose norm is 0 (normalised vectors only): their vectors are 0.
    pub zero_rows: Vec<usize>,
    /// Trees with so many large fragments that their vectors are mostly noise: dot products say
    /// little, and even ‖T‖² may be off by a factor of 2 or more.
    pub noisy: Vec<usize>,
    /// Trees whose vectors are too large for their type, and 0.
    pub too_large: Vec<usize>,
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
const MAX_FFT: usize = 1 << 24;

/// Trees to be planned at a time: what bounds the plan's memory.
const BATCH: usize = 1 << 16;

impl DistributedTrees {
    /// An encoder with these settings.
    ///
    /// # Errors
    /// [`Error::Parameter`] that names parameter, range and value.
    pub fn new(settings: Settings) -> Result<Self> {
        Self::new_with(settings, &Context::default())
    }

    /// As [`new`](Self::new), in a context.
    ///
    /// # Errors
    /// As [`new`](Self::new), [`Error::Memory`], and what `context` returns.
    pub fn new_with(settings: Settings, context: &Context) -> Result<Self> {
        let (d, fold) = (settings.n_components, settings.fold);
        if d == 0 || d % 4 != 0 || u32::try_from(d).is_err() {
            let expected = "a multiple of 4, at least 4 and below 2^32";
            return Err(parameter("n_components", expected, &d));
        }
        if settings.composition == Composition::Convolution && d > MAX_FFT {
            let expected =
                "at most 16777216 for convolutions, as no FFT can be stopped";
            return Err(parameter("n_components", expected, &d));
        }
        if settings.max_height == Some(0) {
            let expected = "at least 1, or None for no limit";
            return Err(parameter("max_height", expected, &0));
        }
        if let Some(decay) = settings.sketch_decay {
            // The kernel itself first: then only the decay can be wrong.
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
        // Paths may have come with the settings, and not from `prune`.
        if settings.paths.is_some() {
            prunable(&settings)?;
        }
        let Settings { composition, seed, zero_mean, reproducible, .. } = settings;
        let composer =
            Composer::new(composition, d, seed, zero_mean, reproducible, context)?;
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
    /// [`Error::Unsupported`] for kernels other than the subset tree kernel.
    pub fn prune(&self, forest: &Forest) -> Result<Self> {
        self.prune_with(forest, &Context::default())
    }

    /// As [`prune`](Self::prune), in a context.
    ///
    /// # Errors
    /// As [`prune`](Self::prune), and what `context` returns.
    pub fn prune_with(&self, forest: &Forest, context: &Context) -> Result<Self> {
        let longest = self.settings.max_height.unwrap_or(usize::MAX);
        prunable(&self.settings)?;
        context.advance(0, forest.len())?;
        let paths = Paths::learn(forest, longest, context)?;
        let mut settings = self.settings.clone();
        settings.paths = Some(Arc::new(paths));
        self.with(settings)
    }

    /// This encoder with the decay that gives good rankings of these trees: the largest λ'
    /// (of three digits, at most the kernel's) that passes a test.
    ///
    /// Vectors that are divided by their own norm, or by that of their kernel, pass where
    /// a fifth of the vectors at most are mostly noise ([`EncodeReport::noisy`]): all have length 1,
    /// so a smaller decay loses more than it gains before that.
    ///
    /// All others pass where the median of ‖T‖², in units of what the smallest fragments
    /// weigh (λ' for subset trees), is at most .75 √d, or twice what it is where larger
    /// fragments weigh next to nothing. That is all that a smaller decay can do: it leaves
    /// fragments of one production, and a tree may have hundreds. Both rules are
    /// label-free, and were found on three corpora; see `docs`.
    ///
    /// # Errors
    /// [`Error::Memory`], [`Error::Capacity`].
    pub fn tune(&self, forest: &Forest) -> Result<Self> {
        self.tune_with(forest, &Context::default())
    }

    /// As [`tune`](Self::tune), in a context.
    ///
    /// # Errors
    /// As [`tune`](Self::tune), and what `context` returns.
    pub fn tune_with(&self, forest: &Forest, context: &Context) -> Result<Self> {
        const SAMPLE: usize = 256;
        let n = forest.len();
        // Spread over the forest, as neighbours in a corpus are often alike.
        let step = n.div_ceil(SAMPLE).max(1);
        let sample = forest.picked((0..n).step_by(step))?;
        let kernel_decay = decay_of(&*self.settings.kernel);
        let encoder = |thousandths: u32| {
            let mut settings = self.settings.clone();
            let decay = f64::from(thousandths) / 1000.0;
            // At the kernel's own decay nothing is changed.
            settings.sketch_decay = (decay < kernel_decay).then_some(decay);
            self.with(settings)
        };
        // Rounded up, so that the kernel's own decay is among those tried.
        let top = (kernel_decay * 1000.0).ceil().max(1.0) as u32;
        if sample.is_empty() {
            return encoder(top);
        }
        let by_noise = matches!(self.settings.normalize, Some(Norm::Exact | Norm::Own));
        let limit = if by_noise {
            0.2
        } else {
            let sound = 0.75 * (self.settings.n_components as f64).sqrt();
            sound.max(2.0 * encoder(1)?.median_size(&sample, &context.step())?)
        };
        // Both measures rise with the decay. The smallest is not tested: there is
        // nothing below it.
        let (mut fits, mut fails) = (1, top + 1);
        while fails - fits > 1 {
            let middle = fits.midpoint(fails);
            let encoder = encoder(middle)?;
            let value = if by_noise {
                encoder.share_of_noisy(&sample, &context.step())?
            } else {
                encoder.median_size(&sample, &context.step())?
            };
            if value <= limit {
                fits = middle;
            } else {
                fails = middle;
            }
        }
        encoder(fits)
    }

    /// The median of ‖T‖² in units of the smallest fragments.
    fn median_size(&self, forest: &Forest, context: &Context) -> Result<f64> {
        let smallest = self.weights.smallest.log2();
        let sizes = self.sizes(forest, context)?;
        let sizes = sizes.into_iter().map(|size| (size - smallest).exp2());
        Ok(median(memory::collect(sizes)?))
    }

    /// The share of these trees whose vectors are mostly noise.
    fn share_of_noisy(&self, forest: &Forest, context: &Context) -> Result<f64> {
        let finish = self.finish(forest.nodes(), forest.roots())?;
        let sizes = self.sizes(forest, context)?;
        let mut n_noisy = 0.0;
        for (&root, size) in forest.roots().iter().zip(sizes) {
            n_noisy += f64::from(u8::from(finish.is_noisy(root, size)?));
        }
        Ok(n_noisy / forest.len() as f64)
    }

    fn finish<'a>(&self, nodes: &'a Nodes, roots: &[NodeId]) -> Result<RowWriter<'a>> {
        RowWriter::new(nodes, roots, &self.settings, self.weights, self.composer.unit)
    }

    /// The logarithms of ‖T‖², exact where nothing but the decay differs from the kernel.
    fn sizes(&self, forest: &Forest, context: &Context) -> Result<Vec<f64>> {
        let Settings { max_height, ref paths, n_components: d, .. } = self.settings;
        let n = forest.len();
        // The expected ‖T‖² is K(T,T), so no vector has to be made.
        if max_height.is_none() && paths.is_none() {
            let selfs = own_kernels(&*self.settings.kernel(), forest, context)?;
            return memory::collect(selfs.into_iter().map(Scaled::log2));
        }
        // With a limit of height or of paths no kernel says it: vectors are made, and
        // measured.
        let mut settings = self.settings.clone();
        settings.normalize = Some(Norm::Own);
        let mut vectors = memory::filled(0.0f32, n.saturating_mul(d))?;
        let (encoder, options) = (self.with(settings)?, EncodeOptions::default());
        let rows =
            encoder.encode_batch(forest, 0, n, options, &mut vectors, context)?.0;
        memory::collect(rows.into_iter().map(|row| row.size))
    }

    /// The vectors of all trees, row after row. A failed call may leave some written.
    ///
    /// # Errors
    /// [`Error::Length`] for an `out` of the wrong size, [`Error::VectorOverflow`],
    /// [`Error::Memory`], [`Error::Capacity`].
    pub fn encode<T: Real>(
        &self,
        forest: &Forest,
        options: EncodeOptions,
        out: &mut [T],
    ) -> Result<EncodeReport> {
        self.encode_with(forest, options, out, &Context::default())
    }

    /// As [`encode`](Self::encode), in a context.
    ///
    /// # Errors
    /// As [`encode`](Self::encode), and what `context` returns.
    pub fn encode_with<T: Real>(
        &self,
        forest: &Forest,
        options: EncodeOptions,
        out: &mut [T],
        context: &Context,
    ) -> Result<EncodeReport> {
        let (d, n) = (self.settings.n_components, forest.len());
        if n.checked_mul(d) != Some(out.len()) {
            let expected = format!("{n} times {d}, trees times components");
            return Err(Error::Length { array: "out", expected, got: out.len() });
        }
        let mut report = EncodeReport::default();
        // A plan is as large as its trees, so it is made for some of them at a time.
        for (batch, out) in out.chunks_mut(BATCH * d).enumerate() {
            let start = batch * BATCH;
            let trees = forest.picked(start..start + out.len() / d)?;
            context.advance(start, n)?;
            let (rows, n_compositions) =
                self.encode_batch(&trees, start, n, options, out, context)?;
            report.n_compositions += n_compositions;
            for (tree, row) in (start..).zip(rows) {
                let EncodeReport { zero_rows, noisy, too_large, .. } = &mut report;
                // A vector that is too large was set to 0, so its noise says nothing.
                let lists = [
                    (row.is_zero, zero_rows),
                    (row.is_noisy && row.is_finite, noisy),
                    (!row.is_finite, too_large),
                ];
                for (_, list) in lists.into_iter().filter(|list| list.0) {
                    memory::push(list, tree)?;
                }
            }
        }
        if n > 0 {
            context.report(n, n)?;
        }
        Ok(report)
    }

    /// The vectors of some of n trees, from `start` on; how each came out, and the number
    /// of compositions.
    fn encode_batch<T: Real>(
        &self,
        trees: &Forest,
        start: usize,
        n: usize,
        options: EncodeOptions,
        out: &mut [T],
        context: &Context,
    ) -> Result<(Vec<Row>, u64)> {
        let d = self.settings.n_components;
        let (nodes, roots) = (&**trees.nodes(), trees.roots());
        // 1. K(T,T), where vectors are divided by its root.
        let divisor = match self.settings.normalize {
            Some(Norm::Exact) => Some(self.settings.kernel()),
            Some(Norm::Full) => Some(Arc::clone(&self.settings.kernel)),
            Some(Norm::Own) | None => None,
        };
        let selfs = match divisor {
            Some(kernel) => own_kernels(&*kernel, trees, &context.step())?,
            None => memory::filled(Scaled::from_f64(1.0), roots.len())?,
        };
        // 2. What is to be composed.
        let shape = Shape {
            rule: self.weights.rule,
            fold: self.settings.fold,
            max_height: self.settings.max_height,
            paths: self.settings.paths.as_deref(),
            leaves_count: self.weights.leaf_sum > 0.0,
        };
        let plan = Plan::new(nodes, roots, shape, context)?;
        let mut weights = self.weights;
        // Longer subsequences than there are children need no room.
        weights.longest = weights.longest.map(|l| l.min(plan.widest).max(1));
        let job = Job { nodes, plan: &plan, composer: &self.composer, weights };
        // 3. Tasks that are small enough to share the work out, and to stop soon.
        let per_task = (roots.len() / 64).clamp(1, 64);
        let mut rows = memory::filled(Row::default(), roots.len())?;
        let parts = out.chunks_mut(per_task * d).zip(rows.chunks_mut(per_task));
        let parts = memory::collect(parts.map(Mutex::new))?;
        let threads = Threads::new(context, parts.len());
        // Workers share nothing, so each has its part of the limit.
        let share = options.cache_bytes / threads.size();
        let workers = (0..threads.size()).map(|_| Worker::<T>::new(&job, share));
        let mut workers = memory::try_collect(workers)?;
        let finish = self.finish(nodes, roots)?;
        let tasks = Tasks::of_rows(roots.len(), per_task);
        threads.run(
            &tasks.among(start..start + roots.len(), n),
            &mut workers,
            |part, worker, context| {
                // Every part is locked once, by the task with its number.
                let Ok(mut guard) = parts[part].lock() else { return Ok(()) };
                let (out, rows) = &mut *guard;
                let each = out.chunks_mut(d).zip(rows.iter_mut()).enumerate();
                for (offset, (out, row)) in each {
                    let tree = part * per_task + offset;
                    let written = |found: ScaledVector<'_, T>| {
                        finish.row(roots[tree], &found, selfs[tree], out)
                    };
                    *row = worker.tree(roots[tree], written, context)??;
                    if !row.is_finite {
                        if !options.zero_too_large {
                            return Err(too_large::<T>(start + tree));
                        }
                        out.fill(T::zero());
                    }
                    // A single tree takes long here, and a task has several.
                    if d >= LONG_VECTOR {
                        context.check_now()?;
                    }
                }
                Ok(())
            },
        )?;
        let n_compositions = workers.iter().map(|w| w.n_compositions).sum();
        // They borrow the rows.
        drop(parts);
        Ok((rows, n_compositions))
    }

    /// The vector f of one fragment: labels composed, no weights, nothing left out.
    ///
    /// # Errors
    /// [`Error::Length`] for an `out` that is not d long, [`Error::Parameter`] for a
    /// forest that is not one tree, [`Error::VectorOverflow`].
    pub fn fragment<T: Real>(&self, tree: &Forest, out: &mut [T]) -> Result<()> {
        self.fragment_with(tree, out, &Context::default())
    }

    /// As [`fragment`](Self::fragment), in a context.
    ///
    /// # Errors
    /// As [`fragment`](Self::fragment), and what `context` returns.
    pub fn fragment_with<T: Real>(
        &self,
        tree: &Forest,
        out: &mut [T],
        context: &Context,
    ) -> Result<()> {
        self.check_length("out", out)?;
        let &[root] = tree.roots() else {
            return Err(parameter(
                "tree",
                "one tree",
                &format!("{} trees", tree.len()),
            ));
        };
        // A plan takes memory by the store, so the tree gets one of its own.
        let mut nodes = Nodes::default();
        let root = nodes.absorb_one(tree.nodes(), root, context)?;
        // A leaf has no pair, and its vector is its label's.
        if nodes.is_leaf(root) {
            return self.label_vector_with(nodes.name(root), out, context);
        }
        let plan = Plan::of_fragment(&nodes, root, self.settings.fold, context)?;
        // One fragment, as it is: nothing is weighed.
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
        let share = EncodeOptions::default().cache_bytes;
        let mut worker = Worker::new(&job, share)?;
        let pair = plan.pair_of[root.index()];
        let factor = Scaled::from_f64(1.0 / self.composer.unit);
        worker.fragment(pair, |found| found.write(factor, out), context)?;
        if out.iter().all(|x| x.get().is_finite()) {
            Ok(())
        } else {
            Err(too_large::<T>(0))
        }
    }

    /// A label's vector.
    ///
    /// # Errors
    /// [`Error::Length`] for an `out` that is not d long.
    pub fn label_vector<T: Real>(&self, label: &str, out: &mut [T]) -> Result<()> {
        self.label_vector_with(label, out, &Context::default())
    }

    /// As [`label_vector`](Self::label_vector), in a context.
    ///
    /// # Errors
    /// As [`label_vector`](Self::label_vector), and what `context` returns.
    pub fn label_vector_with<T: Real>(
        &self,
        label: &str,
        out: &mut [T],
        context: &Context,
    ) -> Result<()> {
        self.check_length("out", out)?;
        self.composer.label(label, out, context)?;
        composition::scaled(out, T::of(1.0 / self.composer.unit), context)
    }

    /// a ◇ b.
    ///
    /// # Errors
    /// [`Error::Length`] for a vector that is not d long.
    pub fn compose<T: Real>(&self, a: &[T], b: &[T], out: &mut [T]) -> Result<()> {
        self.compose_with(a, b, out, &Context::default())
    }

    /// As [`compose`](Self::compose), in a context.
    ///
    /// # Errors
    /// As [`compose`](Self::compose), and what `context` returns.
    pub fn compose_with<T: Real>(
        &self,
        a: &[T],
        b: &[T],
        out: &mut [T],
        context: &Context,
    ) -> Result<()> {
        self.check_length("a", a)?;
        self.check_length("b", b)?;
        self.check_length("out", out)?;
        self.composer.compose(a, b, out, context)
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

/// The kernel of each tree with itself.
fn own_kernels(
    kernel: &dyn Kernel,
    trees: &Forest,
    context: &Context,
) -> Result<Vec<Scaled>> {
    // Equal trees have one kernel, which is computed once.
    let Different { items, places } = Different::new(trees)?;
    let singles = kernel.pairs(items.nodes(), items.roots(), context)?;
    let (selfs, _) = gram::self_kernels(&*singles, items.len(), context)?;
    memory::collect(places.of.iter().map(|&tree| selfs[tree as usize]))
}

fn too_large<T: Real>(tree: usize) -> Error {
    Error::VectorOverflow { tree, wider: size_of::<T>() < 8 }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let n = values.len();
    f64::midpoint(values[(n - 1) / 2], values[n / 2])
}
