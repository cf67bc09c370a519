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

use std::ops::Range;

use super::RowsOf;
use crate::forest::reader::{NONE, Reader};
use crate::index::counts::{Counts, CountsScratch, Products, Tally};
use crate::index::id_map::{Edge, IdMap, Key, LISTS, Wanted};
use crate::index::prefixes::{Prefix, Prefixes};
use crate::index::rows::{RowScratch, RowSink, Slots, TreePatterns};
use crate::index::subset::{EDGES, Entry, Index, Patterns, Scratch as Walking, Walk};
use crate::intern::new_id;
use crate::kernel::weights::Factors;
use crate::kernel::{Number, Scaled, TreeCounts};
use crate::memory;
use crate::ragged::{Filler, Ragged};
use crate::threads::Threads;
use crate::{Context, Forest, Label, NodeId, Nodes, ProductionId, Result};

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
    /// The columns as rows; where only others ask, without what they walk by.
    rows: Rows,
}

/// Trees that walk the index.
#[derive(Debug)]
pub(crate) struct Rows {
    /// The inner subtrees of each, children first.
    trees: Ragged<Inner>,
    n_nodes: usize,
    id_map: IdMap,
    /// The groups of each, with counts.
    groups: Ragged<(u32, u32)>,
    /// Equal leaves, for `leaf_weight`.
    leaves: Ragged<(u32, u32)>,
}

/// An inner subtree of a tree.
#[derive(Debug, Clone, Copy)]
struct Inner {
    node: NodeId,
    count: u32,
    /// Its production's number among the columns', or [`NONE`]. (By node, it would be far
    /// away when a row asks for it.)
    group: u32,
}

/// What one worker keeps from row to row.
#[derive(Debug)]
pub(crate) struct Scratch<N = f64> {
    reader: Reader,
    prefix: Prefix,
    walking: Walking<N>,
    row: RowScratch<N>,
    symbols: TreePatterns,
    groups: CountsScratch,
    patterns: CountsScratch,
    leaves: CountsScratch,
}

impl<F: Factors> Engine<F> {
    /// Indexes the trees of `columns`, by λ of all productions, and where it is one for all,
    /// `leaf_weight`; or that of each label beside it.
    #[allow(clippy::needless_pass_by_value)] // mostly one number
    pub(crate) fn new(
        nodes: &Nodes,
        decay: F,
        leaf_weight: f64,
        leaf_weights: Vec<f64>,
        columns: &TreeCounts,
        rows_of: RowsOf,
        threads: &Threads<'_>,
    ) -> Result<Self> {
        // 1. Number the columns' subtrees by first tree, children first.
        let mut builder = Builder::new(nodes, columns)?;
        let ((), times) = threads.both(
            |threads| builder.number_subtrees(threads),
            |_| Slots::times(columns, nodes.len()),
        )?;
        // 2. Where their values go, and their children.
        let n_groups = builder.sizes.len();
        let ((below, edges, inner), (slots, slot_of)) = threads.both(
            |threads| {
                let (below, edges) = builder.below(threads)?;
                Ok((below, edges, builder.inner()?))
            },
            |_| {
                let is_elsewhere = |node: NodeId| {
                    // Preterminals have no inner children, so C is λ and nothing
                    // beyond: no value goes to their slot.
                    let number = builder.number[node.index()];
                    builder.column[number as usize].is_preterminal
                };
                Slots::new(columns, &builder.new_nodes, is_elsewhere, &times)
            },
        )?;
        // 3. Lists.
        // (What is kept longer than need be costs one thread fresh pages, 4 % of WSJ.)
        drop(times);
        let (list_keys, lists, edges) =
            builder.lists(below, &edges, &slot_of, threads)?;
        drop(slot_of);
        // Productions are numbered anew.
        let mut production_of = memory::filled(0, n_groups)?;
        for (production, &group) in (0..).zip(&builder.group) {
            if group != NONE {
                production_of[group as usize] = production;
            }
        }
        // The index counts by the columns' productions, the kernel's factors by the
        // store's.
        let mut index = Index::new(decay.pick(&production_of)?, leaf_weight);
        let has_preterminal = builder.has_preterminal()?;
        index.largest_group = builder.sizes.iter().copied().max().unwrap_or(0);
        index.group_sizes = std::mem::take(&mut builder.sizes);
        index.lists = lists.try_into()?;
        if rows_of == RowsOf::LowerTriangle {
            // Nobody will look them up.
            index.keys.keys = list_keys;
        } else {
            for key in list_keys {
                index.keys.insert(key, LISTS)?;
            }
        }
        // 4. Patterns, lists of preterminals that are long for their production; what is
        // counted, whatever is below; and the rows' view of the index.
        let ((patterns, column_patterns), (groups, leaves, rows)) = threads.both(
            |threads| {
                let is_wanted = |key: Key| has_preterminal[key[2] as usize];
                let patterns = Patterns::new(&index, is_wanted)?;
                let counts = builder.count_patterns(&edges, &patterns, threads)?;
                Ok((patterns, counts))
            },
            |_| {
                let leaves = count_leaves(nodes, leaf_weight, columns)?;
                let own_groups = tally_groups(&inner, n_groups)?;
                let groups_of = |tree| own_groups.get(tree).iter().copied();
                let groups = Counts::new(n_groups, groups_of, own_groups.len())?;
                let id_map = match rows_of {
                    RowsOf::Others => IdMap::blank(Wanted::Productions),
                    _ => builder.own_map(&edges)?,
                };
                let own_leaves = |_| leaves_of(nodes, columns, |label| Some(label.0));
                let rows = Rows {
                    trees: inner,
                    n_nodes: nodes.len(),
                    id_map,
                    groups: own_groups,
                    leaves: leaves
                        .as_ref()
                        .map_or_else(|| Ok(Ragged::default()), own_leaves)?,
                };
                Ok((groups, leaves, rows))
            },
        )?;
        // A pattern adds λ λ', of its production and the child's: a number for each
        // pattern where λ differs.
        let pattern_weights = if index.decay.same().is_some() {
            Vec::new()
        } else {
            let weight = |list: &u32| {
                let [group, _, child] = index.keys.keys[*list as usize];
                index.decay.of(group) * index.decay.of(child)
            };
            memory::collect(patterns.lists.iter().map(weight))?
        };
        Ok(Self {
            rows,
            prefixes: Prefixes { groups: builder.groups, lists: edges },
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

    fn new_scratch<N: Number>(&self) -> Result<Scratch<N>> {
        // Tables of the size of the index, filled as rows need them.
        Ok(Scratch {
            reader: Reader::default(),
            prefix: Prefix::new(
                self.index.group_sizes.len(),
                self.index.lists.starts(),
            )?,
            walking: Walking::default(),
            row: RowScratch::default(),
            symbols: TreePatterns::default(),
            groups: self.groups.scratch()?,
            patterns: self.column_patterns.scratch()?,
            leaves: Products::scratch(self.leaves.as_ref())?,
        })
    }

    /// Reads the tree of row `x`, and writes what it has in common with the columns
    /// whatever is below.
    fn base_row<N: Number>(
        &self,
        (rows, x): (&Rows, usize),
        patterns: Option<&Patterns<N>>,
        scratch: &mut Scratch<N>,
        row: &mut [f64],
    ) -> Result<()> {
        // 1. What the columns of this row have of each list.
        scratch.prefix.reveal(row.len(), &self.prefixes);
        let tree = rows.trees.get(x);
        let items = tree.iter().map(|inner| (inner.node, inner.count));
        // Read when the index was built, or looked up: the same order of a walk.
        scratch.reader.set(rows.n_nodes, items)?;
        scratch.symbols.start(tree.len())?;
        let group = |place: usize| tree[place].group;
        // 2. The first pass notes the tree's patterns, which the products below need.
        self.walk(rows, patterns, scratch, |walk, symbols, _| {
            walk.plan(group, symbols)
        })?;
        let Scratch { symbols, groups, patterns, leaves, .. } = scratch;
        // 3. Where productions have a λ each, counts are multiplied in floats.
        if self.index.decay.same().is_none() {
            row.fill(0.0);
            let decay_of = |group| self.index.decay.of(group);
            self.groups.add_weighted(rows.groups.get(x), decay_of, row);
            let weight_of = |pattern: u32| self.pattern_weights[pattern as usize];
            self.column_patterns.add_weighted(&symbols.patterns, weight_of, row);
            if let Some(products) = &self.leaves {
                let weight_of = |label: u32| self.leaf_weights[label as usize];
                products.counts.add_weighted(rows.leaves.get(x), weight_of, row);
            }
            return Ok(());
        }
        // Else in integers: λ for each pair of a production, λ² more for each of a
        // pattern.
        self.groups.sum(rows.groups.get(x), groups, row.len())?;
        self.column_patterns.sum(&symbols.patterns, patterns, row.len())?;
        let decay = self.index.decay.of(0);
        groups.write(decay, patterns, decay * decay, row);
        if let Some(products) = &self.leaves {
            products.add_to(rows.leaves.get(x), leaves, row)?;
        }
        Ok(())
    }

    /// Adds what it has in common below.
    fn add_corrections<N: Number>(
        &self,
        rows: &Rows,
        patterns: Option<&Patterns<N>>,
        scratch: &mut Scratch<N>,
        row: &mut [N],
        context: &Context,
    ) -> Result<()> {
        // A walk that ends early leaves sums of shared subtrees behind, which are taken
        // back.
        self.walk(rows, patterns, scratch, |walk, _, scratch| {
            let mut sink = RowSink::new(&self.slots, scratch, row)?;
            match walk.walk(&mut sink, context) {
                Ok(()) => sink.finish(),
                Err(error) => {
                    sink.cancel();
                    Err(error)
                }
            }
        })
    }

    fn walk<N: Number, R>(
        &self,
        rows: &Rows,
        patterns: Option<&Patterns<N>>,
        scratch: &mut Scratch<N>,
        run: impl FnOnce(
            &mut Walk<'_, u32, N, Prefix, F>,
            &mut TreePatterns,
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

    /// The kernel of some rows' first tree and column 0: for trees so large that pairs of
    /// nodes are too many, or values too large for floats.
    pub(crate) fn single(&self, rows: &Rows, context: &Context) -> Result<Scaled> {
        let mut scratch = self.new_scratch()?;
        let mut base = [0.0];
        self.base_row((rows, 0), None, &mut scratch, &mut base)?;
        let mut row = [Scaled::from_f64(base[0])];
        self.add_corrections(rows, None, &mut scratch, &mut row, context)?;
        Ok(row[0])
    }

    /// Looks up trees of any store.
    pub(crate) fn look_up(
        &self,
        columns: &Nodes,
        store: &Nodes,
        trees: &TreeCounts,
    ) -> Result<Rows> {
        // A production of the store as the columns number theirs.
        let group = |production: u32| {
            Some(*self.group.get(production as usize)?).filter(|&group| group != NONE)
        };
        let find = |[p, at, c]: Key| self.index.find([group(p)?, at, group(c)?]);
        let id_map = IdMap::of_trees(store, columns, Wanted::Productions, trees, find)?;
        let column_id = |p: &ProductionId| id_map.productions.get(p.index()).copied();
        let known_group =
            |p: ProductionId| column_id(&p).and_then(group).unwrap_or(NONE);
        // A label that no column has adds nothing.
        let label = |l: Label| Some(id_map.labels[l.index()]).filter(|&l| l != NONE);
        let inner = inner_nodes(store, trees, known_group)?;
        Ok(Rows {
            groups: tally_groups(&inner, self.index.group_sizes.len())?,
            trees: inner,
            n_nodes: store.len(),
            leaves: match &self.leaves {
                Some(_) => leaves_of(store, trees, label)?,
                None => Ragged::default(),
            },
            id_map,
        })
    }
}

impl<F: Factors + 'static> super::Engine for Engine<F> {
    type Rows = Rows;
    type Scratch = Scratch;

    fn own_rows(&self) -> &Rows {
        &self.rows
    }

    fn scratch(&self) -> Result<Scratch> {
        self.new_scratch()
    }

    fn row(
        &self,
        rows: &Rows,
        x: usize,
        scratch: &mut Scratch,
        row: &mut [f64],
        context: &Context,
    ) -> Result<()> {
        self.base_row((rows, x), Some(&self.patterns), scratch, row)?;
        self.add_corrections(rows, Some(&self.patterns), scratch, row, context)
    }

    fn reads_leaves(&self) -> bool {
        self.leaves.is_some()
    }

    fn read(
        &self,
        columns: &Forest,
        rows: &Forest,
        trees: &TreeCounts,
        _: &Context,
    ) -> Result<(Option<Self>, Rows)> {
        Ok((None, self.look_up(columns.nodes(), rows.nodes(), trees)?))
    }

    fn nbytes(&self) -> usize {
        let Rows { trees, n_nodes: _, id_map, groups, leaves } = &self.rows;
        let rows = trees.nbytes() + id_map.nbytes() + groups.nbytes() + leaves.nbytes();
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

/// A column subtree, by number, and one of its inner children.
type Below = (u32, u32);
/// Keys of lists, the lists, and by column subtree those that it is in.
type BuiltLists = (Vec<Key>, Ragged<Entry<u32>>, Ragged<u32>);
/// Keys of lists, the lists, and by child, as they stand below one another, its list.
type ListsOfPart = (Vec<Key>, Ragged<Entry<u32>>, Vec<u32>);

struct Builder<'a> {
    nodes: &'a Nodes,
    columns: &'a TreeCounts,
    /// By node: its number among the columns' subtrees.
    number: Vec<u32>,
    column: Vec<Column>,
    /// Per tree: the numbers of its subtrees, with counts.
    trees: Ragged<(u32, u32)>,
    /// Per tree: its new subtrees.
    new_nodes: Ragged<NodeId>,
    /// Per tree: the groups of these. (All together: by number.)
    groups: Ragged<u32>,
    /// By production: its number among the columns'.
    group: Vec<u32>,
    /// By group: how many subtrees, and the first of its *places*, one for each position
    /// of a child. By place: how many inner children.
    sizes: Vec<u32>,
    places: Vec<u32>,
    place_lens: Vec<u32>,
}

impl<'a> Builder<'a> {
    fn new(nodes: &'a Nodes, columns: &'a TreeCounts) -> Result<Self> {
        let mut column = Vec::new();
        memory::reserve(&mut column, nodes.len())?;
        Ok(Self {
            nodes,
            columns,
            number: memory::filled(NONE, nodes.len())?,
            column,
            trees: Ragged::default(),
            new_nodes: Ragged::default(),
            groups: Ragged::default(),
            group: memory::filled(NONE, nodes.n_productions())?,
            sizes: Vec::new(),
            places: Vec::new(),
            place_lens: Vec::new(),
        })
    }

    /// Numbers the columns' subtrees by first tree, children first.
    fn number_subtrees(&mut self, threads: &Threads<'_>) -> Result<()> {
        for tree in 0..self.columns.len() {
            threads.context.check()?;
            for (node, count) in self.columns.iter(tree) {
                // A leaf has no production: it stands in no list.
                let Some(production) = self.nodes.production(node) else { continue };
                let mut number = self.number[node.index()];
                if number == NONE {
                    number = self.add_column(node, production)?;
                }
                self.trees.push((number, count))?;
            }
            self.trees.close("subtrees, tree by tree")?;
            // What came since the tree before is new with this one.
            let new = &self.column[self.new_nodes.items.len()..];
            self.new_nodes.extend(new.iter().map(|column| column.node))?;
            self.new_nodes.close("subtrees")?;
            self.groups.close("subtrees")?;
        }
        Ok(())
    }

    /// The columns' own subtrees.
    fn inner(&self) -> Result<Ragged<Inner>> {
        self.trees.map(|&(number, count)| {
            let Column { node, group, .. } = self.column[number as usize];
            Inner { node, count, group }
        })
    }

    fn add_column(&mut self, node: NodeId, production: ProductionId) -> Result<u32> {
        let children = self.nodes.children(node);
        let group = &mut self.group[production.index()];
        // A new production gets a place for each of its children's positions.
        if *group == NONE {
            *group = self.sizes.len() as u32;
            let place = new_id(self.place_lens.len(), "positions of children")?;
            memory::push(&mut self.sizes, 0)?;
            memory::push(&mut self.places, place)?;
            memory::reach(&mut self.place_lens, place as usize + children.len(), 0)?;
        }
        // By first tree and children first, so each tree's subtrees follow those of the
        // trees before.
        let number = new_id(self.column.len(), "subtrees")?;
        self.number[node.index()] = number;
        let group = *group;
        let first = self.places[group as usize] as usize;
        let mut is_preterminal = true;
        // Children are numbered before their parents, and leaves never: what has a
        // number is inner.
        for (child, len) in children.iter().zip(&mut self.place_lens[first..]) {
            if self.number[child.index()] != NONE {
                is_preterminal = false;
                *len += 1;
            }
        }
        let local = self.sizes[group as usize];
        self.sizes[group as usize] += 1;
        memory::push(&mut self.column, Column { node, group, local, is_preterminal })?;
        self.groups.push(group)?;
        Ok(number)
    }

    /// Inner children by place; and by column subtree where they are there.
    fn below(&self, threads: &Threads<'_>) -> Result<(Ragged<Below>, Ragged<u32>)> {
        // The lengths were counted as the subtrees were numbered.
        let mut below =
            Filler::new(memory::collect(self.place_lens.iter().copied())?, (0, 0))?;
        let mut edges = Ragged::default();
        for (number, column) in (0..).zip(&self.column) {
            threads.context.check()?;
            let first = self.places[column.group as usize];
            for (place, child) in (first..).zip(self.nodes.children(column.node)) {
                let child = self.number[child.index()];
                if child != NONE {
                    // Where the child went, by which its list is found again.
                    edges.push(below.put(place, (number, child)) as u32)?;
                }
            }
            edges.close(EDGES)?;
        }
        Ok((below.done(), edges))
    }

    /// Lists by production, child's position and child's production: their keys, the
    /// lists, and by column subtree the lists that it is in. Children are [put
    /// together](Self::below) by production and position first, so that neither a hash is
    /// needed nor memory far away. Each thread makes those of some productions.
    fn lists(
        &self,
        below: Ragged<Below>,
        edges: &Ragged<u32>,
        slot_of: &[u32],
        threads: &Threads<'_>,
    ) -> Result<BuiltLists> {
        let some = |range: Range<usize>, context: &Context| {
            self.lists_of_part(&below, slot_of, range, context)
        };
        // A part for each thread, of about equal work.
        let mut parts =
            threads.parts(work_before(&below, below.len()), some)?.into_iter();
        drop(below);
        let (mut keys, mut lists, mut list_of) = parts.next().unwrap_or_default();
        for (more, entries, more_list_of) in parts {
            // Each part has numbered its lists from 0.
            let first = keys.len() as u32;
            new_id(keys.len() + more.len(), LISTS)?;
            memory::extend(&mut keys, more)?;
            lists.append(entries, EDGES)?;
            memory::extend(
                &mut list_of,
                more_list_of.into_iter().map(|list| first + list),
            )?;
        }
        Ok((keys, lists, edges.map(|&place| list_of[place as usize])?))
    }

    /// Of the productions whose [work](work_before) begins in a range: the lists' keys, the
    /// lists, and for each child the number of its list.
    fn lists_of_part(
        &self,
        below: &Ragged<Below>,
        slot_of: &[u32],
        range: Range<usize>,
        context: &Context,
    ) -> Result<ListsOfPart> {
        let (mut keys, mut lists, mut list_of) = ListsOfPart::default();
        let mut lens: Vec<u32> = Vec::new();
        // By production of a child: its list, if it is not one of another place.
        let mut of_child = memory::filled(NONE, self.sizes.len())?;
        // Productions belong to the part in which their work begins, so each is in one
        // part.
        let [start, end] = [range.start, range.end].map(|at| {
            let is_before = |&place: &u32| work_before(below, place as usize) < at;
            self.places.partition_point(is_before)
        });
        for group in start..end {
            context.check()?;
            let last = self.places.get(group + 1).map_or(below.len(), |&p| p as usize);
            for (position, place) in (self.places[group] as usize..last).enumerate() {
                // A place is one position of one production: its children's productions
                // tell its lists apart.
                let first = keys.len();
                lens.clear();
                let n = below.get(place).len();
                memory::reserve(&mut keys, n)?;
                memory::reserve(&mut lens, n)?;
                memory::reserve(&mut list_of, n)?;
                for &(_, child) in below.get(place) {
                    let child = self.column[child as usize].group;
                    let list = &mut of_child[child as usize];
                    // (Of another place: below `first`.)
                    if *list == NONE || (*list as usize) < first {
                        *list = new_id(keys.len(), LISTS)?;
                        keys.push([group as u32, position as u32, child]); // has room
                        lens.push(0); // has room
                    }
                    lens[*list as usize - first] += 1;
                    list_of.push(*list - first as u32); // has room
                }
                // Lists of this place are counted from its first one while they are
                // filled, and from the part's first one afterwards.
                let numbers = &mut list_of[lists.items.len()..];
                let entries = below.get(place).iter().zip(&*numbers);
                let entry = |(&(member, child), &list): (&Below, &u32)| {
                    let Column { node, local, .. } = self.column[member as usize];
                    let child = self.column[child as usize].local;
                    (list, Entry { u: local, child, target: slot_of[node.index()] })
                };
                lists.append_filled(&mut lens, entries.map(entry), EDGES)?;
                for list in numbers {
                    *list += first as u32;
                }
            }
        }
        Ok((keys, lists, list_of))
    }

    /// By group: whether it has a subtree without inner children.
    fn has_preterminal(&self) -> Result<Vec<bool>> {
        // A list has a pattern only if some of its children are preterminals.
        let mut has = memory::filled(false, self.sizes.len())?;
        for column in self.column.iter().filter(|column| column.is_preterminal) {
            has[column.group as usize] = true;
        }
        Ok(has)
    }

    /// How often the columns' subtrees are in the lists of patterns.
    fn count_patterns(
        &self,
        edges: &Ragged<u32>,
        patterns: &Patterns,
        threads: &Threads<'_>,
    ) -> Result<Counts> {
        let mut tally = Tally::new(patterns.lists.len())?;
        // By tree, as products want it.
        let mut patterns_of_trees = Ragged::default();
        for items in self.trees.iter() {
            threads.context.check()?;
            for &(number, count) in items {
                for &list in edges.get(number as usize) {
                    let pattern = patterns.of_list(list);
                    if pattern != NONE {
                        tally.add(pattern, count);
                    }
                }
            }
            patterns_of_trees.extend(tally.drain())?;
            patterns_of_trees.close(PATTERNS)?;
        }
        let symbols_of = |tree| patterns_of_trees.get(tree).iter().copied();
        Counts::new(patterns.lists.len(), symbols_of, patterns_of_trees.len())
    }

    /// The columns as rows: their edges have known lists.
    fn own_map(&self, edges: &Ragged<u32>) -> Result<IdMap> {
        IdMap::of_lists(self.nodes, Wanted::Productions, |node| {
            // Lists come in the order of the inner children.
            let number = self.number[node.index()];
            let lists = if number == NONE { &[] } else { edges.get(number as usize) };
            let children = self.nodes.children(node).iter();
            let inner = children.filter(|child| self.number[child.index()] != NONE);
            lists.iter().zip(inner).map(|(&key, &child)| Edge { key, child })
        })
    }
}

/// How much work the lists of all places before one are, in entries: a place takes as long
/// as two, whatever it has.
fn work_before(below: &Ragged<Below>, place: usize) -> usize {
    below.start(place) + 2 * place
}

/// The inner subtrees of trees, in the order of a walk; `group` is a production's.
fn inner_nodes(
    nodes: &Nodes,
    trees: &TreeCounts,
    group: impl Fn(ProductionId) -> u32,
) -> Result<Ragged<Inner>> {
    let mut inner = Ragged::default();
    for tree in 0..trees.len() {
        inner.extend(trees.iter(tree).filter_map(|(node, count)| {
            let group = group(nodes.production(node)?);
            Some(Inner { node, count, group })
        }))?;
        inner.close("subtrees, tree by tree")?;
    }
    Ok(inner)
}

/// How often trees have groups.
fn tally_groups(trees: &Ragged<Inner>, n_groups: usize) -> Result<Ragged<(u32, u32)>> {
    let mut tally = Tally::new(n_groups)?;
    let mut groups = Ragged::default();
    for items in trees.iter() {
        for inner in items.iter().filter(|inner| inner.group != NONE) {
            tally.add(inner.group, inner.count);
        }
        groups.extend(tally.drain())?;
        groups.close("productions")?;
    }
    Ok(groups)
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
    let mut found = Ragged::default();
    for tree in 0..trees.len() {
        let leaves = trees.iter(tree).filter(|(node, _)| nodes.is_leaf(*node));
        found.extend(
            leaves.filter_map(|(n, times)| Some((label(nodes.label(n))?, times))),
        )?;
        found.close("leaves")?;
    }
    Ok(found)
}
