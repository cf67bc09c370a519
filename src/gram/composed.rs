//! Rows of kernels made of kernels: functions of the rows of their parts.
//!
//! Each distinct kernel of a [composition](crate::kernel::composed) has its own engine, and
//! so its own index. A row is one row of each, and then the composition's steps, some
//! hundred columns at a time. Its time is that of the parts' rows.
//!
//! Where floats do not do (a part overflows that is normalised, or multiplied by 0) the
//! value is that of a single pair, in numbers that do not overflow.
//!
//! # Complexity
//! Memory: that of the parts' engines, and for each thread a row of each.

use std::collections::HashMap;
use std::sync::Arc;

use super::matrix::scale;
use super::rows::{Asked, MakeSource};
use super::{Askable, Index, Options, prepare, self_kernels};
use crate::index::reader::NONE;
use crate::kernel::composed::{Plan, Step, float_power};
use crate::kernel::{Composed, Scaled, TreeCounts};
use crate::{Context, NodeId, Nodes, Result, memory};

/// Columns at a time: some steps of them stay in the first cache.
const WIDTH: usize = 256;

/// The engines of a composition's leaves.
pub(crate) struct Engine {
    kernel: Composed,
    plan: Plan,
    leaves: Vec<Box<dyn Asked>>,
    nodes: Arc<Nodes>,
    columns: Vec<NodeId>,
    rows: Vec<NodeId>,
    /// What trees' kernels with themselves are needed for: none for sums and products.
    norms: Option<Norms>,
}

/// Of columns and rows, by part and tree: 1 / √k(t,t) where it divides, k(t,t) where it is
/// part of a distance.
struct Norms {
    columns: Vec<Vec<f64>>,
    rows: Vec<Vec<f64>>,
    /// By row: the column that is the same tree, and the kernel with it.
    same: Vec<(u32, f64)>,
}

/// What one worker keeps from row to row.
#[derive(Default)]
pub(crate) struct Scratch {
    leaves: Vec<Vec<f64>>,
    stack: Vec<f64>,
}

impl Engine {
    /// Indexes different trees of one store for rows from `rows` (None: the lower triangle
    /// of the columns).
    pub(crate) fn new(
        kernel: &Composed,
        nodes: &Arc<Nodes>,
        columns: &[NodeId],
        rows: Option<&[NodeId]>,
        context: &Context,
    ) -> Result<Self> {
        let plan = Plan::new(kernel);
        let options = Options { normalize: false };
        let mut leaves = Vec::new();
        for leaf in &plan.leaves {
            let index = Index { kernel: &**leaf, nodes, columns, rows, options };
            leaves.push(index.run(MakeSource, context)?.0);
        }
        let (columns, rows) = (columns.to_vec(), rows.unwrap_or(columns).to_vec());
        let (kernel, nodes) = (kernel.clone(), Arc::clone(nodes));
        let mut new = Self { kernel, plan, leaves, nodes, columns, rows, norms: None };
        if new.plan.n_norms > 0 {
            new.norms = Some(new.norms(context)?);
        }
        Ok(new)
    }

    fn norms(&self, context: &Context) -> Result<Norms> {
        let (n, is_same) = (self.columns.len(), self.rows == self.columns);
        let others = if is_same { &[][..] } else { &self.rows };
        let trees = [&self.columns, others].concat();
        let mut leaves = Vec::new();
        for leaf in &self.plan.leaves {
            let singles = prepare(&**leaf, &self.nodes, &trees, context)?;
            leaves.push(self_kernels(&*singles, trees.len(), context)?);
        }
        let (mut stack, mut found, mut values) = (Vec::new(), Vec::new(), Vec::new());
        let mut norms = vec![Vec::with_capacity(trees.len()); self.plan.n_norms];
        let mut own = Vec::with_capacity(trees.len());
        for tree in 0..trees.len() {
            values.clear();
            values.extend(leaves.iter().map(|leaf| leaf[tree]));
            own.push(self.plan.own(&values, &mut stack, &mut found).value());
            for step in &self.plan.steps {
                match *step {
                    Step::Normalize(part) => norms[part].push(scale(found[part])),
                    Step::Gaussian(_, part) => norms[part].push(found[part].value()),
                    _ => {}
                }
            }
        }
        let number: HashMap<NodeId, u32> =
            self.columns.iter().copied().zip(0..).collect();
        let first_row = if is_same { 0 } else { n };
        let same = self.rows.iter().zip(&own[first_row..]);
        let same =
            same.map(|(root, &own)| (number.get(root).copied().unwrap_or(NONE), own));
        let same = same.collect();
        let rows = norms.iter().map(|of| of[first_row..].to_vec()).collect();
        for of in &mut norms {
            of.truncate(n);
        }
        Ok(Norms { columns: norms, rows, same })
    }

    /// Runs the steps for some columns, from `start` on, of which the leaves have values.
    fn run(&self, x: usize, start: usize, scratch: &mut Scratch, row: &mut [f64]) {
        let Scratch { leaves, stack } = scratch;
        let len = row.len();
        let mut top = 0; // the stack's height
        for &step in &self.plan.steps {
            if let Step::Leaf(leaf) = step {
                stack[top * WIDTH..][..len]
                    .copy_from_slice(&leaves[leaf][start..][..len]);
                top += 1;
                continue;
            }
            if let Step::Add | Step::Multiply = step {
                top -= 1;
                let (below, above) = stack.split_at_mut(top * WIDTH);
                let both = below[(top - 1) * WIDTH..].iter_mut().zip(&above[..len]);
                if step == Step::Add {
                    both.for_each(|(a, b)| *a += b);
                } else {
                    both.for_each(|(a, b)| *a *= b);
                }
                continue;
            }
            let values = &mut stack[(top - 1) * WIDTH..][..len];
            let of = |part: usize| {
                let norms = self.norms.as_ref();
                norms.map(|n| (n.rows[part][x], &n.columns[part][start..][..len]))
            };
            match step {
                Step::Scale(factor) => each(values, |value| value * factor),
                Step::Plus(constant) => each(values, |value| value + constant),
                Step::Power(degree) => each(values, |value| float_power(value, degree)),
                Step::Normalize(part) => {
                    let Some((own, others)) = of(part) else { continue };
                    for (value, other) in values.iter_mut().zip(others) {
                        let norm = own * other;
                        // Of NaN no minimum is taken: it says that floats do not do.
                        let cosine = *value * norm;
                        *value = if cosine > 1.0 { 1.0 } else { cosine };
                    }
                }
                Step::Gaussian(gamma, part) => {
                    let Some((own, others)) = of(part) else { continue };
                    for (value, other) in values.iter_mut().zip(others) {
                        let square = own + other - 2.0 * *value;
                        let square = if square < 0.0 { 0.0 } else { square };
                        *value = (-gamma * square).exp();
                    }
                }
                Step::Leaf(_) | Step::Add | Step::Multiply => {}
            }
        }
        row.copy_from_slice(&stack[..len]);
    }

    /// One value, in numbers that do not overflow.
    fn single(&self, x: usize, column: usize, context: &Context) -> Result<Scaled> {
        let mut nodes = Nodes::default();
        let column = nodes.absorb_one(&self.nodes, self.columns[column], context)?;
        let row = nodes.absorb_one(&self.nodes, self.rows[x], context)?;
        let singles = prepare(&self.kernel, &Arc::new(nodes), &[row, column], context)?;
        singles.worker()(0, 1, context)
    }
}

#[inline]
fn each(values: &mut [f64], of: impl Fn(f64) -> f64) {
    for value in values {
        *value = of(*value);
    }
}

impl super::Engine for Engine {
    type Scratch = Scratch;

    fn scratch(&self) -> Result<Scratch> {
        Ok(Scratch {
            leaves: vec![Vec::new(); self.leaves.len()],
            stack: vec![0.0; self.plan.depth * WIDTH],
        })
    }

    fn row(
        &self,
        x: usize,
        scratch: &mut Scratch,
        row: &mut [f64],
        context: &Context,
    ) -> Result<()> {
        // 1. The rows of the parts.
        for (leaf, values) in self.leaves.iter().zip(&mut scratch.leaves) {
            values.clear();
            memory::reach(values, row.len(), 0.0)?;
            leaf.row(x, values, context)?;
        }
        // 2. Compose them.
        for (number, part) in row.chunks_mut(WIDTH).enumerate() {
            self.run(x, number * WIDTH, scratch, part);
        }
        // 3. What floats do not hold.
        for (column, value) in row.iter_mut().enumerate() {
            if !value.is_finite() {
                *value = self.single(x, column, context)?.value();
            }
        }
        // 4. A tree with itself is exactly what its self-kernel says.
        if let Some(&(column, own)) = self.norms.as_ref().map(|norms| &norms.same[x])
            && let Some(value) = row.get_mut(column as usize)
        {
            *value = own;
        }
        Ok(())
    }
}

impl Askable for Engine {
    type Rows = ();

    fn read(&self, _: &Nodes, _: &Arc<Nodes>, _: &TreeCounts) -> Result<Option<()>> {
        Ok(None)
    }

    fn row_of(
        &self,
        (): &(),
        x: usize,
        scratch: &mut Scratch,
        row: &mut [f64],
        context: &Context,
    ) -> Result<()> {
        super::Engine::row(self, x, scratch, row, context)
    }

    fn nbytes(&self) -> usize {
        let norms = self.norms.as_ref().map_or(0, |norms| {
            let lists = norms.columns.iter().chain(&norms.rows);
            lists.map(|of| of.len() * 8).sum::<usize>() + norms.same.len() * 16
        });
        let leaves = self.leaves.iter().map(|leaf| leaf.nbytes()).sum::<usize>();
        leaves + norms + (self.columns.len() + self.rows.len()) * size_of::<NodeId>()
    }
}
