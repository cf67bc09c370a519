//! Single pairs of trees: hand values, either end first, large trees, interrupts, limits.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::corpus::{self, Random, read};
use crate::registry::{asked, assert_close, largest, one_of_each, settings};
use treekernel_rs::gram::{self, Options};
use treekernel_rs::kernel::{
    Counts, Kernel, Parameter, Prepared, Scaled, SubsetTree, Subtree, Weighted,
    Weights, Worker,
};
use treekernel_rs::{Context, Error, Forest, NodeId, Nodes, Result};

fn pair(kernel: &dyn Kernel, a: &Forest, b: &Forest) -> f64 {
    gram::pair(kernel, a, b, false).unwrap()
}

fn chain(n: usize) -> String {
    "(A ".repeat(n) + "A" + &")".repeat(n)
}

#[test]
fn subtree_kernels_have_their_hand_values() {
    let trees = read(&["(S (A a) (B b))", "(S (A z) (B b))", "(A (B c))", "(A B)"]);
    let cases = [
        (0, 0, 0.5, 0.0, 1.125),
        (2, 3, 1.0, 0.0, 0.0),
        (0, 1, 1.0, 0.0, 1.0),
        (0, 1, 1.0, 1.0, 2.0),
    ];
    for (a, b, decay, leaf_weight, expected) in cases {
        let kernel = Subtree::new(decay).with_leaf_weight(leaf_weight);
        assert_eq!(pair(&kernel, &trees.select([a]), &trees.select([b])), expected);
    }
}

#[test]
fn deep_and_wide_trees_take_linear_time_and_underflow_to_nothing() {
    let n = 100_000;
    let wide = String::from("(W") + &" (A A)".repeat(n) + ")";
    let wide_text = wide.clone();
    let [deep, wide] = [read(&[chain(n)]), read(&[wide])];
    let kernel = Subtree::new(0.4).with_leaf_weight(1.0);
    // Σ 0.4^k, and the one leaf.
    let own = pair(&kernel, &deep, &deep);
    assert!((own - 0.4 / 0.6 - 1.0).abs() < 1e-12, "{own}");
    let both = read(&[chain(n), wide_text, "(A A)".to_owned()]);
    let matrix = gram::gram(&kernel, &both, None, Options::default()).unwrap();
    let n = n as f64;
    assert_eq!(pair(&kernel, &deep, &wide), 1.4 * n);
    assert_eq!(pair(&kernel, &wide, &wide), 1.4 * (n * n));
    for (place, expected) in [([1, 0], 1.4 * n), ([1, 1], 1.4 * n * n)] {
        assert_close(matrix[place], expected, &|| format!("{place:?}"));
    }
}

#[test]
fn matrices_of_larger_trees_have_the_values_of_their_pairs() {
    // From 150 on, some chains are too deep for lists and wide nodes are not.
    for (round, size) in [20, 60, 150, 400].into_iter().enumerate() {
        let trees = corpus::trees(&mut Random(round as u64), 60, size);
        let all = read(&trees);
        // Exponentials, as of Gaussians, multiply the rounding of what is below them.
        let is_plain =
            |kernel: &&Arc<dyn Kernel>| !format!("{kernel:?}").contains("Gaussian");
        for kernel in one_of_each().iter().filter(is_plain).chain(&largest()) {
            let (of_all, half) = (Options::default(), all.select(0..30));
            let matrix = gram::gram(&**kernel, &all, Some(&half), of_all).unwrap();
            let lower = gram::gram(&**kernel, &all, None, of_all).unwrap();
            let pairs = gram::SinglePairs::new(&**kernel, &all).unwrap();
            let mut of = pairs.worker();
            for (i, j) in (0..60).flat_map(|i| (0..30).map(move |j| (i, j))) {
                let what = || format!("{kernel:?} {} {}", trees[i], trees[j]);
                let value = of(i, j).unwrap();
                assert_close(matrix[[i, j]], value, &what);
                assert_close(lower[[i, j]], value, &what);
            }
        }
    }
}

#[test]
fn a_pair_has_the_same_bits_from_either_end_and_in_any_store() {
    for (number, kernel) in settings().into_iter().enumerate() {
        let trees = corpus::trees(&mut Random(number as u64), 24, 30);
        let all = read(&trees);
        for i in 0..trees.len() {
            let j = (7 * i + 3) % trees.len();
            let alone = [&trees[i..=i], &trees[j..=j]].map(read);
            let [a, b] = [all.select([i]), all.select([j])];
            for normalize in [false, true] {
                let of = |a, b| gram::pair(&*kernel, a, b, normalize).unwrap();
                let value = of(&a, &b);
                let others = [of(&b, &a), of(&alone[0], &alone[1]), of(&alone[1], &a)];
                assert_eq!(value.to_bits(), others[0].to_bits(), "{kernel:?} {i} {j}");
                assert_eq!(value.to_bits(), others[1].to_bits(), "{kernel:?} {i} {j}");
                assert_eq!(others[2].to_bits(), of(&b, &alone[0]).to_bits());
            }
        }
    }
}

#[test]
fn a_forest_without_trees_is_named() {
    let (one, none) = (read(&["(a b)"]), Forest::default());
    for (a, b, name) in [(&none, &one, "a"), (&one, &none, "b")] {
        let error = gram::pair(&SubsetTree::new(0.4), a, b, true).unwrap_err();
        assert!(matches!(error, Error::Length { array, got: 0, .. } if array == name));
    }
}

#[test]
fn many_pairs_of_wide_nodes_ask_on_the_way_whether_to_go_on() {
    // 90,000 pairs of nodes, too few for an index, each with 2,000 children.
    let children = |n: usize| " (A b)".repeat(n);
    let node = |i: usize| format!("(Q{} (A c){})", children(i), children(1_999 - i));
    let texts: Vec<_> = (0..300).map(node).collect();
    let trees = read(&[format!("(R {})", texts.join(" ")), "(R (A b))".to_owned()]);
    let kernel: &dyn Kernel = &SubsetTree::new(0.01);
    let roots = trees.roots();
    let ask = &Context::default();
    let trees = kernel.pairs(trees.nodes(), roots, ask).unwrap();
    let mut of = trees.worker();
    let few = of(0, 1, &Context::default()).unwrap();
    let mut n_calls = 0;
    let stop = &asked(|_, _| {
        n_calls += 1;
        if n_calls < 3 { Ok(()) } else { Err(Error::Interrupted) }
    });
    assert_eq!(of(0, 0, stop), Err(Error::Interrupted));
    assert_eq!(of(0, 1, &Context::default()), Ok(few));
}

#[test]
fn single_pairs_of_too_many_nodes_are_refused_where_there_is_no_index() {
    let trees = read(&[chain(6_000)]);
    let kernel: &dyn Kernel = &SubsetTree::new(0.4);
    let own = pair(kernel, &trees, &trees);
    assert!(own.is_finite() && own > 0.4 * 3.6e7, "{own}");
    // The kernel itself has the index; with weights it has none for single pairs.
    let ask = &Context::default();
    let single = |kernel: &dyn Kernel| {
        let prepared = kernel.pairs(trees.nodes(), trees.roots(), ask).unwrap();
        prepared.worker()(0, 0, ask)
    };
    assert_eq!(single(kernel).unwrap().value().to_bits(), own.to_bits());
    let (sst, ones) = (Arc::new(SubsetTree::new(0.4)), Arc::new(Weights::new()));
    let refused = single(&Weighted::new(sst, ones, Counts::Linear).unwrap());
    assert!(matches!(refused, Err(Error::Capacity { .. })), "{refused:?}");
}

/// Pairs of the trees from number 64 on take two seconds.
#[derive(Debug, Clone)]
struct Slow;

impl Kernel for Slow {
    fn name(&self) -> &'static str {
        "Slow"
    }

    fn parameters(&self) -> Vec<Parameter> {
        Vec::new()
    }

    fn definition(&self, _: &Nodes, _: NodeId, _: NodeId) -> f64 {
        1.0
    }

    fn pairs(
        &self,
        _: &Arc<Nodes>,
        _: &[NodeId],
        _: &Context,
    ) -> Result<Box<dyn Prepared>> {
        Ok(Box::new(Self))
    }
}

impl Prepared for Slow {
    fn worker(&self) -> Worker<'_> {
        Box::new(|a, _, context| {
            let start = Instant::now();
            while a >= 64 && start.elapsed() < Duration::from_secs(2) {
                context.check_now()?;
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(Scaled::from_f64(1.0))
        })
    }
}

#[test]
fn a_caller_who_waits_for_helpers_asks_on_the_way_whether_to_go_on() {
    let trees: Vec<_> = (0..66).map(|i| format!("(a b{i})")).collect();
    let start = Instant::now();
    let context = Context::watched(|_, _| {
        let is_late = start.elapsed() > Duration::from_millis(200);
        if is_late { Err(Error::Interrupted) } else { Ok(()) }
    })
    .with_n_jobs(Some(2));
    let stopped =
        gram::diagonal_with(&Slow, &read(&trees), Options::default(), &context);
    assert_eq!(stopped, Err(Error::Interrupted));
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}
