//! Kernels: single pairs, one against many, whole matrices; each as a multiple of the
//! published algorithm, measured in the same run.
//!
//! `cargo bench --bench gram` (some minutes; `-- QC` for one data set, `-- code` for 8,000
//! Java functions, `-- worst`, `-- steps`, `-- growth`, `-- papers`). λ = μ = 0.4. All figures
//! are the minimum of several runs, nanoseconds for one pair of trees; for a symmetric
//! matrix of n trees there are n (n + 1) / 2.
//!
//! | column | what is timed |
//! |---|---|
//! | published | [`baseline`]: FTK (Moschitti 2006) for ST and SST, the DP per length for PT, the dense recursion for ET; prepared trees, 1,000 random ones (300 for ET) |
//! | pair | `gram::SinglePairs`, prepared trees: the same pairs / in an order in which no tree stays |
//! | one : many | `gram::KernelRows`, index made before |
//! | rows | all rows of the lower triangle by `gram::for_each_row`, index included, stored in packed form |
//! | matrix | `gram::fill`, index included, stored as the whole symmetric matrix of f64, allocated before |
//! | index | `gram::KernelRows::new`, milliseconds |

#[path = "baseline/mod.rs"]
mod baseline;
#[path = "corpus/mod.rs"]
mod corpus;
#[path = "worst/mod.rs"]
mod worst;

use baseline::{EtClassic, Fragments, Ftk, PtClassic, PtParams, Qtk};
use std::hint::black_box;
use std::sync::Mutex;
use std::time::Instant;
use treekernel_rs::gram::{self, Options};
use treekernel_rs::kernel::{ElasticTree, PartialTree, SubsetTree, Subtree};
use treekernel_rs::{Context, Forest, Kernel};
use worst::Leaves;

const SETS: [(&str, &str, usize); 4] = [
    ("QC", "qc/const_train.tsv.gz", 3),
    ("WSJ", "wsj/wsj.txt.gz", 2),
    ("WSJs", "wsj/wsj_clean.txt.gz", 2),
    ("GRCT", "qc/dep_train.tsv.gz", 2),
];
const ST: Subtree = Subtree::new(0.4);
const SST: SubsetTree = SubsetTree::new(0.4);
const PT: PartialTree = PartialTree::new(0.4, 0.4);
const ET: ElasticTree = ElasticTree::new(0.4);
const ALL: [(&str, &dyn Kernel); 4] =
    [("ST", &ST), ("SST", &SST), ("PT", &PT), ("ET", &ET)];

/// Seconds of the best of some runs; fewer of them where one takes long.
fn best<T>(mut run: impl FnMut() -> T) -> f64 {
    let (mut best, mut spent) = (f64::INFINITY, 0.0);
    while spent < 1.5 {
        let start = Instant::now();
        run();
        let seconds = start.elapsed().as_secs_f64();
        best = best.min(seconds);
        spent += seconds.max(0.05);
    }
    best
}

/// Nanoseconds of all pairs i >= j of n trees, each.
fn per_pair(n: usize, mut pair: impl FnMut(usize, usize) -> f64) -> f64 {
    let seconds = best(|| {
        let mut sum = 0.0;
        for i in 0..n {
            for j in 0..=i {
                sum += pair(i, j);
            }
        }
        black_box(sum);
    });
    seconds * 1e9 / (n * (n + 1) / 2) as f64
}

fn read(trees: &[String]) -> Forest {
    Forest::from_bracket_items(trees.iter().map(String::as_str)).expect("legal trees")
}

/// Some of the trees, at random.
fn sample(trees: &[String], n: usize) -> Forest {
    let mut random = corpus::Random(1);
    let mut order: Vec<usize> = (0..trees.len()).collect();
    for at in 0..n.min(order.len()) {
        let other = at + random.below(order.len() - at);
        order.swap(at, other);
    }
    let picked = order.iter().take(n).map(|&index| trees[index].as_str());
    Forest::from_bracket_items(picked).expect("legal trees")
}

fn jobs(n: usize) -> Context<'static> {
    Context::default().with_n_jobs(Some(n))
}

/// The published algorithm's nanoseconds per pair.
fn published(kernel: &dyn Kernel, forest: &Forest) -> f64 {
    let n = forest.len();
    match kernel.name() {
        "Subtree" => {
            let mut ftk = Ftk::new(forest, (Fragments::Subtrees, 0.4));
            per_pair(n, |i, j| ftk.pair(i, j))
        }
        "SubsetTree" => {
            let mut ftk = Ftk::new(forest, (Fragments::SubsetTrees, 0.4));
            per_pair(n, |i, j| ftk.pair(i, j))
        }
        "PartialTree" => {
            let mut classic = PtClassic::new(forest, PtParams::plain(0.4, 0.4));
            per_pair(n, |i, j| classic.pair(i, j))
        }
        _ => {
            let few = n.min(300);
            let mut classic = EtClassic::new(forest, 0.4);
            per_pair(few, |i, j| classic.pair(i, j))
        }
    }
}

/// Seconds of all rows of the lower triangle, stored packed.
fn packed(kernel: &dyn Kernel, forest: &Forest, n_jobs: usize) -> f64 {
    let n = forest.len();
    let mut values = vec![0.0f64; n * (n + 1) / 2];
    best(|| {
        let mut rest = &mut values[..];
        let mut rows = Vec::with_capacity(n);
        for i in 0..n {
            let (row, more) = std::mem::take(&mut rest).split_at_mut(i + 1);
            rows.push(Mutex::new(row));
            rest = more;
        }
        let store =
            |i: usize, row: &[f64]| rows[i].lock().unwrap().copy_from_slice(row);
        gram::for_each_row_with(
            kernel,
            forest,
            Options::default(),
            store,
            &jobs(n_jobs),
        )
        .expect("small values");
    })
}

fn matrices(name: &str, trees: &[String], kernels: &[(&str, &dyn Kernel)]) {
    let (all, some) = (read(trees), sample(trees, 1_000));
    let n = all.len();
    let pairs = (n * (n + 1) / 2) as f64 / 1e9;
    let mut out = vec![0.0f64; n * n];
    for &(title, kernel) in kernels {
        let baseline = published(kernel, &some);
        let prepared = gram::SinglePairs::new(kernel, &some).expect("legal");
        let mut of = prepared.worker();
        let single = per_pair(some.len(), |i, j| of(i, j).expect("small values"));
        // Both trees change from call to call: nothing of the first one stays.
        let m = some.len();
        let random = per_pair(m, |i, j| {
            of((7 * i + 13 * j) % m, (31 * j + i) % m).expect("small values")
        });
        let index = best(|| {
            black_box(
                gram::KernelRows::new_with(kernel, &all, Options::default(), &jobs(1))
                    .expect("legal"),
            );
        });
        let rows =
            gram::KernelRows::new_with(kernel, &all, Options::default(), &jobs(1))
                .expect("legal");
        let asked = (0..n).step_by(7);
        let mut row = vec![0.0; n];
        let many = best(|| {
            for i in asked.clone() {
                rows.row(i, &mut row).expect("small values");
            }
        });
        let many = many * 1e9 / (asked.count() * n) as f64;
        let (lower, lower_two) =
            (packed(kernel, &all, 1) / pairs, packed(kernel, &all, 2) / pairs);
        let mut full = |n_jobs| {
            let run = || {
                gram::fill_with(
                    kernel,
                    &all,
                    None,
                    Options::default(),
                    &mut out,
                    &jobs(n_jobs),
                )
                .expect("small values");
            };
            best(run) / pairs
        };
        let (one, two) = (full(1), full(2));
        println!(
            "| {name} {title} | {baseline:.0} | {single:.0} / {random:.0} | {many:.2} | {lower:.2} \
             ({:.0}x) | {lower_two:.2} ({:.2}x) | {one:.2} ({:.0}x) | {two:.2} ({:.2}x) \
             | {:.1} |",
            baseline / lower,
            lower / lower_two,
            baseline / one,
            one / two,
            index * 1e3,
        );
    }
}

fn worst_cases() {
    println!("\n| worst case | published, µs | pair | rows, packed | ratio |");
    println!("|---|---|---|---|---|");
    let copies = worst::copies(&corpus::generated(30, 1), 30, 100);
    let cases = [
        (
            "SST one production, 31 inner nodes",
            &SST as &dyn Kernel,
            worst::one_production(1, 50, 31),
        ),
        (
            "SST one production, 127 inner nodes",
            &SST,
            worst::one_production(1, 20, 127),
        ),
        (
            "SST chains 50-400, same leaf",
            &SST,
            worst::chains(1, 20, 50..=400, Leaves::Same),
        ),
        (
            "SST chains 50-400, different leaves",
            &SST,
            worst::chains(1, 20, 50..=400, Leaves::Different),
        ),
        ("SST 300 preterminals below a node", &SST, worst::wide(1, 20, 300)),
        ("SST 100 copies of 30 trees", &SST, copies),
        ("PT 25-50 children, one label", &PT, worst::bushes(1, 30, 25..=50, 1)),
        ("PT 25-50 children, 20 labels", &PT, worst::bushes(1, 30, 25..=50, 20)),
        ("PT 100-200 children, one label", &PT, worst::bushes(1, 10, 100..=200, 1)),
        (
            "ET chains 50-400, same leaf",
            &ET,
            worst::chains(1, 8, 50..=400, Leaves::Same),
        ),
        ("ET 300 preterminals below a node", &ET, worst::wide(1, 20, 300)),
        (
            "ST chains 50-400, same leaf",
            &ST,
            worst::chains(1, 20, 50..=400, Leaves::Same),
        ),
    ];
    for (name, kernel, trees) in cases {
        let forest = read(&trees);
        let n = forest.len();
        let baseline = published(kernel, &forest.select(0..n.min(300))) / 1e3;
        let prepared = gram::SinglePairs::new(kernel, &forest).expect("legal");
        let mut of = prepared.worker();
        let single = per_pair(n.min(300), |i, j| of(i, j).expect("finite")) / 1e3;
        let rows = packed(kernel, &forest, 1) * 1e6 / (n * (n + 1) / 2) as f64;
        let ratio = baseline / rows;
        println!("| {name} | {baseline:.2} | {single:.2} | {rows:.3} | {ratio:.0}x |");
    }
}

/// SST from the double loop over all pairs of nodes on, by the same trees.
fn steps() {
    println!("\n| SST, ns per pair | double loop | FTK | pair | rows, packed |");
    println!("|---|---|---|---|---|");
    for (name, file, column) in SETS {
        let Some(trees) = corpus::real(file, column) else { continue };
        let (all, some) = (read(&trees), sample(&trees, 300));
        let mut qtk = Qtk::new(&some, 0.4);
        let slow = per_pair(some.len(), |i, j| qtk.pair(i, j));
        let ftk = published(&SST, &some);
        let prepared = gram::SinglePairs::new(&SST, &some).expect("legal");
        let mut of = prepared.worker();
        let single = per_pair(some.len(), |i, j| of(i, j).expect("small values"));
        let pairs = (all.len() * (all.len() + 1) / 2) as f64 / 1e9;
        let rows = packed(&SST, &all, 1) / pairs;
        println!(
            "| {name} | {slow:.0} | {ftk:.0} ({:.0}x) | {single:.0} ({:.0}x) \
             | {rows:.2} ({:.0}x) |",
            slow / ftk,
            slow / single,
            slow / rows,
        );
    }
}

/// Rows without storing them, as the corpus grows.
fn growth() {
    println!("\n| SST rows, ns per pair, 1 thread, index included | n |  |");
    println!("|---|---|---|");
    let base = corpus::real(SETS[0].1, SETS[0].2)
        .unwrap_or_else(|| corpus::generated(5_000, 1));
    let printed = read(&base).to_brackets();
    let clean = corpus::real(SETS[2].1, SETS[2].2)
        .unwrap_or_else(|| corpus::generated(4_000, 2));
    let phrases = worst::phrases(&read(&clean).to_brackets(), 4);
    for n in [1_000, 4_000, 16_000, 50_000] {
        let perturbed = read(&worst::perturbed(&printed, 1, n));
        let small = read(&phrases[..n.min(phrases.len())]);
        for (name, forest) in [("perturbed questions", perturbed), ("phrases", small)] {
            let n = forest.len();
            let start = Instant::now();
            let seen = |_: usize, row: &[f64]| {
                black_box(row);
            };
            gram::for_each_row(&SST, &forest, Options::default(), seen)
                .expect("small values");
            let pairs = (n * (n + 1) / 2) as f64;
            let nanoseconds = start.elapsed().as_secs_f64() * 1e9 / pairs;
            println!("| {name} | {n} | {nanoseconds:.2} |");
        }
    }
    println!("\n| inner nodes of both trees | QTK, ns | FTK, ns | pair, ns |");
    println!("|---|---|---|---|");
    for inner in [10, 20, 40, 80, 160] {
        let forest = read(&worst::one_production(1, 20, inner));
        let mut qtk = Qtk::new(&forest, 0.4);
        let slow = per_pair(20, |i, j| qtk.pair(i, j));
        let prepared = gram::SinglePairs::new(&SST, &forest).expect("legal");
        let mut of = prepared.worker();
        let single = per_pair(20, |i, j| of(i, j).expect("finite"));
        let ftk = published(&SST, &forest);
        println!("| {inner}, one production | {slow:.0} | {ftk:.0} | {single:.0} |");
    }
}

/// What `by_size` measures of the pairs of some trees: how many pairs of nodes the quadratic
/// and the fast algorithm evaluate, nanoseconds of both, and of this library.
fn of_trees(forest: &Forest) -> [f64; 5] {
    let pairs: Vec<(usize, usize)> =
        (0..forest.len()).flat_map(|i| (0..i).map(move |j| (i, j))).collect();
    let n = pairs.len() as f64;
    let mut qtk = Qtk::new(forest, 0.4);
    let mut ftk = Ftk::new(forest, (Fragments::SubsetTrees, 0.4));
    let all: usize = pairs.iter().map(|&(i, j)| qtk.evaluated(i, j)).sum();
    let equal: usize = pairs.iter().map(|&(i, j)| ftk.evaluated(i, j)).sum();
    let prepared = gram::SinglePairs::new(&SST, forest).expect("legal");
    let mut single = prepared.worker();
    let time = |of: &mut dyn FnMut(usize, usize) -> f64| {
        let run = || black_box(pairs.iter().map(|&(i, j)| of(i, j)).sum::<f64>());
        best(run) * 1e9 / n
    };
    [
        all as f64 / n,
        equal as f64 / n,
        time(&mut |i, j| qtk.pair(i, j)),
        time(&mut |i, j| ftk.pair(i, j)),
        time(&mut |i, j| single(i, j).expect("small values")),
    ]
}

/// Figures 5 and 6 of EACL 2006: SST by the size of trees and by the number of arguments,
/// both published algorithms and this library. `examples/papers/eacl_2006.py` reads it.
fn by_size() {
    println!(
        "\n| SST, ns, trees of | nodes | pairs of nodes | with equal productions \
         | quadratic | fast | pair |\n|---|---|---|---|---|---|---|"
    );
    if let Some(trees) = corpus::real(SETS[2].1, SETS[2].2) {
        let sizes = |forest: &Forest| -> Vec<u64> {
            forest.roots().iter().map(|&root| forest.nodes().size(root)).collect()
        };
        let known = sizes(&read(&trees));
        for size in [10, 20, 30, 50, 70, 100, 130, 160, 200, 250u64] {
            let mut order: Vec<usize> = (0..trees.len()).collect();
            order.sort_by_key(|&index| known[index].abs_diff(size));
            let near = order[..12].iter().map(|&index| trees[index].as_str());
            let forest = Forest::from_bracket_items(near).expect("legal trees");
            let nodes = sizes(&forest).iter().sum::<u64>() as f64 / 12.0;
            let [all, equal, slow, fast, single] = of_trees(&forest);
            println!(
                "| WSJ | {nodes:.1} | {all:.0} | {equal:.1} | {slow:.0} | {fast:.0} \
                 | {single:.0} |"
            );
        }
    }
    let masc = "srl/masc_boundary.tsv.gz";
    let (Some(labels), Some(trees)) = (corpus::real(masc, 0), corpus::real(masc, 5))
    else {
        return;
    };
    let is_argument =
        |(label, tree): (&String, String)| (label == "+1").then_some(tree);
    let arguments: Vec<String> =
        labels.iter().zip(trees).filter_map(is_argument).collect();
    println!(
        "\n| SST, seconds for all pairs of arguments | n | quadratic | fast | pair | rows |"
    );
    println!("|---|---|---|---|---|---|");
    for n in [1_000, 2_000, 4_000, 8_000] {
        let some = sample(&arguments, n);
        let n = some.len();
        let all = (n * (n + 1) / 2) as f64 / 1e9;
        let mut qtk = Qtk::new(&some, 0.4);
        let slow = per_pair(n, |i, j| qtk.pair(i, j)) * all;
        let fast = published(&SST, &some) * all;
        let prepared = gram::SinglePairs::new(&SST, &some).expect("legal");
        let mut of = prepared.worker();
        let single = per_pair(n, |i, j| of(i, j).expect("small values")) * all;
        let rows = packed(&SST, &some, 1);
        println!("| MASC | {n} | {slow:.3} | {fast:.3} | {single:.3} | {rows:.4} |");
    }
}

fn main() {
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|w| w == name);
    println!(
        "| ns per pair | published | pair | one : many | rows, packed | 2 threads | \
         matrix, 1 thread | 2 threads | index, ms |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    if is_wanted("generated") {
        matrices("generated", &corpus::generated(3_000, 1), &ALL);
    }
    for (name, file, column) in SETS.into_iter().filter(|set| is_wanted(set.0)) {
        if let Some(trees) = corpus::real(file, column) {
            matrices(name, &trees, &ALL);
        }
    }
    if is_wanted("code")
        && let Some(mut trees) = corpus::real("code/java_functions.tsv.gz", 1)
    {
        // Two in 57,352 have labels with brackets in them; of those with many thousand
        // nodes no float holds the kernel.
        let is_legal = |tree: &str| Forest::from_bracket_items([tree]).is_ok();
        trees.retain(|tree| tree.matches('(').count() <= 1_000 && is_legal(tree));
        trees.truncate(8_000);
        matrices("code", &trees, &ALL[..2]);
    }
    if is_wanted("worst") {
        worst_cases();
    }
    if is_wanted("steps") {
        steps();
    }
    if is_wanted("growth") {
        growth();
    }
    if is_wanted("papers") {
        by_size();
    }
}
