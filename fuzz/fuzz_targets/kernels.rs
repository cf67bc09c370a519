//! One kernel, every way to compute it: single pairs, rows, matrices of one forest and
//! of two, of doubles and floats, diagonals, a model of one tree; and the definition.

#![no_main]

use libfuzzer_sys::fuzz_target;
use source::{LABELS, Source, close, go_on, is_small};
use treekernel_rs::Error;
use treekernel_rs::dag::{self, Model};
use treekernel_rs::gram::{self, Options};
use treekernel_rs::kernel::naive;

fuzz_target!(|bytes: &[u8]| {
    let mut source = Source::new(bytes);
    let kernel = &*source.kernel();
    let options = source.options();
    let max_nodes = source.pick(&[8, 16, 40]);
    let x = source.forest(LABELS, 4, max_nodes);
    let y = source.forest(LABELS, 3, max_nodes);
    let all = x.concat(&y).expect("a small forest");
    let (n, n_x) = (all.len(), x.len());

    // 1. Single pairs: finite, symmetric, an inner product.
    let pairs = gram::Pairs::new(kernel, &all).expect("kernel in range");
    let mut of = pairs.worker();
    let mut raw = vec![0.0; n * n];
    for (i, row) in raw.chunks_mut(n).enumerate() {
        for (j, value) in row.iter_mut().enumerate() {
            *value = of(i, j).expect("a small value");
        }
    }
    for i in 0..n {
        for j in 0..i {
            let (value, other) = (raw[i * n + j], raw[j * n + i]);
            assert!(close(value, other, 0.0), "K({i},{j}) {value}, {other}");
            let most = raw[i * n + i].sqrt() * raw[j * n + j].sqrt();
            assert!(value >= 0.0 && value <= most * (1.0 + 1e-9), "K({i},{j}) {value}");
        }
    }
    let expected = |i: usize, j: usize| {
        let (value, own, other) = (raw[i * n + j], raw[i * n + i], raw[j * n + j]);
        match options.normalize {
            false => value,
            true if own == 0.0 || other == 0.0 => 0.0,
            true => value / (own.sqrt() * other.sqrt()),
        }
    };
    let check = |name: &str, i: usize, j: usize, got: f64| {
        let right = expected(i, j);
        assert!(close(got, right, 0.0), "{name}: K({i},{j}) {got}, not {right}");
    };

    // 2. The definition, of one pair of small trees.
    let (i, j) = (source.below(n), source.below(n));
    let (a, b) = (all.roots()[i], all.roots()[j]);
    if is_small(kernel, all.nodes(), a) && is_small(kernel, all.nodes(), b) {
        let (right, got) = (naive::kernel(kernel, all.nodes(), a, b), raw[i * n + j]);
        assert!(close(got, right, 0.0), "K({i},{j}) {got}, by definition {right}");
    }
    let (a, b) = (all.select([i]), all.select([j]));
    let got = gram::pair(kernel, &a, &b, options.normalize, &mut go_on);
    let got = got.expect("a small value");
    check("pair", i, j, got);

    // 3. Matrices: of one forest, of two with one store and with two, of floats.
    let square = gram::gram(kernel, &all, None, options).expect("small values");
    square.indexed_iter().for_each(|((i, j), &got)| check("gram(X)", i, j, got));
    let wide = gram::gram(kernel, &x, Some(&y), options).expect("small values");
    wide.indexed_iter().for_each(|((i, j), &got)| check("gram(X, Y)", i, n_x + j, got));
    let mut floats = vec![0.0f32; n * n_x];
    let some = all.select(0..n_x);
    match gram::fill(kernel, &all, Some(&some), options, &mut floats, &mut go_on) {
        Ok(_) => {}
        Err(Error::Overflow { row, column }) => {
            assert!(expected(row, column) > f64::from(f32::MAX), "floats");
            floats.clear();
        }
        Err(error) => panic!("{error}"),
    }
    for (at, &got) in floats.iter().enumerate() {
        let right = expected(at / n_x, at % n_x);
        assert!((f64::from(got) - right).abs() <= 1e-6 * right + 1e-30, "floats {at}");
    }

    // 4. Rows that nobody holds, in any order; self-kernels.
    let rows = gram::Rows::new(kernel, &all, options).expect("small values");
    let mut row = vec![0.0; n];
    for i in (0..n).rev() {
        rows.row(i, &mut row, &mut go_on).expect("small values");
        row.iter().enumerate().for_each(|(j, &got)| check("row", i, j, got));
    }
    let diagonal = gram::diagonal(kernel, &all, options, &mut go_on);
    let diagonal = diagonal.expect("small values").0;
    diagonal.iter().enumerate().for_each(|(i, &got)| check("diagonal", i, i, got));

    // 5. A model of one tree scores its kernels.
    let Options { normalize, n_jobs, .. } = options;
    let model_options = dag::Options::default().with_normalize(normalize);
    let mut model = Model::new(kernel, model_options).expect("all have models");
    model.add(&a, &[1.0], &mut go_on).expect("a small tree");
    let scores = model.score(&all, n_jobs, &mut go_on).expect("small scores").0;
    scores.iter().enumerate().for_each(|(j, &got)| check("score", i, j, got));
});
