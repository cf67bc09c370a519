//! What is alike: joins and nearest trees, against streaming all rows in the same run.
//!
//! `cargo bench --bench neighbours` (some minutes; `-- 8000` for so many functions). One
//! thread, indices included; trees are parsed before. Beside it, how many of the corpus's
//! labelled clones are above the threshold.

#[path = "corpus/mod.rs"]
mod corpus;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use treekernel_rs::gram::{self, Options};
use treekernel_rs::kernel::{SubsetTree, Subtree};
use treekernel_rs::{Context, Forest, Kernel, neighbours};

const FUNCTIONS: &str = "code/java_functions.tsv.gz";
const CLONES: &str = "code/java_clones.tsv.gz";
const THRESHOLDS: [f64; 2] = [0.8, 0.7];

/// Seconds of this thread's work, which others on the machine do not change; of the clock
/// where the system does not tell.
fn seconds<T>(run: impl FnOnce() -> T) -> (f64, T) {
    let worked = || {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        Some(text.split(' ').next()?.parse::<f64>().ok()? * 1e-9)
    };
    let (start, before) = (Instant::now(), worked());
    let out = run();
    let by_clock = start.elapsed().as_secs_f64();
    (worked().zip(before).map_or(by_clock, |(after, before)| after - before), out)
}

fn one() -> Context<'static> {
    Context::default().with_n_jobs(Some(1))
}

fn options() -> Options {
    Options::default().with_normalize(true)
}

/// Seconds of all rows, and how many pairs are above each threshold.
fn all_rows(kernel: &dyn Kernel, forest: &Forest) -> (f64, [usize; 2]) {
    let counts = [const { AtomicUsize::new(0) }; 2];
    let sink = |i: usize, row: &[f64]| {
        for (least, count) in THRESHOLDS.iter().zip(&counts) {
            let found = row[..i].iter().filter(|&value| value >= least).count();
            count.fetch_add(found, Ordering::Relaxed);
        }
    };
    let (time, _) =
        seconds(|| gram::for_each_row_with(kernel, forest, options(), sink, &one()));
    (time, counts.map(AtomicUsize::into_inner))
}

/// Seconds of a join, and its pairs.
fn join(
    kernel: &dyn Kernel,
    forest: &Forest,
    least: f64,
) -> (f64, neighbours::FoundPairs) {
    let mut all = neighbours::FoundPairs::default();
    let sink = &mut |pairs| all.append(pairs);
    let (time, done) = seconds(|| {
        neighbours::join_with(kernel, forest, None, least, options(), sink, &one())
    });
    done.expect("an answer");
    all.sort().expect("memory");
    (time, all)
}

/// How many of the labelled clones of each type are among some pairs, in per cent.
fn recall(ids: &[String], found: &neighbours::FoundPairs) -> String {
    let columns = [0, 1, 2].map(|column| corpus::real(CLONES, column));
    let [Some(a), Some(b), Some(kinds)] = columns else { return String::new() };
    let place: HashMap<&str, usize> = ids.iter().map(String::as_str).zip(0..).collect();
    let pairs: Vec<(usize, usize)> =
        found.rows.iter().copied().zip(found.columns.iter().copied()).collect();
    let mut counts = [[0usize; 2]; 4];
    for ((a, b), kind) in a.iter().zip(&b).zip(&kinds) {
        let places = place.get(a.as_str()).zip(place.get(b.as_str()));
        let (Some((&i, &j)), Ok(kind)) = (places, kind.parse::<usize>()) else {
            continue;
        };
        counts[kind][0] += 1;
        let is_found = pairs.binary_search(&(i.min(j), i.max(j))).is_ok();
        counts[kind][1] += usize::from(is_found);
    }
    let percent = |kind: usize| {
        let [all, found] = counts[kind];
        format!("type {kind}: {:.1} of {all}", 100.0 * found as f64 / all.max(1) as f64)
    };
    [1, 2, 3].map(percent).join(", ")
}

fn main() {
    let n = std::env::args().find_map(|arg| arg.parse().ok()).unwrap_or(usize::MAX);
    let columns = [0, 1].map(|column| corpus::real(FUNCTIONS, column));
    let [Some(ids), Some(texts)] = columns else { return };
    // Two trees have unescaped brackets as labels.
    let legal = |item: &(String, String)| {
        Forest::from_brackets(&item.1).is_ok_and(|forest| forest.len() == 1)
    };
    let items = ids.into_iter().zip(texts).filter(legal).take(n);
    let (ids, texts): (Vec<String>, Vec<String>) = items.unzip();
    let forest = corpus::read(&texts);
    drop(texts);
    println!("{} trees, {} distinct subtrees", forest.len(), forest.n_distinct());
    let kernels: [(&dyn Kernel, &str); 3] = [
        (&SubsetTree::new(0.2), "SST 0.2"),
        (&SubsetTree::new(0.4), "SST 0.4"),
        (&Subtree::new(0.4), "ST 0.4"),
    ];
    for (kernel, name) in kernels {
        let (all, counts) = all_rows(kernel, &forest);
        println!("{name}: all rows {all:.2} s");
        for (least, count) in THRESHOLDS.into_iter().zip(counts) {
            let (time, pairs) = join(kernel, &forest, least);
            println!(
                "{name}: join at {least} {time:.2} s, {:.1} times as fast; {} pairs, rows \
                 have {count}; {}",
                all / time,
                pairs.rows.len(),
                recall(&ids, &pairs)
            );
        }
        let (time, _) = seconds(|| {
            neighbours::top_k_with(kernel, &forest, None, 10, options(), &one())
        });
        println!("{name}: top 10 {time:.2} s, {:.1} times as fast", all / time);
    }
}
