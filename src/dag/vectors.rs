//! Feature vectors beside trees: a polynomial kernel with all support vectors at once.
//!
//! ```text
//! K(a,b) = (γ ⟨a,b⟩ + c)^d
//! ```
//!
//! Support vectors are kept by column: the dot products of one vector with all of them
//! are a sum of columns, sparse ones by scatter, those that are dense by vector
//! arithmetic. A column becomes dense when a quarter of it is not zero.
//!
//! # Complexity
//! A row of kernels takes time by the support vectors and by the entries that they have
//! in the columns of the vector's own.

use std::sync::Mutex;

use super::add_scaled;
use crate::memory::{self, Map};
use crate::threads::{Tasks, Threads};
use crate::{Context, Error, Result};

/// The parameters of a polynomial kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct PolynomialKernel {
    /// d: at least 1.
    pub degree: u32,
    /// c: not negative.
    pub coef0: f64,
    /// γ: above 0.
    pub gamma: f64,
}

impl Default for PolynomialKernel {
    fn default() -> Self {
        Self::new(3, 1.0, 1.0)
    }
}

impl PolynomialKernel {
    /// The kernel with these parameters, which are checked when it is used.
    pub const fn new(degree: u32, coef0: f64, gamma: f64) -> Self {
        Self { degree, coef0, gamma }
    }

    /// The same kernel, its parameters found to be in range.
    ///
    /// # Errors
    /// [`Error::Parameter`] that names parameter, range and value.
    pub fn validated(self) -> Result<Self> {
        let Self { degree, coef0, gamma } = self;
        let wrong =
            |name, expected, got: String| Err(Error::Parameter { name, expected, got });
        if degree == 0 || degree > 1_000 {
            return wrong("degree", "from 1 to 1000", degree.to_string());
        }
        if !(coef0 >= 0.0 && coef0.is_finite()) {
            return wrong("coef0", "finite and not negative", coef0.to_string());
        }
        if !(gamma > 0.0 && gamma.is_finite()) {
            return wrong("gamma", "finite and above 0", gamma.to_string());
        }
        Ok(self)
    }

    fn value(&self, dot: f64) -> f64 {
        (self.gamma * dot + self.coef0).powi(self.degree.cast_signed())
    }
}

/// Feature vectors that go with trees: rows of a matrix.
#[derive(Debug, Clone, Copy)]
pub enum Features<'a> {
    /// Row after row.
    Dense {
        /// How many features there are.
        n_columns: usize,
        /// All values.
        values: &'a [f64],
    },
    /// Compressed sparse rows.
    Sparse {
        /// How many features there are.
        n_columns: usize,
        /// Where each row starts, and where the last one ends.
        indptr: &'a [i64],
        /// Columns of the values.
        indices: &'a [i64],
        /// The values.
        data: &'a [f64],
    },
}

impl Features<'_> {
    /// How many features there are.
    pub fn n_columns(&self) -> usize {
        match self {
            Self::Dense { n_columns, .. } | Self::Sparse { n_columns, .. } => {
                *n_columns
            }
        }
    }

    /// Makes sure that there are so many rows, and that all is in range.
    pub(super) fn check(&self, n_rows: usize) -> Result<()> {
        let wrong = |array, index, expected: String, got: String| {
            Err(Error::Array { array, index, expected, got })
        };
        let values = match *self {
            Self::Dense { n_columns, values } => {
                let n = n_rows * n_columns;
                super::check_length("features", values, n, "trees times features")?;
                values
            }
            Self::Sparse { n_columns, indptr, indices, data } => {
                let (n, what) = (n_rows + 1, "trees plus one");
                super::check_length("features.indptr", indptr, n, what)?;
                super::check_length("features.indices", indices, data.len(), "values")?;
                // Starts at 0, never falls, and ends within the values: so every row is
                // a range of them.
                let mut start = 0;
                for (index, &end) in indptr.iter().enumerate() {
                    let is_right = end >= start
                        && end <= data.len() as i64
                        && (index > 0 || end == 0);
                    if !is_right {
                        let expected = format!("{start} to {}", data.len());
                        return wrong(
                            "features.indptr",
                            index,
                            expected,
                            end.to_string(),
                        );
                    }
                    start = end;
                }
                // Columns are kept as u32, so higher ones are refused even where the
                // matrix is wider.
                let end = i64::try_from(n_columns).unwrap_or(i64::MAX).min(1 << 32);
                let out = indices.iter().position(|&j| !(0..end).contains(&j));
                if let Some(index) = out {
                    let expected = format!("0 to {}", end - 1);
                    let got = indices[index].to_string();
                    return wrong("features.indices", index, expected, got);
                }
                data
            }
        };
        super::check_finite("features", values)
    }

    /// All rows, once they were found to be right.
    fn rows(&self, n_rows: usize) -> Result<Vec<Vec<(u32, f64)>>> {
        self.check(n_rows)?;
        let row = |row| {
            let mut entries = Vec::new();
            self.row(row, &mut entries)?;
            Ok(entries)
        };
        memory::try_collect((0..n_rows).map(row))
    }

    /// The entries of a row that are not zero.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub(super) fn row(&self, row: usize, entries: &mut Vec<(u32, f64)>) -> Result<()> {
        entries.clear();
        match *self {
            Self::Dense { n_columns, values } => {
                let values = &values[row * n_columns..][..n_columns];
                memory::extend(entries, (0..).zip(values.iter().copied()))?;
            }
            Self::Sparse { indptr, indices, data, .. } => {
                let range = indptr[row] as usize..indptr[row + 1] as usize;
                let columns = indices[range.clone()].iter().map(|&j| j as u32);
                memory::extend(entries, columns.zip(data[range].iter().copied()))?;
            }
        }
        entries.retain(|entry| entry.1 != 0.0);
        Ok(())
    }
}

/// Feature vectors of trees that are all known, beside which the trees' kernel has the share
/// `mix`.
#[derive(Debug, Clone)]
pub(super) struct TrainingVectors {
    /// The kernel of the vectors.
    kernel: PolynomialKernel,
    mix: f64,
    /// How many features every row has.
    n_columns: usize,
    /// By tree: the features that are not zero.
    rows: Vec<Vec<(u32, f64)>>,
}

impl TrainingVectors {
    /// # Errors
    /// [`Error::Parameter`], [`Error::Length`] and [`Error::Array`] for what is out of range.
    pub(super) fn new(
        kernel: PolynomialKernel,
        mix: f64,
        features: Features<'_>,
        n_trees: usize,
    ) -> Result<Self> {
        let kernel = kernel.validated()?;
        if !(0.0..=1.0).contains(&mix) {
            let (name, expected) = ("mix", "from 0 to 1");
            return Err(Error::Parameter { name, expected, got: mix.to_string() });
        }
        let n_columns = features.n_columns();
        Ok(Self { kernel, mix, n_columns, rows: features.rows(n_trees)? })
    }

    /// The vectors of other trees.
    pub(super) fn others(
        &self,
        features: Features<'_>,
        n_trees: usize,
    ) -> Result<Vec<Vec<(u32, f64)>>> {
        let got = features.n_columns();
        if got != self.n_columns {
            let expected = format!("{}, as before", self.n_columns);
            return Err(Error::Length { array: "a row of features", expected, got });
        }
        features.rows(n_trees)
    }

    /// The vectors of some trees.
    pub(super) fn some<'a>(
        &'a self,
        trees: &'a [u32],
    ) -> impl Iterator<Item = &'a [(u32, f64)]> {
        trees.iter().map(|&tree| &*self.rows[tree as usize])
    }

    /// Makes `mix` · score + (1 - `mix`) Σ_i α_i K(x_i, x) of the scores of some trees;
    /// `alphas` are those of all trees, by output.
    ///
    /// # Errors
    /// What `context` returns.
    pub(super) fn add_to_scores(
        &self,
        alphas: &[f64],
        width: usize,
        asked: &[&[(u32, f64)]],
        scores: &mut [f64],
        context: &Context,
    ) -> Result<()> {
        const PER_TASK: usize = 32;
        // Support trees only: all others would multiply their kernels by 0.
        let supports = alphas.chunks(width).zip(&self.rows);
        let supports = supports.filter(|(alphas, _)| alphas.iter().any(|&a| a != 0.0));
        let alphas = memory::collect(supports.clone().map(|(alphas, _)| alphas))?;
        let vectors = self.vectors(supports.map(|(_, row)| &**row))?;
        let parts =
            memory::collect(scores.chunks_mut(PER_TASK * width).map(Mutex::new))?;
        let threads = Threads::new(context, parts.len());
        threads.run(
            &Tasks::untold(parts.len()),
            &mut memory::filled_with(threads.size(), Vec::new)?,
            |part, kernels, context| {
                // Every part is locked once, by the task with its number.
                let Ok(mut scores) = parts[part].lock() else { return Ok(()) };
                let asked = &asked[part * PER_TASK..];
                for (entries, scores) in asked.iter().zip(scores.chunks_mut(width)) {
                    // The score of trees is there, and is weighed before that of
                    // vectors is added.
                    for score in scores.iter_mut() {
                        *score *= self.mix;
                    }
                    vectors.kernels(entries, kernels)?;
                    for (kernel, alphas) in kernels.iter().zip(&alphas) {
                        add_scaled((1.0 - self.mix) * kernel, alphas, scores);
                    }
                    context.check_now()?;
                }
                Ok(())
            },
        )
    }

    /// Makes `mix` · K + (1 - `mix`) K(a,b) of the matrix of some trees.
    ///
    /// # Errors
    /// [`Error::Overflow`], and what `context` returns.
    pub(super) fn add_to_matrix(
        &self,
        trees: &[u32],
        matrix: &mut [f64],
        context: &Context,
    ) -> Result<()> {
        let vectors = self.vectors(self.some(trees))?;
        let mut kernels = Vec::new();
        let rows = self.some(trees).zip(matrix.chunks_mut(trees.len().max(1)));
        for (row, (entries, values)) in rows.enumerate() {
            vectors.kernels(entries, &mut kernels)?;
            for (column, (value, kernel)) in values.iter_mut().zip(&kernels).enumerate()
            {
                *value = self.mix * *value + (1.0 - self.mix) * kernel;
                if !value.is_finite() {
                    return Err(Error::Overflow { row, column });
                }
            }
            context.check_now()?;
        }
        Ok(())
    }

    fn vectors<'a>(
        &self,
        rows: impl Iterator<Item = &'a [(u32, f64)]>,
    ) -> Result<Vectors> {
        let mut vectors = Vectors::new(self.kernel);
        rows.into_iter().try_for_each(|row| vectors.push(row))?;
        Ok(vectors)
    }
}

/// What the support vectors have in one column.
#[derive(Debug, Clone)]
enum Column {
    Sparse(Vec<(u32, f64)>),
    /// Zeros at the end are left out.
    Dense(Vec<f64>),
}

impl Column {
    /// Adds a value of the last of `n_rows` rows.
    fn add(&mut self, n_rows: usize, value: f64) -> Result<()> {
        const MIN_DENSE_ROWS: usize = 64;
        match self {
            // A sparse row may name a column twice.
            Self::Dense(values) => {
                memory::reach(values, n_rows, 0.0)?;
                values[n_rows - 1] += value;
            }
            Self::Sparse(items) => {
                memory::push(items, (n_rows as u32 - 1, value))?;
                if n_rows >= MIN_DENSE_ROWS && items.len() * 4 > n_rows {
                    // Dense from here on. Columns never go back, so this is paid once
                    // for each.
                    let mut values = memory::filled(0.0, n_rows)?;
                    for &(row, value) in &*items {
                        values[row as usize] += value;
                    }
                    *self = Self::Dense(values);
                }
            }
        }
        Ok(())
    }

    /// Forgets all rows from the `n_rows`th on.
    fn truncate(&mut self, n_rows: usize) {
        // The rows to be forgotten are the last that came.
        match self {
            Self::Dense(values) => values.truncate(n_rows),
            // Rows came in ascending order, so those to be forgotten stand at the end.
            Self::Sparse(items) => {
                while items.pop_if(|(row, _)| *row as usize >= n_rows).is_some() {}
            }
        }
    }
}

/// The vectors of the support trees.
#[derive(Debug, Clone)]
pub(super) struct Vectors {
    pub(super) kernel: PolynomialKernel,
    /// Those that are not all 0: most of a matrix of texts never occur.
    columns: Map<u32, Column>,
    /// 0 until the first vector says how many features there are.
    n_columns: usize,
    /// How many vectors there are.
    len: usize,
}

impl Vectors {
    pub(super) fn new(kernel: PolynomialKernel) -> Self {
        Self { kernel, columns: Map::default(), n_columns: 0, len: 0 }
    }

    /// How many features there are; 0 as long as this is not known.
    pub(super) fn n_columns(&self) -> usize {
        self.n_columns
    }

    /// Makes sure that there are so many features.
    pub(super) fn set_columns(&mut self, n_columns: usize) -> Result<()> {
        if self.n_columns == 0 {
            self.n_columns = n_columns;
        }
        if self.n_columns == n_columns {
            return Ok(());
        }
        let expected = format!("{}, as before", self.n_columns);
        Err(Error::Length { array: "a row of features", expected, got: n_columns })
    }

    /// Adds a vector.
    ///
    /// # Errors
    /// [`Error::Memory`]: it is not there.
    pub(super) fn push(&mut self, entries: &[(u32, f64)]) -> Result<()> {
        // A failure may leave the vector in some columns and not in others: `pop` takes
        // it out of all.
        self.len += 1;
        let added = entries.iter().try_for_each(|&(column, value)| {
            let column = self.columns.get_or(column, Column::Sparse(Vec::new()))?;
            column.add(self.len, value)
        });
        if added.is_err() {
            self.pop();
        }
        added
    }

    /// Forgets the last vector.
    pub(super) fn pop(&mut self) {
        self.len -= 1;
        self.columns.values_mut().for_each(|column| column.truncate(self.len));
    }

    /// The kernels of a vector with all support vectors.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub(super) fn kernels(
        &self,
        entries: &[(u32, f64)],
        out: &mut Vec<f64>,
    ) -> Result<()> {
        out.clear();
        memory::reach(out, self.len, 0.0)?;
        for &(column, value) in entries {
            match self.columns.get(&column) {
                // A column with few entries: only the rows that have it are visited.
                Some(Column::Sparse(items)) => {
                    for &(row, other) in items {
                        out[row as usize] += value * other;
                    }
                }
                Some(Column::Dense(values)) => {
                    for (dot, other) in out.iter_mut().zip(values) {
                        *dot += value * other;
                    }
                }
                None => {}
            }
        }
        for dot in out {
            *dot = self.kernel.value(*dot);
        }
        Ok(())
    }

    /// Row by row: entries that are not zero.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub(super) fn rows(&self) -> Result<Vec<Vec<(u32, f64)>>> {
        let mut rows = memory::filled_with(self.len, Vec::new)?;
        // By number: a map has no order, and what is stored must not depend on one.
        let mut columns = memory::collect(self.columns.iter())?;
        columns.sort_unstable_by_key(|(number, _)| **number);
        for (&number, column) in columns {
            match column {
                Column::Sparse(items) => {
                    for &(row, value) in items {
                        memory::push(&mut rows[row as usize], (number, value))?;
                    }
                }
                Column::Dense(values) => {
                    for (row, &value) in values.iter().enumerate() {
                        if value != 0.0 {
                            memory::push(&mut rows[row], (number, value))?;
                        }
                    }
                }
            }
        }
        Ok(rows)
    }

    pub(super) fn nbytes(&self) -> usize {
        let nbytes = |column: &Column| match column {
            Column::Sparse(items) => items.capacity() * 16,
            Column::Dense(values) => values.capacity() * 8,
            // What the map holds for each column, besides its values.
        };
        let each = size_of::<(u32, Column)>();
        self.columns.values().map(|column| nbytes(column) + each).sum()
    }
}
