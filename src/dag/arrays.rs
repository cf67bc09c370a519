//! Models as flat arrays, to be stored: what is read back scores with the same bits.

use super::{Model, ModelOptions, check_finite, check_length};
use crate::kernel::IntoKernel;
use crate::memory::{self, or_panic};
use crate::{Error, Forest, Label, NodeId, Result};

/// A model as flat arrays.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelArrays {
    /// The alphabet.
    pub names: Vec<String>,
    /// By subtree, children before parents: its label, an index into `names`.
    pub labels: Vec<u32>,
    /// By subtree: where its children end in `children`.
    pub ends: Vec<u32>,
    /// Children, as numbers of subtrees.
    pub children: Vec<u32>,
    /// By subtree: its weight for each output.
    pub weights: Vec<f64>,
    /// Sums of the weights of each production (for PT of each label), as they stand:
    /// scores of a model that is read back have the same bits.
    pub sums: Vec<f64>,
    /// What is added to the scores of each output.
    pub intercept: Vec<f64>,
    /// How many trees were added.
    pub n_trees: u64,
    /// How many nodes they had.
    pub n_tree_nodes: u64,
    /// Trees that are kept whole: all, where the kernel has no index, else those too large
    /// to be normalised by a float.
    pub large_trees: Forest,
    /// Their weights for each output.
    pub large_alphas: Vec<f64>,
}

impl Model {
    /// The model as flat arrays.
    ///
    /// # Panics
    /// Without memory for them.
    pub fn to_arrays(&self) -> ModelArrays {
        or_panic(self.try_to_arrays())
    }

    /// As [`to_arrays`](Self::to_arrays), or an error.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn try_to_arrays(&self) -> Result<ModelArrays> {
        let n = self.nodes.len();
        let subtrees = || (0..n).map(|node| NodeId(node as u32));
        let names = self.nodes.labels().names().map(memory::text);
        let mut arrays = ModelArrays {
            names: memory::try_collect(names)?,
            labels: memory::collect(subtrees().map(|node| self.nodes.label(node).0))?,
            sums: memory::copied(self.weights.sums())?,
            intercept: memory::copied(&self.intercept)?,
            n_trees: self.n_trees,
            n_tree_nodes: self.n_tree_nodes,
            large_trees: self.whole.forest().copied()?,
            large_alphas: memory::copied(self.whole.alphas())?,
            ..ModelArrays::default()
        };
        // Of known size, so they are asked for in one piece.
        memory::reserve(&mut arrays.ends, n)?;
        memory::reserve(&mut arrays.weights, n * self.options.n_outputs)?;
        // Ids ascend from children to parents: who reads this back meets no child that
        // it does not know.
        for node in subtrees() {
            let children = self.nodes.children(node).iter();
            memory::extend(&mut arrays.children, children.map(|c| c.0))?;
            memory::push(&mut arrays.ends, arrays.children.len() as u32)?;
            memory::extend(&mut arrays.weights, self.weights(node).iter().copied())?;
        }
        Ok(arrays)
    }

    /// The model of flat arrays: its scores have the same bits.
    ///
    /// # Errors
    /// [`Error::Array`] and [`Error::Length`] for arrays that do not describe a model.
    pub fn from_arrays(
        kernel: impl IntoKernel,
        options: ModelOptions,
        arrays: &ModelArrays,
    ) -> Result<Self> {
        let mut model = Self::new(kernel, options)?;
        // 1. Arrays of the right lengths, whose numbers are finite.
        let (n, width) = (arrays.labels.len(), options.n_outputs);
        if !model.is_graph() {
            check_length("labels", &arrays.labels, 0, "for a kernel without an index")?;
        }
        check_length("ends", &arrays.ends, n, "one for each label")?;
        check_length(
            "weights",
            &arrays.weights,
            n.saturating_mul(width),
            "subtrees times n_outputs",
        )?;
        check_finite("weights", &arrays.weights)?;
        check_finite("sums", &arrays.sums)?;
        // 2. Names get back the numbers that labels refer to. A name that comes twice
        // would get its first number, and move all that follow.
        for (index, name) in arrays.names.iter().enumerate() {
            if model.nodes.labels_mut().intern(name)?.index() != index {
                let (array, expected) = ("names", "a name of its own".to_owned());
                return Err(Error::Array { array, index, expected, got: name.clone() });
            }
        }
        let n_labels = model.nodes.labels().len() as u32;
        // 3. Subtrees, children first. Every number in the arrays is checked before
        // anything is looked up by it: the arrays may come from a damaged file.
        let mut start = 0;
        for node in 0..n {
            let wrong = |array, index, expected: String, got: String| {
                Err(Error::Array { array, index, expected, got })
            };
            let (label, end) = (arrays.labels[node], arrays.ends[node]);
            if label >= n_labels {
                let expected =
                    format!("an index below {n_labels}, the number of names");
                return wrong("labels", node, expected, label.to_string());
            }
            // Also none if `end` is below `start`: ends ascend.
            let Some(below) = arrays.children.get(start..end as usize) else {
                let expected = format!("{start} to {}", arrays.children.len());
                return wrong("ends", node, expected, end.to_string());
            };
            // All children have lower numbers, so there is no cycle, and no subtree is
            // its own part.
            if let Some(at) = below.iter().position(|&child| child as usize >= node) {
                let expected = format!("a subtree before number {node}");
                return wrong("children", start + at, expected, below[at].to_string());
            }
            start = end as usize;
            model.below.clear();
            memory::extend(&mut model.below, below.iter().map(|&c| NodeId(c)))?;
            let id = model.nodes.intern(Label(label), &model.below)?;
            // Equal subtrees would share one weight, and the numbers behind them would
            // be off by one.
            if id.index() != node {
                let expected = "a subtree of its own".to_owned();
                return wrong("labels", node, expected, format!("that of {}", id.0));
            }
            model.enter_node(id)?;
        }
        check_length("children", &arrays.children, start, "the last of ends")?;
        // 4. Weights, and the sums as they were. Made anew they would be added in
        // another order, and differ in the last bits.
        for node in 0..n {
            let values = &arrays.weights[node * width..][..width];
            model.weights.set(model.slots[NodeId(node as u32)], values);
        }
        let n_sums = model.weights.sums().len();
        check_length("sums", &arrays.sums, n_sums, "groups times n_outputs")?;
        model.weights.set_sums(&arrays.sums);
        // 5. Trees that are kept whole: in a graph those that no float can divide by,
        // and nothing is divided where scores are not normalised.
        let (large, alphas) = (&arrays.large_trees, &arrays.large_alphas);
        if model.is_graph() && !options.normalize {
            check_length("large_trees", large.roots(), 0, "without normalize")?;
        }
        let n_large = large.len() * width;
        check_length("large_alphas", alphas, n_large, "trees times n_outputs")?;
        check_finite("large_alphas", alphas)?;
        for (&root, alphas) in large.roots().iter().zip(alphas.chunks(width)) {
            model.whole.add(large.nodes(), root, alphas)?;
        }
        // 6. The bound on weights. The sum of all sizes is more than needed, but sure.
        let numbers =
            arrays.weights.iter().chain(&arrays.sums).chain(&arrays.large_alphas);
        model.magnitude = numbers.fold(0.0, |sum, value| sum + value.abs());
        model.set_intercept(&arrays.intercept)?;
        (model.n_trees, model.n_tree_nodes) = (arrays.n_trees, arrays.n_tree_nodes);
        Ok(model)
    }
}
