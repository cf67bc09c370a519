//! Derivatives of kernel matrices by the parameters of the kernel.
//!
//! Every kernel is a sum of products of its parameters, and single pairs are evaluated in
//! any [`Number`](crate::kernel::Number). In [dual numbers](crate::kernel::Dual) the same
//! evaluation gives the derivatives too, exactly but for rounding: nothing is approximated by
//! differences. A normalised kernel k = K / sqrt(A B), with A = K(a,a) and B = K(b,b), has
//!
//! ```text
//! dk = dK / sqrt(A B)  -  k/2 (dA / A + dB / B)
//! ```
//!
//! so that dk(a,a) is 0. Where A or B is 0, k is 0 whatever the parameters, and so is dk.
//!
//! ```
//! use treekernel_rs::{Forest, gram, kernel::SubsetTree};
//!
//! // K(0,1) = 1 λ + λ (1 + λ): by λ, 2 + 2 λ. And both have the leaf a.
//! let forest = Forest::from_brackets("(S (A a) (B b)) (S (A a) (B c))")?;
//! let kernel = SubsetTree::new(0.5);
//! let mut slopes = vec![0.0; 2 * 4];
//! gram::gradient(&kernel, &forest, None, gram::Options::default(), &mut slopes)?;
//! assert_eq!(gram::parameter_names(&kernel), ["decay", "leaf_weight"]);
//! assert_eq!((slopes[1], slopes[4 + 1]), (3.0, 1.0));
//! # Ok::<(), treekernel_rs::Error>(())
//! ```
//!
//! # Complexity
//! Pair by pair, some four times what a kernel of a single pair takes. Equal trees are
//! computed once, and of a symmetric matrix one half.

use std::sync::{Arc, Mutex};

use super::trained::Different;
use super::{Options, Report};
use crate::kernel::{self, Composed, Scaled, Sloped, SlopesWorker, Value};
use crate::threads::{Tasks, Threads};
use crate::{Context, Error, Forest, Kernel, Result, memory};

/// The real parameters of a kernel, which it has derivatives by, in order. Those of parts of
/// a composition follow its own, as `left__decay` and so on.
pub fn parameter_names(kernel: &dyn Kernel) -> Vec<String> {
    let parameters = kernel.parameters().into_iter();
    let numbers =
        parameters.filter(|parameter| matches!(parameter.value, Value::Number(_)));
    let numbers = numbers.map(|parameter| parameter.name.to_owned());
    let mut names: Vec<String> = numbers.collect(); // bounded: a kernel's parameters
    for (prefix, part) in kernel.composed().iter().flat_map(|of| of.named_parts()) {
        for name in parameter_names(&**part) {
            names.push(format!("{prefix}{name}")); // bounded: a kernel's parameters
        }
    }
    names
}

/// The derivatives of [`gram`](super::gram()) by every real parameter: into `out`, one matrix
/// after another, each row after row.
///
/// # Errors
/// As [`fill`](super::fill()); [`Error::Unsupported`] for a kernel that does not know its
/// derivatives, [`Error::Parameter`] for parameters where there is none.
pub fn gradient(
    kernel: &dyn Kernel,
    x: &Forest,
    y: Option<&Forest>,
    options: Options,
    out: &mut [f64],
) -> Result<Report> {
    gradient_with(kernel, x, y, options, out, &Context::default())
}

/// As [`gradient`](gradient()), in a context.
///
/// # Errors
/// As [`gradient`](gradient()), and what `context` returns.
pub fn gradient_with(
    kernel: &dyn Kernel,
    x: &Forest,
    y: Option<&Forest>,
    options: Options,
    out: &mut [f64],
    context: &Context,
) -> Result<Report> {
    kernel.check()?;
    let n_slopes = parameter_names(kernel).len();
    let shape = (x.len(), y.unwrap_or(x).len());
    let size = shape.0 * shape.1;
    if out.len() != n_slopes * size {
        let expected =
            format!("{}, parameters times rows times columns", n_slopes * size);
        return Err(Error::Length { array: "out", expected, got: out.len() });
    }
    // 1. Trees of one store, each once: those of the columns, and those of the rows.
    context.advance(0, x.len())?;
    let columns = y.unwrap_or(x);
    let both = Forest::try_concat_all([columns, x], context)?;
    let Different { items: trees, places } = Different::new(&both)?;
    let (columns, rows) = places.of.split_at(columns.len());
    let Some(pairs) = kernel.sloped(trees.nodes(), trees.roots(), context)? else {
        return Err(unsupported(kernel));
    };
    let matrix = Gradient { pairs: &*pairs, n_slopes, columns, rows, options };
    // 2. Self-kernels.
    let (selfs, self_slopes) = if options.normalize {
        matrix.selfs(trees.len(), context)?
    } else {
        Default::default()
    };
    // 3. One row for each tree that is a row's.
    matrix.fill(y.is_none(), &selfs, &self_slopes, out, context)?;
    let zeros = |trees: &[u32]| {
        let is_zero =
            |tree: u32| selfs.get(tree as usize).is_some_and(|own| own.is_zero());
        memory::collect((0..trees.len()).filter(|&at| is_zero(trees[at])))
    };
    let (zero_rows, zero_columns) = (zeros(rows)?, zeros(columns)?);
    Ok(Report { zero_rows, zero_columns, ..Report::default() })
}

/// That a kernel has no derivatives, and which have.
fn unsupported(kernel: &dyn Kernel) -> Error {
    // Asked of no trees, which costs nothing.
    let has = |kernel: &Arc<dyn Kernel>| {
        let pairs = kernel.sloped(&Arc::default(), &[], &Context::default());
        matches!(pairs, Ok(Some(_)))
    };
    let can =
        kernel::builtin_kernels().into_iter().filter(has).map(|kernel| kernel.name());
    let can = can.collect(); // bounded: the kernels that there are
    // Of a composition the part that has none.
    let without =
        |of: &Composed| of.parts().iter().find(|part| !has(part)).map(Arc::clone);
    let mut part = kernel.composed().and_then(without);
    while let Some(next) = part.as_ref().and_then(|of| of.composed().and_then(without))
    {
        part = Some(next);
    }
    let kernel = part.as_ref().map_or(kernel, |part| &**part);
    Error::Unsupported { kernel: kernel.name(), what: "derivatives", can }
}

/// Self-kernels of all trees, and their derivatives, tree after tree.
type Selfs = (Vec<Scaled>, Vec<Scaled>);

struct Gradient<'a> {
    pairs: &'a dyn Sloped,
    n_slopes: usize,
    /// By column, and by row: the tree.
    columns: &'a [u32],
    rows: &'a [u32],
    options: Options,
}

impl Gradient<'_> {
    fn selfs(&self, n: usize, context: &Context) -> Result<Selfs> {
        const PER_TASK: usize = 16;
        let zero = Scaled::from_f64(0.0);
        let mut selfs = memory::filled(zero, n)?;
        let mut slopes = memory::filled(zero, n * self.n_slopes)?;
        let slopes_of = slopes.chunks_mut(PER_TASK * self.n_slopes);
        let parts = selfs.chunks_mut(PER_TASK).zip(slopes_of);
        let parts = memory::collect(parts.map(Mutex::new))?;
        self.run(&Tasks::untold(parts.len()), context, |part, kernel_of, context| {
            let Ok(mut part_of) = parts[part].lock() else { return Ok(()) };
            // Of one task, so the lock is free.
            let (selfs, slopes) = &mut *part_of;
            let places = slopes.chunks_mut(self.n_slopes);
            for ((at, self_kernel), slopes) in
                (PER_TASK * part..).zip(selfs.iter_mut()).zip(places)
            {
                *self_kernel = kernel_of(at, at, slopes, context)?;
                context.check_now()?;
            }
            Ok(())
        })?;
        drop(parts);
        Ok((selfs, slopes))
    }

    fn run(
        &self,
        tasks: &Tasks,
        context: &Context,
        task: impl Fn(usize, &mut SlopesWorker<'_>, &Context) -> Result<()> + Sync,
    ) -> Result<()> {
        let threads = Threads::new(context, tasks.len());
        let mut workers = memory::filled_with(threads.size(), || self.pairs.worker())?;
        threads.run(tasks, &mut workers, task)
    }

    /// Computes the rows of different trees, each with the columns of different trees, and
    /// copies what is equal.
    fn fill(
        &self,
        symmetric: bool,
        selfs: &[Scaled],
        self_slopes: &[Scaled],
        out: &mut [f64],
        context: &Context,
    ) -> Result<()> {
        let (n_rows, n_columns) = (self.rows.len(), self.columns.len());
        if n_rows * n_columns == 0 || self.n_slopes == 0 {
            return Ok(());
        }
        // Equal trees are computed where they stand first.
        let (first_row, first_column) = (firsts(self.rows)?, firsts(self.columns)?);
        // By row: its part of each matrix.
        let mut parts = memory::filled_with(n_rows, Vec::new)?;
        // Rows of the first matrix, then those of the second, and so on.
        for (at, row) in out.chunks_mut(n_columns).enumerate() {
            memory::push(&mut parts[at % n_rows], row)?;
        }
        let parts = memory::collect(parts.into_iter().map(Mutex::new))?;
        let slopes_of =
            |tree: u32| &self_slopes[tree as usize * self.n_slopes..][..self.n_slopes];
        self.run(&Tasks::of_rows(n_rows, 1), context, |x, kernel_of, context| {
            let Ok(mut rows) = parts[x].lock() else { return Ok(()) };
            let a = self.rows[x];
            // A later occurrence is copied at the end.
            if first_row[a as usize] != x as u32 {
                return Ok(());
            }
            let slopes = &mut *memory::filled(Scaled::from_f64(0.0), self.n_slopes)?;
            for (y, &b) in self.columns.iter().enumerate() {
                // Of a symmetric matrix the lower triangle, by where trees stand first.
                let is_later = symmetric && first_column[b as usize] > x as u32;
                if first_column[b as usize] != y as u32 || is_later {
                    continue;
                }
                // Normalised values that are 1 or 0 whatever the parameters.
                let is_flat = self.options.normalize
                    && (a == b
                        || selfs[a as usize].is_zero()
                        || selfs[b as usize].is_zero());
                if is_flat {
                    rows.iter_mut().for_each(|row| row[y] = 0.0);
                    continue;
                }
                let value = kernel_of(a as usize, b as usize, slopes, context)?;
                context.check_now()?;
                // The formula of the module, for each parameter.
                for (p, row) in rows.iter_mut().enumerate() {
                    row[y] = if self.options.normalize {
                        let (self_a, self_b) = (selfs[a as usize], selfs[b as usize]);
                        let share = |slope: Scaled, of: Scaled| slope.cosine(of, of);
                        let both = share(slopes_of(a)[p], self_a)
                            + share(slopes_of(b)[p], self_b);
                        slopes[p].cosine(self_a, self_b)
                            - 0.5 * value.cosine(self_a, self_b) * both
                    } else {
                        slopes[p].value()
                    };
                    if !row[y].is_finite() {
                        return Err(Error::Overflow { row: x, column: y });
                    }
                }
            }
            Ok(())
        })?;
        drop(parts);
        // What is equal, or on the other side of the diagonal.
        for matrix in out.chunks_mut(n_rows * n_columns) {
            for (x, &a) in self.rows.iter().enumerate() {
                context.check()?;
                for (y, &b) in self.columns.iter().enumerate() {
                    // From the cell that was computed.
                    let (row, column) =
                        (first_row[a as usize], first_column[b as usize]);
                    let (row, column) = if symmetric && column > row {
                        (column, row)
                    } else {
                        (row, column)
                    };
                    let from = row as usize * n_columns + column as usize;
                    if from != x * n_columns + y {
                        matrix[x * n_columns + y] = matrix[from];
                    }
                }
            }
        }
        Ok(())
    }
}

/// By tree: where it stands first.
fn firsts(trees: &[u32]) -> Result<Vec<u32>> {
    let n = trees.iter().max().map_or(0, |&most| most as usize + 1);
    let mut first = memory::filled(u32::MAX, n)?;
    for (at, &tree) in trees.iter().enumerate().rev() {
        first[tree as usize] = at as u32;
    }
    Ok(first)
}
