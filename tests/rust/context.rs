//! Who may stop a call, and who is told how far it is.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::corpus;
use crate::registry::{asked, jobs, one_of_each, stop};
use treekernel_rs::gram::{self, Options};
use treekernel_rs::kernel::{ElasticTree, Kernel, Parameter, Prepared, SubsetTree};
use treekernel_rs::{Context, Error, NodeId, Nodes, Result, neighbours};

#[test]
fn a_context_asks_when_it_is_time() {
    let n_asked = Cell::new(0);
    let count = |_, _| {
        n_asked.set(n_asked.get() + 1);
        Ok(())
    };
    let context = Context::watched(count);
    (0..1_000).for_each(|_| context.check().unwrap());
    context.check_now().unwrap();
    context.advance(1, 2).unwrap();
    assert_eq!(n_asked.take(), 0);
    context.report(2, 2).unwrap();
    assert_eq!(n_asked.take(), 1);
    std::thread::sleep(Duration::from_millis(60));
    (0..32).for_each(|_| context.check().unwrap());
    assert_eq!(n_asked.take(), 1);

    let context = asked(count);
    context.check().unwrap();
    context.check_now().unwrap();
    assert_eq!(n_asked.take(), 2);
}

#[test]
fn progress_grows_to_the_number_of_rows() {
    let all = corpus::read(&corpus::generated(300, 1));
    for kernel in one_of_each() {
        for n in [1, 3] {
            let told = RefCell::new(Vec::new());
            let context = asked(|done, total| {
                told.borrow_mut().push((done, total));
                Ok(())
            })
            .with_n_jobs(Some(n));
            let options = Options::default().with_normalize(true);
            let found = gram::gram_with(&*kernel, &all, None, options, &context);
            assert_eq!(found, gram::gram_with(&*kernel, &all, None, options, &jobs(1)));
            let told = told.borrow();
            let total = told[0].1;
            assert!(told.iter().all(|&(done, all)| done <= total && all == total));
            assert!(told.is_sorted() && told[0].0 == 0, "{kernel:?}: {told:?}");
            assert_eq!(told.last(), Some(&(total, total)), "{kernel:?}");
        }
    }
}

/// Notes that its trees are made ready.
#[derive(Debug)]
struct Noting(Arc<AtomicBool>);

impl Kernel for Noting {
    fn name(&self) -> &'static str {
        "Noting"
    }

    fn parameters(&self) -> Vec<Parameter> {
        Vec::new()
    }

    fn definition(&self, _: &Nodes, _: NodeId, _: NodeId) -> f64 {
        1.0
    }

    fn pairs(
        &self,
        nodes: &Arc<Nodes>,
        roots: &[NodeId],
        context: &Context,
    ) -> Result<Box<dyn Prepared>> {
        self.0.store(true, Ordering::Relaxed);
        SubsetTree::new(0.4).pairs(nodes, roots, context)
    }
}

#[test]
fn joins_of_two_stores_can_be_stopped_while_these_become_one() {
    let [x, y] = [1, 2].map(|seed| corpus::read(&corpus::generated(50, seed)));
    let is_ready = Arc::new(AtomicBool::new(false));
    let kernel = Noting(Arc::clone(&is_ready));
    let (options, sink) = (Options::default(), &mut |_| Ok(()));
    let join =
        neighbours::join_with(&kernel, &x, Some(&y), 0.5, options, sink, &stop());
    assert_eq!(join.err(), Some(Error::Interrupted));
    let top = neighbours::top_k_with(&kernel, &x, Some(&y), 1, options, &stop());
    assert_eq!(top.err(), Some(Error::Interrupted));
    let (i, j) = (vec![0], vec![0]);
    let pairs =
        neighbours::pairs_with(&kernel, &x, Some(&y), (&i, &j), options, &stop());
    assert_eq!(pairs.err(), Some(Error::Interrupted));
    assert!(!is_ready.load(Ordering::Relaxed));
}

#[test]
fn every_kernel_can_be_stopped_while_its_trees_are_made_ready() {
    let all = corpus::read(&corpus::generated(50, 1));
    for kernel in one_of_each() {
        let pairs = kernel.pairs(all.nodes(), all.roots(), &stop());
        assert_eq!(pairs.err(), Some(Error::Interrupted), "{kernel:?}");
    }
    let sloped = ElasticTree::new(0.4).sloped(all.nodes(), all.roots(), &stop());
    assert_eq!(sloped.err(), Some(Error::Interrupted));
}
