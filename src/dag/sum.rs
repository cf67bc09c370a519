//! Models of sums of kernels: a [`Model`] for each term.
//!
//! ```text
//! Σ_i α_i Σ_p c_p K_p(x_i, x)  =  Σ_p c_p S_p(x)
//! ```
//!
//! Terms are kernels, each normalised or not: those with an index have graphs, the others
//! support trees. Where the sum is normalised as a whole, α_i is divided by √K(x_i,x_i) as it
//! comes in, and S(x) by √K(x,x), as in [`Model`]. Any other kernel is the sum of one term,
//! and nothing is added.
//!
//! # Complexity
//! That of the terms' models.

use std::sync::Arc;

use super::{
    Fragments, Model, ModelOptions, Pass, Query, add_scaled, check_finite,
    check_length, compact,
};
use crate::gram;
use crate::kernel::{IntoKernel, Operation};
use crate::memory;
use crate::{Context, Error, Forest, Kernel, Result};

/// A kernel as a sum of others.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    /// None: the only term is the kernel itself.
    whole: Option<Arc<dyn Kernel>>,
    list: Vec<Term>,
    /// Whether the sum is normalised: not where a single term can be.
    normalize: bool,
}

#[derive(Debug, Clone)]
struct Term {
    /// 0 or more; it stands outside where the term is normalised.
    factor: f64,
    kernel: Arc<dyn Kernel>,
    normalize: bool,
}

impl Terms {
    /// # Errors
    /// [`Error::Parameter`].
    pub(crate) fn new(kernel: Arc<dyn Kernel>, normalize: bool) -> Result<Self> {
        kernel.check()?;
        let mut terms = Vec::new();
        read(&kernel, 1.0, false, &mut terms);
        // A kernel that is taken no further apart is its own only term.
        let is_itself = terms.iter().any(|term| Arc::ptr_eq(&term.kernel, &kernel));
        let whole = (!is_itself).then_some(kernel);
        let mut new = Self { whole, list: terms, normalize };
        // With one term the sum is normalised by normalising the term: the factor,
        // which is 0 or more, falls out, except that 0 stays 0.
        if let [one] = &mut new.list[..]
            && normalize
        {
            *one =
                Term { factor: one.factor.min(1.0).ceil(), normalize, ..one.clone() };
            new.normalize = false;
        }
        Ok(new)
    }

    pub(crate) fn kernel(&self) -> &dyn Kernel {
        match &self.whole {
            Some(kernel) => &**kernel,
            None => &*self.list[0].kernel,
        }
    }
}

/// Takes a kernel apart into terms.
fn read(kernel: &Arc<dyn Kernel>, factor: f64, normalize: bool, terms: &mut Vec<Term>) {
    if let Some(composed) = kernel.composed() {
        let parts = composed.parts();
        match composed.operation() {
            Operation::Sum if !normalize => {
                return parts.iter().for_each(|part| read(part, factor, false, terms));
            }
            // Of a kernel times a number that is not 0 the normalised one is the kernel's.
            Operation::Scaled(number) => {
                let number = if normalize && number > 0.0 { 1.0 } else { number };
                return read(&parts[0], factor * number, normalize, terms);
            }
            Operation::Normalized => return read(&parts[0], factor, true, terms),
            // A product, or a sum below a norm, is no sum of kernels at this level.
            _ => {}
        }
    }
    // bounded: a kernel's parts
    terms.push(Term { factor, kernel: Arc::clone(kernel), normalize });
}

/// A kernel machine of a sum of kernels, without its support trees. See [`Model`].
///
/// ```
/// use std::sync::Arc;
/// use treekernel_rs::dag::{ModelOptions, SumModel};
/// use treekernel_rs::kernel::{Composed, ElasticTree, Operation, SubsetTree};
/// use treekernel_rs::Forest;
///
/// let parts = vec![Arc::new(SubsetTree::new(1.0)) as _, Arc::new(ElasticTree::new(1.0)) as _];
/// let sum = Composed::new(Operation::Sum, parts)?;
/// let trees = Forest::from_brackets("(A b)")?;
/// let mut model = SumModel::new(&sum, ModelOptions::default())?;
/// model.add(&trees, &[0.5])?;
/// assert_eq!(model.score(&trees)?.0, [0.5 * (1.0 + 3.0)]);
/// # Ok::<(), treekernel_rs::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct SumModel {
    terms: Terms,
    /// By term, without the factors.
    parts: Vec<Model>,
    n_outputs: usize,
    /// Of a sum; a plain model has its own.
    intercept: Vec<f64>,
}

impl SumModel {
    /// An empty model of a kernel, with a part for each term of a sum.
    ///
    /// # Errors
    /// As [`Model::new`].
    pub fn new(kernel: impl IntoKernel, options: ModelOptions) -> Result<Self> {
        Self::of(
            Terms::new(kernel.into_kernel(), options.normalize)?,
            options.n_outputs,
        )
    }

    pub(crate) fn of(terms: Terms, n_outputs: usize) -> Result<Self> {
        let part = |term: &Term| {
            let options = ModelOptions { normalize: term.normalize, n_outputs };
            Model::new(&term.kernel, options)
        };
        let parts = memory::try_collect(terms.list.iter().map(part))?;
        let intercept = memory::filled(0.0, n_outputs)?;
        Ok(Self { terms, parts, n_outputs, intercept })
    }

    /// The kernel.
    pub fn kernel(&self) -> &dyn Kernel {
        self.terms.kernel()
    }

    /// The model itself, where there is one term without a factor.
    fn plain(&self) -> Option<&Model> {
        match &self.parts[..] {
            [one] if self.terms.list[0].factor == 1.0 => Some(one),
            _ => None,
        }
    }

    /// The models of all terms.
    pub fn parts(&self) -> &[Model] {
        &self.parts
    }

    /// Whether all parts are graphs: see [`Model::is_graph`].
    pub fn is_graph(&self) -> bool {
        self.parts.iter().all(Model::is_graph)
    }

    /// What is added to the scores of each output.
    pub fn intercept(&self) -> &[f64] {
        self.plain().map_or(&self.intercept, Model::intercept)
    }

    /// Sets what is added to scores.
    ///
    /// # Errors
    /// As [`Model::set_intercept`].
    pub fn set_intercept(&mut self, intercept: &[f64]) -> Result<()> {
        if self.plain().is_some() {
            return self.parts[0].set_intercept(intercept);
        }
        check_length("intercept", intercept, self.n_outputs, "n_outputs")?;
        check_finite("intercept", intercept)?;
        self.intercept.copy_from_slice(intercept);
        Ok(())
    }

    /// Bytes held.
    pub fn nbytes(&self) -> usize {
        self.parts.iter().map(Model::nbytes).sum()
    }

    /// Adds trees with weights, as [`Model::add`]. An error changes nothing of a sum.
    ///
    /// # Errors
    /// As [`Model::add`].
    pub fn add(&mut self, forest: &Forest, alphas: &[f64]) -> Result<Vec<usize>> {
        self.add_with(forest, alphas, &Context::default())
    }

    /// As [`add`](Self::add), in a context.
    ///
    /// # Errors
    /// As [`add`](Self::add), and what `context` returns.
    pub fn add_with(
        &mut self,
        forest: &Forest,
        alphas: &[f64],
        context: &Context,
    ) -> Result<Vec<usize>> {
        self.add_from(&mut 0, forest, alphas, context)
    }

    /// As [`Model::add_from`]; what stopped a sum begins anew.
    pub(crate) fn add_from(
        &mut self,
        done: &mut usize,
        forest: &Forest,
        alphas: &[f64],
        context: &Context,
    ) -> Result<Vec<usize>> {
        // A single term scales its trees itself, and can go on where it was stopped.
        if let [one] = &mut self.parts[..] {
            return one.add_from(done, forest, alphas, context);
        }
        let width = self.n_outputs;
        check_length("alphas", alphas, forest.len() * width, "trees times n_outputs")?;
        let scales = self.scales(forest, context)?;
        // Terms do not know the norm of the sum: the weights come to them already
        // divided.
        let mut alphas = memory::copied(alphas)?;
        for (tree_alphas, scale) in alphas.chunks_mut(width).zip(&scales) {
            for alpha in tree_alphas {
                *alpha *= scale;
            }
        }
        // All or none: if a later term fails, the earlier ones must not have the trees.
        memory::room(1, self.nbytes())?;
        let mut parts = self.parts.clone();
        for part in &mut parts {
            part.add_with(forest, &alphas, context)?;
        }
        self.parts = parts;
        zeros(&scales)
    }

    /// The scores of trees, as [`Model::score`].
    ///
    /// # Errors
    /// As [`Model::score`].
    pub fn score(&self, forest: &Forest) -> Result<(Vec<f64>, Vec<usize>)> {
        self.score_with(forest, &Context::default())
    }

    /// As [`score`](Self::score), in a context.
    ///
    /// # Errors
    /// As [`score`](Self::score), and what `context` returns.
    pub fn score_with(
        &self,
        forest: &Forest,
        context: &Context,
    ) -> Result<(Vec<f64>, Vec<usize>)> {
        if let Some(model) = self.plain() {
            return model.score_with(forest, context);
        }
        let mut out = memory::filled(0.0, forest.len() * self.n_outputs)?;
        let mut unknown = Vec::new();
        for (part, term) in self.parts.iter().zip(&self.terms.list) {
            // Of a single term these are its own trees without norm.
            let (scores, none) = part.score_with(forest, context)?;
            add_scaled(term.factor, &scores, &mut out);
            unknown = none;
        }
        // A single term has divided by the norm already.
        if self.parts.len() > 1 {
            let scales = self.scales(forest, context)?;
            self.scale(&scales, &mut out);
            unknown = zeros(&scales)?;
        }
        for (tree, scores) in out.chunks_mut(self.n_outputs).enumerate() {
            add_scaled(1.0, &self.intercept, scores);
            // Finite scores of terms may still have an infinite sum.
            if !scores.iter().all(|score| score.is_finite()) {
                return Err(Error::ScoreOverflow { tree });
            }
        }
        Ok((out, unknown))
    }

    fn scale(&self, scales: &[f64], out: &mut [f64]) {
        for (scores, scale) in out.chunks_mut(self.n_outputs).zip(scales) {
            for score in scores {
                *score *= scale;
            }
        }
    }

    /// How much each node of a tree adds, as [`Model::contributions`].
    ///
    /// # Errors
    /// As [`Model::contributions`].
    pub fn contributions(&self, tree: &Forest) -> Result<Vec<f64>> {
        self.contributions_with(tree, &Context::default())
    }

    /// As [`contributions`](Self::contributions), in a context.
    ///
    /// # Errors
    /// As [`contributions`](Self::contributions), and what `context` returns.
    pub fn contributions_with(
        &self,
        tree: &Forest,
        context: &Context,
    ) -> Result<Vec<f64>> {
        let mut out = Vec::new();
        for (part, term) in self.parts.iter().zip(&self.terms.list) {
            let mut shares = part.contributions_with(tree, context)?;
            for share in &mut shares {
                *share *= term.factor;
                // All parts list the nodes of the same tree in the same order.
            }
            if out.is_empty() {
                out = shares;
            } else {
                add_scaled(1.0, &shares, &mut out);
            }
        }
        // As in `score`: a single term is normalised by itself.
        if self.parts.len() > 1
            && let Some(scale) = self.scales(tree, context)?.first()
        {
            for share in &mut out {
                *share *= scale;
            }
        }
        if out.iter().all(|share| share.is_finite()) {
            return Ok(out);
        }
        Err(Error::ScoreOverflow { tree: 0 })
    }

    /// The fragments that count most, as [`Model::top_fragments`].
    ///
    /// # Errors
    /// As there, and [`Error::Unsupported`] for a sum.
    pub fn top_fragments(&self, query: &Query) -> Result<Fragments> {
        self.top_fragments_with(query, &Context::default())
    }

    /// As [`top_fragments`](Self::top_fragments), in a context.
    ///
    /// # Errors
    /// As [`top_fragments`](Self::top_fragments), and what `context` returns.
    pub fn top_fragments_with(
        &self,
        query: &Query,
        context: &Context,
    ) -> Result<Fragments> {
        let [one] = &self.parts[..] else {
            let (kernel, what) = (self.kernel().name(), "fragments with weights");
            let can =
                ["Subtree", "SubsetTree", "PartialTree", "ElasticTree", "Subpath"];
            let can = can.to_vec(); // bounded: five
            return Err(Error::Unsupported { kernel, what, can });
        };
        let mut found = one.top_fragments_with(query, context)?;
        let factor = self.terms.list[0].factor;
        for weight in &mut found.weights {
            *weight *= factor;
        }
        Ok(found)
    }

    /// Per tree 1 / √K(t,t), 0 where that is 0; nothing where the sum is not normalised.
    fn scales(&self, forest: &Forest, context: &Context) -> Result<Vec<f64>> {
        if !self.terms.normalize {
            return Ok(Vec::new());
        }
        let forest = compact(forest, context)?;
        // Each different tree is compared with itself once, however often it comes.
        let gram::Different { items: trees, places } = gram::Different::new(&*forest)?;
        let singles = self.kernel().pairs(trees.nodes(), trees.roots(), context)?;
        let place = |tree: usize| (places.first[tree] as usize, "X");
        let norms = gram::Norms::new(&*singles, trees.len(), place, context)?;
        let scales = places.of.iter().map(|&tree| norms.scales[tree as usize]);
        let scales = memory::collect(scales)?;
        // No float can divide by this norm, and a sum keeps no trees whole.
        match scales.iter().position(|scale| scale.is_nan()) {
            Some(tree) => Err(Error::ScoreOverflow { tree }),
            None => Ok(scales),
        }
    }

    /// Adds another model, as [`Model::merge`]. An error changes no score.
    ///
    /// # Errors
    /// As there.
    pub fn merge(&mut self, other: &Self, factor: f64) -> Result<()> {
        self.merge_with(other, factor, &Context::default())
    }

    /// As [`merge`](Self::merge), in a context.
    ///
    /// # Errors
    /// As [`merge`](Self::merge), and what `context` returns.
    pub fn merge_with(
        &mut self,
        other: &Self,
        factor: f64,
        context: &Context,
    ) -> Result<()> {
        // Plain models: these check kernel, options and intercept themselves.
        if let ([one], [another]) = (&mut self.parts[..], &other.parts[..])
            && self.terms.whole.is_none()
            && other.terms.whole.is_none()
        {
            return one.merge_with(another, factor, context);
        }
        let is_like = self.kernel() == other.kernel()
            && self.terms.normalize == other.terms.normalize
            && self.n_outputs == other.n_outputs;
        if !is_like {
            let expected = "a model of the same kernel, normalised alike";
            let got = format!("{:?}", other.kernel());
            return Err(Error::Parameter { name: "other", expected, got });
        }
        // All or none: if a later term fails, the earlier ones must not be merged.
        memory::room(1, self.nbytes())?;
        let mut parts = self.parts.clone();
        for (part, more) in parts.iter_mut().zip(&other.parts) {
            part.merge_with(more, factor, context)?;
        }
        let mut intercept = memory::copied(&self.intercept)?;
        add_scaled(factor, &other.intercept, &mut intercept);
        check_finite("intercept", &intercept)?;
        (self.parts, self.intercept) = (parts, intercept);
        Ok(())
    }

    /// A perceptron's pass, as [`Model::pass_over`].
    ///
    /// # Errors
    /// As there, and [`Error::Unsupported`] for a sum.
    pub fn pass_over(&self, forest: &Forest, labels: &[f64]) -> Result<Pass> {
        self.pass_over_with(forest, labels, &Context::default())
    }

    /// As [`pass_over`](Self::pass_over), in a context.
    ///
    /// # Errors
    /// As [`pass_over`](Self::pass_over), and what `context` returns.
    pub fn pass_over_with(
        &self,
        forest: &Forest,
        labels: &[f64],
        context: &Context,
    ) -> Result<Pass> {
        let Some(model) = self.plain() else {
            let (kernel, what) = (self.kernel().name(), "perceptrons");
            let can = vec!["SubsetTree"]; // bounded: one
            return Err(Error::Unsupported { kernel, what, can });
        };
        model.pass_over_with(forest, labels, context)
    }

    /// A model of models of its terms.
    ///
    /// # Errors
    /// As [`new`](Self::new), and [`Error::Length`] for another number of models.
    pub fn from_parts(
        kernel: impl IntoKernel,
        options: ModelOptions,
        parts: impl FnOnce(&[(&Arc<dyn Kernel>, ModelOptions)]) -> Result<Vec<Model>>,
    ) -> Result<Self> {
        let mut new = Self::new(kernel, options)?;
        let wanted = new.parts.iter().map(|part| (&part.kernel, part.options()));
        let wanted = memory::collect(wanted)?;
        let parts = parts(&wanted)?;
        check_length("parts", &parts, new.parts.len(), "one for each term")?;
        new.parts = parts;
        if new.plain().is_none() {
            // A sum adds its intercept once, after all terms: those of the terms are 0.
            // That of the sum stands by itself.
            let none = memory::filled(0.0, new.n_outputs)?;
            new.parts.iter_mut().try_for_each(|part| part.set_intercept(&none))?;
        }
        Ok(new)
    }
}

/// The trees whose scale says that nothing is known of them.
fn zeros(scales: &[f64]) -> Result<Vec<usize>> {
    memory::collect((0..scales.len()).filter(|&tree| scales[tree] == 0.0))
}

impl From<Model> for SumModel {
    fn from(model: Model) -> Self {
        let ModelOptions { normalize, n_outputs } = model.options;
        let term = Term { factor: 1.0, kernel: Arc::clone(&model.kernel), normalize };
        let (list, parts) = (vec![term], vec![model]); // bounded: one of each
        let terms = Terms { whole: None, list, normalize: false };
        Self { terms, parts, n_outputs, intercept: Vec::new() }
    }
}
