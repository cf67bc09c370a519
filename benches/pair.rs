//! Kernels of sentence pairs: microseconds per kernel, and the paper's figures 7 and 8.
//!
//! `cargo bench --bench pair` (all), or `cargo bench --bench pair -- kernels` (or `fig7`,
//! `fig8`, `worst`). A harness of its own: best of several runs, as the machine is shared.

#[path = "corpus/mod.rs"]
mod corpus;

use std::time::Instant;

use treekernel_rs::gram::{self, Options};
use treekernel_rs::pair::linking::{self, HeadRules};
use treekernel_rs::pair::{self, Method, PairForest, PairKernel};
use treekernel_rs::{Context, Error, Forest};

const DECAY: f64 = 0.4;
const METHODS: [(&str, Method); 3] =
    [("exact", Method::Exact), ("paper", Method::Paper), ("max", Method::Max)];
/// Correspondences from which on trying all is hopeless: a tenth of a second and more.
const HOPELESS: f64 = 20_000.0;

fn kernel(method: Method) -> PairKernel {
    // Branch and bound may look at more than the default allows.
    PairKernel::new(DECAY).with_method(method).with_max_constraints(10_000_000)
}

fn anchored(left: &[String], right: &[String]) -> PairForest {
    let forests = [left, right].map(|side| {
        Forest::from_bracket_items(side.iter().map(String::as_str)).expect("trees")
    });
    let rules = HeadRules::default();
    linking::anchored(
        [&forests[0], &forests[1]],
        &mut |label, children| Ok(rules.head(label, children)),
        &mut |word, tag| Ok(linking::key(word, tag)),
    )
    .expect("pairs")
}

/// Generated sentences, the second with half of its words from the first.
fn generated(n: usize) -> PairForest {
    let left = corpus::generated(n, 1);
    let mut random = corpus::Random(3);
    let mut right = corpus::generated(n, 2);
    for (text, other) in right.iter_mut().zip(&left) {
        let words: Vec<&str> =
            other.split([' ', ')']).filter(|word| word.starts_with('w')).collect();
        let replaced: Vec<String> = text
            .split(' ')
            .map(|part| {
                let end = part.find(')').unwrap_or(part.len());
                if part.starts_with('w') && !words.is_empty() && random.below(2) == 0 {
                    format!("{}{}", words[random.below(words.len())], &part[end..])
                } else {
                    part.to_owned()
                }
            })
            .collect();
        *text = replaced.join(" ");
    }
    anchored(&left, &right)
}

fn corpora() -> Vec<(&'static str, PairForest)> {
    let mut all = vec![("generated", generated(400))];
    let real =
        [("SNLI", "snli/dev.tsv.gz", 1), ("RTE-3", "rte/rte3_dev_parsed.tsv.gz", 4)];
    for (name, file, column) in real {
        if let Some(left) = corpus::real(file, column) {
            let right = corpus::real(file, column + 1).expect("the same file");
            all.push((name, anchored(&left, &right)));
        }
    }
    all
}

/// The least seconds of some runs.
fn best(runs: usize, mut work: impl FnMut()) -> f64 {
    let mut least = f64::MAX;
    for _ in 0..runs {
        let start = Instant::now();
        work();
        least = least.min(start.elapsed().as_secs_f64());
    }
    least
}

/// Seconds for a matrix, and how many of its values were given up.
fn matrix(
    pairs: &PairForest,
    method: Method,
    n_jobs: usize,
    runs: usize,
) -> (f64, usize) {
    let n = pairs.len();
    let mut out = vec![0.0; n * n];
    let context = Context::default().with_n_jobs(Some(n_jobs));
    let mut given_up = 0;
    let seconds = best(runs, || {
        let kernel = kernel(method);
        let report = gram::fill_with(
            &kernel,
            pairs,
            None,
            Options::default(),
            &mut out,
            &context,
        );
        given_up = report.expect("a matrix").given_up.len();
    });
    (seconds, given_up)
}

fn kernels() {
    println!(
        "kernels at decay {DECAY}: microseconds each, whole matrices, one thread / two"
    );
    for (name, pairs) in corpora() {
        let counts = pairs.n_placeholders().unwrap();
        println!(
            "{name}: {} pairs, {:.2} placeholders each, {} at most",
            pairs.len(),
            counts.iter().sum::<usize>() as f64 / pairs.len() as f64,
            counts.iter().max().unwrap_or(&0),
        );
        let first: Vec<usize> = (0..pairs.len().min(200)).collect();
        let first = pairs.select(&first).expect("pairs");
        for (part, pairs) in [("first 200", &first), ("all", &pairs)] {
            for (label, method) in METHODS {
                let runs = if part == "all" { 2 } else { 5 };
                if part == "all" && method == Method::Max {
                    continue; // minutes, for nothing new
                }
                let n = (pairs.len() * (pairs.len() + 1) / 2) as f64;
                let [one, two] =
                    [1, 2].map(|n_jobs| matrix(pairs, method, n_jobs, runs));
                println!(
                    "  {part:9} {label:5}  {:8.2} / {:8.2} us   {:7.3} / {:7.3} s   {} given up",
                    one.0 / n * 1e6,
                    two.0 / n * 1e6,
                    one.0,
                    two.0,
                    one.1,
                );
            }
        }
    }
}

/// Pairs joined to documents: trees side by side below one root, no placeholder shared
/// between pairs, and none above `limit`.
fn joined(pairs: &PairForest, sizes: &[usize], limit: u32) -> PairForest {
    let mut texts = [Vec::new(), Vec::new()];
    let mut next = 0;
    for &size in sizes {
        let mut document = [String::from("(D"), String::from("(D")];
        let mut shift = 0;
        for _ in 0..size {
            let pair = next % pairs.len();
            next += 1;
            let most = pairs.placeholders(pair).iter().max().map_or(0, |&most| most);
            for (document, text) in
                document.iter_mut().zip(pairs.to_brackets(pair, "@"))
            {
                document.push(' ');
                document.push_str(&renamed(&text, shift, limit));
            }
            shift += most;
        }
        for (texts, document) in texts.iter_mut().zip(document) {
            texts.push(document + ")");
        }
    }
    let [left, right] = texts.each_ref().map(|side| side.iter().map(String::as_str));
    PairForest::from_brackets(left, right, "@").expect("documents")
}

/// Adds `shift` to each placeholder, and drops those above `limit`.
fn renamed(text: &str, shift: u32, limit: u32) -> String {
    let mut parts = text.split('@');
    let mut renamed = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        match part[..end].parse::<u32>() {
            Ok(id) if id + shift <= limit => {
                renamed.extend(["@", &(id + shift).to_string()]);
            }
            Ok(_) => {}
            Err(_) => renamed.push('@'),
        }
        renamed.push_str(&part[end..]);
    }
    renamed
}

/// m! / (m - n)!
fn correspondences(n: usize, m: usize) -> f64 {
    let (small, large) = (n.min(m), n.max(m));
    (large - small + 1..=large).map(|k| k as f64).product()
}

fn figure_7() {
    println!(
        "figure 7: milliseconds per kernel by the product of both numbers of placeholders"
    );
    for (name, pairs) in corpora().into_iter().filter(|(name, _)| *name != "RTE-3") {
        let sizes: Vec<usize> = (0..160).map(|k| 1 + k % 4).collect();
        let documents = joined(&pairs, &sizes, u32::MAX - 1);
        let counts = documents.n_placeholders().unwrap();
        println!("{name}");
        let bins: [(usize, usize); 10] = [
            (1, 2),
            (3, 5),
            (6, 9),
            (10, 15),
            (16, 20),
            (21, 25),
            (26, 30),
            (31, 40),
            (41, 50),
            (71, 100),
        ];
        for (low, high) in bins {
            let mut random = corpus::Random(7);
            let mut chosen: Vec<(usize, usize)> = Vec::new();
            for _ in 0..20_000 {
                let (i, j) = (random.below(160), random.below(160));
                let product = counts[i] * counts[j];
                if (low..=high).contains(&product) && chosen.len() < 200 {
                    chosen.push((i, j));
                }
            }
            if chosen.is_empty() {
                continue;
            }
            print!("  {low:3}-{high:3} ({} kernels)", chosen.len());
            for (label, method) in METHODS {
                let (ms, given_up) = each(&documents, &chosen, method);
                print!("  {label} {ms:8.4}");
                if given_up > 0 {
                    print!(" ({given_up} given up)");
                }
            }
            let hopeful: Vec<(usize, usize)> = chosen
                .iter()
                .copied()
                .filter(|&(i, j)| correspondences(counts[i], counts[j]) <= HOPELESS)
                .collect();
            if !hopeful.is_empty() {
                let (ms, _) = each(&documents, &hopeful, Method::MaxEnumerated);
                print!("  enumerated {ms:8.4}");
            }
            if hopeful.len() < chosen.len() {
                let most = chosen
                    .iter()
                    .map(|&(i, j)| correspondences(counts[i], counts[j]))
                    .fold(0.0, f64::max);
                print!(
                    "  ({} stopped: up to {most:.0e} correspondences)",
                    chosen.len() - hopeful.len()
                );
            }
            println!();
        }
    }
}

/// Milliseconds per kernel of some pairs of documents, made ready once, and how many of
/// them were given up.
fn each(
    documents: &PairForest,
    chosen: &[(usize, usize)],
    method: Method,
) -> (f64, usize) {
    let kernel = kernel(method);
    let pairs = gram::SinglePairs::new(&kernel, documents).expect("documents");
    let mut given_up = 0;
    let seconds = best(3, || {
        given_up = 0;
        let mut of = pairs.worker();
        for &(i, j) in chosen {
            match of(i, j) {
                Ok(_) => {}
                Err(Error::ConstraintLimit { .. }) => given_up += 1,
                Err(error) => panic!("{error}"),
            }
        }
    });
    (seconds / chosen.len() as f64 * 1e3, given_up)
}

fn figure_8() {
    println!(
        "figure 8: seconds for all 820 kernels of 40 documents by the most placeholders"
    );
    for (name, pairs) in corpora().into_iter().filter(|(name, _)| *name != "RTE-3") {
        println!("{name}");
        for limit in 0..=14 {
            let documents = joined(&pairs, &[5; 40], limit);
            let counts = documents.n_placeholders().unwrap();
            print!("  {limit:2}");
            for (label, method) in METHODS {
                let (seconds, given_up) = matrix(&documents, method, 1, 2);
                print!("  {label} {seconds:8.4}");
                if given_up > 0 {
                    print!(" ({given_up} given up)");
                }
            }
            let all: f64 = (0..40)
                .flat_map(|i| (0..=i).map(move |j| (i, j)))
                .map(|(i, j)| correspondences(counts[i], counts[j]))
                .sum();
            if all <= 820.0 * HOPELESS {
                let (seconds, _) = matrix(&documents, Method::MaxEnumerated, 1, 1);
                print!("  enumerated {seconds:8.4}");
            } else {
                print!("  enumerated: hopeless, {all:.0e} correspondences");
            }
            println!();
        }
    }
}

/// The #P-hard family: 30 placeholders a side, each with each.
fn worst() {
    let n = 30;
    let tree = |id: &dyn Fn(usize) -> usize| {
        let child = |k: usize| format!("(L{k} (x:{}))", id(k));
        format!("(R {})", (0..n * n).map(child).collect::<Vec<_>>().join(" "))
    };
    let left = [tree(&|k| k / n), tree(&|k| k % n)];
    let left = left.iter().map(String::as_str);
    let pairs = PairForest::from_brackets(left, ["(Z z)"; 2], ":").expect("pairs");
    for (label, method) in METHODS {
        let kernel = PairKernel::new(DECAY).with_method(method);
        let mut value = Ok(0.0);
        let seconds = best(3, || {
            value = pair::pair(&kernel, (&pairs, 0), (&pairs, 1), false);
        });
        println!("worst case, 30 placeholders, {label}: {seconds:.3} s, {value:?}");
    }
}

fn main() {
    let wanted = std::env::args().nth(1).filter(|argument| !argument.starts_with('-'));
    let parts: [(&str, fn()); 4] = [
        ("kernels", kernels),
        ("fig7", figure_7),
        ("fig8", figure_8),
        ("worst", worst),
    ];
    for (name, part) in parts {
        if wanted.as_deref().is_none_or(|wanted| wanted == name) {
            part();
        }
    }
}
