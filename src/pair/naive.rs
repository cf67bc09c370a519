//! The definition, transcribed: what the algorithms are held to.
//!
//! All fragments of every tree are written out, with their placeholders, and two pairs of
//! fragments count if they look the same and one bijection carries the placeholders of one
//! to those of the other. Exponential in the trees: for small ones, in tests.
//!
//! ```
//! use treekernel_rs::pair::{PairForest, naive};
//!
//! let pairs = PairForest::from_brackets(["(A (B:1 b))"; 2], ["(C:2 c)", "(C:1 c)"], ":")?;
//! let [p, q] = [0, 1].map(|pair| naive::Occurrences::new(&pairs, pair, false));
//! assert_eq!(naive::kernel(&p, &p, 1.0), 3.0); // (A (B)), (A (B b)), (B b) with (C c)
//! assert_eq!(naive::kernel(&p, &q, 1.0), 0.0); // 1 cannot be both 2 and 1
//! # Ok::<(), treekernel_rs::Error>(())
//! ```

use std::collections::{BTreeSet, HashMap};

use super::forest::{PairForest, Side, unmarked};
use crate::{NodeId, Nodes};

/// A fragment where it stands in a tree.
#[derive(Debug, Clone)]
pub struct Fragment {
    /// Labels, brackets, and a mark at each node that carries a placeholder.
    pub shape: String,
    /// These placeholders, in preorder.
    pub placeholders: Vec<u32>,
    /// How many productions it has.
    pub productions: i32,
}

/// All fragments of both trees of a pair.
#[derive(Debug, Clone)]
pub struct Occurrences {
    /// Of the left tree, and of the right one.
    pub fragments: [Vec<Fragment>; 2],
    /// All placeholders of the pair.
    pub placeholders: BTreeSet<u32>,
}

/// A tree node by node, not shared: the same subtree may carry different placeholders.
struct Extended {
    label: String,
    placeholder: Option<u32>,
    children: Vec<Extended>,
}

impl Occurrences {
    /// Writes out the fragments of a pair; only those from the roots, where the paper's
    /// figure 4 looks at no others.
    pub fn new(pairs: &PairForest, pair: usize, roots_only: bool) -> Self {
        // Numbers come in preorder, the left tree's first.
        let ids = pairs.placeholders(pair);
        let mut rest = ids.iter();
        let fragments = Side::BOTH.map(|side| {
            let root = pairs.root(pair, side);
            let tree = extended(pairs.forest().nodes(), root, &mut rest);
            let mut found = Vec::new();
            collect(&tree, roots_only, &mut found);
            found
        });
        Self { fragments, placeholders: ids.iter().copied().collect() }
    }
}

fn extended<'a>(
    nodes: &Nodes,
    node: NodeId,
    rest: &mut impl Iterator<Item = &'a u32>,
) -> Extended {
    let (label, carries) = unmarked(nodes.name(node));
    // In preorder: the node before its children, and these from left to right.
    let placeholder = if carries { rest.next().copied() } else { None };
    let children = nodes.children(node).iter();
    let children = children.map(|&child| extended(nodes, child, rest)).collect();
    Extended { label: label.to_owned(), placeholder, children }
}

fn collect(tree: &Extended, roots_only: bool, found: &mut Vec<Fragment>) {
    found.extend(rooted(tree));
    if !roots_only {
        tree.children.iter().for_each(|child| collect(child, false, found));
    }
}

/// The fragments whose root this is.
fn rooted(tree: &Extended) -> Vec<Fragment> {
    if tree.children.is_empty() {
        return Vec::new();
    }
    let mut found = vec![Fragment { productions: 1, ..alone(tree) }];
    for child in &tree.children {
        // A child stays a leaf of the fragment, or is expanded.
        let mut ways = vec![alone(child)];
        ways.extend(rooted(child));
        let with = |(so_far, way): (&Fragment, &Fragment)| Fragment {
            shape: format!("{} ({})", so_far.shape, way.shape),
            placeholders: [&so_far.placeholders[..], &way.placeholders].concat(),
            productions: so_far.productions + way.productions,
        };
        let both = found.iter().flat_map(|a| ways.iter().map(move |b| (a, b)));
        found = both.map(with).collect();
    }
    found
}

fn alone(tree: &Extended) -> Fragment {
    let mark = if tree.placeholder.is_some() { ":" } else { "" };
    Fragment {
        shape: format!("{:?}{mark}", tree.label),
        placeholders: tree.placeholder.into_iter().collect(),
        productions: 0,
    }
}

/// Equal fragments of one side: their constraint, in order of places, and λ's exponent.
type Matched = (Vec<(u32, u32)>, i32);

/// All pairs of fragments of one side that look the same.
pub fn matched(p: &Occurrences, q: &Occurrences, side: Side) -> Vec<Matched> {
    let mut by_shape: HashMap<&str, Vec<&Fragment>> = HashMap::new();
    for fragment in &q.fragments[side as usize] {
        by_shape.entry(&fragment.shape).or_default().push(fragment);
    }
    let mut found = Vec::new();
    for a in &p.fragments[side as usize] {
        // Equal shapes have their placeholders at the same places, in preorder.
        for b in by_shape.get(&*a.shape).into_iter().flatten() {
            let pairs = a.placeholders.iter().zip(&b.placeholders);
            found.push((pairs.map(|(&a, &b)| (a, b)).collect(), a.productions));
        }
    }
    found
}

/// Whether one bijection carries every first placeholder to its second.
pub fn is_bijection<'a>(pairs: impl IntoIterator<Item = &'a (u32, u32)>) -> bool {
    let [mut there, mut back] = [HashMap::new(), HashMap::new()];
    pairs.into_iter().all(|&(a, b)| {
        *there.entry(a).or_insert(b) == b && *back.entry(b).or_insert(a) == a
    })
}

/// Σ over all pairs of matched fragments, left and right, whose constraints `fit`.
fn sum(
    p: &Occurrences,
    q: &Occurrences,
    decay: f64,
    fit: impl Fn(&[(u32, u32)], &[(u32, u32)]) -> bool,
) -> f64 {
    let [left, right] = Side::BOTH.map(|side| matched(p, q, side));
    let mut total = 0.0;
    for (a, n) in &left {
        for (b, m) in &right {
            if fit(a, b) {
                total += decay.powi(n + m);
            }
        }
    }
    total
}

/// The exact kernel.
pub fn kernel(p: &Occurrences, q: &Occurrences, decay: f64) -> f64 {
    sum(p, q, decay, |a, b| is_bijection(a.iter().chain(b)))
}

/// A constraint as a set.
pub type Constraint = BTreeSet<(u32, u32)>;

/// The paper's C: the maximal ones among the constraints of equal fragments of one side.
pub fn constraints(p: &Occurrences, q: &Occurrences) -> Vec<Constraint> {
    let matched = Side::BOTH.iter().flat_map(|&side| matched(p, q, side));
    let constraints =
        matched.map(|(pairs, _)| pairs).filter(|pairs| is_bijection(pairs));
    maximal(&constraints.map(|pairs| pairs.into_iter().collect()).collect())
}

/// The C behind the exact kernel: the maximal ones among consistent unions of both sides'.
pub fn exact_constraints(p: &Occurrences, q: &Occurrences) -> Vec<Constraint> {
    let [left, right] = Side::BOTH.map(|side| {
        let found = matched(p, q, side).into_iter();
        found.map(|(pairs, _)| pairs.into_iter().collect()).collect::<BTreeSet<_>>()
    });
    let unions =
        left.iter().flat_map(|a: &Constraint| right.iter().map(move |b| a | b));
    maximal(&unions.filter(|union| is_bijection(union)).collect())
}

fn maximal(sets: &BTreeSet<Constraint>) -> Vec<Constraint> {
    let is_inside = |set: &Constraint| {
        sets.iter().any(|other| set.is_subset(other) && set != other)
    };
    sets.iter().filter(|set| !is_inside(set)).cloned().collect()
}

/// What the paper's construction amounts to: pairs of fragments whose joint constraint is
/// inside one member of C.
pub fn paper(p: &Occurrences, q: &Occurrences, decay: f64) -> f64 {
    let members = constraints(p, q);
    sum(p, q, decay, |a, b| {
        let inside =
            |set: &Constraint| a.iter().chain(b).all(|pair| set.contains(pair));
        members.iter().any(inside)
    })
}

/// Equations 5 and 7 to 9: inclusion and exclusion over the members of any C.
pub fn inclusion_exclusion(
    p: &Occurrences,
    q: &Occurrences,
    members: &[Constraint],
    decay: f64,
) -> f64 {
    // All subsets but the empty one.
    let subsets = 1u64..1 << members.len();
    let term = |subset: u64| {
        let chosen = (0..members.len()).filter(|i| subset >> i & 1 == 1);
        // What is inside several members is inside their intersection.
        let inside = chosen
            .map(|i| members[i].clone())
            .reduce(|a, b| &a & &b)
            .unwrap_or_default();
        let sign = if subset.count_ones() % 2 == 1 { 1.0 } else { -1.0 };
        let [a, b] = Side::BOTH.map(|side| restricted(p, q, side, &inside, decay));
        sign * a * b
    };
    subsets.map(term).sum()
}

/// K_S of one side: equal fragments whose constraint is inside `allowed`.
pub fn restricted(
    p: &Occurrences,
    q: &Occurrences,
    side: Side,
    allowed: &Constraint,
    decay: f64,
) -> f64 {
    let inside = |(pairs, _): &Matched| pairs.iter().all(|pair| allowed.contains(pair));
    let matched = matched(p, q, side).into_iter().filter(inside);
    matched.map(|(_, productions)| decay.powi(productions)).sum()
}

/// K_max (eq. 10), over all injections; `join` is the product, or the sum.
pub fn max(
    p: &Occurrences,
    q: &Occurrences,
    decay: f64,
    join: impl Fn(f64, f64) -> f64,
) -> f64 {
    let a: Vec<u32> = p.placeholders.iter().copied().collect();
    let b: Vec<u32> = q.placeholders.iter().copied().collect();
    let mut best = 0.0;
    for injection in injections(&a, &b) {
        let [x, y] = Side::BOTH.map(|side| restricted(p, q, side, &injection, decay));
        best = f64::max(best, join(x, y));
    }
    best
}

/// All injections of the smaller set into the larger one, as pairs from a to b.
fn injections(a: &[u32], b: &[u32]) -> Vec<Constraint> {
    if a.len() > b.len() {
        let flip = |set: Constraint| set.into_iter().map(|(x, y)| (y, x)).collect();
        return injections(b, a).into_iter().map(flip).collect();
    }
    // Nothing is left to map: one injection, the empty one.
    let Some((&first, rest)) = a.split_first() else {
        return vec![Constraint::new()];
    };
    let mut found = Vec::new();
    for &to in b {
        let others: Vec<u32> = b.iter().copied().filter(|&other| other != to).collect();
        for mut injection in injections(rest, &others) {
            injection.insert((first, to));
            found.push(injection);
        }
    }
    found
}
