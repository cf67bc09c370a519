//! Bytes become trees, kernels and numbers: what all fuzz targets share.
//!
//! A fuzzer changes bytes at random, and few random texts are trees that have anything
//! in common. So bytes are read as decisions: which label, how far up the next node
//! stands, which earlier subtree is repeated. Every byte string is some forest, most
//! small changes of it are small changes of the forest, and with few labels and repeated
//! subtrees kernels find matches everywhere. Where the bytes end, decisions are 0.

use std::sync::Arc;

use treekernel_rs::dag::{self, Model};
use treekernel_rs::gram::{self, Options};
use treekernel_rs::kernel::{
    Composed, Counts, ElasticTree, LabelPairs, Operation, PartialTree,
    SmoothedPartialTree, Subpath, SubsetTree, Subtree, Weighted, Weights,
};
use treekernel_rs::{Context, Error, Forest, Kernel, NodeId, Nodes};

/// Labels of ordinary trees.
pub const LABELS: &[&str] = &["a", "b", "c", "d"];

/// The bytes that are left to decide by.
pub struct Source<'a> {
    bytes: &'a [u8],
}

impl<'a> Source<'a> {
    /// Decides by these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Whether all bytes were used.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The next byte; 0 after the last one.
    pub fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        first
    }

    /// A yes or no.
    pub fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// A number below `n`, which is at most 256.
    pub fn below(&mut self, n: usize) -> usize {
        usize::from(self.byte()) % n
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// Between one and `max_trees` trees of at most `max_nodes` nodes each.
    pub fn forest(
        &mut self,
        names: &[&str],
        max_trees: usize,
        max_nodes: usize,
    ) -> Forest {
        let arrays = self.arrays(names, max_trees, max_nodes);
        Forest::from_arrays(names, &arrays.labels, &arrays.parents, &arrays.offsets)
            .expect("a preorder of trees")
    }

    fn arrays(
        &mut self,
        names: &[&str],
        max_trees: usize,
        max_nodes: usize,
    ) -> Preorder {
        let mut all = Preorder::default();
        for _ in 0..=self.below(max_trees) {
            let end = all.labels.len() + 1 + self.below(max_nodes);
            all.offsets.push(all.labels.len() as i64);
            // The last node and its ancestors: where the next node may hang.
            let mut path: Vec<i64> = Vec::new();
            while all.labels.len() < end && !(self.is_empty() && !path.is_empty()) {
                let byte = self.byte();
                let up = [0, 0, 1, 1, 1, 2, 3, 9][usize::from(byte >> 2 & 7)];
                let depth = path.len().saturating_sub(up).max(1);
                path.truncate(depth);
                let parent = path.last().copied().unwrap_or(-1);
                let here = all.labels.len();
                let copied =
                    if byte >> 5 == 7 && here > 0 { self.below(here) } else { here };
                if copied == here || all.copy(copied, parent, end).is_none() {
                    let label = usize::from(byte & 3) + 4 * usize::from(byte >> 5 & 1);
                    all.labels.push((label % names.len()) as i64);
                    all.parents.push(parent);
                }
                path.push(here as i64);
            }
        }
        all
    }

    /// A kernel, any of the five, with parameters of every kind.
    pub fn kernel(&mut self) -> Arc<dyn Kernel> {
        let decay = self.pick(&[0.4, 1.0, 0.5, 0.07, 0.999, 1e-3]);
        let mu = self.pick(&[0.4, 1.0, 0.5, 0.02]);
        let extra = self.pick(&[0.0, 1.0, 0.25, 4.0, 100.0]);
        let longest = self.pick(&[None, Some(1), Some(2), Some(3), Some(1000)]);
        self.kernel_of(5, decay, mu, extra, longest)
    }

    /// A kernel whose values for small trees are sums of few powers of 2: exact in
    /// floats, so that signs of scores are not up to rounding.
    pub fn exact_kernel(&mut self) -> Arc<dyn Kernel> {
        let decay = self.pick(&[0.5, 1.0, 0.25]);
        let mu = self.pick(&[0.5, 1.0]);
        let extra = self.pick(&[0.0, 1.0, 0.25, 4.0]);
        let longest = self.pick(&[None, Some(1), Some(2)]);
        self.kernel_of(4, decay, mu, extra, longest)
    }

    /// The one place where kernels are made.
    fn kernel_of(
        &mut self,
        n: usize,
        decay: f64,
        mu: f64,
        extra: f64,
        max_children: Option<usize>,
    ) -> Arc<dyn Kernel> {
        match self.below(n) {
            0 => Arc::new(SubsetTree::new(decay).with_leaf_weight(extra)),
            1 => {
                let kernel = PartialTree::new(decay, mu).with_leaf_factor(extra);
                Arc::new(kernel.with_max_children(max_children))
            }
            2 => Arc::new(ElasticTree::new(decay)),
            3 => Arc::new(Subtree::new(decay).with_leaf_weight(extra)),
            _ => Arc::new(Subpath::new(decay)),
        }
    }

    /// A kernel made of kernels, with weights, or of labels that are alike.
    pub fn made_kernel(&mut self) -> Arc<dyn Kernel> {
        self.made_of(2)
    }

    fn made_of(&mut self, depth: usize) -> Arc<dyn Kernel> {
        if depth == 0 {
            return self.exact_kernel();
        }
        let op = self.below(10);
        if op == 0 {
            return self.weighted();
        }
        if op == 1 {
            return self.smoothed();
        }
        let part = if self.flag() { self.weighted() } else { self.made_of(depth - 1) };
        let unit = |part| composed(Operation::Normalized, vec![part]);
        match op {
            2 => unit(part),
            3 => {
                let factor = self.pick(&[0.0, 0.5, 3.0]);
                composed(Operation::Scaled(factor), vec![part])
            }
            4 => composed(Operation::Power(Some(1 + self.below(3))), vec![part]),
            5 => {
                let coef0 = self.pick(&[0.0, 1.0, 0.25]);
                let degree = Some(1 + self.below(3));
                composed(Operation::Polynomial { degree, coef0 }, vec![part])
            }
            // Distances of large kernels are what rounding left of them.
            6 => {
                let gamma = self.pick(&[0.5, 1e-3, 10.0]);
                composed(Operation::Gaussian(gamma), vec![unit(part)])
            }
            7 => {
                let other = self.made_of(depth - 1);
                composed(Operation::Product, vec![part, other])
            }
            _ => {
                let other = self.made_of(depth - 1);
                composed(Operation::Sum, vec![part, other])
            }
        }
    }

    /// A kernel with weights of labels and productions, or whose counts are not linear.
    fn weighted(&mut self) -> Arc<dyn Kernel> {
        let mut weights = Weights::new();
        for _ in 0..self.below(4) {
            let [label, weight] = [self.below(LABELS.len()), self.below(WEIGHTS.len())];
            let (label, weight) = (LABELS[label], WEIGHTS[weight]);
            let children = [self.pick(LABELS), self.pick(LABELS)];
            let n = self.below(3);
            let set = match n {
                0 => weights.set_label(label, weight),
                n => {
                    weights.set_production(label, children[..n].iter().copied(), weight)
                }
            };
            set.expect("a weight in range");
        }
        let weights = weights.with_others(self.pick(WEIGHTS)).expect("in range");
        let counts = self.pick(&[Counts::Linear, Counts::Log, Counts::Set]);
        let kernel = self.exact_kernel();
        let own = Arc::clone(&kernel);
        Weighted::new(kernel, Arc::new(weights), counts)
            .map_or(own, |kernel| Arc::new(kernel) as _)
    }

    /// A partial tree kernel under which neighbours in the list of labels are alike: few
    /// enough for a kernel without negative eigenvalues.
    fn smoothed(&mut self) -> Arc<dyn Kernel> {
        let alike: Vec<_> = LABELS
            .windows(2)
            .filter_map(|pair| {
                let value = self.pick(&[0.0, 0.5, 0.25, 1e-3]);
                (value > 0.0).then_some((pair[0], pair[1], value))
            })
            .collect();
        let tree = PartialTree::new(self.pick(&[0.5, 1.0]), self.pick(&[0.5, 1.0]));
        Arc::new(SmoothedPartialTree::new(tree, LabelPairs::new(alike)))
    }

    /// How to compute: mostly on one thread, as a team takes longer than small trees.
    pub fn options(&mut self) -> (Options, Context<'static>) {
        let byte = self.byte();
        let context = if byte >= 252 { jobs(2) } else { jobs(1) };
        (Options::default().with_normalize(byte & 1 == 1), context)
    }
}

const WEIGHTS: &[f64] = &[1.0, 0.0, 0.5, 2.0];

fn composed(operation: Operation, parts: Vec<Arc<dyn Kernel>>) -> Arc<dyn Kernel> {
    Arc::new(Composed::new(operation, parts).expect("as many parts as it takes"))
}

/// Trees as flat arrays that grow.
#[derive(Default)]
struct Preorder {
    labels: Vec<i64>,
    parents: Vec<i64>,
    offsets: Vec<i64>,
}

impl Preorder {
    /// Repeats the subtree at `from` below `parent`; None, and nothing done, where it
    /// would not fit.
    fn copy(&mut self, from: usize, parent: i64, end: usize) -> Option<()> {
        let here = self.labels.len();
        let outside = |at: usize| self.parents[at] < from as i64;
        let stop = (from + 1..here).find(|&at| outside(at)).unwrap_or(here);
        if here + (stop - from) > end {
            return None;
        }
        for at in from..stop {
            let shifted = self.parents[at] + (here - from) as i64;
            self.parents.push(if at == from { parent } else { shifted });
            self.labels.push(self.labels[at]);
        }
        Some(())
    }
}

/// With so many threads.
pub fn jobs(n: usize) -> Context<'static> {
    Context::default().with_n_jobs(Some(n))
}

/// Whether two numbers are equal but for rounding, beside terms of this size.
pub fn close(a: f64, b: f64, size: f64) -> bool {
    (a - b).abs() <= 1e-9 * size.abs().max(a.abs()).max(b.abs()) || a == b
}

/// Whether the definition of the kernel takes some microseconds for these trees: it is
/// exponential in the children (PT and ET), and recurses.
pub fn is_small(kernel: &dyn Kernel, nodes: &Nodes, root: NodeId) -> bool {
    let widest = || {
        let below = nodes.subtrees(root).into_iter().map(|n| nodes.children(n).len());
        below.max().unwrap_or(0)
    };
    match kernel.name() {
        "ElasticTree" => nodes.size(root) <= 6,
        "PartialTree" => nodes.size(root) <= 10 && widest() <= 4,
        "SubsetTree" | "Subtree" | "Subpath" => nodes.size(root) <= 16,
        // Of unknown parts.
        _ => nodes.size(root) <= 6,
    }
}

/// Holds every way to compute a kernel, of trees of so many nodes, to each other and to
/// the definition: single pairs, rows, matrices of one forest and of two, of doubles and
/// floats, diagonals, and a model of one tree where there are models.
pub fn every_way(
    source: &mut Source<'_>,
    shared: &Arc<dyn Kernel>,
    (options, context): (Options, Context<'static>),
    max_nodes: usize,
) {
    let kernel = &**shared;
    let x = source.forest(LABELS, 4, max_nodes);
    let y = source.forest(LABELS, 3, max_nodes);
    let all = x.concat(&y).expect("a small forest");
    let (n, n_x) = (all.len(), x.len());

    // 1. Single pairs: finite, symmetric, an inner product.
    let pairs = gram::SinglePairs::new(kernel, &all).expect("kernel in range");
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
        let (right, got) = (kernel.definition(all.nodes(), a, b), raw[i * n + j]);
        assert!(close(got, right, 0.0), "K({i},{j}) {got}, by definition {right}");
    }
    let (a, b) = (all.select([i]), all.select([j]));
    let got = gram::pair_with(kernel, &a, &b, options.normalize, &context);
    let got = got.expect("a small value");
    check("pair", i, j, got);

    // 3. Matrices: of one forest, of two with one store and with two, of floats.
    let square =
        gram::gram_with(kernel, &all, None, options, &context).expect("small values");
    square.indexed_iter().for_each(|((i, j), &got)| check("gram(X)", i, j, got));
    let wide =
        gram::gram_with(kernel, &x, Some(&y), options, &context).expect("small values");
    wide.indexed_iter().for_each(|((i, j), &got)| check("gram(X, Y)", i, n_x + j, got));
    let mut floats = vec![0.0f32; n * n_x];
    let some = all.select(0..n_x);
    match gram::fill_with(kernel, &all, Some(&some), options, &mut floats, &context) {
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
    let rows = gram::KernelRows::new_with(kernel, &all, options, &context)
        .expect("small values");
    let mut row = vec![0.0; n];
    for i in (0..n).rev() {
        rows.row_with(i, &mut row, &context).expect("small values");
        row.iter().enumerate().for_each(|(j, &got)| check("row", i, j, got));
    }
    let diagonal = gram::diagonal_with(kernel, &all, options, &context);
    let diagonal = diagonal.expect("small values").0;
    diagonal.iter().enumerate().for_each(|(i, &got)| check("diagonal", i, i, got));

    // 5. A model of one tree scores its kernels.
    let model_options = dag::ModelOptions::default().with_normalize(options.normalize);
    let Ok(mut model) = Model::new(shared, model_options) else { return };
    model.add_with(&a, &[1.0], &context).expect("a small tree");
    let scores = model.score_with(&all, &context).expect("small scores").0;
    scores.iter().enumerate().for_each(|(j, &got)| check("score", i, j, got));
}
