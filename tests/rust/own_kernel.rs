//! A kernel of another crate, which knows pairs only, has all that pairs can give.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::corpus;
use crate::registry::{self, jobs, of, stop};
use treekernel_rs::dag::{Model, ModelOptions, Perceptron, Query, SumModel, Vote};
use treekernel_rs::dtk::{DistributedTrees, Settings};
use treekernel_rs::gram::{self, Options};
use treekernel_rs::kernel::{
    Counts, Kernel, LabelPairs, Number, Operation, Pairs, Parameter, PartialTree,
    Prepared, Range, Scaled, Sloped, SmoothedPartialTree, SubsetTree, Subtree, Value,
    Weighted, Weights, Worker, naive,
};
use treekernel_rs::neighbours::Index;
use treekernel_rs::{Context, Error, Label, NodeId, Nodes, Result};

/// Σ over labels: weight · count · count. With `size`, two trees are worth that much more.
#[derive(Debug, Clone)]
struct Bag {
    weight: f64,
    size: Option<usize>,
}

impl Kernel for Bag {
    fn name(&self) -> &'static str {
        "Bag"
    }

    fn parameters(&self) -> Vec<Parameter> {
        vec![
            Parameter::new("weight", self.weight, Range::Share),
            Parameter::new("size", self.size, Range::Limit),
        ]
    }

    fn definition(&self, nodes: &Nodes, a: NodeId, b: NodeId) -> f64 {
        let equal =
            |u, v| if nodes.label(u) == nodes.label(v) { self.weight } else { 0.0 };
        self.size.unwrap_or(0) as f64 + naive::sum(nodes, a, b, equal)
    }

    fn pairs(
        &self,
        nodes: &Arc<Nodes>,
        roots: &[NodeId],
        context: &Context,
    ) -> Result<Box<dyn Prepared>> {
        let count = |&root: &NodeId| {
            context.check_now()?;
            let (mut counts, mut todo) = (HashMap::new(), vec![root]);
            while let Some(node) = todo.pop() {
                *counts.entry(nodes.label(node)).or_insert(0.0) += 1.0;
                todo.extend(nodes.children(node));
            }
            Ok(counts)
        };
        let trees = roots.iter().map(count).collect::<Result<_>>()?;
        Ok(Box::new(Bags { kernel: self.clone(), trees }))
    }
}

struct Bags {
    kernel: Bag,
    trees: Vec<HashMap<Label, f64>>,
}

impl Prepared for Bags {
    fn worker(&self) -> Worker<'_> {
        Box::new(move |a, b, context| {
            context.check_now()?;
            let (a, b) = (&self.trees[a], &self.trees[b]);
            let both = a.iter().filter_map(|(label, n)| Some(n * b.get(label)?));
            // Label by label in any order: whole numbers, so that no bit depends on it.
            let sum = self.kernel.weight * both.sum::<f64>();
            let size = Scaled::from_f64(self.kernel.size.unwrap_or(0) as f64);
            Ok(size + Scaled::from_f64(sum))
        })
    }
}

const BAG: Bag = Bag { weight: 0.25, size: Some(3) };

#[test]
fn it_has_matrices_rows_diagonals_and_pairs() {
    let mut trees = corpus::trees(&mut corpus::Random(1), 60, 30);
    trees.extend_from_within(10..20);
    let all = corpus::read(&trees);
    let (nodes, roots, n) = (all.nodes(), all.roots(), all.len());
    let values: Vec<_> = (0..n * n)
        .map(|at| BAG.definition(nodes, roots[at / n], roots[at % n]))
        .collect();
    let right = |i: usize, j: usize| values[i * n + j];
    let columns = corpus::read(&trees[30..]);
    for normalize in [false, true] {
        for n_jobs in [1, 2, 3] {
            let options = Options::default().with_normalize(normalize);
            let context = &jobs(n_jobs);
            let expected = |i: usize, j: usize| {
                let norm = (right(i, i) * right(j, j)).sqrt();
                if normalize { right(i, j) / norm } else { right(i, j) }
            };
            let close = |got: f64, i: usize, j: usize| {
                assert!(
                    (got - expected(i, j)).abs() < 1e-12 * expected(i, j),
                    "{i} {j}"
                );
            };
            let matrix = gram::gram_with(&BAG, &all, None, options, context).unwrap();
            matrix.indexed_iter().for_each(|((i, j), &value)| close(value, i, j));
            let block =
                gram::gram_with(&BAG, &all, Some(&columns), options, context).unwrap();
            block.indexed_iter().for_each(|((i, j), &value)| close(value, i, 30 + j));
            let mut single = vec![0f32; n * n];
            gram::fill_with(&BAG, &all, None, options, &mut single, context).unwrap();
            assert!(matrix.iter().zip(&single).all(|(&a, &b)| a as f32 == b));
            let rows =
                gram::KernelRows::new_with(&BAG, &all, options, context).unwrap();
            let mut row = vec![0.0; n];
            for i in 0..n {
                rows.row(i, &mut row).unwrap();
                row.iter().enumerate().for_each(|(j, &value)| close(value, i, j));
            }
            let (diagonal, _) =
                gram::diagonal_with(&BAG, &all, options, context).unwrap();
            diagonal.iter().enumerate().for_each(|(i, &value)| close(value, i, i));
            let packed = Mutex::new(0);
            let sink = |i: usize, row: &[f64]| {
                row.iter().enumerate().for_each(|(j, &value)| close(value, i, j));
                *packed.lock().unwrap() += row.len();
            };
            gram::for_each_row_with(&BAG, &all, options, sink, context).unwrap();
            assert_eq!(*packed.lock().unwrap(), n * (n + 1) / 2);
        }
    }
    let (a, b) = (all.select([3]), all.select([4]));
    assert_eq!(gram::pair(&BAG, &a, &b, false), Ok(right(3, 4)));
}

#[test]
fn its_parameters_are_checked_and_its_pauses_end_a_call() {
    let all = corpus::read(&["(a b)", "(a c)"]);
    let wrong = Bag { size: Some(0), ..BAG };
    let error = gram::gram(&wrong, &all, None, Options::default());
    assert!(matches!(error, Err(Error::Parameter { name: "size", .. })));
    let trees = corpus::forest(&mut corpus::Random(2), 20, 9);
    let stop = &stop();
    let rows = gram::KernelRows::new_with(&BAG, &trees, Options::default(), stop);
    assert_eq!(rows.err(), Some(Error::Interrupted));
}

#[test]
fn what_it_cannot_do_is_refused_with_the_kernels_that_can() {
    let refused = |error: Option<Error>| match error {
        Some(Error::Unsupported { kernel: "Bag", what, can }) => {
            assert!(can.contains(&"SubsetTree") && !can.contains(&"Bag"), "{can:?}");
            what
        }
        other => panic!("{other:?}"),
    };
    let trees = corpus::read(&["(a b)", "(a c)"]);
    let mut model = Model::new(&BAG, ModelOptions::default()).unwrap();
    model.add_with(&trees, &[1.0, -1.0], &jobs(1)).unwrap();
    let shares = model.contributions_with(&trees, &jobs(1)).err();
    assert_eq!(refused(shares), "contributions of nodes");
    let fragments = model.top_fragments_with(&Query::default(), &jobs(1)).err();
    assert_eq!(refused(fragments), "fragments with weights");
    let trees = DistributedTrees::new(Settings::new(&BAG, 64));
    assert_eq!(refused(trees.err()), "distributed trees");
}

/// weight · count · count of the nodes with one label. The label, a text, is no
/// [`Parameter`]: only the kernel itself knows it.
#[derive(Debug, Clone)]
pub(crate) struct LabelCount {
    label: String,
    weight: f64,
}

impl LabelCount {
    pub(crate) fn arc(label: &str) -> Arc<dyn Kernel> {
        Arc::new(Self { label: label.to_owned(), weight: 1.0 })
    }

    fn trees(
        &self,
        nodes: &Nodes,
        roots: &[NodeId],
        context: &Context,
    ) -> Result<LabelCounts> {
        let count = |&root: &NodeId| {
            context.check_now()?;
            let (mut count, mut todo) = (0.0, vec![root]);
            while let Some(node) = todo.pop() {
                count += f64::from(u8::from(nodes.name(node) == self.label));
                todo.extend(nodes.children(node));
            }
            Ok(count)
        };
        let counts = roots.iter().map(count).collect::<Result<_>>()?;
        Ok(LabelCounts { counts, weight: self.weight })
    }
}

impl Kernel for LabelCount {
    fn name(&self) -> &'static str {
        "LabelCount"
    }

    fn parameters(&self) -> Vec<Parameter> {
        vec![Parameter::new("weight", self.weight, Range::Share)]
    }

    fn with(&self, name: &str, value: Value) -> Option<Arc<dyn Kernel>> {
        let (Self { label, .. }, "weight") = (self.clone(), name) else { return None };
        Some(Arc::new(Self { label, weight: value.try_into().ok()? }))
    }

    fn definition(&self, nodes: &Nodes, a: NodeId, b: NodeId) -> f64 {
        let is_it = |node| nodes.name(node) == self.label;
        naive::sum(
            nodes,
            a,
            b,
            |u, v| {
                if is_it(u) && is_it(v) { self.weight } else { 0.0 }
            },
        )
    }

    fn pairs(
        &self,
        nodes: &Arc<Nodes>,
        roots: &[NodeId],
        context: &Context,
    ) -> Result<Box<dyn Prepared>> {
        Ok(Box::new(self.trees(nodes, roots, context)?))
    }

    fn sloped(
        &self,
        nodes: &Arc<Nodes>,
        roots: &[NodeId],
        context: &Context,
    ) -> Result<Option<Box<dyn Sloped>>> {
        Ok(Some(Box::new(self.trees(nodes, roots, context)?)))
    }
}

struct LabelCounts {
    counts: Vec<f64>,
    weight: f64,
}

impl Pairs for LabelCounts {
    type Scratch<N: Number> = ();

    fn pair<N: Number>(
        &self,
        a: usize,
        b: usize,
        (): &mut (),
        _: &Context,
    ) -> Result<N> {
        let both = N::from_f64(self.counts[a] * self.counts[b]);
        Ok(N::parameter(self.weight, 0) * both)
    }
}

/// Two kernels that only a text tells apart, alone and wherever kernels are combined: in
/// every operation, beside themselves, beside each other and beside kernels of the crate.
pub(crate) fn told_apart_by_a_text() -> Vec<Arc<dyn Kernel>> {
    let [x, y] = ["l0", "l1"].map(LabelCount::arc);
    let sst: Arc<dyn Kernel> = Arc::new(SubsetTree::new(0.4));
    let both = || [&x, &y].map(Arc::clone);
    let one = || [Arc::clone(&y)];
    let unit = |part: &Arc<dyn Kernel>| of(Operation::Normalized, [Arc::clone(part)]);
    let sum = of(Operation::Sum, both());
    let product = of(Operation::Product, both());
    vec![
        Arc::clone(&x),
        of(Operation::Scaled(2.0), one()),
        of(Operation::Power(Some(3)), one()),
        unit(&y),
        of(Operation::Polynomial { degree: Some(2), coef0: 1.0 }, one()),
        of(Operation::Gaussian(0.1), one()),
        of(Operation::Product, [Arc::clone(&x), Arc::clone(&x)]),
        of(Operation::Sum, [unit(&x), unit(&y)]),
        of(Operation::Sum, [of(Operation::Power(Some(2)), [Arc::clone(&x)]), y]),
        of(Operation::Product, [of(Operation::Sum, [Arc::clone(&sum), sst]), x]),
        of(Operation::Gaussian(0.1), [Arc::clone(&sum)]),
        unit(&of(Operation::Sum, [Arc::clone(&sum), Arc::clone(&product)])),
        sum,
        product,
    ]
}

#[test]
fn two_kernels_of_one_name_and_equal_numbers_stay_two() {
    let [a, b] = ["A", "B"].map(LabelCount::arc);
    assert!(*a == *a && *a != *b && *a != *LabelCount::arc("A"));
    let both = || [&a, &b].map(Arc::clone);
    let all = corpus::read(&["(A)", "(B)", "(A x)", "(B (A x))", "(C)"]);
    let trees = all.select([0, 1]);
    let matrix = |kernel: &dyn Kernel, trees| {
        let matrix = gram::gram(kernel, trees, None, Options::default()).unwrap();
        matrix.into_raw_vec_and_offset().0
    };
    let sum = of(Operation::Sum, both());
    assert_eq!(matrix(&*sum, &trees), [1.0, 0.0, 0.0, 1.0]);
    let product = of(Operation::Product, both());
    assert_eq!(matrix(&*product, &trees), [0.0; 4]);
    // Deeper down, beside kernels of this crate, and normalised.
    let sst: Arc<dyn Kernel> = Arc::new(SubsetTree::new(0.4));
    let [x, y] = both();
    let inner = of(Operation::Sum, [Arc::clone(&x), sst]);
    let sums = [
        of(Operation::Sum, both().map(|part| of(Operation::Normalized, [part]))),
        of(Operation::Sum, [of(Operation::Power(Some(2)), [x]), Arc::clone(&y)]),
        of(Operation::Sum, [inner, y]),
    ];
    let (nodes, roots, n) = (all.nodes(), all.roots(), all.len());
    for kernel in sums {
        let right = |at| kernel.definition(nodes, roots[at / n], roots[at % n]);
        let expected: Vec<f64> = (0..n * n).map(right).collect();
        assert_eq!(matrix(&*kernel, &all), expected, "{kernel:?}");
        let index = Index::new(kernel.clone(), all.clone(), false).unwrap();
        let mut out = vec![0.0; n * n];
        index.fill_with(&all, &mut out, &jobs(1)).unwrap();
        assert_eq!(out, expected, "{kernel:?}");
    }
    // Each part has the derivative of its own.
    let mut slopes = vec![0.0; 2 * 4];
    let options = Options::default();
    gram::gradient(&*sum, &trees, None, options, &mut slopes).unwrap();
    assert_eq!(slopes, [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]);
}

/// Its text is no parameter: who asked the kernel for its name and numbers alone would take
/// one for the other.
#[test]
fn models_of_it_score_what_its_definition_gives_also_in_sums_and_products() {
    let [a, b] = ["A", "B"].map(LabelCount::arc);
    let all = corpus::read(&["(A)", "(B)", "(A x)", "(B (A x))", "(C)", "(A x)"]);
    let alphas = [1.0, 2.0, -4.0, 8.0, 16.0, 32.0];
    let (nodes, roots) = (all.nodes(), all.roots());
    let sst: Arc<dyn Kernel> = Arc::new(SubsetTree::new(0.5));
    let kernels = [
        Arc::clone(&a),
        of(Operation::Sum, [&a, &b].map(Arc::clone)),
        of(Operation::Product, [&a, &b].map(Arc::clone)),
        of(Operation::Product, [Arc::clone(&b), Arc::clone(&sst)]),
        of(Operation::Sum, [of(Operation::Scaled(0.25), [Arc::clone(&b)]), sst]),
    ];
    for kernel in &kernels {
        let expected: Vec<f64> = (roots.iter())
            .map(|&x| {
                let terms = roots.iter().zip(&alphas);
                terms.map(|(&y, alpha)| alpha * kernel.definition(nodes, y, x)).sum()
            })
            .collect();
        let options = ModelOptions::default();
        let mut model = Model::new(kernel, options).unwrap();
        let mut by_parts = SumModel::new(kernel, options).unwrap();
        model.add_with(&all, &alphas, &jobs(1)).unwrap();
        by_parts.add_with(&all, &alphas, &jobs(1)).unwrap();
        assert_eq!(model.score_with(&all, &jobs(2)).unwrap().0, expected, "{kernel:?}");
        assert_eq!(
            by_parts.score_with(&all, &jobs(2)).unwrap().0,
            expected,
            "{kernel:?}"
        );
        let mut own = Perceptron::new(kernel, options, Vote::Last, None, 1.0).unwrap();
        own.learn_with(&all.select([0, 1]), &[1.0, -1.0], None, &jobs(1)).unwrap();
        // Both are mistakes: no kernel is below 0.
        let value = |tree: usize, x| kernel.definition(nodes, roots[tree], x);
        let expected: Vec<f64> =
            roots.iter().map(|&x| value(0, x) - value(1, x)).collect();
        let scores = own.score_with(&all, None, &jobs(1)).unwrap().0;
        assert_eq!(scores, expected, "{kernel:?}");
    }
    // Models of one object are merged, those of another of that name are not.
    let [mut one, two, other] = [&a, &a, &b].map(|kernel| {
        let mut model = Model::new(kernel, ModelOptions::default()).unwrap();
        model.add_with(&all, &alphas, &jobs(1)).unwrap();
        model
    });
    one.merge_with(&two, 2.0, &jobs(1)).unwrap();
    let [once, thrice] =
        [&two, &one].map(|of| of.score_with(&all, &jobs(1)).unwrap().0);
    assert!(once.iter().zip(&thrice).all(|(once, thrice)| 3.0 * once == *thrice));
    let refused = one.merge_with(&other, 1.0, &jobs(1));
    assert!(matches!(refused, Err(Error::Parameter { name: "other", .. })));
}

#[test]
fn kernels_of_this_crate_are_equal_if_their_fields_are() {
    let weights = |of| Arc::new(Weights::new().with_others(of).unwrap());
    let weighted = |decay, of, counts| -> Arc<dyn Kernel> {
        let kernel = Arc::new(Subtree::new(decay));
        Arc::new(Weighted::new(kernel, weights(of), counts).unwrap())
    };
    let pairs = |sigma| LabelPairs::new([("a", "b", sigma)]);
    let smoothed = SmoothedPartialTree::new(PartialTree::default(), pairs(0.5));
    let mut all: Vec<Arc<dyn Kernel>> = registry::settings();
    all.extend([
        weighted(0.5, 2.0, Counts::Linear),
        weighted(0.4, 2.0, Counts::Linear),
        weighted(0.5, 3.0, Counts::Linear),
        weighted(0.5, 2.0, Counts::Log),
        // Similarities are compared by identity.
        Arc::new(smoothed.clone()),
        Arc::new(SmoothedPartialTree::new(PartialTree::default(), pairs(0.5))),
    ]);
    // Nothing but the kernel itself tells one from another, and a sum of each from a sum.
    for (i, a) in all.iter().enumerate() {
        for (j, b) in all.iter().enumerate() {
            assert_eq!(**a == **b, i == j, "{a:?} {b:?}");
            let twice =
                [a, b].map(|part| of(Operation::Scaled(2.0), [Arc::clone(part)]));
            assert_eq!(*twice[0] == *twice[1], i == j, "{a:?} {b:?}");
        }
    }
    assert!(*weighted(0.5, 2.0, Counts::Log) == *weighted(0.5, 2.0, Counts::Log));
    let kernel: &dyn Kernel = &smoothed;
    assert!(*kernel == *(&smoothed.clone() as &dyn Kernel));
    let changed = smoothed.with("mu", 0.1.into()).unwrap();
    assert!(*kernel != *changed);
}
