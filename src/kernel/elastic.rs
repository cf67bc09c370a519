//! The elastic tree kernel of two trees.
//!
//! A fragment keeps order and ancestry but may skip nodes (Kashima & Koyanagi 2002).
//! With C(u,v) the weight of the fragments rooted at u and v, and Ca(x,y) the sum of C
//! over all pairs at or below x and y:
//!
//! ```text
//! C(u,v)  = 0 for other labels, else λ S(u,v)
//! S(u,v)  = 1 + Σ_{i,j} s(i,j)        s(i,j) = Ca(u_i,v_j) (1 + Σ_{i'<i, j'<j} s(i',j'))
//! B(x,y)  = C(x,y) + Σ_j B(x,y_j)     the sum of C over x and all at or below y
//! Ca(x,y) = B(x,y) + Σ_i Ca(x_i,y)
//! K(a,b)  = Ca(root a, root b)
//! ```
//!
//! This is the usual recursion without its subtractions: every term is a sum or product
//! of numbers that are not negative, so nothing cancels, at λ = 1 as little as at 0.05.
//!
//! Example, λ = 1, `(A b)` and `(A (X b))`: C(b,b) = 1, Ca(b,X) = 1, C(A,A) = 1 + 1, and
//! the kernel is 3.
//!
//! # What is skipped
//! C is 0 for other labels, so each pair first shrinks both trees to what can matter:
//! subtrees without a label of the other tree go, a node with a foreign label and one
//! remaining child is replaced by that child (its Ca is the child's), only a foreign
//! fork stays, to add up. Real trees share few of their words: of 32 x 32 nodes some
//! 15 x 15 remain. Then the dense recursion runs over what is left, one value per node
//! of the smaller tree (a lane) for each node of the larger. As Ca depends on the two
//! subtrees only, equal subtrees of a tree are one node from the start.
//!
//! Equal bits: both trees are read in the order of a walk, and of two trees the one with
//! more distinct subtrees (if equal: with the larger hash of its content) comes first. So
//! no value depends on the numbers of nodes or trees, and K(a,b) is K(b,a).
//!
//! # Complexity
//! Time O(|a| + |b| + |a'| |b'|) and the products of child counts of label-equal pairs,
//! with a', b' what remains; never above the dense recursion. Memory by the smaller tree
//! for each node of the larger that is open (some of its children done, not all) or
//! that stands below several parents and is not yet done with. The heaviest child is done
//! first, so at most log2 of the larger tree's nodes are open; if values of shared nodes
//! take more than [`MAX_CELLS`], the call ends in an error before it asks for the memory.

mod dense;

use std::sync::Arc;

pub(crate) use dense::{Dense, NONE, Shrunk};

use super::weights::{Factors, ResolvedWeights, Weightable};
use super::{
    Builtin, Kernel, Number, Pairs, Prepared, Sloped, described, kernel_struct, naive,
};
use crate::forest::reader::{HeaviestFirst, Item, Reader};
use crate::intern::new_id;
use crate::{Context, NodeId, Nodes, Result, memory};

kernel_struct! {
    /// Fragments keep order and ancestry but may skip nodes (Kashima & Koyanagi 2002).
    ElasticTree new(decay) {
        /// λ: per node of a fragment.
        decay: f64 = 0.4, Share, with_decay;
    }
}

impl Kernel for ElasticTree {
    described!();

    fn definition(&self, nodes: &Nodes, a: NodeId, b: NodeId) -> f64 {
        let of_pair = |u, v| naive::elastic_tree(nodes, &|_| self.decay, u, v);
        naive::sum(nodes, a, b, of_pair)
    }

    fn pairs(
        &self,
        nodes: &Arc<Nodes>,
        roots: &[NodeId],
        context: &Context,
    ) -> Result<Box<dyn Prepared>> {
        Ok(Box::new(PreparedTrees::new(nodes, self.decay, roots, context)?))
    }

    fn sloped(
        &self,
        nodes: &Arc<Nodes>,
        roots: &[NodeId],
        context: &Context,
    ) -> Result<Option<Box<dyn Sloped>>> {
        Ok(Some(Box::new(PreparedTrees::new(nodes, self.decay, roots, context)?)))
    }

    fn builtin(&self) -> Option<Builtin<'_>> {
        Some(Builtin {
            index: Some(Box::new(self.clone())),
            weightable: Some(self),
            ..Builtin::new(self)
        })
    }
}

impl Weightable for ElasticTree {
    fn weighted_name(&self) -> &'static str {
        "weighted ElasticTree"
    }

    fn weighted_definition(
        &self,
        table: &ResolvedWeights,
        nodes: &Nodes,
        a: NodeId,
        b: NodeId,
    ) -> f64 {
        let decay = |u| self.decay * table.label(nodes, u);
        let of_pair = |u, v| naive::elastic_tree(nodes, &decay, u, v);
        naive::sum(nodes, a, b, of_pair)
    }

    fn weighted_pairs(
        &self,
        table: &ResolvedWeights,
        nodes: &Arc<Nodes>,
        roots: &[NodeId],
        context: &Context,
    ) -> Result<Box<dyn Prepared>> {
        Ok(Box::new(PreparedTrees::new(
            nodes,
            table.labels_times(self.decay)?,
            roots,
            context,
        )?))
    }
}

/// A node of a tree.
#[derive(Debug, Clone, Copy)]
struct Head {
    /// The label's number among those of the tree.
    label: u32,
    /// Where its children end, among those of all trees.
    end: u32,
}

/// Trees as distinct subtrees, children first.
#[derive(Debug)]
pub(crate) struct PreparedTrees<F = f64> {
    /// λ, by label.
    decay: F,
    n_labels: usize,
    /// Per tree: where its nodes, and its labels, end.
    ends: Vec<(u32, u32)>,
    /// Per tree: a hash of its content.
    hashes: Vec<u64>,
    heads: Vec<Head>,
    /// Children, as numbers within the tree.
    children: Vec<u32>,
    labels: Vec<u32>,
}

impl<F: Factors> PreparedTrees<F> {
    /// Reads trees in time by their distinct subtrees.
    ///
    /// # Errors
    /// [`crate::Error::Capacity`] beyond 2^32 distinct subtrees or edges, tree by tree, and
    /// what `context` returns.
    pub(crate) fn new(
        nodes: &Nodes,
        decay: F,
        roots: &[NodeId],
        context: &Context,
    ) -> Result<Self> {
        let n_labels = nodes.labels().len();
        let mut trees = Self {
            decay,
            n_labels,
            ends: Vec::new(),
            hashes: Vec::new(),
            heads: Vec::new(),
            children: Vec::new(),
            labels: Vec::new(),
        };
        // As it was after each tree.
        let mut label_number = memory::filled(NONE, n_labels)?;
        let mut tree = Reader::default();
        let sizes = nodes.try_sizes()?;
        for &root in roots {
            let first_label = trees.labels.len();
            tree.clear();
            tree.extend(
                nodes.len(),
                root,
                &HeaviestFirst { store: nodes, sizes: &sizes },
            )?;
            // Labels are numbered as they are met, so a tree's numbers are as many as
            // its labels.
            for &Item { node, .. } in tree.items() {
                context.check()?;
                let label = &mut label_number[nodes.label(node).index()];
                if *label == NONE {
                    *label = (trees.labels.len() - first_label) as u32;
                    memory::push(&mut trees.labels, nodes.label(node).0)?;
                }
                let children = nodes.children(node).iter();
                let children = children.map(|&child| tree.place(child).0);
                memory::extend(&mut trees.children, children)?;
                let end = new_id(trees.children.len(), "edges, tree by tree")?;
                memory::push(&mut trees.heads, Head { label: *label, end })?;
            }
            // Back to `NONE`, as many as were numbered.
            for &label in &trees.labels[first_label..] {
                label_number[label as usize] = NONE;
            }
            let end = new_id(trees.heads.len(), "distinct subtrees, tree by tree")?;
            memory::push(&mut trees.ends, (end, trees.labels.len() as u32))?;
            memory::push(&mut trees.hashes, nodes.try_content_hash(root)?)?;
        }
        Ok(trees)
    }

    /// How many distinct subtrees a tree has, and a hash: the order of trees.
    fn rank(&self, tree: usize) -> (usize, u64) {
        (self.ends[tree].0 as usize - self.starts(tree).0, self.hashes[tree])
    }

    fn starts(&self, tree: usize) -> (usize, usize) {
        let (nodes, labels) = tree.checked_sub(1).map_or((0, 0), |t| self.ends[t]);
        (nodes as usize, labels as usize)
    }

    fn labels(&self, tree: usize) -> &[u32] {
        &self.labels[self.starts(tree).1..self.ends[tree].1 as usize]
    }

    /// Reads what is left of a tree when only some labels count.
    fn shrink(&self, tree: usize, keep: &[u32], to: &mut Shrunk) -> Result<()> {
        let start = self.starts(tree).0;
        let mut edge = start.checked_sub(1).map_or(0, |n| self.heads[n].end as usize);
        to.clear();
        let heads = &self.heads[start..self.ends[tree].0 as usize];
        let last = heads.last().map_or(edge, |head| head.end as usize);
        to.reserve(heads.len(), last - edge)?;
        for head in heads {
            let below = &self.children[edge..head.end as usize];
            edge = head.end as usize;
            to.push(keep[head.label as usize], below.iter().copied()); // has room
        }
        Ok(())
    }

    /// Numbers the labels that both trees have (others: NONE), and counts them.
    fn common_labels<N>(
        &self,
        a: usize,
        b: usize,
        scratch: &mut Scratch<N>,
    ) -> Result<usize> {
        let Scratch { mark, keep: [keep_a, keep_b], .. } = scratch;
        memory::reach(mark, self.n_labels, NONE)?;
        keep_a.clear();
        memory::reach(keep_a, self.labels(a).len(), NONE)?;
        keep_b.clear();
        memory::reserve(keep_b, self.labels(b).len())?;
        // 1. The labels of a.
        for (number, &label) in self.labels(a).iter().enumerate() {
            mark[label as usize] = number as u32;
        }
        let mut n_common = 0;
        // 2. Those of b among them.
        for &label in self.labels(b) {
            let number = mark[label as usize];
            if number == NONE {
                keep_b.push(NONE); // has room
            } else {
                keep_b.push(n_common); // has room
                keep_a[number as usize] = n_common;
                n_common += 1;
            }
        }
        for &label in self.labels(a) {
            mark[label as usize] = NONE;
        }
        Ok(n_common as usize)
    }
}

/// What is kept from pair to pair.
#[derive(Debug)]
pub(crate) struct Scratch<N> {
    /// By label: its number in tree a. NONE between pairs.
    mark: Vec<u32>,
    keep: [Vec<u32>; 2],
    /// By common label: its number among all.
    common: Vec<u32>,
    dense: Dense<N>,
}

impl<N> Default for Scratch<N> {
    fn default() -> Self {
        Self {
            mark: Vec::new(),
            keep: Default::default(),
            common: Vec::new(),
            dense: Dense::default(),
        }
    }
}

impl<F: Factors> Pairs for PreparedTrees<F> {
    type Scratch<N: Number> = Scratch<N>;

    fn pair<N: Number>(
        &self,
        a: usize,
        b: usize,
        scratch: &mut Scratch<N>,
        context: &Context,
    ) -> Result<N> {
        // The same order whichever tree is called a.
        let (a, b) = if self.rank(a) < self.rank(b) { (b, a) } else { (a, b) };
        let n_common = self.common_labels(a, b, scratch)?;
        if n_common == 0 {
            return Ok(N::from_f64(0.0));
        }
        let Scratch { keep, common, dense, .. } = scratch;
        // Where labels have a λ each: the labels, as both trees number them.
        if self.decay.same().is_none() {
            let labels = keep[1].iter().zip(self.labels(b));
            common.clear();
            let labels = labels.filter(|(k, _)| **k != NONE).map(|(_, label)| *label);
            memory::extend(common, labels)?;
        }
        // What the other tree cannot match is left out.
        self.shrink(a, &keep[0], &mut dense.lanes)?;
        self.shrink(b, &keep[1], &mut dense.tree)?;
        let Dense { lanes, tree, .. } = dense;
        // A node of the larger tree that is open holds a value for each node of the
        // other.
        if lanes.size() > tree.size() {
            std::mem::swap(lanes, tree);
        }
        let decay = |label: u32| match self.decay.same() {
            Some(decay) => decay,
            // Foreign labels have no lanes.
            None => common.get(label as usize).map_or(0.0, |&l| self.decay.of(l)),
        };
        dense.run(decay, n_common, |_, _, _| {}, context)
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;
    use crate::kernel::{Scaled, sample};
    use crate::{Error, Forest, Label};

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-10 * a.abs().max(b.abs())
    }

    fn prepared(forest: &Forest, decay: f64) -> PreparedTrees {
        let (nodes, roots) = (forest.nodes(), forest.roots());
        PreparedTrees::new(nodes, decay, roots, &Context::default()).unwrap()
    }

    #[test]
    fn pairs_are_the_definition_in_both_kinds_of_number() {
        let mut random = sample::Random(1);
        let mut n_pairs = 0;
        for round in 0..45 {
            let decay = [0.05, 0.4, 1.0][round % 3];
            let kernel = ElasticTree { decay };
            let forest = sample::forest(&mut random, 22, 11);
            let trees = prepared(&forest, decay);
            let (mut floats, mut scaled) = (Scratch::default(), Scratch::default());
            for (i, &a) in forest.roots().iter().enumerate() {
                for (j, &b) in forest.roots().iter().enumerate().take(i + 1) {
                    let expected = naive::kernel(&kernel, forest.nodes(), a, b);
                    let value = trees
                        .pair::<f64>(i, j, &mut floats, &Context::default())
                        .unwrap();
                    assert!(close(value, expected), "{value} {expected} {i} {j}");
                    let large = trees
                        .pair::<Scaled>(i, j, &mut scaled, &Context::default())
                        .unwrap()
                        .value();
                    assert!(close(large, value), "{large} {value}");
                    assert_eq!(
                        trees
                            .pair::<f64>(j, i, &mut floats, &Context::default())
                            .unwrap(),
                        value
                    );
                    n_pairs += 1;
                }
            }
        }
        assert!(n_pairs >= 10_000, "{n_pairs}");
    }

    #[test]
    fn hand_values_hold() {
        let forest =
            Forest::from_bracket_items(["(A b)", "(A (X b))", "(A)", "(Q)"]).unwrap();
        let trees = prepared(&forest, 1.0);
        let mut scratch = Scratch::default();
        for (a, b, expected) in [(0, 1, 3.0), (0, 2, 1.0), (2, 2, 1.0), (0, 3, 0.0)] {
            assert_eq!(
                trees.pair::<f64>(a, b, &mut scratch, &Context::default()).unwrap(),
                expected,
                "{a} {b}"
            );
        }
        // Two chains A over A over ...: C of depths m, n is the number of ways to choose
        // equally many below the roots.
        let chain = |n| "(A ".repeat(n) + "A" + &")".repeat(n);
        let chains = [chain(2), chain(3)];
        let forest = Forest::from_bracket_items(chains.iter().map(String::as_str));
        let forest = forest.unwrap();
        let trees = prepared(&forest, 1.0);
        // Σ_k (3 choose k)(4 choose k), k >= 1: 12 + 18 + 4.
        assert_eq!(
            trees.pair::<f64>(0, 1, &mut scratch, &Context::default()).unwrap(),
            34.0
        );
    }

    /// A chain of a, b, a, b, ... of this many nodes, and a small tree.
    fn chain_and_small(length: usize) -> (Nodes, Vec<NodeId>) {
        let mut nodes = Nodes::default();
        let [a, b, c]: [Label; 3] =
            ["a", "b", "c"].map(|name| nodes.labels_mut().intern(name).unwrap());
        let mut chain = nodes.intern_leaf(a).unwrap();
        for i in 1..length {
            chain = nodes.intern([a, b][i % 2], &[chain]).unwrap();
        }
        let leaf = nodes.intern_leaf(b).unwrap();
        let other = nodes.intern(c, &[leaf, leaf]).unwrap();
        let small = nodes.intern(a, &[other, leaf]).unwrap();
        (nodes, vec![chain, small])
    }

    #[test]
    fn deep_trees_take_little_memory_and_no_stack() {
        let (nodes, roots) = chain_and_small(100_000);
        let trees =
            PreparedTrees::new(&nodes, 0.4, &roots, &Context::default()).unwrap();
        let mut scratch = Scratch::default();
        // C(a,a) = λ(1 + the b below, three times) but for the leaf, C(b,b) = λ.
        let h = 50_000.0;
        let below = h * (h + 1.0) / 2.0;
        let expected = 0.4 * (h + 3.0 * h + 3.0 * 0.4 * (below - h));
        let value = trees.pair::<f64>(0, 1, &mut scratch, &Context::default()).unwrap();
        assert!(close(value, expected), "{value} {expected}");
        assert!(scratch.dense.slots.len() <= 3, "{}", scratch.dense.slots.len());
    }

    #[test]
    fn wide_trees_forget_children_that_are_done() {
        let mut text = String::from("(r");
        for i in 0..2_000 {
            write!(text, " (a x{i} (b x{}))", i % 50).unwrap();
        }
        text += ")";
        let forest = Forest::from_bracket_items([&*text, "(r (a (b x1)) b)"]).unwrap();
        let trees = prepared(&forest, 1.0);
        let mut scratch = Scratch::default();
        assert!(
            trees.pair::<f64>(0, 1, &mut scratch, &Context::default()).unwrap() > 0.0
        );
        assert!(scratch.dense.slots.len() < 110, "{}", scratch.dense.slots.len());
    }

    #[test]
    fn too_many_values_at_once_are_refused_beforehand() {
        // What is below s waits for t.
        let tree = |n: usize| {
            let mut below = String::new();
            (0..n).for_each(|i| write!(below, " (x (y w{i}))").unwrap());
            format!("(r (s{below}) (t{below}))")
        };
        let [small, large, larger] = [10, 400, 401].map(tree);
        let forest = Forest::from_bracket_items([&*small, &large, &larger]).unwrap();
        let trees = prepared(&forest, 0.4);
        let mut scratch = Scratch::default();
        let mut of = |a, b| trees.pair::<f64>(a, b, &mut scratch, &Context::default());
        let before = of(0, 0).unwrap();
        let refused = of(1, 2).unwrap_err();
        assert!(matches!(refused, Error::Capacity { .. }), "{refused}");
        assert_eq!(of(0, 0), Ok(before));
    }

    #[test]
    fn large_counts_overflow_floats_but_not_scaled_numbers() {
        let chain = "(A ".repeat(1_000) + "A" + &")".repeat(1_000);
        let forest = Forest::from_bracket_items([&*chain]).unwrap();
        let trees = prepared(&forest, 1.0);
        assert_eq!(
            trees
                .pair::<f64>(0, 0, &mut Scratch::default(), &Context::default())
                .unwrap(),
            f64::INFINITY
        );
        let k = trees
            .pair::<Scaled>(0, 0, &mut Scratch::default(), &Context::default())
            .unwrap();
        assert_eq!(k.normalized(k, k), 1.0);
    }
}
