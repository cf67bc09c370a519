//! Tree edit distance at unit costs as published: the 1x of ratios of speed.
//!
//! | baseline | algorithm | time |
//! |---|---|---|
//! | [`zhang_shasha`] | blocks of keyroots (SIAM J. Comput. 1989) | by the depths of both trees |
//! | [`Apted`] | the cheapest paths of both (Pawlik & Augsten, Information Systems 2016) | O(n² m) |
//!
//! Tables are kept from pair to pair. Nothing comes from the library but the reading of
//! trees.

// Every bench and test takes what it needs.
#![allow(dead_code, unreachable_pub)]

use std::ops::Range;

use treekernel_rs::{Forest, NodeId};

/// A tree in postorder, from the left or from the right.
pub struct Plain {
    pub labels: Vec<usize>,
    pub leftmost: Vec<usize>,
    pub parents: Vec<usize>,
    pub keyroots: Vec<usize>,
    pub n_below: usize,
    /// In the order of the nodes: their numbers in preorder, from the left.
    preorder: Vec<usize>,
}

impl Plain {
    pub fn new(forest: &Forest, tree: usize, is_mirrored: bool) -> Self {
        let nodes = forest.nodes();
        let (mut labels, mut leftmost) = (Vec::new(), Vec::new());
        let mut open: Vec<(NodeId, usize, usize)> = vec![(forest.roots()[tree], 0, 0)];
        while let Some(&mut (node, ref mut next, first)) = open.last_mut() {
            let children = nodes.children(node);
            if *next < children.len() {
                let at = if is_mirrored { children.len() - 1 - *next } else { *next };
                *next += 1;
                open.push((children[at], 0, labels.len()));
            } else {
                labels.push(nodes.label(node).index());
                leftmost.push(first);
                open.pop();
            }
        }
        let n = labels.len();
        let mut parents = vec![n; n];
        for node in 0..n {
            let mut child = node;
            while child > leftmost[node] {
                parents[child - 1] = node;
                child = leftmost[child - 1];
            }
        }
        let mut depths = vec![0; n];
        for node in (0..n - 1).rev() {
            depths[node] = depths[parents[node]] + 1;
        }
        let preorder = (0..n).map(|node| {
            if is_mirrored { n - 1 - node } else { leftmost[node] + depths[node] }
        });
        let preorder = preorder.collect();
        let last =
            |&i: &usize| leftmost[i + 1..].iter().all(|other| *other != leftmost[i]);
        let keyroots: Vec<usize> = (0..n).filter(last).collect();
        let n_below = keyroots.iter().map(|&i| i - leftmost[i] + 1).sum();
        Self { labels, leftmost, parents, keyroots, n_below, preorder }
    }

    fn size(&self, node: usize) -> usize {
        node - self.leftmost[node] + 1
    }
}

/// Zhang & Shasha, SIAM J. Comput. 1989.
pub fn zhang_shasha(a: &Plain, b: &Plain, tables: &mut [Vec<Vec<u32>>; 2]) -> u32 {
    let [trees, forests] = tables;
    for table in [&mut *trees, &mut *forests] {
        if table.len() <= a.labels.len() || table[0].len() <= b.labels.len() {
            *table = vec![vec![0; b.labels.len() + 1]; a.labels.len() + 1];
        }
    }
    for &i in &a.keyroots {
        for &j in &b.keyroots {
            let (top, left) = (a.leftmost[i], b.leftmost[j]);
            forests[0][0] = 0;
            for x in top..=i {
                forests[x - top + 1][0] = forests[x - top][0] + 1;
            }
            for y in left..=j {
                forests[0][y - left + 1] = forests[0][y - left] + 1;
            }
            for x in top..=i {
                for y in left..=j {
                    let (row, column) = (x - top, y - left);
                    let apart =
                        forests[row][column + 1].min(forests[row + 1][column]) + 1;
                    let are_trees = a.leftmost[x] == top && b.leftmost[y] == left;
                    let together = if are_trees {
                        forests[row][column] + u32::from(a.labels[x] != b.labels[y])
                    } else {
                        forests[a.leftmost[x] - top][b.leftmost[y] - left] + trees[x][y]
                    };
                    forests[row + 1][column + 1] = apart.min(together);
                    if are_trees {
                        trees[x][y] = apart.min(together);
                    }
                }
            }
        }
    }
    trees[a.labels.len() - 1][b.labels.len() - 1]
}

/// Paths from a root to a leaf: to the first one, to the last one, or always to the
/// largest child.
const HEAVY: usize = 2;

/// A tree from both sides, with what its paths cost.
pub struct Shape {
    sides: [Plain; 2],
    /// By node of either side: the one of the other side.
    turned: [Vec<usize>; 2],
    /// By kind of path: the child that it goes on with, or the node itself for a leaf.
    next: [Vec<usize>; 3],
    /// By kind of path in the other tree: the forests that each of its nodes meets.
    n_forests: [Vec<usize>; 3],
}

impl Shape {
    pub fn new(forest: &Forest, tree: usize) -> Self {
        let sides =
            [false, true].map(|is_mirrored| Plain::new(forest, tree, is_mirrored));
        let n = sides[0].labels.len();
        let mut turned = [vec![0; n], vec![0; n]];
        for (node, number) in sides[0].preorder.iter().enumerate() {
            turned[0][node] = n - 1 - number;
            turned[1][n - 1 - number] = node;
        }
        let left = &sides[0];
        let mut next = [(); 3].map(|()| (0..n).collect::<Vec<_>>());
        let mut n_forests = [vec![0; n], vec![0; n], vec![0; n]];
        let [first, last, heavy] = &mut next;
        for node in 0..n {
            let parent = left.parents[node];
            let size = left.size(node);
            let is_leaf = size == 1;
            // The last one so far: the sum of the sizes below.
            let on_paths = [first[node], last[node], node];
            for ((kind, forests), next) in
                n_forests.iter_mut().enumerate().zip(on_paths)
            {
                let is_one = is_leaf || kind == HEAVY;
                forests[node] += if is_one { size } else { size - left.size(next) };
            }
            if parent < n {
                for kinds in &mut n_forests {
                    kinds[parent] += kinds[node];
                }
                if first[parent] == parent {
                    first[parent] = node;
                }
                last[parent] = node;
                let largest: &mut usize = &mut heavy[parent];
                if *largest == parent || left.size(*largest) < size {
                    *largest = node;
                }
            }
        }
        for (node, forests) in n_forests[HEAVY].iter_mut().enumerate() {
            *forests = left.size(node) * (left.size(node) + 3) / 2 - *forests;
        }
        Self { sides, turned, next, n_forests }
    }
}

/// What is kept from pair to pair.
#[derive(Default)]
pub struct Apted {
    /// By nodes in postorder: distances of subtrees.
    trees: Vec<Vec<u32>>,
    /// The same: the path along which they are compared, plus 3 in the second tree.
    ways: Vec<Vec<u8>>,
    forests: Vec<Vec<u32>>,
    /// By first and last root: distances of what is below a node of the path.
    below: Vec<Vec<u32>>,
}

fn at_least(table: &mut Vec<Vec<u32>>, n: usize, m: usize) {
    if table.len() < n || table[0].len() < m {
        *table = vec![vec![0; m]; n];
    }
}

impl Apted {
    pub fn distance(&mut self, a: &Shape, b: &Shape) -> u32 {
        let (n, m) = (a.sides[0].labels.len(), b.sides[0].labels.len());
        at_least(&mut self.trees, n, m);
        at_least(&mut self.forests, n.max(m) + 1, n.max(m) + 1);
        at_least(&mut self.below, n.max(m), n.max(m));
        self.choose(a, b);
        self.compare([a, b], [n - 1, m - 1]);
        self.trees[n - 1][m - 1]
    }

    /// The cheapest path of each two subtrees.
    fn choose(&mut self, a: &Shape, b: &Shape) {
        let (n, m) = (a.sides[0].labels.len(), b.sides[0].labels.len());
        self.ways = vec![vec![0; m]; n];
        let mut beside = vec![vec![[0; 3]; m]; n];
        for i in 0..n {
            let mut beside_columns = vec![[0; 3]; m];
            for j in 0..m {
                let mut least = (usize::MAX, 0);
                for kind in 0..3 {
                    let cells = a.sides[0].size(i) * b.n_forests[kind][j];
                    least = least.min((cells + beside[i][j][kind], kind));
                    let cells = b.sides[0].size(j) * a.n_forests[kind][i];
                    least = least.min((cells + beside_columns[j][kind], kind + 3));
                }
                self.ways[i][j] = least.1 as u8;
                let (above, left) = (a.sides[0].parents[i], b.sides[0].parents[j]);
                for kind in 0..3 {
                    if above < n {
                        let is_on_path = a.next[kind][above] == i;
                        beside[above][j][kind] +=
                            if is_on_path { beside[i][j][kind] } else { least.0 };
                    }
                    if left < m {
                        let is_on_path = b.next[kind][left] == j;
                        let cells =
                            if is_on_path { beside_columns[j][kind] } else { least.0 };
                        beside_columns[left][kind] += cells;
                    }
                }
            }
        }
    }

    /// All subtrees of two nodes.
    fn compare(&mut self, shapes: [&Shape; 2], pair: [usize; 2]) {
        let way = usize::from(self.ways[pair[0]][pair[1]]);
        let (tree, kind) = (way / 3, way % 3);
        let (plain, next) = (&shapes[tree].sides[0], &shapes[tree].next[kind]);
        let mut node = pair[tree];
        while next[node] != node {
            let mut child = node;
            while child > plain.leftmost[node] {
                if child - 1 != next[node] {
                    let mut beside = pair;
                    beside[tree] = child - 1;
                    self.compare(shapes, beside);
                }
                child = plain.leftmost[child - 1];
            }
            node = next[node];
        }
        if kind == HEAVY {
            self.along_heavy_path(shapes, tree, pair);
        } else {
            self.along_side(shapes, tree, kind, pair);
        }
    }

    /// The recursion of Zhang & Shasha, where one of the trees has a single keyroot.
    fn along_side(
        &mut self,
        [a, b]: [&Shape; 2],
        tree: usize,
        side: usize,
        [i, j]: [usize; 2],
    ) {
        let place = |shape: &Shape, node: usize| match side {
            0 => node,
            _ => shape.turned[0][node],
        };
        let node = |shape: &Shape, place: usize| match side {
            0 => place,
            _ => shape.turned[1][place],
        };
        let (i, j) = (place(a, i), place(b, j));
        let (x_side, y_side) = (&a.sides[side], &b.sides[side]);
        let below = |plain: &Plain, root: usize, is_path: bool| -> Vec<usize> {
            let from = if is_path { root } else { plain.leftmost[root] };
            let keyroots = plain.keyroots.iter().copied();
            let below = keyroots.filter(|&node| (from..root).contains(&node));
            below.chain([root]).collect()
        };
        let rows = below(x_side, i, tree == 0);
        let columns = below(y_side, j, tree == 1);
        let forests = &mut self.forests;
        for &i in &rows {
            for &j in &columns {
                let (top, left) = (x_side.leftmost[i], y_side.leftmost[j]);
                for (row, n) in forests[..i - top + 2].iter_mut().zip(0..) {
                    row[0] = n;
                }
                for (cell, n) in forests[0][..j - left + 2].iter_mut().zip(0..) {
                    *cell = n;
                }
                for x in top..=i {
                    for y in left..=j {
                        let (row, column) = (x - top, y - left);
                        let apart =
                            forests[row][column + 1].min(forests[row + 1][column]) + 1;
                        let subtrees = &mut self.trees[node(a, x)][node(b, y)];
                        let firsts = (x_side.leftmost[x], y_side.leftmost[y]);
                        let value = if firsts == (top, left) {
                            let rename = x_side.labels[x] != y_side.labels[y];
                            *subtrees =
                                apart.min(forests[row][column] + u32::from(rename));
                            *subtrees
                        } else {
                            let before = forests[firsts.0 - top][firsts.1 - left];
                            apart.min(before + *subtrees)
                        };
                        forests[row + 1][column + 1] = value;
                    }
                }
            }
        }
    }

    /// Demaine et al.: one tree grows along its path, the other one is all its forests. A
    /// forest is told by its first and its last root.
    fn along_heavy_path(&mut self, shapes: [&Shape; 2], tree: usize, pair: [usize; 2]) {
        let (f, g) = (shapes[tree], shapes[1 - tree]);
        let left = &g.sides[0];
        let root = pair[1 - tree];
        let nodes = left.leftmost[root]..=root;
        let roots = [root, g.turned[0][root]];
        let lasts = [0, 1].map(|side| lasts(g, side, roots[side]));
        let mut path = vec![pair[tree]];
        while f.next[HEAVY][path[path.len() - 1]] != path[path.len() - 1] {
            path.push(f.next[HEAVY][path[path.len() - 1]]);
        }
        let known = |trees: &[Vec<u32>], x: usize, y: usize| match tree {
            0 => trees[x][y],
            _ => trees[y][x],
        };
        // Of no tree: all is inserted.
        let mut sizes = vec![0; root + 1];
        for forests in &lasts[0] {
            let first = forests[0].0;
            for &(last, before) in forests {
                let n_before = before.map_or(0, |node| sizes[node]);
                sizes[last] = n_before + left.size(last) as u32;
                self.below[first][last] = sizes[last];
            }
        }
        let mut child: Option<usize> = None;
        while let Some(node) = path.pop() {
            let mut n_nodes = child.map_or(0, |child| f.sides[0].size(child)) as u32;
            for (side, lasts) in lasts.iter().enumerate() {
                let Some(child) = child else { break };
                let place = |x: usize| if side == 0 { x } else { f.turned[0][x] };
                let rows = place(child) + 1..place(node);
                self.grow(f, g, tree, side, rows.clone(), n_nodes, lasts);
                n_nodes += rows.len() as u32;
            }
            // The node itself: against trees, then against forests.
            let label = f.sides[0].labels[node];
            for y in nodes.clone() {
                let without_both = match left.size(y) {
                    1 => n_nodes,
                    _ => self.below[g.turned[1][g.turned[0][y] - 1]][y - 1],
                };
                let rename = u32::from(label != left.labels[y]);
                let mut value = (self.below[y][y] + 1).min(without_both + rename);
                let mut end = y;
                while end > left.leftmost[y] {
                    let rest = left.size(y) - left.size(end - 1);
                    value = value.min(known(&self.trees, node, end - 1) + rest as u32);
                    end = left.leftmost[end - 1];
                }
                match tree {
                    0 => self.trees[node][y] = value,
                    _ => self.trees[y][node] = value,
                }
            }
            for forests in &lasts[0] {
                let (first, mut value) = (forests[0].0, u32::MAX - 1);
                for &(last, before) in forests {
                    let n_before = before.map_or(0, |node| sizes[node]);
                    sizes[last] = n_before + left.size(last) as u32;
                    let without = self.below[first][last] + 1;
                    let with_tree = known(&self.trees, node, last) + n_before;
                    value = (value + 1).min(without).min(with_tree);
                    self.below[first][last] = value;
                }
            }
            child = Some(node);
        }
    }

    /// Adds nodes to the forest that grows, in postorder from one side.
    #[allow(clippy::too_many_arguments)]
    fn grow(
        &mut self,
        f: &Shape,
        g: &Shape,
        tree: usize,
        side: usize,
        rows: Range<usize>,
        n_nodes: u32,
        lasts: &[Vec<(usize, Option<usize>)>],
    ) {
        let Self { trees, forests, below, .. } = self;
        let (n_rows, leftmost) = (rows.len(), &f.sides[side].leftmost);
        // Nodes from this side and from the left.
        let x_left = |x: usize| if side == 0 { x } else { f.turned[1][x] };
        let y_left = |y: usize| if side == 0 { y } else { g.turned[1][y] };
        for columns in lasts {
            let first = columns[0].0;
            let roots = |last: usize| match side {
                0 => [first, last],
                _ => [y_left(last), y_left(first)],
            };
            for &(last, _) in columns {
                forests[0][last] = below[roots(last)[0]][roots(last)[1]];
            }
            for (row, x) in (1..).zip(rows.clone()) {
                let row_before = leftmost[x] - rows.start;
                // The first column is a tree, and what is below it was the last forest.
                let mut value = match g.sides[side].size(first) {
                    1 => n_nodes + row as u32,
                    _ => forests[row][first - 1],
                };
                for &(last, before) in columns {
                    let (x, y) = (x_left(x), y_left(last));
                    let subtrees = if tree == 0 { trees[x][y] } else { trees[y][x] };
                    let before = match before {
                        Some(node) => forests[row_before][node],
                        None => n_nodes + row_before as u32,
                    };
                    value = (value + 1).min(forests[row - 1][last] + 1);
                    value = value.min(before + subtrees);
                    forests[row][last] = value;
                }
            }
            for &(last, _) in columns {
                below[roots(last)[0]][roots(last)[1]] = forests[n_rows][last];
            }
        }
    }
}

/// The last roots of all forests of a subtree, in postorder from one side, by their first
/// roots, in postorder from the other side; and the last root of what is before each.
fn lasts(g: &Shape, side: usize, root: usize) -> Vec<Vec<(usize, Option<usize>)>> {
    let (plain, there) = (&g.sides[side], &g.sides[1 - side]);
    let other = g.turned[side][root];
    let mut last_before = vec![None; root + 2];
    let mut forests = |place: usize| {
        let first = g.turned[1 - side][place];
        let (mut found, mut last) = (Vec::new(), None);
        for node in first..=root {
            last_before[node] = last;
            if g.turned[side][node] <= place {
                let before = last_before[plain.leftmost[node].max(first)];
                found.push((node, before));
                last = Some(node);
            }
        }
        found
    };
    (there.leftmost[other]..=other).map(&mut forests).collect()
}
