//! The distance of two trees along paths that are chosen for each two subtrees.
//!
//! `distance.rs` takes both trees apart along leftmost paths, or both along rightmost ones.
//! In a zigzag each node of such a path has a long path below it, and the blocks of all
//! keyroots have O(n² m²) cells. But any path from the root of either tree to a leaf will
//! do, and each two subtrees may choose anew: every node on the path is compared with every
//! node of the other tree, once the subtrees beside the path have been. The cheapest choice
//! for two subtrees i and j takes so many cells, if the path is in i:
//!
//! ```text
//! cost(i, j) = min over paths   |i| w(j)  +  Σ cost(k, j) over the subtrees k beside the path
//!
//! to the first leaf    w(j) = Σ sizes of the subtrees of all keyroots in j, from the left
//! to the last leaf     w(j) = the same from the right
//! heavy path           w(j) = all forests of j, each taking the time of 2 cells
//! ```
//!
//! (Pawlik & Augsten, "RTED: a robust algorithm for the tree edit distance", PVLDB 2011, and
//! "Tree edit distance: robust and memory-efficient", Information Systems 2016.) The first
//! two are the blocks of `distance.rs`, the third is that of `forests.rs`.
//!
//! 1. What the subtrees beside paths cost is summed up from the leaves, for each two nodes,
//!    and the cheapest path kept. Leaves cost nothing: what they save is known in advance.
//! 2. From the roots on, each two subtrees are a step; so are those beside their path.
//! 3. Steps are made backwards. Along the heavy path a forest grows from its leaf on: by the
//!    nodes right of the path in postorder from the left, by those left of it in postorder
//!    from the right, and then by the node of the path above them.
//!
//! # Complexity
//! O(n m) for the choice, among nodes that are no leaves; then the cells that it finds, which
//! are O(n² m) for any two trees. Memory: as for other trees, and what `forests.rs` says.

use super::costs::{Gain, Transposed};
use super::distance::{Savings, Tables, fill, fill_leaves};
use super::forests::{Columns, Forests};
use super::order::{Order, Sides};
use crate::memory::{collect, extend, filled, push, reach, reserve};
use crate::{Context, Result};

/// Kinds of paths, and the places of their numbers.
const FIRST: usize = 0;
const LAST: usize = 1;
const HEAVY: usize = 2;

/// Cells for each pair of nodes from which on it is worth a choice: that takes the time of
/// some 15, and single paths have short rows.
const MANY_CELLS: f64 = 60.0;
/// The part of its cells from which on the plain way is left.
const MOST_PART: f64 = 0.5;
/// The time of a forest's cell, in cells of other blocks.
const FOREST: f64 = 2.0;

/// A node that is no leaf.
struct Inner {
    /// From the side from which trees are compared, and from the other.
    places: [usize; 2],
    /// Numbers of inner nodes: the parent's, and that of the first one in the subtree.
    parent: usize,
    first: usize,
    size: f64,
    /// By kind of a path in the other tree: cells that each node of that tree takes.
    widths: [f64; 3],
    /// Whether its parent's path of a kind leads to it.
    is_on_path: [bool; 3],
}

/// A tree from both sides.
struct Shape<'a> {
    orders: [Order<'a>; 2],
    /// By place in either order: that in the other one.
    turned: [Vec<u32>; 2],
    /// In postorder.
    inner: Vec<Inner>,
    /// By place: that of the largest child; a leaf's is its own.
    heavy: Vec<u32>,
}

impl<'a> Shape<'a> {
    /// A tree; `labels` has room for its labels from the other side.
    fn new(
        order: Order<'a>,
        other: Order<'a>,
        labels: &'a mut Vec<u32>,
    ) -> Result<Self> {
        let n = order.len();
        // 1. Places in the other order: a node has one number in preorder.
        let mut turned = [filled(0, n)?, filled(0, n)?];
        let mut places = filled(0, n)?;
        for (place, number) in other.preorder()?.into_iter().enumerate() {
            places[number as usize] = place;
        }
        labels.clear();
        reach(labels, n, 0)?;
        for (place, number) in order.preorder()?.into_iter().enumerate() {
            let place_there = places[number as usize];
            turned[0][place] = place_there as u32;
            turned[1][place_there] = place as u32;
            labels[place_there] = order.labels[place];
        }
        let orders = [order, other.with_labels(labels)];
        // 2. Inner nodes, with what is below them.
        let size = |place: usize| place as u32 - order.leftmost[place] + 1;
        let mut heavy = collect(0..n as u32)?;
        // By kind of path: the sums that widths are made of, of what is below a node.
        let mut below = filled([0.0; 3], n)?;
        let (mut numbers, mut inner) = (filled(0, n)?, Vec::new());
        for place in 0..n {
            let parent = order.parents[place] as usize;
            let of_node = f64::from(size(place));
            let [first, last, sizes] = below[place].map(|below| below + of_node);
            let is_leaf = size(place) == 1; // takes no block
            if parent != place {
                let largest = &mut heavy[parent];
                if *largest as usize == parent || size(*largest as usize) < size(place)
                {
                    *largest = place as u32;
                }
                let [is_first, is_last] = [
                    order.leftmost[parent] == order.leftmost[place],
                    place + 1 == parent,
                ];
                let above = &mut below[parent];
                above[FIRST] +=
                    if is_leaf || is_first { first - of_node } else { first };
                above[LAST] += if is_leaf || is_last { last - of_node } else { last };
                above[HEAVY] += sizes;
            }
            if is_leaf {
                continue;
            }
            numbers[place] = inner.len();
            let n_forests = of_node * (of_node + 3.0) / 2.0 - sizes;
            let node = Inner {
                places: [place, turned[0][place] as usize],
                parent: 0,
                first: inner.len(),
                size: of_node,
                widths: [first, last, FOREST * n_forests],
                is_on_path: [false; 3],
            };
            push(&mut inner, node)?;
        }
        // 3. What is above them.
        for at in 0..inner.len() {
            let (place, first) = (inner[at].places[0], inner[at].first);
            let parent = order.parents[place] as usize;
            inner[at].is_on_path = [
                order.leftmost[parent] == order.leftmost[place],
                place + 1 == parent,
                heavy[parent] as usize == place,
            ];
            inner[at].parent = numbers[parent];
            let above = &mut inner[numbers[parent]];
            above.first = above.first.min(first);
        }
        Ok(Self { orders, turned, inner, heavy })
    }

    /// The subtree of an inner node in one order.
    fn columns(&self, node: usize, order: usize) -> Columns<'_> {
        let places = self.inner[node].places;
        let firsts = [0, 1].map(|order| self.orders[order].leftmost[places[order]]);
        let nodes = firsts[order] as usize..places[order] + 1;
        Columns {
            first: [firsts[order], firsts[1 - order]],
            leftmost: &self.orders[order].leftmost[nodes.clone()],
            turned: &self.turned[order][nodes],
        }
    }
}

/// For each two inner nodes: along which path of which tree their subtrees are compared.
struct Strategy {
    n_columns: usize,
    /// Row after row: the kind of a path of the first tree, or that of one of the second
    /// and 3.
    ways: Vec<u8>,
}

impl Strategy {
    /// The cheapest one, and the cells that it takes. `sums` have room for each two nodes.
    fn cheapest(
        [a, b]: [&[Inner]; 2],
        sums: [&mut [f64]; 3],
        context: &Context,
    ) -> Result<(Self, f64)> {
        let m = b.len();
        let mut ways = filled(0, a.len() * m)?;
        // Cells of the subtrees beside the paths of each kind: of paths in the first tree by
        // both nodes, of those in the second tree by its nodes.
        let sums = sums.map(|sums| {
            let sums = &mut sums[..a.len() * m];
            sums.fill(0.0);
            sums
        });
        let mut row = filled([0.0; 3], m)?;
        let mut least = 0.0;
        for (i, x) in a.iter().enumerate() {
            context.check()?;
            row.fill([0.0; 3]);
            for (j, y) in b.iter().enumerate() {
                let at = i * m + j;
                let beside = [sums[0][at], sums[1][at], sums[2][at]];
                (least, ways[at]) = (f64::INFINITY, 0);
                for kind in 0..3 {
                    let first = x.size * y.widths[kind] + beside[kind];
                    let second = y.size * x.widths[kind] + row[j][kind];
                    if first < least {
                        (least, ways[at]) = (first, kind as u8);
                    }
                    if second < least {
                        (least, ways[at]) = (second, kind as u8 + 3);
                    }
                }
                let beside_row = row[j];
                for kind in 0..3 {
                    let above = if x.is_on_path[kind] { beside[kind] } else { least };
                    sums[kind][x.parent * m + j] += above;
                    let above =
                        if y.is_on_path[kind] { beside_row[kind] } else { least };
                    row[y.parent][kind] += above;
                }
            }
        }
        Ok((Self { n_columns: m, ways }, least))
    }

    /// The tree that has the path, and the kind of that.
    fn way(&self, [i, j]: [usize; 2]) -> (usize, usize) {
        let way = usize::from(self.ways[i * self.n_columns + j]);
        (way / 3, way % 3)
    }

    /// All pairs of subtrees that are compared, each behind those that it needs.
    fn steps(&self, trees: [&[Inner]; 2]) -> Result<Vec<[usize; 2]>> {
        let mut steps = collect([trees.map(|nodes| nodes.len() - 1)])?;
        let mut at = 0;
        while let Some(&pair) = steps.get(at) {
            let (tree, kind) = self.way(pair);
            let nodes = trees[tree];
            // From the last node below on: one that is not on the path has what is below
            // it in its own step.
            let mut end = pair[tree];
            while end > nodes[pair[tree]].first {
                let mut beside = pair;
                beside[tree] = end - 1;
                end -= 1;
                if !nodes[end].is_on_path[kind] {
                    push(&mut steps, beside)?;
                    end = nodes[end].first;
                }
            }
            at += 1;
        }
        steps.reverse();
        Ok(steps)
    }
}

/// The largest saving of a mapping of two trees with many cells, as `distance.rs` has it, or
/// None if no choice of paths takes fewer. Then what subtrees save is in `saved`, and in
/// `turned` from the other side.
///
/// # Errors
/// [`Error::Memory`](crate::Error::Memory), and what `context` returns.
pub(super) fn largest_saving(
    sides: &Sides<'_>,
    gains: &impl Gain,
    tables: &mut Tables,
    context: &Context,
) -> Result<Option<f64>> {
    let [a, b] = sides.trees;
    let n_cells = sides.n_cells();
    if n_cells <= MANY_CELLS * (a.len() as f64) * (b.len() as f64) {
        return Ok(None);
    }
    let mut labels = [const { Vec::new() }; 2];
    let [for_a, for_b] = &mut labels;
    let shapes = [
        Shape::new(a, sides.others[0], for_a)?,
        Shape::new(b, sides.others[1], for_b)?,
    ];
    let inner = shapes.each_ref().map(|shape| &*shape.inner);
    let Tables { saved, others, block, .. } = tables;
    let (strategy, least) = Strategy::cheapest(inner, [saved, others, block], context)?;
    if least > n_cells * MOST_PART {
        return Ok(None);
    }
    along(&strategy, &shapes, gains, tables, context).map(Some)
}

/// The largest saving by some strategy.
fn along(
    strategy: &Strategy,
    shapes: &[Shape<'_>; 2],
    gains: &impl Gain,
    tables: &mut Tables,
    context: &Context,
) -> Result<f64> {
    let [n, m] = shapes.each_ref().map(|shape| shape.orders[FIRST].len());
    let Tables { saved, others, block, forests, row, .. } = tables;
    let mut run = Run {
        shapes,
        gains,
        saved: [&mut saved[..n * m], &mut others[..n * m]],
        block,
        forests,
        rows: row,
        context,
    };
    run.fill_leaves()?;
    for pair in strategy.steps(shapes.each_ref().map(|shape| &*shape.inner))? {
        match strategy.way(pair) {
            (tree, HEAVY) => run.along_heavy_path(tree, pair)?,
            (tree, side) => run.along_side(tree, side, pair)?,
        }
    }
    Ok(saved[n * m - 1])
}

/// Two trees at work.
struct Run<'a, G> {
    shapes: &'a [Shape<'a>; 2],
    gains: &'a G,
    /// By nodes of the one tree and the other, in either order: what the subtrees save.
    saved: [&'a mut [f64]; 2],
    block: &'a mut [f64],
    forests: &'a mut Forests,
    /// What subtrees save with those of some columns.
    rows: &'a mut Vec<f64>,
    context: &'a Context<'a>,
}

impl<G: Gain> Run<'_, G> {
    /// What leaves save, of both trees.
    fn fill_leaves(&mut self) -> Result<()> {
        let Self { shapes: [a, b], gains, saved: [saved, turned], block, .. } = self;
        let (trees, context) = ([&a.orders[FIRST], &b.orders[FIRST]], self.context);
        let (n, m) = (trees[0].len(), trees[1].len());
        let place = |i: usize, j: usize| {
            a.turned[FIRST][i] as usize * m + b.turned[FIRST][j] as usize
        };
        let savings = &mut Savings { saved, others: turned, place };
        fill_leaves(trees, trees[0].leaves(), savings, *gains, context)?;
        let [a, b] = trees;
        let place = |j: usize, i: usize| i * m + j;
        let savings = &mut Savings { saved: block, others: saved, place };
        fill_leaves([b, a], b.leaves(), savings, &Transposed(*gains), context)?;
        let [a, b] = &self.shapes;
        for (i, saved) in saved.chunks(m).enumerate().take(n) {
            context.check()?;
            let there = a.turned[FIRST][i] as usize * m;
            for (&j, &value) in b.turned[FIRST].iter().zip(saved) {
                turned[there + j as usize] = value;
            }
        }
        Ok(())
    }

    /// Compares two subtrees along the path of one of them to its first or its last leaf.
    fn along_side(&mut self, tree: usize, side: usize, pair: [usize; 2]) -> Result<()> {
        let [a, b] = self.shapes;
        let trees = [&a.orders[side], &b.orders[side]];
        let m = trees[1].len();
        let place = |i: usize, j: usize| {
            a.turned[side][i] as usize * m + b.turned[side][j] as usize
        };
        let [saved, turned] = &mut self.saved;
        let (saved, others) =
            if side == FIRST { (saved, turned) } else { (turned, saved) };
        let savings = &mut Savings { saved, others, place };
        let roots = [0, 1].map(|at| self.shapes[at].inner[pair[at]].places[side]);
        let other = 1 - tree;
        for keyroot in trees[other].keyroots_of(roots[other]) {
            let mut roots = roots;
            roots[other] = keyroot;
            fill(trees, roots, savings, self.block, self.gains, self.context)?;
        }
        Ok(())
    }

    /// Compares two subtrees along the heavy path of one of them.
    fn along_heavy_path(&mut self, tree: usize, pair: [usize; 2]) -> Result<()> {
        let Self { shapes, gains, saved, forests, rows, context, .. } = self;
        let [on_path, other] = [&shapes[tree], &shapes[1 - tree]];
        let n_columns = shapes[1].orders[FIRST].len();
        let cell = |x: usize, y: usize| {
            if tree == 0 { x * n_columns + y } else { y * n_columns + x }
        };
        let columns = [FIRST, LAST].map(|order| other.columns(pair[1 - tree], order));
        let (m, starts) = (columns[FIRST].len(), columns[FIRST].first);
        forests.set(&columns, context)?;
        // 1. The path, from its leaf up.
        let mut path = collect([on_path.inner[pair[tree]].places[FIRST]])?;
        while let Some(&node) = path.last() {
            let child = on_path.heavy[node] as usize;
            if child == node {
                break;
            }
            push(&mut path, child)?;
        }
        let mut child = None;
        while let Some(node) = path.pop() {
            let places = |node: usize| [node, on_path.turned[FIRST][node] as usize];
            // 2. The path's node below, with those right of it, or without any; then those
            // left of it. It may be added from either side.
            if let Some(child) = child {
                let [start, end] = [child, node].map(places);
                let right = usize::from(end[LAST] > start[LAST] + 1);
                let side = if end[FIRST] > start[FIRST] + 1 { FIRST } else { right };
                for (side, is_added) in [(side, 0), (1 - side, 1)] {
                    let added = start[side] + is_added..end[side];
                    if added.is_empty() {
                        continue;
                    }
                    rows.clear();
                    reserve(rows, added.len() * (m + 1))?;
                    let first = starts[side] as usize;
                    for x in added.clone() {
                        context.check()?;
                        let row = (first..first + m).map(|y| saved[side][cell(x, y)]);
                        extend(rows, [0.0].into_iter().chain(row))?;
                    }
                    let leftmost = &on_path.orders[side].leftmost[added.clone()];
                    let n_before =
                        |row: usize| (leftmost[row] as usize).checked_sub(added.start);
                    forests.add(side, rows, n_before, context)?;
                }
            }
            // 3. The node itself, with all nodes of the other tree.
            let first = starts[FIRST] as usize;
            let label = on_path.orders[FIRST].labels[node];
            let labels = &other.orders[FIRST].labels[first..][..m];
            let gain = |y: usize| match tree {
                0 => gains.gain(label, labels[y]),
                _ => gains.gain(labels[y], label),
            };
            rows.clear();
            reach(rows, m, 0.0)?;
            forests.save_below(&columns, gain, rows);
            let (there, turned) = (places(node)[LAST], &other.turned[FIRST]);
            for (y, &value) in (first..).zip(rows.iter()) {
                saved[FIRST][cell(node, y)] = value;
                saved[LAST][cell(there, turned[y] as usize)] = value;
            }
            child = Some(node);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::costs::{Costs, Gains, RenameCosts};
    use super::super::distance::along_leftmost_paths;
    use super::super::tests::prepared;
    use super::*;
    use crate::corpus::{Random, binary, read, trees, turning};

    /// Compares all trees along paths of some strategies with the plain way.
    fn check(gains: &impl Gain, sides: &Sides<'_>, random: &mut Random) {
        let (context, mut tables) = (Context::default(), Tables::default());
        let [n, m] = sides.trees.map(|tree| tree.len());
        tables.grow(n, m, &context).unwrap();
        let [a, b] = &sides.trees;
        let expected =
            along_leftmost_paths([a, b], gains, &mut tables, &context).unwrap();
        let subtrees = tables.saved[..n * m].to_vec();
        let mut labels = [const { Vec::new() }; 2];
        let [for_a, for_b] = &mut labels;
        let shapes = [
            Shape::new(*a, sides.others[0], for_a).unwrap(),
            Shape::new(*b, sides.others[1], for_b).unwrap(),
        ];
        let inner = shapes.each_ref().map(|shape| &*shape.inner);
        let Tables { saved, others, block, .. } = &mut tables;
        let n_columns = inner[1].len();
        let sums = [&mut **saved, &mut **others, &mut **block];
        let (cheapest, _) = Strategy::cheapest(inner, sums, &context).unwrap();
        let mut strategies = vec![cheapest.ways];
        let len = inner[0].len() * n_columns;
        strategies.extend((0..6).map(|way| vec![way; len]));
        strategies
            .extend((0..3).map(|_| (0..len).map(|_| random.below(6) as u8).collect()));
        for ways in strategies {
            // What is left from before must not matter.
            for table in [&mut tables.saved, &mut tables.others, &mut tables.block] {
                table.fill(1e300);
            }
            let strategy = Strategy { n_columns, ways };
            let found = along(&strategy, &shapes, gains, &mut tables, &context);
            assert_eq!(found.unwrap(), expected);
            assert_eq!(tables.saved[..n * m], subtrees);
        }
    }

    #[test]
    fn all_paths_lead_to_the_same_savings() {
        let mut random = Random(11);
        let mut texts = trees(&mut random, 12, 20);
        for size in [2, 5, 17] {
            texts.push(turning(&mut random, size, 1, true, 3));
            texts.push(turning(&mut random, size, 4, false, 2));
            texts.push(turning(&mut random, 4, size, true, 4));
            texts.push(binary(&mut random, size, 3));
        }
        // More than one node, so that there are paths.
        let mut forest = read(&texts);
        let is_long = |&tree: &usize| forest.nodes().size(forest.roots()[tree]) > 1;
        let long: Vec<usize> = (0..forest.len()).filter(is_long).collect();
        forest = read(&long.iter().map(|&tree| &texts[tree]).collect::<Vec<_>>());
        let names: Vec<_> = forest.nodes().labels().names().collect();
        let pairs = names.iter().enumerate().flat_map(|(i, a)| {
            let cost = move |j: usize| ((i * 7 + j * 3) % 5) as f64 / 4.0;
            let names = names.iter().enumerate();
            names.map(move |(j, b)| ((*a).to_owned(), (*b).to_owned(), cost(j)))
        });
        for rename in [0.75.into(), RenameCosts::by_labels(pairs, 9.0).unwrap()] {
            let costs = Costs { rename, insert: 1.5.into(), delete: 0.5.into() };
            let (costs, orders) = prepared(&costs, &forest);
            for a in 0..forest.len() {
                let b = random.below(forest.len());
                let sides = orders.pair([a, b]).cheapest();
                for sides in [sides, sides.turned()] {
                    match &costs.gains {
                        Gains::Constant(gains) => check(gains, &sides, &mut random),
                        Gains::Table(gains) => check(gains, &sides, &mut random),
                        Gains::ByLabel(_) => unreachable!(),
                    }
                }
            }
        }
    }
}
