//! How fragments of SST grow: a piece is a production.
//!
//! The open nodes of a place are decided from left to right: a node stays bare, or gets the
//! production that it has there. Lists of them are interned cells (node, rest): to leave a
//! node bare is to go on to `rest`.

use super::Query;
use super::best::Best;
use super::inner_nodes;
use super::search::{Drawing, Growth, Interned, OpenList, Prefix, Row, Way};
use crate::memory;
use crate::{Context, NodeId, Nodes, ProductionId, Result};

/// An open node and those after it.
#[derive(Debug, Clone, Copy)]
struct Cell {
    node: NodeId,
    rest: OpenList,
    /// Inner nodes in the trees of the list: the productions that can still come.
    inner: u64,
}

pub(super) struct Productions<'a> {
    nodes: &'a Nodes,
    /// λ.
    decay: f64,
    /// By node: the inner nodes of its tree.
    inner: Vec<u64>,
    lists: Interned<OpenList, (NodeId, OpenList), Cell>,
}

impl<'a> Productions<'a> {
    pub(super) fn new(nodes: &'a Nodes, decay: f64) -> Result<Self> {
        let empty = Cell { node: NodeId(u32::MAX), rest: OpenList::EMPTY, inner: 0 };
        let lists = Interned::new("lists of open nodes in a search", empty)?;
        Ok(Self { nodes, decay, inner: inner_nodes(nodes)?, lists })
    }

    /// The bound of larger fragments with some of these weights.
    fn bound_of(
        &self,
        weights: impl Iterator<Item = f64>,
        prefix: &Prefix,
        best: &Best,
    ) -> f64 {
        // At least one production more, and as many as the smallest size asks for. An
        // exponent that is too small only makes the bound less sharp, as λ is at most
        // 1.
        let more = best.query().min_size.saturating_sub(prefix.size).max(1);
        let shrunk = self.decay.powi(i32::try_from(more).unwrap_or(i32::MAX));
        best.largest_sum(weights) * prefix.power * shrunk
    }
}

impl Growth for Productions<'_> {
    type Piece = ProductionId;

    fn piece(&self, node: NodeId) -> Option<ProductionId> {
        self.nodes.production(node)
    }

    fn factor(&self) -> f64 {
        self.decay
    }

    fn weight(&self, ways: &[Way<ProductionId>], power: f64) -> f64 {
        power * ways.iter().map(|way| way.f).sum::<f64>()
    }

    fn ways(&mut self, rows: &[Row], _: &Context) -> Result<Vec<Way<ProductionId>>> {
        let mut ways = memory::collect(rows.iter().filter_map(|row| {
            let Cell { node, rest, .. } = self.lists.get(row.list);
            // A leaf has no production: its place does not go on here.
            let piece = self.nodes.production(node)?;
            Some(Way { piece, node, f: row.f, rest })
        }))?;
        memory::sort_by_key(&mut ways, |way| way.piece)?;
        Ok(ways)
    }

    fn open_nodes_after(&mut self, way: &Way<ProductionId>) -> Result<OpenList> {
        // Children come before what was open, and from left to right: the order of the
        // decisions.
        let mut list = way.rest;
        for &node in self.nodes.children(way.node).iter().rev() {
            let key = (node, list);
            list = if let Some(list) = self.lists.find(&key) {
                list
            } else {
                let more = self.lists.get(list).inner;
                let inner = self.inner[node.index()].saturating_add(more);
                self.lists.add(key, Cell { node, rest: list, inner })?
            };
        }
        Ok(list)
    }

    fn can_grow(&self, list: OpenList, size: u64, query: &Query) -> bool {
        let inner = self.lists.get(list).inner;
        inner > 0 && size.saturating_add(inner) >= query.min_size
    }

    fn is_decided(&self, list: OpenList) -> bool {
        // Rows that can grow still have an inner node to come, so none has the empty
        // list.
        self.nodes.is_leaf(self.lists.get(list).node)
    }

    fn close(&self, rows: &mut [Row], power: f64) -> f64 {
        for row in rows {
            // The node stays bare: its place goes on at the next one.
            row.list = self.lists.get(row.list).rest;
        }
        power
    }

    fn bound(&self, rows: &[Row], prefix: &Prefix, best: &Best) -> f64 {
        self.bound_of(rows.iter().map(|row| row.f), prefix, best)
    }

    fn is_ruled_out(
        &self,
        ways: &[Way<ProductionId>],
        prefix: &Prefix,
        best: &Best,
    ) -> bool {
        let weights = ways.iter().map(|way| way.f);
        self.bound_of(weights, prefix, best) <= best.threshold()
    }

    fn draw(&self, piece: ProductionId, tree: &mut Drawing) -> Result<()> {
        let labels = self.nodes.production_labels(piece);
        // The root is the first node, and has no place to be taken from.
        let parent = match tree.open.pop() {
            Some(node) => node,
            None => tree.add(labels[0], None)?,
        };
        let children = labels[1..].iter().map(|&label| tree.add(label, Some(parent)));
        let children = memory::try_collect(children)?;
        // The first child is decided first, so it is the last to be pushed.
        memory::extend(&mut tree.open, children.into_iter().rev())
    }
}
