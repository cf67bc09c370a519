//! Values divided by the roots of both items' values with themselves.
//!
//! ```text
//! K(a,b) / sqrt(K(a,a) K(b,b)),   0 where one of these is 0,   1 for equal trees
//! ```
//!
//! A row is multiplied by two floats per value. Where a float does not hold the inverse
//! root, the value is that of a single pair, in [numbers](Scaled) with a wide exponent.

use crate::kernel::{LARGEST, Prepared, SMALLEST, Scaled};
use crate::memory;
use crate::vector::{Loop, vectorized};
use crate::{Context, Error, Result};

/// 1 / sqrt(value); 0 for 0, NaN where floats do not do.
pub(crate) fn scale(value: Scaled) -> f64 {
    // 0 where there is no kernel: all products are 0 then. NaN shows in a product that
    // it must be computed otherwise.
    match value.value() {
        _ if value.is_zero() => 0.0,
        float if float < LARGEST && float > SMALLEST => 1.0 / float.sqrt(),
        _ => f64::NAN,
    }
}

/// What the kernels of one tree are divided by: the root of its kernel with itself, or 1.
#[derive(Clone, Copy)]
pub(crate) struct Norm {
    /// 1 / sqrt(K(x,x)); NaN where floats do not do.
    pub(crate) scale: f64,
    /// K(x,x).
    pub(crate) own: Scaled,
}

impl Default for Norm {
    fn default() -> Self {
        Self { scale: 1.0, own: Scaled::from_f64(1.0) }
    }
}

impl Norm {
    pub(crate) fn of(own: Scaled) -> Self {
        Self { scale: scale(own), own }
    }

    /// Divides a kernel, or a sum of them.
    pub(crate) fn divide(self, raw: f64) -> f64 {
        // Scales beyond floats; what is not finite stays so.
        if self.scale.is_nan() && raw.is_finite() {
            return Scaled::from_f64(raw).cosine(self.own, Scaled::from_f64(1.0));
        }
        raw * self.scale
    }
}

/// What the values of some items are divided by.
#[derive(Clone)]
pub(crate) struct Norms {
    /// By item: K(t,t); NaN where it was given up.
    pub(crate) selfs: Vec<Scaled>,
    /// By item: 1 / sqrt(K(t,t)); 0 for one without kernel, NaN where floats do not do.
    pub(crate) scales: Vec<f64>,
    /// Items whose value with themselves was given up, ascending.
    pub(crate) given_up: Vec<u32>,
    /// The largest normalised value: 1, which rounding may take two different items just
    /// above; more where values are no dot products.
    pub(crate) most: f64,
}

impl Norms {
    /// Of the first `n` items that were made ready; `place` is an item's index and set.
    ///
    /// # Errors
    /// [`Error::Indefinite`] for an item that nothing can be normalised by,
    /// [`Error::Memory`], and what `context` returns.
    pub(crate) fn new(
        singles: &dyn Prepared,
        n: usize,
        place: impl Fn(usize) -> (usize, &'static str),
        context: &Context,
    ) -> Result<Self> {
        let (selfs, given_up) = super::self_kernels(singles, n, context)?;
        for (item, &own) in selfs.iter().enumerate() {
            if singles.is_indefinite(own) {
                let (tree, set) = place(item);
                return Err(Error::Indefinite { tree, set, value: own.value() });
            }
        }
        let scales = memory::collect(selfs.iter().map(|&own| scale(own)))?;
        Ok(Self { selfs, scales, given_up, most: singles.most() })
    }

    /// Whether an item's value with itself is 0.
    pub(crate) fn is_zero(&self, item: usize) -> bool {
        self.scales[item] == 0.0
    }

    fn is_given_up(&self, item: usize) -> bool {
        self.given_up.binary_search(&(item as u32)).is_ok()
    }
}

/// What makes raw rows into normalised ones.
pub(crate) struct Normalizer<'a> {
    pub(crate) rows: &'a Norms,
    pub(crate) columns: &'a Norms,
    /// Per row the column that is the same item, or a number of no column. None: the rows
    /// are the columns.
    pub(crate) same: Option<&'a [u32]>,
}

impl Normalizer<'_> {
    /// Normalises a row of which some columns were given up, and adds those that are so
    /// by what divides them. `single` is the value of its item with that of a column.
    pub(crate) fn row(
        &self,
        x: usize,
        row: &mut [f64],
        given_up: &mut Vec<u32>,
        mut single: impl FnMut(usize) -> Result<Scaled>,
    ) -> Result<()> {
        // 1. By floats, which are enough for nearly all rows.
        if !self.scale(x, row) {
            // Where a float does not hold the value or a scale.
            let n_known = given_up.len();
            for (t, cell) in row.iter_mut().enumerate() {
                // Those that were known before; what is added below comes behind them.
                let is_known = given_up[..n_known].binary_search(&(t as u32)).is_ok();
                if cell.is_finite() || is_known {
                    continue;
                }
                match self.pair(x, t, || single(t)) {
                    Ok(value) => *cell = value,
                    Err(Error::ConstraintLimit { .. }) => {
                        *cell = f64::NAN;
                        memory::push(given_up, t as u32)?;
                    }
                    Err(error) => return Err(error),
                }
            }
            given_up.sort_unstable();
        }
        // 2. An item with itself is exactly 1, whatever rounding made of it, and even
        // if its value was given up.
        let same = self.same.map_or(x, |same| same[x] as usize);
        if !self.rows.is_zero(x)
            && let Some(value) = row.get_mut(same)
        {
            *value = 1.0;
            given_up.retain(|&column| column as usize != same);
        }
        Ok(())
    }

    /// One normalised value of a row, of which `single` is the raw one.
    pub(crate) fn pair(
        &self,
        x: usize,
        t: usize,
        single: impl FnOnce() -> Result<Scaled>,
    ) -> Result<f64> {
        let are_equal = self.same.map_or(x, |same| same[x] as usize) == t;
        quotient((self.rows, x), (self.columns, t), are_equal, single)
    }

    /// Multiplies a row by the scales of its item and of the columns; whether floats hold
    /// all scales and values.
    pub(crate) fn scale(&self, x: usize, row: &mut [f64]) -> bool {
        let scales = &self.columns.scales[..row.len()];
        scale_row(row, self.rows.scales[x], scales, self.columns.most)
    }
}

/// The normalised value of two items, of which `single` is the raw one.
///
/// # Errors
/// That of `single`, and [`Error::ConstraintLimit`] where one of those that divide it was
/// given up.
pub(crate) fn quotient(
    (norms, a): (&Norms, usize),
    (others, b): (&Norms, usize),
    are_equal: bool,
    single: impl FnOnce() -> Result<Scaled>,
) -> Result<f64> {
    // The order matters: 0 wins over 1, and 1 over what was given up.
    if norms.is_zero(a) || others.is_zero(b) {
        return Ok(0.0);
    }
    if are_equal {
        return Ok(1.0);
    }
    if norms.is_given_up(a) || others.is_given_up(b) {
        let pairs = vec![(a, b)]; // bounded: one
        return Err(Error::ConstraintLimit { pairs, limit: 0 });
    }
    Ok(at_most(single()?.cosine(norms.selfs[a], others.selfs[b]), norms.most))
}

/// Multiplies values by two scales each; whether all results are finite. What is no number
/// stays so.
pub(crate) fn scale_row(
    row: &mut [f64],
    scale: f64,
    scales: &[f64],
    most: f64,
) -> bool {
    let (n, mut n_finite) = (row.len(), 0);
    vectorized(Scaling { row, scale, scales, most, n_finite: &mut n_finite });
    n_finite == n
}

/// See [`scale_row`].
struct Scaling<'a> {
    row: &'a mut [f64],
    scale: f64,
    scales: &'a [f64],
    most: f64,
    n_finite: &'a mut usize,
}

impl Loop for Scaling<'_> {
    #[allow(clippy::inline_always)] // into the function that is compiled for AVX2
    #[inline(always)]
    fn run(self) {
        let Self { row, scale, scales, most, n_finite } = self;
        // Counted in a register: a store for each value would be no vector loop.
        let mut n = 0;
        for (value, &other) in row.iter_mut().zip(scales) {
            *value = at_most(*value * (scale * other), most);
            n += usize::from(value.is_finite());
        }
        *n_finite = n;
    }
}

/// The smaller of a value and a limit; NaN where the value is, unlike [`f64::min`].
#[allow(clippy::inline_always)] // into the function that is compiled for AVX2
#[inline(always)]
fn at_most(value: f64, most: f64) -> f64 {
    if value > most { most } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Items whose values with themselves are usual, 0, beyond floats, and given up.
    fn norms() -> Norms {
        let huge = Scaled::from_f64(1e250) * Scaled::from_f64(1e250);
        let selfs = [4.0, 0.0, 9.0, f64::NAN, 1.0, 1e-320].map(Scaled::from_f64);
        let selfs = [&selfs[..], &[huge]].concat();
        let scales = selfs.iter().map(|&own| scale(own)).collect();
        Norms { selfs, scales, given_up: vec![3], most: 1.0 }
    }

    fn normalizer(norms: &Norms) -> Normalizer<'_> {
        Normalizer { rows: norms, columns: norms, same: None }
    }

    #[test]
    fn rows_are_the_quotient_of_kernel_and_roots() {
        let (norms, mut none) = (norms(), Vec::new());
        let normalizer = normalizer(&norms);
        // Of floats: 3 / sqrt(4 * 9), nothing with 0, 1 with itself, and at most 1.
        let mut row = [4.0, 0.0, 3.0];
        normalizer.row(0, &mut row, &mut none, |_| unreachable!()).unwrap();
        assert_eq!(row, [1.0, 0.0, 0.5]);
        row = [6.5, 0.0, 9.0];
        normalizer.row(2, &mut row, &mut none, |_| unreachable!()).unwrap();
        assert_eq!((row, none), ([1.0, 0.0, 1.0], vec![]));
    }

    #[test]
    fn what_floats_do_not_hold_is_asked_for_and_what_is_given_up_is_told() {
        let norms = norms();
        // 2e-160 / sqrt(4e-320), and 1e250 / 2e250.
        let single = |t| {
            assert!(t == 5 || t == 6);
            Ok(Scaled::from_f64(if t == 6 { 1e250 } else { 2e-160 }))
        };
        let mut row = [4.0, 0.0, 3.0, 1.0, f64::NAN, 2e-160, f64::INFINITY];
        let mut given_up = vec![4];
        normalizer(&norms).row(0, &mut row, &mut given_up, single).unwrap();
        assert_eq!(row[..3], [1.0, 0.0, 0.5]);
        assert!(row[3].is_nan() && row[4].is_nan(), "{row:?}");
        assert_eq!(given_up, [3, 4]);
        assert!((row[5] - 1.0).abs() < 1e-3 && row[5] <= 1.0, "{row:?}");
        assert!((row[6] - 0.5).abs() < 1e-15, "{row:?}");
        // An item whose own value was given up is nevertheless equal to itself.
        let mut row = [1.0, 0.0, 3.0, f64::NAN];
        let mut given_up = vec![3];
        normalizer(&norms).row(3, &mut row, &mut given_up, |_| unreachable!()).unwrap();
        assert!(row[0].is_nan() && row[2].is_nan(), "{row:?}");
        assert_eq!((row[1], row[3], given_up), (0.0, 1.0, vec![0, 2]));
    }

    #[test]
    fn single_values_are_those_of_rows() {
        let norms = norms();
        let normalizer = normalizer(&norms);
        let value =
            |x, t, value: f64| normalizer.pair(x, t, || Ok(Scaled::from_f64(value)));
        assert_eq!((value(0, 2, 3.0), value(0, 1, 3.0)), (Ok(0.5), Ok(0.0)));
        assert_eq!((value(1, 1, 0.0), value(2, 2, 9.0)), (Ok(0.0), Ok(1.0)));
        assert_eq!(value(0, 2, 7.0), Ok(1.0));
        assert!(matches!(value(3, 2, 1.0), Err(Error::ConstraintLimit { .. })));
        // A sum of kernels of one tree.
        assert_eq!(Norm::of(norms.selfs[0]).divide(6.0), 3.0);
        assert!((Norm::of(norms.selfs[6]).divide(1e250) - 1.0).abs() < 1e-15);
    }
}
