//! A dictionary of the paths that trees share, learnt from some of them.
//!
//! A fragment that two trees have in common has all its paths in both: from its root
//! down, production by production and child by child. So what stands beyond a path that
//! only one tree has cannot be shared, and leaving it out changes no kernel of two trees
//! of the forest, only those of trees with themselves, which are what makes sketches
//! noisy.
//!
//! A path is known by 64 bits of hash over its text: no alphabet has to be kept, and two
//! paths that meet by chance cost a little noise, nothing else.
//!
//! Learning goes level by level: a path in two trees has all its beginnings in two
//! trees, so only those are made longer (as Apriori does for sets). Memory is the paths
//! of one length, from any node down, that are still alive, and the dictionary: by the
//! square of the depth of what trees share. A longest path bounds it.

use std::collections::{HashMap, HashSet};

use super::random::{fnv, mix};
use crate::{Context, Forest, NodeId, Nodes, Result, memory};

/// Paths found in at least two trees.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Paths {
    known: HashSet<u64>,
}

impl Paths {
    /// Paths from their hashes, as [`hashes`](Self::hashes) gives them.
    pub fn from_hashes(hashes: impl IntoIterator<Item = u64>) -> Self {
        Self { known: hashes.into_iter().collect() }
    }

    /// The hashes of all paths, ascending.
    pub fn hashes(&self) -> Vec<u64> {
        let mut hashes: Vec<u64> = self.known.iter().copied().collect();
        hashes.sort_unstable();
        hashes
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    #[inline]
    pub(super) fn contains(&self, hash: u64) -> bool {
        self.known.contains(&hash)
    }

    /// The paths of at most `longest` productions that at least two of the trees have.
    pub(super) fn learn(
        forest: &Forest,
        longest: usize,
        context: &Context,
    ) -> Result<Self> {
        let nodes = forest.nodes();
        let (sizes, n_nodes) = (nodes.sizes(), nodes.len() as u64);
        let of = |root: &NodeId| sizes[root.index()].min(n_nodes) as usize;
        memory::room(forest.roots().iter().map(of).sum::<usize>() + nodes.len(), 32)?;
        let productions = Productions::new(nodes);
        // Per tree: the paths of the length at hand, as (hash, node they end in).
        let mut alive: Vec<Vec<(u64, NodeId)>> = Vec::new();
        for &root in forest.roots() {
            let inner = |&n: &NodeId| Some((productions.start(nodes, n)?, n));
            alive.push(nodes.subtrees(root).iter().filter_map(inner).collect());
            context.check_now()?;
        }
        let mut known = HashSet::new();
        for _ in 0..longest {
            memory::room(alive.iter().map(Vec::len).sum(), BYTES_PER_PATH)?;
            // The tree a path was first seen in, and whether there was another.
            let mut seen: HashMap<u64, (usize, bool)> = HashMap::new();
            for (tree, paths) in alive.iter().enumerate() {
                for &(hash, _) in paths {
                    let (first, again) = seen.entry(hash).or_insert((tree, false));
                    *again |= *first != tree;
                }
                context.check_now()?;
            }
            for paths in &mut alive {
                let mut longer = Vec::new();
                for &(hash, node) in paths.iter().filter(|path| seen[&path.0].1) {
                    for (place, &child) in nodes.children(node).iter().enumerate() {
                        if let Some(next) = productions.next(nodes, hash, place, child)
                        {
                            longer.push((next, child));
                        }
                    }
                }
                longer.sort_unstable();
                longer.dedup();
                *paths = longer;
                context.check_now()?;
            }
            let before = known.len();
            known.extend(seen.iter().filter(|(_, s)| s.1).map(|(&hash, _)| hash));
            if known.len() == before {
                break;
            }
        }
        Ok(Self { known })
    }
}

/// Bytes that a path of a tree takes while longer ones are made, in tables that double.
const BYTES_PER_PATH: usize = 128;

/// What the productions of a store hash to, by their text.
pub(super) struct Productions(Vec<u64>);

impl Productions {
    pub(super) fn new(nodes: &Nodes) -> Self {
        let labels: Vec<u64> =
            nodes.labels().names().map(|name| mix(fnv(name.as_bytes()))).collect();
        let mut hashes = Vec::with_capacity(nodes.n_productions());
        for production in 0..nodes.n_productions() {
            let production = crate::ProductionId(production as u32);
            let parts = nodes.production_labels(production);
            let hash = parts.iter().fold(parts.len() as u64, |hash, label| {
                mix(hash.rotate_left(5) ^ labels[label.index()])
            });
            hashes.push(hash);
        }
        Self(hashes)
    }

    /// The path that is an inner node alone.
    pub(super) fn start(&self, nodes: &Nodes, node: NodeId) -> Option<u64> {
        nodes.production(node).map(|p| mix(self.0[p.index()]))
    }

    /// A path made longer by an inner child.
    pub(super) fn next(
        &self,
        nodes: &Nodes,
        path: u64,
        place: usize,
        child: NodeId,
    ) -> Option<u64> {
        let production = self.0[nodes.production(child)?.index()];
        Some(mix(mix(path ^ (place as u64) << 1 ^ 1) ^ production))
    }
}
