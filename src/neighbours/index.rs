//! Trees that are indexed once and asked often.

use std::borrow::Cow;
use std::sync::Arc;

use super::{
    Corpus, Finder, Nearest, Pruned, Rows, Sink, check_least, join, join_by, places,
    top_k, top_k_by,
};
use crate::gram::{self, Element, Options, Question, Report};
use crate::ragged::Ragged;
use crate::threads::Kept;
use crate::{Context, Forest, Kernel, Result};

/// What matrices, joins and nearest trees need of some trees, built once.
///
/// Its answers are those of [`gram::fill`], [`join`](super::join()) and
/// [`top_k`](super::top_k()) with these trees as Y (as X, where there are no others), bit
/// for bit: so what is built is built anew by the first question after [`add`](Self::add).
///
/// Where a kernel has no index, where labels match by similarity, and where a partial tree
/// kernel meets a label with other kinds of children than before, an answer is computed
/// without it.
///
/// # Complexity
/// A question takes time by its trees and their rows, not by what was built.
#[derive(Clone)]
pub struct Index {
    kernel: Arc<dyn Kernel>,
    normalize: bool,
    forest: Forest,
    built: Kept<Built>,
}

struct Built {
    gram: gram::Kept,
    places: Arc<Ragged<u32>>,
    /// What the last join of the trees among each other had, and its threshold.
    pruned: Kept<(f64, Option<Arc<Pruned>>)>,
}

impl Index {
    /// An index of the trees of a forest; it is built when it is asked first.
    ///
    /// # Errors
    /// [`Error::Parameter`](crate::Error::Parameter) for a kernel out of range.
    pub fn new(
        kernel: Arc<dyn Kernel>,
        forest: Forest,
        normalize: bool,
    ) -> Result<Self> {
        kernel.check()?;
        Ok(Self { kernel, normalize, forest, built: Kept::default() })
    }

    /// The trees.
    pub fn forest(&self) -> &Forest {
        &self.forest
    }

    /// Adds trees behind the others.
    ///
    /// # Errors
    /// As [`Forest::concat`], and what `context` returns: with nothing changed.
    pub fn add(&mut self, forest: &Forest, context: &Context) -> Result<()> {
        self.forest = Forest::try_concat_all([&self.forest, forest], context)?;
        self.built = Kept::default();
        Ok(())
    }

    /// About how many bytes are held: the trees, and what has been built.
    pub fn nbytes(&self) -> usize {
        let built = self.built.get().map_or(0, |built| {
            let pruned = built.pruned.get();
            let pruned = pruned.and_then(|kept| Some(kept.1.as_ref()?.0.nbytes()));
            built.gram.nbytes() + built.places.nbytes() + pruned.unwrap_or(0)
        });
        self.forest.nodes().nbytes() + self.forest.len() * 4 + built
    }

    /// Builds what is not there yet.
    ///
    /// # Errors
    /// [`Error::Capacity`](crate::Error::Capacity),
    /// [`Error::Memory`](crate::Error::Memory), and what `context` returns.
    pub fn build(&self, context: &Context) -> Result<()> {
        self.built(context).map(drop)
    }

    fn options(&self) -> Options {
        Options { normalize: self.normalize }
    }

    fn built(&self, context: &Context) -> Result<Arc<Built>> {
        if let Some(built) = self.built.get() {
            return Ok(built);
        }
        let options = self.options();
        let gram = gram::Kept::new(&self.kernel, &self.forest, options, context)?;
        let places = Arc::new(places(&gram.columns)?);
        Ok(self.built.put(Built { gram, places, pruned: Kept::default() }))
    }

    /// The kernels of trees with all indexed ones: as [`gram::fill`].
    ///
    /// # Errors
    /// As [`gram::fill`].
    pub fn fill<T: Element>(
        &self,
        x: &Forest,
        out: &mut [T],
        context: &Context,
    ) -> Result<Report> {
        let len = x.len() * self.forest.len();
        if len > 0 && out.len() == len {
            context.advance(0, x.len())?;
            let built = self.built(context)?;
            if let Some(report) = built.gram.fill(x, out, context)? {
                return Ok(report);
            }
        }
        let (y, options) = (Some(&self.forest), self.options());
        gram::fill(&*self.kernel, x, y, options, out, context)
    }

    /// The nearest of the indexed trees: as [`top_k`](super::top_k()).
    ///
    /// # Errors
    /// As [`top_k`](super::top_k()).
    pub fn top_k(
        &self,
        x: Option<&Forest>,
        k: usize,
        context: &Context,
    ) -> Result<(Nearest, Report)> {
        context.advance(0, x.unwrap_or(&self.forest).len())?;
        let built = self.built(context)?;
        let Some(x) = x else {
            let corpus = self.corpus(&built);
            return top_k_by(&corpus, &built.rows(f64::NEG_INFINITY), k, context);
        };
        let Some(asked) = built.gram.ask(x, context)? else {
            let (kernel, options) = (&*self.kernel, self.options());
            return top_k(kernel, x, Some(&self.forest), k, options, context);
        };
        let (corpus, finder) = self.asked(&built, asked, f64::NEG_INFINITY)?;
        top_k_by(&corpus, &finder, k, context)
    }

    /// All pairs with indexed trees of at least so much: as [`join`](super::join()).
    ///
    /// # Errors
    /// As [`join`](super::join()).
    pub fn join(
        &self,
        x: Option<&Forest>,
        least: f64,
        sink: &mut Sink<'_>,
        context: &Context,
    ) -> Result<Report> {
        check_least(least)?;
        context.advance(0, x.unwrap_or(&self.forest).len())?;
        let built = self.built(context)?;
        let Some(x) = x else {
            let corpus = self.corpus(&built);
            let kept = match built.pruned.get().filter(|kept| kept.0 == least) {
                Some(kept) => kept,
                None => built.pruned.put((least, corpus.pruned(least, context)?)),
            };
            let finder = match &kept.1 {
                Some(pruned) => Finder::Pruned(Arc::clone(pruned)),
                None => built.rows(least),
            };
            return join_by(&corpus, &finder, least, sink, context);
        };
        let Some(asked) = built.gram.ask(x, context)? else {
            let (kernel, options) = (&*self.kernel, self.options());
            return join(kernel, x, Some(&self.forest), least, options, sink, context);
        };
        let (corpus, finder) = self.asked(&built, asked, least)?;
        join_by(&corpus, &finder, least, sink, context)
    }

    /// The trees among each other.
    fn corpus(&self, built: &Built) -> Corpus<'_> {
        Corpus {
            kernel: &*self.kernel,
            options: self.options(),
            nodes: Arc::clone(self.forest.nodes()),
            row_nodes: None,
            columns: Arc::clone(&built.gram.columns),
            rows: None,
            first_row: 0,
            same: (0..built.gram.columns.len() as u32).collect(),
            column_places: Arc::clone(&built.places),
            row_places: Ragged::default(),
        }
    }

    /// The trees, and others that ask.
    fn asked<'a>(
        &'a self,
        built: &'a Built,
        asked: Question<'a>,
        least: f64,
    ) -> Result<(Corpus<'a>, Finder<'a>)> {
        let Question { nodes, rows, source, scales, same, .. } = asked;
        let corpus = Corpus {
            row_nodes: Some(nodes),
            first_row: built.gram.columns.len(),
            same,
            row_places: places(&rows)?,
            rows: Some(rows),
            ..self.corpus(built)
        };
        let scales = [Cow::Borrowed(&*built.gram.scales), Cow::Owned(scales)];
        Ok((corpus, Finder::Rows(Rows { source, scales, values: None, least })))
    }
}

impl Built {
    fn rows(&self, least: f64) -> Finder<'_> {
        let scales = [(); 2].map(|()| Cow::Borrowed(&*self.gram.scales));
        let source = Box::new(&*self.gram.source);
        Finder::Rows(Rows { source, scales, values: None, least })
    }
}
