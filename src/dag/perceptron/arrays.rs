//! Perceptrons as flat arrays, to be stored.

use super::{Perceptron, Place, Support, Vote};
use crate::dag::add::too_large;
use crate::dag::vectors::{Features, PolynomialKernel};
use crate::dag::{Model, ModelArrays, ModelOptions, check_length};
use crate::forest::reader::Reader;
use crate::kernel::IntoKernel;
use crate::memory::{self, or_panic};
use crate::{Error, Forest, NodeId, Result};

/// Support trees that are no subtrees of the graph: with no kernel with themselves, ..
const NOT_THERE: i64 = -1;
/// .. and those that are kept whole.
const KEPT_WHOLE: i64 = -2;

/// What a stored perceptron has besides its model's [`ModelArrays`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PerceptronArrays {
    /// The model, whose weights follow from the rest and are not read.
    pub model: ModelArrays,
    /// By support tree: its number among the subtrees; -1 for one that is not there, -2 for
    /// the next of the model's large trees.
    pub roots: Vec<i64>,
    /// By support tree: what its kernel is multiplied with.
    pub scales: Vec<f64>,
    /// By support tree: how many examples came before.
    pub before: Vec<u64>,
    /// By support tree, by output.
    pub alphas: Vec<f64>,
    /// Feature vectors of the support trees as compressed sparse rows.
    pub indptr: Vec<i64>,
    /// Their columns.
    pub indices: Vec<i64>,
    /// Their values.
    pub data: Vec<f64>,
    /// How many features there are.
    pub n_features: usize,
    /// How many examples were seen.
    pub n_examples: u64,
    /// How many mistakes were made, over all outputs.
    pub n_mistakes: u64,
}

impl Perceptron {
    /// The perceptron as flat arrays.
    ///
    /// # Panics
    /// Without memory for them.
    pub fn to_arrays(&self) -> PerceptronArrays {
        or_panic(self.try_to_arrays())
    }

    /// As [`to_arrays`](Self::to_arrays), or an error.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn try_to_arrays(&self) -> Result<PerceptronArrays> {
        // 1. What does not depend on where a support tree is.
        let before = self.supports.iter().map(|support| support.before);
        let mut stored = PerceptronArrays {
            model: self.model.try_to_arrays()?,
            before: memory::collect(before)?,
            alphas: memory::copied(&self.alphas)?,
            indptr: memory::collect([0])?,
            n_features: self.n_features(),
            n_examples: self.n_examples,
            n_mistakes: self.n_mistakes,
            ..PerceptronArrays::default()
        };
        // 2. Support trees, by where they are. A tree that is kept whole is written
        // once for each mistake on it, as each has weights and a time of its own.
        let mut whole = Vec::new();
        stored.model.large_alphas.clear();
        let alphas = self.alphas.chunks(self.model.options.n_outputs);
        for (support, alphas) in self.supports.iter().zip(alphas) {
            let (root, scale) = match support.place {
                Place::Graph(root) => (i64::from(root.0), support.scale),
                Place::Whole(number) => {
                    memory::push(&mut whole, number as usize)?;
                    let large_alphas = &mut stored.model.large_alphas;
                    memory::extend(large_alphas, alphas.iter().copied())?;
                    (KEPT_WHOLE, 0.0)
                }
                Place::Nowhere => (NOT_THERE, 0.0),
            };
            memory::push(&mut stored.roots, root)?;
            memory::push(&mut stored.scales, scale)?;
        }
        stored.model.large_trees = self.model.whole.forest().try_select(&whole)?;
        // 3. Vectors, as rows: in memory they are columns.
        if let Some(vectors) = &self.vectors {
            for row in &vectors.rows()? {
                let columns = row.iter().map(|entry| i64::from(entry.0));
                memory::extend(&mut stored.indices, columns)?;
                memory::extend(&mut stored.data, row.iter().map(|entry| entry.1))?;
                memory::push(&mut stored.indptr, stored.data.len() as i64)?;
            }
        }
        Ok(stored)
    }

    /// The perceptron of flat arrays. Its support trees are added again, in their order:
    /// what it scores and learns has the same bits.
    ///
    /// # Errors
    /// [`Error::Parameter`] as [`new`](Self::new), [`Error::Array`] and
    /// [`Error::Length`] for arrays that do not describe a perceptron.
    pub fn from_arrays(
        kernel: impl IntoKernel,
        options: ModelOptions,
        vote: Vote,
        vectors: Option<PolynomialKernel>,
        mix: f64,
        stored: &PerceptronArrays,
    ) -> Result<Self> {
        let kernel = kernel.into_kernel();
        let mut perceptron = Self::new(&kernel, options, vote, vectors, mix)?;
        // 1. Arrays that fit together; how many trees are kept whole is told twice.
        stored.check(options, perceptron.model.is_graph())?;
        let n = stored.roots.len();
        let wrong = |array, index, expected: &str, got: String| {
            Err(Error::Array { array, index, expected: expected.to_owned(), got })
        };
        let whole = &stored.model.large_trees;
        // 2. The model's subtrees without weights: these come with the support trees,
        // in the old order, so that sums have the same bits.
        let arrays = unweighted(&stored.model)?;
        let n_whole = stored.roots.iter().filter(|&&root| root == KEPT_WHOLE).count();
        check_length("large_trees", whole.roots(), n_whole, "one for each root of -2")?;
        perceptron.model = Model::from_arrays(kernel, options, &arrays)?;
        // 3. Vectors of the support trees.
        if let Some(vectors) = &mut perceptron.vectors {
            let features = Features::Sparse {
                n_columns: stored.n_features,
                indptr: &stored.indptr,
                indices: &stored.indices,
                data: &stored.data,
            };
            features.check(n)?;
            vectors.set_columns(stored.n_features)?;
            let mut row = Vec::new();
            for tree in 0..n {
                features.row(tree, &mut row)?;
                vectors.push(&row)?;
            }
        }
        // Every subtree gets an entry, also one that no support tree has, as these arrays
        // may say.
        if let Some(age_weighted) = &mut perceptron.age_weighted {
            perceptron
                .model
                .slots
                .iter()
                .try_for_each(|&slot| age_weighted.enter(slot))?;
        }
        // 4. The support trees, one after the other.
        let mut reader = Reader::default();
        let mut roots = whole.roots().iter();
        for tree in 0..n {
            let number = stored.roots[tree];
            let alphas =
                &stored.alphas[tree * options.n_outputs..][..options.n_outputs];
            let n_nodes = perceptron.model.nodes.len();
            let kept = if number == KEPT_WHOLE { roots.next() } else { None };
            let place = match (u32::try_from(number), kept) {
                // A number from the arrays is looked up only after this test.
                (Ok(root), _) if (root as usize) < n_nodes => {
                    Place::Graph(NodeId(root))
                }
                (_, Some(&root)) => Place::Whole(perceptron.model.whole.add(
                    whole.nodes(),
                    root,
                    alphas,
                )?),
                _ if number == NOT_THERE => Place::Nowhere,
                _ => {
                    let expected = format!("-2 to {}", n_nodes as i64 - 1);
                    return wrong("roots", tree, &expected, number.to_string());
                }
            };
            if let Place::Graph(root) = place {
                // The tree is one of the model's own store: ids need no map.
                reader.read(&perceptron.model.nodes, root, true)?;
                perceptron.model.ids.clear();
                let ids = reader.items().iter().map(|item| item.node);
                memory::extend(&mut perceptron.model.ids, ids)?;
            }
            let before = stored.before[tree];
            let scale =
                if number == KEPT_WHOLE { f64::NAN } else { stored.scales[tree] };
            // Of a tree that is kept whole the size is not used, and a scale of 0 makes
            // it nothing: so the reader may hold an earlier tree.
            if !perceptron.stays_finite(&reader, scale, alphas) {
                return Err(too_large("alphas", tree * options.n_outputs, alphas));
            }
            perceptron.reserve(&reader, place, alphas.len())?;
            perceptron.weigh(&reader, Support { place, scale, before }, alphas);
        }
        (perceptron.n_examples, perceptron.n_mistakes) =
            (stored.n_examples, stored.n_mistakes);
        Ok(perceptron)
    }
}

impl PerceptronArrays {
    /// Whether what stands here of support trees fits together.
    fn check(&self, options: ModelOptions, is_graph: bool) -> Result<()> {
        let n = self.roots.len();
        check_length("scales", &self.scales, n, "support trees")?;
        check_length("before", &self.before, n, "support trees")?;
        let n_alphas = n * options.n_outputs;
        check_length("alphas", &self.alphas, n_alphas, "trees times n_outputs")?;
        let wrong = |array, index, expected: &str, got: String| {
            Err(Error::Array { array, index, expected: expected.to_owned(), got })
        };
        // As `learn` takes them: 0, or a number that is neither subnormal nor infinite.
        if let Some(index) =
            self.alphas.iter().position(|alpha| *alpha != 0.0 && !alpha.is_normal())
        {
            let got = self.alphas[index].to_string();
            return wrong("alphas", index, "a finite number", got);
        }
        for (index, (&scale, &root)) in self.scales.iter().zip(&self.roots).enumerate()
        {
            let expected = match options.normalize {
                _ if root < 0 => "0, as root is below 0",
                false => "1, as the kernel is not normalised",
                true => "above 0, and at most 1e151",
            };
            // Without a norm a tree is in the graph with scale 1, or kept whole because
            // there is no graph.
            let is_right = match options.normalize {
                false if !is_graph && root == KEPT_WHOLE => scale == 0.0,
                _ if root < 0 => scale == 0.0 && options.normalize,
                false => scale == 1.0,
                true => scale > 0.0 && scale <= 1e151,
            };
            if !is_right {
                return wrong("scales", index, expected, scale.to_string());
            }
        }
        // Versions must not end before they begin.
        if let Some(index) = (0..n).find(|&at| {
            let next = self.before.get(at + 1).copied().unwrap_or(self.n_examples);
            self.before[at] > next
        }) {
            let expected = "not more than the next one, and than n_examples";
            return wrong("before", index, expected, self.before[index].to_string());
        }
        Ok(())
    }
}

/// The arrays of a model whose weights are 0, without trees that are kept whole.
fn unweighted(model: &ModelArrays) -> Result<ModelArrays> {
    Ok(ModelArrays {
        names: memory::try_collect(model.names.iter().map(|name| memory::text(name)))?,
        labels: memory::copied(&model.labels)?,
        ends: memory::copied(&model.ends)?,
        children: memory::copied(&model.children)?,
        weights: memory::filled(0.0, model.weights.len())?,
        sums: memory::filled(0.0, model.sums.len())?,
        intercept: memory::copied(&model.intercept)?,
        large_trees: Forest::default(),
        large_alphas: Vec::new(),
        n_trees: model.n_trees,
        n_tree_nodes: model.n_tree_nodes,
    })
}
