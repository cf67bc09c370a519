//! Scores by a subset tree model that does not change meanwhile.
//!
//! Of what a score by [`subset`](super::subset)'s lists visits, most says the same again
//! and again. Two tables of a model at rest take its place (8,600 visits a question tree
//! with a model of 4,000 of them; 2,600 are left):
//!
//! - *Patterns* (40 % of the visits). Half of all `NP -> DT NN` have `(DT the)`, all
//!   questions their `(. ?)`. Where a child c of v matches no deeper than its own
//!   production, C is λ with every subtree of its list, so the list multiplies its
//!   subtrees' values by 1 + λ, whatever v is. A long list is kept as the array of values
//!   that result, and the sum of f over it:
//!
//!   ```text
//!   c_v[ξ] = λ (1 + λ) in the list, λ outside     S += λ² Σ_{ξ in list} f(ξ)
//!   ```
//!
//! - *Roots above* (30 %). `(ROOT (S ...))` has one child, so C(v,ξ) = λ (1 + C(v',ξ'))
//!   for the child v' and the one child ξ' of ξ. Nobody asks for a root's values; what it
//!   adds is that of v' with other weights:
//!
//!   ```text
//!   Σ_ξ C(v,ξ) f(ξ) + Σ_ξ' C(v',ξ') f(ξ')  =  λ Σ_ξ f(ξ) + Σ_ξ' C(v',ξ') (f(ξ') + λ f(ξ))
//!   ```
//!
//! Both are made when a model is asked for its first score, in time by its edges, and
//! dropped when it changes. 500 questions by a model of 4,048, one output / 15: 4.8 / 7.0 ms,
//! without the tables 13.6 / 20.6.

use std::collections::HashMap;

use super::lens::Lens;
use super::subset::{Entry, Index, c_of};
use super::tree::{NONE, Reader};
use super::weights::Weights;
use crate::{Nodes, ProductionId};

/// A list with fewer entries is walked.
const LEAST: usize = 32;
/// So is one with less than this part of its production's subtrees.
const SHARE: usize = 8;
/// Values that a tree's nodes may need at a time; larger trees are left to the lists.
const MAX_VALUES: usize = 1 << 21;

/// The tables.
#[derive(Debug)]
pub(super) struct Frozen {
    width: usize,
    /// By list: its pattern, its place among `roots`, or [`NONE`].
    pattern_of: Vec<u32>,
    root_of: Vec<u32>,
    patterns: Vec<Pattern>,
    roots: Vec<Root>,
    largest_group: usize,
}

#[derive(Debug)]
struct Pattern {
    list: u32,
    /// By number within the production: C.
    values: Vec<f64>,
    /// Σ f over the list.
    sum: Vec<f64>,
}

/// A list of roots with one child.
#[derive(Debug)]
struct Root {
    /// λ Σ f of the roots.
    sum: Vec<f64>,
    /// By number of the child within its production: its f, and λ f of its root.
    weights: Vec<f64>,
    /// By pattern of the children: these, over the pattern's list.
    patterns: HashMap<u32, Vec<f64>>,
}

/// What a worker keeps from tree to tree.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// By place: C(v, ·) while a parent will ask; empty: λ throughout.
    values: Vec<Values>,
    /// Arrays that are λ throughout; by pattern those that are the pattern's.
    clean: Vec<Vec<f64>>,
    patterns: Vec<Vec<Vec<f64>>>,
    /// The lists of the node at hand, with the places of the children.
    lists: Vec<(u32, usize)>,
}

/// An array of values, and the pattern that it started from, or [`NONE`].
#[derive(Debug)]
struct Values {
    c: Vec<f64>,
    pattern: u32,
}

impl Default for Values {
    fn default() -> Self {
        Self { c: Vec::new(), pattern: NONE }
    }
}

/// Where scores go: one number, or several.
trait Totals {
    /// Adds `value` times those of some subtree.
    fn add(&mut self, value: f64, numbers: &[f64], number: u32);
}

struct One<'a>(&'a mut f64);

impl Totals for One<'_> {
    #[inline]
    fn add(&mut self, value: f64, numbers: &[f64], number: u32) {
        *self.0 += value * numbers[number as usize];
    }
}

struct Several<'a>(&'a mut [f64]);

impl Totals for Several<'_> {
    #[inline]
    fn add(&mut self, value: f64, numbers: &[f64], number: u32) {
        let width = self.0.len();
        let own = &numbers[number as usize * width..][..width];
        for (sum, number) in self.0.iter_mut().zip(own) {
            *sum += value * number;
        }
    }
}

/// A model, and a forest to be scored by it.
#[derive(Clone, Copy)]
pub(super) struct Scene<'a> {
    pub(super) index: &'a Index,
    pub(super) weights: &'a Weights,
    pub(super) store: &'a Nodes,
    pub(super) lens: &'a Lens,
}

impl Frozen {
    pub(super) fn new(nodes: &Nodes, index: &Index, weights: &Weights) -> Self {
        let n_lists = index.lists().len();
        let mut frozen = Self {
            width: weights.width(),
            pattern_of: vec![NONE; n_lists],
            root_of: vec![NONE; n_lists],
            patterns: Vec::new(),
            roots: Vec::new(),
            largest_group: 0,
        };
        let mut patterns_of: HashMap<u32, Vec<u32>> = HashMap::new();
        let is_long =
            |len: usize, group| len >= LEAST && len * SHARE >= index.group_size(group);
        for (list, entries) in (0..).zip(index.lists()) {
            let [parent, ..] = index.key(list);
            frozen.largest_group = frozen.largest_group.max(index.group_size(parent));
            if is_long(entries.len(), parent) {
                let pattern = frozen.patterns.len() as u32;
                frozen.pattern_of[list as usize] = pattern;
                frozen.patterns.push(Pattern::new(index, weights, list));
                patterns_of.entry(parent).or_default().push(pattern);
            }
        }
        for (list, entries) in (0..).zip(index.lists()) {
            let [parent, _, child] = index.key(list);
            let is_unary = nodes.production_labels(ProductionId(parent)).len() == 2;
            if is_unary && is_long(entries.len(), child) {
                frozen.root_of[list as usize] = frozen.roots.len() as u32;
                let mut root = Root::new(index, weights, list);
                for &pattern in patterns_of.get(&child).into_iter().flatten() {
                    let list = frozen.patterns[pattern as usize].list;
                    let entries = &index.lists()[list as usize];
                    let sum = sum_of(entries, &root.weights, frozen.width);
                    root.patterns.insert(pattern, sum);
                }
                frozen.roots.push(root);
            }
        }
        frozen
    }

    /// Bytes held.
    pub(super) fn nbytes(&self) -> usize {
        let of = |numbers: &Vec<f64>| numbers.capacity() * size_of::<f64>();
        let patterns = self.patterns.iter().map(|p| of(&p.values) + of(&p.sum));
        let roots = self.roots.iter().map(|root| {
            of(&root.sum)
                + of(&root.weights)
                + root.patterns.values().map(of).sum::<usize>()
        });
        let lists = (self.pattern_of.capacity() + self.root_of.capacity()) * 4;
        patterns.sum::<usize>() + roots.sum::<usize>() + lists
    }

    /// Adds the scores of the tree that was read last; false, and nothing added, if it is
    /// too large.
    pub(super) fn score(
        &self,
        scene: Scene<'_>,
        tree: &Reader,
        scratch: &mut Scratch,
        out: &mut [f64],
    ) -> bool {
        if tree.items().len().saturating_mul(self.largest_group) > MAX_VALUES {
            return false;
        }
        let mut walk = Walk { frozen: self, scene, tree, scratch };
        if let [out] = out {
            walk.tree(&mut One(out));
        } else {
            walk.tree(&mut Several(out));
        }
        true
    }
}

/// The weights of all subtrees of a list together.
fn sum_of(entries: &[Entry], weights: &[f64], width: usize) -> Vec<f64> {
    let mut sum = vec![0.0; width];
    for entry in entries {
        Several(&mut sum).add(1.0, weights, entry.u);
    }
    sum
}

impl Pattern {
    fn new(index: &Index, weights: &Weights, list: u32) -> Self {
        let [group, ..] = index.key(list);
        let entries = &index.lists()[list as usize];
        let mut values = vec![index.decay; index.group_size(group)];
        for entry in entries {
            values[entry.u as usize] = index.decay + index.decay * index.decay;
        }
        let sum = sum_of(entries, weights.group(group), weights.width());
        Self { list, values, sum }
    }
}

impl Root {
    fn new(index: &Index, weights: &Weights, list: u32) -> Self {
        let ([root, _, child], width) = (index.key(list), weights.width());
        let mut sum = vec![0.0; width];
        let mut own = weights.group(child).to_vec();
        for entry in &index.lists()[list as usize] {
            let of_child = &mut own[entry.child as usize * width..][..width];
            Several(of_child).add(index.decay, weights.group(root), entry.u);
            Several(&mut sum).add(index.decay, weights.group(root), entry.u);
        }
        Self { sum, weights: own, patterns: HashMap::new() }
    }
}

struct Walk<'a> {
    frozen: &'a Frozen,
    scene: Scene<'a>,
    tree: &'a Reader,
    scratch: &'a mut Scratch,
}

impl<'a> Walk<'a> {
    fn tree(&mut self, totals: &mut impl Totals) {
        let Scene { index, weights, store, lens } = self.scene;
        let items = self.tree.items();
        if self.scratch.values.len() < items.len() {
            self.scratch.values.resize_with(items.len(), Values::default);
        }
        let n_patterns = self.frozen.patterns.len();
        self.scratch.patterns.resize_with(n_patterns, Vec::new);
        let above = self.root();
        for (place, item) in items.iter().enumerate() {
            let Some(production) = store.production(item.node) else {
                let label = lens.labels[store.label(item.node).index()];
                if label != NONE && weights.has_leaf(label) {
                    let value = item.count * index.leaf_weight;
                    totals.add(value, weights.leaves(), label);
                }
                continue;
            };
            let group = lens.productions[production.index()];
            if group != NONE {
                totals.add(item.count * index.decay, weights.sums(), group);
                match above {
                    // All but that was added with the child.
                    Some(_) if place + 1 == items.len() => {}
                    Some(root) if place + 2 == items.len() => {
                        totals.add(index.decay, &root.sum, 0);
                        self.node(place, above, &root.weights, totals);
                    }
                    _ => self.node(place, None, weights.group(group), totals),
                }
            }
            for edge in lens.edges(item.node) {
                let child = self.tree.place(edge.child);
                if items[child].last_use == place as u32 {
                    let values = std::mem::take(&mut self.scratch.values[child]);
                    self.give_back(child, values);
                }
            }
        }
    }

    /// The table of the root's list, if the tree has a root with one child.
    fn root(&self) -> Option<&'a Root> {
        let Scene { index, store, lens, .. } = self.scene;
        let [.., child, root] = self.tree.items() else { return None };
        if !matches!(store.children(root.node), [only] if *only == child.node) {
            return None;
        }
        let [edge] = lens.edges(root.node) else { return None };
        let list = lens.list(*edge) as usize;
        index.lists().get(list)?;
        self.frozen.roots.get(self.frozen.root_of[list] as usize)
    }

    /// Adds what a node's subtrees have beyond λ.
    fn node(
        &mut self,
        place: usize,
        above: Option<&Root>,
        weights: &[f64],
        totals: &mut impl Totals,
    ) {
        let Scene { index, lens, .. } = self.scene;
        let item = self.tree.items()[place];
        let mut lists = std::mem::take(&mut self.scratch.lists);
        lists.clear();
        for &edge in lens.edges(item.node) {
            let list = lens.list(edge);
            if list != NONE {
                lists.push((list, self.tree.place(edge.child)));
            }
        }
        let pattern = self.take_pattern(&mut lists);
        if pattern != NONE {
            let value = item.count * index.decay * index.decay;
            let own = &self.frozen.patterns[pattern as usize].sum;
            let sum = above.map_or(own, |root| &root.patterns[&pattern]);
            totals.add(value, sum, 0);
        }
        let is_asked = item.last_use != NONE && above.is_none();
        if is_asked && (pattern != NONE || !lists.is_empty()) || lists.len() > 1 {
            let mut c = self.take(pattern, item.node);
            for &(list, child) in &lists {
                let entries = &index.lists()[list as usize];
                let below = self.below(child);
                for &Entry { u, child } in entries {
                    let c = &mut c[u as usize];
                    let more = *c * c_of(below, index.decay, child);
                    *c += more;
                    totals.add(item.count * more, weights, u);
                }
            }
            let values = Values { c, pattern };
            if is_asked {
                self.scratch.values[place] = values;
            } else {
                self.give_back(place, values);
            }
        } else if let [(list, child)] = lists[..] {
            // Nobody asks for the values.
            let entries = &index.lists()[list as usize];
            let below = self.below(child);
            let start = self.frozen.patterns.get(pattern as usize);
            let start = start.map(|pattern| &pattern.values[..]);
            for &Entry { u, child } in entries {
                let more =
                    c_of(start, index.decay, u) * c_of(below, index.decay, child);
                totals.add(item.count * more, weights, u);
            }
        }
        self.scratch.lists = lists;
    }

    /// Takes the longest list that a pattern stands for out of a node's lists.
    fn take_pattern(&self, lists: &mut Vec<(u32, usize)>) -> u32 {
        let (mut longest, mut best) = (0, None);
        for (at, &(list, child)) in lists.iter().enumerate() {
            let len = self.scene.index.lists()[list as usize].len();
            if self.frozen.pattern_of[list as usize] != NONE
                && self.scratch.values[child].c.is_empty()
                && len > longest
            {
                (longest, best) = (len, Some(at));
            }
        }
        best.map_or(NONE, |at| self.frozen.pattern_of[lists.remove(at).0 as usize])
    }

    /// C of a child; None: λ throughout.
    fn below(&self, child: usize) -> Option<&[f64]> {
        let values = &self.scratch.values[child].c;
        (!values.is_empty()).then_some(&values[..])
    }

    /// An array for a node's production: of a pattern, or λ throughout.
    fn take(&mut self, pattern: u32, node: crate::NodeId) -> Vec<f64> {
        let Scene { index, store, lens, .. } = self.scene;
        if let Some(free) = self.scratch.patterns.get_mut(pattern as usize) {
            let new = || self.frozen.patterns[pattern as usize].values.clone();
            return free.pop().unwrap_or_else(new);
        }
        let group = store.production(node).map(|p| lens.productions[p.index()]);
        let len = group.map_or(0, |group| index.group_size(group));
        let mut c = self.scratch.clean.pop().unwrap_or_default();
        if c.len() < len {
            c.resize(len, index.decay);
        }
        c
    }

    /// Sets values back to what they started from, by the lists of the node.
    fn give_back(&mut self, place: usize, values: Values) {
        let Values { mut c, pattern } = values;
        if c.is_empty() {
            return;
        }
        let Scene { index, lens, .. } = self.scene;
        let start = self.frozen.patterns.get(pattern as usize);
        for &edge in lens.edges(self.tree.items()[place].node) {
            let list = lens.list(edge);
            let Some(entries) = index.lists().get(list as usize) else { continue };
            match start {
                Some(start) if start.list == list => {}
                Some(start) => {
                    for entry in entries {
                        c[entry.u as usize] = start.values[entry.u as usize];
                    }
                }
                None => {
                    for entry in entries {
                        c[entry.u as usize] = index.decay;
                    }
                }
            }
        }
        match self.scratch.patterns.get_mut(pattern as usize) {
            Some(free) => free.push(c),
            None => self.scratch.clean.push(c),
        }
    }
}
