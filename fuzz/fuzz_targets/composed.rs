//! Kernels made of kernels, with weights and functions of counts, or of labels that are
//! alike: every way to compute them, and the definition.

#![no_main]

use libfuzzer_sys::fuzz_target;
use source::{Source, every_way};

fuzz_target!(|bytes: &[u8]| {
    let mut source = Source::new(bytes);
    let kernel = source.made_kernel();
    let options = source.options();
    let max_nodes = source.pick(&[6, 10, 16]);
    every_way(&mut source, &kernel, options, max_nodes);
});
