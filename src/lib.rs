#![doc = include_str!("../README.md")]
#![deny(missing_docs)]
//!
//! # A tour of the crate
//!
//! Data flows one way; a module imports only what stands above it.
//!
//! | module | what it does |
//! |---|---|
//! | [`error`] | the one error type; every variant says where, what was expected, what was got |
//! | `context` | [`Context`]: who may stop a call, who is told how far it is, its threads |
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

// Trees for tests, which name the crate as its users do.
pub mod clades;
mod context;
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
