//! Rows of the subset tree kernel: its [index](crate::index::subset), built at once for
//! the trees of a matrix.
//!
//! ```text
//! K(x,t) = Σ_{v in x, u in t, same production} C(v,u)
//!        = λ Σ_p count_x(p) count_t(p)  +  Σ_{v,u} (C(v,u) - λ)
//! ```
//!
//! The first sum is an integer dot product ([`Counts`]), the second a walk over the index.
//! Subtrees are numbered within their production by the first tree that has them, so the
//! trees up to x are a prefix of every list, and a symmetric matrix costs half.
//!
//! With weights each production has its own λ; counts are then multiplied in floats.
//!
//! What was tried, with its figures, stands in docs/DESIGN.md.
//!
//! # Complexity
//! As the index.

use std::sync::Arc;

use super::Askable;
use crate::index::counts::{Counts, CountsScratch, Products, Tally};
use crate::index::id_map::{Edge, IdMap, Key, LISTS, Wanted};
use crate::index::prefixes::{Prefix, Prefixes};
use crate::index::reader::{NONE, Reader};
use crate::index::rows::{Row, RowScratch, Slots, Symbols};
use crate::index::subset::{EDGES, Entry, Index, Patterns, Scratch as Walking, Walk};
use crate::intern::new_id;
use crate::kernel::weights::Factors;
use crate::kernel::{Number, Scaled, TreeCounts};
use crate::ragged::{self, Filler, Ragged};
use crate::threads::{Pause, WatchedThreads};
use crate::{Label, NodeId, Nodes, ProductionId, Result};

const PATTERNS: &str = "pairs of tree and pattern";

/// The index of some trees (columns), and what others (rows) need to walk it.
#[derive(Debug)]
pub(crate) struct Engine<F = f64> {
    index: Index<u32, F>,
    patterns: Patterns,
    prefixes: Prefixes,
    slots: Slots,
    /// How often trees have productions, and patterns.
    groups: Counts,
    column_patterns: Counts,
    /// Equal leaves, for `leaf_weight`.
    leaves: Option<Products>,
    /// By pattern, and by label of a leaf: what a pair weighs, where they differ.
    pattern_weights: Vec<f64>,
    leaf_weights: Vec<f64>,
    /// By production: its number among the columns', or [`NONE`].
    group: Vec<u32>,
    rows: Rows,
}

/// Trees that walk the index.
#[derive(Debug)]
pub(crate) struct Rows {
    /// The inner subtrees of each, children first, with counts.
    trees: Ragged<(NodeId, u32)>,
    id_map: IdMap,
    /// By node: its production's number among the columns', or [`NONE`].
    group: Vec<u32>,
    /// Equal leaves, for `leaf_weight`.
    leaves: Ragged<(u32, u32)>,
}

/// What one worker keeps from row to row.
#[derive(Debug)]
pub(crate) struct Scratch<N = f64> {
    reader: Reader,
    prefix: Prefix,
    walking: Walking<N>,
    row: RowScratch<N>,
    symbols: Symbols,
    groups: CountsScratch,
    patterns: CountsScratch,
    leaves: CountsScratch,
}

impl<F: Factors> Engine<F> {
    /// Indexes the trees of `columns` for rows from `rows` (None: from the same trees), by λ
    /// of all productions, and where it is one for all, `leaf_weight`; or that of each label
    /// beside it.
    #[allow(clippy::needless_pass_by_value)] // mostly one number
    pub(crate) fn new(
        nodes: &Nodes,
        decay: F,
        leaf_weight: f64,
        leaf_weights: Vec<f64>,
        columns: &TreeCounts,
        rows: Option<&TreeCounts>,
        threads: &mut WatchedThreads<'_>,
    ) -> Result<Self> {
        // 1. Number the columns' subtrees by first tree, children first.
        let mut builder = Builder::new(nodes, columns);
        builder.number_subtrees(threads)?;
        // 2. Lists; beside them what is counted, whatever is below.
        let sizes = ragged::times(&builder.group_of, builder.n_groups);
        let ((slots, (list_keys, lists, edges)), (groups, leaves)) = threads.both(
            |threads| {
                let is_elsewhere = |node: NodeId| {
                    let number = builder.number[node.index()];
                    builder.column[number as usize].is_preterminal
                };
                let new = &builder.new_nodes;
                let (slots, slot_of) =
                    Slots::new(columns, new, is_elsewhere, nodes.len())?;
                Ok((slots, builder.lists(&sizes, &slot_of, threads)?))
            },
            || {
                let (trees, group_of) = (&builder.trees, &builder.group_of);
                let groups = count_groups(trees, group_of, sizes.len())?;
                Ok((groups, count_leaves(nodes, leaf_weight, columns)?))
            },
        )?;
        // Productions are numbered anew.
        let mut production_of = vec![0; builder.n_groups];
        for (production, &group) in (0..).zip(&builder.group) {
            if group != NONE {
                production_of[group as usize] = production;
            }
        }
        let mut index = Index::new(decay.pick(&production_of), leaf_weight);
        index.largest_group = sizes.iter().copied().max().unwrap_or(0);
        index.group_sizes = sizes;
        index.lists = lists.into();
        // 3. The rows' view of it.
        let id_map = match rows {
            None => {
                // All lists are known, so nobody looks them up.
                index.keys.keys = list_keys;
                builder.own_map(&edges)?
            }
            Some(rows) => {
                for key in list_keys {
                    index.keys.insert(key, LISTS)?;
                }
                let wanted = (0..rows.len()).flat_map(|tree| rows.nodes(tree));
                IdMap::of_same(nodes, wanted, &builder.group, |key| index.find(key))?
            }
        };
        // 4. Patterns: lists of preterminals that are long for their production.
        let has_preterminal = builder.has_preterminal();
        let patterns = Patterns::new(&index, |key| has_preterminal[key[2] as usize]);
        let column_patterns = builder.count_patterns(&edges, &patterns, threads)?;
        let pattern_weights = if index.decay.same().is_some() {
            Vec::new()
        } else {
            let weight = |list: &u32| {
                let [group, _, child] = index.keys.keys[*list as usize];
                index.decay.of(group) * index.decay.of(child)
            };
            patterns.lists.iter().map(weight).collect()
        };
        let rows = rows.unwrap_or(columns);
        let rows = Rows {
            trees: inner_nodes(nodes, rows)?,
            id_map,
            group: nodes.productions().iter().map(|p| builder.group_at(*p)).collect(),
            leaves: match &leaves {
                Some(_) => leaves_of(nodes, rows, |label| Some(label.0))?,
                None => Ragged::default(),
            },
        };
        Ok(Self {
            rows,
            prefixes: Prefixes {
                groups: builder.new_nodes.map(|node| {
                    builder.group_of[builder.number[node.index()] as usize]
                }),
                lists: edges,
            },
            index,
            patterns,
            slots,
            groups,
            column_patterns,
            leaves,
            pattern_weights,
            leaf_weights,
            group: builder.group,
        })
    }

    fn new_scratch<N: Number>(&self) -> Scratch<N> {
        Scratch {
            reader: Reader::default(),
            prefix: Prefix::new(self.index.group_sizes.len(), self.index.lists.len()),
            walking: Walking::default(),
            row: self.slots.row_scratch(),
            symbols: Symbols::default(),
            groups: self.groups.scratch(),
            patterns: self.column_patterns.scratch(),
            leaves: self
                .leaves
                .as_ref()
                .map_or_else(CountsScratch::default, |l| l.counts.scratch()),
        }
    }

    /// Reads the tree of row `x`, and writes what it has in common with the columns
    /// whatever is below.
    fn base_row<N: Number>(
        &self,
        (rows, x): (&Rows, usize),
        patterns: Option<&Patterns<N>>,
        scratch: &mut Scratch<N>,
        row: &mut [f64],
    ) {
        scratch.prefix.reveal(row.len(), &self.prefixes);
        scratch.reader.set(rows.group.len(), rows.trees.get(x), &rows.id_map);
        scratch.symbols.clear();
        let group = |node: NodeId| rows.group[node.index()];
        self.walk(rows, patterns, scratch, |walk, symbols, _| {
            walk.plan(group, symbols);
        });
        let Scratch { symbols, groups, patterns, leaves, .. } = scratch;
        if self.index.decay.same().is_none() {
            row.fill(0.0);
            let of = |group| self.index.decay.of(group);
            self.groups.add_weighted(&symbols.groups, of, row);
            let of = |pattern: u32| self.pattern_weights[pattern as usize];
            self.column_patterns.add_weighted(&symbols.patterns, of, row);
            if let Some(own) = &self.leaves {
                let of = |label: u32| self.leaf_weights[label as usize];
                own.counts.add_weighted(rows.leaves.get(x), of, row);
            }
            return;
        }
        self.groups.sum(&symbols.groups, groups, row.len());
        self.column_patterns.sum(&symbols.patterns, patterns, row.len());
        let decay = self.index.decay.of(0);
        groups.write(decay, patterns, decay * decay, row);
        if let Some(own) = &self.leaves {
            own.add_to(rows.leaves.get(x), leaves, row);
        }
    }

    /// Adds what it has in common below.
    fn add_corrections<N: Number>(
        &self,
        rows: &Rows,
        patterns: Option<&Patterns<N>>,
        scratch: &mut Scratch<N>,
        row: &mut [N],
        pause: &mut Pause<'_>,
    ) -> Result<()> {
        self.walk(rows, patterns, scratch, |walk, _, scratch| {
            let mut sink = Row::new(&self.slots, scratch, row);
            let done = walk.walk(&mut sink, pause);
            if done.is_ok() {
                sink.finish();
            } else {
                sink.cancel();
            }
            done
        })
    }

    fn walk<N: Number, R>(
        &self,
        rows: &Rows,
        patterns: Option<&Patterns<N>>,
        scratch: &mut Scratch<N>,
        run: impl FnOnce(
            &mut Walk<'_, u32, N, Prefix, F>,
            &mut Symbols,
            &mut RowScratch<N>,
        ) -> R,
    ) -> R {
        let Scratch { reader, prefix, walking, row, symbols, .. } = scratch;
        let mut walk = Walk {
            index: &self.index,
            id_map: &rows.id_map,
            tree: reader,
            extent: prefix,
            patterns,
            folds: &[],
            scratch: walking,
        };
        run(&mut walk, symbols, row)
    }

    /// The kernel of row 0 and column 0, of an index of one tree each: for trees so
    /// large that pairs of nodes are too many, or values too large for floats.
    pub(crate) fn single(&self, pause: &mut Pause<'_>) -> Result<Scaled> {
        let mut scratch = self.new_scratch();
        let mut base = [0.0];
        self.base_row((&self.rows, 0), None, &mut scratch, &mut base);
        let mut row = [Scaled::of(base[0])];
        self.add_corrections(&self.rows, None, &mut scratch, &mut row, pause)?;
        Ok(row[0])
    }
}

impl<F: Factors> super::Engine for Engine<F> {
    type Scratch = Scratch;

    fn scratch(&self) -> Scratch {
        self.new_scratch()
    }

    fn row(
        &self,
        x: usize,
        scratch: &mut Scratch,
        row: &mut [f64],
        pause: &mut Pause<'_>,
    ) -> Result<()> {
        self.row_of(&self.rows, x, scratch, row, pause)
    }
}

impl<F: Factors> super::Askable for Engine<F> {
    type Rows = Rows;

    fn read(
        &self,
        columns: &Nodes,
        store: &Arc<Nodes>,
        trees: &TreeCounts,
    ) -> Result<Option<Rows>> {
        let group = |production: u32| {
            Some(*self.group.get(production as usize)?).filter(|&group| group != NONE)
        };
        let id_map = IdMap::new(store, columns, Wanted::Productions, |[p, at, c]| {
            self.index.find([group(p)?, at, group(c)?])
        })?;
        let own = |p: &ProductionId| id_map.productions.get(p.index()).copied();
        let known = |p: &ProductionId| own(p).and_then(group).unwrap_or(NONE);
        let label = |l: Label| Some(id_map.labels[l.index()]).filter(|&l| l != NONE);
        Ok(Some(Rows {
            trees: inner_nodes(store, trees)?,
            group: store.productions().iter().map(known).collect(),
            leaves: match &self.leaves {
                Some(_) => leaves_of(store, trees, label)?,
                None => Ragged::default(),
            },
            id_map,
        }))
    }

    fn row_of(
        &self,
        rows: &Rows,
        x: usize,
        scratch: &mut Scratch,
        row: &mut [f64],
        pause: &mut Pause<'_>,
    ) -> Result<()> {
        self.base_row((rows, x), Some(&self.patterns), scratch, row);
        self.add_corrections(rows, Some(&self.patterns), scratch, row, pause)
    }

    fn nbytes(&self) -> usize {
        let Rows { trees, id_map, group, leaves } = &self.rows;
        let rows = trees.nbytes() + id_map.nbytes() + group.len() * 4 + leaves.nbytes();
        let counts = [&self.groups, &self.column_patterns].map(Counts::nbytes);
        let leaves = self.leaves.as_ref().map_or(0, |leaves| leaves.counts.nbytes());
        let built = self.index.nbytes() + self.patterns.nbytes() + self.slots.nbytes();
        let built = built + self.prefixes.nbytes() + self.group.len() * 4;
        rows + counts.iter().sum::<usize>() + leaves + built
    }
}

/// A column subtree while the index is built.
#[derive(Debug, Clone, Copy)]
struct Column {
    node: NodeId,
    group: u32,
    /// Number within the production.
    local: u32,
    /// Without inner children.
    is_preterminal: bool,
}

/// The lists' keys, the lists, and by column subtree the lists that it is in.
type BuiltLists = (Vec<Key>, Ragged<Entry<u32>>, Ragged<u32>);

struct Builder<'a> {
    nodes: &'a Nodes,
    columns: &'a TreeCounts,
    /// By node: its number among the columns' subtrees.
    number: Vec<u32>,
    column: Vec<Column>,
    /// By number: the group.
    group_of: Vec<u32>,
    /// Per tree: the numbers of its subtrees, with counts.
    trees: Ragged<(u32, u32)>,
    /// Per tree: its new subtrees.
    new_nodes: Ragged<NodeId>,
    /// By production: its number among the columns'.
    group: Vec<u32>,
    n_groups: usize,
}

impl<'a> Builder<'a> {
    fn new(nodes: &'a Nodes, columns: &'a TreeCounts) -> Self {
        Self {
            nodes,
            columns,
            number: vec![NONE; nodes.len()],
            column: Vec::with_capacity(nodes.len()),
            group_of: Vec::with_capacity(nodes.len()),
            trees: Ragged::default(),
            new_nodes: Ragged::default(),
            group: vec![NONE; nodes.n_productions()],
            n_groups: 0,
        }
    }

    /// Numbers the columns' subtrees by first tree, children first.
    fn number_subtrees(&mut self, threads: &mut WatchedThreads<'_>) -> Result<()> {
        let mut sizes = Vec::new();
        for tree in 0..self.columns.len() {
            threads.pause()?;
            for (node, count) in self.columns.iter(tree) {
                let Some(production) = self.nodes.production(node) else { continue };
                let mut number = self.number[node.index()];
                if number == NONE {
                    number = self.add_column(node, production, &mut sizes)?;
                }
                self.trees.push((number, count));
            }
            self.trees.close("subtrees, tree by tree")?;
            let new = &self.column[self.new_nodes.items.len()..];
            self.new_nodes.extend(new.iter().map(|column| column.node));
            self.new_nodes.close("subtrees")?;
        }
        self.n_groups = sizes.len();
        Ok(())
    }

    fn group_at(&self, production: ProductionId) -> u32 {
        self.group.get(production.index()).copied().unwrap_or(NONE)
    }

    fn add_column(
        &mut self,
        node: NodeId,
        production: ProductionId,
        sizes: &mut Vec<u32>,
    ) -> Result<u32> {
        let group = &mut self.group[production.index()];
        if *group == NONE {
            *group = sizes.len() as u32;
            sizes.push(0);
        }
        let number = new_id(self.column.len(), "subtrees")?;
        self.number[node.index()] = number;
        let inner = |child: &NodeId| self.number[child.index()] != NONE;
        let is_preterminal = !self.nodes.children(node).iter().any(inner);
        let (group, local) = (*group, sizes[*group as usize]);
        sizes[group as usize] += 1;
        self.column.push(Column { node, group, local, is_preterminal });
        self.group_of.push(group);
        Ok(number)
    }

    /// Lists by production, child's position and child's production: production by
    /// production and position by position, so that neither a hash is needed nor memory
    /// far away.
    fn lists(
        &self,
        sizes: &[u32],
        slot_of: &[u32],
        threads: &mut WatchedThreads<'_>,
    ) -> Result<BuiltLists> {
        let (mut list_keys, mut all): (Vec<Key>, _) = (Vec::new(), Ragged::default());
        // The numbers of each column's children, NONE for leaves.
        let mut children = Ragged::default();
        let mut lens = Vec::with_capacity(self.column.len());
        for &Column { node, .. } in &self.column {
            threads.pause()?;
            let numbers =
                self.nodes.children(node).iter().map(|c| self.number[c.index()]);
            children.extend(numbers);
            let first = children.start(children.len());
            let inner = children.items[first..].iter().filter(|&&c| c != NONE);
            lens.push(inner.count() as u32);
            children.close(EDGES)?;
        }
        let mut edges = Filler::new(lens, NONE);
        let mut members = Filler::new(sizes.to_vec(), 0);
        for (number, column) in (0..).zip(&self.column) {
            members.put(column.group, number);
        }
        let mut entries = Vec::new();
        // By production of a child: its list, if it is not one of another position.
        let mut list_of = vec![NONE; sizes.len()];
        for (group, members) in (0..).zip(members.done().iter()) {
            threads.pause()?;
            let arity = members.first().map_or(0, |&m| children.get(m as usize).len());
            for position in 0..arity {
                let first = list_keys.len();
                let mut lens: Vec<u32> = Vec::new();
                entries.clear();
                for &member in members {
                    let child = children.get(member as usize)[position];
                    if child == NONE {
                        continue;
                    }
                    let (child, column) =
                        (self.column[child as usize], self.column[member as usize]);
                    let list = &mut list_of[child.group as usize];
                    // (Of another position or production: below `first`.)
                    if *list == NONE || (*list as usize) < first {
                        *list = new_id(list_keys.len(), LISTS)?;
                        list_keys.push([group, position as u32, child.group]);
                        lens.push(0);
                    }
                    lens[*list as usize - first] += 1;
                    edges.put(member, *list);
                    let target = slot_of[column.node.index()];
                    let entry = Entry { u: column.local, child: child.local, target };
                    entries.push((*list - first as u32, entry));
                }
                let mut lists = Filler::new(lens, Entry::default());
                for &(list, entry) in &entries {
                    lists.put(list, entry);
                }
                all.append(lists.done(), EDGES)?;
            }
        }
        Ok((list_keys, all, edges.done()))
    }

    /// By group: whether it has a subtree without inner children.
    fn has_preterminal(&self) -> Vec<bool> {
        let mut has = vec![false; self.n_groups];
        for column in self.column.iter().filter(|column| column.is_preterminal) {
            has[column.group as usize] = true;
        }
        has
    }

    /// How often the columns' subtrees are in the lists of patterns.
    fn count_patterns(
        &self,
        edges: &Ragged<u32>,
        patterns: &Patterns,
        threads: &mut WatchedThreads<'_>,
    ) -> Result<Counts> {
        let mut tally = Tally::new(patterns.lists.len());
        let mut all = Ragged::default();
        for items in self.trees.iter() {
            threads.pause()?;
            for &(number, count) in items {
                for &list in edges.get(number as usize) {
                    let pattern = patterns.of_list(list);
                    if pattern != NONE {
                        tally.add(pattern, count);
                    }
                }
            }
            all.extend(tally.drain());
            all.close(PATTERNS)?;
        }
        let of = |tree| all.get(tree).iter().copied();
        Counts::new(patterns.lists.len(), of, all.len())
    }

    /// The columns as rows: their edges have known lists.
    fn own_map(&self, edges: &Ragged<u32>) -> Result<IdMap> {
        IdMap::of_lists(self.nodes, |node| {
            // Lists come in the order of the inner children.
            let number = self.number[node.index()];
            let lists = if number == NONE { &[] } else { edges.get(number as usize) };
            let children = self.nodes.children(node).iter();
            let inner = children.filter(|child| self.number[child.index()] != NONE);
            lists.iter().zip(inner).map(|(&key, &child)| Edge { key, child })
        })
    }
}

/// The inner subtrees of trees, in the order of a walk.
fn inner_nodes(nodes: &Nodes, trees: &TreeCounts) -> Result<Ragged<(NodeId, u32)>> {
    let mut inner = Ragged::default();
    for tree in 0..trees.len() {
        inner.extend(trees.iter(tree).filter(|(node, _)| !nodes.is_leaf(*node)));
        inner.close("subtrees, tree by tree")?;
    }
    Ok(inner)
}

/// How often trees have productions.
fn count_groups(
    trees: &Ragged<(u32, u32)>,
    group_of: &[u32],
    n_groups: usize,
) -> Result<Counts> {
    let mut tally = Tally::new(n_groups);
    let mut all = Ragged::default();
    for items in trees.iter() {
        for &(number, count) in items {
            tally.add(group_of[number as usize], count);
        }
        all.extend(tally.drain());
        all.close("productions")?;
    }
    Counts::new(n_groups, |tree| all.get(tree).iter().copied(), all.len())
}

/// Equal leaves, where they count.
fn count_leaves(
    nodes: &Nodes,
    weight: f64,
    columns: &TreeCounts,
) -> Result<Option<Products>> {
    if weight == 0.0 {
        return Ok(None);
    }
    let leaves = leaves_of(nodes, columns, |label| Some(label.0))?;
    Products::new(weight, nodes.labels().len(), &leaves).map(Some)
}

/// The leaves of trees, as far as `label` knows their labels.
fn leaves_of(
    nodes: &Nodes,
    trees: &TreeCounts,
    label: impl Fn(Label) -> Option<u32>,
) -> Result<Ragged<(u32, u32)>> {
    let mut all = Ragged::default();
    for tree in 0..trees.len() {
        let leaves = trees.iter(tree).filter(|(node, _)| nodes.is_leaf(*node));
        all.extend(
            leaves.filter_map(|(n, times)| Some((label(nodes.label(n))?, times))),
        );
        all.close("leaves")?;
    }
    Ok(all)
}
