//! What every engine's rows are held to, for tests.

use super::Engine;
use crate::Forest;
use crate::kernel::{Bags, sample};

/// All rows, asked in any order by one worker, to have the very bits of a fresh
/// worker's, as prefixes (symmetric) or whole.
fn rows<E: Engine>(
    engine: &E,
    len: impl Fn(usize) -> usize,
    order: &[usize],
) -> Vec<Vec<f64>> {
    let mut all = vec![Vec::new(); order.len()];
    let mut scratch = engine.scratch();
    for &x in order {
        let mut row = vec![f64::NAN; len(x)];
        engine.row(x, &mut scratch, &mut row);
        all[x] = row;
    }
    for (x, known) in all.iter().enumerate() {
        let mut row = vec![f64::NAN; len(x)];
        engine.row(x, &mut engine.scratch(), &mut row);
        assert_eq!(&row, known, "row {x}");
    }
    all
}

/// The engine of a forest, and that of its second half against its first, against the
/// values of `expected`; the number of pairs.
pub(super) fn check<E: Engine>(
    forest: &Forest,
    random: &mut sample::Random,
    engine: impl Fn(&Bags, Option<&Bags>) -> E,
    expected: impl Fn(usize, usize) -> f64,
) -> usize {
    let (nodes, n) = (forest.nodes(), forest.len());
    let all = Bags::new(nodes, forest.roots()).unwrap();
    let gram = rows(&engine(&all, None), |x| x + 1, &random.order(n));
    let half = n / 2;
    let [columns, others] = [0..half, half..n]
        .map(|range| Bags::new(nodes, &forest.roots()[range]).unwrap());
    let block = engine(&columns, Some(&others));
    let block = rows(&block, |_| half, &random.order(n - half));
    let mut n_pairs = 0;
    for x in 0..n {
        for t in 0..=x {
            let expected = expected(x, t);
            let mut values = vec![gram[x][t]];
            if x >= half && t < half {
                values.push(block[x - half][t]);
            }
            for value in values {
                let same = (value - expected).abs() <= 1e-10 * expected.abs();
                assert!(same || value == expected, "{x} {t}: {value} {expected}");
            }
            n_pairs += 1;
        }
    }
    n_pairs
}
