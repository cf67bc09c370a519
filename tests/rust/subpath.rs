//! The subpath kernel by hand, and on trees that other methods could not take.

use crate::corpus;
use crate::registry::{assert_close, stop};
use crate::stopwatch::Stopwatch;
use treekernel_rs::gram::{self, Options};
use treekernel_rs::kernel::Subpath;
use treekernel_rs::{Error, Result};

fn pair(decay: f64, a: &str, b: &str) -> Result<f64> {
    let [a, b] = [a, b].map(|text| corpus::read(&[text]));
    gram::pair(&Subpath::new(decay), &a, &b, false)
}

#[test]
fn hand_values_hold() {
    let l = 0.5;
    let cases = [
        // A twice, b, AA, Ab, AAb.
        ("(A (A b))", "(A (A b))", 5.0 * l + 2.0 * l * l + l * l * l),
        // A and A A in common; no A b.
        ("(A (A b))", "(A (A) (c b))", 4.0 * l + l * l + l),
        ("(S (A a) (A a))", "(S (A a))", 5.0 * l + 4.0 * l * l + 2.0 * l * l * l),
        ("(a)", "(b)", 0.0),
        ("(a)", "(a)", l),
    ];
    for (a, b, expected) in cases {
        for (a, b) in [(a, b), (b, a)] {
            assert_close(pair(l, a, b).unwrap(), expected, &|| format!("{a} {b}"));
        }
    }
}

#[test]
fn deep_and_wide_trees_take_no_quadratic_time() {
    let watch = Stopwatch::start();
    let n = 100_000;
    let chain = |label: &str| format!("({label} ").repeat(n) + "x" + &")".repeat(n);
    let words: Vec<String> = (0..n).map(|i| format!("(p w{i})")).collect();
    let wide = format!("(A {})", words.join(" "));
    // At λ = 1, n - k + 1 paths of each length k of A alone, and as many to the x.
    let m = n as f64;
    let squares = m * (m + 1.0) * (2.0 * m + 1.0) / 6.0;
    let own = pair(1.0, &chain("A"), &chain("A")).unwrap();
    assert_close(own, squares + m + 1.0, &|| "a chain and itself".into());
    let other = pair(1.0, &chain("A"), &chain("B")).unwrap();
    assert_close(other, 1.0, &|| "two chains".into());
    // A, p n times, each word; and A p, p w, A p w.
    let own = pair(1.0, &wide, &wide).unwrap();
    assert_close(own, 1.0 + 2.0 * m * m + 3.0 * m, &|| "wide".into());
    assert_close(pair(0.5, &wide, &chain("A")).unwrap(), 0.5 * m, &|| "both".into());
    let took = watch.took();
    assert!(took.as_secs() < 20, "{took:?}");
}

#[test]
fn long_preparations_can_be_stopped() {
    let all = corpus::read(&corpus::generated(4_000, 1));
    let stop = &stop();
    let kernel = Subpath::default();
    let rows = gram::KernelRows::new_with(&kernel, &all, Options::default(), stop);
    assert_eq!(rows.err(), Some(Error::Interrupted));
    let mut out = vec![0f32; all.len() * all.len()];
    let stopped =
        gram::fill_with(&kernel, &all, None, Options::default(), &mut out, stop);
    assert_eq!(stopped, Err(Error::Interrupted));
}
