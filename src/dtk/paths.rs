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

use super::random::{fnv, mix};
use crate::memory::{self, Map};
use crate::{Context, Forest, NodeId, Nodes, Result};

/// Paths found in at least two trees.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Paths {
    hashes: Map<u64, ()>,
}

impl Paths {
    /// Paths from their hashes, as [`hashes`](Self::hashes) gives them.
    ///
    /// # Errors
    /// [`crate::Error::Memory`].
    pub fn from_hashes(hashes: impl IntoIterator<Item = u64>) -> Result<Self> {
        Ok(Self { hashes: Map::of(hashes.into_iter().map(|hash| (hash, ())))? })
    }

    /// The hashes of all paths, ascending.
    ///
    /// # Errors
    /// [`crate::Error::Memory`].
    pub fn hashes(&self) -> Result<Vec<u64>> {
        let mut hashes = memory::collect(self.hashes.keys().copied())?;
        hashes.sort_unstable();
        Ok(hashes)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    #[inline]
    pub(super) fn contains(&self, hash: u64) -> bool {
        self.hashes.contains_key(&hash)
    }

    /// The paths of at most `longest` productions that at least two of the trees have.
    pub(super) fn learn(
        forest: &Forest,
        longest: usize,
        context: &Context,
    ) -> Result<Self> {
        let nodes = forest.nodes();
        let productions = Productions::new(nodes)?;
        // 1. Paths of one production: every inner node begins one.
        // Per tree: the paths of the length at hand, as (hash, node they end in).
        let mut alive: Vec<Vec<(u64, NodeId)>> = Vec::new();
        for &root in forest.roots() {
            let inner = |&n: &NodeId| Some((productions.start(nodes, n)?, n));
            let paths = nodes.try_subtrees(root)?;
            let paths = memory::collect(paths.iter().filter_map(inner))?;
            memory::push(&mut alive, paths)?;
            context.check_now()?;
        }
        let mut shared = Map::default();
        // 2. Length by length: which paths two trees have, and those made longer by a
        // child.
        for _ in 0..longest {
            // The tree a path was first seen in, and whether there was another.
            let mut seen: Map<u64, (usize, bool)> = Map::default();
            for (tree, paths) in alive.iter().enumerate() {
                // Trees come in order, so a path that is met again in the first tree
                // changes nothing.
                for &(hash, _) in paths {
                    let (first, again) = seen.get_or(hash, (tree, false))?;
                    *again |= *first != tree;
                }
                context.check_now()?;
            }
            for paths in &mut alive {
                let mut longer = Vec::new();
                // A path of one tree has no longer one in two trees, so it ends here.
                for &(hash, node) in paths.iter().filter(|path| seen[&path.0].1) {
                    for (place, &child) in nodes.children(node).iter().enumerate() {
                        if let Some(next) = productions.next(nodes, hash, place, child)
                        {
                            memory::push(&mut longer, (next, child))?;
                        }
                    }
                }
                // The same path may lead to a node from several starts.
                longer.sort_unstable();
                longer.dedup();
                *paths = longer;
                context.check_now()?;
            }
            let before = shared.len();
            for (&hash, _) in seen.iter().filter(|(_, seen)| seen.1) {
                shared.insert(hash, ())?;
            }
            // No path of this length is shared, so no longer one is.
            if shared.len() == before {
                break;
            }
        }
        Ok(Self { hashes: shared })
    }
}

/// What the productions of a store hash to, by their text.
pub(super) struct Productions(Vec<u64>);

impl Productions {
    pub(super) fn new(nodes: &Nodes) -> Result<Self> {
        let labels = nodes.labels().names().map(|name| mix(fnv(name.as_bytes())));
        let labels = memory::collect(labels)?;
        let mut hashes = Vec::new();
        memory::reserve(&mut hashes, nodes.n_productions())?;
        for production in 0..nodes.n_productions() {
            let production = crate::ProductionId(production as u32);
            let parts = nodes.production_labels(production);
            // The number of labels too, or a production could be the beginning of
            // another.
            let hash = parts.iter().fold(parts.len() as u64, |hash, label| {
                mix(hash.rotate_left(5) ^ labels[label.index()])
            });
            memory::push(&mut hashes, hash)?;
        }
        Ok(Self(hashes))
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
