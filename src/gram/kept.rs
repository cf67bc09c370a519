//! An engine that is kept, and asked by trees that it was not made with.
//!
//! Trees that ask have a store of their own. What the columns' store calls their labels,
//! productions and subtrees is looked up, so a question takes time by its trees and the
//! row, not by the index. Sums are in the order of walks, not of ids: a row has the bits
//! that it has in a matrix made at once.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use super::matrix::{Distinct, Element, Finish, Matrix, scale};
use super::rows::{Asked, MakeSource, Source};
use super::{Engine, Index, Options, Report, norms, prepare};
use crate::dag::compact;
use crate::index::id_map::{IdMap, Wanted};
use crate::index::reader::NONE;
use crate::kernel::{Prepared, Scaled, TreeCounts, Worker};
use crate::threads::Threads;
use crate::{Context, Forest, Kernel, NodeId, Nodes, Result};

/// An engine of some different trees, and their kernels with themselves.
pub(crate) struct Kept {
    kernel: Arc<dyn Kernel>,
    normalize: bool,
    nodes: Arc<Nodes>,
    pub(crate) columns: Arc<Distinct>,
    number: HashMap<NodeId, u32>,
    pub(crate) source: Box<dyn Asked>,
    /// Where values are normalised, by column: K(t,t), and 1 / sqrt(K(t,t)).
    selfs: Vec<Scaled>,
    pub(crate) scales: Vec<f64>,
}

/// Trees that ask.
pub(crate) struct Question<'a> {
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) rows: Distinct,
    pub(crate) source: Box<dyn Source + 'a>,
    selfs: Vec<Scaled>,
    pub(crate) scales: Vec<f64>,
    /// Per row the column that is the same tree, or [`NONE`].
    pub(crate) same: Vec<u32>,
}

impl Kept {
    pub(crate) fn new(
        kernel: &Arc<dyn Kernel>,
        forest: &Forest,
        options: Options,
        context: &Context,
    ) -> Result<Self> {
        kernel.check()?;
        let (columns, nodes) = (Distinct::new(forest.roots()), forest.nodes());
        // Rows that are the columns would be indexed for the lower triangle only.
        let (roots, rows) = (&*columns.roots, Some(&*columns.roots));
        let index = Index { kernel: &**kernel, nodes, columns: roots, rows, options };
        let (source, singles) = index.run(MakeSource, context)?;
        let selfs = match singles {
            Some(of) => {
                let place = |t: usize| (columns.first[t] as usize, "Y");
                norms(&*of, columns.len(), place, context)?
            }
            None => Vec::new(),
        };
        Ok(Self {
            kernel: Arc::clone(kernel),
            normalize: options.normalize,
            nodes: Arc::clone(nodes),
            number: columns.roots.iter().copied().zip(0..).collect(),
            columns: Arc::new(columns),
            source,
            scales: selfs.iter().map(|&value| scale(value)).collect(),
            selfs,
        })
    }

    pub(crate) fn nbytes(&self) -> usize {
        let per_tree = size_of::<Scaled>() + 8 + size_of::<(NodeId, u32)>() + 16;
        self.source.nbytes() + self.columns.len() * per_tree
    }

    /// Looks up trees. None: an index of these and the columns has to be made.
    pub(crate) fn ask(
        &self,
        x: &Forest,
        context: &Context,
    ) -> Result<Option<Question<'_>>> {
        let x = match compact(x, context)? {
            Cow::Borrowed(x) => x.clone(),
            Cow::Owned(x) => x,
        };
        let (nodes, rows) = (Arc::clone(x.nodes()), Distinct::new(x.roots()));
        let n = rows.len();
        let threads = Threads::for_trees(context, n);
        let trees = TreeCounts::by(true, &nodes, &rows.roots, &threads)?;
        let Some(source) = self.source.ask(&self.nodes, &nodes, &trees)? else {
            return Ok(None);
        };
        let mut selfs = Vec::new();
        if self.normalize {
            let singles = prepare(&*self.kernel, &nodes, &rows.roots, context)?;
            let place = |t: usize| (rows.first[t] as usize, "X");
            selfs = norms(&*singles, n, place, context)?;
        }
        let twins = IdMap::new(&nodes, &self.nodes, Wanted::Nodes, |_| None)?.nodes;
        let number = |root: &NodeId| self.number.get(&NodeId(twins[root.index()]));
        let same = rows.roots.iter().map(|root| number(root).copied().unwrap_or(NONE));
        Ok(Some(Question {
            same: same.collect(),
            nodes,
            rows,
            source,
            scales: selfs.iter().map(|&value| scale(value)).collect(),
            selfs,
        }))
    }

    /// The matrix of some trees with the columns; None as [`ask`](Self::ask).
    pub(crate) fn fill<T: Element>(
        &self,
        x: &Forest,
        out: &mut [T],
        context: &Context,
    ) -> Result<Option<Report>> {
        let Some(asked) = self.ask(x, context)? else { return Ok(None) };
        let Question { rows, .. } = &asked;
        let apart = Apart { kept: self, asked: &asked };
        let finish = Finish {
            row_scale: &asked.scales,
            column_scale: &self.scales,
            row_self: &asked.selfs,
            column_self: &self.selfs,
            first_row: 0,
            singles: self.normalize.then_some(&apart as &dyn Prepared),
            same: &asked.same,
            largest: T::LARGEST,
            gaps: false,
            most: 1.0,
        };
        let matrix = Matrix { out, columns: &self.columns, rows: Some(rows) };
        matrix.fill_as(&BySource(&*asked.source), &finish, context).map(Some)
    }
}

/// Rows of an engine that has its own scratches.
struct BySource<'a>(&'a dyn Source);

impl Engine for BySource<'_> {
    type Scratch = ();

    fn scratch(&self) -> Result<()> {
        Ok(())
    }

    fn row(
        &self,
        x: usize,
        (): &mut (),
        row: &mut [f64],
        context: &Context,
    ) -> Result<()> {
        self.0.row(x, row, context)
    }
}

/// Single pairs of a row and a column, each made ready when it is asked for: few are too
/// large for floats.
struct Apart<'a> {
    kept: &'a Kept,
    asked: &'a Question<'a>,
}

impl Prepared for Apart<'_> {
    fn worker(&self) -> Worker<'_> {
        let Self { kept, asked } = *self;
        Box::new(move |x, t, context| {
            let mut nodes = Nodes::default();
            let column =
                nodes.absorb_one(&kept.nodes, kept.columns.roots[t], context)?;
            let row = nodes.absorb_one(&asked.nodes, asked.rows.roots[x], context)?;
            let roots = [row, column];
            let singles = prepare(&*kept.kernel, &Arc::new(nodes), &roots, context)?;
            singles.worker()(0, 1, context)
        })
    }
}
