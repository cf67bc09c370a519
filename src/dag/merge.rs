//! Models are sums: one is added to another, whatever the stores of their trees.
//!
//! ```text
//! S(x) = Σ_ξ f(ξ) Σ_{v in x} C(v, ξ),     so   S_a + c S_b   has the weights   f_a + c f_b
//! ```
//!
//! Parts of a corpus are learned from apart, on several machines even, and their models put
//! together: for a perceptron by *iterative parameter mixing* (McDonald, Hall & Mann, NAACL
//! 2010). Each part makes a [pass](Pass) that begins with the mixture of the round before, and
//! the next mixture is the weighted mean of their last versions. With a single part that is
//! the perceptron itself.
//!
//! # Complexity
//! By the distinct subtrees of the model that is added, whatever the other has.

use super::score::ScoreTableCache;
use super::{Model, Perceptron, SAFE_MAGNITUDE};
use crate::memory;
use crate::{Context, Error, Forest, NodeId, Result};

/// One pass of a perceptron over some trees, from a model on.
#[derive(Debug, Clone)]
pub struct Pass {
    /// The last version.
    pub last: Model,
    /// The sum of the versions after each example: divided by their number, the mean.
    pub sum: Model,
    /// How many mistakes there were, over all outputs.
    pub n_mistakes: u64,
}

impl Model {
    /// Adds another model, its weights times `factor`: scores become S + factor · S_other,
    /// intercepts too. The sums of weights depend, in their last bits, on the order in which
    /// models are merged, and on nothing else.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a model of another kernel or with other options and for a
    /// factor that is not finite, [`Error::Array`] where a weight becomes infinite,
    /// [`Error::Memory`], [`Error::Capacity`]: scores are as before.
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
        self.check_like(other)?;
        if !factor.is_finite() {
            let (name, expected) = ("factor", "a finite number");
            return Err(Error::Parameter { name, expected, got: factor.to_string() });
        }
        // 1. Subtrees, with weights of 0: whatever stops this changes no score.
        let nodes = self.absorb(other, context)?;
        // 2. Weights: nothing stops this.
        let magnitude = self.bound() + factor.abs() * other.bound();
        // Without whole trees only adding numbers is left, which cannot fail.
        if magnitude <= SAFE_MAGNITUDE && other.whole.is_empty() {
            self.magnitude = magnitude;
            return self.add_model(other, factor, &nodes);
        }
        // The other way to fail is memory for a whole tree, halfway through them.
        // Something may become infinite, and nobody could take it out again.
        memory::room(1, self.nbytes())?;
        let mut trial = self.clone();
        trial.magnitude = magnitude;
        trial.add_model(other, factor, &nodes)?;
        for (at, node) in nodes.iter().enumerate() {
            trial.check_weights("weights", at, trial.weights(*node))?;
        }
        trial.check_weights("sums", 0, trial.weights.sums())?;
        trial.check_weights("large_alphas", 0, trial.whole.alphas())?;
        *self = trial;
        Ok(())
    }

    fn check_like(&self, other: &Self) -> Result<()> {
        let expected = match () {
            () if self.kernel() != other.kernel() => "a model of the same kernel",
            () if self.options.normalize != other.options.normalize => {
                "normalised as this model is"
            }
            () if self.options != other.options => "a model with as many outputs",
            () => return Ok(()),
        };
        let got = format!("{:?} with {:?}", other.kernel(), other.options);
        Err(Error::Parameter { name: "other", expected, got })
    }

    fn check_weights(
        &self,
        array: &'static str,
        at: usize,
        values: &[f64],
    ) -> Result<()> {
        let Some(index) = values.iter().position(|value| !value.is_finite()) else {
            return Ok(());
        };
        let index = at * self.options.n_outputs + index;
        let expected = "a weight that stays finite".to_owned();
        Err(Error::Array { array, index, expected, got: values[0].to_string() })
    }

    /// No weight, and no sum of weights, is larger.
    fn bound(&self) -> f64 {
        // The sum of all sizes is above each weight, and above the sum of any group.
        let nodes = (0..self.nodes.len()).map(|node| NodeId(node as u32));
        let size = |node| self.weights(node).iter().map(|f| f.abs()).sum::<f64>();
        let whole = self.whole.alphas().iter().map(|alpha| alpha.abs()).sum::<f64>();
        nodes.map(size).sum::<f64>() + whole
    }

    /// Enters the subtrees of another model; returns their ids here.
    fn absorb(&mut self, other: &Self, context: &Context) -> Result<Vec<NodeId>> {
        let n = other.nodes.len();
        // By label of the other model: the label here, looked up by name when first
        // met.
        let mut labels = memory::filled(None, other.nodes.labels().len())?;
        let mut ids = Vec::new();
        memory::reserve(&mut ids, n)?;
        // Children first in both models: when a parent comes, its children have ids
        // here.
        for there in 0..n {
            let node = NodeId(there as u32);
            let name = other.nodes.label(node);
            let label = if let Some(label) = labels[name.index()] {
                label
            } else {
                let text = other.nodes.labels().name(name);
                self.nodes.labels_mut().intern(text)?
            };
            labels[name.index()] = Some(label);
            self.below.clear();
            let below = other.nodes.children(node).iter();
            memory::extend(&mut self.below, below.map(|child| ids[child.index()]))?;
            let id = self.enter_below(label)?;
            memory::push(&mut ids, id)?;
            context.check()?;
        }
        context.report(n, n)?;
        Ok(ids)
    }

    /// Adds weights, of subtrees that are there.
    fn add_model(&mut self, other: &Self, factor: f64, nodes: &[NodeId]) -> Result<()> {
        let width = self.options.n_outputs;
        // Only a trial comes here with whole trees: what fails leaves the model as it
        // was.
        let trees = other.whole.forest();
        for (&root, alphas) in
            trees.roots().iter().zip(other.whole.alphas().chunks(width))
        {
            let scaled = memory::collect(alphas.iter().map(|alpha| factor * alpha))?;
            self.whole.add(trees.nodes(), root, &scaled)?;
        }
        self.whole.drop_zeros(width);
        // Tables are made of weights, and those are about to change.
        self.score_tables = ScoreTableCache::default();
        for (there, &node) in nodes.iter().enumerate() {
            let alphas = other.weights(NodeId(there as u32));
            self.weights.add(self.slots[node], factor, alphas);
        }
        for (intercept, more) in self.intercept.iter_mut().zip(&other.intercept) {
            *intercept += factor * more;
        }
        self.n_trees = self.n_trees.saturating_add(other.n_trees);
        self.n_tree_nodes = self.n_tree_nodes.saturating_add(other.n_tree_nodes);
        Ok(())
    }

    /// Goes through trees once, as a perceptron does whose first version is this model;
    /// `labels` are -1 or +1, `n_outputs` for each tree. Intercepts are 0.
    ///
    /// # Errors
    /// As [`Perceptron::learn`].
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
        memory::room(1, self.nbytes())?;
        let mut learner = Perceptron::from_version(self.clone())?;
        // Labels come with the pass; features do not, as a model has none.
        learner.learn_with(forest, labels, None, context)?;
        let n_mistakes = learner.n_mistakes();
        // The sum is made first: taking the last version ends the perceptron.
        let (sum, last) = (learner.try_model()?, learner.into_last());
        Ok(Pass { last, sum, n_mistakes })
    }
}
