//! Models and perceptrons: what a score and an update take as the model grows, as a
//! multiple of the published algorithms measured in the same run, and whole passes.
//!
//! `cargo bench --bench dag` (some minutes; `-- growth`, `-- pass`, `-- paper`, `-- code` for
//! a part, the last with Java functions where they are at hand; `-- full` for the paper's
//! table over all instances by the sum over support trees, too).
//! λ = μ = 0.4, one thread. Streams: argument boundaries of MASC (`srl/masc_boundary`)
//! where they are at hand; phrases of generated sentences always.
//!
//! | column | what is timed, microseconds per tree |
//! |---|---|
//! | sum | Σ α_i K(x_i, x) by the published pairwise algorithm, prepared trees |
//! | pairs | the same by the library's prepared pairs, `gram::SinglePairs` |
//! | each once | SST: every equal-production subtree visited once, as published (`baseline/dag`) |
//! | score | `Model::score` of 4,000 trees that come next in the stream |
//! | update | `Model::add` of 1,000 of them |

#[path = "baseline/mod.rs"]
mod baseline;
#[path = "corpus/mod.rs"]
mod corpus;
#[path = "baseline/dag.rs"]
mod published;
#[path = "worst/mod.rs"]
mod worst;

use baseline::{EtClassic, Fragments, Ftk, PtClassic, PtParams};
use corpus::Random;
use published::EachOnce;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;
use treekernel_rs::dag::{
    Features, Model, ModelOptions, Perceptron, PolynomialKernel, Vote,
};
use treekernel_rs::kernel::{
    ElasticTree, IntoKernel, PartialTree, SubsetTree, Subtree,
};
use treekernel_rs::{Context, Forest, Kernel, gram};

const ST: Subtree = Subtree::new(0.4);
const SST: SubsetTree = SubsetTree::new(0.4);
const PT: PartialTree = PartialTree::new(0.4, 0.4);
const ET: ElasticTree = ElasticTree::new(0.4);

fn seconds(run: impl FnOnce()) -> f64 {
    let start = Instant::now();
    run();
    start.elapsed().as_secs_f64()
}

/// The best of some runs, in microseconds for each of `n`.
fn best(n: usize, mut run: impl FnMut()) -> f64 {
    let (mut best, mut spent) = (f64::INFINITY, 0.0);
    while spent < 1.0 {
        let took = seconds(&mut run);
        best = best.min(took);
        spent += took.max(0.02);
    }
    best * 1e6 / n as f64
}

struct Stream {
    name: &'static str,
    texts: Vec<String>,
    labels: Vec<f64>,
}

fn masc() -> Option<Stream> {
    let texts = corpus::real("srl/masc_boundary.tsv.gz", 5)?;
    let labels = corpus::real("srl/masc_boundary.tsv.gz", 0)?;
    let labels = labels.iter().map(|label| label.parse().expect("+1 or -1")).collect();
    Some(Stream { name: "MASC", texts, labels })
}

/// Phrases, to be told apart by whether a prepositional phrase is in them, with noise.
fn generated() -> Stream {
    // Enough for a model of 60,000 subtrees: with so much noise it never stops growing.
    let mut texts = worst::phrases(&corpus::generated(30_000, 1), 4);
    texts.truncate(80_000);
    let mut random = Random(2);
    let mut label = |text: &String| {
        let is_noise = random.below(5) == 0;
        if text.contains("(PP") == is_noise { -1.0 } else { 1.0 }
    };
    let labels = texts.iter().map(&mut label).collect();
    Stream { name: "generated", texts, labels }
}

fn read(texts: &[String]) -> Forest {
    Forest::from_bracket_items(texts.iter().map(String::as_str)).expect("legal trees")
}

fn options(normalize: bool) -> ModelOptions {
    ModelOptions::default().with_normalize(normalize)
}

fn perceptron(kernel: &Arc<dyn Kernel>, normalize: bool, vote: Vote) -> Perceptron {
    Perceptron::new(kernel, options(normalize), vote, None, 1.0).expect("in range")
}

/// The published algorithm's kernel of two trees of a forest.
fn classic<'a>(
    kernel: &dyn Kernel,
    forest: &'a Forest,
) -> Box<dyn FnMut(usize, usize) -> f64 + 'a> {
    match kernel.name() {
        "Subtree" => {
            let mut ftk = Ftk::new(forest, (Fragments::Subtrees, 0.4));
            Box::new(move |i, j| ftk.pair(i, j))
        }
        "SubsetTree" => {
            let mut ftk = Ftk::new(forest, (Fragments::SubsetTrees, 0.4));
            Box::new(move |i, j| ftk.pair(i, j))
        }
        "PartialTree" => {
            let mut classic = PtClassic::new(forest, PtParams::plain(0.4, 0.4));
            Box::new(move |i, j| classic.pair(i, j))
        }
        _ => {
            let mut classic = EtClassic::new(forest, 0.4);
            Box::new(move |i, j| classic.pair(i, j))
        }
    }
}

/// Scores and updates at some sizes of the model.
fn growth(stream: &Stream, title: &str, kernel: &Arc<dyn Kernel>, sizes: &[usize]) {
    const AHEAD: usize = 4_000;
    let forest = read(&stream.texts);
    let n = forest.len() - AHEAD;
    let mut own = perceptron(kernel, false, Vote::Last);
    // Support trees, and the number of the next tree.
    let (mut supports, mut next) = (Vec::new(), 0);
    let mut sizes = sizes.iter().peekable();
    while next < n
        && let Some(&&size) = sizes.peek()
    {
        // Small steps: so it is known which tree was a mistake.
        let before = own.n_mistakes();
        let step = forest.select([next]);
        own.learn(&step, &stream.labels[next..=next], None).expect("finite");
        if own.n_mistakes() > before {
            supports.push((next, stream.labels[next]));
        }
        next += 1;
        if own.last().n_nodes() >= size {
            sizes.next();
            row(stream, title, &**kernel, (&own, &supports), &forest, next);
        }
    }
    if sizes.peek().is_some() {
        row(stream, title, &**kernel, (&own, &supports), &forest, next);
    }
}

fn row(
    stream: &Stream,
    title: &str,
    kernel: &dyn Kernel,
    (own, supports): (&Perceptron, &[(usize, f64)]),
    forest: &Forest,
    next: usize,
) {
    let model = own.last();
    let ahead = |n: usize| (next..next + n).collect::<Vec<_>>();
    let step = if kernel.name() == "ElasticTree" { 200 } else { 4_000 };
    let batch = read(&forest.select(ahead(step)).to_brackets());
    let mut scores = vec![0.0; step];
    let score = best(step, || {
        model
            .score_into_with(
                &batch,
                &mut scores,
                &Context::default().with_n_jobs(Some(1)),
            )
            .expect("finite");
    });
    // The baselines over a forest of support trees and the trees to be scored.
    let few = 20;
    let which = supports.iter().map(|support| support.0).chain(ahead(few));
    let small = forest.select(which);
    let small = read(&small.to_brackets());
    let sum_of = |of: &mut dyn FnMut(usize, usize) -> f64| -> f64 {
        let mut total = 0.0;
        let took = best(few, || {
            for x in 0..few {
                let terms = supports.iter().enumerate();
                let sum: f64 =
                    terms.map(|(i, s)| s.1 * of(i, supports.len() + x)).sum();
                total = black_box(sum);
            }
        });
        assert!((total - scores[few - 1]).abs() < 1e-6 * total.abs().max(1.0));
        took
    };
    let sum = sum_of(&mut *classic(kernel, &small));
    let pairs = gram::SinglePairs::new(kernel, &small).expect("legal");
    let mut of = pairs.worker();
    let pairs = sum_of(&mut |i, j| of(i, j).expect("small values"));
    let mut once = String::from("-");
    if kernel.name() == "SubsetTree" {
        let which: Vec<usize> =
            supports.iter().map(|s| s.0).chain(ahead(1_000)).collect();
        let mid = read(&forest.select(which).to_brackets());
        let mut graph = EachOnce::new(&mid, 0.4);
        for (at, support) in supports.iter().enumerate() {
            graph.add(at, support.1);
        }
        let took = best(1_000, || {
            for (x, score) in scores[..1_000].iter().enumerate() {
                let value = graph.score(supports.len() + x);
                assert!((value - score).abs() < 1e-6 * value.abs().max(1.0));
            }
        });
        once = format!("{took:.2} ({:.1}x)", took / score);
    }
    let news = read(&forest.select(ahead(1_000)).to_brackets());
    let mut update = f64::INFINITY;
    for _ in 0..10 {
        let mut copy = model.clone();
        let took = seconds(|| {
            copy.add(&news, &[1.0; 1_000]).expect("small values");
        });
        update = update.min(took * 1e6 / 1_000.0);
    }
    println!(
        "| {} {title} | {} | {} | {sum:.1} ({:.0}x) | {pairs:.1} ({:.0}x) | {once} | {score:.2} \
         | {update:.2} |",
        stream.name,
        model.n_nodes(),
        supports.len(),
        sum / score,
        pairs / score,
    );
}

/// Whole passes, parsing included.
fn passes(stream: &Stream) {
    let n = stream.texts.len();
    println!(
        "\n| a pass over {n} trees of {} | seconds | of it parsing | mistakes | subtrees | \
         nodes of support trees | model, MB | perceptron, MB |",
        stream.name
    );
    println!("|---|---|---|---|---|---|---|---|");
    let (st, sst, pt) =
        ((&ST).into_kernel(), (&SST).into_kernel(), (&PT).into_kernel());
    for (title, kernel, normalize, vote) in [
        ("ST", &st, false, Vote::Last),
        ("SST", &sst, false, Vote::Last),
        ("SST, average", &sst, false, Vote::Average),
        ("SST, vote", &sst, false, Vote::Vote),
        ("SST normalised", &sst, true, Vote::Last),
        ("PT", &pt, false, Vote::Last),
        ("PT normalised", &pt, true, Vote::Last),
    ] {
        let (mut least, mut parsing) = (f64::INFINITY, 0.0);
        let mut figures = String::new();
        for _ in 0..if title.starts_with("PT") { 1 } else { 3 } {
            let mut own = perceptron(kernel, normalize, vote);
            let start = Instant::now();
            let forest = read(&stream.texts);
            let parsed = start.elapsed().as_secs_f64();
            own.learn(&forest, &stream.labels, None).expect("small values");
            let took = start.elapsed().as_secs_f64();
            if took < least {
                (least, parsing) = (took, parsed);
            }
            let model = own.last();
            figures = format!(
                "{} | {} | {} ({:.1}x) | {:.1} | {:.1}",
                own.n_mistakes(),
                model.n_nodes(),
                model.n_tree_nodes(),
                model.n_tree_nodes() as f64 / model.n_nodes() as f64,
                model.nbytes() as f64 / 1e6,
                own.nbytes() as f64 / 1e6,
            );
        }
        println!("| {title} | {least:.2} | {parsing:.2} | {figures} |");
    }
}

/// Whether a label is in the tree, for each label that is not a word.
fn label_features(forest: &Forest) -> (usize, Vec<i64>, Vec<i64>, Vec<f64>) {
    let nodes = forest.nodes();
    let (mut indptr, mut indices) = (vec![0], Vec::new());
    for &root in forest.roots() {
        let start = indices.len();
        let inner = nodes.subtrees(root).into_iter().filter(|&n| !nodes.is_leaf(n));
        indices.extend(inner.map(|n| nodes.label(n).index() as i64));
        indices[start..].sort_unstable();
        let mut row = indices.split_off(start);
        row.dedup();
        indices.extend(row);
        indptr.push(indices.len() as i64);
    }
    let data = vec![1.0; indices.len()];
    (nodes.labels().len(), indptr, indices, data)
}

/// The paper's figures 3 to 5: standard perceptron and voted perceptron over the graph.
fn paper(stream: &Stream, is_full: bool) {
    println!(
        "\n| {}, first trees | standard perceptron, s | its nodes | voted perceptron, s | \
         its subtrees | SST + poly: standard, s | nodes | voted, s | subtrees |",
        stream.name
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let poly = PolynomialKernel::new(3, 1.0, 1.0);
    for n in [25_000, 50_000, 100_000, 200_000, 489_974] {
        if n > stream.texts.len() {
            break;
        }
        let forest = read(&stream.texts[..n]);
        let (n_columns, indptr, indices, data) = label_features(&forest);
        let features = Features::Sparse {
            n_columns,
            indptr: &indptr,
            indices: &indices,
            data: &data,
        };
        let labels = &stream.labels[..n];
        let mut cells = Vec::new();
        for (vectors, mix) in [(None, 1.0), (Some(poly), 0.9)] {
            let given = vectors.map(|_| features);
            let mut own =
                Perceptron::new(&SST, options(false), Vote::Vote, vectors, mix)
                    .expect("legal");
            let took = seconds(|| {
                own.learn(&forest, labels, given).expect("finite");
            });
            let row = |i: usize| &indices[indptr[i] as usize..indptr[i + 1] as usize];
            let mut standard = f64::NAN;
            if n <= 50_000 || is_full {
                let mut ftk = Ftk::new(&forest, (Fragments::SubsetTrees, 0.4));
                let mut supports: Vec<usize> = Vec::new();
                standard = seconds(|| {
                    for x in 0..n {
                        let mut score = 0.0;
                        for &i in &supports {
                            let mut k = mix * ftk.pair(i, x);
                            if vectors.is_some() {
                                let dot = equal(row(i), row(x)) as f64;
                                k += (1.0 - mix) * (dot + 1.0).powi(3);
                            }
                            score += labels[i] * k;
                        }
                        if labels[x] * score <= 0.0 {
                            supports.push(x);
                        }
                    }
                });
            }
            cells.push(format!(
                "{standard:.1} | {} | {took:.2} | {} |",
                own.last().n_tree_nodes(),
                own.last().n_nodes()
            ));
        }
        println!("| {n} | {} {}", cells[0], cells[1]);
    }
}

/// Decisions of models that change no more, on Java functions: larger trees than sentences
/// have, and more alike. Beside them the matrix with the support trees, index included.
fn code() {
    const SUPPORTS: usize = 5_000;
    const ASKED: usize = 1_000;
    let Some(mut trees) = corpus::real("code/java_functions.tsv.gz", 1) else { return };
    let is_legal = |tree: &str| Forest::from_bracket_items([tree]).is_ok();
    trees.retain(|tree| tree.matches('(').count() <= 1_000 && is_legal(tree));
    let supports = read(&trees[..SUPPORTS]);
    let asked = read(&trees[SUPPORTS..SUPPORTS + ASKED]);
    let alphas: Vec<f64> = (0..SUPPORTS).map(|i| [1.0, -1.0][i % 2]).collect();
    println!(
        "\n| decisions, µs per function | subtrees | first | at rest | matrix | model, MB |"
    );
    println!("|---|---|---|---|---|---|");
    for (title, kernel) in [
        ("ST", (&ST).into_kernel()),
        ("SST", (&SST).into_kernel()),
        ("PT", (&PT).into_kernel()),
    ] {
        let mut model = Model::new(&kernel, options(false)).expect("in range");
        model.add(&supports, &alphas).expect("small values");
        let few = asked.select(0..20);
        let mut scores = vec![0.0; ASKED];
        let mut score = |forest: &Forest| {
            let n = forest.len();
            let out = &mut scores[..n];
            seconds(|| {
                model
                    .score_into_with(
                        forest,
                        out,
                        &Context::default().with_n_jobs(Some(1)),
                    )
                    .expect("small values");
            }) * 1e6
                / n as f64
        };
        let first = score(&few);
        // Tables are made on the way.
        let rest = (0..5).map(|_| score(&asked)).fold(f64::INFINITY, f64::min);
        let mut out = vec![0.0; ASKED * SUPPORTS];
        let options = gram::Options::default();
        let matrix = seconds(|| {
            gram::fill_with(
                &*kernel,
                &asked,
                Some(&supports),
                options,
                &mut out,
                &Context::default().with_n_jobs(Some(1)),
            )
            .expect("small values");
        });
        println!(
            "| {title} | {} | {first:.1} | {rest:.1} | {:.1} | {:.1} |",
            model.n_nodes(),
            matrix * 1e6 / ASKED as f64,
            model.nbytes() as f64 / 1e6,
        );
    }
}

/// How many numbers two sorted lists share.
fn equal(a: &[i64], b: &[i64]) -> usize {
    let (mut i, mut j, mut n) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        n += usize::from(a[i] == b[j]);
        let (x, y) = (a[i], b[j]);
        i += usize::from(x <= y);
        j += usize::from(y <= x);
    }
    n
}

fn main() {
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|w| w == name);
    let streams: Vec<Stream> =
        [Some(generated()), masc()].into_iter().flatten().collect();
    if is_wanted("growth") {
        println!(
            "| µs per tree | subtrees | support trees | sum | pairs | each once | score | \
             update |"
        );
        println!("|---|---|---|---|---|---|---|---|");
        for stream in &streams {
            growth(
                stream,
                "SST",
                &(&SST).into_kernel(),
                &[1_000, 3_000, 10_000, 30_000, 60_000],
            );
            growth(stream, "ST", &(&ST).into_kernel(), &[10_000]);
            growth(stream, "PT", &(&PT).into_kernel(), &[1_000, 10_000, 30_000]);
            growth(stream, "ET", &(&ET).into_kernel(), &[1_000, 10_000]);
        }
    }
    if is_wanted("pass") {
        streams.iter().for_each(passes);
    }
    if is_wanted("code") {
        code();
    }
    let is_full = wanted.iter().any(|w| w == "full");
    if is_wanted("paper") || is_full {
        streams.iter().skip(1).for_each(|stream| paper(stream, is_full));
    }
}
