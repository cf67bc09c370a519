//! Bytes become trees, kernels and numbers: what all fuzz targets share.
//!
//! A fuzzer changes bytes at random, and few random texts are trees that have anything
//! in common. So bytes are read as decisions: which label, how far up the next node
//! stands, which earlier subtree is repeated. Every byte string is some forest, most
//! small changes of it are small changes of the forest, and with few labels and repeated
//! subtrees kernels find matches everywhere. Where the bytes end, decisions are 0.

use std::sync::Arc;

use treekernel_rs::gram::Options;
use treekernel_rs::kernel::{ElasticTree, PartialTree, Subpath, SubsetTree, Subtree};
use treekernel_rs::{Forest, Kernel, NodeId, Nodes, Result};

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

    /// How to compute: mostly on one thread, as a team takes longer than small trees.
    pub fn options(&mut self) -> Options {
        let byte = self.byte();
        let n_jobs = if byte >= 252 { 2 } else { 1 };
        Options::default().with_normalize(byte & 1 == 1).with_n_jobs(Some(n_jobs))
    }
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

/// What calls report to: goes on.
pub fn go_on(_done: usize, _all: usize) -> Result<()> {
    Ok(())
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
        _ => nodes.size(root) <= 16,
    }
}
