//! The table of texts that Rust and Python tests read alike.

use serde_json::{Value, json};
use treekernel_rs::{Error, Forest, Result, parse};

/// Bytes behind a JSON input: a string's UTF-8, or those written in hexadecimal.
fn bytes(input: &Value) -> Vec<u8> {
    if let Some(text) = input.as_str() {
        return text.as_bytes().to_vec();
    }
    let hex = input["hex"].as_str().unwrap();
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(byte).collect()
}

fn read(input: &Value) -> Result<Forest> {
    let Some(items) = input.as_array() else {
        return Forest::from_brackets(parse::utf8(&bytes(input), None)?);
    };
    let items: Vec<Vec<u8>> = items.iter().map(bytes).collect();
    let texts =
        items.iter().enumerate().map(|(item, bytes)| parse::utf8(bytes, Some(item)));
    Forest::from_bracket_items(texts.collect::<Result<Vec<&str>>>()?)
}

/// What the table has to say of a text: the trees printed, or the error's place.
fn outcome(input: &Value) -> (&'static str, Value) {
    match read(input) {
        Ok(forest) => ("ok", json!(forest.to_brackets())),
        Err(Error::Parse(e)) => {
            let place = json!({
                "tree": e.tree, "line": e.line, "column": e.column, "offset": e.offset,
            });
            ("error", place)
        }
        Err(other) => panic!("not a parse error: {other}"),
    }
}

#[test]
fn every_row_of_the_table_holds() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../data/golden.tsv");
    let table = std::fs::read_to_string(path).expect(path);
    let mut wrong = Vec::new();
    let mut rows = 0;
    for line in table.lines().filter(|line| !line.starts_with('#') && !line.is_empty())
    {
        let fields: Vec<&str> = line.split('\t').collect();
        let [name, kind, input, expected] = fields[..] else {
            panic!("not four columns: {line}");
        };
        let json = |text| serde_json::from_str::<Value>(text).expect(name);
        let got = outcome(&json(input));
        if got != (kind, json(expected)) {
            wrong.push(format!(
                "{name}: {input}\n  expected {kind} {expected}\n  got {got:?}"
            ));
        }
        rows += 1;
    }
    assert!(rows >= 100, "the table has only {rows} rows");
    assert!(wrong.is_empty(), "{} of {rows} rows:\n{}", wrong.len(), wrong.join("\n"));
}
