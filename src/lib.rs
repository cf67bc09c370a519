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
//! | `intern` | the hash table from content to ids behind everything that is interned |
//! | `lists` | lists laid end to end |
//! | [`label`] | labels to and from [`Label`] ids |
//! | [`forest`] | hash-consed trees: equal subtrees are one node, children before parents |
//! | [`parse`] | bracketed text to a [`Forest`], and back |
//! | [`kernel`] | tree kernels: parameters, definitions, single pairs |
//! | [`gram`] | whole kernel matrices, rows by rows |
//! | [`dag`] | kernel machines as graphs of weighted subtrees: exact scores, online learning |
//! | [`dtk`] | trees as vectors whose dot products approximate a kernel |
//! | [`pair`] | pairs of trees with common placeholders, and their kernels |
//! | `python` | the only files that name pyo3 or numpy (feature `python`) |

#[cfg(test)]
#[path = "../benches/corpus/mod.rs"]
mod corpus;
pub mod dag;
pub mod dtk;
pub mod error;
pub mod forest;
pub mod gram;
mod intern;
pub mod kernel;
pub mod label;
mod lists;
pub mod pair;
pub mod parse;
#[cfg(feature = "python")]
mod python;
mod stream;
mod team;
mod vector;

pub use error::{Error, ParseError, Result};
pub use forest::{Forest, NodeId, Nodes, ProductionId};
pub use kernel::Kernel;
pub use label::{Label, Labels};
