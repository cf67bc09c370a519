//! Which trees are near, without the distances of all.
//!
//! A node's *token* is its label and how many nodes before it have that label: two trees
//! with c tokens in common match at most c nodes of equal labels, so a distance that may be
//! at most τ asks for some number of them, which depends on the two sizes only. Where rare
//! tokens come first, two trees with c of n tokens in common share one of the first n - c + 1
//! (Bayardo, Ma & Srikant, WWW 2007). So a join looks up these, counts the common tokens of
//! what it meets, and then asks for the string edit distances of the labels in postorder and
//! preorder; what passes is for the distance to say.
//!
//! The nearest trees are looked for from the smallest bound on: first that of the common
//! tokens, of all trees, then the strings', then the distance, until the bound of the next
//! tree is above the distance of the last one wanted. If they must not be farther than some
//! distance, only the trees are looked at that a join would look at.
//!
//! All this is for costs that do not depend on labels.
//!
//! # Complexity
//! A join takes time by the trees that share a rare token. Memory: eight bytes for each node.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Mutex};

use super::costs::ConstantCosts;
use super::{Columns, Prices, Trees};
use crate::gram::Near;
use crate::kernel::{Prepared, Worker};
use crate::memory::{
    collect, copied, enter, extend, filled, push, reach, reserve, set_aside,
};
use crate::ragged::{Filler, Ragged, times};
use crate::{Context, Forest, Result};

/// In place of a number of tokens: no tree of that size is near.
const NONE: u32 = u32::MAX;
/// With more different sizes, what each asks of each other is not looked at in advance: a
/// table of that takes 16 MB.
const MANY_SIZES: usize = 1 << 11;

/// Trees, and the lists by which near ones are found.
pub(super) struct Neighbourhood {
    trees: Trees,
    costs: ConstantCosts,
    lists: Arc<TokenLists>,
    /// By tree that asks from outside: its tokens that columns have, the rarest first.
    asking: Ragged<u32>,
}

/// The lists of the trees that are there when they are made: of the columns, and in one call
/// of those that ask these.
struct TokenLists {
    numbers: TokenNumbers,
    /// By tree: its tokens, the rarest first.
    tokens: Ragged<u32>,
    /// By token: columns that have it, or have it among their first, by size.
    lists: Ragged<u32>,
    /// All different sizes, ascending, and which of them each tree has.
    sizes: Vec<u32>,
    size_of: Vec<u32>,
    /// By size and size: how many tokens must be in common; empty where it is not known in
    /// advance.
    needs: Vec<u32>,
    /// By size: columns.
    columns: Ragged<u32>,
    spares: Mutex<Vec<Scratch>>,
}

/// How tokens are numbered.
struct TokenNumbers {
    /// By label: its tokens from the first on, and where they end.
    starts: Vec<u32>,
    ends: Vec<u32>,
    /// By token: its place, the rarest first.
    ranks: Vec<u32>,
}

/// What one worker keeps from tree to tree.
#[derive(Default)]
struct Scratch {
    /// Of single pairs.
    single: super::Scratch,
    /// By size: how many tokens must be in common, where the table is not there.
    needs: Vec<u32>,
    /// By column: which of those that asked met it last, and how many tokens it has in
    /// common with one.
    met: Vec<u64>,
    common: Vec<u32>,
    /// How many trees have asked.
    n_asked: u64,
}

/// A column that may be near: the bits of a bound of its distance, where it stands first, its
/// number, and, once they have been asked for, how many edits there are at least. The smallest
/// comes first.
type Candidate = Reverse<(u64, u32, u32, Option<u32>)>;

impl Neighbourhood {
    /// Trees of which the first `n_columns` may be near. None: their costs depend on labels.
    pub(super) fn new(
        trees: Trees,
        n_columns: usize,
        context: &Context,
    ) -> Result<Option<Self>> {
        let Columns { labels, in_large_units, .. } = &*trees.columns;
        let large = in_large_units.as_ref();
        let is_by_label = large.is_some_and(|large| large.constant.is_none());
        let Some(costs) = labels.constant.filter(|_| !is_by_label) else {
            return Ok(None);
        };
        // 1. Sizes.
        let n_trees = trees.len();
        let mut sizes = collect((0..n_trees).map(|tree| trees.size(tree)))?;
        let mut size_of = filled(0, n_trees)?;
        sizes.sort_unstable();
        sizes.dedup();
        for (tree, size) in size_of.iter_mut().enumerate() {
            let n_nodes = trees.size(tree);
            *size = sizes.partition_point(|&size| size < n_nodes) as u32;
        }
        let mut columns = Filler::new(times(&size_of[..n_columns], sizes.len())?, 0)?;
        for (column, &size) in (0..).zip(&size_of[..n_columns]) {
            columns.put(size, column);
        }
        // 2. Tokens, and of each column those by which it is found.
        let (tokens, numbers) = tokens(&trees, context)?;
        let asking = Ragged::default();
        let n_tokens = numbers.ranks.len();
        let mut found = TokenLists {
            numbers,
            tokens,
            lists: Ragged::default(),
            sizes,
            size_of,
            needs: Vec::new(),
            columns: columns.done(),
            spares: Mutex::default(),
        };
        let mut first = collect(found.sizes.iter().copied())?;
        let n_sizes = found.sizes.len();
        if trees.most.is_some() && n_sizes <= MANY_SIZES {
            let mut needs = Vec::new();
            reserve(&mut needs, n_sizes * n_sizes)?;
            for &row in &found.sizes {
                context.check()?;
                let sizes = found.sizes.iter();
                needs.extend(sizes.map(|&size| need(&trees, &costs, [row, size]))); // has room
            }
            let mut column = Vec::new();
            for (size, n_first) in first.iter_mut().enumerate() {
                column.clear();
                let column_needs = needs.iter().skip(size).step_by(n_sizes);
                extend(&mut column, column_needs.copied())?;
                *n_first = n_firsts(found.sizes[size], &column);
            }
            found.needs = needs;
        }
        let by_size = &found.columns.items;
        let firsts = |column: u32| {
            let n = first[found.size_of[column as usize] as usize] as usize;
            &found.tokens.get(column as usize)[..n]
        };
        let mut lens = filled(0, n_tokens)?;
        for &column in by_size {
            for &token in firsts(column) {
                lens[token as usize] += 1;
            }
        }
        let mut lists = Filler::new(lens, 0)?;
        for &column in by_size {
            for &token in firsts(column) {
                lists.put(token, column);
            }
        }
        found.lists = lists.done();
        Ok(Some(Self { trees, costs, lists: Arc::new(found), asking }))
    }

    /// The tokens of a tree that columns have, the rarest first.
    fn tokens(&self, tree: usize) -> &[u32] {
        match tree.checked_sub(self.lists.tokens.len()) {
            None => self.lists.tokens.get(tree),
            Some(tree) => self.asking.get(tree),
        }
    }

    /// What a tree needs to have in common with columns, by size.
    fn needs<'a>(&'a self, item: usize, room: &'a mut Vec<u32>) -> Result<&'a [u32]> {
        let TokenLists { sizes, size_of, needs, .. } = &*self.lists;
        if let Some(&size) = size_of.get(item)
            && !needs.is_empty()
        {
            return Ok(&needs[size as usize * sizes.len()..][..sizes.len()]);
        }
        let n = self.trees.size(item);
        room.clear();
        let sizes = sizes.iter();
        extend(room, sizes.map(|&size| need(&self.trees, &self.costs, [n, size])))?;
        Ok(room)
    }

    fn costs(&self, pair: [usize; 2]) -> &ConstantCosts {
        self.trees.prices(pair).labels.constant.as_ref().unwrap_or(&self.costs)
    }

    fn take(&self) -> Scratch {
        let spare = self.lists.spares.lock().map(|mut spares| spares.pop());
        spare.ok().flatten().unwrap_or_default()
    }

    fn give(&self, scratch: Scratch) {
        if let Ok(mut spares) = self.lists.spares.lock() {
            set_aside(&mut spares, scratch);
        }
    }

    /// Columns with enough tokens in common with a tree.
    fn candidates(
        &self,
        item: usize,
        end: usize,
        scratch: &mut Scratch,
        context: &Context,
    ) -> Result<Vec<u32>> {
        let Scratch { needs, met, n_asked, .. } = scratch;
        *n_asked += 1;
        let (row, n) = (self.tokens(item), self.trees.size(item));
        let needs = self.needs(item, needs)?;
        let TokenLists { lists, size_of, columns, .. } = &*self.lists;
        let mut found = Vec::new();
        // 1. Trees that need not have any.
        let is_near = |need: &u32| *need != NONE;
        for (size, _) in needs.iter().enumerate().filter(|(_, need)| **need == 0) {
            let near = columns.get(size).iter().copied();
            extend(&mut found, near.filter(|&column| (column as usize) < end))?;
        }
        let Some(first) = needs.iter().position(is_near) else { return Ok(found) };
        let last = needs.iter().rposition(is_near).unwrap_or(first) as u32;
        // 2. Those that share a rare one.
        reach(met, columns.items.len(), 0)?;
        // Those that no column has would be the first.
        let n_unknown = n as usize - row.len();
        let n_asked_for = (n_firsts(n, needs) as usize).saturating_sub(n_unknown);
        for &token in &row[..n_asked_for] {
            let list = lists.get(token as usize);
            let size = |column: u32| size_of[column as usize];
            let start = list.partition_point(|&column| (size(column) as usize) < first);
            for &column in &list[start..] {
                if size(column) > last {
                    break;
                }
                let last_met = &mut met[column as usize];
                if column as usize >= end || *last_met == *n_asked {
                    continue;
                }
                *last_met = *n_asked;
                let need = needs[size(column) as usize];
                let is_near = need != 0 && need != NONE;
                if is_near && share(row, self.tokens(column as usize), need) {
                    push(&mut found, column)?;
                }
            }
            context.check()?;
        }
        Ok(found)
    }

    /// All columns, each with a bound of its distance by the tokens in common.
    fn bounds(
        &self,
        item: usize,
        common: &mut Vec<u32>,
        place: Option<&dyn Fn(u32) -> Option<u32>>,
        context: &Context,
    ) -> Result<Vec<Candidate>> {
        let (n, arrays) = (self.trees.size(item), &self.trees.columns.arrays);
        let is_one_unit = self.trees.columns.in_large_units.is_none();
        let first = self.trees.prices([item, 0]);
        common.clear();
        reach(common, self.lists.columns.items.len(), 0)?;
        for &token in self.tokens(item) {
            context.check()?;
            for &column in self.lists.lists.get(token as usize) {
                common[column as usize] += 1;
            }
        }
        let by_tokens = |(column, &common): (u32, &u32)| {
            let place = place.map_or(Some(column), |place| place(column))?;
            let shorter = n.min(arrays.orders.0[0].size(column as usize));
            let prices = if is_one_unit {
                Prices { insert: arrays.totals.insert[column as usize], ..first }
            } else {
                self.trees.prices([item, column as usize])
            };
            let costs = prices.labels.constant.as_ref().unwrap_or(&self.costs);
            let saved = f64::from(common) * costs.equal
                + f64::from(shorter - common) * costs.different;
            let least = self.trees.value_at(&prices, saved).to_bits();
            Some(Reverse((least, place, column, None)))
        };
        collect((0..).zip(&*common).filter_map(by_tokens))
    }

    fn nearest_by(
        &self,
        item: usize,
        wanted: usize,
        place: Option<&dyn Fn(u32) -> Option<u32>>,
        scratch: &mut Scratch,
        context: &Context,
    ) -> Result<Vec<u32>> {
        let trees = &self.trees;
        // 1. Columns, by a bound of their distances.
        let bounds = if trees.most.is_some() {
            // Those with as many tokens as they need, of which no more is known.
            let n_columns = self.lists.columns.items.len();
            let near = self.candidates(item, n_columns, scratch, context)?;
            let near = near.into_iter();
            let place = |column| place.map_or(Some(column), |place| place(column));
            let near = near.filter_map(|column| Some((place(column)?, column)));
            collect(near.map(|(place, column)| Reverse((0, place, column, None))))?
        } else {
            self.bounds(item, &mut scratch.common, place, context)?
        };
        let single = &mut scratch.single;
        let farthest = (trees.most.unwrap_or(f64::INFINITY).to_bits(), NONE, NONE);
        let mut open = BinaryHeap::from(bounds);
        let mut best: BinaryHeap<(u64, u32, u32)> = BinaryHeap::new();
        trees.ask(item, &mut single.tables)?;
        // 2. From the smallest on: none is below 0, so they are ordered as their bits are.
        while let Some(Reverse((least, place, column, edits))) = open.pop() {
            let worst = match best.peek() {
                Some(&worst) if best.len() == wanted => worst,
                _ => farthest,
            };
            if least > worst.0 {
                break;
            }
            if (least, place, column) > worst {
                continue;
            }
            let pair = [item, column as usize];
            let (most, costs) = (f64::from_bits(worst.0), self.costs(pair));
            let n_most = trees.most_edits(pair, most, costs);
            let Some(edits) = edits else {
                let is_same = trees.are_equal(pair);
                let edits = if is_same {
                    Some(0)
                } else {
                    let tables = &mut single.tables;
                    trees.least_edits(column as usize, n_most, tables, context)?
                };
                if let Some(edits) = edits {
                    let least_now = trees.value_of_edits(pair, edits, costs).to_bits();
                    let key = (least_now.max(least), place, column, Some(edits));
                    enter(&mut open, Reverse(key))?;
                }
                continue;
            };
            let value = if trees.are_equal(pair) {
                0.0
            } else {
                trees.close(pair, [edits, n_most], costs, single, context)?
            };
            let answer = (value.to_bits(), place, column);
            if answer < worst {
                if best.len() == wanted {
                    best.pop();
                }
                enter(&mut best, answer)?;
            }
        }
        collect(best.iter().map(|answer| answer.2))
    }
}

impl Prepared for Neighbourhood {
    fn worker(&self) -> Worker<'_> {
        self.trees.worker()
    }
}

impl Near<Forest> for Neighbourhood {
    fn within(&self, item: usize, end: usize, context: &Context) -> Result<Vec<u32>> {
        let mut scratch = self.take();
        let mut found = self.candidates(item, end, &mut scratch, context)?;
        let tables = &mut scratch.single.tables;
        if !found.is_empty() {
            self.trees.ask(item, tables)?;
        }
        let (mut kept, most) = (0, self.trees.most.unwrap_or(f64::INFINITY));
        for at in 0..found.len() {
            let pair = [item, found[at] as usize];
            let n_most = self.trees.most_edits(pair, most, self.costs(pair));
            let is_near = self.trees.are_equal(pair)
                || self.trees.least_edits(pair[1], n_most, tables, context)?.is_some();
            if is_near {
                found[kept] = found[at];
                kept += 1;
            }
        }
        found.truncate(kept);
        self.give(scratch);
        Ok(found)
    }

    fn nearest(
        &self,
        item: usize,
        wanted: usize,
        place: Option<&dyn Fn(u32) -> Option<u32>>,
        context: &Context,
    ) -> Result<Vec<u32>> {
        if wanted == 0 || self.trees.most.is_some_and(|most| most < 0.0) {
            return Ok(Vec::new());
        }
        let mut scratch = self.take();
        let found = self.nearest_by(item, wanted, place, &mut scratch, context)?;
        self.give(scratch);
        Ok(found)
    }

    fn asked_by(
        &self,
        trees: Option<&Forest>,
        most: Option<f64>,
        context: &Context,
    ) -> Result<Option<Arc<dyn Near<Forest>>>> {
        let none = Forest::default();
        let trees = trees.unwrap_or(&none);
        let Some(trees) = self.trees.asked_by(trees, most, context)? else {
            return Ok(None);
        };
        let mut asking = Ragged::default();
        let n_columns = trees.n_columns();
        for tree in n_columns..trees.len() {
            context.check()?;
            self.lists.numbers.add(trees.orders(tree)[0].labels, &mut asking)?;
        }
        let (lists, costs) = (Arc::clone(&self.lists), self.costs);
        Ok(Some(Arc::new(Self { trees, costs, lists, asking })))
    }

    fn nbytes(&self) -> usize {
        let Self { trees, lists, .. } = self;
        trees.columns.arrays.nbytes() + lists.nbytes()
    }
}

/// How many tokens two trees of these sizes have in common if they are near.
fn need(trees: &Trees, costs: &ConstantCosts, [n, m]: [u32; 2]) -> u32 {
    let (delete, insert) = (f64::from(n) * costs.delete, f64::from(m) * costs.insert);
    let shorter = n.min(m);
    let most = trees.most.unwrap_or(f64::INFINITY);
    let unit = trees.columns.labels.costs.unit;
    let most = trees.largest(most, unit, delete, insert);
    let saved = delete + insert - most - f64::from(shorter) * costs.different;
    // Costs of large trees are rounded to larger units.
    let large = trees.columns.in_large_units.as_ref().map_or(0.0, |of| of.costs.unit);
    let rounding = large / unit * f64::from(n + m);
    let need = (saved - rounding) / (costs.equal - costs.different) - 1e-6;
    let need = need.ceil() as u32;
    if need <= shorter { need } else { NONE }
}

/// Of how many of its tokens one is in any tree that has as many in common as one of the
/// needs says.
fn n_firsts(n: u32, needs: &[u32]) -> u32 {
    let least = needs.iter().filter(|&&need| need > 0 && need <= n).min();
    least.map_or(0, |least| n - least + 1)
}

/// Whether two ascending lists have so many numbers in common.
fn share(a: &[u32], b: &[u32], need: u32) -> bool {
    let (mut x, mut y, mut common) = (0, 0, 0);
    while x < a.len() && y < b.len() {
        if common + (a.len() - x).min(b.len() - y) < need as usize {
            return false;
        }
        let (left, right) = (a[x], b[y]);
        common += usize::from(left == right);
        x += usize::from(left <= right);
        y += usize::from(right <= left);
    }
    common >= need as usize
}

impl TokenLists {
    fn nbytes(&self) -> usize {
        let Self { numbers, tokens, lists, sizes, size_of, needs, columns, .. } = self;
        let lists = tokens.nbytes() + lists.nbytes() + columns.nbytes();
        let numbers = 2 * numbers.starts.len() + numbers.ranks.len();
        lists + (numbers + sizes.len() + size_of.len() + needs.len()) * 4
    }
}

impl TokenNumbers {
    /// Adds the tokens of a tree with these labels, as far as they are numbered.
    fn add(&self, labels: &[u32], tokens: &mut Ragged<u32>) -> Result<()> {
        let mut labels = copied(labels)?;
        labels.sort_unstable();
        for equal in labels.chunk_by(|a, b| a == b) {
            // Labels behind all that are numbered have no tokens.
            let Some(&start) = self.starts.get(equal[0] as usize) else { break };
            let numbers = start..self.ends[equal[0] as usize];
            let ranks = numbers.take(equal.len()).map(|at| self.ranks[at as usize]);
            tokens.extend(ranks)?;
        }
        let start = tokens.start(tokens.len());
        tokens.items[start..].sort_unstable();
        tokens.close("nodes of trees")
    }
}

/// By tree: its tokens, numbered from the rarest on, ascending; and how that is done.
fn tokens(trees: &Trees, context: &Context) -> Result<(Ragged<u32>, TokenNumbers)> {
    // 1. Labels, ascending; how often a tree has each.
    let (mut tokens, mut ends) = (Ragged::default(), filled(0u32, trees.n_labels)?);
    for tree in 0..trees.len() {
        context.check()?;
        let start = tokens.items.len();
        tokens.extend(trees.orders(tree)[0].labels.iter().copied())?;
        tokens.close("nodes of trees")?;
        tokens.items[start..].sort_unstable();
        for equal in tokens.items[start..].chunk_by(|a, b| a == b) {
            let most = &mut ends[equal[0] as usize];
            *most = (*most).max(equal.len() as u32);
        }
    }
    // 2. Each with its number among equal ones.
    let starts = crate::ragged::starts(&mut ends)?;
    let n_tokens = ends.last().copied().unwrap_or(0);
    let mut counts = filled(0u32, n_tokens as usize)?;
    for tree in 0..tokens.len() {
        let (start, len) = (tokens.start(tree), tokens.get(tree).len());
        let items = &mut tokens.items[start..start + len];
        for equal in items.chunk_by_mut(|a, b| a == b) {
            for (number, token) in (starts[equal[0] as usize]..).zip(equal) {
                *token = number;
                counts[number as usize] += 1;
            }
        }
    }
    // 3. The rarest first.
    let mut order = collect(0..n_tokens)?;
    order.sort_unstable_by_key(|&token| (counts[token as usize], token));
    let mut ranks = filled(0, n_tokens as usize)?;
    order.iter().zip(0..).for_each(|(&token, at)| ranks[token as usize] = at);
    for tree in 0..tokens.len() {
        context.check()?;
        let (start, len) = (tokens.start(tree), tokens.get(tree).len());
        let items = &mut tokens.items[start..start + len];
        for token in &mut *items {
            *token = ranks[*token as usize];
        }
        items.sort_unstable();
    }
    Ok((tokens, TokenNumbers { starts, ends, ranks }))
}
