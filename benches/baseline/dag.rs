//! The model of Da San Martino et al. (AAAI 2019), as published, for SST: the 1x of what
//! is gained by more than putting equal subtrees together.
//!
//! [`EachOnce`] visits every distinct subtree of the model that has a node's production,
//! once. It is kinder than the paper: C of a node with a production's subtrees is an
//! array, so no pair is looked up by hash, and equal nodes of the scored tree are one.
//! (The other baseline, the sum over support trees, is a loop over
//! [`Ftk`](super::baseline::Ftk).)

// Every bench and test takes what it needs.
#![allow(dead_code, unreachable_pub)]

use treekernel_rs::{Forest, NodeId};

const NONE: u32 = u32::MAX;

/// An inner child: its production, and its number within that.
type Child = (u32, u32);

/// The graph of distinct subtrees; over one forest, too.
pub struct EachOnce<'a> {
    forest: &'a Forest,
    decay: f64,
    /// By production: weights of its subtrees, their children one after the other, and
    /// how many there are of each.
    weights: Vec<Vec<f64>>,
    children: Vec<Vec<Child>>,
    arity: Vec<usize>,
    /// By node of the forest: its number within its production.
    number: Vec<u32>,
    /// By node: its place in the tree at hand. By place: C with its production.
    place: Vec<u32>,
    values: Vec<Vec<f64>>,
}

impl<'a> EachOnce<'a> {
    pub fn new(forest: &'a Forest, decay: f64) -> Self {
        let n = forest.nodes().n_productions();
        Self {
            forest,
            decay,
            weights: vec![Vec::new(); n],
            children: vec![Vec::new(); n],
            arity: vec![0; n],
            number: vec![NONE; forest.nodes().len()],
            place: vec![NONE; forest.nodes().len()],
            values: Vec::new(),
        }
    }

    /// The inner nodes of a tree as they stand there, children first.
    fn occurrences(&self, tree: usize) -> Vec<NodeId> {
        let nodes = self.forest.nodes();
        let mut all = vec![self.forest.roots()[tree]];
        let mut next = 0;
        while next < all.len() {
            let below = nodes.children(all[next]).iter().copied();
            all.extend(below.filter(|&child| !nodes.is_leaf(child)));
            next += 1;
        }
        all.reverse();
        all
    }

    fn production(&self, node: NodeId) -> u32 {
        self.forest
            .nodes()
            .production(node)
            .map_or(NONE, |production| production.index() as u32)
    }

    pub fn add(&mut self, tree: usize, alpha: f64) {
        for node in self.occurrences(tree) {
            let group = self.production(node) as usize;
            let number = self.number[node.index()];
            if let Some(weight) = self.weights[group].get_mut(number as usize) {
                *weight += alpha;
                continue;
            }
            let below = self.forest.nodes().children(node);
            for child in below {
                let own = (self.production(*child), self.number[child.index()]);
                self.children[group].push(own);
            }
            self.arity[group] = below.len();
            self.number[node.index()] = self.weights[group].len() as u32;
            self.weights[group].push(alpha);
        }
    }

    pub fn score(&mut self, tree: usize) -> f64 {
        let nodes = self.forest.nodes();
        let mut order = self.occurrences(tree);
        order.sort_unstable();
        let mut sum = 0.0;
        if self.values.len() < order.len() {
            self.values.resize_with(order.len(), Vec::new);
        }
        for (at, same) in order.chunk_by(|a, b| a == b).enumerate() {
            let (node, count) = (same[0], same.len() as f64);
            self.place[node.index()] = at as u32;
            let group = self.production(node) as usize;
            let below = nodes.children(node);
            let (done, rest) = self.values.split_at_mut(at);
            let own = &mut rest[0];
            own.clear();
            let arity = self.arity[group];
            for (u, weight) in self.weights[group].iter().enumerate() {
                let mut c = self.decay;
                let others = &self.children[group][u * arity..][..arity];
                for (child, &(production, number)) in below.iter().zip(others) {
                    let own =
                        nodes.production(*child).map_or(NONE, |p| p.index() as u32);
                    if own == production && own != NONE {
                        let place = self.place[child.index()] as usize;
                        c *= 1.0 + done[place][number as usize];
                    }
                }
                own.push(c);
                sum += count * c * weight;
            }
        }
        sum
    }
}
