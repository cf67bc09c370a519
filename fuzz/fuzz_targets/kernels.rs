//! One kernel, every way to compute it, and the definition.

#![no_main]

use libfuzzer_sys::fuzz_target;
use source::{Source, every_way};

fuzz_target!(|bytes: &[u8]| {
    let mut source = Source::new(bytes);
    let kernel = source.kernel();
    let options = source.options();
    let max_nodes = source.pick(&[8, 16, 40]);
    every_way(&mut source, &kernel, options, max_nodes);
});
