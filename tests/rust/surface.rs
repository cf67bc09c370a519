//! What holds of all public functions, read from the sources.

use std::fs;
use std::path::{Path, PathBuf};

/// The files of the library, without the bindings.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("python") {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

/// The name and the parameters of each public function. Those of a macro are no functions.
fn functions(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split("pub fn ").skip(1).map(|rest| {
        let name = rest.split(['(', '<']).next().unwrap();
        (name, rest.split(" {\n").next().unwrap())
    })
}

#[test]
fn every_call_in_a_context_has_a_form_without() {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../src"), &mut files);
    let mut n_calls = 0;
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let count = |wanted: &str| functions(&text).filter(|f| f.0 == wanted).count();
        let in_context = functions(&text).filter(|f| f.1.contains("context: &Context"));
        for (name, _) in in_context {
            let plain = name.strip_suffix("_with").unwrap_or("no form without _with");
            // Other types of the file may have such a function as well.
            assert!(count(plain) >= count(name), "{name} of {}", file.display());
            n_calls += 1;
        }
    }
    assert!(n_calls > 50, "{n_calls}");
}
