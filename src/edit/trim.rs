//! Equal parts at the outside of two trees, which are taken off before they are compared.
//!
//! Let two trees have equal labels at their roots, and each edit one cost for all labels.
//! Then a cheapest mapping matches the roots: if one of them is matched with another node,
//! that node may be left to be inserted or deleted in place of the other root. If their
//! first children are equal subtrees, a cheapest mapping matches these as well, and if their
//! last ones are: nodes of such a child may be matched outside of it in one of the two trees
//! only, and are worth no more there than in their own place. If one child each is left, these
//! two are compared in place of the roots, in the same way.
//!
//! ```text
//! (a (b c) (d e) (f g))  (a (b c) (d x y) (f g))      is left of them:  (d e)  (d x y)
//! ```
//!
//! # Complexity
//! Time and memory: as many nodes as two trees have.

use super::order::{BothOrders, Order, Orders, Sides};
use crate::Result;

/// What part of its nodes a pair must lose, so that it is worth a copy of the others.
const LEAST_PART: usize = 32;

/// What is left of two trees, kept from pair to pair.
pub(super) struct Trimmed(BothOrders);

impl Default for Trimmed {
    fn default() -> Self {
        Self(BothOrders([false, true].map(Orders::empty)))
    }
}

/// A subtree of which the outside is taken off: where it begins in postorder from one side,
/// and where its root stands.
#[derive(Clone, Copy)]
struct Part {
    first: usize,
    root: usize,
}

impl Trimmed {
    /// Two trees, told from the left, without the equal parts at their outside, from the side
    /// from which there are fewer cells, and how many nodes each has lost. Costs do not depend
    /// on labels.
    ///
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory).
    pub(super) fn trim<'a>(
        &'a mut self,
        sides: &Sides<'a>,
    ) -> Result<(Sides<'a>, usize)> {
        let (left, right) = (&sides.trees, &sides.others);
        let whole = |tree: &Order<'_>| Part { first: 0, root: tree.len() - 1 };
        let mut parts = [left, right].map(|trees| trees.each_ref().map(whole));
        // By side: how many nodes are off that come first from there.
        let (mut ends, mut n_lost) = ([0; 2], 0);
        while left[0].labels[parts[0][0].root] == left[1].labels[parts[0][1].root] {
            let [x, y] = parts[0].map(|part| part.root - part.first);
            let n_first = equal_children(left, parts[0], x.min(y));
            let n_last = equal_children(right, parts[1], x.min(y) - n_first);
            (ends, n_lost) = ([n_first, n_last], n_lost + n_first + n_last);
            if x.min(y) == n_first + n_last {
                break;
            }
            // Where a single child is left of both, these are compared in place of the roots.
            let below = [0, 1].map(|side| {
                parts[side].map(|Part { first, root }| Part {
                    first: first + ends[side],
                    root: root - ends[1 - side] - 1,
                })
            });
            let is_single = |tree: usize| {
                let Part { first, root } = below[0][tree];
                left[tree].leftmost[root] as usize == first
            };
            if !is_single(0) || !is_single(1) {
                break;
            }
            (parts, ends, n_lost) = (below, [0; 2], n_lost + 1);
        }
        let n_nodes = left[0].len() + left[1].len();
        if n_lost * LEAST_PART < n_nodes {
            return Ok((sides.cheapest(), 0));
        }
        for (side, orders) in self.0.0.iter_mut().enumerate() {
            orders.clear();
            for (tree, part) in [left, right][side].iter().zip(parts[side]) {
                let kept = part.first + ends[side]..part.root - ends[1 - side];
                orders.push_part(tree, kept, part.root)?;
            }
        }
        Ok((self.0.pair([0, 1]).cheapest(), n_lost))
    }
}

/// How many nodes the first children of two roots have that are equal subtrees, at most so
/// many: as long as labels and leftmost leaves are the same, so are the nodes seen so far.
fn equal_children([a, b]: &[Order<'_>; 2], [x, y]: [Part; 2], most: usize) -> usize {
    let mut n_equal = 0;
    for n in 0..most {
        let (i, j) = (x.first + n, y.first + n);
        let is_equal = a.labels[i] == b.labels[j]
            && a.leftmost[i] as usize - x.first == b.leftmost[j] as usize - y.first;
        if !is_equal {
            break;
        }
        if a.parents[i] as usize == x.root && b.parents[j] as usize == y.root {
            n_equal = n + 1;
        }
    }
    n_equal
}

#[cfg(test)]
mod tests {
    use super::super::costs::Costs;
    use super::super::distance::{Tables, saving};
    use super::super::tests::prepared;
    use super::*;
    use crate::corpus::{Random, read, trees};
    use crate::{Context, Forest, NodeId};

    /// How many nodes two trees lose, by ids of subtrees.
    fn n_equal(forest: &Forest, [a, b]: [NodeId; 2]) -> usize {
        let store = forest.nodes();
        if store.label(a) != store.label(b) {
            return 0;
        }
        let [mut x, mut y] = [a, b].map(|node| store.children(node).to_vec());
        let mut n = 0;
        for _ in 0..2 {
            while x.first().is_some_and(|child| y.first() == Some(child)) {
                n += store.size(x.remove(0)) as usize;
                y.remove(0);
            }
            x.reverse();
            y.reverse();
        }
        match (&x[..], &y[..]) {
            ([x], [y]) => n + 1 + n_equal(forest, [*x, *y]),
            _ => n,
        }
    }

    #[test]
    fn what_is_left_is_as_far_apart_as_the_whole() {
        let (mut random, context) = (Random(9), Context::default());
        let (mut tables, mut trimmed) = (Tables::default(), Trimmed::default());
        let mut n_trimmed = 0;
        for round in 0..300 {
            let some = trees(&mut random, 8, 12);
            let mut one = |n: usize| some[random.below(n)].clone();
            // Two trees in equal surroundings, and with some children that are not equal.
            let mut pair = [one(4), one(4)];
            for _ in 0..round % 4 {
                let (first, last) = (one(6), one(6));
                pair = pair.map(|inner| format!("(r {first} {inner} {last})"));
                if round % 5 == 0 {
                    pair[0].insert_str(2, &one(8));
                }
            }
            let forest = read(&pair);
            let roots = [0, 1].map(|tree| forest.roots()[tree]);
            let expected = n_equal(&forest, roots);
            for [rename, insert, delete] in
                [[1.0; 3], [0.25, 1.0, 2.0], [5.0, 1.0, 0.5]]
            {
                let costs = Costs {
                    rename: rename.into(),
                    insert: insert.into(),
                    delete: delete.into(),
                };
                let (costs, orders) = prepared(&costs, &forest);
                let mut save = |sides: &Sides<'_>| {
                    saving(sides, &costs.gains, &mut tables, &context).unwrap()
                };
                for pair in [[0, 1], [1, 0]] {
                    let whole = save(&orders.pair(pair).cheapest());
                    let (sides, n_lost) = trimmed.trim(&orders.pair(pair)).unwrap();
                    let off = n_lost as f64 * costs.constant().unwrap().equal;
                    for sides in [sides, sides.turned()] {
                        assert_eq!(save(&sides) + off, whole, "{pair:?}");
                    }
                    assert!(
                        n_lost == expected || n_lost == 0,
                        "{n_lost} of {expected}"
                    );
                    n_trimmed += usize::from(n_lost > 0);
                }
            }
        }
        assert!(n_trimmed > 100, "{n_trimmed}");
    }
}
