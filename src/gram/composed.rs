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

use super::measure::Numbers;
use super::normalize::{scale, scale_row};
use super::{Measure, QueryEngine, RowSource, RowWorker, RowsOf, engine, gathered};
use crate::kernel::composed::{Plan, Step, float_power};
use crate::kernel::{Composed, Kernel as _, Scaled};
use crate::{Context, Forest, Result, memory};

/// Columns at a time: some steps of them stay in the first cache.
const WIDTH: usize = 256;

/// The engines of a composition's leaves.
pub(crate) struct Engine {
    kernel: Composed,
    plan: Plan,
    leaves: Vec<Box<dyn QueryEngine<Forest>>>,
    /// Where there are norms: the columns by their roots.
    numbers: Option<Numbers<Forest>>,
    columns: Rows,
}

/// Trees that are compared with the columns, or these themselves.
struct Rows {
    trees: Forest,
    /// By part and tree: 1 / √k(t,t) where it divides, k(t,t) where it is part of a
    /// distance. Nothing for sums and products.
    norms: Vec<Vec<f64>>,
    /// Where there are norms: the column that is the same tree, and the kernel with it.
    same: Vec<(u32, f64)>,
}

/// Rows of trees that ask.
struct Query<'a> {
    engine: &'a Engine,
    leaves: Vec<Box<dyn RowSource + 'a>>,
    rows: Rows,
}

/// What one worker keeps from row to row.
struct Scratch<'a> {
    workers: Vec<RowWorker<'a>>,
    leaves: Vec<Vec<f64>>,
    stack: Vec<f64>,
}

/// What self-kernels say: the norms by part and tree, and the composition's by tree.
type SelfKernels = (Vec<Vec<f64>>, Vec<f64>);

impl Engine {
    /// Indexes different trees.
    pub(crate) fn new(
        kernel: &Composed,
        trees: &Forest,
        rows_of: RowsOf,
        context: &Context,
    ) -> Result<Self> {
        let plan = Plan::new(kernel);
        let leaves = memory::try_collect(plan.leaves.iter().map(|leaf| {
            engine(&**leaf, trees, rows_of, false, context).map(|(engine, _)| engine)
        }))?;
        let (norms, selfs) = self_kernels(&plan, trees, context)?;
        let same = memory::collect((0..).zip(selfs))?;
        let columns = Rows { trees: trees.copied()?, norms, same };
        let numbers = (plan.n_norms > 0).then(|| Numbers::new(trees)).transpose()?;
        Ok(Self { kernel: kernel.clone(), plan, leaves, numbers, columns })
    }

    /// Workers and lists for rows.
    fn scratch<'a>(
        &self,
        leaves: impl Iterator<Item = Result<RowWorker<'a>>>,
    ) -> Result<Scratch<'a>> {
        Ok(Scratch {
            workers: memory::try_collect(leaves)?,
            leaves: memory::filled_with(self.leaves.len(), Vec::new)?,
            stack: memory::filled(0.0, self.plan.depth * WIDTH)?,
        })
    }

    fn row(
        &self,
        (rows, x): (&Rows, usize),
        scratch: &mut Scratch<'_>,
        row: &mut [f64],
        context: &Context,
    ) -> Result<Vec<u32>> {
        // 1. The rows of the parts.
        let mut given_up = Vec::new();
        for (leaf, values) in scratch.workers.iter_mut().zip(&mut scratch.leaves) {
            values.clear();
            memory::reach(values, row.len(), 0.0)?;
            memory::extend(&mut given_up, leaf(x, values, context)?)?;
        }
        given_up.sort_unstable();
        given_up.dedup();
        // 2. Compose them.
        for (number, part) in row.chunks_mut(WIDTH).enumerate() {
            self.run((rows, x), number * WIDTH, scratch, part);
        }
        // 3. What floats do not hold.
        for (column, value) in row.iter_mut().enumerate() {
            if !value.is_finite() && given_up.binary_search(&(column as u32)).is_err() {
                *value = self.single((rows, x), column, context)?.value();
            }
        }
        // 4. A tree with itself is exactly what its self-kernel says.
        if let Some(&(column, self_kernel)) = rows.same.get(x)
            && let Some(value) = row.get_mut(column as usize)
        {
            *value = self_kernel;
        }
        Ok(given_up)
    }

    /// Runs the steps for some columns, from `start` on, of which the leaves have values.
    fn run(
        &self,
        (rows, x): (&Rows, usize),
        start: usize,
        scratch: &mut Scratch<'_>,
        row: &mut [f64],
    ) {
        let Scratch { leaves, stack, .. } = scratch;
        let len = row.len();
        // Each value on the stack is a row of `WIDTH` numbers.
        let mut top = 0; // the stack's height
        for &step in &self.plan.steps {
            if let Step::Leaf(leaf) = step {
                stack[top * WIDTH..][..len]
                    .copy_from_slice(&leaves[leaf][start..][..len]);
                top += 1;
                continue;
            }
            // Two operands: the upper one is added to the lower.
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
            // One operand, which is replaced.
            let values = &mut stack[(top - 1) * WIDTH..][..len];
            let norms = |part: usize| {
                (rows.norms[part][x], &self.columns.norms[part][start..][..len])
            };
            match step {
                Step::Scale(factor) => map_in_place(values, |value| value * factor),
                Step::Plus(constant) => map_in_place(values, |value| value + constant),
                Step::Power(degree) => {
                    map_in_place(values, |value| float_power(value, degree));
                }
                Step::Normalize(part) => {
                    let (norm, others) = norms(part);
                    // What floats do not hold becomes NaN.
                    scale_row(values, norm, others, 1.0);
                }
                Step::Gaussian(gamma, part) => {
                    let (norm, others) = norms(part);
                    for (value, other) in values.iter_mut().zip(others) {
                        let square = norm + other - 2.0 * *value;
                        // Rounding may take the square of a distance below 0. (NaN
                        // stays NaN.)
                        let square = if square < 0.0 { 0.0 } else { square };
                        *value = (-gamma * square).exp();
                    }
                }
                Step::Leaf(_) | Step::Add | Step::Multiply => {}
            }
        }
        // The last step leaves one value, at the bottom.
        row.copy_from_slice(&stack[..len]);
    }

    /// One value, in numbers that do not overflow.
    fn single(
        &self,
        (rows, x): (&Rows, usize),
        column: usize,
        context: &Context,
    ) -> Result<Scaled> {
        // Both trees in a store of their own, as all leaves read it.
        let parts = [(&rows.trees, &[x][..]), (&self.columns.trees, &[column])];
        let trees = gathered(parts, context)?;
        let singles = self.kernel.pairs(trees.nodes(), trees.roots(), context)?;
        singles.worker()(0, 1, context)
    }
}

/// Asks the leaves for the kernels of trees with themselves; nothing where the plan needs
/// none.
fn self_kernels(plan: &Plan, trees: &Forest, context: &Context) -> Result<SelfKernels> {
    let n = trees.len();
    if plan.n_norms == 0 {
        return Ok((Vec::new(), Vec::new()));
    }
    // Values with a wide exponent: a float may not hold what divides.
    let leaves = memory::try_collect(plan.leaves.iter().map(|leaf| {
        let singles = leaf.pairs(trees.nodes(), trees.roots(), context)?;
        Ok(super::self_kernels(&*singles, n, context)?.0)
    }))?;
    let norms = (0..plan.n_norms).map(|_| memory::filled(0.0, n));
    let (mut norms, mut selfs) = (memory::try_collect(norms)?, memory::filled(0.0, n)?);
    let (mut stack, mut found, mut values) = (Vec::new(), Vec::new(), Vec::new());
    for (tree, self_kernel) in selfs.iter_mut().enumerate() {
        values.clear();
        memory::extend(&mut values, leaves.iter().map(|leaf| leaf[tree]))?;
        *self_kernel = plan.self_value(&values, &mut stack, &mut found).value();
        for step in &plan.steps {
            match *step {
                Step::Normalize(part) => norms[part][tree] = scale(found[part]),
                Step::Gaussian(_, part) => norms[part][tree] = found[part].value(),
                _ => {}
            }
        }
    }
    Ok((norms, selfs))
}

#[inline]
fn map_in_place(values: &mut [f64], f: impl Fn(f64) -> f64) {
    for value in values {
        *value = f(*value);
    }
}

impl RowSource for Engine {
    fn worker(&self) -> Result<RowWorker<'_>> {
        let mut scratch = self.scratch(self.leaves.iter().map(|leaf| leaf.worker()))?;
        Ok(Box::new(move |x, row, context| {
            self.row((&self.columns, x), &mut scratch, row, context)
        }))
    }
}

impl RowSource for Query<'_> {
    fn worker(&self) -> Result<RowWorker<'_>> {
        let leaves = self.leaves.iter().map(|leaf| leaf.worker());
        let mut scratch = self.engine.scratch(leaves)?;
        Ok(Box::new(move |x, row, context| {
            self.engine.row((&self.rows, x), &mut scratch, row, context)
        }))
    }
}

impl QueryEngine<Forest> for Engine {
    fn query<'a>(
        &'a self,
        _: &dyn Measure<Forest>,
        columns: &Forest,
        rows: &Forest,
        context: &Context,
    ) -> Result<Box<dyn RowSource + 'a>> {
        let leaves = self.plan.leaves.iter().zip(&self.leaves);
        let leaves = memory::try_collect(
            leaves.map(|(kernel, leaf)| leaf.query(&**kernel, columns, rows, context)),
        )?;
        let (norms, selfs) = self_kernels(&self.plan, rows, context)?;
        let same = match &self.numbers {
            Some(numbers) => {
                memory::collect(numbers.find(columns, rows)?.into_iter().zip(selfs))?
            }
            None => Vec::new(),
        };
        let rows = Rows { trees: rows.copied()?, norms, same };
        Ok(Box::new(Query { engine: self, leaves, rows }))
    }

    fn nbytes(&self) -> usize {
        let Rows { trees, norms, .. } = &self.columns;
        let leaves = self.leaves.iter().map(|leaf| leaf.nbytes()).sum::<usize>();
        leaves + (norms.len() + 3) * trees.len() * 8
    }
}
