//! Tree edit distance against Zhang & Shasha's and APTED in the same run, within a bound
//! against without, joins and nearest trees.
//!
//! `cargo bench --bench edit` (a minute; `-- 10000` for so many Java functions). Trees are
//! parsed and put in order before single pairs are timed.

#[path = "baseline/edit.rs"]
mod baseline;
#[path = "corpus/mod.rs"]
mod corpus;

use std::hint::black_box;
use std::time::Instant;

use baseline::{Apted, Plain, Shape, zhang_shasha};
use treekernel_rs::edit::{EditDistance, Normalization};
use treekernel_rs::gram::{Measure, Options};
use treekernel_rs::{Context, Forest, neighbours};

/// The most nodes of a Java function.
const LARGEST: u64 = 2_000;

/// Seconds of the clock: the least of some runs.
fn seconds<T>(n_runs: usize, mut run: impl FnMut() -> T) -> f64 {
    let times = (0..n_runs).map(|_| {
        let start = Instant::now();
        black_box(run());
        start.elapsed().as_secs_f64()
    });
    times.fold(f64::INFINITY, f64::min)
}

fn jobs(n: usize) -> Context<'static> {
    Context::default().with_n_jobs(Some(n))
}

/// Random pairs of one forest.
fn single_pairs(name: &str, forest: &Forest, n_pairs: usize) {
    let mut random = corpus::Random(7);
    let mut tree = || random.below(forest.len());
    let pairs: Vec<[usize; 2]> = (0..n_pairs).map(|_| [tree(), tree()]).collect();
    let size = |tree: usize| forest.nodes().size(forest.roots()[tree]) as f64;
    let n_node_pairs: f64 = pairs.iter().map(|&[a, b]| size(a) * size(b)).sum();
    let sides = [false, true].map(|is_mirrored| -> Vec<Plain> {
        (0..forest.len()).map(|tree| Plain::new(forest, tree, is_mirrored)).collect()
    });
    let mut tables = [const { Vec::new() }; 2];
    let mut sums = [0.0; 4];
    let mut plain = |is_best: bool| {
        seconds(3, || {
            let distance = |&[a, b]: &[usize; 2]| {
                let n_cells = |trees: &[Plain]| trees[a].n_below * trees[b].n_below;
                let is_mirrored = is_best && n_cells(&sides[1]) < n_cells(&sides[0]);
                let trees = &sides[usize::from(is_mirrored)];
                f64::from(zhang_shasha(&trees[a], &trees[b], &mut tables))
            };
            sums[usize::from(is_best)] = pairs.iter().map(distance).sum();
        })
    };
    let [left, best] = [plain(false), plain(true)];
    let shapes: Vec<Shape> =
        (0..forest.len()).map(|tree| Shape::new(forest, tree)).collect();
    let mut apted = Apted::default();
    let by_paths = seconds(3, || {
        let mut distance =
            |&[a, b]: &[usize; 2]| f64::from(apted.distance(&shapes[a], &shapes[b]));
        sums[2] = pairs.iter().map(&mut distance).sum();
    });
    let context = jobs(1);
    let prepared = EditDistance::default().prepare(forest, &context).expect("fits");
    let mut of = prepared.worker();
    let time = seconds(5, || {
        let mut value =
            |&[a, b]: &[usize; 2]| of(a, b, &context).expect("fits").value();
        sums[3] = pairs.iter().map(&mut value).sum();
    });
    assert!(sums.iter().all(|sum| *sum == sums[3]), "{sums:?}");
    let [left, best, by_paths] = [left, best, by_paths].map(|plain| plain / time);
    println!(
        "{name}: {:.2} ns a pair of nodes, {:.2} us a pair; Zhang-Shasha {left:.1} times \
         as long, from the better side {best:.1}, APTED {by_paths:.1}",
        time / n_node_pairs * 1e9,
        time / n_pairs as f64 * 1e6,
    );
}

/// Trees along whose leftmost and rightmost paths much is to be compared.
fn shapes(random: &mut corpus::Random) -> Vec<(String, Forest)> {
    let mut shapes = Vec::new();
    let mut add = |name: &str, tree: &mut dyn FnMut() -> String| {
        let forest = corpus::read(&[(); 6].map(|()| tree()));
        let most = forest.roots().iter().map(|&root| forest.nodes().size(root)).max();
        let most = most.unwrap_or(0);
        shapes.push((format!("{name} of at most {most} nodes"), forest));
    };
    for len in [50, 200] {
        add("zigzags", &mut || corpus::turning(random, len, 1, true, 6));
    }
    for n_leaves in [50, 125, 400] {
        add("random binary trees", &mut || corpus::binary(random, n_leaves, 6));
    }
    add("paths with trees beside", &mut || corpus::turning(random, 40, 20, false, 6));
    shapes
}

fn join(forest: &Forest, n_jobs: usize) -> (f64, neighbours::FoundPairs) {
    let measure = EditDistance::default().with_normalization(Some(Normalization::Max));
    let mut all = neighbours::FoundPairs::default();
    let time = seconds(1, || {
        let sink = &mut |pairs| all.append(pairs);
        let options = Options::default();
        neighbours::join_with(
            &measure,
            forest,
            None,
            0.2,
            options,
            sink,
            &jobs(n_jobs),
        )
        .expect("fits");
    });
    (time, all)
}

/// Pairs of a join, within the bound and without.
fn survivors(forest: &Forest, found: &neighbours::FoundPairs) {
    let measure = EditDistance::default().with_normalization(Some(Normalization::Max));
    let context = jobs(1);
    let bounded = measure.within(0.2).expect("bounds");
    let distance: [&dyn Measure<Forest>; 2] = [&measure, &*bounded];
    let apart = (0..found.rows.len()).filter(|&at| found.values[at] > 0.0);
    let chosen: Vec<usize> = apart.step_by(1 + found.rows.len() / 2_000).collect();
    let times = distance.map(|measure| {
        let prepared = measure.prepare(forest, &context).expect("fits");
        let mut of = prepared.worker();
        seconds(3, || {
            for &at in &chosen {
                let value = of(found.rows[at], found.columns[at], &context);
                assert_eq!(value.expect("fits").value(), found.values[at]);
            }
        })
    });
    println!(
        "{} pairs of the join: {:.0} us each, within the bound {:.1} times as fast",
        chosen.len(),
        times[0] / chosen.len() as f64 * 1e6,
        times[0] / times[1]
    );
}

fn main() {
    let n = std::env::args().find_map(|arg| arg.parse().ok()).unwrap_or(usize::MAX);
    for (name, forest) in shapes(&mut corpus::Random(3)) {
        single_pairs(&name, &forest, 6);
    }
    let read = |path: &str, column| {
        corpus::real(path, column).map(|texts| corpus::read(&texts))
    };
    if let Some(questions) = read("qc/const_train.tsv.gz", 3) {
        single_pairs("QC", &questions, 20_000);
        let measure =
            EditDistance::default().with_normalization(Some(Normalization::Max));
        let options = Options::default();
        let time = seconds(1, || {
            neighbours::top_k_with(&measure, &questions, None, 10, options, &jobs(1))
                .expect("fits")
        });
        let per_tree = time / questions.len() as f64 * 1e3;
        println!("QC: the ten nearest of each, {per_tree:.2} ms a question");
    }
    if let Some(sentences) = read("wsj/wsj.txt.gz", 2) {
        single_pairs("WSJ", &sentences, 2_000);
    }
    let Some(texts) = corpus::real("code/java_functions.tsv.gz", 1) else { return };
    // Two trees have unescaped brackets as labels.
    let small = texts.iter().filter(|text| {
        Forest::from_brackets(text).is_ok_and(|forest| {
            let size = forest.nodes().size(forest.roots()[0]);
            forest.len() == 1 && (20..=LARGEST).contains(&size)
        })
    });
    let texts: Vec<&String> = small.take(n).collect();
    let few = corpus::read(&texts[..texts.len().min(2_000)]);
    single_pairs("Java", &few, 150);
    for n in [10_000, texts.len()] {
        let forest = corpus::read(&texts[..n.min(texts.len())]);
        let [(one, found), (two, _)] = [1, 2].map(|n_jobs| join(&forest, n_jobs));
        println!(
            "{} functions joined at 0.2: {one:.2} s, two threads {two:.2} s; {} pairs",
            forest.len(),
            found.rows.len()
        );
        survivors(&forest, &found);
    }
}
