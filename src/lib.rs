#![deny(missing_docs)]
//! Tree kernels and tree edit distance: how alike trees are, for whole collections of them.
//!
//! A tree kernel counts the parts that two labelled, ordered trees share, each weighted by
//! its size. It is a dot product, so trees can take the place of vectors in support vector
//! machines, Gaussian processes and searches for neighbours. This crate computes matrices of
//! kernels from an index of subtrees, finds near trees without looking at all pairs, trains
//! models and computes their scores exactly, and makes vectors of trees. The Python package
//! of the same name is this crate with its feature `python`.
//!
//! # Trees
//!
//! A [`Forest`] is a list of trees. Equal subtrees are stored once, whatever trees they are in.
//!
//! ```
//! use treekernel_rs::Forest;
//!
//! let forest = Forest::from_brackets(
//!     "(S (NP (DT the) (NN dog)) (VP (VBZ barks)))
//!      (S (NP (DT the) (NN dog)) (VP (VBZ sleeps)))
//!      (NP (DT the) (NN cat))",
//! )?;
//! assert_eq!(forest.n_nodes(), [9, 9, 5]);
//! assert_eq!(forest.n_distinct(), 16);
//! # Ok::<(), treekernel_rs::Error>(())
//! ```
//!
//! [`Forest::from_arrays`] takes labels and parents instead of text. Forests are joined by
//! [`Forest::concat`] and cut by [`Forest::select`].
//!
//! # A matrix
//!
//! ```
//! # use treekernel_rs::Forest;
//! # let forest = Forest::from_brackets(
//! #     "(S (NP (DT the) (NN dog)) (VP (VBZ barks)))
//! #      (S (NP (DT the) (NN dog)) (VP (VBZ sleeps)))
//! #      (NP (DT the) (NN cat))",
//! # )?;
//! use treekernel_rs::{gram, kernel::SubsetTree};
//!
//! let kernel = SubsetTree::new(0.4); // λ, what each production of a part multiplies
//! let options = gram::Options::default().with_normalize(true);
//! let matrix = gram::gram(&kernel, &forest, None, options)?; // an `ndarray::Array2`
//! assert!((matrix[[0, 1]] - 0.816).abs() < 1e-3);
//!
//! // Other trees with these.
//! let others = Forest::from_brackets("(NP (DT the) (NN dog))")?;
//! assert_eq!(gram::gram(&kernel, &others, Some(&forest), options)?.dim(), (1, 3));
//! # Ok::<(), treekernel_rs::Error>(())
//! ```
//!
//! [`kernel`] has the kernels, their sums and products, similar labels and weights, and shows
//! how to write your own. [`gram`] has rows on demand, single pairs and derivatives. What
//! takes a kernel takes any other [`Measure`](gram::Measure) of two trees as well.
//!
//! # Nearest trees, and pairs above a threshold
//!
//! ```
//! # use treekernel_rs::{Forest, gram, kernel::SubsetTree};
//! # let forest = Forest::from_brackets(
//! #     "(S (NP (DT the) (NN dog)) (VP (VBZ barks)))
//! #      (S (NP (DT the) (NN dog)) (VP (VBZ sleeps)))
//! #      (NP (DT the) (NN cat))",
//! # )?;
//! # let kernel = SubsetTree::new(0.4);
//! # let options = gram::Options::default().with_normalize(true);
//! use treekernel_rs::neighbours::{self, FoundPairs};
//!
//! let (nearest, _) = neighbours::top_k(&kernel, &forest, None, 1, options)?;
//! assert_eq!(nearest.indices, [1, 0, 0]);
//!
//! let mut found = FoundPairs::default();
//! neighbours::join(&kernel, &forest, None, 0.8, options, &mut |pairs| found.append(pairs))?;
//! assert_eq!((found.rows, found.columns), (vec![0], vec![1]));
//! # Ok::<(), treekernel_rs::Error>(())
//! ```
//!
//! A [`neighbours::Index`] holds trees that are asked more than once.
//!
//! # A model
//!
//! A support vector machine, trained and applied without a kernel matrix:
//!
//! ```
//! # use treekernel_rs::{Forest, kernel::SubsetTree};
//! # let forest = Forest::from_brackets(
//! #     "(S (NP (DT the) (NN dog)) (VP (VBZ barks)))
//! #      (S (NP (DT the) (NN dog)) (VP (VBZ sleeps)))
//! #      (NP (DT the) (NN cat))",
//! # )?;
//! # let kernel = SubsetTree::new(0.4);
//! use treekernel_rs::dag::solve::{Intercept, Limits, Loss, Problem, Solver};
//!
//! let problem = Problem {
//!     loss: Loss::Hinge,
//!     intercept: Intercept::Free,
//!     n_outputs: 1,
//!     targets: vec![1.0, 1.0, -1.0], // a sentence or none
//!     costs: vec![10.0; 3],
//!     preferences: None,
//! };
//! let mut solver = Solver::new(&kernel, true, &forest, problem, 0)?;
//! assert!(solver.run(Limits { tol: 1e-3, max_iter: 100, cache: 1 << 20 })?);
//! let others = Forest::from_brackets("(S (NP it) (VP (VBZ barks))) (NP (DT a) (NN cat))")?;
//! let scores = solver.score(&others, None)?;
//! assert!(scores[0] > 0.0 && scores[1] < 0.0);
//! # Ok::<(), treekernel_rs::Error>(())
//! ```
//!
//! A [`dag::Model`] has weights from anywhere, and explains its scores; a [`dag::Perceptron`]
//! learns from a stream of trees.
//!
//! # Edit distance
//!
//! ```
//! # use treekernel_rs::{Forest, gram, neighbours};
//! # let forest = Forest::from_brackets(
//! #     "(S (NP (DT the) (NN dog)) (VP (VBZ barks)))
//! #      (S (NP (DT the) (NN dog)) (VP (VBZ sleeps)))
//! #      (NP (DT the) (NN cat))",
//! # )?;
//! use treekernel_rs::edit::EditDistance;
//!
//! let distance = EditDistance::default(); // each edit costs 1
//! let [a, b] = [0, 1].map(|tree| forest.select([tree]));
//! assert_eq!(distance.pair(&a, &b)?, 1.0); // barks, sleeps
//! let (nearest, _) = neighbours::top_k(&distance, &forest, None, 1, gram::Options::default())?;
//! assert_eq!(nearest.values, [1.0, 1.0, 5.0]);
//! # Ok::<(), treekernel_rs::Error>(())
//! ```
//!
//! # Vectors
//!
//! Vectors whose dot products are near the kernel, for linear models and vector databases:
//!
//! ```
//! # use treekernel_rs::{Forest, kernel::SubsetTree};
//! # let forest = Forest::from_brackets(
//! #     "(S (NP (DT the) (NN dog)) (VP (VBZ barks)))
//! #      (S (NP (DT the) (NN dog)) (VP (VBZ sleeps)))
//! #      (NP (DT the) (NN cat))",
//! # )?;
//! # let kernel = SubsetTree::new(0.4);
//! use treekernel_rs::dtk::{DistributedTrees, EncodeOptions, Settings};
//!
//! let encoder = DistributedTrees::new(Settings::new(&kernel, 1024))?;
//! let mut vectors = vec![0.0f32; forest.len() * 1024];
//! encoder.encode(&forest, EncodeOptions::default(), &mut vectors)?;
//! # Ok::<(), treekernel_rs::Error>(())
//! ```
//!
//! [`features`] gives each part a column and a name instead.
//!
//! # Stopping a call, progress and threads
//!
//! Every call that may take long has two forms: `gram` runs to its end on all cores,
//! `gram_with` takes a [`Context`] as its last argument.
//!
//! ```
//! # use treekernel_rs::{Forest, gram, kernel::SubsetTree};
//! # let forest = Forest::from_brackets("(S (A a)) (S (A b))")?;
//! # let (kernel, options) = (SubsetTree::new(0.4), gram::Options::default());
//! use treekernel_rs::{Context, Error};
//!
//! let context = Context::watched(|done, total| {
//!     println!("{done} of {total} rows");
//!     Ok(()) // an error ends the call
//! });
//! let context = context.with_n_jobs(Some(2));
//! let matrix = gram::gram_with(&kernel, &forest, None, options, &context)?;
//! # assert_eq!(matrix.dim(), (2, 2));
//! # let stopped = Context::watched(|_, _| Err(Error::Interrupted));
//! # let stopped = stopped.with_interval(std::time::Duration::ZERO);
//! # let done = gram::gram_with(&kernel, &forest, None, options, &stopped);
//! # assert_eq!(done, Err(Error::Interrupted));
//! # Ok::<(), Error>(())
//! ```
//!
//! # Errors
//!
//! Everything returns one [`Error`], whose variants say where, what was expected and what was
//! found. Parameters are checked when a kernel is used. A request that the system has no
//! memory for is [`Error::Memory`], and a failed call changes nothing unless its page says so.
//!
//! ```
//! use treekernel_rs::{Error, Forest, gram, kernel::SubsetTree};
//!
//! let Err(Error::Parse(error)) = Forest::from_brackets("(S (A a) (B b") else { panic!() };
//! assert_eq!((error.line, error.column, error.open), (1, 14, Some((1, 10))));
//!
//! let forest = Forest::from_brackets("(S (A a) (B b))")?;
//! let error = gram::gram(&SubsetTree::new(-0.4), &forest, None, gram::Options::default());
//! assert!(matches!(error, Err(Error::Parameter { name: "decay", .. })));
//! # Ok::<(), Error>(())
//! ```
//!
//! # Modules
//!
//! Data flows one way; a module imports only what stands above it. Those without a link are
//! private.
//!
//! | module | what it does |
//! |---|---|
//! | [`error`] | the one error type; every variant says where, what was expected, what was got |
//! | `context` | [`Context`]: who may stop a call, who is told its progress, its threads |
//! | `intern` | the hash table from content to ids behind everything that is interned |
//! | `ragged` | lists laid end to end |
//! | `memory` | lists and maps that return an error where there is no memory |
//! | [`label`] | labels to and from [`Label`] ids |
//! | [`forest`] | hash-consed trees: equal subtrees are one node, children before parents |
//! | `transform` | forests made of others: sorted, collapsed, relabelled, pruned |
//! | [`parse`] | bracketed text to a [`Forest`], and back |
//! | [`kernel`] | tree kernels: parameters, definitions, single pairs |
//! | `index` | the index of a kernel: walked by a query tree, told to a sink |
//! | [`gram`] | whole kernel matrices, rows by rows |
//! | [`neighbours`] | what is alike: nearest trees and similarity joins, exact, without all pairs |
//! | [`features`] | trees as sparse vectors of named features: subtrees, fragments, paths, pq-grams |
//! | [`dag`] | kernel machines as graphs of weighted subtrees: exact scores, online learning |
//! | [`dtk`] | trees as vectors whose dot products approximate a kernel |
//! | [`edit`] | tree edit distance: what it costs to make one tree another |
//! | [`clades`] | Robinson-Foulds distance: by what groups of taxa two phylogenies differ |
//! | [`pair`] | pairs of trees with common placeholders, and their kernels |
//! | `python` | the only files that name pyo3 or numpy (feature `python`) |

#[cfg(test)]
extern crate self as treekernel_rs;

/// The pages for people who come from PyPI and from crates.io: their examples run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[doc = include_str!("README.md")]
struct Pages;

pub mod clades;
mod context;
// Trees for tests, which name the crate as its users do.
#[cfg(test)]
#[path = "../benches/corpus/mod.rs"]
mod corpus;
pub mod dag;
pub mod dtk;
pub mod edit;
pub mod error;
pub mod features;
pub mod forest;
pub mod gram;
mod ids;
mod index;
mod intern;
pub mod kernel;
pub mod label;
mod memory;
pub mod neighbours;
mod nontemporal;
pub mod pair;
pub mod parse;
#[cfg(feature = "python")]
mod python;
mod ragged;
mod threads;
mod transform;
mod vector;

pub use context::Context;
pub use error::{Error, ParseError, Result};
pub use forest::{Forest, NodeId, Nodes, ProductionId};
pub use kernel::Kernel;
pub use label::{Label, Labels};
pub use transform::Branching;
