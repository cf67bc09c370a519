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

use std::collections::HashMap;

use crate::{Error, Result};

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

    /// The entries of a row that are not zero.
    pub(super) fn row(&self, row: usize, entries: &mut Vec<(u32, f64)>) {
        entries.clear();
        match *self {
            Self::Dense { n_columns, values } => {
                let values = &values[row * n_columns..][..n_columns];
                entries.extend((0..).zip(values.iter().copied()));
            }
            Self::Sparse { indptr, indices, data, .. } => {
                let range = indptr[row] as usize..indptr[row + 1] as usize;
                let columns = indices[range.clone()].iter().map(|&j| j as u32);
                entries.extend(columns.zip(data[range].iter().copied()));
            }
        }
        entries.retain(|entry| entry.1 != 0.0);
    }
}

#[derive(Debug, Clone)]
enum Column {
    Sparse(Vec<(u32, f64)>),
    /// Zeros at the end are left out.
    Dense(Vec<f64>),
}

/// The vectors of the support trees.
#[derive(Debug, Clone)]
pub(super) struct Vectors {
    pub(super) kernel: PolynomialKernel,
    /// Those that are not all 0: most of a matrix of texts never occur.
    columns: HashMap<u32, Column>,
    n_columns: usize,
    len: usize,
}

impl Vectors {
    pub(super) fn new(kernel: PolynomialKernel) -> Self {
        Self { kernel, columns: HashMap::new(), n_columns: 0, len: 0 }
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

    pub(super) fn push(&mut self, entries: &[(u32, f64)]) {
        const LEAST: usize = 64;
        let row = self.len;
        self.len += 1;
        for &(column, value) in entries {
            let new = || Column::Sparse(Vec::new());
            let column = self.columns.entry(column).or_insert_with(new);
            match column {
                // A sparse row may name a column twice.
                Column::Dense(values) => {
                    values.resize(row + 1, 0.0);
                    values[row] += value;
                }
                Column::Sparse(items) => {
                    items.push((row as u32, value));
                    if self.len >= LEAST && items.len() * 4 > self.len {
                        let mut values = vec![0.0; self.len];
                        for &(row, value) in &*items {
                            values[row as usize] += value;
                        }
                        *column = Column::Dense(values);
                    }
                }
            }
        }
    }

    /// The kernels of a vector with all support vectors.
    pub(super) fn kernels(&self, entries: &[(u32, f64)], out: &mut Vec<f64>) {
        out.clear();
        out.resize(self.len, 0.0);
        for &(column, value) in entries {
            match self.columns.get(&column) {
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
    }

    /// Row by row: entries that are not zero.
    pub(super) fn rows(&self) -> Vec<Vec<(u32, f64)>> {
        let mut rows = vec![Vec::new(); self.len];
        let mut columns: Vec<(&u32, &Column)> = self.columns.iter().collect();
        columns.sort_unstable_by_key(|(number, _)| **number);
        for (&number, column) in columns {
            match column {
                Column::Sparse(items) => {
                    for &(row, value) in items {
                        rows[row as usize].push((number, value));
                    }
                }
                Column::Dense(values) => {
                    for (row, &value) in values.iter().enumerate() {
                        if value != 0.0 {
                            rows[row].push((number, value));
                        }
                    }
                }
            }
        }
        rows
    }

    pub(super) fn nbytes(&self) -> usize {
        let of = |column: &Column| match column {
            Column::Sparse(items) => items.capacity() * 16,
            Column::Dense(values) => values.capacity() * 8,
        };
        let each = size_of::<(u32, Column)>();
        self.columns.values().map(|column| of(column) + each).sum()
    }
}
