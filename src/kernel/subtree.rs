//! The subtree kernel of two trees.
//!
//! Fragments are complete subtrees (Vishwanathan & Smola 2002), and equal subtrees have
//! one id in the forest, so the kernel is a sparse dot product over ids:
//!
//! ```text
//! K(a,b) = Σ over ids in both: count_a(id) · count_b(id) · w(id)
//! w(id)  = λ^(inner nodes of the subtree) for inner nodes, leaf_weight for leaves
//! ```
//!
//! Example, λ = 0.5: `(S (A a) (B b))` and itself share A, B (0.5 each) and S (0.125):
//! 1.125.
//!
//! # Complexity
//! A pair takes a merge of two sorted lists: time by the distinct subtrees of the two.

use super::{Bags, Number, Pairs};
use crate::lists::Lists;
use crate::{NodeId, Nodes, Result};

/// w of every node of the store. What is too small for a float is 0: next to the
/// subtree's own inner nodes, which count too, it is below the last bit.
pub(crate) fn weights(nodes: &Nodes, decay: f64, leaf_weight: f64) -> Vec<f64> {
    let mut weights = Vec::with_capacity(nodes.len());
    for node in (0..nodes.len()).map(|n| NodeId(n as u32)) {
        let inner = nodes.children(node).iter().filter(|&&c| !nodes.is_leaf(c));
        weights.push(if nodes.is_leaf(node) {
            leaf_weight
        } else {
            inner.fold(decay, |product, c| product * weights[c.index()])
        });
    }
    weights
}

/// Trees as sorted lists of weighted subtrees.
#[derive(Debug)]
pub(crate) struct Trees {
    items: Lists<Item>,
}

#[derive(Debug, Clone, Copy)]
struct Item {
    node: NodeId,
    count: u32,
    weight: f64,
}

impl Trees {
    /// Reads trees in time by their distinct subtrees, and the store once.
    ///
    /// # Errors
    /// [`crate::Error::Capacity`] if a subtree stands 2^32 times in one tree.
    pub(crate) fn new(
        nodes: &Nodes,
        decay: f64,
        leaf_weight: f64,
        roots: &[NodeId],
    ) -> Result<Self> {
        let bags = Bags::new(nodes, roots)?;
        let weights = weights(nodes, decay, leaf_weight);
        let mut items = Lists::default();
        for tree in 0..bags.len() {
            let all = bags.iter(tree).map(|(node, count)| Item {
                node,
                count,
                weight: weights[node.index()],
            });
            // Leaves out where they have no weight: half of the merge.
            items.extend(all.filter(|item| item.weight > 0.0));
            items.close("subtrees, tree by tree")?;
        }
        Ok(Self { items })
    }
}

impl Pairs for Trees {
    type Scratch<N: Number> = ();

    fn pair<N: Number>(&self, a: usize, b: usize, (): &mut ()) -> N {
        let (a, b) = (self.items.get(a), self.items.get(b));
        let (mut i, mut j) = (0, 0);
        let mut sum = N::of(0.0);
        // Steps without branches: which list is behind is not to be guessed.
        while i < a.len() && j < b.len() {
            let (x, y) = (a[i], b[j]);
            if x.node == y.node {
                let count = f64::from(x.count) * f64::from(y.count);
                sum = sum + N::of(count) * N::of(x.weight);
            }
            i += usize::from(x.node <= y.node);
            j += usize::from(y.node <= x.node);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Forest;
    use crate::kernel::{Kernel, Scaled, naive, sample};

    #[test]
    fn pairs_are_the_definition_in_both_kinds_of_number() {
        let mut random = sample::Random(2);
        let mut n_pairs = 0;
        for round in 0..45 {
            let decay = [0.05, 0.4, 1.0][round % 3];
            let leaf_weight = [0.0, 0.4, 1.0][round / 3 % 3];
            let kernel = Kernel::Subtree { decay, leaf_weight };
            let forest = sample::forest(&mut random, 22, 30);
            let (nodes, roots) = (forest.nodes(), forest.roots());
            let trees = Trees::new(nodes, decay, leaf_weight, roots).unwrap();
            for (i, &a) in roots.iter().enumerate() {
                for (j, &b) in roots.iter().enumerate().take(i + 1) {
                    let expected = naive::kernel(&kernel, nodes, a, b);
                    let value = trees.pair::<f64>(i, j, &mut ());
                    let gap = (value - expected).abs();
                    assert!(gap <= 1e-10 * expected, "{value} {expected}");
                    let large = trees.pair::<Scaled>(i, j, &mut ()).value();
                    assert!((large - value).abs() <= 1e-14 * value);
                    assert_eq!(trees.pair::<f64>(j, i, &mut ()), value);
                    n_pairs += 1;
                }
            }
        }
        assert!(n_pairs >= 10_000, "{n_pairs}");
    }

    #[test]
    fn hand_values_hold() {
        let texts = ["(S (A a) (B b))", "(S (A z) (B b))", "(A (B c))", "(A B)"];
        let forest = Forest::from_bracket_items(texts).unwrap();
        let cases = [
            (0, 0, 0.5, 0.0, 1.125),
            (2, 3, 1.0, 0.0, 0.0),
            (0, 1, 1.0, 0.0, 1.0),
            (0, 1, 1.0, 1.0, 2.0),
        ];
        for (a, b, decay, leaf_weight, expected) in cases {
            let nodes = forest.nodes();
            let trees = Trees::new(nodes, decay, leaf_weight, forest.roots()).unwrap();
            assert_eq!(trees.pair::<f64>(a, b, &mut ()), expected);
        }
    }

    #[test]
    fn deep_and_wide_trees_take_linear_time_and_underflow_to_nothing() {
        let n = 100_000;
        let chain = "(A ".repeat(n) + "A" + &")".repeat(n);
        let wide = String::from("(W") + &" (A A)".repeat(n) + ")";
        let forest = Forest::from_bracket_items([&*chain, &*wide]).unwrap();
        let trees = Trees::new(forest.nodes(), 0.4, 1.0, forest.roots()).unwrap();
        // Σ 0.4^k, and the one leaf.
        let own = trees.pair::<f64>(0, 0, &mut ());
        assert!((own - 0.4 / 0.6 - 1.0).abs() < 1e-12, "{own}");
        assert_eq!(trees.pair::<f64>(0, 1, &mut ()), 1.4 * n as f64);
        let square = n as f64 * n as f64;
        assert_eq!(trees.pair::<f64>(1, 1, &mut ()), 1.4 * square);
    }
}
