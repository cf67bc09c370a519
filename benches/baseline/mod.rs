//! The kernels as published, pair by pair: the 1x of every ratio of speed.
//!
//! | baseline | algorithm | time per pair of trees |
//! |---|---|---|
//! | [`Qtk`] | SST, Δ over all pairs of nodes (Collins & Duffy 2002) | O(\|a\| \|b\|) |
//! | [`Ftk`] | ST and SST, Δ over pairs of equal productions (Moschitti, EACL 2006) | O(\|a\| + \|b\|) on average |
//! | [`PtClassic`] | PT, Δ over pairs of equal labels (Moschitti, ECML 2006) | O(p ρ² \|a\| \|b\|) |
//! | [`EtClassic`] | ET, dense recursion (Kashima & Koyanagi 2002) | O(\|a\| \|b\|) |
//!
//! What the papers prepare once per tree, the sorted node lists, [`new`](Ftk::new)
//! prepares; labels and productions are compared as interned ids, which is kinder than
//! the strings of the papers. Matrices are kept from pair to pair and never cleared as
//! a whole. Beyond that nothing is shared or remembered between pairs, the nodes are the
//! occurrences in the trees, not distinct subtrees, and nothing comes from the library
//! but the reading of trees: a mistake in a kernel there is not repeated here.
//!
//! [`Ftk`] and [`PtClassic`] recurse on depth, as published: some thousand levels fit
//! a usual stack.

// Every bench and test takes what it needs.
#![allow(dead_code, unreachable_pub)]

use std::cmp::Ordering;
use treekernel_rs::Forest;

/// What stands for "no production": that of a leaf.
const LEAF: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Node {
    label: u32,
    production: u32,
    first_child: u32,
    n_children: u32,
}

impl Node {
    fn is_leaf(self) -> bool {
        self.production == LEAF
    }
}

/// All trees, each node as often as it occurs.
struct Trees {
    /// Trees one after another, each in preorder.
    nodes: Vec<Node>,
    /// Child lists one after another; a child is its position within its tree.
    children: Vec<u32>,
    /// Where in `nodes` each tree starts, one more at the end.
    starts: Vec<usize>,
}

/// One tree. Nodes are called by their position: parents come before their children.
#[derive(Clone, Copy)]
struct Tree<'a> {
    nodes: &'a [Node],
    lists: &'a [u32],
}

impl<'a> Tree<'a> {
    fn children(self, node: u32) -> &'a [u32] {
        let Node { first_child, n_children, .. } = self.nodes[node as usize];
        &self.lists[first_child as usize..][..n_children as usize]
    }
}

impl Trees {
    fn new(forest: &Forest) -> Self {
        let store = forest.nodes();
        let mut trees = Self { nodes: vec![], children: vec![], starts: vec![0] };
        // A node of the forest, and its place in a child list.
        let mut todo = Vec::new();
        for &root in forest.roots() {
            let start = trees.nodes.len();
            todo.push((root, None));
            while let Some((node, place)) = todo.pop() {
                if let Some(place) = place {
                    trees.children[place] = (trees.nodes.len() - start) as u32;
                }
                let below = store.children(node);
                let first = trees.children.len();
                trees.nodes.push(Node {
                    label: store.label(node).index() as u32,
                    production: store
                        .production(node)
                        .map_or(LEAF, |p| p.index() as u32),
                    first_child: first as u32,
                    n_children: below.len() as u32,
                });
                trees.children.resize(first + below.len(), 0);
                let places = (first..).map(Some);
                todo.extend(below.iter().copied().zip(places));
                let pushed = todo.len() - below.len();
                todo[pushed..].reverse();
            }
            trees.starts.push(trees.nodes.len());
        }
        trees
    }

    fn tree(&self, index: usize) -> Tree<'_> {
        let nodes = &self.nodes[self.starts[index]..self.starts[index + 1]];
        Tree { nodes, lists: &self.children }
    }

    /// Per tree: the nodes that have a key, as (key, node), sorted. All trees one after
    /// another, with the positions where each starts.
    fn sorted_by(&self, key: impl Fn(Node) -> Option<u32>) -> Lists {
        let mut lists = Lists { items: vec![], starts: vec![0] };
        for span in self.starts.windows(2) {
            let from = lists.items.len();
            let nodes = (0..).zip(&self.nodes[span[0]..span[1]]);
            lists.items.extend(nodes.filter_map(|(v, &node)| Some((key(node)?, v))));
            lists.items[from..].sort_unstable();
            lists.starts.push(lists.items.len());
        }
        lists
    }
}

/// Node lists sorted by a key.
struct Lists {
    items: Vec<(u32, u32)>,
    starts: Vec<usize>,
}

impl Lists {
    fn list(&self, tree: usize) -> &[(u32, u32)] {
        &self.items[self.starts[tree]..self.starts[tree + 1]]
    }

    /// Table 1 of the EACL paper: the pairs of nodes with equal keys.
    fn merge(&self, i: usize, j: usize, mut found: impl FnMut(u32, u32)) {
        let (a, b) = (self.list(i), self.list(j));
        let (mut at_a, mut at_b) = (0, 0);
        while at_a < a.len() && at_b < b.len() {
            let key = a[at_a].0;
            match key.cmp(&b[at_b].0) {
                Ordering::Less => at_a += 1,
                Ordering::Greater => at_b += 1,
                Ordering::Equal => {
                    // Each of a's nodes with this key meets all of b's.
                    let first_b = at_b;
                    while at_a < a.len() && a[at_a].0 == key {
                        at_b = first_b;
                        while at_b < b.len() && b[at_b].0 == key {
                            found(a[at_a].1, b[at_b].1);
                            at_b += 1;
                        }
                        at_a += 1;
                    }
                }
            }
        }
    }
}

/// A matrix kept from pair to pair: grows, is not cleared.
fn at_least(matrix: &mut Vec<f64>, len: usize) -> &mut [f64] {
    if matrix.len() < len {
        matrix.resize(len, 0.0);
    }
    &mut matrix[..len]
}

// --- SST, quadratic -----------------------------------------------------------------

/// The quadratic tree kernel: SST with Δ for all pairs of nodes, children first.
pub struct Qtk {
    trees: Trees,
    decay: f64,
    delta: Vec<f64>,
}

impl Qtk {
    pub fn new(forest: &Forest, decay: f64) -> Self {
        Self { trees: Trees::new(forest), decay, delta: Vec::new() }
    }

    /// How many pairs of nodes `pair` evaluates: all.
    pub fn evaluated(&self, i: usize, j: usize) -> usize {
        self.trees.tree(i).nodes.len() * self.trees.tree(j).nodes.len()
    }

    pub fn pair(&mut self, i: usize, j: usize) -> f64 {
        let (a, b) = (self.trees.tree(i), self.trees.tree(j));
        let width = b.nodes.len();
        let delta = at_least(&mut self.delta, a.nodes.len() * width);
        let mut sum = 0.0;
        for u in (0..a.nodes.len() as u32).rev() {
            let production = a.nodes[u as usize].production;
            for v in (0..width as u32).rev() {
                let mut value = 0.0;
                if production == b.nodes[v as usize].production && production != LEAF {
                    value = self.decay;
                    for (&x, &y) in a.children(u).iter().zip(b.children(v)) {
                        value *= 1.0 + delta[x as usize * width + y as usize];
                    }
                }
                delta[u as usize * width + v as usize] = value;
                sum += value;
            }
        }
        sum
    }
}

// --- ST and SST, fast ---------------------------------------------------------------

/// The σ of the EACL paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fragments {
    /// σ = 0: ST.
    Subtrees,
    /// σ = 1: SST.
    SubsetTrees,
}

/// The fast tree kernel: sorted production lists, merge, memoised recursion.
pub struct Ftk {
    trees: Trees,
    lists: Lists,
    decay: f64,
    sigma: f64,
    pairs: Vec<(u32, u32)>,
    delta: Vec<f64>,
}

impl Ftk {
    pub fn new(forest: &Forest, (fragments, decay): (Fragments, f64)) -> Self {
        let trees = Trees::new(forest);
        let lists =
            trees.sorted_by(|node| (!node.is_leaf()).then_some(node.production));
        let sigma = if fragments == Fragments::Subtrees { 0.0 } else { 1.0 };
        Self { trees, lists, decay, sigma, pairs: vec![], delta: vec![] }
    }

    /// How many pairs of nodes `pair` evaluates: those with equal productions.
    pub fn evaluated(&self, i: usize, j: usize) -> usize {
        let mut n = 0;
        self.lists.merge(i, j, |_, _| n += 1);
        n
    }

    pub fn pair(&mut self, i: usize, j: usize) -> f64 {
        let (a, b) = (self.trees.tree(i), self.trees.tree(j));
        let width = b.nodes.len();
        let delta = at_least(&mut self.delta, a.nodes.len() * width);
        let pairs = &mut self.pairs;
        pairs.clear();
        self.lists.merge(i, j, |u, v| {
            delta[u as usize * width + v as usize] = UNKNOWN;
            pairs.push((u, v));
        });
        let (decay, sigma) = (self.decay, self.sigma);
        let mut recursion = FtkRecursion { a, b, width, decay, sigma, delta };
        pairs.iter().map(|&(u, v)| recursion.delta(u, v)).sum()
    }
}

/// A Δ that is asked for but not computed yet; values are not negative.
const UNKNOWN: f64 = -1.0;

struct FtkRecursion<'a> {
    a: Tree<'a>,
    b: Tree<'a>,
    width: usize,
    decay: f64,
    sigma: f64,
    delta: &'a mut [f64],
}

impl FtkRecursion<'_> {
    /// Δ(u,v) = λ Π (σ + Δ(u_j, v_j)) of two nodes with the same production.
    fn delta(&mut self, u: u32, v: u32) -> f64 {
        let at = u as usize * self.width + v as usize;
        if self.delta[at] == UNKNOWN {
            let mut value = self.decay;
            let (below_u, below_v) = (self.a.children(u), self.b.children(v));
            for (&x, &y) in below_u.iter().zip(below_v) {
                let left = self.a.nodes[x as usize].production;
                let right = self.b.nodes[y as usize].production;
                // Two leaves below equal productions are equal: factor 1, also for ST.
                if left != right {
                    value *= self.sigma;
                } else if left != LEAF {
                    value *= self.sigma + self.delta(x, y);
                }
            }
            self.delta[at] = value;
        }
        self.delta[at]
    }
}

// --- PT -----------------------------------------------------------------------------

/// The parameters of [`treekernel_rs::kernel::PartialTree`].
#[derive(Debug, Clone, Copy)]
pub struct PtParams {
    pub decay: f64,
    pub mu: f64,
    pub leaf_factor: f64,
    pub max_children: Option<usize>,
}

impl PtParams {
    /// Nothing limited, leaves as other nodes.
    pub fn plain(decay: f64, mu: f64) -> Self {
        Self { decay, mu, leaf_factor: 1.0, max_children: None }
    }
}

/// The partial tree kernel: sorted label lists, merge, memoised recursion, and per pair
/// of nodes one O(ρ²) pass over the two child lists for every length of subsequences.
pub struct PtClassic {
    trees: Trees,
    lists: Lists,
    params: PtParams,
    pairs: Vec<(u32, u32)>,
    delta: Vec<f64>,
    passes: Passes,
}

/// Three matrices over the child lists of two nodes. `sums` has a row and a column of
/// zeros before the first child.
#[derive(Default)]
struct Passes {
    /// Δ of two children.
    deltas: Vec<f64>,
    /// Δ_p: all pairs of subsequences of the length at hand that end here.
    ends: Vec<f64>,
    /// DP_p: those that end here or before, decayed by the distance.
    sums: Vec<f64>,
}

impl PtClassic {
    pub fn new(forest: &Forest, params: PtParams) -> Self {
        let trees = Trees::new(forest);
        let lists = trees.sorted_by(|node| Some(node.label));
        let passes = Passes::default();
        Self { trees, lists, params, pairs: vec![], delta: vec![], passes }
    }

    pub fn pair(&mut self, i: usize, j: usize) -> f64 {
        let (a, b) = (self.trees.tree(i), self.trees.tree(j));
        let width = b.nodes.len();
        let delta = at_least(&mut self.delta, a.nodes.len() * width);
        let pairs = &mut self.pairs;
        pairs.clear();
        self.lists.merge(i, j, |u, v| {
            delta[u as usize * width + v as usize] = UNKNOWN;
            pairs.push((u, v));
        });
        let (params, passes) = (self.params, &mut self.passes);
        let mut recursion = PtRecursion { a, b, width, params, delta, passes };
        pairs.iter().map(|&(u, v)| recursion.delta(u, v)).sum()
    }
}

struct PtRecursion<'a> {
    a: Tree<'a>,
    b: Tree<'a>,
    width: usize,
    params: PtParams,
    delta: &'a mut [f64],
    passes: &'a mut Passes,
}

impl PtRecursion<'_> {
    /// Δ(u,v) = μ (λ² · leafness + Σ_p Δ_p(children of u, children of v)) of two nodes
    /// with the same label.
    fn delta(&mut self, u: u32, v: u32) -> f64 {
        let at = u as usize * self.width + v as usize;
        if self.delta[at] == UNKNOWN {
            let PtParams { decay, mu, leaf_factor, .. } = self.params;
            let (below_u, below_v) = (self.a.children(u), self.b.children(v));
            let leafness = match (below_u.is_empty(), below_v.is_empty()) {
                (false, false) => 1.0,
                (true, true) => leaf_factor,
                _ => leaf_factor.sqrt(),
            };
            let below = if below_u.is_empty() || below_v.is_empty() {
                0.0
            } else {
                self.subsequences(below_u, below_v)
            };
            self.delta[at] = mu * (decay * decay * leafness + below);
        }
        self.delta[at]
    }

    /// Σ_p Δ_p: over all pairs of subsequences of equal length.
    fn subsequences(&mut self, below_u: &[u32], below_v: &[u32]) -> f64 {
        let (n, m) = (below_u.len(), below_v.len());
        let label = |tree: Tree, node: u32| tree.nodes[node as usize].label;
        // First all recursion, then the passes, which share one set of matrices.
        for &x in below_u {
            for &y in below_v {
                if label(self.a, x) == label(self.b, y) {
                    self.delta(x, y);
                }
            }
        }
        let deltas = at_least(&mut self.passes.deltas, n * m);
        let ends = at_least(&mut self.passes.ends, n * m);
        let mut sum = 0.0;
        for (i, &x) in below_u.iter().enumerate() {
            for (j, &y) in below_v.iter().enumerate() {
                let same = label(self.a, x) == label(self.b, y);
                let known = self.delta[x as usize * self.width + y as usize];
                let value = if same { known } else { 0.0 };
                deltas[i * m + j] = value;
                ends[i * m + j] = value;
                sum += value;
            }
        }
        let wide = m + 1;
        let sums = at_least(&mut self.passes.sums, (n + 1) * wide);
        sums[..wide].fill(0.0);
        (1..=n).for_each(|i| sums[i * wide] = 0.0);
        let decay = self.params.decay;
        let longest = self.params.max_children.unwrap_or(usize::MAX).min(n).min(m);
        for _length in 2..=longest {
            for i in 1..=n {
                for j in 1..=m {
                    let (here, cell) = (i * wide + j, (i - 1) * m + j - 1);
                    let before = sums[here - wide - 1];
                    sums[here] =
                        ends[cell] + decay * sums[here - wide] + decay * sums[here - 1]
                            - decay * decay * before;
                    ends[cell] = deltas[cell] * before;
                    sum += ends[cell];
                }
            }
        }
        sum
    }
}

// --- ET -----------------------------------------------------------------------------

/// The elastic tree kernel: for all pairs of nodes, children first, the sum of C over
/// all pairs at or below the two.
pub struct EtClassic {
    trees: Trees,
    decay: f64,
    /// Ca(u,v).
    below: Vec<f64>,
    /// S(i,j), of two nodes' first i and j children.
    ways: Vec<f64>,
}

impl EtClassic {
    pub fn new(forest: &Forest, decay: f64) -> Self {
        Self { trees: Trees::new(forest), decay, below: vec![], ways: vec![] }
    }

    pub fn pair(&mut self, i: usize, j: usize) -> f64 {
        let (a, b) = (self.trees.tree(i), self.trees.tree(j));
        let width = b.nodes.len();
        let below = at_least(&mut self.below, a.nodes.len() * width);
        for u in (0..a.nodes.len()).rev() {
            for v in (0..width).rev() {
                let (below_u, below_v) = (a.children(u as u32), b.children(v as u32));
                let mut value = 0.0;
                for &x in below_u {
                    value += below[x as usize * width + v];
                }
                for &y in below_v {
                    value += below[u * width + y as usize];
                }
                for &x in below_u {
                    for &y in below_v {
                        value -= below[x as usize * width + y as usize];
                    }
                }
                if a.nodes[u].label == b.nodes[v].label {
                    let at = |x: u32, y: u32| below[x as usize * width + y as usize];
                    value += self.decay * ways(&mut self.ways, below_u, below_v, at);
                }
                below[u * width + v] = value;
            }
        }
        below[0]
    }
}

/// S(|u|,|v|): the ways to map some children of u to children of v in order, each
/// pair weighted by `below`.
fn ways(
    matrix: &mut Vec<f64>,
    below_u: &[u32],
    below_v: &[u32],
    below: impl Fn(u32, u32) -> f64,
) -> f64 {
    let (n, m) = (below_u.len(), below_v.len());
    let wide = m + 1;
    let s = at_least(matrix, (n + 1) * wide);
    s[..wide].fill(1.0);
    for i in 1..=n {
        s[i * wide] = 1.0;
        for j in 1..=m {
            let here = i * wide + j;
            let before = s[here - wide - 1];
            s[here] = s[here - wide] + s[here - 1] - before
                + before * below(below_u[i - 1], below_v[j - 1]);
        }
    }
    s[n * wide + m]
}
