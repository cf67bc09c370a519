//! Parsing never panics, and what it accepts survives printing: reading the printed trees
//! again and printing those gives the same text.

#![no_main]

use libfuzzer_sys::fuzz_target;
use treekernel_rs::Forest;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let Ok(forest) = Forest::from_brackets(text) else {
        return;
    };
    let printed = forest.to_brackets();
    let again = Forest::from_bracket_items(printed.iter().map(String::as_str))
        .expect("a printed tree is legal bracketed text");
    assert_eq!(again.to_brackets(), printed, "from {text:?}");
});
