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
use crate::forest::reader::Reader;
use crate::ids::{
    GroupId, Id, IdVec, ListId, MemberId, PackedOption, PatternId, Place, RowSlot, ids,
};
use crate::index::GroupKey;
use crate::index::counts::{Counts, CountsScratch, Products, Tally};
use crate::index::id_map::{Edge, IdMap, Key, LISTS, Wanted};
use crate::index::prefixes::{Prefix, Prefixes};
use crate::index::rows::{RowScratch, RowSink, SlotOf, Slots, TreePatterns};
use crate::index::subset::{EDGES, Entry, Index, Patterns, Scratch as Walking, Walk};
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
    index: Index<RowSlot, F>,
    patterns: Patterns,
    prefixes: Prefixes,
    slots: Slots,
    /// How often trees have productions, and patterns.
    groups: Counts<GroupId>,
    column_patterns: Counts<PatternId>,
    /// Equal leaves, for `leaf_weight`.
    leaves: Option<Products<Label>>,
    /// What a pair of a pattern, or of leaves with a label, weighs where these differ.
    pattern_weights: IdVec<PatternId, f64>,
    leaf_weights: IdVec<Label, f64>,
    /// The number of a production among the columns'.
    group: IdVec<ProductionId, PackedOption<GroupId>>,
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
    groups: Ragged<(GroupId, u32)>,
    /// Equal leaves, for `leaf_weight`.
    leaves: Ragged<(Label, u32)>,
}

/// An inner subtree of a tree.
#[derive(Debug, Clone, Copy)]
struct Inner {
    node: NodeId,
    count: u32,
    /// Its production's number among the columns'. (By node, it would be far away when a row
    /// asks for it.)
    group: PackedOption<GroupId>,
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
                    let column = builder.number[node].get();
                    column.is_some_and(|column| builder.column[column].is_preterminal)
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
        for (production, group) in builder.group.enumerated() {
            if let Some(group) = group.get() {
                production_of[group.index()] = production.0;
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
            index.keys.keys = list_keys.into();
        } else {
            for key in list_keys {
                index.keys.insert(key, LISTS)?;
            }
        }
        // 4. Patterns, lists of preterminals that are long for their production; what is
        // counted, whatever is below; and the rows' view of the index.
        let ((patterns, column_patterns), (groups, leaves, rows)) = threads.both(
            |threads| {
                let is_wanted = |key: GroupKey| has_preterminal[key.child];
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
                let own_leaves = |_| leaves_of(nodes, columns, Some);
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
            let weight = |&list: &ListId| {
                let GroupKey { parent, child, .. } = index.key(list);
                index.decay_of(parent) * index.decay_of(child)
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
            pattern_weights: pattern_weights.into(),
            leaf_weights: leaf_weights.into(),
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
        let group = |place: Place| tree[place.index()].group;
        // 2. The first pass notes the tree's patterns, which the products below need.
        self.walk(rows, patterns, scratch, |walk, symbols, _| {
            walk.plan(group, symbols)
        })?;
        let Scratch { symbols, groups, patterns, leaves, .. } = scratch;
        // 3. Where productions have a λ each, counts are multiplied in floats.
        if self.index.decay.same().is_none() {
            row.fill(0.0);
            let decay_of = |group: GroupId| self.index.decay_of(group);
            self.groups.add_weighted(rows.groups.get(x), decay_of, row);
            let weight_of = |pattern: PatternId| self.pattern_weights[pattern];
            self.column_patterns.add_weighted(&symbols.patterns, weight_of, row);
            if let Some(products) = &self.leaves {
                let weight_of = |label: Label| self.leaf_weights[label];
                products.counts.add_weighted(rows.leaves.get(x), weight_of, row);
            }
            return Ok(());
        }
        // Else in integers: λ for each pair of a production, λ² more for each of a
        // pattern.
        self.groups.sum(rows.groups.get(x), groups, row.len())?;
        self.column_patterns.sum(&symbols.patterns, patterns, row.len())?;
        let decay = self.index.decay_of(GroupId(0));
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
            &mut Walk<'_, RowSlot, N, Prefix, F>,
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
            folds: None,
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
        let group = |production| self.group.find(production)?.get();
        let find = |[parent, position, child]: Key| {
            let [parent, child] = [parent, child].map(|id| group(ProductionId(id)));
            self.index.find(GroupKey { parent: parent?, position, child: child? })
        };
        let id_map = IdMap::of_trees(store, columns, Wanted::Productions, trees, find)?;
        let column_group = |production| group(id_map.productions[production].get()?);
        // A label that no column has adds nothing.
        let label = |label: Label| id_map.labels[label].get();
        let inner =
            inner_nodes(store, trees, |production| column_group(production).into())?;
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

    fn meets(&self, rows: &Rows, x: usize, most: usize) -> Result<Option<Vec<u32>>> {
        let mut met = Vec::new();
        // Subtrees have something in common where their productions are equal.
        let mut are_few = self.groups.meet(rows.groups.get(x), most, &mut met)?;
        if let Some(products) = &self.leaves {
            are_few &= products.counts.meet(rows.leaves.get(x), most, &mut met)?;
        }
        Ok(are_few.then_some(met))
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
        let counts = self.groups.nbytes() + self.column_patterns.nbytes();
        let leaves = self.leaves.as_ref().map_or(0, |leaves| leaves.counts.nbytes());
        let built = self.index.nbytes() + self.patterns.nbytes() + self.slots.nbytes();
        let built = built + self.prefixes.nbytes() + self.group.len() * 4;
        rows + counts + leaves + built
    }
}

ids! {
    /// The number of a column subtree while the index is built.
    ColumnId;
    /// A position of a production's children while the index is built.
    PositionId;
}

/// A column subtree while the index is built.
#[derive(Debug, Clone, Copy)]
struct Column {
    node: NodeId,
    group: GroupId,
    /// Number within the production.
    member: MemberId,
    /// Without inner children.
    is_preterminal: bool,
}

/// A column subtree and one of its inner children.
type Below = (ColumnId, ColumnId);
/// Keys of lists, the lists, and by column subtree those that it is in.
type BuiltLists = (Vec<[u32; 3]>, Ragged<Entry<RowSlot>>, Ragged<ListId>);
/// Keys of lists, the lists, and by child, as they stand below one another, its list.
type ListsOfPart = (Vec<[u32; 3]>, Ragged<Entry<RowSlot>>, Vec<ListId>);

struct Builder<'a> {
    nodes: &'a Nodes,
    columns: &'a TreeCounts,
    /// The number of a subtree among the columns'.
    number: IdVec<NodeId, PackedOption<ColumnId>>,
    column: IdVec<ColumnId, Column>,
    /// Per tree: its subtrees, with counts.
    trees: Ragged<(ColumnId, u32)>,
    /// Per tree: its new subtrees.
    new_nodes: Ragged<NodeId>,
    /// Per tree: the groups of these. (All together: by number.)
    groups: Ragged<GroupId>,
    /// The number of a production among the columns'.
    group: IdVec<ProductionId, PackedOption<GroupId>>,
    /// How many subtrees a group has, and the first of its *positions*, one for each of its
    /// children. How many inner children a position has.
    sizes: IdVec<GroupId, u32>,
    positions: IdVec<GroupId, PositionId>,
    position_lens: IdVec<PositionId, u32>,
}

impl<'a> Builder<'a> {
    fn new(nodes: &'a Nodes, columns: &'a TreeCounts) -> Result<Self> {
        let mut column = IdVec::default();
        memory::reserve(&mut column, nodes.len())?;
        Ok(Self {
            nodes,
            columns,
            number: memory::filled(PackedOption::NONE, nodes.len())?.into(),
            column,
            trees: Ragged::default(),
            new_nodes: Ragged::default(),
            groups: Ragged::default(),
            group: memory::filled(PackedOption::NONE, nodes.n_productions())?.into(),
            sizes: IdVec::default(),
            positions: IdVec::default(),
            position_lens: IdVec::default(),
        })
    }

    /// Numbers the columns' subtrees by first tree, children first.
    fn number_subtrees(&mut self, threads: &Threads<'_>) -> Result<()> {
        for tree in 0..self.columns.len() {
            threads.context.check()?;
            for (node, count) in self.columns.iter(tree) {
                // A leaf has no production: it stands in no list.
                let Some(production) = self.nodes.production(node) else { continue };
                let column = match self.number[node].get() {
                    Some(column) => column,
                    None => self.add_column(node, production)?,
                };
                self.trees.push((column, count))?;
            }
            self.trees.close("subtrees, tree by tree")?;
            // What came since the tree before is new with this one.
            let new = &self.column.as_slice()[self.new_nodes.items.len()..];
            self.new_nodes.extend(new.iter().map(|column| column.node))?;
            self.new_nodes.close("subtrees")?;
            self.groups.close("subtrees")?;
        }
        Ok(())
    }

    /// The columns' own subtrees.
    fn inner(&self) -> Result<Ragged<Inner>> {
        self.trees.map(|&(column, count)| {
            let Column { node, group, .. } = self.column[column];
            Inner { node, count, group: group.into() }
        })
    }

    fn add_column(
        &mut self,
        node: NodeId,
        production: ProductionId,
    ) -> Result<ColumnId> {
        let children = self.nodes.children(node);
        let group = if let Some(group) = self.group[production].get() {
            group
        } else {
            let group = GroupId::at(self.sizes.len());
            let n_positions = self.position_lens.len();
            let first = PositionId::next(n_positions, "positions of children")?;
            memory::push(&mut self.sizes, 0)?;
            memory::push(&mut self.positions, first)?;
            memory::reach(&mut self.position_lens, n_positions + children.len(), 0)?;
            self.group[production] = group.into();
            group
        };
        // By first tree and children first, so each tree's subtrees follow those of the
        // trees before.
        let column = ColumnId::next(self.column.len(), "subtrees")?;
        self.number[node] = column.into();
        let first = self.positions[group].index();
        let lens = &mut self.position_lens.as_mut_slice()[first..];
        let mut is_preterminal = true;
        // Children are numbered before their parents, and leaves never: what has a
        // number is inner.
        for (&child, len) in children.iter().zip(lens) {
            if self.number[child].is_some() {
                is_preterminal = false;
                *len += 1;
            }
        }
        let member = MemberId(self.sizes[group]);
        self.sizes[group] += 1;
        memory::push(&mut self.column, Column { node, group, member, is_preterminal })?;
        self.groups.push(group)?;
        Ok(column)
    }

    /// Inner children by position; and by column subtree where they are there.
    fn below(&self, threads: &Threads<'_>) -> Result<(Ragged<Below>, Ragged<u32>)> {
        // The lengths were counted as the subtrees were numbered.
        let lens = memory::copied(&self.position_lens)?;
        let mut below = Filler::new(lens, Below::default())?;
        let mut edges = Ragged::default();
        for (parent, column) in self.column.enumerated() {
            threads.context.check()?;
            let first = self.positions[column.group].0;
            for (position, &child) in (first..).zip(self.nodes.children(column.node)) {
                if let Some(child) = self.number[child].get() {
                    // Where the child went, by which its list is found again.
                    edges.push(below.put(position, (parent, child)) as u32)?;
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
        slot_of: &SlotOf,
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
            let first = keys.len();
            ListId::next(first + more.len(), LISTS)?;
            memory::extend(&mut keys, more)?;
            lists.append(entries, EDGES)?;
            let more = more_list_of.iter().map(|list| ListId::at(first + list.index()));
            memory::extend(&mut list_of, more)?;
        }
        Ok((keys, lists, edges.map(|&edge| list_of[edge as usize])?))
    }

    /// Of the productions whose [work](work_before) begins in a range: the lists' keys, the
    /// lists, and for each child the number of its list.
    fn lists_of_part(
        &self,
        below: &Ragged<Below>,
        slot_of: &SlotOf,
        range: Range<usize>,
        context: &Context,
    ) -> Result<ListsOfPart> {
        let (mut keys, mut lists, mut list_of) = ListsOfPart::default();
        let mut lens: Vec<u32> = Vec::new();
        // By production of a child: its list, if it is not one of another position.
        let none: PackedOption<ListId> = PackedOption::NONE;
        let mut of_child = IdVec::from(memory::filled(none, self.sizes.len())?);
        // Productions belong to the part in which their work begins, so each is in one
        // part.
        let [start, end] = [range.start, range.end].map(|at| {
            let is_before =
                |&first: &PositionId| work_before(below, first.index()) < at;
            self.positions.partition_point(is_before)
        });
        for group in (start..end).map(GroupId::at) {
            context.check()?;
            let next = self.positions.get(group.index() + 1);
            let last = next.map_or(below.len(), |next| next.index());
            let positions = self.positions[group].index()..last;
            for (position, below) in (0..).zip(positions.map(|at| below.get(at))) {
                // Children at one position of one production: their own productions tell
                // the lists apart.
                let first = keys.len();
                lens.clear();
                let n = below.len();
                memory::reserve(&mut keys, n)?;
                memory::reserve(&mut lens, n)?;
                memory::reserve(&mut list_of, n)?;
                for &(_, child) in below {
                    let child = self.column[child].group;
                    // (Of another position: below `first`.)
                    let met = of_child[child].get().filter(|l| l.index() >= first);
                    let list = if let Some(list) = met {
                        list
                    } else {
                        let list = ListId::next(keys.len(), LISTS)?;
                        let key = GroupKey { parent: group, position, child };
                        keys.push(key.into()); // has room
                        lens.push(0); // has room
                        of_child[child] = list.into();
                        list
                    };
                    lens[list.index() - first] += 1;
                    list_of.push(list); // has room
                }
                // Lists of this position are counted from its first one while they are
                // filled.
                let entries = below.iter().zip(&list_of[lists.items.len()..]);
                let entry = |(&(parent, child), &list): (&Below, &ListId)| {
                    let Column { node, member, .. } = self.column[parent];
                    let child = self.column[child].member;
                    let entry = Entry { u: member, child, target: slot_of[node] };
                    (list.0 - first as u32, entry)
                };
                lists.append_filled(&mut lens, entries.map(entry), EDGES)?;
            }
        }
        Ok((keys, lists, list_of))
    }

    /// By group: whether it has a subtree without inner children.
    fn has_preterminal(&self) -> Result<IdVec<GroupId, bool>> {
        // A list has a pattern only if some of its children are preterminals.
        let mut has = IdVec::from(memory::filled(false, self.sizes.len())?);
        for column in self.column.iter().filter(|column| column.is_preterminal) {
            has[column.group] = true;
        }
        Ok(has)
    }

    /// How often the columns' subtrees are in the lists of patterns.
    fn count_patterns(
        &self,
        edges: &Ragged<ListId>,
        patterns: &Patterns,
        threads: &Threads<'_>,
    ) -> Result<Counts<PatternId>> {
        let mut tally = Tally::new(patterns.lists.len())?;
        // By tree, as products want it.
        let mut patterns_of_trees = Ragged::default();
        for items in self.trees.iter() {
            threads.context.check()?;
            for &(column, count) in items {
                for &list in edges.get(column.index()) {
                    if let Some(pattern) = patterns.of_list(list) {
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
    fn own_map(&self, edges: &Ragged<ListId>) -> Result<IdMap> {
        IdMap::of_lists(self.nodes, Wanted::Productions, |node| {
            // Lists come in the order of the inner children.
            let column = self.number[node].get();
            let lists = column.map_or(&[][..], |column| edges.get(column.index()));
            let children = self.nodes.children(node).iter();
            let inner = children.filter(|&&child| self.number[child].is_some());
            let edge = |(&list, &child)| Edge::of_list(Some(list), child);
            lists.iter().zip(inner).map(edge)
        })
    }
}

/// How much work the lists of all positions before one are, in entries: a position takes as
/// long as two, whatever it has.
fn work_before(below: &Ragged<Below>, position: usize) -> usize {
    below.start(position) + 2 * position
}

/// The inner subtrees of trees, in the order of a walk; `group` is a production's.
fn inner_nodes(
    nodes: &Nodes,
    trees: &TreeCounts,
    group: impl Fn(ProductionId) -> PackedOption<GroupId>,
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
fn tally_groups(
    trees: &Ragged<Inner>,
    n_groups: usize,
) -> Result<Ragged<(GroupId, u32)>> {
    let mut tally = Tally::new(n_groups)?;
    let mut groups = Ragged::default();
    for items in trees.iter() {
        for inner in items {
            if let Some(group) = inner.group.get() {
                tally.add(group, inner.count);
            }
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
) -> Result<Option<Products<Label>>> {
    if weight == 0.0 {
        return Ok(None);
    }
    let leaves = leaves_of(nodes, columns, Some)?;
    Products::new(weight, nodes.labels().len(), &leaves).map(Some)
}

/// The leaves of trees, as far as `label` knows their labels.
fn leaves_of(
    nodes: &Nodes,
    trees: &TreeCounts,
    label: impl Fn(Label) -> Option<Label>,
) -> Result<Ragged<(Label, u32)>> {
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
