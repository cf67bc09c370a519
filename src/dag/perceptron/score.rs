//! Scores of the last version, and of all versions together.

use std::sync::Arc;

use super::{NOISE, Perceptron, Place, Vote};
use crate::dag::naive::sign;
use crate::dag::score::{ReadTree, Worker, visits};
use crate::dag::vectors::Features;
use crate::dag::{Model, compact};
use crate::index::weights::{Averaged, Row, Sizes, add_scaled};
use crate::memory;
use crate::{Context, Error, Forest, Result};

/// What a support tree adds to a score.
#[derive(Debug, Clone, Copy)]
enum Terms {
    Last,
    /// Summed over all versions.
    Average,
    /// Whatever its sign.
    Sizes,
}

impl Perceptron {
    /// The scores of trees, `n_outputs` for each: sums over versions for `Average` and
    /// `Vote`. And the trees whose kernel with themselves is 0, where it is normalised.
    ///
    /// # Errors
    /// As [`Model::score`], and as [`learn`](Self::learn) for vectors.
    pub fn score(
        &self,
        forest: &Forest,
        features: Option<Features<'_>>,
    ) -> Result<(Vec<f64>, Vec<usize>)> {
        self.score_with(forest, features, &Context::default())
    }

    /// As [`score`](Self::score), in a context.
    ///
    /// # Errors
    /// As [`score`](Self::score), and what `context` returns.
    pub fn score_with(
        &self,
        forest: &Forest,
        features: Option<Features<'_>>,
        context: &Context,
    ) -> Result<(Vec<f64>, Vec<usize>)> {
        let width = self.model.options.n_outputs;
        self.check_features(features, forest.len())?;
        // Before the first vector there is nothing to compare with.
        if let (Some(vectors), Some(features)) = (&self.vectors, &features)
            && vectors.n_columns() > 0
            && vectors.n_columns() != features.n_columns()
        {
            let expected = format!("{}, as in learn", vectors.n_columns());
            let got = features.n_columns();
            return Err(Error::Length { array: "a row of features", expected, got });
        }
        let mut out = memory::filled(0.0, forest.len().saturating_mul(width))?;
        context.advance(0, forest.len())?;
        let forest = compact(forest, context)?;
        if let Some(averaged) = self.averaged(&forest)? {
            let zeros = averaged.score_into_with(&forest, &mut out, context)?;
            return Ok((out, zeros));
        }
        // Tables hold the weights of the last version alone.
        let is_last = self.vote == Vote::Last;
        let zeros = self.model.for_trees(
            &forest,
            is_last,
            &mut out,
            context,
            |mut tree, out| {
                if let Some(features) = &features {
                    features.row(tree.number, &mut tree.worker.features)?;
                }
                match self.vote {
                    Vote::Vote => self.voted(&mut tree, out),
                    Vote::Average => self.average(&mut tree, out),
                    Vote::Last => self.sums(&mut tree, out),
                }
            },
        )?;
        Ok((out, zeros))
    }

    /// The model of averaged weights, if scores since the last change and those of these
    /// trees take longer than making it.
    fn averaged(&self, forest: &Forest) -> Result<Option<Arc<Model>>> {
        // Vectors are not in a model: with them there is no model that scores alike.
        if self.vote != Vote::Average || self.vectors.is_some() || forest.is_empty() {
            return Ok(None);
        }
        if let model @ Some(_) = self.averaged.get() {
            return Ok(model);
        }
        let id_map = self.model.id_map(forest.nodes())?;
        if !self.model.tables_pay_off(|index| visits(index, forest, &id_map)) {
            return Ok(None);
        }
        Ok(Some(self.averaged.put(self.try_model()?)))
    }

    /// The scores of a tree by the last version, on which mistakes are decided.
    pub(super) fn sums(&self, tree: &mut ReadTree<'_>, out: &mut [f64]) -> Result<()> {
        out.fill(0.0);
        // Without a share of the trees' kernel the graph need not be walked.
        if self.mix > 0.0 {
            self.model.raw_score(tree, out)?;
        }
        self.add_supports(tree, Terms::Last, out)
    }

    /// The sizes of the terms of those scores, summed.
    pub(super) fn sizes(&self, tree: &mut ReadTree<'_>, out: &mut [f64]) -> Result<()> {
        out.fill(0.0);
        if self.mix > 0.0 {
            // Sizes never cancel, so rounding in a score is a small part of this sum.
            self.model.score_by(&Sizes(&self.model.weights), None, tree, out)?;
        }
        self.add_supports(tree, Terms::Sizes, out)
    }

    /// The scores of a tree, summed over all versions.
    fn average(&self, tree: &mut ReadTree<'_>, out: &mut [f64]) -> Result<()> {
        out.fill(0.0);
        if let (Some(age_weighted), true) = (&self.age_weighted, self.mix > 0.0) {
            let (last, scale) = (&self.model.weights, self.n_examples as f64);
            let numbers = Averaged { last, age_weighted, scale };
            self.model.score_by(&numbers, None, tree, out)?;
        }
        self.add_supports(tree, Terms::Average, out)
    }

    /// All versions' scores from one row of kernels.
    fn voted(&self, tree: &mut ReadTree<'_>, out: &mut [f64]) -> Result<()> {
        let Some(occurrences) = &self.occurrences else { return Ok(()) };
        // 1. The tree's kernels with all support trees.
        let mut row = std::mem::take(&mut tree.worker.row);
        row.clear();
        memory::reach(&mut row, self.supports.len(), 0.0)?;
        if self.mix > 0.0 {
            self.model.pass(tree, None, &mut Row::new(occurrences, &mut row))?;
        }
        let Worker { features, dots, cosines, .. } = &mut *tree.worker;
        // A row by subtrees is not normalised; kernels with whole trees are.
        for (kernel, support) in row.iter_mut().zip(&self.supports) {
            let of_trees = match support.place {
                Place::Whole(number) => cosines[number as usize],
                _ => tree.norm.divide(*kernel) * support.scale,
            };
            *kernel = self.mix * of_trees;
        }
        if let Some(vectors) = &self.vectors {
            vectors.kernels(features, dots)?;
            for (kernel, other) in row.iter_mut().zip(dots) {
                *kernel += (1.0 - self.mix) * *other;
            }
        }
        // 2. Its running sums are the scores of all versions, which vote.
        let width = out.len();
        // Outputs share the row, and differ in the labels only.
        for (output, out) in out.iter_mut().enumerate() {
            // The empty version, which scores 0, votes for neither.
            let (mut score, mut size, mut votes) = (0.0f64, 0.0f64, 0.0);
            let mut versions = self.supports.iter().enumerate().peekable();
            while let Some((version, support)) = versions.next() {
                let term = self.alphas[version * width + output] * row[version];
                score += term;
                size += term.abs();
                // A version lasts until the next support tree comes, the last one until
                // now.
                let end = versions.peek().map_or(self.n_examples, |next| next.1.before);
                if score.abs() > NOISE * size {
                    votes += sign(score) * (end - support.before) as f64;
                }
            }
            // A score that is no number has no sign: for the caller to find.
            *out = if score.is_finite() { votes } else { score };
        }
        tree.worker.row = row;
        Ok(())
    }

    /// Makes a score by subtrees into one of trees and vectors: adds what support trees
    /// have that are large, and their vectors.
    fn add_supports(
        &self,
        tree: &mut ReadTree<'_>,
        terms: Terms,
        out: &mut [f64],
    ) -> Result<()> {
        let mix = self.mix;
        for score in out.iter_mut() {
            *score = mix * tree.norm.divide(*score);
        }
        let Worker { features, dots, cosines, .. } = &mut *tree.worker;
        dots.clear();
        match &self.vectors {
            Some(vectors) => vectors.kernels(features, dots)?,
            // Nothing stands beside the graph.
            None if cosines.is_empty() => return Ok(()),
            // Large trees and no vectors: dot products of 0 keep one loop for both.
            None => memory::reach(dots, self.supports.len(), 0.0)?,
        }
        let supports = self.supports.iter().zip(self.alphas.chunks(out.len()));
        for ((support, alphas), dot) in supports.zip(dots) {
            let mut kernel = (1.0 - mix) * *dot;
            // Those of subtrees are in the score already.
            if let Place::Whole(number) = support.place {
                kernel += mix * cosines[number as usize];
            }
            match terms {
                Terms::Last => add_scaled(kernel, alphas, out),
                Terms::Average => {
                    let times = (self.n_examples - support.before) as f64;
                    add_scaled(times * kernel, alphas, out);
                }
                Terms::Sizes => {
                    let sizes = alphas.iter().map(|alpha| (kernel * alpha).abs());
                    out.iter_mut().zip(sizes).for_each(|(sum, size)| *sum += size);
                }
            }
        }
        Ok(())
    }
}
