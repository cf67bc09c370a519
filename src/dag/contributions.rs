//! What each node of a tree adds to its score.

use std::sync::Arc;

use super::Model;
use super::compact;
use super::score::{MappedStore, ReadTree, Worker};
use crate::forest::reader::Reader;
use crate::gram::Norm;
use crate::ids::{Id, IdVec};
use crate::index::weights::{Several, add_scaled};
use crate::memory;
use crate::{Context, Error, Forest, Result};

impl Model {
    /// How much each node of a tree, in preorder, adds to its scores: the sum over all
    /// fragments rooted there, `n_outputs` numbers for each node. Together they are the
    /// score without the intercept.
    ///
    /// # Errors
    /// As [`score`](Self::score), [`Error::Expansion`] for a tree that would be too large
    /// written out, and [`Error::Unsupported`] for a kernel without an index.
    pub fn contributions(&self, tree: &Forest) -> Result<Vec<f64>> {
        self.contributions_with(tree, &Context::default())
    }

    /// As [`contributions`](Self::contributions), in a context.
    ///
    /// # Errors
    /// As [`contributions`](Self::contributions), and what `context` returns.
    pub fn contributions_with(
        &self,
        tree: &Forest,
        context: &Context,
    ) -> Result<Vec<f64>> {
        if !self.is_graph() {
            return Err(self.unsupported("contributions of nodes"));
        }
        let width = self.options.n_outputs;
        let tree = compact(tree, context)?;
        let store = &**tree.nodes();
        let Some(&root) = tree.roots().first() else { return Ok(Vec::new()) };
        // Written out, a tree may be far larger than its store: refused before anything
        // is done.
        let n_nodes = tree.expanded("contributions")?;
        let mut out = Vec::new();
        memory::reserve(&mut out, n_nodes.saturating_mul(width))?;
        // 1. The share of every distinct subtree, in one pass over the model.
        let id_map = self.id_map(store)?;
        let mut worker = Worker::default();
        let mapped = MappedStore { store, id_map: &id_map };
        if self.whole.is_empty() {
            self.read(mapped, &mut worker.reader, root)?;
        } else {
            // Large trees know nodes that the graph does not.
            worker.reader.read(store, root, true)?;
        }
        let mut shares = memory::filled(0.0, worker.reader.items().len() * width)?;
        let mut sink = Several::sums_by_place(&self.weights, &mut shares);
        let (norm, worker) = (Norm::default(), &mut worker);
        let mut read =
            ReadTree { worker, mapped, tables: None, norm, number: 0, context };
        self.pass(&mut read, None, &mut sink)?;
        if self.options.normalize {
            self.normalize_shares(&tree, &worker.reader, &mut shares, context)?;
        }
        // 2. Written out in preorder. Equal subtrees have equal shares, wherever they
        // stand.
        let mut todo = memory::collect([root])?;
        while let Some(node) = todo.pop() {
            // A leaf that was not read has no place: the kernel gives leaves nothing.
            match worker.reader.find(node) {
                Some(place) => {
                    let share = &shares[place.index() * width..][..width];
                    memory::extend(&mut out, share.iter().copied())?;
                }
                None => memory::extend(&mut out, std::iter::repeat_n(0.0, width))?,
            }
            // Backwards, as what is pushed last is written first.
            memory::extend(&mut todo, store.children(node).iter().rev().copied())?;
        }
        if out.iter().all(|share| share.is_finite()) {
            return Ok(out);
        }
        Err(Error::ScoreOverflow { tree: 0 })
    }

    /// Divides the shares of a tree's nodes, and adds those that large trees have in them.
    /// Of these a node's is K(subtree at it, large tree) without those of its children.
    fn normalize_shares(
        &self,
        tree: &Forest,
        reader: &Reader,
        shares: &mut [f64],
        context: &Context,
    ) -> Result<()> {
        let (width, items) = (self.options.n_outputs, reader.items());
        // Before the subtrees, as the tree itself would else be one of them.
        let mut roots = memory::collect([tree.roots()[0]])?;
        if !self.whole.is_empty() {
            memory::extend(&mut roots, items.iter().map(|item| item.node))?;
        }
        let n = roots.len();
        let subtrees = Forest::new(Arc::clone(tree.nodes()), roots);
        let trees = self.with_large(&subtrees, context)?;
        let pairs = self.kernel().pairs(trees.nodes(), trees.roots(), context)?;
        // The first root is the tree itself.
        let mut kernel = pairs.worker();
        let norm = Norm::of(kernel(0, 0, context)?);
        for share in shares.iter_mut() {
            *share = norm.divide(*share);
        }
        // By place: the normalised kernel of the subtree with the large tree.
        let mut parts = IdVec::from(memory::filled(0.0, items.len())?);
        for (large, alphas) in (n..trees.len()).zip(self.whole.alphas().chunks(width)) {
            let other = kernel(large, large, context)?;
            for (place, item) in items.enumerated() {
                context.check_now()?;
                // Roots are the tree, then its subtrees by place.
                let raw = kernel(place.index() + 1, large, context)?;
                parts[place] = raw.cosine(norm.own, other);
                // Children stand before their parents, so their parts are those of this
                // large tree.
                let below = tree.nodes().children(item.node).iter();
                let below: f64 = below.map(|&child| parts[reader.place(child)]).sum();
                // Only rounding makes it negative.
                let share = (parts[place] - below).max(0.0);
                add_scaled(
                    share,
                    alphas,
                    &mut shares[place.index() * width..][..width],
                );
            }
        }
        Ok(())
    }
}
