//! All Rust tests in one program: it is linked once, where two dozen took minutes.
//! `cargo test --test rust gram::` runs those of one file.

#[path = "../../benches/baseline/mod.rs"]
mod baseline;
#[path = "../../benches/corpus/mod.rs"]
mod corpus;
#[path = "../../benches/baseline/edit.rs"]
mod edit_baseline;
#[path = "../../benches/worst/mod.rs"]
mod worst;

mod arrays;
mod clades;
mod context;
mod dag;
mod dtk;
mod edit;
mod elastic;
mod features;
mod forest;
mod fragments;
mod fuzz_seeds;
mod golden;
mod gradient;
mod gram;
mod hardening_forest;
mod measure;
mod neighbours;
mod own_kernel;
mod pair;
mod pairs;
mod partial;
mod plain;
mod published;
mod registry;
mod shared;
mod smoothed;
mod solve;
mod stopwatch;
mod subpath;
mod support;
mod surface;
mod transform;
mod uses;
mod weights;
