//! The definitions, transcribed: slow, obvious, and what everything else is held to.
//!
//! Each kernel is a double loop over the nodes of the two trees and a recursion on
//! their children, as the formulas stand. Nothing is shared, sorted or remembered, so
//! the cost is exponential for some trees; and as the recursion is the machine's, trees
//! must not be deep. For tests and for reading.
//!
//! ```
//! use treekernel_rs::Forest;
//! use treekernel_rs::kernel::{SubsetTree, naive};
//!
//! let forest = Forest::from_brackets("(S (A a) (B b)) (S (A a) (B c))")?;
//! let kernel = SubsetTree::new(1.0);
//! let [a, b] = [forest.roots()[0], forest.roots()[1]];
//! assert_eq!(naive::kernel(&kernel, forest.nodes(), a, b), 3.0);
//! # Ok::<(), treekernel_rs::Error>(())
//! ```

use super::{Kernel, PartialTree};
use crate::{NodeId, Nodes};

/// K(a, b) by the definition.
pub fn kernel(kernel: &dyn Kernel, nodes: &Nodes, a: NodeId, b: NodeId) -> f64 {
    kernel.definition(nodes, a, b)
}

/// The sum over all pairs of nodes of two trees, for definitions that are one.
pub fn sum(
    nodes: &Nodes,
    a: NodeId,
    b: NodeId,
    of_pair: impl Fn(NodeId, NodeId) -> f64,
) -> f64 {
    let (all_a, all_b) = (occurrences(nodes, a), occurrences(nodes, b));
    let pairs = all_a.iter().flat_map(|&u| all_b.iter().map(move |&v| (u, v)));
    pairs.map(|(u, v)| of_pair(u, v)).sum()
}

/// All nodes of a tree, each as often as it stands there.
pub(super) fn occurrences(nodes: &Nodes, root: NodeId) -> Vec<NodeId> {
    let below = nodes.children(root).iter().flat_map(|&c| occurrences(nodes, c));
    std::iter::once(root).chain(below).collect()
}

/// 1 for two leaves with equal labels.
pub(super) fn leaves(nodes: &Nodes, u: NodeId, v: NodeId) -> f64 {
    let equal =
        nodes.is_leaf(u) && nodes.is_leaf(v) && nodes.label(u) == nodes.label(v);
    if equal { 1.0 } else { 0.0 }
}

/// Whether two nodes have the same label, and children with the same labels. (Not by
/// production ids: an oracle shares nothing.)
fn same_production(nodes: &Nodes, u: NodeId, v: NodeId) -> bool {
    let labels =
        |n| nodes.children(n).iter().map(|&c| nodes.label(c)).collect::<Vec<_>>();
    !nodes.is_leaf(u) && nodes.label(u) == nodes.label(v) && labels(u) == labels(v)
}

/// Whether two nodes have the same below them.
pub(super) fn identical(nodes: &Nodes, u: NodeId, v: NodeId) -> bool {
    let (below_u, below_v) = (nodes.children(u), nodes.children(v));
    nodes.label(u) == nodes.label(v)
        && below_u.len() == below_v.len()
        && below_u.iter().zip(below_v).all(|(&x, &y)| identical(nodes, x, y))
}

/// What a node's production, or label, adds to the weight of a fragment as a factor: λ, or
/// μ in PT, times its own weight where there are such.
pub(super) type Factor<'a> = dyn Fn(NodeId) -> f64 + 'a;

/// The product of λ over the inner nodes if u and v are the same subtree and no leaf,
/// else 0.
pub(super) fn subtree(nodes: &Nodes, decay: &Factor<'_>, u: NodeId, v: NodeId) -> f64 {
    if nodes.is_leaf(u) || !identical(nodes, u, v) {
        return 0.0;
    }
    let inner = occurrences(nodes, u).into_iter().filter(|&n| !nodes.is_leaf(n));
    inner.map(decay).product()
}

/// C(u,v) = λ · Π (1 + C(u_j, v_j)) for equal productions, else 0.
pub(super) fn subset_tree(
    nodes: &Nodes,
    decay: &Factor<'_>,
    u: NodeId,
    v: NodeId,
) -> f64 {
    if !same_production(nodes, u, v) {
        return 0.0;
    }
    let pairs = nodes.children(u).iter().zip(nodes.children(v));
    pairs.fold(decay(u), |product, (&x, &y)| {
        product * (1.0 + subset_tree(nodes, decay, x, y))
    })
}

/// D(u,v) = μ · σ(u,v) (λ² · leafness + Σ_{I,J} λ^gaps Π D(u_i, v_j)) over all subsequences
/// I, J of the children with 1 <= |I| = |J| <= longest; σ is 1 for equal labels, else 0, or
/// a similarity of labels.
pub(super) fn partial_tree(
    nodes: &Nodes,
    kernel: &PartialTree,
    sigma: &impl Fn(NodeId, NodeId) -> f64,
    u: NodeId,
    v: NodeId,
) -> f64 {
    let PartialTree { decay, mu, leaf_factor, max_children } = *kernel;
    let longest = max_children.unwrap_or(usize::MAX);
    let similarity = sigma(u, v);
    if similarity == 0.0 {
        return 0.0;
    }
    // A leaf adds the root of its factor on its side.
    let leafness = match (nodes.is_leaf(u), nodes.is_leaf(v)) {
        (false, false) => 1.0,
        (true, true) => leaf_factor,
        _ => leaf_factor.sqrt(),
    };
    let (below_u, below_v) = (nodes.children(u), nodes.children(v));
    // Chains of pairs (i, j), both growing: `chains[k]` holds those of the length at
    // hand as (last i, last j, weight).
    let d = |i: usize, j: usize| {
        let (x, y) = (below_u[i], below_v[j]);
        partial_tree(nodes, kernel, sigma, x, y)
    };
    let mut sum = decay * decay * leafness;
    let mut chains: Vec<(usize, usize, f64)> = Vec::new();
    for i in 0..below_u.len() {
        chains.extend((0..below_v.len()).map(|j| (i, j, d(i, j))));
    }
    for length in 1..=longest.min(below_u.len()).min(below_v.len()) {
        sum += chains.iter().map(|c| c.2).sum::<f64>();
        if length == longest {
            break;
        }
        let mut longer = Vec::new();
        // Each chain goes on to every later pair of children.
        for &(i, j, weight) in chains.iter().filter(|c| c.2 != 0.0) {
            for next_i in i + 1..below_u.len() {
                for next_j in j + 1..below_v.len() {
                    let gaps = (next_i - i - 1) + (next_j - j - 1);
                    let value = weight * decay.powi(gaps as i32) * d(next_i, next_j);
                    longer.push((next_i, next_j, value));
                }
            }
        }
        chains = longer;
    }
    mu * similarity * sum
}

/// C(u,v) = λ · Σ over all ways to map some children of u, in order, to children of v:
/// product of Ca, the sum of C over all pairs below or at the two; 0 for other labels.
pub(super) fn elastic_tree(
    nodes: &Nodes,
    decay: &Factor<'_>,
    u: NodeId,
    v: NodeId,
) -> f64 {
    fn ways(nodes: &Nodes, decay: &Factor<'_>, us: &[NodeId], vs: &[NodeId]) -> f64 {
        // The first mapped child of u, the child of v it goes to, then the rest.
        let mut sum = 1.0;
        for (i, &x) in us.iter().enumerate() {
            for (j, &y) in vs.iter().enumerate() {
                let below_x = occurrences(nodes, x);
                let below_y = occurrences(nodes, y);
                let pairs =
                    below_x.iter().flat_map(|&p| below_y.iter().map(move |&q| (p, q)));
                let here: f64 =
                    pairs.map(|(p, q)| elastic_tree(nodes, decay, p, q)).sum();
                if here > 0.0 {
                    sum += here * ways(nodes, decay, &us[i + 1..], &vs[j + 1..]);
                }
            }
        }
        sum
    }
    if nodes.label(u) != nodes.label(v) {
        return 0.0;
    }
    decay(u) * ways(nodes, decay, nodes.children(u), nodes.children(v))
}

#[cfg(test)]
mod tests {
    use super::super::{ElasticTree, SubsetTree, Subtree};
    use super::*;
    use crate::Forest;

    /// The hand-checked values of the definitions.
    #[test]
    fn hand_values_hold() {
        let cases: [(&dyn Kernel, _, _, _); 10] = [
            (&SubsetTree::new(1.0), "(S (A a) (B b))", "(S (A a) (B c))", 3.0),
            (&SubsetTree::new(0.4), "(S (A a) (B b))", "(S (A a) (B c))", 0.96),
            (&SubsetTree::new(1.0), "(S (A a) (B b))", "(S (A a) (B b))", 6.0),
            (&Subtree::new(0.5), "(S (A a) (B b))", "(S (A a) (B b))", 1.125),
            (&Subtree::new(1.0), "(A (B c))", "(A B)", 0.0),
            (&SubsetTree::new(1.0), "(A (B c))", "(A B)", 1.0),
            (&Subtree::new(1.0), "(S (A a) (B b))", "(S (A z) (B b))", 1.0),
            (
                &Subtree::new(1.0).with_leaf_weight(1.0),
                "(S (A a) (B b))",
                "(S (A z) (B b))",
                2.0,
            ),
            (&PartialTree::default(), "(A b)", "(A b)", 0.1536),
            (&ElasticTree::new(1.0), "(A b)", "(A (X b))", 3.0),
        ];
        for (kernel, a, b, expected) in cases {
            let forest = Forest::from_bracket_items([a, b]).unwrap();
            let [x, y] = [forest.roots()[0], forest.roots()[1]];
            let value = kernel.definition(forest.nodes(), x, y);
            assert!((value - expected).abs() < 1e-12, "{kernel:?} {a} {b}: {value}");
        }
    }
}
