//! Columns that the bound of a normalised kernel lets through.

use std::sync::Arc;

use super::Answer;
use super::best::Offers;
use super::blocks::{Bound, Names, Vectors};
use super::corpus::{Corpus, Scratch, Values};
use super::prune::{self, Askers};
use crate::gram::{Distinct, Items};
use crate::memory::{collect, filled};
use crate::threads::Threads;
use crate::{Context, Result};

/// Columns of a row that are looked up at first, besides those wanted.
const FEW_MORE: usize = 8;
/// Rows that the bound is tried on, and one of how many pairs it may let through.
const SAMPLE: usize = 64;
const ONE_IN: usize = 20;

/// What the bound needs of the columns, for one threshold and all above it.
pub(super) struct Pruned {
    index: prune::Index,
    names: Names,
    /// Places of columns that have no kernel with themselves.
    zeros: Vec<usize>,
}

/// The columns that the bound lets through.
pub(super) struct Candidates {
    pruned: Arc<Pruned>,
    /// None: the rows are the columns.
    rows: Option<prune::Ranked>,
    /// Places of rows that have no kernel with themselves.
    zero_rows: Vec<usize>,
    least: f64,
}

impl Pruned {
    /// For a corpus's columns, and for any rows; None where there is no bound.
    pub(super) fn for_any<X: Items>(
        corpus: &Corpus<'_, X>,
        least: f64,
        context: &Context,
    ) -> Result<Option<Arc<Self>>> {
        let Some(bound) = corpus.bound(&corpus.columns.different, least, context)?
        else {
            return Ok(None);
        };
        Self::new(corpus, bound, least, Askers::Any, context).map(Some)
    }

    /// The candidates of a corpus, for one call; None where there is no bound.
    pub(super) fn for_call<X: Items>(
        corpus: &Corpus<'_, X>,
        least: f64,
        context: &Context,
    ) -> Result<Option<Candidates>> {
        let Some(bound) = corpus.bound(&corpus.columns.different, least, context)?
        else {
            return Ok(None);
        };
        let rows = match corpus.query {
            Some(query) => corpus.bound(&query.rows, least, context)?,
            None => None,
        };
        let Some(rows) = rows else {
            let pruned = Self::new(corpus, bound, least, Askers::Columns, context)?;
            return pruned.candidates_of(corpus, None, least, context).map(Some);
        };
        // Blocks that no row has match nothing.
        let here = bound.names.numbers(&rows.names)?;
        let mut asked = filled(false, bound.names.n_blocks())?;
        for &block in &here {
            if let Some(asked) = asked.get_mut(block as usize) {
                *asked = true;
            }
        }
        let pruned = Self::new(corpus, bound, least, Askers::Some(&asked), context)?;
        let rows = Some((rows.vectors, &here[..]));
        pruned.candidates_of(corpus, rows, least, context).map(Some)
    }

    fn new<X: Items>(
        corpus: &Corpus<'_, X>,
        Bound { vectors, names }: Bound,
        least: f64,
        askers: Askers<'_>,
        context: &Context,
    ) -> Result<Arc<Self>> {
        let zeros = zeros(corpus.columns(), &vectors)?;
        let threads = Threads::for_trees(context, corpus.columns().len());
        let n_blocks = names.n_blocks();
        let index = prune::Index::new(vectors, n_blocks, least, askers, &threads)?;
        Ok(Arc::new(Self { index, names, zeros }))
    }

    pub(super) fn nbytes(&self) -> usize {
        self.index.nbytes() + self.names.nbytes() + self.zeros.len() * 8
    }

    /// The candidates of a corpus's rows. `least` is that of the bound or above it.
    pub(super) fn candidates<X: Items>(
        self: Arc<Self>,
        corpus: &Corpus<'_, X>,
        least: f64,
        context: &Context,
    ) -> Result<Candidates> {
        let Some(query) = corpus.query else {
            return self.candidates_of(corpus, None, least, context);
        };
        let rows = corpus.bound(&query.rows, least, context)?;
        let here = rows.as_ref().map(|rows| self.names.numbers(&rows.names));
        let here = here.transpose()?.unwrap_or_default();
        let rows = rows.map(|rows| (rows.vectors, &here[..]));
        self.candidates_of(corpus, rows, least, context)
    }

    /// Those of rows with some vectors, whose blocks are called what is said here.
    fn candidates_of<X: Items>(
        self: Arc<Self>,
        corpus: &Corpus<'_, X>,
        rows: Option<(Vectors, &[u32])>,
        least: f64,
        context: &Context,
    ) -> Result<Candidates> {
        let Some((vectors, here)) = rows else {
            let zero_rows = collect(self.zeros.iter().copied())?;
            return Ok(Candidates { pruned: self, rows: None, zero_rows, least });
        };
        let zero_rows = zeros(corpus.rows(), &vectors)?;
        let threads = Threads::for_trees(context, corpus.rows().len());
        let rows = Some(self.index.asking(vectors, here, &threads)?);
        Ok(Candidates { pruned: self, rows, zero_rows, least })
    }
}

/// Places of items whose vectors have nothing.
fn zeros(items: &Distinct, vectors: &Vectors) -> Result<Vec<usize>> {
    let is_zero = |place: &usize| vectors.get(items.of[*place] as usize).is_empty();
    collect((0..items.of.len()).filter(is_zero))
}

impl Candidates {
    /// Places of rows and of columns that have no kernel with themselves.
    pub(super) fn zeros(&self) -> (&[usize], &[usize]) {
        (&self.zero_rows, &self.pruned.zeros)
    }

    pub(super) fn find(
        &self,
        x: usize,
        end: usize,
        scratch: &mut prune::Scratch,
        context: &Context,
    ) -> Result<Vec<(u32, f64)>> {
        let Self { pruned, rows, least, .. } = self;
        pruned.index.find(rows.as_ref(), x, (end, *least), scratch, context)
    }

    /// The columns that may be among so many nearest.
    pub(super) fn nearest<X: Items>(
        &self,
        corpus: &Corpus<'_, X>,
        x: usize,
        wanted: usize,
        scratch: &mut Scratch,
        context: &Context,
    ) -> Result<Vec<u32>> {
        let n = corpus.columns().len();
        let mut found = self.find(x, n, &mut scratch.pruned, context)?;
        found.retain(|&(tree, _)| corpus.may_answer(x, tree));
        // Those whose bounds are highest first, until the bound of the next is below the
        // last value wanted.
        found.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let (mut best, mut done) = (Offers::new(wanted, true), 0);
        while done < found.len() {
            let part = &found[done..found.len().min(2 * done + wanted + FEW_MORE)];
            let n_part = part.partition_point(|item| item.1 >= best.least());
            if n_part == 0 {
                break;
            }
            let trees = collect(part[..n_part].iter().map(|item| item.0))?;
            done += n_part;
            // Those of a short list are computed by the caller.
            if n_part == found.len() {
                return Ok(trees);
            }
            let wanted = corpus.involved(&[x as u32], std::slice::from_ref(&trees))?;
            let values = Values::new(corpus, Some(&wanted), context)?;
            let worker = &mut values.singles.worker();
            for tree in trees {
                let value = values.get(corpus, x, tree as usize, worker, context)?;
                if value >= best.least() {
                    best.push(Answer { tree, value })?;
                }
            }
            best.cut();
        }
        Ok(best.done()?.0)
    }

    /// Whether the bound helps: one that lets many pairs through does not, as rows take
    /// less for each.
    pub(super) fn are_few<X: Items>(
        &self,
        corpus: &Corpus<'_, X>,
        context: &Context,
    ) -> Result<bool> {
        let (mut scratch, mut n_found, mut n_pairs) = (Scratch::default(), 0, 0);
        let n_rows = corpus.rows().len();
        for x in (0..n_rows).step_by(n_rows.div_ceil(SAMPLE).max(1)) {
            context.check_now()?;
            let end = if corpus.is_self() { x } else { corpus.columns().len() };
            n_found += self.find(x, end, &mut scratch.pruned, context)?.len();
            n_pairs += end;
        }
        Ok(n_found * ONE_IN <= n_pairs || n_pairs <= ONE_IN * SAMPLE)
    }
}
