//! Models of sums of kernels: a [`Model`] for each term.
//!
//! ```text
//! Σ_i α_i Σ_p c_p K_p(x_i, x)  =  Σ_p c_p S_p(x)
//! ```
//!
//! Terms are kernels with an index, each normalised or not. Where the sum is normalised as
//! a whole, α_i is divided by √K(x_i,x_i) as it comes in, and S(x) by √K(x,x), as in
//! [`Model`]. A kernel with an index is the sum of one term, and nothing is added.
//!
//! # Complexity
//! That of the terms' models.

use std::borrow::Cow;

use super::{
    Fragments, Model, Options, Pass, Query, add_scaled, check_finite, check_length,
    compact,
};
use crate::gram;
use crate::kernel::{Composed, Indexed, Operation};
use crate::memory;
use crate::{Context, Error, Forest, Kernel, Result};

/// A sum of kernels that have an index.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    /// None: the only term is the kernel itself.
    whole: Option<Composed>,
    all: Vec<Term>,
    /// Whether the sum is normalised: not where a single term can be.
    normalize: bool,
}

#[derive(Debug, Clone)]
struct Term {
    factor: f64,
    kernel: Indexed,
    normalize: bool,
}

impl Terms {
    /// # Errors
    /// [`Error::Parameter`], and [`Error::Unsupported`] for a kernel that is no such sum.
    pub(crate) fn new(kernel: &dyn Kernel, normalize: bool) -> Result<Self> {
        kernel.check()?;
        let mut terms = Vec::new();
        if !read(kernel, 1.0, false, &mut terms) {
            let refused = kernel.require("models", super::for_models).err();
            return Err(match refused {
                Some(Error::Unsupported { kernel, what, mut can }) => {
                    can.push("Sum");
                    Error::Unsupported { kernel, what, can }
                }
                other => other.unwrap_or(Error::Interrupted),
            });
        }
        let whole = kernel.composed().cloned();
        let mut new = Self { whole, all: terms, normalize };
        if let [one] = &mut new.all[..]
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
            Some(kernel) => kernel,
            None => self.all[0].kernel.kernel(),
        }
    }
}

/// Whether a kernel is a sum of terms, which are added to `terms`.
fn read(
    kernel: &dyn Kernel,
    factor: f64,
    normalize: bool,
    terms: &mut Vec<Term>,
) -> bool {
    if let Some((kernel, _)) = super::for_models(kernel) {
        terms.push(Term { factor, kernel, normalize });
        return true;
    }
    let Some(composed) = kernel.composed() else { return false };
    let parts = composed.parts();
    match composed.operation() {
        Operation::Sum if !normalize => {
            parts.iter().all(|part| read(&**part, factor, false, terms))
        }
        // Of a kernel times a number that is not 0 the normalised one is the kernel's.
        Operation::Scaled(own) => {
            let own = if normalize && own > 0.0 { 1.0 } else { own };
            read(&*parts[0], factor * own, normalize, terms)
        }
        Operation::Normalized => read(&*parts[0], factor, true, terms),
        _ => false,
    }
}

/// A kernel machine of a sum of kernels, without its support trees. See [`Model`].
///
/// ```
/// use std::sync::Arc;
/// use treekernel_rs::dag::{Options, SumModel};
/// use treekernel_rs::kernel::{Composed, ElasticTree, Operation, SubsetTree};
/// use treekernel_rs::{Context, Forest};
///
/// let parts = vec![Arc::new(SubsetTree::new(1.0)) as _, Arc::new(ElasticTree::new(1.0)) as _];
/// let sum = Composed::new(Operation::Sum, parts)?;
/// let trees = Forest::from_brackets("(A b)")?;
/// let mut model = SumModel::new(&sum, Options::default())?;
/// model.add(&trees, &[0.5], &Context::default())?;
/// assert_eq!(model.score(&trees, &Context::default())?.0, [0.5 * (1.0 + 3.0)]);
/// # Ok::<(), treekernel_rs::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct SumModel {
    terms: Terms,
    parts: Vec<Model>,
    n_outputs: usize,
    /// Of a sum; a plain model has its own.
    intercept: Vec<f64>,
}

impl SumModel {
    /// An empty model of a kernel with an index, or of a sum of such kernels.
    ///
    /// # Errors
    /// As [`Model::new`].
    pub fn new(kernel: &dyn Kernel, options: Options) -> Result<Self> {
        Self::of(Terms::new(kernel, options.normalize)?, options.n_outputs)
    }

    pub(crate) fn of(terms: Terms, n_outputs: usize) -> Result<Self> {
        let part = |term: &Term| {
            let options = Options { normalize: term.normalize, n_outputs };
            Model::new(term.kernel.kernel(), options)
        };
        let parts = terms.all.iter().map(part).collect::<Result<_>>()?;
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
            [one] if self.terms.all[0].factor == 1.0 => Some(one),
            _ => None,
        }
    }

    /// The models of all terms.
    pub fn parts(&self) -> &[Model] {
        &self.parts
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
    pub fn add(
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
        if let [one] = &mut self.parts[..] {
            return one.add_from(done, forest, alphas, context);
        }
        let width = self.n_outputs;
        check_length("alphas", alphas, forest.len() * width, "trees times n_outputs")?;
        let scales = self.scales(forest, context)?;
        let mut alphas = Cow::Borrowed(alphas);
        for (own, scale) in alphas.to_mut().chunks_mut(width).zip(&scales) {
            for alpha in own {
                *alpha *= scale;
            }
        }
        memory::room(1, self.nbytes())?;
        let mut parts = self.parts.clone();
        for part in &mut parts {
            part.add(forest, &alphas, context)?;
        }
        self.parts = parts;
        Ok((0..scales.len()).filter(|&tree| scales[tree] == 0.0).collect())
    }

    /// The scores of trees, as [`Model::score`].
    ///
    /// # Errors
    /// As [`Model::score`].
    pub fn score(
        &self,
        forest: &Forest,
        context: &Context,
    ) -> Result<(Vec<f64>, Vec<usize>)> {
        if let Some(model) = self.plain() {
            return model.score(forest, context);
        }
        let mut out = memory::filled(0.0, forest.len() * self.n_outputs)?;
        let mut zeros = Vec::new();
        for (part, term) in self.parts.iter().zip(&self.terms.all) {
            let (scores, none) = part.score(forest, context)?;
            add_scaled(term.factor, &scores, &mut out);
            zeros = none;
        }
        if self.parts.len() > 1 {
            let scales = self.scales(forest, context)?;
            self.scale(&scales, &mut out);
            zeros = (0..scales.len()).filter(|&tree| scales[tree] == 0.0).collect();
        }
        for (tree, scores) in out.chunks_mut(self.n_outputs).enumerate() {
            add_scaled(1.0, &self.intercept, scores);
            if !scores.iter().all(|score| score.is_finite()) {
                return Err(Error::ScoreOverflow { tree });
            }
        }
        Ok((out, zeros))
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
    pub fn contributions(&self, tree: &Forest, context: &Context) -> Result<Vec<f64>> {
        let mut out = Vec::new();
        for (part, term) in self.parts.iter().zip(&self.terms.all) {
            let mut shares = part.contributions(tree, context)?;
            for share in &mut shares {
                *share *= term.factor;
            }
            if out.is_empty() {
                out = shares;
            } else {
                add_scaled(1.0, &shares, &mut out);
            }
        }
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
    pub fn top_fragments(&self, query: &Query, context: &Context) -> Result<Fragments> {
        let [one] = &self.parts[..] else {
            let (kernel, what) = (self.kernel().name(), "fragments with weights");
            let can =
                vec!["Subtree", "SubsetTree", "PartialTree", "ElasticTree", "Subpath"];
            return Err(Error::Unsupported { kernel, what, can });
        };
        let mut found = one.top_fragments(query, context)?;
        let factor = self.terms.all[0].factor;
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
        let trees = gram::Distinct::new(forest.roots());
        let singles =
            gram::prepare(self.kernel(), forest.nodes(), &trees.roots, context)?;
        let selfs = gram::self_kernels(&*singles, trees.len(), context)?;
        let scales: Vec<f64> = selfs.into_iter().map(gram::scale).collect();
        let all: Vec<f64> =
            trees.of.iter().map(|&tree| scales[tree as usize]).collect();
        match all.iter().position(|scale| scale.is_nan()) {
            Some(tree) => Err(Error::ScoreOverflow { tree }),
            None => Ok(all),
        }
    }

    /// Adds another model, as [`Model::merge`]. An error changes no score.
    ///
    /// # Errors
    /// As there.
    pub fn merge(
        &mut self,
        other: &Self,
        factor: f64,
        context: &Context,
    ) -> Result<()> {
        if let ([one], [another]) = (&mut self.parts[..], &other.parts[..])
            && self.terms.whole.is_none()
            && other.terms.whole.is_none()
        {
            return one.merge(another, factor, context);
        }
        let is_like = self.kernel() == other.kernel()
            && self.terms.normalize == other.terms.normalize
            && self.n_outputs == other.n_outputs;
        if !is_like {
            let expected = "a model of the same kernel, normalised alike";
            let got = format!("{:?}", other.kernel());
            return Err(Error::Parameter { name: "other", expected, got });
        }
        memory::room(1, self.nbytes())?;
        let mut parts = self.parts.clone();
        for (part, more) in parts.iter_mut().zip(&other.parts) {
            part.merge(more, factor, context)?;
        }
        let mut intercept = self.intercept.clone();
        add_scaled(factor, &other.intercept, &mut intercept);
        check_finite("intercept", &intercept)?;
        (self.parts, self.intercept) = (parts, intercept);
        Ok(())
    }

    /// A perceptron's pass, as [`Model::pass_over`].
    ///
    /// # Errors
    /// As there, and [`Error::Unsupported`] for a sum.
    pub fn pass_over(
        &self,
        forest: &Forest,
        labels: &[f64],
        context: &Context,
    ) -> Result<Pass> {
        let Some(model) = self.plain() else {
            let (kernel, what) = (self.kernel().name(), "perceptrons");
            return Err(Error::Unsupported { kernel, what, can: vec!["SubsetTree"] });
        };
        model.pass_over(forest, labels, context)
    }

    /// A model of models of its terms.
    ///
    /// # Errors
    /// As [`new`](Self::new), and [`Error::Length`] for another number of models.
    pub fn from_parts(
        kernel: &dyn Kernel,
        options: Options,
        parts: impl FnOnce(&[(&dyn Kernel, Options)]) -> Result<Vec<Model>>,
    ) -> Result<Self> {
        let mut new = Self::new(kernel, options)?;
        let wanted: Vec<_> =
            new.parts.iter().map(|part| (part.kernel(), part.options())).collect();
        let parts = parts(&wanted)?;
        check_length("parts", &parts, new.parts.len(), "one for each term")?;
        new.parts = parts;
        if new.plain().is_none() {
            // That of the sum stands by itself.
            let none = vec![0.0; new.n_outputs];
            new.parts.iter_mut().try_for_each(|part| part.set_intercept(&none))?;
        }
        Ok(new)
    }
}

impl From<Model> for SumModel {
    fn from(model: Model) -> Self {
        let Options { normalize, n_outputs } = model.options;
        let term = Term { factor: 1.0, kernel: model.kernel.clone(), normalize };
        let terms = Terms { whole: None, all: vec![term], normalize: false };
        let intercept = vec![0.0; n_outputs];
        Self { terms, parts: vec![model], n_outputs, intercept }
    }
}
