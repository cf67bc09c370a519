//! The partial tree kernel as published (Moschitti, ECML 2006): the 1x of all ratios.
//!
//! Nodes are sorted by label and merged, every pair of nodes with equal labels is
//! computed once, and the sum over subsequences of p children takes one pass per p:
//!
//! ```text
//! DPS_1(i,j) = D(i,j)
//! DP_p(i,j)  = DPS_p(i,j) + λ DP_p(i-1,j) + λ DP_p(i,j-1) - λ² DP_p(i-1,j-1)
//! DPS_p(i,j) = D(i,j) DP_{p-1}(i-1,j-1)
//! ```
//!
//! (DP as in the published programs: λ per child left out.)

// Benches and tests take what they need.
#![allow(dead_code, unreachable_pub)]

// Of the module that includes this file: benches use the crate, tests are in it.
use super::{NodeId, Nodes};

/// A node: its label and its children.
type Node = (u32, Vec<u32>);

/// One tree with all its nodes, children first, and their numbers by label.
struct Tree {
    nodes: Vec<Node>,
    by_label: Vec<u32>,
}

/// Trees, and what is kept from pair to pair.
pub struct Classic {
    decay: f64,
    mu: f64,
    trees: Vec<Tree>,
    /// D of all pairs of nodes; -1 where it is not known yet.
    memo: Vec<f64>,
    /// By depth of the recursion: D, DPS, DP.
    grids: Vec<[Vec<f64>; 3]>,
}

impl Classic {
    pub fn new(decay: f64, mu: f64) -> Self {
        Self { decay, mu, trees: Vec::new(), memo: Vec::new(), grids: Vec::new() }
    }

    /// Prepares a tree: the next number.
    pub fn add(&mut self, store: &Nodes, root: NodeId) {
        fn visit(store: &Nodes, node: NodeId, nodes: &mut Vec<Node>) -> u32 {
            let children = store.children(node).iter();
            let children = children.map(|&child| visit(store, child, nodes)).collect();
            nodes.push((store.label(node).0, children));
            nodes.len() as u32 - 1
        }
        let mut nodes = Vec::new();
        visit(store, root, &mut nodes);
        let mut by_label: Vec<u32> = (0..nodes.len() as u32).collect();
        by_label.sort_by_key(|&node| nodes[node as usize].0);
        self.trees.push(Tree { nodes, by_label });
    }

    /// K of two trees.
    pub fn pair(&mut self, a: usize, b: usize) -> f64 {
        let (a, b) = (&self.trees[a], &self.trees[b]);
        self.memo.clear();
        self.memo.resize(a.nodes.len() * b.nodes.len(), -1.0);
        let label_a = |at: usize| a.nodes[a.by_label[at] as usize].0;
        let label_b = |at: usize| b.nodes[b.by_label[at] as usize].0;
        let (n, m) = (a.nodes.len(), b.nodes.len());
        let (mut i, mut j, mut sum) = (0, 0, 0.0);
        let mut run = Run {
            decay: self.decay,
            mu: self.mu,
            a: &a.nodes,
            b: &b.nodes,
            memo: &mut self.memo,
            grids: &mut self.grids,
        };
        while i < n && j < m {
            let label = label_a(i);
            if label < label_b(j) {
                i += 1;
                continue;
            }
            if label > label_b(j) {
                j += 1;
                continue;
            }
            let start = j;
            while i < n && label_a(i) == label {
                j = start;
                while j < m && label_b(j) == label {
                    sum += run.delta(a.by_label[i], b.by_label[j], 0);
                    j += 1;
                }
                i += 1;
            }
        }
        sum
    }
}

struct Run<'a> {
    decay: f64,
    mu: f64,
    a: &'a [Node],
    b: &'a [Node],
    memo: &'a mut [f64],
    grids: &'a mut Vec<[Vec<f64>; 3]>,
}

impl Run<'_> {
    fn delta(&mut self, u: u32, v: u32, depth: usize) -> f64 {
        let ((label, us), (other, vs)) = (&self.a[u as usize], &self.b[v as usize]);
        if label != other {
            return 0.0;
        }
        let place = u as usize * self.b.len() + v as usize;
        if self.memo[place] >= 0.0 {
            return self.memo[place];
        }
        let mut sum = self.decay * self.decay;
        if !us.is_empty() && !vs.is_empty() {
            sum += self.children(us, vs, depth);
        }
        self.memo[place] = self.mu * sum;
        self.memo[place]
    }

    fn children(&mut self, us: &[u32], vs: &[u32], depth: usize) -> f64 {
        if self.grids.len() == depth {
            self.grids.push(<[Vec<f64>; 3]>::default());
        }
        let [mut d, mut dps, mut dp] = std::mem::take(&mut self.grids[depth]);
        // Row and column 0 stand for no child.
        let (n, m) = (us.len() + 1, vs.len() + 1);
        for grid in [&mut d, &mut dps, &mut dp] {
            grid.clear();
            grid.resize(n * m, 0.0);
        }
        let mut sum = 0.0;
        for i in 1..n {
            for j in 1..m {
                let value = self.delta(us[i - 1], vs[j - 1], depth + 1);
                (d[i * m + j], dps[i * m + j]) = (value, value);
                sum += value;
            }
        }
        let (once, twice) = (self.decay, self.decay * self.decay);
        for length in 2..n.min(m) {
            // Shorter beginnings hold no chain of this length.
            dp[(length - 2) * m..(length - 1) * m].fill(0.0);
            for i in length - 1..n {
                dp[i * m + length - 2] = 0.0;
                for at in i * m + length - 1..(i + 1) * m {
                    dp[at] = dps[at] + once * (dp[at - m] + dp[at - 1])
                        - twice * dp[at - m - 1];
                }
            }
            for i in length..n {
                for at in i * m + length..(i + 1) * m {
                    dps[at] = d[at] * dp[at - m - 1];
                    sum += dps[at];
                }
            }
        }
        self.grids[depth] = [d, dps, dp];
        sum
    }
}
