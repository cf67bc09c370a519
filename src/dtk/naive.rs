//! The definitions, transcribed: what the encoder is held to, and measured against.
//!
//! [`tree`] lists all fragments of a tree, composes each by itself, and adds them up with
//! their weights. [`compose`] is the composition's formula in doubles, for convolutions
//! the double loop. Both are exponential or quadratic, for tests and for reading.
//! [`straightforward`] is the paper's recursion as anybody would write it first: nothing
//! remembered, three FFTs per composition. It is the baseline of the benches.

use super::composition::{Composition, Real};
use super::{DistributedTrees, Fold};
use crate::kernel::{Parameter, Rule, Value};
use crate::{Context, Kernel, NodeId, Nodes, Result};

/// A fragment written out.
#[derive(Debug, Clone)]
struct Fragment {
    label: String,
    children: Vec<Fragment>,
}

/// a ◇ b by the formula.
pub fn compose(trees: &DistributedTrees, a: &[f64], b: &[f64]) -> Vec<f64> {
    let composer = &trees.composer;
    let (first, second) = composer.permutations();
    let d = a.len();
    // Where number i of a vector comes from, blocks of four moving together.
    let shuffled = |x: &[f64], permutation: &[u32]| -> Vec<f64> {
        let size = d / permutation.len();
        (0..d).map(|i| x[permutation[i / size] as usize * size + i % size]).collect()
    };
    let (a, b) = (shuffled(a, first), shuffled(b, second));
    let unit = composer.unit;
    match composer.composition {
        Composition::Sign | Composition::Gamma => {
            a.iter().zip(&b).map(|(x, y)| unit * x * y).collect()
        }
        Composition::Convolution => {
            (0..d).map(|k| (0..d).map(|i| a[i] * b[(k + d - i) % d]).sum()).collect()
        }
        Composition::Phasor => {
            let mut out = vec![0.0; d];
            for block in (0..d).step_by(4) {
                for k in [block, block + 1] {
                    let (re, im) = (k, k + 2);
                    out[re] = unit * (a[re] * b[re] - a[im] * b[im]);
                    out[im] = unit * (a[re] * b[im] + a[im] * b[re]);
                }
            }
            out
        }
        Composition::Quaternion => a
            .chunks(4)
            .zip(b.chunks(4))
            .flat_map(|(p, q)| {
                [
                    p[0] * q[0] - p[1] * q[1] - p[2] * q[2] - p[3] * q[3],
                    p[0] * q[1] + p[1] * q[0] + p[2] * q[3] - p[3] * q[2],
                    p[0] * q[2] - p[1] * q[3] + p[2] * q[0] + p[3] * q[1],
                    p[0] * q[3] + p[1] * q[2] - p[2] * q[1] + p[3] * q[0],
                ]
                .map(|x| unit * x)
            })
            .collect(),
    }
}

/// f of a fragment.
fn value(trees: &DistributedTrees, fragment: &Fragment) -> Vec<f64> {
    let mut label = vec![0.0; trees.settings.n_components];
    let drawn = trees.composer.label(&fragment.label, &mut label, &Context::default());
    debug_assert!(drawn.is_ok(), "nothing stops it");
    // Vectors are larger inside the composer, and composed as they are outside here.
    for x in &mut label {
        *x /= trees.composer.unit;
    }
    let children: Vec<_> = fragment.children.iter().map(|c| value(trees, c)).collect();
    match trees.settings.fold {
        Fold::Left => children.iter().fold(label, |acc, c| compose(trees, &acc, c)),
        // From the last operand on, each composed with what stands behind it.
        Fold::Right => {
            let operands = std::iter::once(&label).chain(&children).rev();
            operands.cloned().reduce(|acc, x| compose(trees, &x, &acc)).unwrap_or(label)
        }
    }
}

/// The vector of a tree: the weighted sum over its fragments. (Not normalised, and
/// without a dictionary.)
pub fn tree(trees: &DistributedTrees, nodes: &Nodes, root: NodeId) -> Vec<f64> {
    let settings = &trees.settings;
    let kernel = settings.kernel();
    let height = settings.max_height.unwrap_or(usize::MAX);
    let mut sum = vec![0.0; settings.n_components];
    for node in occurrences(nodes, root) {
        for (fragment, weight) in fragments(&*kernel, nodes, node, height) {
            for (s, x) in sum.iter_mut().zip(value(trees, &fragment)) {
                *s += weight * x;
            }
        }
    }
    sum
}

fn occurrences(nodes: &Nodes, root: NodeId) -> Vec<NodeId> {
    let below = nodes.children(root).iter().flat_map(|&c| occurrences(nodes, c));
    std::iter::once(root).chain(below).collect()
}

fn bare(nodes: &Nodes, node: NodeId) -> Fragment {
    Fragment { label: nodes.name(node).to_owned(), children: Vec::new() }
}

/// The fragments whose root is a node, with the roots of the weights of their pairs.
fn fragments(
    kernel: &dyn Kernel,
    nodes: &Nodes,
    node: NodeId,
    height: usize,
) -> Vec<(Fragment, f64)> {
    let value = |name: &str| {
        let is_it = |parameter: &Parameter| parameter.name == name;
        kernel.parameters().into_iter().find(is_it).map(|parameter| parameter.value)
    };
    let number = |name| match value(name) {
        Some(Value::Number(number)) => number,
        _ => f64::NAN,
    };
    // A kernel that has no sketch has no fragments here.
    let Some(sketch) = kernel.sketch() else { return Vec::new() };
    let decay = number("decay");
    match sketch.rule {
        // For these two a leaf is a fragment by itself, with a weight of its own.
        Rule::Subtree | Rule::Subset if nodes.is_leaf(node) => {
            vec![(bare(nodes, node), number("leaf_weight").sqrt())]
        }
        Rule::Subtree => whole(nodes, node, decay.sqrt())
            .into_iter()
            .filter(|(fragment, _)| levels(fragment) <= height)
            .collect(),
        Rule::Subset => subset(nodes, node, decay.sqrt(), height),
        Rule::Partial => {
            let longest = match value("max_children") {
                Some(Value::Limit(Some(limit))) => limit,
                _ => usize::MAX,
            };
            let numbers = (decay, number("mu"), number("leaf_factor"));
            partial(nodes, node, numbers, longest, height)
        }
    }
}

fn levels(fragment: &Fragment) -> usize {
    fragment.children.iter().map(|c| levels(c) + 1).max().unwrap_or(0)
}

fn whole(nodes: &Nodes, node: NodeId, root: f64) -> Option<(Fragment, f64)> {
    let mut fragment = bare(nodes, node);
    let mut weight = if nodes.is_leaf(node) { 1.0 } else { root };
    for &child in nodes.children(node) {
        let (below, times) = whole(nodes, child, root)?;
        fragment.children.push(below);
        weight *= times;
    }
    Some((fragment, weight))
}

/// Each child bare, or with a fragment of its own.
fn subset(
    nodes: &Nodes,
    node: NodeId,
    root: f64,
    height: usize,
) -> Vec<(Fragment, f64)> {
    // A leaf has no production, and at height 0 no level is left for one.
    if nodes.is_leaf(node) || height == 0 {
        return Vec::new();
    }
    let mut found = vec![(bare(nodes, node), root)];
    for &child in nodes.children(node) {
        let mut ways = subset(nodes, child, root, height - 1);
        // A child may also stay bare: that is a way like the others.
        ways.push((bare(nodes, child), 1.0));
        found = product(&found, &ways, 1.0);
    }
    found
}

fn product(
    beginnings: &[(Fragment, f64)],
    ways: &[(Fragment, f64)],
    times: f64,
) -> Vec<(Fragment, f64)> {
    let mut longer = Vec::new();
    for (fragment, weight) in beginnings {
        for (below, more) in ways {
            let mut fragment = fragment.clone();
            fragment.children.push(below.clone());
            longer.push((fragment, weight * more * times));
        }
    }
    longer
}

/// Any children, in order: by the bits of a mask.
fn partial(
    nodes: &Nodes,
    node: NodeId,
    (decay, mu, leaf_factor): (f64, f64, f64),
    longest: usize,
    height: usize,
) -> Vec<(Fragment, f64)> {
    let single = mu.sqrt() * decay;
    let leafness = if nodes.is_leaf(node) { leaf_factor.sqrt() } else { 1.0 };
    let mut found = vec![(bare(nodes, node), single * leafness)];
    if height == 0 {
        return found;
    }
    let children = nodes.children(node);
    let ways: Vec<_> = children
        .iter()
        .map(|&c| partial(nodes, c, (decay, mu, leaf_factor), longest, height - 1))
        .collect();
    for mask in 1usize..1 << children.len() {
        let chosen: Vec<usize> =
            (0..children.len()).filter(|c| mask >> c & 1 == 1).collect();
        if chosen.len() > longest {
            continue;
        }
        // Children left out between the first and the last that were chosen.
        let gaps = chosen[chosen.len() - 1] - chosen[0] + 1 - chosen.len();
        let mut grown = vec![(bare(nodes, node), mu.sqrt() * decay.powi(gaps as i32))];
        for &child in &chosen {
            grown = product(&grown, &ways[child], 1.0);
        }
        found.extend(grown);
    }
    found
}

/// The paper's recursion with nothing remembered, for the subset tree kernel with this
/// decay, by the encoder's composition and fold.
///
/// # Errors
/// Those of [`DistributedTrees::compose`].
pub fn straightforward<T: Real>(
    trees: &DistributedTrees,
    nodes: &Nodes,
    root: NodeId,
    decay: f64,
    out: &mut [T],
) -> Result<()> {
    /// s(n), and adds it to the sum.
    fn recurse<T: Real>(
        trees: &DistributedTrees,
        nodes: &Nodes,
        node: NodeId,
        root: T,
        sum: &mut [T],
    ) -> Result<Vec<T>> {
        let d = sum.len();
        let mut operands = vec![vec![T::zero(); d]];
        trees.label_vector(nodes.name(node), &mut operands[0])?;
        for &child in nodes.children(node) {
            // A child counts as its label and, if it is expanded, as all its fragments.
            let mut term = vec![T::zero(); d];
            trees.label_vector(nodes.name(child), &mut term)?;
            if !nodes.is_leaf(child) {
                let below = recurse(trees, nodes, child, root, sum)?;
                term.iter_mut().zip(below).for_each(|(t, s)| *t += s);
            }
            operands.push(term);
        }
        // The right fold begins at the other end.
        let left = trees.settings.fold == Fold::Left;
        if !left {
            operands.reverse();
        }
        let mut operands = operands.into_iter();
        let mut acc = operands.next().unwrap_or_default();
        for next in operands {
            let mut composed = vec![T::zero(); d];
            let (a, b) = if left { (&acc, &next) } else { (&next, &acc) };
            trees.compose(a, b, &mut composed)?;
            acc = composed;
        }
        for (s, x) in sum.iter_mut().zip(&mut acc) {
            *x = root * *x;
            *s += *x;
        }
        Ok(acc)
    }
    out.fill(T::zero());
    if !nodes.is_leaf(root) {
        recurse(trees, nodes, root, T::of(decay.sqrt()), out)?;
    }
    Ok(())
}
