//! Forests as flat arrays: every node of every tree, or every distinct subtree once.

use std::sync::Arc;

use super::{Forest, NodeId, Nodes};
use crate::intern::new_id;
use crate::memory::{self, filled, or_panic, reserve};
use crate::{Context, Error, Label, Labels, Result};

/// Trees as flat arrays: what [`Forest::to_arrays`] gives and
/// [`Forest::from_arrays`] takes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ForestArrays {
    /// The alphabet.
    pub names: Vec<String>,
    /// Per node, trees one after another, each in preorder: index into `names`.
    pub labels: Vec<i64>,
    /// Per node: the index of its parent, -1 for a root.
    pub parents: Vec<i64>,
    /// Per tree: the index of its root.
    pub offsets: Vec<i64>,
}

/// Trees as flat arrays that keep what they share: what [`Forest::to_shared`] gives and
/// [`Forest::from_shared`] takes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SharedArrays {
    /// The alphabet.
    pub names: Vec<String>,
    /// Per distinct subtree, children before parents: index into `names`.
    pub labels: Vec<u32>,
    /// Per distinct subtree: where its list of children ends.
    pub ends: Vec<u32>,
    /// The children of all subtrees, by their numbers.
    pub children: Vec<u32>,
    /// Per tree: the number of the whole.
    pub roots: Vec<u32>,
}

impl Nodes {
    /// The store in which every subtree has the number that it has in the arrays.
    ///
    /// # Errors
    /// [`Error::Array`] and [`Error::Length`] for arrays that [`SharedArrays`] does not
    /// describe, [`Error::Capacity`], [`Error::Memory`], and what `context` returns.
    pub(crate) fn of_shared(arrays: &SharedArrays, context: &Context) -> Result<Self> {
        let SharedArrays { names, labels, ends, children, .. } = arrays;
        if ends.len() != labels.len() {
            let expected = format!("{}, one per entry of labels", labels.len());
            return Err(Error::Length { array: "ends", expected, got: ends.len() });
        }
        let wrong = |array, index, expected: String, got: u32| {
            let got = got.to_string();
            Err(Error::Array { array, index, expected, got })
        };
        // Equal names would be one label, and the numbers of all others would move.
        Labels::check_distinct(names)?;
        let mut nodes = Self::default();
        for name in names {
            nodes.labels_mut().intern(name)?;
        }
        let (mut start, mut below) = (0, Vec::new());
        // Children before parents, and all indices are checked before they are used.
        for (node, (&label, &end)) in labels.iter().zip(ends).enumerate() {
            if label as usize >= names.len() {
                let expected = format!("an index into the {} names", names.len());
                return wrong("labels", node, expected, label);
            }
            let Some(ids) = children.get(start..end as usize) else {
                return wrong(
                    "ends",
                    node,
                    format!("{start} to {}", children.len()),
                    end,
                );
            };
            // Lower numbers only, so nothing is below itself.
            if let Some(at) = ids.iter().position(|&child| child as usize >= node) {
                let expected = format!("a subtree before number {node}");
                return wrong("children", start + at, expected, ids[at]);
            }
            start = end as usize;
            below.clear();
            memory::extend(&mut below, ids.iter().map(|&child| NodeId(child)))?;
            let id = nodes.intern(Label(label), &below)?;
            // An equal subtree would make the numbers behind it differ from those of
            // the store.
            if id.index() != node {
                let expected = format!("a subtree that differs from number {}", id.0);
                return wrong("labels", node, expected, label);
            }
            context.check()?;
        }
        // Children behind the last list would belong to nobody.
        if start != children.len() {
            let (expected, got) =
                (format!("{start}, the last of ends"), children.len());
            return Err(Error::Length { array: "children", expected, got });
        }
        Ok(nodes)
    }
}

impl Forest {
    /// The trees as flat arrays.
    pub fn to_arrays(&self) -> ForestArrays {
        or_panic(self.read_arrays(0, &Context::default()))
    }

    /// As [`to_arrays`](Self::to_arrays), or an error.
    ///
    /// # Errors
    /// As [`preorder_with`](Self::preorder_with).
    pub fn to_arrays_with(&self, context: &Context) -> Result<ForestArrays> {
        self.read_arrays(self.expanded("to_arrays()")?, context)
    }

    /// Of `n_nodes` nodes, if it is known how many there are.
    fn read_arrays(&self, n_nodes: usize, context: &Context) -> Result<ForestArrays> {
        let (names, number) = self.alphabet()?;
        let mut arrays = ForestArrays { names, ..ForestArrays::default() };
        reserve(&mut arrays.labels, n_nodes)?;
        reserve(&mut arrays.parents, n_nodes)?;
        self.walk(context, |node, parent| {
            if parent < 0 {
                memory::push(&mut arrays.offsets, arrays.labels.len() as i64)?;
            }
            let label = i64::from(number[self.nodes.label(node).index()]);
            memory::push(&mut arrays.labels, label)?;
            memory::push(&mut arrays.parents, parent)
        })?;
        Ok(arrays)
    }

    /// The labels that occur in the trees; by label, which of them it is.
    fn alphabet(&self) -> Result<(Vec<String>, Vec<u32>)> {
        let used = self.try_used_labels()?;
        let mut number = filled(0, self.nodes.labels().len())?;
        for (index, label) in used.iter().enumerate() {
            number[label.index()] = index as u32;
        }
        let names = used.iter().map(|&l| memory::text(self.nodes.labels().name(l)));
        Ok((memory::try_collect(names)?, number))
    }

    /// The trees as flat arrays in which each distinct subtree stands once. Subtrees
    /// keep their order.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn to_shared(&self) -> Result<SharedArrays> {
        let (names, number) = self.alphabet()?;
        let mut arrays = SharedArrays { names, ..SharedArrays::default() };
        let reached = self.nodes.reachable(&self.roots)?;
        let mut place = filled(0, reached.len())?;
        // Numbers without gaps, in the order of ids: children still come before
        // parents.
        let reached = || (0..reached.len()).filter(|&n| reached[n]);
        // Counted first, so that each array is one allocation.
        let edges = reached().map(|node| self.nodes.below(node).len());
        reserve(&mut arrays.children, edges.sum())?;
        reserve(&mut arrays.labels, reached().count())?;
        reserve(&mut arrays.ends, reached().count())?;
        for index in reached() {
            let node = NodeId(index as u32);
            place[index] = arrays.labels.len() as u32;
            arrays.labels.push(number[self.nodes.label(node).index()]);
            arrays
                .children
                .extend(self.nodes.children(node).iter().map(|c| place[c.index()]));
            arrays.ends.push(arrays.children.len() as u32);
        }
        reserve(&mut arrays.roots, self.len())?;
        arrays.roots.extend(self.roots.iter().map(|root| place[root.index()]));
        Ok(arrays)
    }

    /// Trees from arrays in which each distinct subtree stands once. They are not
    /// trusted.
    ///
    /// # Errors
    /// [`Error::Length`] and [`Error::Array`], which name array, entry, expectation and
    /// what was found; [`Error::Capacity`], [`Error::Memory`].
    pub fn from_shared(arrays: &SharedArrays) -> Result<Self> {
        Self::from_shared_with(arrays, &Context::default())
    }

    /// As [`from_shared`](Self::from_shared), in a context.
    ///
    /// # Errors
    /// As [`from_shared`](Self::from_shared), and what `context` returns.
    pub fn from_shared_with(arrays: &SharedArrays, context: &Context) -> Result<Self> {
        let nodes = Nodes::of_shared(arrays, context)?;
        let roots = &arrays.roots;
        new_id(roots.len(), "trees")?;
        if let Some(index) = roots.iter().position(|&root| root as usize >= nodes.len())
        {
            let expected = format!("the number of one of {} subtrees", nodes.len());
            let got = roots[index].to_string();
            return Err(Error::Array { array: "roots", index, expected, got });
        }
        let roots = memory::collect(roots.iter().map(|&root| NodeId(root)))?;
        let mut forest = Self::new(Arc::new(nodes), roots);
        forest.shrink_to_fit();
        Ok(forest)
    }

    /// Trees from flat arrays, which are not trusted: whatever is in them, the result
    /// is a forest or an error, in linear time.
    ///
    /// ```
    /// # use treekernel_rs::Forest;
    /// let forest = Forest::from_arrays(&["S", "x"], &[0, 1, 1], &[-1, 0, 0], &[0])?;
    /// assert_eq!(forest.to_brackets(), ["(S x x)"]);
    /// # Ok::<(), treekernel_rs::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Length`] and [`Error::Array`], which name array, entry, expectation and
    /// what was found.
    pub fn from_arrays(
        names: &[impl AsRef<str>],
        labels: &[i64],
        parents: &[i64],
        offsets: &[i64],
    ) -> Result<Self> {
        let mut forest = Self::default();
        forest.push_arrays(names, labels, parents, offsets)?;
        forest.shrink_to_fit();
        Ok(forest)
    }

    /// Appends trees from flat arrays. A failed call leaves the forest as it was.
    ///
    /// # Errors
    /// As [`from_arrays`](Self::from_arrays), [`Error::Capacity`], [`Error::Memory`].
    pub fn push_arrays(
        &mut self,
        names: &[impl AsRef<str>],
        labels: &[i64],
        parents: &[i64],
        offsets: &[i64],
    ) -> Result<()> {
        self.push_arrays_with(names, labels, parents, offsets, &Context::default())
    }

    /// As [`push_arrays`](Self::push_arrays), in a context.
    ///
    /// # Errors
    /// As [`push_arrays`](Self::push_arrays), and what `context` returns.
    pub fn push_arrays_with(
        &mut self,
        names: &[impl AsRef<str>],
        labels: &[i64],
        parents: &[i64],
        offsets: &[i64],
        context: &Context,
    ) -> Result<()> {
        if parents.len() != labels.len() {
            let expected = format!("{}, one per entry of labels", labels.len());
            return Err(Error::Length {
                array: "parents",
                expected,
                got: parents.len(),
            });
        }
        check_offsets(offsets, labels.len())?;
        self.extend_with(|nodes, roots| {
            let mut interned: Vec<Option<Label>> = filled(None, names.len())?;
            reserve(roots, offsets.len())?;
            let mut below: Vec<NodeId> = Vec::new();
            let mut arity: Vec<usize> = Vec::new();
            for (tree, &start) in offsets.iter().enumerate() {
                let start = start as usize;
                let end = offsets.get(tree + 1).map_or(labels.len(), |&o| o as usize);
                // After this no index below can be out of range.
                check_parents(parents, start, end, context)?;
                // How many children each node has: how many it takes from the stack.
                arity.clear();
                memory::reach(&mut arity, end - start, 0)?;
                for &parent in &parents[start + 1..end] {
                    arity[parent as usize - start] += 1;
                }
                // Backwards through a preorder, a node finds its children on top of
                // the stack, the first one uppermost.
                for index in (start..end).rev() {
                    let label = read_label(nodes, &mut interned, names, labels, index)?;
                    let first = below.len() - arity[index - start];
                    below[first..].reverse();
                    let node = nodes.intern(label, &below[first..])?;
                    below.truncate(first);
                    memory::push(&mut below, node)?;
                    context.check()?;
                }
                roots.extend(below.pop());
            }
            Ok(())
        })
    }
}

fn check_offsets(offsets: &[i64], n_nodes: usize) -> Result<()> {
    let wrong = |index: usize, expected: String| {
        let got = offsets.get(index).map_or("nothing".to_owned(), i64::to_string);
        Err(Error::Array { array: "offsets", index, expected, got })
    };
    // Nodes that belong to no tree.
    if offsets.is_empty() && n_nodes > 0 {
        return wrong(0, "0, the start of the first tree".to_owned());
    }
    for (index, &offset) in offsets.iter().enumerate() {
        if index == 0 && offset != 0 {
            return wrong(0, "0, the start of the first tree".to_owned());
        }
        if index > 0 && offset <= offsets[index - 1] {
            return wrong(index, format!("more than {}", offsets[index - 1]));
        }
        if offset >= n_nodes as i64 {
            return wrong(index, format!("less than {n_nodes}, the number of nodes"));
        }
    }
    Ok(())
}

/// In preorder a node's parent is the node before it or one of that node's ancestors.
///
/// Climbing from the node before leaves a path for good, so all climbs together take no
/// more steps than there are nodes.
fn check_parents(
    parents: &[i64],
    start: usize,
    end: usize,
    context: &Context,
) -> Result<()> {
    let wrong = |index: usize, expected: String| {
        let got = parents[index].to_string();
        Err(Error::Array { array: "parents", index, expected, got })
    };
    if parents[start] != -1 {
        return wrong(start, "-1, as a tree starts here".to_owned());
    }
    for index in start + 1..end {
        let parent = parents[index];
        if parent < start as i64 || parent >= index as i64 {
            return wrong(index, format!("a node of the same tree from {start} on"));
        }
        let mut ancestor = index as i64 - 1;
        while ancestor > parent {
            ancestor = parents[ancestor as usize];
        }
        if ancestor != parent {
            let expected = format!("{} or an ancestor of it: preorder", index - 1);
            return wrong(index, expected);
        }
        context.check()?;
    }
    Ok(())
}

fn read_label(
    nodes: &mut Nodes,
    interned: &mut [Option<Label>],
    names: &[impl AsRef<str>],
    labels: &[i64],
    index: usize,
) -> Result<Label> {
    let label = usize::try_from(labels[index]).ok().filter(|&l| l < names.len());
    let Some(label) = label else {
        return Err(Error::Array {
            array: "labels",
            index,
            expected: format!("an index into the {} names", names.len()),
            got: labels[index].to_string(),
        });
    };
    // By name: interned once for all nodes that have it.
    if let Some(interned) = interned[label] {
        return Ok(interned);
    }
    let new = nodes.labels_mut().intern(names[label].as_ref())?;
    interned[label] = Some(new);
    Ok(new)
}
