//! The elastic tree kernel's index.
//!
//! With S and Ca as in [`crate::kernel::elastic`], every pair of nodes with equal labels
//! adds λ, and two inner ones λ(S-1) more; call that the excess X(u,v):
//!
//! ```text
//! C(p,q) = λ + X(p,q)                 equal labels
//! X(p,q) = λ Σ_{i,j} s(i,j)           s from Ca(p_i, q_j), children of p and q
//! Ca(y,z) = λ Σ_label count_y count_z +  Σ_{inner u in y, inner v in z, equal labels} X(u,v)
//! ```
//!
//! The λ of all pairs are integer dot products or sums over groups: the user of the index
//! or [`Index::tell_labels`] does them. X depends on the two subtrees only, so the walk
//! computes X(p,q) for all inner p of the query, children first, with **all** distinct
//! subtrees q of p's label at once. All it needs are the Ca of p's children with all
//! edges e = (q,j) below that label, and lists say which edges those are: for label ℓ and
//! symbol s (a label; or an inner label) the list of edges e below ℓ that have s at or
//! below them, with counts:
//!
//! ```text
//! for p, for each child p_i:   V = 0
//!     for each label s in p_i:        for (e, count) in list(ℓ, s):      V[e] += λ count_s(p_i) count
//!     for each inner node u in p_i:   for (e, v, count) in list'(ℓ, label u):  V[e] += X(u,v) count_u count
//!     per q, over its edges e:        s = V[e] (1 + Σ_{e'<e} sum[e']);  sum[e] += s
//! X(p,q) = λ Σ_e sum[e]
//! ```
//!
//! Sums and products of numbers that are not negative: nothing cancels. A new subtree's
//! edges refer to subtrees that are there already, so all lists grow at their end, and
//! what the first trees have is a prefix of each.
//!
//! **Nesting.** What is below an inner node n of p's own label ℓ has been summed for the
//! same edges before: Ca(n, e) is n's own share and the total of n's V. So lists are
//! walked only for what is below p_i down to such n, and their totals are added, straight
//! along the edges.
//!
//! **Simple subtrees.** Most inner nodes are parts of speech above one word. (ℓ w) has
//! with an inner u of its label X = λ² · (how often the label w stands below u), so it
//! needs no values of its own: it is a symbol, like labels, with weight λ².
//!
//! **Deep subtrees.** The lists hold each node once per ancestor and would be quadratic
//! for deep trees. A subtree whose own subtrees have more than [`DEEP`] nodes on average,
//! or that is above such a one, is in no list: the walk takes the recursion of single pairs
//! ([`Dense`](crate::kernel::elastic::Dense)) over these and what is below them, and over
//! all subtrees where lists would take longer than that. This bounds the worst case by that of pairs.
//!
//! # Complexity
//! A walk takes time by the pairs of (node, ancestor) of the query and of the index that
//! agree in both labels (in the query only the nearest ancestor of each label), by the
//! edges of nodes with equal labels, and by the products of the child numbers of nodes
//! with equal labels. Index: at most some [`DEEP`] entries per distinct node. A worker's
//! scratch: a number per pair of an inner node of the query and a subtree of its label, or
//! an edge of one where nodes are nested; at most `MAX_LISTED_VALUES` of `walk.rs`.

mod walk;

pub(crate) use walk::{Query, Scratch};

use super::weights::Slot;
use crate::forest::reader::{Item, Reader};
use crate::ids::{GroupId, Id, IdVec, MemberId, TreeId, ids};
use crate::intern::{IdTable, Keys, new_id};
use crate::{Label, NodeId, Nodes, Result, memory};

/// Subtrees whose own subtrees are larger than this on average do without lists. (A chain
/// has half its length, sentences 4 to 8.)
const DEEP: u64 = if cfg!(test) { 12 } else { 64 };

const EDGES: &str = "edges below nodes of one label";

ids! {
    /// A simple subtree.
    pub(crate) SimpleId;
    /// A list of edges with a label or simple subtree below them.
    PlainListId;
    /// A list of edges with a listed subtree below them.
    InnerListId;
}

/// What a subtree is to the index.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// Not there.
    None,
    Leaf,
    /// An inner node above nothing but a leaf; with its number among the simple ones.
    Simple(SimpleId),
    /// Any other inner node, with its number within its label.
    Listed(MemberId),
    /// One that is in no list, with its number among those without edges.
    Deep(MemberId),
}

/// The subtrees of a label.
#[derive(Debug, Clone, Default)]
struct Group {
    /// How many have no edges in the lists: leaves, simple and deep ones.
    n_plain: u32,
    has_simple: bool,
    /// By listed subtree: where its edges end, counted from the first of the label; and
    /// the tree that it came with.
    ends: Vec<u32>,
    trees: Vec<TreeId>,
}

/// An edge with a label or simple subtree at or below it.
#[derive(Debug, Clone, Copy)]
struct Entry {
    edge: u32,
    count: u32,
}

/// An edge with a listed subtree at or below it.
#[derive(Debug, Clone, Copy)]
struct InnerEntry {
    edge: u32,
    /// The subtree's number within its label.
    node: MemberId,
    count: u32,
}

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Index {
    pub(crate) decay: f64,
    /// The subtrees of a label: two groups, the second that of listed ones.
    groups: IdVec<Label, Group>,
    /// What a subtree is, its nodes, and the sum of those of all nodes at or below it.
    kinds: IdVec<NodeId, Kind>,
    sizes: IdVec<NodeId, u64>,
    paths: IdVec<NodeId, u64>,
    n_nodes: usize,
    /// (label, 0, label of the leaf), and each simple subtree's number in its group, with
    /// the tree that it came with.
    simple: Keys<SimpleId>,
    simple_numbers: IdVec<SimpleId, (MemberId, TreeId)>,
    /// (label above, 0, label below) and (label above, 1, simple subtree).
    plain: Lists<PlainListId, Entry>,
    /// (label above, 0, label of the inner node).
    inner: Lists<InnerListId, InnerEntry>,
    /// Inner subtrees as they came, with the trees that they came with.
    order: Vec<(NodeId, TreeId)>,
    has_deep: bool,
    below: Reader,
    tally: Tally,
}

/// Lists by key.
#[derive(Debug, Clone)]
struct Lists<L, T> {
    table: IdTable,
    lists: IdVec<L, List<T>>,
}

/// Key and first edge stand with the list: a look-up asks for one line of the cache more,
/// and lists that start with a later tree are not asked for.
#[derive(Debug, Clone)]
struct List<T> {
    key: [u32; 3],
    first_edge: u32,
    items: Vec<T>,
}

impl<L, T> Default for Lists<L, T> {
    fn default() -> Self {
        Self { table: IdTable::default(), lists: IdVec::default() }
    }
}

impl<L: Id, T> Lists<L, T> {
    #[inline]
    fn find(&self, key: [u32; 3]) -> Option<L> {
        let same = |list| self.lists[L::from_number(list)].key == key;
        self.table.find(self.table.hash_key(key), same).map(L::from_number)
    }

    /// The list, if it starts before edge `end`, and its length.
    #[inline]
    fn before(&self, key: [u32; 3], end: u32) -> Option<(L, u64)> {
        let list = self.find(key)?;
        // A list that begins later has nothing before `end`.
        let List { first_edge, items, .. } = &self.lists[list];
        (*first_edge < end).then_some((list, items.len() as u64))
    }

    fn add(&mut self, key: [u32; 3], edge: u32, item: T) -> Result<()> {
        let list = if let Some(list) = self.find(key) {
            list
        } else {
            let list = L::next(self.lists.len(), "lists of edges")?;
            // Room first, then the table, then the list: an error leaves all of them as
            // they were.
            let new = List { key, first_edge: edge, items: Vec::new() };
            memory::reserve(&mut self.lists, 1)?;
            self.table.insert(self.table.hash_key(key), list.number())?;
            self.lists.push(new); // has room
            list
        };
        memory::push(&mut self.lists[list].items, item)
    }

    /// Takes out what was entered last below a label, up to what stays.
    fn forget(&mut self, above: Label, stays: impl Fn(&T) -> bool) {
        // Edges ascend within a list, so what goes is its end.
        for list in self.lists.iter_mut().filter(|list| list.key[0] == above.0) {
            let len = list.items.partition_point(&stays);
            list.items.truncate(len);
        }
    }

    #[inline]
    fn get(&self, list: L) -> &[T] {
        &self.lists[list].items
    }

    fn nbytes(&self) -> usize {
        let items = self.lists.iter().map(|l| l.items.capacity() * size_of::<T>());
        let lists = self.lists.capacity() * size_of::<List<T>>();
        self.table.nbytes() + lists + items.sum::<usize>()
    }
}

/// How often each label stands in what is at hand.
#[derive(Debug, Clone, Default)]
struct Tally {
    /// Zero between uses.
    counts: IdVec<Label, f64>,
    met: Vec<Label>,
}

impl Tally {
    fn add(&mut self, label: Label, count: f64) -> Result<()> {
        memory::reach(&mut self.counts, label.index() + 1, 0.0)?;
        // Counts are above 0, so a label that was met is told by its count.
        if self.counts[label] == 0.0 {
            memory::push(&mut self.met, label)?;
        }
        self.counts[label] += count;
        Ok(())
    }

    fn drain(&mut self) -> impl Iterator<Item = (Label, f64)> {
        let Self { counts, met } = self;
        met.drain(..).map(|label| (label, std::mem::take(&mut counts[label])))
    }
}

impl Index {
    pub(crate) fn new(decay: f64) -> Self {
        Self {
            decay,
            groups: IdVec::default(),
            kinds: IdVec::default(),
            sizes: IdVec::default(),
            paths: IdVec::default(),
            n_nodes: 0,
            simple: Keys::default(),
            simple_numbers: IdVec::default(),
            plain: Lists::default(),
            inner: Lists::default(),
            order: Vec::new(),
            has_deep: false,
            below: Reader::default(),
            tally: Tally::default(),
        }
    }

    /// Whether a subtree has been entered.
    pub(crate) fn has(&self, node: NodeId) -> bool {
        !matches!(self.kinds.find(node), None | Some(Kind::None))
    }

    /// The number of the simple subtree of a label and a leaf's.
    pub(crate) fn simple(&self, label: Label, leaf: Label) -> Option<SimpleId> {
        self.simple.find([label.0, 0, leaf.0])
    }

    pub(crate) fn n_simple(&self) -> usize {
        self.simple_numbers.len()
    }

    /// The group of a subtree, and its number there. Leaves have none.
    pub(crate) fn member(
        &self,
        nodes: &Nodes,
        node: NodeId,
    ) -> Option<(GroupId, MemberId)> {
        let [plain, listed] = groups_of(nodes.label(node));
        match *self.kinds.find(node)? {
            Kind::None | Kind::Leaf => None,
            Kind::Simple(simple) => Some((plain, self.simple_numbers[simple].0)),
            Kind::Deep(member) => Some((plain, member)),
            Kind::Listed(member) => Some((listed, member)),
        }
    }

    /// Where the weight of a new subtree will be. Its children are there.
    pub(crate) fn next_slot(&self, nodes: &Nodes, node: NodeId) -> Slot {
        let below = nodes.children(node);
        let is_simple = matches!(below, &[child] if nodes.is_leaf(child));
        // As `enter` decides.
        let is_plain = below.is_empty() || is_simple || self.depth(below).2;
        let label = nodes.label(node);
        let entry = self.groups.find(label);
        let number = entry.map_or(0, |entry| {
            if is_plain { entry.n_plain } else { entry.ends.len() as u32 }
        });
        let group = groups_of(label)[usize::from(!is_plain)];
        Slot::of_member(group, MemberId(number))
    }

    /// The nodes of a subtree with these children, the sum of those of all nodes at or
    /// below it, and whether it is deep.
    fn depth(&self, below: &[NodeId]) -> (u64, u64, bool) {
        let sum = |numbers: &IdVec<NodeId, u64>| {
            below.iter().map(|&c| numbers[c]).fold(0, u64::saturating_add)
        };
        let size = sum(&self.sizes).saturating_add(1);
        let path = sum(&self.paths).saturating_add(size);
        // Below a deep subtree lists would be too long, so all above it are deep, too.
        let is_deep = |&c: &NodeId| matches!(self.kinds[c], Kind::Deep(_));
        // Counts in lists are `u32`, and no count is larger than the subtree. The
        // quotient is the mean size of the subtrees in it.
        let is_deep = size > u64::from(u32::MAX)
            || path / size >= DEEP
            || below.iter().any(is_deep);
        (size, path, is_deep)
    }

    /// Enters a new subtree, leaf or not, of a tree. Its children are there.
    ///
    /// # Errors
    /// [`crate::Error::Capacity`] and [`crate::Error::Memory`]: the subtree is not there.
    pub(crate) fn enter(
        &mut self,
        nodes: &Nodes,
        node: NodeId,
        tree: TreeId,
    ) -> Result<Slot> {
        // 1. How deep is it?
        // By node of the store: all three arrays reach as far.
        if self.kinds.len() <= node.index() {
            let len = nodes.len().max(node.index() + 1);
            memory::reach(&mut self.paths, len, 0)?;
            memory::reach(&mut self.sizes, len, 0)?;
            memory::reach(&mut self.kinds, len, Kind::None)?;
        }
        let below = nodes.children(node);
        let (size, path, is_deep) = self.depth(below);
        // 2. Its place in its group.
        let label = nodes.label(node);
        memory::reach(&mut self.groups, label.index() + 1, Group::default())?;
        let label_group = &mut self.groups[label];
        // What is entered at last: nothing fails then.
        memory::reserve(&mut label_group.ends, 1)?;
        memory::reserve(&mut label_group.trees, 1)?;
        memory::reserve(&mut self.order, 1)?;
        memory::reserve(&mut self.simple_numbers, 1)?;
        let kind = match below {
            [] => Kind::Leaf,
            &[child] if nodes.is_leaf(child) => {
                label_group.has_simple = true;
                let key = [label.0, 0, nodes.label(child).0];
                let simple = self.simple.insert(key, "simple subtrees")?;
                let member = MemberId(label_group.n_plain);
                self.simple_numbers.push((member, tree)); // has room
                Kind::Simple(simple)
            }
            _ if is_deep => Kind::Deep(MemberId(label_group.n_plain)),
            _ => Kind::Listed(MemberId::at(label_group.ends.len())),
        };
        let [plain, listed] = groups_of(label);
        let slot = if let Kind::Listed(member) = kind {
            // 3. Its edges in the lists.
            let first = label_group.ends.last().copied().unwrap_or(0);
            let end = new_id(first as usize + below.len(), EDGES)?;
            let mut edges = (first..end).zip(below);
            let entered = edges
                .try_for_each(|(edge, &child)| self.list(nodes, (label, edge), child));
            if let Err(error) = entered {
                // The next subtree of the label has these edges.
                self.plain.forget(label, |entry| entry.edge < first);
                self.inner.forget(label, |entry| entry.edge < first);
                return Err(error);
            }
            let label_group = &mut self.groups[label];
            label_group.ends.push(end); // has room
            label_group.trees.push(tree); // has room
            Slot::of_member(listed, member)
        } else {
            label_group.n_plain += 1;
            Slot::of_member(plain, MemberId(label_group.n_plain - 1))
        };
        // 4. Nothing fails from here on, so the subtree is there in full or not at all.
        if kind != Kind::Leaf {
            self.order.push((node, tree)); // has room
            self.has_deep |= is_deep;
        }
        self.n_nodes += 1;
        (self.kinds[node], self.sizes[node], self.paths[node]) = (kind, size, path);
        Ok(slot)
    }

    /// Enters an edge into the lists of all that is at or below it.
    fn list(
        &mut self,
        nodes: &Nodes,
        (above, edge): (Label, u32),
        child: NodeId,
    ) -> Result<()> {
        let Self { kinds, plain, inner, below, tally, .. } = self;
        // Counts are no more than the nodes of a listed subtree.
        let mut add =
            |key, count| plain.add(key, edge, Entry { edge, count: count as u32 });
        tally.drain().for_each(drop); // what an error left
        below.read(nodes, child, true)?;
        for &Item { node, count, .. } in below.items().iter().rev() {
            let label = nodes.label(node);
            tally.add(label, count)?;
            match kinds[node] {
                Kind::Simple(simple) => add([above.0, 1, simple.0], count)?,
                Kind::Listed(node) => {
                    let entry = InnerEntry { edge, node, count: count as u32 };
                    inner.add([above.0, 0, label.0], edge, entry)?;
                }
                Kind::None | Kind::Leaf | Kind::Deep(_) => {}
            }
        }
        for (label, count) in tally.drain() {
            add([above.0, 0, label.0], count)?;
        }
        Ok(())
    }

    pub(crate) fn nbytes(&self) -> usize {
        let group = |group: &Group| group.ends.capacity() * 8 + size_of::<Group>();
        self.simple.nbytes()
            + self.plain.nbytes()
            + self.inner.nbytes()
            + self.groups.iter().map(group).sum::<usize>()
            + self.kinds.capacity() * (size_of::<Kind>() + 16)
            + (self.order.capacity() + self.simple_numbers.capacity()) * 8
    }
}

/// The two groups of a label: subtrees without edges in the lists, and listed ones.
#[inline]
fn groups_of(label: Label) -> [GroupId; 2] {
    [GroupId(2 * label.0), GroupId(2 * label.0 + 1)]
}

#[cfg(test)]
mod tests {
    use crate::dag::{Model, ModelOptions};
    use crate::kernel::{ElasticTree, sample};
    use crate::{Forest, gram};

    #[test]
    fn scores_are_sums_over_pairs_whichever_way_they_take() {
        let mut random = sample::Random(5);
        for round in 0..60 {
            let kernel = ElasticTree::new([0.05, 0.4, 1.0][round % 3]);
            // Beyond the thresholds of tests: some trees are deep, some ask for many
            // values, some batches end between trees.
            let size = [8, 25, 60, 150][round % 4];
            let forest = sample::forest(&mut random, 24, size);
            let pairs = gram::SinglePairs::new(&kernel, &forest).unwrap();
            let mut kernel_of = pairs.worker();
            let options = ModelOptions { n_outputs: 2, ..ModelOptions::default() };
            let mut model = Model::new(&kernel, options).unwrap();
            let weight = |tree: usize| tree as f64 - 5.5;
            for tree in 0..12 {
                let trees = forest.select([tree]);
                model.add(&trees, &[weight(tree), 1.0]).unwrap();
            }
            // Of a store of its own, with some labels that the model does not know.
            let others = forest.select(12..24).to_brackets();
            let others =
                Forest::from_bracket_items(others.iter().map(|t| &**t)).unwrap();
            let scores = model.score(&others).unwrap().0;
            for (other, scores) in scores.chunks(2).enumerate() {
                let values: Vec<f64> =
                    (0..12).map(|tree| kernel_of(tree, 12 + other).unwrap()).collect();
                let total: f64 = values.iter().sum();
                let weighted = values.iter().enumerate().map(|(t, k)| weight(t) * k);
                let gap = (scores[0] - weighted.sum::<f64>()).abs();
                assert!(gap <= 1e-9 * total, "{round} {other}: {gap}");
                assert!((scores[1] - total).abs() <= 1e-10 * total, "{round} {other}");
                let shares = model.contributions(&others.select([other])).unwrap();
                let sum: f64 = shares.iter().skip(1).step_by(2).sum();
                assert!((sum - total).abs() <= 1e-10 * total, "{round} {other}");
            }
        }
    }
}
